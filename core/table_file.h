/* table_file.h: an open table file, as lookups, iterators and verification share it. Inside the
** table_*.c files only; the contract is table_read.h. */
#ifndef MW_TABLE_FILE_H
#define MW_TABLE_FILE_H

#include <stdatomic.h>

#include "page.h"
#include "table_layout.h"
#include "table_read.h"

/* Working memory for reading blocks; one per thread at a time. */
typedef struct mw_table_reader {
    struct mw_table_reader *next;
    mw_codec *codec; /* NULL until a compressed page is met */
    mw_buf stored;
    mw_buf raw;
} mw_table_reader;

/* A dictionary of the file, ready for decompressing. */
typedef struct mw_table_loaded {
    uint8_t *raw;
    _Atomic(mw_codec_dictionary *) dictionary; /* NULL until the first page that needs it */
} mw_table_loaded;

struct mw_table {
    const mw_env *env;
    mw_cache *cache;
    uint64_t cache_file;
    _Atomic uint32_t references;
    int file;
    char name[MW_TABLE_NAME_BYTES];
    mw_store_id store;
    uint64_t epoch;
    uint64_t number;
    mw_key_kind key;
    uint32_t column_count;
    mw_table_frame frame;
    uint8_t *index;   /* keys of groups point into it */
    mw_group *groups; /* frame.group_count of them    */

    mw_mutex *mutex;              /* loading of filter and dictionaries, list of idle readers */
    mw_table_reader *idle;
    uint32_t idle_count;
    void *filter_memory;
    _Atomic(const uint8_t *) filter; /* NULL until the first question */
    mw_table_loaded dictionaries[MW_TABLE_DICTIONARIES_MAX]; /* as frame.dictionaries */
};

/* A reader for the calling thread, given back with mw_table_reader_give. NULL: no memory. */
mw_table_reader *mw_table_reader_take(mw_table *table);
void mw_table_reader_give(mw_table *table, mw_table_reader *reader);

/* Reads a block to `to` (room for block->bytes) and verifies its checksum; on a mismatch once
** more. */
mw_rc mw_table_read_block(const mw_table *table, const mw_block *block, uint8_t *to,
                          mw_err *err) MW_MUST_USE;

/* Reads a dictionary, decompresses it into fresh memory (*raw: the caller's, mw_free), and makes it
** ready. */
mw_rc mw_table_read_dictionary(mw_table *table, uint32_t number, uint8_t **raw,
                               mw_codec_dictionary **dictionary, mw_err *err) MW_MUST_USE;

/* Reads and decodes past the cache. The results are the caller's, mw_free. */
mw_rc mw_table_read_directory(mw_table *table, const mw_group *group, mw_directory **directory,
                              mw_err *err) MW_MUST_USE;
/* column: as in a directory. 0: it is a page of keys, and must hold nothing else. */
mw_rc mw_table_read_page(mw_table *table, const mw_page_ref *ref, uint32_t column, mw_page **page,
                         mw_err *err) MW_MUST_USE;

/* The same through the cache. Held: mw_cache_release. Content: mw_directory, mw_page. */
mw_rc mw_table_hold_directory(mw_table *table, const mw_group *group, mw_cached **held,
                              mw_err *err) MW_MUST_USE;
mw_rc mw_table_hold_page(mw_table *table, const mw_page_ref *ref, uint32_t column,
                         mw_cached **held, mw_err *err) MW_MUST_USE;

/* Number of the last group whose first key is <= key; UINT64_MAX: key lies before all. */
uint64_t mw_table_group_of(const mw_table *table, mw_slice key);

/* The key page that holds key, if any page does: the last whose separator is <= key. */
uint32_t mw_directory_key_page(const mw_directory *directory, mw_slice key);

/* First row of a key page whose key is >= key (page->rows: none); *equal: it is key itself. */
uint32_t mw_table_row_of(const mw_table *table, const mw_page *page, mw_slice key, bool *equal);

#endif
