/* place_cases_test.c: stores under names and paths of every kind: C60, C62, C63, C78. */
#include "client.h"

enum { PATH_BYTES = PATH_MAX + 128 };

static char folder[PATH_MAX];

static int make_folder(void **state)
{
    (void)state;
    client_folder_make(folder);
    if (chdir(folder)) client_fail("%s: %s", folder, strerror(errno));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    if (chdir("/")) client_fail("/: %s", strerror(errno));
    client_folder_remove(folder);
    return 0;
}

static sqlite3 *open_in(const char *under, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s/%s", folder, under, name);
    return client_open(path);
}

static void make_subfolder(const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (mkdir(path, 0700)) client_fail("%s: %s", path, strerror(errno));
}

/* C60: in the name of the store and in that of the database file. */
static void odd_characters_in_paths_are_characters(void **state)
{
    (void)state;
    static const char *const names[] = {"a b",  "a'b",      "a\"b", "a,b", "a[b]", "a%b",
                                        "a?b",  "a#b",      "a;b",  "a(b", "a\\b", "a=b",
                                        "-- a", "\xc3\xa4", "a\nb", " a ", "a&b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_subfolder(names[i]);
        sqlite3 *db = open_in(names[i], "test.db");
        char *sql = sqlite3_mprintf(
            "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, path = %Q);"
            "CREATE VIRTUAL TABLE u USING memwal(id INTEGER PRIMARY KEY);"
            "INSERT INTO t VALUES (%d); INSERT INTO u VALUES (%d)",
            names[i], (int)i, (int)i);
        client_run(db, "%s", sql);
        sqlite3_free(sql);
        client_close(db);
        db = open_in(names[i], "test.db");
        assert_int_equal(client_ask(db, "SELECT t.id + u.id FROM t, u"), 2 * (int)i);
        client_check_store(db);
        char path[CLIENT_TEXT_BYTES];
        client_ask_text(db, path, "SELECT value FROM memwal_stats('t') WHERE name = 'path'");
        const char *slash = strrchr(path, '/');
        assert_string_equal(slash + 1, names[i]);
        client_close(db);
    }
}

/* C62 */
static void a_relative_path_starts_from_the_database_file(void **state)
{
    (void)state;
    char elsewhere[PATH_BYTES];
    sqlite3 *db = client_open("test.db");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, path = 'rows');"
                   "INSERT INTO t VALUES (1), (2), (3)");
    client_close(db);
    make_subfolder("elsewhere");
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    if (chdir(elsewhere)) client_fail("%s: %s", elsewhere, strerror(errno));
    db = client_open("../test.db");
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), 3);
    client_run(db, "INSERT INTO t VALUES (4)");
    client_close(db);
    assert_int_not_equal(access("rows", F_OK), 0);
    db = open_in(".", "test.db");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 4);
    client_close(db);
}

static void link_to(const char *target, const char *name)
{
    if (symlink(target, name)) client_fail("%s: %s", name, strerror(errno));
}

/* C63: one lock and one engine, by whatever name. */
static void symbolic_links_lead_to_the_same_store(void **state)
{
    (void)state;
    sqlite3 *db = client_open("test.db");
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, path = 'rows');"
                   "INSERT INTO t VALUES (1)");
    link_to("test.db", "other.db");
    link_to("rows", "names");
    sqlite3 *second = client_open("other.db");
    assert_int_equal(client_ask(second, "SELECT count(*) FROM t"), 1);
    client_run(second, "INSERT INTO t VALUES (2)");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 2);
    client_run(second, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/names')", folder);
    client_run(second, "INSERT INTO temp.t VALUES (3)");
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), 3);
    assert_int_equal(client_figure(db, "epoch"), client_figure(second, "epoch"));
    client_check_store(db);
    client_close(second);
    client_close(db);
}

/* C78: shared where the columns are the same, refused where they are not. */
static void two_databases_over_one_store_have_the_same_columns(void **state)
{
    (void)state;
    char words[CLIENT_TEXT_BYTES];
    sqlite3 *a = client_open("a.db");
    sqlite3 *b = client_open("b.db");
    client_run(a, "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, x, y, path = 'rows');"
                  "INSERT INTO t VALUES ('a', 1, 2)");
    int rc = client_try(
        b, words, "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, y, x, path = 'rows')");
    assert_int_equal(rc & 0xff, SQLITE_MISMATCH);
    assert_non_null(strstr(words, "has other columns"));
    client_run(b, "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, x, y, path = 'rows');"
                  "INSERT INTO t VALUES ('b', 3, 4)");
    assert_int_equal(client_ask(a, "SELECT sum(x * 10 + y) FROM t"), 12 + 34);
    client_run(b, "BEGIN; INSERT INTO t VALUES ('c', 5, 6); COMMIT");
    client_run(a, "BEGIN; INSERT INTO t VALUES ('d', 7, 8); COMMIT");
    assert_int_equal(client_ask(b, "SELECT memwal_count('t')"), 4);
    client_check_store(a);
    client_close(b);
    client_close(a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(odd_characters_in_paths_are_characters),
        TEST(a_relative_path_starts_from_the_database_file),
        TEST(symbolic_links_lead_to_the_same_store),
        TEST(two_databases_over_one_store_have_the_same_columns),
    };
    client_extension(); /* by a relative path, from here */
    return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
