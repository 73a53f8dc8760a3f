/* plan.c: xBestIndex.
**
** Ids are the only order the store has, so there are five ways: one id, a list of ids, a range of
** ids, everything, and counting. What makes it delicate is that SQLite hands the other side of a
** comparison over as it is, without the column's affinity:
**
**   - For integer ids the cursor turns any argument into exact bounds, so SQLite need not look
**     again (omit) and an equality yields at most one row (unique).
**   - For text ids SQLite may be comparing numerically (text = integer column: '1' and '01' both
**     equal 1). Which it does depends on the affinity of the other side, and that is not told; so
**     the cursor chooses by the type of the value that comes, and shows every id that either way of
**     comparing can find. Nothing is omitted and nothing is called unique.
**   - Behind IN such ids must come as one list: where values come one by one, SQLite looks again at
**     what was found without the affinity that IN has, and loses rows or finds too many.
**   - A bound under another collation than BINARY (LIKE brings NOCASE ones) is none of ours; and
**     where the host keeps texts in UTF-16, its BINARY order is not that of the store: only
**     equality holds.
**
** Two cases of text ids are left where rows differ from an ordinary table's, because nothing tells
** them from everyday ones: (id, x) IN (SELECT n, ..) where n is a number, whose values come one by
** one as those of id = n do; and, in SQLite 3.40, a text out of a column that a compound subquery
** says to be numeric (SELECT integer_column .. UNION ALL SELECT '01'). */
#include "plan.h"

#include "txn.h"

/* The constraints that the plan uses, as indexes into aConstraint; -1: none. */
typedef struct choice {
    int point;
    int low;
    int high;
    bool none;
} choice;

static const double ROWS_UNKNOWN = 1000000.0;

enum {
    IN_CONSTRAINTS = 32, /* SQLite tells of the first ones only whether they are an IN */
    LIST_ROWS = 10,      /* a guess: how long it will be is not known                  */
};

static bool is_key(const mx_vtab *vtab, int column)
{
    if (column < 0) return vtab->rowid;
    return column == vtab->args->key;
}

static bool is_seekable(const mx_vtab *vtab, sqlite3_index_info *info, int i)
{
    if (vtab->key == MW_KEY_INTEGER) return true;
    const char *collation = sqlite3_vtab_collation(info, i);
    return collation && sqlite3_stricmp(collation, "BINARY") == 0;
}

static void consider(const mx_vtab *vtab, sqlite3_index_info *info, int i, choice *chosen)
{
    bool ordered = vtab->key == MW_KEY_INTEGER || vtab->binary_order;
    switch (info->aConstraint[i].op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
    case SQLITE_INDEX_CONSTRAINT_IS:
        if (vtab->key == MW_KEY_TEXT && i >= IN_CONSTRAINTS) break;
        if (chosen->point < 0) chosen->point = i;
        break;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        if (ordered && chosen->low < 0) chosen->low = i;
        break;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        if (ordered && chosen->high < 0) chosen->high = i;
        break;
    default: break;
    }
}

/* LIMIT and OFFSET have no column, so the kind of a constraint is looked at before its column. */
static bool is_comparison(int op)
{
    return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS ||
           op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE ||
           op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE;
}

static choice choose(const mx_vtab *vtab, sqlite3_index_info *info)
{
    choice chosen = {.point = -1, .low = -1, .high = -1, .none = false};
    for (int i = 0; i < info->nConstraint; i++) {
        int op = info->aConstraint[i].op;
        if (!info->aConstraint[i].usable) continue;
        if (op != SQLITE_INDEX_CONSTRAINT_ISNULL && !is_comparison(op)) continue;
        if (!is_key(vtab, info->aConstraint[i].iColumn)) continue;
        if (op == SQLITE_INDEX_CONSTRAINT_ISNULL) chosen.none = true;
        if (is_comparison(op) && is_seekable(vtab, info, i)) consider(vtab, info, i, &chosen);
    }
    if (chosen.point >= 0) chosen.low = chosen.high = -1;
    return chosen;
}

/* Hands constraint i to xFilter as its next argument. */
static void take(const mx_vtab *vtab, sqlite3_index_info *info, int i, int *arguments)
{
    info->aConstraintUsage[i].argvIndex = ++*arguments;
    info->aConstraintUsage[i].omit = vtab->key == MW_KEY_INTEGER;
}

/* Is the other side a text whatever happens? SQLite evaluates casts here, but none to a numeric
** type gives a text. */
static bool is_text_literal(sqlite3_index_info *info, int i)
{
    sqlite3_value *value = NULL;
    return sqlite3_vtab_rhs_value(info, i, &value) == SQLITE_OK && value &&
           sqlite3_value_type(value) == SQLITE_TEXT;
}

static int take_bounds(const mx_vtab *vtab, sqlite3_index_info *info, const choice *chosen)
{
    int plan = 0;
    int arguments = 0;
    if (chosen->none) return MX_PLAN_NONE;
    if (chosen->point >= 0) {
        bool list = vtab->key == MW_KEY_TEXT && sqlite3_vtab_in(info, chosen->point, 1);
        take(vtab, info, chosen->point, &arguments);
        plan |= list ? MX_PLAN_LIST : MX_PLAN_POINT;
    }
    if (chosen->low >= 0) {
        bool strict = info->aConstraint[chosen->low].op == SQLITE_INDEX_CONSTRAINT_GT;
        take(vtab, info, chosen->low, &arguments);
        plan |= MX_PLAN_LOW | (strict ? MX_PLAN_LOW_STRICT : 0);
    }
    if (chosen->high >= 0) {
        bool strict = info->aConstraint[chosen->high].op == SQLITE_INDEX_CONSTRAINT_LT;
        take(vtab, info, chosen->high, &arguments);
        plan |= MX_PLAN_HIGH | (strict ? MX_PLAN_HIGH_STRICT : 0);
        if (vtab->key == MW_KEY_TEXT && is_text_literal(info, chosen->high)) {
            plan |= MX_PLAN_HIGH_TEXT;
        }
    }
    return plan;
}

/* Ids are unique, so an ORDER BY that begins with the id is decided by it, whatever follows. */
static int take_order(const mx_vtab *vtab, sqlite3_index_info *info)
{
    bool ordered = vtab->key == MW_KEY_INTEGER || vtab->binary_order;
    if (!ordered || info->nOrderBy == 0) return 0;
    if (!is_key(vtab, info->aOrderBy[0].iColumn)) return 0;
    info->orderByConsumed = 1;
    return info->aOrderBy[0].desc ? MX_PLAN_BACKWARD : 0;
}

static void estimate(const mx_vtab *vtab, sqlite3_index_info *info, int plan, double all)
{
    double rows = all;
    if (plan & (MX_PLAN_LOW | MX_PLAN_HIGH)) rows = all / 4;
    if ((plan & MX_PLAN_LOW) && (plan & MX_PLAN_HIGH)) rows = all / 16;
    if (plan & MX_PLAN_LIST) rows = all < LIST_ROWS ? all : LIST_ROWS;
    if (plan & (MX_PLAN_POINT | MX_PLAN_NONE)) rows = 1;
    if (rows < 1) rows = 1;
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = 4 + rows * (plan & MX_PLAN_COUNT ? 0.1 : 1.0);
    if ((plan & MX_PLAN_POINT) && vtab->key == MW_KEY_INTEGER) {
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    }
}

/* What EXPLAIN QUERY PLAN shows. */
static char *describe(const mx_vtab *vtab, int plan)
{
    const char *id = vtab->args->key >= 0 ? vtab->args->columns[vtab->args->key].name : "rowid";
    const char *order = plan & MX_PLAN_BACKWARD ? " desc" : "";
    const char *low = plan & MX_PLAN_LOW_STRICT ? ">?" : ">=?";
    const char *high = plan & MX_PLAN_HIGH_STRICT ? "<?" : "<=?";
    if (plan & MX_PLAN_NONE) return sqlite3_mprintf("nothing");
    if (plan & MX_PLAN_COUNT) return sqlite3_mprintf("count%s", order);
    if (plan & MX_PLAN_POINT) return sqlite3_mprintf("%s=?", id);
    if (plan & MX_PLAN_LIST) return sqlite3_mprintf("%s IN ?%s", id, order);
    if ((plan & MX_PLAN_LOW) && (plan & MX_PLAN_HIGH)) {
        return sqlite3_mprintf("%s%s AND %s%s%s", id, low, id, high, order);
    }
    if (plan & MX_PLAN_LOW) return sqlite3_mprintf("%s%s%s", id, low, order);
    if (plan & MX_PLAN_HIGH) return sqlite3_mprintf("%s%s%s", id, high, order);
    return sqlite3_mprintf("scan%s", order);
}

int mx_plan_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    mx_vtab *vtab = (mx_vtab *)base;
    vtab->doubted = false;
    choice chosen = choose(vtab, info);
    int plan = take_bounds(vtab, info, &chosen);
    plan |= take_order(vtab, info);
    int bounds = MX_PLAN_POINT | MX_PLAN_LIST | MX_PLAN_LOW | MX_PLAN_HIGH | MX_PLAN_NONE;
    if (info->colUsed == 0 && !(plan & bounds)) plan |= MX_PLAN_COUNT;
    int64_t seen = mx_txn_rows_seen(vtab->txn);
    estimate(vtab, info, plan, seen >= 0 ? (double)seen : ROWS_UNKNOWN);
    info->idxNum = plan;
    info->idxStr = describe(vtab, plan);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}
