/* sim_fs.h: the simulated disk, for the files of the simulator only.
**
** A file has two bodies: what the disk holds for sure and what the page cache shows, and between
** them the list of writes that no sync has covered. A directory likewise has entries on disk,
** entries that are seen, and the list of changes in between. Contents are pages shared by reference
** count, so that thousands of disk states cost only what differs. Nothing here locks. */
#ifndef SIM_FS_H
#define SIM_FS_H

#include "sim.h"

enum { SIM_PAGE_BYTES = 4096 };

typedef struct sim_page sim_page;

typedef struct sim_body {
    sim_page **pages; /* NULL: zeros */
    size_t page_count;
    uint64_t size;
} sim_body;

typedef struct sim_write {
    uint64_t moment; /* order among all unsynced changes of the disk */
    uint64_t offset;
    uint64_t bytes;
    uint8_t *data; /* NULL: only the size may have changed */
    bool cut;      /* to the size offset, or grown to it by zeros; bytes is 0 */
} sim_write;

typedef struct sim_entry {
    char name[SIM_NAME_BYTES];
    uint32_t inode;
} sim_entry;

typedef struct sim_names {
    sim_entry *entries;
    uint32_t count;
    uint32_t capacity;
} sim_names;

typedef struct sim_change {
    uint64_t moment;
    bool added;
    sim_entry entry;
} sim_change;

typedef struct sim_inode {
    bool directory;
    int lock; /* descriptor that holds it, -1: none */
    sim_body disk;
    sim_body cache;
    sim_write *writes;
    uint32_t write_count;
    uint32_t write_capacity;
    sim_names names_disk;
    sim_names names_cache;
    sim_change *changes;
    uint32_t change_count;
    uint32_t change_capacity;
} sim_inode;

typedef struct sim_fs {
    sim_inode **inodes; /* [0]: the root; NULL: collected */
    uint32_t inode_count;
    uint32_t inode_capacity;
    uint32_t first_free; /* none below is NULL */
    uint64_t moment;
} sim_fs;

/* Memory of the simulator itself: never fails, never counted. */
void *sim_grab(size_t bytes); /* zeroed */
void *sim_grow(void *old, uint32_t count, uint32_t *capacity, size_t item_bytes);
uint64_t sim_mix(uint64_t a, uint64_t b);

/* Bodies. */
sim_body sim_body_copy(const sim_body *from); /* shares the pages */
void sim_body_free(sim_body *body);
void sim_body_write(sim_body *body, uint64_t offset, const void *from, uint64_t bytes);
size_t sim_body_read(const sim_body *body, uint64_t offset, void *to, size_t bytes);
void sim_body_resize(sim_body *body, uint64_t size); /* what is cut reads as zero ever after */
uint64_t sim_body_hash(const sim_body *body);        /* of size and content */

/* Inodes and names. */
void sim_fs_init(sim_fs *fs);
void sim_fs_free(sim_fs *fs);
/* The lowest index that is free, as a real file system may well do. */
uint32_t sim_fs_add_inode(sim_fs *fs, bool directory);
/* Frees inodes that no name, synced or not, leads to; open: inodes in use. */
void sim_fs_collect(sim_fs *fs, const uint32_t *open, uint32_t open_count);
void sim_names_set(sim_names *names, bool added, const sim_entry *entry);
sim_names sim_names_copy(const sim_names *from);
/* Index of the inode, -1: no such name. */
int64_t sim_fs_find(const sim_fs *fs, uint32_t dir, const char *name);
/* Walks a path. *parent and last: where the last component is or would be. Returns 0 or ENOENT,
** ENOTDIR, ENAMETOOLONG; the inode -1 when only the last component is missing. */
int sim_fs_walk(const sim_fs *fs, const char *path, uint32_t *parent, char last[SIM_NAME_BYTES],
                int64_t *inode);

/* Changes that wait for a sync. */
void sim_fs_change_name(sim_fs *fs, uint32_t dir, bool added, const char *name, uint32_t inode);
void sim_fs_write(sim_fs *fs, uint32_t inode, uint64_t offset, const void *from, uint64_t bytes);
void sim_fs_extend(sim_fs *fs, uint32_t inode, uint64_t size);
void sim_fs_cut(sim_fs *fs, uint32_t inode, uint64_t size);
/* The syncs. */
void sim_fs_sync_file(sim_fs *fs, uint32_t inode);
void sim_fs_sync_dir(sim_fs *fs, uint32_t dir);
void sim_fs_forget_writes(sim_fs *fs, uint32_t inode);

/* A copy with all that waits for a sync, without locks. */
void sim_fs_copy(sim_fs *to, const sim_fs *from);

#endif
