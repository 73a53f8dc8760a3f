/* moment.c: being told when a transaction ends that only reads.
**
** SQLite tells a virtual table the end of a transaction only if the table was written in it. A write
** to a table in a database file would take that file's write lock; one to a table in temp takes no
** lock that anybody else could want. So each connection has a control table there, temp.memwal_moment,
** which holds nothing: the first read of a store inside BEGIN runs
**
**     DELETE FROM temp.memwal_moment WHERE 0
**
** which changes nothing, but enters the table into the transaction. Its xCommit or xRollback ends the
** moments of the connection, also where an error, or closing the connection, ends the transaction.
**
** Making the table. CREATE expires all statements of the connection: those that run are aborted as
** soon as they open a table. So it is not made when it is needed, inside a statement that reads, but
** before, while one is being prepared and none runs. It may go again: by a ROLLBACK of the transaction
** that it was made in, by PRAGMA temp_store, by DROP. Then statements have to be prepared anew, and it
** is made again: after PRAGMA temp_store by the second one, since SQLite does not read the schema of
** the new temp while a statement is being prepared. mx_moment_look makes it do so.
**
** After ROLLBACK TO over its CREATE the table is in no schema, but still entered in the transaction:
** it goes on to tell the end.
**
** A nested write that fails for want of memory or by an interrupt makes SQLite roll back the whole
** transaction, as any such write does. Interrupts are looked for right before. */
#include "moment.h"

#include "connection.h"
#include "txn.h"

#include <string.h>

typedef struct control {
    sqlite3_vtab base;         /* first: SQLite's part */
    mx_connection *connection; /* a reference          */
} control;

/* ---- the control table ----------------------------------------------------------------------- */

static const char name[] = "memwal_moment";

static int connect(sqlite3 *db, void *connection, int argc, const char *const *argv,
                   sqlite3_vtab **to, char **error)
{
    if (argc != 3 || sqlite3_stricmp(argv[1], "temp") != 0 || sqlite3_stricmp(argv[2], name) != 0) {
        return mx_err_put(error, SQLITE_ERROR,
                          "%s is made by memwal itself, without arguments, in temp: expected no "
                          "other table of that module",
                          name);
    }
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(empty)");
    if (rc != SQLITE_OK) return rc;
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    control *self = sqlite3_malloc64(sizeof *self);
    if (!self) return SQLITE_NOMEM;
    *self = (control){.connection = mx_connection_ref(connection)};
    self->connection->controls++;
    *to = &self->base;
    return SQLITE_OK;
}

/* Another function than connect, or the table would be in every database. */
static int create(sqlite3 *db, void *connection, int argc, const char *const *argv,
                  sqlite3_vtab **to, char **error)
{
    return connect(db, connection, argc, argv, to, error);
}

static int disconnect(sqlite3_vtab *base)
{
    control *self = (control *)base;
    mx_connection *connection = self->connection;
    connection->controls--;
    connection->control_there = false; /* to be looked for, at least */
    sqlite3_free(self);
    mx_connection_unref(connection);
    return SQLITE_OK;
}

/* SQLite does not tell a dropped table how its transaction ends. (Nor does it show words here.) */
static int destroy(sqlite3_vtab *base)
{
    const control *self = (const control *)base;
    return self->connection->joined ? SQLITE_LOCKED : disconnect(base);
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    info->estimatedRows = 1;
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

static int filter(sqlite3_vtab_cursor *cursor, int plan, const char *words, int argc,
                  sqlite3_value **argv)
{
    (void)cursor;
    (void)plan;
    (void)words;
    (void)argc;
    (void)argv;
    return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *cursor)
{
    (void)cursor;
    return 1;
}

/* next, column and rowid are not called where there is no row. */
static int next(sqlite3_vtab_cursor *cursor)
{
    (void)cursor;
    return SQLITE_ERROR;
}

static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int index)
{
    (void)cursor;
    (void)context;
    (void)index;
    return SQLITE_ERROR;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *id)
{
    (void)cursor;
    (void)id;
    return SQLITE_ERROR;
}

/* Only DELETE is for it, and that finds no row. */
static int update(sqlite3_vtab *base, int argc, sqlite3_value **argv, sqlite3_int64 *id)
{
    (void)argc;
    (void)argv;
    (void)id;
    return mx_err_set(base, SQLITE_READONLY, "%s holds no rows", name);
}

static int begin(sqlite3_vtab *base)
{
    (void)base;
    return SQLITE_OK;
}

static int end(sqlite3_vtab *base)
{
    mx_connection *connection = ((control *)base)->connection;
    connection->joined = false;
    mx_txn_end_moments(connection);
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 1,
    .xCreate = create,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xDestroy = destroy,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
    .xUpdate = update,
    .xBegin = begin,
    .xCommit = end,
    .xRollback = end,
};

int mx_moment_register(sqlite3 *db)
{
    mx_connection *connection = mx_connection_ref(mx_connection_of(db));
    return sqlite3_create_module_v2(db, "memwal_moment", &module, connection, mx_connection_unref);
}

/* ---- making and using it --------------------------------------------------------------------- */

static bool is_any_running(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    while ((statement = sqlite3_next_stmt(db, statement)) != NULL) {
        if (sqlite3_stmt_busy(statement)) return true;
    }
    return false;
}

/* Does it depend on the connection's state whether the table can be used, and not on a failure? */
static bool is_refusal(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_ERROR: /* there is no such table, or no module of that name */
    case SQLITE_AUTH:
    case SQLITE_READONLY:
    case SQLITE_LOCKED:     /* COMMIT is under way */
    case SQLITE_CONSTRAINT: /* the commit hook has said no */
    case SQLITE_SCHEMA:     /* see mx_moment_look */
    case SQLITE_CANTOPEN: return true;
    default: return false;
    }
}

/* Asked, because a write that is refused is an error in the application's log. */
static int ask_query_only(sqlite3 *db, bool *only)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA query_only", -1, &statement, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    *only = rc != SQLITE_ROW || sqlite3_column_int(statement, 0) != 0;
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || is_refusal(rc) ? SQLITE_OK : rc;
}

/* *done is false where the connection cannot write to temp. */
static int write_temp(mx_connection *connection, const char *sql, bool *done)
{
    bool query_only = false;
    int rc = ask_query_only(connection->db, &query_only);
    if (rc == SQLITE_OK && !query_only) rc = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
    connection->temp_changed = rc == SQLITE_SCHEMA;
    *done = rc == SQLITE_OK && !query_only;
    return rc == SQLITE_OK || is_refusal(rc) ? SQLITE_OK : rc;
}

/* An ephemeral store has no other user. */
bool mx_moment_is_wanted(const mx_vtab *vtab)
{
    if (vtab->ephemeral || vtab->broken) return false;
    if (!vtab->txn) return !vtab->args->options.statement_moments;
    return !mw_db_options(mx_txn_db(vtab->txn)).statement_moments;
}

int mx_moment_prepare(const mx_vtab *vtab)
{
    mx_connection *connection = vtab->connection;
    if (connection->controls > 0 || connection->control_there) return SQLITE_OK;
    if (mx_connection_is_forked(connection) || !mx_moment_is_wanted(vtab)) return SQLITE_OK;
    if (is_any_running(connection->db)) return SQLITE_OK;
    return write_temp(connection,
                      "CREATE VIRTUAL TABLE IF NOT EXISTS temp.memwal_moment USING memwal_moment",
                      &connection->control_there);
}

void mx_moment_look(mx_connection *connection)
{
    if (!connection->temp_changed) return;
    connection->temp_changed = false;
    (void)sqlite3_exec(connection->db, "SELECT 1 FROM temp.sqlite_master", NULL, NULL, NULL);
}

int mx_moment_join(mx_connection *connection, bool *joined)
{
    *joined = connection->joined;
    if (connection->joined) return SQLITE_OK;
    if (connection->controls == 0 && !connection->control_there) return SQLITE_OK;
    if (mx_connection_interrupted(connection)) return SQLITE_INTERRUPT;
    int rc = write_temp(connection, "DELETE FROM temp.memwal_moment WHERE 0", joined);
    connection->control_there = connection->joined = *joined;
    return rc;
}
