/* opens.c: W8, what a process pays that has just been started: after a kill with a long log, and on
** a clean store for one read. The other process is this program again, as
**
**   bench --child fill KIND FOLDER EXTENSION ROWS   puts rows (0: until the log has 64 MB), says how
**                                                   many and how long the log is, kills itself
**   bench --child read KIND FOLDER EXTENSION ROWS   opens, reads the last of that many rows, says
**                                                   after how many seconds and what it wrote, ends
*/
#include "sides.h"
#include "works.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOG_BYTES = 64 << 20,
    STORE_ROWS = 100000, /* of the clean store   */
    PROCESSES = 50,      /* short ones, per side */
};

extern char **environ;

/* ---- the child --------------------------------------------------------------------------- */

static double log_bytes(const side *s)
{
    if (is_memwal(s)) return memwal_figure(s->db, "t", "wal_bytes");
    struct stat info;
    char file[PATH_BYTES + 16];
    snprintf(file, sizeof file, "%s/bench.db-wal", s->folder);
    if (stat(file, &info)) give_up("%s: %s", file, strerror(errno));
    return (double)info.st_size;
}

/* Nothing leaves the log: memwal's memtable is large, SQLite makes no checkpoint. */
static void fill_and_die(side *s, int64_t rows)
{
    if (!is_memwal(s)) run(s->db, "PRAGMA wal_autocheckpoint = 0");
    sqlite3_stmt *insert = prepare(s->db, insert_sql);
    int64_t i = 0;
    while (rows > 0 ? i < rows : i == 0 || log_bytes(s) < LOG_BYTES) {
        run(s->db, "BEGIN");
        for (int64_t end = i + TRANSACTION_ROWS; i < end; i++) {
            put_row(s, insert, id_number(RANDOM_ORDER, i), 0);
        }
        run(s->db, "COMMIT");
    }
    printf("%" PRId64 " %.0f\n", i, log_bytes(s));
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static void read_one(side *s, int64_t rows)
{
    char key[ROW_KEY_BYTES];
    double began = now_s();
    s->db = side_connect(s);
    sqlite3_stmt *read = prepare(s->db, "SELECT a FROM t WHERE id = ?1");
    bind_key(s, read, key, id_number(RANDOM_ORDER, rows - 1));
    if (!step(read)) give_up("the last row is not there");
    double seconds = now_s() - began;
    sqlite3_finalize(read);
    side_close(s);
    printf("%.9f %.0f\n", seconds, look_at_counters(s->folder).process);
}

int open_as_child(int argc, char **argv)
{
    if (argc != 7) give_up("bench --child: expected fill or read, kind, folder, extension, rows");
    int64_t rows = atoll(argv[6]);
    side s = {.kind = (kind)atoi(argv[3]), .shape = ROW_SMALL};
    snprintf(s.folder, sizeof s.folder, "%s", argv[4]);
    snprintf(wanted.extension, sizeof wanted.extension, "%s", argv[5]);
    if (strcmp(argv[2], "fill") == 0) {
        s.db = side_connect(&s);
        fill_and_die(&s, rows);
    } else {
        read_one(&s, rows);
    }
    return 0;
}

/* ---- the parent -------------------------------------------------------------------------- */

/* Two numbers that a child says, and the seconds from its start to its end. */
typedef struct answer {
    double first;
    double second;
    double seconds;
} answer;

static pid_t start_child(const side *s, const char *what, int64_t rows, int output)
{
    char number[2][32];
    snprintf(number[0], sizeof number[0], "%d", (int)s->kind);
    snprintf(number[1], sizeof number[1], "%" PRId64, rows);
    const char *words[] = {"bench",   "--child",        what,      number[0],
                           s->folder, wanted.extension, number[1], NULL};
    char *argv[sizeof words / sizeof *words];
    memcpy(argv, words, sizeof argv); /* posix_spawn takes them as not const and leaves them so */
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    int error = posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ);
    if (error) give_up("starting a child: %s", strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static answer ask_child(const side *s, const char *what, int64_t rows)
{
    int ends[2];
    int status = 0;
    bool killed = strcmp(what, "fill") == 0;
    answer got = {0};
    if (pipe2(ends, O_CLOEXEC)) give_up("pipe: %s", strerror(errno));
    double began = now_s();
    pid_t child = start_child(s, what, rows, ends[1]);
    close(ends[1]);
    if (waitpid(child, &status, 0) != child) give_up("waitpid: %s", strerror(errno));
    got.seconds = now_s() - began;
    bool right = killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                        : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!right) give_up("the child for %s ended with status %x", what, (unsigned)status);
    FILE *said = fdopen(ends[0], "r");
    if (!said || fscanf(said, "%lf %lf", &got.first, &got.second) != 2) {
        give_up("the child for %s said nothing", what);
    }
    fclose(said);
    return got;
}

/* Every row that was acknowledged before the kill. */
static void check_rows(side *s, int64_t rows)
{
    s->db = side_connect(s);
    int64_t count = ask(s->db, "SELECT count(*) FROM t");
    if (count != rows) give_up("%" PRId64 " rows after the kill, not %" PRId64, count, rows);
}

void measure_open_after_kill(bool memwal_first)
{
    double log[2];
    double disk[2];
    answer opened[2];
    int64_t rows = 0;
    side sides[2] = {side_make_with(MEMWAL_TEXT, ROW_SMALL, ", memtable = '1GB'"),
                     side_make(ROWID, ROW_SMALL)};
    for (int i = 0; i < 2; i++) {
        side_close(&sides[i]);
        answer filled = ask_child(&sides[i], "fill", rows);
        rows = (int64_t)filled.first;
        log[i] = filled.second;
    }
    look_at_settled_counters(wanted.folder);
    for (int i = 0; i < 2; i++) {
        int at = memwal_first ? i : 1 - i;
        opened[at] = ask_child(&sides[at], "read", rows);
        disk[at] = bytes_on_disk(sides[at].folder);
    }
    note(W8_OPEN, opened[0].first * 1e3, opened[1].first * 1e3);
    note(W8_OPEN_LOG, log[0] / 1e6, log[1] / 1e6);
    note(W8_OPEN_WRITTEN, opened[0].second / 1e6, opened[1].second / 1e6);
    note(W8_OPEN_DISK, disk[0] / 1e6, disk[1] / 1e6);
    for (int i = 0; i < 2; i++) {
        check_rows(&sides[i], rows);
        side_end(&sides[i]);
    }
}

static void fill_clean_store(side *s)
{
    sqlite3_stmt *insert = prepare(s->db, insert_sql);
    run(s->db, "BEGIN");
    for (int64_t i = 0; i < STORE_ROWS; i++) put_row(s, insert, id_number(RANDOM_ORDER, i), 0);
    run(s->db, "COMMIT");
    sqlite3_finalize(insert);
    settle(s);
    side_close(s);
}

void measure_short_process(bool memwal_first)
{
    static double all[2][PROCESSES];
    static double reading[2][PROCESSES];
    double bytes[2] = {0, 0};
    side sides[2] = {side_make(MEMWAL_TEXT, ROW_SMALL), side_make(ROWID, ROW_SMALL)};
    for (int i = 0; i < 2; i++) fill_clean_store(&sides[i]);
    for (int i = 0; i < 2 * PROCESSES; i++) {
        int at = (i + memwal_first + 1) % 2;
        answer got = ask_child(&sides[at], "read", STORE_ROWS);
        all[at][i / 2] = got.seconds * 1e3;
        reading[at][i / 2] = got.first * 1e3;
        bytes[at] = got.second;
    }
    note(W8_SHORT, median(all[0], PROCESSES), median(all[1], PROCESSES));
    note(W8_SHORT_READ, median(reading[0], PROCESSES), median(reading[1], PROCESSES));
    note(W8_SHORT_WRITTEN, bytes[0], bytes[1]);
    for (int i = 0; i < 2; i++) {
        check_rows(&sides[i], STORE_ROWS);
        side_end(&sides[i]);
    }
}
