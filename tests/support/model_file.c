/* model_file.c: jobs that make files, the manifest that lists them, and who removes files.
**
**     start    files 1, 2 listed (the same rows in 1 + 2, in 3 and in 4); a log segment above the
**              cursor (its rows also in 5 and in 6)
**     jobs     merge 1 + 2 -> 3, merge 1 + 2 -> 4, flush -> 5, flush -> 6: write, sync, read the
**              newest manifest, create the next, sync the folder, remove what is covered
**     owner    a successor: claims, seals, sweeps what no manifest lists; the even jobs are its own
**              once it has sealed
**
** There is one manifest that processes see, and one that the disk has for certain. A removed file
** is gone at once, that is the worst case; that the disk may bring it back makes a leftover at
** most. */
#include "model.h"

#include <assert.h>

enum { JOBS = 4, SEGMENT = 7, CUTS = 2 };

/* clang-format off */
#define RULES(X)                                                                                   \
    X(SUCCESSOR,     "a job's manifest is made from the one that it replaces",                     \
                     "a flush that came in between is undone")                                     \
    X(INPUTS_LISTED, "a job whose inputs are not listed any more is dropped",                      \
                     "two merges of the same files both count")                                    \
    X(OWN_EPOCH,     "a job of an epoch that is over is dropped",                                  \
                     "the new owner has swept its output")                                         \
    X(OUTPUT_SYNCED, "an output is durable before a manifest lists it",                            \
                     "the manifest survives a power cut, its file does not")                       \
    X(ONE_VERSION,   "one manifest lists the file and moves the cursor",                           \
                     "a crash in between: the rows count twice")                                   \
    X(REMOVE_AFTER,  "inputs and segments go when the manifest is durable",                        \
                     "the older manifest comes back, its files do not")                            \
    X(UNKNOWN_STAYS, "after an error of unknown outcome the output stays",                         \
                     "the manifest is there after all")                                            \
    X(SWEEP_LOWER,   "a sweep takes files of lower epochs only",                                   \
                     "it takes those of the owner's own running jobs")
/* clang-format on */

MODEL_RULES(MODEL_FILE_FIRST)

typedef struct manifest {
    uint8_t number;
    uint8_t epoch;
    uint8_t listed; /* files, by bit */
    uint8_t cursor; /* 1: the segment is covered */
} manifest;

typedef enum phase {
    IDLE,
    WRITTEN,
    SYNCED,
    READ,    /* knows the newest manifest      */
    CREATED, /* its own, the folder not synced */
    HALF,    /* lists its file, has to move the cursor yet */
    DURABLE,
    DONE,
} phase;

typedef struct job {
    uint8_t phase;
    uint8_t epoch;
    uint8_t number; /* of the manifest that it replaces */
    uint8_t listed; /* there */
} job;

typedef enum reign { OUTSIDE, CLAIMED, SEALED, GONE } reign;

typedef struct state {
    manifest seen, disk;
    job jobs[JOBS];
    uint8_t there, durable; /* files, by bit */
    uint8_t owner;
    uint8_t epochs[JOBS]; /* whose name each job's file bears */
    uint8_t cut, failed;
    uint8_t spare[7];
} state;

static_assert(sizeof(state) % 8 == 0, "the search hashes words");

typedef struct move {
    search *self;
    const state *from;
    state next;
    int who;
    job *j; /* in `next` */
} move;

static const char *const names[JOBS] = {"merge 3", "merge 4", "flush 5", "flush 6"};

static uint8_t bit(int file) { return (uint8_t)(1 << file); }
static int output_of(int who) { return 3 + who; }
static bool is_flush(int who) { return who >= 2; }
static uint8_t inputs_of(int who) { return is_flush(who) ? bit(SEGMENT) : bit(1) | bit(2); }
static bool keeps(const move *m, int rule) { return search_keeps(m->self, rule); }

static void take(move *m, search_kind kind, const char *what)
{
    search_step(m->self, &m->next, kind, names[m->who], what);
    m->next = *m->from;
}

/* ---- what must hold -------------------------------------------------------------------------- */

static int copies(uint8_t listed, int first)
{
    return ((listed & bit(first)) != 0) + ((listed & bit(first + 1)) != 0);
}

static const char *broken(const search *self, const void *of)
{
    const state *s = of;
    const manifest *seen = &s->seen;
    uint8_t needed = seen->listed;
    (void)self;
    if (!seen->cursor) needed |= bit(SEGMENT);
    if (needed & ~s->there) return "I11: a file is gone that the newest manifest needs";
    int merged = copies(seen->listed, 3) + ((seen->listed & bit(1)) != 0);
    if (merged > 1) return "I6: two files of the base have the same rows";
    if (merged < 1) return "I5: rows of a merge are in no listed file";
    int flushed = copies(seen->listed, 5);
    if (flushed > seen->cursor) return "I4: a row is in a listed file and in the log";
    if (flushed < seen->cursor) return "I4: the cursor has passed a row that is in no listed file";
    return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void start_job(move *m)
{
    bool even = m->who % 2;
    bool sealed = m->from->owner == SEALED;
    /* The second merge may be that of another process under the same epoch. */
    if (m->who == 3 && !sealed) return;
    m->j->epoch = even && sealed ? 2 : 1;
    m->next.epochs[m->who] = m->j->epoch;
    if (m->j->epoch < m->from->seen.epoch) return;
    m->j->phase = WRITTEN;
    m->j->listed = m->from->seen.listed;
    m->next.there |= bit(output_of(m->who));
    take(m, SEARCH_CHOICE, "writes its output");
}

static void sync_output(move *m)
{
    m->j->phase = SYNCED;
    m->next.durable |= m->from->there & bit(output_of(m->who));
    take(m, SEARCH_DUTY, "syncs its output");
    if (keeps(m, OUTPUT_SYNCED)) return;
    m->j->phase = SYNCED;
    take(m, SEARCH_CHOICE, "does not sync its output");
}

static bool has_inputs(const move *m)
{
    const manifest *seen = &m->from->seen;
    if (is_flush(m->who)) return !seen->cursor;
    return (seen->listed & inputs_of(m->who)) == inputs_of(m->who);
}

static void drop(move *m)
{
    m->next.there &= (uint8_t)~bit(output_of(m->who));
    m->next.durable &= m->next.there;
    *m->j = (job){.phase = DONE};
    take(m, SEARCH_DUTY, "is of no use any more: removes its output");
}

static void read_manifest(move *m)
{
    const manifest *seen = &m->from->seen;
    bool own = seen->epoch == m->j->epoch || !keeps(m, OWN_EPOCH);
    if (!own || (keeps(m, INPUTS_LISTED) && !has_inputs(m))) {
        drop(m);
        return;
    }
    m->j->phase = READ;
    m->j->number = seen->number;
    if (keeps(m, SUCCESSOR)) m->j->listed = seen->listed;
    take(m, SEARCH_DUTY, "reads the newest manifest");
}

static void create(move *m)
{
    static const char *const words[] = {"creates the next manifest",
                                        "creates the next manifest, and is told of an error"};
    manifest *seen = &m->next.seen;
    if (m->j->number != seen->number) {
        m->j->phase = SYNCED;
        take(m, SEARCH_DUTY, "was too late: that number is taken");
        return;
    }
    for (int fails = 0; fails < 2 - m->from->failed; fails++) {
        bool both = !is_flush(m->who) || keeps(m, ONE_VERSION);
        seen->number++;
        seen->listed = (uint8_t)((m->j->listed & ~inputs_of(m->who)) | bit(output_of(m->who)));
        if (is_flush(m->who) && both) seen->cursor = 1;
        m->j->phase = both ? CREATED : HALF;
        if (fails) {
            m->next.failed = 1;
            *m->j = (job){.phase = DONE};
            if (!keeps(m, UNKNOWN_STAYS)) {
                m->next.there &= (uint8_t)~bit(output_of(m->who));
                m->next.durable &= m->next.there;
            }
        }
        take(m, fails ? SEARCH_FAULT : SEARCH_DUTY, words[fails]);
    }
}

static void move_cursor(move *m)
{
    m->next.seen.number++;
    m->next.seen.cursor = 1;
    m->j->phase = CREATED;
    take(m, SEARCH_DUTY, "creates another manifest, which moves the cursor");
}

static void remove_inputs(move *m)
{
    m->next.there &= (uint8_t)~inputs_of(m->who);
    m->next.durable &= m->next.there;
    *m->j = (job){.phase = DONE};
    take(m, SEARCH_DUTY, "removes what its output covers");
}

static void sync_folder(move *m)
{
    m->next.disk = m->from->seen;
    m->j->phase = DURABLE;
    take(m, SEARCH_DUTY, "syncs the folder");
    if (!keeps(m, REMOVE_AFTER)) remove_inputs(m);
}

/* ---- a new owner ----------------------------------------------------------------------------- */

static void publish_epoch(search *self, const state *s, int to, const char *what)
{
    state next = *s;
    next.seen.number++;
    next.seen.epoch = 2;
    next.disk = next.seen;
    next.owner = (uint8_t)to;
    search_step(self, &next, to == CLAIMED ? SEARCH_CHOICE : SEARCH_DUTY, "owner", what);
}

static void sweep(search *self, const state *s)
{
    for (int who = 0; who < JOBS; who++) {
        uint8_t file = bit(output_of(who));
        bool lower = s->epochs[who] < 2;
        if (!(s->there & file) || (s->seen.listed & file)) continue;
        if (!lower && search_keeps(self, SWEEP_LOWER)) continue;
        state next = *s;
        next.there &= (uint8_t)~file;
        next.durable &= next.there;
        search_step(self, &next, SEARCH_CHOICE, "owner", "sweeps a file that no manifest lists");
    }
}

static void own(search *self, const state *s)
{
    if (s->owner == OUTSIDE) publish_epoch(self, s, CLAIMED, "claims the next epoch");
    if (s->owner == CLAIMED) publish_epoch(self, s, SEALED, "seals it");
    if (s->owner == SEALED) sweep(self, s);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void crash(search *self, const state *s)
{
    uint8_t unsure = s->there & (uint8_t)~s->durable;
    if (s->cut == CUTS) return;
    for (int kept = 0; kept < 256; kept++) {
        if (kept & ~unsure) continue;
        for (int newest = 0; newest < 2; newest++) {
            state next = *s;
            next.cut++;
            next.there = next.durable = (uint8_t)(s->durable | kept);
            next.seen = next.disk = newest ? s->seen : s->disk;
            for (int i = 0; i < JOBS; i++) {
                if (next.jobs[i].phase != IDLE) next.jobs[i] = (job){.phase = DONE};
            }
            if (next.owner != OUTSIDE) next.owner = GONE;
            search_step(self, &next, SEARCH_FAULT, "machine",
                        newest ? "loses power" : "loses power, and the newest manifest");
        }
    }
}

/* ---- the model ------------------------------------------------------------------------------- */

static void start(void *of)
{
    state *s = of;
    s->seen = s->disk = (manifest){1, 1, bit(1) | bit(2), 0};
    s->there = s->durable = bit(1) | bit(2) | bit(SEGMENT);
}

static void steps(search *self, const void *of)
{
    static void (*const by_phase[DONE])(move *) = {
        [IDLE] = start_job,   [WRITTEN] = sync_output, [SYNCED] = read_manifest,  [READ] = create,
        [HALF] = move_cursor, [CREATED] = sync_folder, [DURABLE] = remove_inputs,
    };
    const state *s = of;
    for (int who = 0; who < JOBS; who++) {
        if (s->jobs[who].phase == DONE) continue;
        move m = {.self = self, .from = s, .next = *s, .who = who};
        m.j = &m.next.jobs[who];
        by_phase[m.j->phase](&m);
    }
    own(self, s);
    crash(self, s);
}

static bool waiting(const void *of)
{
    const state *s = of;
    for (int who = 0; who < JOBS; who++) {
        if (s->jobs[who].phase != IDLE && s->jobs[who].phase != DONE) return true;
    }
    return s->owner == CLAIMED;
}

const search_model model_file = {
    "files", sizeof(state), rules, RULE_COUNT, start, steps, broken, waiting,
};
