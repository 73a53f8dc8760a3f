/* snapshot.c: reading.
**
** A cursor looks at, newest first: the transaction's own changes (in memory, then in runs), the
** generations (the memtable, then what it has adopted), the table files.
** One id is found by asking them in that order and stopping at the first answer, of a base level
** the one file that its range belongs to; a range is a merge of all of them, each base level being
** one source, with tombstones dropped. The merge is made when the first range is asked for, so a
** cursor that only finds ids never pays for it.
**
** Whatever happens meanwhile (commits, flushes, merges, rollback to a savepoint) the version, the
** sequence and the overlay limit stay, so one cursor sees one moment (I13). */
#include "snapshot.h"

#include "follow.h"
#include "merge.h"
#include "txn.h"

#include <string.h>

/* ---- snapshots ------------------------------------------------------------------------------- */

/* Requires `mutex`. The list tells for how long files have been kept for a reader. */
static void list(mw_store *store, mw_snapshot *snapshot)
{
    snapshot->older = store->snapshot_newest;
    snapshot->newer = NULL;
    if (snapshot->older) {
        snapshot->older->newer = snapshot;
    } else {
        store->snapshot_oldest = snapshot;
    }
    store->snapshot_newest = snapshot;
    store->snapshots++;
}

/* Requires `mutex`. */
static void unlist(mw_store *store, const mw_snapshot *snapshot)
{
    mw_snapshot **older = snapshot->older ? &snapshot->older->newer : &store->snapshot_oldest;
    mw_snapshot **newer = snapshot->newer ? &snapshot->newer->older : &store->snapshot_newest;
    *older = snapshot->newer;
    *newer = snapshot->older;
    store->snapshots--;
}

mw_rc mw_snapshot_create(mw_store *store, const struct mw_snapshot *of, mw_snapshot **out,
                         mw_err *err)
{
    mw_snapshot *snapshot = mw_alloc(store->env, sizeof *snapshot);
    if (!snapshot) return mw_fail(err, MW_NOMEM, "no memory for a snapshot");
    snapshot->store = store;
    atomic_init(&snapshot->refs, 1);
    snapshot->version = mw_version_ref(of->version);
    snapshot->sequence = of->sequence;
    snapshot->count = of->count;
    snapshot->overlay = of->overlay ? mw_memtable_ref(of->overlay) : NULL;
    snapshot->overlay_limit = of->overlay_limit;
    snapshot->runs = mw_runs_ref(of->runs);
    snapshot->kept = false;
    snapshot->taken_ns = store->env->now_ns(store->env->ctx);
    mw_store_lock(store);
    list(store, snapshot);
    mw_store_unlock(store);
    *out = snapshot;
    return MW_OK;
}

mw_rc mw_snapshot_take(mw_db *db, mw_txn *txn, mw_snapshot **out, mw_err *err)
{
    mw_store *store = (mw_store *)db;
    if (txn) return mw_txn_snapshot(txn, out, err);
    struct mw_snapshot now = {.store = store};
    mw_rc rc = mw_follow(store, err);
    if (rc != MW_OK) return rc;
    mw_store_lock(store);
    now.version = mw_version_ref(store->version);
    now.sequence = store->visible.sequence;
    now.count = store->visible.count;
    mw_store_unlock(store);
    rc = mw_snapshot_create(store, &now, out, err);
    mw_version_unref(now.version);
    return rc;
}

mw_snapshot *mw_snapshot_ref(mw_snapshot *snapshot)
{
    atomic_fetch_add(&snapshot->refs, 1);
    return snapshot;
}

void mw_snapshot_release(mw_snapshot *snapshot)
{
    if (!snapshot || atomic_fetch_sub(&snapshot->refs, 1) != 1) return;
    mw_store *store = snapshot->store;
    mw_store_lock(store);
    unlist(store, snapshot);
    store->ending++;
    mw_store_unlock(store);
    mw_version_unref(snapshot->version);
    mw_memtable_unref(snapshot->overlay);
    mw_runs_unref(snapshot->runs);
    mw_store_lock(store);
    store->ending--;
    mw_store_unlock(store);
    mw_free(store->env, snapshot);
}

/* One that reads from files which are not kept yet; what it reads from is referenced. */
static bool next_to_keep(mw_store *store, mw_version **version, mw_runs **runs)
{
    mw_store_lock(store);
    mw_snapshot *at = store->snapshot_oldest;
    while (at && at->kept) at = at->newer;
    if (at) {
        *version = mw_version_ref(at->version);
        *runs = mw_runs_ref(at->runs);
        at->kept = true;
    }
    mw_store_unlock(store);
    return at != NULL;
}

static void begin_again(mw_store *store)
{
    mw_store_lock(store);
    for (mw_snapshot *at = store->snapshot_oldest; at; at = at->newer) at->kept = false;
    mw_store_unlock(store);
}

static mw_rc keep(const mw_version *version, const mw_runs *runs, mw_err *err)
{
    mw_rc rc = mw_version_keep(version, err);
    return rc == MW_OK ? mw_runs_keep(runs, err) : rc;
}

/* What is listed now is ours to remove, as long as we do not give up the turn. */
static void let_go(mw_store *store)
{
    mw_version *version = mw_store_version(store);
    mw_version_let_go(version);
    mw_version_unref(version);
}

mw_rc mw_snapshots_keep(mw_store *store, mw_err *err)
{
    mw_runs *runs = NULL;
    mw_version *version = mw_store_version(store);
    mw_rc rc = keep(version, NULL, err);
    mw_version_unref(version);
    begin_again(store);
    while (rc == MW_OK && next_to_keep(store, &version, &runs)) {
        rc = keep(version, runs, err);
        mw_version_unref(version);
        mw_runs_unref(runs);
    }
    if (rc != MW_OK) let_go(store);
    return rc;
}

int64_t mw_snapshot_count(const mw_snapshot *snapshot) { return snapshot->count; }

/* ---- cursors --------------------------------------------------------------------------------- */

/* An iterator that the next find in the same file uses again. */
typedef struct finder {
    mw_iter *iter;  /* NULL: none yet                 */
    uint32_t table; /* that it is of, in the version  */
} finder;

struct mw_cursor {
    mw_snapshot *snapshot;
    uint32_t column_count;
    mw_iter *merge;  /* of everything, NULL until a range is asked for            */
    finder *finders; /* per generation and base level, made when find comes there */
    mw_iter **runs;  /* per run that the snapshot sees, newest first, made likewise */
    uint32_t run_count;
    const mw_node *node; /* find: the id is in memory                                 */
    mw_iter *at;         /* where the cursor stands otherwise: merge or one of finders */
};

/* What the snapshot sees of generation i besides its memtable. */
static const mw_runs *runs_of(const mw_snapshot *snapshot, uint32_t i)
{
    return mw_generation_runs(snapshot->version->generations[i], snapshot->sequence);
}

static uint32_t count_runs(const mw_snapshot *snapshot)
{
    uint32_t count = mw_runs_count(snapshot->runs);
    for (uint32_t i = 0; i < snapshot->version->generation_count; i++) {
        count += mw_runs_count(runs_of(snapshot, i));
    }
    return count;
}

mw_rc mw_cursor_open(mw_snapshot *snapshot, mw_cursor **out, mw_err *err)
{
    const mw_env *env = snapshot->store->env;
    mw_cursor *cursor = mw_alloc_zero(env, sizeof *cursor);
    if (!cursor) return mw_fail(err, MW_NOMEM, "no memory for a cursor");
    cursor->snapshot = mw_snapshot_ref(snapshot);
    cursor->column_count = snapshot->version->manifest->schema.column_count;
    cursor->run_count = count_runs(snapshot);
    *out = cursor;
    return MW_OK;
}

/* Generations, then base levels from 1. */
static uint32_t finder_count(const mw_version *version)
{
    const mw_levels *levels = &version->files->levels;
    return levels->files[0].count + levels->deepest;
}

void mw_cursor_close(mw_cursor *cursor)
{
    if (!cursor) return;
    mw_snapshot *snapshot = cursor->snapshot;
    const mw_env *env = snapshot->store->env;
    mw_iter_close(cursor->merge);
    for (uint32_t i = 0; cursor->finders && i < finder_count(snapshot->version); i++) {
        mw_iter_close(cursor->finders[i].iter);
    }
    mw_free(env, cursor->finders);
    for (uint32_t i = 0; cursor->runs && i < cursor->run_count; i++) {
        mw_iter_close(cursor->runs[i]);
    }
    mw_free(env, cursor->runs);
    mw_free(env, cursor);
    mw_snapshot_release(snapshot);
}

static mw_rc open_tables(const mw_version *version, mw_iter **parts, uint32_t *count, mw_err *err)
{
    const mw_levels *levels = &version->files->levels;
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < levels->files[0].count; i++) {
        rc = mw_table_iter(version->tables[i], &parts[*count], err);
        if (rc == MW_OK) (*count)++;
    }
    for (uint32_t level = 1; rc == MW_OK && level <= levels->deepest; level++) {
        if (levels->files[level].count == 0) continue;
        rc = mw_version_level_iter(version, levels->files[level], &parts[*count], err);
        if (rc == MW_OK) (*count)++;
    }
    return rc;
}

/* Opens an iterator over each run, newest first. *count: how many parts are open, also after a
** failure. */
static mw_rc open_runs(const mw_runs *runs, mw_iter **parts, uint32_t *count, mw_err *err)
{
    mw_rc rc = MW_OK;
    for (uint32_t i = mw_runs_count(runs); rc == MW_OK && i-- > 0;) {
        rc = mw_table_iter(runs->runs[i]->table, &parts[*count], err);
        if (rc == MW_OK) (*count)++;
    }
    return rc;
}

/* The same over every part of the snapshot. */
static mw_rc open_parts(mw_cursor *cursor, mw_iter **parts, uint32_t *count, mw_err *err)
{
    const mw_snapshot *snapshot = cursor->snapshot;
    const mw_version *version = snapshot->version;
    mw_rc rc = MW_OK;
    if (snapshot->overlay) {
        rc = mw_memtable_iter(snapshot->overlay, snapshot->overlay_limit, cursor->column_count,
                              &parts[*count], err);
        if (rc == MW_OK) (*count)++;
    }
    if (rc == MW_OK) rc = open_runs(snapshot->runs, parts, count, err);
    for (uint32_t i = 0; rc == MW_OK && i < version->generation_count; i++) {
        mw_memtable *memtable = version->generations[i]->memtable;
        if (mw_memtable_versions(memtable) > 0) {
            rc = mw_memtable_iter(memtable, snapshot->sequence, cursor->column_count,
                                  &parts[*count], err);
            if (rc == MW_OK) (*count)++;
        }
        if (rc == MW_OK) rc = open_runs(runs_of(snapshot, i), parts, count, err);
    }
    return rc == MW_OK ? open_tables(version, parts, count, err) : rc;
}

static mw_rc make_merge(mw_cursor *cursor, mw_err *err)
{
    if (cursor->merge) return MW_OK;
    const mw_env *env = cursor->snapshot->store->env;
    const mw_version *version = cursor->snapshot->version;
    size_t room = 1 + (size_t)cursor->run_count + version->generation_count + finder_count(version);
    mw_iter **parts = mw_alloc_zero(env, room * sizeof(mw_iter *));
    if (!parts) return mw_fail(err, MW_NOMEM, "no memory for a cursor");
    uint32_t count = 0;
    mw_rc rc = open_parts(cursor, parts, &count, err);
    if (rc == MW_OK) {
        rc = mw_merge_create(env, parts, count, MW_DROP_TOMBSTONES, &cursor->merge, err);
    } else {
        for (uint32_t i = 0; i < count; i++) mw_iter_close(parts[i]);
    }
    mw_free(env, parts);
    return rc;
}

static mw_rc use_merge(mw_cursor *cursor, mw_err *err)
{
    cursor->node = NULL;
    cursor->at = NULL;
    mw_rc rc = make_merge(cursor, err);
    if (rc == MW_OK) cursor->at = cursor->merge;
    return rc;
}

mw_rc mw_cursor_first(mw_cursor *cursor, mw_err *err)
{
    mw_rc rc = use_merge(cursor, err);
    return rc == MW_OK ? cursor->at->ops->first(cursor->at, err) : rc;
}

mw_rc mw_cursor_last(mw_cursor *cursor, mw_err *err)
{
    mw_rc rc = use_merge(cursor, err);
    return rc == MW_OK ? cursor->at->ops->last(cursor->at, err) : rc;
}

mw_rc mw_cursor_seek(mw_cursor *cursor, mw_slice key, mw_err *err)
{
    mw_rc rc = use_merge(cursor, err);
    return rc == MW_OK ? cursor->at->ops->seek(cursor->at, key, err) : rc;
}

mw_rc mw_cursor_seek_back(mw_cursor *cursor, mw_slice key, mw_err *err)
{
    mw_rc rc = use_merge(cursor, err);
    return rc == MW_OK ? cursor->at->ops->seek_back(cursor->at, key, err) : rc;
}

/* After find there is no other id to go to. */
static mw_rc move(mw_cursor *cursor, bool forward, mw_err *err)
{
    assert(mw_cursor_valid(cursor));
    if (cursor->node || cursor->at != cursor->merge) {
        cursor->node = NULL;
        cursor->at = NULL;
        return MW_OK;
    }
    const mw_iter_ops *ops = cursor->at->ops;
    return forward ? ops->next(cursor->at, err) : ops->prev(cursor->at, err);
}

mw_rc mw_cursor_next(mw_cursor *cursor, mw_err *err) { return move(cursor, true, err); }

mw_rc mw_cursor_prev(mw_cursor *cursor, mw_err *err) { return move(cursor, false, err); }

/* Is the id in this memtable? Then the cursor stands on it, or nowhere: it was deleted. */
static bool find_in_memory(mw_cursor *cursor, const mw_memtable *rows, mw_slice key, uint64_t limit)
{
    const mw_node *node = mw_memtable_find(rows, key, limit);
    if (node && !mw_node_tombstone(node)) cursor->node = node;
    return node != NULL;
}

/* The same for a table file. *place: where its iterator is kept for the next find. */
static mw_rc find_in_table(mw_cursor *cursor, mw_table *table, mw_iter **place, mw_slice key,
                           bool *found, mw_err *err)
{
    mw_rc rc = mw_table_may_hold(table, key, found, err);
    if (rc != MW_OK || !*found) return rc;
    if (!*place) rc = mw_table_iter(table, place, err);
    if (rc == MW_OK) rc = mw_table_iter_find(*place, key, found, err);
    if (rc == MW_OK && *found && !(*place)->tombstone) cursor->at = *place;
    return rc;
}

/* Places for the iterators of finds. */
static mw_rc make_places(mw_cursor *cursor, mw_iter ***places, uint32_t count, mw_err *err)
{
    if (*places) return MW_OK;
    *places = mw_alloc_zero(cursor->snapshot->store->env, count * sizeof(mw_iter *));
    return *places ? MW_OK : mw_fail(err, MW_NOMEM, "no memory for a cursor");
}

/* The same for a list of runs; `from`: number of its newest one among all that the snapshot
** sees. */
static mw_rc find_in_runs(mw_cursor *cursor, const mw_runs *runs, uint32_t from, mw_slice key,
                          bool *found, mw_err *err)
{
    uint32_t count = mw_runs_count(runs);
    mw_rc rc = count ? make_places(cursor, &cursor->runs, cursor->run_count, err) : MW_OK;
    for (uint32_t i = 0; rc == MW_OK && !*found && i < count; i++) {
        mw_table *table = runs->runs[count - 1 - i]->table;
        rc = find_in_table(cursor, table, &cursor->runs[from + i], key, found, err);
    }
    return rc;
}

/* The parts that are not listed yet. */
static mw_rc find_unlisted(mw_cursor *cursor, mw_slice key, bool *found, mw_err *err)
{
    const mw_snapshot *snapshot = cursor->snapshot;
    const mw_version *version = snapshot->version;
    uint32_t from = mw_runs_count(snapshot->runs);
    *found = snapshot->overlay &&
             find_in_memory(cursor, snapshot->overlay, key, snapshot->overlay_limit);
    mw_rc rc = *found ? MW_OK : find_in_runs(cursor, snapshot->runs, 0, key, found, err);
    for (uint32_t i = 0; rc == MW_OK && !*found && i < version->generation_count; i++) {
        const mw_memtable *rows = version->generations[i]->memtable;
        const mw_runs *runs = runs_of(snapshot, i);
        *found = find_in_memory(cursor, rows, key, snapshot->sequence);
        if (!*found) rc = find_in_runs(cursor, runs, from, key, found, err);
        from += mw_runs_count(runs);
    }
    return rc;
}

/* Asks table i of the version, with the iterator that is kept for its part of it. */
static mw_rc find_listed(mw_cursor *cursor, uint32_t part, uint32_t i, mw_slice key, bool *found,
                         mw_err *err)
{
    const mw_version *version = cursor->snapshot->version;
    if (!cursor->finders) {
        cursor->finders = mw_alloc_zero(version->env, finder_count(version) * sizeof(finder));
        if (!cursor->finders) return mw_fail(err, MW_NOMEM, "no memory for a cursor");
    }
    finder *own = &cursor->finders[part];
    if (own->iter && own->table != i) {
        mw_iter_close(own->iter);
        own->iter = NULL;
    }
    own->table = i;
    return find_in_table(cursor, version->tables[i], &own->iter, key, found, err);
}

mw_rc mw_cursor_find(mw_cursor *cursor, mw_slice key, mw_err *err)
{
    const mw_version *version = cursor->snapshot->version;
    const mw_levels *levels = &version->files->levels;
    uint32_t generations = levels->files[0].count;
    bool found;
    cursor->at = NULL;
    cursor->node = NULL;
    mw_rc rc = find_unlisted(cursor, key, &found, err);
    for (uint32_t i = 0; rc == MW_OK && !found && i < generations; i++) {
        rc = find_listed(cursor, i, i, key, &found, err);
    }
    for (uint32_t level = 1; rc == MW_OK && !found && level <= levels->deepest; level++) {
        uint32_t i;
        if (!mw_version_base_table(version, level, key, &i)) continue;
        rc = find_listed(cursor, generations + level - 1, i, key, &found, err);
    }
    return rc;
}

bool mw_cursor_valid(const mw_cursor *cursor)
{
    return cursor->node || (cursor->at && cursor->at->valid);
}

mw_slice mw_cursor_key(const mw_cursor *cursor)
{
    assert(mw_cursor_valid(cursor));
    return cursor->node ? mw_node_key(cursor->node) : cursor->at->key;
}

mw_rc mw_cursor_column(mw_cursor *cursor, uint32_t index, mw_value *value, mw_err *err)
{
    assert(mw_cursor_valid(cursor) && index < cursor->column_count);
    if (!cursor->node) return cursor->at->ops->column(cursor->at, index, value, err);
    return mw_row_column(mw_node_row(cursor->node), cursor->column_count, index, value, err);
}

mw_rc mw_cursor_row(mw_cursor *cursor, mw_buf *row, mw_err *err)
{
    const mw_env *env = row->env;
    if (cursor->node) {
        mw_buf_put_slice(row, mw_node_row(cursor->node));
        return mw_buf_check(row, err);
    }
    mw_value *values = mw_alloc(env, cursor->column_count * sizeof *values);
    if (!values) return mw_fail(err, MW_NOMEM, "no memory for a row");
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < cursor->column_count; i++) {
        rc = mw_cursor_column(cursor, i, &values[i], err);
    }
    if (rc == MW_OK) {
        mw_row_encode(row, values, cursor->column_count);
        rc = mw_buf_check(row, err);
    }
    mw_free(env, values);
    return rc;
}
