/* env_posix.c: the real world: Linux files, clock, random numbers and threads.
**
** Everything is reached from an open directory, so that a process that changes its working
** directory, or a folder that is renamed, does not lead an open store astray. Descriptors are never
** inherited over exec. Locks are those of the open file description (OFD): a POSIX record lock
** would vanish as soon as any other descriptor of the file is closed in the process. Threads of
** ours block all signals: the host's handlers run on the host's threads.
**
** Durability: fdatasync writes content and size, fsync of a directory its names. */
#include "env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct mw_mutex {
    pthread_mutex_t mutex;
};

struct mw_cond {
    pthread_cond_t cond;
};

struct mw_thread {
    pthread_t thread;
    void (*run)(void *arg);
    void *arg;
};

enum {
    NS_PER_S = 1000000000,
    ZEROS_BYTES = 65536,
    LIST_BYTES = 8 << 10,        /* of a folder's list at a time */
    WRITTEN_BYTES_MAX = 1 << 20, /* allocated by writing zeros; above it by fallocate */
    OFFSET_MAX_BITS = 63,
};

static bool past_offset_limit(uint64_t offset, uint64_t bytes)
{
    uint64_t limit = ((uint64_t)1 << OFFSET_MAX_BITS) - 1;
    return offset > limit || bytes > limit - offset;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void *memory_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return malloc(bytes);
}

static void *memory_resize(void *ctx, void *old, size_t bytes)
{
    (void)ctx;
    return realloc(old, bytes);
}

static void memory_release(void *ctx, void *old)
{
    (void)ctx;
    free(old);
}

/* ---- directories ---------------------------------------------------------------------------- */

/* Makes the name of the directory durable. made: we have made it; else it may be one that a process
** made and was killed before its sync, or an old one in a parent that we may not read. */
static int sync_parent(int dir, bool made)
{
    int parent = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) return !made && errno == EACCES ? 0 : errno;
    int sys = fsync(parent) ? errno : 0;
    close(parent);
    return sys;
}

static int dir_open(void *ctx, const char *path, bool create, int *dir)
{
    (void)ctx;
    bool made = create && mkdir(path, 0777) == 0;
    if (create && !made && errno != EEXIST) return errno;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    int sys = create ? sync_parent(fd, made) : 0;
    if (sys) {
        close(fd);
        return sys;
    }
    *dir = fd;
    return 0;
}

/* Linux has closed the descriptor also when it answers EINTR; a second try could hit another's. */
static int close_descriptor(void *ctx, int fd)
{
    (void)ctx;
    return close(fd) && errno != EINTR ? errno : 0;
}

/* A forked child has a copy of the descriptor, and the lock is one with it: it must not outlive its
** holder's close. */
static int file_close(void *ctx, int file)
{
    struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    (void)fcntl(file, F_OFD_SETLK, &none);
    return close_descriptor(ctx, file);
}

static int dir_sync(void *ctx, int dir)
{
    (void)ctx;
    return fsync(dir) ? errno : 0;
}

/* Shows the names of one piece of the list. True: no more is wanted. */
static bool show_names(const char *piece, ssize_t bytes, int (*each)(void *, const char *),
                       void *arg)
{
    for (ssize_t at = 0; at < bytes;) {
        const struct dirent64 *entry = (const void *)(piece + at);
        at += entry->d_reclen;
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && each(arg, name)) return true;
    }
    return false;
}

/* By getdents64, not readdir, which allocates: this list is what tells a publisher whether its
** manifest counts, and must not fail for want of memory then. */
static int dir_list(void *ctx, int dir, int (*each)(void *arg, const char *name), void *arg)
{
    (void)ctx;
    _Alignas(struct dirent64) char piece[LIST_BYTES];
    /* A descriptor of its own: two lists of one directory must not share a position. */
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    ssize_t got;
    do {
        got = getdents64(fd, piece, sizeof piece);
    } while (got > 0 && !show_names(piece, got, each, arg));
    int sys = got < 0 ? errno : 0;
    close(fd);
    return sys;
}

static int dir_remove(void *ctx, const char *path)
{
    (void)ctx;
    return rmdir(path) ? errno : 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int file_open(void *ctx, int dir, const char *name, mw_open how, int *file)
{
    static const int flags[] = {
        [MW_OPEN_READ] = O_RDONLY,
        [MW_OPEN_WRITE] = O_RDWR,
        [MW_OPEN_CREATE] = O_RDWR | O_CREAT | O_EXCL,
        [MW_OPEN_ENSURE] = O_RDWR | O_CREAT,
    };
    (void)ctx;
    assert(!strchr(name, '/'));
    int fd = openat(dir, name, flags[how] | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    *file = fd;
    return 0;
}

static int file_size(void *ctx, int file, uint64_t *bytes)
{
    (void)ctx;
    struct stat info;
    if (fstat(file, &info)) return errno;
    *bytes = (uint64_t)info.st_size;
    return 0;
}

static int file_read(void *ctx, int file, void *to, size_t bytes, uint64_t offset, size_t *got)
{
    (void)ctx;
    *got = 0;
    if (past_offset_limit(offset, bytes)) return EINVAL;
    ssize_t n = pread(file, to, bytes, (off_t)offset);
    if (n < 0) return errno;
    *got = (size_t)n;
    return 0;
}

static int file_write(void *ctx, int file, const void *from, size_t bytes, uint64_t offset,
                      size_t *put)
{
    (void)ctx;
    *put = 0;
    if (past_offset_limit(offset, bytes)) return EFBIG;
    ssize_t n = pwrite(file, from, bytes, (off_t)offset);
    if (n < 0) return errno;
    *put = (size_t)n;
    return 0;
}

static int file_sync(void *ctx, int file)
{
    (void)ctx;
    return fdatasync(file) ? errno : 0;
}

/* Zeros behind the end take the room as surely as fallocate does, and better for what follows: into
** blocks that have been written a sync puts the data and nothing else, while reserved ones make it
** change the file system's own records each time (a durable write of 200 bytes: a fifth quicker).
** Large pieces are reserved all the same: writing them twice would cost more than it saves. */
static int append_zeros(int file, uint64_t end)
{
    static const uint8_t zeros[ZEROS_BYTES];
    uint64_t size = 0;
    int sys = file_size(NULL, file, &size);
    while (!sys && size < end) {
        size_t put = 0;
        sys = file_write(NULL, file, zeros, (size_t)mw_min(sizeof zeros, end - size), size, &put);
        if (sys == EINTR) sys = 0;
        size += put;
    }
    return sys;
}

static int file_allocate(void *ctx, int file, uint64_t offset, uint64_t bytes)
{
    (void)ctx;
    if (bytes == 0) return 0;
    if (past_offset_limit(offset, bytes)) return EFBIG;
    if (bytes > WRITTEN_BYTES_MAX) {
        if (fallocate(file, 0, (off_t)offset, (off_t)bytes) == 0) return 0;
        if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    }
    return append_zeros(file, offset + bytes);
}

static int file_lock(void *ctx, int file)
{
    (void)ctx;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_OFD_SETLK, &lock) == 0) return 0;
    return errno == EACCES ? EAGAIN : errno;
}

/* ---- names ---------------------------------------------------------------------------------- */

static int name_link(void *ctx, int dir, const char *from, const char *to)
{
    (void)ctx;
    assert(!strchr(from, '/') && !strchr(to, '/'));
    return linkat(dir, from, dir, to, 0) ? errno : 0;
}

static int name_unlink(void *ctx, int dir, const char *name)
{
    (void)ctx;
    assert(!strchr(name, '/'));
    return unlinkat(dir, name, 0) ? errno : 0;
}

static int name_exists(void *ctx, int dir, const char *name, bool *yes)
{
    (void)ctx;
    assert(!strchr(name, '/'));
    struct stat info;
    *yes = fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    return *yes || errno == ENOENT ? 0 : errno;
}

static int name_identify(void *ctx, int dir, const char *name, mw_file_id *id)
{
    (void)ctx;
    assert(!strchr(name, '/'));
    struct stat info;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW)) return errno;
    *id = (mw_file_id){.device = (uint64_t)info.st_dev, .number = (uint64_t)info.st_ino};
    return 0;
}

/* ---- the machine ---------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* "01234567-89ab-..." to 16 bytes; false for any other text. */
static bool parse_uuid(const char *text, size_t bytes, uint8_t id[16])
{
    size_t digits = 0;
    for (size_t i = 0; i < bytes && digits < 32; i++) {
        if (text[i] == '-') continue;
        int value = hex_digit(text[i]);
        if (value < 0) return false;
        uint8_t high = digits % 2 ? id[digits / 2] : 0;
        id[digits / 2] = (uint8_t)((high << 4) | value);
        digits++;
    }
    return digits == 32;
}

static int boot_id(void *ctx, uint8_t id[16])
{
    (void)ctx;
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    ssize_t n = read(fd, text, sizeof text);
    int sys = n < 0 ? errno : 0;
    close(fd);
    if (sys) return sys;
    return parse_uuid(text, (size_t)n, id) ? 0 : EIO;
}

static int random_bytes(void *ctx, void *to, size_t bytes)
{
    (void)ctx;
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = getrandom((uint8_t *)to + done, bytes - done, 0);
        if (n < 0 && errno != EINTR) return errno;
        if (n > 0) done += (size_t)n;
    }
    return 0;
}

static uint64_t now_ns(void *ctx)
{
    (void)ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t process_id(void *ctx)
{
    (void)ctx;
    return (uint64_t)getpid();
}

/* ---- threads -------------------------------------------------------------------------------- */

static int mutex_create(void *ctx, mw_mutex **mutex)
{
    (void)ctx;
    mw_mutex *made = malloc(sizeof *made);
    if (!made) return ENOMEM;
    int sys = pthread_mutex_init(&made->mutex, NULL);
    if (sys) {
        free(made);
        return sys;
    }
    *mutex = made;
    return 0;
}

static void mutex_destroy(void *ctx, mw_mutex *mutex)
{
    (void)ctx;
    if (!mutex) return;
    pthread_mutex_destroy(&mutex->mutex);
    free(mutex);
}

static void mutex_lock(void *ctx, mw_mutex *mutex)
{
    (void)ctx;
    pthread_mutex_lock(&mutex->mutex);
}

static void mutex_unlock(void *ctx, mw_mutex *mutex)
{
    (void)ctx;
    pthread_mutex_unlock(&mutex->mutex);
}

static int cond_create(void *ctx, mw_cond **cond)
{
    (void)ctx;
    pthread_condattr_t attributes;
    mw_cond *made = malloc(sizeof *made);
    if (!made) return ENOMEM;
    int sys = pthread_condattr_init(&attributes);
    if (!sys) {
        /* The wall clock may be set back; a deadline must not wait for it. */
        sys = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (!sys) sys = pthread_cond_init(&made->cond, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    if (sys) {
        free(made);
        return sys;
    }
    *cond = made;
    return 0;
}

static void cond_destroy(void *ctx, mw_cond *cond)
{
    (void)ctx;
    if (!cond) return;
    pthread_cond_destroy(&cond->cond);
    free(cond);
}

static bool cond_wait(void *ctx, mw_cond *cond, mw_mutex *mutex, uint64_t deadline_ns)
{
    (void)ctx;
    if (deadline_ns == UINT64_MAX) {
        pthread_cond_wait(&cond->cond, &mutex->mutex);
        return true;
    }
    struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / NS_PER_S),
        .tv_nsec = (long)(deadline_ns % NS_PER_S),
    };
    return pthread_cond_timedwait(&cond->cond, &mutex->mutex, &until) != ETIMEDOUT;
}

static void cond_signal(void *ctx, mw_cond *cond)
{
    (void)ctx;
    pthread_cond_signal(&cond->cond);
}

static void cond_broadcast(void *ctx, mw_cond *cond)
{
    (void)ctx;
    pthread_cond_broadcast(&cond->cond);
}

static void *thread_main(void *arg)
{
    mw_thread *thread = arg;
    thread->run(thread->arg);
    return NULL;
}

static int thread_start(void *ctx, void (*run)(void *arg), void *arg, mw_thread **thread)
{
    (void)ctx;
    sigset_t all;
    sigset_t before;
    mw_thread *made = malloc(sizeof *made);
    if (!made) return ENOMEM;
    made->run = run;
    made->arg = arg;
    /* A new thread has its maker's mask; set afterwards, a signal could slip in between. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int sys = pthread_create(&made->thread, NULL, thread_main, made);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (sys) {
        free(made);
        return sys;
    }
    *thread = made;
    return 0;
}

static void thread_join(void *ctx, mw_thread *thread)
{
    (void)ctx;
    pthread_join(thread->thread, NULL);
    free(thread);
}

const mw_env *mw_env_posix(void)
{
    static const mw_env env = {
        .alloc = memory_alloc,
        .resize = memory_resize,
        .release = memory_release,
        .dir_open = dir_open,
        .dir_close = close_descriptor,
        .dir_sync = dir_sync,
        .dir_list = dir_list,
        .dir_remove = dir_remove,
        .file_open = file_open,
        .file_close = file_close,
        .file_size = file_size,
        .file_read = file_read,
        .file_write = file_write,
        .file_sync = file_sync,
        .file_allocate = file_allocate,
        .file_lock = file_lock,
        .link = name_link,
        .unlink = name_unlink,
        .exists = name_exists,
        .identify = name_identify,
        .boot_id = boot_id,
        .random = random_bytes,
        .now_ns = now_ns,
        .process_id = process_id,
        .mutex_create = mutex_create,
        .mutex_destroy = mutex_destroy,
        .mutex_lock = mutex_lock,
        .mutex_unlock = mutex_unlock,
        .cond_create = cond_create,
        .cond_destroy = cond_destroy,
        .cond_wait = cond_wait,
        .cond_signal = cond_signal,
        .cond_broadcast = cond_broadcast,
        .thread_start = thread_start,
        .thread_join = thread_join,
    };
    return &env;
}
