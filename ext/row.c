/* row.c: SQLite's values and the engine's.
**
** A virtual table gets values as they were bound. What an ordinary table keeps of them is decided
** by SQLite's applyAffinity, OP_MakeRecord and OP_RealAffinity; the rules here are theirs. Text
** becomes a number through sqlite3_value_numeric_type, numbers become text through
** sqlite3_value_text, so that every digit is SQLite's own. */
#include "row.h"

#include <math.h>

/* SQLite's test for "this real is really an integer": the round trip changes nothing, and the two
** ends of the range, where a real is too coarse to tell, do not count. */
static bool is_integral(double real, int64_t *number)
{
    if (!(real > -9223372036854775808.0 && real < 9223372036854775808.0)) return false;
    *number = (int64_t)real;
    return (double)*number == real && *number > INT64_MIN && *number < INT64_MAX;
}

static void set_integer(mw_value *to, int64_t number)
{
    *to = (mw_value){.type = MW_INTEGER, .integer = number};
}

static void set_real(mw_value *to, double real)
{
    *to = (mw_value){.type = MW_REAL, .real = real};
}

static int set_text(sqlite3_value *value, mw_value *to)
{
    const unsigned char *text = sqlite3_value_text(value);
    if (!text) return SQLITE_NOMEM;
    /* The length only after the conversion: it counts the bytes of the encoding at hand. */
    size_t size = (size_t)sqlite3_value_bytes(value);
    *to = (mw_value){.type = MW_TEXT, .bytes = mw_slice_of(text, size)};
    return SQLITE_OK;
}

static int set_blob(sqlite3_value *value, mw_value *to)
{
    const void *data = sqlite3_value_blob(value);
    size_t size = (size_t)sqlite3_value_bytes(value);
    if (!data && size > 0) return SQLITE_NOMEM;
    *to = (mw_value){.type = MW_BLOB, .bytes = mw_slice_of(data, size)};
    return SQLITE_OK;
}

/* The number that a text is, or the text itself. Works on a copy: the conversion drops the text
** from the value, which SQLite may hold in a register that it uses again. */
static int number_of_text(sqlite3_value *value, mw_value *to)
{
    sqlite3_value *copy = sqlite3_value_dup(value);
    if (!copy) return SQLITE_NOMEM;
    int type = sqlite3_value_numeric_type(copy);
    if (type == SQLITE_INTEGER) set_integer(to, sqlite3_value_int64(copy));
    if (type == SQLITE_FLOAT) set_real(to, sqlite3_value_double(copy));
    sqlite3_value_free(copy);
    if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) return SQLITE_OK;
    return set_text(value, to);
}

/* The value as it is, or, for a numeric affinity, the number that its text is. */
static int plain_value(sqlite3_value *value, bool numeric, mw_value *to)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER: set_integer(to, sqlite3_value_int64(value)); return SQLITE_OK;
    case SQLITE_FLOAT: set_real(to, sqlite3_value_double(value)); return SQLITE_OK;
    case SQLITE_TEXT: return numeric ? number_of_text(value, to) : set_text(value, to);
    case SQLITE_BLOB: return set_blob(value, to);
    default: *to = (mw_value){.type = MW_NULL}; return SQLITE_OK;
    }
}

int mx_row_value(sqlite3_value *value, char affinity, mw_value *to)
{
    bool numeric = affinity >= MX_AFFINITY_NUMERIC;
    int rc = plain_value(value, numeric, to);
    if (rc != SQLITE_OK) return rc;
    bool number = to->type == MW_INTEGER || to->type == MW_REAL;
    if (affinity == MX_AFFINITY_TEXT && number) return set_text(value, to);
    int64_t integer = 0;
    if (numeric && to->type == MW_REAL && is_integral(to->real, &integer)) {
        set_integer(to, integer);
    }
    /* Through the integer on purpose: so -0.0 becomes 0.0, as in an ordinary table. */
    if (affinity == MX_AFFINITY_REAL && to->type == MW_INTEGER) set_real(to, (double)to->integer);
    return SQLITE_OK;
}

int mx_row_integer(sqlite3_value *value, int64_t *number, bool *exact)
{
    mw_value stored;
    int rc = mx_row_value(value, MX_AFFINITY_INTEGER, &stored);
    *exact = rc == SQLITE_OK && stored.type == MW_INTEGER;
    *number = *exact ? stored.integer : 0;
    return rc;
}

void mx_key_of_integer(mx_key *key, int64_t number)
{
    key->number = number;
    mw_key_put_integer(key->integer, number);
    key->slice = mw_slice_of(key->integer, sizeof key->integer);
}

int mx_key_of_value(mw_key_kind kind, sqlite3_value *value, mx_key *key, bool *fits)
{
    if (kind == MW_KEY_INTEGER) {
        int64_t number = 0;
        int rc = mx_row_integer(value, &number, fits);
        mx_key_of_integer(key, number);
        return rc;
    }
    mw_value text;
    int rc = mx_row_value(value, MX_AFFINITY_TEXT, &text);
    *fits = rc == SQLITE_OK && text.type == MW_TEXT;
    key->slice = *fits ? text.bytes : mw_slice_of(NULL, 0);
    key->number = 0;
    return rc;
}

/* ---- forms ---------------------------------------------------------------------------------- */

enum { FORM_CANONICAL = 0, FORM_REAL = 1, FORM_MINUS_ZERO = 2 };

/* May a column of this affinity hold the real of a value that an int64 can hold? Numeric ones make
** an integer of each but -2^63. */
static bool has_forms(char affinity)
{
    return affinity != MX_AFFINITY_TEXT && affinity != MX_AFFINITY_REAL;
}

bool mx_key_has_forms(const mx_args *args)
{
    bool any = false;
    for (int i = 0; i < args->key_count && !any; i++) {
        any = has_forms(args->columns[args->key[i]].affinity);
    }
    return any;
}

bool mx_key_is_open(const mx_column *column, const mw_value *value)
{
    if (value->type != MW_INTEGER || !has_forms(column->affinity)) return false;
    return column->affinity == MX_AFFINITY_BLOB || value->integer == INT64_MIN;
}

static uint8_t form_of(const mx_column *column, const mw_value *value)
{
    if (value->type != MW_REAL || !has_forms(column->affinity)) return FORM_CANONICAL;
    double real = value->real;
    bool in_range = real >= -9223372036854775808.0 && real < 9223372036854775808.0;
    if (!in_range || (double)(int64_t)real != real) return FORM_CANONICAL;
    return real == 0 && signbit(real) ? FORM_MINUS_ZERO : FORM_REAL;
}

int mx_key_forms(const mx_args *args, const mw_value *values, mw_buf *bytes, mw_value *forms)
{
    uint8_t any = FORM_CANONICAL;
    mw_buf_clear(bytes);
    for (int i = 0; i < args->key_count; i++) {
        uint8_t form = form_of(&args->columns[args->key[i]], &values[i]);
        mw_buf_u8(bytes, form);
        any |= form;
    }
    *forms = (mw_value){.type = any == FORM_CANONICAL ? MW_NULL : MW_BLOB};
    if (any != FORM_CANONICAL) forms->bytes = mw_buf_slice(bytes);
    return bytes->failed ? SQLITE_NOMEM : SQLITE_OK;
}

static mw_rc fail_forms(const mx_column *column, mw_err *err)
{
    return mw_fail(err, MW_CORRUPT, "a row's key and the form of its value %s do not fit together",
                   column->name);
}

mw_rc mx_key_value(const mx_args *args, int part, const mw_value *forms, mw_value *value,
                   mw_err *err)
{
    const mx_column *column = &args->columns[args->key[part]];
    bool open = mx_key_is_open(column, value);
    bool integer = value->type == MW_INTEGER;
    if (integer && column->affinity == MX_AFFINITY_REAL) set_real(value, (double)value->integer);
    if (forms->type == MW_NULL) return MW_OK;
    if (forms->type != MW_BLOB || forms->bytes.size != (size_t)args->key_count) {
        return fail_forms(column, err);
    }
    uint8_t form = forms->bytes.data[part];
    if (form == FORM_CANONICAL) return MW_OK;
    bool zero = open && value->integer == 0;
    if (form > FORM_MINUS_ZERO || !open || (form == FORM_MINUS_ZERO && !zero)) {
        return fail_forms(column, err);
    }
    set_real(value, form == FORM_MINUS_ZERO ? -0.0 : (double)value->integer);
    return MW_OK;
}

/* ---- to SQLite ------------------------------------------------------------------------------ */

void mx_row_result(sqlite3_context *context, const mw_value *value)
{
    /* A NULL pointer would make SQL's NULL of an empty text or blob. */
    const char *bytes = value->bytes.size > 0 ? (const char *)value->bytes.data : "";
    switch (value->type) {
    case MW_NULL: sqlite3_result_null(context); break;
    case MW_INTEGER: sqlite3_result_int64(context, value->integer); break;
    case MW_REAL: sqlite3_result_double(context, value->real); break;
    case MW_TEXT:
        sqlite3_result_text64(context, bytes, value->bytes.size, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case MW_BLOB:
        sqlite3_result_blob64(context, bytes, value->bytes.size, SQLITE_TRANSIENT);
        break;
    }
}
