/* golden_test.c: stores of each format version, kept as files in tests/golden/v<version>/, still read as
** they were written: by SELECT, by memwal_check and by tests/support/read_store.py.
**
**   golden_test                 all tests
**   golden_test --make FOLDER   writes FOLDER/v<version> anew, in the version that is written now
**                               (make golden does it with tests/golden)
**
**   v<version>/<key>-open       as a kill leaves it: a base, a generation, a log with an abort
**   v<version>/<key>-closed     the same, opened by the next epoch, changed, closed
**   v<version>/<key>-*.rows     the rows of each */
#include "reader.h"

enum { GOLDEN_SEED = 20, GOLDEN_KEYS = 12, GOLDEN_BYTES = 40 };

/* ---- making -------------------------------------------------------------------------------- */

static void golden_path(char path[READER_PATH_BYTES], const char *folder, const key_kind *kind,
                        const char *end)
{
    path_make(path, "%s/%s-%s", folder, kind->name, end);
}

/* A copy of the store as it lies there, without what the files do not need, and its rows. */
static void keep(const place *here, const lines *rows, const char *folder, const char *end)
{
    char path[READER_PATH_BYTES];
    char name[READER_PATH_BYTES];
    golden_path(path, folder, here->kind, end);
    folder_copy(here->store, path);
    cut_room(path);
    path_make(name, "%s/lock", path);
    if (remove(name)) client_fail("%s: %s", name, strerror(errno));
    path_make(name, "%s.rows", end);
    golden_path(path, folder, here->kind, name);
    FILE *file = fopen(path, "w");
    if (!file) client_fail("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < rows->count; i++) fprintf(file, "%s\n", rows->line[i]);
    if (fclose(file)) client_fail("writing %s", path);
}

static lines rows_of(const place *here)
{
    char sql[SQL_BYTES];
    select_of(here->kind, sql);
    lines rows = select_lines(here->db, sql);
    if (!lines_ok(&rows)) client_fail("%s: %s", here->kind->name, rows.verdict);
    return rows;
}

static void put_some(place *here, int count)
{
    for (int i = 0; i < count; i++) {
        put_row(here->db, here->kind, draw(here, GOLDEN_KEYS), &here->random, GOLDEN_BYTES);
    }
}

static void make_kind(const char *folder, const key_kind *kind)
{
    place here;
    place_make(&here, kind, GOLDEN_SEED, "background = off, group_rows = 8, page_bytes = 200");
    put_some(&here, 20);
    client_run(here.db, "SELECT memwal_flush('t')");
    put_some(&here, 4);
    drop(&here, "<");
    client_run(here.db, "SELECT memwal_flush('t'), memwal_merge('t')");
    put_some(&here, 6);
    drop(&here, "<");
    client_run(here.db, "SELECT memwal_flush('t')");
    put_some(&here, 2);
    commit_and_take_back(&here, false);
    put_some(&here, 2);
    lines rows = rows_of(&here);
    keep(&here, &rows, folder, "open");
    lines_free(&rows);
    client_close(here.db);
    /* The next opener finds neither a clean end nor this machine's: it takes over. */
    char state[READER_PATH_BYTES];
    path_make(state, "%s/store/state", here.folder);
    if (remove(state)) client_fail("%s: %s", state, strerror(errno));
    place_open(&here);
    put_some(&here, 3);
    rows = rows_of(&here);
    client_close(here.db);
    keep(&here, &rows, folder, "closed");
    lines_free(&rows);
    client_folder_remove(here.folder);
}

/* The format version that manifests tell. */
static unsigned version_of(const char *store)
{
    enum { VERSION = 8 };
    char path[READER_PATH_BYTES];
    lines names = folder_names(store);
    unsigned version = 0;
    for (size_t i = 0; i < names.count; i++) {
        size_t size;
        if (strncmp(names.line[i], "manifest-", 9) != 0) continue;
        path_make(path, "%s/%s", store, names.line[i]);
        uint8_t *bytes = file_bytes(path, &size);
        if (size > VERSION) version = bytes[VERSION];
        free(bytes);
    }
    lines_free(&names);
    return version;
}

/* Writes FOLDER/v<version>, whose path goes to `made`; what was there goes. */
static void make_all(const char *folder, char made[READER_PATH_BYTES])
{
    char fresh[READER_PATH_BYTES];
    char store[READER_PATH_BYTES];
    path_make(fresh, "%s/new", folder);
    client_folder_remove(fresh);
    if (mkdir(fresh, 0755)) client_fail("%s: %s", fresh, strerror(errno));
    for (int k = 0; k < KEY_KINDS; k++) make_kind(fresh, &key_kinds[k]);
    golden_path(store, fresh, &key_kinds[0], "closed");
    path_make(made, "%s/v%u", folder, version_of(store));
    client_folder_remove(made);
    if (rename(fresh, made)) client_fail("%s: %s", made, strerror(errno));
}

/* ---- reading ------------------------------------------------------------------------------- */

static lines kept_rows(const char *path)
{
    lines rows = {.verdict = reader_need(strdup("ok"))};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file) client_fail("%s: %s", path, strerror(errno));
    for (ssize_t n; (n = getline(&line, &room, file)) > 0;) {
        line[n - 1] = 0;
        lines_add(&rows, reader_need(strdup(line)));
    }
    free(line);
    fclose(file);
    return rows;
}

static void check_rows(const char *store, const char *who, lines found, const lines *right)
{
    char words[CLIENT_TEXT_BYTES];
    if (!lines_ok(&found)) client_fail("%s: %s: %s", store, who, found.verdict);
    if (lines_differ(&found, right, words)) client_fail("%s: %s: %s", store, who, words);
    lines_free(&found);
}

static void check_store(const char *golden, const key_kind *kind, const char *end)
{
    char folder[PATH_MAX];
    char path[READER_PATH_BYTES];
    char copy[READER_PATH_BYTES];
    char name[64];
    char sql[SQL_BYTES];
    select_of(kind, sql);
    snprintf(name, sizeof name, "%s.rows", end);
    golden_path(path, golden, kind, name);
    lines right = kept_rows(path);
    golden_path(path, golden, kind, end);
    client_folder_make(folder);
    path_make(copy, "%s/store", folder);
    folder_copy(path, copy);
    reader r = reader_start();
    check_rows(path, "the reader", reader_ask(&r, copy), &right);
    sqlite3 *db = client_open(":memory:");
    client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s')", copy);
    check_rows(path, "SELECT", select_lines(db, sql), &right);
    assert_int_equal(client_ask(db, "SELECT memwal_count('temp.t')"), right.count);
    client_check_store(db);
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    check_rows(path, "SELECT, merged", select_lines(db, sql), &right);
    client_close(db);
    check_rows(path, "the reader, merged", reader_ask(&r, copy), &right);
    reader_stop(&r);
    lines_free(&right);
    client_folder_remove(folder);
}

static void check_all(const char *golden)
{
    for (int k = 0; k < KEY_KINDS; k++) {
        check_store(golden, &key_kinds[k], "open");
        check_store(golden, &key_kinds[k], "closed");
    }
}

/* What is kept when this version is released; also proves that making works. */
static void golden_stores_made_now_read_back(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    char made[READER_PATH_BYTES];
    client_folder_make(folder);
    make_all(folder, made);
    check_all(made);
    client_folder_remove(folder);
}

/* The files of every format version that was ever kept. */
static void golden_stores_of_each_kept_version_read_back(void **state)
{
    (void)state;
    char path[READER_PATH_BYTES];
    lines versions = folder_names("tests/golden");
    for (size_t i = 0; i < versions.count; i++) {
        path_make(path, "tests/golden/%s", versions.line[i]);
        check_all(path);
        print_message("%s\n", path);
    }
    lines_free(&versions);
}

int main(int argc, char **argv)
{
    char made[READER_PATH_BYTES];
    signal(SIGPIPE, SIG_IGN);
    client_use_memory();
    if (argc == 3 && strcmp(argv[1], "--make") == 0) {
        client_is_worker = true;
        make_all(argv[2], made);
        printf("%s\n", made);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_stores_made_now_read_back),
        cmocka_unit_test(golden_stores_of_each_kept_version_read_back),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
