/* harness_words.c: the words of a script. */
#include "harness_inside.h"
#include "store.h"

#include <ctype.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_CHANGES_MAX = 16 };

const harness_workload harness_workloads[] = {
    {"create", "create", 100, 1 << 20, false, false},
    {"insert", "create open light+1", 3000, 1 << 20, false, false},
    {"group", "create open light+1 group+10+11+12+13+14+15+16+17+18 full+2", 600, 1 << 20, false,
     false},
    {"one id", "create open light+1 full+1 light-1 full+1-1 light+1 full-1 light+1+1 close", 700,
     1 << 20, false, false},
    {"rotation", "create open light+1 light+2 full+3-1 light+4 light+5+1 full+6 light-5", 700, 1500,
     false, false},
    {"flush", "create open light+1+2 flush light+3-1 full+2 close open light+4", 900, 1 << 20,
     false, false},
    {"merge", "create open light+1+2+3 flush full+2+4 flush merge light+5-3", 500, 1 << 20, false,
     false},
    {"merge of deletes",
     "create open full+1+2+3 flush light-1-2 flush merge light+1-3 flush light-1 flush merge "
     "full+2",
     400, 1 << 20, false, false},
    {"levels",
     "create little open full+1+2+3+4+5+6+7+8 flush merge light-2 full+9+3 flush shift light+2-4 "
     "flush merge light-1+8 flush compact light+5",
     250, 1 << 20, false, false},
    {"moves",
     "create little open full+1+2+3 flush full+4+5+6 flush light+7+8+9 flush merge light-5 flush "
     "merge light+3 compact light+10",
     250, 1 << 20, false, false},
    {"takeover",
     "create open light+1 full+2 b:open !light+9 b:light+3-1 b:flush b:full+4 b:merge b:light+5",
     700, 1 << 20, true, false},
    {"abort", "create open full+1 abort+1-2+3 light+2 retry+3+4 abort-2 full+5 flush abort+6 close",
     600, 1 << 20, false, false},
    {"compensation", "create open light+1+2 undo+1-2+3 light+3 flush undo-1+2 full+4 undo+5", 600,
     1 << 20, false, false},
    {"spill", "create open light+1 full+1+2+3-1+4+5 light+2 drop+6+7+8+9 light-2-3+7+8", 700, 1500,
     false, false},
    {"spilled back", "create open light+1 back+2+3-1+4+5+6 light+3 back+1+2+1+2+1+2 close", 700,
     1500, false, false},
    {"spilled abort", "create open abort+2+3+4-1 light+4 retry+1+2+3+5 abort+6+7+8 full+7 close",
     700, 1500, false, false},
    {"spilled flush",
     "create open full+1+2+3+4 flush light+3-1 full+1+2+3-4 merge flush merge full+5+6+7", 700,
     1500, false, false},
    {"spilled over", "create open full+1+2+3 b:open !full+7+8+9 b:full-1+3+4+5 b:flush b:light+1",
     700, 1500, true, false},
    {"spilled normal",
     "create open light+1 full+1+2+3+4 light+5-3 drop+6+7+8 full-2+5+6 close open light+1", 700,
     1500, false, true},
    {"both",
     "create open light+1 both+1+2 veto+3-1 both-1+4 light+2-4 both+5 flush both-2+1 close open "
     "both+6 veto-6",
     600, 1 << 20, false, false},
    {"spilled both",
     "create open both+1+2+3+4 light+5-3 veto+6+7+8+9 both-2+5+6+7 flush both+1+2+3+8", 700, 1500,
     false, false},
    {"both normal", "create open light+1 both+2+1 light-1 veto+3 both+4 close open light+5", 250,
     1 << 20, false, true},
    {"normal",
     "create open light+1 full+2 light+3-1 close open light+4+1 abort+5 undo-2 full+5 light-4", 250,
     1 << 20, false, true},
};
const uint32_t harness_workload_count = sizeof harness_workloads / sizeof *harness_workloads;

const harness_workload *harness_workload_named(const char *name)
{
    for (uint32_t i = 0; i < harness_workload_count; i++) {
        if (strcmp(harness_workloads[i].name, name) == 0) return &harness_workloads[i];
    }
    return NULL;
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* A transaction up to the answer to its prepare. */
typedef struct attempt {
    mw_db *db;
    size_t commit;
    mw_txn_kind kind;
    mw_txn *txn; /* NULL: it could not be begun, or is over */
    oracle_fate fate;
    mw_rc rc;
    mw_err err;
} attempt;

static bool lived(const harness *h, size_t commit, size_t change_index)
{
    const harness_commit *own = &h->past.commits[commit];
    const harness_change *changes = &h->past.changes[own->first];
    uint8_t key = changes[change_index].key;
    for (size_t i = change_index; i-- > 0;) {
        if (changes[i].key == key) return !changes[i].deleted;
    }
    const harness_change *before = harness_newest_change(h, key, commit);
    return before && !before->deleted;
}

/* Makes change i of a commit; the engine must know whether the id lived. */
static mw_rc make_change(const harness *h, attempt *a, size_t i, mw_buf *row)
{
    const harness_change *change = &h->past.changes[h->past.commits[a->commit].first + i];
    uint8_t bytes[MW_INTEGER_KEY_BYTES];
    mw_slice key = harness_make_key(change->key, bytes);
    bool expected = lived(h, a->commit, i);
    bool was = false;
    int64_t delta = mw_txn_count_delta(a->txn) + (change->deleted ? 0 : 1) - expected;
    if (!change->deleted) harness_make_row(h, change->tag, row);
    mw_rc rc = change->deleted ? mw_txn_delete(a->txn, key, &was, &a->err)
                               : mw_txn_put(a->txn, key, mw_buf_slice(row), &was, &a->err);
    if (rc == MW_OK && (was != expected || mw_txn_count_delta(a->txn) != delta)) {
        rc = mw_fail(&a->err, MW_MISUSE, "key %d: expected that it %s before", change->key,
                     expected ? "lived" : "did not live");
    }
    return rc;
}

static void attempt_changes(const harness *h, attempt *a, size_t from, size_t count)
{
    mw_buf row;
    mw_buf_init(&row, mw_env_posix());
    for (size_t i = 0; a->rc == MW_OK && i < count; i++) a->rc = make_change(h, a, from + i, &row);
    mw_buf_free(&row);
}

static void attempt_prepare(attempt *a)
{
    if (a->rc != MW_OK) return;
    a->rc = mw_txn_prepare(a->txn, a->kind, &a->err);
    a->fate = a->rc == MW_OK            ? ORACLE_ACKED
              : a->rc == MW_PERSISTENCE ? ORACLE_UNKNOWN
                                        : ORACLE_FAILED;
}

/* Where the host has to answer first it is asked, as often as the extension does. */
static void attempt_begin(harness *h, attempt *a)
{
    mw_judge judge = harness_judge(h);
    a->fate = ORACLE_FAILED;
    a->rc = mw_txn_begin(a->db, WAIT_MS, &a->txn, &a->err);
    for (int tries = 2; a->rc == MW_UNDECIDED && tries > 0; tries--) {
        a->err = (mw_err){0};
        a->rc = mw_db_settle(a->db, WAIT_MS, &judge, &a->err);
        if (a->rc == MW_OK) a->rc = mw_txn_begin(a->db, WAIT_MS, &a->txn, &a->err);
    }
    if (a->rc != MW_OK) a->txn = NULL;
}

/* Commits what is prepared, rolls back what has failed: neither may fail. */
static void attempt_end(attempt *a)
{
    mw_err err = {0};
    if (!a->txn) return;
    mw_rc rc = a->rc == MW_OK ? mw_txn_commit(a->txn, &err) : mw_txn_rollback(a->txn, &err);
    a->txn = NULL;
    if (rc == MW_OK) return;
    a->rc = MW_MISUSE;
    a->err = err;
}

/* ---- words of a script ----------------------------------------------------------------------- */

typedef struct word {
    char name[16];
    int engine;
    bool fenced;
    harness_change changes[WORD_CHANGES_MAX];
    size_t count;
} word;

/* Tells the past what came of an attempt. */
static bool settle(harness *h, const word *w, const attempt *a)
{
    bool before = h->stopped[w->engine];
    h->past.commits[a->commit].fate = a->fate;
    harness_note_stop(h, w->engine, a->rc);
    if (a->rc == MW_OK && before) {
        return harness_wrong(h, "%s was acknowledged by a writer that had stopped", w->name);
    }
    if (a->rc == MW_OK) {
        h->owner = w->engine;
        bool done = true;
        if (harness_any_fate(h, ORACLE_UNKNOWN) && !harness_settle_peer(h, &done)) return false;
        h->halted = !done;
    }
    bool any = !w->fenced || h->lenient || sim_stopped(h->world);
    if (any) return harness_allowed(h, w->name, a->rc, &a->err);
    return a->rc == MW_FENCED || harness_wrong(h, "expected %s to be fenced, it answered '%s'",
                                               w->name, mw_rc_text(a->rc));
}

static attempt attempt_of(harness *h, const word *w)
{
    attempt a = {.db = h->db[w->engine], .kind = MW_TXN_FULL};
    if (strcmp(w->name, "light") == 0 || strcmp(w->name, "undo") == 0) a.kind = MW_TXN_LIGHT;
    a.commit = harness_note_commit(h, w->engine, w->changes, w->count);
    attempt_begin(h, &a);
    return a;
}

static bool run_commit(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    attempt_prepare(&a);
    attempt_end(&a);
    return settle(h, w, &a);
}

/* What a rollback or an unprepare of something prepared answers: it is gone, or unknown. */
static void take_back(attempt *a, bool end)
{
    a->rc = end ? mw_txn_rollback(a->txn, &a->err) : mw_txn_unprepare(a->txn, &a->err);
    if (end) a->txn = NULL;
    if (a->rc != MW_OK && a->rc != MW_PERSISTENCE) a->rc = MW_MISUSE;
}

/* What takes something back is durable with any durability, and so is all before it. */
static bool note_taken_back(harness *h, const attempt *a)
{
    if (a->rc == MW_OK) h->past.synced = h->past.commit_count;
    return true;
}

static bool run_abort(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    attempt_prepare(&a);
    if (a.rc == MW_OK) {
        take_back(&a, true);
        a.fate = a.rc == MW_OK ? ORACLE_FAILED : ORACLE_UNKNOWN;
    }
    attempt_end(&a);
    return settle(h, w, &a) && note_taken_back(h, &a);
}

/* The light entry has happened; so has, after it, the entry that takes it back. */
static bool run_undo(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    attempt_prepare(&a);
    if (a.rc != MW_OK) {
        attempt_end(&a);
        return settle(h, w, &a);
    }
    if (!settle(h, w, &a)) return false;
    harness_change back[WORD_CHANGES_MAX];
    for (size_t i = 0; i < w->count; i++) {
        const harness_change *before = harness_newest_change(h, w->changes[i].key, a.commit);
        back[i] = before ? *before : (harness_change){w->changes[i].key, true, 0};
    }
    a.commit = harness_note_commit(h, w->engine, back, w->count);
    take_back(&a, true);
    a.fate = a.rc == MW_OK ? ORACLE_ACKED : ORACLE_UNKNOWN;
    return settle(h, w, &a) && note_taken_back(h, &a);
}

/* Up to the host's commit: its only moment is the one between these two calls. */
static attempt run_pledge(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    mw_pledge pledge = harness_pledge(a.commit);
    if (a.rc == MW_OK) a.rc = mw_txn_pledge(a.txn, &pledge, &a.err);
    if (a.rc != MW_OK) attempt_end(&a);
    return a;
}

/* Once the host has committed it has happened, whatever the engine can still write. */
static bool run_both(harness *h, const word *w)
{
    attempt a = run_pledge(h, w);
    if (a.rc != MW_OK) return settle(h, w, &a);
    h->past.commits[a.commit].host = true;
    a.fate = ORACLE_ACKED;
    a.rc = mw_txn_commit(a.txn, &a.err);
    h->past.synced = h->past.commit_count; /* its prepare was */
    return settle(h, w, &a);
}

static bool run_veto(harness *h, const word *w)
{
    attempt a = run_pledge(h, w);
    if (a.rc != MW_OK) return settle(h, w, &a);
    take_back(&a, true);
    a.fate = ORACLE_FAILED;
    return settle(h, w, &a) && note_taken_back(h, &a);
}

static bool run_drop(harness *h, const word *w)
{
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, w->count);
    if (a.rc == MW_OK) {
        a.rc = mw_txn_rollback(a.txn, &a.err);
        a.txn = NULL;
    }
    attempt_end(&a);
    return settle(h, w, &a);
}

/* Ends as a commit of the changes before the savepoint. */
static bool run_back(harness *h, const word *w)
{
    uint64_t mark = 0;
    size_t kept = (w->count + 1) / 2;
    attempt a = attempt_of(h, w);
    attempt_changes(h, &a, 0, kept);
    if (a.rc == MW_OK) a.rc = mw_txn_mark(a.txn, &mark, &a.err);
    attempt_changes(h, &a, kept, w->count - kept);
    if (a.rc == MW_OK) a.rc = mw_txn_undo(a.txn, mark, &a.err);
    if (a.rc != MW_OK) {
        attempt_end(&a);
        return settle(h, w, &a);
    }
    harness_change changes[WORD_CHANGES_MAX];
    memcpy(changes, &h->past.changes[h->past.commits[a.commit].first], kept * sizeof *changes);
    a.commit = harness_note_commit(h, w->engine, changes, kept);
    a.fate = ORACLE_FAILED;
    attempt_prepare(&a);
    attempt_end(&a);
    return settle(h, w, &a);
}

/* All changes but the last are prepared and taken back; then all of them are prepared. */
static bool run_retry(harness *h, const word *w)
{
    word first = *w;
    first.count--;
    attempt a = attempt_of(h, &first);
    attempt_changes(h, &a, 0, first.count);
    attempt_prepare(&a);
    if (a.rc == MW_OK) {
        take_back(&a, false);
        a.fate = a.rc == MW_OK ? ORACLE_FAILED : ORACLE_UNKNOWN;
    }
    bool back = a.rc == MW_OK;
    if (!back) attempt_end(&a);
    if (!settle(h, w, &a) || !back) return h->words[0] == 0;
    harness_change all[WORD_CHANGES_MAX];
    memcpy(all, &h->past.changes[h->past.commits[a.commit].first], first.count * sizeof *all);
    all[first.count] = w->changes[first.count];
    a.commit = harness_note_commit(h, w->engine, all, w->count);
    a.fate = ORACLE_FAILED;
    attempt_changes(h, &a, first.count, 1);
    attempt_prepare(&a);
    attempt_end(&a);
    return settle(h, w, &a);
}

/* ---- a group --------------------------------------------------------------------------------- */

typedef struct member {
    harness *h;
    attempt attempt;
    sem_t begun; /* it has the turn, or cannot have it */
    sem_t go;
    int hold; /* of the first one's write, -1: not the first */
    pthread_t thread;
} member;

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem)) {
    }
}

static void *run_member(void *arg)
{
    member *self = arg;
    attempt *a = &self->attempt;
    attempt_begin(self->h, a);
    sem_post(&self->begun);
    wait_for(&self->go);
    attempt_changes(self->h, a, 0, 1);
    attempt_prepare(a);
    /* Where it has failed its write may never come: nobody shall wait for it. */
    if (self->hold >= 0 && a->rc != MW_OK) sim_release(self->h->world, self->hold);
    attempt_end(a);
    return NULL;
}

/* Returns once the member has the turn: those before it have queued their entries, or have
** failed. */
static void start_member(harness *h, const word *w, size_t i, member *self)
{
    *self = (member){.h = h, .hold = -1};
    self->attempt = (attempt){.db = h->db[w->engine], .kind = MW_TXN_LIGHT};
    self->attempt.commit = harness_note_commit(h, w->engine, &w->changes[i], 1);
    sem_init(&self->begun, 0, 0);
    sem_init(&self->go, 0, 0);
    int sys = pthread_create(&self->thread, NULL, run_member, self);
    if (sys) harness_give_up("no thread", "group");
    wait_for(&self->begun);
    if (i == 0) self->hold = sim_hold(h->world, SIM_WRITE, "wal-");
    sem_post(&self->go);
    if (i == 0) sim_wait_held(h->world, self->hold);
}

static void end_member(member *self)
{
    pthread_join(self->thread, NULL);
    sem_destroy(&self->begun);
    sem_destroy(&self->go);
}

static bool settle_group(harness *h, const word *w, member *members, uint64_t syncs)
{
    bool all = true;
    bool right = true;
    for (size_t i = 0; i < w->count; i++) {
        const attempt *a = &members[i].attempt;
        all = all && a->rc == MW_OK;
        right = settle(h, w, a) && right;
    }
    if (right && all && !h->lenient && syncs != 2) {
        return harness_wrong(h, "expected 2 syncs, the held one's and the group's, found %llu",
                             (unsigned long long)syncs);
    }
    return right;
}

static bool run_group(harness *h, const word *w)
{
    member members[WORD_CHANGES_MAX];
    mw_txn *last = NULL;
    mw_err err = {0};
    uint64_t syncs = sim_calls(h->world, SIM_FILE_SYNC);
    for (size_t i = 0; i < w->count; i++) start_member(h, w, i, &members[i]);
    /* Who has the turn now knows that all are queued. */
    mw_rc rc = mw_txn_begin(h->db[w->engine], WAIT_MS, &last, &err);
    sim_release(h->world, members[0].hold);
    for (size_t i = 0; i < w->count; i++) end_member(&members[i]);
    if (rc == MW_OK) rc = mw_txn_rollback(last, &err);
    bool right = settle_group(h, w, members, sim_calls(h->world, SIM_FILE_SYNC) - syncs);
    harness_note_stop(h, w->engine, rc);
    return right && harness_allowed(h, "an empty transaction", rc, &err);
}

/* ---- other words ----------------------------------------------------------------------------- */

static bool run_create(harness *h, const word *w)
{
    (void)w;
    return harness_create_store(h);
}

static bool run_open(harness *h, const word *w)
{
    if (h->db[w->engine]) return h->lenient || harness_wrong(h, "open twice");
    return harness_open_engine(h, w->engine);
}

static bool run_close(harness *h, const word *w) { return harness_close_engine(h, w->engine); }

static bool run_flush(harness *h, const word *w)
{
    mw_err err = {0};
    uint64_t generation;
    mw_rc rc = mw_db_flush(h->db[w->engine], WAIT_MS, &generation, &err);
    harness_note_stop(h, w->engine, rc);
    return harness_allowed(h, "flush", rc, &err);
}

static bool run_merge(harness *h, const word *w)
{
    mw_err err = {0};
    uint32_t folded;
    mw_rc rc = mw_db_merge(h->db[w->engine], 0, NULL, NULL, &folded, &err);
    harness_note_stop(h, w->engine, rc);
    return harness_allowed(h, "merge", rc, &err);
}

static bool run_compact(harness *h, const word *w)
{
    mw_err err = {0};
    uint64_t removed;
    mw_rc rc = mw_db_compact(h->db[w->engine], NULL, NULL, &removed, &err);
    harness_note_stop(h, w->engine, rc);
    return harness_allowed(h, "compact", rc, &err);
}

static bool run_little(harness *h, const word *w)
{
    (void)w;
    h->past.little = true;
    return true;
}

/* The successor of a manifest in which every file lies one level deeper. */
static mw_rc shifted(const mw_manifest *now, mw_manifest **next, mw_err *err)
{
    mw_rc rc = mw_manifest_copy(now, next, err);
    for (uint32_t i = 0; rc == MW_OK && i < now->file_count; i++) {
        mw_manifest_file file = now->files[i];
        file.level++;
        if (!mw_manifest_remove_file(*next, file.epoch, file.number)) {
            harness_give_up("a file is not listed", "shift");
        }
        rc = mw_manifest_add_file(*next, &file, err);
    }
    if (rc == MW_OK) (*next)->boundary = (*next)->number;
    return rc;
}

static bool run_shift(harness *h, const word *w)
{
    mw_err err = {0};
    mw_manifest *next = NULL;
    mw_store *store = (mw_store *)h->db[w->engine];
    mw_version *version = mw_store_version(store);
    bool apart = version->files->levels.files[0].count <= 1; /* faults may have kept more */
    mw_rc rc = apart ? shifted(version->manifest, &next, &err) : MW_OK;
    store->env->mutex_lock(store->env->ctx, store->manifest_mutex);
    if (rc == MW_OK && apart) rc = mw_store_publish(store, next, &err);
    store->env->mutex_unlock(store->env->ctx, store->manifest_mutex);
    mw_manifest_unref(next);
    mw_version_unref(version);
    harness_note_stop(h, w->engine, rc);
    return harness_allowed(h, "shift", rc, &err);
}

typedef struct action {
    const char *name;
    bool needs_engine;
    bool (*run)(harness *h, const word *w);
} action;

static const action actions[] = {
    {"create", false, run_create}, {"open", false, run_open},      {"close", true, run_close},
    {"light", true, run_commit},   {"full", true, run_commit},     {"abort", true, run_abort},
    {"undo", true, run_undo},      {"retry", true, run_retry},     {"group", true, run_group},
    {"drop", true, run_drop},      {"back", true, run_back},       {"flush", true, run_flush},
    {"merge", true, run_merge},    {"compact", true, run_compact}, {"little", false, run_little},
    {"shift", true, run_shift},    {"both", true, run_both},       {"veto", true, run_veto},
};

static const action *action_named(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, name) == 0) return &actions[i];
    }
    harness_give_up("no such word", name);
}

/* Faults may have taken the engine away, or stopped its writer. A stopped one is asked for one more
** word, which it must refuse, and is then opened again. */
static bool have_engine(harness *h, int engine)
{
    bool reopen = h->lenient && h->stopped[engine] && h->probed[engine];
    h->probed[engine] = h->stopped[engine];
    if (reopen && !harness_close_engine(h, engine)) return false;
    if (h->lenient && !h->db[engine] && !harness_open_engine(h, engine)) return false;
    return h->db[engine] != NULL;
}

/* Reads one word; returns what is behind it, NULL at the end of the script. */
static const char *read_word(const char *at, word *w)
{
    memset(w, 0, sizeof *w);
    while (*at == ' ') at++;
    if (!*at) return NULL;
    if (*at == '!') w->fenced = *at++ != 0;
    if (strncmp(at, "b:", 2) == 0) {
        w->engine = 1;
        at += 2;
    }
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (length >= sizeof w->name) harness_give_up("too long a word", at);
    memcpy(w->name, at, length);
    at += length;
    while (*at == '+' || *at == '-') {
        char *end;
        bool deleted = *at == '-';
        unsigned long key = strtoul(at + 1, &end, 10);
        if (w->count == WORD_CHANGES_MAX || key >= KEYS || !isdigit((unsigned char)at[1])) {
            harness_give_up("not a change", at);
        }
        w->changes[w->count++] = (harness_change){(uint8_t)key, deleted, 0};
        at = end;
    }
    if (*at && *at != ' ') harness_give_up("not a word", at);
    return at;
}

bool harness_run(harness *h, const char *script)
{
    word w;
    bool right = true;
    while (right && !h->halted && !sim_stopped(h->world) && (script = read_word(script, &w))) {
        const action *what = action_named(w.name);
        bool ready = !what->needs_engine || have_engine(h, w.engine);
        if (ready) right = what->run(h, &w);
        if (!ready && !h->lenient) harness_wrong(h, "%s: nothing is open", w.name);
        right = right && h->words[0] == 0;
    }
    return right;
}
