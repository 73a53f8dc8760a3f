/* table_read.c: opens table files and answers whether a key is in them.
**
**   open    header, footer, properties, index: kept. Everything else is read when it is needed.
**   find    key range -> filter -> index (in memory) -> directory -> key page (both cached) -> row
**
** Nothing is used before its checksum was verified, and what a checksum cannot prove (a file made
** by somebody who computes checksums, too) is checked again by whoever decodes: sizes against what
** is left, one by one, in 64 bit. A mismatch is read once more, as the fault may lie on the way
** from the disk.
**
** Threads: an open table does not change but for its filter and dictionaries, each set once, and
** its list of idle readers. Reading and decompressing take no lock. */
#include <string.h>

#include "filter.h"
#include "hash.h"
#include "table_file.h"

enum {
    IDLE_READERS_MAX = 2,
    SPARE_BYTES = 1 << 20, /* a reader's buffer that has grown past this is freed */
    CACHE_LINE = 64,
};

/* ---- readers ------------------------------------------------------------------------------- */

static void free_reader(const mw_env *env, mw_table_reader *reader)
{
    mw_codec_destroy(reader->codec);
    mw_buf_free(&reader->stored);
    mw_buf_free(&reader->raw);
    mw_free(env, reader);
}

mw_table_reader *mw_table_reader_take(mw_table *table)
{
    const mw_env *env = table->env;
    env->mutex_lock(env->ctx, table->mutex);
    mw_table_reader *reader = table->idle;
    if (reader) {
        table->idle = reader->next;
        table->idle_count--;
    }
    env->mutex_unlock(env->ctx, table->mutex);
    if (reader) return reader;
    reader = mw_alloc_zero(env, sizeof *reader);
    if (!reader) return NULL;
    mw_buf_init(&reader->stored, env);
    mw_buf_init(&reader->raw, env);
    return reader;
}

void mw_table_reader_give(mw_table *table, mw_table_reader *reader)
{
    const mw_env *env = table->env;
    if (reader->stored.capacity > SPARE_BYTES) mw_buf_free(&reader->stored);
    if (reader->raw.capacity > SPARE_BYTES) mw_buf_free(&reader->raw);
    env->mutex_lock(env->ctx, table->mutex);
    bool keep = table->idle_count < IDLE_READERS_MAX;
    if (keep) {
        reader->next = table->idle;
        table->idle = reader;
        table->idle_count++;
    }
    env->mutex_unlock(env->ctx, table->mutex);
    if (!keep) free_reader(env, reader);
}

static uint8_t *reserve_exactly(mw_buf *buf, uint64_t bytes)
{
    mw_buf_clear(buf);
    return bytes <= SIZE_MAX && mw_buf_reserve(buf, (size_t)bytes + 1) ? buf->data : NULL;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static mw_rc no_memory(const mw_table *table, mw_err *err)
{
    return mw_fail(err, MW_NOMEM, "out of memory for reading %s", table->name);
}

mw_rc mw_table_read_block(const mw_table *table, const mw_block *block, uint8_t *to, mw_err *err)
{
    uint64_t found = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        mw_rc rc = mw_env_read(table->env, table->file, table->name, to, (size_t)block->bytes,
                               block->offset, err);
        if (rc) return rc;
        found = mw_hash(to, (size_t)block->bytes, table->frame.seed);
        if (found == block->checksum) return MW_OK;
    }
    return mw_fail_disk(err, table->name, block->offset,
                        "%llu bytes fail their checksum: expected %016llx, found %016llx",
                        (unsigned long long)block->bytes, (unsigned long long)block->checksum,
                        (unsigned long long)found);
}

/* Reads a block into fresh memory, *content: the caller's. */
static mw_rc read_whole(const mw_table *table, const mw_block *block, uint8_t **content,
                        mw_err *err)
{
    uint8_t *memory = block->bytes <= SIZE_MAX ? mw_alloc(table->env, (size_t)block->bytes) : NULL;
    *content = NULL;
    if (!memory) return no_memory(table, err);
    mw_rc rc = mw_table_read_block(table, block, memory, err);
    if (rc) {
        mw_free(table->env, memory);
        return rc;
    }
    *content = memory;
    return MW_OK;
}

mw_rc mw_table_read_directory(mw_table *table, const mw_group *group, mw_directory **directory,
                              mw_err *err)
{
    *directory = NULL;
    mw_table_reader *reader = mw_table_reader_take(table);
    if (!reader) return no_memory(table, err);
    uint8_t *stored = reserve_exactly(&reader->stored, group->directory.bytes);
    mw_rc rc = stored ? mw_table_read_block(table, &group->directory, stored, err)
                      : no_memory(table, err);
    if (rc == MW_OK) {
        mw_directory_source source = {table->name, group, table->column_count,
                                      mw_slice_of(stored, (size_t)group->directory.bytes)};
        rc = mw_directory_decode(table->env, &source, directory, err);
    }
    mw_table_reader_give(table, reader);
    return rc;
}

static bool unpack(mw_table_reader *reader, const mw_codec_dictionary *dictionary, mw_slice stored,
                   uint8_t *to, size_t bytes)
{
    return dictionary ? mw_codec_decompress_with(reader->codec, dictionary, stored, to, bytes)
                      : mw_codec_decompress(reader->codec, stored, to, bytes);
}

static mw_rc unpack_page(const mw_table *table, mw_table_reader *reader, const mw_page_ref *ref,
                         const mw_codec_dictionary *dictionary, mw_err *err)
{
    mw_slice stored = mw_buf_slice(&reader->stored);
    if (!reader->codec) reader->codec = mw_codec_create(table->env);
    uint8_t *to = reserve_exactly(&reader->raw, ref->raw_bytes);
    if (!reader->codec || !to) return no_memory(table, err);
    MW_CHECK_DISK(unpack(reader, dictionary, stored, to, ref->raw_bytes), err, table->name,
                  ref->offset, "a page does not decompress to %u bytes", (unsigned)ref->raw_bytes);
    reader->raw.size = ref->raw_bytes;
    return MW_OK;
}

static mw_rc dictionary_of(mw_table *table, uint32_t column,
                           const mw_codec_dictionary **dictionary, mw_err *err);

static mw_rc read_raw(mw_table *table, mw_table_reader *reader, const mw_page_ref *ref,
                      uint32_t column, mw_err *err)
{
    const mw_codec_dictionary *dictionary;
    mw_block block = {ref->offset, ref->stored_bytes, ref->checksum};
    uint8_t *stored = reserve_exactly(&reader->stored, ref->stored_bytes);
    if (!stored) return no_memory(table, err);
    mw_rc rc = mw_table_read_block(table, &block, stored, err);
    if (rc) return rc;
    reader->stored.size = ref->stored_bytes;
    if (ref->stored_bytes == ref->raw_bytes) return MW_OK;
    rc = dictionary_of(table, column, &dictionary, err);
    return rc ? rc : unpack_page(table, reader, ref, dictionary, err);
}

/* Key pages are searched by shape, so the shape is part of the format. */
static bool is_key_page(const mw_table *table, const mw_page *page)
{
    if (table->key == MW_KEY_INTEGER) return page->shape == MW_SHAPE_INTEGERS;
    mw_type type = table->key == MW_KEY_TEXT ? MW_TEXT : MW_BLOB;
    return page->shape == MW_SHAPE_BYTES && page->type == type;
}

mw_rc mw_table_read_page(mw_table *table, const mw_page_ref *ref, uint32_t column, mw_page **page,
                         mw_err *err)
{
    bool key = column == 0;
    mw_page_source source = {table->name, ref->offset, {NULL, 0}, ref->rows, key};
    *page = NULL;
    mw_table_reader *reader = mw_table_reader_take(table);
    if (!reader) return no_memory(table, err);
    mw_rc rc = read_raw(table, reader, ref, column, err);
    bool packed = ref->stored_bytes < ref->raw_bytes;
    source.raw = mw_buf_slice(packed ? &reader->raw : &reader->stored);
    if (rc == MW_OK) rc = mw_page_decode(table->env, &source, page, err);
    mw_table_reader_give(table, reader);
    if (rc == MW_OK && key && !is_key_page(table, *page)) {
        mw_free(table->env, *page);
        *page = NULL;
        return mw_fail_disk(err, table->name, ref->offset, "a key page of another kind of key");
    }
    return rc;
}

mw_rc mw_table_hold_directory(mw_table *table, const mw_group *group, mw_cached **held, mw_err *err)
{
    uint64_t offset = group->directory.offset;
    *held = mw_cache_find(table->cache, table->cache_file, offset);
    if (*held) return MW_OK;
    mw_directory *directory;
    mw_rc rc = mw_table_read_directory(table, group, &directory, err);
    if (rc) return rc;
    *held = mw_cache_put(table->cache, table->cache_file, offset, directory,
                         directory->memory_bytes);
    return *held ? MW_OK : no_memory(table, err);
}

mw_rc mw_table_hold_page(mw_table *table, const mw_page_ref *ref, uint32_t column,
                         mw_cached **held, mw_err *err)
{
    *held = mw_cache_find(table->cache, table->cache_file, ref->offset);
    if (*held) return MW_OK;
    mw_page *page;
    mw_rc rc = mw_table_read_page(table, ref, column, &page, err);
    if (rc) return rc;
    *held = mw_cache_put(table->cache, table->cache_file, ref->offset, page, page->memory_bytes);
    return *held ? MW_OK : no_memory(table, err);
}

/* ---- dictionaries -------------------------------------------------------------------------- */

static mw_rc unpack_dictionary(const mw_table *table, const mw_table_dictionary *of,
                               uint8_t **raw, mw_err *err)
{
    uint8_t *stored = *raw;
    if (of->block.bytes == of->raw_bytes) return MW_OK;
    mw_codec *codec = mw_codec_create(table->env);
    uint8_t *to = mw_alloc(table->env, of->raw_bytes);
    mw_slice from = mw_slice_of(stored, (size_t)of->block.bytes);
    mw_rc rc = MW_OK;
    if (!codec || !to) {
        rc = no_memory(table, err);
    } else if (!mw_codec_decompress(codec, from, to, of->raw_bytes)) {
        rc = mw_fail_disk(err, table->name, of->block.offset,
                          "a dictionary does not decompress to %u bytes", (unsigned)of->raw_bytes);
    }
    mw_codec_destroy(codec);
    mw_free(table->env, stored);
    *raw = to;
    return rc;
}

mw_rc mw_table_read_dictionary(mw_table *table, uint32_t number, uint8_t **raw,
                               mw_codec_dictionary **dictionary, mw_err *err)
{
    const mw_table_dictionary *of = &table->frame.dictionaries[number];
    *dictionary = NULL;
    mw_rc rc = read_whole(table, &of->block, raw, err);
    if (rc) return rc;
    rc = unpack_dictionary(table, of, raw, err);
    if (rc == MW_OK) {
        mw_slice bytes = mw_slice_of(*raw, of->raw_bytes);
        *dictionary = mw_codec_dictionary_create(table->env, bytes, 0);
        if (!*dictionary) rc = no_memory(table, err);
    }
    if (rc) {
        mw_free(table->env, *raw);
        *raw = NULL;
    }
    return rc;
}

static mw_rc load_dictionary(mw_table *table, uint32_t number, mw_err *err)
{
    const mw_env *env = table->env;
    mw_table_loaded *loaded = &table->dictionaries[number];
    mw_codec_dictionary *made;
    mw_rc rc = MW_OK;
    env->mutex_lock(env->ctx, table->mutex);
    if (!atomic_load_explicit(&loaded->dictionary, memory_order_relaxed)) {
        rc = mw_table_read_dictionary(table, number, &loaded->raw, &made, err);
        if (rc == MW_OK) {
            atomic_store_explicit(&loaded->dictionary, made, memory_order_release);
        }
    }
    env->mutex_unlock(env->ctx, table->mutex);
    return rc;
}

/* NULL: pages of this column are compressed without one. */
static mw_rc dictionary_of(mw_table *table, uint32_t column,
                           const mw_codec_dictionary **dictionary, mw_err *err)
{
    *dictionary = NULL;
    for (uint32_t i = 0; i < table->frame.dictionary_count; i++) {
        if (table->frame.dictionaries[i].column != column) continue;
        mw_table_loaded *loaded = &table->dictionaries[i];
        *dictionary = atomic_load_explicit(&loaded->dictionary, memory_order_acquire);
        if (*dictionary) return MW_OK;
        mw_rc rc = load_dictionary(table, i, err);
        *dictionary = atomic_load_explicit(&loaded->dictionary, memory_order_acquire);
        return rc;
    }
    return MW_OK;
}

uint64_t mw_table_dictionary_bytes(mw_table *table)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < table->frame.dictionary_count; i++) {
        mw_codec_dictionary *dictionary =
            atomic_load_explicit(&table->dictionaries[i].dictionary, memory_order_acquire);
        if (!dictionary) continue;
        bytes += mw_codec_dictionary_bytes(dictionary) + table->frame.dictionaries[i].raw_bytes;
    }
    return bytes;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void close_table(mw_table *table)
{
    const mw_env *env = table->env;
    if (table->cache_file) mw_cache_drop_file(table->cache, table->cache_file);
    while (table->idle) {
        mw_table_reader *reader = table->idle;
        table->idle = reader->next;
        free_reader(env, reader);
    }
    if (table->mutex) env->mutex_destroy(env->ctx, table->mutex);
    if (table->file >= 0) env->file_close(env->ctx, table->file); /* only read: nothing to lose */
    for (uint32_t i = 0; i < table->frame.dictionary_count; i++) {
        mw_table_loaded *loaded = &table->dictionaries[i];
        mw_codec_dictionary_destroy(atomic_load_explicit(&loaded->dictionary, memory_order_relaxed));
        mw_free(env, loaded->raw);
    }
    mw_free(env, table->filter_memory);
    mw_free(env, table->groups);
    mw_free(env, table->index);
    mw_free(env, table);
}

static mw_rc read_header(mw_table *table, const mw_table_options *options, mw_err *err)
{
    uint8_t header[MW_TABLE_HEADER_BYTES];
    for (int attempt = 0;; attempt++) {
        mw_err again = {.rc = MW_OK};
        mw_rc rc = mw_env_read(table->env, table->file, table->name, header, sizeof header, 0, err);
        if (rc) return rc;
        rc = mw_table_header_check(options, &table->frame, header, attempt ? err : &again);
        if (rc == MW_OK || attempt) return rc;
    }
}

static mw_rc read_footer(mw_table *table, uint64_t file_bytes, mw_err *err)
{
    uint8_t footer[MW_TABLE_FOOTER_BYTES];
    for (int attempt = 0;; attempt++) {
        mw_err again = {.rc = MW_OK};
        mw_rc rc = mw_env_read(table->env, table->file, table->name, footer, sizeof footer,
                               file_bytes - sizeof footer, err);
        if (rc) return rc;
        rc = mw_table_footer_get(&table->frame, footer, file_bytes, attempt ? err : &again);
        if (rc == MW_OK || attempt) return rc;
    }
}

static mw_rc open_file(mw_table *table, int dir, uint64_t *file_bytes, mw_err *err)
{
    const mw_env *env = table->env;
    int sys = mw_env_open(env, dir, table->name, MW_OPEN_READ, &table->file);
    if (sys) {
        table->file = -1;
        return mw_fail_sys(err, sys, "open", table->name);
    }
    sys = env->file_size(env->ctx, table->file, file_bytes);
    if (sys) return mw_fail_sys(err, sys, "size", table->name);
    MW_CHECK_DISK(*file_bytes >= MW_TABLE_HEADER_BYTES + MW_TABLE_FOOTER_BYTES, err, table->name,
                  *file_bytes, "the file is too short to be a table file");
    sys = env->mutex_create(env->ctx, &table->mutex);
    return sys ? mw_fail_sys(err, sys, "mutex_create", table->name) : MW_OK;
}

static mw_rc read_properties(mw_table *table, const mw_schema *schema, mw_err *err)
{
    uint8_t *content;
    mw_rc rc = read_whole(table, &table->frame.properties, &content, err);
    if (rc) return rc;
    mw_slice slice = mw_slice_of(content, (size_t)table->frame.properties.bytes);
    rc = mw_table_properties_get(&table->frame, slice, schema, err);
    mw_free(table->env, content);
    return rc;
}

static mw_rc read_index(mw_table *table, mw_err *err)
{
    mw_rc rc = read_whole(table, &table->frame.index, &table->index, err);
    if (rc) return rc;
    mw_slice slice = mw_slice_of(table->index, (size_t)table->frame.index.bytes);
    return mw_groups_get(table->env, &table->frame, slice, table->key, &table->groups, err);
}

static mw_rc check_expected(const mw_table *table, const mw_table_props *expected, mw_err *err)
{
    const mw_table_props *found = &table->frame.props;
    if (!expected) return MW_OK;
    uint64_t offset = found->bytes - MW_TABLE_FOOTER_BYTES;
    MW_CHECK_DISK(found->bytes == expected->bytes && found->checksum == expected->checksum, err,
                  table->name, offset,
                  "expected %llu bytes with checksum %016llx, found %llu with %016llx",
                  (unsigned long long)expected->bytes, (unsigned long long)expected->checksum,
                  (unsigned long long)found->bytes, (unsigned long long)found->checksum);
    MW_CHECK_DISK(found->rows == expected->rows && found->tombstones == expected->tombstones &&
                      found->sequence_min == expected->sequence_min &&
                      found->sequence_max == expected->sequence_max,
                  err, table->name, offset, "rows or sequences are not the manifest's");
    return MW_OK;
}

static mw_rc fill_table(mw_table *table, int dir, const mw_table_options *options,
                        const mw_table_props *expected, mw_err *err)
{
    uint64_t file_bytes;
    mw_rc rc = open_file(table, dir, &file_bytes, err);
    if (rc == MW_OK) rc = read_header(table, options, err);
    if (rc == MW_OK) rc = read_footer(table, file_bytes, err);
    if (rc == MW_OK) rc = read_properties(table, options->schema, err);
    if (rc == MW_OK) rc = check_expected(table, expected, err);
    if (rc == MW_OK) rc = read_index(table, err);
    return rc;
}

mw_rc mw_table_open(const mw_env *env, int dir, mw_cache *cache, const mw_table_options *options,
                    const mw_table_props *expected, mw_table **table, mw_err *err)
{
    *table = NULL;
    mw_table *made = mw_alloc_zero(env, sizeof *made);
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for a table file");
    made->env = env;
    made->cache = cache;
    made->cache_file = mw_cache_new_file(cache);
    made->file = -1;
    made->store = options->store;
    made->epoch = options->epoch;
    made->number = options->number;
    made->key = options->schema->key;
    made->column_count = options->schema->column_count;
    atomic_init(&made->references, 1);
    mw_table_name(options->epoch, options->number, made->name);
    made->frame.name = made->name;
    made->frame.seed = mw_hash_seed(&options->store, options->epoch, options->number);
    mw_rc rc = fill_table(made, dir, options, expected, err);
    if (rc) {
        close_table(made);
        return rc;
    }
    *table = made;
    return MW_OK;
}

mw_table *mw_table_ref(mw_table *table)
{
    atomic_fetch_add_explicit(&table->references, 1, memory_order_relaxed);
    return table;
}

void mw_table_unref(mw_table *table)
{
    if (!table) return;
    if (atomic_fetch_sub_explicit(&table->references, 1, memory_order_acq_rel) != 1) return;
    close_table(table);
}

/* ---- what is known without reading --------------------------------------------------------- */

const mw_table_props *mw_table_properties(const mw_table *table)
{
    return &table->frame.props;
}

const char *mw_table_file_name(const mw_table *table)
{
    return table->name;
}

mw_slice mw_table_first_key(const mw_table *table)
{
    return table->frame.group_count ? table->groups[0].first : mw_slice_of(NULL, 0);
}

mw_slice mw_table_last_key(const mw_table *table)
{
    uint64_t count = table->frame.group_count;
    return count ? table->groups[count - 1].last : mw_slice_of(NULL, 0);
}

uint64_t mw_table_number(const mw_table *table)
{
    return table->number;
}

uint64_t mw_table_epoch(const mw_table *table)
{
    return table->epoch;
}

/* ---- looking up ---------------------------------------------------------------------------- */

static mw_rc load_filter_locked(mw_table *table, mw_err *err)
{
    if (atomic_load_explicit(&table->filter, memory_order_relaxed)) return MW_OK;
    mw_block *block = &table->frame.filter;
    if (block->bytes > SIZE_MAX - CACHE_LINE) return no_memory(table, err);
    void *memory = mw_alloc(table->env, (size_t)block->bytes + CACHE_LINE);
    if (!memory) return no_memory(table, err);
    /* A block of the filter is a cache line, if it begins with one. */
    uint8_t *filter = (uint8_t *)memory + (CACHE_LINE - (uintptr_t)memory % CACHE_LINE);
    mw_rc rc = mw_table_read_block(table, block, filter, err);
    if (rc) {
        mw_free(table->env, memory);
        return rc;
    }
    table->filter_memory = memory;
    atomic_store_explicit(&table->filter, filter, memory_order_release);
    return MW_OK;
}

static mw_rc load_filter(mw_table *table, const uint8_t **filter, mw_err *err)
{
    mw_rc rc = MW_OK;
    *filter = atomic_load_explicit(&table->filter, memory_order_acquire);
    if (*filter) return MW_OK;
    table->env->mutex_lock(table->env->ctx, table->mutex);
    rc = load_filter_locked(table, err);
    table->env->mutex_unlock(table->env->ctx, table->mutex);
    *filter = atomic_load_explicit(&table->filter, memory_order_acquire);
    return rc;
}

mw_rc mw_table_may_hold(mw_table *table, mw_slice key, bool *maybe, mw_err *err)
{
    const uint8_t *filter;
    *maybe = false;
    assert(table->key != MW_KEY_INTEGER || key.size == MW_INTEGER_KEY_BYTES);
    if (table->frame.group_count == 0) return MW_OK;
    if (mw_slice_compare(key, mw_table_first_key(table)) < 0) return MW_OK;
    if (mw_slice_compare(key, mw_table_last_key(table)) > 0) return MW_OK;
    mw_rc rc = load_filter(table, &filter, err);
    if (rc) return rc;
    uint64_t hash = mw_hash(key.data, key.size, table->frame.seed);
    *maybe = mw_filter_may_hold(filter, table->frame.filter.bytes, hash);
    return MW_OK;
}

static int compare_to_first(const mw_group *group, mw_slice key, uint64_t prefix)
{
    if (group->first_prefix != prefix) return group->first_prefix < prefix ? -1 : 1;
    return mw_prefix_tie(group->first, key);
}

uint64_t mw_table_group_of(const mw_table *table, mw_slice key)
{
    uint64_t prefix = mw_prefix(key);
    uint64_t low = 0, high = table->frame.group_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (compare_to_first(&table->groups[middle], key, prefix) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

uint32_t mw_directory_key_page(const mw_directory *directory, mw_slice key)
{
    uint32_t low = 1, high = directory->page_starts[1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mw_slice_compare(directory->separators[middle], key) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

/* First of count ascending numbers that is >= sought, when the bits of flip are turned in all of
** them. A branch, not arithmetic: guessing lets the next memory access begin early (measured 1.4
** times as fast over pages outside of the CPU's caches). */
static uint32_t first_not_below(const uint64_t *numbers, uint32_t count, uint64_t flip,
                                uint64_t sought)
{
    const uint64_t *at = numbers;
    sought ^= flip;
    while (count > 1) {
        uint32_t half = count / 2;
        if ((at[half - 1] ^ flip) < sought) at += half;
        count -= half;
    }
    return (uint32_t)(at - numbers) + ((*at ^ flip) < sought);
}

/* Is the key in row below the one that goes on after the common bytes with rest? */
static bool row_is_below(const mw_page *page, uint32_t row, uint64_t prefix, mw_slice rest)
{
    if (page->starts[row] != prefix) return page->starts[row] < prefix;
    mw_slice key = mw_page_bytes(page, row);
    size_t skip = key.size < page->common ? key.size : page->common;
    return mw_prefix_tie(mw_slice_of(key.data + skip, key.size - skip), rest) < 0;
}

/* First row from `row` on that is not below; most often the very first is it. */
static uint32_t first_of_tie(const mw_page *page, uint32_t row, uint64_t prefix, mw_slice rest)
{
    if (!row_is_below(page, row, prefix, rest)) return row;
    uint32_t low = row + 1, high = page->rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (row_is_below(page, middle, prefix, rest)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint32_t row_of_text(const mw_page *page, mw_slice key)
{
    mw_slice common = mw_page_bytes(page, 0);
    size_t shared = key.size < page->common ? key.size : page->common;
    common.size = common.size < page->common ? common.size : page->common;
    int order = mw_slice_compare(mw_slice_of(key.data, shared), common);
    if (order != 0) return order < 0 ? 0 : page->rows;
    mw_slice rest = mw_slice_of(key.data + shared, key.size - shared);
    uint64_t prefix = mw_prefix(rest);
    uint32_t row = first_not_below(page->starts, page->rows, 0, prefix);
    if (row == page->rows || page->starts[row] != prefix) return row;
    return first_of_tie(page, row, prefix, rest);
}

uint32_t mw_table_row_of(const mw_table *table, const mw_page *page, mw_slice key, bool *equal)
{
    uint32_t row;
    if (table->key == MW_KEY_INTEGER) {
        assert(key.size == MW_INTEGER_KEY_BYTES);
        uint64_t number = (uint64_t)mw_key_get_integer(key.data);
        row = first_not_below(page->slots, page->rows, (uint64_t)1 << 63, number);
        *equal = row < page->rows && page->slots[row] == number;
    } else {
        row = row_of_text(page, key);
        *equal = row < page->rows && mw_slice_equal(mw_page_bytes(page, row), key);
    }
    return row;
}

mw_rc mw_table_find(mw_table *table, mw_slice key, bool *found, bool *tombstone, mw_err *err)
{
    mw_cached *held, *held_page;
    *tombstone = false;
    mw_rc rc = mw_table_may_hold(table, key, found, err);
    if (rc || !*found) return rc;
    const mw_group *group = &table->groups[mw_table_group_of(table, key)];
    *found = mw_slice_compare(key, group->last) <= 0;
    if (!*found) return MW_OK;

    *found = false;
    rc = mw_table_hold_directory(table, group, &held, err);
    if (rc) return rc;
    const mw_directory *directory = mw_cached_content(held);
    const mw_page_ref *ref = &directory->pages[mw_directory_key_page(directory, key)];
    rc = mw_table_hold_page(table, ref, 0, &held_page, err);
    if (rc == MW_OK) {
        uint32_t row = mw_table_row_of(table, mw_cached_content(held_page), key, found);
        *tombstone = *found && mw_directory_tombstone(directory, ref->first_row + row);
        mw_cache_release(table->cache, held_page);
    }
    mw_cache_release(table->cache, held);
    return rc;
}
