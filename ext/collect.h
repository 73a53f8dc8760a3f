/* collect.h: stores whose tables are no more are removed. */
#ifndef MX_COLLECT_H
#define MX_COLLECT_H

#include "internal.h"

/* Before the store of a CREATE is made, and before a DROP: notes, on the disk and in this process, that
** whether the table is there will be known when its transaction has ended. name: of the store's
** folder in the default place. What is refused is only what the caller must not go on without:
** SQLITE_NOMEM; and, where the store is yet to be made, that the note cannot be written. *error:
** sqlite3_free. */
int mx_collect_note(const mx_vtab *vtab, const char *name, bool made, char **error);

/* A CREATE has failed, while the transaction goes on: removes what was made for it. */
void mx_collect_undo(const mx_vtab *vtab, const char *name);

/* Removes what can be removed now, if there is anything: to be called when a transaction with CREATE
** or DROP may have ended, and when a store has been closed. */
void mx_collect_end(mx_connection *connection);
/* The same behind the connection's end: its transaction has ended. */
void mx_collect_close(mx_connection *connection);

/* Behind a commit to a table: what a crash has left beside its database file. Acts once. */
void mx_collect_left(mx_vtab *vtab);

#endif
