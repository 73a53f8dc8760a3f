/* origin.c: the database file that a table belongs to, told from copies of it.
**
**     host    '<device> <inode> <path>'    a row of the shadow table of a table with a path
**
** Two database files can name one store on purpose, each by a CREATE of its own. A copy of a file
** names it by accident: then each would change the rows of the other. So a table with a path keeps
** which file it was made in. (In the default place a copy looks for a store beside itself, and shares
** nothing.)
**
**     same device and inode        the file itself, perhaps renamed, or another name of it
**     the path leads elsewhere     nowhere, to this file, or to one that has no such table: this one
**                                  was moved or restored, and takes the row over
**     ... to another store         copied together with its store, as a relative path allows
**     else                         a copy, and the original is there: it reads, and does not write
**
** Numbers of inodes are used again and devices change theirs, so what stands at the path is asked
** by SQL whether it has the table: the same CREATE, whose mark a copy has as well. Where it cannot
** be asked, its inode must do. */
#include "origin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "place.h"
#include "shadows.h"
#include "world.h"

enum { ASK_WAIT_MS = 1000 };

/* What the row says. */
typedef struct origin {
    mx_world_entry entry;
    char *path; /* sqlite3_malloc; NULL: there is no such row */
} origin;

static bool matters(const mx_vtab *vtab) { return vtab->in_file && vtab->args->path; }

static bool is_same(const mx_world_entry *a, const mx_world_entry *b)
{
    return a->device == b->device && a->inode == b->inode;
}

int mx_origin_put(const mx_vtab *vtab, char **words)
{
    mx_world_entry entry;
    const char *file = mx_place_file(vtab);
    *words = NULL;
    if (!matters(vtab) || mx_world_look(file, &entry) != 0) return SQLITE_OK;
    *words = sqlite3_mprintf("%llu %llu %s", (unsigned long long)entry.device,
                             (unsigned long long)entry.inode, file);
    return *words ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- reading the row ------------------------------------------------------------------------- */

static int parse(const char *text, origin *found)
{
    int used = 0;
    *found = (origin){0};
    if (!text ||
        sscanf(text, "%" SCNu64 " %" SCNu64 " %n", &found->entry.device, &found->entry.inode,
               &used) < 2 ||
        !text[used]) {
        return SQLITE_OK;
    }
    found->path = sqlite3_mprintf("%s", text + used);
    return found->path ? SQLITE_OK : SQLITE_NOMEM;
}

/* The row, and the mark of the table's CREATE; *mark: sqlite3_free, NULL: there is none. */
static int read_row(const mx_vtab *vtab, const char *shadow, origin *found, char **mark)
{
    sqlite3_stmt *statement = NULL;
    *found = (origin){0};
    char *sql = sqlite3_mprintf("SELECT (SELECT value FROM \"%w\".\"%w\" WHERE key = 'host'),"
                                " (SELECT value FROM \"%w\".\"%w\" WHERE key = 'table')",
                                vtab->schema, shadow, vtab->schema, shadow);
    int rc =
        sql ? sqlite3_prepare_v2(vtab->connection->db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        *mark = text ? sqlite3_mprintf("%s", text) : NULL;
        rc = parse((const char *)sqlite3_column_text(statement, 0), found);
    }
    sqlite3_finalize(statement);
    return rc;
}

/* ---- is the original there? ------------------------------------------------------------------ */

/* Does the table of that CREATE stand in the file? Returns a SQLite code. */
static int has_table(const mx_vtab *vtab, const char *file, const char *mark, bool *has)
{
    sqlite3 *db = NULL;
    mx_shadows all = {0};
    const char *shadow = NULL;
    *has = false;
    int rc = mx_shadows_connect(vtab, file, SQLITE_OPEN_READONLY, ASK_WAIT_MS, &db);
    if (rc == SQLITE_OK) rc = mx_shadows_open(&all, db, "main", &vtab->store);
    if (rc == SQLITE_OK) rc = mx_shadows_next(&all, &shadow);
    while (rc == SQLITE_OK && shadow && !*has) {
        rc = mx_shadows_has_row(
            db,
            sqlite3_mprintf("SELECT 1 FROM \"%w\" WHERE key = 'table' AND value = %Q", shadow,
                            mark),
            has);
        if (rc == SQLITE_OK && !*has) rc = mx_shadows_next(&all, &shadow);
    }
    mx_shadows_close(&all);
    sqlite3_close(db);
    return rc;
}

/* Does the path option lead from that file to the store of the table? */
static bool leads_here(const mx_vtab *vtab, const char *file)
{
    mx_world_entry ours;
    mx_world_entry theirs;
    const char *given = vtab->args->path;
    const char *slash = strrchr(file, '/');
    if (given[0] == '/' || !slash) return true;
    char *path = sqlite3_mprintf("%.*s/%s", (int)(slash - file), file, given);
    bool same = path && mx_world_look(path, &theirs) == 0 &&
                mx_world_look(vtab->path, &ours) == 0 && is_same(&ours, &theirs);
    sqlite3_free(path);
    return same;
}

/* Requires that the file is not the one that the row tells, by its inode. */
static bool is_copy(const mx_vtab *vtab, const mx_world_entry *file, const origin *row,
                    const char *mark)
{
    mx_world_entry there;
    bool has = false;
    if (mx_world_look(row->path, &there) != 0 || is_same(&there, file)) return false;
    if (!leads_here(vtab, row->path)) return false;
    bool known = mark && has_table(vtab, row->path, mark, &has) == SQLITE_OK;
    return known ? has : there.inode == row->entry.inode;
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Whether it is the same file, under a name that the row tells or that is another one of it. */
static bool is_unchanged(const mx_world_entry *file, const origin *row)
{
    mx_world_entry there;
    return is_same(file, &row->entry) && mx_world_look(row->path, &there) == 0 &&
           is_same(file, &there);
}

static int refuse(const mx_vtab *vtab, const char *original, char **error)
{
    return mx_err_put(
        error, SQLITE_READONLY,
        "%s is a copy of %s, which is still there, and table %s has its rows in %s for both: only "
        "the original may change them. To write here, DROP TABLE %s and CREATE it again, with a "
        "path of its own, or with the same one to share the rows on purpose",
        mx_place_file(vtab), original, vtab->name, vtab->path, vtab->name);
}

static int check(mx_vtab *vtab, const char *shadow, char **error)
{
    mx_world_entry file;
    origin row;
    char *mark = NULL;
    if (mx_world_look(mx_place_file(vtab), &file) != 0) return SQLITE_OK;
    int rc = read_row(vtab, shadow, &row, &mark);
    if (rc != SQLITE_OK && rc != SQLITE_NOMEM) {
        rc = mx_err_put(error, rc, "%s", sqlite3_errmsg(vtab->connection->db));
    } else if (rc == SQLITE_OK && !row.path) {
        vtab->origin = MX_ORIGIN_STALE; /* made before there was such a row */
    } else if (rc == SQLITE_OK && is_unchanged(&file, &row)) {
        vtab->origin = MX_ORIGIN_KNOWN;
    } else if (rc == SQLITE_OK) {
        bool copy = !is_same(&file, &row.entry) && is_copy(vtab, &file, &row, mark);
        vtab->origin = copy ? MX_ORIGIN_UNKNOWN : MX_ORIGIN_STALE;
        if (copy) rc = refuse(vtab, row.path, error);
    }
    sqlite3_free(row.path);
    sqlite3_free(mark);
    return rc;
}

int mx_origin_check(mx_vtab *vtab, char **error)
{
    char *shadow = NULL;
    if (!matters(vtab) || vtab->origin != MX_ORIGIN_UNKNOWN) return SQLITE_OK;
    int rc = mx_shadows_find(vtab, &shadow, error);
    if (rc == SQLITE_OK) rc = check(vtab, shadow, error);
    sqlite3_free(shadow);
    return rc;
}

/* ---- adopting -------------------------------------------------------------------------------- */

bool mx_origin_is_stale(const mx_vtab *vtab) { return vtab->origin == MX_ORIGIN_STALE; }

/* This happens once per move; that total_changes() counts the row is borne. */
int mx_origin_adopt(const mx_vtab *vtab, const char *shadow)
{
    sqlite3 *db = vtab->connection->db;
    char *words = NULL;
    sqlite3_int64 rowid = sqlite3_last_insert_rowid(db);
    int rc = mx_origin_put(vtab, &words);
    if (rc != SQLITE_OK || !words) return rc;
    char *sql = sqlite3_mprintf("UPDATE \"%w\".\"%w\" SET value = %Q WHERE key = 'host';"
                                "INSERT INTO \"%w\".\"%w\" SELECT 'host', %Q WHERE NOT EXISTS"
                                "(SELECT 1 FROM \"%w\".\"%w\" WHERE key = 'host')",
                                vtab->schema, shadow, words, vtab->schema, shadow, words,
                                vtab->schema, shadow);
    rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_set_last_insert_rowid(db, rowid);
    sqlite3_free(sql);
    sqlite3_free(words);
    return rc;
}

void mx_origin_forget(mx_vtab *vtab)
{
    if (vtab->origin == MX_ORIGIN_STALE) vtab->origin = MX_ORIGIN_UNKNOWN;
}
