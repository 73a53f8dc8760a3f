/* replay.c: from what lies in the folder to memtables and a point.
**
** The manifest says up to which position everything lies in table files (the cursor), and which
** epochs wrote the log behind it:
**
**     epoch 3: positions 1 ..        segments wal-3-1, wal-3-2
**     epoch 5: start 41, copies from 38    wal-5-1 holds 38 39 40 (copied) 41 42 ...
**
** Replay reads the segments of each sealed epoch in order. What an older epoch wrote counts below
** the `copied_from` of the next sealed one; from there on its own bytes are not even looked at.
** Claims that were never sealed, and their segments, do not exist for replay.
**
** An entry is applied at once and taken out again when the abort of its position follows. The files
** that an adopt entry names are looked at when something else follows, or nothing: those of an
** aborted one may be gone.
**
** A prepare is followed by its decision or its abort. Where the log ends with it the host database
** knows: the judge who looks there gives the answer that the log lacks, and the answer is treated
** like an entry that had been found.
**
** Damage or torn tail: log.c has the rule. In addition a record in a later segment of the same
** epoch, or a sealed successor, proves that everything before it was durable; so a position that is
** missing there is damage as well. A segment whose header is whole but which has no record was made
** by a freeze whose predecessors never became durable: it is void when its first position is not
** the next one.
**
** Nothing is written here, so a crash in the middle of a replay changes nothing. */
#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tail -------------------------------------------------------------------------------- */

static void keep_tail(mw_replay_tail *tail, const mw_log_entry *entry, uint64_t durable_through)
{
    if (durable_through >= entry->position - 1) {
        mw_buf_clear(&tail->bytes); /* all earlier ones are known to be durable */
        tail->first_position = 0;
    }
    if (entry->position <= durable_through) return;
    if (tail->first_position == 0) tail->first_position = entry->position;
    mw_buf_u64(&tail->bytes, entry->position);
    mw_buf_u64(&tail->bytes, entry->epoch);
    mw_buf_u8(&tail->bytes, (uint8_t)entry->kind);
    mw_buf_bytes(&tail->bytes, entry->payload);
}

bool mw_replay_tail_next(const mw_replay_tail *tail, size_t *offset, mw_log_entry *entry)
{
    mw_slice all = mw_buf_slice(&tail->bytes);
    if (*offset >= all.size) return false;
    mw_scan scan = mw_scan_of(mw_slice_of(all.data + *offset, all.size - *offset));
    *entry = (mw_log_entry){0};
    entry->position = mw_scan_u64(&scan);
    entry->epoch = mw_scan_u64(&scan);
    entry->kind = (mw_log_kind)mw_scan_u8(&scan);
    entry->payload = mw_scan_bytes(&scan);
    *offset = all.size - mw_scan_left(&scan);
    return !scan.failed;
}

/* ---- applying entries ------------------------------------------------------------------------ */

/* What a replay works with besides its result. */
typedef struct replayer {
    mw_store *store;
    const mw_env *env;
    mw_replay *out;
    mw_err *err;
    uint64_t durable;          /* known durable by the epochs' seals */
    mw_log_id entered;         /* the segment whose entries are applied                */
    mw_log_id torn;            /* the newest segment with half a header, epoch 0: none */
    mw_adopted *pending;       /* of the last entry, if it adopts files ... */
    mw_generation *pending_in; /* ... into that one (borrowed)             */
    mw_node **nodes;           /* versions of the last entry, for its abort */
    size_t node_count;
    size_t node_capacity;
    mw_point before_last;                  /* the point before the last entry */
    bool prepared;                         /* the last entry is a prepare ... */
    uint8_t pledge_id[MW_PLEDGE_ID_BYTES]; /* ... of this transaction ...   */
    mw_buf host;                           /* ... of that database          */
    uint64_t beyond; /* from here on nothing is looked at       */
} replayer;

static mw_generation *newest(const replayer *self)
{
    uint32_t count = self->out->generation_count;
    return count ? self->out->generations[count - 1] : NULL;
}

static mw_rc begin_generation(replayer *self, uint64_t number, uint64_t first_position)
{
    mw_replay *out = self->out;
    mw_generation *last = newest(self);
    if (last) {
        last->last_position = out->end.position;
        last->sequence_last = out->end.sequence;
        last->count_last = out->end.count;
        last->pledged_last = out->end.pledged;
    }
    if (out->generation_count == MW_GENERATIONS_MAX) {
        return mw_fail(self->err, MW_CORRUPT, "%s: the log holds more than %d generations",
                       self->store->path, MW_GENERATIONS_MAX);
    }
    size_t bytes = (out->generation_count + 1) * sizeof(mw_generation *);
    mw_generation **grown = mw_resize(self->env, out->generations, bytes);
    if (!grown) return mw_fail(self->err, MW_NOMEM, "no memory for replaying the log");
    out->generations = grown;
    mw_rc rc = mw_generation_create(self->env, number, first_position,
                                    &grown[out->generation_count], self->err);
    if (rc == MW_OK) out->generation_count++;
    return rc;
}

/* A segment's entries are about to be applied: they belong to its generation. */
static mw_rc enter_segment(replayer *self, const mw_log_header *header, const char *name)
{
    mw_generation *last = newest(self);
    mw_log_id id = {header->epoch, header->number};
    self->entered = id;
    if (!last || header->generation > last->number) {
        uint64_t next = self->out->end.position + 1;
        MW_CHECK_DISK(header->generation_start == next, self->err, name, 0,
                      "expected generation %" PRIu64 " to start at position %" PRIu64
                      ", found %" PRIu64,
                      header->generation, next, header->generation_start);
        mw_rc rc = begin_generation(self, header->generation, next);
        if (rc != MW_OK) return rc;
    }
    MW_CHECK_DISK(newest(self)->number == header->generation, self->err, name, 0,
                  "expected generation %" PRIu64 " or later, found %" PRIu64, newest(self)->number,
                  header->generation);
    MW_CHECK_DISK(newest(self)->first_position == header->generation_start, self->err, name, 0,
                  "expected the start of generation %" PRIu64 " at position %" PRIu64
                  ", found %" PRIu64,
                  header->generation, newest(self)->first_position, header->generation_start);
    mw_store_lock(self->store); /* others may be looking at the list */
    mw_rc rc = mw_generation_add_log(newest(self), id, self->err);
    mw_store_unlock(self->store);
    return rc;
}

static mw_rc remember_node(replayer *self, mw_node *node)
{
    if (self->node_count == self->node_capacity) {
        size_t capacity = self->node_capacity ? 2 * self->node_capacity : 64;
        mw_node **grown = mw_resize(self->env, self->nodes, capacity * sizeof(mw_node *));
        if (!grown) return mw_fail(self->err, MW_NOMEM, "no memory for replaying the log");
        self->nodes = grown;
        self->node_capacity = capacity;
    }
    self->nodes[self->node_count++] = node;
    return MW_OK;
}

/* The entry's sequences were new ones, up to the given one. */
static mw_rc move_end(replayer *self, uint64_t sequence, int64_t delta, const mw_log_entry *entry,
                      const char *name)
{
    mw_point *end = &self->out->end;
    MW_CHECK_DISK(delta <= INT64_MAX - end->count && end->count + delta >= 0, self->err, name,
                  entry->offset,
                  "position %" PRIu64 " changes the count of %" PRId64 " live ids by %" PRId64,
                  entry->position, end->count, delta);
    end->sequence = sequence;
    end->count += delta;
    return MW_OK;
}

static mw_rc apply_commit(replayer *self, const mw_log_entry *entry, const char *name)
{
    mw_log_rows rows;
    mw_rc rc = mw_log_rows_read(entry, name, &rows, self->err);
    if (rc != MW_OK) return rc;
    mw_point *end = &self->out->end;
    MW_CHECK_DISK(rows.sequence_first > end->sequence, self->err, name, entry->offset,
                  "expected sequences above %" PRIu64 ", found %" PRIu64, end->sequence,
                  rows.sequence_first);
    self->before_last = *end;
    self->node_count = 0;
    uint64_t sequence = rows.sequence_first;
    uint32_t columns = self->out->manifest->schema.column_count;
    while (rows.op_count > 0) {
        mw_log_op op;
        mw_node *node;
        rc = mw_log_rows_next(&rows, entry, name, &op, self->err);
        if (rc != MW_OK) return rc;
        MW_CHECK_DISK(op.tombstone || mw_row_whole(op.row, columns), self->err, name, entry->offset,
                      "expected a row of %" PRIu32 " columns, found one of %zu bytes that is not",
                      columns, op.row.size);
        rc = mw_memtable_add(newest(self)->memtable, op.key, sequence++, op.tombstone, op.row,
                             &node, self->err);
        if (rc == MW_OK) rc = remember_node(self, node);
        if (rc != MW_OK) return rc;
    }
    return move_end(self, sequence - 1, rows.count_delta, entry, name);
}

/* The first entry of a generation, with nothing but the table files of a transaction. */
static mw_rc apply_adopt(replayer *self, const mw_log_entry *entry, const char *name)
{
    mw_point *end = &self->out->end;
    mw_generation *generation = newest(self);
    MW_CHECK_DISK(generation->first_position == entry->position, self->err, name, entry->offset,
                  "expected position %" PRIu64 ", which adopts table files, to be the first of "
                  "generation %" PRIu64 ", found %" PRIu64,
                  entry->position, generation->number, generation->first_position);
    mw_adopted *adopted;
    mw_rc rc = mw_adopted_decode(self->env, entry, name, &adopted, self->err);
    if (rc != MW_OK) return rc;
    self->pending = adopted;
    self->pending_in = generation;
    MW_CHECK_DISK(adopted->sequence_first > end->sequence, self->err, name, entry->offset,
                  "expected sequences above %" PRIu64 ", found %" PRIu64, end->sequence,
                  adopted->sequence_first);
    self->before_last = *end;
    self->node_count = 0;
    return move_end(self, adopted->sequence_last, adopted->delta, entry, name);
}

/* The last entry was not aborted: opens the files that it adopts. They were durable before it was
** written, so one that is missing is damage. */
static mw_rc open_pending(replayer *self)
{
    mw_adopted *adopted = self->pending;
    if (!adopted) return MW_OK;
    for (uint32_t i = 0; i < adopted->runs->count; i++) {
        mw_run *run = adopted->runs->runs[i];
        mw_err cause = {0};
        mw_table_options options =
            mw_version_table_options(self->out->manifest, run->file.epoch, run->file.number);
        options.schema = self->store->schema;
        mw_rc rc = mw_run_open(run, self->store->tables, self->store->dir, &options, &cause);
        run->above = run->file.props.sequence_min - 1;
        run->through = run->file.props.sequence_max;
        if (rc == MW_MISSING) {
            char name[MW_TABLE_NAME_BYTES];
            mw_table_name(run->file.epoch, run->file.number, name);
            return mw_fail_disk(self->err, name, 0,
                                "the file is missing; position %" PRIu64
                                " of the log says that it holds rows",
                                self->pending_in->first_position);
        }
        if (rc != MW_OK) return mw_fail(self->err, rc, "%s", cause.text);
    }
    mw_generation_adopt(self->pending_in, adopted);
    self->pending = NULL;
    return MW_OK;
}

static mw_rc apply_abort(replayer *self, const mw_log_entry *entry, const char *name)
{
    mw_scan scan = mw_scan_of(entry->payload);
    uint64_t position = mw_scan_u64(&scan);
    bool good = !scan.failed && mw_scan_left(&scan) == 0 && position == self->out->end.position &&
                (self->node_count > 0 || self->pending);
    MW_CHECK_DISK(good, self->err, name, entry->offset,
                  "expected the abort of position %" PRIu64 ", found that of %" PRIu64,
                  self->out->end.position, position);
    while (self->node_count > 0) {
        mw_memtable_remove(newest(self)->memtable, self->nodes[--self->node_count]);
    }
    mw_adopted_free(self->pending);
    self->pending = NULL;
    self->prepared = false;
    self->out->end.count = self->before_last.count;
    self->out->end.sequence = self->before_last.sequence;
    return MW_OK;
}

static mw_rc apply_rows(replayer *self, const mw_log_entry *entry, const char *name)
{
    return entry->kind == MW_LOG_COMMIT ? apply_commit(self, entry, name)
                                        : apply_adopt(self, entry, name);
}

static mw_rc apply_prepare(replayer *self, const mw_log_entry *entry, const char *name)
{
    mw_log_entry inner;
    mw_slice host;
    mw_rc rc = mw_log_pledge_read(entry, name, &inner, self->pledge_id, &host, self->err);
    if (rc == MW_OK) rc = apply_rows(self, &inner, name);
    if (rc != MW_OK) return rc;
    self->prepared = true;
    mw_buf_clear(&self->host);
    mw_buf_put_slice(&self->host, host);
    mw_buf_u8(&self->host, 0);
    return mw_buf_check(&self->host, self->err);
}

static mw_pledged pledged_at(uint64_t position, const uint8_t id[MW_PLEDGE_ID_BYTES])
{
    mw_pledged pledged = {.position = position};
    memcpy(pledged.id, id, sizeof pledged.id);
    return pledged;
}

/* The entry before it can be taken back no more. */
static mw_rc apply_decision(replayer *self, const mw_log_entry *entry, const char *name)
{
    mw_scan scan = mw_scan_of(entry->payload);
    uint64_t position = mw_scan_u64(&scan);
    bool good = !scan.failed && mw_scan_left(&scan) == 0 && self->prepared &&
                position == self->out->end.position;
    MW_CHECK_DISK(good, self->err, name, entry->offset,
                  "expected the decision of a prepared position %" PRIu64
                  ", found that of %" PRIu64,
                  self->out->end.position, position);
    self->prepared = false;
    self->node_count = 0;
    self->out->end.pledged = pledged_at(position, self->pledge_id);
    return open_pending(self);
}

static mw_rc apply_kind(replayer *self, const mw_log_entry *entry, const char *name)
{
    switch (entry->kind) {
    case MW_LOG_ABORT: return apply_abort(self, entry, name);
    case MW_LOG_DECIDE: return apply_decision(self, entry, name);
    case MW_LOG_PREPARE: return apply_prepare(self, entry, name);
    default: return apply_rows(self, entry, name);
    }
}

static mw_rc apply(replayer *self, const mw_log_entry *entry, const char *name)
{
    bool decides = entry->kind == MW_LOG_ABORT || entry->kind == MW_LOG_DECIDE;
    MW_CHECK_DISK(decides || !self->prepared, self->err, name, entry->offset,
                  "expected a decision or an abort of the prepared position %" PRIu64
                  ", found an entry of kind %d",
                  self->out->end.position, (int)entry->kind);
    mw_rc rc = decides ? MW_OK : open_pending(self);
    if (rc == MW_OK) rc = apply_kind(self, entry, name);
    if (rc != MW_OK) return rc;
    self->out->end.position = entry->position;
    keep_tail(&self->out->tail, entry, mw_max(entry->durable_through, self->durable));
    return mw_buf_check(&self->out->tail.bytes, self->err);
}

/* ---- segments -------------------------------------------------------------------------------- */

typedef struct log_list {
    const mw_env *env;
    mw_log_id *logs;
    size_t count;
    size_t capacity;
    bool failed; /* no memory: the list is not whole */
} log_list;

static int add_log(void *arg, const char *name)
{
    log_list *list = arg;
    mw_log_id id;
    if (!mw_log_parse_name(name, &id.epoch, &id.number)) return 0;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        mw_log_id *grown = mw_resize(list->env, list->logs, capacity * sizeof *grown);
        list->failed = !grown;
        if (!grown) return 1;
        list->logs = grown;
        list->capacity = capacity;
    }
    list->logs[list->count++] = id;
    return 0;
}

static int compare_logs(const void *left, const void *right)
{
    const mw_log_id *a = left;
    const mw_log_id *b = right;
    if (a->epoch != b->epoch) return a->epoch < b->epoch ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static mw_rc list_logs(mw_store *store, log_list *list, mw_err *err)
{
    list->env = store->env;
    int sys = mw_env_list(store->env, store->dir, add_log, list);
    if (sys) return mw_fail_sys(err, sys, "listing", store->path);
    if (list->failed) return mw_fail(err, MW_NOMEM, "no memory for the list of log segments");
    if (list->count) qsort(list->logs, list->count, sizeof *list->logs, compare_logs);
    return MW_OK;
}

/* Segments of an epoch are numbered without gaps, but for one that could not be created. */
static mw_rc hole(replayer *self, const mw_log_header *header, const mw_log_entry *entry)
{
    char name[MW_LOG_NAME_BYTES];
    char before[MW_LOG_NAME_BYTES] = "a wal- file of an older epoch";
    mw_log_name(header->epoch, header->number, name);
    if (header->number > 1) mw_log_name(header->epoch, header->number - 1, before);
    return mw_fail_disk(self->err, name, entry->offset,
                        "expected position %" PRIu64 ", found %" PRIu64
                        ": %s is missing or damaged",
                        self->out->end.position + 1, entry->position, before);
}

/* Reads a segment's entries up to limit (exclusive). *any: it has at least one whole entry. */
static mw_rc replay_entries(replayer *self, mw_log_reader *reader, uint64_t limit, bool *any)
{
    const char *name = mw_log_reader_name(reader);
    const mw_log_header *header = mw_log_reader_header(reader);
    mw_point *end = &self->out->end;
    bool entered = self->entered.epoch == header->epoch && self->entered.number == header->number;
    *any = false;
    for (;;) {
        mw_log_entry entry;
        mw_log_found found;
        mw_rc rc = mw_log_reader_next(reader, &entry, &found, self->err);
        if (rc != MW_OK || found == MW_LOG_END) return rc;
        *any = true;
        if (entry.position >= limit) return MW_OK;
        self->out->place = mw_log_reader_place(reader);
        if (entry.position <= end->position) continue;
        if (entry.position != end->position + 1) return hole(self, header, &entry);
        if (!entered) {
            /* The writer synced its segment before to the end first. */
            if (header->number > 1) self->durable = mw_max(self->durable, end->position);
            rc = enter_segment(self, header, name);
        }
        entered = true;
        if (rc == MW_OK) rc = apply(self, &entry, name);
        if (rc != MW_OK) return rc;
    }
}

/* Who only reads may do so while the owner writes: what says that the end is none may have been
** written after the end was found. Then there are entries to go on with. */
static mw_rc probe_end(replayer *self, mw_log_reader *reader, uint64_t limit,
                       uint64_t *durable_through, bool *clean)
{
    bool any;
    uint64_t position;
    mw_rc rc;
    do {
        position = self->out->end.position;
        rc = mw_log_reader_probe(reader, durable_through, clean, self->err);
        if (rc != MW_OK || !self->store->options.read_only || *durable_through <= position) break;
        rc = replay_entries(self, reader, limit, &any);
    } while (rc == MW_OK && self->out->end.position > position);
    return rc;
}

/* Refuses an end that the disk itself contradicts. *clean: only zeros lie behind it. */
static mw_rc check_end(replayer *self, mw_log_reader *reader, uint64_t limit, bool *clean)
{
    uint64_t durable_through;
    uint64_t offset;
    uint64_t chain;
    mw_rc rc = probe_end(self, reader, limit, &durable_through, clean);
    if (rc != MW_OK) return rc;
    uint64_t position = self->out->end.position;
    mw_log_reader_end(reader, &offset, &chain);
    MW_CHECK_DISK(durable_through <= position, self->err, mw_log_reader_name(reader), offset,
                  "position %" PRIu64
                  " is damaged or missing: records behind it say that everything up "
                  "to %" PRIu64 " was durable",
                  position + 1, durable_through);
    return MW_OK;
}

static mw_rc replay_reader(replayer *self, mw_log_reader *reader, uint64_t limit, bool *seen)
{
    mw_replay *out = self->out;
    const mw_log_header *header = mw_log_reader_header(reader);
    bool clean;
    if (header->generation <= out->manifest->generation) return MW_OK; /* in table files already */
    bool starts_next = header->first_position == out->end.position + 1;
    bool any;
    mw_log_place begin = mw_log_reader_place(reader);
    mw_rc rc = replay_entries(self, reader, limit, &any);
    if (rc == MW_OK && !any && starts_next) {
        rc = enter_segment(self, header, mw_log_reader_name(reader));
    }
    if (rc != MW_OK) return rc;
    if (!any && !starts_next) return check_end(self, reader, limit, &clean); /* void */
    *seen = true;
    if (!any) out->place = begin;
    bool over = out->end.position + 1 >= limit; /* what follows is another's */
    return over ? MW_OK : check_end(self, reader, limit, &out->last_clean);
}

static mw_rc replay_segment(replayer *self, mw_log_id id, uint64_t limit, bool *seen)
{
    mw_store *store = self->store;
    mw_log_reader *reader;
    bool whole;
    mw_rc rc = mw_log_reader_open(self->env, store->dir, &store->id, id.epoch, id.number, &reader,
                                  &whole, self->err);
    if (rc == MW_OK && !whole) self->torn = id; /* half a header: it was being created */
    if (rc != MW_OK || !whole) return rc;
    rc = replay_reader(self, reader, limit, seen);
    mw_log_reader_close(reader);
    return rc;
}

/* Something is missing behind the end of the log, and there is a segment without a header that
** counts: it was not being created, it is damaged. */
static mw_rc header_is_damaged(replayer *self)
{
    char name[MW_LOG_NAME_BYTES];
    mw_log_name(self->torn.epoch, self->torn.number, name);
    return mw_fail_disk(self->err, name, 0,
                        "the header is damaged, and what this file held is needed: the log from "
                        "position %" PRIu64 " on",
                        self->out->end.position + 1);
}

/* Everything up to `durable` was on disk for good, but the log ends before it. */
static mw_rc ends_too_early(replayer *self, uint64_t durable)
{
    const mw_replay *out = self->out;
    mw_log_id last = {out->place.header.epoch, out->place.header.number};
    if (compare_logs(&self->torn, &last) > 0) return header_is_damaged(self);
    char name[MW_LOG_NAME_BYTES] = "wal-*";
    if (out->place.header.number > 0) {
        mw_log_name(out->place.header.epoch, out->place.header.number, name);
    }
    return mw_fail_disk(self->err, name, out->place.offset,
                        "the log ends behind position %" PRIu64 ", but everything up to %" PRIu64
                        " was durable: what follows here is damaged, or the wal- file behind this "
                        "one is missing",
                        out->end.position, durable);
}

/* Replays the epoch at index i of the manifest's list. */
static mw_rc replay_epoch(replayer *self, const log_list *list, uint32_t i)
{
    const mw_manifest *manifest = self->out->manifest;
    const mw_manifest_epoch *epoch = &manifest->epochs[i];
    bool last = i + 1 == manifest->epoch_count || !manifest->epochs[i + 1].sealed;
    uint64_t limit = last ? UINT64_MAX : manifest->epochs[i + 1].copied_from;
    bool seen = false;
    self->durable = mw_max(self->durable, epoch->start - 1);
    for (size_t at = 0; at < list->count; at++) {
        if (list->logs[at].epoch != epoch->epoch) continue;
        if (self->out->end.position + 1 >= limit) break;
        mw_rc rc = replay_segment(self, list->logs[at], mw_min(limit, self->beyond), &seen);
        if (rc != MW_OK) return rc;
    }
    uint64_t next = self->out->end.position + 1;
    uint64_t must = last ? epoch->start : limit; /* everything below was durable at the seal */
    if (next < must) return ends_too_early(self, must - 1);
    if (last && !seen && self->torn.epoch == epoch->epoch) return header_is_damaged(self);
    MW_CHECK_DISK(!last || seen, self->err, self->store->path, 0,
                  "expected wal-%016" PRIx64 "-* files that hold the log from position %" PRIu64
                  ", found none",
                  epoch->epoch, next);
    return MW_OK;
}

static const char answer_name[] = "the answer of the database file";

/* What the log does not say about its last entry. */
static mw_rc ask(replayer *self, const mw_judge *judge, bool *committed)
{
    mw_pledge pledge = {.host = (const char *)mw_buf_slice(&self->host).data};
    memcpy(pledge.id, self->pledge_id, sizeof pledge.id);
    return judge->decide(judge->arg, &pledge, committed, self->err);
}

/* The log ends with a prepare. */
static mw_rc settle(replayer *self, const mw_judge *judge)
{
    mw_replay *out = self->out;
    uint8_t position[sizeof(uint64_t)];
    bool committed = false;
    mw_rc rc = judge ? ask(self, judge, &committed) : MW_OK;
    if (rc != MW_OK) return rc;
    mw_put_u64(position, out->end.position);
    mw_log_entry answer = {
        .position = out->end.position + 1,
        .epoch = mw_manifest_epoch_claimed(out->manifest),
        .kind = committed ? MW_LOG_DECIDE : MW_LOG_ABORT,
        .payload = mw_slice_of(position, sizeof position),
    };
    out->undecided = !judge;
    mw_buf_put_slice(&out->host, mw_buf_slice(&self->host));
    if (mw_buf_check(&out->host, self->err) != MW_OK) return MW_NOMEM;
    return judge ? apply(self, &answer, answer_name) : apply_abort(self, &answer, answer_name);
}

static mw_rc replay_all(replayer *self, const mw_judge *judge)
{
    const mw_manifest *manifest = self->out->manifest;
    log_list list = {0};
    mw_rc rc = list_logs(self->store, &list, self->err);
    for (uint32_t i = 0; rc == MW_OK && i < manifest->epoch_count; i++) {
        if (manifest->epochs[i].sealed) rc = replay_epoch(self, &list, i);
    }
    if (rc == MW_OK && self->prepared) rc = settle(self, judge);
    if (rc == MW_OK) rc = open_pending(self);
    mw_free(self->env, list.logs);
    if (rc == MW_OK && self->out->generation_count == 0) {
        rc = begin_generation(self, manifest->generation + 1, self->out->end.position + 1);
    }
    return rc;
}

/* Everything of the store but what its log says. */
static void begin_replay(replayer *self, mw_store *store, mw_manifest *manifest, mw_replay *out,
                         mw_err *err)
{
    memset(out, 0, sizeof *out);
    out->manifest = mw_manifest_ref(manifest);
    out->end = (mw_point){
        .position = manifest->cursor,
        .sequence = manifest->sequence,
        .count = manifest->count,
        .pledged = manifest->pledged,
    };
    out->last_clean = true;
    mw_buf_init(&out->tail.bytes, store->env);
    mw_buf_init(&out->host, store->env);
    *self = (replayer){
        .store = store,
        .env = store->env,
        .out = out,
        .err = err,
        .durable = manifest->cursor,
        .beyond = UINT64_MAX,
    };
    mw_buf_init(&self->host, store->env);
}

static void end_replay(replayer *self)
{
    mw_adopted_free(self->pending);
    mw_buf_free(&self->host);
    mw_free(self->env, self->nodes);
}

mw_rc mw_replay_log(mw_store *store, mw_manifest *manifest, const mw_judge *judge, mw_replay *out,
                    mw_err *err)
{
    replayer self;
    begin_replay(&self, store, manifest, out, err);
    mw_rc rc = replay_all(&self, judge);
    if (rc == MW_OK && out->end.position < store->closed_at) {
        rc = ends_too_early(&self, store->closed_at);
    }
    end_replay(&self);
    return rc;
}

/* ---- beside a writer ------------------------------------------------------------------------- */

static mw_rc not_there_yet(replayer *self, uint64_t through)
{
    return mw_fail(self->err, MW_MISSING,
                   "%s: position %" PRIu64 " was published, but the log can be read up to %" PRIu64
                   " only",
                   self->store->path, through, self->out->end.position);
}

mw_rc mw_replay_up_to(mw_store *store, mw_manifest *manifest, uint64_t through, mw_replay *out,
                      mw_err *err)
{
    replayer self;
    begin_replay(&self, store, manifest, out, err);
    self.beyond = through + 1;
    mw_rc rc = replay_all(&self, NULL);
    if (rc == MW_OK && (out->end.position < through || out->undecided)) {
        rc = not_there_yet(&self, through);
    }
    end_replay(&self);
    return rc;
}

/* What an epoch's own bytes say counts below this position. */
static uint64_t limit_of(const mw_manifest *manifest, uint64_t epoch)
{
    for (uint32_t i = 0; i < manifest->epoch_count; i++) {
        const mw_manifest_epoch *later = &manifest->epochs[i];
        if (later->epoch > epoch && later->sealed) return later->copied_from;
    }
    return UINT64_MAX;
}

/* Reads on in the segment of the place. */
static mw_rc read_on(replayer *self, mw_log_reader *reader)
{
    const mw_log_header *header = mw_log_reader_header(reader);
    mw_replay *out = self->out;
    uint64_t limit = mw_min(limit_of(out->manifest, header->epoch), self->beyond);
    for (;;) {
        mw_log_entry entry;
        mw_log_found found;
        mw_rc rc = mw_log_reader_next(reader, &entry, &found, self->err);
        if (rc != MW_OK || found == MW_LOG_END || entry.position >= limit) return rc;
        if (entry.position > out->end.position + 1) return hole(self, header, &entry);
        if (entry.position > out->end.position) {
            rc = apply(self, &entry, mw_log_reader_name(reader));
        }
        if (rc != MW_OK) return rc;
        out->place = mw_log_reader_place(reader);
    }
}

static mw_rc open_segment(replayer *self, mw_log_id id, mw_log_reader **reader)
{
    bool whole;
    mw_rc rc = mw_log_reader_open(self->env, self->store->dir, &self->store->id, id.epoch,
                                  id.number, reader, &whole, self->err);
    if (rc == MW_OK && !whole) *reader = NULL;
    return rc;
}

static mw_rc read_place(replayer *self)
{
    const mw_log_place *place = &self->out->place;
    mw_log_reader *reader = NULL;
    if (place->header.number == 0) return MW_OK;
    mw_rc rc = open_segment(self, (mw_log_id){place->header.epoch, place->header.number}, &reader);
    if (rc != MW_OK || !reader) return rc;
    mw_log_reader_seek(reader, place);
    rc = read_on(self, reader);
    mw_log_reader_close(reader);
    return rc;
}

/* Does the log go on in this segment? A freeze puts the next one behind all that the one before
** will ever hold; another epoch's first one begins with copies. */
static bool goes_on_in(const replayer *self, const mw_log_header *header)
{
    const mw_log_header *last = &self->out->place.header;
    uint64_t next = self->out->end.position + 1;
    if (last->number == 0 || header->epoch == last->epoch) return header->first_position == next;
    return header->first_position <= next && limit_of(self->out->manifest, last->epoch) <= next;
}

static bool is_sealed(const mw_manifest *manifest, uint64_t epoch)
{
    for (uint32_t i = 0; i < manifest->epoch_count; i++) {
        if (manifest->epochs[i].epoch == epoch) return manifest->epochs[i].sealed;
    }
    return false;
}

/* To the next segment, if there is one: *moved. */
static mw_rc step(replayer *self, const log_list *list, bool *moved)
{
    mw_rc rc = MW_OK;
    const mw_log_header *last = &self->out->place.header;
    mw_log_id at = {last->epoch, last->number};
    for (size_t i = 0; rc == MW_OK && !*moved && i < list->count; i++) {
        mw_log_reader *reader = NULL;
        if (compare_logs(&list->logs[i], &at) <= 0) continue;
        if (!is_sealed(self->out->manifest, list->logs[i].epoch)) continue;
        rc = open_segment(self, list->logs[i], &reader);
        if (rc != MW_OK || !reader) continue;
        *moved = goes_on_in(self, mw_log_reader_header(reader));
        if (*moved) {
            self->out->place = mw_log_reader_place(reader);
            rc = enter_segment(self, mw_log_reader_header(reader), mw_log_reader_name(reader));
        }
        mw_log_reader_close(reader);
    }
    return rc;
}

static mw_rc to_next_segment(replayer *self, bool *moved)
{
    log_list list = {0};
    *moved = false;
    mw_rc rc = list_logs(self->store, &list, self->err);
    if (rc == MW_OK) rc = step(self, &list, moved);
    mw_free(self->env, list.logs);
    return rc;
}

/* A generation that was flushed is active no more, and a segment whose epoch is over holds nothing
** more, whether or not anything has followed. */
static mw_rc leave_what_is_over(replayer *self)
{
    bool moved = true;
    mw_replay *out = self->out;
    mw_rc rc = MW_OK;
    while (rc == MW_OK && moved && limit_of(out->manifest, out->place.header.epoch) != UINT64_MAX) {
        rc = to_next_segment(self, &moved);
        if (rc == MW_OK && moved) rc = read_place(self);
    }
    if (rc != MW_OK || newest(self)->number > out->manifest->generation) return rc;
    rc = to_next_segment(self, &moved);
    if (rc != MW_OK || moved) return rc;
    return begin_generation(self, out->manifest->generation + 1, out->end.position + 1);
}

static mw_rc go_on(replayer *self, uint64_t through)
{
    mw_rc rc = read_place(self);
    while (rc == MW_OK && self->out->end.position < through) {
        bool moved;
        rc = to_next_segment(self, &moved);
        if (rc == MW_OK && !moved) rc = not_there_yet(self, through);
        if (rc == MW_OK) rc = read_place(self);
    }
    return rc == MW_OK ? leave_what_is_over(self) : rc;
}

mw_rc mw_replay_on(mw_store *store, mw_replay *out, uint64_t through, mw_err *err)
{
    replayer self = {
        .store = store,
        .env = store->env,
        .out = out,
        .err = err,
        .durable = UINT64_MAX, /* what is published needs no tail */
        .beyond = through + 1,
    };
    mw_buf_init(&self.host, store->env);
    mw_rc rc = go_on(&self, through);
    if (rc == MW_OK && self.prepared) rc = not_there_yet(&self, through);
    if (rc == MW_OK) rc = open_pending(&self);
    end_replay(&self);
    return rc;
}

void mw_replay_free(const mw_env *env, mw_replay *replay)
{
    for (uint32_t i = 0; i < replay->generation_count; i++) {
        mw_generation_unref(replay->generations[i]);
    }
    mw_free(env, replay->generations);
    mw_manifest_unref(replay->manifest);
    mw_buf_free(&replay->tail.bytes);
    mw_buf_free(&replay->host);
    memset(replay, 0, sizeof *replay);
}
