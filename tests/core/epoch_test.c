/* epoch_test.c: two writers never both extend the log (I8). Two engines on one simulated disk,
** neither taking the folder's lock; each is stopped at its steps while the other moves on. Whatever
** happens, the answer to "did my commit happen" is definite: success if and only if the successor
** has the row. */
#include "epoch.h"

#include "commit.h"
#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOON_MS = 40 };
static const uint64_t SEAL_WAIT_NS =
    1100 * UINT64_C(1000000); /* more than a writer waits for a seal */

static mw_options shared_options(void)
{
    mw_options options = engine_options();
    options.shared = true;
    return options;
}

static mw_db *open_shared(sim *world)
{
    mw_options options = shared_options();
    return engine_open(world, &options);
}

static engine_call put_call(mw_db *db, int64_t id, const char *words)
{
    engine_call call = {
        .run = engine_run_put, .db = db, .id = id, .words = words, .kind = MW_TXN_LIGHT};
    return call;
}

static engine_call open_call(sim *world)
{
    engine_call call = {.run = engine_run_open, .world = world, .options = shared_options()};
    return call;
}

/* Number of the manifest that a store works on. */
static uint64_t manifest_of(mw_db *db) { return engine_store(db)->version->manifest->number; }

/* Holds whoever is about to give a manifest this number. */
static int hold_manifest(sim *world, uint64_t number)
{
    char name[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(number, name);
    return sim_hold(world, SIM_LINK, name);
}

static void close_fenced(mw_db *db)
{
    mw_err err = {0};
    mw_rc rc = mw_db_close(db, &err);
    if (rc != MW_FENCED) fail_msg("%d %s", rc, err.text);
}

/* One more reader of the whole: what the disk says in the end. */
static void expect_in_the_end(sim *world, const char *rows)
{
    mw_db *db = open_shared(world);
    assert_string_equal(engine_rows(db), rows);
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 1000, "works");
    engine_close(db);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static void the_first_write_claims_the_first_epoch(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    assert_int_equal(engine_figure(db, "epoch"), 0);
    assert_int_equal(engine_file_count(world, "wal-"), 0);
    mw_txn *txn = engine_begin(db);
    engine_rollback(txn);
    assert_int_equal(engine_figure(db, "epoch"), 1);
    engine_put(db, 1, "a");
    assert_int_equal(engine_figure(db, "epoch"), 1);
    engine_close(db);
    engine_end(world);
}

static void a_clean_end_keeps_the_epoch(void **state)
{
    (void)state;
    sim *world = engine_world();
    for (int64_t id = 1; id < 5; id++) {
        mw_db *db = engine_open(world, NULL);
        engine_put(db, id, "x");
        assert_int_equal(engine_figure(db, "epoch"), 1);
        engine_close(db);
    }
    assert_int_equal(engine_file_count(world, "wal-"), 1);
    mw_db *db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=x 2=x 3=x 4=x");
    engine_close(db);
    engine_end(world);
}

/* Anything but a whole state file of this start of the machine that says "clean" is an unclean
** end. */
static void an_unclean_end_claims_the_next_epoch(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        if (i == 0)
            mw_db_abandon(db);
        else
            engine_close(db);
        if (i == 1) sim_file_delete(world, "store/state");
        if (i == 2) sim_file_flip(world, "store/state", 8 * 24);
        if (i == 3) sim_file_truncate(world, "store/state", 47);
        sim *after = world;
        if (i == 4) { /* the machine has started again */
            sim_disk_count(world, 1);
            after = sim_disk_state(world, 0);
            engine_end(world);
        }
        db = engine_open(after, NULL);
        assert_int_equal(engine_figure(db, "epoch"), 2);
        assert_string_equal(engine_rows(db), "1=a");
        engine_put(db, 2, "b");
        engine_close(db);
        db = engine_open(after, NULL);
        assert_int_equal(engine_figure(db, "epoch"), 2);
        assert_string_equal(engine_rows(db), "1=a 2=b");
        engine_close(db);
        engine_end(after);
    }
}

/* L17: an open that must fail on its own input does not throw out the healthy writer. */
static void a_doomed_open_fences_nobody(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = shared_options();
    mw_store_id other = {{1}};
    mw_db *first = open_shared(world);
    mw_db *second = NULL;
    engine_put(first, 1, "a");
    const mw_env *env = sim_env(world);
    assert_int_equal(mw_db_open(env, ENGINE_STORE, &options, &other, &second, NULL), MW_MISMATCH);
    engine_put(first, 2, "b");
    assert_int_equal(engine_figure(first, "epoch"), 1);
    engine_close(first);
    engine_end(world);
}

/* ---- a peer takes over ----------------------------------------------------------------------- */

/* L10: W1 writes, W2 opens and writes nothing, W1 writes: fenced, and the row is nowhere, now and
** later. */
static void the_older_writers_next_commit_is_fenced(void **state)
{
    (void)state;
    for (int kind = MW_TXN_FULL; kind <= MW_TXN_LIGHT; kind++) {
        sim *world = engine_world();
        mw_db *first = open_shared(world);
        engine_put(first, 1, "a");
        mw_db *second = open_shared(world);
        mw_err err = {0};
        assert_int_equal(engine_try(first, 2, "b", (mw_txn_kind)kind, &err), MW_FENCED);
        assert_string_equal(err.text, "writer fenced: a peer claimed epoch 2, ours was 1");
        assert_int_equal(engine_try(first, 3, "c", (mw_txn_kind)kind, NULL), MW_FENCED);
        assert_string_equal(engine_rows(first), "1=a");
        assert_string_equal(engine_rows(second), "1=a");
        engine_put(second, 4, "d");
        engine_flush(second);
        assert_string_equal(engine_rows(second), "1=a 4=d");
        close_fenced(first);
        engine_close(second);
        expect_in_the_end(world, "1=a 4=d");
        engine_end(world);
    }
}

/* L09, L12: W1 is stopped before its write; W2 opens, writes, flushes, merges, and everything that
** W1 knows of is removed. W1 goes on into an empty place: fenced all the same. */
static void a_stalled_writer_is_fenced_when_all_it_knew_is_gone(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    engine_call call = put_call(first, 2, "b");
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    mw_db *second = open_shared(world);
    for (int64_t id = 10; id < 15; id++) {
        engine_put(second, id, "x");
        engine_flush(second);
    }
    engine_merge(second, 0);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    assert_false(sim_file_exists(world, "store/wal-0000000000000001-0000000000000001"));
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_FENCED);
    assert_string_equal(engine_rows(second), "1=a 10=x 11=x 12=x 13=x 14=x");
    close_fenced(first);
    engine_close(second);
    expect_in_the_end(world, "1=a 10=x 11=x 12=x 13=x 14=x");
    engine_end(world);
}

/* The same with two successors, the second of which no longer needs the first one's part of the
** log: W1's position is below the second one's start, and W1 is fenced nevertheless. */
static void a_stalled_writer_is_fenced_by_the_first_of_two_successors(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    engine_call call = put_call(first, 2, "b");
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    mw_db *second = open_shared(world);
    engine_put(second, 3, "c");
    engine_put(second, 4, "d");
    engine_flush(second);
    engine_close(second);
    mw_db *third = open_shared(world);
    engine_put(third, 5, "e");
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_FENCED);
    assert_string_equal(engine_rows(third), "1=a 3=c 4=d 5=e");
    close_fenced(first);
    engine_close(third);
    expect_in_the_end(world, "1=a 3=c 4=d 5=e");
    engine_end(world);
}

/* So many successors that not even the history says any more what became of the entry: then nobody
** claims to know. */
static void a_writer_from_before_the_history_is_told_that_nobody_knows(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    engine_call call = put_call(first, 2, "b");
    int hold = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    for (int64_t i = 0; i < 70; i++) {
        mw_db *next = open_shared(world);
        engine_put(next, 10 + i, "x");
        engine_flush(next);
        engine_close(next);
    }
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_PERSISTENCE);
    assert_int_equal(mw_db_close(first, NULL), MW_PERSISTENCE);
    mw_db *last = open_shared(world);
    assert_null(engine_find(last, 2));
    assert_int_equal(engine_count(last), 71);
    assert_true(engine_store(last)->version->manifest->epoch_count <= 65);
    engine_close(last);
    engine_end(world);
}

/* ---- stopped at each step -------------------------------------------------------------------- */

/* W1 is stopped at one of its steps while W2 claims, replays and seals. Success only if W2 has the
** row. */
static void expect_definite(sim_op op, const char *prefix, mw_txn_kind kind, mw_rc wanted)
{
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    engine_call call = put_call(first, 2, "b");
    call.kind = kind;
    int hold = sim_hold(world, op, prefix);
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    mw_db *second = open_shared(world);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), wanted);
    const char *rows = wanted == MW_OK ? "1=a 2=b" : "1=a";
    assert_string_equal(engine_rows(first), rows);
    assert_string_equal(engine_rows(second), rows);
    assert_int_equal(engine_try(first, 3, "c", kind, NULL), MW_FENCED);
    engine_put(second, 4, "d");
    close_fenced(first);
    engine_close(second);
    expect_in_the_end(world, wanted == MW_OK ? "1=a 2=b 4=d" : "1=a 4=d");
    engine_end(world);
}

static void a_commit_held_at_any_step_has_a_definite_outcome(void **state)
{
    (void)state;
    for (int kind = MW_TXN_FULL; kind <= MW_TXN_LIGHT; kind++) {
        expect_definite(SIM_WRITE, "wal-", (mw_txn_kind)kind,
                        MW_FENCED); /* W2 has read before it   */
        expect_definite(SIM_FILE_SYNC, "wal-", (mw_txn_kind)kind,
                        MW_OK); /* W2 has read and copied  */
        expect_definite(SIM_EXISTS, "manifest-", (mw_txn_kind)kind, MW_OK);
    }
}

/* W1's first entry is written when W2 reads, eight others wait behind it: the one is heritage, the
** others never were. */
static void what_the_successor_has_succeeds_and_the_rest_is_fenced(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_call calls[9];
    int hold = -1;
    engine_put(first, 1, "a");
    hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    for (int i = 0; i < 9; i++) {
        calls[i] = put_call(first, 2 + i, "x");
        engine_start(&calls[i]);
        if (i == 0) assert_true(sim_wait_held(world, hold));
        engine_wait_queued(first, 1 + (uint32_t)i);
    }
    mw_db *second = open_shared(world);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&calls[0]), MW_OK);
    for (int i = 1; i < 9; i++) assert_int_equal(engine_wait(&calls[i]), MW_FENCED);
    assert_string_equal(engine_rows(first), "1=a 2=x");
    assert_string_equal(engine_rows(second), "1=a 2=x");
    close_fenced(first);
    engine_close(second);
    expect_in_the_end(world, "1=a 2=x");
    engine_end(world);
}

/* What a successor shows is durable, though the older writer never got to its sync: copied and
** synced before the seal. In every state that a power cut may leave. */
static void what_a_successor_has_shown_survives_a_power_cut(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    engine_call call = put_call(first, 2, "b");
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    engine_start(&call);
    assert_true(sim_wait_held(world, hold));
    sim *after = sim_kill(world);
    mw_db *second = open_shared(after);
    assert_string_equal(engine_rows(second), "1=a 2=b");
    uint32_t states = sim_disk_count(after, 1000);
    assert_true(states > 1);
    for (uint32_t i = 0; i < states; i++) {
        sim *cut = sim_disk_state(after, i);
        expect_in_the_end(cut, "1=a 2=b");
        engine_end(cut);
    }
    engine_close(second);
    engine_end(after);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&call), MW_OK);
    engine_close(first);
    engine_end(world);
}

/* A full transaction was prepared before the claim, so W2 has it: its commit succeeds. Taking it
** back is not in W1's power any more: the outcome is unknown to it. */
static void a_prepared_transaction_is_the_successors_heritage(void **state)
{
    (void)state;
    for (int undo = 0; undo < 2; undo++) {
        sim *world = engine_world();
        mw_db *first = open_shared(world);
        engine_put(first, 1, "a");
        mw_txn *txn = engine_begin(first);
        engine_txn_put(txn, 2, "b");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
        mw_db *second = open_shared(world);
        mw_err err = {0};
        mw_rc rc = undo ? mw_txn_rollback(txn, &err) : mw_txn_commit(txn, &err);
        assert_int_equal(rc, undo ? MW_PERSISTENCE : MW_OK);
        if (undo) assert_non_null(strstr(err.text, "unknown until reopened"));
        assert_string_equal(engine_rows(second), "1=a 2=b");
        mw_rc closed = mw_db_close(first, NULL);
        assert_int_equal(closed, undo ? MW_FENCED : MW_OK);
        engine_close(second);
        expect_in_the_end(world, "1=a 2=b");
        engine_end(world);
    }
}

/* I5, I8: the older writer's flush and merge publish nothing over the successor's manifests. */
static void the_older_writers_flush_and_merge_are_fenced(void **state)
{
    (void)state;
    for (int merge = 0; merge < 2; merge++) {
        sim *world = engine_world();
        mw_db *first = open_shared(world);
        engine_put(first, 1, "a");
        engine_flush(first);
        engine_put(first, 2, "b");
        mw_db *second = open_shared(world);
        uint64_t generation;
        uint32_t folded;
        mw_rc rc = merge ? mw_db_merge(first, 0, NULL, NULL, &folded, NULL)
                         : mw_db_flush(first, 1000, &generation, NULL);
        assert_int_equal(rc, MW_FENCED);
        assert_string_equal(engine_rows(second), "1=a 2=b");
        close_fenced(first);
        engine_close(second);
        expect_in_the_end(world, "1=a 2=b");
        assert_int_equal(engine_file_count(world, "table-"), 1);
        engine_end(world);
    }
}

/* ---- claims without a seal ------------------------------------------------------------------- */

/* W2 has claimed and is stopped before its seal. W1's commit waits; after the deadline W1 claims
** above it and seals, so its answer is definite: done. W2 then cannot seal, claims anew, and has
** the row. W1 is stopped before its write while W2 reads, or comes only when W2 has read. */
static void an_unsealed_claim_is_overtaken_after_the_deadline(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        sim *world = engine_world();
        mw_db *first = open_shared(world);
        engine_put(first, 1, "a");
        engine_call put = put_call(first, 2, "b");
        engine_call open = open_call(world);
        int write = -1;
        if (stopped) {
            write = sim_hold(world, SIM_WRITE, "wal-");
            engine_start(&put);
            assert_true(sim_wait_held(world, write));
        }
        int seal = hold_manifest(world, manifest_of(first) + 2);
        engine_start(&open);
        assert_true(sim_wait_held(world, seal));
        if (stopped)
            sim_release(world, write);
        else
            engine_start(&put);
        assert_false(engine_ends(&put, SOON_MS));
        sim_clock_advance(world, SEAL_WAIT_NS);
        assert_int_equal(engine_wait(&put), MW_OK);
        assert_int_equal(engine_try(first, 3, "c", MW_TXN_LIGHT, NULL), MW_FENCED);
        assert_false(engine_ends(&open, SOON_MS));
        sim_release(world, seal);
        assert_int_equal(engine_wait(&open), MW_OK);
        assert_string_equal(engine_rows(open.db), "1=a 2=b");
        assert_int_equal(engine_figure(open.db, "epoch"), 4); /* 2 was void, 3 was W1's */
        engine_put(open.db, 4, "d");
        close_fenced(first);
        engine_close(open.db);
        expect_in_the_end(world, "1=a 2=b 4=d");
        engine_end(world);
    }
}

/* W2 seals in time: W1's answer is what the seal says. The entry had been written when W2 read (1),
** or not yet (0). */
static void a_seal_in_time_decides_who_waits_for_it(void **state)
{
    (void)state;
    for (int written = 0; written < 2; written++) {
        sim *world = engine_world();
        mw_db *first = open_shared(world);
        engine_put(first, 1, "a");
        engine_call put = put_call(first, 2, "b");
        engine_call open = open_call(world);
        int step = sim_hold(world, written ? SIM_FILE_SYNC : SIM_WRITE, "wal-");
        engine_start(&put);
        assert_true(sim_wait_held(world, step));
        int seal = hold_manifest(world, manifest_of(first) + 2);
        engine_start(&open);
        assert_true(sim_wait_held(world, seal));
        sim_release(world, step);
        assert_false(engine_ends(&put, SOON_MS));
        sim_release(world, seal);
        assert_int_equal(engine_wait(&open), MW_OK);
        assert_int_equal(engine_wait(&put), written ? MW_OK : MW_FENCED);
        const char *rows = written ? "1=a 2=b" : "1=a";
        assert_string_equal(engine_rows(open.db), rows);
        close_fenced(first);
        engine_close(open.db);
        expect_in_the_end(world, rows);
        engine_end(world);
    }
}

/* W2 is stopped before its seal; W3 opens, claims above it, seals, and removes what lies below: the
** number of W2's seal is free again. W2 must notice that its claim is void, although nothing is in
** its way. It is stopped before it makes the temporary file, or has one: then that has been removed
** as well. */
static void expect_void_claim(sim_op op, const char *prefix)
{
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    engine_call open = open_call(world);
    char name[MW_MANIFEST_NAME_BYTES + 8];
    snprintf(name, sizeof name, "%smanifest-%016llx", prefix,
             (unsigned long long)manifest_of(first) + 2);
    int seal = sim_hold(world, op, name);
    engine_start(&open);
    assert_true(sim_wait_held(world, seal));
    mw_db_abandon(first);
    mw_db *third = open_shared(world);
    engine_put(third, 3, "c");
    engine_flush(third);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    sim_release(world, seal);
    assert_int_equal(engine_wait(&open), MW_OK);
    assert_string_equal(engine_rows(open.db), "1=a 3=c");
    assert_int_equal(engine_figure(open.db, "epoch"), 4);
    assert_int_equal(engine_try(third, 4, "d", MW_TXN_LIGHT, NULL), MW_FENCED);
    engine_put(open.db, 5, "e");
    close_fenced(third);
    engine_close(open.db);
    expect_in_the_end(world, "1=a 3=c 5=e");
    engine_end(world);
}

static void a_void_claim_cannot_be_sealed_in_a_free_place(void **state)
{
    (void)state;
    expect_void_claim(SIM_OPEN, "tmp-");
    expect_void_claim(SIM_LINK, "");
}

/* W2 dies between claim and seal, with copies in its segment. The claim is void: nothing of it
** counts, W1 gets its answer by itself, and every row is there once. */
static void a_claim_whose_maker_died_counts_for_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    mw_db *dead = NULL;
    mw_options options = shared_options();
    char seal[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(manifest_of(first) + 2, seal);
    sim_fail_named(world, SIM_LINK, seal, 1, EIO, false);
    assert_int_equal(engine_try_open(world, &options, &dead, NULL), MW_IO);
    assert_true(sim_file_exists(world, "store/wal-0000000000000002-0000000000000001"));
    engine_call put = put_call(first, 2, "b");
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    sim_clock_advance(world, SEAL_WAIT_NS);
    assert_int_equal(engine_wait(&put), MW_OK);
    close_fenced(first);
    mw_db *next = open_shared(world);
    assert_string_equal(engine_rows(next), "1=a 2=b");
    assert_false(sim_file_exists(world, "store/wal-0000000000000002-0000000000000001")); /* swept */
    engine_close(next);
    expect_in_the_end(world, "1=a 2=b");
    engine_end(world);
}

/* W1 itself fails while it overtakes: then it does not know, and says so. */
static void a_failed_overtaking_is_an_unknown_outcome(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    mw_db *dead = NULL;
    mw_options options = shared_options();
    char seal[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(manifest_of(first) + 2, seal);
    sim_fail_named(world, SIM_LINK, seal, 1, EIO, true);
    assert_int_equal(engine_try_open(world, &options, &dead, NULL), MW_IO);
    engine_call put = put_call(first, 2, "b");
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    sim_clock_advance(world, SEAL_WAIT_NS);
    assert_int_equal(engine_wait(&put), MW_PERSISTENCE);
    sim_fail_clear(world);
    assert_int_equal(mw_db_close(first, NULL), MW_PERSISTENCE);
    expect_in_the_end(world, "1=a 2=b"); /* one of the two, the same for ever: it was on disk */
    engine_end(world);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* L11: W2 is stopped between choosing its number and creating it. W1 goes on until that number has
** come and gone. W2 creates it, in a place that is free again, and must notice that it has won
** nothing. */
static void a_claim_below_the_boundary_is_noticed(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    uint64_t lost = manifest_of(first) + 1;
    engine_call open = open_call(world);
    int hold = hold_manifest(world, lost);
    engine_start(&open);
    assert_true(sim_wait_held(world, hold));
    char path[ENGINE_PATH_BYTES];
    for (int64_t id = 2; id < 5; id++) {
        engine_put(first, id, "x");
        engine_flush(first);
    }
    snprintf(path, sizeof path, "%s/manifest-%016llx", ENGINE_STORE, (unsigned long long)lost);
    assert_false(sim_file_exists(world, path)); /* came and went */
    engine_call put = put_call(first, 5, "x");
    int write = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&put);
    assert_true(sim_wait_held(world, write));
    sim_release(world, hold);
    assert_int_equal(engine_wait(&open), MW_OK);
    sim_release(world, write);
    assert_int_equal(engine_wait(&put), MW_FENCED);
    assert_string_equal(engine_rows(open.db), "1=a 2=x 3=x 4=x");
    assert_int_equal(engine_figure(open.db, "epoch"), 2);
    close_fenced(first);
    engine_close(open.db);
    expect_in_the_end(world, "1=a 2=x 3=x 4=x");
    assert_int_equal(engine_file_count(world, "manifest-"), 1); /* the lost one is swept */
    engine_end(world);
}

/* The same, and W1 commits while the lost number stands there: it is fenced by nothing. */
static void a_lost_claim_fences_nobody(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    uint64_t lost = manifest_of(first) + 1;
    engine_call open = open_call(world);
    int hold = hold_manifest(world, lost);
    engine_start(&open);
    assert_true(sim_wait_held(world, hold));
    for (int64_t id = 2; id < 5; id++) {
        engine_put(first, id, "x");
        engine_flush(first);
    }
    int second = hold_manifest(world, manifest_of(first) + 1); /* its next try */
    sim_release(world, hold);
    assert_true(sim_wait_held(world, second));
    engine_put(first, 5, "x");
    sim_release(world, second);
    assert_int_equal(engine_wait(&open), MW_OK);
    assert_string_equal(engine_rows(open.db), "1=a 2=x 3=x 4=x 5=x");
    assert_int_equal(engine_try(first, 6, "x", MW_TXN_LIGHT, NULL), MW_FENCED);
    close_fenced(first);
    engine_close(open.db);
    expect_in_the_end(world, "1=a 2=x 3=x 4=x 5=x");
    engine_end(world);
}

/* Holds whoever is about to make the temporary file for a manifest of this number: unlike one that
** is there already it is out of a sweep's reach. */
static int hold_before_manifest(sim *world, uint64_t number)
{
    char name[MW_MANIFEST_NAME_BYTES];
    char tmp[MW_MANIFEST_NAME_BYTES + 8];
    mw_manifest_name(number, name);
    snprintf(tmp, sizeof tmp, "tmp-%s", name);
    return sim_hold(world, SIM_OPEN, tmp);
}

/* R28: W1 sleeps in a commit; its newest manifest is N. W2 takes over and removes N and N+1. W3, who
** read N-1 before there was an N, creates N once more and loses, but the file stays. W1 sees an N and
** no N+1, and must not take that N for its own. `full`: when W1 made N it could not open it. */
static void expect_fenced_beside_a_stray(bool full)
{
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    uint64_t number = manifest_of(first) + 1;
    engine_call late = open_call(world);
    int before = hold_before_manifest(world, number);
    engine_start(&late);
    assert_true(sim_wait_held(world, before));
    if (full) sim_fail_named(world, SIM_OPEN, "manifest-", 1, EMFILE, true);
    engine_flush(first);
    sim_fail_clear(world);
    assert_int_equal(manifest_of(first), number);
    engine_put(first, 2, "b");
    engine_call put = put_call(first, 3, "lost");
    int write = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&put);
    assert_true(sim_wait_held(world, write));
    mw_db *second = open_shared(world);
    engine_put(second, 4, "d");
    assert_int_equal(manifest_of(second), number + 2);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    int again = hold_manifest(world, number + 3); /* W3's next try */
    sim_release(world, before);
    assert_true(sim_wait_held(world, again));
    assert_int_equal(engine_file_count(world, "manifest-"), 2); /* W2's, and the stray */
    sim_release(world, write);
    assert_int_equal(engine_wait(&put), MW_FENCED);
    sim_release(world, again);
    assert_int_equal(engine_wait(&late), MW_OK);
    assert_string_equal(engine_rows(late.db), "1=a 2=b 4=d");
    close_fenced(first);
    assert_int_equal(engine_try(second, 5, "e", MW_TXN_LIGHT, NULL), MW_FENCED);
    close_fenced(second);
    engine_close(late.db);
    expect_in_the_end(world, "1=a 2=b 4=d");
    assert_int_equal(engine_file_count(world, "manifest-"), 1); /* the stray is swept */
    engine_end(world);
}

static void a_stray_of_the_own_number_is_not_the_own_manifest(void **state)
{
    (void)state;
    expect_fenced_beside_a_stray(false);
    expect_fenced_beside_a_stray(true);
}

/* The same while W1 has made N and not yet opened it: what it opens then is the stray. It must not
** be mistaken for the newest manifest. */
static void a_stray_is_not_opened_for_the_own_manifest(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = open_shared(world);
    engine_put(first, 1, "a");
    uint64_t number = manifest_of(first) + 1;
    engine_call late = open_call(world);
    int before = hold_before_manifest(world, number);
    engine_start(&late);
    assert_true(sim_wait_held(world, before));
    char name[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(number, name);
    engine_call flush = {.run = engine_run_flush, .db = first};
    int opening = sim_hold(world, SIM_OPEN, name);
    engine_start(&flush);
    assert_true(sim_wait_held(world, opening));
    mw_db *second = open_shared(world);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    int again = hold_manifest(world, number + 3);
    sim_release(world, before);
    assert_true(sim_wait_held(world, again));
    assert_int_equal(engine_file_count(world, "manifest-"), 2);
    sim_release(world, opening);
    assert_int_equal(engine_wait(&flush), MW_FENCED);
    assert_int_equal(engine_try(first, 2, "b", MW_TXN_LIGHT, NULL), MW_FENCED);
    sim_release(world, again);
    assert_int_equal(engine_wait(&late), MW_OK);
    mw_db_abandon(second);
    close_fenced(first);
    engine_close(late.db);
    expect_in_the_end(world, "1=a");
    engine_end(world);
}

static void expect_two_looks(sim *world, mw_db *db, int64_t id)
{
    uint64_t looks = sim_calls(world, SIM_EXISTS);
    uint64_t lists = sim_calls(world, SIM_LIST);
    uint64_t opens = sim_calls(world, SIM_OPEN);
    engine_put(db, id, "x");
    assert_int_equal(sim_calls(world, SIM_EXISTS) - looks, 2);
    assert_int_equal(sim_calls(world, SIM_LIST) - lists, 0);
    assert_int_equal(sim_calls(world, SIM_OPEN) - opens, 0);
}

/* Whatever the manifest at hand came from: a seal, a flush, a merge, or a reopen. */
static void a_fence_check_is_two_looks(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    expect_two_looks(world, db, 2);
    engine_flush(db);
    expect_two_looks(world, db, 3);
    engine_flush(db);
    assert_int_equal(engine_merge(db, 0), 2);
    expect_two_looks(world, db, 4);
    engine_close(db);
    db = engine_open(world, NULL);
    engine_put(db, 5, "e");
    expect_two_looks(world, db, 6);
    engine_close(db);
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
    if (rc == MW_OK) return mw_txn_commit(txn, &call->err);
    mw_err second = {0};
    return mw_txn_rollback(txn, &second) == MW_OK ? rc : MW_MISUSE;
}

/* A store's own flush and merge move its manifests, and remove old ones, in the middle of its own
** fence check: between the look and the listing, and between the listing and the reading. That is
** no peer and no damage. */
static void own_flush_and_merge_disturb_no_fence_check(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_call put = put_call(db, 2, "b");
    put.run = run_freezing_put;
    int look = sim_hold(world, SIM_EXISTS, "manifest-");
    engine_start(&put);
    assert_true(sim_wait_held(world, look));
    assert_int_equal(mw_flush_run(engine_store(db), 1, UINT64_MAX, NULL), MW_OK);
    int reading = sim_hold(world, SIM_OPEN, "manifest-");
    sim_release(world, look);
    assert_true(sim_wait_held(world, reading));
    assert_int_equal(engine_merge(db, 0), 1);
    sim_release(world, reading);
    assert_int_equal(engine_wait(&put), MW_OK);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_put(db, 3, "c");
    engine_close(db);
    engine_end(world);
}

/* Two open at the same moment, again and again: each round one owner, no acknowledged row lost. */
static void two_that_open_at_once_have_one_owner(void **state)
{
    (void)state;
    sim *world = engine_world();
    int64_t acked = 0;
    for (int round = 0; round < 30; round++) {
        engine_call opens[2] = {open_call(world), open_call(world)};
        for (int i = 0; i < 2; i++) engine_start(&opens[i]);
        for (int i = 0; i < 2; i++) assert_int_equal(engine_wait(&opens[i]), MW_OK);
        engine_call puts[2];
        for (int i = 0; i < 2; i++) {
            puts[i] = put_call(opens[i].db, 2 * round + i, "x");
            engine_start(&puts[i]);
        }
        int good = 0;
        for (int i = 0; i < 2; i++) {
            mw_rc rc = engine_wait(&puts[i]);
            assert_true(rc == MW_OK || rc == MW_FENCED);
            good += rc == MW_OK;
        }
        assert_true(good >= 1);
        acked += good;
        for (int i = 0; i < 2; i++) mw_db_abandon(opens[i].db);
    }
    mw_db *db = open_shared(world);
    assert_int_equal(engine_count(db), acked);
    engine_close(db);
    engine_end(world);
}

/* ---- a takeover that fails ------------------------------------------------------------------- */

/* The machine is gone at each step of a takeover in turn: the next one finds all rows, once. */
static void a_takeover_cut_short_changes_nothing(void **state)
{
    (void)state;
    bool done = false;
    uint64_t n = 0;
    for (; !done; n++) {
        sim *world = engine_world();
        mw_db *first = open_shared(world);
        engine_put(first, 1, "a");
        engine_put(first, 2, "b");
        engine_flush(first);
        engine_put(first, 3, "c");
        mw_db_abandon(first);
        mw_db *second = NULL;
        mw_options options = shared_options();
        sim_stop_after(world, n);
        mw_rc rc = engine_try_open(world, &options, &second, NULL);
        done = rc == MW_OK && !sim_stopped(world);
        if (rc == MW_OK) mw_db_abandon(second);
        uint32_t states = sim_disk_count(world, 60);
        for (uint32_t i = 0; i < states; i++) {
            sim *after = sim_disk_state(world, i);
            expect_in_the_end(after, "1=a 2=b 3=c");
            engine_end(after);
        }
        sim_destroy(world);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_write_claims_the_first_epoch),
        cmocka_unit_test(a_clean_end_keeps_the_epoch),
        cmocka_unit_test(an_unclean_end_claims_the_next_epoch),
        cmocka_unit_test(a_doomed_open_fences_nobody),
        cmocka_unit_test(the_older_writers_next_commit_is_fenced),
        cmocka_unit_test(a_stalled_writer_is_fenced_when_all_it_knew_is_gone),
        cmocka_unit_test(a_stalled_writer_is_fenced_by_the_first_of_two_successors),
        cmocka_unit_test(a_writer_from_before_the_history_is_told_that_nobody_knows),
        cmocka_unit_test(a_commit_held_at_any_step_has_a_definite_outcome),
        cmocka_unit_test(what_the_successor_has_succeeds_and_the_rest_is_fenced),
        cmocka_unit_test(what_a_successor_has_shown_survives_a_power_cut),
        cmocka_unit_test(a_prepared_transaction_is_the_successors_heritage),
        cmocka_unit_test(the_older_writers_flush_and_merge_are_fenced),
        cmocka_unit_test(an_unsealed_claim_is_overtaken_after_the_deadline),
        cmocka_unit_test(a_seal_in_time_decides_who_waits_for_it),
        cmocka_unit_test(a_void_claim_cannot_be_sealed_in_a_free_place),
        cmocka_unit_test(a_claim_whose_maker_died_counts_for_nothing),
        cmocka_unit_test(a_failed_overtaking_is_an_unknown_outcome),
        cmocka_unit_test(a_claim_below_the_boundary_is_noticed),
        cmocka_unit_test(a_lost_claim_fences_nobody),
        cmocka_unit_test(a_stray_of_the_own_number_is_not_the_own_manifest),
        cmocka_unit_test(a_stray_is_not_opened_for_the_own_manifest),
        cmocka_unit_test(a_fence_check_is_two_looks),
        cmocka_unit_test(own_flush_and_merge_disturb_no_fence_check),
        cmocka_unit_test(two_that_open_at_once_have_one_owner),
        cmocka_unit_test(a_takeover_cut_short_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
