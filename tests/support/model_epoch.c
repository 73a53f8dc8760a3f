/* model_epoch.c: writers that trust no lock: claim, copy, seal, fence, overtake, flush.
**
**     A   owns epoch 1 from the start; up to three transactions, full or light
**     B   takes the store over once, whether A is dead, asleep or busy
**     C   the same after B
**
** Each epoch has a log of its own, one slot a position: what, and whether the disk has it. What the
** disk lacks is in the page cache: a killed process leaves it there, a crash of the machine keeps
** any part of it. Manifests are durable when they are seen (model_chain.c doubts that), so what
** they say is one value here, and their number.
**
** `truth` is what somebody relies on: a position's row was acknowledged, or is seen by readers
** behind a seal. In every state the store is recovered as it is, as if all processes had died: it
** must agree with `truth`, and hold nothing that was refused or taken back. */
#include "model.h"

#include <assert.h>
#include <string.h>

enum { WRITERS = 3, EPOCHS = 4, LAST = 4, TXNS = 5, ABORT = 6, EMPTY = 7, CRASHES = 2 };

/* clang-format off */
#define RULES(X)                                                                                   \
    X(ACK_SYNCED,      "only what was synced is acknowledged",                                     \
                       "a power cut takes what somebody was told is safe")                         \
    X(FENCE_AFTER,     "the look for a claim comes after the sync",                                \
                       "a claim made in between goes unseen")                                      \
    X(FENCE_FILES,     "the look goes to the file system, not to shared memory",                   \
                       "the claim is there and nobody has shown it yet")                           \
    X(ABORT_FENCED,    "an abort passes the fence, too",                                           \
                       "a rollback is reported whose abort came after the seal")                   \
    X(CLAIM_FIRST,     "claim first, read the log afterwards",                                     \
                       "what was acknowledged in between is not found")                            \
    X(COPY,            "the tail is copied into an own segment",                                   \
                       "the page cache showed what the disk never had")                            \
    X(COPY_SYNCED,     "copies are synced before the seal",                                        \
                       "the seal counts on copies that a power cut takes")                         \
    X(COPY_WINS,       "where there are copies the older bytes are not read",                      \
                       "the original is torn and reads as damage")                                 \
    X(COPY_SEALED,     "copies of an unsealed claim count for nothing",                            \
                       "half a copy hides the whole original")                                     \
    X(START_ABOVE,     "a seal starts above the cursor and all that was found",                    \
                       "a flushed position is given a second time")                                \
    X(COUNTS_BELOW,    "a record counts below the next sealed start only",                         \
                       "a sleeper's late write comes in")                                          \
    X(VOID,            "a later claim makes an unsealed one void",                                 \
                       "a seal of what was read too early")                                        \
    X(OVERTAKE,        "a claim that stays unsealed is overtaken",                                 \
                       "a writer never hears what became of its commit")                           \
    X(FAILED_STOPS,    "a failed sync stops the writer",                                           \
                       "the next sync succeeds and proves nothing")                                \
    X(OLD_SEGMENT,     "the old segment is synced before the next is used",                        \
                       "a power cut takes the older entry and leaves the newer")                   \
    X(DURABLE_THROUGH, "durable-through names what was synced, no more",                           \
                       "a torn tail is taken for damage, or not copied")                           \
    X(CUT,             "the log ends at its first hole",                                           \
                       "a row without those that it was built on")                                 \
    X(FULL_KEEPS,      "a full transaction keeps the turn until it is decided",                    \
                       "others build on what is rolled back")                                      \
    X(ABORT_SYNCED,    "an abort is synced before the rollback returns",                           \
                       "a power cut brings the row back")                                          \
    X(FLUSH_DECIDED,   "the cursor stays below what is not answered",                              \
                       "a table file has what was never committed")                                \
    X(FLUSH_NEXT,      "a flush goes on where its predecessor ended",                              \
                       "two processes flush the same positions")
/* clang-format on */

MODEL_RULES(MODEL_EPOCH_FIRST)

enum { DURABLE = 1, MARKED_CLEAN = 2, SECOND_SEGMENT = 4, COPIED = 8 };

typedef struct slot {
    uint8_t what;    /* 0: nothing, 1 ... TXNS, ABORT of the position before, EMPTY: taken back */
    uint8_t flags;   /* DURABLE ...  */
    uint8_t through; /* the record's durable-through */
} slot;

typedef enum fate { UNCLAIMED, CLAIMED, SEALED, VOIDED } fate;

typedef struct epoch {
    uint8_t fate;
    uint8_t start;
    uint8_t copied_from;
} epoch;

typedef enum phase {
    OUTSIDE,
    READ_EARLY, /* read the log without a claim */
    CLAIMING,
    COPYING,
    OWNER,
    FENCED, /* alive, may still have a flush to do */
    GONE,
} phase;

typedef struct writer {
    uint8_t phase;
    uint8_t epoch;
    uint8_t number; /* of its claim's manifest */
    uint8_t end;    /* P: what its replay found */
    uint8_t copied_from;
    uint8_t written, synced, checked, answered; /* positions */
    uint8_t undecided;                          /* a full one */
    uint8_t in_second;                          /* segment */
    uint8_t flush_from;
    uint8_t mine[LAST]; /* what it wrote, in its memory */
} writer;

typedef struct state {
    slot log[EPOCHS][LAST];
    epoch epochs[EPOCHS];
    writer writers[WRITERS];
    uint8_t files[LAST]; /* what table files say of a position */
    uint8_t cursor;
    uint8_t twice; /* a position was flushed a second time */
    uint8_t number;
    uint8_t shown;       /* the highest claim in shared memory */
    uint8_t truth[LAST]; /* 0: nobody relies on it */
    uint8_t refused;     /* transactions, by bit: fenced  */
    uint8_t rolled_back; /* the same: rollback returned   */
    uint8_t conflict;    /* two answers that exclude each other */
    uint8_t begun;       /* transactions */
    uint8_t crashes, failures;
    uint8_t left_out; /* the same: begun, and not in what a later seal found */
    uint8_t spare[1];
} state;

static_assert(sizeof(state) % 8 == 0, "the search hashes words");

static const char *const names[WRITERS] = {"A", "B", "C"};

static slot *slot_of(state *s, int of_epoch, int position)
{
    return &s->log[of_epoch - 1][position - 1];
}

static const slot *look(const state *s, int of_epoch, int position)
{
    return &s->log[of_epoch - 1][position - 1];
}

static uint8_t bit(int txn) { return (uint8_t)(1 << txn); }

static int newest_epoch(const state *s)
{
    int newest = 0;
    for (int e = 1; e <= EPOCHS; e++) {
        if (s->epochs[e - 1].fate != UNCLAIMED) newest = e;
    }
    return newest;
}

/* Does somebody rely on the position? Then it is what he relied on before. */
static void rely(state *s, int position, uint8_t what)
{
    uint8_t *truth = &s->truth[position - 1];
    if (*truth && *truth != what) s->conflict = 1;
    *truth = what;
}

/* ---- recovery -------------------------------------------------------------------------------- */

typedef struct view {
    uint8_t rows[LAST + 1]; /* effect of each position */
    int source[LAST + 1];   /* the epoch whose bytes say so */
    int end;                /* P */
    int durable;            /* known to be, by durable-through and seals */
    bool damaged;
    bool gap;
} view;

static epoch as_replay_sees(const search *self, const state *s, int e)
{
    epoch seen = s->epochs[e - 1];
    if (seen.fate == SEALED || search_keeps(self, COPY_SEALED)) return seen;
    for (int p = LAST; p >= 1; p--) {
        if (!(look(s, e, p)->flags & COPIED)) continue;
        if (seen.fate != SEALED) seen.start = (uint8_t)(p + 1);
        seen.fate = SEALED;
        seen.copied_from = (uint8_t)p;
    }
    return seen;
}

/* Whose bytes are read for a position? 0: nobody's. */
static int source_of(const search *self, const state *s, int position)
{
    int source = 0;
    for (int e = 1; e <= EPOCHS; e++) {
        epoch seen = as_replay_sees(self, s, e);
        if (seen.fate != SEALED) continue;
        if (!search_keeps(self, COUNTS_BELOW) && source && look(s, source, position)->what) break;
        int from = search_keeps(self, COPY_WINS) ? seen.copied_from : seen.start;
        if (from <= position) source = e;
    }
    return source;
}

static int sealed_start(const state *s)
{
    int start = 1;
    for (int e = 1; e <= EPOCHS; e++) {
        if (s->epochs[e - 1].fate == SEALED) start = s->epochs[e - 1].start;
    }
    return start;
}

static view recover(const search *self, const state *s)
{
    view v = {.end = s->cursor, .durable = s->cursor};
    for (int p = 1; p <= s->cursor; p++) v.rows[p] = s->files[p - 1];
    int start = sealed_start(s);
    if (start - 1 > v.durable) v.durable = start - 1;
    for (int p = s->cursor + 1; p <= LAST; p++) {
        v.source[p] = source_of(self, s, p);
        const slot *found = v.source[p] ? look(s, v.source[p], p) : NULL;
        if (!found || !found->what) {
            if (p < start) v.damaged = true;
            if (search_keeps(self, CUT)) break;
            continue;
        }
        if (v.end != p - 1) v.gap = true;
        v.end = p;
        v.rows[p] = found->what;
        if (found->through > v.durable) v.durable = found->through;
        if (found->what != ABORT) continue;
        v.rows[p] = EMPTY;
        v.rows[p - 1] = EMPTY;
    }
    return v;
}

static const char *broken(const search *self, const void *of)
{
    const state *s = of;
    view v = recover(self, s);
    uint8_t relied = 0;
    if (s->conflict) return "I8: two epochs both extend the log";
    if (s->twice) return "I4: a position is in two files";
    if (v.damaged) return "I2: a row that was sealed cannot be read";
    if (v.gap) return "I2: a row counts without those that it was built on";
    for (int p = 1; p <= LAST; p++) {
        if ((s->files[p - 1] != 0) != (p <= s->cursor)) return "I4: the cursor is not exact";
        uint8_t truth = s->truth[p - 1];
        if (truth && truth != v.rows[p]) return "I1: an acknowledged row is lost";
        if (bit(v.rows[p]) & s->refused) return "I8: a row that was refused as fenced is there";
        if (bit(v.rows[p]) & s->left_out) return "I10: a row is there that a seal had left out";
        if (bit(v.rows[p]) & s->rolled_back) return "I2: a row that was rolled back is there";
        if (truth) relied |= bit(truth);
    }
    if (relied & s->rolled_back) return "I3: somebody built on a row that was rolled back";
    return NULL;
}

/* ---- the writer's work ----------------------------------------------------------------------- */

/* One writer's step: the state that it makes. */
typedef struct move {
    search *self;
    const state *from;
    state next;
    writer *w; /* in `next` */
    int who;
} move;

static move begin(search *self, const state *s, int who)
{
    return (move){.self = self, .from = s, .next = *s, .who = who};
}

/* The copy is at its final place: `w` may point into it. */
static void aim(move *m) { m->w = &m->next.writers[m->who]; }

static void take(move *m, search_kind kind, const char *what)
{
    search_step(m->self, &m->next, kind, names[m->who], what);
    m->next = *m->from;
}

static bool keeps(const move *m, int rule) { return search_keeps(m->self, rule); }

static int sync_segment(const state *s, const writer *w)
{
    return w->written ? look(s, w->epoch, w->written)->flags & SECOND_SEGMENT : 0;
}

static bool segment_synced(const state *s, const writer *w, int segment)
{
    for (int p = 1; p <= LAST; p++) {
        const slot *at = look(s, w->epoch, p);
        if (at->what && (at->flags & SECOND_SEGMENT) == segment && !(at->flags & DURABLE)) {
            return false;
        }
    }
    return true;
}

static void append(move *m, uint8_t what)
{
    writer *w = m->w;
    slot *to = slot_of(&m->next, w->epoch, ++w->written);
    to->what = what;
    w->mine[w->written - 1] = what;
    to->flags = w->in_second ? SECOND_SEGMENT : 0;
    to->through = keeps(m, DURABLE_THROUGH) ? w->synced : w->written;
}

static int txns_of(int who) { return who == 0 ? 2 : 1; }

static int begun_by(const state *s, int who)
{
    int first = who == 0 ? 0 : 2 + who;
    return (s->begun >> first) & (who == 0 ? 3 : 1);
}

static void write_entries(move *m)
{
    static const char *const words[] = {"writes an entry of a light transaction",
                                        "writes an entry of a full transaction"};
    const writer *w = m->w;
    int begun = begun_by(m->from, m->who);
    bool open = w->undecided && keeps(m, FULL_KEEPS);
    bool behind = keeps(m, OLD_SEGMENT) && w->in_second && !segment_synced(m->from, w, 0);
    if (open || behind || begun == txns_of(m->who)) return;
    for (int full = 0; full < 2; full++) {
        if (w->written + 1 + full > LAST || (full && w->undecided)) continue;
        append(m, (uint8_t)((m->who == 0 ? 1 : 3 + m->who) + begun));
        m->next.begun = (uint8_t)(m->next.begun + (1 << (m->who == 0 ? 0 : 2 + m->who)));
        if (full) m->w->undecided = m->w->written;
        take(m, SEARCH_CHOICE, words[full]);
    }
}

static void rotate(move *m)
{
    if (m->who || m->w->in_second || m->w->written != 1) return;
    m->w->in_second = 1;
    take(m, SEARCH_CHOICE, "freezes: the next entry goes into a new segment");
}

static void sync_log(move *m)
{
    const writer *w = m->w;
    if (w->synced == w->written) return;
    int segment = sync_segment(m->from, w);
    for (int fails = 0; fails < 2 - m->from->failures; fails++) {
        for (int p = 1; p <= LAST; p++) {
            slot *at = slot_of(&m->next, w->epoch, p);
            if (!at->what || (at->flags & SECOND_SEGMENT) != segment) continue;
            if (at->flags & (DURABLE | MARKED_CLEAN)) continue;
            at->flags = (uint8_t)(at->flags | (fails ? MARKED_CLEAN : DURABLE));
        }
        if (!fails) {
            m->w->synced = m->w->written;
            take(m, SEARCH_DUTY, "syncs its log");
            continue;
        }
        m->next.failures = 1;
        if (keeps(m, FAILED_STOPS)) *m->w = (writer){.phase = GONE};
        take(m, SEARCH_FAULT, "syncs its log, which fails and marks the pages clean");
    }
}

/* Everything up to `last` has its answer: what may be relied on, or that it was rolled back. */
static void answer(move *m, int last)
{
    writer *w = m->w;
    for (int p = w->answered + 1; p <= last; p++) {
        uint8_t what = w->mine[p - 1];
        if (what == ABORT) {
            m->next.rolled_back |= bit(w->mine[p - 2]);
            rely(&m->next, p - 1, EMPTY);
            what = EMPTY;
        }
        /* Readers see it from here on; but for a full one that may still be taken back. */
        bool aborted = p < w->written && w->mine[p] == ABORT;
        if (!aborted) rely(&m->next, p, what);
        w->answered = (uint8_t)p;
    }
}

/* The entries at or above `fence` never were. */
static void refuse(move *m, int fence)
{
    writer *w = m->w;
    for (int p = w->answered + 1; p <= w->written; p++) {
        uint8_t what = w->mine[p - 1];
        if (p < fence) continue;
        if (what != ABORT) m->next.refused |= bit(what);
        if (what == ABORT && !keeps(m, ABORT_FENCED)) {
            m->next.rolled_back |= bit(w->mine[p - 2]);
        }
    }
}

static void overtake(move *m)
{
    int e = newest_epoch(m->from) + 1;
    if (!keeps(m, OVERTAKE) || e > EPOCHS || m->w->synced != m->w->written) return;
    m->next.epochs[e - 2].fate = VOIDED;
    uint8_t start = (uint8_t)(m->w->written + 1);
    m->next.epochs[e - 1] = (epoch){SEALED, start, start};
    m->next.shown = (uint8_t)e;
    m->next.number = (uint8_t)(m->next.number + 2);
    take(m, SEARCH_DUTY, "waits no longer for the seal: claims and seals behind its own entries");
}

static void check_fence(move *m)
{
    int last = keeps(m, ACK_SYNCED) ? m->w->synced : m->w->written;
    if (!keeps(m, FENCE_AFTER)) last = m->w->written + 1;
    if (m->w->checked >= last) return;
    int newest = keeps(m, FENCE_FILES) ? newest_epoch(m->from) : m->from->shown;
    int fence = 0;
    for (int e = m->w->epoch + 1; e <= newest && !fence; e++) {
        if (m->from->epochs[e - 1].fate == SEALED) fence = m->from->epochs[e - 1].start;
    }
    if (newest <= m->w->epoch) {
        m->w->checked = (uint8_t)last;
        take(m, SEARCH_DUTY, "looks for a claim and finds none");
    } else if (fence) {
        int good = last < fence - 1 ? last : fence - 1;
        if (good > m->w->synced) good = m->w->synced;
        if (good > m->w->checked) answer(m, good);
        refuse(m, fence);
        m->w->phase = FENCED;
        m->w->undecided = 0;
        take(m, SEARCH_DUTY, "finds the seal of another: entries from its start on are refused");
    } else {
        overtake(m);
    }
}

static void answer_some(move *m)
{
    const writer *w = m->w;
    int ready = w->checked;
    int most = keeps(m, ACK_SYNCED) ? w->synced : w->written;
    if (ready > most) ready = most;
    if (w->undecided && ready >= w->undecided && keeps(m, FULL_KEEPS)) ready = w->undecided - 1;
    /* An abort answers for its entry. */
    if (ready < w->written && w->mine[ready] == ABORT) ready--;
    if (ready <= w->answered) return;
    answer(m, ready);
    take(m, SEARCH_DUTY, "answers: committed, or rolled back");
}

/* Room for the abort was kept with the entry. */
static void decide(move *m)
{
    int p = m->w->undecided;
    if (!p || m->w->checked < p || m->w->synced < p) return;
    m->w->undecided = 0;
    take(m, SEARCH_DUTY, "decides to commit");
    if (m->w->written == LAST) return;
    uint8_t txn = m->w->mine[p - 1];
    m->w->undecided = 0;
    append(m, ABORT);
    if (!keeps(m, ABORT_SYNCED) || m->w->written != p + 1) m->next.rolled_back |= bit(txn);
    take(m, SEARCH_CHOICE, "decides to roll back: writes the abort");
}

/* ---- flush ----------------------------------------------------------------------------------- */

static uint8_t row_of(const state *s, const writer *w, int p)
{
    if (s->truth[p - 1]) return s->truth[p - 1];
    return w->mine[p - 1];
}

static void flush(move *m)
{
    int from = m->w->flush_from;
    int last = keeps(m, FLUSH_DECIDED) ? m->w->answered : m->w->written;
    if (last < from) return;
    /* Its job is of no use any more: dropped. */
    if (keeps(m, FLUSH_NEXT) && m->from->cursor + 1 != from) return;
    for (int p = from; p <= last; p++) {
        if (m->next.files[p - 1]) m->next.twice = 1;
        m->next.files[p - 1] = row_of(m->from, m->w, p);
    }
    m->next.cursor = (uint8_t)last;
    m->next.number++;
    for (int e = 1; e <= EPOCHS; e++) {
        for (int p = 1; p <= last; p++) *slot_of(&m->next, e, p) = (slot){0};
    }
    m->w->flush_from = (uint8_t)(last + 1);
    take(m, SEARCH_CHOICE, "flushes: a manifest with a table file and a new cursor");
}

/* ---- taking over ----------------------------------------------------------------------------- */

static void copy_tail(move *m)
{
    view v = recover(m->self, m->from);
    for (int p = m->w->copied_from; p <= m->w->end; p++) {
        if (!v.source[p]) continue; /* a hole, where holes are let pass */
        slot *to = slot_of(&m->next, m->w->epoch, p);
        *to = *look(m->from, v.source[p], p);
        to->flags = COPIED;
    }
}

static void claim(move *m)
{
    int e = newest_epoch(m->from) + 1;
    bool early = m->w->phase == READ_EARLY;
    bool first_is_out = m->who == 2 && m->from->writers[1].phase == OUTSIDE;
    if (first_is_out || e >= EPOCHS || (!early && m->w->phase != OUTSIDE)) return;
    if (!early && !keeps(m, CLAIM_FIRST)) return;
    if (m->next.epochs[e - 2].fate == CLAIMED) m->next.epochs[e - 2].fate = VOIDED;
    m->next.epochs[e - 1].fate = CLAIMED;
    m->w->epoch = (uint8_t)e;
    m->w->number = ++m->next.number;
    m->w->phase = early ? COPYING : CLAIMING;
    if (keeps(m, FENCE_FILES)) m->next.shown = (uint8_t)e;
    if (early) copy_tail(m);
    take(m, SEARCH_CHOICE, "claims the next epoch");
}

static void show(move *m)
{
    if (keeps(m, FENCE_FILES) || m->w->phase != OWNER || m->w->epoch <= m->from->shown) return;
    m->next.shown = m->w->epoch;
    take(m, SEARCH_DUTY, "shows its epoch in shared memory");
}

static void read_log(move *m)
{
    bool early = m->w->phase == OUTSIDE && !keeps(m, CLAIM_FIRST) &&
                 (m->who == 1 || m->from->writers[1].phase != OUTSIDE);
    if (m->w->phase != CLAIMING && !early) return;
    view v = recover(m->self, m->from);
    m->w->end = (uint8_t)v.end;
    m->w->copied_from = (uint8_t)((v.durable < v.end ? v.durable : v.end) + 1);
    if (!keeps(m, COPY)) m->w->copied_from = (uint8_t)(v.end + 1);
    if (!early) copy_tail(m);
    m->w->phase = early ? READ_EARLY : COPYING;
    take(m, early ? SEARCH_CHOICE : SEARCH_DUTY, "reads the log to its end and copies the tail");
}

static bool copies_synced(const move *m)
{
    for (int p = m->w->copied_from; p <= m->w->end; p++) {
        const slot *at = look(m->from, m->w->epoch, p);
        if (at->what && !(at->flags & DURABLE)) return false;
    }
    return true;
}

static void sync_copies(move *m)
{
    if (m->w->phase != COPYING || copies_synced(m)) return;
    for (int p = m->w->copied_from; p <= m->w->end; p++) {
        slot_of(&m->next, m->w->epoch, p)->flags |= DURABLE;
    }
    take(m, SEARCH_DUTY, "syncs the copies");
}

/* What a writer has begun and a seal does not have is gone for ever. */
static void leave_out(state *s, uint8_t found)
{
    for (int txn = 1; txn <= TXNS; txn++) {
        bool begun = s->begun >> (txn - 1) & 1;
        if (begun && !(found & bit(txn))) s->left_out |= bit(txn);
    }
}

static void seal(move *m)
{
    if (m->w->phase != COPYING || (keeps(m, COPY_SYNCED) && !copies_synced(m))) return;
    if (m->from->number != m->w->number && keeps(m, VOID)) {
        *m->w = (writer){.phase = GONE};
        take(m, SEARCH_DUTY, "cannot seal: another manifest came first");
        return;
    }
    int found = m->w->end;
    if (!keeps(m, START_ABOVE) && found == m->from->cursor) found = 0;
    uint8_t start = (uint8_t)(found + 1);
    uint8_t copied_from = m->w->copied_from < start ? m->w->copied_from : start;
    m->next.epochs[m->w->epoch - 1] = (epoch){SEALED, start, copied_from};
    m->next.number++;
    view v = recover(m->self, &m->next);
    uint8_t found_rows = 0;
    for (int p = 1; p <= m->w->end; p++) {
        rely(&m->next, p, v.rows[p] ? v.rows[p] : EMPTY);
        found_rows |= bit(v.rows[p]);
    }
    leave_out(&m->next, found_rows);
    writer *w = m->w;
    w->phase = OWNER;
    w->written = w->synced = w->checked = w->answered = (uint8_t)found;
    w->flush_from = (uint8_t)(m->from->cursor + 1);
    w->end = w->copied_from = w->number = 0;
    take(m, SEARCH_DUTY, "seals: readers see what it found");
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void kill_writer(move *m)
{
    if (m->w->phase != CLAIMING && m->w->phase != COPYING) return;
    *m->w = (writer){.phase = GONE};
    take(m, SEARCH_FAULT, "is killed");
}

/* Which part of the page cache reached the disk is anybody's guess: by bits. */
static void crash(search *self, const state *s)
{
    uint8_t at_risk[EPOCHS * LAST];
    int count = 0;
    const slot *slots = &s->log[0][0];
    for (int i = 0; i < EPOCHS * LAST; i++) {
        if (slots[i].what && !(slots[i].flags & DURABLE)) at_risk[count++] = (uint8_t)i;
    }
    if (s->crashes == CRASHES) return;
    for (int kept = 0; kept < 1 << count; kept++) {
        state next = *s;
        for (int i = 0; i < count; i++) {
            slot *at = &next.log[at_risk[i] / LAST][at_risk[i] % LAST];
            at->flags = (uint8_t)((at->flags & ~MARKED_CLEAN) | DURABLE);
            if (!(kept >> i & 1)) *at = (slot){0};
        }
        for (int i = 0; i < WRITERS; i++) {
            if (next.writers[i].phase != OUTSIDE) next.writers[i] = (writer){.phase = GONE};
        }
        next.crashes++;
        search_step(self, &next, SEARCH_FAULT, "machine", "loses power, and part of its cache");
    }
}

/* ---- the model ------------------------------------------------------------------------------- */

static void start(void *of)
{
    state *s = of;
    s->epochs[0] = (epoch){SEALED, 1, 1};
    s->writers[0] = (writer){.phase = OWNER, .epoch = 1, .flush_from = 1};
    s->number = 1;
    s->shown = 1;
}

static void steps(search *self, const void *of)
{
    const state *s = of;
    static void (*const owner[])(move *) = {write_entries, rotate, sync_log, check_fence,
                                            answer_some,   decide, flush,    show};
    static void (*const others[])(move *) = {claim, read_log, sync_copies, seal};
    for (int who = 0; who < WRITERS; who++) {
        move m = begin(self, s, who);
        aim(&m);
        for (size_t i = 0; i < sizeof owner / sizeof *owner && m.w->phase == OWNER; i++) {
            owner[i](&m);
        }
        if (m.w->phase == FENCED) flush(&m);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) others[i](&m);
        kill_writer(&m);
    }
    crash(self, s);
}

static bool waiting(const void *of)
{
    const state *s = of;
    for (int who = 0; who < WRITERS; who++) {
        const writer *w = &s->writers[who];
        if (w->phase == CLAIMING || w->phase == COPYING) return true;
        if (w->phase == OWNER && (w->answered < w->written || w->undecided)) return true;
    }
    return false;
}

const search_model model_epoch = {
    "epochs", sizeof(state), rules, RULE_COUNT, start, steps, broken, waiting,
};
