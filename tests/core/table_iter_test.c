/* table_iter_test.c: an iterator walks a table file like a sorted array of rows, both ways and from
** anywhere, reads no column that nobody asks for, and keeps what it lent until it moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "table_rows.h"

/* ---- walking ------------------------------------------------------------------------------- */

static void walks_are_those_of_a_sorted_array(void **state)
{
    (void)state;
    rows_ask_shapes(rows_compare_walks);
}

static void a_file_without_other_columns_is_walked(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_INTEGER);
    folder.schema.column_count = 0;
    folder.options.group_rows = 7;
    rows_make(&model, MW_KEY_INTEGER, 100, true, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    for (size_t i = 0; i < model.count; i++) {
        assert_true(iter->valid && iter->tombstone == model.items[i].tombstone);
        assert_true(mw_slice_equal(iter->key, rows_key(&model, i)));
        assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    }
    assert_false(iter->valid);
    mw_iter_close(iter);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* iter.h: of a version in a table file only the file's highest sequence is known. */
static void every_sequence_is_the_highest_of_the_file(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    size_t count = 0;
    rows_victim_make(&v, MW_KEY_TEXT, 50, 1);
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(iter->sequence, v.folder.options.sequence_max);
    assert_false(iter->valid); /* it stands nowhere yet */
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    for (; iter->valid; count++) {
        assert_int_equal(iter->sequence, v.folder.options.sequence_max);
        assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    }
    assert_int_equal(count, v.model.count);
    mw_iter_close(iter);
    mw_table_unref(table);
    rows_victim_free(&v);
}

/* ---- holding ------------------------------------------------------------------------------- */

static void an_iterator_keeps_its_table_open(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    rows_victim_make(&v, MW_KEY_TEXT, 50, 1);
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    mw_table_unref(table); /* the iterator holds its own */
    assert_int_equal(iter->ops->last(iter, &err), MW_OK);
    assert_true(iter->valid);
    assert_true(mw_slice_equal(iter->key, rows_key(&v.model, v.model.count - 1)));
    mw_iter_close(iter);
    rows_victim_free(&v);
}

/* What an iterator lent stays, whatever else passes through a cache that has room for nothing: the
** sanitizer sees a page that went too early. */
static void key_and_values_stay_until_the_iterator_moves(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    rows_victim_make(&v, MW_KEY_TEXT, 50, 1);
    mw_cache_destroy(v.folder.cache);
    assert_int_equal(mw_cache_create(&v.folder.env, 1, &v.folder.cache, &err), MW_OK);
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    for (size_t i = 0; i < v.model.count; i++) {
        const rows_row *row = &v.model.items[i];
        mw_value values[ROWS_COLUMNS];
        mw_slice key = iter->key;
        for (uint32_t c = 0; c < ROWS_COLUMNS && !row->tombstone; c++) {
            assert_int_equal(iter->ops->column(iter, c, &values[c], &err), MW_OK);
        }
        assert_int_equal(rows_compare_walks(&v.model, table, &err), MW_OK); /* somebody else's */
        assert_true(mw_slice_equal(key, rows_key(&v.model, i)));
        assert_true(mw_slice_equal(iter->key, key));
        for (uint32_t c = 0; c < ROWS_COLUMNS && !row->tombstone; c++) {
            assert_true(mw_value_equal(&values[c], &row->values[c]));
        }
        assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    }
    mw_iter_close(iter);
    mw_table_unref(table);
    rows_victim_free(&v);
}

/* ---- reading no more than needed ----------------------------------------------------------- */

static void lookup_touches_one_page_a_column(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    bool found;
    mw_value value;
    rows_folder_make(&folder, MW_KEY_INTEGER);
    rows_watch(&folder);
    folder.options.page_bytes = 100;
    rows_make(&model, MW_KEY_INTEGER, 500, false, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    rows_reads = 0;
    assert_int_equal(mw_table_iter_find(iter, rows_key(&model, 100), &found, &err), MW_OK);
    assert_true(found && iter->valid);
    assert_int_equal(rows_reads, 3); /* filter, directory, key page */
    for (int again = 0; again < 2; again++) {
        assert_int_equal(iter->ops->column(iter, 2, &value, &err), MW_OK);
        assert_true(mw_value_equal(&value, &model.items[100].values[2]));
        assert_int_equal(rows_reads, 4);
    }
    mw_iter_close(iter);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* All rows are in one group, whose pages hold many rows: a walk asks for each page of keys once,
** and for nothing of the columns. */
static void a_walk_over_keys_reads_no_column(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_TEXT);
    rows_watch(&folder);
    rows_make(&model, MW_KEY_TEXT, 500, false, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    rows_reads = 0;
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    while (iter->valid) assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    assert_int_equal(rows_reads, 2); /* directory, the only key page */
    mw_iter_close(iter);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* ---- faults -------------------------------------------------------------------------------- */

/* iter.h: invalid after a failure; repositioning is legal at any time. */
static void after_a_failure_it_stands_nowhere_and_may_be_placed_again(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    mw_iter *iter;
    bool found;
    rows_victim_make(&v, MW_KEY_INTEGER, 50, 1);
    rows_watch(&v.folder);
    for (int call = 0; call < 5; call++) {
        mw_err err = {.rc = MW_OK}, bad = {.rc = MW_OK};
        mw_slice middle = rows_key(&v.model, v.model.count / 2);
        assert_int_equal(rows_open(&v.folder, &table, &err), MW_OK);
        assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
        assert_int_equal(iter->ops->seek(iter, rows_key(&v.model, 1), &err), MW_OK);
        assert_true(iter->valid);
        rows_flip_reads = 2; /* a bad read is read once more */
        mw_rc rc = call == 0   ? iter->ops->last(iter, &bad)
                   : call == 1 ? iter->ops->seek(iter, middle, &bad)
                   : call == 2 ? iter->ops->seek_back(iter, middle, &bad)
                   : call == 3 ? mw_table_iter_find(iter, middle, &found, &bad)
                               : MW_OK;
        while (call == 4 && rc == MW_OK && iter->valid) rc = iter->ops->next(iter, &bad);
        assert_int_equal(rc, MW_CORRUPT);
        assert_non_null(strstr(bad.text, v.name));
        assert_false(iter->valid || iter->tombstone);
        if (call == 3) assert_false(found);
        rows_flip_reads = 0;
        assert_int_equal(iter->ops->seek(iter, middle, &err), MW_OK);
        assert_true(iter->valid && mw_slice_equal(iter->key, middle));
        mw_iter_close(iter);
        mw_table_unref(table);
    }
    rows_victim_free(&v);
}

static void every_refused_allocation_is_said(void **state)
{
    (void)state;
    rows_victim v;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    assert_true(rows_victim_refuse(&v, rows_compare_walks) > 20);
    rows_victim_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_are_those_of_a_sorted_array),
        cmocka_unit_test(a_file_without_other_columns_is_walked),
        cmocka_unit_test(every_sequence_is_the_highest_of_the_file),
        cmocka_unit_test(an_iterator_keeps_its_table_open),
        cmocka_unit_test(key_and_values_stay_until_the_iterator_moves),
        cmocka_unit_test(lookup_touches_one_page_a_column),
        cmocka_unit_test(a_walk_over_keys_reads_no_column),
        cmocka_unit_test(after_a_failure_it_stands_nowhere_and_may_be_placed_again),
        cmocka_unit_test(every_refused_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
