/* host.c: the database file as the partner of a store's transactions.
**
**     xSync     marker row of <table>_store := fresh id     a part of the host's transaction
**               prepare(id) in the store's log, synced
**     SQLite    commits the host, gives its lock up
**     xCommit   the host's commit is made durable
**               decision behind the prepare
**
** The marker is written as an incremental blob: rows that a statement changes would be counted by
** total_changes, which the application can see.
**
** SQLite's own commit is not always durable when xCommit is called: the name of a deleted journal
** may come back after a power cut, and with synchronous = NORMAL a WAL is not synced. What comes
** later in our log would vouch for a transaction that the host has lost. So this is made up for
** before the decision is written. With synchronous = OFF, and without a journal, nothing is
** promised.
**
** Settling. After a crash the log may end with a prepare. Whether it counts says the marker, but
** "no" only under the host's write lock: else the host might still commit. It is taken by an own
** connection, which needs no more than SQLite; where the caller's connection has it already, that
** one looks itself. The file is the one that the prepare names, or, where that is gone, the caller's
** own: database and store have been moved together. Its shadow table must name this store.
**
** Who may only read believes what the file says at the moment, and keeps it to himself. */
#include "host.h"

#include <errno.h>
#include <string.h>

#include "coding.h"
#include "bond.h"
#include "origin.h"
#include "place.h"
#include "shadows.h"
#include "world.h"

/* ---- the marker ------------------------------------------------------------------------------ */

static int find_marker(const mx_vtab *vtab, const char *shadow, sqlite3_int64 *rowid, bool *found)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT rowid FROM \"%w\".\"%w\" WHERE key = 'marker' AND "
                                "typeof(value) = 'blob' AND length(value) = %d",
                                vtab->schema, shadow, MW_PLEDGE_ID_BYTES);
    int rc =
        sql ? sqlite3_prepare_v2(vtab->connection->db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    *found = rc == SQLITE_ROW;
    if (*found) *rowid = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* For tables that were made before there were markers. */
static int add_marker(const mx_vtab *vtab, const char *shadow)
{
    char *sql = sqlite3_mprintf("INSERT INTO \"%w\".\"%w\" VALUES ('marker', zeroblob(%d))",
                                vtab->schema, shadow, MW_PLEDGE_ID_BYTES);
    int rc = sql ? sqlite3_exec(vtab->connection->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc;
}

static int write_marker(const mx_vtab *vtab, const char *shadow, const uint8_t *id)
{
    sqlite3 *db = vtab->connection->db;
    sqlite3_int64 rowid = 0;
    bool found = false;
    int rc = find_marker(vtab, shadow, &rowid, &found);
    if (rc == SQLITE_OK && !found) rc = add_marker(vtab, shadow);
    if (rc == SQLITE_OK && !found) rc = find_marker(vtab, shadow, &rowid, &found);
    if (rc != SQLITE_OK) return rc;
    sqlite3_blob *blob = NULL;
    rc = sqlite3_blob_open(db, vtab->schema, shadow, "value", rowid, 1, &blob);
    if (rc == SQLITE_OK) rc = sqlite3_blob_write(blob, id, MW_PLEDGE_ID_BYTES, 0);
    int closed = sqlite3_blob_close(blob);
    return rc == SQLITE_OK ? closed : rc;
}

/* A number that rises from pledge to pledge, the table, and chance: no two pledges have the same id,
** also where the first of them was taken back. */
static int make_id(mx_vtab *vtab, const char *shadow, mw_pledged last,
                   uint8_t id[MW_PLEDGE_ID_BYTES], char **error)
{
    const mw_env *env = mx_world_env();
    mw_put_u64(id, mw_get_u64(last.id) + 1);
    if (env->random(env->ctx, id + 8, MW_PLEDGE_ID_BYTES - 8) != 0) {
        return mx_err_put(error, SQLITE_IOERR, "the machine gives no random numbers");
    }
    return mx_bond_sign(vtab, shadow, id);
}

/* ---- how durable the host's commit is -------------------------------------------------------- */

/* The value of a pragma of the table's schema, as text; *value: sqlite3_free. */
static int ask_pragma(const mx_vtab *vtab, const char *pragma, char **value)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", vtab->schema, pragma);
    int rc =
        sql ? sqlite3_prepare_v2(vtab->connection->db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    /* No text: there was no memory for it, and SQLite will say so after the commit. */
    const unsigned char *text = rc == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    *value = text ? sqlite3_mprintf("%s", text) : NULL;
    sqlite3_finalize(statement);
    if (rc == SQLITE_ROW) rc = *value ? SQLITE_OK : SQLITE_NOMEM;
    return rc;
}

static mx_host_debt debt_of(const char *journal_mode, const char *synchronous)
{
    enum { OFF, NORMAL, FULL, EXTRA };
    int level = synchronous[0] - '0';
    if (level == OFF) return MX_HOST_NOTHING;
    if (strcmp(journal_mode, "wal") == 0) return level < FULL ? MX_HOST_WAL : MX_HOST_NOTHING;
    if (strcmp(journal_mode, "delete") == 0)
        return level < EXTRA ? MX_HOST_FOLDER : MX_HOST_NOTHING;
    if (strcmp(journal_mode, "truncate") == 0)
        return level < FULL ? MX_HOST_JOURNAL : MX_HOST_NOTHING;
    return MX_HOST_NOTHING; /* persist syncs; off and memory promise nothing */
}

static int note_debt(const mx_vtab *vtab, mx_host *host)
{
    char *journal_mode = NULL;
    char *synchronous = NULL;
    int rc = ask_pragma(vtab, "journal_mode", &journal_mode);
    if (rc == SQLITE_OK) rc = ask_pragma(vtab, "synchronous", &synchronous);
    if (rc == SQLITE_OK) host->debt = debt_of(journal_mode, synchronous);
    sqlite3_free(journal_mode);
    sqlite3_free(synchronous);
    return rc;
}

/* ---- making it durable ----------------------------------------------------------------------- */

static void clear_files(mx_host_files *files)
{
    sqlite3_free(files->file);
    sqlite3_free(files->folder);
    sqlite3_free(files->wal);
    sqlite3_free(files->journal);
    *files = (mx_host_files){0};
}

/* False: no memory. */
static bool name_files(const char *file, mx_host_files *files)
{
    const char *slash = strrchr(file, '/');
    int bytes = slash == file ? 1 : (int)(slash - file);
    *files = (mx_host_files){
        .file = sqlite3_mprintf("%s", file),
        .folder = slash ? sqlite3_mprintf("%.*s", bytes, file) : sqlite3_mprintf("."),
        .wal = sqlite3_mprintf("%s-wal", file),
        .journal = sqlite3_mprintf("%s-journal", file),
    };
    if (files->file && files->folder && files->wal && files->journal) return true;
    clear_files(files);
    return false;
}

/* One that is not there was not needed any more. */
static int sync_file(int dir, const char *path)
{
    const mw_env *env = mx_world_env();
    const char *slash = strrchr(path, '/');
    int file = -1;
    int sys = mw_env_open(env, dir, slash ? slash + 1 : path, MW_OPEN_WRITE, &file);
    if (sys == ENOENT) return 0;
    if (sys) return sys;
    sys = env->file_sync(env->ctx, file);
    env->file_close(env->ctx, file);
    return sys;
}

/* What is synced of a database file's companions and of their names. */
typedef struct payment {
    bool wal, journal, folder;
} payment;

static int pay(const mx_host_files *files, payment due)
{
    const mw_env *env = mx_world_env();
    int dir = -1;
    int sys = env->dir_open(env->ctx, files->folder, false, &dir);
    if (sys) return sys;
    if (due.wal) sys = sync_file(dir, files->wal);
    if (!sys && due.journal) sys = sync_file(dir, files->journal);
    if (!sys && due.folder) sys = env->dir_sync(env->ctx, dir);
    env->dir_close(env->ctx, dir);
    return sys;
}

/* Whatever the host's settings are. */
static int pay_all(const char *file)
{
    mx_host_files files;
    if (!name_files(file, &files)) return ENOMEM;
    int sys = pay(&files, (payment){true, true, true});
    clear_files(&files);
    return sys;
}

/* 0: it has none. */
static uint64_t wal_inode_of(const mx_host_files *files)
{
    mx_world_entry entry = {0};
    return mx_world_look(files->wal, &entry) == 0 ? entry.inode : 0;
}

/* The name of a WAL that is new is as little synced as its content. */
mw_rc mx_host_harden(mx_host *host, mw_err *err)
{
    if (host->debt == MX_HOST_NOTHING) return MW_OK;
    bool wal = host->debt == MX_HOST_WAL;
    uint64_t inode = wal ? wal_inode_of(&host->files) : 0;
    payment due = {
        .wal = wal,
        .journal = host->debt == MX_HOST_JOURNAL,
        .folder = host->debt == MX_HOST_FOLDER || (wal && inode != host->wal_inode),
    };
    int sys = pay(&host->files, due);
    if (sys) return mw_fail_sys(err, sys, "sync of the commit in", host->files.file);
    if (wal) host->wal_inode = inode;
    return MW_OK;
}

int mx_host_sync(sqlite3 *db, const char *file)
{
    /* The file itself may lack its sync with synchronous = OFF. It is not ours to open: closing it
    ** would take SQLite's locks away. */
    sqlite3_file *open = NULL;
    int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &open);
    if (rc == SQLITE_OK && open && open->pMethods) {
        rc = open->pMethods->xSync(open, SQLITE_SYNC_NORMAL);
    }
    return rc == SQLITE_OK ? pay_all(file) : EIO;
}

/* ---- the host's half of a commit -------------------------------------------------------------- */

void mx_host_clear(mx_host *host)
{
    clear_files(&host->files);
    *host = (mx_host){.wal_inode = host->wal_inode};
}

int mx_host_mark(mx_vtab *vtab, mw_pledged last, mx_host *host, char **error)
{
    char *shadow = NULL;
    mx_host_clear(host);
    int rc = mx_shadows_find(vtab, &shadow, error);
    if (rc == SQLITE_OK) rc = make_id(vtab, shadow, last, host->id, error);
    if (rc == SQLITE_OK) rc = write_marker(vtab, shadow, host->id);
    if (rc == SQLITE_OK && mx_origin_is_stale(vtab)) rc = mx_origin_adopt(vtab, shadow);
    if (rc == SQLITE_OK) rc = note_debt(vtab, host);
    if (rc == SQLITE_OK && !name_files(mx_place_file(vtab), &host->files)) rc = SQLITE_NOMEM;
    if (rc != SQLITE_OK && !*error) {
        mx_err_put(error, rc, "the marker row in %s: %s", shadow ? shadow : vtab->name,
                   sqlite3_errmsg(vtab->connection->db));
    }
    sqlite3_free(shadow);
    return rc;
}

/* ---- settling -------------------------------------------------------------------------------- */

typedef struct judge {
    const mx_vtab *vtab;
    uint64_t wait_ms;
    bool read_only;     /* what is there is believed, and nothing is made durable */
    sqlite3 *db;        /* that has the write lock     */
    sqlite3 *own;       /* the same if it is ours      */
    const char *schema; /* of the host in it           */
    char *file;         /* of the host; sqlite3_malloc */
} judge;

static mw_rc fail_host(const judge *self, int rc, const char *words, mw_err *err)
{
    bool busy = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED;
    mw_rc code = busy ? MW_UNDECIDED : rc == SQLITE_NOMEM ? MW_NOMEM : MW_IO;
    return mw_fail(err, code,
                   "a crash has left a transaction of %s undecided, and whether it was committed "
                   "stands in %s: %s",
                   self->vtab->path, self->file, words);
}

static bool is_same_file(const char *a, const char *b)
{
    mx_world_entry first, second;
    if (mx_world_look(a, &first) != 0 || mx_world_look(b, &second) != 0) return false;
    return first.device == second.device && first.inode == second.inode;
}

/* Is the table's own database file the host? A store in the default place has no other, whatever its
** path was when the prepare was written; else it is where the host was moved away: what it must say
** then is checked later. */
static bool is_own_file(const mx_vtab *vtab, const char *host)
{
    mx_world_entry entry;
    const char *file = mx_place_file(vtab);
    if (!file[0]) return false;
    return !vtab->args->path || is_same_file(file, host) || mx_world_look(host, &entry) != 0;
}

/* The schema by which the caller's connection has the write lock of that file; NULL: it has not. */
static const char *locked_schema(sqlite3 *db, const char *path)
{
    const char *schema;
    for (int i = 0; (schema = sqlite3_db_name(db, i)) != NULL; i++) {
        const char *file = sqlite3_db_filename(db, schema);
        bool written = sqlite3_txn_state(db, schema) == SQLITE_TXN_WRITE;
        if (written && file && file[0] && is_same_file(file, path)) return schema;
    }
    return NULL;
}

static int open_connection(judge *self)
{
    int flags = self->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    int rc = mx_shadows_connect(self->vtab, self->file, flags, self->wait_ms, &self->own);
    const char *begin = self->read_only ? "BEGIN" : "BEGIN IMMEDIATE";
    if (rc == SQLITE_OK) rc = sqlite3_exec(self->own, begin, NULL, NULL, NULL);
    self->db = self->own;
    self->schema = "main";
    return rc;
}

static void close_judge(void *arg)
{
    judge *self = arg;
    if (self->own) {
        (void)sqlite3_exec(self->own, "ROLLBACK", NULL, NULL, NULL);
        (void)sqlite3_close(self->own);
    }
    sqlite3_free(self->file);
    self->own = self->db = NULL;
    self->file = NULL;
}

static mw_rc open_judge(void *arg, const char *host, mw_err *err)
{
    judge *self = arg;
    const mx_vtab *vtab = self->vtab;
    sqlite3 *db = vtab->connection->db;
    bool own_file = is_own_file(vtab, host);
    self->file = sqlite3_mprintf("%s", own_file ? mx_place_file(vtab) : host);
    if (!self->file) return mw_fail(err, MW_NOMEM, "%s", mw_rc_text(MW_NOMEM));
    self->schema = locked_schema(db, self->file);
    if (!self->schema && self->read_only && own_file) self->schema = vtab->schema;
    if (self->schema) {
        self->db = db;
        return MW_OK;
    }
    int rc = open_connection(self);
    if (rc == SQLITE_OK) return MW_OK;
    mw_rc code =
        fail_host(self, rc, self->own ? sqlite3_errmsg(self->own) : sqlite3_errstr(rc), err);
    close_judge(self);
    return code;
}

/* Several tables may have the store, each with a marker of its own. */
static int look_for(judge *self, const uint8_t *id, bool *there, bool *named)
{
    mx_shadows all;
    const char *shadow = NULL;
    *there = *named = false;
    int rc = mx_shadows_open(&all, self->db, self->schema, &self->vtab->store);
    if (rc == SQLITE_OK) rc = mx_shadows_next(&all, &shadow);
    while (rc == SQLITE_OK && shadow && !*there) {
        char hex[2 * MW_PLEDGE_ID_BYTES + 1];
        mx_place_put_hex(hex, id, MW_PLEDGE_ID_BYTES);
        *named = true;
        rc = mx_shadows_has_row(
            self->db,
            sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" WHERE key = 'marker' AND "
                            "value = x'%s'",
                            self->schema, shadow, hex),
            there);
        if (rc == SQLITE_OK && !*there) rc = mx_shadows_next(&all, &shadow);
    }
    mx_shadows_close(&all);
    return rc;
}

static mw_rc decide(void *arg, const mw_pledge *pledge, bool *committed, mw_err *err)
{
    judge *self = arg;
    bool named;
    int rc = look_for(self, pledge->id, committed, &named);
    if (rc != SQLITE_OK) return fail_host(self, rc, sqlite3_errmsg(self->db), err);
    if (!named) return fail_host(self, SQLITE_ERROR, "no table there has this store", err);
    if (!*committed || self->read_only) return MW_OK;
    /* Whoever committed it may have died before he made it durable, in whatever way. */
    int sys = pay_all(self->file);
    return sys ? mw_fail_sys(err, sys, "sync of the commit in", self->file) : MW_OK;
}

mw_rc mx_host_settle(const mx_vtab *vtab, mw_db *db, uint64_t wait_ms, mw_err *err)
{
    enum { SLICE_MS = 50 };
    judge self = {.vtab = vtab, .read_only = mw_db_options(db).read_only};
    mw_judge face = {&self, open_judge, decide, close_judge};
    /* Others write to the file meanwhile, and the first of them settles it. */
    for (;;) {
        self.wait_ms = wait_ms < SLICE_MS ? wait_ms : SLICE_MS;
        wait_ms -= self.wait_ms;
        mw_rc rc = mw_db_settle(db, self.wait_ms, &face, err);
        bool again = (rc == MW_UNDECIDED || rc == MW_BUSY) && wait_ms > 0;
        if (!again) return rc;
        mx_err_clear(err);
    }
}
