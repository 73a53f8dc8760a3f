/* filter_test.c: the filter never denies what was added, and passes about one in a hundred else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "filter.h"

static uint64_t hash_of(uint64_t i)
{
    uint64_t z = i * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* I9, half of it: an id of the file is never reported as absent. */
static void what_was_added_is_never_denied(void **state)
{
    (void)state;
    for (uint64_t ids = 1; ids < 3000; ids = ids * 2 + 1) {
        uint64_t bytes = mw_filter_bytes(ids);
        uint8_t *filter = calloc(1, bytes);
        for (uint64_t i = 0; i < ids; i++) mw_filter_add(filter, bytes, hash_of(i));
        for (uint64_t i = 0; i < ids; i++) {
            assert_true(mw_filter_may_hold(filter, bytes, hash_of(i)));
        }
        free(filter);
    }
}

static void few_absent_ids_pass(void **state)
{
    (void)state;
    const uint64_t ids = 100000;
    uint64_t bytes = mw_filter_bytes(ids), passed = 0;
    uint8_t *filter = calloc(1, bytes);
    for (uint64_t i = 0; i < ids; i++) mw_filter_add(filter, bytes, hash_of(i));
    for (uint64_t i = ids; i < 2 * ids; i++) {
        passed += mw_filter_may_hold(filter, bytes, hash_of(i));
    }
    assert_in_range(passed, 1, ids / 50);
    free(filter);
}

static void ten_bits_an_id_in_whole_blocks(void **state)
{
    (void)state;
    assert_int_equal(mw_filter_bytes(0), 0);
    assert_int_equal(mw_filter_bytes(1), 64);
    assert_int_equal(mw_filter_bytes(51), 64);
    assert_int_equal(mw_filter_bytes(52), 128);
    assert_int_equal(mw_filter_bytes(1000000), 1250048 - 1250048 % 64);
}

static void empty_filter_denies_all(void **state)
{
    (void)state;
    assert_false(mw_filter_may_hold(NULL, 0, 12345));
}

/* The bits are part of the format. */
static void bits_are_where_the_format_says(void **state)
{
    (void)state;
    uint8_t filter[128] = {0};
    mw_filter_add(filter, sizeof filter, 0xffffffff00000001u);
    for (uint32_t word = 0; word < 8; word++) {
        assert_true(mw_get_u64(filter + 8 * word) == 0); /* the other block */
        uint32_t bit = mw_filter_salts[word] >> 26;
        assert_true(mw_get_u64(filter + 64 + 8 * word) == (uint64_t)1 << bit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_never_denied),
        cmocka_unit_test(few_absent_ids_pass),
        cmocka_unit_test(ten_bits_an_id_in_whole_blocks),
        cmocka_unit_test(empty_filter_denies_all),
        cmocka_unit_test(bits_are_where_the_format_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
