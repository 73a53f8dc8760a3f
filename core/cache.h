/* cache.h: decoded pages of table files, shared by all readers of a store, bounded in bytes.
**
** An entry is a block of memory under a key (file number, offset). Least recently used entries that
** nobody holds go when the limit is passed. Thread-safe, sharded by hash so that readers do not
** meet. */
#ifndef MW_CACHE_H
#define MW_CACHE_H

#include "env.h"

typedef struct mw_cache mw_cache;
typedef struct mw_cached mw_cached; /* a held entry */

mw_rc mw_cache_create(const mw_env *env, uint64_t limit_bytes, mw_cache **cache,
                      mw_err *err) MW_MUST_USE;
void mw_cache_destroy(mw_cache *cache); /* requires that nothing is held; takes NULL */

/* The entry, held (give it back with mw_cache_release), or NULL. */
mw_cached *mw_cache_find(mw_cache *cache, uint64_t file, uint64_t offset);

/* Takes `content` (from mw_alloc) over, also on failure; bytes: its size for the accounting. When
** somebody else has put the key in meanwhile, theirs is returned and content is freed. Held. NULL:
** no memory. */
mw_cached *mw_cache_put(mw_cache *cache, uint64_t file, uint64_t offset, void *content,
                        size_t bytes);
void *mw_cached_content(const mw_cached *entry); /* borrowed while held */
void mw_cache_release(mw_cache *cache, mw_cached *entry);
/* Forgets a file's entries (held ones live on until released). */
void mw_cache_drop_file(mw_cache *cache, uint64_t file);
/* Changes the limit; when it is lower than what is kept, that goes at once. */
void mw_cache_resize(mw_cache *cache, uint64_t limit_bytes);
/* So many bytes of the limit are used, or used no more, by something else: pages leave room for
** them, but keep a quarter of the limit. Takes effect with the next mw_cache_put. */
void mw_cache_charge(mw_cache *cache, uint64_t bytes);
void mw_cache_discharge(mw_cache *cache, uint64_t bytes);
/* Is more charged than pages can make room for? */
bool mw_cache_crowded(const mw_cache *cache);
/* A number for mw_cache_find that no other open table of this cache has. */
uint64_t mw_cache_new_file(mw_cache *cache);
void mw_cache_stats(mw_cache *cache, uint64_t *hits, uint64_t *misses, uint64_t *bytes);

#endif
