/* value.h: typed values, and rows of them as bytes.
**
** A row holds the columns outside the key, in schema order: for each a varint tag, then, behind all
** tags, the bodies in the same order. Tags: 0 NULL; 1..8 an integer of that many bytes
** (little-endian, sign-extended); 9 the integer 0; 10 a real (8 bytes, IEEE 754 little-endian);
** 11 + 2n a text of n bytes; 12 + 2n a blob of n bytes. Log entries and memtables hold rows so. */
#ifndef MW_VALUE_H
#define MW_VALUE_H

#include "buf.h"

typedef enum mw_type {
    MW_NULL = 0,
    MW_INTEGER = 1,
    MW_REAL = 2,
    MW_TEXT = 3,
    MW_BLOB = 4,
} mw_type;

typedef struct mw_value {
    mw_type type;
    int64_t integer; /* MW_INTEGER                                             */
    double real;     /* MW_REAL                                                */
    mw_slice bytes;  /* MW_TEXT (no terminator), MW_BLOB; borrowed             */
} mw_value;

/* Appends the row of count values; a failed allocation sticks in the buffer. */
void mw_row_encode(mw_buf *buf, const mw_value *values, uint32_t count);

/* Column index (from 0) of a row of count columns. value->bytes is borrowed from row. corrupt when
** the row's lengths do not fit together. */
mw_rc mw_row_column(mw_slice row, uint32_t count, uint32_t index, mw_value *value,
                    mw_err *err) MW_MUST_USE;

/* All columns at once. values: room for count. */
mw_rc mw_row_decode(mw_slice row, uint32_t count, mw_value *values, mw_err *err) MW_MUST_USE;

/* Is it a row of count columns, with values that can be stored? For whoever takes rows from a file
** without decoding them. */
bool mw_row_whole(mw_slice row, uint32_t count);

bool mw_value_equal(const mw_value *a, const mw_value *b);

/* SQLite's order between values of any type: NULL, numbers, text, blob; BINARY inside texts. NaN is
** never stored (SQLite makes it NULL). Integers and reals compare exactly. */
int mw_value_compare(const mw_value *a, const mw_value *b);

#endif
