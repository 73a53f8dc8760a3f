/* txn.h: a write transaction (the functions are in db.h). */
#ifndef MW_TXN_H
#define MW_TXN_H

#include "commit.h"
#include "snapshot.h"

/* The newest state with the transaction's changes up to now. */
mw_rc mw_txn_snapshot(mw_txn *txn, mw_snapshot **snapshot, mw_err *err) MW_MUST_USE;

/* The oldest generation that a prepared light transaction, which may still be rolled back, has
** written to; UINT64_MAX: there is none. A merge leaves that one and all later ones alone.
** Requires `mutex`. */
uint64_t mw_txn_undecided_generation(const mw_store *store);

#endif
