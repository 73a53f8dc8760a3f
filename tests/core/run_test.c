/* run_test.c: lists of runs, and the log entry that adopts them: it comes back as it was written,
** and whatever breaks a rule of the format is damage that is named, never a crash. */
#include "run.h"

#include "commit.h"
#include "engine.h"
#include "flush.h"
#include "overlay.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- payloads -------------------------------------------------------------------------------- */

enum { RUNS = 3 };

typedef struct place {
    sim *world;
    const mw_env *env;
    mw_adopted *adopted;
    mw_buf payload;
} place;

static mw_run *make_run(const mw_env *env, uint64_t number)
{
    mw_run *run = NULL;
    assert_int_equal(mw_run_create(env, &run, NULL), MW_OK);
    mw_table_props props = {.rows = 10,
                            .tombstones = number,
                            .bytes = 1000 + number,
                            .sequence_min = number * 100,
                            .sequence_max = number * 100 + 50,
                            .checksum = 0x1234567890abcdef + number};
    run->file = (mw_manifest_file){.epoch = 2, .number = number, .props = props};
    char *keys = mw_alloc(env, 8);
    assert_non_null(keys);
    memcpy(keys, "aabbbzzz", 8);
    run->file.keys.min = mw_slice_of(keys, number);
    run->file.keys.max = mw_slice_of(keys + 4, 4);
    return run;
}

static place make_place(void)
{
    place at = {.world = sim_create()};
    at.env = sim_env(at.world);
    mw_run *runs[RUNS];
    mw_runs *list = NULL;
    for (uint64_t i = 0; i < RUNS; i++) runs[i] = make_run(at.env, i + 1);
    assert_int_equal(mw_runs_create(at.env, NULL, 0, runs, RUNS, &list, NULL), MW_OK);
    for (int i = 0; i < RUNS; i++) mw_run_unref(runs[i]);
    assert_int_equal(mw_adopted_create(at.env, list, &at.adopted, NULL), MW_OK);
    at.adopted->sequence_first = 90;
    at.adopted->sequence_last = 400;
    at.adopted->delta = -7;
    mw_buf_init(&at.payload, at.env);
    mw_adopted_encode(at.adopted, &at.payload);
    return at;
}

static void end_place(place *at)
{
    mw_buf_free(&at->payload);
    mw_adopted_free(at->adopted);
    assert_int_equal(sim_memory_in_use(at->world), 0);
    sim_destroy(at->world);
}

/* Decodes the first bytes of the payload. */
static mw_rc decode(const place *at, size_t bytes, mw_adopted **adopted, mw_err *err)
{
    mw_log_entry entry = {.position = 5, .epoch = 3, .kind = MW_LOG_ADOPT, .offset = 96};
    entry.payload = mw_slice_of(at->payload.data, bytes);
    return mw_adopted_decode(at->env, &entry, "wal-x", adopted, err);
}

static void an_entry_comes_back_as_it_was_written(void **state)
{
    (void)state;
    place at = make_place();
    mw_adopted *again = NULL;
    assert_int_equal(decode(&at, at.payload.size, &again, NULL), MW_OK);
    assert_int_equal(again->sequence_first, 90);
    assert_int_equal(again->sequence_last, 400);
    assert_int_equal(again->delta, -7);
    assert_int_equal(again->runs->count, RUNS);
    for (uint64_t i = 0; i < RUNS; i++) {
        const mw_manifest_file *wanted = &at.adopted->runs->runs[i]->file;
        const mw_manifest_file *found = &again->runs->runs[i]->file;
        assert_int_equal(found->epoch, 2);
        assert_int_equal(found->number, i + 1);
        assert_memory_equal(&found->props, &wanted->props, sizeof wanted->props);
        assert_true(mw_slice_equal(found->keys.min, wanted->keys.min));
        assert_true(mw_slice_equal(found->keys.max, wanted->keys.max));
    }
    mw_buf copy;
    mw_buf_init(&copy, at.env);
    mw_adopted_encode(again, &copy);
    assert_true(mw_slice_equal(mw_buf_slice(&copy), mw_buf_slice(&at.payload)));
    mw_buf_free(&copy);
    mw_adopted_free(again);
    end_place(&at);
}

/* C29: every length but the right one is damage; so is a byte more. */
static void an_entry_of_another_length_is_damage(void **state)
{
    (void)state;
    place at = make_place();
    size_t whole = at.payload.size;
    mw_buf_u8(&at.payload, 0);
    for (size_t bytes = 0; bytes <= at.payload.size; bytes++) {
        mw_adopted *adopted = NULL;
        mw_err err = {0};
        if (bytes == whole) continue;
        assert_int_equal(decode(&at, bytes, &adopted, &err), MW_CORRUPT);
        assert_non_null(strstr(err.text, "wal-x, offset 96: "));
    }
    end_place(&at);
}

/* Each field broken by itself: what it says cannot be. Offsets as FORMAT.md has them. */
static void fields_that_cannot_be_are_damage(void **state)
{
    (void)state;
    enum {
        RUN = 28,
        EPOCH = RUN,
        NUMBER = RUN + 8,
        ROWS = RUN + 16,
        BYTES = RUN + 32,
        MIN = RUN + 40,
        MAX = RUN + 48,
        KEY = RUN + 64,
        DELTA = 16,
        VERSIONS = 11 + 12 + 13 /* of the runs */
    };
    static const struct {
        size_t offset;
        uint64_t value;
    } broken[] = {{0, 0},     {0, 401},    {0, 101},   {8, 349},           {8, 0},      {EPOCH, 0},
                  {EPOCH, 4}, {NUMBER, 0}, {BYTES, 0}, {ROWS, UINT64_MAX}, {ROWS, 100}, {MIN, 151},
                  {MIN, 89},  {MAX, 99},   {MAX, 200}, {MAX, 401},
                  {DELTA, VERSIONS + 1}, {DELTA, -(uint64_t)VERSIONS - 1}, {DELTA, INT64_MAX}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        place at = make_place();
        mw_adopted *adopted = NULL;
        mw_put_u64(at.payload.data + broken[i].offset, broken[i].value);
        mw_rc rc = decode(&at, at.payload.size, &adopted, NULL);
        if (rc != MW_CORRUPT) fail_msg("field at %zu: %d", broken[i].offset, (int)rc);
        end_place(&at);
    }
    place at = make_place();
    mw_adopted *adopted = NULL;
    at.payload.data[KEY + 1] = 'z' + 1; /* above the highest */
    assert_int_equal(decode(&at, at.payload.size, &adopted, NULL), MW_CORRUPT);
    mw_put_u32(at.payload.data + 24, 0); /* no run */
    assert_int_equal(decode(&at, at.payload.size, &adopted, NULL), MW_CORRUPT);
    mw_put_u32(at.payload.data + 24, UINT32_MAX);
    assert_int_equal(decode(&at, at.payload.size, &adopted, NULL), MW_CORRUPT);
    end_place(&at);
}

/* Any byte changed: damage, or another entry that keeps the rules; no allocation is lost. */
static void no_changed_byte_is_a_crash(void **state)
{
    (void)state;
    place at = make_place();
    for (size_t i = 0; i < at.payload.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            mw_adopted *adopted = NULL;
            at.payload.data[i] ^= (uint8_t)(1 << bit);
            mw_rc rc = decode(&at, at.payload.size, &adopted, NULL);
            assert_true(rc == MW_OK || rc == MW_CORRUPT);
            if (rc == MW_OK) mw_adopted_free(adopted);
            at.payload.data[i] ^= (uint8_t)(1 << bit);
        }
    }
    end_place(&at);
}

static void decoding_without_memory_says_so(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (bool met = true; met; n++) {
        place at = make_place();
        mw_adopted *adopted = NULL;
        sim_fail(at.world, SIM_ALLOC, n, ENOMEM, false);
        mw_rc rc = decode(&at, at.payload.size, &adopted, NULL);
        met = sim_fail_hits(at.world) > 0;
        sim_fail_clear(at.world);
        assert_int_equal(rc, met ? MW_NOMEM : MW_OK);
        if (rc == MW_OK) mw_adopted_free(adopted);
        end_place(&at);
    }
    assert_true(n > 2 + 2 * RUNS);
}

/* ---- entries in a log ------------------------------------------------------------------------ */

typedef struct forgery {
    int64_t rows;  /* before it                          */
    bool first;    /* of its generation                  */
    bool reused;   /* sequences that others have already */
    int64_t delta; /* of the count                       */
    const char *words;
} forgery;

/* Writes an adopt entry of one file past all that sees to its rules. */
static void forge(mw_db *db, const forgery *of)
{
    mw_store *store = engine_store(db);
    mw_txn *turn = engine_begin(db);
    mw_overlay overlay;
    mw_adopted *adopted = NULL;
    mw_request request;
    uint64_t number = 0;
    uint8_t key[8];
    mw_log_op op = {true, engine_key(1, key), {NULL, 0}};
    uint64_t base = of->reused ? 0 : store->queued.sequence;
    assert_int_equal(mw_overlay_init(&overlay, store, base, NULL), MW_OK);
    assert_int_equal(mw_overlay_add(&overlay, &op, 0, NULL), MW_OK);
    assert_int_equal(mw_overlay_spill(&overlay, NULL), MW_OK);
    mw_runs *runs = mw_runs_ref(overlay.runs);
    assert_int_equal(mw_adopted_create(store->env, runs, &adopted, NULL), MW_OK);
    adopted->sequence_first = base + 1;
    adopted->sequence_last = overlay.last;
    adopted->delta = of->delta;
    assert_int_equal(mw_request_create(store, MW_LOG_ADOPT, &request, NULL), MW_OK);
    mw_adopted_encode(adopted, &request.payload);
    if (of->first) assert_int_equal(mw_flush_freeze(store, &number, NULL), MW_OK);
    uint64_t room = mw_log_entry_bytes(request.payload.size);
    assert_int_equal(mw_log_segment_reserve(store->segment, room, NULL), MW_OK);
    request.after = store->queued;
    mw_commit_queue(store, &request);
    assert_int_equal(mw_commit_wait(store, &request, NULL), MW_OK);
    mw_request_free(store, &request);
    mw_adopted_free(adopted);
    mw_overlay_free(&overlay, false);
    engine_rollback(turn);
}

/* I9 */
static void entries_that_break_a_rule_are_named(void **state)
{
    (void)state;
    static const forgery forgeries[] = {
        {2, true, false, 0, NULL},
        {2, false, false, 0,
         "expected position 3, which adopts table files, to be the first of "
         "generation 1, found 1"},
        {2, true, true, 0, "expected sequences above 2, found 1"},
        {0, true, false, -1, "position 1 changes the count of 0 live ids by -1"},
    };
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        for (int64_t row = 1; row <= forgeries[i].rows; row++) engine_put(db, row, "a");
        forge(db, &forgeries[i]);
        sim *after = sim_kill(world);
        mw_db_abandon(db);
        engine_end(world);
        mw_err err = {0};
        mw_db *again = NULL;
        mw_rc rc = engine_try_open(after, NULL, &again, &err);
        assert_int_equal(rc, forgeries[i].words ? MW_CORRUPT : MW_OK);
        if (forgeries[i].words) assert_non_null(strstr(err.text, forgeries[i].words));
        if (rc == MW_OK) mw_db_abandon(again);
        engine_end(after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_comes_back_as_it_was_written),
        cmocka_unit_test(an_entry_of_another_length_is_damage),
        cmocka_unit_test(fields_that_cannot_be_are_damage),
        cmocka_unit_test(no_changed_byte_is_a_crash),
        cmocka_unit_test(decoding_without_memory_says_so),
        cmocka_unit_test(entries_that_break_a_rule_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
