/* table_write.h: makes one table file (FORMAT.md, "Table files"): written once, synced, then named
** in a manifest, never changed. */
#ifndef MW_TABLE_WRITE_H
#define MW_TABLE_WRITE_H

#include "codec.h"
#include "iter.h"
#include "schema.h"

/* What a finished file holds; kept in its properties block and in the manifest. */
typedef struct mw_table_props {
    uint64_t rows; /* row versions that are not tombstones             */
    uint64_t tombstones;
    uint64_t bytes;        /* of the whole file                                */
    uint64_t sequence_min; /* of the versions in it; 0 when it is empty        */
    uint64_t sequence_max;
    uint64_t checksum; /* the footer's: identifies this very file          */
} mw_table_props;

/* Lowest and highest key of a file; both empty when it has none. */
typedef struct mw_key_range {
    mw_slice min;
    mw_slice max;
} mw_key_range;

typedef struct mw_table_options {
    mw_store_id store;
    uint64_t epoch; /* creator's epoch; with number: the file's identity and checksum seed */
    uint64_t number;
    const mw_schema *schema; /* borrowed while the writer lives */
    uint64_t sequence_min;   /* sequences of the versions that will be added lie in here */
    uint64_t sequence_max;
    int compression;       /* zstd level, 0 = none */
    uint32_t group_rows;   /* 0: the default, MW_GROUP_ROWS */
    uint32_t page_bytes;   /* 0: the default, MW_PAGE_BYTES */
    uint64_t sample_bytes; /* so many of rows are held back first, to train dictionaries from, where
                           ** they pay; 0: no dictionaries */
} mw_table_options;

enum { MW_TABLE_SAMPLE_BYTES = 8 << 20 }; /* a good sample */

typedef struct mw_table_writer mw_table_writer;

/* Name of a table file: "table-<epoch>-<number>", both as 16 hex digits. */
enum { MW_TABLE_NAME_BYTES = 48 };
void mw_table_name(uint64_t epoch, uint64_t number, char name[MW_TABLE_NAME_BYTES]);
bool mw_table_parse_name(const char *name, uint64_t *epoch, uint64_t *number);

/* Creates the file (exclusively) in dir. On failure no file is left, unless unlinking failed
** too. */
mw_rc mw_table_writer_create(const mw_env *env, int dir, const mw_table_options *options,
                             mw_table_writer **writer, mw_err *err) MW_MUST_USE;

/* Adds the version that iter stands on. Requires keys strictly ascending (checked: misuse). */
mw_rc mw_table_writer_add(mw_table_writer *writer, mw_iter *iter, mw_err *err) MW_MUST_USE;

/* Rows in the group at hand; a group that has become full is none any more. */
uint32_t mw_table_writer_rows(const mw_table_writer *writer);
/* Ends the group at hand, if it has rows, before it is full. */
mw_rc mw_table_writer_end_group(mw_table_writer *writer, mw_err *err) MW_MUST_USE;

/* A page as another file stores it. */
typedef struct mw_stored_page {
    mw_slice bytes;
    uint32_t raw_bytes; /* more than bytes.size: it is compressed */
    uint32_t rows;
    bool divides;       /* a key page that is not the group's first: */
    mw_slice separator; /* ... what lies between it and the one before */
} mw_stored_page;

/* A whole group without tombstones as another file stores it (table_copy.h): all pages in their
** order, then every key, then its statistics. Requires that no group is at hand, and that nothing
** else is added in between. */
mw_rc mw_table_writer_copy_page(mw_table_writer *writer, const mw_stored_page *page,
                                mw_err *err) MW_MUST_USE;
mw_rc mw_table_writer_copy_key(mw_table_writer *writer, mw_slice key, mw_err *err) MW_MUST_USE;
mw_rc mw_table_writer_copy_end(mw_table_writer *writer, mw_slice statistics,
                               mw_err *err) MW_MUST_USE;

/* How large the file is by now, rows that are held back counted as they are: grows with each group
** that is full. */
uint64_t mw_table_writer_bytes(const mw_table_writer *writer);

/* Writes what is left, syncs the file and its directory, fills props, frees the writer. range (may
** be NULL): slices of one block of memory, the caller's, freed with mw_key_range_free. On failure
** the file is removed and the writer freed as well. */
mw_rc mw_table_writer_finish(mw_table_writer *writer, mw_table_props *props, mw_key_range *range,
                             mw_err *err) MW_MUST_USE;
void mw_key_range_free(const mw_env *env, mw_key_range *range); /* also a zeroed one */

/* Gives up: closes and removes the file, frees the writer. Takes NULL. */
void mw_table_writer_abandon(mw_table_writer *writer);

#endif
