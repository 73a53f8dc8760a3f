/* table_train_test.c: a settled file trains compression dictionaries where they pay, reads the same
** with and without them, and takes none that is damaged. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "coding.h"
#include "table_copy.h"
#include "table_file.h"
#include "table_rows.h"

enum {
    COLUMNS = 6, /* as the folder's schema: trace, status, count, reward, note (NULL at times), time */
    TRACE_MAX = 1500,
    FILE_ROWS = 2500, /* more than 1 MB of traces: enough for a dictionary */
};

static const char *const rewards[] = {"0.25", "0.5", "0.75", "1.0", "1.25", "1.5", "1.75", "2.0"};
static const char *const statuses[] = {"ok", "failed", "cancelled"};

static bool no_tombstones; /* in what row_make makes */

/* Row i, made afresh whenever it is needed. */
typedef struct trace_row {
    mw_iter base;
    char key[40];
    char trace[TRACE_MAX];
    mw_value values[COLUMNS];
} trace_row;

static uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t make_trace(char *to, uint64_t random)
{
    static const char *const words[] = {"maze",  "door", "left", "wall",  "agent", "turns", "looks",
                                        "right", "goes", "on",   "until", "the",   "ends",  "stop"};
    int at = snprintf(to, TRACE_MAX,
                      "{\"trace\":\"%016llx\",\"agent\":\"planner\",\"tool\":\"%s\",\"arguments\":"
                      "{\"query\":\"",
                      (unsigned long long)random, words[random % 14]);
    for (int i = 0; i < 60; i++) {
        random = mixed(random + 0x9e3779b97f4a7c15u);
        at += snprintf(to + at, TRACE_MAX - (size_t)at, "%s%s", words[random % 14],
                       random >> 60 ? " " : ", ");
    }
    at += snprintf(to + at, TRACE_MAX - (size_t)at,
                   "\",\"limit\":%d},\"observation\":{\"truncated\":false,\"bytes\":%d}}",
                   (int)(random % 20), (int)(random % 5000));
    return (size_t)at;
}

static mw_rc row_column(mw_iter *iter, uint32_t index, mw_value *value, mw_err *err)
{
    (void)err;
    *value = ((trace_row *)iter)->values[index];
    return MW_OK;
}

static const mw_iter_ops row_ops = {.column = row_column};

static mw_value text(const char *words, size_t size)
{
    return (mw_value){.type = MW_TEXT, .bytes = mw_slice_of(words, size)};
}

static void row_make(trace_row *row, uint32_t i)
{
    uint64_t random = mixed(i + 1);
    const char *status = statuses[random % 3];
    snprintf(row->key, sizeof row->key, "run-%03u/step-%06u", (unsigned)(i / 100), (unsigned)i);
    row->base = (mw_iter){.ops = &row_ops, .valid = true, .sequence = 1000};
    row->base.tombstone = !no_tombstones && i % 97 == 50;
    row->base.key = mw_slice_of(row->key, strlen(row->key));
    row->values[0] = text(row->trace, make_trace(row->trace, random));
    row->values[1] = text(status, strlen(status));
    row->values[2] = (mw_value){.type = MW_INTEGER, .integer = (int64_t)(random % 9000) - 100};
    row->values[3] = (mw_value){.type = MW_REAL, .real = (double)(random % 8 + 1) / 4};
    row->values[4] = text(row->trace + 10, random % 90);
    if (i % 3) row->values[4].type = MW_NULL;
    row->values[5] = (mw_value){.type = MW_INTEGER, .integer = 1767225600000000 + (int64_t)i * 5000000};
}

static mw_rc write_rows(rows_folder *folder, uint32_t count, mw_table_props *props, mw_err *err)
{
    static trace_row row;
    mw_table_writer *writer;
    mw_rc rc = mw_table_writer_create(&folder->env, folder->dir, &folder->options, &writer, err);
    for (uint32_t i = 0; rc == MW_OK && i < count; i++) {
        row_make(&row, i);
        rc = mw_table_writer_add(writer, &row.base, err);
        if (rc) mw_table_writer_abandon(writer);
    }
    return rc ? rc : mw_table_writer_finish(writer, props, NULL, err);
}

static void folder_make(rows_folder *folder, bool dictionaries)
{
    rows_folder_make(folder, MW_KEY_TEXT);
    folder->options.compression = 1;
    folder->options.sample_bytes = dictionaries ? MW_TABLE_SAMPLE_BYTES : 0;
}

static mw_table *write_and_open(rows_folder *folder, uint32_t count, mw_table_props *props)
{
    mw_err err = {.rc = MW_OK};
    mw_table *table;
    assert_int_equal(write_rows(folder, count, props, &err), MW_OK);
    assert_int_equal(rows_open(folder, &table, &err), MW_OK);
    return table;
}

static bool values_equal(const mw_value *a, const mw_value *b)
{
    if (a->type != b->type) return false;
    if (a->type == MW_NULL) return true;
    return mw_value_compare(a, b) == 0;
}

static void check_rows(mw_table *table, uint32_t count)
{
    static trace_row row;
    mw_iter *iter;
    mw_err err = {.rc = MW_OK};
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    for (uint32_t i = 0; i < count; i++) {
        row_make(&row, i);
        assert_true(iter->valid && mw_slice_equal(iter->key, row.base.key));
        assert_int_equal(iter->tombstone, row.base.tombstone);
        for (uint32_t c = 0; c < COLUMNS && !iter->tombstone; c++) {
            mw_value value;
            assert_int_equal(iter->ops->column(iter, c, &value, &err), MW_OK);
            if (!values_equal(&value, &row.values[c])) fail_msg("row %u, column %u", i, c);
        }
        assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    }
    assert_false(iter->valid);
    mw_iter_close(iter);
}

/* Dictionaries that are in memory. */
static uint32_t loaded_count(const mw_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < MW_TABLE_DICTIONARIES_MAX; i++) {
        count += atomic_load(&table->dictionaries[i]) != NULL;
    }
    return count;
}

static void a_dictionary_makes_a_settled_file_smaller(void **state)
{
    (void)state;
    mw_err err = {.rc = MW_OK};
    uint64_t bytes[2];
    for (int with = 0; with < 2; with++) {
        rows_folder folder;
        mw_table_props props;
        folder_make(&folder, with);
        mw_table *table = write_and_open(&folder, FILE_ROWS, &props);
        bytes[with] = props.bytes;
        /* Of the traces alone: what numbers, few texts and short notes have is not worth one. */
        assert_int_equal(table->frame.dictionary_count, with);
        if (with) assert_int_equal(table->frame.dictionaries[0].column, 1);
        assert_int_equal(loaded_count(table), 0); /* nobody needed one yet */
        check_rows(table, FILE_ROWS);
        assert_int_equal(loaded_count(table), with);
        assert_int_equal(mw_table_verify(table, &err), MW_OK);
        mw_table_unref(table);
        rows_folder_remove(&folder);
    }
    print_message("bytes without and with: %llu, %llu\n", (unsigned long long)bytes[0],
                  (unsigned long long)bytes[1]);
    assert_true(bytes[1] < bytes[0] - bytes[0] / 20);
}

/* Files that are too small, and those without compression, are the same byte by byte. */
static void a_file_that_is_too_small_stays_as_it_is(void **state)
{
    (void)state;
    const uint32_t counts[] = {0, 1, 300, FILE_ROWS};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        mw_table_props props[2];
        for (int with = 0; with < 2; with++) {
            rows_folder folder;
            folder_make(&folder, with);
            if (counts[i] == FILE_ROWS) folder.options.compression = 0;
            mw_table_unref(write_and_open(&folder, counts[i], &props[with]));
            rows_folder_remove(&folder);
        }
        assert_int_equal(props[0].bytes, props[1].bytes);
        assert_true(props[0].checksum == props[1].checksum);
    }
}

static void the_same_rows_train_the_same_dictionary(void **state)
{
    (void)state;
    mw_table_props props[2];
    for (int i = 0; i < 2; i++) {
        rows_folder folder;
        folder_make(&folder, true);
        mw_table_unref(write_and_open(&folder, FILE_ROWS, &props[i]));
        rows_folder_remove(&folder);
    }
    assert_true(props[0].checksum == props[1].checksum);
}

/* Groups that are written after the decision, too: more than the sample is. */
static void a_file_larger_than_the_sample_reads_the_same(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    rows_folder folder;
    mw_table_props props;
    mw_err err = {.rc = MW_OK};
    folder_make(&folder, true);
    folder.options.group_rows = 1000;
    mw_table *table = write_and_open(&folder, MANY, &props);
    assert_int_equal(table->frame.dictionary_count, 1);
    check_rows(table, MANY);
    assert_int_equal(mw_table_verify(table, &err), MW_OK);
    mw_table_unref(table);
    rows_folder_remove(&folder);
}

/* A reader made from the description alone sees the same rows in the file of folder->options. False:
** it cannot run here. */
static bool second_reader_sees(const rows_folder *folder, uint32_t count)
{
    const char *reader = "tests/support/read_table.py";
    static char line[8000], expected[8000];
    static trace_row row;
    char name[MW_TABLE_NAME_BYTES], command[256];
    if (access(reader, X_OK)) return false;
    mw_table_name(folder->options.epoch, folder->options.number, name);
    snprintf(command, sizeof command, "%s --dump %s/%s", reader, folder->path, name);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    uint32_t i = 0;
    for (; i < count && fgets(line, sizeof line, output); i++) {
        row_make(&row, i);
        int at = snprintf(expected, sizeof expected, "b'%s'\t", row.key);
        if (row.base.tombstone) {
            snprintf(expected + at, sizeof expected - (size_t)at, "tombstone\n");
        } else {
            bool note = row.values[4].type == MW_TEXT;
            const mw_slice trace = row.values[0].bytes, words = row.values[4].bytes;
            snprintf(expected + at, sizeof expected - (size_t)at,
                     "'%.*s'\t'%s'\t%lld\t%s\t%s%.*s%s\t%lld\n", (int)trace.size, row.trace,
                     (const char *)row.values[1].bytes.data, (long long)row.values[2].integer,
                     rewards[(int)(row.values[3].real * 4) - 1], note ? "'" : "NULL",
                     note ? (int)words.size : 0, (const char *)words.data, note ? "'" : "",
                     (long long)row.values[5].integer);
        }
        if (strcmp(line, expected) != 0) fail_msg("row %u: %s, expected %s", i, line, expected);
    }
    while (fgets(line, sizeof line, output)) continue;
    int status = pclose(output);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false; /* its modules are missing */
    assert_int_equal(status, 0);
    assert_int_equal(i, count);
    return true;
}

static void second_reader_sees_the_same_rows(void **state)
{
    (void)state;
    rows_folder folder;
    mw_table_props props;
    folder_make(&folder, true);
    mw_table_unref(write_and_open(&folder, FILE_ROWS, &props));
    bool ran = second_reader_sees(&folder, FILE_ROWS);
    rows_folder_remove(&folder);
    if (!ran) skip();
}

/* ---- copied groups ------------------------------------------------------------------------- */

/* Writes the rows of a table again: those of the first groups one by one, the others as stored. */
static void write_and_copy(rows_folder *folder, mw_table *table, uint32_t one_by_one)
{
    mw_iter *iter;
    mw_table_writer *writer;
    mw_table_props props;
    mw_err err = {.rc = MW_OK};
    const mw_env *env = &folder->env;
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(mw_table_writer_create(env, folder->dir, &folder->options, &writer, &err), MW_OK);
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    for (uint32_t i = 0; i < one_by_one; i++) {
        assert_int_equal(mw_table_writer_add(writer, iter, &err), MW_OK);
        assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    }
    assert_int_equal(mw_table_writer_end_group(writer, &err), MW_OK);
    while (iter->valid) {
        assert_int_equal(mw_table_copy_group(iter, writer, &err), MW_OK);
        assert_int_equal(iter->ops->next(iter, &err), MW_OK);
    }
    mw_iter_close(iter);
    assert_int_equal(mw_table_writer_finish(writer, &props, NULL, &err), MW_OK);
}

static bool can_be_copied(mw_table *table)
{
    mw_iter *iter;
    mw_buf last;
    mw_table_group group;
    bool possible;
    mw_err err = {.rc = MW_OK};
    mw_buf_init(&last, mw_env_posix());
    assert_int_equal(mw_table_iter(table, &iter, &err), MW_OK);
    assert_int_equal(iter->ops->first(iter, &err), MW_OK);
    assert_int_equal(mw_table_copy_look(iter, &last, &group, &possible, &err), MW_OK);
    mw_iter_close(iter);
    mw_buf_free(&last);
    return possible;
}

/* Pages that were compressed without a dictionary stay what they are in a file that has one; whether
** it has one is decided at the first of them, and rows that were held back stand before it. */
static void copied_groups_go_behind_the_rows_that_were_held(void **state)
{
    (void)state;
    enum { GROUP = 250, ROWS = 3000 };
    const uint32_t parts[] = {ROWS - GROUP, GROUP}; /* enough for a dictionary, and not */
    bool ran = true;
    for (size_t i = 0; i < 2; i++) {
        rows_folder folder;
        mw_table_props props;
        mw_err err = {.rc = MW_OK};
        no_tombstones = true; /* groups with some are not copied */
        folder_make(&folder, false);
        folder.options.group_rows = GROUP;
        mw_table *table = write_and_open(&folder, ROWS, &props);
        assert_true(can_be_copied(table));
        folder.options.number++;
        folder.options.sample_bytes = MW_TABLE_SAMPLE_BYTES;
        write_and_copy(&folder, table, parts[i]);
        mw_table_unref(table);
        assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
        assert_int_equal(table->frame.dictionary_count, i == 0);
        assert_int_equal(can_be_copied(table), i == 1);
        check_rows(table, ROWS);
        assert_int_equal(mw_table_verify(table, &err), MW_OK);
        mw_table_unref(table);
        ran = second_reader_sees(&folder, ROWS) && ran;
        no_tombstones = false;
        rows_folder_remove(&folder);
    }
    if (!ran) skip();
}

/* So that a file is cut where it should be. */
static void what_is_held_back_counts_as_written(void **state)
{
    (void)state;
    static trace_row row;
    rows_folder folder;
    mw_table_writer *writer;
    mw_err err = {.rc = MW_OK};
    folder_make(&folder, true);
    folder.options.group_rows = 100;
    const mw_env *env = &folder.env;
    assert_int_equal(mw_table_writer_create(env, folder.dir, &folder.options, &writer, &err), MW_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t before = mw_table_writer_bytes(writer);
        row_make(&row, i);
        assert_int_equal(mw_table_writer_add(writer, &row.base, &err), MW_OK);
        bool full = i % 100 == 99;
        assert_int_equal(mw_table_writer_bytes(writer) > before, full);
    }
    assert_true(mw_table_writer_bytes(writer) > 1000 * 200);
    mw_table_writer_abandon(writer);
    rows_folder_remove(&folder);
}

/* ---- with a pool --------------------------------------------------------------------------- */

enum { TABLES = 2 };

/* Tables with a dictionary each, and hardly any memory for what lies in their indexes. */
static struct {
    rows_folder folder;
    mw_cache *cache;
    mw_table_pool *pool;
    mw_table *tables[TABLES];
} place;

static void open_place(uint64_t cache_bytes)
{
    static trace_row first, last;
    mw_err err = {.rc = MW_OK};
    rows_folder *folder = &place.folder;
    folder_make(folder, true);
    assert_int_equal(mw_cache_create(&folder->env, cache_bytes, &place.cache, &err), MW_OK);
    assert_int_equal(mw_table_pool_create(&folder->env, place.cache, 1, &place.pool, &err), MW_OK);
    row_make(&first, 0);
    row_make(&last, FILE_ROWS - 1);
    for (uint32_t i = 0; i < TABLES; i++) {
        mw_table_props props;
        folder->options.number = 20 + i;
        assert_int_equal(write_rows(folder, FILE_ROWS, &props, &err), MW_OK);
        mw_key_range keys = {first.base.key, last.base.key};
        mw_table_listing listing = {folder->dir, &props, &keys};
        mw_rc rc = mw_table_make(place.pool, &folder->options, &listing, &place.tables[i], &err);
        assert_int_equal(rc, MW_OK);
    }
}

static void close_place(void)
{
    for (uint32_t i = 0; i < TABLES; i++) mw_table_unref(place.tables[i]);
    mw_table_pool_destroy(place.pool);
    mw_cache_destroy(place.cache);
    rows_folder_remove(&place.folder);
}

static uint64_t index_bytes(void)
{
    uint64_t files, bytes;
    mw_table_pool_stats(place.pool, &files, &bytes);
    return bytes;
}

/* Reads the trace of row i. */
static bool trace_is_right(mw_table *table, uint32_t i)
{
    static _Thread_local trace_row row;
    mw_err err = {.rc = MW_OK};
    mw_iter *iter;
    mw_value value;
    bool found = false;
    row_make(&row, i);
    mw_rc rc = mw_table_iter(table, &iter, &err);
    if (rc) return false;
    rc = mw_table_iter_find(iter, row.base.key, &found, &err);
    if (rc == MW_OK && found) rc = iter->ops->column(iter, 0, &value, &err);
    bool right = rc == MW_OK && found && values_equal(&value, &row.values[0]);
    mw_iter_close(iter);
    return right;
}

/* Its memory is the index's, in what is counted and in when it goes. */
static void a_dictionary_goes_with_the_index(void **state)
{
    (void)state;
    open_place(1 << 20);
    mw_err err = {.rc = MW_OK};
    assert_int_equal(mw_table_probe(place.tables[0], &err), MW_OK);
    uint64_t before = index_bytes();
    assert_true(trace_is_right(place.tables[0], 7));
    uint64_t raw_bytes = place.tables[0]->frame.dictionaries[0].raw_bytes;
    assert_true(index_bytes() > before + raw_bytes);
    close_place();
    open_place(1 << 12);
    for (uint32_t round = 0; round < 6; round++) {
        mw_table *table = place.tables[round % TABLES];
        const mw_table *other = place.tables[(round + 1) % TABLES];
        assert_true(trace_is_right(table, 7 + round * 300));
        assert_int_equal(loaded_count(other), 0);
        assert_true(index_bytes() < 2 * raw_bytes + (1 << 16));
    }
    close_place();
}

static void *ask_both(void *arg)
{
    uint32_t first = *(const uint32_t *)arg;
    for (uint32_t i = 0; i < 120; i++) {
        uint32_t number = (first + i * 97) % FILE_ROWS;
        if (number % 97 == 50) continue; /* a tombstone */
        if (!trace_is_right(place.tables[i % TABLES], number)) return (void *)1;
    }
    return NULL;
}

/* Whoever decompresses with a dictionary keeps it, while others push its index out. */
static void readers_keep_a_dictionary_while_others_push_it_out(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint32_t firsts[THREADS];
    open_place(1 << 12);
    for (uint32_t i = 0; i < THREADS; i++) {
        firsts[i] = i * 31;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_both, &firsts[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    close_place();
}

/* ---- damage -------------------------------------------------------------------------------- */

typedef struct stored_file {
    rows_folder folder;
    char name[MW_TABLE_NAME_BYTES];
    uint8_t *bytes;
    size_t size;
    mw_table_dictionary dictionary;
} stored_file;

static void stored_make(stored_file *f)
{
    mw_table_props props;
    mw_err err = {.rc = MW_OK};
    folder_make(&f->folder, true);
    mw_table *table = write_and_open(&f->folder, FILE_ROWS, &props);
    f->dictionary = table->frame.dictionaries[0];
    mw_table_unref(table);
    mw_table_name(f->folder.options.epoch, f->folder.options.number, f->name);
    assert_int_equal(mw_env_read_file(&f->folder.env, f->folder.dir, f->name, 1 << 26, &f->bytes,
                                      &f->size, &err), MW_OK);
}

static void stored_free(stored_file *f)
{
    mw_free(&f->folder.env, f->bytes);
    rows_folder_remove(&f->folder);
}

static void stored_write(stored_file *f)
{
    int file;
    mw_err err = {.rc = MW_OK};
    const mw_env *env = &f->folder.env;
    env->unlink(env->ctx, f->folder.dir, f->name);
    assert_int_equal(env->file_open(env->ctx, f->folder.dir, f->name, MW_OPEN_CREATE, &file), 0);
    assert_int_equal(mw_env_write(env, file, f->name, f->bytes, f->size, 0, &err), MW_OK);
    env->file_close(env->ctx, file);
}

/* The trace of row 7, which only the dictionary can give. */
static mw_rc ask_trace(mw_table *table, mw_err *err)
{
    static trace_row row;
    mw_iter *iter;
    mw_value value;
    bool found;
    row_make(&row, 7);
    mw_rc rc = mw_table_iter(table, &iter, err);
    if (rc) return rc;
    rc = mw_table_iter_find(iter, row.base.key, &found, err);
    if (rc == MW_OK) {
        assert_true(found);
        rc = iter->ops->column(iter, 0, &value, err);
    }
    if (rc == MW_OK) assert_true(values_equal(&value, &row.values[0]));
    mw_iter_close(iter);
    return rc;
}

/* I9: a dictionary is used only when its checksum is right, and verifying reads it, too. */
static void a_damaged_dictionary_is_found(void **state)
{
    (void)state;
    stored_file f;
    char offset[64];
    stored_make(&f);
    snprintf(offset, sizeof offset, "offset %llu", (unsigned long long)f.dictionary.block.offset);
    for (size_t i = 0; i < 40; i++) {
        mw_table *table;
        mw_err err = {.rc = MW_OK};
        size_t at = (size_t)(f.dictionary.block.offset + f.dictionary.block.bytes * i / 40);
        f.bytes[at] ^= (uint8_t)(1u << i % 8);
        stored_write(&f);
        assert_int_equal(rows_open(&f.folder, &table, &err), MW_OK);
        assert_int_equal(ask_trace(table, &err), MW_CORRUPT);
        assert_non_null(strstr(err.text, f.name));
        assert_non_null(strstr(err.text, offset));
        assert_int_equal(loaded_count(table), 0);
        if (i % 8 == 0) {
            err = (mw_err){.rc = MW_OK};
            assert_int_equal(mw_table_verify(table, &err), MW_CORRUPT);
        }
        mw_table_unref(table);
        f.bytes[at] ^= (uint8_t)(1u << i % 8);
    }
    stored_free(&f);
}

static void *ask_in_thread(void *table)
{
    return trace_is_right(table, 7) ? NULL : (void *)1;
}

/* The first question of several threads at once: one loads, all see it whole. */
static void many_threads_share_a_dictionary(void **state)
{
    (void)state;
    enum { THREADS = 4, ROUNDS = 20 };
    rows_folder folder;
    mw_table_props props;
    mw_err err = {.rc = MW_OK};
    folder_make(&folder, true);
    mw_table_unref(write_and_open(&folder, FILE_ROWS, &props));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        mw_table *table;
        assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, ask_in_thread, table), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *wrong;
            assert_int_equal(pthread_join(threads[i], &wrong), 0);
            assert_null(wrong);
        }
        assert_int_equal(loaded_count(table), 1);
        mw_table_unref(table);
    }
    rows_folder_remove(&folder);
}

static void no_memory_for_a_dictionary_is_said(void **state)
{
    (void)state;
    stored_file f;
    mw_rc rc = MW_NOMEM;
    stored_make(&f);
    for (size_t nth = 1; rc != MW_OK; nth++) {
        mw_table *table;
        mw_err err = {.rc = MW_OK};
        assert_int_equal(rows_open(&f.folder, &table, &err), MW_OK);
        rows_refuse_allocation(&f.folder, nth);
        rc = ask_trace(table, &err);
        rows_refuse_allocation(&f.folder, 0);
        if (rc) assert_int_equal(rc, MW_NOMEM);
        assert_int_equal(err.rc, rc);
        /* The next one is told the truth. */
        err = (mw_err){.rc = MW_OK};
        assert_int_equal(ask_trace(table, &err), MW_OK);
        mw_table_unref(table);
    }
    stored_free(&f);
}

/* Allocations of gathering, training and writing; every 13th fails once. */
static void a_writer_without_memory_leaves_no_file(void **state)
{
    (void)state;
    mw_rc rc = MW_NOMEM;
    int failed = 0;
    for (size_t nth = 1; rc != MW_OK; nth += 13, failed++) {
        rows_folder folder;
        mw_table_props props;
        mw_err err = {.rc = MW_OK};
        bool there = true;
        char name[MW_TABLE_NAME_BYTES];
        folder_make(&folder, true);
        rows_refuse_allocation(&folder, nth);
        rc = write_rows(&folder, FILE_ROWS, &props, &err);
        bool refused = rows_refuse_allocation(&folder, 0);
        /* zstd without memory is a page that is stored as it is; a sample without, no dictionary. */
        if (rc) assert_int_equal(rc, MW_NOMEM);
        mw_table_name(folder.options.epoch, folder.options.number, name);
        assert_int_equal(folder.env.exists(folder.env.ctx, folder.dir, name, &there), 0);
        assert_int_equal(there, rc == MW_OK);
        if (rc == MW_OK) {
            mw_table *table;
            assert_int_equal(rows_open(&folder, &table, &err), MW_OK);
            check_rows(table, FILE_ROWS);
            mw_table_unref(table);
            if (refused) rc = MW_NOMEM; /* go on */
        }
        rows_folder_remove(&folder);
    }
    print_message("%d allocations failed\n", failed);
    assert_true(failed > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dictionary_makes_a_settled_file_smaller),
        cmocka_unit_test(a_file_that_is_too_small_stays_as_it_is),
        cmocka_unit_test(the_same_rows_train_the_same_dictionary),
        cmocka_unit_test(a_file_larger_than_the_sample_reads_the_same),
        cmocka_unit_test(second_reader_sees_the_same_rows),
        cmocka_unit_test(copied_groups_go_behind_the_rows_that_were_held),
        cmocka_unit_test(what_is_held_back_counts_as_written),
        cmocka_unit_test(a_dictionary_goes_with_the_index),
        cmocka_unit_test(readers_keep_a_dictionary_while_others_push_it_out),
        cmocka_unit_test(a_damaged_dictionary_is_found),
        cmocka_unit_test(many_threads_share_a_dictionary),
        cmocka_unit_test(no_memory_for_a_dictionary_is_said),
        cmocka_unit_test(a_writer_without_memory_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
