/* api_cases_test.c: cases that only the C interface can show: statements that are stepped while
** others write, and connections that watch each other.
**
** Where a case says so it runs everywhere: with integer and text ids, the rows in memory, in a
** generation, in the base, or spread over all three, and each of these once more after the
** database was opened again. */
#include "client.h"

#include <pthread.h>

enum { PATH_BYTES = PATH_MAX + 64 };

typedef enum where { IN_MEMORY, IN_A_GENERATION, IN_THE_BASE, SPREAD, PLACES } where;

typedef struct scene {
    char folder[PATH_MAX];
    char database[PATH_BYTES];
    sqlite3 *db;
    bool text;
    where place;
    bool reopened;
} scene;

/* ---- scenes ------------------------------------------------------------------------------ */

/* Row i is (id of i, i, 'body i'); texts sort as their numbers do. */
static void scene_create(scene *s)
{
    client_folder_make(s->folder);
    snprintf(s->database, sizeof s->database, "%s/test.db", s->folder);
    s->db = client_open(s->database);
    client_run(s->db, "PRAGMA journal_mode = WAL");
    client_run(
        s->db,
        "CREATE VIRTUAL TABLE t USING memwal(id %s PRIMARY KEY, v, body TEXT, background = off,"
        " group_rows = 64)",
        s->text ? "TEXT" : "INTEGER");
}

static void scene_end(scene *s)
{
    client_close(s->db);
    client_folder_remove(s->folder);
}

/* Puts rows first .. last - 1 with every step-th number. */
static void put_rows(const scene *s, int first, int last, int step)
{
    char id[64];
    snprintf(id, sizeof id, s->text ? "printf('k%%06d', n)" : "n");
    client_run(s->db,
               "WITH RECURSIVE c(n) AS (SELECT %d UNION ALL SELECT n + %d FROM c WHERE n + %d < %d)"
               "INSERT INTO t SELECT %s, n, 'body ' || n FROM c",
               first, step, step, last, id);
}

/* Rows 1 .. count, there where the scene wants them. */
static void scene_fill(scene *s, int count)
{
    if (s->place == SPREAD) {
        for (int part = 1; part <= 3; part++) {
            put_rows(s, part, count + 1, 3);
            if (part < 3) client_run(s->db, "SELECT memwal_flush('t')");
            if (part == 1) client_run(s->db, "SELECT memwal_merge('t')");
        }
    } else {
        put_rows(s, 1, count + 1, 1);
        if (s->place != IN_MEMORY) client_run(s->db, "SELECT memwal_flush('t')");
        if (s->place == IN_THE_BASE) client_run(s->db, "SELECT memwal_merge('t')");
    }
    if (s->reopened) {
        client_close(s->db);
        s->db = client_open(s->database);
    }
    assert_int_equal(client_ask(s->db, "SELECT memwal_count('t')"), count);
}

static void everywhere(int count, void (*check)(scene *s))
{
    for (int i = 0; i < 2 * PLACES * 2; i++) {
        scene s = {.text = i & 1, .place = (where)(i / 2 % PLACES), .reopened = i >= 2 * PLACES};
        scene_create(&s);
        scene_fill(&s, count);
        check(&s);
        client_check_store(s.db);
        scene_end(&s);
    }
}

/* SQL with every ID(x) in it replaced by the id of number x. */
static const char *with_ids(const scene *s, const char *sql, char to[CLIENT_TEXT_BYTES])
{
    size_t size = 0;
    for (const char *at = sql; *at;) {
        if (strncmp(at, "ID(", 3) == 0) {
            int number_bytes = (int)strcspn(at + 3, ")");
            size += (size_t)snprintf(to + size, CLIENT_TEXT_BYTES - size,
                                     s->text ? "printf('k%%06d', %.*s)" : "(%.*s)", number_bytes,
                                     at + 3);
            at += 3 + number_bytes + 1;
        } else {
            to[size++] = *at++;
        }
        if (size + 64 > CLIENT_TEXT_BYTES) client_fail("too long: %s", sql);
    }
    to[size] = 0;
    return to;
}

static sqlite3_stmt *prepare(const scene *s, const char *sql)
{
    char text[CLIENT_TEXT_BYTES];
    return client_prepare(s->db, with_ids(s, sql, text));
}

static void run(const scene *s, const char *sql)
{
    char text[CLIENT_TEXT_BYTES];
    client_run(s->db, "%s", with_ids(s, sql, text));
}

static int64_t ask(const scene *s, sqlite3 *db, const char *sql)
{
    char text[CLIENT_TEXT_BYTES];
    return client_ask(db, with_ids(s, sql, text));
}

/* ---- C35 --------------------------------------------------------------------------------- */

enum { LOOKED_UP = 500, WRITE_EVERY = 5, WRITTEN = LOOKED_UP / WRITE_EVERY };

static void two_cursors_and_lookups(scene *s)
{
    sqlite3_stmt *first = client_prepare(s->db, "SELECT id, v FROM t ORDER BY id");
    sqlite3_stmt *second = client_prepare(s->db, "SELECT id, v FROM t");
    sqlite3_stmt *lookup = client_prepare(s->db, "SELECT v, body FROM t WHERE id = ?1");
    char body[32];
    for (int i = 1; i <= LOOKED_UP; i++) {
        assert_true(client_step(first));
        assert_true(client_step(second));
        assert_int_equal(sqlite3_column_int(first, 1), i);
        assert_int_equal(sqlite3_column_int(second, 1), i);
        sqlite3_bind_value(lookup, 1, sqlite3_column_value(second, 0));
        assert_true(client_step(lookup));
        snprintf(body, sizeof body, "body %d", i);
        assert_int_equal(sqlite3_column_int(lookup, 0), i);
        assert_string_equal((const char *)sqlite3_column_text(lookup, 1), body);
        assert_false(client_step(lookup));
        sqlite3_reset(lookup);
    }
    assert_false(client_step(first));
    assert_false(client_step(second));
    client_finalize(first);
    client_finalize(second);
    client_finalize(lookup);
}

/* C35. */
static void two_cursors_see_all_rows_and_every_lookup_between_hits(void **state)
{
    (void)state;
    everywhere(LOOKED_UP, two_cursors_and_lookups);
}

/* C35, I13: the first cursor began before anything was written, and stays there. */
static void a_cursor_beside_writes(scene *s)
{
    sqlite3_stmt *scan = client_prepare(s->db, "SELECT v, body FROM t ORDER BY id");
    sqlite3_stmt *put = prepare(s, "INSERT INTO t VALUES(ID(?1 + 100000), ?1, 'new')");
    sqlite3_stmt *change = prepare(s, "UPDATE t SET body = 'changed' WHERE id = ID(?1)");
    char body[32];
    for (int i = 1; i <= LOOKED_UP; i++) {
        assert_true(client_step(scan));
        snprintf(body, sizeof body, "body %d", i);
        assert_int_equal(sqlite3_column_int(scan, 0), i);
        assert_string_equal((const char *)sqlite3_column_text(scan, 1), body);
        if (i % WRITE_EVERY != 0) continue;
        sqlite3_bind_int(put, 1, i);
        sqlite3_bind_int(change, 1, LOOKED_UP + 1 - i);
        assert_false(client_step(put));
        assert_false(client_step(change));
        sqlite3_reset(put);
        sqlite3_reset(change);
        assert_int_equal(client_ask(s->db, "SELECT memwal_count('t')"),
                         LOOKED_UP + i / WRITE_EVERY);
    }
    assert_false(client_step(scan));
    client_finalize(scan);
    client_finalize(put);
    client_finalize(change);
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t WHERE body = 'changed'"), WRITTEN);
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t WHERE body = 'new'"), WRITTEN);
}

static void a_cursor_keeps_its_moment_while_its_connection_writes(void **state)
{
    (void)state;
    everywhere(LOOKED_UP, a_cursor_beside_writes);
}

static void a_cursor_beside_writes_in_a_transaction(scene *s)
{
    client_run(s->db, "BEGIN");
    a_cursor_beside_writes(s);
    client_run(s->db, "COMMIT");
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t"), LOOKED_UP + WRITTEN);
}

static void a_cursor_keeps_its_moment_inside_a_transaction_too(void **state)
{
    (void)state;
    everywhere(LOOKED_UP, a_cursor_beside_writes_in_a_transaction);
}

/* ---- C37 --------------------------------------------------------------------------------- */

static void delete_under_the_cursor(scene *s)
{
    sqlite3_stmt *scan = client_prepare(s->db, "SELECT v FROM t ORDER BY id");
    for (int i = 1; i <= 3; i++) {
        assert_true(client_step(scan));
        assert_int_equal(sqlite3_column_int(scan, 0), i);
        if (i == 2) run(s, "DELETE FROM t WHERE id = ID(2)");
    }
    assert_false(client_step(scan));
    client_finalize(scan);
    assert_int_equal(ask(s, s->db, "SELECT count(*) FROM t WHERE id = ID(2)"), 0);
    assert_int_equal(client_ask(s->db, "SELECT memwal_count('t')"), 2);
    assert_int_equal(client_ask(s->db, "SELECT sum(v) FROM t"), 4);
}

/* C37. */
static void a_row_deleted_under_the_cursor_is_seen_once_more_and_is_gone(void **state)
{
    (void)state;
    everywhere(3, delete_under_the_cursor);
}

/* The rows ahead of the cursor and behind it go, new ones come, files change: none of it is
** seen. */
static void everything_changes_under_the_cursor(scene *s)
{
    sqlite3_stmt *scan = client_prepare(s->db, "SELECT v FROM t ORDER BY id DESC");
    for (int i = 3; i >= 1; i--) {
        assert_true(client_step(scan));
        assert_int_equal(sqlite3_column_int(scan, 0), i);
        if (i != 2) continue;
        run(s, "INSERT INTO t VALUES(ID(0), 100, '')");
        run(s, "UPDATE t SET v = v + 10");
        run(s, "DELETE FROM t WHERE id IN (ID(1), ID(3))");
        client_run(s->db, "SELECT memwal_flush('t')");
        client_run(s->db, "SELECT memwal_merge('t')");
    }
    assert_false(client_step(scan));
    client_finalize(scan);
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t"), 2);
    assert_int_equal(client_ask(s->db, "SELECT sum(v) FROM t"), 110 + 12);
}

/* C33, C37. */
static void a_cursor_outlives_changes_of_all_rows_a_flush_and_a_merge(void **state)
{
    (void)state;
    everywhere(3, everything_changes_under_the_cursor);
}

/* A half-stepped SELECT at the end of a transaction, both ways. */
static void a_scan_across_commit(scene *s)
{
    sqlite3_stmt *scan = client_prepare(s->db, "SELECT v FROM t ORDER BY id");
    client_run(s->db, "BEGIN");
    run(s, "DELETE FROM t WHERE id = ID(3)");
    assert_true(client_step(scan));
    run(s, "DELETE FROM t WHERE id = ID(2)");
    client_run(s->db, "COMMIT");
    assert_true(client_step(scan));
    assert_int_equal(sqlite3_column_int(scan, 0), 2);
    assert_false(client_step(scan));
    sqlite3_reset(scan);
    assert_true(client_step(scan));
    assert_int_equal(sqlite3_column_int(scan, 0), 1);
    assert_false(client_step(scan));
    client_finalize(scan);
}

static void a_scan_that_was_begun_in_a_transaction_ends_behind_its_commit(void **state)
{
    (void)state;
    everywhere(3, a_scan_across_commit);
}

/* ---- C41 --------------------------------------------------------------------------------- */

/* C41: a statement that fails half way leaves nothing, the transaction goes on. */
static void a_statement_that_fails_half_way_leaves_the_transaction_as_it_was(void **state)
{
    (void)state;
    scene s = {.text = true};
    char words[CLIENT_TEXT_BYTES];
    scene_create(&s);
    client_run(s.db, "BEGIN; INSERT INTO t(id, v) VALUES('b', 2)");
    int rc = client_try(
        s.db, words,
        "INSERT INTO t(id, v) SELECT k, CASE k WHEN 'd' THEN abs(-9223372036854775807 - 1)"
        " ELSE 0 END FROM (SELECT 'c' AS k UNION ALL SELECT 'd')");
    assert_int_equal(rc, SQLITE_ERROR);
    assert_string_equal(words, "integer overflow");
    assert_false(sqlite3_get_autocommit(s.db));
    assert_int_equal(client_ask(s.db, "SELECT count(*) FROM t"), 1);
    client_run(s.db, "COMMIT");
    client_ask_text(s.db, words, "SELECT group_concat(id || '=' || v) FROM t");
    assert_string_equal(words, "b=2");
    scene_end(&s);
}

static void a_failing_replace_of_all(scene *s)
{
    int rc = client_try(s->db, NULL,
                        "REPLACE INTO t SELECT id, CASE v WHEN 7 THEN abs(-9223372036854775807 - 1)"
                        " ELSE -v END, '' FROM t ORDER BY id");
    assert_int_equal(rc, SQLITE_ERROR);
    rc =
        client_try(s->db, NULL,
                   "UPDATE t SET v = CASE v WHEN 7 THEN abs(-9223372036854775807 - 1) ELSE -v END");
    assert_int_equal(rc, SQLITE_ERROR);
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t WHERE body = 'body ' || v"), 10);
    assert_int_equal(client_ask(s->db, "SELECT memwal_count('t')"), 10);
}

static void a_failing_replace_in_a_transaction(scene *s)
{
    client_run(s->db, "BEGIN");
    run(s, "DELETE FROM t WHERE id = ID(10)");
    run(s, "INSERT INTO t VALUES(ID(10), 10, 'body 10')");
    a_failing_replace_of_all(s);
    client_run(s->db, "COMMIT");
    assert_int_equal(client_ask(s->db, "SELECT sum(v) FROM t"), 55);
}

/* C41: the rows that it had replaced already are back. */
static void a_replace_that_fails_half_way_puts_every_row_back(void **state)
{
    (void)state;
    everywhere(10, a_failing_replace_of_all);
    everywhere(10, a_failing_replace_in_a_transaction);
}

/* ---- C43 --------------------------------------------------------------------------------- */

static const char *const ways_to_find[] = {
    "SELECT count(*) FROM t WHERE id = ID(1000) AND v = 'x'",
    "SELECT count(*) FROM t WHERE id > ID(999) AND v = 'x'",
    "SELECT count(*) FROM t WHERE id BETWEEN ID(1000) AND ID(1001) AND v = 'x'",
    "SELECT count(*) FROM t WHERE id IN (ID(5), ID(1000)) AND v = 'x'",
    "SELECT count(*) FROM (SELECT ID(1000) AS k) AS a JOIN t ON t.id = a.k AND v = 'x'",
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id AND a.v = 'x' AND b.v = 'x'",
    "SELECT count(*) FROM t WHERE v = 'x'",
    "SELECT count(*) > 10 FROM t",
    "SELECT memwal_count('t') > 10",
};

static void check_found(const scene *s, sqlite3 *db, int right)
{
    for (size_t i = 0; i < sizeof ways_to_find / sizeof *ways_to_find; i++) {
        int64_t found = ask(s, db, ways_to_find[i]);
        if (found != right) {
            client_fail("%s: expected %d, found %" PRId64, ways_to_find[i], right, found);
        }
    }
}

static void own_row_and_the_others(scene *s)
{
    sqlite3 *other = client_open(s->database);
    check_found(s, other, 0);
    client_run(s->db, "BEGIN");
    run(s, "INSERT INTO t VALUES(ID(1000), 'x', '')");
    check_found(s, s->db, 1);
    check_found(s, other, 0);
    client_run(s->db, "COMMIT");
    check_found(s, s->db, 1);
    check_found(s, other, 1);
    client_run(s->db, "BEGIN");
    run(s, "DELETE FROM t WHERE id = ID(1000)");
    check_found(s, s->db, 0);
    check_found(s, other, 1);
    client_run(s->db, "ROLLBACK");
    check_found(s, s->db, 1);
    check_found(s, other, 1);
    client_close(other);
}

/* C43, L06: own rows at once, those of others after their commit. */
static void a_row_is_seen_by_its_transaction_at_once_and_by_others_after_commit(void **state)
{
    (void)state;
    everywhere(10, own_row_and_the_others);
}

/* C43 for temp tables over one store. */
static void a_temp_table_shows_rows_of_other_connections_after_commit(void **state)
{
    (void)state;
    for (int text = 0; text < 2; text++) {
        scene s = {.text = text};
        client_folder_make(s.folder);
        s.db = client_open(":memory:");
        client_run(
            s.db,
            "CREATE VIRTUAL TABLE temp.t USING memwal(id %s PRIMARY KEY, v, body, path = '%s/s')",
            text ? "TEXT" : "INTEGER", s.folder);
        put_rows(&s, 1, 11, 1);
        sqlite3 *other = client_open(":memory:");
        client_run(other, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/s')", s.folder);
        client_run(s.db, "BEGIN");
        run(&s, "INSERT INTO t VALUES(ID(1000), 'x', '')");
        check_found(&s, s.db, 1);
        check_found(&s, other, 0);
        client_run(s.db, "COMMIT");
        check_found(&s, other, 1);
        client_close(other);
        scene_end(&s);
    }
}

/* ------------------------------------------------------------------------------------------ */

/* ---- C39, L25, L26 ------------------------------------------------------------------------ */

enum { JOINED = 60 };

static void delete_inside_a_join(scene *s, const char *tables)
{
    char sql[CLIENT_TEXT_BYTES];
    char body[32];
    snprintf(sql, sizeof sql, "SELECT o.n, t.id = ID(o.n), t.v, t.body FROM %s "
                              "ON t.id = ID(o.n) ORDER BY o.n", tables);
    sqlite3_stmt *join = prepare(s, sql);
    for (int i = 1; i <= JOINED; i++) {
        assert_true(client_step(join));
        assert_int_equal(sqlite3_column_int(join, 0), i);
        assert_int_equal(sqlite3_column_int(join, 1), 1);
        assert_int_equal(sqlite3_column_int(join, 2), i);
        snprintf(body, sizeof body, "body %d", i);
        assert_string_equal((const char *)sqlite3_column_text(join, 3), body);
        if (i == 3) run(s, "DELETE FROM t WHERE v > 3 AND v % 2 = 0");
        if (i == 9) run(s, "DELETE FROM t WHERE v = 9 OR v = 10");
    }
    assert_false(client_step(join));
    client_finalize(join);
}

static void delete_inside_both_joins(scene *s)
{
    client_run(s->db, "CREATE TABLE o(n INTEGER PRIMARY KEY); INSERT INTO o SELECT v FROM t");
    delete_inside_a_join(s, "o CROSS JOIN t");
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t"), JOINED / 2 + 1 - 1);
    client_run(s->db, "DELETE FROM t");
    put_rows(s, 1, JOINED + 1, 1);
    delete_inside_a_join(s, "t CROSS JOIN o");
    assert_int_equal(client_ask(s->db, "SELECT count(*) FROM t"), JOINED / 2 + 1 - 1);
}

/* C39: rows that are deleted while a join goes on: it shows the moment of its beginning, each row
** whole, whichever table is the outer one. */
static void a_join_beside_deletes_gives_whole_rows(void **state)
{
    (void)state;
    everywhere(JOINED, delete_inside_both_joins);
}

static void probe_beside_an_update(scene *s)
{
    sqlite3 *other = client_open(s->database);
    sqlite3_stmt *probes = client_prepare(
        s->db, "SELECT a.v, b.v, (SELECT c.v FROM t c WHERE c.id = a.id) FROM t a "
               "CROSS JOIN t b ON b.id = a.id ORDER BY a.id");
    for (int i = 1; i <= JOINED; i++) {
        assert_true(client_step(probes));
        for (int c = 0; c < 3; c++) assert_int_equal(sqlite3_column_int(probes, c), i);
        if (i == 5) client_run(other, "UPDATE t SET v = v + 1000");
        if (i == 10) client_run(other, "SELECT memwal_flush('t'), memwal_merge('t')");
    }
    assert_false(client_step(probes));
    client_finalize(probes);
    assert_int_equal(client_ask(s->db, "SELECT min(v) FROM t"), 1001);
    client_close(other);
}

/* L25: a statement that scans and then looks up takes both from one moment. */
static void a_scan_and_its_lookups_see_one_moment(void **state)
{
    (void)state;
    everywhere(JOINED, probe_beside_an_update);
}

enum { ADDERS = 3, ADDED = 150 };

typedef struct adder {
    pthread_t thread;
    const scene *scene;
    bool temp;
    int failed;
} adder;

/* Adds 1 to one row again and again, on a connection of its own. */
static void *add(void *arg)
{
    adder *self = arg;
    sqlite3 *db = client_open(self->temp ? ":memory:" : self->scene->database);
    if (self->temp) {
        client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')",
                   self->scene->folder);
    }
    for (int i = 0; i < ADDED; i++) {
        if (client_try(db, NULL, "UPDATE t SET v = v + 1 WHERE id = 1") != SQLITE_OK) {
            self->failed++;
        }
    }
    client_close(db);
    return NULL;
}

/* L26: who changes a row sees what was committed, and queued, before: no addition is lost, neither
** of tables of one database nor of those in temp, whose commits share syncs. */
static void additions_at_the_same_time_all_count(void **state)
{
    (void)state;
    for (int temp = 0; temp < 2; temp++) {
        scene s = {.text = false};
        scene_create(&s);
        client_run(s.db, "CREATE VIRTUAL TABLE u USING memwal(id INTEGER PRIMARY KEY, v, "
                         "path = '%s/store')", s.folder);
        client_run(s.db, "INSERT INTO t(id, v) VALUES(1, 0); INSERT INTO u VALUES(1, 0)");
        adder adders[ADDERS];
        for (int i = 0; i < ADDERS; i++) {
            adders[i] = (adder){.scene = &s, .temp = temp};
            assert_int_equal(pthread_create(&adders[i].thread, NULL, add, &adders[i]), 0);
        }
        for (int i = 0; i < ADDERS; i++) {
            assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
            assert_int_equal(adders[i].failed, 0);
        }
        assert_int_equal(client_ask(s.db, temp ? "SELECT v FROM u" : "SELECT v FROM t"),
                         ADDERS * ADDED);
        scene_end(&s);
    }
}

int main(void)
{
    client_use_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cursors_see_all_rows_and_every_lookup_between_hits),
        cmocka_unit_test(a_cursor_keeps_its_moment_while_its_connection_writes),
        cmocka_unit_test(a_cursor_keeps_its_moment_inside_a_transaction_too),
        cmocka_unit_test(a_row_deleted_under_the_cursor_is_seen_once_more_and_is_gone),
        cmocka_unit_test(a_cursor_outlives_changes_of_all_rows_a_flush_and_a_merge),
        cmocka_unit_test(a_scan_that_was_begun_in_a_transaction_ends_behind_its_commit),
        cmocka_unit_test(a_statement_that_fails_half_way_leaves_the_transaction_as_it_was),
        cmocka_unit_test(a_replace_that_fails_half_way_puts_every_row_back),
        cmocka_unit_test(a_row_is_seen_by_its_transaction_at_once_and_by_others_after_commit),
        cmocka_unit_test(a_temp_table_shows_rows_of_other_connections_after_commit),
        cmocka_unit_test(a_join_beside_deletes_gives_whole_rows),
        cmocka_unit_test(a_scan_and_its_lookups_see_one_moment),
        cmocka_unit_test(additions_at_the_same_time_all_count),
    };
    return cmocka_run_group_tests_name("api_cases", tests, NULL, NULL);
}
