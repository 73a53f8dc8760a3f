/* epoch.h: who may write: claim, seal, fence. */
#ifndef MW_EPOCH_H
#define MW_EPOCH_H

#include "replay.h"
#include "store.h"

/* Claims the next epoch, replays the log of the older ones to its end, seals, and makes the result
** the store's state: afterwards the store is owned. Requires the turn (or that nobody else has the
** store yet). judge: decides about a prepare that the log ends with; NULL: MW_UNDECIDED where one is
** needed. MW_BUSY: peers claim still higher epochs, again and again. */
mw_rc mw_epoch_takeover(mw_store *store, const mw_judge *judge, mw_err *err) MW_MUST_USE;

/* Makes what the log says the store's state, for reading: claims nothing, writes nothing. What may
** live in the page cache only is synced first. A prepare without a decision is left out, or, with a
** judge, what he says. Requires the turn, or that nobody else has the store yet. */
mw_rc mw_epoch_look(mw_store *store, const mw_judge *judge, mw_err *err) MW_MUST_USE;

/* Has somebody written to the store since mw_epoch_look? Requires the turn. */
mw_rc mw_epoch_moved(mw_store *store, bool *moved, mw_err *err) MW_MUST_USE;

/* Goes on as the owner of the epoch that was closed cleanly, behind the end that `replayed`
** found. */
mw_rc mw_epoch_resume(mw_store *store, const mw_replay *replayed, mw_err *err) MW_MUST_USE;

/* MW_UNDECIDED: the last transaction has to be settled first (mw_db_settle). Takes `mutex`. */
mw_rc mw_epoch_settled(mw_store *store, mw_err *err) MW_MUST_USE;

/* Makes the store the owner of its epoch if it is not yet: before its first write. Requires the
** turn. */
mw_rc mw_epoch_own(mw_store *store, mw_err *err) MW_MUST_USE;

/* After a sync: may entries up to last_position be acknowledged? Looks into the file system. MW_OK:
** all. MW_FENCED: a peer owns the store; those below *fence are its heritage and count, the others
** never will. A claim that stays unsealed past a deadline is overtaken, so that the answer is
** always definite. */
mw_rc mw_epoch_fence(mw_store *store, uint64_t last_position, uint64_t *fence,
                     mw_err *err) MW_MUST_USE;

#endif
