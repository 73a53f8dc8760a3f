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

/* A row of a page, and what all rows have in common. */
static void fill_rows(uint8_t *to, size_t bytes, uint64_t seed)
{
    static const char row[] = "{\"agent\":\"planner\",\"tool\":\"search\",\"arguments\":{\"query\":\"";
    for (size_t at = 0; at < bytes; at++) {
        size_t in_row = at % (sizeof row + 15);
        if (in_row == 0) seed = seed * 6364136223846793005u + 1442695040888963407u;
        to[at] = (uint8_t)(seed >> in_row % 8 * 7);
        if (in_row < sizeof row) to[at] = (uint8_t)row[in_row];
    }
}

static mw_codec_dictionary *make_dictionary(const uint8_t *raw, size_t bytes, int level)
{
    mw_codec_dictionary *made =
        mw_codec_dictionary_create(mw_env_posix(), mw_slice_of(raw, bytes), level);
    assert_non_null(made);
    return made;
}

static void a_dictionary_makes_short_pages_small(void **state)
{
    enum { SHORT = 1000, DICTIONARY = 4000 };
    static uint8_t page[SHORT], small[SHORT], back[SHORT], raw[DICTIONARY];
    (void)state;
    fill_rows(raw, DICTIONARY, 1);
    fill_rows(page, SHORT, 2);
    mw_codec_dictionary *in = make_dictionary(raw, DICTIONARY, 3);
    mw_codec_dictionary *out = make_dictionary(raw, DICTIONARY, 0);
    mw_codec *codec = mw_codec_create(mw_env_posix());
    assert_non_null(codec);
    assert_true(mw_codec_dictionary_bytes(in) > 0 && mw_codec_dictionary_bytes(out) > 0);
    mw_slice from = mw_slice_of(page, SHORT);
    size_t without = mw_codec_compress(codec, from, small, SHORT, 3);
    size_t size = mw_codec_compress_with(codec, in, from, small, SHORT);
    assert_true(size > 0 && size < without);
    assert_true(mw_codec_decompress_with(codec, out, mw_slice_of(small, size), back, SHORT));
    assert_memory_equal(page, back, SHORT);
    /* Another dictionary, or none, never gives the page; it may give a wrong one: checksums tell. */
    memset(back, 0, SHORT);
    (void)mw_codec_decompress(codec, mw_slice_of(small, size), back, SHORT);
    assert_memory_not_equal(page, back, SHORT);
    mw_codec_dictionary_destroy(in);
    mw_codec_dictionary_destroy(out);
    mw_codec_dictionary_destroy(NULL);
    mw_codec_destroy(codec);
}

/* A page that does not fit must not spoil the ones after it. */
static void what_does_not_fit_is_over(void **state)
{
    static uint8_t page[PAGE], small[PAGE], again[PAGE], raw[4000];
    (void)state;
    fill_rows(raw, sizeof raw, 1);
    fill_rows(page, PAGE, 2);
    mw_codec_dictionary *in = make_dictionary(raw, sizeof raw, 3);
    mw_codec *codec = mw_codec_create(mw_env_posix());
    assert_non_null(codec);
    mw_slice from = mw_slice_of(page, PAGE);
    size_t size = mw_codec_compress_with(codec, in, from, small, PAGE);
    assert_in_range(size, 1, PAGE / 2);
    assert_int_equal(mw_codec_compress_with(codec, in, from, again, size / 2), 0);
    assert_int_equal(mw_codec_compress_with(codec, in, from, again, PAGE), size);
    assert_memory_equal(small, again, size);
    assert_int_equal(mw_codec_compress_with(codec, in, from, again, 10), 0);
    /* The dictionary is gone, the codec goes on. */
    mw_codec_dictionary_destroy(in);
    assert_in_range(mw_codec_compress(codec, from, again, PAGE, 3), 1, PAGE / 2);
    mw_codec_destroy(codec);
}

/* I9: with a dictionary, too, no size or bytes but the right ones are taken. */
static void wrong_frames_with_a_dictionary_are_refused(void **state)
{
    enum { SHORT = 2000 };
    static uint8_t page[SHORT], small[SHORT + 1], back[SHORT + 1], raw[4000];
    (void)state;
    fill_rows(raw, sizeof raw, 1);
    fill_rows(page, SHORT, 2);
    mw_codec_dictionary *in = make_dictionary(raw, sizeof raw, 3);
    mw_codec_dictionary *out = make_dictionary(raw, sizeof raw, 0);
    mw_codec *codec = mw_codec_create(mw_env_posix());
    assert_non_null(codec);
    size_t size = mw_codec_compress_with(codec, in, mw_slice_of(page, SHORT), small, SHORT);
    assert_true(size > 0);
    mw_slice right = mw_slice_of(small, size);
    assert_false(mw_codec_decompress_with(codec, out, right, back, SHORT - 1));
    assert_false(mw_codec_decompress_with(codec, out, right, back, SHORT + 1));
    for (size_t cut = 0; cut < size; cut++) {
        mw_slice part = mw_slice_of(small, cut);
        assert_false(mw_codec_decompress_with(codec, out, part, back, SHORT));
    }
    assert_false(mw_codec_decompress_with(codec, out, mw_slice_of(small, size + 1), back, SHORT));
    for (size_t bit = 0; bit < size * 8; bit++) { /* no harm; the sanitizer looks on */
        small[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)mw_codec_decompress_with(codec, out, right, back, SHORT);
        small[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(mw_codec_decompress_with(codec, out, right, back, SHORT));
    assert_memory_equal(page, back, SHORT);
    mw_codec_dictionary_destroy(in);
    mw_codec_dictionary_destroy(out);
    mw_codec_destroy(codec);
}

static void a_dictionary_needs_memory(void **state)
{
    (void)state;
    static uint8_t raw[4000];
    fill_rows(raw, sizeof raw, 1);
    for (int level = 0; level <= 3; level += 3) {
        mw_codec_dictionary *made = NULL;
        uint64_t nth = 0;
        while (!made) {
            sim *world = sim_create();
            sim_fail(world, SIM_ALLOC, ++nth, ENOMEM, false);
            made = mw_codec_dictionary_create(sim_env(world), mw_slice_of(raw, sizeof raw), level);
            assert_int_equal(made != NULL, sim_fail_hits(world) == 0);
            mw_codec_dictionary_destroy(made);
            assert_int_equal(sim_memory_in_use(world), 0);
            sim_destroy(world);
        }
        assert_true(nth > 2);
    }
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
        cmocka_unit_test(a_dictionary_makes_short_pages_small),
        cmocka_unit_test(what_does_not_fit_is_over),
        cmocka_unit_test(wrong_frames_with_a_dictionary_are_refused),
        cmocka_unit_test(a_dictionary_needs_memory),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_version_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
