/* settings_test.c: options that change while the store is open: each acts at once, what must be
** over when the call returns is over, what is refused changes nothing. */
#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void set(mw_db *db, const mw_options *to)
{
    mw_err err = {0};
    mw_options from = mw_db_options(db);
    if (mw_db_set_options(db, &from, to, ENGINE_WAIT_MS, &err) != MW_OK) fail_msg("%s", err.text);
}

/* Rows that compress well. */
static void fill_alike(mw_db *db)
{
    engine_fill(db, 1, 500, "nearly the same words again and again, but for the number ");
}

static void what_is_set_is_what_is_shown(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_options to = mw_db_options(db);
    to.durability = MW_DURABILITY_NORMAL;
    to.memtable_bytes = 12345;
    to.cache_bytes = 54321;
    to.merge_generations = 7;
    to.compression = 3;
    to.background = true;
    to.group_rows = 99; /* fixed: left as it was */
    set(db, &to);
    mw_options now = mw_db_options(db);
    assert_int_equal(now.durability, MW_DURABILITY_NORMAL);
    assert_int_equal(now.memtable_bytes, 12345);
    assert_int_equal(now.cache_bytes, 54321);
    assert_int_equal(now.merge_generations, 7);
    assert_int_equal(now.compression, 3);
    assert_true(now.background);
    assert_int_equal(now.group_rows, engine_options().group_rows);
    engine_close(db);
    engine_end(world);
}

/* Two who change different options from the same picture do not undo each other. */
static void only_what_differs_is_changed(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_options from = mw_db_options(db);
    mw_options first = from;
    mw_options second = from;
    first.memtable_bytes = 1111;
    second.merge_generations = 22;
    assert_int_equal(mw_db_set_options(db, &from, &first, 0, NULL), MW_OK);
    assert_int_equal(mw_db_set_options(db, &from, &second, 0, NULL), MW_OK);
    assert_int_equal(mw_db_options(db).memtable_bytes, 1111);
    assert_int_equal(mw_db_options(db).merge_generations, 22);
    engine_close(db);
    engine_end(world);
}

static void a_memtable_is_cut_at_its_new_limit(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_options to = mw_db_options(db);
    engine_fill(db, 1, 100, "x");
    engine_put(db, 101, "x");
    assert_int_equal(engine_figure(db, "memtables"), 1);
    to.memtable_bytes = 1000;
    set(db, &to);
    engine_put(db, 102, "x");
    assert_int_equal(engine_figure(db, "memtables"), 2);
    engine_close(db);
    engine_end(world);
}

static void the_next_file_has_the_new_compression(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_options to = mw_db_options(db);
    to.compression = 0;
    set(db, &to);
    fill_alike(db);
    engine_flush(db);
    int64_t plain = engine_figure(db, "file_bytes");
    to.compression = 5;
    set(db, &to);
    fill_alike(db);
    engine_flush(db);
    assert_true(engine_figure(db, "file_bytes") - plain < plain / 2);
    engine_close(db);
    engine_end(world);
}

static void a_smaller_cache_gives_its_pages_up(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    to.page_bytes = 64;
    mw_db *db = engine_open(world, &to);
    engine_fill(db, 1, 500, "words ");
    engine_flush(db);
    assert_int_equal(engine_count(db), 500);
    int64_t before = engine_figure(db, "cache_bytes");
    assert_true(before > 0);
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor; /* holds pages meanwhile */
    mw_value value;
    assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
    assert_int_equal(mw_cursor_first(cursor, NULL), MW_OK);
    assert_int_equal(mw_cursor_column(cursor, 0, &value, NULL), MW_OK);
    to.cache_bytes = 0;
    set(db, &to);
    assert_int_equal(value.bytes.size, strlen("words 1"));
    assert_memory_equal(value.bytes.data, "words 1", strlen("words 1"));
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
    assert_int_equal(engine_count(db), 500);
    to.cache_bytes = 1;
    set(db, &to); /* what was held meanwhile goes now */
    assert_int_equal(engine_figure(db, "cache_bytes"), 0);
    to.cache_bytes = 64 << 20;
    set(db, &to);
    assert_int_equal(engine_count(db), 500);
    assert_true(engine_figure(db, "cache_bytes") > 0);
    engine_close(db);
    engine_end(world);
}

/* The thread is started for what waits already, and told of a merge that has become due. */
static void background_on_and_fewer_generations_act_at_once(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_options to = mw_db_options(db);
    for (int64_t id = 1; id <= 3; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
    }
    engine_put(db, 4, "x");
    engine_freeze(db);
    to.background = true;
    to.merge_generations = 100;
    set(db, &to);
    engine_wait_figure(db, "flushes", 4);
    assert_int_equal(engine_figure(db, "merges"), 0);
    to.merge_generations = 4;
    set(db, &to);
    engine_wait_figure(db, "merges", 1);
    assert_string_equal(engine_rows(db), "1=x 2=x 3=x 4=x");
    engine_close(db);
    engine_end(world);
}

static mw_rc run_off(engine_call *call)
{
    mw_options from = mw_db_options(call->db);
    mw_options to = from;
    to.background = false;
    return mw_db_set_options(call->db, &from, &to, call->number, &call->err);
}

/* A step that is under way has ended when background is off; what the thread had still to flush is
** flushed, and the thread does nothing more. */
static void background_off_returns_when_nothing_is_at_work(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    to.background = true;
    mw_db *db = engine_open(world, &to);
    to.compression = 1;
    set(db, &to); /* starts the thread */
    engine_put(db, 1, "a");
    engine_freeze(db); /* wakes nobody */
    int hold = sim_hold(world, SIM_WRITE, "table-");
    engine_put(db, 2, "b");
    to.merge_generations = 1;
    set(db, &to); /* wakes the thread */
    assert_true(sim_wait_held(world, hold));
    engine_freeze(db);
    engine_call call = {.run = run_off, .db = db, .number = ENGINE_WAIT_MS};
    engine_start(&call);
    assert_false(engine_ends(&call, 200));
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_OK);
    assert_int_equal(engine_figure(db, "memtables"), 1);
    assert_int_equal(engine_figure(db, "flushes"), 2);
    engine_put(db, 3, "c"); /* may merge by itself what is due */
    engine_freeze(db);
    int64_t merges = engine_figure(db, "merges");
    usleep(100 * 1000);
    assert_int_equal(engine_figure(db, "memtables"), 2);
    assert_int_equal(engine_figure(db, "merges"), merges);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    engine_close(db);
    engine_end(world);
}

/* I14: the wait has an end, and then nothing has changed. */
static void a_step_that_does_not_end_leaves_background_on(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    to.background = true;
    mw_db *db = engine_open(world, &to);
    engine_put(db, 1, "a");
    engine_freeze(db);
    int hold = sim_hold(world, SIM_WRITE, "table-");
    to.merge_generations = 50;
    set(db, &to);
    assert_true(sim_wait_held(world, hold));
    engine_call call = {.run = run_off, .db = db, .number = 100};
    engine_start(&call);
    assert_int_equal(engine_wait(&call), MW_BUSY);
    assert_true(mw_db_options(db).background);
    sim_release(world, hold);
    engine_wait_figure(db, "flushes", 1);
    engine_close(db);
    engine_end(world);
}

/* C19: a child of a fork has no thread that could end its step, and nothing is its to flush. */
static void background_off_in_a_forked_child_waits_for_nobody(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    to.background = true;
    mw_db *db = engine_open(world, &to);
    engine_put(db, 1, "a");
    engine_freeze(db);
    int hold = sim_hold(world, SIM_WRITE, "table-");
    to.merge_generations = 50;
    set(db, &to);
    assert_true(sim_wait_held(world, hold));
    sim_set_process_id(world, 4711);
    uint64_t steps = sim_steps(world);
    engine_call call = {.run = run_off, .db = db, .number = ENGINE_WAIT_MS};
    engine_start(&call);
    bool soon = engine_ends(&call, 5000);
    bool nothing = sim_steps(world) == steps;
    sim_set_process_id(world, engine_store(db)->process);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_OK);
    assert_true(soon && nothing);
    engine_close(db);
    engine_end(world);
}

/* C69 in small: the merge at hand is given up, and nothing of it is left. */
static void background_off_gives_a_merge_up(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    sim *world = engine_world();
    mw_options to = engine_options();
    mw_db *db = engine_open(world, &to);
    for (int i = 0; i < 2; i++) { /* a single one would move as it is */
        engine_fill(db, 1, ROWS, "some words that take some room in the output file ");
        engine_flush(db);
    }
    int hold = sim_hold(world, SIM_WRITE, "table-");
    to.background = true;
    to.merge_generations = 1;
    set(db, &to);
    assert_true(sim_wait_held(world, hold));
    engine_call call = {.run = run_off, .db = db, .number = ENGINE_WAIT_MS};
    engine_start(&call);
    while (mw_db_options(db).background) usleep(1000);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_OK);
    assert_int_equal(engine_figure(db, "merges"), 0);
    assert_int_equal(engine_file_count(world, "table-"), 2);
    assert_int_equal(engine_count(db), ROWS);
    engine_close(db);
    engine_end(world);
}

/* Whatever a power cut leaves at this moment, it has rows 1 to count. */
static void expect_durable(sim *world, int64_t count)
{
    uint32_t states = sim_disk_count(world, 400);
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(world, i);
        mw_db *db = engine_open(after, NULL);
        assert_int_equal(engine_count(db), count);
        for (int64_t id = 1; id <= count; id++) assert_non_null(engine_find(db, id));
        engine_close(db);
        engine_end(after);
    }
}

/* I1, I3: from its return on everything that can be seen is durable, also where the rows lie in
** several segments and have been flushed meanwhile. */
static void a_power_cut_after_durability_full_loses_nothing(void **state)
{
    (void)state;
    for (int64_t frozen = 0; frozen < 6; frozen++) {
        sim *world = engine_world();
        mw_options to = engine_options();
        mw_db *db = engine_open(world, &to);
        to.durability = MW_DURABILITY_NORMAL;
        set(db, &to);
        for (int64_t id = 1; id < 6; id++) {
            if (id == frozen) engine_freeze(db);
            engine_put(db, id, "x");
        }
        to.durability = MW_DURABILITY_FULL;
        set(db, &to);
        expect_durable(world, 5);
        engine_put(db, 6, "x");
        expect_durable(world, 6);
        engine_flush(db);
        expect_durable(world, 6);
        engine_close(db);
        engine_end(world);
    }
}

/* I3: from its return on everything that can be seen is durable. */
static void durability_full_syncs_what_was_not(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    mw_db *db = engine_open(world, &to);
    engine_put(db, 1, "a");
    to.durability = MW_DURABILITY_NORMAL;
    set(db, &to);
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-"); /* also of the thread that syncs in time */
    engine_put(db, 2, "b");
    sim_release(world, hold);
    to.durability = MW_DURABILITY_FULL;
    set(db, &to);
    assert_int_equal(engine_store(db)->unsynced_since_ns, 0);
    assert_int_equal(engine_store(db)->durable, 2);
    int64_t syncs = engine_figure(db, "wal_syncs");
    engine_put(db, 3, "c");
    assert_int_equal(engine_figure(db, "wal_syncs"), syncs + 1);
    engine_close(db);
    engine_end(world);
}

/* I10: a sync that fails there stops the writer, as any other. */
static void a_failing_sync_is_told(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    mw_db *db = engine_open(world, &to);
    engine_put(db, 1, "a");
    to.durability = MW_DURABILITY_NORMAL;
    set(db, &to);
    sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, true);
    engine_put(db, 2, "b");
    mw_options from = to;
    to.durability = MW_DURABILITY_FULL;
    assert_int_equal(mw_db_set_options(db, &from, &to, 0, NULL), MW_PERSISTENCE);
    assert_int_equal(engine_try(db, 3, "c", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
    sim_fail_clear(world);
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* With background off the thread still syncs for durability normal, and flushes nothing. */
static void normal_durability_has_its_thread(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    mw_db *db = engine_open(world, &to);
    engine_put(db, 1, "a");
    to.durability = MW_DURABILITY_NORMAL;
    set(db, &to);
    int64_t syncs = engine_figure(db, "wal_syncs");
    engine_put(db, 2, "b");
    engine_freeze(db);
    engine_wait_figure(db, "wal_syncs", syncs + 1);
    assert_int_equal(engine_figure(db, "flushes"), 0);
    engine_close(db);
    engine_end(world);
}

static bool is_synced(mw_db *db)
{
    mw_store *store = engine_store(db);
    mw_store_lock(store);
    bool synced = store->unsynced_since_ns == 0;
    mw_store_unlock(store);
    return synced;
}

/* What a writer could not flush is told until it is flushed: the syncs of the thread do not make up
** for it. */
static void a_sync_does_not_hide_a_failed_flush(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    mw_db *db = engine_open(world, &to);
    to.durability = MW_DURABILITY_NORMAL;
    set(db, &to);
    engine_put(db, 1, "a");
    engine_freeze(db);
    sim_fail_named(world, SIM_OPEN, "table-", 1, ENOSPC, true);
    engine_put(db, 2, "b");
    assert_non_null(engine_words(db, "last_error"));
    engine_put(db, 3, "c");
    while (!is_synced(db)) usleep(1000);
    usleep(20000); /* the thread ends its step */
    assert_non_null(engine_words(db, "last_error"));
    sim_fail_clear(world);
    engine_put(db, 4, "d");
    assert_null(engine_words(db, "last_error"));
    engine_close(db);
    engine_end(world);
}

/* I1: where there is no thread that would sync it in time, the commit itself does. */
static void normal_durability_without_a_thread_syncs_at_once(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options to = engine_options();
    mw_db *db = engine_open(world, &to);
    sim_fail(world, SIM_THREAD, 1, EAGAIN, true);
    to.durability = MW_DURABILITY_NORMAL;
    set(db, &to);
    engine_put(db, 1, "x");
    expect_durable(world, 1);
    engine_put(db, 2, "x");
    expect_durable(world, 2);
    engine_close(db);
    engine_end(world);
}

/* I2: with durability normal, too, nothing comes back that was taken back. */
static void what_normal_durability_has_taken_back_is_gone_for_good(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        sim *world = engine_world();
        mw_options to = engine_options();
        mw_db *db = engine_open(world, &to);
        sim_fail(world, SIM_THREAD, 1, EAGAIN, true);
        to.durability = MW_DURABILITY_NORMAL;
        set(db, &to);
        engine_put(db, 1, "x");
        sim_fail_clear(world);
        mw_txn *txn = engine_begin(db); /* starts the thread: from here on commits are not synced */
        engine_txn_put(txn, 2, "x");
        mw_txn_kind as = kind == 0 ? MW_TXN_FULL : MW_TXN_LIGHT;
        int64_t syncs = engine_figure(db, "wal_syncs");
        assert_int_equal(mw_txn_prepare(txn, as, NULL), MW_OK);
        engine_rollback(txn);
        assert_true(engine_figure(db, "wal_syncs") > syncs);
        assert_int_equal(engine_store(db)->unsynced_since_ns, 0);
        expect_durable(world, 1);
        engine_close(db);
        engine_end(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_set_is_what_is_shown),
        cmocka_unit_test(only_what_differs_is_changed),
        cmocka_unit_test(a_memtable_is_cut_at_its_new_limit),
        cmocka_unit_test(the_next_file_has_the_new_compression),
        cmocka_unit_test(a_smaller_cache_gives_its_pages_up),
        cmocka_unit_test(background_on_and_fewer_generations_act_at_once),
        cmocka_unit_test(background_off_returns_when_nothing_is_at_work),
        cmocka_unit_test(a_step_that_does_not_end_leaves_background_on),
        cmocka_unit_test(background_off_in_a_forked_child_waits_for_nobody),
        cmocka_unit_test(background_off_gives_a_merge_up),
        cmocka_unit_test(durability_full_syncs_what_was_not),
        cmocka_unit_test(a_power_cut_after_durability_full_loses_nothing),
        cmocka_unit_test(a_failing_sync_is_told),
        cmocka_unit_test(normal_durability_has_its_thread),
        cmocka_unit_test(a_sync_does_not_hide_a_failed_flush),
        cmocka_unit_test(normal_durability_without_a_thread_syncs_at_once),
        cmocka_unit_test(what_normal_durability_has_taken_back_is_gone_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
