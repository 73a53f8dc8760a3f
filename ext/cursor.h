/* cursor.h: reading rows. */
#ifndef MX_CURSOR_H
#define MX_CURSOR_H

#include "internal.h"

int mx_cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **cursor);
int mx_cursor_close(sqlite3_vtab_cursor *base);
int mx_cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *words, int argc,
                     sqlite3_value **argv);
int mx_cursor_next(sqlite3_vtab_cursor *base);
int mx_cursor_eof(sqlite3_vtab_cursor *base);
int mx_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column);
int mx_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid);

#endif
