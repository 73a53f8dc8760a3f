/* pledge_test.c: transactions that the host database decides: seen when it has committed, asked for
** after a crash, and never guessed. */
#include "pledge.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const mw_pledge pledge = {"0123456789abcdef", "/home/host.db"};

/* ---- a host ---------------------------------------------------------------------------------- */

typedef struct host {
    bool committed;
    bool locked; /* by somebody else */
    int opens, asks, closes;
} host;

static mw_rc open_host(void *arg, const char *path, mw_err *err)
{
    host *self = arg;
    assert_string_equal(path, pledge.host);
    if (self->locked) return mw_fail(err, MW_BUSY, "%s is locked", path);
    self->opens++;
    return MW_OK;
}

static mw_rc ask_host(void *arg, const mw_pledge *asked, bool *committed, mw_err *err)
{
    host *self = arg;
    (void)err;
    assert_memory_equal(asked->id, pledge.id, sizeof pledge.id);
    *committed = self->committed;
    self->asks++;
    return MW_OK;
}

static void close_host(void *arg) { ((host *)arg)->closes++; }

static mw_judge judge_of(host *self) { return (mw_judge){self, open_host, ask_host, close_host}; }

/* ---- transactions ---------------------------------------------------------------------------- */

/* Puts (id, words), and deletes id 1. */
static mw_txn *pledged(mw_db *db, int64_t id, const char *words)
{
    mw_err err = {0};
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, id, words);
    engine_txn_delete(txn, 1);
    if (mw_txn_pledge(txn, &pledge, &err) != MW_OK) fail_msg("%s", err.text);
    return txn;
}

/* A machine whose process was killed between the prepare and the decision of the second
** transaction: before it there was "1=a". */
static sim *killed_between(const mw_options *options)
{
    sim *world = engine_world();
    mw_db *db = engine_open(world, options);
    engine_put(db, 1, "a");
    mw_txn *txn = pledged(db, 2, "b");
    sim *after = sim_kill(world);
    engine_rollback(txn);
    engine_close(db);
    engine_end(world);
    return after;
}

static void settle(mw_db *db, host *self)
{
    mw_err err = {0};
    mw_judge judge = judge_of(self);
    if (mw_db_settle(db, ENGINE_WAIT_MS, &judge, &err) != MW_OK) fail_msg("%s", err.text);
}

/* ---- without a crash ------------------------------------------------------------------------- */

/* One sync of its own, and none for the decision. */
static void a_pledged_transaction_is_seen_when_the_host_has_committed(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    uint64_t syncs = sim_calls(world, SIM_FILE_SYNC);
    mw_txn *txn = pledged(db, 2, "b");
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(mw_db_pledged(db).position, 0);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_int_equal(sim_calls(world, SIM_FILE_SYNC) - syncs, 1);
    assert_string_equal(engine_rows(db), "2=b");
    assert_int_equal(mw_db_pledged(db).position, 2);
    assert_memory_equal(mw_db_pledged(db).id, pledge.id, sizeof pledge.id);
    engine_put(db, 3, "c"); /* its sync takes the decision along */
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

static void a_host_that_does_not_commit_takes_the_rows_back(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_rollback(pledged(db, 2, "b"));
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(mw_db_pledged(db).position, 0);
    engine_close(db);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(engine_count(db), 1);
    engine_close(db);
    engine_end(world);
}

/* The host said BUSY: the same transaction goes on and is pledged again. */
static void a_pledge_may_be_taken_back_and_given_again(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = pledged(db, 2, "b");
    assert_int_equal(mw_txn_unprepare(txn, NULL), MW_OK);
    engine_txn_put(txn, 3, "c");
    assert_int_equal(mw_txn_pledge(txn, &pledge, NULL), MW_OK);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "2=b 3=c");
    engine_close(db);
    engine_end(world);
}

/* What the marker row must say outlives flushes, and the log that they remove. */
static void the_newest_pledge_outlives_the_log(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    assert_int_equal(mw_txn_commit(pledged(db, 2, "b"), NULL), MW_OK);
    engine_put(db, 3, "c");
    engine_flush(db);
    engine_put(db, 4, "d");
    engine_flush(db);
    engine_close(db);
    db = engine_open(world, NULL);
    assert_int_equal(mw_db_pledged(db).position, 1);
    assert_memory_equal(mw_db_pledged(db).id, pledge.id, sizeof pledge.id);
    engine_close(db);
    engine_end(world);
}

/* A host's path has a limit; what is beyond it leaves the transaction as it was. */
static void a_path_that_is_too_long_is_refused(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    char *path = malloc(MW_PLEDGE_HOST_BYTES_MAX + 2);
    memset(path, 'x', MW_PLEDGE_HOST_BYTES_MAX + 1);
    path[MW_PLEDGE_HOST_BYTES_MAX + 1] = 0;
    mw_pledge longest = {.host = path};
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 1, "a");
    assert_int_equal(mw_txn_pledge(txn, &longest, NULL), MW_TOOBIG);
    path[MW_PLEDGE_HOST_BYTES_MAX] = 0;
    assert_int_equal(mw_txn_pledge(txn, &longest, NULL), MW_OK);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=a");
    free(path);
    engine_close(db);
    engine_end(world);
}

/* Who knows that the host has decided waits for the rows; who does not know need not. */
static void what_the_host_has_decided_can_be_waited_for(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_db *other = engine_open(world, NULL);
    mw_db *both[2] = {db, other};
    mw_txn *txn = pledged(db, 2, "b");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mw_db_await(both[i], false, 0, NULL), MW_OK);
        assert_int_equal(mw_db_await(both[i], true, 0, NULL), MW_BUSY);
    }
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mw_db_await(both[i], true, 0, NULL), MW_OK);
        assert_string_equal(engine_rows(both[i]), "2=b");
    }
    engine_rollback(pledged(db, 3, "c"));
    for (int i = 0; i < 2; i++) assert_int_equal(mw_db_await(both[i], true, 0, NULL), MW_OK);
    engine_close(other);
    engine_close(db);
    engine_end(world);
}

/* ---- after a crash --------------------------------------------------------------------------- */

static void before_the_answer_the_store_can_be_read_and_not_written(void **state)
{
    (void)state;
    sim *world = killed_between(NULL);
    mw_db *db = engine_open(world, NULL);
    uint32_t manifests = engine_file_count(world, "manifest-");
    mw_err err = {0};
    mw_txn *txn = NULL;
    uint64_t generation;
    uint32_t folded;
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(engine_count(db), 1);
    assert_int_equal(mw_txn_begin(db, 0, &txn, &err), MW_UNDECIDED);
    assert_non_null(strstr(err.text, "database file"));
    assert_int_equal(mw_db_flush(db, 0, &generation, NULL), MW_UNDECIDED);
    assert_int_equal(mw_db_merge(db, 0, NULL, NULL, &folded, NULL), MW_UNDECIDED);
    assert_int_equal(engine_file_count(world, "manifest-"), manifests); /* no claims pile up */
    engine_close(db);
    db = engine_open(world, NULL); /* nothing was decided by closing */
    assert_int_equal(mw_txn_begin(db, 0, &txn, NULL), MW_UNDECIDED);
    engine_close(db);
    engine_end(world);
}

static void expect_settled(const mw_options *options, bool committed)
{
    const char *rows = committed ? "2=b" : "1=a";
    sim *world = killed_between(options);
    host self = {.committed = committed};
    mw_db *db = engine_open(world, options);
    settle(db, &self);
    settle(db, &self); /* nothing is left to ask */
    assert_true(self.opens == 1 && self.asks == 1 && self.closes == 1);
    assert_string_equal(engine_rows(db), rows);
    assert_string_equal(engine_check(db), "ok");
    assert_int_equal(mw_db_pledged(db).position, committed ? 2 : 0);
    sim *again = sim_kill(world); /* the answer is durable: nobody is asked again */
    mw_db *other = engine_open(again, options);
    assert_string_equal(engine_rows(other), rows);
    engine_put(other, 3, "c");
    engine_flush(other);
    assert_string_equal(engine_check(other), "ok");
    engine_close(other);
    engine_end(again);
    engine_put(db, 1, "z");
    assert_string_equal(engine_rows(db), committed ? "1=z 2=b" : "1=z");
    engine_close(db);
    engine_end(world);
}

static void what_the_host_has_committed_is_there(void **state)
{
    (void)state;
    expect_settled(NULL, true);
}

static void what_the_host_has_not_committed_is_gone(void **state)
{
    (void)state;
    expect_settled(NULL, false);
}

/* The same for a transaction whose rows lie in table files. */
static void a_spilled_pledge_is_settled_as_well(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.memtable_bytes = 1; /* each change is spilled */
    expect_settled(&options, true);
    expect_settled(&options, false);
}

/* The lock cannot be had: nothing is claimed, and the next try may have it. */
static void a_locked_host_is_asked_later(void **state)
{
    (void)state;
    sim *world = killed_between(NULL);
    mw_db *db = engine_open(world, NULL);
    host self = {.committed = true, .locked = true};
    mw_judge judge = judge_of(&self);
    mw_err err = {0};
    uint32_t manifests = engine_file_count(world, "manifest-");
    assert_int_equal(mw_db_settle(db, 0, &judge, &err), MW_BUSY);
    assert_non_null(strstr(err.text, pledge.host));
    assert_int_equal(self.closes, 0);
    assert_int_equal(engine_file_count(world, "manifest-"), manifests);
    assert_string_equal(engine_rows(db), "1=a");
    self.locked = false;
    settle(db, &self);
    assert_string_equal(engine_rows(db), "2=b");
    engine_close(db);
    engine_end(world);
}

/* The decision was only in the page cache: a power cut loses it, and the host knows. */
static void a_decision_that_is_lost_is_asked_for(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    assert_int_equal(mw_txn_commit(pledged(db, 2, "b"), NULL), MW_OK);
    uint32_t states = sim_disk_count(world, 64);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < states; i++) {
        sim *cut = sim_disk_state(world, i);
        mw_db *after = engine_open(cut, NULL);
        host self = {.committed = true};
        settle(after, &self);
        asked += (uint32_t)self.asks;
        assert_string_equal(engine_rows(after), "2=b");
        engine_close(after);
        engine_end(cut);
    }
    assert_true(asked > 0 && asked < states);
    engine_close(db);
    engine_end(world);
}

/* The host has committed, but the log can take the decision no more: the rows are there, and the
** writer has stopped. */
static void a_decision_that_fails_stops_the_writer_and_loses_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = pledged(db, 2, "b");
    sim_fail_named(world, SIM_WRITE, "wal-", 1, EIO, true);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_PERSISTENCE);
    assert_string_equal(engine_rows(db), "2=b");
    assert_int_equal(engine_try(db, 3, "c", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
    sim_fail_clear(world);
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    db = engine_open(world, NULL);
    host self = {.committed = true};
    settle(db, &self);
    assert_int_equal(self.asks, 1);
    assert_string_equal(engine_rows(db), "2=b");
    engine_close(db);
    engine_end(world);
}

/* ---- reading without claiming ---------------------------------------------------------------- */

/* After a kill on a full disk the rows can be read; writing goes on when there is room. */
static void a_full_disk_can_be_read_after_a_kill(void **state)
{
    (void)state;
    sim *before = engine_world();
    mw_db *db = engine_open(before, NULL);
    engine_put(db, 1, "a");
    sim *world = sim_kill(before);
    engine_close(db);
    engine_end(before);
    sim_fail(world, SIM_WRITE, 1, ENOSPC, true);
    sim_fail(world, SIM_ALLOCATE, 1, ENOSPC, true);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a");
    assert_string_equal(engine_check(db), "ok");
    assert_int_equal(engine_try(db, 2, "b", MW_TXN_LIGHT, NULL), MW_FULL);
    assert_string_equal(engine_rows(db), "1=a");
    sim_fail_clear(world);
    engine_put(db, 2, "b");
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

/* The host can be asked, but its answer cannot be written: it is good for reading. */
static void an_answer_on_a_full_disk_can_be_read(void **state)
{
    (void)state;
    for (int committed = 0; committed < 2; committed++) {
        const char *rows = committed ? "2=b" : "1=a";
        sim *world = killed_between(NULL);
        host self = {.committed = committed};
        mw_judge judge = judge_of(&self);
        mw_txn *txn = NULL;
        sim_fail(world, SIM_WRITE, 1, ENOSPC, true);
        sim_fail(world, SIM_ALLOCATE, 1, ENOSPC, true);
        mw_db *db = engine_open(world, NULL);
        assert_true(mw_db_undecided(db));
        settle(db, &self);
        assert_false(mw_db_undecided(db));
        assert_string_equal(engine_rows(db), rows);
        assert_int_equal(engine_count(db), 1);
        assert_string_equal(engine_check(db), "ok");
        assert_int_equal(mw_txn_begin(db, 0, &txn, NULL), MW_UNDECIDED);
        assert_int_equal(mw_db_settle(db, 0, &judge, NULL), MW_FULL);
        assert_string_equal(engine_rows(db), rows);
        sim_fail_clear(world);
        settle(db, &self);
        assert_int_equal(self.opens, self.closes);
        engine_put(db, 3, "c");
        assert_string_equal(engine_rows(db), committed ? "2=b 3=c" : "1=a 3=c");
        assert_string_equal(engine_check(db), "ok");
        engine_close(db);
        engine_end(world);
    }
}

/* Where nothing can be written the answer holds in memory, whichever it is. */
static void a_read_only_open_believes_the_host(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.read_only = true;
    for (int committed = 0; committed < 2; committed++) {
        sim *world = killed_between(NULL);
        host self = {.committed = committed};
        mw_db *db = engine_open(world, &options);
        assert_true(mw_db_undecided(db));
        assert_string_equal(engine_rows(db), "1=a");
        settle(db, &self);
        assert_int_equal(self.asks, 1);
        assert_false(mw_db_undecided(db));
        assert_int_equal(mw_db_refresh(db, NULL), MW_OK);
        assert_string_equal(engine_rows(db), committed ? "2=b" : "1=a");
        assert_int_equal(mw_db_pledged(db).position, committed ? 2 : 0);
        engine_close(db);
        db = engine_open(world, NULL);
        assert_true(mw_db_undecided(db));
        engine_close(db);
        engine_end(world);
    }
}

static void note_pledged(void *arg, const mw_pledged *pledged) { *(mw_pledged *)arg = *pledged; }

/* No transaction is between its two sides meanwhile. */
static void a_pause_waits_for_transactions(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_pledged seen = {.position = 99};
    mw_txn *txn = pledged(db, 2, "b");
    assert_int_equal(mw_db_pause(db, 0, note_pledged, &seen, NULL), MW_BUSY);
    assert_int_equal(seen.position, 99);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_int_equal(mw_db_pause(db, 0, note_pledged, &seen, NULL), MW_OK);
    assert_int_equal(seen.position, 1);
    engine_put(db, 3, "c"); /* and it is over */
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pledged_transaction_is_seen_when_the_host_has_committed),
        cmocka_unit_test(a_host_that_does_not_commit_takes_the_rows_back),
        cmocka_unit_test(a_pledge_may_be_taken_back_and_given_again),
        cmocka_unit_test(the_newest_pledge_outlives_the_log),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
        cmocka_unit_test(what_the_host_has_decided_can_be_waited_for),
        cmocka_unit_test(before_the_answer_the_store_can_be_read_and_not_written),
        cmocka_unit_test(what_the_host_has_committed_is_there),
        cmocka_unit_test(what_the_host_has_not_committed_is_gone),
        cmocka_unit_test(a_spilled_pledge_is_settled_as_well),
        cmocka_unit_test(a_locked_host_is_asked_later),
        cmocka_unit_test(a_decision_that_is_lost_is_asked_for),
        cmocka_unit_test(a_decision_that_fails_stops_the_writer_and_loses_nothing),
        cmocka_unit_test(a_full_disk_can_be_read_after_a_kill),
        cmocka_unit_test(an_answer_on_a_full_disk_can_be_read),
        cmocka_unit_test(a_read_only_open_believes_the_host),
        cmocka_unit_test(a_pause_waits_for_transactions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
