/* functions.c: the SQL functions. Each finds its table by name and asks the engine; what a table
** must be for that (connected, its store open) is done on the way.
**
** All that may open a store are DIRECTONLY: a view or trigger in a database file from a stranger
** must not make memwal touch files. */
#include "functions.h"

#include <string.h>

#include "err.h"
#include "internal.h"
#include "bond.h"
#include "options.h"
#include "origin.h"
#include "settings.h"

enum {
    FLUSH_WAIT_MS = 10000, /* for other connections' open transactions, then SQLITE_BUSY */
};

/* ---- results --------------------------------------------------------------------------------- */

/* Takes error. */
static void give_error(sqlite3_context *context, int code, char *error)
{
    sqlite3_result_error(context, error ? error : sqlite3_errstr(code), -1);
    sqlite3_result_error_code(context, code);
    sqlite3_free(error);
}

static void give_engine_error(sqlite3_context *context, const mx_vtab *vtab, const mw_err *err)
{
    give_error(context, mx_err_code(err), mx_err_text(err, vtab->path));
}

/* The table's name in the argument. NULL: the error is already the result. */
static const char *table_name(sqlite3_context *context, sqlite3_value *argument)
{
    if (sqlite3_value_type(argument) != SQLITE_TEXT) {
        give_error(context, SQLITE_ERROR,
                   sqlite3_mprintf("memwal: expected a table's name: 't' or 'schema.t'"));
        return NULL;
    }
    const char *name = (const char *)sqlite3_value_text(argument);
    if (!name) sqlite3_result_error_nomem(context);
    return name;
}

/* The table that the argument names, its store open, for work that takes the store's turn: a
** connection that holds it would wait for itself. With a reference (mx_vtab_release); NULL: the
** error is already the result. */
static mx_vtab *use_table(sqlite3_context *context, sqlite3_value *argument, const char *function,
                          bool writes)
{
    const char *name = table_name(context, argument);
    if (!name) return NULL;
    char *error = NULL;
    mx_txn *txn = NULL;
    mx_vtab *vtab = NULL;
    int code = mx_vtab_find(sqlite3_context_db_handle(context), name, &vtab, &error);
    if (code == SQLITE_OK) code = mx_vtab_use(vtab, &txn, &error);
    if (code == SQLITE_OK && writes &&
        sqlite3_db_readonly(vtab->connection->db, vtab->schema) == 1) {
        code = mx_err_put(&error, SQLITE_READONLY,
                          "%s writes files, and the database is opened read-only", function);
    }
    if (code == SQLITE_OK && writes) code = mx_origin_check(vtab, &error);
    if (code == SQLITE_OK && mx_txn_open(txn)) {
        code = mx_err_put(&error, SQLITE_LOCKED,
                          "%s inside a transaction that has written: COMMIT first", function);
    }
    if (code == SQLITE_OK) return vtab;
    mx_vtab_release(vtab);
    give_error(context, code, error);
    return NULL;
}

/* ---- functions of a table -------------------------------------------------------------------- */

static void count_rows(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *name = table_name(context, argv[0]);
    if (!name) return;
    char *error = NULL;
    sqlite3_int64 count = 0;
    int code = mx_txn_count(sqlite3_context_db_handle(context), name, &count, &error);
    if (code == SQLITE_OK) {
        sqlite3_result_int64(context, count);
    } else {
        give_error(context, code, error);
    }
}

static void flush(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    mx_vtab *vtab = use_table(context, argv[0], "memwal_flush", true);
    if (!vtab) return;
    mw_err err = {0};
    uint64_t generation = 0;
    if (mw_db_flush(mx_txn_db(vtab->txn), FLUSH_WAIT_MS, &generation, &err) != MW_OK) {
        give_engine_error(context, vtab, &err);
    } else if (generation > 0) {
        sqlite3_result_int64(context, (sqlite3_int64)generation);
    }
    mx_vtab_release(vtab);
}

static bool is_interrupted(void *connection) { return mx_connection_interrupted(connection); }

static void merge(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3_int64 limit = 0;
    if (argc > 1) {
        limit = sqlite3_value_int64(argv[1]);
        if (sqlite3_value_type(argv[1]) != SQLITE_INTEGER || limit < 1 || limit > UINT32_MAX) {
            give_error(context, SQLITE_ERROR,
                       sqlite3_mprintf("memwal: memwal_merge(t, max_generations): expected a "
                                       "number above 0"));
            return;
        }
    }
    mx_vtab *vtab = use_table(context, argv[0], "memwal_merge", true);
    if (!vtab) return;
    mw_err err = {0};
    uint32_t folded = 0;
    mx_connection *connection = mx_connection_of(sqlite3_context_db_handle(context));
    if (mw_db_merge(mx_txn_db(vtab->txn), (uint32_t)limit, is_interrupted, connection, &folded,
                    &err) != MW_OK) {
        give_engine_error(context, vtab, &err);
    } else {
        sqlite3_result_int64(context, folded);
    }
    mx_vtab_release(vtab);
}

static void compact(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    mx_vtab *vtab = use_table(context, argv[0], "memwal_compact", true);
    if (!vtab) return;
    mw_err err = {0};
    uint64_t removed = 0;
    mx_connection *connection = mx_connection_of(sqlite3_context_db_handle(context));
    if (mw_db_compact(mx_txn_db(vtab->txn), is_interrupted, connection, &removed, &err) != MW_OK) {
        give_engine_error(context, vtab, &err);
    } else {
        sqlite3_result_int64(context, (sqlite3_int64)removed);
    }
    mx_vtab_release(vtab);
}

/* An argument that is a word or a number, as text. NULL: the error is already the result. */
static const char *setting_word(sqlite3_context *context, sqlite3_value *argument, const char *what)
{
    int type = sqlite3_value_type(argument);
    const char *text = (const char *)sqlite3_value_text(argument);
    bool word = type == SQLITE_TEXT || type == SQLITE_INTEGER;
    if (word && !text) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    if (word && strlen(text) == (size_t)sqlite3_value_bytes(argument)) return text;
    give_error(context, SQLITE_ERROR,
               sqlite3_mprintf("memwal: memwal_set(t, key, value): expected %s", what));
    return NULL;
}

/* memwal_set(t, 'host', 'accept') */
static void accept(sqlite3_context *context, sqlite3_value *table, const char *value)
{
    const char *name = table_name(context, table);
    if (!name) return;
    char *error = NULL;
    const char *before = NULL;
    mx_vtab *vtab = NULL;
    int code = mx_vtab_find(sqlite3_context_db_handle(context), name, &vtab, &error);
    if (code == SQLITE_OK && strcmp(value, "accept") != 0) {
        code = mx_err_put(&error, SQLITE_ERROR,
                          "memwal_set(t, 'host', ...): expected 'accept', found '%s'", value);
    }
    if (code == SQLITE_OK) code = mx_bond_accept(vtab, &before, &error);
    mx_vtab_release(vtab);
    if (code == SQLITE_OK) {
        sqlite3_result_text(context, before, -1, SQLITE_STATIC);
    } else {
        give_error(context, code, error);
    }
}

static void set(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    mx_setting setting = {
        .key = setting_word(context, argv[1], "an option's name as the key, such as 'cache'"),
    };
    if (!setting.key) return;
    setting.value = setting_word(context, argv[2], "a text or a whole number as the value");
    if (!setting.value) return;
    if (sqlite3_stricmp(setting.key, "host") == 0) {
        accept(context, argv[0], setting.value);
        return;
    }
    mx_vtab *vtab = use_table(context, argv[0], "memwal_set", true);
    if (!vtab) return;
    char *error = NULL;
    int code = mx_settings_set(vtab, &setting, &error);
    if (code == SQLITE_OK) {
        mx_options_show(context, setting.name, &setting.before);
    } else {
        give_error(context, code, error);
    }
    mx_vtab_release(vtab);
}

static void add_line(void *lines, const char *line)
{
    sqlite3_str_appendf(lines, "%s%s", sqlite3_str_length(lines) > 0 ? "\n" : "", line);
}

static void check(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    mx_vtab *vtab = use_table(context, argv[0], "memwal_check", false);
    if (!vtab) return;
    sqlite3_str *lines = sqlite3_str_new(sqlite3_context_db_handle(context));
    mw_err err = {0};
    uint32_t faults = 0;
    mw_rc rc = mw_db_check(mx_txn_db(vtab->txn), add_line, lines, &faults, &err);
    int code = sqlite3_str_errcode(lines);
    char *text = sqlite3_str_finish(lines);
    if (rc != MW_OK) {
        give_engine_error(context, vtab, &err);
    } else if (code != SQLITE_OK) {
        give_error(context, code, NULL);
    } else if (faults == 0) {
        sqlite3_result_text(context, "ok", -1, SQLITE_STATIC);
    } else {
        sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
    }
    sqlite3_free(text);
    mx_vtab_release(vtab);
}

/* ---- functions of the build ------------------------------------------------------------------ */

static void give_text(sqlite3_context *context, char *text)
{
    if (text) {
        sqlite3_result_text(context, text, -1, sqlite3_free);
    } else {
        sqlite3_result_error_nomem(context);
    }
}

static void version(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    unsigned xxhash = mw_db_xxhash_version(); /* 801 is 0.8.1 */
    give_text(context, sqlite3_mprintf("memwal %s, format %u, SQLite %s, zstd %s, xxhash %u.%u.%u",
                                       MX_VERSION, mw_db_format_version(), sqlite3_libversion(),
                                       mw_db_zstd_version(), xxhash / 10000, xxhash / 100 % 100,
                                       xxhash % 100));
}

#ifdef NDEBUG
#define ASSERTS "off"
#else
#define ASSERTS "on"
#endif
#ifdef SQLITE_CORE
#define LINKING "static"
#else
#define LINKING "loadable"
#endif

static void debug(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    give_text(context,
              sqlite3_mprintf("compiler %s, %s, asserts %s, limits %s, SQLite headers %s, %d-bit",
                              __VERSION__, LINKING, ASSERTS, mw_db_limits(), SQLITE_VERSION,
                              (int)(8 * sizeof(void *))));
}

static const struct {
    const char *name;
    int argument_count;
    int flags;
    void (*run)(sqlite3_context *, int, sqlite3_value **);
} functions[] = {
    {"memwal_count", 1, SQLITE_DIRECTONLY, count_rows},
    {"memwal_flush", 1, SQLITE_DIRECTONLY, flush},
    {"memwal_merge", 1, SQLITE_DIRECTONLY, merge},
    {"memwal_merge", 2, SQLITE_DIRECTONLY, merge},
    {"memwal_compact", 1, SQLITE_DIRECTONLY, compact},
    {"memwal_check", 1, SQLITE_DIRECTONLY, check},
    {"memwal_set", 3, SQLITE_DIRECTONLY, set},
    {"memwal_version", 0, SQLITE_INNOCUOUS, version},
    {"memwal_debug", 0, SQLITE_INNOCUOUS, debug},
};

int mx_functions_register(sqlite3 *db)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof functions / sizeof functions[0]; i++) {
        rc = sqlite3_create_function_v2(db, functions[i].name, functions[i].argument_count,
                                        SQLITE_UTF8 | functions[i].flags, NULL, functions[i].run,
                                        NULL, NULL, NULL);
    }
    return rc;
}
