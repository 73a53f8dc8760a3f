/* version.c: versions of a store, and the generations in them.
**
**     newest                                                                  oldest
**     [active] [frozen g] [frozen g-1]   [table g-2] [table g-3]   [level 1] [level 2]
**
** An id's newest version is in the leftmost part that has one. Among memtables and generations
** sequences fall from left to right, because a generation is an interval of positions and a merge
** folds the oldest ones. A base level is newer than the next one, id by id: what goes down takes
** along whatever it overlaps there.
**
** A large transaction comes as table files (run.h) that are the first thing in their generation, so
** they lie directly to the right of its memtable. */
#include "version.h"

#include "table_file.h"

#include <stdlib.h>
#include <string.h>

mw_rc mw_generation_create(const mw_env *env, uint64_t number, uint64_t first_position,
                           mw_generation **out, mw_err *err)
{
    mw_generation *generation = mw_alloc_zero(env, sizeof *generation);
    mw_memtable *memtable = generation ? mw_memtable_create(env) : NULL;
    if (!memtable) {
        mw_free(env, generation);
        return mw_fail(err, MW_NOMEM, "no memory for a memtable");
    }
    generation->env = env;
    atomic_init(&generation->refs, 1);
    generation->number = number;
    generation->first_position = first_position;
    generation->memtable = memtable;
    atomic_init(&generation->adopted, NULL);
    *out = generation;
    return MW_OK;
}

mw_rc mw_generation_add_log(mw_generation *generation, mw_log_id log, mw_err *err)
{
    uint32_t count = generation->log_count + 1;
    mw_log_id *logs = mw_resize(generation->env, generation->logs, count * sizeof *logs);
    if (!logs) return mw_fail(err, MW_NOMEM, "no memory for the list of log segments");
    logs[count - 1] = log;
    generation->logs = logs;
    generation->log_count = count;
    return MW_OK;
}

mw_generation *mw_generation_ref(mw_generation *generation)
{
    atomic_fetch_add(&generation->refs, 1);
    return generation;
}

void mw_generation_unref(mw_generation *generation)
{
    if (!generation || atomic_fetch_sub(&generation->refs, 1) != 1) return;
    mw_memtable_unref(generation->memtable);
    mw_adopted_free(atomic_load(&generation->adopted));
    mw_log_segment_close(generation->segment);
    mw_free(generation->env, generation->logs);
    mw_free(generation->env, generation);
}

void mw_generation_adopt(mw_generation *generation, mw_adopted *adopted)
{
    assert(!atomic_load(&generation->adopted));
    atomic_store(&generation->adopted, adopted);
}

const mw_runs *mw_generation_runs(const mw_generation *generation, uint64_t limit)
{
    const mw_adopted *adopted = atomic_load(&generation->adopted);
    if (!adopted || limit < adopted->sequence_last || atomic_load(&adopted->aborted)) return NULL;
    return adopted->runs;
}

mw_table_options mw_version_table_options(const mw_manifest *manifest, uint64_t epoch,
                                          uint64_t number)
{
    return (mw_table_options){
        .store = manifest->store,
        .epoch = epoch,
        .number = number,
        .schema = &manifest->schema,
    };
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_file(const mw_table *table, const mw_manifest_file *file)
{
    return mw_table_number(table) == file->number && mw_table_epoch(table) == file->epoch;
}

/* The table of a listed file in `from`, NULL: none. Both lists have one order, so the search goes
** on where it has ended before. */
static mw_table *find_table(const mw_files *from, const mw_manifest_file *file, uint32_t *at)
{
    uint32_t count = from ? from->table_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t candidate = *at + i < count ? *at + i : *at + i - count;
        if (!is_file(from->tables[candidate], file)) continue;
        *at = candidate + 1 < count ? candidate + 1 : 0;
        return from->tables[candidate];
    }
    return NULL;
}

/* The same among what large transactions have brought along. */
static mw_table *find_run(const mw_files_source *source, const mw_manifest_file *file)
{
    for (uint32_t i = 0; i < source->generation_count; i++) {
        const mw_runs *runs = mw_generation_runs(source->generations[i], UINT64_MAX);
        for (uint32_t j = 0; j < mw_runs_count(runs); j++) {
            if (is_file(runs->runs[j]->table, file)) return runs->runs[j]->table;
        }
    }
    return NULL;
}

static mw_rc make_table(const mw_files_source *source, const mw_manifest *manifest,
                        const mw_manifest_file *file, mw_table **table, mw_err *err)
{
    mw_table_listing listing = {source->dir, &file->props, &file->keys};
    mw_table_options options = mw_version_table_options(manifest, file->epoch, file->number);
    options.schema = source->schema;
    mw_rc rc = mw_table_make(source->pool, &options, &listing, table, err);
    if (rc == MW_OK && source->from) rc = mw_table_probe(*table, err);
    if (rc == MW_OK) return MW_OK;
    mw_table_unref(*table);
    return rc;
}

static mw_rc fill_files(const mw_files_source *source, const mw_manifest *manifest, mw_files *files,
                        mw_err *err)
{
    uint32_t at = 0;
    for (uint32_t i = manifest->file_count; i-- > 0;) {
        const mw_manifest_file *file = &manifest->files[i];
        mw_table **table = &files->tables[files->table_count];
        mw_table *shared = find_table(source->from, file, &at);
        if (!shared) shared = find_run(source, file);
        mw_rc rc = MW_OK;
        if (shared) {
            *table = mw_table_ref(shared);
        } else {
            rc = make_table(source, manifest, file, table, err);
        }
        if (rc != MW_OK) return rc;
        files->table_count++;
    }
    return MW_OK;
}

/* Which of the tables are in the folder. */
typedef struct presence {
    mw_table **sorted; /* by name */
    uint32_t count;
    bool *seen; /* of sorted */
} presence;

static int compare_names(const void *a, const void *b)
{
    mw_table *const *x = a;
    mw_table *const *y = b;
    return strcmp(mw_table_file_name(*x), mw_table_file_name(*y));
}

static int see_name(void *arg, const char *name)
{
    presence *self = arg;
    uint32_t low = 0, high = self->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(mw_table_file_name(self->sorted[middle]), name);
        if (order == 0) self->seen[middle] = true;
        if (order == 0) break;
        if (order < 0) low = middle + 1;
        if (order > 0) high = middle;
    }
    return 0;
}

static mw_rc look_for_all(const mw_files_source *source, presence *self, mw_err *err)
{
    int sys = mw_env_list(source->env, source->dir, see_name, self);
    if (sys) return mw_fail_sys(err, sys, "listing", "the store's folder");
    for (uint32_t i = 0; i < self->count; i++) {
        const char *name = mw_table_file_name(self->sorted[i]);
        if (!self->seen[i]) return mw_fail(err, MW_MISSING, "%s is listed, but missing", name);
    }
    return MW_OK;
}

static mw_rc check_presence(const mw_files_source *source, const mw_files *files, mw_err *err)
{
    presence self = {.count = files->table_count};
    mw_rc rc = MW_OK;
    if (self.count == 0) return MW_OK;
    self.sorted = mw_alloc(source->env, self.count * sizeof *self.sorted);
    self.seen = mw_alloc_zero(source->env, self.count * sizeof *self.seen);
    if (self.sorted && self.seen) {
        memcpy(self.sorted, files->tables, self.count * sizeof *self.sorted);
        qsort(self.sorted, self.count, sizeof *self.sorted, compare_names);
        rc = look_for_all(source, &self, err);
    } else {
        rc = mw_fail(err, MW_NOMEM, "no memory for a version");
    }
    mw_free(source->env, self.sorted);
    mw_free(source->env, self.seen);
    return rc;
}

/* What is open outlives its name. */
static mw_rc keep_files(const mw_files *files, mw_err *err)
{
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < files->table_count; i++) {
        rc = mw_table_keep(files->tables[i], err);
    }
    return rc;
}

mw_rc mw_files_open(const mw_files_source *source, mw_manifest *manifest, mw_files **out,
                    mw_err *err)
{
    mw_files *files = mw_alloc_zero(source->env, sizeof *files);
    if (!files) return mw_fail(err, MW_NOMEM, "no memory for a version");
    files->env = source->env;
    atomic_init(&files->refs, 1);
    files->manifest = mw_manifest_ref(manifest);
    mw_levels_of(manifest, &files->levels);
    files->tables = mw_alloc_zero(source->env, manifest->file_count * sizeof(mw_table *));
    mw_rc rc = files->tables ? MW_OK : mw_fail(err, MW_NOMEM, "no memory for a version");
    if (rc == MW_OK) rc = fill_files(source, manifest, files, err);
    if (rc == MW_OK && source->hold) rc = keep_files(files, err);
    if (rc == MW_OK && !source->from && !source->hold) rc = check_presence(source, files, err);
    if (rc == MW_OK) {
        *out = files;
    } else {
        mw_files_unref(files);
    }
    return rc;
}

mw_files *mw_files_ref(mw_files *files)
{
    atomic_fetch_add(&files->refs, 1);
    return files;
}

void mw_files_unref(mw_files *files)
{
    if (!files || atomic_fetch_sub(&files->refs, 1) != 1) return;
    for (uint32_t i = 0; i < files->table_count; i++) mw_table_unref(files->tables[i]);
    mw_manifest_unref(files->manifest);
    mw_free(files->env, files->tables);
    mw_free(files->env, files);
}

mw_rc mw_version_create(const mw_env *env, mw_version **out, mw_err *err)
{
    mw_version *version = mw_alloc_zero(env, sizeof *version);
    if (!version) return mw_fail(err, MW_NOMEM, "no memory for a version");
    version->env = env;
    atomic_init(&version->refs, 1);
    *out = version;
    return MW_OK;
}

void mw_version_set_files(mw_version *version, mw_files *files)
{
    assert(!version->files);
    version->files = mw_files_ref(files);
    version->manifest = files->manifest;
    version->tables = files->tables;
    version->table_count = files->table_count;
}

void mw_version_add_generation(mw_version *version, mw_generation *generation)
{
    assert(version->generation_count < MW_GENERATIONS_MAX);
    version->generations[version->generation_count++] = mw_generation_ref(generation);
}

mw_version *mw_version_ref(mw_version *version)
{
    atomic_fetch_add(&version->refs, 1);
    return version;
}

void mw_version_unref(mw_version *version)
{
    if (!version || atomic_fetch_sub(&version->refs, 1) != 1) return;
    for (uint32_t i = 0; i < version->generation_count; i++) {
        mw_generation_unref(version->generations[i]);
    }
    mw_files_unref(version->files);
    mw_free(version->env, version);
}

mw_rc mw_version_keep(const mw_version *version, mw_err *err)
{
    mw_rc rc = keep_files(version->files, err);
    for (uint32_t i = 0; rc == MW_OK && i < version->generation_count; i++) {
        rc = mw_runs_keep(mw_generation_runs(version->generations[i], UINT64_MAX), err);
    }
    return rc;
}

void mw_version_let_go(const mw_version *version)
{
    for (uint32_t i = 0; i < version->table_count; i++) mw_table_let_go(version->tables[i]);
    for (uint32_t i = 0; i < version->generation_count; i++) {
        mw_runs_let_go(mw_generation_runs(version->generations[i], UINT64_MAX));
    }
}

mw_table *mw_version_base_table(const mw_version *version, uint32_t level, mw_slice key,
                                uint32_t *index)
{
    const mw_manifest *manifest = version->manifest;
    mw_file_run run = version->files->levels.files[level];
    uint32_t file = mw_levels_seek(manifest, run, key);
    if (file == run.first + run.count || !mw_levels_in_range(manifest, file, key)) return NULL;
    *index = mw_level_table(manifest, file);
    return version->tables[*index];
}

mw_rc mw_version_level_iter(const mw_version *version, mw_file_run run, mw_iter **iter, mw_err *err)
{
    mw_level_source source = {version->env, version->manifest, version->tables, run};
    return mw_level_iter(&source, iter, err);
}

/* Asks the table files, newest first; *found: one has the id. */
static mw_rc find_in_tables(const mw_version *version, mw_slice key, bool *found, bool *tombstone,
                            mw_err *err)
{
    const mw_levels *levels = &version->files->levels;
    mw_rc rc = MW_OK;
    *found = false;
    for (uint32_t i = 0; rc == MW_OK && !*found && i < levels->files[0].count; i++) {
        rc = mw_table_find(version->tables[i], key, found, tombstone, err);
    }
    for (uint32_t level = 1; rc == MW_OK && !*found && level <= levels->deepest; level++) {
        uint32_t index;
        mw_table *table = mw_version_base_table(version, level, key, &index);
        if (table) rc = mw_table_find(table, key, found, tombstone, err);
    }
    return rc;
}

mw_rc mw_version_lives(const mw_version *version, mw_slice key, uint64_t limit, bool *lives,
                       mw_err *err)
{
    *lives = false;
    for (uint32_t i = 0; i < version->generation_count; i++) {
        const mw_generation *generation = version->generations[i];
        const mw_node *node = mw_memtable_find(generation->memtable, key, limit);
        bool found = node != NULL;
        bool tombstone = found && mw_node_tombstone(node);
        mw_rc rc = MW_OK;
        if (!found) {
            const mw_runs *runs = mw_generation_runs(generation, limit);
            rc = mw_runs_find(runs, key, &found, &tombstone, err);
        }
        *lives = found && !tombstone;
        if (found || rc != MW_OK) return rc;
    }
    bool found;
    bool tombstone = false;
    mw_rc rc = find_in_tables(version, key, &found, &tombstone, err);
    *lives = rc == MW_OK && found && !tombstone;
    return rc;
}
