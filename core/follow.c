/* follow.c: reading beside another process that writes the store.
**
** Who has the lock of the folder writes; all others follow. The page `shared` tells them how far
** the log is published (shared.c). A follower reads it on to that position into memtables of its
** own, and takes a newer manifest when there is one:
**
**     writer     [1 2 3 4 5 6|7]      published: 6         7 is written, but not decided
**     follower   [1 2 3 4]            -> reads 5 and 6, shows 6
**
** Why it stays right
**   - A position is published after its entry is durable, decided and not fenced (commit.c), so what
**     a follower shows is never taken back (I3), and the entries up to it can be read.
**   - The rows of what is being read lie above the visible sequence until all of it is there: one
**     statement sees one moment (I13).
**   - The writer removes segments and table files as if nobody followed. A segment that is gone has
**     been flushed: the newest manifest has its rows. Table files are opened when their manifest is
**     taken, and stay open: an open file outlives its name (I11). What is removed between reading
**     the manifest and opening them is listed by a newer one.
**
** A follower that comes to write takes the lock, if it is free, and goes on as any opener does
** (epoch.c). */
#include "follow.h"

#include "replay.h"
#include "shared.h"
#include "state.h"

enum {
    TRIES = 20, /* of one look: the writer may move on under our hands */
    PAUSE_MS = 2,
};

static void pause(mw_store *store)
{
    mw_store_lock(store);
    mw_store_wait(store, mw_store_deadline(store, PAUSE_MS));
    mw_store_unlock(store);
}

/* ---- showing --------------------------------------------------------------------------------- */

static mw_rc open_files(mw_store *store, const mw_replay *replay, mw_files **files, mw_err *err)
{
    mw_version *current = store->version;
    bool same = current && current->manifest->number == replay->manifest->number;
    if (same && !store->astray) { /* kept already, also when they were ours */
        *files = mw_files_ref(current->files);
        return MW_OK;
    }
    mw_files_source source = mw_store_files_source(store, current ? current->files : NULL);
    source.generations = replay->generations;
    source.generation_count = replay->generation_count;
    source.hold = true;
    return mw_files_open(&source, replay->manifest, files, err);
}

/* Generations whose files are listed are left out, but for the active one. */
static mw_rc build(mw_store *store, const mw_replay *replay, mw_version **version, mw_err *err)
{
    mw_files *files;
    mw_rc rc = open_files(store, replay, &files, err);
    if (rc != MW_OK) return rc;
    rc = mw_version_create(store->env, version, err);
    if (rc == MW_OK) {
        mw_version_set_files(*version, files);
        for (uint32_t i = replay->generation_count; i-- > 0;) {
            mw_generation *generation = replay->generations[i];
            bool active = i + 1 == replay->generation_count;
            bool listed = !active && generation->last_position <= replay->manifest->cursor;
            if (!listed) mw_version_add_generation(*version, generation);
        }
    }
    mw_files_unref(files);
    return rc;
}

/* Requires follow_mutex. */
static mw_rc show(mw_store *store, const mw_replay *replay, mw_err *err)
{
    mw_version *version;
    mw_rc rc = build(store, replay, &version, err);
    if (rc != MW_OK) return rc;
    const mw_manifest_epoch *sealed = mw_manifest_sealed(replay->manifest);
    mw_store_lock(store);
    mw_version *before = store->version;
    store->version = version;
    store->queued = store->visible = replay->end;
    store->durable = replay->end.position;
    store->epoch = sealed ? sealed->epoch : 0;
    store->looking = true;
    store->answered = false;
    mw_buf_free(&store->undecided_host);
    atomic_store(&store->following, true);
    store->env->cond_broadcast(store->env->ctx, store->progress);
    mw_store_unlock(store);
    mw_version_unref(before);
    store->place = replay->place;
    store->astray = false;
    return MW_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* All below a sealed start was published before it. */
static uint64_t published(const mw_manifest *manifest, uint64_t position)
{
    const mw_manifest_epoch *sealed = mw_manifest_sealed(manifest);
    uint64_t sealed_to = sealed ? sealed->start - 1 : 0;
    return mw_max(position, mw_max(sealed_to, manifest->cursor));
}

/* Without a page nobody has written since the last clean end. */
static mw_rc replay_clean(mw_store *store, mw_manifest *manifest, mw_replay *replay, mw_err *err)
{
    bool clean = true;
    mw_rc rc = mw_manifest_epoch_claimed(manifest) > 0 ? mw_state_read(store, &clean, err) : MW_OK;
    if (rc == MW_OK && clean) rc = mw_replay_log(store, manifest, NULL, replay, err);
    if (rc == MW_OK && (!clean || !replay->last_clean || replay->undecided)) {
        rc = mw_fail(err, MW_BUSY, "another process is taking %s over", store->path);
    }
    return rc;
}

/* From the cursor on, into new memtables. */
static mw_rc read_anew(mw_store *store, mw_manifest *manifest, mw_err *err)
{
    mw_replay replay = {0};
    bool there;
    uint64_t position = 0;
    uint64_t number = 0;
    mw_rc rc = mw_shared_open(store, false, &there, err);
    if (rc != MW_OK) return rc;
    if (there && mw_shared_look(store, &position, &number)) {
        rc = mw_replay_up_to(store, manifest, published(manifest, position), &replay, err);
    } else {
        rc = replay_clean(store, manifest, &replay, err);
    }
    if (rc == MW_OK) rc = show(store, &replay, err);
    mw_replay_free(store->env, &replay);
    return rc;
}

/* What is shown now, as a replay that can go on. */
static mw_rc begin_from_version(mw_store *store, mw_manifest *manifest, mw_replay *replay,
                                mw_err *err)
{
    const mw_version *version = store->version; /* nobody else changes it */
    *replay = (mw_replay){
        .manifest = mw_manifest_ref(manifest),
        .end = store->visible,
        .place = store->place,
    };
    mw_buf_init(&replay->tail.bytes, store->env);
    mw_buf_init(&replay->host, store->env);
    replay->generations =
        mw_alloc(store->env, version->generation_count * sizeof *replay->generations);
    if (!replay->generations) return mw_fail(err, MW_NOMEM, "no memory for reading the log on");
    for (uint32_t i = version->generation_count; i-- > 0;) {
        mw_generation *generation = mw_generation_ref(version->generations[i]);
        replay->generations[replay->generation_count++] = generation;
    }
    return MW_OK;
}

static mw_rc read_on(mw_store *store, mw_manifest *manifest, uint64_t position, mw_err *err)
{
    mw_replay replay;
    uint64_t through = published(manifest, position);
    mw_rc rc = begin_from_version(store, manifest, &replay, err);
    if (rc == MW_OK) rc = mw_replay_on(store, &replay, through, err);
    if (rc == MW_OK) rc = show(store, &replay, err);
    mw_replay_free(store->env, &replay);
    return rc;
}

/* ---- catching up ----------------------------------------------------------------------------- */

static mw_rc look_once(mw_store *store, mw_err *err)
{
    uint64_t position = 0;
    uint64_t number = 0;
    mw_manifest *manifest;
    bool known = mw_shared_look(store, &position, &number);
    mw_rc rc = mw_manifest_load_newest(store->env, store->dir, &store->id, &manifest, err);
    if (rc != MW_OK) return rc;
    bool anew =
        !known || !store->version || store->astray || manifest->cursor > store->visible.position;
    rc = anew ? read_anew(store, manifest, err) : read_on(store, manifest, position, err);
    store->astray = store->astray || rc != MW_OK;
    mw_manifest_unref(manifest);
    return rc;
}

/* Does a failure mean no more than that the writer has moved on meanwhile? Damage looks the same at
** first. */
static bool may_pass(mw_rc rc) { return rc == MW_MISSING || rc == MW_CORRUPT || rc == MW_BUSY; }

/* Requires follow_mutex. */
static mw_rc look(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    const mw_env *env = store->env;
    for (int i = 1;; i++) {
        mw_err cause = {0};
        mw_rc rc = look_once(store, &cause);
        if (rc == MW_OK) return rc;
        bool over = i >= TRIES && (rc != MW_BUSY || env->now_ns(env->ctx) >= deadline_ns);
        if (!may_pass(rc) || over) return mw_fail_as(err, &cause);
        pause(store);
    }
}

mw_rc mw_follow_open(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    return look(store, deadline_ns, err);
}

/* Has the writer shown more than we do? */
static bool is_behind(mw_store *store)
{
    uint64_t position = 0;
    uint64_t number = 0;
    mw_store_lock(store);
    bool known = mw_shared_look(store, &position, &number);
    bool behind = atomic_load(&store->following) && known &&
                  (position > store->visible.position || number > store->version->manifest->number);
    mw_store_unlock(store);
    return behind;
}

/* The writer makes the page before its first entry. */
static mw_rc find_page(mw_store *store, mw_err *err)
{
    bool there = true;
    mw_store_lock(store);
    bool look = atomic_load(&store->following) && !store->shared;
    mw_rc rc = look ? mw_shared_open(store, false, &there, err) : MW_OK;
    mw_store_unlock(store);
    return rc;
}

mw_rc mw_follow_to_end(mw_store *store, mw_err *err)
{
    bool newer = false;
    mw_rc rc = find_page(store, err);
    mw_store_lock(store);
    uint64_t number = store->version->manifest->number;
    mw_store_unlock(store);
    /* The folder decides: what a sweep keeps must not depend on a page. */
    if (rc == MW_OK) rc = mw_store_look_above(store, number, &newer, err);
    bool behind = newer || is_behind(store) || store->astray;
    return rc == MW_OK && behind ? look(store, 0, err) : rc;
}

mw_rc mw_follow(mw_store *store, mw_err *err)
{
    const mw_env *env = store->env;
    if (!atomic_load(&store->following)) return MW_OK;
    mw_rc rc = find_page(store, err);
    if (rc != MW_OK || !is_behind(store)) return rc;
    env->mutex_lock(env->ctx, store->follow_mutex);
    if (is_behind(store)) rc = look(store, 0, err);
    env->mutex_unlock(env->ctx, store->follow_mutex);
    return rc;
}
