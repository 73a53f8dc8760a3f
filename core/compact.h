/* compact.h: merges, as jobs: each is one pick (pick.h), done in bounded slices, and changes the
** store by one manifest version. */
#ifndef MW_COMPACT_H
#define MW_COMPACT_H

#include "pick.h"
#include "store.h"

typedef enum mw_compact_what {
    MW_COMPACT_DUE,         /* what the options make due                            */
    MW_COMPACT_GENERATIONS, /* generations into the base, oldest first              */
    MW_COMPACT_ALL,         /* everything into one level that has no tombstones     */
} mw_compact_what;

typedef bool (*mw_interrupted)(void *arg);

typedef struct mw_compact_task {
    mw_compact_what what;
    uint32_t max_generations;   /* 0: no limit                                              */
    uint64_t below;             /* generations from here on are left alone, 0: no limit     */
    mw_interrupted interrupted; /* asked between slices: true gives the job up; may be NULL */
    void *arg;
} mw_compact_task;

/* What came of it; added up over jobs. */
typedef struct mw_compact_result {
    uint32_t jobs;
    uint32_t folded;  /* generations                         */
    uint64_t removed; /* row versions and tombstones in files */
} mw_compact_result;

/* Is a merge due by the store's options, and ours to do? Requires `mutex`. */
bool mw_compact_due(const mw_store *store);

/* A job at work. */
typedef struct mw_compact mw_compact;

/* Starts the next job of a task. Requires merge_mutex. *compact NULL: there is nothing to do. */
mw_rc mw_compact_start(mw_store *store, const mw_compact_task *task, mw_compact **compact,
                       mw_err *err) MW_MUST_USE;
/* Merges on for about one slice; *done: everything is written. */
mw_rc mw_compact_step(mw_compact *compact, bool *done, mw_err *err) MW_MUST_USE;
/* Requires done: lists the result in place of its inputs, frees the job in any case. */
mw_rc mw_compact_finish(mw_compact *compact, mw_compact_result *result, mw_err *err) MW_MUST_USE;
/* Gives up: removes what was written, frees the job. Takes NULL. */
void mw_compact_abandon(mw_compact *compact);

/* One job; result->jobs stays as it is when there was nothing to do. Takes merge_mutex. */
mw_rc mw_compact_job(mw_store *store, const mw_compact_task *task, mw_compact_result *result,
                     mw_err *err) MW_MUST_USE;
/* Jobs until the task is done; never more generations than were listed at its beginning. What is
** finished stays finished also when a later job fails or is interrupted. */
mw_rc mw_compact_run(mw_store *store, const mw_compact_task *task, mw_compact_result *result,
                     mw_err *err) MW_MUST_USE;

#endif
