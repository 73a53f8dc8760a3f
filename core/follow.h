/* follow.h: reading beside another process that writes the store. */
#ifndef MW_FOLLOW_H
#define MW_FOLLOW_H

#include "store.h"

/* Opens the store as it is while another process has its lock: at the published position of its
** log. MW_BUSY: that cannot be told at this moment, and not until the deadline either. */
mw_rc mw_follow_open(mw_store *store, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;

/* The same with the lock in our hands: nobody publishes any more. Requires follow_mutex. */
mw_rc mw_follow_to_end(mw_store *store, mw_err *err) MW_MUST_USE;

/* Before a reader takes its moment: catches up with what the other process has published. No system
** call where that is nothing. Does nothing in a store that is not followed. */
mw_rc mw_follow(mw_store *store, mw_err *err) MW_MUST_USE;

#endif
