/* vtab.c: tables come and go.
**
** A table's store is named in its shadow table <name>_store(key, value), which SQLite makes,
** renames, drops and undoes together with the table:
**
**     table         32 hexadecimal digits of this one CREATE
**     store         32 hexadecimal digits: the identity of the store, which several tables may use
**     place         'default' | 'path' | 'ephemeral'
**     name          default: the folder's name inside "<database file>-memwal"
**                   path, and no database file to start from: the absolute path
**     declaration   columns and key in normal form
**     marker        16 bytes: the newest transaction that store and file have shared (host.c)
**     host          path: device, inode and path of the database file (origin.c)
**     option ...    what memwal_set has changed (settings.c)
**
** Connecting reads no store: the columns come from the arguments, or, for a table that was attached
** to an existing store, from the declaration in the shadow table. The store is opened at first use
** (mx_vtab_use), and what is wrong with it is told there, so that a schema always loads and DROP
** TABLE always works.
**
** What a database file says is not to be trusted: the folder of the default place must be a plain
** hexadecimal name, and an ephemeral store is looked for only among those that this connection
** holds.
**
** Nothing is deleted by DROP, for it may be rolled back. Its store, and that of a CREATE that was rolled
** back, is removed when that is certain (collect.c). What a dropped table has changed in the same
** transaction is kept until its end (ending.c). */
#include "vtab.h"

#include <string.h>

#include "collect.h"
#include "connection.h"
#include "cursor.h"
#include "ending.h"
#include "find.h"
#include "bond.h"
#include "origin.h"
#include "place.h"
#include "plan.h"
#include "proof.h"
#include "row.h"
#include "settings.h"
#include "txn.h"
#include "update.h"
#include "world.h"

/* ---- nested SQL ----------------------------------------------------------------------------- */

/* Runs sql, which is taken. */
static int run(sqlite3 *db, char *sql, char **error)
{
    if (!sql) return SQLITE_NOMEM;
    char *words = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &words);
    if (rc != SQLITE_OK) mx_err_put(error, rc, "%s", words ? words : sqlite3_errstr(rc));
    sqlite3_free(words);
    sqlite3_free(sql);
    return rc;
}

/* First value of the first row of sql (taken) as text, NULL when there is none. */
static int ask(sqlite3 *db, char *sql, char **answer)
{
    if (!sql) return SQLITE_NOMEM;
    sqlite3_stmt *statement = NULL;
    *answer = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    sqlite3_free(sql);
    if (rc != SQLITE_OK) return rc;
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        *answer = text ? sqlite3_mprintf("%s", text) : NULL;
        rc = *answer ? SQLITE_OK : SQLITE_NOMEM;
    }
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A value of the shadow table; NULL when it is not there. */
static int read_shadow(const mx_vtab *vtab, const char *key, char **value)
{
    return ask(vtab->connection->db,
               sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_store\" WHERE key=%Q", vtab->schema,
                               vtab->name, key),
               value);
}

/* ---- the object ----------------------------------------------------------------------------- */

/* From now on nobody finds it. */
static void unlist_vtab(mx_vtab *vtab)
{
    mx_vtab **at = &vtab->connection->vtabs;
    while (*at && *at != vtab) at = &(*at)->next;
    if (*at) *at = vtab->next;
    mx_find_forget(vtab->connection);
    mx_proof_forget(vtab->connection);
}

void mx_vtab_release(mx_vtab *vtab)
{
    if (!vtab || --vtab->references > 0) return;
    mx_txn_release(vtab->txn);
    mx_args_free(vtab->args);
    mw_buf_free(&vtab->row);
    mw_buf_free(&vtab->key_bytes);
    mw_buf_free(&vtab->old_key_bytes);
    mw_buf_free(&vtab->form_bytes);
    sqlite3_free(vtab->key_values);
    sqlite3_free(vtab->schema);
    sqlite3_free(vtab->name);
    sqlite3_free(vtab->stored);
    sqlite3_free(vtab->values);
    sqlite3_free(vtab->path);
    sqlite3_free(vtab->broken);
    sqlite3_free(vtab->base.zErrMsg);
    mx_connection_unref(vtab->connection);
    sqlite3_free(vtab);
}

static bool is_utf8(sqlite3 *db)
{
    char *encoding = NULL;
    int rc = ask(db, sqlite3_mprintf("PRAGMA encoding"), &encoding);
    bool yes = rc == SQLITE_OK && encoding && strcmp(encoding, "UTF-8") == 0;
    sqlite3_free(encoding);
    return yes;
}

/* An object with what can be known before the columns are. Takes args. */
static int new_vtab(mx_connection *connection, const char *const *argv, mx_args *args, mx_vtab **to)
{
    mx_vtab *vtab = sqlite3_malloc64(sizeof *vtab);
    if (!vtab) {
        mx_args_free(args);
        return SQLITE_NOMEM;
    }
    memset(vtab, 0, sizeof *vtab);
    vtab->references = 1;
    vtab->connection = mx_connection_ref(connection);
    vtab->args = args;
    vtab->schema = sqlite3_mprintf("%s", argv[1]);
    vtab->name = sqlite3_mprintf("%s", argv[2]);
    mw_buf_init(&vtab->row, mx_world_env());
    mw_buf_init(&vtab->key_bytes, mx_world_env());
    mw_buf_init(&vtab->old_key_bytes, mx_world_env());
    mw_buf_init(&vtab->form_bytes, mx_world_env());
    *to = vtab;
    if (!vtab->schema || !vtab->name) return SQLITE_NOMEM;
    vtab->in_file = mx_place_file(vtab)[0] != 0;
    vtab->ephemeral = !vtab->in_file && !args->path;
    vtab->binary_order = is_utf8(connection->db);
    return SQLITE_OK;
}

/* A text key is plain bytes, which saves the byte that would tell it from a blob. */
static mw_key_kind key_kind(const mx_args *args)
{
    if (args->key_count == 0 || args->rowid_alias) return MW_KEY_INTEGER;
    bool text = args->columns[args->key[0]].affinity == MX_AFFINITY_TEXT;
    return args->key_count == 1 && text ? MW_KEY_TEXT : MW_KEY_ENCODED;
}

/* What follows from the columns. */
static int set_columns(mx_vtab *vtab)
{
    const mx_args *args = vtab->args;
    size_t count = (size_t)args->column_count;
    vtab->rowid = args->key_count == 0 || args->rowid_alias;
    vtab->key = key_kind(args);
    vtab->forms = vtab->key == MW_KEY_ENCODED && mx_key_has_forms(args);
    vtab->stored = sqlite3_malloc64(sizeof *vtab->stored * (count + 1));
    vtab->values = sqlite3_malloc64(sizeof *vtab->values * (count + 1));
    vtab->key_values = sqlite3_malloc64(sizeof *vtab->key_values * (count + 1));
    if (!vtab->stored || !vtab->values || !vtab->key_values) return SQLITE_NOMEM;
    vtab->stored_count = vtab->forms ? 1 : 0;
    for (int i = 0; i < args->column_count; i++) {
        vtab->stored[i] = args->columns[i].key_part >= 0 ? -1 : (int)vtab->stored_count++;
    }
    return SQLITE_OK;
}

/* The columns that a store or a shadow table keeps, in place of none. */
static int adopt_declaration(mx_vtab *vtab, const char *declaration, char **error)
{
    mx_args *columns = NULL;
    int rc = mx_args_parse_declaration(vtab->connection->db, declaration, &columns, error);
    if (rc != SQLITE_OK) return rc;
    if (columns->attach) {
        mx_args_free(columns);
        return mx_err_put(error, SQLITE_CORRUPT_VTAB, "the declaration of %s has no columns: %s",
                          vtab->name, declaration);
    }
    char *path = columns->path;
    columns->path = vtab->args->path;
    vtab->args->path = path;
    columns->options = vtab->args->options;
    columns->attach = vtab->args->attach;
    mx_args_free(vtab->args);
    vtab->args = columns;
    return SQLITE_OK;
}

static int declare(mx_vtab *vtab, char **error)
{
    sqlite3 *db = vtab->connection->db;
    char *sql = mx_args_declare(vtab->args);
    if (!sql) return SQLITE_NOMEM;
    int rc = sqlite3_declare_vtab(db, sql);
    sqlite3_free(sql);
    if (rc != SQLITE_OK) return mx_err_put(error, rc, "%s", sqlite3_errmsg(db));
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
    /* With a path option a database file could make memwal read elsewhere: not for its views. */
    if (rc == SQLITE_OK && !vtab->args->path) rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    return rc;
}

/* ---- making the store ----------------------------------------------------------------------- */

static int create_store(mx_vtab *vtab, char **error)
{
    uint32_t *ids = sqlite3_malloc64(sizeof *ids * ((size_t)vtab->stored_count + 1));
    if (!ids) return SQLITE_NOMEM;
    for (uint32_t i = 0; i < vtab->stored_count; i++) ids[i] = i + 1;
    const char *declaration = vtab->args->declaration;
    mw_schema schema = {
        .key = vtab->key,
        .column_count = vtab->stored_count,
        .column_ids = ids,
        .declaration = mw_slice_of(declaration, strlen(declaration)),
    };
    mw_err err;
    mx_err_clear(&err);
    bool made = false;
    int rc = mx_place_make_folder(vtab, vtab->path, &made, error);
    if (rc == SQLITE_OK &&
        mw_db_create(mx_world_env(), vtab->path, &schema, &vtab->store, &err) != MW_OK) {
        rc = mx_err_give_in(error, vtab->path, &err);
    }
    if (rc != SQLITE_OK && made) (void)mx_world_remove_folder(vtab->path);
    sqlite3_free(ids);
    vtab->identified = rc == SQLITE_OK;
    return rc;
}

/* Joins the store that stands at the path. *found is false when there is none and one may be made.
** */
static int attach_store(mx_vtab *vtab, bool *found, char **error)
{
    const mw_env *env = mx_world_env();
    mw_key_kind key = MW_KEY_INTEGER;
    uint32_t column_count = 0;
    char *declaration = NULL;
    mw_err err;
    mx_err_clear(&err);
    mw_rc described =
        mw_db_describe(env, vtab->path, &vtab->store, &key, &column_count, &declaration, &err);
    *found = described == MW_OK;
    if (described == MW_MISSING && !vtab->args->attach) return SQLITE_OK;
    if (described == MW_MISSING) {
        return mx_err_put(error, SQLITE_CANTOPEN, "expected a store at %s, found none", vtab->path);
    }
    if (described != MW_OK) return mx_err_give_in(error, vtab->path, &err);
    int rc = SQLITE_OK;
    if (vtab->args->attach) {
        rc = adopt_declaration(vtab, declaration, error);
    } else if (strcmp(declaration, vtab->args->declaration) != 0) {
        rc = mx_err_put(error, SQLITE_MISMATCH,
                        "the store at %s has other columns: expected %s, found %s", vtab->path,
                        vtab->args->declaration, declaration);
    }
    mw_free(env, declaration);
    vtab->identified = rc == SQLITE_OK;
    return rc;
}

static void add_entry(sqlite3_str *sql, const char *key, const char *value)
{
    sqlite3_str_appendf(sql, " UNION ALL SELECT %Q, %Q", key, value);
}

/* One statement that makes a table of what it selects: rows that are inserted would be counted by
** total_changes(), which an ordinary CREATE leaves alone. */
static int make_shadow(mx_vtab *vtab, const char *name, char **error)
{
    char hex[2 * sizeof vtab->store.bytes + 1];
    mx_place_put_hex(hex, vtab->store.bytes, sizeof vtab->store.bytes);
    int rc = mx_place_random_name(vtab->mark, error);
    if (rc != SQLITE_OK) return rc;
    char *host = NULL;
    rc = mx_origin_put(vtab, &host);
    if (rc != SQLITE_OK) return rc;
    sqlite3_str *sql = sqlite3_str_new(NULL);
    sqlite3_str_appendf(sql, "CREATE TABLE \"%w\".\"%w_store\" AS", vtab->schema, vtab->name);
    sqlite3_str_appendf(sql, " SELECT 'table' AS key, %Q AS value", vtab->mark);
    add_entry(sql, "store", hex);
    sqlite3_str_appendf(sql, " UNION ALL SELECT 'marker', zeroblob(%d)", MW_PLEDGE_ID_BYTES);
    add_entry(sql, "place", mx_place_word(vtab));
    add_entry(sql, "declaration", vtab->args->declaration);
    if (mx_place_is_absolute(vtab)) add_entry(sql, "name", vtab->path);
    if (!vtab->args->path) add_entry(sql, "name", name);
    if (host) add_entry(sql, "host", host);
    sqlite3_free(host);
    vtab->origin = MX_ORIGIN_KNOWN;
    return run(vtab->connection->db, sqlite3_str_finish(sql), error);
}

/* Gives a failed CREATE's store back to nobody. name: in the default place. */
static void remove_store(const mx_vtab *vtab, const char *name)
{
    if (name[0] && vtab->in_file) {
        mx_collect_undo(vtab, name);
        return;
    }
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = mw_db_remove(mx_world_env(), vtab->path, &err);
    (void)rc; /* the failure that led here is the one to report */
}

static int make_table(mx_vtab *vtab, char **error)
{
    char name[MX_NAME_BYTES];
    bool found = false;
    bool made = false;
    int rc = mx_place_choose(vtab, name, error);
    bool noted = rc == SQLITE_OK && vtab->in_file && !vtab->args->path;
    if (noted) rc = mx_collect_note(vtab, name, false, error);
    if (rc == SQLITE_OK && vtab->args->path) rc = attach_store(vtab, &found, error);
    if (rc == SQLITE_OK) rc = set_columns(vtab);
    if (rc == SQLITE_OK) rc = declare(vtab, error);
    if (rc == SQLITE_OK && !found) rc = create_store(vtab, error);
    made = rc == SQLITE_OK && !found;
    if (rc == SQLITE_OK) rc = make_shadow(vtab, name, error);
    /* An ephemeral store is opened at once: nobody else would ever remove it. */
    if (rc == SQLITE_OK && vtab->ephemeral) rc = mx_txn_acquire(vtab, &vtab->txn, error);
    if (rc != SQLITE_OK && (made || noted)) remove_store(vtab, name);
    return rc;
}

/* ---- connecting ----------------------------------------------------------------------------- */

/* The columns of an attached table. */
static int read_declaration(mx_vtab *vtab, char **error)
{
    char *declaration = NULL;
    int rc = read_shadow(vtab, "declaration", &declaration);
    if (rc != SQLITE_OK && rc != SQLITE_ERROR) {
        return mx_err_put(error, rc, "%s", sqlite3_errmsg(vtab->connection->db));
    }
    if (declaration) {
        rc = adopt_declaration(vtab, declaration, error);
    } else {
        rc = mx_err_put(error, SQLITE_CORRUPT_VTAB,
                        "the shadow table %s_store does not tell the columns of %s", vtab->name,
                        vtab->name);
    }
    sqlite3_free(declaration);
    return rc;
}

static int connect_table(mx_vtab *vtab, char **error)
{
    int rc = vtab->args->attach ? read_declaration(vtab, error) : SQLITE_OK;
    if (rc == SQLITE_OK) rc = set_columns(vtab);
    return rc == SQLITE_OK ? declare(vtab, error) : rc;
}

/* Builds the object from args, which it takes, and lets make do what tells create from connect. */
static int build(mx_connection *connection, const char *const *argv, mx_args *args,
                 int (*make)(mx_vtab *, char **), mx_vtab **to, char **error)
{
    mx_vtab *vtab = NULL;
    int rc = new_vtab(connection, argv, args, &vtab);
    if (rc == SQLITE_OK) rc = make(vtab, error);
    if (rc != SQLITE_OK) {
        mx_vtab_release(vtab);
        return rc;
    }
    vtab->next = connection->vtabs;
    connection->vtabs = vtab;
    *to = vtab;
    return SQLITE_OK;
}

static int create(sqlite3 *db, void *connection, int argc, const char *const *argv,
                  sqlite3_vtab **to, char **error)
{
    mx_args *args = NULL;
    mx_vtab *vtab = NULL;
    int rc = mx_connection_check(connection, error);
    if (rc == SQLITE_OK) rc = mx_args_parse(db, argc, argv, &args, error);
    if (rc == SQLITE_OK) rc = build(connection, argv, args, make_table, &vtab, error);
    if (rc != SQLITE_OK) return rc;
    vtab->created = true;
    *to = &vtab->base;
    return SQLITE_OK;
}

/* Is the declaration itself at fault, and not this attempt to read it? */
static bool is_lasting(int rc)
{
    int code = rc & 0xff;
    return code == SQLITE_ERROR || code == SQLITE_CORRUPT || code == SQLITE_TOOBIG;
}

/* A table that cannot be what it says is there all the same, with one column, and the words for
** whoever uses it: else it could not be dropped, and nothing that looks at the whole schema would
** work. Takes words. */
static int connect_broken(mx_connection *connection, const char *const *argv, char *words,
                          mx_vtab **to, char **error)
{
    mx_args *args = NULL;
    int rc = words ? SQLITE_OK : SQLITE_NOMEM;
    if (rc == SQLITE_OK) {
        rc = mx_args_parse_declaration(connection->db, "memwal_unreadable", &args, error);
    }
    if (rc == SQLITE_OK) rc = build(connection, argv, args, connect_table, to, error);
    if (rc == SQLITE_OK) {
        (*to)->broken = words;
    } else {
        sqlite3_free(words);
    }
    return rc;
}

static int connect(sqlite3 *db, void *connection, int argc, const char *const *argv,
                   sqlite3_vtab **to, char **error)
{
    mx_args *args = NULL;
    mx_vtab *vtab = NULL;
    char *words = NULL;
    int rc = mx_connection_check(connection, error);
    if (rc != SQLITE_OK) return rc;
    rc = mx_args_parse(db, argc, argv, &args, &words);
    if (rc == SQLITE_OK) rc = build(connection, argv, args, connect_table, &vtab, &words);
    if (is_lasting(rc)) {
        rc = connect_broken(connection, argv, words, &vtab, error);
    } else if (rc != SQLITE_OK) {
        *error = words;
    }
    if (rc == SQLITE_OK) *to = &vtab->base;
    return rc;
}

static int disconnect(sqlite3_vtab *base)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mx_connection *connection = mx_connection_ref(vtab->connection);
    unlist_vtab(vtab);
    mx_vtab_release(vtab);
    /* It may have been the last that kept a store of a dropped table from going. */
    mx_collect_end(connection);
    mx_connection_unref(connection);
    return SQLITE_OK;
}

/* ---- first use ------------------------------------------------------------------------------ */

static int missing_shadow(const mx_vtab *vtab, const char *key, char **error)
{
    return mx_err_put(
        error, SQLITE_CORRUPT_VTAB,
        "the shadow table %s_store has no usable entry '%s', so the store of %s is not known",
        vtab->name, key, vtab->name);
}

/* The path of a connected table. */
static int find_place(mx_vtab *vtab, char **error)
{
    char *name = NULL;
    bool known = false;
    int rc = read_shadow(vtab, "name", &name);
    if (rc == SQLITE_NOMEM) return rc;
    rc = mx_place_find(vtab, name, &known, error);
    sqlite3_free(name);
    return rc == SQLITE_OK && !known ? missing_shadow(vtab, "name", error) : rc;
}

static int identify(mx_vtab *vtab, char **error)
{
    if (vtab->identified) return SQLITE_OK;
    char *hex = NULL;
    int rc = read_shadow(vtab, "store", &hex);
    if (rc == SQLITE_NOMEM) return rc;
    bool known = mx_place_get_hex(hex, vtab->store.bytes, sizeof vtab->store.bytes);
    sqlite3_free(hex);
    if (!known) return missing_shadow(vtab, "store", error);
    rc = vtab->ephemeral ? SQLITE_OK : find_place(vtab, error);
    vtab->identified = rc == SQLITE_OK;
    return rc;
}

/* The columns of a store are what its creator declared; rows of another shape must not be read. */
static int check_shape(const mx_vtab *vtab, const mx_txn *txn, char **error)
{
    const mw_schema *schema = mw_db_schema(mx_txn_db(txn));
    if (schema->key == vtab->key && schema->column_count == vtab->stored_count) return SQLITE_OK;
    return mx_err_put(
        error, SQLITE_MISMATCH,
        "the store at %s has other columns than %s: expected %u outside the key, found %u",
        mw_db_path(mx_txn_db(txn)), vtab->name, vtab->stored_count, schema->column_count);
}

static int open_txn(mx_vtab *vtab, mx_txn **txn, char **error)
{
    if (!vtab->ephemeral) return mx_txn_acquire(vtab, txn, error);
    *txn = mx_txn_find(vtab->connection, &vtab->store);
    if (*txn) return SQLITE_OK;
    return mx_err_put(
        error, SQLITE_CANTOPEN,
        "the rows of %s went with the connection that created it: its database was in "
        "memory",
        vtab->name);
}

int mx_vtab_use(mx_vtab *vtab, mx_txn **txn, char **error)
{
    int rc = mx_connection_check(vtab->connection, error);
    if (rc != SQLITE_OK) return rc;
    if (!vtab->txn) {
        if (vtab->broken) {
            return mx_err_put(error, SQLITE_CORRUPT_VTAB, "%s", vtab->broken + strlen("memwal: "));
        }
        mx_txn *found = NULL;
        rc = identify(vtab, error);
        if (rc == SQLITE_OK) rc = mx_settings_load(vtab, error);
        if (rc == SQLITE_OK) rc = open_txn(vtab, &found, error);
        if (rc == SQLITE_OK) rc = check_shape(vtab, found, error);
        if (rc != SQLITE_OK) {
            mx_txn_release(found);
            return rc;
        }
        vtab->txn = found;
    }
    *txn = vtab->txn;
    rc = mx_txn_renew(vtab, error);
    return rc == SQLITE_OK ? mx_bond_check(vtab, error) : rc;
}

/* ---- dropping and renaming ------------------------------------------------------------------- */

/* An object that has not used its store yet, but the connection has: by an older object of the same
** table, or another table. */
static int join_open_store(mx_vtab *vtab)
{
    char *words = NULL;
    if (vtab->txn) return SQLITE_OK;
    int rc = identify(vtab, &words);
    sqlite3_free(words);
    if (rc == SQLITE_OK) vtab->txn = mx_txn_find(vtab->connection, &vtab->store);
    /* Of a table that does not tell its store there is nothing to lose. */
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

/* What is_listed will look for. */
static int read_mark(mx_vtab *vtab)
{
    char *mark = NULL;
    uint8_t bytes[(sizeof vtab->mark - 1) / 2];
    int rc = read_shadow(vtab, "table", &mark);
    if (mx_place_get_hex(mark, bytes, sizeof bytes)) memcpy(vtab->mark, mark, sizeof vtab->mark);
    sqlite3_free(mark);
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

/* The store that the DROP will leave without a table. Only one that CREATE has put into the default
** place is noted; a shadow table that cannot be read tells of none. */
static int note_store(mx_vtab *vtab)
{
    char *place = NULL;
    char *name = NULL;
    char *words = NULL;
    uint8_t bytes[(MX_NAME_BYTES - 1) / 2];
    if (!vtab->in_file || vtab->args->path) return SQLITE_OK;
    int rc = read_shadow(vtab, "place", &place);
    if (rc == SQLITE_OK) rc = read_shadow(vtab, "name", &name);
    bool noted = rc == SQLITE_OK && place && strcmp(place, "default") == 0 &&
                 mx_place_get_hex(name, bytes, sizeof bytes);
    if (noted) rc = mx_collect_note(vtab, name, true, &words);
    sqlite3_free(place);
    sqlite3_free(name);
    sqlite3_free(words);
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

static int destroy(sqlite3_vtab *base)
{
    mx_vtab *vtab = (mx_vtab *)base;
    bool told = false;
    bool kept = false;
    int rc = join_open_store(vtab);
    if (rc == SQLITE_OK) rc = mx_ending_expect(vtab, &told);
    if (rc == SQLITE_OK) rc = read_mark(vtab);
    if (rc == SQLITE_OK) rc = mx_txn_leave(vtab, told && vtab->mark[0], &kept);
    if (rc == SQLITE_OK) rc = note_store(vtab);
    if (rc != SQLITE_OK) return rc;
    rc = run(vtab->connection->db,
             sqlite3_mprintf("DROP TABLE IF EXISTS \"%w\".\"%w_store\"", vtab->schema, vtab->name),
             &base->zErrMsg);
    if (rc != SQLITE_OK) return rc;
    if (!kept) return disconnect(base);
    unlist_vtab(vtab);
    mx_ending_keep(vtab);
    return SQLITE_OK;
}

static int rename_table(sqlite3_vtab *base, const char *name)
{
    mx_vtab *vtab = (mx_vtab *)base;
    return run(vtab->connection->db,
               sqlite3_mprintf("ALTER TABLE \"%w\".\"%w_store\" RENAME TO \"%w_store\"",
                               vtab->schema, vtab->name, name),
               &base->zErrMsg);
}

static int is_shadow_name(const char *suffix) { return sqlite3_stricmp(suffix, "store") == 0; }

/* ---- is it still there? ---------------------------------------------------------------------- */

/* Does this table hold the mark? One without such columns is somebody else's. */
static int has_mark(const mx_vtab *vtab, const char *shadow, bool *has)
{
    char *found = NULL;
    int rc = ask(vtab->connection->db,
                 sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" WHERE key='table' AND value=%Q",
                                 vtab->schema, shadow, vtab->mark),
                 &found);
    *has = found != NULL;
    sqlite3_free(found);
    return rc == SQLITE_ERROR ? SQLITE_OK : rc;
}

/* The comparison is done here: an application may have put a LIKE of its own in SQLite's place. */
static bool is_shadow_table(const char *name)
{
    static const char suffix[] = "_store";
    size_t size = strlen(name);
    size_t tail = strlen(suffix);
    return size > tail && sqlite3_stricmp(name + size - tail, suffix) == 0;
}

int mx_vtab_look(const mx_vtab *vtab, bool *listed)
{
    sqlite3_stmt *statement = NULL;
    char *sql =
        sqlite3_mprintf("SELECT name FROM \"%w\".sqlite_master WHERE type='table'", vtab->schema);
    *listed = false;
    int rc =
        sql ? sqlite3_prepare_v2(vtab->connection->db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    while (rc == SQLITE_OK && !*listed && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        rc = name ? SQLITE_OK : SQLITE_NOMEM;
        if (name && is_shadow_table(name)) rc = has_mark(vtab, name, listed);
    }
    sqlite3_finalize(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool mx_vtab_is_listed(const mx_vtab *vtab)
{
    bool listed;
    return mx_vtab_look(vtab, &listed) != SQLITE_OK || listed;
}

/* ---- the module ----------------------------------------------------------------------------- */

static const sqlite3_module module = {
    .iVersion = 3,
    .xCreate = create,
    .xConnect = connect,
    .xBestIndex = mx_plan_best_index,
    .xDisconnect = disconnect,
    .xDestroy = destroy,
    .xOpen = mx_cursor_open,
    .xClose = mx_cursor_close,
    .xFilter = mx_cursor_filter,
    .xNext = mx_cursor_next,
    .xEof = mx_cursor_eof,
    .xColumn = mx_cursor_column,
    .xRowid = mx_cursor_rowid,
    .xUpdate = mx_update,
    .xBegin = mx_txn_begin,
    .xSync = mx_txn_sync,
    .xCommit = mx_txn_commit,
    .xRollback = mx_txn_rollback,
    .xRename = rename_table,
    .xSavepoint = mx_txn_savepoint,
    .xRelease = mx_txn_release_to,
    .xRollbackTo = mx_txn_rollback_to,
    .xShadowName = is_shadow_name,
};

int mx_vtab_register(sqlite3 *db)
{
    mx_connection *connection = mx_connection_new(db);
    if (!connection) return SQLITE_NOMEM;
    return sqlite3_create_module_v2(db, "memwal", &module, connection, mx_connection_unref);
}
