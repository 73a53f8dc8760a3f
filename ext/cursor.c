/* cursor.c: reading rows.
**
** A cursor takes the statement's snapshot at its first xFilter and keeps it until xClose, however
** often an outer loop filters it anew: one statement sees one moment.
**
** xFilter turns the plan and its arguments into a range of ids, or into the list of ids that IN
** asks for. Where no row can match it stands at the end at once; where SQLite may compare text ids
** as numbers, the bound is widened or left away and more rows are shown than asked for, which
** SQLite then looks at again.
**
** Counting: SQLite counts by stepping. Where no column is asked for, a step is one subtraction, and
** the rows are opened only if xColumn or xRowid is called after all (DELETE does so): then the
** cursor goes to the row at which the counting has arrived. */
#include "coding.h"
#include "connection.h"
#include "plan.h"
#include "row.h"
#include "txn.h"

#include <string.h>

typedef struct mx_cursor {
    sqlite3_vtab_cursor base; /* first: SQLite's part                                   */
    mx_txn *txn;              /* NULL before the first xFilter; the table's             */
    mw_snapshot *snapshot;    /* a reference                                            */
    mw_cursor *rows;          /* NULL while counting                                    */
    bool eof;
    bool point;
    bool listing;
    bool backward;
    bool counting;
    int64_t left;             /* counting: rows still to be shown, the present included */
    int64_t passed;           /* counting: rows shown before                            */
    bool stops;               /* there is a last id                                     */
    bool stop_strict;         /* it is not part of the range                            */
    mw_buf stop;
    mw_buf list;              /* listing: the ids asked for, ascending, one behind the other */
    mw_buf ends;              /* where each of them ends: u64                           */
    size_t listed;            /* how many have been looked up                           */
} mx_cursor;

/* One end of a range, as it was asked for. */
typedef struct bound {
    bool set;
    bool strict;
    mx_key key;
} bound;

/* What a comparison has on its other side. */
typedef struct argument {
    sqlite3_value *value;
    bool strict;  /* < or >                                           */
    bool textual; /* if it is a text, ids are compared with it as texts */
} argument;

typedef struct range {
    bool none;
    bound low;
    bound high;
} range;

static mx_vtab *table_of(const mx_cursor *cursor) { return (mx_vtab *)cursor->base.pVtab; }

static int fail(const mx_cursor *cursor, const mw_err *err)
{
    return mx_txn_fail(table_of(cursor), err);
}

/* ---- bounds --------------------------------------------------------------------------------- */

static void set_integer_bound(bound *end, int64_t number)
{
    end->set = true;
    end->strict = false;
    mx_key_of_integer(&end->key, number);
}

/* ids >= real (or > with strict). The ends of the range of ids as reals: -2^63 is exact, 2^63 is
** the first one above. */
static void low_of_real(range *to, double real, bool strict)
{
    if (real >= 9223372036854775808.0) {
        to->none = true;
    } else if (real >= -9223372036854775808.0) {
        int64_t whole = (int64_t)real; /* towards zero */
        bool below = (double)whole < real || ((double)whole == real && strict);
        if (below && whole == INT64_MAX) {
            to->none = true;
        } else {
            set_integer_bound(&to->low, below ? whole + 1 : whole);
        }
    }
}

static void high_of_real(range *to, double real, bool strict)
{
    if (real < -9223372036854775808.0) {
        to->none = true;
    } else if (real < 9223372036854775808.0) {
        int64_t whole = (int64_t)real;
        bool above = (double)whole > real || ((double)whole == real && strict);
        if (above && whole == INT64_MIN) {
            to->none = true;
        } else {
            set_integer_bound(&to->high, above ? whole - 1 : whole);
        }
    }
}

static void low_of_integer(range *to, int64_t number, bool strict)
{
    if (strict && number == INT64_MAX) {
        to->none = true;
    } else {
        set_integer_bound(&to->low, strict ? number + 1 : number);
    }
}

static void high_of_integer(range *to, int64_t number, bool strict)
{
    if (strict && number == INT64_MIN) {
        to->none = true;
    } else {
        set_integer_bound(&to->high, strict ? number - 1 : number);
    }
}

/* An argument against integer ids. NULL matches nothing; text and blobs that are no numbers come
** after all numbers. */
static int bound_integer(range *to, sqlite3_value *value, bool low, bool strict)
{
    mw_value number;
    int rc = mx_row_value(value, MX_AFFINITY_NUMERIC, &number);
    if (rc != SQLITE_OK) return rc;
    if (number.type == MW_NULL) to->none = true;
    if (number.type == MW_TEXT || number.type == MW_BLOB) to->none = to->none || low;
    if (number.type == MW_INTEGER && low) low_of_integer(to, number.integer, strict);
    if (number.type == MW_INTEGER && !low) high_of_integer(to, number.integer, strict);
    if (number.type == MW_REAL && low) low_of_real(to, number.real, strict);
    if (number.type == MW_REAL && !low) high_of_real(to, number.real, strict);
    return SQLITE_OK;
}

/* Numbers compare below all texts, and a text id that looks like a number begins with nothing
** higher than '9'. So an upper bound that may be compared numerically reaches up to ':' at least.
** */
static void widen_high(bound *high)
{
    static const uint8_t above_numbers[] = {'9' + 1};
    mw_slice least = mw_slice_of(above_numbers, sizeof above_numbers);
    if (mw_slice_compare(high->key.slice, least) < 0) high->key.slice = least;
}

/* An argument against text ids. A number may be compared as the text it is written as, or the ids
** that look like numbers be made some: then any text may be above it, and below it or equal to it
** only what begins like a number. A text may be a value of a numeric column: then it is above all
** ids that look like numbers. Blobs are above everything. */
static int bound_text(range *to, argument from, bool low)
{
    int type = sqlite3_value_type(from.value);
    bool number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    if (type == SQLITE_NULL || (type == SQLITE_BLOB && low)) to->none = true;
    if (type == SQLITE_NULL || type == SQLITE_BLOB || (number && low)) return SQLITE_OK;
    bound *end = low ? &to->low : &to->high;
    end->strict = from.strict;
    int rc = mx_key_of_value(MW_KEY_TEXT, from.value, &end->key, &end->set);
    if (rc == SQLITE_OK && end->set && !low && (number || !from.textual)) widen_high(end);
    return rc;
}

static int set_bound(const mx_vtab *vtab, range *to, argument from, bool low)
{
    if (vtab->key == MW_KEY_TEXT) return bound_text(to, from, low);
    return bound_integer(to, from.value, low, from.strict);
}

/* An id that is asked for by itself: a range whose ends meet, but for a number against texts. */
static int read_point(const mx_vtab *vtab, sqlite3_value *value, range *to)
{
    argument from = {.value = value, .textual = true};
    int rc = set_bound(vtab, to, from, true);
    if (rc == SQLITE_OK) rc = set_bound(vtab, to, from, false);
    if (to->low.set && to->high.set) {
        to->none = to->none || mw_slice_compare(to->low.key.slice, to->high.key.slice) != 0;
    }
    return rc;
}

/* The range that plan and arguments ask for. */
static int read_range(const mx_vtab *vtab, int plan, sqlite3_value **argv, range *to)
{
    int rc = SQLITE_OK;
    memset(to, 0, sizeof *to);
    to->none = (plan & MX_PLAN_NONE) != 0;
    if (plan & MX_PLAN_POINT) return read_point(vtab, argv[0], to);
    if (plan & MX_PLAN_LOW) {
        argument from = {.value = *argv++, .strict = (plan & MX_PLAN_LOW_STRICT) != 0};
        rc = set_bound(vtab, to, from, true);
    }
    if (rc == SQLITE_OK && (plan & MX_PLAN_HIGH)) {
        argument from = {.value = *argv, .strict = (plan & MX_PLAN_HIGH_STRICT) != 0};
        /* Like a literal, a parameter has no affinity of its own. */
        from.textual = (plan & MX_PLAN_HIGH_TEXT) || sqlite3_value_frombind(from.value);
        rc = set_bound(vtab, to, from, false);
    }
    return rc;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static bool is_number(sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* Takes the text ids out of what stands behind IN; SQLite gives each value once, in order. Texts
** equal just themselves, NULL and blobs no id. A number comes only where it may be that ids are
** compared as numbers: *all is set, for any of them may be equal. */
static int read_list(mx_cursor *cursor, sqlite3_value *values, bool *all)
{
    sqlite3_value *value = NULL;
    mw_buf_clear(&cursor->list);
    mw_buf_clear(&cursor->ends);
    cursor->listed = 0;
    int rc = sqlite3_vtab_in_first(values, &value);
    for (; rc == SQLITE_OK && value; rc = sqlite3_vtab_in_next(values, &value)) {
        *all = *all || is_number(value);
        if (sqlite3_value_type(value) != SQLITE_TEXT) continue;
        mx_key key;
        bool fits = false;
        rc = mx_key_of_value(MW_KEY_TEXT, value, &key, &fits);
        if (rc != SQLITE_OK) return rc;
        mw_buf_put_slice(&cursor->list, key.slice);
        mw_buf_u64(&cursor->ends, cursor->list.size);
    }
    if (cursor->list.failed || cursor->ends.failed) return SQLITE_NOMEM;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static mw_slice listed_id(const mx_cursor *cursor, size_t index)
{
    const uint8_t *ends = cursor->ends.data;
    uint64_t start = index > 0 ? mw_get_u64(ends + 8 * (index - 1)) : 0;
    return mw_slice_of(cursor->list.data + start, mw_get_u64(ends + 8 * index) - start);
}

/* To the next id of the list that lives. */
static int step_list(mx_cursor *cursor)
{
    size_t count = cursor->ends.size / 8;
    mw_err err;
    mx_err_clear(&err);
    for (cursor->eof = true; cursor->eof && cursor->listed < count; cursor->listed++) {
        if (cursor->listed % 1024 == 0 &&
            mx_connection_interrupted(table_of(cursor)->connection)) {
            return SQLITE_INTERRUPT;
        }
        size_t index = cursor->backward ? count - 1 - cursor->listed : cursor->listed;
        mw_rc rc = mw_cursor_find(cursor->rows, listed_id(cursor, index), &err);
        if (rc != MW_OK) return fail(cursor, &err);
        cursor->eof = !mw_cursor_valid(cursor->rows);
    }
    return SQLITE_OK;
}

/* ---- moving --------------------------------------------------------------------------------- */

static bool is_past_stop(const mx_cursor *cursor)
{
    if (!cursor->stops) return false;
    int order = mw_slice_compare(mw_cursor_key(cursor->rows), mw_buf_slice(&cursor->stop));
    if (cursor->backward) order = -order;
    return order > 0 || (order == 0 && cursor->stop_strict);
}

static void settle_position(mx_cursor *cursor)
{
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

static mw_rc go_to_start(mx_cursor *cursor, const bound *start, mw_err *err)
{
    mw_cursor *rows = cursor->rows;
    if (!start->set)
        return cursor->backward ? mw_cursor_last(rows, err) : mw_cursor_first(rows, err);
    mw_rc rc = cursor->backward ? mw_cursor_seek_back(rows, start->key.slice, err)
                                : mw_cursor_seek(rows, start->key.slice, err);
    if (rc != MW_OK || !start->strict || !mw_cursor_valid(rows)) return rc;
    if (!mw_slice_equal(mw_cursor_key(rows), start->key.slice)) return MW_OK;
    return cursor->backward ? mw_cursor_prev(rows, err) : mw_cursor_next(rows, err);
}

static int keep_stop(mx_cursor *cursor, const bound *stop)
{
    cursor->stops = stop->set;
    cursor->stop_strict = stop->strict;
    mw_buf_clear(&cursor->stop);
    if (stop->set) mw_buf_put_slice(&cursor->stop, stop->key.slice);
    return cursor->stop.failed ? SQLITE_NOMEM : SQLITE_OK;
}

static int start_range(mx_cursor *cursor, const range *wanted)
{
    const bound *start = cursor->backward ? &wanted->high : &wanted->low;
    const bound *stop = cursor->backward ? &wanted->low : &wanted->high;
    int rc = keep_stop(cursor, stop);
    if (rc == SQLITE_OK) rc = open_rows(cursor);
    if (rc != SQLITE_OK) return rc;
    mw_err err;
    mx_err_clear(&err);
    if (go_to_start(cursor, start, &err) != MW_OK) return fail(cursor, &err);
    settle_position(cursor);
    return SQLITE_OK;
}

static int start_point(mx_cursor *cursor, const bound *id)
{
    int rc = open_rows(cursor);
    if (rc != SQLITE_OK) return rc;
    mw_err err;
    mx_err_clear(&err);
    if (mw_cursor_find(cursor->rows, id->key.slice, &err) != MW_OK) return fail(cursor, &err);
    cursor->eof = !mw_cursor_valid(cursor->rows);
    return SQLITE_OK;
}

static int step(mx_cursor *cursor)
{
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = cursor->backward ? mw_cursor_prev(cursor->rows, &err)
                                : mw_cursor_next(cursor->rows, &err);
    if (rc != MW_OK) return fail(cursor, &err);
    settle_position(cursor);
    return SQLITE_OK;
}

/* From counting to reading: to the row that the counting has reached. */
static int start_reading(mx_cursor *cursor)
{
    const range everything = {.none = false};
    int64_t passed = cursor->passed;
    cursor->counting = false;
    int rc = start_range(cursor, &everything);
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
    (void)base;
    mx_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (!cursor) return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    cursor->eof = true;
    mw_buf_init(&cursor->stop, mw_env_posix());
    mw_buf_init(&cursor->list, mw_env_posix());
    mw_buf_init(&cursor->ends, mw_env_posix());
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
    mw_buf_free(&cursor->stop);
    mw_buf_free(&cursor->list);
    mw_buf_free(&cursor->ends);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int take_snapshot(mx_cursor *cursor)
{
    mx_vtab *vtab = table_of(cursor);
    if (cursor->snapshot) return SQLITE_OK;
    int rc = mx_txn_reader_begin(vtab, &cursor->snapshot);
    if (rc == SQLITE_OK) cursor->txn = vtab->txn;
    return rc;
}

static int start_list(mx_cursor *cursor, sqlite3_value *values)
{
    const range everything = {.none = false};
    bool all = false;
    int rc = read_list(cursor, values, &all);
    if (rc != SQLITE_OK) return rc;
    cursor->listing = !all;
    if (all) return start_range(cursor, &everything);
    rc = open_rows(cursor);
    return rc == SQLITE_OK ? step_list(cursor) : rc;
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
    range wanted;
    int rc = take_snapshot(cursor);
    if (rc != SQLITE_OK) return rc;
    cursor->backward = (plan & MX_PLAN_BACKWARD) != 0;
    cursor->point = cursor->listing = cursor->counting = false;
    if (plan & MX_PLAN_COUNT) return start_counting(cursor);
    if (plan & MX_PLAN_LIST) return start_list(cursor, argv[0]);
    rc = read_range(table_of(cursor), plan, argv, &wanted);
    cursor->eof = wanted.none;
    if (rc != SQLITE_OK || wanted.none) return rc;
    cursor->point = (plan & MX_PLAN_POINT) && wanted.low.set && wanted.high.set;
    return cursor->point ? start_point(cursor, &wanted.low) : start_range(cursor, &wanted);
}

int mx_cursor_next(sqlite3_vtab_cursor *base)
{
    mx_cursor *cursor = (mx_cursor *)base;
    if (cursor->counting) {
        cursor->passed++;
        cursor->eof = --cursor->left <= 0;
        return SQLITE_OK;
    }
    if (cursor->point) {
        cursor->eof = true;
        return SQLITE_OK;
    }
    return cursor->listing ? step_list(cursor) : step(cursor);
}

int mx_cursor_eof(sqlite3_vtab_cursor *base) { return ((mx_cursor *)base)->eof; }

static void give_key(const mx_cursor *cursor, sqlite3_context *context)
{
    mw_slice key = mw_cursor_key(cursor->rows);
    mw_value value = {.type = MW_TEXT, .bytes = key};
    if (table_of(cursor)->key == MW_KEY_INTEGER) {
        value = (mw_value){.type = MW_INTEGER, .integer = mw_key_get_integer(key.data)};
    }
    mx_row_result(context, &value);
}

int mx_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    mx_cursor *cursor = (mx_cursor *)base;
    if (cursor->counting) {
        int rc = start_reading(cursor);
        if (rc != SQLITE_OK) return rc;
    }
    int stored = table_of(cursor)->stored[column];
    if (stored < 0) {
        give_key(cursor, context);
        return SQLITE_OK;
    }
    mw_value value;
    mw_err err;
    mx_err_clear(&err);
    if (mw_cursor_column(cursor->rows, (uint32_t)stored, &value, &err) != MW_OK) {
        return fail(cursor, &err);
    }
    mx_row_result(context, &value);
    return SQLITE_OK;
}

int mx_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    mx_cursor *cursor = (mx_cursor *)base;
    if (cursor->counting) {
        int rc = start_reading(cursor);
        if (rc != SQLITE_OK) return rc;
    }
    *rowid = mw_key_get_integer(mw_cursor_key(cursor->rows).data);
    return SQLITE_OK;
}
