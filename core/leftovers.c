/* leftovers.c: what a crash has left in the folder, and its removal.
**
** What the newest version names is kept; what a higher epoch made is a successor's that we do not
** know of yet, and never ours to remove. */
#include "leftovers.h"

typedef struct sweep {
    mw_store *store;
    const mw_version *version;
    uint64_t below; /* epochs whose leftovers go */
} sweep;

static bool log_is_live(const mw_version *version, mw_log_id id)
{
    for (uint32_t i = 0; i < version->generation_count; i++) {
        const mw_generation *generation = version->generations[i];
        for (uint32_t j = 0; j < generation->log_count; j++) {
            const mw_log_id *live = &generation->logs[j];
            if (live->epoch == id.epoch && live->number == id.number) return true;
        }
    }
    return false;
}

static bool is_run(const mw_generation *generation, uint64_t epoch, uint64_t number)
{
    const mw_runs *runs = mw_generation_runs(generation, UINT64_MAX);
    for (uint32_t i = 0; i < mw_runs_count(runs); i++) {
        const mw_manifest_file *file = &runs->runs[i]->file;
        if (file->number == number && file->epoch == epoch) return true;
    }
    return false;
}

static bool table_is_live(const mw_version *version, uint64_t epoch, uint64_t number)
{
    for (uint32_t i = 0; i < version->generation_count; i++) {
        if (is_run(version->generations[i], epoch, number)) return true;
    }
    for (uint32_t i = 0; i < version->table_count; i++) {
        const mw_table *table = version->tables[i];
        if (mw_table_number(table) == number && mw_table_epoch(table) == epoch) return true;
    }
    return false;
}

/* Numbers of our own epoch are given once: what is there already has them. */
static void note_numbers(mw_store *store, uint64_t segment_number, uint64_t table_number)
{
    mw_store_lock(store);
    store->segment_number = mw_max(store->segment_number, segment_number);
    store->table_number = mw_max(store->table_number, table_number);
    mw_store_unlock(store);
}

/* What belongs to a higher epoch is a successor's that we do not know of yet: never ours to
** remove. Manifests are left to remove_old_manifests. */
static int sweep_name(void *arg, const char *name)
{
    char target[MW_ENV_NAME_BYTES];
    const sweep *self = arg;
    const mw_version *version = self->version;
    mw_log_id id;
    uint64_t number;
    bool dead = false;
    if (mw_log_parse_name(name, &id.epoch, &id.number)) {
        dead = id.epoch < self->below && !log_is_live(version, id);
        if (id.epoch == self->store->epoch) note_numbers(self->store, id.number, 0);
    } else if (mw_table_parse_name(name, &id.epoch, &id.number)) {
        dead = id.epoch < self->below && !table_is_live(version, id.epoch, id.number);
        if (id.epoch == self->store->epoch) note_numbers(self->store, 0, id.number);
    } else if (mw_env_parse_tmp(name, target) && mw_manifest_parse_name(target, &number)) {
        dead = number <= version->manifest->number; /* that number is taken: it cannot be linked */
    }
    if (dead) self->store->env->unlink(self->store->env->ctx, self->store->dir, name);
    return 0;
}

static void remove_old_manifests(mw_store *store, uint64_t boundary)
{
    mw_manifest_range there;
    if (mw_manifest_list(store->env, store->dir, &there, NULL) != MW_OK) return;
    mw_store_remove_manifests(store, there.lowest, boundary);
}

void mw_leftovers_sweep(mw_store *store, bool alone)
{
    mw_version *version = mw_store_version(store);
    sweep self = {store, version, alone ? store->epoch + 1 : store->epoch};
    (void)mw_env_list(store->env, store->dir, sweep_name, &self);
    remove_old_manifests(store, version->manifest->boundary);
    mw_version_unref(version);
}
