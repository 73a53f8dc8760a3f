/* ending.h: the end of a transaction that drops tables. */
#ifndef MX_ENDING_H
#define MX_ENDING_H

#include "internal.h"

/* Registers memwal_ending in a connection. Returns a SQLite code. */
int mx_ending_register(sqlite3 *db);

/* In xDestroy: asks to be told of the end of the transaction, if that can be had without taking part
** in more databases than the DROP itself does. SQLITE_OK: *told says whether it will be. */
int mx_ending_expect(const mx_vtab *vtab, bool *told);

/* Keeps a table that is dropped together with its changes until that end; takes SQLite's reference.
** Requires that mx_ending_expect has told so, and that the table has its mark. */
void mx_ending_keep(mx_vtab *vtab);

#endif
