/* proof.h: is a transaction one statement that changes one table of ours, and nothing else? */
#ifndef MX_PROOF_H
#define MX_PROOF_H

#include "internal.h"

typedef struct mx_proof {
    bool simple;           /* the statement cannot change anything else            */
    sqlite3_int64 changes; /* of the connection when it began: nobody else's after */
} mx_proof;

/* In xBegin of the first table that the transaction changes. */
mx_proof mx_proof_begin(const mx_vtab *vtab);
/* In xSync. */
bool mx_proof_holds(const mx_proof *proof, sqlite3 *db);

#endif
