/* nothing.h: a virtual table that stores nothing and shows *rows rows of NULLs: what SQLite's
** interface costs by itself. In SQL its name is hollow, for NOTHING is a keyword. */
#ifndef NOTHING_H
#define NOTHING_H

#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct nothing_table {
    sqlite3_vtab base;
    const int64_t *rows;
} nothing_table;

typedef struct nothing_cursor {
    sqlite3_vtab_cursor base;
    int64_t left;
} nothing_cursor;

static int nothing_connect(sqlite3 *db, void *arg, int argc, const char *const *argv,
                           sqlite3_vtab **to, char **error)
{
    (void)argc;
    (void)argv;
    (void)error;
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(id, a, b, c, d)");
    if (rc != SQLITE_OK) return rc;
    nothing_table *made = calloc(1, sizeof *made);
    if (!made) return SQLITE_NOMEM;
    made->rows = arg;
    *to = &made->base;
    return SQLITE_OK;
}

static int nothing_disconnect(sqlite3_vtab *table)
{
    free(table);
    return SQLITE_OK;
}

static int nothing_plan(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int nothing_open(sqlite3_vtab *table, sqlite3_vtab_cursor **to)
{
    (void)table;
    nothing_cursor *made = calloc(1, sizeof *made);
    if (!made) return SQLITE_NOMEM;
    *to = &made->base;
    return SQLITE_OK;
}

static int nothing_close(sqlite3_vtab_cursor *cursor)
{
    free(cursor);
    return SQLITE_OK;
}

static int nothing_filter(sqlite3_vtab_cursor *cursor, int plan, const char *words, int argc,
                          sqlite3_value **argv)
{
    (void)plan;
    (void)words;
    (void)argc;
    (void)argv;
    ((nothing_cursor *)cursor)->left = *((nothing_table *)cursor->pVtab)->rows;
    return SQLITE_OK;
}

static int nothing_next(sqlite3_vtab_cursor *cursor)
{
    ((nothing_cursor *)cursor)->left--;
    return SQLITE_OK;
}

static int nothing_eof(sqlite3_vtab_cursor *cursor)
{
    return ((nothing_cursor *)cursor)->left <= 0;
}

static int nothing_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    (void)cursor;
    (void)context;
    (void)column;
    return SQLITE_OK;
}

static int nothing_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid)
{
    *rowid = ((nothing_cursor *)cursor)->left;
    return SQLITE_OK;
}

/* rows: borrowed for as long as db is open. */
static inline void nothing_register(sqlite3 *db, int64_t *rows)
{
    static const sqlite3_module module = {
        .iVersion = 1,
        .xConnect = nothing_connect,
        .xBestIndex = nothing_plan,
        .xDisconnect = nothing_disconnect,
        .xOpen = nothing_open,
        .xClose = nothing_close,
        .xFilter = nothing_filter,
        .xNext = nothing_next,
        .xEof = nothing_eof,
        .xColumn = nothing_column,
        .xRowid = nothing_rowid,
    };
    sqlite3_create_module(db, "hollow", &module, rows);
}

#endif
