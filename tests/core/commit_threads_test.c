/* commit_threads_test.c: many threads on one store in the real world: they share syncs, lose
** nothing, and are clean under the thread sanitizer beside flushes, merges, readers and the end. */
#include "engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A folder of its own for a store; `env`: the real world, with the syncs of the test's choice. */
typedef struct place {
    mw_env env;
    char folder[64];
    char path[80];
} place;

static place make_place(void)
{
    place at = {.env = *mw_env_posix()};
    mw_store_id id;
    mw_err err = {0};
    snprintf(at.folder, sizeof at.folder, "%s", "/tmp/memwal-threads-XXXXXX");
    assert_non_null(mkdtemp(at.folder));
    snprintf(at.path, sizeof at.path, "%s/store", at.folder);
    if (mw_db_create(&at.env, at.path, &engine_schema, &id, &err) != MW_OK)
        fail_msg("%s", err.text);
    return at;
}

static mw_db *open_place(const place *at, const mw_options *options)
{
    mw_db *db = NULL;
    mw_err err = {0};
    if (mw_db_open(&at->env, at->path, options, NULL, &db, &err) != MW_OK) fail_msg("%s", err.text);
    return db;
}

static void remove_place(place *at)
{
    mw_err err = {0};
    if (mw_db_remove(&at->env, at->path, &err) != MW_OK) fail_msg("%s", err.text);
    assert_int_equal(rmdir(at->folder), 0);
}

static int sync_nothing(void *ctx, int file)
{
    (void)ctx;
    (void)file;
    return 0;
}

/* A disk that takes 2 ms for a sync, as good ones do. */
static int sync_slowly(void *ctx, int file)
{
    usleep(2000);
    return mw_env_posix()->file_sync(ctx, file);
}

/* ---- group commit ---------------------------------------------------------------------------- */

enum { WRITERS = 16, COMMITS = 60 };

typedef struct writer {
    mw_db *db;
    int number;
    int64_t acked;
    mw_rc rc;
    mw_err err;
    pthread_t thread;
} writer;

/* Inserts ids of its own until it has COMMITS, or is told something else than "yes". */
static void *write_rows(void *arg)
{
    writer *self = arg;
    while (self->rc == MW_OK && self->acked < COMMITS) {
        int64_t id = self->acked * WRITERS + self->number;
        self->rc = engine_try(self->db, id, "words", MW_TXN_LIGHT, &self->err);
        self->acked += self->rc == MW_OK;
    }
    return NULL;
}

static void start_writers(writer writers[WRITERS], mw_db *db)
{
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){.db = db, .number = i};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_rows, &writers[i]), 0);
    }
}

/* I1: sixteen threads of light transactions share syncs: at most 0.3 of one a commit. The store is
** left without a word, and has every row when it is opened again. */
static void sixteen_threads_share_syncs(void **state)
{
    (void)state;
    place at = make_place();
    at.env.file_sync = sync_slowly;
    mw_options options = engine_options();
    mw_db *db = open_place(&at, &options);
    engine_rollback(engine_begin(db)); /* makes the segment, with syncs of its own */
    writer writers[WRITERS];
    start_writers(writers, db);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        if (writers[i].rc != MW_OK) fail_msg("%s", writers[i].err.text);
        assert_int_equal(writers[i].acked, COMMITS);
    }
    int64_t commits = engine_figure(db, "commits");
    double syncs = (double)engine_figure(db, "wal_syncs") / (double)commits;
    print_message("%lld commits, %.3f syncs a commit\n", (long long)commits, syncs);
    assert_int_equal(commits, WRITERS * COMMITS);
    assert_true(syncs <= 0.3);
    mw_db_abandon(db);
    db = open_place(&at, &options);
    assert_int_equal(engine_count(db), WRITERS * COMMITS);
    for (int64_t id = 0; id < WRITERS * COMMITS; id++)
        assert_string_equal(engine_find(db, id), "words");
    engine_close(db);
    remove_place(&at);
}

/* ---- everything at once ---------------------------------------------------------------------- */

enum { IDS = 300, ROUNDS = 150, MIXERS = 4 };

typedef struct worker {
    mw_db *db;
    atomic_bool *stop;
    int number;
    mw_rc rc;
    mw_err err;
    const char *wrong; /* what a reader saw that cannot be */
    uint64_t done;
    pthread_t thread;
} worker;

static uint64_t mix(uint64_t n)
{
    n ^= n >> 31;
    n *= UINT64_C(0x9e3779b97f4a7c15);
    return n ^ n >> 29;
}

/* A transaction of a few rows in one of the ways in which it can end. Rows come and go in pairs, id
** and id + IDS, in one transaction. */
static mw_rc mixed_transaction(worker *self, uint64_t dice)
{
    mw_txn *txn;
    mw_rc rc = mw_txn_begin(self->db, ENGINE_WAIT_MS, &txn, &self->err);
    if (rc != MW_OK) return rc;
    for (int i = 0; i < 3 && rc == MW_OK; i++) {
        int64_t id = (int64_t)(mix(dice + (uint64_t)i) % IDS);
        const char *words = mix(dice * 3 + (uint64_t)i) % 3 ? "pair" : NULL;
        rc = engine_txn_try(txn, id, words, &self->err);
        if (rc == MW_OK) rc = engine_txn_try(txn, id + IDS, words, &self->err);
    }
    mw_txn_kind kind = dice % 5 == 0 ? MW_TXN_FULL : MW_TXN_LIGHT;
    if (rc == MW_OK) rc = mw_txn_prepare(txn, kind, &self->err);
    mw_err second = {0};
    mw_rc end =
        rc == MW_OK && dice % 11 ? mw_txn_commit(txn, &second) : mw_txn_rollback(txn, &second);
    return rc == MW_OK ? end : rc;
}

static void *mix_transactions(void *arg)
{
    worker *self = arg;
    for (uint64_t i = 0; self->rc == MW_OK && i < ROUNDS; i++, self->done++) {
        self->rc = mixed_transaction(self, mix(i * 31 + (uint64_t)self->number));
    }
    return NULL;
}

/* One moment: as many low ids as high ones, each low one with its partner, and the count says
** so. */
static const char *read_once(mw_snapshot *snapshot, mw_rc *rc, mw_err *err)
{
    bool low[IDS] = {false};
    int64_t count = 0;
    mw_cursor *cursor;
    const char *wrong = NULL;
    *rc = mw_cursor_open(snapshot, &cursor, err);
    if (*rc != MW_OK) return NULL;
    for (*rc = mw_cursor_first(cursor, err); *rc == MW_OK && mw_cursor_valid(cursor); count++) {
        int64_t id = mw_key_get_integer(mw_cursor_key(cursor).data);
        if (id < IDS)
            low[id] = true;
        else if (!low[id - IDS])
            wrong = "a row without its partner";
        else
            low[id - IDS] = false;
        *rc = mw_cursor_next(cursor, err);
    }
    for (int64_t id = 0; id < IDS; id++) {
        if (low[id]) wrong = "a row without its partner";
    }
    if (count != mw_snapshot_count(snapshot)) wrong = "a count that is not that of its rows";
    mw_cursor_close(cursor);
    return *rc == MW_OK ? wrong : NULL;
}

static void *read_again_and_again(void *arg)
{
    worker *self = arg;
    while (self->rc == MW_OK && !self->wrong && !atomic_load(self->stop)) {
        mw_snapshot *snapshot;
        self->rc = mw_snapshot_take(self->db, NULL, &snapshot, &self->err);
        if (self->rc != MW_OK) break;
        self->wrong = read_once(snapshot, &self->rc, &self->err);
        mw_snapshot_release(snapshot);
        self->done++;
    }
    return NULL;
}

static void ignore_figure(void *arg, const char *name, const mw_value *value)
{
    (void)arg;
    (void)name;
    (void)value;
}

static void ignore_line(void *arg, const char *line) { *(const char **)arg = line; }

/* Flushes, merges, checks and asks for figures, in turn. */
static void *keep_house(void *arg)
{
    worker *self = arg;
    while (self->rc == MW_OK && !self->wrong && !atomic_load(self->stop)) {
        uint64_t generation;
        uint32_t number = 0;
        const char *line = NULL;
        uint64_t what = self->done++ % 8;
        if (what < 4) self->rc = mw_db_stats(self->db, ignore_figure, NULL, &self->err);
        if (what == 4) self->rc = mw_db_flush(self->db, ENGINE_WAIT_MS, &generation, &self->err);
        if (what == 5) self->rc = mw_db_merge(self->db, 2, NULL, NULL, &number, &self->err);
        if (what == 6) self->rc = mw_db_check(self->db, ignore_line, &line, &number, &self->err);
        if (what == 6 && number > 0) self->wrong = "a fault";
        usleep(500);
    }
    return NULL;
}

static void join_all(worker *workers, int count)
{
    for (int i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].rc != MW_OK) fail_msg("worker %d: %s", i, workers[i].err.text);
        if (workers[i].wrong) fail_msg("worker %d saw %s", i, workers[i].wrong);
        assert_true(workers[i].done > 0);
    }
}

/* I2, I3, I7, I13: several writers of all kinds, readers, a thread that flushes and merges in the
** background and one that does so by hand; each reader sees whole transactions only. Closed at
** once, opened again. */
static void writers_readers_and_housekeeping_do_not_meet(void **state)
{
    (void)state;
    enum { READERS = 2, ALL = MIXERS + READERS + 1 };
    for (int normal = 0; normal < 2; normal++) {
        place at = make_place();
        at.env.file_sync = sync_nothing;
        mw_options options = engine_options();
        options.background = true;
        options.memtable_bytes = 16 << 10;
        options.merge_generations = 3;
        options.durability = normal ? MW_DURABILITY_NORMAL : MW_DURABILITY_FULL;
        mw_db *db = open_place(&at, &options);
        atomic_bool stop = false;
        worker workers[ALL];
        for (int i = 0; i < ALL; i++) {
            workers[i] = (worker){.db = db, .stop = &stop, .number = i};
            void *(*run)(void *) = i < MIXERS             ? mix_transactions
                                   : i < MIXERS + READERS ? read_again_and_again
                                                          : keep_house;
            assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
        }
        join_all(workers, MIXERS);
        atomic_store(&stop, true);
        join_all(workers + MIXERS, READERS + 1);
        int64_t count = engine_count(db);
        assert_true(engine_figure(db, "flushes") > 2);
        engine_close(db);
        db = open_place(&at, &options);
        assert_int_equal(engine_count(db), count);
        assert_string_equal(engine_check(db), "ok");
        engine_close(db);
        remove_place(&at);
    }
}

/* Nobody may begin when the store is closed; who is inside a transaction then is waited for. */
typedef struct gate {
    pthread_rwlock_t lock;
    bool shut;
} gate;

typedef struct visitor {
    mw_db *db;
    gate *gate;
    int number;
    int64_t acked;
    mw_rc rc;
    mw_err err;
    pthread_t thread;
} visitor;

/* MW_CLOSED when the gate is shut. */
static mw_rc begin_at_gate(visitor *self, mw_txn **txn)
{
    pthread_rwlock_rdlock(&self->gate->lock);
    mw_rc rc =
        self->gate->shut ? MW_CLOSED : mw_txn_begin(self->db, ENGINE_WAIT_MS, txn, &self->err);
    pthread_rwlock_unlock(&self->gate->lock);
    return rc;
}

static void *write_until_shut(void *arg)
{
    visitor *self = arg;
    while (self->rc == MW_OK) {
        mw_txn *txn = NULL;
        self->rc = begin_at_gate(self, &txn);
        if (self->rc != MW_OK) break;
        int64_t id = self->acked * WRITERS + self->number;
        self->rc = engine_txn_try(txn, id, "words", &self->err);
        if (self->rc == MW_OK) self->rc = mw_txn_prepare(txn, MW_TXN_LIGHT, &self->err);
        self->acked += self->rc == MW_OK;
        mw_err second = {0};
        mw_rc end = self->rc == MW_OK ? mw_txn_commit(txn, &second) : mw_txn_rollback(txn, &second);
        if (self->rc == MW_OK) self->rc = end;
    }
    return NULL;
}

static void make_gate(gate *made)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&made->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    made->shut = false;
}

/* I14: the store is closed while writers are inside their transactions: each ends, with "yes" or
** with MW_CLOSED, and exactly the rows of a "yes" are there afterwards. */
static void closing_ends_every_writer(void **state)
{
    (void)state;
    int64_t acked = 0;
    for (unsigned round = 0; round < 10; round++) {
        place at = make_place();
        at.env.file_sync = sync_slowly;
        mw_options options = engine_options();
        options.background = true;
        options.memtable_bytes = 4 << 10;
        mw_db *db = open_place(&at, &options);
        gate made;
        visitor visitors[WRITERS];
        make_gate(&made);
        for (int i = 0; i < WRITERS; i++) {
            visitors[i] = (visitor){.db = db, .gate = &made, .number = i};
            assert_int_equal(
                pthread_create(&visitors[i].thread, NULL, write_until_shut, &visitors[i]), 0);
        }
        usleep(20000 + 3000 * round);
        pthread_rwlock_wrlock(&made.lock);
        made.shut = true;
        mw_err err = {0};
        if (mw_db_close(db, &err) != MW_OK) fail_msg("%s", err.text);
        pthread_rwlock_unlock(&made.lock);
        int64_t rows = 0;
        for (int i = 0; i < WRITERS; i++) {
            pthread_join(visitors[i].thread, NULL);
            assert_int_equal(visitors[i].rc, MW_CLOSED);
            rows += visitors[i].acked;
        }
        pthread_rwlock_destroy(&made.lock);
        db = open_place(&at, &options);
        assert_int_equal(engine_count(db), rows);
        engine_close(db);
        remove_place(&at);
        acked += rows;
    }
    assert_true(acked > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_threads_share_syncs),
        cmocka_unit_test(writers_readers_and_housekeeping_do_not_meet),
        cmocka_unit_test(closing_ends_every_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
