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

/* Makes this process the one that may write, if it is not yet: before its first write. Waits for
** another process's lock until the deadline (MW_BUSY). Requires the turn. */
mw_rc mw_entry_own(mw_store *store, uint64_t deadline_ns, mw_err *err) MW_MUST_USE;

/* Was it refused because nothing can be written here, and not because something is broken? */
bool mw_entry_is_read_only(const mw_err *cause);

#endif
