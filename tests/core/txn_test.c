/* txn_test.c: a write transaction: its own view, savepoints, counts, prepare and the ways to take
** it back. Compensation puts back what was there and leaves alone what others wrote since. */
#include "txn.h"

#include "engine.h"
#include "flush.h"
#include "oracle.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static mw_txn *prepared(mw_db *db, int64_t id, const char *words, mw_txn_kind kind)
{
    mw_err err = {0};
    mw_txn *txn = engine_begin(db);
    assert_int_equal(engine_txn_try(txn, id, words, NULL), MW_OK);
    if (mw_txn_prepare(txn, kind, &err) != MW_OK) fail_msg("%s", err.text);
    return txn;
}

static mw_db *reopen(mw_db *db, sim *world)
{
    engine_close(db);
    return engine_open(world, NULL);
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool exists(mw_txn *txn, int64_t id)
{
    uint8_t key[8];
    bool lives = false;
    assert_int_equal(mw_txn_exists(txn, engine_key(id, key), &lives, NULL), MW_OK);
    return lives;
}

/* Every answer about an id, for one that lies in the base, a generation, a frozen and the active
** memtable, for a deleted one and for none. */
static void changes_tell_what_they_met(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "base");
    engine_put(db, 9, "gone");
    engine_flush(db);
    engine_merge(db, 0);
    engine_put(db, 2, "generation");
    engine_delete(db, 9);
    engine_flush(db);
    engine_put(db, 3, "active");
    mw_txn *txn = engine_begin(db);
    uint8_t key[8];
    mw_slice row = {(const uint8_t *)"\0", 1}; /* NULL */
    for (int64_t id = 1; id <= 10; id++) {
        bool lives = id <= 3;
        bool flag = !lives;
        assert_int_equal(exists(txn, id), lives);
        assert_int_equal(mw_txn_delete(txn, engine_key(id, key), &flag, NULL), MW_OK);
        assert_int_equal(flag, lives);
        assert_false(exists(txn, id));
        assert_int_equal(mw_txn_delete(txn, engine_key(id, key), &flag, NULL), MW_OK);
        assert_false(flag);
        assert_int_equal(mw_txn_put(txn, engine_key(id, key), row, &flag, NULL), MW_OK);
        assert_false(flag);
        assert_int_equal(mw_txn_put(txn, engine_key(id, key), row, &flag, NULL), MW_OK);
        assert_true(flag);
        assert_true(exists(txn, id));
    }
    assert_int_equal(mw_txn_count_delta(txn), 7);
    engine_rollback(txn);
    assert_string_equal(engine_rows(db), "1=base 2=generation 3=active");
    engine_close(db);
    engine_end(world);
}

/* Only what others have published since counts, not what was rolled back or came to nothing. */
static void a_transaction_tells_whether_the_store_has_moved(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_snapshot *snapshot = NULL;
    engine_put(db, 1, "a");
    assert_int_equal(mw_snapshot_take(db, NULL, &snapshot, NULL), MW_OK);
    engine_rollback(prepared(db, 2, "b", MW_TXN_FULL));
    engine_flush(db);
    engine_merge(db, 0);
    mw_txn *txn = engine_begin(db);
    assert_true(mw_txn_continues(txn, snapshot));
    assert_int_equal(engine_txn_try(txn, 2, "b", NULL), MW_OK);
    assert_true(mw_txn_continues(txn, snapshot));
    engine_rollback(txn);
    engine_put(db, 1, "a");
    txn = engine_begin(db);
    assert_false(mw_txn_continues(txn, snapshot));
    engine_rollback(txn);
    mw_snapshot_release(snapshot);
    engine_close(db);
    engine_end(world);
}

/* C27, I7: over an id that is there: 0; a delete of none: 0; 50 and rolled back: 0; 50, a
** savepoint, 20 of them deleted, back to the savepoint, committed: +50. */
static void the_counter_moves_by_live_ids(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 1, "b");
    assert_int_equal(engine_count(db), 1);
    engine_delete(db, 77);
    assert_int_equal(engine_count(db), 1);
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 100; id < 150; id++) engine_txn_put(txn, id, "x");
    assert_int_equal(mw_txn_count_delta(txn), 50);
    engine_rollback(txn);
    assert_int_equal(engine_count(db), 1);
    txn = engine_begin(db);
    for (int64_t id = 100; id < 150; id++) engine_txn_put(txn, id, "x");
    uint64_t mark = engine_mark(txn);
    for (int64_t id = 100; id < 120; id++) engine_txn_delete(txn, id);
    assert_int_equal(mw_txn_count_delta(txn), 30);
    assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
    assert_int_equal(mw_txn_count_delta(txn), 50);
    engine_commit(txn, MW_TXN_LIGHT);
    assert_int_equal(engine_count(db), 51);
    db = reopen(db, world);
    assert_int_equal(engine_count(db), 51);
    engine_close(db);
    engine_end(world);
}

/* Where the rows of C40 lie when the transaction meets them, and what happens afterwards. */
enum { IN_MEMORY, IN_GENERATION, IN_BASE, PLACES };

static void move_rows(mw_db *db, int place)
{
    if (place >= IN_GENERATION) engine_flush(db);
    if (place >= IN_BASE) engine_merge(db, 0);
}

/* C40: insert 1, a savepoint, change 1, delete 1, insert 2, back to the savepoint, commit: 1 with
** its first value, no 2. Everywhere, and after a reopen. Also with 1 there before. */
static void a_savepoint_takes_back_everything_behind_it(void **state)
{
    (void)state;
    for (int place = IN_MEMORY; place < PLACES; place++) {
        for (int there = 0; there < 2; there++) {
            sim *world = engine_world();
            mw_db *db = engine_open(world, NULL);
            if (there) engine_put(db, 1, "before");
            engine_put(db, 3, "other");
            move_rows(db, place);
            mw_txn *txn = engine_begin(db);
            engine_txn_put(txn, 1, "first");
            uint64_t mark = engine_mark(txn);
            engine_txn_put(txn, 1, "second");
            engine_txn_delete(txn, 1);
            engine_txn_put(txn, 2, "two");
            engine_txn_delete(txn, 3);
            assert_string_equal(engine_txn_rows(db, txn), "2=two");
            assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
            assert_string_equal(engine_txn_rows(db, txn), "1=first 3=other");
            engine_commit(txn, MW_TXN_FULL);
            assert_string_equal(engine_rows(db), "1=first 3=other");
            move_rows(db, place);
            db = reopen(db, world);
            assert_string_equal(engine_rows(db), "1=first 3=other");
            engine_close(db);
            engine_end(world);
        }
    }
}

/* Marks nest and may be used again; what is written after an undo is newer than what was undone. */
static void marks_nest_and_can_be_used_again(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_txn *txn = engine_begin(db);
    uint64_t outer = engine_mark(txn);
    engine_txn_put(txn, 1, "a");
    uint64_t inner = engine_mark(txn);
    for (int i = 0; i < 20; i++) {
        engine_txn_put(txn, 1, "b");
        engine_txn_put(txn, 2, "c");
        assert_int_equal(mw_txn_undo(txn, inner, NULL), MW_OK);
        assert_string_equal(engine_txn_rows(db, txn), "1=a");
    }
    assert_int_equal(mw_txn_undo(txn, inner, NULL), MW_OK); /* nothing is behind it */
    engine_txn_put(txn, 1, "d");
    assert_string_equal(engine_txn_rows(db, txn), "1=d");
    assert_int_equal(mw_txn_undo(txn, outer, NULL), MW_OK);
    assert_string_equal(engine_txn_rows(db, txn), "");
    engine_txn_put(txn, 5, "e");
    engine_commit(txn, MW_TXN_LIGHT);
    assert_string_equal(engine_rows(db), "5=e");
    engine_close(db);
    engine_end(world);
}

/* C43: its own rows are read inside, whichever way; others see them after the commit only. */
static void own_rows_are_seen_inside_and_by_others_after_the_commit(void **state)
{
    (void)state;
    for (int kind = MW_TXN_FULL; kind <= MW_TXN_LIGHT; kind++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 5, "there");
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, 1, "x");
        assert_string_equal(engine_txn_rows(db, txn), "1=x 5=there");
        assert_string_equal(engine_rows(db), "5=there");
        assert_int_equal(mw_txn_prepare(txn, (mw_txn_kind)kind, NULL), MW_OK);
        assert_true(mw_txn_prepared(txn));
        assert_string_equal(engine_rows(db), kind == MW_TXN_LIGHT ? "1=x 5=there" : "5=there");
        assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
        assert_string_equal(engine_rows(db), "1=x 5=there");
        engine_close(db);
        engine_end(world);
    }
}

/* ---- out of order ---------------------------------------------------------------------------- */

static void calls_out_of_order_are_misuse(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_txn *txn = engine_begin(db);
    mw_err err = {0};
    engine_txn_put(txn, 1, "a");
    assert_int_equal(mw_txn_commit(txn, &err), MW_MISUSE); /* not prepared: and it is freed */
    assert_string_equal(engine_rows(db), "");
    txn = prepared(db, 1, "a", MW_TXN_FULL);
    assert_int_equal(engine_txn_try(txn, 2, "b", NULL), MW_MISUSE);
    assert_int_equal(engine_txn_try(txn, 1, NULL, NULL), MW_MISUSE);
    assert_int_equal(mw_txn_undo(txn, 0, NULL), MW_MISUSE);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_MISUSE);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=a");
    engine_close(db);
    engine_end(world);
}

/* After a prepare that failed only rollback is legal, and the view is that of everybody. */
static void after_a_failed_prepare_only_rollback_is_left(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "b");
    sim_fail_named(world, SIM_WRITE, "wal-", 1, EIO, false);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
    assert_false(mw_txn_prepared(txn));
    assert_int_equal(engine_txn_try(txn, 3, "c", NULL), MW_BUSY);
    assert_int_equal(mw_txn_undo(txn, 0, NULL), MW_BUSY);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_BUSY);
    assert_int_equal(mw_txn_count_delta(txn), 0);
    assert_string_equal(engine_txn_rows(db, txn), "1=a");
    engine_rollback(txn);
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* ---- taking a full entry back ---------------------------------------------------------------- */

/* The abort stands right behind the entry; rows and count are as before, now and after a kill; the
** next transaction goes on. The rows in question were new, changed and deleted ones. */
static void a_full_entry_is_cancelled_behind_itself(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 1, "A");
    engine_txn_delete(txn, 2);
    engine_txn_put(txn, 3, "c");
    uint64_t syncs = sim_calls(world, SIM_FILE_SYNC);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    assert_int_equal(sim_calls(world, SIM_FILE_SYNC), syncs + 2); /* the abort is durable, too */
    assert_int_equal(engine_figure(db, "wal_position"), 4);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_put(db, 4, "d");
    sim *after = sim_kill(world);
    mw_db *again = engine_open(after, NULL);
    assert_string_equal(engine_rows(again), "1=a 2=b 4=d");
    engine_flush(again);
    assert_string_equal(engine_rows(again), "1=a 2=b 4=d");
    engine_close(again);
    engine_end(after);
    engine_flush(db);
    assert_string_equal(engine_rows(db), "1=a 2=b 4=d");
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* Taken back and gone on: what was changed stays, more is changed, a savepoint is used, prepared
** again. */
static void a_full_transaction_goes_on_after_taking_its_prepare_back(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = prepared(db, 2, "b", MW_TXN_FULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mw_txn_unprepare(txn, NULL), MW_OK);
        assert_false(mw_txn_prepared(txn));
        assert_string_equal(engine_txn_rows(db, txn), "1=a 2=b");
        assert_string_equal(engine_rows(db), "1=a");
        uint64_t mark = engine_mark(txn);
        engine_txn_put(txn, 9, "undone");
        assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
        engine_txn_put(txn, 2, "b");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    }
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    sim *after = sim_kill(world);
    mw_db *again = engine_open(after, NULL);
    assert_string_equal(engine_rows(again), "1=a 2=b");
    engine_close(again);
    engine_end(after);
    engine_close(db);
    engine_end(world);
}

/* The room for an abort is promised with the entry: a full disk cannot stop it. The log is filled
** to the last bytes that it has room for, which end at another place each time; nothing is written
** behind them. */
static void a_full_disk_does_not_stop_an_abort(void **state)
{
    (void)state;
    static const char wal[] = "store/wal-0000000000000001-0000000000000001";
    for (size_t odd = 0; odd < 20; odd++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        char words[4001 + 160];
        memset(words, 'w', sizeof words);
        words[4000 + odd * 8] = 0;
        engine_put(db, 0, words);
        words[4000] = 0;
        for (int64_t id = 1; id < 255; id++) engine_put(db, id, words);
        int64_t room = sim_file_size(world, wal);
        sim_fail(world, SIM_ALLOCATE, 1, ENOSPC, true);
        mw_rc rc = MW_OK;
        for (int64_t id = 1000; rc == MW_OK; id++) {
            mw_txn *txn = engine_begin(db);
            engine_txn_put(txn, id, "tiny");
            rc = mw_txn_prepare(txn, MW_TXN_FULL, NULL);
            engine_rollback(txn);
        }
        assert_int_equal(rc, MW_FULL);
        assert_int_equal(sim_file_size(world, wal), room);
        sim_fail_clear(world);
        assert_int_equal(engine_count(db), 255);
        engine_close(db);
        engine_end(world);
    }
}

/* I10: the abort cannot be written: nobody knows, and every later call says so until the store is
** reopened. Then it is one of the two. */
static void an_abort_that_fails_is_an_unknown_outcome(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_WRITE, SIM_FILE_SYNC};
    for (int i = 0; i < 4; i++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        mw_txn *txn = prepared(db, 2, "b", i < 2 ? MW_TXN_FULL : MW_TXN_LIGHT);
        sim_fail_named(world, ops[i % 2], "wal-", 1, EIO, false);
        mw_err err = {0};
        assert_int_equal(mw_txn_rollback(txn, &err), MW_PERSISTENCE);
        static const char words[] = "outcome of a rolled back transaction unknown until reopened: ";
        assert_memory_equal(err.text, words, strlen(words));
        mw_err second = {0};
        assert_int_equal(engine_try(db, 3, "c", MW_TXN_LIGHT, &second), MW_PERSISTENCE);
        assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
        db = engine_open(world, NULL);
        const char *rows = engine_rows(db);
        assert_string_equal(rows,
                            i % 2 ? "1=a" : "1=a 2=b"); /* written is there, even if not synced */
        engine_put(db, 3, "c");
        engine_close(db);
        engine_end(world);
    }
}

/* ---- taking a light entry back --------------------------------------------------------------- */

/* Compensation puts back what was there: nothing, a row, a deleted row; from the memtable, a
** generation or the base; the entry itself being in memory, frozen, or flushed meanwhile. */
static void compensation_puts_back_what_was_there(void **state)
{
    (void)state;
    for (int before = IN_MEMORY; before < PLACES; before++) {
        for (int flushed = 0; flushed < 2; flushed++) {
            sim *world = engine_world();
            mw_db *db = engine_open(world, NULL);
            engine_put(db, 1, "a");
            engine_put(db, 2, "b");
            move_rows(db, before);
            mw_txn *txn = engine_begin(db);
            engine_txn_put(txn, 1, "A");
            engine_txn_delete(txn, 2);
            engine_txn_put(txn, 3, "c");
            engine_txn_put(txn, 4, "d"); /* new and gone again in the same transaction */
            engine_txn_delete(txn, 4);
            assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
            assert_string_equal(engine_rows(db), "1=A 3=c");
            if (flushed) engine_flush(db);
            engine_rollback(txn);
            assert_string_equal(engine_rows(db), "1=a 2=b");
            engine_flush(db);
            engine_merge(db, 0);
            assert_string_equal(engine_rows(db), "1=a 2=b");
            assert_int_equal(engine_figure(db, "physical_rows"), 2);
            mw_db_abandon(db);
            db = engine_open(world, NULL);
            assert_string_equal(engine_rows(db), "1=a 2=b");
            engine_close(db);
            engine_end(world);
        }
    }
}

/* What others wrote since: in the same memtable, in a later frozen one, in a later table file. Left
** alone, and the count is right. */
static void compensation_leaves_alone_what_others_wrote_since(void **state)
{
    (void)state;
    for (int later = 0; later < 4; later++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        for (int64_t id = 1; id <= 4; id++) engine_put(db, id, "old");
        mw_txn *txn = engine_begin(db);
        for (int64_t id = 1; id <= 3; id++) engine_txn_put(txn, id, "mine");
        engine_txn_delete(txn, 4);
        engine_txn_put(txn, 5, "mine");
        engine_txn_put(txn, 6, "mine");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
        if (later == 1) engine_freeze(db);
        if (later >= 2) engine_flush(db);
        engine_put(db, 1, "theirs");
        engine_delete(db, 2);
        engine_put(db, 4, "theirs");
        engine_put(db, 5, "theirs");
        if (later == 3) engine_flush(db);
        engine_rollback(txn);
        static const char rows[] = "1=theirs 3=old 4=theirs 5=theirs";
        assert_string_equal(engine_rows(db), rows);
        engine_flush(db);
        engine_merge(db, 0);
        assert_string_equal(engine_rows(db), rows);
        db = reopen(db, world);
        assert_string_equal(engine_rows(db), rows);
        engine_close(db);
        engine_end(world);
    }
}

/* Others have replaced all of it: nothing is written. */
static void compensation_of_nothing_writes_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_txn *txn = prepared(db, 1, "mine", MW_TXN_LIGHT);
    engine_put(db, 1, "theirs");
    int64_t position = engine_figure(db, "wal_position");
    engine_rollback(txn);
    assert_int_equal(engine_figure(db, "wal_position"), position);
    assert_string_equal(engine_rows(db), "1=theirs");
    engine_close(db);
    engine_end(world);
}

/* A light transaction that took its prepare back is doomed: it sees the published state without its
** own rows, every call but rollback answers BUSY, and merges are free again. */
static void a_light_transaction_is_doomed_by_taking_its_prepare_back(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = prepared(db, 1, "A", MW_TXN_LIGHT);
    assert_int_equal(mw_txn_unprepare(txn, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=a");
    assert_string_equal(engine_txn_rows(db, txn), "1=a");
    assert_int_equal(mw_txn_count_delta(txn), 0);
    assert_int_equal(engine_txn_try(txn, 3, "c", NULL), MW_BUSY);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_BUSY);
    assert_int_equal(mw_txn_unprepare(txn, NULL), MW_BUSY);
    assert_true(mw_txn_undecided_generation(engine_store(db)) == UINT64_MAX);
    int64_t position = engine_figure(db, "wal_position");
    engine_rollback(txn);
    assert_int_equal(engine_figure(db, "wal_position"), position); /* once is enough */
    assert_string_equal(engine_rows(db), "1=a");
    engine_close(db);
    engine_end(world);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* C86: keys and rows above their limits: the message has the limit, nothing has changed. Neither is
** looked at before. */
static void what_is_above_a_limit_is_refused(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_txn *txn = engine_begin(db);
    uint8_t key[8];
    uint8_t byte = 0;
    bool replaced;
    mw_err err = {0};
    engine_txn_put(txn, 1, "a");
    mw_slice row = mw_slice_of(&byte, (1u << 30) + 1);
    assert_int_equal(mw_txn_put(txn, engine_key(2, key), row, &replaced, &err), MW_TOOBIG);
    assert_string_equal(err.text, "a key of 8 and a row of 1073741825 bytes, the limit is "
                                  "1073741824 each");
    /* C57: lengths that would be small ones in 32 bits. */
    mw_slice wraps = mw_slice_of(&byte, (UINT64_C(1) << 32) + 5);
    err = (mw_err){0};
    assert_int_equal(mw_txn_put(txn, engine_key(2, key), wraps, &replaced, &err), MW_TOOBIG);
    assert_non_null(strstr(err.text, "a row of 4294967301 bytes, the limit is 1073741824"));
    err = (mw_err){0};
    assert_int_equal(mw_txn_put(txn, wraps, mw_slice_of(NULL, 0), &replaced, &err), MW_TOOBIG);
    assert_string_equal(err.text, "a key of 4294967301 bytes, the limit is 65535");
    err = (mw_err){0};
    mw_slice longer = mw_slice_of(&byte, 65536);
    assert_int_equal(mw_txn_put(txn, longer, mw_slice_of(NULL, 0), &replaced, &err), MW_TOOBIG);
    assert_string_equal(err.text, "a key of 65536 bytes, the limit is 65535");
    assert_int_equal(mw_txn_count_delta(txn), 1);
    engine_commit(txn, MW_TXN_LIGHT);
    assert_string_equal(engine_rows(db), "1=a");
    engine_close(db);
    engine_end(world);
}

/* Each allocation of a transaction in turn is refused: the call fails whole, the transaction goes
** on. */
static void a_change_without_memory_changes_nothing(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (bool met = true; met; n++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, 2, "b");
        sim_fail(world, SIM_ALLOC, n, ENOMEM, false);
        char rows[64] = "1=a 2=b";
        int64_t delta = 1;
        for (int64_t id = 3; id < 9; id++) { /* enough for an array to grow */
            for (int i = 0; i < 4; i++) {
                mw_rc rc = engine_txn_try(txn, id, "x", NULL);
                bool there = strchr(rows, (char)('0' + id)) != NULL;
                if (rc == MW_OK && !there) {
                    snprintf(rows + strlen(rows), sizeof rows - strlen(rows), " %lld=x",
                             (long long)id);
                    delta++;
                }
                assert_true(rc == MW_OK || rc == MW_NOMEM);
            }
        }
        met = sim_fail_hits(world) > 0;
        sim_fail_clear(world);
        assert_int_equal(mw_txn_count_delta(txn), delta);
        assert_string_equal(engine_txn_rows(db, txn), rows);
        engine_commit(txn, MW_TXN_LIGHT);
        assert_string_equal(engine_rows(db), rows);
        engine_close(db);
        engine_end(world);
    }
    assert_true(n > 2);
}

/* ---- histories ------------------------------------------------------------------------------- */

enum { IDS = 12, STEPS = 400 };

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

typedef struct history {
    sim *world;
    mw_db *db;
    oracle *model;
    uint64_t seed;
    int64_t written; /* values ever written: each is another one */
} history;

static void compare(history *h, const char *when)
{
    oracle_row rows[IDS];
    char words[IDS][32];
    uint8_t keys[IDS][8];
    size_t count = 0;
    for (int64_t id = 0; id < IDS; id++) {
        const char *found = engine_find(h->db, id);
        if (!found) continue;
        mw_slice key = engine_key(id, keys[count]);
        snprintf(words[count], sizeof words[count], "%s", found);
        rows[count] = (oracle_row){key.data, key.size, words[count], strlen(words[count])};
        count++;
    }
    size_t cut;
    char why[ORACLE_WORDS_BYTES];
    oracle_seen seen = {rows, count, engine_count(h->db)};
    if (oracle_check(h->model, &seen, &cut, why)) return;
    fail_msg("%s: %s", when, why);
}

/* A few changes, some of them undone; the model hears of them only when they stay. */
static void change_something(history *h, mw_txn *txn, bool tell)
{
    uint64_t changes = 1 + next_random(&h->seed) % 5;
    for (uint64_t i = 0; i < changes; i++) {
        uint8_t key[8];
        char words[32];
        int64_t id = (int64_t)(next_random(&h->seed) % IDS);
        bool delete = next_random(&h->seed) % 3 == 0;
        uint64_t mark = engine_mark(txn);
        snprintf(words, sizeof words, "v%lld", (long long)++h->written);
        assert_int_equal(engine_txn_try(txn, id, delete ? NULL : words, NULL), MW_OK);
        if (next_random(&h->seed) % 4 == 0) {
            assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
            continue;
        }
        mw_slice at = engine_key(id, key);
        if (!tell) continue;
        if (delete)
            oracle_delete(h->model, at.data, at.size);
        else
            oracle_put(h->model, at.data, at.size, words, strlen(words));
    }
}

static void one_transaction(history *h)
{
    mw_txn_kind kind = next_random(&h->seed) % 2 ? MW_TXN_FULL : MW_TXN_LIGHT;
    uint64_t end = next_random(&h->seed) % 5;
    mw_txn *txn = engine_begin(h->db);
    bool stays = end > 1;
    size_t commit = stays ? oracle_commit(h->model) : 0;
    change_something(h, txn, stays);
    if (end == 0) {
        engine_rollback(txn);
        return;
    }
    assert_int_equal(mw_txn_prepare(txn, kind, NULL), MW_OK);
    if (end == 2 && kind == MW_TXN_FULL) { /* taken back, gone on, prepared again */
        assert_int_equal(mw_txn_unprepare(txn, NULL), MW_OK);
        change_something(h, txn, true);
        assert_int_equal(mw_txn_prepare(txn, kind, NULL), MW_OK);
    }
    if (!stays) {
        engine_rollback(txn);
        return;
    }
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    oracle_fate_is(h->model, commit, ORACLE_ACKED);
}

static void one_upheaval(history *h, uint64_t what)
{
    sim *after;
    if (what == 0) engine_flush(h->db);
    if (what == 1) engine_merge(h->db, (uint32_t)(next_random(&h->seed) % 3));
    if (what == 2) h->db = reopen(h->db, h->world);
    if (what != 3) return;
    after = sim_kill(h->world);
    mw_db_abandon(h->db);
    engine_end(h->world);
    h->world = after;
    h->db = engine_open(after, NULL);
}

/* I2, I4, I6, I7, I13: random transactions, savepoints, rollbacks before and after prepare,
** flushes, merges, reopens and kills, against the model. Replay: MW_SEED=<seed>
** build/asan/tests/core/txn_test */
static void random_histories_agree_with_the_model(void **state)
{
    (void)state;
    const char *given = getenv("MW_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003 + 1;
    print_message("replay: MW_SEED=%llu build/asan/tests/core/txn_test\n",
                  (unsigned long long)seed);
    for (int round = 0; round < 4; round++) {
        history h = {.world = engine_world(),
                     .model = oracle_create(),
                     .seed = seed + (uint64_t)round * 7919};
        if (h.seed == 0) h.seed = 1;
        h.db = engine_open(h.world, NULL);
        for (int step = 0; step < STEPS; step++) {
            one_transaction(&h);
            uint64_t what = next_random(&h.seed) % 24;
            one_upheaval(&h, what);
            if (what < 4 || step % 16 == 0) compare(&h, "in the middle");
        }
        compare(&h, "at the end");
        assert_string_equal(engine_check(h.db), "ok");
        engine_close(h.db);
        engine_end(h.world);
        oracle_destroy(h.model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_tell_what_they_met),
        cmocka_unit_test(a_transaction_tells_whether_the_store_has_moved),
        cmocka_unit_test(the_counter_moves_by_live_ids),
        cmocka_unit_test(a_savepoint_takes_back_everything_behind_it),
        cmocka_unit_test(marks_nest_and_can_be_used_again),
        cmocka_unit_test(own_rows_are_seen_inside_and_by_others_after_the_commit),
        cmocka_unit_test(calls_out_of_order_are_misuse),
        cmocka_unit_test(after_a_failed_prepare_only_rollback_is_left),
        cmocka_unit_test(a_full_entry_is_cancelled_behind_itself),
        cmocka_unit_test(a_full_transaction_goes_on_after_taking_its_prepare_back),
        cmocka_unit_test(a_full_disk_does_not_stop_an_abort),
        cmocka_unit_test(an_abort_that_fails_is_an_unknown_outcome),
        cmocka_unit_test(compensation_puts_back_what_was_there),
        cmocka_unit_test(compensation_leaves_alone_what_others_wrote_since),
        cmocka_unit_test(compensation_of_nothing_writes_nothing),
        cmocka_unit_test(a_light_transaction_is_doomed_by_taking_its_prepare_back),
        cmocka_unit_test(what_is_above_a_limit_is_refused),
        cmocka_unit_test(a_change_without_memory_changes_nothing),
        cmocka_unit_test(random_histories_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
