/* plan.h: how a table is searched. */
#ifndef MX_PLAN_H
#define MX_PLAN_H

#include "internal.h"

/* idxNum. The arguments of xFilter: the id or the list of ids, or the lower bound and then the
** upper one. */
enum mx_plan {
    MX_PLAN_POINT = 1,         /* one id                                                    */
    MX_PLAN_LOW = 2,           /* ids from the first argument on                            */
    MX_PLAN_LOW_STRICT = 4,    /* not that id itself                                        */
    MX_PLAN_HIGH = 8,          /* ids up to the last argument                               */
    MX_PLAN_HIGH_STRICT = 16,  /* not that id itself                                        */
    MX_PLAN_BACKWARD = 32,     /* from the highest id down                                  */
    MX_PLAN_COUNT = 64,        /* no column is asked for: count rows, read none             */
    MX_PLAN_NONE = 128,        /* no row can match                                          */
    MX_PLAN_LIST = 256,        /* the ids of a list: what stands behind IN                  */
    MX_PLAN_HIGH_TEXT = 512,   /* the upper bound is compared as a text, never as a number  */
};

int mx_plan_best_index(sqlite3_vtab *base, sqlite3_index_info *info);

#endif
