/* buf_test.c: growing buffers and their sticky failure. */
#include "buf.h"

#include "coding.h"
#include "sim.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void fields_land_in_order_little_endian(void **state)
{
    static const uint8_t expected[] = {0x01, 0x02, 0x01, 0x04, 0x03, 0x02, 0x01, 0x08,
                                       0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0xac,
                                       0x02, 0x03, 'a',  'b',  'c',  'd'};
    (void)state;
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_buf_u8(&buf, 0x01);
    mw_buf_u16(&buf, 0x0102);
    mw_buf_u32(&buf, 0x01020304);
    mw_buf_u64(&buf, 0x0102030405060708);
    mw_buf_varint(&buf, 300);
    mw_buf_bytes(&buf, mw_slice_of("abc", 3));
    mw_buf_put(&buf, "d", 1);
    mw_buf_put_slice(&buf, mw_slice_of(NULL, 0));
    assert_true(mw_slice_equal(mw_buf_slice(&buf), mw_slice_of(expected, sizeof expected)));
    assert_int_equal(mw_buf_check(&buf, NULL), MW_OK);
    mw_buf_free(&buf);
}

static void growth_keeps_what_was_put(void **state)
{
    (void)state;
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    for (uint32_t i = 0; i < 50000; i++) mw_buf_u32(&buf, i * 2654435761u);
    assert_int_equal(buf.size, 200000);
    for (uint32_t i = 0; i < 50000; i++) {
        assert_int_equal(mw_get_u32(buf.data + 4 * (size_t)i), i * 2654435761u);
    }
    mw_buf_free(&buf);
}

static void a_failure_sticks_and_keeps_the_prefix(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_buf buf;
    mw_buf_init(&buf, sim_env(world));
    mw_buf_put(&buf, "begin", 5);
    size_t room = buf.capacity - buf.size;
    sim_fail(world, SIM_ALLOC, 1, ENOMEM, false);
    for (size_t i = 0; i < room + 10; i++) mw_buf_u8(&buf, 'x');
    mw_buf_put(&buf, "after", 5); /* there is memory again, but the failure stays */
    assert_true(buf.failed);
    assert_int_equal(buf.size, 5 + room);
    assert_memory_equal(buf.data, "beginxxx", 8);
    mw_err err = {0};
    assert_int_equal(mw_buf_check(&buf, &err), MW_NOMEM);
    assert_int_equal(err.rc, MW_NOMEM);
    mw_buf_clear(&buf);
    mw_buf_put(&buf, "again", 5);
    assert_int_equal(mw_buf_check(&buf, NULL), MW_OK);
    assert_int_equal(buf.size, 5);
    mw_buf_free(&buf);
    assert_int_equal(sim_memory_in_use(world), 0);
    sim_destroy(world);
}

static void impossible_sizes_fail_without_overflow(void **state)
{
    (void)state;
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_buf_u8(&buf, 1);
    assert_false(mw_buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(mw_buf_check(&buf, NULL), MW_NOMEM);
    assert_int_equal(buf.size, 1);
    mw_buf_free(&buf);
}

static void reserved_room_needs_no_more_memory(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_buf buf;
    mw_buf_init(&buf, sim_env(world));
    assert_true(mw_buf_reserve(&buf, 1000));
    sim_fail(world, SIM_ALLOC, 1, ENOMEM, true);
    for (int i = 0; i < 1000; i++) mw_buf_u8(&buf, 7);
    assert_int_equal(mw_buf_check(&buf, NULL), MW_OK);
    mw_buf_free(&buf);
    sim_destroy(world);
}

static void free_takes_zeroed_and_freed(void **state)
{
    (void)state;
    mw_buf buf = {0};
    mw_buf_free(&buf);
    mw_buf_init(&buf, mw_env_posix());
    mw_buf_u8(&buf, 1);
    mw_buf_free(&buf);
    mw_buf_free(&buf);
    assert_int_equal(buf.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_land_in_order_little_endian),
        cmocka_unit_test(growth_keeps_what_was_put),
        cmocka_unit_test(a_failure_sticks_and_keeps_the_prefix),
        cmocka_unit_test(impossible_sizes_fail_without_overflow),
        cmocka_unit_test(reserved_room_needs_no_more_memory),
        cmocka_unit_test(free_takes_zeroed_and_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
