/* compact.c: merges.
**
**     [base][g4][g5][g6] g7 g8      ->      [base'] g7 g8
**
** A merge takes the base and the oldest generations, walks them as one sorted view in which the
** newest version of each id wins, and writes a new base. Everything older than a tombstone is among
** the inputs (the base is always one of them), so tombstones are dropped: afterwards an id that is
** deleted takes no room at all, and no id lies twice in the base (I6).
**
** One manifest version removes the inputs and adds the output. It is computed from whatever
** manifest is current then, so a flush that landed meanwhile survives; it is dropped unless all
** inputs are still listed, so nothing is ever merged twice (I5).
**
** A crash before the manifest leaves an output that nothing lists, after it inputs that nothing
** lists: both are swept. Readers that hold an older version keep its files by their open
** descriptors (I11).
**
** Slices: a step merges a bounded number of rows, so whoever runs it can flush, stop or be
** interrupted in between; nothing is locked over a step that a writer or reader needs. */
#include "compact.h"

#include "merge.h"
#include "txn.h"

#include <inttypes.h>

enum { SLICE_ROWS = 8192 };

mw_pick mw_compact_pick(const mw_manifest *manifest, uint32_t max_generations, uint64_t below)
{
    mw_pick pick = {0};
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const mw_manifest_file *file = &manifest->files[i];
        if (file->level == 0) {
            bool enough = max_generations > 0 && pick.generations == max_generations;
            if (enough || file->generation >= below) break;
            pick.generations++;
        }
        pick.file_count++;
    }
    if (pick.generations == 0) pick.file_count = 0;
    return pick;
}

bool mw_compact_due(const mw_store *store)
{
    const mw_manifest *manifest = store->version->manifest;
    uint32_t pending = 0;
    for (uint32_t i = 0; i < manifest->file_count; i++) pending += manifest->files[i].level == 0;
    return pending > 0 && pending >= store->options.merge_generations;
}

struct mw_compact {
    mw_store *store;
    mw_version *version; /* that the inputs were picked from */
    mw_pick pick;
    mw_iter *merge;
    mw_table_writer *writer;
    mw_manifest_file file;
    uint64_t rows;
};

/* Opens the inputs, newest first. */
static mw_rc open_inputs(mw_compact *self, mw_err *err)
{
    const mw_env *env = self->store->env;
    const mw_version *version = self->version;
    uint32_t count = self->pick.file_count;
    mw_iter **inputs = mw_alloc_zero(env, count * sizeof(mw_iter *));
    if (!inputs) return mw_fail(err, MW_NOMEM, "no memory for a merge");
    uint32_t open = 0;
    mw_rc rc = MW_OK;
    for (; rc == MW_OK && open < count; open += rc == MW_OK) {
        mw_table *table = version->tables[version->table_count - count + open];
        rc = mw_table_iter(table, &inputs[open], err);
    }
    if (rc == MW_OK) {
        rc = mw_merge_create(env, inputs, count, MW_DROP_TOMBSTONES, &self->merge, err);
    } else {
        for (uint32_t i = 0; i < open; i++) mw_iter_close(inputs[i]);
    }
    mw_free(env, inputs);
    return rc;
}

static mw_rc open_output(mw_compact *self, mw_err *err)
{
    mw_store *store = self->store;
    const mw_manifest *manifest = self->version->manifest;
    const mw_manifest_file *inputs = manifest->files;
    uint32_t count = self->pick.file_count;
    self->file = (mw_manifest_file){
        .epoch = store->epoch,
        .number = mw_store_table_number(store),
        .level = 1,
        .generation = inputs[count - 1].generation,
    };
    mw_table_options options =
        mw_version_table_options(manifest, self->file.epoch, self->file.number);
    options.sequence_min = inputs[0].props.sequence_min;
    options.sequence_max = inputs[count - 1].props.sequence_max;
    options.compression = store->options.compression;
    options.dictionaries = true;
    options.group_rows = store->options.group_rows;
    options.page_bytes = store->options.page_bytes;
    return mw_table_writer_create(store->env, store->dir, &options, &self->writer, err);
}

mw_rc mw_compact_start(mw_store *store, uint32_t max_generations, mw_compact **out, mw_err *err)
{
    *out = NULL;
    /* In this order: whoever wrote to a generation that the version lists was undecided before it
    ** was listed. */
    mw_version *version = mw_store_version(store);
    uint64_t below = mw_txn_undecided_generation(store);
    mw_pick pick = mw_compact_pick(version->manifest, max_generations, below);
    if (pick.file_count == 0) {
        mw_version_unref(version);
        return MW_OK;
    }
    mw_compact *self = mw_alloc_zero(store->env, sizeof *self);
    if (!self) {
        mw_version_unref(version);
        return mw_fail(err, MW_NOMEM, "no memory for a merge");
    }
    self->store = store;
    self->version = version;
    self->pick = pick;
    mw_rc rc = open_inputs(self, err);
    if (rc == MW_OK) rc = open_output(self, err);
    if (rc == MW_OK) rc = self->merge->ops->first(self->merge, err);
    if (rc == MW_OK) {
        *out = self;
    } else {
        mw_compact_abandon(self);
    }
    return rc;
}

mw_rc mw_compact_step(mw_compact *self, bool *done, mw_err *err)
{
    mw_rc rc = MW_OK;
    for (int i = 0; rc == MW_OK && self->merge->valid && i < SLICE_ROWS; i++) {
        rc = mw_table_writer_add(self->writer, self->merge, err);
        if (rc == MW_OK) rc = self->merge->ops->next(self->merge, err);
        self->rows++;
    }
    *done = rc == MW_OK && !self->merge->valid;
    return rc;
}

/* Computes the successor of the current manifest: inputs out, output in. */
static mw_rc replace_inputs(mw_compact *self, mw_manifest *next, mw_err *err)
{
    const mw_manifest_file *inputs = self->version->manifest->files;
    next->boundary = next->number;
    for (uint32_t i = 0; i < self->pick.file_count; i++) {
        if (!mw_manifest_remove_file(next, inputs[i].epoch, inputs[i].number)) {
            return mw_fail(err, MW_MISUSE, "an input of the merge is not listed any more");
        }
    }
    next->table_number = mw_max(next->table_number, self->file.number);
    if (self->rows == 0) return MW_OK;
    next->bytes_merged += self->file.props.bytes;
    return mw_manifest_add_file(next, &self->file, err);
}

/* Requires manifest_mutex. */
static mw_rc list_output(mw_compact *self, mw_err *err)
{
    mw_version *current = mw_store_version(self->store);
    mw_manifest *next = NULL;
    mw_rc rc = mw_manifest_copy(current->manifest, &next, err);
    if (rc == MW_OK && mw_manifest_epoch_claimed(next) != self->store->epoch) {
        rc = mw_fail(err, MW_FENCED, "epoch %" PRIu64 " is over", self->store->epoch);
    }
    if (rc == MW_OK) rc = replace_inputs(self, next, err);
    if (rc == MW_OK) rc = mw_store_publish(self->store, next, err);
    mw_manifest_unref(next);
    mw_version_unref(current);
    return rc;
}

/* Finishes the output file; without rows there is none. */
static mw_rc finish_output(mw_compact *self, mw_err *err)
{
    mw_table_writer *writer = self->writer;
    self->writer = NULL;
    if (self->rows > 0) return mw_table_writer_finish(writer, &self->file.props, &self->file.keys, err);
    mw_table_writer_abandon(writer);
    return MW_OK;
}

mw_rc mw_compact_finish(mw_compact *self, uint32_t *folded, mw_err *err)
{
    mw_store *store = self->store;
    const mw_env *env = store->env;
    mw_rc rc = finish_output(self, err);
    bool output = rc == MW_OK && self->rows > 0;
    if (rc == MW_OK) {
        env->mutex_lock(env->ctx, store->manifest_mutex);
        rc = list_output(self, err);
        env->mutex_unlock(env->ctx, store->manifest_mutex);
    }
    if (rc == MW_OK) {
        *folded = self->pick.generations;
        for (uint32_t i = 0; i < self->pick.file_count; i++) {
            mw_store_remove_table(store, &self->version->manifest->files[i]);
        }
        mw_store_lock(store);
        store->figures.merges++;
        mw_store_unlock(store);
    } else if (output && rc != MW_PERSISTENCE && rc != MW_FENCED) {
        mw_store_remove_table(store, &self->file); /* else a manifest may stand that lists it */
    }
    mw_compact_abandon(self);
    return rc;
}

void mw_compact_abandon(mw_compact *self)
{
    if (!self) return;
    mw_table_writer_abandon(self->writer);
    mw_iter_close(self->merge);
    mw_key_range_free(self->store->env, &self->file.keys);
    mw_version_unref(self->version);
    mw_free(self->store->env, self);
}

static mw_rc run_slices(mw_compact *self, mw_interrupted interrupted, void *arg, mw_err *err)
{
    mw_rc rc = MW_OK;
    bool done = false;
    while (rc == MW_OK && !done) {
        if (interrupted && interrupted(arg)) {
            return mw_fail(err, MW_INTERRUPTED, "the merge was interrupted: nothing has changed");
        }
        rc = mw_compact_step(self, &done, err);
    }
    return rc;
}

mw_rc mw_compact_run(mw_store *store, uint32_t max_generations, mw_interrupted interrupted,
                     void *arg, uint32_t *folded, mw_err *err)
{
    const mw_env *env = store->env;
    mw_compact *self = NULL;
    *folded = 0;
    env->mutex_lock(env->ctx, store->merge_mutex);
    mw_rc rc = mw_compact_start(store, max_generations, &self, err);
    if (rc == MW_OK && self) {
        rc = run_slices(self, interrupted, arg, err);
        if (rc == MW_OK) {
            rc = mw_compact_finish(self, folded, err);
        } else {
            mw_compact_abandon(self);
        }
    }
    env->mutex_unlock(env->ctx, store->merge_mutex);
    return rc;
}
