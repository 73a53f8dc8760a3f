/* sim.h: a simulated machine behind the engine's table of functions.
**
** Its disk keeps what a real one may keep and not a byte more: what was not synced is lost, kept,
** torn or reordered, as a test asks for. Its calls fail, stop, or are counted on demand. Threads,
** mutexes and conditions are real ones.
**
** A crash test in outline:
**
**     run the workload once on a fresh machine; steps = sim_steps(world)
**     for n in 0..steps:
**         world = sim_create(); sim_stop_after(world, n)
**         run the workload in sim_env(world), note what was acknowledged
**         count = sim_disk_count(world, SIM_CAP_DEFAULT)
**         for i in 0..count-1:
**             after = sim_disk_state(world, i)
**             open the store in sim_env(after), check it; sim_destroy(after)
**         sim_destroy(world)
**
** Paths are "store" or "/a/b": components below a root that always exists; parents must exist.
** Names have at most SIM_NAME_BYTES - 1 bytes. Helpers that act on a file take its path
** ("store/wal-1"). */
#ifndef SIM_H
#define SIM_H

#include "env.h"

#include <stdio.h>

typedef struct sim sim;

enum { SIM_NAME_BYTES = 64, SIM_UNIT_BYTES = 512, SIM_CAP_DEFAULT = 4096 };

/* Kinds of calls. A call has a name for the filters below: the file's name as it was opened; for
** link both names (either may match); for directories the last component of the path; else "". */
typedef enum sim_op {
    /* calls of the file system */
    SIM_DIR_OPEN,
    SIM_DIR_SYNC,
    SIM_LIST,
    SIM_DIR_REMOVE,
    SIM_OPEN,
    SIM_CLOSE, /* of files and directories; a failing close closes all the same */
    SIM_SIZE,
    SIM_READ,
    SIM_WRITE,
    SIM_FILE_SYNC,
    SIM_ALLOCATE,
    SIM_TRUNCATE,
    SIM_LOCK,
    SIM_LINK,
    SIM_UNLINK,
    SIM_EXISTS, /* exists, identify */
    SIM_ANY_CALL, /* in filters: any of the above */
    /* the rest of the machine */
    SIM_ALLOC, /* memory: alloc and resize */
    SIM_THREAD,
    SIM_MUTEX, /* making a mutex or a condition */
    SIM_BOOT_ID,
    SIM_RANDOM,
    SIM_OP_COUNT
} sim_op;

/* An empty disk, nothing armed. Aborts the test program when the host has no memory. */
sim *sim_create(void);
/* Requires that no thread is inside. Takes NULL. Frees no memory that the engine still holds. */
void sim_destroy(sim *world);
const mw_env *sim_env(sim *world); /* borrowed until sim_destroy */

/* ---- what was done ------------------------------------------------------------------------- */

/* Calls since creation; SIM_ANY_CALL: all of the file system. */
uint64_t sim_calls(sim *world, sim_op op);
/* Calls that can change the disk or what a crash may leave of it: creating opens, write, sync,
** truncate, link, unlink, allocate, making and removing directories. (dir_open that creates is two:
** making the directory, syncing its parent.) */
uint64_t sim_steps(sim *world);
uint64_t sim_memory_in_use(sim *world); /* bytes; 0 after a clean close        */
uint64_t sim_memory_peak(sim *world);   /* highest value of the above          */
uint32_t sim_open_count(sim *world);    /* open files and directories          */
uint32_t sim_object_count(sim *world);  /* threads not joined, mutexes, conditions */
/* The last calls (some thousands) as text, one a line. Off at first. */
void sim_trace(sim *world, bool on);
void sim_trace_print(sim *world, FILE *to);

/* ---- calls that the engine does not make, but SQLite --------------------------------------- */

/* They pass faults, holds and the stop as the calls of the table do. Return 0 or an errno value. */
int sim_truncate(sim *world, int file, uint64_t bytes); /* or extends by zeros */
int sim_mkdir(sim *world, const char *path);            /* EEXIST; its name waits for a sync */
/* What tells a file or directory apart from all others of the process. */
int sim_identify(sim *world, const char *path, uint64_t *device, uint64_t *inode);

/* ---- faults -------------------------------------------------------------------------------- */

/* Besides errno values: */
enum {
    SIM_SHORT = -1, /* read, write: half of it (at least a byte) is done, success is returned   */
    SIM_TORN = -2,  /* write: half of it is done, EIO is returned; others: the same as EIO       */
};

/* The nth matching call from now on (1 = the next) answers `sys` and has no effect, but see above;
** for_ever: all after it too. For SIM_ALLOC any sys gives NULL. Up to 16 faults are armed at a
** time, each counts its own calls: {SIM_WRITE 1 SIM_SHORT} with {SIM_WRITE 2 EINTR} is half a
** write, then an interrupt, then the rest. */
void sim_fail(sim *world, sim_op op, uint64_t nth, int sys, bool for_ever);
/* The same for calls whose name begins with prefix. */
void sim_fail_named(sim *world, sim_op op, const char *prefix, uint64_t nth, int sys,
                    bool for_ever);
void sim_fail_clear(sim *world);         /* disarms all */
uint64_t sim_fail_hits(sim *world);      /* calls that a fault has met since creation */

/* What a failed file_sync does with the file's unsynced writes. */
typedef enum sim_sync_failure {
    SIM_STAY_DIRTY,   /* nothing: the next sync may write them (the default)                      */
    SIM_MARKED_CLEAN, /* they never reach the disk, but are read back as long as the machine runs */
    SIM_REVERTED,     /* they are gone at once: reads show the old content                        */
} sim_sync_failure;
void sim_set_sync_failure(sim *world, sim_sync_failure mode);

/* ---- holds --------------------------------------------------------------------------------- */

/* The next matching call of any thread blocks before its effect (prefix NULL: any name). Up to 8 at
** a time; returns the hold, to be given to the two below. */
int sim_hold(sim *world, sim_op op, const char *prefix);
/* Waits until a call is blocked there; false after 10 s without one. */
bool sim_wait_held(sim *world, int hold);
/* Lets the blocked call go on, or disarms the hold when none has come. */
void sim_release(sim *world, int hold);

/* ---- the machine --------------------------------------------------------------------------- */

void sim_clock_advance(sim *world, uint64_t ns); /* real monotonic time goes on from there */
void sim_set_process_id(sim *world, uint64_t id);

/* ---- crashes ------------------------------------------------------------------------------- */

/* The machine is gone after n more steps: the call that would be step n + 1 and all calls of the
** file system after it answer EIO and change nothing. */
void sim_stop_after(sim *world, uint64_t n);
bool sim_stopped(sim *world); /* has such a call come? */

/* Before each step from now on, see gets a machine as sim_kill makes it; its to destroy. One run of
** a workload gives all its crashes that way. It is called inside the call that takes the step, and
** may not touch world. NULL: no more. */
void sim_each_step(sim *world, void (*see)(void *arg, sim *copy), void *arg);

/* From now on the writes of one file reach the disk in the order in which they were made, though
** not those of two files: what SQLite's synchronous = NORMAL leans on, but in WAL mode. */
void sim_set_in_order(sim *world);

/* Finds the disk states that a power cut at this moment may leave, all different, and returns how
** many (at least 1). Rules: of each file any subset of the unsynced writes, cut at multiples of
** SIM_UNIT_BYTES, the later over the earlier, and of the truncations among them; its size any that
** it had since the sync or a write may leave, from the least to the largest; gaps are zeros; of
** each directory any prefix of its unsynced changes. When there are more than cap: all kept, all
** lost, every moment in time, one file lost or kept, one part dropped, one part kept, two parts
** dropped, then random ones of a fixed seed. Requires that no call is running. */
uint32_t sim_disk_count(sim *world, uint32_t cap);
/* A fresh machine (new boot id, nothing open or locked) with the disk state index of the last
** sim_disk_count. Requires that nothing was done with world since. The caller's: sim_destroy. */
sim *sim_disk_state(sim *world, uint32_t index);
/* Of the names and contents of that disk state; the same for the same. */
uint64_t sim_disk_hash(sim *world, uint32_t index);
/* The parts of that choice as text, for messages about a failure. */
void sim_disk_print(sim *world, uint32_t index, FILE *to);

/* A fresh sim where the process was killed, but the machine runs on: same boot id, everything
** written is still there and still unsynced, descriptors and locks are gone. The caller's:
** sim_destroy. */
sim *sim_kill(sim *world);

/* ---- damage and inspection ----------------------------------------------------------------- */

/* They see what a process would see, and change disk and cache at once, durably (what waits for a
** sync in that file or directory is synced first); no faults, no count. All but sim_file_exists,
** sim_file_size and sim_file_put abort the test when there is no such file. */
bool sim_file_exists(sim *world, const char *path);
int64_t sim_file_size(sim *world, const char *path); /* -1: no such file */
size_t sim_file_read(sim *world, const char *path, uint64_t offset, void *to, size_t bytes);
void sim_file_write(sim *world, const char *path, uint64_t offset, const void *from, size_t bytes);
/* Makes or replaces a whole file. */
void sim_file_put(sim *world, const char *path, const void *from, size_t bytes);
void sim_file_truncate(sim *world, const char *path, uint64_t bytes); /* or extends by zeros */
void sim_file_flip(sim *world, const char *path, uint64_t bit); /* 0: lowest of the first byte */
void sim_file_delete(sim *world, const char *path);
void sim_make_dir(sim *world, const char *path); /* one component; exists already: nothing */
/* Names in a directory, sorted; at most room of them are filled in; returns how many there are. */
uint32_t sim_list(sim *world, const char *path, char (*names)[SIM_NAME_BYTES], uint32_t room);

#endif
