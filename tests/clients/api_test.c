/* api_test.c: what only a program sees: cursors that stay open, hooks, several connections, codes.
**
** Loads build/memwal (or $MEMWAL) as anybody would and works in a fresh folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[128];
static char database[192];

/* ---- help ----------------------------------------------------------------------------------- */

static sqlite3 *connect_to(const char *file)
{
    sqlite3 *db = NULL;
    const char *extension = getenv("MEMWAL");
    char *words = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_enable_load_extension(db, 1), SQLITE_OK);
    if (sqlite3_load_extension(db, extension ? extension : "build/memwal", NULL, &words) !=
        SQLITE_OK) {
        fail_msg("%s", words);
    }
    return db;
}

static int run(sqlite3 *db, const char *sql) { return sqlite3_exec(db, sql, NULL, NULL, NULL); }

static void must(sqlite3 *db, const char *sql)
{
    char *words = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &words) != SQLITE_OK) fail_msg("%s: %s", sql, words);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    return statement;
}

/* First column of the only row. */
static sqlite3_int64 number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = prepare(db, sql);
    if (sqlite3_step(statement) != SQLITE_ROW) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_int64 value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void assert_step(sqlite3_stmt *statement, sqlite3_int64 value)
{
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(statement, 0), value);
}

static void assert_done(sqlite3_stmt *statement)
{
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
}

static void close_db(sqlite3 *db) { assert_int_equal(sqlite3_close(db), SQLITE_OK); }

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/memwal-api-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(database, sizeof database, "%s/test.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[192];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static sqlite3 *open_with_table(void)
{
    sqlite3 *db = connect_to(database);
    must(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, background = off)");
    return db;
}

/* A table in temp over a store that all connections share. */
static void join_store(sqlite3 *db, const char *columns)
{
    char sql[400];
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.t USING memwal(%spath = '%s/store')",
             columns, folder);
    must(db, sql);
}

/* ---- open cursors --------------------------------------------------------------------------- */

/* C35 */
static void two_cursors_and_look_ups_do_not_disturb_each_other(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t SELECT value, value FROM (WITH RECURSIVE c(value) AS (SELECT 1 UNION "
             "ALL SELECT "
             "value + 1 FROM c WHERE value < 500) SELECT value FROM c)");
    sqlite3_stmt *first = prepare(db, "SELECT id FROM t");
    sqlite3_stmt *second = prepare(db, "SELECT id FROM t ORDER BY id DESC");
    sqlite3_stmt *look_up = prepare(db, "SELECT v FROM t WHERE id = ?");
    for (int i = 1; i <= 500; i++) {
        assert_step(first, i);
        assert_step(second, 501 - i);
        sqlite3_bind_int(look_up, 1, i);
        assert_step(look_up, i);
        sqlite3_reset(look_up);
    }
    sqlite3_finalize(look_up);
    assert_done(first);
    assert_done(second);
    close_db(db);
}

/* C37, I13 */
static void scan_goes_on_over_a_delete_on_its_own_connection(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t(id) VALUES (1), (2), (3)");
    sqlite3_stmt *scan = prepare(db, "SELECT id FROM t ORDER BY id");
    assert_step(scan, 1);
    assert_step(scan, 2);
    must(db, "DELETE FROM t WHERE id = 2");
    assert_step(scan, 3);
    assert_done(scan);
    assert_int_equal(number(db, "SELECT count(*) FROM t WHERE id = 2"), 0);
    close_db(db);
}

/* I13 */
static void scan_never_meets_rows_written_after_its_start(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t(id) VALUES (1), (2)");
    for (int transaction = 0; transaction < 2; transaction++) {
        if (transaction) must(db, "BEGIN");
        sqlite3_stmt *scan = prepare(db, "SELECT id FROM t WHERE id < 100");
        assert_step(scan, 1);
        must(db, "INSERT INTO t(id) VALUES (50 + (SELECT count(*) FROM t))");
        must(db, "UPDATE t SET id = 90 WHERE id = 2");
        sqlite3_int64 found = number(db, "SELECT group_concat(id, '') FROM t");
        assert_int_equal(found, 15290); /* a statement that begins later sees them: 1, 52, 90 */
        assert_step(scan, 2);
        assert_done(scan);
        must(db, "DELETE FROM t WHERE id = 52; UPDATE t SET id = 2 WHERE id = 90");
        if (transaction) must(db, "COMMIT");
    }
    close_db(db);
}

/* The inner scan of a join is filtered anew for each outer row: it keeps the moment it began with.
** */
static void inner_scan_keeps_its_moment(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(
        db,
        "INSERT INTO t(id) VALUES (1), (2); CREATE TABLE o(x); INSERT INTO o VALUES (1), (2), (3)");
    sqlite3_stmt *join = prepare(db, "SELECT t.id FROM o CROSS JOIN t WHERE t.id > 0");
    assert_step(join, 1);
    must(db, "INSERT INTO t(id) VALUES (3)");
    static const int rest[] = {2, 1, 2, 1, 2};
    for (int i = 0; i < 5; i++) assert_step(join, rest[i]);
    assert_done(join);
    close_db(db);
}

static void counting_turns_into_reading_where_it_stands(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t(id) VALUES (10), (20), (30), (40)");
    /* no column is asked for in the plan, the rowid is, from the third row on */
    sqlite3_stmt *rows = prepare(db, "SELECT CASE WHEN ?1 < 0 THEN rowid ELSE 7 END FROM t");
    sqlite3_bind_int(rows, 1, -1);
    assert_step(rows, 10);
    assert_step(rows, 20);
    sqlite3_reset(rows);
    sqlite3_bind_int(rows, 1, 1);
    for (int i = 0; i < 4; i++) assert_step(rows, 7);
    assert_done(rows);
    sqlite3_stmt *ones = prepare(db, "SELECT 1 FROM t");
    for (int i = 0; i < 4; i++) assert_step(ones, 1);
    assert_done(ones);
    close_db(db);
}

static void open_cursor_survives_rollback_of_its_connection(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t(id) VALUES (1), (2), (3); BEGIN; INSERT INTO t(id) VALUES (4)");
    sqlite3_stmt *scan = prepare(db, "SELECT id FROM t");
    assert_step(scan, 1);
    must(db, "ROLLBACK");
    int rc = sqlite3_step(scan); /* SQLite may end it: SQLITE_ABORT_ROLLBACK; a row is right too */
    assert_true(rc == SQLITE_ROW || rc == SQLITE_ABORT);
    sqlite3_finalize(scan);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 3);
    close_db(db);
}

/* ---- codes ---------------------------------------------------------------------------------- */

static void assert_code(sqlite3 *db, const char *sql, int code, const char *words)
{
    assert_true(run(db, sql) != SQLITE_OK);
    assert_int_equal(sqlite3_extended_errcode(db), code);
    assert_string_equal(sqlite3_errmsg(db), words);
}

static void constraints_have_the_codes_of_an_ordinary_table(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db,
         "CREATE VIRTUAL TABLE k USING memwal(id TEXT PRIMARY KEY, v NOT NULL);"
         "CREATE VIRTUAL TABLE n USING memwal(v);"
         "INSERT INTO t VALUES (1, 1); INSERT INTO k VALUES ('a', 1); INSERT INTO n VALUES (1)");
    assert_code(db, "INSERT INTO t VALUES (1, 1)", SQLITE_CONSTRAINT_PRIMARYKEY,
                "UNIQUE constraint failed: t.id");
    assert_code(db, "INSERT INTO k VALUES ('a', 1)", SQLITE_CONSTRAINT_PRIMARYKEY,
                "UNIQUE constraint failed: k.id");
    assert_code(db, "INSERT INTO n(rowid) VALUES (1)", SQLITE_CONSTRAINT_ROWID,
                "UNIQUE constraint failed: n.rowid");
    assert_code(db, "INSERT INTO k VALUES ('b', NULL)", SQLITE_CONSTRAINT_NOTNULL,
                "NOT NULL constraint failed: k.v");
    assert_code(db, "INSERT INTO k VALUES (NULL, 1)", SQLITE_CONSTRAINT_NOTNULL,
                "NOT NULL constraint failed: k.id");
    assert_code(db, "INSERT INTO t VALUES ('x', 1)", SQLITE_MISMATCH, "datatype mismatch");
    assert_code(db, "UPDATE t SET id = NULL", SQLITE_MISMATCH, "datatype mismatch");
    close_db(db);
}

static void missing_store_is_named_and_drop_works(void **state)
{
    (void)state;
    char sql[400];
    sqlite3 *db = connect_to(database);
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE t USING memwal(a, path = 'inside')");
    must(db, sql);
    must(db, "INSERT INTO t VALUES (1)");
    close_db(db);
    snprintf(sql, sizeof sql, "mv '%s/inside' '%s/moved'", folder, folder);
    assert_int_equal(system(sql), 0);
    db = connect_to(database);
    must(db, "PRAGMA table_info(t)");
    assert_int_equal(run(db, "SELECT * FROM t"), SQLITE_CANTOPEN);
    assert_non_null(strstr(sqlite3_errmsg(db), "/inside"));
    assert_int_equal(run(db, "INSERT INTO t VALUES (2)"), SQLITE_CANTOPEN);
    assert_non_null(strstr(sqlite3_errmsg(db), "memwal: "));
    snprintf(sql, sizeof sql, "mv '%s/moved' '%s/inside'", folder, folder);
    assert_int_equal(system(sql), 0);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 1);
    must(db, "DROP TABLE t");
    close_db(db);
}

static void another_store_under_the_path_is_refused(void **state)
{
    (void)state;
    char sql[400];
    sqlite3 *db = connect_to(database);
    must(db, "CREATE VIRTUAL TABLE t USING memwal(a, path = 'one');"
             "CREATE VIRTUAL TABLE u USING memwal(a, path = 'two')");
    close_db(db);
    snprintf(sql, sizeof sql, "cd '%s' && rm -r one && mv two one", folder);
    assert_int_equal(system(sql), 0);
    db = connect_to(database);
    assert_true(run(db, "SELECT * FROM t") != SQLITE_OK);
    assert_non_null(strstr(sqlite3_errmsg(db), "memwal: "));
    must(db, "DROP TABLE t");
    close_db(db);
}

static void wrong_columns_and_missing_folders_are_named(void **state)
{
    (void)state;
    sqlite3 *db = connect_to(database);
    must(db, "CREATE VIRTUAL TABLE p USING memwal(id TEXT PRIMARY KEY, v, path = 'store')");
    assert_int_equal(
        run(db, "CREATE VIRTUAL TABLE q USING memwal(id TEXT PRIMARY KEY, w, path = 'store')"),
        SQLITE_MISMATCH);
    assert_non_null(strstr(sqlite3_errmsg(db), "has other columns"));
    assert_int_equal(run(db, "CREATE VIRTUAL TABLE q USING memwal(path = 'nothing')"),
                     SQLITE_CANTOPEN);
    assert_non_null(strstr(sqlite3_errmsg(db), "found none"));
    assert_true(run(db, "CREATE VIRTUAL TABLE q USING memwal(v, path = 'no/such/folder')") !=
                SQLITE_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'q%'"), 0);
    close_db(db);
}

/* First column of the only row, as text. */
static void text_of(sqlite3 *db, const char *sql, char text[400])
{
    sqlite3_stmt *statement = prepare(db, sql);
    if (sqlite3_step(statement) != SQLITE_ROW) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    snprintf(text, 400, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

static void expect_words(sqlite3 *db, const char *sql, int code, const char *first,
                         const char *second)
{
    int found = run(db, sql);
    const char *words = sqlite3_errmsg(db);
    if (found != code || !strstr(words, first) || !strstr(words, second)) {
        fail_msg("%s: expected %d with %s and %s, found %d: %s", sql, code, first, second, found,
                 words);
    }
}

/* C61: a file where a folder is expected, and a folder that nobody has made to hold the store. */
static void paths_that_cannot_be_folders_are_refused_in_words(void **state)
{
    (void)state;
    char parent[200];
    sqlite3 *db = connect_to(database);
    must(db, "CREATE TABLE o(x)"); /* makes the file */
    for (int attach = 0; attach < 2; attach++) {
        char sql[200];
        const char *columns = attach ? "" : "a, ";
        static const char *const paths[] = {"test.db", "test.db/under", "./test.db/"};
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE q USING memwal(%spath = '%s')", columns,
                     paths[i]);
            expect_words(db, sql, SQLITE_CANTOPEN, "/test.db", "expected a folder");
        }
    }
    snprintf(parent, sizeof parent, "the folder %s/no/such is missing", folder);
    expect_words(db, "CREATE VIRTUAL TABLE q USING memwal(a, path = 'no/such/folder')",
                 SQLITE_CANTOPEN, parent, "make it first");
    expect_words(db, "CREATE VIRTUAL TABLE q USING memwal(a, path = 'no/such/folder//')",
                 SQLITE_CANTOPEN, parent, "make it first");
    snprintf(parent, sizeof parent, "mkdir -p '%s/no/such'", folder);
    assert_int_equal(system(parent), 0);
    must(db, "CREATE VIRTUAL TABLE q USING memwal(a, path = 'no/such/folder')");
    must(db, "INSERT INTO q VALUES (1)");
    close_db(db);
}

static void flip(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

/* I9: the names of files are alike in all stores: the folder is told with them, whoever asks. */
static void a_damaged_file_is_named_with_its_folder(void **state)
{
    (void)state;
    static const char *const kinds[] = {"table", "manifest"};
    for (int i = 0; i < 2; i++) {
        char name[400];
        char in[400];
        char path[804];
        sqlite3 *db = open_with_table();
        must(db, "INSERT INTO t VALUES (1, 'one'), (2, 'two'); SELECT memwal_flush('t')");
        must(db, "INSERT INTO t VALUES (3, 'three'); SELECT memwal_flush('t')");
        snprintf(path, sizeof path, "SELECT file FROM memwal_files('t') WHERE kind = '%s'",
                 kinds[i]);
        text_of(db, path, name);
        text_of(db, "SELECT value FROM memwal_stats('t') WHERE name = 'path'", in);
        snprintf(path, sizeof path, "%s/%s", in, name);
        close_db(db);
        flip(path, 70);
        db = connect_to(database);
        expect_words(db, "SELECT v FROM t", SQLITE_CORRUPT, name, in);
        expect_words(db, "SELECT memwal_compact('t')", SQLITE_CORRUPT, name, in);
        expect_words(db, "UPDATE t SET v = 2 WHERE id = 1", SQLITE_CORRUPT, name, in);
        must(db, "DROP TABLE t");
        close_db(db);
    }
}

static void damage_table_file(char path[804])
{
    char name[400];
    char in[400];
    char command[1000];
    sqlite3 *db = connect_to(database);
    text_of(db, "SELECT file FROM memwal_files('t') WHERE kind = 'table'", name);
    text_of(db, "SELECT value FROM memwal_stats('t') WHERE name = 'path'", in);
    long middle = (long)number(db, "SELECT bytes / 2 FROM memwal_files('t') WHERE kind = 'table'");
    close_db(db);
    snprintf(path, 804, "%s/%s", in, name);
    snprintf(command, sizeof command, "cp '%s' '%s/copy'", path, folder);
    assert_int_equal(system(command), 0);
    flip(path, middle);
}

/* The last id that a statement gives before it meets the damage. */
static sqlite3_int64 last_before_damage(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = prepare(db, sql);
    sqlite3_int64 last = 0;
    while (sqlite3_step(statement) == SQLITE_ROW) last = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_CORRUPT);
    return last;
}

static void copy_ids(sqlite3 *db, const char *columns, sqlite3_int64 from, sqlite3_int64 to)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "INSERT INTO rescued(%s) SELECT %s FROM t WHERE id >= %lld AND id <= %lld", columns,
             columns, (long long)from, (long long)to);
    must(db, sql);
}

/* I9, and the README's "My store is damaged": what it says works, step by step. */
static void what_is_not_damaged_is_copied_out(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    char path[804];
    char text[400];
    sqlite3 *db = connect_to(database);
    must(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, name, body);"
             "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)"
             " INSERT INTO t SELECT i, 'n' || i, hex(randomblob(20)) FROM c;"
             "SELECT memwal_flush('t')");
    close_db(db);
    damage_table_file(path);
    db = connect_to(database);
    text_of(db, "SELECT memwal_check('t')", text);
    assert_non_null(strstr(text, "fail their checksum"));
    assert_int_equal(number(db, "SELECT memwal_count('t')"), ROWS);
    sqlite3_int64 before = last_before_damage(db, "SELECT * FROM t");
    sqlite3_int64 behind = last_before_damage(db, "SELECT * FROM t ORDER BY id DESC");
    assert_in_range(before, 2000, 18000);
    assert_in_range(behind, before + 2, before + 4097);
    must(db, "CREATE VIRTUAL TABLE rescued USING memwal(id INTEGER PRIMARY KEY, name, body)");
    copy_ids(db, "id, name, body", 1, before);
    copy_ids(db, "id, name, body", behind, ROWS);
    copy_ids(db, "id, name", before + 1, behind - 1);
    assert_int_equal(number(db, "SELECT count(name) FROM rescued"), ROWS);
    assert_int_equal(number(db, "SELECT count(*) FROM rescued WHERE body IS NULL"),
                     behind - before - 1);
    close_db(db);
    char command[1000];
    snprintf(command, sizeof command, "cp '%s/copy' '%s'", folder, path); /* as from a backup */
    assert_int_equal(system(command), 0);
    db = connect_to(database);
    text_of(db, "SELECT memwal_check('t')", text);
    assert_string_equal(text, "ok");
    must(db, "DROP TABLE t; ALTER TABLE rescued RENAME TO t");
    text_of(db, "SELECT memwal_check('t')", text);
    assert_string_equal(text, "ok");
    close_db(db);
}

/* ---- the end of transactions ---------------------------------------------------------------- */

static int veto(void *asked)
{
    ++*(int *)asked;
    return 1;
}

/* After xSync said ok, SQLite may still roll back. */
static void commit_hook_takes_a_prepared_transaction_back(void **state)
{
    (void)state;
    int asked = 0;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t VALUES (1, 'stays')");
    sqlite3_commit_hook(db, veto, &asked);
    assert_int_equal(run(db, "INSERT INTO t VALUES (2, 'no')"), SQLITE_CONSTRAINT);
    assert_int_equal(run(db, "BEGIN; UPDATE t SET v = 'no'; COMMIT"), SQLITE_CONSTRAINT);
    assert_int_equal(asked, 2);
    sqlite3_commit_hook(db, NULL, NULL);
    assert_int_equal(number(db, "SELECT count(*) FROM t WHERE v = 'stays'"), 1);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 1);
    must(db, "INSERT INTO t VALUES (3, 'yes')");
    close_db(db);
    db = connect_to(database);
    assert_int_equal(number(db, "SELECT group_concat(id, '') FROM t"), 13);
    close_db(db);
}

/* COMMIT answered BUSY by the host: the transaction stays open, may go on, and is committed once.
** */
static void commit_that_was_busy_is_repeated(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    sqlite3 *reader = connect_to(database);
    must(db, "CREATE TABLE o(x); INSERT INTO o VALUES (1), (2)");
    sqlite3_stmt *scan = prepare(reader, "SELECT x FROM o");
    assert_step(scan, 1); /* holds the host's shared lock */
    must(db, "BEGIN; INSERT INTO t VALUES (1, 'a')");
    assert_int_equal(run(db, "COMMIT"), SQLITE_BUSY);
    assert_int_equal(sqlite3_get_autocommit(db), 0);
    assert_int_equal(run(db, "COMMIT"), SQLITE_BUSY);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 1);
    must(
        db,
        "INSERT INTO t VALUES (2, 'b'); SAVEPOINT s; INSERT INTO t VALUES (3, 'c'); ROLLBACK TO s");
    assert_int_equal(run(db, "COMMIT"), SQLITE_BUSY);
    sqlite3_finalize(scan);
    must(db, "COMMIT");
    assert_int_equal(number(reader, "SELECT group_concat(id, '') FROM t"), 12);
    close_db(reader);
    close_db(db);
    db = connect_to(database);
    assert_int_equal(number(db, "SELECT group_concat(id, '') FROM t"), 12);
    assert_int_equal(number(db, "SELECT memwal_count('t')"), 2);
    close_db(db);
}

/* C43 */
static void other_connections_see_rows_after_commit_only(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    sqlite3 *other = connect_to(database);
    must(db, "INSERT INTO t VALUES (1, 'old')");
    assert_int_equal(number(other, "SELECT count(*) FROM t"), 1);
    must(db, "BEGIN; INSERT INTO t VALUES (2, 'x'); UPDATE t SET v = 'new'");
    assert_int_equal(number(other, "SELECT count(*) FROM t"), 1);
    assert_int_equal(number(other, "SELECT count(*) FROM t WHERE v = 'old'"), 1);
    assert_int_equal(number(other, "SELECT memwal_count('t')"), 1);
    assert_int_equal(number(db, "SELECT memwal_count('t')"), 2);
    must(db, "COMMIT");
    assert_int_equal(number(other, "SELECT count(*) FROM t WHERE v = 'new'"), 2);
    close_db(other);
    close_db(db);
}

static void close_with_an_open_statement_rolls_back(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t VALUES (1, 'a'); CREATE TABLE o(x); INSERT INTO o VALUES (1), (2)");
    sqlite3_stmt *scan = prepare(db, "SELECT x FROM o");
    assert_step(scan, 1);
    must(db, "BEGIN; INSERT INTO t VALUES (2, 'b')");
    assert_int_equal(sqlite3_close(db), SQLITE_BUSY); /* has told the table already */
    sqlite3_finalize(scan);
    must(db, "ROLLBACK");
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 1);
    close_db(db);
}

static void close_inside_a_transaction_rolls_back(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t VALUES (1, 'a'); BEGIN; INSERT INTO t VALUES (2, 'b')");
    close_db(db);
    db = connect_to(database);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 1);
    must(db, "INSERT INTO t VALUES (2, 'c')");
    close_db(db);
}

/* ---- several connections over one store ----------------------------------------------------- */

static void turn_is_waited_for_as_long_as_the_busy_timeout(void **state)
{
    (void)state;
    sqlite3 *a = connect_to(":memory:");
    sqlite3 *b = connect_to(":memory:");
    join_store(a, "id INTEGER PRIMARY KEY, v, ");
    join_store(b, "");
    must(a, "BEGIN; INSERT INTO t VALUES (1, 'a')");
    assert_int_equal(run(b, "INSERT INTO t VALUES (2, 'b')"), SQLITE_BUSY);
    assert_non_null(strstr(sqlite3_errmsg(b), "memwal: "));
    sqlite3_busy_timeout(b, 150);
    struct timespec began;
    struct timespec ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    assert_int_equal(run(b, "INSERT INTO t VALUES (2, 'b')"), SQLITE_BUSY);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    int64_t waited_ms =
        (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000;
    assert_in_range(waited_ms, 140, 5000);
    must(a, "COMMIT");
    must(b, "INSERT INTO t VALUES (2, 'b')");
    assert_int_equal(number(a, "SELECT count(*) FROM t"), 2);
    close_db(a);
    close_db(b);
}

/* snapshot = 'statement', tables of memory and temp only: what others wrote is seen by a transaction
** that began before. */
static void statements_see_the_newest_state_inside_begin(void **state)
{
    (void)state;
    sqlite3 *a = connect_to(":memory:");
    sqlite3 *b = connect_to(":memory:");
    join_store(a, "id INTEGER PRIMARY KEY, v, snapshot = 'statement', ");
    join_store(b, "");
    must(a, "BEGIN");
    assert_int_equal(number(a, "SELECT count(*) FROM t"), 0);
    must(b, "INSERT INTO t VALUES (1, 1)");
    must(a, "UPDATE t SET v = v + 1");
    assert_int_equal(number(a, "SELECT v FROM t"), 2);
    must(a, "COMMIT");
    assert_int_equal(number(b, "SELECT v FROM t"), 2);
    close_db(a);
    close_db(b);
}

static void one_statement_sees_one_moment_while_others_write(void **state)
{
    (void)state;
    sqlite3 *a = connect_to(":memory:");
    sqlite3 *b = connect_to(":memory:");
    join_store(a, "id INTEGER PRIMARY KEY, v, ");
    join_store(b, "");
    must(a, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
    sqlite3_stmt *scan =
        prepare(a, "SELECT (SELECT count(*) FROM t y WHERE y.id >= x.id - x.id) FROM t x");
    assert_step(scan, 3);
    must(b, "INSERT INTO t VALUES (4, 4); DELETE FROM t WHERE id = 2");
    assert_step(scan, 3);
    assert_step(scan, 3);
    assert_done(scan);
    assert_int_equal(number(a, "SELECT group_concat(id, '') FROM t"), 134);
    close_db(a);
    close_db(b);
}

/* ---- a forked child ------------------------------------------------------------------------- */

static int use_in_child(sqlite3 *db)
{
    if (run(db, "SELECT * FROM t") != SQLITE_MISUSE || !strstr(sqlite3_errmsg(db), "fork"))
        return 1;
    if (run(db, "INSERT INTO t VALUES (9, 9)") != SQLITE_MISUSE) return 2;
    return 0;
}

static void forked_child_is_refused(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t VALUES (1, 1)");
    pid_t child = fork();
    if (child == 0) _exit(use_in_child(db));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    must(db, "INSERT INTO t VALUES (2, 2)");
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 2);
    close_db(db);
}

/* ---- objects come and go -------------------------------------------------------------------- */

static void statements_survive_vacuum_and_schema_changes(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    sqlite3 *other = connect_to(database);
    sqlite3_stmt *insert = prepare(db, "INSERT INTO t(v) VALUES ('x')");
    static const char *const changes[] = {"VACUUM", "CREATE TABLE o(x)",
                                          "ALTER TABLE o RENAME TO p", "DROP TABLE p"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
        sqlite3_reset(insert);
        must(i % 2 ? other : db, changes[i]);
    }
    assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
    assert_int_equal(sqlite3_last_insert_rowid(db), 5);
    sqlite3_finalize(insert);
    assert_int_equal(number(other, "SELECT count(*) FROM t"), 5);
    must(db, "BEGIN; INSERT INTO t(v) VALUES ('y'); CREATE TABLE q(x); INSERT INTO t(v) VALUES "
             "('z'); SAVEPOINT s; "
             "CREATE TABLE r(x); INSERT INTO t(v) VALUES ('no'); ROLLBACK TO s; INSERT INTO t(v) "
             "VALUES ('w'); COMMIT");
    assert_int_equal(number(other, "SELECT count(*) FROM t"), 8);
    close_db(other);
    close_db(db);
}

static void rows_of_memory_tables_go_with_the_connection(void **state)
{
    (void)state;
    sqlite3 *db = connect_to(":memory:");
    setenv("TMPDIR", folder, 1);
    must(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1), (2); BEGIN; DROP "
             "TABLE t; ROLLBACK;"
             "VACUUM");
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 2);
    char command[256];
    snprintf(command, sizeof command, "test \"$(ls -d %s/memwal-* | wc -l)\" = 1", folder);
    assert_int_equal(system(command), 0);
    must(db, "DROP TABLE t");
    close_db(db);
    snprintf(command, sizeof command, "test -z \"$(ls %s)\"", folder);
    assert_int_equal(system(command), 0);
    unsetenv("TMPDIR");
}

static void statement_in_reset_of_interrupt_works_again(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t(v) VALUES (1), (2), (3)");
    sqlite3_stmt *scan = prepare(db, "SELECT id FROM t");
    assert_step(scan, 1);
    sqlite3_interrupt(db);
    assert_int_equal(sqlite3_step(scan), SQLITE_INTERRUPT);
    sqlite3_reset(scan);
    for (int i = 1; i <= 3; i++) assert_step(scan, i);
    assert_done(scan);
    close_db(db);
}

/* C54, C57 in small: what is bound comes back. */
static void values_of_all_sizes_come_back(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    static const int sizes[] = {0, 1, 70, 65536, 3000000};
    sqlite3_stmt *insert = prepare(db, "INSERT INTO t VALUES (?1, zeroblob(?2))");
    for (int i = 0; i < 5; i++) {
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_int(insert, 2, sizes[i]);
        assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    for (int pass = 0; pass < 2; pass++) {
        sqlite3_stmt *lengths = prepare(db, "SELECT length(v) FROM t");
        for (int i = 0; i < 5; i++) assert_step(lengths, sizes[i]);
        assert_done(lengths);
        if (pass == 0) must(db, "SELECT memwal_flush('t')");
    }
    close_db(db);
}

/* ---- memory --------------------------------------------------------------------------------- */

static sqlite3_mem_methods plain_memory;
static long allocations_left = -1; /* then one fails; below 0: none does */

static int fails_now(void) { return allocations_left >= 0 && allocations_left-- == 0; }

static void *failing_malloc(int bytes) { return fails_now() ? NULL : plain_memory.xMalloc(bytes); }

static void *failing_realloc(void *old, int bytes)
{
    return fails_now() ? NULL : plain_memory.xRealloc(old, bytes);
}

/* Before SQLite is used at all. */
static void prepare_memory(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain_memory);
    sqlite3_mem_methods failing = plain_memory;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
}

/* Runs sql with its n-th allocation failing, for n = 0, step, ... until it passes without one. */
static void run_out_of_memory(sqlite3 *db, int step, const char *sql)
{
    for (long n = 0;; n += step) {
        allocations_left = n;
        int rc = run(db, sql);
        int reached = allocations_left < 0;
        allocations_left = -1;
        if (!sqlite3_get_autocommit(db)) must(db, "ROLLBACK");
        if (rc == SQLITE_OK) {
            if (!reached) return;
            continue; /* the failure did not matter */
        }
        assert_true(rc == SQLITE_NOMEM || rc == SQLITE_ERROR || rc == SQLITE_CONSTRAINT);
        assert_int_equal(number(db, "SELECT count(*) = memwal_count('t') FROM t"), 1);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    sqlite3 *db = open_with_table();
    must(db, "INSERT INTO t VALUES (1, 'a'), (2, 'b')");
    run_out_of_memory(db, 1, "SELECT id, v FROM t WHERE id > 0 ORDER BY id DESC");
    run_out_of_memory(db, 1, "SELECT count(*), memwal_count('t') FROM t");
    run_out_of_memory(db, 1, "INSERT OR REPLACE INTO t VALUES (3, '12' || 3), (4, x'00')");
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 4);
    run_out_of_memory(db, 1,
                      "BEGIN; SAVEPOINT a; UPDATE t SET v = 'c'; ROLLBACK TO a; DELETE FROM t; "
                      "ROLLBACK");
    assert_int_equal(number(db, "SELECT count(*) FROM t WHERE v <> 'c'"), 4);
    run_out_of_memory(db, 1,
                      "UPDATE OR REPLACE t SET id = 1 WHERE id = 2; DELETE FROM t WHERE id = 1; "
                      "INSERT OR REPLACE INTO t VALUES (1, 'a'), (2, 'b')");
    assert_int_equal(number(db, "SELECT group_concat(id, '') FROM t"), 1234);
    must(db, "CREATE VIRTUAL TABLE k USING memwal(id TEXT PRIMARY KEY DEFAULT 'd', v);"
             "INSERT INTO k VALUES ('a', 1), ('b', 2), ('01', 3)");
    run_out_of_memory(db, 1, "SELECT v FROM k WHERE id IN ('a', 'b', 'z') ORDER BY id DESC");
    run_out_of_memory(db, 1, "SELECT v FROM k WHERE id IN (SELECT id FROM t)");
    run_out_of_memory(db, 1, "SELECT v FROM k WHERE id = CAST(1 AS INTEGER)");
    run_out_of_memory(db, 1, "INSERT OR REPLACE INTO k(v) VALUES (1); DELETE FROM k WHERE id = 'd'");
    assert_int_equal(number(db, "SELECT count(*) FROM k WHERE id = CAST(1 AS INTEGER)"), 1);
    run_out_of_memory(db, 1, "BEGIN; CREATE TABLE a(x); SELECT memwal_count('t'); ROLLBACK;"
                             "SELECT memwal_count('main.k')");
    run_out_of_memory(db, 1, "DROP TABLE IF EXISTS temp.memwal_moment; BEGIN; SELECT id FROM t;"
                             "SELECT memwal_count('t'); COMMIT");
    run_out_of_memory(db, 29, "BEGIN; CREATE VIRTUAL TABLE u USING memwal(id TEXT PRIMARY KEY, v);"
                          "INSERT INTO u VALUES ('x', 1); ALTER TABLE u RENAME TO w; ROLLBACK");
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema WHERE name > 't_'"), 1);
    close_db(db);
}

static void reopening_may_run_out_of_memory(void **state)
{
    (void)state;
    close_db(open_with_table());
    for (long n = 0, failed = 1; failed; n += 7) {
        sqlite3 *db = connect_to(database);
        allocations_left = n;
        failed = run(db, "INSERT OR REPLACE INTO t VALUES (1, 'a')") != SQLITE_OK;
        failed = failed || allocations_left < 0;
        allocations_left = -1;
        must(db, "INSERT OR REPLACE INTO t VALUES (1, 'b')");
        close_db(db);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_cursors_and_look_ups_do_not_disturb_each_other),
        TEST(scan_goes_on_over_a_delete_on_its_own_connection),
        TEST(scan_never_meets_rows_written_after_its_start),
        TEST(inner_scan_keeps_its_moment),
        TEST(counting_turns_into_reading_where_it_stands),
        TEST(open_cursor_survives_rollback_of_its_connection),
        TEST(constraints_have_the_codes_of_an_ordinary_table),
        TEST(missing_store_is_named_and_drop_works),
        TEST(another_store_under_the_path_is_refused),
        TEST(wrong_columns_and_missing_folders_are_named),
        TEST(paths_that_cannot_be_folders_are_refused_in_words),
        TEST(a_damaged_file_is_named_with_its_folder),
        TEST(what_is_not_damaged_is_copied_out),
        TEST(commit_hook_takes_a_prepared_transaction_back),
        TEST(commit_that_was_busy_is_repeated),
        TEST(other_connections_see_rows_after_commit_only),
        TEST(close_with_an_open_statement_rolls_back),
        TEST(close_inside_a_transaction_rolls_back),
        TEST(turn_is_waited_for_as_long_as_the_busy_timeout),
        TEST(statements_see_the_newest_state_inside_begin),
        TEST(one_statement_sees_one_moment_while_others_write),
        TEST(forked_child_is_refused),
        TEST(statements_survive_vacuum_and_schema_changes),
        TEST(rows_of_memory_tables_go_with_the_connection),
        TEST(statement_in_reset_of_interrupt_works_again),
        TEST(values_of_all_sizes_come_back),
        TEST(every_allocation_may_fail),
        TEST(reopening_may_run_out_of_memory),
    };
    prepare_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
