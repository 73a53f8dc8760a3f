/* sim_vfs.h: SQLite's files on a simulated machine.
**
** A VFS whose database files, journals and WAL lie in one folder of a sim, where a power cut may
** take what SQLite has not synced. It tells SQLite nothing kind: sectors of SIM_UNIT_BYTES, writes
** that may be torn and reordered, appends that are not safe, no power-safe overwrite. Like SQLite's
** own VFS it syncs the folder with the first sync of a journal or WAL that it made.
**
** Locks, and the shared memory of a WAL, belong to the machine and are gone with the VFS: after a
** crash make another for the machine of sim_disk_state. Temporary files are the real machine's. */
#ifndef SIM_VFS_H
#define SIM_VFS_H

#include "sim.h"

typedef struct sim_vfs sim_vfs;

/* Registers a VFS under a name of its own. folder: an absolute path of one component, which must be
** there; files are "<folder>/<name>". Aborts the test program when it cannot be done. */
sim_vfs *sim_vfs_create(sim *world, const char *folder);
/* Requires that all connections are closed. Takes NULL. */
void sim_vfs_destroy(sim_vfs *vfs);

/* For sqlite3_open_v2; borrowed until sim_vfs_destroy. */
const char *sim_vfs_name(const sim_vfs *vfs);

/* From now on syncs of files and folders do nothing and say that they have: to prove that a test
** would see it. */
void sim_vfs_lie(sim_vfs *vfs);

#endif
