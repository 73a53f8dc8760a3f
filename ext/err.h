/* err.h: the engine's failures in SQLite's codes and words. */
#ifndef MX_ERR_H
#define MX_ERR_H

#include <sqlite3ext.h>

#include "status.h"

SQLITE_EXTENSION_INIT3

/* The extended SQLite code for a code of the engine. */
int mx_err_code_of(mw_rc rc);
int mx_err_code(const mw_err *err);

/* "memwal: ..." and the words of err; the caller's, sqlite3_free. NULL: no memory. Files have names of
** 40 digits, the same in all stores: folder, that of the store, is told with them (NULL: it is not
** known). */
char *mx_err_text(const mw_err *err, const char *folder);

/* Puts the words into the table's zErrMsg and returns mx_err_code(err). Requires that vtab is the base
** of an mx_vtab. */
int mx_err_vtab(sqlite3_vtab *vtab, const mw_err *err);

/* The same for failures born in the glue; "memwal: " is put before the words. Returns code. */
int mx_err_set(sqlite3_vtab *vtab, int code, const char *format, ...) MW_PRINTF(3, 4);

/* For callers without a table: words go to *error (an older text there is freed). Returns code. */
int mx_err_put(char **error, int code, const char *format, ...) MW_PRINTF(3, 4);
int mx_err_give(char **error, const mw_err *err);
int mx_err_give_in(char **error, const char *folder, const mw_err *err); /* as mx_err_text */

#endif
