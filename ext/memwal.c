/* memwal.c: the entry point, called once for each connection that loads the extension.
**
** The library stays loaded for the life of the process: it owns threads, and unmapping their code
** under them would crash. Its pointer to SQLite's functions is one for the process, so a second
** copy of SQLite that loads it is refused: handles of one must not meet functions of the other. */
#include <pthread.h>
#include <sqlite3ext.h>

#include "ending.h"
#include "functions.h"
#include "internal.h"
#include "moment.h"
#include "tables.h"

SQLITE_EXTENSION_INIT1

enum { OLDEST_SQLITE = 3040000 };

#ifdef SQLITE_CORE
#define OK_STAY_LOADED SQLITE_OK /* an automatic extension must answer just that */

static int adopt_host(const sqlite3_api_routines *api, char **error)
{
    (void)api;
    if (sqlite3_libversion_number() >= OLDEST_SQLITE) return SQLITE_OK;
    *error = sqlite3_mprintf("memwal: expected SQLite 3.40 or newer, found %s",
                             sqlite3_libversion());
    return SQLITE_ERROR;
}
#else
#define OK_STAY_LOADED SQLITE_OK_LOAD_PERMANENTLY

/* Nothing of SQLite may be called by its plain name before this. */
static int adopt_host(const sqlite3_api_routines *api, char **error)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if (api->libversion_number() < OLDEST_SQLITE) {
        *error = api->mprintf("memwal: expected SQLite 3.40 or newer, found %s", api->libversion());
        return SQLITE_ERROR;
    }
    pthread_mutex_lock(&mutex);
    bool other = sqlite3_api && sqlite3_api != api;
    if (!sqlite3_api) SQLITE_EXTENSION_INIT2(api);
    pthread_mutex_unlock(&mutex);
    if (!other) return SQLITE_OK;
    *error = api->mprintf("memwal: another copy of SQLite in this process uses memwal already");
    return SQLITE_ERROR;
}
#endif

__attribute__((visibility("default"))) int sqlite3_memwal_init(sqlite3 *db, char **error,
                                                               const sqlite3_api_routines *api);

int sqlite3_memwal_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
    int rc = adopt_host(api, error);
    if (rc != SQLITE_OK) return rc;
    /* Loading twice must not give a connection two records of its transactions. */
    if (mx_connection_of(db)) return OK_STAY_LOADED;
    rc = mx_functions_register(db);
    if (rc == SQLITE_OK) rc = mx_tables_register(db);
    if (rc == SQLITE_OK) rc = mx_ending_register(db);
    /* Last, for it is what tells that all is there: loading again makes up for a failure. */
    if (rc == SQLITE_OK) rc = mx_vtab_register(db);
    if (rc == SQLITE_OK) rc = mx_moment_register(db);
    return rc == SQLITE_OK ? OK_STAY_LOADED : rc;
}
