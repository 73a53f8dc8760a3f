/* collect.c: stores whose tables are no more are removed.
**
** DROP must not delete anything, for it may be rolled back; and a CREATE that is rolled back leaves a
** store. So both write a note first, a file beside the store's folder, and whoever finds a note later
** asks the database file:
**
**     <database file>-memwal/<32 digits>              the store
**     <database file>-memwal/<32 digits>.unsettled    its CREATE or DROP was begun; holds the
**                                                     inode of the database file as 20 digits
**
**     a committed shadow table names the store        the note goes
**     none does                                       the store goes, then the note
**
** Only what has a note is ever removed, and only while all of this holds:
**   - an own connection has the file's write lock. So no CREATE or DROP is under way, what it reads
**     is what is committed, and that is synced before anything is removed, however SQLite is set.
**   - no shadow table of the file names the folder or has the identity of the store (a second table,
**     attached to it by path). If one of them cannot be read, nothing is removed.
**   - nobody has the store open, in this process (share.c) or another (its lock).
**   - it is a folder with a name that CREATE gives, directly in "<database file>-memwal", neither of
**     them a link. Inside, the engine removes what is a store's own.
** Names are random and given once, so a store that no table names stays without a table. A file that
** was put in the place of another obeys no note of the other's. A third one may have attached the
** store by path: it loses it with the DROP.
**
** This process keeps the notes of its transactions in a list. They become ready when the transaction of
** their connection has ended, and are looked at when there is a chance: at that end, which SQLite
** tells (ending.c, xCommit and xRollback of a created table), when a table lets go of its store, when
** a connection is closed. What is busy then waits for the next one. The database file's lock is never
** waited for.
**
** A crash leaves notes behind, also a store that is half removed. The first commit of a connection to a
** table looks for them: one list of a folder. Those who only read remove nothing. */
#include "collect.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "host.h"
#include "place.h"
#include "vtab.h"
#include "world.h"

enum { NAME_DIGITS = MX_NAME_BYTES - 1, INODE_DIGITS = 20 };

static const char suffix[] = ".unsettled";

typedef struct note {
    struct note *next;
    const mx_connection *owner; /* whose transaction is under way; NULL: it has ended */
    char *file;                 /* the database                                       */
    mx_world_entry host;        /* ... as it was then                                 */
    char *vfs;
    char name[MX_NAME_BYTES];
} note;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static note *notes;       /* under mutex */
static atomic_uint ready; /* of them, without an owner */
static _Thread_local bool collecting;

/* The child of a fork leaves the parent's stores alone. */
static void in_child(void)
{
    pthread_mutex_init(&mutex, NULL);
    notes = NULL;
    atomic_store(&ready, 0);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_child); }

/* ---- the list -------------------------------------------------------------------------------- */

static void free_note(note *old)
{
    if (!old) return;
    sqlite3_free(old->file);
    sqlite3_free(old->vfs);
    sqlite3_free(old);
}

static note *new_note(const mx_vtab *vtab, const char *name)
{
    sqlite3_vfs *vfs = NULL;
    (void)sqlite3_file_control(vtab->connection->db, vtab->schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
    note *fresh = sqlite3_malloc64(sizeof *fresh);
    if (!fresh) return NULL;
    memset(fresh, 0, sizeof *fresh);
    fresh->file = sqlite3_mprintf("%s", mx_place_file(vtab));
    fresh->vfs = sqlite3_mprintf("%s", vfs ? vfs->zName : "");
    memcpy(fresh->name, name, NAME_DIGITS);
    bool whole = fresh->file && fresh->vfs;
    if (whole && mx_world_look(fresh->file, &fresh->host) != 0) fresh->host.inode = 0;
    if (whole) return fresh;
    free_note(fresh);
    return NULL;
}

static void put_note(note *fresh)
{
    fresh->next = notes;
    notes = fresh;
    if (!fresh->owner) atomic_fetch_add(&ready, 1);
}

static bool is_noted(const char *name)
{
    const note *at = notes;
    while (at && strcmp(at->name, name) != 0) at = at->next;
    return at != NULL;
}

/* Takes the connection's notes of that store out. */
static void forget_note(const mx_connection *connection, const char *name)
{
    pthread_mutex_lock(&mutex);
    for (note **at = &notes; *at;) {
        note *old = *at;
        bool wanted = old->owner == connection && strcmp(old->name, name) == 0;
        if (wanted)
            *at = old->next;
        else
            at = &old->next;
        if (wanted) free_note(old);
    }
    pthread_mutex_unlock(&mutex);
}

static void disown(mx_connection *connection)
{
    pthread_mutex_lock(&mutex);
    for (note *at = notes; at; at = at->next) {
        if (at->owner != connection) continue;
        at->owner = NULL;
        atomic_fetch_add(&ready, 1);
    }
    pthread_mutex_unlock(&mutex);
    connection->unsettled = false;
}

static note *take_ready(void)
{
    note *taken = NULL;
    pthread_mutex_lock(&mutex);
    for (note **at = &notes; *at;) {
        note *one = *at;
        if (one->owner) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = taken;
        taken = one;
        atomic_fetch_sub(&ready, 1);
    }
    pthread_mutex_unlock(&mutex);
    return taken;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Opens "<file>-memwal". */
static int open_stores(const char *file, int *dir)
{
    const mw_env *env = mx_world_env();
    char *path = sqlite3_mprintf("%s-memwal", file);
    if (!path) return ENOMEM;
    int sys = mx_world_is_folder(path) ? env->dir_open(env->ctx, path, false, dir) : ENOENT;
    sqlite3_free(path);
    return sys;
}

/* Where there are no stores any more. */
static void remove_stores(const char *file)
{
    char *path = sqlite3_mprintf("%s-memwal", file);
    if (path && mx_world_is_folder(path)) (void)mx_world_remove_folder(path);
    sqlite3_free(path);
}

static void name_note(char to[NAME_DIGITS + sizeof suffix], const char *name)
{
    memcpy(to, name, NAME_DIGITS);
    memcpy(to + NAME_DIGITS, suffix, sizeof suffix);
}

/* What is in a note of this file. */
static void identify_file(const char *file, char text[INODE_DIGITS + 1])
{
    mx_world_entry entry = {0};
    if (mx_world_look(file, &entry) != 0) entry.inode = 0;
    sqlite3_snprintf(INODE_DIGITS + 1, text, "%020llu", (unsigned long long)entry.inode);
}

/* Its name need not be durable before that of the store's folder, which is made next. */
static int write_note(const char *file, const char *name, bool durable)
{
    const mw_env *env = mx_world_env();
    char whole[NAME_DIGITS + sizeof suffix];
    char text[INODE_DIGITS + 1];
    int dir = -1;
    int made = -1;
    mw_err err;
    mx_err_clear(&err);
    name_note(whole, name);
    identify_file(file, text);
    int sys = open_stores(file, &dir);
    if (sys) return sys;
    sys = mw_env_open(env, dir, whole, MW_OPEN_ENSURE, &made);
    if (!sys && mw_env_write(env, made, whole, text, INODE_DIGITS, 0, &err) != MW_OK) sys = err.sys;
    if (made >= 0) env->file_close(env->ctx, made);
    if (!sys && durable) sys = env->dir_sync(env->ctx, dir);
    env->dir_close(env->ctx, dir);
    return sys;
}

static void remove_note(int dir, const char *name)
{
    const mw_env *env = mx_world_env();
    char whole[NAME_DIGITS + sizeof suffix];
    name_note(whole, name);
    (void)env->unlink(env->ctx, dir, whole);
}

/* ---- what is committed ----------------------------------------------------------------------- */

/* One database file, looked at with its write lock. */
typedef struct judge {
    sqlite3 *db;
    const char *file;
    mx_world_entry host;
    int dir;     /* of the stores              */
    bool synced; /* what is committed, durably */
    bool later;  /* something was busy         */
    bool failed; /* nothing more is to be done */
} judge;

static void fail(judge *self, int rc)
{
    self->failed = true;
    self->later = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED;
}

static void open_judge(judge *self, const note *of)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int rc = sqlite3_open_v2(of->file, &self->db, flags, of->vfs[0] ? of->vfs : NULL);
    if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(self->db, 0);
    if (rc == SQLITE_OK) rc = sqlite3_exec(self->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc == SQLITE_OK && mx_world_look(of->file, &self->host) != 0) rc = SQLITE_CANTOPEN;
    if (rc == SQLITE_OK && open_stores(of->file, &self->dir) != 0) rc = SQLITE_CANTOPEN;
    if (rc != SQLITE_OK) fail(self, rc);
}

static void close_judge(judge *self)
{
    const mw_env *env = mx_world_env();
    if (self->dir >= 0) env->dir_close(env->ctx, self->dir);
    if (self->dir >= 0) remove_stores(self->file);
    if (self->db) (void)sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
    (void)sqlite3_close(self->db);
}

/* A table without such columns is none of ours. */
static int has_columns(sqlite3 *db, const char *table, bool *has)
{
    static const char *const columns[] = {"key", "value"};
    int rc = SQLITE_OK;
    *has = true;
    for (int i = 0; i < 2 && rc == SQLITE_OK && *has; i++) {
        rc = sqlite3_table_column_metadata(db, "main", table, columns[i], NULL, NULL, NULL, NULL,
                                           NULL);
        *has = rc == SQLITE_OK;
        if (rc == SQLITE_ERROR) rc = SQLITE_OK;
    }
    return rc;
}

static int shadow_names(sqlite3 *db, const char *shadow, const char *name, const char *store,
                        bool *names)
{
    sqlite3_stmt *statement = NULL;
    int rc = has_columns(db, shadow, names);
    if (rc != SQLITE_OK || !*names) return rc;
    char *sql = sqlite3_mprintf("SELECT 1 FROM main.\"%w\" WHERE "
                                "(key = 'name' AND CAST(value AS TEXT) = %Q) OR "
                                "(key = 'store' AND CAST(value AS TEXT) = %Q)",
                                shadow, name, store);
    rc = sql ? sqlite3_prepare_v2(db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    *names = rc == SQLITE_ROW;
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Does a shadow table of the file name that folder, or have that store? */
static bool is_named(judge *self, const char *name, const char *store)
{
    sqlite3_stmt *tables = NULL;
    bool names = false;
    int rc = sqlite3_prepare_v2(self->db,
                                "SELECT name FROM main.sqlite_master WHERE type = 'table' AND "
                                "rootpage > 0 AND substr(name, -6) = '_store' COLLATE NOCASE "
                                "ORDER BY rowid DESC", /* a CREATE's own is the newest */
                                -1, &tables, NULL);
    while (rc == SQLITE_OK && !names && (rc = sqlite3_step(tables)) == SQLITE_ROW) {
        const char *shadow = (const char *)sqlite3_column_text(tables, 0);
        rc = shadow ? shadow_names(self->db, shadow, name, store, &names) : SQLITE_NOMEM;
    }
    sqlite3_finalize(tables);
    if (!names && rc != SQLITE_DONE) fail(self, rc);
    return names;
}

/* ---- settling -------------------------------------------------------------------------------- */

/* The identity of the store, "" when that cannot be told: then it can be attached to by nobody. */
static void identify(const char *path, char hex[2 * sizeof((mw_store_id){{0}}.bytes) + 1])
{
    const mw_env *env = mx_world_env();
    mw_store_id store;
    mw_key_kind key;
    uint32_t columns;
    char *declaration = NULL;
    mw_err err;
    mx_err_clear(&err);
    hex[0] = 0;
    mw_rc rc = mw_db_describe(env, path, &store, &key, &columns, &declaration, &err);
    if (rc == MW_OK) mx_place_put_hex(hex, store.bytes, sizeof store.bytes);
    mw_free(env, declaration);
}

/* False: the note has to stay. */
static bool remove_store(judge *self, const char *path)
{
    const mw_env *env = mx_world_env();
    mw_err err;
    mx_err_clear(&err);
    if (!self->synced && mx_host_sync(self->db, self->file) != 0) {
        fail(self, SQLITE_IOERR);
        return false;
    }
    self->synced = true;
    mw_rc rc = mx_store_remove(path, &err);
    if (rc == MW_BUSY) self->later = true;
    /* Something of somebody else's in it: the rest is gone. */
    bool shared = rc != MW_OK && (err.sys == ENOTEMPTY || err.sys == EEXIST);
    /* Else a power cut might bring files back, and no note with them. */
    return (rc == MW_OK || shared) && env->dir_sync(env->ctx, self->dir) == 0;
}

/* Another file may stand in the place of the one whose transaction it was. */
static bool is_same_file(const judge *self, const note *of)
{
    return of->host.device == self->host.device && of->host.inode == self->host.inode;
}

static void settle(judge *self, const char *name)
{
    char store[2 * sizeof((mw_store_id){{0}}.bytes) + 1] = "";
    char *path = sqlite3_mprintf("%s-memwal/%s", self->file, name);
    if (!path) {
        fail(self, SQLITE_NOMEM);
        return;
    }
    bool folder = mx_world_is_folder(path);
    if (folder) identify(path, store);
    bool named = is_named(self, name, store[0] ? store : name);
    bool settled = !self->failed && (named || !folder || remove_store(self, path));
    if (settled) remove_note(self->dir, name);
    sqlite3_free(path);
}

/* Looks at all notes of one file, whose write lock is taken without waiting. Those that have to be
** looked at again go back into the list, the others are freed. */
static void settle_file(note *all)
{
    judge self = {.file = all->file, .dir = -1};
    open_judge(&self, all);
    note *back = NULL;
    note *done = NULL;
    while (all) {
        note *one = all;
        all = one->next;
        if (!self.failed) {
            self.later = false;
            if (is_same_file(&self, one)) settle(&self, one->name);
        }
        note **to = self.later ? &back : &done;
        one->next = *to;
        *to = one;
    }
    close_judge(&self);
    pthread_mutex_lock(&mutex);
    while (back) {
        note *one = back;
        back = one->next;
        put_note(one);
    }
    pthread_mutex_unlock(&mutex);
    while (done) {
        note *one = done;
        done = one->next;
        free_note(one);
    }
}

static void settle_ready(void)
{
    if (collecting || atomic_load(&ready) == 0) return;
    collecting = true; /* closing the own connections must not lead back here */
    note *taken = take_ready();
    while (taken) {
        note *same = NULL;
        note *rest = NULL;
        char *file = taken->file;
        while (taken) {
            note *one = taken;
            taken = one->next;
            note **to = strcmp(one->file, file) == 0 ? &same : &rest;
            one->next = *to;
            *to = one;
        }
        settle_file(same);
        taken = rest;
    }
    collecting = false;
}

/* ---- the face -------------------------------------------------------------------------------- */

int mx_collect_note(const mx_vtab *vtab, const char *name, bool made, char **error)
{
    (void)pthread_once(&once, watch_forks);
    mx_connection *connection = vtab->connection;
    note *fresh = new_note(vtab, name);
    if (!fresh) return mx_err_put(error, SQLITE_NOMEM, "%s", mw_rc_text(MW_NOMEM));
    fresh->owner = connection;
    const char *file = mx_place_file(vtab);
    /* In this order: who finds the note on the disk must not take it for one of a crash. */
    pthread_mutex_lock(&mutex);
    put_note(fresh);
    pthread_mutex_unlock(&mutex);
    connection->unsettled = true;
    int sys = write_note(file, name, made);
    /* No folder, or a link to one: there nothing is ever removed. */
    if (sys == ENOENT) forget_note(connection, name);
    if (sys == 0 || sys == ENOENT || made) return SQLITE_OK;
    mw_err err;
    mx_err_clear(&err);
    (void)mw_fail_sys(&err, sys, "noting a new store of", file);
    return mx_err_give(error, &err);
}

void mx_collect_undo(const mx_vtab *vtab, const char *name)
{
    const mw_env *env = mx_world_env();
    const char *file = mx_place_file(vtab);
    mw_err err;
    mx_err_clear(&err);
    int dir = -1;
    /* A note that cannot be settled here waits for the end. */
    if (mx_store_remove(vtab->path, &err) != MW_OK || open_stores(file, &dir) != 0) return;
    remove_note(dir, name);
    env->dir_close(env->ctx, dir);
    remove_stores(file);
    forget_note(vtab->connection, name);
}

void mx_collect_end(mx_connection *connection)
{
    if (mx_connection_is_forked(connection)) return;
    if (connection->unsettled && sqlite3_txn_state(connection->db, NULL) < SQLITE_TXN_WRITE) {
        disown(connection);
    }
    settle_ready();
}

void mx_collect_close(mx_connection *connection)
{
    if (mx_connection_is_forked(connection)) return;
    if (connection->unsettled) disown(connection);
    settle_ready();
}

/* ---- after a crash --------------------------------------------------------------------------- */

static bool is_note(const char *text, char name[MX_NAME_BYTES])
{
    uint8_t bytes[NAME_DIGITS / 2];
    if (strlen(text) != NAME_DIGITS + sizeof suffix - 1) return false;
    memcpy(name, text, NAME_DIGITS);
    name[NAME_DIGITS] = 0;
    return strcmp(text + NAME_DIGITS, suffix) == 0 && mx_place_get_hex(name, bytes, sizeof bytes);
}

typedef struct search {
    const mx_vtab *vtab;
    int dir;
    char inode[INODE_DIGITS + 1];
} search;

/* A power cut may have left it empty. */
static bool is_of_file(const search *self, const char *text)
{
    const mw_env *env = mx_world_env();
    uint8_t *content = NULL;
    size_t bytes = 0;
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = mw_env_read_file(env, self->dir, text, INODE_DIGITS, &content, &bytes, &err);
    bool same = rc == MW_OK &&
                (bytes == 0 || (bytes == INODE_DIGITS && memcmp(content, self->inode, bytes) == 0));
    mw_free(env, content);
    return same;
}

static int add_left(void *arg, const char *text)
{
    const search *self = arg;
    char name[MX_NAME_BYTES];
    if (!is_note(text, name) || !is_of_file(self, text)) return 0;
    note *fresh = new_note(self->vtab, name);
    if (!fresh) return 1;
    pthread_mutex_lock(&mutex);
    if (!is_noted(name)) {
        put_note(fresh);
        fresh = NULL;
    }
    pthread_mutex_unlock(&mutex);
    free_note(fresh);
    return 0;
}

void mx_collect_left(mx_vtab *vtab)
{
    const mw_env *env = mx_world_env();
    if (vtab->looked || !vtab->in_file || vtab->args->path) return;
    (void)pthread_once(&once, watch_forks);
    vtab->looked = true;
    const char *file = mx_place_file(vtab);
    search self = {.vtab = vtab, .dir = -1};
    if (!file[0] || open_stores(file, &self.dir) != 0) return;
    identify_file(file, self.inode);
    (void)mw_env_list(env, self.dir, add_left, &self);
    env->dir_close(env->ctx, self.dir);
    settle_ready();
}
