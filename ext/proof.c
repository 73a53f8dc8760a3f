/* proof.c: when the store alone may decide about a transaction.
**
** SQLite does not tell whether a transaction has changed ordinary tables. Where it cannot have, the
** store's entry is the commit; everywhere else the host database has to decide, which costs a commit
** of its own there. So this is a proof, and whatever is not proven counts as changed:
**
**   - the statement is a transaction by itself (autocommit),
**   - no other statement of the connection that can write is under way: INSERT .. RETURNING that was
**     not stepped to its end, a statement whose SQL function runs this one,
**   - its text names this table and no other, and runs no code of the application: INSERT .. VALUES,
**     UPDATE or DELETE, without a subquery or RETURNING, with SQLite's own functions at most. Names
**     are resolved as SQLite does: a view of that name in temp may have triggers that write
**     elsewhere, and a function of that name may be the application's,
**   - sqlite3_total_changes has not moved meanwhile.
**
** The text of the statement that was proven last is kept: a statement that is run again is not read
** again, while nothing has happened that could give its names another meaning. A view in temp is
** seen by temp's data version. Calls of functions are always looked up anew.
**
** Nothing is asked of SQLite in xBegin: a nested statement that runs out of memory there rolls back
** the transaction that SQLite is about to enter the table into. */
#include "proof.h"

#include <string.h>

#include "token.h"

typedef struct reader {
    const char *at;
    mx_token token; /* the next one */
    bool calls;     /* there were functions */
} reader;

static void advance(reader *self) { self->token = mx_token_next(&self->at); }

/* Passes over this word or mark, if it is there. */
static bool take(reader *self, const char *word)
{
    if (!mx_token_is(&self->token, word)) return false;
    advance(self);
    return true;
}

static bool is_one_of(const mx_token *token, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (mx_token_is(token, words[i])) return true;
    }
    return false;
}
#define IS_ONE_OF(token, words) is_one_of(token, words, sizeof(words) / sizeof *(words))

/* ---- the table's name ------------------------------------------------------------------------ */

/* A name, without its quotes; the caller's, sqlite3_free. NULL: there is none, or no memory. */
static char *take_name(reader *self)
{
    mx_token_kind kind = self->token.kind;
    bool name = kind == MX_TOKEN_WORD || kind == MX_TOKEN_QUOTED || kind == MX_TOKEN_STRING;
    char *text = name ? mx_token_text(&self->token) : NULL;
    if (text) advance(self);
    return text;
}

/* Does temp hold anything of that name? It would be found first. */
static bool is_hidden_by_temp(sqlite3 *db, const char *name)
{
    sqlite3_stmt *statement = NULL;
    static const char sql[] =
        "SELECT 1 FROM temp.sqlite_master WHERE name = ?1 COLLATE NOCASE AND type <> 'trigger'";
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return rc != SQLITE_DONE;
}

static bool is_resolved(const mx_vtab *vtab, const char *schema, const char *name)
{
    sqlite3 *db = vtab->connection->db;
    if (sqlite3_stricmp(name, vtab->name) != 0) return false;
    if (schema) return sqlite3_stricmp(schema, vtab->schema) == 0;
    return sqlite3_stricmp(vtab->schema, sqlite3_db_name(db, 0)) == 0 &&
           !is_hidden_by_temp(db, name);
}

static bool take_table(reader *self, const mx_vtab *vtab)
{
    char *schema = NULL;
    char *name = take_name(self);
    if (name && take(self, ".")) {
        schema = name;
        name = take_name(self);
    }
    bool ours = name && is_resolved(vtab, schema, name);
    sqlite3_free(schema);
    sqlite3_free(name);
    return ours;
}

/* ---- the statement --------------------------------------------------------------------------- */

/* Is it a function of SQLite's own that changes nothing, and has the application not put one of its
** own in its place? What is no function at all (CAST, IN, a keyword) is none of the application's
** either. */
static bool is_harmless(sqlite3 *db, const mx_token *name)
{
    static const char sql[] =
        "SELECT 1 FROM pragma_function_list WHERE builtin = 0 AND name = ?1 COLLATE NOCASE";
    sqlite3_stmt *statement = NULL;
    char *text = mx_token_text(name);
    if (!text || sqlite3_stricmp(text, "load_extension") == 0) {
        sqlite3_free(text);
        return false;
    }
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    sqlite3_free(text);
    return rc == SQLITE_DONE;
}

/* Passes over one token, if it leads to no other table and to no code of others. */
static bool take_harmless(reader *self, sqlite3 *db)
{
    static const char *const bad[] = {"RETURNING", "SELECT", "FROM", "MATCH", "REGEXP", "{"};
    static const char *const operators[] = {"LIKE", "GLOB"}; /* by functions of these names */
    static const char *const never[] = {"VALUES", "AND", "OR", "NOT", "SET", "WHERE"};
    const mx_token token = self->token;
    if (token.kind == MX_TOKEN_BAD || IS_ONE_OF(&token, bad)) return false;
    advance(self);
    if (mx_token_is(&token, "IN")) return mx_token_is(&self->token, "("); /* else it is a table */
    if (mx_token_is(&token, "-")) return !mx_token_is(&self->token, ">"); /* -> is a function */
    self->calls = self->calls || IS_ONE_OF(&token, operators);
    if (IS_ONE_OF(&token, operators)) return is_harmless(db, &token);
    bool name = token.kind == MX_TOKEN_WORD || token.kind == MX_TOKEN_QUOTED ||
                token.kind == MX_TOKEN_STRING;
    bool call = name && mx_token_is(&self->token, "(") && !IS_ONE_OF(&token, never);
    self->calls = self->calls || call;
    return !call || is_harmless(db, &token);
}

/* What follows the table. */
static bool is_harmless_rest(reader *self, const mx_vtab *vtab)
{
    while (!mx_token_is(&self->token, ";") && self->token.kind != MX_TOKEN_END) {
        if (!take_harmless(self, vtab->connection->db)) return false;
    }
    while (take(self, ";")) {
    }
    return self->token.kind == MX_TOKEN_END;
}

static bool take_column_list(reader *self)
{
    if (!take(self, "(")) return true;
    do {
        char *name = take_name(self);
        sqlite3_free(name);
        if (!name) return false;
    } while (take(self, ","));
    return take(self, ")");
}

static bool is_simple_insert(reader *self, const mx_vtab *vtab)
{
    return take(self, "INTO") && take_table(self, vtab) && take_column_list(self) &&
           take(self, "VALUES") && is_harmless_rest(self, vtab);
}

/* UPDATE or DELETE behind its verb. */
static bool is_simple_change(reader *self, const mx_vtab *vtab)
{
    return take_table(self, vtab) && is_harmless_rest(self, vtab);
}

/* OR and a word behind it, where they are. */
static void take_conflict_clause(reader *self)
{
    if (take(self, "OR")) advance(self);
}

static bool is_simple(reader *self, const mx_vtab *vtab)
{
    advance(self);
    if (take(self, "REPLACE")) return is_simple_insert(self, vtab);
    if (take(self, "INSERT")) {
        take_conflict_clause(self);
        return is_simple_insert(self, vtab);
    }
    if (take(self, "UPDATE")) {
        take_conflict_clause(self);
        return is_simple_change(self, vtab);
    }
    return take(self, "DELETE") && take(self, "FROM") && is_simple_change(self, vtab);
}

/* ---- what was proven before ------------------------------------------------------------------ */

struct mx_proven {
    const mx_vtab *vtab;
    sqlite3_stmt *statement;
    int prepared;  /* how often it was prepared anew      */
    unsigned temp; /* data version of temp                */
    char sql[];    /* its text: the pointer alone may have been given to another one */
};

/* 0: there is no temp yet. */
static unsigned temp_version(sqlite3 *db)
{
    unsigned version = 0;
    int rc = sqlite3_file_control(db, "temp", SQLITE_FCNTL_DATA_VERSION, &version);
    return rc == SQLITE_OK ? version : 0;
}

static bool is_proven(const mx_vtab *vtab, sqlite3_stmt *statement, const char *sql)
{
    const mx_proven *last = vtab->connection->proven;
    return last && last->vtab == vtab && last->statement == statement &&
           last->prepared == sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0) &&
           last->temp == temp_version(vtab->connection->db) && strcmp(last->sql, sql) == 0;
}

/* What cannot be kept is proven again. */
static void keep(const mx_vtab *vtab, sqlite3_stmt *statement, const char *sql)
{
    size_t bytes = strlen(sql) + 1;
    mx_connection *connection = vtab->connection;
    mx_proven *proven = sqlite3_realloc64(connection->proven, sizeof *proven + bytes);
    if (!proven) {
        mx_proof_forget(connection);
        return;
    }
    proven->vtab = vtab;
    proven->statement = statement;
    proven->prepared = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0);
    proven->temp = temp_version(connection->db);
    memcpy(proven->sql, sql, bytes);
    connection->proven = proven;
}

void mx_proof_forget(mx_connection *connection)
{
    sqlite3_free(connection->proven);
    connection->proven = NULL;
}

/* ---- statements under way -------------------------------------------------------------------- */

/* The only statement under way that can write; NULL: there are several. */
static sqlite3_stmt *only_writer(sqlite3 *db)
{
    sqlite3_stmt *found = NULL;
    for (sqlite3_stmt *at = sqlite3_next_stmt(db, NULL); at; at = sqlite3_next_stmt(db, at)) {
        if (!sqlite3_stmt_busy(at) || sqlite3_stmt_readonly(at)) continue;
        if (found) return NULL;
        found = at;
    }
    return found;
}

mx_proof mx_proof_begin(sqlite3 *db)
{
    mx_proof proof = {.changes = sqlite3_total_changes64(db)};
    if (sqlite3_get_autocommit(db)) proof.statement = only_writer(db);
    return proof;
}

bool mx_proof_holds(const mx_proof *proof, const mx_vtab *vtab)
{
    sqlite3 *db = vtab->connection->db;
    if (!proof->statement || only_writer(db) != proof->statement) return false;
    if (sqlite3_total_changes64(db) != proof->changes) return false;
    const char *sql = sqlite3_sql(proof->statement);
    if (!sql) return false;
    if (is_proven(vtab, proof->statement, sql)) return true;
    reader self = {.at = sql};
    bool simple = is_simple(&self, vtab);
    if (simple && !self.calls) keep(vtab, proof->statement, sql);
    return simple;
}
