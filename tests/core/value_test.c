/* value_test.c: rows as bytes, and the order of values. */
#include "value.h"

#include "coding.h"
#include "sim.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static mw_value null_of(void) { return (mw_value){.type = MW_NULL}; }
static mw_value integer_of(int64_t i) { return (mw_value){.type = MW_INTEGER, .integer = i}; }
static mw_value real_of(double r) { return (mw_value){.type = MW_REAL, .real = r}; }
static mw_value text_of(const char *s)
{
    return (mw_value){.type = MW_TEXT, .bytes = mw_slice_of(s, strlen(s))};
}
static mw_value blob_of(const void *data, size_t size)
{
    return (mw_value){.type = MW_BLOB, .bytes = mw_slice_of(data, size)};
}

/* Exactly as large as the row, so that a read behind its end is seen by the sanitizer. */
static mw_slice encode(mw_buf *buf, const mw_value *values, uint32_t count)
{
    mw_buf work;
    mw_buf_init(&work, buf->env);
    mw_row_encode(&work, values, count);
    assert_int_equal(mw_buf_check(&work, NULL), MW_OK);
    buf->data = mw_resize(buf->env, buf->data, work.size);
    assert_non_null(buf->data);
    buf->size = buf->capacity = work.size;
    if (work.size) memcpy(buf->data, work.data, work.size);
    mw_buf_free(&work);
    return mw_buf_slice(buf);
}

/* The bytes that the format's description gives. */
static void bytes_are_tags_then_bodies(void **state)
{
    static const uint8_t expected[] = {
        0, 9, 1, 2, 8, 10, 15, 16, 11,
    };
    const mw_value values[] = {
        null_of(),           integer_of(0), integer_of(-1),     integer_of(300),
        integer_of(INT64_MIN), real_of(1.0),  text_of("ab"),      blob_of("\x01\x02", 2),
        text_of(""),
    };
    static const uint8_t bodies[] = {
        0xff, 0x2c, 0x01, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 'a', 'b', 1, 2,
    };
    (void)state;
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_slice row = encode(&buf, values, 9);
    assert_int_equal(row.size, 9 + sizeof bodies);
    assert_memory_equal(row.data, expected, 9);
    assert_memory_equal(row.data + 9, bodies, sizeof bodies);
    mw_buf_free(&buf);
}

static void rows_come_back(void **state)
{
    static const char long_text[5000] = "long";
    (void)state;
    mw_value values[600];
    uint32_t count = 0;
    values[count++] = null_of();
    for (int bit = 0; bit < 64; bit++) {
        for (int step = -1; step <= 1; step++) {
            uint64_t bits = ((uint64_t)1 << bit) + (uint64_t)step;
            values[count++] = integer_of((int64_t)bits);
            values[count++] = integer_of((int64_t)(0 - bits));
        }
    }
    for (uint32_t i = 0; i < 100; i++) {
        values[count++] = blob_of(long_text, i);
        values[count++] = blob_of(long_text, i);
        values[count - 1].type = MW_TEXT;
    }
    values[count++] = blob_of(long_text, sizeof long_text);
    values[count++] = real_of(-0.0);
    values[count++] = real_of(1e300);
    values[count++] = integer_of(7); /* a short body at the very end of the row */

    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_slice row = encode(&buf, values, count);
    mw_value all[600];
    assert_int_equal(mw_row_decode(row, count, all, NULL), MW_OK);
    for (uint32_t i = 0; i < count; i++) {
        mw_value one;
        assert_int_equal(mw_row_column(row, count, i, &one, NULL), MW_OK);
        assert_true(mw_value_equal(&one, &values[i]));
        assert_true(mw_value_equal(&all[i], &values[i]));
    }
    mw_buf_free(&buf);
}

static void a_row_without_columns_is_empty(void **state)
{
    (void)state;
    mw_value none;
    assert_int_equal(mw_row_decode(mw_slice_of(NULL, 0), 0, &none, NULL), MW_OK);
    assert_int_equal(mw_row_decode(mw_slice_of("x", 1), 0, &none, NULL), MW_CORRUPT);
}

/* I9: whatever the bytes, an answer inside the row or corrupt. */
static void damaged_rows_are_corrupt_or_stay_inside(void **state)
{
    const mw_value values[] = {integer_of(70000), text_of("hello"), null_of(), real_of(2.5),
                               blob_of("xyz", 3)};
    (void)state;
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_slice row = encode(&buf, values, 5);
    mw_value all[5];
    for (size_t cut = 0; cut < row.size; cut++) {
        mw_err err = {0};
        assert_int_equal(mw_row_decode(mw_slice_of(row.data, cut), 5, all, &err), MW_CORRUPT);
        assert_int_equal(err.rc, MW_CORRUPT);
    }
    assert_int_equal(mw_row_decode(row, 4, all, NULL), MW_CORRUPT);
    for (size_t at = 0; at < row.size; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            uint8_t kept = buf.data[at];
            buf.data[at] = (uint8_t)byte;
            bool whole = mw_row_decode(row, 5, all, NULL) == MW_OK;
            bool storable = whole;
            for (uint32_t i = 0; whole && i < 5; i++) {
                if (all[i].type == MW_REAL && isnan(all[i].real)) storable = false;
            }
            assert_int_equal(mw_row_whole(row, 5), storable);
            for (uint32_t i = 0; i < 5; i++) {
                mw_value one;
                assert_int_equal(mw_row_column(row, 5, i, &one, NULL) == MW_OK, whole);
                if (!whole || all[i].bytes.size == 0) continue;
                assert_true(all[i].bytes.data >= row.data);
                assert_true(all[i].bytes.data + all[i].bytes.size <= row.data + row.size);
            }
            buf.data[at] = kept;
        }
    }
    mw_buf_free(&buf);
}

static void lengths_that_wrap_are_corrupt(void **state)
{
    (void)state;
    /* Two texts whose lengths add up to 2^64 or so. */
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_buf_varint(&buf, UINT64_MAX);
    mw_buf_varint(&buf, UINT64_MAX);
    mw_buf_u16(&buf, 0);
    mw_value values[2];
    assert_int_equal(mw_row_decode(mw_buf_slice(&buf), 2, values, NULL), MW_CORRUPT);
    assert_int_equal(mw_row_column(mw_buf_slice(&buf), 2, 0, values, NULL), MW_CORRUPT);
    mw_buf_free(&buf);
}

static void no_memory_sticks_in_the_buffer(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_buf buf;
    mw_buf_init(&buf, sim_env(world));
    sim_fail(world, SIM_ALLOC, 1, ENOMEM, false);
    mw_value value = text_of("abc");
    mw_row_encode(&buf, &value, 1);
    assert_int_equal(mw_buf_check(&buf, NULL), MW_NOMEM);
    mw_buf_free(&buf);
    sim_destroy(world);
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void order_is_that_of_sqlite(void **state)
{
    /* Ascending; where the marks are the same, the values are equal. */
    const struct {
        int mark;
        mw_value value;
    } ladder[] = {
        {0, null_of()},
        {1, real_of(-1e300)},
        {2, integer_of(INT64_MIN)},
        {2, real_of(-9223372036854775808.0)},
        {3, integer_of(INT64_MIN + 1)},
        {4, real_of(-1.5)},
        {5, integer_of(-1)},
        {6, real_of(-0.5)},
        {7, integer_of(0)},
        {7, real_of(-0.0)},
        {7, real_of(0.0)},
        {8, real_of(0.5)},
        {9, integer_of(1)},
        {9, real_of(1.0)},
        {10, integer_of(9007199254740992)},
        {10, real_of(9007199254740992.0)},
        {11, integer_of(9007199254740993)}, /* no double has this value */
        {12, integer_of(9007199254740994)},
        {12, real_of(9007199254740994.0)},
        {13, integer_of(INT64_MAX)},
        {14, real_of(9223372036854775808.0)},
        {15, text_of("")},
        {16, text_of("10")},
        {17, text_of("9")},
        {18, text_of("a")},
        {19, text_of("\xc3\xa4")},
        {20, blob_of(NULL, 0)},
        {21, blob_of("\0", 1)},
        {22, blob_of("a", 1)},
    };
    (void)state;
    size_t count = sizeof ladder / sizeof *ladder;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            assert_int_equal(sign(mw_value_compare(&ladder[i].value, &ladder[j].value)),
                             sign(ladder[i].mark - ladder[j].mark));
        }
    }
}

static void equal_means_stored_the_same(void **state)
{
    (void)state;
    mw_value one = integer_of(1);
    mw_value real_one = real_of(1.0);
    mw_value zero = real_of(0.0);
    mw_value minus_zero = real_of(-0.0);
    mw_value text = text_of("a");
    mw_value blob = blob_of("a", 1);
    mw_value null = null_of();
    assert_true(mw_value_equal(&one, &one));
    assert_true(mw_value_equal(&null, &null));
    assert_false(mw_value_equal(&one, &real_one));
    assert_false(mw_value_equal(&zero, &minus_zero));
    assert_false(mw_value_equal(&text, &blob));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_tags_then_bodies),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(a_row_without_columns_is_empty),
        cmocka_unit_test(damaged_rows_are_corrupt_or_stay_inside),
        cmocka_unit_test(lengths_that_wrap_are_corrupt),
        cmocka_unit_test(no_memory_sticks_in_the_buffer),
        cmocka_unit_test(order_is_that_of_sqlite),
        cmocka_unit_test(equal_means_stored_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
