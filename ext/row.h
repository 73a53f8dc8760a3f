/* row.h: SQLite's values and the engine's. */
#ifndef MX_ROW_H
#define MX_ROW_H

#include "coding.h"
#include "internal.h"

/* A row's key as the engine wants it. */
typedef struct mx_key {
    mw_slice slice;                         /* into integer, or borrowed from the SQL value */
    int64_t number;                         /* MW_KEY_INTEGER                               */
    uint8_t integer[MW_INTEGER_KEY_BYTES];
} mx_key;

/* What an ordinary table would keep of value in a column of this affinity. to->bytes is borrowed
** from value until SQLite changes that. SQLITE_OK or SQLITE_NOMEM. */
int mx_row_value(sqlite3_value *value, char affinity, mw_value *to);

/* Sets *exact when value, as it would be stored in an INTEGER column, is an integer. */
int mx_row_integer(sqlite3_value *value, int64_t *number, bool *exact);

void mx_key_of_integer(mx_key *key, int64_t number);

/* The key that value stands for. *fits is false when no key of that kind can be made of it: NULL, a
** text that is no integer, a blob. */
int mx_key_of_value(mw_key_kind kind, sqlite3_value *value, mx_key *key, bool *fits);

/* Gives a value to SQLite, which copies it. */
void mx_row_result(sqlite3_context *context, const mw_value *value);

#endif
