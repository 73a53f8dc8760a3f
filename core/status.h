/* status.h: result codes and the words that go with them.
**
** A fallible function returns an mw_rc and takes a caller-owned mw_err. The first cause wins: an
** mw_err that already holds a failure keeps it. Nothing is allocated on the failure path. */
#ifndef MW_STATUS_H
#define MW_STATUS_H

#include "base.h"

#define MW_RC_LIST(X)                                              \
    X(MW_OK, 0, "ok")                                              \
    X(MW_NOMEM, 1, "out of memory")                                \
    X(MW_IO, 2, "input/output error")                              \
    X(MW_CORRUPT, 3, "file content fails its checks")              \
    X(MW_FULL, 4, "no room")                                       \
    X(MW_BUSY, 5, "another writer holds the store")                \
    X(MW_FENCED, 6, "a newer writer owns this store")              \
    X(MW_PERSISTENCE, 7, "a write or sync of the log failed")      \
    X(MW_TOOBIG, 8, "larger than the documented limit")            \
    X(MW_CLOSED, 9, "the store is closing")                        \
    X(MW_EXISTS, 10, "exists already")                             \
    X(MW_MISSING, 11, "is missing")                                \
    X(MW_MISMATCH, 12, "belongs to something else")                \
    X(MW_UNSUPPORTED, 13, "not built, or made by a newer release") \
    X(MW_INTERRUPTED, 14, "interrupted")                           \
    X(MW_MISUSE, 15, "called out of order")                        \
    X(MW_UNDECIDED, 16, "its database file has to decide first")

typedef enum mw_rc {
#define MW_RC_ENUM(name, number, text) name = number,
    MW_RC_LIST(MW_RC_ENUM)
#undef MW_RC_ENUM
} mw_rc;

enum { MW_ERR_TEXT_BYTES = 480 };

typedef struct mw_err {
    mw_rc rc;                     /* MW_OK until something fails            */
    int sys;                      /* errno of the cause, 0 where there is none */
    char text[MW_ERR_TEXT_BYTES]; /* words, without the prefix "memwal: "   */
} mw_err;

/* The list's text for a code; "unknown code" for a number outside the list. */
const char *mw_rc_text(mw_rc rc);

/* Records a failure and returns rc. Every new failure passes here, so a breakpoint finds its birth.
** Requires rc != MW_OK. err may be NULL. Keeps an earlier failure's words. */
mw_rc mw_fail(mw_err *err, mw_rc rc, const char *format, ...) MW_PRINTF(3, 4);

/* The failure that `cause` holds, with its errno. */
mw_rc mw_fail_as(mw_err *err, const mw_err *cause);

/* The same for a failed call of the environment: sys is its errno value; the code is chosen from it
** (ENOMEM: nomem; ENOSPC, EDQUOT, EFBIG: full; ENOENT: missing; EEXIST: exists; everything else:
** io). The words name the call and the file and end with strerror(sys). */
mw_rc mw_fail_sys(mw_err *err, int sys, const char *call, const char *name);

/* A disk fact that must hold. On failure: corrupt, with file, offset and what was expected and
** found. For use where an mw_rc is returned at once. */
#define MW_CHECK_DISK(condition, err, file, offset, ...)                             \
    do {                                                                             \
        if (!(condition)) return mw_fail_disk((err), (file), (offset), __VA_ARGS__); \
    } while (0)
mw_rc mw_fail_disk(mw_err *err, const char *file, uint64_t offset, const char *format, ...)
    MW_PRINTF(4, 5);

#endif
