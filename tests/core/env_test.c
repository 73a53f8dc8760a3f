/* env_test.c: the helpers that the engine calls, over simulated trouble, and the real world. */
#include "env.h"

#include "sim.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- helpers over a simulated world --------------------------------------------------------- */

typedef struct place {
    sim *world;
    const mw_env *env;
    int dir;
} place;

static place open_place(void)
{
    place at = {.world = sim_create()};
    at.env = sim_env(at.world);
    assert_int_equal(at.env->dir_open(at.env->ctx, "store", true, &at.dir), 0);
    return at;
}

static void close_place(place *at)
{
    int sys = at->env->dir_close(at->env->ctx, at->dir);
    assert_int_equal(sys, sim_stopped(at->world) ? EIO : 0);
    assert_int_equal(sim_open_count(at->world), 0);
    assert_int_equal(sim_memory_in_use(at->world), 0);
    sim_destroy(at->world);
}

static int open_file(const place *at, const char *name, mw_open how)
{
    int file = -1;
    assert_int_equal(at->env->file_open(at->env->ctx, at->dir, name, how, &file), 0);
    return file;
}

/* C12: half a write, then an interrupt, then the rest. */
static void short_and_interrupted_writes_are_finished(void **state)
{
    (void)state;
    place at = open_place();
    int file = open_file(&at, "wal-1", MW_OPEN_CREATE);
    sim_fail(at.world, SIM_WRITE, 1, SIM_SHORT, false);
    sim_fail(at.world, SIM_WRITE, 2, EINTR, false);
    assert_int_equal(mw_env_write(at.env, file, "wal-1", "0123456789", 10, 3, NULL), MW_OK);
    assert_int_equal(sim_calls(at.world, SIM_WRITE), 3);
    char back[13];
    assert_int_equal(sim_file_read(at.world, "store/wal-1", 0, back, sizeof back), 13);
    assert_memory_equal(back, "\0\0\0" "0123456789", 13);
    at.env->file_close(at.env->ctx, file);
    close_place(&at);
}

static void short_and_interrupted_reads_are_finished(void **state)
{
    (void)state;
    place at = open_place();
    sim_file_put(at.world, "store/f", "0123456789", 10);
    int file = open_file(&at, "f", MW_OPEN_READ);
    sim_fail(at.world, SIM_READ, 1, SIM_SHORT, false);
    sim_fail(at.world, SIM_READ, 2, EINTR, false);
    char back[8];
    assert_int_equal(mw_env_read(at.env, file, "f", back, 8, 2, NULL), MW_OK);
    assert_memory_equal(back, "23456789", 8);
    assert_int_equal(sim_calls(at.world, SIM_READ), 3);
    at.env->file_close(at.env->ctx, file);
    close_place(&at);
}

static void a_file_that_ends_early_is_corrupt(void **state)
{
    (void)state;
    place at = open_place();
    sim_file_put(at.world, "store/f", "0123", 4);
    int file = open_file(&at, "f", MW_OPEN_READ);
    char back[8];
    mw_err err = {0};
    assert_int_equal(mw_env_read(at.env, file, "f", back, 3, 2, &err), MW_CORRUPT);
    assert_string_equal(err.text, "f, offset 2: expected 3 bytes, the file ends after 2");
    size_t got = 99;
    assert_int_equal(mw_env_read_some(at.env, file, "f", back, 8, 2, &got, NULL), MW_OK);
    assert_int_equal(got, 2);
    assert_int_equal(mw_env_read_some(at.env, file, "f", back, 8, 50, &got, NULL), MW_OK);
    assert_int_equal(got, 0);
    at.env->file_close(at.env->ctx, file);
    close_place(&at);
}

static void count_call(void *arg) { ++*(int *)arg; }

static int no_name(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return 0;
}

/* C66: a call that finds no descriptor is made once more after some were spared; others are not. */
static void descriptors_are_spared_once(void **state)
{
    (void)state;
    place at = open_place();
    int spared = 0;
    int file = -1;
    uint8_t id[16];
    mw_env env = *at.env;
    env.spare_files = count_call;
    env.spare_arg = &spared;
    static const int limits[] = {EMFILE, ENFILE};
    for (int i = 0; i < 2; i++) {
        sim_fail(at.world, SIM_OPEN, 1, limits[i], false);
        assert_int_equal(mw_env_open(&env, at.dir, "f", MW_OPEN_ENSURE, &file), 0);
        env.file_close(env.ctx, file);
        sim_fail(at.world, SIM_LIST, 1, limits[i], false);
        assert_int_equal(mw_env_list(&env, at.dir, no_name, NULL), 0);
        sim_fail(at.world, SIM_BOOT_ID, 1, limits[i], false);
        assert_int_equal(mw_env_boot_id(&env, id), 0);
    }
    assert_int_equal(spared, 6);
    sim_fail(at.world, SIM_OPEN, 1, EMFILE, true);
    assert_int_equal(mw_env_open(&env, at.dir, "f", MW_OPEN_READ, &file), EMFILE);
    assert_int_equal(spared, 7);
    assert_int_equal(mw_env_open(at.env, at.dir, "f", MW_OPEN_READ, &file), EMFILE);
    sim_fail_clear(at.world);
    assert_int_equal(mw_env_open(&env, at.dir, "g", MW_OPEN_READ, &file), ENOENT);
    assert_int_equal(spared, 7);
    close_place(&at);
}

static void failures_carry_code_and_errno(void **state)
{
    (void)state;
    place at = open_place();
    int file = open_file(&at, "f", MW_OPEN_CREATE);
    mw_err err = {0};
    sim_fail(at.world, SIM_WRITE, 1, ENOSPC, false);
    assert_int_equal(mw_env_write(at.env, file, "f", "x", 1, 0, &err), MW_FULL);
    assert_int_equal(err.sys, ENOSPC);
    char byte;
    size_t got;
    mw_err second = {0};
    sim_fail(at.world, SIM_READ, 1, EIO, false);
    assert_int_equal(mw_env_read_some(at.env, file, "f", &byte, 1, 0, &got, &second), MW_IO);
    assert_int_equal(second.sys, EIO);
    at.env->file_close(at.env->ctx, file);
    close_place(&at);
}

static void published_files_are_whole_and_durable(void **state)
{
    (void)state;
    place at = open_place();
    uint64_t syncs = sim_calls(at.world, SIM_DIR_SYNC);
    mw_slice content = mw_slice_of("content", 7);
    assert_int_equal(mw_env_publish(at.env, at.dir, "manifest-1", content, NULL), MW_OK);
    assert_int_equal(sim_calls(at.world, SIM_FILE_SYNC), 1);
    assert_int_equal(sim_calls(at.world, SIM_DIR_SYNC) - syncs, 1);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1); /* nothing waits for a sync */
    char names[4][SIM_NAME_BYTES];
    assert_int_equal(sim_list(at.world, "store", names, 4), 1);
    assert_string_equal(names[0], "manifest-1");
    sim *after = sim_disk_state(at.world, 0);
    char back[8];
    assert_int_equal(sim_file_read(after, "store/manifest-1", 0, back, sizeof back), 7);
    assert_memory_equal(back, "content", 7);
    sim_destroy(after);
    close_place(&at);
}

static void a_taken_name_is_told_and_nothing_is_left(void **state)
{
    (void)state;
    place at = open_place();
    mw_err err = {0};
    mw_slice first = mw_slice_of("first", 5);
    assert_int_equal(mw_env_publish(at.env, at.dir, "m", first, &err), MW_OK);
    assert_int_equal(mw_env_publish(at.env, at.dir, "m", mw_slice_of("2nd", 3), &err), MW_EXISTS);
    assert_int_equal(err.rc, MW_OK);
    char names[4][SIM_NAME_BYTES];
    assert_int_equal(sim_list(at.world, "store", names, 4), 1);
    assert_int_equal(sim_file_size(at.world, "store/m"), 5);
    close_place(&at);
}

/* I15, I5: at every moment of a publication a power cut leaves the whole file or none under the
** name, and once it has answered ok, the whole file. */
static void a_crash_while_publishing_leaves_all_or_nothing(void **state)
{
    static uint8_t content[2000];
    (void)state;
    memset(content, 'c', sizeof content);
    uint32_t states = 0;
    bool stopped = true;
    for (uint64_t n = 0; stopped; n++) {
        place at = open_place();
        sim_stop_after(at.world, n);
        mw_rc rc = mw_env_publish(at.env, at.dir, "m", mw_slice_of(content, sizeof content), NULL);
        stopped = sim_stopped(at.world);
        assert_int_equal(rc, stopped ? MW_IO : MW_OK);
        uint32_t count = sim_disk_count(at.world, SIM_CAP_DEFAULT);
        states += count;
        for (uint32_t i = 0; i < count; i++) {
            sim *after = sim_disk_state(at.world, i);
            int64_t size = sim_file_size(after, "store/m");
            assert_true(size == (int64_t)sizeof content || (size == -1 && rc != MW_OK));
            uint8_t back[sizeof content] = {0};
            if (size > 0) sim_file_read(after, "store/m", 0, back, sizeof back);
            if (size > 0) assert_memory_equal(back, content, sizeof content);
            sim_destroy(after);
        }
        close_place(&at);
    }
    assert_true(states > 40);
}

/* Every call fails once: an error, or the file is there; never a wrong file, and never "exists". */
static void any_failure_while_publishing_is_told(void **state)
{
    (void)state;
    static const int codes[] = {EIO, ENOSPC, ENOMEM, EINTR, SIM_TORN, EEXIST};
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        bool hit = true;
        for (uint64_t nth = 1; hit; nth++) {
            place at = open_place();
            sim_fail(at.world, SIM_ANY_CALL, nth, codes[c], false);
            mw_slice content = mw_slice_of("content", 7);
            mw_rc rc = mw_env_publish(at.env, at.dir, "m", content, NULL);
            hit = sim_fail_hits(at.world) > 0;
            sim_fail_clear(at.world);
            if (!hit) assert_int_equal(rc, MW_OK);
            if (rc == MW_OK) assert_int_equal(sim_file_size(at.world, "store/m"), 7);
            assert_int_equal(sim_open_count(at.world), 1);
            close_place(&at);
        }
    }
}

static void failing_syncs_fail_the_publication(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_FILE_SYNC, SIM_DIR_SYNC, SIM_CLOSE};
    for (int i = 0; i < 3; i++) {
        place at = open_place();
        sim_fail(at.world, ops[i], 1, EIO, false);
        mw_err err = {0};
        mw_slice content = mw_slice_of("content", 7);
        assert_int_equal(mw_env_publish(at.env, at.dir, "m", content, &err), MW_IO);
        assert_int_equal(err.sys, EIO);
        char names[4][SIM_NAME_BYTES];
        assert_int_equal(sim_list(at.world, "store", names, 4), ops[i] == SIM_DIR_SYNC);
        close_place(&at);
    }
}

static void whole_files_are_read_up_to_a_limit(void **state)
{
    (void)state;
    place at = open_place();
    uint8_t *content = NULL;
    size_t bytes = 99;
    mw_err err = {0};
    assert_int_equal(mw_env_read_file(at.env, at.dir, "f", 10, &content, &bytes, &err), MW_MISSING);
    assert_null(content);
    sim_file_put(at.world, "store/f", "0123456789", 10);
    assert_int_equal(mw_env_read_file(at.env, at.dir, "f", 10, &content, &bytes, NULL), MW_OK);
    assert_int_equal(bytes, 10);
    assert_memory_equal(content, "0123456789", 10);
    mw_free(at.env, content);
    mw_err longer = {0};
    mw_rc rc = mw_env_read_file(at.env, at.dir, "f", 9, &content, &bytes, &longer);
    assert_int_equal(rc, MW_CORRUPT);
    assert_null(content);
    sim_file_put(at.world, "store/empty", "", 0);
    assert_int_equal(mw_env_read_file(at.env, at.dir, "empty", 9, &content, &bytes, NULL), MW_OK);
    assert_non_null(content);
    assert_int_equal(bytes, 0);
    mw_free(at.env, content);
    close_place(&at);
}

static void reading_a_file_survives_every_failure(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        bool hit = true;
        for (uint64_t nth = 1; hit; nth++) {
            place at = open_place();
            sim_file_put(at.world, "store/f", "0123456789", 10);
            sim_fail(at.world, kind ? SIM_ALLOC : SIM_ANY_CALL, nth, EIO, false);
            uint8_t *content = NULL;
            size_t bytes = 0;
            mw_rc rc = mw_env_read_file(at.env, at.dir, "f", 10, &content, &bytes, NULL);
            hit = sim_fail_hits(at.world) > 0;
            sim_fail_clear(at.world);
            if (rc == MW_OK) assert_memory_equal(content, "0123456789", 10);
            else assert_int_equal(rc, kind ? MW_NOMEM : MW_IO);
            if (rc != MW_OK) assert_null(content);
            mw_free(at.env, content);
            close_place(&at);
        }
    }
}

static void memory_of_no_bytes_is_valid(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    uint8_t *a = mw_alloc(env, 0);
    uint8_t *b = mw_alloc_zero(env, 64);
    assert_non_null(a);
    assert_non_null(b);
    for (int i = 0; i < 64; i++) assert_int_equal(b[i], 0);
    a = mw_resize(env, a, 0);
    assert_non_null(a);
    mw_free(env, a);
    mw_free(env, b);
    mw_free(env, NULL);
}

/* ---- the real world ------------------------------------------------------------------------- */

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/env-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    return rmdir(root);
}

static int open_store(char path[96], bool create)
{
    const mw_env *env = mw_env_posix();
    int dir = -1;
    snprintf(path, 96, "%s/store", root);
    assert_int_equal(env->dir_open(env->ctx, path, create, &dir), 0);
    return dir;
}

static void directories_are_made_listed_and_removed(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    char deep[128];
    int dir = -1;
    snprintf(path, sizeof path, "%s/store", root);
    snprintf(deep, sizeof deep, "%s/no/such", root);
    assert_int_equal(env->dir_open(env->ctx, path, false, &dir), ENOENT);
    assert_int_equal(env->dir_open(env->ctx, deep, true, &dir), ENOENT);
    dir = open_store(path, true);
    assert_int_equal(env->dir_close(env->ctx, dir), 0);
    dir = open_store(path, true); /* one that exists is opened */
    int file = -1;
    int none = -1;
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &file), 0);
    snprintf(deep, sizeof deep, "%s/f", path);
    assert_int_equal(env->dir_open(env->ctx, deep, false, &none), ENOTDIR);
    assert_int_equal(env->dir_open(env->ctx, deep, true, &none), ENOTDIR);
    assert_int_equal(env->dir_remove(env->ctx, path), ENOTEMPTY);
    assert_int_equal(env->dir_sync(env->ctx, dir), 0);
    assert_int_equal(env->unlink(env->ctx, dir, "f"), 0);
    assert_int_equal(env->unlink(env->ctx, dir, "f"), ENOENT);
    assert_int_equal(env->file_close(env->ctx, file), 0);
    assert_int_equal(env->dir_close(env->ctx, dir), 0);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

static int count_name(void *arg, const char *name)
{
    int *count = arg;
    assert_int_equal(name[0], 'n');
    *count += 1;
    return *count == 3;
}

static void lists_stop_when_told_and_start_anew(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    int dir = open_store(path, true);
    for (int i = 0; i < 5; i++) {
        char name[16];
        int file;
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(env->file_open(env->ctx, dir, name, MW_OPEN_ENSURE, &file), 0);
        assert_int_equal(env->file_close(env->ctx, file), 0);
    }
    for (int round = 0; round < 2; round++) {
        int count = 0;
        assert_int_equal(env->dir_list(env->ctx, dir, count_name, &count), 0);
        assert_int_equal(count, 3);
    }
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(env->unlink(env->ctx, dir, name), 0);
    }
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

static void files_open_as_asked(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    int dir = open_store(path, true);
    int file = -1;
    bool yes = true;
    assert_int_equal(env->exists(env->ctx, dir, "f", &yes), 0);
    assert_false(yes);
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_READ, &file), ENOENT);
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_WRITE, &file), ENOENT);
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &file), 0);
    int other = -1;
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &other), EEXIST);
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_READ, &other), 0);
    mw_err err = {0};
    assert_int_equal(mw_env_write(env, file, "f", "hello", 5, 10, &err), MW_OK);
    assert_int_equal(env->file_sync(env->ctx, file), 0);
    size_t put = 0;
    assert_int_equal(env->file_write(env->ctx, other, "x", 1, 0, &put), EBADF);
    uint64_t size = 0;
    assert_int_equal(env->file_size(env->ctx, other, &size), 0);
    assert_int_equal(size, 15);
    char back[20];
    size_t got = 0;
    assert_int_equal(mw_env_read_some(env, other, "f", back, 20, 0, &got, &err), MW_OK);
    assert_int_equal(got, 15);
    assert_memory_equal(back, "\0\0\0\0\0\0\0\0\0\0hello", 15);
    assert_int_equal(env->file_write(env->ctx, file, "x", 1, UINT64_MAX, &put), EFBIG);
    assert_int_equal(env->exists(env->ctx, dir, "f", &yes), 0);
    assert_true(yes);
    env->file_close(env->ctx, file);
    env->file_close(env->ctx, other);
    assert_int_equal(env->unlink(env->ctx, dir, "f"), 0);
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

static bool same_file(mw_file_id a, mw_file_id b)
{
    return a.device == b.device && a.number == b.number;
}

/* A file is told from others by what it is, also when its name is another file's: as long as it is
** open. (A stray manifest is told from a writer's own in this way.) */
static void a_file_is_known_by_what_it_is(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    int dir = open_store(path, true);
    int file = -1;
    mw_file_id first;
    mw_file_id other;
    assert_int_equal(env->identify(env->ctx, dir, "f", &first), ENOENT);
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &file), 0);
    assert_int_equal(env->identify(env->ctx, dir, "f", &first), 0);
    assert_int_equal(env->link(env->ctx, dir, "f", "g"), 0);
    assert_int_equal(env->identify(env->ctx, dir, "g", &other), 0);
    assert_true(same_file(first, other));
    assert_int_equal(env->unlink(env->ctx, dir, "f"), 0);
    assert_int_equal(env->unlink(env->ctx, dir, "g"), 0);
    for (int i = 0; i < 50; i++) {
        int made = -1;
        assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &made), 0);
        assert_int_equal(env->identify(env->ctx, dir, "f", &other), 0);
        assert_false(same_file(first, other));
        env->file_close(env->ctx, made);
        assert_int_equal(env->unlink(env->ctx, dir, "f"), 0);
    }
    env->file_close(env->ctx, file);
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

static void allocation_grows_with_zeros_and_keeps_content(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    int dir = open_store(path, true);
    int file = -1;
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &file), 0);
    assert_int_equal(mw_env_write(env, file, "f", "hello", 5, 0, NULL), MW_OK);
    assert_int_equal(env->file_allocate(env->ctx, file, 0, 100000), 0);
    assert_int_equal(env->file_allocate(env->ctx, file, 0, 10), 0); /* never shrinks */
    assert_int_equal(env->file_allocate(env->ctx, file, 0, 0), 0);
    uint64_t size = 0;
    assert_int_equal(env->file_size(env->ctx, file, &size), 0);
    assert_int_equal(size, 100000);
    char back[8];
    assert_int_equal(mw_env_read(env, file, "f", back, 8, 0, NULL), MW_OK);
    assert_memory_equal(back, "hello\0\0\0", 8);
    assert_int_equal(mw_env_read(env, file, "f", back, 8, 99992, NULL), MW_OK);
    assert_memory_equal(back, "\0\0\0\0\0\0\0\0", 8);
    env->file_close(env->ctx, file);
    assert_int_equal(env->unlink(env->ctx, dir, "f"), 0);
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

/* A record lock of POSIX would be lost by the close of `other`. */
static void locks_belong_to_the_open_file(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    int dir = open_store(path, true);
    int holder = -1;
    int other = -1;
    assert_int_equal(env->file_open(env->ctx, dir, "lock", MW_OPEN_ENSURE, &holder), 0);
    assert_int_equal(env->file_lock(env->ctx, holder), 0);
    assert_int_equal(env->file_lock(env->ctx, holder), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(env->file_open(env->ctx, dir, "lock", MW_OPEN_ENSURE, &other), 0);
        assert_int_equal(env->file_lock(env->ctx, other), EAGAIN);
        assert_int_equal(env->file_close(env->ctx, other), 0);
    }
    assert_int_equal(env->file_close(env->ctx, holder), 0);
    assert_int_equal(env->file_open(env->ctx, dir, "lock", MW_OPEN_ENSURE, &other), 0);
    assert_int_equal(env->file_lock(env->ctx, other), 0);
    assert_int_equal(env->file_close(env->ctx, other), 0);
    assert_int_equal(env->unlink(env->ctx, dir, "lock"), 0);
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

/* A pre-forked child that lives on must not keep the store of its parent locked. */
static void a_forked_child_does_not_keep_the_lock(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    int dir = open_store(path, true);
    int holder = -1;
    int other = -1;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(env->file_open(env->ctx, dir, "lock", MW_OPEN_ENSURE, &holder), 0);
    assert_int_equal(env->file_lock(env->ctx, holder), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1); /* until the parent closes its end */
    }
    assert_int_equal(env->file_close(env->ctx, holder), 0);
    assert_int_equal(env->file_open(env->ctx, dir, "lock", MW_OPEN_ENSURE, &other), 0);
    assert_int_equal(env->file_lock(env->ctx, other), 0);
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    assert_int_equal(env->file_close(env->ctx, other), 0);
    assert_int_equal(env->unlink(env->ctx, dir, "lock"), 0);
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, path), 0);
}

static void publication_works_for_real_and_survives_a_rename(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    char path[96];
    char moved[96];
    int dir = open_store(path, true);
    snprintf(moved, sizeof moved, "%s/moved", root);
    assert_int_equal(rename(path, moved), 0);
    mw_err err = {0};
    mw_slice content = mw_slice_of("content", 7);
    assert_int_equal(mw_env_publish(env, dir, "n1", content, &err), MW_OK);
    assert_int_equal(mw_env_publish(env, dir, "n1", content, &err), MW_EXISTS);
    int count = 0;
    assert_int_equal(env->dir_list(env->ctx, dir, count_name, &count), 0);
    assert_int_equal(count, 1);
    uint8_t *back = NULL;
    size_t bytes = 0;
    assert_int_equal(mw_env_read_file(env, dir, "n1", 100, &back, &bytes, &err), MW_OK);
    assert_int_equal(bytes, 7);
    assert_memory_equal(back, "content", 7);
    mw_free(env, back);
    assert_int_equal(env->unlink(env->ctx, dir, "n1"), 0);
    env->dir_close(env->ctx, dir);
    assert_int_equal(env->dir_remove(env->ctx, moved), 0);
}

static void the_machine_has_an_identity_and_noise(void **state)
{
    static const uint8_t zeros[16];
    (void)state;
    const mw_env *env = mw_env_posix();
    uint8_t first[16];
    uint8_t second[16];
    assert_int_equal(env->boot_id(env->ctx, first), 0);
    assert_int_equal(env->boot_id(env->ctx, second), 0);
    assert_memory_equal(first, second, 16);
    assert_memory_not_equal(first, zeros, 16);
    uint8_t noise[600];
    memset(noise, 0, sizeof noise);
    assert_int_equal(env->random(env->ctx, noise, sizeof noise), 0);
    assert_memory_not_equal(noise + sizeof noise - 16, zeros, 16);
    assert_memory_not_equal(noise, noise + 16, 16);
    assert_true(env->process_id(env->ctx) == (uint64_t)getpid());
    uint64_t before = env->now_ns(env->ctx);
    assert_true(env->now_ns(env->ctx) >= before);
}

typedef struct meeting {
    const mw_env *env;
    mw_mutex *mutex;
    mw_cond *cond;
    int turn;
    bool signals_blocked;
} meeting;

static void answer(void *arg)
{
    struct meeting *with = arg;
    const mw_env *env = with->env;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    env->mutex_lock(env->ctx, with->mutex);
    with->signals_blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGALRM);
    while (with->turn != 1) {
        env->cond_wait(env->ctx, with->cond, with->mutex, UINT64_MAX);
    }
    with->turn = 2;
    env->cond_broadcast(env->ctx, with->cond);
    env->mutex_unlock(env->ctx, with->mutex);
}

static void threads_meet_and_block_signals(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *envs[] = {mw_env_posix(), sim_env(world)};
    for (int i = 0; i < 2; i++) {
        const mw_env *env = envs[i];
        struct meeting with = {.env = env};
        mw_thread *thread = NULL;
        assert_int_equal(env->mutex_create(env->ctx, &with.mutex), 0);
        assert_int_equal(env->cond_create(env->ctx, &with.cond), 0);
        assert_int_equal(env->thread_start(env->ctx, answer, &with, &thread), 0);
        env->mutex_lock(env->ctx, with.mutex);
        with.turn = 1;
        env->cond_signal(env->ctx, with.cond);
        while (with.turn != 2) env->cond_wait(env->ctx, with.cond, with.mutex, UINT64_MAX);
        env->mutex_unlock(env->ctx, with.mutex);
        env->thread_join(env->ctx, thread);
        assert_true(with.signals_blocked);
        env->cond_destroy(env->ctx, with.cond);
        env->mutex_destroy(env->ctx, with.mutex);
    }
    assert_int_equal(sim_object_count(world), 0);
    sim_destroy(world);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM)); /* ours is as it was */
}

static void waits_end_at_their_deadline(void **state)
{
    (void)state;
    const mw_env *env = mw_env_posix();
    mw_mutex *mutex = NULL;
    mw_cond *cond = NULL;
    assert_int_equal(env->mutex_create(env->ctx, &mutex), 0);
    assert_int_equal(env->cond_create(env->ctx, &cond), 0);
    env->mutex_lock(env->ctx, mutex);
    uint64_t deadline = env->now_ns(env->ctx) + 20000000;
    while (env->cond_wait(env->ctx, cond, mutex, deadline)) {}
    assert_true(env->now_ns(env->ctx) >= deadline);
    assert_false(env->cond_wait(env->ctx, cond, mutex, 0));
    env->mutex_unlock(env->ctx, mutex);
    env->cond_destroy(env->ctx, cond);
    env->mutex_destroy(env->ctx, mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_and_interrupted_writes_are_finished),
        cmocka_unit_test(short_and_interrupted_reads_are_finished),
        cmocka_unit_test(a_file_that_ends_early_is_corrupt),
        cmocka_unit_test(descriptors_are_spared_once),
        cmocka_unit_test(failures_carry_code_and_errno),
        cmocka_unit_test(published_files_are_whole_and_durable),
        cmocka_unit_test(a_taken_name_is_told_and_nothing_is_left),
        cmocka_unit_test(a_crash_while_publishing_leaves_all_or_nothing),
        cmocka_unit_test(any_failure_while_publishing_is_told),
        cmocka_unit_test(failing_syncs_fail_the_publication),
        cmocka_unit_test(whole_files_are_read_up_to_a_limit),
        cmocka_unit_test(reading_a_file_survives_every_failure),
        cmocka_unit_test(memory_of_no_bytes_is_valid),
        cmocka_unit_test(directories_are_made_listed_and_removed),
        cmocka_unit_test(lists_stop_when_told_and_start_anew),
        cmocka_unit_test(files_open_as_asked),
        cmocka_unit_test(a_file_is_known_by_what_it_is),
        cmocka_unit_test(allocation_grows_with_zeros_and_keeps_content),
        cmocka_unit_test(locks_belong_to_the_open_file),
        cmocka_unit_test(a_forked_child_does_not_keep_the_lock),
        cmocka_unit_test(publication_works_for_real_and_survives_a_rename),
        cmocka_unit_test(the_machine_has_an_identity_and_noise),
        cmocka_unit_test(threads_meet_and_block_signals),
        cmocka_unit_test(waits_end_at_their_deadline),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
