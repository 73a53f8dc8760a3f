/* table_read_test.c: an open table file knows what it is, refuses to be another one, and finds like
** a sorted array of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "table_rows.h"

/* ---- opening ------------------------------------------------------------------------------- */

static void what_is_known_at_open_is_right(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_TEXT);
    folder.options.group_rows = 10;
    rows_make(&model, MW_KEY_TEXT, 100, true, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    assert_memory_equal(mw_table_properties(table), &props, sizeof props);
    assert_true(mw_slice_equal(mw_table_first_key(table), rows_key(&model, 0)));
    assert_true(mw_slice_equal(mw_table_last_key(table), rows_key(&model, model.count - 1)));
    assert_int_equal(mw_table_number(table), 9);
    assert_int_equal(mw_table_epoch(table), 3);
    assert_string_equal(mw_table_file_name(table), "table-0000000000000003-0000000000000009");
    assert_ptr_equal(mw_table_ref(table), table);
    mw_table_unref(table);
    assert_int_equal(mw_table_number(table), 9); /* one reference is left */
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* C32: another valid file under this name. */
static void another_file_under_the_name_is_found(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    for (int change = 0; change < 3; change++) {
        mw_err err = {.rc = MW_OK};
        mw_table_options kept = v.folder.options;
        if (change == 0) v.folder.options.number++;
        if (change == 1) v.folder.options.epoch++;
        if (change == 2) v.folder.options.store.bytes[15]++;
        mw_table_name(v.folder.options.epoch, v.folder.options.number, v.name);
        rows_victim_replace(&v, v.bytes, v.size);
        assert_int_equal(rows_open(&v.folder, &table, &err), MW_MISMATCH);
        assert_non_null(strstr(err.text, v.name));
        v.folder.options = kept;
    }
    rows_victim_free(&v);
}

static void another_file_than_the_manifest_lists_is_found(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    for (int change = 0; change < 6; change++) {
        mw_err err = {.rc = MW_OK};
        mw_table_props props = v.props;
        uint64_t *fields[] = {&props.rows,         &props.tombstones,   &props.bytes,
                              &props.sequence_min, &props.sequence_max, &props.checksum};
        *fields[change] += 1;
        assert_int_equal(mw_table_open(&v.folder.env, v.folder.dir, v.folder.cache,
                                       &v.folder.options, &props, &table, &err),
                         MW_CORRUPT);
        assert_non_null(strstr(err.text, v.name));
    }
    rows_victim_free(&v);
}

static void another_schema_is_a_mismatch(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    for (int change = 0; change < 3; change++) {
        mw_err err = {.rc = MW_OK};
        mw_schema kept = v.folder.schema;
        uint32_t id = v.folder.column_ids[3];
        if (change == 0) v.folder.schema.key = MW_KEY_INTEGER;
        if (change == 1) v.folder.schema.column_count--;
        if (change == 2) v.folder.column_ids[3]++;
        assert_int_equal(rows_open(&v.folder, &table, &err), MW_MISMATCH);
        v.folder.schema = kept;
        v.folder.column_ids[3] = id;
    }
    rows_victim_free(&v);
}

static void missing_file_is_missing(void **state)
{
    (void)state;
    rows_folder folder;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_TEXT);
    assert_int_equal(rows_open(&folder, &table, &err), MW_MISSING);
    assert_null(table);
    rows_folder_remove(&folder);
}

/* ---- finding ------------------------------------------------------------------------------- */

static void finds_are_those_of_a_sorted_array(void **state)
{
    (void)state;
    rows_ask_shapes(rows_compare_finds);
}

static void a_file_without_other_columns_finds(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    bool found, tombstone;
    rows_folder_make(&folder, MW_KEY_INTEGER);
    folder.schema.column_count = 0;
    rows_make(&model, MW_KEY_INTEGER, 100, true, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    for (size_t i = 0; i < model.count; i++) {
        mw_slice key = rows_key(&model, i);
        assert_int_equal(mw_table_find(table, key, &found, &tombstone, &err), MW_OK);
        assert_true(found && tombstone == model.items[i].tombstone);
    }
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* Outside of the range of keys nothing is read at all; inside of it the filter lets few pass. */
static void most_absent_keys_cost_no_page(void **state)
{
    (void)state;
    rows_folder folder;
    rows model, inner;
    mw_table_props props;
    uint8_t bytes[ROWS_KEY_MAX];
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    bool maybe;
    int passed = 0;
    rows_folder_make(&folder, MW_KEY_INTEGER);
    rows_watch(&folder);
    rows_make(&model, MW_KEY_INTEGER, 500, true, 8);
    inner = model; /* without the first and the last */
    inner.items++;
    inner.count -= 2;
    assert_int_equal(rows_write(&folder, &inner, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    rows_reads = 0;
    for (size_t i = 0; i < model.count; i += model.count - 1) {
        assert_int_equal(mw_table_may_hold(table, rows_key(&model, i), &maybe, &err), MW_OK);
        assert_false(maybe);
    }
    assert_int_equal(rows_reads, 0);
    for (int i = 0; i < 1000; i++) {
        mw_slice key = rows_absent(&model, bytes);
        assert_int_equal(mw_table_may_hold(table, key, &maybe, &err), MW_OK);
        passed += maybe;
    }
    assert_in_range(passed, 0, 50);  /* about 10 are expected */
    assert_int_equal(rows_reads, 1); /* the filter itself     */
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

static void lookup_touches_filter_directory_and_one_key_page(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    bool found, tombstone;
    rows_folder_make(&folder, MW_KEY_INTEGER);
    rows_watch(&folder);
    folder.options.page_bytes = 100;
    rows_make(&model, MW_KEY_INTEGER, 500, false, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    mw_slice key = rows_key(&model, 100);
    rows_reads = 0;
    assert_int_equal(mw_table_find(table, key, &found, &tombstone, &err), MW_OK);
    assert_int_equal(rows_reads, 3); /* filter, directory, key page */
    assert_int_equal(mw_table_find(table, key, &found, &tombstone, &err), MW_OK);
    assert_int_equal(rows_reads, 3);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* Reliability, section 4: a mismatch is read once more, then it is an error. */
static void one_bad_read_is_read_again(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    bool found, tombstone;
    rows_folder_make(&folder, MW_KEY_TEXT);
    rows_watch(&folder);
    rows_make(&model, MW_KEY_TEXT, 100, false, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    rows_flip_reads = 1;
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    rows_flip_reads = 1;
    assert_int_equal(mw_table_find(table, rows_key(&model, 3), &found, &tombstone, &err), MW_OK);
    assert_true(found && err.rc == MW_OK);
    mw_table_unref(table);
    rows_flip_reads = 2;
    assert_int_equal(rows_open(&folder, &table, &err), MW_CORRUPT);
    rows_flip_reads = 0;
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* ---- faults -------------------------------------------------------------------------------- */

static void every_refused_allocation_is_said(void **state)
{
    (void)state;
    rows_victim v;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    assert_true(rows_victim_refuse(&v, rows_compare_finds) > 20);
    rows_victim_free(&v);
}

/* ---- threads ------------------------------------------------------------------------------- */

typedef struct asker {
    rows *model;
    mw_table *table;
    uint64_t wrong;
} asker;

static void ask_at_once(void *arg)
{
    asker *a = arg;
    mw_err err = {.rc = MW_OK};
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < a->model->count; i++) {
            bool found, tombstone;
            mw_rc rc = mw_table_find(a->table, rows_key(a->model, i), &found, &tombstone, &err);
            a->wrong += rc || !found || tombstone != a->model->items[i].tombstone;
        }
    }
}

static void threads_may_ask_at_once(void **state)
{
    (void)state;
    rows_victim v;
    asker askers[4];
    mw_thread *threads[4];
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_victim_make(&v, MW_KEY_TEXT, 200, 1);
    const mw_env *env = &v.folder.env;
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_OK);
    for (size_t i = 0; i < 4; i++) {
        askers[i] = (asker){&v.model, table, 0};
        assert_int_equal(env->thread_start(env->ctx, ask_at_once, &askers[i], &threads[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        env->thread_join(env->ctx, threads[i]);
        assert_int_equal(askers[i].wrong, 0);
    }
    mw_table_unref(table);
    rows_victim_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_at_open_is_right),
        cmocka_unit_test(another_file_under_the_name_is_found),
        cmocka_unit_test(another_file_than_the_manifest_lists_is_found),
        cmocka_unit_test(another_schema_is_a_mismatch),
        cmocka_unit_test(missing_file_is_missing),
        cmocka_unit_test(finds_are_those_of_a_sorted_array),
        cmocka_unit_test(a_file_without_other_columns_finds),
        cmocka_unit_test(most_absent_keys_cost_no_page),
        cmocka_unit_test(lookup_touches_filter_directory_and_one_key_page),
        cmocka_unit_test(one_bad_read_is_read_again),
        cmocka_unit_test(every_refused_allocation_is_said),
        cmocka_unit_test(threads_may_ask_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
