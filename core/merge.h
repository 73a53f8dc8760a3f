/* merge.h: one sorted view of many sources: the newest version of each id wins.
**
** Sources are given newest first; where several hold an id, the first of them counts and the others
** are passed over. A k-way merge over a binary heap (Knuth, TAOCP vol. 3, 5.4.1). */
#ifndef MW_MERGE_H
#define MW_MERGE_H

#include "iter.h"

typedef enum mw_tombstones {
    MW_KEEP_TOMBSTONES, /* they are yielded like rows: something older may lie below   */
    MW_DROP_TOMBSTONES, /* ids whose newest version is a tombstone are left out        */
} mw_tombstones;

/* sources: count iterators, newest first; taken (closed with the merge), also on failure. Proves
** that when two sources hold one id, the sequences fall with the order of the sources (MW_CORRUPT);
** sources without sequences (iter.h) come last, in an order that nothing but the caller tells. */
mw_rc mw_merge_create(const mw_env *env, mw_iter **sources, uint32_t count,
                      mw_tombstones tombstones, mw_iter **iter, mw_err *err) MW_MUST_USE;

/* The source in which a merge stands, borrowed until it moves. *next: the key at which the next one
** of the others stands, borrowed likewise; *alone: they are all at their end. Requires valid. */
mw_iter *mw_merge_leader(mw_iter *iter, mw_slice *next, bool *alone);

#endif
