/* state.h: the file `state`. */
#ifndef MW_STATE_H
#define MW_STATE_H

#include "store.h"

/* The state file: was the store closed cleanly, on this start of the machine? Sets closed_at and
** state_damaged. Writing requires that everything visible is durable. */
mw_rc mw_state_read(mw_store *store, bool *clean, mw_err *err) MW_MUST_USE;
/* MW_CORRUPT: it is damaged, or was when the store was opened. Requires the turn. */
mw_rc mw_state_check(mw_store *store, mw_err *err) MW_MUST_USE;
mw_rc mw_state_write(mw_store *store, bool clean, mw_err *err) MW_MUST_USE;

#endif
