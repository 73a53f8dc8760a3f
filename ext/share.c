/* share.c: the registry of open stores.
**
** A store may be open once per process: its folder's lock would refuse a second engine, and two
** engines would not see each other's commits. So all connections meet here.
**
**     none --open--> OPENING --> OPEN(uses) --last close--> CLOSING --> none
**                       \--fails--> none                        \--fails--> FAILED --open--> none
**
** Opening and closing do I/O and happen outside the mutex; whoever meets such a store waits. The
** engine holds its folder open, so an inode cannot be given to another folder meanwhile. A FAILED
** record has no engine any more: there the path must agree as well.
**
** A database that is opened read-only must not write to its stores, one that is not must be able to.
** So a folder may have two engines: one that only reads, and takes no lock, beside one that may
** write. Readers join the latter if it is there, and move to it (mx_store_join_writer) when it comes
** later: it sees every commit at once.
**
** After fork() the child inherits the records but neither the threads nor the right to write: it
** forgets them, so that its own connections open engines of their own, as another process does; what
** the parent opened is never touched. */
#include "share.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <string.h>
#include <unistd.h>

#include "err.h"
#include "world.h"

typedef enum state { OPENING, OPEN, CLOSING, FAILED } state;

struct mx_store {
    mx_store *next;
    mx_world_entry folder;
    pid_t process; /* the one that opened it */
    state state;
    unsigned uses;
    bool ephemeral;
    bool read_only;
    mw_db *db;
    pthread_mutex_t settings;
    char *path;
    mw_err failure; /* FAILED: of the close */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static mx_store *stores; /* under mutex */

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void in_parent(void) { pthread_mutex_unlock(&mutex); }
/* Else the child would keep the lock of a store for a parent that was killed. */
static void in_child(void)
{
    for (mx_store *store = stores; store; store = store->next) {
        if (store->state == OPEN) mw_db_forked(store->db);
    }
    stores = NULL;
    pthread_mutex_unlock(&mutex);
}
static void watch_forks(void) { (void)pthread_atfork(before_fork, in_parent, in_child); }

/* ---- under the mutex ------------------------------------------------------------------------- */

static bool is_same(const mx_world_entry *a, const mx_world_entry *b)
{
    return a->device == b->device && a->inode == b->inode;
}

static mx_store *find(const mx_world_entry *folder, bool read_only)
{
    mx_store *store = stores;
    while (store && !(is_same(&store->folder, folder) && store->read_only == read_only)) {
        store = store->next;
    }
    return store;
}

static void drop(mx_store *store)
{
    mx_store **place = &stores;
    while (*place != store) place = &(*place)->next;
    *place = store->next;
    pthread_mutex_destroy(&store->settings);
    sqlite3_free(store->path);
    sqlite3_free(store);
}

static mx_store *add(const mx_world_entry *folder, const char *path, bool read_only)
{
    mx_store *store = sqlite3_malloc(sizeof *store);
    if (!store) return NULL;
    memset(store, 0, sizeof *store);
    store->path = sqlite3_mprintf("%s", path);
    if (!store->path) {
        sqlite3_free(store);
        return NULL;
    }
    pthread_mutex_init(&store->settings, NULL);
    store->folder = *folder;
    store->process = getpid();
    store->state = OPENING;
    store->uses = 1;
    store->read_only = read_only;
    store->next = stores;
    stores = store;
    return store;
}

/* Joins an open engine. */
static int join(mx_store *store, const mw_store_id *expected, char **error)
{
    const mw_store_id *found = mw_db_store(store->db);
    if (expected && memcmp(expected->bytes, found->bytes, sizeof found->bytes) != 0) {
        return mx_err_put(error, mx_err_code_of(MW_MISMATCH),
                          "the store at %s is another one than this table's", store->path);
    }
    store->uses++;
    return SQLITE_OK;
}

/* Who may only read joins whoever may write, if he is there. */
static mx_store *find_for(const mx_world_entry *folder, bool read_only)
{
    mx_store *store = find(folder, false);
    return store || !read_only ? store : find(folder, true);
}

/* Waits until the folder's store is neither opening nor closing. NULL: it is not open, nor has it
** failed here under this path. */
static mx_store *settled(const mx_world_entry *folder, const char *path, bool read_only)
{
    mx_store *store = find_for(folder, read_only);
    while (store && (store->state == OPENING || store->state == CLOSING)) {
        pthread_cond_wait(&changed, &mutex);
        store = find_for(folder, read_only);
    }
    if (store && store->state == FAILED && strcmp(store->path, path) != 0) {
        drop(store);
        store = NULL;
    }
    return store;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_engine(mx_store *store, const mw_options *options, const mw_store_id *expected,
                       char **error)
{
    mw_err err = {0};
    mw_db *db = NULL;
    mw_rc rc = mw_db_open(mx_world_env(), store->path, options, expected, &db, &err);
    int code = rc == MW_OK ? SQLITE_OK : mx_err_give_in(error, store->path, &err);
    pthread_mutex_lock(&mutex);
    if (rc == MW_OK) {
        store->db = db;
        store->state = OPEN;
    } else {
        drop(store);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return code;
}

int mx_store_open(const char *path, const mw_options *options, const mw_store_id *expected,
                  bool ephemeral, mx_store **store, char **error)
{
    (void)pthread_once(&once, watch_forks);
    mx_world_entry folder;
    int sys = mx_world_look(path, &folder);
    if (sys != 0) {
        return mx_err_put(
            error, SQLITE_CANTOPEN,
            "the store %s cannot be opened: %s; the rows are in that folder, which a "
            "copy or backup of the database file does not take along: put it there, or "
            "DROP TABLE",
            path, strerror(sys));
    }
    int code = SQLITE_OK;
    bool fresh = false;
    pthread_mutex_lock(&mutex);
    mx_store *found = settled(&folder, path, options->read_only);
    if (found && found->state == FAILED) {
        code = mx_err_put(error, mx_err_code(&found->failure),
                          "closing the store %s had failed: %s (this is told once; the next "
                          "statement opens it again)",
                          path, found->failure.text);
        drop(found);
    } else if (found) {
        code = join(found, expected, error);
    } else {
        found = add(&folder, path, options->read_only);
        fresh = found != NULL;
        if (fresh) found->ephemeral = ephemeral;
        if (!fresh) code = mx_err_put(error, SQLITE_NOMEM, "out of memory");
    }
    pthread_mutex_unlock(&mutex);
    if (fresh) code = open_engine(found, options, expected, error);
    *store = code == SQLITE_OK ? found : NULL;
    return code;
}

/* Requires that nobody else can reach the engine: the state is CLOSING. */
static void close_engine(mx_store *store)
{
    mw_err err = {0};
    mw_rc rc = mw_db_close(store->db, &err);
    bool park = rc != MW_OK && !store->ephemeral;
    /* A leftover of an ephemeral store is nobody's any more: there is none to tell. */
    if (store->ephemeral) (void)!mw_db_remove(mx_world_env(), store->path, &err);
    pthread_mutex_lock(&mutex);
    store->db = NULL;
    if (park) {
        store->failure = err;
        store->state = FAILED;
    } else {
        drop(store);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void mx_store_close(mx_store *store)
{
    if (!store || store->process != getpid()) return;
    pthread_mutex_lock(&mutex);
    bool last = --store->uses == 0;
    if (last) store->state = CLOSING;
    pthread_mutex_unlock(&mutex);
    if (last) close_engine(store);
}

static void end_removal(mx_store *store)
{
    pthread_mutex_lock(&mutex);
    drop(store);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

mw_rc mx_store_remove(const char *path, mw_err *err)
{
    (void)pthread_once(&once, watch_forks);
    mx_world_entry folder;
    int sys = mx_world_look(path, &folder);
    if (sys == ENOENT) return MW_OK;
    if (sys != 0) return mw_fail_sys(err, sys, "removal", path);
    pthread_mutex_lock(&mutex);
    mx_store *store = find(&folder, false);
    if (!store) store = find(&folder, true);
    if (store && store->state == FAILED) {
        drop(store);
        store = NULL;
    }
    bool used = store != NULL;
    /* As if it were being closed: who opens it waits, and then finds nothing. */
    if (!used) store = add(&folder, path, false);
    if (!used && store) store->state = CLOSING;
    pthread_mutex_unlock(&mutex);
    if (used) return mw_fail(err, MW_BUSY, "%s is in use", path);
    if (!store) return mw_fail(err, MW_NOMEM, "%s", mw_rc_text(MW_NOMEM));
    mw_rc rc = mw_db_remove(mx_world_env(), path, err);
    end_removal(store);
    return rc;
}

mx_store *mx_store_join_writer(mx_store *store)
{
    if (!store->read_only || store->process != getpid()) return NULL;
    pthread_mutex_lock(&mutex);
    mx_store *writer = find(&store->folder, false);
    bool there = writer && writer->state == OPEN;
    if (there) {
        const mw_store_id *mine = mw_db_store(store->db);
        there = memcmp(mine->bytes, mw_db_store(writer->db)->bytes, sizeof mine->bytes) == 0;
    }
    if (there) writer->uses++;
    pthread_mutex_unlock(&mutex);
    return there ? writer : NULL;
}

bool mx_store_is_read_only(const mx_store *store) { return store->read_only; }

bool mx_store_settings_lock(mx_store *store)
{
    enum { WAIT_S = 10 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S;
    return pthread_mutex_clocklock(&store->settings, CLOCK_MONOTONIC, &until) == 0;
}

void mx_store_settings_unlock(mx_store *store) { pthread_mutex_unlock(&store->settings); }

mw_db *mx_store_db(mx_store *store) { return store->db; }
