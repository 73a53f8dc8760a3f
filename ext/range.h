/* range.h: what plan and arguments ask for, as ranges of keys. */
#ifndef MX_RANGE_H
#define MX_RANGE_H

#include "internal.h"

/* One end of a range; its bytes stand in mx_ranges. */
typedef struct mx_end {
    bool set;
    bool strict; /* that key itself is outside */
    size_t at;
    size_t size;
} mx_end;

typedef struct mx_range {
    bool point; /* just the key that low is */
    mx_end low;
    mx_end high;
} mx_range;

/* Ranges of keys, ascending and apart from each other: a scan over all of them gives rows in the
** order of their keys, each once. */
typedef struct mx_ranges {
    mw_buf bytes;
    mw_buf items; /* mx_range, one behind the other */
    size_t equal; /* how many, the first ones, are of one value for each equality */
} mx_ranges;

void mx_ranges_init(mx_ranges *ranges);
void mx_ranges_free(mx_ranges *ranges);

/* The ranges that hold every row that the statement may want, by a plan (plan.h) and its arguments.
** Some are empty, and where SQLite's way of comparing is not told, they hold more. None at all: no
** row can match. SQLITE_OK or a failure of SQLite's. */
int mx_ranges_read(mx_ranges *to, const mx_vtab *vtab, int plan, sqlite3_value **argv);
/* One range that holds everything. */
int mx_ranges_all(mx_ranges *to);

/* In place of them single keys, which may be in any order. */
void mx_ranges_clear(mx_ranges *ranges);
int mx_ranges_add(mx_ranges *ranges, mw_slice key);

size_t mx_ranges_count(const mx_ranges *ranges);
const mx_range *mx_ranges_at(const mx_ranges *ranges, size_t index);
mw_slice mx_ranges_key(const mx_ranges *ranges, const mx_end *end);

#endif
