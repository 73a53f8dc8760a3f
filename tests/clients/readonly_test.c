/* readonly_test.c: a database that is opened read-only reads its tables, and leaves no trace.
**
**   readonly_test                    all tests
**   readonly_test --worker ...       is started by the tests */
#include "client.h"

#include <dirent.h>

enum { PATH_BYTES = PATH_MAX + 64, NOBODY = 65534, ROUNDS = 20 };

static char folder[PATH_MAX];
static char database[PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    client_folder_make(folder);
    snprintf(database, sizeof database, "%s/test.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    client_folder_remove(folder);
    return 0;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static uint64_t sum;

static void add(uint64_t value) { sum = (sum ^ value) * 0x100000001b3u; }

static void add_content(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) client_fail("opening %s: %s", path, strerror(errno));
    for (int c; (c = getc(file)) != EOF;) add((uint64_t)c);
    fclose(file);
}

/* Names, owners, times, sizes and contents. The order of nftw is that of the folder, which stays. */
static int add_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)at;
    for (const char *c = path; *c; c++) add((uint8_t)*c);
    add((uint64_t)info->st_ino);
    add((uint64_t)info->st_size);
    add((uint64_t)info->st_mtim.tv_sec);
    add((uint64_t)info->st_mtim.tv_nsec);
    add((uint64_t)info->st_mode);
    if (kind == FTW_F) add_content(path);
    return 0;
}

static uint64_t trace_of(const char *path)
{
    sum = 0xcbf29ce484222325u;
    if (nftw(path, add_one, 16, FTW_PHYS)) client_fail("reading %s: %s", path, strerror(errno));
    return sum;
}

static uint64_t trace_of_stores(void)
{
    char path[PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s-memwal", database);
    return trace_of(path);
}

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct way {
    const char *suffix; /* of the URI */
    int flags;
} way;

static const way ways[] = {
    {"", SQLITE_OPEN_READONLY},
    {"?mode=ro", SQLITE_OPEN_READWRITE},
    {"?immutable=1", SQLITE_OPEN_READWRITE},
    {"?immutable=1", SQLITE_OPEN_READONLY},
};
enum { WAYS = sizeof ways / sizeof *ways };

static sqlite3 *open_by(const way *by)
{
    sqlite3 *db = NULL;
    char *words = NULL;
    char uri[PATH_BYTES + 32];
    snprintf(uri, sizeof uri, "file:%s%s", database, by->suffix);
    if (sqlite3_open_v2(uri, &db, by->flags | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
        client_fail("opening %s: %s", uri, sqlite3_errmsg(db));
    }
    sqlite3_enable_load_extension(db, 1);
    if (sqlite3_load_extension(db, client_extension(), NULL, &words) != SQLITE_OK) {
        client_fail("loading %s: %s", client_extension(), words);
    }
    return db;
}

static void make_table(const char *journal)
{
    sqlite3 *db = client_open(database);
    client_run(db,
               "PRAGMA journal_mode = %s;"
               "CREATE TABLE plain(n); INSERT INTO plain VALUES (1);"
               "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v);"
               "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');"
               "SELECT memwal_flush('t');"
               "INSERT INTO t VALUES (4, 'd'); DELETE FROM t WHERE id = 1",
               journal);
    client_close(db);
}

static void assert_refused(sqlite3 *db, const char *sql, int code)
{
    char words[CLIENT_TEXT_BYTES];
    int found = client_try(db, words, "%s", sql);
    if (found != code) client_fail("%s: expected %d, found %d: %s", sql, code, found, words);
}

/* 3 rows, in every way to ask. */
static void assert_reads(sqlite3 *db)
{
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 3);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), 3);
    assert_int_equal(client_ask(db, "SELECT sum(id) FROM t"), 9);
    assert_int_equal(client_ask(db, "SELECT id FROM t WHERE v = 'd'"), 4);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t JOIN plain ON id > n"), 3);
    assert_int_equal(client_figure(db, "rows"), 3);
    assert_true(client_ask(db, "SELECT count(*) FROM memwal_files('t')") > 0);
    assert_true(client_ask(db, "SELECT count(*) FROM memwal_wal('t')") > 0);
    client_check_store(db);
}

static void assert_writes_nothing(sqlite3 *db)
{
    assert_refused(db, "INSERT INTO t VALUES (9, 'x')", SQLITE_READONLY);
    assert_refused(db, "DELETE FROM t", SQLITE_READONLY);
    assert_refused(db, "UPDATE t SET v = 1", SQLITE_READONLY);
    assert_refused(db, "DROP TABLE t", SQLITE_READONLY);
    assert_refused(db, "SELECT memwal_flush('t')", SQLITE_READONLY);
    assert_refused(db, "SELECT memwal_merge('t')", SQLITE_READONLY);
    assert_refused(db, "SELECT memwal_compact('t')", SQLITE_READONLY);
    assert_refused(db, "SELECT memwal_set('t', 'cache', '1MB')", SQLITE_READONLY);
    assert_refused(db, "SELECT memwal_set('t', 'host', 'accept')", SQLITE_READONLY);
}

/* C64 C75 */
static void reading_leaves_no_trace(void **state)
{
    (void)state;
    make_table("DELETE");
    uint64_t before = trace_of_stores();
    for (int i = 0; i < WAYS; i++) {
        sqlite3 *db = open_by(&ways[i]);
        assert_reads(db);
        assert_writes_nothing(db);
        assert_reads(db);
        client_close(db);
        assert_true(trace_of_stores() == before);
    }
    for (int i = 0; i < 500; i++) {
        sqlite3 *db = open_by(&ways[i % WAYS]);
        assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), 3);
        client_close(db);
    }
    assert_true(trace_of_stores() == before);
    sqlite3 *db = client_open(database);
    client_run(db, "INSERT INTO t VALUES (9, 'x')");
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), 4);
    client_close(db);
}

/* A store that nobody has written to yet. */
static void an_empty_store_is_read_as_well(void **state)
{
    (void)state;
    sqlite3 *db = client_open(database);
    client_run(db, "CREATE VIRTUAL TABLE t USING memwal(v)");
    client_close(db);
    uint64_t before = trace_of_stores();
    sqlite3 *reader = open_by(&ways[0]);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 0);
    assert_true(trace_of_stores() == before);
    db = client_open(database);
    client_run(db, "INSERT INTO t VALUES (1)");
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 1);
    client_close(db);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 1);
    client_close(reader);
}

/* ---- after a kill ---------------------------------------------------------------------------- */

/* Writes rows until it is killed, and tells of each; shared: each counts in an ordinary table, too. */
static int write_worker(char **arguments)
{
    snprintf(database, sizeof database, "%s/test.db", arguments[1]);
    bool shared = strcmp(arguments[0], "shared") == 0;
    sqlite3 *db = client_open(database);
    for (;;) {
        client_run(db, "%s",
                   shared ? "BEGIN; UPDATE plain SET n = n + 1;"
                            "INSERT INTO t(v) VALUES ('row'); COMMIT"
                          : "INSERT INTO t(v) VALUES ('row')");
        if (!client_write_all(STDOUT_FILENO, "x", 1)) return 0;
    }
}

static client_worker start_writer(const char *kind)
{
    const char *const arguments[] = {client_own_program(), "--worker", kind, folder, NULL};
    client_worker worker = client_worker_start(arguments);
    char byte;
    assert_true(client_read_all(worker.from, &byte, 1));
    return worker;
}

/* How many more were acknowledged. */
static int64_t kill_writer(client_worker *worker)
{
    char bytes[4096];
    int64_t more = 0;
    ssize_t got;
    kill(worker->pid, SIGKILL);
    while ((got = read(worker->from, bytes, sizeof bytes)) > 0) more += got;
    (void)client_worker_wait(worker);
    return more;
}

static void what_a_kill_left_is_replayed_in_memory(void **state)
{
    (void)state;
    make_table("DELETE");
    client_worker worker = start_writer("plain");
    client_sleep_us(30000);
    int64_t acknowledged = 1 + kill_writer(&worker);
    uint64_t before = trace_of_stores();
    sqlite3 *db = open_by(&ways[0]);
    int64_t rows = client_ask(db, "SELECT count(*) FROM t");
    assert_true(rows >= 3 + acknowledged && rows <= 4 + acknowledged);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), rows);
    assert_writes_nothing(db);
    client_close(db);
    assert_true(trace_of_stores() == before);
    db = client_open(database);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), rows);
    client_close(db);
}

/* I12: the file says whether what the kill left undecided has happened. */
static void an_undecided_transaction_is_read_as_the_file_says(void **state)
{
    (void)state;
    sqlite3 *db = client_open(database);
    client_run(db, "PRAGMA journal_mode = WAL; CREATE TABLE plain(n); INSERT INTO plain VALUES (0);"
                   "CREATE VIRTUAL TABLE t USING memwal(v)");
    client_close(db);
    uint64_t random = client_now_us();
    for (int round = 0; round < ROUNDS; round++) {
        client_worker worker = start_writer("shared");
        client_sleep_us(client_pick(&random, 10000));
        (void)kill_writer(&worker);
        uint64_t before = trace_of_stores();
        sqlite3 *reader = open_by(&ways[0]);
        assert_int_equal(client_ask(reader, "SELECT n - memwal_count('t') FROM plain"), 0);
        assert_int_equal(client_ask(reader, "SELECT n - (SELECT count(*) FROM t) FROM plain"), 0);
        client_close(reader);
        assert_true(trace_of_stores() == before);
    }
}

/* ---- beside writers -------------------------------------------------------------------------- */

/* C74: of the same process; the writer comes later, and goes. */
static void a_writer_of_this_process_is_followed(void **state)
{
    (void)state;
    make_table("WAL");
    sqlite3 *reader = open_by(&ways[0]);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 3);
    sqlite3_stmt *open = client_prepare(reader, "SELECT id FROM t");
    assert_true(client_step(open));
    sqlite3 *writer = client_open(database);
    client_run(writer, "INSERT INTO t VALUES (5, 'e')");
    assert_true(client_step(open));
    assert_true(client_step(open));
    assert_false(client_step(open)); /* it sees the moment that it began with */
    client_finalize(open);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 4);
    assert_writes_nothing(reader);
    client_run(writer, "INSERT INTO t VALUES (6, 'f'); SELECT memwal_compact('t')");
    assert_int_equal(client_ask(reader, "SELECT memwal_count('t')"), 5);
    client_close(writer);
    assert_int_equal(client_ask(reader, "SELECT memwal_count('t')"), 5);
    writer = client_open(database);
    client_run(writer, "INSERT INTO t VALUES (7, 'g')");
    assert_int_equal(client_ask(reader, "SELECT memwal_count('t')"), 6);
    client_close(reader);
    client_close(writer);
}

/* C74: of another process. The count never falls, and each acknowledged row is seen. */
static void a_writer_of_another_process_is_followed(void **state)
{
    (void)state;
    make_table("WAL");
    sqlite3 *reader = open_by(&ways[0]);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 3);
    sqlite3_busy_timeout(reader, 10000);
    client_worker worker = start_writer("plain");
    int64_t acknowledged = 1;
    int64_t before = 0;
    for (int i = 0; i < 200; i++) {
        int64_t rows = client_ask(reader, "SELECT count(*) FROM t");
        if (rows < 3 + acknowledged || rows < before) {
            client_fail("%" PRId64 " rows, then %" PRId64 "; %" PRId64 " were acknowledged", before,
                        rows, acknowledged);
        }
        before = rows;
        char byte;
        assert_true(client_read_all(worker.from, &byte, 1));
        acknowledged++;
    }
    (void)kill_writer(&worker);
    client_check_store(reader);
    client_close(reader);
}

/* Transactions that change both sides are under way all the time: neither is older than the other. */
static void a_shared_commit_under_way_is_no_difference(void **state)
{
    (void)state;
    enum { LOOKS = 100 };
    make_table("WAL");
    client_worker worker = start_writer("shared");
    for (int i = 0; i < LOOKS; i++) {
        sqlite3 *reader = open_by(&ways[0]);
        sqlite3_busy_timeout(reader, 10000);
        int64_t before = client_ask(reader, "SELECT n FROM plain");
        int64_t rows = client_ask(reader, "SELECT count(*) FROM t");
        int64_t after = client_ask(reader, "SELECT n FROM plain");
        /* 3 rows for n = 1; each statement sees a moment of its own. */
        if (rows < before + 2 || rows > after + 3) {
            client_fail("%" PRId64 " rows between %" PRId64 " and %" PRId64, rows, before, after);
        }
        client_close(reader);
    }
    (void)kill_writer(&worker);
}

/* ---- without permission ---------------------------------------------------------------------- */

static void set_modes(mode_t file_mode, mode_t folder_mode)
{
    char path[PATH_BYTES + 600];
    char stores[PATH_BYTES + 8];
    char store[PATH_BYTES + 300];
    snprintf(stores, sizeof stores, "%s-memwal", database);
    DIR *names = opendir(stores);
    assert_non_null(names);
    for (struct dirent *name; (name = readdir(names));) {
        if (name->d_name[0] == '.') continue;
        snprintf(store, sizeof store, "%s/%.256s", stores, name->d_name);
        DIR *files = opendir(store);
        assert_non_null(files);
        for (struct dirent *file; (file = readdir(files));) {
            snprintf(path, sizeof path, "%s/%.256s", store, file->d_name);
            if (file->d_name[0] != '.') assert_int_equal(chmod(path, file_mode), 0);
        }
        closedir(files);
        assert_int_equal(chmod(store, folder_mode), 0);
    }
    closedir(names);
    assert_int_equal(chmod(stores, folder_mode), 0);
    assert_int_equal(chmod(database, file_mode), 0);
    assert_int_equal(chmod(folder, folder_mode), 0);
}

static int reading_worker(char **arguments)
{
    snprintf(database, sizeof database, "%s/test.db", arguments[1]);
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) client_fail("setuid");
    sqlite3 *db = client_open(database);
    if (client_ask(db, "SELECT memwal_count('t')") != 3) client_fail("count");
    if (client_ask(db, "SELECT sum(id) FROM t") != 9) client_fail("sum");
    if (client_try(db, NULL, "INSERT INTO t VALUES (9, 'x')") != SQLITE_READONLY) {
        client_fail("an INSERT was not refused");
    }
    client_close(db);
    return 0;
}

/* C64 */
static void a_file_that_may_not_be_written_is_read(void **state)
{
    (void)state;
    make_table("DELETE");
    set_modes(0444, 0555);
    uint64_t before = trace_of(folder);
    const char *const arguments[] = {client_own_program(), "--worker", "read", folder, NULL};
    client_worker worker = client_worker_start(arguments);
    client_worker_finish(&worker);
    assert_true(trace_of(folder) == before);
    set_modes(0644, 0755);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 4 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return strcmp(argv[2], "read") == 0 ? reading_worker(argv + 2) : write_worker(argv + 2);
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(reading_leaves_no_trace),
        TEST(an_empty_store_is_read_as_well),
        TEST(what_a_kill_left_is_replayed_in_memory),
        TEST(an_undecided_transaction_is_read_as_the_file_says),
        TEST(a_writer_of_this_process_is_followed),
        TEST(a_writer_of_another_process_is_followed),
        TEST(a_shared_commit_under_way_is_no_difference),
        TEST(a_file_that_may_not_be_written_is_read),
    };
    return cmocka_run_group_tests_name("readonly", tests, NULL, NULL);
}
