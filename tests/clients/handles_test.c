/* handles_test.c: two connections of one process over one store; one of them goes.
**
** What the store does in the background belongs to all of its connections: it goes on until the last
** one is closed, and what is acknowledged after the first close is as durable as before it.
**
**   handles_test                            the tests
**   handles_test --worker FOLDER OPTIONS    is started by them: writes, waits, and is killed */
#include "client.h"

enum { ROWS = 300, BACKGROUND_MS = 500, FLUSH_WAIT_MS = 10000 };

/* ---- the worker -------------------------------------------------------------------------- */

static void open_two(const char *folder, const char *options, sqlite3 *pair[2])
{
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/t.db", folder);
    pair[0] = client_open(file);
    client_run(pair[0], "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, %s)",
               options);
    pair[1] = client_open(file);
    for (int i = 0; i < 2; i++) client_run(pair[i], "INSERT INTO t VALUES(%d, 'before')", i + 1);
}

/* The thread that the first connection's writes have started must flush for the second one. */
static void wait_for_flushes(sqlite3 *db)
{
    for (int waited_ms = 0; client_figure(db, "flushes") < 2; waited_ms += 10) {
        if (waited_ms > FLUSH_WAIT_MS) client_fail("nothing is flushed after the first close");
        client_sleep_us(10000);
    }
}

static int work(const char *folder, const char *options)
{
    sqlite3 *pair[2];
    open_two(folder, options, pair);
    client_close(pair[0]);
    for (int i = 3; i <= ROWS; i++) {
        client_run(pair[1], "INSERT INTO t VALUES(%d, printf('%%.200c', 'x'))", i);
    }
    wait_for_flushes(pair[1]);
    client_sleep_us(BACKGROUND_MS * 1000);
    if (!client_write_all(STDOUT_FILENO, "+", 1)) client_fail("nobody reads");
    for (;;) client_sleep_us(1000000); /* until it is killed */
}

/* ---- the tests --------------------------------------------------------------------------- */

static void kill_after_close(const char *options)
{
    char folder[PATH_MAX];
    char file[PATH_MAX + 16];
    char done;
    client_folder_make(folder);
    const char *const arguments[] = {client_own_program(), "--worker", folder, options, NULL};
    client_worker worker = client_worker_start(arguments);
    if (!client_read_all(worker.from, &done, 1)) client_fail("the worker ended too early");
    assert_true(client_worker_kill(&worker));
    snprintf(file, sizeof file, "%s/t.db", folder);
    sqlite3 *db = client_open(file);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), ROWS);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM (SELECT id FROM t ORDER BY id)"), ROWS);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t WHERE v = 'before'"), 2);
    client_check_store(db);
    client_close(db);
    client_folder_remove(folder);
}

/* C03, I1. */
static void closing_one_connection_leaves_the_other_durable(void **state)
{
    (void)state;
    kill_after_close("memtable = '4KB'");
}

/* C03: what 'normal' has not synced within 100 ms is the store's business, not the connection's. */
static void closing_one_connection_leaves_the_other_its_durability(void **state)
{
    (void)state;
    kill_after_close("memtable = '4KB', durability = 'normal'");
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return work(argv[2], argv[3]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_one_connection_leaves_the_other_durable),
        cmocka_unit_test(closing_one_connection_leaves_the_other_its_durability),
    };
    return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
