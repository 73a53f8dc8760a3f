/* find.h: memwal tables by name (mx_vtab_find stands in internal.h). */
#ifndef MX_FIND_H
#define MX_FIND_H

#include "internal.h"

/* Gives up what looking keeps, if the connection has no table any more. */
void mx_find_forget(mx_connection *connection);

#endif
