/* txn.h: what a connection does to a store.
**
** The callbacks take the table and act on its mx_txn, which several tables may share; each of them
** may be called once per table and transaction, only the first call acts. */
#ifndef MX_TXN_H
#define MX_TXN_H

#include "internal.h"

/* Finds or opens the connection's use of the store at path, with a reference for the caller.
** *error: sqlite3_free. */
int mx_txn_acquire(mx_vtab *vtab, mx_txn **txn, char **error);
/* The connection's use of the store of that identity, with a reference; NULL: it has none open. */
mx_txn *mx_txn_find(mx_connection *connection, const mw_store_id *store);
void mx_txn_release(mx_txn *txn); /* takes NULL */

/* Where the database is read-only: what others have written is seen from now on, unless something is
** being read. *error: sqlite3_free. Requires that the store is open. */
int mx_txn_renew(mx_vtab *vtab, char **error);
uint64_t mx_txn_busy_timeout_ms(sqlite3 *db);

int mx_txn_begin(sqlite3_vtab *base);
int mx_txn_sync(sqlite3_vtab *base);
int mx_txn_commit(sqlite3_vtab *base);
int mx_txn_rollback(sqlite3_vtab *base);
int mx_txn_savepoint(sqlite3_vtab *base, int n);
int mx_txn_release_to(sqlite3_vtab *base, int n);
int mx_txn_rollback_to(sqlite3_vtab *base, int n);
/* Before DROP. *kept: the transaction has changes of this store, which SQLite would neither commit nor
** roll back any more, so the caller has to (ending.c). Refused where keep is false or another table of
** the connection has the store. */
int mx_txn_leave(mx_vtab *vtab, bool keep, bool *kept);
/* Is no table left on this connection that has the store, but for those that are dropped? */
bool mx_txn_is_left(const mx_vtab *vtab);

/* Makes ready for a change: the turn is held, an earlier prepare is taken back, and until the end of
** the change it may be undone to mark. */
int mx_txn_change_begin(mx_vtab *vtab, mw_txn **open, uint64_t *mark);
void mx_txn_change_end(mx_txn *txn);
/* Tells that a change was made: cursors that are opened from now on see it. */
void mx_txn_changed(mx_txn *txn);
/* Undoes a change that failed half-way. */
void mx_txn_abandon(mx_txn *txn, uint64_t mark);
/* Puts the words of a failure inside the transaction into the table; its code. */
int mx_txn_fail(mx_vtab *vtab, const mw_err *err);

/* The highest id for "max + 1": *known is false when the store has no row. */
mw_rc mx_txn_rowid_max(mx_txn *txn, int64_t *max, bool *known, mw_err *err) MW_MUST_USE;
void mx_txn_rowid_put(mx_txn *txn, int64_t rowid);
void mx_txn_rowid_deleted(mx_txn *txn, int64_t rowid);

/* A cursor of the present statement begins to read: the snapshot that its siblings share, with a
** reference for the caller. Ends with mx_txn_reader_end. */
int mx_txn_reader_begin(mx_vtab *vtab, mw_snapshot **snapshot);
void mx_txn_reader_end(mx_txn *txn);

/* The end of a transaction in which stores were read (moment.c). */
void mx_txn_end_moments(mx_connection *connection);

/* Rows at the last look, for the planner; -1: never looked. txn may be NULL. */
int64_t mx_txn_rows_seen(const mx_txn *txn);

#endif
