/* crash_test.c: every crash of every workload, in each form that the disk may take.
**
**     run the workload once: B steps that can change the disk
**     for b in 0..B: run it again, the machine stops after b steps; what was answered is noted
**         power cut:  each disk state -> recover: open, check, write, close, open, check
**                     some of them -> a second power cut at steps of that recovery, recover again
**         kill:       the machine lives on, what was written is still unsynced -> the same two
**
** harness_words.c has the workloads, harness.c what "recover" proves, sim.h which disk states there
** are. Nothing acknowledged may be lost, nothing else may come, the count must be right, every
** time: I1 I2 I4 I5 I7 I10 I11 I15; C10, because no name lives before its folder was synced.
**
** CRASH_CAP=n      at most n disk states of each power cut; 4096 leaves out next to none
** CRASH_ONE_IN=n   one disk state in n has its recovery cut, too; a kill always has
** CRASH_SECOND=n   the recovery is cut at one step in n, 1: at each
** CRASH_TEST=x     only the tests whose names fit this pattern, as *pledge*
** CRASH_REPLAY=x   only this crash, with all that the machine was asked; failures print the line */
#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    CAP = 400,
    ONE_IN = 300,
    SECOND = 20,
    CAP_SECOND = 6,  /* disk states of a second power cut               */
    DEEP_ONE_IN = 8, /* recoveries that flush and merge at the end, too */
    HANG_S = 120,
};

/* Where in the enumeration a run is. */
typedef struct place {
    int step;   /* the machine stopped after so many           */
    int kill;   /* 1: the process was killed, 0: a power cut   */
    int state;  /* of the disk after it, 0 for a kill          */
    int step2;  /* of the recovery; -1: no second power cut    */
    int state2; /* of the disk after that                      */
} place;

typedef struct crashes {
    const harness_workload *workload;
    place at;
    uint64_t cuts;   /* machines recovered after one power cut */
    uint64_t kills;  /* ... after a kill                       */
    uint64_t second; /* ... after two crashes                  */
} crashes;

/* Read by the address sanitizer, where there is one: with a short memory of what was freed, and by
** whom, it is several times as fast. For a finding: ASAN_OPTIONS=malloc_context_size=30 and the
** replay. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=4:malloc_context_size=1"; }

static int cap, one_in, second; /* the numbers above */
static uint64_t total;
static const crashes *running; /* for the watchdog */
static bool replaying;
static char replay_name[32];
static place replay;

/* ---- telling --------------------------------------------------------------------------------- */

static void print_replay(const crashes *c)
{
    const place *at = &c->at;
    fprintf(stderr,
            "CRASH_CAP=%d CRASH_REPLAY='%s|%d|%d|%d|%d|%d' build/asan/tests/doubt/crash_test\n",
            cap, c->workload->name, at->step, at->kill, at->state, at->step2, at->state2);
}

static void hang(int signal)
{
    (void)signal;
    fprintf(stderr, "no answer for %d s\n", HANG_S);
    print_replay(running);
    _exit(1);
}

static void print_files(sim *world)
{
    enum { NAMES_MAX = 64 };
    char names[NAMES_MAX][SIM_NAME_BYTES];
    uint32_t count =
        sim_file_exists(world, "store") ? sim_list(world, "store", names, NAMES_MAX) : 0;
    for (uint32_t i = 0; i < count && i < NAMES_MAX; i++) fprintf(stderr, "  has %s\n", names[i]);
}

/* cut: the machine whose power was cut, with its disk states counted; NULL where there was no
** cut. */
static void require(const crashes *c, harness *h, bool right, sim *cut, uint32_t state)
{
    if (right) return;
    fprintf(stderr, "%s: %s\n", c->workload->name, h->words);
    print_replay(c);
    print_files(h->world);
    if (cut) sim_disk_print(cut, state, stderr);
    if (replaying) sim_trace_print(h->world, stderr);
    fail();
}

static void read_replay(void)
{
    const char *text = getenv("CRASH_REPLAY");
    if (!text) return;
    place *at = &replay;
    int read = sscanf(text, "%31[^|]|%d|%d|%d|%d|%d", replay_name, &at->step, &at->kill, &at->state,
                      &at->step2, &at->state2);
    if (read != 6) fail_msg("not a replay: %s", text);
    replaying = true;
}

static int number_of(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    int number = text ? atoi(text) : otherwise;
    if (number < 1) fail_msg("%s: expected a number from 1, found %s", variable, text);
    return number;
}

static bool passed_over(int here, int wanted) { return replaying && here != wanted; }

/* The same choice in every run, also in a replay. */
static bool chosen(const place *at, int in)
{
    return (at->step + 7 * at->state + 3 * (at->step2 + 1) + at->state2) % in == 0;
}

/* ---- crashes --------------------------------------------------------------------------------- */

/* Runs the workload on a machine that stops after so many steps. */
static void run_until(const crashes *c, harness *h, sim *world, uint64_t steps)
{
    harness_start(h, c->workload, world, NULL);
    if (replaying) sim_trace(world, true);
    sim_stop_after(world, steps);
    bool right = harness_run(h, c->workload->script);
    if (right && !sim_stopped(world)) right = harness_close(h);
    right = harness_kill(h) && right;
    require(c, h, right, NULL, 0);
}

/* The machine after the crash that c->at names. */
static sim *machine_after(const crashes *c, sim *crashed)
{
    sim *after = c->at.kill ? sim_kill(crashed) : sim_disk_state(crashed, (uint32_t)c->at.state);
    if (replaying) sim_trace(after, true);
    return after;
}

static void recover_second(crashes *c, const harness *before, sim *crashed)
{
    uint32_t count = sim_disk_count(crashed, CAP_SECOND);
    for (uint32_t i = 0; i < count; i++) {
        c->at.state2 = (int)i;
        if (passed_over(c->at.state2, replay.state2)) continue;
        harness h;
        sim *after = sim_disk_state(crashed, i);
        if (replaying) sim_trace(after, true);
        harness_start(&h, c->workload, after, before);
        harness_power_cut(&h);
        harness_depth depth = chosen(&c->at, DEEP_ONE_IN) ? HARNESS_DEEP : HARNESS_QUICK;
        require(c, &h, harness_recover(&h, depth), crashed, i);
        sim_destroy(after);
        c->second++;
    }
}

/* A power cut at each step of the recovery. */
static void cut_recovery(crashes *c, const harness *before, sim *crashed, uint64_t steps)
{
    for (uint64_t step = 0; step < steps; step++) {
        c->at.step2 = (int)step;
        c->at.state2 = 0;
        bool turn = (c->at.step + c->at.step2) % second == 0;
        if (replaying ? passed_over(c->at.step2, replay.step2) : !turn) continue;
        harness h;
        sim *again = machine_after(c, crashed);
        harness_start(&h, c->workload, again, before);
        if (!c->at.kill) harness_power_cut(&h);
        sim_stop_after(again, step);
        bool right = harness_recover(&h, HARNESS_WHOLE);
        require(c, &h, right, c->at.kill ? NULL : crashed, (uint32_t)c->at.state);
        recover_second(c, &h, again);
        sim_destroy(again);
    }
    c->at.step2 = -1;
}

static void recover_one(crashes *c, const harness *before, sim *crashed)
{
    harness h;
    sim *after = machine_after(c, crashed);
    bool deep = c->at.kill || chosen(&c->at, DEEP_ONE_IN);
    bool cut = replaying ? replay.step2 >= 0 : c->at.kill || chosen(&c->at, one_in);
    harness_start(&h, c->workload, after, before);
    if (!c->at.kill) harness_power_cut(&h);
    bool right = harness_recover(&h, deep ? HARNESS_DEEP : HARNESS_WHOLE);
    require(c, &h, right, c->at.kill ? NULL : crashed, (uint32_t)c->at.state);
    uint64_t steps = sim_steps(after);
    sim_destroy(after);
    if (cut) cut_recovery(c, before, crashed, steps);
}

static void crash_at(crashes *c, uint64_t step)
{
    harness h;
    sim *world = sim_create();
    c->at = (place){(int)step, 0, 0, -1, 0};
    alarm(HANG_S);
    run_until(c, &h, world, step);
    uint32_t count = sim_disk_count(world, (uint32_t)cap);
    for (uint32_t i = 0; i < count; i++) {
        c->at.state = (int)i;
        if (passed_over(0, replay.kill) || passed_over(c->at.state, replay.state)) continue;
        recover_one(c, &h, world);
        c->cuts++;
    }
    c->at.kill = 1;
    c->at.state = 0;
    if (!passed_over(1, replay.kill)) {
        recover_one(c, &h, world);
        c->kills++;
    }
    sim_destroy(world);
}

static void crash_all(const char *name)
{
    crashes c = {.workload = harness_workload_named(name)};
    harness h;
    struct timespec began, ended;
    assert_non_null(c.workload);
    if (replaying && strcmp(name, replay_name) != 0) return;
    running = &c;
    clock_gettime(CLOCK_MONOTONIC, &began);
    sim *world = sim_create();
    run_until(&c, &h, world, UINT64_MAX);
    uint64_t steps = sim_steps(world);
    sim_destroy(world);
    for (uint64_t step = 0; step <= steps; step++) {
        if (!passed_over((int)step, replay.step)) crash_at(&c, step);
    }
    alarm(0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    total += c.cuts + c.kills + c.second;
    printf("%-16s %3llu steps: %6llu disk states, %3llu kills, %6llu states of a second crash, "
           "%5.1f s\n",
           name, (unsigned long long)steps, (unsigned long long)c.cuts, (unsigned long long)c.kills,
           (unsigned long long)c.second,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
}

/* ---- the workloads --------------------------------------------------------------------------- */

/* C10 */
static void a_crash_of_a_creation_leaves_a_store_or_none(void **state)
{
    (void)state;
    crash_all("create");
}

/* I1 C10 */
static void no_crash_loses_an_acknowledged_insert(void **state)
{
    (void)state;
    crash_all("insert");
}

/* I1 I2 C04: of a group any part may reach the disk; a prefix of it counts. */
static void no_crash_leaves_more_than_a_prefix_of_a_group(void **state)
{
    (void)state;
    crash_all("group");
}

/* I2 I7 */
static void no_crash_mixes_the_versions_of_one_id(void **state)
{
    (void)state;
    crash_all("one id");
}

/* I4 I15 C10 */
static void no_crash_of_a_rotation_loses_a_generation(void **state)
{
    (void)state;
    crash_all("rotation");
}

/* I4 I5 I11 C10 */
static void a_crash_of_a_flush_leaves_the_log_or_the_file(void **state)
{
    (void)state;
    crash_all("flush");
}

/* I5 I6 I11 C10 */
static void a_crash_of_a_merge_leaves_the_inputs_or_the_output(void **state)
{
    (void)state;
    crash_all("merge");
}

/* I5 I7 */
static void no_crash_of_a_merge_brings_a_deleted_row_back(void **state)
{
    (void)state;
    crash_all("merge of deletes");
}

/* I5 I6 I7 I11 C21: several levels of little files, tombstones above older versions. */
static void a_crash_of_a_leveled_merge_leaves_the_inputs_or_the_outputs(void **state)
{
    (void)state;
    crash_all("levels");
}

/* I5 I11 */
static void no_crash_of_a_move_loses_or_doubles_a_file(void **state)
{
    (void)state;
    crash_all("moves");
}

/* I2 I8 I10 */
static void no_crash_of_a_takeover_lets_two_epochs_write(void **state)
{
    (void)state;
    crash_all("takeover");
}

/* I2 */
static void no_crash_brings_a_cancelled_commit_back(void **state)
{
    (void)state;
    crash_all("abort");
}

/* I2 I7 */
static void a_crash_leaves_a_commit_and_its_compensation_in_order(void **state)
{
    (void)state;
    crash_all("compensation");
}

/* I2 I11 I15: all of a large transaction or nothing, and no file of it too many. */
static void no_crash_leaves_a_part_of_a_spilled_transaction(void **state)
{
    (void)state;
    crash_all("spill");
}

/* I2 C40 */
static void no_crash_brings_back_what_a_savepoint_took_back(void **state)
{
    (void)state;
    crash_all("spilled back");
}

/* I2 */
static void no_crash_brings_a_cancelled_spill_back(void **state)
{
    (void)state;
    crash_all("spilled abort");
}

/* I4 I5 I11 */
static void a_crash_leaves_spilled_files_to_the_log_or_the_manifest(void **state)
{
    (void)state;
    crash_all("spilled flush");
}

/* I8 I11 */
static void no_crash_of_a_takeover_loses_adopted_files(void **state)
{
    (void)state;
    crash_all("spilled over");
}

/* I1 I2 I15: the log is not synced, the files that it names are. */
static void without_syncs_no_crash_leaves_a_part_of_a_spill(void **state)
{
    (void)state;
    crash_all("spilled normal");
}

/* ---- particular cases ------------------------------------------------------------------------ */

static const harness_workload single = {"a case", "", 600, 1 << 20, false, false};
static const harness_workload large = {"a case", "", 3000, 1 << 20, false, false};

static void right(harness *h, bool yes)
{
    if (!yes) fail_msg("%s", h->words);
}

/* A store on which a script was run and whose process was killed then; no machine stops. */
static sim *store_after(harness *h, const harness_workload *workload, const char *script)
{
    sim *world = sim_create();
    harness_start(h, workload, world, NULL);
    right(h, harness_run(h, script));
    right(h, harness_kill(h));
    sim *killed = sim_kill(world);
    sim_destroy(world);
    return killed;
}

static void recover_copy(sim *world, const harness *before)
{
    harness h;
    sim *copy = sim_kill(world);
    harness_start(&h, before->workload, copy, before);
    right(&h, harness_recover(&h, HARNESS_DEEP));
    sim_destroy(copy);
}

/* Path of the last file of that kind. */
static void find_file(sim *world, const char *prefix, char path[80])
{
    enum { NAMES_MAX = 64 };
    char names[NAMES_MAX][SIM_NAME_BYTES];
    uint32_t count = sim_list(world, "store", names, NAMES_MAX);
    path[0] = 0;
    for (uint32_t i = 0; i < count && i < NAMES_MAX; i++) {
        if (strncmp(names[i], prefix, strlen(prefix)) == 0)
            snprintf(path, 80, "store/%.63s", names[i]);
    }
    assert_true(path[0]);
}

/* Where the zeros behind the last record begin. */
static uint64_t end_of_records(sim *world, const char *path)
{
    uint8_t bytes[8];
    uint64_t end = (uint64_t)sim_file_size(world, path) & ~(uint64_t)7;
    while (end > 0 && sim_file_read(world, path, end - 8, bytes, 8) == 8 &&
           memcmp(bytes, "\0\0\0\0\0\0\0", 8) == 0) {
        end -= 8;
    }
    return end;
}

/* C04 I2: of a group the first record is lost and a later one is on disk; the next session writes
** one of the lost one's length. Power cut again. */
static void a_record_behind_a_lost_one_stays_dead(void **state)
{
    (void)state;
    for (int odd = 0; odd < 2; odd++) { /* rows of odd and even numbers differ in length */
        harness h;
        sim *world = sim_create();
        harness_start(&h, &single, world, NULL);
        right(&h, harness_run(&h, "create open light+1"));
        sim_stop_after(world, 3); /* the held one's write and sync, the group's write */
        right(&h, harness_run(&h, "group+10+11+12+13"));
        right(&h, harness_kill(&h));
        uint32_t count = sim_disk_count(world, SIM_CAP_DEFAULT);
        assert_true(count > 20);
        for (uint32_t i = 0; i < count; i++) {
            harness next;
            sim *after = sim_disk_state(world, i);
            harness_start(&next, &single, after, &h);
            next.past.tag = (uint16_t)(next.past.tag + odd);
            right(&next, harness_run(&next, "open light+20"));
            right(&next, harness_kill(&next));
            uint32_t states = sim_disk_count(after, 4);
            for (uint32_t j = 0; j < states; j++) {
                sim *again = sim_disk_state(after, j);
                recover_copy(again, &next);
                sim_destroy(again);
            }
            sim_destroy(after);
        }
        sim_destroy(world);
    }
}

/* C05: the size of the file was made durable, its data was not. */
static void a_tail_of_zeros_is_no_damage(void **state)
{
    (void)state;
    static const uint64_t more[] = {1, 7, 48, 511, 4096, 1 << 20, (1 << 20) + 3};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        harness h;
        char path[80];
        sim *world = store_after(&h, &single, "create open light+1+2 full+3-1");
        find_file(world, "wal-", path);
        sim_file_truncate(world, path, end_of_records(world, path) + more[i]);
        recover_copy(world, &h);
        sim_destroy(world);
    }
}

/* Rubbish behind the last record that looks like one: `which` says how much. */
static void put_rubbish(sim *world, const char *path, int which)
{
    enum { HEADER = 96, RECORD_HEADER = 48, RECORD_BYTES = 40 };
    uint8_t bytes[1024];
    uint64_t end = end_of_records(world, path);
    size_t size =
        sim_file_read(world, path, HEADER, bytes, sizeof bytes); /* the first record, and more */
    assert_int_equal(size, sizeof bytes);
    if (which == 0) memset(bytes, 0xff, sizeof bytes);
    if (which == 1) memset(bytes + RECORD_BYTES, 0xf0, 4); /* a huge length */
    if (which == 2) memset(bytes + RECORD_BYTES, 0xff, 4);
    if (which == 3) memset(bytes + RECORD_HEADER, 0, 300); /* a hole in its payload */
    if (which == 4) size = RECORD_HEADER;                  /* the file ends in its middle */
    if (which == 5) size = RECORD_BYTES + 1;
    sim_file_truncate(world, path, end);
    sim_file_write(world, path, end, bytes,
                   size); /* 6: all of it is whole, but it has its place elsewhere */
}

/* C08 */
static void rubbish_behind_the_last_record_is_cut_off(void **state)
{
    (void)state;
    for (int which = 0; which <= 6; which++) {
        harness h;
        char path[80];
        sim *world = store_after(&h, &single, "create open light+1+2 full+3-1");
        find_file(world, "wal-", path);
        put_rubbish(world, path, which);
        recover_copy(world, &h);
        sim_destroy(world);
    }
}

/* C08: each sector of a record that was never acknowledged is zero in turn. */
static void a_record_with_a_hole_is_cut_off(void **state)
{
    (void)state;
    static const uint8_t zeros[SIM_UNIT_BYTES];
    for (uint64_t hole = 0; hole < 3000; hole += sizeof zeros) {
        harness h;
        char path[80];
        sim *world = store_after(&h, &large, "create open light+1 light+2");
        h.past.commits[1].fate = ORACLE_UNKNOWN; /* let it be one that was not synced */
        find_file(world, "wal-", path);
        uint64_t at = end_of_records(world, path) - 3000 + hole;
        sim_file_write(world, path, at, zeros, sizeof zeros);
        recover_copy(world, &h);
        sim_destroy(world);
    }
}

/* C13 I9: a manifest cut to any length; the name in the message, and no empty table. */
static void a_manifest_that_is_cut_is_named_and_never_read(void **state)
{
    (void)state;
    harness h;
    char path[80];
    sim *world = store_after(&h, &single, "create open full+1+2 flush close");
    find_file(world, "manifest-", path);
    int64_t whole = sim_file_size(world, path);
    assert_true(whole > 100);
    for (int64_t size = 0; size < whole; size++) {
        mw_err err = {0};
        mw_db *db;
        mw_options options = mw_options_default();
        sim *cut = sim_kill(world);
        sim_file_truncate(cut, path, (uint64_t)size);
        assert_int_equal(mw_db_open(sim_env(cut), "store", &options, NULL, &db, &err), MW_CORRUPT);
        if (!strstr(err.text, path + strlen("store/")))
            fail_msg("no name of the file: %s", err.text);
        assert_int_equal(sim_memory_in_use(cut), 0);
        assert_int_equal(sim_open_count(cut), 0);
        sim_destroy(cut);
    }
    recover_copy(world, &h);
    sim_destroy(world);
}

/* ---- main ------------------------------------------------------------------------------------ */

/* I1 I2 with durability normal: a kill loses nothing, a power cut the end of what was not
** synced. */
static void without_syncs_a_crash_leaves_a_prefix(void **state)
{
    (void)state;
    crash_all("normal");
}

/* I12: the host's commit decides, whenever the crash comes. */
static void a_crash_of_a_pledged_commit_leaves_what_the_host_says(void **state)
{
    (void)state;
    crash_all("both");
}

static void a_crash_of_a_spilled_pledge_leaves_what_the_host_says(void **state)
{
    (void)state;
    crash_all("spilled both");
}

static void without_syncs_a_pledge_is_synced_all_the_same(void **state)
{
    (void)state;
    crash_all("both normal");
}

static int set_up(void **state)
{
    (void)state;
    signal(SIGALRM, hang);
    read_replay();
    cap = number_of("CRASH_CAP", CAP);
    one_in = number_of("CRASH_ONE_IN", ONE_IN);
    second = number_of("CRASH_SECOND", SECOND);
    return 0;
}

static int print_total(void **state)
{
    (void)state;
    printf("%llu machines recovered after a crash\n", (unsigned long long)total);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_of_a_creation_leaves_a_store_or_none),
        cmocka_unit_test(no_crash_loses_an_acknowledged_insert),
        cmocka_unit_test(no_crash_leaves_more_than_a_prefix_of_a_group),
        cmocka_unit_test(no_crash_mixes_the_versions_of_one_id),
        cmocka_unit_test(no_crash_of_a_rotation_loses_a_generation),
        cmocka_unit_test(a_crash_of_a_flush_leaves_the_log_or_the_file),
        cmocka_unit_test(a_crash_of_a_merge_leaves_the_inputs_or_the_output),
        cmocka_unit_test(no_crash_of_a_merge_brings_a_deleted_row_back),
        cmocka_unit_test(a_crash_of_a_leveled_merge_leaves_the_inputs_or_the_outputs),
        cmocka_unit_test(no_crash_of_a_move_loses_or_doubles_a_file),
        cmocka_unit_test(no_crash_of_a_takeover_lets_two_epochs_write),
        cmocka_unit_test(no_crash_brings_a_cancelled_commit_back),
        cmocka_unit_test(a_crash_leaves_a_commit_and_its_compensation_in_order),
        cmocka_unit_test(no_crash_leaves_a_part_of_a_spilled_transaction),
        cmocka_unit_test(no_crash_brings_back_what_a_savepoint_took_back),
        cmocka_unit_test(no_crash_brings_a_cancelled_spill_back),
        cmocka_unit_test(a_crash_leaves_spilled_files_to_the_log_or_the_manifest),
        cmocka_unit_test(no_crash_of_a_takeover_loses_adopted_files),
        cmocka_unit_test(without_syncs_no_crash_leaves_a_part_of_a_spill),
        cmocka_unit_test(without_syncs_a_crash_leaves_a_prefix),
        cmocka_unit_test(a_crash_of_a_pledged_commit_leaves_what_the_host_says),
        cmocka_unit_test(a_crash_of_a_spilled_pledge_leaves_what_the_host_says),
        cmocka_unit_test(without_syncs_a_pledge_is_synced_all_the_same),
        cmocka_unit_test(a_record_behind_a_lost_one_stays_dead),
        cmocka_unit_test(a_tail_of_zeros_is_no_damage),
        cmocka_unit_test(rubbish_behind_the_last_record_is_cut_off),
        cmocka_unit_test(a_record_with_a_hole_is_cut_off),
        cmocka_unit_test(a_manifest_that_is_cut_is_named_and_never_read),
    };
    cmocka_set_test_filter(getenv("CRASH_TEST"));
    return cmocka_run_group_tests(tests, set_up, print_total);
}
