/* codec_test.c: compression. */
#include "codec.h"

#include "sim.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 32768 };

static void fill_words(uint8_t *to, size_t bytes)
{
    static const char words[] = "{\"reward\":0.5,\"tokens\":1234,\"body\":\"the quick brown fox\"}";
    for (size_t i = 0; i < bytes; i++) {
        to[i] = i % 97 == 0 ? (uint8_t)('0' + i % 10) : (uint8_t)words[i % (sizeof words - 1)];
    }
}

static void fill_noise(uint8_t *to, size_t bytes)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        to[i] = (uint8_t)(x >> 32);
    }
}

static void pages_come_back_at_every_level(void **state)
{
    static uint8_t page[PAGE];
    static uint8_t back[PAGE];
    (void)state;
    uint8_t *small = malloc(mw_codec_bound(PAGE));
    assert_non_null(small);
    mw_codec *codec = mw_codec_create(mw_env_posix());
    assert_non_null(codec);
    fill_words(page, PAGE);
    for (int level = 1; level <= 19; level += 3) {
        size_t size = mw_codec_compress(codec, mw_slice_of(page, PAGE), small,
                                        mw_codec_bound(PAGE), level);
        assert_in_range(size, 1, PAGE / 4);
        assert_true(mw_codec_decompress(codec, mw_slice_of(small, size), back, PAGE));
        assert_memory_equal(page, back, PAGE);
    }
    mw_codec_destroy(codec);
    free(small);
}

static void what_does_not_save_an_eighth_is_refused(void **state)
{
    static uint8_t page[PAGE];
    static uint8_t small[PAGE + 1024];
    (void)state;
    mw_codec *codec = mw_codec_create(mw_env_posix());
    assert_non_null(codec);
    fill_noise(page, PAGE);
    assert_true(mw_codec_bound(PAGE) <= sizeof small);
    assert_int_equal(mw_codec_compress(codec, mw_slice_of(page, PAGE), small, sizeof small, 3), 0);
    memset(page, 0, PAGE / 16); /* saves a sixteenth: too little */
    assert_int_equal(mw_codec_compress(codec, mw_slice_of(page, PAGE), small, sizeof small, 3), 0);
    memset(page, 0, PAGE / 4);
    size_t size = mw_codec_compress(codec, mw_slice_of(page, PAGE), small, sizeof small, 3);
    assert_in_range(size, PAGE / 2, PAGE - PAGE / 8);
    assert_int_equal(mw_codec_compress(codec, mw_slice_of(page, PAGE), small, size / 2, 3), 0);
    assert_int_equal(mw_codec_compress(codec, mw_slice_of(page, 0), small, sizeof small, 3), 0);
    mw_codec_destroy(codec);
}

/* I9: no size or bytes but the right ones are taken. */
static void wrong_frames_are_refused(void **state)
{
    static uint8_t page[PAGE];
    static uint8_t small[PAGE + 1024];
    static uint8_t back[PAGE + 1];
    (void)state;
    mw_codec *codec = mw_codec_create(mw_env_posix());
    assert_non_null(codec);
    fill_words(page, PAGE);
    size_t size = mw_codec_compress(codec, mw_slice_of(page, PAGE), small, sizeof small, 3);
    assert_true(size > 0);
    assert_false(mw_codec_decompress(codec, mw_slice_of(small, size), back, PAGE - 1));
    assert_false(mw_codec_decompress(codec, mw_slice_of(small, size), back, PAGE + 1));
    assert_false(mw_codec_decompress(codec, mw_slice_of(small, size + 1), back, PAGE));
    for (size_t cut = 0; cut < size; cut++) {
        assert_false(mw_codec_decompress(codec, mw_slice_of(small, cut), back, PAGE));
    }
    memcpy(small + size, small, size); /* two frames */
    assert_false(mw_codec_decompress(codec, mw_slice_of(small, 2 * size), back, PAGE));
    small[0] ^= 1;
    assert_false(mw_codec_decompress(codec, mw_slice_of(small, size), back, PAGE));
    mw_codec_destroy(codec);
}

static void every_allocation_may_fail(void **state)
{
    static uint8_t page[PAGE];
    static uint8_t small[PAGE + 1024];
    (void)state;
    fill_words(page, PAGE);
    uint64_t nth = 0;
    bool clean = false;
    while (!clean) {
        sim *world = sim_create();
        sim_fail(world, SIM_ALLOC, ++nth, ENOMEM, false);
        mw_codec *codec = mw_codec_create(sim_env(world));
        size_t size = 0;
        if (codec) {
            size = mw_codec_compress(codec, mw_slice_of(page, PAGE), small, sizeof small, 3);
        }
        clean = sim_fail_hits(world) == 0;
        assert_int_equal(size != 0, clean);
        mw_codec_destroy(codec);
        assert_int_equal(sim_memory_in_use(world), 0);
        sim_destroy(world);
    }
    assert_true(nth > 3); /* the codec and two contexts at least */
}

static void the_version_is_known(void **state)
{
    (void)state;
    assert_int_equal(strncmp(mw_codec_version(), "1.", 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_back_at_every_level),
        cmocka_unit_test(what_does_not_save_an_eighth_is_refused),
        cmocka_unit_test(wrong_frames_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_version_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
