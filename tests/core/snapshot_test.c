/* snapshot_test.c: a snapshot is one moment, whatever happens meanwhile; a cursor reads it in every
** way. */
#include "snapshot.h"

#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static mw_cursor *open_cursor(mw_snapshot *snapshot)
{
    mw_cursor *cursor = NULL;
    assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
    return cursor;
}

/* Id that the cursor stands on, -1: none. */
static int64_t id_of(const mw_cursor *cursor)
{
    return mw_cursor_valid(cursor) ? mw_key_get_integer(mw_cursor_key(cursor).data) : -1;
}

/* ---- one moment ------------------------------------------------------------------------------ */

/* C33, C35, I13: three rows are read; others insert a smaller and a larger id, change and delete
** rows, flush and merge; the scan goes on over exactly what was there at its start. A second cursor
** with look-ups in between sees the same. */
static void a_scan_sees_the_moment_of_its_start(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 10, 20, "old");
    engine_flush(db);
    engine_put(db, 12, "memory");
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *scan = open_cursor(snapshot);
    mw_cursor *second = open_cursor(snapshot);
    assert_int_equal(mw_cursor_first(scan, NULL), MW_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(mw_cursor_next(scan, NULL), MW_OK);
    assert_int_equal(id_of(scan), 12);
    engine_put(db, 1, "smaller");
    engine_put(db, 99, "larger");
    engine_put(db, 15, "changed");
    engine_delete(db, 16);
    engine_flush(db);
    engine_merge(db, 0);
    engine_delete(db, 17);
    for (int64_t id = 12; id < 30; id++) {
        uint8_t key[8];
        assert_int_equal(id_of(scan), id);
        assert_int_equal(mw_cursor_find(second, engine_key(id, key), NULL), MW_OK);
        assert_int_equal(id_of(second), id);
        assert_int_equal(mw_cursor_next(scan, NULL), MW_OK);
    }
    assert_int_equal(id_of(scan), -1);
    mw_cursor_close(scan);
    mw_cursor_close(second);
    const char *rows = engine_read(snapshot);
    assert_non_null(strstr(rows, "12=memory 13=old13 14=old14 15=old15 16=old16 17=old17"));
    assert_int_equal(mw_snapshot_count(snapshot), 20);
    mw_snapshot_release(snapshot);
    assert_int_equal(engine_count(db), 20);
    engine_close(db);
    engine_end(world);
}

/* L06, I3: nothing of a commit that is held, or that fails in the end, is ever seen. */
static void an_undecided_commit_is_not_seen(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        engine_call put = {
            .run = engine_run_put, .db = db, .id = 1, .words = "A", .kind = MW_TXN_LIGHT};
        int hold = sim_hold(world, SIM_WRITE, "wal-");
        engine_start(&put);
        assert_true(sim_wait_held(world, hold));
        mw_snapshot *during = engine_snapshot(db);
        assert_string_equal(engine_read(during), "1=a");
        if (fails) sim_fail_named(world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
        sim_release(world, hold);
        assert_int_equal(engine_wait(&put), fails ? MW_PERSISTENCE : MW_OK);
        assert_string_equal(engine_read(during), "1=a");
        mw_snapshot_release(during);
        assert_string_equal(engine_rows(db), fails ? "1=a" : "1=A");
        assert_int_equal(mw_db_close(db, NULL), fails ? MW_PERSISTENCE : MW_OK);
        engine_end(world);
    }
}

/* L21, C28: the same id in the base, a generation, a frozen and the active memtable and in a
** transaction. At each stage the newest counts, whichever way it is read (engine_read reads in all
** of them). */
static void the_newest_version_of_an_id_counts(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "base");
    engine_put(db, 2, "base");
    engine_put(db, 3, "base");
    engine_flush(db);
    engine_merge(db, 0);
    engine_put(db, 1, "generation");
    engine_delete(db, 2);
    engine_flush(db);
    assert_string_equal(engine_rows(db), "1=generation 3=base");
    engine_put(db, 1, "frozen");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 1, "active");
    engine_txn_put(txn, 2, "back");
    uint64_t generation;
    assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
    assert_string_equal(engine_rows(db), "1=frozen 3=base");
    engine_commit(txn, MW_TXN_FULL);
    assert_int_equal(engine_figure(db, "memtables"), 2);
    assert_string_equal(engine_rows(db), "1=active 2=back 3=base");
    txn = engine_begin(db);
    engine_txn_put(txn, 1, "mine");
    engine_txn_delete(txn, 3);
    assert_string_equal(engine_txn_rows(db, txn), "1=mine 2=back");
    assert_string_equal(engine_rows(db), "1=active 2=back 3=base");
    engine_rollback(txn);
    engine_close(db);
    engine_end(world);
}

/* ---- a transaction's own changes ------------------------------------------------------------- */

/* I13: a statement never meets what its own transaction writes after it began. */
static void later_changes_of_the_transaction_are_not_met(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 3, "x");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "mine");
    mw_snapshot *snapshot = NULL;
    assert_int_equal(mw_snapshot_take(db, txn, &snapshot, NULL), MW_OK);
    mw_cursor *scan = open_cursor(snapshot);
    int met = 0;
    assert_int_equal(mw_cursor_first(scan, NULL), MW_OK);
    for (; mw_cursor_valid(scan); met++) { /* INSERT INTO t SELECT id + 100 FROM t; DELETE FROM t */
        engine_txn_put(txn, id_of(scan) + 100, "copy");
        engine_txn_delete(txn, id_of(scan));
        assert_int_equal(mw_cursor_next(scan, NULL), MW_OK);
    }
    assert_int_equal(met, 3);
    mw_cursor_close(scan);
    assert_string_equal(engine_read(snapshot), "1=x1 2=mine 3=x3");
    mw_snapshot_release(snapshot);
    assert_string_equal(engine_txn_rows(db, txn), "101=copy 102=copy 103=copy");
    engine_commit(txn, MW_TXN_LIGHT);
    engine_close(db);
    engine_end(world);
}

/* I13: back to a savepoint while cursors are open: what was taken before still shows its moment,
** the cursor in the middle of it goes on, and new changes are not met. */
static void a_savepoint_undone_does_not_move_an_open_cursor(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 6, "x");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "kept");
    uint64_t mark = engine_mark(txn);
    engine_txn_put(txn, 3, "undone");
    engine_txn_delete(txn, 4);
    engine_txn_put(txn, 9, "undone");
    mw_snapshot *snapshot = NULL;
    assert_int_equal(mw_snapshot_take(db, txn, &snapshot, NULL), MW_OK);
    mw_cursor *scan = open_cursor(snapshot);
    assert_int_equal(mw_cursor_first(scan, NULL), MW_OK);
    assert_int_equal(mw_cursor_next(scan, NULL), MW_OK);
    assert_int_equal(id_of(scan), 2);
    assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
    engine_txn_put(txn, 5, "later");
    static const int64_t ids[] = {3, 5, 6, 9, -1};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_int_equal(mw_cursor_next(scan, NULL), MW_OK);
        assert_int_equal(id_of(scan), ids[i]);
    }
    mw_cursor_close(scan);
    assert_string_equal(engine_read(snapshot), "1=x1 2=kept 3=undone 5=x5 6=x6 9=undone");
    assert_string_equal(engine_txn_rows(db, txn), "1=x1 2=kept 3=x3 4=x4 5=later 6=x6");
    assert_int_equal(mw_txn_undo(txn, 0, NULL), MW_OK);
    assert_string_equal(engine_read(snapshot), "1=x1 2=kept 3=undone 5=x5 6=x6 9=undone");
    assert_string_equal(engine_txn_rows(db, txn), "1=x1 2=x2 3=x3 4=x4 5=x5 6=x6");
    mw_snapshot_release(snapshot);
    engine_txn_put(txn, 7, "new");
    engine_commit(txn, MW_TXN_LIGHT);
    assert_string_equal(engine_rows(db), "1=x1 2=x2 3=x3 4=x4 5=x5 6=x6 7=new");
    engine_close(db);
    engine_end(world);
}

/* The transaction ends while a snapshot of it lives: by a commit, or by a rollback. */
static void a_snapshot_outlives_its_transaction(void **state)
{
    (void)state;
    for (int commits = 0; commits < 2; commits++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, 2, "mine");
        mw_snapshot *snapshot = NULL;
        assert_int_equal(mw_snapshot_take(db, txn, &snapshot, NULL), MW_OK);
        assert_ptr_equal(mw_snapshot_ref(snapshot), snapshot);
        if (commits)
            engine_commit(txn, MW_TXN_LIGHT);
        else
            engine_rollback(txn);
        engine_put(db, 1, "A");
        engine_flush(db);
        engine_merge(db, 0);
        assert_string_equal(engine_read(snapshot), "1=a 2=mine");
        mw_snapshot_release(snapshot);
        assert_string_equal(engine_read(snapshot), "1=a 2=mine"); /* one reference is left */
        mw_snapshot_release(snapshot);
        assert_string_equal(engine_rows(db), commits ? "1=A 2=mine" : "1=A");
        engine_close(db);
        engine_end(world);
    }
}

/* A writer's snapshot has the queued rows of others (else it would lose their update), a reader's
** has not. */
static void a_writer_sees_queued_rows_and_a_reader_does_not(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_call put = {
        .run = engine_run_put, .db = db, .id = 1, .words = "queued", .kind = MW_TXN_LIGHT};
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    engine_start(&put);
    assert_true(sim_wait_held(world, hold));
    mw_txn *txn = engine_begin(db);
    assert_string_equal(engine_txn_rows(db, txn), "1=queued");
    assert_string_equal(engine_rows(db), "1=a");
    engine_txn_put(txn, 2, "b");
    assert_string_equal(engine_txn_rows(db, txn), "1=queued 2=b");
    sim_release(world, hold);
    assert_int_equal(engine_wait(&put), MW_OK);
    engine_commit(txn, MW_TXN_LIGHT);
    assert_string_equal(engine_rows(db), "1=queued 2=b");
    engine_close(db);
    engine_end(world);
}

/* ---- every way to read ----------------------------------------------------------------------- */

/* Even ids 2..40 lie spread over base, two generations, a frozen and the active memtable; those
** that divide by 6 are deleted, in another part each. Every seek is compared with the plain
** answer. */
static mw_db *open_spread(sim *world)
{
    mw_db *db = engine_open(world, NULL);
    uint64_t generation;
    for (int64_t id = 2; id <= 40; id += 2) engine_put(db, id, id % 4 ? "base" : "old");
    engine_flush(db);
    engine_merge(db, 0);
    for (int64_t id = 4; id <= 40; id += 4) engine_put(db, id, "generation");
    engine_delete(db, 6);
    engine_delete(db, 12);
    engine_flush(db);
    engine_delete(db, 18);
    engine_delete(db, 24);
    engine_flush(db);
    mw_txn *txn = engine_begin(db);
    engine_txn_delete(txn, 30);
    engine_txn_delete(txn, 36);
    engine_txn_put(txn, 40, "active");
    assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
    engine_commit(txn, MW_TXN_LIGHT);
    return db;
}

static bool lives(int64_t id) { return id >= 2 && id <= 40 && id % 2 == 0 && id % 6 != 0; }

static int64_t at_or_above(int64_t id)
{
    while (id <= 40 && !lives(id)) id++;
    return id <= 40 ? id : -1;
}

static int64_t at_or_below(int64_t id)
{
    while (id >= 2 && !lives(id)) id--;
    return id >= 2 ? id : -1;
}

static void every_seek_finds_its_neighbour(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_spread(world);
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor = open_cursor(snapshot);
    uint8_t key[8];
    assert_false(mw_cursor_valid(cursor));
    for (int64_t id = -3; id < 45; id++) { /* one cursor, turned around again and again */
        assert_int_equal(mw_cursor_seek(cursor, engine_key(id, key), NULL), MW_OK);
        assert_int_equal(id_of(cursor), at_or_above(id));
        if (mw_cursor_valid(cursor)) {
            int64_t next = at_or_above(id_of(cursor) + 1);
            assert_int_equal(mw_cursor_next(cursor, NULL), MW_OK);
            assert_int_equal(id_of(cursor), next);
        }
        assert_int_equal(mw_cursor_seek_back(cursor, engine_key(id, key), NULL), MW_OK);
        assert_int_equal(id_of(cursor), at_or_below(id));
        if (mw_cursor_valid(cursor)) {
            int64_t previous = at_or_below(id_of(cursor) - 1);
            assert_int_equal(mw_cursor_prev(cursor, NULL), MW_OK);
            assert_int_equal(id_of(cursor), previous);
        }
        assert_int_equal(mw_cursor_find(cursor, engine_key(id, key), NULL), MW_OK);
        assert_int_equal(id_of(cursor), lives(id) ? id : -1);
        if (mw_cursor_valid(cursor)) { /* behind a find there is no other id */
            assert_int_equal(mw_cursor_next(cursor, NULL), MW_OK);
            assert_false(mw_cursor_valid(cursor));
        }
    }
    assert_int_equal(mw_cursor_first(cursor, NULL), MW_OK);
    assert_int_equal(id_of(cursor), 2);
    assert_int_equal(mw_cursor_last(cursor, NULL), MW_OK);
    assert_int_equal(id_of(cursor), 40);
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
    assert_int_equal(engine_count(db), 14);
    engine_close(db);
    engine_end(world);
}

/* C28, I7: everywhere, and each also after a reopen, all ways of counting agree (engine_read
** compares the forward scan, the backward scan, the look-up of each id and the maintained
** count). */
static void all_ways_of_counting_agree_everywhere(void **state)
{
    (void)state;
    static const char rows[] =
        "2=base 4=generation 8=generation 10=base 14=base 16=generation 20=generation "
        "22=base 26=base 28=generation 32=generation 34=base 38=base 40=active";
    sim *world = engine_world();
    mw_db *db = open_spread(world);
    for (int place = 0; place < 3; place++) {
        if (place == 1) engine_flush(db);
        if (place == 2) engine_merge(db, 0);
        assert_string_equal(engine_rows(db), rows);
        engine_close(db);
        db = engine_open(world, NULL);
        assert_string_equal(engine_rows(db), rows);
        assert_int_equal(engine_figure(db, "rows"), 14);
    }
    assert_int_equal(engine_figure(db, "physical_rows"), 14);
    engine_close(db);
    engine_end(world);
}

static void an_empty_store_reads_as_empty(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor = open_cursor(snapshot);
    uint8_t key[8];
    assert_int_equal(mw_cursor_first(cursor, NULL), MW_OK);
    assert_false(mw_cursor_valid(cursor));
    assert_int_equal(mw_cursor_last(cursor, NULL), MW_OK);
    assert_false(mw_cursor_valid(cursor));
    assert_int_equal(mw_cursor_seek(cursor, engine_key(0, key), NULL), MW_OK);
    assert_false(mw_cursor_valid(cursor));
    assert_int_equal(mw_cursor_find(cursor, engine_key(0, key), NULL), MW_OK);
    assert_false(mw_cursor_valid(cursor));
    mw_cursor_close(cursor);
    mw_cursor_close(NULL);
    mw_snapshot_release(snapshot);
    mw_snapshot_release(NULL);
    engine_close(db);
    engine_end(world);
}

/* A whole row, of memory and of a table file, is the same bytes (compensation puts rows back by
** it). */
static void a_row_is_the_same_bytes_everywhere(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_buf rows[2];
    engine_put(db, 1, "some words");
    for (int i = 0; i < 2; i++) {
        uint8_t key[8];
        mw_snapshot *snapshot = engine_snapshot(db);
        mw_cursor *cursor = open_cursor(snapshot);
        mw_buf_init(&rows[i], mw_env_posix());
        assert_int_equal(mw_cursor_find(cursor, engine_key(1, key), NULL), MW_OK);
        assert_int_equal(mw_cursor_row(cursor, &rows[i], NULL), MW_OK);
        mw_cursor_close(cursor);
        mw_snapshot_release(snapshot);
        engine_flush(db);
    }
    assert_true(mw_slice_equal(mw_buf_slice(&rows[0]), mw_buf_slice(&rows[1])));
    mw_buf_free(&rows[0]);
    mw_buf_free(&rows[1]);
    engine_close(db);
    engine_end(world);
}

/* ---- files that are gone --------------------------------------------------------------------- */

/* C34, L36, I11: a snapshot reads on in files that a merge has folded, opened before or not. When it
** goes they go, and the figures tell. */
static void a_snapshot_keeps_its_files(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 1; id < 5; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
    }
    assert_int_equal(engine_figure(db, "snapshots"), 0);
    mw_snapshot *snapshot = engine_snapshot(db);
    assert_int_equal(engine_figure(db, "snapshots"), 1);
    engine_merge(db, 0);
    assert_int_equal(engine_file_count(world, "table-"), 5); /* four inputs and the base */
    assert_string_equal(engine_read(snapshot), "1=x 2=x 3=x 4=x");
    mw_table_pool_shrink(engine_store(db)->tables);
    assert_string_equal(engine_read(snapshot), "1=x 2=x 3=x 4=x");
    mw_snapshot_release(snapshot);
    assert_int_equal(engine_file_count(world, "table-"), 1);
    assert_string_equal(engine_rows(db), "1=x 2=x 3=x 4=x");
    assert_int_equal(engine_figure(db, "open_files"), 1); /* the base */
    assert_int_equal(engine_figure(db, "snapshots"), 0);
    engine_close(db);
    engine_end(world);
}

/* ---- trouble --------------------------------------------------------------------------------- */

/* Scans everything; the answer is that of the first call that failed. *count: rows met. */
static mw_rc scan_all(mw_db *db, int64_t *count, mw_err *err)
{
    mw_snapshot *snapshot;
    mw_cursor *cursor;
    mw_value value;
    *count = 0;
    mw_rc rc = mw_snapshot_take(db, NULL, &snapshot, err);
    if (rc != MW_OK) return rc;
    rc = mw_cursor_open(snapshot, &cursor, err);
    if (rc == MW_OK) {
        rc = mw_cursor_first(cursor, err);
        for (; rc == MW_OK && mw_cursor_valid(cursor); ++*count) {
            rc = mw_cursor_column(cursor, 0, &value, err);
            if (rc == MW_OK) rc = mw_cursor_next(cursor, err);
        }
        mw_cursor_close(cursor);
    }
    mw_snapshot_release(snapshot);
    return rc;
}

/* C24: id 9 old in the base, new in the memtable. Each allocation, or each read, of a scan in turn
** fails: an error, or all rows, each once. */
static void expect_all_or_an_error(sim_op op, int sys, mw_rc wanted)
{
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 20, "old");
    engine_flush(db);
    engine_merge(db, 0);
    engine_put(db, 9, "new");
    engine_close(db);
    uint64_t hits = 0;
    uint64_t n = 1;
    for (bool met = true; met; n++) {
        int64_t count;
        db = engine_open(world, NULL); /* a fresh cache */
        hits = sim_fail_hits(world);
        sim_fail(world, op, n, sys, false);
        mw_rc rc = scan_all(db, &count, NULL);
        met = sim_fail_hits(world) > hits;
        sim_fail_clear(world);
        assert_true(rc == MW_OK || (met && rc == wanted));
        if (rc == MW_OK) assert_int_equal(count, 20);
        assert_int_equal(engine_count(db), 20); /* and nothing was spoilt */
        assert_string_equal(engine_find(db, 9), "new");
        engine_close(db);
    }
    assert_true(n > 2);
    engine_end(world);
}

static void a_scan_in_trouble_gives_an_error_or_all_rows(void **state)
{
    (void)state;
    expect_all_or_an_error(SIM_ALLOC, ENOMEM, MW_NOMEM);
    expect_all_or_an_error(SIM_READ, EIO, MW_IO);
}

/* I9: a bit of any byte of a table file: an error that names the file, or the right rows; never
** others. */
static void a_damaged_table_file_gives_an_error_or_the_right_rows(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 30, "words");
    engine_flush(db);
    engine_close(db);
    assert_true(engine_file(world, "table-", 0, path));
    int64_t bytes = sim_file_size(world, path);
    uint32_t refused = 0;
    for (int64_t byte = 0; byte < bytes; byte++) {
        uint64_t bit = (uint64_t)(byte * 8 + byte % 8);
        mw_err err = {0};
        int64_t count = 0;
        sim_file_flip(world, path, bit);
        mw_rc rc = engine_try_open(world, NULL, &db, &err);
        bool open = rc == MW_OK;
        if (open) rc = scan_all(db, &count, &err);
        if (rc == MW_OK) {
            assert_int_equal(count, 30);
        } else {
            assert_int_equal(rc, MW_CORRUPT);
            assert_non_null(strstr(err.text, path + 6));
            refused++;
        }
        if (open) engine_close(db);
        sim_file_flip(world, path, bit);
    }
    assert_true(refused > bytes / 2);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), 30);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_sees_the_moment_of_its_start),
        cmocka_unit_test(an_undecided_commit_is_not_seen),
        cmocka_unit_test(the_newest_version_of_an_id_counts),
        cmocka_unit_test(later_changes_of_the_transaction_are_not_met),
        cmocka_unit_test(a_savepoint_undone_does_not_move_an_open_cursor),
        cmocka_unit_test(a_snapshot_outlives_its_transaction),
        cmocka_unit_test(a_writer_sees_queued_rows_and_a_reader_does_not),
        cmocka_unit_test(every_seek_finds_its_neighbour),
        cmocka_unit_test(all_ways_of_counting_agree_everywhere),
        cmocka_unit_test(an_empty_store_reads_as_empty),
        cmocka_unit_test(a_row_is_the_same_bytes_everywhere),
        cmocka_unit_test(a_snapshot_keeps_its_files),
        cmocka_unit_test(a_scan_in_trouble_gives_an_error_or_all_rows),
        cmocka_unit_test(a_damaged_table_file_gives_an_error_or_the_right_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
