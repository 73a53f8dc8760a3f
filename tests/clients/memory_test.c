/* memory_test.c: no memory, at each allocation in turn, in the shipped extension (C24, C65's kin).
**
** The program has a malloc of its own, which SQLite, the extension and zstd use as well. Each
** statement runs with its first allocation failing, with its second, ... until none is left: once
** and from there on. Its answer is SQLITE_NOMEM and nothing has happened, or OK and all of it has;
** the same connection goes on at once.
**
** L35 is a limit as the system sets it, RLIMIT_AS, in a process of its own:
**
**   memory_test                    the tests
**   memory_test --merge FOLDER     is started by them: merges under a limit
**   memory_test --live FOLDER SEED the same: loads, merges and scans while the limit moves */
#include "client.h"

#include <dirent.h>

#include <sys/resource.h>

enum { TRIES_MAX = 20000, KB = 1024, MB = 1024 * KB };

/* ---- memory that can be out ------------------------------------------------------------------ */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

static _Thread_local bool armed; /* other threads never fail */
static _Thread_local bool for_ever;
static _Thread_local uint64_t left;
static _Thread_local uint64_t hits;

static bool fails(void)
{
    if (!armed || (left > 0 && --left > 0)) return false;
    if (hits > 0 && !for_ever) return false;
    hits++;
    return true;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *malloc(size_t bytes)
{
    return fails() ? (errno = ENOMEM, NULL) : __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    return fails() ? (errno = ENOMEM, NULL) : __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *old, size_t bytes)
{
    return fails() ? (errno = ENOMEM, NULL) : __libc_realloc(old, bytes);
}

/* The n-th allocation from now fails; with `ever` all later ones as well. */
static void arm(uint64_t n, bool ever)
{
    left = n;
    for_ever = ever;
    hits = 0;
    armed = true;
}

/* True: an allocation has failed. */
static bool disarm(void)
{
    armed = false;
    return hits > 0;
}

/* ---- a table --------------------------------------------------------------------------------- */

static char folder[PATH_MAX];
static char file[PATH_MAX + 16];

static int make_folder(void **state)
{
    (void)state;
    client_folder_make(folder);
    snprintf(file, sizeof file, "%s/t.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    disarm();
    client_folder_remove(folder);
    return 0;
}

/* Ids 1 .. 12 in the base; then 9 is new and 5 deleted in memory. */
static sqlite3 *make_table(void)
{
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " background = 'off', memtable = '64KB')");
    for (int id = 1; id <= 12; id++) client_run(db, "INSERT INTO t VALUES(%d, 'old')", id);
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t');"
                   "UPDATE t SET v = 'new' WHERE id = 9; DELETE FROM t WHERE id = 5");
    return db;
}

/* All rows in words, found by a scan; the count must agree. */
static void read_rows(sqlite3 *db, char rows[CLIENT_TEXT_BYTES])
{
    client_ask_text(db, rows,
                    "SELECT count(*) || ':' || group_concat(id || '=' || substr(v, 1, 8))"
                    " FROM (SELECT id, v FROM t ORDER BY id)");
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), strtoll(rows, NULL, 10));
}

typedef struct statement {
    const char *sql;
    const char *before; /* brings the table to where it was, and gives the statement work */
} statement;

/* One run with an allocation that fails; false: none was left to fail. */
static bool try_without(sqlite3 *db, const statement *what, uint64_t n, bool ever)
{
    char before[CLIENT_TEXT_BYTES];
    char after[CLIENT_TEXT_BYTES];
    char found[CLIENT_TEXT_BYTES];
    char words[CLIENT_TEXT_BYTES];
    client_run(db, "%s", what->before);
    read_rows(db, before);
    arm(n, ever);
    int rc = sqlite3_exec(db, what->sql, NULL, NULL, NULL);
    bool hit = disarm();
    snprintf(words, sizeof words, "%s", sqlite3_errmsg(db));
    if (!sqlite3_get_autocommit(db)) client_run(db, "ROLLBACK");
    read_rows(db, found);
    if (rc != SQLITE_OK && rc != SQLITE_NOMEM) {
        client_fail("%s, allocation %" PRIu64 "%s: code %d, %s", what->sql, n,
                    ever ? " and all later" : "", rc, words);
    }
    if (rc == SQLITE_NOMEM) {
        assert_true(hit);
        if (strcmp(found, before) != 0) {
            client_fail("%s, allocation %" PRIu64 ": refused, but %s became %s", what->sql, n,
                        before, found);
        }
        client_run(db, "%s", what->sql);
        read_rows(db, found);
    }
    client_run(db, "%s", what->before);
    client_run(db, "%s", what->sql);
    read_rows(db, after);
    if (strcmp(found, after) != 0) {
        client_fail("%s, allocation %" PRIu64 ": expected %s, found %s", what->sql, n, after,
                    found);
    }
    return hit;
}

static void try_each(sqlite3 *db, const statement *what)
{
    for (int ever = 0; ever < 2; ever++) {
        uint64_t n = 1;
        while (n < TRIES_MAX && try_without(db, what, n, ever)) n++;
        if (n < 5 || n == TRIES_MAX) client_fail("%s: %" PRIu64 " allocations", what->sql, n);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

/* The rows in words; the code of the failure, if there is one. */
static int select_rows(sqlite3 *db, const char *sql, char rows[CLIENT_TEXT_BYTES])
{
    sqlite3_stmt *select = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &select, NULL);
    size_t used = 0;
    rows[0] = '\0';
    if (rc == SQLITE_OK) rc = SQLITE_ROW;
    while (rc == SQLITE_ROW && (rc = sqlite3_step(select)) == SQLITE_ROW) {
        const char *words = (const char *)sqlite3_column_text(select, 1);
        if (!words) break; /* ending it needs memory */
        used += (size_t)snprintf(rows + used, CLIENT_TEXT_BYTES - used, "%lld=%s ",
                                 (long long)sqlite3_column_int64(select, 0), words);
    }
    if (rc == SQLITE_ROW) rc = sqlite3_errcode(db);
    sqlite3_finalize(select);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* C24: an error or the right rows; never the old 9, nor 9 twice, nor 5. */
static void a_select_without_memory_gives_no_wrong_row(void **state)
{
    (void)state;
    static const char *const selects[] = {
        "SELECT id, v FROM t", "SELECT id, v FROM t ORDER BY id DESC",
        "SELECT id, v FROM t WHERE id BETWEEN 4 AND 9", "SELECT id, v FROM t WHERE id IN (5, 9, 3)",
        "SELECT a.id, b.v FROM t a JOIN t b USING (id)"};
    sqlite3 *db = make_table();
    for (size_t i = 0; i < 2 * sizeof selects / sizeof *selects; i++) {
        char right[CLIENT_TEXT_BYTES];
        bool hit = true;
        uint64_t n = 0;
        assert_int_equal(select_rows(db, selects[i / 2], right), SQLITE_OK);
        while (hit && n < TRIES_MAX) {
            char found[CLIENT_TEXT_BYTES];
            client_run(db, "SELECT memwal_set('t', 'cache', 0)"); /* pages are read again */
            arm(++n, i % 2);
            int rc = select_rows(db, selects[i / 2], found);
            hit = disarm();
            if (rc != SQLITE_OK) assert_int_equal(rc, SQLITE_NOMEM);
            if (strncmp(right, found, rc == SQLITE_OK ? sizeof right : strlen(found)) != 0) {
                client_fail("%s, allocation %" PRIu64 ": expected %s, found %s", selects[i / 2], n,
                            right, found);
            }
        }
        assert_in_range(n, 5, TRIES_MAX - 1);
    }
    client_close(db);
}

/* I7 and all others: nothing or all of it. */
static void a_change_without_memory_has_happened_or_not(void **state)
{
    (void)state;
    static const statement changes[] = {
        {"INSERT INTO t VALUES(20, 'new')", "DELETE FROM t WHERE id = 20"},
        {"INSERT INTO t VALUES(20, 'a'), (21, 'b'), (22, 'c')", "DELETE FROM t WHERE id >= 20"},
        {"INSERT OR REPLACE INTO t VALUES(9, 'newer'), (30, 'd')",
         "UPDATE t SET v = 'new' WHERE id = 9; DELETE FROM t WHERE id = 30"},
        {"UPDATE t SET v = v || '+', id = id + 100 WHERE id IN (3, 9)",
         "DELETE FROM t WHERE id IN (3, 9, 103, 109); INSERT INTO t VALUES(3, 'old'), (9, 'new')"},
        {"DELETE FROM t WHERE id < 4", "INSERT OR REPLACE INTO t SELECT id, 'old' FROM"
                                       " (SELECT 1 AS id UNION SELECT 2 UNION SELECT 3)"},
        {"BEGIN; INSERT INTO t VALUES(20, 'new'); SAVEPOINT s; DELETE FROM t WHERE id = 20;"
         " ROLLBACK TO s; INSERT INTO t VALUES(21, 'b'); COMMIT",
         "DELETE FROM t WHERE id >= 20"},
    };
    sqlite3 *db = make_table();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) try_each(db, &changes[i]);
    client_check_store(db);
    client_close(db);
}

/* I5: memory runs out in a freeze, in a spill, in a flush, in a merge. */
static void files_are_made_wholly_or_not_at_all(void **state)
{
    (void)state;
    static const statement works[] = {
        {"SELECT memwal_flush('t')", "INSERT OR REPLACE INTO t VALUES(9, 'new')"},
        {"SELECT memwal_merge('t')", "INSERT OR REPLACE INTO t VALUES(9, 'new');"
                                     "SELECT memwal_flush('t'); DELETE FROM t WHERE id = 30;"
                                     "SELECT memwal_flush('t')"},
        {"SELECT memwal_compact('t')", "INSERT OR REPLACE INTO t VALUES(9, 'new');"
                                       "SELECT memwal_flush('t'); INSERT OR REPLACE INTO t"
                                       " VALUES(10, 'new')"},
        {"SELECT memwal_check('t')", "SELECT 1"},
        {"INSERT OR REPLACE INTO t VALUES(40, zeroblob(70000)), (41, 'c')",
         "DELETE FROM t WHERE id >= 40; INSERT INTO t VALUES(42, zeroblob(70000))"},
        {"BEGIN; INSERT INTO t VALUES(50, zeroblob(50000)), (51, zeroblob(50000)),"
         " (52, zeroblob(50000)); COMMIT",
         "DELETE FROM t WHERE id >= 50"},
    };
    sqlite3 *db = make_table();
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) try_each(db, &works[i]);
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    client_check_store(db);
    client_close(db);
    db = client_open(file);
    client_check_store(db);
    client_close(db);
}

/* The first statement of a connection opens the store and reads the log. */
static void opening_without_memory_can_be_tried_again(void **state)
{
    (void)state;
    char right[CLIENT_TEXT_BYTES];
    char found[CLIENT_TEXT_BYTES];
    sqlite3 *db = make_table();
    read_rows(db, right);
    client_close(db);
    for (int ever = 0; ever < 2; ever++) {
        bool hit = true;
        uint64_t n = 0;
        while (hit && n < TRIES_MAX) {
            db = client_open(file);
            arm(++n, ever);
            int rc = sqlite3_exec(db, "SELECT count(*) FROM t", NULL, NULL, NULL);
            hit = disarm();
            if (rc != SQLITE_OK && rc != SQLITE_NOMEM) {
                client_fail("opening, allocation %" PRIu64 ": code %d, %s", n, rc,
                            sqlite3_errmsg(db));
            }
            read_rows(db, found);
            assert_string_equal(found, right);
            client_close(db);
        }
        assert_in_range(n, 5, TRIES_MAX - 1);
    }
}

/* How much is in the folder beside the database. */
static int store_count(void)
{
    char path[PATH_MAX + 32];
    int count = 0;
    snprintf(path, sizeof path, "%s-memwal", file);
    DIR *dir = opendir(path);
    if (!dir) client_fail("%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* One statement with an allocation that fails: done or refused. */
static bool do_or_refuse(sqlite3 *db, const char *sql, uint64_t n, bool ever)
{
    arm(n, ever);
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    bool hit = disarm();
    if (rc != SQLITE_OK && rc != SQLITE_NOMEM) {
        client_fail("%s, allocation %" PRIu64 ": code %d, %s", sql, n, rc, sqlite3_errmsg(db));
    }
    if (!sqlite3_get_autocommit(db)) client_run(db, "ROLLBACK");
    return hit;
}

/* What could not be removed for want of memory goes with the next connection's first commit; nothing
** goes that a table needs. */
static void create_and_drop_without_memory_are_done_or_not(void **state)
{
    (void)state;
    static const char *const works[] = {
        "CREATE VIRTUAL TABLE d USING memwal(v)",
        "BEGIN; CREATE VIRTUAL TABLE d USING memwal(v); INSERT INTO d VALUES(1); ROLLBACK",
        "DROP TABLE d",
        "BEGIN; INSERT INTO d VALUES(2); DROP TABLE d; COMMIT",
        "BEGIN; INSERT INTO d VALUES(2); SAVEPOINT s; DROP TABLE d; ROLLBACK TO s; COMMIT",
    };
    sqlite3 *db = make_table();
    for (size_t i = 0; i < 2 * (sizeof works / sizeof *works); i++) {
        bool hit = true;
        for (uint64_t n = 1; hit && n < TRIES_MAX; n++) {
            client_run(db, "DROP TABLE IF EXISTS d");
            if (i / 2 >= 2) {
                client_run(db, "CREATE VIRTUAL TABLE d USING memwal(v); INSERT INTO d VALUES(1)");
            }
            hit = do_or_refuse(db, works[i / 2], n, i % 2);
            if (client_ask(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'd'")) {
                /* A commit that had no memory for its end stops the writer, which is told once. */
                (void)client_try(db, NULL, "SELECT * FROM d");
                client_run(db, "INSERT INTO d VALUES(3); SELECT * FROM d");
            }
        }
    }
    client_run(db, "DROP TABLE IF EXISTS d");
    client_close(db);
    db = client_open(file);
    client_run(db, "INSERT INTO t VALUES(90, 'more')");
    assert_int_equal(store_count(), 1);
    client_check_store(db);
    client_close(db);
}

/* ---- a limit of the system ------------------------------------------------------------------- */

/* What this process may have beyond what it has mapped now. */
static void limit_memory(rlim_t more)
{
    struct rlimit limit;
    unsigned long pages = 0;
    FILE *sizes = fopen("/proc/self/statm", "r");
    if (!sizes || fscanf(sizes, "%lu", &pages) != 1) client_fail("/proc/self/statm");
    fclose(sizes);
    if (getrlimit(RLIMIT_AS, &limit)) client_fail("getrlimit: %s", strerror(errno));
    limit.rlim_cur =
        more == RLIM_INFINITY ? more : (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    if (setrlimit(RLIMIT_AS, &limit)) client_fail("setrlimit: %s", strerror(errno));
}

enum { GENERATIONS = 200, LARGE = MB, MERGE_MEMORY = 48 * MB };

static int merge_under_a_limit(void)
{
    sqlite3 *db = client_open(file);
    if (client_figure(db, "generations") != GENERATIONS) client_fail("not all generations");
    limit_memory(MERGE_MEMORY);
    client_run(db, "SELECT memwal_merge('t')");
    limit_memory(RLIM_INFINITY);
    if (client_figure(db, "generations") != 0) client_fail("not all were merged");
    client_close(db);
    return 0;
}

/* L35: 200 generations with rows of 1 MB, and one with a row of 20 MB, are merged by a process that
** may have 48 MB more than it has. */
static void large_generations_are_merged_under_a_limit(void **state)
{
    (void)state;
    const char *const arguments[] = {client_own_program(), "--merge", folder, NULL};
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, cache = '1MB',"
                   " background = 'off', merge_generations = 1000, memtable = '256MB')");
    for (int i = 0; i < GENERATIONS; i++) {
        int bytes = i == GENERATIONS / 2 ? 20 * LARGE : LARGE;
        client_run(db,
                   "INSERT OR REPLACE INTO t VALUES(%d, randomblob(%d));"
                   "SELECT memwal_flush('t')",
                   i * 7 % 150, bytes);
    }
    client_close(db);
    client_worker worker = client_worker_start(arguments);
    client_worker_finish(&worker);
    db = client_open(file);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE length(v) >= 1048576"), 150);
    client_check_store(db);
    client_close(db);
}

/* Statements while the limit moves; what was acknowledged is counted. */
static int live(uint64_t seed)
{
    enum { STEPS = 300 };
    char words[CLIENT_TEXT_BYTES];
    int64_t count = 0;
    int refused = 0;
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '400KB', cache = '1MB', merge_generations = 2)");
    for (int step = 0; step < STEPS; step++) {
        static const char *const others[] = {
            "SELECT sum(length(v)) FROM t", "SELECT memwal_flush('t')", "SELECT memwal_merge('t')",
            "SELECT count(*) FROM t a JOIN t b ON b.id = a.id + 1"};
        uint64_t choice = client_pick(&seed, 12);
        limit_memory(client_pick(&seed, 3) * client_pick(&seed, MB));
        int rc = choice < 4 ? client_try(db, words, "%s", others[choice])
                            : client_try(db, words,
                                         "WITH RECURSIVE c(i) AS (SELECT %lld UNION ALL"
                                         " SELECT i + 1 FROM c LIMIT 20)"
                                         " INSERT INTO t SELECT i, randomblob(3000) FROM c",
                                         (long long)count + 1);
        limit_memory(RLIM_INFINITY);
        if (rc != SQLITE_OK && rc != SQLITE_NOMEM) client_fail("code %d: %s", rc, words);
        refused += rc == SQLITE_NOMEM;
        if (rc == SQLITE_OK && choice >= 4) count += 20;
        if (!sqlite3_get_autocommit(db)) client_run(db, "ROLLBACK");
        if (client_ask(db, "SELECT memwal_count('t')") != count) client_fail("a wrong count");
    }
    if (client_ask(db, "SELECT count(*) FROM t WHERE length(v) = 3000") != count) {
        client_fail("%" PRId64 " rows were acknowledged, a scan finds others", count);
    }
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    client_check_store(db);
    client_close(db);
    if (refused == 0) client_fail("memory was never out");
    fprintf(stderr, "%d of %d statements were refused\n", refused, STEPS);
    return 0;
}

/* I1, I7, I14: memory runs out at random places, for the thread in the background as well. */
static void a_limit_that_moves_loses_nothing(void **state)
{
    (void)state;
    const char *given = getenv("MEMORY_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : client_now_us();
    for (int i = 0; i < 3; i++, seed++) {
        char number[32];
        snprintf(number, sizeof number, "%" PRIu64, seed);
        print_message("again: MEMORY_SEED=%" PRIu64 " %s\n", seed, client_own_program());
        const char *const arguments[] = {client_own_program(), "--live", folder, number, NULL};
        client_worker worker = client_worker_start(arguments);
        client_worker_finish(&worker);
        sqlite3 *db = client_open(file);
        client_check_store(db);
        client_run(db, "DROP TABLE t");
        client_close(db);
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(int argc, char **argv)
{
    if (argc >= 3) {
        client_is_worker = true;
        snprintf(folder, sizeof folder, "%s", argv[2]);
        snprintf(file, sizeof file, "%s/t.db", folder);
        return argc == 4 ? live(strtoull(argv[3], NULL, 10)) : merge_under_a_limit();
    }
    client_use_memory();
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_select_without_memory_gives_no_wrong_row),
        IN_FOLDER(a_change_without_memory_has_happened_or_not),
        IN_FOLDER(files_are_made_wholly_or_not_at_all),
        IN_FOLDER(opening_without_memory_can_be_tried_again),
        IN_FOLDER(create_and_drop_without_memory_are_done_or_not),
        IN_FOLDER(large_generations_are_merged_under_a_limit),
        IN_FOLDER(a_limit_that_moves_loses_nothing),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
