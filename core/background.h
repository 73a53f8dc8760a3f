/* background.h: the thread that flushes, merges and syncs for a store. */
#ifndef MW_BACKGROUND_H
#define MW_BACKGROUND_H

#include "store.h"

/* Starts the thread if the store may have one and has none. Best effort: without a thread writers
** flush for themselves. */
void mw_background_start(mw_store *store);
/* The same, and wakes it. */
void mw_background_wake(mw_store *store);

/* Ends the thread, if there is one: the step at hand is finished or given up between slices.
** Requires that store->closing is set. */
void mw_background_stop(mw_store *store);

#endif
