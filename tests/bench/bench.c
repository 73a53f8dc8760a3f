/* bench.c: memwal beside ordinary SQLite tables: the same rows, the same statements, one run.
**
** Every repeat measures each work on both sides, taking turns in who is first; the ratio of a
** work is the median over the repeats of the ratios inside them. README.md says what the works
** are and where the targets come from.
**
**   bench LIBRARY FOLDER [--rows N] [--repeats N] [--only W1,W3]
**
** The folder is emptied; it must lie on the disk that is to be measured. */
#include <pthread.h>

#include "counters.h"
#include "nothing.h"
#include "results.h"

enum {
    KEY_BYTES = 16,
    SHORT_BYTES = 24,
    LONG_BYTES = 60,
    DATA_BYTES = KEY_BYTES + 8 + 8 + SHORT_BYTES + LONG_BYTES, /* of one row: 116 */
    TRANSACTION_ROWS = 10000,
    RANGE_ROWS = 100,
    THREADS = 16,
    PATH_BYTES = PATH_MAX + 64,
    POOL_BYTES = 1 << 16,
};

/* ---- databases --------------------------------------------------------------------------- */

typedef enum kind { MEMWAL_TEXT, MEMWAL_INTEGER, ROWID, WITHOUT_ROWID, INTEGER } kind;

typedef struct side {
    kind kind;
    char folder[PATH_BYTES];
    sqlite3 *db;
} side;

static bool is_memwal(const side *s) { return s->kind == MEMWAL_TEXT || s->kind == MEMWAL_INTEGER; }

static void run(sqlite3 *db, const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) give_up("%s: %s", sql, error);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        give_up("%s: %s", sql, sqlite3_errmsg(db));
    }
    return statement;
}

static bool step(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) return rc == SQLITE_ROW;
    give_up("%s: %s", sqlite3_sql(statement), sqlite3_errmsg(sqlite3_db_handle(statement)));
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = prepare(db, sql);
    int64_t value = step(statement) ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    return value;
}

static sqlite3 *open_side(const side *s)
{
    sqlite3 *db = NULL;
    char *error = NULL;
    char file[PATH_BYTES + 16];
    snprintf(file, sizeof file, "%s/bench.db", s->folder);
    if (sqlite3_open(file, &db) != SQLITE_OK) give_up("%s: %s", file, sqlite3_errmsg(db));
    sqlite3_enable_load_extension(db, 1);
    if (sqlite3_load_extension(db, wanted.extension, NULL, &error) != SQLITE_OK) {
        give_up("%s", error);
    }
    sqlite3_busy_timeout(db, 60000);
    run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    return db;
}

#define COLUMNS     "a INTEGER, b REAL, c TEXT, d TEXT"
#define TEXT_KEY    "id TEXT PRIMARY KEY, " COLUMNS
#define INTEGER_KEY "id INTEGER PRIMARY KEY, " COLUMNS

/* A table of that kind in a folder of its own. What was written before is on disk. */
static side side_make(kind of)
{
    static const char *const create[] = {
        [MEMWAL_TEXT] = "CREATE VIRTUAL TABLE t USING memwal(" TEXT_KEY ")",
        [MEMWAL_INTEGER] = "CREATE VIRTUAL TABLE t USING memwal(" INTEGER_KEY ")",
        [ROWID] = "CREATE TABLE t(" TEXT_KEY ")",
        [WITHOUT_ROWID] = "CREATE TABLE t(" TEXT_KEY ") WITHOUT ROWID",
        [INTEGER] = "CREATE TABLE t(" INTEGER_KEY ")",
    };
    side s = {.kind = of};
    sync();
    snprintf(s.folder, sizeof s.folder, "%s/%d", wanted.folder, (int)of);
    empty_folder(s.folder);
    s.db = open_side(&s);
    run(s.db, create[of]);
    return s;
}

static void side_end(side *s)
{
    if (sqlite3_close(s->db) != SQLITE_OK) give_up("close: %s", sqlite3_errmsg(s->db));
    empty_folder(s->folder);
}

/* Everything in its final place: memwal in one level, SQLite in the database file. */
static void settle(const side *s)
{
    if (is_memwal(s)) {
        run(s->db, "SELECT memwal_flush('t')");
        while (ask(s->db, "SELECT memwal_merge('t')") > 0) continue;
    } else {
        run(s->db, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

/* ---- rows -------------------------------------------------------------------------------- */

/* splitmix64 (S. Vigna, public domain): the same rows on both sides and in every run. */
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static char pool[POOL_BYTES + LONG_BYTES];

static void fill_pool(void)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    for (size_t i = 0; i < sizeof pool; i++) pool[i] = digits[mix(i) % 64];
}

/* Half of the text is random, half is the same in many rows. */
static void put_text(char *to, size_t bytes, uint64_t random)
{
    static const char same[] =
        "the agent looks at the maze, turns left and goes on until the wall ends";
    size_t half = bytes / 2;
    memcpy(to, pool + random % POOL_BYTES, half);
    memcpy(to + half, same + (random >> 20) % 8, bytes - half);
}

static void put_key(char to[KEY_BYTES], uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = KEY_BYTES - 1; i >= 0; i--, number >>= 4) to[i] = digits[number & 15];
}

typedef enum order { RANDOM_ORDER, ASCENDING } order;

/* Id number i: of a random order of all ids, or the i-th. */
static uint64_t id_number(order of, int64_t i)
{
    return of == RANDOM_ORDER ? mix((uint64_t)i) : (uint64_t)i;
}

static void bind_key(const side *s, sqlite3_stmt *statement, char room[KEY_BYTES], uint64_t number)
{
    if (s->kind == MEMWAL_INTEGER || s->kind == INTEGER) {
        sqlite3_bind_int64(statement, 1, (int64_t)number);
        return;
    }
    put_key(room, number);
    sqlite3_bind_text(statement, 1, room, KEY_BYTES, SQLITE_STATIC);
}

/* Puts the row of an id; version makes another content of it. */
static void put_row(const side *s, sqlite3_stmt *insert, uint64_t number, uint64_t version)
{
    char key[KEY_BYTES];
    char text_short[SHORT_BYTES];
    char text_long[LONG_BYTES];
    uint64_t random = mix(number + version * 0x10001);
    put_text(text_short, sizeof text_short, random);
    put_text(text_long, sizeof text_long, random >> 16);
    bind_key(s, insert, key, number);
    sqlite3_bind_int64(insert, 2, (int64_t)(random >> 34));
    sqlite3_bind_double(insert, 3, (double)(random >> 40) / 7);
    sqlite3_bind_text(insert, 4, text_short, SHORT_BYTES, SQLITE_STATIC);
    sqlite3_bind_text(insert, 5, text_long, LONG_BYTES, SQLITE_STATIC);
    (void)step(insert);
    sqlite3_reset(insert);
}

static const char insert_sql[] = "INSERT INTO t VALUES(?1, ?2, ?3, ?4, ?5)";

/* ---- W1 ---------------------------------------------------------------------------------- */

/* A disk that others use is slow for seconds at a time: both sides take turns in short slices. */
enum {
    SLICES = 20,
    SLICE_PUTS = 250,
    PUTS = SLICES * SLICE_PUTS,
    THREAD_SLICES = 2,
    THREAD_SLICE_PUTS = 400,
};

typedef struct putter {
    side side;
    sqlite3_stmt *insert;
    double seconds;
    double each[PUTS];
} putter;

static void put_slice(putter *p, int slice)
{
    for (int i = slice * SLICE_PUTS; i < (slice + 1) * SLICE_PUTS; i++) {
        double began = now_s();
        put_row(&p->side, p->insert, id_number(RANDOM_ORDER, i), 0);
        p->each[i] = now_s() - began;
        p->seconds += p->each[i];
    }
}

static double p99_us(putter *p)
{
    qsort(p->each, PUTS, sizeof *p->each, by_size);
    return p->each[PUTS * 99 / 100] * 1e6;
}

static void measure_one_thread(bool memwal_first)
{
    static putter both[2];
    for (int i = 0; i < 2; i++) {
        both[i].side = side_make(i == 0 ? MEMWAL_TEXT : ROWID);
        both[i].insert = prepare(both[i].side.db, insert_sql);
        both[i].seconds = 0;
    }
    for (int i = 0; i < 2 * SLICES; i++) put_slice(&both[(i + memwal_first + 1) % 2], i / 2);
    note(W1_ONE, PUTS / both[0].seconds, PUTS / both[1].seconds);
    note(W1_P99, p99_us(&both[0]), p99_us(&both[1]));
    for (int i = 0; i < 2; i++) {
        sqlite3_finalize(both[i].insert);
        side_end(&both[i].side);
    }
}

typedef struct writer {
    pthread_t thread;
    pthread_barrier_t *start;
    const side *side;
    int number; /* differs between all writers of a store */
} writer;

static void *write_rows(void *arg)
{
    const writer *self = arg;
    side own = *self->side;
    own.db = open_side(self->side);
    if (is_memwal(&own)) {
        char sql[PATH_BYTES + 128];
        snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')",
                 own.folder);
        run(own.db, sql);
    }
    sqlite3_stmt *insert = prepare(own.db, insert_sql);
    pthread_barrier_wait(self->start);
    for (int i = 0; i < THREAD_SLICE_PUTS; i++) {
        put_row(&own, insert, mix((uint64_t)(self->number * THREAD_SLICE_PUTS + i)), 0);
    }
    sqlite3_finalize(insert);
    sqlite3_close(own.db);
    return NULL;
}

/* Seconds of one slice, from the moment when all have connected. */
static double threads_put(const side *s, int slice)
{
    writer writers[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (writer){.start = &start, .side = s, .number = slice * THREADS + i};
        if (pthread_create(&writers[i].thread, NULL, write_rows, &writers[i])) give_up("no thread");
    }
    pthread_barrier_wait(&start);
    double began = now_s();
    for (int i = 0; i < THREADS; i++) pthread_join(writers[i].thread, NULL);
    double seconds = now_s() - began;
    pthread_barrier_destroy(&start);
    return seconds;
}

/* The store that the temp tables of the threads share. */
static void make_shared_store(const side *s)
{
    char sql[PATH_BYTES + 256];
    snprintf(sql, sizeof sql,
             "CREATE VIRTUAL TABLE temp.t USING memwal(" TEXT_KEY ", path = '%s/store')",
             s->folder);
    run(s->db, sql);
    (void)ask(s->db, "SELECT memwal_count('temp.t')"); /* keeps the engine and its figures open */
}

static double shared_figure(const side *s, const char *name)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT value FROM memwal_stats('temp.t') WHERE name = '%s'", name);
    return (double)ask(s->db, sql);
}

static void measure_many_threads(bool memwal_first)
{
    double seconds[2] = {0, 0};
    double puts = THREADS * THREAD_SLICES * THREAD_SLICE_PUTS;
    side sides[2] = {side_make(MEMWAL_TEXT), side_make(ROWID)};
    make_shared_store(&sides[0]);
    for (int i = 0; i < 2 * THREAD_SLICES; i++) {
        int at = (i + memwal_first + 1) % 2;
        seconds[at] += threads_put(&sides[at], i / 2);
    }
    note(W1_SIXTEEN, puts / seconds[0], puts / seconds[1]);
    note(W1_SYNCS, shared_figure(&sides[0], "wal_syncs") / shared_figure(&sides[0], "commits"), 1);
    for (int i = 0; i < 2; i++) side_end(&sides[i]);
}

/* ---- W2 ---------------------------------------------------------------------------------- */

typedef struct load_cost {
    double rate;
    written bytes;
} load_cost;

static void load_rows(const side *s, order of)
{
    sqlite3_stmt *insert = prepare(s->db, insert_sql);
    for (int64_t i = 0; i < wanted.rows; i++) {
        if (i % TRANSACTION_ROWS == 0) run(s->db, i ? "COMMIT; BEGIN" : "BEGIN");
        put_row(s, insert, id_number(of, i), 0);
    }
    run(s->db, "COMMIT");
    sqlite3_finalize(insert);
}

static load_cost measure_load(const side *s, order of)
{
    written before = look_at_counters(wanted.folder);
    double began = now_s();
    load_rows(s, of);
    settle(s);
    double rate = (double)wanted.rows / (now_s() - began);
    return (load_cost){rate, since(&before, wanted.folder)};
}

static void measure_random_load(const side sides[2], bool memwal_first)
{
    load_cost costs[2];
    double data = (double)wanted.rows * DATA_BYTES;
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        costs[at] = measure_load(&sides[at], RANDOM_ORDER);
    }
    note(W2_RANDOM, costs[0].rate, costs[1].rate);
    note(W2_WRITTEN, costs[0].bytes.disk / data, costs[1].bytes.disk / data);
    note(W2_OWN_WRITES, costs[0].bytes.process / data, costs[1].bytes.process / data);
    note(W2_DISK, bytes_on_disk(sides[0].folder) / data, bytes_on_disk(sides[1].folder) / data);
}

static void measure_ascending_load(work of, kind memwal, kind other, bool memwal_first)
{
    double rates[2];
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        side s = side_make(at == 0 ? memwal : other);
        rates[at] = measure_load(&s, ASCENDING).rate;
        side_end(&s);
    }
    note(of, rates[0], rates[1]);
}

/* ---- W3 ---------------------------------------------------------------------------------- */

typedef enum reading { HIT, MISS } reading;

/* Rate of reads of one column by id. */
static double point_reads(const side *s, reading what, bool inside, int count)
{
    char key[KEY_BYTES];
    sqlite3_stmt *read = prepare(s->db, "SELECT a FROM t WHERE id = ?1");
    if (inside) run(s->db, "BEGIN");
    double began = now_s();
    for (int i = 0; i < count; i++) {
        int64_t drawn = (int64_t)(mix((uint64_t)i + 77) % (uint64_t)wanted.rows);
        bind_key(s, read, key, id_number(RANDOM_ORDER, drawn) + (what == MISS));
        if (step(read) != (what == HIT)) give_up("row %" PRId64 " is not as it should be", drawn);
        sqlite3_reset(read);
    }
    double rate = count / (now_s() - began);
    if (inside) run(s->db, "COMMIT");
    sqlite3_finalize(read);
    return rate;
}

static void measure_point_reads(const side sides[2], bool memwal_first)
{
    static const struct {
        work of;
        reading what;
        bool inside;
    } kinds[] = {{W3_HIT, HIT, false}, {W3_HIT_INSIDE, HIT, true}, {W3_MISS, MISS, true}};
    enum { COUNT = 100000 };
    double rates[2];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int i = 0; i < 2; i++) {
            int at = memwal_first ? i : 1 - i;
            (void)point_reads(&sides[at], kinds[k].what, kinds[k].inside, COUNT / 5); /* warm up */
            rates[at] = point_reads(&sides[at], kinds[k].what, kinds[k].inside, COUNT);
        }
        note(kinds[k].of, rates[0], rates[1]);
    }
}

/* ---- W4 ---------------------------------------------------------------------------------- */

/* Seconds of the second of two runs of a query; right < 0: whatever it answers. */
static double time_of(sqlite3 *db, const char *sql, int64_t right)
{
    double began = 0;
    for (int i = 0; i < 2; i++) {
        began = now_s();
        int64_t answer = ask(db, sql);
        if (right >= 0 && answer != right) give_up("%s: %" PRId64, sql, answer);
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

static void measure_scans(const side sides[2], bool memwal_first)
{
    double counts[2];
    double sums[2];
    double all[2];
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        counts[at] = time_of(sides[at].db, "SELECT count(*) FROM t", wanted.rows);
        sums[at] = time_of(sides[at].db, "SELECT sum(a) FROM t", -1);
        all[at] = time_of_all_columns(sides[at].db);
    }
    double rows = (double)wanted.rows;
    double hollow = time_of(sides[0].db, "SELECT count(*) FROM hollow", wanted.rows);
    note(W4_FUNCTION, time_of_count_function(sides[0].db), counts[1] * 1e6);
    note(W4_COUNT, counts[0], hollow);
    note(W4_SUM, rows / sums[0], rows / sums[1]);
    note(W4_ALL, rows / all[0], rows / all[1]);
}

/* ---- W5 ---------------------------------------------------------------------------------- */

static double range_reads(const side *s, int count)
{
    char key[KEY_BYTES];
    sqlite3_stmt *read =
        prepare(s->db, "SELECT id, a, b, c, d FROM t WHERE id >= ?1 ORDER BY id LIMIT 100");
    double began = now_s();
    for (int i = 0; i < count; i++) {
        int rows = 0;
        bind_key(s, read, key, mix((uint64_t)i + 991) >> 1); /* half of all ids lie behind it */
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
    side s = side_make(WITHOUT_ROWID);
    char sql[PATH_BYTES + 64];
    snprintf(sql, sizeof sql, "ATTACH '%s/bench.db' AS source", from->folder);
    run(s.db, sql);
    run(s.db, "INSERT INTO t SELECT * FROM source.t ORDER BY id; DETACH source");
    settle(&s);
    return s;
}

static void measure_ranges(const side sides[2], bool memwal_first)
{
    enum { COUNT = 5000 };
    double rates[2];
    side clustered = make_clustered(&sides[1]);
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        const side *s = at == 0 ? &sides[0] : &clustered;
        (void)range_reads(s, COUNT / 5);
        rates[at] = range_reads(s, COUNT);
    }
    note(W5_RANGES, rates[0], rates[1]);
    side_end(&clustered);
}

/* ---- W7 ---------------------------------------------------------------------------------- */

static void check_count(sqlite3 *db)
{
    int64_t count = ask(db, "SELECT memwal_count('t')");
    if (count != wanted.rows) give_up("memwal_count says %" PRId64, count);
}

/* Rows drawn at random once more. SQLite is not asked for the count, which would be a scan. */
static load_cost overwrite(const side *s, int64_t count)
{
    sqlite3_stmt *replace = prepare(s->db, "REPLACE INTO t VALUES(?1, ?2, ?3, ?4, ?5)");
    written before = look_at_counters(wanted.folder);
    double began = now_s();
    for (int64_t i = 0; i < count; i++) {
        if (i % TRANSACTION_ROWS == 0) {
            run(s->db, i ? "COMMIT; BEGIN" : "BEGIN");
            if (is_memwal(s)) check_count(s->db);
        }
        int64_t drawn = (int64_t)(mix((uint64_t)i + 5555) % (uint64_t)wanted.rows);
        put_row(s, replace, id_number(RANDOM_ORDER, drawn), 1);
    }
    run(s->db, "COMMIT");
    settle(s);
    double rate = (double)count / (now_s() - began);
    sqlite3_finalize(replace);
    return (load_cost){rate, since(&before, wanted.folder)};
}

static void measure_overwrites(const side sides[2], bool memwal_first)
{
    load_cost costs[2];
    int64_t count = wanted.rows / 2;
    double data = (double)count * DATA_BYTES;
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        costs[at] = overwrite(&sides[at], count);
    }
    note(W7_OVERWRITE, costs[0].rate, costs[1].rate);
    note(W7_WRITTEN, costs[0].bytes.disk / data, costs[1].bytes.disk / data);
    if (ask(sides[0].db, "SELECT count(*) FROM t") != wanted.rows) give_up("the count is wrong");
}

/* ---- all of them ------------------------------------------------------------------------- */

static void measure_big_tables(bool memwal_first)
{
    side sides[2] = {side_make(MEMWAL_TEXT), side_make(ROWID)};
    nothing_register(sides[0].db, &wanted.rows);
    measure_random_load(sides, memwal_first);
    if (is_wanted(W3_HIT)) measure_point_reads(sides, memwal_first);
    if (is_wanted(W4_SUM)) measure_scans(sides, memwal_first);
    if (is_wanted(W5_RANGES)) measure_ranges(sides, memwal_first);
    if (is_wanted(W7_OVERWRITE)) measure_overwrites(sides, memwal_first);
    for (int i = 0; i < 2; i++) side_end(&sides[i]);
}

static void measure_all(bool memwal_first)
{
    if (is_wanted(W1_ONE)) measure_one_thread(memwal_first);
    if (is_wanted(W1_SIXTEEN)) measure_many_threads(memwal_first);
    if (is_wanted(W2_SEQUENTIAL)) {
        measure_ascending_load(W2_SEQUENTIAL, MEMWAL_TEXT, ROWID, memwal_first);
        measure_ascending_load(W2_INTEGER, MEMWAL_INTEGER, INTEGER, memwal_first);
    }
    if (!wanted.only || strpbrk(wanted.only, "23457")) measure_big_tables(memwal_first);
}

static void read_options(int argc, char **argv)
{
    if (argc < 3) give_up("bench LIBRARY FOLDER [--rows N] [--repeats N] [--only W1,W3]");
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rows") == 0) {
            wanted.rows = atoll(argv[i + 1]);
        } else if (strcmp(argv[i], "--repeats") == 0) {
            wanted.repeats = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--only") == 0) {
            wanted.only = argv[i + 1];
        } else {
            give_up("unknown option %s: expected --rows, --repeats or --only", argv[i]);
        }
    }
    if (argc % 2 == 0) give_up("%s: expected a value", argv[argc - 1]);
    if (wanted.rows < 10000) give_up("--rows: expected 10000 or more");
    if (wanted.repeats < 1 || wanted.repeats > REPEATS_MAX) {
        give_up("--repeats: expected 1 to %d", REPEATS_MAX);
    }
    if (!realpath(argv[1], wanted.extension)) give_up("%s: %s", argv[1], strerror(errno));
    empty_folder(argv[2]);
    if (!realpath(argv[2], wanted.folder)) give_up("%s: %s", argv[2], strerror(errno));
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    fill_pool();
    for (int i = 0; i < wanted.repeats; i++) {
        fprintf(stderr, "repeat %d of %d\n", i + 1, wanted.repeats);
        measure_all(i % 2 == 0);
    }
    print_table();
    empty_folder(wanted.folder);
    return 0;
}
