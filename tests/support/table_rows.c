/* table_rows.c: rows as an array, compared with table files; files to be hurt. */
#include "table_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coding.h"

enum { BYTES_PER_ROW = 160, LARGE_BYTES = 200000 };

/* SplitMix64. */
uint64_t rows_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- making rows --------------------------------------------------------------------------- */

static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -129,          -1,       0,
                                1,         255,           65536,     INT64_MAX - 1, INT64_MAX};

static void make_key(rows *model, rows_row *row)
{
    uint64_t dice = rows_random(&model->random);
    if (model->key == MW_KEY_INTEGER) {
        int64_t number = (int64_t)(dice >> 8) % 2000;
        if (dice % 16 == 0) number = (int64_t)rows_random(&model->random);
        if (dice % 16 == 1) number = edges[(dice >> 8) % (sizeof edges / sizeof *edges)];
        mw_key_put_integer(row->key, number);
        row->key_bytes = MW_INTEGER_KEY_BYTES;
        return;
    }
    /* Shared beginnings of all lengths, prefixes of each other, zero bytes, the empty text. */
    row->key_bytes = dice % 64 == 0 ? 0 : (dice >> 8) % 24;
    for (size_t i = 0; i < row->key_bytes; i++) {
        uint8_t byte = (uint8_t)(rows_random(&model->random) % 5);
        row->key[i] = i < 12 ? (uint8_t)("shared-begin"[i]) : byte;
    }
    if (dice % 8 == 0 && row->key_bytes) row->key[0] = (uint8_t)dice >> 3;
}

static mw_value make_bytes(rows *model, mw_type type, uint8_t *bytes)
{
    mw_value value = {.type = type};
    size_t size = rows_random(&model->random) % 48; /* past the cut of bounds, too */
    if (rows_random(&model->random) % 4 == 0) size = 0;
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(rows_random(&model->random) % 3 * 127);
    value.bytes = mw_slice_of(bytes, size);
    return value;
}

static mw_value make_number(rows *model, mw_type type)
{
    static const double reals[] = {0.0, -0.0, 1.5, -1e308, 4.9e-324, 1e18, 0.1};
    mw_value value = {.type = type};
    uint64_t dice = rows_random(&model->random);
    value.integer = edges[dice % (sizeof edges / sizeof *edges)];
    value.real = reals[dice % (sizeof reals / sizeof *reals)];
    if (type == MW_INTEGER) value.real = 0;
    if (type == MW_REAL) value.integer = 0;
    return value;
}

static void make_values(rows *model, rows_row *row, uint8_t *bytes)
{
    mw_value *values = row->values;
    memset(values, 0, sizeof row->values);
    if (row->tombstone) return;
    values[0].type = MW_INTEGER;
    values[0].integer = (int64_t)(rows_random(&model->random) % 200) - 100;
    if (rows_random(&model->random) % 3) values[1] = make_number(model, MW_REAL);
    values[2] = make_bytes(model, MW_TEXT, bytes);
    switch (rows_random(&model->random) % 5) {
    case 0: break;
    case 1: values[3] = make_number(model, MW_INTEGER); break;
    case 2: values[3] = make_number(model, MW_REAL); break;
    case 3: values[3] = make_bytes(model, MW_TEXT, bytes + 48); break;
    default: values[3] = make_bytes(model, MW_BLOB, bytes + 48); break;
    }
    values[4].type = MW_TEXT;
    values[4].bytes = mw_slice_of("constant", 8);
    values[5] = make_bytes(model, MW_BLOB, bytes + 96);
}

static int order_rows(const void *a, const void *b)
{
    const rows_row *x = a, *y = b;
    return mw_slice_compare(mw_slice_of(x->key, x->key_bytes), mw_slice_of(y->key, y->key_bytes));
}

static void drop_doubles(rows *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (kept && order_rows(&model->items[kept - 1], &model->items[i]) == 0) continue;
        model->items[kept++] = model->items[i];
    }
    model->count = kept;
}

void rows_make(rows *model, mw_key_kind key, size_t count, bool tombstones, uint64_t seed)
{
    *model = (rows){.key = key, .count = count, .random = seed};
    model->items = calloc(count + 1, sizeof *model->items);
    model->bytes = calloc(1, count * BYTES_PER_ROW + LARGE_BYTES);
    for (size_t i = 0; i < count; i++) {
        rows_row *row = &model->items[i];
        make_key(model, row);
        row->tombstone = tombstones && rows_random(&model->random) % 5 == 0;
        make_values(model, row, model->bytes + i * BYTES_PER_ROW);
    }
    qsort(model->items, count, sizeof *model->items, order_rows);
    drop_doubles(model);
    if (model->count > 50 && !model->items[7].tombstone) {
        uint8_t *large = model->bytes + count * BYTES_PER_ROW;
        for (size_t i = 0; i < LARGE_BYTES; i++) large[i] = (uint8_t)rows_random(&model->random);
        model->items[7].values[5].bytes = mw_slice_of(large, LARGE_BYTES);
    }
}

void rows_free(rows *model)
{
    free(model->items);
    free(model->bytes);
}

mw_slice rows_key(const rows *model, size_t i)
{
    return mw_slice_of(model->items[i].key, model->items[i].key_bytes);
}

size_t rows_lower(const rows *model, mw_slice key)
{
    size_t i = 0;
    while (i < model->count && mw_slice_compare(rows_key(model, i), key) < 0) i++;
    return i;
}

mw_slice rows_absent(rows *model, uint8_t to[ROWS_KEY_MAX])
{
    rows_row row = {.key_bytes = 0};
    for (;;) {
        make_key(model, &row);
        mw_slice key = mw_slice_of(row.key, row.key_bytes);
        size_t i = rows_lower(model, key);
        if (i < model->count && mw_slice_equal(rows_key(model, i), key)) continue;
        memcpy(to, row.key, row.key_bytes);
        return mw_slice_of(to, row.key_bytes);
    }
}

/* ---- the folder ---------------------------------------------------------------------------- */

static int no_sync(void *ctx, int file)
{
    (void)ctx;
    (void)file;
    return 0;
}

void rows_folder_make(rows_folder *folder, mw_key_kind key)
{
    mw_err err = {.rc = MW_OK};
    *folder = (rows_folder){.env = *mw_env_posix()};
    folder->env.file_sync = no_sync;
    folder->env.dir_sync = no_sync;
    snprintf(folder->path, sizeof folder->path, "/tmp/table-rows-XXXXXX");
    if (!mkdtemp(folder->path)) abort();
    if (folder->env.dir_open(folder->env.ctx, folder->path, false, &folder->dir)) abort();
    if (mw_cache_create(&folder->env, 1 << 20, &folder->cache, &err)) abort();
    for (uint32_t i = 0; i < ROWS_COLUMNS; i++) folder->column_ids[i] = 10 + i * 300;
    folder->schema =
        (mw_schema){.key = key, .column_count = ROWS_COLUMNS, .column_ids = folder->column_ids};
    folder->options = (mw_table_options){.store = {{1, 2, 3}},
                                         .epoch = 3,
                                         .number = 9,
                                         .schema = &folder->schema,
                                         .sequence_min = 5,
                                         .sequence_max = 1005};
}

static int remove_one(void *arg, const char *name)
{
    rows_folder *folder = arg;
    return folder->env.unlink(folder->env.ctx, folder->dir, name);
}

void rows_folder_remove(rows_folder *folder)
{
    mw_cache_destroy(folder->cache);
    folder->env.dir_list(folder->env.ctx, folder->dir, remove_one, folder);
    folder->env.dir_close(folder->env.ctx, folder->dir);
    folder->env.dir_remove(folder->env.ctx, folder->path);
}

/* ---- writing ------------------------------------------------------------------------------- */

typedef struct source {
    mw_iter base;
    const rows_row *row;
} source;

static mw_rc source_column(mw_iter *base, uint32_t index, mw_value *value, mw_err *err)
{
    (void)err;
    *value = ((source *)base)->row->values[index];
    return MW_OK;
}

static const mw_iter_ops source_ops = {.column = source_column};

mw_rc rows_write(rows_folder *folder, rows *model, mw_table_props *props, mw_err *err)
{
    mw_table_writer *writer;
    mw_rc rc = mw_table_writer_create(&folder->env, folder->dir, &folder->options, &writer, err);
    for (size_t i = 0; rc == MW_OK && i < model->count; i++) {
        source from = {.base = {.ops = &source_ops, .valid = true}, .row = &model->items[i]};
        from.base.key = rows_key(model, i);
        from.base.tombstone = from.row->tombstone;
        from.base.sequence = folder->options.sequence_max;
        rc = mw_table_writer_add(writer, &from.base, err);
        if (rc) mw_table_writer_abandon(writer);
    }
    return rc ? rc : mw_table_writer_finish(writer, props, NULL, err);
}

mw_rc rows_open(rows_folder *folder, mw_table **table, mw_err *err)
{
    return mw_table_open(&folder->env, folder->dir, folder->cache, &folder->options, NULL, table,
                         err);
}

/* ---- comparing ----------------------------------------------------------------------------- */

#define RIGHT(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) return mw_fail(err, MW_MISUSE, "line %d: %s", __LINE__, #condition); \
    } while (0)

/* The iterator stands where row i of the model is; i == count: nowhere. */
static mw_rc compare_place(const rows *model, size_t i, mw_iter *iter, mw_err *err)
{
    RIGHT(iter->valid == (i < model->count));
    if (!iter->valid) return MW_OK;
    const rows_row *row = &model->items[i];
    RIGHT(mw_slice_equal(iter->key, rows_key(model, i)));
    RIGHT(iter->tombstone == row->tombstone);
    for (uint32_t c = 0; c < ROWS_COLUMNS && !row->tombstone; c++) {
        mw_value value = {.type = MW_NULL};
        mw_rc rc = iter->ops->column(iter, c, &value, err);
        if (rc) return rc;
        RIGHT(mw_value_equal(&value, &row->values[c]));
    }
    return MW_OK;
}

static mw_rc compare_forward(const rows *model, mw_iter *iter, mw_err *err)
{
    mw_rc rc = iter->ops->first(iter, err);
    for (size_t i = 0; rc == MW_OK; i++) {
        rc = compare_place(model, i, iter, err);
        if (rc || i == model->count) break;
        rc = iter->ops->next(iter, err);
    }
    return rc;
}

static mw_rc compare_backward(const rows *model, mw_iter *iter, mw_err *err)
{
    mw_rc rc = iter->ops->last(iter, err);
    for (size_t i = model->count; rc == MW_OK; i--) {
        rc = compare_place(model, i ? i - 1 : model->count, iter, err);
        if (rc || i == 0) break;
        rc = iter->ops->prev(iter, err);
    }
    return rc;
}

static mw_rc compare_find(const rows *model, mw_table *table, mw_slice key, mw_err *err)
{
    bool found, tombstone, maybe;
    size_t i = rows_lower(model, key);
    bool there = i < model->count && mw_slice_equal(rows_key(model, i), key);
    mw_rc rc = mw_table_may_hold(table, key, &maybe, err);
    if (rc) return rc;
    RIGHT(maybe || !there);
    rc = mw_table_find(table, key, &found, &tombstone, err);
    if (rc) return rc;
    RIGHT(found == there);
    RIGHT(tombstone == (there && model->items[i].tombstone));
    return MW_OK;
}

static mw_rc compare_seeks(const rows *model, mw_iter *iter, mw_slice key, mw_err *err)
{
    bool found;
    size_t i = rows_lower(model, key);
    bool there = i < model->count && mw_slice_equal(rows_key(model, i), key);
    mw_rc rc = iter->ops->seek(iter, key, err);
    if (rc == MW_OK) rc = compare_place(model, i, iter, err);
    if (rc == MW_OK && iter->valid) rc = iter->ops->next(iter, err);
    if (rc == MW_OK && i < model->count) rc = compare_place(model, i + 1, iter, err);
    if (rc == MW_OK) rc = iter->ops->seek_back(iter, key, err);
    size_t before = there ? i : i ? i - 1 : model->count;
    if (rc == MW_OK) rc = compare_place(model, before, iter, err);
    if (rc == MW_OK && iter->valid) rc = iter->ops->prev(iter, err);
    if (rc == MW_OK && before < model->count) {
        rc = compare_place(model, before ? before - 1 : model->count, iter, err);
    }
    if (rc == MW_OK) rc = mw_table_iter_find(iter, key, &found, err);
    if (rc) return rc;
    RIGHT(found == there);
    return compare_place(model, there ? i : model->count, iter, err);
}

mw_rc rows_compare_finds(rows *model, mw_table *table, mw_err *err)
{
    uint8_t bytes[ROWS_KEY_MAX];
    mw_rc rc = MW_OK;
    for (size_t i = 0; rc == MW_OK && i < model->count; i++) {
        rc = compare_find(model, table, rows_key(model, i), err);
        if (rc == MW_OK) rc = compare_find(model, table, rows_absent(model, bytes), err);
    }
    return rc;
}

mw_rc rows_compare_walks(rows *model, mw_table *table, mw_err *err)
{
    mw_iter *iter;
    uint8_t bytes[ROWS_KEY_MAX];
    mw_rc rc = mw_table_iter(table, &iter, err);
    if (rc) return rc;
    rc = compare_forward(model, iter, err);
    if (rc == MW_OK) rc = compare_backward(model, iter, err);
    for (size_t i = 0; rc == MW_OK && i < model->count; i++) {
        rc = compare_seeks(model, iter, rows_key(model, i), err);
        if (rc == MW_OK) rc = compare_seeks(model, iter, rows_absent(model, bytes), err);
    }
    mw_iter_close(iter);
    return rc;
}

mw_rc rows_compare(rows *model, mw_table *table, mw_err *err)
{
    mw_err unused = {.rc = MW_OK};
    mw_rc rc = rows_compare_walks(model, table, err);
    if (rc == MW_OK) return rows_compare_finds(model, table, err);
    /* A wrong answer must not hide behind an error. */
    return rows_compare_finds(model, table, &unused) == MW_MISUSE ? MW_MISUSE : rc;
}

/* ---- shapes -------------------------------------------------------------------------------- */

/* Sizes that let groups and pages end at all places. */
static const struct shape {
    uint32_t group_rows;
    uint32_t page_bytes;
    int compression;
} shapes[] = {{0, 0, 0},  {0, 0, 1},  {1, 1, 0},    {2, 1, 0},     {2, 16, 1},
              {7, 40, 0}, {50, 1, 0}, {64, 300, 3}, {1000, 500, 1}};

static void ask_shape(rows_question *question, mw_key_kind key, const struct shape *shape,
                      size_t count, uint64_t seed)
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
        rc = question(&model, table, &err);
        mw_table_unref(table);
    }
    if (rc) {
        fail_msg("seed %d, key kind %d, %zu rows, groups of %u, pages of %u: %s", (int)seed, key,
                 count, (unsigned)shape->group_rows, (unsigned)shape->page_bytes, err.text);
    }
    rows_free(&model);
    rows_folder_remove(&folder);
}

void rows_ask_shapes(rows_question *question)
{
    const size_t counts[] = {1, 2, 3, 17, 120};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            ask_shape(question, MW_KEY_INTEGER, &shapes[s], counts[c], s * 10 + c);
            ask_shape(question, MW_KEY_TEXT, &shapes[s], counts[c], s * 10 + c + 1);
        }
    }
}

/* ---- victims ------------------------------------------------------------------------------- */

void rows_victim_make(rows_victim *v, mw_key_kind key, size_t count, int compression)
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
                                      &v->size, &err),
                     MW_OK);
}

void rows_victim_free(rows_victim *v)
{
    mw_free(&v->folder.env, v->bytes);
    rows_free(&v->model);
    rows_folder_remove(&v->folder);
}

void rows_victim_replace(rows_victim *v, const uint8_t *bytes, size_t size)
{
    int file;
    mw_err err = {.rc = MW_OK};
    const mw_env *env = &v->folder.env;
    env->unlink(env->ctx, v->folder.dir, v->name);
    assert_int_equal(env->file_open(env->ctx, v->folder.dir, v->name, MW_OPEN_CREATE, &file), 0);
    assert_int_equal(mw_env_write(env, file, v->name, bytes, size, 0, &err), MW_OK);
    env->file_close(env->ctx, file);
}

mw_rc rows_victim_ask(rows_victim *v, mw_rc *verified)
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

static int allocations_left;

static void *refusing_alloc(void *ctx, size_t bytes)
{
    return allocations_left-- == 0 ? NULL : mw_env_posix()->alloc(ctx, bytes);
}

static void *refusing_resize(void *ctx, void *old, size_t bytes)
{
    return allocations_left-- == 0 ? NULL : mw_env_posix()->resize(ctx, old, bytes);
}

bool rows_refuse_allocation(rows_folder *folder, size_t nth)
{
    static bool armed;
    bool met = armed && allocations_left < 0;
    folder->env.alloc = refusing_alloc;
    folder->env.resize = refusing_resize;
    allocations_left = (int)nth - 1; /* -1: it never comes to 0 */
    armed = nth > 0;
    return met;
}

int rows_victim_refuse(rows_victim *v, rows_question *question)
{
    v->folder.env.alloc = refusing_alloc;
    v->folder.env.resize = refusing_resize;
    for (int n = 0;; n++) {
        mw_err err = {.rc = MW_OK};
        mw_table *table;
        allocations_left = n;
        mw_rc rc = rows_open(&v->folder, &table, &err);
        if (rc == MW_OK) {
            rc = question(&v->model, table, &err);
            mw_table_unref(table);
        }
        bool met = allocations_left < 0;
        allocations_left = -1;
        assert_int_equal(rc, met ? MW_NOMEM : MW_OK);
        assert_int_equal(err.rc, rc);
        if (!met) return n;
    }
}

/* ---- watching ------------------------------------------------------------------------------ */

int rows_reads;
int rows_flip_reads;

static int watched_read(void *ctx, int file, void *to, size_t bytes, uint64_t offset, size_t *got)
{
    int sys = mw_env_posix()->file_read(ctx, file, to, bytes, offset, got);
    rows_reads++;
    if (rows_flip_reads > 0 && *got) {
        ((uint8_t *)to)[*got / 2] ^= 4;
        rows_flip_reads--;
    }
    return sys;
}

void rows_watch(rows_folder *folder)
{
    folder->env.file_read = watched_read;
    rows_reads = 0;
    rows_flip_reads = 0;
}
