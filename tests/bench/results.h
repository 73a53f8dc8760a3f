/* results.h: what is measured, what must be reached, and the table of it. */
#ifndef RESULTS_H
#define RESULTS_H

#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS_MAX = 9 };

/* What was asked for. */
static struct {
    int64_t rows;
    int repeats;
    const char *only;
    char folder[PATH_MAX];
    char extension[PATH_MAX];
} wanted = {.rows = 1000000, .repeats = 3};

typedef enum judge {
    RATE,   /* memwal / other is at least the target */
    COST,   /* memwal / other is at most the target  */
    FIGURE, /* memwal alone is at most the target    */
    SHOWN,  /* memwal / other; no target             */
} judge;

typedef enum work {
    W1_ONE,
    W1_P99,
    W1_SIXTEEN,
    W1_SYNCS,
    W2_RANDOM,
    W2_WRITTEN,
    W2_OWN_WRITES,
    W2_DISK,
    W2_SEQUENTIAL,
    W2_INTEGER,
    W3_HIT,
    W3_HIT_INSIDE,
    W3_MISS,
    W4_FUNCTION,
    W4_COUNT,
    W4_SUM,
    W4_ALL,
    W5_RANGES,
    W7_OVERWRITE,
    W7_WRITTEN,
    WORKS
} work;

static const struct {
    const char *name;
    const char *unit;
    judge judge;
    double target;
} works[WORKS] = {
    [W1_ONE] = {"W1 durable single puts, 1 thread, table in a WAL file", "/s", RATE, 1.0},
    [W1_P99] = {"W1 99 of 100 of them return within", "us", SHOWN, 0},
    [W1_SIXTEEN] = {"W1 durable single puts, 16 threads (memwal: temp tables)", "/s", RATE, 3.0},
    [W1_SYNCS] = {"W1 syncs per commit at 16 threads", "", FIGURE, 0.3},
    [W2_RANDOM] = {"W2 random load, settled, against a rowid table", "rows/s", RATE, 2.0},
    [W2_WRITTEN] = {"W2 bytes written per byte of data (disk's counter)", "", FIGURE, 6.0},
    [W2_OWN_WRITES] = {"W2 the same by the process's counter", "", SHOWN, 0},
    [W2_DISK] = {"W2 bytes on disk per byte of data", "", COST, 1.0},
    [W2_SEQUENTIAL] = {"W2 sequential load, text ids, against a rowid table", "rows/s", RATE, 0.7},
    [W2_INTEGER] = {"W2 sequential load, INTEGER PRIMARY KEY", "rows/s", SHOWN, 0},
    [W3_HIT] = {"W3 point reads, autocommit, table in a file", "/s", RATE, 0.7},
    [W3_HIT_INSIDE] = {"W3 point reads in a transaction", "/s", RATE, 0.5},
    [W3_MISS] = {"W3 misses in a transaction", "/s", RATE, 1.0},
    [W4_FUNCTION] = {"W4 memwal_count (SQLite: count(*))", "us", FIGURE, 10},
    [W4_COUNT] = {"W4 count(*), against a table that stores nothing", "s", COST, 1.3},
    [W4_SUM] = {"W4 sum of one column", "rows/s", RATE, 0.5},
    [W4_ALL] = {"W4 all columns of all rows", "rows/s", RATE, 0.3},
    [W5_RANGES] = {"W5 ranges of 100 rows, against WITHOUT ROWID", "/s", RATE, 0.3},
    [W7_OVERWRITE] = {"W7 overwriting at random, settled, counted in each transaction", "rows/s",
                      RATE, 2.0},
    [W7_WRITTEN] = {"W7 bytes written per byte of data (disk's counter)", "", SHOWN, 0},
};

static struct {
    double memwal[REPEATS_MAX];
    double other[REPEATS_MAX];
    int count;
} results[WORKS];

static bool is_wanted(work of)
{
    if (!wanted.only) return true;
    char name[3] = {works[of].name[0], works[of].name[1], 0};
    return strstr(wanted.only, name) != NULL;
}

static void note(work of, double memwal, double other)
{
    if (!is_wanted(of)) return;
    int i = results[of].count++;
    results[of].memwal[i] = memwal;
    results[of].other[i] = other;
    fprintf(stderr, "  %-72s %14.6g %14.6g %s\n", works[of].name, memwal, other, works[of].unit);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int count)
{
    double sorted[REPEATS_MAX];
    memcpy(sorted, values, sizeof *values * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static double ratio_of(work of)
{
    double ratios[REPEATS_MAX];
    for (int i = 0; i < results[of].count; i++) {
        double other = results[of].other[i];
        ratios[i] = other > 0 ? results[of].memwal[i] / other : 0;
    }
    return median(ratios, results[of].count);
}

static bool is_reached(work of)
{
    double target = works[of].target;
    switch (works[of].judge) {
    case RATE: return ratio_of(of) >= target;
    case COST: return ratio_of(of) <= target;
    default: return median(results[of].memwal, results[of].count) <= target;
    }
}

static void print_number(double value)
{
    const char *format = value >= 1000 ? " %.0f |" : value >= 10 ? " %.1f |" : " %.3g |";
    printf(format, value);
}

static void print_row(work of)
{
    static const char *const signs[] = {">= %g x", "<= %g x", "<= %g", ""};
    bool judged = works[of].judge != SHOWN;
    char target[32] = "";
    if (judged) snprintf(target, sizeof target, signs[works[of].judge], works[of].target);
    printf("| %s |", works[of].name);
    print_number(median(results[of].memwal, results[of].count));
    print_number(median(results[of].other, results[of].count));
    printf(" %s | %.2f | %s | %s |\n", works[of].unit, ratio_of(of), target,
           !judged          ? ""
           : is_reached(of) ? "yes"
                            : "**no**");
}

static void print_table(void)
{
    printf("\n%" PRId64 " rows, median of %d, SQLite %s\n\n", wanted.rows, wanted.repeats,
           sqlite3_libversion());
    printf("| work | memwal | SQLite | unit | ratio | target | reached |\n");
    printf("| --- | ---: | ---: | --- | ---: | --- | --- |\n");
    for (int i = 0; i < WORKS; i++) {
        if (results[i].count > 0) print_row((work)i);
    }
}

#endif
