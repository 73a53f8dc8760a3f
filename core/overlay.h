/* overlay.h: a transaction's own changes, in memory and, beyond a limit, in runs.
**
** Used by one thread at a time, the transaction's; what a snapshot holds (rows and runs) stays as
** it is. */
#ifndef MW_OVERLAY_H
#define MW_OVERLAY_H

#include "store.h"

/* One change in memory, for undoing it. */
typedef struct mw_change {
    mw_node *node;
    int delta; /* -1, 0, +1 live ids */
} mw_change;

typedef struct mw_overlay {
    mw_store *store;
    mw_memtable *rows;  /* changes with sequences above `spilled`, multi-version           */
    mw_change *changes; /* those that are in rows, oldest first                            */
    uint64_t change_count;
    uint64_t change_capacity;
    mw_runs *runs;    /* the older changes; NULL: there are none                         */
    uint64_t base;    /* sequence of the state that all of it is built on                */
    uint64_t last;    /* newest sequence given, never falls: no number is used twice     */
    uint64_t spilled; /* everything up to here is in runs, or undone                     */
    int64_t delta;    /* of the count, by all changes                                    */
    uint64_t *marks;  /* that undo may go back to: rising, each once                     */
    uint32_t mark_count;
    uint32_t mark_capacity;
    uint64_t limit_bytes; /* of what is in memory: beyond it is spilled */
} mw_overlay;

/* Changes get the sequences above base. Freed by mw_overlay_free, also after a failure. */
mw_rc mw_overlay_init(mw_overlay *overlay, mw_store *store, uint64_t base, mw_err *err) MW_MUST_USE;
/* doom: nothing in the log names the runs, so their files go. Takes a zeroed one. */
void mw_overlay_free(mw_overlay *overlay, bool doom);

bool mw_overlay_empty(const mw_overlay *overlay);

/* The newest change of key. */
mw_rc mw_overlay_find(const mw_overlay *overlay, mw_slice key, bool *found, bool *tombstone,
                      mw_err *err) MW_MUST_USE;

/* Adds a change. After a failure nothing has changed. */
mw_rc mw_overlay_add(mw_overlay *overlay, const mw_log_op *op, int delta, mw_err *err) MW_MUST_USE;

/* Has what is in memory passed the limit of a memtable? */
bool mw_overlay_full(const mw_overlay *overlay);
/* Does what is in memory fit into one entry of the log, beside all that needs memory then? */
bool mw_overlay_fits_entry(const mw_overlay *overlay);
/* Moves all that is in memory to runs: one for each part between two marks, so that undo never
** divides one. Requires the turn. After a failure nothing has changed. */
mw_rc mw_overlay_spill(mw_overlay *overlay, mw_err *err) MW_MUST_USE;

/* Marks: a mark stands for all changes so far. */
mw_rc mw_overlay_mark(mw_overlay *overlay, uint64_t *mark, mw_err *err) MW_MUST_USE;
void mw_overlay_release(mw_overlay *overlay, uint64_t kept); /* forgets the marks above kept */
/* Takes back what came after the mark, and forgets the marks after it. 0: everything. MW_MISUSE:
** the mark was released. After a failure nothing has changed. */
mw_rc mw_overlay_undo(mw_overlay *overlay, uint64_t mark, mw_err *err) MW_MUST_USE;

#endif
