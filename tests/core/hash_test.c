/* hash_test.c: checksums. Formats depend on these very values. */
#include "hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Values of the reference program (xxhsum -H3). */
static void values_are_those_of_xxh3_64(void **state)
{
    (void)state;
    assert_true(mw_hash(NULL, 0, 0) == 0x2d06800538d394c2u);
    assert_true(mw_hash("a", 1, 0) == 0xe6c632b61e964e1fu);
    assert_true(mw_hash("abc", 3, 0) == 0x78af5f94892f3950u);
}

static void every_bit_and_the_seed_count(void **state)
{
    uint8_t bytes[300];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
    uint64_t before = mw_hash(bytes, sizeof bytes, 5);
    assert_true(mw_hash(bytes, sizeof bytes, 6) != before);
    assert_true(mw_hash(bytes, sizeof bytes - 1, 5) != before);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ (1u << (bit % 8)));
        assert_true(mw_hash(bytes, sizeof bytes, 5) != before);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ (1u << (bit % 8)));
    }
    assert_true(mw_hash(bytes, sizeof bytes, 5) == before);
}

/* I9: bytes of another store, epoch or file never pass a check. */
static void seeds_bind_store_epoch_and_number(void **state)
{
    (void)state;
    mw_store_id a = {{1, 2, 3}};
    mw_store_id b = {{1, 2, 4}};
    uint64_t seed = mw_hash_seed(&a, 1, 2);
    assert_true(mw_hash_seed(&a, 1, 2) == seed);
    assert_true(mw_hash_seed(&b, 1, 2) != seed);
    assert_true(mw_hash_seed(&a, 2, 2) != seed);
    assert_true(mw_hash_seed(&a, 1, 3) != seed);
    assert_true(mw_hash_seed(&a, 2, 1) != seed);
    /* The bytes that are hashed: identity, then both numbers in little-endian. */
    static const uint8_t spelled[32] = {1, 2, 3, [16] = 1, [24] = 2};
    assert_true(mw_hash(spelled, sizeof spelled, 0) == seed);
}

static void the_version_is_known(void **state)
{
    (void)state;
    assert_true(mw_hash_version() >= 800); /* XXH3 is stable from 0.8.0 on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_xxh3_64),
        cmocka_unit_test(every_bit_and_the_seed_count),
        cmocka_unit_test(seeds_bind_store_epoch_and_number),
        cmocka_unit_test(the_version_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
