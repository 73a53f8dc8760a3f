/* key.h: lists of values as keys (FORMAT.md, "Keys").
**
** memcmp order of the bytes is SQLite's BINARY order of the lists: value by value, numbers before
** texts before blobs, numbers by their exact value whatever their type. Lists that are equal in
** that order have the same bytes, so 1 and 1.0 are one key. */
#ifndef MW_KEY_H
#define MW_KEY_H

#include "value.h"

/* Appends the first count values of a key of `columns` values; with count < columns that is the
** beginning of every key that begins with them, and of no other. Requires no NULL and no NaN. A
** failed allocation sticks in the buffer. */
void mw_key_encode(mw_buf *buf, const mw_value *values, uint32_t count, uint32_t columns);

/* The values of a whole key. Canonical ones: a number that an int64 holds is an integer. texts is
** room for those that do not stand in the key as they are; values->bytes is borrowed from it and
** from key. corrupt when the bytes are not what encoding makes of any list. */
mw_rc mw_key_decode(mw_slice key, uint32_t columns, mw_value *values, mw_buf *texts,
                    mw_err *err) MW_MUST_USE;

/* Ends of ranges. After the beginning of a key: at or below everything that goes on with a value of
** this type, and above what goes on with a lower one (both numbers are one type here). */
void mw_key_put_least(mw_buf *buf, mw_type type);
/* Above everything that goes on at all. */
void mw_key_put_above(mw_buf *buf);

#endif
