/* db.c: the face of the engine: opening, closing, and the way from db.h to the parts. */
#include "db.h"

#include "background.h"
#include "check.h"
#include "codec.h"
#include "commit.h"
#include "compact.h"
#include "entry.h"
#include "epoch.h"
#include "flush.h"
#include "follow.h"
#include "format.h"
#include "hash.h"
#include "report.h"
#include "settings.h"
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static mw_store *store_of(mw_db *db) { return (mw_store *)db; }

#ifdef MW_TINY

/* For tests of the whole product: what else takes millions of rows happens at each of them. */
mw_options mw_options_default(void)
{
    return (mw_options){
        .memtable_bytes = 200, /* three small rows, also of one transaction: then it spills */
        .cache_bytes = 4096,
        .merge_generations = 1,
        .compression = 1,
        .background = true,
        .durability = MW_DURABILITY_FULL,
        .group_rows = 4,
        .page_bytes = 16,  /* two numbers */
        .file_bytes = 300, /* a group or two */
        .open_files = 3,
    };
}

const char *mw_db_limits(void) { return "tiny"; }

#else

mw_options mw_options_default(void)
{
    return (mw_options){
        .memtable_bytes = 64 << 20,
        .cache_bytes = 64 << 20,
        .merge_generations = 8,
        .compression = 1,
        .background = true,
        .durability = MW_DURABILITY_FULL,
    };
}

const char *mw_db_limits(void) { return "usual"; }

#endif

/* ---- creating and removing ------------------------------------------------------------------- */

static mw_rc open_folder(const mw_env *env, const char *path, bool create, int *dir, mw_err *err)
{
    int sys = env->dir_open(env->ctx, path, create, dir);
    return sys ? mw_fail_sys(err, sys, create ? "creation" : "opening", path) : MW_OK;
}

/* The first sync of a folder: here it is told whether this file system can do that at all. */
static mw_rc publish_first(mw_manifest *manifest, int dir, const char *path, mw_err *err)
{
    mw_err cause = {0};
    mw_rc rc = mw_manifest_publish(manifest, dir, &cause);
    if (rc == MW_OK) return rc;
    if (rc == MW_EXISTS) return mw_fail(err, rc, "%s holds a store already", path);
    const char *advice = cause.sys == EINVAL ? ": this file system cannot make names durable, put "
                                               "the store on another one"
                                             : "";
    mw_fail(err, rc, "a new store in %s: %s%s", path, cause.text, advice);
    if (err) err->sys = cause.sys;
    return rc;
}

static mw_rc create_in(const mw_env *env, int dir, const char *path, const mw_schema *schema,
                       mw_store_id *store, mw_err *err)
{
    uint64_t newest;
    mw_manifest *manifest = NULL;
    mw_rc rc = mw_manifest_newest(env, dir, &newest, err);
    if (rc != MW_OK) return rc;
    if (newest > 0) return mw_fail(err, MW_EXISTS, "%s holds a store already", path);
    int sys = env->random(env->ctx, store->bytes, sizeof store->bytes);
    if (sys) return mw_fail_sys(err, sys, "random numbers", path);
    rc = mw_manifest_create(env, store, schema, &manifest, err);
    if (rc == MW_OK) rc = publish_first(manifest, dir, path, err);
    mw_manifest_unref(manifest);
    return rc;
}

mw_rc mw_db_create(const mw_env *env, const char *path, const mw_schema *schema, mw_store_id *store,
                   mw_err *err)
{
    int dir;
    mw_rc rc = open_folder(env, path, true, &dir, err);
    if (rc != MW_OK) return rc;
    rc = create_in(env, dir, path, schema, store, err);
    env->dir_close(env->ctx, dir);
    return rc;
}

/* What belongs to a store's folder; nothing else is ever removed. */
static bool is_ours(const char *name)
{
    static const char *const prefixes[] = {"manifest-", "wal-", "table-", "tmp-"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return strcmp(name, "lock") == 0 || strcmp(name, "state") == 0 || strcmp(name, "shared") == 0;
}

typedef struct remover {
    const mw_env *env;
    int dir;
} remover;

static int remove_name(void *arg, const char *name)
{
    const remover *self = arg;
    return is_ours(name) ? self->env->unlink(self->env->ctx, self->dir, name) : 0;
}

/* Keeps everybody else from opening the store. A store without a lock was never opened; on a full
** disk none could be made. */
static int lock_closed(const remover *self, int *lock_file)
{
    int sys = mw_env_open(self->env, self->dir, "lock", MW_OPEN_WRITE, lock_file);
    if (sys) *lock_file = -1;
    if (sys) return sys == ENOENT ? 0 : sys;
    return self->env->file_lock(self->env->ctx, *lock_file, 0, 0, MW_LOCK_EXCLUSIVE);
}

mw_rc mw_db_remove(const mw_env *env, const char *path, mw_err *err)
{
    remover self = {env, -1};
    int lock_file = -1;
    mw_rc rc = open_folder(env, path, false, &self.dir, err);
    if (rc != MW_OK) return rc;
    int sys = lock_closed(&self, &lock_file);
    bool busy = sys == EAGAIN || sys == EACCES;
    if (!sys) sys = env->dir_list(env->ctx, self.dir, remove_name, &self);
    if (!sys) sys = env->dir_remove(env->ctx, path);
    if (lock_file >= 0) env->file_close(env->ctx, lock_file);
    env->dir_close(env->ctx, self.dir);
    if (busy) return mw_fail(err, MW_BUSY, "%s is in use", path);
    return sys ? mw_fail_sys(err, sys, "removal", path) : MW_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static mw_rc load_store(const mw_env *env, int dir, const char *path, const mw_store_id *expected,
                        mw_manifest **manifest, mw_err *err)
{
    mw_err cause = {0};
    mw_rc rc = mw_manifest_load_newest(env, dir, expected, manifest, &cause);
    if (rc == MW_MISSING) return mw_fail(err, rc, "%s holds no store: %s", path, cause.text);
    return rc == MW_OK ? MW_OK : mw_fail_as(err, &cause);
}

enum { FOLLOW_WAIT_MS = 2000 }; /* while another process opens the store */

enum { LOOK_TRIES = 5 };

/* A writer that lives may remove what was listed a moment ago, and write while the end of the log is
** looked for. What is really missing or damaged is so at the next look as well. */
static mw_rc look(mw_store *store, const mw_judge *judge, mw_err *err)
{
    for (int i = 1;; i++) {
        mw_err cause = {0};
        mw_rc rc = mw_epoch_look(store, judge, &cause);
        if (rc == MW_OK) return rc;
        bool moving = rc == MW_MISSING || rc == MW_CORRUPT || cause.sys == ENOENT;
        if (moving && i < LOOK_TRIES) continue;
        return mw_fail_as(err, &cause);
    }
}

/* The state file alone tells where the log may not end. */
static mw_rc enter_to_read(mw_store *store, mw_err *err)
{
    bool clean;
    bool written = mw_manifest_epoch_claimed(store->birth) > 0;
    mw_rc rc = written ? mw_state_read(store, &clean, err) : MW_OK;
    return rc == MW_OK ? look(store, NULL, err) : rc;
}

/* Whoever only reads is in nobody's way. */
static mw_rc enter(mw_store *store, mw_err *err)
{
    mw_rc rc = mw_entry_enter(store, err);
    if (rc != MW_OK || store->options.shared) return rc;
    /* With more table files than descriptors it stays ours: they cannot be kept open for others. */
    mw_err ignored = {0};
    if (store->looking)
        mw_entry_give_up(store);
    else
        (void)!mw_entry_leave(store, &ignored);
    return MW_OK;
}

static mw_rc open_store(mw_store *store, const mw_store_id *expected, mw_err *err)
{
    mw_manifest *manifest = NULL;
    mw_rc rc = open_folder(store->env, store->path, false, &store->dir, err);
    if (rc == MW_OK) rc = load_store(store->env, store->dir, store->path, expected, &manifest, err);
    if (rc != MW_OK) return rc;
    store->id = manifest->store;
    store->birth = manifest;
    store->schema = &manifest->schema;
    /* Only now the lock: a folder that is no store gets no file from us. */
    bool free;
    if (store->options.read_only) return enter_to_read(store, err);
    rc = mw_entry_lock(store, &free, err);
    if (rc == MW_OK && free) rc = enter(store, err);
    if (rc == MW_OK && !free) {
        rc = mw_follow_open(store, mw_store_deadline(store, FOLLOW_WAIT_MS), err);
    }
    return rc;
}

mw_rc mw_db_open(const mw_env *env, const char *path, const mw_options *options,
                 const mw_store_id *expected, mw_db **db, mw_err *err)
{
    mw_store *store = NULL;
    mw_rc rc = mw_store_create(env, path, options, &store, err);
    if (rc != MW_OK) return rc;
    rc = open_store(store, expected, err);
    if (rc != MW_OK) {
        mw_store_free(store);
        return rc;
    }
    *db = (mw_db *)store;
    return MW_OK;
}

void mw_db_forked(mw_db *db)
{
    mw_store *store = store_of(db);
    if (store->lock_file >= 0) store->env->file_close(store->env->ctx, store->lock_file);
    store->lock_file = -1;
}

/* Everybody inside has been told MW_CLOSED by now; they end their transactions, then the store may
** go. */
static void wait_for_transactions(mw_store *store)
{
    mw_store_lock(store);
    while (store->transactions > 0) mw_store_wait(store, UINT64_MAX);
    mw_store_unlock(store);
}

mw_rc mw_db_close(mw_db *db, mw_err *err)
{
    mw_store *store = store_of(db);
    mw_commit_close(store);
    wait_for_transactions(store);
    mw_background_stop(store);
    mw_rc rc = store->stopped.rc;
    if (rc != MW_OK) mw_fail(err, rc, "%s", store->stopped.text);
    if (rc == MW_OK && store->owned) {
        rc = mw_commit_sync(store, err);
        if (rc == MW_OK) rc = mw_state_write(store, true, err);
    }
    if (rc == MW_OK && store->parked.rc != MW_OK) {
        rc = mw_fail(err, store->parked.rc, "%s", store->parked.text);
    }
    mw_version_unref(store->version); /* doomed files that only it still held go with it */
    store->version = NULL;
    mw_store_free(store);
    return rc;
}

void mw_db_abandon(mw_db *db)
{
    mw_store *store = store_of(db);
    mw_commit_close(store);
    mw_background_stop(store);
    mw_store_free(store);
}

mw_rc mw_db_describe(const mw_env *env, const char *path, mw_store_id *id, mw_key_kind *key,
                     uint32_t *column_count, char **declaration, mw_err *err)
{
    int dir;
    mw_manifest *manifest = NULL;
    mw_rc rc = open_folder(env, path, false, &dir, err);
    if (rc != MW_OK) return rc;
    rc = load_store(env, dir, path, NULL, &manifest, err);
    env->dir_close(env->ctx, dir);
    if (rc != MW_OK) return rc;
    const mw_schema *schema = &manifest->schema;
    *id = manifest->store;
    *key = schema->key;
    *column_count = schema->column_count;
    *declaration = mw_alloc(env, schema->declaration.size + 1);
    if (*declaration) {
        if (schema->declaration.size) {
            memcpy(*declaration, schema->declaration.data, schema->declaration.size);
        }
        (*declaration)[schema->declaration.size] = 0;
    } else {
        rc = mw_fail(err, MW_NOMEM, "no memory for the declaration in %s", path);
    }
    mw_manifest_unref(manifest);
    return rc;
}

const mw_schema *mw_db_schema(const mw_db *db) { return ((const mw_store *)db)->schema; }

const mw_store_id *mw_db_store(const mw_db *db) { return &((const mw_store *)db)->id; }

const char *mw_db_path(const mw_db *db) { return ((const mw_store *)db)->path; }

/* Where nothing can be written the answer is good for reading. */
static mw_rc take_over(mw_store *store, bool answered, const mw_judge *judge, mw_err *err)
{
    mw_err cause = {0};
    mw_rc rc = mw_epoch_takeover(store, judge, &cause);
    if (rc == MW_OK) return rc;
    rc = MW_OK;
    if (mw_entry_is_read_only(&cause)) rc = mw_epoch_look(store, judge, err);
    if (rc == MW_OK && mw_entry_is_read_only(&cause) && !answered) return rc;
    return mw_fail_as(err, &cause);
}

static mw_rc settle(mw_store *store, uint64_t deadline_ns, const mw_judge *judge, mw_err *err)
{
    bool answered = store->answered;
    if (store->options.read_only) return look(store, judge, err);
    mw_rc rc = mw_entry_return(store, deadline_ns, err);
    if (rc == MW_OK) rc = take_over(store, answered, judge, err);
    mw_entry_give_up(store);
    return rc;
}

/* The path of the host, or an empty one: nothing is to be settled. */
static mw_rc host_to_ask(mw_store *store, mw_buf *host, mw_err *err)
{
    mw_buf_init(host, store->env);
    mw_store_lock(store);
    mw_slice path = mw_buf_slice(&store->undecided_host);
    if (!store->owned) mw_buf_put_slice(host, path);
    mw_store_unlock(store);
    return host->failed ? mw_fail(err, MW_NOMEM, "no memory for a path") : MW_OK;
}

mw_rc mw_db_settle(mw_db *db, uint64_t wait_ms, const mw_judge *judge, mw_err *err)
{
    mw_store *store = store_of(db);
    mw_buf host;
    mw_rc rc = mw_turn_take(store, mw_store_deadline(store, wait_ms), err);
    if (rc != MW_OK) return rc;
    mw_err ignored = {0};
    (void)!mw_follow(store, &ignored); /* another process may have settled it */
    rc = host_to_ask(store, &host, err);
    bool needed = rc == MW_OK && host.size > 0; /* else somebody has been quicker */
    /* The host's lock first, ours afterwards: so does whoever writes to both. */
    if (needed) rc = judge->open(judge->arg, (const char *)mw_buf_slice(&host).data, err);
    if (needed && rc == MW_OK) {
        rc = settle(store, mw_store_deadline(store, wait_ms), judge, err);
        judge->close(judge->arg);
    }
    mw_turn_give(store);
    mw_buf_free(&host);
    return rc;
}

bool mw_db_undecided(mw_db *db)
{
    mw_store *store = store_of(db);
    mw_store_lock(store);
    bool undecided = store->looking && store->undecided_host.size > 0 && !store->answered;
    mw_store_unlock(store);
    return undecided;
}

mw_rc mw_db_refresh(mw_db *db, mw_err *err)
{
    mw_store *store = store_of(db);
    bool moved = false;
    mw_rc rc = mw_turn_take(store, UINT64_MAX, err);
    if (rc != MW_OK) return rc;
    rc = mw_epoch_moved(store, &moved, err);
    if (rc == MW_OK && moved) rc = look(store, NULL, err);
    mw_turn_give(store);
    return rc;
}

mw_rc mw_db_pause(mw_db *db, uint64_t wait_ms, void (*visit)(void *arg, const mw_pledged *pledged),
                  void *arg, mw_err *err)
{
    mw_store *store = store_of(db);
    uint64_t deadline = mw_store_deadline(store, wait_ms);
    mw_rc rc = mw_turn_take(store, deadline, err);
    if (rc != MW_OK) return rc;
    if (atomic_load(&store->following)) rc = mw_entry_own(store, deadline, err);
    if (rc == MW_OK) {
        mw_pledged pledged = mw_db_pledged(db);
        visit(arg, &pledged);
    }
    mw_turn_give(store);
    mw_entry_offer(store, false);
    return rc;
}

mw_rc mw_db_await(mw_db *db, bool decided, uint64_t wait_ms, mw_err *err)
{
    mw_store *store = store_of(db);
    return mw_entry_await(store, decided, mw_store_deadline(store, wait_ms), err);
}

mw_pledged mw_db_pledged(mw_db *db)
{
    mw_store *store = store_of(db);
    mw_store_lock(store);
    mw_pledged pledged = store->visible.pledged;
    mw_store_unlock(store);
    return pledged;
}

mw_options mw_db_options(mw_db *db) { return mw_store_options(store_of(db)); }

mw_rc mw_db_set_options(mw_db *db, const mw_options *from, const mw_options *to, uint64_t wait_ms,
                        mw_err *err)
{
    return mw_settings_change(store_of(db), from, to, wait_ms, err);
}

/* ---- keeping house --------------------------------------------------------------------------- */

/* Takes the turn as the owner and freezes what there is. MW_OK begins a job. */
static mw_rc freeze(mw_store *store, uint64_t deadline_ns, mw_err *err)
{
    uint64_t number;
    mw_rc rc = mw_turn_take(store, deadline_ns, err);
    if (rc != MW_OK) return rc;
    rc = mw_entry_own(store, deadline_ns, err);
    if (rc == MW_OK) rc = mw_flush_freeze(store, &number, err);
    mw_store_lock(store);
    store->jobs += rc == MW_OK;
    mw_store_unlock(store);
    mw_turn_give(store);
    return rc;
}

/* Does any memtable hold a position? */
static bool anything_to_flush(mw_store *store)
{
    mw_store_lock(store);
    const mw_version *version = store->version;
    bool any = version->generation_count > 1 ||
               version->generations[0]->first_position <= store->queued.position;
    mw_store_unlock(store);
    return any;
}

mw_rc mw_db_flush(mw_db *db, uint64_t wait_ms, uint64_t *generation, mw_err *err)
{
    mw_store *store = store_of(db);
    uint64_t deadline = mw_store_deadline(store, wait_ms);
    *generation = 0;
    if (!anything_to_flush(store)) return MW_OK;
    mw_rc rc = freeze(store, deadline, err);
    if (rc != MW_OK) return rc;
    mw_version *version = mw_store_version(store);
    uint64_t newest = version->generation_count > 1 ? version->generations[1]->number
                                                    : version->manifest->generation;
    mw_version_unref(version);
    rc = mw_flush_run(store, newest, deadline, err);
    mw_entry_end_job(store);
    if (rc == MW_OK) *generation = newest;
    mw_background_wake(store); /* after a failure as well: what is frozen has to be flushed */
    return rc;
}

enum { OWN_WAIT_MS = 10000 };

mw_rc mw_db_merge(mw_db *db, uint32_t max_generations, bool (*interrupted)(void *arg), void *arg,
                  uint32_t *folded, mw_err *err)
{
    mw_store *store = store_of(db);
    mw_compact_task task = {MW_COMPACT_GENERATIONS, max_generations, 0, interrupted, arg};
    mw_compact_result result = {0};
    mw_rc rc = mw_entry_begin_job(store, mw_store_deadline(store, OWN_WAIT_MS), err);
    if (rc != MW_OK) return rc;
    rc = mw_compact_run(store, &task, &result, err);
    mw_entry_end_job(store);
    *folded = result.folded;
    return rc;
}

mw_rc mw_db_compact(mw_db *db, bool (*interrupted)(void *arg), void *arg, uint64_t *removed,
                    mw_err *err)
{
    mw_store *store = store_of(db);
    mw_compact_task task = {MW_COMPACT_ALL, 0, 0, interrupted, arg};
    mw_compact_result result = {0};
    uint64_t generation;
    mw_rc rc = mw_entry_begin_job(store, mw_store_deadline(store, OWN_WAIT_MS), err);
    if (rc != MW_OK) return rc;
    rc = mw_db_flush(db, OWN_WAIT_MS, &generation, err);
    if (rc == MW_OK) rc = mw_compact_run(store, &task, &result, err);
    mw_entry_end_job(store);
    *removed = result.removed;
    return rc;
}

mw_rc mw_db_check(mw_db *db, void (*each)(void *arg, const char *line), void *arg, uint32_t *faults,
                  mw_err *err)
{
    return mw_check_run(store_of(db), each, arg, faults, err);
}

mw_rc mw_db_stats(mw_db *db, void (*each)(void *arg, const char *name, const mw_value *value),
                  void *arg, mw_err *err)
{
    return mw_report_stats(store_of(db), each, arg, err);
}

mw_rc mw_db_files(mw_db *db, void (*each)(void *arg, const mw_file_info *file), void *arg,
                  mw_err *err)
{
    return mw_report_files(store_of(db), each, arg, err);
}

uint32_t mw_db_format_version(void) { return MW_FORMAT_VERSION; }

unsigned mw_db_xxhash_version(void) { return mw_hash_version(); }

const char *mw_db_zstd_version(void) { return mw_codec_version(); }
