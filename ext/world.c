/* world.c: the only file of the glue that knows the operating system's folders.
**
** What holds rows goes through the engine's table already. The few calls of the glue's own stand
** beside it here, so that a test can run SQLite and the extension wholly on a disk that loses what
** was not synced. */
#include "world.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static int look(void *ctx, const char *path, mx_world_entry *entry)
{
    (void)ctx;
    struct stat info;
    if (stat(path, &info) != 0) return errno;
    entry->device = (uint64_t)info.st_dev;
    entry->inode = (uint64_t)info.st_ino;
    entry->mode = (uint32_t)(info.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
    return 0;
}

static int make_folder(void *ctx, const char *path, uint32_t mode)
{
    (void)ctx;
    return mkdir(path, (mode_t)mode) ? errno : 0;
}

static int set_mode(void *ctx, const char *path, uint32_t mode)
{
    (void)ctx;
    return chmod(path, (mode_t)mode) ? errno : 0;
}

static int working_folder(void *ctx, char *path, size_t bytes)
{
    (void)ctx;
    return getcwd(path, bytes) ? 0 : errno;
}

static bool is_folder(void *ctx, const char *path)
{
    (void)ctx;
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static const mx_world real = {NULL, look, make_folder, set_mode, working_folder, is_folder};
static const mx_world *world = &real;

#ifdef SQLITE_CORE
void mx_world_set(const mx_world *other) { world = other ? other : &real; }
#endif

const mw_env *mx_world_env(void) { return world->env ? world->env : mw_env_posix(); }

int mx_world_look(const char *path, mx_world_entry *entry)
{
    return world->look(mx_world_env()->ctx, path, entry);
}

int mx_world_make_folder(const char *path, uint32_t mode)
{
    return world->make_folder(mx_world_env()->ctx, path, mode);
}

int mx_world_remove_folder(const char *path)
{
    const mw_env *env = mx_world_env();
    return env->dir_remove(env->ctx, path);
}

int mx_world_set_mode(const char *path, uint32_t mode)
{
    return world->set_mode(mx_world_env()->ctx, path, mode);
}

int mx_world_working_folder(char *path, size_t bytes)
{
    return world->working_folder(mx_world_env()->ctx, path, bytes);
}

bool mx_world_is_folder(const char *path)
{
    return world->is_folder(mx_world_env()->ctx, path);
}
