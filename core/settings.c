/* settings.c: options that change while the store is open.
**
** store->options is under `mutex`; whoever needs an option outside of it takes a copy
** (mw_store_options) and works with that to the end of the step at hand. So a change needs no
** agreement with anybody, but for two things that must be over when it returns:
**
**   durability = full   what was published without a sync is synced, so that from now on whatever
**                       a reader can see is durable (I3)
**   background = off    the step at hand has ended: a merge gives up between two slices, a flush is
**                       finished. What the thread had still to flush is flushed here, since writers
**                       may be waiting for just that.
**
** Only what differs between the caller's two sets is changed, so that two callers who change
** different options at the same time do not undo each other. */
#include "settings.h"

#include "background.h"
#include "commit.h"
#include "flush.h"

/* Requires `mutex`. */
static void take_over(mw_options *options, const mw_options *from, const mw_options *to)
{
    if (to->durability != from->durability) options->durability = to->durability;
    if (to->memtable_bytes != from->memtable_bytes) options->memtable_bytes = to->memtable_bytes;
    if (to->cache_bytes != from->cache_bytes) options->cache_bytes = to->cache_bytes;
    if (to->compression != from->compression) options->compression = to->compression;
    if (to->background != from->background) options->background = to->background;
    if (to->statement_moments != from->statement_moments) {
        options->statement_moments = to->statement_moments;
    }
    if (to->merge_generations != from->merge_generations) {
        options->merge_generations = to->merge_generations;
    }
}

/* Two who change it at once may get here in either order: the last look decides. */
static void resize_cache(mw_store *store)
{
    uint64_t limit;
    do {
        limit = mw_store_options(store).cache_bytes;
        mw_cache_resize(store->cache, limit);
    } while (limit != mw_store_options(store).cache_bytes);
}

/* Waits until the thread has ended its step, then does what it leaves. In a child of a fork there is
** no thread, and whatever was in the middle of a step stays so for ever. */
static mw_rc end_background(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    if (store->process != store->env->process_id(store->env->ctx)) return MW_OK;
    bool in_time = true;
    mw_store_lock(store);
    while (store->working && in_time) in_time = mw_store_wait(store, deadline_ns);
    bool over = !store->working;
    bool flush = mw_flush_due(store) && mw_store_stopped(store, NULL) == MW_OK;
    mw_store_unlock(store);
    if (!over) {
        return mw_fail(err, MW_BUSY,
                       "background work on %s does not end: another transaction is in its way",
                       store->path);
    }
    mw_err cause = {0};
    if (flush && mw_flush_run(store, UINT64_MAX, deadline_ns, &cause) != MW_OK) {
        mw_store_park(store, &cause); /* the next writer tries again, and is told */
    }
    return MW_OK;
}

mw_rc mw_settings_change(mw_store *store, const mw_options *from, const mw_options *to,
                         uint64_t wait_ms, mw_err *err)
{
    uint64_t deadline_ns = mw_store_deadline(store, wait_ms);
    mw_rc rc = MW_OK;
    mw_store_lock(store);
    mw_options before = store->options;
    take_over(&store->options, from, to);
    mw_options now = store->options;
    mw_store_unlock(store);
    if (before.background && !now.background) rc = end_background(store, deadline_ns, err);
    if (rc != MW_OK) {
        mw_store_lock(store);
        take_over(&store->options, to, from);
        mw_store_unlock(store);
    }
    if (now.cache_bytes != before.cache_bytes) resize_cache(store);
    mw_background_wake(store); /* something may be due now that was not */
    bool sync = before.durability == MW_DURABILITY_NORMAL && now.durability == MW_DURABILITY_FULL;
    return rc == MW_OK && sync ? mw_commit_sync(store, err) : rc;
}
