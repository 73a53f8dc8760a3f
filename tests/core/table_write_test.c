/* table_write_test.c: a finished file is whole and says what it holds; a failed one is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "coding.h"
#include "format.h"
#include "table_rows.h"

static bool file_exists(rows_folder *folder)
{
    char name[MW_TABLE_NAME_BYTES];
    bool yes = false;
    mw_table_name(folder->options.epoch, folder->options.number, name);
    assert_int_equal(folder->env.exists(folder->env.ctx, folder->dir, name, &yes), 0);
    return yes;
}

static uint8_t *read_file(rows_folder *folder, size_t *bytes)
{
    char name[MW_TABLE_NAME_BYTES];
    mw_err err = {.rc = MW_OK};
    uint8_t *content;
    mw_table_name(folder->options.epoch, folder->options.number, name);
    assert_int_equal(mw_env_read_file(&folder->env, folder->dir, name, 1 << 26, &content, bytes,
                                      &err), MW_OK);
    return content;
}

static void name_has_epoch_and_number(void **state)
{
    (void)state;
    char name[MW_TABLE_NAME_BYTES];
    mw_table_name(0x1f, UINT64_MAX, name);
    assert_string_equal(name, "table-000000000000001f-ffffffffffffffff");
    uint64_t epoch, number;
    assert_true(mw_table_parse_name(name, &epoch, &number));
    assert_true(epoch == 0x1f && number == UINT64_MAX);
    assert_false(mw_table_parse_name("table-000000000000001f", &epoch, &number));
    assert_false(mw_table_parse_name("table-000000000000001f-fffffffffffffffg", &epoch, &number));
    assert_false(mw_table_parse_name("tablf-000000000000001f-ffffffffffffffff", &epoch, &number));
}

static void props_say_what_was_written(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_err err = {.rc = MW_OK};
    size_t bytes;
    uint64_t tombstones = 0;
    rows_folder_make(&folder, MW_KEY_TEXT);
    rows_make(&model, MW_KEY_TEXT, 300, true, 1);
    for (size_t i = 0; i < model.count; i++) tombstones += model.items[i].tombstone;
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    uint8_t *content = read_file(&folder, &bytes);
    assert_int_equal(props.tombstones, tombstones);
    assert_int_equal(props.rows, model.count - tombstones);
    assert_int_equal(props.bytes, bytes);
    assert_int_equal(props.sequence_min, folder.options.sequence_min);
    assert_int_equal(props.sequence_max, folder.options.sequence_max);
    const uint8_t *footer = content + bytes - MW_TABLE_FOOTER_BYTES;
    assert_true(mw_get_u64(footer + MW_TABLE_FOOTER_CHECKSUM) == props.checksum);
    mw_free(&folder.env, content);
    rows_free(&model);
    rows_folder_remove(&folder);
}

static void same_rows_give_the_same_bytes(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props, again;
    mw_err err = {.rc = MW_OK};
    rows_make(&model, MW_KEY_INTEGER, 200, true, 2);
    rows_folder_make(&folder, MW_KEY_INTEGER);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    rows_folder_remove(&folder);
    rows_folder_make(&folder, MW_KEY_INTEGER);
    assert_int_equal(rows_write(&folder, &model, &again, &err), MW_OK);
    assert_memory_equal(&props, &again, sizeof props);
    rows_folder_remove(&folder);
    rows_free(&model);
}

static void file_without_rows_is_whole(void **state)
{
    (void)state;
    rows_folder folder;
    rows model = {.key = MW_KEY_TEXT};
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_TEXT);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(props.rows + props.tombstones + props.sequence_min + props.sequence_max, 0);
    assert_int_equal(mw_table_open(&folder.env, folder.dir, folder.cache, &folder.options, &props,
                                   &table, &err), MW_OK);
    assert_int_equal(rows_compare(&model, table, &err), MW_OK);
    assert_int_equal(mw_table_verify(table, &err), MW_OK);
    assert_int_equal(mw_table_first_key(table).size, 0);
    mw_table_unref(table);
    rows_folder_remove(&folder);
}

/* An existing file is somebody's: neither overwritten nor removed. */
static void name_that_is_taken_is_left_alone(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props, again;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_TEXT);
    rows_make(&model, MW_KEY_TEXT, 20, false, 3);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_write(&folder, &model, &again, &err), MW_EXISTS);
    err = (mw_err){.rc = MW_OK};
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* I6: an id occurs at most once in a file. */
static void keys_that_do_not_ascend_are_misuse(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    rows_folder_make(&folder, MW_KEY_TEXT);
    rows_make(&model, MW_KEY_TEXT, 20, false, 4);
    for (int doubled = 0; doubled < 2; doubled++) {
        mw_err err = {.rc = MW_OK};
        rows_row kept = model.items[5];
        model.items[5] = model.items[doubled ? 4 : 6];
        assert_int_equal(rows_write(&folder, &model, &props, &err), MW_MISUSE);
        assert_false(file_exists(&folder));
        model.items[5] = kept;
    }
    rows_free(&model);
    rows_folder_remove(&folder);
}

static void integer_keys_have_eight_bytes(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_INTEGER);
    rows_make(&model, MW_KEY_INTEGER, 5, false, 4);
    model.items[2].key_bytes = 7;
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_MISUSE);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* ---- faults -------------------------------------------------------------------------------- */

static int faults_left; /* calls until the failing one */

static int fault(int sys)
{
    return faults_left-- == 0 ? sys : 0;
}

static int failing_sync(void *ctx, int file)
{
    (void)ctx;
    (void)file;
    return fault(EIO);
}

static int failing_write(void *ctx, int file, const void *from, size_t bytes, uint64_t offset,
                         size_t *put)
{
    int sys = fault(ENOSPC);
    if (sys) return sys;
    /* Short writes all along. */
    size_t part = bytes > 1000 ? bytes / 2 : bytes;
    return mw_env_posix()->file_write(ctx, file, from, part, offset, put);
}

static int failing_close(void *ctx, int file)
{
    int sys = fault(EIO);
    (void)mw_env_posix()->file_close(ctx, file);
    return sys;
}

static void *failing_alloc(void *ctx, size_t bytes)
{
    return fault(1) ? NULL : mw_env_posix()->alloc(ctx, bytes);
}

static void *failing_resize(void *ctx, void *old, size_t bytes)
{
    return fault(1) ? NULL : mw_env_posix()->resize(ctx, old, bytes);
}

/* Fails each call in turn until none is left to fail. Returns how many failed. */
static int fail_each(const mw_env *env, mw_rc expected)
{
    rows model;
    rows_make(&model, MW_KEY_TEXT, 120, true, 5);
    for (int n = 0;; n++) {
        rows_folder folder;
        mw_table_props props;
        mw_err err = {.rc = MW_OK};
        rows_folder_make(&folder, MW_KEY_TEXT);
        mw_env whole = folder.env;
        folder.options.group_rows = 16;
        folder.options.compression = 1;
        folder.env = *env;
        faults_left = n;
        mw_rc rc = rows_write(&folder, &model, &props, &err);
        bool fault_met = faults_left < 0;
        folder.env = whole;
        assert_true(rc == MW_OK || (fault_met && rc == expected && err.rc == expected));
        assert_true(file_exists(&folder) == (rc == MW_OK));
        rows_folder_remove(&folder);
        if (!fault_met) {
            rows_free(&model);
            return n;
        }
    }
}

/* Design 3.5 and 3.6 lean on it: what failed is not there. */
static void failed_file_is_removed(void **state)
{
    (void)state;
    rows_folder folder;
    rows_folder_make(&folder, MW_KEY_TEXT);
    mw_env syncs = folder.env, writes = folder.env, closes = folder.env;
    syncs.file_sync = failing_sync;
    syncs.dir_sync = failing_sync;
    writes.file_write = failing_write;
    closes.file_close = failing_close;
    assert_int_equal(fail_each(&syncs, MW_IO), 2);
    assert_true(fail_each(&writes, MW_FULL) >= 3);
    assert_int_equal(fail_each(&closes, MW_IO), 1);
    rows_folder_remove(&folder);
}

static void every_refused_allocation_is_said(void **state)
{
    (void)state;
    rows_folder folder;
    rows_folder_make(&folder, MW_KEY_TEXT);
    mw_env memory = folder.env;
    memory.alloc = failing_alloc;
    memory.resize = failing_resize;
    assert_true(fail_each(&memory, MW_NOMEM) > 20);
    rows_folder_remove(&folder);
}

static void compression_saves_room(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props plain, packed;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_TEXT);
    rows_make(&model, MW_KEY_TEXT, 3000, false, 6);
    model.items[7].values[5].bytes.size = 0; /* the large random one */
    assert_int_equal(rows_write(&folder, &model, &plain, &err), MW_OK);
    folder.options.number++;
    folder.options.compression = 3;
    assert_int_equal(rows_write(&folder, &model, &packed, &err), MW_OK);
    assert_true(packed.bytes < plain.bytes / 2);
    assert_int_equal(packed.rows, plain.rows);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* tests/support/read_table.py was written from FORMAT.md alone: what it says of a file is what the page
** says. */
static void second_reader_agrees(void **state)
{
    (void)state;
    const char *reader = "tests/support/read_table.py";
    if (access(reader, X_OK)) skip();
    for (int i = 0; i < 4; i++) {
        rows_folder folder;
        rows model;
        mw_table_props props;
        mw_err err = {.rc = MW_OK};
        char line[256] = "", name[MW_TABLE_NAME_BYTES], expected[128];
        mw_key_kind key = i % 2 ? MW_KEY_TEXT : MW_KEY_INTEGER;
        rows_folder_make(&folder, key);
        folder.options.compression = i / 2;
        folder.options.group_rows = 40;
        folder.options.page_bytes = 200;
        rows_make(&model, key, 300, true, 7);
        assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
        mw_table_name(folder.options.epoch, folder.options.number, name);
        snprintf(line, sizeof line, "%s %s/%s", reader, folder.path, name);
        FILE *output = popen(line, "r");
        assert_non_null(output);
        line[0] = 0;
        if (!fgets(line, sizeof line, output)) line[0] = 0;
        int status = pclose(output);
        rows_free(&model);
        rows_folder_remove(&folder);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip(); /* its modules are missing */
        assert_int_equal(status, 0);
        snprintf(expected, sizeof expected, ": rows %d, tombstones %d, distinct ids %d\n",
                 (int)props.rows, (int)props.tombstones, (int)(props.rows + props.tombstones));
        assert_non_null(strstr(line, expected));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_has_epoch_and_number),
        cmocka_unit_test(props_say_what_was_written),
        cmocka_unit_test(same_rows_give_the_same_bytes),
        cmocka_unit_test(file_without_rows_is_whole),
        cmocka_unit_test(name_that_is_taken_is_left_alone),
        cmocka_unit_test(keys_that_do_not_ascend_are_misuse),
        cmocka_unit_test(integer_keys_have_eight_bytes),
        cmocka_unit_test(failed_file_is_removed),
        cmocka_unit_test(every_refused_allocation_is_said),
        cmocka_unit_test(compression_saves_room),
        cmocka_unit_test(second_reader_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
