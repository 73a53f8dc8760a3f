/* entry.h: how a process comes to a store: by the lock, as its next owner, or beside another. */
#ifndef MW_ENTRY_H
#define MW_ENTRY_H

#include "store.h"

/* Takes the lock of the folder. *free is false when another process has it. */
mw_rc mw_entry_lock(mw_store *store, bool *free, mw_err *err) MW_MUST_USE;

/* Requires the lock: shows what the newest manifest and the log behind it say, and goes on in the
** epoch that was left cleanly, or claims the next one. Where that cannot be done now the rows can be
** read all the same, and whoever writes first tries again. */
mw_rc mw_entry_enter(mw_store *store, mw_err *err) MW_MUST_USE;

/* Gives the lock up: the store is followed from now on. Requires the lock, the turn or that nobody
** else has the store yet, and that all is at rest. After a failure nothing has changed. */
mw_rc mw_entry_leave(mw_store *store, mw_err *err) MW_MUST_USE;

/* Makes this process the one that may write, if it is not yet: before its first write. Waits for
** another process's lock until the deadline (MW_BUSY). Requires the turn. */
mw_rc mw_entry_own(mw_store *store, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;

/* Until nothing is under way that a host decides about (hosts: also where its writer lives: for who
** knows that the host has decided). A dead writer's is looked at: mw_epoch_settled tells. MW_BUSY:
** it was still under way at the deadline. Not for whoever has such a transaction himself. */
mw_rc mw_entry_await(mw_store *store, bool hosts, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;

/* Takes the lock back, for a claim that settles what kept us from being the one. Requires the turn. */
mw_rc mw_entry_return(mw_store *store, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;
/* Gives the lock up where we have it and cannot become the one that writes: others may, and what is
** shown stays. Requires the turn. */
void mw_entry_give_up(mw_store *store);

/* The same for a flush or a merge: it stays the one until mw_entry_end_job. Takes the turn for a
** moment. */
mw_rc mw_entry_begin_job(mw_store *store, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;
/* For one that works for the owner only: false, and nothing to end, when that is not us. Requires
** `mutex`. */
bool mw_entry_join_job(mw_store *store);
void mw_entry_end_job(mw_store *store);

/* Gives the lock up if another process waits for it, or (idle) in any case, unless somebody here is
** in the middle of something. The store is followed then, and left as cleanly as by closing it. */
void mw_entry_offer(mw_store *store, bool idle);

/* Was it refused because nothing can be written here, and not because something is broken? */
bool mw_entry_is_read_only(const mw_err *cause);

#endif
