/* level_iter.h: neighbouring files of one base level as one source: they lie apart, so one of them
** is open at a time, and a merge has one source a level. */
#ifndef MW_LEVEL_ITER_H
#define MW_LEVEL_ITER_H

#include "levels.h"
#include "table_read.h"

/* All borrowed until the iterator is closed. */
typedef struct mw_level_source {
    const mw_env *env;
    const mw_manifest *manifest;
    mw_table *const *tables; /* of the manifest's files, in the opposite order, as in a version */
    mw_file_run run;
} mw_level_source;

/* Yields sequence 0 (iter.h). */
mw_rc mw_level_iter(const mw_level_source *source, mw_iter **iter, mw_err *err) MW_MUST_USE;

/* The table file that it stands in, as an iterator of that alone; NULL: nowhere. Borrowed until it
** moves. */
mw_iter *mw_level_iter_file(mw_iter *iter);

/* Number of a manifest's file in the list of tables. */
static inline uint32_t mw_level_table(const mw_manifest *manifest, uint32_t file)
{
    return manifest->file_count - 1 - file;
}

#endif
