/* model_host.c: transactions over a store and tables of its host database, in two phases.
**
**     A   begin -> prepare(t), synced -> the host commits, rows and marker, and unlocks -> commit(t)
**             the host says BUSY: abort(t), a new prepare          rolled back: abort(t)
**         light transactions, flushes, the turn given up
**     B   the same after a clean end; or claims at any time: host's lock, claim, read, settle, seal
**
** The host is one value: transactions whose rows it has, what of them the disk has, who may write.
** Its commit is atomic but perhaps in the page cache only: a folder that was not synced after a
** journal was deleted, `synchronous` below FULL. The log is a row of records; what was not synced
** may reach the disk by itself at any time, so a crash of the machine keeps any beginning of it.
** Epochs are what model_epoch.c has proved: who is fenced writes nothing that counts.
**
** In every state the store is recovered as if all processes had died: each transaction must be on
** both sides or on neither. */
#include "model.h"

#include <assert.h>

enum { LAST = 6, FULLS = 3, LIGHT_A = 4, LIGHT_B = 5, CUTS = 1 };

/* clang-format off */
#define RULES(X)                                                                                   \
    X(PREPARE_SYNCED,  "a prepare is synced before the host commits",                              \
                       "the host keeps a transaction whose prepare the disk never had")            \
    X(MARKER_WITHIN,   "the marker row is part of the host's transaction",                         \
                       "rows of the host without a marker look like none")                         \
    X(FRESH_ID,        "each prepare has a fresh transaction id",                                  \
                       "the marker of an earlier transaction answers for a later one")             \
    X(ABORT_AGAIN,     "abort(p) comes before a second prepare of the transaction",                \
                       "the first prepare counts because something follows it")                    \
    X(ABORT_BACK,      "a rollback after the prepare writes abort(p)",                             \
                       "the prepare counts because something follows it")                          \
    X(WRITE_AFTER,     "the host's commit is durable before anything is written behind it",        \
                       "what follows reaches the disk and vouches for what the host loses")        \
    X(FLUSH_AFTER,     "the host's commit is durable before a cursor passes it",                   \
                       "a table file keeps what the host loses")                                   \
    X(UNLOCK_AFTER,    "the host's commit is durable before the turn is given up",                 \
                       "the next process writes behind it and knows of no host")                   \
    X(ASK_AGAIN,       "a commit record at the very end is a hint, the host is asked again",       \
                       "the unsynced record reached the disk, the host's commit did not")          \
    X(SETTLE,          "a prepare at the end is settled by the host's marker",                     \
                       "a transaction counts that the host never committed")                       \
    X(SETTLE_LOCKED,   "an absent marker counts only under the host's write lock",                 \
                       "the host commits a moment after it was asked")                             \
    X(SETTLE_FILE,     "an absent marker counts only in the file that names this store",           \
                       "a copy of the database file answers")                                      \
    X(SETTLE_DURABLE,  "who settles makes the host's commit durable before the seal",              \
                       "the seal keeps what the host loses")                                       \
    X(ABORT_OVERTAKES, "who overtakes a claim aborts its own prepare first",                       \
                       "a seal shows what the host may still roll back")                           \
    X(LOCK_FIRST,      "the host's write lock is held from before the claim",                      \
                       "an open that ends with BUSY has thrown a healthy writer out")
/* clang-format on */

MODEL_RULES(MODEL_HOST_FIRST)

enum { NOTHING, PREPARE, COMMIT, ABORT, LIGHT };

typedef struct record {
    uint8_t kind;
    uint8_t txn;
    uint8_t durable;
} record;

typedef enum phase {
    OUTSIDE,
    HOLDS,    /* the turn                                    */
    BEGUN,    /* has the host's lock, too                    */
    WRITTEN,  /* prepare, not synced                         */
    PREPARED, /* xSync has returned                          */
    HOSTED,   /* the host has committed, dropped its lock    */
    ROLLING,  /* the host has rolled back, dropped its lock  */
    LIGHTLY,  /* a light entry is written, not synced        */
    ASKING,   /* has claimed, needs the host's lock          */
    LOCKED,   /* has it, not claimed                         */
    CLAIMED,  /* has claimed, and the lock                   */
    SETTLED,  /* has read the log and asked the host         */
    GONE,
} phase;

enum { NOBODY, A, B };
enum { UNCLAIMED, ALIVE, ORPHANED }; /* the newest claim that is not sealed */

typedef struct state {
    record log[LAST];
    uint8_t end, cursor, sealed; /* positions */
    uint8_t files;               /* transactions in table files, by bit like those below */
    uint8_t host, host_disk;
    uint8_t host_by;  /* who knows of the host's last commit */
    uint8_t unmarked; /* in the host without a marker */
    uint8_t host_lock, turn;
    uint8_t phase[3]; /* of A, B */
    uint8_t txn[3];   /* their open ones */
    uint8_t begun;
    uint8_t read;   /* B: the log's end when it read */
    uint8_t answer; /* B: COMMIT or ABORT for what it found open */
    uint8_t clean, claimed, fenced;
    uint8_t acknowledged, rolled_back;
    uint8_t shown;  /* to readers, by a seal or by xCommit */
    uint8_t doomed; /* a claim that its maker had to give up */
    uint8_t light, killed, cut, busy;
} state;

static_assert(sizeof(state) % 8 == 0, "the search hashes words");

static uint8_t bit(int txn) { return (uint8_t)(1 << txn); }
static const uint8_t fulls = (1 << 1) | (1 << 2) | (1 << 3);
static_assert(FULLS == 3, "fulls has their bits");

/* ---- recovery -------------------------------------------------------------------------------- */

static bool named(const search *self, const state *s, int txn)
{
    uint8_t marked = s->host & (uint8_t)~s->unmarked;
    return search_keeps(self, FRESH_ID) ? marked & bit(txn) : marked != 0;
}

/* Must the host be asked about the prepare at this position? */
static bool is_open(const search *self, const state *s, int p)
{
    if (p == s->end) return true;
    bool hint = p + 1 == s->end && s->log[p].kind == COMMIT && p + 1 > s->sealed;
    return hint && search_keeps(self, ASK_AGAIN);
}

static bool aborted(const state *s, int p)
{
    const record *next = &s->log[p];
    return p < s->end && next->kind == ABORT && next->txn == s->log[p - 1].txn;
}

/* The transactions that the store has, should all processes die now. */
static uint8_t recovered(const search *self, const state *s)
{
    uint8_t rows = s->files;
    for (int p = s->cursor + 1; p <= s->end; p++) {
        const record *at = &s->log[p - 1];
        if (at->kind == LIGHT) rows |= bit(at->txn);
        if (at->kind != PREPARE || aborted(s, p)) continue;
        bool ask = is_open(self, s, p) && search_keeps(self, SETTLE);
        if (!ask || named(self, s, at->txn)) rows |= bit(at->txn);
    }
    return rows;
}

static const char *broken(const search *self, const void *of)
{
    const state *s = of;
    uint8_t rows = recovered(self, s);
    uint8_t only_store = rows & (uint8_t)~s->host & fulls;
    uint8_t only_host = s->host & (uint8_t)~rows;
    if (only_store) return "I12: the store has a transaction, the host has not";
    if (only_host) return "I12: the host has a transaction, the store has not";
    if (s->acknowledged & ~rows) return "I1: an acknowledged row is lost";
    if (s->shown & ~rows) return "I3: a row is gone that readers saw";
    if (s->rolled_back & rows) return "I2: a row that was rolled back is there";
    if (s->doomed) return "I14: an open that was refused has fenced a healthy writer";
    return NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct move {
    search *self;
    const state *from;
    state next;
    int who;
} move;

static bool keeps(const move *m, int rule) { return search_keeps(m->self, rule); }

static void take(move *m, search_kind kind, phase to, const char *what)
{
    static const char *const names[] = {"", "A", "B"};
    m->next.phase[m->who] = (uint8_t)to;
    if (m->next.host == m->next.host_disk) m->next.host_by = NOBODY; /* nothing to know */
    search_step(m->self, &m->next, kind, names[m->who], what);
    m->next = *m->from;
}

static bool is_out(const move *m) { return m->who == A && m->from->fenced; }

/* What a fenced writer writes is looked at by nobody. */
static void append(move *m, int kind, int txn)
{
    state *s = &m->next;
    if (is_out(m)) return;
    s->log[s->end++] = (record){(uint8_t)kind, (uint8_t)txn, 0};
}

/* Without WRITE_AFTER the host's commit is durable before the next sync only: not enough. */
static void sync_log(move *m)
{
    if (m->who == m->from->host_by && !keeps(m, WRITE_AFTER)) m->next.host_disk = m->next.host;
    for (int p = 0; p < m->next.end; p++) m->next.log[p].durable = 1;
}

static int room(const state *s) { return LAST - s->end; }

/* Only who was there when the host committed knows that it may be in the page cache. */
static bool may_go_on(const move *m, int rule)
{
    bool durable = m->from->host == m->from->host_disk;
    return durable || m->who != m->from->host_by || !keeps(m, rule);
}

static void make_host_durable(move *m)
{
    if (m->who != m->from->host_by || m->from->host == m->from->host_disk) return;
    m->next.host_disk = m->next.host;
    take(m, SEARCH_DUTY, HOLDS, "makes the host's commit durable");
}

/* ---- A: both sides --------------------------------------------------------------------------- */

static void get_turn(move *m)
{
    const state *s = m->from;
    if (s->turn || !s->clean || is_out(m)) return;
    m->next.turn = (uint8_t)m->who;
    m->next.clean = 0;
    take(m, SEARCH_CHOICE, HOLDS, "takes the turn after a clean end");
}

static void begin(move *m)
{
    const state *s = m->from;
    if (s->host_lock || s->begun == FULLS || room(s) < 2) return;
    m->next.host_lock = (uint8_t)m->who;
    m->next.txn[m->who] = ++m->next.begun;
    take(m, SEARCH_CHOICE, BEGUN, "writes into the host's tables and the store's");
}

static void prepare(move *m)
{
    if (!may_go_on(m, WRITE_AFTER)) {
        m->next.host_disk = m->next.host;
        take(m, SEARCH_DUTY, BEGUN, "makes the host's last commit durable");
        return;
    }
    append(m, PREPARE, m->from->txn[m->who]);
    take(m, SEARCH_DUTY, WRITTEN, "xSync: writes a prepare");
    if (keeps(m, PREPARE_SYNCED) || m->from->claimed) return;
    append(m, PREPARE, m->from->txn[m->who]);
    take(m, SEARCH_CHOICE, PREPARED, "xSync: writes a prepare, returns");
}

/* Readers take what lies below a seal for decided. */
static void seal_end(move *m)
{
    state *s = &m->next;
    sync_log(m);
    s->sealed = s->end;
    s->shown |= s->files;
    for (int p = s->cursor + 1; p <= s->end; p++) {
        const record *at = &s->log[p - 1];
        bool row = at->kind == LIGHT || (at->kind == PREPARE && !aborted(s, p));
        if (row) s->shown |= bit(at->txn);
    }
    s->claimed = UNCLAIMED;
    s->clean = 0;
    s->fenced = 1;
}

static void overtake_prepared(move *m)
{
    state *s = &m->next;
    bool abort = keeps(m, ABORT_OVERTAKES);
    if (abort) {
        append(m, ABORT, s->txn[m->who]);
        s->rolled_back |= bit(s->txn[m->who]);
        s->host_lock = NOBODY;
    }
    seal_end(m);
    take(m, SEARCH_DUTY, abort ? GONE : PREPARED,
         abort ? "xSync: aborts, claims and seals itself, rolled back on both sides"
               : "xSync: claims and seals itself, returns");
}

static void sync_prepare(move *m)
{
    if (is_out(m)) {
        m->next.host_lock = m->from->host_lock == A ? NOBODY : m->from->host_lock;
        m->next.rolled_back |= bit(m->from->txn[m->who]);
        take(m, SEARCH_DUTY, GONE, "xSync: is fenced, rolled back on both sides");
    } else if (m->from->claimed == ORPHANED) {
        overtake_prepared(m);
    } else if (m->from->claimed == UNCLAIMED) {
        sync_log(m);
        take(m, SEARCH_DUTY, PREPARED, "xSync: syncs, finds no claim, returns");
    }
}

static void host_commits(move *m)
{
    static const char *const words[] = {
        "the host commits into the page cache, drops its lock",
        "the host commits durably, drops its lock",
    };
    for (int durable = 0; durable < 2; durable++) {
        state *s = &m->next;
        s->host |= bit(s->txn[m->who]);
        if (!keeps(m, MARKER_WITHIN)) s->unmarked |= bit(s->txn[m->who]);
        if (durable) s->host_disk = s->host;
        s->host_lock = NOBODY;
        s->host_by = (uint8_t)m->who;
        take(m, SEARCH_DUTY, HOSTED, words[durable]);
    }
}

static void host_refuses(move *m)
{
    state *s = &m->next;
    s->host_lock = NOBODY;
    take(m, SEARCH_CHOICE, ROLLING, "ROLLBACK: the host rolls back, drops its lock");
    if (s->busy || s->begun == FULLS || room(s) < 3) return;
    s->busy = 1;
    if (keeps(m, ABORT_AGAIN)) append(m, ABORT, s->txn[m->who]);
    s->rolled_back |= bit(s->txn[m->who]);
    s->txn[m->who] = ++s->begun;
    append(m, PREPARE, s->txn[m->who]);
    take(m, SEARCH_CHOICE, WRITTEN, "the host says BUSY, COMMIT again: abort and a new prepare");
}

static void roll_back(move *m)
{
    if (keeps(m, ABORT_BACK)) append(m, ABORT, m->from->txn[m->who]);
    sync_log(m);
    m->next.rolled_back |= bit(m->from->txn[m->who]);
    take(m, SEARCH_DUTY, is_out(m) ? GONE : HOLDS, "xRollback: writes the abort, synced");
}

static void commit(move *m)
{
    m->next.unmarked = 0;
    m->next.acknowledged |= bit(m->from->txn[m->who]);
    m->next.shown |= bit(m->from->txn[m->who]);
    append(m, COMMIT, m->from->txn[m->who]);
    take(m, SEARCH_DUTY, is_out(m) ? GONE : HOLDS, "xCommit: writes the commit, unsynced");
    m->next.unmarked = 0;
    m->next.acknowledged |= bit(m->from->txn[m->who]);
    m->next.shown |= bit(m->from->txn[m->who]);
    take(m, SEARCH_FAULT, GONE, "xCommit: cannot write the commit, the writer stops");
}

/* ---- both: with the turn --------------------------------------------------------------------- */

static void write_light(move *m)
{
    int txn = m->who == A ? LIGHT_A : LIGHT_B;
    bool open = m->from->light & bit(txn);
    if (open || room(m->from) < 1 || !may_go_on(m, WRITE_AFTER)) return;
    m->next.light |= bit(txn);
    append(m, LIGHT, txn);
    take(m, SEARCH_CHOICE, LIGHTLY, "writes a light entry");
}

static void sync_light(move *m)
{
    int txn = m->who == A ? LIGHT_A : LIGHT_B;
    if (is_out(m)) {
        /* Written in time or not, the seal knows. */
        take(m, SEARCH_DUTY, GONE, "is fenced");
    } else if (m->who == A && m->from->claimed == ORPHANED) {
        m->next.acknowledged |= bit(txn);
        seal_end(m);
        take(m, SEARCH_DUTY, GONE, "claims and seals itself, answers: committed");
    } else if (m->who == B || m->from->claimed == UNCLAIMED) {
        sync_log(m);
        m->next.acknowledged |= bit(txn);
        take(m, SEARCH_DUTY, HOLDS, "syncs, answers: committed");
    }
}

static void flush(move *m)
{
    state *s = &m->next;
    if (s->cursor == s->end || s->claimed || !may_go_on(m, FLUSH_AFTER)) return;
    if (is_out(m)) return;
    /* It knows what it has decided; nobody need be asked. */
    for (int p = s->cursor + 1; p <= s->end; p++) {
        const record *at = &s->log[p - 1];
        bool row = at->kind == LIGHT || (at->kind == PREPARE && !aborted(s, p));
        if (row) s->files |= bit(at->txn);
    }
    s->cursor = s->end;
    take(m, SEARCH_CHOICE, HOLDS, "flushes: a manifest with its end as cursor");
}

static void hand_over(move *m)
{
    if (m->from->turn != m->who || !may_go_on(m, UNLOCK_AFTER)) return;
    m->next.turn = NOBODY;
    m->next.clean = 1;
    take(m, SEARCH_CHOICE, OUTSIDE, "gives the turn up, clean");
}

/* ---- B: taking over -------------------------------------------------------------------------- */

static void come(move *m)
{
    state *s = &m->next;
    if (m->who != B) return;
    if (!keeps(m, LOCK_FIRST)) {
        s->claimed = ALIVE;
        take(m, SEARCH_CHOICE, ASKING, "claims the next epoch");
    } else if (!keeps(m, SETTLE_LOCKED)) {
        take(m, SEARCH_CHOICE, LOCKED, "does not ask for the host's write lock");
    } else if (!s->host_lock) {
        s->host_lock = B;
        take(m, SEARCH_CHOICE, LOCKED, "gets the host's write lock");
    }
}

static void ask_for_lock(move *m)
{
    state *s = &m->next;
    bool refused = s->host_lock != NOBODY;
    if (refused) {
        s->doomed = 1;
    } else {
        s->host_lock = B;
    }
    take(m, SEARCH_DUTY, refused ? GONE : CLAIMED,
         refused ? "does not get the host's write lock: BUSY" : "gets the host's write lock");
}

static void claim(move *m)
{
    m->next.claimed = ALIVE;
    take(m, SEARCH_DUTY, CLAIMED, "claims the next epoch");
}

static int open_position(const move *m)
{
    const state *s = m->from;
    for (int p = s->cursor + 1; p <= s->end; p++) {
        if (s->log[p - 1].kind == PREPARE && is_open(m->self, s, p)) return p;
    }
    return 0;
}

static void settle(move *m)
{
    state *s = &m->next;
    int open = open_position(m);
    s->read = (uint8_t)(open ? open : s->end);
    if (!open) {
        s->answer = NOTHING;
        if (keeps(m, SETTLE_DURABLE)) s->host_disk = s->host;
        take(m, SEARCH_DUTY, SETTLED, "reads the log, finds all decided");
        return;
    }
    bool there = !keeps(m, SETTLE) || named(m->self, s, s->log[open - 1].txn);
    s->answer = there ? COMMIT : ABORT;
    if (keeps(m, SETTLE_DURABLE)) s->host_disk = s->host;
    take(m, SEARCH_DUTY, SETTLED,
         there ? "reads the log; the last prepare's marker is there"
               : "reads the log; the last prepare's marker is absent");
    if (keeps(m, SETTLE_FILE)) return;
    s->read = (uint8_t)open;
    s->answer = ABORT;
    take(m, SEARCH_CHOICE, SETTLED, "reads the log; a copy of the host's file has no marker");
}

static void seal(move *m)
{
    state *s = &m->next;
    int txn = s->read ? s->log[s->read - 1].txn : 0;
    for (int p = s->read; p < LAST; p++) s->log[p] = (record){0};
    s->end = s->read;
    if (s->answer) append(m, s->answer, txn);
    seal_end(m);
    if (s->host_lock == B) s->host_lock = NOBODY;
    s->turn = B;
    s->read = s->answer = 0;
    take(m, SEARCH_DUTY, HOLDS, "copies, writes the decision, syncs, seals, drops the host's lock");
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void die(state *s, int who)
{
    s->phase[who] = GONE;
    if (s->host_lock == who) s->host_lock = NOBODY;
    if (s->turn == who) s->turn = NOBODY;
    s->txn[who] = 0;
    if (who == B && s->claimed) s->claimed = ORPHANED;
    if (who == B) s->read = s->answer = 0;
}

static void kill_process(move *m)
{
    if (m->from->killed & bit(m->who)) return;
    m->next.killed |= bit(m->who);
    die(&m->next, m->who);
    take(m, SEARCH_FAULT, GONE, "is killed");
}

static void lose_power(search *self, const state *s, int kept, bool host_kept)
{
    state next = *s;
    die(&next, A);
    die(&next, B);
    next.host_by = NOBODY;
    next.phase[B] = OUTSIDE; /* one comes again */
    next.cut++;
    next.claimed = UNCLAIMED; /* void by the next one */
    next.clean = 0;
    next.end = (uint8_t)kept;
    for (int p = 0; p < LAST; p++) {
        if (p >= kept) next.log[p] = (record){0};
        if (next.log[p].kind) next.log[p].durable = 1;
    }
    if (!host_kept) next.host = next.host_disk;
    next.host_disk = next.host;
    next.unmarked &= next.host;
    /* Acknowledged by the host, and no more durable than that. */
    next.acknowledged &= (uint8_t) ~(fulls & ~next.host);
    next.shown &= (uint8_t) ~(fulls & ~next.host);
    search_step(self, &next, SEARCH_FAULT, "machine",
                host_kept ? "loses power, and a part of the log"
                          : "loses power, the host's last commit and a part of the log");
}

static void crash(search *self, const state *s)
{
    int durable = s->cursor > s->sealed ? s->cursor : s->sealed;
    if (s->cut == CUTS) return;
    while (durable < s->end && s->log[durable].durable) durable++;
    for (int kept = durable; kept <= s->end; kept++) {
        lose_power(self, s, kept, true);
        if (s->host != s->host_disk) lose_power(self, s, kept, false);
    }
}

/* ---- the model ------------------------------------------------------------------------------- */

static void start(void *of)
{
    state *s = of;
    s->phase[A] = HOLDS;
    s->turn = A;
}

static void act(move *m)
{
    enum { ACTS = 5 };
    static void (*const by_phase[GONE][ACTS])(move *) = {
        [OUTSIDE] = {get_turn, come},
        [HOLDS] = {begin, write_light, flush, hand_over, make_host_durable},
        [BEGUN] = {prepare},
        [WRITTEN] = {sync_prepare},
        [PREPARED] = {host_commits, host_refuses},
        [HOSTED] = {commit},
        [ROLLING] = {roll_back},
        [LIGHTLY] = {sync_light},
        [ASKING] = {ask_for_lock},
        [LOCKED] = {claim},
        [CLAIMED] = {settle},
        [SETTLED] = {seal},
    };
    int now = m->from->phase[m->who];
    if (now == GONE) return;
    for (int i = 0; i < ACTS && by_phase[now][i]; i++) by_phase[now][i](m);
    if (now != OUTSIDE) kill_process(m);
}

static void steps(search *self, const void *of)
{
    const state *s = of;
    for (int who = A; who <= B; who++) {
        move m = {.self = self, .from = s, .next = *s, .who = who};
        act(&m);
    }
    crash(self, s);
}

static bool waiting(const void *of)
{
    const state *s = of;
    for (int who = A; who <= B; who++) {
        int now = s->phase[who];
        if (now != OUTSIDE && now != HOLDS && now != GONE) return true;
    }
    return false;
}

const search_model model_host = {
    "host", sizeof(state), rules, RULE_COUNT, start, steps, broken, waiting,
};
