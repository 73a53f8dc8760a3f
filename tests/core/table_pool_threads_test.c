/* table_pool_threads_test.c: threads that ask many tables while two files may be open, or one, and
** hardly any index stays in memory: right answers, and no file that is dropped under a reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

#include <cmocka.h>

#include "table_rows.h"

enum { TABLES = 6, THREADS = 4, ROUNDS = 8, ROWS = 60 };

static struct {
    rows_folder folder;
    mw_cache *cache; /* so small that an index goes when another one comes */
    mw_table_pool *pool;
    rows models[TABLES];
    mw_table *tables[TABLES];
    _Atomic uint32_t wrong;
    _Atomic bool over;
} place;

static void open_place(uint64_t cache_bytes, uint32_t files_max)
{
    mw_err err = {.rc = MW_OK};
    rows_folder *folder = &place.folder;
    rows_folder_make(folder, MW_KEY_TEXT);
    folder->options.group_rows = 16;
    assert_int_equal(mw_cache_create(&folder->env, cache_bytes, &place.cache, &err), MW_OK);
    assert_int_equal(
        mw_table_pool_create(&folder->env, place.cache, files_max, &place.pool, &err), MW_OK);
    for (uint32_t i = 0; i < TABLES; i++) {
        mw_table_props props;
        folder->options.number = 20 + i;
        rows_make(&place.models[i], MW_KEY_TEXT, ROWS, true, 3 + i);
        const rows *model = &place.models[i];
        assert_int_equal(rows_write(folder, &place.models[i], &props, &err), MW_OK);
        mw_key_range keys = {rows_key(model, 0), rows_key(model, model->count - 1)};
        mw_table_listing listing = {folder->dir, &props, &keys};
        mw_rc rc =
            mw_table_make(place.pool, &folder->options, &listing, &place.tables[i], &err);
        assert_int_equal(rc, MW_OK);
    }
    atomic_init(&place.wrong, 0);
    atomic_init(&place.over, false);
}

static void close_place(uint32_t files_max)
{
    uint64_t files, bytes;
    mw_table_pool_stats(place.pool, &files, &bytes);
    assert_in_range(files, 0, files_max);
    for (uint32_t i = 0; i < TABLES; i++) {
        mw_table_unref(place.tables[i]);
        rows_free(&place.models[i]);
    }
    mw_table_pool_stats(place.pool, &files, &bytes);
    assert_int_equal(files, 0);
    assert_int_equal(bytes, 0);
    mw_table_pool_destroy(place.pool);
    mw_cache_destroy(place.cache);
    rows_folder_remove(&place.folder);
}

static void note(mw_rc rc)
{
    if (rc) atomic_fetch_add(&place.wrong, 1);
}

static void ask_all(void *arg)
{
    uint32_t first = *(const uint32_t *)arg;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < TABLES; i++) {
            uint32_t at = (first + i * (first + 1)) % TABLES;
            rows model = place.models[at]; /* its generator is this thread's own */
            mw_err err = {.rc = MW_OK};
            note(round % 2 ? rows_compare_walks(&model, place.tables[at], &err)
                           : rows_compare_finds(&model, place.tables[at], &err));
        }
    }
}

static void shrink_again_and_again(void *arg)
{
    (void)arg;
    while (!atomic_load(&place.over)) mw_table_pool_shrink(place.pool);
}

static void run(uint64_t cache_bytes, uint32_t files_max)
{
    const mw_env *env = &place.folder.env;
    mw_thread *threads[THREADS], *shrinker;
    uint32_t firsts[THREADS];
    open_place(cache_bytes, files_max);
    assert_int_equal(env->thread_start(env->ctx, shrink_again_and_again, NULL, &shrinker), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        firsts[i] = i;
        assert_int_equal(env->thread_start(env->ctx, ask_all, &firsts[i], &threads[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) env->thread_join(env->ctx, threads[i]);
    atomic_store(&place.over, true);
    env->thread_join(env->ctx, shrinker);
    assert_int_equal(atomic_load(&place.wrong), 0);
    close_place(files_max);
}

/* I9, I11. */
static void readers_keep_what_they_read_while_others_push_it_out(void **state)
{
    (void)state;
    run(1 << 20, 2); /* files come and go */
    run(1 << 11, 2); /* indexes, too      */
}

/* More files are being opened at once than may stay open: none is left that could make room. */
static void more_files_are_opened_at_once_than_may_stay_open(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) run(1 << 20, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_keep_what_they_read_while_others_push_it_out),
        cmocka_unit_test(more_files_are_opened_at_once_than_may_stay_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
