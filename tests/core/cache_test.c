/* cache_test.c: the cache keeps its bound, what is held, and what is asked for again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache.h"

static _Atomic long alive; /* allocations of the environment below */

static void *count_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    atomic_fetch_add(&alive, 1);
    return malloc(bytes);
}

static void count_release(void *ctx, void *old)
{
    (void)ctx;
    if (old) atomic_fetch_sub(&alive, 1);
    free(old);
}

static mw_env environment(void)
{
    mw_env env = *mw_env_posix();
    env.alloc = count_alloc;
    env.release = count_release;
    return env;
}

static mw_cache *create(const mw_env *env, uint64_t limit_bytes)
{
    mw_cache *cache;
    mw_err err = {.rc = MW_OK};
    assert_int_equal(mw_cache_create(env, limit_bytes, &cache, &err), MW_OK);
    return cache;
}

static void destroy(mw_cache *cache)
{
    mw_cache_destroy(cache);
    assert_int_equal(atomic_load(&alive), 0);
}

static mw_cached *put(mw_cache *cache, const mw_env *env, uint64_t file, uint64_t offset)
{
    uint64_t *content = mw_alloc(env, 1000);
    content[0] = file;
    content[1] = offset;
    return mw_cache_put(cache, file, offset, content, 1000);
}

static void put_and_let_go(mw_cache *cache, const mw_env *env, uint64_t file, uint64_t offset)
{
    mw_cache_release(cache, put(cache, env, file, offset));
}

static bool has(mw_cache *cache, uint64_t file, uint64_t offset)
{
    mw_cached *entry = mw_cache_find(cache, file, offset);
    if (!entry) return false;
    const uint64_t *content = mw_cached_content(entry);
    assert_true(content[0] == file && content[1] == offset);
    mw_cache_release(cache, entry);
    return true;
}

static uint64_t bytes_of(mw_cache *cache)
{
    uint64_t hits, misses, bytes;
    mw_cache_stats(cache, &hits, &misses, &bytes);
    return bytes;
}

static void what_was_put_is_found(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 8 << 20);
    for (uint64_t i = 0; i < 1000; i++) put_and_let_go(cache, &env, i % 3, i);
    for (uint64_t i = 0; i < 1000; i++) assert_true(has(cache, i % 3, i));
    assert_false(has(cache, 4, 1));
    assert_false(has(cache, 1, 2000));
    uint64_t hits, misses, bytes;
    mw_cache_stats(cache, &hits, &misses, &bytes);
    assert_int_equal(hits, 1000);
    assert_int_equal(misses, 2);
    assert_in_range(bytes, 1000 * 1000, 1000 * 1200);
    destroy(cache);
}

/* I14: memory stays under its limit. */
static void limit_is_kept(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 400000);
    for (uint64_t i = 0; i < 5000; i++) {
        put_and_let_go(cache, &env, 1, i * 4096);
        assert_in_range(bytes_of(cache), 0, 400000);
    }
    assert_in_range(bytes_of(cache), 200000, 400000);
    destroy(cache);
}

static void what_is_asked_for_again_survives_a_scan(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 800000);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < 50; i++) put_and_let_go(cache, &env, 1, i);
    for (uint64_t i = 0; i < 5000; i++) {
        put_and_let_go(cache, &env, 2, i); /* each once */
        if (i % 4 == 0) (void)has(cache, 1, i / 4 % 50);
    }
    for (uint64_t i = 0; i < 50; i++) kept += has(cache, 1, i);
    assert_true(kept >= 45);
    destroy(cache);
}

static void what_is_held_stays(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 100000);
    mw_cached *held[400];
    for (uint64_t i = 0; i < 400; i++) held[i] = put(cache, &env, 1, i);
    for (uint64_t i = 0; i < 400; i++) {
        const uint64_t *content = mw_cached_content(held[i]);
        assert_true(content[1] == i);
        mw_cache_release(cache, held[i]);
    }
    put_and_let_go(cache, &env, 2, 0);
    for (uint64_t i = 0; i < 400; i++) put_and_let_go(cache, &env, 2, i);
    assert_in_range(bytes_of(cache), 0, 100000);
    destroy(cache);
}

/* What is charged comes out of the limit, down to a quarter of it, and comes back. */
static void pages_leave_room_for_what_is_charged(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 400000);
    static const struct {
        uint64_t charged;
        uint64_t room;
        bool crowded;
    } cases[] = {{0, 400000, false},
                 {100000, 300000, false},
                 {300000, 100000, false},
                 {300001, 100000, true},
                 {9000000, 100000, true},
                 {0, 400000, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mw_cache_charge(cache, cases[i].charged);
        for (uint64_t offset = 0; offset < 2000; offset++) put_and_let_go(cache, &env, i, offset);
        assert_in_range(bytes_of(cache), cases[i].room * 3 / 4, cases[i].room);
        assert_int_equal(mw_cache_crowded(cache), cases[i].crowded);
        mw_cache_discharge(cache, cases[i].charged);
    }
    destroy(cache);
}

static void second_of_two_gets_the_first(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 1 << 20);
    mw_cached *first = put(cache, &env, 1, 2);
    mw_cached *second = put(cache, &env, 1, 2);
    assert_ptr_equal(mw_cached_content(first), mw_cached_content(second));
    mw_cache_release(cache, first);
    mw_cache_release(cache, second);
    destroy(cache);
}

static void dropped_file_is_gone_but_for_holders(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 1 << 20);
    mw_cached *held = put(cache, &env, 1, 0);
    for (uint64_t i = 1; i < 100; i++) put_and_let_go(cache, &env, 1 + i % 2, i);
    mw_cache_drop_file(cache, 1);
    for (uint64_t i = 0; i < 100; i++) assert_true(has(cache, 1 + i % 2, i) == (i % 2 == 1));
    assert_true(((uint64_t *)mw_cached_content(held))[0] == 1);
    put_and_let_go(cache, &env, 1, 0);
    mw_cache_release(cache, held);
    assert_true(has(cache, 1, 0));
    destroy(cache);
}

static void larger_than_the_cache_is_given_but_not_kept(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 4096);
    mw_cached *entry = put(cache, &env, 1, 1);
    assert_non_null(entry);
    assert_int_equal(bytes_of(cache), 0);
    mw_cache_release(cache, entry);
    assert_false(has(cache, 1, 1));
    destroy(cache);
}

static void *refuse(void *ctx, size_t bytes)
{
    (void)ctx;
    (void)bytes;
    return NULL;
}

static void without_memory_content_is_freed(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 1 << 20), *none;
    mw_err err = {.rc = MW_OK};
    void *content = mw_alloc(&env, 10);
    env.alloc = refuse;
    assert_null(mw_cache_put(cache, 1, 1, content, 10));
    assert_int_equal(mw_cache_create(&env, 1, &none, &err), MW_NOMEM);
    destroy(cache);
}

static void new_files_have_new_numbers(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 1 << 20);
    uint64_t first = mw_cache_new_file(cache);
    assert_true(first > 0 && mw_cache_new_file(cache) > first);
    destroy(cache);
}

/* ---- threads ------------------------------------------------------------------------------- */

typedef struct visitor {
    mw_cache *cache;
    const mw_env *env;
    uint64_t seed;
    uint64_t wrong;
} visitor;

static void visit(void *arg)
{
    visitor *v = arg;
    for (uint64_t i = 0; i < 10000; i++) {
        v->seed = v->seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t offset = (v->seed >> 40) % 300;
        mw_cached *entry = mw_cache_find(v->cache, 1, offset);
        if (!entry) entry = put(v->cache, v->env, 1, offset);
        const uint64_t *content = mw_cached_content(entry);
        if (content[0] != 1 || content[1] != offset) v->wrong++;
        mw_cache_release(v->cache, entry);
        if (i % 1000 == 0) mw_cache_drop_file(v->cache, 1);
    }
}

static void threads_see_what_they_asked_for(void **state)
{
    (void)state;
    mw_env env = environment();
    mw_cache *cache = create(&env, 100000);
    visitor visitors[4];
    mw_thread *threads[4];
    for (uint64_t i = 0; i < 4; i++) {
        visitors[i] = (visitor){cache, &env, i, 0};
        assert_int_equal(env.thread_start(env.ctx, visit, &visitors[i], &threads[i]), 0);
    }
    for (uint64_t i = 0; i < 4; i++) {
        env.thread_join(env.ctx, threads[i]);
        assert_int_equal(visitors[i].wrong, 0);
    }
    destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found),
        cmocka_unit_test(limit_is_kept),
        cmocka_unit_test(what_is_asked_for_again_survives_a_scan),
        cmocka_unit_test(what_is_held_stays),
        cmocka_unit_test(pages_leave_room_for_what_is_charged),
        cmocka_unit_test(second_of_two_gets_the_first),
        cmocka_unit_test(dropped_file_is_gone_but_for_holders),
        cmocka_unit_test(larger_than_the_cache_is_given_but_not_kept),
        cmocka_unit_test(without_memory_content_is_freed),
        cmocka_unit_test(new_files_have_new_numbers),
        cmocka_unit_test(threads_see_what_they_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
