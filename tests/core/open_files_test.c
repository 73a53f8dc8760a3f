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

/* RLIMIT_NOFILE: opening a file, a folder, or listing one needs a free descriptor. */
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

static mw_env limited_env(sim *world, uint32_t limit)
{
    mw_env env = *sim_env(world);
    machine.world = world;
    machine.limit = limit;
    machine.most = 0;
    env.file_open = limited_open;
    env.dir_open = limited_dir_open;
    env.dir_list = limited_list;
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

enum { FILES = 600, OPEN_FILES = 40, BESIDES = 8, STEP = 7 };

/* Generation g holds ids g and g + FILES / 2: ranges that overlap with those of all others. */
static void fill_generations(mw_db *db)
{
    for (int64_t g = 0; g < FILES; g++) {
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, g, "low");
        engine_txn_put(txn, g + FILES / 2, "high");
        engine_commit(txn, MW_TXN_FULL);
        engine_flush(db);
    }
}

static void expect_all_rows(mw_db *db)
{
    enum { ROWS = FILES + FILES / 2 };
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor;
    assert_int_equal(mw_snapshot_count(snapshot), ROWS);
    assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
    for (int back = 0; back < 2; back++) {
        mw_rc rc = back ? mw_cursor_last(cursor, NULL) : mw_cursor_first(cursor, NULL);
        for (int64_t i = 0; i < ROWS; i++) {
            uint8_t key[8];
            mw_value value;
            assert_int_equal(rc, MW_OK);
            assert_true(mw_cursor_valid(cursor));
            int64_t id = back ? ROWS - 1 - i : i;
            assert_true(mw_slice_equal(mw_cursor_key(cursor), engine_key(id, key)));
            assert_int_equal(mw_cursor_column(cursor, 0, &value, NULL), MW_OK);
            /* The newer generation of the two that have an id wins: the one that calls it low. */
            assert_int_equal(value.bytes.size, id < FILES ? 3 : 4);
            rc = back ? mw_cursor_prev(cursor, NULL) : mw_cursor_next(cursor, NULL);
        }
        assert_int_equal(rc, MW_OK);
        assert_false(mw_cursor_valid(cursor));
    }
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
}

/* I11, I14: 5,000 generations that wait for a merge. Opening the store opens none of them; lookups,
** scans both ways and a merge of all hold few at a time. */
static void thousands_of_files_need_few_descriptors(void **state)
{
    (void)state;
    mw_options options = many_files(OPEN_FILES);
    sim *world = engine_world();
    mw_env env = limited_env(world, OPEN_FILES + BESIDES);
    mw_db *db = open_limited(&env, &options);
    fill_generations(db);
    engine_close(db);

    uint64_t opens = sim_calls(world, SIM_OPEN);
    db = open_limited(&env, &options);
    assert_true(sim_calls(world, SIM_OPEN) - opens < 20);
    assert_int_equal(engine_figure(db, "generations"), FILES);
    assert_int_equal(engine_figure(db, "open_files"), 0);
    for (int64_t id = 0; id < FILES; id += FILES / STEP) {
        assert_string_equal(engine_find(db, id), "low");
        assert_null(engine_find(db, id + 2 * FILES));
    }
    assert_true(engine_figure(db, "open_files") <= OPEN_FILES);
    expect_all_rows(db);
    assert_true(engine_figure(db, "open_files") <= OPEN_FILES);
    assert_int_equal(engine_merge(db, 0), FILES);
    assert_int_equal(engine_figure(db, "generations"), 0);
    expect_all_rows(db);
    assert_true(machine.most <= OPEN_FILES + BESIDES);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_files_need_few_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
