/* ddl_test.c: CREATE, DROP and ALTER RENAME are as undoable as for any table, and what they leave on
** the disk is what the tables need, through kills, other connections and other processes.
**
**   ddl_test                                the standard run
**   ddl_test --seed SEED                    the same kills again (DDL_ROUNDS=n: how many)
**   ddl_test --loop | --reader DATABASE ... workers, started by the test */
#include "client.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>

enum {
    PATH_BYTES = PATH_MAX + 64,
    NAME_BYTES = 300,
    NAMES_MAX = 64,
    NAME_DIGITS = 32,
    ROUNDS = 200,
    LOOP_TABLES = 4,
    KILL_US_MAX = 25000,
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

static void assert_text(sqlite3 *db, const char *sql, const char *expected)
{
    char found[CLIENT_TEXT_BYTES];
    client_ask_text(db, found, sql);
    assert_string_equal(found, expected);
}

static void assert_refused(sqlite3 *db, const char *sql, int code, const char *part)
{
    char words[CLIENT_TEXT_BYTES];
    assert_int_equal(client_try(db, words, "%s", sql), code);
    if (!strstr(words, part)) client_fail("%s: expected ..%s.., found %s", sql, part, words);
}

/* ---- what is on the disk --------------------------------------------------------------------- */

typedef struct names {
    int count;
    char all[NAMES_MAX][NAME_BYTES];
} names;

static bool has_name(const names *list, const char *name)
{
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->all[i], name) == 0) return true;
    }
    return false;
}

static void add_name(names *list, const char *name)
{
    assert_true(list->count < NAMES_MAX);
    snprintf(list->all[list->count++], NAME_BYTES, "%s", name);
}

/* What is in "<file>-memwal"; -1: there is no such folder. */
static names list_stores(const char *file)
{
    names list = {0};
    char path[PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s-memwal", file);
    DIR *dir = opendir(path);
    if (!dir) return (names){.count = -1};
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') add_name(&list, entry->d_name);
    }
    closedir(dir);
    return list;
}

/* The folders that the shadow tables of a schema name. */
static names list_named(sqlite3 *db, const char *schema)
{
    names list = {0};
    char sql[256];
    snprintf(
        sql, sizeof sql,
        "SELECT name FROM \"%s\".sqlite_schema WHERE type = 'table' AND name LIKE '%%\\_store' "
        "ESCAPE '\\'",
        schema);
    sqlite3_stmt *tables = client_prepare(db, sql);
    while (client_step(tables)) {
        char *ask = sqlite3_mprintf("SELECT value FROM \"%w\".\"%w\" WHERE key = 'name' AND "
                                    "value NOT LIKE '/%%'",
                                    schema, sqlite3_column_text(tables, 0));
        sqlite3_stmt *name = client_prepare(db, ask);
        sqlite3_free(ask);
        if (client_step(name)) add_name(&list, (const char *)sqlite3_column_text(name, 0));
        client_finalize(name);
    }
    client_finalize(tables);
    return list;
}

static void assert_tidy_in(sqlite3 *db, const char *schema, const char *file)
{
    names named = list_named(db, schema);
    names there = list_stores(file);
    for (int i = 0; i < named.count; i++) {
        if (!has_name(&there, named.all[i])) client_fail("%s is missing", named.all[i]);
    }
    for (int i = 0; i < there.count; i++) {
        if (!has_name(&named, there.all[i])) client_fail("%s is left", there.all[i]);
    }
    if (named.count == 0 && there.count == 0) client_fail("an empty folder is left");
}

/* The folder beside the database has the stores that live tables name and nothing else; where there
** is no table, there is no folder. */
static void assert_tidy(sqlite3 *db) { assert_tidy_in(db, "main", database); }

/* The same, with nothing open. */
static void assert_tidy_after_all(void)
{
    sqlite3 *db = client_open(database);
    assert_tidy(db);
    client_close(db);
}

static void store_of(sqlite3 *db, const char *table, char name[CLIENT_TEXT_BYTES])
{
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT value FROM %s_store WHERE key = 'name'", table);
    client_ask_text(db, name, sql);
}

static bool is_there(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool is_there(const char *format, ...)
{
    char path[2 * PATH_BYTES];
    struct stat info;
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return lstat(path, &info) == 0;
}

static void write_file(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    if (file < 0 || write(file, "x", 1) != 1 || close(file)) client_fail("writing %s", path);
}

static const char *const journals[] = {"DELETE", "WAL", "TRUNCATE", "PERSIST", "MEMORY"};
enum { JOURNALS = sizeof journals / sizeof *journals };

/* A fresh database in that journal mode. */
static sqlite3 *start(const char *journal)
{
    remove_folder(NULL);
    make_folder(NULL);
    sqlite3 *db = client_open(database);
    client_run(db, "PRAGMA journal_mode = %s", journal);
    return db;
}

static void make(sqlite3 *db, const char *table)
{
    client_run(db,
               "CREATE VIRTUAL TABLE %s USING memwal(id INTEGER PRIMARY KEY, v);"
               "INSERT INTO %s VALUES (1, 'one'), (2, 'two')",
               table, table);
}

/* ---- DROP ------------------------------------------------------------------------------------ */

static void drop_frees_the_disk_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < JOURNALS; i++) {
        sqlite3 *db = start(journals[i]);
        make(db, "t");
        make(db, "u");
        assert_tidy(db);
        assert_int_equal(list_stores(database).count, 2);
        client_run(db, "DROP TABLE t");
        assert_tidy(db);
        assert_text(db, "SELECT group_concat(v) FROM u", "one,two");
        client_run(db, "BEGIN; DROP TABLE u");
        assert_int_equal(list_stores(database).count, 2); /* the store and what is noted of it */
        client_run(db, "COMMIT");
        assert_tidy(db);
        assert_int_equal(list_stores(database).count, -1);
        make(db, "t");
        client_close(db);
        db = client_open(database); /* a table that was never used */
        client_run(db, "DROP TABLE t");
        assert_tidy(db);
        client_close(db);
    }
}

/* C42. */
static void drop_that_is_undone_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < JOURNALS; i++) {
        sqlite3 *db = start(journals[i]);
        make(db, "t");
        client_run(db, "BEGIN; DROP TABLE t; ROLLBACK");
        assert_tidy(db);
        assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
        client_run(db, "BEGIN; SAVEPOINT a; DROP TABLE t; ROLLBACK TO a; COMMIT");
        assert_tidy(db);
        client_run(db, "SAVEPOINT a; DROP TABLE t; ROLLBACK TO a; RELEASE a");
        client_run(db, "BEGIN; SAVEPOINT a; DROP TABLE t; CREATE VIRTUAL TABLE t USING memwal(x);"
                       "INSERT INTO t VALUES (7); ROLLBACK TO a; INSERT INTO t VALUES (3, 'three');"
                       "COMMIT");
        assert_tidy(db);
        assert_text(db, "SELECT group_concat(v) FROM t", "one,two,three");
        client_check_store(db);
        client_close(db);
        db = client_open(database);
        client_run(db, "BEGIN; DROP TABLE t");
        client_close(db); /* in the middle */
        db = client_open(database);
        assert_text(db, "SELECT group_concat(v) FROM t", "one,two,three");
        assert_tidy(db);
        client_check_store(db);
        client_close(db);
    }
}

/* A COMMIT that a reader keeps from happening, then does not. */
static void drop_waits_for_its_commit(void **state)
{
    (void)state;
    sqlite3 *db = start("DELETE");
    make(db, "t");
    client_run(db, "CREATE TABLE o(x); INSERT INTO o VALUES (1)");
    sqlite3 *reader = client_open(database);
    sqlite3_busy_timeout(db, 0);
    for (int round = 0; round < 2; round++) {
        client_run(reader, "BEGIN; SELECT * FROM o");
        client_run(db, "BEGIN; INSERT INTO t VALUES (3, 'three'); SAVEPOINT a; DROP TABLE t");
        assert_refused(db, "COMMIT", SQLITE_BUSY, "locked");
        assert_int_equal(list_stores(database).count, 2); /* the store and what is noted of it */
        client_run(reader, "COMMIT");
        client_run(db, round == 0 ? "ROLLBACK" : "COMMIT");
        assert_tidy(db);
        if (round == 0) assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
    }
    assert_int_equal(list_stores(database).count, -1);
    client_close(reader);
    client_close(db);
}

static void drop_counts_no_changes_and_keeps_other_tables(void **state)
{
    (void)state;
    sqlite3 *db = start("WAL");
    make(db, "t");
    client_run(db, "CREATE TABLE o(x); INSERT INTO o VALUES (1), (2), (3)");
    int64_t total = client_ask(db, "SELECT total_changes()");
    client_run(db, "DROP TABLE t");
    assert_int_equal(client_ask(db, "SELECT total_changes()"), total);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM o"), 3);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM sqlite_temp_schema"), 0);
    client_close(db);
}

/* ---- DROP of a table that the transaction has changed ---------------------------------------- */

static void drop_of_a_changed_table_takes_its_changes_along(void **state)
{
    (void)state;
    for (int i = 0; i < JOURNALS; i++) {
        sqlite3 *db = start(journals[i]);
        sqlite3 *other = client_open(database);
        make(db, "t");
        make(db, "u");
        client_run(db,
                   "BEGIN; INSERT INTO t VALUES (3, 'three'); INSERT INTO u VALUES (3, 'three');"
                   "DROP TABLE t; INSERT INTO u VALUES (4, 'four'); COMMIT");
        assert_tidy(db);
        assert_text(db, "SELECT group_concat(v) FROM u", "one,two,three,four");
        client_run(other, "INSERT INTO u VALUES (5, 'five')"); /* nobody has kept the turn */
        client_run(db, "BEGIN; DELETE FROM u; DROP TABLE u; ROLLBACK");
        assert_text(db, "SELECT count(*) FROM u", "5");
        client_run(other, "INSERT INTO u VALUES (6, 'six')");
        client_run(db,
                   "BEGIN; INSERT INTO u VALUES (7, 'seven'); DROP TABLE u;"
                   "CREATE VIRTUAL TABLE u USING memwal(a); INSERT INTO u VALUES ('new'); COMMIT");
        assert_text(other, "SELECT group_concat(a) FROM u", "new");
        assert_text(db, "SELECT memwal_check('u')", "ok");
        client_run(db, "BEGIN; CREATE VIRTUAL TABLE n USING memwal(a); INSERT INTO n VALUES (1);"
                       "DROP TABLE n; COMMIT");
        client_close(other);
        assert_tidy(db);
        client_close(db);
        assert_tidy_after_all();
    }
}

/* What was not committed yet comes back with the table, and nothing of what was undone. */
static void changes_come_back_with_a_drop_that_is_undone(void **state)
{
    (void)state;
    static const char *const ends[] = {"INSERT INTO t VALUES (4, 'four'); COMMIT",
                                       "SELECT * FROM t; INSERT INTO t VALUES (4, 'four'); COMMIT",
                                       "COMMIT; INSERT INTO t VALUES (4, 'four')"};
    for (size_t i = 0; i < JOURNALS * (sizeof ends / sizeof *ends); i++) {
        sqlite3 *db = start(journals[i % JOURNALS]);
        sqlite3 *other = client_open(database);
        make(db, "t");
        client_run(db, "BEGIN; INSERT INTO t VALUES (3, 'three'); SAVEPOINT a;"
                       "INSERT INTO t VALUES (9, 'no'); SAVEPOINT b; DELETE FROM t WHERE id = 1;"
                       "DROP TABLE t; ROLLBACK TO a");
        client_run(db, "%s", ends[i / JOURNALS]);
        assert_text(db, "SELECT group_concat(v) FROM t", "one,two,three,four");
        client_run(other, "INSERT INTO t VALUES (5, 'five')");
        assert_text(other, "SELECT group_concat(v) FROM t", "one,two,three,four,five");
        client_run(db, "BEGIN; INSERT INTO t VALUES (6, 'no'); SAVEPOINT a; DROP TABLE t;"
                       "ROLLBACK TO a; ROLLBACK");
        client_run(db, "SAVEPOINT a; INSERT INTO t VALUES (6, 'no'); DROP TABLE t; ROLLBACK TO a;"
                       "INSERT INTO t VALUES (7, 'yes'); RELEASE a");
        client_run(db, "BEGIN; INSERT INTO t VALUES (8, 'yes'); SAVEPOINT a; DROP TABLE t;"
                       "ROLLBACK TO a; INSERT INTO t VALUES (9, 'no'); DROP TABLE t; ROLLBACK TO a;"
                       "COMMIT");
        assert_text(other, "SELECT group_concat(id) FROM t", "1,2,3,4,5,7,8");
        client_check_store(db);
        assert_tidy(db);
        client_close(other);
        client_close(db);
    }
}

/* Rows that two tables share are the other one's as well. */
static void drop_of_a_changed_table_is_refused_where_another_has_its_store(void **state)
{
    (void)state;
    sqlite3 *db = start("WAL");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, path = 'p');"
                   "CREATE VIRTUAL TABLE u USING memwal(path = 'p'); INSERT INTO u VALUES (1, 1)");
    client_run(db, "BEGIN; INSERT INTO t VALUES (2, 2)");
    assert_refused(db, "DROP TABLE t", SQLITE_LOCKED, "locked");
    client_run(db, "COMMIT; DROP TABLE t");
    assert_text(db, "SELECT group_concat(id) FROM u", "1,2");
    client_run(db, "BEGIN; INSERT INTO u VALUES (3, 3); DROP TABLE u; COMMIT");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(path = 'p')");
    assert_text(db, "SELECT group_concat(id) FROM t", "1,2");
    client_close(db);
}

/* ---- CREATE ---------------------------------------------------------------------------------- */

static void create_that_is_undone_leaves_nothing(void **state)
{
    (void)state;
    static const char *const lives[] = {
        "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); ROLLBACK",
        "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); INSERT INTO n VALUES (1); ROLLBACK",
        "BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(x); ROLLBACK TO a; COMMIT",
        "BEGIN; SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(x); INSERT INTO n VALUES (1);"
        "ROLLBACK TO a; COMMIT",
        "SAVEPOINT a; CREATE VIRTUAL TABLE n USING memwal(x); INSERT INTO n VALUES (1);"
        "ROLLBACK TO a; CREATE VIRTUAL TABLE n USING memwal(y); ROLLBACK TO a; RELEASE a",
        "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); ALTER TABLE n RENAME TO m; ROLLBACK",
        "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); DROP TABLE n; COMMIT",
        "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); INSERT INTO n VALUES (1); DROP TABLE n;"
        "ROLLBACK",
        "CREATE VIRTUAL TABLE n USING memwal(x); DROP TABLE n",
    };
    for (size_t i = 0; i < 2 * (sizeof lives / sizeof *lives); i++) {
        sqlite3 *db = start(journals[i % 2]);
        client_run(db, "%s", lives[i / 2]);
        assert_tidy(db);
        assert_int_equal(list_stores(database).count, -1);
        make(db, "t");
        client_run(db, "%s", lives[i / 2]);
        assert_tidy(db);
        assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
        client_close(db);
        assert_tidy_after_all();
    }
}

static void create_that_fails_leaves_nothing(void **state)
{
    (void)state;
    sqlite3 *db = start("WAL");
    client_run(db, "CREATE TABLE n_store(key, value)");
    assert_int_not_equal(client_try(db, NULL, "CREATE VIRTUAL TABLE n USING memwal(x)"), SQLITE_OK);
    assert_int_equal(list_stores(database).count, -1);
    make(db, "t");
    client_run(db, "BEGIN");
    assert_int_not_equal(client_try(db, NULL, "CREATE VIRTUAL TABLE n USING memwal(x)"), SQLITE_OK);
    client_run(db, "CREATE VIRTUAL TABLE m USING memwal(x); COMMIT");
    assert_tidy(db);
    assert_int_equal(list_stores(database).count, 2);
    client_close(db);
}

/* Of somebody else's transaction, which is under way. */
static void create_under_way_is_left_alone(void **state)
{
    (void)state;
    for (int i = 0; i < JOURNALS; i++) {
        sqlite3 *a = start(journals[i]);
        sqlite3 *b = client_open(database);
        sqlite3 *c = client_open(database);
        make(a, "t");
        make(a, "u");
        client_run(b, "SELECT * FROM u");
        client_run(a, "DROP TABLE u"); /* b has it: for later */
        client_run(a, "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); INSERT INTO n VALUES (1);"
                      "DROP TABLE t");
        client_run(c, "SELECT * FROM t");
        client_close(c);
        client_close(b);
        client_run(a, "COMMIT");
        assert_int_equal(client_ask(a, "SELECT count(*) FROM n"), 1);
        assert_text(a, "SELECT memwal_check('n')", "ok");
        assert_tidy(a);
        client_close(a);
    }
}

/* ---- who else uses it ------------------------------------------------------------------------ */

static void store_goes_when_the_last_connection_has_left_it(void **state)
{
    (void)state;
    sqlite3 *a = start("WAL");
    sqlite3 *b = client_open(database);
    make(a, "t");
    sqlite3_stmt *scan = client_prepare(b, "SELECT v FROM t");
    assert_true(client_step(scan));
    client_run(a, "DROP TABLE t");
    assert_int_equal(list_stores(database).count, 2); /* the store, and what is noted of it */
    assert_true(client_step(scan));
    assert_string_equal((const char *)sqlite3_column_text(scan, 0), "two");
    assert_false(client_step(scan));
    client_finalize(scan);
    client_run(b, "CREATE TABLE o(x); SELECT * FROM o");
    assert_tidy(a);
    make(a, "t");
    client_run(b, "SELECT * FROM t");
    client_run(a, "DROP TABLE t");
    client_close(b);
    assert_tidy(a);
    client_close(a);
}

/* --reader DATABASE: uses the table until its input ends. */
static int read_and_wait(const char *path)
{
    char byte = 0;
    sqlite3 *db = client_open(path);
    int64_t rows = client_ask(db, "SELECT count(*) FROM t");
    if (!client_write_all(STDOUT_FILENO, &byte, 1)) return CLIENT_WORKER_FAILED;
    (void)client_read_all(STDIN_FILENO, &byte, 1);
    client_close(db);
    return rows == 2 ? 0 : CLIENT_WORKER_FAILED;
}

static void store_that_another_process_has_open_is_left_to_a_later_one(void **state)
{
    (void)state;
    char byte;
    sqlite3 *db = start("WAL");
    make(db, "t");
    client_close(db);
    const char *const arguments[] = {client_own_program(), "--reader", database, NULL};
    client_worker worker = client_worker_start(arguments);
    assert_true(client_read_all(worker.from, &byte, 1));
    db = client_open(database);
    client_run(db, "DROP TABLE t");
    assert_int_equal(list_stores(database).count, 2);
    client_worker_finish(&worker);
    make(db, "u");
    client_close(db);
    assert_tidy_after_all();
}

/* With the lock held for ever nobody else can look; the end of the connection can. */
static void exclusive_locking_frees_the_disk_when_it_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        sqlite3 *db = start(journals[i]);
        client_run(db, "PRAGMA locking_mode = EXCLUSIVE");
        make(db, "t");
        make(db, "u");
        client_run(db, "DROP TABLE t");
        client_run(db, "BEGIN; CREATE VIRTUAL TABLE n USING memwal(x); ROLLBACK");
        assert_text(db, "SELECT group_concat(v) FROM u", "one,two");
        client_close(db);
        assert_tidy_after_all();
    }
}

/* ---- what is never removed ------------------------------------------------------------------- */

static void only_what_create_has_made_is_removed(void **state)
{
    (void)state;
    char name[CLIENT_TEXT_BYTES];
    char path[2 * PATH_BYTES];
    sqlite3 *db = start("WAL");
    make(db, "t");
    make(db, "u");
    client_run(db, "CREATE VIRTUAL TABLE p USING memwal(x, path = 'mine');"
                   "INSERT INTO p VALUES (1); DROP TABLE p");
    assert_true(is_there("%s/mine/state", folder));
    store_of(db, "t", name);
    snprintf(path, sizeof path, "%s-memwal/%s/foreign", database, name);
    write_file(path);
    snprintf(path, sizeof path, "%s-memwal/ffffffffffffffffffffffffffffffff", database);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s-memwal/kept", database);
    write_file(path);
    client_run(db, "DROP TABLE t; DROP TABLE u");
    assert_true(is_there("%s-memwal/%s/foreign", database, name));
    assert_false(is_there("%s-memwal/%s/state", database, name));
    assert_int_equal(list_stores(database).count, 3);
    client_close(db);
}

/* A store that was moved elsewhere, with a link in its place. */
static void links_are_not_followed(void **state)
{
    (void)state;
    char name[CLIENT_TEXT_BYTES];
    char from[2 * PATH_BYTES];
    char to[2 * PATH_BYTES];
    sqlite3 *db = start("WAL");
    make(db, "t");
    make(db, "u");
    store_of(db, "t", name);
    client_close(db);
    snprintf(from, sizeof from, "%s-memwal/%s", database, name);
    snprintf(to, sizeof to, "%s/moved", folder);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(symlink(to, from), 0);
    db = client_open(database);
    assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
    client_run(db, "DROP TABLE t");
    assert_true(is_there("%s/state", to));
    client_close(db);
    snprintf(from, sizeof from, "%s-memwal", database);
    snprintf(to, sizeof to, "%s/all", folder);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(symlink(to, from), 0);
    db = client_open(database);
    store_of(db, "u", name);
    client_run(db, "DROP TABLE u");
    assert_true(is_there("%s/%s/state", to, name));
    make(db, "v");
    assert_int_not_equal(client_try(db, NULL, "CREATE VIRTUAL TABLE v USING memwal(x)"), SQLITE_OK);
    assert_text(db, "SELECT group_concat(v) FROM v", "one,two");
    client_close(db);
}

/* What a crash has left of another database file, which stood there before. */
static void notes_of_another_file_are_left_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {"00000000000000000001", ""};
    for (int i = 0; i < 2; i++) {
        char path[2 * PATH_BYTES];
        sqlite3 *db = start("WAL");
        make(db, "t");
        snprintf(path, sizeof path, "%s-memwal/0123456789abcdef0123456789abcdef", database);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s-memwal/0123456789abcdef0123456789abcdef.unsettled",
                 database);
        int file = open(path, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(file, texts[i], strlen(texts[i])), strlen(texts[i]));
        assert_int_equal(close(file), 0);
        client_close(db);
        db = client_open(database);
        client_run(db, "INSERT INTO t VALUES (3, 'three')");
        assert_int_equal(list_stores(database).count, i == 0 ? 3 : 1);
        client_close(db);
    }
}

/* A CREATE that could not be settled yet, because of the lock; then another file stands there. */
static void file_that_was_replaced_keeps_its_stores(void **state)
{
    (void)state;
    char moved[2 * PATH_BYTES];
    char from[2 * PATH_BYTES];
    char to[3 * PATH_BYTES];
    sqlite3 *db = start("DELETE");
    client_run(db, "PRAGMA locking_mode = EXCLUSIVE");
    make(db, "t");
    assert_int_equal(list_stores(database).count, 2);
    snprintf(moved, sizeof moved, "%s/moved.db", folder);
    assert_int_equal(rename(database, moved), 0);
    sqlite3 *fresh = client_open(database);
    client_run(fresh, "CREATE TABLE o(x)");
    client_close(db);
    make(fresh, "u");
    client_run(fresh, "DROP TABLE u");
    client_close(fresh);
    snprintf(from, sizeof from, "%s-memwal", database);
    snprintf(to, sizeof to, "%s-memwal", moved);
    assert_int_equal(rename(from, to), 0);
    db = client_open(moved);
    assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
    client_run(db, "INSERT INTO t VALUES (3, 'three')");
    client_check_store(db);
    assert_tidy_in(db, "main", moved);
    client_close(db);
}

/* Another table's store under a shadow table that was tampered with; a path. */
static void store_that_another_table_names_stays(void **state)
{
    (void)state;
    char name[CLIENT_TEXT_BYTES];
    sqlite3 *db = start("WAL");
    make(db, "t");
    make(db, "u");
    store_of(db, "t", name);
    client_run(db, "UPDATE u_store SET value = '%s' WHERE key = 'name'", name);
    client_close(db);
    db = client_open(database);
    client_run(db, "DROP TABLE u");
    assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
    client_run(db, "CREATE VIRTUAL TABLE v USING memwal(path = 'test.db-memwal/%s'); DROP TABLE t",
               name);
    assert_text(db, "SELECT group_concat(v) FROM v", "one,two");
    make(db, "w");
    client_run(db, "UPDATE w_store SET value = '../mine' WHERE key = 'name'; DROP TABLE w");
    assert_text(db, "SELECT memwal_check('v')", "ok");
    client_close(db);
    db = client_open(database);
    assert_text(db, "SELECT group_concat(v) FROM v", "one,two");
    client_close(db);
}

static void nothing_is_removed_where_the_tables_cannot_be_read(void **state)
{
    (void)state;
    sqlite3 *db = start("DELETE");
    make(db, "t");
    make(db, "u");
    int64_t page = client_ask(db, "SELECT rootpage FROM sqlite_schema WHERE name = 'u_store'");
    int64_t page_bytes = client_ask(db, "PRAGMA page_size");
    client_close(db);
    int file = open(database, O_RDWR);
    assert_int_equal(pwrite(file, "damage!", 8, (off_t)((page - 1) * page_bytes)), 8);
    assert_int_equal(close(file), 0);
    db = client_open(database);
    client_run(db, "DROP TABLE t");
    assert_int_equal(list_stores(database).count, 3); /* two stores, and what is noted of one */
    client_close(db);
    assert_int_equal(list_stores(database).count, 3);
}

static void reader_removes_nothing(void **state)
{
    (void)state;
    char name[CLIENT_TEXT_BYTES];
    char path[2 * PATH_BYTES];
    sqlite3 *db = start("DELETE");
    make(db, "t");
    store_of(db, "t", name);
    client_close(db);
    /* As a kill behind a DROP leaves it. */
    snprintf(path, sizeof path, "%s-memwal/%.31sx.unsettled", database, name);
    write_file(path);
    snprintf(path, sizeof path, "%s-memwal/%s.unsettled", database, name);
    write_file(path);
    assert_int_equal(sqlite3_open_v2(database, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_enable_load_extension(db, 1);
    assert_int_equal(sqlite3_load_extension(db, client_extension(), NULL, NULL), SQLITE_OK);
    assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
    client_close(db);
    assert_int_equal(list_stores(database).count, 3);
}

/* ---- names, files, schemas ------------------------------------------------------------------- */

static void rename_and_its_rollback_keep_the_rows(void **state)
{
    (void)state;
    for (int i = 0; i < JOURNALS; i++) {
        sqlite3 *db = start(journals[i]);
        make(db, "t");
        client_run(db,
                   "BEGIN; ALTER TABLE t RENAME TO n; INSERT INTO n VALUES (3, 'no'); ROLLBACK");
        assert_text(db, "SELECT group_concat(v) FROM t", "one,two");
        client_run(db, "BEGIN; INSERT INTO t VALUES (3, 'three'); SAVEPOINT a;"
                       "ALTER TABLE t RENAME TO n; ROLLBACK TO a; COMMIT");
        client_run(db, "ALTER TABLE t RENAME TO n");
        make(db, "t");
        assert_text(db, "SELECT group_concat(v) FROM n", "one,two,three");
        assert_tidy(db);
        /* SQLite has made itself a second object of the table then. */
        client_run(db, "BEGIN; INSERT INTO n VALUES (4, 'no'); ALTER TABLE n RENAME TO m");
        assert_refused(db, "DROP TABLE m", SQLITE_LOCKED, "locked");
        client_run(db, "ROLLBACK; BEGIN; ALTER TABLE n RENAME TO m; INSERT INTO m VALUES (4, 'no');"
                       "DROP TABLE m; ALTER TABLE t RENAME TO n; COMMIT");
        assert_tidy(db);
        assert_text(db, "SELECT group_concat(v) FROM n", "one,two");
        client_run(db, "DROP TABLE n");
        assert_tidy(db);
        client_close(db);
    }
}

static void vacuum_and_copies_keep_what_is_theirs(void **state)
{
    (void)state;
    char command[8 * PATH_BYTES];
    char copy[2 * PATH_BYTES];
    sqlite3 *db = start("DELETE");
    make(db, "t");
    make(db, "u");
    client_run(db, "DROP TABLE t; VACUUM");
    assert_tidy(db);
    assert_text(db, "SELECT group_concat(v) FROM u", "one,two");
    client_close(db);
    snprintf(copy, sizeof copy, "%s/copy.db", folder);
    snprintf(command, sizeof command, "cp '%s' '%s' && cp -r '%s-memwal' '%s-memwal'", database,
             copy, database, copy);
    assert_int_equal(system(command), 0);
    db = client_open(copy);
    client_run(db, "DROP TABLE u");
    client_close(db);
    assert_int_equal(list_stores(copy).count, -1);
    db = client_open(database);
    assert_tidy(db);
    assert_text(db, "SELECT group_concat(v) FROM u", "one,two");
    client_close(db);
}

static void tables_of_attached_databases_are_like_those_of_main(void **state)
{
    (void)state;
    char side[PATH_BYTES];
    sqlite3 *db = start("WAL");
    snprintf(side, sizeof side, "%s/side.db", folder);
    client_run(db, "ATTACH '%s' AS side", side);
    make(db, "t");
    make(db, "side.t");
    client_run(db,
               "BEGIN; INSERT INTO main.t VALUES (3, 'three'); INSERT INTO side.t VALUES (3, 'x');"
               "DROP TABLE side.t; ROLLBACK");
    assert_text(db, "SELECT group_concat(v) FROM side.t", "one,two");
    client_run(db, "BEGIN; CREATE VIRTUAL TABLE side.n USING memwal(x); INSERT INTO n VALUES (1);"
                   "ROLLBACK");
    assert_tidy_in(db, "side", side);
    client_run(db, "DROP TABLE side.t; SELECT * FROM main.t");
    assert_tidy_in(db, "side", side);
    make(db, "side.t");
    client_run(db, "DETACH side; ATTACH '%s' AS other; DROP TABLE other.t; DETACH other", side);
    client_close(db);
    assert_int_equal(list_stores(side).count, -1);
    /* Of a file in memory nothing is removed before the connection. */
    db = client_open(":memory:");
    client_run(db, "ATTACH '%s' AS side", side);
    make(db, "side.t");
    client_run(db, "DROP TABLE side.t");
    assert_int_equal(list_stores(side).count, -1);
    client_close(db);
}

static void temp_and_memory_leave_nothing(void **state)
{
    (void)state;
    sqlite3 *db = start("WAL");
    char before[PATH_MAX];
    char own[PATH_BYTES];
    const char *set = getenv("TMPDIR");
    snprintf(before, sizeof before, "%s", set ? set : "");
    snprintf(own, sizeof own, "%s/x-memwal", folder);
    assert_int_equal(mkdir(own, 0700), 0);
    setenv("TMPDIR", own, 1);
    snprintf(own, sizeof own, "%s/x", folder);
    client_run(db, "ATTACH ':memory:' AS m");
    make(db, "temp.t");
    make(db, "m.t");
    client_run(db, "BEGIN; DROP TABLE temp.t; DROP TABLE m.t; ROLLBACK");
    assert_text(db, "SELECT (SELECT count(*) FROM temp.t) || (SELECT count(*) FROM m.t)", "22");
    client_run(db, "BEGIN; CREATE VIRTUAL TABLE m.n USING memwal(x); ROLLBACK");
    assert_int_equal(list_stores(database).count, -1);
    client_run(db, "DROP TABLE temp.t");
    client_close(db);
    db = client_open(":memory:");
    make(db, "t");
    client_run(db,
               "BEGIN; INSERT INTO t VALUES (3, 'no'); SAVEPOINT a; DROP TABLE t; ROLLBACK TO a;"
               "COMMIT; BEGIN; INSERT INTO t VALUES (4, 'no'); DROP TABLE t; ROLLBACK");
    assert_text(db, "SELECT group_concat(id) FROM t", "1,2,3");
    client_run(db, "BEGIN; INSERT INTO t VALUES (4, 'no'); DROP TABLE t; COMMIT");
    client_close(db);
    assert_int_equal(list_stores(own).count, 0);
    if (set) {
        setenv("TMPDIR", before, 1);
    } else {
        unsetenv("TMPDIR");
    }
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

typedef struct looper {
    const char *path;
    uint64_t random;
    char prefix; /* of its tables' names */
    int rounds;  /* 0: for ever          */
} looper;

/* Makes, fills, drops and renames tables. */
static void *loop(void *arg)
{
    static const char *const ends[] = {"COMMIT", "COMMIT", "ROLLBACK"};
    looper *self = arg;
    sqlite3 *db = client_open(self->path);
    for (int i = 0; self->rounds == 0 || i < self->rounds; i++) {
        char ask[128];
        char name[8];
        snprintf(name, sizeof name, "%c%d", self->prefix,
                 (int)client_pick(&self->random, LOOP_TABLES));
        snprintf(ask, sizeof ask, "SELECT count(*) FROM sqlite_schema WHERE name = '%s'", name);
        client_run(db, "BEGIN IMMEDIATE");
        bool there = client_ask(db, ask) > 0;
        if (there && client_pick(&self->random, 2)) {
            client_run(db, "INSERT INTO %s(v) VALUES (1)", name);
        }
        if (there && client_pick(&self->random, 3)) {
            client_run(db, "DROP TABLE %s", name);
        } else if (!there) {
            client_run(db, "CREATE VIRTUAL TABLE %s USING memwal(id INTEGER PRIMARY KEY, v)", name);
            client_run(db, "INSERT INTO %s(v) VALUES (1), (2)", name);
        }
        client_run(db, "%s", ends[client_pick(&self->random, 3)]);
    }
    client_close(db);
    return NULL;
}

/* No live table has lost its store; the first who writes leaves what live tables need. */
static void check_tables(const char *what)
{
    char found[CLIENT_TEXT_BYTES];
    char sql[128];
    sqlite3 *db = client_open(database);
    client_run(db, "INSERT INTO kept(v) VALUES (1)");
    assert_tidy(db);
    sqlite3_stmt *tables =
        client_prepare(db, "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%' AND "
                           "name <> 'kept'");
    while (client_step(tables)) {
        const char *name = (const char *)sqlite3_column_text(tables, 0);
        snprintf(sql, sizeof sql, "SELECT memwal_check('%s')", name);
        client_ask_text(db, found, sql);
        if (strcmp(found, "ok") != 0) client_fail("%s: %s: %s", what, name, found);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", name);
        if (client_ask(db, sql) < 2) client_fail("%s: %s has lost rows", what, name);
    }
    client_finalize(tables);
    client_close(db);
}

static void start_loops(const char *journal)
{
    sqlite3 *db = start(journal);
    client_run(db, "CREATE VIRTUAL TABLE kept USING memwal(id INTEGER PRIMARY KEY, v)");
    client_close(db);
}

static void drop_everything(void)
{
    sqlite3 *db = client_open(database);
    client_run(db, "DROP TABLE kept");
    for (int i = 0; i < 2 * LOOP_TABLES; i++) {
        client_run(db, "DROP TABLE IF EXISTS %c%d", 'a' + i % 2, i / 2);
    }
    assert_int_equal(list_stores(database).count, -1);
    client_close(db);
}

static client_worker start_worker(uint64_t *random, const char *prefix)
{
    char from[32];
    snprintf(from, sizeof from, "%" PRIu64, client_random(random));
    const char *const arguments[] = {client_own_program(), "--loop", database, from, prefix, NULL};
    return client_worker_start(arguments);
}

static void kill_rounds(const char *journal, int workers)
{
    const char *more = getenv("DDL_ROUNDS");
    int rounds = (more ? atoi(more) : ROUNDS) / 4;
    uint64_t random = seed;
    int left = 0;
    start_loops(journal);
    for (int round = 0; round < rounds; round++) {
        client_worker first = start_worker(&random, "a");
        client_worker second = {0};
        if (workers == 2) second = start_worker(&random, "b");
        client_sleep_us(3000 + client_pick(&random, KILL_US_MAX));
        assert_true(client_worker_kill(&first));
        if (workers == 2) client_sleep_us(client_pick(&random, KILL_US_MAX));
        if (workers == 2) assert_true(client_worker_kill(&second));
        names there = list_stores(database);
        for (int i = 0; i < there.count; i++) left += strlen(there.all[i]) != NAME_DIGITS;
        check_tables("after a kill");
    }
    print_message("%s, %d workers: %d stores unsettled after %d kills\n", journal, workers, left,
                  rounds * workers);
    drop_everything();
}

/* C42, I11. */
static void kills_leave_what_live_tables_need(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 2; workers++) {
        kill_rounds("WAL", workers);
        kill_rounds("DELETE", workers);
    }
}

/* Connections of one process remove what each other's transactions have left. */
static void threads_leave_what_live_tables_need(void **state)
{
    (void)state;
    enum { THREADS = 4, THREAD_ROUNDS = 60 };
    for (int i = 0; i < 2; i++) {
        pthread_t threads[THREADS];
        looper loopers[THREADS];
        start_loops(journals[i]);
        for (int j = 0; j < THREADS; j++) {
            loopers[j] = (looper){database, seed + (uint64_t)j, (char)('a' + j % 2), THREAD_ROUNDS};
            assert_int_equal(pthread_create(&threads[j], NULL, loop, &loopers[j]), 0);
        }
        for (int j = 0; j < THREADS; j++) assert_int_equal(pthread_join(threads[j], NULL), 0);
        check_tables("threads");
        drop_everything();
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(int argc, char **argv)
{
    client_is_worker = argc > 2 && strncmp(argv[1], "--seed", 6) != 0;
    if (argc == 5 && strcmp(argv[1], "--loop") == 0) {
        looper self = {argv[2], strtoull(argv[3], NULL, 10), argv[4][0], 0};
        return loop(&self) != NULL;
    }
    if (argc == 3 && strcmp(argv[1], "--reader") == 0) return read_and_wait(argv[2]);
    client_use_memory();
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/ddl_test --seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        TEST(drop_frees_the_disk_at_once),
        TEST(drop_that_is_undone_loses_nothing),
        TEST(drop_waits_for_its_commit),
        TEST(drop_counts_no_changes_and_keeps_other_tables),
        TEST(drop_of_a_changed_table_takes_its_changes_along),
        TEST(changes_come_back_with_a_drop_that_is_undone),
        TEST(drop_of_a_changed_table_is_refused_where_another_has_its_store),
        TEST(create_that_is_undone_leaves_nothing),
        TEST(create_that_fails_leaves_nothing),
        TEST(create_under_way_is_left_alone),
        TEST(store_goes_when_the_last_connection_has_left_it),
        TEST(store_that_another_process_has_open_is_left_to_a_later_one),
        TEST(exclusive_locking_frees_the_disk_when_it_ends),
        TEST(only_what_create_has_made_is_removed),
        TEST(links_are_not_followed),
        TEST(notes_of_another_file_are_left_alone),
        TEST(file_that_was_replaced_keeps_its_stores),
        TEST(store_that_another_table_names_stays),
        TEST(nothing_is_removed_where_the_tables_cannot_be_read),
        TEST(reader_removes_nothing),
        TEST(rename_and_its_rollback_keep_the_rows),
        TEST(vacuum_and_copies_keep_what_is_theirs),
        TEST(tables_of_attached_databases_are_like_those_of_main),
        TEST(temp_and_memory_leave_nothing),
        TEST(kills_leave_what_live_tables_need),
        TEST(threads_leave_what_live_tables_need),
    };
    return cmocka_run_group_tests_name("ddl", tests, NULL, NULL);
}
