/* close_test.c: connections that are closed while something of theirs is still in use (C70).
**
** Run with the address and with the thread sanitizer: what a statement uses lives as long as it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int sqlite3_memwal_init(sqlite3 *db, char **error, const void *api);

typedef void (*entry_point)(void);

enum { ROWS = 3000, ROUNDS = 30 };

static char folder[64];
static char file[96];

static void run(sqlite3 *db, const char *sql)
{
    char *words = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &words) != SQLITE_OK) fail_msg("%s: %s", sql, words);
}

static sqlite3 *open_it(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 60000);
    return db;
}

/* Rows in two files and in memory. */
static sqlite3 *open_table(void)
{
    sqlite3 *db = open_it();
    run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, memtable = '64KB');"
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 3000)"
            " INSERT INTO t SELECT i, 'row ' || i FROM c;"
            "SELECT memwal_flush('t'); UPDATE t SET v = v || '+' WHERE id % 7 = 0;"
            "SELECT memwal_flush('t'); UPDATE t SET v = v || '-' WHERE id % 11 = 0");
    return db;
}

static sqlite3_stmt *start(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    return statement;
}

/* Steps to the end; how many rows were left. */
static int finish(sqlite3_stmt *statement)
{
    int rows = 0;
    int rc;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        assert_non_null(sqlite3_column_text(statement, 0));
        rows++;
    }
    assert_int_equal(rc, SQLITE_DONE);
    return rows;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/memwal-close-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(file, sizeof file, "%s/t.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* ---------------------------------------------------------------------------------------------- */

/* C70: closed half way through a SELECT: the rest of the rows come, the store goes with the last
** statement, and then it can be opened again. */
static void a_select_outlives_its_close(void **state)
{
    (void)state;
    sqlite3 *db = open_table();
    sqlite3_stmt *scan = start(db, "SELECT v FROM t ORDER BY id DESC");
    sqlite3_stmt *join = start(db, "SELECT a.v FROM t a JOIN t b ON b.id = a.id");
    sqlite3_stmt *idle = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT v FROM t", -1, &idle, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_BUSY);
    assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
    assert_int_equal(finish(scan), ROWS - 1);
    assert_int_equal(sqlite3_finalize(scan), SQLITE_OK);
    assert_int_equal(sqlite3_finalize(idle), SQLITE_OK);
    assert_int_equal(finish(join), ROWS - 1);
    assert_int_equal(sqlite3_finalize(join), SQLITE_OK);
    db = open_it();
    sqlite3_stmt *count = start(db, "SELECT memwal_count('t'), memwal_check('t')");
    assert_int_equal(sqlite3_column_int(count, 0), ROWS);
    assert_string_equal((const char *)sqlite3_column_text(count, 1), "ok");
    assert_int_equal(sqlite3_finalize(count), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* C70: and dropped without another step; and with a table in memory. */
static void a_select_ends_after_its_close(void **state)
{
    (void)state;
    sqlite3 *db = open_table();
    run(db, "CREATE VIRTUAL TABLE temp.u USING memwal(v); INSERT INTO u VALUES(1), (2), (3)");
    sqlite3_stmt *half = start(db, "SELECT v FROM t");
    sqlite3_stmt *ephemeral = start(db, "SELECT v FROM u");
    assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
    assert_int_equal(sqlite3_finalize(half), SQLITE_OK);
    assert_int_equal(finish(ephemeral), 2);
    assert_int_equal(sqlite3_finalize(ephemeral), SQLITE_OK);
}

/* An open transaction of a closed connection is given back when its last statement ends: another
** connection can write then. */
static void a_transaction_ends_with_the_last_statement(void **state)
{
    (void)state;
    sqlite3 *db = open_table();
    sqlite3 *other = open_it();
    run(other, "SELECT count(*) FROM t");
    run(db, "BEGIN; DELETE FROM t");
    sqlite3_stmt *half = start(db, "SELECT 1 FROM sqlite_schema");
    assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
    assert_int_equal(sqlite3_finalize(half), SQLITE_OK);
    run(other, "INSERT INTO t VALUES(5000, 'other')");
    sqlite3_stmt *count = start(other, "SELECT memwal_count('t')");
    assert_int_equal(sqlite3_column_int(count, 0), ROWS + 1);
    assert_int_equal(sqlite3_finalize(count), SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

/* ---- two threads ----------------------------------------------------------------------------- */

typedef struct stepper {
    sqlite3_stmt *statement;
    atomic_int rows;
    int rc;
} stepper;

/* Assertions are for the test's own thread. */
static void *step_on(void *arg)
{
    stepper *self = arg;
    while ((self->rc = sqlite3_step(self->statement)) == SQLITE_ROW) {
        if (!sqlite3_column_text(self->statement, 0)) break;
        atomic_fetch_add(&self->rows, 1);
    }
    (void)sqlite3_finalize(self->statement);
    return NULL;
}

/* C70: thread 2 closes while thread 1 steps; another connection's merges replace the files. */
static void one_thread_closes_while_another_steps(void **state)
{
    (void)state;
    sqlite3 *other = open_table();
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        sqlite3 *db = open_it();
        stepper self = {.statement = start(db, "SELECT v FROM t ORDER BY id")};
        assert_int_equal(pthread_create(&thread, NULL, step_on, &self), 0);
        while (atomic_load(&self.rows) < 100 * (i % 20)) usleep(10);
        assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
        if (i % 10 == 0) {
            run(other, "UPDATE t SET v = v || '.' WHERE id % 5 = 0;"
                       "SELECT memwal_flush('t'), memwal_merge('t')");
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(self.rc, SQLITE_DONE);
        assert_int_equal(atomic_load(&self.rows), ROWS - 1);
    }
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

/* The last statement of the last connection: whoever finalizes it closes the store, while another
** thread opens it again. */
static void one_thread_opens_while_another_ends(void **state)
{
    (void)state;
    assert_int_equal(sqlite3_close(open_table()), SQLITE_OK);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        sqlite3 *db = open_it();
        stepper self = {.statement = start(db, "SELECT v FROM t")};
        assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
        assert_int_equal(pthread_create(&thread, NULL, step_on, &self), 0);
        db = open_it();
        run(db, "INSERT INTO t(v) VALUES('more')");
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(self.rc, SQLITE_DONE);
        assert_int_equal(atomic_load(&self.rows), ROWS - 1 + i);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_select_outlives_its_close),
        IN_FOLDER(a_select_ends_after_its_close),
        IN_FOLDER(a_transaction_ends_with_the_last_statement),
        IN_FOLDER(one_thread_closes_while_another_steps),
        IN_FOLDER(one_thread_opens_while_another_ends),
    };
    sqlite3_auto_extension((entry_point)sqlite3_memwal_init);
    int failed = cmocka_run_group_tests_name("close", tests, NULL, NULL);
    sqlite3_reset_auto_extension();
    return failed;
}
