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
    int compression;     /* zstd level, 0 = none */
    bool dictionaries;   /* train some where they pay; holds back the first 8 MB of rows */
    uint32_t group_rows; /* 0: the default, MW_GROUP_ROWS */
    uint32_t page_bytes; /* 0: the default, MW_PAGE_BYTES */
} mw_table_options;

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

/* Writes what is left, syncs the file and its directory, fills props, frees the writer. range (may
** be NULL): slices of one block of memory, the caller's, freed with mw_key_range_free. On failure
** the file is removed and the writer freed as well. */
mw_rc mw_table_writer_finish(mw_table_writer *writer, mw_table_props *props, mw_key_range *range,
                             mw_err *err) MW_MUST_USE;
void mw_key_range_free(const mw_env *env, mw_key_range *range); /* also a zeroed one */

/* Gives up: closes and removes the file, frees the writer. Takes NULL. */
void mw_table_writer_abandon(mw_table_writer *writer);

#endif
