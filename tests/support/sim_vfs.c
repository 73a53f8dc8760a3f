/* sim_vfs.c: SQLite's table of functions over the simulator's.
**
**     sim_vfs --> nodes, one per file that is open: locks, shared memory of a WAL
**                   ^
**                 files, one per sqlite3_file: descriptor in the sim, level of its lock
**
** Every call that changes the disk is a call of the machine (env.h, and sim.h for what the engine
** does not need), so that it is counted, traced, failed and cut like those of the engine. */
#include "sim_vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 2 * SIM_NAME_BYTES, REGIONS_MAX = 8 };

typedef struct node {
    struct node *next;
    uint64_t inode;
    unsigned uses;
    unsigned shared; /* files with a SHARED lock or more      */
    const void *reserved, *pending, *exclusive; /* files, NULL: none */
    unsigned mapped; /* files that use the shared memory */
    void *regions[REGIONS_MAX];
    unsigned slot_shared[SQLITE_SHM_NLOCK];
    const void *slot_exclusive[SQLITE_SHM_NLOCK];
} node;

struct sim_vfs {
    sqlite3_vfs base;
    sqlite3_vfs *real; /* for temporary files */
    sim *world;
    const mw_env *env;
    int dir;
    bool lies;
    node *nodes;
    pthread_mutex_t mutex; /* of the nodes and all in them */
    char name[32];
    char folder[SIM_NAME_BYTES + 1];
};

typedef struct file {
    sqlite3_file base; /* first: SQLite's part */
    sim_vfs *vfs;
    node *node;
    int fd;
    int level;        /* of the lock */
    bool new_name;    /* made by this open, and not synced since */
    bool passing;     /* goes when it is closed */
    bool maps;
    uint8_t slots_shared, slots_exclusive;
    char name[SIM_NAME_BYTES];
} file;

/* ---- nodes: under the mutex ------------------------------------------------------------------ */

static node *hold_node(sim_vfs *vfs, uint64_t inode)
{
    node *found = vfs->nodes;
    while (found && found->inode != inode) found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found);
        if (!found) abort();
        found->inode = inode;
        found->next = vfs->nodes;
        vfs->nodes = found;
    }
    found->uses++;
    return found;
}

static void drop_node(sim_vfs *vfs, node *dropped)
{
    if (--dropped->uses > 0) return;
    node **place = &vfs->nodes;
    while (*place != dropped) place = &(*place)->next;
    *place = dropped->next;
    free(dropped);
}

/* ---- content --------------------------------------------------------------------------------- */

static int read_file(sqlite3_file *base, void *to, int bytes, sqlite3_int64 offset)
{
    file *f = (file *)base;
    const mw_env *env = f->vfs->env;
    size_t wanted = (size_t)bytes;
    size_t done = 0;
    size_t got = 1;
    while (done < wanted && got > 0) {
        int sys = env->file_read(env->ctx, f->fd, (char *)to + done, wanted - done,
                                 (uint64_t)offset + done, &got);
        if (sys == EINTR) continue;
        if (sys) return SQLITE_IOERR_READ;
        done += got;
    }
    memset((char *)to + done, 0, wanted - done);
    return done == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int write_file(sqlite3_file *base, const void *from, int bytes, sqlite3_int64 offset)
{
    file *f = (file *)base;
    const mw_env *env = f->vfs->env;
    size_t wanted = (size_t)bytes;
    for (size_t done = 0; done < wanted;) {
        size_t put = 0;
        int sys = env->file_write(env->ctx, f->fd, (const char *)from + done, wanted - done,
                                  (uint64_t)offset + done, &put);
        if (sys == ENOSPC) return SQLITE_FULL;
        if (sys && sys != EINTR) return SQLITE_IOERR_WRITE;
        done += put;
    }
    return SQLITE_OK;
}

static int truncate_file(sqlite3_file *base, sqlite3_int64 bytes)
{
    file *f = (file *)base;
    return sim_truncate(f->vfs->world, f->fd, (uint64_t)bytes) ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int sync_folder(const sim_vfs *vfs)
{
    if (vfs->lies) return SQLITE_OK;
    return vfs->env->dir_sync(vfs->env->ctx, vfs->dir) ? SQLITE_IOERR_DIR_FSYNC : SQLITE_OK;
}

static int sync_file(sqlite3_file *base, int flags)
{
    (void)flags;
    file *f = (file *)base;
    const mw_env *env = f->vfs->env;
    if (f->vfs->lies) return SQLITE_OK;
    if (env->file_sync(env->ctx, f->fd)) return SQLITE_IOERR_FSYNC;
    int rc = f->new_name ? sync_folder(f->vfs) : SQLITE_OK;
    if (rc == SQLITE_OK) f->new_name = false;
    return rc;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *bytes)
{
    file *f = (file *)base;
    const mw_env *env = f->vfs->env;
    uint64_t size = 0;
    if (env->file_size(env->ctx, f->fd, &size)) return SQLITE_IOERR_FSTAT;
    *bytes = (sqlite3_int64)size;
    return SQLITE_OK;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static bool is_free(const void *holder, const file *f) { return !holder || holder == f; }

static int take_lock(file *f, int level)
{
    node *n = f->node;
    if (level == SQLITE_LOCK_SHARED) {
        if (!is_free(n->pending, f) || !is_free(n->exclusive, f)) return SQLITE_BUSY;
        n->shared++;
    } else if (level == SQLITE_LOCK_RESERVED) {
        if (!is_free(n->reserved, f) || !is_free(n->pending, f)) return SQLITE_BUSY;
        n->reserved = f;
    } else {
        /* A hot journal is rolled back without RESERVED in between. */
        if (!is_free(n->reserved, f) || !is_free(n->pending, f)) return SQLITE_BUSY;
        n->pending = f;
        f->level = SQLITE_LOCK_PENDING;
        if (n->shared > 1) return SQLITE_BUSY;
        n->exclusive = f;
    }
    f->level = level;
    return SQLITE_OK;
}

static int lock_file(sqlite3_file *base, int level)
{
    file *f = (file *)base;
    if (f->level >= level) return SQLITE_OK;
    pthread_mutex_lock(&f->vfs->mutex);
    int rc = take_lock(f, level);
    pthread_mutex_unlock(&f->vfs->mutex);
    return rc;
}

static int unlock_file(sqlite3_file *base, int level)
{
    file *f = (file *)base;
    if (f->level <= level) return SQLITE_OK;
    node *n = f->node;
    pthread_mutex_lock(&f->vfs->mutex);
    if (n->reserved == f) n->reserved = NULL;
    if (n->pending == f) n->pending = NULL;
    if (n->exclusive == f) n->exclusive = NULL;
    if (level == SQLITE_LOCK_NONE) n->shared--;
    f->level = level;
    pthread_mutex_unlock(&f->vfs->mutex);
    return SQLITE_OK;
}

static int check_reserved(sqlite3_file *base, int *yes)
{
    file *f = (file *)base;
    pthread_mutex_lock(&f->vfs->mutex);
    *yes = f->node->reserved || f->node->pending || f->node->exclusive;
    pthread_mutex_unlock(&f->vfs->mutex);
    return SQLITE_OK;
}

/* ---- shared memory of a WAL ------------------------------------------------------------------ */

static int map_region(file *f, int region, int bytes, int extend, void volatile **to)
{
    node *n = f->node;
    if (!f->maps) n->mapped++;
    f->maps = true;
    *to = NULL;
    if (region >= REGIONS_MAX) return SQLITE_IOERR_SHMMAP;
    if (!n->regions[region] && extend) {
        n->regions[region] = calloc(1, (size_t)bytes);
        if (!n->regions[region]) return SQLITE_NOMEM;
    }
    *to = n->regions[region];
    return SQLITE_OK;
}

static int shm_map(sqlite3_file *base, int region, int bytes, int extend, void volatile **to)
{
    file *f = (file *)base;
    pthread_mutex_lock(&f->vfs->mutex);
    int rc = map_region(f, region, bytes, extend, to);
    pthread_mutex_unlock(&f->vfs->mutex);
    return rc;
}

static bool may_take_slot(const file *f, int slot, bool exclusive)
{
    const node *n = f->node;
    unsigned own = f->slots_shared >> slot & 1u;
    if (!is_free(n->slot_exclusive[slot], f)) return false;
    return !exclusive || n->slot_shared[slot] == own;
}

static void take_slot(file *f, int slot, bool exclusive)
{
    uint8_t bit = (uint8_t)(1u << slot);
    if (exclusive) {
        f->node->slot_exclusive[slot] = f;
        f->slots_exclusive |= bit;
    } else if (!(f->slots_shared & bit)) {
        f->node->slot_shared[slot]++;
        f->slots_shared |= bit;
    }
}

static void give_slot(file *f, int slot)
{
    uint8_t bit = (uint8_t)(1u << slot);
    if (f->slots_exclusive & bit) f->node->slot_exclusive[slot] = NULL;
    if (f->slots_shared & bit) f->node->slot_shared[slot]--;
    f->slots_exclusive &= (uint8_t)~bit;
    f->slots_shared &= (uint8_t)~bit;
}

static int shm_lock(sqlite3_file *base, int first, int count, int flags)
{
    file *f = (file *)base;
    bool exclusive = flags & SQLITE_SHM_EXCLUSIVE;
    int rc = SQLITE_OK;
    pthread_mutex_lock(&f->vfs->mutex);
    for (int i = first; i < first + count; i++) {
        if (flags & SQLITE_SHM_UNLOCK) give_slot(f, i);
        else if (!may_take_slot(f, i, exclusive)) rc = SQLITE_BUSY;
    }
    for (int i = first; rc == SQLITE_OK && i < first + count; i++) {
        if (flags & SQLITE_SHM_LOCK) take_slot(f, i, exclusive);
    }
    pthread_mutex_unlock(&f->vfs->mutex);
    return rc;
}

static void shm_barrier(sqlite3_file *base)
{
    (void)base;
    atomic_thread_fence(memory_order_seq_cst);
}

/* The last one takes the memory along: whoever comes first builds it anew from the WAL. */
static int shm_unmap(sqlite3_file *base, int also_delete)
{
    (void)also_delete;
    file *f = (file *)base;
    if (!f->maps) return SQLITE_OK;
    f->maps = false;
    pthread_mutex_lock(&f->vfs->mutex);
    for (int i = 0; i < SQLITE_SHM_NLOCK; i++) give_slot(f, i);
    bool last = --f->node->mapped == 0;
    for (int i = 0; last && i < REGIONS_MAX; i++) {
        free(f->node->regions[i]);
        f->node->regions[i] = NULL;
    }
    pthread_mutex_unlock(&f->vfs->mutex);
    return SQLITE_OK;
}

/* ---- what it says of itself ------------------------------------------------------------------ */

static int control_file(sqlite3_file *base, int op, void *arg)
{
    (void)base, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *base)
{
    (void)base;
    return SIM_UNIT_BYTES;
}

static int characteristics(sqlite3_file *base)
{
    (void)base;
    return 0;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int close_file(sqlite3_file *base)
{
    file *f = (file *)base;
    sim_vfs *vfs = f->vfs;
    unlock_file(base, SQLITE_LOCK_NONE);
    shm_unmap(base, 0);
    pthread_mutex_lock(&vfs->mutex);
    drop_node(vfs, f->node);
    pthread_mutex_unlock(&vfs->mutex);
    int sys = vfs->env->file_close(vfs->env->ctx, f->fd);
    if (f->passing) (void)vfs->env->unlink(vfs->env->ctx, vfs->dir, f->name);
    return sys ? SQLITE_IOERR_CLOSE : SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved,
    .xFileControl = control_file,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

/* The name in the folder, NULL: it is elsewhere. */
static const char *name_of(const sim_vfs *vfs, const char *path)
{
    size_t length = strlen(vfs->folder);
    if (strncmp(path, vfs->folder, length) != 0 || path[length] != '/') return NULL;
    const char *name = path + length + 1;
    return *name && !strchr(name, '/') && strlen(name) < SIM_NAME_BYTES ? name : NULL;
}

/* Opens, and makes when asked for and needed; then *made. Returns 0 or an errno value. */
static int open_name(const sim_vfs *vfs, const char *name, int flags, bool *made, int *fd)
{
    const mw_env *env = vfs->env;
    bool reads = flags & SQLITE_OPEN_READONLY;
    bool exclusive = flags & SQLITE_OPEN_EXCLUSIVE;
    int sys = exclusive ? ENOENT
                        : env->file_open(env->ctx, vfs->dir, name,
                                         reads ? MW_OPEN_READ : MW_OPEN_WRITE, fd);
    *made = false;
    if (sys != ENOENT || !(flags & SQLITE_OPEN_CREATE)) return sys;
    sys = env->file_open(env->ctx, vfs->dir, name, MW_OPEN_CREATE, fd);
    *made = sys == 0;
    return sys;
}

static int open_file(sqlite3_vfs *base, const char *path, sqlite3_file *to, int flags, int *out)
{
    sim_vfs *vfs = (sim_vfs *)base;
    enum { JOURNALS = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL };
    file *f = (file *)to;
    memset(f, 0, sizeof *f);
    if (!path) return vfs->real->xOpen(vfs->real, NULL, to, flags, out);
    const char *name = name_of(vfs, path);
    bool made = false;
    if (!name || open_name(vfs, name, flags, &made, &f->fd)) return SQLITE_CANTOPEN;
    uint64_t device, inode;
    if (sim_identify(vfs->world, path, &device, &inode)) {
        (void)vfs->env->file_close(vfs->env->ctx, f->fd);
        return SQLITE_CANTOPEN;
    }
    f->vfs = vfs;
    f->new_name = made && (flags & JOURNALS);
    f->passing = flags & SQLITE_OPEN_DELETEONCLOSE;
    snprintf(f->name, sizeof f->name, "%s", name);
    pthread_mutex_lock(&vfs->mutex);
    f->node = hold_node(vfs, inode);
    pthread_mutex_unlock(&vfs->mutex);
    f->base.pMethods = &methods;
    if (out) *out = flags;
    return SQLITE_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int delete_name(sqlite3_vfs *base, const char *path, int sync)
{
    sim_vfs *vfs = (sim_vfs *)base;
    const char *name = name_of(vfs, path);
    int sys = name ? vfs->env->unlink(vfs->env->ctx, vfs->dir, name) : ENOENT;
    if (sys == ENOENT) return SQLITE_IOERR_DELETE_NOENT;
    if (sys) return SQLITE_IOERR_DELETE;
    return sync ? sync_folder(vfs) : SQLITE_OK;
}

/* As SQLite's own: an empty file does not exist, for who asks whether there is a journal. */
static int access_name(sqlite3_vfs *base, const char *path, int flags, int *yes)
{
    sim_vfs *vfs = (sim_vfs *)base;
    const mw_env *env = vfs->env;
    const char *name = name_of(vfs, path);
    bool there = false;
    if (name && env->exists(env->ctx, vfs->dir, name, &there)) return SQLITE_IOERR_ACCESS;
    *yes = there && (flags != SQLITE_ACCESS_EXISTS || sim_file_size(vfs->world, path) > 0);
    return SQLITE_OK;
}

static int full_path(sqlite3_vfs *base, const char *path, int bytes, char *to)
{
    const sim_vfs *vfs = (const sim_vfs *)base;
    if (path[0] == '/') sqlite3_snprintf(bytes, to, "%s", path);
    else sqlite3_snprintf(bytes, to, "%s/%s", vfs->folder, path);
    return SQLITE_OK;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static int random_bytes(sqlite3_vfs *base, int bytes, char *to)
{
    const mw_env *env = ((const sim_vfs *)base)->env;
    return env->random(env->ctx, to, (size_t)bytes) ? 0 : bytes;
}

static int sleep_us(sqlite3_vfs *base, int us)
{
    sim_clock_advance(((const sim_vfs *)base)->world, (uint64_t)us * 1000);
    return us;
}

static int now_ms(sqlite3_vfs *base, sqlite3_int64 *ms)
{
    static const sqlite3_int64 year_2000 = 211813488000000;
    const mw_env *env = ((const sim_vfs *)base)->env;
    *ms = year_2000 + (sqlite3_int64)(env->now_ns(env->ctx) / 1000000);
    return SQLITE_OK;
}

static int now_days(sqlite3_vfs *base, double *days)
{
    sqlite3_int64 ms = 0;
    now_ms(base, &ms);
    *days = (double)ms / 86400000.0;
    return SQLITE_OK;
}

static int last_error(sqlite3_vfs *base, int bytes, char *to)
{
    (void)base;
    if (bytes > 0) to[0] = 0;
    return 0;
}

sim_vfs *sim_vfs_create(sim *world, const char *folder)
{
    static atomic_uint made;
    sim_vfs *vfs = calloc(1, sizeof *vfs);
    if (!vfs) abort();
    vfs->real = sqlite3_vfs_find(NULL);
    vfs->world = world;
    vfs->env = sim_env(world);
    snprintf(vfs->name, sizeof vfs->name, "sim-%u", atomic_fetch_add(&made, 1));
    snprintf(vfs->folder, sizeof vfs->folder, "%s", folder);
    pthread_mutex_init(&vfs->mutex, NULL);
    int own = (int)sizeof(file);
    vfs->base = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = own > vfs->real->szOsFile ? own : vfs->real->szOsFile,
        .mxPathname = PATH_BYTES,
        .zName = vfs->name,
        .xOpen = open_file,
        .xDelete = delete_name,
        .xAccess = access_name,
        .xFullPathname = full_path,
        .xRandomness = random_bytes,
        .xSleep = sleep_us,
        .xCurrentTime = now_days,
        .xGetLastError = last_error,
        .xCurrentTimeInt64 = now_ms,
    };
    bool ready = vfs->env->dir_open(vfs->env->ctx, folder, false, &vfs->dir) == 0;
    if (!ready || sqlite3_vfs_register(&vfs->base, 0) != SQLITE_OK) {
        fprintf(stderr, "sim_vfs: cannot be made in %s\n", folder);
        abort();
    }
    return vfs;
}

void sim_vfs_destroy(sim_vfs *vfs)
{
    if (!vfs) return;
    sqlite3_vfs_unregister(&vfs->base);
    (void)vfs->env->dir_close(vfs->env->ctx, vfs->dir);
    pthread_mutex_destroy(&vfs->mutex);
    free(vfs);
}

const char *sim_vfs_name(const sim_vfs *vfs) { return vfs->name; }

void sim_vfs_lie(sim_vfs *vfs) { vfs->lies = true; }
