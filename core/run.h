/* run.h: runs: what a transaction has written to table files before its commit.
**
** A transaction that has outgrown its memory writes its changes so far to a table file, a run. A
** run is synced and listed nowhere; one log entry, of the kind MW_LOG_ADOPT, makes all runs of a
** transaction part of a generation, and the flush of that generation lists them as they are. */
#ifndef MW_RUN_H
#define MW_RUN_H

#include "log.h"
#include "manifest.h"
#include "table_read.h"

#include <stdatomic.h>

typedef struct mw_run {
    const mw_env *env;
    atomic_uint refs;
    mw_table *table;        /* NULL until mw_run_open                                    */
    mw_manifest_file file;  /* level 0, without a generation; keys: the run's own memory */
    uint64_t above;         /* its changes lie above this sequence ...                   */
    uint64_t through;       /* ... up to this one                                        */
    int64_t delta;          /* of the count, by the changes in it                        */
    uint64_t logical_bytes; /* of the keys and rows in it                                */
} mw_run;

/* An immutable list of runs, oldest first, shared by reference count. */
typedef struct mw_runs {
    const mw_env *env;
    atomic_uint refs;
    uint32_t count;
    mw_run *runs[];
} mw_runs;

/* A run without a file yet. One reference. */
mw_rc mw_run_create(const mw_env *env, mw_run **run, mw_err *err) MW_MUST_USE;
/* Opens its file, which must be the one that run->file describes. The schema in options outlives
** the run. */
mw_rc mw_run_open(mw_run *run, mw_table_pool *pool, int dir, const mw_table_options *options,
                  mw_err *err) MW_MUST_USE;
void mw_run_unref(mw_run *run); /* takes NULL */
/* Nothing will ever name the file: it goes with the last reference. Requires that it is open. */
void mw_run_doom(mw_run *run);

/* The first `kept` runs of a list (NULL: empty), and `more` behind them. One reference; the list
** references its runs. */
mw_rc mw_runs_create(const mw_env *env, const mw_runs *from, uint32_t kept, mw_run *const *more,
                     uint32_t more_count, mw_runs **runs, mw_err *err) MW_MUST_USE;
mw_runs *mw_runs_ref(mw_runs *runs);         /* takes NULL */
void mw_runs_unref(mw_runs *runs);           /* takes NULL */
uint32_t mw_runs_count(const mw_runs *runs); /* NULL: 0 */
/* See mw_table_keep; both take NULL. */
mw_rc mw_runs_keep(const mw_runs *runs, mw_err *err) MW_MUST_USE;
void mw_runs_let_go(const mw_runs *runs);
void mw_runs_let_go(const mw_runs *runs); /* takes NULL */

/* The newest version of key in the runs. runs: also NULL. */
mw_rc mw_runs_find(const mw_runs *runs, mw_slice key, bool *found, bool *tombstone,
                   mw_err *err) MW_MUST_USE;

/* ---- payload of an adopt entry ------------------------------------------------------------- */

/* Runs as part of a generation: older than its memtable, seen as a whole or not at all. */
typedef struct mw_adopted {
    const mw_env *env;
    mw_runs *runs; /* a reference */
    uint64_t sequence_first;
    uint64_t sequence_last; /* whoever reads up to here sees all of them                */
    int64_t delta;
    atomic_bool aborted; /* they never happened                                      */
} mw_adopted;

/* Takes the reference to runs, also on failure. */
mw_rc mw_adopted_create(const mw_env *env, mw_runs *runs, mw_adopted **adopted,
                        mw_err *err) MW_MUST_USE;
void mw_adopted_free(mw_adopted *adopted); /* takes NULL */

void mw_adopted_encode(const mw_adopted *adopted, mw_buf *payload);
/* What an entry of the log says; the files are not opened. log_file: its segment, for messages. */
mw_rc mw_adopted_decode(const mw_env *env, const mw_log_entry *entry, const char *log_file,
                        mw_adopted **adopted, mw_err *err) MW_MUST_USE;

#endif
