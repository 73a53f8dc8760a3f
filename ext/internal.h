/* internal.h: what the files of the glue share.
**
** Three things have to be told apart:
**
**   mx_connection  one per sqlite3*: the client data of the module and of every function.
**   mx_vtab        one per sqlite3_vtab object. Not an identity: after schema changes one
**   connection
**                  may hold two of them for one table, so no transaction state lives here.
**   mx_txn         one per connection and engine store: turn, savepoints, snapshots. All
**                  tables of a connection over one store (main.t, temp.t, a re-connected t) share
**                  it.
**
** Everything here is used by one thread at a time: SQLite serialises the calls of a connection. */
#ifndef MX_INTERNAL_H
#define MX_INTERNAL_H

#include <sqlite3ext.h>

#include "args.h"
#include "db.h"
#include "err.h"
#include "share.h"

SQLITE_EXTENSION_INIT3

typedef struct mx_connection mx_connection;
typedef struct mx_vtab mx_vtab;
typedef struct mx_txn mx_txn;
typedef struct mx_watch mx_watch;
typedef struct mx_proven mx_proven;

/* Of a table with a path: is its file the one that the shadow table tells? (origin.c) */
typedef enum mx_origin_state {
    MX_ORIGIN_UNKNOWN,
    MX_ORIGIN_KNOWN,
    MX_ORIGIN_STALE, /* the shadow table is to be put right */
} mx_origin_state;

struct mx_connection {
    sqlite3 *db;
    mx_connection *next; /* of the process's connections                           */
    int references;      /* the module, each function, each vtab                     */
    unsigned forks;      /* forks of this process line seen when it was made         */
    int host_version;    /* sqlite3_libversion_number() of the host                  */
    mx_txn *txns;        /* all open stores of the connection                        */
    mx_vtab *vtabs;      /* all connected tables, the newest first                   */
    mx_watch *watches;   /* find.c                                                   */
    int looks;           /* searches for a table that are under way                  */
    int controls;        /* control tables that are connected (moment.c)             */
    bool control_there;  /* one is in the temp schema, connected or not              */
    bool joined;         /* one of them will be told the end of the transaction      */
    bool temp_changed;   /* SQLite has not looked at the present temp schema yet     */
    mx_proven *proven;   /* proof.c                                                  */
    mx_vtab *dropped;    /* with changes of the transaction under way (ending.c)     */
    bool told;           /* of the end of that transaction                           */
    bool unsettled;      /* collect.c has notes of it                                */
};

struct mx_vtab {
    sqlite3_vtab base; /* first: SQLite's part */
    mx_connection *connection;
    mx_vtab *next;
    int references; /* SQLite's, and those of functions that have found it by name */
    char *schema;
    char *name;
    mx_args *args;         /* columns and options; owned                              */
    mw_key_kind key;       /* how the engine orders the rows                          */
    bool rowid;            /* a rowid table, declared without WITHOUT ROWID           */
    bool binary_order;     /* the host's BINARY order of texts is the engine's        */
    bool in_file;          /* declared in a database file, not in temp or memory      */
    bool ephemeral;        /* its store goes when the connection is closed            */
    int *stored;           /* per column: number in the store's rows, -1 for the key  */
    uint32_t stored_count; /* columns of the store's rows                             */
    bool forms;            /* the first of them tells what the key does not (row.h)   */
    mw_value *values;      /* stored_count of them: room for the row being written    */
    mw_buf row;            /* that row as bytes                                       */
    mw_value *key_values;  /* MW_KEY_ENCODED: room for the key being written,         */
    mw_buf key_bytes;      /* that key as bytes,                                      */
    mw_buf old_key_bytes;  /* the one before,                                         */
    mw_buf form_bytes;     /* and its forms                                           */
    bool created;          /* made in the transaction that is under way               */
    bool doubted;          /* may be one that is in the schema no more (find.c)       */
    bool gone;             /* dropped: it was not there any more at the last xSync    */
    bool looked;           /* leftovers beside its database file were looked for      */
    char mark[33];         /* created or dropped: what its shadow table alone holds   */
    mx_origin_state origin;
    bool has_sign;         /* the next is known                                       */
    uint8_t sign[2];       /* what names the table in ids of transactions (bond.c)  */
    bool agreed;           /* file and rows are of one moment (bond.c)              */
    bool accepting;        /* that they are not is being settled by the user          */
    bool identified;       /* store and path are known                                */
    mw_store_id store;
    char *path;            /* of the store; owned                                     */
    char *broken;          /* why the declaration could not be read, NULL: it could   */
    mx_txn *txn;           /* NULL until the store is used; holds a reference         */
    uint64_t synced_round; /* prepare of txn that this object has asked for last      */
};

/* An mw_err without a failure; cheaper than zeroing all of its text once a row. */
static inline void mx_err_clear(mw_err *err)
{
    err->rc = MW_OK;
    err->sys = 0;
    err->text[0] = 0;
}

/* Registers the module "memwal" in a connection. Returns a SQLite code. */
int mx_vtab_register(sqlite3 *db);

/* The record of a connection that the module is registered in; borrowed, NULL: it is not. */
mx_connection *mx_connection_of(sqlite3 *db);
void mx_connection_unref(void *connection); /* a destructor for SQLite */
/* Refuses to work in a forked child: SQLITE_OK, or SQLITE_MISUSE with the words in *error
** (sqlite3_free). */
int mx_connection_check(const mx_connection *connection, char **error);
/* Has sqlite3_interrupt been called? Always false where the host cannot tell. */
bool mx_connection_interrupted(const mx_connection *connection);

/* Finds the memwal table that table names ('t' or 'schema.t', as SQLite would resolve it; names may
** be quoted) as the schema is now, and connects it if need be. *vtab comes with a reference, since
** a nested statement may make SQLite disconnect it: give it back with mx_vtab_release. Returns a
** SQLite code; *error says why (sqlite3_free). */
int mx_vtab_find(sqlite3 *db, const char *table, mx_vtab **vtab, char **error);
void mx_vtab_release(mx_vtab *vtab); /* takes NULL */

/* Opens the table's store at first use. *txn is borrowed from the vtab. Returns a SQLite code;
** *error: sqlite3_free. */
int mx_vtab_use(mx_vtab *vtab, mx_txn **txn, char **error);

/* ---- one connection's use of one store ------------------------------------------------------ */

mw_db *mx_txn_db(const mx_txn *txn);
mx_store *mx_txn_store(const mx_txn *txn);
/* True between begin and the end of the transaction: this connection holds the turn. */
bool mx_txn_open(const mx_txn *txn);
/* What the present statement sees; released by the caller with mw_snapshot_release. */
mw_rc mx_txn_snapshot(mx_txn *txn, mw_snapshot **snapshot, mw_err *err) MW_MUST_USE;

/* The exact number of live ids that the present statement sees, the transaction's own changes
** included. Returns a SQLite code; *error: sqlite3_free. */
int mx_txn_count(sqlite3 *db, const char *table, sqlite3_int64 *count, char **error);

#endif
