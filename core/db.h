/* db.h: the whole contract of the engine.
**
** A store is the directory that holds one table. Open it once per process; any number of threads
** may use the mw_db at the same time. One transaction or cursor belongs to one thread at a time.
**
** What a caller can rely on (core/README.md has the invariants in full):
**   - mw_txn_prepare returns MW_OK only after a sync that covered this very transaction's entry.
**   - Entries take effect in position order; after a crash a prefix survives that has every
**     acknowledged one.
**   - mw_snapshot_count is the exact number of live ids of that snapshot, in constant time.
**   - Damage is MW_CORRUPT with file and offset, never a wrong answer.
**
** Errors: every function may return MW_NOMEM and MW_IO; others are named below. Words are in
** err. */
#ifndef MW_DB_H
#define MW_DB_H

#include "pledge.h"
#include "schema.h"
#include "value.h"

typedef struct mw_db mw_db;
typedef struct mw_txn mw_txn;
typedef struct mw_snapshot mw_snapshot;
typedef struct mw_cursor mw_cursor;

typedef enum mw_durability {
    MW_DURABILITY_FULL,   /* a commit returns after the sync of its entry                        */
    MW_DURABILITY_NORMAL, /* a commit returns after the write, which is synced within 100 ms     */
} mw_durability;

typedef struct mw_options {
    uint64_t memtable_bytes;    /* the active memtable is frozen when it has passed this    */
    uint64_t cache_bytes;       /* decoded pages, indexes and filters kept                  */
    uint32_t merge_generations; /* pending generations that start a merge                   */
    int compression;            /* zstd level, 0 = none                                     */
    bool background;            /* own thread for flush and merge; else inline, on demand   */
    mw_durability durability;
    bool statement_moments; /* kept for the glue: what a SELECT inside BEGIN sees         */
    uint32_t group_rows;    /* rows of a table file's group; 0 = default                */
    uint32_t page_bytes;    /* of a page before compression; 0 = default                */
    uint64_t file_bytes;    /* of a base file, about; 0 = default                       */
    bool shared;            /* take no lock of the folder (engine tests with two writers) */
    uint32_t open_files;    /* table files open at a time; 0 = default                   */
    bool read_only;         /* nothing in the folder is changed, made, removed or locked  */
} mw_options;

mw_options mw_options_default(void);
/* Which defaults were built in: "usual", or "tiny" ones for tests (-DMW_TINY). */
const char *mw_db_limits(void);

/* ---- store ---------------------------------------------------------------------------------- */

/* Makes a new store in the folder path (made when absent, its parent must exist) and gives its
** identity. MW_EXISTS when a store is there already. Nothing stays open. */
mw_rc mw_db_create(const mw_env *env, const char *path, const mw_schema *schema, mw_store_id *store,
                   mw_err *err) MW_MUST_USE;

/* Opens a store. store: the identity it must have (else MW_MISMATCH), NULL: any. Locks the folder:
** MW_BUSY when another process has it open. After an unclean end it claims the next epoch and
** replays the log; where nothing can be written (a full disk), or a pledge has to be settled first,
** it only replays, and whoever writes first claims. MW_MISSING: no store there. The db is the
** caller's: mw_db_close.
**
** With read_only it replays only, whoever has the store open besides, and all that writes answers
** MW_MISUSE. It shows one moment until mw_db_refresh. */
mw_rc mw_db_open(const mw_env *env, const char *path, const mw_options *options,
                 const mw_store_id *store, mw_db **db, mw_err *err) MW_MUST_USE;

/* Ends background work, resolves what is open (MW_CLOSED), writes and syncs what is left, frees the
** db in any case. Reports the first failure, also one that a background step had parked. Requires
** that no cursor, snapshot or transaction of it is in use, but for threads that wait inside a
** transaction: they get MW_CLOSED, and it waits until they have ended theirs. */
mw_rc mw_db_close(mw_db *db, mw_err *err) MW_MUST_USE;

/* Stops at once, writing nothing: what a kill would leave. For tests. */
void mw_db_abandon(mw_db *db);

/* In the child of a fork: has no share in the lock any more. It is the parent's store, and nothing else
** may be done with it. */
void mw_db_forked(mw_db *db);

/* Removes a closed store's files and its folder. MW_BUSY: somebody has it open; then nothing was
** removed. */
mw_rc mw_db_remove(const mw_env *env, const char *path, mw_err *err) MW_MUST_USE;

/* Reads schema and identity of a store without opening it. *declaration: the caller's, mw_free. */
mw_rc mw_db_describe(const mw_env *env, const char *path, mw_store_id *store, mw_key_kind *key,
                     uint32_t *column_count, char **declaration, mw_err *err) MW_MUST_USE;

/* After MW_UNDECIDED: the log ends with a pledged transaction, and a crash came before its decision.
** Asks the judge, writes down his answer and claims the next epoch; afterwards the store can be
** written. Until then it shows the state before that transaction. Where nothing can be written (a
** full disk) the first call is MW_OK and shows what the judge says; the next ones tell why. Where
** the store is open read-only it shows that until a refresh finds anything new. */
mw_rc mw_db_settle(mw_db *db, uint64_t wait_ms, const mw_judge *judge, mw_err *err) MW_MUST_USE;
/* Has nobody been asked yet? */
bool mw_db_undecided(mw_db *db);

/* Of a store that is open read-only: shows what has been written to it since. Costs a new replay
** where there is anything; otherwise a look at three names and at the end of the log. Cursors and
** snapshots keep their moment. */
mw_rc mw_db_refresh(mw_db *db, mw_err *err) MW_MUST_USE;

/* Calls visit between two transactions: none is under way meanwhile. Requires that the caller has
** none open. MW_BUSY: somebody else's does not end. */
mw_rc mw_db_pause(mw_db *db, uint64_t wait_ms, void (*visit)(void *arg, const mw_pledged *pledged),
                  void *arg, mw_err *err) MW_MUST_USE;

/* Before reading: waits until a pledge that is under way is kept or taken back; decided: also one of a
** writer that lives, for a caller who has the host's write lock, or else knows that the host has
** decided. What a dead writer has left makes mw_db_undecided true. Requires that the caller has no
** pledge under way himself. */
mw_rc mw_db_await(mw_db *db, bool decided, uint64_t wait_ms, mw_err *err) MW_MUST_USE;

/* The newest pledge that was kept. */
mw_pledged mw_db_pledged(mw_db *db);

const mw_schema *mw_db_schema(const mw_db *db); /* borrowed while open */
const mw_store_id *mw_db_store(const mw_db *db);
const char *mw_db_path(const mw_db *db);
mw_options mw_db_options(mw_db *db); /* as they are now */

/* Changes what differs between from and to of durability, memtable_bytes, cache_bytes,
** merge_generations, compression and background; the other options are fixed. In force at once, for
** all who use the db; nothing of it is kept on disk. Turning background off waits up to wait_ms for
** the step at hand (MW_BUSY: it does not end, and nothing has changed); turning durability back to
** full syncs what was not. */
mw_rc mw_db_set_options(mw_db *db, const mw_options *from, const mw_options *to, uint64_t wait_ms,
                        mw_err *err) MW_MUST_USE;

/* ---- writing -------------------------------------------------------------------------------- */

/* Takes the store's turn, waiting up to wait_ms (then MW_BUSY), and opens a transaction. MW_FENCED,
** MW_PERSISTENCE, MW_CLOSED when the writer has stopped; MW_FULL when flushes or merges cannot keep
** up: while they fall behind it waits first, for longer and longer. MW_UNDECIDED, as from all calls
** that write: mw_db_settle first. */
mw_rc mw_txn_begin(mw_db *db, uint64_t wait_ms, mw_txn **txn, mw_err *err) MW_MUST_USE;

/* Does id live, in the newest state with this transaction's own changes? */
mw_rc mw_txn_exists(mw_txn *txn, mw_slice key, bool *lives, mw_err *err) MW_MUST_USE;
/* Stores a row (value.h), new or in place of what was there. Each call is atomic: where it fails,
** the transaction may go on. What outgrows memtable_bytes is written to files meanwhile (MW_FULL:
** there is no room for them). MW_TOOBIG: a key above MW_KEY_BYTES_MAX, a row above 1 GB, more than
** 16384 such files. */
mw_rc mw_txn_put(mw_txn *txn, mw_slice key, mw_slice row, bool *replaced, mw_err *err) MW_MUST_USE;
/* Deletes an id; nothing happens when it does not live. */
mw_rc mw_txn_delete(mw_txn *txn, mw_slice key, bool *deleted, mw_err *err) MW_MUST_USE;

/* Savepoints: a mark stands for all changes so far, and later marks are never lower. undo takes
** back all changes after a mark (0: all there are) and forgets the marks after it; the mark itself
** may be used again. release forgets the marks above `kept`: undo to one of them may be MW_MISUSE
** then. */
mw_rc mw_txn_mark(mw_txn *txn, uint64_t *mark, mw_err *err) MW_MUST_USE;
void mw_txn_release(mw_txn *txn, uint64_t kept);
mw_rc mw_txn_undo(mw_txn *txn, uint64_t mark, mw_err *err) MW_MUST_USE;

bool mw_txn_changed(const mw_txn *txn);        /* is there anything that was not undone? */
int64_t mw_txn_count_delta(const mw_txn *txn); /* change of the number of live ids so far */
bool mw_txn_prepared(const mw_txn *txn);
/* Is the state that the transaction is built on the one that a snapshot of published state has? */
bool mw_txn_continues(const mw_txn *txn, const mw_snapshot *snapshot);
bool mw_txn_published(const mw_txn *txn); /* prepared as light: everybody sees it */

/* Waits until everything that the transaction can see of others is durable. */
mw_rc mw_txn_settle(mw_txn *txn, mw_err *err) MW_MUST_USE;

typedef enum mw_txn_kind {
    MW_TXN_FULL,  /* keeps the turn until commit or rollback; published by commit              */
    MW_TXN_LIGHT, /* gives the turn up once queued, published when durable: shares syncs       */
} mw_txn_kind;

/* Writes the transaction as one log entry and waits for that entry's own completion. MW_OK: it is
** durable. MW_FENCED: definitely not applied. MW_PERSISTENCE: outcome unknown until reopened. After
** a failure only rollback is legal. A transaction that has outgrown its memory is a full one,
** whatever is asked for. Without changes it writes nothing, but waits as mw_txn_settle does. */
mw_rc mw_txn_prepare(mw_txn *txn, mw_txn_kind kind, mw_err *err) MW_MUST_USE;

/* The same for a full transaction that shall happen if and only if a transaction of the host
** database does: writes a prepare, synced whatever the durability is. mw_txn_commit is called when
** the host's commit is durable, mw_txn_rollback when it has not happened and cannot happen any
** more. pledge: borrowed for the call. */
mw_rc mw_txn_pledge(mw_txn *txn, const mw_pledge *pledge, mw_err *err) MW_MUST_USE;

/* Takes a prepare back, so that the transaction goes on (a host that said BUSY after it). Full: an
** abort record, synced. Light: a compensating entry; the transaction is doomed afterwards, every
** later call but rollback answers MW_BUSY. */
mw_rc mw_txn_unprepare(mw_txn *txn, mw_err *err) MW_MUST_USE;

/* Requires a successful prepare: publishes (full), gives the turn up, frees txn in any case. Of a
** pledged one it writes the decision: where that fails the transaction has happened all the same,
** and the writer has stopped. */
mw_rc mw_txn_commit(mw_txn *txn, mw_err *err) MW_MUST_USE;
/* The same for a pledged one whose host has committed, but perhaps not durably: publishes, stops the
** writer for that cause, and leaves the decision to the next mw_db_settle. */
void mw_txn_commit_unsure(mw_txn *txn, const mw_err *cause);

/* Undoes everything, a successful prepare included, gives the turn up, frees txn in any case. A
** failure means that the outcome of a prepared entry is unknown until the store is reopened; the
** writer has stopped. */
mw_rc mw_txn_rollback(mw_txn *txn, mw_err *err) MW_MUST_USE;

/* ---- reading -------------------------------------------------------------------------------- */

/* One moment of the store. txn NULL: the newest published state. Else the newest state, queued
** entries included, with the transaction's changes up to now; the transaction may go on and even
** end while the snapshot lives. */
mw_rc mw_snapshot_take(mw_db *db, mw_txn *txn, mw_snapshot **snapshot, mw_err *err) MW_MUST_USE;
mw_snapshot *mw_snapshot_ref(mw_snapshot *snapshot);
void mw_snapshot_release(mw_snapshot *snapshot); /* takes NULL */
int64_t mw_snapshot_count(const mw_snapshot *snapshot);

/* A cursor over a snapshot (which it holds). It stands nowhere at first. Direction as in iter.h:
** after first, seek and find only next; after last and seek_back only prev. */
mw_rc mw_cursor_open(mw_snapshot *snapshot, mw_cursor **cursor, mw_err *err) MW_MUST_USE;
void mw_cursor_close(mw_cursor *cursor); /* takes NULL */
/* To that very id; mw_cursor_valid tells whether it lives. The fast way for one id. */
mw_rc mw_cursor_find(mw_cursor *cursor, mw_slice key, mw_err *err) MW_MUST_USE;
mw_rc mw_cursor_first(mw_cursor *cursor, mw_err *err) MW_MUST_USE;
mw_rc mw_cursor_last(mw_cursor *cursor, mw_err *err) MW_MUST_USE;
mw_rc mw_cursor_seek(mw_cursor *cursor, mw_slice key, mw_err *err) MW_MUST_USE;
mw_rc mw_cursor_seek_back(mw_cursor *cursor, mw_slice key, mw_err *err) MW_MUST_USE;
mw_rc mw_cursor_next(mw_cursor *cursor, mw_err *err) MW_MUST_USE;
mw_rc mw_cursor_prev(mw_cursor *cursor, mw_err *err) MW_MUST_USE;
bool mw_cursor_valid(const mw_cursor *cursor);
mw_slice mw_cursor_key(const mw_cursor *cursor); /* borrowed until it moves */
/* Column index (outside the key, from 0); value->bytes is borrowed until the cursor moves. */
mw_rc mw_cursor_column(mw_cursor *cursor, uint32_t index, mw_value *value, mw_err *err) MW_MUST_USE;

/* ---- keeping house -------------------------------------------------------------------------- */

/* Freezes the active memtable and waits until it and all older ones are listed. *generation: the
** newest generation's number, 0 when there was nothing to flush. */
mw_rc mw_db_flush(mw_db *db, uint64_t wait_ms, uint64_t *generation, mw_err *err) MW_MUST_USE;

/* Folds up to max_generations (0: all that are listed now), oldest first, into the base. *folded:
** how many. interrupted (may be NULL) is asked between slices: true gives the work up
** (MW_INTERRUPTED): what was folded by then stays so, nothing is lost. */
mw_rc mw_db_merge(mw_db *db, uint32_t max_generations, bool (*interrupted)(void *arg), void *arg,
                  uint32_t *folded, mw_err *err) MW_MUST_USE;

/* Flushes, and merges all that is listed then into one sorted level without tombstones: afterwards
** the files hold as many row versions as rows live in them. *removed: how many fewer than before.
** interrupted as above. What an undecided transaction is in the way of stays as it is. */
mw_rc mw_db_compact(mw_db *db, bool (*interrupted)(void *arg), void *arg, uint64_t *removed,
                    mw_err *err) MW_MUST_USE;

/* Reads every byte, proves every rule of the format and recounts. each gets one line per fault
** (borrowed); *faults: how many. An MW_CORRUPT inside is a fault, not a failure of the call. */
mw_rc mw_db_check(mw_db *db, void (*each)(void *arg, const char *line), void *arg, uint32_t *faults,
                  mw_err *err) MW_MUST_USE;

/* Calls each(name, value) for every figure of memwal_stats, in a fixed order. Values are
** borrowed. */
mw_rc mw_db_stats(mw_db *db, void (*each)(void *arg, const char *name, const mw_value *value),
                  void *arg, mw_err *err) MW_MUST_USE;

typedef struct mw_file_info {
    const char *name;
    const char *kind; /* "table", "log", "manifest", "state" */
    int32_t level;    /* -1 where it has no meaning, as below */
    int64_t generation;
    int64_t rows;
    int64_t tombstones;
    int64_t bytes;
    mw_slice key_min; /* engine keys; data == NULL: none */
    mw_slice key_max;
} mw_file_info;

mw_rc mw_db_files(mw_db *db, void (*each)(void *arg, const mw_file_info *file), void *arg,
                  mw_err *err) MW_MUST_USE;

/* What the log holds above the replay cursor, as one moment saw it: entries in position order.
** Writing goes on meanwhile; segments that are flushed and removed while the view is being opened
** are left out, always the oldest, so the positions that are left have no gaps. */
typedef struct mw_log_view mw_log_view;

typedef struct mw_log_line {
    uint64_t position;
    uint64_t epoch; /* of the writer that wrote it first */
    uint64_t generation;
    uint64_t puts;
    uint64_t deletes;
    uint64_t bytes; /* in the segment, record headers included */
    /* "published": counts, readers see it; "undecided": written, but not decided at that moment;
    ** "aborted": taken back by the next entry; "abort": the entry that takes its predecessor
    ** back; "decision": the entry that says that its predecessor's host database has committed */
    const char *state;
} mw_log_line;

/* Holds the segments open and nothing else of the store. *view: the caller's,
** mw_log_view_close. */
mw_rc mw_log_view_open(mw_db *db, mw_log_view **view, mw_err *err) MW_MUST_USE;
/* *any is false at the end. MW_CORRUPT: an entry that was published cannot be read. */
mw_rc mw_log_view_next(mw_log_view *view, mw_log_line *line, bool *any, mw_err *err) MW_MUST_USE;
void mw_log_view_close(mw_log_view *view); /* takes NULL; may come after the end of the db */

/* Versions of the file format and of the libraries inside (xxhash: major * 10000 + minor * 100 +
** release). */
uint32_t mw_db_format_version(void);
unsigned mw_db_xxhash_version(void);
const char *mw_db_zstd_version(void);

#endif
