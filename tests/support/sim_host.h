/* sim_host.h: SQLite with the extension on a simulated machine, and what a crash must leave.
**
** The database has an ordinary table, accounts, and a memwal table, rollouts. A script of words
** makes transactions with the numbers 1, 2 ...; each adds a row of its number and adds its number
** to the total in row 0, in one table or in both:
**
**     accounts makes the table                     rollouts makes the other one
**     host     changes accounts                    store    changes rollouts
**     both     changes both
**     undo     both, as far as a savepoint, and back; then both again, which stays
**     never    changes both and rolls back: has no number
**     spare    makes a memwal table with one row   drop     drops it: both have no number
**     flush, merge, checkpoint                     what they say
**
** Without the extension what would change rollouts changes accounts; the rest is passed over. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <sqlite3.h>

#include "sim.h"
#include "sim_vfs.h"
#include "world.h"

enum { HOST_TXNS_MAX = 60, HOST_WORDS_BYTES = 500 };

/* What SQLite may lose of acknowledged commits when the power is cut. */
typedef enum host_loss {
    HOST_KEEPS,
    HOST_LOSES_NEWEST, /* what ended a journal is not synced before the next one is */
    HOST_LOSES_WAL,    /* all since the last checkpoint                             */
} host_loss;

typedef struct host_mode {
    const char *name;
    const char *journal;
    const char *synchronous;
    host_loss loss;
    bool in_order; /* needs a disk that keeps the order of one file's writes */
} host_mode;

extern const host_mode host_modes[];
extern const int host_mode_count;

typedef struct host_txn {
    bool host;  /* changes accounts, or the schema */
    bool store; /* changes rollouts                */
} host_txn;

/* What was read of a table. */
typedef struct host_found {
    bool table;
    bool txn[HOST_TXNS_MAX + 1];
    sqlite3_int64 total;
} host_found;

/* What was asked and answered; plain, so that each moment of a run keeps a copy. */
typedef struct host_past {
    host_txn txns[HOST_TXNS_MAX + 1]; /* [0]: none */
    int begun;      /* transactions                                      */
    int acked;      /* ... whose COMMIT has answered OK: all but the last */
    int checkpoint; /* ... that the last checkpoint has covered          */
    int settled;    /* ... that a check before has found or not, for good */
    sqlite3_int64 accounts_total, rollouts_total; /* what that check has read */
} host_past;

/* Is a transaction wrong that is on one side only? */
typedef enum host_atomic {
    HOST_COUNTS, /* it is counted                                      */
    HOST_KEPT,   /* wrong, but where SQLite took an acknowledged one back */
    HOST_ALWAYS, /* wrong                                              */
} host_atomic;

typedef struct host {
    const host_mode *mode;
    bool extended; /* with the extension */
    host_atomic atomic;
    sim *world;
    mw_env env;
    mx_world functions;
    sim_vfs *vfs;
    sqlite3 *db;
    host_past past;
    host_found accounts, rollouts;     /* by the last check; and whether it has seen       */
    bool accounts_only, rollouts_only; /* ... a transaction over both there, nowhere else  */
    bool taken_back;                   /* ... in rollouts one that SQLite has taken back   */
    char words[HOST_WORDS_BYTES]; /* "": nothing is wrong */
} host;

/* Must not move until host_stop. world: borrowed. One at a time in a program. */
void host_start(host *h, const host_mode *mode, bool extended, sim *world);
/* Closes what is open. False, and words, when something of it is left in the machine. */
bool host_stop(host *h);

/* From now on the syncs of one side do nothing and say that they have: to prove that a check sees
** it. With the extension: those of the store, else those of SQLite. */
void host_lie(host *h);

/* The following return whether all is as it should be; else h->words say what is not. */

bool host_open(host *h);
bool host_run(host *h, const char *script);
/* Reads everything. killed: the process was, and not the machine's power cut. */
bool host_check(host *h, bool killed);
/* After a check: changes both tables once more, closes, opens and checks. */
bool host_go_on(host *h);

#endif
