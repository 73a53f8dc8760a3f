/* version.c: versions of a store, and the generations in them.
**
**     newest                                                      oldest
**     [active] [frozen g] [frozen g-1]   [table g-2] [table g-3]   [base]
**
** An id's newest version is in the leftmost part that has one: sequences fall from left to right,
** because a generation is an interval of positions and a merge folds the oldest ones. */
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
    mw_log_segment_close(generation->segment);
    mw_free(generation->env, generation->logs);
    mw_free(generation->env, generation);
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
static mw_rc find_table(const mw_version_parts *parts, const mw_manifest_file *file,
                        mw_table **table, mw_err *err)
{
    const mw_version *from = parts->from;
    for (uint32_t i = 0; from && i < from->table_count; i++) {
        mw_table *candidate = from->tables[i];
        if (mw_table_epoch(candidate) == file->epoch &&
            mw_table_number(candidate) == file->number) {
            *table = mw_table_ref(candidate);
            return MW_OK;
        }
    }
    mw_table_options options = mw_version_table_options(parts->manifest, file->epoch, file->number);
    return mw_table_open(parts->env, parts->dir, parts->cache, &options, &file->props, table, err);
}

static mw_rc fill(mw_version *version, const mw_version_parts *parts, mw_err *err)
{
    for (uint32_t i = 0; i < parts->generation_count; i++) {
        version->generations[i] = mw_generation_ref(parts->generations[i]);
        version->generation_count++;
    }
    const mw_manifest *manifest = parts->manifest;
    for (uint32_t i = manifest->file_count; i-- > 0;) {
        mw_rc rc =
            find_table(parts, &manifest->files[i], &version->tables[version->table_count], err);
        if (rc != MW_OK) return rc;
        version->table_count++;
    }
    return MW_OK;
}

mw_rc mw_version_create(const mw_version_parts *parts, mw_version **out, mw_err *err)
{
    const mw_env *env = parts->env;
    mw_version *version = mw_alloc_zero(env, sizeof *version);
    if (!version) return mw_fail(err, MW_NOMEM, "no memory for a version");
    version->env = env;
    atomic_init(&version->refs, 1);
    version->manifest = mw_manifest_ref(parts->manifest);
    version->generations = mw_alloc_zero(env, parts->generation_count * sizeof(mw_generation *));
    version->tables = mw_alloc_zero(env, parts->manifest->file_count * sizeof(mw_table *));
    bool room = version->generations && version->tables;
    mw_rc rc = room ? fill(version, parts, err) : mw_fail(err, MW_NOMEM, "no memory for a version");
    if (rc != MW_OK) {
        mw_version_unref(version);
        return rc;
    }
    *out = version;
    return MW_OK;
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
    for (uint32_t i = 0; i < version->table_count; i++) mw_table_unref(version->tables[i]);
    mw_manifest_unref(version->manifest);
    mw_free(version->env, version->generations);
    mw_free(version->env, version->tables);
    mw_free(version->env, version);
}

mw_rc mw_version_lives(const mw_version *version, mw_slice key, uint64_t limit, bool *lives,
                       mw_err *err)
{
    *lives = false;
    for (uint32_t i = 0; i < version->generation_count; i++) {
        const mw_node *node = mw_memtable_find(version->generations[i]->memtable, key, limit);
        if (node) {
            *lives = !mw_node_tombstone(node);
            return MW_OK;
        }
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
