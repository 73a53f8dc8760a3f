/* run.c: runs of a transaction, lists of them, and the log entry that adopts them.
**
**     spill      overlay -> [run 1] [run 2] [run 3]     files that nothing names
**     prepare    adopt entry: run 1, run 2, run 3       named by the log
**     flush      manifest: generation g = run 1, run 2, run 3, and what came behind them
**
** So a row of a large transaction is written once; neither the log nor the flush has it again.
**
** Crash before the entry is durable: the files are leftovers, swept by the next owner. After it:
** the replay opens them; they were synced, names included, before the entry was queued, so one that
** is missing is damage. An entry that is followed by its abort asks for no file.
**
** A file goes when nothing can name it any more: its transaction was rolled back before its entry
** was queued, or the abort behind the entry is durable. Where the outcome is not known it stays for
** whoever replays the log. Readers may still be on it, so the last one to let go removes it. */
#include "run.h"

#include <inttypes.h>
#include <string.h>

mw_rc mw_run_create(const mw_env *env, mw_run **out, mw_err *err)
{
    mw_run *run = mw_alloc_zero(env, sizeof *run);
    if (!run) return mw_fail(err, MW_NOMEM, "no memory for a part of a transaction");
    run->env = env;
    atomic_init(&run->refs, 1);
    *out = run;
    return MW_OK;
}

mw_rc mw_run_open(mw_run *run, mw_table_pool *pool, int dir, const mw_table_options *options,
                  mw_err *err)
{
    mw_table_listing listing = {dir, &run->file.props, &run->file.keys};
    mw_rc rc = mw_table_make(pool, options, &listing, &run->table, err);
    return rc == MW_OK ? mw_table_probe(run->table, err) : rc;
}

void mw_run_unref(mw_run *run)
{
    if (!run || atomic_fetch_sub(&run->refs, 1) != 1) return;
    const mw_env *env = run->env;
    mw_table_unref(run->table);
    mw_key_range_free(env, &run->file.keys);
    mw_free(env, run);
}

void mw_run_doom(mw_run *run) { mw_table_doom(run->table); }

/* ---- lists ----------------------------------------------------------------------------------- */

mw_rc mw_runs_create(const mw_env *env, const mw_runs *from, uint32_t kept, mw_run *const *more,
                     uint32_t more_count, mw_runs **out, mw_err *err)
{
    assert(kept <= mw_runs_count(from));
    size_t count = (size_t)kept + more_count;
    mw_runs *runs = mw_alloc(env, sizeof *runs + count * sizeof(mw_run *));
    if (!runs) return mw_fail(err, MW_NOMEM, "no memory for the parts of a transaction");
    runs->env = env;
    atomic_init(&runs->refs, 1);
    runs->count = (uint32_t)count;
    for (uint32_t i = 0; i < runs->count; i++) {
        runs->runs[i] = i < kept ? from->runs[i] : more[i - kept];
        atomic_fetch_add(&runs->runs[i]->refs, 1);
    }
    *out = runs;
    return MW_OK;
}

mw_runs *mw_runs_ref(mw_runs *runs)
{
    if (runs) atomic_fetch_add(&runs->refs, 1);
    return runs;
}

void mw_runs_unref(mw_runs *runs)
{
    if (!runs || atomic_fetch_sub(&runs->refs, 1) != 1) return;
    for (uint32_t i = 0; i < runs->count; i++) mw_run_unref(runs->runs[i]);
    mw_free(runs->env, runs);
}

mw_rc mw_runs_keep(const mw_runs *runs, mw_err *err)
{
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < mw_runs_count(runs); i++) {
        rc = mw_table_keep(runs->runs[i]->table, err);
    }
    return rc;
}

void mw_runs_let_go(const mw_runs *runs)
{
    for (uint32_t i = 0; i < mw_runs_count(runs); i++) mw_table_let_go(runs->runs[i]->table);
}

uint32_t mw_runs_count(const mw_runs *runs) { return runs ? runs->count : 0; }

mw_rc mw_runs_find(const mw_runs *runs, mw_slice key, bool *found, bool *tombstone, mw_err *err)
{
    *found = false;
    for (uint32_t i = mw_runs_count(runs); !*found && i-- > 0;) {
        mw_rc rc = mw_table_find(runs->runs[i]->table, key, found, tombstone, err);
        if (rc != MW_OK) return rc;
    }
    return MW_OK;
}

/* ---- adopt entries --------------------------------------------------------------------------- */

mw_rc mw_adopted_create(const mw_env *env, mw_runs *runs, mw_adopted **out, mw_err *err)
{
    mw_adopted *adopted = mw_alloc_zero(env, sizeof *adopted);
    if (!adopted) {
        mw_runs_unref(runs);
        return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    }
    adopted->env = env;
    adopted->runs = runs;
    atomic_init(&adopted->aborted, false);
    *out = adopted;
    return MW_OK;
}

void mw_adopted_free(mw_adopted *adopted)
{
    if (!adopted) return;
    mw_runs_unref(adopted->runs);
    mw_free(adopted->env, adopted);
}

void mw_adopted_encode(const mw_adopted *adopted, mw_buf *payload)
{
    mw_buf_u64(payload, adopted->sequence_first);
    mw_buf_u64(payload, adopted->sequence_last);
    mw_buf_u64(payload, (uint64_t)adopted->delta);
    mw_buf_u32(payload, adopted->runs->count);
    for (uint32_t i = 0; i < adopted->runs->count; i++) {
        const mw_manifest_file *file = &adopted->runs->runs[i]->file;
        mw_buf_u64(payload, file->epoch);
        mw_buf_u64(payload, file->number);
        mw_manifest_put_props(&file->props, payload);
        mw_buf_bytes(payload, file->keys.min);
        mw_buf_bytes(payload, file->keys.max);
    }
}

/* The run's own copy of both keys, in one block. */
static mw_rc own_keys(mw_run *run, mw_slice min, mw_slice max, mw_err *err)
{
    uint8_t *memory = mw_alloc(run->env, min.size + max.size);
    if (!memory) return mw_fail(err, MW_NOMEM, "no memory for replaying the log");
    if (min.size) memcpy(memory, min.data, min.size);
    if (max.size) memcpy(memory + min.size, max.data, max.size);
    run->file.keys.min = mw_slice_of(memory, min.size);
    run->file.keys.max = mw_slice_of(memory + min.size, max.size);
    return MW_OK;
}

static mw_rc decode_run(mw_scan *scan, mw_run *run, mw_err *err)
{
    mw_manifest_file *file = &run->file;
    file->epoch = mw_scan_u64(scan);
    file->number = mw_scan_u64(scan);
    mw_manifest_get_props(scan, &file->props);
    mw_slice min = mw_scan_bytes(scan);
    mw_slice max = mw_scan_bytes(scan);
    if (scan->failed || min.size > MW_KEY_BYTES_MAX || max.size > MW_KEY_BYTES_MAX) {
        scan->failed = true;
        return MW_OK;
    }
    return own_keys(run, min, max, err);
}

/* `above`: the sequences of the runs before it. */
static bool is_sane(const mw_run *run, const mw_adopted *whole, uint64_t above, uint64_t epoch)
{
    const mw_manifest_file *file = &run->file;
    const mw_table_props *props = &file->props;
    return file->epoch >= 1 && file->epoch <= epoch && file->number >= 1 && props->bytes > 0 &&
           props->rows <= UINT64_MAX - props->tombstones && props->rows + props->tombstones > 0 &&
           props->sequence_min > above && props->sequence_min <= props->sequence_max &&
           props->sequence_max <= whole->sequence_last &&
           props->rows + props->tombstones - 1 <= props->sequence_max - props->sequence_min &&
           mw_slice_compare(file->keys.min, file->keys.max) <= 0;
}

typedef struct decoder {
    mw_scan scan; /* over the runs that are still to come */
    uint64_t epoch;
    uint64_t versions; /* of those before, at most INT64_MAX */
    uint32_t count;
} decoder;

/* No run has so many that the sum passes 2^64: all of their sequences differ. */
static void count_versions(decoder *from, const mw_table_props *props)
{
    uint64_t versions = props->rows + props->tombstones;
    from->versions = mw_min(from->versions + versions, INT64_MAX);
}

/* Fills the list, which has room for what the entry says; *sane: all of it could be. */
static mw_rc decode_runs(decoder *from, mw_adopted *adopted, bool *sane, mw_err *err)
{
    uint64_t above = adopted->sequence_first - 1;
    for (uint32_t i = 0; *sane && i < from->count; i++) {
        mw_run *run = NULL;
        mw_rc rc = mw_run_create(adopted->env, &run, err);
        if (rc != MW_OK) return rc;
        adopted->runs->runs[adopted->runs->count++] = run;
        rc = decode_run(&from->scan, run, err);
        if (rc != MW_OK) return rc;
        *sane = !from->scan.failed && is_sane(run, adopted, above, from->epoch);
        above = run->file.props.sequence_max;
        if (*sane) count_versions(from, &run->file.props);
    }
    return MW_OK;
}

/* A list with room for count runs, empty as yet. */
static mw_rc create_room(const mw_env *env, uint32_t count, mw_adopted **adopted, mw_err *err)
{
    mw_runs *runs = mw_alloc(env, sizeof *runs + count * sizeof(mw_run *));
    if (!runs) return mw_fail(err, MW_NOMEM, "no memory for replaying the log");
    runs->env = env;
    atomic_init(&runs->refs, 1);
    runs->count = 0;
    return mw_adopted_create(env, runs, adopted, err);
}

mw_rc mw_adopted_decode(const mw_env *env, const mw_log_entry *entry, const char *log_file,
                        mw_adopted **out, mw_err *err)
{
    enum { RUN_BYTES_MIN = 8 * 8 + 2 };
    decoder from = {.scan = mw_scan_of(entry->payload), .epoch = entry->epoch};
    uint64_t first = mw_scan_u64(&from.scan);
    uint64_t last = mw_scan_u64(&from.scan);
    int64_t delta = (int64_t)mw_scan_u64(&from.scan);
    from.count = mw_scan_u32(&from.scan);
    bool sane = !from.scan.failed && from.count > 0 && first > 0 && first <= last &&
                from.count <= mw_scan_left(&from.scan) / RUN_BYTES_MIN;
    mw_adopted *adopted = NULL;
    mw_rc rc = sane ? create_room(env, from.count, &adopted, err) : MW_OK;
    if (rc != MW_OK) return rc;
    if (sane) {
        adopted->sequence_first = first;
        adopted->sequence_last = last;
        adopted->delta = delta;
        rc = decode_runs(&from, adopted, &sane, err);
        sane = sane && mw_scan_left(&from.scan) == 0 && delta <= (int64_t)from.versions &&
               delta >= -(int64_t)from.versions;
    }
    if (rc == MW_OK && !sane) {
        rc = mw_fail_disk(err, log_file, entry->offset,
                          "expected the table files of a large transaction at position %" PRIu64
                          ", found %" PRIu32 " of them in %zu bytes that break the format's rules",
                          entry->position, from.count, entry->payload.size);
    }
    if (rc == MW_OK) {
        *out = adopted;
    } else {
        mw_adopted_free(adopted);
    }
    return rc;
}
