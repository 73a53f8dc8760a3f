/* plan.h: how a table is searched. */
#ifndef MX_PLAN_H
#define MX_PLAN_H

#include "internal.h"

/* idxNum. The arguments of xFilter: a value for each of the first columns of the key that are
** compared for equality, then a list of values for the next column, or its lower bound and then its
** upper one. */
enum mx_plan {
    MX_PLAN_POINT = 1,         /* all columns of the key are compared for equality          */
    MX_PLAN_LOW = 2,           /* from that argument on                                     */
    MX_PLAN_LOW_STRICT = 4,    /* not that value itself                                     */
    MX_PLAN_HIGH = 8,          /* up to the last argument                                   */
    MX_PLAN_HIGH_STRICT = 16,  /* not that value itself                                     */
    MX_PLAN_BACKWARD = 32,     /* from the highest id down                                  */
    MX_PLAN_COUNT = 64,        /* no column is asked for: count rows, read none             */
    MX_PLAN_NONE = 128,        /* no row can match                                          */
    MX_PLAN_LIST = 256,        /* the values of a list: what stands behind IN               */
    MX_PLAN_HIGH_TEXT = 512,   /* the upper bound is compared as a text, never as a number  */
    MX_PLAN_BY_REST = 1024,    /* in the order of the key without its columns that are compared for
                               ** equality, whatever these are                              */
    MX_PLAN_EQUAL = 65536,     /* else as often as there are columns compared for equality  */
};
#define MX_PLAN_EQUALS(plan) ((uint32_t)(plan) / MX_PLAN_EQUAL)

int mx_plan_best_index(sqlite3_vtab *base, sqlite3_index_info *info);

#endif
