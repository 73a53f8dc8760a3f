/* overlay.c: a transaction's own changes.
**
**     sequences      101 ....... 340 | 341 ... 500 | 501 ...... 777 | 778 ...
**                        run 1       |    run 2    |     run 3      | rows, in memory
**     marks          ^ 100           ^ 340                               ^ 801
**
** Changes lie in a memtable: readable at once by their own connection, and multi-version so that a
** scan never meets its own inserts. They count on from the store's newest sequence; that is final,
** because the transaction holds the turn.
**
** When the memtable has passed its limit it is spilled: the newest version of each id goes to a
** table file, a run, and a fresh memtable goes on. So the memory of a transaction is bounded by the
** limit and some 200 bytes a run. A run never crosses a mark that is alive, so a savepoint is
** undone by dropping whole runs and taking versions out of the memtable.
**
** Where a cursor reads the memtable, what is undone must stay for it: the transaction goes on with
** a copy. Runs are referenced by whoever reads them and go with the last reference.
**
** Crash: nothing names a run before the transaction's entry in the log does (run.h). */
#include "overlay.h"

#include <string.h>

/* A transaction that was not spilled is one entry of the log, and lies in memory three times at its
** commit. A row takes less room there than in the overlay. */
enum { SPILL_BYTES_MAX = MW_LOG_ENTRY_BYTES_MAX / 4 };

/* Each look-up asks every run, so there must not be too many: where memtables are small, those of a
** large transaction grow with the number of its runs. */
enum {
    RUNS_A_STEP = 128,          /* after so many the limit doubles, */
    GROWN_BYTES_MAX = 64 << 20, /* up to this                       */
    RUNS_MAX = 1 << 14,         /* a quarter of what a manifest may list */
};

/* What the memory may hold beside that many runs. Looked at once a run: the option may be changed at
** any time, by anybody. */
static uint64_t spill_bytes(mw_store *store, uint32_t runs)
{
    uint64_t bytes = mw_store_options(store).memtable_bytes;
    uint32_t steps = runs / RUNS_A_STEP;
    while (steps-- > 0 && bytes < GROWN_BYTES_MAX) bytes *= 2;
    return mw_min(bytes, SPILL_BYTES_MAX);
}

mw_rc mw_overlay_init(mw_overlay *overlay, mw_store *store, uint64_t base, mw_err *err)
{
    *overlay = (mw_overlay){.store = store, .base = base, .last = base, .spilled = base};
    overlay->limit_bytes = spill_bytes(store, 0);
    overlay->rows = mw_memtable_create(store->env);
    return overlay->rows ? MW_OK : mw_fail(err, MW_NOMEM, "no memory for a transaction");
}

static void doom_from(const mw_runs *runs, uint32_t first)
{
    for (uint32_t i = first; i < mw_runs_count(runs); i++) mw_run_doom(runs->runs[i]);
}

void mw_overlay_free(mw_overlay *overlay, bool doom)
{
    if (!overlay->store) return;
    const mw_env *env = overlay->store->env;
    if (doom) doom_from(overlay->runs, 0);
    mw_runs_unref(overlay->runs);
    mw_memtable_unref(overlay->rows);
    mw_free(env, overlay->changes);
    mw_free(env, overlay->marks);
    memset(overlay, 0, sizeof *overlay);
}

bool mw_overlay_empty(const mw_overlay *overlay)
{
    return overlay->change_count == 0 && mw_runs_count(overlay->runs) == 0;
}

mw_rc mw_overlay_find(const mw_overlay *overlay, mw_slice key, bool *found, bool *tombstone,
                      mw_err *err)
{
    const mw_node *node = mw_memtable_find(overlay->rows, key, UINT64_MAX);
    *found = node != NULL;
    if (!node) return mw_runs_find(overlay->runs, key, found, tombstone, err);
    *tombstone = mw_node_tombstone(node);
    return MW_OK;
}

static mw_rc grow_changes(mw_overlay *overlay, mw_err *err)
{
    if (overlay->change_count < overlay->change_capacity) return MW_OK;
    uint64_t capacity = overlay->change_capacity ? 2 * overlay->change_capacity : 16;
    mw_change *grown = mw_resize(overlay->store->env, overlay->changes, capacity * sizeof *grown);
    if (!grown) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    overlay->changes = grown;
    overlay->change_capacity = capacity;
    return MW_OK;
}

mw_rc mw_overlay_add(mw_overlay *overlay, const mw_log_op *op, int delta, mw_err *err)
{
    mw_node *node;
    mw_rc rc = grow_changes(overlay, err);
    if (rc != MW_OK) return rc;
    rc = mw_memtable_add(overlay->rows, op->key, overlay->last + 1, op->tombstone, op->row, &node,
                         err);
    if (rc != MW_OK) return rc;
    overlay->changes[overlay->change_count++] = (mw_change){node, delta};
    overlay->last++;
    overlay->delta += delta;
    return MW_OK;
}

/* ---- spilling -------------------------------------------------------------------------------- */

bool mw_overlay_full(const mw_overlay *overlay)
{
    size_t rows_bytes = mw_memtable_bytes(overlay->rows);
    uint64_t bytes = rows_bytes + overlay->change_count * sizeof(mw_change);
    return rows_bytes > 0 && bytes >= overlay->limit_bytes;
}

bool mw_overlay_fits_entry(const mw_overlay *overlay)
{
    return mw_memtable_bytes(overlay->rows) <= SPILL_BYTES_MAX;
}

/* Some of the changes: those with sequences above `above`, up to `through`, which is the last one's
** own. */
typedef struct part {
    uint64_t above;
    uint64_t through;
    uint64_t change_count;
    int64_t delta;
} part;

/* What lies in those bounds. */
static part part_of(const mw_overlay *overlay, uint64_t above, uint64_t through)
{
    part of = {0};
    for (uint64_t i = 0; i < overlay->change_count; i++) {
        uint64_t sequence = mw_node_sequence(overlay->changes[i].node);
        if (sequence <= above || sequence > through) continue;
        if (of.change_count++ == 0) of.above = sequence - 1;
        of.through = sequence;
        of.delta += overlay->changes[i].delta;
    }
    return of;
}

static mw_rc write_versions(const mw_overlay *overlay, const part *of, mw_table_writer *writer,
                            uint64_t *bytes, mw_err *err)
{
    mw_iter *iter;
    uint32_t column_count = overlay->store->schema->column_count;
    mw_rc rc = mw_memtable_iter(overlay->rows, of->through, column_count, &iter, err);
    if (rc != MW_OK) return rc;
    rc = iter->ops->first(iter, err);
    while (rc == MW_OK && iter->valid) {
        if (iter->sequence > of->above) {
            rc = mw_table_writer_add(writer, iter, err);
            *bytes += iter->key.size + mw_memtable_iter_row(iter).size;
        }
        if (rc == MW_OK) rc = iter->ops->next(iter, err);
    }
    mw_iter_close(iter);
    return rc;
}

static mw_table_options table_options(mw_store *store, const mw_run *run)
{
    const mw_manifest_file *file = &run->file;
    mw_table_options options = mw_version_table_options(store->birth, file->epoch, file->number);
    options.sequence_min = run->above + 1;
    options.sequence_max = run->through;
    mw_store_set_table_options(store, &options);
    return options;
}

/* Writes the run's file and opens it. On failure no file is left. */
static mw_rc write_run(const mw_overlay *overlay, const part *of, mw_run *run, mw_err *err)
{
    mw_store *store = overlay->store;
    run->above = of->above;
    run->through = of->through;
    run->delta = of->delta;
    run->file.epoch = store->epoch;
    run->file.number = mw_store_table_number(store);
    mw_table_options options = table_options(store, run);
    mw_table_writer *writer;
    mw_rc rc = mw_table_writer_create(store->env, store->dir, &options, &writer, err);
    if (rc != MW_OK) return rc;
    rc = write_versions(overlay, of, writer, &run->logical_bytes, err);
    if (rc != MW_OK) {
        mw_table_writer_abandon(writer);
        return rc;
    }
    rc = mw_table_writer_finish(writer, &run->file.props, &run->file.keys, err);
    if (rc != MW_OK) return rc;
    rc = mw_run_open(run, store->tables, store->dir, &options, err);
    if (rc != MW_OK) mw_store_remove_table(store, &run->file);
    return rc;
}

/* Appends a run with that part of the changes, if there are any in it. */
static mw_rc add_run(const mw_overlay *overlay, const part *of, mw_runs **runs, mw_err *err)
{
    const mw_env *env = overlay->store->env;
    mw_run *run = NULL;
    mw_runs *longer;
    if (of->change_count == 0) return MW_OK;
    if (mw_runs_count(*runs) == RUNS_MAX) {
        return mw_fail(
            err, MW_TOOBIG,
            "the transaction has filled %d table files: commit in smaller parts, or with "
            "a larger memtable",
            RUNS_MAX);
    }
    mw_rc rc = mw_run_create(env, &run, err);
    if (rc != MW_OK) return rc;
    rc = write_run(overlay, of, run, err);
    if (rc == MW_OK) {
        rc = mw_runs_create(env, *runs, mw_runs_count(*runs), &run, 1, &longer, err);
        if (rc != MW_OK) mw_run_doom(run);
    }
    mw_run_unref(run);
    if (rc != MW_OK) return rc;
    mw_runs_unref(*runs);
    *runs = longer;
    return MW_OK;
}

static mw_rc write_parts(const mw_overlay *overlay, mw_runs **runs, mw_err *err)
{
    uint64_t above = overlay->spilled;
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < overlay->mark_count; i++) {
        uint64_t mark = overlay->marks[i];
        if (mark <= above) continue;
        part of = part_of(overlay, above, mark);
        rc = add_run(overlay, &of, runs, err);
        above = mark;
    }
    if (rc != MW_OK || above == overlay->last) return rc;
    part of = part_of(overlay, above, overlay->last);
    return add_run(overlay, &of, runs, err);
}

/* A writer that has stopped shall not fill the disk. */
static mw_rc check_writer(mw_store *store, mw_err *err)
{
    mw_store_lock(store);
    mw_rc rc = mw_store_stopped(store, err);
    mw_store_unlock(store);
    return rc;
}

mw_rc mw_overlay_spill(mw_overlay *overlay, mw_err *err)
{
    mw_rc rc = check_writer(overlay->store, err);
    if (rc != MW_OK) return rc;
    mw_memtable *fresh = mw_memtable_create(overlay->store->env);
    if (!fresh) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    mw_runs *runs = mw_runs_ref(overlay->runs);
    rc = write_parts(overlay, &runs, err);
    if (rc != MW_OK) {
        doom_from(runs, mw_runs_count(overlay->runs));
        mw_runs_unref(runs);
        mw_memtable_unref(fresh);
        return rc;
    }
    mw_runs_unref(overlay->runs);
    mw_memtable_unref(overlay->rows);
    overlay->runs = runs;
    overlay->rows = fresh;
    overlay->change_count = 0;
    overlay->spilled = overlay->last;
    overlay->limit_bytes = spill_bytes(overlay->store, mw_runs_count(runs));
    return MW_OK;
}

/* ---- marks ----------------------------------------------------------------------------------- */

mw_rc mw_overlay_mark(mw_overlay *overlay, uint64_t *mark, mw_err *err)
{
    *mark = overlay->last;
    if (overlay->mark_count > 0 && overlay->marks[overlay->mark_count - 1] == overlay->last) {
        return MW_OK;
    }
    if (overlay->mark_count == overlay->mark_capacity) {
        uint32_t capacity = overlay->mark_capacity ? 2 * overlay->mark_capacity : 8;
        uint64_t *grown = mw_resize(overlay->store->env, overlay->marks, capacity * sizeof *grown);
        if (!grown) return mw_fail(err, MW_NOMEM, "no memory for a savepoint");
        overlay->marks = grown;
        overlay->mark_capacity = capacity;
    }
    overlay->marks[overlay->mark_count++] = overlay->last;
    return MW_OK;
}

void mw_overlay_release(mw_overlay *overlay, uint64_t kept)
{
    while (overlay->mark_count > 0 && overlay->marks[overlay->mark_count - 1] > kept) {
        overlay->mark_count--;
    }
}

/* Somebody reads the rows: what is undone must stay for him. From now on the transaction has rows
** of its own, the first `kept` changes. */
static mw_rc part_from_readers(mw_overlay *overlay, uint64_t kept, mw_err *err)
{
    const mw_env *env = overlay->store->env;
    mw_memtable *fresh = mw_memtable_create(env);
    mw_node **nodes = mw_alloc(env, kept * sizeof(mw_node *));
    mw_rc rc = fresh && nodes ? MW_OK : mw_fail(err, MW_NOMEM, "no memory for a savepoint");
    for (uint64_t i = 0; rc == MW_OK && i < kept; i++) {
        const mw_node *node = overlay->changes[i].node;
        rc = mw_memtable_add(fresh, mw_node_key(node), mw_node_sequence(node),
                             mw_node_tombstone(node), mw_node_row(node), &nodes[i], err);
    }
    if (rc == MW_OK) {
        for (uint64_t i = 0; i < kept; i++) overlay->changes[i].node = nodes[i];
        mw_memtable *before = overlay->rows;
        overlay->rows = fresh;
        fresh = before;
    }
    mw_memtable_unref(fresh);
    mw_free(env, nodes);
    return rc;
}

/* Takes the changes in memory behind the first `kept` back. */
static mw_rc undo_rows(mw_overlay *overlay, uint64_t kept, mw_err *err)
{
    if (overlay->change_count == kept) return MW_OK;
    bool parted = mw_memtable_shared(overlay->rows);
    mw_rc rc = parted ? part_from_readers(overlay, kept, err) : MW_OK;
    if (rc != MW_OK) return rc;
    while (overlay->change_count > kept) {
        const mw_change *last = &overlay->changes[--overlay->change_count];
        if (!parted) mw_memtable_remove(overlay->rows, last->node);
        overlay->delta -= last->delta;
    }
    return MW_OK;
}

/* How many of the runs a mark keeps. */
static mw_rc kept_runs(const mw_overlay *overlay, uint64_t mark, uint32_t *kept, mw_err *err)
{
    *kept = mw_runs_count(overlay->runs);
    while (*kept > 0 && overlay->runs->runs[*kept - 1]->above >= mark) --*kept;
    if (*kept > 0 && overlay->runs->runs[*kept - 1]->through > mark) {
        return mw_fail(err, MW_MISUSE, "the savepoint was released before");
    }
    return MW_OK;
}

static void drop_runs(mw_overlay *overlay, uint32_t kept, mw_runs *shorter)
{
    for (uint32_t i = kept; i < overlay->runs->count; i++) {
        overlay->delta -= overlay->runs->runs[i]->delta;
    }
    doom_from(overlay->runs, kept);
    mw_runs_unref(overlay->runs);
    overlay->runs = shorter;
}

mw_rc mw_overlay_undo(mw_overlay *overlay, uint64_t mark, mw_err *err)
{
    uint64_t changes = overlay->change_count;
    while (changes > 0 && mw_node_sequence(overlay->changes[changes - 1].node) > mark) changes--;
    uint32_t runs;
    mw_runs *shorter = NULL;
    mw_rc rc = kept_runs(overlay, mark, &runs, err);
    if (rc != MW_OK) return rc;
    bool fewer = runs < mw_runs_count(overlay->runs);
    if (fewer && runs > 0) {
        rc = mw_runs_create(overlay->store->env, overlay->runs, runs, NULL, 0, &shorter, err);
        if (rc != MW_OK) return rc;
    }
    rc = undo_rows(overlay, changes, err);
    if (rc != MW_OK) {
        mw_runs_unref(shorter);
        return rc;
    }
    if (fewer) drop_runs(overlay, runs, shorter);
    mw_overlay_release(overlay, mark);
    return MW_OK;
}
