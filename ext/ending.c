/* ending.c: the end of a transaction that drops tables.
**
** SQLite tells a table that was dropped nothing more: neither how its transaction ends nor that a
** ROLLBACK TO has brought it back. So DROP writes, no row, into a table of ours, the eponymous
** memwal_ending, which thereby takes part in the transaction and hears all of it. That table belongs
** to the main database, whose write lock the DROP of a table of main has anyway. For a table of
** another schema it would be a lock more, and a file more in the commit: there nobody is told, unless
** main is in memory or is written already, and what depends on it waits for another occasion.
**
** A table that has changes in the transaction is kept for it, and what SQLite would have told it is
** told by memwal_ending: savepoints as ever, for the table may come back by ROLLBACK TO with what was
** written before. Whether it is back is asked at xSync, of the schema: if so, the changes are
** committed with everything else, whether SQLite has made a new object for the table by then or not;
** else xCommit throws them away. */
#include "ending.h"

#include <string.h>

#include "collect.h"
#include "connection.h"
#include "txn.h"
#include "vtab.h"
#include "world.h"

typedef struct ending {
    sqlite3_vtab base; /* first: SQLite's part */
    mx_connection *connection;
} ending;

/* ---- asking to be told ----------------------------------------------------------------------- */

static bool is_free_of_charge(const mx_vtab *vtab)
{
    sqlite3 *db = vtab->connection->db;
    const char *name = sqlite3_db_name(db, 0);
    const char *file = sqlite3_db_filename(db, name);
    return sqlite3_stricmp(vtab->schema, name) == 0 || !file || !file[0] ||
           sqlite3_txn_state(db, name) == SQLITE_TXN_WRITE;
}

int mx_ending_expect(const mx_vtab *vtab, bool *told)
{
    mx_connection *connection = vtab->connection;
    *told = connection->told;
    if (*told || !is_free_of_charge(vtab)) return SQLITE_OK;
    char *sql = sqlite3_mprintf("INSERT INTO \"%w\".memwal_ending SELECT 0 WHERE 0",
                                sqlite3_db_name(connection->db, 0));
    int rc = sql ? sqlite3_exec(connection->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    *told = connection->told;
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

void mx_ending_keep(mx_vtab *vtab)
{
    vtab->next = vtab->connection->dropped;
    vtab->connection->dropped = vtab;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* SQLite looks for the words of a failure in the table that it has called. */
static int pass_on(ending *self, mx_vtab *vtab, int rc)
{
    if (rc == SQLITE_OK || !vtab->base.zErrMsg) return rc;
    sqlite3_free(self->base.zErrMsg);
    self->base.zErrMsg = vtab->base.zErrMsg;
    vtab->base.zErrMsg = NULL;
    return rc;
}

static int tell(sqlite3_vtab *base, int (*what)(sqlite3_vtab *, int), int n)
{
    ending *self = (ending *)base;
    int rc = SQLITE_OK;
    for (mx_vtab *vtab = self->connection->dropped; vtab && rc == SQLITE_OK; vtab = vtab->next) {
        rc = pass_on(self, vtab, what(&vtab->base, n));
    }
    return rc;
}

static int savepoint(sqlite3_vtab *base, int n) { return tell(base, mx_txn_savepoint, n); }
static int release(sqlite3_vtab *base, int n) { return tell(base, mx_txn_release_to, n); }
static int rollback_to(sqlite3_vtab *base, int n) { return tell(base, mx_txn_rollback_to, n); }

static int begin(sqlite3_vtab *base)
{
    ((ending *)base)->connection->told = true;
    return SQLITE_OK;
}

static int sync_one(sqlite3_vtab *base, int n)
{
    (void)n;
    mx_vtab *vtab = (mx_vtab *)base;
    /* Where a table that was attached meanwhile shares the store, the rows are that one's too. */
    bool listed;
    int rc = mx_vtab_look(vtab, &listed);
    vtab->gone = rc == SQLITE_OK && !listed && mx_txn_is_left(vtab);
    return rc == SQLITE_OK && !vtab->gone ? mx_txn_sync(base) : rc;
}

static int sync(sqlite3_vtab *base) { return tell(base, sync_one, 0); }

static int commit_one(sqlite3_vtab *base, int n)
{
    (void)n;
    bool gone = ((mx_vtab *)base)->gone;
    /* Nobody looks at the code of either; what fails stops the writer. */
    int rc = gone ? mx_txn_rollback(base) : mx_txn_commit(base);
    (void)rc;
    return SQLITE_OK;
}

static int roll_back_one(sqlite3_vtab *base, int n)
{
    (void)n;
    int rc = mx_txn_rollback(base);
    (void)rc;
    return SQLITE_OK;
}

static int end(sqlite3_vtab *base, int (*how)(sqlite3_vtab *, int))
{
    mx_connection *connection = ((ending *)base)->connection;
    int rc = tell(base, how, 0);
    connection->told = false;
    while (connection->dropped) {
        mx_vtab *vtab = connection->dropped;
        connection->dropped = vtab->next;
        mx_vtab_release(vtab);
    }
    mx_collect_end(connection);
    return rc;
}

static int commit(sqlite3_vtab *base) { return end(base, commit_one); }
static int roll_back(sqlite3_vtab *base) { return end(base, roll_back_one); }

/* ---- the table, which has no row ------------------------------------------------------------- */

static int connect(sqlite3 *db, void *nothing, int argc, const char *const *argv, sqlite3_vtab **to,
                   char **error)
{
    (void)nothing, (void)argc, (void)argv, (void)error;
    mx_connection *connection = mx_connection_of(db);
    if (!connection) return SQLITE_MISUSE;
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(a)");
    if (rc != SQLITE_OK) return rc;
    ending *self = sqlite3_malloc64(sizeof *self);
    if (!self) return SQLITE_NOMEM;
    memset(self, 0, sizeof *self);
    self->connection = mx_connection_ref(connection);
    *to = &self->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *base)
{
    mx_connection_unref(((ending *)base)->connection);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base, (void)info;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **to)
{
    (void)base;
    *to = sqlite3_malloc64(sizeof **to);
    if (!*to) return SQLITE_NOMEM;
    memset(*to, 0, sizeof **to);
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *cursor, int plan, const char *text, int argc,
                  sqlite3_value **argv)
{
    (void)cursor, (void)plan, (void)text, (void)argc, (void)argv;
    return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *cursor)
{
    (void)cursor;
    return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *cursor)
{
    (void)cursor;
    return 1;
}

static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int index)
{
    (void)cursor, (void)context, (void)index;
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *id)
{
    (void)cursor;
    *id = 0;
    return SQLITE_OK;
}

static int update(sqlite3_vtab *base, int argc, sqlite3_value **argv, sqlite3_int64 *id)
{
    (void)base, (void)argc, (void)argv, (void)id;
    return SQLITE_READONLY;
}

static const sqlite3_module module = {
    .iVersion = 2,
    .xConnect = connect, /* no xCreate: it exists by its name alone */
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
    .xUpdate = update,
    .xBegin = begin,
    .xSync = sync,
    .xCommit = commit,
    .xRollback = roll_back,
    .xSavepoint = savepoint,
    .xRelease = release,
    .xRollbackTo = rollback_to,
};

int mx_ending_register(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, "memwal_ending", &module, NULL, NULL);
}
