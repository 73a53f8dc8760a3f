/* levels.c: the files of a manifest, seen as levels.
**
**     list     [level 2: a..f][level 2: g..t] [level 1: c..k] [generation 7][generation 8]
**     levels    `------- files[2] --------'   `-- files[1] -'  `------- files[0] -------'
**
** The files of one base level lie apart, in the order of their keys (FORMAT.md, rule 9): at most
** one of them can hold a key, and a binary search finds it. Generations may hold any key. */
#include "levels.h"

#include <string.h>

void mw_levels_of(const mw_manifest *manifest, mw_levels *levels)
{
    memset(levels, 0, sizeof *levels);
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const mw_manifest_file *file = &manifest->files[i];
        assert(file->level < MW_LEVELS_MAX);
        mw_file_run *run = &levels->files[file->level];
        if (run->count++ == 0) run->first = i;
        levels->bytes[file->level] += file->props.bytes;
        levels->versions += file->props.rows + file->props.tombstones;
    }
    for (uint32_t level = 1; level < MW_LEVELS_MAX; level++) {
        if (levels->files[level].count == 0) continue;
        if (levels->top == 0) levels->top = level;
        levels->deepest = level;
    }
}

uint32_t mw_levels_seek(const mw_manifest *manifest, mw_file_run run, mw_slice key)
{
    uint32_t low = run.first, high = run.first + run.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mw_slice_compare(manifest->files[middle].keys.max, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool mw_levels_in_range(const mw_manifest *manifest, uint32_t file, mw_slice key)
{
    const mw_key_range *keys = &manifest->files[file].keys;
    return mw_slice_compare(keys->min, key) <= 0 && mw_slice_compare(key, keys->max) <= 0;
}

mw_file_run mw_levels_overlap(const mw_manifest *manifest, mw_file_run run,
                              const mw_key_range *range)
{
    mw_file_run found = {mw_levels_seek(manifest, run, range->min), 0};
    uint32_t end = run.first + run.count;
    for (uint32_t i = found.first; i < end; i++) {
        if (mw_slice_compare(manifest->files[i].keys.min, range->max) > 0) break;
        found.count++;
    }
    return found;
}
