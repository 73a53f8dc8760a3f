/* settings.c: options that change after CREATE.
**
** The engine takes a change at once, for all connections that share the store. So that it lasts, it
** is kept beside the table's other facts, in the shadow table, as ('option <name>', <value>). Those
** rows go over the options of CREATE when the store is opened; they are renamed and dropped with
** the table, and in temp or in memory end with it.
**
** A change acts at once, as a PRAGMA does, and cannot be rolled back: so memwal_set is refused
** inside a transaction and inside a statement that writes. Elsewhere the nested statement commits
** by itself: it is then the only one of its connection that writes.
**
** First the engine, then the row: what the engine refuses (a background step that does not end)
** leaves nothing behind, and when the row cannot be written the engine gets its old options
** again. */
#include "settings.h"

#include <string.h>

#include "options.h"

enum { BACKGROUND_WAIT_MS = 10000 };

static const char prefix[] = "option ";

/* ---- reading --------------------------------------------------------------------------------- */

static int apply(mx_vtab *vtab, const char *key, const char *value, char **error)
{
    char *words = NULL;
    const char *name = NULL;
    if (!key || strncmp(key, prefix, strlen(prefix)) != 0) return SQLITE_OK;
    int rc = mx_options_change(&vtab->args->options, key + strlen(prefix), value ? value : "",
                               &name, &words);
    if (rc != SQLITE_OK && rc != SQLITE_NOMEM) {
        rc = mx_err_put(error, SQLITE_CORRUPT_VTAB,
                        "the shadow table %s_store holds what memwal_set has not written: %s",
                        vtab->name, words ? words + strlen("memwal: ") : key);
    }
    sqlite3_free(words);
    return rc;
}

int mx_settings_load(mx_vtab *vtab, char **error)
{
    sqlite3 *db = vtab->connection->db;
    sqlite3_stmt *statement = NULL;
    /* Nothing can have been set yet; and the shadow table may have been undone by ROLLBACK TO. */
    if (vtab->created) return SQLITE_OK;
    char *sql =
        sqlite3_mprintf("SELECT key, value FROM \"%w\".\"%w_store\"", vtab->schema, vtab->name);
    int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    bool read = rc == SQLITE_OK;
    while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        rc = apply(vtab, (const char *)sqlite3_column_text(statement, 0),
                   (const char *)sqlite3_column_text(statement, 1), error);
        read = rc == SQLITE_OK;
    }
    if (rc == SQLITE_DONE) rc = SQLITE_OK;
    if (rc != SQLITE_OK && read) mx_err_put(error, rc, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    return rc;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* SQLITE_OK where a nested write is committed when it has ended. */
static int check_alone(sqlite3 *db, char **error)
{
    if (!sqlite3_get_autocommit(db)) {
        return mx_err_put(error, SQLITE_LOCKED,
                          "memwal_set inside a transaction: it acts at once and could not be "
                          "rolled back, COMMIT first");
    }
    if (sqlite3_txn_state(db, NULL) == SQLITE_TXN_WRITE) {
        return mx_err_put(error, SQLITE_LOCKED,
                          "memwal_set inside a statement that writes: call it in a SELECT");
    }
    return SQLITE_OK;
}

/* Runs sql, which is taken. *changed: did it change a row? */
static int run(sqlite3 *db, char *sql, bool *changed, char **error)
{
    if (!sql) return SQLITE_NOMEM;
    char *words = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &words);
    if (rc != SQLITE_OK) {
        mx_err_put(error, rc, "the option cannot be kept, so it stays as it was: %s",
                   words ? words : sqlite3_errstr(rc));
    }
    *changed = rc == SQLITE_OK && sqlite3_changes(db) > 0;
    sqlite3_free(words);
    sqlite3_free(sql);
    return rc;
}

/* One of two statements, each a transaction of its own: the row is made, or it is there and
** changed. */
static int save(const mx_vtab *vtab, const mx_setting *setting, char **error)
{
    sqlite3 *db = vtab->connection->db;
    const char *schema = vtab->schema;
    const char *name = vtab->name;
    bool changed = false;
    sqlite3_int64 rowid = sqlite3_last_insert_rowid(db);
    int rc = run(db,
                 sqlite3_mprintf("INSERT INTO \"%w\".\"%w_store\"(key, value) SELECT '%q%q', %Q"
                                 " WHERE NOT EXISTS(SELECT 1 FROM \"%w\".\"%w_store\""
                                 " WHERE key='%q%q')",
                                 schema, name, prefix, setting->name, setting->value, schema, name,
                                 prefix, setting->name),
                 &changed, error);
    if (rc == SQLITE_OK && !changed) {
        rc = run(db,
                 sqlite3_mprintf("UPDATE \"%w\".\"%w_store\" SET value=%Q WHERE key='%q%q'",
                                 schema, name, setting->value, prefix, setting->name),
                 &changed, error);
    }
    sqlite3_set_last_insert_rowid(db, rowid);
    return rc;
}

/* In the open store, then in the shadow table. */
static int change(mx_vtab *vtab, mx_setting *setting, char **error)
{
    mw_db *db = mx_txn_db(vtab->txn);
    mw_err err;
    mx_err_clear(&err);
    setting->before = mw_db_options(db);
    mw_options after = setting->before;
    int rc = mx_options_change(&after, setting->key, setting->value, &setting->name, error);
    if (rc != SQLITE_OK) return rc;
    if (mw_db_set_options(db, &setting->before, &after, BACKGROUND_WAIT_MS, &err) != MW_OK) {
        return mx_err_give_in(error, vtab->path, &err);
    }
    rc = save(vtab, setting, error);
    if (rc == SQLITE_OK) return SQLITE_OK;
    mw_rc back = mw_db_set_options(db, &after, &setting->before, BACKGROUND_WAIT_MS, &err);
    (void)back; /* the failure that led here is the one to report */
    return rc;
}

int mx_settings_set(mx_vtab *vtab, mx_setting *setting, char **error)
{
    int rc = check_alone(vtab->connection->db, error);
    if (rc != SQLITE_OK) return rc;
    mx_store *store = mx_txn_store(vtab->txn);
    if (!mx_store_settings_lock(store)) {
        *error = sqlite3_mprintf("memwal: another connection is changing an option of %s: try again",
                                 vtab->name);
        return *error ? SQLITE_BUSY : SQLITE_NOMEM;
    }
    rc = change(vtab, setting, error);
    mx_store_settings_unlock(store);
    return rc;
}
