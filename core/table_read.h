/* table_read.h: reads one table file. Every byte is verified before use; damage is MW_CORRUPT that
** names file and offset. */
#ifndef MW_TABLE_READ_H
#define MW_TABLE_READ_H

#include "cache.h"
#include "table_write.h"

typedef struct mw_table mw_table; /* an open table file, shared by reference count */

/* Opens the file, verifies footer, properties and index against the identity in options (store,
** epoch, number, schema) and expected (from the manifest; its checksum and bytes must agree; NULL:
** no manifest at hand). One reference for the caller. cache: borrowed, outlives the table. */
mw_rc mw_table_open(const mw_env *env, int dir, mw_cache *cache, const mw_table_options *options,
                    const mw_table_props *expected, mw_table **table, mw_err *err) MW_MUST_USE;
mw_table *mw_table_ref(mw_table *table); /* thread-safe, returns its argument */
void mw_table_unref(mw_table *table);    /* thread-safe, takes NULL; the last one closes the file */

const mw_table_props *mw_table_properties(const mw_table *table);
const char *mw_table_file_name(const mw_table *table);
mw_slice mw_table_first_key(const mw_table *table); /* empty table: empty slice */
mw_slice mw_table_last_key(const mw_table *table);
uint64_t mw_table_number(const mw_table *table);
uint64_t mw_table_epoch(const mw_table *table);

/* Memory of the dictionaries that were needed so far. */
uint64_t mw_table_dictionary_bytes(mw_table *table);

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
