/* background_test.c: what the thread does unasked: flush, merge, sync what durability normal left;
** what it does when that fails; that it never holds up an end. */
#include "background.h"

#include "commit.h"
#include "compact.h"
#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static mw_options thread_options(void)
{
    mw_options options = engine_options();
    options.background = true;
    options.memtable_bytes = 1000;
    options.merge_generations = 4;
    return options;
}

static uint64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Puts rows until a memtable has been frozen. Returns how many there are now. */
static int64_t put_until_frozen(mw_db *db, int64_t id)
{
    int64_t before = engine_figure(db, "flushes") + engine_figure(db, "memtables");
    while (engine_figure(db, "flushes") + engine_figure(db, "memtables") == before)
        engine_put(db, id++, "x");
    return id;
}

/* ---- unasked --------------------------------------------------------------------------------- */

static void frozen_memtables_are_flushed_and_merged(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    int64_t rows = 0;
    for (int i = 0; i < 9; i++) {
        rows = put_until_frozen(db, rows);
        engine_wait_figure(db, "flushes", i + 1);
    }
    engine_wait_figure(db, "merges", 2); /* at four, and at four again */
    assert_in_range(engine_figure(db, "generations"), 0, 3);
    assert_int_equal(engine_count(db), rows);
    assert_null(engine_words(db, "last_error"));
    engine_close(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), rows);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* What a killed process left frozen is flushed by the next one that writes, in the background. */
static void what_was_left_frozen_is_flushed_after_a_write(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    uint64_t generation;
    engine_txn_put(txn, 2, "b");
    assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
    engine_commit(txn, MW_TXN_LIGHT);
    mw_db_abandon(db);
    db = engine_open(world, &options);
    assert_string_equal(engine_rows(db), "1=a 2=b"); /* reading is in nobody's way */
    engine_put(db, 3, "c");
    engine_wait_figure(db, "flushes", 1);
    assert_int_equal(engine_figure(db, "wal_cursor"), 1);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    engine_close(db);
    engine_end(world);
}

/* Generations that an earlier process left are merged by the thread; the first writer starts it and
** does not do its work. */
static void what_was_left_unmerged_is_merged_by_the_thread(void **state)
{
    (void)state;
    mw_options options = thread_options();
    options.memtable_bytes = 1 << 20;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 0; id < 5; id++) {
        engine_put(db, id % 2, "x");
        engine_flush(db);
    }
    engine_close(db);
    db = engine_open(world, &options);
    int hold = sim_hold(world, SIM_OPEN, "table-"); /* of the merge's output */
    engine_put(db, 10, "a");                        /* the store is ours from here on */
    engine_put(db, 11, "b");
    engine_put(db, 12, "c"); /* while the merge stands still */
    assert_true(sim_wait_held(world, hold));
    assert_int_equal(engine_figure(db, "merges"), 0);
    sim_release(world, hold);
    engine_wait_figure(db, "merges", 1);
    assert_string_equal(engine_rows(db), "0=x 1=x 10=a 11=b 12=c");
    engine_close(db);
    engine_end(world);
}

/* An undecided transaction is in the way of a merge: the thread comes back when it has ended. */
static void a_merge_that_was_in_the_way_of_a_transaction_comes_later(void **state)
{
    (void)state;
    mw_options options = thread_options();
    options.merge_generations = 1;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 1, "a");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
    engine_flush(db); /* wakes the thread */
    usleep(200 * 1000);
    assert_int_equal(engine_figure(db, "merges"), 0);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    engine_wait_figure(db, "merges", 1);
    assert_string_equal(engine_rows(db), "1=a");
    engine_close(db);
    engine_end(world);
}

/* ---- durability normal ----------------------------------------------------------------------- */

/* C03: "synced within 100 ms": by the thread, with background work on or off. After that no power
** cut takes it. */
static void normal_commits_are_synced_soon(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        mw_options options = engine_options();
        options.durability = MW_DURABILITY_NORMAL;
        options.background = on;
        sim *world = engine_world();
        mw_db *db = engine_open(world, &options);
        engine_rollback(engine_begin(db)); /* makes the segment */
        int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
        uint64_t began = milliseconds();
        engine_put(db, 1, "a"); /* returns, though nothing can be synced */
        assert_true(sim_wait_held(world, hold));
        uint64_t took = milliseconds() - began;
        assert_in_range(took, 0, 2000); /* 100 ms, and what a loaded machine takes */
        sim_release(world, hold);
        engine_wait_figure(db, "wal_syncs", 1);
        sim *cut = sim_kill(world);
        uint32_t states = sim_disk_count(cut, 100);
        for (uint32_t i = 0; i < states; i++) {
            sim *after = sim_disk_state(cut, i);
            mw_db *again = engine_open(after, NULL);
            assert_string_equal(engine_rows(again), "1=a");
            engine_close(again);
            engine_end(after);
        }
        sim_destroy(cut);
        engine_close(db);
        engine_end(world);
    }
}

/* What is tried again later, a merge that is in a transaction's way, makes no sync late. */
static void a_sync_does_not_wait_for_what_is_blocked(void **state)
{
    (void)state;
    mw_options options = thread_options();
    options.merge_generations = 1;
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 1, "a");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
    engine_flush(db);
    usleep(3500 * 1000); /* by now it tries again after seconds */
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    uint64_t began = milliseconds();
    engine_put(db, 2, "b");
    assert_true(sim_wait_held(world, hold));
    uint64_t took = milliseconds() - began;
    sim_release(world, hold);
    assert_in_range(took, 0, 2000);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    engine_close(db);
    engine_end(world);
}

/* A stream of commits does not put the sync off for ever. */
static void a_stream_of_normal_commits_is_synced_in_between(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_put(db, 0, "x");
    int64_t syncs = engine_figure(db, "wal_syncs");
    uint64_t end = milliseconds() + 1500;
    int64_t id = 1;
    while (milliseconds() < end && engine_figure(db, "wal_syncs") < syncs + 3)
        engine_put(db, id++, "x");
    assert_in_range(engine_figure(db, "wal_syncs"), syncs + 3, syncs + 20);
    assert_int_equal(engine_count(db), id);
    engine_close(db);
    engine_end(world);
}

/* I10: the sync in the background fails: nothing more is acknowledged, and closing says why
** (L03). */
static void a_failed_sync_in_the_background_stops_the_writer(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_rollback(engine_begin(db));
    sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
    engine_put(db, 1, "a");
    mw_rc rc = MW_OK;
    for (int i = 0; i < ENGINE_WAIT_MS && rc == MW_OK; i++, usleep(1000)) {
        rc = sim_fail_hits(world) ? engine_try(db, 2, "b", MW_TXN_LIGHT, NULL) : MW_OK;
    }
    assert_int_equal(rc, MW_PERSISTENCE);
    assert_non_null(strstr(engine_words(db, "last_error"), "wal-"));
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* A flush fails some times: shown, tried again with growing pauses, made up for, forgotten. */
static void a_failed_flush_is_shown_and_tried_again(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (uint64_t n = 1; n <= 3; n++) sim_fail_named(world, SIM_OPEN, "table-", n, ENOSPC, false);
    int64_t rows = put_until_frozen(db, 0);
    while (!engine_words(db, "last_error")) usleep(1000);
    assert_non_null(strstr(engine_words(db, "last_error"), "table-"));
    assert_int_equal(engine_figure(db, "wal_cursor"), 0);
    engine_wait_figure(db, "flushes", 1);
    assert_int_equal(sim_fail_hits(world), 3);
    for (int i = 0; i < ENGINE_WAIT_MS && engine_words(db, "last_error"); i++) usleep(1000);
    assert_null(engine_words(db, "last_error"));
    assert_int_equal(engine_count(db), rows);
    engine_close(db);
    engine_end(world);
}

static atomic_uint waits;

static bool count_wait(void *ctx, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    atomic_fetch_add(&waits, 1);
    return sim_env(ctx)->cond_wait(ctx, cond, mutex, deadline_ns);
}

/* A pause is for what failed. Somebody else has made up for it: the thread sleeps until it is
** called, it does not look every few milliseconds. */
static void a_thread_with_nothing_to_do_sleeps(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    mw_env env = *sim_env(world);
    env.cond_wait = count_wait;
    mw_db *db;
    assert_int_equal(mw_db_open(&env, ENGINE_STORE, &options, NULL, &db, NULL), MW_OK);
    sim_fail_named(world, SIM_OPEN, "table-", 1, ENOSPC, false);
    engine_put(db, 1, "a");
    engine_freeze(db);
    mw_background_wake(engine_store(db));
    while (!engine_words(db, "last_error")) usleep(100);
    engine_flush(db);
    usleep(1600 * 1000); /* the pause at hand is over, and the lock given up */
    atomic_store(&waits, 0);
    usleep(1000 * 1000);
    assert_in_range(atomic_load(&waits), 0, 5); /* not the 20 of pauses of 50 ms */
    engine_close(db);
    engine_end(world);
}

/* L03: the generation cannot be written until the end: closing gives that first error, everything
** is released, and a reopen shows exactly what the log holds. */
static void close_reports_what_the_thread_could_not_do(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    sim_fail_named(world, SIM_WRITE, "table-", 1, EIO, true);
    int64_t rows = put_until_frozen(db, 0);
    while (!engine_words(db, "last_error")) usleep(1000);
    mw_err err = {0};
    assert_int_equal(mw_db_close(db, &err), MW_IO);
    assert_non_null(strstr(err.text, "table-"));
    assert_int_equal(sim_open_count(world), 0);
    assert_int_equal(sim_object_count(world), 0);
    sim_fail_clear(world);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), rows);
    assert_int_equal(engine_figure(db, "memtable_rows"), rows);
    engine_close(db);
    engine_end(world);
}

/* No thread can be had: writers flush for themselves. */
static void without_a_thread_writers_flush(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    sim_fail(world, SIM_THREAD, 1, EAGAIN, true);
    mw_db *db = engine_open(world, &options);
    int64_t rows = 0;
    for (int i = 0; i < 5; i++) rows = put_until_frozen(db, rows);
    assert_in_range(engine_figure(db, "memtables"), 1, 2);
    assert_in_range(engine_figure(db, "flushes"), 4, 5);
    assert_int_equal(engine_count(db), rows);
    engine_close(db);
    engine_end(world);
}

/* Durability normal without a thread: nobody would sync later, so the commit does. */
static void without_a_thread_normal_commits_sync_themselves(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    sim_fail(world, SIM_THREAD, 1, EAGAIN, true);
    mw_db *db = engine_open(world, &options);
    engine_rollback(engine_begin(db));
    for (int64_t id = 0; id < 3; id++) {
        uint64_t syncs = sim_calls(world, SIM_FILE_SYNC);
        engine_put(db, id, "x");
        assert_int_equal(sim_calls(world, SIM_FILE_SYNC), syncs + 1);
    }
    engine_close(db);
    engine_end(world);
}

/* A child of a fork has the store in its memory and no thread: it starts none, and waits for
** none. */
static void a_forked_child_has_no_thread(void **state)
{
    (void)state;
    mw_options options = thread_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    sim_set_process_id(world, 4711);
    mw_background_wake(engine_store(db));
    assert_null(engine_store(db)->thread);
    int64_t rows = put_until_frozen(db, 0); /* as without a thread: writers flush */
    assert_null(engine_store(db)->thread);
    assert_int_equal(engine_count(db), rows);
    engine_close(db);
    engine_end(world);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* C69: closed while a merge of many slices is at work: within a second it is given up, nothing is
** left over, no row is missing. */
static void closing_gives_a_merge_up(void **state)
{
    (void)state;
    enum { ROWS = 60000 };
    mw_options options = engine_options();
    options.background = true;
    options.merge_generations = 2;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 0, ROWS, "x");
    engine_flush(db);
    engine_close(db);
    db = engine_open(world, &options);
    engine_put(db, ROWS, "x");
    int hold = sim_hold(world, SIM_OPEN, "table-"); /* the flush's file */
    engine_call flush = {.run = engine_run_flush, .db = db};
    engine_start(&flush);
    assert_true(sim_wait_held(world, hold));
    sim_release(world, hold);
    assert_int_equal(engine_wait(&flush), MW_OK); /* now two wait: the thread begins to merge */
    for (int i = 0; i < ENGINE_WAIT_MS && engine_file_count(world, "table-") < 3; i++) usleep(100);
    uint64_t began = milliseconds();
    engine_close(db);
    assert_in_range(milliseconds() - began, 0, 1500);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), ROWS + 1);
    assert_int_equal(engine_file_count(world, "table-"), engine_figure(db, "files"));
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* A flush is given up as well: the log has the rows. */
static void closing_gives_a_flush_up(void **state)
{
    (void)state;
    enum { ROWS = 30000 };
    mw_options options = engine_options();
    options.background = true;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_fill(db, 0, ROWS, "more than fits: ");
    int hold = sim_hold(world, SIM_WRITE, "table-"); /* of the first group or so */
    engine_freeze(db);
    mw_background_wake(engine_store(db));
    assert_true(sim_wait_held(world, hold));
    engine_call closing = {.run = engine_run_close, .db = db};
    engine_start(&closing);
    mw_store *store = engine_store(db);
    for (bool seen = false; !seen; usleep(1000)) {
        mw_store_lock(store);
        seen = store->closing;
        mw_store_unlock(store);
    }
    uint64_t writes = sim_calls(world, SIM_WRITE);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&closing), MW_OK);
    assert_in_range(sim_calls(world, SIM_WRITE), writes, writes + 4);
    db = engine_open(world, NULL);
    assert_int_equal(engine_file_count(world, "table-"), 0);
    assert_int_equal(engine_count(db), ROWS);
    engine_close(db);
    engine_end(world);
}

/* Two writers and the thread, files of a few rows: levels fill up and are merged down meanwhile. */
static mw_rc run_writer(engine_call *call)
{
    mw_rc rc = MW_OK;
    for (int64_t i = 0; rc == MW_OK && i < 1500; i++) {
        int64_t id = call->id + 2 * (i * 7919 % 1200); /* some ids twice */
        rc = engine_try(call->db, id, "words", MW_TXN_LIGHT, &call->err);
    }
    return rc;
}

static void levels_settle_beside_writers(void **state)
{
    (void)state;
    mw_options options = thread_options();
    options.merge_generations = 2;
    options.group_rows = 4;
    options.file_bytes = 600;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_call writers[2];
    for (int i = 0; i < 2; i++) {
        writers[i] = (engine_call){.run = run_writer, .db = db, .id = i};
        engine_start(&writers[i]);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(engine_wait(&writers[i]), MW_OK);
    mw_store *store = engine_store(db);
    bool due = true;
    for (int i = 0; i < ENGINE_WAIT_MS && due; i++, usleep(1000)) {
        mw_store_lock(store);
        due = mw_flush_due(store) || mw_compact_due(store);
        mw_store_unlock(store);
    }
    assert_false(due);
    assert_in_range(engine_figure(db, "base_levels"), 2, 8);
    assert_int_equal(engine_count(db), 2400);
    assert_string_equal(engine_check(db), "ok");
    assert_null(engine_words(db, "last_error"));
    engine_close(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), 2400);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_memtables_are_flushed_and_merged),
        cmocka_unit_test(what_was_left_frozen_is_flushed_after_a_write),
        cmocka_unit_test(what_was_left_unmerged_is_merged_by_the_thread),
        cmocka_unit_test(a_merge_that_was_in_the_way_of_a_transaction_comes_later),
        cmocka_unit_test(normal_commits_are_synced_soon),
        cmocka_unit_test(a_sync_does_not_wait_for_what_is_blocked),
        cmocka_unit_test(a_stream_of_normal_commits_is_synced_in_between),
        cmocka_unit_test(a_failed_sync_in_the_background_stops_the_writer),
        cmocka_unit_test(a_failed_flush_is_shown_and_tried_again),
        cmocka_unit_test(a_thread_with_nothing_to_do_sleeps),
        cmocka_unit_test(close_reports_what_the_thread_could_not_do),
        cmocka_unit_test(without_a_thread_writers_flush),
        cmocka_unit_test(without_a_thread_normal_commits_sync_themselves),
        cmocka_unit_test(a_forked_child_has_no_thread),
        cmocka_unit_test(closing_gives_a_merge_up),
        cmocka_unit_test(closing_gives_a_flush_up),
        cmocka_unit_test(levels_settle_beside_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
