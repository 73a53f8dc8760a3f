/* stores_test.c: many stores in one process: what one does is no matter of the others. One store
** under readers and closes that are in the way of its merges.
**
**   stores_test                            the tests
**   stores_test --busy | --flush FOLDER    is started by them: writes, says so, and is killed */
#include "client.h"

#include <dirent.h>

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
    client_folder_remove(folder);
    return 0;
}

/* Rows first .. first + count - 1 into a table. */
static void put_rows(sqlite3 *db, const char *table, int64_t first, int64_t count, int bytes)
{
    client_run(db,
               "WITH RECURSIVE c(i) AS (SELECT %lld UNION ALL SELECT i + 1 FROM c LIMIT %lld)"
               " INSERT OR REPLACE INTO %s SELECT i, randomblob(%d) FROM c",
               (long long)first, (long long)count, table, bytes);
}

static int64_t count_of(sqlite3 *db, const char *table)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM (SELECT id FROM %s ORDER BY id)", table);
    int64_t scanned = client_ask(db, sql);
    snprintf(sql, sizeof sql, "SELECT memwal_count('%s')", table);
    assert_int_equal(client_ask(db, sql), scanned);
    snprintf(sql, sizeof sql, "SELECT memwal_check('%s') = 'ok'", table);
    assert_int_equal(client_ask(db, sql), 1);
    return scanned;
}

/* ---- two stores ------------------------------------------------------------------------------ */

enum { BUSY_ROWS = 200000, QUIET_ROWS = 3000, STEP = 1000 };

static void make_two(sqlite3 *db, const char *options)
{
    client_run(db, "CREATE VIRTUAL TABLE busy USING memwal(id INTEGER PRIMARY KEY, v, %s)",
               options);
    client_run(db, "CREATE VIRTUAL TABLE quiet USING memwal(id INTEGER PRIMARY KEY, v, %s)",
               options);
}

static int work(bool flush)
{
    sqlite3 *db = client_open(file);
    make_two(db, flush ? "background = 'off'" : "memtable = '200KB'");
    int64_t rows = flush ? 2 * STEP : BUSY_ROWS;
    for (int64_t id = 0; id < rows; id += STEP) {
        put_rows(db, "busy", id, STEP, 8);
        if (id < QUIET_ROWS) put_rows(db, "quiet", id, STEP, 8);
    }
    if (flush) client_run(db, "SELECT memwal_flush('busy')");
    if (!client_write_all(STDOUT_FILENO, "+", 1)) client_fail("nobody reads");
    for (;;) client_sleep_us(1000000); /* until it is killed */
}

static void kill_worker(const char *what)
{
    char done;
    const char *const arguments[] = {client_own_program(), what, folder, NULL};
    client_worker worker = client_worker_start(arguments);
    if (!client_read_all(worker.from, &done, 1)) client_fail("the worker ended too early");
    assert_true(client_worker_kill(&worker));
}

/* C02: one rotates its memtable all the time, the other never does. */
static void a_quiet_store_keeps_its_rows_beside_a_busy_one(void **state)
{
    (void)state;
    kill_worker("--busy");
    for (int i = 0; i < 2; i++) {
        sqlite3 *db = client_open(file);
        assert_int_equal(count_of(db, "busy"), BUSY_ROWS);
        assert_int_equal(count_of(db, "quiet"), QUIET_ROWS);
        client_close(db);
    }
}

/* C15. */
static void a_flush_moves_no_other_stores_replay(void **state)
{
    (void)state;
    kill_worker("--flush");
    sqlite3 *db = client_open(file);
    assert_int_equal(count_of(db, "quiet"), 2 * STEP);
    assert_int_equal(count_of(db, "busy"), 2 * STEP);
    client_close(db);
}

/* ---- sixteen stores -------------------------------------------------------------------------- */

/* C71: fifteen idle stores whose memtables are nearly full; the sixteenth writes ten times what a
** memtable holds. Each has its own memory, so none has to wait for another. */
static void idle_stores_do_not_hold_a_writer_back(void **state)
{
    (void)state;
    enum { STORES = 16, IDLE_ROWS = 800, ROUNDS = 100 };
    char name[16];
    uint64_t longest_us = 0;
    sqlite3 *db = client_open(file);
    for (int i = 0; i < STORES; i++) {
        snprintf(name, sizeof name, "t%d", i);
        client_run(db,
                   "CREATE VIRTUAL TABLE %s USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '1MB')",
                   name);
        if (i < STORES - 1) put_rows(db, name, 0, IDLE_ROWS, 1000);
    }
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t began = client_now_us();
        put_rows(db, "t15", i * 100, 100, 1000);
        uint64_t took = client_now_us() - began;
        if (took > longest_us) longest_us = took;
    }
    print_message("longest statement: %" PRIu64 " ms\n", longest_us / 1000);
    assert_in_range(longest_us, 0, 10000000); /* a standing stall, not a slow machine */
    for (int i = 0; i < STORES; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(count_of(db, name), i < STORES - 1 ? IDLE_ROWS : 100 * ROUNDS);
    }
    client_close(db);
}

/* ---- a reader in the way --------------------------------------------------------------------- */

static int64_t disk_bytes(sqlite3 *db)
{
    char path[CLIENT_TEXT_BYTES];
    int64_t bytes = 0;
    client_ask_text(db, path, "SELECT value FROM memwal_stats('t') WHERE name = 'path'");
    DIR *store = opendir(path);
    if (!store) client_fail("%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(store)) != NULL;) {
        struct stat info;
        if (fstatat(dirfd(store), entry->d_name, &info, 0) == 0) bytes += info.st_blocks * 512;
    }
    closedir(store);
    return bytes;
}

/* C34: 60 MB of churn over 3 MB of rows while a cursor is open. It keeps the files of its moment
** and no others; when it closes they go. */
static void disk_use_falls_back_when_a_reader_ends(void **state)
{
    (void)state;
    enum { ROWS = 3000, BYTES = 1000, CHURNS = 20 };
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " memtable = '1MB', merge_generations = 2)");
    put_rows(db, "t", 0, ROWS, BYTES);
    client_run(db, "SELECT memwal_flush('t'), memwal_compact('t')");
    int64_t alone = disk_bytes(db);
    sqlite3_stmt *reader = client_prepare(db, "SELECT v FROM t ORDER BY id");
    if (!client_step(reader)) client_fail("no row");
    for (int i = 0; i < CHURNS; i++) put_rows(db, "t", 0, ROWS, BYTES);
    client_run(db, "SELECT memwal_flush('t'), memwal_compact('t')");
    int64_t pinned = disk_bytes(db);
    assert_int_equal(client_figure(db, "snapshots"), 1);
    client_sleep_us(1100000);
    assert_in_range(client_figure(db, "oldest_snapshot_s"), 1, 3600);
    assert_in_range(pinned, alone + ROWS * BYTES, 3 * alone);
    int64_t count = 1;
    while (client_step(reader)) count++;
    assert_int_equal(count, ROWS);
    client_finalize(reader);
    put_rows(db, "t", 0, 1, BYTES);
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    assert_in_range(disk_bytes(db), 0, alone + ROWS * BYTES / 4);
    assert_int_equal(client_figure(db, "snapshots"), 0);
    client_check_store(db);
    client_close(db);
}

/* ---- a close in the way ---------------------------------------------------------------------- */

static int tables_on_disk(const char *path)
{
    int count = 0;
    DIR *store = opendir(path);
    if (!store) client_fail("%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(store)) != NULL;) {
        count += strncmp(entry->d_name, "table-", 6) == 0;
    }
    closedir(store);
    return count;
}

/* C69: closed while 64 MB are merged in the background: given up, and nothing of it is left. */
static void closing_does_not_wait_for_a_large_merge(void **state)
{
    (void)state;
    enum { FILES = 16, ROWS = 4000, BYTES = 1000 };
    char path[CLIENT_TEXT_BYTES];
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v,"
                   " background = 'off', merge_generations = 1000)");
    for (int i = 0; i < FILES; i++) {
        client_run(db,
                   "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c LIMIT %d)"
                   " INSERT INTO t SELECT i * %d + %d, randomblob(%d) FROM c",
                   ROWS, FILES, i, BYTES);
        client_run(db, "SELECT memwal_flush('t')");
    }
    client_ask_text(db, path, "SELECT value FROM memwal_stats('t') WHERE name = 'path'");
    client_run(db, "SELECT memwal_set('t', 'merge_generations', 2),"
                   " memwal_set('t', 'background', 'on')");
    put_rows(db, "t", 0, 1, BYTES);
    client_run(db, "SELECT memwal_flush('t')"); /* wakes the thread */
    /* Files that no version lists are those of a merge at work. */
    for (int i = 0; tables_on_disk(path) < client_figure(db, "files") + 3; i++) {
        if (i > 20000) client_fail("no merge is seen at work");
        client_sleep_us(500);
    }
    uint64_t began = client_now_us();
    client_close(db);
    uint64_t took_us = client_now_us() - began;
    print_message("closed in %" PRIu64 " ms\n", took_us / 1000);
    assert_in_range(took_us, 0, 2000000); /* a second, on a machine that does other things too */
    db = client_open(file);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE length(v) = 1000"), FILES * ROWS);
    assert_int_equal(tables_on_disk(path), client_figure(db, "files"));
    client_check_store(db);
    client_close(db);
}

/* ---------------------------------------------------------------------------------------------- */

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(int argc, char **argv)
{
    client_use_memory();
    if (argc == 3) {
        client_is_worker = true;
        snprintf(folder, sizeof folder, "%s", argv[2]);
        snprintf(file, sizeof file, "%s/t.db", folder);
        return work(strcmp(argv[1], "--flush") == 0);
    }
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_quiet_store_keeps_its_rows_beside_a_busy_one),
        IN_FOLDER(a_flush_moves_no_other_stores_replay),
        IN_FOLDER(idle_stores_do_not_hold_a_writer_back),
        IN_FOLDER(disk_use_falls_back_when_a_reader_ends),
        IN_FOLDER(closing_does_not_wait_for_a_large_merge),
    };
    return cmocka_run_group_tests_name("stores", tests, NULL, NULL);
}
