/* bond.c: do the database file and the rows of a table belong together?
**
** Whoever restores one of the two from a backup, and not the other, has two halves of different
** moments. A transaction that both have shared tells: the file keeps the newest one in the marker
** rows of its shadow tables, the store in its log and manifest (pledge.h).
**
**     id    u64 number, rises | u16 the table, from the mark of its CREATE | 6 bytes of chance
**
**     the same                 together
**     the file's is higher     the rows are older, or others
**     the store's is higher    the file is older; if the table is one of this file. Tables of other
**                              files may share transactions with the same store, and a table that
**                              had done so may have been dropped
**
** Several tables of the file may have the store: its highest marker counts.
**
** Who reads the two one after the other meets states in between, and an old snapshot of the file. So
** where they differ, the file is read anew by an own connection, and while this process's writers
** pause: then none is between the commit of the file and that of the store. Who may only read cannot
** make anybody pause: he looks again until the store stands still. Where neither can be done at the
** moment, the table is used, and the question asked again with the next statement.
**
** Only in the default place: a store elsewhere is anybody's. */
#include "bond.h"

#include <string.h>

#include "coding.h"
#include "place.h"
#include "shadows.h"
#include "txn.h"

enum {
    SIGN_AT = 8,
    SIGN_BYTES = 2,
    LOOKS = 50,
    STILL_LOOKS = 20, /* after so many without a change there is nobody who writes */
    LOOK_MS = 20,
    ACCEPT_WAIT_MS = 10000,
};

typedef enum verdict { TOGETHER, FILE_IS_OLDER, ROWS_ARE_OLDER, NOT_KNOWN } verdict;

/* What the file says. */
typedef struct page {
    uint8_t id[MW_PLEDGE_ID_BYTES]; /* the highest marker; zeros: there is none      */
    const uint8_t *pledged;         /* the store's, whose sign is looked for         */
    bool signed_here;               /* by a table of this file                       */
} page;

/* ---- signs ----------------------------------------------------------------------------------- */

/* The mark is 32 hexadecimal digits; its first ones are the sign. */
static bool sign_of(const char *mark, uint8_t sign[SIGN_BYTES])
{
    char digits[2 * SIGN_BYTES + 1] = "";
    if (!mark || strlen(mark) != MX_NAME_BYTES - 1) return false;
    memcpy(digits, mark, 2 * SIGN_BYTES);
    return mx_place_get_hex(digits, sign, SIGN_BYTES);
}

/* Marker and mark of one shadow table; *statement: on its only row. */
static int read_shadow(sqlite3 *db, const char *schema, const char *shadow,
                       sqlite3_stmt **statement)
{
    char *sql = sqlite3_mprintf("SELECT (SELECT value FROM \"%w\".\"%w\" WHERE key = 'marker' AND "
                                "typeof(value) = 'blob' AND length(value) = %d),"
                                " (SELECT value FROM \"%w\".\"%w\" WHERE key = 'table')",
                                schema, shadow, MW_PLEDGE_ID_BYTES, schema, shadow);
    int rc = sql ? sqlite3_prepare_v2(db, sql, -1, statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(*statement);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* Keeps the sign of the table at hand: it never changes. */
static void note_sign(mx_vtab *vtab, sqlite3_stmt *statement)
{
    const char *mark = (const char *)sqlite3_column_text(statement, 1);
    if (!vtab->has_sign) vtab->has_sign = sign_of(mark, vtab->sign);
}

int mx_bond_sign(mx_vtab *vtab, const char *shadow, uint8_t id[MW_PLEDGE_ID_BYTES])
{
    static_assert(sizeof vtab->sign == SIGN_BYTES, "the sign of a table has its place in an id");
    sqlite3_stmt *statement = NULL;
    int rc = SQLITE_OK;
    if (!vtab->has_sign) {
        rc = read_shadow(vtab->connection->db, vtab->schema, shadow, &statement);
        if (rc == SQLITE_OK) note_sign(vtab, statement);
        sqlite3_finalize(statement);
    }
    if (vtab->has_sign) memcpy(id + SIGN_AT, vtab->sign, sizeof vtab->sign);
    return rc;
}

/* ---- what the file says ---------------------------------------------------------------------- */

static int add_shadow(sqlite3 *db, const char *schema, const char *shadow, page *to)
{
    sqlite3_stmt *statement = NULL;
    uint8_t sign[SIGN_BYTES];
    int rc = read_shadow(db, schema, shadow, &statement);
    if (rc == SQLITE_OK) {
        const uint8_t *id = sqlite3_column_blob(statement, 0);
        if (id && mw_get_u64(id) >= mw_get_u64(to->id)) memcpy(to->id, id, sizeof to->id);
        bool has = sign_of((const char *)sqlite3_column_text(statement, 1), sign);
        if (has && memcmp(sign, to->pledged + SIGN_AT, sizeof sign) == 0) to->signed_here = true;
    }
    sqlite3_finalize(statement);
    return rc;
}

static int read_page(const mx_vtab *vtab, sqlite3 *db, const char *schema, page *to)
{
    mx_shadows all = {0};
    const char *shadow = NULL;
    int rc = mx_shadows_open(&all, db, schema, &vtab->store);
    if (rc == SQLITE_OK) rc = mx_shadows_next(&all, &shadow);
    while (rc == SQLITE_OK && shadow) {
        rc = add_shadow(db, schema, shadow, to);
        if (rc == SQLITE_OK) rc = mx_shadows_next(&all, &shadow);
    }
    mx_shadows_close(&all);
    return rc;
}

static verdict judge(const page *file, const mw_pledged *store)
{
    uint64_t theirs = mw_get_u64(file->id);
    uint64_t ours = mw_get_u64(store->id);
    if (memcmp(file->id, store->id, sizeof file->id) == 0) return TOGETHER;
    if (theirs >= ours) return ROWS_ARE_OLDER;
    return file->signed_here ? FILE_IS_OLDER : TOGETHER;
}

/* As the connection sees it. */
static verdict compare(const mx_vtab *vtab, sqlite3 *db, const char *schema,
                       const mw_pledged *store)
{
    page file = {.pledged = store->id};
    return read_page(vtab, db, schema, &file) == SQLITE_OK ? judge(&file, store) : NOT_KNOWN;
}

/* As the file is now. The own connection cannot look into a file that the caller's one keeps locked;
** then that one sees it as it is. */
static verdict compare_anew(const mx_vtab *vtab, const mw_pledged *store)
{
    sqlite3 *db = vtab->connection->db;
    sqlite3 *own = NULL;
    verdict found = NOT_KNOWN;
    if (sqlite3_txn_state(db, vtab->schema) != SQLITE_TXN_WRITE) {
        int rc = mx_shadows_connect(vtab, mx_place_file(vtab), SQLITE_OPEN_READONLY, 0, &own);
        if (rc == SQLITE_OK) found = compare(vtab, own, "main", store);
        sqlite3_close(own);
    }
    return found == NOT_KNOWN ? compare(vtab, db, vtab->schema, store) : found;
}

/* ---- what differs at first sight ------------------------------------------------------------- */

typedef struct visitor {
    const mx_vtab *vtab;
    verdict found;
} visitor;

static void visit(void *arg, const mw_pledged *store)
{
    visitor *self = arg;
    self->found = compare_anew(self->vtab, store);
}

static verdict compare_in_a_pause(const mx_vtab *vtab, mw_db *db)
{
    mw_err err;
    mx_err_clear(&err);
    visitor self = {vtab, NOT_KNOWN};
    uint64_t wait_ms = mx_txn_busy_timeout_ms(vtab->connection->db);
    mw_rc rc = mw_db_pause(db, wait_ms, visit, &self, &err);
    return rc == MW_OK ? self.found : NOT_KNOWN;
}

static verdict compare_until_still(mx_vtab *vtab)
{
    char *ignored = NULL;
    mw_pledged before = {0};
    verdict found = NOT_KNOWN;
    for (int looks = 0, still = 0; looks < LOOKS && still < STILL_LOOKS; looks++) {
        if (looks > 0) sqlite3_sleep(LOOK_MS);
        if (mx_txn_renew(vtab, &ignored) != SQLITE_OK) break;
        mw_pledged store = mw_db_pledged(mx_txn_db(vtab->txn));
        verdict seen = compare_anew(vtab, &store);
        bool same = looks > 0 && memcmp(&store, &before, sizeof store) == 0;
        still = same ? still + 1 : 0;
        if (seen == TOGETHER || still == STILL_LOOKS) found = seen;
        if (seen == TOGETHER) break;
        before = store;
    }
    sqlite3_free(ignored);
    return found;
}

/* Has the table's own marker the store's newest transaction? */
static bool is_newest(mx_vtab *vtab, const mw_pledged *store)
{
    sqlite3_stmt *statement = NULL;
    char *shadow = sqlite3_mprintf("%s_store", vtab->name);
    int rc =
        shadow ? read_shadow(vtab->connection->db, vtab->schema, shadow, &statement) : SQLITE_NOMEM;
    const void *id = rc == SQLITE_OK ? sqlite3_column_blob(statement, 0) : NULL;
    bool same = id && memcmp(id, store->id, sizeof store->id) == 0;
    if (same) note_sign(vtab, statement);
    sqlite3_finalize(statement);
    sqlite3_free(shadow);
    return same;
}

/* Most of the time there is nothing to be found out. */
static verdict find_verdict(mx_vtab *vtab)
{
    mw_db *db = mx_txn_db(vtab->txn);
    mw_pledged store = mw_db_pledged(db);
    if (is_newest(vtab, &store)) return TOGETHER;
    verdict found = compare(vtab, vtab->connection->db, vtab->schema, &store);
    if (found == TOGETHER) return found;
    return mw_db_options(db).read_only ? compare_until_still(vtab) : compare_in_a_pause(vtab, db);
}

static const char *words_of(verdict found)
{
    if (found == FILE_IS_OLDER) return "the file is older";
    return found == ROWS_ARE_OLDER ? "the rows are older" : "together";
}

static int refuse(const mx_vtab *vtab, verdict found, char **error)
{
    bool file = found == FILE_IS_OLDER;
    return mx_err_put(
        error, SQLITE_CANTOPEN,
        "the %s of %s (%s) is older than its %s (%s): one of the two was restored from a copy, and "
        "transactions that changed both are in one of them only. Restore both from the same "
        "moment, "
        "or accept them as they are: SELECT memwal_set('%s', 'host', 'accept')",
        file ? "database file" : "store", vtab->name, file ? mx_place_file(vtab) : vtab->path,
        file ? "store" : "database file", file ? vtab->path : mx_place_file(vtab), vtab->name);
}

int mx_bond_check(mx_vtab *vtab, char **error)
{
    if (vtab->agreed || vtab->accepting) return SQLITE_OK;
    bool matters = vtab->in_file && !vtab->args->path;
    if (matters && (vtab->created || mx_txn_open(vtab->txn))) return SQLITE_OK;
    verdict found = matters ? find_verdict(vtab) : TOGETHER;
    vtab->agreed = found == TOGETHER;
    bool differ = found == FILE_IS_OLDER || found == ROWS_ARE_OLDER;
    return differ ? refuse(vtab, found, error) : SQLITE_OK;
}

/* ---- accepting ------------------------------------------------------------------------------- */

typedef struct acceptor {
    const mx_vtab *vtab;
    verdict before;
    int rc;
} acceptor;

static int put_marker(const mx_vtab *vtab, const char *shadow, const mw_pledged *store)
{
    char hex[2 * MW_PLEDGE_ID_BYTES + 1];
    mx_place_put_hex(hex, store->id, sizeof store->id);
    char *sql = sqlite3_mprintf("UPDATE \"%w\".\"%w\" SET value = x'%s' WHERE key = 'marker'",
                                vtab->schema, shadow, hex);
    int rc = sql ? sqlite3_exec(vtab->connection->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc;
}

/* All tables of the file that have the store: the highest marker counts. */
static void put_markers(void *arg, const mw_pledged *store)
{
    acceptor *self = arg;
    const mx_vtab *vtab = self->vtab;
    sqlite3 *db = vtab->connection->db;
    mx_shadows all = {0};
    const char *shadow = NULL;
    self->before = compare(vtab, db, vtab->schema, store);
    if (self->before == TOGETHER) return;
    self->rc = mx_shadows_open(&all, db, vtab->schema, &vtab->store);
    if (self->rc == SQLITE_OK) self->rc = mx_shadows_next(&all, &shadow);
    while (self->rc == SQLITE_OK && shadow) {
        self->rc = put_marker(vtab, shadow, store);
        if (self->rc == SQLITE_OK) self->rc = mx_shadows_next(&all, &shadow);
    }
    mx_shadows_close(&all);
}

/* First the file's lock, then the store's turn, as writers take them. */
static int accept(mx_vtab *vtab, mx_txn *txn, verdict *before, char **error)
{
    sqlite3 *db = vtab->connection->db;
    mw_err err;
    mx_err_clear(&err);
    acceptor self = {vtab, TOGETHER, SQLITE_OK};
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return mx_err_put(error, rc, "%s", sqlite3_errmsg(db));
    if (mw_db_pause(mx_txn_db(txn), ACCEPT_WAIT_MS, put_markers, &self, &err) != MW_OK) {
        rc = mx_err_give_in(error, vtab->path, &err);
    } else {
        rc = self.rc;
        if (rc == SQLITE_OK) rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        if (rc != SQLITE_OK) mx_err_put(error, rc, "%s", sqlite3_errmsg(db));
    }
    if (!sqlite3_get_autocommit(db)) (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    *before = self.before;
    return rc;
}

int mx_bond_accept(mx_vtab *vtab, const char **before, char **error)
{
    sqlite3 *db = vtab->connection->db;
    mx_txn *txn = NULL;
    verdict found = TOGETHER;
    if (sqlite3_db_readonly(db, vtab->schema) == 1) {
        return mx_err_put(error, SQLITE_READONLY, "the database is opened read-only");
    }
    if (!sqlite3_get_autocommit(db) || sqlite3_txn_state(db, NULL) == SQLITE_TXN_WRITE) {
        return mx_err_put(error, SQLITE_LOCKED,
                          "memwal_set inside a transaction: it acts at once and could not be "
                          "rolled back, COMMIT first");
    }
    vtab->accepting = true;
    int rc = mx_vtab_use(vtab, &txn, error);
    bool matters = vtab->in_file && !vtab->args->path;
    if (rc == SQLITE_OK && matters) rc = accept(vtab, txn, &found, error);
    vtab->accepting = false;
    *before = words_of(found);
    return rc;
}
