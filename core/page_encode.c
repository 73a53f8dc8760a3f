/* page_encode.c: makes column pages. page.c, which reads them, has the layout.
**
** What a column of values becomes is decided for each page afresh, from all of its values:
**
**   integers     distances from the least or, when those are narrower, differences, both divided
**                by what all have in common (timestamps in us that are whole ms)
**   reals        n / 10^k when that gives the very same bits, or else their bits as integers
**   few values   an index each and the values once, when an eighth or less are different
**   keys         how much each shares with the one before, and what follows
**
** Numbers take as many bits as the widest one needs (tight) or whole bytes (aligned). Which is
** smaller after compression cannot be told from here: a writer makes both and compares.
**
** Measured, bytes a value in pages of 16 KB: numbers of 1, 2, 4 or 8 bytes and plain texts under zstd
** level 1, then what is built (decoding costs 1 to 3 ns a value, 9 ns a shared key):
**
**   counter below 9000        2.00 -> 1.76      status of 4 texts          1.28 -> 0.27
**   random 30 bits            4.00 -> 3.76      one of 200 words           2.74 -> 1.75
**   time, us, whole ms        1.88 -> 1.14      keys, 16 random hex digits 6.46 -> 5.11
**   time, us, about 5 ms on   2.01 -> 2.01      keys, uuid                 18.7 -> 17.3
**   reward, two decimals      2.30 -> 0.88      keys, run/hash             4.93 -> 3.72
**   logprob, six decimals     8.00 -> 2.88      32-bit floats              3.94 -> 3.39
**   a seventh of an integer   4.19 -> 4.39      random reals               8.00 -> 7.01
**
** Not built, for they were not 3 % smaller than what is, or only where it hardly matters: differences
** of differences, run lengths (zstd finds runs), byte planes, indexes for more than an eighth
** of different values, shared beginnings of values that are no keys, bits for lengths. */
#include <math.h>

#include "coding.h"
#include "format.h"
#include "hash.h"
#include "page.h"

enum {
    HOLDS_INTEGER = 1 << MW_INTEGER,
    HOLDS_REAL = 1 << MW_REAL,
    HOLDS_BYTES = 1 << MW_TEXT | 1 << MW_BLOB,
    FEW_ROWS_EACH = 8,  /* rows for each different value, at least */
    FEW_SLOTS = 1024,   /* of the table that finds equal values    */
    FEW_VALUE_BITS = 64 + 8, /* what a different number costs, about */
};

typedef struct maker {
    mw_page_encoder *scratch;
    mw_buf *to;
    mw_page_form form;
    bool rounds; /* a width was met that the two forms store differently */
} maker;

static uint64_t *room_for(maker *m, mw_buf *buf, size_t count)
{
    mw_buf_clear(buf);
    if (mw_buf_reserve(buf, count * sizeof(uint64_t))) return (uint64_t *)(void *)buf->data;
    m->to->failed = true;
    return NULL;
}

static bool holds_bytes(uint8_t type)
{
    return HOLDS_BYTES >> type & 1;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* Numbers as least + scale * a number of so many bits. */
typedef struct range {
    uint64_t least;
    uint64_t scale;
    uint8_t bits;
} range;

static uint8_t bits_of(uint64_t number)
{
    uint8_t bits = 0;
    for (; number; number >>= 1) bits++;
    return bits;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static range range_of(const uint64_t *values, uint32_t count)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    uint64_t scale = 0;
    if (count == 0) return (range){0, 1, 0};
    for (uint32_t i = 0; i < count; i++) {
        int64_t value = (int64_t)values[i];
        if (value < least) least = value;
        if (value > most) most = value;
    }
    for (uint32_t i = 0; i < count && scale != 1; i++) {
        scale = common_divisor(values[i] - (uint64_t)least, scale);
    }
    if (scale == 0) scale = 1;
    return (range){(uint64_t)least, scale, bits_of(((uint64_t)most - (uint64_t)least) / scale)};
}

static uint8_t whole_bytes(uint8_t bits)
{
    if (bits == 0) return 0;
    if (bits <= 8) return 8;
    if (bits <= 16) return 16;
    return bits <= 32 ? 32 : 64;
}

/* The width for the form at hand. */
static uint8_t width_for(maker *m, uint8_t bits)
{
    uint8_t rounded = whole_bytes(bits);
    if (rounded != bits) m->rounds = true;
    return m->form == MW_FORM_TIGHT ? bits : rounded;
}

/* Writes number i at bit i * bits. Requires bits from 1 to 64. */
static void pack(uint8_t *to, const uint64_t *values, uint32_t count, range of)
{
    uint64_t gathered = 0;
    uint8_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = values[i] - of.least;
        if (of.scale > 1) number /= of.scale;
        gathered |= number << held;
        if (held + of.bits < 64) {
            held = (uint8_t)(held + of.bits);
            continue;
        }
        mw_put_u64(to, gathered);
        to += 8;
        gathered = held ? number >> (64 - held) : 0;
        held = (uint8_t)(held + of.bits - 64);
    }
    for (; held > 0; held = held > 8 ? (uint8_t)(held - 8) : 0) {
        *to++ = (uint8_t)gathered;
        gathered >>= 8;
    }
}

static void put_numbers(maker *m, const uint64_t *values, uint32_t count, range of)
{
    size_t bytes = ((size_t)count * of.bits + 7) / 8;
    mw_buf_u8(m->to, of.bits);
    if (of.bits == 0 || !mw_buf_reserve(m->to, bytes)) return;
    pack(m->to->data + m->to->size, values, count, of);
    m->to->size += bytes;
}

/* varint scale, u64 least, numbers. */
static void put_range(maker *m, const uint64_t *values, uint32_t count, range of)
{
    of.bits = width_for(m, of.bits);
    if (of.bits == 64) of = (range){0, 1, 64}; /* as they stand: nothing to gain by moving them */
    mw_buf_varint(m->to, of.scale);
    mw_buf_u64(m->to, of.least);
    put_numbers(m, values, count, of);
}

static void put_integers(maker *m, const uint64_t *values, uint32_t count)
{
    range plain = range_of(values, count);
    uint64_t *deltas = room_for(m, &m->scratch->deltas, count);
    if (!deltas) return;
    for (uint32_t i = 1; i < count; i++) deltas[i - 1] = values[i] - values[i - 1];
    range between = range_of(deltas, count - 1);
    if (between.bits < plain.bits) {
        mw_buf_u8(m->to, MW_PAGE_DELTAS);
        mw_buf_u64(m->to, values[0]);
        put_range(m, deltas, count - 1, between);
    } else {
        mw_buf_u8(m->to, MW_PAGE_INTEGERS);
        put_range(m, values, count, plain);
    }
}

/* ---- reals --------------------------------------------------------------------------------- */

/* n with n / 10^digits = the real, bit by bit. */
static bool decimal_of(uint64_t bits, uint8_t digits, uint64_t *decimal)
{
    const double whole_max = 9007199254740992.0; /* 2^53: integers up to it are exact */
    double scaled = mw_real_of_bits(bits) * mw_page_powers[digits];
    if (!(fabs(scaled) < whole_max)) return false;
    int64_t n = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    *decimal = (uint64_t)n;
    return mw_bits_of_real((double)n / mw_page_powers[digits]) == bits;
}

/* All values as decimals of one power of ten, the least that does. A quotient is rounded
** correctly, so what fewer digits give, more digits give, too, up to 2^53. */
static bool find_decimals(const uint64_t *values, uint32_t count, uint64_t *decimals,
                          uint8_t *digits)
{
    *digits = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (!decimal_of(values[i], *digits, &decimals[i])) {
            if (++*digits > MW_PAGE_DECIMAL_DIGITS) return false;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!decimal_of(values[i], *digits, &decimals[i])) return false;
    }
    return true;
}

static void put_reals(maker *m, const uint64_t *values, uint32_t count)
{
    uint8_t digits;
    range bits = range_of(values, count);
    uint64_t *decimals = room_for(m, &m->scratch->decimals, count);
    if (!decimals) return;
    bool found = find_decimals(values, count, decimals, &digits);
    if (found && range_of(decimals, count).bits < bits.bits) {
        mw_buf_u8(m->to, MW_PAGE_DECIMALS);
        mw_buf_u8(m->to, digits);
        put_integers(m, decimals, count);
    } else {
        mw_buf_u8(m->to, MW_PAGE_REALS);
        put_range(m, values, count, bits);
    }
}

/* ---- texts and blobs ----------------------------------------------------------------------- */

/* The slots of the cells whose type is one of mask; those of all cells are returned as they are. */
static const uint64_t *slots_of(maker *m, const mw_cells *cells, uint32_t mask, uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < cells->count; i++) *count += mask >> cells->types[i] & 1;
    if (*count == cells->count) return cells->slots;
    uint64_t *slots = room_for(m, &m->scratch->gathered, *count);
    if (!slots) return NULL;
    for (uint32_t i = 0, n = 0; i < cells->count; i++) {
        if (mask >> cells->types[i] & 1) slots[n++] = cells->slots[i];
    }
    return slots;
}

/* u32 least, numbers. */
static void put_lengths(maker *m, const uint64_t *lengths, uint32_t count)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        least = mw_min(least, lengths[i]);
        most = mw_max(most, lengths[i]);
    }
    mw_buf_u32(m->to, (uint32_t)least);
    put_numbers(m, lengths, count, (range){least, 1, whole_bytes(bits_of(most - least))});
}

static void put_byte_values(maker *m, const uint8_t *bytes, const uint64_t *lengths, uint32_t count)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += lengths[i];
    put_lengths(m, lengths, count);
    mw_buf_put(m->to, bytes, (size_t)total);
}

static uint64_t shared_bytes(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size)
{
    uint64_t n = 0;
    while (n < a_size && n < b_size && a[n] == b[n]) n++;
    return n;
}

static void put_rests(maker *m, const mw_cells *cells, const uint64_t *shared)
{
    const uint8_t *value = cells->bytes;
    for (uint32_t i = 0; i < cells->count; i++) {
        uint64_t length = cells->slots[i];
        if (length > shared[i]) {
            mw_buf_put(m->to, value + shared[i], (size_t)(length - shared[i]));
        }
        if (length) value += length;
    }
}

/* Keys that begin like the one before. False: they do not, or there is no memory; nothing is
** put. */
static bool put_shared(maker *m, const mw_cells *cells)
{
    uint64_t *shared = room_for(m, &m->scratch->gathered, cells->count);
    const uint8_t *value = cells->bytes;
    uint64_t saved = 0;
    if (!shared) return false;
    shared[0] = 0;
    for (uint32_t i = 1; i < cells->count; i++) {
        uint64_t before = cells->slots[i - 1], length = cells->slots[i];
        shared[i] = before && length ? shared_bytes(value, before, value + before, length) : 0;
        if (before) value += before;
        saved += shared[i];
    }
    if (saved <= cells->count) return false;
    mw_buf_u8(m->to, MW_PAGE_SHARED);
    mw_buf_u8(m->to, cells->types[0]);
    put_lengths(m, cells->slots, cells->count);
    put_lengths(m, shared, cells->count);
    put_rests(m, cells, shared);
    return true;
}

/* ---- few values ---------------------------------------------------------------------------- */

/* The different values of a page, in the order in which they appear. */
typedef struct few {
    uint32_t count;
    uint8_t types[MW_PAGE_FEW_MAX];
    uint64_t slots[MW_PAGE_FEW_MAX];
    const uint8_t *bytes[MW_PAGE_FEW_MAX];
    uint16_t table[FEW_SLOTS]; /* 1 + number of the value */
} few;

static uint64_t hash_of(uint8_t type, uint64_t slot, const uint8_t *bytes)
{
    if (holds_bytes(type)) return mw_hash(bytes, (size_t)slot, type);
    uint64_t mixed = (slot ^ type) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
}

static bool few_equal(const few *f, uint32_t n, uint8_t type, uint64_t slot, const uint8_t *bytes)
{
    if (f->types[n] != type || f->slots[n] != slot) return false;
    return !holds_bytes(type) || slot == 0 || memcmp(f->bytes[n], bytes, (size_t)slot) == 0;
}

/* Number of the value, which is added when it is new; MW_PAGE_FEW_MAX: they are too many. */
static uint32_t few_find(few *f, uint8_t type, uint64_t slot, const uint8_t *bytes)
{
    uint32_t at = (uint32_t)hash_of(type, slot, bytes) % FEW_SLOTS;
    for (; f->table[at]; at = (at + 1) % FEW_SLOTS) {
        if (few_equal(f, f->table[at] - 1u, type, slot, bytes)) return f->table[at] - 1u;
    }
    if (f->count == MW_PAGE_FEW_MAX) return MW_PAGE_FEW_MAX;
    f->types[f->count] = type;
    f->slots[f->count] = slot;
    f->bytes[f->count] = bytes;
    f->table[at] = (uint16_t)++f->count;
    return f->count - 1;
}

/* Fills indexes, one a cell. False: too many different values. */
static bool find_few(few *f, const mw_cells *cells, uint64_t *indexes)
{
    const uint8_t *bytes = cells->bytes;
    uint32_t most = cells->count / FEW_ROWS_EACH;
    memset(f->table, 0, sizeof f->table);
    f->count = 0;
    for (uint32_t i = 0; i < cells->count; i++) {
        uint8_t type = cells->types[i];
        indexes[i] = few_find(f, type, cells->slots[i], bytes);
        if (indexes[i] == MW_PAGE_FEW_MAX || f->count > most) return false;
        if (holds_bytes(type) && cells->slots[i]) bytes += cells->slots[i];
    }
    return true;
}

/* Are numbers smaller when each is an index? */
static bool few_pay(maker *m, const few *f, const mw_cells *cells)
{
    uint8_t digits, type = cells->types[0], bits = 64;
    for (uint32_t i = 1; i < f->count; i++) {
        if (f->types[i] != type || holds_bytes(type)) return true;
    }
    if (holds_bytes(type)) return true;
    uint64_t *decimals = room_for(m, &m->scratch->decimals, f->count);
    if (!decimals) return false;
    bits = range_of(f->slots, f->count).bits;
    if (type == MW_REAL && find_decimals(f->slots, f->count, decimals, &digits)) {
        bits = range_of(decimals, f->count).bits;
    }
    uint64_t indexed = (uint64_t)cells->count * bits_of(f->count - 1);
    return indexed + (uint64_t)f->count * FEW_VALUE_BITS < (uint64_t)cells->count * bits;
}

static void put_values(maker *m, const mw_cells *cells);

static void put_few(maker *m, const few *f, const uint64_t *indexes, uint32_t count)
{
    mw_buf *bytes = &m->scratch->bytes;
    mw_buf_clear(bytes);
    for (uint32_t i = 0; i < f->count; i++) {
        if (holds_bytes(f->types[i])) mw_buf_put(bytes, f->bytes[i], (size_t)f->slots[i]);
    }
    if (bytes->failed) m->to->failed = true;
    if (m->to->failed) return;
    mw_buf_u8(m->to, MW_PAGE_FEW);
    mw_buf_varint(m->to, f->count);
    put_numbers(m, indexes, count, (range){0, 1, width_for(m, bits_of(f->count - 1))});
    put_values(m, &(mw_cells){f->types, f->slots, bytes->data, f->count});
}

/* False: not a page of few; nothing is put. */
static bool try_few(maker *m, const mw_cells *cells)
{
    few f;
    if (cells->count < 2 * FEW_ROWS_EACH) return false;
    uint64_t *indexes = room_for(m, &m->scratch->indexes, cells->count);
    if (!indexes || !find_few(&f, cells, indexes) || !few_pay(m, &f, cells)) return false;
    put_few(m, &f, indexes, cells->count);
    return true;
}

/* ---- pages --------------------------------------------------------------------------------- */

static bool all_equal(const mw_cells *cells)
{
    uint8_t type = cells->types[0];
    uint64_t slot = cells->slots[0];
    for (uint32_t i = 1; i < cells->count; i++) {
        if (cells->types[i] != type || cells->slots[i] != slot) return false;
    }
    if (!holds_bytes(type) || slot == 0) return true;
    /* Equal neighbours of equal length: the run shifted by one value is itself. */
    return memcmp(cells->bytes, cells->bytes + slot, (size_t)slot * (cells->count - 1)) == 0;
}

static void put_constant(mw_buf *to, const mw_cells *cells)
{
    uint8_t type = cells->types[0];
    mw_buf_u8(to, MW_PAGE_CONSTANT);
    mw_buf_u8(to, type);
    if (holds_bytes(type)) {
        mw_buf_put(to, cells->bytes, (size_t)cells->slots[0]);
    } else if (type != MW_NULL) {
        mw_buf_u64(to, cells->slots[0]);
    }
}

static uint32_t types_seen(const mw_cells *cells)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < cells->count; i++) seen |= 1u << cells->types[i];
    return seen;
}

/* u8 types that occur, then for each cell which of them it has. */
static bool put_types(maker *m, const mw_cells *cells, uint32_t seen)
{
    uint64_t *codes = room_for(m, &m->scratch->gathered, cells->count);
    uint8_t code_of[MW_BLOB + 1], codes_used = 0;
    if (!codes) return false;
    for (uint8_t t = 0; t <= MW_BLOB; t++) {
        code_of[t] = codes_used;
        codes_used = (uint8_t)(codes_used + (seen >> t & 1));
    }
    for (uint32_t i = 0; i < cells->count; i++) codes[i] = code_of[cells->types[i]];
    mw_buf_u8(m->to, (uint8_t)seen);
    uint8_t bits = width_for(m, bits_of(codes_used - 1u));
    put_numbers(m, codes, cells->count, (range){0, 1, bits});
    return true;
}

static void put_mixed(maker *m, const mw_cells *cells, uint32_t seen)
{
    uint32_t count;
    mw_buf_u8(m->to, MW_PAGE_MIXED);
    if (!put_types(m, cells, seen)) return;
    const uint64_t *slots = slots_of(m, cells, HOLDS_INTEGER, &count);
    if (slots && count) put_integers(m, slots, count);
    slots = slots_of(m, cells, HOLDS_REAL, &count);
    if (slots && count) put_reals(m, slots, count);
    slots = slots_of(m, cells, HOLDS_BYTES, &count);
    if (slots && count) put_byte_values(m, cells->bytes, slots, count);
}

/* A page of any encoding but those of equal and few values. */
static void put_values(maker *m, const mw_cells *cells)
{
    uint32_t seen = types_seen(cells);
    if (seen == HOLDS_INTEGER) {
        put_integers(m, cells->slots, cells->count);
    } else if (seen == HOLDS_REAL) {
        put_reals(m, cells->slots, cells->count);
    } else if (seen == 1u << MW_TEXT || seen == 1u << MW_BLOB) {
        mw_buf_u8(m->to, seen == 1u << MW_TEXT ? MW_PAGE_TEXTS : MW_PAGE_BLOBS);
        put_byte_values(m, cells->bytes, cells->slots, cells->count);
    } else {
        put_mixed(m, cells, seen);
    }
}

/* Where bytes outweigh the numbers, compressing is all that counts: one form is enough. */
static bool numbers_count(const mw_cells *cells, const mw_buf *to, size_t before)
{
    return to->data[before] == MW_PAGE_FEW || !(types_seen(cells) & HOLDS_BYTES);
}

bool mw_page_encode(mw_page_encoder *encoder, mw_buf *to, const mw_cells *cells, bool key,
                    mw_page_form form)
{
    maker m = {.scratch = encoder, .to = to, .form = form};
    size_t before = to->size;
    assert(cells->count > 0);
    if (!key && all_equal(cells)) {
        put_constant(to, cells);
    } else if (key && holds_bytes(cells->types[0])) {
        if (!put_shared(&m, cells)) put_values(&m, cells);
    } else if (key || !try_few(&m, cells)) {
        put_values(&m, cells);
    }
    return !to->failed && m.rounds && numbers_count(cells, to, before);
}

void mw_page_encoder_init(mw_page_encoder *encoder, const mw_env *env)
{
    mw_buf_init(&encoder->gathered, env);
    mw_buf_init(&encoder->deltas, env);
    mw_buf_init(&encoder->decimals, env);
    mw_buf_init(&encoder->indexes, env);
    mw_buf_init(&encoder->bytes, env);
}

void mw_page_encoder_free(mw_page_encoder *encoder)
{
    mw_buf_free(&encoder->gathered);
    mw_buf_free(&encoder->deltas);
    mw_buf_free(&encoder->decimals);
    mw_buf_free(&encoder->indexes);
    mw_buf_free(&encoder->bytes);
}
