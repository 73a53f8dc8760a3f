/* commit.h: the turn, the queue of log entries, and the completion of each.
**
** A commit is acknowledged by its own completion only: a cell that the leader fills with the result
** of the write, sync and fence check that contained exactly this entry. Nothing compares positions
** with a watermark to say "done". */
#ifndef MW_COMMIT_H
#define MW_COMMIT_H

#include "store.h"

/* One entry on its way into the log. The caller's, must stay until done. */
typedef struct mw_request {
    struct mw_request *next;
    mw_log_kind kind;
    mw_buf payload;          /* encoded before it is queued                              */
    mw_log_segment *segment; /* where it goes                                            */
    bool publish;            /* light, abort: becomes visible as soon as it is decided   */
    bool sync;               /* takes something back, or a host relies on it: durable whatever
                             ** the durability is                                            */
    bool lazy;               /* nothing relies on it: whatever is synced later takes it along */
    mw_point after;          /* the store behind this entry; position: this entry's own  */
    mw_cond *cond;
    bool done;     /* the completion: set together with result                 */
    mw_err result; /* rc MW_OK: acknowledged                                   */
} mw_request;

mw_rc mw_request_create(mw_store *store, mw_log_kind kind, mw_request *request,
                        mw_err *err) MW_MUST_USE;
void mw_request_free(mw_store *store, mw_request *request); /* also a zeroed one */

/* Waits for the turn until deadline_ns: MW_BUSY after it, or why writing has stopped. First come,
** first served. */
mw_rc mw_turn_take(mw_store *store, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;
void mw_turn_give(mw_store *store);
/* Takes it if nobody has it or waits for it. */
bool mw_turn_try(mw_store *store);

/* Gives the request its position, the next one, and queues it. Requires the turn, an encoded
** payload and reserved room. after.sequence and after.count are set by the caller. Cannot fail. */
void mw_commit_queue(mw_store *store, mw_request *request);

/* Waits for the request's own completion, leading a group where nobody does. Its result. */
mw_rc mw_commit_wait(mw_store *store, mw_request *request, mw_err *err) MW_MUST_USE;

/* Publishes a full transaction's entry, which is the last of the log. Requires the turn. */
void mw_commit_publish(mw_store *store, const mw_request *request);

/* The last entry counts, but the record that says so could not be written: makes `after` what is
** visible and stops all writing. Requires the turn. */
void mw_commit_stop_decided(mw_store *store, const mw_point *after, const mw_err *cause);

/* Waits until everything queued up to position is published; a barrier: it writes nothing. */
mw_rc mw_commit_settle(mw_store *store, uint64_t position, uint64_t deadline_ns,
                       mw_err *err) MW_MUST_USE;

/* Syncs what durability normal has written without a sync. */
mw_rc mw_commit_sync(mw_store *store, mw_err *err) MW_MUST_USE;

/* Fails every queued request that nobody is writing yet, and waits for the group in flight. */
void mw_commit_close(mw_store *store);

#endif
