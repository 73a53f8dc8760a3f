/* fork_test.c: forks while the thread in the background flushes and merges (C19).
**
** The child has the store's memory, but neither the thread nor the right to write. Its use of what
** the parent opened is refused, its own connections are those of another process, and neither its
** closes nor its exit write a byte. The parent goes on. */
#include "client.h"

enum { FORKS = 40, BURSTS = 3, ROWS = 300, SECONDS_MAX = 60 };

static char folder[PATH_MAX];
static char file[PATH_MAX + 16];
static pid_t parent;

/* ---- the child ------------------------------------------------------------------------------- */

static int64_t figure_of(const char *path, const char *name)
{
    char line[128];
    int64_t value = -1;
    FILE *lines = fopen(path, "r");
    while (lines && fgets(line, sizeof line, lines)) {
        if (strncmp(line, name, strlen(name)) == 0) value = strtoll(line + strlen(name), NULL, 10);
    }
    if (lines) fclose(lines);
    return value;
}

/* The last thing that the child runs: what it has written to any file until here. */
static void prove_nothing_written(void)
{
    if (getpid() == parent) return;
    int64_t written = figure_of("/proc/self/io", "wchar:");
    if (written != 0) {
        fprintf(stderr, "the child has written %" PRId64 " bytes\n", written);
        _exit(CLIENT_WORKER_FAILED);
    }
}

static void expect_refused(sqlite3 *db, const char *sql, int code, const char *reason)
{
    char words[CLIENT_TEXT_BYTES];
    int rc = client_try(db, words, "%s", sql);
    if (rc != code || !strstr(words, reason)) {
        client_fail("%s in the child: expected %d with '%s', found %d: %s", sql, code, reason, rc,
                    words);
    }
}

/* Ends by exit: with the handlers and destructors that the parent would run. */
__attribute__((noreturn)) static void be_child(sqlite3 *db, sqlite3_stmt *reader)
{
    client_is_worker = true;
    alarm(SECONDS_MAX); /* a child that waits for the parent's thread fails the test */
    if (figure_of("/proc/self/status", "Threads:") != 1) client_fail("a thread in the child");
    expect_refused(db, "SELECT count(*) FROM t", SQLITE_MISUSE, "fork");
    expect_refused(db, "SELECT memwal_flush('t')", SQLITE_MISUSE, "fork");
    int rc = client_try(db, NULL, "INSERT INTO t VALUES(-1, 'child')");
    if (rc != SQLITE_MISUSE && rc != SQLITE_BUSY) client_fail("an insert in the child: %d", rc);
    if (sqlite3_step(reader) != SQLITE_MISUSE) client_fail("the parent's cursor gives rows");
    sqlite3_finalize(reader);
    sqlite3 *own = client_open(file);
    sqlite3_busy_timeout(own, 0);
    client_ask(own, "SELECT count(*) FROM t"); /* beside its parent, as any other process */
    client_close(own);
    client_close(db);
    if (figure_of("/proc/self/status", "Threads:") != 1) client_fail("the child made a thread");
    exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

static void expect_child_well(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) client_fail("the child failed: status %d", status);
}

/* Bursts that freeze memtables; forks while their flushes are due, or merges. True: one was. */
static bool fork_in_the_middle(sqlite3 *db, int64_t *count)
{
    for (int burst = 0; burst < BURSTS; burst++, *count += ROWS) {
        client_run(db,
                   "WITH RECURSIVE c(i) AS (SELECT %lld UNION ALL SELECT i + 1 FROM c LIMIT %d)"
                   " INSERT INTO t SELECT i, randomblob(500) FROM c",
                   (long long)*count + 1, ROWS);
    }
    sqlite3_stmt *reader = client_prepare(db, "SELECT id FROM t ORDER BY id");
    if (!client_step(reader)) client_fail("no row");
    int64_t done = client_figure(db, "flushes") + client_figure(db, "merges");
    bool due = client_figure(db, "memtables") > 1 || client_figure(db, "generations") > 1;
    pid_t child = fork();
    if (child < 0) client_fail("fork: %s", strerror(errno));
    if (child == 0) be_child(db, reader);
    client_finalize(reader);
    client_run(db, "INSERT INTO t VALUES(%lld, 'parent')", (long long)++*count);
    expect_child_well(child);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), *count);
    return due && client_figure(db, "flushes") + client_figure(db, "merges") > done;
}

/* C19, I11. */
static void a_child_leaves_flushes_and_merges_to_its_parent(void **state)
{
    (void)state;
    int64_t count = 0;
    int in_the_middle = 0;
    sqlite3 *db = client_open(file);
    client_run(db, "PRAGMA journal_mode = WAL");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '150KB', cache = '1MB', merge_generations = 2)");
    for (int i = 0; i < FORKS; i++) in_the_middle += fork_in_the_middle(db, &count);
    print_message("%d of %d forks while a flush or merge was due\n", in_the_middle, FORKS);
    assert_in_range(in_the_middle, 1, FORKS);
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    client_check_store(db);
    client_close(db);
    db = client_open(file);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE v IS NOT NULL"), count);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE v = 'child'"), 0);
    client_check_store(db);
    client_close(db);
}

/* C19: forked inside a transaction: it is the parent's, and the child can only leave it. */
static void a_transaction_is_its_makers(void **state)
{
    (void)state;
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
                   "CREATE TABLE o(x); INSERT INTO o VALUES(1), (2);"
                   "INSERT INTO t VALUES(1, 'a'), (2, 'b'); BEGIN; INSERT INTO t VALUES(3, 'c')");
    sqlite3_stmt *outer = client_prepare(db, "SELECT o.x, t.v FROM t CROSS JOIN o");
    if (!client_step(outer)) client_fail("no row");
    pid_t child = fork();
    if (child == 0) {
        client_is_worker = true;
        alarm(SECONDS_MAX);
        if (sqlite3_step(outer) != SQLITE_MISUSE) client_fail("the parent's join gives rows");
        sqlite3_finalize(outer);
        expect_refused(db, "INSERT INTO t VALUES(4, 'd')", SQLITE_MISUSE, "fork");
        expect_refused(db, "SAVEPOINT s", SQLITE_MISUSE, ""); /* SQLite drops words */
        expect_refused(db, "COMMIT", SQLITE_MISUSE, "fork");
        if (!sqlite3_get_autocommit(db)) client_run(db, "ROLLBACK");
        client_close(db);
        exit(0); /* proves that nothing was written */
    }
    expect_child_well(child);
    client_finalize(outer);
    client_run(db, "INSERT INTO t VALUES(5, 'e'); COMMIT");
    assert_int_equal(client_ask(db, "SELECT sum(id) FROM t"), 1 + 2 + 3 + 5);
    client_check_store(db);
    client_close(db);
}

/* C19: the child lives on, and keeps nothing that the parent has to have. */
static void a_child_that_lives_on_keeps_no_lock(void **state)
{
    (void)state;
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v)");
    client_run(db, "INSERT INTO t VALUES(1, 'a')");
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MAX);
        for (;;) pause();
    }
    client_close(db);
    db = client_open(file);
    client_run(db, "INSERT INTO t VALUES(2, 'b')");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 2);
    client_close(db);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* The parent is killed, its child lives on: nobody has to wait for the child. */
static void a_child_keeps_no_lock_for_a_killed_parent(void **state)
{
    (void)state;
    pid_t child = 0;
    int tell[2];
    assert_int_equal(pipe(tell), 0);
    pid_t writer = fork();
    if (writer == 0) {
        client_is_worker = true;
        sqlite3 *db = client_open(file);
        client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
                       "INSERT INTO t VALUES(1, 'a')");
        child = fork();
        if (child == 0) {
            alarm(SECONDS_MAX);
            for (;;) pause();
        }
        if (!client_write_all(tell[1], &child, sizeof child)) client_fail("nobody reads");
        kill(getpid(), SIGKILL);
    }
    assert_true(client_read_all(tell[0], &child, sizeof child));
    waitpid(writer, NULL, 0);
    close(tell[0]);
    close(tell[1]);
    sqlite3 *db = client_open(file);
    sqlite3_busy_timeout(db, 5000);
    client_run(db, "INSERT INTO t VALUES(2, 'b')");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 2);
    client_check_store(db);
    client_close(db);
    kill(child, SIGKILL); /* it is nobody's child by now */
}

/* The child makes a store of its own, and works with it like anybody. */
static void a_child_has_stores_of_its_own(void **state)
{
    (void)state;
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v)");
    client_run(db, "INSERT INTO t VALUES(1, 'a')");
    pid_t child = fork();
    if (child == 0) {
        char other[PATH_MAX + 16];
        client_is_worker = true;
        alarm(SECONDS_MAX);
        snprintf(other, sizeof other, "%s/other.db", folder);
        sqlite3 *own = client_open(other);
        client_run(own, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                        " memtable = '10KB', merge_generations = 1)");
        for (int i = 0; i < 100; i++) client_run(own, "INSERT INTO t VALUES(%d, zeroblob(999))", i);
        client_check_store(own);
        if (client_ask(own, "SELECT count(*) FROM t") != 100) client_fail("a wrong count");
        client_close(own);
        _exit(0);
    }
    expect_child_well(child);
    client_run(db, "INSERT INTO t VALUES(2, 'b')");
    client_close(db);
}

/* ---------------------------------------------------------------------------------------------- */

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

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    client_use_memory();
    parent = getpid();
    (void)client_extension();
    if (atexit(prove_nothing_written)) return 1; /* the first to be noted is the last to run */
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_child_leaves_flushes_and_merges_to_its_parent),
        IN_FOLDER(a_transaction_is_its_makers),
        IN_FOLDER(a_child_that_lives_on_keeps_no_lock),
        IN_FOLDER(a_child_keeps_no_lock_for_a_killed_parent),
        IN_FOLDER(a_child_has_stores_of_its_own),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
