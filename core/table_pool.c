/* table_pool.c: which table files are open, and which have their index and filter in memory.
**
**     part of a table ---- pins: number of threads that use it now | RESIDENT
**                           |
**                           +-- RESIDENT set:  it is there, and stands in the pool's ring
**                           +-- not set:       it will be loaded by whoever asks
**
** Pinning a resident part is one atomic addition. The rule that makes it right: RESIDENT is set and
** cleared under the pool's mutex alone, and it is cleared by a compare-and-swap from "RESIDENT and
** no pin" to zero. So whoever has added his pin and seen RESIDENT keeps the part, and whoever has
** not seen it comes to the mutex, behind whoever drops it. The part is written before RESIDENT is
** set (release) and read after it was seen (acquire).
**
** Files are opened and read outside of the mutex; a part that is being loaded is marked, and others
** who want it wait for that. An index pins its file while it is loaded, never the other way round.
**
** Each kind of part has a ring: a CLOCK as in cache.c. The sweep looks at the oldest; pinned, or
** pinned again since the last look -> to the front, else dropped. Files are bounded by number,
** indexes by what the cache can spare. An index stays when its file is closed: a lookup
** asks the filters of all files that may have the id, but the content of hardly more than one.
**
** Working memory for reading lies here, too: one set a thread that reads at this moment, and a few
** spare ones, however many tables there are. */
#include "table_file.h"

enum {
    IDLE_READERS_MAX = 8,
    SPARE_BYTES = 1 << 20, /* a reader's buffer that has grown past this is freed */
};

typedef struct ring {
    mw_table *newest;
    mw_table *oldest;
    uint32_t count;
    uint32_t loading; /* not in the ring yet */
    uint64_t bytes;
} ring;

struct mw_table_pool {
    const mw_env *env;
    mw_cache *cache;
    uint32_t files_max;
    bool retired;

    mw_mutex *mutex; /* of all that follows, but for the idle readers */
    mw_cond *loaded; /* some loading has ended */
    ring rings[MW_PARTS];

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

/* ---- rings, under the mutex ---------------------------------------------------------------- */

static void push_newest(ring *r, mw_table *table, mw_part part)
{
    table->stays[part].newer = NULL;
    table->stays[part].older = r->newest;
    if (r->newest) r->newest->stays[part].newer = table;
    r->newest = table;
    if (!r->oldest) r->oldest = table;
}

static void pull_out(ring *r, const mw_table *table, mw_part part)
{
    const mw_stay *stay = &table->stays[part];
    if (stay->newer) stay->newer->stays[part].older = stay->older;
    if (stay->older) stay->older->stays[part].newer = stay->newer;
    if (r->newest == table) r->newest = stay->older;
    if (r->oldest == table) r->oldest = stay->newer;
}

static void enter(mw_table_pool *pool, mw_table *table, mw_part part)
{
    ring *r = &pool->rings[part];
    push_newest(r, table, part);
    r->count++;
    r->bytes += table->stays[part].bytes;
    mw_cache_charge(pool->cache, table->stays[part].bytes);
}

static void leave(mw_table_pool *pool, const mw_table *table, mw_part part)
{
    ring *r = &pool->rings[part];
    pull_out(r, table, part);
    r->count--;
    r->bytes -= table->stays[part].bytes;
    mw_cache_discharge(pool->cache, table->stays[part].bytes);
}

/* False: somebody uses it. */
static bool evict(mw_table_pool *pool, mw_table *table, mw_part part)
{
    uint32_t unpinned = MW_STAY_RESIDENT;
    if (!atomic_compare_exchange_strong(&table->stays[part].pins, &unpinned, 0)) return false;
    leave(pool, table, part);
    mw_table_unload(table, part);
    return true;
}

static bool too_many(const mw_table_pool *pool, mw_part part)
{
    const ring *r = &pool->rings[part];
    if (part == MW_PART_INDEX) return mw_cache_crowded(pool->cache);
    return (uint64_t)r->count + r->loading > pool->files_max;
}

/* Two rounds: the first may only clear marks; what is left then is in use. */
static void make_room(mw_table_pool *pool, mw_part part)
{
    ring *r = &pool->rings[part];
    uint64_t looks_left = (uint64_t)r->count * 2;
    /* With all of them gone, those that are being loaded may still be too many. */
    while (r->oldest && too_many(pool, part) && looks_left-- > 0) {
        mw_table *table = r->oldest;
        bool asked = atomic_exchange_explicit(&table->stays[part].asked, false,
                                              memory_order_relaxed);
        if (!asked && evict(pool, table, part)) continue;
        pull_out(r, table, part);
        push_newest(r, table, part);
    }
}

/* ---- loading ------------------------------------------------------------------------------- */

/* Marks the part as being loaded, when nobody else has it loaded meanwhile. */
static bool begin_loading(mw_table_pool *pool, mw_table *table, mw_part part)
{
    const mw_env *env = pool->env;
    mw_stay *stay = &table->stays[part];
    lock(pool);
    while (stay->loading) env->cond_wait(env->ctx, pool->loaded, pool->mutex, UINT64_MAX);
    bool begun = !(atomic_load(&stay->pins) & MW_STAY_RESIDENT);
    if (begun) {
        stay->loading = true;
        pool->rings[part].loading++;
        make_room(pool, part);
    }
    unlock(pool);
    return begun;
}

mw_rc mw_table_pool_load(mw_table *table, mw_part part, mw_err *err)
{
    mw_table_pool *pool = table->pool;
    const mw_env *env = pool->env;
    mw_stay *stay = &table->stays[part];
    if (!begin_loading(pool, table, part)) return MW_OK;
    mw_rc rc = mw_table_load(table, part, err);
    lock(pool);
    stay->loading = false;
    pool->rings[part].loading--;
    if (rc == MW_OK) {
        enter(pool, table, part);
        atomic_fetch_or(&stay->pins, MW_STAY_RESIDENT);
        make_room(pool, part);
    }
    env->cond_broadcast(env->ctx, pool->loaded);
    unlock(pool);
    if (rc) mw_table_unpin(table, part);
    return rc;
}

void mw_table_pool_grow(mw_table *table, mw_part part, uint64_t bytes)
{
    mw_table_pool *pool = table->pool;
    lock(pool);
    leave(pool, table, part);
    table->stays[part].bytes += bytes;
    enter(pool, table, part);
    make_room(pool, part);
    unlock(pool);
}

/* No reference is left, so nobody else can come; only the pool's sweep may be at the table. */
void mw_table_pool_leave(mw_table *table)
{
    mw_table_pool *pool = table->pool;
    for (mw_part part = 0; part < MW_PARTS; part++) {
        lock(pool);
        bool resident = atomic_load(&table->stays[part].pins) & MW_STAY_RESIDENT;
        if (resident) leave(pool, table, part);
        unlock(pool);
        if (resident) mw_table_unload(table, part);
    }
}

void mw_table_pool_shrink(mw_table_pool *pool)
{
    lock(pool);
    for (mw_table *table = pool->rings[MW_PART_FILE].oldest, *newer; table; table = newer) {
        newer = table->stays[MW_PART_FILE].newer;
        (void)evict(pool, table, MW_PART_FILE);
    }
    unlock(pool);
}

void mw_table_pool_stats(mw_table_pool *pool, uint64_t *files, uint64_t *bytes)
{
    lock(pool);
    *files = pool->rings[MW_PART_FILE].count;
    *bytes = pool->rings[MW_PART_INDEX].bytes;
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
    assert(pool->rings[MW_PART_FILE].count == 0 && pool->rings[MW_PART_INDEX].count == 0);
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
