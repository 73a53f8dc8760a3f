/* flush_test.c: a freeze is an exact cut, a flush moves the cursor over what is in listed files and
** over nothing else, in order; what fails changes nothing; writers are held back, then told why. */
#include "flush.h"

#include "background.h"
#include "commit.h"
#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
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

static void expect_rows(sim *world, const char *rows)
{
    mw_db *db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), rows);
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 1000, "works");
    engine_close(db);
}

/* Puts a row into the next generation while the one before stays frozen: with the turn in hand
** nobody flushes in between. */
static void put_behind_a_freeze(mw_db *db, int64_t id, const char *words)
{
    uint64_t generation;
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, id, words);
    assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
    assert_true(generation > 0);
    engine_commit(txn, MW_TXN_LIGHT);
}

/* ---- freeze ---------------------------------------------------------------------------------- */

static void a_freeze_cuts_at_the_last_position(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    assert_int_equal(engine_freeze(db), 1);
    assert_int_equal(engine_freeze(db), 0); /* nothing is in the new one */
    const mw_version *version = store->version;
    assert_int_equal(version->generation_count, 2);
    assert_int_equal(version->generations[1]->number, 1);
    assert_int_equal(version->generations[1]->first_position, 1);
    assert_int_equal(version->generations[1]->last_position, 2);
    assert_int_equal(version->generations[1]->count_last, 2);
    assert_int_equal(version->generations[0]->number, 2);
    assert_int_equal(version->generations[0]->first_position, 3);
    assert_int_equal(mw_log_segment_header(store->segment)->generation, 2);
    assert_int_equal(mw_log_segment_header(store->segment)->first_position, 3);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

/* A freeze that fails at any step changes nothing: the old memtable and segment go on, and the next
** freeze works. */
static void a_freeze_that_fails_changes_nothing(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_OPEN, SIM_WRITE, SIM_FILE_SYNC, SIM_DIR_SYNC, SIM_ALLOC};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        mw_rc rc = MW_IO;
        for (uint64_t n = 1; rc != MW_OK; n++) {
            sim *world = engine_world();
            mw_db *db = engine_open(world, NULL);
            engine_put(db, 1, "a");
            mw_store *store = engine_store(db);
            uint64_t generation;
            assert_int_equal(mw_turn_take(store, UINT64_MAX, NULL), MW_OK);
            sim_fail(world, ops[i], n, EIO, false);
            rc = mw_flush_freeze(store, &generation, NULL);
            sim_fail_clear(world);
            mw_turn_give(store);
            assert_int_equal(generation, rc == MW_OK ? 1 : 0);
            engine_put(db, 2, "b");
            engine_freeze(db);
            engine_put(db, 3, "c");
            sim *after = sim_kill(world);
            expect_rows(after, "1=a 2=b 3=c");
            engine_end(after);
            engine_flush(db);
            assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
            engine_close(db);
            engine_end(world);
        }
    }
}

/* L32: tiny rows, a memtable of a few of them; one by one, and one transaction that is larger than
** a memtable and stays one. Reopened with the same and with a smaller limit. */
static void memtables_are_frozen_at_their_limit(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.memtable_bytes = 2000;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t id = 0; id < 300; id++) engine_put(db, id, "tiny");
    int64_t generations = engine_figure(db, "generations");
    assert_in_range(generations, 5, 100);
    engine_fill(db, 1000, 500, "x"); /* some 20 limits in one */
    assert_in_range(engine_figure(db, "generations"), generations, generations + 1);
    engine_put(db, 5000, "next");
    assert_in_range(engine_figure(db, "memtables"), 1, 2);
    assert_int_equal(engine_count(db), 801);
    engine_close(db);
    options.memtable_bytes = 100;
    db = engine_open(world, &options);
    assert_int_equal(engine_count(db), 801);
    engine_put(db, 5001, "x");
    engine_put(db, 5002, "y");
    assert_int_equal(engine_count(db), 803);
    engine_close(db);
    engine_end(world);
}

/* ---- flush ----------------------------------------------------------------------------------- */

/* I4, I5: one manifest version adds the file and moves cursor, count and generation. */
static void a_flush_is_one_manifest_version(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    engine_put(db, 1, "A");
    engine_delete(db, 2);
    engine_put(db, 3, "c");
    const mw_version *before = engine_store(db)->version;
    uint64_t number = before->manifest->number;
    assert_int_equal(engine_flush(db), 1);
    const mw_manifest *manifest = engine_store(db)->version->manifest;
    assert_int_equal(manifest->number, number + 1);
    assert_int_equal(manifest->cursor, 5);
    assert_int_equal(manifest->sequence, 5);
    assert_int_equal(manifest->count, 2);
    assert_int_equal(manifest->generation, 1);
    assert_int_equal(manifest->file_count, 1);
    assert_int_equal(manifest->files[0].level, 0);
    assert_int_equal(manifest->files[0].generation, 1);
    assert_int_equal(manifest->files[0].props.rows, 2); /* the newest version of each id */
    assert_int_equal(manifest->files[0].props.tombstones, 1);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    assert_int_equal(engine_file_count(world, "wal-"), 1);
    assert_string_equal(engine_rows(db), "1=A 3=c");
    engine_close(db);
    engine_end(world);
}

/* A generation whose only entry was cancelled has positions and no rows: no file, and the cursor
** moves. */
static void a_generation_without_rows_makes_no_file(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 1, "a");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    assert_int_equal(engine_flush(db), 1);
    assert_int_equal(engine_figure(db, "wal_cursor"), 2);
    assert_int_equal(engine_figure(db, "files"), 0);
    engine_put(db, 2, "b");
    assert_int_equal(engine_flush(db), 2);
    assert_string_equal(engine_rows(db), "2=b");
    engine_close(db);
    expect_rows(world, "2=b");
    engine_end(world);
}

/* L27: only deletes. They hide the older rows, before and after a restart. */
static void a_generation_of_deletes_hides_older_rows(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 4, "x");
    engine_flush(db);
    engine_delete(db, 2);
    engine_delete(db, 3);
    engine_flush(db);
    assert_string_equal(engine_rows(db), "1=x1 4=x4");
    mw_db_abandon(db);
    expect_rows(world, "1=x1 4=x4");
    engine_end(world);
}

/* L14: generation 1 cannot be written; generation 2 could, but waits: the cursor stays below what
** is lost otherwise. After a kill both are there. When the disk works again both are listed, in
** order. */
static void a_failed_flush_holds_back_every_later_one(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    uint64_t generation;
    engine_put(db, 1, "a");
    sim_fail_named(world, SIM_WRITE, "table-", 1, EIO, false);
    assert_int_equal(mw_db_flush(db, 1000, &generation, NULL), MW_IO);
    assert_int_equal(engine_figure(db, "wal_cursor"), 0);
    sim_fail_named(world, SIM_WRITE, "table-", 1, EIO, true);
    engine_put(db, 2, "b");
    mw_err err = {0};
    assert_int_equal(mw_db_flush(db, 1000, &generation, &err), MW_IO);
    assert_non_null(strstr(err.text, "table-"));
    assert_int_equal(engine_figure(db, "wal_cursor"), 0);
    assert_int_equal(engine_file_count(world, "table-"), 0); /* what was begun is removed */
    assert_string_equal(engine_rows(db), "1=a 2=b");
    sim *after = sim_kill(world);
    expect_rows(after, "1=a 2=b");
    engine_end(after);
    sim_fail_clear(world);
    assert_int_equal(engine_flush(db), 2);
    assert_int_equal(engine_figure(db, "wal_cursor"), 2);
    assert_int_equal(engine_figure(db, "generations"), 2);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db); /* a failure that was made up for is none any more */
    expect_rows(world, "1=a 2=b");
    engine_end(world);
}

/* C65: each call of a flush in turn finds the disk full. Reads go on, nothing is lost, nothing is
** left over; with room again the same flush works. */
static void a_full_disk_in_a_flush_loses_nothing(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_OPEN, SIM_WRITE, SIM_FILE_SYNC, SIM_LINK};
    uint64_t met = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        mw_rc rc = MW_FULL;
        for (uint64_t n = 1; rc != MW_OK; n++) {
            sim *world = engine_world();
            mw_db *db = engine_open(world, NULL);
            uint64_t generation;
            engine_put(db, 1, "a");
            engine_freeze(db);
            sim_fail(world, ops[i], n, ENOSPC, false);
            rc = mw_db_flush(db, 1000, &generation, NULL);
            met += sim_fail_hits(world);
            sim_fail_clear(world);
            if (rc != MW_OK) {
                assert_int_equal(rc, MW_FULL);
                assert_int_equal(engine_file_count(world, "table-"), 0);
                assert_int_equal(engine_file_count(world, "tmp-"), 0);
            }
            assert_string_equal(engine_rows(db), "1=a");
            engine_put(db, 2, "b");
            engine_flush(db);
            assert_string_equal(engine_rows(db), "1=a 2=b");
            assert_string_equal(engine_check(db), "ok");
            mw_db_abandon(db);
            engine_end(world);
        }
    }
    assert_true(met >= 6);
}

/* The manifest stands, but whether it lasts is unknown: the writer stops, and nothing that it may
** list is removed. Whatever the power cut leaves has all rows. */
static void a_manifest_of_unknown_fate_stops_the_writer(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    uint64_t generation;
    engine_put(db, 1, "a");
    engine_freeze(db);
    sim_fail(world, SIM_DIR_SYNC, 2, EIO, false); /* the first is the table file's */
    assert_int_equal(mw_db_flush(db, 1000, &generation, NULL), MW_PERSISTENCE);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    assert_int_equal(engine_try(db, 2, "b", MW_TXN_LIGHT, NULL), MW_PERSISTENCE);
    assert_string_equal(engine_rows(db), "1=a");
    uint32_t states = sim_disk_count(world, 200);
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(world, i);
        expect_rows(after, "1=a");
        engine_end(after);
    }
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    expect_rows(world, "1=a");
    engine_end(world);
}

/* I5, I11, I15: the machine is gone after each step of a flush, in the states that a cut may
** leave. */
static void a_flush_cut_short_loses_nothing(void **state)
{
    (void)state;
    bool done = false;
    uint64_t n = 0;
    for (; !done; n++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        uint64_t generation;
        engine_put(db, 1, "a");
        engine_put(db, 2, "b");
        engine_flush(db);
        engine_put(db, 1, "A");
        engine_delete(db, 2);
        sim_stop_after(world, n);
        (void)!mw_db_flush(db, 1000, &generation, NULL);
        done = !sim_stopped(world);
        mw_db_abandon(db);
        uint32_t states = sim_disk_count(world, 50);
        for (uint32_t i = 0; i < states; i++) {
            sim *after = sim_disk_state(world, i);
            expect_rows(after, "1=A");
            engine_end(after);
        }
        sim_destroy(world);
    }
    assert_true(n > 8);
}

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

/* L15, L20: the flush is held before its manifest. Commits return meanwhile, the count never falls,
** the next generation is about to be cut; released, nothing is listed twice and nothing is replayed
** that is listed. The thread in the background waits with the flush, so that writers need not. */
static void commits_go_on_while_a_flush_is_held(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.background = true;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    engine_call flush = {.run = engine_run_flush, .db = db};
    int hold = sim_hold(world, SIM_LINK, "manifest-");
    engine_start(&flush);
    assert_true(sim_wait_held(world, hold));
    assert_string_equal(engine_rows(db), "1=a 2=b");
    mw_background_wake(engine_store(db));
    engine_put(db, 1, "A");
    assert_string_equal(engine_rows(db), "1=A 2=b");
    engine_call next = {.run = run_freezing_put, .db = db, .id = 3, .words = "c"};
    engine_start(&next);
    engine_ends(&next, SOON_MS);
    assert_int_equal(engine_figure(db, "wal_cursor"), 0);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&flush), MW_OK);
    assert_int_equal(engine_wait(&next), MW_OK);
    assert_int_equal(flush.number, 1);
    assert_string_equal(engine_rows(db), "1=A 2=b 3=c");
    assert_int_equal(engine_flush(db), 3);
    assert_int_equal(engine_figure(db, "wal_cursor"), 4);
    assert_string_equal(engine_rows(db), "1=A 2=b 3=c");
    mw_db_abandon(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_figure(db, "memtable_rows"), 0);
    engine_merge(db, 0);
    assert_int_equal(engine_figure(db, "physical_rows"), 3);
    assert_string_equal(engine_rows(db), "1=A 2=b 3=c");
    engine_close(db);
    engine_end(world);
}

/* Several who flush at once: each generation gets one file. */
static void flushes_at_once_make_one_file_a_generation(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    put_behind_a_freeze(db, 2, "b");
    engine_call flushes[4];
    for (int i = 0; i < 4; i++) {
        flushes[i] = (engine_call){.run = engine_run_flush, .db = db};
        engine_start(&flushes[i]);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(engine_wait(&flushes[i]), MW_OK);
    assert_int_equal(engine_figure(db, "files"), 2);
    assert_int_equal(engine_file_count(world, "table-"), 2);
    assert_int_equal(engine_figure(db, "flushes"), 2);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

/* I3: what is not decided is not flushed; the wait for that has a deadline (I14). */
static void a_flush_waits_until_its_rows_are_decided(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_call put = put_call(db, 2, "b");
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    engine_start(&put);
    assert_true(sim_wait_held(world, hold));
    uint64_t generation;
    assert_int_equal(mw_db_flush(db, SOON_MS, &generation, NULL), MW_BUSY);
    assert_int_equal(generation, 0);
    assert_int_equal(engine_figure(db, "wal_cursor"), 0);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&put), MW_OK);
    assert_int_equal(engine_flush(db), 1);
    assert_int_equal(engine_figure(db, "wal_cursor"), 2);
    engine_close(db);
    engine_end(world);
}

/* A full transaction holds the turn: a flush that needs it is told so after its time. */
static void a_flush_waits_for_the_turn_until_its_deadline(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    uint64_t generation;
    assert_int_equal(mw_db_flush(db, SOON_MS, &generation, NULL), MW_BUSY);
    engine_rollback(txn);
    assert_int_equal(engine_flush(db), 1);
    engine_close(db);
    engine_end(world);
}

/* L08: somebody inserts for ever into tiny memtables; "flush what I wrote" ends all the same. */
static mw_rc run_inserts(engine_call *call)
{
    mw_rc rc = MW_OK;
    const atomic_bool *stop = call->arg;
    for (int64_t id = 1000; rc == MW_OK && !atomic_load(stop); id++) {
        rc = engine_try(call->db, id, "x", MW_TXN_LIGHT, &call->err);
    }
    return rc;
}

static void a_flush_ends_under_a_stream_of_inserts(void **state)
{
    (void)state;
    atomic_bool stop = false;
    mw_options options = engine_options();
    options.memtable_bytes = 300;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_call stream = {.run = run_inserts, .db = db, .arg = &stop};
    engine_start(&stream);
    for (int64_t id = 1; id < 6; id++) {
        engine_put(db, id, "mine");
        int64_t position = engine_figure(db, "wal_position");
        assert_true(engine_flush(db) > 0);
        assert_true(engine_figure(db, "wal_cursor") >= position);
    }
    atomic_store(&stop, true);
    assert_int_equal(engine_wait(&stream), MW_OK);
    engine_close(db);
    engine_end(world);
}

/* ---- holding writers back -------------------------------------------------------------------- */

/* I14: flushes fail; a few memtables wait, then writers are refused with the reason, and go on when
** it is gone. Nothing acknowledged is lost in between. */
static void writers_are_refused_with_the_reason(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.memtable_bytes = 300;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    sim_fail_named(world, SIM_OPEN, "table-", 1, ENOSPC, true);
    mw_err err = {0};
    mw_rc rc = MW_OK;
    int64_t id = 0;
    for (; rc == MW_OK && id < 1000; id++) rc = engine_try(db, id, "x", MW_TXN_LIGHT, &err);
    int64_t acked = id - 1;
    assert_int_equal(rc, MW_FULL);
    assert_non_null(strstr(err.text, "table-"));
    assert_int_equal(engine_figure(db, "memtables"), 4); /* three frozen, one active */
    assert_int_equal(engine_count(db), acked);
    sim *after = sim_kill(world);
    mw_db *again = engine_open(after, NULL);
    assert_int_equal(engine_count(again), acked);
    engine_close(again);
    engine_end(after);
    sim_fail_clear(world);
    engine_put(db, 5000, "works");
    assert_int_equal(engine_count(db), acked + 1);
    mw_db_abandon(db);
    engine_end(world);
}

/* The same with a thread in the background: writers wait for it, but not for ever. */
static void writers_wait_for_the_thread_but_not_for_ever(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.memtable_bytes = 300;
    options.background = true;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    sim_fail_named(world, SIM_OPEN, "table-", 1, ENOSPC, true);
    int64_t acked = 0;
    while (engine_figure(db, "memtables") < 4) engine_put(db, acked++, "x");
    engine_call put = put_call(db, acked, "x");
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    while (!engine_ends(&put, SOON_MS)) sim_clock_advance(world, 120 * UINT64_C(1000000000));
    assert_int_equal(engine_wait(&put), MW_FULL);
    assert_non_null(strstr(put.err.text, "flushing does not keep up with writing: "));
    assert_non_null(strstr(put.err.text, "table-"));
    assert_int_equal(engine_count(db), acked);
    sim_fail_clear(world);
    engine_put(db, 5000, "works");
    assert_int_equal(engine_count(db), acked + 1);
    engine_flush(db);
    engine_close(db);
    engine_end(world);
}

/* A store whose merges cannot work: a page of its first generation is damaged. Flushes read
** none. */
static mw_db *open_unmergeable(sim *world, bool background)
{
    mw_options options = engine_options();
    options.merge_generations = 2; /* slowed from 4 on, refused from 8 on */
    mw_db *db = engine_open(world, NULL);
    char path[ENGINE_PATH_BYTES];
    engine_put(db, 0, "x");
    engine_flush(db);
    engine_close(db);
    assert_true(engine_file(world, "table-", 0, path));
    sim_file_flip(world, path, 8 * 80);
    options.background = background;
    return engine_open(world, &options);
}

/* Puts and flushes until so many generations wait. */
static void pile_up(mw_db *db, int64_t generations)
{
    for (int64_t id = 1; engine_figure(db, "generations") < generations; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
    }
}

static double stall_of(mw_db *db) { return (double)engine_store(db)->figures.stall_ns / 1e9; }

/* I14: merges fall behind: writers are slowed, the more the more waits; then refused with the
** reason, but not for ever. What was acknowledged is there. */
static void writers_are_slowed_and_then_refused_while_merges_fail(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_unmergeable(world, true);
    pile_up(db, 4);
    assert_true(stall_of(db) == 0);
    pile_up(db, 6);
    double some = stall_of(db);
    assert_true(some > 0.02);
    pile_up(db, 8);
    assert_true(stall_of(db) > 2 * some);
    engine_call put = put_call(db, 100, "x");
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    while (!engine_ends(&put, SOON_MS)) sim_clock_advance(world, 120 * UINT64_C(1000000000));
    assert_int_equal(engine_wait(&put), MW_FULL);
    assert_non_null(strstr(put.err.text, "merging does not keep up with writing: 8 files wait"));
    assert_non_null(strstr(put.err.text, "table-"));
    assert_int_equal(mw_db_close(db, NULL), MW_CORRUPT); /* tells what the thread could not do */
    engine_end(world);
}

static uint32_t waiting_files(mw_db *db)
{
    mw_version *version = mw_store_version(engine_store(db));
    uint32_t count = version->files->levels.files[0].count;
    mw_version_unref(version);
    return count;
}

/* I14: a large transaction has left more files than one merge takes: whoever comes behind it waits as
** long as they get fewer, however long all of it takes. */
static void writers_wait_while_merges_get_on(void **state)
{
    (void)state;
    enum { ROWS = 600, ADVANCE_S = 50 };
    sim *world = engine_world();
    mw_options options = engine_options();
    options.memtable_bytes = 600;
    options.merge_generations = 2; /* refused from 8 on */
    mw_db *db = engine_open(world, &options);
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 1; id <= ROWS; id++) engine_txn_put(txn, id, "some words");
    engine_commit(txn, MW_TXN_FULL);
    engine_flush(db);
    uint32_t files = waiting_files(db);
    assert_true(files >= 40);
    int merges[2] = {sim_hold(world, SIM_LINK, "manifest-")};
    mw_options to = options;
    to.background = true;
    assert_int_equal(mw_db_set_options(db, &options, &to, 0, NULL), MW_OK);
    assert_true(sim_wait_held(world, merges[0]));
    engine_call put = put_call(db, ROWS + 1, "x");
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    sim_clock_advance(world, ADVANCE_S * UINT64_C(1000000000));
    merges[1] = sim_hold(world, SIM_WRITE, "table-");
    sim_release(world, merges[0]);
    assert_true(sim_wait_held(world, merges[1]));
    assert_true(waiting_files(db) >= 8 && waiting_files(db) < files);
    sim_clock_advance(world, ADVANCE_S * UINT64_C(1000000000));
    assert_false(engine_ends(&put, SOON_MS));
    sim_release(world, merges[1]);
    assert_int_equal(engine_wait(&put), MW_OK);
    engine_close(db);
    engine_end(world);
}

static mw_rc run_background_off(engine_call *call)
{
    mw_options from = mw_db_options(call->db);
    mw_options to = from;
    to.background = false;
    return mw_db_set_options(call->db, &from, &to, ENGINE_WAIT_MS, &call->err);
}

/* The thread stands before opening its file, which will fail; a writer waits for it. Then background
** is set off: the writer tries for himself, long before his wait is over. His result. */
static mw_rc put_while_background_ends(sim *world, mw_db *db, int hold, int64_t id)
{
    engine_call put = put_call(db, id, "x");
    assert_true(sim_wait_held(world, hold));
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    engine_call off = {.run = run_background_off, .db = db};
    engine_start(&off);
    while (mw_db_options(db).background) usleep(1000);
    assert_false(engine_ends(&put, 5 * SOON_MS)); /* the step at hand may bring what it waits for */
    sim_release(world, hold);
    assert_int_equal(engine_wait(&off), MW_OK);
    assert_true(engine_ends(&put, 10000));
    return engine_wait(&put);
}

/* I14: the thread could not flush, nor can the next one, who is the writer or whoever set it off. Who
** comes after that can. */
static void a_writer_that_waits_flushes_when_background_is_set_off(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.memtable_bytes = 300;
    options.background = true;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    int hold = sim_hold(world, SIM_OPEN, "table-");
    for (uint64_t n = 1; n <= 2; n++) sim_fail_named(world, SIM_OPEN, "table-", n, ENOSPC, false);
    int64_t id = 0;
    while (engine_figure(db, "memtables") < 4) engine_put(db, id++, "x");
    mw_rc rc = put_while_background_ends(world, db, hold, id);
    assert_true(rc == MW_OK || rc == MW_FULL);
    assert_int_equal(sim_fail_hits(world), 2);
    assert_int_equal(engine_figure(db, "flushes"), 3);
    assert_int_equal(engine_count(db), rc == MW_OK ? id + 1 : id);
    rc = mw_db_close(db, NULL); /* the thread may have had the last word: the disk was full */
    assert_true(rc == MW_OK || rc == MW_FULL);
    engine_end(world);
}

/* I14: the thread could not merge, and nobody will: the writer does. */
static void a_writer_that_waits_merges_when_background_is_set_off(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = engine_options();
    options.merge_generations = 100;
    mw_db *db = engine_open(world, &options);
    pile_up(db, 8);
    int hold = sim_hold(world, SIM_OPEN, "table-");
    sim_fail_named(world, SIM_OPEN, "table-", 1, ENOSPC, false);
    mw_options to = options;
    to.merge_generations = 2; /* refused from 8 on */
    to.background = true;
    assert_int_equal(mw_db_set_options(db, &options, &to, 0, NULL), MW_OK);
    assert_int_equal(put_while_background_ends(world, db, hold, 100), MW_OK);
    assert_int_equal(sim_fail_hits(world), 1);
    assert_int_equal(engine_figure(db, "merges"), 1);
    engine_close(db);
    engine_end(world);
}

/* C68, L04: while writers are held back, a flush, the figures and a close come to their end, and so
** do the writers. */
static void nobody_waits_for_a_writer_that_is_held_back(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_unmergeable(world, true);
    pile_up(db, 7);
    engine_put(db, 50, "x");
    engine_flush(db);
    engine_call puts[3];
    for (int i = 0; i < 3; i++) {
        puts[i] = put_call(db, 100 + i, "x");
        engine_start(&puts[i]);
    }
    for (int i = 0; i < 3; i++) assert_false(engine_ends(&puts[i], SOON_MS));
    engine_flush(db);
    assert_int_equal(engine_figure(db, "generations"), 8);
    assert_non_null(engine_words(db, "last_error"));
    engine_call closing = {.run = engine_run_close, .db = db};
    engine_start(&closing);
    assert_true(engine_ends(&closing, 5000));
    assert_int_equal(engine_wait(&closing), MW_CORRUPT);
    for (int i = 0; i < 3; i++) assert_int_equal(engine_wait(&puts[i]), MW_CLOSED);
    engine_end(world);
}

/* Without a thread the writer that meets the limit is the one that tries, and hears why not. */
static void without_a_thread_writers_are_refused_with_the_merges_failure(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_unmergeable(world, false);
    pile_up(db, 8);
    mw_err err = {0};
    assert_int_equal(engine_try(db, 100, "x", MW_TXN_LIGHT, &err), MW_FULL);
    assert_non_null(strstr(err.text, "merging does not keep up with writing: 8 files wait"));
    assert_non_null(strstr(err.text, "table-"));
    assert_int_equal(mw_db_close(db, NULL), MW_CORRUPT);
    engine_end(world);
}

/* An undecided transaction is in the way of merges. Who has it may be who writes on: nobody is held
** back for it. */
static void nobody_is_held_back_for_an_undecided_transaction(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.merge_generations = 1;
    for (int background = 0; background < 2; background++) {
        options.background = background;
        sim *world = engine_world();
        mw_db *db = engine_open(world, &options);
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, 0, "a");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
        engine_flush(db);
        pile_up(db, 12);
        assert_true(stall_of(db) == 0);
        assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
        engine_put(db, 100, "x");
        engine_flush(db);
        if (background) engine_wait_figure(db, "merges", 1);
        if (!background) assert_in_range(engine_figure(db, "merges"), 1, 2);
        engine_close(db);
        engine_end(world);
    }
}

/* ... nor for what it has come to be in the way of while a writer waited for older merges. */
static void a_wait_for_merges_ends_when_an_undecided_transaction_stops_them(void **state)
{
    (void)state;
    sim *world = engine_world();
    char path[ENGINE_PATH_BYTES];
    mw_db *db = open_unmergeable(world, true);
    assert_true(engine_file(world, "table-", 0, path));
    pile_up(db, 3);
    mw_txn *undecided = engine_begin(db);
    engine_txn_put(undecided, 500, "u");
    assert_int_equal(mw_txn_prepare(undecided, MW_TXN_LIGHT, NULL), MW_OK);
    pile_up(db, 7);
    mw_store_lock(engine_store(db));
    engine_store(db)->options.memtable_bytes = 500;
    mw_store_unlock(engine_store(db));
    engine_fill(db, 1000, 60, "large"); /* files enough for a refusal, all behind `undecided` */
    engine_flush(db);
    assert_in_range(engine_figure(db, "generations"), 12, 100);
    engine_call put = put_call(db, 100, "x");
    engine_start(&put);
    assert_false(engine_ends(&put, SOON_MS));
    sim_file_flip(world, path, 8 * 80); /* what is older can be merged again */
    assert_true(engine_ends(&put, 20000));
    assert_int_equal(engine_wait(&put), MW_OK);
    assert_in_range(engine_figure(db, "generations"), 8, 100);
    engine_rollback(undecided);
    engine_close(db);
    engine_end(world);
}

/* I14: what an earlier life has left to merge, more than writers are refused for, holds nobody back
** before the store is owned: nothing is merged until then. */
static void the_first_write_does_not_wait_for_merges_that_it_makes_possible(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = engine_options();
    options.background = false;
    options.merge_generations = 100;
    mw_db *db = engine_open(world, &options);
    pile_up(db, 8);
    engine_close(db);
    options.background = true;
    options.merge_generations = 2; /* refused from 8 on */
    db = engine_open(world, &options);
    mw_options more_cache = options;
    more_cache.cache_bytes *= 2;
    assert_int_equal(mw_db_set_options(db, &options, &more_cache, 1000, NULL), MW_OK);
    assert_non_null(engine_store(db)->thread);
    engine_call put = put_call(db, 100, "x");
    engine_start(&put);
    assert_true(engine_ends(&put, 10000));
    assert_int_equal(engine_wait(&put), MW_OK);
    engine_put(db, 101, "x");
    engine_wait_figure(db, "merges", 1);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_freeze_cuts_at_the_last_position),
        cmocka_unit_test(a_freeze_that_fails_changes_nothing),
        cmocka_unit_test(memtables_are_frozen_at_their_limit),
        cmocka_unit_test(a_flush_is_one_manifest_version),
        cmocka_unit_test(a_generation_without_rows_makes_no_file),
        cmocka_unit_test(a_generation_of_deletes_hides_older_rows),
        cmocka_unit_test(a_failed_flush_holds_back_every_later_one),
        cmocka_unit_test(a_full_disk_in_a_flush_loses_nothing),
        cmocka_unit_test(a_manifest_of_unknown_fate_stops_the_writer),
        cmocka_unit_test(a_flush_cut_short_loses_nothing),
        cmocka_unit_test(commits_go_on_while_a_flush_is_held),
        cmocka_unit_test(flushes_at_once_make_one_file_a_generation),
        cmocka_unit_test(a_flush_waits_until_its_rows_are_decided),
        cmocka_unit_test(a_flush_waits_for_the_turn_until_its_deadline),
        cmocka_unit_test(a_flush_ends_under_a_stream_of_inserts),
        cmocka_unit_test(writers_are_refused_with_the_reason),
        cmocka_unit_test(writers_wait_for_the_thread_but_not_for_ever),
        cmocka_unit_test(writers_are_slowed_and_then_refused_while_merges_fail),
        cmocka_unit_test(writers_wait_while_merges_get_on),
        cmocka_unit_test(a_writer_that_waits_flushes_when_background_is_set_off),
        cmocka_unit_test(a_writer_that_waits_merges_when_background_is_set_off),
        cmocka_unit_test(nobody_waits_for_a_writer_that_is_held_back),
        cmocka_unit_test(without_a_thread_writers_are_refused_with_the_merges_failure),
        cmocka_unit_test(nobody_is_held_back_for_an_undecided_transaction),
        cmocka_unit_test(a_wait_for_merges_ends_when_an_undecided_transaction_stops_them),
        cmocka_unit_test(the_first_write_does_not_wait_for_merges_that_it_makes_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
