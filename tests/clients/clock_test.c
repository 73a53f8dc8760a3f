/* clock_test.c: the clock of the wall is set back, between two lives of a store and inside one (C72).
**
** The program answers for the system's clock, also where SQLite and the extension ask: an hour less
** for everything but the monotonic clocks. Order comes from positions, names from counters, and who
** waits does so by a clock that nobody sets. */
#include "client.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define EXPORTED __attribute__((visibility("default")))

enum { HOUR_S = 3600, WAIT_MS = 300, LONG_MS = 20000 };

static time_t back_s;

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock != CLOCK_REALTIME) return rc;
    now->tv_sec -= back_s;
    return rc;
}

EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    int rc = clock_gettime(CLOCK_REALTIME, &precise);
    *now = (struct timeval){.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
    return rc;
}

EXPORTED time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}

static char folder[PATH_MAX];
static char database[PATH_MAX + 16];

static int make_folder(void **state)
{
    (void)state;
    back_s = 0;
    client_folder_make(folder);
    snprintf(database, sizeof database, "%s/t.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    client_folder_remove(folder);
    return 0;
}

static sqlite3 *make_table(void)
{
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '4KB', merge_generations = 2)");
    return db;
}

static void set_back(sqlite3 *db)
{
    int64_t before = client_ask(db, "SELECT strftime('%s')");
    back_s += HOUR_S;
    assert_true(client_ask(db, "SELECT strftime('%s')") < before);
}

/* 200 ids, each time with the value that counts from now on. */
static void write_all(sqlite3 *db, int value)
{
    client_run(db,
               "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 200)"
               " INSERT OR REPLACE INTO t SELECT n, %d FROM i",
               value);
}

static void holds(sqlite3 *db, int value)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM t WHERE v = %d", value);
    assert_int_equal(client_ask(db, sql), 200);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), 200);
}

static void the_newest_write_wins_whatever_the_clock_says(void **state)
{
    (void)state;
    sqlite3 *db = make_table();
    for (int value = 1; value <= 6; value++) {
        write_all(db, value);
        if (value % 2) client_ask(db, "SELECT memwal_flush('t') IS NOT NULL");
        set_back(db);
        holds(db, value);
    }
    write_all(db, 7);
    client_ask(db, "SELECT memwal_merge('t')");
    holds(db, 7);
    client_check_store(db);
    client_close(db);
}

static void a_store_opens_in_the_past_of_its_last_session(void **state)
{
    (void)state;
    sqlite3 *db = make_table();
    for (int value = 1; value <= 4; value++) {
        write_all(db, value);
        set_back(db);
        client_close(db);
        db = client_open(database);
        holds(db, value);
    }
    write_all(db, 5);
    client_ask(db, "SELECT memwal_compact('t')");
    holds(db, 5);
    client_check_store(db);
    client_close(db);
}

/* The lock of the store in the hands of another one; the file, to be closed. */
static int hold_lock(void)
{
    char path[PATH_MAX + 32];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    snprintf(path, sizeof path, "%s/store/lock", folder);
    int file = open(path, O_RDWR);
    if (file < 0 || fcntl(file, F_OFD_SETLK, &lock)) client_fail("%s: %s", path, strerror(errno));
    return file;
}

static void who_waits_is_told_in_his_time(void **state)
{
    (void)state;
    char sql[PATH_MAX + 128];
    snprintf(
        sql, sizeof sql,
        "CREATE VIRTUAL TABLE temp.t USING memwal(id INTEGER PRIMARY KEY, v, path = '%s/store')",
        folder);
    sqlite3 *db = client_open(database);
    client_run(db, "%s; INSERT INTO t VALUES (1, 1)", sql);
    client_close(db);
    int file = hold_lock();
    db = client_open(database);
    client_run(db, "%s", sql);
    set_back(db);
    sqlite3_busy_timeout(db, WAIT_MS);
    uint64_t before = client_now_us();
    assert_int_equal(client_try(db, NULL, "INSERT INTO t VALUES (2, 2)"), SQLITE_BUSY);
    uint64_t waited_ms = (client_now_us() - before) / 1000;
    assert_in_range(waited_ms, WAIT_MS, LONG_MS);
    close(file);
    client_run(db, "INSERT INTO t VALUES (2, 2)");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 2);
    client_close(db);
}

int main(void)
{
    client_use_memory();
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(the_newest_write_wins_whatever_the_clock_says),
        TEST(a_store_opens_in_the_past_of_its_last_session),
        TEST(who_waits_is_told_in_his_time),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
