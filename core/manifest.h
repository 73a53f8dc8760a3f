/* manifest.h: the immutable, numbered file that describes a whole store at one moment.
**
** Manifests form a chain: number N+1 is computed from N and created exclusively, so exactly one
** process wins each number. Format: FORMAT.md, "Manifests". */
#ifndef MW_MANIFEST_H
#define MW_MANIFEST_H

#include <stdatomic.h>

#include "arena.h"
#include "coding.h"
#include "pledge.h"
#include "schema.h"
#include "table_write.h"

typedef struct mw_manifest_file {
    uint64_t epoch; /* with number: the table file's name and identity */
    uint64_t number;
    uint32_t level;      /* 0: a generation; 1 and up: base                 */
    uint64_t generation; /* level 0: which one; base: the newest one folded in */
    mw_table_props props;
    mw_key_range keys; /* in a manifest: borrowed from it */
} mw_manifest_file;

typedef struct mw_manifest_epoch {
    uint64_t epoch;
    bool sealed;
    uint64_t start;       /* sealed: first position of its own                                 */
    uint64_t copied_from; /* sealed: its log holds copies of [copied_from, start); == start: none */
} mw_manifest_epoch;

typedef struct mw_manifest {
    const mw_env *env;
    _Atomic uint32_t refs;
    mw_store_id store;
    uint64_t number;        /* of this manifest, from 1                                       */
    uint64_t boundary;      /* oldest manifest number kept; lower ones may be gone            */
    uint64_t cursor;        /* replay cursor: last position whose rows are in listed files    */
    uint64_t sequence;      /* highest sequence used at the cursor                            */
    int64_t count;          /* live ids at the cursor                                         */
    uint64_t generation;    /* newest generation flushed, 0: none                             */
    uint64_t table_number;  /* numbers of table files made later lie above                    */
    uint64_t bytes_flushed; /* bytes of table files ever written by flushes and merges        */
    uint64_t bytes_merged;
    mw_pledged pledged; /* the newest one kept at the cursor */
    mw_schema schema;          /* points into the manifest's own memory                          */
    mw_manifest_epoch *epochs; /* ascending; at most the last one is unsealed                   */
    uint32_t epoch_count;
    mw_manifest_file *files; /* base first (level descending, then key order), then generations
                                 ascending: oldest data first */
    uint32_t file_count;
    uint32_t epoch_capacity;
    uint32_t file_capacity;
    uint8_t *schema_memory;
    mw_arena keys; /* of the files */
} mw_manifest;

enum { MW_MANIFEST_NAME_BYTES = 32 };
/* "manifest-<number as 16 hex digits>" */
void mw_manifest_name(uint64_t number, char name[MW_MANIFEST_NAME_BYTES]);
/* The number in such a name; false for any other name. */
bool mw_manifest_parse_name(const char *name, uint64_t *number);

/* An empty manifest of a new store: number 1, boundary 1, cursor 0, no epoch. One reference. Copies
** the schema. */
mw_rc mw_manifest_create(const mw_env *env, const mw_store_id *store, const mw_schema *schema,
                         mw_manifest **manifest, mw_err *err) MW_MUST_USE;
/* A changeable copy with number + 1, for computing the successor. One reference. */
mw_rc mw_manifest_copy(const mw_manifest *from, mw_manifest **manifest, mw_err *err) MW_MUST_USE;
mw_manifest *mw_manifest_ref(mw_manifest *manifest);
void mw_manifest_unref(mw_manifest *manifest); /* takes NULL */

/* Changes for a successor that is not published yet. */
mw_rc mw_manifest_add_file(mw_manifest *manifest, const mw_manifest_file *file,
                           mw_err *err) MW_MUST_USE; /* keeps the order of files, copies keys */
/* Removes by identity; false: it was not listed. */
bool mw_manifest_remove_file(mw_manifest *manifest, uint64_t epoch, uint64_t number);
mw_rc mw_manifest_add_epoch(mw_manifest *manifest, uint64_t epoch, mw_err *err) MW_MUST_USE;

/* Highest epoch claimed, sealed or not; 0: none. */
uint64_t mw_manifest_epoch_claimed(const mw_manifest *manifest);
/* Highest sealed epoch; NULL: none. Borrowed. */
const mw_manifest_epoch *mw_manifest_sealed(const mw_manifest *manifest);

/* Creates its file under its number, durably and exclusively. MW_EXISTS: somebody else has the
** number (err is left alone). */
mw_rc mw_manifest_publish(const mw_manifest *manifest, int dir, mw_err *err) MW_MUST_USE;

/* Reads and verifies manifest `number`; checks every rule of the format. MW_MISSING: no such file.
** One reference. store: the identity expected, NULL: any. */
mw_rc mw_manifest_load(const mw_env *env, int dir, uint64_t number, const mw_store_id *store,
                       mw_manifest **manifest, mw_err *err) MW_MUST_USE;

/* The numbers in a folder; both 0: there are none. */
typedef struct mw_manifest_range {
    uint64_t lowest;
    uint64_t newest;
} mw_manifest_range;

/* Lists the folder. An error is never read as absence. */
mw_rc mw_manifest_list(const mw_env *env, int dir, mw_manifest_range *range,
                       mw_err *err) MW_MUST_USE;
/* The same, for the highest number only; 0: there is none. */
mw_rc mw_manifest_newest(const mw_env *env, int dir, uint64_t *number, mw_err *err) MW_MUST_USE;

/* Loads the newest one. A living owner may publish the next and remove the one that the list
** showed: then it looks again. MW_MISSING: there is none. One reference. store as above. */
mw_rc mw_manifest_load_newest(const mw_env *env, int dir, const mw_store_id *store,
                              mw_manifest **manifest, mw_err *err) MW_MUST_USE;

/* A file's properties as bytes: manifests and adopt entries (run.h) have them alike. */
void mw_manifest_put_props(const mw_table_props *props, mw_buf *buf);
void mw_manifest_get_props(mw_scan *scan, mw_table_props *props);

/* Encoded form (tests, golden files). */
mw_rc mw_manifest_encode(const mw_manifest *manifest, mw_buf *buf, mw_err *err) MW_MUST_USE;
mw_rc mw_manifest_decode(const mw_env *env, mw_slice content, const char *name,
                         mw_manifest **manifest, mw_err *err) MW_MUST_USE;

#endif
