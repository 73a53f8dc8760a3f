/* table_verify_test.c: verify passes what was written, and finds every change of it: flipped bits,
** wrong lengths, and numbers that are wrong under right checksums. No damage makes a table answer
** wrongly unless verify finds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coding.h"
#include "hash.h"
#include "table_layout.h"
#include "table_rows.h"

/* ---- whole files --------------------------------------------------------------------------- */

static mw_rc verify(rows *model, mw_table *table, mw_err *err)
{
    (void)model;
    return mw_table_verify(table, err);
}

static void what_was_written_passes(void **state)
{
    (void)state;
    rows_ask_shapes(verify);
}

static void a_file_without_other_columns_passes(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, MW_KEY_INTEGER);
    folder.schema.column_count = 0;
    rows_make(&model, MW_KEY_INTEGER, 100, true, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    assert_int_equal(mw_table_verify(table, &err), MW_OK);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* C30, C31, I9: each byte changed: an error, or the same answers; verify finds all of them. */
static void each_changed_byte_is_found(void **state)
{
    (void)state;
    rows_victim v;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    for (size_t i = 0; i < v.size; i++) {
        mw_rc verified;
        v.bytes[i] ^= (uint8_t)(1u << i % 8);
        rows_victim_replace(&v, v.bytes, v.size);
        mw_rc rc = rows_victim_ask(&v, &verified);
        if (verified == MW_OK || rc == MW_MISUSE) {
            fail_msg("byte %zu changed: answers %s, verify %s", i, mw_rc_text(rc),
                     mw_rc_text(verified));
        }
        v.bytes[i] ^= (uint8_t)(1u << i % 8);
    }
    rows_victim_free(&v);
}

/* C32: cut anywhere, one byte more, twice. */
static void each_wrong_length_is_found(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    rows_victim_make(&v, MW_KEY_INTEGER, 20, 1);
    uint8_t *longer = calloc(2, v.size);
    memcpy(longer, v.bytes, v.size);
    for (size_t size = 0; size <= v.size + 1; size++) {
        mw_err err = {.rc = MW_OK};
        rows_victim_replace(&v, longer, size);
        mw_rc rc = rows_open(&v.folder, &table, &err);
        assert_int_equal(rc, size == v.size ? MW_OK : MW_CORRUPT);
        if (rc == MW_OK) mw_table_unref(table);
        if (rc) assert_non_null(strstr(err.text, v.name));
    }
    mw_err err = {.rc = MW_OK};
    memcpy(longer + v.size, v.bytes, v.size);
    rows_victim_replace(&v, longer, 2 * v.size);
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_CORRUPT);
    free(longer);
    rows_victim_free(&v);
}

/* Verify trusts neither the cache nor what was read at the open. */
static void what_changes_in_an_open_file_is_found(void **state)
{
    (void)state;
    rows_victim v;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    int file;
    rows_victim_make(&v, MW_KEY_INTEGER, 20, 0);
    const mw_env *env = &v.folder.env;
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_OK);
    assert_int_equal(rows_compare(&v.model, table, &err), MW_OK);
    assert_int_equal(env->file_open(env->ctx, v.folder.dir, v.name, MW_OPEN_WRITE, &file), 0);
    for (size_t i = 0; i < v.size; i++) {
        mw_err found = {.rc = MW_OK};
        uint8_t changed = v.bytes[i] ^ (uint8_t)(1u << i % 8);
        assert_int_equal(mw_env_write(env, file, v.name, &changed, 1, i, &err), MW_OK);
        assert_int_equal(mw_table_verify(table, &found), MW_CORRUPT);
        assert_non_null(strstr(found.text, v.name));
        assert_int_equal(mw_env_write(env, file, v.name, &v.bytes[i], 1, i, &err), MW_OK);
    }
    assert_int_equal(mw_table_verify(table, &err), MW_OK);
    assert_int_equal(mw_env_write(env, file, v.name, v.bytes, 1, v.size, &err), MW_OK);
    assert_int_equal(mw_table_verify(table, &err), MW_CORRUPT);
    env->file_close(env->ctx, file);
    mw_table_unref(table);
    rows_victim_free(&v);
}

/* ---- damage with right checksums ----------------------------------------------------------- */

static uint64_t seed_of(const rows_victim *v)
{
    const mw_table_options *options = &v->folder.options;
    return mw_hash_seed(&options->store, options->epoch, options->number);
}

static uint64_t sum_of(const rows_victim *v, uint64_t offset, uint64_t bytes)
{
    return mw_hash(v->bytes + offset, bytes, seed_of(v));
}

/* What footer and properties of the victim's bytes say. */
static mw_table_frame frame_of(rows_victim *v)
{
    mw_err err = {.rc = MW_OK};
    mw_table_frame frame = {.name = v->name, .seed = seed_of(v)};
    const uint8_t *footer = v->bytes + v->size - MW_TABLE_FOOTER_BYTES;
    assert_int_equal(mw_table_footer_get(&frame, footer, v->size, &err), MW_OK);
    mw_slice properties = mw_slice_of(v->bytes + frame.properties.offset, frame.properties.bytes);
    assert_int_equal(mw_table_properties_get(&frame, properties, &v->folder.schema, &err), MW_OK);
    return frame;
}

/* Makes every checksum from the filter and index up right again. */
static void fix_checksums(rows_victim *v, mw_table_frame *frame)
{
    uint8_t *properties = v->bytes + frame->properties.offset;
    uint8_t *footer = v->bytes + v->size - MW_TABLE_FOOTER_BYTES;
    mw_put_u64(properties + 7 * 8, sum_of(v, frame->filter.offset, frame->filter.bytes));
    mw_put_u64(properties + 10 * 8, sum_of(v, frame->index.offset, frame->index.bytes));
    frame->properties.checksum = sum_of(v, frame->properties.offset, frame->properties.bytes);
    mw_table_footer_put(frame, footer);
    rows_victim_replace(v, v->bytes, v->size);
}

/* C31 (b): a filter that denies a live id, under a right checksum, is found by verify. */
static void wrong_filter_is_found_by_verify(void **state)
{
    (void)state;
    rows_victim v;
    mw_rc verified;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    mw_table_frame frame = frame_of(&v);
    memset(v.bytes + frame.filter.offset, 0, frame.filter.bytes);
    fix_checksums(&v, &frame);
    (void)rows_victim_ask(&v, &verified);
    assert_int_equal(verified, MW_CORRUPT);
    rows_victim_free(&v);
}

/* C29, L5: wrong numbers everywhere in properties and index, checksums right: never a crash or a
** huge allocation, and what verify passes answers rightly. */
static void wrong_numbers_under_right_checksums_do_no_harm(void **state)
{
    (void)state;
    rows_victim v;
    const uint8_t changes[] = {0x01, 0x80, 0xff};
    rows_victim_make(&v, MW_KEY_INTEGER, 20, 1);
    mw_table_frame frame = frame_of(&v);
    uint8_t *kept = malloc(v.size);
    memcpy(kept, v.bytes, v.size);
    for (uint64_t i = frame.index.offset; i < v.size - MW_TABLE_FOOTER_BYTES; i++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            mw_rc verified;
            mw_table_frame changed = frame;
            v.bytes[i] ^= changes[c];
            if (i < frame.properties.offset) {
                fix_checksums(&v, &changed);
            } else {
                changed.properties.checksum =
                    sum_of(&v, frame.properties.offset, frame.properties.bytes);
                mw_table_footer_put(&changed, v.bytes + v.size - MW_TABLE_FOOTER_BYTES);
                rows_victim_replace(&v, v.bytes, v.size);
            }
            mw_rc rc = rows_victim_ask(&v, &verified);
            assert_true(rc != MW_NOMEM && verified != MW_NOMEM);
            if (rc == MW_MISUSE && verified == MW_OK) fail_msg("byte %d: found by nobody", (int)i);
            memcpy(v.bytes, kept, v.size);
        }
    }
    free(kept);
    rows_victim_free(&v);
}

/* Where the index has the checksum of group `number`'s directory, and the group itself. */
static uint64_t find_group(rows_victim *v, const mw_table_frame *frame, uint64_t number,
                           mw_group *group)
{
    mw_err err = {.rc = MW_OK};
    mw_group *groups;
    uint64_t at = 0;
    mw_slice index = mw_slice_of(v->bytes + frame->index.offset, frame->index.bytes);
    assert_int_equal(
        mw_groups_get(&v->folder.env, frame, index, v->folder.schema.key, &groups, &err), MW_OK);
    *group = groups[number];
    mw_free(&v->folder.env, groups);
    for (at = frame->index.offset; mw_get_u64(v->bytes + at) != group->directory.checksum;) at++;
    return at;
}

/* The same for a directory, and through it for pages: wrong numbers in it, checksums right. */
static void wrong_directories_under_right_checksums_do_no_harm(void **state)
{
    (void)state;
    rows_victim v;
    mw_group group;
    const uint8_t changes[] = {0x01, 0x7f, 0x80, 0xff};
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    mw_table_frame frame = frame_of(&v);
    uint64_t sum_at = find_group(&v, &frame, 1, &group);
    uint8_t *kept = malloc(v.size);
    memcpy(kept, v.bytes, v.size);
    for (uint64_t i = 0; i < group.directory.bytes; i++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            mw_rc verified;
            mw_table_frame changed = frame;
            v.bytes[group.directory.offset + i] ^= changes[c];
            mw_put_u64(v.bytes + sum_at, sum_of(&v, group.directory.offset, group.directory.bytes));
            fix_checksums(&v, &changed);
            mw_rc rc = rows_victim_ask(&v, &verified);
            assert_true(rc != MW_NOMEM && verified != MW_NOMEM);
            if (rc == MW_MISUSE && verified == MW_OK) fail_msg("byte %d: found by nobody", (int)i);
            memcpy(v.bytes, kept, v.size);
        }
    }
    free(kept);
    rows_victim_free(&v);
}

/* Changes one byte of a page, with every checksum right again, and asks. */
static void change_page(rows_victim *v, const mw_group *group, const mw_page_ref *ref, uint64_t at)
{
    mw_rc verified;
    mw_table_frame frame = frame_of(v);
    uint64_t directory = group->directory.offset, index = frame.index.offset;
    uint64_t bytes = group->directory.bytes, page_sum = directory;
    while (mw_get_u64(v->bytes + page_sum) != ref->checksum) page_sum++;
    while (mw_get_u64(v->bytes + index) != group->directory.checksum) index++;
    v->bytes[at] ^= (uint8_t)(1u << at % 8);
    mw_put_u64(v->bytes + page_sum, sum_of(v, ref->offset, ref->stored_bytes));
    mw_put_u64(v->bytes + index, sum_of(v, directory, bytes));
    fix_checksums(v, &frame);
    mw_rc rc = rows_victim_ask(v, &verified);
    assert_true(rc != MW_NOMEM && verified != MW_NOMEM);
}

static void wrong_pages_under_right_checksums_do_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        rows_victim v;
        mw_group group;
        mw_directory *directory;
        mw_err err = {.rc = MW_OK};
        rows_victim_make(&v, i % 2 ? MW_KEY_TEXT : MW_KEY_INTEGER, 20, i / 2);
        mw_table_frame frame = frame_of(&v);
        (void)find_group(&v, &frame, 1, &group);
        mw_directory_source source = {v.name,
                                      &group,
                                      ROWS_COLUMNS,
                                      {v.bytes + group.directory.offset, group.directory.bytes}};
        assert_int_equal(mw_directory_decode(&v.folder.env, &source, &directory, &err), MW_OK);
        uint8_t *kept = malloc(v.size);
        memcpy(kept, v.bytes, v.size);
        for (uint32_t page = 0; page < directory->page_starts[ROWS_COLUMNS + 1]; page++) {
            const mw_page_ref *ref = &directory->pages[page];
            for (uint64_t at = ref->offset; at < ref->offset + ref->stored_bytes; at++) {
                change_page(&v, &group, ref, at);
                memcpy(v.bytes, kept, v.size);
            }
        }
        free(kept);
        mw_free(&v.folder.env, directory);
        rows_victim_free(&v);
    }
}

/* ---- faults -------------------------------------------------------------------------------- */

static void every_refused_allocation_is_said(void **state)
{
    (void)state;
    rows_victim v;
    rows_victim_make(&v, MW_KEY_TEXT, 20, 1);
    assert_true(rows_victim_refuse(&v, verify) > 20);
    rows_victim_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_passes),
        cmocka_unit_test(a_file_without_other_columns_passes),
        cmocka_unit_test(each_changed_byte_is_found),
        cmocka_unit_test(each_wrong_length_is_found),
        cmocka_unit_test(what_changes_in_an_open_file_is_found),
        cmocka_unit_test(wrong_filter_is_found_by_verify),
        cmocka_unit_test(wrong_numbers_under_right_checksums_do_no_harm),
        cmocka_unit_test(wrong_directories_under_right_checksums_do_no_harm),
        cmocka_unit_test(wrong_pages_under_right_checksums_do_no_harm),
        cmocka_unit_test(every_refused_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
