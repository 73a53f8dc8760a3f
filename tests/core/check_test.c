/* check_test.c: memwal_check finds a changed byte in every kind of file and names it, and a count
** that is wrong; it says "ok" of everything else, and does so beside writers. */
#include "check.h"

#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A base, two generations, a frozen and an active memtable. */
static mw_db *open_with_everything(sim *world)
{
    mw_db *db = engine_open(world, NULL);
    uint64_t generation;
    engine_fill(db, 1, 20, "base");
    engine_flush(db);
    engine_merge(db, 0);
    engine_put(db, 3, "new");
    engine_delete(db, 4);
    engine_flush(db);
    engine_delete(db, 5);
    engine_flush(db);
    engine_put(db, 30, "frozen");
    mw_txn *txn = engine_begin(db); /* a cancelled entry is no fault */
    engine_txn_put(txn, 41, "undone");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    engine_put(db, 31, "frozen");
    txn = engine_begin(db);
    engine_txn_put(txn, 40, "active");
    assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
    engine_commit(txn, MW_TXN_FULL);
    return db;
}

static void a_sound_store_is_ok(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    assert_string_equal(engine_check(db), "ok"); /* nothing at all */
    engine_close(db);
    db = open_with_everything(world);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    db = engine_open(world, NULL);
    assert_string_equal(engine_check(db), "ok");
    mw_db_abandon(db);
    db = engine_open(world, NULL);
    engine_put(db, 50, "x");
    mw_db_abandon(db);
    db = engine_open(world, NULL); /* parts of the log of two older epochs */
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 51, "y");
    assert_string_equal(engine_check(db), "ok");
    engine_flush(db);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* I9: a bit of any byte of the file, changed behind the open store's back; the fault names the
** file. */
static void expect_found(sim *world, mw_db *db, const char *path)
{
    int64_t bytes = sim_file_size(world, path);
    for (int64_t byte = 0; byte < bytes; byte++) {
        uint64_t bit = (uint64_t)(byte * 8 + byte % 8);
        sim_file_flip(world, path, bit);
        const char *faults = engine_check(db);
        if (!strstr(faults, path + 6))
            fail_msg("byte %lld of %s: %s", (long long)byte, path, faults);
        sim_file_flip(world, path, bit);
    }
    assert_string_equal(engine_check(db), "ok");
}

static void a_changed_byte_of_a_table_file_is_found(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = open_with_everything(world);
    assert_int_equal(engine_file_count(world, "table-"), 3);
    for (uint32_t i = 0; engine_file(world, "table-", i, path); i++) {
        expect_found(world, db, path);
    }
    engine_close(db);
    engine_end(world);
}

static void a_changed_byte_of_the_manifest_is_found(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = open_with_everything(world);
    assert_true(engine_file(world, "manifest-", 0, path));
    expect_found(world, db, path);
    engine_close(db);
    engine_end(world);
}

/* Every byte of every record, and of every header, of the log that is still needed. */
static void a_changed_byte_of_the_log_is_found(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = open_with_everything(world);
    assert_int_equal(engine_file_count(world, "wal-"), 2);
    for (uint32_t i = 0; engine_file(world, "wal-", i, path); i++) {
        uint8_t bytes[2048];
        size_t end = sim_file_read(world, path, 0, bytes, sizeof bytes);
        while (bytes[end - 1] == 0) end--; /* the rest is allocated, not written */
        assert_in_range(end, 150, 1000);
        for (size_t byte = 0; byte < end; byte++) {
            sim_file_flip(world, path, byte * 8 + byte % 8);
            const char *faults = engine_check(db);
            /* Where a record is damaged, the log ends too early: that names the position. */
            if (!strstr(faults, "wal-") && !strstr(faults, "the log ends at position")) {
                fail_msg("byte %zu of %s: %s", byte, path, faults);
            }
            sim_file_flip(world, path, byte * 8 + byte % 8);
        }
    }
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

static sim *closed_world(void)
{
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_close(db);
    return world;
}

/* The rows do not depend on it; all the same the disk has changed what was written. */
static void a_changed_byte_of_the_state_file_is_found(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_everything(world);
    expect_found(world, db, "store/state");
    engine_close(db);
    engine_end(world);
    for (uint64_t bit = 0; bit < 48 * 8; bit += 7) {
        world = closed_world();
        sim_file_flip(world, "store/state", bit);
        db = engine_open(world, NULL); /* writes it anew, and remembers */
        const char *faults = engine_check(db);
        if (!strstr(faults, "state, offset 0: ")) fail_msg("bit %d: %s", (int)bit, faults);
        assert_string_equal(engine_rows(db), "1=a");
        engine_close(db);
        db = engine_open(world, NULL);
        assert_string_equal(engine_check(db), "ok");
        engine_close(db);
        engine_end(world);
    }
}

/* The state file is never synced: what a power cut leaves of it is no damage. */
static void what_a_crash_leaves_of_the_state_file_is_no_fault(void **state)
{
    (void)state;
    static const uint8_t zeros[48];
    for (int i = 0; i < 4; i++) {
        sim *world = closed_world();
        if (i == 0) sim_file_delete(world, "store/state");
        if (i == 1) sim_file_truncate(world, "store/state", 47);
        if (i == 2) sim_file_truncate(world, "store/state", 0);
        if (i == 3) sim_file_put(world, "store/state", zeros, sizeof zeros);
        mw_db *db = engine_open(world, NULL);
        assert_string_equal(engine_check(db), "ok");
        assert_string_equal(engine_rows(db), "1=a");
        engine_close(db);
        engine_end(world);
    }
}

/* Nor is a write of it that failed half way. */
static void half_a_state_file_is_no_fault(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    sim_fail_named(world, SIM_WRITE, "state", 1, SIM_TORN, false);
    assert_int_equal(mw_db_close(db, NULL), MW_IO);
    db = engine_open(world, NULL);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* A file is gone, or cut, or longer: a fault each. */
static void missing_and_cut_files_are_found(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"table-", "manifest-", "wal-"};
    for (size_t i = 0; i < 2 * sizeof prefixes / sizeof *prefixes; i++) {
        char path[ENGINE_PATH_BYTES];
        sim *world = engine_world();
        mw_db *db = open_with_everything(world);
        assert_true(engine_file(world, prefixes[i / 2], 0, path));
        if (i % 2)
            sim_file_delete(world, path);
        else
            sim_file_truncate(world, path, 100);
        if (strcmp(engine_check(db), "ok") == 0) fail_msg("%s: found nothing", path);
        mw_db_abandon(db);
        engine_end(world);
    }
}

/* Several faults are several lines. */
static void every_fault_has_its_line(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = open_with_everything(world);
    for (uint32_t i = 0; engine_file(world, "table-", i, path); i++)
        sim_file_flip(world, path, 8 * 60);
    assert_true(engine_file(world, "manifest-", 0, path));
    sim_file_flip(world, path, 100);
    const char *faults = engine_check(db);
    uint32_t lines = 1;
    for (const char *at = faults; (at = strchr(at, '\n')); at++) lines++;
    assert_in_range(lines, 4, 5);
    mw_db_abandon(db);
    engine_end(world);
}

/* I7: the maintained count is wrong (here: by hand): the recount tells both numbers. */
static void a_wrong_count_is_found(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_everything(world);
    mw_store *store = engine_store(db);
    mw_store_lock(store);
    store->visible.count++;
    mw_store_unlock(store);
    assert_string_equal(engine_check(db), "the count says 22 live ids, a scan finds 21");
    mw_store_lock(store);
    store->visible.count--;
    mw_store_unlock(store);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

static void expect_no_line(void *arg, const char *line)
{
    (void)arg;
    fail_msg("found a fault: %s", line);
}

/* What fails for another reason than damage is a failure of the call, not a fault of the store. */
static void trouble_while_checking_is_no_fault(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (bool met = true; met; n++) {
        sim *world = engine_world();
        mw_db *db = open_with_everything(world);
        uint32_t faults = 0;
        sim_fail(world, SIM_READ, n, EIO, false);
        mw_rc rc = mw_check_run(engine_store(db), expect_no_line, NULL, &faults, NULL);
        met = sim_fail_hits(world) > 0;
        sim_fail_clear(world);
        assert_int_equal(rc, met ? MW_IO : MW_OK);
        assert_string_equal(engine_check(db), "ok");
        engine_put(db, 99, "works"); /* the turn is free */
        engine_close(db);
        engine_end(world);
    }
    assert_true(n > 5);
}

/* Beside writers and flushes it says "ok" again and again. */
static mw_rc run_writes(engine_call *call)
{
    mw_rc rc = MW_OK;
    for (int64_t id = 0; rc == MW_OK && id < 200; id++) {
        uint64_t generation;
        rc = engine_try(call->db, id % 50, id % 7 ? "x" : NULL, MW_TXN_LIGHT, &call->err);
        if (rc == MW_OK && id % 20 == 0)
            rc = mw_db_flush(call->db, ENGINE_WAIT_MS, &generation, &call->err);
    }
    return rc;
}

static void a_check_beside_writers_is_ok(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_call writer = {.run = run_writes, .db = db};
    engine_start(&writer);
    int checks = 0;
    for (bool over = false; !over; checks++) {
        over = engine_ends(&writer, 0);
        assert_string_equal(engine_check(db), "ok");
    }
    assert_int_equal(engine_wait(&writer), MW_OK);
    assert_true(checks > 1);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_store_is_ok),
        cmocka_unit_test(a_changed_byte_of_a_table_file_is_found),
        cmocka_unit_test(a_changed_byte_of_the_manifest_is_found),
        cmocka_unit_test(a_changed_byte_of_the_log_is_found),
        cmocka_unit_test(a_changed_byte_of_the_state_file_is_found),
        cmocka_unit_test(what_a_crash_leaves_of_the_state_file_is_no_fault),
        cmocka_unit_test(half_a_state_file_is_no_fault),
        cmocka_unit_test(missing_and_cut_files_are_found),
        cmocka_unit_test(every_fault_has_its_line),
        cmocka_unit_test(a_wrong_count_is_found),
        cmocka_unit_test(trouble_while_checking_is_no_fault),
        cmocka_unit_test(a_check_beside_writers_is_ok),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
