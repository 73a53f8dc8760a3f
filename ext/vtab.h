/* vtab.h: tables come and go. */
#ifndef MX_VTAB_H
#define MX_VTAB_H

#include "internal.h"

/* Is a table that was created in this transaction still there, under whatever name? False only when
** it is certain: the CREATE was undone. */
bool mx_vtab_is_listed(const mx_vtab *vtab);

#endif
