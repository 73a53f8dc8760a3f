/* log.c: the write-ahead log: segments, and the records in them.
**
** A segment is a file that one epoch appends to:
**
**     [header 96] [record] [record] ... [zeros: allocated, not written yet]
**     record = [checksum][previous][position][epoch][durable-through][size, kind, part][payload]
**
** An entry (one commit) is a chain of records with the same position; the first carries the mark
** FIRST, the last the mark LAST.
**
** Validity rule. A record counts when its checksum, seeded with store, epoch and number of the
** segment, is right *and* its `previous` is the checksum of the record before it (of the header,
** for the first one) *and* its position follows. An entry counts when all records from FIRST to
** LAST do. So:
**   - a record of another file, or of an earlier life of the same bytes, never counts: other seed;
**   - a record behind a lost one never counts, even when it is whole: its `previous` names the lost
**     one;
**   - half an entry never counts.
**
** Where the log ends. Reading stops at the first thing that does not count. Whether that is a torn
** tail (what a crash may leave: cut it) or damage (acknowledged bytes have changed: refuse) is not
** decided by whether something parses behind it: a torn group may leave good records after a bad
** one. Each record says which position its writer knew to be durable. A missing position at or
** below the durable-through of any later record of the segment is damage; above all of them it is a
** torn tail. Since a segment is synced to its end before a record goes into the next one, a record
** in a later segment proves the same for everything before it.
**
** A crash in the middle of a write leaves any subset of its sectors: the checksum finds that. A
** crash in the middle of creating a segment leaves no name or half a header, and nothing behind it:
** no record can have been acknowledged from it, and the reader says "not whole".
**
** Why not cut the bad tail off and write over it: what was read back may live in the page cache
** only. The successor writes into a segment of its own instead (epoch.c). */
#include "log.h"

#include "hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[8] = {'m', 'w', 'a', 'l', 'l', 'o', 'g', '\n'};

enum {
    LOG_FORMAT_VERSION = 3,
    LOG_FORMAT_OLDEST = 2, /* without prepares and decisions */

    HEADER_MAGIC = 0,
    HEADER_VERSION = 8,
    HEADER_ZERO = 12,
    HEADER_STORE = 16,
    HEADER_EPOCH = 32,
    HEADER_NUMBER = 40,
    HEADER_GENERATION = 48,
    HEADER_FIRST_POSITION = 56,
    HEADER_GENERATION_START = 64,
    HEADER_ZEROS = 72,
    HEADER_CHECKSUM = 88,

    RECORD_CHECKSUM = 0,
    RECORD_PREVIOUS = 8,
    RECORD_POSITION = 16,
    RECORD_EPOCH = 24,
    RECORD_DURABLE_THROUGH = 32,
    RECORD_BYTES = 40,
    RECORD_KIND = 44,
    RECORD_PART = 45,
    RECORD_ZERO = 46,

    PART_FIRST = 1,
    PART_LAST = 2,

    WINDOW_BYTES_MIN =
        16 << 10, /* a reader's window grows with what it reads, up to WINDOW_BYTES */
    WINDOW_BYTES = 1 << 20,
    STAGE_BYTES = 512 << 10,    /* records on their way; what is larger goes in several writes */
    GROW_BYTES = 256 << 10,     /* small entries: a step of room ahead  */
    GROW_BYTES_LARGE = 4 << 20, /* for those that are a large part of it */
};
static_assert(HEADER_CHECKSUM + 8 == MW_LOG_HEADER_BYTES, "the checksum closes the header");
static_assert(RECORD_ZERO + 2 == MW_LOG_RECORD_HEADER_BYTES, "the payload follows");

void mw_log_name(uint64_t epoch, uint64_t number, char name[MW_LOG_NAME_BYTES])
{
    snprintf(name, MW_LOG_NAME_BYTES, "wal-%016" PRIx64 "-%016" PRIx64, epoch, number);
}

bool mw_log_parse_name(const char *name, uint64_t *epoch, uint64_t *number)
{
    return strlen(name) == 37 && memcmp(name, "wal-", 4) == 0 && name[20] == '-' &&
           mw_get_hex(name + 4, epoch) && mw_get_hex(name + 21, number);
}

static uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~(uint64_t)7; }

uint64_t mw_log_entry_bytes(uint64_t payload_bytes)
{
    uint64_t records = (payload_bytes + MW_LOG_RECORD_BYTES_MAX - 1) / MW_LOG_RECORD_BYTES_MAX;
    if (records == 0) records = 1; /* an empty payload is a record, too */
    return records * MW_LOG_RECORD_HEADER_BYTES + padded(payload_bytes);
}

/* ---- header ---------------------------------------------------------------------------------- */

static_assert(STAGE_BYTES >= MW_LOG_RECORD_BYTES_MAX + MW_LOG_RECORD_HEADER_BYTES, "a record fits");

static uint64_t header_seed(const mw_log_header *header)
{
    return mw_hash_seed(&header->store, header->epoch, header->number);
}

static void encode_header(const mw_log_header *header, uint8_t to[MW_LOG_HEADER_BYTES])
{
    memset(to, 0, MW_LOG_HEADER_BYTES);
    memcpy(to + HEADER_MAGIC, magic, sizeof magic);
    mw_put_u32(to + HEADER_VERSION, LOG_FORMAT_VERSION);
    memcpy(to + HEADER_STORE, header->store.bytes, sizeof header->store.bytes);
    mw_put_u64(to + HEADER_EPOCH, header->epoch);
    mw_put_u64(to + HEADER_NUMBER, header->number);
    mw_put_u64(to + HEADER_GENERATION, header->generation);
    mw_put_u64(to + HEADER_FIRST_POSITION, header->first_position);
    mw_put_u64(to + HEADER_GENERATION_START, header->generation_start);
    mw_put_u64(to + HEADER_CHECKSUM, mw_hash(to, HEADER_CHECKSUM, header_seed(header)));
}

/* Reads what a header says. The caller has seen that its checksum is right. */
static mw_rc decode_header(const uint8_t *from, const char *name, mw_log_header *header,
                           mw_err *err)
{
    uint32_t version = mw_get_u32(from + HEADER_VERSION);
    if (version < LOG_FORMAT_OLDEST || version > LOG_FORMAT_VERSION) {
        return mw_fail(err, MW_UNSUPPORTED, "%s has log format %u, this release reads %u to %u",
                       name, version, LOG_FORMAT_OLDEST, LOG_FORMAT_VERSION);
    }
    header->old = version < LOG_FORMAT_VERSION;
    header->generation = mw_get_u64(from + HEADER_GENERATION);
    header->first_position = mw_get_u64(from + HEADER_FIRST_POSITION);
    header->generation_start = mw_get_u64(from + HEADER_GENERATION_START);
    MW_CHECK_DISK(
        header->generation > 0 && header->generation_start > 0 &&
            header->first_position >= header->generation_start,
        err, name, HEADER_GENERATION,
        "expected generation >= 1 that starts at or below the first position, found %" PRIu64
        " from %" PRIu64 " to %" PRIu64,
        header->generation, header->generation_start, header->first_position);
    return MW_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct mw_log_segment {
    const mw_env *env;
    mw_log_header header;
    char name[MW_LOG_NAME_BYTES];
    uint64_t seed;
    int file;
    /* whoever writes: one thread at a time */
    mw_buf staged; /* allocated with the segment: an entry that has its position needs no memory */
    uint64_t offset; /* in the file, of the first staged byte */
    uint64_t chain;  /* checksum of the last record staged    */
    /* whoever reserves: one thread at a time, possibly another one */
    uint64_t reserved;  /* end of what has been promised room */
    uint64_t allocated; /* end of what has room in the file   */
};

static mw_log_segment *segment_alloc(const mw_env *env, const mw_log_header *header)
{
    mw_log_segment *segment = mw_alloc_zero(env, sizeof *segment);
    if (!segment) return NULL;
    segment->env = env;
    segment->header = *header;
    segment->seed = header_seed(header);
    segment->file = -1;
    mw_log_name(header->epoch, header->number, segment->name);
    mw_buf_init(&segment->staged, env);
    if (!mw_buf_reserve(&segment->staged, STAGE_BYTES)) {
        mw_log_segment_close(segment);
        return NULL;
    }
    return segment;
}

static mw_rc write_header(mw_log_segment *segment, int dir, mw_err *err)
{
    const mw_env *env = segment->env;
    uint8_t bytes[MW_LOG_HEADER_BYTES];
    encode_header(&segment->header, bytes);
    segment->chain = mw_get_u64(bytes + HEADER_CHECKSUM);
    segment->offset = segment->reserved = segment->allocated = sizeof bytes;
    mw_rc rc = mw_env_write(env, segment->file, segment->name, bytes, sizeof bytes, 0, err);
    if (rc == MW_OK) rc = mw_log_segment_sync(segment, err);
    if (rc != MW_OK) return rc;
    int sys = env->dir_sync(env->ctx, dir);
    return sys ? mw_fail_sys(err, sys, "sync of the folder", segment->name) : MW_OK;
}

mw_rc mw_log_segment_create(const mw_env *env, int dir, const mw_log_header *header,
                            mw_log_segment **out, mw_err *err)
{
    mw_log_segment *segment = segment_alloc(env, header);
    if (!segment) return mw_fail(err, MW_NOMEM, "no memory for a log segment");
    int sys = mw_env_open(env, dir, segment->name, MW_OPEN_CREATE, &segment->file);
    mw_rc rc =
        sys ? mw_fail_sys(err, sys, "creation", segment->name) : write_header(segment, dir, err);
    if (rc == MW_OK) {
        *out = segment;
        return MW_OK;
    }
    if (!sys) env->unlink(env->ctx, dir, segment->name); /* else a retry would find it taken */
    mw_log_segment_close(segment);
    return rc;
}

mw_rc mw_log_segment_resume(const mw_env *env, int dir, const mw_log_header *header,
                            uint64_t offset, uint64_t chain, mw_log_segment **out, mw_err *err)
{
    mw_log_segment *segment = segment_alloc(env, header);
    if (!segment) return mw_fail(err, MW_NOMEM, "no memory for a log segment");
    segment->offset = segment->reserved = offset;
    segment->chain = chain;
    int sys = mw_env_open(env, dir, segment->name, MW_OPEN_WRITE, &segment->file);
    if (!sys) sys = env->file_size(env->ctx, segment->file, &segment->allocated);
    if (sys) {
        mw_rc rc = mw_fail_sys(err, sys, "opening", segment->name);
        mw_log_segment_close(segment);
        return rc;
    }
    *out = segment;
    return MW_OK;
}

void mw_log_segment_close(mw_log_segment *segment)
{
    if (!segment) return;
    const mw_env *env = segment->env;
    if (segment->file >= 0) env->file_close(env->ctx, segment->file); /* synced where it matters */
    mw_buf_free(&segment->staged);
    mw_free(env, segment);
}

mw_log_place mw_log_segment_place(const mw_log_segment *segment, uint64_t position)
{
    uint64_t offset = segment->offset + segment->staged.size;
    return (mw_log_place){segment->header, offset, segment->chain, position};
}

const mw_log_header *mw_log_segment_header(const mw_log_segment *segment)
{
    return &segment->header;
}

const char *mw_log_segment_name(const mw_log_segment *segment) { return segment->name; }

mw_rc mw_log_segment_reserve(mw_log_segment *segment, uint64_t bytes, mw_err *err)
{
    uint64_t end = segment->reserved + bytes;
    if (end > segment->allocated) {
        uint64_t step = bytes > GROW_BYTES / 8 ? GROW_BYTES_LARGE : GROW_BYTES;
        uint64_t more = (end - segment->allocated + step - 1) / step * step;
        int sys = mw_env_allocate(segment->env, segment->file, segment->allocated, more);
        if (sys) return mw_fail_sys(err, sys, "growing", segment->name);
        segment->allocated += more;
    }
    segment->reserved = end;
    return MW_OK;
}

/* Requires room in the staging buffer. */
static void stage_record(mw_log_segment *segment, const mw_log_entry *entry, mw_slice payload,
                         uint8_t part)
{
    mw_buf *buf = &segment->staged;
    uint64_t body = padded(payload.size);
    uint8_t *to = buf->data + buf->size;
    mw_put_u64(to + RECORD_PREVIOUS, segment->chain);
    mw_put_u64(to + RECORD_POSITION, entry->position);
    mw_put_u64(to + RECORD_EPOCH, entry->epoch);
    mw_put_u64(to + RECORD_DURABLE_THROUGH, entry->durable_through);
    mw_put_u32(to + RECORD_BYTES, (uint32_t)payload.size);
    to[RECORD_KIND] = (uint8_t)entry->kind;
    to[RECORD_PART] = part;
    mw_put_u16(to + RECORD_ZERO, 0);
    uint8_t *at = to + MW_LOG_RECORD_HEADER_BYTES;
    if (payload.size) memcpy(at, payload.data, payload.size);
    memset(at + payload.size, 0, body - payload.size);
    segment->chain = mw_hash(to + RECORD_PREVIOUS,
                             MW_LOG_RECORD_HEADER_BYTES - RECORD_PREVIOUS + body, segment->seed);
    mw_put_u64(to + RECORD_CHECKSUM, segment->chain);
    buf->size += MW_LOG_RECORD_HEADER_BYTES + body;
}

mw_rc mw_log_segment_stage(mw_log_segment *segment, const mw_log_entry *entry, mw_err *err)
{
    size_t left = entry->payload.size;
    const uint8_t *at = entry->payload.data;
    uint8_t part = PART_FIRST;
    do {
        size_t piece = mw_min(left, MW_LOG_RECORD_BYTES_MAX);
        uint64_t need = MW_LOG_RECORD_HEADER_BYTES + padded(piece);
        if (segment->staged.size + need > STAGE_BYTES) {
            mw_rc rc = mw_log_segment_write(segment, err);
            if (rc != MW_OK) return rc;
        }
        left -= piece;
        if (left == 0) part |= PART_LAST;
        stage_record(segment, entry, mw_slice_of(at, piece), part);
        at += piece;
        part = 0;
    } while (left > 0);
    return MW_OK;
}

mw_rc mw_log_segment_write(mw_log_segment *segment, mw_err *err)
{
    mw_buf *buf = &segment->staged;
    if (buf->size == 0) return MW_OK;
    mw_rc rc = mw_env_write(segment->env, segment->file, segment->name, buf->data, buf->size,
                            segment->offset, err);
    if (rc != MW_OK) return rc;
    segment->offset += buf->size;
    mw_buf_clear(buf);
    return MW_OK;
}

mw_rc mw_log_segment_sync(mw_log_segment *segment, mw_err *err)
{
    int sys = segment->env->file_sync(segment->env->ctx, segment->file);
    return sys ? mw_fail_sys(err, sys, "sync", segment->name) : MW_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct mw_log_reader {
    const mw_env *env;
    mw_log_header header;
    char name[MW_LOG_NAME_BYTES];
    uint64_t seed;
    int file;
    uint64_t offset; /* end of the last whole entry */
    uint64_t chain;
    uint64_t position; /* the next entry must have  */
    uint8_t *window;   /* file bytes [window_offset, window_offset + window_bytes) */
    uint64_t window_offset;
    size_t window_bytes;
    size_t window_capacity;
    mw_buf joined; /* payload of an entry of several records */
};

/* One record as it lies in the window. */
typedef struct record {
    uint64_t checksum;
    uint64_t previous;
    uint64_t position;
    uint64_t epoch;
    uint64_t durable_through;
    uint8_t kind;
    uint8_t part;
    mw_slice payload;
    uint64_t bytes; /* all of it in the file */
} record;

/* Shows file bytes [offset, offset + bytes) at *at, or NULL when the file ends before. */
static mw_rc view(mw_log_reader *reader, uint64_t offset, size_t bytes, const uint8_t **at,
                  mw_err *err)
{
    bool inside = offset >= reader->window_offset &&
                  offset + bytes <= reader->window_offset + reader->window_bytes;
    if (!inside) {
        uint64_t window = mw_max(2 * (uint64_t)reader->window_capacity, WINDOW_BYTES_MIN);
        size_t want = (size_t)mw_max(bytes, mw_min(window, WINDOW_BYTES));
        if (want > reader->window_capacity) {
            uint8_t *grown = mw_resize(reader->env, reader->window, want);
            if (!grown) return mw_fail(err, MW_NOMEM, "no memory for reading %s", reader->name);
            reader->window = grown;
            reader->window_capacity = want;
        }
        reader->window_offset = offset;
        reader->window_bytes = 0;
        mw_rc rc = mw_env_read_some(reader->env, reader->file, reader->name, reader->window, want,
                                    offset, &reader->window_bytes, err);
        if (rc != MW_OK) return rc;
    }
    bool there = reader->window_bytes >= offset - reader->window_offset + bytes;
    *at = there ? reader->window + (offset - reader->window_offset) : NULL;
    return MW_OK;
}

/* Reads the record at offset and proves its own checksum; *good says whether there is one. */
static mw_rc read_record(mw_log_reader *reader, uint64_t offset, record *out, bool *good,
                         mw_err *err)
{
    *good = false;
    const uint8_t *at;
    mw_rc rc = view(reader, offset, MW_LOG_RECORD_HEADER_BYTES, &at, err);
    if (rc != MW_OK || !at) return rc;
    uint32_t bytes = mw_get_u32(at + RECORD_BYTES);
    uint8_t kind = at[RECORD_KIND];
    uint8_t last = reader->header.old ? MW_LOG_ADOPT : MW_LOG_DECIDE;
    bool plausible = bytes <= MW_LOG_RECORD_BYTES_MAX && kind >= MW_LOG_COMMIT && kind <= last &&
                     at[RECORD_PART] <= (PART_FIRST | PART_LAST) &&
                     mw_get_u16(at + RECORD_ZERO) == 0;
    if (!plausible) return MW_OK;
    uint64_t body = padded(bytes);
    rc = view(reader, offset, (size_t)(MW_LOG_RECORD_HEADER_BYTES + body), &at, err);
    if (rc != MW_OK || !at) return rc;
    out->checksum = mw_get_u64(at + RECORD_CHECKSUM);
    uint64_t right = mw_hash(at + RECORD_PREVIOUS,
                             MW_LOG_RECORD_HEADER_BYTES - RECORD_PREVIOUS + body, reader->seed);
    if (out->checksum != right) return MW_OK;
    out->previous = mw_get_u64(at + RECORD_PREVIOUS);
    out->position = mw_get_u64(at + RECORD_POSITION);
    out->epoch = mw_get_u64(at + RECORD_EPOCH);
    out->durable_through = mw_get_u64(at + RECORD_DURABLE_THROUGH);
    out->kind = kind;
    out->part = at[RECORD_PART];
    out->payload = mw_slice_of(at + MW_LOG_RECORD_HEADER_BYTES, bytes);
    out->bytes = MW_LOG_RECORD_HEADER_BYTES + body;
    *good = true;
    return MW_OK;
}

/* A header that does not count. It is durable before anything is written behind it: so with
** something behind it this is damage, else the segment was being created. */
static mw_rc bad_header(mw_log_reader *reader, mw_err *err)
{
    uint64_t bytes;
    int sys = reader->env->file_size(reader->env->ctx, reader->file, &bytes);
    if (sys) return mw_fail_sys(err, sys, "reading the size", reader->name);
    MW_CHECK_DISK(bytes <= MW_LOG_HEADER_BYTES, err, reader->name, 0,
                  "the header fails its checks, or belongs to another segment");
    return MW_OK;
}

static mw_rc read_header(mw_log_reader *reader, bool *whole, mw_err *err)
{
    const uint8_t *at;
    mw_rc rc = view(reader, 0, MW_LOG_HEADER_BYTES, &at, err);
    if (rc != MW_OK || !at) return rc;
    uint64_t right = mw_hash(at, HEADER_CHECKSUM, reader->seed);
    bool ours = memcmp(at, magic, sizeof magic) == 0 &&
                memcmp(at + HEADER_STORE, reader->header.store.bytes, 16) == 0 &&
                mw_get_u64(at + HEADER_EPOCH) == reader->header.epoch &&
                mw_get_u64(at + HEADER_NUMBER) == reader->header.number;
    if (!ours || mw_get_u64(at + HEADER_CHECKSUM) != right) return bad_header(reader, err);
    *whole = true;
    reader->chain = right;
    reader->offset = MW_LOG_HEADER_BYTES;
    rc = decode_header(at, reader->name, &reader->header, err);
    reader->position = reader->header.first_position;
    return rc;
}

mw_rc mw_log_reader_open(const mw_env *env, int dir, const mw_store_id *store, uint64_t epoch,
                         uint64_t number, mw_log_reader **out, bool *whole, mw_err *err)
{
    *whole = false;
    *out = NULL;
    mw_log_reader *reader = mw_alloc_zero(env, sizeof *reader);
    if (!reader) return mw_fail(err, MW_NOMEM, "no memory for a log reader");
    reader->env = env;
    reader->file = -1;
    reader->header.store = *store;
    reader->header.epoch = epoch;
    reader->header.number = number;
    reader->seed = header_seed(&reader->header);
    mw_log_name(epoch, number, reader->name);
    mw_buf_init(&reader->joined, env);
    int sys = mw_env_open(env, dir, reader->name, MW_OPEN_READ, &reader->file);
    mw_rc rc =
        sys ? mw_fail_sys(err, sys, "opening", reader->name) : read_header(reader, whole, err);
    if (rc == MW_OK && *whole) {
        *out = reader;
    } else {
        mw_log_reader_close(reader);
    }
    return rc;
}

void mw_log_reader_close(mw_log_reader *reader)
{
    if (!reader) return;
    const mw_env *env = reader->env;
    if (reader->file >= 0) env->file_close(env->ctx, reader->file);
    mw_buf_free(&reader->joined);
    mw_free(env, reader->window);
    mw_free(env, reader);
}

const mw_log_header *mw_log_reader_header(const mw_log_reader *reader) { return &reader->header; }

const char *mw_log_reader_name(const mw_log_reader *reader) { return reader->name; }

void mw_log_reader_end(const mw_log_reader *reader, uint64_t *offset, uint64_t *chain)
{
    *offset = reader->offset;
    *chain = reader->chain;
}

mw_log_place mw_log_reader_place(const mw_log_reader *reader)
{
    return (mw_log_place){reader->header, reader->offset, reader->chain, reader->position};
}

void mw_log_reader_seek(mw_log_reader *reader, const mw_log_place *place)
{
    reader->offset = place->offset;
    reader->chain = place->chain;
    reader->position = place->position;
}

/* Does this record carry the entry on? The first one also fixes what the entry is. */
static bool continues(const mw_log_reader *reader, const record *next, const mw_log_entry *entry,
                      uint64_t chain, bool first)
{
    if (next->previous != chain || next->position != reader->position) return false;
    if (first) return (next->part & PART_FIRST) != 0;
    return !(next->part & PART_FIRST) && next->kind == (uint8_t)entry->kind &&
           next->epoch == entry->epoch;
}

/* Takes a record's payload: a lone record stays where it lies, longer chains are joined. */
static mw_rc take_payload(mw_log_reader *reader, const record *next, mw_log_entry *entry,
                          mw_err *err)
{
    if (next->part == (PART_FIRST | PART_LAST)) {
        entry->payload = next->payload;
        return MW_OK;
    }
    if (next->part & PART_FIRST) mw_buf_clear(&reader->joined);
    mw_buf_put_slice(&reader->joined, next->payload);
    mw_rc rc = mw_buf_check(&reader->joined, err);
    if (rc == MW_OK && reader->joined.size > MW_LOG_ENTRY_BYTES_MAX) {
        rc = mw_fail_disk(err, reader->name, entry->offset, "entry above the limit of 1 GB");
    }
    entry->payload = mw_buf_slice(&reader->joined);
    return rc;
}

mw_rc mw_log_reader_next(mw_log_reader *reader, mw_log_entry *entry, mw_log_found *found,
                         mw_err *err)
{
    *found = MW_LOG_END;
    *entry = (mw_log_entry){.offset = reader->offset};
    uint64_t offset = reader->offset;
    uint64_t chain = reader->chain;
    for (bool first = true;; first = false) {
        record next;
        bool good;
        mw_rc rc = read_record(reader, offset, &next, &good, err);
        if (rc != MW_OK) return rc;
        if (!good || !continues(reader, &next, entry, chain, first)) break;
        entry->position = next.position;
        entry->epoch = next.epoch;
        entry->kind = (mw_log_kind)next.kind;
        entry->durable_through = mw_max(entry->durable_through, next.durable_through);
        rc = take_payload(reader, &next, entry, err);
        if (rc != MW_OK) return rc;
        offset += next.bytes;
        chain = next.checksum;
        if (!(next.part & PART_LAST)) continue;
        reader->offset = offset;
        reader->chain = chain;
        reader->position++;
        *found = MW_LOG_ENTRY;
        return MW_OK;
    }
    reader->window_bytes = 0; /* the writer may go on: look at the file again next time */
    return MW_OK;
}

static mw_rc only_zeros(mw_log_reader *reader, uint64_t offset, uint64_t end, bool *yes,
                        mw_err *err)
{
    *yes = true;
    while (*yes && offset < end) {
        const uint8_t *at;
        size_t piece = (size_t)mw_min(end - offset, WINDOW_BYTES);
        mw_rc rc = view(reader, offset, piece, &at, err);
        if (rc != MW_OK) return rc;
        if (!at) break; /* it got shorter: nothing there */
        *yes = at[0] == 0 && memcmp(at, at + 1, piece - 1) == 0;
        offset += piece;
    }
    return MW_OK;
}

mw_rc mw_log_reader_probe(mw_log_reader *reader, uint64_t *durable_through, bool *clean,
                          mw_err *err)
{
    *durable_through = 0;
    uint64_t end;
    int sys = reader->env->file_size(reader->env->ctx, reader->file, &end);
    if (sys) return mw_fail_sys(err, sys, "reading the size", reader->name);
    mw_rc rc = only_zeros(reader, reader->offset, end, clean, err);
    if (rc != MW_OK || *clean) return rc;
    /* Records start at multiples of 8 from the header on; a lost one hides where the next
    ** begins. */
    for (uint64_t at = reader->offset; at + MW_LOG_RECORD_HEADER_BYTES <= end;) {
        record next;
        bool good;
        rc = read_record(reader, at, &next, &good, err);
        if (rc != MW_OK) return rc;
        if (good) *durable_through = mw_max(*durable_through, next.durable_through);
        at += good ? next.bytes : 8;
    }
    reader->window_bytes = 0;
    return MW_OK;
}

/* ---- payload of a commit --------------------------------------------------------------------- */

enum { OP_PUT = 1, OP_DELETE = 2 };

void mw_log_rows_open(mw_buf *payload)
{
    static const uint8_t zeros[MW_LOG_ROWS_HEADER_BYTES];
    mw_buf_put(payload, zeros, sizeof zeros);
}

void mw_log_rows_add(mw_buf *payload, const mw_log_op *op)
{
    mw_buf_u8(payload, op->tombstone ? OP_DELETE : OP_PUT);
    mw_buf_bytes(payload, op->key);
    if (!op->tombstone) mw_buf_bytes(payload, op->row);
}

void mw_log_rows_close(mw_buf *payload, uint64_t sequence_first, uint64_t op_count,
                       int64_t count_delta)
{
    if (payload->failed) return;
    mw_put_u64(payload->data, op_count);
    mw_put_u64(payload->data + 8, sequence_first);
    mw_put_u64(payload->data + 16, (uint64_t)count_delta);
}

mw_rc mw_log_rows_read(const mw_log_entry *entry, const char *file, mw_log_rows *rows, mw_err *err)
{
    rows->any = false;
    rows->scan = mw_scan_of(entry->payload);
    rows->op_count = mw_scan_u64(&rows->scan);
    rows->sequence_first = mw_scan_u64(&rows->scan);
    rows->count_delta = (int64_t)mw_scan_u64(&rows->scan);
    bool sane = !rows->scan.failed && rows->op_count > 0 && rows->sequence_first > 0 &&
                rows->op_count <= entry->payload.size &&
                rows->sequence_first <= UINT64_MAX - rows->op_count &&
                rows->count_delta <= (int64_t)rows->op_count &&
                rows->count_delta >= -(int64_t)rows->op_count;
    MW_CHECK_DISK(sane, err, file, entry->offset,
                  "expected a commit with rows at position %" PRIu64 ", found %" PRIu64
                  " rows, delta %" PRId64 ", in %zu bytes",
                  entry->position, rows->op_count, rows->count_delta, entry->payload.size);
    return MW_OK;
}

mw_rc mw_log_rows_next(mw_log_rows *rows, const mw_log_entry *entry, const char *file,
                       mw_log_op *op, mw_err *err)
{
    assert(rows->op_count > 0);
    uint8_t what = mw_scan_u8(&rows->scan);
    op->tombstone = what == OP_DELETE;
    op->key = mw_scan_bytes(&rows->scan);
    op->row = op->tombstone ? mw_slice_of(NULL, 0) : mw_scan_bytes(&rows->scan);
    rows->op_count--;
    bool over = rows->op_count == 0 && mw_scan_left(&rows->scan) > 0;
    MW_CHECK_DISK(!rows->scan.failed && (what == OP_PUT || what == OP_DELETE) && !over, err, file,
                  entry->offset, "the rows of position %" PRIu64 " do not fill their entry",
                  entry->position);
    MW_CHECK_DISK(!rows->any || mw_slice_compare(rows->last, op->key) < 0, err, file, entry->offset,
                  "expected the rows of position %" PRIu64 " in the order of their keys",
                  entry->position);
    rows->any = true;
    rows->last = op->key;
    return MW_OK;
}

/* ---- payload of a prepare -------------------------------------------------------------------- */

void mw_log_pledge_add(mw_buf *payload, mw_log_kind kind, const mw_pledge *pledge)
{
    size_t bytes = strlen(pledge->host);
    mw_buf_put(payload, pledge->host, bytes);
    mw_buf_u32(payload, (uint32_t)bytes);
    mw_buf_put(payload, pledge->id, sizeof pledge->id);
    mw_buf_u8(payload, (uint8_t)kind);
}

mw_rc mw_log_pledge_read(const mw_log_entry *entry, const char *file, mw_log_entry *inner,
                         uint8_t id[MW_PLEDGE_ID_BYTES], mw_slice *host, mw_err *err)
{
    enum { FIXED_BYTES = 4 + MW_PLEDGE_ID_BYTES + 1 };
    mw_slice all = entry->payload;
    size_t room = all.size >= FIXED_BYTES ? all.size - FIXED_BYTES : 0;
    uint32_t host_bytes = 0;
    uint8_t kind = 0;
    if (all.size >= FIXED_BYTES) {
        mw_scan scan = mw_scan_of(mw_slice_of(all.data + room, FIXED_BYTES));
        host_bytes = mw_scan_u32(&scan);
        memcpy(id, mw_scan_take(&scan, MW_PLEDGE_ID_BYTES).data, MW_PLEDGE_ID_BYTES);
        kind = mw_scan_u8(&scan);
    }
    bool sane = host_bytes <= room && host_bytes <= MW_PLEDGE_HOST_BYTES_MAX &&
                (kind == MW_LOG_COMMIT || kind == MW_LOG_ADOPT);
    MW_CHECK_DISK(sane, err, file, entry->offset,
                  "expected a prepared transaction and its pledge at position %" PRIu64
                  ", found kind %u and a path of %" PRIu32 " bytes in %zu",
                  entry->position, kind, host_bytes, all.size);
    *inner = *entry;
    inner->kind = (mw_log_kind)kind;
    inner->payload.size = room - host_bytes;
    *host = mw_slice_of(all.data + inner->payload.size, host_bytes);
    return MW_OK;
}
