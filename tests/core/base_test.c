/* base_test.c: slices. */
#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static mw_slice text(const char *s)
{
    return mw_slice_of(s, strlen(s));
}

static void equal_means_same_bytes(void **state)
{
    (void)state;
    assert_true(mw_slice_equal(text("abc"), text("abc")));
    assert_false(mw_slice_equal(text("abc"), text("abd")));
    assert_false(mw_slice_equal(text("abc"), text("ab")));
    assert_true(mw_slice_equal(mw_slice_of(NULL, 0), text("")));
    assert_true(mw_slice_equal(mw_slice_of("a\0b", 3), mw_slice_of("a\0b", 3)));
    assert_false(mw_slice_equal(mw_slice_of("a\0b", 3), mw_slice_of("a\0c", 3)));
}

static void order_is_unsigned_bytes_prefix_first(void **state)
{
    static const char *const ascending[] = {"", "a", "a\x01", "ab", "b", "\x7f", "\x80", "\xff"};
    (void)state;
    int count = (int)(sizeof ascending / sizeof *ascending);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            int order = mw_slice_compare(text(ascending[i]), text(ascending[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
    assert_int_equal(mw_slice_compare(mw_slice_of(NULL, 0), mw_slice_of(NULL, 0)), 0);
    assert_true(mw_slice_compare(mw_slice_of(NULL, 0), text("a")) < 0);
}

static void min_and_max_are_unsigned(void **state)
{
    (void)state;
    assert_true(mw_min(1, UINT64_MAX) == 1);
    assert_true(mw_max(1, UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_means_same_bytes),
        cmocka_unit_test(order_is_unsigned_bytes_prefix_first),
        cmocka_unit_test(min_and_max_are_unsigned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
