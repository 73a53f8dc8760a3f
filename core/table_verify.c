/* table_verify.c: reads every byte of a table file, past the cache, and proves every rule of the
** format.
**
** Checksums prove that the bytes are those which were written. The rest proves that whoever wrote
** them, checksums included, was right: a wrong filter or index would hide rows without any byte
** being bad. */
#include <math.h>
#include <string.h>

#include "filter.h"
#include "hash.h"
#include "table_file.h"

typedef struct verifying {
    mw_table *table;
    mw_err *err;
    const uint8_t *filter;
    const mw_group *group;         /* at hand */
    const mw_directory *directory; /* of it   */
    mw_scan statistics;
    mw_buf last_key; /* of the page before, in the same group */
} verifying;

static mw_rc bad(const verifying *v, uint64_t offset, const char *what)
{
    return mw_fail_disk(v->err, v->table->name, offset, "%s", what);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static mw_slice key_of(const mw_table *table, const mw_page *page, uint32_t row,
                       uint8_t number[MW_INTEGER_KEY_BYTES])
{
    if (table->key != MW_KEY_INTEGER) return mw_page_bytes(page, row);
    mw_key_put_integer(number, mw_page_integer(page, row));
    return mw_slice_of(number, MW_INTEGER_KEY_BYTES);
}

static mw_rc verify_key(verifying *v, const mw_page_ref *ref, mw_slice key, bool first)
{
    const mw_table *table = v->table;
    if (!first && mw_slice_compare(mw_buf_slice(&v->last_key), key) >= 0) {
        return bad(v, ref->offset, "keys do not ascend");
    }
    uint64_t hash = mw_hash(key.data, key.size, table->seed);
    if (!mw_filter_may_hold(v->filter, table->frame.filter.bytes, hash)) {
        return bad(v, table->frame.filter.offset, "the filter denies a key of the file");
    }
    mw_buf_clear(&v->last_key);
    mw_buf_put_slice(&v->last_key, key);
    return mw_buf_check(&v->last_key, v->err);
}

/* Separator of a page that is not the group's first: above all keys before it, not above its
** first. */
static mw_rc verify_separator(const verifying *v, const mw_page_ref *ref, mw_slice separator,
                              mw_slice key)
{
    bool right = mw_slice_compare(mw_buf_slice(&v->last_key), separator) < 0 &&
                 mw_slice_compare(separator, key) <= 0;
    return right ? MW_OK : bad(v, ref->offset, "a key page's separator is wrong");
}

static mw_rc verify_key_page(verifying *v, uint32_t number, const mw_page *page)
{
    const mw_page_ref *ref = &v->directory->pages[number];
    uint8_t integer[MW_INTEGER_KEY_BYTES];
    mw_slice key = key_of(v->table, page, 0, integer);
    mw_rc rc = MW_OK;
    if (number == 0 && !mw_slice_equal(key, v->group->first)) {
        return bad(v, ref->offset, "the group's first key is not the index's");
    }
    if (number > 0) rc = verify_separator(v, ref, v->directory->separators[number], key);
    for (uint32_t row = 0; rc == MW_OK && row < page->rows; row++) {
        key = key_of(v->table, page, row, integer);
        rc = verify_key(v, ref, key, number == 0 && row == 0);
    }
    return rc;
}

static mw_rc verify_keys(verifying *v)
{
    const mw_directory *directory = v->directory;
    for (uint32_t number = 0; number < directory->page_starts[1]; number++) {
        mw_page *page;
        mw_rc rc = mw_table_read_page(v->table, &directory->pages[number], 0, &page, v->err);
        if (rc == MW_OK) rc = verify_key_page(v, number, page);
        mw_free(v->table->env, page);
        if (rc) return rc;
    }
    if (mw_slice_equal(mw_buf_slice(&v->last_key), v->group->last)) return MW_OK;
    return bad(v, v->group->offset, "the group's last key is not the index's");
}

/* ---- values -------------------------------------------------------------------------------- */

/* What a column's statistics say, and what was seen so far. */
typedef struct tally {
    uint64_t nulls;
    mw_bound least;
    mw_bound most;
    uint64_t nulls_seen;
    bool values_seen;
    bool least_seen;
    bool most_seen;
} tally;

static mw_rc verify_value(const verifying *v, const mw_page_ref *ref, uint32_t row,
                          const mw_value *value, tally *t)
{
    if (mw_directory_tombstone(v->directory, row)) {
        return value->type == MW_NULL ? MW_OK : bad(v, ref->offset, "a tombstone has a value");
    }
    if (value->type == MW_NULL) {
        t->nulls_seen++;
        return MW_OK;
    }
    if (value->type == MW_REAL && isnan(value->real)) {
        return bad(v, ref->offset, "a real is not a number");
    }
    int to_least = mw_bound_order(value, &t->least);
    int to_most = mw_bound_order(value, &t->most);
    t->values_seen = true;
    t->least_seen |= to_least == 0;
    t->most_seen |= to_most == 0;
    if (t->least.value.type != MW_NULL && to_least >= 0 && to_most <= 0) return MW_OK;
    return bad(v, ref->offset, "a value lies outside its column's least and greatest");
}

static mw_rc verify_page(verifying *v, uint32_t c, const mw_page_ref *ref, tally *t)
{
    mw_page *page;
    mw_rc rc = mw_table_read_page(v->table, ref, c, &page, v->err);
    for (uint32_t row = 0; rc == MW_OK && row < ref->rows; row++) {
        mw_value value = {.type = MW_NULL};
        mw_page_value(page, row, &value);
        rc = verify_value(v, ref, ref->first_row + row, &value, t);
    }
    mw_free(v->table->env, page);
    return rc;
}

static mw_rc verify_column(verifying *v, uint32_t c)
{
    const mw_directory *directory = v->directory;
    uint64_t offset = v->group->directory.offset;
    tally t = {.nulls = mw_scan_varint(&v->statistics)};
    if (!mw_bound_get(&v->statistics, &t.least) || !mw_bound_get(&v->statistics, &t.most)) {
        return bad(v, offset, "a column's statistics cannot be read");
    }
    for (uint32_t i = directory->page_starts[c]; i < directory->page_starts[c + 1]; i++) {
        mw_rc rc = verify_page(v, c, &directory->pages[i], &t);
        if (rc) return rc;
    }
    if (t.nulls != t.nulls_seen) return bad(v, offset, "a column's number of NULLs is wrong");
    bool has_bounds = t.least.value.type != MW_NULL && t.most.value.type != MW_NULL;
    bool has_none = t.least.value.type == MW_NULL && t.most.value.type == MW_NULL;
    if (t.values_seen ? has_bounds && t.least_seen && t.most_seen : has_none) return MW_OK;
    return bad(v, offset, "a column's least or greatest value does not occur");
}

/* ---- groups -------------------------------------------------------------------------------- */

static mw_rc verify_tombstones(const verifying *v)
{
    const uint8_t *bitmap = v->directory->tombstones;
    uint32_t count = 0, rows = v->directory->rows;
    if (!bitmap) return MW_OK; /* the index says zero, too: checked when it was decoded */
    for (uint32_t bit = 0; bit < (rows + 7) / 8 * 8; bit++) {
        bool set = bitmap[bit / 8] >> bit % 8 & 1;
        if (set && bit >= rows) return bad(v, v->group->directory.offset, "a spare bit is set");
        count += set;
    }
    if (count == v->group->tombstones) return MW_OK;
    return bad(v, v->group->directory.offset, "the number of tombstones is not the index's");
}

static mw_rc verify_content(verifying *v)
{
    v->statistics = mw_scan_of(v->directory->statistics);
    mw_rc rc = verify_tombstones(v);
    if (rc == MW_OK) rc = verify_keys(v);
    for (uint32_t c = 1; rc == MW_OK && c <= v->table->column_count; c++) rc = verify_column(v, c);
    if (rc == MW_OK && mw_scan_left(&v->statistics)) {
        rc = bad(v, v->group->directory.offset, "bytes are left behind the statistics");
    }
    return rc;
}

static mw_rc verify_group(verifying *v, const mw_group *group)
{
    mw_directory *directory;
    mw_rc rc = mw_table_read_directory(v->table, group, &directory, v->err);
    if (rc) return rc;
    v->group = group;
    v->directory = directory;
    rc = verify_content(v);
    mw_free(v->table->env, directory);
    return rc;
}

/* ---- frame --------------------------------------------------------------------------------- */

/* The bytes at offset are still exactly these. */
static mw_rc verify_bytes(const verifying *v, uint64_t offset, const uint8_t *expected,
                          size_t bytes)
{
    uint8_t found[MW_TABLE_HEADER_BYTES + MW_TABLE_FOOTER_BYTES];
    const mw_table *table = v->table;
    assert(bytes <= sizeof found);
    mw_rc rc = mw_env_read(table->env, table->file, table->name, found, bytes, offset, v->err);
    if (rc) return rc;
    if (memcmp(found, expected, bytes) == 0) return MW_OK;
    return bad(v, offset, "changed since the file was opened");
}

static mw_rc verify_ends(const verifying *v)
{
    mw_table *table = v->table;
    uint8_t header[MW_TABLE_HEADER_BYTES], footer[MW_TABLE_FOOTER_BYTES];
    mw_table_options identity = {.store = table->store, .epoch = table->epoch,
                                 .number = table->number};
    mw_table_frame frame = table->frame;
    uint64_t file_bytes;
    int sys = table->env->file_size(table->env->ctx, table->file, &file_bytes);
    if (sys) return mw_fail_sys(v->err, sys, "size", table->name);
    if (file_bytes != frame.props.bytes) return bad(v, file_bytes, "the file's size has changed");
    mw_table_header_put(&identity, frame.seed, header);
    mw_table_footer_put(&frame, footer);
    mw_rc rc = verify_bytes(v, 0, header, sizeof header);
    if (rc) return rc;
    return verify_bytes(v, frame.props.bytes - sizeof footer, footer, sizeof footer);
}

/* Reads a block again; *content: the caller's, mw_free. */
static mw_rc verify_block(const verifying *v, const mw_block *block, uint8_t **content)
{
    mw_table *table = v->table;
    *content = block->bytes <= SIZE_MAX ? mw_alloc(table->env, (size_t)block->bytes) : NULL;
    if (!*content) return mw_fail(v->err, MW_NOMEM, "out of memory for reading %s", table->name);
    return mw_table_read_block(table, block, *content, v->err);
}

/* Also those that no page needs. */
static mw_rc verify_dictionaries(const verifying *v)
{
    mw_table *table = v->table;
    for (uint32_t i = 0; i < table->frame.dictionary_count; i++) {
        mw_table_loaded *loaded;
        mw_rc rc = mw_table_read_dictionary(table, i, &loaded, v->err);
        if (rc) return rc;
        mw_table_loaded_free(table->env, loaded);
    }
    return MW_OK;
}

/* Requires pins. */
static mw_rc verify_pinned(mw_table *table, mw_err *err)
{
    verifying v = {.table = table, .err = err};
    const mw_table_frame *frame = &table->frame;
    uint8_t *properties = NULL, *index = NULL, *filter = NULL;
    mw_buf_init(&v.last_key, table->env);
    mw_rc rc = verify_ends(&v);
    if (rc == MW_OK) rc = verify_block(&v, &frame->properties, &properties);
    if (rc == MW_OK) rc = verify_block(&v, &frame->index, &index);
    if (rc == MW_OK) rc = verify_block(&v, &frame->filter, &filter);
    if (rc == MW_OK) rc = verify_dictionaries(&v);
    v.filter = filter;
    for (uint64_t i = 0; rc == MW_OK && i < frame->group_count; i++) {
        rc = verify_group(&v, &table->groups[i]);
    }
    mw_buf_free(&v.last_key);
    mw_free(table->env, properties);
    mw_free(table->env, index);
    mw_free(table->env, filter);
    return rc;
}

mw_rc mw_table_verify(mw_table *table, mw_err *err)
{
    mw_rc rc = mw_table_pin(table, MW_PART_FILE, err);
    if (rc) return rc;
    rc = mw_table_pin(table, MW_PART_INDEX, err);
    if (rc == MW_OK) {
        rc = verify_pinned(table, err);
        mw_table_unpin(table, MW_PART_INDEX);
    }
    mw_table_unpin(table, MW_PART_FILE);
    return rc;
}
