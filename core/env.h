/* env.h: the world, as a table of functions.
**
** Everything that the engine asks of the machine goes through this table: memory, files,
** directories, locks, clock, random numbers, threads. env_posix.c is the real world;
** tests/support/sim.c is one that loses what was not synced.
**
** Functions that can fail return 0 or an errno value. They may do what system calls do: read or
** write less than asked, or return EINTR. The mw_env_* helpers below are what the engine calls;
** they finish short transfers and put the failure into words.
**
** Names are plain file names inside an open directory; no name holds a '/'. */
#ifndef MW_ENV_H
#define MW_ENV_H

#include "status.h"

typedef struct mw_mutex mw_mutex;
typedef struct mw_cond mw_cond;
typedef struct mw_thread mw_thread;

/* How a file is opened. */
typedef enum mw_open {
    MW_OPEN_READ,   /* must exist                                                      */
    MW_OPEN_WRITE,  /* must exist; reading and writing                                 */
    MW_OPEN_CREATE, /* must not exist (else EEXIST); reading and writing               */
    MW_OPEN_ENSURE, /* made when absent; reading and writing                           */
} mw_open;

/* Which file it is. No two files that are there at the same time have the same, and one is there as
** long as it has a name or is open; afterwards another may get it. */
typedef struct mw_file_id {
    uint64_t device;
    uint64_t number;
} mw_file_id;

typedef struct mw_env {
    void *ctx; /* first argument of every function */

    /* Memory. alloc and resize return NULL on failure; release takes NULL. */
    void *(*alloc)(void *ctx, size_t bytes);
    void *(*resize)(void *ctx, void *old, size_t bytes);
    void (*release)(void *ctx, void *old);

    /* Directories. dir_open with create makes the last component (and syncs its parent). */
    int (*dir_open)(void *ctx, const char *path, bool create, int *dir);
    int (*dir_close)(void *ctx, int dir);
    int (*dir_sync)(void *ctx, int dir);
    /* Calls each(arg, name) for every name but "." and ".."; stops when it returns nonzero, which
    ** is no failure of this call: what made `each` stop is for `arg` to remember. */
    int (*dir_list)(void *ctx, int dir, int (*each)(void *arg, const char *name), void *arg);
    /* Removes an empty directory. */
    int (*dir_remove)(void *ctx, const char *path);

    /* Files. */
    int (*file_open)(void *ctx, int dir, const char *name, mw_open how, int *file);
    int (*file_close)(void *ctx, int file);
    int (*file_size)(void *ctx, int file, uint64_t *bytes);
    int (*file_read)(void *ctx, int file, void *to, size_t bytes, uint64_t offset, size_t *got);
    int (*file_write)(void *ctx, int file, const void *from, size_t bytes, uint64_t offset,
                      size_t *put);
    /* Makes the content (and size) durable, not the name. */
    int (*file_sync)(void *ctx, int file);
    /* Reserves room and grows the file to offset + bytes; new bytes read as zero. */
    int (*file_allocate)(void *ctx, int file, uint64_t offset, uint64_t bytes);
    /* Takes the whole file's lock without waiting, held by this open file until file_close: never
    ** lost by closing another descriptor, never kept by a forked child after its parent's close.
    ** EAGAIN when somebody else holds it. */
    int (*file_lock)(void *ctx, int file);

    /* Names. link gives a second name, EEXIST when it is taken: the atomic create-exclusive. */
    int (*link)(void *ctx, int dir, const char *from, const char *to);
    int (*unlink)(void *ctx, int dir, const char *name);
    int (*exists)(void *ctx, int dir, const char *name, bool *yes);
    /* Which file has this name; ENOENT: none has. */
    int (*identify)(void *ctx, int dir, const char *name, mw_file_id *id);

    /* The machine. boot_id differs after each start of the machine. now is monotonic. */
    int (*boot_id)(void *ctx, uint8_t id[16]);
    int (*random)(void *ctx, void *to, size_t bytes);
    uint64_t (*now_ns)(void *ctx);
    uint64_t (*process_id)(void *ctx);

    /* Threads. The objects are made and freed here; lock, unlock and signal cannot fail. */
    int (*mutex_create)(void *ctx, mw_mutex **mutex);
    void (*mutex_destroy)(void *ctx, mw_mutex *mutex);
    void (*mutex_lock)(void *ctx, mw_mutex *mutex);
    void (*mutex_unlock)(void *ctx, mw_mutex *mutex);
    int (*cond_create)(void *ctx, mw_cond **cond);
    void (*cond_destroy)(void *ctx, mw_cond *cond);
    /* Waits until signalled or until now_ns() passes deadline_ns (UINT64_MAX: no deadline); may
    ** wake for nothing. Returns false when the deadline has passed. */
    bool (*cond_wait)(void *ctx, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns);
    void (*cond_signal)(void *ctx, mw_cond *cond);
    void (*cond_broadcast)(void *ctx, mw_cond *cond);
    int (*thread_start)(void *ctx, void (*run)(void *arg), void *arg, mw_thread **thread);
    void (*thread_join)(void *ctx, mw_thread *thread); /* waits, then frees */

    /* Set by whoever uses a copy of an environment, NULL: none. Closes files that can be done
    ** without; called with spare_arg when a call has found no free descriptor, which is then made
    ** once more. */
    void (*spare_files)(void *arg);
    void *spare_arg;
} mw_env;

/* The real world; one for the whole process. */
const mw_env *mw_env_posix(void);

/* Memory. The results are the caller's, freed with mw_free. Zero bytes give a valid pointer. */
void *mw_alloc(const mw_env *env, size_t bytes) MW_MUST_USE;      /* NULL when there is none */
void *mw_alloc_zero(const mw_env *env, size_t bytes) MW_MUST_USE; /* NULL when there is none */
void *mw_resize(const mw_env *env, void *old, size_t bytes) MW_MUST_USE;
void mw_free(const mw_env *env, void *old);

/* As in the table, but an interrupt is no failure, and spare_files is asked when descriptors have
** run out. Return 0 or an errno value. */
int mw_env_open(const mw_env *env, int dir, const char *name, mw_open how, int *file);
int mw_env_list(const mw_env *env, int dir, int (*each)(void *arg, const char *name), void *arg);
int mw_env_boot_id(const mw_env *env, uint8_t id[16]);
int mw_env_allocate(const mw_env *env, int file, uint64_t offset, uint64_t bytes);

/* Reads exactly [offset, offset + bytes). A file that ends before: corrupt, naming it. */
mw_rc mw_env_read(const mw_env *env, int file, const char *name, void *to, size_t bytes,
                  uint64_t offset, mw_err *err) MW_MUST_USE;
/* Reads up to bytes; *got tells how many there were before the end of the file. */
mw_rc mw_env_read_some(const mw_env *env, int file, const char *name, void *to, size_t bytes,
                       uint64_t offset, size_t *got, mw_err *err) MW_MUST_USE;
mw_rc mw_env_write(const mw_env *env, int file, const char *name, const void *from, size_t bytes,
                   uint64_t offset, mw_err *err) MW_MUST_USE;

/* Creates the immutable file `name` with this content, atomically and exclusively: either the whole
** content stands durably under that name afterwards, or nothing does. MW_EXISTS when the name is
** taken (err is then left alone). This is the seam for stores elsewhere (conditional PUT).
** A crash may leave a file "tmp-<name>-<random>". */
mw_rc mw_env_publish(const mw_env *env, int dir, const char *name, mw_slice content,
                     mw_err *err) MW_MUST_USE;

/* Is this a temporary file of mw_env_publish? target: the name that it was to get. */
enum { MW_ENV_NAME_BYTES = 64 };
bool mw_env_parse_tmp(const char *name, char target[MW_ENV_NAME_BYTES]);

/* Reads a whole file of at most limit_bytes into fresh memory (*content: the caller's, mw_free).
** MW_MISSING when there is no such file; corrupt when it is longer than the limit. */
mw_rc mw_env_read_file(const mw_env *env, int dir, const char *name, uint64_t limit_bytes,
                       uint8_t **content, size_t *bytes, mw_err *err) MW_MUST_USE;

#endif
