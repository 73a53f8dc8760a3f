/* version.c: versions of a store, and the generations in them.
**
**     newest                                                      oldest
**     [active] [frozen g] [frozen g-1]   [table g-2] [table g-3]   [base]
**
** An id's newest version is in the leftmost part that has one: sequences fall from left to right,
** because a generation is an interval of positions and a merge folds the oldest ones.
**
** A large transaction comes as table files (run.h) that are the first thing in their generation, so
** they lie directly to the right of its memtable. */
#include "version.h"

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

/* The open table of a listed file: shared with `from` when it has it, else opened. */
static mw_rc find_table(const mw_files_source *source, const mw_manifest *manifest,
                        const mw_manifest_file *file, mw_table **table, mw_err *err)
{
    const mw_files *from = source->from;
    for (uint32_t i = 0; from && i < from->table_count; i++) {
        mw_table *candidate = from->tables[i];
        if (mw_table_epoch(candidate) == file->epoch &&
            mw_table_number(candidate) == file->number) {
            *table = mw_table_ref(candidate);
            return MW_OK;
        }
    }
    mw_table_options options = mw_version_table_options(manifest, file->epoch, file->number);
    return mw_table_open(source->env, source->dir, source->cache, &options, &file->props, table,
                         err);
}

mw_rc mw_files_open(const mw_files_source *source, mw_manifest *manifest, mw_files **out,
                    mw_err *err)
{
    mw_files *files = mw_alloc_zero(source->env, sizeof *files);
    if (!files) return mw_fail(err, MW_NOMEM, "no memory for a version");
    files->env = source->env;
    atomic_init(&files->refs, 1);
    files->manifest = mw_manifest_ref(manifest);
    files->tables = mw_alloc_zero(source->env, manifest->file_count * sizeof(mw_table *));
    mw_rc rc = files->tables ? MW_OK : mw_fail(err, MW_NOMEM, "no memory for a version");
    for (uint32_t i = manifest->file_count; rc == MW_OK && i-- > 0;) {
        rc = find_table(source, manifest, &manifest->files[i], &files->tables[files->table_count],
                        err);
        if (rc == MW_OK) files->table_count++;
    }
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
    for (uint32_t i = 0; i < version->table_count; i++) {
        bool found;
        bool tombstone;
        mw_rc rc = mw_table_find(version->tables[i], key, &found, &tombstone, err);
        if (rc != MW_OK) return rc;
        if (found) {
            *lives = !tombstone;
            return MW_OK;
        }
    }
    return MW_OK;
}
