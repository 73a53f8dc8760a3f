/* engine.h: what the tests of the engine share: a store in a line, rows as words, calls in threads.
**
** The stores here have an integer id and one column that holds words. The state of a store is
** written "1=a 2=b": ids ascending, each with its words. Functions that say "or the test fails" may
** be called from the test's own thread only. */
#ifndef ENGINE_H
#define ENGINE_H

#include "db.h"
#include "sim.h"
#include "store.h"

#include <pthread.h>

enum { ENGINE_WAIT_MS = 20000, ENGINE_PATH_BYTES = 96 };
#define ENGINE_STORE "store"

extern const mw_schema engine_schema;

/* No thread, no compression. Where one store is to be open twice in a world: set shared. */
mw_options engine_options(void);

/* ---- stores ---------------------------------------------------------------------------------- */

/* A machine whose disk holds a new store, durably. */
sim *engine_world(void);
/* Or the test fails. options NULL: engine_options. */
mw_db *engine_open(sim *world, const mw_options *options);
mw_rc engine_try_open(sim *world, const mw_options *options, mw_db **db, mw_err *err);
/* Or the test fails. */
void engine_close(mw_db *db);
/* Proves that nothing of the engine is left in the world, and ends it. */
void engine_end(sim *world);

/* Name of file i (in order) whose name begins with prefix, as "store/name"; false: there is
** none. */
bool engine_file(sim *world, const char *prefix, uint32_t i, char path[ENGINE_PATH_BYTES]);
uint32_t engine_file_count(sim *world, const char *prefix);

static inline mw_store *engine_store(mw_db *db) { return (mw_store *)db; }

/* ---- writing --------------------------------------------------------------------------------- */

mw_slice engine_key(int64_t id, uint8_t to[8]);
mw_rc engine_txn_try(mw_txn *txn, int64_t id, const char *words, mw_err *err); /* NULL: deletes */
/* A whole transaction: one row (words NULL: deletes the id), prepared as kind, committed. A prepare
** that fails is rolled back and gives the result. */
mw_rc engine_try(mw_db *db, int64_t id, const char *words, mw_txn_kind kind, mw_err *err);

/* Or the test fails. */
mw_txn *engine_begin(mw_db *db);
void engine_txn_put(mw_txn *txn, int64_t id, const char *words);
void engine_txn_delete(mw_txn *txn, int64_t id);
uint64_t engine_mark(mw_txn *txn);
void engine_commit(mw_txn *txn, mw_txn_kind kind);
void engine_rollback(mw_txn *txn);
void engine_put(mw_db *db, int64_t id, const char *words); /* a light transaction of its own */
void engine_delete(mw_db *db, int64_t id);
/* One transaction with ids first .. first + count - 1; the words of an id are "<prefix><id>". */
void engine_fill(mw_db *db, int64_t first, int64_t count, const char *prefix);
uint64_t engine_flush(mw_db *db);
uint32_t engine_merge(mw_db *db, uint32_t max_generations);
/* Freezes the active memtable and leaves it unflushed; the generation, 0: nothing to freeze. */
uint64_t engine_freeze(mw_db *db);

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads all rows of the snapshot in every way (forwards, backwards, id by id; the count must agree)
** and gives them as "1=a 2=b", in memory that the fourth call from now uses again. The test fails
** where two ways differ. */
const char *engine_read(mw_snapshot *snapshot);
const char *engine_rows(mw_db *db); /* of the newest published state */
const char *engine_txn_rows(mw_db *db, mw_txn *txn);
/* The count of live ids, after a scan has found the same. For stores too large for words. */
int64_t engine_count(mw_db *db);
mw_snapshot *engine_snapshot(mw_db *db);
/* Words of an id in the newest published state, NULL: it does not live. Memory as above. */
const char *engine_find(mw_db *db, int64_t id);
/* A figure of memwal_stats; the second for those that are words (memory as above), NULL: none. */
int64_t engine_figure(mw_db *db, const char *name);
const char *engine_words(mw_db *db, const char *name);
/* Waits until a figure has reached a value, or the test fails. */
void engine_wait_figure(mw_db *db, const char *name, int64_t least);
/* Lines of mw_db_check, joined by '\n'; "ok" when there are no faults. Memory as above. */
const char *engine_check(mw_db *db);

/* ---- calls in threads ------------------------------------------------------------------------ */

/* One call of the engine in a thread of its own. */
typedef struct engine_call {
    mw_rc (*run)(struct engine_call *call);
    sim *world;
    mw_db *db;
    int64_t id;
    const char *words;
    mw_txn_kind kind;
    mw_options options;
    void *arg;       /* the test's own                */
    uint64_t number; /* result of a flush or a merge */
    /* filled in */
    mw_rc rc;
    mw_err err;
    pthread_t thread;
    atomic_bool done;
} engine_call;

mw_rc engine_run_put(engine_call *call); /* db, id, words, kind                                  */
mw_rc engine_run_flush(
    engine_call *call); /* db; number                                           */
mw_rc engine_run_merge(
    engine_call *call);                   /* db; number                                           */
mw_rc engine_run_open(engine_call *call); /* world, options; db                                   */
mw_rc engine_run_close(
    engine_call *call); /* db                                                   */

void engine_start(engine_call *call);
/* Is it over? Waits up to ms for that. */
bool engine_ends(engine_call *call, uint64_t ms);
/* Waits for its end, or the test fails. Its result. */
mw_rc engine_wait(engine_call *call);

/* Waits until that many entries have no result yet, or the test fails. */
void engine_wait_queued(mw_db *db, uint32_t count);

#endif
