/* txn.c: a write transaction, from its first change to its entry in the log.
**
** The transaction's changes lie in an overlay, a memtable of its own: readable at once by its own
** connection, multi-version so that a scan never meets its own inserts (I13), and undone for a
** savepoint by taking versions out again; where a cursor reads it, by going on with a copy. Its
** sequences go on from the store's newest one.
**
** Prepare turns the overlay into one entry: the newest change of each id, in key order. It freezes
** a full memtable, reserves room in the segment and allocates everything *before* the entry gets a
** position; from then on only the log itself can fail.
**
**     full    [turn ------------------ prepare: queue, wait --------------- commit: publish] give
**     light   [turn ------- prepare: queue] give, wait (published by the leader)
**
** A full entry is the last of the log until it is decided, so cancelling it is a record right
** behind it: abort. A light entry is committed when it is durable and others may have built on it;
** so taking it back is a commit of its own, a compensating entry: for each id whose newest version
** is still the entry's it puts back what was there before.
**
** Crash: an entry whose abort is not durable counts; nobody has been told either way. */
#include "txn.h"

#include "background.h"
#include "epoch.h"
#include "flush.h"

#include <inttypes.h>
#include <string.h>

enum { COMPENSATE_WAIT_MS = 60000 };

/* One change in the overlay, for undoing it. */
typedef struct change {
    mw_node *node;
    int delta; /* -1, 0, +1 live ids */
} change;

/* An entry in the log, and its rows in the memtable. */
typedef struct entry {
    mw_request request;
    mw_generation *generation; /* that the rows were put into */
    mw_node **nodes;
    uint64_t node_count;
    uint64_t sequence_last;
    int64_t delta;
} entry;

/* A prepared light transaction that is not ended yet; merges stay clear of what it wrote. */
typedef struct mw_undecided {
    struct mw_undecided *next;
    uint64_t generation;
} mw_undecided;

typedef enum state {
    OPEN,     /* takes changes                                              */
    PREPARED, /* its entry, if it has changes, is durable                   */
    FAILED,   /* prepare failed, or it was compensated: only rollback is left */
} state;

struct mw_txn {
    mw_store *store;
    mw_version *version; /* the state it started from, up to base.sequence */
    mw_point base;
    mw_memtable *overlay;
    change *changes;
    uint64_t change_count;
    uint64_t change_capacity;
    uint64_t change_mark; /* rises with every change, never falls: overlay sequences stay unique */
    int64_t delta;
    state state;
    mw_txn_kind kind;
    bool turn;
    bool written; /* entry is in use */
    entry entry;
    mw_undecided undecided;
};

/* ---- begin and end --------------------------------------------------------------------------- */

static mw_rc open_txn(mw_store *store, mw_txn **out, mw_err *err)
{
    mw_rc rc = mw_epoch_own(store, err);
    if (rc != MW_OK) return rc;
    mw_txn *txn = mw_alloc_zero(store->env, sizeof *txn);
    if (!txn) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    txn->store = store;
    txn->overlay = mw_memtable_create(store->env);
    if (!txn->overlay) {
        mw_free(store->env, txn);
        return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    }
    mw_store_lock(store);
    txn->version = mw_version_ref(store->version);
    txn->base = store->queued;
    mw_store_unlock(store);
    txn->turn = true;
    *out = txn;
    if (store->options.durability == MW_DURABILITY_NORMAL) mw_background_start(store);
    return MW_OK;
}

/* Closing waits for whoever is inside a transaction: a waiter that was told MW_CLOSED still has to
** get out before the store is freed. */
static void enter(mw_store *store)
{
    mw_store_lock(store);
    store->transactions++;
    mw_store_unlock(store);
}

/* The store may be gone afterwards. */
static void leave(mw_store *store)
{
    mw_store_lock(store);
    store->transactions--;
    store->env->cond_broadcast(store->env->ctx, store->progress);
    mw_store_unlock(store);
}

mw_rc mw_txn_begin(mw_db *db, uint64_t wait_ms, mw_txn **txn, mw_err *err)
{
    mw_store *store = (mw_store *)db;
    enter(store);
    mw_rc rc = mw_flush_make_room(store, err);
    if (rc == MW_OK) rc = mw_turn_take(store, mw_store_deadline(store, wait_ms), err);
    bool turn = rc == MW_OK;
    if (rc == MW_OK) rc = open_txn(store, txn, err);
    if (rc != MW_OK && turn) mw_turn_give(store);
    if (rc != MW_OK) leave(store);
    return rc;
}

static void give_turn(mw_txn *txn)
{
    if (txn->turn) mw_turn_give(txn->store);
    txn->turn = false;
}

static void free_entry(mw_store *store, entry *of)
{
    mw_request_free(store, &of->request);
    mw_generation_unref(of->generation);
    mw_free(store->env, of->nodes);
    memset(of, 0, sizeof *of);
}

static void end_undecided(mw_txn *txn)
{
    mw_store *store = txn->store;
    mw_store_lock(store);
    for (mw_undecided **at = &store->undecided; *at; at = &(*at)->next) {
        if (*at == &txn->undecided) {
            *at = txn->undecided.next;
            break;
        }
    }
    mw_store_unlock(store);
}

static void free_txn(mw_txn *txn)
{
    mw_store *store = txn->store;
    give_turn(txn);
    end_undecided(txn);
    free_entry(store, &txn->entry);
    mw_version_unref(txn->version);
    mw_memtable_unref(txn->overlay);
    mw_free(store->env, txn->changes);
    mw_free(store->env, txn);
    leave(store);
}

uint64_t mw_txn_undecided_generation(mw_store *store)
{
    uint64_t oldest = UINT64_MAX;
    mw_store_lock(store);
    for (const mw_undecided *at = store->undecided; at; at = at->next) {
        oldest = mw_min(oldest, at->generation);
    }
    mw_store_unlock(store);
    return oldest;
}

/* ---- changes --------------------------------------------------------------------------------- */

static mw_rc check_open(const mw_txn *txn, mw_err *err)
{
    if (txn->state == OPEN) return MW_OK;
    if (txn->state == PREPARED) {
        return mw_fail(err, MW_MISUSE, "the transaction is prepared: take that back first");
    }
    return mw_fail(err, MW_BUSY, "the transaction cannot go on: roll it back and try again");
}

mw_rc mw_txn_exists(mw_txn *txn, mw_slice key, bool *lives, mw_err *err)
{
    const mw_node *node = mw_memtable_find(txn->overlay, key, UINT64_MAX);
    if (node) {
        *lives = !mw_node_tombstone(node);
        return MW_OK;
    }
    return mw_version_lives(txn->version, key, txn->base.sequence, lives, err);
}

static mw_rc grow_changes(mw_txn *txn, mw_err *err)
{
    if (txn->change_count < txn->change_capacity) return MW_OK;
    uint64_t capacity = txn->change_capacity ? 2 * txn->change_capacity : 16;
    change *grown = mw_resize(txn->store->env, txn->changes, capacity * sizeof *grown);
    if (!grown) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    txn->changes = grown;
    txn->change_capacity = capacity;
    return MW_OK;
}

static mw_rc add_change(mw_txn *txn, const mw_log_op *op, int delta, mw_err *err)
{
    mw_node *node;
    mw_rc rc = grow_changes(txn, err);
    if (rc != MW_OK) return rc;
    uint64_t sequence = txn->base.sequence + txn->change_mark + 1;
    rc = mw_memtable_add(txn->overlay, op->key, sequence, op->tombstone, op->row, &node, err);
    if (rc != MW_OK) return rc;
    txn->changes[txn->change_count++] = (change){node, delta};
    txn->change_mark++;
    txn->delta += delta;
    return MW_OK;
}

mw_rc mw_txn_put(mw_txn *txn, mw_slice key, mw_slice row, bool *replaced, mw_err *err)
{
    mw_rc rc = check_open(txn, err);
    if (rc == MW_OK && key.size > MW_KEY_BYTES_MAX) {
        rc = mw_fail(err, MW_TOOBIG, "a key of %zu bytes, the limit is %d", key.size,
                     MW_KEY_BYTES_MAX);
    }
    if (rc == MW_OK) rc = mw_txn_exists(txn, key, replaced, err);
    if (rc != MW_OK) return rc;
    mw_log_op op = {false, key, row};
    return add_change(txn, &op, *replaced ? 0 : 1, err);
}

mw_rc mw_txn_delete(mw_txn *txn, mw_slice key, bool *deleted, mw_err *err)
{
    mw_rc rc = check_open(txn, err);
    if (rc == MW_OK) rc = mw_txn_exists(txn, key, deleted, err);
    if (rc != MW_OK || !*deleted) return rc;
    mw_log_op op = {true, key, {NULL, 0}};
    return add_change(txn, &op, -1, err);
}

uint64_t mw_txn_mark(const mw_txn *txn) { return txn->change_count; }

/* Somebody reads the overlay: what is undone must stay for him. From now on the transaction has an
** overlay of its own, with the changes up to the mark. */
static mw_rc part_from_readers(mw_txn *txn, uint64_t mark, mw_err *err)
{
    mw_memtable *fresh = mw_memtable_create(txn->store->env);
    mw_node **nodes = mw_alloc(txn->store->env, mark * sizeof(mw_node *));
    mw_rc rc = fresh && nodes ? MW_OK : mw_fail(err, MW_NOMEM, "no memory for a savepoint");
    for (uint64_t i = 0; rc == MW_OK && i < mark; i++) {
        const mw_node *node = txn->changes[i].node;
        rc = mw_memtable_add(fresh, mw_node_key(node), mw_node_sequence(node),
                             mw_node_tombstone(node), mw_node_row(node), &nodes[i], err);
    }
    if (rc == MW_OK) {
        for (uint64_t i = 0; i < mark; i++) txn->changes[i].node = nodes[i];
        mw_memtable *before = txn->overlay;
        txn->overlay = fresh;
        fresh = before;
    }
    mw_memtable_unref(fresh);
    mw_free(txn->store->env, nodes);
    return rc;
}

mw_rc mw_txn_undo(mw_txn *txn, uint64_t mark, mw_err *err)
{
    mw_rc rc = check_open(txn, err);
    if (rc != MW_OK || mark >= txn->change_count) return rc;
    bool parted = mw_memtable_shared(txn->overlay);
    if (parted) rc = part_from_readers(txn, mark, err);
    if (rc != MW_OK) return rc;
    while (txn->change_count > mark) {
        const change *last = &txn->changes[--txn->change_count];
        if (!parted) mw_memtable_remove(txn->overlay, last->node);
        txn->delta -= last->delta;
    }
    return MW_OK;
}

int64_t mw_txn_count_delta(const mw_txn *txn) { return txn->state == FAILED ? 0 : txn->delta; }

bool mw_txn_prepared(const mw_txn *txn) { return txn->state == PREPARED; }

mw_rc mw_txn_settle(mw_txn *txn, mw_err *err)
{
    return mw_commit_settle(txn->store, txn->base.position, UINT64_MAX, err);
}

mw_rc mw_txn_snapshot(mw_txn *txn, mw_snapshot **snapshot, mw_err *err)
{
    if (txn->state == FAILED) return mw_snapshot_take((mw_db *)txn->store, NULL, snapshot, err);
    struct mw_snapshot now = {
        .version = txn->version,
        .sequence = txn->base.sequence,
        .count = txn->base.count + txn->delta,
        .overlay = txn->overlay,
        .overlay_limit = txn->base.sequence + txn->change_mark,
    };
    return mw_snapshot_create(txn->store, &now, snapshot, err);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Encodes the newest change of each id in `rows`, in key order; *count: how many. */
static mw_rc encode_rows(mw_store *store, mw_memtable *rows, mw_buf *payload, uint64_t *count,
                         mw_err *err)
{
    mw_iter *iter;
    *count = 0;
    mw_rc rc = mw_memtable_iter(rows, UINT64_MAX, store->schema->column_count, &iter, err);
    if (rc != MW_OK) return rc;
    mw_log_rows_open(payload);
    rc = iter->ops->first(iter, err);
    while (rc == MW_OK && iter->valid && payload->size <= MW_LOG_ENTRY_BYTES_MAX) {
        mw_log_op op = {iter->tombstone, iter->key, mw_memtable_iter_row(iter)};
        mw_log_rows_add(payload, &op);
        ++*count;
        rc = iter->ops->next(iter, err);
    }
    mw_iter_close(iter);
    if (rc == MW_OK) rc = mw_buf_check(payload, err);
    if (rc == MW_OK && payload->size > MW_LOG_ENTRY_BYTES_MAX) {
        rc = mw_fail(err, MW_TOOBIG,
                     "the transaction is larger than %d bytes: commit in smaller parts",
                     MW_LOG_ENTRY_BYTES_MAX);
    }
    return rc;
}

static void remove_rows(entry *of)
{
    while (of->node_count > 0) {
        mw_memtable_remove(of->generation->memtable, of->nodes[--of->node_count]);
    }
}

/* Puts the rows into the active memtable, above everything that is visible. All or none. */
static mw_rc insert_rows(mw_store *store, mw_memtable *rows, entry *to, uint64_t sequence,
                         mw_err *err)
{
    mw_iter *iter;
    mw_rc rc = mw_memtable_iter(rows, UINT64_MAX, store->schema->column_count, &iter, err);
    if (rc != MW_OK) return rc;
    rc = iter->ops->first(iter, err);
    while (rc == MW_OK && iter->valid) {
        rc = mw_memtable_add(to->generation->memtable, iter->key, sequence++, iter->tombstone,
                             mw_memtable_iter_row(iter), &to->nodes[to->node_count], err);
        if (rc != MW_OK) break;
        to->node_count++;
        rc = iter->ops->next(iter, err);
    }
    mw_iter_close(iter);
    if (rc != MW_OK) remove_rows(to);
    return rc;
}

/* Everything about an entry that can fail before it has a position. */
static mw_rc make_entry(mw_store *store, mw_memtable *rows, entry *to, mw_err *err)
{
    uint64_t count;
    mw_rc rc = mw_request_create(store, MW_LOG_COMMIT, &to->request, err);
    if (rc == MW_OK) rc = encode_rows(store, rows, &to->request.payload, &count, err);
    bool frozen = false;
    if (rc == MW_OK) rc = mw_flush_freeze_if_full(store, &frozen, err);
    if (rc != MW_OK) return rc;
    if (frozen) mw_background_wake(store);
    uint64_t room = mw_log_entry_bytes(to->request.payload.size) +
                    mw_log_entry_bytes(sizeof(uint64_t)); /* an abort must always find its room */
    rc = mw_log_segment_reserve(store->segment, room, err);
    if (rc != MW_OK) return rc;
    to->nodes = mw_alloc(store->env, count * sizeof(mw_node *));
    if (!to->nodes) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    mw_store_lock(store);
    to->generation = mw_generation_ref(store->version->generations[0]);
    uint64_t sequence = store->queued.sequence + 1;
    to->request.after.sequence = store->queued.sequence + count;
    to->request.after.count = store->queued.count + to->delta;
    store->figures.logical_bytes += to->request.payload.size;
    mw_store_unlock(store);
    to->sequence_last = to->request.after.sequence;
    mw_log_rows_close(&to->request.payload, sequence, count, to->delta);
    return insert_rows(store, rows, to, sequence, err);
}

static mw_rc wait_for_others(mw_txn *txn, mw_err *err)
{
    mw_rc rc = mw_txn_settle(txn, err);
    txn->state = rc == MW_OK ? PREPARED : FAILED;
    return rc;
}

mw_rc mw_txn_prepare(mw_txn *txn, mw_txn_kind kind, mw_err *err)
{
    mw_store *store = txn->store;
    mw_rc rc = check_open(txn, err);
    if (rc != MW_OK) return rc;
    txn->kind = kind;
    if (mw_memtable_versions(txn->overlay) == 0) return wait_for_others(txn, err);
    txn->entry.delta = txn->delta;
    rc = make_entry(store, txn->overlay, &txn->entry, err);
    if (rc != MW_OK) {
        free_entry(store, &txn->entry);
        txn->state = FAILED;
        return rc;
    }
    bool light = kind == MW_TXN_LIGHT;
    txn->entry.request.publish = light;
    txn->written = true;
    if (light) {
        txn->undecided.generation = txn->entry.generation->number;
        mw_store_lock(store);
        txn->undecided.next = store->undecided;
        store->undecided = &txn->undecided;
        mw_store_unlock(store);
    }
    mw_commit_queue(store, &txn->entry.request);
    if (light) give_turn(txn);
    rc = mw_commit_wait(store, &txn->entry.request, err);
    txn->state = rc == MW_OK ? PREPARED : FAILED;
    if (rc != MW_OK) txn->written = false; /* the writer has stopped: nothing can be taken back */
    return rc;
}

mw_rc mw_txn_commit(mw_txn *txn, mw_err *err)
{
    mw_rc rc = MW_OK;
    if (txn->state != PREPARED) {
        rc = mw_fail(err, MW_MISUSE, "commit of a transaction that is not prepared");
    } else if (txn->written && txn->kind == MW_TXN_FULL) {
        mw_commit_publish(txn->store, &txn->entry.request);
    }
    free_txn(txn);
    return rc;
}

/* ---- taking an entry back -------------------------------------------------------------------- */

/* Full: the entry is the last of the log; cancels it with the record behind it. */
static mw_rc write_abort(mw_txn *txn, mw_err *err)
{
    mw_store *store = txn->store;
    mw_request abort;
    mw_rc rc = mw_request_create(store, MW_LOG_ABORT, &abort, err);
    mw_buf_u64(&abort.payload, txn->entry.request.after.position);
    if (rc == MW_OK) rc = mw_buf_check(&abort.payload, err);
    if (rc == MW_OK) {
        remove_rows(&txn->entry);
        mw_store_lock(store);
        abort.after = store->queued;
        abort.after.count -= txn->entry.delta;
        mw_store_unlock(store);
        abort.publish = true;
        abort.sync = true;
        mw_commit_queue(store, &abort);
        rc = mw_commit_wait(store, &abort, err);
    }
    mw_request_free(store, &abort);
    return rc;
}

/* Has somebody written the id again since the entry did? */
static mw_rc superseded(mw_txn *txn, const mw_version *now, mw_slice key, bool *yes, mw_err *err)
{
    uint64_t ours = txn->entry.generation->number;
    const mw_node *node = mw_memtable_find(txn->entry.generation->memtable, key, UINT64_MAX);
    *yes = node && mw_node_sequence(node) > txn->entry.sequence_last;
    for (uint32_t i = 0; !*yes && i < now->generation_count; i++) {
        const mw_generation *generation = now->generations[i];
        if (generation->number <= ours) break;
        *yes = mw_memtable_find(generation->memtable, key, UINT64_MAX) != NULL;
    }
    for (uint32_t i = 0; !*yes && i < now->table_count; i++) {
        const mw_manifest_file *file = &now->manifest->files[now->table_count - 1 - i];
        if (file->level > 0 || file->generation <= ours) break; /* merges stay below ours */
        bool tombstone;
        mw_rc rc = mw_table_find(now->tables[i], key, yes, &tombstone, err);
        if (rc != MW_OK) return rc;
    }
    return MW_OK;
}

/* A compensating entry in the making. */
typedef struct compensation {
    mw_txn *txn;
    mw_version *now;   /* the state that it is built on              */
    mw_cursor *before; /* over the state that the entry was built on */
    mw_memtable *undo; /* its rows                                   */
    uint64_t sequence; /* of the next row in undo                    */
    mw_buf row;
    int64_t delta;
} compensation;

static mw_rc put_back(compensation *self, const mw_iter *written, mw_err *err)
{
    bool newer;
    mw_rc rc = superseded(self->txn, self->now, written->key, &newer, err);
    if (rc != MW_OK || newer) return rc;
    rc = mw_cursor_find(self->before, written->key, err);
    if (rc != MW_OK) return rc;
    bool lived = mw_cursor_valid(self->before);
    mw_buf_clear(&self->row);
    if (lived) rc = mw_cursor_row(self->before, &self->row, err);
    if (rc != MW_OK) return rc;
    self->delta += (lived ? 1 : 0) - (written->tombstone ? 0 : 1);
    return mw_memtable_add(self->undo, written->key, ++self->sequence, !lived,
                           mw_buf_slice(&self->row), NULL, err);
}

static mw_rc collect(compensation *self, mw_err *err)
{
    mw_iter *iter;
    mw_txn *txn = self->txn;
    mw_rc rc =
        mw_memtable_iter(txn->overlay, UINT64_MAX, txn->store->schema->column_count, &iter, err);
    if (rc != MW_OK) return rc;
    rc = iter->ops->first(iter, err);
    while (rc == MW_OK && iter->valid) {
        rc = put_back(self, iter, err);
        if (rc == MW_OK) rc = iter->ops->next(iter, err);
    }
    mw_iter_close(iter);
    return rc;
}

static mw_rc open_before(mw_txn *txn, mw_cursor **cursor, mw_err *err)
{
    mw_snapshot *snapshot;
    struct mw_snapshot then = {.version = txn->version, .sequence = txn->base.sequence};
    mw_rc rc = mw_snapshot_create(txn->store, &then, &snapshot, err);
    if (rc != MW_OK) return rc;
    rc = mw_cursor_open(snapshot, cursor, err);
    mw_snapshot_release(snapshot);
    return rc;
}

/* Queues what was collected and waits for it, as any commit. Requires the turn. */
static mw_rc write_compensation(compensation *self, mw_err *err)
{
    mw_store *store = self->txn->store;
    entry undo = {.delta = self->delta};
    if (mw_memtable_versions(self->undo) == 0) return MW_OK; /* others have replaced all of it */
    mw_rc rc = make_entry(store, self->undo, &undo, err);
    if (rc == MW_OK) {
        undo.request.publish = true;
        undo.request.sync = true;
        mw_commit_queue(store, &undo.request);
        rc = mw_commit_wait(store, &undo.request, err);
    }
    free_entry(store, &undo);
    return rc;
}

/* Light: others may have built on the entry; a commit of its own puts back what was there
** before. */
static mw_rc compensate(mw_txn *txn, mw_err *err)
{
    mw_store *store = txn->store;
    compensation self = {.txn = txn};
    mw_rc rc = mw_turn_take(store, mw_store_deadline(store, COMPENSATE_WAIT_MS), err);
    if (rc != MW_OK) return rc;
    mw_buf_init(&self.row, store->env);
    self.now = mw_store_version(store);
    self.undo = mw_memtable_create(store->env);
    if (!self.undo) rc = mw_fail(err, MW_NOMEM, "no memory for taking a commit back");
    if (rc == MW_OK) rc = open_before(txn, &self.before, err);
    if (rc == MW_OK) rc = collect(&self, err);
    if (rc == MW_OK) rc = write_compensation(&self, err);
    mw_turn_give(store);
    mw_cursor_close(self.before);
    mw_memtable_unref(self.undo);
    mw_version_unref(self.now);
    mw_buf_free(&self.row);
    return rc;
}

/* Cancels a durable entry. When that cannot be done, nobody knows what a reopen will show: the
** writer stops. */
static mw_rc take_back(mw_txn *txn, mw_err *err)
{
    mw_err cause = {0};
    mw_rc rc = txn->kind == MW_TXN_FULL ? write_abort(txn, &cause) : compensate(txn, &cause);
    free_entry(txn->store, &txn->entry);
    txn->written = false;
    if (rc == MW_OK) return MW_OK;
    mw_err unknown = {0};
    mw_fail(&unknown, MW_PERSISTENCE,
            "outcome of a rolled back transaction unknown until reopened: %s", cause.text);
    mw_store_lock(txn->store);
    mw_store_stop(txn->store, &unknown);
    mw_store_unlock(txn->store);
    return mw_fail(err, MW_PERSISTENCE, "%s", unknown.text);
}

mw_rc mw_txn_unprepare(mw_txn *txn, mw_err *err)
{
    if (txn->state != PREPARED) return check_open(txn, err);
    txn->state = OPEN;
    if (!txn->written) return MW_OK;
    mw_rc rc = take_back(txn, err);
    if (rc != MW_OK || txn->kind == MW_TXN_LIGHT) txn->state = FAILED;
    if (rc == MW_OK && txn->kind == MW_TXN_LIGHT) end_undecided(txn);
    return rc;
}

mw_rc mw_txn_rollback(mw_txn *txn, mw_err *err)
{
    mw_rc rc = MW_OK;
    if (txn->state == PREPARED && txn->written) rc = take_back(txn, err);
    if (txn->state == OPEN) {
        /* What made it fail may be a queued row ("exists already"): that must be true for good
        ** before anybody hears of it. If it never will be, the writer has stopped, and the next
        ** call says so. */
        mw_err ignored = {0};
        give_turn(txn);
        mw_rc settled = mw_txn_settle(txn, &ignored);
        (void)settled;
    }
    free_txn(txn);
    return rc;
}
