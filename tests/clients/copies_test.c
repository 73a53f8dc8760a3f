/* copies_test.c: a database file is copied, moved, restored, with its stores or without them. */
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>

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

/* ---- tools ----------------------------------------------------------------------------------- */

/* Runs a command of the shell in the test's folder. */
__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
    char command[CLIENT_TEXT_BYTES];
    char whole[CLIENT_TEXT_BYTES + PATH_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "cd '%s' && %s", folder, command);
    if (system(whole) != 0) client_fail("%s", whole);
}

/* A database of the test's folder. */
static sqlite3 *open_named(const char *name)
{
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return client_open(path);
}

static void assert_refused(sqlite3 *db, const char *sql, int code, const char *part)
{
    char words[CLIENT_TEXT_BYTES];
    int found = client_try(db, words, "%s", sql);
    if (found != code) client_fail("%s: expected %d, found %d: %s", sql, code, found, words);
    if (!strstr(words, part)) client_fail("%s: expected ..%s.., found %s", sql, part, words);
}

static int64_t count(sqlite3 *db) { return client_ask(db, "SELECT count(*) FROM t"); }

static void assert_reads(const char *name, int64_t rows)
{
    sqlite3 *db = open_named(name);
    assert_int_equal(count(db), rows);
    client_close(db);
}

/* Reads and writes: one row more. */
static void assert_writes(const char *name, int64_t rows)
{
    sqlite3 *db = open_named(name);
    assert_int_equal(count(db), rows);
    client_run(db, "INSERT INTO t(v) VALUES ('more')");
    assert_int_equal(count(db), rows + 1);
    client_close(db);
}

/* Reads, and is told that name is a copy. */
static void assert_copy(const char *name, const char *original, int64_t rows)
{
    char words[3 * PATH_BYTES];
    snprintf(words, sizeof words, "%s/%s is a copy of %s/%s, which is still there", folder, name,
             folder, original);
    sqlite3 *db = open_named(name);
    assert_int_equal(count(db), rows);
    assert_refused(db, "INSERT INTO t(v) VALUES ('wrong')", SQLITE_READONLY, words);
    assert_refused(db, "DELETE FROM t", SQLITE_READONLY, words);
    assert_refused(db, "SELECT memwal_flush('t')", SQLITE_READONLY, words);
    client_run(db, "BEGIN");
    assert_refused(db, "UPDATE t SET v = 1", SQLITE_READONLY, words);
    client_run(db, "CREATE TABLE others(x); COMMIT; DROP TABLE others");
    assert_int_equal(count(db), rows);
    client_close(db);
}

/* path: as the option has it. Two rows. */
static void make_table(const char *name, const char *path)
{
    sqlite3 *db = open_named(name);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v, path = '%s')", path);
    client_run(db, "INSERT INTO t VALUES (1), (2)");
    client_close(db);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* C78 */
static void a_copy_reads_and_does_not_write(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/store", folder);
    make_table("a.db", path);
    shell("cp a.db b.db");
    assert_copy("b.db", "a.db", 2);
    assert_writes("a.db", 2);
    assert_copy("b.db", "a.db", 3);
    sqlite3 *db = open_named("a.db");
    client_run(db, "VACUUM INTO '%s/c.db'", folder);
    client_close(db);
    assert_copy("c.db", "a.db", 3);
    shell("rm a.db"); /* whoever writes first is its heir */
    assert_writes("b.db", 3);
    assert_writes("b.db", 4);
}

static void a_copy_in_the_same_folder_shares_a_relative_path(void **state)
{
    (void)state;
    make_table("a.db", "store");
    shell("cp a.db b.db");
    assert_copy("b.db", "a.db", 2);
    /* Elsewhere it has a store of its own, if that is copied as well. */
    shell("mkdir there && cp a.db there/b.db && cp -r store there/store");
    assert_writes("there/b.db", 2);
    assert_writes("there/b.db", 3);
    assert_writes("a.db", 2);
}

/* C78: several files over one store, each by a CREATE of its own. */
static void tables_that_were_made_on_purpose_share_a_store(void **state)
{
    (void)state;
    make_table("a.db", "store");
    sqlite3 *a = open_named("a.db");
    sqlite3 *b = open_named("b.db");
    client_run(b, "CREATE VIRTUAL TABLE t USING memwal(path = 'store')");
    client_run(a, "CREATE VIRTUAL TABLE u USING memwal(path = 'store')");
    client_run(a, "INSERT INTO t VALUES (3); INSERT INTO u VALUES (4)");
    client_run(b, "INSERT INTO t VALUES (5)");
    assert_int_equal(count(a), 5);
    assert_int_equal(count(b), 5);
    client_close(a);
    client_close(b);
    /* A copy may do so, too. */
    shell("cp a.db c.db");
    assert_copy("c.db", "a.db", 5);
    sqlite3 *c = open_named("c.db");
    client_run(c, "DROP TABLE t; CREATE VIRTUAL TABLE t USING memwal(path = 'store')");
    client_close(c);
    assert_writes("c.db", 5);
    assert_writes("a.db", 6);
}

/* ---- moves ----------------------------------------------------------------------------------- */

static void assert_origin(const char *name, const char *expected)
{
    char found[CLIENT_TEXT_BYTES];
    struct stat info;
    char path[PATH_BYTES + 32];
    char words[PATH_BYTES + 128];
    snprintf(path, sizeof path, "%s/%s", folder, expected);
    assert_int_equal(stat(path, &info), 0);
    snprintf(words, sizeof words, "%" PRIu64 " %" PRIu64 " %s", (uint64_t)info.st_dev,
             (uint64_t)info.st_ino, path);
    sqlite3 *db = open_named(name);
    client_ask_text(db, found, "SELECT value FROM t_store WHERE key = 'host'");
    client_close(db);
    assert_string_equal(found, words);
}

static void a_moved_database_is_adopted(void **state)
{
    (void)state;
    make_table("a.db", "store");
    assert_origin("a.db", "a.db");
    shell("mv a.db b.db");
    assert_writes("b.db", 2);
    assert_origin("b.db", "b.db");
    shell("cp b.db c.db");
    assert_copy("c.db", "b.db", 3);
    /* With a new inode, as a move to another disk gives one. */
    shell("cp b.db d.db && rm b.db c.db");
    assert_writes("d.db", 3);
    assert_origin("d.db", "d.db");
    shell("cp d.db e.db");
    assert_copy("e.db", "d.db", 4);
}

/* The row is a part of the transaction that writes first. */
static void adopting_is_rolled_back_with_its_transaction(void **state)
{
    (void)state;
    make_table("a.db", "store");
    shell("mv a.db b.db");
    sqlite3 *db = open_named("b.db");
    client_run(db, "BEGIN; INSERT INTO t VALUES (3); ROLLBACK");
    assert_int_equal(client_ask(db, "SELECT value LIKE '%/a.db' FROM t_store WHERE key = 'host'"),
                     1);
    int64_t rowid = sqlite3_last_insert_rowid(db);
    client_run(db, "BEGIN; INSERT INTO t VALUES (3); COMMIT");
    assert_int_equal(client_ask(db, "SELECT value LIKE '%/b.db' FROM t_store WHERE key = 'host'"),
                     1);
    assert_int_equal(sqlite3_last_insert_rowid(db), rowid);
    int64_t shared =
        client_ask(db, "SELECT count(*) FROM memwal_wal('t') WHERE state = 'decision'");
    assert_int_equal(shared, 1);
    client_run(db, "INSERT INTO t VALUES (4)");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM memwal_wal('t')"), 4);
    client_close(db);
}

static void a_table_without_the_row_is_adopted(void **state)
{
    (void)state;
    make_table("a.db", "store");
    sqlite3 *db = open_named("a.db");
    client_run(db, "DELETE FROM t_store WHERE key = 'host'");
    client_close(db);
    assert_writes("a.db", 2);
    assert_origin("a.db", "a.db");
}

/* C63 */
static void links_are_the_file_itself(void **state)
{
    (void)state;
    make_table("a.db", "store");
    shell("ln a.db hard.db && ln -s a.db soft.db");
    assert_writes("hard.db", 2);
    assert_writes("soft.db", 3);
    assert_writes("a.db", 4);
    assert_origin("a.db", "a.db");
    shell("rm a.db");
    assert_writes("hard.db", 5);
    assert_origin("hard.db", "hard.db");
}

/* A new file at the old path is not the original, whatever its inode. */
static void another_file_at_the_path_is_no_original(void **state)
{
    (void)state;
    make_table("a.db", "store");
    shell("cp a.db b.db && rm a.db && : >a.db");
    assert_writes("b.db", 2);
    sqlite3 *db = open_named("a.db");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(path = 'store')");
    client_close(db);
    shell("cp b.db c.db");
    assert_copy("c.db", "b.db", 3);
    db = open_named("b.db");
    client_run(db, "DROP TABLE t");
    client_close(db);
    assert_writes("c.db", 3);
}

static void a_restored_database_is_the_original(void **state)
{
    (void)state;
    make_table("a.db", "store");
    shell("cp a.db backup.db && cp backup.db a.db");
    assert_writes("a.db", 2);
    assert_copy("backup.db", "a.db", 3);
    shell("cp backup.db new.db && mv new.db a.db");
    assert_writes("a.db", 3);
    assert_origin("a.db", "a.db");
    assert_copy("backup.db", "a.db", 4);
}

/* ---- without the folder ---------------------------------------------------------------------- */

static sqlite3 *make_default(void)
{
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE TABLE plain(n); INSERT INTO plain VALUES (0);"
                   "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
                   "INSERT INTO t VALUES (1, 'a')");
    return db;
}

static void assert_without_rows(const char *name)
{
    char words[PATH_BYTES + 128];
    snprintf(words, sizeof words, "%s/%s-memwal/", folder, name);
    sqlite3 *db = open_named(name);
    assert_refused(db, "SELECT * FROM t", SQLITE_CANTOPEN, words);
    assert_refused(db, "INSERT INTO t VALUES (2, 'b')", SQLITE_CANTOPEN,
                   "a copy or backup of the database file does not take along");
    assert_int_equal(client_ask(db, "SELECT n FROM plain"), 0);
    client_run(db, "UPDATE plain SET n = 1; DROP TABLE t;"
                   "CREATE VIRTUAL TABLE t USING memwal(v); INSERT INTO t VALUES (1)");
    assert_int_equal(count(db), 1);
    client_close(db);
}

/* C76 */
static void a_copy_without_its_folder_says_what_is_missing(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    sqlite3 *to = open_named("backup.db");
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", db, "main");
    assert_non_null(backup);
    assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    assert_int_equal(sqlite3_backup_finish(backup), SQLITE_OK);
    client_close(to);
    client_run(db, "VACUUM INTO '%s/vacuumed.db'", folder);
    client_close(db);
    shell("cp test.db copied.db");
    assert_without_rows("backup.db");
    assert_without_rows("vacuumed.db");
    assert_without_rows("copied.db");
    assert_reads("test.db", 1);
}

/* C77: each goes its own way, in one process and one connection. */
static void a_copy_with_its_folder_is_a_database_of_its_own(void **state)
{
    (void)state;
    client_close(make_default());
    shell("cp test.db twin.db && cp -r test.db-memwal twin.db-memwal");
    sqlite3 *db = client_open(database);
    client_run(db, "ATTACH '%s/twin.db' AS twin", folder);
    client_run(db, "BEGIN; INSERT INTO twin.t VALUES (2, 'b'), (3, 'c');"
                   "INSERT INTO main.t VALUES (4, 'd'); COMMIT");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM main.t"), 2);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM twin.t"), 3);
    client_close(db);
    assert_reads("twin.db", 3);
    assert_reads("test.db", 2);
}

/* ---- halves of different moments ------------------------------------------------------------- */

/* A transaction that changes both. */
static void share(sqlite3 *db, int n)
{
    client_run(db,
               "BEGIN; UPDATE plain SET n = %d; INSERT OR REPLACE INTO t VALUES (%d, 'x');"
               "COMMIT",
               n, n);
}

static void assert_apart(const char *part)
{
    sqlite3 *db = client_open(database);
    assert_refused(db, "SELECT * FROM t", SQLITE_CANTOPEN, part);
    assert_refused(db, "SELECT memwal_count('t')", SQLITE_CANTOPEN, part);
    assert_refused(db, "SELECT * FROM memwal_stats('t')", SQLITE_CANTOPEN, part);
    assert_refused(db, "INSERT INTO t VALUES (7, 'g')", SQLITE_CANTOPEN, "'host', 'accept'");
    assert_refused(db, "SELECT memwal_set('t', 'cache', '1MB')", SQLITE_CANTOPEN, part);
    assert_true(client_ask(db, "SELECT count(*) FROM plain") == 1);
    client_run(db, "UPDATE plain SET n = n");
    client_run(db, "BEGIN; DROP TABLE t; ROLLBACK");
    assert_refused(db, "SELECT * FROM t", SQLITE_CANTOPEN, part);
    client_close(db);
}

static void accept_halves(const char *before, int64_t rows)
{
    char words[CLIENT_TEXT_BYTES];
    sqlite3 *db = client_open(database);
    assert_refused(db, "SELECT memwal_set('t', 'host', 'reject')", SQLITE_ERROR,
                   "expected 'accept', found 'reject'");
    client_run(db, "BEGIN");
    assert_refused(db, "SELECT memwal_set('t', 'host', 'accept')", SQLITE_LOCKED, "COMMIT first");
    client_run(db, "ROLLBACK");
    client_ask_text(db, words, "SELECT memwal_set('t', 'host', 'accept')");
    assert_string_equal(words, before);
    client_ask_text(db, words, "SELECT memwal_set('t', 'host', 'accept')");
    assert_string_equal(words, "together");
    assert_int_equal(count(db), rows);
    share(db, 50);
    client_close(db);
    assert_reads("test.db", rows + 1);
}

static void an_older_file_over_newer_rows_is_told(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    share(db, 2);
    client_close(db);
    shell("cp test.db old.db");
    db = client_open(database);
    share(db, 3);
    client_close(db);
    shell("cp test.db new.db && cp old.db test.db");
    assert_apart("the database file of t");
    shell("cp new.db test.db");
    assert_reads("test.db", 3);
    shell("cp old.db test.db");
    accept_halves("the file is older", 3);
}

static void older_rows_under_a_newer_file_are_told(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    share(db, 2);
    client_close(db);
    shell("cp -r test.db-memwal old");
    db = client_open(database);
    share(db, 3);
    client_close(db);
    shell("rm -r test.db-memwal && mv old test.db-memwal");
    assert_apart("the store of t");
    accept_halves("the rows are older", 2);
}

/* From before the first of them: one of the two knows of none. */
static void halves_that_have_shared_nothing_yet_are_told(void **state)
{
    (void)state;
    client_close(make_default());
    shell("cp test.db old.db && cp -r test.db-memwal old");
    sqlite3 *db = client_open(database);
    share(db, 2);
    client_close(db);
    shell("cp test.db new.db && cp old.db test.db");
    assert_apart("the database file of t");
    shell("cp new.db test.db && rm -r test.db-memwal && mv old test.db-memwal");
    assert_apart("the store of t");
    accept_halves("the rows are older", 1);
}

/* Both went on by themselves since: neither is older, but they are not of one moment. */
static void halves_that_went_apart_are_told(void **state)
{
    (void)state;
    client_close(make_default());
    shell("cp test.db twin.db && cp -r test.db-memwal twin.db-memwal");
    sqlite3 *db = client_open(database);
    share(db, 2);
    client_close(db);
    db = open_named("twin.db");
    share(db, 3);
    client_close(db);
    shell("cp twin.db test.db");
    assert_apart("older than its");
}

/* Restored together they are together, whatever came later, and one phase changes no marker. */
static void halves_of_one_moment_are_taken(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    share(db, 2);
    client_close(db);
    shell("cp test.db old.db && cp -r test.db-memwal old");
    db = client_open(database);
    share(db, 3);
    client_close(db);
    shell("rm -r test.db-memwal && mv old test.db-memwal && cp old.db test.db");
    assert_reads("test.db", 2);
    db = client_open(database);
    client_run(db, "INSERT INTO t VALUES (8, 'h')");
    client_close(db);
    shell("cp old.db test.db");
    assert_reads("test.db", 3);
}

static int refuse_commit(void *arg)
{
    (void)arg;
    return 1;
}

/* What is rolled back, at the last moment, too, leaves both as they were. */
static void what_was_rolled_back_is_no_difference(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    share(db, 2);
    client_run(db, "BEGIN; UPDATE plain SET n = 5; INSERT INTO t VALUES (5, 'e'); ROLLBACK");
    sqlite3_commit_hook(db, refuse_commit, NULL);
    assert_int_equal(client_try(db, NULL,
                                "BEGIN; UPDATE plain SET n = 6;"
                                "INSERT INTO t VALUES (6, 'f'); COMMIT"),
                     SQLITE_CONSTRAINT_COMMITHOOK);
    client_close(db);
    assert_reads("test.db", 2);
}

/* Tables of this file and of another one over the store; the newest transaction is that of any. */
static void tables_over_one_store_are_no_difference(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    sqlite3 *other = open_named("other.db");
    char path[CLIENT_TEXT_BYTES];
    client_ask_text(db, path, "SELECT value FROM memwal_stats('t') WHERE name = 'path'");
    client_run(db, "CREATE VIRTUAL TABLE u USING memwal(path = '%s')", path);
    client_run(other, "CREATE TABLE plain(n); CREATE VIRTUAL TABLE t USING memwal(path = '%s')",
               path);
    share(db, 2);
    client_run(db, "BEGIN; UPDATE plain SET n = 3; INSERT INTO u VALUES (3, 'c'); COMMIT");
    client_close(db);
    assert_reads("test.db", 3);
    share(other, 4);
    assert_reads("test.db", 4);
    db = client_open(database);
    share(db, 5);
    client_run(db, "BEGIN; UPDATE plain SET n = 6; INSERT INTO u VALUES (6, 'f'); COMMIT");
    client_run(db, "DROP TABLE u");
    client_close(db);
    share(other, 7);
    client_close(other);
    assert_reads("test.db", 7);
}

/* ---- while others write ---------------------------------------------------------------------- */

/* A connection whose snapshot of the file is old is no file that is old. */
static void an_old_snapshot_is_no_difference(void **state)
{
    (void)state;
    sqlite3 *db = make_default();
    client_run(db, "PRAGMA journal_mode = WAL");
    share(db, 2);
    sqlite3 *reader = client_open(database);
    client_run(reader, "BEGIN; SELECT * FROM plain");
    share(db, 3);
    share(db, 4);
    assert_int_equal(count(reader), 4);
    client_run(reader, "COMMIT");
    client_close(reader);
    client_close(db);
}

static atomic_bool over;

static void *write_on(void *arg)
{
    (void)arg;
    sqlite3 *db = client_open(database);
    client_run(db, "PRAGMA synchronous = NORMAL"); /* the file's commit is synced behind it */
    for (int n = 10; !atomic_load(&over); n++) share(db, n);
    client_close(db);
    return NULL;
}

static void a_commit_under_way_is_no_difference(void **state)
{
    (void)state;
    enum { WRITERS = 2, LOOKS = 200 };
    pthread_t threads[WRITERS];
    sqlite3 *db = make_default();
    client_run(db, "PRAGMA journal_mode = WAL");
    share(db, 2);
    atomic_store(&over, false);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, NULL), 0);
    }
    for (int i = 0; i < LOOKS; i++) {
        sqlite3 *reader = client_open(database);
        if (i % 2) client_run(reader, "BEGIN; SELECT * FROM plain");
        (void)count(reader);
        if (i % 2) client_run(reader, "COMMIT");
        if (i % 20 == 0) client_run(reader, "INSERT OR REPLACE INTO t VALUES (1, 'y')");
        client_close(reader);
    }
    atomic_store(&over, true);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    client_close(db);
}

/* ---------------------------------------------------------------------------------------------- */

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_reads_and_does_not_write),
        TEST(a_copy_in_the_same_folder_shares_a_relative_path),
        TEST(tables_that_were_made_on_purpose_share_a_store),
        TEST(a_moved_database_is_adopted),
        TEST(adopting_is_rolled_back_with_its_transaction),
        TEST(a_table_without_the_row_is_adopted),
        TEST(links_are_the_file_itself),
        TEST(another_file_at_the_path_is_no_original),
        TEST(a_restored_database_is_the_original),
        TEST(a_copy_without_its_folder_says_what_is_missing),
        TEST(a_copy_with_its_folder_is_a_database_of_its_own),
        TEST(an_older_file_over_newer_rows_is_told),
        TEST(older_rows_under_a_newer_file_are_told),
        TEST(halves_that_have_shared_nothing_yet_are_told),
        TEST(halves_that_went_apart_are_told),
        TEST(halves_of_one_moment_are_taken),
        TEST(what_was_rolled_back_is_no_difference),
        TEST(tables_over_one_store_are_no_difference),
        TEST(an_old_snapshot_is_no_difference),
        TEST(a_commit_under_way_is_no_difference),
    };
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
