/* merge.c: one sorted view of many sources.
**
** A binary heap of sources, by key in the direction of the walk, then by age: of the sources that
** stand on one id the newest is above the others.
**
**                 [b, source 1]           <- the id at hand
**                /             \
**       [b, source 2]       [d, source 0]     source 2 is passed over at once: its b is older
**
** The root stays where it is while its id is at hand, so that its key and columns can be borrowed
** from it. Sources that stand on the same id are moved on before it is shown; each must be older by
** its sequence than the one before, where it has one, else the files are in a wrong order, and that
** is damage.
**
** Why not a tournament tree: with a handful of sources the heap's root path is as short, and a
** source that goes on winning (sorted data in few files) costs two comparisons a row. */
#include "merge.h"

#include "prefix.h"

typedef struct entry {
    uint64_t prefix; /* of the source's key, turned over for the walk back: lower comes first */
    mw_iter *source;
    uint32_t age;    /* index in the caller's order: 0 is the newest */
} entry;

typedef struct merge {
    mw_iter base;
    const mw_env *env;
    mw_tombstones tombstones;
    bool back;
    uint32_t count;   /* sources in all                                                    */
    uint32_t standing; /* entries of the heap: sources that are not at their end            */
    entry *heap;      /* count of them                                                     */
    mw_iter **sources; /* count, newest first; owned                                        */
} merge;

static merge *self(mw_iter *iter)
{
    return (merge *)iter;
}

static void load_prefix(const merge *m, entry *e)
{
    uint64_t prefix = mw_prefix(e->source->key);
    e->prefix = m->back ? ~prefix : prefix;
}

static int compare_keys(const merge *m, const entry *a, const entry *b)
{
    if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
    int order = mw_prefix_tie(a->source->key, b->source->key);
    return m->back ? -order : order;
}

static bool comes_first(const merge *m, const entry *a, const entry *b)
{
    int order = compare_keys(m, a, b);
    return order ? order < 0 : a->age < b->age;
}

static void sift_down(merge *m, uint32_t hole)
{
    entry moving = m->heap[hole];
    for (uint32_t child = 2 * hole + 1; child < m->standing; child = 2 * hole + 1) {
        uint32_t right = child + 1;
        if (right < m->standing && comes_first(m, &m->heap[right], &m->heap[child])) child = right;
        if (!comes_first(m, &m->heap[child], &moving)) break;
        m->heap[hole] = m->heap[child];
        hole = child;
    }
    m->heap[hole] = moving;
}

/* Moves the source of an entry on and puts the entry where it belongs. Requires that the entry is
** the root or a child of it: then what takes its place lies below the parent anyway. */
static mw_rc move_on(merge *m, uint32_t index, mw_err *err)
{
    entry *e = &m->heap[index];
    mw_iter *source = e->source;
    mw_rc rc = m->back ? source->ops->prev(source, err) : source->ops->next(source, err);
    if (rc != MW_OK) return rc;
    if (source->valid) {
        load_prefix(m, e);
    } else {
        *e = m->heap[--m->standing];
        if (index >= m->standing) return MW_OK;
    }
    sift_down(m, index);
    return MW_OK;
}

/* Moves on every other source that stands on the root's id. They come up behind the root by age. */
static mw_rc pass_over_older(merge *m, mw_err *err)
{
    uint64_t newer = m->heap[0].source->sequence;
    while (m->standing > 1) {
        uint32_t child = 1;
        if (m->standing > 2 && comes_first(m, &m->heap[2], &m->heap[1])) child = 2;
        if (compare_keys(m, &m->heap[child], &m->heap[0]) != 0) return MW_OK;

        uint64_t older = m->heap[child].source->sequence;
        /* Between base levels the order of the sources alone decides (iter.h). */
        if (older >= newer && older > 0) {
            return mw_fail(err, MW_CORRUPT,
                           "files are in a wrong order: expected a sequence below %llu for an older"
                           " version of a row, found %llu",
                           (unsigned long long)newer, (unsigned long long)older);
        }
        newer = older;
        mw_rc rc = move_on(m, child, err);
        if (rc != MW_OK) return rc;
    }
    return MW_OK;
}

/* Shows the root's id, or the next one that is not left out. */
static mw_rc show(merge *m, mw_err *err)
{
    m->base.valid = false;
    while (m->standing > 0) {
        mw_rc rc = pass_over_older(m, err);
        if (rc != MW_OK) return rc;
        const mw_iter *root = m->heap[0].source;
        if (!root->tombstone || m->tombstones == MW_KEEP_TOMBSTONES) {
            m->base.valid = true;
            m->base.tombstone = root->tombstone;
            m->base.key = root->key;
            m->base.sequence = root->sequence;
            return MW_OK;
        }
        rc = move_on(m, 0, err);
        if (rc != MW_OK) return rc;
    }
    return MW_OK;
}

typedef enum start { FIRST, LAST, SEEK, SEEK_BACK } start;

static mw_rc place_source(mw_iter *source, start how, mw_slice key, mw_err *err)
{
    switch (how) {
    case FIRST: return source->ops->first(source, err);
    case LAST: return source->ops->last(source, err);
    case SEEK: return source->ops->seek(source, key, err);
    case SEEK_BACK: return source->ops->seek_back(source, key, err);
    }
    return MW_MISUSE;
}

static mw_rc place_all(merge *m, start how, mw_slice key, mw_err *err)
{
    m->base.valid = false;
    m->back = how == LAST || how == SEEK_BACK;
    m->standing = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        mw_rc rc = place_source(m->sources[i], how, key, err);
        if (rc != MW_OK) return rc;
        if (!m->sources[i]->valid) continue;
        entry *e = &m->heap[m->standing++];
        e->source = m->sources[i];
        e->age = i;
        load_prefix(m, e);
    }
    for (uint32_t i = m->standing / 2; i-- > 0;) sift_down(m, i);
    return show(m, err);
}

static mw_rc first(mw_iter *iter, mw_err *err)
{
    return place_all(self(iter), FIRST, mw_slice_of(NULL, 0), err);
}

static mw_rc last(mw_iter *iter, mw_err *err)
{
    return place_all(self(iter), LAST, mw_slice_of(NULL, 0), err);
}

static mw_rc seek(mw_iter *iter, mw_slice key, mw_err *err)
{
    return place_all(self(iter), SEEK, key, err);
}

static mw_rc seek_back(mw_iter *iter, mw_slice key, mw_err *err)
{
    return place_all(self(iter), SEEK_BACK, key, err);
}

static mw_rc step(mw_iter *iter, mw_err *err)
{
    merge *m = self(iter);
    assert(iter->valid);
    iter->valid = false;
    mw_rc rc = move_on(m, 0, err);
    return rc == MW_OK ? show(m, err) : rc;
}

static mw_rc next(mw_iter *iter, mw_err *err)
{
    assert(!self(iter)->back);
    return step(iter, err);
}

static mw_rc prev(mw_iter *iter, mw_err *err)
{
    assert(self(iter)->back);
    return step(iter, err);
}

static mw_rc column(mw_iter *iter, uint32_t index, mw_value *value, mw_err *err)
{
    assert(iter->valid && !iter->tombstone);
    mw_iter *root = self(iter)->heap[0].source;
    return root->ops->column(root, index, value, err);
}

static void close_merge(mw_iter *iter)
{
    merge *m = self(iter);
    for (uint32_t i = 0; i < m->count; i++) mw_iter_close(m->sources[i]);
    mw_free(m->env, m);
}

static const mw_iter_ops merge_ops = {
    .first = first,
    .last = last,
    .seek = seek,
    .seek_back = seek_back,
    .next = next,
    .prev = prev,
    .column = column,
    .close = close_merge,
};

mw_rc mw_merge_create(const mw_env *env, mw_iter **sources, uint32_t count,
                      mw_tombstones tombstones, mw_iter **iter, mw_err *err)
{
    if (count == 1 && tombstones == MW_KEEP_TOMBSTONES) {
        *iter = sources[0]; /* the view of a single source is that source */
        return MW_OK;
    }
    /* One block: the merge, its heap, its sources. */
    size_t bytes = sizeof(merge) + count * (sizeof(entry) + sizeof(mw_iter *));
    merge *m = mw_alloc_zero(env, bytes);
    if (!m) {
        for (uint32_t i = 0; i < count; i++) mw_iter_close(sources[i]);
        return mw_fail(err, MW_NOMEM, "no memory to merge %lu sources", (unsigned long)count);
    }
    m->base.ops = &merge_ops;
    m->env = env;
    m->tombstones = tombstones;
    m->count = count;
    m->heap = (entry *)(m + 1);
    m->sources = (mw_iter **)(m->heap + count);
    for (uint32_t i = 0; i < count; i++) m->sources[i] = sources[i];
    *iter = &m->base;
    return MW_OK;
}

mw_iter *mw_merge_leader(mw_iter *iter, mw_slice *next, bool *alone)
{
    merge *m = self(iter);
    assert(iter->valid);
    *next = mw_slice_of(NULL, 0);
    *alone = true;
    if (iter->ops != &merge_ops) return iter; /* the view of a single source */
    if (m->standing > 1) {
        uint32_t child = 1;
        if (m->standing > 2 && comes_first(m, &m->heap[2], &m->heap[1])) child = 2;
        *next = m->heap[child].source->key;
        *alone = false;
    }
    return m->heap[0].source;
}
