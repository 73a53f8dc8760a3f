/* memory.h: an environment that has memory and nothing else: counts what is alive, and refuses one
** allocation on demand. For tests of code that touches no file. One thread at a time allocates. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdlib.h>

#include "env.h"

typedef struct memory {
    mw_env env;
    size_t alive;     /* allocations not released yet                  */
    size_t asked;     /* allocations asked for so far                  */
    size_t refuse_at; /* the one of that number fails; 0: none         */
} memory;

static inline void *memory_resize(void *ctx, void *old, size_t bytes)
{
    memory *m = ctx;
    if (++m->asked == m->refuse_at) return NULL;
    void *fresh = realloc(old, bytes);
    if (fresh && !old) m->alive++;
    return fresh;
}

static inline void *memory_alloc(void *ctx, size_t bytes)
{
    return memory_resize(ctx, NULL, bytes);
}

static inline void memory_release(void *ctx, void *old)
{
    memory *m = ctx;
    if (old) m->alive--;
    free(old);
}

static inline void memory_init(memory *m)
{
    *m = (memory){0};
    m->env.ctx = m;
    m->env.alloc = memory_alloc;
    m->env.resize = memory_resize;
    m->env.release = memory_release;
}

/* The n-th allocation from now on fails. */
static inline void memory_refuse(memory *m, size_t n)
{
    m->refuse_at = m->asked + n;
}

#endif
