/* page.c: column pages, as bytes and ready for use.
**
** A page before compression is one byte that names the encoding, then:
**
**   CONSTANT  u8 type, then the value: nothing, 8 bytes, or all bytes that are left
**   INTEGERS  range: each value
**   DELTAS    u64 first value, range of count - 1: each value less the one before it
**   REALS     range: the bits of each
**   DECIMALS  u8 digits, then an INTEGERS or DELTAS page: each divided by 10^digits
**   TEXTS     lengths; then the bytes, to the end
**   BLOBS     the same
**   SHARED    u8 type; lengths; lengths: how much each shares with the one before; then the bytes
**             that it does not share, to the end
**   FEW       varint how many; numbers: which of them each is; then a page of them, to the end
**   MIXED     u8 types that occur, a bit each; numbers: which of these each is; then, only when
**             there is such a value, a page of the integers, a page of the reals, and the body of
**             TEXTS for texts and blobs together
**
**   numbers   u8 bits, count numbers of as many bits each, lowest first, spare bits 0
**   range     varint scale, u64 least, numbers: value = least + scale * number
**   lengths   u32 least, numbers: value = least + number
**
** Arithmetic is modulo 2^64, so no range of integers is special. The number of rows is known from
** the group's directory, and a page must end exactly where its last part does: a length that lies
** leaves too little or too much.
**
** What a page takes decoded is bounded before it is allocated: 9 bytes a row and the bytes that are
** in it, which are at most its size. Only shared beginnings can be more than what is stored, and
** they are held to what a page of several rows may have. */
#include "page.h"

#include "coding.h"
#include "format.h"
#include "prefix.h"

enum { STEP_BYTES = 8 }; /* what is copied at once where values are short */

/* ---- numbers ------------------------------------------------------------------------------- */

typedef struct decoder {
    const mw_env *env;
    const mw_page_source *source;
    uint32_t rows;
    mw_scan scan; /* behind the encoding byte */
    mw_err *err;
} decoder;

/* Numbers of one width; data is exactly as long as count of them are. */
typedef struct numbers {
    const uint8_t *data;
    size_t size;
    uint8_t bits;
} numbers;

static mw_rc bad_page(const decoder *d, const char *what)
{
    return mw_fail_disk(d->err, d->source->file, d->source->offset, "page of %u rows: %s",
                        (unsigned)d->source->rows, what);
}

static numbers take_numbers(mw_scan *scan, uint32_t count)
{
    numbers taken = {NULL, 0, mw_scan_u8(scan)};
    if (taken.bits > 64) scan->failed = true;
    if (scan->failed || taken.bits == 0) return taken;
    uint64_t bits = (uint64_t)count * taken.bits;
    mw_slice data = mw_scan_take(scan, (bits + 7) / 8);
    taken.data = data.data;
    taken.size = data.size;
    if (bits % 8 && !scan->failed && data.data[data.size - 1] >> bits % 8) scan->failed = true;
    return taken;
}

static uint64_t mask_of(uint8_t bits)
{
    return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

/* The bytes from `from` on as a number, as many as there are, at most 8. */
static uint64_t get_some(const numbers *of, size_t from)
{
    uint64_t some = 0;
    size_t left = of->size - from;
    if (left >= 8) return mw_get_u64(of->data + from);
    for (size_t i = 0; i < left; i++) some |= (uint64_t)of->data[from + i] << 8 * i;
    return some;
}

static uint64_t get_any(const numbers *of, uint32_t i)
{
    uint64_t bit = (uint64_t)i * of->bits;
    size_t byte = (size_t)(bit / 8);
    uint8_t skip = (uint8_t)(bit % 8);
    uint64_t number = get_some(of, byte) >> skip;
    if (skip + of->bits > 64) number |= (uint64_t)of->data[byte + 8] << (64 - skip);
    return number & mask_of(of->bits);
}

/* Number i; quick for the widths that lengths have. */
static inline uint64_t get_number(const numbers *of, uint32_t i)
{
    switch (of->bits) {
    case 0: return 0;
    case 8: return of->data[i];
    case 16: return mw_get_u16(of->data + (size_t)i * 2);
    default: return get_any(of, i);
    }
}

/* All numbers, to[0..count). Those that lie 8 bytes before the end go without any question. */
static void get_numbers(const numbers *of, uint32_t count, uint64_t *to)
{
    uint32_t i = 0;
    const uint8_t *data = of->data;
    const uint64_t mask = of->bits ? mask_of(of->bits) : 0;
    switch (of->bits) {
    case 8:
        for (; i < count; i++) to[i] = data[i];
        break;
    case 16:
        for (; i < count; i++) to[i] = mw_get_u16(data + (size_t)i * 2);
        break;
    case 32:
        for (; i < count; i++) to[i] = mw_get_u32(data + (size_t)i * 4);
        break;
    case 64:
        for (; i < count; i++) to[i] = mw_get_u64(data + (size_t)i * 8);
        break;
    default:
        if (of->bits == 0 || of->bits > 56) break;
        for (uint64_t bit = 0; i < count && bit / 8 + 8 <= of->size; i++, bit += of->bits) {
            to[i] = mw_get_u64(data + bit / 8) >> bit % 8 & mask;
        }
        break;
    }
    for (; i < count; i++) to[i] = get_number(of, i);
}

static void take_range(mw_scan *scan, uint32_t count, uint64_t *to)
{
    uint64_t scale = mw_scan_varint(scan);
    uint64_t least = mw_scan_u64(scan);
    numbers of = take_numbers(scan, count);
    if (scan->failed) return;
    get_numbers(&of, count, to);
    if (scale == 1) {
        for (uint32_t i = 0; i < count; i++) to[i] += least;
    } else {
        for (uint32_t i = 0; i < count; i++) to[i] = least + scale * to[i];
    }
}

static void take_deltas(mw_scan *scan, uint32_t count, uint64_t *to)
{
    to[0] = mw_scan_u64(scan);
    take_range(scan, count - 1, to + 1);
    if (scan->failed) return;
    for (uint32_t i = 1; i < count; i++) to[i] += to[i - 1];
}

const double mw_page_powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
static_assert(sizeof mw_page_powers / sizeof *mw_page_powers == MW_PAGE_DECIMAL_DIGITS + 1,
              "all are there");

/* Integers behind their encoding; at least one. */
static void take_integers(mw_scan *scan, uint8_t encoding, uint32_t count, uint64_t *to)
{
    if (encoding == MW_PAGE_INTEGERS) {
        take_range(scan, count, to);
    } else if (encoding == MW_PAGE_DELTAS) {
        take_deltas(scan, count, to);
    } else {
        scan->failed = true;
    }
}

/* Reals behind their encoding, as bits; at least one. */
static void take_reals(mw_scan *scan, uint8_t encoding, uint32_t count, uint64_t *to)
{
    if (encoding == MW_PAGE_REALS) {
        take_range(scan, count, to);
        return;
    }
    uint8_t digits = mw_scan_u8(scan);
    if (encoding != MW_PAGE_DECIMALS || digits > MW_PAGE_DECIMAL_DIGITS) scan->failed = true;
    if (scan->failed) return;
    take_integers(scan, mw_scan_u8(scan), count, to);
    if (scan->failed) return;
    for (uint32_t i = 0; i < count; i++) {
        to[i] = mw_bits_of_real((double)(int64_t)to[i] / mw_page_powers[digits]);
    }
}

/* ---- pages of one type --------------------------------------------------------------------- */

static mw_page *new_page(const decoder *d, mw_page_shape shape, size_t extra_bytes)
{
    mw_page *page = mw_alloc(d->env, sizeof *page + extra_bytes);
    if (!page) {
        (void)mw_fail(d->err, MW_NOMEM, "out of memory for a page of %s", d->source->file);
        return NULL;
    }
    memset(page, 0, sizeof *page);
    page->shape = shape;
    page->rows = d->rows;
    page->memory_bytes = sizeof *page + extra_bytes;
    return page;
}

static mw_rc decode_constant(decoder *d, mw_page **page)
{
    uint8_t type = mw_scan_u8(&d->scan);
    bool holds_bytes = type == MW_TEXT || type == MW_BLOB;
    uint64_t number = type == MW_INTEGER || type == MW_REAL ? mw_scan_u64(&d->scan) : 0;
    mw_slice rest = mw_scan_take(&d->scan, mw_scan_left(&d->scan));
    if (d->scan.failed || type > MW_BLOB) return bad_page(d, "no known constant");
    if (!holds_bytes && rest.size) return bad_page(d, "bytes are left behind its constant");
    if (!(*page = new_page(d, MW_SHAPE_CONSTANT, rest.size))) return MW_NOMEM;

    mw_value *value = &(*page)->constant;
    uint8_t *bytes = (uint8_t *)(*page + 1);
    if (rest.size) memcpy(bytes, rest.data, rest.size);
    value->type = (mw_type)type;
    if (type == MW_INTEGER) value->integer = (int64_t)number;
    if (type == MW_REAL) value->real = mw_real_of_bits(number);
    if (holds_bytes) value->bytes = mw_slice_of(bytes, rest.size);
    return MW_OK;
}

static mw_rc decode_numbers(decoder *d, uint8_t encoding, mw_page **page)
{
    bool integers = encoding == MW_PAGE_INTEGERS || encoding == MW_PAGE_DELTAS;
    *page = new_page(d, integers ? MW_SHAPE_INTEGERS : MW_SHAPE_REALS, (size_t)d->rows * 8);
    if (!*page) return MW_NOMEM;
    uint64_t *slots = (uint64_t *)(*page + 1);
    (*page)->slots = slots;
    if (integers) {
        take_integers(&d->scan, encoding, d->rows, slots);
    } else {
        take_reals(&d->scan, encoding, d->rows, slots);
    }
    if (d->scan.failed) return bad_page(d, "cut inside its numbers, or they are of no known kind");
    if (mw_scan_left(&d->scan)) return bad_page(d, "bytes are left behind its last number");
    return MW_OK;
}

/* ---- texts and blobs ----------------------------------------------------------------------- */

typedef struct lengths {
    uint64_t least;
    numbers more;
} lengths;

static lengths take_lengths(mw_scan *scan, uint32_t count)
{
    lengths taken = {.least = mw_scan_u32(scan)};
    taken.more = take_numbers(scan, count);
    return taken;
}

/* Length i, when it is at most `left`. A number is compared before it is added to the least: the
** two may pass 2^64 together (C29). */
static bool get_length(const lengths *from, uint32_t i, uint64_t left, uint64_t *length)
{
    uint64_t more = get_number(&from->more, i);
    if (from->least > left || more > left - from->least) return false;
    *length = from->least + more;
    return true;
}

static uint32_t common_bytes(mw_slice a, mw_slice b)
{
    uint32_t n = 0;
    while (n < a.size && n < b.size && a.data[n] == b.data[n]) n++;
    return n;
}

/* In ascending order, what first and last key have in common all keys have. In a page that is not
** in order (its maker computed a checksum over it) a search may miss, but never leaves the page. */
static void fill_starts(mw_page *page, uint64_t *starts)
{
    mw_slice first = mw_page_bytes(page, 0);
    page->common = common_bytes(first, mw_page_bytes(page, page->rows - 1));
    for (uint32_t i = 0; i < page->rows; i++) {
        mw_slice key = mw_page_bytes(page, i);
        size_t skip = key.size < page->common ? key.size : page->common;
        starts[i] = mw_prefix(mw_slice_of(key.data + skip, key.size - skip));
    }
    page->starts = starts;
}

/* A page of so many bytes of texts or blobs; *ends and *bytes are to be filled. */
static mw_page *new_bytes_page(const decoder *d, mw_type type, size_t size, uint32_t **ends,
                               uint8_t **bytes)
{
    size_t starts_bytes = d->source->key ? (size_t)d->rows * 8 : 0;
    size_t ends_bytes = ((size_t)d->rows + 1) * 4;
    mw_page *page = new_page(d, MW_SHAPE_BYTES, starts_bytes + ends_bytes + size);
    if (!page) return NULL;
    uint8_t *starts = (uint8_t *)(page + 1);
    *ends = (uint32_t *)(void *)(starts + starts_bytes);
    *bytes = starts + starts_bytes + ends_bytes;
    (*ends)[0] = 0;
    page->type = type;
    page->ends = *ends;
    page->bytes = *bytes;
    return page;
}

static mw_rc decode_bytes(decoder *d, mw_type type, mw_page **page)
{
    uint32_t *ends;
    uint8_t *bytes;
    lengths from = take_lengths(&d->scan, d->rows);
    mw_slice content = mw_scan_take(&d->scan, mw_scan_left(&d->scan));
    if (d->scan.failed) return bad_page(d, "cut inside its lengths");
    if (!(*page = new_bytes_page(d, type, content.size, &ends, &bytes))) return MW_NOMEM;
    for (uint32_t i = 0; i < d->rows; i++) {
        uint64_t length;
        if (!get_length(&from, i, content.size - ends[i], &length)) {
            return bad_page(d, "a length passes the page's end");
        }
        ends[i + 1] = ends[i] + (uint32_t)length;
    }
    if (ends[d->rows] != content.size) return bad_page(d, "bytes are left behind its last value");
    if (content.size) memcpy(bytes, content.data, content.size);
    return MW_OK;
}

/* What the values of a SHARED page take together. False: more than they may. */
static bool add_lengths(const decoder *d, const lengths *from, uint64_t *total)
{
    uint64_t limit = d->rows == 1 ? MW_PAGE_VALUE_BYTES_MAX : MW_PAGE_BYTES_MAX;
    *total = 0;
    for (uint32_t i = 0; i < d->rows; i++) {
        uint64_t length;
        if (!get_length(from, i, limit - *total, &length)) return false;
        *total += length;
    }
    return true;
}

/* Copies in steps of 8 bytes, so up to 7 more than size: both sides have room for that. */
static inline void copy_steps(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i += STEP_BYTES) {
        uint64_t step;
        memcpy(&step, from + i, sizeof step);
        memcpy(to + i, &step, sizeof step);
    }
}

/* Puts a value behind the one before it. Its length has been checked. What a step copies too much
** lies behind the value, where the next one goes, or at the end the page's spare bytes; what it
** reads too much lies there as well, or in the rests that have not been taken yet. */
static inline bool join_value(mw_scan *rests, size_t length, size_t shared, const uint8_t *before,
                              uint8_t *to)
{
    size_t left = mw_scan_left(rests), rest = length - shared;
    if (rest > left) return false;
    copy_steps(to, before, shared);
    if (left - rest >= STEP_BYTES) {
        copy_steps(to + shared, rests->at, rest);
    } else if (rest) {
        memcpy(to + shared, rests->at, rest);
    }
    rests->at += rest;
    return true;
}

static mw_rc join_values(decoder *d, const lengths *whole, const lengths *shared, mw_page *page,
                         uint32_t *ends)
{
    uint8_t *bytes = (uint8_t *)(uintptr_t)page->bytes;
    uint64_t length_before = 0;
    for (uint32_t i = 0; i < d->rows; i++) {
        uint64_t length = 0, common;
        (void)get_length(whole, i, UINT32_MAX, &length); /* add_lengths went through all */
        if (!get_length(shared, i, mw_min(length, length_before), &common)) {
            return bad_page(d, "a value shares more than there is");
        }
        uint8_t *to = bytes + ends[i];
        if (!join_value(&d->scan, (size_t)length, (size_t)common, to - length_before, to)) {
            return bad_page(d, "a length passes the page's end");
        }
        ends[i + 1] = ends[i] + (uint32_t)length;
        length_before = length;
    }
    if (mw_scan_left(&d->scan)) return bad_page(d, "bytes are left behind its last value");
    return MW_OK;
}

static mw_rc decode_shared(decoder *d, mw_page **page)
{
    uint64_t total;
    uint32_t *ends;
    uint8_t *bytes;
    uint8_t type = mw_scan_u8(&d->scan);
    lengths whole = take_lengths(&d->scan, d->rows);
    lengths shared = take_lengths(&d->scan, d->rows);
    if (d->scan.failed) return bad_page(d, "cut inside its lengths");
    if (type != MW_TEXT && type != MW_BLOB) return bad_page(d, "neither texts nor blobs share");
    if (!add_lengths(d, &whole, &total)) return bad_page(d, "its values are longer than they may be");
    *page = new_bytes_page(d, (mw_type)type, (size_t)total + STEP_BYTES, &ends, &bytes);
    return *page ? join_values(d, &whole, &shared, *page, ends) : MW_NOMEM;
}

/* ---- several types ------------------------------------------------------------------------- */

typedef struct mixed {
    uint32_t counts[MW_BLOB + 1];
    uint64_t *values; /* of rows: the integers, then the reals; the caller's */
    lengths lengths;  /* of texts and blobs */
    mw_slice bytes;
} mixed;

/* The type of each row, from the types that occur and the numbers of them. */
static mw_rc take_types(decoder *d, uint8_t *types, mixed *parts)
{
    uint8_t present[MW_BLOB + 1], present_count = 0, seen = mw_scan_u8(&d->scan);
    for (uint8_t t = 0; t <= MW_BLOB; t++) {
        if (seen >> t & 1) present[present_count++] = t;
    }
    numbers codes = take_numbers(&d->scan, d->rows);
    if (d->scan.failed) return bad_page(d, "cut inside its types");
    if (seen >> (MW_BLOB + 1)) return bad_page(d, "a type that does not exist");
    for (uint32_t i = 0; i < d->rows; i++) {
        uint64_t code = get_number(&codes, i);
        if (code >= present_count) return bad_page(d, "a type that it does not announce");
        types[i] = present[code];
        parts->counts[types[i]]++;
    }
    return MW_OK;
}

static mw_rc take_mixed(decoder *d, mixed *parts)
{
    mw_scan *scan = &d->scan;
    uint32_t integers = parts->counts[MW_INTEGER], reals = parts->counts[MW_REAL];
    uint32_t byte_values = parts->counts[MW_TEXT] + parts->counts[MW_BLOB];
    if (integers) take_integers(scan, mw_scan_u8(scan), integers, parts->values);
    if (reals) take_reals(scan, mw_scan_u8(scan), reals, parts->values + integers);
    if (byte_values) {
        parts->lengths = take_lengths(scan, byte_values);
        parts->bytes = mw_scan_take(scan, mw_scan_left(scan));
    }
    if (scan->failed) return bad_page(d, "cut inside its values");
    if (mw_scan_left(scan)) return bad_page(d, "bytes are left behind its last value");
    return MW_OK;
}

static mw_rc fill_mixed(decoder *d, const mixed *parts, const uint8_t *types, uint64_t *slots)
{
    const uint64_t *integer = parts->values;
    const uint64_t *real = integer + parts->counts[MW_INTEGER];
    uint32_t value = 0;
    uint64_t begin = 0, length;
    for (uint32_t i = 0; i < d->rows; i++) {
        switch ((mw_type)types[i]) {
        case MW_NULL: slots[i] = 0; break;
        case MW_INTEGER: slots[i] = *integer++; break;
        case MW_REAL: slots[i] = *real++; break;
        case MW_TEXT:
        case MW_BLOB:
            if (!get_length(&parts->lengths, value++, parts->bytes.size - begin, &length)) {
                return bad_page(d, "a length passes the page's end");
            }
            slots[i] = begin | length << 32;
            begin += length;
            break;
        }
    }
    if (begin == parts->bytes.size) return MW_OK;
    return bad_page(d, "bytes are left behind its last value");
}

/* A page of rows with a type each; its slots, types and bytes are to be filled. */
static mw_page *new_mixed_page(const decoder *d, size_t size, uint64_t **slots, uint8_t **types)
{
    size_t slots_bytes = (size_t)d->rows * 8;
    mw_page *page = new_page(d, MW_SHAPE_MIXED, slots_bytes + d->rows + size);
    if (!page) return NULL;
    *slots = (uint64_t *)(page + 1);
    *types = (uint8_t *)(page + 1) + slots_bytes;
    page->slots = *slots;
    page->types = *types;
    page->bytes = *types + d->rows;
    return page;
}

static mw_rc make_mixed(decoder *d, mixed *parts, const uint8_t *types, mw_page **page)
{
    uint64_t *slots;
    uint8_t *to_types;
    mw_rc rc = take_mixed(d, parts);
    if (rc) return rc;
    if (!(*page = new_mixed_page(d, parts->bytes.size, &slots, &to_types))) return MW_NOMEM;
    memcpy(to_types, types, d->rows);
    if (parts->bytes.size) memcpy(to_types + d->rows, parts->bytes.data, parts->bytes.size);
    return fill_mixed(d, parts, types, slots);
}

static mw_rc decode_mixed(decoder *d, mw_page **page)
{
    mixed parts = {.bytes = {NULL, 0}};
    /* Values that are gathered by type, and the types: gone when the page is made. */
    parts.values = mw_alloc(d->env, (size_t)d->rows * 9);
    if (!parts.values) {
        return mw_fail(d->err, MW_NOMEM, "out of memory for a page of %s", d->source->file);
    }
    uint8_t *types = (uint8_t *)(parts.values + d->rows);
    mw_rc rc = take_types(d, types, &parts);
    if (rc == MW_OK) rc = make_mixed(d, &parts, types, page);
    mw_free(d->env, parts.values);
    return rc;
}

/* ---- few values ---------------------------------------------------------------------------- */

static mw_rc decode_values(decoder *d, uint8_t encoding, mw_page **page);

/* In place of the index in each slot: the number of that value. */
static void spread_numbers(const mw_page *values, uint64_t *slots, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) slots[i] = values->slots[slots[i]];
}

static void spread_cells(const mw_page *values, uint64_t *slots, uint8_t *types, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t index = slots[i];
        if (values->shape == MW_SHAPE_MIXED) {
            types[i] = values->types[index];
            slots[i] = values->slots[index];
        } else {
            uint64_t begin = values->ends[index];
            types[i] = (uint8_t)values->type;
            slots[i] = begin | (values->ends[index + 1] - begin) << 32;
        }
    }
}

/* The indexes as they are, checked: there are `count` values. */
static mw_rc fill_indexes(const decoder *d, const numbers *indexes, uint32_t count,
                          uint64_t *slots)
{
    get_numbers(indexes, d->rows, slots);
    for (uint32_t i = 0; i < d->rows; i++) {
        if (slots[i] >= count) return bad_page(d, "an index passes its few values");
    }
    return MW_OK;
}

static mw_rc spread(const decoder *d, const numbers *indexes, const mw_page *values,
                    mw_page **page)
{
    uint64_t *slots;
    uint8_t *types = NULL;
    if (values->shape == MW_SHAPE_INTEGERS || values->shape == MW_SHAPE_REALS) {
        *page = new_page(d, values->shape, (size_t)d->rows * 8);
        if (!*page) return MW_NOMEM;
        slots = (uint64_t *)(*page + 1);
        (*page)->slots = slots;
    } else {
        size_t size = values->memory_bytes - (size_t)(values->bytes - (const uint8_t *)values);
        if (!(*page = new_mixed_page(d, size, &slots, &types))) return MW_NOMEM;
        if (size) memcpy(types + d->rows, values->bytes, size);
    }
    mw_rc rc = fill_indexes(d, indexes, values->rows, slots);
    if (rc) return rc;
    if (types) {
        spread_cells(values, slots, types, d->rows);
    } else {
        spread_numbers(values, slots, d->rows);
    }
    return MW_OK;
}

static mw_rc decode_few(decoder *d, mw_page **page)
{
    mw_page *values = NULL;
    uint64_t count = mw_scan_varint(&d->scan);
    numbers indexes = take_numbers(&d->scan, d->rows);
    uint8_t encoding = mw_scan_u8(&d->scan);
    if (d->scan.failed) return bad_page(d, "cut inside its indexes");
    if (count == 0 || count > MW_PAGE_FEW_MAX) return bad_page(d, "too many different values");
    decoder inner = *d;
    inner.rows = (uint32_t)count;
    mw_rc rc = decode_values(&inner, encoding, &values);
    if (rc == MW_OK) rc = spread(d, &indexes, values, page);
    mw_free(d->env, values);
    return rc;
}

/* ---- pages --------------------------------------------------------------------------------- */

/* What the different values of a FEW page are stored as, too. */
static mw_rc decode_values(decoder *d, uint8_t encoding, mw_page **page)
{
    switch (encoding) {
    case MW_PAGE_INTEGERS:
    case MW_PAGE_DELTAS:
    case MW_PAGE_REALS:
    case MW_PAGE_DECIMALS: return decode_numbers(d, encoding, page);
    case MW_PAGE_TEXTS: return decode_bytes(d, MW_TEXT, page);
    case MW_PAGE_BLOBS: return decode_bytes(d, MW_BLOB, page);
    case MW_PAGE_MIXED: return decode_mixed(d, page);
    default: return bad_page(d, "an encoding that does not exist, or not here");
    }
}

static mw_rc decode_key(decoder *d, uint8_t encoding, mw_page **page)
{
    bool integers = encoding == MW_PAGE_INTEGERS || encoding == MW_PAGE_DELTAS;
    bool bytes = encoding == MW_PAGE_TEXTS || encoding == MW_PAGE_BLOBS;
    if (encoding == MW_PAGE_SHARED) {
        mw_rc rc = decode_shared(d, page);
        if (rc) return rc;
    } else if (integers || bytes) {
        mw_rc rc = decode_values(d, encoding, page);
        if (rc) return rc;
    } else {
        return bad_page(d, "an encoding that keys never have");
    }
    if (!integers) fill_starts(*page, (uint64_t *)(*page + 1));
    return MW_OK;
}

static mw_rc decode_known(decoder *d, uint8_t encoding, mw_page **page)
{
    if (d->source->key) return decode_key(d, encoding, page);
    switch (encoding) {
    case MW_PAGE_CONSTANT: return decode_constant(d, page);
    case MW_PAGE_FEW: return decode_few(d, page);
    case MW_PAGE_SHARED: return decode_shared(d, page);
    default: return decode_values(d, encoding, page);
    }
}

mw_rc mw_page_decode(const mw_env *env, const mw_page_source *source, mw_page **page, mw_err *err)
{
    decoder d = {env, source, source->rows, mw_scan_of(source->raw), err};
    mw_page *made = NULL;
    assert(source->rows > 0);
    *page = NULL;
    if (source->raw.size > UINT32_MAX) return bad_page(&d, "larger than any page may be");
    mw_rc rc = decode_known(&d, mw_scan_u8(&d.scan), &made);
    if (rc) {
        mw_free(env, made);
        return rc;
    }
    *page = made;
    return MW_OK;
}
