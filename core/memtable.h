/* memtable.h: sorted row versions in memory.
**
** A skip list over an arena, ordered by key ascending, then sequence descending. One thread at a
** time may add or remove (whoever holds the turn); any number of threads read at the same moment
** without a lock. Nothing is freed before the last reference goes.
**
** Skip lists: W. Pugh, "Skip Lists: A Probabilistic Alternative to Balanced Trees", CACM 33(6),
** 1990; the lock-free reader over an arena follows LevelDB's. */
#ifndef MW_MEMTABLE_H
#define MW_MEMTABLE_H

#include "iter.h"

typedef struct mw_memtable mw_memtable;
typedef struct mw_node mw_node; /* one row version; lives as long as its memtable */

/* One reference for the caller. NULL: no memory. */
mw_memtable *mw_memtable_create(const mw_env *env) MW_MUST_USE;
mw_memtable *mw_memtable_ref(mw_memtable *memtable); /* thread-safe, returns its argument */
void mw_memtable_unref(mw_memtable *memtable);       /* thread-safe, takes NULL */
bool mw_memtable_shared(const mw_memtable *memtable); /* is there a reference besides the caller's? */

/* Copies key and row (a value.h row; empty for a tombstone) in. Requires that (key, sequence) is
** not there yet. *node (may be NULL): the new version. After a failure nothing has changed. */
mw_rc mw_memtable_add(mw_memtable *memtable, mw_slice key, uint64_t sequence, bool tombstone,
                      mw_slice row, mw_node **node, mw_err *err) MW_MUST_USE;

/* Takes a version out again (a rollback). Readers that stand on it go on safely. */
void mw_memtable_remove(mw_memtable *memtable, mw_node *node);

/* Newest version of key with sequence <= limit; NULL when there is none. */
const mw_node *mw_memtable_find(const mw_memtable *memtable, mw_slice key, uint64_t limit);

mw_slice mw_node_key(const mw_node *node);
mw_slice mw_node_row(const mw_node *node);
uint64_t mw_node_sequence(const mw_node *node);
bool mw_node_tombstone(const mw_node *node);

/* Iterates ids, each with its newest version of sequence <= limit; ids that have none are left out.
** column_count: columns of a row. Holds a reference. */
mw_rc mw_memtable_iter(mw_memtable *memtable, uint64_t limit, uint32_t column_count, mw_iter **iter,
                       mw_err *err) MW_MUST_USE;

size_t mw_memtable_bytes(const mw_memtable *memtable);      /* arena memory in use        */
uint64_t mw_memtable_versions(const mw_memtable *memtable); /* row versions, tombstones included */
/* Row of the version that an iterator of a memtable stands on (for copying rows whole). */
mw_slice mw_memtable_iter_row(const mw_iter *iter);

#endif
