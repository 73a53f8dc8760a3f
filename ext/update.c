/* update.c: xUpdate.
**
** SQLite checks nothing of a virtual table's rows. So affinity, DEFAULT, NOT NULL, the key's kind
** and its uniqueness are done here, in the order of an ordinary table and with its codes and words:
** datatype mismatch of the id, then NOT NULL, then UNIQUE. A constraint is reported; what follows
** (ABORT, FAIL, IGNORE, ROLLBACK) SQLite does itself. Only REPLACE is ours: the row in the way
** goes.
**
** Each call is atomic: it takes a mark first and undoes to it, because SQLite opens no savepoint
** for a statement of one row.
**
** SQLite collects the ids of the rows that an UPDATE changes before it changes any, so a row may be
** gone by the time that it is its turn (UPDATE ... FROM may name one several times, a function may
** delete it). It is passed over then, as an ordinary table does it.
**
** xColumn gives every value, changed or not, so that the new row arrives here whole: looking
** unchanged columns up again would cost a snapshot and a search per row. */
#include "row.h"
#include "txn.h"

enum { ROWID_TRIES = 100 };

/* One call of xUpdate. */
typedef struct change {
    mx_vtab *vtab;
    mw_txn *open;
    int mode;              /* SQLITE_REPLACE, SQLITE_IGNORE, ...          */
    uint64_t mark;         /* position before it                          */
    bool inserting;
    sqlite3_value **values; /* one per column                             */
    sqlite3_value *key_value; /* where the new row's id stands; NULL: it is ours to choose, or
                              ** encoded, of the columns */
    mx_key key;            /* the new row's                               */
} change;

static bool is_null(sqlite3_value *value) { return sqlite3_value_type(value) == SQLITE_NULL; }

static const char *key_name(const mx_vtab *vtab)
{
    const mx_args *args = vtab->args;
    return args->key_count > 0 ? args->columns[args->key[0]].name : "rowid";
}

static bool is_composite(const mx_vtab *vtab) { return vtab->args->key_count > 1; }

/* ---- failures ------------------------------------------------------------------------------- */

static int put_words(mx_vtab *vtab, int code, char *words)
{
    sqlite3_free(vtab->base.zErrMsg);
    vtab->base.zErrMsg = words;
    return words ? code : SQLITE_NOMEM;
}

static int fail_engine(const change *now, mw_err *err)
{
    int code = mx_txn_fail(now->vtab, err);
    mx_txn_abandon(now->vtab->txn, now->mark);
    return code;
}

/* A refusal may rest on a row that is queued and not yet durable: it is only given when that row is
** there for good. */
static int refuse(const change *now, int code, char *words)
{
    mw_err err;
    mx_err_clear(&err);
    if (mw_txn_settle(now->open, &err) != MW_OK) {
        sqlite3_free(words);
        return mx_txn_fail(now->vtab, &err);
    }
    return put_words(now->vtab, code, words);
}

static int refuse_null(const change *now, int column)
{
    mx_vtab *vtab = now->vtab;
    return put_words(vtab, SQLITE_CONSTRAINT_NOTNULL,
                     sqlite3_mprintf("NOT NULL constraint failed: %s.%s", vtab->name,
                                     vtab->args->columns[column].name));
}

static int refuse_duplicate(const change *now)
{
    const mx_vtab *vtab = now->vtab;
    const mx_args *args = vtab->args;
    int code = args->key_count > 0 ? SQLITE_CONSTRAINT_PRIMARYKEY : SQLITE_CONSTRAINT_ROWID;
    sqlite3_str *words = sqlite3_str_new(NULL);
    sqlite3_str_appendf(words, "UNIQUE constraint failed: %s.%s", vtab->name, key_name(vtab));
    for (int i = 1; i < args->key_count; i++) {
        sqlite3_str_appendf(words, ", %s.%s", vtab->name, args->columns[args->key[i]].name);
    }
    return refuse(now, code, sqlite3_str_finish(words));
}

static int refuse_key_type(const change *now)
{
    mx_vtab *vtab = now->vtab;
    if (vtab->rowid) return put_words(vtab, SQLITE_MISMATCH, sqlite3_mprintf("datatype mismatch"));
    return mx_err_set(&vtab->base, SQLITE_MISMATCH, "%s.%s takes %s as a key", vtab->name,
                      key_name(vtab), vtab->key == MW_KEY_TEXT ? "only text" : "only integers");
}

/* ---- the new row ---------------------------------------------------------------------------- */

/* Where the value of a column goes; NULL: it is the whole key, which has been read before. */
static mw_value *place_of(mx_vtab *vtab, int column)
{
    int part = vtab->args->columns[column].key_part;
    if (part < 0) return &vtab->values[vtab->stored[column]];
    return vtab->key == MW_KEY_ENCODED ? &vtab->key_values[part] : NULL;
}

/* Values of all columns, but for keys of one kind; NOT NULL in the order of the columns. */
static int read_columns(const change *now)
{
    mx_vtab *vtab = now->vtab;
    for (int i = 0; i < vtab->args->column_count; i++) {
        const mx_column *column = &vtab->args->columns[i];
        mw_value *to = place_of(vtab, i);
        if (!to) {
            if (!vtab->rowid && is_null(now->key_value)) return refuse_null(now, i);
            continue;
        }
        sqlite3_value *from = now->values[i];
        bool may_default = column->key_part < 0 || now->inserting;
        if (is_null(from) && column->default_value && may_default) {
            from = column->default_value;
        }
        int rc = mx_row_value(from, column->affinity, to);
        if (rc != SQLITE_OK) return rc;
        if (to->type == MW_NULL && column->not_null) return refuse_null(now, i);
    }
    return SQLITE_OK;
}

/* The key of key_values, into bytes. */
static int encode_key(mx_vtab *vtab, mw_buf *bytes, mx_key *key)
{
    uint32_t count = (uint32_t)vtab->args->key_count;
    mw_buf_clear(bytes);
    mw_key_encode(bytes, vtab->key_values, count, count);
    key->slice = mw_buf_slice(bytes);
    key->number = 0;
    return bytes->failed ? SQLITE_NOMEM : SQLITE_OK;
}

/* The hidden column of a key of several columns is computed: nobody may set it. An UPDATE hands its
** old value over. */
static int check_hidden_key(const change *now, const mx_key *old)
{
    mx_vtab *vtab = now->vtab;
    if (!is_composite(vtab)) return SQLITE_OK;
    sqlite3_value *hidden = now->values[vtab->args->column_count];
    if (is_null(hidden)) return SQLITE_OK;
    mw_value given;
    int rc = mx_row_value(hidden, MX_AFFINITY_BLOB, &given);
    if (rc != SQLITE_OK) return rc;
    bool same = old && given.type == MW_BLOB && mw_slice_equal(given.bytes, old->slice);
    if (same) return SQLITE_OK;
    return mx_err_set(&vtab->base, SQLITE_ERROR,
                      "the hidden key column of %s is made of its key columns: expected no value "
                      "for it",
                      vtab->name);
}

/* Fills the key from the value that holds it. */
static int read_key(change *now, sqlite3_value *from)
{
    bool fits = false;
    now->key_value = from;
    if (!from || now->vtab->key == MW_KEY_ENCODED) return SQLITE_OK;
    /* NULL is reported as a NOT NULL constraint, in its place among the columns. */
    if (!now->vtab->rowid && is_null(from)) return SQLITE_OK;
    int rc = mx_key_of_value(now->vtab->key, from, &now->key, &fits);
    if (rc != SQLITE_OK) return rc;
    return fits ? SQLITE_OK : refuse_key_type(now);
}

static int encode_row(mx_vtab *vtab, mw_slice *row)
{
    if (vtab->forms) {
        int rc = mx_key_forms(vtab->args, vtab->key_values, &vtab->form_bytes, &vtab->values[0]);
        if (rc != SQLITE_OK) return rc;
    }
    mw_buf_clear(&vtab->row);
    mw_row_encode(&vtab->row, vtab->values, vtab->stored_count);
    if (vtab->row.failed) return SQLITE_NOMEM;
    *row = mw_buf_slice(&vtab->row);
    return SQLITE_OK;
}

/* The new row as it is to be stored. */
static int read_row(change *now, sqlite3_value *key, mw_slice *row)
{
    int rc = read_key(now, key);
    if (rc == SQLITE_OK) rc = read_columns(now);
    if (rc == SQLITE_OK && now->vtab->key == MW_KEY_ENCODED) {
        rc = encode_key(now->vtab, &now->vtab->key_bytes, &now->key);
    }
    return rc == SQLITE_OK ? encode_row(now->vtab, row) : rc;
}

/* ---- automatic ids -------------------------------------------------------------------------- */

/* Above the highest id there is none left: some free one, as SQLite does it. */
static int find_free_rowid(change *now)
{
    for (int i = 0; i < ROWID_TRIES; i++) {
        uint64_t random = 0;
        bool lives = false;
        mw_err err;
        mx_err_clear(&err);
        sqlite3_randomness(sizeof random, &random);
        mx_key_of_integer(&now->key, (int64_t)(random & (INT64_MAX >> 1)) + 1);
        if (mw_txn_exists(now->open, now->key.slice, &lives, &err) != MW_OK) {
            return fail_engine(now, &err);
        }
        if (!lives) return SQLITE_OK;
    }
    return mx_err_set(&now->vtab->base, SQLITE_FULL, "no free rowid found in %s", now->vtab->name);
}

static int allot_rowid(change *now)
{
    int64_t max = 0;
    bool any = false;
    mw_err err;
    mx_err_clear(&err);
    if (mx_txn_rowid_max(now->vtab->txn, &max, &any, &err) != MW_OK) return fail_engine(now, &err);
    if (any && max == INT64_MAX) return find_free_rowid(now);
    /* Negative ids do not count downwards from -1: an ordinary table goes on with max + 1 too. */
    mx_key_of_integer(&now->key, any ? max + 1 : 1);
    return SQLITE_OK;
}

/* ---- storing -------------------------------------------------------------------------------- */

static int put_row(change *now, mw_slice row)
{
    bool replaced = false;
    mw_err err;
    mx_err_clear(&err);
    if (now->mode == SQLITE_IGNORE) {
        /* Looking first: loads that ignore duplicates meet many, and each would fill the batch. */
        bool lives = false;
        if (mw_txn_exists(now->open, now->key.slice, &lives, &err) != MW_OK) {
            return fail_engine(now, &err);
        }
        if (lives) return refuse_duplicate(now);
    }
    if (mw_txn_put(now->open, now->key.slice, row, &replaced, &err) != MW_OK) {
        return fail_engine(now, &err);
    }
    if (replaced && now->mode != SQLITE_REPLACE) {
        if (mw_txn_undo(now->open, now->mark, &err) != MW_OK) return fail_engine(now, &err);
        return refuse_duplicate(now);
    }
    if (now->vtab->key == MW_KEY_INTEGER) mx_txn_rowid_put(now->vtab->txn, now->key.number);
    mx_txn_changed(now->vtab->txn);
    return SQLITE_OK;
}

static int delete_key(change *now, const mx_key *key)
{
    bool deleted = false;
    mw_err err;
    mx_err_clear(&err);
    if (mw_txn_delete(now->open, key->slice, &deleted, &err) != MW_OK) {
        return fail_engine(now, &err);
    }
    if (now->vtab->key == MW_KEY_INTEGER) mx_txn_rowid_deleted(now->vtab->txn, key->number);
    mx_txn_changed(now->vtab->txn);
    return SQLITE_OK;
}

/* ---- the three statements ------------------------------------------------------------------- */

/* Where the id of a new row stands: its column, else the default or the rowid; NULL: nowhere, so
** allot one. */
static sqlite3_value *inserted_key(const change *now, sqlite3_value *rowid)
{
    const mx_vtab *vtab = now->vtab;
    int key = vtab->args->key_count > 0 ? vtab->args->key[0] : -1;
    sqlite3_value *given = key >= 0 ? now->values[key] : NULL;
    if (given && !is_null(given)) return given;
    if (vtab->rowid) return is_null(rowid) ? NULL : rowid;
    sqlite3_value *by_default = vtab->args->columns[key].default_value;
    return by_default ? by_default : given;
}

static int insert(change *now, sqlite3_value *rowid_value, sqlite3_int64 *rowid)
{
    mx_vtab *vtab = now->vtab;
    mw_slice row;
    now->inserting = true;
    int rc = check_hidden_key(now, NULL);
    if (rc == SQLITE_OK) rc = read_row(now, inserted_key(now, rowid_value), &row);
    if (rc == SQLITE_OK && !now->key_value) rc = allot_rowid(now);
    if (rc == SQLITE_OK) rc = put_row(now, row);
    if (rc != SQLITE_OK) return rc;
    /* What is written here becomes last_insert_rowid(), which a table without rowid leaves alone.
    ** */
    *rowid = vtab->rowid ? now->key.number : sqlite3_last_insert_rowid(vtab->connection->db);
    return SQLITE_OK;
}

/* Where the id of a changed row stands. The id of a rowid table has two spellings, of which the
** statement may have set either: the one that differs from the old id. */
static sqlite3_value *updated_key(const change *now, const mx_key *old, sqlite3_value *rowid)
{
    const mx_vtab *vtab = now->vtab;
    if (!vtab->rowid || vtab->args->key_count == 0) return rowid;
    sqlite3_value *column = now->values[vtab->args->key[0]];
    bool same = sqlite3_value_type(column) == SQLITE_INTEGER &&
                sqlite3_value_int64(column) == old->number;
    return same ? rowid : column;
}

/* Of a row that is gone nothing is refused either. */
static int pass_over(const change *now)
{
    sqlite3_free(now->vtab->base.zErrMsg);
    now->vtab->base.zErrMsg = NULL;
    return SQLITE_OK;
}

/* A row under the id that it had: one look-up tells whether it was there. */
static int overwrite(change *now, mw_slice row)
{
    bool replaced = false;
    mw_err err;
    mx_err_clear(&err);
    if (mw_txn_put(now->open, now->key.slice, row, &replaced, &err) != MW_OK ||
        (!replaced && mw_txn_undo(now->open, now->mark, &err) != MW_OK)) {
        return fail_engine(now, &err);
    }
    mx_txn_changed(now->vtab->txn);
    return SQLITE_OK;
}

/* A row under another id. The new id first: where it is taken, nothing has to be put back. */
static int move(change *now, const mx_key *old, mw_slice row)
{
    int rc = put_row(now, row);
    return rc == SQLITE_OK ? delete_key(now, old) : rc;
}

/* The key of the row that is there. */
static int read_old_key(const change *now, sqlite3_value *value, mx_key *old)
{
    mx_vtab *vtab = now->vtab;
    bool fits = false;
    if (vtab->key != MW_KEY_ENCODED) {
        int rc = mx_key_of_value(vtab->key, value, old, &fits);
        return rc == SQLITE_OK && !fits ? refuse_key_type(now) : rc;
    }
    mw_value found;
    char affinity = is_composite(vtab) ? MX_AFFINITY_BLOB
                                       : vtab->args->columns[vtab->args->key[0]].affinity;
    int rc = mx_row_value(value, affinity, &found);
    if (rc != SQLITE_OK) return rc;
    fits = is_composite(vtab) ? found.type == MW_BLOB : found.type != MW_NULL;
    if (!fits) {
        return mx_err_set(&vtab->base, SQLITE_MISUSE, "expected the key of a row of %s, found none",
                          vtab->name);
    }
    *old = (mx_key){.slice = found.bytes};
    if (is_composite(vtab)) return SQLITE_OK;
    vtab->key_values[0] = found;
    return encode_key(vtab, &vtab->old_key_bytes, old);
}

static int update(change *now, sqlite3_value *old_value, sqlite3_value *rowid_value)
{
    mx_key old;
    bool lives = false;
    mw_slice row = {NULL, 0};
    mw_err err;
    int rc = read_old_key(now, old_value, &old);
    if (rc == SQLITE_OK) rc = check_hidden_key(now, &old);
    if (rc != SQLITE_OK) return rc;
    rc = read_row(now, updated_key(now, &old, rowid_value), &row);
    bool stays = rc == SQLITE_OK && mw_slice_equal(old.slice, now->key.slice);
    if (stays) return overwrite(now, row);
    mx_err_clear(&err);
    if (mw_txn_exists(now->open, old.slice, &lives, &err) != MW_OK) return fail_engine(now, &err);
    if (!lives) return pass_over(now);
    return rc == SQLITE_OK ? move(now, &old, row) : rc;
}

static int delete(change *now, sqlite3_value *old_value)
{
    mx_key old;
    int rc = read_old_key(now, old_value, &old);
    return rc == SQLITE_OK ? delete_key(now, &old) : rc;
}

static int make_change(change *now, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    if (argc == 1) return delete(now, argv[0]);
    now->values = argv + 2;
    if (is_null(argv[0])) return insert(now, argv[1], rowid);
    return update(now, argv[0], argv[1]);
}

int mx_update(sqlite3_vtab *base, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
    change now = {.vtab = (mx_vtab *)base};
    int rc = mx_txn_change_begin(now.vtab, &now.open, &now.mark);
    if (rc != SQLITE_OK) return rc;
    now.mode = sqlite3_vtab_on_conflict(now.vtab->connection->db);
    rc = make_change(&now, argc, argv, rowid);
    mx_txn_change_end(now.vtab->txn);
    return rc;
}
