/* commit.c: from a queued entry to its acknowledgement.
**
**     turn holder        queue (position order)         leader
**     encode, reserve -> [p7 a][p8 b][p9 c]        ->   one write, one sync, one fence check
**                                                       p7, p8, p9: done, each with its result
**
** Whoever waits for its entry and finds nobody leading becomes the leader: it takes all queued
** entries of one segment, writes them with one write, syncs, looks into the file system whether a
** peer has claimed a higher epoch, and then resolves each request with its own result. Entries that
** are queued meanwhile make the next group.
**
** Why it stays right
**   - An entry's rows lie in the memtable from the moment it is queued, above the visible sequence:
**     only the holder of the turn sees them. Publication moves the visible point, in position
**     order, after the sync: no reader sees what is not durable (I3).
**   - A failed write, sync or fence check fails every entry without a result, and the writer stops:
**     a later sync that works proves nothing about an earlier one that failed (I10).
**   - Fenced is definite: entries at or above the start of the sealed successor never count,
**     entries below it do (epoch.c), and each request is told which it was (I8).
**
** After a crash in the middle of a group any part of it may be on disk; the log's chain cuts that
** down to a prefix. No one in the group had been told yes (I1).
**
** Why no timer and no commit thread: a leader is always one of those who wait, so nothing is to be
** woken first, and an idle store costs nothing. */
#include "commit.h"

#include "epoch.h"
#include "shared.h"

#include <inttypes.h>
#include <string.h>

/* A group stays small enough to be written at once and large enough to share one sync. */
enum { GROUP_BYTES_MAX = 8 << 20 };

/* ---- the turn -------------------------------------------------------------------------------- */

/* Lives on the stack of the thread that waits. */
typedef struct mw_waiter {
    struct mw_waiter *next;
    mw_cond *cond;
    bool granted;
} mw_waiter;

static void leave_turn_queue(mw_store *store, const mw_waiter *waiter)
{
    mw_waiter **link = &store->turn_first;
    mw_waiter *before = NULL;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (store->turn_last == waiter) store->turn_last = before;
}

static mw_rc wait_for_turn(mw_store *store, mw_waiter *self, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    if (store->turn_last) {
        store->turn_last->next = self;
    } else {
        store->turn_first = self;
    }
    store->turn_last = self;
    bool in_time = true;
    while (!self->granted && in_time && mw_store_stopped(store, NULL) == MW_OK) {
        in_time = env->cond_wait(env->ctx, self->cond, store->mutex, deadline_ns);
    }
    if (self->granted) return MW_OK;
    leave_turn_queue(store, self);
    mw_rc rc = mw_store_stopped(store, err);
    if (rc != MW_OK) return rc;
    return mw_fail(err, MW_BUSY, "another transaction is writing to %s", store->path);
}

mw_rc mw_turn_take(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    mw_store_lock(store);
    mw_rc rc = mw_store_stopped(store, err);
    if (rc == MW_OK && !store->turn_taken) {
        store->turn_taken = true;
    } else if (rc == MW_OK) {
        mw_waiter self = {0};
        int sys = env->cond_create(env->ctx, &self.cond);
        rc = sys ? mw_fail_sys(err, sys, "waiting for the turn", store->path)
                 : wait_for_turn(store, &self, deadline_ns, err);
        if (!sys) env->cond_destroy(env->ctx, self.cond);
    }
    bool granted = rc == MW_OK;
    if (granted) rc = mw_store_stopped(store, err); /* it may have stopped while we waited */
    mw_store_unlock(store);
    if (granted && rc != MW_OK) mw_turn_give(store);
    return rc;
}

bool mw_turn_try(mw_store *store)
{
    mw_store_lock(store);
    bool free = mw_store_stopped(store, NULL) == MW_OK && !store->turn_taken;
    store->turn_taken = store->turn_taken || free;
    mw_store_unlock(store);
    return free;
}

void mw_turn_give(mw_store *store)
{
    mw_store_lock(store);
    assert(store->turn_taken);
    mw_waiter *first = store->turn_first;
    if (first) {
        store->turn_first = first->next;
        if (!first->next) store->turn_last = NULL;
        first->granted = true;
        store->env->cond_signal(store->env->ctx, first->cond);
    } else {
        store->turn_taken = false;
    }
    mw_store_unlock(store);
}

/* ---- requests -------------------------------------------------------------------------------- */

mw_rc mw_request_create(mw_store *store, mw_log_kind kind, mw_request *request, mw_err *err)
{
    memset(request, 0, sizeof *request);
    request->kind = kind;
    mw_buf_init(&request->payload, store->env);
    int sys = store->env->cond_create(store->env->ctx, &request->cond);
    return sys ? mw_fail_sys(err, sys, "creation of a completion", store->path) : MW_OK;
}

void mw_request_free(mw_store *store, mw_request *request)
{
    if (request->cond) store->env->cond_destroy(store->env->ctx, request->cond);
    mw_buf_free(&request->payload);
    memset(request, 0, sizeof *request);
}

void mw_commit_queue(mw_store *store, mw_request *request)
{
    assert(!request->payload.failed && request->payload.size > 0);
    mw_store_lock(store);
    request->segment = store->segment;
    request->after.position = store->queued.position + 1;
    store->queued = request->after;
    if (store->queue_last) {
        store->queue_last->next = request;
    } else {
        store->queue_first = request;
    }
    store->queue_last = request;
    mw_store_unlock(store);
}

/* Fills the completion. Requires `mutex`; the request may be gone once it is released. */
static void resolve(mw_store *store, mw_request *request, const mw_err *failure)
{
    assert(store->queue_first == request && !request->done);
    store->queue_first = request->next;
    if (!store->queue_first) store->queue_last = NULL;
    if (failure) {
        request->result = *failure;
    } else if (request->publish) {
        store->visible = request->after;
        mw_shared_show(store);
        store->figures.commits += request->kind != MW_LOG_ABORT;
    }
    request->done = true;
    store->env->cond_signal(store->env->ctx, request->cond);
}

/* ---- the leader ------------------------------------------------------------------------------ */

/* What one group is: the first `count` queued entries, all of one segment. */
typedef struct group {
    mw_request *first;
    uint32_t count;
    uint64_t last_position;
    uint64_t durable_through;
    uint64_t bytes; /* in the segment */
    mw_log_segment *segment;
    bool sync; /* before it is acknowledged */
    bool lazy; /* nor soon after            */
} group;

static group choose(const mw_store *store)
{
    group chosen = {.first = store->queue_first,
                    .segment = store->queue_first->segment,
                    .durable_through = store->durable,
                    .lazy = true};
    /* Where nobody would sync it within 100 ms, the commit itself does. */
    bool eager = store->options.durability == MW_DURABILITY_FULL || !store->thread;
    size_t bytes = 0;
    for (mw_request *at = chosen.first; at && at->segment == chosen.segment; at = at->next) {
        bytes += at->payload.size;
        if (chosen.count > 0 && bytes > GROUP_BYTES_MAX) break;
        chosen.count++;
        chosen.bytes += mw_log_entry_bytes(at->payload.size);
        chosen.last_position = at->after.position;
        chosen.sync = chosen.sync || at->sync || (eager && !at->lazy);
        chosen.lazy = chosen.lazy && at->lazy;
    }
    return chosen;
}

static mw_rc write_group(mw_store *store, const group *chosen, mw_err *err)
{
    /* A record in a new segment says that the old one is whole. */
    if (store->unsynced && store->unsynced != chosen->segment) {
        mw_rc rc = mw_log_segment_sync(store->unsynced, err);
        if (rc != MW_OK) return rc;
        store->unsynced = NULL;
    }
    mw_request *at = chosen->first;
    for (uint32_t i = 0; i < chosen->count; i++) {
        if (i > 0) at = at->next; /* that of the last one may be set at this moment */
        mw_log_entry entry = {
            .position = at->after.position,
            .epoch = store->epoch,
            .durable_through = chosen->durable_through,
            .kind = at->kind,
            .payload = mw_buf_slice(&at->payload),
        };
        mw_rc rc = mw_log_segment_stage(chosen->segment, &entry, err);
        if (rc != MW_OK) return rc;
    }
    mw_rc rc = mw_log_segment_write(chosen->segment, err);
    if (rc != MW_OK) return rc;
    store->unsynced = chosen->segment;
    if (!chosen->sync) return MW_OK;
    rc = mw_log_segment_sync(chosen->segment, err);
    if (rc == MW_OK) store->unsynced = NULL;
    return rc;
}

/* Requires `mutex` and that nobody leads. Fails everything that has no result. */
static void fail_all(mw_store *store, const mw_err *cause)
{
    while (store->queue_first) resolve(store, store->queue_first, cause);
    for (mw_waiter *waiter = store->turn_first; waiter; waiter = waiter->next) {
        store->env->cond_signal(store->env->ctx, waiter->cond);
    }
    store->env->cond_broadcast(store->env->ctx, store->progress);
}

/* The same after a failure of the log: no writing after that. */
static void stop_and_fail(mw_store *store, const mw_err *cause)
{
    mw_store_stop(store, cause);
    fail_all(store, cause);
}

/* Requires `mutex`. Resolves a written group: entries below fence succeed. */
static void resolve_group(mw_store *store, const group *chosen, uint64_t fence)
{
    uint64_t good = mw_min(chosen->last_position, fence - 1);
    for (uint32_t i = 0; i < chosen->count; i++) {
        if (store->queue_first->after.position > good) break;
        resolve(store, store->queue_first, NULL);
    }
    if (chosen->sync) {
        store->durable = mw_max(store->durable, good);
        store->unsynced_since_ns = 0;
    } else if (store->unsynced_since_ns == 0 && !chosen->lazy) {
        store->unsynced_since_ns = store->env->now_ns(store->env->ctx);
        store->env->cond_signal(store->env->ctx, store->work);
    }
    store->env->cond_broadcast(store->env->ctx, store->progress);
}

/* Requires `mutex` and that nobody leads; gives it up meanwhile. */
static void lead(mw_store *store)
{
    store->leading = true;
    group chosen = choose(store);
    mw_store_unlock(store);
    mw_err cause = {0};
    uint64_t fence = 0;
    mw_rc rc = write_group(store, &chosen, &cause);
    if (rc == MW_OK) rc = mw_epoch_fence(store, chosen.last_position, &fence, &cause);
    if (rc != MW_OK && rc != MW_FENCED) cause.rc = MW_PERSISTENCE; /* the outcome is unknown */
    mw_store_lock(store);
    store->leading = false;
    store->figures.log_writes++;
    if (rc == MW_OK || rc == MW_FENCED) store->figures.log_bytes += chosen.bytes;
    if (chosen.sync) store->figures.log_syncs++;
    if (rc == MW_OK || rc == MW_FENCED) resolve_group(store, &chosen, fence);
    if (rc != MW_OK) stop_and_fail(store, &cause);
    if (store->queue_first) store->env->cond_signal(store->env->ctx, store->queue_first->cond);
}

mw_rc mw_commit_wait(mw_store *store, mw_request *request, mw_err *err)
{
    const mw_env *env = store->env;
    mw_store_lock(store);
    while (!request->done) {
        mw_err cause = {0};
        if (store->leading) {
            env->cond_wait(env->ctx, request->cond, store->mutex, UINT64_MAX);
        } else if (mw_store_stopped(store, &cause) != MW_OK) {
            fail_all(store, &cause);
        } else {
            lead(store);
        }
    }
    mw_err result = request->result;
    mw_store_unlock(store);
    return result.rc == MW_OK ? MW_OK : mw_fail(err, result.rc, "%s", result.text);
}

void mw_commit_publish(mw_store *store, const mw_request *request)
{
    mw_store_lock(store);
    assert(store->queued.position == request->after.position);
    store->visible = request->after;
    mw_shared_show(store);
    store->figures.commits++;
    store->env->cond_broadcast(store->env->ctx, store->progress);
    mw_store_unlock(store);
}

void mw_commit_stop_decided(mw_store *store, const mw_point *after, const mw_err *cause)
{
    mw_err stop = {0};
    mw_fail(&stop, MW_PERSISTENCE, "%s", cause->text);
    mw_store_lock(store);
    mw_store_stop(store, &stop);
    store->visible = *after; /* not for others: the log has no answer that they could read */
    store->figures.commits++;
    store->env->cond_broadcast(store->env->ctx, store->progress);
    mw_store_unlock(store);
}

/* ---- barriers -------------------------------------------------------------------------------- */

mw_rc mw_commit_settle(mw_store *store, uint64_t position, uint64_t deadline_ns, mw_err *err)
{
    mw_rc rc = MW_OK;
    mw_store_lock(store);
    while (rc == MW_OK && store->visible.position < position) {
        rc = mw_store_stopped(store, err);
        if (rc == MW_OK && !mw_store_wait(store, deadline_ns)) {
            rc = mw_fail(err, MW_BUSY, "position %" PRIu64 " of %s is not decided yet", position,
                         store->path);
        }
    }
    mw_store_unlock(store);
    return rc;
}

mw_rc mw_commit_sync(mw_store *store, mw_err *err)
{
    mw_store_lock(store);
    while (store->leading) mw_store_wait(store, UINT64_MAX);
    mw_log_segment *segment = store->unsynced;
    mw_rc rc = store->stopped.rc == MW_OK ? MW_OK : mw_store_stopped(store, err);
    if (!segment || rc != MW_OK) {
        mw_store_unlock(store);
        return rc;
    }
    store->leading = true;
    uint64_t through = store->visible.position;
    mw_store_unlock(store);
    mw_err cause = {0};
    rc = mw_log_segment_sync(segment, &cause);
    mw_store_lock(store);
    store->leading = false;
    store->figures.log_syncs++;
    if (rc == MW_OK) {
        store->durable = mw_max(store->durable, through);
        store->unsynced_since_ns = 0;
    } else {
        cause.rc = MW_PERSISTENCE;
        stop_and_fail(store, &cause);
        rc = mw_fail(err, cause.rc, "%s", cause.text);
    }
    store->unsynced = NULL;
    if (store->queue_first) store->env->cond_signal(store->env->ctx, store->queue_first->cond);
    store->env->cond_broadcast(store->env->ctx, store->progress);
    mw_store_unlock(store);
    return rc;
}

void mw_commit_close(mw_store *store)
{
    mw_err closed = {0};
    mw_store_lock(store);
    store->closing = true;
    while (store->leading) mw_store_wait(store, UINT64_MAX);
    if (mw_store_stopped(store, &closed) != MW_OK) fail_all(store, &closed);
    mw_store_unlock(store);
}
