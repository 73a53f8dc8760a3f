/* cursor.c: reading rows.
**
** A cursor takes the statement's snapshot at its first xFilter and keeps it until xClose, however
** often an outer loop filters it anew: one statement sees one moment.
**
** xFilter turns the plan and its arguments into ranges of keys (range.c), which are shown one after
** the other. Where no row can match it stands at the end at once; where SQLite may compare in more
** than one way, more rows are shown than asked for, which SQLite then looks at again.
**
** Where rows are wanted in the order of the rest of their keys (MX_PLAN_BY_REST), that is how they
** come, unless a number was compared with texts and there are some that may be equal to it. Then the
** keys are collected and sorted first.
**
** The values of an encoded key are taken apart once a row, when the first of them is asked for.
**
** Counting: SQLite counts by stepping. Where no column is asked for, a step is one subtraction, and
** the rows are opened only if xColumn or xRowid is called after all (DELETE does so): then the
** cursor goes to the row at which the counting has arrived. */
#include "coding.h"
#include "connection.h"
#include "plan.h"
#include "range.h"
#include "row.h"
#include "txn.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

typedef struct mx_cursor {
    sqlite3_vtab_cursor base; /* first: SQLite's part                                   */
    mx_txn *txn;              /* NULL before the first xFilter; the table's             */
    mw_snapshot *snapshot;    /* a reference                                            */
    mw_cursor *rows;          /* NULL while counting                                    */
    bool eof;
    bool backward;
    bool counting;
    int64_t left;             /* counting: rows still to be shown, the present included */
    int64_t passed;           /* counting: rows shown before                            */
    mx_ranges ranges;         /* what is asked for                                      */
    size_t started;           /* how many of them have been started                     */
    const mx_range *range;    /* the last of these                                      */
    mw_value *values;         /* of an encoded key: of the row at which it stands       */
    mw_buf texts;             /* what some of them point to                             */
    bool read;                /* they have been read                                    */
} mx_cursor;

static mx_vtab *table_of(const mx_cursor *cursor) { return (mx_vtab *)cursor->base.pVtab; }

static int fail(const mx_cursor *cursor, const mw_err *err)
{
    return mx_txn_fail(table_of(cursor), err);
}

/* ---- moving --------------------------------------------------------------------------------- */

static bool is_past_stop(const mx_cursor *cursor)
{
    const mx_end *stop = cursor->backward ? &cursor->range->low : &cursor->range->high;
    if (!stop->set) return false;
    int order = mw_slice_compare(mw_cursor_key(cursor->rows), mx_ranges_key(&cursor->ranges, stop));
    if (cursor->backward) order = -order;
    return order > 0 || (order == 0 && stop->strict);
}

static void settle_position(mx_cursor *cursor)
{
    cursor->read = false;
    cursor->eof = !mw_cursor_valid(cursor->rows) || is_past_stop(cursor);
}

static int open_rows(mx_cursor *cursor)
{
    if (cursor->rows) return SQLITE_OK;
    mw_err err;
    mx_err_clear(&err);
    if (mw_cursor_open(cursor->snapshot, &cursor->rows, &err) != MW_OK) return fail(cursor, &err);
    return SQLITE_OK;
}

/* To the first row of the range, or behind it. */
static mw_rc go_to_start(mx_cursor *cursor, mw_err *err)
{
    mw_cursor *rows = cursor->rows;
    const mx_end *start = cursor->backward ? &cursor->range->high : &cursor->range->low;
    if (!start->set) {
        return cursor->backward ? mw_cursor_last(rows, err) : mw_cursor_first(rows, err);
    }
    mw_slice key = mx_ranges_key(&cursor->ranges, start);
    mw_rc rc = cursor->backward ? mw_cursor_seek_back(rows, key, err)
                                : mw_cursor_seek(rows, key, err);
    if (rc != MW_OK || !start->strict || !mw_cursor_valid(rows)) return rc;
    if (!mw_slice_equal(mw_cursor_key(rows), key)) return MW_OK;
    return cursor->backward ? mw_cursor_prev(rows, err) : mw_cursor_next(rows, err);
}

static mw_rc start_range(mx_cursor *cursor, mw_err *err)
{
    if (cursor->range->point) {
        mw_slice key = mx_ranges_key(&cursor->ranges, &cursor->range->low);
        mw_rc rc = mw_cursor_find(cursor->rows, key, err);
        cursor->read = false;
        cursor->eof = rc != MW_OK || !mw_cursor_valid(cursor->rows);
        return rc;
    }
    mw_rc rc = go_to_start(cursor, err);
    if (rc == MW_OK) settle_position(cursor);
    return rc;
}

/* To the first row of the next range that has one. */
static int next_range(mx_cursor *cursor)
{
    size_t count = mx_ranges_count(&cursor->ranges);
    mw_err err;
    mx_err_clear(&err);
    for (cursor->eof = true; cursor->eof && cursor->started < count;) {
        if (cursor->started % 1024 == 1023 &&
            mx_connection_interrupted(table_of(cursor)->connection)) {
            return SQLITE_INTERRUPT;
        }
        size_t index = cursor->backward ? count - 1 - cursor->started : cursor->started;
        cursor->range = mx_ranges_at(&cursor->ranges, index);
        cursor->started++;
        if (start_range(cursor, &err) != MW_OK) return fail(cursor, &err);
    }
    return SQLITE_OK;
}

/* To the first row of all ranges. */
static int start_ranges(mx_cursor *cursor)
{
    cursor->started = 0;
    int rc = open_rows(cursor);
    return rc == SQLITE_OK ? next_range(cursor) : rc;
}

/* ---- sorting -------------------------------------------------------------------------------- */

enum { SORTED_BYTES_MAX = 64 << 20 }; /* of keys */

typedef struct sorted {
    mw_slice rest; /* behind the columns that are compared for equality */
    mw_slice key;
} sorted;

static int compare_sorted(const void *left, const void *right)
{
    const sorted *a = left;
    const sorted *b = right;
    int order = mw_slice_compare(a->rest, b->rest);
    return order != 0 ? order : mw_slice_compare(a->key, b->key);
}

/* Where the rest of the key at hand begins: behind what its first values are as a prefix. */
static mw_rc find_rest(mx_cursor *cursor, uint32_t equals, mw_buf *prefix, mw_err *err)
{
    uint32_t columns = (uint32_t)table_of(cursor)->args->key_count;
    mw_slice key = mw_cursor_key(cursor->rows);
    mw_rc rc = mw_key_decode(key, columns, cursor->values, &cursor->texts, err);
    mw_buf_clear(prefix);
    if (rc == MW_OK) mw_key_encode(prefix, cursor->values, equals, columns);
    return rc == MW_OK ? mw_buf_check(prefix, err) : rc;
}

static int step(mx_cursor *cursor);

/* Copies the keys of all rows into keys, and says in items where they are. */
static int collect(mx_cursor *cursor, uint32_t equals, mw_buf *keys, mw_buf *items)
{
    mw_buf prefix;
    mw_err err;
    int rc = SQLITE_OK;
    mw_buf_init(&prefix, mx_world_env());
    mx_err_clear(&err);
    for (size_t i = 0; rc == SQLITE_OK && !cursor->eof; i++) {
        mw_slice key = mw_cursor_key(cursor->rows);
        if (i % 1024 == 1023 && mx_connection_interrupted(table_of(cursor)->connection)) {
            rc = SQLITE_INTERRUPT;
        } else if (find_rest(cursor, equals, &prefix, &err) != MW_OK) {
            rc = fail(cursor, &err);
        } else if (keys->size > SORTED_BYTES_MAX) {
            rc = mx_err_set(cursor->base.pVtab, SQLITE_TOOBIG,
                            "a key of %s is compared with a number that too many texts may be equal "
                            "to: expected a text, or no ORDER BY",
                            table_of(cursor)->name);
        }
        if (rc != SQLITE_OK) break;
        sorted item = {.rest.size = key.size - prefix.size, .key.size = key.size};
        mw_buf_put_slice(keys, key);
        mw_buf_put(items, &item, sizeof item);
        rc = keys->failed || items->failed ? SQLITE_NOMEM : step(cursor);
    }
    mw_buf_free(&prefix);
    return rc;
}

/* The keys of all rows in place of the ranges, in the order of their rests. */
static int sort(mx_cursor *cursor, uint32_t equals)
{
    mw_buf keys;
    mw_buf items;
    mw_buf_init(&keys, mx_world_env());
    mw_buf_init(&items, mx_world_env());
    int rc = collect(cursor, equals, &keys, &items);
    sorted *list = (sorted *)(void *)items.data;
    size_t count = items.size / sizeof *list;
    const uint8_t *at = keys.data;
    for (size_t i = 0; i < count; i++) {
        list[i].key.data = at;
        at += list[i].key.size;
        list[i].rest.data = at - list[i].rest.size;
    }
    if (rc == SQLITE_OK && count > 0) qsort(list, count, sizeof *list, compare_sorted);
    mx_ranges_clear(&cursor->ranges);
    for (size_t i = 0; rc == SQLITE_OK && i < count; i++) {
        rc = mx_ranges_add(&cursor->ranges, list[i].key);
    }
    mw_buf_free(&keys);
    mw_buf_free(&items);
    return rc;
}

/* Rows whose first columns may differ, as the plan did not expect: none, or all are sorted. */
static int start_by_rest(mx_cursor *cursor, uint32_t equals)
{
    size_t count = mx_ranges_count(&cursor->ranges);
    bool backward = cursor->backward;
    cursor->backward = false;
    cursor->started = cursor->ranges.equal;
    int rc = open_rows(cursor);
    if (rc == SQLITE_OK && cursor->started < count) rc = next_range(cursor);
    bool some = rc == SQLITE_OK && cursor->ranges.equal < count && !cursor->eof;
    if (some) rc = start_ranges(cursor);
    if (some && rc == SQLITE_OK) rc = sort(cursor, equals);
    cursor->backward = backward;
    return rc == SQLITE_OK ? start_ranges(cursor) : rc;
}

static int step(mx_cursor *cursor)
{
    if (cursor->range->point) return next_range(cursor);
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = cursor->backward ? mw_cursor_prev(cursor->rows, &err)
                                : mw_cursor_next(cursor->rows, &err);
    if (rc != MW_OK) return fail(cursor, &err);
    settle_position(cursor);
    return cursor->eof ? next_range(cursor) : SQLITE_OK;
}

/* From counting to reading: to the row that the counting has reached. */
static int start_reading(mx_cursor *cursor)
{
    int64_t passed = cursor->passed;
    cursor->counting = false;
    int rc = mx_ranges_all(&cursor->ranges);
    if (rc == SQLITE_OK) rc = start_ranges(cursor);
    for (int64_t i = 0; i < passed && rc == SQLITE_OK && !cursor->eof; i++) {
        if (i % 1024 == 0 && mx_connection_interrupted(table_of(cursor)->connection)) {
            return SQLITE_INTERRUPT;
        }
        rc = step(cursor);
    }
    if (rc == SQLITE_OK && cursor->eof) {
        return mx_err_set(cursor->base.pVtab, SQLITE_CORRUPT, "%s has fewer rows than its count",
                          table_of(cursor)->name);
    }
    return rc;
}

/* ---- callbacks ------------------------------------------------------------------------------ */

int mx_cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **to)
{
    const mx_vtab *vtab = (const mx_vtab *)base;
    size_t values = vtab->key == MW_KEY_ENCODED ? (size_t)vtab->args->key_count : 0;
    mx_cursor *cursor = sqlite3_malloc64(sizeof *cursor + values * sizeof *cursor->values);
    if (!cursor) return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    cursor->eof = true;
    cursor->values = (mw_value *)(void *)(cursor + 1);
    mx_ranges_init(&cursor->ranges);
    mw_buf_init(&cursor->texts, mx_world_env());
    *to = &cursor->base;
    return SQLITE_OK;
}

int mx_cursor_close(sqlite3_vtab_cursor *base)
{
    mx_cursor *cursor = (mx_cursor *)base;
    /* In a forked child the engine's locks may be held by threads that are not there. */
    if (!mx_connection_is_forked(table_of(cursor)->connection)) {
        mw_cursor_close(cursor->rows);
        mw_snapshot_release(cursor->snapshot);
    }
    if (cursor->txn) mx_txn_reader_end(cursor->txn);
    mx_ranges_free(&cursor->ranges);
    mw_buf_free(&cursor->texts);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* What may read the store in the middle of a statement: a child that goes on with its parent's
** would wait for locks that nobody gives up. */
static int check_process(mx_cursor *cursor)
{
    mx_vtab *vtab = table_of(cursor);
    return mx_connection_check(vtab->connection, &vtab->base.zErrMsg);
}

static int take_snapshot(mx_cursor *cursor)
{
    mx_vtab *vtab = table_of(cursor);
    if (cursor->snapshot) return SQLITE_OK;
    int rc = mx_txn_reader_begin(vtab, &cursor->snapshot);
    if (rc == SQLITE_OK) cursor->txn = vtab->txn;
    return rc;
}

static int start_counting(mx_cursor *cursor)
{
    cursor->counting = true;
    cursor->left = mw_snapshot_count(cursor->snapshot);
    cursor->passed = 0;
    cursor->eof = cursor->left == 0;
    return SQLITE_OK;
}

int mx_cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *words, int argc,
                     sqlite3_value **argv)
{
    (void)words;
    (void)argc;
    mx_cursor *cursor = (mx_cursor *)base;
    int rc = check_process(cursor);
    if (rc == SQLITE_OK) rc = take_snapshot(cursor);
    if (rc != SQLITE_OK) return rc;
    cursor->backward = (plan & MX_PLAN_BACKWARD) != 0;
    cursor->counting = false;
    if (plan & MX_PLAN_COUNT) return start_counting(cursor);
    rc = mx_ranges_read(&cursor->ranges, table_of(cursor), plan, argv);
    if (rc != SQLITE_OK) return rc;
    cursor->eof = mx_ranges_count(&cursor->ranges) == 0;
    if (cursor->eof) return SQLITE_OK;
    return plan & MX_PLAN_BY_REST ? start_by_rest(cursor, MX_PLAN_EQUALS(plan))
                                  : start_ranges(cursor);
}

int mx_cursor_next(sqlite3_vtab_cursor *base)
{
    mx_cursor *cursor = (mx_cursor *)base;
    int rc = check_process(cursor);
    if (rc != SQLITE_OK) return rc;
    if (!cursor->counting) return step(cursor);
    cursor->passed++;
    cursor->eof = --cursor->left <= 0;
    return SQLITE_OK;
}

int mx_cursor_eof(sqlite3_vtab_cursor *base) { return ((mx_cursor *)base)->eof; }

/* Takes the encoded key of the row at hand apart. */
static mw_rc read_key(mx_cursor *cursor, mw_err *err)
{
    const mx_vtab *vtab = table_of(cursor);
    const mx_args *args = vtab->args;
    mw_value forms = {.type = MW_NULL};
    bool open = false;
    mw_rc rc = mw_key_decode(mw_cursor_key(cursor->rows), (uint32_t)args->key_count, cursor->values,
                             &cursor->texts, err);
    for (int i = 0; rc == MW_OK && i < args->key_count; i++) {
        open = open || mx_key_is_open(&args->columns[args->key[i]], &cursor->values[i]);
    }
    if (rc == MW_OK && open) rc = mw_cursor_column(cursor->rows, 0, &forms, err);
    for (int i = 0; rc == MW_OK && i < args->key_count; i++) {
        rc = mx_key_value(args, i, &forms, &cursor->values[i], err);
    }
    cursor->read = rc == MW_OK;
    return rc;
}

/* A column of the key; column_count: all of it, the hidden column of a key of several. */
static mw_rc key_column(mx_cursor *cursor, int column, mw_value *value, mw_err *err)
{
    const mx_vtab *vtab = table_of(cursor);
    *value = (mw_value){.type = MW_BLOB, .bytes = mw_cursor_key(cursor->rows)};
    if (column == vtab->args->column_count) return MW_OK;
    if (vtab->key == MW_KEY_TEXT) {
        value->type = MW_TEXT;
    } else if (vtab->key == MW_KEY_INTEGER) {
        value->type = MW_INTEGER;
        value->integer = mw_key_get_integer(value->bytes.data);
    } else {
        mw_rc rc = cursor->read ? MW_OK : read_key(cursor, err);
        if (rc != MW_OK) return rc;
        *value = cursor->values[vtab->args->columns[column].key_part];
    }
    return MW_OK;
}

int mx_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    mx_cursor *cursor = (mx_cursor *)base;
    const mx_vtab *vtab = table_of(cursor);
    int code = check_process(cursor);
    if (code == SQLITE_OK && cursor->counting) code = start_reading(cursor);
    if (code != SQLITE_OK) return code;
    int stored = column < vtab->args->column_count ? vtab->stored[column] : -1;
    mw_value value;
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = stored < 0 ? key_column(cursor, column, &value, &err)
                          : mw_cursor_column(cursor->rows, (uint32_t)stored, &value, &err);
    if (rc != MW_OK) return fail(cursor, &err);
    mx_row_result(context, &value);
    return SQLITE_OK;
}

int mx_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    mx_cursor *cursor = (mx_cursor *)base;
    int rc = check_process(cursor);
    if (rc == SQLITE_OK && cursor->counting) rc = start_reading(cursor);
    if (rc != SQLITE_OK) return rc;
    *rowid = mw_key_get_integer(mw_cursor_key(cursor->rows).data);
    return SQLITE_OK;
}
