/* pick.h: what is to be merged next: a pure function of a manifest and the options. */
#ifndef MW_PICK_H
#define MW_PICK_H

#include "levels.h"

typedef struct mw_pick_limits {
    uint32_t merge_generations; /* files of level 0 that make a merge due    */
    uint64_t memtable_bytes;    /* of the options: how large generations get */
    uint64_t file_bytes;        /* of a base file, at most about             */
    uint64_t below;             /* generations from here on are left alone   */
} mw_pick_limits;

typedef enum mw_pick_kind {
    MW_PICK_NOTHING,
    MW_PICK_MERGE,  /* `above` and `below` are merged into files of level `output`        */
    MW_PICK_MOVE,   /* `above` becomes part of level `output` as it is                    */
    MW_PICK_DEEPEN, /* `above`, the whole base, goes down by one level each, as it is     */
} mw_pick_kind;

typedef struct mw_pick {
    mw_pick_kind kind;
    uint32_t level;       /* of above */
    uint32_t output;      /* level of below, and of what comes out */
    mw_file_run above;    /* inputs: places in the manifest's list */
    mw_file_run below;
    uint32_t generations; /* that are in above to their last file  */
} mw_pick;

/* The most pressing job, if any is due. */
mw_pick mw_pick_due(const mw_manifest *manifest, const mw_pick_limits *limits);
/* Is one? The same answer from a quick look; limits->below does not count. */
bool mw_pick_is_due(const mw_manifest *manifest, const mw_levels *levels,
                    const mw_pick_limits *limits);

/* Due or not: the oldest generations, at most max_generations (0: no limit) and no more files than
** one merge reads at once. */
mw_pick mw_pick_generations(const mw_manifest *manifest, const mw_pick_limits *limits,
                            uint32_t max_generations);

/* The next job on the way to one sorted level without tombstones. */
mw_pick mw_pick_compact(const mw_manifest *manifest, const mw_pick_limits *limits);

#endif
