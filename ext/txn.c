/* txn.c: transactions, savepoints and snapshots.
**
**   sqlite3* -- mx_connection -- mx_txn (one per store) <--- mx_vtab, mx_cursor (any number)
**                                  |- mw_txn    between begin and commit or rollback: the turn
**                                  |- marks     savepoint n began at marks[n]
**                                  |- moment    what the transaction sees until it has the turn
**                                  `- snapshot  what the statement sees, while cursors are open
**
** Savepoints. SQLite announces them sparsely: one number is announced once per table and so several
** times per store; those that were open before the first of a store's tables took part are not
** announced at all, but for the innermost of them, behind xBegin. Still they may be rolled back to.
** So savepoint(n) leaves marks that are there alone, and fills those below n that are not with
** MARK_START: all changes came after them. Behind xBegin that holds for n itself, else it gets the
** present position. rollback_to(-1) undoes everything. release(n) may end several at once. The
** engine is told which mark is the innermost one still in use: it keeps what lies between marks
** apart.
**
** Snapshots. All open cursors share one, so that one statement sees one moment. version counts what
** changes the view of this connection (its own changes, undo, begin, end): a snapshot of an older
** version is not given to new cursors, so a later statement sees what was written before it, while
** cursors that are open keep the moment they began with and never meet rows written after.
**
** Moments. Inside BEGIN the snapshot of the first read is kept for all later ones, until the control
** table (moment.c) tells the end of the transaction. It holds a reference to its mx_txn, since SQLite
** may disconnect all tables meanwhile. Once the turn is taken the connection sees the newest state,
** which must be that of the moment: else the transaction has read what is not so any more, and the
** turn is given back (SQLITE_BUSY_SNAPSHOT). Nobody else can change it afterwards, so a first read
** that comes after the turn needs no moment.
**
** Ends. SQLite does not tell a dropped table how its transaction ends. One with changes is kept for
** that (ending.c), where it is the only one of the connection that has the store; else DROP is refused
** (mx_txn_leave).
**
** CREATE is followed by no xBegin, so a ROLLBACK TO that undoes it is announced to nobody: the rows
** written since would stay. If the table that made the first change (pioneer) was created in the
** transaction and is in the schema no more, that is what has happened, to all tables of the store
** alike, for any of them that was there before would have had its savepoints announced. Then
** everything is undone, before anybody else uses the store, and at the latest before the commit. */
#include "txn.h"

#include "coding.h"
#include "collect.h"
#include "connection.h"
#include "host.h"
#include "moment.h"
#include "origin.h"
#include "place.h"
#include "proof.h"
#include "vtab.h"

#include <string.h>

static const uint64_t MARK_START = 0; /* no other mark lies below it */

struct mx_txn {
    mx_connection *connection; /* borrowed: it outlives its stores                          */
    mx_txn *next;
    mx_store *store;
    mw_db *db;
    int references; /* tables, a moment, the connection for an ephemeral store   */
    bool kept;      /* the connection holds a reference                          */

    mw_txn *open;           /* NULL: no transaction                                      */
    uint64_t round;         /* number of the last successful prepare                     */
    bool light;             /* that prepare was a light one: its rows are published      */
    bool in_file;           /* a table in a database file takes part                     */
    bool pledged;           /* the last prepare was one that the host decides            */
    mx_host host;           /* pledged: how its commit is made durable                   */
    mx_proof proof;         /* of the statement that opened the transaction              */
    const mx_vtab *pioneer; /* made the first change, and was created in the transaction */
    const mx_vtab *joining; /* its xBegin is the latest that has happened                */
    uint64_t *marks;
    int mark_count;
    int mark_capacity;
    mw_err unknown; /* a rollback that failed: nothing goes on                   */

    mw_snapshot *moment;   /* of the first read in the transaction, with a reference     */
    mw_snapshot *snapshot; /* shared by the cursors that are open                       */
    uint64_t snapshot_version;
    uint64_t version;
    int readers;
    int64_t rows_seen;

    int64_t rowid_max;
    bool rowid_any;   /* there is a row                                            */
    bool rowid_known; /* both are right for the transaction that is open           */
};

/* ---- life of an mx_txn ---------------------------------------------------------------------- */

mx_txn *mx_txn_find(mx_connection *connection, const mw_store_id *store)
{
    for (mx_txn *txn = connection->txns; txn; txn = txn->next) {
        const mw_store_id *mine = mw_db_store(txn->db);
        mw_slice a = mw_slice_of(mine->bytes, sizeof mine->bytes);
        mw_slice b = mw_slice_of(store->bytes, sizeof store->bytes);
        if (!mw_slice_equal(a, b)) continue;
        txn->references++;
        return txn;
    }
    return NULL;
}

static mx_txn *find_store(mx_connection *connection, const mx_store *store)
{
    mx_txn *txn = connection->txns;
    while (txn && txn->store != store) txn = txn->next;
    return txn;
}

/* Takes the store in any case. */
static mx_txn *new_txn(mx_vtab *vtab, mx_store *store)
{
    mx_txn *txn = sqlite3_malloc64(sizeof *txn);
    if (!txn) {
        mx_store_close(store);
        return NULL;
    }
    *txn = (mx_txn){
        .connection = vtab->connection,
        .next = vtab->connection->txns,
        .store = store,
        .db = mx_store_db(store),
        .references = vtab->ephemeral ? 2 : 1,
        .kept = vtab->ephemeral,
        .rows_seen = -1,
    };
    vtab->connection->txns = txn;
    return txn;
}

uint64_t mx_txn_busy_timeout_ms(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    int64_t wait_ms = 0;
    if (sqlite3_prepare_v2(db, "PRAGMA busy_timeout", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        wait_ms = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return wait_ms > 0 ? (uint64_t)wait_ms : 0;
}

/* Before anybody reads: what a crash has left undecided may be a transaction whose other half
** stands in the database file. */
static int settle(const mx_vtab *vtab, mx_store *store, char **error)
{
    mw_err err;
    mx_err_clear(&err);
    mw_db *db = mx_store_db(store);
    if (!mw_db_undecided(db)) return SQLITE_OK;
    mw_rc rc = mx_host_settle(vtab, db, mx_txn_busy_timeout_ms(vtab->connection->db), &err);
    return rc == MW_OK ? SQLITE_OK : mx_err_give(error, &err);
}

int mx_txn_acquire(mx_vtab *vtab, mx_txn **txn, char **error)
{
    mx_store *store = NULL;
    mw_options options = vtab->args->options;
    options.read_only = sqlite3_db_readonly(vtab->connection->db, vtab->schema) == 1;
    int rc = mx_store_open(vtab->path, &options, &vtab->store, vtab->ephemeral, &store, error);
    if (rc != SQLITE_OK) return rc;
    rc = settle(vtab, store, error);
    if (rc != SQLITE_OK) {
        mx_store_close(store);
        return rc;
    }
    *txn = find_store(vtab->connection, store);
    if (*txn) {
        mx_store_close(store);
        (*txn)->references++;
        return SQLITE_OK;
    }
    *txn = new_txn(vtab, store);
    return *txn ? SQLITE_OK : SQLITE_NOMEM;
}

static void drop(const mx_txn *txn, mw_snapshot **snapshot)
{
    if (!mx_connection_is_forked(txn->connection)) mw_snapshot_release(*snapshot);
    *snapshot = NULL;
}

/* Where the database is opened read-only nobody tells of what others write: whoever begins to read
** looks. What is being read stays as it is. */
int mx_txn_renew(mx_vtab *vtab, char **error)
{
    mx_txn *txn = vtab->txn;
    bool idle = txn->readers == 0 && !txn->snapshot && !txn->open;
    if (!idle || !mx_store_is_read_only(txn->store)) return SQLITE_OK;
    mx_store *writer = mx_store_join_writer(txn->store);
    if (writer) {
        mx_store_close(txn->store);
        txn->store = writer;
        txn->db = mx_store_db(writer);
    }
    mw_err err;
    mx_err_clear(&err);
    if (!writer && mw_db_refresh(txn->db, &err) != MW_OK) {
        return mx_err_give_in(error, vtab->path, &err);
    }
    return settle(vtab, txn->store, error);
}

/* The end of a transaction, whichever way. */
static void forget(mx_txn *txn)
{
    txn->open = NULL;
    txn->mark_count = 0;
    txn->light = false;
    txn->in_file = false;
    txn->pledged = false;
    mx_host_clear(&txn->host);
    txn->pioneer = NULL;
    txn->joining = NULL;
    txn->rowid_known = false;
    txn->version++;
}

static mw_rc roll_back(mx_txn *txn, mw_err *err)
{
    mw_txn *open = txn->open;
    forget(txn);
    /* A forked child has only a picture of its parent's transaction. */
    if (!open || mx_connection_is_forked(txn->connection)) return MW_OK;
    mw_rc rc = mw_txn_rollback(open, err);
    if (rc != MW_OK) txn->unknown = *err;
    return rc;
}

static void unlist_txn(mx_txn *txn)
{
    mx_txn **at = &txn->connection->txns;
    while (*at && *at != txn) at = &(*at)->next;
    if (*at) *at = txn->next;
}

void mx_txn_release(mx_txn *txn)
{
    if (!txn || --txn->references > 0) return;
    mw_err err;
    mx_err_clear(&err);
    (void)roll_back(txn, &err);
    drop(txn, &txn->snapshot);
    drop(txn, &txn->moment);
    unlist_txn(txn);
    mx_store_close(txn->store);
    sqlite3_free(txn->marks);
    sqlite3_free(txn);
}

void mx_txn_end_moments(mx_connection *connection)
{
    mx_txn *next;
    for (mx_txn *txn = connection->txns; txn; txn = next) {
        next = txn->next;
        if (!txn->moment) continue;
        drop(txn, &txn->moment);
        mx_txn_release(txn);
    }
}

mw_db *mx_txn_db(const mx_txn *txn) { return txn->db; }
mx_store *mx_txn_store(const mx_txn *txn) { return txn->store; }
bool mx_txn_open(const mx_txn *txn) { return txn->open != NULL; }
int64_t mx_txn_rows_seen(const mx_txn *txn) { return txn ? txn->rows_seen : -1; }

/* ---- failures ------------------------------------------------------------------------------- */

/* Plain BUSY would tell SQLite that the same call may work later; inside a transaction that has
** been doomed it cannot, and a COMMIT answered so would stay open. */
int mx_txn_fail(mx_vtab *vtab, const mw_err *err)
{
    int code = mx_err_vtab(&vtab->base, err);
    return code == SQLITE_BUSY ? SQLITE_BUSY_SNAPSHOT : code;
}

static int fail_words(mx_vtab *vtab, int code, char *words)
{
    sqlite3_free(vtab->base.zErrMsg);
    vtab->base.zErrMsg = words;
    return code;
}

/* What an earlier transaction has dropped, where nobody was told of its end (ending.c). */
static void collect_late(const mx_vtab *vtab)
{
    if (vtab->connection->unsettled) mx_collect_end(vtab->connection);
}

/* Everything that a call needs before it may use the store. */
static int make_ready(mx_vtab *vtab, mx_txn **txn)
{
    char *words = NULL;
    int rc = mx_vtab_use(vtab, txn, &words);
    if (rc != SQLITE_OK) return fail_words(vtab, rc, words);
    if ((*txn)->unknown.rc == MW_OK) return SQLITE_OK;
    return mx_err_set(
        &vtab->base, SQLITE_IOERR,
        "outcome unknown: a rollback failed (%s); reopen the store to see what it holds",
        (*txn)->unknown.text);
}

/* ---- undoing --------------------------------------------------------------------------------- */

/* Before whatever adds to or takes from a transaction that may have been prepared. */
static int take_back_prepare(mx_vtab *vtab, mx_txn *txn)
{
    if (!txn->open || !mw_txn_prepared(txn->open)) return SQLITE_OK;
    mw_err err;
    mx_err_clear(&err);
    txn->light = false;
    txn->version++;
    if (mw_txn_unprepare(txn->open, &err) != MW_OK) return mx_txn_fail(vtab, &err);
    return SQLITE_OK;
}

static int undo_to(mx_vtab *vtab, mx_txn *txn, uint64_t mark)
{
    if (!txn->open) return SQLITE_OK;
    mw_err err;
    mx_err_clear(&err);
    txn->version++;
    txn->rowid_known = false;
    if (mw_txn_undo(txn->open, mark, &err) != MW_OK) {
        return mx_txn_fail(vtab, &err);
    }
    return SQLITE_OK;
}

/* The rows of tables whose CREATE was undone by ROLLBACK TO. */
static int undo_vanished(mx_vtab *vtab, mx_txn *txn)
{
    if (!txn->pioneer || mx_vtab_is_listed(txn->pioneer)) return SQLITE_OK;
    int rc = take_back_prepare(vtab, txn);
    if (rc == SQLITE_OK) rc = undo_to(vtab, txn, MARK_START);
    if (rc == SQLITE_OK) txn->pioneer = NULL;
    return rc;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The engine may forget all marks behind the innermost savepoint. Marks rise but for those that
** stand for the start. */
static void release_marks(mx_txn *txn)
{
    int at = txn->mark_count;
    while (at > 0 && txn->marks[at - 1] == MARK_START) at--;
    if (txn->open) mw_txn_release(txn->open, at > 0 ? txn->marks[at - 1] : MARK_START);
}

static int take_mark(mx_vtab *vtab, mx_txn *txn, uint64_t *mark)
{
    mw_err err;
    mx_err_clear(&err);
    return mw_txn_mark(txn->open, mark, &err) == MW_OK ? SQLITE_OK : mx_txn_fail(vtab, &err);
}

/* ---- begin ---------------------------------------------------------------------------------- */

/* SQLite fixes the answer of PRAGMA busy_timeout when it prepares it, so it is asked anew each
** time; but only by those who have to wait. */
static mw_rc take_turn(const mx_vtab *vtab, mx_txn *txn, mw_err *err)
{
    mw_rc rc = mw_txn_begin(txn->db, 0, &txn->open, err);
    if (rc != MW_BUSY && rc != MW_UNDECIDED) return rc;
    uint64_t wait_ms = mx_txn_busy_timeout_ms(txn->connection->db);
    if (rc == MW_BUSY && wait_ms == 0) return rc;
    if (rc == MW_BUSY) {
        mx_err_clear(err);
        rc = mw_txn_begin(txn->db, wait_ms, &txn->open, err);
    }
    /* The first answer may be good for reading only; the second one tells what writing lacks. */
    for (int tries = 2; rc == MW_UNDECIDED && tries > 0; tries--) {
        mx_err_clear(err);
        rc = mx_host_settle(vtab, txn->db, wait_ms, err);
        if (rc == MW_OK) rc = mw_txn_begin(txn->db, wait_ms, &txn->open, err);
    }
    return rc;
}

/* What the transaction has read is the newest state no more: a change that rests on it would undo
** another connection's. */
static int refuse_stale(mx_vtab *vtab, mx_txn *txn)
{
    mw_err err;
    mx_err_clear(&err);
    if (roll_back(txn, &err) != MW_OK) return mx_err_vtab(&vtab->base, &err);
    return mx_err_set(&vtab->base, SQLITE_BUSY_SNAPSHOT,
                      "%s was changed by another connection since this transaction first read it: "
                      "ROLLBACK and begin again",
                      vtab->name);
}

static int ensure_open(mx_vtab *vtab, mx_txn *txn)
{
    txn->in_file = txn->in_file || vtab->in_file;
    if (txn->open) return SQLITE_OK;
    txn->proof = (mx_proof){0};
    mw_err err;
    mx_err_clear(&err);
    if (take_turn(vtab, txn, &err) != MW_OK) {
        txn->open = NULL;
        return mx_err_vtab(&vtab->base, &err);
    }
    if (txn->moment && !mw_txn_continues(txn->open, txn->moment)) return refuse_stale(vtab, txn);
    txn->rowid_known = false;
    txn->version++;
    return SQLITE_OK;
}

static int check_origin(mx_vtab *vtab)
{
    char *words = NULL;
    int rc = mx_origin_check(vtab, &words);
    return rc == SQLITE_OK ? rc : fail_words(vtab, rc, words);
}

/* A nested statement that finds no memory rolls back the transaction that SQLite is about to enter
** the table into, and SQLite does not look. It had begun to write by then. */
static bool was_rolled_back(const mx_vtab *vtab)
{
    return sqlite3_txn_state(vtab->connection->db, vtab->schema) < SQLITE_TXN_WRITE;
}

static int leave_rolled_back(mx_txn *txn)
{
    mw_err err;
    mx_err_clear(&err);
    return roll_back(txn, &err) == MW_OK ? SQLITE_NOMEM : mx_err_code(&err);
}

int mx_txn_begin(sqlite3_vtab *base)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mx_txn *txn = NULL;
    collect_late(vtab);
    int rc = make_ready(vtab, &txn);
    if (rc != SQLITE_OK) return rc;
    rc = undo_vanished(vtab, txn);
    if (rc == SQLITE_OK) rc = check_origin(vtab);
    if (rc != SQLITE_OK) return rc;
    bool first = !txn->open;
    if (first) txn->mark_count = 0;
    txn->joining = vtab;
    rc = ensure_open(vtab, txn);
    if (rc == SQLITE_OK && first && vtab->in_file) txn->proof = mx_proof_begin(txn->connection->db);
    if (rc == SQLITE_OK && was_rolled_back(vtab)) rc = leave_rolled_back(txn);
    return rc;
}

int mx_txn_change_begin(mx_vtab *vtab, mw_txn **open, uint64_t *mark)
{
    mx_txn *txn = NULL;
    int rc = make_ready(vtab, &txn);
    if (rc == SQLITE_OK) rc = ensure_open(vtab, txn);
    if (rc == SQLITE_OK) rc = take_back_prepare(vtab, txn);
    /* For tables that were there before xBegin has done it. */
    if (rc == SQLITE_OK && vtab->created && vtab != txn->pioneer) rc = undo_vanished(vtab, txn);
    if (rc != SQLITE_OK) return rc;
    if (!mw_txn_changed(txn->open)) txn->pioneer = vtab->created ? vtab : NULL;
    txn->joining = NULL;
    *open = txn->open;
    return take_mark(vtab, txn, mark);
}

void mx_txn_change_end(mx_txn *txn) { release_marks(txn); }

void mx_txn_changed(mx_txn *txn) { txn->version++; }

void mx_txn_abandon(mx_txn *txn, uint64_t mark)
{
    mw_err err;
    mx_err_clear(&err);
    txn->version++;
    txn->rowid_known = false;
    /* The failure before it is the one to report; the engine lets such a transaction only end. */
    mw_rc rc = mw_txn_undo(txn->open, mark, &err);
    (void)rc;
}

/* ---- end ------------------------------------------------------------------------------------ */

/* Is every database file of the connection left unwritten by the transaction? */
static bool is_files_untouched(const mx_connection *connection)
{
    sqlite3 *db = connection->db;
    if (sqlite3_txn_state(db, NULL) < SQLITE_TXN_WRITE) return true;
    const char *schema;
    for (int i = 0; (schema = sqlite3_db_name(db, i)) != NULL; i++) {
        const char *file = sqlite3_db_filename(db, schema);
        bool written = sqlite3_txn_state(db, schema) >= SQLITE_TXN_WRITE;
        if (written && file && file[0]) return false;
    }
    return true;
}

static bool is_alone(const mx_txn *txn)
{
    for (const mx_txn *other = txn->connection->txns; other; other = other->next) {
        if (other != txn && other->open) return false;
    }
    return true;
}

static mw_txn_kind kind_of(const mx_txn *txn)
{
    bool light = !txn->in_file && is_alone(txn) && is_files_untouched(txn->connection);
    return light ? MW_TXN_LIGHT : MW_TXN_FULL;
}

/* Must the host decide? Not without a table in a file, which has the marker, nor where nothing but
** the store has changed. (That the file was moved is written into the file.) */
static bool is_shared(const mx_vtab *vtab, const mx_txn *txn)
{
    if (!txn->in_file || !mw_txn_changed(txn->open)) return false;
    return mx_origin_is_stale(vtab) || !is_alone(txn) || !mx_proof_holds(&txn->proof, vtab);
}

/* The table that has the marker: the one that is asked now, if it is in a file. */
static mx_vtab *marker_table(const mx_txn *txn, mx_vtab *asked)
{
    if (asked->in_file) return asked;
    mx_vtab *vtab = txn->connection->vtabs;
    while (vtab && (vtab->txn != txn || !vtab->in_file)) vtab = vtab->next;
    return vtab ? vtab : asked;
}

static int pledge(mx_vtab *vtab, mx_txn *txn)
{
    char *words = NULL;
    mw_err err;
    mx_err_clear(&err);
    mx_vtab *marked = marker_table(txn, vtab);
    int rc = mx_host_mark(marked, mw_db_pledged(txn->db), &txn->host, &words);
    if (rc != SQLITE_OK) return fail_words(vtab, rc, words);
    mw_pledge pledge = {.host = txn->host.files.file};
    memcpy(pledge.id, txn->host.id, sizeof pledge.id);
    txn->pledged = true;
    return mw_txn_pledge(txn->open, &pledge, &err) == MW_OK ? SQLITE_OK : mx_txn_fail(vtab, &err);
}

static int prepare(mx_vtab *vtab, mx_txn *txn)
{
    mw_err err;
    mx_err_clear(&err);
    txn->pledged = false;
    if (is_shared(vtab, txn)) return pledge(vtab, txn);
    mw_rc rc = mw_txn_prepare(txn->open, kind_of(txn), &err);
    return rc == MW_OK ? SQLITE_OK : mx_txn_fail(vtab, &err);
}

int mx_txn_sync(sqlite3_vtab *base)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mx_txn *txn = vtab->txn;
    if (!txn || !txn->open) return SQLITE_OK;
    int rc = make_ready(vtab, &txn);
    if (rc != SQLITE_OK) return rc;
    if (mw_txn_prepared(txn->open)) {
        /* A sibling's call of this round has done it; the same table's means a second COMMIT. */
        if (vtab->synced_round != txn->round) {
            vtab->synced_round = txn->round;
            return SQLITE_OK;
        }
        rc = take_back_prepare(vtab, txn);
        if (rc != SQLITE_OK) return rc;
    }
    rc = undo_vanished(vtab, txn);
    if (rc != SQLITE_OK) return rc;
    rc = prepare(vtab, txn);
    if (rc != SQLITE_OK) return rc;
    txn->light = mw_txn_published(txn->open);
    txn->version++;
    vtab->synced_round = ++txn->round;
    return SQLITE_OK;
}

/* SQLite does not look at what xCommit returns: a failure stops the writer, and is told to whoever
** writes next. */
static mw_rc commit(mx_txn *txn, mw_err *err)
{
    mw_txn *open = txn->open;
    if (!open || mx_connection_is_forked(txn->connection)) return MW_OK;
    mw_rc rc = txn->pledged ? mx_host_harden(&txn->host, err) : MW_OK;
    if (rc == MW_OK) return mw_txn_commit(open, err);
    mw_txn_commit_unsure(open, err);
    return rc;
}

int mx_txn_commit(sqlite3_vtab *base)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mx_txn *txn = vtab->txn;
    bool created = vtab->created;
    vtab->created = false;
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = txn ? commit(txn, &err) : MW_OK;
    if (txn) forget(txn);
    if (created) mx_collect_end(vtab->connection);
    mx_collect_left(vtab);
    mx_origin_forget(vtab);
    return rc == MW_OK ? SQLITE_OK : mx_err_vtab(base, &err);
}

int mx_txn_rollback(sqlite3_vtab *base)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mw_err err;
    mx_err_clear(&err);
    mw_rc rc = vtab->txn ? roll_back(vtab->txn, &err) : MW_OK;
    if (vtab->created) mx_collect_end(vtab->connection);
    return rc == MW_OK ? SQLITE_OK : mx_err_vtab(base, &err);
}

/* Tables that are not dropped. */
static int table_count(const mx_txn *txn)
{
    int count = txn->references - (txn->kept ? 1 : 0) - (txn->moment ? 1 : 0);
    const mx_vtab *dropped = txn->connection->dropped;
    for (; dropped; dropped = dropped->next) count -= dropped->txn == txn;
    return count;
}

bool mx_txn_is_left(const mx_vtab *vtab) { return table_count(vtab->txn) == 0; }

int mx_txn_leave(mx_vtab *vtab, bool keep, bool *kept)
{
    mx_txn *txn = vtab->txn;
    *kept = false;
    if (!txn || !txn->open) return SQLITE_OK;
    int siblings = table_count(txn) - 1;
    *kept = mw_txn_changed(txn->open);
    if (*kept && keep && siblings == 0) return SQLITE_OK;
    if (*kept) {
        return mx_err_set(
            &vtab->base, SQLITE_LOCKED,
            "%s has changes in this transaction: COMMIT or ROLLBACK before DROP TABLE", vtab->name);
    }
    /* Nothing is lost, and nobody would give the turn back. A sibling opens it again when it
    ** writes; what it knows of savepoints stays, all of them before that beginning. */
    int mark_count = siblings > 0 ? txn->mark_count : 0;
    int rc = mx_txn_rollback(&vtab->base);
    for (int i = 0; i < mark_count; i++) txn->marks[i] = MARK_START;
    txn->mark_count = mark_count;
    return rc;
}

/* ---- savepoints ----------------------------------------------------------------------------- */

static int grow_marks(mx_txn *txn, int count)
{
    if (count <= txn->mark_capacity) return SQLITE_OK;
    int capacity = count + 16;
    uint64_t *marks = sqlite3_realloc64(txn->marks, sizeof *marks * (sqlite3_uint64)capacity);
    if (!marks) return SQLITE_NOMEM;
    txn->marks = marks;
    txn->mark_capacity = capacity;
    return SQLITE_OK;
}

int mx_txn_savepoint(sqlite3_vtab *base, int n)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mx_txn *txn = NULL;
    int rc = make_ready(vtab, &txn);
    if (rc == SQLITE_OK) rc = take_back_prepare(vtab, txn);
    if (rc != SQLITE_OK || n < txn->mark_count) return rc;
    rc = grow_marks(txn, n + 1);
    bool old = !txn->open || txn->joining == vtab;
    uint64_t mark = MARK_START;
    if (rc == SQLITE_OK && !old) rc = take_mark(vtab, txn, &mark);
    if (rc != SQLITE_OK) return rc;
    while (txn->mark_count < n) txn->marks[txn->mark_count++] = MARK_START;
    txn->marks[txn->mark_count++] = mark;
    txn->joining = NULL;
    return SQLITE_OK;
}

int mx_txn_release_to(sqlite3_vtab *base, int n)
{
    mx_txn *txn = ((mx_vtab *)base)->txn;
    if (!txn || n < 0 || n >= txn->mark_count) return SQLITE_OK;
    txn->mark_count = n;
    if (!mx_connection_is_forked(txn->connection)) release_marks(txn);
    return SQLITE_OK;
}

int mx_txn_rollback_to(sqlite3_vtab *base, int n)
{
    mx_vtab *vtab = (mx_vtab *)base;
    mx_txn *txn = vtab->txn;
    if (!txn || (n >= 0 && n >= txn->mark_count)) return SQLITE_OK;
    int rc = make_ready(vtab, &txn);
    if (rc == SQLITE_OK) rc = take_back_prepare(vtab, txn);
    if (rc != SQLITE_OK) return rc;
    uint64_t mark = n < 0 ? MARK_START : txn->marks[n];
    txn->mark_count = n < 0 ? 0 : n + 1;
    return undo_to(vtab, txn, mark);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What the connection sees now. Holding the turn it sees the newest state, queued rows of others
** included: else a read-modify-write would lose an update. In autocommit mode the commit waits for
** those rows; inside BEGIN the reader has to. Once a light prepare has published the rows, the
** published state has them. */
static mw_rc take_snapshot(mx_txn *txn, mw_snapshot **snapshot, mw_err *err)
{
    mw_txn *open = txn->light ? NULL : txn->open;
    if (open && !mw_txn_prepared(open) && !sqlite3_get_autocommit(txn->connection->db)) {
        mw_rc rc = mw_txn_settle(open, err);
        if (rc != MW_OK) return rc;
    }
    mw_rc rc = mw_snapshot_take(txn->db, open, snapshot, err);
    if (rc == MW_OK) txn->rows_seen = mw_snapshot_count(*snapshot);
    return rc;
}

mw_rc mx_txn_snapshot(mx_txn *txn, mw_snapshot **snapshot, mw_err *err)
{
    if (txn->snapshot && txn->snapshot_version == txn->version) {
        *snapshot = mw_snapshot_ref(txn->snapshot);
        return MW_OK;
    }
    if (txn->moment && !txn->open) {
        *snapshot = mw_snapshot_ref(txn->moment);
        txn->rows_seen = mw_snapshot_count(*snapshot);
        return MW_OK;
    }
    return take_snapshot(txn, snapshot, err);
}

/* Is this the first read in a transaction that has not written? Then the later ones see what it
** sees. While the turn is held there is no need: nobody else changes anything. */
static int begin_moment(mx_vtab *vtab, mx_txn *txn)
{
    if (txn->open || txn->moment || sqlite3_get_autocommit(txn->connection->db)) return SQLITE_OK;
    if (!mx_moment_is_wanted(vtab)) return SQLITE_OK;
    bool joined = false;
    int rc = mx_moment_join(txn->connection, &joined);
    if (rc != SQLITE_OK || !joined) return rc;
    mw_err err;
    mx_err_clear(&err);
    mw_snapshot *moment = NULL;
    if (mx_txn_snapshot(txn, &moment, &err) != MW_OK) return mx_txn_fail(vtab, &err);
    txn->moment = moment;
    txn->references++;
    return SQLITE_OK;
}

/* Whoever has the write lock of the database file sees what others have committed in it: then their
** rows here are about to come. And a killed one's may be there already, or may never come. */
static int await_others(mx_vtab *vtab, mx_txn *txn)
{
    enum { AWAIT_MS = 5000 };
    if (txn->open || txn->moment) return SQLITE_OK;
    mw_err err;
    mx_err_clear(&err);
    bool locked = sqlite3_txn_state(vtab->connection->db, vtab->schema) == SQLITE_TXN_WRITE;
    if (mw_db_await(txn->db, locked, AWAIT_MS, &err) != MW_OK) return mx_txn_fail(vtab, &err);
    return settle(vtab, txn->store, &vtab->base.zErrMsg);
}

/* Ready to read; the pioneer itself can only be read while it is there. */
static int make_readable(mx_vtab *vtab, mx_txn **txn)
{
    int rc = make_ready(vtab, txn);
    if (rc == SQLITE_OK && vtab != (*txn)->pioneer) rc = undo_vanished(vtab, *txn);
    mx_moment_look(vtab->connection);
    if (rc == SQLITE_OK) rc = await_others(vtab, *txn);
    return rc == SQLITE_OK ? begin_moment(vtab, *txn) : rc;
}

int mx_txn_reader_begin(mx_vtab *vtab, mw_snapshot **snapshot)
{
    mx_txn *txn = NULL;
    collect_late(vtab);
    int rc = make_readable(vtab, &txn);
    if (rc != SQLITE_OK) return rc;
    mw_err err;
    mx_err_clear(&err);
    if (mx_txn_snapshot(txn, snapshot, &err) != MW_OK) return mx_txn_fail(vtab, &err);
    if (*snapshot != txn->snapshot) {
        drop(txn, &txn->snapshot);
        txn->snapshot = mw_snapshot_ref(*snapshot);
        txn->snapshot_version = txn->version;
    }
    txn->readers++;
    return SQLITE_OK;
}

void mx_txn_reader_end(mx_txn *txn)
{
    assert(txn->readers > 0);
    if (--txn->readers == 0) drop(txn, &txn->snapshot);
}

int mx_txn_count(sqlite3 *db, const char *table, sqlite3_int64 *count, char **error)
{
    mx_vtab *vtab = NULL;
    mx_txn *txn = NULL;
    mw_snapshot *snapshot = NULL;
    mw_err err;
    mx_err_clear(&err);
    int rc = mx_vtab_find(db, table, &vtab, error);
    if (rc != SQLITE_OK) return rc;
    rc = make_readable(vtab, &txn);
    if (rc != SQLITE_OK) {
        sqlite3_free(*error);
        *error = vtab->base.zErrMsg;
        vtab->base.zErrMsg = NULL;
    } else if (mx_txn_snapshot(txn, &snapshot, &err) != MW_OK) {
        rc = mx_err_give(error, &err);
    } else {
        *count = mw_snapshot_count(snapshot);
        mw_snapshot_release(snapshot);
    }
    mx_vtab_release(vtab);
    return rc;
}

/* ---- automatic rowids ----------------------------------------------------------------------- */

static mw_rc find_rowid_max(mx_txn *txn, mw_snapshot *snapshot, mw_err *err)
{
    mw_cursor *cursor = NULL;
    mw_rc rc = mw_cursor_open(snapshot, &cursor, err);
    if (rc == MW_OK) rc = mw_cursor_last(cursor, err);
    if (rc == MW_OK) {
        txn->rowid_any = mw_cursor_valid(cursor);
        txn->rowid_max = txn->rowid_any ? mw_key_get_integer(mw_cursor_key(cursor).data) : 0;
        txn->rowid_known = true;
    }
    mw_cursor_close(cursor);
    return rc;
}

mw_rc mx_txn_rowid_max(mx_txn *txn, int64_t *max, bool *known, mw_err *err)
{
    if (!txn->rowid_known) {
        mw_snapshot *snapshot = NULL;
        mw_rc rc = mw_snapshot_take(txn->db, txn->open, &snapshot, err);
        if (rc == MW_OK) rc = find_rowid_max(txn, snapshot, err);
        mw_snapshot_release(snapshot);
        if (rc != MW_OK) return rc;
    }
    *max = txn->rowid_max;
    *known = txn->rowid_any;
    return MW_OK;
}

void mx_txn_rowid_put(mx_txn *txn, int64_t rowid)
{
    if (!txn->rowid_known) return;
    if (!txn->rowid_any || rowid > txn->rowid_max) txn->rowid_max = rowid;
    txn->rowid_any = true;
}

void mx_txn_rowid_deleted(mx_txn *txn, int64_t rowid)
{
    if (txn->rowid_any && rowid == txn->rowid_max) txn->rowid_known = false;
}
