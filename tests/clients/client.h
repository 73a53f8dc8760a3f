/* client.h: what the client tests share: a folder of their own, connections that load the
** extension as anybody would, statements whose failure ends the test, and workers: the test's
** own program, started again with other arguments, to be traced or killed.
**
** MEMWAL names the extension (default build/memwal.so). A worker reports its failures on
** standard error and by its exit code; only the program that runs the tests knows cmocka. */
#ifndef CLIENT_H
#define CLIENT_H

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { CLIENT_TEXT_BYTES = 1024, CLIENT_WORKER_FAILED = 99 };

static bool client_is_worker;

/* Ends the test, or the worker, with these words. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void client_fail(const char *format,
                                                                               ...)
{
    char words[2 * CLIENT_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (client_is_worker) {
        fprintf(stderr, "worker: %s\n", words);
        _exit(CLIENT_WORKER_FAILED);
    }
    print_error("%s\n", words);
    fail();
    abort(); /* fail() does not come back */
}

static inline const char *client_extension(void)
{
    static char path[PATH_MAX];
    const char *named = getenv("MEMWAL");
    if (!path[0] && !realpath(named ? named : "build/memwal.so", path)) {
        client_fail("expected the extension at %s: %s", named ? named : "build/memwal.so",
                    strerror(errno));
    }
    return path;
}

/* ---- random numbers and time ------------------------------------------------------------- */

static inline uint64_t client_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t client_pick(uint64_t *state, uint64_t n) { return client_random(state) % n; }

static inline uint64_t client_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static inline void client_sleep_us(uint64_t us)
{
    struct timespec pause = {.tv_sec = (time_t)(us / 1000000),
                             .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&pause, &pause) && errno == EINTR) continue;
}

/* ---- folders ----------------------------------------------------------------------------- */

/* For tests of what is stored, not of what a disk does with it: folders in memory. */
static inline void client_use_memory(void)
{
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
}

/* An empty folder under TMPDIR or /tmp, by its real path. */
static inline void client_folder_make(char folder[PATH_MAX])
{
    const char *under = getenv("TMPDIR");
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%s/memwal-client-XXXXXX",
             under && under[0] == '/' ? under : "/tmp");
    if (!mkdtemp(pattern) || !realpath(pattern, folder)) {
        client_fail("making %s: %s", pattern, strerror(errno));
    }
}

static inline int client_remove_one(const char *path, const struct stat *info, int kind,
                                    struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void client_folder_remove(const char *folder)
{
    if (nftw(folder, client_remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT) {
        client_fail("removing %s: %s", folder, strerror(errno));
    }
}

/* ---- statements -------------------------------------------------------------------------- */

static inline sqlite3 *client_open(const char *file)
{
    sqlite3 *db = NULL;
    char *words = NULL;
    if (sqlite3_open(file, &db) != SQLITE_OK) {
        client_fail("opening %s: %s", file, sqlite3_errmsg(db));
    }
    sqlite3_enable_load_extension(db, 1);
    if (sqlite3_load_extension(db, client_extension(), NULL, &words) != SQLITE_OK) {
        client_fail("loading %s: %s", client_extension(), words);
    }
    sqlite3_busy_timeout(db, 60000);
    return db;
}

static inline void client_close(sqlite3 *db)
{
    int rc = sqlite3_close(db);
    if (rc != SQLITE_OK) client_fail("closing: %s", sqlite3_errstr(rc));
}

/* Runs statements that may fail; their code, and the words in `words` where that is not NULL. */
__attribute__((format(printf, 3, 4))) static inline int client_try(sqlite3 *db, char *words,
                                                                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    char *error = NULL;
    if (!sql) client_fail("no memory for %s", format);
    int rc = sqlite3_exec(db, sql, NULL, NULL, &error);
    if (words) snprintf(words, CLIENT_TEXT_BYTES, "%s", error ? error : "");
    sqlite3_free(error);
    sqlite3_free(sql);
    return rc == SQLITE_OK ? rc : sqlite3_extended_errcode(db);
}

__attribute__((format(printf, 2, 3))) static inline void client_run(sqlite3 *db, const char *format,
                                                                    ...)
{
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    char *error = NULL;
    if (!sql) client_fail("no memory for %s", format);
    int rc = sqlite3_exec(db, sql, NULL, NULL, &error);
    if (rc != SQLITE_OK) client_fail("%.300s: %s (%d)", sql, error, sqlite3_extended_errcode(db));
    sqlite3_free(sql);
}

static inline sqlite3_stmt *client_prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        client_fail("%s: %s", sql, sqlite3_errmsg(db));
    }
    return statement;
}

/* A step that must not fail; true: there is a row. */
static inline bool client_step(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) return rc == SQLITE_ROW;
    sqlite3 *db = sqlite3_db_handle(statement);
    client_fail("%s: %s (%d)", sqlite3_sql(statement), sqlite3_errmsg(db),
                sqlite3_extended_errcode(db));
}

static inline void client_finalize(sqlite3_stmt *statement)
{
    int rc = sqlite3_finalize(statement);
    if (rc != SQLITE_OK) client_fail("end of a statement: %s", sqlite3_errstr(rc));
}

/* The first value of the first row as text, "" for NULL. Expects a row. */
static inline void client_ask_text(sqlite3 *db, char to[CLIENT_TEXT_BYTES], const char *sql)
{
    sqlite3_stmt *statement = client_prepare(db, sql);
    if (!client_step(statement)) client_fail("%s: expected a row, found none", sql);
    const unsigned char *text = sqlite3_column_text(statement, 0);
    snprintf(to, CLIENT_TEXT_BYTES, "%s", text ? (const char *)text : "");
    client_finalize(statement);
}

/* The first value of the first row as an integer; expects one that is not NULL. */
static inline int64_t client_ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = client_prepare(db, sql);
    if (!client_step(statement)) client_fail("%s: expected a row, found none", sql);
    if (sqlite3_column_type(statement, 0) == SQLITE_NULL) client_fail("%s: found NULL", sql);
    int64_t value = sqlite3_column_int64(statement, 0);
    client_finalize(statement);
    return value;
}

/* A figure of memwal_stats('t'). */
static inline int64_t client_figure(sqlite3 *db, const char *name)
{
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT value FROM memwal_stats('t') WHERE name = '%s'", name);
    return client_ask(db, sql);
}

/* Reads every byte of the store of t. */
static inline void client_check_store(sqlite3 *db)
{
    char words[CLIENT_TEXT_BYTES];
    client_ask_text(db, words, "SELECT memwal_check('t')");
    if (strcmp(words, "ok") != 0) client_fail("memwal_check: %s", words);
}

/* ---- workers ----------------------------------------------------------------------------- */

typedef struct client_worker {
    pid_t pid;
    int to;   /* its standard input  */
    int from; /* its standard output */
} client_worker;

enum { CLIENT_ARGUMENTS_MAX = 24 };

static inline void client_worker_exec(const int in[2], const int out[2],
                                      const char *const *arguments)
{
    char *copy[CLIENT_ARGUMENTS_MAX + 1] = {NULL};
    for (int i = 0; arguments[i] && i < CLIENT_ARGUMENTS_MAX; i++) {
        copy[i] = (char *)(uintptr_t)arguments[i];
    }
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[0]);
    close(in[1]);
    close(out[0]);
    close(out[1]);
    execvp(copy[0], copy);
    fprintf(stderr, "starting %s: %s\n", copy[0], strerror(errno));
    _exit(CLIENT_WORKER_FAILED);
}

/* Starts a program, arguments[0], found in PATH; the list ends with NULL. */
static inline client_worker client_worker_start(const char *const *arguments)
{
    int in[2];
    int out[2];
    if (pipe(in) || pipe(out)) client_fail("pipe: %s", strerror(errno));
    fflush(NULL);
    client_worker worker = {.pid = fork(), .to = in[1], .from = out[0]};
    if (worker.pid < 0) client_fail("fork: %s", strerror(errno));
    if (worker.pid == 0) client_worker_exec(in, out, arguments);
    close(in[0]);
    close(out[1]);
    return worker;
}

/* This program, for the arguments of a worker. */
static inline const char *client_own_program(void)
{
    static char path[PATH_MAX];
    if (!path[0] && readlink("/proc/self/exe", path, sizeof path - 1) < 0) {
        client_fail("/proc/self/exe");
    }
    return path;
}

/* Waits for the end and closes the pipes; the status as waitpid has it. */
static inline int client_worker_wait(client_worker *worker)
{
    int status = 0;
    close(worker->to);
    while (waitpid(worker->pid, &status, 0) < 0) {
        if (errno != EINTR) client_fail("waitpid: %s", strerror(errno));
    }
    close(worker->from);
    return status;
}

/* Kills it; ends the test if it had failed by itself before. True: the kill came while it was
** running. */
static inline bool client_worker_kill(client_worker *worker)
{
    kill(worker->pid, SIGKILL);
    int status = client_worker_wait(worker);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        client_fail("the worker failed: status %d", status);
    }
    return false;
}

/* Waits for an end without a failure. */
static inline void client_worker_finish(client_worker *worker)
{
    int status = client_worker_wait(worker);
    if (status != 0) client_fail("the worker failed: status %d", status);
}

/* All bytes, or false at the end of the file. */
static inline bool client_read_all(int file, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(file, (char *)to + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) client_fail("reading: %s", strerror(errno));
        if (n == 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* All bytes; false when nobody reads any more. */
static inline bool client_write_all(int file, const void *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = write(file, (const char *)from + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        done += (size_t)n;
    }
    return true;
}

#endif
