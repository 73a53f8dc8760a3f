/* arena.c: a bump allocator.
**
** Chunks begin small, so that an empty memtable costs little, and double up to 1 MB. A piece that
** would waste much of a chunk gets one of its own, and the chunk in use stays in use. */
#include "arena.h"

enum {
    ALIGN_BYTES = 8,
    CHUNK_BYTES_MIN = 4096,
    CHUNK_BYTES_MAX = 1 << 20,
    OWN_CHUNK_DIVISOR = 4, /* a piece above a quarter of a chunk gets its own */
};

struct mw_arena_chunk {
    mw_arena_chunk *older;
};
static_assert(sizeof(mw_arena_chunk) % ALIGN_BYTES == 0, "pieces behind the header are aligned");

void mw_arena_init(mw_arena *arena, const mw_env *env)
{
    arena->env = env;
    arena->chunks = NULL;
    arena->at = NULL;
    arena->left_bytes = 0;
    arena->chunk_bytes = CHUNK_BYTES_MIN;
    atomic_init(&arena->used_bytes, 0);
}

void mw_arena_free(mw_arena *arena)
{
    mw_arena_chunk *chunk = arena->chunks;
    while (chunk) {
        mw_arena_chunk *older = chunk->older;
        mw_free(arena->env, chunk);
        chunk = older;
    }
    mw_arena_init(arena, arena->env);
}

/* A chunk with room for bytes behind its header, in the list; NULL: no memory. */
static uint8_t *add_chunk(mw_arena *arena, size_t bytes)
{
    mw_arena_chunk *chunk = mw_alloc(arena->env, sizeof *chunk + bytes);
    if (!chunk) return NULL;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    return (uint8_t *)(chunk + 1);
}

/* Where the next piece of bytes lies: at the start of a chunk that it opens. */
static uint8_t *open_chunk(mw_arena *arena, size_t bytes)
{
    if (bytes > arena->chunk_bytes / OWN_CHUNK_DIVISOR) return add_chunk(arena, bytes);

    size_t room_bytes = arena->chunk_bytes - sizeof(mw_arena_chunk);
    uint8_t *start = add_chunk(arena, room_bytes);
    if (!start) return NULL;
    arena->at = start + bytes;
    arena->left_bytes = room_bytes - bytes;
    if (arena->chunk_bytes < CHUNK_BYTES_MAX) arena->chunk_bytes *= 2;
    return start;
}

void *mw_arena_alloc(mw_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1);

    uint8_t *piece = arena->at;
    if (piece && bytes <= arena->left_bytes) {
        arena->at += bytes;
        arena->left_bytes -= bytes;
    } else {
        piece = open_chunk(arena, bytes);
        if (!piece) return NULL;
    }
    size_t used_bytes = atomic_load_explicit(&arena->used_bytes, memory_order_relaxed);
    atomic_store_explicit(&arena->used_bytes, used_bytes + bytes, memory_order_relaxed);
    return piece;
}

size_t mw_arena_bytes(const mw_arena *arena)
{
    return atomic_load_explicit(&arena->used_bytes, memory_order_relaxed);
}
