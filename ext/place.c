/* place.c: where the stores of tables are.
**
**     default     <database file>-memwal/<32 hexadecimal digits>
**     path        the path option; a relative one starts from the folder of the database file
**     ephemeral   $TMPDIR/memwal-<32 hexadecimal digits>, for tables without a file; it goes when
**                 the connection is closed
**
** A store shows the rows to whoever may enter its folder. So the folder is as private as the
** database file, as SQLite makes its own files beside it, and is so before anything is in it: a
** file that was opened once stays readable. A folder that was there before is its owner's. */
#include "place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "world.h"

enum { NAME_BYTES = (MX_NAME_BYTES - 1) / 2, PATH_BYTES_MAX = 4096 };

/* ---- names ---------------------------------------------------------------------------------- */

void mx_place_put_hex(char *to, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
    to[2 * count] = 0;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool mx_place_get_hex(const char *text, uint8_t *bytes, size_t count)
{
    if (!text || strlen(text) != 2 * count) return false;
    for (size_t i = 0; i < count; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

int mx_place_random_name(char name[MX_NAME_BYTES], char **error)
{
    uint8_t bytes[NAME_BYTES];
    const mw_env *env = mx_world_env();
    if (env->random(env->ctx, bytes, sizeof bytes) != 0) {
        return mx_err_put(error, SQLITE_IOERR, "the machine gives no random numbers");
    }
    mx_place_put_hex(name, bytes, sizeof bytes);
    return SQLITE_OK;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static int no_memory(char **error)
{
    return mx_err_put(error, SQLITE_NOMEM, "%s", mw_rc_text(MW_NOMEM));
}

/* A database in memory may have the name of a file (file:/x?vfs=memdb), but then there is none. */
static const char *file_of(const mx_vtab *vtab, const char *schema)
{
    mx_world_entry entry;
    const char *file = sqlite3_db_filename(vtab->connection->db, schema);
    return file && file[0] && mx_world_look(file, &entry) == 0 ? file : "";
}

const char *mx_place_file(const mx_vtab *vtab) { return file_of(vtab, vtab->schema); }

static bool is_temp(const mx_vtab *vtab) { return sqlite3_stricmp(vtab->schema, "temp") == 0; }

/* The file whose folder relative paths start from: for a table in temp that of the main database,
** so that temp.t and main.t with the same path mean the same store. */
static const char *base_file(const mx_vtab *vtab)
{
    return is_temp(vtab) ? file_of(vtab, "main") : mx_place_file(vtab);
}

const char *mx_place_word(const mx_vtab *vtab)
{
    if (vtab->args->path) return "path";
    return vtab->ephemeral ? "ephemeral" : "default";
}

bool mx_place_is_absolute(const mx_vtab *vtab)
{
    return vtab->args->path && (is_temp(vtab) || !base_file(vtab)[0]);
}

/* The path option as an absolute path, as far as that can be told without the shadow table. */
static int resolve_path(const mx_vtab *vtab, char **path, char **error)
{
    const char *given = vtab->args->path;
    const char *file = base_file(vtab);
    const char *slash = strrchr(file, '/');
    if (given[0] == '/') {
        *path = sqlite3_mprintf("%s", given);
    } else if (slash) {
        *path = sqlite3_mprintf("%.*s/%s", (int)(slash - file), file, given);
    } else {
        char folder[PATH_BYTES_MAX];
        if (mx_world_working_folder(folder, sizeof folder) != 0) {
            return mx_err_put(error, SQLITE_CANTOPEN,
                              "the working directory is not known, which "
                              "path='%s' starts from: give an absolute path",
                              given);
        }
        *path = sqlite3_mprintf("%s/%s", folder, given);
    }
    return *path ? SQLITE_OK : no_memory(error);
}

static int default_path(const mx_vtab *vtab, const char *name, char **path, char **error)
{
    *path = sqlite3_mprintf("%s-memwal/%s", mx_place_file(vtab), name);
    return *path ? SQLITE_OK : no_memory(error);
}

static int ephemeral_path(const char *name, char **path, char **error)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || folder[0] != '/') folder = "/tmp";
    *path = sqlite3_mprintf("%s/memwal-%s", folder, name);
    return *path ? SQLITE_OK : no_memory(error);
}

/* ---- folders -------------------------------------------------------------------------------- */

/* Who may read the file may enter the folder. False: that is for the umask to say. */
static bool folder_mode(const mx_vtab *vtab, uint32_t *mode)
{
    mx_world_entry entry;
    const char *file = base_file(vtab);
    *mode = S_IRWXU;
    if (vtab->ephemeral) return true;
    if (!file[0] || mx_world_look(file, &entry) != 0) return false;
    *mode |= entry.mode | (entry.mode & (S_IRUSR | S_IRGRP | S_IROTH)) >> 2;
    return true;
}

/* Only the last folder of a path is made: a mistyped path should not leave a row of empty ones. */
static int no_parent(const char *path, char **error)
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/') bytes--;
    while (bytes > 1 && path[bytes - 1] != '/') bytes--;
    while (bytes > 1 && path[bytes - 1] == '/') bytes--;
    return mx_err_put(error, SQLITE_CANTOPEN,
                      "the folder %.*s is missing, which is to hold the store %s: make it first",
                      (int)bytes, path, path);
}

int mx_place_make_folder(const mx_vtab *vtab, const char *path, bool *made, char **error)
{
    uint32_t mode = 0;
    bool known = folder_mode(vtab, &mode);
    int sys = mx_world_make_folder(path, known ? S_IRWXU : S_IRWXU | S_IRWXG | S_IRWXO);
    *made = sys == 0;
    if (sys == ENOENT) return no_parent(path, error);
    if (!*made || !known) return SQLITE_OK;
    sys = mx_world_set_mode(path, mode);
    if (sys == 0) return SQLITE_OK;
    return mx_err_put(error, SQLITE_IOERR, "the mode of %s cannot be set: %s", path,
                      strerror(sys));
}

/* The folder that holds the stores of one database file. */
static int make_default_folder(const mx_vtab *vtab, char **error)
{
    const mw_env *env = mx_world_env();
    char *path = sqlite3_mprintf("%s-memwal", mx_place_file(vtab));
    if (!path) return no_memory(error);
    bool made = false;
    int rc = mx_place_make_folder(vtab, path, &made, error);
    if (rc == SQLITE_OK) {
        /* The name is made durable. */
        mw_err err;
        mx_err_clear(&err);
        int dir = -1;
        int sys = env->dir_open(env->ctx, path, true, &dir);
        if (sys == 0) sys = env->dir_close(env->ctx, dir);
        if (sys != 0) (void)mw_fail_sys(&err, sys, "making", path);
        if (sys != 0) rc = mx_err_give(error, &err);
    }
    sqlite3_free(path);
    return rc;
}

/* ---- choosing and finding ------------------------------------------------------------------- */

int mx_place_choose(mx_vtab *vtab, char name[MX_NAME_BYTES], char **error)
{
    name[0] = 0;
    if (vtab->args->path) return resolve_path(vtab, &vtab->path, error);
    int rc = mx_place_random_name(name, error);
    if (rc != SQLITE_OK) return rc;
    if (vtab->ephemeral) return ephemeral_path(name, &vtab->path, error);
    rc = make_default_folder(vtab, error);
    return rc == SQLITE_OK ? default_path(vtab, name, &vtab->path, error) : rc;
}

int mx_place_find(mx_vtab *vtab, const char *name, bool *known, char **error)
{
    uint8_t bytes[NAME_BYTES];
    *known = vtab->args->path || mx_place_get_hex(name, bytes, sizeof bytes);
    if (!*known) return SQLITE_OK;
    if (!vtab->args->path) return default_path(vtab, name, &vtab->path, error);
    if (!name || name[0] != '/') return resolve_path(vtab, &vtab->path, error);
    vtab->path = sqlite3_mprintf("%s", name);
    return vtab->path ? SQLITE_OK : no_memory(error);
}
