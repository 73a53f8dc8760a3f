/* sides.c: opening, filling and settling the databases of both sides. Both are durable: memwal with
** durability = 'full', SQLite with WAL and synchronous = FULL; caches as they come. */
#include "sides.h"

#include <stdio.h>
#include <unistd.h>

#define COLUMNS     "a INTEGER, b REAL, c TEXT, d TEXT"
#define TEXT_KEY    "id TEXT PRIMARY KEY, " COLUMNS
#define INTEGER_KEY "id INTEGER PRIMARY KEY, " COLUMNS

const char text_key_columns[] = TEXT_KEY;
const char insert_sql[] = "INSERT INTO t VALUES(?1, ?2, ?3, ?4, ?5)";
const char replace_sql[] = "REPLACE INTO t VALUES(?1, ?2, ?3, ?4, ?5)";

enum { MERGE_GENERATIONS = 8 }; /* the default: so many files make a merge due */

bool is_memwal(const side *s) { return s->kind == MEMWAL_TEXT || s->kind == MEMWAL_INTEGER; }

/* ---- SQL --------------------------------------------------------------------------------- */

void run(sqlite3 *db, const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) give_up("%s: %s", sql, error);
}

sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        give_up("%s: %s", sql, sqlite3_errmsg(db));
    }
    return statement;
}

bool step(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) return rc == SQLITE_ROW;
    give_up("%s: %s", sqlite3_sql(statement), sqlite3_errmsg(sqlite3_db_handle(statement)));
}

int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = prepare(db, sql);
    int64_t value = step(statement) ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    return value;
}

/* ---- databases --------------------------------------------------------------------------- */

sqlite3 *side_connect(const side *s)
{
    sqlite3 *db = NULL;
    char *error = NULL;
    char file[PATH_BYTES + 16];
    snprintf(file, sizeof file, "%s/bench.db", s->folder);
    if (sqlite3_open(file, &db) != SQLITE_OK) give_up("%s: %s", file, sqlite3_errmsg(db));
    if (is_memwal(s)) {
        sqlite3_enable_load_extension(db, 1);
        if (sqlite3_load_extension(db, wanted.extension, NULL, &error) != SQLITE_OK) {
            give_up("%s", error);
        }
    }
    sqlite3_busy_timeout(db, 60000);
    run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    return db;
}

side side_make_with(kind of, row_shape shape, const char *options)
{
    static const char *const create[KINDS] = {
        [MEMWAL_TEXT] = "CREATE VIRTUAL TABLE t USING memwal(" TEXT_KEY "%s)",
        [MEMWAL_INTEGER] = "CREATE VIRTUAL TABLE t USING memwal(" INTEGER_KEY "%s)",
        [ROWID] = "CREATE TABLE t(" TEXT_KEY ")",
        [WITHOUT_ROWID] = "CREATE TABLE t(" TEXT_KEY ") WITHOUT ROWID",
        [INTEGER] = "CREATE TABLE t(" INTEGER_KEY ")",
    };
    side s = {.kind = of, .shape = shape};
    char sql[512];
    sync();
    snprintf(s.folder, sizeof s.folder, "%s/%d", wanted.folder, (int)of);
    empty_folder(s.folder);
    s.db = side_connect(&s);
    snprintf(sql, sizeof sql, create[of], options);
    run(s.db, sql);
    return s;
}

side side_make(kind of, row_shape shape) { return side_make_with(of, shape, ""); }

void side_close(side *s)
{
    if (sqlite3_close(s->db) != SQLITE_OK) give_up("close: %s", sqlite3_errmsg(s->db));
    s->db = NULL;
}

void side_end(side *s)
{
    side_close(s);
    empty_folder(s->folder);
}

/* A merge at work has generations that wait for it, or files that are not listed yet or any more. */
static bool is_merging(const side *s)
{
    return memwal_figure(s->db, "t", "generations") >= MERGE_GENERATIONS ||
           files_named(s->folder, "table-") != (int)memwal_figure(s->db, "t", "files");
}

/* Waits until the background thread has nothing more to do. */
static void wait_for_merges(const side *s)
{
    double before;
    double bytes = -1;
    bool merging;
    do {
        before = bytes;
        usleep(20000);
        merging = is_merging(s);
        bytes = memwal_figure(s->db, "t", "bytes_written");
    } while (bytes > before || merging);
}

void settle(const side *s)
{
    if (is_memwal(s)) {
        run(s->db, "SELECT memwal_flush('t')");
        wait_for_merges(s);
    } else {
        run(s->db, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

void pack(const side *s)
{
    while (is_memwal(s) && ask(s->db, "SELECT memwal_merge('t')") > 0) continue;
}

double memwal_figure(sqlite3 *db, const char *table, const char *name)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT value FROM memwal_stats('%s') WHERE name = '%s'", table,
             name);
    return (double)ask(db, sql);
}

/* ---- rows -------------------------------------------------------------------------------- */

uint64_t id_number(order of, int64_t i)
{
    return of == RANDOM_ORDER ? row_mix((uint64_t)i) : (uint64_t)i;
}

void bind_key(const side *s, sqlite3_stmt *statement, char room[ROW_KEY_BYTES], uint64_t number)
{
    if (s->kind == MEMWAL_INTEGER || s->kind == INTEGER) {
        sqlite3_bind_int64(statement, 1, (int64_t)number);
        return;
    }
    row_put_key(room, number);
    sqlite3_bind_text(statement, 1, room, ROW_KEY_BYTES, SQLITE_STATIC);
}

size_t put_row(const side *s, sqlite3_stmt *put, uint64_t number, uint64_t version)
{
    row r;
    row_fill(&r, s->shape, number, version);
    bind_key(s, put, r.key, number);
    sqlite3_bind_int64(put, 2, r.a);
    sqlite3_bind_double(put, 3, r.b);
    sqlite3_bind_text(put, 4, r.c, (int)r.c_bytes, SQLITE_STATIC);
    sqlite3_bind_text(put, 5, r.d, (int)r.d_bytes, SQLITE_STATIC);
    (void)step(put);
    sqlite3_reset(put);
    return row_bytes(&r);
}
