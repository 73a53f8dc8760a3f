/* share.h: one engine per store in this process.
**
** Stores are told apart by device and inode of their folder, so two spellings of a path meet in one
** engine. */
#ifndef MX_SHARE_H
#define MX_SHARE_H

#include <sqlite3ext.h>

#include "db.h"

SQLITE_EXTENSION_INIT3

typedef struct mx_store mx_store;

/* Opens the store in the folder path, or joins the engine that this process has open on it already;
** then the options of the first opener stay in force, but for read_only: whoever may write gets an
** engine that can. expected: the identity it must have, NULL:
** any. ephemeral: the folder is removed when the last user closes it. SQLITE_OK: *store is the
** caller's, mx_store_close. Else an extended code and *error, words ("memwal: ...") to free with
** sqlite3_free. May be called by any thread. */
int mx_store_open(const char *path, const mw_options *options, const mw_store_id *expected,
                  bool ephemeral, mx_store **store, char **error);

/* For a store that is open read-only: the engine that may write, if this process has it open by now,
** with one use for the caller; NULL: there is none. */
mx_store *mx_store_join_writer(mx_store *store);
bool mx_store_is_read_only(const mx_store *store);

/* Gives one use back; the last one closes the engine. Takes NULL. Closing has no voice in SQLite,
** so a failure is kept and the next mx_store_open of the same folder reports it, once. */
void mx_store_close(mx_store *store);

/* Removes the files of a store that nobody has open, in this process or another, and keeps this
** process from opening it meanwhile. MW_BUSY: somebody has it open. One that is not there is no
** failure. */
mw_rc mx_store_remove(const char *path, mw_err *err) MW_MUST_USE;

/* Held by whoever changes options, from the engine to the shadow table: two connections that change
** one option at once must leave both with the same value. False after ten seconds: who holds it
** may itself be waiting for a lock of the caller. */
bool mx_store_settings_lock(mx_store *store);
void mx_store_settings_unlock(mx_store *store);

mw_db *mx_store_db(mx_store *store); /* borrowed until mx_store_close */

#endif
