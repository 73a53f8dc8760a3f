/* arena.h: memory that is handed out in small pieces and freed all at once.
**
** A bump allocator over chunks of the environment's memory. One thread at a time may allocate; any
** thread may ask for the size. */
#ifndef MW_ARENA_H
#define MW_ARENA_H

#include <stdatomic.h>

#include "env.h"

typedef struct mw_arena_chunk mw_arena_chunk;

typedef struct mw_arena {
    const mw_env *env;
    mw_arena_chunk *chunks; /* all of them, newest first                       */
    uint8_t *at;            /* free part of the chunk that is being used up    */
    size_t left_bytes;
    size_t chunk_bytes;     /* of the next chunk: doubles up to 1 MB           */
    _Atomic size_t used_bytes;
} mw_arena;

void mw_arena_init(mw_arena *arena, const mw_env *env);
void mw_arena_free(mw_arena *arena); /* also fine on a zeroed or freed one */

/* Memory aligned to 8, valid until mw_arena_free. NULL: there is none, nothing has changed. */
void *mw_arena_alloc(mw_arena *arena, size_t bytes) MW_MUST_USE;

size_t mw_arena_bytes(const mw_arena *arena); /* handed out so far, alignment included */

#endif
