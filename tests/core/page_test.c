/* page_test.c: a page gives back the very values that went in, and takes no bytes that are not
** one. */
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

static void encode(memory *m, const cells *from, bool key, mw_buf *to)
{
    mw_cells run = {from->types, from->slots, from->bytes, from->count};
    mw_buf_init(to, &m->env);
    mw_page_encode(to, &run, key);
    assert_false(to->failed);
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

/* Encodes, checks the encoding, decodes, compares each value. Returns the encoded size. */
static size_t check_round(const cells *from, bool key, uint8_t encoding)
{
    memory m;
    mw_buf buf;
    mw_page *page;
    memory_init(&m);
    encode(&m, from, key, &buf);
    assert_int_equal(buf.data[0], encoding);
    assert_int_equal(decode(&m, mw_buf_slice(&buf), from->count, key, &page), MW_OK);
    size_t at = 0, size = buf.size;
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
    mw_free(&m.env, page);
    mw_buf_free(&buf);
    assert_int_equal(m.alive, 0);
    return size;
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

static void integers_take_the_width_of_their_range(void **state)
{
    (void)state;
    const struct {
        int64_t low, high;
        size_t width;
    } ranges[] = {{-5, 250, 1}, {0, 256, 2}, {INT32_MIN, INT32_MAX, 4}, {INT64_MIN, INT64_MAX, 8}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        cells from = {.count = 0};
        for (int i = 0; i < 100; i++) {
            /* Up and down, so that differences are no narrower. */
            int64_t middle = ranges[r].low / 2 + ranges[r].high / 2;
            int64_t steps[] = {ranges[r].low, ranges[r].high, middle};
            add(&from, integer(steps[i % 3]));
        }
        assert_int_equal(check_round(&from, false, MW_PAGE_INTEGERS), 10 + 100 * ranges[r].width);
    }
}

static void even_steps_take_no_room(void **state)
{
    (void)state;
    cells up = {.count = 0}, down = {.count = 0};
    for (int i = 0; i < 100; i++) add(&up, integer(INT64_MAX - 700 + i * 7));
    for (int i = 0; i < 100; i++) add(&down, integer(1000 - i));
    assert_int_equal(check_round(&up, true, MW_PAGE_DELTAS), 18);
    assert_int_equal(check_round(&down, false, MW_PAGE_DELTAS), 18);
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
        add(&texts, bytes(MW_TEXT, "\0\xff zero", i % 8));
        add(&blobs, bytes(MW_BLOB, "abcdefg", 7 - i % 8));
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

/* L5: whatever is cut off or put behind, the page is refused. */
static void wrong_size_is_refused(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    for (int kind = 0; kind < 5; kind++) {
        cells from = {.count = 0};
        mw_buf buf;
        mw_page *page;
        for (int i = 0; i < 20 && kind < 4; i++) {
            if (kind == 0) add(&from, integer(i * i * i));
            if (kind == 1) add(&from, real(i));
            if (kind == 2) add(&from, bytes(MW_TEXT, "abcdef", (size_t)i % 7));
            if (kind == 3) add(&from, integer(5));
        }
        if (kind == 4) fill_mixed(&from);
        encode(&m, &from, false, &buf);
        for (size_t size = 0; size < buf.size; size++) {
            mw_slice cut = mw_slice_of(buf.data, size);
            assert_int_equal(decode(&m, cut, from.count, false, &page), MW_CORRUPT);
        }
        mw_buf_u8(&buf, 0);
        assert_int_equal(decode(&m, mw_buf_slice(&buf), from.count, false, &page), MW_CORRUPT);
        mw_buf_free(&buf);
    }
    assert_int_equal(m.alive, 0);
}

/* Any change of any byte gives a page or a refusal, never a read or write outside (ASan looks
** on). */
static void changed_bytes_do_no_harm(void **state)
{
    (void)state;
    memory m;
    cells from = {.count = 0};
    mw_buf buf;
    memory_init(&m);
    fill_mixed(&from);
    encode(&m, &from, false, &buf);
    for (size_t i = 0; i < buf.size; i++) {
        uint8_t changes[] = {1, 0x80, 0xff};
        for (size_t c = 0; c < sizeof changes; c++) {
            mw_page *page;
            buf.data[i] ^= changes[c];
            mw_rc rc = decode(&m, mw_buf_slice(&buf), from.count, false, &page);
            assert_true(rc == MW_OK || rc == MW_CORRUPT);
            for (uint32_t row = 0; page && row < from.count; row++) {
                mw_value value = {.type = MW_NULL};
                volatile uint8_t last = 0;
                mw_page_value(page, row, &value);
                if (value.bytes.size) last = value.bytes.data[value.bytes.size - 1];
                (void)last;
            }
            mw_free(&m.env, page);
            buf.data[i] ^= changes[c];
        }
    }
    mw_buf_free(&buf);
    assert_int_equal(m.alive, 0);
}

/* C29: two lengths whose sum passes 2^32 (or 2^64) are compared one by one with what is left. */
static void lengths_that_wrap_are_refused(void **state)
{
    (void)state;
    memory m;
    mw_page *page;
    memory_init(&m);
    const uint8_t least_and_more[] = {MW_PAGE_TEXTS, 8, 0xff, 0xff, 0xff, 0xff,
                                      1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'};
    const uint8_t two[] = {MW_PAGE_TEXTS, 4, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 'x'};
    const uint8_t wide[] = {MW_PAGE_TEXTS, 8, 2, 0, 0, 0,
                            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x'};
    mw_slice wraps = mw_slice_of(least_and_more, sizeof least_and_more);
    assert_int_equal(decode(&m, wraps, 1, false, &page), MW_CORRUPT);
    assert_int_equal(decode(&m, mw_slice_of(two, sizeof two), 2, false, &page), MW_CORRUPT);
    assert_int_equal(decode(&m, mw_slice_of(wide, sizeof wide), 1, false, &page), MW_CORRUPT);
    assert_int_equal(m.alive, 0);
}

static void unknown_encodings_are_refused(void **state)
{
    (void)state;
    memory m;
    mw_page *page;
    memory_init(&m);
    const uint8_t unknown[] = {MW_PAGE_MIXED + 1, 0, 0};
    const uint8_t width[] = {MW_PAGE_INTEGERS, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3};
    const uint8_t type[] = {MW_PAGE_CONSTANT, MW_BLOB + 1};
    assert_int_equal(decode(&m, mw_slice_of(unknown, sizeof unknown), 1, false, &page), MW_CORRUPT);
    assert_int_equal(decode(&m, mw_slice_of(width, sizeof width), 1, false, &page), MW_CORRUPT);
    assert_int_equal(decode(&m, mw_slice_of(type, sizeof type), 1, false, &page), MW_CORRUPT);
}

static void no_memory_is_said(void **state)
{
    (void)state;
    memory m;
    cells from = {.count = 0};
    mw_buf buf;
    mw_page *page;
    memory_init(&m);
    fill_mixed(&from);
    encode(&m, &from, false, &buf);
    memory_refuse(&m, 1);
    assert_int_equal(decode(&m, mw_buf_slice(&buf), from.count, false, &page), MW_NOMEM);
    assert_null(page);
    mw_buf_free(&buf);
    assert_int_equal(m.alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_values_are_stored_once),
        cmocka_unit_test(minus_zero_is_not_zero),
        cmocka_unit_test(integers_take_the_width_of_their_range),
        cmocka_unit_test(even_steps_take_no_room),
        cmocka_unit_test(keys_are_never_a_constant),
        cmocka_unit_test(texts_and_blobs_keep_their_bytes),
        cmocka_unit_test(mixed_types_keep_their_types),
        cmocka_unit_test(wrong_size_is_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(lengths_that_wrap_are_refused),
        cmocka_unit_test(unknown_encodings_are_refused),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
