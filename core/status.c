/* status.c: the birth of every failure. */
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *mw_rc_text(mw_rc rc)
{
    switch (rc) {
#define MW_RC_CASE(name, number, text) \
    case name: return text;
        MW_RC_LIST(MW_RC_CASE)
#undef MW_RC_CASE
    }
    return "unknown code";
}

/* Claims err for this failure; false when an earlier one holds it, or there is none to fill. */
static bool claim(mw_err *err, mw_rc rc, int sys)
{
    assert(rc != MW_OK);
    if (!err || err->rc != MW_OK) return false;
    err->rc = rc;
    err->sys = sys;
    return true;
}

mw_rc mw_fail(mw_err *err, mw_rc rc, const char *format, ...)
{
    if (claim(err, rc, 0)) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return rc;
}

static mw_rc rc_of_sys(int sys)
{
    switch (sys) {
    case ENOMEM: return MW_NOMEM;
    case ENOSPC:
    case EFBIG: /* a limit for files (ulimit -f), or the file system's own */
    case EDQUOT: return MW_FULL;
    case ENOENT: return MW_MISSING;
    case EEXIST: return MW_EXISTS;
    default: return MW_IO;
    }
}

mw_rc mw_fail_sys(mw_err *err, int sys, const char *call, const char *name)
{
    mw_rc rc = rc_of_sys(sys);
    if (claim(err, rc, sys)) {
        char room[96];
        const char *reason = strerror_r(sys, room, sizeof room); /* the GNU one: always a text */
        const char *advice = "";
        if (sys == EMFILE) advice = " in this process: close some, or raise its limit (ulimit -n)";
        if (sys == ENOTDIR) advice = ": it or a part of its path is a file, expected a folder";
        if (sys == ENFILE) advice = ": raise fs.file-max";
        snprintf(err->text, sizeof err->text, "%s of %s failed: %s%s", call, name, reason, advice);
    }
    return rc;
}

mw_rc mw_fail_disk(mw_err *err, const char *file, uint64_t offset, const char *format, ...)
{
    if (claim(err, MW_CORRUPT, 0)) {
        int used = snprintf(err->text, sizeof err->text, "%s, offset %llu: ", file,
                            (unsigned long long)offset);
        if (used > 0 && (size_t)used < sizeof err->text) {
            va_list args;
            va_start(args, format);
            vsnprintf(err->text + used, sizeof err->text - (size_t)used, format, args);
            va_end(args);
        }
    }
    return MW_CORRUPT;
}

mw_rc mw_fail_as(mw_err *err, const mw_err *cause)
{
    mw_rc rc = mw_fail(err, cause->rc, "%s", cause->text);
    if (err && err->rc == cause->rc && err->sys == 0) err->sys = cause->sys;
    return rc;
}
