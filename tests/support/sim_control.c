/* sim_control.c: the test's side of the simulated machine: counters, faults, holds, the stop
** switch, damage. */
#include "sim_world.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HELD_WAIT_S = 10 };

/* ---- making and counting -------------------------------------------------------------------- */

sim *sim_start(const sim_fs *fs, const uint8_t id[16])
{
    static atomic_uint_least64_t started; /* two machines never make the same random bytes */
    sim *world = sim_grab(sizeof *world);
    world->env = sim_table(world);
    world->fs = *fs;
    world->stop_after = UINT64_MAX;
    world->process_id = 1;
    world->number = atomic_fetch_add(&started, 1);
    world->random_state = sim_mix(world->number, 7);
    sim_fill_random(world, world->boot_id, sizeof world->boot_id);
    if (id) memcpy(world->boot_id, id, sizeof world->boot_id);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&world->moved, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&world->mutex, NULL);
    return world;
}

sim *sim_create(void)
{
    sim_fs fs;
    sim_fs_init(&fs);
    return sim_start(&fs, NULL);
}

void sim_destroy(sim *world)
{
    if (!world) return;
    sim_plan_free(world->plan);
    sim_fs_free(&world->fs);
    free(world->descriptors);
    free(world->conds);
    free(world->trace);
    pthread_cond_destroy(&world->moved);
    pthread_mutex_destroy(&world->mutex);
    free(world);
}

const mw_env *sim_env(sim *world) { return &world->env; }

void sim_set_plan(sim *world, sim_plan *plan)
{
    sim_plan_free(world->plan);
    world->plan = plan;
}

static uint64_t read_number(sim *world, const uint64_t *number)
{
    sim_lock(world);
    uint64_t value = *number;
    sim_unlock(world);
    return value;
}

uint64_t sim_calls(sim *world, sim_op op) { return read_number(world, &world->calls[op]); }
uint64_t sim_steps(sim *world) { return read_number(world, &world->steps); }
uint64_t sim_memory_in_use(sim *world) { return read_number(world, &world->memory_in_use); }
uint64_t sim_memory_peak(sim *world) { return read_number(world, &world->memory_peak); }
uint64_t sim_fail_hits(sim *world) { return read_number(world, &world->fault_hits); }

uint32_t sim_open_count(sim *world)
{
    uint32_t count = 0;
    sim_lock(world);
    for (uint32_t i = 0; i < world->descriptor_count; i++) count += world->descriptors[i].used;
    sim_unlock(world);
    return count;
}

uint32_t sim_object_count(sim *world)
{
    sim_lock(world);
    uint32_t count = world->objects;
    sim_unlock(world);
    return count;
}

void sim_trace(sim *world, bool on)
{
    sim_lock(world);
    free(world->trace);
    world->trace = on ? sim_grab(SIM_TRACE_LINES * sizeof *world->trace) : NULL;
    world->trace_count = 0;
    sim_unlock(world);
}

void sim_trace_print(sim *world, FILE *to)
{
    sim_lock(world);
    uint64_t shown = mw_min(world->trace_count, SIM_TRACE_LINES);
    for (uint64_t i = world->trace_count - shown; world->trace && i < world->trace_count; i++) {
        fprintf(to, "%s\n", world->trace[i % SIM_TRACE_LINES]);
    }
    sim_unlock(world);
}

void sim_fail_named(sim *world, sim_op op, const char *prefix, uint64_t nth, int sys, bool for_ever)
{
    sim_lock(world);
    int i = 0;
    while (i < SIM_FAULTS_MAX && world->faults[i].armed) i++;
    if (i == SIM_FAULTS_MAX || nth == 0 || sys == 0) sim_give_up("cannot arm a fault", prefix);
    sim_fault *fault = &world->faults[i];
    fault->armed = true;
    fault->for_ever = for_ever;
    fault->op = op;
    fault->left = nth - 1;
    fault->sys = sys;
    snprintf(fault->prefix, sizeof fault->prefix, "%s", prefix);
    sim_unlock(world);
}

void sim_fail(sim *world, sim_op op, uint64_t nth, int sys, bool for_ever)
{
    sim_fail_named(world, op, "", nth, sys, for_ever);
}

void sim_fail_clear(sim *world)
{
    sim_lock(world);
    memset(world->faults, 0, sizeof world->faults);
    sim_unlock(world);
}

void sim_set_sync_failure(sim *world, sim_sync_failure mode)
{
    sim_lock(world);
    world->sync_failure = mode;
    sim_unlock(world);
}

int sim_hold(sim *world, sim_op op, const char *prefix)
{
    sim_lock(world);
    int i = 0;
    while (i < SIM_HOLDS_MAX && world->holds[i].state != SIM_HOLD_FREE) i++;
    if (i == SIM_HOLDS_MAX) sim_give_up("too many holds", SIM_OP_TEXTS[op]);
    world->holds[i].state = SIM_HOLD_ARMED;
    world->holds[i].op = op;
    snprintf(world->holds[i].prefix, sizeof world->holds[i].prefix, "%s", prefix ? prefix : "");
    sim_unlock(world);
    return i;
}

bool sim_wait_held(sim *world, int hold)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += HELD_WAIT_S;
    sim_lock(world);
    int sys = 0;
    while (world->holds[hold].state == SIM_HOLD_ARMED && sys == 0) {
        sys = pthread_cond_timedwait(&world->moved, &world->mutex, &until);
    }
    bool held = world->holds[hold].state == SIM_HOLD_BLOCKING;
    sim_unlock(world);
    return held;
}

void sim_release(sim *world, int hold)
{
    sim_lock(world);
    bool blocking = world->holds[hold].state == SIM_HOLD_BLOCKING;
    world->holds[hold].state = blocking ? SIM_HOLD_RELEASED : SIM_HOLD_FREE;
    pthread_cond_broadcast(&world->moved);
    sim_unlock(world);
}

void sim_clock_advance(sim *world, uint64_t ns)
{
    sim_lock(world);
    world->clock_offset_ns += ns;
    for (uint32_t i = 0; i < world->cond_count; i++) {
        mw_env_posix()->cond_broadcast(NULL, world->conds[i]);
    }
    sim_unlock(world);
}

void sim_set_process_id(sim *world, uint64_t id)
{
    sim_lock(world);
    world->process_id = id;
    sim_unlock(world);
}

void sim_stop_after(sim *world, uint64_t n)
{
    sim_lock(world);
    world->stop_after = world->steps + n;
    sim_unlock(world);
}

void sim_each_step(sim *world, void (*see)(void *arg, sim *copy), void *arg)
{
    sim_lock(world);
    world->each_step = see;
    world->each_step_arg = arg;
    sim_unlock(world);
}

void sim_set_in_order(sim *world)
{
    sim_lock(world);
    world->in_order = true;
    sim_unlock(world);
}

bool sim_stopped(sim *world)
{
    sim_lock(world);
    bool stopped = world->stopped;
    sim_unlock(world);
    return stopped;
}

/* ---- damage and inspection ------------------------------------------------------------------ */

typedef struct place {
    bool possible; /* everything but the last component is there */
    uint32_t dir;
    char name[SIM_NAME_BYTES];
    int64_t inode;
} place;

static place find(sim *world, const char *path)
{
    place at = {.inode = -1};
    sim_look_at_maps(world);
    at.possible = sim_fs_walk(&world->fs, path, &at.dir, at.name, &at.inode) == 0;
    if (!at.possible) at.inode = -1;
    return at;
}

/* The file at path, all of it on disk, or the end of the test. */
static sim_inode *settled_file(sim *world, const char *path)
{
    place at = find(world, path);
    if (at.inode < 0 || world->fs.inodes[at.inode]->directory) sim_give_up("no such file", path);
    sim_set_plan(world, NULL);
    sim_fs_sync_file(&world->fs, (uint32_t)at.inode);
    return world->fs.inodes[at.inode];
}

bool sim_file_exists(sim *world, const char *path)
{
    sim_lock(world);
    place at = find(world, path);
    sim_unlock(world);
    return at.inode >= 0;
}

int64_t sim_file_size(sim *world, const char *path)
{
    sim_lock(world);
    place at = find(world, path);
    int64_t size = at.inode < 0 ? -1 : (int64_t)world->fs.inodes[at.inode]->cache.size;
    sim_unlock(world);
    return size;
}

size_t sim_file_read(sim *world, const char *path, uint64_t offset, void *to, size_t bytes)
{
    sim_lock(world);
    place at = find(world, path);
    if (at.inode < 0) sim_give_up("no such file", path);
    size_t got = sim_body_read(&world->fs.inodes[at.inode]->cache, offset, to, bytes);
    sim_unlock(world);
    return got;
}

void sim_file_write(sim *world, const char *path, uint64_t offset, const void *from, size_t bytes)
{
    sim_lock(world);
    sim_inode *file = settled_file(world, path);
    sim_body_write(&file->cache, offset, from, bytes);
    sim_body_write(&file->disk, offset, from, bytes);
    sim_map_show(file, offset, bytes);
    sim_unlock(world);
}

void sim_file_truncate(sim *world, const char *path, uint64_t bytes)
{
    sim_lock(world);
    sim_inode *file = settled_file(world, path);
    sim_body_resize(&file->cache, bytes);
    sim_body_resize(&file->disk, bytes);
    sim_map_show(file, bytes, SIM_PAGE_BYTES);
    sim_unlock(world);
}

void sim_file_put(sim *world, const char *path, const void *from, size_t bytes)
{
    sim_lock(world);
    place at = find(world, path);
    if (!at.possible) sim_give_up("no such directory", path);
    if (at.inode < 0) {
        uint32_t inode = sim_fs_add_inode(&world->fs, false);
        sim_fs_change_name(&world->fs, at.dir, true, at.name, inode);
    }
    sim_fs_sync_dir(&world->fs, at.dir);
    sim_unlock(world);
    sim_file_truncate(world, path, 0);
    sim_file_write(world, path, 0, from, bytes);
}

void sim_file_flip(sim *world, const char *path, uint64_t bit)
{
    uint8_t byte = 0;
    if (sim_file_read(world, path, bit / 8, &byte, 1) != 1) sim_give_up("no such byte", path);
    byte = (uint8_t)(byte ^ (1u << (bit % 8)));
    sim_file_write(world, path, bit / 8, &byte, 1);
}

void sim_file_delete(sim *world, const char *path)
{
    sim_lock(world);
    settled_file(world, path);
    place at = find(world, path);
    sim_fs_change_name(&world->fs, at.dir, false, at.name, (uint32_t)at.inode);
    sim_fs_sync_dir(&world->fs, at.dir);
    sim_unlock(world);
}

void sim_make_dir(sim *world, const char *path)
{
    sim_lock(world);
    uint32_t parent;
    int64_t inode;
    if (sim_make_path(world, path, true, &parent, &inode)) {
        sim_give_up("cannot make the directory", path);
    }
    sim_set_plan(world, NULL);
    sim_fs_sync_dir(&world->fs, parent);
    sim_unlock(world);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const sim_entry *)a)->name, ((const sim_entry *)b)->name);
}

uint32_t sim_list(sim *world, const char *path, char (*names)[SIM_NAME_BYTES], uint32_t room)
{
    sim_lock(world);
    place at = find(world, path);
    if (at.inode < 0) sim_give_up("no such directory", path);
    sim_names found = sim_names_copy(&world->fs.inodes[at.inode]->names_cache);
    sim_unlock(world);
    qsort(found.entries, found.count, sizeof *found.entries, compare_names);
    for (uint32_t i = 0; i < found.count && i < room; i++) {
        memcpy(names[i], found.entries[i].name, SIM_NAME_BYTES);
    }
    free(found.entries);
    return found.count;
}
