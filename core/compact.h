/* compact.h: merges: generations and the base into a new base, in bounded slices. */
#ifndef MW_COMPACT_H
#define MW_COMPACT_H

#include "store.h"

/* Which files a merge takes: the first `file_count` of the manifest's list (base, then generations,
** oldest first). file_count 0: nothing to do. */
typedef struct mw_pick {
    uint32_t file_count;
    uint32_t generations; /* of them */
} mw_pick;

/* Pure. Takes at most max_generations (0: all), none at or above `below`. */
mw_pick mw_compact_pick(const mw_manifest *manifest, uint32_t max_generations, uint64_t below);

/* Is a merge due by the store's options? Requires `mutex`. */
bool mw_compact_due(const mw_store *store);

/* A merge at work. */
typedef struct mw_compact mw_compact;

/* Starts a merge. Requires merge_mutex. *compact NULL: there is nothing to merge. */
mw_rc mw_compact_start(mw_store *store, uint32_t max_generations, mw_compact **compact,
                       mw_err *err) MW_MUST_USE;
/* Merges on for about one slice; *done: everything is written. */
mw_rc mw_compact_step(mw_compact *compact, bool *done, mw_err *err) MW_MUST_USE;
/* Requires done: lists the result in place of its inputs, frees the merge in any case. */
mw_rc mw_compact_finish(mw_compact *compact, uint32_t *folded, mw_err *err) MW_MUST_USE;
/* Gives up: removes what was written, frees the merge. Takes NULL. */
void mw_compact_abandon(mw_compact *compact);

/* All of it, asking `interrupted` (may be NULL) between slices. Takes merge_mutex. */
typedef bool (*mw_interrupted)(void *arg);
mw_rc mw_compact_run(mw_store *store, uint32_t max_generations, mw_interrupted interrupted,
                     void *arg, uint32_t *folded, mw_err *err) MW_MUST_USE;

#endif
