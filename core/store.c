/* store.c: the shared state of an open store, and how it moves from one version to the next.
**
** The current version is a pointer under `mutex`. Whoever makes a new one builds it outside the
** lock (opening table files is I/O) and swaps it in if nobody else has swapped meanwhile; else it
** builds again, sharing what is open already. */
#include "store.h"

#include "shared.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { OPEN_FILES_DEFAULT = 256 };

static mw_rc create_locks(mw_store *store, mw_err *err)
{
    const mw_env *env = store->env;
    mw_mutex **mutexes[] = {&store->flush_mutex, &store->merge_mutex, &store->manifest_mutex,
                            &store->follow_mutex, &store->mutex};
    int sys = 0;
    for (size_t i = 0; !sys && i < sizeof mutexes / sizeof *mutexes; i++) {
        sys = env->mutex_create(env->ctx, mutexes[i]);
    }
    if (!sys) sys = env->cond_create(env->ctx, &store->progress);
    if (!sys) sys = env->cond_create(env->ctx, &store->work);
    return sys ? mw_fail_sys(err, sys, "creation of a lock", store->path) : MW_OK;
}

/* Before there is a pool nothing can be spared. The own manifest is not: without it each commit would
** need a descriptor, and could not say how it ended if there is none. */
static void spare_files(void *arg)
{
    const mw_store *store = arg;
    if (store->tables) mw_table_pool_shrink(store->tables);
}

mw_rc mw_store_create(const mw_env *env, const char *path, const mw_options *options,
                      mw_store **out, mw_err *err)
{
    mw_store *store = mw_alloc_zero(env, sizeof *store);
    if (!store) return mw_fail(err, MW_NOMEM, "no memory for opening a store");
    store->own_env = *env;
    store->own_env.spare_files = spare_files;
    store->own_env.spare_arg = store;
    store->env = &store->own_env;
    store->dir = store->lock_file = -1;
    store->options = *options;
    store->process = env->process_id(env->ctx);
    size_t bytes = strlen(path) + 1;
    store->path = mw_alloc(env, bytes);
    mw_rc rc = MW_OK;
    if (store->path) {
        memcpy(store->path, path, bytes);
        rc = create_locks(store, err);
    } else {
        rc = mw_fail(err, MW_NOMEM, "no memory for opening a store");
    }
    if (rc == MW_OK) rc = mw_cache_create(store->env, options->cache_bytes, &store->cache, err);
    if (rc == MW_OK) {
        uint32_t files = options->open_files ? options->open_files : OPEN_FILES_DEFAULT;
        rc = mw_table_pool_create(store->env, store->cache, files, &store->tables, err);
    }
    if (rc == MW_OK) {
        *out = store;
    } else {
        mw_store_free(store);
    }
    return rc;
}

static void let_go(const mw_env *env, const mw_own_manifest *own)
{
    if (own->number) env->file_close(env->ctx, own->file);
}

void mw_store_free(mw_store *store)
{
    if (!store) return;
    const mw_env own_env = store->own_env; /* outlives the store's memory */
    const mw_env *env = &own_env;
    if (store->tables) mw_table_pool_retire(store->tables);
    mw_version_unref(store->version);
    mw_table_pool_destroy(store->tables);
    store->tables = NULL;
    mw_manifest_unref(store->birth);
    mw_cache_destroy(store->cache);
    mw_mutex *mutexes[] = {store->flush_mutex, store->merge_mutex, store->manifest_mutex,
                           store->follow_mutex, store->mutex};
    for (size_t i = 0; i < sizeof mutexes / sizeof *mutexes; i++) {
        if (mutexes[i]) env->mutex_destroy(env->ctx, mutexes[i]);
    }
    if (store->progress) env->cond_destroy(env->ctx, store->progress);
    if (store->work) env->cond_destroy(env->ctx, store->work);
    let_go(env, &store->own);
    if (store->lock_file >= 0) env->file_close(env->ctx, store->lock_file);
    if (store->dir >= 0) env->dir_close(env->ctx, store->dir);
    mw_buf_free(&store->undecided_host);
    mw_shared_close(store);
    mw_log_reader_close(store->watched);
    mw_free(env, store->path);
    mw_free(env, store);
}

void mw_store_lock(mw_store *store) { store->env->mutex_lock(store->env->ctx, store->mutex); }

void mw_store_unlock(mw_store *store) { store->env->mutex_unlock(store->env->ctx, store->mutex); }

bool mw_store_wait(mw_store *store, uint64_t deadline_ns)
{
    return store->env->cond_wait(store->env->ctx, store->progress, store->mutex, deadline_ns);
}

uint64_t mw_store_deadline(const mw_store *store, uint64_t wait_ms)
{
    uint64_t now = store->env->now_ns(store->env->ctx);
    return wait_ms > (UINT64_MAX - now) / 1000000 ? UINT64_MAX : now + wait_ms * 1000000;
}

mw_version *mw_store_version(mw_store *store)
{
    mw_store_lock(store);
    mw_version *version = mw_version_ref(store->version);
    mw_store_unlock(store);
    return version;
}

mw_options mw_store_options(mw_store *store)
{
    mw_store_lock(store);
    mw_options options = store->options;
    mw_store_unlock(store);
    return options;
}

void mw_store_set_table_options(mw_store *store, mw_table_options *options)
{
    const mw_options now = mw_store_options(store);
    options->compression = now.compression;
    options->group_rows = now.group_rows;
    options->page_bytes = now.page_bytes;
}

mw_rc mw_store_stopped(const mw_store *store, mw_err *err)
{
    if (store->stopped.rc != MW_OK) {
        return mw_fail(err, store->stopped.rc, "%s", store->stopped.text);
    }
    return store->closing ? mw_fail(err, MW_CLOSED, "%s is being closed", store->path) : MW_OK;
}

mw_rc mw_store_closing(mw_store *store, mw_err *err)
{
    mw_store_lock(store);
    bool closing = store->closing;
    mw_store_unlock(store);
    return closing ? mw_fail(err, MW_CLOSED, "%s is being closed", store->path) : MW_OK;
}

void mw_store_stop(mw_store *store, const mw_err *cause)
{
    if (store->stopped.rc == MW_OK) store->stopped = *cause;
}

void mw_store_park(mw_store *store, const mw_err *cause)
{
    mw_store_lock(store);
    if (store->parked.rc == MW_OK) store->parked = *cause;
    mw_store_unlock(store);
}

void mw_store_unpark(mw_store *store)
{
    mw_store_lock(store);
    store->parked = (mw_err){0};
    mw_store_unlock(store);
}

/* ---- from version to version ----------------------------------------------------------------- */

mw_files_source mw_store_files_source(const mw_store *store, const mw_files *from)
{
    return (mw_files_source){
        .env = store->env,
        .dir = store->dir,
        .pool = store->tables,
        .schema = store->schema,
        .from = from,
    };
}

mw_rc mw_store_build(mw_store *store, mw_manifest *manifest, mw_version **next, mw_err *err)
{
    mw_rc rc = mw_version_create(store->env, next, err);
    if (rc != MW_OK || !manifest) return rc;
    mw_version *current = mw_store_version(store);
    mw_files_source source = mw_store_files_source(store, current->files);
    source.generations = current->generations;
    source.generation_count = current->generation_count;
    mw_files *files;
    rc = mw_files_open(&source, manifest, &files, err);
    if (rc == MW_OK) {
        mw_version_set_files(*next, files);
        mw_files_unref(files);
    } else {
        mw_version_unref(*next);
    }
    mw_version_unref(current);
    return rc;
}

void mw_store_install(mw_store *store, mw_version *next, mw_generation *active)
{
    mw_store_lock(store);
    mw_version *current = store->version;
    if (!next->files) mw_version_set_files(next, current->files);
    if (active) mw_version_add_generation(next, active);
    for (uint32_t i = 0; i < current->generation_count; i++) {
        bool frozen = i > 0 || active; /* the one that active replaces is frozen from now on */
        mw_generation *generation = current->generations[i];
        bool listed = frozen && generation->last_position <= next->manifest->cursor;
        if (!listed) mw_version_add_generation(next, generation);
    }
    store->version = next;
    mw_shared_show(store);
    store->env->cond_broadcast(store->env->ctx, store->progress);
    mw_store_unlock(store);
    mw_version_unref(current);
}

uint64_t mw_store_table_number(mw_store *store)
{
    mw_store_lock(store);
    store->table_number = mw_max(store->table_number, store->version->manifest->table_number) + 1;
    uint64_t number = store->table_number;
    mw_store_unlock(store);
    return number;
}

void mw_store_remove_table(mw_store *store, const mw_manifest_file *file)
{
    char name[MW_TABLE_NAME_BYTES];
    mw_table_name(file->epoch, file->number, name);
    store->env->unlink(store->env->ctx, store->dir, name);
}

/* The first number that could not be removed, or was not there. */
static uint64_t remove_upwards(mw_store *store, uint64_t number, uint64_t boundary)
{
    for (; number < boundary; number++) {
        char name[MW_MANIFEST_NAME_BYTES];
        mw_manifest_name(number, name);
        if (store->env->unlink(store->env->ctx, store->dir, name) != 0) break;
    }
    return number;
}

/* A gap may be wide: the list tells where it ends. */
void mw_store_remove_manifests(mw_store *store, uint64_t lowest, uint64_t boundary)
{
    for (;;) {
        mw_manifest_range left;
        uint64_t number = remove_upwards(store, lowest, boundary);
        if (number == lowest || number >= boundary) return;
        if (mw_manifest_list(store->env, store->dir, &left, NULL) != MW_OK) return;
        lowest = left.lowest;
    }
}

/* ---- the own manifest ------------------------------------------------------------------------ */

/* In place of the one held before. */
static void hold(mw_store *store, mw_own_manifest own)
{
    mw_store_lock(store);
    mw_own_manifest before = store->own;
    store->own = own;
    mw_store_unlock(store);
    let_go(store->env, &before);
}

/* Number 0: it cannot be had now, for want of descriptors, say. */
static mw_own_manifest open_own(mw_store *store, uint64_t number)
{
    const mw_env *env = store->env;
    char name[MW_MANIFEST_NAME_BYTES];
    mw_own_manifest own = {0};
    mw_manifest_name(number, name);
    if (mw_env_open(env, store->dir, name, MW_OPEN_READ, &own.file) != 0) return own;
    if (env->identify(env->ctx, store->dir, name, &own.id) == 0) {
        own.number = number;
    } else {
        env->file_close(env->ctx, own.file);
    }
    return own;
}

/* It is opened by name, and another file may have that: a stray one, made when ours had gone. But
** nothing goes without something newer, so when the list that comes afterwards has ours for the
** newest, ours had not gone. The list needs a descriptor, too: if it was the last one, the list gets
** it. */
mw_rc mw_store_confirm_number(mw_store *store, uint64_t number, mw_manifest_range *there,
                              mw_err *err)
{
    static const mw_own_manifest none;
    mw_err cause = {0};
    hold(store, open_own(store, number));
    mw_rc rc = mw_manifest_list(store->env, store->dir, there, &cause);
    if (cause.sys == EMFILE || cause.sys == ENFILE) {
        hold(store, none);
        cause = (mw_err){0};
        rc = mw_manifest_list(store->env, store->dir, there, &cause);
    }
    if (rc != MW_OK || there->newest != number) hold(store, none);
    return rc == MW_OK ? MW_OK : mw_fail_as(err, &cause);
}

static mw_own_manifest own_manifest(mw_store *store)
{
    mw_store_lock(store);
    mw_own_manifest own = store->own;
    mw_store_unlock(store);
    return own;
}

/* The next number may be absent because it is long gone: then ours, which is removed before it, is
** gone as well. So ours is looked at afterwards, and by what it is: our number may be there again, a
** stray. If ours was let go meanwhile, its identity may be that of the stray. */
mw_rc mw_store_look_above(mw_store *store, uint64_t number, bool *perhaps, mw_err *err)
{
    const mw_env *env = store->env;
    char name[MW_MANIFEST_NAME_BYTES];
    mw_file_id id = {0};
    bool next = false;
    mw_own_manifest own = own_manifest(store);
    *perhaps = true;
    if (own.number != number) return MW_OK;
    mw_manifest_name(number + 1, name);
    int sys = env->exists(env->ctx, store->dir, name, &next);
    if (!sys && !next) {
        mw_manifest_name(number, name);
        sys = env->identify(env->ctx, store->dir, name, &id);
    }
    if (sys == ENOENT) return MW_OK;
    if (sys) return mw_fail_sys(err, sys, "looking for a peer's claim in", store->path);
    bool same = id.device == own.id.device && id.number == own.id.number;
    *perhaps = next || !same || own_manifest(store).number != number;
    return MW_OK;
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* Who has created the manifest that we wanted to create, or one above it? */
static mw_rc explain_lost_number(mw_store *store, uint64_t epoch, mw_err *err)
{
    mw_manifest *theirs = NULL;
    mw_rc rc = mw_manifest_load_newest(store->env, store->dir, &store->id, &theirs, err);
    if (rc != MW_OK) return rc;
    uint64_t newest = theirs->number;
    uint64_t claimed = mw_manifest_epoch_claimed(theirs);
    mw_manifest_unref(theirs);
    if (claimed > epoch) {
        return mw_fail(err, MW_FENCED,
                       "writer fenced: a peer claimed epoch %" PRIu64 ", ours was %" PRIu64,
                       claimed, epoch);
    }
    return mw_fail(err, MW_PERSISTENCE, "manifest %" PRIu64 " of %s was made by somebody else",
                   newest, store->path);
}

/* After a publish that failed: is the name there, perhaps not for ever? An answer that cannot be
** had counts as yes. */
static bool may_stand(mw_store *store, uint64_t number)
{
    char name[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(number, name);
    bool there = true;
    int sys = store->env->exists(store->env->ctx, store->dir, name, &there);
    return sys != 0 || there;
}

/* Publishes and installs. A failure that leaves the outcome on disk unknown is MW_PERSISTENCE: only
** a reopen can agree with the disk again. */
static mw_rc publish(mw_store *store, mw_manifest *manifest, mw_manifest_range *there, mw_err *err)
{
    mw_err cause = {0};
    bool lost = false;
    mw_version *next;
    mw_rc rc = mw_store_build(store, manifest, &next, err);
    if (rc != MW_OK) return rc;
    rc = mw_manifest_publish(manifest, store->dir, &cause);
    bool unknown = rc != MW_OK && rc != MW_EXISTS && may_stand(store, manifest->number);
    if (rc == MW_OK) {
        rc = mw_store_confirm_number(store, manifest->number, there, &cause);
        unknown = rc != MW_OK;
        lost = !unknown && there->newest != manifest->number;
    }
    if (lost || rc == MW_EXISTS) {
        rc = explain_lost_number(store, mw_manifest_epoch_claimed(manifest), &cause);
        unknown = lost && rc != MW_FENCED;
    }
    if (rc == MW_OK) {
        mw_store_install(store, next, NULL);
        return MW_OK;
    }
    mw_version_unref(next);
    return mw_fail(err, unknown ? MW_PERSISTENCE : rc, "%s", cause.text);
}

mw_rc mw_store_publish(mw_store *store, mw_manifest *manifest, mw_err *err)
{
    mw_manifest_range there;
    mw_err cause = {0};
    mw_rc rc = publish(store, manifest, &there, &cause);
    if (rc == MW_OK) {
        mw_store_remove_manifests(store, there.lowest, manifest->boundary);
        return MW_OK;
    }
    if (rc == MW_FENCED || rc == MW_PERSISTENCE) {
        mw_store_lock(store);
        mw_store_stop(store, &cause);
        mw_store_unlock(store);
    }
    return mw_fail_as(err, &cause);
}
