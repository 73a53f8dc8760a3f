/* page_test.c: a page gives back the very values that went in, and takes no bytes that are not
** one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format.h"
#include "memory.h"
#include "page.h"

enum { CELLS_MAX = 300 };

/* Cells while they are put together. */
typedef struct cells {
    uint8_t types[CELLS_MAX];
    uint64_t slots[CELLS_MAX];
    uint8_t bytes[CELLS_MAX * 8];
    size_t byte_count;
    uint32_t count;
} cells;

static void add(cells *to, mw_value value)
{
    to->types[to->count] = (uint8_t)value.type;
    uint64_t slot = 0;
    if (value.type == MW_INTEGER) slot = (uint64_t)value.integer;
    if (value.type == MW_REAL) slot = mw_bits_of_real(value.real);
    if (value.type >= MW_TEXT) {
        slot = value.bytes.size;
        if (slot) memcpy(to->bytes + to->byte_count, value.bytes.data, value.bytes.size);
        to->byte_count += value.bytes.size;
    }
    to->slots[to->count++] = slot;
}

static mw_value integer(int64_t number)
{
    return (mw_value){.type = MW_INTEGER, .integer = number};
}

static mw_value real(double number)
{
    return (mw_value){.type = MW_REAL, .real = number};
}

static mw_value null(void)
{
    return (mw_value){.type = MW_NULL};
}

static mw_value bytes(mw_type type, const char *data, size_t size)
{
    return (mw_value){.type = type, .bytes = mw_slice_of(data, size)};
}

static bool encode_as(memory *m, const cells *from, bool key, mw_page_form form, mw_buf *to)
{
    mw_cells run = {from->types, from->slots, from->bytes, from->count};
    mw_page_encoder encoder;
    mw_page_encoder_init(&encoder, &m->env);
    mw_buf_init(to, &m->env);
    bool other = mw_page_encode(&encoder, to, &run, key, form);
    assert_false(to->failed);
    mw_page_encoder_free(&encoder);
    return other;
}

static void encode(memory *m, const cells *from, bool key, mw_buf *to)
{
    (void)encode_as(m, from, key, MW_FORM_TIGHT, to);
}

static mw_rc decode(memory *m, mw_slice raw, uint32_t rows, bool key, mw_page **page)
{
    mw_err err = {.rc = MW_OK};
    /* A copy of the exact size, so that the sanitizer sees a read past the end. */
    uint8_t *copy = malloc(raw.size + 1);
    if (raw.size) memcpy(copy, raw.data, raw.size);
    uint8_t *exact = realloc(copy, raw.size ? raw.size : 1);
    mw_page_source source = {"file", 77, {exact, raw.size}, rows, key};
    mw_rc rc = mw_page_decode(&m->env, &source, page, &err);
    if (rc == MW_CORRUPT) assert_non_null(strstr(err.text, "file, offset 77"));
    free(exact);
    return rc;
}

static void check_values(const cells *from, const mw_page *page)
{
    size_t at = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        mw_value value;
        mw_page_value(page, i, &value);
        assert_int_equal(value.type, from->types[i]);
        if (value.type == MW_INTEGER) assert_true((uint64_t)value.integer == from->slots[i]);
        if (value.type == MW_REAL) assert_true(mw_bits_of_real(value.real) == from->slots[i]);
        if (value.type < MW_TEXT) continue;
        assert_true(mw_slice_equal(value.bytes, mw_slice_of(from->bytes + at, from->slots[i])));
        at += value.bytes.size;
    }
}

/* Encodes in both forms, checks the encoding, decodes, compares each value. Returns the size of the
** tight form. */
static size_t check_round(const cells *from, bool key, uint8_t encoding)
{
    memory m;
    size_t sizes[2];
    bool others[2];
    memory_init(&m);
    for (int form = MW_FORM_TIGHT; form <= MW_FORM_ALIGNED; form++) {
        mw_buf buf;
        mw_page *page;
        others[form] = encode_as(&m, from, key, (mw_page_form)form, &buf);
        if (buf.data[0] != encoding) fail_msg("encoding %d, expected %d", buf.data[0], encoding);
        assert_int_equal(decode(&m, mw_buf_slice(&buf), from->count, key, &page), MW_OK);
        check_values(from, page);
        sizes[form] = buf.size;
        mw_free(&m.env, page);
        mw_buf_free(&buf);
    }
    assert_int_equal(m.alive, 0);
    assert_true(sizes[MW_FORM_TIGHT] <= sizes[MW_FORM_ALIGNED]);
    assert_int_equal(others[0], others[1]);
    return sizes[MW_FORM_TIGHT];
}

static void equal_values_are_stored_once(void **state)
{
    (void)state;
    mw_value kinds[] = {null(), integer(INT64_MIN), real(-0.0), bytes(MW_TEXT, "a\0b", 3),
                        bytes(MW_BLOB, "", 0)};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        cells from = {.count = 0};
        for (int i = 0; i < 200; i++) add(&from, kinds[k]);
        assert_true(check_round(&from, false, MW_PAGE_CONSTANT) <= 10);
    }
}

static void minus_zero_is_not_zero(void **state)
{
    (void)state;
    cells from = {.count = 0};
    add(&from, real(0.0));
    add(&from, real(-0.0));
    check_round(&from, false, MW_PAGE_REALS);
}

static size_t bytes_of(size_t count, size_t bits)
{
    return (count * bits + 7) / 8;
}

static void integers_take_the_bits_of_their_range(void **state)
{
    (void)state;
    const struct {
        int64_t low, high;
        size_t bits;
    } ranges[] = {{-5, 250, 8},          {0, 256, 9},       {0, 1, 1},
                  {-3, 4, 3},            {0, 1 << 21, 22},  {INT32_MIN, INT32_MAX, 32},
                  {0, INT64_MAX, 63},    {-1, INT64_MAX / 2, 63},
                  {INT64_MIN, INT64_MAX, 64}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        cells from = {.count = 0};
        for (int i = 0; i < 99; i++) {
            /* Up and down, so that differences are no narrower; and too many for a page of few. */
            int64_t near = ranges[r].bits < 8 ? 0 : i / 3;
            int64_t middle = ranges[r].low / 2 + (ranges[r].bits == 64 ? 0 : ranges[r].high / 2);
            int64_t steps[] = {ranges[r].low + near, ranges[r].high - near, middle};
            add(&from, integer(steps[i % 3]));
        }
        assert_int_equal(check_round(&from, true, MW_PAGE_INTEGERS),
                         11 + bytes_of(99, ranges[r].bits));
    }
}

static void every_width_of_numbers_is_read_back(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits <= 64; bits++) {
        cells from = {.count = 0};
        uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        uint64_t x = 88172645463325252u;
        for (int i = 0; i < 1 + (int)(bits * 7 % 90); i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            add(&from, integer((int64_t)(i == 1 ? mask : i == 2 ? 0 : (x >> 1 ^ x << 60) & mask)));
        }
        memory m;
        mw_buf buf;
        mw_page *page;
        memory_init(&m);
        for (int form = MW_FORM_TIGHT; form <= MW_FORM_ALIGNED; form++) {
            (void)encode_as(&m, &from, true, (mw_page_form)form, &buf);
            assert_int_equal(decode(&m, mw_buf_slice(&buf), from.count, true, &page), MW_OK);
            check_values(&from, page);
            mw_free(&m.env, page);
            mw_buf_free(&buf);
        }
    }
}

static void even_steps_take_no_room(void **state)
{
    (void)state;
    cells up = {.count = 0}, down = {.count = 0}, around = {.count = 0};
    for (int i = 0; i < 100; i++) add(&up, integer(INT64_MAX - 700 + i * 7));
    for (int i = 0; i < 100; i++) add(&down, integer(1000 - i));
    /* Past the highest and on from the lowest. */
    for (uint64_t i = 0; i < 100; i++) add(&around, integer((int64_t)(INT64_MAX - 50 + i)));
    assert_int_equal(check_round(&up, true, MW_PAGE_DELTAS), 19);
    assert_int_equal(check_round(&down, false, MW_PAGE_DELTAS), 19);
    assert_int_equal(check_round(&around, false, MW_PAGE_DELTAS), 19);
}

static void what_all_have_in_common_is_divided_out(void **state)
{
    (void)state;
    cells times = {.count = 0}, multiples = {.count = 0};
    int64_t at = 1767225600000000;
    for (int i = 0; i < 100; i++) {
        at += 1000 * (1 + (i * 7919) % 61);
        add(&times, integer(at));
        add(&multiples, integer(-70000 + i * i * 31 % 97 * 1000));
    }
    /* 6 bits for each step of up to 61 ms. */
    assert_int_equal(check_round(&times, false, MW_PAGE_DELTAS), 1 + 8 + 2 + 8 + 1 + bytes_of(99, 6));
    assert_int_equal(check_round(&multiples, false, MW_PAGE_INTEGERS),
                     1 + 2 + 8 + 1 + bytes_of(100, 7));
}

static void decimals_are_integers_when_they_give_the_same_bits(void **state)
{
    (void)state;
    cells two = {.count = 0}, minus_zero = {.count = 0}, thirds = {.count = 0}, large = {.count = 0};
    for (int i = 0; i < 100; i++) {
        add(&two, real((i * i * 37 % 101 - 50) / 100.0));
        add(&minus_zero, real(i == 60 ? -0.0 : i / 100.0));
        add(&thirds, real(i / 3.0));
        add(&large, real(9007199254740993.0 + 2e18 * i));
    }
    assert_int_equal(check_round(&two, false, MW_PAGE_DECIMALS), 1 + 1 + 11 + bytes_of(100, 7));
    check_round(&minus_zero, false, MW_PAGE_REALS);
    check_round(&thirds, false, MW_PAGE_REALS);
    check_round(&large, false, MW_PAGE_REALS);
}

static void reals_of_every_kind_keep_their_bits(void **state)
{
    (void)state;
    const double odd[] = {0.0,      -0.0,      5e-324,  -5e-324, 2.2250738585072014e-308,
                          1.7976931348623157e308, -1.7976931348623157e308,
                          INFINITY, -INFINITY, 0.1,     1e15,    1e-15,  9007199254740992.0,
                          -9007199254740991.0, 123456789.125, 1e22};
    const size_t count = sizeof odd / sizeof *odd;
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            for (size_t c = 0; c < count; c++) {
                cells from = {.count = 0};
                memory m;
                mw_buf buf;
                mw_page *page;
                memory_init(&m);
                add(&from, real(odd[a]));
                add(&from, real(odd[b]));
                add(&from, real(odd[c]));
                encode(&m, &from, false, &buf);
                assert_int_equal(decode(&m, mw_buf_slice(&buf), 3, false, &page), MW_OK);
                check_values(&from, page);
                mw_free(&m.env, page);
                mw_buf_free(&buf);
            }
        }
    }
}

static void few_values_are_stored_once(void **state)
{
    (void)state;
    static const char *const words[] = {"ok", "failed", "", "running"};
    cells texts = {.count = 0}, blobs = {.count = 0}, numbers = {.count = 0}, reals = {.count = 0};
    cells mixed = {.count = 0}, many = {.count = 0};
    for (size_t i = 0; i < 128; i++) {
        const char *word = words[i * 7 % 11 % 4];
        add(&texts, bytes(MW_TEXT, word, strlen(word)));
        add(&blobs, bytes(MW_BLOB, "\0\1\2\3", i * 7 % 11 % 4));
        add(&numbers, integer(i % 3 == 0 ? 12345 : i * 7 % 11 % 2 ? INT64_MIN : INT64_MAX));
        add(&reals, real(i % 3 == 0 ? 0.1 : i * 7 % 11 % 2 ? -0.0 : 0.0));
        add(&mixed, i % 5 == 0 ? null() : i % 5 == 1 ? integer(0) : i % 5 == 2 ? real(0)
                    : bytes(i % 5 == 3 ? MW_TEXT : MW_BLOB, "abc", 3));
        add(&many, bytes(MW_TEXT, "0123456789abcdefghijk", i % 17));
    }
    /* Index, 2 bits each; then a page of 4 texts. */
    assert_int_equal(check_round(&texts, false, MW_PAGE_FEW), 2 + 1 + 32 + 1 + 4 + 1 + 4 + 15);
    check_round(&blobs, false, MW_PAGE_FEW);
    check_round(&numbers, false, MW_PAGE_FEW);
    check_round(&reals, false, MW_PAGE_FEW);
    check_round(&mixed, false, MW_PAGE_FEW);
    check_round(&many, false, MW_PAGE_TEXTS); /* 17 of 128 are too many */
}

static void keys_share_the_beginning_of_the_one_before(void **state)
{
    (void)state;
    cells texts = {.count = 0}, blobs = {.count = 0}, own = {.count = 0};
    char key[9];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "run-%04d", i * 3);
        add(&texts, bytes(MW_TEXT, key, 8));
        add(&blobs, bytes(MW_BLOB, key, (size_t)(i == 0 ? 0 : 8)));
        key[0] = (char)('0' + i);
        add(&own, bytes(MW_TEXT, key, 1));
    }
    assert_true(check_round(&texts, true, MW_PAGE_SHARED) < 300);
    check_round(&blobs, true, MW_PAGE_SHARED);
    check_round(&own, true, MW_PAGE_TEXTS);
}

static void keys_are_never_a_constant(void **state)
{
    (void)state;
    cells number = {.count = 0}, text = {.count = 0}, empty = {.count = 0};
    add(&number, integer(7));
    add(&text, bytes(MW_TEXT, "k", 1));
    add(&empty, bytes(MW_TEXT, "", 0));
    check_round(&number, true, MW_PAGE_INTEGERS);
    check_round(&text, true, MW_PAGE_TEXTS);
    check_round(&empty, true, MW_PAGE_TEXTS);
}

static void texts_and_blobs_keep_their_bytes(void **state)
{
    (void)state;
    cells texts = {.count = 0}, blobs = {.count = 0};
    for (size_t i = 0; i < 100; i++) {
        add(&texts, bytes(MW_TEXT, "\0\xff zero 0123456789abcdef" + i / 8, i % 8));
        add(&blobs, bytes(MW_BLOB, "abcdefg0123456789abcdef" + i / 8, 7 - i % 8));
    }
    check_round(&texts, false, MW_PAGE_TEXTS);
    check_round(&blobs, false, MW_PAGE_BLOBS);
}

static void fill_mixed(cells *from)
{
    for (int i = 0; i < 40; i++) {
        add(from, null());
        add(from, integer(i % 3 ? INT64_MAX : -i));
        add(from, real(i / 3.0));
        add(from, bytes(MW_TEXT, "text\0end", (size_t)i % 8));
        add(from, bytes(MW_BLOB, "blob", (size_t)i % 4));
    }
}

static void mixed_types_keep_their_types(void **state)
{
    (void)state;
    cells all = {.count = 0}, nullable = {.count = 0};
    fill_mixed(&all);
    check_round(&all, false, MW_PAGE_MIXED);
    for (int i = 0; i < 30; i++) add(&nullable, i % 2 ? null() : integer(i));
    check_round(&nullable, false, MW_PAGE_MIXED);
}

enum { KINDS = 14 };

/* A page of each encoding, and of its ways. Returns whether it is one of keys. */
static bool fill_kind(cells *from, int kind)
{
    static const char *const words[] = {"ok", "failed", "", "running"};
    char key[9];
    from->count = 0;
    from->byte_count = 0;
    for (int i = 0; i < 40 && kind < KINDS - 2; i++) {
        snprintf(key, sizeof key, "run-%04d", i * 3);
        mw_value values[KINDS - 2] = {
            integer(i * i * 31 % 97), integer(5), real(i / 3.0), real(i / 4.0),
            bytes(MW_TEXT, "abcdef", (size_t)i % 7), bytes(MW_BLOB, "abcdef", (size_t)i % 6),
            bytes(MW_TEXT, words[i % 4], strlen(words[i % 4])), integer(i % 2 ? INT64_MIN : i % 3),
            integer(1000 * i + i % 7), bytes(MW_TEXT, key, 8), integer(i * 7),
            i % 2 ? null() : integer(i % 3)};
        add(from, values[kind]);
    }
    if (kind == KINDS - 2) fill_mixed(from);
    if (kind == KINDS - 1) add(from, bytes(MW_TEXT, "one", 3));
    return kind == 9 || kind == 10;
}

static void every_encoding_is_among_the_kinds(void **state)
{
    (void)state;
    memory m;
    uint32_t seen = 0;
    memory_init(&m);
    for (int kind = 0; kind < KINDS; kind++) {
        static cells from;
        mw_buf buf;
        bool key = fill_kind(&from, kind);
        encode(&m, &from, key, &buf);
        seen |= 1u << buf.data[0];
        mw_buf_free(&buf);
    }
    assert_int_equal(seen, 0x7fe); /* encodings 1 to 10 */
}

/* L5: whatever is cut off or put behind, the page is refused (a constant text is as long as it
** is). */
static void wrong_size_is_refused(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        static cells from;
        mw_buf buf;
        mw_page *page;
        bool key = fill_kind(&from, kind / 2);
        (void)encode_as(&m, &from, key, (mw_page_form)(kind % 2), &buf);
        if (buf.data[0] == MW_PAGE_CONSTANT && buf.data[1] >= MW_TEXT) {
            mw_buf_free(&buf);
            continue;
        }
        for (size_t size = 0; size < buf.size; size++) {
            mw_slice cut = mw_slice_of(buf.data, size);
            assert_int_equal(decode(&m, cut, from.count, key, &page), MW_CORRUPT);
        }
        mw_buf_u8(&buf, 0);
        assert_int_equal(decode(&m, mw_buf_slice(&buf), from.count, key, &page), MW_CORRUPT);
        mw_buf_free(&buf);
    }
    assert_int_equal(m.alive, 0);
}

/* Reads every value, so that the sanitizer sees whether it lies in the page. */
static void touch(const mw_page *page)
{
    for (uint32_t row = 0; row < page->rows; row++) {
        mw_value value = {.type = MW_NULL};
        volatile uint8_t last = 0;
        mw_page_value(page, row, &value);
        assert_true(value.type <= MW_BLOB);
        if (value.bytes.size) last = value.bytes.data[value.bytes.size - 1];
        (void)last;
    }
}

/* Whatever the bytes are: a refusal, or a page of as many rows that takes no more than it may. */
static void check_harmless(memory *m, mw_slice raw, uint32_t rows, bool key)
{
    mw_page *page;
    mw_rc rc = decode(m, raw, rows, key, &page);
    assert_true(rc == MW_OK || rc == MW_CORRUPT);
    if (!page) return;
    size_t stored = raw.size > MW_PAGE_BYTES_MAX || rows == 1 ? raw.size : MW_PAGE_BYTES_MAX;
    assert_true(page->memory_bytes <= sizeof *page + (size_t)rows * 13 + 12 + stored);
    assert_int_equal(page->rows, rows);
    touch(page);
    mw_free(&m->env, page);
}

static void every_flipped_bit_does_no_harm(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        static cells from;
        mw_buf buf;
        bool key = fill_kind(&from, kind / 2);
        (void)encode_as(&m, &from, key, (mw_page_form)(kind % 2), &buf);
        for (size_t bit = 0; bit < buf.size * 8; bit++) {
            buf.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            check_harmless(&m, mw_buf_slice(&buf), from.count, key);
            buf.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t i = 0; i < buf.size; i++) {
            uint8_t was = buf.data[i];
            buf.data[i] = was ^ 0xff;
            check_harmless(&m, mw_buf_slice(&buf), from.count, key);
            check_harmless(&m, mw_buf_slice(&buf), 1, key);
            check_harmless(&m, mw_buf_slice(&buf), MW_GROUP_ROWS_MAX, key);
            buf.data[i] = was;
        }
        mw_buf_free(&buf);
    }
    assert_int_equal(m.alive, 0);
}

/* Seed: MW_TEST_SEED=n build/asan/tests/core/page_test. */
static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    memory m;
    const char *given = getenv("MW_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1, x = seed * 0x9e3779b97f4a7c15u + 1;
    memory_init(&m);
    print_message("MW_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20000; round++) {
        uint8_t raw[48];
        for (size_t i = 0; i < sizeof raw; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            /* Small numbers are what gets far. */
            raw[i] = (uint8_t)(x >> 32 & (x >> 60 ? 7 : 0xff));
        }
        raw[0] = (uint8_t)(1 + round % 10);
        mw_slice slice = mw_slice_of(raw, (size_t)(x >> 40) % sizeof raw);
        check_harmless(&m, slice, 1 + (uint32_t)(x >> 50) % 20, round % 3 == 0);
    }
    assert_int_equal(m.alive, 0);
}

static void assert_refused(const uint8_t *raw, size_t size, uint32_t rows)
{
    memory m;
    mw_page *page;
    memory_init(&m);
    assert_int_equal(decode(&m, mw_slice_of(raw, size), rows, false, &page), MW_CORRUPT);
    assert_int_equal(m.alive, 0);
}

/* C29: two lengths whose sum passes 2^32 (or 2^64) are compared one by one with what is left. */
static void lengths_that_wrap_are_refused(void **state)
{
    (void)state;
    const uint8_t least_and_more[] = {MW_PAGE_TEXTS, 0xff, 0xff, 0xff, 0xff, 64,
                                      1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'};
    const uint8_t two[] = {MW_PAGE_TEXTS, 0, 0, 0, 0, 32, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 'x'};
    const uint8_t wide[] = {MW_PAGE_TEXTS, 2, 0, 0, 0, 64,
                            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x'};
    const uint8_t shared_two[] = {MW_PAGE_SHARED, MW_TEXT, 0, 0, 0, 0, 32, 0xff, 0xff, 0xff, 0xff,
                                  2, 0, 0, 0, 0, 0, 0, 0, 0, 'x'};
    assert_refused(least_and_more, sizeof least_and_more, 1);
    assert_refused(two, sizeof two, 2);
    assert_refused(wide, sizeof wide, 1);
    assert_refused(shared_two, sizeof shared_two, 2);
}

/* A few bytes that would decode to a gigabyte. */
static void shared_beginnings_cannot_add_up(void **state)
{
    (void)state;
    /* 60000 texts of 20000 bytes, each the one before as a whole but the first. */
    static uint8_t raw[1 + 1 + 5 + 5 + 60000 * 2 + 20000];
    const uint8_t head[] = {MW_PAGE_SHARED, MW_TEXT, 0x20, 0x4e, 0, 0, 0, 0, 0, 0, 0, 16};
    memcpy(raw, head, sizeof head);
    for (int i = 1; i < 60000; i++) {
        raw[sizeof head + (size_t)i * 2] = 0x20;
        raw[sizeof head + (size_t)i * 2 + 1] = 0x4e;
    }
    assert_refused(raw, sizeof raw, 60000);
    /* Two are more than a page may have; one is allowed. */
    assert_refused(raw, sizeof head + 4 + 20000, 2);
    memory m;
    mw_page *page;
    memory_init(&m);
    mw_slice one = mw_slice_of(raw, sizeof head + 2 + 20000);
    assert_int_equal(decode(&m, one, 1, false, &page), MW_OK);
    assert_int_equal(mw_page_bytes(page, 0).size, 20000);
    mw_free(&m.env, page);
}

static void values_that_are_not_there_are_refused(void **state)
{
    (void)state;
    const uint8_t more_shared[] = {MW_PAGE_SHARED, MW_TEXT, 2, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 3,
                                   'a', 'b', 'c', 'd'};
    const uint8_t first_shared[] = {MW_PAGE_SHARED, MW_TEXT, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 'a', 'b'};
    const uint8_t index[] = {MW_PAGE_FEW, 2, 2, 2, MW_PAGE_TEXTS, 1, 0, 0, 0, 0, 'a', 'b'};
    const uint8_t none[] = {MW_PAGE_FEW, 0, 0, MW_PAGE_TEXTS, 1, 0, 0, 0, 0};
    const uint8_t nested[] = {MW_PAGE_FEW, 1, 0, MW_PAGE_FEW, 1, 0, MW_PAGE_TEXTS, 1, 0, 0, 0, 0, 'a'};
    const uint8_t type[] = {MW_PAGE_MIXED, 3, 2, 2};
    const uint8_t spare[] = {MW_PAGE_MIXED, 1, 1, 2};
    assert_refused(more_shared, sizeof more_shared, 2);
    assert_refused(first_shared, sizeof first_shared, 1);
    assert_refused(index, sizeof index, 1);
    assert_refused(none, sizeof none, 1);
    assert_refused(nested, sizeof nested, 1);
    assert_refused(type, sizeof type, 1);
    assert_refused(spare, sizeof spare, 1);
}

static void unknown_encodings_are_refused(void **state)
{
    (void)state;
    const uint8_t unknown[] = {MW_PAGE_SHARED + 1, 0, 0};
    const uint8_t width[] = {MW_PAGE_INTEGERS, 1, 0, 0, 0, 0, 0, 0, 0, 0, 65, 1, 2, 3,
                             4, 5, 6, 7, 8, 9};
    const uint8_t type[] = {MW_PAGE_CONSTANT, MW_BLOB + 1};
    const uint8_t digits[] = {MW_PAGE_DECIMALS, 16, MW_PAGE_INTEGERS, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t inner[] = {MW_PAGE_DECIMALS, 1, MW_PAGE_REALS, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_refused(unknown, sizeof unknown, 1);
    assert_refused(width, sizeof width, 1);
    assert_refused(type, sizeof type, 1);
    assert_refused(digits, sizeof digits, 1);
    assert_refused(inner, sizeof inner, 1);
}

/* The widest page that a writer makes: every row of a group in it, or as many bytes as fit. */
static void the_largest_pages_come_back(void **state)
{
    (void)state;
    memory m;
    const uint32_t rows = MW_GROUP_ROWS_MAX;
    memory_init(&m);
    uint8_t *types = malloc(rows);
    uint64_t *slots = malloc(rows * sizeof *slots);
    for (int kind = 0; kind < 3; kind++) {
        mw_page_encoder encoder;
        mw_buf buf;
        mw_page *page;
        uint64_t x = 1;
        for (uint32_t i = 0; i < rows; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            types[i] = kind == 2 && i % 2 ? MW_NULL : MW_INTEGER;
            slots[i] = types[i] == MW_NULL ? 0 : kind ? x >> 63 : x;
        }
        mw_cells run = {types, slots, NULL, rows};
        mw_page_encoder_init(&encoder, &m.env);
        mw_buf_init(&buf, &m.env);
        mw_page_encode(&encoder, &buf, &run, false, MW_FORM_TIGHT);
        assert_int_equal(decode(&m, mw_buf_slice(&buf), rows, false, &page), MW_OK);
        for (uint32_t i = 0; i < rows; i++) {
            mw_value value = {.type = MW_NULL};
            mw_page_value(page, i, &value);
            assert_int_equal(value.type, types[i]);
            if (types[i] == MW_INTEGER) assert_true((uint64_t)value.integer == slots[i]);
        }
        mw_free(&m.env, page);
        mw_buf_free(&buf);
        mw_page_encoder_free(&encoder);
    }
    free(types);
    free(slots);
    assert_int_equal(m.alive, 0);
}

/* Each allocation of encoding and decoding fails once. */
static void no_memory_for_a_page_is_said(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        static cells from;
        bool key = fill_kind(&from, kind), clean = false;
        for (uint64_t nth = 1; !clean; nth++) {
            memory m;
            mw_buf buf;
            mw_page *page = NULL;
            mw_page_encoder encoder;
            memory_init(&m);
            mw_cells run = {from.types, from.slots, from.bytes, from.count};
            mw_page_encoder_init(&encoder, &m.env);
            mw_buf_init(&buf, &m.env);
            memory_refuse(&m, nth);
            mw_page_encode(&encoder, &buf, &run, key, MW_FORM_TIGHT);
            mw_rc rc = MW_NOMEM;
            if (!buf.failed) rc = decode(&m, mw_buf_slice(&buf), from.count, key, &page);
            clean = rc == MW_OK;
            if (!clean) assert_int_equal(rc, MW_NOMEM);
            if (page) check_values(&from, page);
            mw_free(&m.env, page);
            mw_buf_free(&buf);
            mw_page_encoder_free(&encoder);
            assert_int_equal(m.alive, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_values_are_stored_once),
        cmocka_unit_test(minus_zero_is_not_zero),
        cmocka_unit_test(integers_take_the_bits_of_their_range),
        cmocka_unit_test(every_width_of_numbers_is_read_back),
        cmocka_unit_test(even_steps_take_no_room),
        cmocka_unit_test(what_all_have_in_common_is_divided_out),
        cmocka_unit_test(decimals_are_integers_when_they_give_the_same_bits),
        cmocka_unit_test(reals_of_every_kind_keep_their_bits),
        cmocka_unit_test(few_values_are_stored_once),
        cmocka_unit_test(keys_share_the_beginning_of_the_one_before),
        cmocka_unit_test(keys_are_never_a_constant),
        cmocka_unit_test(texts_and_blobs_keep_their_bytes),
        cmocka_unit_test(mixed_types_keep_their_types),
        cmocka_unit_test(every_encoding_is_among_the_kinds),
        cmocka_unit_test(wrong_size_is_refused),
        cmocka_unit_test(every_flipped_bit_does_no_harm),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(lengths_that_wrap_are_refused),
        cmocka_unit_test(shared_beginnings_cannot_add_up),
        cmocka_unit_test(values_that_are_not_there_are_refused),
        cmocka_unit_test(unknown_encodings_are_refused),
        cmocka_unit_test(the_largest_pages_come_back),
        cmocka_unit_test(no_memory_for_a_page_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
