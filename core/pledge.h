/* pledge.h: what binds a transaction of a store to one of its host database.
**
**     store        [prepare p, id]                          [decision of p]
**     host                  [marker row: id][commit]
**
** The entry of such a transaction is a prepare: it counts when the host's own commit has happened,
** and whether it has tells the marker row that was written in the host's transaction. When the
** store's side of the commit is done, a decision behind the prepare says so once and for all. A
** crash between the two leaves a prepare that is undecided; then a judge looks into the host. */
#ifndef MW_PLEDGE_H
#define MW_PLEDGE_H

#include "status.h"

enum { MW_PLEDGE_ID_BYTES = 16, MW_PLEDGE_HOST_BYTES_MAX = 1 << 16 };

typedef struct mw_pledge {
    uint8_t id[MW_PLEDGE_ID_BYTES]; /* of this one transaction, and of no other            */
    const char *host;               /* path of the host database, for whoever has to judge */
} mw_pledge;

/* The newest pledge that was kept: what the host's marker row should say. Zeros: there was none. */
typedef struct mw_pledged {
    uint64_t position; /* of the prepare */
    uint8_t id[MW_PLEDGE_ID_BYTES];
} mw_pledged;

/* Whoever can look into a host database. What decide says has to stay so: a transaction that has
** not happened must not be able to happen later. So the host's write lock is held from open, which
** comes before anything is claimed (MW_BUSY: it cannot be had now), until close, which follows a
** successful open when the answer is durable in the store, or when that has failed. */
typedef struct mw_judge {
    void *arg;
    mw_rc (*open)(void *arg, const char *host, mw_err *err);
    mw_rc (*decide)(void *arg, const mw_pledge *pledge, bool *committed, mw_err *err);
    void (*close)(void *arg);
} mw_judge;

#endif
