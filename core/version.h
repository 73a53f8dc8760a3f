/* version.h: what the store consists of at one moment: immutable, shared by reference count.
**
** A version lists memtables and table files, newest data first. A snapshot holds a version and a
** sequence; a flush or a merge makes a new version and never touches an old one, so whatever a
** reader holds stays readable: memtables and table files by reference. A file that nothing lists
** any more is removed when the last version that has it goes (mw_table_doom). */
#ifndef MW_VERSION_H
#define MW_VERSION_H

#include "level_iter.h"
#include "memtable.h"
#include "run.h"

typedef struct mw_log_id {
    uint64_t epoch;
    uint64_t number;
} mw_log_id;

/* A memtable with its exact interval of positions: the first generation of a version is active, the
** others are frozen. */
typedef struct mw_generation {
    const mw_env *env;
    atomic_uint refs;
    uint64_t number;
    uint64_t first_position;
    mw_memtable *memtable;
    /* What a large transaction has put below the memtable: set once, before the first entry of the
    ** generation has its position. NULL: nothing. */
    _Atomic(mw_adopted *) adopted;
    mw_log_id *logs; /* the segments that hold it */
    uint32_t log_count;
    mw_log_segment *segment; /* the one that we write or wrote, NULL: none; closed with the rest */
    /* set by the freeze, before a version shows the generation as frozen */
    uint64_t last_position;
    uint64_t sequence_last;
    int64_t count_last;
    mw_pledged pledged_last;
} mw_generation;

/* The half of a version that lies on disk: changed by a flush or a merge. */
typedef struct mw_files {
    const mw_env *env;
    atomic_uint refs;
    mw_manifest *manifest;
    mw_table **tables; /* newest first: generations, then the base; the manifest's list, reversed */
    uint32_t table_count;
    mw_levels levels; /* of the manifest */
} mw_files;

/* Writers are held back long before; a freeze is refused at this number. */
enum { MW_GENERATIONS_MAX = 64 };

typedef struct mw_version {
    const mw_env *env;
    atomic_uint refs;
    mw_files *files;
    mw_manifest *manifest; /* of files */
    mw_table **tables;     /* of files */
    uint32_t table_count;
    mw_generation *generations[MW_GENERATIONS_MAX]; /* newest first; [0] is the active one */
    uint32_t generation_count;
} mw_version;

/* One reference each for the caller. */
mw_rc mw_generation_create(const mw_env *env, uint64_t number, uint64_t first_position,
                           mw_generation **generation, mw_err *err) MW_MUST_USE;
mw_rc mw_generation_add_log(mw_generation *generation, mw_log_id log, mw_err *err) MW_MUST_USE;
mw_generation *mw_generation_ref(mw_generation *generation);
void mw_generation_unref(mw_generation *generation); /* takes NULL */
/* Takes them. Requires that no reader's limit reaches their last sequence yet. */
void mw_generation_adopt(mw_generation *generation, mw_adopted *adopted);
/* The runs that a reader up to limit sees, all of them or none (NULL). Borrowed. */
const mw_runs *mw_generation_runs(const mw_generation *generation, uint64_t limit);

typedef struct mw_files_source {
    const mw_env *env;
    int dir;
    mw_table_pool *pool;
    const mw_schema *schema;           /* outlives the tables */
    const mw_files *from;              /* NULL: the store is being opened */
    mw_generation *const *generations; /* whose runs may have been listed meanwhile */
    uint32_t generation_count;
    bool hold; /* another process may remove the files: they are opened and kept open */
} mw_files_source;

/* The table files of a manifest; those that `from` or the generations have are shared with them.
** Others were written just now, and are verified as far as opening does that. Without `from` no
** file is opened: the folder is listed, and MW_MISSING names a file that is not there. One
** reference. */

mw_rc mw_files_open(const mw_files_source *source, mw_manifest *manifest, mw_files **files,
                    mw_err *err) MW_MUST_USE;
mw_files *mw_files_ref(mw_files *files);
void mw_files_unref(mw_files *files); /* takes NULL */

/* An empty version, to be filled; so that filling it cannot fail. One reference. */
mw_rc mw_version_create(const mw_env *env, mw_version **version, mw_err *err) MW_MUST_USE;
/* Takes a reference to files; generations are added afterwards, newest first. */
void mw_version_set_files(mw_version *version, mw_files *files);
/* Takes a reference. Requires that there is room. */
void mw_version_add_generation(mw_version *version, mw_generation *generation);
mw_version *mw_version_ref(mw_version *version);
void mw_version_unref(mw_version *version); /* takes NULL */
/* Of all its files: see mw_table_keep. */
mw_rc mw_version_keep(const mw_version *version, mw_err *err) MW_MUST_USE;
void mw_version_let_go(const mw_version *version);

/* Does key live among the versions with sequence <= limit? */
mw_rc mw_version_lives(const mw_version *version, mw_slice key, uint64_t limit, bool *lives,
                       mw_err *err) MW_MUST_USE;

/* The table of a version that may hold an id of a base level, NULL: none. *index: its place. */
mw_table *mw_version_base_table(const mw_version *version, uint32_t level, mw_slice key,
                                uint32_t *index);
/* Everything of a base level between those files of the manifest, as one source. */
mw_rc mw_version_level_iter(const mw_version *version, mw_file_run run, mw_iter **iter,
                            mw_err *err) MW_MUST_USE;

/* The identity that table files of this manifest are opened with. */
mw_table_options mw_version_table_options(const mw_manifest *manifest, uint64_t epoch,
                                          uint64_t number);

#endif
