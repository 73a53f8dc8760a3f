/* text_id_test.c: conditions on text ids find what an ordinary table finds.
**
** What SQLite compares text ids with depends on the affinity of the other side, which a virtual
** table is not told. So every comparison stands here with every kind of other side, against a memwal
** table m and an ordinary one o of the same rows, with every type of parameter, in databases that
** keep texts in UTF-8 and in UTF-16. */
#include "client.h"

#include <math.h>

enum { PARAMETERS = 10, ANSWER_BYTES = 1 << 16 };

/* ---- two tables of the same rows ---------------------------------------------------------- */

static const char *const ids[] = {
    "''",    "'!'",  "' 1'",  "'+1'",      "'-1'",         "'.5'",        "'0'",
    "'01'",  "'1'",  "'1.0'", "'1e0'",     "'10'",         "'2'",         "'2.5'",
    "'9'",   "'9x'", "':'",   "'ABC'",     "'Inf'",        "'1e999'",     "'a'",
    "'abc'", "'x'",  "'zz'",  "char(233)", "char(128512)", "char(65535)", "'a'||char(0)",
};

static void fill(sqlite3 *db, const char *encoding)
{
    client_run(db, "PRAGMA encoding = '%s'", encoding);
    client_run(db,
               "CREATE VIRTUAL TABLE m USING memwal(id TEXT PRIMARY KEY, v, background = off);"
               "CREATE TABLE o(id TEXT PRIMARY KEY NOT NULL, v) WITHOUT ROWID;"
               "CREATE TABLE s(n INTEGER, r REAL, t TEXT, b BLOB, u, c TEXT COLLATE NOCASE);"
               "INSERT INTO s VALUES (1, 1.0, '1', '1', '1', 'abc'), (2, 2.5, '01', 2, 1, 'ZZ'),"
               " ('zz', 'zz', 'zz', x'7a7a', 'zz', 'x'), ('!', 9e999, ':', 'x', 2.5, '1'),"
               " (NULL, NULL, NULL, NULL, NULL, NULL)");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        client_run(db, "INSERT INTO o VALUES (%s, %d)", ids[i], (int)i % 3);
    }
    client_run(db, "INSERT INTO m SELECT * FROM o");
}

static sqlite3 *open_filled(const char *encoding)
{
    sqlite3 *db = client_open(":memory:");
    fill(db, encoding);
    return db;
}

/* The query's only value as text, with @ in it standing for a table and ?1 for a value. */
static void answer(sqlite3 *db, const char *query, char table, int parameter, char *to)
{
    char sql[CLIENT_TEXT_BYTES];
    snprintf(sql, sizeof sql, "%s", query);
    for (char *at = sql; (at = strchr(at, '@')) != NULL;) *at = table;
    sqlite3_stmt *statement = client_prepare(db, sql);
    switch (parameter) {
    case 0: sqlite3_bind_int(statement, 1, 1); break;
    case 1: sqlite3_bind_double(statement, 1, 2.5); break;
    case 2: sqlite3_bind_text(statement, 1, "1", -1, SQLITE_STATIC); break;
    case 3: sqlite3_bind_text(statement, 1, "01", -1, SQLITE_STATIC); break;
    case 4: sqlite3_bind_text(statement, 1, "!", -1, SQLITE_STATIC); break;
    case 5: sqlite3_bind_text(statement, 1, "b", -1, SQLITE_STATIC); break;
    case 6: sqlite3_bind_blob(statement, 1, "1", 1, SQLITE_STATIC); break;
    case 7: sqlite3_bind_null(statement, 1); break;
    case 8: sqlite3_bind_double(statement, 1, INFINITY); break;
    default: sqlite3_bind_int(statement, 1, -3); break;
    }
    if (!client_step(statement)) client_fail("%s: expected a row, found none", sql);
    const unsigned char *text = sqlite3_column_text(statement, 0);
    snprintf(to, ANSWER_BYTES, "%s", text ? (const char *)text : "NULL");
    client_finalize(statement);
}

static void assert_same(sqlite3 *db, const char *query)
{
    static char ours[ANSWER_BYTES];
    static char theirs[ANSWER_BYTES];
    int count = strstr(query, "?1") ? PARAMETERS : 1;
    for (int i = 0; i < count; i++) {
        answer(db, query, 'm', i, ours);
        answer(db, query, 'o', i, theirs);
        if (strcmp(ours, theirs) == 0) continue;
        client_fail("%s with parameter %d: memwal %s, the ordinary table %s", query, i, ours,
                    theirs);
    }
}

static const char *const encodings[] = {"UTF-8", "UTF-16le", "UTF-16be"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- tests -------------------------------------------------------------------------------- */

/* C44: all operators against expressions of every affinity. */
static void comparisons_with_expressions_are_an_ordinary_tables(void **state)
{
    (void)state;
    static const char *const operators[] = {"=", "IS", "<", "<=", ">", ">=", "<>", "IS NOT"};
    static const char *const sides[] = {
        "?1",
        "+?1",
        "CAST(?1 AS INTEGER)",
        "CAST(?1 AS REAL)",
        "CAST(?1 AS NUMERIC)",
        "CAST(?1 AS TEXT)",
        "CAST(?1 AS BLOB)",
        "CAST(1 AS INTEGER)",
        "CAST('1' AS NUMERIC)",
        "CAST(9 AS REAL)",
        "CAST('!' AS INTEGER)",
        "1",
        "1.0",
        "-1",
        "1e999",
        "-(-1)",
        "'1'",
        "'!'",
        "'5'",
        "x'31'",
        "NULL",
        "abs(?1)",
        "likely(CAST(?1 AS INTEGER))",
        "(SELECT CAST(1 AS REAL))",
        "(SELECT n FROM s WHERE rowid = 1)",
        "(SELECT n FROM s WHERE rowid = 3)",
        "(SELECT n FROM s WHERE rowid = 4)",
        "(SELECT u FROM s WHERE rowid = 2)",
        "'abc' COLLATE NOCASE",
        "1 COLLATE NOCASE",
    };
    for (size_t e = 0; e < COUNT(encodings); e++) {
        sqlite3 *db = open_filled(encodings[e]);
        for (size_t i = 0; i < COUNT(operators) * COUNT(sides); i++) {
            char query[CLIENT_TEXT_BYTES];
            snprintf(
                query, sizeof query,
                "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE id %s %s ORDER BY "
                "+id)",
                operators[i % COUNT(operators)], sides[i / COUNT(operators)]);
            assert_same(db, query);
            snprintf(
                query, sizeof query,
                "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE %s %s id ORDER BY "
                "+id)",
                sides[i / COUNT(operators)], operators[i % COUNT(operators)]);
            assert_same(db, query);
        }
        client_close(db);
    }
}

/* C44: all operators against columns, which come as they are stored. */
static void comparisons_with_columns_are_an_ordinary_tables(void **state)
{
    (void)state;
    static const char *const operators[] = {"=", "IS", "<", "<=", ">", ">=", "<>"};
    static const char *const columns[] = {"n", "r", "t", "b", "u", "c"};
    static const char *const format =
        "SELECT group_concat(a || quote(id)) FROM (SELECT s.rowid a, id FROM s CROSS JOIN @ ON "
        "id %s %s%s%s%s ORDER BY a, +id)";
    for (size_t e = 0; e < COUNT(encodings); e++) {
        sqlite3 *db = open_filled(encodings[e]);
        for (size_t i = 0; i < COUNT(operators) * COUNT(columns); i++) {
            const char *operator= operators[i % COUNT(operators)];
            const char *column = columns[i / COUNT(operators)];
            char query[CLIENT_TEXT_BYTES];
            snprintf(query, sizeof query, format, operator, column, "", "", "");
            assert_same(db, query);
            snprintf(query, sizeof query, format, operator, column, " AND id < ", column,
                     " || 'z'");
            assert_same(db, query);
            snprintf(query, sizeof query, format, operator, column, " AND (id, v) >= (", column,
                     ", 1)");
            assert_same(db, query);
        }
        client_close(db);
    }
}

/* C44: lists, whatever makes them; a list may hold what is compared as a number. */
static void lists_are_an_ordinary_tables(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "(SELECT n FROM s)",
        "(SELECT r FROM s)",
        "(SELECT t FROM s)",
        "(SELECT b FROM s)",
        "(SELECT u FROM s)",
        "(SELECT c FROM s)",
        "(SELECT id FROM o)",
        "(SELECT id FROM m)",
        "(SELECT CAST(?1 AS INTEGER))",
        "(SELECT ?1 UNION ALL SELECT 'x')",
        "(SELECT n FROM s WHERE rowid > ?1)",
        "(1, 2, 'x')",
        "(?1)",
        "(?1, 2.5, 'zz', 'zz', NULL)",
        "(CAST(1 AS INTEGER), CAST(?1 AS REAL))",
        "(x'31', 'a', 1)",
        "()",
        "('no', 'such', 'id')",
        "(SELECT n FROM s WHERE 0)",
        "(1e999, 'a' || char(0), char(233), char(65535), 'x')",
    };
    for (size_t e = 0; e < COUNT(encodings); e++) {
        sqlite3 *db = open_filled(encodings[e]);
        for (size_t i = 0; i < COUNT(lists); i++) {
            static const char *const shapes[] = {
                "id IN %s",
                "id NOT IN %s",
                "id IN %s AND v = 1",
                "id IN %s AND id >= '1'",
                "id IN %s OR id = 'abc'",
                "id IN %s AND id IN ('x', '1', '01')",
                "id COLLATE NOCASE IN %s",
            };
            static const char *const orders[] = {"+id", "id", "id DESC", "id LIMIT 2",
                                                 "id DESC LIMIT 2 OFFSET 1"};
            for (size_t j = 0; j < COUNT(shapes) * COUNT(orders); j++) {
                char condition[256];
                char query[CLIENT_TEXT_BYTES];
                snprintf(condition, sizeof condition, shapes[j / COUNT(orders)], lists[i]);
                snprintf(query, sizeof query,
                         "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE %s ORDER BY "
                         "%s)",
                         condition, orders[j % COUNT(orders)]);
                assert_same(db, query);
            }
        }
        client_close(db);
    }
}

/* C44: lists inside joins are read anew for each row, and rows of several columns come in parts. */
static void lists_in_joins_are_an_ordinary_tables(void **state)
{
    (void)state;
    static const char *const queries[] = {
        "SELECT group_concat(a || quote(id)) FROM (SELECT s.rowid a, id FROM s CROSS JOIN @ ON id "
        "IN "
        "(n, t, 'x') ORDER BY a, +id)",
        "SELECT group_concat(a || quote(id)) FROM (SELECT s.rowid a, id FROM s CROSS JOIN @ ON id "
        "IN "
        "(SELECT b.n FROM s b WHERE b.n >= s.n) ORDER BY a, +id)",
        "SELECT group_concat(a || quote(id)) FROM (SELECT s.rowid a, id FROM s LEFT JOIN @ ON id "
        "IN "
        "(r, u) ORDER BY a, +id)",
        "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE (id, v) IN (SELECT t, 1 FROM "
        "s) "
        "ORDER BY +id)",
        "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE (id, v) IN (VALUES ('1', 2), "
        "('x', 1), ('a', 2)) ORDER BY +id)",
        "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE (id, v) = (CAST(1 AS REAL), "
        "2) "
        "ORDER BY +id)",
        "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE (id, v) > (CAST(?1 AS "
        "INTEGER), "
        "1) ORDER BY +id)",
        "SELECT group_concat(quote(id)) FROM (SELECT id FROM @ WHERE id BETWEEN CAST(?1 AS "
        "INTEGER) "
        "AND CAST(9 AS REAL) ORDER BY +id)",
        "SELECT count(*) FROM @ x JOIN @ y ON x.id = y.id AND x.id IN (SELECT id FROM @ WHERE v = "
        "1)",
    };
    for (size_t e = 0; e < COUNT(encodings); e++) {
        sqlite3 *db = open_filled(encodings[e]);
        for (size_t i = 0; i < COUNT(queries); i++) assert_same(db, queries[i]);
        client_close(db);
    }
}

/* A text is looked up and not searched for, also where it looks like a number; so is each of a
** list. */
static void texts_are_looked_up(void **state)
{
    (void)state;
    sqlite3 *db = client_open(":memory:");
    char plan[CLIENT_TEXT_BYTES];
    client_run(db,
               "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, v, background = off);"
               "INSERT INTO t SELECT printf('%%07d', value), value FROM (WITH RECURSIVE c(value)"
               " AS (SELECT 1 UNION ALL SELECT value + 1 FROM c LIMIT 200000) SELECT * FROM c);"
               "CREATE TABLE wanted(k TEXT);"
               "INSERT INTO wanted SELECT printf('%%07d', value * 7) FROM (WITH RECURSIVE "
               "c(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c LIMIT 2000) SELECT * FROM "
               "c)");
    uint64_t start = client_now_us();
    assert_int_equal(client_ask(db, "SELECT count(*) FROM wanted JOIN t ON id = k"), 2000);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE id IN (SELECT k FROM wanted)"),
                     2000);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM wanted JOIN t ON id IN (k, 'none')"),
                     2000);
    assert_int_equal(
        client_ask(db, "SELECT sum(v) FROM t WHERE id >= '0100000' AND id < '0100003'"), 300003);
    /* Were one of the joins a search, it would go over 400 million rows. */
    assert_true(client_now_us() - start < 10 * 1000 * 1000);
    sqlite3_stmt *statement =
        client_prepare(db, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE id IN (SELECT k FROM wanted)");
    assert_true(client_step(statement));
    snprintf(plan, sizeof plan, "%s", (const char *)sqlite3_column_text(statement, 3));
    client_finalize(statement);
    assert_non_null(strstr(plan, "id IN ?"));
    client_close(db);
}

int main(void)
{
    client_use_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_with_expressions_are_an_ordinary_tables),
        cmocka_unit_test(comparisons_with_columns_are_an_ordinary_tables),
        cmocka_unit_test(lists_are_an_ordinary_tables),
        cmocka_unit_test(lists_in_joins_are_an_ordinary_tables),
        cmocka_unit_test(texts_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
