/* sim.c: the simulated machine: the table of functions over the disk of sim_fs.c.
**
** Every call takes the one mutex and passes enter(): there it is counted, held, stopped or failed,
** in this order, before it has any effect. It ends in leave(), which writes the trace. */
#include "sim_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_DESCRIPTOR = 3 };
static const uint64_t FILE_BYTES_MAX = (uint64_t)1 << 34;

/* One call, as filters and trace see it. */
typedef struct call_info {
    sim_op op;
    const char *name;
    const char *other; /* second name of a link */
    bool step;
    uint64_t offset;
    uint64_t bytes;
} call_info;

const char *const SIM_OP_TEXTS[SIM_OP_COUNT] = {
    [SIM_DIR_OPEN] = "dir-open",     [SIM_DIR_SYNC] = "dir-sync", [SIM_LIST] = "list",
    [SIM_DIR_REMOVE] = "dir-remove", [SIM_OPEN] = "open",         [SIM_CLOSE] = "close",
    [SIM_SIZE] = "size",             [SIM_READ] = "read",         [SIM_WRITE] = "write",
    [SIM_FILE_SYNC] = "file-sync",   [SIM_ALLOCATE] = "allocate", [SIM_LOCK] = "lock",
    [SIM_LINK] = "link",             [SIM_UNLINK] = "unlink",     [SIM_EXISTS] = "exists",
    [SIM_ANY_CALL] = "any",          [SIM_ALLOC] = "alloc",       [SIM_THREAD] = "thread",
    [SIM_MUTEX] = "mutex",           [SIM_BOOT_ID] = "boot-id",   [SIM_RANDOM] = "random",
    [SIM_TRUNCATE] = "truncate",
};

void sim_give_up(const char *what, const char *name)
{
    fprintf(stderr, "sim: %s: %s\n", what, name);
    abort();
}

void sim_lock(sim *world)
{
    pthread_mutex_lock(&world->mutex);
}

void sim_unlock(sim *world)
{
    pthread_mutex_unlock(&world->mutex);
}

/* ---- what every call passes ----------------------------------------------------------------- */

static bool name_matches(const char *prefix, const char *name)
{
    return name && strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool call_matches(const call_info *call, sim_op op, const char *prefix)
{
    if (op != call->op && !(op == SIM_ANY_CALL && call->op < SIM_ANY_CALL)) return false;
    return name_matches(prefix, call->name) || name_matches(prefix, call->other);
}

static void pass_holds(sim *world, const call_info *call)
{
    for (int i = 0; i < SIM_HOLDS_MAX; i++) {
        sim_hold_slot *hold = &world->holds[i];
        if (hold->state != SIM_HOLD_ARMED || !call_matches(call, hold->op, hold->prefix)) continue;
        hold->state = SIM_HOLD_BLOCKING;
        pthread_cond_broadcast(&world->moved);
        while (hold->state == SIM_HOLD_BLOCKING) pthread_cond_wait(&world->moved, &world->mutex);
        hold->state = SIM_HOLD_FREE;
    }
}

/* False when the machine is gone, from now on or before. */
static bool take_step(sim *world)
{
    if (world->steps >= world->stop_after) world->stopped = true;
    if (world->stopped) return false;
    if (world->each_step) {
        sim_fs copy;
        sim_fs_copy(&copy, &world->fs);
        sim *shown = sim_start(&copy, world->boot_id);
        shown->in_order = world->in_order;
        world->each_step(world->each_step_arg, shown);
    }
    world->steps++;
    return true;
}

/* What the first fault that strikes says; every fault counts the call. */
static int pass_faults(sim *world, const call_info *call)
{
    int sys = 0;
    for (int i = 0; i < SIM_FAULTS_MAX; i++) {
        sim_fault *fault = &world->faults[i];
        if (!fault->armed || !call_matches(call, fault->op, fault->prefix)) continue;
        if (fault->left > 0) {
            fault->left--;
            continue;
        }
        if (!fault->for_ever) fault->armed = false;
        if (!sys) sys = fault->sys;
    }
    if (sys) world->fault_hits++;
    return sys;
}

/* Locks, and tells whether the call may go on (0) or what it answers. */
static int enter(sim *world, const call_info *call)
{
    sim_lock(world);
    world->calls[call->op]++;
    pass_holds(world, call);
    if (call->op < SIM_ANY_CALL) {
        world->calls[SIM_ANY_CALL]++;
        if (call->step) {
            sim_set_plan(world, NULL);
            if (!take_step(world)) return EIO;
        }
        if (world->stopped) return EIO;
    }
    return pass_faults(world, call);
}

static int leave(sim *world, const call_info *call, int sys)
{
    if (sys < 0) sys = EIO; /* SIM_TORN, or SIM_SHORT where there is nothing to shorten */
    if (world->trace && call->op != SIM_ALLOC) {
        char *line = world->trace[world->trace_count++ % SIM_TRACE_LINES];
        snprintf(line, SIM_TRACE_LINE_BYTES, "%7llu %-10s %.40s%s%.40s %llu+%llu %s",
                 (unsigned long long)world->trace_count, SIM_OP_TEXTS[call->op], call->name,
                 call->other ? " -> " : "", call->other ? call->other : "",
                 (unsigned long long)call->offset, (unsigned long long)call->bytes,
                 sys ? strerrorname_np(sys) : "ok");
    }
    sim_unlock(world);
    return sys;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Stands before every piece of memory. */
typedef union header {
    uint64_t bytes;
    max_align_t align;
} header;

static void count_memory(sim *world, uint64_t old_bytes, uint64_t new_bytes)
{
    world->memory_in_use += new_bytes - old_bytes;
    world->memory_peak = mw_max(world->memory_peak, world->memory_in_use);
}

static void *memory_resize(void *ctx, void *old, size_t bytes)
{
    sim *world = ctx;
    call_info call = {.op = SIM_ALLOC, .name = "", .bytes = bytes};
    header *before = old ? (header *)old - 1 : NULL;
    header *memory = NULL;
    int sys = enter(world, &call);
    if (!sys && bytes <= SIZE_MAX - sizeof *memory) {
        uint64_t old_bytes = before ? before->bytes : 0;
        memory = realloc(before, sizeof *memory + bytes);
        if (memory) {
            count_memory(world, old_bytes, bytes);
            memory->bytes = bytes;
        }
    }
    leave(world, &call, sys);
    return memory ? memory + 1 : NULL;
}

static void *memory_alloc(void *ctx, size_t bytes)
{
    void *memory = memory_resize(ctx, NULL, bytes);
    if (memory) memset(memory, 0xa5, bytes); /* nobody may count on zeros */
    return memory;
}

static void memory_release(void *ctx, void *old)
{
    sim *world = ctx;
    if (!old) return;
    header *memory = (header *)old - 1;
    sim_lock(world);
    count_memory(world, memory->bytes, 0);
    sim_unlock(world);
    free(memory);
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* A copy: the table may move while a call is held. */
static sim_descriptor describe(sim *world, int fd, bool directory)
{
    sim_lock(world);
    uint32_t i = (uint32_t)(fd - FIRST_DESCRIPTOR);
    if (fd < FIRST_DESCRIPTOR || i >= world->descriptor_count || !world->descriptors[i].used ||
        world->descriptors[i].directory != directory) {
        sim_give_up("used, but not open", directory ? "a directory" : "a file");
    }
    sim_descriptor found = world->descriptors[i];
    sim_unlock(world);
    return found;
}

static int add_descriptor(sim *world, const sim_descriptor *made)
{
    uint32_t i = 0;
    while (i < world->descriptor_count && world->descriptors[i].used) i++;
    if (i == world->descriptor_count) {
        world->descriptors = sim_grow(world->descriptors, i, &world->descriptor_capacity,
                                    sizeof *world->descriptors);
        world->descriptor_count++;
    }
    world->descriptors[i] = *made;
    return (int)i + FIRST_DESCRIPTOR;
}

static sim_descriptor descriptor_of(uint32_t inode, const char *name, bool directory, bool writable)
{
    sim_descriptor made = {
        .used = true, .directory = directory, .writable = writable, .inode = inode};
    snprintf(made.name, sizeof made.name, "%s", name);
    return made;
}

static int close_any(sim *world, int fd, bool directory)
{
    sim_descriptor open = describe(world, fd, directory);
    call_info call = {.op = SIM_CLOSE, .name = open.name};
    int sys = enter(world, &call);
    if (world->fs.inodes[open.inode]->lock == fd) world->fs.inodes[open.inode]->lock = -1;
    world->descriptors[fd - FIRST_DESCRIPTOR].used = false;
    return leave(world, &call, sys);
}

/* Inodes without names that nobody has open cost memory only. */
static void collect(sim *world)
{
    uint32_t *open = sim_grab(world->descriptor_count * sizeof *open);
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->descriptor_count; i++) {
        if (world->descriptors[i].used) open[count++] = world->descriptors[i].inode;
    }
    sim_fs_collect(&world->fs, open, count);
    free(open);
}

/* ---- directories ---------------------------------------------------------------------------- */

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int sim_make_path(sim *world, const char *path, bool create, uint32_t *parent, int64_t *inode)
{
    char name[SIM_NAME_BYTES];
    int sys = sim_fs_walk(&world->fs, path, parent, name, inode);
    if (sys) return sys;
    if (*inode < 0) {
        if (!create) return ENOENT;
        *inode = sim_fs_add_inode(&world->fs, true);
        sim_fs_change_name(&world->fs, *parent, true, name, (uint32_t)*inode);
    }
    return world->fs.inodes[*inode]->directory ? 0 : ENOTDIR;
}

static int dir_open(void *ctx, const char *path, bool create, int *dir)
{
    sim *world = ctx;
    call_info call = {.op = SIM_DIR_OPEN, .name = last_component(path), .step = create};
    uint32_t parent = 0;
    int64_t inode = -1;
    int sys = enter(world, &call);
    if (!sys) sys = sim_make_path(world, path, create, &parent, &inode);
    if (!sys && create) {
        if (take_step(world)) sim_fs_sync_dir(&world->fs, parent);
        else sys = EIO;
    }
    if (!sys) {
        sim_descriptor made = descriptor_of((uint32_t)inode, call.name, true, false);
        *dir = add_descriptor(world, &made);
    }
    return leave(world, &call, sys);
}

int sim_mkdir(sim *world, const char *path)
{
    call_info call = {.op = SIM_DIR_OPEN, .name = last_component(path), .step = true};
    uint32_t parent = 0;
    int64_t inode = -1;
    int sys = enter(world, &call);
    if (!sys) sys = sim_make_path(world, path, false, &parent, &inode);
    if (!sys) sys = EEXIST;
    else if (sys == ENOENT) sys = sim_make_path(world, path, true, &parent, &inode);
    return leave(world, &call, sys);
}

int sim_identify(sim *world, const char *path, uint64_t *device, uint64_t *inode)
{
    char name[SIM_NAME_BYTES];
    call_info call = {.op = SIM_EXISTS, .name = last_component(path)};
    uint32_t parent = 0;
    int64_t found = -1;
    int sys = enter(world, &call);
    if (!sys) sys = sim_fs_walk(&world->fs, path, &parent, name, &found);
    if (!sys && found < 0) sys = ENOENT;
    *device = world->number;
    *inode = (uint64_t)found;
    return leave(world, &call, sys);
}

static int dir_close(void *ctx, int dir)
{
    return close_any(ctx, dir, true);
}

static int dir_sync(void *ctx, int dir)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, dir, true);
    call_info call = {.op = SIM_DIR_SYNC, .name = open.name, .step = true};
    int sys = enter(world, &call);
    if (!sys) {
        sim_fs_sync_dir(&world->fs, open.inode);
        collect(world);
    }
    return leave(world, &call, sys);
}

static int dir_list(void *ctx, int dir, int (*each)(void *arg, const char *name), void *arg)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, dir, true);
    call_info call = {.op = SIM_LIST, .name = open.name};
    sim_names names = {0};
    int sys = enter(world, &call);
    if (!sys) names = sim_names_copy(&world->fs.inodes[open.inode]->names_cache);
    sys = leave(world, &call, sys);
    for (uint32_t i = 0; i < names.count; i++) {
        if (each(arg, names.entries[i].name)) break;
    }
    free(names.entries);
    return sys;
}

static int remove_dir(sim *world, const char *path)
{
    char name[SIM_NAME_BYTES];
    uint32_t parent;
    int64_t inode;
    int sys = sim_fs_walk(&world->fs, path, &parent, name, &inode);
    if (sys) return sys;
    if (inode < 0) return ENOENT;
    if (inode == 0) return EBUSY;
    if (!world->fs.inodes[inode]->directory) return ENOTDIR;
    if (world->fs.inodes[inode]->names_cache.count) return ENOTEMPTY;
    sim_fs_change_name(&world->fs, parent, false, name, (uint32_t)inode);
    return 0;
}

static int dir_remove(void *ctx, const char *path)
{
    sim *world = ctx;
    call_info call = {.op = SIM_DIR_REMOVE, .name = last_component(path), .step = true};
    int sys = enter(world, &call);
    if (!sys) sys = remove_dir(world, path);
    return leave(world, &call, sys);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void check_name(const char *name)
{
    if (!*name || strchr(name, '/')) sim_give_up("not a plain file name", name);
}

static int open_inode(sim *world, uint32_t dir, const char *name, mw_open how, uint32_t *inode)
{
    if (strlen(name) >= SIM_NAME_BYTES) return ENAMETOOLONG;
    int64_t found = sim_fs_find(&world->fs, dir, name);
    if (found >= 0) {
        if (how == MW_OPEN_CREATE) return EEXIST;
        if (world->fs.inodes[found]->directory) return EISDIR;
        *inode = (uint32_t)found;
        return 0;
    }
    if (how == MW_OPEN_READ || how == MW_OPEN_WRITE) return ENOENT;
    *inode = sim_fs_add_inode(&world->fs, false);
    sim_fs_change_name(&world->fs, dir, true, name, *inode);
    return 0;
}

static int file_open(void *ctx, int dir, const char *name, mw_open how, int *file)
{
    sim *world = ctx;
    sim_descriptor folder = describe(world, dir, true);
    bool creates = how == MW_OPEN_CREATE || how == MW_OPEN_ENSURE;
    call_info call = {.op = SIM_OPEN, .name = name, .step = creates};
    uint32_t inode = 0;
    check_name(name);
    int sys = enter(world, &call);
    if (!sys) sys = open_inode(world, folder.inode, name, how, &inode);
    if (!sys) {
        sim_descriptor made = descriptor_of(inode, name, false, how != MW_OPEN_READ);
        *file = add_descriptor(world, &made);
    }
    return leave(world, &call, sys);
}

static int file_close(void *ctx, int file)
{
    return close_any(ctx, file, false);
}

static int file_size(void *ctx, int file, uint64_t *bytes)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, file, false);
    call_info call = {.op = SIM_SIZE, .name = open.name};
    int sys = enter(world, &call);
    if (!sys) *bytes = world->fs.inodes[open.inode]->cache.size;
    return leave(world, &call, sys);
}

static int file_read(void *ctx, int file, void *to, size_t bytes, uint64_t offset, size_t *got)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, file, false);
    call_info call = {.op = SIM_READ, .name = open.name, .offset = offset, .bytes = bytes};
    *got = 0;
    int sys = enter(world, &call);
    if (sys == SIM_SHORT) {
        bytes = (bytes + 1) / 2;
        sys = 0;
    }
    if (!sys) *got = sim_body_read(&world->fs.inodes[open.inode]->cache, offset, to, bytes);
    return leave(world, &call, sys);
}

static int file_write(void *ctx, int file, const void *from, size_t bytes, uint64_t offset,
                      size_t *put)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, file, false);
    call_info call = {
        .op = SIM_WRITE, .name = open.name, .offset = offset, .bytes = bytes, .step = true};
    *put = 0;
    int sys = enter(world, &call);
    if (sys == 0 && !open.writable) sys = EBADF;
    if (sys <= 0 && (offset > FILE_BYTES_MAX || bytes > FILE_BYTES_MAX - offset)) sys = EFBIG;
    if (sys <= 0) {
        size_t part = sys ? (bytes + 1) / 2 : bytes;
        sim_fs_write(&world->fs, open.inode, offset, from, part);
        if (sys == SIM_SHORT) sys = 0;
        if (sys == 0) *put = part;
    }
    return leave(world, &call, sys);
}

static void fail_sync(sim *world, uint32_t inode)
{
    sim_inode *node = world->fs.inodes[inode];
    if (world->sync_failure == SIM_STAY_DIRTY) return;
    sim_fs_forget_writes(&world->fs, inode);
    if (world->sync_failure == SIM_MARKED_CLEAN) return;
    sim_body_free(&node->cache);
    node->cache = sim_body_copy(&node->disk);
}

static int file_sync(void *ctx, int file)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, file, false);
    call_info call = {.op = SIM_FILE_SYNC, .name = open.name, .step = true};
    int sys = enter(world, &call);
    if (!sys) sim_fs_sync_file(&world->fs, open.inode);
    else if (!world->stopped && sys != EINTR) fail_sync(world, open.inode);
    return leave(world, &call, sys);
}

static int file_allocate(void *ctx, int file, uint64_t offset, uint64_t bytes)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, file, false);
    call_info call = {
        .op = SIM_ALLOCATE, .name = open.name, .offset = offset, .bytes = bytes, .step = true};
    int sys = enter(world, &call);
    if (!sys && !open.writable) sys = EBADF;
    if (!sys && (offset > FILE_BYTES_MAX || bytes > FILE_BYTES_MAX - offset)) sys = EFBIG;
    if (!sys) sim_fs_extend(&world->fs, open.inode, offset + bytes);
    return leave(world, &call, sys);
}

int sim_truncate(sim *world, int file, uint64_t bytes)
{
    sim_descriptor open = describe(world, file, false);
    call_info call = {.op = SIM_TRUNCATE, .name = open.name, .offset = bytes, .step = true};
    int sys = enter(world, &call);
    if (!sys && !open.writable) sys = EBADF;
    if (!sys && bytes > FILE_BYTES_MAX) sys = EFBIG;
    if (!sys) sim_fs_cut(&world->fs, open.inode, bytes);
    return leave(world, &call, sys);
}

static int file_lock(void *ctx, int file)
{
    sim *world = ctx;
    sim_descriptor open = describe(world, file, false);
    call_info call = {.op = SIM_LOCK, .name = open.name};
    int sys = enter(world, &call);
    sim_inode *node = world->fs.inodes[open.inode];
    if (!sys && !open.writable) sys = EBADF;
    if (!sys && node->lock >= 0 && node->lock != file) sys = EAGAIN;
    if (!sys) node->lock = file;
    return leave(world, &call, sys);
}

/* ---- names ---------------------------------------------------------------------------------- */

static int link_names(sim *world, uint32_t dir, const char *from, const char *to)
{
    if (strlen(to) >= SIM_NAME_BYTES) return ENAMETOOLONG;
    int64_t inode = sim_fs_find(&world->fs, dir, from);
    if (inode < 0) return ENOENT;
    if (world->fs.inodes[inode]->directory) return EPERM;
    if (sim_fs_find(&world->fs, dir, to) >= 0) return EEXIST;
    sim_fs_change_name(&world->fs, dir, true, to, (uint32_t)inode);
    return 0;
}

static int name_link(void *ctx, int dir, const char *from, const char *to)
{
    sim *world = ctx;
    sim_descriptor folder = describe(world, dir, true);
    call_info call = {.op = SIM_LINK, .name = from, .other = to, .step = true};
    check_name(from);
    check_name(to);
    int sys = enter(world, &call);
    if (!sys) sys = link_names(world, folder.inode, from, to);
    return leave(world, &call, sys);
}

static int name_unlink(void *ctx, int dir, const char *name)
{
    sim *world = ctx;
    sim_descriptor folder = describe(world, dir, true);
    call_info call = {.op = SIM_UNLINK, .name = name, .step = true};
    check_name(name);
    int sys = enter(world, &call);
    int64_t inode = sim_fs_find(&world->fs, folder.inode, name);
    if (!sys && inode < 0) sys = ENOENT;
    if (!sys && world->fs.inodes[inode]->directory) sys = EISDIR;
    if (!sys) sim_fs_change_name(&world->fs, folder.inode, false, name, (uint32_t)inode);
    return leave(world, &call, sys);
}

static int name_exists(void *ctx, int dir, const char *name, bool *yes)
{
    sim *world = ctx;
    sim_descriptor folder = describe(world, dir, true);
    call_info call = {.op = SIM_EXISTS, .name = name};
    check_name(name);
    int sys = enter(world, &call);
    if (!sys) *yes = sim_fs_find(&world->fs, folder.inode, name) >= 0;
    return leave(world, &call, sys);
}

/* The number of a file that is gone is given again (sim_fs_add_inode). */
static int name_identify(void *ctx, int dir, const char *name, mw_file_id *id)
{
    sim *world = ctx;
    sim_descriptor folder = describe(world, dir, true);
    call_info call = {.op = SIM_EXISTS, .name = name};
    check_name(name);
    int sys = enter(world, &call);
    int64_t inode = sys ? -1 : sim_fs_find(&world->fs, folder.inode, name);
    if (!sys && inode < 0) sys = ENOENT;
    if (!sys) *id = (mw_file_id){.device = 1, .number = (uint64_t)inode};
    return leave(world, &call, sys);
}

/* ---- the machine ---------------------------------------------------------------------------- */

static int boot_id(void *ctx, uint8_t id[16])
{
    sim *world = ctx;
    call_info call = {.op = SIM_BOOT_ID, .name = ""};
    int sys = enter(world, &call);
    if (!sys) memcpy(id, world->boot_id, sizeof world->boot_id);
    return leave(world, &call, sys);
}

void sim_fill_random(sim *world, uint8_t *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        world->random_state = sim_mix(world->random_state, i);
        to[i] = (uint8_t)(world->random_state >> 24);
    }
}

static int random_bytes(void *ctx, void *to, size_t bytes)
{
    sim *world = ctx;
    call_info call = {.op = SIM_RANDOM, .name = "", .bytes = bytes};
    int sys = enter(world, &call);
    if (!sys) sim_fill_random(world, to, bytes);
    return leave(world, &call, sys);
}

static uint64_t now_ns(void *ctx)
{
    sim *world = ctx;
    const mw_env *real = mw_env_posix();
    sim_lock(world);
    uint64_t offset = world->clock_offset_ns;
    sim_unlock(world);
    return real->now_ns(real->ctx) + offset;
}

static uint64_t process_id(void *ctx)
{
    sim *world = ctx;
    sim_lock(world);
    uint64_t id = world->process_id;
    sim_unlock(world);
    return id;
}

/* ---- threads: real ones --------------------------------------------------------------------- */

static int count_object(sim *world, const call_info *call)
{
    int sys = enter(world, call);
    if (!sys) world->objects++;
    return leave(world, call, sys);
}

static void drop_object(sim *world)
{
    sim_lock(world);
    world->objects--;
    sim_unlock(world);
}

static int mutex_create(void *ctx, mw_mutex **mutex)
{
    call_info call = {.op = SIM_MUTEX, .name = ""};
    int sys = count_object(ctx, &call);
    return sys ? sys : mw_env_posix()->mutex_create(NULL, mutex);
}

static void mutex_destroy(void *ctx, mw_mutex *mutex)
{
    if (!mutex) return;
    drop_object(ctx);
    mw_env_posix()->mutex_destroy(NULL, mutex);
}

static int cond_create(void *ctx, mw_cond **cond)
{
    sim *world = ctx;
    call_info call = {.op = SIM_MUTEX, .name = ""};
    int sys = count_object(world, &call);
    if (!sys) sys = mw_env_posix()->cond_create(NULL, cond);
    if (sys) return sys;
    sim_lock(world);
    world->conds = sim_grow(world->conds, world->cond_count, &world->cond_capacity,
                            sizeof *world->conds);
    world->conds[world->cond_count++] = *cond;
    sim_unlock(world);
    return 0;
}

static void cond_destroy(void *ctx, mw_cond *cond)
{
    sim *world = ctx;
    if (!cond) return;
    sim_lock(world);
    uint32_t i = 0;
    while (world->conds[i] != cond) i++;
    world->conds[i] = world->conds[--world->cond_count];
    sim_unlock(world);
    drop_object(world);
    mw_env_posix()->cond_destroy(NULL, cond);
}

static bool cond_wait(void *ctx, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    sim *world = ctx;
    uint64_t real_deadline = UINT64_MAX;
    if (deadline_ns != UINT64_MAX) {
        sim_lock(world);
        uint64_t offset = world->clock_offset_ns;
        sim_unlock(world);
        real_deadline = deadline_ns > offset ? deadline_ns - offset : 0;
    }
    return mw_env_posix()->cond_wait(NULL, cond, mutex, real_deadline);
}

static int thread_start(void *ctx, void (*run)(void *arg), void *arg, mw_thread **thread)
{
    call_info call = {.op = SIM_THREAD, .name = ""};
    int sys = count_object(ctx, &call);
    return sys ? sys : mw_env_posix()->thread_start(NULL, run, arg, thread);
}

static void thread_join(void *ctx, mw_thread *thread)
{
    mw_env_posix()->thread_join(NULL, thread);
    drop_object(ctx);
}

mw_env sim_table(sim *world)
{
    const mw_env *real = mw_env_posix();
    return (mw_env){
        .ctx = world,
        .alloc = memory_alloc,
        .resize = memory_resize,
        .release = memory_release,
        .dir_open = dir_open,
        .dir_close = dir_close,
        .dir_sync = dir_sync,
        .dir_list = dir_list,
        .dir_remove = dir_remove,
        .file_open = file_open,
        .file_close = file_close,
        .file_size = file_size,
        .file_read = file_read,
        .file_write = file_write,
        .file_sync = file_sync,
        .file_allocate = file_allocate,
        .file_lock = file_lock,
        .link = name_link,
        .unlink = name_unlink,
        .exists = name_exists,
        .identify = name_identify,
        .boot_id = boot_id,
        .random = random_bytes,
        .now_ns = now_ns,
        .process_id = process_id,
        .mutex_create = mutex_create,
        .mutex_destroy = mutex_destroy,
        .mutex_lock = real->mutex_lock,
        .mutex_unlock = real->mutex_unlock,
        .cond_create = cond_create,
        .cond_destroy = cond_destroy,
        .cond_wait = cond_wait,
        .cond_signal = real->cond_signal,
        .cond_broadcast = real->cond_broadcast,
        .thread_start = thread_start,
        .thread_join = thread_join,
    };
}
