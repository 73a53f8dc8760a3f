/* vtab.h: tables come and go. */
#ifndef MX_VTAB_H
#define MX_VTAB_H

#include "internal.h"

/* Is a table that was created or dropped in this transaction there, under whatever name? Requires its
** mark. Returns a SQLite code. */
int mx_vtab_look(const mx_vtab *vtab, bool *listed);
/* The same, false only when it is certain. */
bool mx_vtab_is_listed(const mx_vtab *vtab);

#endif
