/* table_read.h: reads one table file. Every byte is verified before use; damage is MW_CORRUPT that
** names file and offset.
**
** A table stands for a file, which is opened when something is first asked of it, and closed when
** its pool needs the room; then it is opened and verified again. */
#ifndef MW_TABLE_READ_H
#define MW_TABLE_READ_H

#include "table_pool.h"
#include "table_write.h"

/* Where a file lies and what the manifest says of it. */
typedef struct mw_table_listing {
    int dir;
    const mw_table_props *props;
    const mw_key_range *keys;
} mw_table_listing;

/* A table of a listed file, which nobody looks at yet. Whenever it is opened it must have the
** identity in options (store, epoch, number, schema; the schema outlives the table), and props and
** keys of the listing (copied). One reference for the caller. */
mw_rc mw_table_make(mw_table_pool *pool, const mw_table_options *options,
                    const mw_table_listing *listing, mw_table **table, mw_err *err) MW_MUST_USE;
/* Opens and verifies the file, if it is not open. */
mw_rc mw_table_probe(mw_table *table, mw_err *err) MW_MUST_USE;

/* Opens a file outside of any pool, at once and for the table's life; verifies footer, properties
** and index against the identity in options (store, epoch, number, schema; the schema outlives the
** table) and expected (from the manifest; its checksum and bytes must agree; NULL: no manifest at
** hand). One reference for the caller. cache: borrowed, outlives the table. */
mw_rc mw_table_open(const mw_env *env, int dir, mw_cache *cache, const mw_table_options *options,
                    const mw_table_props *expected, mw_table **table, mw_err *err) MW_MUST_USE;
mw_table *mw_table_ref(mw_table *table); /* thread-safe, returns its argument */
void mw_table_unref(mw_table *table);    /* thread-safe, takes NULL; the last one closes the file */
/* Nothing lists the file any more: it is removed when the last reference goes; best effort, what
** stays is swept when the store is opened again. Thread-safe, needs a reference. */
void mw_table_doom(mw_table *table);
/* Others write from now on: they may remove the file, and give its name to another. It is opened, stays
** open as long as the table lives, and is theirs to remove. Thread-safe, needs a reference. */
mw_rc mw_table_keep(mw_table *table, mw_err *err) MW_MUST_USE;
/* They do not write after all: the file may be closed when descriptors are needed. */
void mw_table_let_go(mw_table *table);

const mw_table_props *mw_table_properties(const mw_table *table);
const char *mw_table_file_name(const mw_table *table);
mw_slice mw_table_first_key(const mw_table *table); /* empty table: empty slice */
mw_slice mw_table_last_key(const mw_table *table);
uint64_t mw_table_number(const mw_table *table);
uint64_t mw_table_epoch(const mw_table *table);

/* Tells for sure that key is absent (false), from key range and filter alone. */
mw_rc mw_table_may_hold(mw_table *table, mw_slice key, bool *maybe, mw_err *err) MW_MUST_USE;

/* Is key here, and as what? Touches the filter and at most one key page. */
mw_rc mw_table_find(mw_table *table, mw_slice key, bool *found, bool *tombstone,
                    mw_err *err) MW_MUST_USE;

/* Iterates the file. Holds a reference. */
mw_rc mw_table_iter(mw_table *table, mw_iter **iter, mw_err *err) MW_MUST_USE;

/* Moves an iterator of a table to key if it is there, asking the filter first. *found is then
** iter->valid. */
mw_rc mw_table_iter_find(mw_iter *iter, mw_slice key, bool *found, mw_err *err) MW_MUST_USE;

/* Reads every byte and proves every rule of the format: checksums, order of keys, counts, min/max,
** the filter's answer for every id, no gap and no byte left over. */
mw_rc mw_table_verify(mw_table *table, mw_err *err) MW_MUST_USE;

#endif
