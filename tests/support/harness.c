/* harness.c: scripts, answers, and what the oracle is told of them.
**
** What an answer means (db.h): OK is durable; "persistence" is unknown until a reopen; everything
** else has certainly not happened. After a reopen the unknown is settled by what is read: from then on
** it has happened or never may. */
#include "harness.h"

#include <ctype.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "coding.h"

static const char store_path[] = "store";

enum {
    COLUMNS = 3,
    KEYS = 64,
    ROW_BYTES_MAX = 8192,
    WORD_CHANGES_MAX = 16,
    WAIT_MS = 600000,  /* of the simulated clock: never in a right run */
    CLOCK_SPEED = 100, /* a peer's seal is waited for 10 ms, not a second */
    GROW_BYTES = 4096, /* what a log segment grows at a time: the rest would be zeros that each opening reads */
};

const harness_workload harness_workloads[] = {
    {"create", "create", 100, 1 << 20, false, false},
    {"insert", "create open light+1", 3000, 1 << 20, false, false},
    {"group", "create open light+1 group+10+11+12+13+14+15+16+17+18 full+2", 600, 1 << 20, false, false},
    {"one id", "create open light+1 full+1 light-1 full+1-1 light+1 full-1 light+1+1 close", 700,
     1 << 20, false, false},
    {"rotation", "create open light+1 light+2 full+3-1 light+4 light+5+1 full+6 light-5", 700, 1500, false,
     false},
    {"flush", "create open light+1+2 flush light+3-1 full+2 close open light+4", 900, 1 << 20, false, false},
    {"merge", "create open light+1+2+3 flush full+2+4 flush merge light+5-3", 500, 1 << 20, false, false},
    {"merge of deletes",
     "create open full+1+2+3 flush light-1-2 flush merge light+1-3 flush light-1 flush merge full+2",
     400, 1 << 20, false, false},
    {"takeover",
     "create open light+1 full+2 b:open !light+9 b:light+3-1 b:flush b:full+4 b:merge b:light+5", 700,
     1 << 20, true, false},
    {"abort", "create open full+1 abort+1-2+3 light+2 retry+3+4 abort-2 full+5 flush abort+6 close",
     600, 1 << 20, false, false},
    {"compensation", "create open light+1+2 undo+1-2+3 light+3 flush undo-1+2 full+4 undo+5", 600,
     1 << 20, false, false},
    {"normal", "create open light+1 full+2 light+3-1 close open light+4+1 abort+5 undo-2 full+5 light-4", 600,
     1 << 20, false, true},
};
const uint32_t harness_workload_count = sizeof harness_workloads / sizeof *harness_workloads;

const harness_workload *harness_workload_named(const char *name)
{
    for (uint32_t i = 0; i < harness_workload_count; i++) {
        if (strcmp(harness_workloads[i].name, name) == 0) return &harness_workloads[i];
    }
    return NULL;
}

static bool wrong(harness *h, const char *format, ...) MW_PRINTF(2, 3);
static bool wrong(harness *h, const char *format, ...)
{
    if (h->words[0]) return false; /* the first one counts */
    va_list args;
    va_start(args, format);
    vsnprintf(h->words, sizeof h->words, format, args);
    va_end(args);
    return false;
}

static _Noreturn void give_up(const char *why, const char *what)
{
    fprintf(stderr, "harness: %s: %s\n", why, what);
    abort();
}

/* ---- the machine ------------------------------------------------------------------------------ */

static uint64_t fast_now(void *world)
{
    return sim_env(world)->now_ns(world) * CLOCK_SPEED;
}

static bool fast_wait(void *world, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    uint64_t until = deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns / CLOCK_SPEED + 1;
    return sim_env(world)->cond_wait(world, cond, mutex, until);
}

/* Where a commit is not synced nobody shall do it when a time has passed, but when the script says so. */
static uint64_t still_now(void *world)
{
    (void)world;
    return (uint64_t)1 << 40;
}

static bool still_wait(void *world, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    (void)deadline_ns;
    return sim_env(world)->cond_wait(world, cond, mutex, UINT64_MAX);
}

static int grow_little(void *world, int file, uint64_t offset, uint64_t bytes)
{
    return sim_env(world)->file_allocate(world, file, offset, mw_min(bytes, GROW_BYTES));
}

void harness_start(harness *h, const harness_workload *workload, sim *world, const harness *before)
{
    memset(h, 0, sizeof *h);
    h->workload = workload;
    h->world = world;
    h->env = *sim_env(world);
    h->env.now_ns = workload->normal ? still_now : fast_now;
    h->env.cond_wait = workload->normal ? still_wait : fast_wait;
    h->env.file_allocate = grow_little;
    if (before) h->past = before->past;
}

static mw_options options_of(const harness *h)
{
    mw_options options = mw_options_default();
    options.memtable_bytes = h->workload->memtable_bytes;
    options.cache_bytes = 1 << 16;
    options.background = false;
    options.group_rows = 2;
    options.compression = 0;
    options.shared = h->workload->shared;
    options.durability = h->workload->normal ? MW_DURABILITY_NORMAL : MW_DURABILITY_FULL;
    return options;
}

/* ---- the past --------------------------------------------------------------------------------- */

static size_t note_commit(harness *h, int engine, const harness_change *changes, size_t count)
{
    harness_past *past = &h->past;
    bool room = past->commit_count < HARNESS_COMMITS_MAX &&
                past->change_count + count <= HARNESS_CHANGES_MAX;
    if (!room) give_up("too many commits", h->workload->name);
    harness_commit *commit = &past->commits[past->commit_count++];
    *commit = (harness_commit){ORACLE_FAILED, (uint8_t)engine, past->change_count, (uint16_t)count};
    for (size_t i = 0; i < count; i++) {
        harness_change *change = &past->changes[past->change_count++];
        *change = changes[i];
        if (!change->deleted && change->tag == 0) change->tag = ++past->tag;
    }
    return past->commit_count - 1u;
}

/* The newest change of a key by the commits before `end` that are known to have happened. */
static const harness_change *newest_change(const harness *h, uint8_t key, size_t end)
{
    const harness_change *newest = NULL;
    for (size_t i = 0; i < end; i++) {
        const harness_commit *commit = &h->past.commits[i];
        for (size_t j = 0; commit->fate == ORACLE_ACKED && j < commit->count; j++) {
            const harness_change *change = &h->past.changes[commit->first + j];
            if (change->key == key) newest = change;
        }
    }
    return newest;
}

static bool any_fate(const harness *h, oracle_fate fate)
{
    for (size_t i = 0; i < h->past.commit_count; i++) {
        if (h->past.commits[i].fate == fate) return true;
    }
    return false;
}

/* The row of a tag: unlike any other, also in each of its sectors. */
static void make_row(const harness *h, uint16_t tag, mw_buf *row)
{
    uint8_t text[ROW_BYTES_MAX];
    uint32_t state = tag * 2654435761u;
    for (uint32_t i = 0; i < h->workload->row_bytes; i++) {
        if (i % 4 == 0) state = state * 1664525u + 1013904223u;
        text[i] = (uint8_t)('a' + (state >> (7 + i % 4 * 6)) % 16);
    }
    mw_value values[COLUMNS] = {
        {.type = MW_INTEGER, .integer = tag},
        {.type = MW_TEXT, .bytes = mw_slice_of(text, h->workload->row_bytes)},
        {.type = tag % 2 ? MW_REAL : MW_NULL, .real = tag / 4.0},
    };
    mw_buf_clear(row);
    mw_row_encode(row, values, COLUMNS);
    if (row->failed) give_up("no memory", "a row");
}

static mw_slice make_key(uint8_t key, uint8_t to[MW_INTEGER_KEY_BYTES])
{
    mw_key_put_integer(to, key);
    return mw_slice_of(to, MW_INTEGER_KEY_BYTES);
}

static oracle *make_oracle(const harness *h, bool live)
{
    oracle *o = oracle_create();
    mw_buf row;
    mw_buf_init(&row, mw_env_posix());
    for (size_t i = 0; i < h->past.commit_count; i++) {
        const harness_commit *commit = &h->past.commits[i];
        size_t number = oracle_commit(o);
        for (size_t j = 0; j < commit->count; j++) {
            const harness_change *change = &h->past.changes[commit->first + j];
            uint8_t bytes[MW_INTEGER_KEY_BYTES];
            mw_slice key = make_key(change->key, bytes);
            if (change->deleted) {
                oracle_delete(o, key.data, key.size);
            } else {
                make_row(h, change->tag, &row);
                oracle_put(o, key.data, key.size, row.data, row.size);
            }
        }
        bool never = live && commit->fate == ORACLE_UNKNOWN;
        oracle_fate_is(o, number, never ? ORACLE_FAILED : commit->fate);
    }
    mw_buf_free(&row);
    return o;
}

static void adopt(harness *h, size_t cut)
{
    for (size_t i = 0; i < h->past.commit_count; i++) {
        oracle_fate *fate = &h->past.commits[i].fate;
        if (*fate == ORACLE_UNKNOWN) *fate = i < cut ? ORACLE_ACKED : ORACLE_FAILED;
    }
}

void harness_power_cut(harness *h)
{
    for (size_t i = h->past.synced; h->workload->normal && i < h->past.commit_count; i++) {
        oracle_fate *fate = &h->past.commits[i].fate;
        if (*fate == ORACLE_ACKED) *fate = ORACLE_UNKNOWN;
    }
}

/* ---- answers ---------------------------------------------------------------------------------- */

/* Is that an answer that the call may give here? */
static bool allowed(harness *h, const char *what, mw_rc rc, const mw_err *err)
{
    if (rc == MW_OK) return true;
    bool honest = rc == MW_NOMEM || rc == MW_IO || rc == MW_FULL || rc == MW_FENCED ||
                  rc == MW_PERSISTENCE;
    if (honest && (h->lenient || sim_stopped(h->world))) return true;
    return wrong(h, "%s answered '%s': %s", what, mw_rc_text(rc), err->text);
}

static void note_stop(harness *h, int engine, mw_rc rc)
{
    if (rc == MW_PERSISTENCE || rc == MW_FENCED) h->stopped[engine] = true;
}

static bool is_idle(harness *h)
{
    for (int i = 0; i < HARNESS_ENGINES; i++) {
        if (h->db[i]) return true;
    }
    uint64_t bytes = sim_memory_in_use(h->world);
    uint32_t open = sim_open_count(h->world);
    uint32_t objects = sim_object_count(h->world);
    if (!bytes && !open && !objects) return true;
    return wrong(h, "left after the end: %llu bytes of memory, %u open files, %u locks or threads",
                 (unsigned long long)bytes, open, objects);
}

static bool close_engine(harness *h, int engine)
{
    mw_err err = {0};
    if (!h->db[engine]) return true;
    mw_rc rc = mw_db_close(h->db[engine], &err);
    bool expected = h->stopped[engine] && (rc == MW_FENCED || rc == MW_PERSISTENCE);
    h->db[engine] = NULL;
    h->stopped[engine] = h->probed[engine] = false;
    if (rc == MW_OK) h->past.synced = h->past.commit_count;
    return (expected || allowed(h, "close", rc, &err)) && is_idle(h);
}

bool harness_close(harness *h)
{
    bool right = true;
    for (int i = 0; i < HARNESS_ENGINES; i++) right = close_engine(h, i) && right;
    return right && is_idle(h);
}

bool harness_kill(harness *h)
{
    for (int i = 0; i < HARNESS_ENGINES; i++) {
        if (h->db[i]) mw_db_abandon(h->db[i]);
        h->db[i] = NULL;
        h->stopped[i] = h->probed[i] = false;
    }
    return is_idle(h);
}

/* ---- reading ---------------------------------------------------------------------------------- */

typedef struct sight {
    uint8_t key[MW_INTEGER_KEY_BYTES];
    size_t offset; /* of its row in `bytes` */
    size_t size;
} sight;

typedef struct scan {
    mw_cursor *cursor;
    mw_buf bytes; /* of all rows that were seen forward */
    mw_buf row;
    sight seen[KEYS];
    size_t count;
} scan;

static mw_rc append_row(scan *s, mw_buf *to, mw_err *err)
{
    mw_value values[COLUMNS];
    for (uint32_t i = 0; i < COLUMNS; i++) {
        mw_rc rc = mw_cursor_column(s->cursor, i, &values[i], err);
        if (rc != MW_OK) return rc;
    }
    mw_row_encode(to, values, COLUMNS);
    return MW_OK;
}

static mw_rc see_forward(scan *s, mw_err *err)
{
    mw_rc rc = mw_cursor_first(s->cursor, err);
    while (rc == MW_OK && mw_cursor_valid(s->cursor)) {
        mw_slice key = mw_cursor_key(s->cursor);
        if (s->count == KEYS || key.size != MW_INTEGER_KEY_BYTES) {
            return mw_fail(err, MW_MISUSE, "more rows, or a longer key, than were ever written");
        }
        sight *at = &s->seen[s->count++];
        memcpy(at->key, key.data, key.size);
        at->offset = s->bytes.size;
        rc = append_row(s, &s->bytes, err);
        at->size = s->bytes.size - at->offset;
        if (rc == MW_OK) rc = mw_cursor_next(s->cursor, err);
    }
    return rc;
}

/* The cursor stands on what was the i-th row forward. */
static mw_rc compare_row(scan *s, size_t i, mw_err *err)
{
    const sight *at = &s->seen[i];
    mw_buf_clear(&s->row);
    mw_rc rc = append_row(s, &s->row, err);
    if (rc != MW_OK) return rc;
    bool same = mw_slice_equal(mw_cursor_key(s->cursor), mw_slice_of(at->key, sizeof at->key)) &&
                mw_slice_equal(mw_buf_slice(&s->row), mw_slice_of(s->bytes.data + at->offset, at->size));
    return same ? MW_OK : mw_fail(err, MW_MISUSE, "row %zu is another one in a second look", i);
}

static mw_rc see_backward(scan *s, mw_err *err)
{
    size_t i = s->count;
    mw_rc rc = mw_cursor_last(s->cursor, err);
    while (rc == MW_OK && i > 0 && mw_cursor_valid(s->cursor)) {
        rc = compare_row(s, --i, err);
        if (rc == MW_OK) rc = mw_cursor_prev(s->cursor, err);
    }
    if (rc == MW_OK && (i > 0 || mw_cursor_valid(s->cursor))) {
        rc = mw_fail(err, MW_MISUSE, "%zu rows forward, another number backward", s->count);
    }
    return rc;
}

static mw_rc see_each(scan *s, mw_err *err)
{
    size_t i = 0;
    mw_rc rc = MW_OK;
    for (uint8_t key = 0; rc == MW_OK && key < KEYS; key++) {
        uint8_t bytes[MW_INTEGER_KEY_BYTES];
        mw_slice wanted = make_key(key, bytes);
        rc = mw_cursor_find(s->cursor, wanted, err);
        if (rc != MW_OK) break;
        bool expected = i < s->count && memcmp(s->seen[i].key, bytes, sizeof bytes) == 0;
        if (mw_cursor_valid(s->cursor) != expected) {
            return mw_fail(err, MW_MISUSE, "a scan and a look for key %d differ", key);
        }
        if (expected) rc = compare_row(s, i++, err);
    }
    return rc;
}

static bool compare_with_oracle(harness *h, const scan *s, int64_t count, bool live)
{
    oracle_row rows[KEYS];
    for (size_t i = 0; i < s->count; i++) {
        const sight *at = &s->seen[i];
        rows[i] = (oracle_row){at->key, sizeof at->key, s->bytes.data + at->offset, at->size};
    }
    oracle_seen seen = {rows, s->count, count};
    oracle *o = make_oracle(h, live);
    char words[ORACLE_WORDS_BYTES];
    size_t cut;
    bool right = oracle_check(o, &seen, &cut, words);
    oracle_destroy(o);
    if (!right) return wrong(h, "%s", words);
    if (!live) adopt(h, cut);
    return true;
}

/* Gives the first `happened[e]` of what is unknown of each engine the fate that it has happened, the
** others that it never will. */
static void decide(harness *h, const int happened[HARNESS_ENGINES])
{
    int unknown[HARNESS_ENGINES] = {0};
    for (size_t i = 0; i < h->past.commit_count; i++) {
        harness_commit *commit = &h->past.commits[i];
        if (commit->fate != ORACLE_UNKNOWN) continue;
        bool yes = unknown[commit->engine]++ < happened[commit->engine];
        commit->fate = yes ? ORACLE_ACKED : ORACLE_FAILED;
    }
}

/* Settles what is unknown by what is read. Of one engine's commits a prefix has happened: the oracle finds
** the cut. Of two engines, where one was fenced by the other, it is a prefix of each one's own. */
static bool settle_unknown(harness *h, const scan *s, int64_t count)
{
    if (!h->workload->shared) return compare_with_oracle(h, s, count, false);
    harness_past before = h->past;
    int unknown[HARNESS_ENGINES] = {0};
    for (size_t i = 0; i < before.commit_count; i++) {
        const harness_commit *commit = &before.commits[i];
        unknown[commit->engine] += commit->fate == ORACLE_UNKNOWN;
    }
    for (int a = 0; a <= unknown[0]; a++) {
        for (int b = 0; b <= unknown[1]; b++) {
            h->words[0] = 0;
            h->past = before;
            decide(h, (int[HARNESS_ENGINES]){a, b});
            if (compare_with_oracle(h, s, count, false)) return true;
        }
    }
    return false;
}

/* done: false where it could not be read, but need not. */
static bool look(harness *h, bool (*compare)(harness *h, const scan *s, int64_t count), bool *done)
{
    mw_err err = {0};
    mw_snapshot *snapshot = NULL;
    scan s = {.count = 0};
    mw_buf_init(&s.bytes, mw_env_posix());
    mw_buf_init(&s.row, mw_env_posix());
    mw_rc rc = mw_snapshot_take(h->db[h->owner], NULL, &snapshot, &err);
    if (rc == MW_OK) rc = mw_cursor_open(snapshot, &s.cursor, &err);
    if (rc == MW_OK) rc = see_forward(&s, &err);
    if (rc == MW_OK) rc = see_backward(&s, &err);
    if (rc == MW_OK) rc = see_each(&s, &err);
    *done = rc == MW_OK;
    bool right = allowed(h, "reading", rc, &err);
    if (rc == MW_OK) right = compare(h, &s, mw_snapshot_count(snapshot));
    mw_cursor_close(s.cursor);
    mw_snapshot_release(snapshot);
    mw_buf_free(&s.bytes);
    mw_buf_free(&s.row);
    return right;
}

static bool compare_living(harness *h, const scan *s, int64_t count)
{
    return h->halted ? settle_unknown(h, s, count) : compare_with_oracle(h, s, count, true);
}

bool harness_check(harness *h, bool live)
{
    bool done;
    return look(h, live ? compare_living : settle_unknown, &done);
}

/* ---- opening ---------------------------------------------------------------------------------- */

static bool create_store(harness *h)
{
    static const uint32_t ids[COLUMNS] = {1, 2, 3};
    mw_schema schema = {.key = MW_KEY_INTEGER, .column_count = COLUMNS, .column_ids = ids};
    mw_store_id id;
    mw_err err = {0};
    mw_rc rc = mw_db_create(&h->env, store_path, &schema, &id, &err);
    if (rc == MW_OK) h->past.created = true;
    /* An earlier try has failed, but what it made may stand. */
    bool again = rc == MW_EXISTS && h->lenient && !h->past.created;
    return again || allowed(h, "create", rc, &err);
}

static bool is_blank(const harness *h)
{
    return !h->past.created && !any_fate(h, ORACLE_ACKED);
}

/* A store whose creation was never acknowledged may be missing: then it can be made. */
static bool open_engine(harness *h, int engine)
{
    mw_options options = options_of(h);
    mw_err err = {0};
    mw_db **db = &h->db[engine];
    mw_rc rc = mw_db_open(&h->env, store_path, &options, NULL, db, &err);
    if (rc == MW_MISSING && is_blank(h)) {
        if (!create_store(h)) return false;
        err = (mw_err){0};
        rc = mw_db_open(&h->env, store_path, &options, NULL, db, &err);
        if (rc == MW_MISSING && is_blank(h)) rc = MW_IO; /* it could not be made */
    }
    if (rc != MW_OK) return allowed(h, "open", rc, &err);
    h->stopped[engine] = h->probed[engine] = false;
    h->owner = engine;
    if (!harness_check(h, false)) return false;
    h->past.synced = h->past.commit_count; /* the opening has made durable what it shows */
    /* What is still unknown could not be read: then this engine must not go on. */
    return any_fate(h, ORACLE_UNKNOWN) ? close_engine(h, engine) : true;
}

/* ---- transactions ----------------------------------------------------------------------------- */

/* A transaction up to the answer to its prepare. */
typedef struct attempt {
    mw_db *db;
    size_t commit;
    mw_txn_kind kind;
    mw_txn *txn; /* NULL: it could not be begun, or is over */
    oracle_fate fate;
    mw_rc rc;
    mw_err err;
} attempt;

static bool lived(const harness *h, size_t commit, size_t change_index)
{
    const harness_commit *own = &h->past.commits[commit];
    const harness_change *changes = &h->past.changes[own->first];
    uint8_t key = changes[change_index].key;
    for (size_t i = change_index; i-- > 0;) {
        if (changes[i].key == key) return !changes[i].deleted;
    }
    const harness_change *before = newest_change(h, key, commit);
    return before && !before->deleted;
}

/* Makes change i of a commit; the engine must know whether the id lived. */
static mw_rc make_change(const harness *h, attempt *a, size_t i, mw_buf *row)
{
    const harness_change *change = &h->past.changes[h->past.commits[a->commit].first + i];
    uint8_t bytes[MW_INTEGER_KEY_BYTES];
    mw_slice key = make_key(change->key, bytes);
    bool expected = lived(h, a->commit, i);
    bool was = false;
    int64_t delta = mw_txn_count_delta(a->txn) + (change->deleted ? 0 : 1) - expected;
    if (!change->deleted) make_row(h, change->tag, row);
    mw_rc rc = change->deleted ? mw_txn_delete(a->txn, key, &was, &a->err)
                               : mw_txn_put(a->txn, key, mw_buf_slice(row), &was, &a->err);
    if (rc == MW_OK && (was != expected || mw_txn_count_delta(a->txn) != delta)) {
        rc = mw_fail(&a->err, MW_MISUSE, "key %d: expected that it %s before", change->key,
                     expected ? "lived" : "did not live");
    }
    return rc;
}

static void attempt_changes(const harness *h, attempt *a, size_t from, size_t count)
{
    mw_buf row;
    mw_buf_init(&row, mw_env_posix());
    for (size_t i = from; a->rc == MW_OK && i < from + count; i++) a->rc = make_change(h, a, i, &row);
    mw_buf_free(&row);
}

static void attempt_prepare(attempt *a)
{
    if (a->rc != MW_OK) return;
    a->rc = mw_txn_prepare(a->txn, a->kind, &a->err);
    a->fate = a->rc == MW_OK            ? ORACLE_ACKED
              : a->rc == MW_PERSISTENCE ? ORACLE_UNKNOWN
                                        : ORACLE_FAILED;
}

static void attempt_begin(attempt *a)
{
    a->fate = ORACLE_FAILED;
    a->rc = mw_txn_begin(a->db, WAIT_MS, &a->txn, &a->err);
    if (a->rc != MW_OK) a->txn = NULL;
}

/* Commits what is prepared, rolls back what has failed: neither may fail. */
static void attempt_end(attempt *a)
{
    mw_err err = {0};
    if (!a->txn) return;
    mw_rc rc = a->rc == MW_OK ? mw_txn_commit(a->txn, &err) : mw_txn_rollback(a->txn, &err);
    a->txn = NULL;
    if (rc == MW_OK) return;
    a->rc = MW_MISUSE;
    a->err = err;
}

/* ---- words of a script ------------------------------------------------------------------------ */

typedef struct word {
    char name[16];
    int engine;
    bool fenced;
    harness_change changes[WORD_CHANGES_MAX];
    size_t count;
} word;

/* Tells the past what came of an attempt. */
static bool settle(harness *h, const word *w, const attempt *a)
{
    bool before = h->stopped[w->engine];
    h->past.commits[a->commit].fate = a->fate;
    note_stop(h, w->engine, a->rc);
    if (a->rc == MW_OK && before) {
        return wrong(h, "%s was acknowledged by a writer that had stopped", w->name);
    }
    if (a->rc == MW_OK) {
        h->owner = w->engine;
        bool done = true;
        if (any_fate(h, ORACLE_UNKNOWN) && !look(h, settle_unknown, &done)) return false;
        h->halted = !done;
    }
    if (!w->fenced || h->lenient || sim_stopped(h->world)) return allowed(h, w->name, a->rc, &a->err);
    return a->rc == MW_FENCED || wrong(h, "expected %s to be fenced, it answered '%s'", w->name,
                                       mw_rc_text(a->rc));
}

static attempt attempt_of(harness *h, const word *w)
{
    attempt a = {.db = h->db[w->engine], .kind = MW_TXN_FULL};
    if (strcmp(w->name, "light") == 0 || strcmp(w->name, "undo") == 0) a.kind = MW_TXN_LIGHT;
    a.commit = note_commit(h, w->engine, w->changes, w->count);
    attempt_begin(&a);
    return a;
}

static bool run_commit(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    attempt_prepare(&a);
    attempt_end(&a);
    return settle(h, w, &a);
}

/* What a rollback or an unprepare of something prepared answers: it is gone, or unknown. */
static void take_back(attempt *a, bool end)
{
    a->rc = end ? mw_txn_rollback(a->txn, &a->err) : mw_txn_unprepare(a->txn, &a->err);
    if (end) a->txn = NULL;
    if (a->rc != MW_OK && a->rc != MW_PERSISTENCE) a->rc = MW_MISUSE;
}

static bool run_abort(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    attempt_prepare(&a);
    if (a.rc == MW_OK) {
        take_back(&a, true);
        a.fate = a.rc == MW_OK ? ORACLE_FAILED : ORACLE_UNKNOWN;
    }
    attempt_end(&a);
    return settle(h, w, &a);
}

/* The light entry has happened; so has, after it, the entry that takes it back. */
static bool run_undo(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    attempt_prepare(&a);
    if (a.rc != MW_OK) {
        attempt_end(&a);
        return settle(h, w, &a);
    }
    if (!settle(h, w, &a)) return false;
    harness_change back[WORD_CHANGES_MAX];
    for (size_t i = 0; i < w->count; i++) {
        const harness_change *before = newest_change(h, w->changes[i].key, a.commit);
        back[i] = before ? *before : (harness_change){w->changes[i].key, true, 0};
    }
    a.commit = note_commit(h, w->engine, back, w->count);
    take_back(&a, true);
    a.fate = a.rc == MW_OK ? ORACLE_ACKED : ORACLE_UNKNOWN;
    return settle(h, w, &a);
}

/* All changes but the last are prepared and taken back; then all of them are prepared. */
static bool run_retry(harness *h, const word *w)
{
    word first = *w;
    first.count--;
    attempt a = attempt_of(h, &first);
    attempt_changes(h, &a, 0, first.count);
    attempt_prepare(&a);
    if (a.rc == MW_OK) {
        take_back(&a, false);
        a.fate = a.rc == MW_OK ? ORACLE_FAILED : ORACLE_UNKNOWN;
    }
    bool back = a.rc == MW_OK;
    if (!back) attempt_end(&a);
    if (!settle(h, w, &a) || !back) return h->words[0] == 0;
    harness_change all[WORD_CHANGES_MAX];
    memcpy(all, &h->past.changes[h->past.commits[a.commit].first], first.count * sizeof *all);
    all[first.count] = w->changes[first.count];
    a.commit = note_commit(h, w->engine, all, w->count);
    a.fate = ORACLE_FAILED;
    attempt_changes(h, &a, first.count, 1);
    attempt_prepare(&a);
    attempt_end(&a);
    return settle(h, w, &a);
}

/* ---- a group ---------------------------------------------------------------------------------- */

typedef struct member {
    const harness *h;
    attempt attempt;
    sem_t begun; /* it has the turn, or cannot have it */
    sem_t go;
    int hold; /* of the first one's write, -1: not the first */
    pthread_t thread;
} member;

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem)) {
    }
}

static void *run_member(void *arg)
{
    member *self = arg;
    attempt *a = &self->attempt;
    attempt_begin(a);
    sem_post(&self->begun);
    wait_for(&self->go);
    attempt_changes(self->h, a, 0, 1);
    attempt_prepare(a);
    /* Where it has failed its write may never come: nobody shall wait for it. */
    if (self->hold >= 0 && a->rc != MW_OK) sim_release(self->h->world, self->hold);
    attempt_end(a);
    return NULL;
}

/* Returns once the member has the turn: those before it have queued their entries, or have failed. */
static void start_member(harness *h, const word *w, size_t i, member *self)
{
    *self = (member){.h = h, .hold = -1};
    self->attempt = (attempt){.db = h->db[w->engine], .kind = MW_TXN_LIGHT};
    self->attempt.commit = note_commit(h, w->engine, &w->changes[i], 1);
    sem_init(&self->begun, 0, 0);
    sem_init(&self->go, 0, 0);
    if (pthread_create(&self->thread, NULL, run_member, self)) give_up("no thread", "group");
    wait_for(&self->begun);
    if (i == 0) self->hold = sim_hold(h->world, SIM_WRITE, "wal-");
    sem_post(&self->go);
    if (i == 0) sim_wait_held(h->world, self->hold);
}

static void end_member(member *self)
{
    pthread_join(self->thread, NULL);
    sem_destroy(&self->begun);
    sem_destroy(&self->go);
}

static bool settle_group(harness *h, const word *w, member *members, uint64_t syncs)
{
    bool all = true;
    bool right = true;
    for (size_t i = 0; i < w->count; i++) {
        const attempt *a = &members[i].attempt;
        all = all && a->rc == MW_OK;
        right = settle(h, w, a) && right;
    }
    if (right && all && !h->lenient && syncs != 2) {
        return wrong(h, "expected 2 syncs, the held one's and the group's, found %llu",
                     (unsigned long long)syncs);
    }
    return right;
}

static bool run_group(harness *h, const word *w)
{
    member members[WORD_CHANGES_MAX];
    mw_txn *last = NULL;
    mw_err err = {0};
    uint64_t syncs = sim_calls(h->world, SIM_FILE_SYNC);
    for (size_t i = 0; i < w->count; i++) start_member(h, w, i, &members[i]);
    /* Who has the turn now knows that all are queued. */
    mw_rc rc = mw_txn_begin(h->db[w->engine], WAIT_MS, &last, &err);
    sim_release(h->world, members[0].hold);
    for (size_t i = 0; i < w->count; i++) end_member(&members[i]);
    if (rc == MW_OK) rc = mw_txn_rollback(last, &err);
    bool right = settle_group(h, w, members, sim_calls(h->world, SIM_FILE_SYNC) - syncs);
    note_stop(h, w->engine, rc);
    return right && allowed(h, "an empty transaction", rc, &err);
}

/* ---- other words ------------------------------------------------------------------------------ */

static bool run_create(harness *h, const word *w)
{
    (void)w;
    return create_store(h);
}

static bool run_open(harness *h, const word *w)
{
    if (h->db[w->engine]) return h->lenient || wrong(h, "open twice");
    return open_engine(h, w->engine);
}

static bool run_close(harness *h, const word *w)
{
    return close_engine(h, w->engine);
}

static bool run_flush(harness *h, const word *w)
{
    mw_err err = {0};
    uint64_t generation;
    mw_rc rc = mw_db_flush(h->db[w->engine], WAIT_MS, &generation, &err);
    note_stop(h, w->engine, rc);
    return allowed(h, "flush", rc, &err);
}

static bool run_merge(harness *h, const word *w)
{
    mw_err err = {0};
    uint32_t folded;
    mw_rc rc = mw_db_merge(h->db[w->engine], 0, NULL, NULL, &folded, &err);
    note_stop(h, w->engine, rc);
    return allowed(h, "merge", rc, &err);
}

typedef struct action {
    const char *name;
    bool needs_engine;
    bool (*run)(harness *h, const word *w);
} action;

static const action actions[] = {
    {"create", false, run_create}, {"open", false, run_open},   {"close", true, run_close},
    {"light", true, run_commit},   {"full", true, run_commit},  {"abort", true, run_abort},
    {"undo", true, run_undo},      {"retry", true, run_retry},  {"group", true, run_group},
    {"flush", true, run_flush},    {"merge", true, run_merge},
};

static const action *action_named(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, name) == 0) return &actions[i];
    }
    give_up("no such word", name);
}

/* Faults may have taken the engine away, or stopped its writer. A stopped one is asked for one more word,
** which it must refuse, and is then opened again. */
static bool have_engine(harness *h, int engine)
{
    bool reopen = h->lenient && h->stopped[engine] && h->probed[engine];
    h->probed[engine] = h->stopped[engine];
    if (reopen && !close_engine(h, engine)) return false;
    if (h->lenient && !h->db[engine] && !open_engine(h, engine)) return false;
    return h->db[engine] != NULL;
}

/* Reads one word; returns what is behind it, NULL at the end of the script. */
static const char *read_word(const char *at, word *w)
{
    memset(w, 0, sizeof *w);
    while (*at == ' ') at++;
    if (!*at) return NULL;
    if (*at == '!') w->fenced = *at++ != 0;
    if (strncmp(at, "b:", 2) == 0) {
        w->engine = 1;
        at += 2;
    }
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (length >= sizeof w->name) give_up("too long a word", at);
    memcpy(w->name, at, length);
    at += length;
    while (*at == '+' || *at == '-') {
        char *end;
        bool deleted = *at == '-';
        unsigned long key = strtoul(at + 1, &end, 10);
        if (w->count == WORD_CHANGES_MAX || key >= KEYS || !isdigit((unsigned char)at[1])) {
            give_up("not a change", at);
        }
        w->changes[w->count++] = (harness_change){(uint8_t)key, deleted, 0};
        at = end;
    }
    if (*at && *at != ' ') give_up("not a word", at);
    return at;
}

bool harness_run(harness *h, const char *script)
{
    word w;
    bool right = true;
    while (right && !h->halted && !sim_stopped(h->world) && (script = read_word(script, &w))) {
        const action *what = action_named(w.name);
        bool ready = !what->needs_engine || have_engine(h, w.engine);
        if (ready) right = what->run(h, &w);
        else right = h->words[0] == 0 && (h->lenient || wrong(h, "%s: nothing is open", w.name));
    }
    return right;
}

/* ---- after a crash ---------------------------------------------------------------------------- */

static void note_fault(void *arg, const char *line)
{
    wrong(arg, "check found: %s", line);
}

static bool prove(harness *h)
{
    mw_err err = {0};
    uint32_t faults = 0;
    mw_rc rc = mw_db_check(h->db[h->owner], note_fault, h, &faults, &err);
    return allowed(h, "check", rc, &err) && (faults == 0 || wrong(h, "check found %u faults", faults));
}

typedef struct figures {
    int64_t rows;
    int64_t physical_rows;
    int64_t generations;
} figures;

static void take_figure(void *arg, const char *name, const mw_value *value)
{
    figures *to = arg;
    if (strcmp(name, "rows") == 0) to->rows = value->integer;
    if (strcmp(name, "physical_rows") == 0) to->physical_rows = value->integer;
    if (strcmp(name, "generations") == 0) to->generations = value->integer;
}

/* After everything was flushed and merged. */
static bool check_merged(harness *h)
{
    figures now = {-1, -1, -1};
    mw_err err = {0};
    mw_rc rc = mw_db_stats(h->db[h->owner], take_figure, &now, &err);
    if (rc != MW_OK) return allowed(h, "stats", rc, &err);
    if (now.generations == 0 && now.physical_rows == now.rows) return true;
    return wrong(h, "after a merge of everything: %lld rows, %lld physical ones, %lld generations",
                 (long long)now.rows, (long long)now.physical_rows, (long long)now.generations);
}

/* After that and a close: one manifest, at most one table file, one log segment; nothing temporary. */
static bool check_folder(harness *h)
{
    enum { NAMES_MAX = 64 };
    static const struct {
        const char *prefix;
        int most;
    } kinds[] = {{"tmp-", 0}, {"manifest-", 1}, {"table-", 1}, {"wal-", 1}};
    char names[NAMES_MAX][SIM_NAME_BYTES];
    uint32_t count = sim_list(h->world, store_path, names, NAMES_MAX);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        int found = 0;
        size_t length = strlen(kinds[kind].prefix);
        for (uint32_t i = 0; i < count && i < NAMES_MAX; i++) {
            found += strncmp(names[i], kinds[kind].prefix, length) == 0;
        }
        if (found > kinds[kind].most) {
            return wrong(h, "%d files named %s are left, expected %d", found, kinds[kind].prefix,
                         kinds[kind].most);
        }
    }
    return true;
}

static bool over(const harness *h)
{
    return sim_stopped(h->world);
}

/* Opens, looks at everything, runs the words. */
static bool go_on(harness *h, const char *script)
{
    bool right = open_engine(h, 0);
    if (right && !over(h) && !h->db[0]) right = wrong(h, "what was unknown could not be settled");
    if (right && !over(h)) right = prove(h);
    if (right && !over(h)) right = harness_run(h, script);
    return right;
}

bool harness_recover(harness *h, harness_depth depth)
{
    bool deep = depth == HARNESS_DEEP;
    h->lenient = false;
    bool right = go_on(h, depth == HARNESS_QUICK ? "light+40" : "light+40 full+41-1 light+42 close");
    if (depth != HARNESS_QUICK && right && !over(h)) right = go_on(h, deep ? "flush merge" : "");
    if (right && !over(h) && deep) right = check_merged(h) && harness_check(h, false);
    if (!right || over(h)) return harness_kill(h) && right;
    return harness_close(h) && (!deep || check_folder(h));
}
