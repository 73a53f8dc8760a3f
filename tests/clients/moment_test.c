/* moment_test.c: what a transaction sees of a store while other connections write it.
**
** snapshot = 'transaction': all SELECTs between BEGIN and its end see the moment of the first one, and
** the transaction's own changes; whoever wants to write on top of a moment that has passed is told
** SQLITE_BUSY_SNAPSHOT. Whatever ends the transaction, nothing is kept of its moment. */
#include "client.h"

#include <pthread.h>

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

/* A database with t(1, 10), (2, 20) and two connections to it: who reads, and who writes meanwhile. */
static sqlite3 *reader;
static sqlite3 *writer;

static void open_two(const char *options)
{
    writer = client_open(file);
    client_run(writer, "PRAGMA journal_mode = WAL");
    client_run(writer, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v%s)", options);
    client_run(writer, "INSERT INTO t VALUES (1, 10), (2, 20)");
    client_run(writer, "CREATE TABLE plain(a); INSERT INTO plain VALUES (1), (2), (3)");
    reader = client_open(file);
}

static void close_two(void)
{
    client_check_store(writer);
    client_close(reader);
    client_close(writer);
}

/* Each changes the sum by 1 and the count by 1. */
static void write_more(void) { client_run(writer, "INSERT INTO t SELECT max(id) + 1, 1 FROM t"); }

static int64_t sum(sqlite3 *db) { return client_ask(db, "SELECT sum(v) FROM t"); }

static void assert_nothing_is_held(void)
{
    assert_int_equal(client_figure(writer, "snapshots"), 0);
    assert_int_equal(client_ask(writer, "SELECT value IS NULL FROM memwal_stats('t')"
                                        " WHERE name = 'oldest_snapshot_s'"),
                     1);
}

/* ---- one moment ------------------------------------------------------------------------------ */

static void assert_moment(int64_t count, int64_t total)
{
    assert_int_equal(sum(reader), total);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), count);
    assert_int_equal(client_ask(reader, "SELECT memwal_count('t')"), count);
    assert_int_equal(client_ask(reader, "SELECT count(*) = memwal_count('t') FROM t"), 1);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t WHERE id > 0"), count);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t a JOIN t b USING (id)"), count);
    assert_int_equal(client_ask(reader, "SELECT count(v) FROM t WHERE id IN (SELECT id FROM t)"),
                     count);
}

/* I13: files and memory may change places, rows come and go. */
static void selects_of_a_transaction_see_one_moment(void **state)
{
    (void)state;
    open_two("");
    client_run(reader, "BEGIN");
    write_more(); /* BEGIN itself is no read */
    assert_moment(3, 31);
    write_more();
    assert_moment(3, 31);
    client_run(writer, "SELECT memwal_flush('t')");
    client_run(writer, "UPDATE t SET v = 0; DELETE FROM t WHERE id = 1");
    client_run(writer, "SELECT memwal_flush('t'), memwal_compact('t')");
    assert_moment(3, 31);
    assert_int_equal(client_figure(writer, "snapshots"), 1);
    client_run(reader, "COMMIT");
    assert_nothing_is_held();
    assert_moment(3, 0);
    write_more();
    assert_moment(4, 1);
    close_two();
}

/* The functions alone, once the connection has selected from the table. */
static void counting_begins_a_moment(void **state)
{
    (void)state;
    open_two("");
    assert_int_equal(sum(reader), 30);
    client_run(reader, "BEGIN");
    assert_int_equal(client_ask(reader, "SELECT memwal_count('t')"), 2);
    write_more();
    assert_moment(2, 30);
    client_run(reader, "COMMIT");
    assert_moment(3, 31);
    close_two();
}

static void changes_of_its_own_are_seen(void **state)
{
    (void)state;
    open_two("");
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    client_run(reader, "INSERT INTO t VALUES (3, 5)");
    assert_moment(3, 35);
    assert_int_equal(sum(writer), 30);
    client_run(reader, "SAVEPOINT s; DELETE FROM t");
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), 0);
    client_run(reader, "ROLLBACK TO s");
    assert_moment(3, 35);
    client_run(reader, "UPDATE t SET v = v + 1");
    assert_moment(3, 38);
    client_run(reader, "COMMIT");
    assert_int_equal(sum(writer), 38);
    assert_nothing_is_held();
    close_two();
}

/* Two tables over one store are one; another store has its own first read. */
static void tables_over_one_store_share_a_moment(void **state)
{
    (void)state;
    open_two(", path = 'store'");
    client_run(writer, "CREATE VIRTUAL TABLE other USING memwal(id INTEGER PRIMARY KEY)");
    client_run(reader, "CREATE VIRTUAL TABLE temp.again USING memwal(path = '%s/store')", folder);
    client_run(reader, "BEGIN");
    assert_int_equal(sum(reader), 30);
    write_more();
    client_run(writer, "INSERT INTO other VALUES (1)");
    assert_int_equal(client_ask(reader, "SELECT sum(v) FROM temp.again"), 30);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM other"), 1);
    client_run(writer, "INSERT INTO other VALUES (2)");
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM other"), 1);
    client_run(reader, "COMMIT");
    assert_nothing_is_held();
    assert_int_equal(client_ask(reader, "SELECT sum(v) FROM temp.again"), 31);
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM other"), 2);
    close_two();
}

static void each_statement_outside_begin_sees_its_own(void **state)
{
    (void)state;
    open_two("");
    for (int i = 0; i < 3; i++) {
        assert_moment(2 + i, 30 + i);
        assert_nothing_is_held();
        write_more();
    }
    close_two();
}

/* ---- writing on top of it -------------------------------------------------------------------- */

static void assert_stale(const char *sql)
{
    char words[CLIENT_TEXT_BYTES];
    assert_int_equal(client_try(reader, words, "%s", sql), SQLITE_BUSY_SNAPSHOT);
    if (!strstr(words, "was changed by another connection")) client_fail("%s: %s", sql, words);
}

/* The lost update: v is read, and written by others before it is written back. In a file it may be
** SQLite itself that refuses. */
static void a_write_on_a_moment_that_has_passed_is_refused(void **state)
{
    (void)state;
    open_two("");
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    write_more();
    static const char *const changes[] = {"UPDATE t SET v = 11 WHERE id = 1",
                                          "INSERT INTO t VALUES (9, 9)", "DELETE FROM t WHERE 0"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_try(reader, NULL, "%s", changes[i]), SQLITE_BUSY_SNAPSHOT);
    }
    assert_moment(2, 30);
    assert_int_equal(sqlite3_get_autocommit(reader), 0);
    write_more(); /* nobody waits for a turn that was given back */
    client_run(reader, "ROLLBACK");
    assert_nothing_is_held();
    client_run(reader, "BEGIN");
    assert_moment(4, 32);
    client_run(reader, "UPDATE t SET v = 11 WHERE id = 1; COMMIT");
    assert_int_equal(sum(writer), 33);
    client_run(reader, "BEGIN");
    assert_moment(4, 33);
    client_run(writer, "INSERT INTO t VALUES (9, 9)"); /* the file itself stays as it is */
    assert_stale("UPDATE t SET v = 11 WHERE id = 1");
    client_run(reader, "COMMIT");
    close_two();
}

/* The same for tables that take no lock of a file, after changes that come to nothing, and after
** those of others that were rolled back: they have not moved anything. */
static void a_write_goes_on_while_nobody_has_written(void **state)
{
    (void)state;
    open_two(", path = 'store'");
    client_run(reader, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    client_run(writer, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    client_run(writer, "BEGIN; INSERT INTO t VALUES (7, 7); ROLLBACK; DELETE FROM t WHERE id = 77");
    client_run(writer, "SELECT memwal_flush('t')");
    client_run(reader, "INSERT INTO t VALUES (3, 5); COMMIT");
    client_run(reader, "BEGIN");
    assert_moment(3, 35);
    write_more();
    assert_stale("INSERT INTO t VALUES (9, 9)");
    client_run(reader, "ROLLBACK");
    client_run(reader, "BEGIN; DELETE FROM t WHERE 0"); /* as BEGIN IMMEDIATE: the turn first */
    assert_moment(4, 36);
    client_run(reader, "INSERT INTO t VALUES (9, 9); COMMIT");
    assert_int_equal(sum(writer), 45);
    assert_nothing_is_held();
    close_two();
}

/* ---- the end of a transaction ---------------------------------------------------------------- */

static void every_end_of_a_transaction_ends_its_moment(void **state)
{
    (void)state;
    static const struct { const char *begin, *end; } ways[] = {
        {"BEGIN", "COMMIT"},
        {"BEGIN", "END"},
        {"BEGIN", "ROLLBACK"},
        {"BEGIN IMMEDIATE", "COMMIT"},
        {"SAVEPOINT a", "RELEASE a"},
        {"SAVEPOINT a; SAVEPOINT b", "ROLLBACK TO a; RELEASE a"},
        {"BEGIN; SAVEPOINT a", "COMMIT"},
        {"BEGIN", "INSERT OR ROLLBACK INTO one VALUES (1)"},
        {"BEGIN; CREATE TABLE x(a)", "ROLLBACK"},
    };
    open_two(", path = 'store'");
    client_run(writer, "CREATE TABLE one(a UNIQUE); INSERT INTO one VALUES (1)");
    client_run(writer, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int64_t now = sum(writer);
        client_run(reader, "%s", ways[i].begin);
        assert_int_equal(sum(reader), now);
        write_more();
        assert_int_equal(sum(reader), now);
        (void)client_try(reader, NULL, "%s", ways[i].end);
        if (!sqlite3_get_autocommit(reader)) client_fail("%s has ended nothing", ways[i].end);
        assert_nothing_is_held();
        assert_int_equal(sum(reader), now + 1);
    }
    close_two();
}

static void closing_ends_its_moment(void **state)
{
    (void)state;
    open_two("");
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    assert_int_equal(client_figure(writer, "snapshots"), 1);
    client_close(reader);
    assert_nothing_is_held();
    reader = client_open(file);
    client_run(reader, "BEGIN");
    sqlite3_stmt *open = client_prepare(reader, "SELECT v FROM t");
    assert_true(client_step(open));
    assert_int_equal(sqlite3_close(reader), SQLITE_BUSY);
    assert_int_equal(sqlite3_close_v2(reader), SQLITE_OK);
    write_more();
    client_finalize(open);
    assert_nothing_is_held();
    reader = client_open(file);
    close_two();
}

/* A cursor keeps what it has; the statement that comes after it sees the newest state. */
static void a_cursor_that_is_open_outlives_the_end(void **state)
{
    (void)state;
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    open_two("");
    for (int i = 0; i < 2; i++) {
        int64_t rows = client_ask(writer, "SELECT count(*) FROM t");
        client_run(reader, "BEGIN");
        sqlite3_stmt *scan = client_prepare(reader, "SELECT v FROM t");
        int64_t seen = 0;
        for (; client_step(scan); seen++) {
            if (seen == 0) write_more();
            if (seen == 0) client_run(reader, "%s", ends[i]);
        }
        client_finalize(scan);
        assert_int_equal(seen, rows);
        assert_nothing_is_held();
        assert_int_equal(client_ask(reader, "SELECT count(*) FROM t"), rows + 1);
    }
    close_two();
}

static void savepoints_keep_the_moment(void **state)
{
    (void)state;
    open_two("");
    client_run(reader, "SAVEPOINT a");
    assert_moment(2, 30);
    write_more();
    client_run(reader, "ROLLBACK TO a");
    assert_moment(2, 30);
    client_run(reader, "SAVEPOINT b; RELEASE b");
    assert_moment(2, 30);
    client_run(reader, "RELEASE a");
    assert_moment(3, 31);
    assert_nothing_is_held();
    close_two();
}

/* Also where SQLite connects all tables anew: rolling back a change of the schema does that. */
static void changes_of_the_schema_keep_the_moment(void **state)
{
    (void)state;
    open_two(", path = 'store'");
    client_run(writer, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    write_more();
    client_run(reader, "SAVEPOINT a; CREATE TABLE x(a); CREATE TEMP TABLE y(a)");
    assert_moment(2, 30);
    client_run(reader, "ROLLBACK TO a");
    assert_moment(2, 30);
    client_run(reader, "ALTER TABLE t RENAME TO u");
    assert_int_equal(client_ask(reader, "SELECT sum(v) FROM u"), 30);
    client_run(reader, "ROLLBACK");
    assert_moment(3, 31);
    assert_nothing_is_held();
    close_two();
}

/* The first SELECT of the connection, which makes the control table, is undone. */
static void a_control_table_that_is_undone_tells_the_end(void **state)
{
    (void)state;
    open_two("");
    client_run(reader, "BEGIN; SAVEPOINT a");
    assert_moment(2, 30);
    write_more();
    client_run(reader, "ROLLBACK TO a");
    assert_moment(2, 30);
    client_run(reader, "ROLLBACK");
    assert_nothing_is_held();
    for (int i = 0; i < 2; i++) {
        client_run(reader, "BEGIN");
        assert_moment(3 + i, 31 + i);
        write_more();
        assert_moment(3 + i, 31 + i);
        client_run(reader, "ROLLBACK");
        assert_nothing_is_held();
    }
    close_two();
}

static void a_control_table_that_is_gone_is_made_again(void **state)
{
    (void)state;
    static const char *const ways[] = {"PRAGMA temp_store = 2", "DROP TABLE temp.memwal_moment",
                                       "PRAGMA temp_store = 0"};
    open_two("");
    for (int i = 0; i < 3; i++) {
        client_run(reader, "BEGIN");
        assert_moment(2 + i, 30 + i);
        assert_int_equal(client_try(reader, NULL, "DROP TABLE temp.memwal_moment"), SQLITE_LOCKED);
        write_more();
        assert_moment(2 + i, 30 + i);
        client_run(reader, "COMMIT");
        client_run(reader, "%s", ways[i]);
        (void)sum(reader); /* behind PRAGMA temp_store the next statement makes it */
    }
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM sqlite_temp_schema"), 0);
    char words[CLIENT_TEXT_BYTES];
    assert_int_equal(client_try(reader, words, "CREATE VIRTUAL TABLE m USING memwal_moment"),
                     SQLITE_ERROR);
    assert_non_null(strstr(words, "is made by memwal itself"));
    close_two();
}

/* SQLite forgets the whole schema when a change of it fails, but the control table is there. */
static void a_control_table_is_found_after_schema_changes(void **state)
{
    (void)state;
    open_two("");
    assert_moment(2, 30);
    sqlite3_stmt *read = client_prepare(reader, "SELECT sum(v) FROM t");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_try(reader, NULL, "CREATE VIRTUAL TABLE m USING memwal_moment"),
                         SQLITE_ERROR);
        client_run(reader, "BEGIN; CREATE TEMP TABLE x(a); ROLLBACK; BEGIN");
        for (int k = 0; k < 2; k++) {
            assert_true(client_step(read));
            assert_int_equal(sqlite3_column_int(read, 0), 30 + i);
            sqlite3_reset(read);
            if (k == 0) write_more();
        }
        client_run(reader, "COMMIT");
        assert_nothing_is_held();
    }
    client_finalize(read);
    close_two();
}

static void a_detached_table_leaves_no_moment(void **state)
{
    (void)state;
    char other[PATH_MAX + 32];
    open_two("");
    snprintf(other, sizeof other, "%s/other.db", folder);
    sqlite3 *db = client_open(other);
    client_run(db, "ATTACH '%s' AS aux", file);
    client_run(db, "BEGIN");
    assert_int_equal(client_ask(db, "SELECT count(*) FROM aux.t"), 2);
    assert_int_equal(client_figure(writer, "snapshots"), 1);
    (void)client_try(db, NULL, "DETACH aux");
    client_run(db, "COMMIT");
    assert_nothing_is_held();
    (void)client_try(db, NULL, "DETACH aux");
    assert_nothing_is_held();
    client_close(db);
    close_two();
}

/* ---- where it cannot be done ----------------------------------------------------------------- */

static void query_only_falls_back_to_statements(void **state)
{
    (void)state;
    open_two("");
    for (int i = 0; i < 2; i++) {
        client_run(reader, "PRAGMA query_only = 1; BEGIN");
        assert_moment(2 + 2 * i, 30 + 2 * i);
        write_more();
        assert_moment(3 + 2 * i, 31 + 2 * i);
        client_run(reader, "COMMIT; PRAGMA query_only = 0; BEGIN");
        assert_moment(3 + 2 * i, 31 + 2 * i);
        write_more();
        assert_moment(3 + 2 * i, 31 + 2 * i);
        client_run(reader, "COMMIT");
        assert_nothing_is_held();
    }
    close_two();
}

static int deny_temp(void *arg, int action, const char *a, const char *b, const char *schema,
                     const char *inner)
{
    (void)arg;
    (void)a;
    (void)b;
    (void)inner;
    bool writes = action == SQLITE_CREATE_VTABLE || action == SQLITE_DELETE;
    return writes && schema && strcmp(schema, "temp") == 0 ? SQLITE_DENY : SQLITE_OK;
}

static void an_authorizer_may_refuse(void **state)
{
    (void)state;
    open_two("");
    sqlite3_set_authorizer(reader, deny_temp, NULL);
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    write_more();
    assert_moment(3, 31);
    client_run(reader, "COMMIT");
    assert_nothing_is_held();
    close_two();
}

/* Making the control table would stop a statement that runs. */
static void a_statement_that_runs_goes_on(void **state)
{
    (void)state;
    open_two("");
    sqlite3_stmt *outer = client_prepare(
        reader, "SELECT a, (SELECT count(*) FROM plain p WHERE p.a > q.a) FROM plain q");
    int rows = 0;
    for (; client_step(outer); rows++) assert_moment(2, 30);
    client_finalize(outer);
    assert_int_equal(rows, 3);
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    outer = client_prepare(reader, "SELECT a, (SELECT sum(v) + q.a FROM t) FROM plain q");
    for (rows = 0; client_step(outer); rows++) {
        write_more();
        assert_int_equal(sqlite3_column_int(outer, 1), 30 + sqlite3_column_int(outer, 0));
    }
    client_finalize(outer);
    client_run(reader, "COMMIT");
    assert_nothing_is_held();
    close_two();
}

/* ---- what an application can see ------------------------------------------------------------- */

static int count_call(void *calls)
{
    return ++*(int *)calls < 0;
}

static void side_effects_are_those_of_the_page(void **state)
{
    (void)state;
    open_two("");
    int commits = 0;
    assert_moment(2, 30);
    client_run(reader, "CREATE TEMP TABLE mine(a); INSERT INTO mine VALUES (1), (2)");
    sqlite3_commit_hook(reader, count_call, &commits);
    assert_moment(2, 30);
    assert_int_equal(commits, 0);
    assert_int_equal(sqlite3_changes(reader), 2);
    int total = sqlite3_total_changes(reader);
    sqlite3_int64 rowid = sqlite3_last_insert_rowid(reader);
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    client_run(reader, "COMMIT");
    assert_int_equal(commits, 1);
    assert_int_equal(sqlite3_changes(reader), 0);
    assert_int_equal(sqlite3_total_changes(reader), total);
    assert_int_equal(sqlite3_last_insert_rowid(reader), rowid);
    commits = -100; /* it says no */
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    assert_int_equal(client_try(reader, NULL, "COMMIT"), SQLITE_CONSTRAINT_COMMITHOOK);
    assert_nothing_is_held();
    close_two();
}

/* ---- the option ------------------------------------------------------------------------------ */

static void statement_sees_the_newest_state(void **state)
{
    (void)state;
    open_two(", snapshot = 'statement'");
    client_run(reader, "BEGIN");
    assert_moment(2, 30);
    write_more();
    assert_moment(3, 31);
    client_run(reader, "COMMIT");
    assert_int_equal(client_ask(reader, "SELECT count(*) FROM sqlite_temp_schema"), 0);
    client_run(writer, "SELECT memwal_set('t', 'snapshot', 'transaction')");
    client_run(reader, "BEGIN");
    assert_moment(3, 31);
    write_more();
    assert_moment(3, 31);
    client_run(writer, "SELECT memwal_set('t', 'snapshot', 'statement')");
    assert_moment(3, 31);
    client_run(reader, "COMMIT; BEGIN");
    assert_moment(4, 32);
    write_more();
    assert_moment(5, 33);
    client_run(reader, "COMMIT");
    assert_nothing_is_held();
    close_two();
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { ACCOUNTS = 8, TELLERS = 4, TRANSFERS = 150, AUDITS = 200 };

static sqlite3 *open_account(void)
{
    sqlite3 *db = client_open(":memory:");
    client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    return db;
}

/* Reads two accounts, and writes what it has worked out; again when it was too late. */
static void transfer(sqlite3 *db, uint64_t *seed)
{
    int from = (int)client_pick(seed, ACCOUNTS);
    int to = (int)(((uint64_t)from + 1 + client_pick(seed, ACCOUNTS - 1)) % ACCOUNTS);
    for (;;) {
        char sql[128];
        client_run(db, "BEGIN");
        snprintf(sql, sizeof sql, "SELECT v FROM t WHERE id = %d", from);
        int64_t from_has = client_ask(db, sql);
        snprintf(sql, sizeof sql, "SELECT v FROM t WHERE id = %d", to);
        int64_t to_has = client_ask(db, sql);
        int rc = client_try(db, NULL, "UPDATE t SET v = %lld WHERE id = %d",
                            (long long)from_has - 1, from);
        if (rc == SQLITE_OK) {
            client_run(db, "UPDATE t SET v = %lld WHERE id = %d; COMMIT", (long long)to_has + 1, to);
            return;
        }
        if (rc != SQLITE_BUSY_SNAPSHOT) client_fail("a transfer: %d", rc);
        client_run(db, "ROLLBACK");
    }
}

static void *run_teller(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    sqlite3 *db = open_account();
    for (int i = 0; i < TRANSFERS; i++) transfer(db, &seed);
    client_close(db);
    return NULL;
}

static void *run_auditor(void *arg)
{
    (void)arg;
    sqlite3 *db = open_account();
    for (int i = 0; i < AUDITS; i++) {
        int64_t total = 0;
        client_run(db, "BEGIN");
        for (int id = 0; id < ACCOUNTS; id++) {
            char sql[64];
            snprintf(sql, sizeof sql, "SELECT v FROM t WHERE id = %d", id);
            total += client_ask(db, sql);
        }
        client_run(db, "COMMIT");
        if (total != 0) client_fail("a transaction saw half of a transfer: %lld", (long long)total);
    }
    client_close(db);
    return NULL;
}

/* No update is lost, no transaction sees half of another. */
static void threads_move_money_and_none_is_lost(void **state)
{
    (void)state;
    pthread_t threads[TELLERS + 2];
    sqlite3 *db = client_open(":memory:");
    client_run(db,
               "CREATE VIRTUAL TABLE temp.t USING memwal(id INTEGER PRIMARY KEY, v, path = "
               "'%s/store', memtable = '4KB', durability = 'normal')",
               folder);
    for (int i = 0; i < ACCOUNTS; i++) client_run(db, "INSERT INTO t VALUES (%d, 0)", i);
    for (int i = 0; i < TELLERS + 2; i++) {
        pthread_create(&threads[i], NULL, i < TELLERS ? run_teller : run_auditor,
                       (void *)(uintptr_t)(i + 1));
    }
    for (int i = 0; i < TELLERS + 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(sum(db), 0);
    assert_int_equal(client_figure(db, "snapshots"), 0);
    client_check_store(db);
    client_close(db);
}

/* ---- what it costs --------------------------------------------------------------------------- */

static uint64_t time_reads(sqlite3_stmt *const statements[3], bool transaction, int count)
{
    uint64_t start = client_now_us();
    for (int i = 0; i < count; i++) {
        for (int k = transaction ? 0 : 1; k < (transaction ? 3 : 2); k++) {
            if (client_step(statements[k]) != (k == 1)) client_fail("statement %d", k);
            sqlite3_reset(statements[k]);
        }
    }
    return client_now_us() - start;
}

/* The best of several rounds in turn, so that what else the machine does counts for both. */
static void print_cost(sqlite3_stmt *const statements[3], bool transaction)
{
    enum { ROUNDS = 200, READS = 300 };
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2 * ROUNDS; i++) {
        client_run(writer, "SELECT memwal_set('t', 'snapshot', '%s')",
                   i % 2 ? "transaction" : "statement");
        uint64_t took = time_reads(statements, transaction, READS);
        if (took < best[i % 2]) best[i % 2] = took;
    }
    print_message("%s: %.2f of its time with snapshot = 'statement' (%.2f us)\n",
                  transaction ? "BEGIN, a point read, COMMIT" : "a point read outside BEGIN",
                  (double)best[1] / (double)best[0], (double)best[1] / READS);
}

static int count_statement(unsigned event, void *count, void *a, void *b)
{
    (void)event;
    (void)a;
    (void)b;
    ++*(int *)count;
    return 0;
}

static void it_costs_nothing_outside_begin(void **state)
{
    (void)state;
    open_two("");
    sqlite3_stmt *statements[3] = {
        client_prepare(reader, "BEGIN"),
        client_prepare(reader, "SELECT v FROM t WHERE id = 1"),
        client_prepare(reader, "COMMIT"),
    };
    print_cost(statements, false);
    print_cost(statements, true);
    int run = 0;
    sqlite3_trace_v2(reader, SQLITE_TRACE_STMT, count_statement, &run);
    (void)time_reads(statements, false, 100);
    assert_int_equal(run, 100); /* what is nested would be counted, as it is inside BEGIN */
    (void)time_reads(statements, true, 100);
    assert_in_range(run, 401, 600);
    for (int i = 0; i < 3; i++) client_finalize(statements[i]);
    close_two();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(selects_of_a_transaction_see_one_moment),
        TEST(counting_begins_a_moment),
        TEST(changes_of_its_own_are_seen),
        TEST(tables_over_one_store_share_a_moment),
        TEST(each_statement_outside_begin_sees_its_own),
        TEST(a_write_on_a_moment_that_has_passed_is_refused),
        TEST(a_write_goes_on_while_nobody_has_written),
        TEST(every_end_of_a_transaction_ends_its_moment),
        TEST(closing_ends_its_moment),
        TEST(a_cursor_that_is_open_outlives_the_end),
        TEST(savepoints_keep_the_moment),
        TEST(changes_of_the_schema_keep_the_moment),
        TEST(a_control_table_that_is_undone_tells_the_end),
        TEST(a_control_table_that_is_gone_is_made_again),
        TEST(a_control_table_is_found_after_schema_changes),
        TEST(a_detached_table_leaves_no_moment),
        TEST(query_only_falls_back_to_statements),
        TEST(an_authorizer_may_refuse),
        TEST(a_statement_that_runs_goes_on),
        TEST(side_effects_are_those_of_the_page),
        TEST(statement_sees_the_newest_state),
        TEST(threads_move_money_and_none_is_lost),
        TEST(it_costs_nothing_outside_begin),
    };
    client_use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
