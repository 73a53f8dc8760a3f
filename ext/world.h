/* world.h: the machine, as the glue reaches it: the engine's table of functions, and what the glue
** itself asks of folders. The real one; in a program that has the glue compiled in, a test may put
** another in its place. */
#ifndef MX_WORLD_H
#define MX_WORLD_H

#include "env.h"

/* A file or folder: what tells it apart from all others, and who may use it. */
typedef struct mx_world_entry {
    uint64_t device;
    uint64_t inode;
    uint32_t mode; /* the nine permission bits */
} mx_world_entry;

/* Functions that can fail return 0 or an errno value. */
typedef struct mx_world {
    const mw_env *env; /* its ctx is the first argument of the others; NULL: mw_env_posix() */
    int (*look)(void *ctx, const char *path, mx_world_entry *entry);
    /* Makes the last component, not yet durable; the umask takes from mode. */
    int (*make_folder)(void *ctx, const char *path, uint32_t mode);
    int (*set_mode)(void *ctx, const char *path, uint32_t mode);
    int (*working_folder)(void *ctx, char *path, size_t bytes);
    /* Does a folder stand there itself, and not a link to one? */
    bool (*is_folder)(void *ctx, const char *path);
} mx_world;

const mw_env *mx_world_env(void); /* borrowed for ever */
int mx_world_look(const char *path, mx_world_entry *entry);
int mx_world_make_folder(const char *path, uint32_t mode);
int mx_world_remove_folder(const char *path); /* an empty one */
int mx_world_set_mode(const char *path, uint32_t mode);
int mx_world_working_folder(char *path, size_t bytes);
bool mx_world_is_folder(const char *path);

#ifdef SQLITE_CORE
/* For tests. world: borrowed until the next call, NULL: the real one. Requires that no connection
** with the extension is open. */
void mx_world_set(const mx_world *world);
#endif

#endif
