/* table_read_test.c: a table file answers like a sorted array of rows; a damaged, cut, grown or
** swapped one is refused, and never answers wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coding.h"
#include "filter.h"
#include "hash.h"
#include "table_layout.h"
#include "table_rows.h"

/* ---- answers ------------------------------------------------------------------------------- */

/* Sizes that let groups and pages end at all places. */
static const struct shape {
    uint32_t group_rows;
    uint32_t page_bytes;
    int compression;
} shapes[] = {{0, 0, 0}, {0, 0, 1}, {1, 1, 0}, {2, 1, 0}, {2, 16, 1}, {7, 40, 0}, {50, 1, 0},
              {64, 300, 3}, {1000, 500, 1}};

static void compare_shape(mw_key_kind key, const struct shape *shape, size_t count, uint64_t seed)
{
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&folder, key);
    rows_make(&model, key, count, seed % 2, seed);
    folder.options.group_rows = shape->group_rows;
    folder.options.page_bytes = shape->page_bytes;
    folder.options.compression = shape->compression;
    mw_rc rc = rows_write(&folder, &model, &props, &err);
    if (rc == MW_OK) {
        rc = mw_table_open(&folder.env, folder.dir, folder.cache, &folder.options, &props, &table,
                           &err);
    }
    if (rc == MW_OK) {
        rc = rows_compare(&model, table, &err);
        if (rc == MW_OK) rc = mw_table_verify(table, &err);
        mw_table_unref(table);
    }
    if (rc) {
        fail_msg("seed %d, key kind %d, %zu rows, groups of %u, pages of %u: %s", (int)seed, key,
                 count, (unsigned)shape->group_rows, (unsigned)shape->page_bytes, err.text);
    }
    rows_free(&model);
    rows_folder_remove(&folder);
}

static void answers_are_those_of_a_sorted_array(void **state)
{
    (void)state;
    const size_t counts[] = {1, 2, 3, 17, 120};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            compare_shape(MW_KEY_INTEGER, &shapes[s], counts[c], s * 10 + c);
            compare_shape(MW_KEY_TEXT, &shapes[s], counts[c], s * 10 + c + 1);
        }
    }
}

static void a_file_without_other_columns_works(void **state)
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
    assert_int_equal(mw_table_verify(table, &err), MW_OK);
    mw_table_unref(table);
    rows_free(&model);
    rows_folder_remove(&folder);
}

static void what_is_known_at_open_is_right(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_iter *iter;
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
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(iter->sequence, folder.options.sequence_max);
    mw_table_unref(table); /* the iterator holds its own */
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    assert_true(iter->valid);
    mw_iter_close(iter);
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* ---- reading no more than needed ----------------------------------------------------------- */

static int reads;         /* calls of the environment below                       */
static int flip_reads;    /* so many of the next ones deliver a flipped bit       */

static int watched_read(void *ctx, int file, void *to, size_t bytes, uint64_t offset, size_t *got)
{
    int sys = mw_env_posix()->file_read(ctx, file, to, bytes, offset, got);
    reads++;
    if (flip_reads > 0 && *got) {
        ((uint8_t *)to)[*got / 2] ^= 4;
        flip_reads--;
    }
    return sys;
}

static void lookup_touches_one_page_a_column(void **state)
{
    (void)state;
    rows_folder folder;
    rows model;
    mw_table_props props;
    mw_table *table;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    bool found, tombstone;
    mw_value value;
    rows_folder_make(&folder, MW_KEY_INTEGER);
    folder.env.file_read = watched_read;
    folder.options.page_bytes = 100;
    rows_make(&model, MW_KEY_INTEGER, 500, false, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    mw_slice key = rows_key(&model, 100);
    reads = 0;
    assert_int_equal(mw_table_find(table, key, &found, &tombstone, &err), MW_OK);
    assert_int_equal(reads, 3); /* filter, directory, key page */
    assert_int_equal(mw_table_find(table, key, &found, &tombstone, &err), MW_OK);
    assert_int_equal(reads, 3);
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(mw_table_iter_find(iter, key, &found, &err), MW_OK);
    assert_int_equal(reads, 3);
    assert_int_equal(iter->ops->column(iter, 2, &value, &err), MW_OK);
    assert_true(mw_value_equal(&value, &model.items[100].values[2]));
    assert_int_equal(reads, 4);
    mw_iter_close(iter);
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
    folder.env.file_read = watched_read;
    rows_make(&model, MW_KEY_TEXT, 100, false, 8);
    assert_int_equal(rows_write(&folder, &model, &props, &err), MW_OK);
    flip_reads = 1;
    assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
    flip_reads = 1;
    assert_int_equal(mw_table_find(table, rows_key(&model, 3), &found, &tombstone, &err), MW_OK);
    assert_true(found && err.rc == MW_OK);
    mw_table_unref(table);
    flip_reads = 2;
    assert_int_equal(rows_open(&folder, &table, &err), MW_CORRUPT);
    flip_reads = 0;
    rows_free(&model);
    rows_folder_remove(&folder);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* A file and its bytes, for hurting. */
typedef struct victim {
    rows_folder folder;
    rows model;
    mw_table_props props;
    char name[MW_TABLE_NAME_BYTES];
    uint8_t *bytes;
    size_t size;
} victim;

static void make_victim(victim *v, mw_key_kind key, size_t count, int compression)
{
    mw_err err = {.rc = MW_OK};
    rows_folder_make(&v->folder, key);
    v->folder.options.group_rows = 8;
    v->folder.options.page_bytes = 64;
    v->folder.options.compression = compression;
    rows_make(&v->model, key, count, true, 11);
    assert_int_equal(rows_write(&v->folder, &v->model, &v->props, &err), MW_OK);
    mw_table_name(v->folder.options.epoch, v->folder.options.number, v->name);
    assert_int_equal(mw_env_read_file(&v->folder.env, v->folder.dir, v->name, 1 << 26, &v->bytes,
                                      &v->size, &err), MW_OK);
}

static void free_victim(victim *v)
{
    mw_free(&v->folder.env, v->bytes);
    rows_free(&v->model);
    rows_folder_remove(&v->folder);
}

static void replace_file(victim *v, const uint8_t *bytes, size_t size)
{
    int file;
    mw_err err = {.rc = MW_OK};
    const mw_env *env = &v->folder.env;
    env->unlink(env->ctx, v->folder.dir, v->name);
    assert_int_equal(env->file_open(env->ctx, v->folder.dir, v->name, MW_OPEN_CREATE, &file), 0);
    assert_int_equal(mw_env_write(env, file, v->name, bytes, size, 0, &err), MW_OK);
    env->file_close(env->ctx, file);
}

/* Opens and asks everything. An error must name the file. */
static mw_rc ask(victim *v, mw_rc *verified)
{
    mw_err err = {.rc = MW_OK}, verify_err = {.rc = MW_OK};
    mw_table *table;
    mw_rc rc = rows_open(&v->folder, &table, &err);
    *verified = rc;
    if (rc == MW_OK) {
        rc = rows_compare(&v->model, table, &err);
        *verified = mw_table_verify(table, &verify_err);
        mw_table_unref(table);
    }
    if (rc == MW_CORRUPT) assert_non_null(strstr(err.text, v->name));
    if (*verified == MW_CORRUPT && !err.rc) assert_non_null(strstr(verify_err.text, v->name));
    return rc;
}

/* C30, C31, I9: each byte changed: an error, or the same answers; verify finds all of them. */
static void each_changed_byte_is_found(void **state)
{
    (void)state;
    victim v;
    make_victim(&v, MW_KEY_TEXT, 20, 1);
    for (size_t i = 0; i < v.size; i++) {
        mw_rc verified;
        v.bytes[i] ^= (uint8_t)(1u << i % 8);
        replace_file(&v, v.bytes, v.size);
        mw_rc rc = ask(&v, &verified);
        if (verified == MW_OK || rc == MW_MISUSE) {
            fail_msg("byte %zu changed: answers %s, verify %s", i, mw_rc_text(rc),
                     mw_rc_text(verified));
        }
        v.bytes[i] ^= (uint8_t)(1u << i % 8);
    }
    free_victim(&v);
}

/* C32: cut anywhere, one byte more, twice. */
static void each_wrong_length_is_found(void **state)
{
    (void)state;
    victim v;
    mw_table *table;
    make_victim(&v, MW_KEY_INTEGER, 20, 1);
    uint8_t *longer = calloc(2, v.size);
    memcpy(longer, v.bytes, v.size);
    for (size_t size = 0; size <= v.size + 1; size++) {
        mw_err err = {.rc = MW_OK};
        replace_file(&v, longer, size);
        mw_rc rc = rows_open(&v.folder, &table, &err);
        assert_int_equal(rc, size == v.size ? MW_OK : MW_CORRUPT);
        if (rc == MW_OK) mw_table_unref(table);
        if (rc) assert_non_null(strstr(err.text, v.name));
    }
    mw_err err = {.rc = MW_OK};
    memcpy(longer + v.size, v.bytes, v.size);
    replace_file(&v, longer, 2 * v.size);
    assert_int_equal(rows_open(&v.folder, &table, &err), MW_CORRUPT);
    free(longer);
    free_victim(&v);
}

/* C32: another valid file under this name. */
static void another_file_under_the_name_is_found(void **state)
{
    (void)state;
    victim v;
    mw_table *table;
    make_victim(&v, MW_KEY_TEXT, 20, 1);
    for (int change = 0; change < 3; change++) {
        mw_err err = {.rc = MW_OK};
        mw_table_options kept = v.folder.options;
        if (change == 0) v.folder.options.number++;
        if (change == 1) v.folder.options.epoch++;
        if (change == 2) v.folder.options.store.bytes[15]++;
        mw_table_name(v.folder.options.epoch, v.folder.options.number, v.name);
        replace_file(&v, v.bytes, v.size);
        assert_int_equal(rows_open(&v.folder, &table, &err), MW_MISMATCH);
        assert_non_null(strstr(err.text, v.name));
        v.folder.options = kept;
    }
    free_victim(&v);
}

static void another_file_than_the_manifest_lists_is_found(void **state)
{
    (void)state;
    victim v;
    mw_table *table;
    make_victim(&v, MW_KEY_TEXT, 20, 1);
    for (int change = 0; change < 6; change++) {
        mw_err err = {.rc = MW_OK};
        mw_table_props props = v.props;
        uint64_t *fields[] = {&props.rows,         &props.tombstones,   &props.bytes,
                              &props.sequence_min, &props.sequence_max, &props.checksum};
        *fields[change] += 1;
        assert_int_equal(mw_table_open(&v.folder.env, v.folder.dir, v.folder.cache,
                                       &v.folder.options, &props, &table, &err), MW_CORRUPT);
        assert_non_null(strstr(err.text, v.name));
    }
    free_victim(&v);
}

static void another_schema_is_a_mismatch(void **state)
{
    (void)state;
    victim v;
    mw_table *table;
    make_victim(&v, MW_KEY_TEXT, 20, 1);
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
    free_victim(&v);
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

/* ---- damage with right checksums ----------------------------------------------------------- */

static uint64_t seed_of(const victim *v)
{
    const mw_table_options *options = &v->folder.options;
    return mw_hash_seed(&options->store, options->epoch, options->number);
}

static uint64_t sum_of(const victim *v, uint64_t offset, uint64_t bytes)
{
    return mw_hash(v->bytes + offset, bytes, seed_of(v));
}

/* What footer and properties of the victim's bytes say. */
static mw_table_frame frame_of(victim *v)
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
static void fix_checksums(victim *v, mw_table_frame *frame)
{
    uint8_t *properties = v->bytes + frame->properties.offset;
    uint8_t *footer = v->bytes + v->size - MW_TABLE_FOOTER_BYTES;
    mw_put_u64(properties + 7 * 8, sum_of(v, frame->filter.offset, frame->filter.bytes));
    mw_put_u64(properties + 10 * 8, sum_of(v, frame->index.offset, frame->index.bytes));
    frame->properties.checksum = sum_of(v, frame->properties.offset, frame->properties.bytes);
    mw_table_footer_put(frame, footer);
    replace_file(v, v->bytes, v->size);
}

/* C31 (b): a filter that denies a live id, under a right checksum, is found by verify. */
static void wrong_filter_is_found_by_verify(void **state)
{
    (void)state;
    victim v;
    mw_rc verified;
    make_victim(&v, MW_KEY_TEXT, 20, 1);
    mw_table_frame frame = frame_of(&v);
    memset(v.bytes + frame.filter.offset, 0, frame.filter.bytes);
    fix_checksums(&v, &frame);
    (void)ask(&v, &verified);
    assert_int_equal(verified, MW_CORRUPT);
    free_victim(&v);
}

/* C29, L5: wrong numbers everywhere in properties and index, checksums right: never a crash or a
** huge allocation, and what verify passes answers rightly. */
static void wrong_numbers_under_right_checksums_do_no_harm(void **state)
{
    (void)state;
    victim v;
    const uint8_t changes[] = {0x01, 0x80, 0xff};
    make_victim(&v, MW_KEY_INTEGER, 20, 1);
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
                changed.properties.checksum = sum_of(&v, frame.properties.offset,
                                                     frame.properties.bytes);
                mw_table_footer_put(&changed, v.bytes + v.size - MW_TABLE_FOOTER_BYTES);
                replace_file(&v, v.bytes, v.size);
            }
            mw_rc rc = ask(&v, &verified);
            assert_true(rc != MW_NOMEM && verified != MW_NOMEM);
            if (rc == MW_MISUSE && verified == MW_OK) fail_msg("byte %d: found by nobody", (int)i);
            memcpy(v.bytes, kept, v.size);
        }
    }
    free(kept);
    free_victim(&v);
}

/* Where the index has the checksum of group `number`'s directory, and the group itself. */
static uint64_t find_group(victim *v, const mw_table_frame *frame, uint64_t number, mw_group *group)
{
    mw_err err = {.rc = MW_OK};
    mw_group *groups;
    uint64_t at = 0;
    mw_slice index = mw_slice_of(v->bytes + frame->index.offset, frame->index.bytes);
    assert_int_equal(mw_groups_get(&v->folder.env, frame, index, v->folder.schema.key, &groups,
                                   &err), MW_OK);
    *group = groups[number];
    mw_free(&v->folder.env, groups);
    for (at = frame->index.offset; mw_get_u64(v->bytes + at) != group->directory.checksum;) at++;
    return at;
}

/* The same for a directory, and through it for pages: wrong numbers in it, checksums right. */
static void wrong_directories_under_right_checksums_do_no_harm(void **state)
{
    (void)state;
    victim v;
    mw_group group;
    const uint8_t changes[] = {0x01, 0x7f, 0x80, 0xff};
    make_victim(&v, MW_KEY_TEXT, 20, 1);
    mw_table_frame frame = frame_of(&v);
    uint64_t sum_at = find_group(&v, &frame, 1, &group);
    uint8_t *kept = malloc(v.size);
    memcpy(kept, v.bytes, v.size);
    for (uint64_t i = 0; i < group.directory.bytes; i++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            mw_rc verified;
            mw_table_frame changed = frame;
            v.bytes[group.directory.offset + i] ^= changes[c];
            mw_put_u64(v.bytes + sum_at,
                       sum_of(&v, group.directory.offset, group.directory.bytes));
            fix_checksums(&v, &changed);
            mw_rc rc = ask(&v, &verified);
            assert_true(rc != MW_NOMEM && verified != MW_NOMEM);
            if (rc == MW_MISUSE && verified == MW_OK) fail_msg("byte %d: found by nobody", (int)i);
            memcpy(v.bytes, kept, v.size);
        }
    }
    free(kept);
    free_victim(&v);
}

/* Changes one byte of a page, with every checksum right again, and asks. */
static void change_page(victim *v, const mw_group *group, const mw_page_ref *ref, uint64_t at)
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
    mw_rc rc = ask(v, &verified);
    assert_true(rc != MW_NOMEM && verified != MW_NOMEM);
}

static void wrong_pages_under_right_checksums_do_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        victim v;
        mw_group group;
        mw_directory *directory;
        mw_err err = {.rc = MW_OK};
        make_victim(&v, i % 2 ? MW_KEY_TEXT : MW_KEY_INTEGER, 20, i / 2);
        mw_table_frame frame = frame_of(&v);
        (void)find_group(&v, &frame, 1, &group);
        mw_directory_source source = {v.name, &group, ROWS_COLUMNS,
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
        free_victim(&v);
    }
}

/* ---- faults -------------------------------------------------------------------------------- */

static int allocations_left;

static void *failing_alloc(void *ctx, size_t bytes)
{
    return allocations_left-- == 0 ? NULL : mw_env_posix()->alloc(ctx, bytes);
}

static void *failing_resize(void *ctx, void *old, size_t bytes)
{
    return allocations_left-- == 0 ? NULL : mw_env_posix()->resize(ctx, old, bytes);
}

static void every_refused_allocation_is_said(void **state)
{
    (void)state;
    victim v;
    make_victim(&v, MW_KEY_TEXT, 20, 1);
    v.folder.env.alloc = failing_alloc;
    v.folder.env.resize = failing_resize;
    for (int n = 0;; n++) {
        mw_rc verified = MW_OK;
        allocations_left = n;
        mw_rc rc = ask(&v, &verified);
        bool met = allocations_left < 0;
        allocations_left = -1;
        if (!met) {
            assert_true(rc == MW_OK && verified == MW_OK && n > 50);
            break;
        }
        assert_true(rc == MW_NOMEM || verified == MW_NOMEM);
    }
    free_victim(&v);
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
    victim v;
    asker askers[4];
    mw_thread *threads[4];
    mw_table *table;
    mw_err err = {.rc = MW_OK};
    make_victim(&v, MW_KEY_TEXT, 200, 1);
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
    free_victim(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_a_sorted_array),
        cmocka_unit_test(a_file_without_other_columns_works),
        cmocka_unit_test(what_is_known_at_open_is_right),
        cmocka_unit_test(lookup_touches_one_page_a_column),
        cmocka_unit_test(one_bad_read_is_read_again),
        cmocka_unit_test(each_changed_byte_is_found),
        cmocka_unit_test(each_wrong_length_is_found),
        cmocka_unit_test(another_file_under_the_name_is_found),
        cmocka_unit_test(another_file_than_the_manifest_lists_is_found),
        cmocka_unit_test(another_schema_is_a_mismatch),
        cmocka_unit_test(missing_file_is_missing),
        cmocka_unit_test(wrong_filter_is_found_by_verify),
        cmocka_unit_test(wrong_numbers_under_right_checksums_do_no_harm),
        cmocka_unit_test(wrong_directories_under_right_checksums_do_no_harm),
        cmocka_unit_test(wrong_pages_under_right_checksums_do_no_harm),
        cmocka_unit_test(every_refused_allocation_is_said),
        cmocka_unit_test(threads_may_ask_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
