/* table_write.c: makes a table file from versions in key order.
**
**   add -> columns of the group at hand -> (group full) pages + directory -> out -> file
**                                          `- index entry, one hash a row for the filter
**
** Memory: one group, the index, and 8 bytes a row for the filter, whose size is known only at the
** end. The file has its name from the start, but nothing refers to it before a manifest does, so a
** crash in the middle leaves a file that nobody reads. Content and name are durable when finish
** returns.
**
** Values are gathered apart from the start: a page's encoding is chosen from all of its values, and
** rows would have to be taken apart again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "filter.h"
#include "hash.h"
#include "page.h"
#include "table_layout.h"

enum {
    WRITE_BYTES = 1 << 18,       /* what is given to the file at once, at least */
    SPARE_BYTES = 4 << 20,       /* a work buffer that has grown past this is freed */
    ROWS_AT_FIRST = 256,
};

/* Values of one column in the group at hand. */
typedef struct column {
    uint8_t *types;
    uint64_t *slots;
    mw_buf bytes;
} column;

struct mw_table_writer {
    const mw_env *env;
    int dir;
    int file;
    bool made;   /* the file exists and is ours */
    bool open;
    mw_rc broken; /* what an earlier call failed with */
    char name[MW_TABLE_NAME_BYTES];
    mw_table_options options;
    mw_table_frame frame;
    mw_codec *codec; /* NULL: no compression */

    column *columns; /* the key, then the others */
    uint32_t rows;   /* in the group at hand     */
    uint32_t row_capacity;
    uint64_t weight; /* of the group at hand     */
    mw_group group;
    mw_buf file_first_key;
    mw_buf first_key;  /* of the group at hand */
    mw_buf last_key;
    mw_buf tombstones; /* bitmap */

    mw_buf raw;        /* page before compression */
    mw_buf packed;
    mw_buf refs;       /* directory: pages      */
    uint32_t page_count;
    mw_buf statistics; /* directory: statistics */
    mw_buf block;      /* directory as a whole, properties */
    mw_buf index;
    mw_buf hashes;
    mw_buf out;        /* not given to the file yet */
    uint64_t offset;   /* of the next byte, what is in out counted */
};

void mw_table_name(uint64_t epoch, uint64_t number, char name[MW_TABLE_NAME_BYTES])
{
    snprintf(name, MW_TABLE_NAME_BYTES, "table-%016llx-%016llx", (unsigned long long)epoch,
             (unsigned long long)number);
}

bool mw_table_parse_name(const char *name, uint64_t *epoch, uint64_t *number)
{
    return strlen(name) == 39 && memcmp(name, "table-", 6) == 0 && name[22] == '-' &&
           mw_get_hex(name + 6, epoch) && mw_get_hex(name + 23, number);
}

/* ---- making and freeing -------------------------------------------------------------------- */

static uint32_t column_total(const mw_table_writer *writer)
{
    return writer->options.schema->column_count + 1;
}

static void free_writer(mw_table_writer *writer)
{
    mw_buf *bufs[] = {&writer->file_first_key, &writer->first_key, &writer->last_key,
                      &writer->tombstones,     &writer->raw,       &writer->packed,
                      &writer->refs,           &writer->statistics, &writer->block,
                      &writer->index,          &writer->hashes,    &writer->out};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) mw_buf_free(bufs[i]);
    for (uint32_t c = 0; writer->columns && c < column_total(writer); c++) {
        mw_free(writer->env, writer->columns[c].types);
        mw_free(writer->env, writer->columns[c].slots);
        mw_buf_free(&writer->columns[c].bytes);
    }
    mw_free(writer->env, writer->columns);
    mw_codec_destroy(writer->codec);
    mw_free(writer->env, writer);
}

void mw_table_writer_abandon(mw_table_writer *writer)
{
    if (!writer) return;
    const mw_env *env = writer->env;
    /* Nothing to report to: a file that stays is an unlisted leftover. */
    if (writer->open) env->file_close(env->ctx, writer->file);
    if (writer->made) env->unlink(env->ctx, writer->dir, writer->name);
    free_writer(writer);
}

static void init_buffers(mw_table_writer *writer)
{
    const mw_env *env = writer->env;
    mw_buf *bufs[] = {&writer->file_first_key, &writer->first_key, &writer->last_key,
                      &writer->tombstones,     &writer->raw,       &writer->packed,
                      &writer->refs,           &writer->statistics, &writer->block,
                      &writer->index,          &writer->hashes,    &writer->out};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) mw_buf_init(bufs[i], env);
}

static bool init_columns(mw_table_writer *writer)
{
    writer->columns = mw_alloc_zero(writer->env, sizeof *writer->columns * column_total(writer));
    if (!writer->columns) return false;
    for (uint32_t c = 0; c < column_total(writer); c++) {
        mw_buf_init(&writer->columns[c].bytes, writer->env);
    }
    return true;
}

static void init_options(mw_table_writer *writer, const mw_table_options *options)
{
    mw_table_options *own = &writer->options;
    *own = *options;
    if (own->group_rows == 0) own->group_rows = MW_GROUP_ROWS;
    if (own->page_bytes == 0) own->page_bytes = MW_PAGE_BYTES;
    own->group_rows = (uint32_t)mw_min(own->group_rows, MW_GROUP_ROWS_MAX);
    own->page_bytes = (uint32_t)mw_min(own->page_bytes, MW_PAGE_TARGET_MAX);
    mw_table_name(options->epoch, options->number, writer->name);
    writer->frame.name = writer->name;
    writer->frame.seed = mw_hash_seed(&options->store, options->epoch, options->number);
}

static mw_rc start_file(mw_table_writer *writer, mw_err *err)
{
    uint8_t header[MW_TABLE_HEADER_BYTES];
    const mw_env *env = writer->env;
    int sys = mw_env_open(env, writer->dir, writer->name, MW_OPEN_CREATE, &writer->file);
    if (sys) return mw_fail_sys(err, sys, "create", writer->name);
    writer->made = writer->open = true;
    mw_table_header_put(&writer->options, writer->frame.seed, header);
    mw_buf_put(&writer->out, header, sizeof header);
    writer->offset = sizeof header;
    return mw_buf_check(&writer->out, err);
}

mw_rc mw_table_writer_create(const mw_env *env, int dir, const mw_table_options *options,
                             mw_table_writer **writer, mw_err *err)
{
    *writer = NULL;
    mw_table_writer *made = mw_alloc_zero(env, sizeof *made);
    if (!made) return mw_fail(err, MW_NOMEM, "out of memory for a table file");
    made->env = env;
    made->dir = dir;
    init_options(made, options);
    init_buffers(made);
    bool ready = init_columns(made);
    if (ready && options->compression > 0) ready = (made->codec = mw_codec_create(env)) != NULL;
    mw_rc rc = ready ? start_file(made, err)
                     : mw_fail(err, MW_NOMEM, "out of memory for %s", made->name);
    if (rc) {
        mw_table_writer_abandon(made);
        return rc;
    }
    *writer = made;
    return MW_OK;
}

/* ---- the file ------------------------------------------------------------------------------ */

static mw_rc write_at_end(mw_table_writer *writer, mw_slice bytes, mw_err *err)
{
    return mw_env_write(writer->env, writer->file, writer->name, bytes.data, bytes.size,
                        writer->offset - bytes.size, err);
}

static mw_rc flush_out(mw_table_writer *writer, mw_err *err)
{
    mw_rc rc = mw_buf_check(&writer->out, err);
    if (rc == MW_OK && writer->out.size) rc = write_at_end(writer, mw_buf_slice(&writer->out), err);
    mw_buf_clear(&writer->out);
    return rc;
}

/* Appends a block; *block (its bytes' place and checksum) is filled in. */
static mw_rc put_block(mw_table_writer *writer, mw_slice bytes, mw_block *block, mw_err *err)
{
    block->offset = writer->offset;
    block->bytes = bytes.size;
    block->checksum = mw_hash(bytes.data, bytes.size, writer->frame.seed);
    if (bytes.size >= WRITE_BYTES) {
        mw_rc rc = flush_out(writer, err);
        writer->offset += bytes.size;
        return rc ? rc : write_at_end(writer, bytes, err);
    }
    mw_buf_put_slice(&writer->out, bytes);
    writer->offset += bytes.size;
    if (writer->out.size >= WRITE_BYTES) return flush_out(writer, err);
    return mw_buf_check(&writer->out, err);
}

/* ---- pages --------------------------------------------------------------------------------- */

/* The encoded page in raw, compressed if that helps. */
static mw_slice pack_page(mw_table_writer *writer)
{
    mw_slice raw = mw_buf_slice(&writer->raw);
    if (!writer->codec) return raw;
    mw_buf_clear(&writer->packed);
    if (!mw_buf_reserve(&writer->packed, raw.size)) return raw;
    size_t size = mw_codec_compress(writer->codec, raw, writer->packed.data, raw.size,
                                    writer->options.compression);
    return size ? mw_slice_of(writer->packed.data, size) : raw;
}

static mw_rc put_page(mw_table_writer *writer, const mw_cells *cells, bool key, mw_err *err)
{
    mw_buf_clear(&writer->raw);
    mw_page_encode(&writer->raw, cells, key);
    mw_rc rc = mw_buf_check(&writer->raw, err);
    if (rc) return rc;
    assert(cells->count == 1 || writer->raw.size <= MW_PAGE_BYTES_MAX);
    mw_slice stored = pack_page(writer);
    mw_block block;
    rc = put_block(writer, stored, &block, err);
    if (rc) return rc;
    mw_page_ref ref = {.checksum = block.checksum,
                       .raw_bytes = (uint32_t)writer->raw.size,
                       .stored_bytes = (uint32_t)stored.size,
                       .rows = cells->count};
    mw_page_ref_put(&ref, &writer->refs);
    writer->page_count++;
    return mw_buf_check(&writer->refs, err);
}

/* Shortest bytes above `before` and not above `key`: enough to tell in which page to look. */
static mw_slice separator(mw_key_kind kind, mw_slice before, mw_slice key)
{
    size_t same = 0;
    if (kind == MW_KEY_INTEGER) return key;
    while (same < before.size && before.data[same] == key.data[same]) same++;
    return mw_slice_of(key.data, same + 1);
}

/* Where the next page of a column begins: its row, and its texts' place in the column's bytes. */
typedef struct page_start {
    uint32_t row;
    size_t byte;
    size_t last_length; /* of the value before it */
} page_start;

/* How many rows from start on make a page. */
static uint32_t page_rows(const mw_table_writer *writer, const column *col, uint32_t start)
{
    uint64_t weight = 0;
    uint32_t row = start;
    for (; row < writer->rows; row++) {
        weight += mw_page_weight(col->types[row], col->slots[row]);
        if (row > start && weight > writer->options.page_bytes) break;
    }
    return row - start;
}

static void pass_rows(const column *col, uint32_t rows, page_start *start)
{
    for (uint32_t i = 0; i < rows; i++, start->row++) {
        if (col->types[start->row] < MW_TEXT) continue;
        start->last_length = (size_t)col->slots[start->row];
        start->byte += start->last_length;
    }
}

static void put_separator(mw_table_writer *writer, const column *col, const page_start *start)
{
    uint8_t number[MW_INTEGER_KEY_BYTES];
    mw_slice key, before = {NULL, 0};
    if (writer->options.schema->key == MW_KEY_INTEGER) {
        mw_key_put_integer(number, (int64_t)col->slots[start->row]);
        key = mw_slice_of(number, sizeof number);
    } else {
        const uint8_t *bytes = col->bytes.data + start->byte;
        key = mw_slice_of(bytes, (size_t)col->slots[start->row]);
        before = mw_slice_of(bytes - start->last_length, start->last_length);
    }
    mw_buf_bytes(&writer->refs, separator(writer->options.schema->key, before, key));
}

static mw_rc put_column(mw_table_writer *writer, const column *col, bool key, mw_err *err)
{
    page_start start = {0, 0, 0};
    while (start.row < writer->rows) {
        uint32_t rows = page_rows(writer, col, start.row);
        const uint8_t *bytes = col->bytes.data ? col->bytes.data + start.byte : NULL;
        mw_cells cells = {col->types + start.row, col->slots + start.row, bytes, rows};
        mw_rc rc = put_page(writer, &cells, key, err);
        if (rc) return rc;
        if (key && start.row > 0) put_separator(writer, col, &start);
        pass_rows(col, rows, &start);
    }
    return mw_buf_check(&writer->refs, err);
}

/* ---- groups -------------------------------------------------------------------------------- */

static bool is_tombstone(const mw_table_writer *writer, uint32_t row)
{
    return writer->group.tombstones && (writer->tombstones.data[row / 8] >> row % 8 & 1);
}

static mw_value value_of(uint8_t type, uint64_t slot, const uint8_t *bytes)
{
    mw_value value = {.type = (mw_type)type};
    if (type == MW_INTEGER) value.integer = (int64_t)slot;
    if (type == MW_REAL) value.real = mw_real_of_bits(slot);
    if (type >= MW_TEXT) value.bytes = mw_slice_of(bytes, (size_t)slot);
    return value;
}

/* mw_value_compare with a short way for the common case. */
static int compare(const mw_value *a, const mw_value *b)
{
    if (a->type == MW_INTEGER && b->type == MW_INTEGER) {
        return a->integer < b->integer ? -1 : a->integer > b->integer;
    }
    return mw_value_compare(a, b);
}

static void put_statistics(mw_table_writer *writer, const column *col)
{
    mw_value least = {.type = MW_NULL}, most = {.type = MW_NULL};
    const uint8_t *bytes = col->bytes.data;
    uint32_t nulls = 0;
    for (uint32_t row = 0; row < writer->rows; row++) {
        mw_value value = value_of(col->types[row], col->slots[row], bytes);
        if (value.type == MW_NULL) {
            if (!is_tombstone(writer, row)) nulls++;
            continue;
        }
        if (value.bytes.size) bytes += value.bytes.size;
        if (least.type == MW_NULL || compare(&value, &least) < 0) least = value;
        if (most.type == MW_NULL || compare(&value, &most) > 0) most = value;
    }
    mw_buf_varint(&writer->statistics, nulls);
    mw_bound_put(&least, &writer->statistics);
    mw_bound_put(&most, &writer->statistics);
}

static mw_rc put_directory(mw_table_writer *writer, mw_err *err)
{
    mw_buf *block = &writer->block;
    bool has_tombstones = writer->group.tombstones > 0;
    mw_buf_clear(block);
    mw_buf_u8(block, has_tombstones ? MW_GROUP_HAS_TOMBSTONES : 0);
    if (has_tombstones) mw_buf_put(block, writer->tombstones.data, (writer->rows + 7) / 8);
    mw_buf_varint(block, writer->page_count);
    mw_buf_put_slice(block, mw_buf_slice(&writer->refs));
    mw_buf_put_slice(block, mw_buf_slice(&writer->statistics));
    mw_rc rc = mw_buf_check(&writer->statistics, err);
    if (rc == MW_OK) rc = mw_buf_check(block, err);
    if (rc == MW_OK) rc = put_block(writer, mw_buf_slice(block), &writer->group.directory, err);
    return rc;
}

/* Empties what belongs to one group; one huge value shall not be paid for until the file is
** done. */
static void clear_group(mw_table_writer *writer)
{
    mw_buf *work[] = {&writer->raw, &writer->packed, &writer->block, &writer->first_key};
    for (uint32_t c = 0; c < column_total(writer); c++) {
        mw_buf *bytes = &writer->columns[c].bytes;
        mw_buf_clear(bytes);
        if (bytes->capacity > SPARE_BYTES) mw_buf_free(bytes);
    }
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        mw_buf_clear(work[i]);
        if (work[i]->capacity > SPARE_BYTES) mw_buf_free(work[i]);
    }
    mw_buf_clear(&writer->refs);
    mw_buf_clear(&writer->statistics);
    mw_buf_clear(&writer->tombstones);
    writer->page_count = 0;
    writer->rows = 0;
    writer->weight = 0;
    memset(&writer->group, 0, sizeof writer->group);
}

static mw_rc put_group(mw_table_writer *writer, mw_err *err)
{
    if (writer->rows == 0) return MW_OK;
    mw_group *group = &writer->group;
    group->offset = writer->offset;
    group->rows = writer->rows;
    for (uint32_t c = 0; c < column_total(writer); c++) {
        mw_rc rc = put_column(writer, &writer->columns[c], c == 0, err);
        if (rc) return rc;
        if (c > 0) put_statistics(writer, &writer->columns[c]);
    }
    mw_rc rc = put_directory(writer, err);
    if (rc) return rc;
    group->first = mw_buf_slice(&writer->first_key);
    group->last = mw_buf_slice(&writer->last_key);
    mw_group_put(group, &writer->index);
    writer->frame.props.tombstones += group->tombstones;
    writer->frame.props.rows += group->rows - group->tombstones;
    writer->frame.group_count++;
    clear_group(writer);
    return mw_buf_check(&writer->index, err);
}

/* ---- adding -------------------------------------------------------------------------------- */

/* Room for one more row in every column. */
static mw_rc make_room(mw_table_writer *writer, mw_err *err)
{
    if (writer->rows < writer->row_capacity) return MW_OK;
    uint32_t capacity = writer->row_capacity ? writer->row_capacity * 2 : ROWS_AT_FIRST;
    capacity = (uint32_t)mw_min(capacity, writer->options.group_rows);
    for (uint32_t c = 0; c < column_total(writer); c++) {
        column *col = &writer->columns[c];
        uint8_t *types = mw_resize(writer->env, col->types, capacity);
        if (types) col->types = types;
        uint64_t *slots = mw_resize(writer->env, col->slots, capacity * sizeof *slots);
        if (slots) col->slots = slots;
        if (!types || !slots) return mw_fail(err, MW_NOMEM, "out of memory for %s", writer->name);
    }
    writer->row_capacity = capacity;
    return MW_OK;
}

static mw_rc gather(mw_table_writer *writer, column *col, const mw_value *value, mw_err *err)
{
    uint64_t slot = 0;
    uint32_t row = writer->rows;
    switch (value->type) {
    case MW_NULL: break;
    case MW_INTEGER: slot = (uint64_t)value->integer; break;
    case MW_REAL: slot = mw_bits_of_real(value->real); break;
    case MW_TEXT:
    case MW_BLOB:
        slot = value->bytes.size;
        if (slot > MW_PAGE_VALUE_BYTES_MAX) {
            return mw_fail(err, MW_TOOBIG, "a value of %llu bytes, expected at most %d",
                           (unsigned long long)slot, MW_PAGE_VALUE_BYTES_MAX);
        }
        mw_buf_put_slice(&col->bytes, value->bytes);
        break;
    }
    col->types[row] = (uint8_t)value->type;
    col->slots[row] = slot;
    writer->weight += mw_page_weight((uint8_t)value->type, slot);
    return mw_buf_check(&col->bytes, err);
}

static mw_rc gather_key(mw_table_writer *writer, mw_slice key, mw_err *err)
{
    bool text = writer->options.schema->key == MW_KEY_TEXT;
    mw_value value = {.type = text ? MW_TEXT : MW_BLOB, .bytes = key};
    if (writer->options.schema->key == MW_KEY_INTEGER) {
        value.type = MW_INTEGER;
        value.integer = mw_key_get_integer(key.data);
    }
    uint64_t hash = mw_hash(key.data, key.size, writer->frame.seed);
    mw_buf_put(&writer->hashes, &hash, sizeof hash);
    mw_buf_clear(&writer->last_key);
    mw_buf_put_slice(&writer->last_key, key);
    if (writer->rows == 0) mw_buf_put_slice(&writer->first_key, key);
    if (writer->hashes.size == sizeof hash) mw_buf_put_slice(&writer->file_first_key, key);
    mw_rc rc = mw_buf_check(&writer->hashes, err);
    if (rc == MW_OK) rc = mw_buf_check(&writer->file_first_key, err);
    if (rc == MW_OK) rc = mw_buf_check(&writer->last_key, err);
    if (rc == MW_OK) rc = mw_buf_check(&writer->first_key, err);
    return rc ? rc : gather(writer, &writer->columns[0], &value, err);
}

static mw_rc gather_tombstone(mw_table_writer *writer, bool tombstone, mw_err *err)
{
    uint32_t row = writer->rows;
    if (row % 8 == 0) mw_buf_u8(&writer->tombstones, 0);
    mw_rc rc = mw_buf_check(&writer->tombstones, err);
    if (rc || !tombstone) return rc;
    writer->tombstones.data[row / 8] |= (uint8_t)(1u << row % 8);
    writer->group.tombstones++;
    return MW_OK;
}

static mw_rc gather_row(mw_table_writer *writer, mw_iter *iter, mw_err *err)
{
    mw_rc rc = make_room(writer, err);
    if (rc == MW_OK) rc = gather_tombstone(writer, iter->tombstone, err);
    if (rc == MW_OK) rc = gather_key(writer, iter->key, err);
    for (uint32_t c = 1; rc == MW_OK && c < column_total(writer); c++) {
        mw_value value = {.type = MW_NULL};
        if (!iter->tombstone) rc = iter->ops->column(iter, c - 1, &value, err);
        if (rc == MW_OK) rc = gather(writer, &writer->columns[c], &value, err);
    }
    if (rc) return rc;
    writer->rows++;
    if (writer->rows < writer->options.group_rows && writer->weight < MW_GROUP_BYTES) return MW_OK;
    return put_group(writer, err);
}

static bool key_is_next(const mw_table_writer *writer, mw_slice key)
{
    bool integer = writer->options.schema->key == MW_KEY_INTEGER;
    bool first = writer->hashes.size == 0;
    if (integer && key.size != MW_INTEGER_KEY_BYTES) return false;
    return first || mw_slice_compare(mw_buf_slice(&writer->last_key), key) < 0;
}

mw_rc mw_table_writer_add(mw_table_writer *writer, mw_iter *iter, mw_err *err)
{
    assert(iter->valid);
    if (writer->broken) return mw_fail(err, writer->broken, "%s failed before", writer->name);
    if (!key_is_next(writer, iter->key)) {
        return mw_fail(err, MW_MISUSE, "keys of %s must ascend", writer->name);
    }
    assert(iter->sequence >= writer->options.sequence_min);
    assert(iter->sequence <= writer->options.sequence_max);
    writer->broken = gather_row(writer, iter, err);
    return writer->broken;
}

/* ---- finishing ----------------------------------------------------------------------------- */

static mw_rc put_filter(mw_table_writer *writer, mw_err *err)
{
    uint64_t ids = writer->hashes.size / sizeof(uint64_t);
    uint64_t bytes = mw_filter_bytes(ids);
    uint8_t *filter = bytes <= SIZE_MAX ? mw_alloc_zero(writer->env, (size_t)bytes) : NULL;
    if (!filter) return mw_fail(err, MW_NOMEM, "out of memory for the filter of %s", writer->name);
    for (uint64_t i = 0; i < ids; i++) {
        uint64_t hash;
        memcpy(&hash, writer->hashes.data + i * sizeof hash, sizeof hash);
        mw_filter_add(filter, bytes, hash);
    }
    mw_slice content = mw_slice_of(filter, (size_t)bytes);
    mw_rc rc = put_block(writer, content, &writer->frame.filter, err);
    mw_free(writer->env, filter);
    return rc;
}

static mw_rc put_end(mw_table_writer *writer, mw_err *err)
{
    uint8_t footer[MW_TABLE_FOOTER_BYTES];
    mw_table_frame *frame = &writer->frame;
    bool empty = frame->group_count == 0;
    frame->props.sequence_min = empty ? 0 : writer->options.sequence_min;
    frame->props.sequence_max = empty ? 0 : writer->options.sequence_max;
    mw_buf_clear(&writer->block);
    mw_table_properties_put(frame, writer->options.schema, &writer->block);
    mw_rc rc = mw_buf_check(&writer->block, err);
    if (rc == MW_OK) rc = put_block(writer, mw_buf_slice(&writer->block), &frame->properties, err);
    if (rc) return rc;
    frame->props.bytes = writer->offset + sizeof footer;
    mw_table_footer_put(frame, footer);
    mw_buf_put(&writer->out, footer, sizeof footer);
    writer->offset += sizeof footer;
    return flush_out(writer, err);
}

static mw_rc sync_file(mw_table_writer *writer, mw_err *err)
{
    const mw_env *env = writer->env;
    int sys = env->file_sync(env->ctx, writer->file);
    if (sys) return mw_fail_sys(err, sys, "sync", writer->name);
    writer->open = false;
    sys = env->file_close(env->ctx, writer->file);
    /* An interrupted close has closed; the content was synced before. */
    if (sys && sys != EINTR) return mw_fail_sys(err, sys, "close", writer->name);
    sys = env->dir_sync(env->ctx, writer->dir);
    return sys ? mw_fail_sys(err, sys, "sync of the folder", writer->name) : MW_OK;
}

/* The file's keys, copied for the caller. */
static mw_rc give_range(const mw_table_writer *writer, mw_key_range *range, mw_err *err)
{
    mw_slice first = mw_buf_slice(&writer->file_first_key);
    mw_slice last = mw_buf_slice(&writer->last_key);
    uint8_t *memory = mw_alloc(writer->env, first.size + last.size);
    if (!memory) return mw_fail(err, MW_NOMEM, "out of memory for %s", writer->name);
    if (first.size) memcpy(memory, first.data, first.size);
    if (last.size) memcpy(memory + first.size, last.data, last.size);
    range->min = mw_slice_of(memory, first.size);
    range->max = mw_slice_of(memory + first.size, last.size);
    return MW_OK;
}

void mw_key_range_free(const mw_env *env, mw_key_range *range)
{
    mw_free(env, (void *)(uintptr_t)range->min.data);
    memset(range, 0, sizeof *range);
}

mw_rc mw_table_writer_finish(mw_table_writer *writer, mw_table_props *props, mw_key_range *range,
                             mw_err *err)
{
    mw_rc rc = writer->broken;
    mw_key_range made = {{NULL, 0}, {NULL, 0}};
    if (rc) (void)mw_fail(err, rc, "%s failed before", writer->name);
    if (rc == MW_OK) rc = put_group(writer, err);
    if (rc == MW_OK) rc = put_filter(writer, err);
    mw_slice index = mw_buf_slice(&writer->index);
    if (rc == MW_OK) rc = put_block(writer, index, &writer->frame.index, err);
    if (rc == MW_OK && range) rc = give_range(writer, &made, err);
    if (rc == MW_OK) rc = put_end(writer, err);
    if (rc == MW_OK) rc = sync_file(writer, err);
    if (rc) {
        mw_key_range_free(writer->env, &made);
        mw_table_writer_abandon(writer);
        return rc;
    }
    *props = writer->frame.props;
    if (range) *range = made;
    free_writer(writer);
    return MW_OK;
}
