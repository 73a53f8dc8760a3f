/* host.h: the database file as the partner of a store's transactions. */
#ifndef MX_HOST_H
#define MX_HOST_H

#include "internal.h"

/* What makes the host's commit durable, where SQLite does not do that itself. */
typedef enum mx_host_debt {
    MX_HOST_NOTHING,
    MX_HOST_FOLDER,  /* the journal's name is gone                 */
    MX_HOST_JOURNAL, /* the journal was cut                        */
    MX_HOST_WAL,     /* the host's log was written, but not synced */
} mx_host_debt;

/* A database file's companions. All are sqlite3_malloc. */
typedef struct mx_host_files {
    char *file;
    char *folder;
    char *wal;
    char *journal;
} mx_host_files;

/* A commit of the host that is under way. Zeros: none. What makes it durable takes no memory: then
** it is too late to fail. */
typedef struct mx_host {
    mx_host_files files;
    mx_host_debt debt;
    uint8_t id[MW_PLEDGE_ID_BYTES]; /* what the marker row says */
    uint64_t wal_inode;             /* of the WAL whose name was synced last; outlives the commit */
} mx_host;

/* In xSync of a table in a database file: writes a fresh id, above `last`, into the marker row, as a
** part of the host's transaction. Returns a SQLite code; *error: sqlite3_free. */
int mx_host_mark(mx_vtab *vtab, mw_pledged last, mx_host *host, char **error);
/* In xCommit: afterwards the host's commit outlives a power cut, as far as its settings promise
** that at all. */
mw_rc mx_host_harden(mx_host *host, mw_err *err) MW_MUST_USE;
void mx_host_clear(mx_host *host); /* the commit is over */
/* Whatever has been committed in the file, by whomever, outlives a power cut afterwards. db: an own
** connection to it. 0 or an errno value. */
int mx_host_sync(sqlite3 *db, const char *file);

/* Settles what a crash has left undecided in the table's store. Requires that the store is open. */
mw_rc mx_host_settle(const mx_vtab *vtab, mw_db *db, uint64_t wait_ms, mw_err *err) MW_MUST_USE;

#endif
