/* replay_test.c: what is found after a bad end: every acknowledged row, a prefix of the others,
** and damage by name. Worlds are killed (sim_kill), cut (all disk states) or damaged by hand, and
** opened again. */
#include "replay.h"

#include "commit.h"
#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WAL_NAME   "wal-0000000000000001-0000000000000001"
#define WAL_2_NAME "wal-0000000000000001-0000000000000002"
#define WAL        "store/" WAL_NAME
#define WAL_2      "store/" WAL_2_NAME

/* Rows 1=a 2=b 3=c, each a commit of its own, and a process that was killed. */
static sim *killed_world(void)
{
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    engine_put(db, 3, "c");
    sim *after = sim_kill(world);
    engine_close(db);
    engine_end(world);
    return after;
}

/* Where the entries of the killed world's log begin; [3]: the end. */
static void entry_offsets(sim *world, uint64_t offsets[4])
{
    const mw_env *env = sim_env(world);
    int dir;
    mw_db *db = engine_open(world, NULL);
    mw_store_id id = *mw_db_store(db);
    mw_db_abandon(db);
    mw_log_reader *reader;
    mw_log_entry entry;
    mw_log_found found;
    bool whole;
    uint64_t chain;
    assert_int_equal(env->dir_open(env->ctx, ENGINE_STORE, false, &dir), 0);
    assert_int_equal(mw_log_reader_open(env, dir, &id, 1, 1, &reader, &whole, NULL), MW_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
        assert_int_equal(found, MW_LOG_ENTRY);
        offsets[i] = entry.offset;
    }
    mw_log_reader_end(reader, &offsets[3], &chain);
    mw_log_reader_close(reader);
    env->dir_close(env->ctx, dir);
}

static void known_offsets(uint64_t offsets[4])
{
    sim *world = killed_world();
    entry_offsets(world, offsets);
    sim_destroy(world);
}

/* Opens, compares, writes a row more, closes, opens again: that all is there, for ever. */
static void expect_rows(sim *world, const char *rows)
{
    char wanted[4096];
    mw_db *db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), rows);
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 99, "more");
    engine_close(db);
    db = engine_open(world, NULL);
    snprintf(wanted, sizeof wanted, "%s%s99=more", rows, *rows ? " " : "");
    assert_string_equal(engine_rows(db), wanted);
    engine_close(db);
}

static void expect_refused(sim *world, mw_rc wanted, const char *named)
{
    mw_db *db = NULL;
    mw_err err = {0};
    mw_rc rc = engine_try_open(world, NULL, &db, &err);
    if (rc == MW_OK) {
        char rows[512];
        snprintf(rows, sizeof rows, "%s", engine_rows(db));
        mw_db_abandon(db);
        fail_msg("opened with %s", rows);
    }
    assert_int_equal(rc, wanted);
    if (!strstr(err.text, named)) fail_msg("\"%s\" does not name %s", err.text, named);
}

/* ---- tails ----------------------------------------------------------------------------------- */

/* L19, C07: the last record is cut at every byte. All whole rows, the new row, no flag needed. */
static void a_tail_torn_at_any_byte_is_cut(void **state)
{
    (void)state;
    uint64_t at[4];
    known_offsets(at);
    for (uint64_t bytes = at[1]; bytes <= at[3]; bytes++) {
        sim *world = killed_world();
        sim_file_truncate(world, WAL, bytes);
        expect_rows(world, bytes == at[3] ? "1=a 2=b 3=c" : bytes >= at[2] ? "1=a 2=b" : "1=a");
        engine_end(world);
    }
}

/* C05: the size was made durable, the data was not: 4,096 zeros at the end. */
static void a_tail_of_zeros_is_cut(void **state)
{
    (void)state;
    uint64_t at[4];
    known_offsets(at);
    sim *world = killed_world();
    sim_file_truncate(world, WAL, at[3]);
    sim_file_truncate(world, WAL, at[3] + 4096);
    expect_rows(world, "1=a 2=b 3=c");
    engine_end(world);
}

/* C08: rubbish behind the end, after a kill and after a clean end. */
static void a_tail_of_rubbish_is_cut(void **state)
{
    (void)state;
    uint64_t at[4];
    uint8_t rubbish[600];
    known_offsets(at);
    for (int clean = 0; clean < 2; clean++) {
        sim *world = killed_world();
        uint64_t end = at[3];
        if (clean) {
            mw_db *db = engine_open(world, NULL);
            engine_put(db, 4, "d");
            engine_close(db);
        }
        const char *path = clean ? "store/wal-0000000000000002-0000000000000001" : WAL;
        if (clean) end = (uint64_t)sim_file_size(world, path) - 4096;
        memset(rubbish, 0x81, sizeof rubbish);
        mw_put_u32(rubbish + 40, UINT32_MAX); /* as a record: a length of 4 GB */
        sim_file_write(world, path, end, rubbish, sizeof rubbish);
        expect_rows(world, clean ? "1=a 2=b 3=c 4=d" : "1=a 2=b 3=c");
        engine_end(world);
    }
}

/* C04, I2, I10: a group of three was in flight, each row in sectors of its own. Of every state that
** the disk may hold a prefix is found; a new row of the same length is written; what was behind the
** torn place stays dead for ever. */
static void a_torn_group_leaves_a_prefix_and_the_rest_stays_dead(void **state)
{
    (void)state;
    char words[4][701];
    engine_call calls[3];
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "acked");
    engine_call leader = {
        .run = engine_run_put, .db = db, .id = 2, .words = "leader", .kind = MW_TXN_LIGHT};
    int first = sim_hold(world, SIM_WRITE, "wal-");
    engine_start(&leader);
    assert_true(sim_wait_held(world, first));
    for (int i = 0; i < 4; i++) {
        memset(words[i], 'p' + i, 700);
        words[i][700] = 0;
    }
    for (int i = 0; i < 3; i++) {
        calls[i] = leader;
        calls[i].id = 10 + i;
        calls[i].words = words[i];
        engine_start(&calls[i]);
        engine_wait_queued(db, 2 + (uint32_t)i);
    }
    int leaders_sync = sim_hold(world, SIM_FILE_SYNC, "wal-");
    sim_release(world, first);
    assert_true(sim_wait_held(world, leaders_sync));
    int write = sim_hold(world, SIM_WRITE, "wal-");
    sim_release(world, leaders_sync);
    assert_true(sim_wait_held(world, write));
    int second = sim_hold(world, SIM_FILE_SYNC, "wal-");
    sim_release(world, write);
    assert_true(sim_wait_held(world, second)); /* the group is written, not synced */
    assert_int_equal(engine_wait(&leader), MW_OK);
    uint32_t seen[4] = {0};
    uint32_t states = sim_disk_count(world, 400);
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(world, i);
        mw_db *again = engine_open(after, NULL);
        int64_t count = engine_count(again);
        assert_in_range(count, 2, 5);
        seen[count - 2]++;
        for (int j = 0; j < 3; j++) {
            const char *found = engine_find(again, 10 + j);
            if (j < count - 2)
                assert_string_equal(found, words[j]);
            else
                assert_null(found);
        }
        engine_put(again, 20, words[3]);
        sim *killed = sim_kill(after);
        mw_db_abandon(again);
        again = engine_open(killed, NULL);
        assert_int_equal(engine_count(again), count + 1);
        assert_string_equal(engine_find(again, 20), words[3]);
        engine_close(again);
        engine_end(killed);
        engine_end(after);
    }
    for (int i = 0; i < 4; i++) assert_true(seen[i] > 0); /* every prefix came up */
    sim_release(world, second);
    for (int i = 0; i < 3; i++) assert_int_equal(engine_wait(&calls[i]), MW_OK);
    engine_close(db);
    engine_end(world);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* L19, I9: a bit of every byte of a record in the middle: refused, with file and offset. What is
** behind it says that it had been durable. */
static void damage_in_the_middle_is_refused_by_name(void **state)
{
    (void)state;
    uint64_t at[4];
    known_offsets(at);
    char offset[32];
    snprintf(offset, sizeof offset, "%llu", (unsigned long long)at[1]);
    for (uint64_t byte = at[1]; byte < at[2]; byte++) {
        sim *world = killed_world();
        sim_file_flip(world, WAL, byte * 8 + byte % 8);
        expect_refused(world, MW_CORRUPT, WAL_NAME);
        expect_refused(world, MW_CORRUPT, offset);
        sim_file_flip(world, WAL, byte * 8 + byte % 8);
        expect_rows(world, "1=a 2=b 3=c"); /* and nothing was made worse */
        engine_end(world);
    }
}

/* The last record of a killed process is below nobody's durable-through: cut, whole. */
static void damage_in_the_last_record_of_a_killed_process_is_a_tail(void **state)
{
    (void)state;
    uint64_t at[4];
    known_offsets(at);
    for (uint64_t byte = at[2]; byte < at[3]; byte++) {
        sim *world = killed_world();
        sim_file_flip(world, WAL, byte * 8 + byte % 8);
        expect_rows(world, "1=a 2=b");
        engine_end(world);
    }
}

/* A store that was closed says where its log ended: a last record that is damaged or cut off since
** then, or a last segment that is gone, is damage. On the next start of the machine as well. */
static void damage_in_the_last_record_of_a_closed_store_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        engine_freeze(db);
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, 2, "b");
        engine_commit(txn, MW_TXN_FULL);
        engine_close(db);
        assert_true(sim_file_exists(world, WAL_2) || sim_file_exists(world, WAL));
        const char *path = sim_file_exists(world, WAL_2) ? WAL_2 : WAL;
        if (i % 4 == 0) sim_file_flip(world, path, 8 * (MW_LOG_HEADER_BYTES + 60));
        if (i % 4 == 1) sim_file_truncate(world, path, MW_LOG_HEADER_BYTES);
        if (i % 4 == 2) sim_file_truncate(world, path, 40);
        if (i % 4 == 3) sim_file_delete(world, path);
        sim *after = world;
        if (i >= 4) {
            sim_disk_count(world, 1);
            after = sim_disk_state(world, 0);
        }
        expect_refused(after, MW_CORRUPT, "wal-");
        if (i >= 4) engine_end(after);
        engine_end(world);
    }
}

/* Three segments with two rows each, frozen but for the last: killed. */
static sim *world_of_three_segments(void)
{
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_txn *txn;
    for (int64_t id = 1; id < 6; id += 2) {
        /* The turn is kept from the freeze to the next row, so that nobody flushes in between. */
        txn = engine_begin(db);
        uint64_t generation;
        engine_txn_put(txn, id, "x");
        if (id > 1) assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
        engine_commit(txn, MW_TXN_FULL);
        sim_fail_named(world, SIM_OPEN, "table-", 1, EIO, true); /* no flush gets on */
        engine_put(db, id + 1, "y");
    }
    sim_fail_clear(world);
    sim *after = sim_kill(world);
    mw_db_abandon(db);
    engine_end(world);
    return after;
}

/* C06, C87: a segment in the middle is missing, or was cut at the end of a record: refused, and
** named. */
static void a_missing_segment_is_refused_by_name(void **state)
{
    (void)state;
    sim *world = world_of_three_segments();
    expect_rows(world, "1=x 2=y 3=x 4=y 5=x 6=y");
    engine_end(world);
    static const char *const paths[] = {WAL, WAL_2};
    for (int i = 0; i < 2; i++) {
        world = world_of_three_segments();
        sim_file_delete(world, paths[i]);
        expect_refused(world, MW_CORRUPT, paths[i] + 6);
        engine_end(world);
        world = world_of_three_segments();
        sim_file_truncate(world, paths[i], MW_LOG_HEADER_BYTES);
        expect_refused(world, MW_CORRUPT, paths[i] + 6);
        engine_end(world);
        world = world_of_three_segments();
        sim_file_flip(world, paths[i], 8 * MW_LOG_HEADER_BYTES - 1); /* its header */
        expect_refused(world, MW_CORRUPT, paths[i] + 6);
        engine_end(world);
    }
}

/* The only segment of an epoch that must have one. */
static void a_missing_only_segment_is_refused(void **state)
{
    (void)state;
    sim *world = killed_world();
    sim_file_delete(world, WAL);
    expect_refused(world, MW_CORRUPT, "wal-0000000000000001-");
    engine_end(world);
}

/* Closed with everything flushed: the log is a header with nothing behind it, which a crash cannot
** have torn, since the epoch was sealed after it was durable. */
static void a_damaged_header_of_an_empty_log_is_refused_by_name(void **state)
{
    (void)state;
    for (uint64_t bit = 0; bit < MW_LOG_HEADER_BYTES * 8 + 7; bit += 7) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        engine_flush(db);
        engine_close(db);
        assert_int_equal(sim_file_size(world, WAL_2), MW_LOG_HEADER_BYTES);
        bool cut = bit >= MW_LOG_HEADER_BYTES * 8;
        if (cut) sim_file_truncate(world, WAL_2, 50);
        if (!cut) sim_file_flip(world, WAL_2, bit);
        expect_refused(world, MW_CORRUPT, WAL_2_NAME ", offset 0: the header is damaged");
        engine_end(world);
    }
}

/* The same where rows are before it in another segment, and were behind it. */
static void a_damaged_header_behind_which_rows_were_is_named(void **state)
{
    (void)state;
    sim *world = world_of_three_segments();
    mw_db *db = engine_open(world, NULL);
    engine_close(db); /* the state file says how far the log went */
    char path[ENGINE_PATH_BYTES];
    uint32_t last = engine_file_count(world, "wal-") - 1;
    assert_true(engine_file(world, "wal-", last, path));
    sim_file_truncate(world, path, 50);
    expect_refused(world, MW_CORRUPT, path + 6);
    expect_refused(world, MW_CORRUPT, "the header is damaged");
    engine_end(world);
}

/* A crash in the middle of creating a segment leaves half a header, or room without content: no
** damage, and nothing is missing. */
static void a_segment_that_was_being_created_is_no_damage(void **state)
{
    (void)state;
    static const uint8_t zeros[MW_LOG_HEADER_BYTES];
    for (size_t bytes = 0; bytes <= sizeof zeros; bytes += 24) {
        sim *world = killed_world();
        sim_file_put(world, WAL_2, zeros, bytes);
        expect_rows(world, "1=a 2=b 3=c");
        engine_end(world);
    }
}

/* The header of the last segment: whole rows lie behind it, so it was not "being created". */
static void a_damaged_header_of_the_last_segment_is_refused(void **state)
{
    (void)state;
    for (uint64_t bit = 0; bit < MW_LOG_HEADER_BYTES * 8; bit += 7) {
        sim *world = world_of_three_segments();
        sim_file_flip(world, "store/wal-0000000000000001-0000000000000003", bit);
        expect_refused(world, MW_CORRUPT, "wal-0000000000000001-0000000000000003");
        engine_end(world);
    }
}

/* The older epoch's part is needed until it is flushed: damage there is refused and named. */
static void damage_in_an_older_epochs_part_is_refused(void **state)
{
    (void)state;
    uint64_t at[4];
    known_offsets(at);
    for (int i = 0; i < 2; i++) {
        sim *world = killed_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 4, "d");
        mw_db_abandon(db);
        if (i == 0)
            sim_file_flip(world, WAL, 8 * (at[1] + 50));
        else
            sim_file_delete(world, WAL);
        expect_refused(world, MW_CORRUPT, "wal-");
        engine_end(world);
    }
}

/* C13: the newest manifest, cut at every length, or with a bit of any byte changed: refused by
** name, never an empty table. */
static void a_damaged_manifest_is_refused_by_name(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 3, "x");
    engine_flush(db);
    engine_close(db);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    assert_true(engine_file(world, "manifest-", 0, path));
    int64_t bytes = sim_file_size(world, path);
    uint8_t content[4096];
    assert_int_equal(sim_file_read(world, path, 0, content, sizeof content), bytes);
    for (int64_t i = 0; i < bytes; i++) {
        sim_file_truncate(world, path, (uint64_t)i);
        expect_refused(world, MW_CORRUPT, path + 6);
        sim_file_put(world, path, content, (size_t)bytes);
        sim_file_flip(world, path, (uint64_t)(i * 8 + i % 8));
        expect_refused(world, MW_CORRUPT, path + 6);
        sim_file_put(world, path, content, (size_t)bytes);
    }
    sim_file_delete(world, path);
    expect_refused(world, MW_MISSING, "store holds no store");
    sim_file_put(world, path, content, (size_t)bytes);
    expect_rows(world, "1=x1 2=x2 3=x3");
    engine_end(world);
}

/* ---- records that mean what cannot be -------------------------------------------------------- */

/* Adds an entry with a right checksum and chain behind the killed world's log. */
static sim *world_with(mw_log_kind kind, mw_slice payload)
{
    uint64_t at[4];
    sim *world = killed_world();
    sim *copy = sim_kill(world);
    entry_offsets(copy, at); /* takes over, so in a copy */
    sim_destroy(copy);
    const mw_env *env = sim_env(world);
    int dir;
    uint8_t header[MW_LOG_HEADER_BYTES];
    uint8_t chain[8];
    assert_int_equal(sim_file_read(world, WAL, 0, header, sizeof header), sizeof header);
    assert_int_equal(sim_file_read(world, WAL, at[2], chain, sizeof chain), sizeof chain);
    mw_log_header of = {.epoch = 1, .number = 1};
    memcpy(of.store.bytes, header + 16, sizeof of.store.bytes);
    mw_log_segment *segment;
    mw_log_entry entry = {
        .position = 4, .epoch = 1, .durable_through = 3, .kind = kind, .payload = payload};
    assert_int_equal(env->dir_open(env->ctx, ENGINE_STORE, false, &dir), 0);
    mw_rc rc = mw_log_segment_resume(env, dir, &of, at[3], mw_get_u64(chain), &segment, NULL);
    assert_int_equal(rc, MW_OK);
    assert_int_equal(mw_log_segment_stage(segment, &entry, NULL), MW_OK);
    assert_int_equal(mw_log_segment_write(segment, NULL), MW_OK);
    mw_log_segment_close(segment);
    env->dir_close(env->ctx, dir);
    return world;
}

/* One row more: op_count, first sequence, delta, then the put of id 7 with "w". */
static sim *world_with_row(uint64_t op_count, uint64_t sequence, int64_t delta, uint8_t tag)
{
    uint8_t payload[24 + 1 + 1 + 8 + 1 + 2] = {0};
    mw_put_u64(payload, op_count);
    mw_put_u64(payload + 8, sequence);
    mw_put_u64(payload + 16, (uint64_t)delta);
    uint8_t *at = payload + 24;
    *at++ = 1;
    *at++ = 8;
    mw_key_put_integer(at, 7);
    at += 8;
    *at++ = 2;
    *at++ = tag;
    *at++ = 'w';
    return world_with(MW_LOG_COMMIT, mw_slice_of(payload, sizeof payload));
}

static sim *world_with_commit(uint64_t op_count, uint64_t sequence, int64_t delta)
{
    return world_with_row(op_count, sequence, delta, 11 + 2 * 1); /* a text of one byte */
}

static sim *world_with_abort(uint64_t position, size_t bytes)
{
    uint8_t payload[16] = {0};
    mw_put_u64(payload, position);
    return world_with(MW_LOG_ABORT, mw_slice_of(payload, bytes));
}

/* I9: a right checksum does not make a wrong entry right. */
static void entries_that_cannot_be_are_refused(void **state)
{
    (void)state;
    sim *right = world_with_commit(1, 4, 1);
    expect_rows(right, "1=a 2=b 3=c 7=w");
    engine_end(right);
    right = world_with_abort(3, 8);
    expect_rows(right, "1=a 2=b");
    engine_end(right);
    sim *wrong[] = {
        world_with_commit(1, 3, 1), /* a sequence that was used        */
        world_with_commit(1, 0, 1),
        world_with_commit(2, 4, 1), /* rows that are not there         */
        world_with_commit(0, 4, 0),
        world_with_commit(1, 4, 2), /* more live ids than rows         */
        world_with_commit(1, 4, -9),
        world_with_row(1, 4, 1, 11), /* a row with a byte too many  */
        world_with_row(1, 4, 1, 10), /* and with seven too few      */
        world_with_abort(2, 8), /* not the last entry              */
        world_with_abort(4, 8), /* itself                          */
        world_with_abort(3, 16),
        world_with_abort(3, 4),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_refused(wrong[i], MW_CORRUPT, WAL_NAME);
        engine_end(wrong[i]);
    }
}

/* A count that would fall below zero. */
static void a_count_below_zero_is_refused(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store_id id = *mw_db_store(db);
    mw_txn *txn = engine_begin(db); /* claims the epoch and makes the segment */
    engine_rollback(txn);
    mw_db_abandon(db);
    const mw_env *env = sim_env(world);
    uint8_t header[MW_LOG_HEADER_BYTES];
    assert_int_equal(sim_file_read(world, WAL, 0, header, sizeof header), sizeof header);
    uint8_t payload[24 + 1 + 1 + 8] = {1};
    mw_put_u64(payload + 8, 1);
    mw_put_u64(payload + 16, (uint64_t)-1);
    payload[24] = 2;
    payload[25] = 8;
    mw_log_header of = {.store = id, .epoch = 1, .number = 1};
    mw_log_entry entry = {.position = 1,
                          .epoch = 1,
                          .kind = MW_LOG_COMMIT,
                          .payload = mw_slice_of(payload, sizeof payload)};
    mw_log_segment *segment;
    int dir;
    assert_int_equal(env->dir_open(env->ctx, ENGINE_STORE, false, &dir), 0);
    uint64_t chain = mw_get_u64(header + 88);
    mw_rc rc = mw_log_segment_resume(env, dir, &of, sizeof header, chain, &segment, NULL);
    assert_int_equal(rc, MW_OK);
    assert_int_equal(mw_log_segment_stage(segment, &entry, NULL), MW_OK);
    assert_int_equal(mw_log_segment_write(segment, NULL), MW_OK);
    mw_log_segment_close(segment);
    env->dir_close(env->ctx, dir);
    expect_refused(world, MW_CORRUPT, "live ids by -");
    engine_end(world);
}

/* A segment that says it begins a generation where none begins. */
static void a_generation_that_starts_elsewhere_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        sim *world = killed_world();
        const mw_env *env = sim_env(world);
        int dir;
        uint8_t header[MW_LOG_HEADER_BYTES];
        assert_int_equal(sim_file_read(world, WAL, 0, header, sizeof header), sizeof header);
        mw_log_header next = {.epoch = 1,
                              .number = 2,
                              .generation = i == 1 ? 2 : 1,
                              .first_position = 4,
                              .generation_start = i ? 2 : 1};
        memcpy(next.store.bytes, header + 16, sizeof next.store.bytes);
        mw_log_segment *segment;
        assert_int_equal(env->dir_open(env->ctx, ENGINE_STORE, false, &dir), 0);
        assert_int_equal(mw_log_segment_create(env, dir, &next, &segment, NULL), MW_OK);
        mw_log_segment_close(segment);
        env->dir_close(env->ctx, dir);
        if (i)
            expect_refused(world, MW_CORRUPT, WAL_2_NAME);
        else
            expect_rows(world, "1=a 2=b 3=c"); /* a second segment of the same generation is one */
        engine_end(world);
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* An entry is committed unless its abort follows. Killed after the prepare: there. Killed after the
** rollback: not there, and the count knows. */
static void an_entry_counts_unless_its_abort_follows(void **state)
{
    (void)state;
    for (int undo = 0; undo < 2; undo++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        mw_txn *txn = engine_begin(db);
        engine_txn_put(txn, 1, "A");
        engine_txn_put(txn, 2, "b");
        assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
        if (undo) engine_rollback(txn);
        sim *after = sim_kill(world);
        expect_rows(after, undo ? "1=a" : "1=A 2=b");
        engine_end(after);
        if (!undo) assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
        engine_close(db);
        engine_end(world);
    }
}

/* The abort is part of the tail that a successor copies, its entry is not: they still find
** together. */
static void a_copied_abort_finds_its_entry(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "b");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    mw_db_abandon(db);
    for (int i = 0; i < 3; i++) {
        db = engine_open(world, NULL);
        assert_string_equal(engine_rows(db), "1=a");
        assert_int_equal(engine_figure(db, "wal_position"), 3);
        mw_db_abandon(db);
    }
    db = engine_open(world, NULL);
    engine_put(db, 3, "c");
    engine_flush(db);
    assert_string_equal(engine_rows(db), "1=a 3=c");
    engine_close(db);
    engine_end(world);
}

/* ---- durability normal ----------------------------------------------------------------------- */

/* Written, frozen, written on, killed: what lies above the last durable-through spans two segments
** of two generations. The next owner's segment is well formed, and so is the one after it. */
static void an_unsynced_tail_may_span_a_freeze(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_put(db, 1, "a");
    engine_put(db, 2, "b");
    mw_txn *txn = engine_begin(db);
    uint64_t generation;
    engine_txn_put(txn, 3, "c");
    assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
    engine_commit(txn, MW_TXN_FULL);
    sim *after = sim_kill(world);
    for (int i = 0; i < 3; i++) {
        mw_db *again = engine_open(after, NULL);
        assert_string_equal(engine_rows(again), "1=a 2=b 3=c");
        assert_string_equal(engine_check(again), "ok");
        mw_db_abandon(again);
    }
    expect_rows(after, "1=a 2=b 3=c");
    engine_end(after);
    mw_db_abandon(db);
    engine_end(world);
}

/* I2: with durability normal a power cut may take the last rows, but leaves a prefix, whatever
** freezes and flushes came in between; what a flush has listed is not lost with the log. */
static void a_power_cut_leaves_a_prefix_of_normal_commits(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t id = 1; id < 8; id++) {
        mw_txn *txn = engine_begin(db);
        uint64_t generation;
        engine_txn_put(txn, id, "x");
        if (id == 3 || id == 6) {
            assert_int_equal(mw_flush_freeze(engine_store(db), &generation, NULL), MW_OK);
        }
        engine_commit(txn, MW_TXN_LIGHT);
    }
    int64_t flushed = engine_figure(db, "wal_cursor");
    assert_int_equal(flushed, 5);
    /* The thread that syncs is held, so that the disk stands still: it comes for this row at the
    ** latest. */
    int hold = sim_hold(world, SIM_FILE_SYNC, "wal-");
    engine_call last = {
        .run = engine_run_put, .db = db, .id = 8, .words = "x", .kind = MW_TXN_LIGHT};
    engine_start(&last);
    assert_true(sim_wait_held(world, hold));
    uint32_t states = sim_disk_count(world, 400);
    uint32_t shorter = 0;
    for (uint32_t i = 0; i < states; i++) {
        sim *after = sim_disk_state(world, i);
        mw_db *again = engine_open(after, &options);
        int64_t count = engine_count(again);
        assert_in_range(count, flushed, 8);
        shorter += count < 8;
        for (int64_t id = 1; id < 9; id++)
            assert_int_equal(engine_find(again, id) != NULL, id <= count);
        engine_put(again, 50, "more");
        mw_db_abandon(again);
        again = engine_open(after, &options);
        assert_int_equal(engine_count(again), count + 1);
        assert_string_equal(engine_check(again), "ok");
        engine_close(again);
        engine_end(after);
    }
    assert_true(shorter > 0);
    sim_release(world, hold);
    assert_int_equal(engine_wait(&last), MW_OK);
    mw_db_abandon(db);
    engine_end(world);
}

/* ---- what comes back ------------------------------------------------------------------------- */

/* Generations come back as they were cut: number, interval, frozen or active. */
static void generations_come_back_as_they_were_cut(void **state)
{
    (void)state;
    sim *world = world_of_three_segments();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    const mw_version *version = store->version;
    assert_int_equal(version->generation_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const mw_generation *generation = version->generations[2 - i];
        assert_int_equal(generation->number, i + 1);
        assert_int_equal(generation->first_position, 2 * i + 1);
        assert_int_equal(mw_memtable_versions(generation->memtable), 2);
        if (i == 2) continue;
        assert_int_equal(generation->last_position, 2 * i + 2);
        assert_int_equal(generation->count_last, 2 * i + 2);
        assert_int_equal(generation->sequence_last, 2 * i + 2);
    }
    assert_int_equal(engine_flush(db), 3);
    assert_int_equal(engine_figure(db, "generations"), 3);
    assert_int_equal(engine_figure(db, "memtable_rows"), 0);
    engine_close(db);
    engine_end(world);
}

/* L13, I4: after flush, merge and restart nothing is replayed. */
static void what_is_listed_is_not_replayed(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_fill(db, 1, 3, "x");
        engine_flush(db);
        engine_merge(db, 0);
        if (killed)
            mw_db_abandon(db);
        else
            engine_close(db);
        db = engine_open(world, NULL);
        assert_int_equal(engine_count(db), 3);
        assert_int_equal(engine_figure(db, "memtable_rows"), 0);
        assert_int_equal(engine_figure(db, "physical_rows"), 3);
        engine_close(db);
        engine_end(world);
    }
}

static void an_entry_of_many_records_comes_back(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    enum { BYTES = 3500 };
    static char words[BYTES + 1];
    memset(words, 'w', BYTES);
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 0; id < 300; id++)
        engine_txn_put(txn, id, words); /* 1 MB: four records and more */
    engine_commit(txn, MW_TXN_LIGHT);
    mw_db_abandon(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), 300);
    assert_string_equal(engine_find(db, 299), words);
    engine_close(db);
    engine_end(world);
}

/* ---- leftovers ------------------------------------------------------------------------------- */

/* I11: leftovers of a crash go when the store is owned; what is not ours stays. */
static void leftovers_are_swept_and_nothing_else(void **state)
{
    (void)state;
    static const char *const leftovers[] = {
        "store/tmp-manifest-0000000000000001-00000000000000aa",
        "store/table-0000000000000001-00000000000000ff",
        "store/wal-0000000000000001-00000000000000ff",
        "store/manifest-0000000000000001",
    };
    static const char *const others[] = {
        "store/notes.txt",
        "store/tmp-mine",
        "store/table-of-contents",
        "store/wal-paper",
        "store/manifest-o",
        "store/table-00000000000000ff-0000000000000001",
        "store/wal-00000000000000ff-0000000000000001",
    };
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    engine_flush(db);
    engine_put(db, 2, "b");
    mw_db_abandon(db);
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        sim_file_put(world, leftovers[i], "", 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        sim_file_put(world, others[i], "", 0);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        if (sim_file_exists(world, leftovers[i])) fail_msg("%s is still there", leftovers[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!sim_file_exists(world, others[i])) fail_msg("%s is gone", others[i]);
    }
    engine_close(db);
    engine_end(world);
}

/* A sweep that can remove nothing is no failure: the store opens, and the next one tries again. */
static void a_sweep_that_fails_is_tried_again(void **state)
{
    (void)state;
    static const char leftover[] = "store/table-0000000000000001-00000000000000ff";
    sim *world = killed_world();
    sim_file_put(world, leftover, "", 0);
    sim_fail(world, SIM_UNLINK, 1, EIO, true);
    mw_db *db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a 2=b 3=c");
    sim_fail_clear(world);
    assert_true(sim_file_exists(world, leftover));
    mw_db_abandon(db);
    expect_rows(world, "1=a 2=b 3=c");
    assert_false(sim_file_exists(world, leftover));
    engine_end(world);
}

/* ---- trouble while recovering ---------------------------------------------------------------- */

/* Each call of an open in turn fails, or each allocation: an error that leaves nothing open, and
** the next open has all rows. Never a table that lacks some. */
static void expect_all_or_an_error(sim_op op, int sys, uint64_t least)
{
    mw_rc rc = MW_IO;
    uint64_t n = 1;
    bool met = true;
    for (; met; n++) {
        sim *world = world_of_three_segments();
        mw_db *db = NULL;
        uint64_t hits = sim_fail_hits(world);
        sim_fail(world, op, n, sys, false);
        rc = engine_try_open(world, NULL, &db, NULL);
        met = sim_fail_hits(world) > hits;
        sim_fail_clear(world);
        if (rc == MW_OK) {
            assert_string_equal(engine_rows(db), "1=x 2=y 3=x 4=y 5=x 6=y");
            mw_db_abandon(db);
        }
        assert_int_equal(sim_open_count(world), 0);
        assert_int_equal(sim_memory_in_use(world), 0);
        expect_rows(world, "1=x 2=y 3=x 4=y 5=x 6=y");
        engine_end(world);
    }
    assert_int_equal(rc, MW_OK);
    assert_true(n > least);
}

static void an_open_that_fails_loses_nothing(void **state)
{
    (void)state;
    expect_all_or_an_error(SIM_ANY_CALL, EIO, 30);
    expect_all_or_an_error(SIM_ALLOC, ENOMEM, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut),
        cmocka_unit_test(a_tail_of_zeros_is_cut),
        cmocka_unit_test(a_tail_of_rubbish_is_cut),
        cmocka_unit_test(a_torn_group_leaves_a_prefix_and_the_rest_stays_dead),
        cmocka_unit_test(damage_in_the_middle_is_refused_by_name),
        cmocka_unit_test(damage_in_the_last_record_of_a_killed_process_is_a_tail),
        cmocka_unit_test(damage_in_the_last_record_of_a_closed_store_is_refused),
        cmocka_unit_test(a_missing_segment_is_refused_by_name),
        cmocka_unit_test(a_missing_only_segment_is_refused),
        cmocka_unit_test(a_damaged_header_of_an_empty_log_is_refused_by_name),
        cmocka_unit_test(a_damaged_header_behind_which_rows_were_is_named),
        cmocka_unit_test(a_segment_that_was_being_created_is_no_damage),
        cmocka_unit_test(a_damaged_header_of_the_last_segment_is_refused),
        cmocka_unit_test(damage_in_an_older_epochs_part_is_refused),
        cmocka_unit_test(a_damaged_manifest_is_refused_by_name),
        cmocka_unit_test(entries_that_cannot_be_are_refused),
        cmocka_unit_test(a_count_below_zero_is_refused),
        cmocka_unit_test(a_generation_that_starts_elsewhere_is_refused),
        cmocka_unit_test(an_entry_counts_unless_its_abort_follows),
        cmocka_unit_test(a_copied_abort_finds_its_entry),
        cmocka_unit_test(an_unsynced_tail_may_span_a_freeze),
        cmocka_unit_test(a_power_cut_leaves_a_prefix_of_normal_commits),
        cmocka_unit_test(generations_come_back_as_they_were_cut),
        cmocka_unit_test(what_is_listed_is_not_replayed),
        cmocka_unit_test(an_entry_of_many_records_comes_back),
        cmocka_unit_test(leftovers_are_swept_and_nothing_else),
        cmocka_unit_test(a_sweep_that_fails_is_tried_again),
        cmocka_unit_test(an_open_that_fails_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
