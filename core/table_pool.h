/* table_pool.h: bounds what the table files of a store take while they are open: descriptors, and
** the memory of their indexes and filters. Thread-safe. */
#ifndef MW_TABLE_POOL_H
#define MW_TABLE_POOL_H

#include "cache.h"

typedef struct mw_table mw_table; /* table_read.h */
typedef struct mw_table_pool mw_table_pool;

/* At most files_max (at least 1) table files are open, but for those that are being read at the
** moment. cache: of their pages, borrowed, outlives the pool; the memory of indexes and filters is
** charged to it, and files are closed while mw_cache_crowded says that this is too much. */
mw_rc mw_table_pool_create(const mw_env *env, mw_cache *cache, uint32_t files_max,
                           mw_table_pool **pool, mw_err *err) MW_MUST_USE;
void mw_table_pool_destroy(mw_table_pool *pool); /* requires that no table is left; takes NULL */

const mw_env *mw_table_pool_env(const mw_table_pool *pool);
mw_cache *mw_table_pool_cache(const mw_table_pool *pool);

/* Closes all files that nobody is reading at the moment: somebody needs the descriptors. */
void mw_table_pool_shrink(mw_table_pool *pool);

/* The store and its cache are about to go: tables that go from now on remove no file and forget no
** page. For one thread that is alone. */
void mw_table_pool_retire(mw_table_pool *pool);
bool mw_table_pool_retired(const mw_table_pool *pool);

/* Files that are open; bytes of their indexes and filters. */
void mw_table_pool_stats(mw_table_pool *pool, uint64_t *files, uint64_t *bytes);

#endif
