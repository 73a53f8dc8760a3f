/* args_test.c: CREATE arguments: what they mean, and the words that refuse the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "args.h"

enum { ARGUMENTS_MAX = 16 };

static int open_database(void **state)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open(":memory:", &db);
    *state = db;
    return rc;
}

static int close_database(void **state) { return sqlite3_close(*state); }

/* Parses a NULL-terminated list. */
static int parse(sqlite3 *db, const char *const *arguments, mx_args **args, char **error)
{
    const char *argv[3 + ARGUMENTS_MAX] = {"memwal", "main", "t"};
    int argc = 3;
    while (arguments[argc - 3]) {
        argv[argc] = arguments[argc - 3];
        argc++;
    }
    return mx_args_parse(db, argc, argv, args, error);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static mx_args *parsed(sqlite3 *db, const char *const *arguments)
{
    mx_args *args = NULL;
    char *error = NULL;
    int rc = parse(db, arguments, &args, &error);
    if (rc != SQLITE_OK) fail_msg("%s", error);
    return args;
}

static void refused(sqlite3 *db, const char *const *arguments, const char *words)
{
    mx_args *args = NULL;
    char *error = NULL;
    assert_int_not_equal(parse(db, arguments, &args, &error), SQLITE_OK);
    assert_null(args);
    assert_string_equal(error, words);
    sqlite3_free(error);
}

static void names_are_unquoted_in_all_of_sqlites_ways(void **state)
{
    mx_args *args = parsed(*state, LIST("id INTEGER PRIMARY KEY", "\"a \"\"b\" TEXT", "[c d]",
                                        "`e``f` REAL", "'g''h' BLOB", "\xc3\xa9t\xc3\xa9 INT"));
    static const char *const names[] = {"id", "a \"b", "c d", "e`f", "g'h", "\xc3\xa9t\xc3\xa9"};
    static const char affinities[] = {'D', 'B', 'A', 'E', 'A', 'D'};
    assert_int_equal(args->column_count, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(args->columns[i].name, names[i]);
        assert_int_equal(args->columns[i].affinity, affinities[i]);
    }
    mx_args_free(args);
}

/* SQLite's own affinity decides: a text bound into an ordinary column of the same type. */
static void affinity_is_sqlites(void **state)
{
    static const char *const types[] = {"",
                                        "INTEGER",
                                        "INT",
                                        "BIGINT",
                                        "VARCHAR(10, 2)",
                                        "TEXT",
                                        "CLOB",
                                        "BLOB",
                                        "REAL",
                                        "DOUBLE",
                                        "FLOAT",
                                        "NUMERIC",
                                        "DECIMAL",
                                        "BOOLEAN",
                                        "DATE",
                                        "FLOATING POINT",
                                        "CHARINT",
                                        "BLOB TEXT",
                                        "REALBLOB",
                                        "BLOBREAL",
                                        "STRING",
                                        "DOUBLE CHARACTER(+7)",
                                        "\"my int\"",
                                        "point"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char *column = sqlite3_mprintf("c %s", types[i]);
        mx_args *args = parsed(*state, LIST(column));
        char *sql = sqlite3_mprintf(
            "CREATE TABLE a(%s); INSERT INTO a VALUES('1.0'),(1),(2.5),(3.0)", column);
        assert_int_equal(sqlite3_exec(*state, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_stmt *found = NULL;
        assert_int_equal(
            sqlite3_prepare_v2(*state, "SELECT group_concat(typeof(c)) FROM a", -1, &found, NULL),
            SQLITE_OK);
        assert_int_equal(sqlite3_step(found), SQLITE_ROW);
        static const char *const types_of[] = {
            "text,integer,real,real",       "text,text,text,text", "integer,integer,real,integer",
            "integer,integer,real,integer", "real,real,real,real",
        };
        assert_string_equal(sqlite3_column_text(found, 0),
                            types_of[args->columns[0].affinity - 'A']);
        sqlite3_finalize(found);
        assert_int_equal(sqlite3_exec(*state, "DROP TABLE a", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_free(sql);
        sqlite3_free(column);
        mx_args_free(args);
    }
}

static void check_default(sqlite3 *db, const char *type, const char *literal)
{
    char *column = sqlite3_mprintf("c %s DEFAULT %s", type, literal);
    mx_args *args = parsed(db, LIST(column, "d"));
    char *sql = sqlite3_mprintf("CREATE TABLE a(%s, d); INSERT INTO a(d) VALUES(1)", column);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_stmt *found = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT typeof(c) = typeof(?1) AND c IS ?1 FROM a", -1,
                                        &found, NULL),
                     SQLITE_OK);
    const sqlite3_value *value = args->columns[0].default_value;
    if (value) assert_int_equal(sqlite3_bind_value(found, 1, value), SQLITE_OK);
    assert_int_equal(sqlite3_step(found), SQLITE_ROW);
    if (!sqlite3_column_int(found, 0)) fail_msg("%s differs from an ordinary table's", column);
    sqlite3_finalize(found);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE a", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_free(sql);
    sqlite3_free(column);
    mx_args_free(args);
}

static void defaults_are_an_ordinary_tables(void **state)
{
    static const char *const types[] = {"", "INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB"};
    static const char *const literals[] = {
        "0",
        "-1",
        "+2.5",
        "3.0",
        "1e400",
        "0x10",
        "'12'",
        "' 1.0 '",
        "'it''s'",
        "''",
        "x'00ff'",
        "NULL",
        "TRUE",
        "false",
        "word",
        "\"quoted w\"",
        "(1+2)",
        "(-3)",
        "('a'||'b')",
        "(1 /* , */ + 1)",
        "9223372036854775807",
        "'1e3'",
        "-9223372036854775808",
        "9223372036854775808",
        "(9.0e18)",
        "1e19",
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (size_t j = 0; j < sizeof literals / sizeof literals[0]; j++) {
            check_default(*state, types[i], literals[j]);
        }
    }
}

static void a_constraint_may_follow_a_default_and_a_comment(void **state)
{
    mx_args *args = parsed(
        *state, LIST("a DEFAULT 5 -- five\n NOT NULL", "b TEXT/**/DEFAULT(1)COLLATE/* c */nocase"));
    assert_string_equal(args->columns[0].default_sql, "5");
    assert_true(args->columns[0].not_null);
    assert_string_equal(args->columns[1].default_sql, "(1)");
    assert_string_equal(args->columns[1].collation, "NOCASE");
    mx_args_free(args);
}

static void keys_are_found_on_the_column_and_as_a_constraint(void **state)
{
    mx_args *args = parsed(*state, LIST("a TEXT", "id TEXT CONSTRAINT pk PRIMARY KEY ASC"));
    assert_int_equal(args->key_count, 1);
    assert_int_equal(args->key[0], 1);
    assert_false(args->rowid_alias);
    assert_true(args->columns[1].not_null);
    char *declared = mx_args_declare(args);
    assert_string_equal(
        declared, "CREATE TABLE x(\"a\" TEXT, \"id\" TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID");
    sqlite3_free(declared);
    mx_args_free(args);
    args =
        parsed(*state, LIST("id INTEGER DEFAULT 7", "b", "CONSTRAINT pk PRIMARY KEY(\"ID\" ASC)"));
    assert_int_equal(args->key_count, 1);
    assert_int_equal(args->key[0], 0);
    assert_true(args->rowid_alias);
    assert_null(args->columns[0].default_value);
    mx_args_free(args);
    args = parsed(*state, LIST("id VARCHAR(9) PRIMARY KEY DEFAULT 7", "n integer"));
    assert_int_equal(args->key_count, 1);
    assert_int_equal(args->key[0], 0);
    assert_false(args->rowid_alias);
    assert_string_equal(sqlite3_value_text(args->columns[0].default_value), "7");
    assert_string_equal(args->declaration, "\"id\" VARCHAR(9) NOT NULL PRIMARY KEY DEFAULT 7, "
                                           "\"n\" integer");
    mx_args_free(args);
    args = parsed(*state, LIST("n integer primary key"));
    assert_true(args->rowid_alias);
    mx_args_free(args);
    args = parsed(*state, LIST("a", "b TEXT HIDDEN"));
    assert_int_equal(args->key_count, 0);
    assert_true(args->columns[1].hidden);
    assert_string_equal(args->declaration, "\"a\", \"b\" TEXT HIDDEN");
    mx_args_free(args);
}

static void a_declaration_parses_to_itself(void **state)
{
    mx_args *args =
        parsed(*state, LIST("id  TEXT\nPRIMARY  KEY", "[a,(b] DECIMAL ( 10 , 2 ) not null",
                            "c DEFAULT 'x,)''y'", "d real default (1 -- ,\n+2)",
                            "e TEXT COLLATE rtrim DEFAULT -5", "f \"odd, (type\""));
    mx_args *again = NULL;
    char *error = NULL;
    assert_int_equal(mx_args_parse_declaration(*state, args->declaration, &again, &error),
                     SQLITE_OK);
    assert_string_equal(again->declaration, args->declaration);
    assert_int_equal(again->column_count, 6);
    assert_string_equal(again->columns[1].name, "a,(b");
    assert_string_equal(again->columns[1].type, "DECIMAL(10,2)");
    assert_int_equal(again->key_count, 1);
    assert_int_equal(again->key[0], 0);
    mx_args_free(again);
    mx_args_free(args);
}

static void options_are_set(void **state)
{
    mx_args *args = parsed(
        *state, LIST("a", "path = 'x y'", "durability=normal", "MEMTABLE = '2 kb'", "cache=\"1GB\"",
                     "merge_generations = 3", "compression=0", "background='OFF'",
                     "snapshot=statement", "group_rows=2", "page_bytes=64", "file_bytes=1KB"));
    assert_string_equal(args->path, "x y");
    assert_false(args->attach);
    assert_int_equal(args->options.durability, MW_DURABILITY_NORMAL);
    assert_int_equal(args->options.memtable_bytes, 2048);
    assert_int_equal(args->options.cache_bytes, 1 << 30);
    assert_int_equal(args->options.merge_generations, 3);
    assert_int_equal(args->options.compression, 0);
    assert_false(args->options.background);
    assert_int_equal(args->options.group_rows, 2);
    assert_int_equal(args->options.page_bytes, 64);
    assert_int_equal(args->options.file_bytes, 1024);
    mx_args_free(args);
    args = parsed(*state, LIST("path='x'"));
    assert_true(args->attach);
    assert_null(args->declaration);
    mx_args_free(args);
}

static void bad_options_are_refused_with_what_is_allowed(void **state)
{
    refused(*state, LIST("a", "colour = 'red'"),
            "memwal: unknown option colour: expected path, durability, memtable, cache, "
            "merge_generations, compression, background or snapshot");
    refused(*state, LIST("a", "durability = 'often'"),
            "memwal: option durability = 'often': expected 'full' or 'normal'");
    refused(*state, LIST("a", "memtable = -5"),
            "memwal: option memtable = '-5': expected a size from '1KB' to '16GB'");
    refused(*state, LIST("a", "memtable = '17GB'"),
            "memwal: option memtable = '17GB': expected a size from '1KB' to '16GB'");
    refused(
        *state, LIST("a", "memtable = '99999999999999999999MB'"),
        "memwal: option memtable = '99999999999999999999MB': expected a size from '1KB' to '16GB'");
    refused(*state, LIST("a", "compression = 20"),
            "memwal: option compression = '20': expected a zstd level from 1 to 19, or 0 for none");
    refused(*state, LIST("a", "background = maybe"),
            "memwal: option background = 'maybe': expected 'on' or 'off'");
    refused(
        *state, LIST("a", "snapshot = 'session'"),
        "memwal: option snapshot = 'session': expected 'transaction' or 'statement'");
    refused(*state, LIST("a", "path = ''"),
            "memwal: option path = '': expected the folder of the store");
    refused(*state, LIST("a", "cache = 1", "cache = 2"), "memwal: option cache is given twice");
    refused(*state, LIST("a", "cache = 1 2"), "memwal: cache: expected one value, found 2");
    refused(*state, LIST("a", "cache ="), "memwal: cache: expected a value, found the end");
    refused(*state, LIST("durability = full"),
            "memwal: table: expected columns, or path='dir' of a store to attach");
}

static void what_cannot_be_honoured_is_refused_by_name(void **state)
{
    refused(*state, LIST("a CHECK (a > 0)"),
            "memwal: a: CHECK cannot be honoured (it would not be evaluated)");
    refused(*state, LIST("a INT UNIQUE"),
            "memwal: a: UNIQUE cannot be honoured (only the primary key is kept unique)");
    refused(*state, LIST("a REFERENCES b(c)"),
            "memwal: a: REFERENCES cannot be honoured (foreign keys are not kept)");
    refused(*state, LIST("a INT GENERATED ALWAYS AS (1)"),
            "memwal: a: GENERATED cannot be honoured (columns are not computed)");
    refused(*state, LIST("a AS (1)"),
            "memwal: a: AS cannot be honoured (columns are not computed)");
    refused(*state, LIST("a INTEGER PRIMARY KEY AUTOINCREMENT"),
            "memwal: a: AUTOINCREMENT cannot be honoured (a freed rowid may be given out again)");
    refused(*state, LIST("a TEXT PRIMARY KEY ON CONFLICT REPLACE"),
            "memwal: a: ON CONFLICT cannot be honoured (write INSERT OR ... instead)");
    refused(*state, LIST("a TEXT PRIMARY KEY DESC"),
            "memwal: a: DESC cannot be honoured (keys are kept ascending and read both ways)");
    refused(*state, LIST("a", "CHECK (a > 0)"),
            "memwal: table: CHECK cannot be honoured (it would not be evaluated)");
    refused(*state, LIST("a", "CONSTRAINT u UNIQUE (a)"),
            "memwal: table: UNIQUE cannot be honoured (only the primary key is kept unique)");
    refused(*state, LIST("a", "FOREIGN KEY (a) REFERENCES b(c)"),
            "memwal: table: FOREIGN cannot be honoured (foreign keys are not kept)");
    refused(
        *state, LIST("a INTEGER", "PRIMARY KEY(a AUTOINCREMENT)"),
        "memwal: table: AUTOINCREMENT cannot be honoured (a freed rowid may be given out again)");
    refused(*state, LIST("a COLLATE mine"),
            "memwal: a: COLLATE mine cannot be honoured: expected BINARY, NOCASE or RTRIM");
    refused(*state, LIST("a TEXT COLLATE NOCASE PRIMARY KEY"),
            "memwal: a: COLLATE NOCASE cannot be honoured on the primary key, which is BINARY");
    refused(*state, LIST("a TEXT COLLATE NOCASE", "PRIMARY KEY(a COLLATE BINARY)"),
            "memwal: a: COLLATE NOCASE cannot be honoured on the primary key, which is BINARY");
    refused(*state, LIST("a TEXT", "PRIMARY KEY(a COLLATE RTRIM)"),
            "memwal: a: COLLATE RTRIM cannot be honoured on the primary key, which is BINARY");
    refused(*state, LIST("a DEFAULT (random())"),
            "memwal: a: DEFAULT is not constant at random: expected literals and operators");
    refused(*state, LIST("a DEFAULT (SELECT 1)"),
            "memwal: a: DEFAULT is not constant at SELECT: expected literals and operators");
    refused(*state, LIST("a DEFAULT (?1)"),
            "memwal: a: DEFAULT is not constant at ?: expected literals and operators");
    refused(*state, LIST("a DEFAULT CURRENT_TIMESTAMP"),
            "memwal: a: DEFAULT CURRENT_TIMESTAMP is not built yet: it differs by row");
}

/* As in an ordinary table, where quotes do not make another type of it. */
static void integer_in_quotes_is_a_rowid(void **state)
{
    static const char *const types[] = {"INTEGER", "\"integer\"", "'INTEGER'", "[INTEGER]",
                                        "`Integer`"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char column[64];
        snprintf(column, sizeof column, "a %s PRIMARY KEY", types[i]);
        mx_args *args = parsed(*state, LIST(column, "b"));
        assert_true(args->rowid_alias);
        mx_args_free(args);
    }
}

/* Only the word INTEGER alone makes the rowid of a key, as in an ordinary table. */
static void keys_of_other_types_are_no_rowids(void **state)
{
    static const char *const types[] = {"",           "BLOB",         "REAL",         "DATE",
                                        "INT",        "BIGINT",       "INTEGER(8)",   "TEXT",
                                        "\"INT\"",    "INTEGER UNSIGNED", "UNSIGNED INTEGER",
                                        "\"INTEGER\" INTEGER"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char column[64];
        snprintf(column, sizeof column, "a %s PRIMARY KEY DEFAULT 1", types[i]);
        mx_args *args = parsed(*state, LIST("b", column));
        assert_int_equal(args->key_count, 1);
        assert_int_equal(args->key[0], 1);
        assert_int_equal(args->columns[1].key_part, 0);
        assert_int_equal(args->columns[0].key_part, -1);
        assert_false(args->rowid_alias);
        assert_true(args->columns[1].not_null);
        assert_non_null(args->columns[1].default_value);
        mx_args_free(args);
    }
}

static void keys_of_several_columns_have_a_hidden_one(void **state)
{
    mx_args *args = parsed(*state, LIST("a", "b TEXT DEFAULT 'x'", "memwal_key INTEGER",
                                        "PRIMARY KEY(memwal_key COLLATE binary ASC, \"B\")"));
    assert_int_equal(args->key_count, 2);
    assert_int_equal(args->key[0], 2);
    assert_int_equal(args->key[1], 1);
    assert_int_equal(args->columns[1].key_part, 1);
    assert_false(args->rowid_alias);
    assert_string_equal(args->declaration,
                        "\"a\", \"b\" TEXT NOT NULL DEFAULT 'x', \"memwal_key\" INTEGER NOT NULL, "
                        "PRIMARY KEY(\"memwal_key\", \"b\")");
    char *declared = mx_args_declare(args);
    assert_string_equal(declared,
                        "CREATE TABLE x(\"a\", \"b\" TEXT NOT NULL, \"memwal_key\" INTEGER NOT "
                        "NULL, \"memwal_key_2\" BLOB HIDDEN NOT NULL PRIMARY KEY) WITHOUT ROWID");
    sqlite3_free(declared);
    mx_args *again = NULL;
    char *error = NULL;
    assert_int_equal(mx_args_parse_declaration(*state, args->declaration, &again, &error),
                     SQLITE_OK);
    assert_string_equal(again->declaration, args->declaration);
    assert_int_equal(again->key_count, 2);
    mx_args_free(again);
    mx_args_free(args);
    refused(*state, LIST("a", "b", "PRIMARY KEY(a, A)"), "memwal: PRIMARY KEY: a is named twice");
    refused(*state, LIST("a", "b", "PRIMARY KEY(a, c)"),
            "memwal: PRIMARY KEY(c): no such column before it");
    refused(*state, LIST("a", "b", "PRIMARY KEY(a, )"),
            "memwal: table: expected a column in PRIMARY KEY, found )");
    refused(*state, LIST("a", "b", "PRIMARY KEY(a, b", "c"),
            "memwal: table: expected ) after PRIMARY KEY(, found the end");
    refused(*state, LIST("a", "b COLLATE NOCASE", "PRIMARY KEY(a, b)"),
            "memwal: b: COLLATE NOCASE cannot be honoured on the primary key, which is BINARY");
    refused(*state, LIST("a", "b HIDDEN", "PRIMARY KEY(a, b)"),
            "memwal: b: the primary key cannot be HIDDEN");
    refused(*state, LIST("a PRIMARY KEY", "b", "PRIMARY KEY(a, b)"),
            "memwal: table: more than one PRIMARY KEY");
    refused(*state, LIST("a", "b", "PRIMARY KEY(a, b DESC)"),
            "memwal: table: DESC cannot be honoured (keys are kept ascending and read both ways)");
}

static void mistakes_say_what_was_expected_and_found(void **state)
{
    refused(*state, LIST("a INT", "A TEXT"), "memwal: duplicate column name: A");
    refused(*state, LIST("a TEXT PRIMARY KEY", "b TEXT PRIMARY KEY"),
            "memwal: table: more than one PRIMARY KEY");
    refused(*state, LIST("a", "PRIMARY KEY(b)"),
            "memwal: PRIMARY KEY(b): no such column before it");
    refused(*state, LIST("a", "PRIMARY KEY"),
            "memwal: table: expected ( after PRIMARY KEY, found the end");
    refused(*state, LIST("a TEXT NOT"), "memwal: a: expected NULL after NOT, found the end");
    refused(*state, LIST("a INT(x)"), "memwal: a: expected a number in its type, found x");
    refused(*state, LIST("a INT(1"), "memwal: a: expected \")\" in its type, found the end");
    refused(*state, LIST("a INT(1) UNSIGNED"),
            "memwal: a: expected a column constraint, found UNSIGNED");
    refused(*state, LIST("a DEFAULT"),
            "memwal: a: expected a literal after DEFAULT, found the end");
    refused(*state, LIST("a DEFAULT NOT NULL"),
            "memwal: a: expected a literal after DEFAULT, found NOT");
    refused(*state, LIST("a DEFAULT (1"), "memwal: a: expected \")\" after DEFAULT, found the end");
    refused(*state, LIST("a DEFAULT 12abc"),
            "memwal: a: DEFAULT 12abc cannot be evaluated: unrecognized token: \"12abc\"");
    refused(*state, LIST("a \"open"), "memwal: a: expected a column constraint, found \"open");
    refused(*state, LIST("5 TEXT"), "memwal: table: expected a column or an option, found 5");
    refused(*state, LIST("a HIDDEN", "b TEXT HIDDEN"),
            "memwal: table: expected a column that is not HIDDEN");
}

/* Every allocation that parsing makes may fail: an error, never a leak or a crash. */
static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char *const column = "c DECIMAL(10,2) NOT NULL DEFAULT (1 + 2) COLLATE NOCASE";
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    sqlite3_int64 used = sqlite3_memory_used();
    bool refused_once = false;
    bool done = false;
    for (sqlite3_int64 room = 0; room < 64 * 1024 && !done; room += 64) {
        mx_args *args = NULL;
        char *error = NULL;
        sqlite3_hard_heap_limit64(used + 1 + room);
        int rc = parse(db, LIST("id TEXT PRIMARY KEY", column, "path='x'"), &args, &error);
        sqlite3_hard_heap_limit64(0);
        done = rc == SQLITE_OK;
        refused_once |= rc == SQLITE_NOMEM;
        mx_args_free(args);
        sqlite3_free(error);
        sqlite3_db_release_memory(db);
    }
    assert_true(refused_once);
    assert_true(done);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unquoted_in_all_of_sqlites_ways),
        cmocka_unit_test(affinity_is_sqlites),
        cmocka_unit_test(defaults_are_an_ordinary_tables),
        cmocka_unit_test(a_constraint_may_follow_a_default_and_a_comment),
        cmocka_unit_test(keys_are_found_on_the_column_and_as_a_constraint),
        cmocka_unit_test(a_declaration_parses_to_itself),
        cmocka_unit_test(options_are_set),
        cmocka_unit_test(bad_options_are_refused_with_what_is_allowed),
        cmocka_unit_test(what_cannot_be_honoured_is_refused_by_name),
        cmocka_unit_test(integer_in_quotes_is_a_rowid),
        cmocka_unit_test(keys_of_other_types_are_no_rowids),
        cmocka_unit_test(keys_of_several_columns_have_a_hidden_one),
        cmocka_unit_test(mistakes_say_what_was_expected_and_found),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, open_database, close_database);
}
