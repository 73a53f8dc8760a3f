/* differential.c: the same random statements on a memwal table and on an ordinary one.
**
** Two connections, two database files, in each a table t of the same columns: memwal in one,
** ordinary in the other. Every statement runs on both; code, message, changes(),
** last_insert_rowid() and all rows must be the same. In between the memwal side flushes, merges,
** compacts, changes its options, checks and reopens, with limits so tiny that a few rows make a
** generation. In half of the worlds a second connection on each side reads what is committed, and
** keeps a SELECT half read while all of that goes on.
**
**   differential                      the standard run: every comparison of keys of every type
**                                     with every argument, then random statements
**                                     of seed after seed until the time is over
**   differential SEED [STATEMENTS]    one seed again; VERBOSE=1 shows every statement
**
** MEMWAL names the extension (default build/memwal.so), DIFFERENTIAL_SECONDS the time of the
** random statements, DIFFERENTIAL_FROM the first seed. Of an extension with tiny limits
** (memwal_debug) its own are used. What is left out, because memwal says
** openly that it differs: NULL for a column with DEFAULT, blobs as text ids, UPDATE OR REPLACE of
** many ids; and the highest of all ids, after which SQLite takes random ones; and what an ordinary
** table answers in one way when it scans and in another when it seeks: the real -2^63 against that
** integer, and integers that no real is equal to against a REAL id. And an UPDATE whose WHERE has a
** sub-query over what it sets: an ordinary table (3.40) may find rows by what it has just set. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STANDARD_SECONDS = 20,
    STANDARD_STATEMENTS = 400,
    ROWS_MANY = 120, /* statements that look at pairs of rows shall end */
    NAME_BYTES = 256,
    SQL_BYTES = 4096,
};

/* VALUE_KEY: one column of any type but those; LIST_KEY: several. */
typedef enum kind { ROWID_KEY, TEXT_KEY, NO_KEY, VALUE_KEY, LIST_KEY, KINDS } kind;

enum { PARTS_MAX = 3 };
static const char *const part_names[PARTS_MAX] = {"id", "id2", "id3"};

typedef struct text {
    char *data;
    size_t size;
    size_t capacity;
} text;

/* What one statement answered. */
typedef struct answer {
    int code;
    text words;
    text *rows;
    size_t row_count;
    int changes;
    sqlite3_int64 last_rowid;
} answer;

typedef struct world {
    uint64_t seed;
    uint64_t random;
    kind kind;
    int parts;                    /* columns of the key, 0: no key */
    const char *types[PARTS_MAX]; /* of these columns              */
    bool real_key;                /* one of them is REAL           */
    char folder[NAME_BYTES];
    char options[NAME_BYTES];
    bool temp;         /* the memwal table is one of temp, whose transactions are light */
    bool wide;         /* texts are UTF-16                                              */
    bool tiny;         /* the extension has limits of a few rows                        */
    bool watched;      /* there are readers                                             */
    sqlite3 *sides[2]; /* memwal, ordinary */
    sqlite3 *readers[2];
    sqlite3_stmt *held[2]; /* the readers' SELECT that is half read */
    bool open;             /* inside BEGIN     */
    size_t answered;       /* rows of the last statement        */
    size_t row_count;      /* of the table, when last looked at */
    int statement;
    char sql[SQL_BYTES];
    size_t sql_size;
} world;

/* ---- random numbers ------------------------------------------------------------------------- */

static uint64_t next_random(world *w)
{
    w->random += 0x9e3779b97f4a7c15u;
    uint64_t z = w->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int pick(world *w, int n) { return (int)(next_random(w) % (uint64_t)n); }
static bool one_in(world *w, int n) { return pick(w, n) == 0; }

#define ONE_OF(w, list) ((list)[pick((w), (int)(sizeof(list) / sizeof *(list)))])

static bool has_rowid(const world *w) { return w->kind == ROWID_KEY || w->kind == NO_KEY; }

/* ---- failing -------------------------------------------------------------------------------- */

static _Noreturn void give_up(const world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("seed %" PRIu64 ", statement %d: ", w->seed, w->statement);
    vprintf(format, args);
    va_end(args);
    printf("\n  %s\n  again: ", w->sql);
    if (getenv("LD_PRELOAD")) printf("ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD='%s' ", getenv("LD_PRELOAD"));
    if (getenv("MEMWAL")) printf("MEMWAL=%s ", getenv("MEMWAL"));
    printf("build/plain/tests/sql/differential");
    if (w->seed) printf(" %" PRIu64 " %d", w->seed, w->statement + 1);
    printf("\n");
    exit(1);
}

static void *grow(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes);
    if (memory) return memory;
    fputs("out of memory\n", stderr);
    exit(2);
}

/* ---- running one statement ------------------------------------------------------------------ */

static void append(text *to, const void *data, size_t size)
{
    if (to->size + size + 1 > to->capacity) {
        to->capacity = 2 * (to->size + size + 1);
        to->data = grow(to->data, to->capacity);
    }
    if (size > 0) memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = 0;
}

static void append_value(text *to, sqlite3_stmt *statement, int column)
{
    static const char names[] = "?ifsbn"; /* by SQLite's numbers of types */
    int type = sqlite3_column_type(statement, column);
    char number[64];
    append(to, &names[type], 1);
    if (type == SQLITE_INTEGER) {
        snprintf(number, sizeof number, "%lld", (long long)sqlite3_column_int64(statement, column));
        append(to, number, strlen(number));
    } else if (type == SQLITE_FLOAT) {
        snprintf(number, sizeof number, "%a", sqlite3_column_double(statement, column));
        append(to, number, strlen(number));
    } else if (type != SQLITE_NULL) {
        const void *data = type == SQLITE_TEXT
                               ? (const void *)sqlite3_column_text(statement, column)
                               : sqlite3_column_blob(statement, column);
        append(to, data, (size_t)sqlite3_column_bytes(statement, column));
    }
    append(to, "|", 1);
}

static void read_row(sqlite3_stmt *statement, answer *to)
{
    to->code = sqlite3_step(statement);
    if (to->code != SQLITE_ROW) return;
    to->rows = grow(to->rows, sizeof *to->rows * (to->row_count + 1));
    text *row = &to->rows[to->row_count++];
    *row = (text){0};
    for (int i = 0; i < sqlite3_column_count(statement); i++) append_value(row, statement, i);
}

static answer run(sqlite3 *db, const char *sql)
{
    answer result = {0};
    sqlite3_stmt *statement = NULL;
    result.code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (result.code == SQLITE_OK) {
        do {
            read_row(statement, &result);
        } while (result.code == SQLITE_ROW);
    }
    sqlite3_finalize(statement);
    if (result.code != SQLITE_DONE) {
        result.code = sqlite3_extended_errcode(db);
        append(&result.words, sqlite3_errmsg(db), strlen(sqlite3_errmsg(db)));
    } else {
        append(&result.words, "ok", 2);
    }
    result.changes = sqlite3_changes(db);
    result.last_rowid = sqlite3_last_insert_rowid(db);
    return result;
}

static void free_answer(answer *a)
{
    for (size_t i = 0; i < a->row_count; i++) free(a->rows[i].data);
    free(a->rows);
    free(a->words.data);
}

static int compare_text(const void *left, const void *right)
{
    const text *a = left;
    const text *b = right;
    size_t size = a->size < b->size ? a->size : b->size;
    int order = size > 0 ? memcmp(a->data, b->data, size) : 0;
    if (order != 0) return order;
    return (a->size > b->size) - (a->size < b->size);
}

static void compare(const world *w, answer *a, answer *b, bool ordered)
{
    if (a->code != b->code || strcmp(a->words.data, b->words.data) != 0) {
        give_up(w, "memwal says %d %s, the ordinary table %d %s", a->code, a->words.data, b->code,
                b->words.data);
    }
    if (a->row_count != b->row_count) {
        give_up(w, "memwal gives %zu rows, the ordinary table %zu", a->row_count, b->row_count);
    }
    if (!ordered && a->row_count > 0) {
        qsort(a->rows, a->row_count, sizeof *a->rows, compare_text);
        qsort(b->rows, b->row_count, sizeof *b->rows, compare_text);
    }
    for (size_t i = 0; i < a->row_count; i++) {
        if (compare_text(&a->rows[i], &b->rows[i]) == 0) continue;
        give_up(w, "row %zu: memwal %s, the ordinary table %s", i, a->rows[i].data,
                b->rows[i].data);
    }
    if (a->code == SQLITE_DONE && strchr("IUD", w->sql[0]) && a->changes != b->changes) {
        give_up(w, "changes(): memwal %d, the ordinary table %d", a->changes, b->changes);
    }
    if (has_rowid(w) && a->code == SQLITE_DONE && a->last_rowid != b->last_rowid) {
        give_up(w, "last_insert_rowid(): memwal %lld, the ordinary table %lld",
                (long long)a->last_rowid, (long long)b->last_rowid);
    }
}

static void run_both(world *w, bool ordered)
{
    if (getenv("VERBOSE")) printf("%d: %s\n", w->statement, w->sql);
    if (getenv("VERBOSE")) fflush(stdout);
    answer a = run(w->sides[0], w->sql);
    answer b = run(w->sides[1], w->sql);
    compare(w, &a, &b, ordered);
    w->answered = a.row_count;
    if (sqlite3_get_autocommit(w->sides[0]) != sqlite3_get_autocommit(w->sides[1])) {
        give_up(w, "one side is in a transaction, the other is not");
    }
    w->open = !sqlite3_get_autocommit(w->sides[0]);
    free_answer(&a);
    free_answer(&b);
}

/* ---- making statements ---------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(w->sql + w->sql_size, sizeof w->sql - w->sql_size, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof w->sql - w->sql_size) give_up(w, "statement too long");
    w->sql_size += (size_t)size;
}

static void begin_sql(world *w)
{
    w->sql_size = 0;
    w->sql[0] = 0;
}

/* Whole numbers that no real is equal to. */
static bool is_inexact(const char *value)
{
    static const char *const numbers[] = {"9223372036854775807", "9007199254740993",
                                          "'9007199254740993'", "'9223372036854775808'",
                                          "123456789012345678"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(value, numbers[i]) == 0) return true;
    }
    return false;
}

static void say_value(world *w)
{
    static const char *const odd[] = {
        "NULL", "''", "x''", "'a'", "'A'", "'1'", "'01'", "'1.0'", "' 7 '", "'0x10'", "'1e3'",
        "1.0", "-0.0", "0.5", "1e300", "'1e999'", "9223372036854775807", "-9223372036854775808",
        "9223372036854775807.0", "9007199254740993", "'9007199254740993'", "'9223372036854775808'",
        "x'00'", "x'3132'", "'a'||char(0)||'b'", "char(0)", "1e-5", "123456789012345678",
        "'12abc'", "'-'", "char(233)", "char(128512)", "'  '", "2147483648", "-1.5", "0",
        "zeroblob(70)", "hex(zeroblob(40))", "4.0e18", "1.1",
    };
    if (one_in(w, 2)) {
        const char *value = ONE_OF(w, odd);
        say(w, "%s", w->real_key && is_inexact(value) ? "0.25" : value);
    } else if (one_in(w, 2)) {
        say(w, "%d", pick(w, 200) - 100);
    } else {
        say(w, "'v%d'", pick(w, 50));
    }
}

static void say_solid_value(world *w)
{
    size_t before = w->sql_size;
    do {
        w->sql_size = before;
        say_value(w);
    } while (strcmp(w->sql + before, "NULL") == 0);
}

/* An id that fits. A datatype mismatch in the middle of INSERT OR IGNORE leaves the rows before it
** in an ordinary table, for which SQLite then opens no statement journal; memwal undoes the
** statement. */
/* A value for a column of a key that takes all types; few of them, so that they meet. */
static void say_any_id(world *w)
{
    static const char *const odd[] = {
        "''", "x''", "'a'", "'A'", "'1'", "'01'", "'1.0'", "' 2 '", "'1e0'", "'0x1'", "-0.0",
        "0.0", "1e300", "'1e999'", "9223372036854775807", "-9223372036854775808",
        "9223372036854775807.0", "9007199254740992", "9007199254740993", "9007199254740994.0",
        "'9007199254740993'", "x'00'", "x'31'", "x'0000'", "'a'||char(0)", "'a'||char(0)||'b'",
        "char(0)", "char(233)", "char(128512)", "'a'||char(1)", "x'6100'", "-1.5", "NULL", "'-'",
        "' '", "':'", "zeroblob(3)", "1e-320", "-1e999",
    };
    switch (pick(w, 5)) {
    case 0: {
        const char *value = ONE_OF(w, odd);
        say(w, "%s", w->real_key && is_inexact(value) ? "0.25" : value);
        break;
    }
    case 1: say(w, "'k%d'", pick(w, 6)); break;
    case 2: say(w, "%d.%d", pick(w, 5), one_in(w, 2) ? 0 : 5); break;
    default: say(w, "%d", pick(w, w->kind == LIST_KEY ? 6 : 40)); break;
    }
}

static void say_plain_id(world *w)
{
    if (has_rowid(w)) {
        say(w, "%d", pick(w, 60));
    } else if (w->kind == TEXT_KEY) {
        say(w, "'k%d'", pick(w, 60));
    } else {
        say_any_id(w);
    }
}

static void say_id(world *w)
{
    static const char *const odd_integers[] = {
        "'7'", "8.0", "'9.0'", "NULL", "'abc'", "1.5", "-3", "x'31'", "9223372036854770000",
        "-9223372036854775808", "1e3",
    };
    static const char *const odd_texts[] = {
        "''", "'a'||char(0)||'b'", "'a'||char(0)||'c'", "'a'", "'A'", "NULL", "7", "8.0", "'08'",
        "char(233)", "char(65535)", "char(128512)", "hex(zeroblob(60))", "' '", "'K3'",
    };
    if (has_rowid(w) && one_in(w, 12)) {
        say(w, "%s", ONE_OF(w, odd_integers));
    } else if (w->kind == TEXT_KEY && one_in(w, 8)) {
        say(w, "%s", ONE_OF(w, odd_texts));
    } else {
        say_plain_id(w);
    }
}

/* Values for all columns of the key. */
static void say_ids(world *w, bool single)
{
    for (int i = 0; i < w->parts; i++) {
        if (single) {
            say_id(w);
        } else {
            say_plain_id(w);
        }
        say(w, ", ");
    }
}

/* The columns of the key, each with what stands behind it. */
static void say_names(world *w, const char *behind, const char *between)
{
    if (w->kind == NO_KEY) say(w, "rowid%s", behind);
    for (int i = 0; i < w->parts; i++) {
        say(w, "%s%s%s", i > 0 ? between : "", part_names[i], behind);
    }
}

/* One row by its key. */
static void say_key_condition(world *w)
{
    if (w->kind == NO_KEY) {
        say(w, "rowid = ");
        say_id(w);
    }
    for (int i = 0; i < w->parts; i++) {
        say(w, "%s%s = ", i > 0 ? " AND " : "", part_names[i]);
        say_id(w);
    }
}

static const char *id_name(world *w)
{
    if (w->kind == NO_KEY) return "rowid";
    if (w->kind == ROWID_KEY) return one_in(w, 3) ? "rowid" : "id";
    return part_names[pick(w, w->parts)];
}

/* Anything may stand on the other side of a comparison with the id. */
static void say_argument(world *w)
{
    static const char *const columns[] = {
        "a", "b", "c", "d", "n", "CAST(5 AS TEXT)", "CAST(a AS TEXT)", "CAST(5 AS INTEGER)",
        "CAST(b AS REAL)", "CAST('7' AS NUMERIC)", "CAST(n AS BLOB)"};
    if (one_in(w, 3)) {
        say_value(w);
    } else if (one_in(w, 6)) {
        say(w, "%s", ONE_OF(w, columns));
    } else {
        say_id(w);
    }
}

/* What only a key of several columns is asked. */
static void say_list_condition(world *w)
{
    static const char *const operators[] = {"=", "<", "<=", ">", ">=", "IS"};
    int equals = pick(w, w->parts);
    switch (pick(w, 4)) {
    case 0:
        say(w, "(id, id2) %s (", ONE_OF(w, operators));
        say_id(w);
        say(w, ", ");
        say_id(w);
        say(w, ")");
        break;
    case 1: say(w, "(id, id2) IN (SELECT id, id2 FROM t WHERE m > 10)"); break;
    default:
        for (int i = 0; i < equals; i++) {
            say(w, "%s %s ", part_names[i], one_in(w, 5) ? "IN (5, 'k1'," : "= (");
            say_argument(w);
            say(w, ") AND ");
        }
        say(w, "%s %s ", part_names[equals], ONE_OF(w, operators));
        say_argument(w);
        break;
    }
}

static void say_condition(world *w)
{
    static const char *const operators[] = {"=", "=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT"};
    static const char *const columns[] = {"a", "b", "c", "d", "n"};
    static const char *const patterns[] = {"'k1%'", "'K2%'", "'%3'", "'v%'", "'1%'", "'a%'"};
    static const char *const types[] = {"INTEGER", "NUMERIC", "TEXT", "BLOB", "REAL"};
    int casts = has_rowid(w) ? 4 : 5; /* not the real -2^63 */
    const char *id = id_name(w);
    if (w->kind == LIST_KEY && one_in(w, 3)) {
        say_list_condition(w);
        return;
    }
    switch (pick(w, 12)) {
    case 0:
    case 1:
    case 2: say(w, "%s %s ", id, ONE_OF(w, operators)); say_argument(w); break;
    case 3:
        say(w, "%s BETWEEN ", id);
        say_argument(w);
        say(w, " AND ");
        say_argument(w);
        break;
    case 4:
        say(w, "%s IN (", id);
        say_argument(w);
        for (int i = pick(w, 4); i > 0; i--) {
            say(w, ", ");
            say_argument(w);
        }
        say(w, ")");
        break;
    case 5:
        say(w, "%s IS %sNULL", one_in(w, 2) ? id : ONE_OF(w, columns), one_in(w, 2) ? "NOT " : "");
        break;
    case 6: say(w, "%s LIKE %s", id, ONE_OF(w, patterns)); break;
    case 7: say(w, "%s GLOB 'k%d*'", id, pick(w, 6)); break;
    case 8:
        say(w, "(%s, a) %s (", id, one_in(w, 2) ? ">" : "<=");
        say_id(w);
        say(w, ", 5)");
        break;
    case 9: say(w, "%s %s ", ONE_OF(w, columns), ONE_OF(w, operators)); say_value(w); break;
    case 10: say(w, "%s IN (SELECT %s FROM t WHERE m > 10)", id, id); break;
    default:
        say(w, "%s IN (SELECT CAST(column1 AS %s) FROM (VALUES (", id, types[pick(w, casts)]);
        say_value(w);
        say(w, "), (");
        say_id(w);
        say(w, ")))");
        break;
    }
}

static void say_where(world *w)
{
    say(w, " WHERE ");
    say_condition(w);
    if (one_in(w, 4)) {
        /* An ordinary table may delete rows before it looks for the first time at what the second
        ** condition selects from it. */
        bool both = one_in(w, 2) || w->sql[0] == 'D';
        say(w, both ? " AND " : " OR ");
        say_condition(w);
    }
}

static void say_conflict(world *w)
{
    static const char *const clauses[] = {
        "", "", "", " OR ABORT", " OR FAIL", " OR IGNORE", " OR IGNORE", " OR ROLLBACK",
        " OR REPLACE", " OR REPLACE",
    };
    say(w, "%s", ONE_OF(w, clauses));
}

static void say_row(world *w, bool single)
{
    say(w, "(");
    say_ids(w, single);
    say_value(w);
    say(w, ", ");
    say_solid_value(w);
    for (int i = 0; i < 3; i++) {
        say(w, ", ");
        say_value(w);
    }
    say(w, ", ");
    if (one_in(w, 20)) {
        say(w, "NULL)");
    } else {
        say_solid_value(w);
        say(w, ")");
    }
}

static void make_insert(world *w)
{
    say(w, "INSERT");
    say_conflict(w);
    if (has_rowid(w) && one_in(w, 6)) {
        say(w, " INTO t(rowid, b, m) VALUES(");
        say_id(w);
        say(w, ", 'r', 1)");
        return;
    }
    if (has_rowid(w) && one_in(w, 4)) {
        say(w, " INTO t(a, m) VALUES(1, ");
        say_value(w);
        say(w, "), (2, 'two')");
        return;
    }
    int more = one_in(w, 3) ? pick(w, 6) : 0;
    say(w, " INTO t(");
    for (int i = 0; i < w->parts; i++) say(w, "%s, ", part_names[i]);
    say(w, "a, b, c, d, n, m) VALUES");
    say_row(w, more == 0);
    for (; more > 0; more--) {
        say(w, ", ");
        say_row(w, false);
    }
}

static void make_insert_select(world *w)
{
    const char *id = w->kind == NO_KEY ? "rowid" : "id";
    bool textual = w->kind == TEXT_KEY || (!has_rowid(w) && one_in(w, 2));
    say(w, "INSERT");
    say_conflict(w);
    say(w, " INTO t(");
    say_names(w, ", ", "");
    say(w, "a, b, c, d, n, m) SELECT ");
    say(w, textual ? "'s'||%s, " : "%s + %d, ", id, pick(w, 100));
    for (int i = 1; i < w->parts; i++) say(w, "%s, ", part_names[i]);
    say(w, "d, b, n, a, c, m FROM t");
    say_where(w);
    say(w, " ORDER BY ");
    say_names(w, "", ", ");
}

static void make_update(world *w)
{
    static const char *const columns[] = {"a", "c", "d", "n"};
    static const char *const changes[] = {"a + 1",     "b",       "d", "upper(b)",
                                          "length(d)", "n || ''", "c"};
    say(w, "UPDATE");
    if (!one_in(w, 3)) {
        say_conflict(w);
        say(w, " t SET %s = ", ONE_OF(w, columns));
        if (one_in(w, 2)) {
            say_value(w);
        } else {
            say(w, "%s", ONE_OF(w, changes));
        }
        if (one_in(w, 3)) {
            say(w, ", b = ");
            say_solid_value(w);
        }
        say_where(w);
    } else if (one_in(w, 2) || w->wide) { /* one id onto another */
        say_conflict(w);
        say(w, " t SET %s = ", id_name(w));
        say_id(w);
        say(w, " WHERE ");
        say_key_condition(w);
    } else { /* many ids; which of them comes first counts, and in UTF-16 texts have another order */
        static const char *const clauses[] = {"", " OR ABORT", " OR IGNORE", " OR FAIL"};
        const char *id = id_name(w);
        say(w, "%s t SET %s = ", ONE_OF(w, clauses), id);
        if (w->kind == TEXT_KEY || (!has_rowid(w) && one_in(w, 2))) {
            say(w, one_in(w, 2) ? "'m'||%s" : "substr(%s, 2)", id);
        } else {
            say(w, "%s + %d", id, one_in(w, 2) ? 1 : pick(w, 90) - 30);
        }
        /* Nothing that an ordinary table would visit in another order than that of the ids. */
        if (one_in(w, 2)) say(w, " WHERE a > %d", pick(w, 50));
    }
}

static void make_delete(world *w)
{
    say(w, "DELETE FROM t");
    if (!one_in(w, 25)) say_where(w);
}

/* Returns whether the order of its rows is certain. */
static bool make_select(world *w)
{
    static const char *const columns[] = {
        "*", "a", "b, d", "count(*)", "count(*), sum(a)", "count(DISTINCT d)", "1",
        "typeof(a), typeof(c), typeof(d), typeof(n)", "max(hex(b))",
        "length(b), quote(d)",
    };
    static const char *const frames[] = {
        "SELECT x.d, y.b FROM t x JOIN t y ON x.%s = y.%s WHERE x.a > 5",
        "SELECT (SELECT count(*) FROM t y WHERE y.%s < x.%s) FROM t x",
        "SELECT x.b, y.a FROM t x LEFT JOIN t y ON y.%s = x.%s + 1",
        "SELECT x.b FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.%s > x.%s)",
        "SELECT count(*) FROM t x, t y WHERE y.%s = x.a AND x.%s > 1",
        "SELECT DISTINCT x.%s IS NULL, y.%s = 3 FROM t x, t y",
        "SELECT typeof(%s), count(%s) FROM t GROUP BY 1",
        "SELECT o.n, x.b FROM o JOIN t x ON x.%s = o.v AND x.%s IS NOT NULL",
        "SELECT o.n, x.b FROM o LEFT JOIN t x ON x.%s = o.v WHERE o.n > 2 OR x.%s IS NULL",
        "SELECT x.a, o.v FROM t x LEFT JOIN o ON o.v = x.%s AND o.n > 3 WHERE x.%s IS NOT NULL",
        "SELECT a FROM t WHERE %s IN (SELECT v FROM o) UNION SELECT n FROM o WHERE v NOT IN "
        "(SELECT %s FROM t)",
        "SELECT b FROM t x WHERE (SELECT count(*) FROM o WHERE o.v >= x.%s) > 2 AND x.%s > 3",
    };
    const char *id = id_name(w);
    if (one_in(w, 6)) {
        const char *frame = ONE_OF(w, frames);
        w->sql_size += (size_t)sprintf(w->sql + w->sql_size, frame, id, id); /* each has two */
        return false;
    }
    if (one_in(w, 6)) {
        static const char *const ends[] = {"min", "max", "count", "total"};
        /* Which of 4 and 4.0 is given, and how sums are rounded, depends on the order of the rows,
        ** which in UTF-16 is another one. */
        say(w, "SELECT %s(%s) FROM t", w->wide ? "count" : ONE_OF(w, ends), id);
        if (one_in(w, 2)) say_where(w);
        return true;
    }
    bool ordered = one_in(w, 2);
    say(w, "SELECT ");
    if (ordered) say_names(w, ", ", "");
    const char *what = ordered ? "a, b" : ONE_OF(w, columns);
    say(w, "%s FROM t", w->wide && strstr(what, "sum") ? "count(*)" : what);
    if (!one_in(w, 5)) say_where(w);
    if (!ordered) return false;
    say(w, " ORDER BY ");
    if (w->kind == LIST_KEY && one_in(w, 3)) {
        for (int i = 0; i < w->parts; i++) {
            say(w, "%s%s %s", i > 0 ? ", " : "", part_names[i], one_in(w, 2) ? "DESC" : "");
        }
    } else if (w->kind == ROWID_KEY && one_in(w, 3)) {
        say(w, "rowid");
    } else {
        say_names(w, one_in(w, 2) ? " DESC" : "", ", ");
    }
    if (one_in(w, 5)) say(w, ", a");
    if (!one_in(w, 3)) return true;
    say(w, " LIMIT %d", pick(w, 10));
    if (one_in(w, 2)) say(w, " OFFSET %d", pick(w, 4));
    return true;
}

/* ---- large statements, and such that fail half-way -------------------------------------------- */

/* An expression for each column of the key, by the number i of the row. */
static void say_key_series(world *w)
{
    static const char *const single[] = {"i", "i / 2.0", "'k'||i", "CAST('k'||i AS BLOB)"};
    static const char *const several[] = {"i %% 7", "'k'||(i %% 3)", "i"};
    if (w->kind == ROWID_KEY || w->kind == NO_KEY) say(w, "i, ");
    if (w->kind == TEXT_KEY) say(w, "'k'||i, ");
    if (w->kind == VALUE_KEY) say(w, "%s, ", ONE_OF(w, single));
    for (int i = 0; w->kind == LIST_KEY && i < w->parts; i++) {
        say(w, several[(i + 1) % PARTS_MAX]);
        say(w, ", ");
    }
}

/* What the last column gets: in one row, perhaps, what makes the statement fail. Where an error
** that is none of a constraint meets another clause than ABORT, an ordinary table may keep the rows
** before it: SQLite opens no statement journal for it then. */
static void say_last_series(world *w, int low, int count, bool may_abort)
{
    const char *end = "i";
    if (one_in(w, 4)) end = "NULL";
    if (may_abort && one_in(w, 3)) end = "abs(-9223372036854775807 - 1)";
    say(w, "CASE i WHEN %d THEN %s ELSE i END", low + pick(w, 2 * count), end);
}

static void make_large_insert(world *w)
{
    int low = pick(w, 80) - 10;
    int count = one_in(w, 4) ? 100 + pick(w, 60) : 5 + pick(w, 40);
    say(w, "INSERT");
    size_t before = w->sql_size;
    say_conflict(w);
    bool aborts = w->sql_size == before || strstr(w->sql, "ABORT");
    say(w, " INTO t(");
    say_names(w, ", ", "");
    say(w, "a, b, c, d, n, m) SELECT ");
    say_key_series(w);
    say(w, "i, 'r'||i, i / 3.0, ");
    say_value(w);
    say(w, ", i %% 5, ");
    say_last_series(w, low, count, aborts);
    say(w, " FROM (WITH RECURSIVE s(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM s WHERE i < %d) "
           "SELECT i FROM s)", low, low + count);
}

/* Every row, or none when one of them is refused. Which comes first counts for OR FAIL. */
static void make_large_update(world *w)
{
    static const char *const clauses[] = {"", "", " OR ABORT", " OR IGNORE", " OR ROLLBACK",
                                          " OR FAIL"};
    if (one_in(w, 3)) {
        say(w, "UPDATE t SET m = CASE WHEN a > %d THEN abs(-9223372036854775807 - 1) ELSE 1 END",
            pick(w, 100));
        return;
    }
    const char *clause = w->wide ? "" : ONE_OF(w, clauses);
    say(w, "UPDATE%s t SET d = ", clause);
    say_value(w);
    if (one_in(w, 2)) {
        say(w, ", m = CASE WHEN a > %d THEN NULL ELSE length(b) END", pick(w, 150));
    } else {
        say(w, ", b = b || 'x', m = a IS NULL");
    }
}

/* Sub-queries over the table that changes; none of them looks at what is being changed. */
static void make_update_by_query(world *w)
{
    const char *id = id_name(w);
    switch (pick(w, 3)) {
    case 0:
        say(w, "UPDATE t SET a = (SELECT count(*) FROM t x WHERE x.%s < t.%s)", id, id);
        say_where(w);
        break;
    case 1:
        say(w, "UPDATE t SET d = (SELECT count(*) FROM o WHERE o.v = t.%s), c = 0.5", id);
        say(w, " WHERE EXISTS (SELECT 1 FROM o WHERE o.v <= t.%s)", id);
        break;
    default:
        say(w, "UPDATE t SET n = 7 WHERE %s IN (SELECT v FROM o) OR a = (SELECT max(a) FROM t)", id);
        break;
    }
}

static void make_delete_by_query(world *w)
{
    const char *id = id_name(w);
    if (!w->wide && one_in(w, 2)) {
        say(w, "DELETE FROM t WHERE (");
        say_names(w, "", ", ");
        say(w, ") IN (SELECT ");
        say_names(w, "", ", ");
        say(w, " FROM t ORDER BY ");
        say_names(w, one_in(w, 2) ? " DESC" : "", ", ");
        say(w, " LIMIT %d OFFSET %d)", pick(w, 8), pick(w, 20));
    } else if (one_in(w, 2)) {
        say(w, "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t x WHERE x.%s > t.%s AND x.a = t.a)", id,
            id);
    } else {
        say(w, "DELETE FROM t WHERE %s IN (SELECT v FROM o WHERE n > %d)", id, pick(w, 12));
    }
}

/* The ordinary table that is in both databases changes in the same transactions. */
static void make_other(world *w)
{
    if (one_in(w, 3)) {
        say(w, "DELETE FROM o WHERE n = %d", pick(w, 20));
    } else {
        say(w, "INSERT OR REPLACE INTO o VALUES(%d, ", pick(w, 20));
        say_id(w);
        say(w, ")");
    }
}

static void make_changes(world *w)
{
    if (w->row_count > ROWS_MANY) {
        say(w, "DELETE FROM t WHERE b LIKE 'r%%' OR a > 5");
        w->row_count = 0;
        return;
    }
    switch (pick(w, 6)) {
    case 0:
    case 1: make_large_insert(w); break;
    case 2: make_large_update(w); break;
    case 3: make_update_by_query(w); break;
    case 4: make_delete_by_query(w); break;
    default: make_other(w); break;
    }
}

static void make_transaction(world *w)
{
    static const char *const inside[] = {"SAVEPOINT s",   "SAVEPOINT s", "SAVEPOINT s", "RELEASE s",
                                         "ROLLBACK TO s", "ROLLBACK TO s", "RELEASE s"};
    static const char *const ends[] = {"COMMIT", "COMMIT", "ROLLBACK"};
    static const char *const outside[] = {"BEGIN", "BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s1",
                                          "COMMIT"};
    if (!w->open) {
        say(w, "%s", ONE_OF(w, outside));
    } else if (one_in(w, 4)) {
        say(w, "%s", ONE_OF(w, ends));
    } else {
        say(w, "%s%d", ONE_OF(w, inside), 1 + pick(w, 4));
    }
}

/* ---- the world ------------------------------------------------------------------------------ */

static void must(const world *w, sqlite3 *db, const char *sql)
{
    char *words = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &words);
    if (rc != SQLITE_OK) give_up(w, "%s: %d %s", sql, rc, words ? words : "");
}

static void load_memwal(const world *w, sqlite3 *db)
{
    const char *extension = getenv("MEMWAL");
    char *words = NULL;
    sqlite3_enable_load_extension(db, 1);
    int rc = sqlite3_load_extension(db, extension ? extension : "build/memwal", NULL, &words);
    if (rc != SQLITE_OK) give_up(w, "cannot load memwal: %s", words ? words : "");
}

static sqlite3 *open_side(const world *w, int side)
{
    static const char *const files[] = {"memwal.db", "ordinary.db"};
    char path[2 * NAME_BYTES];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s", w->folder, files[side]);
    if (sqlite3_open(path, &db) != SQLITE_OK) give_up(w, "cannot open %s", path);
    if (w->wide) must(w, db, "PRAGMA encoding='UTF-16le'");
    if (w->watched) must(w, db, "PRAGMA journal_mode=WAL");
    must(w, db, "PRAGMA synchronous=OFF");
    if (side == 0) load_memwal(w, db);
    return db;
}

static void open_sides(world *w)
{
    for (int i = 0; i < 2; i++) w->sides[i] = open_side(w, i);
    w->open = false;
}

/* A table in temp goes with its connection; the store at its path stays. */
static void attach_store(const world *w, sqlite3 *db)
{
    char sql[SQL_BYTES];
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.t USING memwal(path='store'%s)",
             w->options);
    if (w->temp) must(w, db, sql);
}

static void open_readers(world *w)
{
    if (!w->watched) return;
    for (int i = 0; i < 2; i++) w->readers[i] = open_side(w, i);
    attach_store(w, w->readers[0]);
}

static void close_sides(world *w)
{
    for (int i = 0; i < 2; i++) {
        sqlite3_finalize(w->held[i]);
        w->held[i] = NULL;
        if (sqlite3_close(w->readers[i]) != SQLITE_OK)
            give_up(w, "close of a reader: %s", sqlite3_errmsg(w->readers[i]));
        w->readers[i] = NULL;
        if (sqlite3_close(w->sides[i]) != SQLITE_OK)
            give_up(w, "close: %s", sqlite3_errmsg(w->sides[i]));
    }
}

static void reopen(world *w)
{
    if (getenv("VERBOSE")) printf("%d: reopen\n", w->statement);
    close_sides(w);
    open_sides(w);
    attach_store(w, w->sides[0]);
    open_readers(w);
}

static void choose_key(world *w)
{
    static const char *const types[] = {"BLOB", "REAL", "NUMERIC", "INT", "", "BIGINT", "DATETIME"};
    static const char *const list_types[] = {"BLOB", "REAL", "NUMERIC", "INT", "", "INTEGER",
                                             "TEXT", "VARCHAR(9)", "TEXT"};
    w->kind = (kind)pick(w, KINDS + 3);
    if (w->kind >= KINDS) w->kind = one_in(w, 2) ? VALUE_KEY : LIST_KEY;
    w->parts = w->kind == NO_KEY ? 0 : w->kind == LIST_KEY ? 2 + pick(w, 2) : 1;
    w->types[0] = w->kind == ROWID_KEY ? "INTEGER" : w->kind == TEXT_KEY ? "TEXT" : ONE_OF(w, types);
    for (int i = 0; w->kind == LIST_KEY && i < w->parts; i++) w->types[i] = ONE_OF(w, list_types);
    for (int i = 0; i < w->parts; i++) w->real_key = w->real_key || !strcmp(w->types[i], "REAL");
}

static void create_tables(world *w)
{
    static const char columns[] = "a INTEGER, b TEXT NOT NULL DEFAULT 'b', c REAL, d, "
                                  "n NUMERIC COLLATE NOCASE, m REAL NOT NULL";
    char keys[NAME_BYTES] = "";
    char list[NAME_BYTES] = "";
    char sql[SQL_BYTES];
    for (int i = 0; i < w->parts; i++) {
        sprintf(keys + strlen(keys), "%s %s%s, ", part_names[i], w->types[i],
                w->kind == LIST_KEY ? "" : " PRIMARY KEY");
    }
    if (w->kind == LIST_KEY) {
        sprintf(list, ", PRIMARY KEY(id, id2%s)", w->parts > 2 ? ", id3" : "");
    }
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE %s.t USING memwal(%s%s%s%s%s)",
             w->temp ? "temp" : "main", keys, columns, list, w->temp ? ", path='store'" : "",
             w->options);
    must(w, w->sides[0], sql);
    snprintf(sql, sizeof sql, "CREATE TABLE t(%s%s%s)%s", keys, columns, list,
             has_rowid(w) ? "" : " WITHOUT ROWID");
    must(w, w->sides[1], sql);
    if (getenv("VERBOSE")) printf("%s%s\n", sql, w->options);
    for (int i = 0; i < 2; i++) {
        must(w, w->sides[i], "CREATE TABLE o(n INTEGER PRIMARY KEY, v);"
                             "INSERT INTO o(v) VALUES(1), (2), ('3'), ('k1'), ('k12'), (4.0), "
                             "(x'31'), (NULL), ('a'), (-1.5), (7)");
    }
}

static void choose_options(world *w)
{
    static const char *const memtables[] = {"1KB", "1KB", "4KB", "64KB", "64MB"};
    const char *background = one_in(w, 3) ? "on" : "off";
    int compression = one_in(w, 2) ? 0 : 1;
    if (w->tiny) {
        snprintf(w->options, sizeof w->options,
                 ", compression=%d, background=%s, durability=normal", compression, background);
        return;
    }
    snprintf(w->options, sizeof w->options,
             ", memtable='%s', cache='64KB', merge_generations=%d, compression=%d, background=%s, "
             "durability=normal, group_rows=%d, page_bytes=%d, file_bytes=%d",
             ONE_OF(w, memtables), 1 + pick(w, 5), compression, background, 2 + pick(w, 6),
             64 + pick(w, 2000), 200 + pick(w, 20000));
}

/* What only the memwal side does. */
static void keep_house(world *w)
{
    static const char *const calls[] = {
        "SELECT memwal_flush('t')",
        "SELECT memwal_merge('t')",
        "SELECT memwal_merge('t', 1)",
        "SELECT memwal_compact('t')",
        "SELECT count(*) FROM memwal_wal('t')",
        "SELECT count(*) FROM memwal_files('t'), memwal_stats('t')",
    };
    static const char *const settings[] = {
        "'durability', 'full'",   "'durability', 'normal'", "'merge_generations', 1",
        "'merge_generations', 5", "'compression', 0",       "'compression', 9",
        "'background', 'on'",     "'background', 'off'",    "'cache', 0",
        "'cache', '8KB'",
    };
    char sql[NAME_BYTES];
    snprintf(sql, sizeof sql, "SELECT memwal_set('t', %s)", ONE_OF(w, settings));
    const char *call = one_in(w, 4) ? sql : ONE_OF(w, calls);
    if (getenv("VERBOSE")) printf("%d: %s\n", w->statement, call);
    must(w, w->sides[0], call);
    if (!one_in(w, 4)) return;
    answer check = run(w->sides[0], "SELECT memwal_check('t')");
    if (check.code != SQLITE_DONE || strcmp(check.rows[0].data, "sok|") != 0) {
        give_up(w, "memwal_check: %s %s", check.words.data,
                check.row_count ? check.rows[0].data : "");
    }
    free_answer(&check);
}

static void check_count(world *w)
{
    answer check = run(w->sides[0], "SELECT memwal_count('t') = count(*), memwal_count('t') = "
                                    "(SELECT count(*) FROM (SELECT b FROM t)) FROM t");
    if (check.code != SQLITE_DONE || strcmp(check.rows[0].data, "i1|i1|") != 0) {
        give_up(w, "memwal_count differs from count(*): %s %s", check.words.data,
                check.row_count ? check.rows[0].data : "");
    }
    free_answer(&check);
}

static void dump(world *w)
{
    begin_sql(w);
    say(w, "SELECT %s* FROM t ORDER BY ", has_rowid(w) ? "rowid, " : "");
    say_names(w, "", ", ");
    run_both(w, true);
    w->row_count = w->answered;
    begin_sql(w);
    say(w, "SELECT count(*) FROM t");
    run_both(w, true);
    check_count(w);
    begin_sql(w);
    say(w, "SELECT * FROM o ORDER BY n");
    run_both(w, true);
}

/* ---- readers --------------------------------------------------------------------------------- */

/* Of both statements up to so many rows; their ends must agree, too. */
static void read_held(const world *w, int count)
{
    answer sides[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        answer *to = &sides[i];
        to->code = SQLITE_ROW;
        for (int n = 0; n < count && to->code == SQLITE_ROW; n++) read_row(w->held[i], to);
        if (to->code != SQLITE_ROW) to->code = sqlite3_extended_errcode(w->readers[i]);
        append(&to->words, sqlite3_errmsg(w->readers[i]), strlen(sqlite3_errmsg(w->readers[i])));
    }
    compare(w, &sides[0], &sides[1], true);
    for (int i = 0; i < 2; i++) free_answer(&sides[i]);
}

/* The other connections begin a SELECT, or go on with the one that they have begun: it shows the
** moment of its beginning, whatever has been committed, flushed and merged meanwhile (C33). */
static void watch(world *w)
{
    if (w->held[0]) {
        read_held(w, one_in(w, 2) ? 3 : INT32_MAX);
        if (sqlite3_stmt_busy(w->held[0]) && sqlite3_stmt_busy(w->held[1])) return;
        for (int i = 0; i < 2; i++) {
            sqlite3_finalize(w->held[i]);
            w->held[i] = NULL;
        }
        return;
    }
    begin_sql(w);
    say(w, "SELECT %s* FROM t ", has_rowid(w) ? "rowid, " : "");
    if (one_in(w, 2)) say_where(w);
    say(w, " ORDER BY ");
    say_names(w, one_in(w, 2) ? " DESC" : "", ", ");
    if (getenv("VERBOSE")) printf("%d: reader: %s\n", w->statement, w->sql);
    for (int i = 0; i < 2; i++) {
        int rc = sqlite3_prepare_v2(w->readers[i], w->sql, -1, &w->held[i], NULL);
        if (rc != SQLITE_OK) give_up(w, "a reader: %s", sqlite3_errmsg(w->readers[i]));
    }
    read_held(w, 1 + pick(w, 4));
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void take_step(world *w)
{
    begin_sql(w);
    int choice = pick(w, 100);
    bool ordered = false;
    bool was_open = w->open;
    if (choice < 26) {
        make_insert(w);
    } else if (choice < 30) {
        make_insert_select(w);
    } else if (choice < 42) {
        make_update(w);
    } else if (choice < 50) {
        make_delete(w);
    } else if (choice < 60) {
        make_changes(w);
    } else if (choice < 80) {
        ordered = make_select(w);
    } else {
        make_transaction(w);
    }
    run_both(w, ordered);
    if (getenv("DUMP") || (was_open && !w->open)) dump(w);
    if (w->watched && one_in(w, 8)) watch(w);
    if (!w->open && one_in(w, 10)) keep_house(w);
    if (!w->open && one_in(w, 60)) reopen(w);
    if (one_in(w, 8)) dump(w);
}

static void make_folder(world *w)
{
    const char *base = getenv("TMPDIR");
    const char *memory = "/dev/shm"; /* nothing here is about what a disk keeps */
    if (!base) base = access(memory, W_OK) == 0 ? memory : "/tmp";
    snprintf(w->folder, sizeof w->folder, "%s/memwal-differential-XXXXXX", base);
    if (!mkdtemp(w->folder)) give_up(w, "cannot make %s", w->folder);
}

static void remove_folder(const world *w)
{
    char command[2 * NAME_BYTES];
    snprintf(command, sizeof command, "rm -rf '%s'", w->folder);
    if (system(command) != 0) give_up(w, "cannot remove %s", w->folder);
}

static bool is_tiny(void)
{
    const world nowhere = {0};
    sqlite3 *db;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) give_up(&nowhere, "cannot open a database");
    load_memwal(&nowhere, db);
    answer limits = run(db, "SELECT memwal_debug() LIKE '%limits tiny%'");
    bool tiny = limits.row_count == 1 && strcmp(limits.rows[0].data, "i1|") == 0;
    free_answer(&limits);
    sqlite3_close(db);
    return tiny;
}

static void run_seed(uint64_t seed, int statements)
{
    world w = {.seed = seed, .random = seed, .tiny = is_tiny()};
    choose_key(&w);
    choose_options(&w);
    w.temp = one_in(&w, 3);
    w.wide = one_in(&w, 8);
    w.watched = one_in(&w, 2);
    make_folder(&w);
    open_sides(&w);
    create_tables(&w);
    open_readers(&w);
    for (w.statement = 0; w.statement < statements; w.statement++) take_step(&w);
    dump(&w);
    close_sides(&w);
    remove_folder(&w);
}

/* ---- every comparison ----------------------------------------------------------------------- */

/* Keys that differ in every kind of place; NULL is refused and the same number meets itself. */
static const char *const key_pool[] = {
    "-1e999", "-1e300", "-9223372036854775807", "-1.5", "-1", "0", "-0.0", "0.5", "1", "1.0", "2",
    "9007199254740992", "9007199254740993", "9007199254740994.0", "9223372036854775807",
    "9223372036854775807.0", "1e999", "''", "' 1'", "'1'", "'1.0'", "'01'", "'10'", "'2'", "':'",
    "'A'", "'a'", "'a'||char(0)", "'a'||char(0)||'b'", "'a'||char(1)", "'k'", "char(233)",
    "char(128512)", "x''", "x'00'", "x'0000'", "x'00ff'", "x'31'", "x'61'", "NULL",
};

enum { POOL = sizeof key_pool / sizeof *key_pool };

static void run_sql(world *w, const char *sql)
{
    begin_sql(w);
    say(w, "%s", sql);
    run_both(w, true);
    w->statement++;
}

/* What keys are compared with: bare, and as values of columns of each affinity. */
static void fill_arguments(world *w)
{
    for (int side = 0; side < 2; side++) {
        must(w, w->sides[side], "CREATE TABLE x(n INTEGER PRIMARY KEY, x, i INTEGER, t TEXT, r REAL)");
    }
    for (int i = 0; i < POOL; i++) {
        if (w->real_key && is_inexact(key_pool[i])) continue;
        begin_sql(w);
        say(w, "INSERT INTO x(x) VALUES(%s)", key_pool[i]);
        run_both(w, true);
    }
    run_sql(w, "INSERT INTO x(x) VALUES('abc'), ('1e0')");
    run_sql(w, "UPDATE x SET i = x, t = x, r = x");
}

static void fill_keys(world *w)
{
    run_sql(w, "BEGIN");
    for (int i = 0; i < POOL; i++) {
        for (int j = 0; j < POOL; j++) {
            begin_sql(w);
            say(w, "INSERT OR IGNORE INTO t(id, %sm) VALUES(%s, ", w->parts > 1 ? "id2, " : "",
                key_pool[i]);
            if (w->parts > 1) say(w, "%s, ", key_pool[j]);
            say(w, "%d)", POOL * i + j);
            run_both(w, true);
            if (w->parts == 1) break;
        }
        if (i != POOL / 2) continue;
        run_sql(w, "COMMIT");
        must(w, w->sides[0], "SELECT memwal_flush('t')");
        run_sql(w, "BEGIN");
    }
    run_sql(w, "COMMIT");
}

/* A statement in which @ stands for a column of x: x, i, t or r. */
static void run_with(world *w, const char *sql, char column, bool ordered)
{
    begin_sql(w);
    for (; *sql; sql++) say(w, "%c", *sql == '@' ? column : *sql);
    run_both(w, ordered);
    w->statement++;
}

#define ONE_ARGUMENT "SELECT count(*), total(p.n), total(m * p.n) FROM x p CROSS JOIN t ON "
#define TWO_ARGUMENTS                                                                    \
    "SELECT count(*), total(p.n * q.n), total(m * p.n) FROM x p CROSS JOIN x q CROSS JOIN t " \
    "ON q.n % 3 = 0 AND "

static void compare_conditions(world *w, char column)
{
    static const char *const single[] = {
        ONE_ARGUMENT "id = p.@",
        ONE_ARGUMENT "id IS p.@",
        ONE_ARGUMENT "id < p.@",
        ONE_ARGUMENT "id <= p.@",
        ONE_ARGUMENT "id > p.@",
        ONE_ARGUMENT "id >= p.@",
        ONE_ARGUMENT "id IN (SELECT @ FROM x WHERE n % 7 = p.n % 7)",
        TWO_ARGUMENTS "id > p.@ AND id < q.@",
        TWO_ARGUMENTS "id BETWEEN p.@ AND q.@",
        TWO_ARGUMENTS "id IN (p.@, q.@)",
    };
    static const char *const several[] = {
        ONE_ARGUMENT "id > p.@",
        ONE_ARGUMENT "id <= p.@",
        ONE_ARGUMENT "id IS p.@",
        ONE_ARGUMENT "id2 = p.@",
        ONE_ARGUMENT "(id, id2) >= (p.@, p.@)",
        ONE_ARGUMENT "id IN (SELECT @ FROM x WHERE n % 7 = p.n % 7) AND id2 = p.@",
        TWO_ARGUMENTS "id = p.@ AND id2 = q.@",
        TWO_ARGUMENTS "id = p.@ AND id2 < q.@",
        TWO_ARGUMENTS "id = p.@ AND id2 >= q.@",
        TWO_ARGUMENTS "id = p.@ AND id2 IN (q.@, 1, '1', x'31')",
        "SELECT m, id, id2 FROM x p CROSS JOIN t ON id = p.@ AND p.n = 7 ORDER BY id2",
    };
    size_t count = w->parts == 1 ? sizeof single / sizeof *single : sizeof several / sizeof *several;
    for (size_t i = 0; i < count; i++) {
        run_with(w, w->parts == 1 ? single[i] : several[i], column, i + 1 == count);
    }
}

/* Rows of one key in order, which the planner may leave to the table. */
static void compare_orders(world *w)
{
    for (int i = 0; i < POOL; i++) {
        if (w->real_key && is_inexact(key_pool[i])) continue;
        begin_sql(w);
        say(w, "SELECT id, id2, m FROM t WHERE id = %s ORDER BY id2 %s", key_pool[i],
            i % 2 ? "DESC" : "");
        run_both(w, true);
        w->statement++;
    }
    for (int i = 0; i < POOL * 4; i++) {
        begin_sql(w);
        say(w, "SELECT id2 FROM t WHERE id = (SELECT %c FROM x WHERE n = %d) ", "xitr"[i % 4],
            i / 4 + 1);
        if (i % 3 == 0) say(w, "AND id2 >= (SELECT %c FROM x WHERE n = 9) ", "xitr"[i / 3 % 4]);
        say(w, "ORDER BY id2 %s LIMIT 50", i % 5 ? "" : "DESC");
        run_both(w, true);
        w->statement++;
    }
}

static int compare_key(const char *type, const char *second)
{
    world w = {.kind = second ? LIST_KEY : VALUE_KEY, .types = {type, second}};
    w.parts = second ? 2 : 1;
    w.real_key = strcmp(type, "REAL") == 0 || (second && strcmp(second, "REAL") == 0);
    snprintf(w.options, sizeof w.options,
             ", memtable='64KB', background=off, durability=normal, group_rows=64");
    make_folder(&w);
    open_sides(&w);
    create_tables(&w);
    fill_arguments(&w);
    fill_keys(&w);
    for (const char *column = "xitr"; *column; column++) compare_conditions(&w, *column);
    if (second) compare_orders(&w);
    dump(&w);
    close_sides(&w);
    remove_folder(&w);
    return w.statement;
}

/* Every comparison of every key with every argument; not random. */
static int compare_all(bool tiny)
{
    static const char *const types[] = {"BLOB", "TEXT", "INT", "REAL", "NUMERIC"};
    enum { TYPES = sizeof types / sizeof *types };
    int statements = 0;
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i], "TEXT") != 0) statements += compare_key(types[i], NULL);
        for (int j = 0; j < TYPES; j++) {
            if (tiny && j != (i + 1) % TYPES) continue; /* five of the pairs: each takes seconds */
            statements += compare_key(types[i], types[j]);
        }
    }
    return statements;
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *value = getenv(variable);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    int statements = argc > 2 ? atoi(argv[2]) : STANDARD_STATEMENTS;
    if (argc > 1) {
        run_seed(strtoull(argv[1], NULL, 10), statements);
        printf("seed %s: %d statements, 0 differences\n", argv[1], statements);
        return 0;
    }
    int compared = compare_all(is_tiny());
    uint64_t first = number_of("DIFFERENTIAL_FROM", 1);
    uint64_t seed = first;
    time_t end = time(NULL) + (time_t)number_of("DIFFERENTIAL_SECONDS", STANDARD_SECONDS);
    do {
        run_seed(seed++, statements);
    } while (time(NULL) < end);
    printf("%d comparisons, seeds %" PRIu64 " to %" PRIu64 " of %d statements, 0 differences\n",
           compared, first, seed - 1, statements);
    return 0;
}
