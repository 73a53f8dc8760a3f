/* log_view_test.c: the log as a list: every entry with its state, as one moment saw it, whatever
** happens to the files meanwhile. */
#include "engine.h"
#include "epoch.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct lines {
    char text[4096]; /* "position/epoch/generation +puts -deletes state, ..." */
    uint64_t bytes;
} lines;

static void read_rest(mw_log_view *view, lines *all)
{
    bool any = true;
    mw_err err = {0};
    memset(all, 0, sizeof *all);
    while (any) {
        mw_log_line line;
        if (mw_log_view_next(view, &line, &any, &err) != MW_OK) fail_msg("%s", err.text);
        if (!any) break;
        size_t used = strlen(all->text);
        snprintf(all->text + used, sizeof all->text - used, "%s%llu/%llu/%llu +%llu -%llu %s",
                 used ? ", " : "", (unsigned long long)line.position,
                 (unsigned long long)line.epoch, (unsigned long long)line.generation,
                 (unsigned long long)line.puts, (unsigned long long)line.deletes, line.state);
        all->bytes += line.bytes;
    }
}

static mw_log_view *open_view(mw_db *db)
{
    mw_log_view *view = NULL;
    mw_err err = {0};
    if (mw_log_view_open(db, &view, &err) != MW_OK) fail_msg("%s", err.text);
    return view;
}

static void expect(mw_db *db, const char *text)
{
    lines all;
    mw_log_view *view = open_view(db);
    read_rest(view, &all);
    mw_log_view_close(view);
    assert_string_equal(all.text, text);
}

/* From now on what is frozen stays so: a writer that would flush it finds the disk full. */
static void keep_frozen(sim *world) { sim_fail_named(world, SIM_OPEN, "table-", 1, ENOSPC, true); }

static void entries_stand_in_position_order_with_what_they_do(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    expect(db, "");
    engine_fill(db, 1, 3, "x");
    expect(db, "1/1/1 +3 -0 published");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "again");
    engine_txn_delete(txn, 1);
    engine_txn_delete(txn, 3);
    engine_commit(txn, MW_TXN_FULL);
    engine_rollback(engine_begin(db)); /* leaves nothing */
    keep_frozen(world);
    assert_int_equal(engine_freeze(db), 1);
    engine_put(db, 9, "next generation");
    expect(db, "1/1/1 +3 -0 published, 2/1/1 +1 -2 published, 3/1/2 +1 -0 published");
    sim_fail_clear(world);
    engine_flush(db);
    expect(db, "");
    engine_put(db, 10, "x");
    expect(db, "4/1/3 +1 -0 published");
    engine_close(db);
    db = engine_open(world, NULL);
    expect(db, "4/1/3 +1 -0 published");
    engine_close(db);
    engine_end(world);
}

/* The bytes are those between the header and the end of the log. */
static void bytes_are_those_in_the_file(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 0; id < 20; id++) engine_fill(db, id, id + 1, "words");
    lines all;
    mw_log_view *view = open_view(db);
    read_rest(view, &all);
    mw_log_view_close(view);
    mw_log_reader *reader;
    mw_log_entry entry;
    mw_log_found found = MW_LOG_ENTRY;
    bool whole;
    uint64_t offset;
    uint64_t chain;
    mw_store *store = engine_store(db);
    assert_int_equal(
        mw_log_reader_open(sim_env(world), store->dir, &store->id, 1, 1, &reader, &whole, NULL),
        MW_OK);
    while (found == MW_LOG_ENTRY) {
        assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
    }
    mw_log_reader_end(reader, &offset, &chain);
    mw_log_reader_close(reader);
    assert_int_equal(all.bytes, offset - MW_LOG_HEADER_BYTES);
    engine_close(db);
    engine_end(world);
}

/* I3: what is not published is not shown as if it were; what is taken back says so. */
static void states_tell_what_counts(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "b");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    mw_log_view *before = open_view(db);
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 undecided");
    engine_rollback(txn);
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 aborted, 3/1/1 +0 -0 abort");
    lines all;
    read_rest(before, &all); /* its moment is over, but still its moment */
    mw_log_view_close(before);
    assert_string_equal(all.text, "1/1/1 +1 -0 published, 2/1/1 +1 -0 undecided");
    engine_put(db, 4, "d");
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 aborted, 3/1/1 +0 -0 abort, "
               "4/1/1 +1 -0 published");
    engine_close(db);
    db = engine_open(world, NULL);
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 aborted, 3/1/1 +0 -0 abort, "
               "4/1/1 +1 -0 published");
    engine_close(db);
    engine_end(world);
}

/* L06: an entry whose sync is held is in the log, but nobody's yet. */
static void an_entry_that_waits_for_its_sync_is_undecided(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    engine_call call = {.run = engine_run_put, .db = db, .id = 2, .words = "b"};
    call.kind = MW_TXN_LIGHT;
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 undecided");
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_OK);
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 published");
    engine_close(db);
    engine_end(world);
}

/* After a takeover copies stand for what they were copied from, once. */
static void copies_of_a_takeover_count_once(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 3, "c");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    mw_db_abandon(db);
    db = engine_open(world, NULL);
    engine_put(db, 5, "e");
    expect(db, "1/1/1 +1 -0 published, 2/1/1 +1 -0 published, 3/1/1 +1 -0 aborted, "
               "4/1/1 +0 -0 abort, 5/2/1 +1 -0 published");
    engine_close(db);
    engine_end(world);
}

/* A view holds its segments: a flush in the middle changes nothing for it. A segment that is gone
** before it could be opened takes the older ones along: no gaps. */
static void what_is_flushed_meanwhile_leaves_no_gap(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "1/1/1 +1 -0 published, 2/1/2 +1 -0 published, 3/1/3 +1 -0 published",
        "2/1/2 +1 -0 published, 3/1/3 +1 -0 published",
        "3/1/3 +1 -0 published",
        "",
    };
    for (uint32_t gone = 0; gone < 4; gone++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        keep_frozen(world);
        for (int64_t id = 1; id <= 3; id++) {
            engine_put(db, id, "x");
            if (id < 3) engine_freeze(db);
        }
        sim_fail_clear(world);
        char path[ENGINE_PATH_BYTES];
        lines all;
        mw_log_view *held = open_view(db);
        if (gone > 0) {
            assert_true(engine_file(world, "wal-", gone - 1, path));
            sim_file_delete(world, path);
        }
        expect(db, wanted[gone]);
        engine_flush(db);
        expect(db, "");
        read_rest(held, &all);
        mw_log_view_close(held);
        assert_string_equal(all.text, wanted[0]);
        engine_close(db);
        engine_end(world);
    }
}

/* I9: an entry that was published and cannot be read is damage, not the end. */
static void a_published_entry_that_is_damaged_is_named(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    lines first;
    mw_log_view *view;
    mw_log_line line;
    mw_err err = {0};
    char path[ENGINE_PATH_BYTES];
    engine_put(db, 1, "a");
    view = open_view(db);
    read_rest(view, &first);
    mw_log_view_close(view);
    engine_put(db, 2, "b");
    assert_true(engine_file(world, "wal-", 0, path));
    uint8_t byte = 0xff;
    sim_file_write(world, path, MW_LOG_HEADER_BYTES + first.bytes + 60, &byte, 1);
    view = open_view(db);
    bool any;
    mw_rc rc = mw_log_view_next(view, &line, &any, &err);
    assert_int_equal(rc, MW_CORRUPT);
    mw_log_view_close(view);
    assert_non_null(strstr(err.text, path + strlen("store/")));
    assert_non_null(strstr(err.text, "position 1, but 2 was published"));
    engine_close(db);
    engine_end(world);
}

/* A cursor of memwal_wal may stand when the last user of the store goes. */
static void a_view_outlives_its_store(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_log_view *view;
    lines all;
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    view = open_view(db);
    engine_close(db);
    read_rest(view, &all);
    assert_string_equal(all.text, "1/1/1 +1 -0 published, 2/1/1 +1 -0 published");
    mw_log_view_close(view);
    engine_end(world);
}

static void failures_are_told_and_leave_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_log_view *view = NULL;
    engine_put(db, 1, "a");
    sim_fail_named(world, SIM_OPEN, "wal-", 1, EIO, false);
    assert_int_equal(mw_log_view_open(db, &view, NULL), MW_IO);
    assert_null(view);
    sim_fail_named(world, SIM_READ, "wal-", 1, EIO, false);
    assert_int_equal(mw_log_view_open(db, &view, NULL), MW_IO);
    sim_fail_clear(world);
    for (uint64_t nth = 1;; nth++) {
        sim_fail(world, SIM_ALLOC, nth, ENOMEM, false);
        mw_rc rc = mw_log_view_open(db, &view, NULL);
        sim_fail_clear(world);
        if (rc == MW_OK) break;
        assert_int_equal(rc, MW_NOMEM);
        assert_true(nth < 20);
    }
    mw_log_view_close(view);
    mw_log_view_close(NULL);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_stand_in_position_order_with_what_they_do),
        cmocka_unit_test(bytes_are_those_in_the_file),
        cmocka_unit_test(states_tell_what_counts),
        cmocka_unit_test(an_entry_that_waits_for_its_sync_is_undecided),
        cmocka_unit_test(copies_of_a_takeover_count_once),
        cmocka_unit_test(what_is_flushed_meanwhile_leaves_no_gap),
        cmocka_unit_test(a_published_entry_that_is_damaged_is_named),
        cmocka_unit_test(a_view_outlives_its_store),
        cmocka_unit_test(failures_are_told_and_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
