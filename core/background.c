/* background.c: work that nobody should have to wait for.
**
** One thread a store, started by the first freeze, does in this order: sync what durability normal
** has left unsynced for 100 ms, flush frozen memtables, merge when enough generations wait. A merge
** is interrupted between its slices for a flush or a sync that has become due, so neither waits for
** it. A merge is one job (pick.h); after it the thread looks again what is due.
**
** One thread: flush and merge share its time, and both are bound by the same disk and by what
** writers leave of the processors. What a second one could do beside a long job, flushes, is done
** between its slices.
**
** A child of a fork has the store's memory, but not its thread, nor the right to write: it starts
** none and waits for none.
**
** A step that fails is parked (memwal_stats shows it, mw_db_close reports it) and tried again after
** a pause that doubles up to RETRY_MAX_MS; nothing is lost meanwhile: the log holds what is not
** flushed. Only a store that has stopped writing has nothing left to do here.
**
** With background = off the thread exists for durability normal alone, and only syncs. */
#include "background.h"

#include "commit.h"
#include "compact.h"
#include "entry.h"
#include "flush.h"

enum {
    SYNC_AFTER_MS = 100,
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 5000,
    OFFER_MIN_MS = 1,  /* the lock is new, and who writes in turns with us waits for it */
    OFFER_MAX_MS = 50, /* another process waits for it no longer than this              */
    OFFERS_MAX = 8,    /* so often without a write, after 0.2 seconds: it is given up */
};

/* For how long nothing has been written, and when next to ask who waits. */
typedef struct rest_state {
    uint64_t position;
    uint64_t pause_ms;
    int offers;
} rest_state;

static uint64_t sync_due_ns(const mw_store *store)
{
    if (store->unsynced_since_ns == 0) return UINT64_MAX;
    return store->unsynced_since_ns + (uint64_t)SYNC_AFTER_MS * 1000000;
}

/* Is there anything to do now? Requires `mutex`. */
static bool something_due(const mw_store *store)
{
    bool sync = store->env->now_ns(store->env->ctx) >= sync_due_ns(store);
    if (!store->options.background) return sync;
    return sync || mw_flush_due(store) || mw_compact_due(store);
}

static mw_rc sync_if_due(mw_store *store, mw_err *err)
{
    mw_store_lock(store);
    bool due = store->env->now_ns(store->env->ctx) >= sync_due_ns(store);
    mw_store_unlock(store);
    return due ? mw_commit_sync(store, err) : MW_OK;
}

/* Between slices of a merge: does what is more urgent; true gives the merge up. A failure is left
** to the main loop, which meets it again. */
static bool between_slices(void *arg)
{
    mw_store *store = arg;
    mw_err ignored = {0};
    mw_store_lock(store);
    bool over = store->closing || store->stopped.rc != MW_OK || !store->options.background;
    bool flush = mw_flush_due(store);
    mw_store_unlock(store);
    if (over || sync_if_due(store, &ignored) != MW_OK) return true;
    return flush && mw_flush_run(store, UINT64_MAX, UINT64_MAX, &ignored) != MW_OK;
}

/* One job at most, so that what else is due comes in between. *blocked: a merge is due, but an
** undecided transaction is in its way. */
static mw_rc work(mw_store *store, bool *blocked, mw_err *err)
{
    mw_compact_task task = {MW_COMPACT_DUE, 0, 0, between_slices, store};
    mw_rc rc = sync_if_due(store, err);
    mw_store_lock(store);
    bool joined = store->options.background && mw_entry_join_job(store);
    mw_store_unlock(store);
    if (!joined) return rc;
    if (rc == MW_OK) rc = mw_flush_run(store, UINT64_MAX, UINT64_MAX, err);
    mw_store_lock(store);
    bool merge = rc == MW_OK && !store->closing && mw_compact_due(store);
    mw_store_unlock(store);
    mw_compact_result result = {0};
    if (merge) rc = mw_compact_job(store, &task, &result, err);
    *blocked = merge && result.jobs == 0;
    mw_entry_end_job(store);
    return rc;
}

/* Nothing is due. Waits for that; as the owner it looks meanwhile whether another process wants to
** be that. Requires `mutex`. */
static void rest(mw_store *store, uint64_t until, rest_state *state)
{
    const mw_env *env = store->env;
    bool watch = store->owned && store->lock_file >= 0 && store->options.background;
    if (state->position != store->queued.position) state->offers = 0;
    state->position = store->queued.position;
    state->pause_ms = watch ? mw_min(2 * state->pause_ms, OFFER_MAX_MS) : OFFER_MIN_MS;
    if (watch) until = mw_min(until, mw_store_deadline(store, state->pause_ms));
    bool in_time = env->cond_wait(env->ctx, store->work, store->mutex, until);
    if (!watch || in_time || store->closing) return;
    mw_store_unlock(store);
    bool idle = ++state->offers >= OFFERS_MAX;
    if (idle) state->offers = 0;
    mw_entry_offer(store, idle);
    mw_store_lock(store);
}

static void run(void *arg)
{
    mw_store *store = arg;
    const mw_env *env = store->env;
    uint64_t pause_ms = 0;
    rest_state resting = {.pause_ms = OFFER_MIN_MS};
    mw_store_lock(store);
    while (!store->closing && store->stopped.rc == MW_OK) {
        bool due = something_due(store);
        if (!due) pause_ms = 0; /* what failed has been made up for: whoever has more calls us */
        uint64_t until = sync_due_ns(store); /* whatever else has to wait */
        if (pause_ms) until = mw_min(until, mw_store_deadline(store, pause_ms));
        if (!due) {
            rest(store, until, &resting);
        } else if (pause_ms) {
            env->cond_wait(env->ctx, store->work, store->mutex, until);
        }
        if (store->closing || !something_due(store)) continue;
        store->working = true;
        mw_store_unlock(store);
        mw_err err = {0};
        bool blocked = false;
        mw_rc rc = work(store, &blocked, &err);
        bool failed = rc != MW_OK && rc != MW_INTERRUPTED && rc != MW_CLOSED;
        pause_ms =
            !failed && !blocked ? 0 : mw_min(pause_ms ? 2 * pause_ms : RETRY_MIN_MS, RETRY_MAX_MS);
        if (failed) mw_store_park(store, &err);
        mw_store_lock(store);
        store->working = false;
        env->cond_broadcast(env->ctx, store->progress);
        /* What failed has been made up for; a sync alone does not do that. */
        if (rc == MW_OK && store->options.background) store->parked = (mw_err){0};
    }
    mw_store_unlock(store);
}

void mw_background_start(mw_store *store)
{
    const mw_env *env = store->env;
    mw_store_lock(store);
    bool wanted = store->options.background || store->options.durability == MW_DURABILITY_NORMAL;
    bool ours = store->process == env->process_id(env->ctx) && !store->options.read_only;
    if (!store->thread && wanted && ours && !store->closing) {
        int sys = env->thread_start(env->ctx, run, store, &store->thread);
        if (sys) store->thread = NULL;
    }
    mw_store_unlock(store);
}

void mw_background_wake(mw_store *store)
{
    mw_background_start(store);
    mw_store_lock(store);
    store->env->cond_signal(store->env->ctx, store->work);
    mw_store_unlock(store);
}

void mw_background_stop(mw_store *store)
{
    const mw_env *env = store->env;
    mw_store_lock(store);
    assert(store->closing);
    mw_thread *thread = store->thread;
    store->thread = NULL;
    env->cond_broadcast(env->ctx, store->work);
    mw_store_unlock(store);
    bool ours = store->process == env->process_id(env->ctx);
    if (thread && ours) env->thread_join(env->ctx, thread);
}
