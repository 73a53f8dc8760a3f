/* report.c: figures and files of a store, from one version and one look at the counters. */
#include "report.h"

#include "snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct totals {
    uint64_t generations;
    uint64_t generation_rows;
    uint64_t runs; /* files of large transactions that are not listed yet */
    uint64_t base_rows;
    uint64_t base_levels;
    uint64_t physical_rows;
    uint64_t file_bytes;
    uint64_t memtable_rows;
    uint64_t memtable_bytes;
    uint64_t log_bytes;
} totals;

/* Everything memwal_stats shows, taken together. */
typedef struct picture {
    mw_version *version;
    mw_point visible;
    uint64_t epoch;
    uint64_t snapshots;
    uint64_t oldest_snapshot_ns; /* its age */
    mw_store_figures figures;
    uint64_t cache_hits;
    uint64_t cache_misses;
    uint64_t cache_bytes;
    uint64_t written_bytes; /* to log and table files since the store was opened */
    uint64_t open_files;
    uint64_t index_bytes;
    totals totals;
    char last_error[MW_ERR_TEXT_BYTES];
} picture;

/* *there is false for a file that is not, or not any more. */
static mw_rc size_of(mw_store *store, const char *name, uint64_t *bytes, bool *there, mw_err *err)
{
    int file = -1;
    *bytes = 0;
    int sys = mw_env_open(store->env, store->dir, name, MW_OPEN_READ, &file);
    *there = sys == 0;
    if (sys == ENOENT) return MW_OK;
    if (!sys) {
        sys = store->env->file_size(store->env->ctx, file, bytes);
        store->env->file_close(store->env->ctx, file);
    }
    return sys ? mw_fail_sys(err, sys, "reading the size", name) : MW_OK;
}

/* The visible rows of a large transaction lie in files from the beginning. */
static void add_runs(const mw_generation *generation, uint64_t limit, totals *sum)
{
    const mw_runs *runs = mw_generation_runs(generation, limit);
    sum->runs += mw_runs_count(runs);
    for (uint32_t i = 0; i < mw_runs_count(runs); i++) {
        const mw_table_props *props = &runs->runs[i]->file.props;
        sum->physical_rows += props->rows + props->tombstones;
        sum->file_bytes += props->bytes;
    }
}

static mw_rc add_up(mw_store *store, const mw_version *version, uint64_t limit, totals *sum,
                    mw_err *err)
{
    for (uint32_t i = 0; i < version->generation_count; i++) {
        const mw_generation *generation = version->generations[i];
        sum->memtable_rows += mw_memtable_versions(generation->memtable);
        sum->memtable_bytes += mw_memtable_bytes(generation->memtable);
        add_runs(generation, limit, sum);
        for (uint32_t j = 0; j < generation->log_count; j++) {
            char name[MW_LOG_NAME_BYTES];
            uint64_t bytes;
            bool there; /* else it was flushed meanwhile */
            mw_log_name(generation->logs[j].epoch, generation->logs[j].number, name);
            mw_rc rc = size_of(store, name, &bytes, &there, err);
            if (rc != MW_OK) return rc;
            sum->log_bytes += bytes;
        }
    }
    const mw_manifest *manifest = version->manifest;
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const mw_manifest_file *file = &manifest->files[i];
        uint64_t rows = file->props.rows + file->props.tombstones;
        sum->physical_rows += rows;
        sum->file_bytes += file->props.bytes;
        if (file->level == 0) {
            sum->generations++;
            sum->generation_rows += rows;
        } else {
            sum->base_rows += rows;
            bool first = i == 0 || file->level != manifest->files[i - 1].level;
            sum->base_levels += first;
        }
    }
    return MW_OK;
}

static mw_rc take_picture(mw_store *store, picture *now, mw_err *err)
{
    memset(now, 0, sizeof *now);
    mw_store_lock(store);
    uint64_t time = store->env->now_ns(store->env->ctx); /* under the lock: above every taken_ns */
    now->version = mw_version_ref(store->version);
    now->visible = store->visible;
    now->epoch = store->epoch;
    now->snapshots = store->snapshots;
    if (store->snapshot_oldest) now->oldest_snapshot_ns = time - store->snapshot_oldest->taken_ns;
    now->figures = store->figures;
    const mw_manifest *first = store->birth;
    now->written_bytes = now->figures.log_bytes + now->version->manifest->bytes_flushed +
                         now->version->manifest->bytes_merged - first->bytes_flushed -
                         first->bytes_merged;
    const mw_err *last = store->stopped.rc != MW_OK ? &store->stopped : &store->parked;
    if (last->rc != MW_OK) memcpy(now->last_error, last->text, sizeof now->last_error);
    mw_store_unlock(store);
    mw_cache_stats(store->cache, &now->cache_hits, &now->cache_misses, &now->cache_bytes);
    mw_table_pool_stats(store->tables, &now->open_files, &now->index_bytes);
    return add_up(store, now->version, now->visible.sequence, &now->totals, err);
}

/* ---- figures --------------------------------------------------------------------------------- */

typedef struct reporter {
    mw_report_figure each;
    void *arg;
} reporter;

static void integer(const reporter *to, const char *name, uint64_t figure)
{
    mw_value value = {.type = MW_INTEGER, .integer = (int64_t)figure};
    to->each(to->arg, name, &value);
}

/* NULL where there is nothing to divide by. */
static void ratio(const reporter *to, const char *name, double above, double below)
{
    mw_value value = {.type = below > 0 ? MW_REAL : MW_NULL};
    if (below > 0) value.real = above / below;
    to->each(to->arg, name, &value);
}

static void text(const reporter *to, const char *name, const char *words)
{
    mw_value value = {.type = words[0] ? MW_TEXT : MW_NULL};
    value.bytes = mw_slice_of(words, strlen(words));
    to->each(to->arg, name, &value);
}

static void report_rows(const reporter *to, const picture *now)
{
    const totals *sum = &now->totals;
    integer(to, "rows", (uint64_t)now->visible.count);
    integer(to, "physical_rows", sum->physical_rows);
    integer(to, "memtable_rows", sum->memtable_rows);
    integer(to, "memtable_bytes", sum->memtable_bytes);
    integer(to, "memtables", now->version->generation_count);
    integer(to, "generations", sum->generations);
    integer(to, "generation_rows", sum->generation_rows);
    integer(to, "base_rows", sum->base_rows);
    integer(to, "base_levels", sum->base_levels);
    integer(to, "files", now->version->manifest->file_count + sum->runs);
    integer(to, "file_bytes", sum->file_bytes);
}

static void report_log(const reporter *to, const picture *now)
{
    integer(to, "wal_bytes", now->totals.log_bytes);
    integer(to, "wal_cursor", now->version->manifest->cursor);
    integer(to, "wal_position", now->visible.position);
    integer(to, "epoch", now->epoch);
    integer(to, "commits", now->figures.commits);
    integer(to, "wal_writes", now->figures.log_writes);
    integer(to, "wal_syncs", now->figures.log_syncs);
}

static void report_work(const reporter *to, const picture *now)
{
    const mw_store_figures *figures = &now->figures;
    integer(to, "flushes", figures->flushes);
    integer(to, "merges", figures->merges);
    integer(to, "bytes_written", now->written_bytes);
    integer(to, "bytes_logical", figures->logical_bytes);
    ratio(to, "write_amplification", (double)now->written_bytes, (double)figures->logical_bytes);
    /* Versions in files by the rows that live in them: what files take, by what they would take
    ** after a compaction. */
    ratio(to, "space_amplification", (double)now->totals.physical_rows,
          now->totals.physical_rows ? (double)now->version->manifest->count : 0);
    integer(to, "cache_hits", now->cache_hits);
    integer(to, "cache_misses", now->cache_misses);
    integer(to, "cache_bytes", now->cache_bytes);
    integer(to, "index_bytes", now->index_bytes);
    integer(to, "open_files", now->open_files);
    integer(to, "snapshots", now->snapshots);
    ratio(to, "oldest_snapshot_s", (double)now->oldest_snapshot_ns, now->snapshots ? 1e9 : 0);
    ratio(to, "stall_s", (double)figures->stall_ns, 1e9);
}

mw_rc mw_report_stats(mw_store *store, mw_report_figure each, void *arg, mw_err *err)
{
    picture now;
    reporter to = {each, arg};
    mw_rc rc = take_picture(store, &now, err);
    if (rc == MW_OK) {
        report_rows(&to, &now);
        report_log(&to, &now);
        report_work(&to, &now);
        text(&to, "path", store->path);
        integer(&to, "manifest", now.version->manifest->number);
        text(&to, "last_error", now.last_error);
    }
    mw_version_unref(now.version);
    return rc;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct lister {
    mw_report_file each;
    void *arg;
} lister;

static void list_table(const lister *to, const mw_manifest_file *file)
{
    char name[MW_TABLE_NAME_BYTES];
    mw_table_name(file->epoch, file->number, name);
    mw_file_info info = {
        .name = name,
        .kind = "table",
        .level = (int32_t)file->level,
        .generation = (int64_t)file->generation,
        .rows = (int64_t)file->props.rows,
        .tombstones = (int64_t)file->props.tombstones,
        .bytes = (int64_t)file->props.bytes,
        .key_min = file->keys.min,
        .key_max = file->keys.max,
    };
    to->each(to->arg, &info);
}

/* Oldest first: what large transactions have brought along. */
static void list_runs(const lister *to, const mw_version *version, uint64_t limit)
{
    for (uint32_t i = version->generation_count; i-- > 0;) {
        const mw_generation *generation = version->generations[i];
        const mw_runs *runs = mw_generation_runs(generation, limit);
        for (uint32_t j = 0; j < mw_runs_count(runs); j++) {
            mw_manifest_file file = runs->runs[j]->file;
            file.generation = generation->number;
            list_table(to, &file);
        }
    }
}

/* A file of another kind, unless it is not there. generation: -1 where it has none. */
static mw_rc list_file(const lister *to, mw_store *store, const char *kind, const char *name,
                       int64_t generation, mw_err *err)
{
    uint64_t bytes;
    bool there;
    mw_rc rc = size_of(store, name, &bytes, &there, err);
    if (rc != MW_OK || !there) return rc;
    mw_file_info info = {
        .name = name,
        .kind = kind,
        .level = -1,
        .generation = generation,
        .rows = -1,
        .tombstones = -1,
        .bytes = (int64_t)bytes,
    };
    to->each(to->arg, &info);
    return MW_OK;
}

static mw_rc list_logs(const lister *to, mw_store *store, const mw_generation *generation,
                       mw_err *err)
{
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < generation->log_count; i++) {
        char name[MW_LOG_NAME_BYTES];
        mw_log_name(generation->logs[i].epoch, generation->logs[i].number, name);
        rc = list_file(to, store, "log", name, (int64_t)generation->number, err);
    }
    return rc;
}

mw_rc mw_report_files(mw_store *store, mw_report_file each, void *arg, mw_err *err)
{
    const lister to = {each, arg};
    mw_store_lock(store);
    mw_version *version = mw_version_ref(store->version);
    uint64_t limit = store->visible.sequence;
    mw_store_unlock(store);
    const mw_manifest *manifest = version->manifest;
    char name[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(manifest->number, name);
    mw_rc rc = list_file(&to, store, "manifest", name, -1, err);
    if (rc == MW_OK) rc = list_file(&to, store, "state", "state", -1, err);
    for (uint32_t i = 0; rc == MW_OK && i < manifest->file_count; i++) {
        list_table(&to, &manifest->files[i]);
    }
    if (rc == MW_OK) list_runs(&to, version, limit);
    for (uint32_t i = version->generation_count; rc == MW_OK && i-- > 0;) {
        rc = list_logs(&to, store, version->generations[i], err);
    }
    mw_version_unref(version);
    return rc;
}
