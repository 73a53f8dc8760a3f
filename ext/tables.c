/* tables.c: memwal_stats, memwal_files and memwal_wal, eponymous-only virtual tables with the table's
** name as a hidden column.
**
** Rows lie in an array of cells. For memwal_stats and memwal_files xFilter takes everything from the
** engine at once: the lists are short, and a list that is read while it changes would contradict
** itself. The log may hold millions of entries: memwal_wal keeps a view of one moment (db.h) and
** has one row in its cells at a time. */
#include "tables.h"

#include <string.h>

#include "coding.h"
#include "err.h"
#include "internal.h"
#include "key.h"
#include "world.h"

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
    size_t at;         /* first cell of the row at hand */
    sqlite3_int64 row; /* its number, from 1 */
    bool failed;       /* an allocation failed */
    mw_key_kind key;
    int key_columns;   /* of encoded keys */
    mw_log_view *view; /* memwal_wal: what the next rows come from */
    char *folder;      /* of the store, for messages; owned        */
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

static const kind wal = {
    "memwal_wal",
    "CREATE TABLE x(position INTEGER, epoch INTEGER, generation INTEGER, puts INTEGER,"
    " deletes INTEGER, bytes INTEGER, state TEXT, \"table\" HIDDEN)",
    7,
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

/* A value as it would be written in SQL. */
static void append_literal(sqlite3_str *text, const mw_value *value)
{
    switch (value->type) {
    case MW_NULL: sqlite3_str_appendall(text, "NULL"); break;
    case MW_INTEGER: sqlite3_str_appendf(text, "%lld", (long long)value->integer); break;
    case MW_REAL: sqlite3_str_appendf(text, "%!.17g", value->real); break;
    case MW_TEXT:
        sqlite3_str_appendf(text, "'%.*q'", (int)value->bytes.size, (const char *)value->bytes.data);
        break;
    case MW_BLOB:
        sqlite3_str_appendall(text, "x'");
        for (size_t i = 0; i < value->bytes.size; i++) {
            sqlite3_str_appendf(text, "%02x", value->bytes.data[i]);
        }
        sqlite3_str_appendall(text, "'");
        break;
    }
}

/* The values of a key of several columns in one text. */
static void put_list(list_cursor *cursor, const mw_value *values)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    for (int i = 0; i < cursor->key_columns; i++) {
        sqlite3_str_appendall(text, i ? ", " : "(");
        append_literal(text, &values[i]);
    }
    sqlite3_str_appendall(text, ")");
    char *whole = sqlite3_str_finish(text);
    if (whole) {
        put_text(cursor, whole);
    } else {
        cursor->failed = true;
    }
    sqlite3_free(whole);
}

/* An encoded key as people wrote it, numbers in their plainest form; bytes that are none as they
** are. */
static void put_encoded(list_cursor *cursor, mw_slice key)
{
    size_t count = (size_t)cursor->key_columns;
    mw_value *values = sqlite3_malloc64(count * sizeof *values);
    mw_buf texts;
    mw_buf_init(&texts, mx_world_env());
    mw_err err = {0};
    mw_rc rc = MW_NOMEM;
    if (values) rc = mw_key_decode(key, (uint32_t)count, values, &texts, &err);
    mw_value bytes = {.type = MW_BLOB, .bytes = key};
    if (rc == MW_NOMEM) {
        cursor->failed = true;
    } else if (rc != MW_OK) {
        put(cursor, &bytes);
    } else if (count == 1) {
        put(cursor, &values[0]);
    } else {
        put_list(cursor, values);
    }
    mw_buf_free(&texts);
    sqlite3_free(values);
}

/* An engine key as a value that people can read; NULL: there is none. */
static void put_key(list_cursor *cursor, mw_slice key)
{
    mw_value value = {.type = MW_NULL};
    if (key.data && cursor->key == MW_KEY_ENCODED) {
        put_encoded(cursor, key);
        return;
    }
    if (key.data && cursor->key == MW_KEY_TEXT) {
        value = (mw_value){.type = MW_TEXT, .bytes = key};
    } else if (key.data && key.size == MW_INTEGER_KEY_BYTES) {
        value = (mw_value){.type = MW_INTEGER, .integer = mw_key_get_integer(key.data)};
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

static void add_line(list_cursor *cursor, const mw_log_line *line)
{
    put_integer(cursor, (int64_t)line->position);
    put_integer(cursor, (int64_t)line->epoch);
    put_integer(cursor, (int64_t)line->generation);
    put_integer(cursor, (int64_t)line->puts);
    put_integer(cursor, (int64_t)line->deletes);
    put_integer(cursor, (int64_t)line->bytes);
    put_text(cursor, line->state);
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
    mw_log_view_close(cursor->view);
    sqlite3_free(cursor->folder);
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

static int give_engine_error(list_cursor *cursor, const mw_err *err)
{
    return give_error(cursor->base.pVtab, mx_err_code(err), mx_err_text(err, cursor->folder));
}

/* The next row of the view takes the place of the one before; behind the last there is none. */
static int next_line(list_cursor *cursor)
{
    mw_err err;
    mw_log_line line;
    bool any = false;
    mx_err_clear(&err);
    clear(cursor);
    if (mw_log_view_next(cursor->view, &line, &any, &err) != MW_OK) {
        return give_engine_error(cursor, &err);
    }
    if (any) add_line(cursor, &line);
    return cursor->failed ? SQLITE_NOMEM : SQLITE_OK;
}

static int fill(list_cursor *cursor, list *own, mx_vtab *found)
{
    char *error = NULL;
    mx_txn *txn = NULL;
    int code = mx_vtab_use(found, &txn, &error);
    if (code != SQLITE_OK) return give_error(&own->base, code, error);
    mw_db *db = mx_txn_db(txn);
    sqlite3_free(cursor->folder);
    cursor->folder = sqlite3_mprintf("%s", found->path); /* NULL: words without it */
    cursor->key = mw_db_schema(db)->key;
    cursor->key_columns = found->args->key_count;
    mw_err err = {0};
    mw_rc rc = MW_OK;
    if (own->kind == &stats) {
        rc = mw_db_stats(db, add_figure, cursor, &err);
    } else if (own->kind == &files) {
        rc = mw_db_files(db, add_file, cursor, &err);
    } else {
        rc = mw_log_view_open(db, &cursor->view, &err);
    }
    if (rc != MW_OK) return give_engine_error(cursor, &err);
    if (cursor->view) return next_line(cursor);
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
    mw_log_view_close(cursor->view);
    cursor->view = NULL;
    cursor->row = 1;
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
    cursor->row++;
    if (cursor->view) return next_line(cursor);
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
    *id = cursor->row;
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
    if (rc == SQLITE_OK) rc = register_kind(db, &files);
    return rc == SQLITE_OK ? register_kind(db, &wal) : rc;
}
