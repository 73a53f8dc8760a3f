/* coding_test.c: numbers and keys as bytes. */
#include "coding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Values at and around every power of two. */
static uint64_t edge(int i)
{
    return ((uint64_t)1 << (i / 3)) + (uint64_t)(i % 3) - 1;
}
enum { EDGES = 64 * 3 };

static void fixed_widths_come_back(void **state)
{
    uint8_t bytes[8];
    (void)state;
    for (int i = 0; i < EDGES; i++) {
        mw_put_u64(bytes, edge(i));
        assert_true(mw_get_u64(bytes) == edge(i));
        mw_put_u32(bytes, (uint32_t)edge(i));
        assert_true(mw_get_u32(bytes) == (uint32_t)edge(i));
        mw_put_u16(bytes, (uint16_t)edge(i));
        assert_true(mw_get_u16(bytes) == (uint16_t)edge(i));
    }
    mw_put_u32(bytes, 0x01020304);
    assert_memory_equal(bytes, "\x04\x03\x02\x01", 4);
}

static void varints_come_back_in_7_bits_a_byte(void **state)
{
    (void)state;
    for (int i = 0; i < EDGES; i++) {
        uint8_t bytes[MW_VARINT_BYTES];
        size_t size = mw_put_varint(bytes, edge(i));
        size_t bits = 0;
        while (bits < 64 && edge(i) >> bits) bits++;
        assert_int_equal(size, bits ? (bits + 6) / 7 : 1);
        mw_scan scan = mw_scan_of(mw_slice_of(bytes, size));
        assert_true(mw_scan_varint(&scan) == edge(i));
        assert_false(scan.failed);
        assert_int_equal(mw_scan_left(&scan), 0);
        for (size_t cut = 0; cut < size; cut++) {
            mw_scan torn = mw_scan_of(mw_slice_of(bytes, cut));
            assert_true(mw_scan_varint(&torn) == 0);
            assert_true(torn.failed);
        }
    }
}

static void varints_that_are_too_long_fail(void **state)
{
    static const char *const bad[] = {
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     /* 65 bits  */
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", /* 11 bytes */
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        mw_scan scan = mw_scan_of(mw_slice_of(bad[i], strlen(bad[i])));
        assert_true(mw_scan_varint(&scan) == 0);
        assert_true(scan.failed);
    }
}

/* Every size is checked against what remains. */
static void a_scan_fails_once_and_stays_at_the_end(void **state)
{
    (void)state;
    mw_scan scan = mw_scan_of(mw_slice_of("\x01\x02\x03\x04\x05", 5));
    assert_int_equal(mw_scan_u16(&scan), 0x0201);
    assert_int_equal(mw_scan_u32(&scan), 0);
    assert_true(scan.failed);
    assert_int_equal(mw_scan_left(&scan), 0);
    assert_int_equal(mw_scan_u8(&scan), 0);
    assert_int_equal(mw_scan_u16(&scan), 0);
    assert_true(mw_scan_u64(&scan) == 0);
    assert_true(mw_scan_varint(&scan) == 0);
    assert_int_equal(mw_scan_take(&scan, 1).size, 0);
    assert_int_equal(mw_scan_bytes(&scan).size, 0);
}

static void a_scan_reads_all_kinds(void **state)
{
    (void)state;
    static const char bytes[] = "\x07\x02\x01\x08\x07\x06\x05\x04\x03\x02\x01\x02xyz";
    mw_scan scan = mw_scan_of(mw_slice_of(bytes, sizeof bytes - 1));
    assert_int_equal(mw_scan_u8(&scan), 7);
    assert_int_equal(mw_scan_u16(&scan), 0x0102);
    assert_true(mw_scan_u64(&scan) == 0x0102030405060708);
    assert_true(mw_slice_equal(mw_scan_bytes(&scan), mw_slice_of("xy", 2)));
    assert_true(mw_slice_equal(mw_scan_take(&scan, 1), mw_slice_of("z", 1)));
    assert_false(scan.failed);
    assert_int_equal(mw_scan_take(&scan, 0).size, 0);
    assert_false(scan.failed);
}

static void lengths_beyond_the_end_fail(void **state)
{
    (void)state;
    mw_scan huge = mw_scan_of(mw_slice_of("abc", 3));
    assert_null(mw_scan_take(&huge, UINT64_MAX).data);
    assert_true(huge.failed);
    mw_scan bytes = mw_scan_of(mw_slice_of("\x04" "abc", 4));
    assert_int_equal(mw_scan_bytes(&bytes).size, 0);
    assert_true(bytes.failed);
    mw_scan empty = mw_scan_of(mw_slice_of(NULL, 0));
    assert_int_equal(mw_scan_left(&empty), 0);
    assert_int_equal(mw_scan_u8(&empty), 0);
    assert_true(empty.failed);
}

static void integer_keys_sort_as_their_values(void **state)
{
    int64_t values[2 * EDGES + 1];
    int count = 0;
    (void)state;
    for (int i = EDGES - 1; i >= 0; i--) values[count++] = -(int64_t)(edge(i) >> 1) - 1;
    for (int i = 0; i < EDGES; i++) values[count++] = (int64_t)(edge(i) >> 1);
    for (int i = 0; i < count; i++) {
        uint8_t a[MW_INTEGER_KEY_BYTES];
        mw_key_put_integer(a, values[i]);
        assert_true(mw_key_get_integer(a) == values[i]);
        for (int j = 0; j < count; j++) {
            uint8_t b[MW_INTEGER_KEY_BYTES];
            mw_key_put_integer(b, values[j]);
            int order = memcmp(a, b, sizeof a);
            assert_int_equal((order > 0) - (order < 0),
                             (values[i] > values[j]) - (values[i] < values[j]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_widths_come_back),
        cmocka_unit_test(varints_come_back_in_7_bits_a_byte),
        cmocka_unit_test(varints_that_are_too_long_fail),
        cmocka_unit_test(a_scan_fails_once_and_stays_at_the_end),
        cmocka_unit_test(a_scan_reads_all_kinds),
        cmocka_unit_test(lengths_beyond_the_end_fail),
        cmocka_unit_test(integer_keys_sort_as_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
