/* shadows.h: the shadow tables of a database file that name one store. */
#ifndef MX_SHADOWS_H
#define MX_SHADOWS_H

#include "internal.h"

/* All of a schema, one after the other. */
typedef struct mx_shadows {
    sqlite3 *db;
    const char *schema;
    char hex[2 * sizeof((mw_store_id){{0}}.bytes) + 1]; /* the store */
    sqlite3_stmt *tables;
} mx_shadows;

/* schema: borrowed until the close. Returns a SQLite code. */
int mx_shadows_open(mx_shadows *self, sqlite3 *db, const char *schema, const mw_store_id *store);
/* *shadow: borrowed until the next call; NULL: there is no more. */
int mx_shadows_next(mx_shadows *self, const char **shadow);
void mx_shadows_close(mx_shadows *self);

/* The name of the table's own shadow table, which is another one after a RENAME in this transaction;
** *shadow: sqlite3_free. *error: as well. */
int mx_shadows_find(const mx_vtab *vtab, char **shadow, char **error);

/* Is there a row that sql (taken) selects? A table that is none of ours (no such columns) has
** none. */
int mx_shadows_has_row(sqlite3 *db, char *sql, bool *has);

/* An own connection to a database file, by the VFS of the table's connection. *db is to be closed in
** any case. */
int mx_shadows_connect(const mx_vtab *vtab, const char *file, int flags, uint64_t wait_ms,
                       sqlite3 **db);

#endif
