/* flush.c: freeze, flush, and what holds a writer back when they fall behind.
**
**     positions   ... 40 | 41 ......... 77 | 78 ...
**     generation       6 |        7        | 8 (active)
**     segments     wal-6 |      wal-7      | wal-8
**
** A freeze is an exact cut: it is done by the holder of the turn, at the last queued position. The
** new segment's header carries the first position of the new generation and is durable before the
** turn is given up; so the same cut is found by a replay.
**
** A flush writes one frozen generation, all of which is published, into one table file: the newest
** version of each id. Then one manifest version adds the file, moves the cursor to the generation's
** last position and takes over the count there. It is valid only if the predecessor's cursor + 1 is
** the generation's first position; so generations are listed in order, and one that failed holds
** back all later ones (I4). Segments and memtable go after that.
**
** A large transaction has written its rows to table files itself (run.h); they are listed as they
** are, before the file with what came behind them in the generation. So its rows are written once.
**
** A crash before the manifest leaves a table file that nothing lists (swept later) and the log as
** it was; after it, segments that lie below the cursor (swept later). Never both, never neither
** (I5). */
#include "flush.h"

#include "background.h"
#include "commit.h"
#include "compact.h"
#include "entry.h"
#include "table_write.h"
#include "txn.h"

#include <inttypes.h>

enum {
    FROZEN_MAX = 2, /* frozen memtables before writers wait */
    RETRY_MS = 200, /* between looks at a flush that does not get on */
    ROOM_WAIT_MS = 60000,
    SLOW_FROM = 2,   /* times merge_generations that wait: writers are slowed from here ...   */
    REFUSE_FROM = 4, /* ... and refused from here                                             */
    SLOW_MS = 100,   /* what a transaction waits just before that                             */
    ASK_BYTES = 1 << 20,
    ASK_ROWS = 4096, /* of a flush, between looks whether the store is being closed           */
};

/* ---- freeze ---------------------------------------------------------------------------------- */

static mw_rc create_segment(mw_store *store, const mw_generation *next, mw_log_segment **segment,
                            mw_err *err)
{
    mw_log_header header = {
        .store = store->id,
        .epoch = store->epoch,
        .number = store->segment_number + 1,
        .generation = next->number,
        .first_position = next->first_position,
        .generation_start = next->first_position,
    };
    store->segment_number++; /* also after a failure: a name is tried once */
    return mw_log_segment_create(store->env, store->dir, &header, segment, err);
}

/* The generation after `active`, with its segment. */
static mw_rc create_next(mw_store *store, const mw_generation *active, mw_point end,
                         mw_generation **next, mw_err *err)
{
    mw_rc rc = mw_generation_create(store->env, active->number + 1, end.position + 1, next, err);
    mw_log_id id = {store->epoch, store->segment_number + 1};
    if (rc == MW_OK) rc = mw_generation_add_log(*next, id, err);
    if (rc == MW_OK) rc = create_segment(store, *next, &(*next)->segment, err);
    return rc;
}

/* Puts `next` in front of `active`, which is frozen at `end` from then on. */
static mw_rc replace_active(mw_store *store, mw_generation *active, mw_generation *next,
                            mw_point end, mw_err *err)
{
    mw_version *version;
    mw_rc rc = mw_store_build(store, NULL, &version, err);
    if (rc != MW_OK) {
        store->env->unlink(store->env->ctx, store->dir, mw_log_segment_name(next->segment));
        return rc;
    }
    active->last_position = end.position;
    active->sequence_last = end.sequence;
    active->count_last = end.count;
    active->pledged_last = end.pledged;
    mw_store_install(store, version, next);
    store->segment = next->segment;
    return MW_OK;
}

mw_rc mw_flush_freeze(mw_store *store, uint64_t *number, mw_err *err)
{
    *number = 0;
    mw_store_lock(store);
    mw_generation *active = mw_generation_ref(store->version->generations[0]);
    uint32_t count = store->version->generation_count;
    mw_point end = store->queued;
    mw_store_unlock(store);
    mw_generation *next = NULL;
    mw_rc rc = MW_OK;
    if (count >= MW_GENERATIONS_MAX - 1) { /* one is left for whoever overtakes a claim (epoch.c) */
        rc = mw_fail(err, MW_FULL, "%u memtables wait for being flushed already", count);
    } else if (active->first_position <= end.position) {
        rc = create_next(store, active, end, &next, err);
        if (rc == MW_OK) rc = replace_active(store, active, next, end, err);
        if (rc == MW_OK) *number = active->number;
    }
    mw_generation_unref(next);
    mw_generation_unref(active);
    return rc;
}

mw_rc mw_flush_freeze_if_full(mw_store *store, bool *frozen, mw_err *err)
{
    mw_store_lock(store);
    const mw_generation *active = store->version->generations[0];
    bool full = mw_memtable_bytes(active->memtable) >= store->options.memtable_bytes ||
                mw_generation_runs(active, UINT64_MAX);
    mw_store_unlock(store);
    uint64_t number = 0;
    mw_rc rc = full ? mw_flush_freeze(store, &number, err) : MW_OK;
    *frozen = number > 0;
    return rc;
}

/* ---- flush ----------------------------------------------------------------------------------- */

/* Nobody shall wait for a flush in order to close: the log has the rows. */
static mw_rc give_up_at_close(mw_store *store, mw_err *err)
{
    mw_store_lock(store);
    mw_rc rc = store->closing ? mw_store_stopped(store, err) : MW_OK;
    mw_store_unlock(store);
    return rc;
}

static mw_rc write_versions(mw_store *store, const mw_generation *generation,
                            mw_table_writer *writer, mw_err *err)
{
    mw_iter *iter;
    mw_rc rc = mw_memtable_iter(generation->memtable, generation->sequence_last,
                                store->schema->column_count, &iter, err);
    if (rc != MW_OK) return rc;
    rc = iter->ops->first(iter, err);
    uint32_t rows = 0;
    uint64_t asked = 0;
    while (rc == MW_OK && iter->valid) {
        uint64_t bytes = mw_table_writer_bytes(writer);
        if (++rows % ASK_ROWS == 0 || bytes - asked > ASK_BYTES) {
            asked = bytes;
            rc = give_up_at_close(store, err);
        }
        if (rc == MW_OK) rc = mw_table_writer_add(writer, iter, err);
        if (rc == MW_OK) rc = iter->ops->next(iter, err);
    }
    mw_iter_close(iter);
    return rc;
}

/* What its memtable has lies above that. */
static uint64_t sequence_before(const mw_generation *generation, const mw_manifest *from)
{
    const mw_runs *runs = mw_generation_runs(generation, generation->sequence_last);
    return runs ? runs->runs[runs->count - 1]->through : from->sequence;
}

/* Writes the generation's table file; `file` describes it for the manifest. */
static mw_rc write_table(mw_store *store, const mw_generation *generation, const mw_manifest *from,
                         mw_manifest_file *file, mw_err *err)
{
    *file = (mw_manifest_file){
        .epoch = store->epoch,
        .number = mw_store_table_number(store),
        .level = 0,
        .generation = generation->number,
    };
    mw_table_options options = mw_version_table_options(from, file->epoch, file->number);
    options.sequence_min = sequence_before(generation, from) + 1;
    options.sequence_max = generation->sequence_last;
    mw_store_set_table_options(store, &options);
    mw_table_writer *writer;
    mw_rc rc = mw_table_writer_create(store->env, store->dir, &options, &writer, err);
    if (rc != MW_OK) return rc;
    rc = write_versions(store, generation, writer, err);
    if (rc == MW_OK) return mw_table_writer_finish(writer, &file->props, &file->keys, err);
    mw_table_writer_abandon(writer);
    return rc;
}

static mw_rc list_file(mw_manifest *next, const mw_manifest_file *file, mw_err *err)
{
    next->table_number = mw_max(next->table_number, file->number);
    next->bytes_flushed += file->props.bytes;
    return mw_manifest_add_file(next, file, err);
}

static mw_rc list_runs(mw_manifest *next, const mw_generation *generation, mw_err *err)
{
    const mw_runs *runs = mw_generation_runs(generation, generation->sequence_last);
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < mw_runs_count(runs); i++) {
        mw_manifest_file file = runs->runs[i]->file;
        file.generation = generation->number;
        rc = list_file(next, &file, err);
    }
    return rc;
}

/* One manifest version: the files are listed, the cursor and the count move. file: what was in
** memory, NULL: nothing was. Requires manifest_mutex. */
static mw_rc list_table(mw_store *store, const mw_generation *generation,
                        const mw_manifest_file *file, mw_err *err)
{
    mw_version *version = mw_store_version(store);
    mw_manifest *next = NULL;
    mw_rc rc = mw_manifest_copy(version->manifest, &next, err);
    if (rc == MW_OK && next->cursor + 1 != generation->first_position) {
        rc =
            mw_fail(err, MW_MISUSE,
                    "generation %" PRIu64 " starts at position %" PRIu64 ", the cursor is %" PRIu64,
                    generation->number, generation->first_position, next->cursor);
    }
    if (rc == MW_OK) {
        next->cursor = generation->last_position;
        next->sequence = generation->sequence_last;
        next->count = generation->count_last;
        next->pledged = generation->pledged_last;
        next->generation = generation->number;
        next->boundary = next->number;
        rc = list_runs(next, generation, err);
        if (rc == MW_OK && file) rc = list_file(next, file, err);
    }
    if (rc == MW_OK) rc = mw_store_publish(store, next, err);
    mw_manifest_unref(next);
    mw_version_unref(version);
    return rc;
}

static void remove_logs(mw_store *store, const mw_generation *generation)
{
    for (uint32_t i = 0; i < generation->log_count; i++) {
        char name[MW_LOG_NAME_BYTES];
        mw_log_name(generation->logs[i].epoch, generation->logs[i].number, name);
        store->env->unlink(store->env->ctx, store->dir, name);
    }
}

/* Has an entry been published that is not synced? With durability normal, for a moment after that
** was changed, and behind the decision of a pledge. */
static bool has_unsynced(mw_store *store)
{
    mw_store_lock(store);
    bool unsynced = store->durable < store->visible.position;
    mw_store_unlock(store);
    return unsynced;
}

/* Requires flush_mutex and that all of the generation is published. */
static mw_rc flush_generation(mw_store *store, const mw_generation *generation, mw_err *err)
{
    const mw_env *env = store->env;
    mw_manifest_file file = {0};
    bool any = mw_memtable_versions(generation->memtable) > 0;
    mw_rc rc = MW_OK;
    if (has_unsynced(store)) rc = mw_commit_sync(store, err);
    if (rc == MW_OK && any) {
        mw_version *version = mw_store_version(store);
        rc = write_table(store, generation, version->manifest, &file, err);
        mw_version_unref(version);
    }
    if (rc != MW_OK) return rc;
    env->mutex_lock(env->ctx, store->manifest_mutex);
    rc = list_table(store, generation, any ? &file : NULL, err);
    env->mutex_unlock(env->ctx, store->manifest_mutex);
    if (rc == MW_OK) {
        remove_logs(store, generation);
        mw_store_lock(store);
        store->figures.flushes++;
        mw_store_unlock(store);
    } else if (any && rc != MW_PERSISTENCE && rc != MW_FENCED) {
        mw_store_remove_table(store, &file); /* else a manifest may stand that lists it */
    }
    mw_key_range_free(env, &file.keys);
    return rc;
}

/* The oldest frozen generation up to `through`, referenced; NULL: none. */
static mw_generation *oldest_frozen(mw_store *store, uint64_t through)
{
    mw_generation *oldest = NULL;
    mw_store_lock(store);
    const mw_version *version = store->version;
    if (version->generation_count > 1) {
        mw_generation *last = version->generations[version->generation_count - 1];
        if (last->number <= through) oldest = mw_generation_ref(last);
    }
    mw_store_unlock(store);
    return oldest;
}

static mw_rc flush_oldest(mw_store *store, uint64_t through, uint64_t deadline_ns, bool *any,
                          mw_err *err)
{
    mw_generation *generation = oldest_frozen(store, through);
    *any = generation != NULL;
    if (!generation) return MW_OK;
    mw_rc rc = mw_commit_settle(store, generation->last_position, deadline_ns, err);
    mw_store_lock(store);
    if (rc == MW_OK && store->stopped.rc != MW_OK) rc = mw_store_stopped(store, err);
    mw_store_unlock(store);
    if (rc == MW_OK) rc = flush_generation(store, generation, err);
    mw_generation_unref(generation);
    return rc;
}

mw_rc mw_flush_run(mw_store *store, uint64_t through, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    bool any = true;
    mw_rc rc = MW_OK;
    while (rc == MW_OK && any) {
        env->mutex_lock(env->ctx, store->flush_mutex);
        rc = flush_oldest(store, through, deadline_ns, &any, err);
        env->mutex_unlock(env->ctx, store->flush_mutex);
        if (rc == MW_OK && any) mw_store_unpark(store);
    }
    return rc;
}

/* ---- while flushes fall behind --------------------------------------------------------------- */

static uint32_t frozen_count(const mw_store *store)
{
    return store->looking ? 0 : store->version->generation_count - 1;
}

bool mw_flush_due(const mw_store *store) { return frozen_count(store) > 0; }

/* Waits on `progress` for at most so long, or until the store stops. Requires `mutex`. */
static mw_rc wait_a_while(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    uint64_t now = store->env->now_ns(store->env->ctx);
    mw_rc rc = mw_store_stopped(store, err);
    if (rc != MW_OK || now >= deadline_ns) return rc;
    mw_store_wait(store, mw_min(deadline_ns, now + (uint64_t)RETRY_MS * 1000000));
    return mw_store_stopped(store, err);
}

/* Has background work been switched off, and its last step ended? Then nobody comes whom a writer
** could wait for. Requires `mutex`. */
static bool left_alone(const mw_store *store)
{
    return !store->options.background && !store->working;
}

/* Waits for the background thread; what it could not do is the reason in the end. */
static mw_rc wait_for_flush(mw_store *store, mw_err *err)
{
    const mw_env *env = store->env;
    uint64_t deadline_ns = mw_store_deadline(store, ROOM_WAIT_MS);
    mw_rc rc = MW_OK;
    mw_store_lock(store);
    uint64_t began = env->now_ns(env->ctx);
    while (rc == MW_OK && frozen_count(store) > FROZEN_MAX && !left_alone(store)) {
        rc = wait_a_while(store, deadline_ns, err);
        if (rc == MW_OK && env->now_ns(env->ctx) >= deadline_ns) {
            rc = mw_fail(err, MW_FULL,
                         "flushing does not keep up with writing: %" PRIu32
                         " memtables wait, expected at most %d%s%s",
                         frozen_count(store), FROZEN_MAX, store->parked.rc != MW_OK ? ": " : "",
                         store->parked.text);
        }
    }
    store->figures.stall_ns += env->now_ns(env->ctx) - began;
    mw_store_unlock(store);
    return rc;
}

static mw_rc make_room_for_flush(mw_store *store, bool background, mw_err *err)
{
    mw_store_lock(store);
    uint32_t frozen = frozen_count(store);
    mw_store_unlock(store);
    if (frozen == 0) return MW_OK;
    if (background) return frozen > FROZEN_MAX ? wait_for_flush(store, err) : MW_OK;
    mw_err cause = {0};
    mw_rc rc = mw_flush_run(store, UINT64_MAX, mw_store_deadline(store, ROOM_WAIT_MS), &cause);
    if (rc == MW_OK) return MW_OK;
    mw_store_park(store, &cause);
    return frozen > FROZEN_MAX ? mw_fail_as(err, &cause) : MW_OK;
}

/* ---- while merges fall behind ---------------------------------------------------------------- */

static uint32_t pending_count(const mw_store *store)
{
    return store->version->files->levels.files[0].count;
}

static uint64_t refused_from(const mw_store *store)
{
    return (uint64_t)REFUSE_FROM * mw_max(store->options.merge_generations, 1);
}

/* How long a transaction waits: from nothing up to SLOW_MS, in proportion. Requires `mutex`. */
static uint64_t slowed_ns(const mw_store *store)
{
    uint64_t from = (uint64_t)SLOW_FROM * mw_max(store->options.merge_generations, 1);
    uint64_t pending = mw_min(pending_count(store), refused_from(store));
    if (pending <= from) return 0;
    return (uint64_t)SLOW_MS * 1000000 * (pending - from) / (refused_from(store) - from);
}

/* Is an undecided transaction in the way of merges? Then no waiting would help: who has it may be
** who would wait. Requires `mutex`. */
static bool merges_are_blocked(const mw_store *store)
{
    const mw_manifest *manifest = store->version->manifest;
    uint32_t pending = pending_count(store);
    return pending > 0 && manifest->files[manifest->file_count - pending].generation >=
                              mw_txn_undecided_generation(store);
}

static mw_rc merges_are_behind(const mw_store *store, mw_err *err)
{
    return mw_fail(err, MW_FULL,
                   "merging does not keep up with writing: %" PRIu32
                   " files wait, writers are refused from %" PRIu64 " on%s%s",
                   pending_count(store), refused_from(store),
                   store->parked.rc != MW_OK ? ": " : "", store->parked.text);
}

/* Slows the caller; where that has not helped it waits for room. A large transaction leaves many
** files at once, and one merge takes only some of them: as long as they get fewer it goes on
** waiting. */
static mw_rc wait_for_merge(mw_store *store, mw_err *err)
{
    const mw_env *env = store->env;
    mw_rc rc = MW_OK;
    mw_store_lock(store);
    uint64_t began = env->now_ns(env->ctx);
    uint64_t slowed_until = began + slowed_ns(store);
    uint64_t deadline_ns = mw_store_deadline(store, ROOM_WAIT_MS);
    uint32_t fewest = pending_count(store);
    while (rc == MW_OK && slowed_ns(store) > 0 && !merges_are_blocked(store) &&
           !left_alone(store)) {
        bool full = pending_count(store) >= refused_from(store);
        if (pending_count(store) < fewest) {
            fewest = pending_count(store);
            deadline_ns = mw_store_deadline(store, ROOM_WAIT_MS);
        }
        uint64_t now = env->now_ns(env->ctx);
        if (!full && now >= slowed_until) break;
        if (full && now >= deadline_ns) rc = merges_are_behind(store, err);
        if (rc == MW_OK) rc = wait_a_while(store, full ? deadline_ns : slowed_until, err);
    }
    store->figures.stall_ns += env->now_ns(env->ctx) - began;
    mw_store_unlock(store);
    return rc;
}

/* One job of those that are due, by whoever writes. */
static mw_rc merge_inline(mw_store *store, mw_err *err)
{
    static const mw_compact_task task = {.what = MW_COMPACT_DUE};
    mw_compact_result result = {0};
    mw_err cause = {0};
    mw_rc rc = mw_compact_job(store, &task, &result, &cause);
    if (rc == MW_OK) {
        if (result.jobs > 0) mw_store_unpark(store);
        return MW_OK;
    }
    mw_store_park(store, &cause);
    mw_store_lock(store);
    bool full = pending_count(store) >= refused_from(store);
    rc = mw_store_stopped(store, err);
    if (rc == MW_OK && full) rc = merges_are_behind(store, err);
    mw_store_unlock(store);
    return rc;
}

static bool has_thread(mw_store *store)
{
    mw_store_lock(store);
    bool yes = store->thread != NULL && store->options.background;
    mw_store_unlock(store);
    return yes;
}

static mw_rc make_room_for_merge(mw_store *store, bool background, mw_err *err)
{
    mw_store_lock(store);
    bool due = !background && !store->merging && mw_compact_due(store);
    bool wake = due && store->options.background;
    mw_store_unlock(store);
    /* What an earlier process left is the thread's work, too, though nothing has started it yet. */
    if (wake) {
        mw_background_wake(store);
        background = has_thread(store);
    }
    if (due && !background) return merge_inline(store, err);
    mw_store_lock(store);
    /* Nothing is merged before the first transaction has made the store ours (open_txn): whoever
    ** waited for that before his own would wait in vain. */
    bool slowed =
        background && store->owned && slowed_ns(store) > 0 && !merges_are_blocked(store);
    mw_store_unlock(store);
    return slowed ? wait_for_merge(store, err) : MW_OK;
}

static mw_rc make_room(mw_store *store, bool background, mw_err *err)
{
    mw_rc rc = make_room_for_flush(store, background, err);
    return rc == MW_OK ? make_room_for_merge(store, background, err) : rc;
}

mw_rc mw_flush_make_room(mw_store *store, mw_err *err)
{
    if (store->options.read_only) return MW_OK; /* writing is refused a moment later */
    mw_store_lock(store);
    bool joined = mw_entry_join_job(store);
    mw_store_unlock(store);
    if (!joined) return MW_OK; /* another process may be at it */
    bool background = has_thread(store);
    mw_rc rc = make_room(store, background, err);
    /* It was switched off while we waited: what the thread has left is the writer's. */
    if (rc == MW_OK && background && !has_thread(store)) rc = make_room(store, false, err);
    mw_entry_end_job(store);
    return rc;
}
