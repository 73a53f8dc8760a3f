/* flush.h: from the active memtable to a listed table file. */
#ifndef MW_FLUSH_H
#define MW_FLUSH_H

#include "store.h"

/* Freezes the active memtable: its boundary is the last queued position; what is queued later goes
** to a new segment and has the next generation. Requires the turn. *generation: the number frozen,
** 0 when the active memtable holds no position. After a failure nothing has changed. */
mw_rc mw_flush_freeze(mw_store *store, uint64_t *generation, mw_err *err) MW_MUST_USE;

/* The same when the active memtable has passed its limit. Requires the turn. */
mw_rc mw_flush_freeze_if_full(mw_store *store, bool *frozen, mw_err *err) MW_MUST_USE;

/* Flushes frozen generations, oldest first, up to and including `through`. */
mw_rc mw_flush_run(mw_store *store, uint64_t through, uint64_t deadline_ns,
                   mw_err *err) MW_MUST_USE;

/* Slows a writer down while too many memtables are frozen or too many generations wait for a merge;
** without background work it flushes and merges what is due itself. MW_FULL: that has not kept up
** for a long time, with the reason. The wait has its own bound: it is not a conflict with another
** writer, so nobody's busy timeout speaks about it. */
mw_rc mw_flush_make_room(mw_store *store, mw_err *err) MW_MUST_USE;

/* Is there something for a background thread to flush? Requires `mutex`. */
bool mw_flush_due(const mw_store *store);

#endif
