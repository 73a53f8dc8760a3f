/* functions.h: the SQL functions memwal_count, _flush, _merge, _compact, _check, _set, _version
** and _debug. */
#ifndef MX_FUNCTIONS_H
#define MX_FUNCTIONS_H

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

#define MX_VERSION "0.1.0"

/* Registers them in a connection. Returns a SQLite code. */
int mx_functions_register(sqlite3 *db);

#endif
