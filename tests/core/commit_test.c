/* commit_test.c: nobody is told "yes" but by the sync of his own entry: the turn, the queue,
** groups, failures, barriers, closing. Schedules are made with sim_hold; the machine counts its
** syncs. */
#include "commit.h"

#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOON_MS = 40 };

static engine_call put_call(mw_db *db, int64_t id, const char *words)
{
    engine_call call = {
        .run = engine_run_put, .db = db, .id = id, .words = words, .kind = MW_TXN_LIGHT};
    return call;
}

/* ---- the turn -------------------------------------------------------------------------------- */

typedef struct visitor {
    mw_store *store;
    pthread_t thread;
    uint64_t wait_ms;
    int number;
    int *order;
    int *count;
    mw_rc rc;
} visitor;

static void *visit(void *arg)
{
    visitor *self = arg;
    self->rc = mw_turn_take(self->store, mw_store_deadline(self->store, self->wait_ms), NULL);
    if (self->rc != MW_OK) return NULL;
    self->order[(*self->count)++] = self->number;
    mw_turn_give(self->store);
    return NULL;
}

static int waiting(mw_store *store)
{
    int count = 0;
    mw_store_lock(store);
    if (store->turn_first) count = store->turn_first == store->turn_last ? 1 : 2;
    mw_store_unlock(store);
    return count;
}

/* Starts it and waits until it stands in the line: it is the last, and there are `least` at
** least. */
static void start_visit(visitor *self, int least)
{
    struct mw_waiter *before = self->store->turn_last;
    assert_int_equal(pthread_create(&self->thread, NULL, visit, self), 0);
    for (int i = 0; i < 20000; i++, usleep(1000)) {
        mw_store_lock(self->store);
        bool in_line = self->store->turn_last != before;
        mw_store_unlock(self->store);
        if (in_line) break;
    }
    assert_true(waiting(self->store) >= least);
}

static void the_turn_goes_to_whoever_came_first(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    int order[8];
    int count = 0;
    visitor visitors[8];
    assert_int_equal(mw_turn_take(store, 0, NULL), MW_OK);
    for (int i = 0; i < 8; i++) {
        visitors[i] = (visitor){.store = store,
                                .wait_ms = ENGINE_WAIT_MS,
                                .number = i,
                                .order = order,
                                .count = &count};
        start_visit(&visitors[i], i ? 2 : 1);
    }
    mw_turn_give(store);
    for (int i = 0; i < 8; i++) {
        pthread_join(visitors[i].thread, NULL);
        assert_int_equal(visitors[i].rc, MW_OK);
    }
    for (int i = 0; i < 8; i++) assert_int_equal(order[i], i);
    engine_close(db);
    engine_end(world);
}

/* I14: who has waited long enough is told so, and the line closes behind him. */
static void waiting_for_the_turn_ends_at_the_deadline(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    int order[4];
    int count = 0;
    visitor visitors[4];
    mw_err err = {0};
    assert_int_equal(mw_turn_take(store, 0, NULL), MW_OK);
    assert_int_equal(mw_turn_take(store, 0, &err), MW_BUSY);
    assert_non_null(strstr(err.text, "another transaction is writing to store"));
    for (int i = 0; i < 4; i++) {
        bool impatient = i == 1 || i == 3; /* one in the middle, the last one */
        visitors[i] = (visitor){.store = store,
                                .wait_ms = impatient ? 300 : ENGINE_WAIT_MS,
                                .number = i,
                                .order = order,
                                .count = &count};
        start_visit(&visitors[i], 1);
    }
    pthread_join(visitors[1].thread, NULL);
    pthread_join(visitors[3].thread, NULL);
    assert_int_equal(visitors[1].rc, MW_BUSY);
    assert_int_equal(visitors[3].rc, MW_BUSY);
    mw_turn_give(store);
    pthread_join(visitors[0].thread, NULL);
    pthread_join(visitors[2].thread, NULL);
    assert_int_equal(count, 2);
    assert_int_equal(order[0], 0);
    assert_int_equal(order[1], 2);
    engine_put(db, 1, "a"); /* the turn is free */
    engine_close(db);
    engine_end(world);
}

/* L04, I14: a failure of the log wakes who waits for the turn. */
static void a_failed_log_wakes_who_waits_for_the_turn(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "b");
    engine_call waiter = put_call(db, 3, "c");
    engine_start(&waiter);
    while (waiting(engine_store(db)) == 0) usleep(1000);
    sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
    mw_err err = {0};
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, &err), MW_PERSISTENCE);
    assert_int_equal(engine_wait(&waiter), MW_PERSISTENCE); /* the turn was never given up */
    engine_rollback(txn);
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* ---- the seed fault: nothing but the own sync acknowledges ----------------------------------- */

/* A store whose generation 1 is flushed: what a watermark of it says must mean nothing for
** generation 2. */
static mw_db *open_with_flushed_generation(sim *world)
{
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    engine_put(db, 3, "c");
    assert_int_equal(engine_flush(db), 1);
    return db;
}

/* I1, I3, L02, L06: held before the write, and again before the sync, the commit is pending,
** invisible and not counted; it ends with its own sync. */
static void commit_is_pending_until_its_own_sync(void **state)
{
    (void)state;
    static const sim_op steps[] = {SIM_WRITE, SIM_FILE_SYNC};
    for (int i = 0; i < 2; i++) {
        sim *world = engine_world();
        mw_db *db = open_with_flushed_generation(world);
        engine_call call = put_call(db, 4, "d");
        uint64_t syncs = sim_calls(world, SIM_FILE_SYNC);
        int64_t figure = engine_figure(db, "wal_syncs");
        int hold = sim_hold(world, steps[i], "wal-");
        engine_start(&call);
        assert_true(sim_wait_held(world, hold));
        assert_false(engine_ends(&call, SOON_MS));
        assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
        assert_int_equal(engine_figure(db, "wal_position"), 3);
        assert_int_equal(engine_figure(db, "wal_syncs"), figure);
        sim_release(world, hold);
        assert_int_equal(engine_wait(&call), MW_OK);
        assert_int_equal(sim_calls(world, SIM_FILE_SYNC), syncs + 1);
        assert_int_equal(engine_figure(db, "wal_syncs"), figure + 1);
        assert_string_equal(engine_rows(db), "1=a 2=b 3=c 4=d");
        engine_close(db);
        engine_end(world);
    }
}

/* L02: a crash before the write leaves no row, and there was no success. */
static void a_kill_before_the_write_leaves_no_row(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    engine_call call = put_call(db, 4, "d");
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    sim *after = sim_kill(world);
    assert_false(engine_ends(&call, 0));
    mw_db *again = engine_open(after, NULL);
    assert_string_equal(engine_rows(again), "1=a 2=b 3=c");
    engine_close(again);
    engine_end(after);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_OK);
    engine_close(db);
    engine_end(world);
}

/* I1, I10: with its own write or sync failing the successor of a flushed generation fails, typed,
** and so does everything after it. Reads go on. */
static void expect_persistence(sim_op op, int sys)
{
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    mw_err err = {0};
    sim_fail_named(world, op, "wal-", 1, sys, false);
    assert_int_equal(engine_try(db, 4, "d", MW_TXN_LIGHT, &err), MW_PERSISTENCE);
    assert_non_null(strstr(err.text, "wal-0000000000000001-0000000000000002"));
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    mw_err second = {0};
    assert_int_equal(engine_try(db, 5, "e", MW_TXN_LIGHT, &second), MW_PERSISTENCE);
    assert_string_equal(second.text, err.text); /* the first cause stays */
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    mw_err third = {0};
    assert_int_equal(mw_db_close(db, &third), MW_PERSISTENCE);
    assert_string_equal(third.text, err.text);
    engine_end(world);
}

static void commit_fails_when_its_own_write_fails(void **state)
{
    (void)state;
    expect_persistence(SIM_WRITE, EIO);
    expect_persistence(SIM_WRITE, SIM_TORN);
    expect_persistence(SIM_WRITE, ENOSPC);
}

static void commit_fails_when_its_own_sync_fails(void **state)
{
    (void)state;
    expect_persistence(SIM_FILE_SYNC, EIO);
    expect_persistence(SIM_FILE_SYNC, ENOSPC);
}

/* A failed look for a peer's claim proves nothing either way. */
static void commit_fails_when_its_fence_check_fails(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    sim_fail_named(world, SIM_EXISTS, "manifest-", 1, EIO, false);
    assert_int_equal(engine_try(db, 4, "d", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* L01: and a peer that took over meanwhile gives it MW_FENCED: definitely not applied. */
static void commit_fails_when_a_peer_took_over_meanwhile(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options shared = engine_options();
    shared.shared = true;
    mw_db *first = engine_open(world, &shared);
    engine_put(first, 1, "a");
    assert_int_equal(engine_flush(first), 1);
    engine_call call = put_call(first, 2, "b");
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    mw_db *second = engine_open(world, &shared);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_FENCED);
    assert_string_equal(call.err.text, "writer fenced: a peer claimed epoch 2, ours was 1");
    assert_string_equal(engine_rows(first), "1=a");
    assert_string_equal(engine_rows(second), "1=a");
    assert_int_equal(mw_db_close(first, NULL), MW_FENCED);
    engine_put(second, 3, "c");
    engine_close(second);
    mw_db *third = engine_open(world, &shared);
    assert_string_equal(engine_rows(third), "1=a 3=c");
    engine_close(third);
    engine_end(world);
}

/* ---- groups ---------------------------------------------------------------------------------- */

enum { GROUP = 8 };

/* A leader is held before its write, and eight entries wait behind it. */
typedef struct crowd {
    sim *world;
    mw_db *db;
    int hold;
    engine_call leader;
    engine_call calls[GROUP];
} crowd;

static void start_crowd(crowd *all)
{
    all->world = engine_world();
    all->db = open_with_flushed_generation(all->world);
    all->hold = sim_hold(all->world, SIM_WRITE, "wal-");
    all->leader = put_call(all->db, 10, "leader");
    engine_start(&all->leader);
    assert_true(sim_wait_held(all->world, all->hold));
    for (int i = 0; i < GROUP; i++) {
        all->calls[i] = put_call(all->db, 20 + i, "x");
        engine_start(&all->calls[i]);
        engine_wait_queued(all->db, 2 + (uint32_t)i);
    }
}

static void end_crowd(crowd *all, mw_rc closed)
{
    assert_int_equal(mw_db_close(all->db, NULL), closed);
    engine_end(all->world);
}

static void eight_commits_share_one_write_and_one_sync(void **state)
{
    (void)state;
    crowd all;
    start_crowd(&all);
    uint64_t writes = sim_calls(all.world, SIM_WRITE); /* the leader's is counted already */
    uint64_t syncs = sim_calls(all.world, SIM_FILE_SYNC);
    sim_release(all.world, all.hold);
    assert_int_equal(engine_wait(&all.leader), MW_OK);
    for (int i = 0; i < GROUP; i++) assert_int_equal(engine_wait(&all.calls[i]), MW_OK);
    assert_int_equal(sim_calls(all.world, SIM_WRITE), writes + 1);
    assert_int_equal(sim_calls(all.world, SIM_FILE_SYNC), syncs + 2);
    assert_int_equal(engine_count(all.db), 3 + 1 + GROUP);
    end_crowd(&all, MW_OK);
}

/* C01: the sync of their group fails: all eight are told, not only the one who led, and no row
** shows. After a power cut at that moment the leader's row, which had its sync, is there in every
** state. */
static void eight_commits_of_a_group_all_fail_with_its_sync(void **state)
{
    (void)state;
    crowd all;
    start_crowd(&all);
    sim_fail_named(all.world, SIM_FILE_SYNC, "wal-", 2, EIO, false);
    sim_release(all.world, all.hold);
    assert_int_equal(engine_wait(&all.leader), MW_OK);
    for (int i = 0; i < GROUP; i++) assert_int_equal(engine_wait(&all.calls[i]), MW_PERSISTENCE);
    assert_string_equal(engine_rows(all.db), "1=a 2=b 3=c 10=leader");
    uint32_t states = sim_disk_count(all.world, 500);
    assert_true(states > 2);
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(all.world, i);
        mw_db *db = engine_open(after, NULL);
        const char *rows = engine_rows(db);
        const char *before = "1=a 2=b 3=c 10=leader";
        assert_memory_equal(rows, before, strlen(before));
        engine_put(db, 99, "works");
        engine_close(db);
        engine_end(after);
    }
    end_crowd(&all, MW_PERSISTENCE);
}

/* The write of the group ahead fails: what is queued behind it was never written and fails as
** well. */
static void what_is_queued_behind_a_failed_group_fails_with_it(void **state)
{
    (void)state;
    crowd all;
    start_crowd(&all);
    sim_fail_named(all.world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
    uint64_t writes = sim_calls(all.world, SIM_WRITE);
    sim_release(all.world, all.hold);
    assert_int_equal(engine_wait(&all.leader), MW_PERSISTENCE);
    for (int i = 0; i < GROUP; i++) assert_int_equal(engine_wait(&all.calls[i]), MW_PERSISTENCE);
    assert_int_equal(sim_calls(all.world, SIM_WRITE), writes);
    assert_string_equal(engine_rows(all.db), "1=a 2=b 3=c");
    end_crowd(&all, MW_PERSISTENCE);
}

/* L04: a takeover ends all of them, with the typed error. */
static void a_takeover_ends_every_waiting_commit(void **state)
{
    (void)state;
    crowd all;
    mw_options shared = engine_options();
    shared.shared = true;
    start_crowd(&all);
    mw_db *second = engine_open(all.world, &shared);
    sim_release(all.world, all.hold);
    assert_int_equal(engine_wait(&all.leader), MW_FENCED);
    for (int i = 0; i < GROUP; i++) assert_int_equal(engine_wait(&all.calls[i]), MW_FENCED);
    assert_string_equal(engine_rows(second), "1=a 2=b 3=c");
    engine_close(second);
    end_crowd(&all, MW_FENCED);
}

/* L07, I14: closing lets the group in flight end by its own result; who is queued behind it gets
** MW_CLOSED and gets out before the store is gone. Nothing of theirs is in the log. */
static void closing_while_queued_fails_with_closed(void **state)
{
    (void)state;
    crowd all;
    start_crowd(&all);
    engine_call close = {.run = engine_run_close, .db = all.db};
    engine_start(&close);
    assert_false(engine_ends(&close, SOON_MS));
    sim_release(all.world, all.hold);
    assert_int_equal(engine_wait(&all.leader), MW_OK);
    for (int i = 0; i < GROUP; i++) assert_int_equal(engine_wait(&all.calls[i]), MW_CLOSED);
    assert_int_equal(engine_wait(&close), MW_OK);
    mw_db *again = engine_open(all.world, NULL);
    assert_string_equal(engine_rows(again), "1=a 2=b 3=c 10=leader");
    engine_close(again);
    engine_end(all.world);
}

/* L03: the write that is in flight when the store is closed fails: close says so, and does not call
** the end clean. */
static void closing_reports_the_failure_of_the_write_in_flight(void **state)
{
    (void)state;
    crowd all;
    start_crowd(&all);
    engine_call close = {.run = engine_run_close, .db = all.db};
    sim_fail_named(all.world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
    engine_start(&close);
    assert_false(engine_ends(&close, SOON_MS));
    sim_release(all.world, all.hold);
    assert_int_equal(engine_wait(&all.leader), MW_PERSISTENCE);
    for (int i = 0; i < GROUP; i++) {
        mw_rc rc = engine_wait(&all.calls[i]);
        assert_true(rc == MW_PERSISTENCE || rc == MW_CLOSED);
    }
    assert_int_equal(engine_wait(&close), MW_PERSISTENCE);
    mw_db *again = engine_open(all.world, NULL);
    assert_int_equal(engine_figure(again, "epoch"), 2); /* not clean: the next epoch was claimed */
    engine_close(again);
    engine_end(all.world);
}

/* Who waits for the turn when the store is closed is told, and gets out. */
static void closing_ends_who_waits_for_the_turn(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    engine_call full = put_call(db, 4, "d");
    engine_call behind = put_call(db, 5, "e");
    full.kind = MW_TXN_FULL;
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&full);
    assert_true(sim_wait_held(world, hold));
    engine_start(&behind);
    while (waiting(engine_store(db)) == 0) usleep(1000);
    engine_call close = {.run = engine_run_close, .db = db};
    engine_start(&close);
    usleep(SOON_MS * 1000);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&full), MW_OK);
    assert_int_equal(engine_wait(&behind), MW_CLOSED);
    assert_int_equal(engine_wait(&close), MW_OK);
    mw_db *again = engine_open(world, NULL);
    assert_string_equal(engine_rows(again), "1=a 2=b 3=c 4=d");
    engine_close(again);
    engine_end(world);
}

/* Freezes when it has the turn, so that its own row is the first of the next generation. */
static mw_rc run_freezing_put(engine_call *call)
{
    mw_txn *txn;
    uint64_t generation;
    mw_rc rc = mw_txn_begin(call->db, ENGINE_WAIT_MS, &txn, &call->err);
    if (rc != MW_OK) return rc;
    rc = engine_txn_try(txn, call->id, call->words, &call->err);
    if (rc == MW_OK) rc = mw_flush_freeze(engine_store(call->db), &generation, &call->err);
    if (rc == MW_OK) rc = mw_txn_prepare(txn, MW_TXN_LIGHT, &call->err);
    return rc == MW_OK ? mw_txn_commit(txn, &call->err) : rc;
}

/* A group ends where its segment ends: entries on both sides of a freeze are two writes. */
static void a_group_never_spans_segments(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    engine_call calls[3] = {put_call(db, 4, "d"), put_call(db, 5, "e"), put_call(db, 6, "f")};
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&calls[0]);
    assert_true(sim_wait_held(world, hold));
    engine_start(&calls[1]);
    engine_wait_queued(db, 2);
    calls[2].run = run_freezing_put;
    engine_start(&calls[2]);
    engine_wait_queued(db, 3);
    uint64_t writes = sim_calls(world, SIM_WRITE);
    sim_release(world, hold);
    for (int i = 0; i < 3; i++) assert_int_equal(engine_wait(&calls[i]), MW_OK);
    assert_int_equal(sim_calls(world, SIM_WRITE), writes + 2);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c 4=d 5=e 6=f");
    sim *after = sim_kill(world);
    mw_db *again = engine_open(after, NULL);
    assert_string_equal(engine_rows(again), "1=a 2=b 3=c 4=d 5=e 6=f");
    engine_close(again);
    engine_end(after);
    engine_close(db);
    engine_end(world);
}

/* Two entries of 5 MB are two groups: a write stays bounded. */
static void a_group_stays_below_its_size_limit(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    char *words = malloc((5 << 20) + 1);
    memset(words, 'w', 5 << 20);
    words[5 << 20] = 0;
    engine_call calls[3] = {put_call(db, 4, "d"), put_call(db, 5, words), put_call(db, 6, words)};
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    for (uint32_t i = 0; i < 3; i++) {
        engine_start(&calls[i]);
        engine_wait_queued(db, i + 1);
    }
    assert_true(sim_wait_held(world, hold));
    uint64_t syncs = sim_calls(world, SIM_FILE_SYNC);
    sim_release(world, hold);
    for (int i = 0; i < 3; i++) assert_int_equal(engine_wait(&calls[i]), MW_OK);
    assert_int_equal(sim_calls(world, SIM_FILE_SYNC), syncs + 3);
    assert_int_equal(engine_count(db), 6);
    free(words);
    engine_close(db);
    engine_end(world);
}

/* ---- failures over time ---------------------------------------------------------------------- */

/* C09, I10: the sync fails once, later ones would work. Nothing is acknowledged after it. After a
** power cut, in every state that the disk may be in, the first row is there, and of the others
** nothing that was refused later than a, whichever way a failed sync treats what it should have
** written. */
static void nothing_is_acknowledged_after_a_failed_sync(void **state)
{
    (void)state;
    for (int mode = SIM_STAY_DIRTY; mode <= SIM_REVERTED; mode++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "acked");
        sim_set_sync_failure(world, (sim_sync_failure)mode);
        sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
        assert_int_equal(engine_try(db, 2, "a", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
        assert_int_equal(engine_try(db, 3, "b", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
        assert_int_equal(engine_try(db, 4, "c", MW_TXN_FULL, NULL), MW_PERSISTENCE);
        uint64_t generation;
        assert_int_equal(mw_db_flush(db, 100, &generation, NULL), MW_PERSISTENCE);
        uint32_t states = sim_disk_count(world, 200);
        for (uint32_t i = 0; i < states; i++) {
            sim *after = sim_disk_state(world, i);
            mw_db *again = engine_open(after, NULL);
            const char *rows = engine_rows(again);
            bool right = strcmp(rows, "1=acked") == 0 || strcmp(rows, "1=acked 2=a") == 0;
            if (!right) fail_msg("found %s", rows);
            engine_close(again);
            mw_db *third = engine_open(after, NULL); /* and what was decided stays */
            assert_string_equal(engine_rows(third), rows);
            engine_close(third);
            engine_end(after);
        }
        assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
        engine_end(world);
    }
}

static atomic_bool answer_wrongly;

/* The write arrives, the answer says that it did not. */
static int write_and_deny(void *ctx, int file, const void *from, size_t bytes, uint64_t offset,
                          size_t *put)
{
    int sys = sim_env(ctx)->file_write(ctx, file, from, bytes, offset, put);
    return atomic_load(&answer_wrongly) ? EIO : sys;
}

/* L05: the write arrived, the answer was an error. The writer stops itself; reopened by the next
** process the row is there exactly once, and a retry is an update of it. */
static void an_entry_of_unknown_outcome_is_there_once_or_never(void **state)
{
    (void)state;
    for (int written = 0; written < 2; written++) {
        sim *world = engine_world();
        mw_env env = *sim_env(world);
        env.file_write = write_and_deny;
        mw_options options = engine_options();
        mw_db *db = NULL;
        assert_int_equal(mw_db_open(&env, ENGINE_STORE, &options, NULL, &db, NULL), MW_OK);
        engine_put(db, 1, "a");
        if (written)
            atomic_store(&answer_wrongly, true);
        else
            sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
        assert_int_equal(engine_try(db, 2, "b", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
        atomic_store(&answer_wrongly, false);
        assert_int_equal(engine_try(db, 2, "b", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
        sim *after = sim_kill(world); /* the page cache still has it */
        mw_db *again = engine_open(after, NULL);
        assert_string_equal(engine_rows(again), "1=a 2=b");
        engine_put(again, 2, "b");
        assert_string_equal(engine_rows(again), "1=a 2=b");
        engine_flush(again);
        engine_merge(again, 0);
        assert_int_equal(engine_figure(again, "physical_rows"), 2);
        engine_close(again);
        engine_end(after);
        assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
        engine_end(world);
    }
}

/* C12: the write is done in pieces, with an interrupt: no error, and the right bytes on disk. */
static void an_interrupted_write_is_finished(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    sim_fail_named(world, SIM_WRITE, "wal-", 1, SIM_SHORT, false);
    sim_fail_named(world, SIM_WRITE, "wal-", 2, EINTR, false);
    engine_put(db, 4, "d");
    uint32_t states = sim_disk_count(world, 100);
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(world, i);
        mw_db *again = engine_open(after, NULL);
        assert_string_equal(engine_rows(again), "1=a 2=b 3=c 4=d");
        engine_close(again);
        engine_end(after);
    }
    engine_close(db);
    engine_end(world);
}

/* A disk that is full shows before anything is written: the writer goes on when there is room
** again. */
static void a_full_disk_does_not_stop_the_writer(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    sim_fail_named(world, SIM_ALLOCATE, "wal-", 1, ENOSPC, true);
    assert_int_equal(engine_try(db, 1, "a", MW_TXN_LIGHT, NULL), MW_FULL);
    assert_int_equal(engine_try(db, 1, "a", MW_TXN_FULL, NULL), MW_FULL);
    assert_string_equal(engine_rows(db), "");
    sim_fail_clear(world);
    engine_put(db, 2, "b");
    assert_string_equal(engine_rows(db), "2=b");
    engine_close(db);
    engine_end(world);
}

/* Each allocation of a commit in turn is refused. Refused before the entry has a position: nothing
** has happened, the next commit works. Refused behind that: the writer stops. Never is a refused
** row seen. */
static void a_commit_without_memory_fails_whole(void **state)
{
    (void)state;
    mw_rc rc = MW_NOMEM;
    uint64_t n = 1;
    for (; rc != MW_OK; n++) {
        sim *world = engine_world();
        mw_db *db = open_with_flushed_generation(world);
        sim_fail(world, SIM_ALLOC, n, ENOMEM, false);
        rc = engine_try(db, 4, "d", MW_TXN_LIGHT, NULL);
        sim_fail_clear(world);
        assert_true(rc == MW_OK || rc == MW_NOMEM || rc == MW_PERSISTENCE);
        assert_string_equal(engine_rows(db), rc == MW_OK ? "1=a 2=b 3=c 4=d" : "1=a 2=b 3=c");
        mw_rc next = engine_try(db, 5, "e", MW_TXN_LIGHT, NULL);
        assert_int_equal(next, rc == MW_PERSISTENCE ? MW_PERSISTENCE : MW_OK);
        assert_int_equal(mw_db_close(db, NULL), next);
        engine_end(world);
    }
    assert_true(n > 6);
}

/* ---- full transactions and barriers ---------------------------------------------------------- */

/* A full transaction shows with its commit, not with its sync, and keeps the turn until then. */
static void a_full_entry_is_published_by_its_commit(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 4, "d");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    mw_txn *second;
    assert_int_equal(mw_txn_begin(db, 0, &second, NULL), MW_BUSY);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c 4=d");
    engine_close(db);
    engine_end(world);
}

/* A barrier whose interval is covered resolves at once and writes nothing, whatever else is held
** up. */
static void barriers_without_rows_write_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    uint64_t writes = sim_calls(world, SIM_WRITE);
    uint64_t syncs = sim_calls(world, SIM_FILE_SYNC);
    assert_int_equal(engine_flush(db), 0);
    mw_txn *txn = engine_begin(db);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    txn = engine_begin(db);
    engine_txn_put(txn, 9, "undone");
    assert_int_equal(mw_txn_undo(txn, 0, NULL), MW_OK);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_int_equal(sim_calls(world, SIM_WRITE), writes);
    assert_int_equal(sim_calls(world, SIM_FILE_SYNC), syncs);
    assert_int_equal(engine_figure(db, "wal_position"), 3);
    engine_close(db);
    engine_end(world);
}

static mw_rc run_empty_prepare(engine_call *call)
{
    mw_txn *txn;
    mw_rc rc = mw_txn_begin(call->db, ENGINE_WAIT_MS, &txn, &call->err);
    if (rc != MW_OK) return rc;
    rc = mw_txn_prepare(txn, MW_TXN_LIGHT, &call->err);
    if (rc == MW_OK) return mw_txn_commit(txn, &call->err);
    mw_err second = {0};
    return mw_txn_rollback(txn, &second) == MW_OK ? rc : MW_MISUSE;
}

/* I3: a transaction without rows waits for what it could see, and shares the fate of that. */
static void an_empty_transaction_waits_for_what_it_saw(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        sim *world = engine_world();
        mw_db *db = open_with_flushed_generation(world);
        engine_call writer = put_call(db, 4, "d");
        engine_call empty = {.run = run_empty_prepare, .db = db};
        int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
        engine_start(&writer);
        assert_true(sim_wait_held(world, hold));
        engine_start(&empty);
        assert_false(engine_ends(&empty, SOON_MS));
        if (fails) sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
        sim_release(world, hold);
        mw_rc wanted = fails ? MW_PERSISTENCE : MW_OK;
        assert_int_equal(engine_wait(&writer), wanted);
        assert_int_equal(engine_wait(&empty), wanted);
        assert_int_equal(mw_db_close(db, NULL), wanted);
        engine_end(world);
    }
}

/* I14: settling has a deadline. */
static void settling_ends_at_the_deadline(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_flushed_generation(world);
    mw_store *store = engine_store(db);
    engine_call writer = put_call(db, 4, "d");
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    engine_start(&writer);
    assert_true(sim_wait_held(world, hold));
    mw_err err = {0};
    assert_int_equal(mw_commit_settle(store, 4, mw_store_deadline(store, SOON_MS), &err), MW_BUSY);
    assert_string_equal(err.text, "position 4 of store is not decided yet");
    assert_int_equal(mw_commit_settle(store, 3, 0, NULL), MW_OK);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&writer), MW_OK);
    assert_int_equal(mw_commit_settle(store, 4, 0, NULL), MW_OK);
    engine_close(db);
    engine_end(world);
}

/* ---- durability normal ----------------------------------------------------------------------- */

static mw_db *open_normal(sim *world)
{
    mw_options options = engine_options();
    options.durability = MW_DURABILITY_NORMAL;
    return engine_open(world, &options);
}

/* The first transaction makes the segment, with syncs of its own. */
static void own(mw_db *db) { engine_rollback(engine_begin(db)); }

/* I1: with durability normal the own write acknowledges; nothing less does. The sync comes by
** itself. */
static void a_normal_commit_returns_after_its_own_write(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_normal(world);
    own(db);
    int sync = sim_hold(world, SIM_FILE_SYNC, "wal-");
    int write = sim_hold(world, SIM_WRITE, "wal-");
    engine_call call = put_call(db, 1, "a");
    engine_start(&call);
    assert_true(sim_wait_held(world, write));
    assert_false(engine_ends(&call, SOON_MS));
    assert_string_equal(engine_rows(db), "");
    sim_release(world, write);
    assert_int_equal(engine_wait(&call), MW_OK); /* whatever holds up the sync */
    assert_string_equal(engine_rows(db), "1=a");
    assert_true(sim_wait_held(world, sync));
    sim_release(world, sync);
    engine_put(db, 2, "b");
    uint64_t before = sim_calls(world, SIM_FILE_SYNC);
    assert_int_equal(mw_commit_sync(engine_store(db), NULL), MW_OK);
    assert_in_range(sim_calls(world, SIM_FILE_SYNC), before,
                    before + 1); /* the thread may have been quicker */
    before = sim_calls(world, SIM_FILE_SYNC);
    assert_int_equal(mw_commit_sync(engine_store(db), NULL), MW_OK); /* nothing is left to do */
    assert_int_equal(sim_calls(world, SIM_FILE_SYNC), before);
    engine_close(db);
    engine_end(world);
}

/* L03: the last write was never synced, and now the sync fails: close says so. */
static void close_reports_a_failed_sync_of_a_normal_commit(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_normal(world);
    own(db);
    sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, true);
    engine_put(db, 1, "a");
    mw_err err = {0};
    assert_int_equal(mw_db_close(db, &err), MW_PERSISTENCE);
    assert_non_null(strstr(err.text, "wal-"));
    sim_fail_clear(world);
    mw_db *again = engine_open(world, NULL); /* exactly what the log holds */
    assert_string_equal(engine_rows(again), "1=a");
    assert_int_equal(engine_figure(again, "epoch"), 2);
    engine_close(again);
    engine_end(world);
}

/* A close that works leaves nothing unsynced. */
static void close_syncs_what_normal_commits_left(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_normal(world);
    engine_put(db, 1, "a");
    engine_close(db);
    uint32_t states = sim_disk_count(world, 100);
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(world, i);
        mw_db *again = engine_open(after, NULL);
        assert_string_equal(engine_rows(again), "1=a");
        engine_close(again);
        engine_end(after);
    }
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_turn_goes_to_whoever_came_first),
        cmocka_unit_test(waiting_for_the_turn_ends_at_the_deadline),
        cmocka_unit_test(a_failed_log_wakes_who_waits_for_the_turn),
        cmocka_unit_test(commit_is_pending_until_its_own_sync),
        cmocka_unit_test(a_kill_before_the_write_leaves_no_row),
        cmocka_unit_test(commit_fails_when_its_own_write_fails),
        cmocka_unit_test(commit_fails_when_its_own_sync_fails),
        cmocka_unit_test(commit_fails_when_its_fence_check_fails),
        cmocka_unit_test(commit_fails_when_a_peer_took_over_meanwhile),
        cmocka_unit_test(eight_commits_share_one_write_and_one_sync),
        cmocka_unit_test(eight_commits_of_a_group_all_fail_with_its_sync),
        cmocka_unit_test(what_is_queued_behind_a_failed_group_fails_with_it),
        cmocka_unit_test(a_takeover_ends_every_waiting_commit),
        cmocka_unit_test(closing_while_queued_fails_with_closed),
        cmocka_unit_test(closing_reports_the_failure_of_the_write_in_flight),
        cmocka_unit_test(closing_ends_who_waits_for_the_turn),
        cmocka_unit_test(a_group_never_spans_segments),
        cmocka_unit_test(a_group_stays_below_its_size_limit),
        cmocka_unit_test(nothing_is_acknowledged_after_a_failed_sync),
        cmocka_unit_test(an_entry_of_unknown_outcome_is_there_once_or_never),
        cmocka_unit_test(an_interrupted_write_is_finished),
        cmocka_unit_test(a_full_disk_does_not_stop_the_writer),
        cmocka_unit_test(a_commit_without_memory_fails_whole),
        cmocka_unit_test(a_full_entry_is_published_by_its_commit),
        cmocka_unit_test(barriers_without_rows_write_nothing),
        cmocka_unit_test(an_empty_transaction_waits_for_what_it_saw),
        cmocka_unit_test(settling_ends_at_the_deadline),
        cmocka_unit_test(a_normal_commit_returns_after_its_own_write),
        cmocka_unit_test(close_reports_a_failed_sync_of_a_normal_commit),
        cmocka_unit_test(close_syncs_what_normal_commits_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
