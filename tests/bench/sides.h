/* sides.h: the two sides of a comparison: databases with one table t, and what is done to both. */
#ifndef SIDES_H
#define SIDES_H

#include "counters.h"
#include "results.h"
#include "rows.h"

#include <sqlite3.h>

enum {
    TRANSACTION_ROWS = 10000,
    PATH_BYTES = PATH_MAX + 64,
};

typedef enum kind { MEMWAL_TEXT, MEMWAL_INTEGER, ROWID, WITHOUT_ROWID, INTEGER, KINDS } kind;

typedef struct side {
    kind kind;
    row_shape shape;
    char folder[PATH_BYTES];
    sqlite3 *db;
} side;

bool is_memwal(const side *s);

/* ---- SQL; each of them gives up when it fails -------------------------------------------- */

void run(sqlite3 *db, const char *sql);
sqlite3_stmt *prepare(sqlite3 *db, const char *sql);
bool step(sqlite3_stmt *statement); /* is there a row? */
int64_t ask(sqlite3 *db, const char *sql);

/* ---- databases --------------------------------------------------------------------------- */

/* A table of that kind in a folder of its own. What was written before is on disk. */
side side_make(kind of, row_shape shape);
/* The same with options of memwal behind the columns (", memtable = '1GB'"). */
side side_make_with(kind of, row_shape shape, const char *options);
/* Another connection to that side's database; the caller's. */
sqlite3 *side_connect(const side *s);
/* Closes it; its files stay / go. */
void side_close(side *s);
void side_end(side *s);

/* The columns of every table with a text id. */
extern const char text_key_columns[];

/* What was written lies in files, and nothing is left to do: memwal has flushed, and no merge is due
** any more; SQLite has moved its WAL to the database file. */
void settle(const side *s);
/* memwal: merges what waits for a merge that is not due yet, too. */
void pack(const side *s);

/* A figure of memwal_stats; of a table "t" or "temp.t". */
double memwal_figure(sqlite3 *db, const char *table, const char *name);

/* ---- rows -------------------------------------------------------------------------------- */

typedef enum order { RANDOM_ORDER, ASCENDING } order;

/* Id number i: of a random order of all ids, or the i-th. */
uint64_t id_number(order of, int64_t i);

extern const char insert_sql[];
extern const char replace_sql[];

/* Binds ?1; room is needed until the statement is bound anew. */
void bind_key(const side *s, sqlite3_stmt *statement, char room[ROW_KEY_BYTES], uint64_t number);

/* Puts the row of an id by one of the statements above; how many bytes of data. */
size_t put_row(const side *s, sqlite3_stmt *put, uint64_t number, uint64_t version);

#endif
