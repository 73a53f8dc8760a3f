/* harness.c: machines, answers, opening and closing, and what a store must still do after a crash.
**
** What an answer means (db.h): OK is durable; "persistence" is unknown until a reopen; everything
** else has certainly not happened. After a reopen the unknown is settled by what is read: from then
** on it has happened or never may. */
#include "harness_inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char store_path[] = "store";

enum {
    CLOCK_SPEED = 100,  /* a peer's seal is waited for 10 ms, not a second */
    LITTLE_BYTES = 900, /* of a base file, where it shall be tiny */
    GROW_BYTES = 4096,  /* of a log segment: the rest would be zeros that each opening reads */
};

bool harness_wrong(harness *h, const char *format, ...)
{
    if (h->words[0]) return false; /* the first one counts */
    va_list args;
    va_start(args, format);
    vsnprintf(h->words, sizeof h->words, format, args);
    va_end(args);
    return false;
}

void harness_give_up(const char *why, const char *what)
{
    fprintf(stderr, "harness: %s: %s\n", why, what);
    abort();
}

/* ---- the machine ----------------------------------------------------------------------------- */

static uint64_t fast_now(void *world) { return sim_env(world)->now_ns(world) * CLOCK_SPEED; }

static bool fast_wait(void *world, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    uint64_t until = deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns / CLOCK_SPEED + 1;
    return sim_env(world)->cond_wait(world, cond, mutex, until);
}

/* Where a commit is not synced nobody shall do it when a time has passed, but when the script says
** so. */
static uint64_t still_now(void *world)
{
    (void)world;
    return (uint64_t)1 << 40;
}

static bool still_wait(void *world, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    (void)deadline_ns;
    return sim_env(world)->cond_wait(world, cond, mutex, UINT64_MAX);
}

static int grow_little(void *world, int file, uint64_t offset, uint64_t bytes)
{
    return sim_env(world)->file_allocate(world, file, offset, mw_min(bytes, GROW_BYTES));
}

/* The page that processes share is looked at by nobody here, and says nothing after a power cut: it
** is left out of the disk states, which it would double. follow_test has it. */
static int map_apart(void *world, int file, size_t bytes, void **at)
{
    (void)world;
    (void)file;
    *at = calloc(1, bytes);
    return *at ? 0 : ENOMEM;
}

static void unmap_apart(void *world, void *at, size_t bytes)
{
    (void)world;
    (void)bytes;
    free(at);
}

void harness_start(harness *h, const harness_workload *workload, sim *world, const harness *before)
{
    memset(h, 0, sizeof *h);
    h->workload = workload;
    h->world = world;
    h->env = *sim_env(world);
    h->env.now_ns = workload->normal ? still_now : fast_now;
    h->env.cond_wait = workload->normal ? still_wait : fast_wait;
    h->env.file_allocate = grow_little;
    h->env.file_map = map_apart;
    h->env.file_unmap = unmap_apart;
    if (before) h->past = before->past;
}

static mw_options options_of(const harness *h)
{
    mw_options options = mw_options_default();
    options.memtable_bytes = h->workload->memtable_bytes;
    options.cache_bytes = 1 << 16;
    options.background = false;
    options.group_rows = 2;
    options.compression = 0;
    options.file_bytes = h->past.little ? LITTLE_BYTES : 0;
    options.shared = h->workload->shared;
    options.durability = h->workload->normal ? MW_DURABILITY_NORMAL : MW_DURABILITY_FULL;
    return options;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Is that an answer that the call may give here? */
bool harness_allowed(harness *h, const char *what, mw_rc rc, const mw_err *err)
{
    if (rc == MW_OK) return true;
    bool honest =
        rc == MW_NOMEM || rc == MW_IO || rc == MW_FULL || rc == MW_FENCED || rc == MW_PERSISTENCE ||
        (rc == MW_UNDECIDED && strstr(h->workload->name, "both")); /* a claim has failed */
    if (honest && (h->lenient || sim_stopped(h->world))) return true;
    return harness_wrong(h, "%s answered '%s': %s", what, mw_rc_text(rc), err->text);
}

void harness_note_stop(harness *h, int engine, mw_rc rc)
{
    if (rc == MW_PERSISTENCE || rc == MW_FENCED) h->stopped[engine] = true;
}

static bool is_idle(harness *h)
{
    for (int i = 0; i < HARNESS_ENGINES; i++) {
        if (h->db[i]) return true;
    }
    uint64_t bytes = sim_memory_in_use(h->world);
    uint32_t open = sim_open_count(h->world);
    uint32_t objects = sim_object_count(h->world);
    if (!bytes && !open && !objects) return true;
    return harness_wrong(
        h, "left after the end: %llu bytes of memory, %u open files, %u locks or threads",
        (unsigned long long)bytes, open, objects);
}

/* A writer has stopped: a sync may have failed, and that loses as much as a power cut. Where the
** machine has stopped it is another's turn to say what that did. */
static void lose_unsynced(harness *h)
{
    if (!sim_stopped(h->world)) harness_power_cut(h);
}

bool harness_close_engine(harness *h, int engine)
{
    mw_err err = {0};
    if (!h->db[engine]) return true;
    mw_rc rc = mw_db_close(h->db[engine], &err);
    bool expected = h->stopped[engine] && (rc == MW_FENCED || rc == MW_PERSISTENCE);
    h->db[engine] = NULL;
    h->stopped[engine] = h->probed[engine] = false;
    if (rc == MW_PERSISTENCE) lose_unsynced(h);
    if (rc == MW_OK) h->past.synced = h->past.commit_count;
    return (expected || harness_allowed(h, "close", rc, &err)) && is_idle(h);
}

bool harness_close(harness *h)
{
    bool right = true;
    for (int i = 0; i < HARNESS_ENGINES; i++) right = harness_close_engine(h, i) && right;
    return right && is_idle(h);
}

bool harness_kill(harness *h)
{
    for (int i = 0; i < HARNESS_ENGINES; i++) {
        if (h->stopped[i]) lose_unsynced(h);
        if (h->db[i]) mw_db_abandon(h->db[i]);
        h->db[i] = NULL;
        h->stopped[i] = h->probed[i] = false;
    }
    return is_idle(h);
}

/* ---- opening --------------------------------------------------------------------------------- */

bool harness_create_store(harness *h)
{
    static const uint32_t ids[COLUMNS] = {1, 2, 3};
    mw_schema schema = {.key = MW_KEY_INTEGER, .column_count = COLUMNS, .column_ids = ids};
    mw_store_id id;
    mw_err err = {0};
    mw_rc rc = mw_db_create(&h->env, store_path, &schema, &id, &err);
    if (rc == MW_OK) h->past.created = true;
    /* An earlier try has failed, but what it made may stand. */
    bool again = rc == MW_EXISTS && h->lenient && !h->past.created;
    return again || harness_allowed(h, "create", rc, &err);
}

static bool is_blank(const harness *h)
{
    return !h->past.created && !harness_any_fate(h, ORACLE_ACKED);
}

/* A store whose creation was never acknowledged may be missing: then it can be made. */
bool harness_open_engine(harness *h, int engine)
{
    mw_options options = options_of(h);
    mw_err err = {0};
    mw_db **db = &h->db[engine];
    mw_rc rc = mw_db_open(&h->env, store_path, &options, NULL, db, &err);
    if (rc == MW_MISSING && is_blank(h)) {
        if (!harness_create_store(h)) return false;
        err = (mw_err){0};
        rc = mw_db_open(&h->env, store_path, &options, NULL, db, &err);
        if (rc == MW_MISSING && is_blank(h)) rc = MW_IO; /* it could not be made */
    }
    if (rc != MW_OK) return harness_allowed(h, "open", rc, &err);
    h->stopped[engine] = h->probed[engine] = false;
    h->owner = engine;
    mw_judge judge = harness_judge(h);
    rc = mw_db_settle(*db, WAIT_MS, &judge, &err);
    if (rc != MW_OK)
        return harness_allowed(h, "settle", rc, &err) && harness_close_engine(h, engine);
    if (!harness_check(h, false)) return false;
    h->past.synced = h->past.commit_count; /* the opening has made durable what it shows */
    /* What is still unknown could not be read: then this engine must not go on. */
    return harness_any_fate(h, ORACLE_UNKNOWN) ? harness_close_engine(h, engine) : true;
}

/* ---- after a crash --------------------------------------------------------------------------- */

static void note_fault(void *arg, const char *line) { harness_wrong(arg, "check found: %s", line); }

static bool prove(harness *h)
{
    mw_err err = {0};
    uint32_t faults = 0;
    mw_rc rc = mw_db_check(h->db[h->owner], note_fault, h, &faults, &err);
    return harness_allowed(h, "check", rc, &err) &&
           (faults == 0 || harness_wrong(h, "check found %u faults", faults));
}

typedef struct figures {
    int64_t rows;
    int64_t physical_rows;
    int64_t generations;
    int64_t files;
} figures;

static void take_figure(void *arg, const char *name, const mw_value *value)
{
    figures *to = arg;
    if (strcmp(name, "rows") == 0) to->rows = value->integer;
    if (strcmp(name, "physical_rows") == 0) to->physical_rows = value->integer;
    if (strcmp(name, "generations") == 0) to->generations = value->integer;
    if (strcmp(name, "files") == 0) to->files = value->integer;
}

/* After everything was compacted. */
static bool check_compact(harness *h)
{
    figures now = {-1, -1, -1, -1};
    mw_err err = {0};
    mw_rc rc = mw_db_stats(h->db[h->owner], take_figure, &now, &err);
    if (rc != MW_OK) return harness_allowed(h, "stats", rc, &err);
    h->files = now.files;
    bool one = now.files <= 1 || h->past.little;
    if (now.generations == 0 && now.physical_rows == now.rows && one) return true;
    return harness_wrong(
        h, "after a compaction of everything: %lld rows, %lld physical ones, %lld generations",
        (long long)now.rows, (long long)now.physical_rows, (long long)now.generations);
}

/* After that and a close: one manifest, the listed table files, one log segment; nothing
** temporary. */
static bool check_folder(harness *h)
{
    enum { NAMES_MAX = 64 };
    const struct {
        const char *prefix;
        int most;
    } kinds[] = {{"tmp-", 0}, {"manifest-", 1}, {"table-", (int)h->files}, {"wal-", 1}};
    char names[NAMES_MAX][SIM_NAME_BYTES];
    uint32_t count = sim_list(h->world, store_path, names, NAMES_MAX);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        int found = 0;
        size_t length = strlen(kinds[kind].prefix);
        for (uint32_t i = 0; i < count && i < NAMES_MAX; i++) {
            found += strncmp(names[i], kinds[kind].prefix, length) == 0;
        }
        if (found > kinds[kind].most) {
            return harness_wrong(h, "%d files named %s are left, expected %d", found,
                                 kinds[kind].prefix, kinds[kind].most);
        }
    }
    return true;
}

static bool over(const harness *h) { return sim_stopped(h->world); }

/* Opens, looks at everything, runs the words. */
static bool go_on(harness *h, const char *script)
{
    bool right = harness_open_engine(h, 0);
    if (right && !over(h) && !h->db[0]) right = harness_wrong(h, "nothing is settled");
    if (right && !over(h)) right = prove(h);
    if (right && !over(h)) right = harness_run(h, script);
    return right;
}

bool harness_recover(harness *h, harness_depth depth)
{
    bool deep = depth == HARNESS_DEEP;
    h->lenient = false;
    bool right =
        go_on(h, depth == HARNESS_QUICK ? "light+40" : "light+40 full+41-1 light+42 close");
    if (depth != HARNESS_QUICK && right && !over(h)) right = go_on(h, deep ? "flush compact" : "");
    if (right && !over(h) && deep) right = check_compact(h) && harness_check(h, false);
    if (!right || over(h)) return harness_kill(h) && right;
    return harness_close(h) && (!deep || check_folder(h));
}
