/* results.c: the list of figures with their targets, the medians, the table. */
#include "results.h"

#include "counters.h"

#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wanted wanted = {.rows = 1000000, .json_rows = 250000, .repeats = 3};

typedef enum judge {
    RATE,   /* memwal / other is at least the target */
    COST,   /* memwal / other is at most the target  */
    FIGURE, /* memwal alone is at most the target    */
    SHOWN,  /* no target                             */
} judge;

typedef struct figure {
    const char *name;
    judge judge;
    double target;
} figure;

#define WRITTEN "bytes written per byte of data (disk's counter)"
#define ON_DISK "bytes on disk per byte of data"

static const figure figures[WORKS] = {
    [W1_ONE] = {"W1 durable single puts, 1 thread, table in a WAL file (/s)", RATE, 1.0},
    [W1_P99] = {"W1 99 of 100 of them return within (us)", SHOWN, 0},
    [W1_ONE_WRITTEN] = {"W1 " WRITTEN, SHOWN, 0},
    [W1_ONE_DISK] = {"W1 " ON_DISK, SHOWN, 0},
    [W1_SIXTEEN] = {"W1 durable single puts, 16 threads (memwal: temp tables) (/s)", RATE, 3.0},
    [W1_SYNCS] = {"W1 at 16 threads: syncs per commit", FIGURE, 0.3},
    [W1_SIXTEEN_WRITTEN] = {"W1 at 16 threads: " WRITTEN, SHOWN, 0},
    [W1_SIXTEEN_DISK] = {"W1 at 16 threads: " ON_DISK, SHOWN, 0},
    [W2_RANDOM] = {"W2 random load, settled (rows/s)", RATE, 2.0},
    [W2_LAST_TENTH] = {"W2 speed of the last tenth / of the first", SHOWN, 0},
    [W2_SETTLING] = {"W2 of its time, after the last commit (s)", SHOWN, 0},
    [W2_WRITTEN] = {"W2 " WRITTEN, FIGURE, 6.0},
    [W2_OWN_WRITES] = {"W2 the same by the process's counter", SHOWN, 0},
    [W2_DISK] = {"W2 " ON_DISK, COST, 1.0},
    [W2_MEMORY] = {"W2 most memory of the process (MB)", SHOWN, 0},
    [W2_SEQUENTIAL] = {"W2 sequential load, text ids (rows/s)", RATE, 0.7},
    [W2_SEQUENTIAL_WRITTEN] = {"W2 sequential: " WRITTEN, SHOWN, 0},
    [W2_SEQUENTIAL_DISK] = {"W2 sequential: " ON_DISK, SHOWN, 0},
    [W2_INTEGER] = {"W2 sequential load, INTEGER PRIMARY KEY (rows/s)", SHOWN, 0},
    [W2_INTEGER_WRITTEN] = {"W2 INTEGER PRIMARY KEY: " WRITTEN, SHOWN, 0},
    [W2_INTEGER_DISK] = {"W2 INTEGER PRIMARY KEY: " ON_DISK, SHOWN, 0},
    [W3_HIT] = {"W3 point reads, autocommit, table in a file (/s)", RATE, 0.7},
    [W3_HIT_INSIDE] = {"W3 point reads in a transaction (/s)", RATE, 0.5},
    [W3_MISS] = {"W3 misses in a transaction (/s)", RATE, 1.0},
    [W3_WRITTEN] = {"W3 bytes written meanwhile (process's counter)", SHOWN, 0},
    [W4_FUNCTION] = {"W4 memwal_count (SQLite: count(*)) (us)", FIGURE, 10},
    [W4_COUNT] = {"W4 count(*), against a table that stores nothing (s)", COST, 1.3},
    [W4_SUM] = {"W4 sum of one column, small rows (rows/s)", RATE, 0.5},
    [W4_SUM_JSON] = {"W4 sum of one column, json rows (rows/s)", RATE, 1.0},
    [W4_ALL] = {"W4 all columns of all rows (rows/s)", RATE, 0.3},
    [W4_WRITTEN] = {"W4 bytes written meanwhile (process's counter)", SHOWN, 0},
    [W5_RANGES] = {"W5 ranges of 100 rows, against WITHOUT ROWID (/s)", RATE, 0.3},
    [W5_WRITTEN] = {"W5 bytes written meanwhile (process's counter)", SHOWN, 0},
    [W6_LOAD] = {"W6 load of json rows, random ids, settled (rows/s)", RATE, 1.0},
    [W6_SETTLING] = {"W6 of its time, after the last commit (s)", SHOWN, 0},
    [W6_WRITTEN] = {"W6 " WRITTEN, SHOWN, 0},
    [W6_MEMORY] = {"W6 most memory of the process (MB)", SHOWN, 0},
    [W6_LOADED_DISK] = {"W6 " ON_DISK " after the load", SHOWN, 0},
    [W6_DISK] = {"W6 " ON_DISK " after compaction (SQLite: VACUUM)", FIGURE, 0.5},
    [W6_COMPACT] = {"W6 time of that compaction (s)", SHOWN, 0},
    [W7_OVERWRITE] = {"W7 overwriting at random, settled, counted in each transaction (rows/s)",
                      RATE, 2.0},
    [W7_WRITTEN] = {"W7 " WRITTEN, SHOWN, 0},
    [W7_LARGEST] = {"W7 most bytes on disk between transactions per byte of live data", SHOWN, 0},
    [W7_DISK] = {"W7 bytes on disk per byte of live data, settled", SHOWN, 0},
    [W8_OPEN] = {"W8 open and first read after a kill, 64 MB log (ms)", FIGURE, 1000},
    [W8_OPEN_LOG] = {"W8 log of the same rows at the kill (MB)", SHOWN, 0},
    [W8_OPEN_WRITTEN] = {"W8 written from open to exit then (MB, process's counter)", SHOWN, 0},
    [W8_OPEN_DISK] = {"W8 on disk afterwards (MB)", SHOWN, 0},
    [W8_SHORT] = {"W8 short process: open, one read, exit; clean store (ms)", COST, 3.0},
    [W8_SHORT_READ] = {"W8 of that, from before the open to the row (ms)", SHOWN, 0},
    [W8_SHORT_WRITTEN] = {"W8 short process: bytes written (process's counter)", SHOWN, 0},
};

static struct {
    double memwal[REPEATS_MAX];
    double other[REPEATS_MAX];
    int count;
} results[WORKS];

bool is_wanted(work of)
{
    if (!wanted.only) return true;
    char name[3] = {figures[of].name[0], figures[of].name[1], 0};
    return strstr(wanted.only, name) != NULL;
}

void note(work of, double memwal, double other)
{
    if (!is_wanted(of)) return;
    int i = results[of].count++;
    results[of].memwal[i] = memwal;
    results[of].other[i] = other;
    fprintf(stderr, "  %-76s %14.6g %14.6g\n", figures[of].name, memwal, other);
}

int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(const double *values, int count)
{
    double *sorted = malloc(sizeof *values * (size_t)count);
    if (!sorted) give_up("out of memory");
    memcpy(sorted, values, sizeof *values * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    double middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return middle;
}

/* 0 where there is nothing to divide by. */
static double ratio_of(work of)
{
    double ratios[REPEATS_MAX];
    for (int i = 0; i < results[of].count; i++) {
        double other = results[of].other[i];
        ratios[i] = other > 0 ? results[of].memwal[i] / other : 0;
    }
    return median(ratios, results[of].count);
}

/* Random loads are judged by the size of the table: what B-trees lose with it is the point. */
static double target_of(work of)
{
    if (of == W2_RANDOM && wanted.rows >= 10000000) return 5;
    if (of == W2_RANDOM && wanted.rows >= 5000000) return 4;
    return figures[of].target;
}

/* What could not be measured (0) reaches nothing. */
static bool is_reached(work of)
{
    double memwal = median(results[of].memwal, results[of].count);
    switch (figures[of].judge) {
    case RATE: return ratio_of(of) >= target_of(of);
    case COST: return ratio_of(of) > 0 && ratio_of(of) <= target_of(of);
    default: return memwal > 0 && memwal <= target_of(of);
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
    bool judged = figures[of].judge != SHOWN;
    double other = median(results[of].other, results[of].count);
    printf("| %s |", figures[of].name);
    print_number(median(results[of].memwal, results[of].count));
    if (isnan(other)) {
        printf(" |");
    } else {
        print_number(other);
    }
    if (other > 0) {
        printf(" %.2f |", ratio_of(of));
    } else {
        printf(" |");
    }
    char target[32] = "";
    if (judged) snprintf(target, sizeof target, signs[figures[of].judge], target_of(of));
    printf(" %s | %s |\n", target, !judged ? "" : is_reached(of) ? "yes" : "**no**");
}

void print_table(void)
{
    printf("\n%" PRId64 " small rows, %" PRId64 " json rows, median of %d, SQLite %s\n\n",
           wanted.rows, wanted.json_rows, wanted.repeats, sqlite3_libversion());
    printf("| work | memwal | SQLite | ratio | first target | reached |\n");
    printf("| --- | ---: | ---: | ---: | --- | --- |\n");
    for (int i = 0; i < WORKS; i++) {
        if (results[i].count > 0) print_row((work)i);
    }
}
