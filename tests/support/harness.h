/* harness.h: drives the engine in a simulated machine, with the oracle beside it.
**
** What is to be done is a script, words with blanks between:
**
**     create  open  close  flush  merge  compact
**     little         engines that are opened from here on make base files of a few rows
**     shift          each base level becomes the next one, and what is flushed (it must not
**                    overlap) the first: what a large store gets to by itself
**     light+1-2      one light transaction: puts key 1, deletes key 2
**     full+1-2       the same, a full one
**     abort+1        full, prepared, then rolled back: cancelled by an abort record
**     retry+1+2      full: key 1, prepared, taken back; then key 2 as well, prepared, committed
**     drop+1         rolled back before any prepare
**     both+1+2       pledged: prepared, then committed by the host database, then here
**     veto+1         pledged: prepared, then rolled back, since the host does not commit
**     back+1+2+3     full: the changes, back to a savepoint in their middle (1 and 2), committed
**     undo+1         light, prepared, then rolled back: a compensating entry
**     group+1+2+3    light transactions of one key each, each of a thread; all but the first are
**                    queued while the first one's write is held: they share one write and sync
**
** "b:" in front: done by a second engine on the same store. "!" in front: must be answered
** "fenced". Each answer is checked and told to the oracle. When the machine stops (sim_stop_after)
** the script ends there, and that is not wrong. */
#ifndef HARNESS_H
#define HARNESS_H

#include "db.h"
#include "oracle.h"
#include "sim.h"

enum {
    HARNESS_COMMITS_MAX = 120,
    HARNESS_CHANGES_MAX = 240,
    HARNESS_ENGINES = 2,
    HARNESS_WORDS_BYTES = 700,
};

/* A row is made from its tag, which no other row of a run has. */
typedef struct harness_change {
    uint8_t key;
    bool deleted;
    uint16_t tag;
} harness_change;

typedef struct harness_commit {
    oracle_fate fate;
    bool host;      /* the host database has committed it */
    uint8_t engine; /* that was asked */
    uint16_t first; /* of its changes */
    uint16_t count;
} harness_commit;

/* Everything that was asked and answered. Plain, so that each disk state of a crash goes on from a
** copy. */
typedef struct harness_past {
    bool created;    /* the creation was acknowledged                                */
    uint16_t tag;    /* of the newest row                                            */
    bool little;     /* base files are tiny                                              */
    uint16_t synced; /* so many commits outlive a power cut, whatever the durability */
    uint16_t commit_count;
    uint16_t change_count;
    harness_commit commits[HARNESS_COMMITS_MAX];
    harness_change changes[HARNESS_CHANGES_MAX];
} harness_past;

typedef struct harness_workload {
    const char *name;
    const char *script;
    uint32_t row_bytes;
    uint32_t memtable_bytes;
    bool shared; /* two engines open the store at the same time */
    bool normal; /* durability normal: a commit is not synced   */
} harness_workload;

/* The workloads that crash and fault tests go through. */
extern const harness_workload harness_workloads[];
extern const uint32_t harness_workload_count;
const harness_workload *harness_workload_named(const char *name); /* NULL: no such one */

typedef struct harness {
    const harness_workload *workload;
    sim *world;
    mw_env env; /* the world's, with another clock, and log segments that grow in small steps */
    mw_db *db[HARNESS_ENGINES];
    bool stopped[HARNESS_ENGINES]; /* it said that its writer has stopped          */
    bool probed[HARNESS_ENGINES];  /* ... and was asked for one more write since   */
    int owner;                     /* the engine that was the last to own the store */
    int64_t files; /* table files that were listed after a compaction */
    bool halted;  /* what a peer left unknown could not be read: no word goes on from there */
    bool lenient; /* faults are armed: a call may fail, and a lost engine is opened again */
    harness_past past;
    char words[HARNESS_WORDS_BYTES]; /* "": nothing is wrong */
} harness;

/* Must not move while an engine is open. world: borrowed; before: NULL, or whose past is carried
** on. */
void harness_start(harness *h, const harness_workload *workload, sim *world, const harness *before);

/* The following return whether all is as it should be; else h->words say what is not. */

bool harness_run(harness *h, const char *script);

/* Reads the store by engine `owner`: forward, backward, by id, its count; there must be a cut of
** the past that fits. live: nothing that is unknown may be seen; else the unknown is settled by
** what is seen. */
bool harness_check(harness *h, bool live);

/* The machine of h is one whose power was cut: of what was not synced nothing is certain any
** more. */
void harness_power_cut(harness *h);

/* Closes what is open. Then there is no memory in use, no open file, no lock or thread. */
bool harness_close(harness *h);
/* The same by mw_db_abandon: what a kill would leave. */
bool harness_kill(harness *h);

typedef enum harness_depth {
    HARNESS_QUICK, /* opens without help, checks, proves every byte, writes once more, closes */
    HARNESS_WHOLE, /* the same with three more transactions, then opens and checks again      */
    HARNESS_DEEP,  /* then flushes and compacts everything: as many physical rows as live ones, and
                   ** no leftovers of the crash                                                  */
} harness_depth;

/* After a crash, no faults armed. */
bool harness_recover(harness *h, harness_depth depth);

#endif
