/* settings.h: options that were changed by memwal_set, and where they are kept. */
#ifndef MX_SETTINGS_H
#define MX_SETTINGS_H

#include "internal.h"

/* Before the table's store is opened: what was set goes over the options of CREATE. Returns a
** SQLite code; *error: sqlite3_free. */
int mx_settings_load(mx_vtab *vtab, char **error);

/* One change that memwal_set asks for. */
typedef struct mx_setting {
    const char *key;
    const char *value;
    const char *name;  /* filled in: of the option */
    mw_options before; /* filled in                */
} mx_setting;

/* Changes the option in the open store and in the table's shadow table: both or neither. Requires
** that the table's store is open. */
int mx_settings_set(mx_vtab *vtab, mx_setting *setting, char **error);

#endif
