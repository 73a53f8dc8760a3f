/* harness_inside.h: what the files of the harness share. */
#ifndef HARNESS_INSIDE_H
#define HARNESS_INSIDE_H

#include "coding.h"
#include "harness.h"

enum {
    COLUMNS = 3,      /* of the table                   */
    KEYS = 64,        /* that scripts may name: 0 to 63 */
    WAIT_MS = 600000, /* of the simulated clock: never passes in a right run */
};

/* ---- harness.c ------------------------------------------------------------------------------- */

/* Keeps the first words; returns false. */
bool harness_wrong(harness *h, const char *format, ...) MW_PRINTF(2, 3);
_Noreturn void harness_give_up(const char *why, const char *what); /* a wrong script or no memory */

/* Is that an answer that the call may give here? */
bool harness_allowed(harness *h, const char *what, mw_rc rc, const mw_err *err);
void harness_note_stop(harness *h, int engine, mw_rc rc);

bool harness_create_store(harness *h);
/* Afterwards the engine may be closed all the same: where faults are armed. */
bool harness_open_engine(harness *h, int engine);
bool harness_close_engine(harness *h, int engine);

/* ---- harness_past.c -------------------------------------------------------------------------- */

/* Adds a commit, failed as yet, of the given changes; puts without a tag get the next one. Its
** index. */
size_t harness_note_commit(harness *h, int engine, const harness_change *changes, size_t count);
bool harness_any_fate(const harness *h, oracle_fate fate);
/* The newest change of a key by the commits before `end` that have happened; NULL: none. */
const harness_change *harness_newest_change(const harness *h, uint8_t key, size_t end);

void harness_make_row(const harness *h, uint16_t tag, mw_buf *row);
mw_slice harness_make_key(uint8_t key, uint8_t to[MW_INTEGER_KEY_BYTES]);

/* The pledge of a commit, and the judge who knows which ones the host has committed. */
mw_pledge harness_pledge(size_t commit);
mw_judge harness_judge(harness *h);

/* Settles what a peer has left unknown by reading; *done is false where it could not be read. */
bool harness_settle_peer(harness *h, bool *done);

#endif
