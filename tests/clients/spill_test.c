/* spill_test.c: transactions that are far larger than a memtable, by the shipped extension: what
** they hold, how much memory they need, what a kill in their middle leaves.
**
**   spill_test                    the tests
**   spill_test --seed SEED        the same kills again
**   spill_test --worker ...       is started by the tests */
#include "client.h"

#include <dirent.h>

enum {
    ROWS = 1000000,
    PEAK_KB_MAX = 64 * 1024, /* of a process with memtables of 1 MB and a cache of 4 MB */
    HUGE_ROWS = 18,          /* of 64 MB: more than an entry of the log may hold        */
    HUGE_PEAK_KB_MAX = 600 * 1024,
    KILLS = 8,
    KILL_US_MAX = 400000,
    PATH_BYTES = PATH_MAX + 64,
};

/* A source of rows; two numbers go into it. */
#define SERIES                                                                       \
    "(WITH RECURSIVE s(value) AS (SELECT %d UNION ALL SELECT value + 1 FROM s WHERE" \
    " value < %d) SELECT value FROM s)"

static uint64_t seed;

static sqlite3 *open_table(const char *folder)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/test.db", folder);
    return client_open(path);
}

static void expect(sqlite3 *db, const char *sql, int64_t wanted)
{
    int64_t found = client_ask(db, sql);
    if (found != wanted)
        client_fail("%s: expected %" PRId64 ", found %" PRId64, sql, wanted, found);
}

/* ---- workers ----------------------------------------------------------------------------- */

static long peak_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "VmHWM:", 6) == 0) kb = strtol(line + 6, NULL, 10);
    }
    if (status) fclose(status);
    if (kb < 0) client_fail("/proc/self/status has no VmHWM");
    return kb;
}

static void large_story(sqlite3 *db)
{
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, n INTEGER,"
                   " memtable = '1MB', cache = '4MB')");
    client_run(db,
               "BEGIN; INSERT INTO t SELECT value, 'row ' || value, value %% 10"
               " FROM " SERIES,
               1, ROWS);
    expect(db, "SELECT memwal_count('t')", ROWS);
    expect(db, "SELECT sum(id) FROM t", (int64_t)ROWS * (ROWS + 1) / 2);
    client_run(db, "ROLLBACK");
    expect(db, "SELECT count(*) FROM t", 0);
    expect(db, "SELECT count(*) FROM memwal_files('t') WHERE kind = 'table'", 0);
    client_run(db,
               "BEGIN; INSERT INTO t SELECT value, 'row ' || value, value %% 10"
               " FROM " SERIES,
               1, ROWS);
    client_run(db, "SAVEPOINT s; UPDATE t SET n = n + 10; DELETE FROM t WHERE id %% 2 = 0");
    expect(db, "SELECT memwal_count('t')", ROWS / 2);
    expect(db, "SELECT sum(n >= 10) FROM t", ROWS / 2);
    client_run(db, "ROLLBACK TO s");
    expect(db, "SELECT memwal_count('t')", ROWS);
    expect(db, "SELECT sum(n) FROM t", (int64_t)ROWS * 9 / 2);
    client_run(db, "DELETE FROM t WHERE id > %d; COMMIT", ROWS * 3 / 4);
    expect(db, "SELECT memwal_count('t')", ROWS * 3 / 4);
    expect(db, "SELECT count(*) FROM t WHERE v = 'row ' || id", ROWS * 3 / 4);
}

static void huge_story(sqlite3 *db)
{
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '16MB', cache = '4MB')");
    client_run(db, "BEGIN");
    for (int i = 1; i <= HUGE_ROWS; i++) {
        client_run(db, "INSERT INTO t VALUES (%d, zeroblob(%d))", i, (64 << 20) - i);
    }
    client_run(db, "COMMIT");
    expect(db, "SELECT memwal_count('t')", HUGE_ROWS);
}

/* Answers by a byte for each statement that has returned. */
static void killed_story(sqlite3 *db)
{
    client_run(db, "BEGIN");
    for (int i = 0; i < 20; i++) {
        client_run(db, "INSERT INTO t SELECT value, 'row ' || value FROM " SERIES, 1000 + i * 5000,
                   1000 + i * 5000 + 4999);
    }
    client_run(db, "DELETE FROM t WHERE id < 100; COMMIT");
    if (!client_write_all(STDOUT_FILENO, "c", 1)) _exit(0);
}

static int work(char **arguments)
{
    sqlite3 *db = open_table(arguments[1]);
    long kb;
    if (strcmp(arguments[0], "large") == 0) large_story(db);
    if (strcmp(arguments[0], "huge") == 0) huge_story(db);
    if (strcmp(arguments[0], "killed") == 0) {
        killed_story(db);
    } else {
        kb = peak_kb();
        if (!client_write_all(STDOUT_FILENO, &kb, sizeof kb)) return CLIENT_WORKER_FAILED;
    }
    client_close(db);
    return 0;
}

static client_worker start(const char *story, const char *folder)
{
    const char *const arguments[] = {client_own_program(), "--worker", story, folder, NULL};
    return client_worker_start(arguments);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Runs a story; the database that it leaves. */
static sqlite3 *run_story(const char *story, const char *folder, long limit_kb)
{
    long kb = 0;
    client_worker worker = start(story, folder);
    bool answered = client_read_all(worker.from, &kb, sizeof kb);
    client_worker_finish(&worker);
    assert_true(answered);
    print_message("%s: peak of %ld MB\n", story, kb / 1024);
    if (kb > limit_kb) client_fail("expected a peak of at most %ld KB, found %ld", limit_kb, kb);
    return open_table(folder);
}

/* I7 I13 I14: a million rows with memtables of a megabyte: rolled back, rolled back to a savepoint
** behind an UPDATE and a DELETE of all of them, committed; read by the next process. */
static void a_large_transaction_needs_little_memory(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    client_use_memory();
    client_folder_make(folder);
    sqlite3 *db = run_story("large", folder, PEAK_KB_MAX);
    expect(db, "SELECT memwal_count('t')", ROWS * 3 / 4);
    expect(db, "SELECT sum(id) FROM t", (int64_t)ROWS * 3 / 4 * (ROWS * 3 / 4 + 1) / 2);
    client_check_store(db);
    client_close(db);
    client_folder_remove(folder);
}

/* C86: a transaction of more than a gigabyte. */
static void a_transaction_may_be_larger_than_a_log_entry(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    client_use_memory();
    client_folder_make(folder);
    sqlite3 *db = run_story("huge", folder, HUGE_PEAK_KB_MAX);
    expect(db, "SELECT memwal_count('t')", HUGE_ROWS);
    expect(db, "SELECT sum(length(v)) FROM t",
           (int64_t)HUGE_ROWS * (64 << 20) - HUGE_ROWS * (HUGE_ROWS + 1) / 2);
    client_close(db);
    client_folder_remove(folder);
}

/* ---- kills ------------------------------------------------------------------------------- */

/* Table files in the store, listed or not. */
static int64_t count_files(sqlite3 *db)
{
    char path[CLIENT_TEXT_BYTES];
    int64_t count = 0;
    client_ask_text(db, path, "SELECT value FROM memwal_stats('t') WHERE name = 'path'");
    DIR *dir = opendir(path);
    if (!dir) client_fail("%s: %s", path, strerror(errno));
    for (struct dirent *at; (at = readdir(dir));) count += strncmp(at->d_name, "table-", 6) == 0;
    closedir(dir);
    return count;
}

/* At a random moment, or right behind the acknowledgement. */
static void kill_once(const char *folder, uint64_t *random, bool wait, int *whole)
{
    char answer;
    client_worker worker = start("killed", folder);
    if (!wait) {
        client_sleep_us(client_pick(random, KILL_US_MAX));
        kill(worker.pid, SIGKILL);
    }
    bool acknowledged = client_read_all(worker.from, &answer, 1);
    client_worker_kill(&worker);
    sqlite3 *db = open_table(folder);
    int64_t rows = client_ask(db, "SELECT memwal_count('t')");
    bool all = rows == 100000 + 500 - 99;
    if (!all && (acknowledged || rows != 500)) {
        client_fail("expected %s rows, found %" PRId64, acknowledged ? "100401" : "500 or 100401",
                    rows);
    }
    expect(db, "SELECT count(*) FROM t", rows);
    client_check_store(db);
    /* Back to the beginning; the first write of the new owner has swept what was left. */
    client_run(db, "DELETE FROM t WHERE id >= 1000 OR id = 1; INSERT INTO t VALUES (1, 'one')");
    if (all) client_run(db, "INSERT INTO t SELECT value, 'old' FROM " SERIES, 2, 99);
    client_run(db, "SELECT memwal_flush('t')");
    int64_t listed = client_ask(db, "SELECT count(*) FROM memwal_files('t') WHERE kind = 'table'");
    int64_t there = count_files(db);
    if (there != listed) client_fail("%" PRId64 " files, %" PRId64 " listed", there, listed);
    client_close(db);
    *whole += all;
}

/* I1 I2 I11: all of it or nothing, and no file of a dead transaction stays. */
static void a_kill_inside_a_large_transaction_leaves_all_or_nothing(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    uint64_t random = seed;
    int whole = 0;
    client_use_memory();
    client_folder_make(folder);
    sqlite3 *db = open_table(folder);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '64KB', background = off)");
    client_run(db, "INSERT INTO t SELECT value, 'old' FROM " SERIES, 1, 500);
    client_close(db);
    for (int i = 0; i < KILLS; i++) kill_once(folder, &random, i % 4 == 3, &whole);
    print_message("%d kills, %d of them behind the commit\n", KILLS, whole);
    client_folder_remove(folder);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return work(argv + 2);
    }
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/spill_test --seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_transaction_needs_little_memory),
        cmocka_unit_test(a_transaction_may_be_larger_than_a_log_entry),
        cmocka_unit_test(a_kill_inside_a_large_transaction_leaves_all_or_nothing),
    };
    return cmocka_run_group_tests_name("spill", tests, NULL, NULL);
}
