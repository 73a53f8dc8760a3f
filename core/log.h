/* log.h: the write-ahead log: segments of records, written by one epoch, read by everybody.
**
** An entry is one commit: a chain of records that share a position. FORMAT.md, "Log segments", has
** the bytes; log.c has the validity rule and why it stays right. */
#ifndef MW_LOG_H
#define MW_LOG_H

#include "buf.h"
#include "coding.h"
#include "pledge.h"

enum {
    MW_LOG_ENTRY_BYTES_MAX = 1 << 30,  /* payload of one entry: 1 GB                       */
    MW_LOG_RECORD_BYTES_MAX = 1 << 18, /* payload of one record                            */
    MW_LOG_HEADER_BYTES = 96,          /* segment header                                   */
    MW_LOG_RECORD_HEADER_BYTES = 48,
    MW_LOG_NAME_BYTES = 48,
};

typedef enum mw_log_kind {
    MW_LOG_COMMIT = 1,  /* payload: rows, see mw_log_rows_*          */
    MW_LOG_ABORT = 2,   /* payload: the cancelled position, one u64  */
    MW_LOG_ADOPT = 3,   /* payload: table files, see run.h           */
    MW_LOG_PREPARE = 4, /* payload: that of a commit or adopt, and a pledge, see mw_log_pledge_*  */
    MW_LOG_DECIDE = 5,  /* payload: the prepared position that is committed, one u64              */
} mw_log_kind;

/* Header of a segment. One generation is a set of whole segments. */
typedef struct mw_log_header {
    mw_store_id store;
    uint64_t epoch;  /* the one that writes this segment   */
    uint64_t number; /* from 1 in each epoch               */
    uint64_t generation;
    uint64_t first_position;   /* of the first entry in it           */
    uint64_t generation_start; /* first position of the generation */
    bool old;                  /* read from a segment of an older format: nothing is added to it */
} mw_log_header;

/* A place in the log between two entries: where reading or writing goes on. */
typedef struct mw_log_place {
    mw_log_header header; /* of the segment; number 0: there is none yet           */
    uint64_t offset;      /* in it                                                  */
    uint64_t chain;       /* there                                                  */
    uint64_t position;    /* that the next entry in it has; may be one that is known already */
} mw_log_place;

/* One whole entry, as it is read back. payload is borrowed until the reader moves. */
typedef struct mw_log_entry {
    uint64_t position;
    uint64_t epoch;           /* of the writer who was first to write it; copies keep it */
    uint64_t durable_through; /* highest of its records */
    mw_log_kind kind;
    mw_slice payload;
    uint64_t offset; /* in the segment, of its first record */
} mw_log_entry;

/* "wal-<epoch>-<number>", both as 16 hex digits. */
void mw_log_name(uint64_t epoch, uint64_t number, char name[MW_LOG_NAME_BYTES]);
bool mw_log_parse_name(const char *name, uint64_t *epoch, uint64_t *number);

/* ---- writing ------------------------------------------------------------------------------- */

typedef struct mw_log_segment mw_log_segment; /* an open segment that is written */

/* Creates the file exclusively, writes and syncs its header, syncs the folder. */
mw_rc mw_log_segment_create(const mw_env *env, int dir, const mw_log_header *header,
                            mw_log_segment **segment, mw_err *err) MW_MUST_USE;
/* Opens an existing segment for going on behind its last whole entry. offset and chain: from the
** reader that found the end. */
mw_rc mw_log_segment_resume(const mw_env *env, int dir, const mw_log_header *header,
                            uint64_t offset, uint64_t chain, mw_log_segment **segment,
                            mw_err *err) MW_MUST_USE;
void mw_log_segment_close(mw_log_segment *segment); /* no sync; takes NULL */
const mw_log_header *mw_log_segment_header(const mw_log_segment *segment);
const char *mw_log_segment_name(const mw_log_segment *segment);
/* Behind what was staged last; position: of the next entry, which the caller knows. */
mw_log_place mw_log_segment_place(const mw_log_segment *segment, uint64_t position);

/* Makes sure that room for bytes more (record headers included) is allocated in the file, so that a
** full disk shows before an entry is queued, never after. */
mw_rc mw_log_segment_reserve(mw_log_segment *segment, uint64_t bytes, mw_err *err) MW_MUST_USE;
/* Bytes that an entry of this payload takes in a segment. */
uint64_t mw_log_entry_bytes(uint64_t payload_bytes);

/* Stages an entry behind what was staged before; what does not fit in the staging buffer (512 KB)
** is written first. Allocates nothing. */
mw_rc mw_log_segment_stage(mw_log_segment *segment, const mw_log_entry *entry,
                           mw_err *err) MW_MUST_USE;
/* Writes all that is staged, with one write. */
mw_rc mw_log_segment_write(mw_log_segment *segment, mw_err *err) MW_MUST_USE;
mw_rc mw_log_segment_sync(mw_log_segment *segment, mw_err *err) MW_MUST_USE;

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct mw_log_reader mw_log_reader;

typedef enum mw_log_found {
    MW_LOG_ENTRY, /* a whole entry                                                     */
    MW_LOG_END,   /* nothing (end of file or zeros) or nothing whole behind the last entry */
} mw_log_found;

/* Opens a segment and verifies its header against store, epoch and number. *whole is false when the
** header itself is torn or absent and nothing lies behind it (the segment was being created): then
** no reader is made. MW_CORRUPT: something lies behind a header that fails. */
mw_rc mw_log_reader_open(const mw_env *env, int dir, const mw_store_id *store, uint64_t epoch,
                         uint64_t number, mw_log_reader **reader, bool *whole,
                         mw_err *err) MW_MUST_USE;
void mw_log_reader_close(mw_log_reader *reader); /* takes NULL */
const mw_log_header *mw_log_reader_header(const mw_log_reader *reader);
const char *mw_log_reader_name(const mw_log_reader *reader);

/* The next whole entry. At the end it may be called again later: it goes on when more was
** written. */
mw_rc mw_log_reader_next(mw_log_reader *reader, mw_log_entry *entry, mw_log_found *found,
                         mw_err *err) MW_MUST_USE;

/* Where the last whole entry ends, and the chain value there. */
void mw_log_reader_end(const mw_log_reader *reader, uint64_t *offset, uint64_t *chain);
/* The same, and back to such a place of the same segment. */
mw_log_place mw_log_reader_place(const mw_log_reader *reader);
void mw_log_reader_seek(mw_log_reader *reader, const mw_log_place *place);

/* Looks behind the end for valid records of this segment (a torn group may leave some) and gives
** the highest durable-through among them, 0 when there is none: at or above the missing position it
** proves damage. clean: nothing but zeros lies behind the end. */
mw_rc mw_log_reader_probe(mw_log_reader *reader, uint64_t *durable_through, bool *clean,
                          mw_err *err) MW_MUST_USE;

/* ---- payload of a commit ------------------------------------------------------------------- */

/* A commit's rows: u64 op count, u64 first sequence, i64 count delta, then per op: u8 (1 put,
** 2 delete), key and, for a put, row, each as varint length + bytes. Op i has sequence first +
** i. */
typedef struct mw_log_rows {
    uint64_t sequence_first;
    uint64_t op_count; /* ops that are still to come */
    int64_t count_delta;
    mw_scan scan; /* over the ops that are still to come */
    bool any;     /* the op before them has the key last */
    mw_slice last;
} mw_log_rows;

typedef struct mw_log_op {
    bool tombstone;
    mw_slice key;
    mw_slice row;
} mw_log_op;

enum { MW_LOG_ROWS_HEADER_BYTES = 24 };
/* Reserves the fixed header at the start of an empty buffer; filled in by mw_log_rows_close. */
void mw_log_rows_open(mw_buf *payload);
void mw_log_rows_add(mw_buf *payload, const mw_log_op *op);
void mw_log_rows_close(mw_buf *payload, uint64_t sequence_first, uint64_t op_count,
                       int64_t count_delta);

mw_rc mw_log_rows_read(const mw_log_entry *entry, const char *file, mw_log_rows *rows,
                       mw_err *err) MW_MUST_USE;
/* Requires that ops are left: call it op_count times. The last one checks that nothing is over. */
mw_rc mw_log_rows_next(mw_log_rows *rows, const mw_log_entry *entry, const char *file,
                       mw_log_op *op, mw_err *err) MW_MUST_USE;

/* ---- payload of a prepare ------------------------------------------------------------------ */

/* The payload of a commit or adopt, then the pledge: path of the host, u32 its length, 16 bytes id,
** u8 the kind. */
void mw_log_pledge_add(mw_buf *payload, mw_log_kind kind, const mw_pledge *pledge);
/* Takes a prepare apart. inner: the commit or adopt in it, borrowed from the entry as *host, which
** ends without a zero. */
mw_rc mw_log_pledge_read(const mw_log_entry *entry, const char *file, mw_log_entry *inner,
                         uint8_t id[MW_PLEDGE_ID_BYTES], mw_slice *host, mw_err *err) MW_MUST_USE;

#endif
