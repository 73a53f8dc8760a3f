/* key.c: lists of values as keys (FORMAT.md, "Keys").
**
**     number   01 | 8 bytes: the greatest double at or below it | 2 bytes: what it is above that
**     text     02 | its bytes, 00 as 00 FF | 00 00
**     blob     03 | its bytes, 00 as 00 FF | 00 00
**
** The double has its bits turned so that they order as unsigned big-endian bytes: all of them for
** negative ones, the sign alone for others. Only doubles from 2^53 to 2^63 can have an integer
** between them and the next one, so only these are followed by the rest. The last value of a key
** ends with it: its text or blob stands as it is, without an end mark.
**
** Why the order is right: tags order the types; of two numbers the one with the lower double is
** lower, and equal doubles agree on whether a rest follows; an end mark is below every byte that
** could go on in its place. No encoding of a value that is not the last one is the beginning of
** another one's, so the next values are compared only when these are equal.
**
** Why not the integer as it is, with a tag of its own: 1 and 1.0 would be two keys. */
#include "key.h"

#include "coding.h"

#include <string.h>

enum {
    TAG_NUMBER = 1,
    TAG_TEXT = 2,
    TAG_BLOB = 3,
    TAG_ABOVE = 0xff,
    END_MARK = 0,
    REAL_ZERO = 0xff, /* behind a 00 that is part of the bytes */
    REST_BYTES = 2,
    REST_LIMIT = 1024, /* doubles below 2^63 stand at most this far apart */
};

static const uint64_t SIGN = (uint64_t)1 << 63;

/* ---- numbers -------------------------------------------------------------------------------- */

static uint64_t order_of(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits & SIGN ? ~bits : bits | SIGN;
}

static double real_of(uint64_t order)
{
    uint64_t bits = order & SIGN ? order & ~SIGN : ~order;
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* Is there an int64 between this double and the next one? */
static bool has_rest(double real)
{
    if (real < 0) return real >= -9223372036854775808.0 && real <= -9007199254740992.0;
    return real >= 9007199254740992.0 && real < 9223372036854775808.0;
}

/* The greatest double at or below an integer. Conversion takes the nearest one, which may be the
** next above; that may be 2^63, which is no int64. */
static double floor_of(int64_t integer)
{
    double real = (double)integer;
    bool above = real >= 9223372036854775808.0 || (int64_t)real > integer;
    return above ? real_of(order_of(real) - 1) : real;
}

static void put_number(mw_buf *buf, const mw_value *value)
{
    uint8_t bytes[1 + 8 + REST_BYTES] = {TAG_NUMBER};
    double real = value->real;
    uint64_t rest = 0;
    if (value->type == MW_INTEGER) {
        real = floor_of(value->integer);
        rest = (uint64_t)value->integer - (uint64_t)(int64_t)real;
    }
    assert(real == real && rest < REST_LIMIT);
    uint64_t order = order_of(real == 0 ? 0.0 : real); /* -0.0 as well */
    for (int i = 0; i < 8; i++) bytes[1 + i] = (uint8_t)(order >> (56 - 8 * i));
    bytes[9] = (uint8_t)(rest >> 8);
    bytes[10] = (uint8_t)rest;
    mw_buf_put(buf, bytes, has_rest(real) ? sizeof bytes : sizeof bytes - REST_BYTES);
}

/* False: no encoding. */
static bool get_integer(double real, mw_scan *scan, int64_t *integer)
{
    uint64_t high = has_rest(real) ? mw_scan_u8(scan) : 0;
    uint64_t rest = has_rest(real) ? high << 8 | mw_scan_u8(scan) : 0;
    if (scan->failed || rest >= REST_LIMIT) return false;
    *integer = (int64_t)((uint64_t)(int64_t)real + rest);
    return order_of(floor_of(*integer)) == order_of(real);
}

static bool get_number(mw_scan *scan, mw_value *value)
{
    uint64_t order = 0;
    for (int i = 0; i < 8; i++) order = order << 8 | mw_scan_u8(scan);
    double real = real_of(order);
    if (scan->failed || real != real || (real == 0 && order != order_of(0.0))) return false;
    bool integral = real >= -9223372036854775808.0 && real < 9223372036854775808.0 &&
                    (double)(int64_t)real == real;
    *value = (mw_value){.type = integral ? MW_INTEGER : MW_REAL};
    if (integral) return get_integer(real, scan, &value->integer);
    value->real = real;
    return true;
}

/* ---- texts and blobs ------------------------------------------------------------------------ */

static void put_marked(mw_buf *buf, mw_slice bytes)
{
    static const uint8_t zero[] = {END_MARK, REAL_ZERO};
    static const uint8_t end[] = {END_MARK, END_MARK};
    while (bytes.size > 0) {
        const uint8_t *at = memchr(bytes.data, END_MARK, bytes.size);
        size_t plain = at ? (size_t)(at - bytes.data) : bytes.size;
        mw_buf_put(buf, bytes.data, plain);
        if (!at) break;
        mw_buf_put(buf, zero, sizeof zero);
        bytes = mw_slice_of(at + 1, bytes.size - plain - 1);
    }
    mw_buf_put(buf, end, sizeof end);
}

/* What stands before the next 00 and the byte behind that. False when there is none. */
static bool get_piece(mw_scan *scan, mw_slice *piece, uint8_t *mark)
{
    size_t left = mw_scan_left(scan);
    const uint8_t *at = left > 0 ? memchr(scan->at, END_MARK, left) : NULL;
    if (!at) return false;
    *piece = mw_scan_take(scan, (uint64_t)(at - scan->at));
    (void)mw_scan_u8(scan);
    *mark = mw_scan_u8(scan);
    return !scan->failed && (*mark == END_MARK || *mark == REAL_ZERO);
}

/* Bytes without a zero stay where they are; others are put together in texts, in which there is
** room for all of the key. */
static bool get_marked(mw_scan *scan, mw_buf *texts, mw_slice *bytes)
{
    uint8_t mark = 0;
    size_t start = texts->size;
    if (!get_piece(scan, bytes, &mark)) return false;
    if (mark == END_MARK) return true;
    while (mark == REAL_ZERO) {
        mw_buf_put_slice(texts, *bytes);
        mw_buf_u8(texts, 0);
        if (!get_piece(scan, bytes, &mark)) return false;
    }
    mw_buf_put_slice(texts, *bytes);
    *bytes = mw_slice_of(texts->data + start, texts->size - start);
    return true;
}

/* ---- keys ----------------------------------------------------------------------------------- */

void mw_key_encode(mw_buf *buf, const mw_value *values, uint32_t count, uint32_t columns)
{
    assert(count <= columns);
    for (uint32_t i = 0; i < count; i++) {
        const mw_value *value = &values[i];
        assert(value->type != MW_NULL);
        if (value->type == MW_INTEGER || value->type == MW_REAL) {
            put_number(buf, value);
            continue;
        }
        mw_buf_u8(buf, value->type == MW_TEXT ? TAG_TEXT : TAG_BLOB);
        if (i + 1 == columns) {
            mw_buf_put_slice(buf, value->bytes);
        } else {
            put_marked(buf, value->bytes);
        }
    }
}

static bool get_value(mw_scan *scan, bool last, mw_buf *texts, mw_value *value)
{
    uint8_t tag = mw_scan_u8(scan);
    if (tag == TAG_NUMBER) return get_number(scan, value);
    if (tag != TAG_TEXT && tag != TAG_BLOB) return false;
    *value = (mw_value){.type = tag == TAG_TEXT ? MW_TEXT : MW_BLOB};
    if (!last) return get_marked(scan, texts, &value->bytes);
    value->bytes = mw_scan_take(scan, mw_scan_left(scan));
    return true;
}

mw_rc mw_key_decode(mw_slice key, uint32_t columns, mw_value *values, mw_buf *texts, mw_err *err)
{
    mw_scan scan = mw_scan_of(key);
    mw_buf_clear(texts);
    /* All at once: what grew later would move, and values point into it. */
    if (columns > 1 && !mw_buf_reserve(texts, key.size)) return mw_buf_check(texts, err);
    for (uint32_t i = 0; i < columns; i++) {
        if (get_value(&scan, i + 1 == columns, texts, &values[i])) continue;
        return mw_fail(err, MW_CORRUPT, "a key of %zu bytes has no value %u of %u before byte %zu",
                       key.size, i + 1, columns, key.size - mw_scan_left(&scan));
    }
    if (mw_scan_left(&scan) == 0) return MW_OK;
    return mw_fail(err, MW_CORRUPT, "a key of %zu bytes goes on behind its %u values", key.size,
                   columns);
}

void mw_key_put_least(mw_buf *buf, mw_type type)
{
    mw_buf_u8(buf, type == MW_BLOB ? TAG_BLOB : type == MW_TEXT ? TAG_TEXT : TAG_NUMBER);
}

void mw_key_put_above(mw_buf *buf) { mw_buf_u8(buf, TAG_ABOVE); }
