/* levels_threads_test.c: merges over several levels of little files, beside writers of every kind,
** readers that hold what they read, flushes and checks; with one descriptor for table files and
** next to no cache. */
#include "compact.h"

#include "engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITERS = 3, IDS = 300, TRANSACTIONS = 120, WORDS_BYTES = 32 };

typedef struct shared {
    mw_db *db;
    atomic_int writing; /* writers that have not ended */
} shared;

typedef struct worker {
    shared *all;
    int64_t index;
    uint64_t seed;
    int32_t model[IDS]; /* a writer's: values of its ids, which are index + i * WRITERS; 0: none */
    int32_t value;
    mw_err err;         /* what went wrong */
    pthread_t thread;
} worker;

static uint64_t roll(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static uint64_t first_seed(void)
{
    const char *given = getenv("MW_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003 + 1;
    print_message("replay: MW_SEED=%llu build/asan/tests/core/levels_threads_test\n",
                  (unsigned long long)seed);
    return seed;
}

/* ---- writing --------------------------------------------------------------------------------- */

static mw_rc write_some(worker *self, mw_txn *txn, int32_t *model, uint64_t count)
{
    char words[WORDS_BYTES];
    mw_rc rc = MW_OK;
    uint64_t from = roll(&self->seed) % IDS;
    bool together = roll(&self->seed) % 2;
    for (uint64_t i = 0; rc == MW_OK && i < count; i++) {
        uint64_t at = together ? (from + i) % IDS : roll(&self->seed) % IDS;
        bool deletes = roll(&self->seed) % 3 == 0;
        model[at] = deletes ? 0 : ++self->value;
        snprintf(words, sizeof words, "v%d", model[at]);
        int64_t id = self->index + (int64_t)at * WRITERS;
        rc = engine_txn_try(txn, id, deletes ? NULL : words, &self->err);
    }
    return rc;
}

/* Changes, some of which may be undone again. */
static mw_rc change(worker *self, mw_txn *txn, int32_t *model)
{
    bool large = roll(&self->seed) % 6 == 0;
    uint64_t mark = 0;
    mw_rc rc = write_some(self, txn, model, 1 + roll(&self->seed) % (large ? 60 : 6));
    if (rc != MW_OK || roll(&self->seed) % 4 > 0) return rc;
    int32_t undone[IDS];
    memcpy(undone, model, sizeof undone);
    rc = mw_txn_mark(txn, &mark, &self->err);
    if (rc == MW_OK) rc = write_some(self, txn, undone, 1 + roll(&self->seed) % 20);
    return rc == MW_OK ? mw_txn_undo(txn, mark, &self->err) : rc;
}

/* *kept: it is committed, neither rolled back nor taken back. */
static mw_rc finish(worker *self, mw_txn *txn, bool *kept)
{
    uint64_t way = roll(&self->seed) % 8;
    mw_txn_kind kind = roll(&self->seed) % 2 ? MW_TXN_LIGHT : MW_TXN_FULL;
    *kept = way > 2;
    if (way == 0) return mw_txn_rollback(txn, &self->err);
    mw_rc rc = mw_txn_prepare(txn, kind, &self->err);
    if (rc != MW_OK) {
        mw_rc ignored = mw_txn_rollback(txn, NULL);
        (void)ignored;
        return rc;
    }
    if (way == 1) usleep((useconds_t)(roll(&self->seed) % 3000)); /* merges stay clear of it */
    return *kept ? mw_txn_commit(txn, &self->err) : mw_txn_rollback(txn, &self->err);
}

/* All ids of the writer, one by one. */
static mw_rc compare(worker *self)
{
    mw_snapshot *snapshot = NULL;
    mw_cursor *cursor = NULL;
    mw_rc rc = mw_snapshot_take(self->all->db, NULL, &snapshot, &self->err);
    if (rc == MW_OK) rc = mw_cursor_open(snapshot, &cursor, &self->err);
    for (int64_t i = 0; rc == MW_OK && i < IDS; i++) {
        uint8_t key[8];
        char words[WORDS_BYTES] = "";
        rc = mw_cursor_find(cursor, engine_key(self->index + i * WRITERS, key), &self->err);
        if (rc == MW_OK && mw_cursor_valid(cursor)) {
            mw_value value = {.type = MW_NULL};
            rc = mw_cursor_column(cursor, 0, &value, &self->err);
            snprintf(words, sizeof words, "%.*s", (int)value.bytes.size, value.bytes.data);
        }
        int32_t found = words[0] ? (int32_t)strtol(words + 1, NULL, 10) : 0;
        if (rc == MW_OK && found != self->model[i]) {
            rc = mw_fail(&self->err, MW_CORRUPT, "id %lld: expected %d, found %d",
                         (long long)(self->index + i * WRITERS), self->model[i], found);
        }
    }
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
    return rc;
}

static mw_rc transact(worker *self)
{
    mw_txn *txn;
    int32_t model[IDS];
    bool kept = false;
    memcpy(model, self->model, sizeof model);
    mw_rc rc = mw_txn_begin(self->all->db, ENGINE_WAIT_MS, &txn, &self->err);
    if (rc != MW_OK) return rc;
    rc = change(self, txn, model);
    if (rc == MW_OK) rc = finish(self, txn, &kept);
    if (rc == MW_OK && kept) memcpy(self->model, model, sizeof model);
    return rc;
}

static void *write_rows(void *arg)
{
    worker *self = arg;
    mw_rc rc = MW_OK;
    for (int i = 0; rc == MW_OK && i < TRANSACTIONS; i++) {
        rc = transact(self);
        if (rc == MW_OK) rc = compare(self);
    }
    atomic_fetch_sub(&self->all->writing, 1);
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A sum over all rows, the same in both directions. */
static mw_rc sum_up(worker *self, mw_snapshot *snapshot, bool back, uint64_t *sum)
{
    mw_cursor *cursor;
    int64_t count = 0;
    *sum = 0;
    mw_rc rc = mw_cursor_open(snapshot, &cursor, &self->err);
    if (rc != MW_OK) return rc;
    rc = back ? mw_cursor_last(cursor, &self->err) : mw_cursor_first(cursor, &self->err);
    for (; rc == MW_OK && mw_cursor_valid(cursor); count++) {
        mw_value value = {.type = MW_NULL};
        rc = mw_cursor_column(cursor, 0, &value, &self->err);
        uint64_t row = (uint64_t)mw_key_get_integer(mw_cursor_key(cursor).data) + 1;
        for (size_t i = 0; i < value.bytes.size; i++) row = row * 131 + value.bytes.data[i];
        *sum += row * row;
        if (rc != MW_OK) break;
        rc = back ? mw_cursor_prev(cursor, &self->err) : mw_cursor_next(cursor, &self->err);
    }
    mw_cursor_close(cursor);
    if (rc == MW_OK && count != mw_snapshot_count(snapshot)) {
        rc = mw_fail(&self->err, MW_CORRUPT, "expected %lld rows, found %lld",
                     (long long)mw_snapshot_count(snapshot), (long long)count);
    }
    return rc;
}

static void *read_rows(void *arg)
{
    worker *self = arg;
    mw_rc rc = MW_OK;
    while (rc == MW_OK && atomic_load(&self->all->writing) > 0) {
        mw_snapshot *snapshot = NULL;
        uint64_t sums[4] = {0};
        rc = mw_snapshot_take(self->all->db, NULL, &snapshot, &self->err);
        for (int i = 0; rc == MW_OK && i < 4; i++) {
            rc = sum_up(self, snapshot, i % 2, &sums[i]);
            if (i == 1) usleep((useconds_t)(roll(&self->seed) % 20000));
            if (rc == MW_OK && sums[i] != sums[0]) {
                rc = mw_fail(&self->err, MW_CORRUPT, "a snapshot's rows changed");
            }
        }
        mw_snapshot_release(snapshot);
    }
    return NULL;
}

/* ---- keeping house --------------------------------------------------------------------------- */

static bool count_down(void *arg)
{
    uint64_t *left = arg;
    return (*left)-- == 0;
}

static void keep_line(void *arg, const char *line)
{
    mw_rc ignored = mw_fail(arg, MW_CORRUPT, "%s", line);
    (void)ignored;
}

static mw_rc keep_house(worker *self)
{
    mw_db *db = self->all->db;
    uint64_t left = roll(&self->seed) % 40;
    uint64_t number;
    uint32_t count;
    mw_rc rc = MW_OK;
    switch (roll(&self->seed) % 5) {
    case 0: return mw_db_flush(db, ENGINE_WAIT_MS, &number, &self->err);
    case 1: rc = mw_db_merge(db, (uint32_t)left % 4, count_down, &left, &count, &self->err); break;
    case 2: rc = mw_db_compact(db, count_down, &left, &number, &self->err); break;
    case 3: usleep(5000); return MW_OK;
    default: rc = mw_db_check(db, keep_line, &self->err, &count, &self->err); break;
    }
    if (rc != MW_INTERRUPTED) return self->err.rc;
    self->err = (mw_err){0};
    return MW_OK;
}

static void *keep_it(void *arg)
{
    worker *self = arg;
    while (keep_house(self) == MW_OK && atomic_load(&self->all->writing) > 0) continue;
    return NULL;
}

/* ---- all together ---------------------------------------------------------------------------- */

static mw_options little_options(bool background)
{
    mw_options options = engine_options();
    options.background = background;
    options.memtable_bytes = 1200;
    options.merge_generations = 2;
    options.group_rows = 3;
    options.file_bytes = 600;
    options.cache_bytes = 20000;
    options.open_files = 1;
    return options;
}

static void expect_fine(const worker *workers, int count)
{
    for (int i = 0; i < count; i++) {
        if (workers[i].err.rc != MW_OK) fail_msg("worker %d: %s", i, workers[i].err.text);
    }
}

/* After a reopen the writers find what they wrote, and a compaction leaves that and no file more. */
static void expect_all(sim *world, const mw_options *options, worker *writers)
{
    shared all = {.db = engine_open(world, options)};
    uint64_t removed;
    for (int i = 0; i < WRITERS; i++) {
        writers[i].all = &all;
        mw_rc rc = compare(&writers[i]);
        (void)rc;
    }
    expect_fine(writers, WRITERS);
    assert_string_equal(engine_check(all.db), "ok");
    assert_int_equal(mw_db_compact(all.db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(engine_figure(all.db, "physical_rows"), engine_figure(all.db, "rows"));
    assert_int_equal(engine_figure(all.db, "files"), engine_file_count(world, "table-"));
    assert_string_equal(engine_check(all.db), "ok");
    engine_close(all.db);
}

static void run_all(bool background)
{
    typedef void *(*work)(void *arg);
    static const work works[] = {write_rows, write_rows, write_rows, read_rows, read_rows, keep_it};
    enum { WORKERS = sizeof works / sizeof *works };
    static worker workers[WORKERS];
    uint64_t seed = first_seed();
    mw_options options = little_options(background);
    sim *world = engine_world();
    shared all = {.db = engine_open(world, &options)};
    atomic_init(&all.writing, WRITERS);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.all = &all, .index = i, .seed = roll(&seed)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, works[i], &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    expect_fine(workers, WORKERS);
    assert_true(engine_figure(all.db, "merges") > 10);
    engine_close(all.db);
    expect_all(world, &options, workers);
    engine_end(world);
}

/* I2, I5, I6, I7, I11, I13: whatever is merged meanwhile, a writer finds what it wrote, and a
** reader what it has found before. */
static void merges_are_not_seen(void **state)
{
    (void)state;
    run_all(true);
}

/* The same where writers merge themselves. */
static void merges_of_writers_are_not_seen(void **state)
{
    (void)state;
    run_all(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_not_seen),
        cmocka_unit_test(merges_of_writers_are_not_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
