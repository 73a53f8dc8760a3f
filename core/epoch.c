/* epoch.c: ownership of a store, as a history in the chain of manifests.
**
**     manifest 7: epoch 3 sealed from 1
**     manifest 8: epoch 3 sealed from 1, epoch 4 claimed          <- claim
**     manifest 9: epoch 3 sealed from 1, epoch 4 sealed from 41   <- seal: 3 wrote 1 .. 40
**
** Claim. The next manifest number, created exclusively, names a higher epoch. From now on the older
** writer's fence check fails. Manifests are removed from below, so a number may be free because it
** is long gone: after creating, the claimer looks at the newest one again; if its own number lies
** below the boundary there, it has won nothing and tries again. It deletes nothing.
**
** Replay. Everything that the older epochs have on disk is applied. What lies above the last
** durable-through may live in the page cache only (a process died between write and sync): those
** entries are copied into the new epoch's first segment, which is synced, and from the first copied
** position on the older bytes are never looked at again.
**
** Seal. The manifest after that says where the new epoch starts. A record of the old epoch counts
** only below that start; so an entry that the old writer finished in time is heritage, and one that
** came too late never existed. Both know which: the old writer reads the same manifest.
**
** Why it stays right (I8): the old writer syncs first and looks for a claim afterwards; the claimer
** claims first and reads the log afterwards. So either the claimer sees the entry, or the writer
** sees the claim.
**
** A claim without a seal (its maker died) is void as soon as the next one is made; its epoch number
** is never used again, so its segment counts for nothing. An old writer that would have to wait for
** a seal for too long claims and seals itself: the answer to "did my commit happen" is always
** definite.
**
** At a crash at any point the newest manifest decides: before the seal the old history holds, after
** it the new one; the copies are durable before the seal names them. */
#include "epoch.h"

#include "background.h"
#include "commit.h"
#include "leftovers.h"
#include "shared.h"
#include "state.h"

#include <inttypes.h>
#include <string.h>

enum {
    CLAIM_TRIES = 20,
    SEAL_WAIT_MS =
        1000, /* how long a writer waits for a peer's seal before it overtakes the claim */
    SEAL_POLL_MS = 2,
    EPOCHS_KEPT = 64, /* of the history that no replay needs */
};

static mw_rc load_newest(mw_store *store, mw_manifest **manifest, mw_err *err)
{
    return mw_manifest_load_newest(store->env, store->dir, &store->id, manifest, err);
}

/* ---- claim ----------------------------------------------------------------------------------- */

/* Publishes "claimed" as the successor of `newest`. MW_EXISTS: somebody was quicker, or the number
** had been used before. */
static mw_rc try_claim(mw_store *store, const mw_manifest *newest, mw_manifest **claim, mw_err *err)
{
    mw_manifest *next = NULL;
    mw_manifest *seen = NULL;
    uint64_t epoch = mw_manifest_epoch_claimed(newest) + 1;
    mw_rc rc = mw_manifest_copy(newest, &next, err);
    if (rc != MW_OK) return rc;
    uint32_t last = next->epoch_count;
    if (last > 0 && !next->epochs[last - 1].sealed) next->epoch_count--; /* void from now on */
    next->boundary = next->number;
    rc = mw_manifest_add_epoch(next, epoch, err);
    if (rc == MW_OK) rc = mw_manifest_publish(next, store->dir, err);
    if (rc == MW_OK) rc = load_newest(store, &seen, err);
    if (rc == MW_OK && seen->number != next->number) rc = MW_EXISTS;
    mw_manifest_unref(seen);
    if (rc == MW_OK) {
        *claim = next;
    } else {
        mw_manifest_unref(next);
    }
    return rc;
}

/* One reference to the claim's manifest. */
static mw_rc claim_epoch(mw_store *store, mw_manifest **claim, mw_err *err)
{
    for (int i = 0; i < CLAIM_TRIES; i++) {
        mw_manifest *newest;
        mw_rc rc = load_newest(store, &newest, err);
        if (rc != MW_OK) return rc;
        rc = try_claim(store, newest, claim, err);
        mw_manifest_unref(newest);
        if (rc != MW_EXISTS) return rc;
    }
    return mw_fail(err, MW_BUSY, "other writers keep claiming %s", store->path);
}

/* ---- seal ------------------------------------------------------------------------------------ */

/* The sealed successor of a claim. Epochs whose part of the log lies below the cursor are needed by
** no replay. They are kept for a while all the same, so that a writer that was asleep can read what
** became of its last entries. */
static mw_rc publish_seal(mw_store *store, const mw_manifest *claim, uint64_t start,
                          uint64_t copied_from, mw_manifest **seal, mw_err *err)
{
    mw_manifest *next = NULL;
    mw_rc rc = mw_manifest_copy(claim, &next, err);
    if (rc != MW_OK) return rc;
    mw_manifest_epoch *own = &next->epochs[next->epoch_count - 1];
    *own = (mw_manifest_epoch){own->epoch, true, start, copied_from};
    uint32_t first = 0;
    while (first + EPOCHS_KEPT < next->epoch_count &&
           next->epochs[first + 1].copied_from <= next->cursor + 1) {
        first++;
    }
    next->epoch_count -= first;
    memmove(next->epochs, next->epochs + first, next->epoch_count * sizeof *next->epochs);
    next->boundary = next->number;
    rc = mw_manifest_publish(next, store->dir, err);
    mw_manifest_range there;
    if (rc == MW_OK) {
        rc = mw_store_confirm_number(store, next->number, &there, err);
        if (rc == MW_OK && there.newest != next->number) rc = MW_EXISTS;
    }
    if (rc == MW_OK) {
        *seal = next;
    } else {
        mw_manifest_unref(next);
    }
    return rc;
}

static mw_rc copy_tail(mw_log_segment *segment, const mw_replay *replay, mw_err *err)
{
    size_t offset = 0;
    mw_log_entry entry;
    while (mw_replay_tail_next(&replay->tail, &offset, &entry)) {
        mw_rc rc = mw_log_segment_reserve(segment, mw_log_entry_bytes(entry.payload.size), err);
        if (rc == MW_OK) rc = mw_log_segment_stage(segment, &entry, err);
        if (rc == MW_OK) rc = mw_log_segment_write(segment, err);
        if (rc != MW_OK) return rc;
    }
    return mw_log_segment_sync(segment, err);
}

/* A segment holds entries of one generation. Copies from before the newest one are the end of the
** generation before it (replay.c: what lies in later segments proves earlier ones durable), and a
** freeze came no further than its empty segment: it is undone. */
static void undo_empty_freeze(mw_replay *replay)
{
    mw_generation *newest = replay->generations[replay->generation_count - 1];
    uint64_t copied = replay->tail.first_position;
    if (!copied || copied >= newest->first_position) return;
    assert(newest->first_position > replay->end.position && replay->generation_count > 1);
    mw_generation_unref(newest);
    replay->generation_count--;
}

/* The first segment of the new epoch: it goes on with the newest generation, and holds the
** copies. */
static mw_rc create_first_segment(mw_store *store, const mw_replay *replay, uint64_t epoch,
                                  mw_log_segment **segment, mw_err *err)
{
    mw_generation *active = replay->generations[replay->generation_count - 1];
    uint64_t copied = replay->tail.first_position;
    mw_log_header header = {
        .store = store->id,
        .epoch = epoch,
        .number = 1,
        .generation = active->number,
        .first_position = copied ? copied : replay->end.position + 1,
        .generation_start = active->first_position,
    };
    mw_log_id id = {epoch, header.number};
    mw_rc rc = mw_generation_add_log(active, id, err);
    if (rc == MW_OK) rc = mw_log_segment_create(store->env, store->dir, &header, segment, err);
    if (rc != MW_OK || !copied) return rc;
    rc = copy_tail(*segment, replay, err);
    if (rc != MW_OK) {
        /* Nothing names it, and the next claim has another epoch: on a full disk it must not
        ** stay. */
        store->env->unlink(store->env->ctx, store->dir, mw_log_segment_name(*segment));
        mw_log_segment_close(*segment);
        *segment = NULL;
    }
    return rc;
}

/* ---- taking over ----------------------------------------------------------------------------- */

/* The version that a replay found; its generations are in order, newest first. */
static mw_rc create_version(mw_store *store, const mw_replay *replay, mw_manifest *manifest,
                            mw_version **version, mw_err *err)
{
    const mw_files *from = store->version ? store->version->files : NULL;
    mw_files_source source = mw_store_files_source(store, from);
    source.generations = replay->generations;
    source.generation_count = replay->generation_count;
    mw_files *files;
    mw_rc rc = mw_files_open(&source, manifest, &files, err);
    if (rc != MW_OK) return rc;
    rc = mw_version_create(store->env, version, err);
    if (rc == MW_OK) {
        mw_version_set_files(*version, files);
        for (uint32_t i = 0; i < replay->generation_count; i++) {
            mw_version_add_generation(*version, replay->generations[i]);
        }
    }
    mw_files_unref(files);
    return rc;
}

/* Makes a replay the store's state. The active generation owns the segment from now on. */
static mw_rc adopt(mw_store *store, mw_replay *replay, mw_manifest *manifest, uint64_t epoch,
                   mw_log_segment *segment, mw_err *err)
{
    uint32_t count = replay->generation_count;
    mw_generation **generations = replay->generations; /* oldest first */
    for (uint32_t i = 0; i < count / 2; i++) {
        mw_generation *swapped = generations[i];
        generations[i] = generations[count - 1 - i];
        generations[count - 1 - i] = swapped;
    }
    mw_version *version;
    mw_rc rc = create_version(store, replay, manifest, &version, err);
    if (rc != MW_OK) return rc;
    generations[0]->segment = segment;
    mw_store_lock(store);
    mw_version *before = store->version;
    store->version = version;
    store->queued = store->visible = replay->end;
    store->durable = replay->end.position;
    store->epoch = epoch;
    store->looking = false;
    mw_store_unlock(store);
    mw_version_unref(before);
    store->segment = segment;
    return MW_OK;
}

/* Merges are the owner's: a background thread that is there may have been waiting for this. */
static void become_owner(mw_store *store)
{
    mw_store_lock(store);
    store->owned = true;
    store->answered = false;
    mw_buf_free(&store->undecided_host); /* it is settled */
    bool background = store->options.background;
    store->env->cond_signal(store->env->ctx, store->work);
    mw_store_unlock(store);
    if (background && store->lock_file >= 0) mw_background_start(store);
}

/* From the first entry on others have to look at the page, and the end is an unclean one. */
static mw_rc begin_to_write(mw_store *store, mw_err *err)
{
    bool there;
    if (store->options.shared) return mw_state_write(store, false, err);
    mw_store_lock(store);
    mw_rc rc = mw_shared_open(store, true, &there, err);
    if (rc == MW_OK) {
        mw_shared_show(store);
        mw_shared_show_prepare(store); /* a dead writer's is settled */
    }
    mw_store_unlock(store);
    return rc == MW_OK ? mw_state_write(store, false, err) : rc;
}

static mw_rc undecided(const mw_store *store, mw_err *err)
{
    return mw_fail(
        err, MW_UNDECIDED,
        "the last transaction of %s was under way together with its database file when its process "
        "ended, and the file has not been asked yet whether it happened: SELECT from the table, then "
        "try again",
        store->path);
}

static mw_rc replay_and_seal(mw_store *store, mw_manifest *claim, const mw_judge *judge,
                             mw_err *err)
{
    mw_replay replay = {0};
    mw_log_segment *segment = NULL;
    mw_manifest *seal = NULL;
    uint64_t epoch = mw_manifest_epoch_claimed(claim);
    mw_rc rc = mw_replay_log(store, claim, judge, &replay, err);
    if (rc == MW_OK && replay.undecided) rc = undecided(store, err);
    if (rc == MW_OK) {
        undo_empty_freeze(&replay);
        rc = create_first_segment(store, &replay, epoch, &segment, err);
    }
    if (rc == MW_OK) {
        uint64_t start = replay.end.position + 1;
        uint64_t copied = replay.tail.first_position;
        rc = publish_seal(store, claim, start, copied ? copied : start, &seal, err);
    }
    if (rc == MW_OK) rc = adopt(store, &replay, seal, epoch, segment, err);
    if (rc != MW_OK) {
        mw_log_segment_close(segment);
    } else {
        store->segment_number = 1;
        rc = begin_to_write(store, err);
        if (rc == MW_OK) become_owner(store);
    }
    mw_manifest_unref(seal);
    mw_replay_free(store->env, &replay);
    return rc;
}

static mw_rc take_over(mw_store *store, const mw_judge *judge, mw_err *err)
{
    for (int i = 0; i < CLAIM_TRIES; i++) {
        mw_manifest *claim;
        mw_rc rc = claim_epoch(store, &claim, err);
        if (rc != MW_OK) return rc;
        rc = replay_and_seal(store, claim, judge, err);
        mw_manifest_unref(claim);
        if (rc == MW_OK) mw_leftovers_sweep(store, false);
        if (rc != MW_EXISTS) return rc; /* a peer's claim made ours void: claim again */
    }
    return mw_fail(err, MW_BUSY, "other writers keep claiming %s", store->path);
}

mw_rc mw_epoch_takeover(mw_store *store, const mw_judge *judge, mw_err *err)
{
    const mw_env *env = store->env;
    env->mutex_lock(env->ctx, store->manifest_mutex);
    mw_rc rc = take_over(store, judge, err);
    env->mutex_unlock(env->ctx, store->manifest_mutex);
    return rc;
}

/* A later sync that works proves nothing about one that failed before; so whoever writes copies the
** entries (copy_tail), and this is only as good as reading can be. */
static mw_rc sync_logs(mw_store *store, const mw_replay *replay, mw_err *err)
{
    const mw_env *env = store->env;
    for (uint32_t i = 0; i < replay->generation_count; i++) {
        const mw_generation *generation = replay->generations[i];
        for (uint32_t j = 0; j < generation->log_count; j++) {
            char name[MW_LOG_NAME_BYTES];
            int file;
            mw_log_name(generation->logs[j].epoch, generation->logs[j].number, name);
            int sys = mw_env_open(env, store->dir, name, MW_OPEN_READ, &file);
            if (sys) return mw_fail_sys(err, sys, "opening", name);
            sys = env->file_sync(env->ctx, file);
            env->file_close(env->ctx, file);
            if (sys) return mw_fail_sys(err, sys, "sync", name);
        }
    }
    return MW_OK;
}

/* Stands at the end that a replay has found. *moved: there is more by now. */
static mw_rc watch_end(mw_store *store, const mw_replay *replay, bool *moved, mw_err *err)
{
    bool whole;
    mw_log_found found = MW_LOG_ENTRY;
    mw_log_entry entry;
    const mw_log_header *last = &replay->place.header;
    mw_log_reader_close(store->watched);
    store->watched = NULL;
    if (last->number == 0) return MW_OK;
    mw_rc rc = mw_log_reader_open(store->env, store->dir, &store->id, last->epoch, last->number,
                                  &store->watched, &whole, err);
    if (rc != MW_OK || !whole) return rc;
    while (rc == MW_OK && found == MW_LOG_ENTRY) {
        rc = mw_log_reader_next(store->watched, &entry, &found, err);
    }
    uint64_t offset;
    uint64_t chain;
    mw_log_reader_end(store->watched, &offset, &chain);
    *moved = offset != replay->place.offset;
    return rc;
}

static mw_rc look(mw_store *store, const mw_judge *judge, bool *moved, mw_err *err)
{
    mw_manifest *manifest;
    mw_replay replay = {0};
    mw_rc rc = load_newest(store, &manifest, err);
    if (rc != MW_OK) return rc;
    rc = mw_replay_log(store, manifest, judge, &replay, err);
    bool answered = judge && replay.host.size > 0;
    if (answered) replay.end.position--; /* the log has no answer */
    bool durable = !replay.tail.first_position || store->closed_at >= replay.end.position;
    if (rc == MW_OK && !durable) rc = sync_logs(store, &replay, err);
    if (rc == MW_OK && store->options.read_only) rc = watch_end(store, &replay, moved, err);
    const mw_manifest_epoch *sealed = mw_manifest_sealed(manifest);
    uint64_t epoch = sealed ? sealed->epoch : 0;
    if (rc == MW_OK) rc = adopt(store, &replay, manifest, epoch, NULL, err);
    if (rc == MW_OK) {
        mw_buf_free(&store->undecided_host);
        mw_store_lock(store);
        store->looking = true;
        store->answered = answered;
        store->undecided_host = replay.host;
        mw_store_unlock(store);
        mw_buf_init(&replay.host, store->env);
    }
    mw_replay_free(store->env, &replay);
    mw_manifest_unref(manifest);
    return rc;
}

/* A writer may be faster than we are: what he has written meanwhile is for the next look. */
mw_rc mw_epoch_look(mw_store *store, const mw_judge *judge, mw_err *err)
{
    bool moved = false;
    mw_rc rc = look(store, judge, &moved, err);
    if (rc == MW_OK) store->behind = moved;
    return rc;
}

/* Is there a manifest that we do not know, or a next segment? */
static mw_rc something_new(mw_store *store, bool *there, mw_err *err)
{
    mw_store_lock(store);
    uint64_t number = store->version->manifest->number;
    mw_store_unlock(store);
    mw_rc rc = mw_store_look_above(store, number, there, err);
    uint64_t newest = number;
    if (rc == MW_OK && *there) rc = mw_manifest_newest(store->env, store->dir, &newest, err);
    *there = newest != number;
    if (rc != MW_OK || *there || !store->watched) return rc;
    char name[MW_LOG_NAME_BYTES];
    const mw_log_header *header = mw_log_reader_header(store->watched);
    mw_log_name(header->epoch, header->number + 1, name);
    int sys = store->env->exists(store->env->ctx, store->dir, name, there);
    return sys ? mw_fail_sys(err, sys, "looking for", name) : MW_OK;
}

mw_rc mw_epoch_moved(mw_store *store, bool *moved, mw_err *err)
{
    mw_log_entry entry;
    mw_log_found found = MW_LOG_END;
    *moved = store->behind;
    if (*moved) return MW_OK;
    mw_rc rc = something_new(store, moved, err);
    if (rc != MW_OK || *moved || !store->watched) return rc;
    rc = mw_log_reader_next(store->watched, &entry, &found, err);
    *moved = found == MW_LOG_ENTRY;
    return rc;
}

mw_rc mw_epoch_resume(mw_store *store, const mw_replay *replayed, mw_err *err)
{
    const mw_manifest_epoch *sealed = mw_manifest_sealed(replayed->manifest);
    mw_log_segment *segment = NULL;
    if (sealed) {
        mw_rc rc =
            mw_log_segment_resume(store->env, store->dir, &replayed->place.header,
                                  replayed->place.offset, replayed->place.chain, &segment, err);
        if (rc != MW_OK) return rc;
    }
    mw_replay replay = *replayed;
    uint64_t epoch = sealed ? sealed->epoch : 0;
    mw_rc rc = adopt(store, &replay, replayed->manifest, epoch, segment, err);
    if (rc != MW_OK) {
        mw_log_segment_close(segment);
        return rc;
    }
    store->segment_number = replayed->place.header.number;
    /* Segments that a takeover found empty, or copied from, may have outlived the flush of their
    ** generation. In a shared store a peer may be at work. */
    if (!store->options.shared) mw_leftovers_sweep(store, true);
    return MW_OK;
}

/* Of one that was loaded, for the fence. Should a peer have moved on, it will find out. */
static mw_rc know_own_manifest(mw_store *store, mw_err *err)
{
    mw_manifest_range there;
    mw_store_lock(store);
    uint64_t number = store->version->manifest->number;
    mw_store_unlock(store);
    return mw_store_confirm_number(store, number, &there, err);
}

mw_rc mw_epoch_settled(mw_store *store, mw_err *err)
{
    mw_store_lock(store);
    bool settled = !store->looking || store->undecided_host.size == 0;
    mw_store_unlock(store);
    return settled ? MW_OK : undecided(store, err);
}

mw_rc mw_epoch_own(mw_store *store, mw_err *err)
{
    if (store->owned) return MW_OK;
    if (store->options.read_only) {
        return mw_fail(err, MW_MISUSE, "%s was opened read-only", store->path);
    }
    mw_rc rc = mw_epoch_settled(store, err);
    if (rc != MW_OK) return rc;
    if (!store->segment || store->options.shared) return mw_epoch_takeover(store, NULL, err);
    rc = know_own_manifest(store, err);
    if (rc == MW_OK) rc = begin_to_write(store, err);
    if (rc != MW_OK) return rc;
    become_owner(store);
    return MW_OK;
}

/* ---- fence ----------------------------------------------------------------------------------- */

/* Claims above a claim that its maker does not seal, and seals it: our synced entries are in. */
static mw_rc overtake(mw_store *store, const mw_manifest *newest, uint64_t last_position,
                      mw_err *err)
{
    mw_manifest *claim = NULL;
    mw_manifest *seal = NULL;
    mw_log_segment *segment = NULL;
    mw_rc rc = try_claim(store, newest, &claim, err);
    if (rc != MW_OK) return rc;
    mw_version *version = mw_store_version(store);
    mw_log_header header = {
        .store = store->id,
        .epoch = mw_manifest_epoch_claimed(claim),
        .number = 1,
        .generation = version->generations[0]->number + 1,
        .first_position = last_position + 1,
        .generation_start = last_position + 1,
    };
    mw_version_unref(version);
    rc = mw_log_segment_create(store->env, store->dir, &header, &segment, err);
    if (rc == MW_OK) {
        rc = publish_seal(store, claim, last_position + 1, last_position + 1, &seal, err);
    }
    mw_log_segment_close(segment);
    mw_manifest_unref(seal);
    mw_manifest_unref(claim);
    return rc;
}

/* Waits a moment for the peer's seal. Requires that `mutex` is not held. */
static void pause_for_seal(mw_store *store)
{
    mw_store_lock(store);
    mw_store_wait(store, mw_store_deadline(store, SEAL_POLL_MS));
    mw_store_unlock(store);
}

/* What the newest manifest says of our entries. *definite is false while the only higher claim is
** unsealed. */
static mw_rc judge(mw_store *store, const mw_manifest *newest, uint64_t *fence, bool *definite,
                   mw_err *err)
{
    uint64_t claimed = mw_manifest_epoch_claimed(newest);
    *definite = true;
    if (claimed <= store->epoch) return MW_OK;
    if (newest->epochs[0].epoch > store->epoch) {
        return mw_fail(err, MW_PERSISTENCE,
                       "so many peers have owned %s since epoch %" PRIu64
                       " that nobody knows any more what became of its last entries",
                       store->path, store->epoch);
    }
    for (uint32_t i = 0; i < newest->epoch_count; i++) {
        const mw_manifest_epoch *epoch = &newest->epochs[i];
        if (epoch->epoch <= store->epoch || !epoch->sealed) continue;
        *fence = epoch->start;
        return mw_fail(err, MW_FENCED,
                       "writer fenced: a peer claimed epoch %" PRIu64 ", ours was %" PRIu64,
                       claimed, store->epoch);
    }
    *definite = false;
    return MW_OK;
}

mw_rc mw_epoch_fence(mw_store *store, uint64_t last_position, uint64_t *fence, mw_err *err)
{
    *fence = UINT64_MAX;
    mw_store_lock(store);
    uint64_t number = store->version->manifest->number;
    mw_store_unlock(store);
    uint64_t deadline = mw_store_deadline(store, SEAL_WAIT_MS);
    bool perhaps;
    mw_rc rc = mw_store_look_above(store, number, &perhaps, err);
    while (rc == MW_OK && perhaps) {
        mw_manifest *newest;
        bool definite;
        rc = load_newest(store, &newest, err);
        if (rc != MW_OK) return rc;
        rc = judge(store, newest, fence, &definite, err);
        if (rc == MW_OK && !definite) {
            bool late = store->env->now_ns(store->env->ctx) >= deadline;
            if (late) rc = overtake(store, newest, last_position, err);
            if (rc == MW_EXISTS) rc = MW_OK; /* somebody else moved: look again */
            if (!late) pause_for_seal(store);
        }
        mw_manifest_unref(newest);
        if (definite) break;
    }
    return rc;
}
