/* leftovers.h: what a crash has left in the folder. */
#ifndef MW_LEFTOVERS_H
#define MW_LEFTOVERS_H

#include "store.h"

/* Removes what a crash left behind: temporary files, segments and table files of lower epochs that
** nothing lists, manifests below the boundary. alone: nobody else has the store and no job is
** running, so those of our own epoch go as well. Learns which numbers of our epoch are taken. Best
** effort (what stays is removed next time); requires a sealed epoch of ours. */
void mw_leftovers_sweep(mw_store *store, bool alone);

#endif
