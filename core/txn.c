/* txn.c: a write transaction, from its first change to its entry in the log.
**
** The transaction's changes lie in an overlay of its own (overlay.c): in memory, and beyond a limit
** in table files. Its sequences go on from the store's newest one.
**
** Prepare turns the overlay into one entry. A small transaction's has the rows themselves: the
** newest change of each id, in key order, which go into the active memtable as well. A large one's,
** whose overlay was spilled, names the files: it adopts them. Whatever can fail happens *before*
** the entry gets a position (freezing a full memtable, room in the segment, memory, the files); from
** then on only the log itself can fail.
**
**     full    [turn ------------------ prepare: queue, wait --------------- commit: publish] give
**     light   [turn ------- prepare: queue] give, wait (published by the leader)
**
** A full entry is the last of the log until it is decided, so cancelling it is a record right
** behind it: abort. It gives the entry's sequences back, so that a transaction that goes on can
** adopt the same files once more. An adopt entry is always full.
**
** An adopt entry is always the first of its generation. So its files are older than everything in
** the generation's memtable, and the flush lists them as they are.
**
** A light entry is committed when it is durable and others may have built on it; so taking it back
** is a commit of its own, a compensating entry: for each id whose newest version is still the
** entry's it puts back what was there before.
**
** With a pledge the entry is a prepare: the host's own commit decides, and when that has happened
** the decision goes behind it, without a sync of its own: whatever is synced later takes it along,
** and where it is lost the host is asked again.
**
**     pledged [turn ------- prepare: queue, wait -- (host) -- commit: decision, publish] give
**
** Crash: an entry whose abort is not durable counts; nobody has been told either way. A prepare
** without a decision is asked for (epoch.c). */
#include "txn.h"

#include "background.h"
#include "entry.h"
#include "flush.h"
#include "overlay.h"
#include "shared.h"

#include <inttypes.h>
#include <string.h>

enum { COMPENSATE_WAIT_MS = 60000 };

/* An entry in the log, and its rows in the memtable. */
typedef struct entry {
    mw_request request;
    const mw_pledge *pledge;   /* while it is made; NULL: none */
    mw_generation *generation; /* that the rows were put into */
    mw_adopted *adopted;       /* the generation's, NULL: it has rows of its own */
    mw_node **nodes;
    uint64_t node_count;
    uint64_t sequence_before;
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
    mw_overlay overlay;
    state state;
    mw_txn_kind kind;
    bool turn;
    bool written;       /* entry is in use */
    mw_request verdict; /* full: what may follow the entry; takes no memory then */
    bool pledged;       /* it is a prepare ... */
    uint8_t pledge_id[MW_PLEDGE_ID_BYTES]; /* ... of this transaction */
    bool named;                            /* the log may name the overlay's files */
    entry entry;
    mw_undecided undecided;
};

/* ---- begin and end --------------------------------------------------------------------------- */

static mw_rc open_txn(mw_store *store, uint64_t deadline_ns, mw_txn **out, mw_err *err)
{
    mw_rc rc = mw_entry_own(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    mw_txn *txn = mw_alloc_zero(store->env, sizeof *txn);
    if (!txn) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    txn->store = store;
    mw_store_lock(store);
    txn->version = mw_version_ref(store->version);
    txn->base = store->queued;
    bool normal = store->options.durability == MW_DURABILITY_NORMAL;
    mw_store_unlock(store);
    rc = mw_overlay_init(&txn->overlay, store, txn->base.sequence, err);
    if (rc != MW_OK) {
        mw_version_unref(txn->version);
        mw_free(store->env, txn);
        return rc;
    }
    txn->turn = true;
    *out = txn;
    if (normal) mw_background_start(store);
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
    uint64_t deadline = mw_store_deadline(store, wait_ms);
    if (rc == MW_OK) rc = mw_turn_take(store, deadline, err);
    bool turn = rc == MW_OK;
    if (rc == MW_OK) rc = open_txn(store, deadline, txn, err);
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
    mw_request_free(store, &txn->verdict);
    mw_version_unref(txn->version);
    mw_overlay_free(&txn->overlay, !txn->named);
    mw_free(store->env, txn);
    mw_entry_offer(store, false);
    leave(store);
}

uint64_t mw_txn_undecided_generation(const mw_store *store)
{
    uint64_t oldest = UINT64_MAX;
    for (const mw_undecided *at = store->undecided; at; at = at->next) {
        oldest = mw_min(oldest, at->generation);
    }
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
    bool found;
    bool tombstone = false;
    mw_rc rc = mw_overlay_find(&txn->overlay, key, &found, &tombstone, err);
    *lives = found && !tombstone;
    if (rc != MW_OK || found) return rc;
    return mw_version_lives(txn->version, key, txn->base.sequence, lives, err);
}

/* Room first: so a full disk fails the change, and the transaction is as it was. */
static mw_rc add_change(mw_overlay *to, const mw_log_op *op, int delta, mw_err *err)
{
    mw_rc rc = mw_overlay_full(to) ? mw_overlay_spill(to, err) : MW_OK;
    return rc == MW_OK ? mw_overlay_add(to, op, delta, err) : rc;
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
    return add_change(&txn->overlay, &op, *replaced ? 0 : 1, err);
}

mw_rc mw_txn_delete(mw_txn *txn, mw_slice key, bool *deleted, mw_err *err)
{
    mw_rc rc = check_open(txn, err);
    if (rc == MW_OK) rc = mw_txn_exists(txn, key, deleted, err);
    if (rc != MW_OK || !*deleted) return rc;
    mw_log_op op = {true, key, {NULL, 0}};
    return add_change(&txn->overlay, &op, -1, err);
}

mw_rc mw_txn_mark(mw_txn *txn, uint64_t *mark, mw_err *err)
{
    return mw_overlay_mark(&txn->overlay, mark, err);
}

void mw_txn_release(mw_txn *txn, uint64_t kept) { mw_overlay_release(&txn->overlay, kept); }

mw_rc mw_txn_undo(mw_txn *txn, uint64_t mark, mw_err *err)
{
    mw_rc rc = check_open(txn, err);
    return rc == MW_OK ? mw_overlay_undo(&txn->overlay, mark, err) : rc;
}

bool mw_txn_changed(const mw_txn *txn) { return !mw_overlay_empty(&txn->overlay); }

int64_t mw_txn_count_delta(const mw_txn *txn)
{
    return txn->state == FAILED ? 0 : txn->overlay.delta;
}

/* Each change that is published has a sequence of its own. */
bool mw_txn_continues(const mw_txn *txn, const mw_snapshot *snapshot)
{
    return snapshot->sequence == txn->base.sequence;
}

bool mw_txn_prepared(const mw_txn *txn) { return txn->state == PREPARED; }

bool mw_txn_published(const mw_txn *txn)
{
    return txn->state == PREPARED && txn->kind == MW_TXN_LIGHT;
}

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
        .count = txn->base.count + txn->overlay.delta,
        .overlay = txn->overlay.rows,
        .overlay_limit = txn->overlay.last,
        .runs = txn->overlay.runs,
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
    while (rc == MW_OK && iter->valid) {
        mw_log_op op = {iter->tombstone, iter->key, mw_memtable_iter_row(iter)};
        mw_log_rows_add(payload, &op);
        ++*count;
        rc = iter->ops->next(iter, err);
    }
    mw_iter_close(iter);
    return rc == MW_OK ? mw_buf_check(payload, err) : rc;
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

/* Room for the entry, and for an abort, which must always find it. */
static mw_rc reserve_room(mw_store *store, const entry *of, mw_err *err)
{
    size_t bytes = of->request.payload.size;
    mw_rc rc = mw_buf_check(&of->request.payload, err);
    if (rc != MW_OK) return rc;
    if (bytes > MW_LOG_ENTRY_BYTES_MAX) { /* of rows there are not so many: it would be files */
        return mw_fail(err, MW_TOOBIG,
                       "an entry of %zu bytes, the limit is %d: commit in smaller "
                       "parts",
                       bytes, MW_LOG_ENTRY_BYTES_MAX);
    }
    uint64_t room = mw_log_entry_bytes(bytes) + mw_log_entry_bytes(sizeof(uint64_t));
    return mw_log_segment_reserve(store->segment, room, err);
}

/* What comes behind the entry when `sequences` of them are used. Requires its delta. */
static void fix_point(mw_store *store, entry *of, uint64_t sequences, uint64_t logical_bytes)
{
    mw_store_lock(store);
    of->generation = mw_generation_ref(store->version->generations[0]);
    of->sequence_before = store->queued.sequence;
    of->sequence_last = of->sequence_before + sequences;
    of->request.after.sequence = of->sequence_last;
    of->request.after.count = store->queued.count + of->delta;
    of->request.after.pledged = store->queued.pledged;
    store->figures.logical_bytes += logical_bytes;
    mw_store_unlock(store);
}

/* The payload of a commit or adopt becomes that of a prepare, where there is a pledge. */
static mw_rc add_pledge(entry *to, mw_err *err)
{
    mw_request *request = &to->request;
    if (!to->pledge) return MW_OK;
    mw_log_pledge_add(&request->payload, request->kind, to->pledge);
    request->kind = MW_LOG_PREPARE;
    request->sync = true;
    return mw_buf_check(&request->payload, err);
}

/* Everything about an entry that can fail before it has a position. */
static mw_rc make_entry(mw_store *store, mw_memtable *rows, entry *to, mw_err *err)
{
    uint64_t count;
    mw_rc rc = mw_request_create(store, MW_LOG_COMMIT, &to->request, err);
    if (rc == MW_OK) rc = encode_rows(store, rows, &to->request.payload, &count, err);
    if (rc == MW_OK) rc = add_pledge(to, err);
    bool frozen = false;
    if (rc == MW_OK) rc = mw_flush_freeze_if_full(store, &frozen, err);
    if (rc != MW_OK) return rc;
    if (frozen) mw_background_wake(store);
    rc = reserve_room(store, to, err);
    if (rc != MW_OK) return rc;
    to->nodes = mw_alloc(store->env, count * sizeof(mw_node *));
    if (!to->nodes) return mw_fail(err, MW_NOMEM, "no memory for a transaction");
    fix_point(store, to, count, to->request.payload.size);
    uint64_t sequence = to->sequence_before + 1;
    mw_log_rows_close(&to->request.payload, sequence, count, to->delta);
    return insert_rows(store, rows, to, sequence, err);
}

/* The same for changes that lie in files. */
static mw_rc make_adopt(mw_overlay *overlay, entry *to, mw_err *err)
{
    mw_store *store = overlay->store;
    mw_runs *runs = overlay->runs;
    uint64_t number = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < runs->count; i++) bytes += runs->runs[i]->logical_bytes;
    mw_adopted *adopted;
    mw_rc rc = mw_adopted_create(store->env, mw_runs_ref(runs), &adopted, err);
    if (rc != MW_OK) return rc;
    adopted->sequence_first = overlay->base + 1;
    adopted->sequence_last = overlay->last;
    adopted->delta = to->delta;
    rc = mw_request_create(store, MW_LOG_ADOPT, &to->request, err);
    if (rc == MW_OK) {
        mw_adopted_encode(adopted, &to->request.payload);
        rc = add_pledge(to, err);
        if (rc == MW_OK) rc = mw_flush_freeze(store, &number, err);
    }
    if (rc == MW_OK && number > 0) mw_background_wake(store);
    if (rc == MW_OK) rc = reserve_room(store, to, err);
    if (rc != MW_OK) {
        mw_adopted_free(adopted);
        return rc;
    }
    fix_point(store, to, overlay->last - overlay->base, bytes);
    assert(to->sequence_before == overlay->base);
    to->adopted = adopted;
    mw_generation_adopt(to->generation, adopted);
    return MW_OK;
}

/* Is it an entry that adopts files? */
static bool is_large(const mw_overlay *overlay)
{
    return mw_runs_count(overlay->runs) > 0 || !mw_overlay_fits_entry(overlay);
}

/* The entry of an overlay. What is in memory follows what was spilled. */
static mw_rc make_any_entry(mw_overlay *overlay, entry *to, mw_err *err)
{
    to->delta = overlay->delta;
    if (!is_large(overlay)) return make_entry(overlay->store, overlay->rows, to, err);
    mw_rc rc = overlay->change_count > 0 ? mw_overlay_spill(overlay, err) : MW_OK;
    return rc == MW_OK ? make_adopt(overlay, to, err) : rc;
}

/* The generation of files that were adopted shall be flushed soon, so that merges may begin with
** them, or, after an abort, that their room is given back. Where this fails the next freeze will do.
** Requires the turn. */
static void freeze_adopted(mw_store *store, const entry *of)
{
    mw_err ignored = {0};
    uint64_t number = 0;
    if (!of->adopted) return;
    if (mw_flush_freeze(store, &number, &ignored) == MW_OK) mw_background_wake(store);
}

static mw_rc wait_for_others(mw_txn *txn, mw_err *err)
{
    mw_rc rc = mw_txn_settle(txn, err);
    txn->state = rc == MW_OK ? PREPARED : FAILED;
    return rc;
}

/* From now on merges stay clear of what the entry has written. */
static void begin_undecided(mw_txn *txn)
{
    mw_store *store = txn->store;
    txn->undecided.generation = txn->entry.generation->number;
    mw_store_lock(store);
    txn->undecided.next = store->undecided;
    store->undecided = &txn->undecided;
    mw_store_unlock(store);
}

/* What follows the entry, abort or decision, takes no memory when it comes to that. */
static mw_rc reserve_verdict(mw_txn *txn, mw_err *err)
{
    mw_request_free(txn->store, &txn->verdict);
    mw_rc rc = mw_request_create(txn->store, MW_LOG_ABORT, &txn->verdict, err);
    if (rc != MW_OK) return rc;
    mw_buf_u64(&txn->verdict.payload, 0);
    return mw_buf_check(&txn->verdict.payload, err);
}

static mw_request *give_verdict(mw_txn *txn, mw_log_kind kind)
{
    mw_request *verdict = &txn->verdict;
    verdict->kind = kind;
    mw_put_u64(verdict->payload.data, txn->entry.request.after.position);
    return verdict;
}

static mw_rc prepare(mw_txn *txn, mw_txn_kind kind, const mw_pledge *pledge, mw_err *err)
{
    mw_store *store = txn->store;
    mw_rc rc = check_open(txn, err);
    if (rc != MW_OK) return rc;
    txn->kind = kind;
    if (mw_overlay_empty(&txn->overlay)) return wait_for_others(txn, err);
    if (is_large(&txn->overlay)) txn->kind = MW_TXN_FULL;
    txn->pledged = pledge != NULL;
    if (pledge) memcpy(txn->pledge_id, pledge->id, sizeof pledge->id);
    txn->entry.pledge = pledge;
    if (txn->kind == MW_TXN_FULL) rc = reserve_verdict(txn, err);
    if (rc == MW_OK) rc = make_any_entry(&txn->overlay, &txn->entry, err);
    txn->entry.pledge = NULL;
    if (rc != MW_OK) {
        free_entry(store, &txn->entry);
        txn->state = FAILED;
        return rc;
    }
    bool light = txn->kind == MW_TXN_LIGHT;
    txn->entry.request.publish = light;
    txn->written = true;
    txn->named = txn->entry.adopted != NULL;
    if (light) begin_undecided(txn);
    mw_commit_queue(store, &txn->entry.request);
    if (light) give_turn(txn);
    rc = mw_commit_wait(store, &txn->entry.request, err);
    txn->state = rc == MW_OK ? PREPARED : FAILED;
    if (rc != MW_OK) txn->written = false;   /* the writer has stopped: nothing can be taken back */
    if (rc == MW_FENCED) txn->named = false; /* and no successor will ever ask for the files */
    return rc;
}

mw_rc mw_txn_prepare(mw_txn *txn, mw_txn_kind kind, mw_err *err)
{
    return prepare(txn, kind, NULL, err);
}

mw_rc mw_txn_pledge(mw_txn *txn, const mw_pledge *pledge, mw_err *err)
{
    if (strlen(pledge->host) > MW_PLEDGE_HOST_BYTES_MAX) {
        return mw_fail(err, MW_TOOBIG, "the path of the database file is too long: %zu bytes",
                       strlen(pledge->host));
    }
    mw_store *store = txn->store;
    mw_rc rc = prepare(txn, MW_TXN_FULL, pledge, err);
    if (rc == MW_OK && txn->written) {
        mw_store_lock(store);
        store->prepare = txn->entry.request.after.position;
        mw_shared_show_prepare(store);
        mw_store_unlock(store);
    }
    return rc;
}

/* The state behind a pledged entry that counts. */
static mw_point pledged_point(const mw_txn *txn)
{
    mw_point after = txn->entry.request.after;
    after.pledged.position = after.position;
    memcpy(after.pledged.id, txn->pledge_id, sizeof txn->pledge_id);
    return after;
}

/* The host has committed, so the entry counts, whatever becomes of the record that says so: where
** it cannot be written the writer stops, and whoever comes next finds out from the host. */
static mw_rc write_decision(mw_txn *txn, mw_err *err)
{
    mw_store *store = txn->store;
    mw_point after = pledged_point(txn);
    mw_request *decision = give_verdict(txn, MW_LOG_DECIDE);
    decision->after = after;
    decision->publish = true;
    decision->lazy = true;
    mw_commit_queue(store, decision);
    mw_rc rc = mw_commit_wait(store, decision, err);
    if (rc != MW_OK) mw_commit_stop_decided(store, &after, err);
    return rc;
}

mw_rc mw_txn_commit(mw_txn *txn, mw_err *err)
{
    mw_err cause = {0};
    mw_rc rc = MW_OK;
    if (txn->state != PREPARED) {
        rc = mw_fail(err, MW_MISUSE, "commit of a transaction that is not prepared");
    } else if (txn->written && txn->pledged) {
        rc = write_decision(txn, &cause);
        if (rc == MW_OK) freeze_adopted(txn->store, &txn->entry);
        if (rc != MW_OK) mw_fail_as(err, &cause);
    } else if (txn->written && txn->kind == MW_TXN_FULL) {
        mw_commit_publish(txn->store, &txn->entry.request);
        freeze_adopted(txn->store, &txn->entry);
    }
    free_txn(txn);
    return rc;
}

void mw_txn_commit_unsure(mw_txn *txn, const mw_err *cause)
{
    mw_point after = pledged_point(txn);
    if (txn->state == PREPARED && txn->written) mw_commit_stop_decided(txn->store, &after, cause);
    free_txn(txn);
}

/* ---- taking an entry back -------------------------------------------------------------------- */

/* Full: the entry is the last of the log; cancels it with the record behind it. */
static mw_rc write_abort(mw_txn *txn, mw_err *err)
{
    mw_store *store = txn->store;
    mw_request *abort = give_verdict(txn, MW_LOG_ABORT);
    remove_rows(&txn->entry);
    if (txn->entry.adopted) atomic_store(&txn->entry.adopted->aborted, true);
    mw_store_lock(store);
    abort->after = store->queued;
    mw_store_unlock(store);
    abort->after.sequence = txn->entry.sequence_before;
    abort->after.count -= txn->entry.delta;
    abort->publish = true;
    abort->sync = true;
    mw_commit_queue(store, abort);
    mw_rc rc = mw_commit_wait(store, abort, err);
    if (rc == MW_OK) {
        txn->named = false;
        freeze_adopted(store, &txn->entry);
    }
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
        if (*yes) break;
        bool deleted;
        const mw_runs *runs = mw_generation_runs(generation, UINT64_MAX);
        mw_rc rc = mw_runs_find(runs, key, yes, &deleted, err);
        if (rc != MW_OK) return rc;
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
    mw_overlay undo;   /* its rows                                   */
    bool named;        /* the log may name the files of undo         */
    mw_buf row;
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
    int delta = (lived ? 1 : 0) - (written->tombstone ? 0 : 1);
    mw_log_op op = {!lived, written->key, mw_buf_slice(&self->row)};
    return add_change(&self->undo, &op, delta, err);
}

static mw_rc collect(compensation *self, mw_err *err)
{
    mw_iter *iter;
    mw_txn *txn = self->txn;
    uint32_t column_count = txn->store->schema->column_count;
    mw_rc rc = mw_memtable_iter(txn->overlay.rows, UINT64_MAX, column_count, &iter, err);
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
    entry undo = {0};
    if (mw_overlay_empty(&self->undo)) return MW_OK; /* others have replaced all of it */
    mw_rc rc = make_any_entry(&self->undo, &undo, err);
    if (rc == MW_OK) {
        self->named = undo.adopted != NULL;
        undo.request.publish = true;
        undo.request.sync = true;
        mw_commit_queue(store, &undo.request);
        rc = mw_commit_wait(store, &undo.request, err);
    }
    if (rc == MW_OK) freeze_adopted(store, &undo);
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
    mw_store_lock(store);
    uint64_t base = store->queued.sequence;
    mw_store_unlock(store);
    rc = mw_overlay_init(&self.undo, store, base, err);
    if (rc == MW_OK) rc = open_before(txn, &self.before, err);
    if (rc == MW_OK) rc = collect(&self, err);
    if (rc == MW_OK) rc = write_compensation(&self, err);
    mw_turn_give(store);
    mw_cursor_close(self.before);
    mw_overlay_free(&self.undo, !self.named);
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
