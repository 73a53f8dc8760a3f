/* table_pool_test.c: the pool keeps its bounds, drops what nobody uses and nothing else, and a file
** that changed while it was closed is found. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "table_rows.h"

enum { TABLES = 6, ROWS = 40 };

/* Some files and a pool with tables for them. */
typedef struct place {
    rows_folder folder;
    mw_cache *cache;
    mw_table_pool *pool;
    rows models[TABLES];
    mw_table_props props[TABLES];
    mw_table *tables[TABLES];
} place;

static mw_table_options options_of(const place *at, uint32_t i)
{
    mw_table_options options = at->folder.options;
    options.number = 20 + i;
    return options;
}

static mw_table *make_table(place *at, uint32_t i)
{
    mw_err err = {.rc = MW_OK};
    mw_table *table;
    const rows *model = &at->models[i];
    mw_table_options options = options_of(at, i);
    mw_key_range keys = {rows_key(model, 0), rows_key(model, model->count - 1)};
    mw_table_listing listing = {at->folder.dir, &at->props[i], &keys};
    assert_int_equal(mw_table_make(at->pool, &options, &listing, &table, &err), MW_OK);
    return table;
}

static void open_pool(place *at, uint32_t files_max, uint64_t cache_bytes)
{
    mw_err err = {.rc = MW_OK};
    const mw_env *env = &at->folder.env;
    assert_int_equal(mw_cache_create(env, cache_bytes, &at->cache, &err), MW_OK);
    assert_int_equal(mw_table_pool_create(env, at->cache, files_max, &at->pool, &err), MW_OK);
    for (uint32_t i = 0; i < TABLES; i++) at->tables[i] = make_table(at, i);
}

static void close_pool(place *at)
{
    for (uint32_t i = 0; i < TABLES; i++) mw_table_unref(at->tables[i]);
    mw_table_pool_destroy(at->pool);
    mw_cache_destroy(at->cache);
}

static void open_place(place *at, uint32_t files_max, uint64_t cache_bytes)
{
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&at->folder, MW_KEY_TEXT);
    at->folder.options.group_rows = 16;
    for (uint32_t i = 0; i < TABLES; i++) {
        at->folder.options.number = 20 + i;
        rows_make(&at->models[i], MW_KEY_TEXT, ROWS, true, 3 + i);
        assert_int_equal(rows_write(&at->folder, &at->models[i], &at->props[i], &err), MW_OK);
    }
    open_pool(at, files_max, cache_bytes);
}

static void close_place(place *at)
{
    close_pool(at);
    for (uint32_t i = 0; i < TABLES; i++) rows_free(&at->models[i]);
    rows_folder_remove(&at->folder);
}

static uint64_t open_files(const place *at)
{
    uint64_t files, bytes;
    mw_table_pool_stats(at->pool, &files, &bytes);
    return files;
}

static uint64_t index_bytes(const place *at)
{
    uint64_t files, bytes;
    mw_table_pool_stats(at->pool, &files, &bytes);
    return bytes;
}

/* Asks a table everything, or one thing. */
static void ask(place *at, uint32_t i)
{
    mw_err err = {.rc = MW_OK};
    assert_int_equal(rows_compare(&at->models[i], at->tables[i], &err), MW_OK);
}

static mw_rc find_first(place *at, uint32_t i, mw_err *err)
{
    bool found, tombstone;
    return mw_table_find(at->tables[i], rows_key(&at->models[i], 0), &found, &tombstone, err);
}

/* ---- bounds -------------------------------------------------------------------------------- */

static int open_failures; /* so many of the next ones find no descriptor */

static int failing_open(void *ctx, int dir, const char *name, mw_open how, int *file)
{
    if (open_failures > 0) {
        open_failures--;
        return EMFILE;
    }
    return mw_env_posix()->file_open(ctx, dir, name, how, file);
}

/* What is known of a table without its file costs none. */
static void a_table_opens_no_file_before_it_is_asked(void **state)
{
    (void)state;
    place at;
    open_place(&at, 2, 1 << 20);
    mw_err err = {.rc = MW_OK};
    mw_iter *iter;
    bool maybe;
    assert_memory_equal(mw_table_properties(at.tables[0]), &at.props[0], sizeof at.props[0]);
    assert_true(mw_slice_equal(mw_table_first_key(at.tables[0]), rows_key(&at.models[0], 0)));
    assert_true(mw_slice_equal(mw_table_last_key(at.tables[0]),
                               rows_key(&at.models[0], at.models[0].count - 1)));
    mw_slice above = mw_slice_of("\xff\xff", 2);
    assert_int_equal(mw_table_may_hold(at.tables[0], above, &maybe, &err), MW_OK);
    assert_false(maybe);
    assert_int_equal(mw_table_iter(at.tables[0], &iter, &err), MW_OK);
    assert_int_equal(open_files(&at), 0);
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    assert_int_equal(open_files(&at), 1);
    mw_iter_close(iter);
    close_place(&at);
}

/* Iterators over all tables, moved in turn, hold no more files than one. */
static void no_more_files_are_open_than_allowed(void **state)
{
    (void)state;
    for (uint32_t most = 1; most <= 3; most++) {
        place at;
        mw_err err = {.rc = MW_OK};
        mw_iter *iters[TABLES];
        open_place(&at, most, 1 << 20);
        for (uint32_t i = 0; i < TABLES; i++) {
            assert_int_equal(mw_table_iter(at.tables[i], &iters[i], &err), MW_OK);
            assert_int_equal(iters[i]->ops->first(iters[i], &err), MW_OK);
            assert_true(open_files(&at) <= most);
        }
        for (uint32_t row = 0; row < ROWS; row++) {
            for (uint32_t i = 0; i < TABLES; i++) {
                if (!iters[i]->valid) continue;
                assert_true(mw_slice_equal(iters[i]->key, rows_key(&at.models[i], row)));
                assert_int_equal(iters[i]->ops->next(iters[i], &err), MW_OK);
                assert_true(open_files(&at) <= most);
            }
        }
        for (uint32_t i = 0; i < TABLES; i++) mw_iter_close(iters[i]);
        close_place(&at);
    }
}

/* The last row of a small file ends a walk without opening the file for it. */
static void the_end_of_a_walk_opens_nothing(void **state)
{
    (void)state;
    place at;
    mw_err err = {.rc = MW_OK};
    mw_iter *iter;
    open_place(&at, 1, 1 << 20);
    assert_int_equal(mw_table_iter(at.tables[0], &iter, &err), MW_OK);
    for (int back = 0; back < 2; back++) {
        mw_rc rc = back ? iter->ops->seek_back(iter, mw_table_first_key(at.tables[0]), &err)
                        : iter->ops->last(iter, &err);
        assert_true(rc == MW_OK && iter->valid);
        mw_table_pool_shrink(at.pool);
        rc = back ? iter->ops->prev(iter, &err) : iter->ops->next(iter, &err);
        assert_true(rc == MW_OK && !iter->valid);
        assert_int_equal(open_files(&at), 0);
    }
    mw_iter_close(iter);
    close_place(&at);
}

/* Indexes and filters outlive their descriptors: filters answer without one. */
static void a_filter_answers_when_its_file_is_closed(void **state)
{
    (void)state;
    place at;
    open_place(&at, 2, 1 << 20);
    for (uint32_t i = 0; i < TABLES; i++) ask(&at, i);
    mw_table_pool_shrink(at.pool);
    assert_int_equal(open_files(&at), 0);
    assert_true(index_bytes(&at) > TABLES * 64);
    for (uint32_t i = 0; i < TABLES; i++) {
        mw_err err = {.rc = MW_OK};
        bool maybe;
        mw_slice key = rows_key(&at.models[i], 3);
        assert_int_equal(mw_table_may_hold(at.tables[i], key, &maybe, &err), MW_OK);
        assert_true(maybe);
    }
    assert_int_equal(open_files(&at), 0);
    close_place(&at);
}

/* The memory of indexes and filters is the cache's: it stays below three quarters of the limit, and
** what has gone comes back. */
static void indexes_count_against_the_cache(void **state)
{
    (void)state;
    place at;
    open_place(&at, TABLES, 1 << 20);
    ask(&at, 0);
    uint64_t one = index_bytes(&at);
    close_pool(&at);
    uint64_t limit = one * 4;
    open_pool(&at, TABLES, limit);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < TABLES; i++) {
            ask(&at, i);
            assert_in_range(index_bytes(&at), 1, limit / 4 * 3 + one);
        }
    }
    mw_err err = {.rc = MW_OK};
    assert_int_equal(find_first(&at, 0, &err), MW_OK);
    assert_true(index_bytes(&at) <= limit / 4 * 3);
    close_pool(&at);
    open_pool(&at, 1, 1); /* a single one may exceed everything while it is needed */
    for (uint32_t i = 0; i < TABLES; i++) ask(&at, i);
    close_place(&at);
}

/* C66: when there is no descriptor the files that nobody reads are closed, once; then it is an
** error that names the limit. */
static void descriptors_are_spared_before_an_open_fails(void **state)
{
    (void)state;
    place at;
    mw_err err = {.rc = MW_OK};
    open_place(&at, TABLES, 1);
    for (uint32_t i = 1; i < TABLES; i++) assert_int_equal(find_first(&at, i, &err), MW_OK);
    at.folder.env.file_open = failing_open;
    at.folder.env.spare_files = (void (*)(void *))mw_table_pool_shrink;
    at.folder.env.spare_arg = at.pool;
    open_failures = 1;
    assert_int_equal(find_first(&at, 0, &err), MW_OK);
    assert_int_equal(open_files(&at), 1);
    mw_table_pool_shrink(at.pool);
    open_failures = 2;
    assert_int_equal(find_first(&at, 0, &err), MW_IO);
    assert_non_null(strstr(err.text, "Too many open files"));
    assert_non_null(strstr(err.text, mw_table_file_name(at.tables[0])));
    err = (mw_err){.rc = MW_OK};
    assert_int_equal(find_first(&at, 0, &err), MW_OK);
    mw_table_pool_shrink(at.pool); /* what failed has left nothing pinned */
    assert_int_equal(open_files(&at), 0);
    close_place(&at);
}

/* ---- changes while closed ------------------------------------------------------------------ */

static void replace(place *at, uint32_t i, const uint8_t *bytes, size_t size)
{
    const mw_env *env = &at->folder.env;
    const char *name = mw_table_file_name(at->tables[i]);
    int file;
    mw_err err = {.rc = MW_OK};
    env->unlink(env->ctx, at->folder.dir, name);
    if (!bytes) return;
    assert_int_equal(env->file_open(env->ctx, at->folder.dir, name, MW_OPEN_CREATE, &file), 0);
    assert_int_equal(mw_env_write(env, file, name, bytes, size, 0, &err), MW_OK);
    env->file_close(env->ctx, file);
}

/* A file of the same identity with other rows, as a faulty restore would leave it. */
static void rewrite(place *at, uint32_t i)
{
    mw_err err = {.rc = MW_OK};
    mw_table_props props;
    replace(at, i, NULL, 0);
    at->folder.options = options_of(at, i);
    assert_int_equal(rows_write(&at->folder, &at->models[i + 1], &props, &err), MW_OK);
}

/* C32: while a table is closed its file goes, is cut, grows, is swapped with another one of the
** store, or with one of the same name. Each use says so, also with the index still in memory. */
static void a_file_changed_while_closed_is_found(void **state)
{
    (void)state;
    static const mw_rc expected[] = {MW_MISSING, MW_CORRUPT, MW_CORRUPT, MW_MISMATCH, MW_CORRUPT};
    for (int change = 0; change < 5; change++) {
        place at;
        uint8_t *bytes[2];
        size_t size[2];
        mw_err err = {.rc = MW_OK};
        open_place(&at, 2, 1);
        assert_int_equal(find_first(&at, 0, &err), MW_OK);
        mw_table_pool_shrink(at.pool);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(mw_env_read_file(&at.folder.env, at.folder.dir,
                                              mw_table_file_name(at.tables[i]), 1 << 20, &bytes[i],
                                              &size[i], &err), MW_OK);
        }
        bytes[0] = mw_resize(&at.folder.env, bytes[0], size[0] + 1);
        bytes[0][size[0]] = 0;
        if (change == 0) replace(&at, 0, NULL, 0);
        if (change == 1) replace(&at, 0, bytes[0], size[0] - 1);
        if (change == 2) replace(&at, 0, bytes[0], size[0] + 1);
        if (change == 3) replace(&at, 0, bytes[1], size[1]);
        if (change == 4) rewrite(&at, 0);
        assert_int_equal(find_first(&at, 0, &err), expected[change]);
        assert_non_null(strstr(err.text, mw_table_file_name(at.tables[0])));
        assert_int_equal(mw_table_verify(at.tables[0], NULL), expected[change]);
        replace(&at, 0, bytes[0], size[0]); /* no failure is kept */
        ask(&at, 0);
        mw_free(&at.folder.env, bytes[0]);
        mw_free(&at.folder.env, bytes[1]);
        close_place(&at);
    }
}

/* C32: the manifest's keys are part of what a file must match. */
static void other_keys_than_the_manifests_are_found(void **state)
{
    (void)state;
    place at;
    open_place(&at, 2, 1 << 20);
    for (int end = 0; end < 2; end++) {
        mw_err err = {.rc = MW_OK};
        mw_table *table;
        const rows *model = &at.models[0];
        mw_table_options options = options_of(&at, 0);
        size_t first = (size_t)end;
        mw_key_range keys = {rows_key(model, first), rows_key(model, model->count - 2 + first)};
        mw_table_listing listing = {at.folder.dir, &at.props[0], &keys};
        assert_int_equal(mw_table_make(at.pool, &options, &listing, &table, &err), MW_OK);
        assert_int_equal(mw_table_probe(table, &err), MW_CORRUPT);
        assert_non_null(strstr(err.text, mw_table_file_name(table)));
        mw_table_unref(table);
    }
    close_place(&at);
}

/* ---- the end of a file --------------------------------------------------------------------- */

static bool exists(const place *at, uint32_t i)
{
    bool yes = false;
    const mw_env *env = &at->folder.env;
    const char *name = mw_table_file_name(at->tables[i]);
    assert_int_equal(env->exists(env->ctx, at->folder.dir, name, &yes), 0);
    return yes;
}

/* I11. */
static void a_doomed_file_goes_with_its_last_reference(void **state)
{
    (void)state;
    place at;
    open_place(&at, 1, 1 << 20);
    mw_err err = {.rc = MW_OK};
    mw_iter *iter;
    mw_table *other = mw_table_ref(at.tables[0]);
    assert_int_equal(mw_table_iter(at.tables[0], &iter, &err), MW_OK);
    mw_table_doom(at.tables[0]);
    mw_table_unref(at.tables[0]);
    ask(&at, 1); /* closes the doomed one's file */
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    mw_iter_close(iter);
    assert_true(exists(&at, 0));
    at.tables[0] = make_table(&at, 0); /* another handle for the name */
    mw_table_unref(other);
    assert_false(exists(&at, 0));
    assert_true(exists(&at, 1));
    close_place(&at);
}

static void a_retired_pool_removes_nothing(void **state)
{
    (void)state;
    place at;
    open_place(&at, 1, 1 << 20);
    mw_table_doom(at.tables[0]);
    mw_table *kept = make_table(&at, 0);
    mw_table_pool_retire(at.pool);
    mw_table_unref(at.tables[0]);
    at.tables[0] = kept;
    assert_true(exists(&at, 0));
    close_place(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_opens_no_file_before_it_is_asked),
        cmocka_unit_test(no_more_files_are_open_than_allowed),
        cmocka_unit_test(the_end_of_a_walk_opens_nothing),
        cmocka_unit_test(a_filter_answers_when_its_file_is_closed),
        cmocka_unit_test(indexes_count_against_the_cache),
        cmocka_unit_test(descriptors_are_spared_before_an_open_fails),
        cmocka_unit_test(a_file_changed_while_closed_is_found),
        cmocka_unit_test(other_keys_than_the_manifests_are_found),
        cmocka_unit_test(a_doomed_file_goes_with_its_last_reference),
        cmocka_unit_test(a_retired_pool_removes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
