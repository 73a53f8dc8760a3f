/* find.c: memwal tables by name, for functions that are given one.
**
** What a table was at the last look need not be so any more: another connection may have dropped
** or renamed it. SQLite notices that when a statement runs, by the schema's version in the file. So
** each look first runs a statement that touches the schema and reads nothing, the schema's watch.
** It is kept prepared, for this is in the way of every memwal_count. When SQLite had to prepare it
** anew, the schema was read anew since the last look; then objects may be left that only a
** statement of the application still holds, under names that are now those of other tables. All are
** doubted until SQLite plans with them again, which preparing a statement on the table brings
** about.
**
** A statement that is left would keep sqlite3_close from closing. Watches name no virtual table, so
** a connection that is closed still disconnects its tables first, and with the last of them watches
** are finalized (mx_find_forget). */
#include "find.h"

#include <string.h>

struct mx_watch {
    mx_watch *next;
    char *schema;
    sqlite3_stmt *statement;
    int prepared; /* how often SQLite had prepared it anew at the last look */
};

/* What is looked for, in one schema after the other. */
typedef struct search {
    mx_connection *connection;
    const char *name;
    mx_vtab *vtab; /* the memwal table of that name          */
    bool there;    /* a table of that name, memwal's or not  */
} search;

/* ---- watches -------------------------------------------------------------------------------- */

static void doubt(const mx_connection *connection, const char *schema)
{
    for (mx_vtab *vtab = connection->vtabs; vtab; vtab = vtab->next) {
        if (sqlite3_stricmp(vtab->schema, schema) == 0) vtab->doubted = true;
    }
}

/* An application that closes may finalize every statement it finds, ours as well. */
static bool is_alive(sqlite3 *db, const sqlite3_stmt *statement)
{
    sqlite3_stmt *at = sqlite3_next_stmt(db, NULL);
    while (at && at != statement) at = sqlite3_next_stmt(db, at);
    return at != NULL;
}

static void free_watch(sqlite3 *db, mx_watch *watch)
{
    if (is_alive(db, watch->statement)) sqlite3_finalize(watch->statement);
    sqlite3_free(watch->schema);
    sqlite3_free(watch);
}

void mx_find_forget(mx_connection *connection)
{
    /* In the middle of a look a watch may be running. */
    if (connection->vtabs || connection->looks > 0) return;
    while (connection->watches) {
        mx_watch *watch = connection->watches;
        connection->watches = watch->next;
        free_watch(connection->db, watch);
    }
}

static bool is_attached(sqlite3 *db, const char *schema)
{
    const char *name;
    for (int i = 0; (name = sqlite3_db_name(db, i)) != NULL; i++) {
        if (sqlite3_stricmp(name, schema) == 0) return true;
    }
    return false;
}

/* Of schemas that are detached. */
static void free_old_watches(mx_connection *connection)
{
    for (mx_watch **at = &connection->watches; *at;) {
        mx_watch *watch = *at;
        if (is_attached(connection->db, watch->schema)) {
            at = &watch->next;
        } else {
            *at = watch->next;
            free_watch(connection->db, watch);
        }
    }
}

static int new_watch(mx_connection *connection, const char *schema, mx_watch **to)
{
    free_old_watches(connection);
    mx_watch *watch = sqlite3_malloc64(sizeof *watch);
    if (!watch) return SQLITE_NOMEM;
    memset(watch, 0, sizeof *watch);
    watch->schema = sqlite3_mprintf("%s", schema);
    char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_master LIMIT 0", schema);
    int rc = watch->schema && sql ? SQLITE_OK : SQLITE_NOMEM;
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v3(connection->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                &watch->statement, NULL);
    }
    sqlite3_free(sql);
    if (rc != SQLITE_OK) {
        free_watch(connection->db, watch);
        return rc;
    }
    watch->next = connection->watches;
    connection->watches = watch;
    doubt(connection, schema);
    *to = watch;
    return SQLITE_OK;
}

/* Makes sure that SQLite knows the schema as it now is in the file. */
static int run_watch(mx_connection *connection, const char *schema)
{
    mx_watch *watch = connection->watches;
    while (watch && sqlite3_stricmp(watch->schema, schema) != 0) watch = watch->next;
    int rc = watch ? SQLITE_OK : new_watch(connection, schema, &watch);
    if (rc != SQLITE_OK) return rc;
    (void)sqlite3_step(watch->statement);
    rc = sqlite3_reset(watch->statement);
    int prepared = sqlite3_stmt_status(watch->statement, SQLITE_STMTSTATUS_REPREPARE, 0);
    if (prepared != watch->prepared) doubt(connection, schema);
    watch->prepared = prepared;
    return rc;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Connects the table if it is a virtual one, and lets SQLite plan with the object that is in the
** schema. */
static int plan_with(const search *wanted, const char *schema)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\"", schema, wanted->name);
    if (!sql) return SQLITE_NOMEM;
    int rc = sqlite3_prepare_v2(wanted->connection->db, sql, -1, &statement, NULL);
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return rc;
}

/* The object that has this name for certain. */
static mx_vtab *certain_vtab(const search *wanted, const char *schema)
{
    mx_vtab *vtab = wanted->connection->vtabs;
    while (vtab && (vtab->doubted || sqlite3_stricmp(vtab->schema, schema) != 0 ||
                    sqlite3_stricmp(vtab->name, wanted->name) != 0)) {
        vtab = vtab->next;
    }
    return vtab;
}

static int has_table(const search *wanted, const char *schema, bool *has)
{
    int rc = sqlite3_table_column_metadata(wanted->connection->db, schema, wanted->name, NULL, NULL,
                                           NULL, NULL, NULL, NULL);
    *has = rc == SQLITE_OK;
    return rc == SQLITE_ERROR ? SQLITE_OK : rc;
}

static int look_in(search *wanted, const char *schema)
{
    bool temp = sqlite3_stricmp(schema, "temp") == 0;
    bool has = false;
    int rc = SQLITE_OK;
    /* Nobody else changes temp, and the first statement on it would make its file. */
    if (temp) rc = has_table(wanted, schema, &has);
    if (rc != SQLITE_OK || (temp && !has)) return rc;
    rc = run_watch(wanted->connection, schema);
    if (rc == SQLITE_OK) rc = has_table(wanted, schema, &has);
    if (rc != SQLITE_OK || !has) return rc;
    wanted->there = true;
    wanted->vtab = certain_vtab(wanted, schema);
    if (wanted->vtab) return SQLITE_OK;
    rc = plan_with(wanted, schema);
    wanted->vtab = rc == SQLITE_OK ? certain_vtab(wanted, schema) : NULL;
    return rc;
}

/* In the order of SQLite, in which temp, number 1, is before main, number 0. */
static int look_everywhere(search *wanted)
{
    sqlite3 *db = wanted->connection->db;
    int rc = look_in(wanted, "temp");
    if (rc == SQLITE_OK && !wanted->there) rc = look_in(wanted, sqlite3_db_name(db, 0));
    for (int i = 2; rc == SQLITE_OK && !wanted->there && sqlite3_db_name(db, i); i++) {
        rc = look_in(wanted, sqlite3_db_name(db, i));
    }
    return rc;
}

/* A schema that is not there has no table. The first one is "main" also
** where an application calls it otherwise. */
static int look_in_named(search *wanted, const char *schema)
{
    sqlite3 *db = wanted->connection->db;
    const char *name = sqlite3_db_name(db, 0);
    if (sqlite3_stricmp(schema, "main") == 0) return look_in(wanted, name);
    for (int i = 0; (name = sqlite3_db_name(db, i)) != NULL; i++) {
        if (sqlite3_stricmp(name, schema) == 0) return look_in(wanted, name);
    }
    return SQLITE_OK;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* One name of 'schema.t' at *at, without its quotes; the caller's, sqlite3_free. *whole is cleared
** when a quote is never closed. */
static char *read_name(const char **at, bool *whole)
{
    const char *text = *at;
    char quote = text[0] == '[' ? ']' : text[0];
    if (quote != '"' && quote != '`' && quote != '\'' && quote != ']') {
        size_t size = strcspn(text, ".");
        *at = text + size;
        return sqlite3_mprintf("%.*s", (int)size, text);
    }
    sqlite3_str *name = sqlite3_str_new(NULL);
    for (text++; text[0]; text++) {
        if (text[0] == quote && (text[1] != quote || quote == ']')) break;
        if (text[0] == quote) text++;
        sqlite3_str_appendchar(name, 1, text[0]);
    }
    *whole = *whole && text[0];
    *at = text[0] ? text + 1 : text;
    bool empty = sqlite3_str_errcode(name) == SQLITE_OK && sqlite3_str_length(name) == 0;
    char *done = sqlite3_str_finish(name);
    return empty ? sqlite3_mprintf("") : done;
}

/* Both names, *schema NULL where none is given. False: that is no name; out of memory leaves *name
** NULL. */
static bool read_names(const char *text, char **schema, char **name)
{
    bool whole = true;
    *schema = NULL;
    *name = read_name(&text, &whole);
    if (*name && text[0] == '.') {
        text++;
        *schema = *name;
        *name = read_name(&text, &whole);
    }
    return whole && text[0] == 0;
}

static int explain(const search *found, int rc, const char *table, char **error)
{
    if (rc == SQLITE_NOMEM) return mx_err_put(error, rc, "%s", sqlite3_errstr(rc));
    if (rc != SQLITE_OK) {
        return mx_err_put(error, rc, "%s", sqlite3_errmsg(found->connection->db));
    }
    if (found->vtab) return SQLITE_OK;
    if (!found->there) {
        return mx_err_put(error, SQLITE_ERROR, "expected a memwal table, found no table named %s",
                          table);
    }
    return mx_err_put(error, SQLITE_ERROR, "expected a memwal table, found that %s is none", table);
}

int mx_vtab_find(sqlite3 *db, const char *table, mx_vtab **vtab, char **error)
{
    char *schema = NULL;
    char *name = NULL;
    search wanted = {.connection = mx_connection_of(db)};
    if (!wanted.connection) return mx_err_put(error, SQLITE_MISUSE, "the module is not registered");
    int rc = SQLITE_OK;
    bool whole = read_names(table, &schema, &name);
    wanted.name = name;
    wanted.connection->looks++;
    if (!name) {
        rc = SQLITE_NOMEM;
    } else if (whole && !schema) {
        rc = look_everywhere(&wanted);
    } else if (whole) {
        rc = look_in_named(&wanted, schema);
    }
    wanted.connection->looks--;
    rc = explain(&wanted, rc, table, error);
    mx_find_forget(wanted.connection);
    sqlite3_free(schema);
    sqlite3_free(name);
    *vtab = rc == SQLITE_OK ? wanted.vtab : NULL;
    if (*vtab) (*vtab)->references++;
    return rc;
}
