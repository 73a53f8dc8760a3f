/* moment.h: being told when a transaction ends that only reads. */
#ifndef MX_MOMENT_H
#define MX_MOMENT_H

#include "internal.h"

/* Registers the module "memwal_moment" in a connection that has a record. Returns a SQLite code. */
int mx_moment_register(sqlite3 *db);

/* Do the statements of a transaction see one moment of the table's store? */
bool mx_moment_is_wanted(const mx_vtab *vtab);

/* While a statement on the table is being prepared: makes the control table, where it may be needed,
** is not there, and can be made. A code for failures: whether it was made is another matter. */
int mx_moment_prepare(const mx_vtab *vtab);

/* To be called where a statement runs: looks at temp anew if mx_moment_prepare could not. */
void mx_moment_look(mx_connection *connection);

/* Inside BEGIN: from now on the end of this transaction calls mx_txn_end_moments. *joined is false
** where SQLite cannot be made to tell it: then each statement sees a moment of its own. A failure
** (memory, interrupt) may have ended the transaction. */
int mx_moment_join(mx_connection *connection, bool *joined);

#endif
