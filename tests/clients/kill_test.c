/* kill_test.c: kill -9 at random moments, checked against what was acknowledged.
**
** The parent sends commands over a pipe and keeps for each id what it believes; the child
** carries them out one by one and answers each after it has returned:
**
**   parent: 1 put 17 / 2 put 3, drop 17, put 90 in one transaction / 3 flush / 4 merge / ...
**   child:  1, 2, [kill -9]
**
** After the kill every acknowledged command is in effect, and of those behind it exactly none,
** or the first one as a whole (I1, I2). The belief lives in the parent, outside of the store.
**
**   kill_test                     the standard run: 20 rounds in three kinds of tables
**   kill_test --seed SEED         the same commands and moments again (KILL_ROUNDS=n: more of them)
**   kill_test --worker ...        is started by the test */
#include "client.h"

#include <fcntl.h>
#include <poll.h>

enum {
    ROUNDS = 20, /* divided among the kinds of tables */
    IDS = 400,
    CHANGES_MAX = 12,
    COMMANDS_AHEAD = 64,
    KILL_US_MAX = 150000,
    PATH_BYTES = PATH_MAX + 64,
};

static uint64_t seed;

typedef enum kind { FILE_WAL, FILE_DELETE, TEMPORARY, KINDS } kind;
static const char *const kind_names[KINDS] = {"wal", "delete", "temp"};

/* ---- commands ---------------------------------------------------------------------------- */

typedef enum what { CHANGE, TRANSACTION, ROLLED_BACK, FLUSH, MERGE, WHATS } what;

typedef struct change {
    int32_t id;
    int32_t value; /* 0: delete */
} change;

/* What goes over the pipe. */
typedef struct command {
    uint32_t number;
    uint16_t what;
    uint16_t count;
    change changes[CHANGES_MAX];
} command;

static command draw_command(uint64_t *random, uint32_t number)
{
    static const what often[] = {CHANGE,      CHANGE,      CHANGE,      CHANGE,      CHANGE, CHANGE,
                                 TRANSACTION, TRANSACTION, TRANSACTION, ROLLED_BACK, FLUSH,  MERGE};
    command made = {.number = number,
                    .what = (uint16_t)often[client_pick(random, sizeof often / sizeof *often)]};
    if (made.what == CHANGE) made.count = 1;
    if (made.what == TRANSACTION || made.what == ROLLED_BACK) {
        made.count = (uint16_t)(2 + client_pick(random, CHANGES_MAX - 1));
    }
    for (int i = 0; i < made.count; i++) {
        made.changes[i].id = (int32_t)client_pick(random, IDS);
        made.changes[i].value =
            client_pick(random, 4) == 0 ? 0 : 1 + (int32_t)client_pick(random, 1000000);
    }
    return made;
}

/* ---- the child --------------------------------------------------------------------------- */

typedef struct child {
    sqlite3 *db;
    sqlite3_stmt *put;
    sqlite3_stmt *drop;
} child;

static sqlite3 *open_table(const char *folder, kind of)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/test.db", folder);
    sqlite3 *db = client_open(path);
    if (of == TEMPORARY) {
        client_run(db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')", folder);
    }
    return db;
}

static void change_one(const child *c, const change *made)
{
    sqlite3_stmt *statement = made->value ? c->put : c->drop;
    sqlite3_bind_int(statement, 1, made->id);
    if (made->value) sqlite3_bind_int(statement, 2, made->value);
    client_step(statement);
    int rc = sqlite3_reset(statement);
    if (rc != SQLITE_OK) client_fail("%s", sqlite3_errmsg(c->db));
}

static void carry_out(const child *c, const command *given)
{
    bool explicit = given->what == TRANSACTION || given->what == ROLLED_BACK;
    if (explicit) client_run(c->db, "BEGIN");
    for (int i = 0; i < given->count; i++) change_one(c, &given->changes[i]);
    if (explicit) client_run(c->db, given->what == TRANSACTION ? "COMMIT" : "ROLLBACK");
    if (given->what == FLUSH) client_run(c->db, "SELECT memwal_flush('t')");
    if (given->what == MERGE) client_run(c->db, "SELECT memwal_merge('t', 2)");
}

/* --worker FOLDER KIND */
static int work(char **arguments)
{
    command given;
    kind of = (kind)atoi(arguments[1]);
    child c = {.db = open_table(arguments[0], of)};
    c.put = client_prepare(c.db, "REPLACE INTO t VALUES('id-' || ?1, ?2, 'body ' || ?2)");
    c.drop = client_prepare(c.db, "DELETE FROM t WHERE id = 'id-' || ?1");
    while (client_read_all(STDIN_FILENO, &given, sizeof given)) {
        carry_out(&c, &given);
        if (!client_write_all(STDOUT_FILENO, &given.number, sizeof given.number)) {
            return CLIENT_WORKER_FAILED;
        }
    }
    return 0;
}

/* ---- the parent -------------------------------------------------------------------------- */

/* 0: the id does not live. */
typedef struct belief {
    int32_t value[IDS];
} belief;

static void believe(belief *all, const command *given)
{
    if (given->what != CHANGE && given->what != TRANSACTION) return;
    for (int i = 0; i < given->count; i++) {
        all->value[given->changes[i].id] = given->changes[i].value;
    }
}

typedef struct run {
    char folder[PATH_MAX];
    kind of;
    uint64_t random;
    belief now;                    /* what is acknowledged */
    command ahead[COMMANDS_AHEAD]; /* given, by number     */
    uint32_t given;
    uint32_t acknowledged;
    int in_between; /* kills after which the command under way had taken effect */
} run;

static void take_acks(run *r, client_worker *worker)
{
    uint32_t number;
    if (!client_read_all(worker->from, &number, sizeof number)) return;
    assert_int_equal(number, r->acknowledged + 1);
    r->acknowledged = number;
    believe(&r->now, &r->ahead[number % COMMANDS_AHEAD]);
}

/* False when the child does not read any more. */
static bool give_command(run *r, client_worker *worker)
{
    command *next = &r->ahead[(r->given + 1) % COMMANDS_AHEAD];
    *next = draw_command(&r->random, r->given + 1);
    if (!client_write_all(worker->to, next, sizeof *next)) return false;
    r->given++;
    return true;
}

/* Gives commands and takes acks for so long, kills, and takes the acks that are left in the
** pipe. */
static void drive(run *r, client_worker *worker, uint64_t kill_us)
{
    uint64_t until = client_now_us() + kill_us;
    while (client_now_us() < until) {
        struct pollfd wait = {.fd = worker->from, .events = POLLIN};
        /* One place less: the command under way must stay known. */
        bool room = r->given - r->acknowledged < COMMANDS_AHEAD - 1;
        if (room && !give_command(r, worker)) break;
        uint64_t left_us = until - client_now_us();
        int wait_ms = room ? 0 : left_us < kill_us ? (int)(left_us / 1000) + 1 : 0;
        if (poll(&wait, 1, wait_ms) > 0) take_acks(r, worker);
    }
    kill(worker->pid, SIGKILL);
    for (uint32_t before = r->acknowledged + 1; before != r->acknowledged;) {
        before = r->acknowledged;
        take_acks(r, worker);
    }
    assert_true(client_worker_kill(worker));
}

static belief read_table(sqlite3 *db)
{
    belief found = {{0}};
    int64_t count = 0;
    char body[64];
    sqlite3_stmt *rows =
        client_prepare(db, "SELECT CAST(substr(id, 4) AS INTEGER), value, body FROM t");
    for (; client_step(rows); count++) {
        int id = sqlite3_column_int(rows, 0);
        int value = sqlite3_column_int(rows, 1);
        assert_in_range(id, 0, IDS - 1);
        assert_int_equal(found.value[id], 0); /* never twice */
        snprintf(body, sizeof body, "body %d", value);
        assert_string_equal((const char *)sqlite3_column_text(rows, 2), body);
        found.value[id] = value;
    }
    client_finalize(rows);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), count);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), count);
    return found;
}

static int first_difference(const belief *a, const belief *b)
{
    int id = 0;
    while (id < IDS && a->value[id] == b->value[id]) id++;
    return id;
}

/* What is there is what was acknowledged, or that and the next command. */
static void check(run *r, int round)
{
    sqlite3 *db = open_table(r->folder, r->of);
    belief found = read_table(db);
    client_check_store(db);
    client_close(db);
    belief next = r->now;
    if (r->given > r->acknowledged) {
        believe(&next, &r->ahead[(r->acknowledged + 1) % COMMANDS_AHEAD]);
    }
    int id = first_difference(&found, &r->now);
    if (id < IDS && first_difference(&found, &next) < IDS) {
        client_fail("%s, round %d: %u commands were acknowledged, %u given; id-%d should have %d, "
                    "or with the next one %d, has %d",
                    kind_names[r->of], round, r->acknowledged, r->given, id, r->now.value[id],
                    next.value[id], found.value[id]);
    }
    r->in_between += id < IDS;
    r->now = found;
    r->given = r->acknowledged;
}

static void make_table(const run *r)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/test.db", r->folder);
    sqlite3 *db = client_open(path);
    if (r->of != TEMPORARY) {
        client_run(db, "PRAGMA journal_mode = %s", r->of == FILE_WAL ? "WAL" : "DELETE");
    }
    client_run(
        db,
        "CREATE VIRTUAL TABLE %s.t USING memwal(id TEXT PRIMARY KEY, value INTEGER, body TEXT,"
        " path = '%s/store', memtable = '8KB', merge_generations = 3, group_rows = 16)",
        r->of == TEMPORARY ? "temp" : "main", r->folder);
    client_close(db);
}

static void kill_rounds(kind of)
{
    static run r;
    const char *more = getenv("KILL_ROUNDS");
    int rounds = ((more ? atoi(more) : ROUNDS) + KINDS - 1) / KINDS;
    char kind_text[16];
    memset(&r, 0, sizeof r);
    r.of = of;
    r.random = seed + of;
    client_folder_make(r.folder);
    make_table(&r);
    snprintf(kind_text, sizeof kind_text, "%d", (int)of);
    const char *const arguments[] = {client_own_program(), "--worker", r.folder, kind_text, NULL};
    for (int round = 0; round < rounds; round++) {
        client_worker worker = client_worker_start(arguments);
        drive(&r, &worker, 5000 + client_pick(&r.random, KILL_US_MAX));
        check(&r, round);
    }
    print_message(
        "%s: %u commands acknowledged in %d kills; %d times the one under way had taken effect\n",
        kind_names[of], r.acknowledged, rounds, r.in_between);
    assert_true(r.acknowledged > 0);
    client_folder_remove(r.folder);
}

/* I1, I2, C07, C23. */
static void a_table_in_a_wal_file_has_what_was_acknowledged_after_kill(void **state)
{
    (void)state;
    kill_rounds(FILE_WAL);
}

static void a_table_in_a_file_with_rollback_journal_has_what_was_acknowledged_after_kill(
    void **state)
{
    (void)state;
    kill_rounds(FILE_DELETE);
}

static void a_temp_table_has_what_was_acknowledged_after_kill(void **state)
{
    (void)state;
    kill_rounds(TEMPORARY);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return work(argv + 2);
    }
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/kill_test --seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_in_a_wal_file_has_what_was_acknowledged_after_kill),
        cmocka_unit_test(
            a_table_in_a_file_with_rollback_journal_has_what_was_acknowledged_after_kill),
        cmocka_unit_test(a_temp_table_has_what_was_acknowledged_after_kill),
    };
    return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}
