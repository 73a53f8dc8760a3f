/* results.h: what is asked for, what is measured, what must be reached, and the table of it. */
#ifndef RESULTS_H
#define RESULTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { REPEATS_MAX = 9 };

/* What was asked for. */
extern struct wanted {
    int64_t rows;      /* small ones */
    int64_t json_rows; /* of W4 and W6 */
    int repeats;
    const char *only;
    char folder[PATH_MAX];
    char extension[PATH_MAX];
} wanted;

typedef enum work {
    W1_ONE,
    W1_P99,
    W1_ONE_WRITTEN,
    W1_ONE_DISK,
    W1_SIXTEEN,
    W1_SYNCS,
    W1_SIXTEEN_WRITTEN,
    W1_SIXTEEN_DISK,
    W2_RANDOM,
    W2_LAST_TENTH,
    W2_SETTLING,
    W2_WRITTEN,
    W2_OWN_WRITES,
    W2_DISK,
    W2_MEMORY,
    W2_SEQUENTIAL,
    W2_SEQUENTIAL_WRITTEN,
    W2_SEQUENTIAL_DISK,
    W2_INTEGER,
    W2_INTEGER_WRITTEN,
    W2_INTEGER_DISK,
    W3_HIT,
    W3_HIT_INSIDE,
    W3_MISS,
    W3_WRITTEN,
    W4_FUNCTION,
    W4_COUNT,
    W4_SUM,
    W4_SUM_JSON,
    W4_ALL,
    W4_WRITTEN,
    W5_RANGES,
    W5_WRITTEN,
    W6_LOAD,
    W6_SETTLING,
    W6_WRITTEN,
    W6_MEMORY,
    W6_LOADED_DISK,
    W6_DISK,
    W6_COMPACT,
    W7_OVERWRITE,
    W7_WRITTEN,
    W7_LARGEST,
    W7_DISK,
    W8_OPEN,
    W8_OPEN_LOG,
    W8_OPEN_WRITTEN,
    W8_OPEN_DISK,
    W8_SHORT,
    W8_SHORT_READ,
    W8_SHORT_WRITTEN,
    WORKS
} work;

bool is_wanted(work of); /* also when only another figure of its W is */

/* One repeat's figures. other NAN: there is nothing to compare with. */
void note(work of, double memwal, double other);

int by_size(const void *a, const void *b); /* of two doubles, for qsort */
double median(const double *values, int count);

void print_table(void);

#endif
