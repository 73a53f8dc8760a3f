/* sim_world.h: the state of a simulated machine, for the files of the simulator only. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "sim_fs.h"

#include <pthread.h>

enum {
    SIM_FAULTS_MAX = 16,
    SIM_HOLDS_MAX = 8,
    SIM_TRACE_LINES = 4096,
    SIM_TRACE_LINE_BYTES = 128,
};

typedef struct sim_plan sim_plan; /* the disk states that sim_disk_count has found */

typedef struct sim_fault {
    bool armed;
    bool for_ever;
    sim_op op;
    char prefix[SIM_NAME_BYTES];
    uint64_t left; /* matching calls before it strikes */
    int sys;
} sim_fault;

typedef enum sim_hold_state {
    SIM_HOLD_FREE,
    SIM_HOLD_ARMED,
    SIM_HOLD_BLOCKING,
    SIM_HOLD_RELEASED,
} sim_hold_state;

typedef struct sim_hold_slot {
    sim_hold_state state;
    sim_op op;
    char prefix[SIM_NAME_BYTES];
} sim_hold_slot;

typedef struct sim_descriptor {
    bool used;
    bool directory;
    bool writable;
    uint32_t inode;
    char name[SIM_NAME_BYTES];
} sim_descriptor;

struct sim {
    mw_env env;
    pthread_mutex_t mutex;
    pthread_cond_t moved; /* a hold changed its state */
    sim_fs fs;
    sim_descriptor *descriptors;
    uint32_t descriptor_count;
    uint32_t descriptor_capacity;
    uint64_t calls[SIM_OP_COUNT];
    uint64_t steps;
    uint64_t stop_after;
    bool stopped;
    bool in_order;
    sim_fault faults[SIM_FAULTS_MAX];
    uint64_t fault_hits;
    sim_sync_failure sync_failure;
    sim_hold_slot holds[SIM_HOLDS_MAX];
    char (*trace)[SIM_TRACE_LINE_BYTES];
    uint64_t trace_count;
    uint64_t memory_in_use;
    uint64_t memory_peak;
    uint32_t objects;
    uint32_t mappings; /* of these objects */
    mw_cond **conds;
    uint32_t cond_count;
    uint32_t cond_capacity;
    uint64_t clock_offset_ns;
    uint64_t process_id;
    uint64_t random_state;
    uint8_t boot_id[16];
    uint64_t number; /* no two machines of a process have the same */
    void (*each_step)(void *arg, sim *copy);
    void *each_step_arg;
    sim_plan *plan;
};

extern const char *const SIM_OP_TEXTS[SIM_OP_COUNT];

void sim_give_up(const char *what, const char *name); /* a wrong test: says so and aborts */
void sim_lock(sim *world);
void sim_unlock(sim *world);
mw_env sim_table(sim *world);
void sim_fill_random(sim *world, uint8_t *to, size_t bytes);
/* Finds a directory, with create makes it, not yet synced. Returns 0 or an errno value. */
int sim_make_path(sim *world, const char *path, bool create, uint32_t *parent, int64_t *inode);

/* Takes over what was stored through mappings; after the stop nothing is. */
void sim_look_at_maps(sim *world);

/* A fresh machine; fs: taken. boot_id: NULL: a new one. */
sim *sim_start(const sim_fs *fs, const uint8_t boot_id[16]);
void sim_set_plan(sim *world, sim_plan *plan); /* taken, NULL: none; frees the one before */
void sim_plan_free(sim_plan *plan);            /* takes NULL */

#endif
