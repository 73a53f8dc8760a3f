/* level_iter_test.c: the files of a level are walked as one sorted array, both ways and from
** anywhere, one of them open at a time; what cannot be read is told, never passed over. */
#include "level_iter.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 60, STEP = 3 }; /* ids 0, 3, 6, ... */

/* A store whose level 1 has those ids, five or so a file. */
static mw_db *open_level(sim *world)
{
    mw_options options = engine_options();
    options.group_rows = 2;
    options.file_bytes = 400;
    mw_db *db = engine_open(world, &options);
    for (int half = 0; half < 2; half++) {
        mw_txn *txn = engine_begin(db);
        for (int64_t i = half; i < ROWS; i += 2) engine_txn_put(txn, STEP * i, "x");
        engine_commit(txn, MW_TXN_LIGHT);
        engine_flush(db);
    }
    engine_merge(db, 0);
    assert_in_range(engine_figure(db, "files"), 5, ROWS / 2);
    assert_int_equal(engine_figure(db, "base_levels"), 1);
    return db;
}

static mw_rc open_iter(mw_version *version, mw_file_run run, mw_iter **iter, mw_err *err)
{
    return mw_version_level_iter(version, run, iter, err);
}

static void expect_at(const mw_iter *iter, int64_t i)
{
    if (i < 0 || i >= ROWS) {
        assert_false(iter->valid);
        return;
    }
    uint8_t key[8];
    assert_true(iter->valid);
    assert_true(mw_slice_equal(iter->key, engine_key(STEP * i, key)));
    assert_int_equal(iter->sequence, 0); /* says nothing here */
    assert_false(iter->tombstone);
}

static void expect_walk(mw_iter *iter, int64_t i, bool back)
{
    mw_value value;
    for (expect_at(iter, i); iter->valid; expect_at(iter, i)) {
        assert_int_equal(iter->ops->column(iter, 0, &value, NULL), MW_OK);
        assert_int_equal(value.type, MW_TEXT);
        mw_rc rc = back ? iter->ops->prev(iter, NULL) : iter->ops->next(iter, NULL);
        assert_int_equal(rc, MW_OK);
        i += back ? -1 : 1;
    }
    assert_true(i < 0 || i >= ROWS);
}

static void walks_are_those_of_a_sorted_array(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_level(world);
    mw_version *version = mw_store_version(engine_store(db));
    mw_iter *iter;
    uint32_t open = sim_open_count(world);
    assert_int_equal(open_iter(version, version->files->levels.files[1], &iter, NULL), MW_OK);
    assert_false(iter->valid);
    assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
    expect_walk(iter, 0, false);
    assert_int_equal(iter->ops->last(iter, NULL), MW_OK);
    expect_walk(iter, ROWS - 1, true);
    for (int64_t id = -1; id <= STEP * ROWS; id++) {
        uint8_t key[8];
        int64_t above = id < 0 ? 0 : (id + STEP - 1) / STEP;
        int64_t below = id < 0 ? -1 : id / STEP;
        assert_int_equal(iter->ops->seek(iter, engine_key(id, key), NULL), MW_OK);
        expect_walk(iter, above, false);
        assert_int_equal(iter->ops->seek_back(iter, engine_key(id, key), NULL), MW_OK);
        expect_walk(iter, below < ROWS ? below : ROWS - 1, true);
    }
    mw_iter_close(iter);
    assert_int_equal(sim_open_count(world), open);
    mw_version_unref(version);
    engine_close(db);
    engine_end(world);
}

/* Part of a level, as a job has it. */
static void a_part_of_a_level_is_walked_alone(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_level(world);
    mw_version *version = mw_store_version(engine_store(db));
    const mw_manifest *manifest = version->manifest;
    mw_file_run level = version->files->levels.files[1];
    for (uint32_t first = 0; first < level.count; first++) {
        for (uint32_t count = 1; first + count <= level.count; count++) {
            mw_file_run run = {level.first + first, count};
            mw_iter *iter;
            assert_int_equal(open_iter(version, run, &iter, NULL), MW_OK);
            uint32_t end = run.first + count - 1;
            assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
            assert_true(mw_slice_equal(iter->key, manifest->files[run.first].keys.min));
            assert_int_equal(iter->ops->last(iter, NULL), MW_OK);
            assert_true(mw_slice_equal(iter->key, manifest->files[end].keys.max));
            uint64_t rows = 0;
            for (assert_int_equal(iter->ops->first(iter, NULL), MW_OK); iter->valid; rows++) {
                assert_int_equal(iter->ops->next(iter, NULL), MW_OK);
            }
            for (uint32_t i = run.first; i <= end; i++) rows -= manifest->files[i].props.rows;
            assert_int_equal(rows, 0);
            mw_iter_close(iter);
        }
    }
    mw_version_unref(version);
    engine_close(db);
    engine_end(world);
}

/* I9: whichever read or allocation fails, rows never go missing in silence. */
static void a_failure_is_told_where_it_happens(void **state)
{
    (void)state;
    static const struct {
        sim_op op;
        int sys;
        mw_rc rc;
    } faults[] = {{SIM_READ, EIO, MW_IO}, {SIM_ALLOC, ENOMEM, MW_NOMEM}};
    for (size_t f = 0; f < 2; f++) {
        bool met = true;
        for (uint64_t n = 1; met; n++) {
            sim *world = engine_world();
            engine_close(open_level(world)); /* nothing of it is cached */
            mw_db *db = engine_open(world, NULL);
            mw_version *version = mw_store_version(engine_store(db));
            mw_iter *iter = NULL;
            sim_fail(world, faults[f].op, n, faults[f].sys, false);
            mw_file_run level = version->files->levels.files[1];
            mw_rc rc = open_iter(version, level, &iter, NULL);
            if (rc == MW_OK) rc = iter->ops->first(iter, NULL);
            int64_t seen = 0;
            for (; rc == MW_OK && iter->valid; seen++) {
                expect_at(iter, seen);
                rc = iter->ops->next(iter, NULL);
            }
            met = sim_fail_hits(world) > 0;
            sim_fail_clear(world);
            assert_int_equal(rc, met ? faults[f].rc : MW_OK);
            assert_true(met || seen == ROWS);
            if (iter) { /* and it can be used again */
                assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
                expect_walk(iter, 0, false);
            }
            mw_iter_close(iter);
            mw_version_unref(version);
            engine_close(db);
            engine_end(world);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_are_those_of_a_sorted_array),
        cmocka_unit_test(a_part_of_a_level_is_walked_alone),
        cmocka_unit_test(a_failure_is_told_where_it_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
