/* plan.c: xBestIndex.
**
** Keys are the only order the store has, so there are five ways: one key, a list of keys, a range of
** keys, everything, and counting. Of a key of several columns the first ones may be compared for
** equality and the next one by a list or a range. What makes it delicate is that SQLite hands the
** other side of a comparison over as it is, without the column's affinity:
**
**   - For integer ids and other columns of a numeric affinity the cursor turns any argument into
**     exact bounds (range.c), so SQLite need not look again (omit), and equalities for the whole key
**     yield at most one row (unique).
**   - For texts and for columns without affinity SQLite may be comparing numerically (text = integer
**     column: '1' and '01' both equal 1). Which it does depends on the affinity of the other side,
**     and that is not told; so the cursor chooses by the type of the value that comes, and shows
**     every key that either way of comparing can find. Nothing is omitted and nothing called unique.
**   - Behind IN such keys must come as one list: where values come one by one, SQLite looks again at
**     what was found without the affinity that IN has, and loses rows or finds too many.
**   - A bound under another collation than BINARY (LIKE brings NOCASE ones) is none of ours; and
**     where the host keeps texts in UTF-16, its BINARY order is not that of the store: among texts
**     only equality holds.
**
** Two cases of texts are left where rows differ from an ordinary table's, because nothing tells
** them from everyday ones: (id, x) IN (SELECT n, ..) where n is a number, whose values come one by
** one as those of id = n do; and, in SQLite 3.40, a text out of a column that a compound subquery
** says to be numeric (SELECT integer_column .. UNION ALL SELECT '01'). */
#include "plan.h"

#include "moment.h"
#include "txn.h"

/* What is being made of what SQLite offers. */
typedef struct choice {
    const mx_vtab *vtab;
    sqlite3_index_info *info;
    int plan;
    int arguments;
    int equals; /* columns of the key, the first ones, compared with one value each */
    bool exact; /* so far nothing but what is wanted is shown                          */
} choice;

static const double ROWS_UNKNOWN = 1000000.0;

enum {
    IN_CONSTRAINTS = 32, /* SQLite tells of the first ones only whether they are an IN */
    LIST_ROWS = 10,      /* a guess: how long it will be is not known                  */
    EQUAL_ROWS = 100,    /* another one: what an equality of a part of the key leaves  */
};

/* ---- columns -------------------------------------------------------------------------------- */

/* The rowid counts as a key of one column. */
static int part_count(const mx_vtab *vtab)
{
    return vtab->args->key_count > 0 ? vtab->args->key_count : 1;
}

/* The place in the key of a column as SQLite numbers them; -1: outside. */
static int part_of(const mx_vtab *vtab, int column)
{
    if (column < 0) return vtab->rowid ? 0 : -1;
    /* The hidden column of a key of several has the next number. */
    return column < vtab->args->column_count ? vtab->args->columns[column].key_part : -1;
}

static const char *part_name(const mx_vtab *vtab, int part)
{
    const mx_args *args = vtab->args;
    return args->key_count > 0 ? args->columns[args->key[part]].name : "rowid";
}

/* Are comparisons with this column numeric, whatever is on the other side? */
static bool is_numeric(const mx_vtab *vtab, int part)
{
    const mx_args *args = vtab->args;
    return vtab->rowid || args->columns[args->key[part]].affinity >= MX_AFFINITY_NUMERIC;
}

/* Are keys in the order that SQLite knows? */
static bool is_ordered(const mx_vtab *vtab)
{
    return vtab->key == MW_KEY_INTEGER || vtab->binary_order;
}

/* ---- constraints ---------------------------------------------------------------------------- */

static bool is_equality(int op)
{
    return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS;
}

static bool is_binary(const choice *c, int i)
{
    if (c->vtab->key == MW_KEY_INTEGER) return true;
    const char *collation = sqlite3_vtab_collation(c->info, i);
    return collation && sqlite3_stricmp(collation, "BINARY") == 0;
}

/* Can constraint i be used for this column? LIMIT and OFFSET have no column, so callers look at the
** kind of a constraint first. */
static bool is_for(const choice *c, int i, int part)
{
    return c->info->aConstraint[i].usable &&
           part_of(c->vtab, c->info->aConstraint[i].iColumn) == part && is_binary(c, i);
}

static bool is_list(const choice *c, int i) { return sqlite3_vtab_in(c->info, i, -1) != 0; }

/* An equality for this column; a list only where there is no other. -1: none. */
static int find_equality(const choice *c, int part)
{
    int list = -1;
    for (int i = 0; i < c->info->nConstraint; i++) {
        if (!is_equality(c->info->aConstraint[i].op) || !is_for(c, i, part)) continue;
        if (!is_numeric(c->vtab, part) && i >= IN_CONSTRAINTS) continue;
        if (!is_list(c, i)) return i;
        if (list < 0) list = i;
    }
    return list;
}

static int find_bound(const choice *c, int part, int op, int op_or_equal)
{
    /* Encoded keys keep numbers, texts and blobs apart, which is of use even so. */
    bool useful = is_ordered(c->vtab) || c->vtab->key == MW_KEY_ENCODED;
    for (int i = 0; useful && i < c->info->nConstraint; i++) {
        int found = c->info->aConstraint[i].op;
        if ((found == op || found == op_or_equal) && is_for(c, i, part)) return i;
    }
    return -1;
}

static int find_low(const choice *c, int part)
{
    return find_bound(c, part, SQLITE_INDEX_CONSTRAINT_GT, SQLITE_INDEX_CONSTRAINT_GE);
}

static int find_high(const choice *c, int part)
{
    return find_bound(c, part, SQLITE_INDEX_CONSTRAINT_LT, SQLITE_INDEX_CONSTRAINT_LE);
}

/* Keys are never NULL. */
static bool wants_null(const choice *c)
{
    for (int i = 0; i < c->info->nConstraint; i++) {
        if (c->info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_ISNULL &&
            c->info->aConstraint[i].usable && part_of(c->vtab, c->info->aConstraint[i].iColumn) >= 0) {
            return true;
        }
    }
    return false;
}

/* Is the other side of this type whatever happens? SQLite evaluates casts here, but none to a
** numeric type gives a text. */
static bool is_literal(const choice *c, int i, int type)
{
    sqlite3_value *value = NULL;
    return sqlite3_vtab_rhs_value(c->info, i, &value) == SQLITE_OK && value &&
           sqlite3_value_type(value) == type;
}

static bool is_number(const choice *c, int i)
{
    return is_literal(c, i, SQLITE_INTEGER) || is_literal(c, i, SQLITE_FLOAT);
}

/* ---- taking them ---------------------------------------------------------------------------- */

/* Hands constraint i, on this column, to xFilter as its next argument. */
static void take(choice *c, int i, int part)
{
    c->exact = c->exact && is_numeric(c->vtab, part);
    c->info->aConstraintUsage[i].argvIndex = ++c->arguments;
    c->info->aConstraintUsage[i].omit = c->exact;
}

static bool is_narrowed(const choice *c, int part)
{
    return find_equality(c, part) >= 0 || find_low(c, part) >= 0 || find_high(c, part) >= 0;
}

/* Values of a list come one by one where that is exact and lets the next column be used, too. */
static bool is_list_wanted(const choice *c, int i, int part)
{
    if (!is_list(c, i) || c->vtab->key == MW_KEY_INTEGER) return false;
    if (!is_numeric(c->vtab, part) || part + 1 == part_count(c->vtab)) return true;
    return !is_narrowed(c, part + 1);
}

/* Has the column, compared for equality, one value in all rows that are shown? A number may be
** equal to texts. */
static bool is_fixed(const choice *c, int part)
{
    int i = find_equality(c, part);
    return is_numeric(c->vtab, part) || is_literal(c, i, SQLITE_TEXT) ||
           is_literal(c, i, SQLITE_BLOB);
}

/* The equalities of the first columns. Returns at which column they end. */
static int take_equalities(choice *c)
{
    for (int part = 0; part < part_count(c->vtab); part++) {
        int i = find_equality(c, part);
        if (i < 0) return part;
        if (is_list_wanted(c, i, part)) {
            c->exact = false;
            (void)sqlite3_vtab_in(c->info, i, 1);
            take(c, i, part);
            c->plan |= MX_PLAN_LIST;
            return part;
        }
        if (c->equals == part && !is_list(c, i)) c->equals++;
        take(c, i, part);
        c->plan += MX_PLAN_EQUAL;
    }
    c->plan = MX_PLAN_POINT;
    return part_count(c->vtab);
}

static void take_bounds(choice *c, int part)
{
    /* Where texts are in another order, bounds are widened. */
    if (!is_ordered(c->vtab)) c->exact = false;
    int low = find_low(c, part);
    int high = find_high(c, part);
    if (low >= 0) {
        bool strict = c->info->aConstraint[low].op == SQLITE_INDEX_CONSTRAINT_GT;
        take(c, low, part);
        c->plan |= MX_PLAN_LOW | (strict ? MX_PLAN_LOW_STRICT : 0);
    }
    if (high >= 0) {
        bool strict = c->info->aConstraint[high].op == SQLITE_INDEX_CONSTRAINT_LT;
        take(c, high, part);
        c->plan |= MX_PLAN_HIGH | (strict ? MX_PLAN_HIGH_STRICT : 0);
        if (!is_numeric(c->vtab, part) && is_literal(c, high, SQLITE_TEXT)) {
            c->plan |= MX_PLAN_HIGH_TEXT;
        }
    }
}

/* How far an ORDER BY is one by the key. */
typedef struct ordering {
    int terms;   /* of ORDER BY, that are                                       */
    int parts;   /* of the key, that have been used up                          */
    int down;    /* from the highest key on; -1: no column tells                */
    bool named;  /* it names a column that may be of several values after all   */
    bool passed; /* it leaves such a column out                                 */
} ordering;

/* Goes on with the next column of the key: the next term names it, or it has one value. */
static bool follow(const choice *c, ordering *o)
{
    const sqlite3_index_info *info = c->info;
    bool named = part_of(c->vtab, info->aOrderBy[o->terms].iColumn) == o->parts;
    bool equal = o->parts < c->equals;
    bool fixed = equal && is_fixed(c, o->parts);
    if (!named && !equal) return false;
    if (!named && !fixed && is_number(c, find_equality(c, o->parts))) return false;
    if (named && !fixed) {
        if (o->down >= 0 && o->down != info->aOrderBy[o->terms].desc) return false;
        o->down = info->aOrderBy[o->terms].desc;
    }
    o->named = o->named || (named && equal && !fixed);
    o->passed = o->passed || (!named && !fixed);
    o->parts++;
    if (named) o->terms++;
    return true;
}

/* Rows come in the order of their keys. Columns that have one value may be left out of an ORDER BY,
** and whatever follows the whole key is decided by it. A column that is compared for equality most
** probably has one value; if a number comes that may be equal to texts, the cursor has to sort. */
static void take_order(choice *c)
{
    ordering o = {.down = -1};
    if (!is_ordered(c->vtab) || c->info->nOrderBy == 0) return;
    while (o.terms < c->info->nOrderBy && o.parts < part_count(c->vtab) && follow(c, &o)) continue;
    bool all = o.terms == c->info->nOrderBy;
    bool whole = o.parts == part_count(c->vtab) && !o.passed;
    if ((!all && !whole) || (o.named && o.passed)) return;
    c->info->orderByConsumed = 1;
    if (o.down > 0) c->plan |= MX_PLAN_BACKWARD;
    if (o.passed) c->plan |= MX_PLAN_BY_REST;
}

/* ---- estimates ------------------------------------------------------------------------------ */

static double estimate_rows(const choice *c, double all)
{
    int plan = c->plan;
    if (plan & (MX_PLAN_POINT | MX_PLAN_NONE)) return 1;
    double rows = all;
    bool part = MX_PLAN_EQUALS(plan) > 0;
    for (uint32_t i = 0; i < MX_PLAN_EQUALS(plan) && rows > 1; i++) rows /= EQUAL_ROWS;
    if (part && rows < LIST_ROWS) rows = LIST_ROWS;
    bool both = (plan & MX_PLAN_LOW) && (plan & MX_PLAN_HIGH);
    if (plan & (MX_PLAN_LOW | MX_PLAN_HIGH)) rows /= both ? 16 : 4;
    if ((plan & MX_PLAN_LIST) && rows > LIST_ROWS) rows = LIST_ROWS;
    return rows < 1 ? 1 : rows;
}

static void estimate(const choice *c, double all)
{
    double rows = estimate_rows(c, all);
    c->info->estimatedRows = (sqlite3_int64)rows;
    c->info->estimatedCost = 4 + rows * (c->plan & MX_PLAN_COUNT ? 0.1 : 1.0);
    if ((c->plan & MX_PLAN_POINT) && c->exact) c->info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
}

/* What EXPLAIN QUERY PLAN shows. */
static char *describe(const choice *c)
{
    int plan = c->plan;
    const char *order = plan & MX_PLAN_BACKWARD ? " desc" : "";
    int equals = plan & MX_PLAN_POINT ? part_count(c->vtab) : (int)MX_PLAN_EQUALS(plan);
    if (plan & MX_PLAN_NONE) return sqlite3_mprintf("nothing");
    if (plan & MX_PLAN_COUNT) return sqlite3_mprintf("count%s", order);
    sqlite3_str *words = sqlite3_str_new(NULL);
    const char *and = "";
    for (int part = 0; part < equals; part++, and = " AND ") {
        sqlite3_str_appendf(words, "%s%s=?", and, part_name(c->vtab, part));
    }
    const char *name = plan & MX_PLAN_POINT ? "" : part_name(c->vtab, equals);
    if (plan & MX_PLAN_LIST) sqlite3_str_appendf(words, "%s%s IN ?", and, name);
    if (plan & MX_PLAN_LOW) {
        sqlite3_str_appendf(words, "%s%s%s", and, name, plan & MX_PLAN_LOW_STRICT ? ">?" : ">=?");
        and = " AND ";
    }
    if (plan & MX_PLAN_HIGH) {
        sqlite3_str_appendf(words, "%s%s%s", and, name, plan & MX_PLAN_HIGH_STRICT ? "<?" : "<=?");
    }
    if (sqlite3_str_length(words) == 0) sqlite3_str_appendall(words, "scan");
    if (!(plan & MX_PLAN_POINT)) sqlite3_str_appendall(words, order);
    return sqlite3_str_finish(words);
}

int mx_plan_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    mx_vtab *vtab = (mx_vtab *)base;
    choice c = {.vtab = vtab, .info = info, .exact = true};
    int rc = mx_moment_prepare(vtab);
    if (rc != SQLITE_OK) return rc;
    vtab->doubted = false;
    if (wants_null(&c)) {
        c.plan = MX_PLAN_NONE;
    } else {
        int part = take_equalities(&c);
        if (!(c.plan & (MX_PLAN_LIST | MX_PLAN_POINT))) take_bounds(&c, part);
    }
    take_order(&c);
    bool bounded = (c.plan & ~MX_PLAN_BACKWARD) != 0;
    if (info->colUsed == 0 && !bounded) c.plan |= MX_PLAN_COUNT;
    int64_t seen = mx_txn_rows_seen(vtab->txn);
    estimate(&c, seen >= 0 ? (double)seen : ROWS_UNKNOWN);
    info->idxNum = c.plan;
    info->idxStr = describe(&c);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}
