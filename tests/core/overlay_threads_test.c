/* overlay_threads_test.c: transactions that spill, beside readers, other writers and a thread that
** flushes and merges. */
#include "overlay.h"

#include "engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 60, TRANSACTIONS = 60, OTHER = 1000 };

typedef struct writer {
    mw_db *db;
    atomic_bool *stop;
    atomic_int committed; /* newest value that was acknowledged */
    mw_rc rc;
    mw_err err;
    pthread_t thread;
} writer;

/* Gives all ids one value. */
static mw_rc write_all(writer *self, mw_txn *txn, int value)
{
    char words[32];
    mw_rc rc = MW_OK;
    snprintf(words, sizeof words, "%d", value);
    for (int64_t id = 0; rc == MW_OK && id < IDS; id++) {
        rc = engine_txn_try(txn, id, words, &self->err);
    }
    return rc;
}

/* Of four transactions one is rolled back, one undone in its middle and one taken back once. */
static mw_rc transact(writer *self, int value)
{
    mw_txn *txn;
    uint64_t mark = 0;
    mw_rc rc = mw_txn_begin(self->db, ENGINE_WAIT_MS, &txn, &self->err);
    if (rc != MW_OK) return rc;
    if (value % 4 == 1) {
        rc = mw_txn_mark(txn, &mark, &self->err);
        if (rc == MW_OK) rc = write_all(self, txn, -value);
        if (rc == MW_OK) rc = mw_txn_undo(txn, mark, &self->err);
    }
    if (rc == MW_OK) rc = write_all(self, txn, value);
    if (rc == MW_OK && value % 4 > 1) {
        rc = mw_txn_prepare(txn, MW_TXN_FULL, &self->err);
        if (rc == MW_OK && value % 4 == 2) rc = mw_txn_unprepare(txn, &self->err);
    }
    if (value % 4 == 3 || rc != MW_OK) {
        mw_rc end = mw_txn_rollback(txn, &self->err);
        return rc != MW_OK ? rc : end;
    }
    rc = mw_txn_prepare(txn, MW_TXN_LIGHT, &self->err);
    if (rc != MW_OK) return mw_txn_rollback(txn, &self->err);
    rc = mw_txn_commit(txn, &self->err);
    atomic_store(&self->committed, value);
    return rc;
}

static void *write_large(void *arg)
{
    writer *self = arg;
    for (int i = 1; self->rc == MW_OK && i <= TRANSACTIONS; i++) self->rc = transact(self, i);
    atomic_store(self->stop, true);
    return NULL;
}

static void *write_small(void *arg)
{
    writer *self = arg;
    for (int64_t i = 0; self->rc == MW_OK && !atomic_load(self->stop); i++) {
        self->rc = engine_try(self->db, OTHER + i % 8, "other", MW_TXN_LIGHT, &self->err);
    }
    return NULL;
}

/* All ids of the large writer have one value, not older than what had been acknowledged. */
static void read_once(mw_db *db, writer *large)
{
    int least = atomic_load(&large->committed);
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor;
    int64_t rows = 0;
    int64_t found = 0;
    long value = -1;
    assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
    assert_int_equal(mw_cursor_first(cursor, NULL), MW_OK);
    for (; mw_cursor_valid(cursor); rows++) {
        mw_value words;
        char text[32];
        assert_int_equal(mw_cursor_column(cursor, 0, &words, NULL), MW_OK);
        assert_true(words.bytes.size < sizeof text);
        memcpy(text, words.bytes.data, words.bytes.size);
        text[words.bytes.size] = 0;
        if (strcmp(text, "other") != 0) {
            if (value < 0) value = strtol(text, NULL, 10);
            assert_int_equal(strtol(text, NULL, 10), value);
            found++;
        }
        assert_int_equal(mw_cursor_next(cursor, NULL), MW_OK);
    }
    assert_int_equal(rows, mw_snapshot_count(snapshot));
    assert_true(found == IDS || (found == 0 && least == 0));
    assert_true(found == 0 || (value >= least && value % 4 != 3));
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
}

/* I2, I3, I7: readers see all of a large transaction or nothing, whatever comes of it. */
static void readers_see_whole_transactions_only(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = engine_options();
    options.background = true;
    options.memtable_bytes = 2000;
    options.merge_generations = 4;
    mw_db *db = engine_open(world, &options);
    atomic_bool stop = false;
    writer large = {.db = db, .stop = &stop};
    writer small = {.db = db, .stop = &stop};
    assert_int_equal(pthread_create(&large.thread, NULL, write_large, &large), 0);
    assert_int_equal(pthread_create(&small.thread, NULL, write_small, &small), 0);
    while (!atomic_load(&stop)) read_once(db, &large);
    pthread_join(large.thread, NULL);
    pthread_join(small.thread, NULL);
    if (large.rc != MW_OK) fail_msg("%s", large.err.text);
    if (small.rc != MW_OK) fail_msg("%s", small.err.text);
    read_once(db, &large);
    assert_int_equal(atomic_load(&large.committed), TRANSACTIONS);
    assert_true(engine_figure(db, "flushes") > 2);
    engine_close(db);
    db = engine_open(world, &options);
    read_once(db, &large);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_whole_transactions_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
