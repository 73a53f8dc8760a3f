/* err.c: one table from the engine's codes to SQLite's.
**
** A code that SQLite acts on is chosen by what SQLite then does (vdbeaux.c, sqlite3VdbeHalt): a
** COMMIT answered by anything but plain BUSY is rolled back, so only "another writer holds the
** store" may be BUSY; IOERR, FULL and NOMEM end the transaction, which is right wherever the engine
** gives them. */
#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

int mx_err_code_of(mw_rc rc)
{
    switch (rc) {
    case MW_OK: return SQLITE_OK;
    case MW_NOMEM: return SQLITE_NOMEM;
    case MW_IO: return SQLITE_IOERR;
    case MW_CORRUPT: return SQLITE_CORRUPT;
    case MW_FULL: return SQLITE_FULL;
    case MW_BUSY: return SQLITE_BUSY;
    case MW_FENCED: return SQLITE_ABORT_ROLLBACK;
    case MW_PERSISTENCE: return SQLITE_IOERR_FSYNC;
    case MW_TOOBIG: return SQLITE_TOOBIG;
    case MW_CLOSED: return SQLITE_ABORT;
    case MW_EXISTS: return SQLITE_ERROR;
    case MW_MISSING: return SQLITE_CANTOPEN;
    case MW_MISMATCH: return SQLITE_CANTOPEN;
    case MW_UNSUPPORTED: return SQLITE_ERROR;
    case MW_INTERRUPTED: return SQLITE_INTERRUPT;
    case MW_MISUSE: return SQLITE_MISUSE;
    case MW_UNDECIDED: return SQLITE_BUSY_RECOVERY;
    }
    return SQLITE_INTERNAL;
}

/* Without a free descriptor the statement fails, as it does where the path is none; the data are as
** well as they were. */
int mx_err_code(const mw_err *err)
{
    bool no_descriptor = err->sys == EMFILE || err->sys == ENFILE;
    bool cannot_open = err->rc == MW_IO && (no_descriptor || err->sys == ENOTDIR);
    return cannot_open ? SQLITE_CANTOPEN : mx_err_code_of(err->rc);
}

/* What the reader of a failure can do, where its words cannot know. */
static const char *advice(mw_rc rc)
{
    switch (rc) {
    case MW_FENCED:
        return "; this commit was definitely not applied: close all connections to the table and "
               "open it again";
    case MW_PERSISTENCE:
        return "; the outcome is unknown: close all connections to the table and open it again to "
               "see what it holds";
    default: return "";
    }
}

/* Words of these codes may name a file. */
static bool is_of_files(mw_rc rc)
{
    return rc == MW_IO || rc == MW_CORRUPT || rc == MW_FULL || rc == MW_PERSISTENCE ||
           rc == MW_MISSING || rc == MW_EXISTS || rc == MW_UNSUPPORTED;
}

char *mx_err_text(const mw_err *err, const char *folder)
{
    const char *words = err->text[0] ? err->text : mw_rc_text(err->rc);
    bool tell = folder && is_of_files(err->rc) && !strstr(words, folder);
    return sqlite3_mprintf("memwal: %s%s%s%s%s", words, tell ? " (in " : "", tell ? folder : "",
                           tell ? ")" : "", advice(err->rc));
}

/* Takes text; without memory for words the code alone must do. */
static void replace_text(char **place, char *text)
{
    sqlite3_free(*place);
    *place = text;
}

int mx_err_vtab(sqlite3_vtab *vtab, const mw_err *err)
{
    replace_text(&vtab->zErrMsg, mx_err_text(err, ((const mx_vtab *)vtab)->path));
    return mx_err_code(err);
}

static void put_words(char **place, const char *format, va_list args)
{
    char *words = sqlite3_vmprintf(format, args);
    replace_text(place, words ? sqlite3_mprintf("memwal: %s", words) : NULL);
    sqlite3_free(words);
}

int mx_err_set(sqlite3_vtab *vtab, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_words(&vtab->zErrMsg, format, args);
    va_end(args);
    return code;
}

int mx_err_put(char **error, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_words(error, format, args);
    va_end(args);
    return code;
}

int mx_err_give(char **error, const mw_err *err) { return mx_err_give_in(error, NULL, err); }

int mx_err_give_in(char **error, const char *folder, const mw_err *err)
{
    replace_text(error, mx_err_text(err, folder));
    return mx_err_code(err);
}
