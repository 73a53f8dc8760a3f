/* cover_test.c: a dictionary holds what a sample repeats. */
#include "cover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"

enum { SAMPLE = 1 << 20, ROOM = 16384 };

static uint8_t sample[SAMPLE];
static uint8_t made[ROOM], again[ROOM];

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void fill_noise(void)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < SAMPLE; i++) sample[i] = (uint8_t)(next(&x) >> 32);
}

static bool holds(const uint8_t *data, size_t size, const char *words)
{
    return memmem(data, size, words, strlen(words)) != NULL;
}

static void what_repeats_is_taken(void **state)
{
    (void)state;
    memory m;
    static const char often[] = "\"status\":\"the run has been cancelled by its owner\"";
    static const char rare[] = "\"status\":\"once upon a time\"";
    memory_init(&m);
    fill_noise();
    for (size_t at = 5000; at + 5000 < SAMPLE; at += 3001) memcpy(sample + at, often, sizeof often);
    memcpy(sample + 777, rare, sizeof rare);
    size_t size = mw_cover_select(&m.env, mw_slice_of(sample, SAMPLE), made, ROOM);
    assert_in_range(size, 1, ROOM);
    assert_true(holds(made, size, often));
    assert_false(holds(made, size, rare));
    /* The same sample gives the same bytes. */
    assert_int_equal(mw_cover_select(&m.env, mw_slice_of(sample, SAMPLE), again, ROOM), size);
    assert_memory_equal(made, again, size);
    assert_int_equal(m.alive, 0);
}

static void noise_gives_next_to_nothing(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    for (size_t i = 0; i < SAMPLE; i++) sample[i] = 0;
    assert_true(mw_cover_select(&m.env, mw_slice_of(sample, SAMPLE), made, ROOM) <= 400);
    assert_int_equal(m.alive, 0);
}

/* Samples of all sizes about the least, in memory of the exact size: the sanitizer looks on. */
static void short_samples_do_no_harm(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    fill_noise();
    for (size_t size = 0; size < 2000; size += size < 420 ? 1 : 97) {
        for (size_t room = 0; room < 900; room += room < 10 ? 1 : 199) {
            uint8_t *exact = malloc(size + !size), *to = malloc(room + !room);
            for (size_t i = 0; i < size; i++) exact[i] = sample[i % 50];
            size_t took = mw_cover_select(&m.env, mw_slice_of(exact, size), to, room);
            assert_true(took <= room);
            if (size < 2 * room) assert_int_equal(took, 0);
            free(exact);
            free(to);
        }
    }
    assert_int_equal(m.alive, 0);
}

static void no_memory_gives_no_dictionary(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    memory_refuse(&m, 1);
    fill_noise();
    for (size_t at = 1000; at < SAMPLE; at += 1000) {
        memcpy(sample + at, sample, SAMPLE - at < 1000 ? SAMPLE - at : 1000);
    }
    assert_int_equal(mw_cover_select(&m.env, mw_slice_of(sample, SAMPLE), made, ROOM), 0);
    assert_int_equal(m.alive, 0);
    assert_true(mw_cover_select(&m.env, mw_slice_of(sample, SAMPLE), made, ROOM) > 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_is_taken),
        cmocka_unit_test(noise_gives_next_to_nothing),
        cmocka_unit_test(short_samples_do_no_harm),
        cmocka_unit_test(no_memory_gives_no_dictionary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
