/* loads.c: W2, W6 and W7: what many rows cost, in time, in bytes written and in bytes on disk. */
#include "reads.h"
#include "sides.h"
#include "works.h"

#include <stdio.h>

typedef struct cost {
    double rate;       /* rows/s, settled               */
    double settling_s; /* after the last commit        */
    double last_tenth; /* its speed / the first tenth's */
    double data;       /* bytes put                     */
    double largest;    /* bytes on disk, at most        */
    double disk;       /* and in the end                */
    double memory_mb;  /* of the process, at most       */
    written written;
} cost;

/* What is put, and how. */
typedef struct load {
    const char *sql;
    int64_t count;
    uint64_t (*number)(int64_t i);
    uint64_t version;
    void (*between)(const side *s, cost *sum); /* transactions; NULL: nothing is done there */
} load;

static void put_rows(const side *s, const load *what, cost *sum)
{
    double began = now_s();
    double first = 0;
    double last = began;
    sqlite3_stmt *put = prepare(s->db, what->sql);
    for (int64_t i = 0; i < what->count; i++) {
        if (i == what->count / 10) first = now_s() - began;
        if (i == what->count - what->count / 10) last = now_s();
        if (i % TRANSACTION_ROWS == 0) {
            run(s->db, i ? "COMMIT; BEGIN" : "BEGIN");
            if (what->between) what->between(s, sum);
        }
        sum->data += (double)put_row(s, put, what->number(i), what->version);
    }
    run(s->db, "COMMIT");
    sum->last_tenth = first / (now_s() - last);
    sqlite3_finalize(put);
}

static cost measure_load(const side *s, const load *what)
{
    cost sum = {0};
    memory_watch();
    written before = look_at_settled_counters(wanted.folder);
    double began = now_s();
    put_rows(s, what, &sum);
    double loaded = now_s();
    settle(s);
    sum.settling_s = now_s() - loaded;
    sum.rate = (double)what->count / (now_s() - began);
    written after = look_at_settled_counters(wanted.folder);
    sum.written = written_between(&before, &after);
    sum.memory_mb = memory_peak_mb();
    sum.disk = bytes_on_disk(s->folder);
    return sum;
}

static void measure_loads(const side sides[2], const load *what, bool memwal_first, cost costs[2])
{
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        costs[at] = measure_load(&sides[at], what);
    }
}

static void note_bytes(work of_written, work of_disk, const cost costs[2])
{
    note(of_written, costs[0].written.disk / costs[0].data, costs[1].written.disk / costs[1].data);
    note(of_disk, costs[0].disk / costs[0].data, costs[1].disk / costs[1].data);
}

static uint64_t random_number(int64_t i) { return id_number(RANDOM_ORDER, i); }
static uint64_t ascending_number(int64_t i) { return id_number(ASCENDING, i); }

/* ---- W2 ---------------------------------------------------------------------------------- */

static void measure_random_load(const side sides[2], bool memwal_first)
{
    cost costs[2];
    const load all = {.sql = insert_sql, .count = wanted.rows, .number = random_number};
    measure_loads(sides, &all, memwal_first, costs);
    note(W2_RANDOM, costs[0].rate, costs[1].rate);
    note(W2_LAST_TENTH, costs[0].last_tenth, costs[1].last_tenth);
    note(W2_SETTLING, costs[0].settling_s, costs[1].settling_s);
    note_bytes(W2_WRITTEN, W2_DISK, costs);
    note(W2_OWN_WRITES, costs[0].written.process / costs[0].data,
         costs[1].written.process / costs[1].data);
    note(W2_MEMORY, costs[0].memory_mb, costs[1].memory_mb);
}

static void measure_ascending_load(work of, kind memwal, kind other, bool memwal_first)
{
    cost costs[2];
    const load all = {.sql = insert_sql, .count = wanted.rows, .number = ascending_number};
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        side s = side_make(at == 0 ? memwal : other, ROW_SMALL);
        costs[at] = measure_load(&s, &all);
        side_end(&s);
    }
    note(of, costs[0].rate, costs[1].rate);
    note_bytes(of + 1, of + 2, costs);
}

void measure_ascending_loads(bool memwal_first)
{
    measure_ascending_load(W2_SEQUENTIAL, MEMWAL_TEXT, ROWID, memwal_first);
    measure_ascending_load(W2_INTEGER, MEMWAL_INTEGER, INTEGER, memwal_first);
}

/* ---- W6 ---------------------------------------------------------------------------------- */

static bool has_function(sqlite3 *db, const char *name)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pragma_function_list WHERE name = '%s'", name);
    return ask(db, sql) > 0;
}

/* As small as it gets. Seconds. */
static double compact(const side *s)
{
    double began = now_s();
    if (!is_memwal(s)) {
        run(s->db, "VACUUM");
    } else if (has_function(s->db, "memwal_compact")) {
        run(s->db, "SELECT memwal_compact('t')");
    }
    settle(s);
    return now_s() - began;
}

void measure_json_rows(bool memwal_first)
{
    cost costs[2];
    double seconds[2];
    double per_byte[2];
    side sides[2] = {side_make(MEMWAL_TEXT, ROW_JSON), side_make(ROWID, ROW_JSON)};
    const load all = {.sql = insert_sql, .count = wanted.json_rows, .number = random_number};
    measure_loads(sides, &all, memwal_first, costs);
    for (int i = 0; i < 2; i++) {
        seconds[i] = compact(&sides[i]);
        per_byte[i] = bytes_on_disk(sides[i].folder) / costs[i].data;
    }
    note(W6_LOAD, costs[0].rate, costs[1].rate);
    note(W6_SETTLING, costs[0].settling_s, costs[1].settling_s);
    note_bytes(W6_WRITTEN, W6_LOADED_DISK, costs);
    note(W6_MEMORY, costs[0].memory_mb, costs[1].memory_mb);
    note(W6_DISK, per_byte[0], per_byte[1]);
    note(W6_COMPACT, seconds[0], seconds[1]);
    if (is_wanted(W4_SUM_JSON)) measure_json_sum(sides, memwal_first);
    for (int i = 0; i < 2; i++) side_end(&sides[i]);
}

/* ---- W7 ---------------------------------------------------------------------------------- */

static uint64_t drawn_number(int64_t i)
{
    return id_number(RANDOM_ORDER, (int64_t)(row_mix((uint64_t)i + 5555) % (uint64_t)wanted.rows));
}

/* SQLite is not asked for the count, which would be a scan. */
static void look_between(const side *s, cost *sum)
{
    double now = bytes_on_disk(s->folder);
    if (now > sum->largest) sum->largest = now;
    if (!is_memwal(s)) return;
    int64_t count = ask(s->db, "SELECT memwal_count('t')");
    if (count != wanted.rows) give_up("memwal_count says %" PRId64, count);
}

static void measure_overwrites(const side sides[2], bool memwal_first)
{
    cost costs[2];
    const double live = (double)wanted.rows * ROW_SMALL_BYTES;
    const load half = {.sql = replace_sql,
                       .count = wanted.rows / 2,
                       .number = drawn_number,
                       .version = 1,
                       .between = look_between};
    measure_loads(sides, &half, memwal_first, costs);
    note(W7_OVERWRITE, costs[0].rate, costs[1].rate);
    note(W7_WRITTEN, costs[0].written.disk / costs[0].data, costs[1].written.disk / costs[1].data);
    note(W7_LARGEST, costs[0].largest / live, costs[1].largest / live);
    note(W7_DISK, costs[0].disk / live, costs[1].disk / live);
    if (ask(sides[0].db, "SELECT count(*) FROM t") != wanted.rows) give_up("the count is wrong");
}

void measure_small_rows(bool memwal_first)
{
    side sides[2] = {side_make(MEMWAL_TEXT, ROW_SMALL), side_make(ROWID, ROW_SMALL)};
    measure_random_load(sides, memwal_first);
    for (int i = 0; i < 2; i++) pack(&sides[i]);
    if (is_wanted(W3_HIT)) measure_point_reads(sides, memwal_first);
    if (is_wanted(W4_SUM)) measure_scans(sides, memwal_first);
    if (is_wanted(W5_RANGES)) measure_ranges(sides, memwal_first);
    if (is_wanted(W7_OVERWRITE)) measure_overwrites(sides, memwal_first);
    for (int i = 0; i < 2; i++) side_end(&sides[i]);
}
