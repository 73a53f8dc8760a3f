/* replay.h: from what lies in the folder to memtables and a point. */
#ifndef MW_REPLAY_H
#define MW_REPLAY_H

#include "store.h"

/* Entries that may live in the page cache only: those above the last durable-through. */
typedef struct mw_replay_tail {
    mw_buf bytes;            /* per entry: position, epoch, kind, payload */
    uint64_t first_position; /* 0: there is none */
} mw_replay_tail;

typedef struct mw_replay {
    mw_manifest *manifest;
    mw_generation **generations; /* oldest first; the last one goes on as the active one */
    uint32_t generation_count;
    mw_point end; /* behind the last entry that counts              */
    mw_replay_tail tail;
    mw_log_header last_header; /* of the segment that holds the end; number 0: none */
    uint64_t last_offset;      /* where its last whole entry ends                */
    uint64_t last_chain;
    bool last_clean; /* only zeros lie behind that                     */
    bool undecided;  /* a prepare without a decision is left out: it would be the last entry */
    mw_buf host;     /* path of the database that has, or had, to decide; empty: none        */
} mw_replay;

/* Replays the log of the sealed epochs of `manifest`, from its cursor to the end. Damage (a hole
** below a durable-through, a missing segment) is MW_CORRUPT; a torn tail is left out. judge is asked
** about a prepare that the log ends with; his answer is one more entry, in the tail, of the epoch
** that the manifest claims. Without a judge the prepare is left out. `out` is freed with
** mw_replay_free in any case. */
mw_rc mw_replay_log(mw_store *store, mw_manifest *manifest, const mw_judge *judge,
                        mw_replay *out, mw_err *err) MW_MUST_USE;
void mw_replay_free(const mw_env *env, mw_replay *replay);

/* Goes through the tail; start with *offset = 0. False when there is no more. */
bool mw_replay_tail_next(const mw_replay_tail *tail, size_t *offset, mw_log_entry *entry);

#endif
