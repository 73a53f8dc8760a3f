/* value.c: typed values, and rows of them as bytes.
**
**     | tag of column 0 | tag of 1 | ... | body of column 0 | body of 1 | ...
**
** All tags come first, so that finding a column walks over a few adjacent bytes and never over the
** bodies. A walk always goes over all tags: the bodies begin behind the last one. Having them all,
** it proves that the bodies fill the row exactly. */
#include "value.h"

#include "coding.h"

#include <math.h>
#include <string.h>

enum {
    TAG_NULL = 0,
    /* 1 to 8: an integer of that many bytes */
    TAG_ZERO = 9,
    TAG_REAL = 10,
    TAG_BYTES = 11, /* and up: odd text, even blob, twice the length above */
};

/* Where the walk over the tags has found a column. */
typedef struct place {
    uint64_t tag;
    uint64_t offset; /* of its body, from the first body */
} place;

/* Size of the body behind a tag of one byte. A table, because the types of a row are mixed: every
** branch over them would be a guess, and a point read walks over all columns. */
static const uint8_t SHORT_BODY_BYTES[128] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  0,  8,  0,  0,  1,  1,  2,  2,  3,  3,  4,  4,  5,
    5,  6,  6,  7,  7,  8,  8,  9,  9,  10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16,
    16, 17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 22, 22, 23, 23, 24, 24, 25, 25, 26, 26, 27,
    27, 28, 28, 29, 29, 30, 30, 31, 31, 32, 32, 33, 33, 34, 34, 35, 35, 36, 36, 37, 37, 38,
    38, 39, 39, 40, 40, 41, 41, 42, 42, 43, 43, 44, 44, 45, 45, 46, 46, 47, 47, 48, 48, 49,
    49, 50, 50, 51, 51, 52, 52, 53, 53, 54, 54, 55, 55, 56, 56, 57, 57, 58,
};

static inline uint64_t body_bytes(uint64_t tag)
{
    if (tag < sizeof SHORT_BODY_BYTES) return SHORT_BODY_BYTES[tag];
    return (tag - TAG_BYTES) / 2;
}

static uint32_t integer_bytes(int64_t value)
{
    uint64_t magnitude = value < 0 ? ~(uint64_t)value : (uint64_t)value;
    uint32_t bytes = 1;
    while (bytes < 8 && magnitude >> (8 * bytes - 1)) bytes++;
    return bytes;
}

static uint64_t tag_of(const mw_value *value)
{
    switch (value->type) {
    case MW_NULL: return TAG_NULL;
    case MW_INTEGER: return value->integer == 0 ? TAG_ZERO : integer_bytes(value->integer);
    case MW_REAL: return TAG_REAL;
    case MW_TEXT: return TAG_BYTES + 2 * (uint64_t)value->bytes.size;
    case MW_BLOB: return TAG_BYTES + 1 + 2 * (uint64_t)value->bytes.size;
    }
    return TAG_NULL;
}

static uint64_t real_bits(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

static void put_body(mw_buf *buf, const mw_value *value)
{
    uint8_t bytes[8];
    switch (value->type) {
    case MW_INTEGER:
        if (value->integer == 0) return;
        mw_put_u64(bytes, (uint64_t)value->integer);
        mw_buf_put(buf, bytes, integer_bytes(value->integer));
        return;
    case MW_REAL: mw_buf_u64(buf, real_bits(value->real)); return;
    case MW_TEXT:
    case MW_BLOB: mw_buf_put_slice(buf, value->bytes); return;
    case MW_NULL: return;
    }
}

void mw_row_encode(mw_buf *buf, const mw_value *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) mw_buf_varint(buf, tag_of(&values[i]));
    for (uint32_t i = 0; i < count; i++) put_body(buf, &values[i]);
}

/* An integer of 1 to 8 bytes at p; end: of the row. */
static int64_t get_integer(const uint8_t *p, const uint8_t *end, uint32_t bytes)
{
    uint32_t spare = 64 - 8 * bytes;
    uint64_t bits = 0;
    if (end - p >= 8) {
        bits = mw_get_u64(p); /* one load; the foreign bytes are shifted out */
    } else {
        for (uint32_t i = 0; i < bytes; i++) bits |= (uint64_t)p[i] << (8 * i);
    }
    return (int64_t)(bits << spare) >> spare;
}

/* Fills value from a body that is known to lie inside the row. */
static void get_body(uint64_t tag, const uint8_t *body, const uint8_t *end, mw_value *value)
{
    *value = (mw_value){.type = MW_NULL};
    if (tag >= TAG_BYTES) {
        value->type = (tag - TAG_BYTES) % 2 ? MW_BLOB : MW_TEXT;
        value->bytes = mw_slice_of(body, (size_t)body_bytes(tag));
    } else if (tag == TAG_REAL) {
        uint64_t bits = mw_get_u64(body);
        value->type = MW_REAL;
        memcpy(&value->real, &bits, sizeof bits);
    } else if (tag != TAG_NULL) {
        value->type = MW_INTEGER;
        value->integer = tag == TAG_ZERO ? 0 : get_integer(body, end, (uint32_t)tag);
    }
}

static inline uint64_t next_tag(mw_scan *scan)
{
    if (scan->at < scan->end && *scan->at < 0x80) return *scan->at++;
    return mw_scan_varint(scan);
}

static mw_rc fail_row(mw_slice row, uint32_t count, mw_err *err)
{
    return mw_fail(err, MW_CORRUPT, "a row of %zu bytes does not hold %u columns", row.size, count);
}

/* Walks over all tags. *bodies: where the bodies begin. Each length is held against the row before
** it is added, so the sum of 32-bit many of them stays far from 2^64. */
static inline bool walk_tags(mw_slice row, uint32_t count, uint32_t index, place *found,
                             const uint8_t **bodies)
{
    mw_scan scan = mw_scan_of(row);
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t tag = next_tag(&scan);
        uint64_t bytes = body_bytes(tag);
        if (i == index) *found = (place){tag, total};
        if (bytes > row.size) return false;
        total += bytes;
    }
    *bodies = scan.at;
    return !scan.failed && total == mw_scan_left(&scan);
}

mw_rc mw_row_column(mw_slice row, uint32_t count, uint32_t index, mw_value *value, mw_err *err)
{
    assert(index < count);
    const uint8_t *bodies = NULL;
    place found = {0, 0};
    if (!walk_tags(row, count, index, &found, &bodies)) return fail_row(row, count, err);
    get_body(found.tag, bodies + found.offset, row.data + row.size, value);
    return MW_OK;
}

mw_rc mw_row_decode(mw_slice row, uint32_t count, mw_value *values, mw_err *err)
{
    const uint8_t *bodies = NULL;
    place none = {0, 0};
    if (!walk_tags(row, count, count, &none, &bodies)) return fail_row(row, count, err);
    mw_scan scan = mw_scan_of(row);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t tag = next_tag(&scan);
        get_body(tag, bodies, row.data + row.size, &values[i]);
        bodies += body_bytes(tag);
    }
    return MW_OK;
}

bool mw_row_whole(mw_slice row, uint32_t count)
{
    const uint8_t *body = NULL;
    place none = {0, 0};
    if (!walk_tags(row, count, count, &none, &body)) return false;
    mw_scan scan = mw_scan_of(row);
    for (uint32_t i = 0; i < count; i++) {
        mw_value value = {.type = MW_NULL};
        uint64_t tag = next_tag(&scan);
        if (tag == TAG_REAL) get_body(tag, body, row.data + row.size, &value);
        if (value.type == MW_REAL && isnan(value.real)) return false;
        body += body_bytes(tag);
    }
    return true;
}

bool mw_value_equal(const mw_value *a, const mw_value *b)
{
    if (a->type != b->type) return false;
    switch (a->type) {
    case MW_NULL: return true;
    case MW_INTEGER: return a->integer == b->integer;
    case MW_REAL: return real_bits(a->real) == real_bits(b->real); /* -0.0 is not 0.0 */
    case MW_TEXT:
    case MW_BLOB: return mw_slice_equal(a->bytes, b->bytes);
    }
    return false;
}

static int rank(mw_type type)
{
    return type == MW_NULL ? 0 : type <= MW_REAL ? 1 : type == MW_TEXT ? 2 : 3;
}

static int compare_reals(double a, double b)
{
    return a < b ? -1 : a > b;
}

/* Exact where converting either way would round: by whole parts first, as integers, and only for
** equal ones by the fraction (SQLite's sqlite3IntFloatCompare does the same). */
static int compare_integer_real(int64_t integer, double real)
{
    if (!(real >= -9223372036854775808.0)) return 1; /* a NaN too: it counts as NULL */
    if (real >= 9223372036854775808.0) return -1;
    int64_t whole = (int64_t)real;
    if (integer != whole) return integer < whole ? -1 : 1;
    return compare_reals((double)whole, real);
}

static int compare_numbers(const mw_value *a, const mw_value *b)
{
    if (a->type == MW_INTEGER && b->type == MW_INTEGER) {
        return a->integer < b->integer ? -1 : a->integer > b->integer;
    }
    if (a->type == MW_REAL && b->type == MW_REAL) return compare_reals(a->real, b->real);
    if (a->type == MW_INTEGER) return compare_integer_real(a->integer, b->real);
    return -compare_integer_real(b->integer, a->real);
}

int mw_value_compare(const mw_value *a, const mw_value *b)
{
    int rank_a = rank(a->type);
    int rank_b = rank(b->type);
    if (rank_a != rank_b) return rank_a < rank_b ? -1 : 1;
    if (rank_a == 0) return 0;
    if (rank_a == 1) return compare_numbers(a, b);
    return mw_slice_compare(a->bytes, b->bytes);
}
