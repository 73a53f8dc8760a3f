/* fault_test.c: every call of every workload fails once, and from then on for ever.
**
**     for each workload, kind of call and n: the n-th call of that kind fails
**         run the workload: each statement answers an error, or is right; a writer that has stopped
**             acknowledges nothing more, and is opened again
**         disarm: what is open shows exactly what was acknowledged
**         close or kill: no memory, file, lock or thread is left
**         the process starts again, or the power is cut: opens without help, the oracle agrees
**
** The same with the faults in the opening after a kill and what follows it, and with the n-th
** allocation failing. Kinds and errors are in the table below; a failed sync comes in three forms,
** by what it does with the data (sim.h). harness_words.c has the workloads.
**
** FAULT_STRIDE=n   one call in n; 1 is each
** FAULT_ALLOC=n    one allocation in n; 1 is each
** FAULT_REPLAY=x   only this run, with all that the machine was asked; a failure prints the line */
#include "harness.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STRIDE = 2, ALLOC_STRIDE = 3, HANG_S = 60 };

/* Read by the address sanitizer, where there is one: see crash_test.c. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=4:malloc_context_size=1"; }

typedef struct kind {
    const char *name;
    sim_op op;
    int sys;
    sim_sync_failure mode; /* of a failed sync */
} kind;

static const kind kinds[] = {
    {"write EIO", SIM_WRITE, EIO, SIM_STAY_DIRTY},
    {"write ENOSPC", SIM_WRITE, ENOSPC, SIM_STAY_DIRTY},
    {"torn write", SIM_WRITE, SIM_TORN, SIM_STAY_DIRTY},
    {"sync, dirty", SIM_FILE_SYNC, EIO, SIM_STAY_DIRTY},
    {"sync, marked clean", SIM_FILE_SYNC, EIO, SIM_MARKED_CLEAN},
    {"sync, reverted", SIM_FILE_SYNC, EIO, SIM_REVERTED},
    {"sync ENOSPC", SIM_FILE_SYNC, ENOSPC, SIM_STAY_DIRTY},
    {"folder sync", SIM_DIR_SYNC, EIO, SIM_STAY_DIRTY},
    {"link EIO", SIM_LINK, EIO, SIM_STAY_DIRTY},
    {"link ENOSPC", SIM_LINK, ENOSPC, SIM_STAY_DIRTY},
    {"open EMFILE", SIM_OPEN, EMFILE, SIM_STAY_DIRTY},
    {"open ENOSPC", SIM_OPEN, ENOSPC, SIM_STAY_DIRTY},
    {"allocate EIO", SIM_ALLOCATE, EIO, SIM_STAY_DIRTY},
    {"allocate ENOSPC", SIM_ALLOCATE, ENOSPC, SIM_STAY_DIRTY},
    {"read", SIM_READ, EIO, SIM_STAY_DIRTY},
    {"size", SIM_SIZE, EIO, SIM_STAY_DIRTY},
    {"list", SIM_LIST, EIO, SIM_STAY_DIRTY},
    {"exists", SIM_EXISTS, EIO, SIM_STAY_DIRTY},
    {"unlink", SIM_UNLINK, EIO, SIM_STAY_DIRTY},
    {"close", SIM_CLOSE, EIO, SIM_STAY_DIRTY},
    {"lock", SIM_LOCK, EIO, SIM_STAY_DIRTY},
    {"map", SIM_MAP, ENOMEM, SIM_STAY_DIRTY},
    {"open folder", SIM_DIR_OPEN, EIO, SIM_STAY_DIRTY},
    {"random numbers", SIM_RANDOM, EIO, SIM_STAY_DIRTY},
    {"boot id", SIM_BOOT_ID, EIO, SIM_STAY_DIRTY},
    {"mutex", SIM_MUTEX, ENOMEM, SIM_STAY_DIRTY},
};
static const kind memory = {"memory", SIM_ALLOC, ENOMEM, SIM_STAY_DIRTY};

/* One run. */
typedef struct fault {
    const harness_workload *workload;
    const kind *kind;
    uint64_t n;    /* the call that fails                                         */
    bool for_ever; /* and all after it                                            */
    bool reopen;   /* not in the workload, but in what follows a kill at its end  */
} fault;

static int stride, alloc_stride;
static uint64_t runs, machines;
static const fault *running; /* for the watchdog */
static char replay[128];

/* ---- telling --------------------------------------------------------------------------------- */

static void name_run(const fault *f, char to[128])
{
    snprintf(to, 128, "%s|%s|%d|%d|%llu", f->workload->name, f->kind->name, f->for_ever, f->reopen,
             (unsigned long long)f->n);
}

static void print_replay(const fault *f)
{
    char name[128];
    name_run(f, name);
    fprintf(stderr, "FAULT_REPLAY='%s' build/asan/tests/doubt/fault_test\n", name);
}

static void hang(int signal)
{
    (void)signal;
    fprintf(stderr, "no answer for %d s\n", HANG_S);
    if (running) print_replay(running);
    _exit(1);
}

static void require(const fault *f, harness *h, bool right, const char *when)
{
    if (right) return;
    fprintf(stderr, "%s: %s\n", when, h->words);
    print_replay(f);
    if (replay[0]) sim_trace_print(h->world, stderr);
    fail();
}

/* ---- one run --------------------------------------------------------------------------------- */

/* The power is cut: nothing, or everything, that was not synced has reached the disk. */
static void cut_power(const fault *f, sim *world, const harness *before)
{
    uint32_t count = sim_disk_count(world, 2);
    for (uint32_t i = 0; i < count; i++) {
        harness h;
        sim *after = sim_disk_state(world, i);
        if (replay[0]) sim_trace(after, true);
        harness_start(&h, f->workload, after, before);
        harness_power_cut(&h);
        require(f, &h, harness_recover(&h, HARNESS_QUICK), "after a power cut");
        sim_destroy(after);
        machines++;
    }
}

/* The process starts again; what it has seen then outlives a power cut (I10). */
static void start_again(const fault *f, sim *world, const harness *before)
{
    harness h;
    sim *after = sim_kill(world);
    if (replay[0]) sim_trace(after, true);
    harness_start(&h, f->workload, after, before);
    require(f, &h, harness_recover(&h, f->n % 4 ? HARNESS_QUICK : HARNESS_DEEP), "after a restart");
    if (f->n % 3 == 0) cut_power(f, after, &h);
    sim_destroy(after);
    machines++;
}

static void arm(const fault *f, harness *h)
{
    h->lenient = true;
    sim_set_sync_failure(h->world, f->kind->mode);
    sim_fail(h->world, f->kind->op, f->n, f->kind->sys, f->for_ever);
}

/* Disarms; what is open must show what was acknowledged; ends it in one of two ways. */
static void disarm(const fault *f, harness *h)
{
    sim_fail_clear(h->world);
    h->lenient = false;
    if (h->db[h->owner]) require(f, h, harness_check(h, true), "disarmed");
    h->lenient = true; /* closing may tell of a failure that came before */
    require(f, h, f->n % 2 ? harness_close(h) : harness_kill(h), "at the end");
}

/* Returns whether there was an n-th call. */
static bool run_fault(const fault *f)
{
    static const char reopen[] = "open light+40 full+41-1 flush merge light+42 close open full-40";
    harness h;
    running = f;
    alarm(HANG_S);
    sim *world = sim_create();
    if (replay[0]) sim_trace(world, true);
    harness_start(&h, f->workload, world, NULL);
    if (!f->reopen) arm(f, &h);
    require(f, &h, harness_run(&h, f->workload->script), "in the workload");
    if (f->reopen) {
        require(f, &h, harness_kill(&h), "at the kill");
        harness before = h;
        sim *killed = sim_kill(world);
        if (replay[0]) sim_trace(killed, true);
        sim_destroy(world);
        world = killed;
        harness_start(&h, f->workload, world, &before);
        arm(f, &h);
        require(f, &h, harness_run(&h, reopen), "in the opening");
    }
    bool hit = sim_fail_hits(world) > 0;
    disarm(f, &h);
    if (hit && f->n % 5 == 0) cut_power(f, world, &h);
    if (hit) start_again(f, world, &h);
    sim_destroy(world);
    runs += hit;
    return hit;
}

static void run_kind(const harness_workload *workload, const kind *what, int step)
{
    for (int which = 0; which < 4; which++) {
        fault f = {workload, what, 0, which & 1, which & 2};
        /* Every step-th call, from another one on for each kind. */
        f.n = 1 + ((uint64_t)what->op + (uint64_t)which) % (uint64_t)step;
        while (run_fault(&f)) f.n += (uint64_t)step;
    }
}

static void fail_all(const char *name)
{
    const harness_workload *workload = harness_workload_named(name);
    uint64_t before = runs;
    assert_non_null(workload);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) run_kind(workload, &kinds[i], stride);
    uint64_t calls = runs - before;
    run_kind(workload, &memory, alloc_stride);
    alarm(0);
    printf("%-16s %5llu runs with a failed call, %5llu with a failed allocation\n", name,
           (unsigned long long)calls, (unsigned long long)(runs - before - calls));
}

/* ---- the workloads --------------------------------------------------------------------------- */

static void a_creation_that_fails_leaves_a_store_or_none(void **state)
{
    (void)state;
    fail_all("create");
}

/* I1 I10 */
static void an_insert_is_acknowledged_or_answers_an_error(void **state)
{
    (void)state;
    fail_all("insert");
}

/* I1 I10 C01 */
static void each_commit_of_a_group_has_its_own_true_answer(void **state)
{
    (void)state;
    fail_all("group");
}

/* I2 I7 */
static void a_failed_change_of_an_id_leaves_the_one_before(void **state)
{
    (void)state;
    fail_all("one id");
}

/* I4 L14 */
static void a_failed_rotation_holds_nothing_back_but_room(void **state)
{
    (void)state;
    fail_all("rotation");
}

/* I4 I5 L14 */
static void a_failed_flush_leaves_the_log(void **state)
{
    (void)state;
    fail_all("flush");
}

/* I5 I11 */
static void a_failed_merge_leaves_its_inputs(void **state)
{
    (void)state;
    fail_all("merge");
}

/* I5 I7 */
static void a_failed_merge_brings_no_deleted_row_back(void **state)
{
    (void)state;
    fail_all("merge of deletes");
}

/* I5 I6 I11 C65: merges over several levels and files. */
static void a_failed_leveled_merge_leaves_its_inputs(void **state)
{
    (void)state;
    fail_all("levels");
}

static void a_failed_move_leaves_the_file_where_it_was(void **state)
{
    (void)state;
    fail_all("moves");
}

/* I8 I10 */
static void a_failed_takeover_leaves_one_writer(void **state)
{
    (void)state;
    fail_all("takeover");
}

/* I2: rolled back, or unknown until reopened; never both over time. */
static void a_failed_abort_is_unknown_and_stops_the_writer(void **state)
{
    (void)state;
    fail_all("abort");
}

static void a_failed_compensation_is_unknown_and_stops_the_writer(void **state)
{
    (void)state;
    fail_all("compensation");
}

/* I1 I2 */
static void a_spill_that_fails_leaves_the_transaction_whole(void **state)
{
    (void)state;
    fail_all("spill");
}

/* I2 C40 */
static void a_failed_return_to_a_savepoint_mixes_nothing(void **state)
{
    (void)state;
    fail_all("spilled back");
}

/* I2 */
static void a_failed_abort_of_a_spill_keeps_the_files_for_the_next_owner(void **state)
{
    (void)state;
    fail_all("spilled abort");
}

/* I4 I5 */
static void a_failed_flush_leaves_adopted_files_to_the_log(void **state)
{
    (void)state;
    fail_all("spilled flush");
}

/* I8 */
static void a_failed_takeover_keeps_adopted_files(void **state)
{
    (void)state;
    fail_all("spilled over");
}

/* I10 with durability normal: a sync that fails later, too, stops the writer. */
static void without_syncs_a_fault_is_answered_all_the_same(void **state)
{
    (void)state;
    fail_all("normal");
}

/* I12 */
static void a_failed_pledge_is_taken_back_and_a_failed_decision_is_none(void **state)
{
    (void)state;
    fail_all("both");
}

static void a_failed_pledge_of_a_spill_is_taken_back(void **state)
{
    (void)state;
    fail_all("spilled both");
}

static void without_syncs_a_fault_of_a_spill_is_answered(void **state)
{
    (void)state;
    fail_all("spilled normal");
}

/* ---- particular cases ------------------------------------------------------------------------ */

static const harness_workload plain = {"a case", "", 600, 1 << 20, false, false};
static const harness_workload shared = {"a case", "", 600, 1 << 20, true, false};

typedef struct scene {
    fault of; /* for messages */
    sim *world;
    harness h;
} scene;

static void play(scene *s, const char *script)
{
    require(&s->of, &s->h, harness_run(&s->h, script), script);
}

static void begin(scene *s, const harness_workload *workload, const char *script)
{
    memset(s, 0, sizeof *s);
    s->of = (fault){.workload = workload, .kind = &memory};
    s->world = sim_create();
    harness_start(&s->h, workload, s->world, NULL);
    play(s, script);
    s->h.lenient = true;
}

static oracle_fate newest_fate(const scene *s, int back)
{
    return s->h.past.commits[s->h.past.commit_count - 1 - back].fate;
}

/* The power is cut, each disk state recovers; then the process ends, and the machine with it. */
static void end(scene *s)
{
    sim_fail_clear(s->world);
    s->h.lenient = false;
    if (s->h.db[s->h.owner]) require(&s->of, &s->h, harness_check(&s->h, true), "living");
    require(&s->of, &s->h, harness_kill(&s->h), "kill");
    start_again(&s->of, s->world, &s->h);
    uint32_t count = sim_disk_count(s->world, SIM_CAP_DEFAULT);
    for (uint32_t i = 0; i < count; i++) {
        harness h;
        sim *after = sim_disk_state(s->world, i);
        harness_start(&h, s->of.workload, after, &s->h);
        require(&s->of, &h, harness_recover(&h, HARNESS_DEEP), "after a power cut");
        sim_destroy(after);
    }
    sim_destroy(s->world);
}

/* C09 I1 I10: one sync fails, all later ones would work. */
static void after_a_failed_sync_nothing_is_acknowledged_until_reopened(void **state)
{
    (void)state;
    for (int mode = SIM_STAY_DIRTY; mode <= SIM_REVERTED; mode++) {
        scene s;
        begin(&s, &plain, "create open light+1");
        sim_set_sync_failure(s.world, (sim_sync_failure)mode);
        sim_fail_named(s.world, SIM_FILE_SYNC, "wal-", 1, EIO, false);
        play(&s, "light+2");
        assert_int_equal(newest_fate(&s, 0), ORACLE_UNKNOWN);
        play(&s, "full+3");
        assert_int_equal(newest_fate(&s, 0), ORACLE_FAILED);
        assert_true(harness_check(&s.h, true)); /* reading goes on */
        play(&s, "light+4");                    /* the harness opens the store again for it */
        assert_int_equal(newest_fate(&s, 0), ORACLE_ACKED);
        end(&s);
    }
}

/* C01 I1: the sync that eight commits share. */
static void a_failed_sync_fails_every_commit_that_it_covered(void **state)
{
    (void)state;
    scene s;
    begin(&s, &plain, "create open light+1");
    sim_fail_named(s.world, SIM_FILE_SYNC, "wal-", 2, EIO, false);
    play(&s, "group+10+11+12+13+14+15+16+17+18");
    for (int back = 0; back < 8; back++) assert_int_equal(newest_fate(&s, back), ORACLE_UNKNOWN);
    assert_int_equal(newest_fate(&s, 8), ORACLE_ACKED);
    end(&s);
}

static void take_cursor(void *arg, const char *name, const mw_value *value)
{
    if (strcmp(name, "wal_cursor") == 0) *(int64_t *)arg = value->integer;
}

static int64_t cursor_of(scene *s)
{
    int64_t cursor = -1;
    mw_err err = {0};
    assert_int_equal(mw_db_stats(s->h.db[0], take_cursor, &cursor, &err), MW_OK);
    return cursor;
}

/* L14 I4: the first generation cannot be written, the second could be. */
static void the_cursor_never_passes_a_generation_that_failed(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        scene s;
        begin(&s, &plain, "create open light+1");
        sim_fail_named(s.world, SIM_WRITE, "table-", 1, EIO, false);
        play(&s, "flush");
        assert_int_equal(sim_fail_hits(s.world), 1);
        assert_int_equal(cursor_of(&s), 0);
        if (last) {
            play(&s, "light+2 flush");
            assert_int_equal(newest_fate(&s, 0), ORACLE_ACKED);
            assert_int_equal(cursor_of(&s), 2);
        } else {
            sim_fail_named(s.world, SIM_WRITE, "table-", 1, EIO, true);
            play(&s, "light+2 flush");
            assert_int_equal(newest_fate(&s, 0), ORACLE_ACKED);
            assert_int_equal(cursor_of(&s), 0);
        }
        end(&s);
    }
}

/* L16 I8: the owner is another one; the look for its manifest fails. */
static void an_error_is_not_the_absence_of_a_newer_manifest(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        scene s;
        begin(&s, &shared, "create open light+1 b:open b:light+2");
        sim_fail_named(s.world, SIM_EXISTS, "manifest-", n, EIO, false);
        play(&s, "light+3");
        assert_int_not_equal(newest_fate(&s, 0), ORACLE_ACKED);
        play(&s, "b:light+4");
        assert_int_equal(newest_fate(&s, 0), ORACLE_ACKED);
        end(&s);
    }
}

/* L16: a folder that cannot be read is not an empty one. */
static void an_error_is_not_the_absence_of_a_store(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_DIR_OPEN, SIM_LIST, SIM_OPEN, SIM_SIZE, SIM_READ, SIM_EXISTS};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        scene s;
        mw_err err = {0};
        mw_schema schema = {.key = MW_KEY_INTEGER};
        mw_store_id id;
        mw_options options = mw_options_default();
        mw_db *db;
        begin(&s, &plain, "create open light+1 flush light+2 close");
        sim_fail(s.world, ops[i], 1, EIO, false);
        mw_rc rc = mw_db_open(&s.h.env, "store", &options, NULL, &db, &err);
        assert_int_equal(rc, MW_IO);
        sim_fail(s.world, ops[i], 1, EIO, false);
        rc = mw_db_create(&s.h.env, "store", &schema, &id, &err);
        assert_true(rc == MW_IO || rc == MW_EXISTS);
        end(&s);
    }
}

/* ---- what has to work all the same ----------------------------------------------------------- */

static void must_work(const harness_workload *workload, sim_op op, uint64_t n, int first, bool *hit)
{
    fault f = {.workload = workload, .kind = &memory, .n = n};
    harness h;
    sim *world = sim_create();
    harness_start(&h, workload, world, NULL);
    sim_fail(world, op, n, first, false);
    if (first == SIM_SHORT) sim_fail(world, op, n + 1, EINTR, false);
    bool right = harness_run(&h, workload->script) && harness_close(&h);
    require(&f, &h, right, "interrupted");
    *hit = sim_fail_hits(world) > 0;
    sim_fail_clear(world);
    if (n % 4 == 0) start_again(&f, world, &h);
    sim_destroy(world);
}

/* C12: half of it, then an interrupt, then the rest. */
static void short_and_interrupted_calls_just_work(void **state)
{
    (void)state;
    static const struct {
        sim_op op;
        int first;
    } calls[] = {{SIM_WRITE, SIM_SHORT}, {SIM_WRITE, EINTR},  {SIM_READ, SIM_SHORT},
                 {SIM_READ, EINTR},      {SIM_OPEN, EINTR},   {SIM_LINK, EINTR},
                 {SIM_ALLOCATE, EINTR},  {SIM_UNLINK, EINTR}, {SIM_CLOSE, EINTR}};
    uint64_t count = 0;
    for (uint32_t i = 0; i < harness_workload_count; i++) {
        for (size_t j = 0; j < sizeof calls / sizeof *calls; j++) {
            bool hit = true;
            for (uint64_t n = 1; hit; n += (uint64_t)stride) {
                must_work(&harness_workloads[i], calls[j].op, n, calls[j].first, &hit);
                count += hit;
            }
        }
    }
    printf("%llu calls were cut short or interrupted\n", (unsigned long long)count);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const kind *kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    }
    return strcmp(memory.name, name) == 0 ? &memory : NULL;
}

static void the_run_that_failed_before(void **state)
{
    (void)state;
    char workload[32], what[32];
    int for_ever, reopen;
    unsigned long long n;
    int read = sscanf(replay, "%31[^|]|%31[^|]|%d|%d|%llu", workload, what, &for_ever, &reopen, &n);
    assert_int_equal(read, 5);
    fault f = {harness_workload_named(workload), kind_named(what), n, for_ever, reopen};
    assert_non_null(f.workload);
    assert_non_null(f.kind);
    run_fault(&f);
}

static int print_total(void **state)
{
    (void)state;
    printf("%llu runs with a fault, %llu machines recovered after them\n", (unsigned long long)runs,
           (unsigned long long)machines);
    return 0;
}

static int number_of(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_creation_that_fails_leaves_a_store_or_none),
        cmocka_unit_test(an_insert_is_acknowledged_or_answers_an_error),
        cmocka_unit_test(each_commit_of_a_group_has_its_own_true_answer),
        cmocka_unit_test(a_failed_change_of_an_id_leaves_the_one_before),
        cmocka_unit_test(a_failed_rotation_holds_nothing_back_but_room),
        cmocka_unit_test(a_failed_flush_leaves_the_log),
        cmocka_unit_test(a_failed_merge_leaves_its_inputs),
        cmocka_unit_test(a_failed_merge_brings_no_deleted_row_back),
        cmocka_unit_test(a_failed_leveled_merge_leaves_its_inputs),
        cmocka_unit_test(a_failed_move_leaves_the_file_where_it_was),
        cmocka_unit_test(a_failed_takeover_leaves_one_writer),
        cmocka_unit_test(a_failed_abort_is_unknown_and_stops_the_writer),
        cmocka_unit_test(a_failed_compensation_is_unknown_and_stops_the_writer),
        cmocka_unit_test(a_spill_that_fails_leaves_the_transaction_whole),
        cmocka_unit_test(a_failed_return_to_a_savepoint_mixes_nothing),
        cmocka_unit_test(a_failed_abort_of_a_spill_keeps_the_files_for_the_next_owner),
        cmocka_unit_test(a_failed_flush_leaves_adopted_files_to_the_log),
        cmocka_unit_test(a_failed_takeover_keeps_adopted_files),
        cmocka_unit_test(without_syncs_a_fault_of_a_spill_is_answered),
        cmocka_unit_test(without_syncs_a_fault_is_answered_all_the_same),
        cmocka_unit_test(a_failed_pledge_is_taken_back_and_a_failed_decision_is_none),
        cmocka_unit_test(a_failed_pledge_of_a_spill_is_taken_back),
        cmocka_unit_test(after_a_failed_sync_nothing_is_acknowledged_until_reopened),
        cmocka_unit_test(a_failed_sync_fails_every_commit_that_it_covered),
        cmocka_unit_test(the_cursor_never_passes_a_generation_that_failed),
        cmocka_unit_test(an_error_is_not_the_absence_of_a_newer_manifest),
        cmocka_unit_test(an_error_is_not_the_absence_of_a_store),
        cmocka_unit_test(short_and_interrupted_calls_just_work),
    };
    const struct CMUnitTest one[] = {cmocka_unit_test(the_run_that_failed_before)};
    const char *text = getenv("FAULT_REPLAY");
    signal(SIGALRM, hang);
    if (text) snprintf(replay, sizeof replay, "%s", text);
    stride = number_of("FAULT_STRIDE", STRIDE);
    alloc_stride = number_of("FAULT_ALLOC", ALLOC_STRIDE);
    cmocka_set_test_filter(text ? NULL : getenv("FAULT_TEST"));
    return text ? cmocka_run_group_tests(one, NULL, NULL)
                : cmocka_run_group_tests(tests, NULL, print_total);
}
