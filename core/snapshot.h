/* snapshot.h: one moment of the store, and cursors over it (the functions are in db.h). */
#ifndef MW_SNAPSHOT_H
#define MW_SNAPSHOT_H

#include "store.h"

struct mw_snapshot {
    mw_store *store;
    atomic_uint refs;
    mw_version *version;
    uint64_t sequence;      /* versions above it are not seen                      */
    int64_t count;          /* live ids, the overlay's changes included            */
    mw_memtable *overlay;   /* a transaction's own changes, NULL: none             */
    uint64_t overlay_limit; /* its changes above this are not seen               */
    mw_runs *runs;          /* its older changes, NULL: none                     */
    uint64_t taken_ns;
    bool kept;                 /* [m] its files are (mw_snapshots_keep) */
    struct mw_snapshot *older; /* [m] in the list of those that are alive */
    struct mw_snapshot *newer; /* [m] */
};

/* What a snapshot is made of; version, overlay and runs are referenced. */
mw_rc mw_snapshot_create(mw_store *store, const struct mw_snapshot *of, mw_snapshot **snapshot,
                         mw_err *err) MW_MUST_USE;

/* Another process may write from now on: whatever is read here, and comes to be read of the current
** version, stays readable (mw_table_keep). Requires the turn, and that nothing is written meanwhile. */
mw_rc mw_snapshots_keep(mw_store *store, mw_err *err) MW_MUST_USE;

/* Appends the row that the cursor stands on, as value.h lays it out. */
mw_rc mw_cursor_row(mw_cursor *cursor, mw_buf *row, mw_err *err) MW_MUST_USE;

#endif
