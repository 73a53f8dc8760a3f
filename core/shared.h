/* shared.h: what the process that writes a store shows to those that read it: how far its log is
** published, and which manifest is in force. A page of the file `shared` that all of them map, so
** that looking at it is no system call.
**
** It is never the only copy of anything: a reader goes on in the log up to the published position,
** and reads the manifest. */
#ifndef MW_SHARED_H
#define MW_SHARED_H

#include "store.h"

/* Maps the page. create: makes it anew, for the process that has the store's lock; else *there is
** false, and nothing is mapped, when there is none of this start of the machine. */
mw_rc mw_shared_open(mw_store *store, bool create, bool *there, mw_err *err) MW_MUST_USE;
void mw_shared_close(mw_store *store); /* also when it is not open */

/* Shows what is visible and in force now, if the page is open. Requires `mutex`, and that the store
** is not followed. */
void mw_shared_show(mw_store *store);
/* The same for the newest prepare, before the host commits. */
void mw_shared_show_prepare(mw_store *store);
bool mw_shared_look_prepare(const mw_store *store, uint64_t *prepare);

/* The page's figures; false: it has none that can be relied on. Takes no lock. */
bool mw_shared_look(const mw_store *store, uint64_t *position, uint64_t *manifest);

#endif
