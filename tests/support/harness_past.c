/* harness_past.c: what was asked and answered, rows, and the comparison of what is read with the
** oracle. */
#include "harness_inside.h"

#include <string.h>

enum { ROW_BYTES_MAX = 8192 };

/* ---- the past -------------------------------------------------------------------------------- */

size_t harness_note_commit(harness *h, int engine, const harness_change *changes, size_t count)
{
    harness_past *past = &h->past;
    bool room = past->commit_count < HARNESS_COMMITS_MAX &&
                past->change_count + count <= HARNESS_CHANGES_MAX;
    if (!room) harness_give_up("too many commits", h->workload->name);
    harness_commit *commit = &past->commits[past->commit_count++];
    *commit = (harness_commit){
        .fate = ORACLE_FAILED,
        .engine = (uint8_t)engine,
        .first = past->change_count,
        .count = (uint16_t)count,
    };
    for (size_t i = 0; i < count; i++) {
        harness_change *change = &past->changes[past->change_count++];
        *change = changes[i];
        if (!change->deleted && change->tag == 0) change->tag = ++past->tag;
    }
    return past->commit_count - 1u;
}

/* The newest change of a key by the commits before `end` that are known to have happened. */
const harness_change *harness_newest_change(const harness *h, uint8_t key, size_t end)
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

bool harness_any_fate(const harness *h, oracle_fate fate)
{
    for (size_t i = 0; i < h->past.commit_count; i++) {
        if (h->past.commits[i].fate == fate) return true;
    }
    return false;
}

/* The row of a tag: unlike any other, also in each of its sectors. */
void harness_make_row(const harness *h, uint16_t tag, mw_buf *row)
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
    if (row->failed) harness_give_up("no memory", "a row");
}

mw_slice harness_make_key(uint8_t key, uint8_t to[MW_INTEGER_KEY_BYTES])
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
            mw_slice key = harness_make_key(change->key, bytes);
            if (change->deleted) {
                oracle_delete(o, key.data, key.size);
            } else {
                harness_make_row(h, change->tag, &row);
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

/* ---- reading --------------------------------------------------------------------------------- */

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
    bool same =
        mw_slice_equal(mw_cursor_key(s->cursor), mw_slice_of(at->key, sizeof at->key)) &&
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
        mw_slice wanted = harness_make_key(key, bytes);
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
    if (!right) return harness_wrong(h, "%s", words);
    if (!live) adopt(h, cut);
    return true;
}

/* Gives the first `happened[e]` of what is unknown of each engine the fate that it has happened,
** the others that it never will. */
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

/* Settles what is unknown by what is read. Of one engine's commits a prefix has happened: the
** oracle finds the cut. Of two engines, where one was fenced by the other, it is a prefix of each
** one's own. */
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
    bool right = harness_allowed(h, "reading", rc, &err);
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

bool harness_settle_peer(harness *h, bool *done) { return look(h, settle_unknown, done); }

bool harness_check(harness *h, bool live)
{
    bool done;
    return look(h, live ? compare_living : settle_unknown, &done);
}

/* ---- the host database ----------------------------------------------------------------------- */

static const char host_path[] = "/home/host.db";

mw_pledge harness_pledge(size_t commit)
{
    mw_pledge pledge = {.host = host_path};
    mw_put_u64(pledge.id, commit);
    return pledge;
}

static mw_rc open_host(void *arg, const char *host, mw_err *err)
{
    (void)arg;
    if (strcmp(host, host_path) == 0) return MW_OK;
    return mw_fail(err, MW_MISUSE, "expected the host %s, found %s", host_path, host);
}

static mw_rc ask_host(void *arg, const mw_pledge *pledge, bool *committed, mw_err *err)
{
    const harness *h = arg;
    uint64_t commit = mw_get_u64(pledge->id);
    if (commit >= h->past.commit_count) {
        return mw_fail(err, MW_MISUSE, "a pledge of commit %llu, which never was",
                       (unsigned long long)commit);
    }
    *committed = h->past.commits[commit].host;
    return MW_OK;
}

static void close_host(void *arg) { (void)arg; }

mw_judge harness_judge(harness *h) { return (mw_judge){h, open_host, ask_host, close_host}; }
