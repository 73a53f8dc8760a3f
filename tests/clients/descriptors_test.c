/* descriptors_test.c: few descriptors, many cursors, many statements: what a process has of each
** comes back.
**
**   descriptors_test                        the tests
**   descriptors_test --few FOLDER LIMIT     is started by them: lives with so many descriptors
**   descriptors_test --long FOLDER          the same: opens, works and closes again and again */
#include "client.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>

static char folder[PATH_MAX];
static char file[PATH_MAX + 16];

static int make_folder(void **state)
{
    (void)state;
    client_folder_make(folder);
    snprintf(file, sizeof file, "%s/t.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    client_folder_remove(folder);
    return 0;
}

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) client_fail("getrlimit: %s", strerror(errno));
    limit.rlim_cur = count;
    if (setrlimit(RLIMIT_NOFILE, &limit)) client_fail("setrlimit: %s", strerror(errno));
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    if (!all) client_fail("/proc/self/fd: %s", strerror(errno));
    while (readdir(all)) count++;
    closedir(all);
    return count;
}

/* ---- few descriptors ------------------------------------------------------------------------- */

enum { CURSORS = 20, WAITING = 60, ROUNDS = 20 };

/* At worst an error of this kind, in words that say what to do; then false. */
static bool allowed(int rc, const char *words)
{
    if (rc == SQLITE_OK) return true;
    if (rc == SQLITE_CANTOPEN && strstr(words, "Too many open files") && strstr(words, "ulimit -n"))
        return false;
    client_fail("expected 'too many open files' at worst, found %d: %s", rc, words);
}

/* True: the insert was acknowledged. */
static bool live_a_round(sqlite3 *db, int round)
{
    char words[CLIENT_TEXT_BYTES];
    int rc = client_try(db, words, "INSERT INTO t VALUES(%d, 'round')", 1000 + round);
    bool put = allowed(rc, words);
    rc = client_try(db, words, "SELECT memwal_flush('t')");
    (void)allowed(rc, words);
    rc = client_try(db, words, "SELECT memwal_merge('t', 3)");
    (void)allowed(rc, words);
    return put;
}

static int live_with(rlim_t limit)
{
    sqlite3_stmt *cursors[CURSORS];
    int put = 0;
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " background = 'off', merge_generations = 1000)");
    for (int i = 0; i < WAITING; i++) {
        client_run(db, "INSERT INTO t VALUES(%d, 'old'); SELECT memwal_flush('t')", i);
    }
    client_close(db);
    limit_descriptors(limit);
    db = client_open(file);
    for (int i = 0; i < CURSORS; i++) {
        cursors[i] = client_prepare(db, "SELECT id, v FROM t ORDER BY id");
        if (!client_step(cursors[i])) client_fail("no row");
    }
    for (int i = 0; i < ROUNDS; i++) put += live_a_round(db, i);
    for (int i = 0; i < CURSORS; i++) {
        int count = 1;
        while (client_step(cursors[i])) count++;
        if (count != WAITING) client_fail("cursor %d: %d rows", i, count);
        client_finalize(cursors[i]);
    }
    limit_descriptors(1024);
    if (client_ask(db, "SELECT count(*) FROM t") != WAITING + put) client_fail("a wrong count");
    if (!live_a_round(db, ROUNDS)) client_fail("refused with descriptors enough");
    client_check_store(db);
    client_close(db);
    if (put != ROUNDS) client_fail("%d of %d inserts were refused", ROUNDS - put, ROUNDS);
    return 0;
}

/* C66: 60 files, 20 cursors, inserts, flushes, merges. Sixteen descriptors are enough for all. */
static void few_descriptors_are_enough(void **state)
{
    (void)state;
    static const char *const limits[] = {"16", "32", "64"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const char *const arguments[] = {client_own_program(), "--few", folder, limits[i], NULL};
        client_worker worker = client_worker_start(arguments);
        client_worker_finish(&worker);
        sqlite3 *db = client_open(file);
        assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), WAITING + ROUNDS + 1);
        client_check_store(db);
        client_run(db, "DROP TABLE t");
        client_close(db);
    }
}

/* C66: where not even that is there: an error, no damage, and all is well when there are more. */
static void too_few_descriptors_are_an_error(void **state)
{
    (void)state;
    char words[CLIENT_TEXT_BYTES];
    int refused = 0;
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " background = 'off', merge_generations = 1000)");
    client_run(db, "INSERT INTO t VALUES(1, 'a'); SELECT memwal_flush('t');"
                   "INSERT INTO t VALUES(2, 'b'); SELECT memwal_flush('t')");
    client_close(db);
    for (int spare = 0; spare < 20; spare++) {
        db = client_open(file);
        int64_t before = client_ask(db, "SELECT memwal_count('t')");
        int lowest = dup(STDIN_FILENO); /* a limit is one for numbers */
        close(lowest);
        limit_descriptors((rlim_t)lowest + (rlim_t)spare);
        int rc = client_try(db, words, "INSERT INTO t VALUES(%d, 'c')", 10 + spare);
        bool put = allowed(rc, words);
        for (int i = 0; put && i < 3; i++) {
            static const char *const works[] = {"memwal_flush", "memwal_merge", "memwal_compact"};
            rc = client_try(db, words, "SELECT %s('t')", works[i]);
            refused += !allowed(rc, words);
        }
        limit_descriptors(1024);
        assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), before + put);
        client_run(db, "INSERT INTO t VALUES(%d, 'd'); SELECT memwal_flush('t')", 100 + spare);
        client_check_store(db);
        refused += !put;
        client_close(db);
    }
    assert_in_range(refused, 1, 60);
}

/* ---- a long life ----------------------------------------------------------------------------- */

/* What is allocated is compared exactly; its pages, and a thread's stack, lie as the moment has it. */
enum { HANDLES = 1000, STATEMENTS = 10000, LIVES = 12, SLACK_KB = 1024 };

/* Without what is mapped from files: which parts of the code are in memory depends on the moment. */
static long resident_kb(void)
{
    long pages = 0;
    long of_files = 0;
    FILE *sizes = fopen("/proc/self/statm", "r");
    if (!sizes || fscanf(sizes, "%*d %ld %ld", &pages, &of_files) != 2) {
        client_fail("/proc/self/statm");
    }
    fclose(sizes);
    return (pages - of_files) * (sysconf(_SC_PAGESIZE) / 1024);
}

/* 1,000 cursors that are stepped once and reset, 10,000 statements. */
static void live_once(int life)
{
    static sqlite3_stmt *cursors[HANDLES];
    sqlite3 *db = client_open(file);
    for (int i = 0; i < HANDLES; i++) {
        cursors[i] = client_prepare(db, "SELECT id, v FROM t ORDER BY id DESC");
        if (!client_step(cursors[i])) client_fail("no row");
        sqlite3_reset(cursors[i]);
    }
    sqlite3_stmt *put = client_prepare(db, "INSERT OR REPLACE INTO t VALUES(?1 % 500, ?1)");
    sqlite3_stmt *get = client_prepare(db, "SELECT v FROM t WHERE id = ?1 % 500");
    for (int i = 0; i < STATEMENTS / 2; i++) {
        sqlite3_bind_int(put, 1, life * STATEMENTS + i);
        sqlite3_bind_int(get, 1, life * STATEMENTS + i);
        if (client_step(put) || !client_step(get)) client_fail("statement %d", i);
        sqlite3_reset(put);
        sqlite3_reset(get);
    }
    client_finalize(put);
    client_finalize(get);
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    for (int i = 0; i < HANDLES; i++) client_finalize(cursors[i]);
    if (client_figure(db, "snapshots") != 0) client_fail("a finalized cursor holds a snapshot");
    client_close(db);
}

static void expect_as_before(const char *what, int64_t before, int64_t now)
{
    if (now != before) client_fail("%s: %" PRId64 " at first, then %" PRId64, what, before, now);
}

static int live_long(void)
{
    int64_t sqlite_bytes = 0;
    int64_t malloc_bytes = 0;
    long kb = 0;
    int descriptors = 0;
    mallopt(M_ARENA_MAX, 1); /* one arena, so that its figures are all */
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '100KB', cache = '1MB', merge_generations = 2)");
    client_run(db, "INSERT INTO t VALUES(1, 'first')");
    client_close(db);
    for (int life = 0; life < LIVES; life++) {
        live_once(life);
        struct mallinfo2 memory = mallinfo2();
        if (life <= 1) { /* what is made once, and the memory that a life needs */
            sqlite_bytes = sqlite3_memory_used();
            malloc_bytes = (int64_t)(memory.uordblks + memory.hblkhd);
            descriptors = open_descriptors();
            kb = resident_kb();
        }
        expect_as_before("sqlite3_memory_used", sqlite_bytes, sqlite3_memory_used());
        expect_as_before("allocated", malloc_bytes, (int64_t)(memory.uordblks + memory.hblkhd));
        expect_as_before("descriptors", descriptors, open_descriptors());
        if (resident_kb() > kb + SLACK_KB) {
            client_fail("resident: %ld KB at first, then %ld", kb, resident_kb());
        }
    }
    return 0;
}

/* C67: ten more lives with 1,000 cursors and 10,000 statements each leave memory as the first. */
static void lives_leave_nothing_in_memory(void **state)
{
    (void)state;
    const char *const arguments[] = {client_own_program(), "--long", folder, NULL};
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1); /* else its figures are vague */
    client_worker worker = client_worker_start(arguments);
    client_worker_finish(&worker);
}

/* ---------------------------------------------------------------------------------------------- */

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(int argc, char **argv)
{
    client_use_memory();
    if (argc >= 3) {
        client_is_worker = true;
        snprintf(folder, sizeof folder, "%s", argv[2]);
        snprintf(file, sizeof file, "%s/t.db", folder);
        return argc == 4 ? live_with(strtoul(argv[3], NULL, 10)) : live_long();
    }
    const struct CMUnitTest tests[] = {
        IN_FOLDER(few_descriptors_are_enough),
        IN_FOLDER(too_few_descriptors_are_an_error),
        IN_FOLDER(lives_leave_nothing_in_memory),
    };
    return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
