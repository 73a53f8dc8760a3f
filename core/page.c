/* page.c: column pages.
**
** A page before compression is one byte that names the encoding, then:
**
**   CONSTANT  u8 type, then the value: nothing, 8 bytes, or all bytes that are left
**   INTEGERS  u8 width, u64 least, count numbers of that width: the distance from the least
**   DELTAS    u8 width, u64 first, u64 least, count - 1 numbers: each difference's distance from
** the least
**   REALS     count times 8 bytes
**   TEXTS     u8 width, u32 least, count numbers: the lengths; then the bytes
**   BLOBS     the same
**   MIXED     count types; then, each only when there is such a row: INTEGERS' body of the
** integers,
**             REALS' body of the reals, TEXTS' body of the texts and blobs together
**
** A width is 0, 1, 2, 4 or 8 bytes; arithmetic is modulo 2^64, so no range of integers is special.
** The number of rows is known from the group's directory, and a page must end exactly where its
** last part does: a length that lies leaves too little or too much. */
#include "page.h"

#include "coding.h"
#include "format.h"
#include "prefix.h"

enum {
    HOLDS_INTEGER = 1 << MW_INTEGER,
    HOLDS_REAL = 1 << MW_REAL,
    HOLDS_BYTES = 1 << MW_TEXT | 1 << MW_BLOB,
};

/* ---- encoding ------------------------------------------------------------------------------ */

static uint8_t width_of(uint64_t range)
{
    if (range == 0) return 0;
    if (range <= UINT8_MAX) return 1;
    if (range <= UINT16_MAX) return 2;
    return range <= UINT32_MAX ? 4 : 8;
}

static uint8_t *put_number(uint8_t *p, uint64_t number, uint8_t width)
{
    switch (width) {
    case 0: break;
    case 1: *p = (uint8_t)number; break;
    case 2: mw_put_u16(p, (uint16_t)number); break;
    case 4: mw_put_u32(p, (uint32_t)number); break;
    default: mw_put_u64(p, number); break;
    }
    return p + width;
}

static bool holds(const mw_cells *cells, uint32_t i, uint32_t mask)
{
    return (mask >> cells->types[i]) & 1;
}

static uint32_t types_seen(const mw_cells *cells, uint32_t counts[MW_BLOB + 1])
{
    uint32_t seen = 0;
    memset(counts, 0, sizeof(uint32_t) * (MW_BLOB + 1));
    for (uint32_t i = 0; i < cells->count; i++) counts[cells->types[i]]++;
    for (uint32_t t = 0; t <= MW_BLOB; t++) seen |= counts[t] ? 1u << t : 0;
    return seen;
}

static bool all_equal(const mw_cells *cells)
{
    uint8_t type = cells->types[0];
    uint64_t slot = cells->slots[0];
    for (uint32_t i = 1; i < cells->count; i++) {
        if (cells->types[i] != type || cells->slots[i] != slot) return false;
    }
    if (!(HOLDS_BYTES >> type & 1) || slot == 0) return true;
    /* Equal neighbours of equal length: the run shifted by one value is itself. */
    return memcmp(cells->bytes, cells->bytes + slot, (size_t)slot * (cells->count - 1)) == 0;
}

static void put_constant(mw_buf *to, const mw_cells *cells)
{
    uint8_t type = cells->types[0];
    mw_buf_u8(to, MW_PAGE_CONSTANT);
    mw_buf_u8(to, type);
    if (HOLDS_BYTES >> type & 1) {
        mw_buf_put(to, cells->bytes, (size_t)cells->slots[0]);
    } else if (type != MW_NULL) {
        mw_buf_u64(to, cells->slots[0]);
    }
}

/* Least and greatest as signed numbers among the integers. Requires that there is one. */
static void integer_range(const mw_cells *cells, int64_t *least, int64_t *most)
{
    *least = INT64_MAX;
    *most = INT64_MIN;
    for (uint32_t i = 0; i < cells->count; i++) {
        if (cells->types[i] != MW_INTEGER) continue;
        int64_t value = (int64_t)cells->slots[i];
        if (value < *least) *least = value;
        if (value > *most) *most = value;
    }
}

static void put_integers(mw_buf *to, const mw_cells *cells, uint32_t count)
{
    int64_t least, most;
    integer_range(cells, &least, &most);
    uint8_t width = width_of((uint64_t)most - (uint64_t)least);
    mw_buf_u8(to, width);
    mw_buf_u64(to, (uint64_t)least);
    size_t room = (size_t)count * width;
    if (!mw_buf_reserve(to, room)) return;
    uint8_t *p = to->data + to->size;
    for (uint32_t i = 0; i < cells->count; i++) {
        if (cells->types[i] != MW_INTEGER) continue;
        p = put_number(p, cells->slots[i] - (uint64_t)least, width);
    }
    to->size += room;
}

/* Width that differences would need, and the least of them. Requires integers only, two at
** least. */
static uint8_t delta_width(const mw_cells *cells, uint64_t *least)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (uint32_t i = 1; i < cells->count; i++) {
        int64_t delta = (int64_t)(cells->slots[i] - cells->slots[i - 1]);
        if (delta < low) low = delta;
        if (delta > high) high = delta;
    }
    *least = (uint64_t)low;
    return width_of((uint64_t)high - (uint64_t)low);
}

static void put_deltas(mw_buf *to, const mw_cells *cells, uint8_t width, uint64_t least)
{
    mw_buf_u8(to, MW_PAGE_DELTAS);
    mw_buf_u8(to, width);
    mw_buf_u64(to, cells->slots[0]);
    mw_buf_u64(to, least);
    size_t room = (size_t)(cells->count - 1) * width;
    if (!mw_buf_reserve(to, room)) return;
    uint8_t *p = to->data + to->size;
    for (uint32_t i = 1; i < cells->count; i++) {
        p = put_number(p, cells->slots[i] - cells->slots[i - 1] - least, width);
    }
    to->size += room;
}

static void put_integer_page(mw_buf *to, const mw_cells *cells)
{
    int64_t low, high;
    integer_range(cells, &low, &high);
    uint64_t least;
    if (cells->count > 1 && delta_width(cells, &least) < width_of((uint64_t)high - (uint64_t)low)) {
        put_deltas(to, cells, delta_width(cells, &least), least);
        return;
    }
    mw_buf_u8(to, MW_PAGE_INTEGERS);
    put_integers(to, cells, cells->count);
}

static void put_reals(mw_buf *to, const mw_cells *cells, uint32_t count)
{
    size_t room = (size_t)count * 8;
    if (!mw_buf_reserve(to, room)) return;
    uint8_t *p = to->data + to->size;
    for (uint32_t i = 0; i < cells->count; i++) {
        if (cells->types[i] == MW_REAL) p = put_number(p, cells->slots[i], 8);
    }
    to->size += room;
}

static void put_byte_values(mw_buf *to, const mw_cells *cells, uint32_t count)
{
    uint64_t least = UINT64_MAX, most = 0, total = 0;
    for (uint32_t i = 0; i < cells->count; i++) {
        if (!holds(cells, i, HOLDS_BYTES)) continue;
        least = mw_min(least, cells->slots[i]);
        most = mw_max(most, cells->slots[i]);
        total += cells->slots[i];
    }
    uint8_t width = width_of(most - least);
    mw_buf_u8(to, width);
    mw_buf_u32(to, (uint32_t)least);
    size_t room = (size_t)count * width;
    if (!mw_buf_reserve(to, room)) return;
    uint8_t *p = to->data + to->size;
    for (uint32_t i = 0; i < cells->count; i++) {
        if (holds(cells, i, HOLDS_BYTES)) p = put_number(p, cells->slots[i] - least, width);
    }
    to->size += room;
    mw_buf_put(to, cells->bytes, (size_t)total);
}

static void put_mixed(mw_buf *to, const mw_cells *cells, const uint32_t counts[MW_BLOB + 1])
{
    uint32_t byte_values = counts[MW_TEXT] + counts[MW_BLOB];
    mw_buf_u8(to, MW_PAGE_MIXED);
    mw_buf_put(to, cells->types, cells->count);
    if (counts[MW_INTEGER]) put_integers(to, cells, counts[MW_INTEGER]);
    if (counts[MW_REAL]) put_reals(to, cells, counts[MW_REAL]);
    if (byte_values) put_byte_values(to, cells, byte_values);
}

void mw_page_encode(mw_buf *to, const mw_cells *cells, bool key)
{
    uint32_t counts[MW_BLOB + 1];
    assert(cells->count > 0);
    uint32_t seen = types_seen(cells, counts);
    if (!key && all_equal(cells)) {
        put_constant(to, cells);
    } else if (seen == HOLDS_INTEGER) {
        put_integer_page(to, cells);
    } else if (seen == HOLDS_REAL) {
        mw_buf_u8(to, MW_PAGE_REALS);
        put_reals(to, cells, cells->count);
    } else if (seen == 1u << MW_TEXT || seen == 1u << MW_BLOB) {
        mw_buf_u8(to, seen == 1u << MW_TEXT ? MW_PAGE_TEXTS : MW_PAGE_BLOBS);
        put_byte_values(to, cells, cells->count);
    } else {
        put_mixed(to, cells, counts);
    }
}

/* ---- decoding ------------------------------------------------------------------------------ */

typedef struct decoder {
    const mw_env *env;
    const mw_page_source *source;
    mw_scan scan; /* behind the encoding byte */
    mw_err *err;
} decoder;

/* Numbers of one width; data is exactly count * width bytes. */
typedef struct numbers {
    const uint8_t *data;
    uint8_t width;
} numbers;

static mw_rc bad_page(const decoder *d, const char *what)
{
    return mw_fail_disk(d->err, d->source->file, d->source->offset, "page of %u rows: %s",
                        (unsigned)d->source->rows, what);
}

static inline uint64_t get_number(numbers from, uint32_t i)
{
    switch (from.width) {
    case 0: return 0;
    case 1: return from.data[i];
    case 2: return mw_get_u16(from.data + (size_t)i * 2);
    case 4: return mw_get_u32(from.data + (size_t)i * 4);
    default: return mw_get_u64(from.data + (size_t)i * 8);
    }
}

static bool width_is_known(uint8_t width)
{
    return width <= 2 || width == 4 || width == 8;
}

static numbers take_numbers(mw_scan *scan, uint32_t count, uint8_t width)
{
    numbers taken = {NULL, width};
    if (!width_is_known(width)) {
        scan->failed = true;
        return taken;
    }
    taken.data = mw_scan_take(scan, (uint64_t)count * width).data;
    return taken;
}

static mw_page *new_page(const decoder *d, mw_page_shape shape, size_t extra_bytes)
{
    mw_page *page = mw_alloc(d->env, sizeof *page + extra_bytes);
    if (!page) {
        (void)mw_fail(d->err, MW_NOMEM, "out of memory for a page of %s", d->source->file);
        return NULL;
    }
    memset(page, 0, sizeof *page);
    page->shape = shape;
    page->rows = d->source->rows;
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

static mw_rc decode_integers(decoder *d, mw_page **page)
{
    uint32_t rows = d->source->rows;
    uint8_t width = mw_scan_u8(&d->scan);
    uint64_t least = mw_scan_u64(&d->scan);
    numbers from = take_numbers(&d->scan, rows, width);
    if (d->scan.failed || mw_scan_left(&d->scan)) return bad_page(d, "wrong size for its integers");
    if (!(*page = new_page(d, MW_SHAPE_INTEGERS, (size_t)rows * 8))) return MW_NOMEM;

    uint64_t *slots = (uint64_t *)(*page + 1);
    (*page)->slots = slots;
    for (uint32_t i = 0; i < rows; i++) slots[i] = least + get_number(from, i);
    return MW_OK;
}

static mw_rc decode_deltas(decoder *d, mw_page **page)
{
    uint32_t rows = d->source->rows;
    uint8_t width = mw_scan_u8(&d->scan);
    uint64_t value = mw_scan_u64(&d->scan);
    uint64_t least = mw_scan_u64(&d->scan);
    numbers from = take_numbers(&d->scan, rows - 1, width);
    if (d->scan.failed || mw_scan_left(&d->scan)) return bad_page(d, "wrong size for its integers");
    if (!(*page = new_page(d, MW_SHAPE_INTEGERS, (size_t)rows * 8))) return MW_NOMEM;

    uint64_t *slots = (uint64_t *)(*page + 1);
    (*page)->slots = slots;
    slots[0] = value;
    for (uint32_t i = 1; i < rows; i++) {
        value += least + get_number(from, i - 1);
        slots[i] = value;
    }
    return MW_OK;
}

static mw_rc decode_reals(decoder *d, mw_page **page)
{
    uint32_t rows = d->source->rows;
    numbers from = take_numbers(&d->scan, rows, 8);
    if (d->scan.failed || mw_scan_left(&d->scan)) return bad_page(d, "wrong size for its reals");
    if (!(*page = new_page(d, MW_SHAPE_REALS, (size_t)rows * 8))) return MW_NOMEM;

    uint64_t *slots = (uint64_t *)(*page + 1);
    (*page)->slots = slots;
    for (uint32_t i = 0; i < rows; i++) slots[i] = get_number(from, i);
    return MW_OK;
}

/* Lengths of texts and blobs, and their bytes, which are all that is left of the page. */
typedef struct byte_values {
    numbers lengths;
    uint64_t least;
    mw_slice bytes;
} byte_values;

static byte_values take_byte_values(mw_scan *scan, uint32_t count)
{
    byte_values taken = {{NULL, 0}, 0, {NULL, 0}};
    uint8_t width = mw_scan_u8(scan);
    taken.least = mw_scan_u32(scan);
    taken.lengths = take_numbers(scan, count, width);
    taken.bytes = mw_scan_take(scan, mw_scan_left(scan));
    return taken;
}

/* Length i, checked against the bytes that are left. An offset is compared before it is added to
** the least length: the two may pass 2^64 together (C29). */
static bool get_length(const byte_values *from, uint32_t i, uint64_t left, uint64_t *length)
{
    uint64_t more = get_number(from->lengths, i);
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

static mw_rc decode_bytes(decoder *d, mw_type type, mw_page **page)
{
    uint32_t rows = d->source->rows;
    byte_values from = take_byte_values(&d->scan, rows);
    if (d->scan.failed) return bad_page(d, "cut inside its lengths");
    size_t starts_bytes = d->source->key ? (size_t)rows * 8 : 0;
    size_t ends_bytes = ((size_t)rows + 1) * 4;
    *page = new_page(d, MW_SHAPE_BYTES, starts_bytes + ends_bytes + from.bytes.size);
    if (!*page) return MW_NOMEM;

    uint8_t *starts = (uint8_t *)(*page + 1);
    uint32_t *ends = (uint32_t *)(starts + starts_bytes);
    uint8_t *bytes = starts + starts_bytes + ends_bytes;
    (*page)->type = type;
    (*page)->ends = ends;
    (*page)->bytes = bytes;
    ends[0] = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t length;
        if (!get_length(&from, i, from.bytes.size - ends[i], &length)) {
            return bad_page(d, "a length passes the page's end");
        }
        ends[i + 1] = ends[i] + (uint32_t)length;
    }
    if (ends[rows] != from.bytes.size) return bad_page(d, "bytes are left behind its last value");
    if (from.bytes.size) memcpy(bytes, from.bytes.data, from.bytes.size);
    if (d->source->key) fill_starts(*page, (uint64_t *)starts);
    return MW_OK;
}

/* The parts of a MIXED page. */
typedef struct mixed {
    const uint8_t *types;
    numbers integers;
    uint64_t least;
    numbers reals;
    byte_values values;
} mixed;

static mw_rc take_mixed(decoder *d, mixed *parts)
{
    uint32_t counts[MW_BLOB + 1] = {0};
    memset(parts, 0, sizeof *parts);
    parts->types = mw_scan_take(&d->scan, d->source->rows).data;
    if (d->scan.failed) return bad_page(d, "cut inside its types");
    for (uint32_t i = 0; i < d->source->rows; i++) {
        if (parts->types[i] > MW_BLOB) return bad_page(d, "a type that does not exist");
        counts[parts->types[i]]++;
    }
    if (counts[MW_INTEGER]) {
        uint8_t width = mw_scan_u8(&d->scan);
        parts->least = mw_scan_u64(&d->scan);
        parts->integers = take_numbers(&d->scan, counts[MW_INTEGER], width);
    }
    if (counts[MW_REAL]) parts->reals = take_numbers(&d->scan, counts[MW_REAL], 8);
    uint32_t byte_values_count = counts[MW_TEXT] + counts[MW_BLOB];
    if (byte_values_count) parts->values = take_byte_values(&d->scan, byte_values_count);
    if (d->scan.failed) return bad_page(d, "cut inside its values");
    if (mw_scan_left(&d->scan)) return bad_page(d, "bytes are left behind its last value");
    return MW_OK;
}

static mw_rc fill_mixed(decoder *d, const mixed *parts, uint64_t *slots)
{
    uint32_t integer = 0, real = 0, value = 0;
    uint64_t begin = 0, length;
    for (uint32_t i = 0; i < d->source->rows; i++) {
        switch ((mw_type)parts->types[i]) {
        case MW_NULL: slots[i] = 0; break;
        case MW_INTEGER: slots[i] = parts->least + get_number(parts->integers, integer++); break;
        case MW_REAL: slots[i] = get_number(parts->reals, real++); break;
        case MW_TEXT:
        case MW_BLOB:
            if (!get_length(&parts->values, value++, parts->values.bytes.size - begin, &length)) {
                return bad_page(d, "a length passes the page's end");
            }
            slots[i] = begin | length << 32;
            begin += length;
            break;
        }
    }
    if (begin == parts->values.bytes.size) return MW_OK;
    return bad_page(d, "bytes are left behind its last value");
}

static mw_rc decode_mixed(decoder *d, mw_page **page)
{
    mixed parts;
    mw_rc rc = take_mixed(d, &parts);
    if (rc) return rc;
    size_t slots_bytes = (size_t)d->source->rows * 8;
    size_t extra = slots_bytes + d->source->rows + parts.values.bytes.size;
    if (!(*page = new_page(d, MW_SHAPE_MIXED, extra))) return MW_NOMEM;

    uint64_t *slots = (uint64_t *)(*page + 1);
    uint8_t *types = (uint8_t *)(*page + 1) + slots_bytes;
    uint8_t *bytes = types + d->source->rows;
    memcpy(types, parts.types, d->source->rows);
    if (parts.values.bytes.size) memcpy(bytes, parts.values.bytes.data, parts.values.bytes.size);
    (*page)->slots = slots;
    (*page)->types = types;
    (*page)->bytes = bytes;
    return fill_mixed(d, &parts, slots);
}

static mw_rc decode_known(decoder *d, uint8_t encoding, mw_page **page)
{
    if (d->source->key && (encoding < MW_PAGE_INTEGERS || encoding > MW_PAGE_BLOBS)) {
        return bad_page(d, "an encoding that keys never have");
    }
    switch (encoding) {
    case MW_PAGE_CONSTANT: return decode_constant(d, page);
    case MW_PAGE_INTEGERS: return decode_integers(d, page);
    case MW_PAGE_DELTAS: return decode_deltas(d, page);
    case MW_PAGE_REALS: return decode_reals(d, page);
    case MW_PAGE_TEXTS: return decode_bytes(d, MW_TEXT, page);
    case MW_PAGE_BLOBS: return decode_bytes(d, MW_BLOB, page);
    case MW_PAGE_MIXED: return decode_mixed(d, page);
    default: return bad_page(d, "an encoding that does not exist");
    }
}

mw_rc mw_page_decode(const mw_env *env, const mw_page_source *source, mw_page **page, mw_err *err)
{
    decoder d = {env, source, mw_scan_of(source->raw), err};
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
