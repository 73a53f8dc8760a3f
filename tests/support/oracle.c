/* oracle.c: the model: for each key the list of its versions, and a fate for each commit.
**
** Dumb on purpose: no deltas, no caches, no cleverness that could agree with a clever fault. For
** each cut that is allowed the whole state is made from the lists and compared with the rows. */
#include "oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct version {
    size_t commit;
    bool deleted;
    unsigned char *row;
    size_t row_bytes;
} version;

typedef struct history {
    unsigned char *key;
    size_t key_bytes;
    version *versions; /* in the order of the changes */
    size_t count;
} history;

struct oracle {
    history *keys; /* ascending */
    size_t key_count;
    oracle_fate *fates; /* [0] is not used */
    size_t commits;
};

static void *need(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "oracle: no memory\n");
    exit(1);
}

static void *copy(const void *from, size_t bytes)
{
    void *to = need(malloc(bytes + 1));
    if (bytes) memcpy(to, from, bytes);
    return to;
}

static int compare(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    size_t shared = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = shared ? memcmp(a, b, shared) : 0;
    if (order) return order;
    return a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

static bool same(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return compare(a, a_bytes, b, b_bytes) == 0;
}

oracle *oracle_create(void)
{
    oracle *o = need(calloc(1, sizeof *o));
    o->fates = need(calloc(1, sizeof *o->fates));
    return o;
}

void oracle_destroy(oracle *o)
{
    if (!o) return;
    for (size_t i = 0; i < o->key_count; i++) {
        history *h = &o->keys[i];
        for (size_t j = 0; j < h->count; j++) free(h->versions[j].row);
        free(h->versions);
        free(h->key);
    }
    free(o->keys);
    free(o->fates);
    free(o);
}

/* ---- telling -------------------------------------------------------------------------------- */

size_t oracle_commit(oracle *o)
{
    o->commits++;
    size_t bytes = (o->commits + 1) * sizeof *o->fates;
    o->fates = need(realloc(o->fates, bytes));
    o->fates[o->commits] = ORACLE_UNKNOWN;
    return o->commits;
}

/* Index of the first key that is not below. */
static size_t key_index(const oracle *o, const void *key, size_t key_bytes)
{
    size_t low = 0;
    size_t high = o->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const history *h = &o->keys[middle];
        if (compare(h->key, h->key_bytes, key, key_bytes) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static history *find_key(const oracle *o, const void *key, size_t key_bytes)
{
    size_t at = key_index(o, key, key_bytes);
    if (at == o->key_count) return NULL;
    history *h = &o->keys[at];
    return same(h->key, h->key_bytes, key, key_bytes) ? h : NULL;
}

static history *make_key(oracle *o, const void *key, size_t key_bytes)
{
    history *known = find_key(o, key, key_bytes);
    if (known) return known;
    size_t at = key_index(o, key, key_bytes);
    o->keys = need(realloc(o->keys, (o->key_count + 1) * sizeof *o->keys));
    history *h = &o->keys[at];
    memmove(h + 1, h, (o->key_count - at) * sizeof *h);
    o->key_count++;
    memset(h, 0, sizeof *h);
    h->key = copy(key, key_bytes);
    h->key_bytes = key_bytes;
    return h;
}

static version *add_version(oracle *o, const void *key, size_t key_bytes)
{
    history *h = make_key(o, key, key_bytes);
    h->versions = need(realloc(h->versions, (h->count + 1) * sizeof *h->versions));
    version *v = &h->versions[h->count++];
    memset(v, 0, sizeof *v);
    v->commit = o->commits;
    return v;
}

void oracle_put(oracle *o, const void *key, size_t key_bytes, const void *row, size_t row_bytes)
{
    version *v = add_version(o, key, key_bytes);
    v->row = copy(row, row_bytes);
    v->row_bytes = row_bytes;
}

void oracle_delete(oracle *o, const void *key, size_t key_bytes)
{
    add_version(o, key, key_bytes)->deleted = true;
}

void oracle_fate_is(oracle *o, size_t commit, oracle_fate fate)
{
    o->fates[commit] = fate;
}

void oracle_adopt(oracle *o, size_t cut)
{
    for (size_t i = 1; i <= o->commits; i++) {
        if (o->fates[i] != ORACLE_UNKNOWN) continue;
        o->fates[i] = i <= cut ? ORACLE_ACKED : ORACLE_FAILED;
    }
}

size_t oracle_commits(const oracle *o)
{
    return o->commits;
}

/* ---- checking ------------------------------------------------------------------------------- */

/* Version of a key after the commits up to cut; NULL when it is not there. */
static const version *version_at(const oracle *o, const history *h, size_t cut)
{
    const version *newest = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const version *v = &h->versions[i];
        if (v->commit <= cut && o->fates[v->commit] != ORACLE_FAILED) newest = v;
    }
    return newest && !newest->deleted ? newest : NULL;
}

size_t oracle_count(const oracle *o, size_t cut)
{
    size_t count = 0;
    for (size_t i = 0; i < o->key_count; i++) {
        if (version_at(o, &o->keys[i], cut)) count++;
    }
    return count;
}

static int compare_rows(const void *a, const void *b)
{
    const oracle_row *x = a;
    const oracle_row *y = b;
    return compare(x->key, x->key_bytes, y->key, y->key_bytes);
}

/* Collects the differences of one cut: their number, and words for the first. */
typedef struct verdict {
    size_t faults;
    char words[ORACLE_WORDS_BYTES];
} verdict;

/* "key 'abc'", or in hex where it is not readable. */
static void describe_key(const void *key, size_t key_bytes, char text[80])
{
    const unsigned char *p = key;
    bool readable = key_bytes > 0;
    for (size_t i = 0; i < key_bytes; i++) readable = readable && p[i] >= 0x20 && p[i] < 0x7f;
    if (readable) {
        snprintf(text, 80, "key '%.*s'", key_bytes < 60 ? (int)key_bytes : 60, (const char *)key);
        return;
    }
    size_t used = (size_t)snprintf(text, 80, "key x'");
    for (size_t i = 0; i < key_bytes && used < 70; i++) {
        used += (size_t)snprintf(text + used, 80 - used, "%02x", p[i]);
    }
    snprintf(text + used, 80 - used, "'");
}

static void note(verdict *out, const void *key, size_t key_bytes, const char *what)
{
    if (out->faults++) return;
    char name[80];
    describe_key(key, key_bytes, name);
    snprintf(out->words, sizeof out->words, "%s %s", name, what);
}

/* Where may a row that should not be there come from? */
static void explain_row(const oracle *o, const history *h, const oracle_row *row,
                        char what[200])
{
    for (size_t i = h ? h->count : 0; i-- > 0;) {
        const version *v = &h->versions[i];
        if (v->deleted || !same(v->row, v->row_bytes, row->row, row->row_bytes)) continue;
        static const char *const fates[] = {"unknown", "acknowledged", "failed"};
        snprintf(what, 200, "has the row of commit %zu, which is %s", v->commit,
                 fates[o->fates[v->commit]]);
        return;
    }
    snprintf(what, 200, "has a row that was never written (%zu bytes)", row->row_bytes);
}

static void check_missing(const history *h, const version *v, verdict *out)
{
    char what[200];
    snprintf(what, sizeof what, "is lost: commit %zu put it", v->commit);
    note(out, h->key, h->key_bytes, what);
}

static bool was_deleted(const oracle *o, const history *h, size_t cut)
{
    for (size_t i = 0; i < h->count; i++) {
        const version *v = &h->versions[i];
        if (v->deleted && v->commit <= cut && o->fates[v->commit] != ORACLE_FAILED) return true;
    }
    return false;
}

/* A row that was read, against what should be there at the cut. h: NULL for an unknown key. */
static void check_row(const oracle *o, const history *h, size_t cut, const oracle_row *row,
                      verdict *out)
{
    const version *v = h ? version_at(o, h, cut) : NULL;
    if (v && same(v->row, v->row_bytes, row->row, row->row_bytes)) return;
    char source[200];
    char what[320];
    explain_row(o, h, row, source);
    if (v) {
        snprintf(what, sizeof what, "is wrong: expected commit %zu's row, it %s", v->commit,
                 source);
    } else if (h) {
        snprintf(what, sizeof what, "%s, it %s",
                 was_deleted(o, h, cut) ? "is resurrected" : "should not be there", source);
    } else {
        snprintf(what, sizeof what, "is foreign: nobody ever wrote that key");
    }
    note(out, row->key, row->key_bytes, what);
}

/* The state at cut, key by key, against the sorted rows. */
static void check_cut(const oracle *o, const oracle_seen *seen, size_t cut, verdict *out)
{
    size_t at = 0;
    size_t live = 0;
    out->faults = 0;
    for (size_t i = 0; i <= o->key_count; i++) {
        const history *h = i < o->key_count ? &o->keys[i] : NULL;
        /* Rows before this key, or behind the last one, belong to no key at all. */
        for (; at < seen->row_count; at++) {
            const oracle_row *row = &seen->rows[at];
            if (h && compare(row->key, row->key_bytes, h->key, h->key_bytes) >= 0) break;
            check_row(o, NULL, cut, row, out);
        }
        if (!h) break;
        const version *v = version_at(o, h, cut);
        if (v) live++;
        size_t found = 0;
        for (; at < seen->row_count; at++, found++) {
            const oracle_row *row = &seen->rows[at];
            if (!same(row->key, row->key_bytes, h->key, h->key_bytes)) break;
            if (found == 0) check_row(o, h, cut, row, out);
            else note(out, row->key, row->key_bytes, "is doubled");
        }
        if (v && found == 0) check_missing(h, v, out);
    }
    if (seen->count != (int64_t)live && out->faults++ == 0) {
        snprintf(out->words, sizeof out->words,
                 "the table says that it holds %" PRId64 " rows, it holds %zu", seen->count, live);
    }
}

static size_t last_acked(const oracle *o)
{
    size_t commit = o->commits;
    while (commit > 0 && o->fates[commit] != ORACLE_ACKED) commit--;
    return commit;
}

bool oracle_check(const oracle *o, const oracle_seen *seen, size_t *cut,
                  char words[ORACLE_WORDS_BYTES])
{
    oracle_row *rows = copy(seen->rows, seen->row_count * sizeof *rows);
    qsort(rows, seen->row_count, sizeof *rows, compare_rows);
    oracle_seen sorted = {rows, seen->row_count, seen->count};

    verdict best = {.faults = SIZE_MAX};
    size_t best_cut = 0;
    for (size_t p = last_acked(o); p <= o->commits && best.faults > 0; p++) {
        verdict here;
        check_cut(o, &sorted, p, &here);
        if (here.faults > best.faults) continue;
        best = here;
        best_cut = p;
    }
    free(rows);
    words[0] = '\0';
    if (best.faults == 0) {
        *cut = best_cut;
        return true;
    }
    snprintf(words, ORACLE_WORDS_BYTES, "no cut fits; nearest is %zu of %zu with %zu faults: %.*s",
             best_cut, o->commits, best.faults, ORACLE_WORDS_BYTES - 120, best.words);
    return false;
}
