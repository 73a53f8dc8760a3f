/* host_test.c: every crash of transactions over an ordinary table and a memwal table, with SQLite
** and the extension on one simulated disk.
**
**     run the script once; before each step that can change the disk, keep a copy of the machine,
**     and of what was acknowledged
**     for each copy: power cut: some of its disk states -> open, check, or open, check, change,
**                               close, open, check; some of them -> a cut at each step of that
**                    kill: the machine lives on, what was written is still unsynced -> the same
**
** sim_host.h has the script's words, sim_host.c what is checked. The same without the extension shows
** that the disk is no harsher than what SQLite survives, and with syncs that do nothing, that it is
** harsh enough.
**
** HOST_ATOMIC=0   a transaction over both tables that a crash leaves in one of them is counted, and
**                 no error; kept: no error where SQLite has taken an acknowledged commit back
** HOST_STATES=n   about n disk states of each copy
** HOST_REPLAY=x   only this crash, with all that the machine was asked; failures print the line */
#include "sim_host.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    STATES = 2,        /* HOST_STATES where the environment does not say */
    CAP = 96,          /* disk states that are counted, to choose from   */
    CAP_LIES = 12,     /* ... where syncs do nothing                     */
    DEEP_ONE_IN = 7,   /* recoveries that change something, too          */
    ONE_IN = 911,      /* recoveries that are cut as well                */
    KILL_ONE_IN = 2,   /* steps that a process is killed before          */
    ONE_IN_ALONE = 41, /* ... without the extension                      */
    CAP_SECOND = 4,    /* disk states of each such cut                   */
    SEEN_MAX = 4096,
    HANG_S = 120,
};

static const char script[] =
    "accounts rollouts checkpoint host both store both never both host store undo flush both "
    "checkpoint both both store never spare both merge undo drop host both";

/* A machine before a step, and what was answered until then. */
typedef struct moment {
    sim *world;
    host_past past;
} moment;

typedef struct moments {
    const host *running;
    moment *all;
    uint32_t count;
    uint32_t capacity;
} moments;

typedef struct place {
    int step;
    int state;  /* -1: the process is killed               */
    int step2;  /* of the recovery; -1: it is not cut      */
    int state2; /* as state                                */
} place;

/* Disk states that were checked, since something was begun or acknowledged. */
typedef struct checked {
    int begun, acked, checkpoint;
    uint32_t count;
    uint64_t hashes[SEEN_MAX];
} checked;

typedef struct crashes {
    const host_mode *mode;
    bool extended;
    bool lies; /* one side's syncs do nothing */
    place at;
    uint64_t states, kills, second;
    uint64_t accounts_only, rollouts_only; /* machines where a transaction was there only     */
    uint64_t taken_back; /* ... where SQLite had taken back what is in rollouts */
    uint64_t wrong;    /* with lies: machines that were not right            */
    char first_wrong[HOST_WORDS_BYTES];
    checked seen;
} crashes;

/* With a short memory of what was freed, and by whom, the address sanitizer is several times as
** fast. For a finding: ASAN_OPTIONS=malloc_context_size=30 and the replay. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=4:malloc_context_size=1"; }

static int states_wanted = STATES;
static host_atomic atomic = HOST_ALWAYS; /* where the environment does not say */
static bool replaying;
static char replay_kind[16], replay_mode[32];
static place replay;
static const crashes *running; /* for the watchdog */

/* ---- telling --------------------------------------------------------------------------------- */

static const char *kind_of(const crashes *c)
{
    if (c->lies) return c->extended ? "store lies" : "host lies";
    return c->extended ? "both" : "alone";
}

static void print_replay(const crashes *c)
{
    static const char *const atomic_words[] = {"HOST_ATOMIC=0 ", "HOST_ATOMIC=kept ", ""};
    const place *at = &c->at;
    fprintf(stderr, "%sHOST_REPLAY='%s|%s|%d|%d|%d|%d' build/asan/tests/doubt/host_test\n",
            atomic_words[atomic], kind_of(c), c->mode->name, at->step, at->state,
            at->step2, at->state2);
}

static void hang(int signal)
{
    (void)signal;
    fprintf(stderr, "no answer for %d s\n", HANG_S);
    print_replay(running);
    _exit(1);
}

static void read_settings(void)
{
    const char *text = getenv("HOST_STATES");
    if (text) states_wanted = atoi(text);
    if (states_wanted < 2) fail_msg("HOST_STATES: expected a number from 2, found %s", text);
    text = getenv("HOST_ATOMIC");
    if (text) atomic = strcmp(text, "1") == 0 ? HOST_ALWAYS : HOST_COUNTS;
    if (text && strcmp(text, "kept") == 0) atomic = HOST_KEPT;
    text = getenv("HOST_REPLAY");
    if (!text) return;
    place *at = &replay;
    int read = sscanf(text, "%15[^|]|%31[^|]|%d|%d|%d|%d", replay_kind, replay_mode, &at->step,
                      &at->state, &at->step2, &at->state2);
    if (read != 6) fail_msg("not a replay: %s", text);
    replaying = true;
}

/* The same choice in every run. */
static bool chosen(const place *at, int in)
{
    return (at->step + 7 * (at->state + 1) + 3 * (at->step2 + 1) + at->state2 + 1) % in == 0;
}

static bool passed_over(int here, int wanted) { return replaying && here != wanted; }

/* cut: whose state it was, its disk states counted; NULL: it was a kill. */
static void judge(crashes *c, const host *h, bool right, sim *cut, int state)
{
    c->accounts_only += h->accounts_only;
    c->rollouts_only += h->rollouts_only;
    c->taken_back += h->taken_back;
    if (replaying && h->accounts_only) fprintf(stderr, "a transaction is in accounts only\n");
    if (replaying && h->rollouts_only) fprintf(stderr, "a transaction is in rollouts only\n");
    if (right && !replaying) return;
    if (!right && c->lies) {
        if (!c->wrong++) memcpy(c->first_wrong, h->words, sizeof c->first_wrong);
        return;
    }
    fprintf(stderr, "%s, %s: %s\n", kind_of(c), c->mode->name, right ? "right" : h->words);
    print_replay(c);
    if (cut) sim_disk_print(cut, (uint32_t)state, stderr);
    if (replaying) sim_trace_print(h->world, stderr);
    if (!right) fail();
}

/* ---- one machine ----------------------------------------------------------------------------- */

static void keep_moment(void *arg, sim *copy)
{
    moments *m = arg;
    if (m->count == m->capacity) {
        m->capacity = m->capacity ? 2 * m->capacity : 256;
        m->all = realloc(m->all, m->capacity * sizeof *m->all);
        if (!m->all) abort();
    }
    m->all[m->count++] = (moment){copy, m->running->past};
}

static void drop_moments(moments *m)
{
    for (uint32_t i = 0; i < m->count; i++) sim_destroy(m->all[i].world);
    free(m->all);
    *m = (moments){0};
}

/* What follows the crash; the recovery's own moments into `steps`, NULL: they are not wanted. */
static bool recover(const crashes *c, host *h, const host_past *past, bool killed, moments *steps)
{
    h->past = *past;
    h->atomic = atomic;
    if (steps) sim_each_step(h->world, keep_moment, steps);
    bool right = host_open(h) && host_check(h, killed);
    if (steps) sim_each_step(h->world, NULL, NULL);
    if (right && (replaying || chosen(&c->at, DEEP_ONE_IN))) right = host_go_on(h);
    return right && host_stop(h);
}

/* The machine after the crash that c->at names; of a recovery where steps are wanted. */
static void check_machine(crashes *c, const moment *before, int state, moments *steps)
{
    host h;
    bool killed = state < 0;
    sim *after = killed ? sim_kill(before->world) : sim_disk_state(before->world, (uint32_t)state);
    host_start(&h, c->mode, c->extended, after);
    if (replaying) sim_trace(after, true);
    if (steps) steps->running = &h;
    bool right = recover(c, &h, &before->past, killed, steps);
    judge(c, &h, right, killed ? NULL : before->world, state);
    if (h.vfs) (void)host_stop(&h);
    sim_destroy(after);
}

static void cut_recovery(crashes *c, const moments *steps, bool killed)
{
    for (uint32_t step = 0; step < steps->count; step++) {
        const moment *before = &steps->all[step];
        uint32_t count = sim_disk_count(before->world, CAP_SECOND);
        c->at.step2 = (int)step;
        for (int state = killed ? -1 : 0; state < (int)count; state++) {
            c->at.state2 = state;
            if (passed_over((int)step, replay.step2) || passed_over(state, replay.state2)) continue;
            check_machine(c, before, state, NULL);
            c->second++;
        }
    }
    c->at.step2 = -1;
    c->at.state2 = 0;
}

static void crash_at(crashes *c, const moment *before, int state)
{
    moments steps = {0};
    c->at.state = state;
    uint64_t in = c->extended ? ONE_IN : ONE_IN_ALONE;
    bool turn = (c->states + c->kills) % in == in / 2 && !c->lies;
    bool cut = replaying ? replay.step2 >= 0 : turn;
    check_machine(c, before, state, cut ? &steps : NULL);
    if (cut) cut_recovery(c, &steps, state < 0);
    drop_moments(&steps);
}

/* False when the same disk was checked against the same past. */
static bool is_news(crashes *c, const moment *before, uint32_t state)
{
    const host_past *past = &before->past;
    checked *seen = &c->seen;
    if (seen->begun != past->begun || seen->acked != past->acked ||
        seen->checkpoint != past->checkpoint) {
        *seen = (checked){past->begun, past->acked, past->checkpoint, 0, {0}};
    }
    uint64_t hash = sim_disk_hash(before->world, state);
    for (uint32_t i = 0; i < seen->count; i++) {
        if (seen->hashes[i] == hash) return false;
    }
    if (seen->count < SEEN_MAX) seen->hashes[seen->count++] = hash;
    return true;
}

static void crash_moment(crashes *c, const moment *before)
{
    uint32_t count = sim_disk_count(before->world, c->lies ? CAP_LIES : CAP);
    uint32_t stride = (count + (uint32_t)states_wanted - 1) / (uint32_t)states_wanted;
    alarm(HANG_S);
    for (uint32_t i = 0; i < count; i++) {
        bool turn = i < 2 || (i + (uint32_t)c->at.step) % stride == 0;
        if (replaying && passed_over((int)i, replay.state)) continue;
        if (!replaying && (!turn || !is_news(c, before, i))) continue;
        crash_at(c, before, (int)i);
        c->states++;
    }
    /* A kill after a sync leaves what one before it does. */
    if (replaying ? passed_over(-1, replay.state) : c->at.step % KILL_ONE_IN != 0) return;
    crash_at(c, before, -1);
    c->kills++;
}

/* ---- a script -------------------------------------------------------------------------------- */

static void run_script(const crashes *c, moments *m)
{
    host h;
    sim *world = sim_create();
    host_start(&h, c->mode, c->extended, world);
    if (c->lies) host_lie(&h);
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, 1, NULL);
    m->running = &h;
    sim_each_step(world, keep_moment, m);
    bool right = host_open(&h) && host_run(&h, script);
    sim_each_step(world, NULL, NULL);
    if (!host_stop(&h) || !right) fail_msg("%s: %s", c->mode->name, h.words);
    sim_destroy(world);
}

static void crash_all(crashes *c)
{
    struct timespec began, ended;
    moments m = {0};
    bool mine = strcmp(replay_kind, kind_of(c)) == 0 && strcmp(replay_mode, c->mode->name) == 0;
    if (replaying && !mine) return;
    running = c;
    clock_gettime(CLOCK_MONOTONIC, &began);
    run_script(c, &m);
    for (uint32_t step = 0; step < m.count; step++) {
        c->at = (place){(int)step, 0, -1, 0};
        if (!passed_over((int)step, replay.step)) crash_moment(c, &m.all[step]);
    }
    alarm(0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%-10s %-15s %3u steps: %5llu disk states, %3llu kills, %4llu of a second crash, "
           "%llu with one side only (%llu as SQLite took it back), %.1f s\n",
           kind_of(c), c->mode->name, m.count, (unsigned long long)c->states,
           (unsigned long long)c->kills, (unsigned long long)c->second,
           (unsigned long long)(c->accounts_only + c->rollouts_only),
           (unsigned long long)c->taken_back,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
    drop_moments(&m);
}

/* ---- two connections ------------------------------------------------------------------------- */

static void expect_code(host *h, sqlite3 *db, const char *sql, int expected)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc != expected) fail_msg("%s: %s: expected %d, found %d", h->mode->name, sql, expected, rc);
}

static void expect_exclusion(const host_mode *mode)
{
    bool wal = strcmp(mode->journal, "WAL") == 0;
    host h;
    sqlite3 *other = NULL;
    sim *world = sim_create();
    host_start(&h, mode, false, world);
    assert_true(host_open(&h));
    expect_code(&h, h.db, "CREATE TABLE t(a); INSERT INTO t VALUES(1)", SQLITE_OK);
    assert_int_equal(sqlite3_open_v2("main.db", &other, SQLITE_OPEN_READWRITE, sim_vfs_name(h.vfs)),
                     SQLITE_OK);
    expect_code(&h, h.db, "BEGIN IMMEDIATE; INSERT INTO t VALUES(2)", SQLITE_OK);
    expect_code(&h, other, "BEGIN IMMEDIATE", SQLITE_BUSY);
    expect_code(&h, other, "BEGIN; SELECT * FROM t", SQLITE_OK);
    expect_code(&h, h.db, "COMMIT", wal ? SQLITE_OK : SQLITE_BUSY);
    if (!wal) expect_code(&h, other, "COMMIT; SELECT * FROM t", SQLITE_BUSY); /* it waits for us */
    if (!wal) expect_code(&h, h.db, "COMMIT", SQLITE_OK);
    else expect_code(&h, other, "COMMIT", SQLITE_OK);
    expect_code(&h, other, "INSERT INTO t SELECT max(a) + 1 FROM t", SQLITE_OK);
    expect_code(&h, h.db, "INSERT INTO t SELECT 4 WHERE (SELECT count(*) FROM t) = 3", SQLITE_OK);
    expect_code(&h, other, "DELETE FROM t WHERE a = 4", SQLITE_OK);
    assert_int_equal(sqlite3_changes(other), 1);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    if (!host_stop(&h)) fail_msg("%s: %s", mode->name, h.words);
    sim_destroy(world);
}

static void two_connections_exclude_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < host_mode_count; i++) expect_exclusion(&host_modes[i]);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void a_crash_leaves_an_ordinary_database_whole(void **state)
{
    (void)state;
    for (int i = 0; i < host_mode_count; i++) {
        crashes c = {.mode = &host_modes[i]};
        crash_all(&c);
    }
}

static void expect_wrong(crashes *c)
{
    crash_all(c);
    if (replaying) return;
    printf("           %llu are wrong, the first: %s\n", (unsigned long long)c->wrong,
           c->first_wrong);
    assert_true(c->wrong > 0);
}

static void syncs_that_do_nothing_are_found(void **state)
{
    (void)state;
    for (int i = 0; i < host_mode_count; i++) {
        if (host_modes[i].in_order) continue;
        crashes c = {.mode = &host_modes[i], .lies = true};
        expect_wrong(&c);
    }
    crashes c = {.mode = &host_modes[0], .extended = true, .lies = true};
    expect_wrong(&c);
}

static void a_crash_leaves_both_sides_whole(void **state)
{
    (void)state;
    for (int i = 0; i < host_mode_count; i++) {
        crashes c = {.mode = &host_modes[i], .extended = true};
        crash_all(&c);
        /* The store is prepared before SQLite commits. */
        assert_int_equal(c.accounts_only, 0);
        if (atomic == HOST_KEPT) assert_int_equal(c.rollouts_only, c.taken_back);
        if (atomic == HOST_ALWAYS) assert_int_equal(c.rollouts_only, 0);
    }
}

static int set_up(void **state)
{
    (void)state;
    signal(SIGALRM, hang);
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_settings();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_connections_exclude_each_other),
        cmocka_unit_test(a_crash_leaves_an_ordinary_database_whole),
        cmocka_unit_test(syncs_that_do_nothing_are_found),
        cmocka_unit_test(a_crash_leaves_both_sides_whole),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
