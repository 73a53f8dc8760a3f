/* origin.h: the database file that a table belongs to, told from copies of it. */
#ifndef MX_ORIGIN_H
#define MX_ORIGIN_H

#include "internal.h"

/* What the shadow table of a new table keeps: device, inode and path of the file; the caller's,
** sqlite3_free. *words is NULL where nothing has to be kept. */
int mx_origin_put(const mx_vtab *vtab, char **words);

/* Before the table is written to: SQLITE_READONLY where its file is a copy whose original is still
** there. *error: sqlite3_free. */
int mx_origin_check(mx_vtab *vtab, char **error);

/* After a check: the shadow table tells another file, or none. mx_origin_adopt puts that right, as a
** part of the transaction under way; to be called before a shared commit. */
bool mx_origin_is_stale(const mx_vtab *vtab);
int mx_origin_adopt(const mx_vtab *vtab, const char *shadow);

/* The transaction has ended: how it stands is looked up when it matters again. */
void mx_origin_forget(mx_vtab *vtab);

#endif
