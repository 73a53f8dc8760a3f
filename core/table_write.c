/* table_write.c: makes a table file from versions in key order.
**
**   add -> columns of the group at hand -> (group full) pages + directory -> out -> file
**                                 |        `- index entry, one hash a row for the filter
**                                 `- held back, until there are enough for training dictionaries
**
** Memory: one group, or with dictionaries at first the groups of a sample, the index, and 8 bytes a
** row for the filter, whose size is known only at the end. The file has its name from the start,
** but nothing refers to it before a manifest does, so a crash in the middle leaves a file that
** nobody reads. Content and name are durable when finish returns. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "filter.h"
#include "hash.h"
#include "table_gather.h"
#include "table_layout.h"
#include "table_train.h"

enum {
    WRITE_BYTES = 1 << 18,       /* what is given to the file at once, at least */
    SYNC_BYTES = 16 << 20,       /* synced in between, so that the last sync is short */
    SPARE_BYTES = 4 << 20,       /* a work buffer that has grown past this is freed */
    CELL_BYTES = 1 + 8,          /* what a value takes while it is held, beside its bytes */
    ALIGNED_GAIN = 32,           /* a page that is slower to read saves one in so many bytes */
};

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
    mw_page_encoder encoder;

    mw_gathered *gathered; /* at hand */
    mw_gathered *held;     /* before it, while a sample is gathered: oldest first */
    mw_gathered **held_end;
    uint64_t held_bytes;         /* 0 when nothing is held */
    bool holds;
    mw_trained trained[MW_TABLE_DICTIONARIES_MAX]; /* as frame.dictionaries */

    mw_buf file_first_key;
    mw_buf last_key;
    mw_buf raw;        /* page before compression, in either form */
    mw_buf raw_aligned;
    mw_buf packed;
    mw_buf packed_aligned;
    mw_buf refs;       /* directory: pages      */
    uint32_t page_count;
    uint64_t copied_at; /* offset of the group that is copied */
    mw_buf statistics; /* directory: statistics */
    mw_buf block;      /* directory as a whole, properties */
    mw_buf index;
    mw_buf hashes;
    mw_buf out;        /* not given to the file yet */
    uint64_t offset;   /* of the next byte, what is in out counted */
    uint64_t unsynced; /* bytes given to the file since */
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

enum { BUFFERS = 12 };

static void list_buffers(mw_table_writer *writer, mw_buf *bufs[BUFFERS])
{
    mw_buf *all[BUFFERS] = {&writer->file_first_key, &writer->last_key,       &writer->raw,
                            &writer->raw_aligned,    &writer->packed,         &writer->packed_aligned,
                            &writer->refs,           &writer->statistics,     &writer->block,
                            &writer->index,          &writer->hashes,         &writer->out};
    memcpy(bufs, all, sizeof all);
}

static void free_writer(mw_table_writer *writer)
{
    mw_buf *bufs[BUFFERS];
    list_buffers(writer, bufs);
    for (size_t i = 0; i < BUFFERS; i++) mw_buf_free(bufs[i]);
    mw_page_encoder_free(&writer->encoder);
    while (writer->held) {
        mw_gathered *group = writer->held;
        writer->held = group->next;
        mw_gathered_destroy(group);
    }
    mw_gathered_destroy(writer->gathered);
    for (uint32_t i = 0; i < writer->frame.dictionary_count; i++) {
        mw_trained_free(&writer->trained[i]);
    }
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
    mw_buf *bufs[BUFFERS];
    list_buffers(writer, bufs);
    for (size_t i = 0; i < BUFFERS; i++) mw_buf_init(bufs[i], writer->env);
    mw_page_encoder_init(&writer->encoder, writer->env);
    writer->held_end = &writer->held;
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
    made->gathered = mw_gathered_create(env, column_total(made));
    bool ready = made->gathered != NULL;
    if (ready && options->compression > 0) ready = (made->codec = mw_codec_create(env)) != NULL;
    made->holds = options->sample_bytes > 0 && made->codec;
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
    const mw_env *env = writer->env;
    mw_rc rc = mw_env_write(env, writer->file, writer->name, bytes.data, bytes.size,
                            writer->offset - bytes.size, err);
    if (rc != MW_OK) return rc;
    writer->unsynced += bytes.size;
    if (writer->unsynced < SYNC_BYTES) return MW_OK;
    writer->unsynced = 0;
    int sys = env->file_sync(env->ctx, writer->file);
    return sys ? mw_fail_sys(err, sys, "sync", writer->name) : MW_OK;
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

/* A column while its pages are written. */
typedef struct page_maker {
    const mw_codec_dictionary *dictionary; /* NULL: none */
    uint32_t page_bytes;
    bool key;
} page_maker;

/* The encoded page in raw, compressed if that helps. */
static mw_slice pack_page(mw_table_writer *writer, const page_maker *maker, const mw_buf *from,
                          mw_buf *packed)
{
    mw_slice raw = mw_buf_slice(from);
    size_t size;
    if (!writer->codec) return raw;
    mw_buf_clear(packed);
    if (!mw_buf_reserve(packed, raw.size)) return raw;
    if (maker->dictionary) {
        size = mw_codec_compress_with(writer->codec, maker->dictionary, raw, packed->data,
                                      raw.size);
    } else {
        size = mw_codec_compress(writer->codec, raw, packed->data, raw.size,
                                 writer->options.compression);
    }
    return size ? mw_slice_of(packed->data, size) : raw;
}

/* The page of these cells as it goes to the file, in the form that is smaller. */
static mw_rc make_page(mw_table_writer *writer, const page_maker *maker, const mw_cells *cells,
                       mw_slice *stored, mw_err *err)
{
    mw_buf *raw = &writer->raw, *aligned = &writer->raw_aligned;
    mw_buf_clear(raw);
    bool other = mw_page_encode(&writer->encoder, raw, cells, maker->key, MW_FORM_TIGHT);
    mw_rc rc = mw_buf_check(raw, err);
    if (rc) return rc;
    *stored = pack_page(writer, maker, raw, &writer->packed);
    if (!other || !writer->codec) return MW_OK;
    mw_buf_clear(aligned);
    mw_page_encode(&writer->encoder, aligned, cells, maker->key, MW_FORM_ALIGNED);
    rc = mw_buf_check(aligned, err);
    if (rc) return rc;
    mw_slice other_stored = pack_page(writer, maker, aligned, &writer->packed_aligned);
    if (other_stored.size >= stored->size - stored->size / ALIGNED_GAIN) return MW_OK;
    *stored = other_stored;
    mw_buf swap = *raw;
    *raw = *aligned;
    *aligned = swap;
    return MW_OK;
}

static mw_rc put_page(mw_table_writer *writer, const page_maker *maker, const mw_cells *cells,
                      mw_err *err)
{
    mw_slice stored;
    mw_block block;
    mw_rc rc = make_page(writer, maker, cells, &stored, err);
    if (rc) return rc;
    assert(cells->count == 1 || writer->raw.size <= MW_PAGE_BYTES_MAX);
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

/* start: of the page, whose separator this is. */
static void put_separator(mw_table_writer *writer, const mw_column *col, const mw_page_start *start)
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

static page_maker maker_of(const mw_table_writer *writer, uint32_t c)
{
    page_maker maker = {NULL, writer->options.page_bytes, c == 0};
    for (uint32_t i = 0; i < writer->frame.dictionary_count; i++) {
        if (writer->frame.dictionaries[i].column != c) continue;
        maker.dictionary = writer->trained[i].dictionary;
        maker.page_bytes = mw_train_page_bytes(maker.page_bytes);
    }
    return maker;
}

static mw_rc put_column(mw_table_writer *writer, const mw_gathered *group, uint32_t c, mw_err *err)
{
    page_maker maker = maker_of(writer, c);
    mw_page_start start = {0, 0, 0};
    while (start.row < group->rows) {
        mw_page_start begin = start;
        mw_cells cells = mw_gathered_page(group, c, &start, maker.page_bytes);
        mw_rc rc = put_page(writer, &maker, &cells, err);
        if (rc) return rc;
        if (c == 0 && begin.row > 0) put_separator(writer, &group->columns[0], &begin);
    }
    return mw_buf_check(&writer->refs, err);
}

/* ---- groups -------------------------------------------------------------------------------- */

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

static void put_statistics(mw_table_writer *writer, const mw_gathered *group, uint32_t c)
{
    const mw_column *col = &group->columns[c];
    mw_value least = {.type = MW_NULL}, most = {.type = MW_NULL};
    const uint8_t *bytes = col->bytes.data;
    uint32_t nulls = 0;
    for (uint32_t row = 0; row < group->rows; row++) {
        mw_value value = value_of(col->types[row], col->slots[row], bytes);
        if (value.type == MW_NULL) {
            if (!mw_gathered_tombstone(group, row)) nulls++;
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

static mw_rc put_directory(mw_table_writer *writer, const mw_gathered *gathered, mw_block *place,
                           mw_err *err)
{
    mw_buf *block = &writer->block;
    bool has_tombstones = gathered->tombstone_count > 0;
    mw_buf_clear(block);
    mw_buf_u8(block, has_tombstones ? MW_GROUP_HAS_TOMBSTONES : 0);
    if (has_tombstones) mw_buf_put_slice(block, mw_buf_slice(&gathered->tombstones));
    mw_buf_varint(block, writer->page_count);
    mw_buf_put_slice(block, mw_buf_slice(&writer->refs));
    mw_buf_put_slice(block, mw_buf_slice(&writer->statistics));
    mw_rc rc = mw_buf_check(&writer->statistics, err);
    if (rc == MW_OK) rc = mw_buf_check(block, err);
    if (rc == MW_OK) rc = put_block(writer, mw_buf_slice(block), place, err);
    return rc;
}

/* Empties what belongs to one group; one huge value shall not be paid for until the file is
** done. */
static void clear_work(mw_table_writer *writer)
{
    mw_buf *work[] = {&writer->raw, &writer->raw_aligned, &writer->packed, &writer->packed_aligned,
                      &writer->block};
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        mw_buf_clear(work[i]);
        if (work[i]->capacity > SPARE_BYTES) mw_buf_free(work[i]);
    }
    mw_buf_clear(&writer->refs);
    mw_buf_clear(&writer->statistics);
    writer->page_count = 0;
}

/* Behind its pages and statistics. */
static mw_rc end_group(mw_table_writer *writer, const mw_gathered *gathered, uint64_t offset,
                       mw_err *err)
{
    mw_group group = {.rows = gathered->rows, .tombstones = gathered->tombstone_count,
                      .offset = offset, .first = mw_buf_slice(&gathered->first_key),
                      .last = mw_buf_slice(&gathered->last_key)};
    mw_rc rc = put_directory(writer, gathered, &group.directory, err);
    if (rc) return rc;
    mw_group_put(&group, &writer->index);
    writer->frame.props.tombstones += group.tombstones;
    writer->frame.props.rows += group.rows - group.tombstones;
    writer->frame.group_count++;
    clear_work(writer);
    return mw_buf_check(&writer->index, err);
}

static mw_rc put_group(mw_table_writer *writer, const mw_gathered *gathered, mw_err *err)
{
    uint64_t offset = writer->offset;
    for (uint32_t c = 0; c < column_total(writer); c++) {
        mw_rc rc = put_column(writer, gathered, c, err);
        if (rc) return rc;
        if (c > 0) put_statistics(writer, gathered, c);
    }
    return end_group(writer, gathered, offset, err);
}

/* ---- dictionaries -------------------------------------------------------------------------- */

/* Trains from the groups that are held. */
static mw_rc train(mw_table_writer *writer, mw_err *err)
{
    mw_table_frame *frame = &writer->frame;
    mw_train_options how = {writer->codec, &writer->encoder, writer->options.page_bytes,
                            writer->options.compression};
    for (uint32_t c = 1; c < column_total(writer); c++) {
        if (frame->dictionary_count == MW_TABLE_DICTIONARIES_MAX) break;
        mw_trained *trained = &writer->trained[frame->dictionary_count];
        mw_rc rc = mw_train(writer->held, c, &how, trained, err);
        if (rc) return rc;
        if (trained->dictionary) frame->dictionaries[frame->dictionary_count++].column = c;
    }
    return MW_OK;
}

/* Decides about dictionaries and writes the groups that were held back for it. */
static mw_rc release_held(mw_table_writer *writer, mw_err *err)
{
    if (!writer->holds) return MW_OK;
    writer->holds = false;
    writer->held_bytes = 0;
    mw_rc rc = writer->held ? train(writer, err) : MW_OK;
    while (rc == MW_OK && writer->held) {
        mw_gathered *group = writer->held;
        rc = put_group(writer, group, err);
        writer->held = group->next;
        mw_gathered_destroy(group);
    }
    return rc;
}

static mw_rc hold_group(mw_table_writer *writer, mw_err *err)
{
    mw_gathered *fresh = mw_gathered_create(writer->env, column_total(writer));
    if (!fresh) return mw_fail(err, MW_NOMEM, "out of memory for %s", writer->name);
    mw_gathered *full = writer->gathered;
    for (uint32_t c = 0; c < full->column_total; c++) {
        writer->held_bytes += full->columns[c].bytes.size + (uint64_t)full->rows * CELL_BYTES;
    }
    *writer->held_end = full;
    writer->held_end = &full->next;
    writer->gathered = fresh;
    return writer->held_bytes < writer->options.sample_bytes ? MW_OK : release_held(writer, err);
}

static mw_rc note_last_key(mw_table_writer *writer, mw_err *err)
{
    mw_buf *last = &writer->gathered->last_key;
    mw_buf_put_slice(last, mw_buf_slice(&writer->last_key));
    return mw_buf_check(last, err);
}

/* The group at hand ends. */
static mw_rc close_group(mw_table_writer *writer, mw_err *err)
{
    mw_gathered *group = writer->gathered;
    if (group->rows == 0) return MW_OK;
    mw_rc rc = note_last_key(writer, err);
    if (rc) return rc;
    if (writer->holds) return hold_group(writer, err);
    rc = put_group(writer, group, err);
    mw_gathered_clear(group);
    return rc;
}

static mw_rc put_dictionaries(mw_table_writer *writer, mw_err *err)
{
    for (uint32_t i = 0; i < writer->frame.dictionary_count; i++) {
        const mw_trained *trained = &writer->trained[i];
        mw_table_dictionary *dictionary = &writer->frame.dictionaries[i];
        bool packed = trained->stored.size > 0;
        mw_slice stored = mw_buf_slice(packed ? &trained->stored : &trained->raw);
        dictionary->raw_bytes = (uint32_t)trained->raw.size;
        mw_rc rc = put_block(writer, stored, &dictionary->block, err);
        if (rc) return rc;
    }
    return MW_OK;
}

/* ---- adding -------------------------------------------------------------------------------- */

/* For filter, index and range. Requires that the group at hand does not count it yet. */
static mw_rc note_key(mw_table_writer *writer, mw_slice key, mw_err *err)
{
    mw_gathered *group = writer->gathered;
    uint64_t hash = mw_hash(key.data, key.size, writer->frame.seed);
    mw_buf_put(&writer->hashes, &hash, sizeof hash);
    mw_buf_clear(&writer->last_key);
    mw_buf_put_slice(&writer->last_key, key);
    if (group->rows == 0) mw_buf_put_slice(&group->first_key, key);
    if (writer->hashes.size == sizeof hash) mw_buf_put_slice(&writer->file_first_key, key);
    mw_rc rc = mw_buf_check(&writer->hashes, err);
    if (rc == MW_OK) rc = mw_buf_check(&writer->file_first_key, err);
    if (rc == MW_OK) rc = mw_buf_check(&writer->last_key, err);
    if (rc == MW_OK) rc = mw_buf_check(&group->first_key, err);
    return rc;
}

static mw_rc gather_key(mw_table_writer *writer, mw_slice key, mw_err *err)
{
    bool text = writer->options.schema->key == MW_KEY_TEXT;
    mw_value value = {.type = text ? MW_TEXT : MW_BLOB, .bytes = key};
    if (writer->options.schema->key == MW_KEY_INTEGER) {
        value.type = MW_INTEGER;
        value.integer = mw_key_get_integer(key.data);
    }
    mw_rc rc = note_key(writer, key, err);
    return rc ? rc : mw_gathered_put(writer->gathered, 0, &value, err);
}

static mw_rc gather_row(mw_table_writer *writer, mw_iter *iter, mw_err *err)
{
    mw_gathered *group = writer->gathered;
    const uint32_t limit = writer->options.group_rows;
    mw_rc rc = mw_gathered_start_row(group, iter->tombstone, limit, err);
    if (rc == MW_OK) rc = gather_key(writer, iter->key, err);
    for (uint32_t c = 1; rc == MW_OK && c < column_total(writer); c++) {
        mw_value value = {.type = MW_NULL};
        if (!iter->tombstone) rc = iter->ops->column(iter, c - 1, &value, err);
        if (rc == MW_OK) rc = mw_gathered_put(group, c, &value, err);
    }
    if (rc) return rc;
    group->rows++;
    if (group->rows < limit && group->weight < MW_GROUP_BYTES) return MW_OK;
    return close_group(writer, err);
}

static bool key_is_next(const mw_table_writer *writer, mw_slice key)
{
    bool integer = writer->options.schema->key == MW_KEY_INTEGER;
    bool first = writer->hashes.size == 0;
    if (integer && key.size != MW_INTEGER_KEY_BYTES) return false;
    return first || mw_slice_compare(mw_buf_slice(&writer->last_key), key) < 0;
}

/* May the key be added? */
static mw_rc expect_key(const mw_table_writer *writer, mw_slice key, mw_err *err)
{
    if (writer->broken) return mw_fail(err, writer->broken, "%s failed before", writer->name);
    if (key_is_next(writer, key)) return MW_OK;
    return mw_fail(err, MW_MISUSE, "keys of %s must ascend", writer->name);
}

mw_rc mw_table_writer_add(mw_table_writer *writer, mw_iter *iter, mw_err *err)
{
    assert(iter->valid);
    mw_rc rc = expect_key(writer, iter->key, err);
    if (rc != MW_OK) return rc;
    assert(iter->sequence == 0 || (iter->sequence >= writer->options.sequence_min &&
                                   iter->sequence <= writer->options.sequence_max));
    writer->broken = gather_row(writer, iter, err);
    return writer->broken;
}

uint32_t mw_table_writer_rows(const mw_table_writer *writer) { return writer->gathered->rows; }

mw_rc mw_table_writer_end_group(mw_table_writer *writer, mw_err *err)
{
    if (writer->broken) return mw_fail(err, writer->broken, "%s failed before", writer->name);
    writer->broken = close_group(writer, err);
    return writer->broken;
}

/* ---- groups of other files ----------------------------------------------------------------- */

static mw_rc copy_page(mw_table_writer *writer, const mw_stored_page *page, mw_err *err)
{
    mw_block block;
    mw_rc rc = release_held(writer, err); /* they stand before it */
    if (rc) return rc;
    if (writer->page_count == 0) writer->copied_at = writer->offset;
    rc = put_block(writer, page->bytes, &block, err);
    if (rc) return rc;
    mw_page_ref ref = {.checksum = block.checksum,
                       .raw_bytes = page->raw_bytes,
                       .stored_bytes = (uint32_t)page->bytes.size,
                       .rows = page->rows};
    mw_page_ref_put(&ref, &writer->refs);
    if (page->divides) mw_buf_bytes(&writer->refs, page->separator);
    writer->page_count++;
    return mw_buf_check(&writer->refs, err);
}

mw_rc mw_table_writer_copy_page(mw_table_writer *writer, const mw_stored_page *page, mw_err *err)
{
    assert(writer->gathered->rows == 0);
    if (writer->broken) return mw_fail(err, writer->broken, "%s failed before", writer->name);
    writer->broken = copy_page(writer, page, err);
    return writer->broken;
}

mw_rc mw_table_writer_copy_key(mw_table_writer *writer, mw_slice key, mw_err *err)
{
    assert(writer->page_count > 0);
    mw_rc rc = expect_key(writer, key, err);
    if (rc == MW_OK) rc = note_key(writer, key, err);
    writer->gathered->rows += rc == MW_OK;
    writer->broken = rc; /* half a group cannot be ended */
    return rc;
}

mw_rc mw_table_writer_copy_end(mw_table_writer *writer, mw_slice statistics, mw_err *err)
{
    mw_gathered *group = writer->gathered; /* of which only the keys' range and number are used */
    assert(group->rows > 0);
    if (writer->broken) return mw_fail(err, writer->broken, "%s failed before", writer->name);
    mw_buf_put_slice(&writer->statistics, statistics);
    mw_rc rc = note_last_key(writer, err);
    if (rc == MW_OK) rc = end_group(writer, group, writer->copied_at, err);
    mw_gathered_clear(group);
    writer->broken = rc;
    return rc;
}

uint64_t mw_table_writer_bytes(const mw_table_writer *writer)
{
    return writer->offset + writer->held_bytes;
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
    if (rc == MW_OK) rc = close_group(writer, err);
    if (rc == MW_OK) rc = release_held(writer, err);
    if (rc == MW_OK) rc = put_dictionaries(writer, err);
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
