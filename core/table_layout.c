/* table_layout.c: header, footer, properties, index and directories as bytes. FORMAT.md, "Table
** files", has the grammar.
**
**   header | group 0 | group 1 | ... | dictionaries | filter | index | properties | footer
**             `- pages of the key, of column 0, 1, ... | directory
**
** Whoever points to a block holds its checksum: the footer that of the properties, those that of
** index, filter and dictionaries, the index those of directories, a directory those of its pages. So the
** footer's own checksum depends on every byte of the file, and a block that belongs elsewhere is
** never taken.
**
** Blocks follow each other without a gap: most offsets are not stored but added up, and each sum
** must meet the next block exactly. */
#include "table_layout.h"

#include <math.h>
#include <string.h>

#include "filter.h"
#include "hash.h"

/* ---- header and footer --------------------------------------------------------------------- */

void mw_table_header_put(const mw_table_options *options, uint64_t seed,
                         uint8_t to[MW_TABLE_HEADER_BYTES])
{
    memcpy(to, MW_TABLE_MAGIC, 8);
    mw_put_u32(to + MW_TABLE_HEADER_VERSION, MW_TABLE_FORMAT_VERSION);
    mw_put_u32(to + MW_TABLE_HEADER_ZERO, 0);
    memcpy(to + MW_TABLE_HEADER_STORE, options->store.bytes, sizeof options->store.bytes);
    mw_put_u64(to + MW_TABLE_HEADER_EPOCH, options->epoch);
    mw_put_u64(to + MW_TABLE_HEADER_NUMBER, options->number);
    mw_put_u64(to + MW_TABLE_HEADER_CHECKSUM, mw_hash(to, MW_TABLE_HEADER_CHECKSUM, seed));
}

/* The header is whole under the identity that it states itself. */
static bool header_is_whole(const uint8_t from[MW_TABLE_HEADER_BYTES], mw_table_options *stated)
{
    memcpy(stated->store.bytes, from + MW_TABLE_HEADER_STORE, sizeof stated->store.bytes);
    stated->epoch = mw_get_u64(from + MW_TABLE_HEADER_EPOCH);
    stated->number = mw_get_u64(from + MW_TABLE_HEADER_NUMBER);
    uint64_t seed = mw_hash_seed(&stated->store, stated->epoch, stated->number);
    return memcmp(from, MW_TABLE_MAGIC, 8) == 0 &&
           mw_hash(from, MW_TABLE_HEADER_CHECKSUM, seed) ==
               mw_get_u64(from + MW_TABLE_HEADER_CHECKSUM);
}

mw_rc mw_table_header_check(const mw_table_options *options, const mw_table_frame *frame,
                            const uint8_t from[MW_TABLE_HEADER_BYTES], mw_err *err)
{
    mw_table_options stated = {0};
    MW_CHECK_DISK(header_is_whole(from, &stated), err, frame->name, 0,
                  "the header fails its checksum");
    if (memcmp(stated.store.bytes, options->store.bytes, sizeof stated.store.bytes) != 0) {
        return mw_fail(err, MW_MISMATCH, "%s belongs to another store", frame->name);
    }
    if (stated.epoch != options->epoch || stated.number != options->number) {
        return mw_fail(err, MW_MISMATCH,
                       "%s holds table %llu of epoch %llu, expected table %llu of epoch %llu",
                       frame->name, (unsigned long long)stated.number,
                       (unsigned long long)stated.epoch, (unsigned long long)options->number,
                       (unsigned long long)options->epoch);
    }
    uint32_t version = mw_get_u32(from + MW_TABLE_HEADER_VERSION);
    if (version != MW_TABLE_FORMAT_VERSION) {
        return mw_fail(err, MW_UNSUPPORTED, "%s has format version %u, this build reads %d",
                       frame->name, (unsigned)version, MW_TABLE_FORMAT_VERSION);
    }
    MW_CHECK_DISK(mw_get_u32(from + MW_TABLE_HEADER_ZERO) == 0, err, frame->name,
                  MW_TABLE_HEADER_ZERO, "expected zero in the header");
    return MW_OK;
}

void mw_table_footer_put(mw_table_frame *frame, uint8_t to[MW_TABLE_FOOTER_BYTES])
{
    assert(frame->properties.bytes <= MW_TABLE_PROPERTIES_BYTES_MAX);
    mw_put_u64(to + MW_TABLE_FOOTER_FILE_BYTES, frame->props.bytes);
    mw_put_u64(to + MW_TABLE_FOOTER_PROPERTIES, frame->properties.offset);
    mw_put_u32(to + MW_TABLE_FOOTER_PROPERTIES_BYTES, (uint32_t)frame->properties.bytes);
    mw_put_u32(to + MW_TABLE_FOOTER_VERSION, MW_TABLE_FORMAT_VERSION);
    mw_put_u64(to + MW_TABLE_FOOTER_PROPERTIES_SUM, frame->properties.checksum);
    frame->props.checksum = mw_hash(to, MW_TABLE_FOOTER_CHECKSUM, frame->seed);
    mw_put_u64(to + MW_TABLE_FOOTER_CHECKSUM, frame->props.checksum);
    memcpy(to + MW_TABLE_FOOTER_MAGIC, MW_TABLE_MAGIC_END, 8);
}

mw_rc mw_table_footer_get(mw_table_frame *frame, const uint8_t from[MW_TABLE_FOOTER_BYTES],
                          uint64_t file_bytes, mw_err *err)
{
    uint64_t offset = file_bytes - MW_TABLE_FOOTER_BYTES;
    uint64_t checksum = mw_get_u64(from + MW_TABLE_FOOTER_CHECKSUM);
    MW_CHECK_DISK(memcmp(from + MW_TABLE_FOOTER_MAGIC, MW_TABLE_MAGIC_END, 8) == 0, err,
                  frame->name, offset, "the file does not end as a table file does");
    MW_CHECK_DISK(mw_hash(from, MW_TABLE_FOOTER_CHECKSUM, frame->seed) == checksum, err,
                  frame->name, offset, "the footer fails its checksum");
    frame->props.checksum = checksum;
    frame->props.bytes = mw_get_u64(from + MW_TABLE_FOOTER_FILE_BYTES);
    frame->properties.offset = mw_get_u64(from + MW_TABLE_FOOTER_PROPERTIES);
    frame->properties.bytes = mw_get_u32(from + MW_TABLE_FOOTER_PROPERTIES_BYTES);
    frame->properties.checksum = mw_get_u64(from + MW_TABLE_FOOTER_PROPERTIES_SUM);
    MW_CHECK_DISK(mw_get_u32(from + MW_TABLE_FOOTER_VERSION) == MW_TABLE_FORMAT_VERSION, err, frame->name,
                  offset, "the footer's format version is not the header's");
    MW_CHECK_DISK(frame->props.bytes == file_bytes, err, frame->name, offset,
                  "expected a file of %llu bytes, found %llu",
                  (unsigned long long)frame->props.bytes, (unsigned long long)file_bytes);
    MW_CHECK_DISK(frame->properties.bytes <= MW_TABLE_PROPERTIES_BYTES_MAX &&
                      frame->properties.offset >= MW_TABLE_HEADER_BYTES &&
                      frame->properties.offset <= offset &&
                      frame->properties.bytes == offset - frame->properties.offset,
                  err, frame->name, offset, "the properties do not end at the footer");
    return MW_OK;
}

/* ---- properties ---------------------------------------------------------------------------- */

static void put_block(const mw_block *block, mw_buf *to)
{
    mw_buf_u64(to, block->offset);
    mw_buf_u64(to, block->bytes);
    mw_buf_u64(to, block->checksum);
}

static mw_block get_block(mw_scan *scan)
{
    mw_block block;
    block.offset = mw_scan_u64(scan);
    block.bytes = mw_scan_u64(scan);
    block.checksum = mw_scan_u64(scan);
    return block;
}

void mw_table_properties_put(const mw_table_frame *frame, const mw_schema *schema, mw_buf *to)
{
    mw_buf_u64(to, frame->props.rows);
    mw_buf_u64(to, frame->props.tombstones);
    mw_buf_u64(to, frame->props.sequence_min);
    mw_buf_u64(to, frame->props.sequence_max);
    mw_buf_u64(to, frame->group_count);
    put_block(&frame->filter, to);
    put_block(&frame->index, to);
    mw_buf_u8(to, (uint8_t)schema->key);
    mw_buf_varint(to, schema->column_count);
    for (uint32_t i = 0; i < schema->column_count; i++) mw_buf_varint(to, schema->column_ids[i]);
    mw_buf_varint(to, frame->dictionary_count);
    for (uint32_t i = 0; i < frame->dictionary_count; i++) {
        const mw_table_dictionary *dictionary = &frame->dictionaries[i];
        mw_buf_varint(to, dictionary->column);
        mw_buf_varint(to, dictionary->raw_bytes);
        mw_buf_varint(to, dictionary->block.bytes);
        mw_buf_u64(to, dictionary->block.checksum);
    }
}

static mw_rc check_schema(const mw_table_frame *frame, mw_scan *scan, const mw_schema *schema,
                          mw_err *err)
{
    uint8_t key = mw_scan_u8(scan);
    uint64_t column_count = mw_scan_varint(scan);
    bool same = key == (uint8_t)schema->key && column_count == schema->column_count;
    for (uint64_t i = 0; i < column_count && !scan->failed; i++) {
        uint64_t id = mw_scan_varint(scan);
        if (same && id != schema->column_ids[i]) same = false;
    }
    MW_CHECK_DISK(!scan->failed, err, frame->name, frame->properties.offset,
                  "the properties are of the wrong size");
    if (same) return MW_OK;
    return mw_fail(err, MW_MISMATCH,
                   "%s has a key of kind %u and %llu columns, expected kind %u and %u columns, or "
                   "column ids differ",
                   frame->name, (unsigned)key, (unsigned long long)column_count,
                   (unsigned)schema->key, (unsigned)schema->column_count);
}

/* Dictionary i, whose column lies above `above`. */
static bool get_dictionary(mw_scan *scan, uint32_t column_count, uint32_t above,
                           mw_table_dictionary *dictionary)
{
    uint64_t column = mw_scan_varint(scan);
    uint64_t raw_bytes = mw_scan_varint(scan);
    dictionary->block.bytes = mw_scan_varint(scan);
    dictionary->block.checksum = mw_scan_u64(scan);
    if (scan->failed || column <= above || column > column_count) return false;
    if (raw_bytes == 0 || raw_bytes > MW_DICTIONARY_BYTES_MAX) return false;
    dictionary->column = (uint32_t)column;
    dictionary->raw_bytes = (uint32_t)raw_bytes;
    return dictionary->block.bytes > 0 && dictionary->block.bytes <= raw_bytes;
}

/* They lie one behind the other, the last one before the filter. */
static mw_rc get_dictionaries(mw_table_frame *frame, mw_scan *scan, uint32_t column_count,
                              mw_err *err)
{
    uint64_t count = mw_scan_varint(scan), bytes = 0;
    uint64_t offset = frame->properties.offset;
    MW_CHECK_DISK(!scan->failed && count <= MW_TABLE_DICTIONARIES_MAX, err, frame->name, offset,
                  "more dictionaries than a file can have, or none of the count");
    frame->dictionary_count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t above = i ? frame->dictionaries[i - 1].column : 0;
        MW_CHECK_DISK(get_dictionary(scan, column_count, above, &frame->dictionaries[i]), err,
                      frame->name, offset, "dictionary %u is not possible", (unsigned)i);
        bytes += frame->dictionaries[i].block.bytes;
    }
    MW_CHECK_DISK(mw_scan_left(scan) == 0, err, frame->name, offset,
                  "the properties are of the wrong size");
    MW_CHECK_DISK(frame->filter.offset >= MW_TABLE_HEADER_BYTES &&
                      bytes <= frame->filter.offset - MW_TABLE_HEADER_BYTES,
                  err, frame->name, offset, "no room for the dictionaries before the filter");
    frame->groups_end = frame->filter.offset - bytes;
    uint64_t at = frame->groups_end;
    for (uint32_t i = 0; i < count; i++) {
        frame->dictionaries[i].block.offset = at;
        at += frame->dictionaries[i].block.bytes;
    }
    return MW_OK;
}

/* filter, index and properties follow each other; what lies before the filter are groups
** and dictionaries. */
static bool blocks_meet(const mw_table_frame *frame)
{
    const mw_block *filter = &frame->filter, *index = &frame->index;
    return filter->offset >= MW_TABLE_HEADER_BYTES && filter->offset <= index->offset &&
           filter->bytes == index->offset - filter->offset &&
           index->offset <= frame->properties.offset &&
           index->bytes == frame->properties.offset - index->offset;
}

mw_rc mw_table_properties_get(mw_table_frame *frame, mw_slice from, const mw_schema *schema,
                              mw_err *err)
{
    const uint64_t rows_max = (uint64_t)1 << 47;
    mw_scan scan = mw_scan_of(from);
    uint64_t offset = frame->properties.offset;
    mw_table_props *props = &frame->props;
    props->rows = mw_scan_u64(&scan);
    props->tombstones = mw_scan_u64(&scan);
    props->sequence_min = mw_scan_u64(&scan);
    props->sequence_max = mw_scan_u64(&scan);
    frame->group_count = mw_scan_u64(&scan);
    frame->filter = get_block(&scan);
    frame->index = get_block(&scan);
    mw_rc rc = check_schema(frame, &scan, schema, err);
    if (rc == MW_OK) rc = get_dictionaries(frame, &scan, schema->column_count, err);
    if (rc) return rc;
    MW_CHECK_DISK(props->rows < rows_max && props->tombstones < rows_max, err, frame->name, offset,
                  "more rows than a file can hold");
    MW_CHECK_DISK(props->sequence_min <= props->sequence_max, err, frame->name, offset,
                  "the lowest sequence lies above the highest");
    MW_CHECK_DISK(blocks_meet(frame), err, frame->name, offset,
                  "filter, index and properties do not follow each other");
    MW_CHECK_DISK(frame->filter.bytes == mw_filter_bytes(props->rows + props->tombstones), err,
                  frame->name, offset, "the filter's size does not fit the number of ids");
    MW_CHECK_DISK(frame->group_count <= frame->index.bytes / MW_GROUP_ENTRY_BYTES_MIN, err,
                  frame->name, offset, "more groups than the index has room for");
    return MW_OK;
}

/* ---- index --------------------------------------------------------------------------------- */

void mw_group_put(const mw_group *group, mw_buf *to)
{
    mw_buf_varint(to, group->rows);
    mw_buf_varint(to, group->tombstones);
    mw_buf_varint(to, group->directory.offset - group->offset);
    mw_buf_varint(to, group->directory.bytes);
    mw_buf_u64(to, group->directory.checksum);
    mw_buf_bytes(to, group->first);
    mw_buf_bytes(to, group->last);
}

/* Reads an entry whose group begins at *offset, and moves *offset behind the group. limit: where
** groups end. */
static bool get_group(mw_scan *scan, uint64_t *offset, uint64_t limit, mw_group *group)
{
    uint64_t rows = mw_scan_varint(scan);
    uint64_t tombstones = mw_scan_varint(scan);
    uint64_t pages_bytes = mw_scan_varint(scan);
    group->directory.bytes = mw_scan_varint(scan);
    group->directory.checksum = mw_scan_u64(scan);
    group->first = mw_scan_bytes(scan);
    group->last = mw_scan_bytes(scan);
    if (scan->failed || rows == 0 || rows > MW_GROUP_ROWS_MAX || tombstones > rows) return false;
    if (pages_bytes > limit - *offset) return false;
    if (group->directory.bytes > limit - *offset - pages_bytes) return false;
    group->rows = (uint32_t)rows;
    group->tombstones = (uint32_t)tombstones;
    group->offset = *offset;
    group->directory.offset = *offset + pages_bytes;
    group->first_prefix = mw_prefix(group->first);
    *offset = group->directory.offset + group->directory.bytes;
    return true;
}

static bool keys_ascend(const mw_group *groups, uint64_t i, mw_key_kind key)
{
    const mw_group *group = &groups[i];
    if (key == MW_KEY_INTEGER && group->first.size != MW_INTEGER_KEY_BYTES) return false;
    if (key == MW_KEY_INTEGER && group->last.size != MW_INTEGER_KEY_BYTES) return false;
    int order = mw_slice_compare(group->first, group->last);
    if (group->rows == 1 ? order != 0 : order >= 0) return false;
    return i == 0 || mw_slice_compare(groups[i - 1].last, group->first) < 0;
}

static mw_rc read_groups(const mw_table_frame *frame, mw_slice from, mw_key_kind key,
                         mw_group *groups, mw_err *err)
{
    mw_scan scan = mw_scan_of(from);
    uint64_t offset = MW_TABLE_HEADER_BYTES, versions = 0, tombstones = 0;
    for (uint64_t i = 0; i < frame->group_count; i++) {
        MW_CHECK_DISK(get_group(&scan, &offset, frame->groups_end, &groups[i]), err, frame->name,
                      frame->index.offset, "the index is wrong about group %llu",
                      (unsigned long long)i);
        MW_CHECK_DISK(keys_ascend(groups, i, key), err, frame->name, frame->index.offset,
                      "the keys of group %llu are out of order", (unsigned long long)i);
        versions += groups[i].rows;
        tombstones += groups[i].tombstones;
    }
    MW_CHECK_DISK(mw_scan_left(&scan) == 0, err, frame->name, frame->index.offset,
                  "bytes are left behind the last group's entry");
    MW_CHECK_DISK(offset == frame->groups_end, err, frame->name, offset,
                  "the last group does not end at the filter, nor at the first dictionary");
    MW_CHECK_DISK(tombstones == frame->props.tombstones &&
                      versions == frame->props.rows + tombstones,
                  err, frame->name, frame->index.offset,
                  "index and properties differ in the number of rows");
    return MW_OK;
}

mw_rc mw_groups_get(const mw_env *env, const mw_table_frame *frame, mw_slice from, mw_key_kind key,
                    mw_group **groups, mw_err *err)
{
    *groups = NULL;
    if (frame->group_count > SIZE_MAX / sizeof(mw_group)) {
        return mw_fail(err, MW_NOMEM, "out of memory for the index of %s", frame->name);
    }
    mw_group *made = mw_alloc(env, (size_t)frame->group_count * sizeof *made);
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for the index of %s", frame->name);
    mw_rc rc = read_groups(frame, from, key, made, err);
    if (rc) {
        mw_free(env, made);
        return rc;
    }
    *groups = made;
    return MW_OK;
}

/* ---- directory ----------------------------------------------------------------------------- */

void mw_page_ref_put(const mw_page_ref *ref, mw_buf *to)
{
    mw_buf_varint(to, ref->rows);
    mw_buf_varint(to, ref->raw_bytes);
    mw_buf_varint(to, ref->stored_bytes);
    mw_buf_u64(to, ref->checksum);
}

/* Arrays of a directory while it is filled. */
typedef struct filling {
    const mw_directory_source *source;
    mw_scan scan;
    uint64_t page_total;
    uint64_t offset; /* where the next page begins */
    uint32_t page;   /* number of the next page    */
    uint32_t *page_starts;
    mw_page_ref *pages;
    mw_slice *separators;
} filling;

static mw_rc bad_directory(const filling *f, mw_err *err, const char *what)
{
    return mw_fail_disk(err, f->source->file, f->source->group->directory.offset,
                        "the group's directory: %s", what);
}

static bool page_sizes_fit(uint64_t rows, uint64_t raw_bytes, uint64_t stored_bytes)
{
    uint64_t limit = rows == 1 ? (uint64_t)MW_PAGE_VALUE_BYTES_MAX + MW_PAGE_ROW_OVERHEAD
                               : (uint64_t)MW_PAGE_BYTES_MAX;
    return raw_bytes > 0 && raw_bytes <= limit && stored_bytes > 0 && stored_bytes <= raw_bytes;
}

static mw_rc get_page_ref(filling *f, uint32_t first_row, mw_err *err)
{
    const mw_group *group = f->source->group;
    uint64_t rows = mw_scan_varint(&f->scan);
    uint64_t raw_bytes = mw_scan_varint(&f->scan);
    uint64_t stored_bytes = mw_scan_varint(&f->scan);
    uint64_t checksum = mw_scan_u64(&f->scan);
    if (f->scan.failed) return bad_directory(f, err, "cut inside its pages");
    if (f->page == f->page_total) return bad_directory(f, err, "more pages than it announces");
    if (rows == 0 || rows > group->rows - first_row) {
        return bad_directory(f, err, "a page passes the group's last row");
    }
    if (!page_sizes_fit(rows, raw_bytes, stored_bytes)) {
        return bad_directory(f, err, "a page's size is not possible");
    }
    if (stored_bytes > group->directory.offset - f->offset) {
        return bad_directory(f, err, "a page passes the group's end");
    }
    mw_page_ref *ref = &f->pages[f->page++];
    ref->offset = f->offset;
    ref->checksum = checksum;
    ref->raw_bytes = (uint32_t)raw_bytes;
    ref->stored_bytes = (uint32_t)stored_bytes;
    ref->first_row = first_row;
    ref->rows = (uint32_t)rows;
    f->offset += stored_bytes;
    return MW_OK;
}

/* Pages of the next column: as many as the group's rows need. Those of the key carry separators. */
static mw_rc get_column(filling *f, bool key, mw_err *err)
{
    for (uint32_t row = 0; row < f->source->group->rows;) {
        uint32_t page = f->page;
        mw_rc rc = get_page_ref(f, row, err);
        if (rc) return rc;
        if (key) f->separators[page] = row ? mw_scan_bytes(&f->scan) : mw_slice_of(NULL, 0);
        row += f->pages[page].rows;
    }
    return MW_OK;
}

static mw_rc get_columns(filling *f, mw_err *err)
{
    for (uint32_t c = 0; c <= f->source->column_count; c++) {
        f->page_starts[c] = f->page;
        mw_rc rc = get_column(f, c == 0, err);
        if (rc) return rc;
    }
    f->page_starts[f->source->column_count + 1] = f->page;
    if (f->scan.failed) return bad_directory(f, err, "cut inside its pages");
    if (f->page != f->page_total) return bad_directory(f, err, "fewer pages than it announces");
    if (f->offset != f->source->group->directory.offset) {
        return bad_directory(f, err, "its pages do not fill the group");
    }
    return MW_OK;
}

static mw_rc get_head(filling *f, const uint8_t **tombstones, mw_err *err)
{
    const mw_group *group = f->source->group;
    uint8_t flags = mw_scan_u8(&f->scan);
    *tombstones = NULL;
    if (f->scan.failed || flags > MW_GROUP_HAS_TOMBSTONES) {
        return bad_directory(f, err, "flags that do not exist");
    }
    if ((flags == MW_GROUP_HAS_TOMBSTONES) != (group->tombstones > 0)) {
        return bad_directory(f, err, "it differs from the index about tombstones");
    }
    if (flags) *tombstones = mw_scan_take(&f->scan, (group->rows + 7) / 8).data;
    f->page_total = mw_scan_varint(&f->scan);
    if (f->scan.failed) return bad_directory(f, err, "cut inside its head");
    if (f->page_total > mw_scan_left(&f->scan) / MW_GROUP_PAGE_ENTRY_BYTES_MIN) {
        return bad_directory(f, err, "more pages than there is room for");
    }
    return MW_OK;
}

static mw_rc fill_directory(filling *f, mw_directory *made, mw_err *err)
{
    const mw_directory_source *source = f->source;
    mw_page_ref *pages = (mw_page_ref *)(made + 1);
    mw_slice *separators = (mw_slice *)(pages + f->page_total);
    uint32_t *starts = (uint32_t *)(separators + f->page_total);
    uint8_t *copy = (uint8_t *)(starts + source->column_count + 2);

    /* The slices must live as long as the directory: its own copy is what is scanned. */
    memcpy(copy, source->raw.data, source->raw.size);
    f->scan = mw_scan_of(mw_slice_of(copy, source->raw.size));
    f->page_starts = starts;
    f->pages = pages;
    f->separators = separators;
    made->rows = source->group->rows;
    made->page_starts = starts;
    made->pages = pages;
    made->separators = separators;
    mw_rc rc = get_head(f, &made->tombstones, err);
    if (rc == MW_OK) rc = get_columns(f, err);
    if (rc == MW_OK) made->statistics = mw_slice_of(f->scan.at, mw_scan_left(&f->scan));
    return rc;
}

mw_rc mw_directory_decode(const mw_env *env, const mw_directory_source *source,
                          mw_directory **directory, mw_err *err)
{
    filling f = {.source = source, .scan = mw_scan_of(source->raw),
                 .offset = source->group->offset};
    const uint8_t *tombstones;
    *directory = NULL;
    mw_rc rc = get_head(&f, &tombstones, err);
    if (rc) return rc;
    /* page_total is bounded by the block's size, so the sum stays far from 2^64. */
    uint64_t bytes = sizeof(mw_directory) + source->raw.size +
                     f.page_total * (sizeof(mw_page_ref) + sizeof(mw_slice)) +
                     ((uint64_t)source->column_count + 2) * sizeof(uint32_t);
    mw_directory *made = bytes <= SIZE_MAX ? mw_alloc_zero(env, (size_t)bytes) : NULL;
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for a directory of %s", source->file);
    made->memory_bytes = (size_t)bytes;
    rc = fill_directory(&f, made, err);
    if (rc) {
        mw_free(env, made);
        return rc;
    }
    *directory = made;
    return MW_OK;
}

/* ---- bounds -------------------------------------------------------------------------------- */

static bool holds_bytes(mw_type type)
{
    return type == MW_TEXT || type == MW_BLOB;
}

void mw_bound_put(const mw_value *value, mw_buf *to)
{
    bool cut = holds_bytes(value->type) && value->bytes.size > MW_GROUP_BOUND_BYTES;
    mw_buf_u8(to, (uint8_t)(value->type + (cut ? MW_GROUP_BOUND_CUT : 0)));
    if (value->type == MW_INTEGER) {
        mw_buf_u64(to, (uint64_t)value->integer);
    } else if (value->type == MW_REAL) {
        uint64_t bits;
        memcpy(&bits, &value->real, sizeof bits);
        mw_buf_u64(to, bits);
    } else if (holds_bytes(value->type)) {
        size_t size = cut ? MW_GROUP_BOUND_BYTES : value->bytes.size;
        mw_buf_bytes(to, mw_slice_of(value->bytes.data, size));
    }
}

bool mw_bound_get(mw_scan *scan, mw_bound *bound)
{
    uint8_t tag = mw_scan_u8(scan);
    uint8_t type = tag & (MW_GROUP_BOUND_CUT - 1);
    memset(bound, 0, sizeof *bound);
    if (scan->failed || type > MW_BLOB || tag >= MW_GROUP_BOUND_CUT * 2) return false;
    bound->cut = tag >= MW_GROUP_BOUND_CUT;
    bound->value.type = (mw_type)type;
    if (type == MW_INTEGER) {
        bound->value.integer = (int64_t)mw_scan_u64(scan);
    } else if (type == MW_REAL) {
        uint64_t bits = mw_scan_u64(scan);
        memcpy(&bound->value.real, &bits, sizeof bits);
    } else if (holds_bytes(bound->value.type)) {
        bound->value.bytes = mw_scan_bytes(scan);
    }
    if (type == MW_REAL && isnan(bound->value.real)) return false; /* beside every order */
    size_t size = bound->value.bytes.size;
    if (scan->failed || size > MW_GROUP_BOUND_BYTES) return false;
    return !bound->cut || size == MW_GROUP_BOUND_BYTES;
}

int mw_bound_order(const mw_value *value, const mw_bound *bound)
{
    if (!bound->cut || value->type != bound->value.type) {
        return mw_value_compare(value, &bound->value);
    }
    /* Cut: whatever is at most as long as the bound's bytes and equal to them lies below it. */
    mw_value start = *value;
    if (start.bytes.size > MW_GROUP_BOUND_BYTES) start.bytes.size = MW_GROUP_BOUND_BYTES;
    int order = mw_value_compare(&start, &bound->value);
    if (order != 0) return order;
    return value->bytes.size > MW_GROUP_BOUND_BYTES ? 0 : -1;
}
