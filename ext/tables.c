/* tables.c: memwal_stats and memwal_files, eponymous-only virtual tables with the table's name as a
** hidden column.
**
** xFilter takes everything from the engine at once into an array of cells: the lists are short, and
** a list that is read while it changes would contradict itself. The two tables differ only in their
** columns and in how an answer of the engine becomes a row. */
#include "tables.h"

#include <string.h>

#include "coding.h"
#include "err.h"
#include "internal.h"

typedef struct cell {
    mw_value value; /* bytes: owned */
} cell;

typedef struct kind {
    const char *name;
    const char *declaration; /* the hidden column is the last */
    int column_count;        /* without it */
} kind;

typedef struct list {
    sqlite3_vtab base; /* first: SQLite's part */
    const kind *kind;
    sqlite3 *db;
} list;

typedef struct list_cursor {
    sqlite3_vtab_cursor base; /* first: SQLite's part */
    const kind *kind;
    cell *cells; /* column_count of them per row */
    size_t cell_count;
    size_t cell_room;
    size_t at;   /* first cell of the row at hand */
    bool failed; /* an allocation failed */
    mw_key_kind key;
} list_cursor;

static const kind stats = {
    "memwal_stats",
    "CREATE TABLE x(name TEXT, value, \"table\" HIDDEN)",
    2,
};
static const kind files = {
    "memwal_files",
    "CREATE TABLE x(file TEXT, kind TEXT, level INTEGER, generation INTEGER, rows INTEGER,"
    " tombstones INTEGER, bytes INTEGER, id_min, id_max, \"table\" HIDDEN)",
    9,
};

/* ---- rows ------------------------------------------------------------------------------------ */

static void clear(list_cursor *cursor)
{
    for (size_t i = 0; i < cursor->cell_count; i++) {
        sqlite3_free((void *)(uintptr_t)cursor->cells[i].value.bytes.data);
    }
    cursor->cell_count = 0;
    cursor->at = 0;
    cursor->failed = false;
}

static bool make_room(list_cursor *cursor)
{
    if (cursor->cell_count < cursor->cell_room) return true;
    size_t room = cursor->cell_room ? cursor->cell_room * 2 : 64;
    cell *cells = sqlite3_realloc64(cursor->cells, room * sizeof *cells);
    if (!cells) return false;
    cursor->cells = cells;
    cursor->cell_room = room;
    return true;
}

/* Adds one cell; after a failed allocation nothing more. */
static void put(list_cursor *cursor, const mw_value *value)
{
    if (cursor->failed) return;
    cursor->failed = true;
    if (!make_room(cursor)) return;
    cell *place = &cursor->cells[cursor->cell_count];
    place->value = *value;
    place->value.bytes = (mw_slice){NULL, 0};
    if (value->type == MW_TEXT || value->type == MW_BLOB) {
        uint8_t *copy = sqlite3_malloc64(value->bytes.size + 1);
        if (!copy) return;
        if (value->bytes.size) memcpy(copy, value->bytes.data, value->bytes.size);
        place->value.bytes = (mw_slice){copy, value->bytes.size};
    }
    cursor->cell_count++;
    cursor->failed = false;
}

static void put_text(list_cursor *cursor, const char *text)
{
    mw_value value = {.type = MW_TEXT, .bytes = mw_slice_of(text, strlen(text))};
    put(cursor, &value);
}

static void put_integer(list_cursor *cursor, int64_t integer)
{
    mw_value value = {.type = integer < 0 ? MW_NULL : MW_INTEGER, .integer = integer};
    put(cursor, &value);
}

static void put_key(list_cursor *cursor, mw_slice key)
{
    mw_value value = {.type = MW_NULL};
    if (key.data && cursor->key != MW_KEY_INTEGER) {
        value.type = cursor->key == MW_KEY_TEXT ? MW_TEXT : MW_BLOB;
        value.bytes = key;
    } else if (key.data && key.size == MW_INTEGER_KEY_BYTES) {
        value.type = MW_INTEGER;
        value.integer = mw_key_get_integer(key.data);
    }
    put(cursor, &value);
}

static void add_figure(void *cursor, const char *name, const mw_value *value)
{
    put_text(cursor, name);
    put(cursor, value);
}

static void add_file(void *cursor, const mw_file_info *file)
{
    put_text(cursor, file->name);
    put_text(cursor, file->kind);
    put_integer(cursor, file->level);
    put_integer(cursor, file->generation);
    put_integer(cursor, file->rows);
    put_integer(cursor, file->tombstones);
    put_integer(cursor, file->bytes);
    put_key(cursor, file->key_min);
    put_key(cursor, file->key_max);
}

/* ---- the module ------------------------------------------------------------------------------ */

static int connect(sqlite3 *db, void *arg, int argc, const char *const *argv, sqlite3_vtab **vtab,
                   char **error)
{
    (void)argc;
    (void)argv;
    (void)error;
    const kind *of = arg;
    int rc = sqlite3_declare_vtab(db, of->declaration);
    if (rc == SQLITE_OK) rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    if (rc != SQLITE_OK) return rc;
    list *made = sqlite3_malloc(sizeof *made);
    if (!made) return SQLITE_NOMEM;
    memset(made, 0, sizeof *made);
    made->kind = of;
    made->db = db;
    *vtab = &made->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free((list *)vtab);
    return SQLITE_OK;
}

/* The one plan: the table's name is given. */
static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const list *own = (const list *)vtab;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *term = &info->aConstraint[i];
        if (term->op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
        if (term->iColumn != own->kind->column_count) continue;
        if (!term->usable) return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = 1;
        info->aConstraintUsage[i].omit = 1;
        info->estimatedRows = 40;
        info->estimatedCost = 1000;
        return SQLITE_OK;
    }
    /* SQLite also asks for the terms of an OR by themselves. A plan without the name is a mistake only
    ** when it is carried out. */
    info->estimatedRows = 1000000;
    info->estimatedCost = 1e50;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor)
{
    list_cursor *made = sqlite3_malloc(sizeof *made);
    if (!made) return SQLITE_NOMEM;
    memset(made, 0, sizeof *made);
    made->kind = ((list *)vtab)->kind;
    *cursor = &made->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    list_cursor *cursor = (list_cursor *)base;
    clear(cursor);
    sqlite3_free(cursor->cells);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* Takes error. */
static int give_error(sqlite3_vtab *vtab, int code, char *error)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = error;
    return code;
}

static int fill(list_cursor *cursor, list *own, mx_vtab *found)
{
    char *error = NULL;
    mx_txn *txn = NULL;
    int code = mx_vtab_use(found, &txn, &error);
    if (code != SQLITE_OK) return give_error(&own->base, code, error);
    mw_db *db = mx_txn_db(txn);
    cursor->key = mw_db_schema(db)->key;
    mw_err err = {0};
    mw_rc rc = own->kind == &stats ? mw_db_stats(db, add_figure, cursor, &err)
                                   : mw_db_files(db, add_file, cursor, &err);
    if (rc != MW_OK) return mx_err_vtab(&own->base, &err);
    return cursor->failed ? SQLITE_NOMEM : SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int plan, const char *plan_text, int argc,
                  sqlite3_value **argv)
{
    (void)plan;
    (void)plan_text;
    list_cursor *cursor = (list_cursor *)base;
    list *own = (list *)base->pVtab;
    clear(cursor);
    if (argc == 0 || sqlite3_value_type(argv[0]) != SQLITE_TEXT) {
        return mx_err_set(&own->base, SQLITE_ERROR,
                          "%s(t): expected a table's name: 't' or 'schema.t'", own->kind->name);
    }
    const char *table = (const char *)sqlite3_value_text(argv[0]);
    if (!table) return SQLITE_NOMEM;
    char *error = NULL;
    mx_vtab *found = NULL;
    int code = mx_vtab_find(own->db, table, &found, &error);
    if (code != SQLITE_OK) return give_error(&own->base, code, error);
    code = fill(cursor, own, found);
    mx_vtab_release(found);
    return code;
}

static int next(sqlite3_vtab_cursor *base)
{
    list_cursor *cursor = (list_cursor *)base;
    cursor->at += (size_t)cursor->kind->column_count;
    return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base)
{
    const list_cursor *cursor = (const list_cursor *)base;
    return cursor->at >= cursor->cell_count;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int index)
{
    const list_cursor *cursor = (const list_cursor *)base;
    if (index >= cursor->kind->column_count) return SQLITE_OK;
    const mw_value *value = &cursor->cells[cursor->at + (size_t)index].value;
    const char *bytes = (const char *)value->bytes.data;
    switch (value->type) {
    case MW_NULL: sqlite3_result_null(context); break;
    case MW_INTEGER: sqlite3_result_int64(context, value->integer); break;
    case MW_REAL: sqlite3_result_double(context, value->real); break;
    case MW_TEXT:
        sqlite3_result_text64(context, bytes, value->bytes.size, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case MW_BLOB: sqlite3_result_blob64(context, bytes, value->bytes.size, SQLITE_TRANSIENT); break;
    }
    return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const list_cursor *cursor = (const list_cursor *)base;
    *id = (sqlite3_int64)(cursor->at / (size_t)cursor->kind->column_count) + 1;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = connect, /* no xCreate: such a table exists by its name alone */
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

static int register_kind(sqlite3 *db, const kind *of)
{
    return sqlite3_create_module_v2(db, of->name, &module, (void *)(uintptr_t)of, NULL);
}

int mx_tables_register(sqlite3 *db)
{
    int rc = register_kind(db, &stats);
    return rc == SQLITE_OK ? register_kind(db, &files) : rc;
}
