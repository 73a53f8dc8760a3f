/* update.h: INSERT, UPDATE, DELETE. */
#ifndef MX_UPDATE_H
#define MX_UPDATE_H

#include "internal.h"

int mx_update(sqlite3_vtab *base, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);

#endif
