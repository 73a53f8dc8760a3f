/* cache.c: decoded pages in memory, bounded in bytes.
**
** Eight shards, each a mutex, a hash table of chains and a ring of entries in order of arrival:
**
**   newest <-> ... <-> oldest     the sweep looks at the oldest: found again since -> to the front,
**                                 held -> to the front, else out
**
** That is CLOCK (F. Corbato, "A Paging Experiment with the Multics System", 1968) with new entries
** unmarked, so a scan that reads each page once pushes out other pages of scans, not what is asked
** for again and again.
**
** Who may free: an entry has a reference for each holder and one for its place in the table. New
** references are given under the shard's mutex and only while it has its place, so the sweep, which
** holds the mutex and sees one reference, is alone with it. Whoever drops the last one frees.
**
** An entry larger than its shard may be is not kept: its holder is its only owner. */
#include "cache.h"

#include <stdatomic.h>
#include <string.h>

enum { SHARDS = 8, BUCKETS_AT_FIRST = 64 };

struct mw_cached {
    _Atomic uint32_t references;
    bool found_again;
    uint64_t file;
    uint64_t offset;
    void *content;
    size_t bytes;
    mw_cached *chain; /* next in the bucket */
    mw_cached *newer;
    mw_cached *older;
};

typedef struct shard {
    mw_mutex *mutex;
    mw_cached **buckets;
    uint32_t bucket_count; /* power of two */
    uint32_t entries;
    mw_cached *newest;
    mw_cached *oldest;
    uint64_t bytes;
    uint64_t hits;
    uint64_t misses;
    uint8_t apart[64]; /* keeps shards out of each other's cache lines */
} shard;

struct mw_cache {
    const mw_env *env;
    _Atomic uint64_t limit_bytes;
    _Atomic uint64_t charged_bytes;
    _Atomic uint64_t files;
    shard shards[SHARDS];
};

/* Finalizer of SplitMix64 (Steele, Lea, Flood 2014): offsets and file numbers are far from
** random. */
static uint64_t mix(uint64_t file, uint64_t offset)
{
    uint64_t z = offset + file * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static shard *shard_of(mw_cache *cache, uint64_t hash)
{
    return &cache->shards[hash >> 61];
}

/* The most of a limit that may be charged: pages keep the rest. */
static uint64_t charge_limit(uint64_t limit_bytes)
{
    return limit_bytes - limit_bytes / 4;
}

static uint64_t shard_limit(const mw_cache *cache)
{
    uint64_t limit = atomic_load_explicit(&cache->limit_bytes, memory_order_relaxed);
    uint64_t charged = atomic_load_explicit(&cache->charged_bytes, memory_order_relaxed);
    uint64_t most = charge_limit(limit);
    return (limit - (charged < most ? charged : most)) / SHARDS;
}

static void lock(mw_cache *cache, shard *s)
{
    cache->env->mutex_lock(cache->env->ctx, s->mutex);
}

static void unlock(mw_cache *cache, shard *s)
{
    cache->env->mutex_unlock(cache->env->ctx, s->mutex);
}

mw_rc mw_cache_create(const mw_env *env, uint64_t limit_bytes, mw_cache **cache, mw_err *err)
{
    mw_cache *made = mw_alloc_zero(env, sizeof *made);
    *cache = NULL;
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for the page cache");
    made->env = env;
    atomic_init(&made->limit_bytes, limit_bytes);
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard *s = &made->shards[i];
        s->bucket_count = BUCKETS_AT_FIRST;
        s->buckets = mw_alloc_zero(env, sizeof *s->buckets * BUCKETS_AT_FIRST);
        int sys = s->buckets ? env->mutex_create(env->ctx, &s->mutex) : 0;
        if (!s->buckets || sys) {
            mw_cache_destroy(made);
            return sys ? mw_fail_sys(err, sys, "mutex_create", "the page cache")
                       : mw_fail(err, MW_NOMEM, "out of memory for the page cache");
        }
    }
    *cache = made;
    return MW_OK;
}

static void unreference(mw_cache *cache, mw_cached *entry)
{
    if (atomic_fetch_sub_explicit(&entry->references, 1, memory_order_acq_rel) != 1) return;
    mw_free(cache->env, entry->content);
    mw_free(cache->env, entry);
}

/* ---- under the shard's mutex --------------------------------------------------------------- */

static mw_cached **bucket_of(shard *s, uint64_t hash)
{
    return &s->buckets[hash & (s->bucket_count - 1)];
}

static mw_cached *find_locked(shard *s, uint64_t hash, uint64_t file, uint64_t offset)
{
    mw_cached *entry = *bucket_of(s, hash);
    while (entry && (entry->offset != offset || entry->file != file)) entry = entry->chain;
    if (entry) {
        entry->found_again = true;
        atomic_fetch_add_explicit(&entry->references, 1, memory_order_relaxed);
    }
    return entry;
}

static void push_newest(shard *s, mw_cached *entry)
{
    entry->newer = NULL;
    entry->older = s->newest;
    if (s->newest) s->newest->newer = entry;
    s->newest = entry;
    if (!s->oldest) s->oldest = entry;
}

static void pull_out(shard *s, mw_cached *entry)
{
    if (entry->newer) entry->newer->older = entry->older;
    if (entry->older) entry->older->newer = entry->newer;
    if (s->newest == entry) s->newest = entry->older;
    if (s->oldest == entry) s->oldest = entry->newer;
}

static void remove_locked(mw_cache *cache, shard *s, mw_cached *entry)
{
    mw_cached **at = bucket_of(s, mix(entry->file, entry->offset));
    while (*at != entry) at = &(*at)->chain;
    *at = entry->chain;
    pull_out(s, entry);
    s->bytes -= entry->bytes;
    s->entries--;
    unreference(cache, entry);
}

/* Twice the buckets; without memory the chains grow longer instead. */
static void grow_locked(mw_cache *cache, shard *s)
{
    uint32_t count = s->bucket_count * 2;
    mw_cached **grown = mw_alloc_zero(cache->env, sizeof *grown * count);
    if (!grown) return;
    mw_free(cache->env, s->buckets);
    s->buckets = grown;
    s->bucket_count = count;
    for (mw_cached *entry = s->newest; entry; entry = entry->older) {
        mw_cached **bucket = bucket_of(s, mix(entry->file, entry->offset));
        entry->chain = *bucket;
        *bucket = entry;
    }
}

static void sweep_locked(mw_cache *cache, shard *s)
{
    /* Two rounds: the first may only clear marks. What is left then is held. */
    uint64_t looks_left = (uint64_t)s->entries * 2;
    uint64_t limit = shard_limit(cache);
    while (s->bytes > limit && looks_left-- > 0) {
        mw_cached *entry = s->oldest;
        bool held = atomic_load_explicit(&entry->references, memory_order_acquire) > 1;
        if (!held && !entry->found_again) {
            remove_locked(cache, s, entry);
            continue;
        }
        entry->found_again = false;
        pull_out(s, entry);
        push_newest(s, entry);
    }
}

/* ---- contract ------------------------------------------------------------------------------ */

void mw_cache_destroy(mw_cache *cache)
{
    if (!cache) return;
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard *s = &cache->shards[i];
        while (s->oldest) {
            assert(atomic_load(&s->oldest->references) == 1);
            remove_locked(cache, s, s->oldest);
        }
        mw_free(cache->env, s->buckets);
        if (s->mutex) cache->env->mutex_destroy(cache->env->ctx, s->mutex);
    }
    mw_free(cache->env, cache);
}

mw_cached *mw_cache_find(mw_cache *cache, uint64_t file, uint64_t offset)
{
    uint64_t hash = mix(file, offset);
    shard *s = shard_of(cache, hash);
    lock(cache, s);
    mw_cached *entry = find_locked(s, hash, file, offset);
    if (entry) {
        s->hits++;
    } else {
        s->misses++;
    }
    unlock(cache, s);
    return entry;
}

mw_cached *mw_cache_put(mw_cache *cache, uint64_t file, uint64_t offset, void *content,
                        size_t bytes)
{
    uint64_t hash = mix(file, offset);
    shard *s = shard_of(cache, hash);
    mw_cached *entry = mw_alloc_zero(cache->env, sizeof *entry);
    if (!entry) {
        mw_free(cache->env, content);
        return NULL;
    }
    entry->file = file;
    entry->offset = offset;
    entry->content = content;
    entry->bytes = bytes + sizeof *entry;
    atomic_init(&entry->references, 1);
    if (entry->bytes > shard_limit(cache)) return entry;

    lock(cache, s);
    mw_cached *theirs = find_locked(s, hash, file, offset);
    if (!theirs) {
        atomic_init(&entry->references, 2);
        if (s->entries >= s->bucket_count) grow_locked(cache, s);
        mw_cached **bucket = bucket_of(s, hash);
        entry->chain = *bucket;
        *bucket = entry;
        push_newest(s, entry);
        s->bytes += entry->bytes;
        s->entries++;
        sweep_locked(cache, s);
    }
    unlock(cache, s);
    if (!theirs) return entry;
    unreference(cache, entry);
    return theirs;
}

void *mw_cached_content(const mw_cached *entry)
{
    return entry->content;
}

void mw_cache_release(mw_cache *cache, mw_cached *entry)
{
    unreference(cache, entry);
}

void mw_cache_drop_file(mw_cache *cache, uint64_t file)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard *s = &cache->shards[i];
        lock(cache, s);
        for (mw_cached *entry = s->newest, *older; entry; entry = older) {
            older = entry->older;
            if (entry->file == file) remove_locked(cache, s, entry);
        }
        unlock(cache, s);
    }
}

void mw_cache_resize(mw_cache *cache, uint64_t limit_bytes)
{
    atomic_store(&cache->limit_bytes, limit_bytes);
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard *s = &cache->shards[i];
        lock(cache, s);
        sweep_locked(cache, s);
        unlock(cache, s);
    }
}

void mw_cache_charge(mw_cache *cache, uint64_t bytes)
{
    atomic_fetch_add_explicit(&cache->charged_bytes, bytes, memory_order_relaxed);
}

void mw_cache_discharge(mw_cache *cache, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&cache->charged_bytes, bytes, memory_order_relaxed);
}

bool mw_cache_crowded(const mw_cache *cache)
{
    uint64_t charged = atomic_load_explicit(&cache->charged_bytes, memory_order_relaxed);
    uint64_t limit = atomic_load_explicit(&cache->limit_bytes, memory_order_relaxed);
    return charged > charge_limit(limit);
}

uint64_t mw_cache_new_file(mw_cache *cache)
{
    return atomic_fetch_add_explicit(&cache->files, 1, memory_order_relaxed) + 1;
}

void mw_cache_stats(mw_cache *cache, uint64_t *hits, uint64_t *misses, uint64_t *bytes)
{
    *hits = *misses = *bytes = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard *s = &cache->shards[i];
        lock(cache, s);
        *hits += s->hits;
        *misses += s->misses;
        *bytes += s->bytes;
        unlock(cache, s);
    }
}
