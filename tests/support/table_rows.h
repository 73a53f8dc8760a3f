/* table_rows.h: rows as an array, the model that table files are compared with, and a folder for
** the files. */
#ifndef TABLE_ROWS_H
#define TABLE_ROWS_H

#include "table_read.h"

enum { ROWS_COLUMNS = 6, ROWS_KEY_MAX = 40 };

typedef struct rows_row {
    uint8_t key[ROWS_KEY_MAX];
    size_t key_bytes;
    bool tombstone;
    mw_value values[ROWS_COLUMNS];
} rows_row;

typedef struct rows {
    mw_key_kind key;
    rows_row *items; /* keys ascending */
    size_t count;
    uint8_t *bytes;  /* texts and blobs point into it */
    uint64_t random; /* state of the generator        */
} rows;

uint64_t rows_random(uint64_t *state);

/* Up to count rows of all kinds of values. About one in five is a tombstone when tombstones is
** set. */
void rows_make(rows *model, mw_key_kind key, size_t count, bool tombstones, uint64_t seed);
void rows_free(rows *model);
mw_slice rows_key(const rows *model, size_t i);
/* Number of the first row whose key is >= key. */
size_t rows_lower(const rows *model, mw_slice key);
/* A key that is not in the model, near to one that is. */
mw_slice rows_absent(rows *model, uint8_t to[ROWS_KEY_MAX]);

/* A fresh folder, a cache, and an environment that does not wait for the disk. */
typedef struct rows_folder {
    mw_env env;
    char path[64];
    int dir;
    mw_cache *cache;
    uint32_t column_ids[ROWS_COLUMNS];
    mw_schema schema;
    mw_table_options options;
} rows_folder;

void rows_folder_make(rows_folder *folder, mw_key_kind key);
void rows_folder_remove(rows_folder *folder);

/* Writes the model as the table file of folder->options. */
mw_rc rows_write(rows_folder *folder, rows *model, mw_table_props *props, mw_err *err);
mw_rc rows_open(rows_folder *folder, mw_table **table, mw_err *err);

/* Compare kinds of access with the model; assert nothing: the answer is the first failure of the
** table, or MW_MISUSE when it answered wrongly. finds: every key of the model, and as many that it
** lacks. walks: an iterator both ways, and its seeks for the same keys. */
mw_rc rows_compare_finds(rows *model, mw_table *table, mw_err *err);
mw_rc rows_compare_walks(rows *model, mw_table *table, mw_err *err);
mw_rc rows_compare(rows *model, mw_table *table, mw_err *err); /* both, whatever the first says */

/* The nth allocation through the folder's environment from now on is refused; 0: none is. Returns
** whether the one asked for before was. */
bool rows_refuse_allocation(rows_folder *folder, size_t nth);

/* A question to an open table that holds the model. */
typedef mw_rc rows_question(rows *model, mw_table *table, mw_err *err);

/* Asks files whose groups and pages end at all places; fails the test that gets another answer
** than MW_OK. */
void rows_ask_shapes(rows_question *question);

/* A file of small groups and pages, and its bytes, for hurting. These fail the test themselves. */
typedef struct rows_victim {
    rows_folder folder;
    rows model;
    mw_table_props props;
    char name[MW_TABLE_NAME_BYTES];
    uint8_t *bytes;
    size_t size;
} rows_victim;

void rows_victim_make(rows_victim *v, mw_key_kind key, size_t count, int compression);
void rows_victim_free(rows_victim *v);
/* Puts another file under the victim's name. */
void rows_victim_replace(rows_victim *v, const uint8_t *bytes, size_t size);
/* Opens and asks everything; *verified is the answer of mw_table_verify. An error must name the
** file. */
mw_rc rows_victim_ask(rows_victim *v, mw_rc *verified);
/* Opens and asks again and again, with each allocation refused in turn until none is left: each is
** said to be missing. Returns how many there were. */
int rows_victim_refuse(rows_victim *v, rows_question *question);

/* Watches what is read through the folder's environment from now on. */
void rows_watch(rows_folder *folder);
extern int rows_reads;      /* reads so far                                  */
extern int rows_flip_reads; /* so many of the next ones deliver a wrong bit  */

#endif
