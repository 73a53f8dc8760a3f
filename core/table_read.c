/* table_read.c: opens table files and answers whether a key is in them.
**
**   file    opened; header and footer tell whether it is the right one
**   index   properties, index: kept in memory; filter and dictionaries when they are needed
**   find    key range -> filter -> index (in memory) -> directory -> key page (both cached) -> row
**
** Nothing is used before its checksum was verified, and what a checksum cannot prove (a file made
** by somebody who computes checksums, too) is checked again by whoever decodes: sizes against what
** is left, one by one, in 64 bit. A mismatch is read once more, as the fault may lie on the way
** from the disk.
**
** Threads: a resident index does not change but for its filter and dictionaries, each set once.
** Reading and decompressing take no lock. */
#include <string.h>

#include "filter.h"
#include "hash.h"
#include "table_file.h"

enum {
    CACHE_LINE = 64,
};

static mw_rc no_memory(const mw_table *table, mw_err *err)
{
    return mw_fail(err, MW_NOMEM, "out of memory for reading %s", table->name);
}

/* ---- the file ------------------------------------------------------------------------------ */

static void close_file(mw_table *table)
{
    const mw_env *env = table->env;
    if (table->file >= 0) env->file_close(env->ctx, table->file); /* only read: nothing to lose */
    table->file = -1;
}

static mw_rc read_header(mw_table *table, mw_err *err)
{
    uint8_t header[MW_TABLE_HEADER_BYTES];
    const mw_table_options identity = {
        .store = table->store, .epoch = table->epoch, .number = table->number};
    for (int attempt = 0;; attempt++) {
        mw_err again = {.rc = MW_OK};
        mw_rc rc = mw_env_read(table->env, table->file, table->name, header, sizeof header, 0, err);
        if (rc) return rc;
        rc = mw_table_header_check(&identity, &table->ends, header, attempt ? err : &again);
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
        rc = mw_table_footer_get(&table->ends, footer, file_bytes, attempt ? err : &again);
        if (rc == MW_OK || attempt) return rc;
    }
}

static mw_rc open_file(mw_table *table, uint64_t *file_bytes, mw_err *err)
{
    const mw_env *env = table->env;
    int sys = mw_env_open(env, table->dir, table->name, MW_OPEN_READ, &table->file);
    if (sys) {
        table->file = -1;
        return mw_fail_sys(err, sys, "open", table->name);
    }
    sys = env->file_size(env->ctx, table->file, file_bytes);
    if (sys) return mw_fail_sys(err, sys, "size", table->name);
    MW_CHECK_DISK(*file_bytes >= MW_TABLE_HEADER_BYTES + MW_TABLE_FOOTER_BYTES, err, table->name,
                  *file_bytes, "the file is too short to be a table file");
    return MW_OK;
}

/* The footer holds the checksum of what leads to all the rest: it tells one file from another. */
static mw_rc check_footer(const mw_table *table, mw_err *err)
{
    const mw_table_props *expected = &table->props;
    const mw_table_props *found = &table->ends.props;
    if (!table->knows_props) return MW_OK;
    MW_CHECK_DISK(found->bytes == expected->bytes && found->checksum == expected->checksum, err,
                  table->name, found->bytes - MW_TABLE_FOOTER_BYTES,
                  "expected %llu bytes with checksum %016llx, found %llu with %016llx",
                  (unsigned long long)expected->bytes, (unsigned long long)expected->checksum,
                  (unsigned long long)found->bytes, (unsigned long long)found->checksum);
    return MW_OK;
}

static mw_rc load_file(mw_table *table, mw_err *err)
{
    uint64_t file_bytes;
    table->ends = (mw_table_frame){.name = table->name, .seed = table->seed};
    mw_rc rc = open_file(table, &file_bytes, err);
    if (rc == MW_OK) rc = read_header(table, err);
    if (rc == MW_OK) rc = read_footer(table, file_bytes, err);
    if (rc == MW_OK) rc = check_footer(table, err);
    if (rc) close_file(table);
    return rc;
}

/* ---- the index ----------------------------------------------------------------------------- */

static void drop_index(mw_table *table)
{
    const mw_env *env = table->env;
    mw_free(env, atomic_load_explicit(&table->filter, memory_order_relaxed));
    atomic_store_explicit(&table->filter, NULL, memory_order_relaxed);
    for (uint32_t i = 0; i < MW_TABLE_DICTIONARIES_MAX; i++) {
        mw_table_loaded_free(env, atomic_exchange(&table->dictionaries[i], NULL));
    }
    mw_free(env, table->groups);
    mw_free(env, table->index);
    table->groups = NULL;
    table->index = NULL;
}

static mw_rc read_properties(mw_table *table, mw_err *err)
{
    uint8_t *content;
    mw_rc rc = mw_table_read_whole(table, &table->frame.properties, &content, err);
    if (rc) return rc;
    mw_slice slice = mw_slice_of(content, (size_t)table->frame.properties.bytes);
    rc = mw_table_properties_get(&table->frame, slice, table->schema, err);
    mw_free(table->env, content);
    return rc;
}

static mw_rc check_properties(const mw_table *table, mw_err *err)
{
    const mw_table_props *expected = &table->props;
    const mw_table_props *found = &table->frame.props;
    if (!table->knows_props) return MW_OK;
    MW_CHECK_DISK(found->rows == expected->rows && found->tombstones == expected->tombstones &&
                      found->sequence_min == expected->sequence_min &&
                      found->sequence_max == expected->sequence_max,
                  err, table->name, table->frame.properties.offset,
                  "rows or sequences are not the manifest's");
    return MW_OK;
}

static mw_rc read_index(mw_table *table, mw_err *err)
{
    mw_rc rc = mw_table_read_whole(table, &table->frame.index, &table->index, err);
    if (rc) return rc;
    mw_slice slice = mw_slice_of(table->index, (size_t)table->frame.index.bytes);
    return mw_groups_get(table->env, &table->frame, slice, table->key, &table->groups, err);
}

/* Lowest and highest key of the index at hand. */
static mw_key_range range_of_index(const mw_table *table)
{
    mw_key_range range = {{NULL, 0}, {NULL, 0}};
    uint64_t count = table->frame.group_count;
    if (count) range = (mw_key_range){table->groups[0].first, table->groups[count - 1].last};
    return range;
}

static mw_rc check_keys(const mw_table *table, mw_err *err)
{
    mw_key_range found = range_of_index(table);
    if (!table->knows_keys) return MW_OK;
    MW_CHECK_DISK(mw_slice_equal(found.min, table->keys.min) &&
                      mw_slice_equal(found.max, table->keys.max),
                  err, table->name, table->frame.index.offset,
                  "the index's first or last key is not the manifest's");
    return MW_OK;
}

static mw_rc load_index(mw_table *table, mw_err *err)
{
    mw_rc rc = mw_table_pin(table, MW_PART_FILE, err);
    if (rc) return rc;
    table->frame = table->ends;
    rc = read_properties(table, err);
    if (rc == MW_OK) rc = check_properties(table, err);
    if (rc == MW_OK) rc = read_index(table, err);
    if (rc == MW_OK) rc = check_keys(table, err);
    mw_table_unpin(table, MW_PART_FILE);
    if (rc) drop_index(table);
    return rc;
}

mw_rc mw_table_load(mw_table *table, mw_part part, mw_err *err)
{
    if (part == MW_PART_FILE) return load_file(table, err);
    mw_rc rc = load_index(table, err);
    table->stays[part].bytes =
        rc ? 0 : table->frame.index.bytes + table->frame.group_count * sizeof *table->groups;
    return rc;
}

void mw_table_unload(mw_table *table, mw_part part)
{
    if (part == MW_PART_FILE) {
        close_file(table);
    } else {
        drop_index(table);
    }
}

/* ---- tables -------------------------------------------------------------------------------- */

/* One block: the table, then `room` bytes for its keys. */
static mw_table *create_table(mw_table_pool *pool, int dir, const mw_table_options *options,
                              size_t room)
{
    const mw_env *env = mw_table_pool_env(pool);
    mw_table *made = mw_alloc_zero(env, sizeof *made + room);
    if (!made) return NULL;
    made->env = env;
    made->pool = pool;
    made->dir = dir;
    made->cache = mw_table_pool_cache(pool);
    made->cache_file = mw_cache_new_file(made->cache);
    made->file = -1;
    made->store = options->store;
    made->epoch = options->epoch;
    made->number = options->number;
    made->schema = options->schema;
    made->key = options->schema->key;
    made->column_count = options->schema->column_count;
    atomic_init(&made->references, 1);
    mw_table_name(options->epoch, options->number, made->name);
    made->seed = mw_hash_seed(&options->store, options->epoch, options->number);
    return made;
}

static mw_slice copy_key(uint8_t *to, mw_slice key)
{
    if (key.size) memcpy(to, key.data, key.size);
    return mw_slice_of(to, key.size);
}

mw_rc mw_table_make(mw_table_pool *pool, const mw_table_options *options,
                    const mw_table_listing *listing, mw_table **table, mw_err *err)
{
    const mw_key_range *keys = listing->keys;
    mw_table *made = create_table(pool, listing->dir, options, keys->min.size + keys->max.size);
    *table = made;
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for a table file");
    uint8_t *room = (uint8_t *)(made + 1);
    made->knows_props = made->knows_keys = true;
    made->props = *listing->props;
    made->keys.min = copy_key(room, keys->min);
    made->keys.max = copy_key(room + keys->min.size, keys->max);
    return MW_OK;
}

static void free_table(mw_table *table)
{
    const mw_env *env = table->env;
    mw_table_pool *pool = table->pool;
    bool closing = mw_table_pool_retired(pool);
    if (atomic_load(&table->kept)) mw_table_unpin(table, MW_PART_FILE);
    mw_table_pool_leave(table);
    if (!closing) mw_cache_drop_file(table->cache, table->cache_file);
    bool doomed = atomic_load_explicit(&table->doomed, memory_order_relaxed);
    if (doomed && !closing) env->unlink(env->ctx, table->dir, table->name);
    if (table->owns_pool) mw_table_pool_destroy(pool);
    mw_free(env, table);
}

mw_rc mw_table_open(const mw_env *env, int dir, mw_cache *cache, const mw_table_options *options,
                    const mw_table_props *expected, mw_table **table, mw_err *err)
{
    mw_table_pool *pool;
    *table = NULL;
    mw_rc rc = mw_table_pool_create(env, cache, 1, &pool, err);
    if (rc) return rc;
    mw_table *made = create_table(pool, dir, options, 0);
    if (!made) {
        mw_table_pool_destroy(pool);
        return mw_fail(err, MW_NOMEM, "out of memory for a table file");
    }
    made->owns_pool = true;
    made->knows_props = expected != NULL;
    if (expected) made->props = *expected;
    rc = mw_table_pin(made, MW_PART_FILE, err); /* for its life */
    if (rc == MW_OK) rc = mw_table_pin(made, MW_PART_INDEX, err);
    if (rc) {
        mw_table_unref(made);
        return rc;
    }
    made->props = made->frame.props;
    made->keys = range_of_index(made);
    *table = made;
    return MW_OK;
}

mw_rc mw_table_probe(mw_table *table, mw_err *err)
{
    mw_rc rc = mw_table_pin(table, MW_PART_INDEX, err);
    if (rc == MW_OK) mw_table_unpin(table, MW_PART_INDEX);
    return rc;
}

mw_table *mw_table_ref(mw_table *table)
{
    atomic_fetch_add_explicit(&table->references, 1, memory_order_relaxed);
    return table;
}

void mw_table_doom(mw_table *table)
{
    atomic_store_explicit(&table->doomed, true, memory_order_relaxed);
}

mw_rc mw_table_keep(mw_table *table, mw_err *err)
{
    if (!atomic_load(&table->kept)) {
        mw_rc rc = mw_table_pin(table, MW_PART_FILE, err);
        if (rc != MW_OK) return rc;
        if (atomic_exchange(&table->kept, true)) mw_table_unpin(table, MW_PART_FILE);
    }
    atomic_store_explicit(&table->doomed, false, memory_order_relaxed);
    return MW_OK;
}

void mw_table_let_go(mw_table *table)
{
    if (atomic_exchange(&table->kept, false)) mw_table_unpin(table, MW_PART_FILE);
}

void mw_table_unref(mw_table *table)
{
    if (!table) return;
    if (atomic_fetch_sub_explicit(&table->references, 1, memory_order_acq_rel) != 1) return;
    free_table(table);
}

/* ---- what is known without reading --------------------------------------------------------- */

const mw_table_props *mw_table_properties(const mw_table *table) { return &table->props; }

const char *mw_table_file_name(const mw_table *table) { return table->name; }

mw_slice mw_table_first_key(const mw_table *table) { return table->keys.min; }

mw_slice mw_table_last_key(const mw_table *table) { return table->keys.max; }

uint64_t mw_table_number(const mw_table *table) { return table->number; }

uint64_t mw_table_epoch(const mw_table *table) { return table->epoch; }

/* ---- looking up ---------------------------------------------------------------------------- */

/* A block of the filter is a cache line, if it begins with one. */
static uint8_t *filter_in(void *memory)
{
    return (uint8_t *)memory + (CACHE_LINE - (uintptr_t)memory % CACHE_LINE);
}

/* Two who come at once both read it; the second one's copy goes. */
static mw_rc load_filter(mw_table *table, mw_err *err)
{
    const mw_block *block = &table->frame.filter;
    if (block->bytes > SIZE_MAX - CACHE_LINE) return no_memory(table, err);
    size_t bytes = (size_t)block->bytes + CACHE_LINE;
    void *memory = mw_alloc(table->env, bytes);
    if (!memory) return no_memory(table, err);
    mw_rc rc = mw_table_read_block(table, block, filter_in(memory), err);
    void *none = NULL;
    if (rc == MW_OK && atomic_compare_exchange_strong(&table->filter, &none, memory)) {
        mw_table_pool_grow(table, MW_PART_INDEX, bytes);
    } else {
        mw_free(table->env, memory);
    }
    return rc;
}

mw_rc mw_table_filter_passes(mw_table *table, mw_slice key, bool *maybe, mw_err *err)
{
    void *memory = atomic_load_explicit(&table->filter, memory_order_acquire);
    *maybe = false;
    if (!memory) {
        mw_rc rc = load_filter(table, err);
        if (rc) return rc;
        memory = atomic_load_explicit(&table->filter, memory_order_acquire);
    }
    uint64_t hash = mw_hash(key.data, key.size, table->seed);
    *maybe = mw_filter_may_hold(filter_in(memory), table->frame.filter.bytes, hash);
    return MW_OK;
}

bool mw_table_in_range(const mw_table *table, mw_slice key)
{
    assert(table->key != MW_KEY_INTEGER || key.size == MW_INTEGER_KEY_BYTES);
    return table->props.rows + table->props.tombstones > 0 &&
           mw_slice_compare(key, table->keys.min) >= 0 &&
           mw_slice_compare(key, table->keys.max) <= 0;
}

mw_rc mw_table_may_hold(mw_table *table, mw_slice key, bool *maybe, mw_err *err)
{
    *maybe = false;
    if (!mw_table_in_range(table, key)) return MW_OK;
    mw_rc rc = mw_table_pin(table, MW_PART_INDEX, err);
    if (rc) return rc;
    rc = mw_table_filter_passes(table, key, maybe, err);
    mw_table_unpin(table, MW_PART_INDEX);
    return rc;
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

/* The key page that would hold key, when the filter has let it pass. Requires a pin. */
static mw_rc find_in_page(mw_table *table, mw_slice key, bool *found, bool *tombstone, mw_err *err)
{
    mw_cached *held, *held_page;
    const mw_group *group = &table->groups[mw_table_group_of(table, key)];
    *found = false;
    if (mw_slice_compare(key, group->last) > 0) return MW_OK;
    mw_rc rc = mw_table_hold_directory(table, group, &held, err);
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

mw_rc mw_table_find(mw_table *table, mw_slice key, bool *found, bool *tombstone, mw_err *err)
{
    *found = *tombstone = false;
    if (!mw_table_in_range(table, key)) return MW_OK;
    mw_rc rc = mw_table_pin(table, MW_PART_INDEX, err);
    if (rc) return rc;
    rc = mw_table_filter_passes(table, key, found, err);
    if (rc == MW_OK && *found) rc = find_in_page(table, key, found, tombstone, err);
    mw_table_unpin(table, MW_PART_INDEX);
    return rc;
}
