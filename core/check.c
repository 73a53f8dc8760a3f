/* check.c: memwal_check: reads every byte that is listed and recounts.
**
** Manifest: loaded again from disk, which proves its checksum and all its rules. Table files: every
** page, the order of keys, the counts, the filter's answer for each id. Log: every record of every
** live segment, positions without a hole from the cursor to the end. Count: a full scan against the
** maintained one. The state file: its checksum, now and when the store was opened.
**
** The log is read under the turn, so that its end stands still; the rest goes on beside writers. */
#include "check.h"

#include "commit.h"
#include "state.h"
#include "snapshot.h"

#include <inttypes.h>
#include <stdio.h>

enum { TURN_WAIT_MS = 10000 };

typedef struct checker {
    mw_store *store;
    mw_check_line each;
    void *arg;
    uint32_t faults;
} checker;

static void fault(checker *self, const char *line)
{
    self->faults++;
    self->each(self->arg, line);
}

/* Damage is a fault that was found; anything else ends the check. */
static mw_rc note(checker *self, mw_rc rc, const mw_err *cause, mw_err *err)
{
    bool damage = rc == MW_CORRUPT || rc == MW_MISSING || rc == MW_MISMATCH;
    if (rc == MW_OK) return MW_OK;
    if (!damage) return mw_fail(err, rc, "%s", cause->text);
    fault(self, cause->text);
    return MW_OK;
}

static mw_rc check_manifest(checker *self, const mw_version *version, mw_err *err)
{
    mw_err cause = {0};
    mw_manifest *again = NULL;
    mw_store *store = self->store;
    mw_rc rc = mw_manifest_load(store->env, store->dir, version->manifest->number, &store->id,
                                &again, &cause);
    mw_manifest_unref(again);
    return note(self, rc, &cause, err);
}

static mw_rc check_state(checker *self, mw_err *err)
{
    mw_err cause = {0};
    return note(self, mw_state_check(self->store, &cause), &cause, err);
}

typedef mw_rc (*check_table)(checker *self, mw_table *table, mw_err *err);

/* Each table file that is listed, or adopted by what the log holds. */
static mw_rc each_table(checker *self, const mw_version *version, check_table check, mw_err *err)
{
    mw_rc rc = MW_OK;
    for (uint32_t i = 0; rc == MW_OK && i < version->table_count; i++) {
        rc = check(self, version->tables[i], err);
    }
    for (uint32_t i = 0; i < version->generation_count; i++) {
        const mw_runs *runs = mw_generation_runs(version->generations[i], UINT64_MAX);
        for (uint32_t j = 0; rc == MW_OK && j < mw_runs_count(runs); j++) {
            rc = check(self, runs->runs[j]->table, err);
        }
    }
    return rc;
}

/* An open table file is read by its descriptor: whether the next process will find it is another
** question. Requires manifest_mutex. */
static mw_rc check_name(checker *self, mw_table *table, mw_err *err)
{
    const mw_store *store = self->store;
    const char *name = mw_table_file_name(table);
    mw_err cause = {0};
    bool there = false;
    int sys = store->env->exists(store->env->ctx, store->dir, name, &there);
    if (sys) return mw_fail_sys(err, sys, "looking for", name);
    if (!there) mw_fail_disk(&cause, name, 0, "the file is missing");
    if (!there) fault(self, cause.text);
    return MW_OK;
}

static mw_rc verify_table(checker *self, mw_table *table, mw_err *err)
{
    mw_err cause = {0};
    return note(self, mw_table_verify(table, &cause), &cause, err);
}

/* What an epoch wrote counts below the first position that its successor holds. */
static uint64_t end_of_epoch(const mw_manifest *manifest, uint64_t epoch)
{
    for (uint32_t i = 0; i < manifest->epoch_count; i++) {
        const mw_manifest_epoch *later = &manifest->epochs[i];
        if (later->sealed && later->epoch > epoch) return later->copied_from;
    }
    return UINT64_MAX;
}

/* Reads one segment up to limit (exclusive); *position moves to the last entry that counts. */
static mw_rc check_segment(mw_store *store, mw_log_id id, uint64_t limit, uint64_t *position,
                           mw_err *err)
{
    mw_log_reader *reader;
    bool whole;
    mw_rc rc = mw_log_reader_open(store->env, store->dir, &store->id, id.epoch, id.number, &reader,
                                  &whole, err);
    if (rc == MW_OK && !whole) {
        char name[MW_LOG_NAME_BYTES];
        mw_log_name(id.epoch, id.number, name);
        rc = mw_fail_disk(err, name, 0, "the header of a live log segment fails its checks");
    }
    while (rc == MW_OK) {
        mw_log_entry entry;
        mw_log_found found;
        rc = mw_log_reader_next(reader, &entry, &found, err);
        if (rc != MW_OK || found == MW_LOG_END || entry.position >= limit) break;
        if (entry.position == *position + 1) ++*position;
    }
    mw_log_reader_close(reader);
    return rc;
}

/* Requires the turn and that everything queued is decided. */
static mw_rc check_log(checker *self, const mw_version *version, uint64_t end, mw_err *err)
{
    mw_rc rc = MW_OK;
    uint64_t position = version->manifest->cursor;
    for (uint32_t i = version->generation_count; rc == MW_OK && i-- > 0;) {
        const mw_generation *generation = version->generations[i];
        for (uint32_t j = 0; rc == MW_OK && j < generation->log_count; j++) {
            mw_err cause = {0};
            mw_log_id id = generation->logs[j];
            uint64_t limit = end_of_epoch(version->manifest, id.epoch);
            rc = check_segment(self->store, id, limit, &position, &cause);
            rc = note(self, rc, &cause, err);
        }
    }
    if (rc == MW_OK && position != end) {
        char line[160];
        snprintf(line, sizeof line,
                 "the log ends at position %" PRIu64 ", expected %" PRIu64 ": records are damaged",
                 position, end);
        fault(self, line);
    }
    return rc;
}

static mw_rc recount(checker *self, mw_snapshot *snapshot, mw_err *err)
{
    mw_cursor *cursor;
    mw_err cause = {0};
    int64_t count = 0;
    mw_rc rc = mw_cursor_open(snapshot, &cursor, err);
    if (rc != MW_OK) return rc;
    for (rc = mw_cursor_first(cursor, &cause); rc == MW_OK && mw_cursor_valid(cursor);
         rc = mw_cursor_next(cursor, &cause)) {
        count++;
    }
    mw_cursor_close(cursor);
    if (rc != MW_OK) return note(self, rc, &cause, err);
    if (count != mw_snapshot_count(snapshot)) {
        char line[160];
        snprintf(line, sizeof line, "the count says %" PRId64 " live ids, a scan finds %" PRId64,
                 mw_snapshot_count(snapshot), count);
        fault(self, line);
    }
    return MW_OK;
}

/* What needs the log to stand still. */
static mw_rc check_standing(checker *self, mw_err *err)
{
    mw_store *store = self->store;
    mw_store_lock(store);
    uint64_t end = store->queued.position;
    mw_store_unlock(store);
    mw_rc rc = mw_commit_settle(store, end, mw_store_deadline(store, TURN_WAIT_MS), err);
    if (rc != MW_OK) return rc;
    /* A flush may drop segments and replace the manifest meanwhile: keep it out. */
    store->env->mutex_lock(store->env->ctx, store->manifest_mutex);
    mw_version *version = mw_store_version(store);
    rc = check_manifest(self, version, err);
    if (rc == MW_OK) rc = check_state(self, err);
    if (rc == MW_OK) rc = each_table(self, version, check_name, err);
    if (rc == MW_OK) rc = check_log(self, version, end, err);
    mw_version_unref(version);
    store->env->mutex_unlock(store->env->ctx, store->manifest_mutex);
    return rc;
}

mw_rc mw_check_run(mw_store *store, mw_check_line each, void *arg, uint32_t *faults, mw_err *err)
{
    checker self = {store, each, arg, 0};
    mw_snapshot *snapshot = NULL;
    mw_rc rc = mw_turn_take(store, mw_store_deadline(store, TURN_WAIT_MS), err);
    if (rc != MW_OK) return rc;
    rc = check_standing(&self, err);
    mw_turn_give(store);
    if (rc == MW_OK) rc = mw_snapshot_take((mw_db *)store, NULL, &snapshot, err);
    if (rc == MW_OK) rc = each_table(&self, snapshot->version, verify_table, err);
    if (rc == MW_OK) rc = recount(&self, snapshot, err);
    mw_snapshot_release(snapshot);
    *faults = self.faults;
    return rc;
}
