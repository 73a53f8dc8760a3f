/* options.h: the options of CREATE VIRTUAL TABLE and memwal_set, key = value. */
#ifndef MX_OPTIONS_H
#define MX_OPTIONS_H

#include "args.h"

/* Sets option key to value (dequoted). seen: bits of the options set before, 0 at first; an option
** given twice is refused. SQLITE_OK, or a code and *error. */
int mx_options_set(mx_args *args, const char *key, const char *value, unsigned *seen, char **error);

/* The same for an option that may be changed later; then *name is its name in the table of
** options. What cannot be taken leaves `in` as it was. */
int mx_options_change(mw_options *in, const char *key, const char *value, const char **name,
                      char **error);

/* Makes the present value of such an option, as one would write it, the function's result. */
void mx_options_show(sqlite3_context *context, const char *name, const mw_options *from);

#endif
