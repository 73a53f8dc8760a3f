/* connection.c: one record per sqlite3*.
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

#include "proof.h"
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
    mx_proof_forget(mine);
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
