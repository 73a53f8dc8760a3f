/* store.h: the state of an open store that its parts share: commit, flush, compact, epoch,
** snapshot.
**
** Locks, in the order in which they may be taken:
**   the turn         the right to add to the log (commit.h); held across a transaction
**   follow_mutex     whoever catches up with another process
**   merge_mutex      one merge at a time
**   flush_mutex      one flush at a time; also taken between the slices of a merge
**   manifest_mutex   whoever computes and publishes the next manifest; held over that I/O
**   mutex            everything marked [m]; never held over I/O or a wait for one
** A cursor takes `mutex` for a moment and nothing else. */
#ifndef MW_STORE_H
#define MW_STORE_H

#include "db.h"
#include "version.h"

struct mw_request; /* commit.h */
struct mw_waiter;  /* commit.h */
struct mw_undecided;

/* How far the log has come, with the number of live ids there. */
typedef struct mw_point {
    uint64_t position;
    uint64_t sequence;
    int64_t count;
    mw_pledged pledged;
} mw_point;

typedef struct mw_store_figures {
    uint64_t commits;
    uint64_t log_writes;
    uint64_t log_syncs;
    uint64_t log_bytes; /* of entries, record headers included */
    uint64_t logical_bytes;
    uint64_t flushes;
    uint64_t merges;
    uint64_t stall_ns;
} mw_store_figures;

/* The file of the manifest at hand. Open, because else its identity could be given to another. */
typedef struct mw_own_manifest {
    uint64_t number; /* 0: none is held */
    int file;
    mw_file_id id;
} mw_own_manifest;

typedef struct mw_store {
    const mw_env *env; /* own_env */
    mw_env own_env;    /* the caller's, which closes table files when descriptors run out */
    char *path;
    int dir;
    int lock_file;
    uint64_t process;   /* that opened it: a child of a fork is another */
    mw_options options; /* [m] what mw_settings_change may change; the rest is fixed */
    mw_store_id id;
    mw_manifest *birth; /* the manifest of the opening: keeps schema memory alive */
    const mw_schema *schema;
    uint64_t closed_at; /* position that the state file proves durable, 0: none */
    bool state_damaged; /* that file was, when the store was opened */
    mw_cache *cache;
    mw_table_pool *tables; /* which table files are open */

    mw_mutex *flush_mutex;
    mw_mutex *merge_mutex;
    mw_mutex *manifest_mutex;
    mw_mutex *mutex;
    mw_cond *progress; /* [m] broadcast when something below has moved that somebody waits for */

    mw_version *version; /* [m] the current one                                     */
    mw_own_manifest own; /* [m] of its manifest, where the number is the same       */
    uint64_t snapshots;  /* [m] alive                                               */
    uint32_t ending;     /* [m] others, which let go of their files just now */
    struct mw_snapshot *snapshot_oldest; /* [m] of those */
    struct mw_snapshot *snapshot_newest; /* [m] */
    uint64_t table_number; /* [m] of the newest table file made                       */

    bool turn_taken;              /* [m] */
    struct mw_waiter *turn_first; /* [m] who waits for the turn, in order of arrival  */
    struct mw_waiter *turn_last;  /* [m] */

    bool owned;            /* [turn] written, [m] read: we may write, our epoch is sealed */
    uint64_t epoch;        /* [turn] written, [m] read: our epoch once owned          */
    bool looking;          /* [turn] written, [m] read: reads only, see mw_epoch_look */
    atomic_bool following; /* another process may write (follow.h)                    */
    uint32_t jobs;         /* [m] flushes and merges that rely on our being the owner     */
    void *shared;          /* [m] the page, NULL: not mapped (shared.h)                       */
    mw_log_place place;    /* [follow] where the log is read on                               */
    bool astray;           /* [follow] that has failed half-way: everything is read anew      */
    mw_mutex *follow_mutex;
    mw_buf undecided_host;   /* [turn] path of the host that has to decide, empty: none */
    mw_log_reader *watched;  /* [turn] read_only: stands at the end of the log, NULL: it has none */
    bool behind;             /* [turn] read_only: there is more than what is shown            */
    bool answered;           /* [turn] written, [m] read: it has been asked, but the answer is not
                             ** in the log                                               */
    mw_log_segment *segment; /* [turn] that new entries go to: the active generation's  */
    uint64_t segment_number; /* [turn] of the newest segment of our epoch              */

    mw_point queued;                /* [m] behind the newest entry that has a position         */
    mw_point visible;               /* [m] behind the newest published entry                   */
    uint64_t prepare;               /* [m] position of our newest prepare for a host           */
    uint64_t durable;               /* [m] highest position known durable                      */
    struct mw_request *queue_first; /* [m] entries without a result, in position order */
    struct mw_request *queue_last;  /* [m] */
    bool leading;                   /* [m] somebody writes and syncs                           */
    mw_log_segment *unsynced;       /* [leader] written, but not synced (durability normal)  */
    uint64_t unsynced_since_ns;     /* [m] 0: nothing                                       */
    struct mw_undecided *undecided; /* [m] light entries whose transaction is still open */

    mw_err stopped;           /* [m] rc != MW_OK: no more writing, and why               */
    bool closing;             /* [m] */
    bool merging;             /* [m] somebody runs a merge */
    uint64_t transactions;    /* [m] begun or beginning, and not ended */
    mw_err parked;            /* [m] first failure of a background step, for last_error  */
    mw_thread *thread;        /* [m] background work, NULL: none                         */
    mw_cond *work;            /* [m] wakes it                                            */
    bool working;             /* [m] it is in the middle of a step                       */
    mw_store_figures figures; /* [m] */
} mw_store;

/* Allocates and wires up; opens nothing. Freed by mw_store_free, which takes half-made ones and
** NULL. */
mw_rc mw_store_create(const mw_env *env, const char *path, const mw_options *options,
                      mw_store **store, mw_err *err) MW_MUST_USE;
void mw_store_free(mw_store *store);

void mw_store_lock(mw_store *store);
void mw_store_unlock(mw_store *store);

/* Reference to the current version. */
mw_version *mw_store_version(mw_store *store);

/* The options as they are now: another thread may change them at any time. */
mw_options mw_store_options(mw_store *store);
/* What the options say of table files, as they are now. */
void mw_store_set_table_options(mw_store *store, mw_table_options *options);

/* MW_CLOSED: it is being closed. Takes `mutex`. */
mw_rc mw_store_closing(mw_store *store, mw_err *err) MW_MUST_USE;

/* Why writing has stopped, if it has: copies the words, returns the code. Requires `mutex`. */
mw_rc mw_store_stopped(const mw_store *store, mw_err *err);

/* For mw_files_open. Requires that the schema is set. */
mw_files_source mw_store_files_source(const mw_store *store, const mw_files *from);

/* Prepares the next version: with the files of `manifest` (then manifest_mutex is required until it
** is installed or given up), or, NULL, with those that are current when it is installed. One
** reference. */
mw_rc mw_store_build(mw_store *store, mw_manifest *manifest, mw_version **next,
                     mw_err *err) MW_MUST_USE;
/* Makes it the current one, with the present generations; `active` (may be NULL; then the turn is
** required, and fewer than MW_GENERATIONS_MAX of them) goes in front. Frozen ones that end at or
** below the cursor go. Takes the reference to next. Cannot fail. */
void mw_store_install(mw_store *store, mw_version *next, mw_generation *active);

/* Publishes the successor of the current manifest, installs it and removes the manifests below its
** boundary. Requires manifest_mutex and that `manifest` was computed from the current one.
** MW_FENCED: a peer claimed a higher epoch; MW_PERSISTENCE: whether it will last is unknown; both
** stop writing. After any other failure nothing has changed. */
mw_rc mw_store_publish(mw_store *store, mw_manifest *manifest, mw_err *err) MW_MUST_USE;

/* After a manifest of this number was created or loaded: has a peer moved on? Its number may have
** been free because it had come and gone; then the manifest belongs to no chain. Only the list of the
** folder tells: a predecessor that is there proves nothing, since it may be such a stray itself.
** *there: the numbers found; a newest other than ours: a peer is above us, whether or not ours had
** been in time. Else the file is held as our own from now on, where a descriptor can be had. */
mw_rc mw_store_confirm_number(mw_store *store, uint64_t number, mw_manifest_range *there,
                              mw_err *err) MW_MUST_USE;

/* Is there, perhaps, a manifest above ours, which has this number? Two looks; false is certain, true
** is not: then the folder has to be listed. */
mw_rc mw_store_look_above(mw_store *store, uint64_t number, bool *perhaps, mw_err *err) MW_MUST_USE;

/* A number for a new table file of our epoch; each is given once. */
uint64_t mw_store_table_number(mw_store *store);
/* Removes a table file that no version lists (else: mw_table_doom); best effort (what stays is
** swept after the next takeover). */
void mw_store_remove_table(mw_store *store, const mw_manifest_file *file);
/* Removes the manifests below the boundary, in ascending order: one that cannot be removed keeps
** those above it. lowest: of those in the folder; others on the way may be missing. */
void mw_store_remove_manifests(mw_store *store, uint64_t lowest, uint64_t boundary);

/* Stops all writing for good (until reopened). The first cause wins. Requires `mutex`. */
void mw_store_stop(mw_store *store, const mw_err *cause);

/* Parks a background failure for memwal_stats and for mw_db_close. Takes `mutex`. */
void mw_store_park(mw_store *store, const mw_err *cause);
/* What had failed has been made up for. Takes `mutex`. */
void mw_store_unpark(mw_store *store);

/* Waits on `progress`. Requires `mutex`. False: the deadline has passed. */
bool mw_store_wait(mw_store *store, uint64_t deadline_ns);

uint64_t mw_store_deadline(const mw_store *store, uint64_t wait_ms);

#endif
