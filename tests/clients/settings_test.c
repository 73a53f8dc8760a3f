/* settings_test.c: memwal_set as several connections and threads see it.
**
** There is no other way to ask for an option than to set it: the answer is the old value. */
#include "client.h"

#include <pthread.h>

typedef struct store {
    char folder[PATH_MAX];
    char file[PATH_MAX + 16];
} store;

static store make_store(void)
{
    store at;
    client_folder_make(at.folder);
    snprintf(at.file, sizeof at.file, "%s/t.db", at.folder);
    sqlite3 *db = client_open(at.file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
                   "CREATE VIRTUAL TABLE other USING memwal(id INTEGER PRIMARY KEY, v);"
                   "CREATE TABLE ordinary(a); INSERT INTO ordinary VALUES(1), (2), (3)");
    client_close(db);
    return at;
}

/* Sets the option and expects the value that it had. */
static void expect(sqlite3 *db, const char *table, const char *key, const char *value,
                   const char *before)
{
    char sql[256];
    char found[CLIENT_TEXT_BYTES];
    snprintf(sql, sizeof sql, "SELECT memwal_set('%s', '%s', '%s')", table, key, value);
    client_ask_text(db, found, sql);
    if (strcmp(found, before) != 0) client_fail("%s: expected %s, found %s", sql, before, found);
}

static const struct {
    const char *key;
    const char *first;
    const char *then;
} all_options[] = {
    {"durability", "full", "normal"},    {"memtable", "64MB", "1MB"}, {"cache", "64MB", "2MB"},
    {"merge_generations", "8", "3"},     {"compression", "1", "0"},   {"background", "on", "off"},
    {"snapshot", "transaction", "statement"},
};
enum { OPTIONS = sizeof all_options / sizeof *all_options };

/* C81: connections of the process that use the store share its options, open before or opened
** later; another store, and the same store's table in another schema, have their own. */
static void options_are_shared_by_those_who_share_the_store(void **state)
{
    (void)state;
    store at = make_store();
    sqlite3 *one = client_open(at.file);
    sqlite3 *two = client_open(at.file);
    for (int i = 0; i < OPTIONS; i++) {
        expect(two, "t", all_options[i].key, all_options[i].first, all_options[i].first);
        expect(one, "t", all_options[i].key, all_options[i].then, all_options[i].first);
    }
    sqlite3 *three = client_open(at.file);
    for (int i = 0; i < OPTIONS; i++) {
        expect(two, "t", all_options[i].key, all_options[i].then, all_options[i].then);
        expect(three, "t", all_options[i].key, all_options[i].then, all_options[i].then);
        expect(two, "other", all_options[i].key, all_options[i].first, all_options[i].first);
    }
    client_close(three);
    client_close(two);
    client_close(one);
    one = client_open(at.file);
    for (int i = 0; i < OPTIONS; i++) {
        expect(one, "t", all_options[i].key, all_options[i].then, all_options[i].then);
        expect(one, "other", all_options[i].key, all_options[i].first, all_options[i].first);
    }
    client_close(one);
    client_folder_remove(at.folder);
}

static void refuse(sqlite3 *db, int code, const char *part)
{
    char words[CLIENT_TEXT_BYTES];
    int found = client_try(db, words, "SELECT memwal_set('t', 'cache', '1MB')");
    if (found != code || !strstr(words, part)) {
        client_fail("expected %d, %s; found %d, %s", code, part, found, words);
    }
}

/* What cannot be kept is not in force either; with and without a row of the option. */
static void an_option_that_cannot_be_kept_stays_as_it_was(void **state)
{
    (void)state;
    store at = make_store();
    sqlite3 *one = client_open(at.file);
    sqlite3 *two = client_open(at.file);
    sqlite3_busy_timeout(one, 10);
    const char *now = "64MB";
    for (int round = 0; round < 2; round++) {
        client_run(two, "BEGIN IMMEDIATE");
        refuse(one, SQLITE_BUSY, "stays as it was: database is locked");
        client_run(two, "COMMIT");
        sqlite3_stmt *reader = client_prepare(two, "SELECT a FROM ordinary");
        assert_true(client_step(reader));
        refuse(one, SQLITE_BUSY, "stays as it was: database is locked");
        client_finalize(reader);
        assert_int_equal(sqlite3_get_autocommit(one), 1);
        expect(two, "t", "cache", now, now);
        client_run(one, "DELETE FROM t_store WHERE key = 'option cache' AND %d = 0", round);
    }
    expect(one, "t", "cache", "3MB", now);
    client_close(two);
    client_close(one);
    client_folder_remove(at.folder);
}

/* The statement that calls it may read the table, in both kinds of journal. */
static void it_may_be_called_while_the_table_is_read(void **state)
{
    (void)state;
    store at = make_store();
    sqlite3 *db = client_open(at.file);
    client_run(db, "INSERT INTO t VALUES(1, 'a'), (2, 'b')");
    for (int round = 0; round < 2; round++) {
        char found[CLIENT_TEXT_BYTES];
        client_ask_text(db, found,
                        "SELECT group_concat(id || v || memwal_set('t', 'cache', id || 'MB')) FROM t");
        assert_string_equal(found, round ? "1a2MB,2b1MB" : "1a64MB,2b1MB");
        client_run(db, "PRAGMA journal_mode = WAL");
    }
    client_close(db);
    client_folder_remove(at.folder);
}

typedef struct setter {
    const char *file;
    const char *unit;
    int rc;
    char words[CLIENT_TEXT_BYTES];
    pthread_t thread;
} setter;

static void *set_again_and_again(void *arg)
{
    setter *self = arg;
    sqlite3 *db = NULL;
    self->rc = sqlite3_open(self->file, &db);
    sqlite3_enable_load_extension(db, 1);
    if (self->rc == SQLITE_OK) {
        self->rc = sqlite3_load_extension(db, client_extension(), NULL, NULL);
    }
    sqlite3_busy_timeout(db, 60000);
    for (int i = 1; self->rc == SQLITE_OK && i <= 40; i++) {
        self->rc = client_try(db, self->words, "SELECT memwal_set('t', 'cache', '%d%s')", i,
                              self->unit);
    }
    sqlite3_close(db);
    return NULL;
}

/* Whoever is last in the database is last in the store, too. */
static void two_setters_leave_one_value(void **state)
{
    (void)state;
    store at = make_store();
    sqlite3 *db = client_open(at.file); /* keeps the store open */
    char kept[CLIENT_TEXT_BYTES];
    client_run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                   "INSERT INTO t VALUES(1, 'a')");
    (void)client_extension(); /* known before there are threads */
    for (int round = 0; round < 5; round++) {
        setter both[2] = {{.file = at.file, .unit = "KB"}, {.file = at.file, .unit = "MB"}};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&both[i].thread, NULL, set_again_and_again, &both[i]),
                             0);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(both[i].thread, NULL);
            if (both[i].rc != SQLITE_OK) client_fail("setter: %d, %s", both[i].rc, both[i].words);
        }
        client_ask_text(db, kept, "SELECT value FROM t_store WHERE key = 'option cache'");
        assert_int_equal(client_ask(db, "SELECT count(*) FROM t_store WHERE key = 'option cache'"),
                         1);
        expect(db, "t", "cache", "5MB", kept);
    }
    client_close(db);
    client_folder_remove(at.folder);
}

/* Rows that were committed before durability is full again are on disk when the call returns: no
** sync of the log is missing. */
static void durability_goes_both_ways_under_writing(void **state)
{
    (void)state;
    store at = make_store();
    sqlite3 *db = client_open(at.file);
    client_run(db, "INSERT INTO t VALUES(0, 'x')");
    for (int i = 1; i <= 20; i++) {
        expect(db, "t", "durability", "normal", "full");
        int64_t syncs = client_figure(db, "wal_syncs");
        client_run(db, "INSERT INTO t VALUES(%d, 'x')", i);
        expect(db, "t", "durability", "full", "normal");
        assert_true(client_figure(db, "wal_syncs") > syncs);
    }
    client_close(db);
    db = client_open(at.file);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 21);
    client_check_store(db);
    client_close(db);
    client_folder_remove(at.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_shared_by_those_who_share_the_store),
        cmocka_unit_test(an_option_that_cannot_be_kept_stays_as_it_was),
        cmocka_unit_test(it_may_be_called_while_the_table_is_read),
        cmocka_unit_test(two_setters_leave_one_value),
        cmocka_unit_test(durability_goes_both_ways_under_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
