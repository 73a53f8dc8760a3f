/* entry.c: how a process comes to a store.
**
**     lock free  -> enter: clean end?  resume the epoch    : claim the next one
**     lock taken -> follow: read beside the process that has it (follow.c)
**                   first write: wait for the lock, then enter
**
** The lock is one of the folder, held for as long as the store is open by the process that may
** write. It is of an open file: a killed process loses it, a forked child has no share in it. */
#include "entry.h"

#include "epoch.h"
#include "state.h"

#include <errno.h>

static const char lock_name[] = "lock";

enum { PAUSE_MS = 5 };

mw_rc mw_entry_lock(mw_store *store, bool *free, mw_err *err)
{
    const mw_env *env = store->env;
    *free = true;
    if (store->options.shared) return MW_OK;
    int sys = 0;
    if (store->lock_file < 0) {
        sys = mw_env_open(env, store->dir, lock_name, MW_OPEN_ENSURE, &store->lock_file);
    }
    if (sys) return mw_fail_sys(err, sys, "opening the lock", store->path);
    sys = env->file_lock(env->ctx, store->lock_file, 0, 0, MW_LOCK_EXCLUSIVE);
    *free = sys != EAGAIN && sys != EACCES;
    return sys && *free ? mw_fail_sys(err, sys, "locking", store->path) : MW_OK;
}

bool mw_entry_is_read_only(const mw_err *cause)
{
    int sys = cause->sys;
    return cause->rc == MW_FULL || sys == EROFS || sys == EACCES || sys == EPERM;
}

/* Goes on behind the end that was left cleanly, if it really was: *clean. */
static mw_rc resume(mw_store *store, mw_manifest *manifest, bool *clean, mw_err *err)
{
    mw_replay replay;
    mw_rc rc = mw_replay_log(store, manifest, NULL, &replay, err);
    *clean = replay.last_clean && !replay.undecided && !replay.place.header.old;
    if (rc == MW_OK && *clean) rc = mw_epoch_resume(store, &replay, err);
    mw_replay_free(store->env, &replay);
    return rc;
}

/* Claims the next epoch. Where that cannot be done now the rows can be read all the same, and
** whoever writes first tries again. */
static mw_rc take_over(mw_store *store, mw_err *err)
{
    mw_err cause = {0};
    mw_rc rc = mw_epoch_takeover(store, NULL, &cause);
    if (rc == MW_UNDECIDED || (rc != MW_OK && mw_entry_is_read_only(&cause))) {
        return mw_epoch_look(store, NULL, err);
    }
    return rc == MW_OK ? MW_OK : mw_fail(err, rc, "%s", cause.text);
}

/* After a clean end the log is read as it is; after any other the next epoch is claimed first. */
static mw_rc recover(mw_store *store, mw_manifest *manifest, mw_err *err)
{
    bool clean = true;
    bool written = mw_manifest_epoch_claimed(manifest) > 0;
    mw_rc rc = written ? mw_state_read(store, &clean, err) : MW_OK;
    if (rc == MW_OK && clean) rc = resume(store, manifest, &clean, err);
    return rc == MW_OK && !clean ? take_over(store, err) : rc;
}

mw_rc mw_entry_enter(mw_store *store, mw_err *err)
{
    mw_manifest *manifest;
    mw_rc rc = mw_manifest_load_newest(store->env, store->dir, &store->id, &manifest, err);
    if (rc != MW_OK) return rc;
    rc = recover(store, manifest, err);
    mw_manifest_unref(manifest);
    return rc;
}

/* ---- from reading beside a writer to writing -------------------------------------------------- */

static void pause(mw_store *store)
{
    mw_store_lock(store);
    mw_store_wait(store, mw_store_deadline(store, PAUSE_MS));
    mw_store_unlock(store);
}

/* The lock is somebody else's until he closes the store, or dies. */
static mw_rc wait_for_lock(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    for (;;) {
        bool free;
        mw_rc rc = mw_entry_lock(store, &free, err);
        if (rc == MW_OK && !free) rc = mw_store_closing(store, err);
        if (rc != MW_OK || free) return rc;
        if (env->now_ns(env->ctx) >= deadline_ns) {
            return mw_fail(err, MW_BUSY, "another process has %s open for writing", store->path);
        }
        pause(store);
    }
}

static mw_rc stop_following(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    mw_rc rc = wait_for_lock(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    env->mutex_lock(env->ctx, store->follow_mutex);
    atomic_store(&store->following, false);
    rc = mw_entry_enter(store, err);
    if (rc != MW_OK) { /* what is shown stays, and the next one tries again */
        atomic_store(&store->following, true);
        (void)env->file_lock(env->ctx, store->lock_file, 0, 0, MW_LOCK_NONE);
    }
    env->mutex_unlock(env->ctx, store->follow_mutex);
    return rc;
}

mw_rc mw_entry_own(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    mw_rc rc = MW_OK;
    if (atomic_load(&store->following)) rc = stop_following(store, deadline_ns, err);
    return rc == MW_OK ? mw_epoch_own(store, err) : rc;
}
