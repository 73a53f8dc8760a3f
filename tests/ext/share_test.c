/* share_test.c: one engine per store in a process, however many ask for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share.h"

typedef struct place {
    char folder[64]; /* a fresh one */
    char path[96];   /* the store in it */
    mw_store_id store;
} place;

static int make_place(void **state)
{
    place *p = calloc(1, sizeof *p);
    if (!p) return 1;
    snprintf(p->folder, sizeof p->folder, "/tmp/memwal-share-XXXXXX");
    if (!mkdtemp(p->folder)) return 1;
    snprintf(p->path, sizeof p->path, "%s/store", p->folder);
    mw_schema schema = {.key = MW_KEY_TEXT, .declaration = mw_slice_of("x", 1)};
    mw_err err = {0};
    *state = p;
    return mw_db_create(mw_env_posix(), p->path, &schema, &p->store, &err) != MW_OK;
}

static void empty_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir) closedir(dir);
}

static int remove_place(void **state)
{
    place *p = *state;
    char link[128];
    snprintf(link, sizeof link, "%s/link", p->folder);
    unlink(link);
    empty_folder(p->path);
    rmdir(p->path);
    int rc = rmdir(p->folder);
    free(p);
    return rc;
}

static mx_store *opened(const char *path, bool ephemeral)
{
    mw_options options = mw_options_default();
    mx_store *store = NULL;
    char *error = NULL;
    if (mx_store_open(path, &options, NULL, ephemeral, &store, &error) != SQLITE_OK) {
        fail_msg("%s", error);
    }
    return store;
}

/* Opens where that must fail: the code; words go to text. */
static int refused(const char *path, const mw_store_id *expected, char text[256])
{
    mw_options options = mw_options_default();
    mx_store *store = NULL;
    char *error = NULL;
    int code = mx_store_open(path, &options, expected, false, &store, &error);
    assert_int_not_equal(code, SQLITE_OK);
    assert_null(store);
    snprintf(text, 256, "%s", error ? error : "");
    sqlite3_free(error);
    return code;
}

static void two_spellings_of_a_path_meet_in_one_engine(void **state)
{
    const place *p = *state;
    char link[128];
    snprintf(link, sizeof link, "%s/link", p->folder);
    assert_int_equal(symlink(p->path, link), 0);
    mx_store *first = opened(p->path, false);
    mx_store *second = opened(link, false);
    assert_ptr_equal(mx_store_db(first), mx_store_db(second));
    mx_store_close(first);
    assert_memory_equal(mw_db_store(mx_store_db(second)), &p->store, sizeof p->store);
    mx_store_close(second);
}

static mx_store *opened_for_reading(const char *path)
{
    mw_options options = mw_options_default();
    mx_store *store = NULL;
    char *error = NULL;
    options.read_only = true;
    if (mx_store_open(path, &options, NULL, false, &store, &error) != SQLITE_OK) {
        fail_msg("%s", error);
    }
    return store;
}

/* Who may write gets an engine that can, whoever came first; readers join it. */
static void a_writer_joins_no_engine_that_only_reads(void **state)
{
    const place *p = *state;
    mx_store *reader = opened_for_reading(p->path);
    mx_store *other = opened_for_reading(p->path);
    assert_true(mx_store_is_read_only(reader));
    assert_ptr_equal(reader, other);
    assert_null(mx_store_join_writer(reader));
    mx_store_close(other);
    mx_store *writer = opened(p->path, false);
    assert_ptr_not_equal(reader, writer);
    assert_false(mx_store_is_read_only(writer));
    other = opened_for_reading(p->path);
    assert_ptr_equal(other, writer);
    assert_null(mx_store_join_writer(writer));
    mx_store_close(other);
    other = mx_store_join_writer(reader);
    assert_ptr_equal(other, writer);
    mx_store_close(reader);
    mx_store_close(writer);
    assert_memory_equal(mw_db_store(mx_store_db(other)), &p->store, sizeof p->store);
    mx_store_close(other);
}

static void another_store_than_expected_is_refused(void **state)
{
    const place *p = *state;
    mw_store_id other = p->store;
    other.bytes[3] ^= 1;
    char text[256];
    assert_int_equal(refused(p->path, &other, text), SQLITE_CANTOPEN);
    mx_store *store = opened(p->path, false);
    assert_int_equal(refused(p->path, &other, text), SQLITE_CANTOPEN);
    assert_non_null(strstr(text, "is another one than this table's"));
    mx_store_close(store);
}

static void a_missing_folder_is_named(void **state)
{
    const place *p = *state;
    char missing[128];
    char text[256];
    char expected[400];
    snprintf(missing, sizeof missing, "%s/none", p->folder);
    snprintf(expected, sizeof expected,
             "memwal: the store %s cannot be opened: No such file or directory; the rows are in "
             "that folder, which a copy or backup of the database file does not take along: put it "
             "there, or "
             "DROP TABLE",
             missing);
    assert_int_equal(refused(missing, NULL, text), SQLITE_CANTOPEN);
    assert_string_equal(text, expected);
}

static void an_ephemeral_store_goes_with_its_last_user(void **state)
{
    const place *p = *state;
    mx_store *first = opened(p->path, true);
    mx_store *second = opened(p->path, true);
    mx_store_close(first);
    assert_int_equal(access(p->path, F_OK), 0);
    mx_store_close(second);
    assert_int_equal(access(p->path, F_OK), -1);
}

static int64_t rows_of(mx_store *store)
{
    mw_err err = {0};
    mw_snapshot *snapshot = NULL;
    assert_int_equal(mw_snapshot_take(mx_store_db(store), NULL, &snapshot, &err), MW_OK);
    int64_t count = mw_snapshot_count(snapshot);
    mw_snapshot_release(snapshot);
    return count;
}

/* Closing has no voice in SQLite: nothing is lost, the next opener hears it, once. */
static void a_failed_close_is_told_to_the_next_opener_once(void **state)
{
    const place *p = *state;
    mx_store *store = opened(p->path, false);
    mw_txn *txn = NULL;
    mw_err err = {0};
    bool replaced = false;
    assert_int_equal(mw_txn_begin(mx_store_db(store), 0, &txn, &err), MW_OK);
    assert_int_equal(mw_txn_put(txn, mw_slice_of("k", 1), mw_slice_of("", 0), &replaced, &err),
                     MW_OK);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, &err), MW_OK);
    assert_int_equal(mw_txn_commit(txn, &err), MW_OK);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit none = {0, limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    mx_store_close(store);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    char text[256];
    assert_int_equal(refused(p->path, NULL, text), SQLITE_FULL);
    assert_non_null(strstr(text, "memwal: closing the store "));
    assert_non_null(strstr(text, p->path));
    assert_non_null(strstr(text, " had failed: write of "));
    store = opened(p->path, false);
    assert_int_equal(rows_of(store), 1);
    mx_store_close(store);
}

enum { THREADS = 8, ROUNDS = 50 };

static void *open_and_close(void *path)
{
    for (int i = 0; i < ROUNDS; i++) {
        mw_options options = mw_options_default();
        mx_store *store = NULL;
        char *error = NULL;
        if (mx_store_open(path, &options, NULL, false, &store, &error) != SQLITE_OK) return error;
        mx_store_close(store);
    }
    return NULL;
}

/* A second engine would be refused as busy by the folder's lock. */
static void threads_never_meet_a_second_engine(void **state)
{
    place *p = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, p->path), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *error = NULL;
        pthread_join(threads[i], &error);
        if (error) fail_msg("%s", (char *)error);
    }
}

/* The child has the parent's records but neither its threads nor its right to write; what it opens
** itself is its own. */
static void a_forked_child_leaves_the_parents_engine_alone(void **state)
{
    const place *p = *state;
    mx_store *store = opened(p->path, false);
    pid_t child = fork();
    if (child == 0) {
        mw_options options = mw_options_default();
        mx_store *own = NULL;
        char *error = NULL;
        int code = mx_store_open(p->path, &options, NULL, false, &own, &error);
        mx_store_close(store);
        if (code == SQLITE_OK) mx_store_close(own);
        _exit(code == SQLITE_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rows_of(store), 0);
    mx_store_close(store);
}

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(two_spellings_of_a_path_meet_in_one_engine),
        PLACE_TEST(a_writer_joins_no_engine_that_only_reads),
        PLACE_TEST(another_store_than_expected_is_refused),
        PLACE_TEST(a_missing_folder_is_named),
        PLACE_TEST(an_ephemeral_store_goes_with_its_last_user),
        PLACE_TEST(a_failed_close_is_told_to_the_next_opener_once),
        PLACE_TEST(threads_never_meet_a_second_engine),
        PLACE_TEST(a_forked_child_leaves_the_parents_engine_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
