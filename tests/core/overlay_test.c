/* overlay_test.c: transactions that outgrow their memory: what they have spilled reads, undoes,
** commits, rolls back and recovers as what lies in memory does; nothing is written twice. */
#include "overlay.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { TINY_BYTES = 600 }; /* some five changes */

static mw_options tiny_options(void)
{
    mw_options options = engine_options();
    options.memtable_bytes = TINY_BYTES;
    return options;
}

static mw_db *open_tiny(sim *world)
{
    mw_options options = tiny_options();
    return engine_open(world, &options);
}

static uint32_t table_files(sim *world) { return engine_file_count(world, "table-"); }

/* Puts ids first .. last, the words of each are prefix and id. */
static void put_range(mw_txn *txn, int64_t first, int64_t last, const char *prefix)
{
    char words[32];
    for (int64_t id = first; id <= last; id++) {
        snprintf(words, sizeof words, "%s%lld", prefix, (long long)id);
        engine_txn_put(txn, id, words);
    }
}

/* The rows that put_range has made, for one read. */
static const char *range(int64_t first, int64_t last, const char *prefix)
{
    static char text[4096];
    size_t used = 0;
    text[0] = 0;
    for (int64_t id = first; id <= last; id++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld=%s%lld", used ? " " : "",
                                 (long long)id, prefix, (long long)id);
    }
    return text;
}

/* The machine's process is killed and another one opens the store. */
static mw_db *kill_and_open(mw_db *db, sim **world)
{
    sim *after = sim_kill(*world);
    mw_db_abandon(db);
    engine_end(*world);
    *world = after;
    return open_tiny(after);
}

/* Do these words stand in the log? */
static bool log_holds(sim *world, const char *words)
{
    static uint8_t bytes[1 << 20];
    char path[ENGINE_PATH_BYTES];
    bool found = false;
    for (uint32_t i = 0; engine_file(world, "wal-", i, path); i++) {
        size_t size = sim_file_read(world, path, 0, bytes, sizeof bytes);
        found = found || memmem(bytes, size, words, strlen(words));
    }
    return found;
}

/* ---- what is written ------------------------------------------------------------------------- */

/* The files of a transaction are those that the flush lists: neither the log nor the flush writes
** its rows again. */
static void a_large_transaction_is_written_once(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 60, "v");
    uint32_t spilled = table_files(world);
    assert_true(spilled >= 5);
    assert_string_equal(engine_txn_rows(db, txn), range(1, 60, "v"));
    assert_string_equal(engine_rows(db), "");
    engine_commit(txn, MW_TXN_LIGHT);
    uint32_t committed = table_files(world);
    assert_true(committed <= spilled + 1);
    assert_string_equal(engine_rows(db), range(1, 60, "v"));
    assert_int_equal(engine_figure(db, "files"), committed);
    assert_int_equal(engine_figure(db, "physical_rows"), 60);
    assert_false(log_holds(world, "v37"));
    int64_t bytes = engine_figure(db, "file_bytes");
    engine_flush(db);
    assert_int_equal(table_files(world), committed);
    assert_int_equal(engine_figure(db, "file_bytes"), bytes);
    /* The rows once, and the entry that names their files. */
    int64_t written = engine_figure(db, "bytes_written");
    assert_true(written >= bytes && written < bytes + 1024);
    assert_int_equal(engine_figure(db, "physical_rows"), 60);
    assert_true(engine_figure(db, "bytes_logical") > 60 * 8);
    assert_string_equal(engine_rows(db), range(1, 60, "v"));
    engine_merge(db, 0);
    assert_string_equal(engine_rows(db), range(1, 60, "v"));
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* C27 I7: counts, kinds of changes, and what lies where, through commit, flush, merge, reopen. */
static void spilled_changes_do_what_others_do(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    engine_fill(db, 1, 40, "old");
    engine_flush(db);
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 1; id <= 20; id++) engine_txn_delete(txn, id); /* deletes only */
    assert_int_equal(mw_txn_count_delta(txn), -20);
    put_range(txn, 15, 25, "new");
    assert_int_equal(mw_txn_count_delta(txn), -14);
    put_range(txn, 41, 45, "new");
    for (int64_t id = 44; id <= 45; id++) engine_txn_delete(txn, id);
    for (int64_t id = 44; id <= 45; id++) { /* it is gone, also where a spill lies between */
        bool deleted = true;
        uint8_t key[8];
        assert_int_equal(mw_txn_delete(txn, engine_key(id, key), &deleted, NULL), MW_OK);
        assert_false(deleted);
    }
    assert_int_equal(mw_txn_count_delta(txn), -11);
    char expected[2048];
    snprintf(expected, sizeof expected, "%s", range(15, 25, "new"));
    snprintf(expected + strlen(expected), 1024, " %s", range(26, 40, "old"));
    snprintf(expected + strlen(expected), 512, " %s", range(41, 43, "new"));
    assert_string_equal(engine_txn_rows(db, txn), expected);
    engine_commit(txn, MW_TXN_FULL);
    assert_string_equal(engine_rows(db), expected);
    engine_put(db, 30, "later"); /* behind the files, in the same store */
    engine_put(db, 30, "old30");
    assert_string_equal(engine_rows(db), expected);
    db = kill_and_open(db, &world);
    assert_string_equal(engine_rows(db), expected);
    engine_flush(db);
    assert_string_equal(engine_rows(db), expected);
    engine_merge(db, 0);
    assert_string_equal(engine_rows(db), expected);
    assert_int_equal(engine_figure(db, "physical_rows"), 29);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* A transaction that only deletes is as large as one that puts. */
static void a_spilled_transaction_may_consist_of_deletes(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    engine_fill(db, 1, 50, "v");
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 1; id <= 50; id++) engine_txn_delete(txn, id);
    assert_string_equal(engine_txn_rows(db, txn), "");
    engine_commit(txn, MW_TXN_LIGHT);
    assert_string_equal(engine_rows(db), "");
    db = kill_and_open(db, &world);
    assert_string_equal(engine_rows(db), "");
    engine_flush(db);
    engine_merge(db, 0);
    assert_int_equal(engine_figure(db, "physical_rows"), 0);
    engine_close(db);
    engine_end(world);
}

/* C86: rows that are each larger than a memtable, some twice. */
static void rows_may_be_larger_than_a_memtable(void **state)
{
    (void)state;
    enum { ROW_BYTES = 3 << 20 };
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    mw_buf row;
    uint8_t key[8];
    bool replaced;
    char *words = malloc(ROW_BYTES);
    assert_non_null(words);
    memset(words, 'w', ROW_BYTES);
    mw_buf_init(&row, sim_env(world));
    mw_value value = {.type = MW_TEXT, .bytes = mw_slice_of(words, ROW_BYTES)};
    mw_row_encode(&row, &value, 1);
    for (int i = 0; i < 8; i++) {
        mw_slice id = engine_key(i % 6, key);
        assert_int_equal(mw_txn_put(txn, id, mw_buf_slice(&row), &replaced, NULL), MW_OK);
        assert_int_equal(replaced, i >= 6);
    }
    mw_buf_free(&row);
    free(words);
    engine_commit(txn, MW_TXN_LIGHT);
    assert_int_equal(engine_count(db), 6);
    db = kill_and_open(db, &world);
    assert_int_equal(engine_count(db), 6);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Small memtables make small files; a large transaction's grow with their number. */
static void the_files_of_a_transaction_grow_with_their_number(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 1000, "v");
    uint64_t early = engine_store(db)->table_number;
    put_range(txn, 1001, 9000, "v");
    uint64_t all = engine_store(db)->table_number;
    assert_true(early > 100);
    assert_true(all < early * 6);
    engine_commit(txn, MW_TXN_FULL);
    assert_int_equal(engine_count(db), 9000);
    engine_close(db);
    engine_end(world);
}

/* C86: the limit is named, and what to do; what was there stays. The list of files is made up: one
** file, as often as the limit says. */
static void more_files_than_the_limit_are_refused(void **state)
{
    (void)state;
    enum { LIMIT = 16384 };
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *turn = engine_begin(db);
    mw_store *store = engine_store(db);
    uint8_t key[8];
    mw_log_op op = {true, engine_key(1, key), {NULL, 0}};
    mw_overlay overlay;
    mw_err err = {0};
    assert_int_equal(mw_overlay_init(&overlay, store, 0, NULL), MW_OK);
    assert_int_equal(mw_overlay_add(&overlay, &op, 0, NULL), MW_OK);
    assert_int_equal(mw_overlay_spill(&overlay, NULL), MW_OK);
    mw_run **same = malloc(LIMIT * sizeof(mw_run *));
    assert_non_null(same);
    for (int i = 0; i < LIMIT; i++) same[i] = overlay.runs->runs[0];
    mw_runs *many = NULL;
    assert_int_equal(mw_runs_create(store->env, NULL, 0, same, LIMIT, &many, NULL), MW_OK);
    mw_runs_unref(overlay.runs);
    overlay.runs = many;
    assert_int_equal(mw_overlay_add(&overlay, &op, 0, NULL), MW_OK);
    assert_int_equal(mw_overlay_spill(&overlay, &err), MW_TOOBIG);
    assert_string_equal(err.text, "the transaction has filled 16384 table files: commit in smaller "
                                  "parts, or with a larger memtable");
    assert_int_equal(overlay.change_count, 1);
    mw_overlay_free(&overlay, true);
    free(same);
    engine_rollback(turn);
    assert_int_equal(table_files(world), 0);
    engine_close(db);
    engine_end(world);
}

/* ---- taking back ----------------------------------------------------------------------------- */

/* Rolled back: no file is left, the log has not grown, others never saw anything. */
static void rolling_back_removes_the_files(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    engine_put(db, 7, "seven");
    int64_t position = engine_figure(db, "wal_position");
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 40, "v");
    assert_true(table_files(world) > 2);
    engine_rollback(txn);
    assert_int_equal(table_files(world), 0);
    assert_int_equal(engine_figure(db, "wal_position"), position);
    assert_string_equal(engine_rows(db), "7=seven");
    engine_put(db, 8, "eight");
    assert_string_equal(engine_rows(db), "7=seven 8=eight");
    engine_close(db);
    engine_end(world);
}

/* Undone runs go, but for those that somebody reads. */
static void undoing_drops_the_runs_behind_the_mark(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 10, "a");
    uint64_t mark = engine_mark(txn);
    put_range(txn, 5, 30, "b");
    mw_snapshot *then = NULL;
    assert_int_equal(mw_snapshot_take(db, txn, &then, NULL), MW_OK);
    char before[1024];
    snprintf(before, sizeof before, "%s", engine_read(then));
    uint32_t files = table_files(world);
    assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
    assert_int_equal(mw_txn_count_delta(txn), 10);
    assert_string_equal(engine_txn_rows(db, txn), range(1, 10, "a"));
    assert_int_equal(table_files(world), files); /* I11 */
    put_range(txn, 5, 30, "c");
    assert_string_equal(engine_read(then), before); /* I13 */
    files = table_files(world);
    mw_snapshot_release(then);
    assert_true(table_files(world) < files);
    assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK); /* the mark can be used again */
    assert_string_equal(engine_txn_rows(db, txn), range(1, 10, "a"));
    assert_int_equal(mw_txn_undo(txn, 0, NULL), MW_OK);
    assert_false(mw_txn_changed(txn));
    assert_int_equal(table_files(world), 0);
    put_range(txn, 1, 20, "d");
    engine_commit(txn, MW_TXN_FULL);
    assert_string_equal(engine_rows(db), range(1, 20, "d"));
    engine_close(db);
    engine_end(world);
}

/* A mark that was released cannot be undone to once its surroundings lie in one file. */
static void a_released_mark_is_refused(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 2, "a");
    uint64_t outer = engine_mark(txn);
    engine_txn_put(txn, 3, "a3");
    uint64_t inner = engine_mark(txn);
    mw_txn_release(txn, outer);
    put_range(txn, 4, 20, "a");
    mw_err err = {0};
    assert_int_equal(mw_txn_undo(txn, inner, &err), MW_MISUSE);
    assert_string_equal(err.text, "the savepoint was released before");
    assert_string_equal(engine_txn_rows(db, txn), range(1, 20, "a"));
    assert_int_equal(mw_txn_undo(txn, outer, NULL), MW_OK);
    assert_string_equal(engine_txn_rows(db, txn), range(1, 2, "a"));
    engine_rollback(txn);
    engine_close(db);
    engine_end(world);
}

/* I2: prepared, taken back, gone on, prepared again: the same files are adopted once more. Taken
** back for good they are gone with their generation. Killed in between, everything is as before. */
static void a_spilled_prepare_can_be_taken_back(void **state)
{
    (void)state;
    for (int end = 0; end < 4; end++) {
        sim *world = engine_world();
        mw_db *db = open_tiny(world);
        engine_put(db, 100, "there");
        mw_txn *txn = engine_begin(db);
        put_range(txn, 1, 20, "v");
        uint64_t mark = engine_mark(txn);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
            assert_false(mw_txn_published(txn)); /* it keeps the turn */
            assert_string_equal(engine_rows(db), "100=there");
            assert_int_equal(mw_txn_unprepare(txn, NULL), MW_OK);
            assert_string_equal(engine_rows(db), "100=there");
            put_range(txn, 1, 30, "w");
            assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
            char expected[1024];
            snprintf(expected, sizeof expected, "%s 100=there", range(1, 20, "v"));
            assert_string_equal(engine_txn_rows(db, txn), expected);
        }
        if (end == 0) put_range(txn, 10, 20, "v");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
        if (end < 2) assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
        if (end >= 2) engine_rollback(txn);
        char expected[1024] = "100=there";
        if (end < 2) snprintf(expected, sizeof expected, "%s 100=there", range(1, 20, "v"));
        assert_string_equal(engine_rows(db), expected);
        if (end == 3) { /* what comes behind an aborted one is not taken for it */
            engine_put(db, 100, "x");
            engine_put(db, 100, "there");
        }
        if (end != 1) db = kill_and_open(db, &world);
        assert_string_equal(engine_rows(db), expected);
        assert_string_equal(engine_check(db), "ok");
        engine_put(db, 101, "more");
        engine_flush(db);
        engine_merge(db, 0);
        assert_int_equal(table_files(world), 1);
        engine_close(db);
        engine_end(world);
    }
}

/* Light, then taken back: what it had replaced is larger than a memtable, so the entry that puts it
** back is a large one. Other writers' rows stay. */
static void compensate_largely(bool kill)
{
    sim *world = engine_world();
    mw_options options = engine_options();
    mw_db *db = engine_open(world, &options);
    engine_fill(db, 1, 40, "old");
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 1; id <= 40; id++) engine_txn_delete(txn, id);
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
    assert_true(mw_txn_published(txn));
    assert_string_equal(engine_rows(db), "");
    engine_store(db)->options.memtable_bytes = TINY_BYTES;
    engine_put(db, 41, "old41");
    engine_rollback(txn);
    assert_true(table_files(world) > 2);
    assert_string_equal(engine_rows(db), range(1, 41, "old"));
    if (kill) {
        db = kill_and_open(db, &world);
    } else { /* which removes what is not needed any more */
        engine_close(db);
        db = open_tiny(world);
    }
    assert_string_equal(engine_rows(db), range(1, 41, "old"));
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

static void a_compensation_may_outgrow_memory(void **state)
{
    (void)state;
    compensate_largely(true);
    compensate_largely(false);
}

/* A light entry is taken back after a large transaction has written the same id: the files of that
** one, listed or not, are newer. */
static void compensation_leaves_alone_what_was_adopted_since(void **state)
{
    (void)state;
    for (int flushed = 0; flushed < 2; flushed++) {
        sim *world = engine_world();
        mw_db *db = open_tiny(world);
        engine_fill(db, 1, 2, "old");
        mw_txn *txn = engine_begin(db);
        put_range(txn, 1, 3, "mine");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_LIGHT, NULL), MW_OK);
        assert_true(mw_txn_published(txn));
        mw_txn *large = engine_begin(db);
        put_range(large, 2, 30, "new");
        engine_commit(large, MW_TXN_LIGHT);
        assert_true(mw_runs_count(mw_generation_runs(engine_store(db)->version->generations[1],
                                                     UINT64_MAX)) > 2);
        if (flushed) engine_flush(db);
        engine_rollback(txn);
        char expected[1024];
        snprintf(expected, sizeof expected, "1=old1 %s", range(2, 30, "new"));
        assert_string_equal(engine_rows(db), expected);
        engine_flush(db);
        engine_merge(db, 0);
        assert_string_equal(engine_rows(db), expected);
        assert_string_equal(engine_check(db), "ok");
        engine_close(db);
        engine_end(world);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Each allocation or call of the file system fails once inside a change: that call fails whole,
** what was there stays, the transaction goes on. */
static void a_change_whose_spill_fails_changes_nothing(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_ALLOC,     SIM_OPEN,     SIM_WRITE,
                                 SIM_FILE_SYNC, SIM_DIR_SYNC, SIM_READ};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint64_t n = 1;
        for (bool met = true; met; n++) {
            sim *world = engine_world();
            mw_db *db = open_tiny(world);
            engine_put(db, 50, "v50");
            mw_txn *txn = engine_begin(db);
            put_range(txn, 1, 3, "v");
            uint64_t mark = engine_mark(txn);
            sim_fail(world, ops[i], n, i ? ENOSPC : ENOMEM, false);
            for (int64_t id = 4; id <= 14; id++) {
                char words[32];
                snprintf(words, sizeof words, "v%lld", (long long)id);
                mw_rc rc = engine_txn_try(txn, id, words, NULL);
                assert_true(rc == MW_OK || rc == (i ? MW_FULL : MW_NOMEM));
                assert_int_equal(mw_txn_count_delta(txn), id - (rc == MW_OK ? 0 : 1));
                if (rc != MW_OK) id--;
            }
            met = sim_fail_hits(world) > 0;
            sim_fail_clear(world);
            char expected[512];
            snprintf(expected, sizeof expected, "%s 50=v50", range(1, 14, "v"));
            assert_string_equal(engine_txn_rows(db, txn), expected);
            if (n % 2 == 0) {
                engine_commit(txn, MW_TXN_LIGHT);
                db = kill_and_open(db, &world);
                assert_string_equal(engine_rows(db), expected);
            } else {
                assert_int_equal(mw_txn_undo(txn, mark, NULL), MW_OK);
                snprintf(expected, sizeof expected, "%s 50=v50", range(1, 3, "v"));
                assert_string_equal(engine_txn_rows(db, txn), expected);
                engine_rollback(txn);
                assert_int_equal(table_files(world), 0);
            }
            engine_close(db);
            engine_end(world);
        }
        assert_true(n > 2);
    }
}

/* A full disk: the change that needs room answers FULL, the rows so far are there, a rollback gives
** all room back. */
static void a_full_disk_fails_the_change_and_not_the_transaction(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 20, "v");
    sim_fail_named(world, SIM_WRITE, "table-", 1, ENOSPC, true);
    int64_t id = 21;
    mw_err err = {0};
    for (; engine_txn_try(txn, id, "more", &err) == MW_OK; id++) {
    }
    assert_int_equal(err.rc, MW_FULL);
    assert_int_equal(engine_txn_try(txn, id, "more", NULL), MW_FULL);
    sim_fail_clear(world);
    put_range(txn, 21, 40, "v");
    assert_string_equal(engine_txn_rows(db, txn), range(1, 40, "v"));
    sim_fail_named(world, SIM_WRITE, "table-", 1, ENOSPC, true);
    while (engine_txn_try(txn, id++, "more", NULL) == MW_OK) {
    }
    engine_rollback(txn);
    sim_fail_clear(world);
    assert_int_equal(table_files(world), 0);
    assert_string_equal(engine_rows(db), "");
    engine_close(db);
    engine_end(world);
}

/* I10: what has become of the entry or of its abort is not known: the files stay for whoever replays
** the log, which may name them. */
static void the_files_of_an_unknown_outcome_stay(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_WRITE, SIM_FILE_SYNC};
    for (int i = 0; i < 4; i++) {
        bool abort = i >= 2;
        sim *world = engine_world();
        mw_db *db = open_tiny(world);
        engine_put(db, 100, "there");
        mw_txn *txn = engine_begin(db);
        put_range(txn, 1, 20, "v");
        if (abort) assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
        /* The first call with a new segment's name is for its header. */
        sim_fail_named(world, ops[i % 2], "wal-", abort ? 1 : 2, EIO, false);
        mw_err err = {0};
        if (!abort) assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, &err), MW_PERSISTENCE);
        uint32_t files = table_files(world);
        assert_true(files > 2);
        assert_int_equal(mw_txn_rollback(txn, &err), abort ? MW_PERSISTENCE : MW_OK);
        assert_int_equal(table_files(world), files);
        assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
        assert_int_equal(table_files(world), files);
        db = open_tiny(world);
        /* Of writes that failed nothing is there, of syncs what was written is. */
        bool there = i == 1 || i == 2;
        char expected[512];
        snprintf(expected, sizeof expected, "%s 100=there", range(1, 20, "v"));
        assert_string_equal(engine_rows(db), there ? expected : "100=there");
        assert_string_equal(engine_check(db), "ok");
        engine_put(db, 101, "more");
        assert_int_equal(table_files(world), engine_figure(db, "files"));
        engine_close(db);
        engine_end(world);
    }
}

/* I8: a fenced commit is definitely not applied: its files go with the one who made
** them, since the successor has swept already. */
static void the_files_of_a_fenced_transaction_go(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = tiny_options();
    options.shared = true;
    mw_db *first = engine_open(world, &options);
    engine_put(first, 1, "one");
    mw_txn *txn = engine_begin(first);
    put_range(txn, 1, 20, "v");
    mw_db *second = engine_open(world, &options);
    engine_put(second, 2, "two");
    put_range(txn, 21, 40, "v"); /* spilled by one who does not know it yet */
    mw_err err = {0};
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, &err), MW_FENCED);
    assert_true(table_files(world) > 2);
    engine_rollback(txn);
    assert_int_equal(mw_db_close(first, NULL), MW_FENCED);
    assert_int_equal(table_files(world), 0);
    assert_string_equal(engine_rows(second), "1=one 2=two");
    assert_string_equal(engine_check(second), "ok");
    engine_close(second);
    engine_end(world);
}

/* I14: a writer that has stopped does not fill the disk. */
static void a_stopped_writer_spills_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_store *store = engine_store(db);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 20, "v");
    uint32_t files = table_files(world);
    mw_err cause = {0};
    mw_fail(&cause, MW_PERSISTENCE, "stopped by the test");
    mw_store_lock(store);
    mw_store_stop(store, &cause);
    mw_store_unlock(store);
    mw_err err = {0};
    for (int64_t id = 21; id <= 40 && err.rc == MW_OK; id++) {
        (void)!engine_txn_try(txn, id, "more", &err);
    }
    assert_int_equal(err.rc, MW_PERSISTENCE);
    assert_int_equal(table_files(world), files);
    engine_rollback(txn);
    assert_int_equal(table_files(world), 0);
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* I11: a snapshot that has adopted files keeps them while they are listed, merged and gone for
** others, also where its descriptors were closed meanwhile. */
static void a_reader_keeps_adopted_files(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = tiny_options();
    options.open_files = 1;
    mw_db *db = engine_open(world, &options);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 30, "v");
    engine_commit(txn, MW_TXN_FULL);
    uint32_t files = table_files(world);
    mw_snapshot *snapshot = engine_snapshot(db);
    engine_flush(db);
    for (int64_t id = 1; id <= 30; id++) engine_put(db, id, "w");
    engine_flush(db);
    engine_merge(db, 0);
    assert_string_equal(engine_read(snapshot), range(1, 30, "v"));
    assert_true(table_files(world) > files);
    mw_snapshot_release(snapshot);
    assert_int_equal(table_files(world), 1);
    engine_close(db);
    engine_end(world);
}

/* ---- leftovers and damage -------------------------------------------------------------------- */

/* I11: a process died inside a transaction: its files are removed by the next one. */
static void the_files_of_a_dead_transaction_are_swept(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    engine_put(db, 1, "one");
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 40, "v");
    sim *after = sim_kill(world);
    engine_rollback(txn);
    engine_close(db);
    engine_end(world);
    assert_true(table_files(after) > 2);
    db = open_tiny(after);
    engine_put(db, 2, "two");
    assert_int_equal(table_files(after), 0);
    assert_string_equal(engine_rows(db), "1=one 2=two");
    engine_close(db);
    engine_end(after);
}

/* A store whose log adopts files that no manifest lists yet, closed. */
static sim *adopted_world(uint32_t *files)
{
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 20, "v");
    engine_commit(txn, MW_TXN_LIGHT);
    *files = table_files(world);
    engine_close(db);
    return world;
}

/* I9: each of the files missing, cut short or flipped somewhere in what an opening reads. */
static void damage_of_an_adopted_file_is_named(void **state)
{
    (void)state;
    uint32_t files;
    engine_end(adopted_world(&files));
    assert_true(files > 2);
    for (uint32_t i = 0; i < files; i++) {
        for (int what = 0; what < 4; what++) {
            sim *world = adopted_world(&files);
            char path[ENGINE_PATH_BYTES];
            mw_db *db = NULL;
            mw_err err = {0};
            assert_true(engine_file(world, "table-", i, path));
            int64_t size = sim_file_size(world, path);
            if (what == 0) sim_file_delete(world, path);
            if (what == 1) sim_file_truncate(world, path, (uint64_t)size - 1);
            if (what == 2) sim_file_flip(world, path, (uint64_t)size * 8 - 200); /* the footer */
            if (what == 3) sim_file_flip(world, path, 21 * 8);                   /* the header */
            mw_rc rc = engine_try_open(world, NULL, &db, &err);
            assert_int_equal(rc, MW_CORRUPT);
            assert_non_null(strstr(err.text, strchr(path, '/') + 1));
            engine_end(world);
        }
    }
}

/* A file that was put in the place of another one, whole as it is. */
static void an_exchanged_file_is_named(void **state)
{
    (void)state;
    uint32_t files;
    sim *world = adopted_world(&files);
    char first[ENGINE_PATH_BYTES];
    char second[ENGINE_PATH_BYTES];
    uint8_t bytes[4096];
    mw_db *db = NULL;
    mw_err err = {0};
    assert_true(engine_file(world, "table-", 0, first) && engine_file(world, "table-", 1, second));
    size_t size = sim_file_read(world, first, 0, bytes, sizeof bytes);
    assert_true(size < sizeof bytes);
    sim_file_put(world, second, bytes, size);
    mw_rc rc = engine_try_open(world, NULL, &db, &err);
    assert_true(rc == MW_CORRUPT || rc == MW_MISMATCH);
    assert_non_null(strstr(err.text, strchr(second, '/') + 1));
    engine_end(world);
}

/* The files of an aborted transaction are gone while the log still names them. */
static void an_aborted_entry_asks_for_no_file(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    engine_put(db, 1, "one");
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 20, "v");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    engine_close(db);
    assert_int_equal(table_files(world), 0);
    db = open_tiny(world);
    assert_string_equal(engine_rows(db), "1=one");
    engine_put(db, 2, "two");
    assert_string_equal(engine_rows(db), "1=one 2=two");
    engine_close(db);
    engine_end(world);
}

/* What was prepared and rolled back does not keep its room for long. */
static void an_aborted_transaction_gives_its_room_back(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_tiny(world);
    mw_txn *txn = engine_begin(db);
    put_range(txn, 1, 20, "v");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    engine_put(db, 1, "one");
    assert_int_equal(table_files(world), 0);
    assert_string_equal(engine_rows(db), "1=one");
    engine_close(db);
    engine_end(world);
}

/* ---- histories ------------------------------------------------------------------------------- */

enum { IDS = 40, MARKS_MAX = 12, VIEWS_MAX = 3, ROUNDS = 150 };

/* Values of all ids, 0: it does not live. */
typedef struct picture {
    int values[IDS];
} picture;

typedef struct view {
    mw_snapshot *snapshot;
    picture is;
} view;

typedef struct history {
    sim *world;
    mw_db *db;
    uint64_t seed;
    int written;
    picture committed;
    picture now; /* of the transaction */
    uint64_t marks[MARKS_MAX];
    picture at_mark[MARKS_MAX];
    int mark_count;
    view views[VIEWS_MAX];
    uint64_t spills;
} history;

static uint64_t next_random(history *h, uint64_t below)
{
    h->seed ^= h->seed << 13;
    h->seed ^= h->seed >> 7;
    h->seed ^= h->seed << 17;
    return (h->seed >> 11) % below;
}

static const char *words_of(const picture *is)
{
    static char text[2048];
    size_t used = 0;
    text[0] = 0;
    for (int id = 0; id < IDS; id++) {
        if (!is->values[id]) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d=v%d", used ? " " : "", id,
                                 is->values[id]);
    }
    return text;
}

static int64_t live(const picture *is)
{
    int64_t count = 0;
    for (int id = 0; id < IDS; id++) count += is->values[id] != 0;
    return count;
}

static void change(history *h, mw_txn *txn)
{
    uint64_t before = engine_store(h->db)->table_number;
    for (uint64_t i = 1 + next_random(h, 12); i > 0; i--) {
        int id = (int)next_random(h, IDS);
        char words[16];
        bool delete = next_random(h, 3) == 0;
        h->now.values[id] = delete ? 0 : ++h->written;
        snprintf(words, sizeof words, "v%d", h->written);
        assert_int_equal(engine_txn_try(txn, id, delete ? NULL : words, NULL), MW_OK);
    }
    h->spills += engine_store(h->db)->table_number > before;
    assert_int_equal(mw_txn_count_delta(txn), live(&h->now) - live(&h->committed));
}

static void look(history *h, mw_txn *txn)
{
    view *at = &h->views[next_random(h, VIEWS_MAX)];
    if (at->snapshot) {
        assert_string_equal(engine_read(at->snapshot), words_of(&at->is)); /* I13 */
        mw_snapshot_release(at->snapshot);
        at->snapshot = NULL;
        return;
    }
    assert_int_equal(mw_snapshot_take(h->db, txn, &at->snapshot, NULL), MW_OK);
    at->is = txn ? h->now : h->committed;
}

static void step(history *h, mw_txn *txn)
{
    uint64_t what = next_random(h, 10);
    if (what < 5) change(h, txn);
    if (what == 5 && h->mark_count < MARKS_MAX) {
        h->at_mark[h->mark_count] = h->now;
        h->marks[h->mark_count++] = engine_mark(txn);
    }
    if (what == 6 && h->mark_count > 0) { /* the mark stays */
        h->mark_count = 1 + (int)next_random(h, (uint64_t)h->mark_count);
        assert_int_equal(mw_txn_undo(txn, h->marks[h->mark_count - 1], NULL), MW_OK);
        h->now = h->at_mark[h->mark_count - 1];
    }
    if (what == 7 && h->mark_count > 0) { /* any number of them is released */
        h->mark_count = (int)next_random(h, (uint64_t)h->mark_count);
        mw_txn_release(txn, h->mark_count ? h->marks[h->mark_count - 1] : 0);
    }
    if (what == 8) look(h, txn);
    if (what == 9) assert_string_equal(engine_txn_rows(h->db, txn), words_of(&h->now));
    assert_int_equal(mw_txn_count_delta(txn), live(&h->now) - live(&h->committed));
}

static void one_transaction(history *h)
{
    mw_txn *txn = engine_begin(h->db);
    mw_txn_kind kind = next_random(h, 2) ? MW_TXN_FULL : MW_TXN_LIGHT;
    h->now = h->committed;
    h->mark_count = 0;
    for (uint64_t i = next_random(h, 20); i > 0; i--) step(h, txn);
    uint64_t end = next_random(h, 6);
    if (end >= 2) assert_int_equal(mw_txn_prepare(txn, kind, NULL), MW_OK);
    if (end == 3 && !mw_txn_published(txn)) {
        assert_int_equal(mw_txn_unprepare(txn, NULL), MW_OK);
        for (uint64_t i = next_random(h, 6); i > 0; i--) step(h, txn);
        assert_int_equal(mw_txn_prepare(txn, kind, NULL), MW_OK);
    }
    if (end < 3) {
        engine_rollback(txn);
        return;
    }
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    h->committed = h->now;
}

static void close_views(history *h)
{
    for (int i = 0; i < VIEWS_MAX; i++) {
        mw_snapshot_release(h->views[i].snapshot);
        h->views[i].snapshot = NULL;
    }
}

static void one_upheaval(history *h)
{
    uint64_t what = next_random(h, 12);
    if (what == 0) engine_flush(h->db);
    if (what == 1) engine_merge(h->db, (uint32_t)next_random(h, 3));
    if (what == 2 || what == 3) close_views(h);
    if (what == 2) {
        engine_close(h->db);
        h->db = open_tiny(h->world);
    }
    if (what == 3) h->db = kill_and_open(h->db, &h->world);
    assert_string_equal(engine_rows(h->db), words_of(&h->committed));
}

/* I2 I4 I6 I7 I13: random transactions with savepoints, spills, rollbacks before and after prepare,
** snapshots that stay, flushes, merges, reopens and kills, against a model. Replay: MW_SEED=<seed>
** build/asan/tests/core/overlay_test */
static void random_histories_agree_with_the_model(void **state)
{
    (void)state;
    const char *given = getenv("MW_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003 + 1;
    print_message("replay: MW_SEED=%llu build/asan/tests/core/overlay_test\n",
                  (unsigned long long)seed);
    for (uint64_t round = 0; round < 4; round++) {
        history *h = calloc(1, sizeof *h);
        assert_non_null(h);
        h->world = engine_world();
        h->db = open_tiny(h->world);
        h->seed = seed + round * 7919 ? seed + round * 7919 : 1;
        for (int i = 0; i < ROUNDS; i++) {
            one_transaction(h);
            one_upheaval(h);
        }
        close_views(h);
        assert_true(h->spills > 20);
        assert_string_equal(engine_check(h->db), "ok");
        engine_close(h->db);
        engine_end(h->world);
        free(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_transaction_is_written_once),
        cmocka_unit_test(spilled_changes_do_what_others_do),
        cmocka_unit_test(a_spilled_transaction_may_consist_of_deletes),
        cmocka_unit_test(rows_may_be_larger_than_a_memtable),
        cmocka_unit_test(the_files_of_a_transaction_grow_with_their_number),
        cmocka_unit_test(more_files_than_the_limit_are_refused),
        cmocka_unit_test(rolling_back_removes_the_files),
        cmocka_unit_test(undoing_drops_the_runs_behind_the_mark),
        cmocka_unit_test(a_released_mark_is_refused),
        cmocka_unit_test(a_spilled_prepare_can_be_taken_back),
        cmocka_unit_test(a_compensation_may_outgrow_memory),
        cmocka_unit_test(compensation_leaves_alone_what_was_adopted_since),
        cmocka_unit_test(a_change_whose_spill_fails_changes_nothing),
        cmocka_unit_test(a_full_disk_fails_the_change_and_not_the_transaction),
        cmocka_unit_test(the_files_of_an_unknown_outcome_stay),
        cmocka_unit_test(the_files_of_a_fenced_transaction_go),
        cmocka_unit_test(a_stopped_writer_spills_nothing),
        cmocka_unit_test(a_reader_keeps_adopted_files),
        cmocka_unit_test(the_files_of_a_dead_transaction_are_swept),
        cmocka_unit_test(damage_of_an_adopted_file_is_named),
        cmocka_unit_test(an_exchanged_file_is_named),
        cmocka_unit_test(an_aborted_entry_asks_for_no_file),
        cmocka_unit_test(an_aborted_transaction_gives_its_room_back),
        cmocka_unit_test(random_histories_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
