/* libraries_test.c: one process with two SQLite libraries, each with memwal, over one store (C20).
**
** They know nothing of each other: to the second one the first is another process. So they write in
** turns, each sees what the other commits, and what one closes stays open to the other. The second
** library is a copy of the system's, its memwal a copy of ours, so that each has memory of its own. */
#include "client.h"

#include <dlfcn.h>

enum { ROUNDS = 200 };

/* The second library: what is needed of it, by its own addresses. */
typedef struct library {
    int (*open)(const char *file, sqlite3 **db);
    int (*close)(sqlite3 *db);
    int (*exec)(sqlite3 *db, const char *sql, int (*row)(void *, int, char **, char **), void *to,
                char **words);
    int (*enable)(sqlite3 *db, int on);
    int (*load)(sqlite3 *db, const char *file, const char *entry, char **words);
    int (*timeout)(sqlite3 *db, int ms);
} library;

static void *address(void *from, const char *name)
{
    void *found = dlsym(from, name);
    if (!found) client_fail("%s: %s", name, dlerror());
    return found;
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    size_t got;
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    if (!in || !out) client_fail("copying %s: %s", from, strerror(errno));
    while ((got = fread(bytes, 1, sizeof bytes, in)) > 0) {
        if (fwrite(bytes, 1, got, out) != got) client_fail("%s: %s", to, strerror(errno));
    }
    fclose(in);
    if (fclose(out)) client_fail("%s: %s", to, strerror(errno));
}

static library load_library(const char *folder)
{
    Dl_info ours;
    char copy[PATH_MAX + 32];
    snprintf(copy, sizeof copy, "%s/second.so", folder);
    if (!dladdr((void *)(uintptr_t)sqlite3_libversion, &ours)) client_fail("no name for SQLite");
    copy_file(ours.dli_fname, copy);
    void *from = dlopen(copy, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!from) client_fail("%s: %s", copy, dlerror());
    library second;
    *(void **)&second.open = address(from, "sqlite3_open");
    *(void **)&second.close = address(from, "sqlite3_close");
    *(void **)&second.exec = address(from, "sqlite3_exec");
    *(void **)&second.enable = address(from, "sqlite3_enable_load_extension");
    *(void **)&second.load = address(from, "sqlite3_load_extension");
    *(void **)&second.timeout = address(from, "sqlite3_busy_timeout");
    assert_true(second.open != sqlite3_open);
    return second;
}

static sqlite3 *open_second(const library *second, const char *folder)
{
    sqlite3 *db;
    char *words = NULL;
    char copy[PATH_MAX + 32];
    snprintf(copy, sizeof copy, "%s/memwal.so", folder);
    copy_file(client_extension(), copy);
    assert_int_equal(second->open(":memory:", &db), SQLITE_OK);
    second->enable(db, 1);
    if (second->load(db, copy, NULL, &words)) client_fail("the second: %s", words);
    second->timeout(db, 60000);
    return db;
}

static int keep_number(void *to, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    *(int64_t *)to = atoll(values[0]);
    return 0;
}

static int64_t ask_second(const library *second, sqlite3 *db, const char *sql)
{
    int64_t number = -1;
    char *words = NULL;
    if (second->exec(db, sql, keep_number, &number, &words)) client_fail("the second: %s", words);
    return number;
}

static void two_libraries_share_a_store_as_two_processes_do(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    char table[PATH_MAX + 128];
    client_folder_make(folder);
    snprintf(table, sizeof table,
             "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, memtable = '4KB',"
             " path = '%s/store')",
             folder);
    library second = load_library(folder);
    sqlite3 *a = client_open(":memory:");
    sqlite3 *b = open_second(&second, folder);
    client_run(a, "%s", table);
    ask_second(&second, b, table);
    for (int i = 0; i < ROUNDS; i++) {
        client_run(a, "INSERT INTO t(v) VALUES (printf('%%.100c', 'a'))");
        ask_second(&second, b, "INSERT INTO t(v) VALUES (printf('%.100c', 'b'))");
        assert_int_equal(client_ask(a, "SELECT count(*) FROM t"), 2 * i + 2);
        assert_int_equal(ask_second(&second, b, "SELECT memwal_count('t')"), 2 * i + 2);
    }
    client_close(a);
    ask_second(&second, b, "INSERT INTO t(v) VALUES ('b')");
    ask_second(&second, b, "SELECT memwal_compact('t')");
    assert_int_equal(ask_second(&second, b, "SELECT count(*) FROM t"), 2 * ROUNDS + 1);
    a = client_open(":memory:");
    client_run(a, "%s", table);
    assert_int_equal(second.close(b), SQLITE_OK);
    client_run(a, "INSERT INTO t(v) VALUES ('a')");
    assert_int_equal(client_ask(a, "SELECT count(*) FROM t"), 2 * ROUNDS + 2);
    assert_int_equal(client_figure(a, "epoch"), 1);
    client_check_store(a);
    client_close(a);
    client_folder_remove(folder);
}

int main(void)
{
    client_use_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_libraries_share_a_store_as_two_processes_do),
    };
    return cmocka_run_group_tests_name("libraries", tests, NULL, NULL);
}
