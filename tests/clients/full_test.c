/* full_test.c: a disk that is really full, in the middle of everything that writes (C65).
**
** Nothing acknowledged is lost, reads go on, the failure is SQLITE_FULL with words, and when there
** is room writing goes on without opening anything anew. Two means, all tests with each of them:
**
**   a small disk   a tmpfs of 8 MB in a mount namespace of this process (as root, or in a user
**                  namespace of its own); a ballast file fills it
**   a size limit   RLIMIT_FSIZE: no file may grow beyond it. Works everywhere, and is all there is
**                  where nothing may be mounted: then the program says so
**
**   full_test                    the tests
**   full_test --worker FOLDER    is started by them: inserts until it is killed */
#include "client.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

enum { KB = 1024, MB = 1024 * KB, BLOCK = 4 * KB, NOTHING = 0 };

/* ---- a disk that can be full ----------------------------------------------------------------- */

static bool small_disk; /* else the size of files is limited */
static char folder[PATH_MAX];
static char file[PATH_MAX + 16];
static char ballast[PATH_MAX + 16];

static bool put_line(const char *path, const char *line)
{
    int to = open(path, O_WRONLY | O_CLOEXEC);
    bool done = to >= 0 && write(to, line, strlen(line)) == (ssize_t)strlen(line);
    if (to >= 0) close(to);
    return done;
}

/* A mount namespace of this process. */
static bool may_mount(void)
{
    char users[64];
    char groups[64];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
        (void)put_line("/proc/self/setgroups", "deny");
        if (!put_line("/proc/self/uid_map", users)) return false;
        if (!put_line("/proc/self/gid_map", groups)) return false;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return false;
    client_folder_make(folder);
    bool mounted = mount("none", folder, "tmpfs", 0, "size=8m") == 0;
    if (mounted) umount2(folder, MNT_DETACH);
    client_folder_remove(folder);
    return mounted;
}

static void disk_make(void)
{
    client_folder_make(folder);
    if (small_disk && mount("none", folder, "tmpfs", 0, "size=8m") != 0) {
        client_fail("mounting a tmpfs at %s: %s", folder, strerror(errno));
    }
    snprintf(file, sizeof file, "%s/t.db", folder);
    snprintf(ballast, sizeof ballast, "%s/ballast", folder);
}

/* `process` 0: this one. */
static void limit_files(pid_t process, rlim_t bytes)
{
    struct rlimit limit;
    if (prlimit(process, RLIMIT_FSIZE, NULL, &limit)) client_fail("prlimit: %s", strerror(errno));
    limit.rlim_cur = bytes;
    if (prlimit(process, RLIMIT_FSIZE, &limit, NULL)) client_fail("prlimit: %s", strerror(errno));
}

/* Leaves room for so many bytes, for `process` (0: this one). */
static void disk_fill(pid_t process, size_t leave)
{
    static const uint8_t zeros[BLOCK];
    if (!small_disk) {
        limit_files(process, leave);
        return;
    }
    int to = open(ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct statvfs disk = {0};
    if (to < 0) client_fail("%s: %s", ballast, strerror(errno));
    while (fstatvfs(to, &disk) == 0 && disk.f_bavail * disk.f_frsize > leave) {
        if (write(to, zeros, sizeof zeros) != BLOCK) break;
    }
    close(to);
}

/* A test that failed may have left its limit. */
static int lift_limit(void **state)
{
    (void)state;
    limit_files(0, RLIM_INFINITY);
    return 0;
}

/* Makes room again. */
static void disk_free(pid_t process)
{
    if (!small_disk) {
        limit_files(process, RLIM_INFINITY);
        return;
    }
    if (unlink(ballast) != 0) client_fail("%s: %s", ballast, strerror(errno));
}

static void disk_remove(void)
{
    if (small_disk && umount2(folder, MNT_DETACH) != 0) {
        client_fail("unmounting %s: %s", folder, strerror(errno));
    }
    client_folder_remove(folder);
}

/* ---- a table on it --------------------------------------------------------------------------- */

static sqlite3 *make_table(const char *options)
{
    sqlite3 *db = client_open(file);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, n, v, %s)",
               options);
    return db;
}

/* Rows first .. first + count - 1, which no compression makes smaller. */
static int put_rows(sqlite3 *db, int64_t first, int64_t count, int bytes, char *words)
{
    return client_try(
        db, words,
        "WITH RECURSIVE c(i) AS (SELECT %lld UNION ALL SELECT i + 1 FROM c LIMIT %lld)"
        " INSERT INTO t SELECT i, i * 7, randomblob(%d) FROM c",
        (long long)first, (long long)count, bytes);
}

static void must_put_rows(sqlite3 *db, int64_t first, int64_t count, int bytes)
{
    char words[CLIENT_TEXT_BYTES];
    int rc = put_rows(db, first, count, bytes, words);
    if (rc != SQLITE_OK) client_fail("rows from %" PRId64 ": %s (%d)", first, words, rc);
}

/* Rows 1 .. count are there, and nothing else: by the count, by a scan, by looks for single ids. */
static void expect_rows(sqlite3 *db, int64_t count)
{
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), count);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE n = id * 7 AND length(v) > 0"),
                     count);
    assert_int_equal(client_ask(db, "SELECT coalesce(max(id), 0) FROM t"), count);
    for (int64_t id = 1; id <= count; id += 1 + count / 10) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT n FROM t WHERE id = %" PRId64, id);
        assert_int_equal(client_ask(db, sql), id * 7);
    }
}

static void expect_full(int rc, const char *words)
{
    if (rc != SQLITE_FULL) client_fail("expected SQLITE_FULL, found %d: %s", rc, words);
    if (strcmp(words, "database or disk is full") == 0) return; /* the host file's own words */
    if (strncmp(words, "memwal: ", 8) != 0 || strlen(words) < 20) {
        client_fail("expected words, found '%s'", words);
    }
}

static int files_named(sqlite3 *db, const char *prefix)
{
    char path[CLIENT_TEXT_BYTES];
    int count = 0;
    client_ask_text(db, path, "SELECT value FROM memwal_stats('t') WHERE name = 'path'");
    DIR *store = opendir(path);
    if (!store) client_fail("%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(store)) != NULL;) {
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    closedir(store);
    return count;
}

/* Everything works, and nothing of what had failed is left. */
static void expect_recovered(sqlite3 *db, int64_t count)
{
    client_run(db, "SELECT memwal_flush('t'), memwal_merge('t')");
    expect_rows(db, count);
    client_check_store(db);
    assert_int_equal(files_named(db, "tmp-"), 0);
    assert_int_equal(files_named(db, "table-"), client_figure(db, "files"));
    assert_int_equal(
        client_ask(db, "SELECT value IS NULL FROM memwal_stats('t') WHERE name = 'last_error'"), 1);
}

static void expect_after_reopening(int64_t count)
{
    sqlite3 *db = client_open(file);
    expect_rows(db, count);
    client_check_store(db);
    client_close(db);
}

/* What a kill at this moment would leave: the files as they are. They are opened elsewhere. */
static void expect_after_kill(int64_t count)
{
    char command[4 * PATH_MAX];
    char copy[PATH_MAX];
    char copied[PATH_MAX + 16];
    client_folder_make(copy);
    snprintf(command, sizeof command, "cp -a %s %s-memwal %s", file, file, copy);
    if (system(command) != 0) client_fail("%s", command);
    snprintf(copied, sizeof copied, "%s/t.db", copy);
    sqlite3 *db = client_open(copied);
    expect_rows(db, count);
    client_check_store(db);
    must_put_rows(db, count + 1, 1, 10);
    client_close(db);
    client_folder_remove(copy);
}

/* ---- each step ------------------------------------------------------------------------------- */

enum { GENERATIONS = 3, ROWS = 12, ROW_BYTES = 2 * KB, LOADED = GENERATIONS * ROWS + ROWS };

/* Three generations, and rows in memory. */
static sqlite3 *make_loaded(void)
{
    sqlite3 *db = make_table("memtable = '1MB', background = 'off'");
    for (int g = 0; g < GENERATIONS; g++) {
        must_put_rows(db, 1 + g * ROWS, ROWS, ROW_BYTES);
        client_run(db, "SELECT memwal_flush('t')");
    }
    must_put_rows(db, 1 + GENERATIONS * ROWS, ROWS, ROW_BYTES);
    return db;
}

/* The statement with so much room; true: it worked. */
static bool try_with(const char *sql, size_t leave, int64_t rows_after)
{
    char words[CLIENT_TEXT_BYTES];
    disk_make();
    sqlite3 *db = make_loaded();
    sqlite3_stmt *reader = client_prepare(db, "SELECT id FROM t");
    assert_true(client_step(reader));
    disk_fill(0, leave);
    int rc = client_try(db, words, "%s", sql);
    if (rc != SQLITE_OK) expect_full(rc, words);
    int64_t rows = rc == SQLITE_OK ? rows_after : LOADED;
    if (!sqlite3_get_autocommit(db)) client_run(db, "ROLLBACK");
    expect_rows(db, rows);
    int64_t read = 1;
    while (client_step(reader)) read++;
    assert_int_equal(read, LOADED);
    client_finalize(reader);
    disk_free(0);
    if (rc != SQLITE_OK) {
        expect_after_kill(LOADED);
        client_run(db, "%s", sql);
    }
    expect_recovered(db, rows_after);
    client_close(db);
    expect_after_reopening(rows_after);
    disk_remove();
    return rc == SQLITE_OK;
}

/* With nothing, with one block, with two ... until there is enough: so the disk is full in each
** step, from the first file to the manifest. */
static void try_step(const char *sql, int64_t rows_after, int least)
{
    int failures = 0;
    while (!try_with(sql, (size_t)failures * BLOCK, rows_after)) failures++;
    if (failures < least) client_fail("%s: expected %d failures, found %d", sql, least, failures);
}

/* C65. */
static void a_flush_on_a_full_disk_loses_nothing(void **state)
{
    (void)state;
    try_step("SELECT memwal_flush('t')", LOADED, 5);
}

/* C65. */
static void a_merge_on_a_full_disk_loses_nothing(void **state)
{
    (void)state;
    try_step("SELECT memwal_merge('t')", LOADED, 10);
}

/* C65. */
static void a_compaction_on_a_full_disk_loses_nothing(void **state)
{
    (void)state;
    try_step("SELECT memwal_compact('t')", LOADED, 10);
}

/* C65: the log has no room for the statement. */
static void an_insert_on_a_full_disk_is_refused(void **state)
{
    (void)state;
    assert_false(try_with("INSERT INTO t VALUES(49, 343, randomblob(600000))", NOTHING, 49));
    assert_false(try_with("INSERT INTO t VALUES(49, 343, randomblob(600000))", 300 * KB, 49));
}

/* C65: all fits into memory, and the COMMIT finds no room. */
static void a_commit_on_a_full_disk_is_refused(void **state)
{
    (void)state;
    char words[CLIENT_TEXT_BYTES];
    disk_make();
    sqlite3 *db = make_loaded();
    disk_fill(0, NOTHING);
    client_run(db, "BEGIN");
    must_put_rows(db, LOADED + 1, 300, ROW_BYTES);
    int rc = client_try(db, words, "COMMIT");
    /* The limit of file sizes is met by SQLite's journal, too, which calls it an I/O error. */
    if (small_disk || (rc & 0xff) != SQLITE_IOERR) expect_full(rc, words);
    assert_int_equal(sqlite3_get_autocommit(db), 1); /* as SQLite does for its own tables */
    expect_rows(db, LOADED);
    disk_free(0);
    expect_after_kill(LOADED);
    client_run(db, "BEGIN");
    must_put_rows(db, LOADED + 1, 300, ROW_BYTES);
    client_run(db, "COMMIT");
    expect_recovered(db, LOADED + 300);
    client_close(db);
    expect_after_reopening(LOADED + 300);
    disk_remove();
}

/* C65: a transaction larger than memory goes to files as it grows. */
static void a_large_transaction_on_a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    static const size_t leave[] = {NOTHING, 60 * KB, 250 * KB, 700 * KB};
    char words[CLIENT_TEXT_BYTES];
    for (size_t i = 0; i < sizeof leave / sizeof *leave; i++) {
        disk_make();
        sqlite3 *db = make_table("memtable = '100KB', background = 'off'");
        must_put_rows(db, 1, 20, ROW_BYTES);
        disk_fill(0, leave[i]);
        client_run(db, "BEGIN");
        int rc = SQLITE_OK;
        int64_t count = 20;
        for (; rc == SQLITE_OK && count < 1020; count += 20) {
            rc = put_rows(db, count + 1, 20, ROW_BYTES, words);
        }
        if (rc == SQLITE_OK && small_disk) client_fail("two megabytes were written to a full disk");
        if (rc != SQLITE_OK) expect_full(rc, words);
        if (!sqlite3_get_autocommit(db)) client_run(db, "ROLLBACK");
        expect_rows(db, 20);
        disk_free(0);
        expect_after_kill(20);
        client_run(db, "BEGIN");
        must_put_rows(db, 21, 1000, ROW_BYTES);
        client_run(db, "COMMIT");
        expect_recovered(db, 1020);
        client_close(db);
        expect_after_reopening(1020);
        disk_remove();
    }
}

/* ---- a stream of inserts --------------------------------------------------------------------- */

static void wait_for_last_error(sqlite3 *db, bool wanted)
{
    const char *sql = "SELECT value IS NOT NULL FROM memwal_stats('t') WHERE name = 'last_error'";
    for (int waited_ms = 0; client_ask(db, sql) != wanted; waited_ms += 10) {
        if (waited_ms > 15000) client_fail("last_error is %s", wanted ? "not told" : "still told");
        client_sleep_us(10000);
    }
}

/* C65: inserts with a thread in the background, until nothing fits any more. */
static void inserts_stop_at_a_full_disk_and_go_on(void **state)
{
    (void)state;
    char words[CLIENT_TEXT_BYTES];
    int64_t count = 0;
    int rc = SQLITE_OK;
    disk_make();
    sqlite3 *db = make_table("memtable = '300KB', merge_generations = 2");
    for (; count < 100; count++) must_put_rows(db, count + 1, 1, ROW_BYTES);
    sqlite3_stmt *reader = client_prepare(db, "SELECT id FROM t ORDER BY id DESC");
    assert_true(client_step(reader));
    disk_fill(0, small_disk ? 2 * MB : 270 * KB); /* a log may have 256 KB ahead */
    while ((rc = put_rows(db, count + 1, 1, ROW_BYTES, words)) == SQLITE_OK) count++;
    expect_full(rc, words);
    if (small_disk) disk_fill(0, NOTHING);
    for (int i = 0; i < 5; i++) {
        rc = put_rows(db, count + 1, 1, ROW_BYTES, words);
        if (rc == SQLITE_OK) count++;
        if (rc != SQLITE_OK) expect_full(rc, words);
        expect_rows(db, count);
    }
    int64_t read = 1;
    while (client_step(reader)) read++;
    assert_int_equal(read, 100);
    client_finalize(reader);
    (void)client_try(db, NULL, "SELECT memwal_flush('t')"); /* gives the thread something to do */
    disk_free(0);
    expect_after_kill(count);
    for (int i = 0; i < 500; i++) must_put_rows(db, ++count, 1, ROW_BYTES);
    wait_for_last_error(db, false);
    expect_recovered(db, count);
    client_close(db);
    expect_after_reopening(count);
    disk_remove();
}

/* C65: what the thread cannot do is told while it lasts. */
static void last_error_tells_of_a_full_disk(void **state)
{
    (void)state;
    char words[CLIENT_TEXT_BYTES];
    int64_t count = 0;
    disk_make();
    sqlite3 *db = make_table("memtable = '2MB'");
    while (count < 200) must_put_rows(db, ++count, 1, ROW_BYTES);
    disk_fill(0, 300 * KB); /* for a segment, not for a table file */
    expect_full(client_try(db, words, "SELECT memwal_flush('t')"), words);
    wait_for_last_error(db, true);
    client_ask_text(db, words, "SELECT value FROM memwal_stats('t') WHERE name = 'last_error'");
    if (!strstr(words, "table-") || !strstr(words, small_disk ? "No space left" : "too large")) {
        client_fail("expected the file and the reason, found: %s", words);
    }
    expect_rows(db, count);
    disk_free(0);
    wait_for_last_error(db, false); /* by itself */
    must_put_rows(db, ++count, 1, ROW_BYTES);
    expect_recovered(db, count);
    client_close(db);
    expect_after_reopening(count);
    disk_remove();
}

/* ---- a kill on a full disk ------------------------------------------------------------------- */

/* Says how many rows are acknowledged after each attempt. */
static int work(void)
{
    signal(SIGXFSZ, SIG_IGN);
    snprintf(file, sizeof file, "%s/t.db", folder);
    sqlite3 *db = make_table("memtable = '300KB', merge_generations = 2");
    for (int64_t count = 0;;) {
        int rc = put_rows(db, count + 1, 1, ROW_BYTES, NULL);
        if (rc == SQLITE_OK) count++;
        if (rc != SQLITE_OK && rc != SQLITE_FULL) client_fail("insert: code %d", rc);
        int64_t told[2] = {count, rc};
        if (!client_write_all(STDOUT_FILENO, told, sizeof told)) client_fail("nobody reads");
    }
}

/* C65, C07: killed on the full disk. Taking the store over needs a little room: until it is there
** each use says so, and then the same connection goes on. */
static void a_kill_on_a_full_disk_loses_nothing(void **state)
{
    (void)state;
    disk_make();
    const char *const arguments[] = {client_own_program(), "--worker", folder, NULL};
    client_worker worker = client_worker_start(arguments);
    int64_t told[2] = {0, SQLITE_OK};
    for (int failures = 0; failures < 5;) {
        if (!client_read_all(worker.from, told, sizeof told)) client_fail("the worker ended");
        if (told[0] == 200 && failures == 0) disk_fill(worker.pid, small_disk ? 2 * MB : 270 * KB);
        failures += told[1] == SQLITE_FULL;
    }
    assert_true(client_worker_kill(&worker));
    if (!small_disk) disk_fill(0, NOTHING);
    if (small_disk) disk_fill(0, NOTHING);
    sqlite3 *db = client_open(file);
    int64_t count = client_ask(db, "SELECT memwal_count('t')");
    assert_in_range(count, told[0], told[0] + 5); /* what it had not told yet may be there */
    for (int i = 0; i < 3; i++) {
        char words[CLIENT_TEXT_BYTES];
        int rc = client_try(db, words, "INSERT INTO t(id) VALUES (-1)");
        expect_full(rc, words);
        expect_rows(db, count);
    }
    disk_free(0);
    expect_rows(db, count);
    must_put_rows(db, ++count, 1, ROW_BYTES);
    expect_recovered(db, count);
    client_close(db);
    expect_after_reopening(count);
    disk_remove();
}

/* ---------------------------------------------------------------------------------------------- */

#define LIMITED(test) cmocka_unit_test_setup_teardown(test, NULL, lift_limit)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        snprintf(folder, sizeof folder, "%s", argv[2]);
        return work();
    }
    signal(SIGXFSZ, SIG_IGN);
    client_use_memory();
    const struct CMUnitTest tests[] = {
        LIMITED(a_flush_on_a_full_disk_loses_nothing),
        LIMITED(a_merge_on_a_full_disk_loses_nothing),
        LIMITED(a_compaction_on_a_full_disk_loses_nothing),
        LIMITED(an_insert_on_a_full_disk_is_refused),
        LIMITED(a_commit_on_a_full_disk_is_refused),
        LIMITED(a_large_transaction_on_a_full_disk_leaves_nothing),
        LIMITED(inserts_stop_at_a_full_disk_and_go_on),
        LIMITED(last_error_tells_of_a_full_disk),
        LIMITED(a_kill_on_a_full_disk_loses_nothing),
    };
    int failed = 0;
    small_disk = may_mount();
    if (small_disk) failed = cmocka_run_group_tests_name("a small disk", tests, NULL, NULL);
    if (!small_disk)
        print_message("nothing may be mounted here: with a limit of file sizes only\n");
    small_disk = false;
    return failed + cmocka_run_group_tests_name("a size limit", tests, NULL, NULL);
}
