/* check.h: proves every rule of the format on what is there (mw_db_check in db.h). */
#ifndef MW_CHECK_H
#define MW_CHECK_H

#include "store.h"

/* Calls each(arg, line) per fault; *faults counts them. Takes the turn for a moment. */
typedef void (*mw_check_line)(void *arg, const char *line);
mw_rc mw_check_run(mw_store *store, mw_check_line each, void *arg, uint32_t *faults,
                   mw_err *err) MW_MUST_USE;

#endif
