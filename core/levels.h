/* levels.h: the files of a manifest, seen as levels: where each begins and ends, and which file of
** a base level a key belongs to. */
#ifndef MW_LEVELS_H
#define MW_LEVELS_H

#include "manifest.h"

enum { MW_LEVELS_MAX = 16 }; /* numbers of levels: 0 the generations, then the base */

/* Neighbours in a manifest's list of files. */
typedef struct mw_file_run {
    uint32_t first;
    uint32_t count;
} mw_file_run;

typedef struct mw_levels {
    mw_file_run files[MW_LEVELS_MAX]; /* of each level */
    uint64_t bytes[MW_LEVELS_MAX];
    uint32_t top;      /* number of the first base level that has files, 0: there is no base */
    uint32_t deepest;  /* ... of the last one                                               */
    uint64_t versions; /* rows and tombstones of all files                                  */
} mw_levels;

void mw_levels_of(const mw_manifest *manifest, mw_levels *levels);

/* The first file of a run of one base level whose range does not end before key; behind the run:
** there is none. */
uint32_t mw_levels_seek(const mw_manifest *manifest, mw_file_run run, mw_slice key);
/* Does the range of a listed file hold key? */
bool mw_levels_in_range(const mw_manifest *manifest, uint32_t file, mw_slice key);
/* The files of a run of one base level that have room for a key in range. */
mw_file_run mw_levels_overlap(const mw_manifest *manifest, mw_file_run run,
                              const mw_key_range *range);

#endif
