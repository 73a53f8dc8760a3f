/* model_turn.c: the turn between processes: one byte lock an epoch, and the state file.
**
**     outside -> waits for byte e -> locked, newest manifest -> state file
**         clean:   follows the log to its end, dirty, appends ..., clean, unlocks
**         unclean: locks byte e + 1, claims, settles, seals e + 1, goes on as its holder
**
** Locks hold what they promise here: one holder, free when he dies (model_epoch.c trusts none). The
** log is one row of slots, since positions go on through epochs; a copy of the tail makes what was
** found durable. A full entry is a prepare, settled by what the host's file says, which is durable
** at once here (model_host.c doubts that). Whoever follows a clean log takes all of it as decided:
** that is what clean means. */
#include "model.h"

#include <assert.h>

enum { PROCESSES = 3, LAST = 3, EPOCHS = 3, WRITES = 1 };

/* clang-format off */
#define RULES(X)                                                                                   \
    X(UNCLEAN_CLAIMS, "who finds an unclean end claims an epoch",                                  \
                      "an undecided or unsynced tail is taken for committed")                      \
    X(DIRTY_FIRST,    "dirty is set before the first append",                                      \
                      "a killed holder looks like a clean one")                                    \
    X(CLEAR_FIRST,    "dirty is cleared before the lock is given up",                              \
                      "it is cleared under the next holder")                                       \
    X(BOOT,           "another boot id is an unclean end",                                         \
                      "the word is older than the power cut")                                      \
    X(NEXT_BYTE,      "byte e + 1 is locked before the claim of e + 1",                            \
                      "a third process takes it before the claimer has it")                        \
    X(NEWEST,         "the newest manifest is read after the lock",                                \
                      "the byte is that of an epoch that is over")                                 \
    X(FOLLOW,         "the log is followed to its end before an append",                           \
                      "a position is given a second time")                                         \
    X(DECIDED,        "the lock is kept until all is decided",                                     \
                      "the next one builds on what is then rolled back")
/* clang-format on */

MODEL_RULES(MODEL_TURN_FIRST)

enum { DURABLE = 1, PREPARE = 2, COMMITTED = 4, ABORTED = 8 };

typedef struct slot {
    uint8_t txn;
    uint8_t flags;
} slot;

typedef enum phase {
    OUTSIDE,
    IDLE, /* has had the turn, knows the store as it was then */
    WAITS,
    LOCKED,
    UNCLEAN,
    NEXT_LOCKED,
    CLAIMED,
    HOLDS,
    APPENDED, /* not synced */
    PREPARED, /* synced, undecided */
    HOSTED,   /* the host's side is committed */
    CLEARED,
    CLEARS_LATE,
    GONE,
} phase;

typedef struct process {
    uint8_t phase;
    uint8_t epoch;
    uint8_t at;    /* it knows the log up to here */
    uint8_t own;   /* position of its undecided entry */
    uint8_t dirty; /* it has set the word */
    uint8_t writes;
} process;

typedef struct state {
    slot log[LAST];
    process processes[PROCESSES];
    uint8_t holders[EPOCHS + 1]; /* 0: nobody, else number of the process + 1 */
    uint8_t truth[LAST];         /* what somebody relies on */
    uint8_t epoch;               /* the newest in the chain of manifests */
    uint8_t cursor;
    uint8_t dirty;
    uint8_t other_boot; /* the state file is of another boot */
    uint8_t host;       /* transactions that the host has, by bit */
    uint8_t rolled_back;
    uint8_t conflict;
    uint8_t crashed;
    uint8_t spare[1];
} state;

static_assert(sizeof(state) % 8 == 0, "the search hashes words");

static const char *const names[PROCESSES] = {"A", "B", "C"};

static uint8_t bit(int txn) { return (uint8_t)(1 << txn); }

typedef struct move {
    search *self;
    const state *from;
    state next;
    process *p; /* in `next` */
    int who;
} move;

static bool keeps(const move *m, int rule) { return search_keeps(m->self, rule); }

static void take(move *m, search_kind kind, const char *what)
{
    search_step(m->self, &m->next, kind, names[m->who], what);
    m->next = *m->from;
}

static void rely(state *s, int position, uint8_t txn)
{
    uint8_t *truth = &s->truth[position - 1];
    if (*truth && *truth != txn) s->conflict = 1;
    *truth = txn;
}

static bool in_turn(const process *p) { return p->phase >= CLAIMED && p->phase <= CLEARED; }

/* ---- getting the turn ------------------------------------------------------------------------ */

static void ask(move *m)
{
    if (m->p->phase == OUTSIDE) {
        /* They are alike, so their order is that of the alphabet. */
        if (m->who && m->from->processes[m->who - 1].phase == OUTSIDE) return;
        m->p->epoch = m->from->epoch;
        m->p->at = m->from->cursor;
    }
    m->p->phase = WAITS;
    take(m, SEARCH_CHOICE, "wants the turn");
}

static void lock(move *m)
{
    uint8_t *holder = &m->next.holders[m->p->epoch - 1];
    if (*holder) return;
    *holder = (uint8_t)(m->who + 1);
    m->p->phase = LOCKED;
    take(m, SEARCH_DUTY, "locks the byte of its epoch");
}

/* To the end; what the cursor has passed is no longer there to be followed. */
static void follow(move *m)
{
    while (keeps(m, FOLLOW) && m->p->at < LAST && m->from->log[m->p->at].txn &&
           m->p->at + 1 > m->from->cursor) {
        const slot *found = &m->from->log[m->p->at++];
        if (!(found->flags & ABORTED)) rely(&m->next, m->p->at, found->txn);
    }
}

static void look_around(move *m)
{
    if (keeps(m, NEWEST)) {
        if (m->p->at < m->from->cursor) m->p->at = m->from->cursor;
        if (m->from->epoch > m->p->epoch) {
            m->next.holders[m->p->epoch - 1] = 0;
            m->p->epoch = m->from->epoch;
            m->p->phase = WAITS;
            take(m, SEARCH_DUTY, "reads the newest manifest: a newer epoch, lets the byte go");
            return;
        }
    }
    bool clean = !m->from->dirty && (!m->from->other_boot || !keeps(m, BOOT));
    if (clean || !keeps(m, UNCLEAN_CLAIMS)) {
        follow(m);
        m->p->phase = HOLDS;
        take(m, SEARCH_DUTY, "takes the end for clean and follows the log");
    } else {
        m->p->phase = UNCLEAN;
        take(m, SEARCH_DUTY, "finds an unclean end");
    }
}

/* ---- taking over ----------------------------------------------------------------------------- */

static void lock_next(move *m)
{
    uint8_t *holder = &m->next.holders[m->p->epoch];
    if (m->p->epoch == EPOCHS) {
        m->next.holders[m->p->epoch - 1] = 0;
        *m->p = (process){.phase = GONE};
        take(m, SEARCH_DUTY, "is not interesting any more");
        return;
    }
    if (*holder) return;
    if (keeps(m, NEXT_BYTE)) *holder = (uint8_t)(m->who + 1);
    m->p->phase = NEXT_LOCKED;
    take(m, SEARCH_DUTY, keeps(m, NEXT_BYTE) ? "locks the next byte" : "locks no further byte");
}

static void claim(move *m)
{
    m->next.epoch = (uint8_t)(m->p->epoch + 1);
    m->p->phase = CLAIMED;
    take(m, SEARCH_DUTY, "claims the next epoch");
}

static void seal(move *m)
{
    m->p->at = m->from->cursor;
    for (int p = m->from->cursor; p < LAST && m->from->log[p].txn; p++) {
        slot *found = &m->next.log[p];
        bool last = p + 1 == LAST || !m->from->log[p + 1].txn;
        bool open = last && (found->flags & PREPARE) && !(found->flags & (COMMITTED | ABORTED));
        uint8_t settled = m->from->host & bit(found->txn) ? COMMITTED : ABORTED;
        found->flags = (uint8_t)(found->flags | DURABLE | (open ? settled : 0));
        m->p->at = (uint8_t)(p + 1);
        if (!(found->flags & ABORTED)) rely(&m->next, p + 1, found->txn);
    }
    uint8_t *old = &m->next.holders[m->p->epoch - 1];
    if (*old == m->who + 1) *old = 0;
    m->p->epoch++;
    m->p->dirty = m->next.dirty = 1;
    m->next.other_boot = 0;
    m->p->phase = HOLDS;
    take(m, SEARCH_DUTY, "copies and settles the tail, seals, lets the old byte go");
}

/* ---- with the turn --------------------------------------------------------------------------- */

static void write_entry(move *m)
{
    static const char *const words[] = {"appends a light entry", "appends a prepare"};
    bool ready = m->p->dirty || !keeps(m, DIRTY_FIRST);
    if (!ready || m->p->at == LAST || m->p->writes == WRITES) return;
    for (int full = 0; full < 2; full++) {
        uint8_t txn = (uint8_t)(1 + m->who * WRITES + m->p->writes++);
        m->next.log[m->p->at++] = (slot){txn, full ? PREPARE : 0};
        m->p->own = full ? m->p->at : 0;
        m->p->phase = APPENDED;
        take(m, SEARCH_CHOICE, words[full]);
    }
}

static void set_dirty(move *m)
{
    if (m->p->dirty) return;
    m->p->dirty = m->next.dirty = 1;
    take(m, SEARCH_CHOICE, "sets dirty");
}

static void hand_over(move *m)
{
    if (keeps(m, CLEAR_FIRST)) {
        if (m->p->dirty) m->next.dirty = 0;
        m->p->phase = CLEARED;
        take(m, SEARCH_DUTY, "clears dirty");
    } else {
        m->next.holders[m->p->epoch - 1] = 0;
        m->p->phase = m->p->dirty ? CLEARS_LATE : IDLE;
        take(m, SEARCH_DUTY, "unlocks");
    }
}

static void unlock(move *m)
{
    if (m->next.holders[m->p->epoch - 1] == m->who + 1) m->next.holders[m->p->epoch - 1] = 0;
    m->p->dirty = 0;
    m->p->phase = IDLE;
    take(m, SEARCH_DUTY, "unlocks");
}

static void clear_late(move *m)
{
    m->next.dirty = 0;
    m->p->dirty = 0;
    m->p->phase = IDLE;
    take(m, SEARCH_DUTY, "clears dirty, late");
}

static void sync_entry(move *m)
{
    for (int p = 0; p < m->p->at; p++) {
        if (m->next.log[p].txn) m->next.log[p].flags |= DURABLE;
    }
    m->p->phase = m->p->own ? PREPARED : HOLDS;
    if (!m->p->own) rely(&m->next, m->p->at, m->from->log[m->p->at - 1].txn);
    take(m, SEARCH_DUTY, m->p->own ? "syncs: prepared" : "syncs: committed");
}

static void leave_undecided(move *m)
{
    if (keeps(m, DECIDED) || m->next.holders[m->p->epoch - 1] != m->who + 1) return;
    m->next.holders[m->p->epoch - 1] = 0;
    m->next.dirty = 0;
    m->p->dirty = 0;
    take(m, SEARCH_CHOICE, "clears dirty and unlocks, undecided");
}

static void decide(move *m)
{
    slot *own = &m->next.log[m->p->own - 1];
    m->next.host |= bit(own->txn);
    m->p->phase = HOSTED;
    take(m, SEARCH_DUTY, "commits in the host's file");
    own->flags |= ABORTED;
    m->next.rolled_back |= bit(own->txn);
    m->p->own = 0;
    m->p->phase = HOLDS;
    take(m, SEARCH_CHOICE, "rolls back: abort, synced");
}

static void commit(move *m)
{
    slot *own = &m->next.log[m->p->own - 1];
    own->flags |= COMMITTED;
    rely(&m->next, m->p->own, own->txn);
    m->p->own = 0;
    m->p->phase = HOLDS;
    take(m, SEARCH_DUTY, "writes the commit");
}

/* By one who knows more than the newest manifest, in turn: all that it knows is decided. */
static void flush(move *m)
{
    if (m->p->at <= m->from->cursor || m->from->epoch != m->p->epoch) return;
    m->next.cursor = m->p->at;
    take(m, SEARCH_CHOICE, "flushes: a manifest with a new cursor, the segments below are gone");
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void kill_process(move *m)
{
    for (int e = 0; e <= EPOCHS; e++) {
        if (m->next.holders[e] == m->who + 1) m->next.holders[e] = 0;
    }
    *m->p = (process){.phase = GONE};
    take(m, SEARCH_FAULT, "is killed");
}

/* What was not synced is kept up to some position; a page of the state file may be an old one. */
static void crash(search *self, const state *s)
{
    if (s->crashed) return;
    int durable = 0;
    int end = 0;
    for (int p = 0; p < LAST; p++) {
        if (s->log[p].txn) end = p + 1;
        if (durable == p && (s->log[p].flags & DURABLE)) durable = p + 1;
    }
    for (int kept = durable; kept <= end; kept++) {
        state next = *s;
        bool cut = false;
        for (int p = 0; p < LAST; p++) {
            cut = cut || (p >= kept && !(s->log[p].flags & DURABLE));
            if (cut) next.log[p] = (slot){0};
            if (next.log[p].txn) next.log[p].flags |= DURABLE;
        }
        for (int i = 0; i < PROCESSES; i++) {
            if (next.processes[i].phase != OUTSIDE) next.processes[i] = (process){.phase = GONE};
        }
        for (int e = 0; e <= EPOCHS; e++) next.holders[e] = 0;
        next.crashed = next.other_boot = 1;
        search_step(self, &next, SEARCH_FAULT, "machine", "loses power");
        next.dirty = 0;
        search_step(self, &next, SEARCH_FAULT, "machine", "loses power, and that it was dirty");
    }
}

/* ---- the model ------------------------------------------------------------------------------- */

static void start(void *of)
{
    state *s = of;
    s->epoch = 1;
}

static void act(move *m)
{
    static void (*const by_phase[GONE][4])(move *) = {
        [OUTSIDE] = {ask},
        [IDLE] = {ask},
        [WAITS] = {lock},
        [LOCKED] = {look_around},
        [UNCLEAN] = {lock_next},
        [NEXT_LOCKED] = {claim},
        [CLAIMED] = {seal},
        [HOLDS] = {write_entry, set_dirty, hand_over, flush},
        [APPENDED] = {sync_entry},
        [PREPARED] = {leave_undecided, decide},
        [HOSTED] = {commit},
        [CLEARED] = {unlock},
        [CLEARS_LATE] = {clear_late},
    };
    if (m->p->phase == GONE) return;
    for (int i = 0; i < 4 && by_phase[m->from->processes[m->who].phase][i]; i++) {
        by_phase[m->from->processes[m->who].phase][i](m);
    }
    if (m->p->phase != OUTSIDE) kill_process(m);
}

static void steps(search *self, const void *of)
{
    const state *s = of;
    for (int who = 0; who < PROCESSES; who++) {
        move m = {.self = self, .from = s, .next = *s, .who = who};
        m.p = &m.next.processes[who];
        act(&m);
    }
    crash(self, s);
}

static const char *broken(const search *self, const void *of)
{
    const state *s = of;
    int turns = 0;
    (void)self;
    for (int i = 0; i < PROCESSES; i++) turns += in_turn(&s->processes[i]);
    if (s->conflict) return "I8: two rows have one position";
    for (int p = 0; p < LAST; p++) {
        const slot *at = &s->log[p];
        bool host = s->host & bit(at->txn);
        if (!s->truth[p]) {
            bool only_host = (at->flags & ABORTED) && host;
            if (only_host) return "I12: the host has a transaction that is aborted here";
            continue;
        }
        if (p + 1 > s->cursor && at->txn != s->truth[p]) return "I1: an acknowledged row is lost";
        bool undone = s->rolled_back & bit(s->truth[p]);
        bool only_store = (at->flags & PREPARE) && !host;
        if (undone) return "I3: somebody built on a row that was rolled back";
        if (only_store) return "I12: a transaction counts here that the host lacks";
    }
    if (turns > 1 && search_keeps(self, DECIDED)) return "I8: two processes have the turn";
    return NULL;
}

static bool waiting(const void *of)
{
    const state *s = of;
    for (int i = 0; i < PROCESSES; i++) {
        const process *p = &s->processes[i];
        if (p->phase != OUTSIDE && p->phase != IDLE && p->phase != GONE) return true;
    }
    return false;
}

const search_model model_turn = {
    "turn", sizeof(state), rules, RULE_COUNT, start, steps, broken, waiting,
};
