/* sim_share.c: what the processes of the simulated machine share: locks and mapped pages.
**
** All mappings of a file are one piece of memory, which the engine reads and stores to at any time
** and without a call. So the cache of the file runs behind it: sim_map_look takes over what was
** stored, and every call of the file system looks first. Writes and damage go the other way at
** once. The page then waits for a sync, or for the kernel, which may write it back whole whenever
** it likes: of the disk states that a crash may leave half have it, as one piece. (Older content
** of the page may be on disk as well; who looks at each step meets it there.)
**
** Bytes are moved by atomic accesses, since threads of the engine may be storing meanwhile. */
#include "sim_world.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- locks ---------------------------------------------------------------------------------- */

static bool overlap(const sim_range *a, const sim_range *b)
{
    return a->first <= b->last && b->first <= a->last;
}

bool sim_lock_clashes(const sim_inode *node, const sim_range *wanted)
{
    for (uint32_t i = 0; i < node->lock_count && wanted->how != MW_LOCK_NONE; i++) {
        const sim_range *held = &node->locks[i];
        bool both_share = held->how == MW_LOCK_SHARED && wanted->how == MW_LOCK_SHARED;
        if (held->file != wanted->file && !both_share && overlap(held, wanted)) return true;
    }
    return false;
}

static void add_range(sim_inode *node, sim_range range)
{
    node->locks = sim_grow(node->locks, node->lock_count, &node->lock_capacity,
                           sizeof *node->locks);
    node->locks[node->lock_count++] = range;
}

/* Adds what is left of a range when another is cut out of it. */
static void add_rest(sim_inode *node, const sim_range *from, const sim_range *cut)
{
    sim_range left = *from;
    sim_range right = *from;
    left.last = cut->first - 1;
    right.first = cut->last + 1;
    if (from->first < cut->first) add_range(node, left);
    if (from->last > cut->last) add_range(node, right);
}

void sim_lock_set(sim_inode *node, const sim_range *wanted)
{
    sim_range *before = node->locks;
    uint32_t count = node->lock_count;
    node->locks = NULL;
    node->lock_count = node->lock_capacity = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool cut = before[i].file == wanted->file && overlap(&before[i], wanted);
        if (cut) add_rest(node, &before[i], wanted);
        else add_range(node, before[i]);
    }
    if (wanted->how != MW_LOCK_NONE) add_range(node, *wanted);
    free(before);
}

/* ---- mapped pages --------------------------------------------------------------------------- */

void *sim_map_open(sim_inode *node)
{
    if (node->map_count++ == 0) {
        node->map = aligned_alloc(SIM_PAGE_BYTES, SIM_PAGE_BYTES);
        if (!node->map) abort();
        memset(node->map, 0, SIM_PAGE_BYTES);
        sim_body_read(&node->cache, 0, node->map, SIM_PAGE_BYTES);
    }
    return node->map;
}

static sim_inode *mapped_at(sim_fs *fs, const void *at)
{
    for (uint32_t i = 0; i < fs->inode_count; i++) {
        if (fs->inodes[i] && fs->inodes[i]->map == at) return fs->inodes[i];
    }
    sim_give_up("unmapped, but not mapped", "a page");
    return NULL;
}

void sim_map_close(sim_fs *fs, const void *at)
{
    sim_inode *node = mapped_at(fs, at);
    if (--node->map_count) return;
    free(node->map);
    node->map = NULL;
}

size_t sim_map_page(const sim_inode *node, uint8_t to[SIM_PAGE_BYTES])
{
    return sim_body_read(&node->cache, 0, to, SIM_PAGE_BYTES);
}

/* By words: the engine's are never seen half stored. */
static void load_page(uint8_t *map, uint8_t to[SIM_PAGE_BYTES])
{
    for (size_t i = 0; i < SIM_PAGE_BYTES; i += 8) {
        _Atomic uint64_t *from = (_Atomic uint64_t *)(void *)(map + i);
        uint64_t word = atomic_load_explicit(from, memory_order_acquire);
        memcpy(to + i, &word, 8);
    }
}

void sim_map_look(sim_fs *fs, uint32_t inode)
{
    uint8_t stored[SIM_PAGE_BYTES];
    uint8_t known[SIM_PAGE_BYTES];
    sim_inode *node = fs->inodes[inode];
    if (!node || !node->map) return;
    load_page(node->map, stored);
    size_t bytes = sim_map_page(node, known); /* what is stored behind the end is nowhere */
    if (memcmp(stored, known, bytes) == 0) return;
    sim_body_write(&node->cache, 0, stored, bytes);
    node->map_dirty = true;
    node->map_moment = ++fs->moment;
}

void sim_map_show(sim_inode *node, uint64_t offset, uint64_t bytes)
{
    uint8_t page[SIM_PAGE_BYTES] = {0};
    if (!node->map || offset >= SIM_PAGE_BYTES) return;
    sim_map_page(node, page);
    uint64_t end = mw_min(SIM_PAGE_BYTES, offset + bytes);
    for (uint64_t i = offset; i < end; i++) {
        _Atomic uint8_t *to = (_Atomic uint8_t *)(node->map + i);
        atomic_store_explicit(to, page[i], memory_order_release);
    }
}
