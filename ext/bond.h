/* bond.h: do the database file and the rows of a table belong together? */
#ifndef MX_BOND_H
#define MX_BOND_H

#include "internal.h"

/* At each use of a table in the default place: an error where its file and its rows are of different
** moments. Requires that the store is open. Returns a SQLite code; *error: sqlite3_free. */
int mx_bond_check(mx_vtab *vtab, char **error);

/* From now on they belong together. *before: what they were. Opens the store. */
int mx_bond_accept(mx_vtab *vtab, const char **before, char **error);

/* Puts into the id of a pledge whose it is: that of the table, which has this shadow table. */
int mx_bond_sign(mx_vtab *vtab, const char *shadow, uint8_t id[MW_PLEDGE_ID_BYTES]);

#endif
