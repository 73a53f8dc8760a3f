/* static_test.c: the extension compiled into a program, with sanitizers around all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sqlite3_memwal_init(sqlite3 *db, char **error, const void *api);

typedef void (*entry_point)(void);

/* Runs sql and gives its values, rows and columns joined by ' '. */
static char *ask(sqlite3 *db, const char *sql)
{
    static char answer[1024];
    answer[0] = '\0';
    while (*sql) {
        sqlite3_stmt *statement = NULL;
        if (sqlite3_prepare_v2(db, sql, -1, &statement, &sql) != SQLITE_OK) {
            fail_msg("%s", sqlite3_errmsg(db));
        }
        int rc = SQLITE_DONE;
        while (statement && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(statement); i++) {
                size_t used = strlen(answer);
                const unsigned char *text = sqlite3_column_text(statement, i);
                snprintf(answer + used, sizeof answer - used, "%s%s", used ? " " : "",
                         text ? (const char *)text : "NULL");
            }
        }
        if (rc != SQLITE_DONE) fail_msg("%s", sqlite3_errmsg(db));
        sqlite3_finalize(statement);
    }
    return answer;
}

static int register_it(void **state)
{
    (void)state;
    return sqlite3_auto_extension((entry_point)sqlite3_memwal_init);
}

static int forget_it(void **state)
{
    (void)state;
    sqlite3_reset_auto_extension();
    return 0;
}

static void every_connection_has_it(void **state)
{
    (void)state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_string_equal(ask(db, "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, n);"
                                "INSERT INTO t VALUES('a', 1), ('b', 2); DELETE FROM t WHERE n = 1;"
                                "SELECT memwal_count('t'), memwal_flush('t'), id FROM t"),
                        "1 1 b");
    assert_non_null(strstr(ask(db, "SELECT memwal_debug()"), "static"));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_second_load_changes_nothing(void **state)
{
    (void)state;
    sqlite3 *db = NULL;
    char *error = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    ask(db, "CREATE VIRTUAL TABLE t USING memwal(a); BEGIN; INSERT INTO t VALUES(1)");
    assert_int_equal(sqlite3_memwal_init(db, &error, NULL), SQLITE_OK);
    assert_string_equal(ask(db, "INSERT INTO t VALUES(2); COMMIT; SELECT sum(a) FROM t"), "3");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* No file of an ephemeral table outlives its connection. */
static void an_ephemeral_table_leaves_nothing(void **state)
{
    (void)state;
    char folder[] = "/tmp/memwal-static-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    ask(db, "CREATE VIRTUAL TABLE t USING memwal(a); INSERT INTO t VALUES(1);"
            "CREATE VIRTUAL TABLE temp.u USING memwal(a); INSERT INTO u VALUES(1);"
            "SELECT memwal_flush('u'); DROP TABLE t");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    assert_int_equal(rmdir(folder), 0); /* refused unless it is empty */
}

/* Two connections of one process share the store of a database file. */
static void connections_of_a_process_share_a_store(void **state)
{
    (void)state;
    char folder[] = "/tmp/memwal-static-XXXXXX";
    char file[64];
    char command[128];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/a.db", folder);
    sqlite3 *one = NULL;
    sqlite3 *two = NULL;
    assert_int_equal(sqlite3_open(file, &one), SQLITE_OK);
    assert_int_equal(sqlite3_open(file, &two), SQLITE_OK);
    ask(one, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, a)");
    ask(one, "INSERT INTO t(a) VALUES('x')");
    assert_string_equal(ask(two, "INSERT INTO t(a) VALUES('y'); SELECT * FROM t"), "1 x 2 y");
    assert_string_equal(ask(one, "SELECT memwal_count('t'), count(*) FROM t"), "2 2");
    assert_int_equal(sqlite3_close(one), SQLITE_OK);
    assert_string_equal(ask(two, "SELECT memwal_check('t')"), "ok");
    assert_int_equal(sqlite3_close(two), SQLITE_OK);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_connection_has_it),
        cmocka_unit_test(a_second_load_changes_nothing),
        cmocka_unit_test(an_ephemeral_table_leaves_nothing),
        cmocka_unit_test(connections_of_a_process_share_a_store),
    };
    return cmocka_run_group_tests(tests, register_it, forget_it);
}
