/* table_rows.c: rows as an array, compared with table files. */
#include "table_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -129, -1, 0,
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
    folder->schema = (mw_schema){.key = key, .column_count = ROWS_COLUMNS,
                                 .column_ids = folder->column_ids};
    folder->options = (mw_table_options){.store = {{1, 2, 3}}, .epoch = 3, .number = 9,
                                         .schema = &folder->schema, .sequence_min = 5,
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
    return rc ? rc : mw_table_writer_finish(writer, props, err);
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

static mw_rc compare_with(rows *model, mw_table *table, mw_iter *iter, mw_err *err)
{
    uint8_t bytes[ROWS_KEY_MAX];
    mw_rc rc = compare_forward(model, iter, err);
    if (rc == MW_OK) rc = compare_backward(model, iter, err);
    for (size_t i = 0; rc == MW_OK && i < model->count; i++) {
        rc = compare_find(model, table, rows_key(model, i), err);
        if (rc == MW_OK) rc = compare_seeks(model, iter, rows_key(model, i), err);
        mw_slice absent = rows_absent(model, bytes);
        if (rc == MW_OK) rc = compare_find(model, table, absent, err);
        if (rc == MW_OK) rc = compare_seeks(model, iter, absent, err);
    }
    return rc;
}

mw_rc rows_compare(rows *model, mw_table *table, mw_err *err)
{
    mw_iter *iter;
    mw_rc rc = mw_table_iter(table, &iter, err);
    if (rc) return rc;
    rc = compare_with(model, table, iter, err);
    mw_iter_close(iter);
    return rc;
}
