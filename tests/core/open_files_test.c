/* open_files_test.c: a store of thousands of table files needs few descriptors and bounded memory,
** lives with a low limit of open files, and removes a merged file when its last reader goes. */
#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a machine with a limit ------------------------------------------------------------------ */

/* RLIMIT_NOFILE: opening a file or a folder, listing one, and reading the machine's boot id need a
** free descriptor. */
static struct {
    sim *world;
    uint32_t limit;
    uint32_t most; /* open at a time so far */
} machine;

static bool none_left(void)
{
    uint32_t open = sim_open_count(machine.world) + 1;
    if (open > machine.limit) return true;
    if (open > machine.most) machine.most = open;
    return false;
}

static int limited_open(void *ctx, int dir, const char *name, mw_open how, int *file)
{
    if (none_left()) return EMFILE;
    return sim_env(machine.world)->file_open(ctx, dir, name, how, file);
}

static int limited_dir_open(void *ctx, const char *path, bool create, int *dir)
{
    if (none_left()) return EMFILE;
    return sim_env(machine.world)->dir_open(ctx, path, create, dir);
}

static int limited_list(void *ctx, int dir, int (*each)(void *arg, const char *name), void *arg)
{
    if (none_left()) return EMFILE;
    return sim_env(machine.world)->dir_list(ctx, dir, each, arg);
}

static int limited_boot_id(void *ctx, uint8_t id[16])
{
    if (none_left()) return EMFILE;
    return sim_env(machine.world)->boot_id(ctx, id);
}

static mw_env limited_env(sim *world, uint32_t limit)
{
    mw_env env = *sim_env(world);
    machine.world = world;
    machine.limit = limit;
    machine.most = 0;
    env.file_open = limited_open;
    env.dir_open = limited_dir_open;
    env.dir_list = limited_list;
    env.boot_id = limited_boot_id;
    return env;
}

static mw_options many_files(uint32_t open_files)
{
    mw_options options = engine_options();
    options.merge_generations = 1000000;
    options.open_files = open_files;
    options.cache_bytes = 16 << 20;
    return options;
}

static mw_db *open_limited(const mw_env *env, const mw_options *options)
{
    mw_db *db = NULL;
    mw_err err = {0};
    if (mw_db_open(env, ENGINE_STORE, options, NULL, &db, &err) != MW_OK) fail_msg("%s", err.text);
    return db;
}

/* ---- thousands of files ---------------------------------------------------------------------- */

enum { FILES = 600, OPEN_FILES = 40, BESIDES = 8, STEPS = 7 };

/* MW_FILES=5000 for a longer run. Even. */
static int64_t file_count(void)
{
    const char *given = getenv("MW_FILES");
    return given ? atoll(given) : FILES;
}

/* Generation g holds ids g and g + count / 2: ranges that overlap with those of many others. */
static void fill_generations(mw_db *db, int64_t count)
{
    for (int64_t g = 0; g < count; g++) {
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, g, "low");
        engine_txn_put(txn, g + count / 2, "high");
        engine_commit(txn, MW_TXN_FULL);
        engine_flush(db);
    }
}

/* Both ways; the newer generation of the two that have an id wins: the one that calls it low. */
static void expect_all_rows(mw_db *db, int64_t count)
{
    const int64_t rows = count + count / 2;
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor;
    assert_int_equal(mw_snapshot_count(snapshot), rows);
    assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
    for (int back = 0; back < 2; back++) {
        mw_rc rc = back ? mw_cursor_last(cursor, NULL) : mw_cursor_first(cursor, NULL);
        for (int64_t i = 0; i < rows; i++) {
            uint8_t key[8];
            mw_value value;
            assert_int_equal(rc, MW_OK);
            assert_true(mw_cursor_valid(cursor));
            int64_t id = back ? rows - 1 - i : i;
            assert_true(mw_slice_equal(mw_cursor_key(cursor), engine_key(id, key)));
            assert_int_equal(mw_cursor_column(cursor, 0, &value, NULL), MW_OK);
            assert_int_equal(value.bytes.size, id < count ? 3 : 4);
            rc = back ? mw_cursor_prev(cursor, NULL) : mw_cursor_next(cursor, NULL);
        }
        assert_int_equal(rc, MW_OK);
        assert_false(mw_cursor_valid(cursor));
    }
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
}

/* I11, I14: thousands of generations that wait for a merge. Opening the store opens none of them;
** lookups, scans both ways and a merge of all hold few at a time, and little memory for each. */
static void thousands_of_files_need_few_descriptors(void **state)
{
    (void)state;
    const int64_t count = file_count();
    mw_options options = many_files(OPEN_FILES);
    sim *world = engine_world();
    mw_env env = limited_env(world, OPEN_FILES + BESIDES);
    mw_db *db = open_limited(&env, &options);
    fill_generations(db, count);
    engine_close(db);

    uint64_t opens = sim_calls(world, SIM_OPEN);
    db = open_limited(&env, &options);
    assert_true(sim_calls(world, SIM_OPEN) - opens < 20);
    assert_int_equal(engine_figure(db, "generations"), count);
    assert_int_equal(engine_figure(db, "open_files"), 0);
    for (int64_t id = 0; id < count; id += count / STEPS) {
        assert_string_equal(engine_find(db, id), "low");
        assert_null(engine_find(db, id + 2 * count));
    }
    assert_true(engine_figure(db, "open_files") <= OPEN_FILES);
    expect_all_rows(db, count);
    assert_true(engine_figure(db, "open_files") <= OPEN_FILES);
    assert_int_equal(engine_merge(db, 0), count);
    assert_int_equal(engine_figure(db, "generations"), 0);
    expect_all_rows(db, count);
    assert_true(machine.most <= OPEN_FILES + BESIDES);
    assert_true(sim_memory_peak(world) <= (2u << 20) + (uint64_t)count * 3072);
    engine_close(db);
    engine_end(world);
}

/* ---- low limits ------------------------------------------------------------------------------ */

enum { CURSORS = 20, ROUNDS = 12, ROWS_BEFORE = 60 };

static mw_cursor *cursors[CURSORS];
static mw_snapshot *snapshots[CURSORS];

static int failures; /* met by the function below */

/* Whatever a call answers, it says why: never damage, and no file that is missing. */
static void expect_reason(mw_rc rc, const mw_err *err)
{
    if (rc == MW_OK) return;
    failures++;
    if (rc != MW_IO) fail_msg("%s", err->text);
    assert_non_null(strstr(err->text, "Too many open files"));
}

/* A walk that a failure may end. Rows that it meets are right. */
static void step_cursors(void)
{
    for (size_t i = 0; i < CURSORS; i++) {
        mw_err err = {0};
        mw_rc rc = mw_cursor_valid(cursors[i]) ? mw_cursor_next(cursors[i], &err)
                                               : mw_cursor_first(cursors[i], &err);
        expect_reason(rc, &err);
        mw_value value;
        if (rc != MW_OK || !mw_cursor_valid(cursors[i])) continue;
        rc = mw_cursor_column(cursors[i], 0, &value, &err);
        expect_reason(rc, &err);
        if (rc == MW_OK) assert_int_equal(value.type, MW_TEXT);
    }
}

static void open_cursors(mw_db *db)
{
    for (size_t i = 0; i < CURSORS; i++) {
        snapshots[i] = engine_snapshot(db);
        assert_int_equal(mw_cursor_open(snapshots[i], &cursors[i], NULL), MW_OK);
    }
}

static void close_cursors(void)
{
    for (size_t i = 0; i < CURSORS; i++) {
        mw_cursor_close(cursors[i]);
        mw_snapshot_release(snapshots[i]);
    }
}

/* Inserts, flushes and merges beside the cursors; *done gets the ids that were acknowledged. */
static void work(mw_db *db, bool done[ROUNDS])
{
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t generation;
        uint32_t folded;
        mw_err errs[3] = {0};
        mw_rc rc = engine_try(db, 1000 + i, "new", MW_TXN_FULL, &errs[0]);
        done[i] = rc == MW_OK;
        expect_reason(rc, &errs[0]);
        expect_reason(mw_db_flush(db, 1000, &generation, &errs[1]), &errs[1]);
        step_cursors();
        if (i % 4 == 3) expect_reason(mw_db_merge(db, 0, NULL, NULL, &folded, &errs[2]), &errs[2]);
    }
}

/* How many calls failed. */
static int live_with(uint32_t limit)
{
    bool done[ROUNDS];
    mw_options options = many_files(0);
    sim *world = engine_world();
    mw_env env = limited_env(world, UINT32_MAX);
    mw_db *db = open_limited(&env, &options);
    for (int64_t id = 0; id < ROWS_BEFORE; id++) {
        engine_put(db, id, "old");
        engine_flush(db);
    }
    open_cursors(db);
    machine.limit = limit;
    failures = 0;
    work(db, done);
    machine.limit = UINT32_MAX;
    close_cursors();
    for (int i = 0; i < ROUNDS; i++) {
        const char *words = engine_find(db, 1000 + i);
        if (done[i]) assert_non_null(words);
    }
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 2000, "raised"); /* the same store works again */
    engine_flush(db);
    engine_merge(db, 0);
    assert_true(engine_count(db) >= ROWS_BEFORE + 1);
    engine_close(db);
    engine_end(world);
    return failures;
}

/* C66: 20 cursors, inserts, flushes and merges over 60 files, with so many descriptors. At worst an
** error that says so; no damage; all is well again when the limit is raised. Eight are enough. */
static void few_descriptors_are_an_error_at_worst(void **state)
{
    (void)state;
    static const uint32_t limits[] = {3, 4, 5, 6, 7, 8, 16, 32, 64};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int failed = live_with(limits[i]);
        if (limits[i] == 3) assert_true(failed > 0);
        if (limits[i] >= 8) assert_int_equal(failed, 0);
    }
}

/* ---- readers and merges ---------------------------------------------------------------------- */

/* C34, I11: a cursor held while merges churn keeps its files, and they go when it closes. */
static void files_go_with_their_last_reader(void **state)
{
    (void)state;
    mw_options options = many_files(2);
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_fill(db, 0, 50, "a");
    engine_flush(db);
    mw_snapshot *snapshot = engine_snapshot(db);
    const char *before = engine_read(snapshot);
    for (int round = 0; round < 20; round++) {
        engine_fill(db, 0, 50, "b");
        engine_flush(db);
        engine_merge(db, 0);
    }
    assert_string_equal(engine_read(snapshot), before);
    assert_int_equal(engine_file_count(world, "table-"), 2); /* the reader's and the base */
    mw_snapshot_release(snapshot);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    engine_close(db);
    engine_end(world);
}

/* What a kill leaves: a reader's files stay, and are swept when the store is opened again. */
static void a_kill_removes_no_file(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_flush(db);
    mw_version *reader = mw_store_version(engine_store(db));
    engine_put(db, 2, "b");
    engine_flush(db);
    engine_merge(db, 0);
    assert_int_equal(engine_file_count(world, "table-"), 2);
    mw_table_pool_retire(engine_store(db)->tables);
    mw_version_unref(reader);
    mw_db_abandon(db);
    assert_int_equal(engine_file_count(world, "table-"), 2);
    db = engine_open(world, NULL);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

/* I11: a file that cannot be removed is left to the sweep of the next opening. */
static void a_file_that_stays_is_swept(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 0; id < 3; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
    }
    sim_fail_named(world, SIM_UNLINK, "table-", 1, EIO, true);
    engine_merge(db, 0);
    sim_fail_clear(world);
    assert_int_equal(engine_file_count(world, "table-"), 4);
    engine_close(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    assert_string_equal(engine_rows(db), "0=x 1=x 2=x");
    engine_close(db);
    engine_end(world);
}

/* C36 over a memtable, four generations and a base, two of which may be open: both ways and id by
** id, and two cursors at once. */
static void all_ways_of_reading_agree_with_two_open_files(void **state)
{
    (void)state;
    mw_options options = many_files(2);
    sim *world = engine_world();
    mw_env env = limited_env(world, 2 + BESIDES);
    mw_db *db = open_limited(&env, &options);
    engine_fill(db, 0, 60, "base");
    engine_flush(db);
    engine_merge(db, 0);
    for (int64_t g = 0; g < 5; g++) {
        engine_fill(db, g * 7, 20, g % 2 ? "odd" : "even");
        engine_delete(db, g * 11);
        if (g < 4) engine_flush(db);
    }
    const char *rows = engine_rows(db); /* compares all ways */
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *up, *down;
    assert_int_equal(mw_cursor_open(snapshot, &up, NULL), MW_OK);
    assert_int_equal(mw_cursor_open(snapshot, &down, NULL), MW_OK);
    assert_int_equal(mw_cursor_first(up, NULL), MW_OK);
    assert_int_equal(mw_cursor_last(down, NULL), MW_OK);
    int64_t met = 0;
    for (; mw_cursor_valid(up) && mw_cursor_valid(down); met++) {
        assert_int_equal(mw_cursor_next(up, NULL), MW_OK);
        assert_int_equal(mw_cursor_prev(down, NULL), MW_OK);
    }
    assert_int_equal(met, mw_snapshot_count(snapshot));
    assert_string_equal(engine_read(snapshot), rows);
    mw_cursor_close(up);
    mw_cursor_close(down);
    mw_snapshot_release(snapshot);
    assert_true(engine_figure(db, "open_files") <= 2);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_descriptors_are_an_error_at_worst),
        cmocka_unit_test(files_go_with_their_last_reader),
        cmocka_unit_test(a_kill_removes_no_file),
        cmocka_unit_test(a_file_that_stays_is_swept),
        cmocka_unit_test(all_ways_of_reading_agree_with_two_open_files),
        cmocka_unit_test(thousands_of_files_need_few_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
