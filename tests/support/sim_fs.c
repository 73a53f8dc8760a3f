/* sim_fs.c: pages, files and directories of the simulated disk. */
#include "sim_fs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct sim_page {
    atomic_uint refs;
    bool hashed;
    uint64_t hash;
    uint8_t bytes[SIM_PAGE_BYTES];
};

void *sim_grab(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) abort();
    return memory;
}

void *sim_grow(void *old, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) return old;
    *capacity = *capacity ? *capacity * 2 : 8;
    void *memory = realloc(old, *capacity * item_bytes);
    if (!memory) abort();
    return memory;
}

uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a + 0x9e3779b97f4a7c15u) ^ (b * 0xd6e8feb86659fd93u);
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

/* ---- bodies --------------------------------------------------------------------------------- */

static void drop_page(sim_page *page)
{
    if (page && atomic_fetch_sub(&page->refs, 1) == 1) free(page);
}

/* Page i for writing: nobody else sees the change. */
static uint8_t *own_page(sim_body *body, size_t i)
{
    sim_page *page = body->pages[i];
    if (!page || atomic_load(&page->refs) > 1) {
        sim_page *fresh = sim_grab(sizeof *fresh);
        if (page) memcpy(fresh->bytes, page->bytes, SIM_PAGE_BYTES);
        atomic_init(&fresh->refs, 1);
        drop_page(page);
        body->pages[i] = fresh;
        page = fresh;
    }
    page->hashed = false;
    return page->bytes;
}

static void want_pages(sim_body *body, uint64_t size)
{
    size_t count = (size_t)((size + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES);
    if (count <= body->page_count) return;
    body->pages = realloc(body->pages, count * sizeof *body->pages);
    if (!body->pages) abort();
    memset(body->pages + body->page_count, 0, (count - body->page_count) * sizeof *body->pages);
    body->page_count = count;
}

sim_body sim_body_copy(const sim_body *from)
{
    sim_body copy = {.page_count = from->page_count, .size = from->size};
    if (from->page_count) copy.pages = sim_grab(from->page_count * sizeof *copy.pages);
    for (size_t i = 0; i < from->page_count; i++) {
        copy.pages[i] = from->pages[i];
        if (copy.pages[i]) atomic_fetch_add(&copy.pages[i]->refs, 1);
    }
    return copy;
}

void sim_body_free(sim_body *body)
{
    for (size_t i = 0; i < body->page_count; i++) drop_page(body->pages[i]);
    free(body->pages);
    *body = (sim_body){0};
}

void sim_body_resize(sim_body *body, uint64_t size)
{
    for (uint64_t at = size; at < body->size;) {
        size_t page = (size_t)(at / SIM_PAGE_BYTES);
        size_t start = (size_t)(at % SIM_PAGE_BYTES);
        if (start) {
            if (body->pages[page]) memset(own_page(body, page) + start, 0, SIM_PAGE_BYTES - start);
        } else {
            drop_page(body->pages[page]);
            body->pages[page] = NULL;
        }
        at += SIM_PAGE_BYTES - start;
    }
    want_pages(body, size);
    body->size = size;
}

void sim_body_write(sim_body *body, uint64_t offset, const void *from, uint64_t bytes)
{
    const uint8_t *source = from;
    if (bytes == 0) return;
    want_pages(body, offset + bytes);
    for (uint64_t at = offset; at < offset + bytes;) {
        size_t start = (size_t)(at % SIM_PAGE_BYTES);
        size_t part = (size_t)mw_min(SIM_PAGE_BYTES - start, offset + bytes - at);
        memcpy(own_page(body, (size_t)(at / SIM_PAGE_BYTES)) + start, source, part);
        source += part;
        at += part;
    }
    body->size = mw_max(body->size, offset + bytes);
}

size_t sim_body_read(const sim_body *body, uint64_t offset, void *to, size_t bytes)
{
    uint8_t *target = to;
    if (offset >= body->size) return 0;
    size_t got = (size_t)mw_min(bytes, body->size - offset);
    for (size_t done = 0; done < got;) {
        uint64_t at = offset + done;
        size_t start = (size_t)(at % SIM_PAGE_BYTES);
        size_t part = (size_t)mw_min(SIM_PAGE_BYTES - start, got - done);
        const sim_page *page = body->pages[at / SIM_PAGE_BYTES];
        if (page) memcpy(target + done, page->bytes + start, part);
        else memset(target + done, 0, part);
        done += part;
    }
    return got;
}

/* 0 for a page of zeros, as for one that was never written. */
static uint64_t page_hash(sim_page *page)
{
    if (page->hashed) return page->hash;
    uint64_t hash = 0;
    uint64_t any = 0;
    for (size_t i = 0; i < SIM_PAGE_BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, page->bytes + i, 8);
        any |= word;
        hash = sim_mix(hash, word);
    }
    page->hash = any ? hash : 0;
    page->hashed = true;
    return page->hash;
}

uint64_t sim_body_hash(const sim_body *body)
{
    uint64_t sum = sim_mix(1, body->size);
    for (size_t i = 0; i < body->page_count; i++) {
        uint64_t hash = body->pages[i] ? page_hash(body->pages[i]) : 0;
        if (hash) sum += sim_mix(hash, i);
    }
    return sum;
}

/* ---- names ---------------------------------------------------------------------------------- */

static int64_t names_index(const sim_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->entries[i].name, name) == 0) return i;
    }
    return -1;
}

void sim_names_set(sim_names *names, bool added, const sim_entry *entry)
{
    int64_t at = names_index(names, entry->name);
    if (added) {
        if (at < 0) {
            names->entries = sim_grow(names->entries, names->count, &names->capacity,
                                      sizeof *names->entries);
            at = names->count++;
        }
        names->entries[at] = *entry;
    } else if (at >= 0) {
        names->entries[at] = names->entries[--names->count];
    }
}

sim_names sim_names_copy(const sim_names *from)
{
    sim_names copy = {.count = from->count, .capacity = from->count};
    copy.entries = sim_grab(from->count * sizeof *copy.entries);
    if (from->count) memcpy(copy.entries, from->entries, from->count * sizeof *copy.entries);
    return copy;
}

int64_t sim_fs_find(const sim_fs *fs, uint32_t dir, const char *name)
{
    const sim_names *names = &fs->inodes[dir]->names_cache;
    int64_t at = names_index(names, name);
    return at < 0 ? -1 : (int64_t)names->entries[at].inode;
}

int sim_fs_walk(const sim_fs *fs, const char *path, uint32_t *parent, char last[SIM_NAME_BYTES],
                int64_t *inode)
{
    *parent = 0;
    *inode = 0;
    last[0] = '\0';
    for (;;) {
        path += strspn(path, "/");
        size_t length = strcspn(path, "/");
        if (length == 0) return 0;
        if (length >= SIM_NAME_BYTES) return ENAMETOOLONG;
        if (*inode < 0) return ENOENT;
        if (!fs->inodes[*inode]->directory) return ENOTDIR;
        *parent = (uint32_t)*inode;
        memcpy(last, path, length);
        last[length] = '\0';
        *inode = sim_fs_find(fs, *parent, last);
        path += length;
    }
}

/* ---- inodes --------------------------------------------------------------------------------- */

static void free_inode(sim_inode *inode)
{
    if (!inode) return;
    sim_body_free(&inode->disk);
    sim_body_free(&inode->cache);
    for (uint32_t i = 0; i < inode->write_count; i++) free(inode->writes[i].data);
    free(inode->writes);
    free(inode->names_disk.entries);
    free(inode->names_cache.entries);
    free(inode->changes);
    free(inode);
}

void sim_fs_init(sim_fs *fs)
{
    *fs = (sim_fs){0};
    sim_fs_add_inode(fs, true);
}

void sim_fs_free(sim_fs *fs)
{
    for (uint32_t i = 0; i < fs->inode_count; i++) free_inode(fs->inodes[i]);
    free(fs->inodes);
    *fs = (sim_fs){0};
}

uint32_t sim_fs_add_inode(sim_fs *fs, bool directory)
{
    uint32_t free_one = fs->first_free;
    while (free_one < fs->inode_count && fs->inodes[free_one]) free_one++;
    fs->first_free = free_one + 1;
    if (free_one == fs->inode_count) {
        fs->inodes = sim_grow(fs->inodes, free_one, &fs->inode_capacity, sizeof *fs->inodes);
        fs->inode_count++;
    }
    sim_inode *inode = sim_grab(sizeof *inode);
    inode->directory = directory;
    inode->lock = -1;
    fs->inodes[free_one] = inode;
    return free_one;
}

static void mark_names(const sim_inode *dir, bool *used)
{
    for (uint32_t i = 0; i < dir->names_disk.count; i++) {
        used[dir->names_disk.entries[i].inode] = true;
    }
    for (uint32_t i = 0; i < dir->names_cache.count; i++) {
        used[dir->names_cache.entries[i].inode] = true;
    }
    for (uint32_t i = 0; i < dir->change_count; i++) used[dir->changes[i].entry.inode] = true;
}

void sim_fs_collect(sim_fs *fs, const uint32_t *open, uint32_t open_count)
{
    bool *used = sim_grab(fs->inode_count);
    used[0] = true;
    for (uint32_t i = 0; i < open_count; i++) used[open[i]] = true;
    for (uint32_t i = 0; i < fs->inode_count; i++) {
        if (fs->inodes[i]) mark_names(fs->inodes[i], used);
    }
    for (uint32_t i = 0; i < fs->inode_count; i++) {
        if (used[i]) continue;
        free_inode(fs->inodes[i]);
        fs->inodes[i] = NULL;
        if (i < fs->first_free) fs->first_free = i;
    }
    free(used);
}

static void copy_inode(sim_inode *to, const sim_inode *from)
{
    to->disk = sim_body_copy(&from->disk);
    to->cache = sim_body_copy(&from->cache);
    to->names_disk = sim_names_copy(&from->names_disk);
    to->names_cache = sim_names_copy(&from->names_cache);
    to->writes = sim_grab(from->write_count * sizeof *to->writes);
    to->write_count = to->write_capacity = from->write_count;
    for (uint32_t i = 0; i < from->write_count; i++) {
        const sim_write *write = &from->writes[i];
        to->writes[i] = *write;
        if (!write->data) continue;
        to->writes[i].data = sim_grab((size_t)write->bytes);
        memcpy(to->writes[i].data, write->data, (size_t)write->bytes);
    }
    to->changes = sim_grab(from->change_count * sizeof *to->changes);
    to->change_count = to->change_capacity = from->change_count;
    if (from->change_count) {
        memcpy(to->changes, from->changes, from->change_count * sizeof *to->changes);
    }
}

void sim_fs_copy(sim_fs *to, const sim_fs *from)
{
    *to = (sim_fs){.moment = from->moment};
    for (uint32_t i = 0; i < from->inode_count; i++) {
        const sim_inode *inode = from->inodes[i];
        uint32_t index = sim_fs_add_inode(to, inode && inode->directory);
        if (inode) copy_inode(to->inodes[index], inode);
    }
}

/* ---- changes and syncs ---------------------------------------------------------------------- */

void sim_fs_change_name(sim_fs *fs, uint32_t dir, bool added, const char *name, uint32_t inode)
{
    sim_inode *node = fs->inodes[dir];
    sim_change change = {.moment = ++fs->moment, .added = added, .entry = {.inode = inode}};
    snprintf(change.entry.name, SIM_NAME_BYTES, "%s", name);
    node->changes = sim_grow(node->changes, node->change_count, &node->change_capacity,
                             sizeof *node->changes);
    node->changes[node->change_count++] = change;
    sim_names_set(&node->names_cache, added, &change.entry);
}

static sim_write *add_write(sim_fs *fs, sim_inode *node, uint64_t offset, uint64_t bytes)
{
    node->writes = sim_grow(node->writes, node->write_count, &node->write_capacity,
                            sizeof *node->writes);
    sim_write *write = &node->writes[node->write_count++];
    *write = (sim_write){.moment = ++fs->moment, .offset = offset, .bytes = bytes};
    return write;
}

void sim_fs_write(sim_fs *fs, uint32_t inode, uint64_t offset, const void *from, uint64_t bytes)
{
    sim_inode *node = fs->inodes[inode];
    if (bytes == 0) return;
    sim_write *write = add_write(fs, node, offset, bytes);
    write->data = sim_grab((size_t)bytes);
    memcpy(write->data, from, (size_t)bytes);
    sim_body_write(&node->cache, offset, from, bytes);
}

void sim_fs_extend(sim_fs *fs, uint32_t inode, uint64_t size)
{
    sim_inode *node = fs->inodes[inode];
    if (size <= node->cache.size) return;
    add_write(fs, node, node->cache.size, size - node->cache.size);
    sim_body_resize(&node->cache, size);
}

void sim_fs_cut(sim_fs *fs, uint32_t inode, uint64_t size)
{
    sim_inode *node = fs->inodes[inode];
    if (size == node->cache.size) return;
    add_write(fs, node, size, 0)->cut = true;
    sim_body_resize(&node->cache, size);
}

void sim_fs_forget_writes(sim_fs *fs, uint32_t inode)
{
    sim_inode *node = fs->inodes[inode];
    for (uint32_t i = 0; i < node->write_count; i++) free(node->writes[i].data);
    node->write_count = 0;
}

void sim_fs_sync_file(sim_fs *fs, uint32_t inode)
{
    sim_inode *node = fs->inodes[inode];
    for (uint32_t i = 0; i < node->write_count; i++) {
        const sim_write *write = &node->writes[i];
        if (write->cut) sim_body_resize(&node->disk, write->offset);
        if (write->data) sim_body_write(&node->disk, write->offset, write->data, write->bytes);
    }
    sim_body_resize(&node->disk, node->cache.size);
    sim_fs_forget_writes(fs, inode);
}

void sim_fs_sync_dir(sim_fs *fs, uint32_t dir)
{
    sim_inode *node = fs->inodes[dir];
    for (uint32_t i = 0; i < node->change_count; i++) {
        sim_names_set(&node->names_disk, node->changes[i].added, &node->changes[i].entry);
    }
    node->change_count = 0;
}
