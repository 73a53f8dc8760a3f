/* table_file.h: a table file, as lookups, iterators, verification and the pool share it. Inside the
** table_*.c files only; the contract is table_read.h.
**
** A mw_table is a cheap handle: what the manifest says of the file, and references. Two parts of it
** come when they are needed and go when the pool needs the room (table_pool.c): the open file, and
** its index and filter in memory. The second outlives the first, so that a filter answers without a
** descriptor. Whoever uses a part has it pinned. Cached pages and directories belong to neither. */
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
    mw_codec_dictionary *dictionary;
    uint8_t raw[];
} mw_table_loaded;

typedef enum mw_part {
    MW_PART_FILE,  /* the descriptor, and that header and footer are right */
    MW_PART_INDEX, /* frame, index, groups, filter, dictionaries           */
    MW_PARTS,
} mw_part;

/* How a part stands with the pool. */
typedef struct mw_stay {
    _Atomic uint32_t pins; /* how many, and MW_STAY_RESIDENT            */
    _Atomic bool asked;    /* pinned again since the pool has last looked */
    /* under the pool's mutex */
    bool loading;
    uint64_t bytes; /* of memory */
    mw_table *newer;
    mw_table *older;
} mw_stay;

enum { MW_STAY_RESIDENT = 1 << 30 };

struct mw_table {
    const mw_env *env;
    mw_table_pool *pool;
    bool owns_pool; /* opened alone: pinned for life */
    int dir;
    mw_cache *cache;
    uint64_t cache_file;
    _Atomic uint32_t references;
    _Atomic bool doomed;
    _Atomic bool kept; /* open until it goes: one pin of MW_PART_FILE is its own */
    bool knows_props; /* the manifest's, which the file must match; else they are the file's */
    bool knows_keys;  /* so */
    char name[MW_TABLE_NAME_BYTES];
    mw_store_id store;
    uint64_t epoch;
    uint64_t number;
    const mw_schema *schema; /* borrowed while the table lives */
    mw_key_kind key;
    uint32_t column_count;
    mw_table_props props;
    mw_key_range keys; /* known: behind the table, in its block of memory; else in its index */
    uint64_t seed;     /* of every checksum in the file */
    mw_stay stays[MW_PARTS];

    /* MW_PART_FILE */
    int file;
    mw_table_frame ends; /* what the footer says */

    /* MW_PART_INDEX */
    mw_table_frame frame;
    uint8_t *index;   /* keys of groups point into it */
    mw_group *groups; /* frame.group_count of them    */
    _Atomic(void *) filter; /* memory of the filter, NULL until the first question */
    /* as frame.dictionaries, NULL until the first page that needs it */
    _Atomic(mw_table_loaded *) dictionaries[MW_TABLE_DICTIONARIES_MAX];
};

/* ---- parts --------------------------------------------------------------------------------- */

/* Reads and verifies a part; a failure leaves nothing behind. For the pool: the caller is alone
** with the part. */
mw_rc mw_table_load(mw_table *table, mw_part part, mw_err *err) MW_MUST_USE;
void mw_table_unload(mw_table *table, mw_part part);

/* The slow half of mw_table_pin, which has counted the pin already. */
mw_rc mw_table_pool_load(mw_table *table, mw_part part, mw_err *err) MW_MUST_USE;
/* A pinned part takes so many bytes more. */
void mw_table_pool_grow(mw_table *table, mw_part part, uint64_t bytes);
/* Drops the parts of a table whose last reference is gone. */
void mw_table_pool_leave(mw_table *table);

/* Makes a part resident until mw_table_unpin. May nest. Needs a reference. Takes no lock when it is
** resident already. */
static inline mw_rc mw_table_pin(mw_table *table, mw_part part, mw_err *err)
{
    mw_stay *stay = &table->stays[part];
    uint32_t pins = atomic_fetch_add_explicit(&stay->pins, 1, memory_order_acquire);
    if (!(pins & MW_STAY_RESIDENT)) return mw_table_pool_load(table, part, err);
    /* Looked at first: a line that all readers write would wander between their caches. */
    if (!atomic_load_explicit(&stay->asked, memory_order_relaxed)) {
        atomic_store_explicit(&stay->asked, true, memory_order_relaxed);
    }
    return MW_OK;
}

static inline void mw_table_unpin(mw_table *table, mw_part part)
{
    atomic_fetch_sub_explicit(&table->stays[part].pins, 1, memory_order_release);
}

/* ---- reading; what takes a group needs a pin of the index ----------------------------------- */

/* A reader for the calling thread, given back with mw_table_reader_give. NULL: no memory. */
mw_table_reader *mw_table_reader_take(mw_table *table);
void mw_table_reader_give(mw_table *table, mw_table_reader *reader);

/* Reads a block to `to` (room for block->bytes) and verifies its checksum; on a mismatch once
** more. */
mw_rc mw_table_read_block(mw_table *table, const mw_block *block, uint8_t *to,
                          mw_err *err) MW_MUST_USE;

/* The same into fresh memory, *content: the caller's, mw_free. */
mw_rc mw_table_read_whole(mw_table *table, const mw_block *block, uint8_t **content,
                          mw_err *err) MW_MUST_USE;

/* Reads a dictionary, decompresses it and makes it ready. *loaded: the caller's, to be freed with
** mw_table_loaded_free. */
mw_rc mw_table_read_dictionary(mw_table *table, uint32_t number, mw_table_loaded **loaded,
                               mw_err *err) MW_MUST_USE;
void mw_table_loaded_free(const mw_env *env, mw_table_loaded *loaded); /* takes NULL */

/* Reads and decodes past the cache. The results are the caller's, mw_free. */
mw_rc mw_table_read_directory(mw_table *table, const mw_group *group, mw_directory **directory,
                              mw_err *err) MW_MUST_USE;
/* column: as in a directory. 0: it is a page of keys, and must hold nothing else. Needs no pin. */
mw_rc mw_table_read_page(mw_table *table, const mw_page_ref *ref, uint32_t column, mw_page **page,
                         mw_err *err) MW_MUST_USE;

/* The same through the cache. Held: mw_cache_release. Content: mw_directory, mw_page. A page may be
** asked for without a pin. */
mw_rc mw_table_hold_directory(mw_table *table, const mw_group *group, mw_cached **held,
                              mw_err *err) MW_MUST_USE;
mw_rc mw_table_hold_page(mw_table *table, const mw_page_ref *ref, uint32_t column,
                         mw_cached **held, mw_err *err) MW_MUST_USE;

/* Does the filter let key pass? */
mw_rc mw_table_filter_passes(mw_table *table, mw_slice key, bool *maybe, mw_err *err) MW_MUST_USE;

/* Does key lie between the lowest and the highest one? Needs no pin. */
bool mw_table_in_range(const mw_table *table, mw_slice key);

/* The table and directory of the group in which an iterator stands; NULL: it is not an iterator of a
** table, or stands nowhere. Borrowed until it moves. *row: in the group. */
const mw_directory *mw_table_iter_place(const mw_iter *iter, mw_table **table, uint32_t *row,
                                        uint64_t *group);

/* Number of the last group whose first key is <= key; UINT64_MAX: key lies before all. */
uint64_t mw_table_group_of(const mw_table *table, mw_slice key);

/* The key page that holds key, if any page does: the last whose separator is <= key. */
uint32_t mw_directory_key_page(const mw_directory *directory, mw_slice key);

/* First row of a key page whose key is >= key (page->rows: none); *equal: it is key itself. */
uint32_t mw_table_row_of(const mw_table *table, const mw_page *page, mw_slice key, bool *equal);

#endif
