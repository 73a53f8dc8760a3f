/* row.h: SQLite's values and the engine's. */
#ifndef MX_ROW_H
#define MX_ROW_H

#include "coding.h"
#include "internal.h"
#include "key.h"

/* A row's key as the engine wants it. */
typedef struct mx_key {
    mw_slice slice; /* into integer, or borrowed from the SQL value or one of the table's buffers */
    int64_t number;                         /* MW_KEY_INTEGER                               */
    uint8_t integer[MW_INTEGER_KEY_BYTES];
} mx_key;

/* What an ordinary table would keep of value in a column of this affinity. to->bytes is borrowed
** from value until SQLite changes that. SQLITE_OK or SQLITE_NOMEM. */
int mx_row_value(sqlite3_value *value, char affinity, mw_value *to);

/* Sets *exact when value, as it would be stored in an INTEGER column, is an integer. */
int mx_row_integer(sqlite3_value *value, int64_t *number, bool *exact);

void mx_key_of_integer(mx_key *key, int64_t number);

/* The key that value stands for, where that is of one kind: MW_KEY_INTEGER, MW_KEY_TEXT. *fits is
** false when no such key can be made of it: NULL, a text that is no integer, a blob. */
int mx_key_of_value(mw_key_kind kind, sqlite3_value *value, mx_key *key, bool *fits);

/* Encoded keys hold numbers by their value: 1, 1.0 and the like are one key. What an ordinary table
** gives back, the integer or the real, is therefore kept beside the key, in the first column of the
** store: NULL when all of its numbers are canonical (key.h), else a blob of one byte for each value
** of the key: 0 canonical, 1 the real, 2 the real -0.0. Only tables that need it have that column;
** texts have one form, and in a REAL column every number is a real. */
bool mx_key_has_forms(const mx_args *args);
/* The forms of values, put together in bytes. SQLITE_OK or SQLITE_NOMEM. */
int mx_key_forms(const mx_args *args, const mw_value *values, mw_buf *bytes, mw_value *forms);
/* May this canonical value stand for another one? Else forms need not be looked at. */
bool mx_key_is_open(const mx_column *column, const mw_value *value);
/* From the canonical value at a place of the key to the one that was stored. forms: NULL where it is
** not open. corrupt when they do not fit together. */
mw_rc mx_key_value(const mx_args *args, int part, const mw_value *forms, mw_value *value,
                   mw_err *err) MW_MUST_USE;

/* Gives a value to SQLite, which copies it. */
void mx_row_result(sqlite3_context *context, const mw_value *value);

#endif
