/* range.c: what plan and arguments ask for, as ranges of keys.
**
** SQLite hands over the other side of a comparison as it is. What it will compare with, is decided
** by the affinities of both sides, of which ours is known:
**
**   numeric   The other side is made a number if it looks like one. Ranges are exact, whatever
**             comes.
**   text      A number may be compared as the text it is written as, or the texts that look like
**             numbers be made some (against a numeric column). Both begin with nothing above '9'.
**   none      A number is a number; but against a numeric column texts that look like numbers are
**             made some as well. So beside the range of the number there is one of such texts, which
**             is empty in the tables that people have.
**
** A text is compared as a text. It may be a value of a numeric column, however, and is then above
** all texts that look like numbers; so where it is an upper bound, the range reaches up to ':' at
** least. Blobs are above everything else in any case. Whatever is too much in a range SQLite looks
** at again, since plan.c omits only what is exact.
**
** Keys of several columns: equalities of the first ones give a prefix; where one may be of several
** values at once, what stands behind it cannot narrow the range any more. */
#include "range.h"

#include "plan.h"
#include "row.h"
#include "world.h"

#include <string.h>

/* How values of a column compare, by its affinity. */
typedef enum compared { COMPARED_NUMERIC, COMPARED_TEXT, COMPARED_ANY } compared;

/* The first byte that no text begins with that looks like a number. */
enum { ABOVE_NUMBERS = '9' + 1 };

/* ---- ranges --------------------------------------------------------------------------------- */

void mx_ranges_init(mx_ranges *ranges)
{
    mw_buf_init(&ranges->bytes, mx_world_env());
    mw_buf_init(&ranges->items, mx_world_env());
}

void mx_ranges_free(mx_ranges *ranges)
{
    mw_buf_free(&ranges->bytes);
    mw_buf_free(&ranges->items);
}

void mx_ranges_clear(mx_ranges *ranges)
{
    ranges->equal = 0;
    mw_buf_clear(&ranges->bytes);
    mw_buf_clear(&ranges->items);
}

size_t mx_ranges_count(const mx_ranges *ranges) { return ranges->items.size / sizeof(mx_range); }

const mx_range *mx_ranges_at(const mx_ranges *ranges, size_t index)
{
    return (const mx_range *)(const void *)ranges->items.data + index;
}

mw_slice mx_ranges_key(const mx_ranges *ranges, const mx_end *end)
{
    return mw_slice_of(ranges->bytes.data + end->at, end->size);
}

static void add_range(mx_ranges *to, const mx_range *range)
{
    mw_buf_put(&to->items, range, sizeof *range);
}

static int check(const mx_ranges *ranges)
{
    return ranges->bytes.failed || ranges->items.failed ? SQLITE_NOMEM : SQLITE_OK;
}

int mx_ranges_all(mx_ranges *to)
{
    const mx_range everything = {.point = false};
    mx_ranges_clear(to);
    add_range(to, &everything);
    return check(to);
}

/* An end is put together by appending to bytes between these two. */
static void begin_end(const mx_ranges *ranges, mx_end *end)
{
    *end = (mx_end){.set = true, .at = ranges->bytes.size};
}

static void finish_end(const mx_ranges *ranges, mx_end *end)
{
    end->size = ranges->bytes.size - end->at;
}

static void put_end(mx_ranges *ranges, mw_slice key, bool strict, mx_end *end)
{
    begin_end(ranges, end);
    mw_buf_put_slice(&ranges->bytes, key);
    finish_end(ranges, end);
    end->strict = strict;
}

int mx_ranges_add(mx_ranges *ranges, mw_slice key)
{
    mx_range range = {.point = true};
    put_end(ranges, key, false, &range.low);
    add_range(ranges, &range);
    return check(ranges);
}

static bool is_number(const mw_value *value)
{
    return value->type == MW_INTEGER || value->type == MW_REAL;
}

/* ---- integer ids ---------------------------------------------------------------------------- */

/* Ids from low to high; none where low is above. */
typedef struct integers {
    int64_t low;
    int64_t high;
    bool none;
} integers;

/* ids >= real (or > with strict). The ends of the range of ids as reals: -2^63 is exact, 2^63 is
** the first one above. */
static void low_of_real(integers *to, double real, bool strict)
{
    if (real >= 9223372036854775808.0) {
        to->none = true;
    } else if (real >= -9223372036854775808.0) {
        int64_t whole = (int64_t)real; /* towards zero */
        bool below = (double)whole < real || ((double)whole == real && strict);
        if (below && whole == INT64_MAX) {
            to->none = true;
        } else {
            to->low = below ? whole + 1 : whole;
        }
    }
}

static void high_of_real(integers *to, double real, bool strict)
{
    if (real < -9223372036854775808.0) {
        to->none = true;
    } else if (real < 9223372036854775808.0) {
        int64_t whole = (int64_t)real;
        bool above = (double)whole > real || ((double)whole == real && strict);
        if (above && whole == INT64_MIN) {
            to->none = true;
        } else {
            to->high = above ? whole - 1 : whole;
        }
    }
}

static void low_of_integer(integers *to, int64_t number, bool strict)
{
    to->none = to->none || (strict && number == INT64_MAX);
    to->low = strict && !to->none ? number + 1 : number;
}

static void high_of_integer(integers *to, int64_t number, bool strict)
{
    to->none = to->none || (strict && number == INT64_MIN);
    to->high = strict && !to->none ? number - 1 : number;
}

/* An argument against integer ids. NULL matches nothing; text and blobs that are no numbers come
** after all numbers. */
static int bound_integers(integers *to, sqlite3_value *value, bool low, bool strict)
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

static int read_integers(mx_ranges *to, int plan, sqlite3_value **argv)
{
    integers ids = {.low = INT64_MIN, .high = INT64_MAX};
    bool point = (plan & MX_PLAN_POINT) != 0;
    int rc = SQLITE_OK;
    if (point || (plan & MX_PLAN_LOW)) {
        rc = bound_integers(&ids, *argv, true, (plan & MX_PLAN_LOW_STRICT) != 0);
    }
    if (rc == SQLITE_OK && (plan & MX_PLAN_LOW)) argv++;
    if (rc == SQLITE_OK && (point || (plan & MX_PLAN_HIGH))) {
        rc = bound_integers(&ids, *argv, false, (plan & MX_PLAN_HIGH_STRICT) != 0);
    }
    if (rc != SQLITE_OK || ids.none || ids.low > ids.high) return rc;
    mx_range range = {.point = ids.low == ids.high};
    mx_key key;
    mx_key_of_integer(&key, ids.low);
    if (ids.low > INT64_MIN || range.point) put_end(to, key.slice, false, &range.low);
    mx_key_of_integer(&key, ids.high);
    if (ids.high < INT64_MAX) put_end(to, key.slice, false, &range.high);
    add_range(to, &range);
    return check(to);
}

/* ---- other keys ----------------------------------------------------------------------------- */

/* What is being asked of a text key or an encoded one. A text key is like an encoded one of a single
** text column, but for the tag, which it lacks, and for blobs, which it cannot hold. */
typedef struct search {
    const mx_vtab *vtab;
    mx_ranges *to;
    int plan;
    uint32_t columns; /* of the key                                         */
    uint32_t equals;  /* how many of the first ones are compared for equality */
    mw_value *values; /* of these, and of one more                          */
    bool none;        /* no row can match                                   */
} search;

static const mx_column *column_of(const search *s, uint32_t part)
{
    return &s->vtab->args->columns[s->vtab->args->key[part]];
}

static compared compared_of(const search *s, uint32_t part)
{
    char affinity = column_of(s, part)->affinity;
    if (affinity == MX_AFFINITY_TEXT) return COMPARED_TEXT;
    return affinity == MX_AFFINITY_BLOB ? COMPARED_ANY : COMPARED_NUMERIC;
}

static bool is_text_key(const search *s) { return s->vtab->key == MW_KEY_TEXT; }

/* Takes the argument for the column at part. Sets none when nothing can be compared with it. */
static int read_value(search *s, uint32_t part, sqlite3_value *from)
{
    bool numeric = compared_of(s, part) == COMPARED_NUMERIC;
    mw_value *to = &s->values[part];
    int rc = mx_row_value(from, numeric ? MX_AFFINITY_NUMERIC : MX_AFFINITY_BLOB, to);
    if (rc == SQLITE_OK && to->type == MW_NULL) s->none = true;
    return rc;
}

/* Appends the first count values. */
static void put_values(const search *s, uint32_t count)
{
    if (!is_text_key(s)) {
        mw_key_encode(&s->to->bytes, s->values, count, s->columns);
    } else if (count > 0) {
        mw_buf_put_slice(&s->to->bytes, s->values[0].bytes);
    }
}

static void put_least(const search *s, mw_type type)
{
    if (!is_text_key(s)) mw_key_put_least(&s->to->bytes, type);
}

/* The ends of everything that begins with the first count values. */
static void put_prefix(const search *s, uint32_t count, mx_range *range)
{
    if (count == 0) return;
    begin_end(s->to, &range->low);
    put_values(s, count);
    finish_end(s->to, &range->low);
    begin_end(s->to, &range->high);
    put_values(s, count);
    mw_key_put_above(&s->to->bytes);
    finish_end(s->to, &range->high);
}

/* Above the texts at part that look like numbers, and above this one. */
static void put_texts_high(const search *s, uint32_t part, mw_slice text, mx_end *high)
{
    static const uint8_t above[] = {ABOVE_NUMBERS};
    mw_slice least = mw_slice_of(above, sizeof above);
    bool below = mw_slice_compare(text, least) < 0;
    begin_end(s->to, high);
    put_values(s, part);
    put_least(s, MW_TEXT);
    mw_buf_put_slice(&s->to->bytes, below ? least : text);
    if (!below) mw_key_put_above(&s->to->bytes);
    finish_end(s->to, high);
    high->strict = true;
}

/* A range of the texts at part that look like numbers, of those up to text, and not below low. */
static void add_texts(const search *s, uint32_t part, mw_slice text, const mx_end *low)
{
    mx_range range = {.point = false};
    begin_end(s->to, &range.low);
    put_values(s, part);
    put_least(s, MW_TEXT);
    finish_end(s->to, &range.low);
    bool higher = low->set && !s->to->bytes.failed &&
                  mw_slice_compare(mx_ranges_key(s->to, low), mx_ranges_key(s->to, &range.low)) > 0;
    if (higher) range.low = *low;
    put_texts_high(s, part, text, &range.high);
    add_range(s->to, &range);
}

/* A number against a column without affinity: texts that look like it may be equal to it. These
** ranges lie above that of the number itself; the further to the right, the lower. */
static void add_texts_of_equals(const search *s, uint32_t count)
{
    const mx_end none = {.set = false};
    for (uint32_t part = count; part-- > 0;) {
        bool open = compared_of(s, part) == COMPARED_ANY && is_number(&s->values[part]);
        if (open) add_texts(s, part, mw_slice_of(NULL, 0), &none);
    }
}

/* What begins with the first count values, the last of which was asked for by itself. */
static void add_equal(const search *s, uint32_t count)
{
    mx_range range = {.point = count == s->columns};
    if (range.point) {
        begin_end(s->to, &range.low);
        put_values(s, count);
        finish_end(s->to, &range.low);
    } else {
        put_prefix(s, count, &range);
    }
    add_range(s->to, &range);
}

/* The lower bound of the column behind the equalities. */
static void put_low(search *s, bool strict, mx_end *low)
{
    uint32_t part = s->equals;
    const mw_value *value = &s->values[part];
    bool last = part + 1 == s->columns;
    if (compared_of(s, part) == COMPARED_TEXT && is_number(value)) return;
    if (is_text_key(s) && value->type == MW_BLOB) {
        s->none = true;
        return;
    }
    begin_end(s->to, low);
    if (value->type == MW_TEXT && !s->vtab->binary_order) {
        put_values(s, part);
        put_least(s, MW_TEXT);
    } else {
        put_values(s, part + 1);
        if (strict && !last) mw_key_put_above(&s->to->bytes);
        low->strict = strict && last;
    }
    finish_end(s->to, low);
}

/* Like a literal, a parameter has no affinity of its own: if it is a text, texts are compared with
** it as texts. */
static bool is_textual(const search *s, sqlite3_value *from)
{
    return (s->plan & MX_PLAN_HIGH_TEXT) || sqlite3_value_frombind(from);
}

/* Its upper bound. */
static int put_high(search *s, sqlite3_value *from, mx_end *high)
{
    uint32_t part = s->equals;
    const mw_value *value = &s->values[part];
    compared how = compared_of(s, part);
    bool strict = (s->plan & MX_PLAN_HIGH_STRICT) != 0;
    bool last = part + 1 == s->columns;
    mw_value text = *value;
    if (is_text_key(s) && value->type == MW_BLOB) return SQLITE_OK;
    if (how == COMPARED_TEXT && is_number(value)) {
        int rc = mx_row_value(from, MX_AFFINITY_TEXT, &text);
        if (rc == SQLITE_OK) put_texts_high(s, part, text.bytes, high);
        return rc;
    }
    bool reaches = how != COMPARED_NUMERIC && value->type == MW_TEXT && !is_textual(s, from);
    if (reaches && (value->bytes.size == 0 || value->bytes.data[0] < ABOVE_NUMBERS)) {
        put_texts_high(s, part, value->bytes, high);
        return SQLITE_OK;
    }
    begin_end(s->to, high);
    high->strict = strict;
    if (value->type == MW_TEXT && !s->vtab->binary_order) {
        put_values(s, part);
        put_least(s, MW_BLOB);
    } else {
        put_values(s, part + 1);
        if (!strict && !last) mw_key_put_above(&s->to->bytes);
    }
    finish_end(s->to, high);
    return SQLITE_OK;
}

/* The range of the column behind the equalities, of which there may be none. */
static int add_bounded(search *s, sqlite3_value **argv)
{
    mx_range range = {.point = false};
    uint32_t part = s->equals;
    int rc = SQLITE_OK;
    put_prefix(s, part, &range);
    if (s->plan & MX_PLAN_LOW) {
        rc = read_value(s, part, *argv++);
        if (rc != SQLITE_OK || s->none) return rc;
        put_low(s, (s->plan & MX_PLAN_LOW_STRICT) != 0, &range.low);
    }
    bool high = (s->plan & MX_PLAN_HIGH) != 0;
    if (high) {
        rc = read_value(s, part, *argv);
        if (rc == SQLITE_OK && !s->none) rc = put_high(s, *argv, &range.high);
    }
    if (rc != SQLITE_OK || s->none) return rc;
    add_range(s->to, &range);
    if (high && compared_of(s, part) == COMPARED_ANY && is_number(&s->values[part])) {
        add_texts(s, part, mw_slice_of(NULL, 0), &range.low);
    }
    return SQLITE_OK;
}

/* One value of a list behind the equalities. Lists ascend, numbers first: *numbers and *texts tell
** whether there were any, and whether the range of texts that look like numbers has been added. */
static void add_listed(search *s, bool *numbers, bool *texts)
{
    const mx_end none = {.set = false};
    const mw_value *value = &s->values[s->equals];
    compared how = compared_of(s, s->equals);
    bool number = is_number(value);
    *numbers = *numbers || (number && how != COMPARED_NUMERIC);
    if (!number && *numbers && !*texts) {
        add_texts(s, s->equals, mw_slice_of(NULL, 0), &none);
        *texts = true;
    }
    if (number && how == COMPARED_TEXT) return;
    if (is_text_key(s) && value->type == MW_BLOB) return;
    bool low = value->type == MW_TEXT &&
               (value->bytes.size == 0 || value->bytes.data[0] < ABOVE_NUMBERS);
    if (!(*texts && low)) add_equal(s, s->equals + 1);
}

static int add_list(search *s, sqlite3_value *list)
{
    const mx_end none = {.set = false};
    bool numbers = false;
    bool texts = false;
    sqlite3_value *value = NULL;
    int rc = sqlite3_vtab_in_first(list, &value);
    for (; rc == SQLITE_OK && value; rc = sqlite3_vtab_in_next(list, &value)) {
        rc = read_value(s, s->equals, value);
        if (rc != SQLITE_OK) return rc;
        if (!s->none) add_listed(s, &numbers, &texts);
        s->none = false; /* NULL is equal to nothing, the others go on */
    }
    if (numbers && !texts) add_texts(s, s->equals, mw_slice_of(NULL, 0), &none);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The equalities; *wide: one of them is of several values, and its range has been added. */
static int read_equals(search *s, sqlite3_value **argv, bool *wide)
{
    for (uint32_t i = 0; i < s->equals && !*wide && !s->none; i++) {
        int rc = read_value(s, i, argv[i]);
        if (rc != SQLITE_OK) return rc;
        if (is_text_key(s) && s->values[i].type == MW_BLOB) s->none = true;
        if (compared_of(s, i) != COMPARED_TEXT || !is_number(&s->values[i])) continue;
        const mx_end none = {.set = false};
        mw_value text;
        rc = mx_row_value(argv[i], MX_AFFINITY_TEXT, &text);
        if (rc != SQLITE_OK) return rc;
        add_texts(s, i, text.bytes, &none);
        add_texts_of_equals(s, i);
        *wide = true;
    }
    return SQLITE_OK;
}

static int read_others(mx_ranges *to, const mx_vtab *vtab, int plan, sqlite3_value **argv)
{
    search s = {
        .vtab = vtab,
        .to = to,
        .plan = plan,
        .columns = (uint32_t)vtab->args->key_count,
        .values = vtab->key_values,
    };
    s.equals = plan & MX_PLAN_POINT ? s.columns : MX_PLAN_EQUALS(plan);
    bool wide = false;
    int rc = read_equals(&s, argv, &wide);
    if (rc == SQLITE_OK && !wide && !s.none) {
        argv += s.equals;
        if (plan & MX_PLAN_LIST) {
            rc = add_list(&s, *argv);
        } else if (s.equals == s.columns) {
            add_equal(&s, s.equals);
        } else {
            rc = add_bounded(&s, argv);
        }
        to->equal = mx_ranges_count(to);
        add_texts_of_equals(&s, s.equals);
    }
    if (s.none) mx_ranges_clear(to);
    return rc == SQLITE_OK ? check(to) : rc;
}

int mx_ranges_read(mx_ranges *to, const mx_vtab *vtab, int plan, sqlite3_value **argv)
{
    mx_ranges_clear(to);
    if (plan & MX_PLAN_NONE) return SQLITE_OK;
    if (vtab->key == MW_KEY_INTEGER) return read_integers(to, plan, argv);
    return read_others(to, vtab, plan, argv);
}
