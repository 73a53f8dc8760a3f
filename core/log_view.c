/* log_view.c: the log as a list, for whoever wants to look at it (memwal_wal).
**
**     moment: cursor 40, visible 77, queued 79
**     segments   wal-5: 38..60   wal-6: 61..79..      listed: 41 to 79
**
** The moment is one look under `mutex`: the segments of the memtables, the cursor, the visible and
** the queued position. Segments are opened from the newest to the oldest. A flush removes them in
** the other order; so where one is gone all older ones are gone or going, and what was opened holds
** positions without a gap. An open descriptor outlives the removal.
**
** Entries are read by the rules of replay (replay.c): what an older epoch wrote counts below the
** next sealed epoch's copies, and each position follows the one before. Behind `queued` the moment
** ends. A writer puts an entry into the file before it is published, so what is visible can be
** read, or is damaged; what is only queued may not be in the file yet, and then ends the list.
**
** Whether an entry was taken back tells the next one, so a line is given out one entry late.
**
** Memory: one entry's payload, which a transaction's size bounds, and a window for the segment at
** hand. Nothing of the store is held, so a view never keeps memtables or files back. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

typedef struct segment {
    mw_log_id id;
    uint64_t generation;
    uint64_t limit; /* entries from here on are a later epoch's */
    mw_log_reader *reader;
} segment;

struct mw_log_view {
    const mw_env *env; /* own_env */
    mw_env own_env;    /* the store's goes with the store */
    segment *segments; /* oldest first; those before `at` are closed */
    uint32_t segment_count;
    uint32_t at;
    uint64_t last;    /* position read last, at first the cursor        */
    bool flushed;     /* the oldest segments are gone: any may follow   */
    uint64_t visible; /* at the moment                                  */
    uint64_t queued;
    bool waiting;     /* `line` waits for what follows it               */
    mw_log_line line;
};

/* ---- opening --------------------------------------------------------------------------------- */

static uint64_t limit_of(const mw_manifest *manifest, uint64_t epoch)
{
    for (uint32_t i = 0; i < manifest->epoch_count; i++) {
        const mw_manifest_epoch *later = &manifest->epochs[i];
        if (later->epoch > epoch && later->sealed) return later->copied_from;
    }
    return UINT64_MAX;
}

/* Lists the segments of the moment's memtables, oldest first. */
static mw_rc list_segments(mw_log_view *view, const mw_version *version, mw_err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < version->generation_count; i++) {
        count += version->generations[i]->log_count;
    }
    view->segments = mw_alloc_zero(view->env, (count + 1) * sizeof *view->segments);
    if (!view->segments) return mw_fail(err, MW_NOMEM, "no memory for a list of the log");
    for (uint32_t i = version->generation_count; i-- > 0;) {
        const mw_generation *generation = version->generations[i];
        for (uint32_t j = 0; j < generation->log_count; j++) {
            mw_log_id id = generation->logs[j];
            view->segments[view->segment_count++] = (segment){
                .id = id,
                .generation = generation->number,
                .limit = limit_of(version->manifest, id.epoch),
            };
        }
    }
    return MW_OK;
}

/* From the newest to the oldest, until one is gone. */
static mw_rc open_segments(mw_log_view *view, const mw_store *store, mw_err *err)
{
    for (uint32_t i = view->segment_count; i-- > 0;) {
        segment *at = &view->segments[i];
        mw_err cause = {0};
        bool whole;
        mw_rc rc = mw_log_reader_open(view->env, store->dir, &store->id, at->id.epoch,
                                      at->id.number, &at->reader, &whole, &cause);
        if (rc == MW_MISSING) {
            view->at = i + 1;
            view->flushed = true;
            return MW_OK;
        }
        if (rc != MW_OK) return mw_fail_as(err, &cause);
    }
    return MW_OK;
}

mw_rc mw_log_view_open(mw_db *db, mw_log_view **out, mw_err *err)
{
    mw_store *store = (mw_store *)db;
    *out = NULL;
    mw_log_view *view = mw_alloc_zero(store->env, sizeof *view);
    if (!view) return mw_fail(err, MW_NOMEM, "no memory for a list of the log");
    view->own_env = *store->env;
    view->env = &view->own_env;
    mw_store_lock(store);
    mw_version *version = mw_version_ref(store->version);
    view->visible = store->visible.position;
    view->queued = store->queued.position;
    mw_rc rc = list_segments(view, version, err);
    mw_store_unlock(store);
    view->last = version->manifest->cursor;
    if (rc == MW_OK) rc = open_segments(view, store, err);
    mw_version_unref(version);
    view->own_env.spare_files = NULL; /* of a store that may be gone by then */
    if (rc == MW_OK) {
        *out = view;
    } else {
        mw_log_view_close(view);
    }
    return rc;
}

void mw_log_view_close(mw_log_view *view)
{
    if (!view) return;
    const mw_env env = view->own_env; /* outlives the view's memory */
    for (uint32_t i = 0; i < view->segment_count; i++) {
        mw_log_reader_close(view->segments[i].reader);
    }
    mw_free(&env, view->segments);
    mw_free(&env, view);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The rows of a large transaction lie in table files. */
static mw_rc count_adopted(const mw_log_view *view, const mw_log_entry *entry, const char *file,
                           mw_log_line *line, mw_err *err)
{
    mw_adopted *adopted;
    mw_rc rc = mw_adopted_decode(view->env, entry, file, &adopted, err);
    if (rc != MW_OK) return rc;
    for (uint32_t i = 0; i < adopted->runs->count; i++) {
        line->puts += adopted->runs->runs[i]->file.props.rows;
        line->deletes += adopted->runs->runs[i]->file.props.tombstones;
    }
    mw_adopted_free(adopted);
    return MW_OK;
}

static mw_rc count_rows(const mw_log_entry *entry, const char *file, mw_log_line *line, mw_err *err)
{
    mw_log_rows rows;
    mw_rc rc = mw_log_rows_read(entry, file, &rows, err);
    while (rc == MW_OK && rows.op_count > 0) {
        mw_log_op op;
        rc = mw_log_rows_next(&rows, entry, file, &op, err);
        line->puts += !op.tombstone;
        line->deletes += op.tombstone;
    }
    return rc;
}

static mw_rc count_changes(const mw_log_view *view, const mw_log_entry *entry, const char *file,
                           mw_log_line *line, mw_err *err)
{
    mw_log_entry inner = *entry;
    uint8_t id[MW_PLEDGE_ID_BYTES];
    mw_slice host;
    if (entry->kind == MW_LOG_PREPARE) {
        mw_rc rc = mw_log_pledge_read(entry, file, &inner, id, &host, err);
        if (rc != MW_OK) return rc;
    }
    if (inner.kind == MW_LOG_ADOPT) return count_adopted(view, &inner, file, line, err);
    return inner.kind == MW_LOG_COMMIT ? count_rows(&inner, file, line, err) : MW_OK;
}

static const char *state_of(mw_log_kind kind)
{
    if (kind == MW_LOG_ABORT) return "abort";
    return kind == MW_LOG_DECIDE ? "decision" : "published";
}

/* The next entry of the moment. *found is false behind the last one. */
static mw_rc read_entry(mw_log_view *view, mw_log_entry *entry, bool *found, mw_err *err)
{
    *found = false;
    while (view->at < view->segment_count && view->last < view->queued) {
        segment *at = &view->segments[view->at];
        mw_log_found what = MW_LOG_END;
        if (at->reader) {
            mw_rc rc = mw_log_reader_next(at->reader, entry, &what, err);
            if (rc != MW_OK) return rc;
        }
        if (what == MW_LOG_END || entry->position >= at->limit) {
            mw_log_reader_close(at->reader);
            at->reader = NULL;
            view->at++;
        } else if (view->flushed || entry->position == view->last + 1) {
            *found = entry->position <= view->queued;
            return MW_OK;
        } else if (entry->position > view->last) {
            return MW_OK; /* what comes before was not written yet */
        }
    }
    return MW_OK;
}

static mw_rc describe(mw_log_view *view, const mw_log_entry *entry, mw_log_line *line, mw_err *err)
{
    const segment *at = &view->segments[view->at];
    uint64_t end;
    uint64_t chain;
    mw_log_reader_end(at->reader, &end, &chain);
    *line = (mw_log_line){
        .position = entry->position,
        .epoch = entry->epoch,
        .generation = at->generation,
        .bytes = end - entry->offset,
        .state = entry->position > view->visible ? "undecided" : state_of(entry->kind),
    };
    view->last = entry->position;
    view->flushed = false;
    const char *file = mw_log_reader_name(at->reader);
    return count_changes(view, entry, file, line, err);
}

/* Everything that was visible has been read, unless it was flushed before it could be. */
static mw_rc check_end(const mw_log_view *view, mw_err *err)
{
    if (view->segment_count == 0 || view->flushed || view->last >= view->visible) return MW_OK;
    const segment *last = &view->segments[view->segment_count - 1];
    char name[MW_LOG_NAME_BYTES];
    mw_log_name(last->id.epoch, last->id.number, name);
    return mw_fail(err, MW_CORRUPT,
                   "%s: the log can be read up to position %" PRIu64 ", but %" PRIu64
                   " was published",
                   name, view->last, view->visible);
}

mw_rc mw_log_view_next(mw_log_view *view, mw_log_line *line, bool *any, mw_err *err)
{
    for (;;) {
        mw_log_entry entry;
        mw_log_line next;
        bool found;
        mw_rc rc = read_entry(view, &entry, &found, err);
        if (rc == MW_OK && found) rc = describe(view, &entry, &next, err);
        if (rc == MW_OK && !found) rc = check_end(view, err);
        if (rc != MW_OK) return rc;
        bool ready = view->waiting;
        *line = view->line;
        bool abort = found && entry.kind == MW_LOG_ABORT && entry.position <= view->visible;
        if (abort && ready) line->state = "aborted";
        view->waiting = found;
        if (found) view->line = next;
        *any = ready;
        if (ready || !found) return MW_OK;
    }
}
