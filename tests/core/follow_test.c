/* follow_test.c: a store in several hands: who reads beside the writer sees what is published, all
** of it and nothing else, whatever the writer does to his files meanwhile; and the right to write
** goes from hand to hand without a claim. */
#include "follow.h"

#include "engine.h"
#include "entry.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Two openers of one machine: locks are of open files, so they are like two processes. */
typedef struct pair {
    sim *world;
    mw_db *writer;
    mw_db *reader;
} pair;

static pair begin(const mw_options *options)
{
    pair two = {.world = engine_world()};
    two.writer = engine_open(two.world, options);
    engine_put(two.writer, 1, "a");
    two.reader = engine_open(two.world, options);
    return two;
}

static void end(pair *two)
{
    engine_close(two->reader);
    engine_close(two->writer);
    engine_end(two->world);
}

static uint64_t all_calls(sim *world)
{
    uint64_t calls = 0;
    for (int op = 0; op < SIM_ANY_CALL; op++) calls += sim_calls(world, (sim_op)op);
    return calls;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void a_reader_sees_each_commit_when_it_is_acknowledged(void **state)
{
    (void)state;
    pair two = begin(NULL);
    assert_string_equal(engine_rows(two.reader), "1=a");
    engine_put(two.writer, 2, "b");
    assert_string_equal(engine_rows(two.reader), "1=a 2=b");
    engine_delete(two.writer, 1);
    engine_put(two.writer, 2, "c");
    assert_string_equal(engine_rows(two.reader), "2=c");
    assert_int_equal(engine_count(two.reader), 1);
    end(&two);
}

/* I3: neither what is written and not decided, nor what was taken back. */
static void a_reader_never_sees_what_is_not_decided(void **state)
{
    (void)state;
    pair two = begin(NULL);
    mw_txn *txn = engine_begin(two.writer);
    engine_txn_put(txn, 2, "b");
    engine_txn_delete(txn, 1);
    assert_string_equal(engine_rows(two.reader), "1=a");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    assert_string_equal(engine_rows(two.reader), "1=a");
    engine_rollback(txn);
    assert_string_equal(engine_rows(two.reader), "1=a");
    txn = engine_begin(two.writer);
    engine_txn_put(txn, 3, "c");
    engine_commit(txn, MW_TXN_FULL);
    assert_string_equal(engine_rows(two.reader), "1=a 3=c");
    assert_string_equal(engine_check(two.reader), "ok");
    end(&two);
}

/* I13 */
static void a_snapshot_keeps_its_moment(void **state)
{
    (void)state;
    pair two = begin(NULL);
    mw_snapshot *before = engine_snapshot(two.reader);
    engine_put(two.writer, 1, "z");
    engine_put(two.writer, 2, "b");
    assert_string_equal(engine_rows(two.reader), "1=z 2=b");
    engine_flush(two.writer);
    engine_merge(two.writer, 0);
    assert_string_equal(engine_rows(two.reader), "1=z 2=b");
    assert_string_equal(engine_read(before), "1=a");
    mw_snapshot_release(before);
    end(&two);
}

/* C74, L36: the files that a reader reads are merged away and removed under him. */
static void files_outlive_their_names_for_a_reader(void **state)
{
    (void)state;
    pair two = begin(NULL);
    engine_flush(two.writer);
    engine_put(two.writer, 2, "b");
    engine_flush(two.writer);
    assert_string_equal(engine_rows(two.reader), "1=a 2=b");
    mw_snapshot *before = engine_snapshot(two.reader);
    engine_put(two.writer, 3, "c");
    engine_flush(two.writer);
    engine_merge(two.writer, 0);
    assert_int_equal(engine_file_count(two.world, "table-"), 1);
    assert_string_equal(engine_read(before), "1=a 2=b");
    mw_snapshot_release(before);
    assert_string_equal(engine_rows(two.reader), "1=a 2=b 3=c");
    end(&two);
}

/* So much happens between two looks that the log which is missing is gone. */
static void a_reader_who_was_away_for_long_finds_everything(void **state)
{
    (void)state;
    pair two = begin(NULL);
    for (int round = 0; round < 5; round++) {
        for (int64_t id = 0; id < 20; id++) engine_put(two.writer, 100 * round + id, "r");
        engine_flush(two.writer);
        if (round % 2) engine_merge(two.writer, 0);
    }
    engine_put(two.writer, 7, "last");
    assert_int_equal(engine_count(two.reader), 100);
    assert_string_equal(engine_find(two.reader, 7), "last");
    assert_string_equal(engine_check(two.reader), "ok");
    end(&two);
}

/* A memtable is frozen, and what comes later goes on in the next segment; a large transaction is
** adopted. */
static void a_reader_follows_through_segments_and_files(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.memtable_bytes = 400;
    pair two = begin(&options);
    char expected[64];
    for (int64_t id = 2; id <= 60; id++) {
        engine_put(two.writer, id, "some words");
        if (id % 7 == 0) engine_freeze(two.writer);
        assert_int_equal(engine_count(two.reader), id);
    }
    engine_fill(two.writer, 100, 200, "large ");
    assert_int_equal(engine_count(two.reader), 260);
    snprintf(expected, sizeof expected, "large %d", 150);
    assert_string_equal(engine_find(two.reader, 150), expected);
    assert_string_equal(engine_check(two.reader), "ok");
    end(&two);
}

static void nothing_new_costs_no_call(void **state)
{
    (void)state;
    pair two = begin(NULL);
    engine_put(two.writer, 2, "b");
    assert_string_equal(engine_rows(two.reader), "1=a 2=b");
    uint64_t calls = all_calls(two.world);
    for (int i = 0; i < 100; i++) mw_snapshot_release(engine_snapshot(two.reader));
    assert_int_equal(all_calls(two.world), calls);
    end(&two);
}

/* A look that fails leaves the moment before, and the next one finds everything. */
static void a_look_that_fails_is_made_anew(void **state)
{
    (void)state;
    pair two = begin(NULL);
    for (uint64_t nth = 1; nth <= 6; nth++) {
        engine_put(two.writer, 10 + (int64_t)nth, "x");
        if (nth % 2) engine_freeze(two.writer);
        engine_put(two.writer, 20 + (int64_t)nth, "y");
        mw_snapshot *snapshot = NULL;
        sim_fail_named(two.world, SIM_READ, "wal-", nth, EIO, false);
        mw_rc rc = mw_snapshot_take(two.reader, NULL, &snapshot, NULL);
        if (rc == MW_OK) mw_snapshot_release(snapshot);
        sim_fail_clear(two.world);
        assert_int_equal(engine_count(two.reader), 1 + 2 * (int64_t)nth);
    }
    assert_string_equal(engine_check(two.reader), "ok");
    end(&two);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Waits until somebody else waits for this one's lock. */
static void wait_until_wanted(mw_db *db)
{
    mw_store *store = engine_store(db);
    bool held = false;
    while (!held) {
        usleep(200);
        assert_int_equal(store->env->file_lock_test(store->env->ctx, store->lock_file, 1, 1, &held),
                         0);
    }
}

/* Without a thread the lock is given up at the end of a transaction that another opener waits
** for. */
static void the_turn_goes_to_and_fro_without_a_claim(void **state)
{
    (void)state;
    pair two = begin(NULL);
    mw_db *at[2] = {two.writer, two.reader};
    for (int64_t i = 0; i < 30; i++) {
        mw_txn *held = engine_begin(at[0]);
        engine_call put = {.run = engine_run_put,
                           .db = at[1],
                           .id = 1000 + i,
                           .words = "other",
                           .kind = i % 2 ? MW_TXN_FULL : MW_TXN_LIGHT};
        engine_start(&put);
        wait_until_wanted(at[0]);
        engine_txn_put(held, i, "own");
        engine_commit(held, i % 3 ? MW_TXN_FULL : MW_TXN_LIGHT);
        assert_int_equal(engine_wait(&put), MW_OK);
        if (i % 10 == 4) engine_flush(at[1]);
        if (i % 10 == 9) engine_merge(at[1], 0);
        assert_int_equal(engine_count(at[0]), 2 * (i + 1) + (i < 1));
        mw_db *swapped = at[0];
        at[0] = at[1];
        at[1] = swapped;
    }
    assert_int_equal(engine_figure(two.writer, "epoch"), 1);
    assert_int_equal(engine_figure(two.reader, "epoch"), 1);
    assert_string_equal(engine_check(two.writer), "ok");
    assert_string_equal(engine_check(two.reader), "ok");
    end(&two);
}

/* I11: who gives the turn up reads on in files that the others remove, opened or not. */
static void who_gave_the_turn_up_keeps_his_moment(void **state)
{
    (void)state;
    pair two = begin(NULL);
    engine_put(two.writer, 2, "b");
    engine_flush(two.writer);
    engine_put(two.writer, 3, "c");
    engine_flush(two.writer);
    engine_close(two.writer); /* so that no file is open yet */
    two.writer = engine_open(two.world, NULL);
    engine_put(two.writer, 2, "b");
    mw_snapshot *before = engine_snapshot(two.writer);
    mw_entry_offer(engine_store(two.writer), true);
    engine_put(two.reader, 1, "z");
    engine_flush(two.reader);
    engine_merge(two.reader, 0);
    assert_string_equal(engine_read(before), "1=a 2=b 3=c");
    mw_snapshot_release(before);
    assert_string_equal(engine_rows(two.writer), "1=z 2=b 3=c");
    end(&two);
}

/* I6, I11: what somebody has left frozen is flushed by the one who may write, not by who only looks:
** else a third one, who knows nothing of the new files, would take them for leftovers. */
static void who_only_reads_flushes_nothing(void **state)
{
    (void)state;
    mw_options threaded = engine_options();
    uint64_t generation;
    pair two = begin(NULL);
    mw_txn *txn = engine_begin(two.writer);
    engine_txn_put(txn, 2, "b");
    assert_int_equal(mw_flush_freeze(engine_store(two.writer), &generation, NULL), MW_OK);
    engine_commit(txn, MW_TXN_LIGHT);
    engine_close(two.writer);
    assert_string_equal(engine_rows(two.reader), "1=a 2=b");
    threaded.background = true;
    mw_db *third = engine_open(two.world, &threaded);
    assert_string_equal(engine_rows(third), "1=a 2=b");
    usleep(50000);
    engine_close(third);
    assert_int_equal(engine_file_count(two.world, "table-"), 0);
    engine_put(two.reader, 3, "c");
    two.writer = engine_open(two.world, NULL);
    assert_string_equal(engine_rows(two.writer), "1=a 2=b 3=c");
    assert_string_equal(engine_check(two.writer), "ok");
    end(&two);
}

/* A writer who dies with the lock: the next one claims an epoch, and loses nothing. */
static void who_finds_an_unclean_end_claims_an_epoch(void **state)
{
    (void)state;
    pair two = begin(NULL);
    engine_put(two.writer, 2, "b");
    assert_string_equal(engine_rows(two.reader), "1=a 2=b");
    engine_put(two.writer, 3, "c");
    mw_db_abandon(two.writer);
    assert_string_equal(engine_rows(two.reader), "1=a 2=b 3=c");
    engine_put(two.reader, 4, "d");
    assert_int_equal(engine_figure(two.reader, "epoch"), 2);
    assert_string_equal(engine_rows(two.reader), "1=a 2=b 3=c 4=d");
    two.writer = engine_open(two.world, NULL);
    assert_string_equal(engine_rows(two.writer), "1=a 2=b 3=c 4=d");
    end(&two);
}

/* The reader follows into the next epoch, with its copies. */
static void a_reader_follows_into_the_next_epoch(void **state)
{
    (void)state;
    pair two = begin(NULL);
    mw_db *third = engine_open(two.world, NULL);
    engine_put(two.writer, 2, "b");
    assert_string_equal(engine_rows(third), "1=a 2=b");
    engine_put(two.writer, 3, "c");
    mw_db_abandon(two.writer);
    engine_put(two.reader, 4, "d");
    assert_string_equal(engine_rows(third), "1=a 2=b 3=c 4=d");
    engine_put(two.reader, 5, "e");
    assert_string_equal(engine_rows(third), "1=a 2=b 3=c 4=d 5=e");
    assert_int_equal(engine_figure(third, "epoch"), 2);
    assert_string_equal(engine_check(third), "ok");
    two.writer = third;
    end(&two);
}

/* A page that is damaged, or of an earlier start of the machine, says nothing. */
static void a_page_that_does_not_check_is_not_believed(void **state)
{
    (void)state;
    pair two = begin(NULL);
    engine_put(two.writer, 2, "b");
    sim_file_flip(two.world, "store/shared", 8 * 48); /* the position */
    mw_db *third = NULL;
    mw_err err = {0};
    mw_rc rc = engine_try_open(two.world, NULL, &third, &err);
    assert_int_equal(rc, MW_BUSY);
    assert_non_null(strstr(err.text, "another process"));
    assert_string_equal(engine_rows(two.reader), "1=a");
    engine_put(two.writer, 3, "c"); /* makes the words right again */
    assert_string_equal(engine_rows(two.reader), "1=a 2=b 3=c");
    end(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_sees_each_commit_when_it_is_acknowledged),
        cmocka_unit_test(a_reader_never_sees_what_is_not_decided),
        cmocka_unit_test(a_snapshot_keeps_its_moment),
        cmocka_unit_test(files_outlive_their_names_for_a_reader),
        cmocka_unit_test(a_reader_who_was_away_for_long_finds_everything),
        cmocka_unit_test(a_reader_follows_through_segments_and_files),
        cmocka_unit_test(nothing_new_costs_no_call),
        cmocka_unit_test(a_look_that_fails_is_made_anew),
        cmocka_unit_test(the_turn_goes_to_and_fro_without_a_claim),
        cmocka_unit_test(who_gave_the_turn_up_keeps_his_moment),
        cmocka_unit_test(who_only_reads_flushes_nothing),
        cmocka_unit_test(who_finds_an_unclean_end_claims_an_epoch),
        cmocka_unit_test(a_reader_follows_into_the_next_epoch),
        cmocka_unit_test(a_page_that_does_not_check_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
