/* shadows.c: the shadow tables of a database file that name one store.
**
** A table that only happens to be called ..._store is told from ours by its columns and by what it
** says. */
#include "shadows.h"

#include "place.h"

int mx_shadows_has_row(sqlite3 *db, char *sql, bool *has)
{
    sqlite3_stmt *statement = NULL;
    if (!sql) return SQLITE_NOMEM;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    *has = rc == SQLITE_ROW;
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE || rc == SQLITE_ERROR ? SQLITE_OK : rc;
}

static int name_store(sqlite3 *db, const char *schema, const char *shadow, const char *hex,
                      bool *names)
{
    return mx_shadows_has_row(
        db,
        sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" WHERE key = 'store' AND value = %Q", schema,
                        shadow, hex),
        names);
}

int mx_shadows_open(mx_shadows *self, sqlite3 *db, const char *schema, const mw_store_id *store)
{
    self->db = db;
    self->schema = schema;
    self->tables = NULL;
    mx_place_put_hex(self->hex, store->bytes, sizeof store->bytes);
    char *sql = sqlite3_mprintf("SELECT name FROM \"%w\".sqlite_master WHERE type = 'table' AND "
                                "substr(name, -6) = '_store' COLLATE NOCASE",
                                schema);
    int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &self->tables, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc;
}

int mx_shadows_next(mx_shadows *self, const char **shadow)
{
    int rc;
    *shadow = NULL;
    while ((rc = sqlite3_step(self->tables)) == SQLITE_ROW) {
        bool names = false;
        const char *name = (const char *)sqlite3_column_text(self->tables, 0);
        rc = name ? name_store(self->db, self->schema, name, self->hex, &names) : SQLITE_NOMEM;
        if (rc != SQLITE_OK) return rc;
        if (!names) continue;
        *shadow = name;
        return SQLITE_OK;
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void mx_shadows_close(mx_shadows *self)
{
    sqlite3_finalize(self->tables);
    self->tables = NULL;
}

int mx_shadows_find(const mx_vtab *vtab, char **shadow, char **error)
{
    bool names = false;
    sqlite3 *db = vtab->connection->db;
    char hex[2 * sizeof vtab->store.bytes + 1];
    mx_place_put_hex(hex, vtab->store.bytes, sizeof vtab->store.bytes);
    *shadow = sqlite3_mprintf("%s_store", vtab->name);
    int rc = *shadow ? name_store(db, vtab->schema, *shadow, hex, &names) : SQLITE_NOMEM;
    if (rc != SQLITE_OK || names) return rc;
    sqlite3_free(*shadow);
    *shadow = NULL;
    mx_shadows all;
    const char *found = NULL;
    rc = mx_shadows_open(&all, db, vtab->schema, &vtab->store);
    if (rc == SQLITE_OK) rc = mx_shadows_next(&all, &found);
    if (rc == SQLITE_OK && found) *shadow = sqlite3_mprintf("%s", found);
    mx_shadows_close(&all);
    if (rc != SQLITE_OK || *shadow) return rc;
    return mx_err_put(error, SQLITE_CORRUPT_VTAB,
                      "no shadow table of %s names the store of %s, so its transactions cannot be "
                      "bound to those of the database",
                      vtab->schema, vtab->name);
}

int mx_shadows_connect(const mx_vtab *vtab, const char *file, int flags, uint64_t wait_ms,
                       sqlite3 **db)
{
    sqlite3_vfs *vfs = NULL;
    (void)sqlite3_file_control(vtab->connection->db, vtab->schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
    int rc = sqlite3_open_v2(file, db, flags | SQLITE_OPEN_NOMUTEX, vfs ? vfs->zName : NULL);
    return rc == SQLITE_OK ? sqlite3_busy_timeout(*db, (int)mw_min(wait_ms, INT32_MAX)) : rc;
}
