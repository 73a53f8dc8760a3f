/* compact.c: merges, as jobs.
**
**     [l2: a..f][l2: g..t] [l1: c..k] g4 g5 g6 g7
**                          `----- job: l1 and the oldest generations -----'
**     [l2: a..f][l2: g..t] [l1: a..h][l1: i..p] g7
**
** What a job takes is picked by pick.c. It walks its inputs as one sorted view in which the newest
** version of each id wins, and writes files of bounded size to the level below, or (what nothing
** overlaps) gives files another level and writes nothing.
**
** A tombstone is dropped when no file of a deeper level has room for its id. Nothing else can be
** older: of generations the oldest are taken, and what the output's level has in the inputs' range
** is among the inputs. So in the deepest level an id that is deleted takes no room at all, and no
** id lies twice in a level (I6).
**
** One manifest version removes the inputs and adds the outputs. It is computed from whatever
** manifest is current then, so a flush that landed meanwhile survives; it is dropped unless all
** inputs are still listed, so nothing is ever merged twice (I5).
**
** A crash before the manifest leaves outputs that nothing lists, after it inputs that nothing
** lists: both are swept. An input is removed when the last reader has gone whose version has it
** (I11).
**
** An output ends at the size limit, and where it has come to overlap so many files of the next
** level that taking it down later would be a large job (LevelDB's rule).
**
** Groups that no other input touches are copied as they are stored (table_copy.c): where rows come
** nearly in key order, that is almost all of them. A group must not be cut short for that, so rows
** that stand before a copied group are first brought to at least half of its size, together with
** the rows of one group if need be.
**
** Dictionaries are trained when everything is to become one level, not by merges that are due.
** Measured with 250,000 rows of 1 KB of json in random order, dictionaries in all merges: files of
** 16 MB take 0.306 bytes per byte of data instead of 0.345, and the load with its merges about 1.0 s
** more CPU time (a busy machine, 3 runs to 5). Without the higher level of compression it is 0.341
** for 0.6 s (1 run), so that is no way out. Who asks for a compaction waits for it and wants it small;
** a load must not wait. A sample of half a file's size leaves room to use it.
**
** Slices: a step merges a bounded number of rows and bytes, so whoever runs it can flush, stop or
** be interrupted in between; nothing is locked over a step that a writer or reader needs. */
#include "compact.h"

#include "format.h"
#include "merge.h"
#include "table_copy.h"
#include "txn.h"

#include <inttypes.h>

enum {
    SLICE_ROWS = 8192,
    SLICE_BYTES = 1 << 20,
    FILE_BYTES_MIN = 4 << 20,
    COPY_BYTES = 1 << 17, /* a stored group of so much is large, however few its rows are */
    FILE_PART = 4,      /* of a memtable's bytes is a base file */
    OVERLAP_FILES = 10, /* of the next level, at most about, that an output spans */
};

static mw_pick_limits limits_of(const mw_options *options)
{
    mw_pick_limits limits = {
        .merge_generations = options->merge_generations,
        .memtable_bytes = options->memtable_bytes,
        .file_bytes = options->file_bytes,
        .below = UINT64_MAX,
    };
    if (limits.file_bytes == 0) {
        limits.file_bytes = mw_max(options->memtable_bytes / FILE_PART, FILE_BYTES_MIN);
    }
    return limits;
}

bool mw_compact_due(const mw_store *store)
{
    const mw_version *version = store->version;
    mw_pick_limits limits = limits_of(&store->options);
    return store->owned && mw_pick_is_due(version->manifest, &version->files->levels, &limits);
}

struct mw_compact {
    mw_store *store;
    mw_version *version; /* that the inputs were picked from */
    mw_pick pick;
    mw_pick_limits limits;
    mw_table_options options;   /* of every output                     */
    uint64_t generation;        /* newest one among the inputs         */
    uint64_t versions;          /* rows and tombstones of the inputs   */
    mw_iter *merge;             /* NULL: nothing is written            */
    mw_table_writer *writer;    /* of the output at hand, NULL: none   */
    mw_manifest_file file;      /* ... what will be listed of it       */
    mw_manifest_file *outputs;  /* the finished ones, with their keys  */
    uint32_t output_count;
    uint32_t passed[MW_LEVELS_MAX]; /* deeper levels: first file that does not end before the key */
    mw_buf last;                    /* highest key of the group that was copied                   */
    uint32_t split_at;              /* rows at which the group at hand ends early, 0: nowhere     */
    uint32_t spanned;               /* files of the next level that the output at hand overlaps   */
};

/* ---- starting -------------------------------------------------------------------------------- */

static const mw_manifest_file *input(const mw_compact *self, uint32_t i)
{
    return &self->version->manifest->files[i];
}

static void sum_up(mw_compact *self, mw_file_run run)
{
    mw_table_options *options = &self->options;
    for (uint32_t i = run.first; i < run.first + run.count; i++) {
        const mw_manifest_file *file = input(self, i);
        uint64_t least = file->props.sequence_min;
        self->generation = mw_max(self->generation, file->generation);
        self->versions += file->props.rows + file->props.tombstones;
        if (least > 0 && (options->sequence_min == 0 || least < options->sequence_min)) {
            options->sequence_min = least;
        }
        options->sequence_max = mw_max(options->sequence_max, file->props.sequence_max);
    }
}

static void set_options(mw_compact *self, mw_compact_what what)
{
    mw_store *store = self->store;
    self->options = mw_version_table_options(self->version->manifest, store->epoch, 0);
    mw_store_set_table_options(store, &self->options);
    if (what == MW_COMPACT_ALL) {
        self->options.sample_bytes = mw_min(MW_TABLE_SAMPLE_BYTES, self->limits.file_bytes / 2);
    }
    sum_up(self, self->pick.above);
    sum_up(self, self->pick.below);
    for (uint32_t level = 0; level < MW_LEVELS_MAX; level++) {
        self->passed[level] = self->version->files->levels.files[level].first;
    }
}

/* Opens the inputs, newest first. *count: how many are open, also after a failure. */
static mw_rc open_inputs(mw_compact *self, mw_iter **inputs, uint32_t *count, mw_err *err)
{
    const mw_version *version = self->version;
    const mw_pick *pick = &self->pick;
    mw_rc rc = MW_OK;
    *count = 0;
    for (uint32_t i = pick->above.count; rc == MW_OK && pick->level == 0 && i-- > 0;) {
        uint32_t table = mw_level_table(version->manifest, pick->above.first + i);
        rc = mw_table_iter(version->tables[table], &inputs[*count], err);
        *count += rc == MW_OK;
    }
    const mw_file_run levels[] = {pick->above, pick->below};
    for (uint32_t i = pick->level == 0; rc == MW_OK && i < 2; i++) {
        if (levels[i].count == 0) continue;
        rc = mw_version_level_iter(version, levels[i], &inputs[*count], err);
        *count += rc == MW_OK;
    }
    return rc;
}

static mw_rc start_merge(mw_compact *self, mw_err *err)
{
    const mw_env *env = self->store->env;
    mw_iter **inputs = mw_alloc_zero(env, (self->pick.above.count + 2) * sizeof(mw_iter *));
    if (!inputs) return mw_fail(err, MW_NOMEM, "no memory for a merge");
    uint32_t count;
    mw_rc rc = open_inputs(self, inputs, &count, err);
    if (rc == MW_OK) {
        rc = mw_merge_create(env, inputs, count, MW_KEEP_TOMBSTONES, &self->merge, err);
    } else {
        for (uint32_t i = 0; i < count; i++) mw_iter_close(inputs[i]);
    }
    mw_free(env, inputs);
    return rc == MW_OK ? self->merge->ops->first(self->merge, err) : rc;
}

static mw_pick pick_for(const mw_compact_task *task, const mw_manifest *manifest,
                        const mw_pick_limits *limits)
{
    switch (task->what) {
    case MW_COMPACT_DUE: return mw_pick_due(manifest, limits);
    case MW_COMPACT_GENERATIONS:
        return mw_pick_generations(manifest, limits, task->max_generations);
    case MW_COMPACT_ALL: break;
    }
    return mw_pick_compact(manifest, limits);
}

/* A job without anything open yet; takes the reference to version. */
static mw_rc create(mw_store *store, mw_version *version, const mw_pick_limits *limits,
                    mw_compact **out, mw_err *err)
{
    mw_compact *self = mw_alloc_zero(store->env, sizeof *self);
    if (!self) {
        mw_version_unref(version);
        return mw_fail(err, MW_NOMEM, "no memory for a merge");
    }
    self->store = store;
    self->version = version;
    self->limits = *limits;
    mw_buf_init(&self->last, store->env);
    *out = self;
    return MW_OK;
}

mw_rc mw_compact_start(mw_store *store, const mw_compact_task *task, mw_compact **out, mw_err *err)
{
    *out = NULL;
    const mw_options now = mw_store_options(store);
    mw_pick_limits limits = limits_of(&now);
    /* In this order: whoever wrote to a generation that the version lists was undecided before it
    ** was listed. */
    mw_version *version = mw_store_version(store);
    mw_store_lock(store);
    limits.below = mw_txn_undecided_generation(store);
    mw_store_unlock(store);
    if (task->below > 0) limits.below = mw_min(limits.below, task->below);
    mw_pick pick = pick_for(task, version->manifest, &limits);
    if (pick.kind == MW_PICK_NOTHING) {
        mw_version_unref(version);
        return MW_OK;
    }
    mw_compact *self = NULL;
    mw_rc rc = create(store, version, &limits, &self, err);
    if (rc != MW_OK) return rc;
    self->pick = pick;
    if (pick.kind == MW_PICK_MERGE) {
        set_options(self, task->what);
        rc = start_merge(self, err);
    }
    if (rc == MW_OK) {
        *out = self;
    } else {
        mw_compact_abandon(self);
    }
    return rc;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static mw_rc open_output(mw_compact *self, mw_err *err)
{
    mw_store *store = self->store;
    self->file = (mw_manifest_file){
        .epoch = store->epoch,
        .number = mw_store_table_number(store),
        .level = self->pick.output,
        .generation = self->generation,
    };
    self->options.number = self->file.number;
    self->spanned = 0;
    self->split_at = 0;
    return mw_table_writer_create(store->env, store->dir, &self->options, &self->writer, err);
}

/* Finishes the output at hand, if there is one. */
static mw_rc finish_output(mw_compact *self, mw_err *err)
{
    mw_table_writer *writer = self->writer;
    if (!writer) return MW_OK;
    self->writer = NULL;
    size_t bytes = (self->output_count + 1) * sizeof *self->outputs;
    mw_manifest_file *outputs = mw_resize(self->store->env, self->outputs, bytes);
    if (!outputs) {
        mw_table_writer_abandon(writer);
        return mw_fail(err, MW_NOMEM, "no memory for a merge");
    }
    self->outputs = outputs;
    mw_rc rc = mw_table_writer_finish(writer, &self->file.props, &self->file.keys, err);
    if (rc == MW_OK) outputs[self->output_count++] = self->file;
    return rc;
}

/* Moves on to the first file of a deeper level that does not end before the key at hand. */
static void pass_files(mw_compact *self, uint32_t level)
{
    const mw_file_run *run = &self->version->files->levels.files[level];
    uint32_t before = self->passed[level];
    while (self->passed[level] < run->first + run->count &&
           mw_slice_compare(input(self, self->passed[level])->keys.max, self->merge->key) < 0) {
        self->passed[level]++;
    }
    if (level == self->pick.output + 1) self->spanned += self->passed[level] - before;
}

/* Has a deeper level room for the id at hand? */
static bool may_lie_deeper(mw_compact *self)
{
    const mw_levels *levels = &self->version->files->levels;
    for (uint32_t level = self->pick.output + 1; level <= levels->deepest; level++) {
        const mw_file_run *run = &levels->files[level];
        pass_files(self, level);
        if (self->passed[level] < run->first + run->count &&
            mw_levels_in_range(self->version->manifest, self->passed[level], self->merge->key)) {
            return true;
        }
    }
    return false;
}

/* Does the id at hand begin another file than the one at hand? */
static bool begins_file(const mw_compact *self)
{
    return mw_table_writer_bytes(self->writer) >= self->limits.file_bytes ||
           self->spanned >= OVERLAP_FILES;
}

/* The output that the id at hand belongs to becomes the one at hand. */
static mw_rc need_output(mw_compact *self, mw_err *err)
{
    mw_rc rc = MW_OK;
    uint32_t next = self->pick.output + 1;
    /* Also before an output is opened: what lies before its first id it does not overlap. */
    if (next < MW_LEVELS_MAX) pass_files(self, next);
    if (self->writer && begins_file(self)) rc = finish_output(self, err);
    if (rc == MW_OK && !self->writer) rc = open_output(self, err);
    return rc;
}

static mw_rc write_version(mw_compact *self, mw_err *err)
{
    if (self->merge->tombstone && !may_lie_deeper(self)) return MW_OK;
    mw_rc rc = need_output(self, err);
    if (rc == MW_OK) rc = mw_table_writer_add(self->writer, self->merge, err);
    if (rc != MW_OK || self->split_at == 0) return rc;
    if (mw_table_writer_rows(self->writer) < self->split_at) return MW_OK;
    self->split_at = 0;
    return mw_table_writer_end_group(self->writer, err);
}

/* Would the group that begins with the id at hand come out as it is? */
static bool stays_whole(const mw_compact *self, const mw_table_group *group, mw_slice next,
                        bool alone)
{
    uint32_t full = self->options.group_rows ? self->options.group_rows : MW_GROUP_ROWS;
    bool large = group->rows >= full / 2 || group->bytes >= COPY_BYTES;
    return large && group->tombstones == 0 &&
           (alone || mw_slice_compare(group->last, next) < 0);
}

/* Copies the group that begins here, where that is right. *copied: the merge stands behind it. */
static mw_rc copy_group(mw_compact *self, bool *copied, mw_err *err)
{
    mw_slice next;
    bool alone;
    mw_table_group group;
    *copied = false;
    mw_iter *leader = mw_merge_leader(self->merge, &next, &alone);
    mw_iter *file = mw_level_iter_file(leader);
    bool possible;
    mw_rc rc = mw_table_copy_look(file ? file : leader, &self->last, &group, &possible, err);
    if (rc != MW_OK || !possible || !stays_whole(self, &group, next, alone)) return rc;
    rc = need_output(self, err);
    if (rc != MW_OK) return rc;
    uint32_t before = mw_table_writer_rows(self->writer);
    if (before > 0 && before < group.rows / 2) {
        self->split_at = (before + group.rows + 1) / 2;
        return MW_OK;
    }
    self->split_at = 0;
    rc = mw_table_writer_end_group(self->writer, err);
    if (rc == MW_OK) rc = mw_table_copy_group(file ? file : leader, self->writer, err);
    if (rc == MW_OK) rc = self->merge->ops->seek(self->merge, mw_buf_slice(&self->last), err);
    if (rc == MW_OK) rc = self->merge->ops->next(self->merge, err);
    *copied = rc == MW_OK;
    return rc;
}

/* The next id, or a whole group. */
static mw_rc write_next(mw_compact *self, mw_err *err)
{
    bool copied;
    mw_rc rc = copy_group(self, &copied, err);
    if (rc != MW_OK || copied) return rc;
    rc = write_version(self, err);
    return rc == MW_OK ? self->merge->ops->next(self->merge, err) : rc;
}

mw_rc mw_compact_step(mw_compact *self, bool *done, mw_err *err)
{
    mw_rc rc = MW_OK;
    uint64_t bytes = 0;
    for (int i = 0; rc == MW_OK && self->merge && self->merge->valid; i++) {
        if (i == SLICE_ROWS || bytes >= SLICE_BYTES) break;
        uint64_t before = self->writer ? mw_table_writer_bytes(self->writer) : 0;
        rc = write_next(self, err);
        uint64_t after = self->writer ? mw_table_writer_bytes(self->writer) : 0;
        if (after > before) bytes += after - before;
    }
    *done = rc == MW_OK && (!self->merge || !self->merge->valid);
    return rc;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Is a file listed where it was when the job began? */
static bool is_listed(const mw_manifest *manifest, const mw_manifest_file *file)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const mw_manifest_file *other = &manifest->files[i];
        if (other->number != file->number || other->epoch != file->epoch) continue;
        return other->level == file->level;
    }
    return false;
}

static mw_rc remove_run(const mw_compact *self, mw_file_run run, mw_manifest *next, mw_err *err)
{
    for (uint32_t i = run.first; i < run.first + run.count; i++) {
        const mw_manifest_file *file = input(self, i);
        if (!is_listed(next, file) || !mw_manifest_remove_file(next, file->epoch, file->number)) {
            return mw_fail(err, MW_MISUSE, "an input of the merge is not listed any more");
        }
    }
    return MW_OK;
}

/* The same files, one level or more further down. */
static mw_rc add_moved(const mw_compact *self, mw_manifest *next, mw_err *err)
{
    mw_rc rc = MW_OK;
    mw_file_run run = self->pick.above;
    for (uint32_t i = run.first; rc == MW_OK && i < run.first + run.count; i++) {
        mw_manifest_file file = *input(self, i);
        bool deepen = self->pick.kind == MW_PICK_DEEPEN;
        file.level = deepen ? file.level + 1 : self->pick.output;
        rc = mw_manifest_add_file(next, &file, err);
    }
    return rc;
}

/* Computes the successor of the current manifest: inputs out, outputs in. */
static mw_rc replace_inputs(const mw_compact *self, mw_manifest *next, mw_err *err)
{
    next->boundary = next->number;
    mw_rc rc = remove_run(self, self->pick.above, next, err);
    if (rc == MW_OK) rc = remove_run(self, self->pick.below, next, err);
    if (rc == MW_OK && !self->merge) return add_moved(self, next, err);
    for (uint32_t i = 0; rc == MW_OK && i < self->output_count; i++) {
        const mw_manifest_file *output = &self->outputs[i];
        next->table_number = mw_max(next->table_number, output->number);
        next->bytes_merged += output->props.bytes;
        rc = mw_manifest_add_file(next, output, err);
    }
    return rc;
}

/* Requires manifest_mutex. */
static mw_rc list_outputs(mw_compact *self, mw_err *err)
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

/* After the manifest: what was merged is not needed any more. */
static void remove_inputs(mw_compact *self)
{
    const mw_file_run runs[] = {self->pick.above, self->pick.below};
    for (uint32_t r = 0; r < 2 && self->merge; r++) {
        for (uint32_t i = 0; i < runs[r].count; i++) {
            uint32_t table = mw_level_table(self->version->manifest, runs[r].first + i);
            mw_table_doom(self->version->tables[table]);
        }
    }
}

static void count_result(const mw_compact *self, mw_compact_result *result)
{
    uint64_t versions = 0;
    for (uint32_t i = 0; i < self->output_count; i++) {
        versions += self->outputs[i].props.rows + self->outputs[i].props.tombstones;
    }
    result->jobs++;
    result->folded += self->pick.generations;
    result->removed += self->versions - versions;
    mw_store_lock(self->store);
    self->store->figures.merges++;
    mw_store_unlock(self->store);
}

mw_rc mw_compact_finish(mw_compact *self, mw_compact_result *result, mw_err *err)
{
    mw_store *store = self->store;
    const mw_env *env = store->env;
    mw_rc rc = finish_output(self, err);
    if (rc == MW_OK) {
        env->mutex_lock(env->ctx, store->manifest_mutex);
        rc = list_outputs(self, err);
        env->mutex_unlock(env->ctx, store->manifest_mutex);
    }
    if (rc == MW_OK) {
        remove_inputs(self);
        count_result(self, result);
    }
    /* Else a manifest may stand that lists them. */
    bool listed = rc == MW_OK || rc == MW_PERSISTENCE || rc == MW_FENCED;
    for (uint32_t i = 0; listed && i < self->output_count; i++) {
        mw_key_range_free(env, &self->outputs[i].keys);
    }
    if (listed) self->output_count = 0;
    mw_compact_abandon(self);
    return rc;
}

void mw_compact_abandon(mw_compact *self)
{
    if (!self) return;
    const mw_env *env = self->store->env;
    mw_table_writer_abandon(self->writer);
    for (uint32_t i = 0; i < self->output_count; i++) {
        mw_store_remove_table(self->store, &self->outputs[i]);
        mw_key_range_free(env, &self->outputs[i].keys);
    }
    mw_free(env, self->outputs);
    mw_buf_free(&self->last);
    mw_iter_close(self->merge);
    mw_version_unref(self->version);
    mw_free(env, self);
}

/* ---- running --------------------------------------------------------------------------------- */

static mw_rc run_slices(mw_compact *self, const mw_compact_task *task, mw_err *err)
{
    mw_rc rc = MW_OK;
    bool done = false;
    while (rc == MW_OK && !done) {
        if (task->interrupted && task->interrupted(task->arg)) {
            return mw_fail(err, MW_INTERRUPTED,
                           "the merge was interrupted: what was not finished has not changed");
        }
        rc = mw_compact_step(self, &done, err);
    }
    return rc;
}

static void set_merging(mw_store *store, bool merging)
{
    mw_store_lock(store);
    store->merging = merging;
    mw_store_unlock(store);
}

mw_rc mw_compact_job(mw_store *store, const mw_compact_task *task, mw_compact_result *result,
                     mw_err *err)
{
    const mw_env *env = store->env;
    mw_compact *self = NULL;
    env->mutex_lock(env->ctx, store->merge_mutex);
    set_merging(store, true);
    mw_rc rc = mw_compact_start(store, task, &self, err);
    if (rc == MW_OK && self) {
        rc = run_slices(self, task, err);
        if (rc == MW_OK) {
            rc = mw_compact_finish(self, result, err);
        } else {
            mw_compact_abandon(self);
        }
    }
    set_merging(store, false);
    env->mutex_unlock(env->ctx, store->merge_mutex);
    return rc;
}

/* The generations that are listed now: what comes meanwhile is another task's. */
static uint64_t end_of_generations(mw_store *store)
{
    mw_version *version = mw_store_version(store);
    uint64_t end = version->manifest->generation + 1;
    mw_version_unref(version);
    return end;
}

mw_rc mw_compact_run(mw_store *store, const mw_compact_task *task, mw_compact_result *result,
                     mw_err *err)
{
    mw_compact_task left = *task;
    mw_rc rc = MW_OK;
    bool any = true;
    left.below = end_of_generations(store);
    while (rc == MW_OK && any) {
        mw_compact_result one = {0};
        rc = mw_compact_job(store, &left, &one, err);
        any = one.jobs > 0;
        result->jobs += one.jobs;
        result->folded += one.folded;
        result->removed += one.removed;
        if (task->max_generations == 0) continue;
        left.max_generations -= one.folded;
        if (left.max_generations == 0) break;
    }
    return rc;
}
