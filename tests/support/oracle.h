/* oracle.h: a deliberately dumb model of a table, and the one check that covers loss, holes,
** resurrection, doubles and wrong rows.
**
** A test tells the oracle every commit in commit order and what the engine answered. Then it reads
** the table, whatever happened in between (crash, faults, takeover), and asks: is there a cut p of
** that order, at or behind the last acknowledged commit, such that the rows are exactly those of
** the commits up to p, with none in them that has failed for sure?
**
**     commit    1 acked   2 acked   3 failed   4 acked   5 unknown   6 unknown
**     cuts                                     p = 4     p = 5       p = 6
**
** Shares nothing with the engine. Stops the test program when there is no memory. */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum oracle_fate {
    ORACLE_UNKNOWN, /* may have happened: the answer was an error, or never came */
    ORACLE_ACKED,   /* must have happened                                        */
    ORACLE_FAILED,  /* must not have happened, now or ever (fenced, rolled back) */
} oracle_fate;

typedef struct oracle oracle;

oracle *oracle_create(void);
void oracle_destroy(oracle *o); /* takes NULL */

/* The next commit, whose fate is unknown as yet. Returns its number, from 1. put and delete belong
** to the newest commit; keys and rows are copied. */
size_t oracle_commit(oracle *o);
void oracle_put(oracle *o, const void *key, size_t key_bytes, const void *row,
                size_t row_bytes);
void oracle_delete(oracle *o, const void *key, size_t key_bytes);
void oracle_fate_is(oracle *o, size_t commit, oracle_fate fate);

/* After a reopen that the check found right with this cut: what was unknown is so no longer. Up to
** the cut it has happened, behind it it never may. */
void oracle_adopt(oracle *o, size_t cut);

size_t oracle_commits(const oracle *o);
/* Live ids of the commits up to cut, but for failed ones. */
size_t oracle_count(const oracle *o, size_t cut);

typedef struct oracle_row {
    const void *key;
    size_t key_bytes;
    const void *row;
    size_t row_bytes;
} oracle_row;

/* What was read, in any order; count: what the table itself says that it holds. */
typedef struct oracle_seen {
    const oracle_row *rows;
    size_t row_count;
    int64_t count;
} oracle_seen;

enum { ORACLE_WORDS_BYTES = 400 };

/* The check. True: *cut is the lowest cut that fits. False: words say what is lost, doubled, wrong
** or resurrected, against the cut that fits best. */
bool oracle_check(const oracle *o, const oracle_seen *seen, size_t *cut,
                  char words[ORACLE_WORDS_BYTES]);

#endif
