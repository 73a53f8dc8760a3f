/* memtable.c: sorted row versions in memory: a skip list over an arena.
**
**     level 2   head ------------------> b9 ---------------------> end
**     level 1   head ------> a5 -------> b9 ------> b4 ----------> end
**     level 0   head -> a7 -> a5 -> a2 -> b9 -> b6 -> b4 -> c8 ---> end     (key, sequence)
**
** A node's links lie directly before its header, level 0 last, so that one cache line holds what a
** search asks of a node: the low links and the first 8 bytes of the key. Key and row follow.
**
**     [link 3][link 2][link 1] | [link 0][prefix][sequence][sizes] key bytes, row bytes
**                              ^ mw_node
**
** Why a reader needs no lock: a node is complete before a link to it is stored (release), and a
** reader loads every link with acquire. Level 0 is linked first and unlinked last, so whatever a
** reader meets at a higher level is, or was, on level 0. A removed node keeps its own links: a
** reader on it walks on to versions behind it, back on the list at the latest where the list goes
** on. What was added meanwhile it may miss, but that is above the limit it reads with.
**
** The writer keeps its last splice, on each level the last node before the place of the last
** change. A key that falls next to it (ascending or clustered keys) climbs only as far as needed.
** Removal leaves the node's predecessors there, so a splice never stands on a removed node.
**
** Nothing reaches a disk: after a crash the log makes a new one. A B-tree would search as fast, but
** readers without locks would need copies of its pages. */
#include "memtable.h"

#include "arena.h"
#include "prefix.h"
#include "presence.h"

enum {
    LEVELS_MAX = 24, /* with every second node rising: good for 2^24 versions        */
    ITEM_BYTES_MAX = 1 << 30,
    STEPS_MAX = 8,   /* versions of one id that are walked over before searching     */
};

typedef _Atomic(mw_node *) link;

struct mw_node {
    link next; /* on level 0; that of level n lies n links before */
    uint64_t prefix;
    uint64_t sequence;
    uint32_t key_bytes;
    unsigned row_bytes : 31;
    unsigned tombstone : 1;
    uint8_t data[]; /* key, row */
};
static_assert(offsetof(mw_node, data) == 32, "no gap before the key");
static_assert(ITEM_BYTES_MAX <= INT32_MAX, "a row's size fits its field");

struct mw_memtable {
    const mw_env *env;
    _Atomic uint32_t refs;
    _Atomic int levels; /* in use, at least 1 */
    _Atomic uint64_t versions;
    mw_arena arena;
    mw_node *head;                /* before every version; only its links mean something */
    mw_presence presence;         /* of the ids that were ever added */
    mw_node *splice[LEVELS_MAX];  /* the writer's */
    uint64_t dice;                /* the writer's; never 0 */
};

/* A place in the order: before a node means key lower, or the same key and sequence higher. */
typedef struct place {
    mw_slice key;
    uint64_t prefix;
    uint64_t sequence;
} place;

static link *link_at(const mw_node *node, int level)
{
    return (link *)(uintptr_t)node - level;
}

static mw_node *follow(const mw_node *node, int level)
{
    return atomic_load_explicit(link_at(node, level), memory_order_acquire);
}

static void set_link(mw_node *node, int level, mw_node *to)
{
    atomic_store_explicit(link_at(node, level), to, memory_order_release);
}

mw_slice mw_node_key(const mw_node *node)
{
    mw_slice key = {node->data, node->key_bytes}; /* in place: searches ask for nothing else */
    return key;
}

mw_slice mw_node_row(const mw_node *node)
{
    return mw_slice_of(node->data + node->key_bytes, node->row_bytes);
}

uint64_t mw_node_sequence(const mw_node *node)
{
    return node->sequence;
}

bool mw_node_tombstone(const mw_node *node)
{
    return node->tombstone;
}

static place place_of(mw_slice key, uint64_t sequence)
{
    place at = {key, mw_prefix(key), sequence};
    return at;
}

static bool holds_key(const mw_node *node, const place *at)
{
    return node->prefix == at->prefix && mw_prefix_tie(mw_node_key(node), at->key) == 0;
}

/* Does node lie before the place? Most answers come from the prefix. */
static inline bool lies_before(const mw_node *node, const place *at)
{
    if (node->prefix != at->prefix) return node->prefix < at->prefix;
    int order = mw_prefix_tie(mw_node_key(node), at->key);
    return order ? order < 0 : node->sequence > at->sequence;
}

/* Walks down from start, which lies before the place, through the levels below `level`. Gives the
** last node before the place (on each level in splice, unless that is NULL). not_before: the node
** where the level above stopped. */
static mw_node *descend(mw_node *start, int level, const mw_node *not_before, const place *at,
                        mw_node **splice)
{
    mw_node *node = start;
    while (level-- > 0) {
        for (;;) {
            mw_node *next = follow(node, level);
            /* The walk meets one of two nodes next: fetch the one while waiting for the other. */
            if (level > 0) __builtin_prefetch(follow(node, level - 1));
            /* What the level above stopped at may have been removed meanwhile: then the end comes
            ** first. */
            if (!next || next == not_before || !lies_before(next, at)) {
                not_before = next;
                break;
            }
            node = next;
        }
        if (splice) splice[level] = node;
    }
    return node;
}

/* Last node before the place, head when there is none. */
static mw_node *find_before(const mw_memtable *memtable, const place *at)
{
    int levels = atomic_load_explicit(&memtable->levels, memory_order_relaxed);
    return descend(memtable->head, levels, NULL, at, NULL);
}

/* First node at or behind the place. The last steps look again because the list may have grown
** since the walk passed. */
static mw_node *find_from(const mw_memtable *memtable, const place *at)
{
    mw_node *node = follow(find_before(memtable, at), 0);
    while (node && lies_before(node, at)) node = follow(node, 0);
    return node;
}

/* Is the splice right for the place on this level? */
static bool splice_fits(const mw_memtable *memtable, int level, const place *at)
{
    const mw_node *node = memtable->splice[level];
    if (node != memtable->head && !lies_before(node, at)) return false;
    const mw_node *next = follow(node, level);
    return !next || !lies_before(next, at);
}

/* Makes the splice right for the place on all levels. Where it fits on one level it fits above. */
static void move_splice(mw_memtable *memtable, const place *at)
{
    int levels = atomic_load_explicit(&memtable->levels, memory_order_relaxed);
    int level = 0;
    while (level < levels && !splice_fits(memtable, level, at)) level++;
    if (level == levels) {
        descend(memtable->head, levels, NULL, at, memtable->splice);
        return;
    }
    mw_node *start = memtable->splice[level];
    descend(start, level, follow(start, level), at, memtable->splice);
}

/* One level, and one more with a chance of one half, and so on (xorshift64: G. Marsaglia, "Xorshift
** RNGs", 2003). A quarter would save 8 bytes a version, but a search then meets a third more nodes,
** and each is a miss in the processor's caches. */
static int roll_levels(mw_memtable *memtable)
{
    uint64_t dice = memtable->dice;
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    memtable->dice = dice;
    return 1 + __builtin_ctzll(dice | UINT64_C(1) << (LEVELS_MAX - 1));
}

static void *node_in(uint8_t *memory, int levels)
{
    return memory + (size_t)(levels - 1) * sizeof(link);
}

static size_t node_bytes(int levels)
{
    return (size_t)(levels - 1) * sizeof(link) + sizeof(mw_node);
}

mw_memtable *mw_memtable_create(const mw_env *env)
{
    mw_memtable *memtable = mw_alloc(env, sizeof *memtable + node_bytes(LEVELS_MAX));
    if (!memtable) return NULL;
    memtable->env = env;
    atomic_init(&memtable->refs, 1);
    atomic_init(&memtable->levels, 1);
    atomic_init(&memtable->versions, 0);
    mw_arena_init(&memtable->arena, env);
    mw_presence_init(&memtable->presence);
    memtable->head = node_in((uint8_t *)(memtable + 1), LEVELS_MAX);
    for (int level = 0; level < LEVELS_MAX; level++) {
        atomic_init(link_at(memtable->head, level), NULL);
        memtable->splice[level] = memtable->head;
    }
    memtable->dice = UINT64_C(0x9e3779b97f4a7c15);
    return memtable;
}

mw_memtable *mw_memtable_ref(mw_memtable *memtable)
{
    atomic_fetch_add_explicit(&memtable->refs, 1, memory_order_relaxed);
    return memtable;
}

void mw_memtable_unref(mw_memtable *memtable)
{
    if (!memtable) return;
    if (atomic_fetch_sub_explicit(&memtable->refs, 1, memory_order_acq_rel) > 1) return;
    mw_arena_free(&memtable->arena);
    mw_free(memtable->env, memtable);
}

bool mw_memtable_shared(const mw_memtable *memtable)
{
    return atomic_load_explicit(&memtable->refs, memory_order_relaxed) > 1;
}

/* Puts node between the splice and what follows it, on each of its levels. */
static void link_in(mw_memtable *memtable, mw_node *node, int levels)
{
    for (int level = 0; level < levels; level++) {
        mw_node *before = memtable->splice[level];
        atomic_init(link_at(node, level), follow(before, level));
    }
    for (int level = 0; level < levels; level++) {
        set_link(memtable->splice[level], level, node);
        memtable->splice[level] = node;
    }
    /* A reader that sees the new number early finds the head's links, empty or set: both right. */
    if (levels > atomic_load_explicit(&memtable->levels, memory_order_relaxed)) {
        atomic_store_explicit(&memtable->levels, levels, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&memtable->versions, 1, memory_order_relaxed);
}

/* Best effort: without memory the old filter goes on, with more false answers. */
static void grow_presence(mw_memtable *memtable)
{
    mw_presence_words *words = mw_presence_grow(&memtable->presence, &memtable->arena);
    if (!words) return;
    for (mw_node *node = follow(memtable->head, 0); node; node = follow(node, 0)) {
        __builtin_prefetch(follow(node, 0));
        mw_presence_words_add(words, mw_node_key(node));
    }
    mw_presence_publish(&memtable->presence, words);
}

mw_rc mw_memtable_add(mw_memtable *memtable, mw_slice key, uint64_t sequence, bool tombstone,
                      mw_slice row, mw_node **node, mw_err *err)
{
    assert(!tombstone || row.size == 0);
    if (key.size > ITEM_BYTES_MAX || row.size > ITEM_BYTES_MAX) {
        return mw_fail(err, MW_TOOBIG, "a key of %zu and a row of %zu bytes, the limit is %d each",
                       key.size, row.size, ITEM_BYTES_MAX);
    }
    int levels = roll_levels(memtable);
    uint8_t *memory = mw_arena_alloc(&memtable->arena, node_bytes(levels) + key.size + row.size);
    if (!memory) return mw_fail(err, MW_NOMEM, "no memory for a row of %zu bytes", row.size);

    mw_node *fresh = node_in(memory, levels);
    place at = place_of(key, sequence);
    fresh->prefix = at.prefix;
    fresh->sequence = sequence;
    fresh->key_bytes = (uint32_t)key.size;
    fresh->row_bytes = (unsigned)row.size & 0x7fffffffU;
    fresh->tombstone = tombstone;
    if (key.size) memcpy(fresh->data, key.data, key.size);
    if (row.size) memcpy(fresh->data + key.size, row.data, row.size);

    if (mw_presence_due(&memtable->presence)) grow_presence(memtable);
    mw_presence_add(&memtable->presence, key);
    move_splice(memtable, &at);
    assert(!follow(memtable->splice[0], 0) || !holds_key(follow(memtable->splice[0], 0), &at) ||
           follow(memtable->splice[0], 0)->sequence != sequence);
    link_in(memtable, fresh, levels);
    if (node) *node = fresh;
    return MW_OK;
}

void mw_memtable_remove(mw_memtable *memtable, mw_node *node)
{
    place at = place_of(mw_node_key(node), node->sequence);
    move_splice(memtable, &at);
    assert(follow(memtable->splice[0], 0) == node);
    for (int level = atomic_load_explicit(&memtable->levels, memory_order_relaxed); level-- > 0;) {
        mw_node *before = memtable->splice[level];
        if (follow(before, level) == node) set_link(before, level, follow(node, level));
    }
    atomic_fetch_sub_explicit(&memtable->versions, 1, memory_order_relaxed);
}

const mw_node *mw_memtable_find(const mw_memtable *memtable, mw_slice key, uint64_t limit)
{
    if (!mw_presence_may_hold(&memtable->presence, key)) return NULL;
    place at = place_of(key, limit);
    const mw_node *node = find_from(memtable, &at);
    return node && holds_key(node, &at) ? node : NULL;
}

size_t mw_memtable_bytes(const mw_memtable *memtable)
{
    return mw_arena_bytes(&memtable->arena);
}

uint64_t mw_memtable_versions(const mw_memtable *memtable)
{
    return atomic_load_explicit(&memtable->versions, memory_order_relaxed);
}

/* ---- iterator ------------------------------------------------------------------------------- */

typedef struct memtable_iter {
    mw_iter base;
    mw_memtable *memtable; /* a reference */
    const mw_node *node;   /* the version at hand */
    uint64_t limit;
    uint32_t column_count;
} memtable_iter;

static memtable_iter *self(mw_iter *iter)
{
    return (memtable_iter *)iter;
}

static mw_rc stand_on(memtable_iter *it, const mw_node *node)
{
    it->node = node;
    it->base.valid = node != NULL;
    if (!node) return MW_OK;
    it->base.tombstone = node->tombstone;
    it->base.key = mw_node_key(node);
    it->base.sequence = node->sequence;
    return MW_OK;
}

/* Node is the newest version of an id, or NULL: on to the first version at or below the limit. It
** is the newest such one of its id. */
static const mw_node *skip_too_new(const memtable_iter *it, const mw_node *node)
{
    for (int steps = 0; node && node->sequence > it->limit; steps++) {
        if (steps < STEPS_MAX) {
            node = follow(node, 0);
            continue;
        }
        place at = place_of(mw_node_key(node), it->limit);
        node = find_from(it->memtable, &at);
        steps = 0;
    }
    return node;
}

/* First version of the next id. */
static const mw_node *skip_id(const memtable_iter *it, const mw_node *node)
{
    place at = place_of(mw_node_key(node), 0);
    for (int steps = 0; steps < STEPS_MAX; steps++) {
        node = follow(node, 0);
        if (!node || !holds_key(node, &at)) return node;
    }
    node = find_from(it->memtable, &at);
    /* Sequence 0 itself lies at that place. */
    return node && holds_key(node, &at) ? follow(node, 0) : node;
}

/* Node is any version of an id, or the head: back to the first id, this one or an earlier one, that
** has a version at or below the limit. NULL: none. */
static const mw_node *skip_back_too_new(const memtable_iter *it, const mw_node *node)
{
    while (node != it->memtable->head) {
        const mw_node *newest = mw_memtable_find(it->memtable, mw_node_key(node), it->limit);
        if (newest) return newest;
        place at = place_of(mw_node_key(node), UINT64_MAX);
        node = find_before(it->memtable, &at);
    }
    return NULL;
}

static mw_rc first(mw_iter *iter, mw_err *err)
{
    (void)err;
    memtable_iter *it = self(iter);
    return stand_on(it, skip_too_new(it, follow(it->memtable->head, 0)));
}

static mw_rc last(mw_iter *iter, mw_err *err)
{
    (void)err;
    memtable_iter *it = self(iter);
    const mw_node *node = it->memtable->head;
    int level = atomic_load_explicit(&it->memtable->levels, memory_order_relaxed);
    while (level-- > 0) {
        const mw_node *behind;
        while ((behind = follow(node, level))) node = behind;
    }
    return stand_on(it, skip_back_too_new(it, node));
}

static mw_rc seek(mw_iter *iter, mw_slice key, mw_err *err)
{
    (void)err;
    memtable_iter *it = self(iter);
    place at = place_of(key, it->limit);
    return stand_on(it, skip_too_new(it, find_from(it->memtable, &at)));
}

static mw_rc seek_back(mw_iter *iter, mw_slice key, mw_err *err)
{
    (void)err;
    memtable_iter *it = self(iter);
    const mw_node *node = mw_memtable_find(it->memtable, key, it->limit);
    if (node) return stand_on(it, node);
    place at = place_of(key, UINT64_MAX);
    return stand_on(it, skip_back_too_new(it, find_before(it->memtable, &at)));
}

static mw_rc next(mw_iter *iter, mw_err *err)
{
    (void)err;
    memtable_iter *it = self(iter);
    assert(iter->valid);
    return stand_on(it, skip_too_new(it, skip_id(it, it->node)));
}

static mw_rc prev(mw_iter *iter, mw_err *err)
{
    (void)err;
    memtable_iter *it = self(iter);
    assert(iter->valid);
    place at = place_of(iter->key, UINT64_MAX);
    return stand_on(it, skip_back_too_new(it, find_before(it->memtable, &at)));
}

static mw_rc column(mw_iter *iter, uint32_t index, mw_value *value, mw_err *err)
{
    assert(iter->valid && !iter->tombstone);
    memtable_iter *it = self(iter);
    return mw_row_column(mw_node_row(it->node), it->column_count, index, value, err);
}

static void close_iter(mw_iter *iter)
{
    mw_memtable *memtable = self(iter)->memtable;
    mw_free(memtable->env, iter);
    mw_memtable_unref(memtable);
}

static const mw_iter_ops iter_ops = {
    .first = first,
    .last = last,
    .seek = seek,
    .seek_back = seek_back,
    .next = next,
    .prev = prev,
    .column = column,
    .close = close_iter,
};

mw_rc mw_memtable_iter(mw_memtable *memtable, uint64_t limit, uint32_t column_count, mw_iter **iter,
                       mw_err *err)
{
    memtable_iter *it = mw_alloc_zero(memtable->env, sizeof *it);
    if (!it) return mw_fail(err, MW_NOMEM, "no memory for an iterator");
    it->base.ops = &iter_ops;
    it->memtable = mw_memtable_ref(memtable);
    it->limit = limit;
    it->column_count = column_count;
    *iter = &it->base;
    return MW_OK;
}

mw_slice mw_memtable_iter_row(const mw_iter *iter)
{
    assert(iter->valid && iter->ops == &iter_ops);
    return mw_node_row(((const memtable_iter *)iter)->node);
}
