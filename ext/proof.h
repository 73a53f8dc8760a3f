/* proof.h: is a transaction one statement that changes one table of ours, and nothing else? */
#ifndef MX_PROOF_H
#define MX_PROOF_H

#include "internal.h"

typedef struct mx_proof {
    sqlite3_stmt *statement; /* the only one under way that can write, NULL: not in autocommit mode,
                             ** or there are several. Never used but while it is under way       */
    sqlite3_int64 changes;   /* of the connection when it began */
} mx_proof;

/* In xBegin of the first table that the transaction changes. */
mx_proof mx_proof_begin(sqlite3 *db);
/* In xSync of that table. */
bool mx_proof_holds(const mx_proof *proof, const mx_vtab *vtab);
/* Frees what is kept of the statement that was proven last. */
void mx_proof_forget(mx_connection *connection);

#endif
