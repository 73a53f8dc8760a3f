/* options.h: the options of CREATE VIRTUAL TABLE, key = value. */
#ifndef MX_OPTIONS_H
#define MX_OPTIONS_H

#include "args.h"

/* Sets option key to value (dequoted). seen: bits of the options set before, 0 at first; an option
** given twice is refused. SQLITE_OK, or a code and *error. */
int mx_options_set(mx_args *args, const char *key, const char *value, unsigned *seen, char **error);

#endif
