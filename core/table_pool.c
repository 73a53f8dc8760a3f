/* table_pool.c: which table files are open.
**
**     table ---- pins: number of threads that read it now | RESIDENT
**                 |
**                 +-- RESIDENT set:  file, index, filter are there; it stands in the pool's ring
**                 +-- not set:       a handle, some hundred bytes
**
** Pinning a resident table is one atomic addition. The rule that makes it right: RESIDENT is set and
** cleared under the pool's mutex alone, and it is cleared by a compare-and-swap from "RESIDENT and no
** pin" to zero. So whoever has added his pin and seen RESIDENT keeps the residence, and whoever has
** not seen it comes to the mutex, behind whoever drops it. The residence is written before RESIDENT
** is set (release) and read after it was seen (acquire).
**
** Files are opened and verified outside of the mutex; a table that is being opened is marked, and
** others who want it wait for that.
**
** The ring is a CLOCK as in cache.c: the sweep looks at the oldest; pinned or asked for again since
** the last look -> to the front, else closed. A merge that passes through thousands of files once
** pushes out its own, not those that lookups ask for again and again.
**
** Working memory for reading lies here, too: one set a thread that reads at this moment, and a few
** spare ones, however many tables there are. */
#include "table_file.h"

enum {
    IDLE_READERS_MAX = 8,
    SPARE_BYTES = 1 << 20, /* a reader's buffer that has grown past this is freed */
};

struct mw_table_pool {
    const mw_env *env;
    mw_cache *cache;
    uint32_t files_max;
    bool retired;

    mw_mutex *mutex; /* of all that follows, but for the idle readers */
    mw_cond *loaded; /* some loading has ended */
    mw_table *newest;
    mw_table *oldest;
    uint32_t files;  /* in the ring */
    uint32_t loading;
    uint64_t bytes; /* of the residences in the ring */

    mw_mutex *idle_mutex;
    mw_table_reader *idle;
    uint32_t idle_count;
};

mw_rc mw_table_pool_create(const mw_env *env, mw_cache *cache, uint32_t files_max,
                           mw_table_pool **pool, mw_err *err)
{
    mw_table_pool *made = mw_alloc_zero(env, sizeof *made);
    *pool = NULL;
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for the pool of open files");
    made->env = env;
    made->cache = cache;
    made->files_max = files_max;
    int sys = env->mutex_create(env->ctx, &made->mutex);
    if (!sys) sys = env->mutex_create(env->ctx, &made->idle_mutex);
    if (!sys) sys = env->cond_create(env->ctx, &made->loaded);
    if (sys) {
        mw_table_pool_destroy(made);
        return mw_fail_sys(err, sys, "creation of a lock", "the pool of open files");
    }
    *pool = made;
    return MW_OK;
}

const mw_env *mw_table_pool_env(const mw_table_pool *pool) { return pool->env; }

mw_cache *mw_table_pool_cache(const mw_table_pool *pool) { return pool->cache; }

void mw_table_pool_retire(mw_table_pool *pool) { pool->retired = true; }

bool mw_table_pool_retired(const mw_table_pool *pool) { return pool->retired; }

static void lock(mw_table_pool *pool) { pool->env->mutex_lock(pool->env->ctx, pool->mutex); }

static void unlock(mw_table_pool *pool) { pool->env->mutex_unlock(pool->env->ctx, pool->mutex); }

/* ---- the ring, under the mutex ------------------------------------------------------------- */

static void push_newest(mw_table_pool *pool, mw_table *table)
{
    table->newer = NULL;
    table->older = pool->newest;
    if (pool->newest) pool->newest->newer = table;
    pool->newest = table;
    if (!pool->oldest) pool->oldest = table;
}

static void pull_out(mw_table_pool *pool, const mw_table *table)
{
    if (table->newer) table->newer->older = table->older;
    if (table->older) table->older->newer = table->newer;
    if (pool->newest == table) pool->newest = table->older;
    if (pool->oldest == table) pool->oldest = table->newer;
}

/* The table has a residence, or has it no more. */
static void enter(mw_table_pool *pool, mw_table *table)
{
    push_newest(pool, table);
    pool->files++;
    pool->bytes += table->memory_bytes;
    mw_cache_charge(pool->cache, table->memory_bytes);
}

static void leave(mw_table_pool *pool, mw_table *table)
{
    pull_out(pool, table);
    pool->files--;
    pool->bytes -= table->memory_bytes;
    mw_cache_discharge(pool->cache, table->memory_bytes);
}

/* False: somebody reads it. */
static bool evict(mw_table_pool *pool, mw_table *table)
{
    uint32_t unpinned = MW_TABLE_RESIDENT;
    if (!atomic_compare_exchange_strong(&table->pins, &unpinned, 0)) return false;
    leave(pool, table);
    mw_table_unload(table);
    return true;
}

/* Closes files until there is room for so many more. Two rounds: the first may only clear marks;
** what is left then is being read. */
static void make_room(mw_table_pool *pool, uint32_t more)
{
    uint64_t looks_left = (uint64_t)pool->files * 2;
    while (pool->oldest && looks_left-- > 0) {
        bool full = (uint64_t)pool->files + pool->loading + more > pool->files_max;
        if (!full && !mw_cache_crowded(pool->cache)) return;
        mw_table *table = pool->oldest;
        bool asked = atomic_exchange_explicit(&table->asked, false, memory_order_relaxed);
        if (!asked && evict(pool, table)) continue;
        pull_out(pool, table);
        push_newest(pool, table);
    }
}

/* ---- residence ----------------------------------------------------------------------------- */

/* Waits until nobody opens the table. True: it is resident. */
static bool wait_for_others(mw_table_pool *pool, const mw_table *table)
{
    const mw_env *env = pool->env;
    while (table->loading) env->cond_wait(env->ctx, pool->loaded, pool->mutex, UINT64_MAX);
    return atomic_load(&table->pins) & MW_TABLE_RESIDENT;
}

mw_rc mw_table_pool_load(mw_table *table, mw_err *err)
{
    mw_table_pool *pool = table->pool;
    const mw_env *env = pool->env;
    lock(pool);
    bool resident = wait_for_others(pool, table);
    if (!resident) {
        table->loading = true;
        make_room(pool, 1);
        pool->loading++;
    }
    unlock(pool);
    if (resident) return MW_OK;

    mw_rc rc = mw_table_load(table, err);
    lock(pool);
    table->loading = false;
    pool->loading--;
    if (rc == MW_OK) {
        enter(pool, table);
        atomic_fetch_or(&table->pins, MW_TABLE_RESIDENT);
        make_room(pool, 0);
    }
    env->cond_broadcast(env->ctx, pool->loaded);
    unlock(pool);
    if (rc) mw_table_unpin(table);
    return rc;
}

void mw_table_pool_grow(mw_table *table, uint64_t bytes)
{
    mw_table_pool *pool = table->pool;
    lock(pool);
    leave(pool, table);
    table->memory_bytes += bytes;
    enter(pool, table);
    make_room(pool, 0);
    unlock(pool);
}

void mw_table_pool_leave(mw_table *table)
{
    mw_table_pool *pool = table->pool;
    lock(pool);
    bool resident = atomic_load(&table->pins) & MW_TABLE_RESIDENT;
    if (resident) leave(pool, table);
    unlock(pool);
    if (resident) mw_table_unload(table); /* no reference is left: nobody else can come */
}

void mw_table_pool_shrink(mw_table_pool *pool)
{
    lock(pool);
    for (mw_table *table = pool->oldest, *newer; table; table = newer) {
        newer = table->newer;
        (void)evict(pool, table);
    }
    unlock(pool);
}

void mw_table_pool_stats(mw_table_pool *pool, uint64_t *files, uint64_t *bytes)
{
    lock(pool);
    *files = pool->files;
    *bytes = pool->bytes;
    unlock(pool);
}

/* ---- readers ------------------------------------------------------------------------------- */

static void free_reader(const mw_env *env, mw_table_reader *reader)
{
    mw_codec_destroy(reader->codec);
    mw_buf_free(&reader->stored);
    mw_buf_free(&reader->raw);
    mw_free(env, reader);
}

mw_table_reader *mw_table_reader_take(mw_table *table)
{
    mw_table_pool *pool = table->pool;
    const mw_env *env = pool->env;
    env->mutex_lock(env->ctx, pool->idle_mutex);
    mw_table_reader *reader = pool->idle;
    if (reader) {
        pool->idle = reader->next;
        pool->idle_count--;
    }
    env->mutex_unlock(env->ctx, pool->idle_mutex);
    if (reader) return reader;
    reader = mw_alloc_zero(env, sizeof *reader);
    if (!reader) return NULL;
    mw_buf_init(&reader->stored, env);
    mw_buf_init(&reader->raw, env);
    return reader;
}

void mw_table_reader_give(mw_table *table, mw_table_reader *reader)
{
    mw_table_pool *pool = table->pool;
    const mw_env *env = pool->env;
    if (reader->stored.capacity > SPARE_BYTES) mw_buf_free(&reader->stored);
    if (reader->raw.capacity > SPARE_BYTES) mw_buf_free(&reader->raw);
    env->mutex_lock(env->ctx, pool->idle_mutex);
    bool keep = pool->idle_count < IDLE_READERS_MAX;
    if (keep) {
        reader->next = pool->idle;
        pool->idle = reader;
        pool->idle_count++;
    }
    env->mutex_unlock(env->ctx, pool->idle_mutex);
    if (!keep) free_reader(env, reader);
}

void mw_table_pool_destroy(mw_table_pool *pool)
{
    if (!pool) return;
    const mw_env *env = pool->env;
    assert(pool->files == 0 && pool->loading == 0);
    while (pool->idle) {
        mw_table_reader *reader = pool->idle;
        pool->idle = reader->next;
        free_reader(env, reader);
    }
    if (pool->loaded) env->cond_destroy(env->ctx, pool->loaded);
    if (pool->idle_mutex) env->mutex_destroy(env->ctx, pool->idle_mutex);
    if (pool->mutex) env->mutex_destroy(env->ctx, pool->mutex);
    mw_free(env, pool);
}
