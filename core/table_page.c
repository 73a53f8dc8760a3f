/* table_page.c: reads what a table file is made of: blocks, directories, dictionaries, pages.
**
** Nothing is used before its checksum was verified. A mismatch is read once more, as the fault may
** lie on the way from the disk.
**
** A page of a column with a dictionary needs it, and that is part of the index in memory: so the index
** is pinned while such a page is decompressed, and comes back for that if it has gone. Dictionaries
** are loaded when they are needed, each set once; what they take is told to the pool. Readers go from
** table to table, so none of them keeps a dictionary. */
#include "hash.h"
#include "table_file.h"

static mw_rc no_memory(const mw_table *table, mw_err *err)
{
    return mw_fail(err, MW_NOMEM, "out of memory for reading %s", table->name);
}

static uint8_t *reserve_exactly(mw_buf *buf, uint64_t bytes)
{
    mw_buf_clear(buf);
    return bytes <= SIZE_MAX && mw_buf_reserve(buf, (size_t)bytes + 1) ? buf->data : NULL;
}

/* ---- blocks -------------------------------------------------------------------------------- */

mw_rc mw_table_read_block(mw_table *table, const mw_block *block, uint8_t *to, mw_err *err)
{
    uint64_t found = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        mw_rc rc = mw_table_pin(table, MW_PART_FILE, err);
        if (rc) return rc;
        rc = mw_env_read(table->env, table->file, table->name, to, (size_t)block->bytes,
                         block->offset, err);
        mw_table_unpin(table, MW_PART_FILE);
        if (rc) return rc;
        found = mw_hash(to, (size_t)block->bytes, table->seed);
        if (found == block->checksum) return MW_OK;
    }
    return mw_fail_disk(err, table->name, block->offset,
                        "%llu bytes fail their checksum: expected %016llx, found %016llx",
                        (unsigned long long)block->bytes, (unsigned long long)block->checksum,
                        (unsigned long long)found);
}

mw_rc mw_table_read_whole(mw_table *table, const mw_block *block, uint8_t **content, mw_err *err)
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

/* ---- directories --------------------------------------------------------------------------- */

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

/* ---- dictionaries -------------------------------------------------------------------------- */

void mw_table_loaded_free(const mw_env *env, mw_table_loaded *loaded)
{
    if (!loaded) return;
    mw_codec_dictionary_destroy(loaded->dictionary);
    mw_free(env, loaded);
}

static mw_rc unpack_dictionary(const mw_table *table, const mw_table_dictionary *of,
                               const uint8_t *stored, uint8_t *to, mw_err *err)
{
    mw_slice from = mw_slice_of(stored, (size_t)of->block.bytes);
    mw_codec *codec = mw_codec_create(table->env);
    if (!codec) return no_memory(table, err);
    bool whole = mw_codec_decompress(codec, from, to, of->raw_bytes);
    mw_codec_destroy(codec);
    MW_CHECK_DISK(whole, err, table->name, of->block.offset,
                  "a dictionary does not decompress to %u bytes", (unsigned)of->raw_bytes);
    return MW_OK;
}

static mw_rc fill_dictionary(mw_table *table, const mw_table_dictionary *of, uint8_t *to,
                             mw_err *err)
{
    uint8_t *stored;
    if (of->block.bytes == of->raw_bytes) return mw_table_read_block(table, &of->block, to, err);
    mw_rc rc = mw_table_read_whole(table, &of->block, &stored, err);
    if (rc) return rc;
    rc = unpack_dictionary(table, of, stored, to, err);
    mw_free(table->env, stored);
    return rc;
}

mw_rc mw_table_read_dictionary(mw_table *table, uint32_t number, mw_table_loaded **loaded,
                               mw_err *err)
{
    const mw_table_dictionary *of = &table->frame.dictionaries[number];
    mw_table_loaded *made = mw_alloc(table->env, sizeof *made + of->raw_bytes);
    *loaded = NULL;
    if (!made) return no_memory(table, err);
    made->dictionary = NULL;
    mw_rc rc = fill_dictionary(table, of, made->raw, err);
    if (rc == MW_OK) {
        mw_slice bytes = mw_slice_of(made->raw, of->raw_bytes);
        made->dictionary = mw_codec_dictionary_create(table->env, bytes, 0);
        if (!made->dictionary) rc = no_memory(table, err);
    }
    if (rc) {
        mw_table_loaded_free(table->env, made);
        return rc;
    }
    *loaded = made;
    return MW_OK;
}

/* Two who come at once both read it; the second one's copy goes. */
static mw_rc load_dictionary(mw_table *table, uint32_t number, mw_err *err)
{
    mw_table_loaded *loaded, *none = NULL;
    mw_rc rc = mw_table_read_dictionary(table, number, &loaded, err);
    if (rc) return rc;
    uint64_t bytes = sizeof *loaded + table->frame.dictionaries[number].raw_bytes +
                     mw_codec_dictionary_bytes(loaded->dictionary);
    if (atomic_compare_exchange_strong(&table->dictionaries[number], &none, loaded)) {
        mw_table_pool_grow(table, MW_PART_INDEX, bytes);
    } else {
        mw_table_loaded_free(table->env, loaded);
    }
    return MW_OK;
}

/* Requires a pin of the index, for as long as the dictionary is used. NULL: pages of this column are
** compressed without one. */
static mw_rc dictionary_of(mw_table *table, uint32_t column,
                           const mw_codec_dictionary **dictionary, mw_err *err)
{
    *dictionary = NULL;
    for (uint32_t i = 0; i < table->frame.dictionary_count; i++) {
        if (table->frame.dictionaries[i].column != column) continue;
        mw_table_loaded *loaded =
            atomic_load_explicit(&table->dictionaries[i], memory_order_acquire);
        if (!loaded) {
            mw_rc rc = load_dictionary(table, i, err);
            if (rc) return rc;
            loaded = atomic_load_explicit(&table->dictionaries[i], memory_order_acquire);
        }
        *dictionary = loaded->dictionary;
    }
    return MW_OK;
}

/* ---- pages --------------------------------------------------------------------------------- */

static bool decompress(const mw_table_reader *reader, const mw_codec_dictionary *dictionary,
                       mw_slice stored, uint8_t *to, size_t bytes)
{
    return dictionary ? mw_codec_decompress_with(reader->codec, dictionary, stored, to, bytes)
                      : mw_codec_decompress(reader->codec, stored, to, bytes);
}

/* The page in reader->stored. */
static mw_rc unpack_page(const mw_table *table, mw_table_reader *reader, const mw_page_ref *ref,
                         const mw_codec_dictionary *dictionary, mw_err *err)
{
    mw_slice stored = mw_slice_of(reader->stored.data, ref->stored_bytes);
    if (!reader->codec) reader->codec = mw_codec_create(table->env);
    uint8_t *to = reserve_exactly(&reader->raw, ref->raw_bytes);
    if (!reader->codec || !to) return no_memory(table, err);
    MW_CHECK_DISK(decompress(reader, dictionary, stored, to, ref->raw_bytes), err, table->name,
                  ref->offset, "a page does not decompress to %u bytes", (unsigned)ref->raw_bytes);
    return MW_OK;
}

static mw_rc unpack_value_page(mw_table *table, mw_table_reader *reader, const mw_page_ref *ref,
                               uint32_t column, mw_err *err)
{
    const mw_codec_dictionary *dictionary;
    mw_rc rc = mw_table_pin(table, MW_PART_INDEX, err);
    if (rc) return rc;
    rc = dictionary_of(table, column, &dictionary, err);
    if (rc == MW_OK) rc = unpack_page(table, reader, ref, dictionary, err);
    mw_table_unpin(table, MW_PART_INDEX);
    return rc;
}

static mw_rc read_raw(mw_table *table, mw_table_reader *reader, const mw_page_ref *ref,
                      uint32_t column, mw_err *err)
{
    mw_block block = {ref->offset, ref->stored_bytes, ref->checksum};
    uint8_t *stored = reserve_exactly(&reader->stored, ref->stored_bytes);
    if (!stored) return no_memory(table, err);
    mw_rc rc = mw_table_read_block(table, &block, stored, err);
    if (rc || ref->stored_bytes == ref->raw_bytes) return rc;
    if (column == 0) return unpack_page(table, reader, ref, NULL, err);
    return unpack_value_page(table, reader, ref, column, err);
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
    source.raw = mw_slice_of(packed ? reader->raw.data : reader->stored.data, ref->raw_bytes);
    if (rc == MW_OK) rc = mw_page_decode(table->env, &source, page, err);
    mw_table_reader_give(table, reader);
    if (rc == MW_OK && key && !is_key_page(table, *page)) {
        mw_free(table->env, *page);
        *page = NULL;
        return mw_fail_disk(err, table->name, ref->offset, "a key page of another kind of key");
    }
    return rc;
}

/* ---- through the cache --------------------------------------------------------------------- */

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
