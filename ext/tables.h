/* tables.h: the table-valued functions memwal_stats(t), memwal_files(t) and
** memwal_wal(t). */
#ifndef MX_TABLES_H
#define MX_TABLES_H

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

/* Registers them in a connection. Returns a SQLite code. */
int mx_tables_register(sqlite3 *db);

#endif
