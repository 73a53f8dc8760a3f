/* connection.c: one record per sqlite3*, and its tables by name.
**
** The record is the module's client data and lives as long as the module or a table of the
** connection. SQL functions get only the sqlite3*, so all records of the process are in a list
** under a mutex.
**
** After fork() the child has neither the engine's threads nor the right to write: forks counts
** them, and a record that was made before one is refused by everything that would touch a store. */
#include "connection.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "txn.h"

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;
static mx_connection *registry;
static atomic_uint forks;

/* In a child the mutex may be held by a thread that is not there; it is made anew. */
static void after_fork(void)
{
    atomic_fetch_add(&forks, 1);
    pthread_mutex_init(&registry_mutex, NULL);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, after_fork); }

mx_connection *mx_connection_new(sqlite3 *db)
{
    pthread_once(&registry_once, watch_forks);
    mx_connection *connection = sqlite3_malloc64(sizeof *connection);
    if (!connection) return NULL;
    *connection = (mx_connection){
        .db = db,
        .references = 1,
        .forks = atomic_load(&forks),
        .host_version = sqlite3_libversion_number(),
    };
    pthread_mutex_lock(&registry_mutex);
    connection->next = registry;
    registry = connection;
    pthread_mutex_unlock(&registry_mutex);
    return connection;
}

mx_connection *mx_connection_ref(mx_connection *connection)
{
    connection->references++;
    return connection;
}

mx_connection *mx_connection_of(sqlite3 *db)
{
    pthread_mutex_lock(&registry_mutex);
    mx_connection *found = registry;
    while (found && found->db != db) found = found->next;
    pthread_mutex_unlock(&registry_mutex);
    return found;
}

static void unlist_connection(mx_connection *connection)
{
    pthread_mutex_lock(&registry_mutex);
    mx_connection **at = &registry;
    while (*at && *at != connection) at = &(*at)->next;
    if (*at) *at = connection->next;
    pthread_mutex_unlock(&registry_mutex);
}

void mx_connection_unref(void *connection)
{
    mx_connection *mine = connection;
    if (!mine || --mine->references > 0) return;
    unlist_connection(mine);
    /* What is left are ephemeral stores, which the connection itself holds. */
    while (mine->txns) mx_txn_release(mine->txns);
    sqlite3_free(mine);
}

bool mx_connection_is_forked(const mx_connection *connection)
{
    return connection->forks != atomic_load(&forks);
}

int mx_connection_check(const mx_connection *connection, char **error)
{
    if (!mx_connection_is_forked(connection)) return SQLITE_OK;
    return mx_err_put(error, SQLITE_MISUSE,
                      "this connection was opened before a fork, by the parent process; "
                      "open an own one in the child");
}

bool mx_connection_interrupted(const mx_connection *connection)
{
#if SQLITE_VERSION_NUMBER >= 3041000
    return connection->host_version >= 3041000 && sqlite3_is_interrupted(connection->db);
#else
    (void)connection;
    return false;
#endif
}

/* ---- tables by name ------------------------------------------------------------------------- */

/* One name of 'schema.t' at *at, without its quotes; the caller's, sqlite3_free. */
static char *read_name(const char **at)
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
    *at = text[0] ? text + 1 : text;
    char *done = sqlite3_str_finish(name);
    return done ? done : sqlite3_mprintf("");
}

/* Does schema have a table or view of that name? Looking connects it. */
static bool is_there(sqlite3 *db, const char *schema, const char *name)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" LIMIT 0", schema, name);
    bool yes = sql && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return yes;
}

static mx_vtab *find_vtab(const mx_connection *connection, const char *schema, const char *name)
{
    mx_vtab *vtab = connection->vtabs;
    while (vtab &&
           (sqlite3_stricmp(vtab->schema, schema) != 0 || sqlite3_stricmp(vtab->name, name) != 0)) {
        vtab = vtab->next;
    }
    return vtab;
}

/* The quick answer for a table that is connected already: no statement is prepared. NULL where it is not
** that simple. */
static const char *find_connected(const mx_connection *connection, const char *name)
{
    static const char *const schemas[] = {"temp", "main"};
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        int rc = sqlite3_table_column_metadata(connection->db, schemas[i], name, NULL, NULL, NULL,
                                               NULL, NULL, NULL);
        if (rc == SQLITE_OK) return find_vtab(connection, schemas[i], name) ? schemas[i] : NULL;
    }
    return NULL;
}

/* The schema that SQLite would find an unqualified name in: temp, main, then as attached. The
** caller's, sqlite3_free; NULL: none. */
static char *find_schema(const mx_connection *connection, const char *name)
{
    sqlite3 *db = connection->db;
    sqlite3_stmt *statement = NULL;
    char *found = NULL;
    const char *connected = find_connected(connection, name);
    if (connected) return sqlite3_mprintf("%s", connected);
    if (is_there(db, "temp", name)) return sqlite3_mprintf("temp");
    int rc = sqlite3_prepare_v2(db, "PRAGMA database_list", -1, &statement, NULL);
    while (rc == SQLITE_OK && !found && sqlite3_step(statement) == SQLITE_ROW) {
        const char *schema = (const char *)sqlite3_column_text(statement, 1);
        if (schema && is_there(db, schema, name)) found = sqlite3_mprintf("%s", schema);
    }
    sqlite3_finalize(statement);
    return found;
}

mx_vtab *mx_vtab_find(sqlite3 *db, const char *table, char **error)
{
    mx_connection *connection = mx_connection_of(db);
    mx_vtab *vtab = NULL;
    const char *at = table;
    char *name = read_name(&at);
    char *schema = NULL;
    if (name && at[0] == '.') {
        at++;
        schema = name;
        name = read_name(&at);
    }
    bool there = name && schema && is_there(db, schema, name);
    if (name && !schema && connection) {
        schema = find_schema(connection, name);
        there = schema != NULL;
    }
    if (connection && there) vtab = find_vtab(connection, schema, name);
    if (!there) {
        (void)mx_err_put(error, SQLITE_ERROR, "expected a memwal table, found no table named %s",
                         table);
    } else if (!vtab) {
        (void)mx_err_put(error, SQLITE_ERROR, "expected a memwal table, found that %s is none",
                         table);
    }
    sqlite3_free(schema);
    sqlite3_free(name);
    return vtab;
}
