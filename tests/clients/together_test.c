/* together_test.c: transactions over a memwal table and ordinary tables of the same database file:
** both sides or neither (I12), which transactions need that at all, and what it costs.
**
**   together_test                    all tests
**   together_test --seed SEED        with the random moments of one run again
**   together_test --worker ...       is started by the tests
**
** TOGETHER_ROUNDS=n   rounds of kill -9 in each journal mode */
#include "client.h"

#include <poll.h>

enum { PATH_BYTES = PATH_MAX + 64, ROUNDS = 50 };

typedef struct mode {
    const char *journal;
    const char *synchronous;
} mode;

static const mode modes[] = {{"DELETE", "FULL"},
                             {"TRUNCATE", "NORMAL"},
                             {"PERSIST", "FULL"},
                             {"WAL", "NORMAL"},
                             {"WAL", "FULL"}};
enum { MODES = sizeof modes / sizeof *modes };

static uint64_t seed;
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

static sqlite3 *open_in(const mode *in)
{
    sqlite3 *db = client_open(database);
    client_run(db, "PRAGMA journal_mode = %s; PRAGMA synchronous = %s", in->journal,
               in->synchronous);
    return db;
}

static sqlite3 *make_tables(const mode *in)
{
    sqlite3 *db = open_in(in);
    client_run(
        db, "CREATE TABLE accounts(id INTEGER PRIMARY KEY, n); INSERT INTO accounts VALUES (1, 0);"
            "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, n)");
    return db;
}

/* ---- one phase or two ------------------------------------------------------------------------ */

static int64_t decisions(sqlite3 *db)
{
    return client_ask(db, "SELECT count(*) FROM memwal_wal('t') WHERE state = 'decision'");
}

/* Has the statement, a transaction by itself, been left to the host to decide? */
static bool is_shared(sqlite3 *db, const char *sql)
{
    int64_t before = decisions(db);
    client_run(db, "%s", sql);
    return decisions(db) > before;
}

static void what_changes_one_table_alone_needs_no_host(void **state)
{
    (void)state;
    static const char *const alone[] = {
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT OR REPLACE INTO main.t(id, n) VALUES (1, -1), (2, +2), (3, x'00'), (4, NULL);",
        "REPLACE INTO \"t\" VALUES (1, printf('%d', 7)), (5, hex(randomblob(3)))",
        "insert or ignore into T values (1, current_timestamp)",
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "UPDATE t SET n = json_object('id', id) WHERE id IN (1, 2) AND n LIKE 'a%' OR id BETWEEN 3 "
        "AND 4",
        "DELETE FROM t WHERE id = 1 -- a comment with SELECT",
        "DELETE FROM t",
    };
    sqlite3 *db = make_tables(&modes[0]);
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        if (is_shared(db, alone[i])) client_fail("left to the host: %s", alone[i]);
    }
    client_close(db);
}

static void touch(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    sqlite3 *db = sqlite3_context_db_handle(context);
    int rc = sqlite3_exec(db, "UPDATE accounts SET n = n + 1", NULL, NULL, NULL);
    if (rc != SQLITE_OK) sqlite3_result_error_code(context, rc);
    if (rc == SQLITE_OK) sqlite3_result_value(context, argv[0]);
}

/* Each of them has been seen to change more than the table. */
static void what_may_change_more_is_left_to_the_host(void **state)
{
    (void)state;
    static const char *const shared[] = {
        "BEGIN; INSERT INTO t VALUES (1, 1); COMMIT",
        "BEGIN; UPDATE accounts SET n = n + 1; INSERT INTO t VALUES (2, 2); COMMIT",
        "INSERT INTO t SELECT 3, 3",
        "INSERT INTO t VALUES (4, touch(4))",
        "INSERT INTO t VALUES (5, (SELECT max(n) FROM accounts))",
        "INSERT INTO t VALUES (6, 6) RETURNING n",
        "INSERT INTO accounts VALUES (7, 7)", /* by its trigger */
        "INSERT INTO shown VALUES (8, 8)",    /* by the view's  */
        "UPDATE t SET n = accounts.n FROM accounts WHERE t.id = accounts.id",
        "UPDATE t SET n = upper(n) WHERE id = 1", /* replaced       */
        "DELETE FROM t WHERE id IN one",
        "DELETE FROM t WHERE id IN (SELECT id FROM accounts)",
        "DELETE FROM t WHERE touch(id) = 4",
    };
    sqlite3 *db = make_tables(&modes[3]);
    int flags = SQLITE_UTF8 | SQLITE_INNOCUOUS;
    sqlite3_create_function(db, "touch", 1, flags, NULL, touch, NULL, NULL);
    sqlite3_create_function(db, "upper", 1, flags, NULL, touch, NULL, NULL);
    client_run(db, "CREATE TRIGGER put AFTER INSERT ON accounts BEGIN"
                   " INSERT INTO t VALUES (new.id, 1); END;"
                   "CREATE VIEW one AS SELECT touch(1);"
                   "CREATE VIEW shown AS SELECT * FROM t;"
                   "CREATE TRIGGER put_shown INSTEAD OF INSERT ON shown BEGIN"
                   " INSERT INTO t VALUES (new.id, new.n);"
                   " UPDATE accounts SET n = n + 1; END");
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        if (!is_shared(db, shared[i])) client_fail("decided by the store alone: %s", shared[i]);
    }
    client_check_store(db);
    client_close(db);
}

/* A view of the same name in temp is what the statement means, whatever it looks like. */
static void a_name_that_temp_hides_is_not_the_table(void **state)
{
    (void)state;
    static const char again[] = "INSERT OR REPLACE INTO t VALUES (1, 1)";
    sqlite3 *db = make_tables(&modes[0]);
    assert_false(is_shared(db, again));
    client_run(db, "CREATE VIEW shown AS SELECT * FROM t;"
                   "CREATE TRIGGER put_shown INSTEAD OF INSERT ON shown BEGIN"
                   " INSERT INTO t VALUES (new.id, new.n);"
                   " UPDATE accounts SET n = n + 1; END;"
                   "CREATE TEMP VIEW t AS SELECT * FROM main.t;"
                   "CREATE TEMP TRIGGER put INSTEAD OF INSERT ON t BEGIN"
                   " INSERT INTO shown VALUES (new.id, new.n); END");
    char count[] = "SELECT count(*) FROM memwal_wal('main.t') WHERE state = 'decision'";
    int64_t before = client_ask(db, count);
    client_run(db, again);
    assert_int_equal(client_ask(db, count), before + 1);
    client_run(db, "INSERT INTO main.t VALUES (3, 3)");
    assert_int_equal(client_ask(db, count), before + 1);
    client_close(db);
}

/* Another statement that writes is half-way: what it has changed is part of the same commit. */
static void a_statement_under_way_is_not_forgotten(void **state)
{
    (void)state;
    sqlite3 *db = make_tables(&modes[3]);
    sqlite3_stmt *half =
        client_prepare(db, "INSERT INTO accounts VALUES (2, 2), (3, 3) RETURNING id");
    assert_true(client_step(half));
    int64_t before = decisions(db);
    client_run(db, "INSERT INTO t VALUES (1, 1)");
    client_finalize(half);
    assert_int_equal(decisions(db), before + 1);
    client_close(db);
}

/* The marker row is written behind SQLite's back: nothing is counted. */
static void the_marker_is_not_counted(void **state)
{
    (void)state;
    sqlite3 *db = make_tables(&modes[0]);
    int before = sqlite3_total_changes(db);
    client_run(db, "BEGIN; INSERT INTO t VALUES (1, 1), (2, 2); COMMIT");
    assert_int_equal(sqlite3_total_changes(db) - before, 2);
    assert_int_equal(sqlite3_changes(db), 2);
    client_close(db);
}

/* ---- the host says no ------------------------------------------------------------------------ */

static void assert_state(sqlite3 *db, int64_t n, int64_t rows)
{
    assert_int_equal(client_ask(db, "SELECT n FROM accounts WHERE id = 1"), n);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), rows);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), rows);
}

static int veto(void *arg)
{
    (void)arg;
    return 1;
}

static void a_veto_of_the_application_undoes_both_sides(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        (void)make_folder(state);
        sqlite3 *db = make_tables(&modes[i]);
        sqlite3_commit_hook(db, veto, NULL);
        int rc = client_try(
            db, NULL, "BEGIN; UPDATE accounts SET n = 9; INSERT INTO t VALUES (1, 1); COMMIT");
        assert_int_equal(rc, SQLITE_CONSTRAINT_COMMITHOOK);
        assert_true(sqlite3_get_autocommit(db));
        sqlite3_commit_hook(db, NULL, NULL);
        assert_state(db, 0, 0);
        client_close(db);
        db = client_open(database);
        assert_state(db, 0, 0);
        client_close(db);
        (void)remove_folder(state);
    }
    (void)make_folder(state);
}

/* A reader of the database file makes COMMIT answer BUSY: the transaction stays open, may go on, and
** a later COMMIT decides about all of it. */
static void a_busy_host_leaves_the_transaction_open(void **state)
{
    (void)state;
    sqlite3 *db = make_tables(&modes[0]);
    sqlite3_busy_timeout(db, 0);
    sqlite3 *reader = client_open(database);
    client_run(reader, "BEGIN; SELECT * FROM accounts");
    client_run(db, "BEGIN; UPDATE accounts SET n = n + 1; INSERT INTO t VALUES (1, 1)");
    assert_int_equal(client_try(db, NULL, "COMMIT"), SQLITE_BUSY);
    assert_false(sqlite3_get_autocommit(db));
    assert_int_equal(client_try(db, NULL, "COMMIT"), SQLITE_BUSY);
    client_run(
        db, "SAVEPOINT a; INSERT INTO t VALUES (2, 2); ROLLBACK TO a; INSERT INTO t VALUES (3, 3)");
    client_run(reader, "COMMIT");
    client_run(db, "COMMIT");
    assert_state(db, 1, 2);
    assert_int_equal(client_ask(db, "SELECT max(id) FROM t"), 3);
    client_run(reader, "BEGIN; SELECT * FROM accounts");
    client_run(db, "BEGIN; UPDATE accounts SET n = n + 1; INSERT INTO t VALUES (4, 4)");
    assert_int_equal(client_try(db, NULL, "COMMIT"), SQLITE_BUSY);
    client_run(db, "ROLLBACK");
    client_run(reader, "COMMIT");
    assert_state(db, 1, 2);
    client_check_store(db);
    client_close(reader);
    client_close(db);
}

/* ROLLBACK TO takes the marker row back as well; the next prepare writes it anew. */
static void a_savepoint_before_the_marker_may_be_gone_back_to(void **state)
{
    (void)state;
    sqlite3 *db = make_tables(&modes[3]);
    client_run(db, "BEGIN; SAVEPOINT a; UPDATE accounts SET n = 5; INSERT INTO t VALUES (1, 1);"
                   "ROLLBACK TO a; INSERT INTO t VALUES (2, 2); RELEASE a; COMMIT");
    assert_state(db, 0, 1);
    client_close(db);
    db = client_open(database);
    assert_state(db, 0, 1);
    client_close(db);
}

/* A renamed table keeps its marker, also in the transaction that renames it. */
static void a_table_that_is_renamed_is_still_bound(void **state)
{
    (void)state;
    sqlite3 *db = make_tables(&modes[0]);
    client_run(db, "BEGIN; UPDATE accounts SET n = 1; INSERT INTO t VALUES (1, 1);"
                   "ALTER TABLE t RENAME TO u; COMMIT");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM u"), 1);
    client_run(db, "BEGIN; UPDATE accounts SET n = 2; INSERT INTO u VALUES (2, 2); COMMIT");
    client_close(db);
    db = client_open(database);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM u"), 2);
    client_close(db);
}

/* ---- what it costs --------------------------------------------------------------------------- */

/* --worker cost JOURNAL SYNCHRONOUS: transactions without, then with the table of ours, between two
** calls that strace shows. */
static int cost_worker(char **arguments)
{
    enum { TIMES = 20 };
    mode in = {arguments[1], arguments[2]};
    snprintf(database, sizeof database, "%s/test.db", arguments[0]);
    sqlite3 *db = make_tables(&in);
    /* A WAL that is new has a name to be synced. */
    client_run(db, "BEGIN; UPDATE accounts SET n = 0; INSERT INTO t VALUES (-1, 0); COMMIT");
    client_sleep_us(500000); /* the table has nothing left to sync by then */
    for (int with = 0; with < 2; with++) {
        for (int i = 0; i < TIMES; i++) {
            (void)!access(with ? "/begin-with" : "/begin-without", F_OK);
            client_run(db, "BEGIN; UPDATE accounts SET n = n + 1");
            if (with) client_run(db, "INSERT INTO t VALUES (%d, 1)", i);
            client_run(db, "COMMIT");
            (void)!access("/end", F_OK);
        }
    }
    client_close(db);
    return 0;
}

/* The most syncs of one transaction, without and with the table. */
static void read_cost(const char *path, int most[2])
{
    char *line = NULL;
    size_t room = 0;
    int with = -1, syncs = 0;
    FILE *trace = fopen(path, "r");
    if (!trace) client_fail("%s: %s", path, strerror(errno));
    while (getline(&line, &room, trace) > 0) {
        if (strstr(line, "/begin-with")) {
            with = strstr(line, "/begin-without") == NULL;
            syncs = 0;
        } else if (strstr(line, "\"/end\"")) {
            if (syncs > most[with]) most[with] = syncs;
            with = -1;
        } else if (with >= 0 && (strstr(line, " fsync(") || strstr(line, " fdatasync("))) {
            syncs++;
        }
    }
    free(line);
    fclose(trace);
}

static void a_shared_transaction_costs_two_syncs_more_at_most(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        (void)make_folder(state);
        char path[PATH_BYTES];
        int most[2] = {0, 0};
        snprintf(path, sizeof path, "%s/trace", folder);
        const char *const arguments[] = {"strace",
                                         "-f",
                                         "-e",
                                         "trace=fsync,fdatasync,access,faccessat,faccessat2",
                                         "-o",
                                         path,
                                         client_own_program(),
                                         "--worker",
                                         "cost",
                                         folder,
                                         modes[i].journal,
                                         modes[i].synchronous,
                                         NULL};
        client_worker worker = client_worker_start(arguments);
        client_worker_finish(&worker);
        read_cost(path, most);
        print_message("%s, %s: %d syncs without, %d with a memwal table\n", modes[i].journal,
                      modes[i].synchronous, most[0], most[1]);
        assert_in_range(most[1], most[0] + 1, most[0] + 2);
        (void)remove_folder(state);
    }
    (void)make_folder(state);
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

/* --worker kill FOLDER JOURNAL SYNCHRONOUS: writes a byte for each COMMIT that has returned. */
static int kill_worker(char **arguments)
{
    mode in = {arguments[1], arguments[2]};
    snprintf(database, sizeof database, "%s/test.db", arguments[0]);
    sqlite3 *db = open_in(&in);
    for (;;) {
        client_run(db, "BEGIN; UPDATE accounts SET n = n + 1 WHERE id = 1;"
                       "INSERT INTO t SELECT n, 'row ' || n FROM accounts WHERE id = 1; COMMIT");
        if (!client_write_all(STDOUT_FILENO, "x", 1)) return 0;
    }
}

/* Lets it work for a while; how many commits were acknowledged. */
static int64_t kill_after(client_worker *worker, uint64_t us)
{
    char bytes[4096];
    int64_t acknowledged = 0;
    ssize_t got;
    (void)!read(worker->from, bytes, 1); /* it has begun */
    acknowledged++;
    client_sleep_us(us);
    kill(worker->pid, SIGKILL);
    while ((got = read(worker->from, bytes, sizeof bytes)) > 0) acknowledged += got;
    (void)client_worker_wait(worker);
    return acknowledged;
}

/* I1 I12 */
static void a_kill_leaves_both_sides_or_neither(void **state)
{
    (void)state;
    const char *wanted = getenv("TOGETHER_ROUNDS");
    int rounds = wanted ? atoi(wanted) : ROUNDS;
    uint64_t random = seed;
    for (size_t i = 0; i < MODES; i++) {
        (void)make_folder(state);
        client_close(make_tables(&modes[i]));
        int64_t least = 0;
        for (int round = 0; round < rounds; round++) {
            const char *const arguments[] = {
                client_own_program(), "--worker",           "kill", folder,
                modes[i].journal,     modes[i].synchronous, NULL};
            client_worker worker = client_worker_start(arguments);
            least += kill_after(&worker, client_pick(&random, 20000));
            sqlite3 *db = client_open(database);
            int64_t n = client_ask(db, "SELECT n FROM accounts WHERE id = 1");
            int64_t rows = client_ask(db, "SELECT count(*) FROM t");
            if (n != rows || n < least) {
                client_fail("%s, %s: %" PRId64 " in the ordinary table, %" PRId64 " rows, %" PRId64
                            " acknowledged; --seed %" PRIu64,
                            modes[i].journal, modes[i].synchronous, n, rows, least, seed);
            }
            least = n;
            if (round % 10 == 0) client_check_store(db);
            client_close(db);
        }
        (void)remove_folder(state);
    }
    (void)make_folder(state);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 6 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return strcmp(argv[2], "cost") == 0 ? cost_worker(argv + 3) : kill_worker(argv + 3);
    }
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/together_test --seed %" PRIu64 "\n", seed);
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(what_changes_one_table_alone_needs_no_host),
        TEST(what_may_change_more_is_left_to_the_host),
        TEST(a_name_that_temp_hides_is_not_the_table),
        TEST(a_statement_under_way_is_not_forgotten),
        TEST(the_marker_is_not_counted),
        TEST(a_veto_of_the_application_undoes_both_sides),
        TEST(a_busy_host_leaves_the_transaction_open),
        TEST(a_savepoint_before_the_marker_may_be_gone_back_to),
        TEST(a_table_that_is_renamed_is_still_bound),
        TEST(a_shared_transaction_costs_two_syncs_more_at_most),
        TEST(a_kill_leaves_both_sides_or_neither),
    };
    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
