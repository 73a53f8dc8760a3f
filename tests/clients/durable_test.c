/* durable_test.c: what a commit costs and what it is worth, seen from outside: by strace, and by
** kill -9.
**
** The traced worker writes "begin 7" and "end 7" to a marker file around each statement, so the
** trace shows which calls lie between a statement's start and its return:
**
**   write(marker, "begin 7")
**   pwrite64(wal, "...durable-000007...")  fdatasync(wal)
**   write(marker, "end 7")
**
**   durable_test                 all tests
**   durable_test --seed SEED     with the random moments of one run again
**   durable_test --worker ...    is started by the tests */
#include "client.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

enum {
    STATEMENTS = 1000,
    SPARE_SYNCS = STATEMENTS / 100, /* for segments */
    THREADS = 16,
    THREAD_COMMITS = 400,
    KILL_ROUNDS = 6,
    PATH_BYTES = PATH_MAX + 64,
};

static uint64_t seed;

/* ---- the traced worker ------------------------------------------------------------------- */

static int marker = -1;

static void mark(const char *what, int number)
{
    char text[64];
    int size = snprintf(text, sizeof text, "%s %d\n", what, number);
    if (!client_write_all(marker, text, (size_t)size)) client_fail("marker: %s", strerror(errno));
}

static void create_table(sqlite3 *db, const char *folder, const char *schema)
{
    if (strcmp(schema, "main") == 0) client_run(db, "PRAGMA journal_mode = WAL");
    client_run(
        db,
        "CREATE VIRTUAL TABLE %s.t USING memwal(id TEXT PRIMARY KEY, number INTEGER, body TEXT,"
        " path = '%s/store')",
        schema, folder);
}

static void insert_rows(sqlite3 *db)
{
    sqlite3_stmt *insert = client_prepare(
        db, "INSERT INTO t VALUES(printf('durable-%06d', ?1), ?1, 'a body of some length ' || ?1)");
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_bind_int(insert, 1, i);
        mark("begin", i);
        client_step(insert);
        sqlite3_reset(insert);
        mark("end", i);
    }
    client_finalize(insert);
}

static void read_rows(sqlite3 *db)
{
    static const char *const reads[] = {
        "SELECT body FROM t WHERE id = printf('durable-%06d', ?1)",
        "SELECT sum(number) FROM t WHERE id > printf('durable-%06d', ?1) LIMIT 100",
        "SELECT count(*) FROM t WHERE ?1 IS NOT NULL",
        "SELECT memwal_count('t'), ?1",
    };
    enum { KINDS = sizeof reads / sizeof *reads };
    sqlite3_stmt *statements[KINDS];
    for (int i = 0; i < KINDS; i++) statements[i] = client_prepare(db, reads[i]);
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_stmt *read = statements[i % KINDS];
        sqlite3_bind_int(read, 1, i);
        mark("read", i);
        if (!client_step(read)) client_fail("no row");
        sqlite3_reset(read);
        mark("done", i);
    }
    for (int i = 0; i < KINDS; i++) client_finalize(statements[i]);
}

/* --worker trace FOLDER SCHEMA */
static int trace_worker(char **arguments)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/marker", arguments[0]);
    marker = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (marker < 0) client_fail("%s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/test.db", arguments[0]);
    sqlite3 *db = client_open(path);
    create_table(db, arguments[0], arguments[1]);
    insert_rows(db);
    read_rows(db);
    client_close(db);
    return 0;
}

/* ---- reading the trace ------------------------------------------------------------------- */

/* What the trace has shown. */
typedef struct account {
    int statement;  /* under way, -1: none                             */
    bool covered;   /* its row was written to the log                  */
    bool dirty;     /* something was written that is not synced        */
    int syncs;      /* of the log, in this statement                   */
    int log_syncs;  /* of the log, in all statements                   */
    int statements; /* ended                                           */
    bool reading;
    int reads;
    int read_changes; /* calls during reads that change or sync anything */
    int host_syncs;   /* of the database file and its journals          */
} account;

static bool is_call(const char *line, const char *call)
{
    const char *at = strchr(line, ' '); /* behind the process id */
    while (at && *at == ' ') at++;
    return at && strncmp(at, call, strlen(call)) == 0 && at[strlen(call)] == '(';
}

static bool is_sync(const char *line)
{
    return is_call(line, "fdatasync") || is_call(line, "fsync");
}

static bool is_write(const char *line)
{
    static const char *const calls[] = {"write",     "pwrite64",  "writev",   "pwritev",
                                        "ftruncate", "fallocate", "linkat",   "unlinkat",
                                        "unlink",    "rename",    "renameat", "mkdir"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (is_call(line, calls[i])) return true;
    }
    return false;
}

static void begin_statement(account *all, int number)
{
    assert_int_equal(all->statement, -1);
    assert_int_equal(number, all->statements);
    all->statement = number;
    all->covered = all->dirty = false;
    all->syncs = 0;
}

/* I1: the statement's own row was written, and what was written is synced. */
static void end_statement(account *all, int number)
{
    assert_int_equal(number, all->statement);
    if (!all->covered) client_fail("statement %d returned before its row was in the log", number);
    if (all->dirty) client_fail("statement %d returned before the log was synced", number);
    assert_true(all->syncs >= 1);
    all->log_syncs += all->syncs;
    all->statements++;
    all->statement = -1;
}

static bool take_marker(account *all, const char *line)
{
    int number;
    const char *text = strstr(line, "/marker>, \"");
    if (!text || !is_call(line, "write")) return false;
    text += strlen("/marker>, \"");
    if (sscanf(text, "begin %d", &number) == 1) {
        begin_statement(all, number);
    } else if (sscanf(text, "end %d", &number) == 1) {
        end_statement(all, number);
    } else if (sscanf(text, "read %d", &number) == 1) {
        all->reading = true;
    } else if (sscanf(text, "done %d", &number) == 1) {
        all->reading = false;
        all->reads++;
    } else {
        client_fail("unknown marker: %s", line);
    }
    return true;
}

static void take_line(account *all, const char *line)
{
    char id[32];
    bool log = strstr(line, "/store/wal-") != NULL;
    if (strstr(line, "unfinished") || strstr(line, "resumed")) {
        client_fail("more threads than one: %s", line);
    }
    if (take_marker(all, line)) return;
    if (all->reading) {
        all->read_changes += is_sync(line) || is_write(line);
    } else if (is_sync(line)) {
        if (!strstr(line, "= 0")) client_fail("a sync failed: %s", line);
        all->host_syncs += all->statement >= 0 && strstr(line, "/test.db") != NULL;
        all->syncs += log;
        all->dirty = all->dirty && !log;
    } else if (log && is_write(line)) {
        snprintf(id, sizeof id, "durable-%06d", all->statement);
        all->covered = all->covered || strstr(line, id);
        all->dirty = true;
    }
}

static account read_trace(const char *path)
{
    account all = {.statement = -1};
    char *line = NULL;
    size_t room = 0;
    FILE *trace = fopen(path, "r");
    if (!trace) client_fail("%s: %s", path, strerror(errno));
    while (getline(&line, &room, trace) > 0) take_line(&all, line);
    free(line);
    fclose(trace);
    assert_int_equal(all.statement, -1);
    return all;
}

/* Runs the worker under strace. */
static account trace(const char *schema)
{
    static const char calls[] =
        "trace=write,writev,pwrite64,pwritev,fsync,fdatasync,sync_file_range,msync,"
        "ftruncate,fallocate,linkat,unlinkat,unlink,rename,renameat,mkdir";
    char folder[PATH_MAX];
    char path[PATH_BYTES];
    client_folder_make(folder);
    snprintf(path, sizeof path, "%s/trace", folder);
    const char *const arguments[] = {"strace",   "-f",    "-y",   "-s",   "400",
                                     "-e",       calls,   "-o",   path,   client_own_program(),
                                     "--worker", "trace", folder, schema, NULL};
    client_worker worker = client_worker_start(arguments);
    client_worker_finish(&worker);
    account all = read_trace(path);
    client_folder_remove(folder);
    assert_int_equal(all.statements, STATEMENTS);
    assert_int_equal(all.reads, STATEMENTS);
    print_message("%s: %d syncs of the log for %d commits\n", schema, all.log_syncs, STATEMENTS);
    return all;
}

/* I1: exact, because a machine that is slow or busy changes nothing about it. */
static void each_insert_into_a_temp_table_returns_behind_one_sync_that_covers_it(void **state)
{
    (void)state;
    account all = trace("temp");
    assert_in_range(all.log_syncs, STATEMENTS, STATEMENTS + SPARE_SYNCS);
    assert_int_equal(all.host_syncs, 0);
    assert_int_equal(all.read_changes, 0);
}

/* I1: SQLite takes its lock, but has nothing of its own to write. */
static void each_insert_into_a_table_of_a_file_costs_no_more_than_that_sync(void **state)
{
    (void)state;
    account all = trace("main");
    assert_in_range(all.log_syncs, STATEMENTS, STATEMENTS + SPARE_SYNCS);
    assert_int_equal(all.host_syncs, 0);
    assert_int_equal(all.read_changes, 0);
}

/* ---- 16 threads -------------------------------------------------------------------------- */

/* One line of the worker's report; a row of a thread, or a figure at the end. */
typedef struct ack {
    uint32_t thread;
    uint32_t number;
} ack;

enum { ACK_COMMITS = UINT16_MAX, ACK_SYNCS };

typedef struct writer {
    pthread_t thread;
    const char *folder;
    uint32_t number;
    uint32_t commits; /* 0: until killed */
    int round;
} writer;

static void report(uint32_t thread, uint32_t number)
{
    ack made = {thread, number};
    if (!client_write_all(STDOUT_FILENO, &made, sizeof made)) client_fail("nobody reads the acks");
}

static void *write_rows(void *arg)
{
    writer *self = arg;
    sqlite3 *db = client_open(":memory:");
    client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", self->folder);
    sqlite3_stmt *insert = client_prepare(
        db,
        "INSERT INTO t VALUES(printf('%02d-%02d-%07d', ?1, ?2, ?3), ?1, ?2, ?3, 'body ' || ?3)");
    sqlite3_bind_int(insert, 1, self->round);
    sqlite3_bind_int64(insert, 2, self->number);
    for (uint32_t i = 0; self->commits == 0 || i < self->commits; i++) {
        sqlite3_bind_int64(insert, 3, i);
        client_step(insert);
        sqlite3_reset(insert);
        report(self->number, i);
    }
    client_finalize(insert);
    client_close(db);
    return NULL;
}

/* --worker threads FOLDER ROUND COMMITS */
static int threads_worker(char **arguments)
{
    writer writers[THREADS];
    sqlite3 *db = client_open(":memory:"); /* keeps the engine and its figures until the end */
    client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", arguments[0]);
    int64_t commits = client_figure(db, "commits");
    int64_t syncs = client_figure(db, "wal_syncs");
    for (uint32_t i = 0; i < THREADS; i++) {
        writers[i] = (writer){.folder = arguments[0],
                              .number = i,
                              .round = atoi(arguments[1]),
                              .commits = (uint32_t)atoi(arguments[2])};
        if (pthread_create(&writers[i].thread, NULL, write_rows, &writers[i])) {
            client_fail("no thread");
        }
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(writers[i].thread, NULL);
    report(ACK_COMMITS, (uint32_t)(client_figure(db, "commits") - commits));
    report(ACK_SYNCS, (uint32_t)(client_figure(db, "wal_syncs") - syncs));
    client_close(db);
    return 0;
}

static client_worker start_threads(const char *folder, int round, int commits)
{
    char round_text[16];
    char commits_text[16];
    snprintf(round_text, sizeof round_text, "%d", round);
    snprintf(commits_text, sizeof commits_text, "%d", commits);
    const char *const arguments[] = {client_own_program(), "--worker",   "threads", folder,
                                     round_text,           commits_text, NULL};
    return client_worker_start(arguments);
}

/* Makes the store that the threads attach to. */
static void make_store(char folder[PATH_MAX])
{
    client_folder_make(folder);
    sqlite3 *db = client_open(":memory:");
    client_run(
        db,
        "CREATE VIRTUAL TABLE temp.t USING memwal(id TEXT PRIMARY KEY, round INTEGER, thread "
        "INTEGER,"
        " number INTEGER, body TEXT, path = '%s/store', memtable = '64KB', merge_generations = 4)",
        folder);
    client_close(db);
}

static sqlite3 *open_store(const char *folder)
{
    sqlite3 *db = client_open(":memory:");
    client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    return db;
}

/* What the acks of one round say. */
typedef struct acks {
    uint32_t next[THREADS]; /* rows of each thread that were acknowledged */
    uint32_t total;
    uint32_t commits;
    uint32_t syncs;
} acks;

static void take_ack(acks *all, const ack *one)
{
    if (one->thread == ACK_COMMITS) all->commits = one->number;
    if (one->thread == ACK_SYNCS) all->syncs = one->number;
    if (one->thread >= THREADS) return;
    assert_int_equal(one->number, all->next[one->thread]);
    all->next[one->thread]++;
    all->total++;
}

/* Reads acks until the worker ends; kills it after kill_us, 0: never. */
static acks collect(client_worker *worker, uint64_t kill_us)
{
    acks all = {0};
    ack one;
    uint64_t until = client_now_us() + kill_us;
    bool killed = kill_us == 0;
    for (;;) {
        struct pollfd wait = {.fd = worker->from, .events = POLLIN};
        uint64_t now = client_now_us();
        int left_ms = killed ? -1 : now >= until ? 0 : (int)((until - now) / 1000) + 1;
        if (!killed && (now >= until || poll(&wait, 1, left_ms) == 0)) {
            kill(worker->pid, SIGKILL);
            killed = true;
        }
        if (!client_read_all(worker->from, &one, sizeof one)) return all;
        take_ack(&all, &one);
    }
}

/* Every acknowledged row is there; of what was not acknowledged at most the one under way. */
static void check_rows(sqlite3 *db, int round, const acks *all)
{
    sqlite3_stmt *rows = client_prepare(db, "SELECT thread, count(*), min(number), max(number),"
                                            " sum(body = 'body ' || number) FROM t WHERE round = ?1"
                                            " GROUP BY thread ORDER BY thread");
    int64_t found[THREADS] = {0};
    sqlite3_bind_int(rows, 1, round);
    while (client_step(rows)) {
        int64_t count = sqlite3_column_int64(rows, 1);
        assert_int_equal(sqlite3_column_int64(rows, 2), 0);
        assert_int_equal(sqlite3_column_int64(rows, 3), count - 1);
        assert_int_equal(sqlite3_column_int64(rows, 4), count);
        found[sqlite3_column_int(rows, 0)] = count;
    }
    client_finalize(rows);
    for (int i = 0; i < THREADS; i++) {
        if (found[i] < all->next[i] || found[i] > (int64_t)all->next[i] + 1) {
            client_fail("round %d, thread %d: %u rows were acknowledged, %" PRId64 " are there",
                        round, i, all->next[i], found[i]);
        }
    }
    assert_int_equal(client_ask(db, "SELECT memwal_count('t') = count(*) FROM t"), 1);
    assert_int_equal(client_ask(db, "SELECT count(DISTINCT id) = count(*) FROM t"), 1);
    client_check_store(db);
}

/* I1: group commit. */
static void sixteen_threads_need_at_most_three_syncs_for_ten_commits(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    make_store(folder);
    client_worker worker = start_threads(folder, 0, THREAD_COMMITS);
    acks all = collect(&worker, 0);
    client_worker_finish(&worker);
    assert_int_equal(all.total, THREADS * THREAD_COMMITS);
    assert_int_equal(all.commits, THREADS * THREAD_COMMITS);
    print_message("%u syncs for %u commits of %d threads\n", all.syncs, all.commits, THREADS);
    assert_true(all.syncs > 0 && 10 * (uint64_t)all.syncs <= 3 * (uint64_t)all.commits);
    sqlite3 *db = open_store(folder);
    check_rows(db, 0, &all);
    client_close(db);
    client_folder_remove(folder);
}

/* I1, I2, C01: a small memtable, so that flushes and merges run under it. */
static void a_kill_among_sixteen_threads_loses_no_acknowledged_row(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    uint64_t random = seed;
    acks rounds[KILL_ROUNDS];
    uint32_t total = 0;
    make_store(folder);
    for (int round = 0; round < KILL_ROUNDS; round++) {
        client_worker worker = start_threads(folder, round, 0);
        rounds[round] = collect(&worker, 20000 + client_pick(&random, 400000));
        assert_true(client_worker_kill(&worker));
        total += rounds[round].total;
        sqlite3 *db = open_store(folder);
        for (int i = 0; i <= round; i++) check_rows(db, i, &rounds[i]);
        client_close(db);
    }
    print_message("%u acknowledged rows in %d kills\n", total, KILL_ROUNDS);
    assert_true(total > 0);
    client_folder_remove(folder);
}

/* ------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 5 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return strcmp(argv[2], "trace") == 0 ? trace_worker(argv + 3) : threads_worker(argv + 3);
    }
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/durable_test --seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_insert_into_a_temp_table_returns_behind_one_sync_that_covers_it),
        cmocka_unit_test(each_insert_into_a_table_of_a_file_costs_no_more_than_that_sync),
        cmocka_unit_test(sixteen_threads_need_at_most_three_syncs_for_ten_commits),
        cmocka_unit_test(a_kill_among_sixteen_threads_loses_no_acknowledged_row),
    };
    return cmocka_run_group_tests_name("durable", tests, NULL, NULL);
}
