/* entry.c: how a process comes to a store.
**
**     opening, lock free    enter: after a clean end go on in the epoch, else claim the next one;
**                           then leave: the lock is given up until something is written
**     opening, lock taken   follow: read beside the process that has it (follow.c)
**     writing               take the lock: waits for whoever has it
**     later                 leave, when another process waits, or after 0.2 seconds without a write
**
** Leaving is what closing does: all is synced, and the state file says that the end is a clean one.
** So the next one goes on in the same epoch: it reads the log on to its end, which is all published,
** and appends. Who finds no clean end has found a dead one's store.
**
** The lock is of an open file: a killed process loses it, once no forked child has that file open any
** more (mw_db_forked). A process that is stopped (SIGSTOP) keeps it. */
#include "entry.h"

#include "commit.h"
#include "epoch.h"
#include "follow.h"
#include "leftovers.h"
#include "shared.h"
#include "snapshot.h"
#include "state.h"

#include <errno.h>

static const char lock_name[] = "lock";

enum {
    LOCK_BYTE = 0, /* of the file: who has it may write    */
    WAIT_BYTE = 1, /* who waits for that shares this one   */
    OPEN_BYTE = 2, /* all who have the store open share it */
    PAUSE_MS = 1,
    KEPT_FILES_MAX = 500, /* of the current version: descriptors are few */
    GRACE_MS = 100,       /* whoever has the lock and writes nothing gives it up sooner */
};

/* Nobody removes the store while it is open. */
static mw_rc open_lock(mw_store *store, mw_err *err)
{
    const mw_env *env = store->env;
    int sys = mw_env_open(env, store->dir, lock_name, MW_OPEN_ENSURE, &store->lock_file);
    if (sys) return mw_fail_sys(err, sys, "opening the lock", store->path);
    sys = env->file_lock(env->ctx, store->lock_file, OPEN_BYTE, 1, MW_LOCK_SHARED);
    if (sys == EAGAIN || sys == EACCES) {
        return mw_fail(err, MW_BUSY, "%s is being removed", store->path);
    }
    return sys ? mw_fail_sys(err, sys, "locking", store->path) : MW_OK;
}

mw_rc mw_entry_lock(mw_store *store, bool *free, mw_err *err)
{
    const mw_env *env = store->env;
    *free = true;
    if (store->options.shared) return MW_OK;
    mw_rc rc = store->lock_file < 0 ? open_lock(store, err) : MW_OK;
    if (rc != MW_OK) return rc;
    int sys = env->file_lock(env->ctx, store->lock_file, LOCK_BYTE, 1, MW_LOCK_EXCLUSIVE);
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
    return rc == MW_OK ? MW_OK : mw_fail_as(err, &cause);
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

/* ---- to and fro ------------------------------------------------------------------------------ */

static void unlock(mw_store *store)
{
    (void)store->env->file_lock(store->env->ctx, store->lock_file, LOCK_BYTE, 1, MW_LOCK_NONE);
}

static void pause(mw_store *store)
{
    mw_store_lock(store);
    mw_store_wait(store, mw_store_deadline(store, PAUSE_MS));
    mw_store_unlock(store);
}

static mw_rc poll_lock(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    for (;;) {
        bool free;
        mw_rc rc = mw_entry_lock(store, &free, err);
        if (rc == MW_OK && !free) rc = mw_store_closing(store, err);
        if (rc != MW_OK || free) return rc;
        if (env->now_ns(env->ctx) >= deadline_ns) {
            return mw_fail(err, MW_BUSY, "another process is writing to %s", store->path);
        }
        pause(store);
    }
}

/* Who has the lock sees that somebody waits, and gives it up as soon as he can. */
static mw_rc wait_for_lock(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    bool free;
    mw_rc rc = mw_entry_lock(store, &free, err);
    if (rc != MW_OK || free) return rc;
    int sys = env->file_lock(env->ctx, store->lock_file, WAIT_BYTE, 1, MW_LOCK_SHARED);
    if (sys) return mw_fail_sys(err, sys, "waiting for the lock of", store->path);
    rc = poll_lock(store, mw_max(deadline_ns, mw_store_deadline(store, GRACE_MS)), err);
    (void)env->file_lock(env->ctx, store->lock_file, WAIT_BYTE, 1, MW_LOCK_NONE);
    return rc;
}

/* The segment that the place is in, for writing. */
static mw_rc open_segment(mw_store *store, mw_err *err)
{
    const mw_log_place *place = &store->place;
    mw_generation *active = store->version->generations[0];
    mw_log_segment *segment = NULL;
    if (place->header.number == 0) return MW_OK; /* nobody has ever written */
    mw_rc rc = mw_log_segment_resume(store->env, store->dir, &place->header, place->offset,
                                     place->chain, &segment, err);
    if (rc != MW_OK) return rc;
    mw_store_lock(store);
    mw_log_segment *before = active->segment;
    active->segment = segment;
    store->segment = segment;
    store->segment_number = place->header.number;
    store->looking = false;
    mw_store_unlock(store);
    mw_log_segment_close(before);
    return MW_OK;
}

/* Goes on where the process before us has left the store cleanly. *clean is false when it has not:
** then everything is read anew, and the next epoch claimed. */
static mw_rc take_on(mw_store *store, bool *clean, mw_err *err)
{
    mw_rc rc = mw_state_read(store, clean, err);
    if (rc != MW_OK || !*clean) return rc;
    rc = mw_follow_to_end(store, err);
    *clean = !store->place.header.old && store->closed_at <= store->visible.position;
    if (rc == MW_OK && *clean) rc = open_segment(store, err);
    if (rc == MW_OK && *clean) mw_leftovers_sweep(store, true);
    return rc;
}

/* Back to following, with what is shown: whoever comes to write takes the lock, and reads anew. */
static void step_back(mw_store *store)
{
    mw_store_lock(store);
    store->segment = NULL;
    store->place = (mw_log_place){0};
    store->looking = true;
    store->astray = true;
    atomic_store(&store->following, true);
    mw_store_unlock(store);
    unlock(store);
}

void mw_entry_give_up(mw_store *store)
{
    mw_err ignored = {0};
    bool ours = store->lock_file >= 0 && !store->owned && !atomic_load(&store->following);
    if (!ours || store->stopped.rc != MW_OK) return;
    (void)!mw_snapshots_keep(store, &ignored); /* else a reader may be told that a file is gone */
    step_back(store);
}

static mw_rc stop_following(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    bool clean;
    mw_rc rc = wait_for_lock(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    env->mutex_lock(env->ctx, store->follow_mutex);
    rc = take_on(store, &clean, err);
    if (rc == MW_OK) {
        atomic_store(&store->following, false);
        if (!clean) rc = mw_entry_enter(store, err);
    }
    if (rc != MW_OK) step_back(store); /* and the next one tries again */
    env->mutex_unlock(env->ctx, store->follow_mutex);
    return rc;
}

mw_rc mw_entry_own(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    mw_err ignored = {0};
    mw_rc rc = mw_epoch_settled(store, &ignored);
    if (rc != MW_OK) { /* another process may have done that by now */
        (void)!mw_follow(store, &ignored);
        rc = mw_epoch_settled(store, err);
    }
    if (rc == MW_OK && atomic_load(&store->following)) {
        rc = stop_following(store, deadline_ns, err);
    }
    if (rc == MW_OK) rc = mw_epoch_own(store, err);
    if (rc != MW_OK) mw_entry_give_up(store);
    return rc;
}

mw_rc mw_entry_return(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    if (!atomic_load(&store->following)) return MW_OK;
    mw_rc rc = wait_for_lock(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    env->mutex_lock(env->ctx, store->follow_mutex);
    atomic_store(&store->following, false);
    env->mutex_unlock(env->ctx, store->follow_mutex);
    return MW_OK;
}

typedef enum under_way { NOTHING, OURS, ANOTHERS, DEAD_ONES } under_way;

/* Has it been decided, or whose is it? */
static mw_rc look_for_prepare(mw_store *store, under_way *whose, mw_err *err)
{
    const mw_env *env = store->env;
    mw_point visible;
    uint64_t prepare = 0;
    mw_store_lock(store);
    bool following = atomic_load(&store->following);
    if (!following) prepare = store->stopped.rc == MW_OK ? store->prepare : 0;
    if (following) (void)!mw_shared_look_prepare(store, &prepare);
    visible = store->visible;
    mw_store_unlock(store);
    *whose = prepare <= visible.position ? NOTHING : following ? ANOTHERS : OURS;
    if (*whose != ANOTHERS) return MW_OK;
    bool held = true;
    int sys = env->file_lock_test(env->ctx, store->lock_file, LOCK_BYTE, 1, &held);
    if (sys) return mw_fail_sys(err, sys, "asking who has the lock of", store->path);
    if (!held) *whose = DEAD_ONES;
    return MW_OK;
}

/* Whoever takes the lock finds what the dead one has left, or what another one has made of it. */
static mw_rc look_at_dead(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    mw_rc rc = mw_turn_take(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    rc = mw_entry_own(store, deadline_ns, err);
    mw_turn_give(store);
    mw_entry_offer(store, false);
    return rc == MW_UNDECIDED ? MW_OK : rc;
}

mw_rc mw_entry_await(mw_store *store, bool hosts, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    if (store->options.read_only || store->options.shared) return MW_OK;
    for (;;) {
        under_way whose;
        mw_err ignored = {0};
        mw_rc rc = look_for_prepare(store, &whose, err);
        if (rc != MW_OK || whose == NOTHING) return rc;
        if (mw_epoch_settled(store, &ignored) != MW_OK) return MW_OK;
        rc = mw_follow(store, err);
        if (rc == MW_OK) rc = look_for_prepare(store, &whose, err);
        if (rc != MW_OK || whose == NOTHING) return rc;
        if (whose == DEAD_ONES) return look_at_dead(store, deadline_ns, err);
        if (!hosts) return MW_OK;
        if (env->now_ns(env->ctx) >= deadline_ns) {
            return mw_fail(err, MW_BUSY,
                           "a transaction over %s and its database file does not come to its end",
                           store->path);
        }
        pause(store);
    }
}

mw_rc mw_entry_begin_job(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    mw_rc rc = mw_turn_take(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    rc = mw_entry_own(store, deadline_ns, err);
    mw_store_lock(store);
    store->jobs += rc == MW_OK;
    mw_store_unlock(store);
    mw_turn_give(store);
    return rc;
}

bool mw_entry_join_job(mw_store *store)
{
    if (!store->owned) return false;
    store->jobs++;
    return true;
}

void mw_entry_end_job(mw_store *store)
{
    mw_store_lock(store);
    assert(store->jobs > 0);
    store->jobs--;
    mw_store_unlock(store);
    mw_entry_offer(store, false);
}

/* Is everything that was begun here at its end? Requires the turn, and `mutex`. */
static bool is_at_rest(const mw_store *store)
{
    return store->owned && store->jobs == 0 && !store->queue_first && !store->leading &&
           store->visible.position == store->queued.position && !store->undecided &&
           store->ending == 0 && store->stopped.rc == MW_OK && !store->closing;
}

/* What is read stays open once others may remove it. */
static mw_rc keep_files(mw_store *store, mw_err *err)
{
    mw_version *version = mw_store_version(store);
    uint32_t count = version->table_count;
    mw_version_unref(version);
    if (count > KEPT_FILES_MAX) {
        return mw_fail(err, MW_BUSY, "%s has %u table files, too many to be kept open", store->path,
                       count);
    }
    return mw_snapshots_keep(store, err);
}

mw_rc mw_entry_leave(mw_store *store, mw_err *err)
{
    mw_rc rc = keep_files(store, err);
    if (rc == MW_OK && store->owned) {
        rc = mw_commit_sync(store, err);
        if (rc == MW_OK) rc = mw_state_write(store, true, err);
    }
    if (rc != MW_OK) return rc;
    mw_store_lock(store);
    uint64_t next = store->visible.position + 1;
    store->place = store->segment ? mw_log_segment_place(store->segment, next) : (mw_log_place){0};
    store->segment = NULL;
    store->owned = false;
    store->looking = true;
    atomic_store(&store->following, true);
    mw_store_unlock(store);
    unlock(store);
    return MW_OK;
}

static bool is_wanted(mw_store *store)
{
    bool held = false;
    const mw_env *env = store->env;
    int sys = env->file_lock_test(env->ctx, store->lock_file, WAIT_BYTE, 1, &held);
    return sys == 0 && held;
}

void mw_entry_offer(mw_store *store, bool idle)
{
    mw_err ignored = {0};
    mw_store_lock(store);
    bool ours = store->owned && store->lock_file >= 0;
    mw_store_unlock(store);
    if (!ours || !(idle || is_wanted(store)) || !mw_turn_try(store)) return;
    mw_store_lock(store);
    bool rests = is_at_rest(store);
    mw_store_unlock(store);
    /* Where that fails the store is still ours, and closing it will tell. */
    mw_rc rc = rests ? mw_entry_leave(store, &ignored) : MW_OK;
    if (rc != MW_OK && rc != MW_BUSY) mw_store_park(store, &ignored);
    mw_turn_give(store);
}
