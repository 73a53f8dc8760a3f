/* processes_test.c: one database file, or one store, in the hands of many processes: all rows there,
** each once, no answer but BUSY after its time; killed and stopped at random; turns without a claim;
** and what looking for news costs.
**
**   processes_test                   all tests
**   processes_test --seed SEED       with the random moments of one run again
**   processes_test --worker ...      is started by the tests
**
** PROCESSES_COMMITS=n   commits of each process; PROCESSES_KILLS=n   kills of each kind */
#include "client.h"

#include <fcntl.h>

enum {
    PATH_BYTES = PATH_MAX + 64,
    PROCESSES = 8,
    COMMITS = 2000,
    KILLS = 60,
    SQL_BYTES = PATH_MAX + 256
};

static uint64_t seed;
static char folder[PATH_MAX];
static char database[PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    client_folder_make(folder);
    snprintf(database, sizeof database, "%s/test.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    client_folder_remove(folder);
    return 0;
}

static long knob(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && atol(text) > 0 ? atol(text) : otherwise;
}

/* temp: the table in temp that has the same store, which takes no lock of the file. */
static sqlite3 *open_table(bool temp)
{
    sqlite3 *db = client_open(database);
    if (temp) client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    return db;
}

static sqlite3 *make_table(const char *options)
{
    sqlite3 *db = client_open(database);
    client_run(db,
               "PRAGMA journal_mode = WAL;"
               "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, n, path = 'store'%s);"
               "CREATE TABLE o(id TEXT PRIMARY KEY)",
               options);
    return db;
}

/* ---- workers --------------------------------------------------------------------------------- */

/* One commit: of t alone, or, every tenth one, together with an ordinary table. */
static void put(sqlite3 *db, const char *name, long i, bool together)
{
    if (together && i % 10 == 0) {
        client_run(db,
                   "BEGIN IMMEDIATE; INSERT INTO t VALUES ('%s-%ld', %ld);"
                   "INSERT INTO o VALUES ('%s-%ld'); COMMIT",
                   name, i, i, name, i);
    } else {
        client_run(db, "INSERT INTO t VALUES ('%s-%ld', %ld)", name, i, i);
    }
}

/* --worker write FOLDER NAME KIND COMMITS: a byte for each commit; COMMITS 0: until killed. */
static int write_worker(char **arguments)
{
    bool temp = strcmp(arguments[2], "temp") == 0;
    long commits = atol(arguments[3]);
    sqlite3 *db = open_table(temp);
    for (long i = 0; commits == 0 || i < commits; i++) {
        put(db, arguments[1], i, !temp);
        if (!client_write_all(STDOUT_FILENO, "x", 1)) break;
        if (i % 50 == 0) client_ask(db, "SELECT count(*) = memwal_count('t') FROM t");
    }
    client_close(db);
    return 0;
}

/* --worker read FOLDER: ten thousand point reads between two calls that strace shows. */
static int read_worker(void)
{
    sqlite3 *db = open_table(true);
    sqlite3_stmt *read = client_prepare(db, "SELECT n FROM t WHERE id = 'a-' || ?1");
    for (int i = -100; i < 10000; i++) {
        if (i == 0) (void)!access("/begin-reads", F_OK);
        sqlite3_bind_int(read, 1, i & 63);
        if (!client_step(read)) client_fail("no row");
        sqlite3_reset(read);
    }
    (void)!access("/end-reads", F_OK);
    client_finalize(read);
    client_close(db);
    return 0;
}

/* --worker count FOLDER COMMITS: a counter that stands on both sides. */
static int count_worker(char **arguments)
{
    long commits = atol(arguments[1]);
    sqlite3 *db = open_table(false);
    for (long i = 0; i < commits; i++) {
        client_run(db, "BEGIN IMMEDIATE");
        if (!client_ask(db, "SELECT (SELECT n FROM t) = (SELECT n FROM c)"))
            client_fail("one half");
        client_run(db, "UPDATE t SET n = n + 1; UPDATE c SET n = n + 1; COMMIT");
    }
    client_close(db);
    return 0;
}

static client_worker start(const char *name, const char *kind, long commits)
{
    char number[32];
    snprintf(number, sizeof number, "%ld", commits);
    const char *const arguments[] = {
        client_own_program(), "--worker", "write", folder, name, kind, number, NULL};
    return client_worker_start(arguments);
}

/* Reads what it has acknowledged, to its end. */
static int64_t drain(client_worker *worker)
{
    char bytes[4096];
    int64_t acknowledged = 0;
    ssize_t got;
    while ((got = read(worker->from, bytes, sizeof bytes)) != 0) {
        if (got < 0 && errno != EINTR) client_fail("reading: %s", strerror(errno));
        if (got > 0) acknowledged += got;
    }
    return acknowledged;
}

/* ---- eight writers --------------------------------------------------------------------------- */

static void write_by_many(const char *kind)
{
    long commits = knob("PROCESSES_COMMITS", COMMITS);
    client_worker workers[PROCESSES];
    sqlite3 *db = make_table("");
    client_run(db, "INSERT INTO t VALUES ('first', 0)");
    for (int i = 0; i < PROCESSES; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        workers[i] = start(name, kind, commits);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(drain(&workers[i]), commits);
        client_worker_finish(&workers[i]);
    }
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), PROCESSES * commits + 1);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), PROCESSES * commits + 1);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM o WHERE id NOT IN (SELECT id FROM t)"),
                     0);
    assert_int_equal(client_figure(db, "epoch"), 1);
    client_check_store(db);
    client_close(db);
}

static void eight_processes_write_one_database_file(void **state)
{
    (void)state;
    write_by_many("file");
}

static void eight_processes_write_one_store_through_temp(void **state)
{
    (void)state;
    write_by_many("temp");
}

/* I12, seen from beside: with a rollback journal a commit lets go of the database file before its rows
** in the store are decided. */
static void who_has_the_file_sees_both_halves(void **state)
{
    enum { COUNTERS = 3, COUNTS = 300 };
    (void)state;
    char number[16];
    client_worker workers[COUNTERS];
    snprintf(number, sizeof number, "%d", COUNTS);
    const char *const arguments[] = {
        client_own_program(), "--worker", "count", folder, number, NULL};
    sqlite3 *db = make_table("");
    client_run(db, "PRAGMA journal_mode = DELETE; CREATE TABLE c(n); INSERT INTO c VALUES (0);"
                   "INSERT INTO t VALUES ('c', 0)");
    for (int i = 0; i < COUNTERS; i++) workers[i] = client_worker_start(arguments);
    for (int i = 0; i < COUNTERS; i++) client_worker_finish(&workers[i]);
    assert_int_equal(client_ask(db, "SELECT n FROM t"), COUNTERS * COUNTS);
    assert_int_equal(client_ask(db, "SELECT n FROM c"), COUNTERS * COUNTS);
    client_close(db);
}

/* ---- killed ---------------------------------------------------------------------------------- */

typedef struct life {
    client_worker worker;
    char name[32];
} life;

static void begin_life(life *of, int number, const char *kind)
{
    snprintf(of->name, sizeof of->name, "k%d", number);
    of->worker = start(of->name, kind, 0);
}

/* Kills it; all that it has acknowledged must be there, and at most one row more. */
static void end_life(life *of, sqlite3 *db)
{
    char sql[SQL_BYTES];
    kill(of->worker.pid, SIGKILL);
    int64_t acknowledged = drain(&of->worker);
    (void)client_worker_wait(&of->worker);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM t WHERE id >= '%s-' AND id < '%s.'", of->name,
             of->name);
    int64_t rows = client_ask(db, sql);
    if (rows < acknowledged || rows > acknowledged + 1) {
        client_fail("%s: %" PRId64 " rows, %" PRId64 " acknowledged; --seed %" PRIu64, of->name,
                    rows, acknowledged, seed);
    }
}

/* I1 I8 I12, in every process's absence. Small limits: flushes and merges are cut as well. */
static void kill_at_random(const char *kind)
{
    enum { LIVES = 4 };
    uint64_t random = seed;
    life lives[LIVES];
    int born = 0;
    long kills = knob("PROCESSES_KILLS", KILLS);
    sqlite3 *db = make_table(", memtable = '64KB', merge_generations = 2");
    for (int i = 0; i < LIVES; i++) begin_life(&lives[i], born++, kind);
    for (long i = 0; i < kills; i++) {
        life *next = &lives[client_pick(&random, LIVES)];
        client_sleep_us(client_pick(&random, 120000));
        end_life(next, db);
        begin_life(next, born++, kind);
    }
    for (int i = 0; i < LIVES; i++) end_life(&lives[i], db);
    assert_int_equal(client_ask(db, "SELECT count(*) = memwal_count('t') FROM t"), 1);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM o WHERE id NOT IN (SELECT id FROM t)"),
                     0);
    assert_int_equal(
        client_ask(db, "SELECT count(*) FROM t WHERE n % 10 = 0 AND id LIKE 'k%'"
                       " AND id NOT IN (SELECT id FROM o)"),
        strcmp(kind, "temp") == 0 ? client_ask(db, "SELECT count(*) FROM t WHERE n % 10 = 0") : 0);
    client_check_store(db);
    client_close(db);
}

static void killed_writers_of_one_database_file_lose_nothing(void **state)
{
    (void)state;
    kill_at_random("file");
}

static void killed_writers_of_one_store_lose_nothing(void **state)
{
    (void)state;
    kill_at_random("temp");
}

/* ---- stopped --------------------------------------------------------------------------------- */

/* Stopped anywhere, the turn in hand or not: reads go on, a write is made or told BUSY in its time,
** and when the process goes on so does everything. */
static void stop_for_a_while(client_worker *worker, const char *kind, long round)
{
    char sql[SQL_BYTES];
    sqlite3 *db = open_table(strcmp(kind, "temp") == 0);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM t WHERE id = 'stopped-%ld'", round);
    kill(worker->pid, SIGSTOP);
    sqlite3_busy_timeout(db, 50);
    assert_int_equal(client_ask(db, "SELECT count(*) = memwal_count('t') FROM t"), 1);
    int rc = client_try(db, NULL, "INSERT INTO t VALUES ('stopped-%ld', 0)", round);
    if (rc != SQLITE_OK && rc != SQLITE_BUSY) client_fail("%s", sqlite3_errmsg(db));
    assert_int_equal(client_ask(db, sql), rc == SQLITE_OK);
    kill(worker->pid, SIGCONT);
    sqlite3_busy_timeout(db, 60000);
    client_run(db, "INSERT INTO t VALUES ('woken-%ld', 0)", round);
    client_close(db);
}

static void stop_at_random(const char *kind)
{
    enum { ROUNDS = 60 };
    uint64_t random = seed;
    sqlite3 *db = make_table(", memtable = '64KB', merge_generations = 2");
    life writing;
    begin_life(&writing, 0, kind);
    for (long i = 0; i < ROUNDS; i++) {
        client_sleep_us(client_pick(&random, 20000));
        stop_for_a_while(&writing.worker, kind, i);
    }
    end_life(&writing, db);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE id LIKE 'woken-%'"), ROUNDS);
    assert_int_equal(client_ask(db, "SELECT count(*) = memwal_count('t') FROM t"), 1);
    client_check_store(db);
    client_close(db);
}

static void who_waits_for_a_stopped_writer_of_a_file_is_told_so(void **state)
{
    (void)state;
    stop_at_random("file");
}

static void who_waits_for_a_stopped_writer_of_a_store_is_told_so(void **state)
{
    (void)state;
    stop_at_random("temp");
}

/* ---- reading --------------------------------------------------------------------------------- */

static void looking_for_news_is_no_system_call(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    sqlite3 *db = make_table("");
    for (int i = 0; i < 64; i++) client_run(db, "INSERT INTO t VALUES ('a-%d', %d)", i, i);
    snprintf(path, sizeof path, "%s/trace", folder);
    const char *const arguments[] = {"strace",   "-f",   "-o",   path, client_own_program(),
                                     "--worker", "read", folder, NULL};
    client_worker worker = client_worker_start(arguments);
    client_worker_finish(&worker);
    FILE *trace = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    int calls = -1;
    bool over = false;
    if (!trace) client_fail("%s: %s", path, strerror(errno));
    while (!over && getline(&line, &room, trace) > 0) {
        over = strstr(line, "/end-reads") != NULL;
        if (calls >= 0 && !over) print_message("%s", line);
        calls += calls >= 0 && !over;
        if (strstr(line, "/begin-reads")) calls = 0;
    }
    free(line);
    fclose(trace);
    assert_true(over);
    assert_int_equal(calls, 0);
    client_close(db);
}

/* What one process commits another one sees in its next statement; inside BEGIN, too. */
static void each_process_sees_the_others_commits(void **state)
{
    (void)state;
    sqlite3 *db = make_table("");
    client_run(db, "INSERT INTO t VALUES ('first', 0)");
    client_worker worker = start("p", "file", 400);
    char byte;
    for (int64_t acknowledged = 0; client_read_all(worker.from, &byte, 1);) {
        acknowledged++;
        int64_t rows = client_ask(db, "SELECT count(*) FROM t WHERE id >= 'p-'");
        if (rows < acknowledged) {
            client_fail("%" PRId64 " rows, %" PRId64 " were acknowledged", rows, acknowledged);
        }
    }
    client_worker_finish(&worker);
    client_close(db);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 4 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        snprintf(folder, sizeof folder, "%s", argv[3]);
        snprintf(database, sizeof database, "%s/test.db", folder);
        if (strcmp(argv[2], "count") == 0) return count_worker(argv + 3);
        return strcmp(argv[2], "read") == 0 ? read_worker() : write_worker(argv + 3);
    }
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/processes_test --seed %" PRIu64 "\n", seed);
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    /* Syncs that take their time hold the door open for what may come between. */
    const struct CMUnitTest on_a_disk[] = {TEST(who_has_the_file_sees_both_halves)};
    const struct CMUnitTest tests[] = {
        TEST(each_process_sees_the_others_commits),
        TEST(who_waits_for_a_stopped_writer_of_a_file_is_told_so),
        TEST(who_waits_for_a_stopped_writer_of_a_store_is_told_so),
        TEST(looking_for_news_is_no_system_call),
        TEST(eight_processes_write_one_store_through_temp),
        TEST(eight_processes_write_one_database_file),
        TEST(killed_writers_of_one_store_lose_nothing),
        TEST(killed_writers_of_one_database_file_lose_nothing),
    };
    int failed = cmocka_run_group_tests_name("processes on a disk", on_a_disk, NULL, NULL);
    client_use_memory();
    return failed + cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
