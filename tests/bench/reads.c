/* reads.c: W3, W4 and W5: reading ids, whole tables and ranges. */
#include "reads.h"

#include "nothing.h"

#include <stdio.h>

enum { RANGE_ROWS = 100 };

/* What this process has written so far; reading should add nothing. */
static double bytes_written(void) { return look_at_counters(wanted.folder).process; }

/* ---- W3 ---------------------------------------------------------------------------------- */

typedef enum reading { HIT, MISS } reading;

/* Rate of reads of one column by id. */
static double point_reads(const side *s, reading what, bool inside, int count)
{
    char key[ROW_KEY_BYTES];
    sqlite3_stmt *read = prepare(s->db, "SELECT a FROM t WHERE id = ?1");
    if (inside) run(s->db, "BEGIN");
    double began = now_s();
    for (int i = 0; i < count; i++) {
        int64_t drawn = (int64_t)(row_mix((uint64_t)i + 77) % (uint64_t)wanted.rows);
        bind_key(s, read, key, id_number(RANDOM_ORDER, drawn) + (what == MISS));
        if (step(read) != (what == HIT)) give_up("row %" PRId64 " is not as it should be", drawn);
        sqlite3_reset(read);
    }
    double rate = count / (now_s() - began);
    if (inside) run(s->db, "COMMIT");
    sqlite3_finalize(read);
    return rate;
}

void measure_point_reads(const side sides[2], bool memwal_first)
{
    static const struct {
        work of;
        reading what;
        bool inside;
    } kinds[] = {{W3_HIT, HIT, false}, {W3_HIT_INSIDE, HIT, true}, {W3_MISS, MISS, true}};
    enum { COUNT = 100000 };
    double rates[2];
    double bytes[2] = {0, 0};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int i = 0; i < 2; i++) {
            int at = memwal_first ? i : 1 - i;
            bytes[at] -= bytes_written();
            (void)point_reads(&sides[at], kinds[k].what, kinds[k].inside, COUNT / 5); /* warm up */
            rates[at] = point_reads(&sides[at], kinds[k].what, kinds[k].inside, COUNT);
            bytes[at] += bytes_written();
        }
        note(kinds[k].of, rates[0], rates[1]);
    }
    note(W3_WRITTEN, bytes[0], bytes[1]);
}

/* ---- W4 ---------------------------------------------------------------------------------- */

/* Seconds of the second of two runs of a query that must give that number. */
static double time_of(sqlite3 *db, const char *sql, int64_t right)
{
    double began = 0;
    for (int i = 0; i < 2; i++) {
        began = now_s();
        int64_t answer = ask(db, sql);
        if (answer != right) give_up("%s: %" PRId64 ", not %" PRId64, sql, answer, right);
    }
    return now_s() - began;
}

static double time_of_count_function(sqlite3 *db)
{
    enum { CALLS = 20000 };
    sqlite3_stmt *count = prepare(db, "SELECT memwal_count('t')");
    double began = now_s();
    for (int i = 0; i < CALLS; i++) {
        bool right = step(count) && sqlite3_column_int64(count, 0) == wanted.rows;
        if (!right) give_up("the count is wrong");
        sqlite3_reset(count);
    }
    double us = (now_s() - began) * 1e6 / CALLS;
    sqlite3_finalize(count);
    return us;
}

static double time_of_all_columns(sqlite3 *db)
{
    double began = 0;
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *rows = prepare(db, "SELECT id, a, b, c, d FROM t");
        int64_t count = 0;
        began = now_s();
        for (; step(rows); count++) {
            bytes += sqlite3_column_text(rows, 0)[0] + sqlite3_column_int64(rows, 1);
            bytes += sqlite3_column_double(rows, 2) > 0;
            bytes += sqlite3_column_text(rows, 3)[0] + sqlite3_column_text(rows, 4)[0];
        }
        if (count != wanted.rows || bytes == 0) give_up("a scan shows %" PRId64 " rows", count);
        sqlite3_finalize(rows);
    }
    return now_s() - began;
}

static const char count_sql[] = "SELECT count(*) FROM t";
static const char sum_sql[] = "SELECT sum(a) FROM t";

void measure_scans(const side sides[2], bool memwal_first)
{
    double counts[2];
    double sums[2];
    double all[2];
    double bytes[2];
    const double rows = (double)wanted.rows;
    int64_t sum = ask(sides[1].db, sum_sql);
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        double before = bytes_written();
        counts[at] = time_of(sides[at].db, count_sql, wanted.rows);
        sums[at] = time_of(sides[at].db, sum_sql, sum);
        all[at] = time_of_all_columns(sides[at].db);
        bytes[at] = bytes_written() - before;
    }
    nothing_register(sides[0].db, &wanted.rows);
    double hollow = time_of(sides[0].db, "SELECT count(*) FROM hollow", wanted.rows);
    note(W4_FUNCTION, time_of_count_function(sides[0].db), counts[1] * 1e6);
    note(W4_COUNT, counts[0], hollow);
    note(W4_SUM, rows / sums[0], rows / sums[1]);
    note(W4_ALL, rows / all[0], rows / all[1]);
    note(W4_WRITTEN, bytes[0], bytes[1]);
}

void measure_json_sum(const side sides[2], bool memwal_first)
{
    double sums[2];
    const double rows = (double)wanted.json_rows;
    int64_t sum = ask(sides[1].db, sum_sql);
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        sums[at] = time_of(sides[at].db, sum_sql, sum);
    }
    note(W4_SUM_JSON, rows / sums[0], rows / sums[1]);
}

/* ---- W5 ---------------------------------------------------------------------------------- */

static double range_reads(const side *s, int count)
{
    char key[ROW_KEY_BYTES];
    sqlite3_stmt *read =
        prepare(s->db, "SELECT id, a, b, c, d FROM t WHERE id >= ?1 ORDER BY id LIMIT 100");
    double began = now_s();
    for (int i = 0; i < count; i++) {
        int rows = 0;
        bind_key(s, read, key, row_mix((uint64_t)i + 991) >> 1); /* half of all ids lie behind it */
        for (; step(read); rows++) (void)sqlite3_column_text(read, 4);
        if (rows != RANGE_ROWS) give_up("a range of %d rows", rows);
        sqlite3_reset(read);
    }
    double rate = count / (now_s() - began);
    sqlite3_finalize(read);
    return rate;
}

/* The rows of an ordinary table in a clustered one, packed as well as can be. */
static side make_clustered(const side *from)
{
    side s = side_make(WITHOUT_ROWID, ROW_SMALL);
    char sql[PATH_BYTES + 64];
    snprintf(sql, sizeof sql, "ATTACH '%s/bench.db' AS source", from->folder);
    run(s.db, sql);
    run(s.db, "INSERT INTO t SELECT * FROM source.t ORDER BY id; DETACH source");
    settle(&s);
    return s;
}

void measure_ranges(const side sides[2], bool memwal_first)
{
    enum { COUNT = 5000 };
    double rates[2];
    double bytes[2];
    side clustered = make_clustered(&sides[1]);
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        const side *s = at == 0 ? &sides[0] : &clustered;
        double before = bytes_written();
        (void)range_reads(s, COUNT / 5);
        rates[at] = range_reads(s, COUNT);
        bytes[at] = bytes_written() - before;
    }
    note(W5_RANGES, rates[0], rates[1]);
    note(W5_WRITTEN, bytes[0], bytes[1]);
    side_end(&clustered);
}
