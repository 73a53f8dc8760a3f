/* connection.h: one record per sqlite3*. */
#ifndef MX_CONNECTION_H
#define MX_CONNECTION_H

#include "internal.h"

/* The record of a connection, with one reference; known to mx_connection_of until the last one is
** given back. NULL: out of memory. */
mx_connection *mx_connection_new(sqlite3 *db);
mx_connection *mx_connection_ref(mx_connection *connection);

/* Was it made before a fork, so that this process may only forget it? */
bool mx_connection_is_forked(const mx_connection *connection);

#endif
