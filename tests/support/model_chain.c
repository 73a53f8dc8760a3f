/* model_chain.c: the numbers of manifests, who makes them and who removes them.
**
**     writer     knows a manifest, opens it, sees it to be the newest; then it asks, as a fence check
**                does: is there a newer one?
**     claimer    reads the newest number, creates the next one
**     flusher    the same, again and again; stands for merges as well
**     collector  removes what lies below the boundary, here always the newest number
**     reader     reads the newest manifest, then the table file that only that one lists
**
** The folder is two sets of names: what processes see, and what the disk has; the sync of a folder
** makes them one. After a crash of the machine each name in which they differ may be there or
** not. */
#include "model.h"

#include <assert.h>

enum { LAST = 5 };

/* clang-format off */
#define RULES(X)                                                                                   \
    X(EXCLUSIVE,        "a manifest's name is created, never replaced",                            \
                        "two histories under one number")                                          \
    X(NAME_SYNCED,      "a name is relied on when the folder is synced",                           \
                        "a power cut takes the newest manifest")                                   \
    X(LOOK_AGAIN,       "look again after creating",                                               \
                        "a number was free because it is long gone")                               \
    X(BOUNDARY_DURABLE, "the boundary is durable before anything below it goes",                   \
                        "a power cut takes the new one, the old are gone")                         \
    X(ASCENDING,        "manifests are removed in ascending order",                                \
                        "the own one is there, the next one was and is not")                       \
    X(OWN_SEEN,         "an absent next number proves nothing unless the own is seen",             \
                        "both are gone, and a successor is at work")                               \
    X(OWN_SAME,         "the own one is known by what it is, not by its number",                   \
                        "a late claimer has made the number again")                                \
    X(SEEN_AFTERWARDS,  "the own one is looked at after the next",                                 \
                        "both went between the two looks")                                         \
    X(PIN_SEEN,         "a pin counts when its manifest is seen after the lock",                   \
                        "the lock came after the removal")                                         \
    X(PIN_SAME,         "that manifest, too, is known by what it is",                              \
                        "a late claimer has made the number again")                                \
    X(PIN_RESPECTED,    "the collector needs the pin for itself",                                  \
                        "a reader's files go under its hands")
/* clang-format on */

MODEL_RULES(MODEL_CHAIN_FIRST)

typedef enum phase {
    IDLE,
    KNOWS,   /* the newest number                                         */
    OPENED,  /* writer: the file of that name, whichever that is          */
    HELD,    /* writer: it was the newest one                             */
    CREATED, /* the next one; writer: has looked for one of two manifests */
    SYNCED,
    LOCKED, /* reader: the pin; collector: the same for itself           */
    READING,
    DONE,
} phase;

typedef struct state {
    uint8_t seen, disk; /* names of manifests, by bit */
    uint8_t files;      /* table files, one for each manifest */
    uint8_t relied;     /* the newest number that somebody relies on */
    uint8_t again;      /* numbers that a late claimer has made a second time */
    uint8_t writer, writer_at;
    uint8_t newer; /* there was a newer one when it looked for the next */
    uint8_t stray; /* it has opened a file that was made a second time */
    uint8_t claimer, claimer_at;
    uint8_t late; /* the claimer created a number that had been used before */
    uint8_t flusher, flusher_at;
    uint8_t collector, collector_at;
    uint8_t reader, reader_at;
    uint8_t crashed;
    uint8_t wrong; /* what somebody believes, see `promises` */
    uint8_t spare[4];
} state;

static_assert(sizeof(state) % 8 == 0, "the search hashes words");

enum { RIGHT, NOT_NEWEST, FALSE_CLAIM, TWO_OF_ONE, NO_FILE };
static const char *const promises[] = {
    NULL,
    "I8: a fenced writer believes that nobody is newer",
    "I8: a claim is won that nobody will ever see",
    "I5: two manifests have one number",
    "I11: a reader's table file is gone",
};

static uint8_t bit(int number) { return (uint8_t)(1 << number); }

static uint8_t newest_of(uint8_t names)
{
    uint8_t newest = 0;
    for (uint8_t n = 1; n <= LAST; n++) {
        if (names & bit(n)) newest = n;
    }
    return newest;
}

static void take(search *self, const state *next, search_kind kind, const char *who,
                 const char *what)
{
    search_step(self, next, kind, who, what);
}

/* ---- who makes manifests --------------------------------------------------------------------- */

/* Creates the number after `at`. False: it exists, which sends the maker back to reading. */
static bool create(search *self, state *next, int at)
{
    bool exists = next->seen & bit(at + 1);
    if (exists && search_keeps(self, EXCLUSIVE)) return false;
    if (exists) next->wrong = TWO_OF_ONE;
    next->seen |= bit(at + 1);
    next->files |= bit(at + 1);
    return true;
}

static void sync_folder(state *next, int made)
{
    next->disk = next->seen;
    if (made > next->relied && newest_of(next->seen) == made) next->relied = (uint8_t)made;
}

static void claimer(search *self, const state *s)
{
    state next = *s;
    if (s->claimer == IDLE) {
        next.claimer = KNOWS;
        next.claimer_at = newest_of(s->seen);
        take(self, &next, SEARCH_CHOICE, "claimer", "reads the newest number");
    } else if (s->claimer == KNOWS && s->claimer_at < LAST) {
        next.late = newest_of(s->seen) > s->claimer_at + 1;
        bool made = create(self, &next, s->claimer_at);
        if (made && next.late) next.again |= bit(s->claimer_at + 1);
        next.claimer = made ? CREATED : IDLE;
        next.claimer_at = made ? (uint8_t)(s->claimer_at + 1) : 0;
        take(self, &next, SEARCH_DUTY, "claimer", made ? "creates the next" : "was too late");
    } else if (s->claimer == CREATED) {
        sync_folder(&next, s->claimer_at);
        next.claimer = SYNCED;
        take(self, &next, SEARCH_DUTY, "claimer", "syncs the folder");
    } else if (s->claimer == SYNCED) {
        bool own = newest_of(s->seen) == s->claimer_at;
        bool won = own || !search_keeps(self, LOOK_AGAIN);
        if (won && s->late) next.wrong = FALSE_CLAIM;
        next.claimer = won ? DONE : IDLE;
        next.claimer_at = next.late = 0;
        take(self, &next, SEARCH_DUTY, "claimer", won ? "has won" : "looks again: it has lost");
    }
}

static void flusher(search *self, const state *s)
{
    state next = *s;
    if (s->flusher == IDLE) {
        next.flusher = KNOWS;
        next.flusher_at = newest_of(s->seen);
        if (next.flusher_at == LAST) return;
        take(self, &next, SEARCH_CHOICE, "flusher", "reads the newest number");
    } else if (s->flusher == KNOWS) {
        /* Who is so slow that the number has gone is the claimer. */
        bool made = newest_of(s->seen) == s->flusher_at || !search_keeps(self, EXCLUSIVE);
        if (made) made = create(self, &next, s->flusher_at);
        next.flusher = made ? CREATED : IDLE;
        next.flusher_at = made ? (uint8_t)(s->flusher_at + 1) : 0;
        if (made && !search_keeps(self, NAME_SYNCED)) next.relied = next.flusher_at;
        take(self, &next, SEARCH_DUTY, "flusher", made ? "creates the next" : "was too late");
    } else if (s->flusher == CREATED) {
        sync_folder(&next, s->flusher_at);
        next.flusher = next.flusher_at = 0;
        take(self, &next, SEARCH_DUTY, "flusher", "syncs the folder");
    }
}

/* ---- who looks ------------------------------------------------------------------------------- */

/* Has the number the file that is meant: the first one that had it, or a stray? */
static bool same(search *self, const state *s, int number, bool stray, int rule)
{
    bool again = s->again & bit(number);
    bool other = search_keeps(self, rule) && again != stray;
    return (s->seen & bit(number)) && !other;
}

/* `own`: looks at its own manifest, else at the next one. */
static void look(search *self, const state *s, bool own, bool last)
{
    state next = *s;
    bool there = own ? same(self, s, s->writer_at, s->stray, OWN_SAME)
                     : s->seen & bit(s->writer_at + 1);
    bool on = own == there; /* nothing proves yet that there is a newer one */
    if (!own) next.newer = newest_of(s->seen) > s->writer_at;
    next.writer = on && !last ? CREATED : DONE;
    if (on && last && next.newer) next.wrong = NOT_NEWEST;
    if (next.writer == DONE) next.writer_at = next.newer = next.stray = 0;
    static const char *const words[2][2] = {
        {"sees the next: lists the folder", "does not see the next"},
        {"does not see its own: lists the folder", "sees its own"},
    };
    take(self, &next, SEARCH_CHOICE, "writer", words[own][on]);
}

/* Up to where its manifest is known by what it is. */
static void hold(search *self, const state *s)
{
    state next = *s;
    if (s->writer == IDLE) {
        next.writer = KNOWS;
        next.writer_at = newest_of(s->seen);
        take(self, &next, SEARCH_CHOICE, "writer", "reads the newest manifest");
        return;
    }
    bool opens = s->writer == KNOWS;
    bool on = opens ? s->seen & bit(s->writer_at) : newest_of(s->seen) == s->writer_at;
    next.writer = on ? (opens ? OPENED : HELD) : IDLE;
    next.stray = on && (s->again & bit(s->writer_at));
    if (!on) next.writer_at = 0;
    static const char *const words[2][2] = {
        {"lists the folder: there is a newer one", "lists the folder: it is the newest"},
        {"cannot open it: begins again", "opens it"},
    };
    take(self, &next, SEARCH_CHOICE, "writer", words[opens][on]);
}

static void writer(search *self, const state *s)
{
    if (s->writer == DONE) return;
    if (s->writer < HELD) {
        hold(self, s);
    } else if (!search_keeps(self, OWN_SEEN)) {
        look(self, s, false, true);
    } else {
        bool first = s->writer == HELD;
        look(self, s, first != search_keeps(self, SEEN_AFTERWARDS), !first);
    }
}

static void reader(search *self, const state *s)
{
    state next = *s;
    int at = s->reader_at;
    bool locked = s->collector == LOCKED && s->collector_at == at;
    if (s->reader == IDLE) {
        next.reader = KNOWS;
        next.reader_at = newest_of(s->seen);
        take(self, &next, SEARCH_CHOICE, "reader", "reads the newest manifest");
    } else if (s->reader == KNOWS && (!locked || !search_keeps(self, PIN_RESPECTED))) {
        next.reader = search_keeps(self, PIN_SEEN) ? LOCKED : READING;
        take(self, &next, SEARCH_DUTY, "reader", "locks the pin");
    } else if (s->reader == LOCKED) {
        bool there = same(self, s, at, false, PIN_SAME);
        next.reader = there ? READING : IDLE;
        if (!there) next.reader_at = 0;
        take(self, &next, SEARCH_DUTY, "reader",
             there ? "sees its manifest" : "does not see it: begins again");
    } else if (s->reader == READING) {
        if (!(s->files & bit(at))) next.wrong = NO_FILE;
        next.reader = DONE;
        next.reader_at = 0;
        take(self, &next, SEARCH_DUTY, "reader", "reads the table file");
    }
}

/* ---- who removes ----------------------------------------------------------------------------- */

static void collector(search *self, const state *s)
{
    state next = *s;
    if (s->collector == LOCKED) {
        next.files &= (uint8_t)~bit(s->collector_at);
        next.collector = next.collector_at = 0;
        take(self, &next, SEARCH_DUTY, "collector", "removes the table file that it listed");
        return;
    }
    int boundary = newest_of(search_keeps(self, BOUNDARY_DURABLE) ? s->disk & s->seen : s->seen);
    for (int n = 1; n < boundary; n++) {
        bool pinned = s->reader_at == n && (s->reader == LOCKED || s->reader == READING);
        if (!(s->seen & bit(n))) continue;
        if (!pinned || !search_keeps(self, PIN_RESPECTED)) {
            next.seen &= (uint8_t)~bit(n);
            next.collector = LOCKED;
            next.collector_at = (uint8_t)n;
            take(self, &next, SEARCH_CHOICE, "collector", "removes a manifest below the boundary");
            next = *s;
        }
        if (search_keeps(self, ASCENDING)) break;
    }
}

/* Names are kept or lost one by one. */
static void crash(search *self, const state *s)
{
    uint8_t unsure = s->seen ^ s->disk;
    if (s->crashed) return;
    for (int names = 0; names < 1 << (LAST + 1); names++) {
        if ((names & ~unsure) != (s->disk & ~unsure)) continue;
        uint8_t left = (uint8_t)names;
        state next = {.seen = left, .disk = left, .files = s->files, .relied = s->relied};
        next.crashed = 1;
        take(self, &next, SEARCH_FAULT, "machine", "loses power, and names that were not synced");
    }
}

/* ---- the model ------------------------------------------------------------------------------- */

static void start(void *of)
{
    state *s = of;
    s->seen = s->disk = s->files = bit(1);
    s->relied = 1;
}

static void steps(search *self, const void *of)
{
    const state *s = of;
    if (s->crashed) return;
    claimer(self, s);
    flusher(self, s);
    writer(self, s);
    reader(self, s);
    collector(self, s);
    crash(self, s);
}

static const char *broken(const search *self, const void *of)
{
    const state *s = of;
    (void)self;
    if (s->wrong) return promises[s->wrong];
    if (!s->seen) return "I15: no manifest is left";
    if (newest_of(s->seen) < s->relied) return "I15: the newest manifest is lost";
    bool whole = s->files & bit(newest_of(s->seen));
    if (!whole) return "I11: the newest manifest lists a file that is gone";
    return NULL;
}

static bool waiting(const void *of)
{
    const state *s = of;
    bool claims = s->claimer == CREATED || s->claimer == SYNCED;
    bool reads = s->reader != IDLE && s->reader != DONE;
    return claims || reads || s->flusher != IDLE;
}

const search_model model_chain = {
    "numbers", sizeof(state), rules, RULE_COUNT, start, steps, broken, waiting,
};
