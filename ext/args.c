/* args.c: from the text of CREATE VIRTUAL TABLE to columns, key and options.
**
** SQLite cuts the text at top-level commas and leaves the rest to the module. An argument is an
** option (bare word and '='), a table constraint (begins with its keyword) or a column. Rule for
** everything a user may write: honour it as an ordinary table would, or refuse it by name; nothing
** is read and forgotten.
**
** The declaration is the same columns in one normal form (names quoted, key on its column), so that
** two ways to write a table compare equal; this very file parses it when a store is attached. */
#include "args.h"

#include <string.h>

#include "err.h"
#include "options.h"
#include "token.h"

typedef struct reader {
    sqlite3 *db;
    mx_args *args;
    char **error;
    const char *at;     /* behind token */
    mx_token token;     /* the one at hand */
    const char *passed; /* the end of the one before */
    unsigned options_seen;
} reader;

/* ---- tokens ---------------------------------------------------------------------------------- */

static void advance(reader *r)
{
    r->passed = r->at;
    r->token = mx_token_next(&r->at);
}

static bool is(const reader *r, const char *word) { return mx_token_is(&r->token, word); }

static bool accept(reader *r, const char *word)
{
    if (!is(r, word)) return false;
    advance(r);
    return true;
}

static bool is_name(const mx_token *token)
{
    return token->kind == MX_TOKEN_WORD || token->kind == MX_TOKEN_QUOTED ||
           token->kind == MX_TOKEN_STRING;
}

/* "expected ..., found ..." at the token at hand; where names the column, NULL: the table. */
static int refuse_token(reader *r, const char *where, const char *expected)
{
    const char *before = where ? where : "table";
    if (r->token.kind == MX_TOKEN_END) {
        return mx_err_put(r->error, SQLITE_ERROR, "%s: expected %s, found the end", before,
                          expected);
    }
    return mx_err_put(r->error, SQLITE_ERROR, "%s: expected %s, found %.*s", before, expected,
                      r->token.size, r->token.text);
}

static const struct {
    const char *word;
    const char *reason;
} refused[] = {
    {"CHECK", "it would not be evaluated"},
    {"UNIQUE", "only the primary key is kept unique"},
    {"REFERENCES", "foreign keys are not kept"},
    {"FOREIGN", "foreign keys are not kept"},
    {"DEFERRABLE", "foreign keys are not kept"},
    {"GENERATED", "columns are not computed"},
    {"AS", "columns are not computed"},
    {"AUTOINCREMENT", "a freed rowid may be given out again"},
    {"ON", "write INSERT OR ... instead"},
    {"DESC", "keys are kept ascending and read both ways"},
};

/* The row of `refused` that the token at hand begins, -1: none. */
static int refused_index(const reader *r)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (is(r, refused[i].word)) return (int)i;
    }
    return -1;
}

/* SQLITE_OK unless the token at hand begins something that cannot be honoured. */
static int check_refused(reader *r, const char *where)
{
    int i = refused_index(r);
    if (i < 0) return SQLITE_OK;
    bool conflict = is(r, "ON");
    return mx_err_put(r->error, SQLITE_ERROR, "%s: %s cannot be honoured (%s)",
                      where ? where : "table", conflict ? "ON CONFLICT" : refused[i].word,
                      refused[i].reason);
}

static bool ends_type(const reader *r)
{
    return is(r, "CONSTRAINT") || is(r, "PRIMARY") || is(r, "NOT") || is(r, "NULL") ||
           is(r, "DEFAULT") || is(r, "COLLATE") || refused_index(r) >= 0;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool contains(const char *text, const char *part)
{
    size_t size = strlen(part);
    for (; *text; text++) {
        if (sqlite3_strnicmp(text, part, (int)size) == 0) return true;
    }
    return false;
}

/* SQLite's rules ("Determination Of Column Affinity"), in its order. */
static char affinity_of(const char *type)
{
    if (!*type) return MX_AFFINITY_BLOB;
    if (contains(type, "INT")) return MX_AFFINITY_INTEGER;
    if (contains(type, "CHAR") || contains(type, "CLOB") || contains(type, "TEXT")) {
        return MX_AFFINITY_TEXT;
    }
    if (contains(type, "BLOB")) return MX_AFFINITY_BLOB;
    if (contains(type, "REAL") || contains(type, "FLOA") || contains(type, "DOUB")) {
        return MX_AFFINITY_REAL;
    }
    return MX_AFFINITY_NUMERIC;
}

/* (n) or (n, m), signs allowed, as SQLite's grammar has it. */
static int parse_type_size(reader *r, const char *column, sqlite3_str *type)
{
    sqlite3_str_appendchar(type, 1, '(');
    do {
        bool first = is(r, "(");
        advance(r);
        if (!first) sqlite3_str_appendchar(type, 1, ',');
        if (is(r, "+") || is(r, "-")) {
            sqlite3_str_append(type, r->token.text, 1);
            advance(r);
        }
        if (r->token.kind != MX_TOKEN_NUMBER) {
            return refuse_token(r, column, "a number in its type");
        }
        sqlite3_str_append(type, r->token.text, r->token.size);
        advance(r);
    } while (is(r, ","));
    if (!is(r, ")")) return refuse_token(r, column, "\")\" in its type");
    sqlite3_str_appendchar(type, 1, ')');
    advance(r);
    return SQLITE_OK;
}

static int parse_type(reader *r, mx_column *column)
{
    sqlite3_str *type = sqlite3_str_new(r->db);
    int rc = SQLITE_OK;
    while (is_name(&r->token) && !ends_type(r)) {
        if (is(r, "HIDDEN")) {
            column->hidden = true;
        } else {
            if (sqlite3_str_length(type) > 0) sqlite3_str_appendchar(type, 1, ' ');
            sqlite3_str_append(type, r->token.text, r->token.size);
        }
        advance(r);
    }
    if (is(r, "(") && sqlite3_str_length(type) > 0) rc = parse_type_size(r, column->name, type);
    /* Without memory it is empty as well, and would stand for another affinity. */
    if (rc == SQLITE_OK) rc = sqlite3_str_errcode(type);
    bool empty = sqlite3_str_length(type) == 0;
    column->type = sqlite3_str_finish(type);
    if (empty) {
        sqlite3_free(column->type);
        column->type = sqlite3_mprintf("");
    }
    if (rc == SQLITE_OK && !column->type) rc = SQLITE_NOMEM;
    if (rc == SQLITE_OK) column->affinity = affinity_of(column->type);
    return rc;
}

/* ---- defaults -------------------------------------------------------------------------------- */

/* Runs a SELECT of one value, ?1 bound to argument where that is given. */
static int evaluate(sqlite3 *db, const char *sql, const sqlite3_value *argument,
                    sqlite3_value **value)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK && argument) rc = sqlite3_bind_value(statement, 1, argument);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(statement);
        if (rc == SQLITE_ROW) {
            *value = sqlite3_value_dup(sqlite3_column_value(statement, 0));
            rc = *value ? SQLITE_OK : SQLITE_NOMEM;
        } else if (rc == SQLITE_DONE) {
            rc = SQLITE_ERROR;
        }
    }
    int final = sqlite3_finalize(statement);
    return rc != SQLITE_OK ? rc : final;
}

/* Gives *value the type that a column of this affinity would store. SQLite has no call for that:
** texts are converted in place by sqlite3_value_numeric_type, the rest by a CAST that loses
** nothing. */
static int apply_affinity(sqlite3 *db, char affinity, sqlite3_value **value)
{
    const char *sql = NULL;
    bool numeric = affinity >= MX_AFFINITY_NUMERIC;
    int type = numeric ? sqlite3_value_numeric_type(*value) : sqlite3_value_type(*value);
    if (affinity == MX_AFFINITY_TEXT && (type == SQLITE_INTEGER || type == SQLITE_FLOAT)) {
        sql = "SELECT CAST(?1 AS TEXT)";
    } else if (affinity == MX_AFFINITY_REAL && type == SQLITE_INTEGER) {
        sql = "SELECT CAST(?1 AS REAL)";
    } else if (numeric && affinity != MX_AFFINITY_REAL && type == SQLITE_FLOAT) {
        sql = "SELECT CASE WHEN abs(?1) < 9223372036854775807 AND CAST(?1 AS INTEGER) = ?1"
              " THEN CAST(?1 AS INTEGER) ELSE ?1 END";
    }
    if (!sql) return SQLITE_OK;
    sqlite3_value *converted = NULL;
    int rc = evaluate(db, sql, *value, &converted);
    if (rc == SQLITE_OK) {
        sqlite3_value_free(*value);
        *value = converted;
    }
    return rc;
}

/* Passes the parenthesised expression at hand. Only literals and operators may be in it: whatever
** has a name could give another value for each row. */
static int pass_constant(reader *r, const char *column)
{
    int depth = 0;
    do {
        bool word = r->token.kind == MX_TOKEN_WORD || r->token.kind == MX_TOKEN_QUOTED;
        bool literal = is(r, "NULL") || is(r, "TRUE") || is(r, "FALSE");
        bool operator = r->token.kind != MX_TOKEN_MARK ||
                        strchr("()+-*/%|&<>=!~", *r->token.text) != NULL;
        if ((word && !literal) || !operator) {
            return mx_err_put(r->error, SQLITE_ERROR,
                              "%s: DEFAULT is not constant at %.*s: expected literals and "
                              "operators",
                              column, r->token.size, r->token.text);
        }
        if (r->token.kind == MX_TOKEN_END) return refuse_token(r, column, "\")\" after DEFAULT");
        if (is(r, "(")) depth++;
        if (is(r, ")")) depth--;
        advance(r);
    } while (depth > 0);
    return SQLITE_OK;
}

/* A bare word as default is a text to SQLite, but for these. */
static int word_default(reader *r, mx_column *column)
{
    if (sqlite3_strnicmp(r->token.text, "CURRENT_", 8) == 0) {
        return mx_err_put(r->error, SQLITE_ERROR,
                          "%s: DEFAULT %.*s is not built yet: it differs by row",
                          column->name, r->token.size, r->token.text);
    }
    if (ends_type(r) && !is(r, "NULL")) {
        return refuse_token(r, column->name, "a literal after DEFAULT");
    }
    if (is(r, "NULL") || is(r, "TRUE") || is(r, "FALSE")) {
        column->default_sql = mx_token_text(&r->token);
    } else {
        char *text = mx_token_text(&r->token);
        column->default_sql = text ? sqlite3_mprintf("%Q", text) : NULL;
        sqlite3_free(text);
    }
    advance(r);
    return column->default_sql ? SQLITE_OK : SQLITE_NOMEM;
}

static int literal_default(reader *r, mx_column *column)
{
    const char *start = r->token.text;
    int rc = SQLITE_OK;
    if (is(r, "(")) {
        rc = pass_constant(r, column->name);
    } else {
        bool signed_number = is(r, "+") || is(r, "-");
        if (signed_number) advance(r);
        bool literal = r->token.kind == MX_TOKEN_STRING || r->token.kind == MX_TOKEN_BLOB;
        if (r->token.kind != MX_TOKEN_NUMBER && (signed_number || !literal)) {
            return refuse_token(r, column->name, "a literal after DEFAULT");
        }
        advance(r);
    }
    if (rc != SQLITE_OK) return rc;
    column->default_sql = sqlite3_mprintf("%.*s", (int)(r->passed - start), start);
    return column->default_sql ? SQLITE_OK : SQLITE_NOMEM;
}

static void drop_default(mx_column *column)
{
    sqlite3_free(column->default_sql);
    sqlite3_value_free(column->default_value);
    column->default_sql = NULL;
    column->default_value = NULL;
}

static int parse_default(reader *r, mx_column *column)
{
    drop_default(column);
    bool word = r->token.kind == MX_TOKEN_WORD || r->token.kind == MX_TOKEN_QUOTED;
    int rc = word ? word_default(r, column) : literal_default(r, column);
    if (rc != SQLITE_OK) return rc;
    char *sql = sqlite3_mprintf("SELECT %s\n", column->default_sql);
    if (!sql) return SQLITE_NOMEM;
    rc = evaluate(r->db, sql, NULL, &column->default_value);
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = apply_affinity(r->db, column->affinity, &column->default_value);
    if (rc == SQLITE_NOMEM) return rc;
    if (rc != SQLITE_OK) {
        return mx_err_put(r->error, rc, "%s: DEFAULT %s cannot be evaluated: %s", column->name,
                          column->default_sql, sqlite3_errmsg(r->db));
    }
    /* DEFAULT NULL is no default. */
    if (sqlite3_value_type(column->default_value) == SQLITE_NULL) drop_default(column);
    return SQLITE_OK;
}

/* ---- columns and constraints ----------------------------------------------------------------- */

static int refuse_second_key(reader *r)
{
    if (r->args->key_count == 0) return SQLITE_OK;
    return mx_err_put(r->error, SQLITE_ERROR, "table: more than one PRIMARY KEY");
}

static int add_key_part(reader *r, int index)
{
    mx_args *args = r->args;
    mx_column *column = &args->columns[index];
    if (column->key_part >= 0) {
        return mx_err_put(r->error, SQLITE_ERROR, "PRIMARY KEY: %s is named twice", column->name);
    }
    sqlite3_uint64 count = (sqlite3_uint64)args->key_count + 1;
    int *key = sqlite3_realloc64(args->key, count * sizeof *key);
    if (!key) return SQLITE_NOMEM;
    args->key = key;
    column->key_part = args->key_count;
    key[args->key_count++] = index;
    return SQLITE_OK;
}

/* A collation, at where it belongs; NULL is BINARY. */
static int parse_collate(reader *r, const char *column, char **collation)
{
    if (!is_name(&r->token)) return refuse_token(r, column, "a collation");
    char *name = mx_token_text(&r->token);
    if (!name) return SQLITE_NOMEM;
    advance(r);
    sqlite3_free(*collation);
    *collation = NULL;
    static const char *const known[] = {"NOCASE", "RTRIM"};
    bool found = sqlite3_stricmp(name, "BINARY") == 0;
    for (size_t i = 0; i < 2 && !found; i++) {
        if (sqlite3_stricmp(name, known[i]) != 0) continue;
        found = true;
        *collation = sqlite3_mprintf("%s", known[i]);
        if (!*collation) {
            sqlite3_free(name);
            return SQLITE_NOMEM;
        }
    }
    int rc = SQLITE_OK;
    if (!found) {
        rc = mx_err_put(r->error, SQLITE_ERROR,
                        "%s: COLLATE %s cannot be honoured: expected BINARY, NOCASE or RTRIM",
                        column, name);
    }
    sqlite3_free(name);
    return rc;
}

static int refuse_key_collation(reader *r, const char *column, const char *collation)
{
    return mx_err_put(r->error, SQLITE_ERROR,
                      "%s: COLLATE %s cannot be honoured on the primary key, which is BINARY",
                      column, collation);
}

static int parse_constraint(reader *r, int index)
{
    mx_column *column = &r->args->columns[index];
    int rc = check_refused(r, column->name);
    if (rc != SQLITE_OK) return rc;
    if (accept(r, "CONSTRAINT")) {
        if (!is_name(&r->token)) return refuse_token(r, column->name, "a name after CONSTRAINT");
        advance(r);
        return SQLITE_OK;
    }
    if (accept(r, "PRIMARY")) {
        if (!accept(r, "KEY")) return refuse_token(r, column->name, "KEY after PRIMARY");
        accept(r, "ASC");
        rc = refuse_second_key(r);
        return rc == SQLITE_OK ? add_key_part(r, index) : rc;
    }
    if (accept(r, "NOT")) {
        if (!accept(r, "NULL")) return refuse_token(r, column->name, "NULL after NOT");
        column->not_null = true;
        return SQLITE_OK;
    }
    if (accept(r, "NULL")) return SQLITE_OK;
    if (accept(r, "DEFAULT")) return parse_default(r, column);
    if (accept(r, "COLLATE")) return parse_collate(r, column->name, &column->collation);
    return refuse_token(r, column->name, "a column constraint");
}

static int column_index(const mx_args *args, const char *name)
{
    for (int i = 0; i < args->column_count; i++) {
        if (sqlite3_stricmp(args->columns[i].name, name) == 0) return i;
    }
    return -1;
}

/* Makes room for one more column; the name is taken, also on failure. */
static int add_column(reader *r, char *name)
{
    mx_args *args = r->args;
    int rc = SQLITE_OK;
    if (!name) return SQLITE_NOMEM;
    if (column_index(args, name) >= 0) {
        rc = mx_err_put(r->error, SQLITE_ERROR, "duplicate column name: %s", name);
    } else if (args->column_count > MW_COLUMNS_MAX) {
        rc = mx_err_put(r->error, SQLITE_TOOBIG, "table: more than %d columns", MW_COLUMNS_MAX);
    }
    mx_column *columns = NULL;
    if (rc == SQLITE_OK) {
        sqlite3_uint64 count = (sqlite3_uint64)args->column_count + 1;
        columns = sqlite3_realloc64(args->columns, count * sizeof *columns);
        if (!columns) rc = SQLITE_NOMEM;
    }
    if (rc != SQLITE_OK) {
        sqlite3_free(name);
        return rc;
    }
    args->columns = columns;
    memset(&columns[args->column_count], 0, sizeof *columns);
    columns[args->column_count].key_part = -1;
    columns[args->column_count++].name = name;
    return SQLITE_OK;
}

static int parse_column(reader *r)
{
    if (!is_name(&r->token)) return refuse_token(r, NULL, "a column or an option");
    int rc = add_column(r, mx_token_text(&r->token));
    if (rc != SQLITE_OK) return rc;
    advance(r);
    int index = r->args->column_count - 1;
    rc = parse_type(r, &r->args->columns[index]);
    while (rc == SQLITE_OK && r->token.kind != MX_TOKEN_END) rc = parse_constraint(r, index);
    return rc;
}

/* The key's own collation: the column keeps the one that it has elsewhere. */
static int parse_key_collate(reader *r, const char *column)
{
    char *collation = NULL;
    int rc = parse_collate(r, column, &collation);
    if (rc == SQLITE_OK && collation) rc = refuse_key_collation(r, column, collation);
    sqlite3_free(collation);
    return rc;
}

/* One column of PRIMARY KEY(...). */
static int parse_key_part(reader *r)
{
    if (!is_name(&r->token)) return refuse_token(r, NULL, "a column in PRIMARY KEY");
    char *name = mx_token_text(&r->token);
    if (!name) return SQLITE_NOMEM;
    int index = column_index(r->args, name);
    int rc = SQLITE_OK;
    if (index < 0) {
        rc = mx_err_put(r->error, SQLITE_ERROR, "PRIMARY KEY(%s): no such column before it", name);
    }
    sqlite3_free(name);
    if (rc != SQLITE_OK) return rc;
    advance(r);
    if (accept(r, "COLLATE")) rc = parse_key_collate(r, r->args->columns[index].name);
    if (rc != SQLITE_OK) return rc;
    accept(r, "ASC");
    return add_key_part(r, index);
}

static int parse_table_key(reader *r)
{
    if (!accept(r, "KEY")) return refuse_token(r, NULL, "KEY after PRIMARY");
    int rc = refuse_second_key(r);
    if (rc != SQLITE_OK) return rc;
    if (!accept(r, "(")) return refuse_token(r, NULL, "( after PRIMARY KEY");
    do {
        rc = parse_key_part(r);
    } while (rc == SQLITE_OK && accept(r, ","));
    if (rc == SQLITE_OK) rc = check_refused(r, NULL);
    if (rc != SQLITE_OK) return rc;
    if (!accept(r, ")")) return refuse_token(r, NULL, ") after PRIMARY KEY(");
    return SQLITE_OK;
}

static int parse_table_constraint(reader *r)
{
    if (accept(r, "CONSTRAINT")) {
        if (!is_name(&r->token)) return refuse_token(r, NULL, "a name after CONSTRAINT");
        advance(r);
    }
    int rc = check_refused(r, NULL);
    if (rc != SQLITE_OK) return rc;
    if (!accept(r, "PRIMARY")) return refuse_token(r, NULL, "PRIMARY KEY");
    rc = parse_table_key(r);
    if (rc == SQLITE_OK) rc = check_refused(r, NULL);
    if (rc == SQLITE_OK && r->token.kind != MX_TOKEN_END) rc = refuse_token(r, NULL, "the end");
    return rc;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The value of an option: one token, or a number with a sign. */
static int parse_option(reader *r, const mx_token *key)
{
    char *name = mx_token_text(key);
    if (!name) return SQLITE_NOMEM;
    int rc = SQLITE_OK;
    char *value = NULL;
    bool negative = accept(r, "-");
    bool good = is_name(&r->token) || r->token.kind == MX_TOKEN_NUMBER;
    if (!good) {
        rc = refuse_token(r, name, "a value");
    } else {
        char *text = mx_token_text(&r->token);
        value = text ? sqlite3_mprintf("%s%s", negative ? "-" : "", text) : NULL;
        sqlite3_free(text);
        if (!value) rc = SQLITE_NOMEM;
        advance(r);
    }
    if (rc == SQLITE_OK && r->token.kind != MX_TOKEN_END) {
        rc = refuse_token(r, name, "one value");
    }
    if (rc == SQLITE_OK) rc = mx_options_set(r->args, name, value, &r->options_seen, r->error);
    sqlite3_free(value);
    sqlite3_free(name);
    return rc;
}

static int parse_argument(reader *r, const char *text)
{
    r->at = text;
    advance(r);
    const char *ahead = r->at;
    mx_token next = mx_token_next(&ahead);
    if (r->token.kind == MX_TOKEN_WORD && mx_token_is(&next, "=")) {
        mx_token key = r->token;
        advance(r);
        advance(r);
        return parse_option(r, &key);
    }
    bool constraint = is(r, "CONSTRAINT") || is(r, "PRIMARY") || is(r, "UNIQUE") ||
                      is(r, "CHECK") || is(r, "FOREIGN");
    return constraint ? parse_table_constraint(r) : parse_column(r);
}

static int check_key_part(reader *r, mx_column *column)
{
    if (column->collation) return refuse_key_collation(r, column->name, column->collation);
    if (column->hidden) {
        return mx_err_put(r->error, SQLITE_ERROR, "%s: the primary key cannot be HIDDEN",
                          column->name);
    }
    column->not_null = true;
    return SQLITE_OK;
}

/* SQLite takes the quotes off the names of its own types. */
static bool is_integer_type(const char *type)
{
    static const char word[] = "INTEGER";
    size_t size = sizeof word - 1;
    size_t quote = *type && strchr("\"'`[", *type) ? 1 : 0;
    return strlen(type) == size + 2 * quote &&
           sqlite3_strnicmp(type + quote, word, (int)size) == 0;
}

static int check_key(reader *r)
{
    mx_args *args = r->args;
    for (int i = 0; i < args->key_count; i++) {
        int rc = check_key_part(r, &args->columns[args->key[i]]);
        if (rc != SQLITE_OK) return rc;
    }
    /* Only the word INTEGER alone makes the rowid of a key: INT or BIGINT take texts as well. */
    if (args->key_count == 1) {
        mx_column *key = &args->columns[args->key[0]];
        args->rowid_alias = is_integer_type(key->type);
        /* As for any rowid, a DEFAULT has no effect: NULL allots the next one. */
        if (args->rowid_alias) drop_default(key);
    }
    return SQLITE_OK;
}

static void append_column(sqlite3_str *text, const mx_args *args, int index)
{
    const mx_column *column = &args->columns[index];
    sqlite3_str_appendf(text, "%s\"%w\"", index ? ", " : "", column->name);
    if (*column->type) sqlite3_str_appendf(text, " %s", column->type);
    if (column->hidden) sqlite3_str_appendall(text, " HIDDEN");
    if (column->not_null) sqlite3_str_appendall(text, " NOT NULL");
    bool key = column->key_part >= 0 && args->key_count == 1;
    if (key) sqlite3_str_appendall(text, " PRIMARY KEY");
    if (column->collation) sqlite3_str_appendf(text, " COLLATE %s", column->collation);
}

static int make_declaration(mx_args *args)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    for (int i = 0; i < args->column_count; i++) {
        append_column(text, args, i);
        const char *sql = args->columns[i].default_sql;
        if (sql) sqlite3_str_appendf(text, " DEFAULT %s", sql);
    }
    for (int i = 0; args->key_count > 1 && i < args->key_count; i++) {
        sqlite3_str_appendf(text, "%s\"%w\"", i ? ", " : ", PRIMARY KEY(",
                            args->columns[args->key[i]].name);
    }
    if (args->key_count > 1) sqlite3_str_appendchar(text, 1, ')');
    args->declaration = sqlite3_str_finish(text);
    return args->declaration ? SQLITE_OK : SQLITE_NOMEM;
}

/* The column that stands for a key of several: under a name that no other one has. */
static void append_hidden_key(sqlite3_str *text, const mx_args *args)
{
    char name[32] = "memwal_key";
    for (int i = 2; column_index(args, name) >= 0; i++) {
        sqlite3_snprintf(sizeof name, name, "memwal_key_%d", i);
    }
    sqlite3_str_appendf(text, ", \"%w\" BLOB HIDDEN NOT NULL PRIMARY KEY", name);
}

char *mx_args_declare(const mx_args *args)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    sqlite3_str_appendall(text, "CREATE TABLE x(");
    for (int i = 0; i < args->column_count; i++) append_column(text, args, i);
    if (args->key_count > 1) append_hidden_key(text, args);
    bool rowid = args->key_count == 0 || args->rowid_alias;
    sqlite3_str_appendall(text, rowid ? ")" : ") WITHOUT ROWID");
    return sqlite3_str_finish(text);
}

static bool has_visible_column(const mx_args *args)
{
    for (int i = 0; i < args->column_count; i++) {
        if (!args->columns[i].hidden) return true;
    }
    return false;
}

static int finish(reader *r)
{
    mx_args *args = r->args;
    if (args->column_count == 0) {
        args->attach = true;
        if (args->path) return SQLITE_OK;
        return mx_err_put(r->error, SQLITE_ERROR,
                          "table: expected columns, or path='dir' of a store to attach");
    }
    if (!has_visible_column(args)) {
        return mx_err_put(r->error, SQLITE_ERROR, "table: expected a column that is not HIDDEN");
    }
    int rc = check_key(r);
    return rc == SQLITE_OK ? make_declaration(args) : rc;
}

static int begin(reader *r, sqlite3 *db, char **error)
{
    memset(r, 0, sizeof *r);
    r->db = db;
    r->error = error;
    r->args = sqlite3_malloc(sizeof *r->args);
    if (!r->args) return SQLITE_NOMEM;
    memset(r->args, 0, sizeof *r->args);
    r->args->options = mw_options_default();
    return SQLITE_OK;
}

static int end(reader *r, int rc, mx_args **args)
{
    if (rc == SQLITE_OK) rc = finish(r);
    if (rc == SQLITE_OK) {
        *args = r->args;
        return SQLITE_OK;
    }
    if (rc == SQLITE_NOMEM) (void)mx_err_put(r->error, rc, "out of memory");
    mx_args_free(r->args);
    return rc;
}

int mx_args_parse(sqlite3 *db, int argc, const char *const *argv, mx_args **args, char **error)
{
    reader r;
    int rc = begin(&r, db, error);
    for (int i = 3; rc == SQLITE_OK && i < argc; i++) rc = parse_argument(&r, argv[i]);
    return end(&r, rc, args);
}

/* Where the argument that begins at `at` ends: at the next comma outside parentheses. */
static const char *argument_end(const char *at)
{
    int depth = 0;
    for (;;) {
        mx_token token = mx_token_next(&at);
        if (token.kind == MX_TOKEN_END || token.kind == MX_TOKEN_BAD) return at;
        if (mx_token_is(&token, "(")) depth++;
        if (mx_token_is(&token, ")")) depth--;
        if (depth <= 0 && mx_token_is(&token, ",")) return token.text;
    }
}

int mx_args_parse_declaration(sqlite3 *db, const char *declaration, mx_args **args, char **error)
{
    reader r;
    int rc = begin(&r, db, error);
    const char *at = declaration;
    while (rc == SQLITE_OK && *at) {
        const char *stop = argument_end(at);
        char *argument = sqlite3_mprintf("%.*s", (int)(stop - at), at);
        rc = argument ? parse_argument(&r, argument) : SQLITE_NOMEM;
        sqlite3_free(argument);
        at = *stop ? stop + 1 : stop;
    }
    return end(&r, rc, args);
}

void mx_args_free(mx_args *args)
{
    if (!args) return;
    for (int i = 0; i < args->column_count; i++) {
        mx_column *column = &args->columns[i];
        drop_default(column);
        sqlite3_free(column->name);
        sqlite3_free(column->type);
        sqlite3_free(column->collation);
    }
    sqlite3_free(args->columns);
    sqlite3_free(args->key);
    sqlite3_free(args->path);
    sqlite3_free(args->declaration);
    sqlite3_free(args);
}
