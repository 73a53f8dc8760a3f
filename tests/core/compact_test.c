/* compact_test.c: a merge folds the oldest generations and the base into a new base: the newest
** version of an id wins, deleted ids take no room, nothing comes twice, nothing comes back. What is
** interrupted, fails or is cut short changes nothing. */
#include "compact.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const mw_compact_task all_generations = {.what = MW_COMPACT_GENERATIONS};

/* ---- what is due ----------------------------------------------------------------------------- */

static void a_merge_is_due_when_enough_generations_wait(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.merge_generations = 3;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t id = 0; id < 5; id++) {
        assert_int_equal(mw_compact_due(engine_store(db)), id == 3);
        engine_put(db, id, "x"); /* without a thread, the writer merges what is due */
        engine_flush(db);
    }
    assert_int_equal(engine_figure(db, "merges"), 1);
    assert_int_equal(engine_figure(db, "generations"), 2);
    engine_close(db);
    engine_end(world);
}

/* Merges that nobody asked for are the owner's: who has only opened the store does none. */
static void who_has_not_written_merges_nothing(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.merge_generations = 1;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_flush(db);
    engine_close(db);
    db = engine_open(world, &options);
    assert_false(mw_compact_due(engine_store(db)));
    engine_put(db, 2, "b");
    assert_true(mw_compact_due(engine_store(db)));
    engine_put(db, 3, "c");
    assert_int_equal(engine_figure(db, "merges"), 1);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    engine_close(db);
    engine_end(world);
}

/* ---- what comes out -------------------------------------------------------------------------- */

static void expect_rows(sim *world, const char *rows)
{
    mw_db *db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), rows);
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 1000, "works");
    engine_close(db);
}

static mw_db *reopen(mw_db *db, sim *world)
{
    engine_close(db);
    return engine_open(world, NULL);
}

/* I5, I6: one manifest version, one sorted level: physical rows are live rows. */
static void a_merge_leaves_one_version_of_each_live_id(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 6, "old");
    engine_flush(db);
    engine_put(db, 2, "new");
    engine_delete(db, 3);
    engine_flush(db);
    engine_delete(db, 4);
    engine_put(db, 7, "seven");
    engine_flush(db);
    assert_int_equal(engine_figure(db, "physical_rows"), 10);
    uint64_t number = engine_store(db)->version->manifest->number;
    assert_int_equal(engine_merge(db, 0), 3);
    const mw_manifest *manifest = engine_store(db)->version->manifest;
    assert_int_equal(manifest->number, number + 1);
    assert_int_equal(manifest->file_count, 1);
    assert_int_equal(manifest->files[0].level, 1);
    assert_int_equal(manifest->files[0].generation, 3);
    assert_int_equal(manifest->files[0].props.tombstones, 0);
    assert_int_equal(manifest->files[0].props.rows, 5);
    assert_int_equal(engine_figure(db, "physical_rows"), 5);
    assert_int_equal(engine_figure(db, "generations"), 0);
    assert_int_equal(engine_figure(db, "base_levels"), 1);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    assert_string_equal(engine_rows(db), "1=old1 2=new 5=old5 6=old6 7=seven");
    assert_int_equal(engine_merge(db, 0), 0); /* nothing is left to do */
    assert_int_equal(engine_figure(db, "merges"), 1);
    engine_close(db);
    expect_rows(world, "1=old1 2=new 5=old5 6=old6 7=seven");
    engine_end(world);
}

/* All live rows gone: no file at all. */
static void a_merge_of_nothing_alive_leaves_no_file(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 3, "x");
    engine_flush(db);
    engine_merge(db, 0);
    for (int64_t id = 1; id < 4; id++) engine_delete(db, id);
    engine_flush(db);
    assert_int_equal(engine_merge(db, 0), 1);
    assert_int_equal(engine_figure(db, "files"), 0);
    assert_int_equal(engine_file_count(world, "table-"), 0);
    assert_int_equal(engine_figure(db, "physical_rows"), 0);
    assert_string_equal(engine_rows(db), "");
    engine_put(db, 2, "again");
    engine_flush(db);
    engine_merge(db, 0);
    engine_close(db);
    expect_rows(world, "2=again");
    engine_end(world);
}

/* C21: id 5 in the base, changed in generation 2, deleted in generation 3. Merges in every way to
** cut the three into steps: gone after each, and after each reopen. */
static void a_deleted_id_stays_gone_however_merges_are_cut(void **state)
{
    (void)state;
    static const uint32_t cuts[][3] = {{3}, {1, 2}, {2, 1}, {1, 1, 1}, {0}};
    for (size_t i = 0; i < 2 * sizeof cuts / sizeof *cuts; i++) {
        bool with_base = i % 2; /* or generation 1 instead of a base */
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 5, "base");
        engine_put(db, 6, "stays");
        engine_flush(db);
        if (with_base) engine_merge(db, 0);
        engine_put(db, 5, "changed");
        engine_flush(db);
        engine_delete(db, 5);
        engine_flush(db);
        assert_string_equal(engine_rows(db), "6=stays");
        for (int j = 0; j < 3; j++) {
            uint32_t most = cuts[i / 2][j];
            if (j > 0 && most == 0) break;
            engine_merge(db, most);
            assert_string_equal(engine_rows(db), "6=stays");
            db = reopen(db, world);
            assert_string_equal(engine_rows(db), "6=stays");
        }
        engine_merge(db, 0);
        assert_int_equal(engine_figure(db, "physical_rows"), 1);
        engine_close(db);
        engine_end(world);
    }
}

/* C22: INSERT 7, DELETE 7, INSERT 7, with a flush in each of the 8 subsets of the places behind
** them. */
static void an_id_that_came_back_has_its_last_value(void **state)
{
    (void)state;
    for (int subset = 0; subset < 8; subset++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 7, "first");
        if (subset & 1) engine_flush(db);
        engine_delete(db, 7);
        if (subset & 2) engine_flush(db);
        engine_put(db, 7, "third");
        if (subset & 4) engine_flush(db);
        assert_string_equal(engine_rows(db), "7=third");
        engine_merge(db, 0);
        assert_string_equal(engine_rows(db), "7=third");
        db = reopen(db, world);
        engine_flush(db);
        engine_merge(db, 0);
        assert_string_equal(engine_rows(db), "7=third");
        assert_int_equal(engine_figure(db, "physical_rows"), 1);
        engine_close(db);
        engine_end(world);
    }
}

/* C23, I7: 1,000 rows, all deleted, killed before any flush: nothing, and a count of 0, at each
** step. */
static void a_table_emptied_before_a_kill_stays_empty(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 1000, "x");
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 1; id <= 1000; id++) engine_txn_delete(txn, id);
    engine_commit(txn, MW_TXN_LIGHT);
    assert_int_equal(engine_count(db), 0);
    sim *after = sim_kill(world);
    mw_db_abandon(db);
    engine_end(world);
    db = engine_open(after, NULL);
    assert_int_equal(engine_count(db), 0);
    engine_merge(db, 0);
    assert_int_equal(engine_count(db), 0);
    engine_flush(db);
    assert_int_equal(engine_count(db), 0);
    engine_merge(db, 0);
    assert_int_equal(engine_count(db), 0);
    assert_int_equal(engine_figure(db, "physical_rows"), 0);
    engine_close(db);
    engine_end(after);
}

/* C26, I7: ids 1..10,000 ten times over; the even ones deleted; merged; reopened. The count is that
** of live ids, not of writes. */
static void the_count_is_of_live_ids_not_of_writes(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int i = 0; i < 10; i++) {
        engine_fill(db, 1, 10000, "x");
        if (i % 3 == 0) engine_flush(db);
        mw_snapshot *snapshot = engine_snapshot(db);
        assert_int_equal(mw_snapshot_count(snapshot), 10000);
        mw_snapshot_release(snapshot);
    }
    assert_int_equal(engine_count(db), 10000);
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 2; id <= 10000; id += 2) engine_txn_delete(txn, id);
    engine_commit(txn, MW_TXN_LIGHT);
    assert_int_equal(engine_count(db), 5000);
    engine_flush(db);
    engine_merge(db, 0);
    assert_int_equal(engine_count(db), 5000);
    db = reopen(db, world);
    assert_int_equal(engine_count(db), 5000);
    assert_int_equal(engine_figure(db, "physical_rows"), 5000);
    engine_close(db);
    engine_end(world);
}

/* L29: 30 single inserts, each flushed, merged at 10 generations, the writer reopened after each
** merge. */
static void merging_again_and_again_adds_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 1; id <= 30; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
        if (engine_figure(db, "generations") < 10) continue;
        assert_int_equal(engine_merge(db, 0), 10);
        db = reopen(db, world);
    }
    assert_int_equal(engine_count(db), 30);
    assert_int_equal(engine_figure(db, "rows"), 30);
    assert_int_equal(engine_figure(db, "physical_rows"), 30);
    engine_close(db);
    engine_end(world);
}

/* L33, I11: a hundred rounds of insert, flush and merge leave as many files as one. */
static void files_of_merged_generations_do_not_pile_up(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    uint32_t after_one = 0;
    for (int64_t id = 1; id <= 100; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
        engine_merge(db, 0);
        if (id == 1) after_one = engine_file_count(world, "");
    }
    assert_int_equal(engine_file_count(world, ""), after_one);
    assert_int_equal(engine_count(db), 100);
    engine_close(db);
    engine_end(world);
}

/* ---- beside others --------------------------------------------------------------------------- */

/* I5: a flush that lands while a merge is at work survives it, and what it holds wins over the
** base. */
static void a_flush_that_lands_during_a_merge_survives(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    engine_fill(db, 1, 3, "old");
    engine_flush(db);
    mw_compact *merge = NULL;
    bool done = false;
    mw_compact_result result = {0};
    assert_int_equal(mw_compact_start(store, &all_generations, &merge, NULL), MW_OK);
    assert_int_equal(mw_compact_step(merge, &done, NULL), MW_OK);
    assert_true(done);
    engine_put(db, 2, "new");
    engine_delete(db, 3);
    engine_put(db, 4, "four");
    engine_flush(db);
    assert_int_equal(mw_compact_finish(merge, &result, NULL), MW_OK);
    assert_int_equal(result.folded, 1);
    const mw_manifest *manifest = store->version->manifest;
    assert_int_equal(manifest->file_count, 2);
    assert_int_equal(manifest->files[0].level, 1);
    assert_int_equal(manifest->files[1].level, 0);
    assert_int_equal(manifest->cursor, 4);
    assert_string_equal(engine_rows(db), "1=old1 2=new 4=four");
    db = reopen(db, world);
    assert_string_equal(engine_rows(db), "1=old1 2=new 4=four");
    engine_close(db);
    engine_end(world);
}

/* L30, I5: two merges of the same inputs are prepared; the second finds them gone and drops its
** work. */
static void nothing_is_merged_twice(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    engine_fill(db, 1, 3, "x");
    engine_flush(db);
    engine_fill(db, 2, 2, "x");
    engine_flush(db);
    mw_compact *merges[2] = {NULL, NULL};
    bool done;
    mw_compact_result result = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mw_compact_start(store, &all_generations, &merges[i], NULL), MW_OK);
        assert_int_equal(mw_compact_step(merges[i], &done, NULL), MW_OK);
    }
    assert_int_equal(mw_compact_finish(merges[0], &result, NULL), MW_OK);
    mw_err err = {0};
    assert_int_equal(mw_compact_finish(merges[1], &result, &err), MW_MISUSE);
    assert_non_null(strstr(err.text, "not listed any more"));
    assert_int_equal(engine_file_count(world, "table-"), 1);
    assert_int_equal(engine_figure(db, "physical_rows"), 3);
    assert_string_equal(engine_rows(db), "1=x1 2=x2 3=x3");
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* A move that is late does not take a file to where it has been: it may be elsewhere by now. */
static void nothing_is_moved_twice(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    engine_fill(db, 1, 3, "x");
    engine_flush(db);
    mw_compact *moves[2] = {NULL, NULL};
    bool done;
    mw_compact_result result = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mw_compact_start(store, &all_generations, &moves[i], NULL), MW_OK);
        assert_int_equal(mw_compact_step(moves[i], &done, NULL), MW_OK);
        assert_true(done);
    }
    uint64_t number = store->version->manifest->number;
    assert_int_equal(mw_compact_finish(moves[0], &result, NULL), MW_OK);
    assert_int_equal(mw_compact_finish(moves[1], &result, NULL), MW_MISUSE);
    assert_int_equal(result.folded, 1);
    assert_int_equal(store->version->manifest->number, number + 1);
    assert_string_equal(engine_rows(db), "1=x1 2=x2 3=x3");
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* Merges asked for at once go one after the other: each generation is folded once. */
static void merges_at_once_fold_each_generation_once(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 1; id < 6; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
    }
    engine_call merges[4];
    uint64_t folded = 0;
    for (int i = 0; i < 4; i++) {
        merges[i] = (engine_call){.run = engine_run_merge, .db = db};
        engine_start(&merges[i]);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(engine_wait(&merges[i]), MW_OK);
        folded += merges[i].number;
    }
    assert_int_equal(folded, 5);
    assert_int_equal(engine_figure(db, "physical_rows"), 5);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    engine_close(db);
    engine_end(world);
}

/* A prepared light transaction may still be taken back, and needs to tell what was written since:
** its generation and all later ones are left alone until it has ended. */
static void an_undecided_generation_is_left_alone(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_flush(db);
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "b");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
    engine_flush(db);
    engine_put(db, 3, "c");
    engine_flush(db);
    assert_int_equal(engine_figure(db, "generations"), 3);
    assert_int_equal(engine_merge(db, 0), 1);
    assert_int_equal(engine_merge(db, 0), 0);
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_int_equal(engine_merge(db, 0), 2);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    engine_close(db);
    engine_end(world);
}

/* ---- giving up and failing ------------------------------------------------------------------- */

static bool after_some(void *arg)
{
    int *left = arg;
    return (*left)-- == 0;
}

/* Interrupted before its first slice or in the middle: nothing has changed, nothing is left
** over. */
static void an_interrupted_merge_changes_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 20000, "x");
    engine_flush(db);
    engine_fill(db, 1, 20000, "y");
    engine_flush(db);
    for (int slices = 0; slices < 3; slices++) {
        int left = slices;
        uint32_t folded = 9;
        mw_err err = {0};
        assert_int_equal(mw_db_merge(db, 0, after_some, &left, &folded, &err), MW_INTERRUPTED);
        assert_string_equal(err.text, "the merge was interrupted: what was not finished has not"
                                      " changed");
        assert_int_equal(folded, 0);
        assert_int_equal(engine_file_count(world, "table-"), 2);
        assert_int_equal(engine_figure(db, "generations"), 2);
    }
    assert_int_equal(engine_count(db), 20000);
    int left = 100;
    uint32_t folded = 0;
    assert_int_equal(mw_db_merge(db, 0, after_some, &left, &folded, NULL), MW_OK);
    assert_int_equal(folded, 2);
    assert_int_equal(engine_count(db), 20000);
    engine_close(db);
    engine_end(world);
}

static mw_db *open_for_merge(sim *world)
{
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    engine_flush(db);
    engine_merge(db, 0);
    engine_put(db, 1, "A");
    engine_flush(db);
    engine_delete(db, 2);
    engine_put(db, 3, "c");
    engine_flush(db);
    return db;
}

/* C65: each call of a merge in turn finds the disk full, or fails, or there is no memory. Reads and
** writes go on, nothing is lost or left over, the same merge works afterwards. */
static void expect_merge_repeated(sim_op op, int sys, uint64_t least)
{
    uint64_t n = 1;
    bool met = true;
    for (; met; n++) {
        sim *world = engine_world();
        mw_db *db = open_for_merge(world);
        uint32_t folded = 0;
        sim_fail(world, op, n, sys, false);
        mw_rc rc = mw_db_merge(db, 0, NULL, NULL, &folded, NULL);
        met = sim_fail_hits(world) > 0;
        sim_fail_clear(world);
        assert_int_equal(folded, rc == MW_OK ? 2 : 0);
        assert_string_equal(engine_rows(db), "1=A 3=c");
        mw_rc next = engine_try(db, 4, "d", MW_TXN_LIGHT, NULL);
        if (rc == MW_PERSISTENCE) { /* the manifest may stand or not: only a reopen can tell */
            assert_int_equal(next, MW_PERSISTENCE);
            assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
        } else {
            assert_int_equal(next, MW_OK);
            if (rc != MW_OK) assert_int_equal(engine_file_count(world, "table-"), 3);
            assert_int_equal(engine_merge(db, 0), rc == MW_OK ? 0 : 2);
            assert_int_equal(engine_file_count(world, "table-"), 1);
            engine_close(db);
        }
        expect_rows(world, rc == MW_PERSISTENCE ? "1=A 3=c" : "1=A 3=c 4=d");
        engine_end(world);
    }
    assert_true(n > least);
}

static void a_merge_that_fails_changes_nothing(void **state)
{
    (void)state;
    expect_merge_repeated(SIM_OPEN, ENOSPC, 2);
    expect_merge_repeated(SIM_WRITE, ENOSPC, 2);
    expect_merge_repeated(SIM_READ, EIO, 2);
    expect_merge_repeated(SIM_FILE_SYNC, EIO, 2);
    expect_merge_repeated(SIM_DIR_SYNC, EIO, 2);
    expect_merge_repeated(SIM_LINK, EIO, 1);
    expect_merge_repeated(SIM_EXISTS, EIO, 1);
    expect_merge_repeated(SIM_ALLOC, ENOMEM, 10);
}

/* L30, L38, I5, I11: the machine is gone after each step of a merge, in the states that a cut may
** leave: each id once, all there; and the merge can be done again. */
static void a_merge_cut_short_loses_and_doubles_nothing(void **state)
{
    (void)state;
    bool done = false;
    uint64_t n = 0;
    for (; !done; n++) {
        sim *world = engine_world();
        mw_db *db = open_for_merge(world);
        uint32_t folded;
        sim_stop_after(world, n);
        (void)!mw_db_merge(db, 0, NULL, NULL, &folded, NULL);
        done = !sim_stopped(world);
        mw_db_abandon(db);
        uint32_t states = sim_disk_count(world, 40);
        for (uint32_t i = 0; i < states; i++) {
            sim *after = sim_disk_state(world, i);
            db = engine_open(after, NULL);
            assert_string_equal(engine_rows(db), "1=A 3=c");
            engine_merge(db, 0);
            assert_int_equal(engine_figure(db, "physical_rows"), 2);
            assert_int_equal(engine_file_count(after, "table-"), 1); /* leftovers are removed */
            assert_string_equal(engine_check(db), "ok");
            engine_close(db);
            engine_end(after);
        }
        sim_destroy(world);
    }
    assert_true(n > 8);
}

/* L33: killed after the manifest, before the inputs were removed: the next open removes them. */
static void inputs_left_by_a_kill_are_removed_at_the_next_open(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_for_merge(world);
    sim_fail_named(world, SIM_UNLINK, "table-", 1, EIO, true); /* none can be removed */
    assert_int_equal(engine_merge(db, 0), 2);
    assert_int_equal(engine_file_count(world, "table-"), 4);
    assert_string_equal(engine_rows(db), "1=A 3=c");
    sim *after = sim_kill(world);
    mw_db_abandon(db);
    engine_end(world);
    expect_rows(after, "1=A 3=c");
    assert_int_equal(engine_file_count(after, "table-"), 1);
    engine_end(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_is_due_when_enough_generations_wait),
        cmocka_unit_test(who_has_not_written_merges_nothing),
        cmocka_unit_test(a_merge_leaves_one_version_of_each_live_id),
        cmocka_unit_test(a_merge_of_nothing_alive_leaves_no_file),
        cmocka_unit_test(a_deleted_id_stays_gone_however_merges_are_cut),
        cmocka_unit_test(an_id_that_came_back_has_its_last_value),
        cmocka_unit_test(a_table_emptied_before_a_kill_stays_empty),
        cmocka_unit_test(the_count_is_of_live_ids_not_of_writes),
        cmocka_unit_test(merging_again_and_again_adds_nothing),
        cmocka_unit_test(files_of_merged_generations_do_not_pile_up),
        cmocka_unit_test(a_flush_that_lands_during_a_merge_survives),
        cmocka_unit_test(nothing_is_merged_twice),
        cmocka_unit_test(nothing_is_moved_twice),
        cmocka_unit_test(merges_at_once_fold_each_generation_once),
        cmocka_unit_test(an_undecided_generation_is_left_alone),
        cmocka_unit_test(an_interrupted_merge_changes_nothing),
        cmocka_unit_test(a_merge_that_fails_changes_nothing),
        cmocka_unit_test(a_merge_cut_short_loses_and_doubles_nothing),
        cmocka_unit_test(inputs_left_by_a_kill_are_removed_at_the_next_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
