/* schema_test.c: the schema changes under a table, or is not what it should be; and what a table
** leaves on the disk, for whom to read. */
#include "client.h"

enum { PATH_BYTES = PATH_MAX + 64 };

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

static void assert_text(sqlite3 *db, const char *sql, const char *expected)
{
    char found[CLIENT_TEXT_BYTES];
    client_ask_text(db, found, sql);
    assert_string_equal(found, expected);
}

/* The statement fails with this code and with words that have this part. */
static void assert_refused(sqlite3 *db, const char *sql, int code, const char *part)
{
    char words[CLIENT_TEXT_BYTES];
    assert_int_equal(client_try(db, words, "%s", sql), code);
    if (!strstr(words, part)) client_fail("%s: expected ..%s.., found %s", sql, part, words);
}

/* ---- names of tables that others change ---------------------------------------------------- */

/* Every function that takes a name, for a table of that many rows. */
static void assert_rows(sqlite3 *db, const char *name, int64_t rows)
{
    char sql[CLIENT_TEXT_BYTES];
    snprintf(sql, sizeof sql, "SELECT memwal_count('%s')", name);
    assert_int_equal(client_ask(db, sql), rows);
    snprintf(sql, sizeof sql, "SELECT value FROM memwal_stats('%s') WHERE name = 'rows'", name);
    assert_int_equal(client_ask(db, sql), rows);
    snprintf(sql, sizeof sql, "SELECT memwal_check('%s')", name);
    assert_text(db, sql, "ok");
}

/* I7. name: of the table, with or without its schema. held: a statement of the application holds the
** object of a table that is no more. */
static void follow_changes(const char *name, bool held)
{
    sqlite3 *a = client_open(database);
    sqlite3 *b = client_open(database);
    char count[64];
    snprintf(count, sizeof count, "SELECT memwal_count('%s')", name);
    client_run(a, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
                  "INSERT INTO t VALUES (1, 1)");
    sqlite3_stmt *statement = held ? client_prepare(b, "SELECT * FROM t") : NULL;
    assert_rows(b, name, 1);
    client_run(a, "DROP TABLE t");
    assert_refused(b, count, SQLITE_ERROR, "found no table named");
    client_run(a, "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, v);"
                  "INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3)");
    assert_rows(b, name, 3);
    client_run(a, "ALTER TABLE t RENAME TO u; CREATE VIRTUAL TABLE t USING memwal(x)");
    assert_rows(b, name, 0);
    assert_rows(b, "u", 3);
    client_run(a, "INSERT INTO t VALUES (1), (2)");
    assert_rows(b, name, 2);
    client_run(a, "DROP TABLE t; CREATE TABLE t(x)");
    assert_refused(b, count, SQLITE_ERROR, "is none");
    client_run(a, "DROP TABLE t; ALTER TABLE u RENAME TO t");
    assert_rows(b, name, 3);
    client_run(b, "BEGIN; DROP TABLE t; CREATE VIRTUAL TABLE t USING memwal(x);"
                  "INSERT INTO t VALUES (1)");
    assert_int_equal(client_ask(b, count), 1);
    client_run(b, "ROLLBACK");
    assert_rows(b, name, 3);
    client_run(b, "DROP TABLE t");
    assert_refused(a, count, SQLITE_ERROR, "found no table named");
    if (held) assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    client_close(a);
    client_close(b);
}

static void names_mean_what_is_in_the_schema_now(void **state)
{
    (void)state;
    follow_changes("t", false);
    follow_changes("main.t", false);
    follow_changes("T", true);
    follow_changes("\"main\".[t]", true);
}

/* A table that appears in an earlier schema takes the name. */
static void names_are_looked_for_in_sqlites_order(void **state)
{
    (void)state;
    char second[PATH_BYTES];
    char third[PATH_BYTES];
    snprintf(second, sizeof second, "%s/second.db", folder);
    snprintf(third, sizeof third, "%s/third.db", folder);
    sqlite3 *a = client_open(database);
    sqlite3 *b = client_open(second);
    sqlite3 *c = client_open(third);
    client_run(b, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1), (2)");
    client_run(c, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1)");
    client_run(a, "ATTACH '%s' AS side", second);
    assert_rows(a, "t", 2);
    client_run(a, "DETACH side; ATTACH '%s' AS side", third);
    assert_rows(a, "t", 1);
    assert_rows(a, "side.t", 1);
    client_run(a, "ATTACH '%s' AS more", second);
    assert_rows(a, "t", 1);
    assert_rows(a, "more.t", 2);
    client_run(c, "DROP TABLE t");
    assert_rows(a, "t", 2);
    sqlite3 *main = client_open(database);
    client_run(main, "CREATE VIRTUAL TABLE t USING memwal(v)");
    assert_rows(a, "t", 0);
    client_run(a,
               "CREATE VIRTUAL TABLE temp.t USING memwal(v); INSERT INTO temp.t VALUES (1), (2), "
               "(3)");
    assert_rows(a, "t", 3);
    client_run(a, "DROP TABLE temp.t; CREATE VIRTUAL TABLE temp.t USING memwal(w)");
    assert_rows(a, "t", 0);
    client_run(a, "DROP TABLE temp.t; INSERT INTO main.t VALUES (4)");
    assert_rows(a, "t", 1);
    client_run(a, "DETACH more; DETACH side");
    assert_refused(a, "SELECT memwal_count('side.t')", SQLITE_ERROR, "found no table named side.t");
    client_close(main);
    client_close(a);
    client_close(b);
    client_close(c);
}

static void names_are_read_to_their_end(void **state)
{
    (void)state;
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1);"
                   "CREATE VIRTUAL TABLE \"a.b\" USING memwal(v)");
    static const char *const wrong[] = {"main.t.x", "\"t\"x", "\"t",   "[t",  "t.",    ".t",
                                        "",         " t",     "a.b",   "t\"", "main.", "'t'.",
                                        "main..t",  "[t]]",   "[t].t", "t;"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *sql = sqlite3_mprintf("SELECT memwal_count(%Q)", wrong[i]);
        assert_refused(db, sql, SQLITE_ERROR, "found no table named");
        sqlite3_free(sql);
    }
    assert_int_equal(client_ask(db, "SELECT memwal_count('\"a.b\"')"), 0);
    assert_int_equal(client_ask(db, "SELECT memwal_count('[main].''t''')"), 1);
    client_close(db);
}

/* What is kept for the next look is in nobody's way. */
static void looking_keeps_nothing_from_ending(void **state)
{
    (void)state;
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY);"
                   "INSERT INTO t VALUES (1)");
    assert_rows(db, "t", 1);
    client_run(db, "VACUUM");
    assert_rows(db, "t", 1);
    client_run(db,
               "PRAGMA journal_mode = WAL; PRAGMA journal_mode = DELETE; ALTER TABLE t RENAME TO u;"
               "DROP TABLE u");
    assert_refused(db, "SELECT memwal_count('u')", SQLITE_ERROR, "found no table named u");
    assert_null(sqlite3_next_stmt(db, NULL));
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY);"
                   "INSERT INTO t VALUES (1)");
    assert_rows(db, "main.t", 1);
    client_close(db);

    db = client_open(database);
    assert_rows(db, "t", 1);
    sqlite3_stmt *scan = client_prepare(db, "SELECT id FROM t");
    assert_true(client_step(scan));
    assert_int_equal(sqlite3_close(db), SQLITE_BUSY);
    assert_rows(db, "t", 1);
    assert_int_equal(sqlite3_close_v2(db), SQLITE_OK);
    assert_false(client_step(scan));
    client_finalize(scan);

    db = client_open(database);
    assert_rows(db, "t", 1);
    client_run(db, "BEGIN IMMEDIATE; INSERT INTO t VALUES (2); COMMIT");
    client_close(db);
}

/* ---- tables that are not what they should be ----------------------------------------------- */

/* The schema loads, other tables can be changed, and the table can be dropped. */
static void assert_broken(const char *words)
{
    sqlite3 *db = client_open(database);
    assert_refused(db, "SELECT * FROM t", SQLITE_CORRUPT_VTAB, words);
    assert_refused(db, "INSERT INTO t VALUES (1)", SQLITE_CORRUPT_VTAB, words);
    assert_refused(db, "UPDATE t SET memwal_unreadable = 1", SQLITE_CORRUPT_VTAB, words);
    assert_refused(db, "SELECT memwal_count('t')", SQLITE_CORRUPT_VTAB, words);
    client_run(db, "ALTER TABLE o RENAME TO p; ALTER TABLE p ADD COLUMN y; PRAGMA integrity_check");
    client_run(db, "DROP TABLE t; SELECT * FROM p");
    client_close(db);
}

/* A database with a table t over a store, and with others that ALTER looks at. */
static void make_schema(const char *sql)
{
    remove_folder(NULL);
    make_folder(NULL);
    sqlite3 *db = client_open(database);
    client_run(db,
               "CREATE VIRTUAL TABLE z USING memwal(a, path = 'store'); INSERT INTO z VALUES (1)");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(path = 'store'); CREATE TABLE o(x);"
                   "CREATE VIEW v AS SELECT * FROM t");
    client_run(db, "%s", sql);
    client_close(db);
}

static void table_that_cannot_be_declared_can_be_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *declaration;
        const char *words;
    } cases[] = {
        {"path=''/x''", "has no columns"},
        {"memtable = ''1MB''", "expected columns"},
        {"", "expected columns"},
        {"a SELECT", "syntax error"},
        {"a TEXT HIDDEN", "not HIDDEN"},
        {"a HIDDEN, b HIDDEN", "not HIDDEN"},
        {"(((", "expected a column"},
        {"a INT UNIQUE", "UNIQUE cannot be honoured"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[CLIENT_TEXT_BYTES];
        snprintf(sql, sizeof sql, "UPDATE t_store SET value = '%s' WHERE key = 'declaration'",
                 cases[i].declaration);
        make_schema(sql);
        assert_broken(cases[i].words);
    }
    make_schema("DROP TABLE t_store");
    assert_broken("does not tell the columns");
    make_schema("DELETE FROM t_store");
    assert_broken("does not tell the columns");
}

static void table_whose_arguments_are_wrong_can_be_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        const char *words;
    } cases[] = {
        {"a, colour = 'red'", "colour"},
        {"a CHECK (a > 0)", "CHECK cannot be honoured"},
        {"a INT UNIQUE", "UNIQUE cannot be honoured"},
        {"a HIDDEN", "not HIDDEN"},
        {"a SELECT", "syntax error"},
        {"", "expected columns"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *sql = sqlite3_mprintf(
            "PRAGMA writable_schema = on; UPDATE sqlite_schema SET sql = 'CREATE VIRTUAL TABLE t "
            "USING memwal(' || %Q || ')' WHERE name = 't'; PRAGMA writable_schema = off",
            cases[i].arguments);
        make_schema(sql);
        sqlite3_free(sql);
        assert_broken(cases[i].words);
    }
}

static void never_like(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_int(context, 0);
}

/* Whether a created table is still there is not asked with functions that an application may have
** put in the place of SQLite's. */
static void created_table_keeps_its_rows_whatever_like_means(void **state)
{
    (void)state;
    sqlite3 *db = client_open(database);
    for (int arguments = 2; arguments <= 3; arguments++) {
        assert_int_equal(sqlite3_create_function(db, "like", arguments, SQLITE_UTF8, NULL,
                                                 never_like, NULL, NULL),
                         SQLITE_OK);
    }
    client_run(db, "BEGIN; CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
                   "INSERT INTO t VALUES (1, 2); COMMIT");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 1);
    client_close(db);
}

/* A failed load leaves nothing that makes the next one believe that all is there. */
static void loading_again_makes_up_for_a_failure(void **state)
{
    (void)state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
    sqlite3_enable_load_extension(db, 1);
    assert_int_equal(
        sqlite3_create_function(db, "memwal_check", 1, SQLITE_UTF8, NULL, never_like, NULL, NULL),
        SQLITE_OK);
    /* SQLite replaces no function while a statement is running. */
    sqlite3_stmt *running = client_prepare(db, "SELECT 1 UNION ALL SELECT 2");
    assert_true(client_step(running));
    assert_int_not_equal(sqlite3_load_extension(db, client_extension(), NULL, NULL), SQLITE_OK);
    client_finalize(running);
    assert_int_equal(sqlite3_load_extension(db, client_extension(), NULL, NULL), SQLITE_OK);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1)");
    assert_rows(db, "t", 1);
    client_close(db);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* A connection that holds the turn would wait for itself. */
static void work_that_takes_the_turn_is_refused_inside_a_transaction_at_once(void **state)
{
    (void)state;
    static const char *const calls[] = {"memwal_check('t')", "memwal_flush('t')",
                                        "memwal_merge('t')"};
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v)");
    uint64_t start = client_now_us();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char sql[CLIENT_TEXT_BYTES];
        snprintf(sql, sizeof sql, "SELECT %s", calls[i]);
        client_run(db, "BEGIN; INSERT INTO t VALUES (%d, 1)", (int)i);
        assert_refused(db, sql, SQLITE_LOCKED, "inside a transaction that has written");
        client_run(db, "COMMIT");
        snprintf(sql, sizeof sql, "INSERT INTO t(v) SELECT %s", calls[i]);
        assert_refused(db, sql, SQLITE_LOCKED, "inside a transaction that has written");
    }
    assert_true(client_now_us() - start < 5 * 1000 * 1000);
    assert_rows(db, "t", 3);
    client_close(db);
}

/* ---- rows that are gone before their turn -------------------------------------------------- */

static void delete_row_three(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    sqlite3 *db = sqlite3_context_db_handle(context);
    if (sqlite3_value_int(argv[0]) == 2) client_run(db, "DELETE FROM t WHERE id = '3'");
    sqlite3_result_null(context);
}

/* UPDATE knows its rows before it changes any. One that is gone stays gone, whatever its new values
** would be refused for. */
static void update_does_not_bring_back_a_deleted_row(void **state)
{
    (void)state;
    static const char *const tables[] = {"id INTEGER PRIMARY KEY, v NOT NULL, w",
                                         "id TEXT PRIMARY KEY, v NOT NULL, w"};
    static const char *const updates[] = {
        "UPDATE t SET w = gone(id)",
        "UPDATE t SET w = gone(id), id = id + 10",
        "UPDATE t SET w = gone(id), v = CASE WHEN id = '3' THEN NULL ELSE 1 END",
        "UPDATE t SET w = gone(id), id = CASE WHEN id = '3' THEN '1' ELSE id END",
        "UPDATE OR REPLACE t SET w = gone(id), id = CASE WHEN id = '3' THEN '1' ELSE id END",
        "UPDATE OR IGNORE t SET w = gone(id), id = CASE WHEN id = '3' THEN '1' ELSE id END",
    };
    for (size_t i = 0; i < 2 * (sizeof updates / sizeof *updates); i++) {
        sqlite3 *db = client_open(":memory:");
        assert_int_equal(
            sqlite3_create_function(db, "gone", 1, SQLITE_UTF8, NULL, delete_row_three, NULL, NULL),
            SQLITE_OK);
        client_run(db,
                   "CREATE VIRTUAL TABLE t USING memwal(%s);"
                   "INSERT INTO t VALUES ('1', 1, 0), ('2', 1, 0), ('3', 1, 0), ('4', 1, 0)",
                   tables[i % 2]);
        client_run(db, "%s", updates[i / 2]);
        assert_text(db, "SELECT group_concat(id % 10, '') FROM t", "124");
        assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), 3);
        assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE w IS NULL AND v = 1"), 3);
        client_close(db);
    }
}

/* ---- files --------------------------------------------------------------------------------- */

static mode_t mode_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static mode_t mode_of(const char *format, ...)
{
    char path[PATH_BYTES];
    struct stat info;
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    if (stat(path, &info) != 0) client_fail("%s: %s", path, strerror(errno));
    return info.st_mode & 0777;
}

/* Who may not read the database file may not enter the store. */
static void store_is_as_private_as_the_database_file(void **state)
{
    (void)state;
    static const struct {
        mode_t file;
        mode_t folder;
    } cases[] = {{0600, 0700}, {0640, 0750}, {0644, 0755}, {0660, 0770}, {0666, 0777}};
    mode_t umask_before = umask(022);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[CLIENT_TEXT_BYTES];
        remove_folder(NULL);
        make_folder(NULL);
        client_close(client_open(database));
        assert_int_equal(chmod(database, cases[i].file), 0);
        sqlite3 *db = client_open(database);
        client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES ('secret');"
                       "CREATE VIRTUAL TABLE p USING memwal(v, path = 'store');"
                       "CREATE VIRTUAL TABLE temp.q USING memwal(v, path = 'other')");
        client_ask_text(db, name, "SELECT value FROM t_store WHERE key = 'name'");
        assert_int_equal(mode_of("%s-memwal", database), cases[i].folder);
        assert_int_equal(mode_of("%s-memwal/%s", database, name), cases[i].folder);
        assert_int_equal(mode_of("%s/store", folder), cases[i].folder);
        assert_int_equal(mode_of("%s/other", folder), cases[i].folder);
        client_close(db);
    }
    umask(umask_before);
}

static void ephemeral_store_is_for_its_owner_alone(void **state)
{
    (void)state;
    mode_t umask_before = umask(0);
    char before[PATH_MAX];
    const char *set = getenv("TMPDIR");
    snprintf(before, sizeof before, "%s", set ? set : "");
    setenv("TMPDIR", folder, 1);
    sqlite3 *db = client_open(":memory:");
    char name[CLIENT_TEXT_BYTES];
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES ('secret')");
    client_ask_text(db, name, "SELECT value FROM t_store WHERE key = 'name'");
    assert_int_equal(mode_of("%s/memwal-%s", folder, name), 0700);
    client_close(db);
    if (set) {
        setenv("TMPDIR", before, 1);
    } else {
        unsetenv("TMPDIR");
    }
    umask(umask_before);
}

/* A folder that was there belongs to somebody. */
static void folder_that_was_there_keeps_its_mode(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/store", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0711), 0);
    client_close(client_open(database));
    assert_int_equal(chmod(database, 0600), 0);
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v, path = 'store')");
    assert_int_equal(mode_of("%s/store", folder), 0711);
    client_close(db);
}

/* A database in memory may be called like a file; nothing is written beside that name. */
static void named_database_in_memory_leaves_no_files(void **state)
{
    (void)state;
    char uri[PATH_BYTES];
    char path[PATH_BYTES];
    struct stat info;
    sqlite3 *db = NULL;
    snprintf(uri, sizeof uri, "file:%s/none.db?vfs=memdb", folder);
    snprintf(path, sizeof path, "%s/none.db-memwal", folder);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    assert_int_equal(sqlite3_open_v2(uri, &db, flags, NULL), SQLITE_OK);
    sqlite3_enable_load_extension(db, 1);
    assert_int_equal(sqlite3_load_extension(db, client_extension(), NULL, NULL), SQLITE_OK);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1)");
    assert_rows(db, "t", 1);
    assert_text(db, "SELECT value FROM t_store WHERE key = 'place'", "ephemeral");
    assert_int_equal(stat(path, &info), -1);
    client_close(db);
}

static sqlite3 *renamer; /* acts in the middle of another connection's look, once */

static int rename_meanwhile(unsigned what, void *arg, void *statement, void *sql)
{
    (void)what;
    (void)arg;
    (void)statement;
    if (!renamer || !strstr(sql, "t_store")) return 0;
    sqlite3 *db = renamer;
    renamer = NULL;
    client_run(db, "ALTER TABLE t RENAME TO elsewhere");
    return 0;
}

/* A function that has found a table goes on with it safely when a nested statement makes SQLite
** disconnect it. */
static void table_that_is_renamed_in_the_middle_of_a_look_is_no_crash(void **state)
{
    (void)state;
    char words[CLIENT_TEXT_BYTES];
    sqlite3 *a = client_open(database);
    client_run(a, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1)");
    sqlite3 *b = client_open(database);
    renamer = a;
    sqlite3_trace_v2(b, SQLITE_TRACE_STMT, rename_meanwhile, NULL);
    assert_int_not_equal(client_try(b, words, "SELECT memwal_count('t')"), SQLITE_OK);
    sqlite3_trace_v2(b, 0, NULL, NULL);
    assert_null(renamer);
    assert_rows(b, "elsewhere", 1);
    client_close(b);
    client_close(a);
}

/* Some programs finalize whatever statement they find before they close. */
static void closing_after_all_statements_were_finalized_is_no_crash(void **state)
{
    (void)state;
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1)");
    assert_rows(db, "t", 1);
    for (sqlite3_stmt *at; (at = sqlite3_next_stmt(db, NULL)) != NULL;) sqlite3_finalize(at);
    client_close(db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    client_use_memory();
    const struct CMUnitTest tests[] = {
        TEST(names_mean_what_is_in_the_schema_now),
        TEST(names_are_looked_for_in_sqlites_order),
        TEST(names_are_read_to_their_end),
        TEST(looking_keeps_nothing_from_ending),
        TEST(table_that_cannot_be_declared_can_be_dropped),
        TEST(table_whose_arguments_are_wrong_can_be_dropped),
        TEST(created_table_keeps_its_rows_whatever_like_means),
        TEST(loading_again_makes_up_for_a_failure),
        TEST(work_that_takes_the_turn_is_refused_inside_a_transaction_at_once),
        TEST(update_does_not_bring_back_a_deleted_row),
        TEST(store_is_as_private_as_the_database_file),
        TEST(ephemeral_store_is_for_its_owner_alone),
        TEST(folder_that_was_there_keeps_its_mode),
        TEST(named_database_in_memory_leaves_no_files),
        TEST(table_that_is_renamed_in_the_middle_of_a_look_is_no_crash),
        TEST(closing_after_all_statements_were_finalized_is_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
