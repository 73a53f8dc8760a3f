/* shared.c: a page that a writing process and those that read beside it have in common.
**
**     0   8   magic
**     8   16  boot id of the machine: a page of an earlier start says nothing
**     24  16  store id
**     40  8   XXH3-64 of the first 40 bytes, seeded as in the other files
**     48  8   published position     56  8  its complement
**     64  8   number of the manifest 72  8  its complement
**     80  8   newest prepare         88  8  its complement
**
** A word and its complement are two stores. Whoever reads them at the moment between sees that they
** do not fit, and looks again; two that never fit are damage, and the page says nothing.
**
** Only the holder of the store's lock stores here, and only what is so already: a position after its
** entries were published, a manifest after it was installed. So both only rise, as long as the
** machine runs. A killed process leaves what was true at its end.
**
** The newest prepare is the position of one that a transaction of the host decides about. Above the
** published position it is under way: the host may have committed already. */
#include "shared.h"

#include "hash.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

enum {
    PAGE_BYTES = MW_MAP_BYTES_MAX,
    HEAD_BYTES = 40, /* under the checksum */
    LOOKS_MAX = 1000,
};

typedef struct word {
    _Atomic uint64_t value;
    _Atomic uint64_t complement;
} word;

typedef struct page {
    uint8_t magic[8];
    uint8_t boot[16];
    uint8_t store[16];
    uint64_t checksum;
    word position;
    word manifest;
    word prepare;
} page;
static_assert(offsetof(page, checksum) == HEAD_BYTES, "the checksum follows the head");
static_assert(sizeof(page) <= PAGE_BYTES, "it is a page");

static const uint8_t magic[8] = {'m', 'w', 's', 'h', 'a', 'r', 'e', '\n'};
static const char shared_name[] = "shared";

static uint64_t checksum_of(const mw_store *store, const page *of)
{
    return mw_hash(of, HEAD_BYTES, mw_hash_seed(&store->id, 0, 0));
}

static void put(word *to, uint64_t value)
{
    atomic_store(&to->value, value);
    atomic_store(&to->complement, ~value);
}

static bool get(word *from, uint64_t *value)
{
    for (int i = 0; i < LOOKS_MAX; i++) {
        uint64_t complement = atomic_load(&from->complement);
        *value = atomic_load(&from->value);
        if (*value == ~complement) return true;
    }
    return false;
}

static mw_rc make_head(const mw_store *store, page *head, mw_err *err)
{
    memset(head, 0, sizeof *head);
    memcpy(head->magic, magic, sizeof magic);
    memcpy(head->store, store->id.bytes, sizeof head->store);
    int sys = mw_env_boot_id(store->env, head->boot);
    if (sys) return mw_fail_sys(err, sys, "reading", "the machine's boot id");
    head->checksum = checksum_of(store, head);
    return MW_OK;
}

static mw_rc map(mw_store *store, int file, bool create, mw_err *err)
{
    const mw_env *env = store->env;
    uint64_t bytes = 0;
    int sys = env->file_size(env->ctx, file, &bytes);
    if (!sys && bytes < PAGE_BYTES && create) sys = mw_env_allocate(env, file, 0, PAGE_BYTES);
    if (!sys && bytes < PAGE_BYTES && !create) return MW_OK;
    if (!sys) sys = env->file_map(env->ctx, file, PAGE_BYTES, &store->shared);
    return sys ? mw_fail_sys(err, sys, "mapping", shared_name) : MW_OK;
}

/* Nobody relies on it before its head is whole; then its figures are true. */
static void begin_page(mw_store *store, const page *head)
{
    page *at = store->shared;
    bool same = memcmp(at, head, HEAD_BYTES + sizeof head->checksum) == 0;
    if (same) return; /* of this start of the machine: its figures still hold */
    memset(at->magic, 0, sizeof at->magic);
    put(&at->position, store->visible.position);
    put(&at->manifest, store->version->manifest->number);
    put(&at->prepare, store->prepare);
    memcpy((uint8_t *)at + sizeof magic, (const uint8_t *)head + sizeof magic,
           HEAD_BYTES + sizeof head->checksum - sizeof magic);
    atomic_thread_fence(memory_order_release);
    memcpy(at->magic, magic, sizeof magic);
}

mw_rc mw_shared_open(mw_store *store, bool create, bool *there, mw_err *err)
{
    const mw_env *env = store->env;
    page head;
    int file;
    *there = store->shared != NULL;
    if (store->shared) return MW_OK;
    mw_rc rc = make_head(store, &head, err);
    if (rc != MW_OK) return rc;
    int sys =
        mw_env_open(env, store->dir, shared_name, create ? MW_OPEN_ENSURE : MW_OPEN_WRITE, &file);
    if (sys == ENOENT && !create) return MW_OK;
    if (sys) return mw_fail_sys(err, sys, "opening", shared_name);
    rc = map(store, file, create, err);
    env->file_close(env->ctx, file);
    if (rc != MW_OK || !store->shared) return rc;
    if (create) begin_page(store, &head);
    *there = memcmp(store->shared, &head, HEAD_BYTES + sizeof head.checksum) == 0;
    if (!*there) mw_shared_close(store);
    return MW_OK;
}

void mw_shared_close(mw_store *store)
{
    if (store->shared) store->env->file_unmap(store->env->ctx, store->shared, PAGE_BYTES);
    store->shared = NULL;
}

void mw_shared_show(mw_store *store)
{
    page *at = store->shared;
    if (!at || atomic_load(&store->following)) return;
    put(&at->position, store->visible.position);
    put(&at->manifest, store->version->manifest->number);
}

void mw_shared_show_prepare(mw_store *store)
{
    page *at = store->shared;
    if (at && !atomic_load(&store->following)) put(&at->prepare, store->prepare);
}

bool mw_shared_look_prepare(const mw_store *store, uint64_t *prepare)
{
    page *at = store->shared;
    return at && get(&at->prepare, prepare);
}

bool mw_shared_look(const mw_store *store, uint64_t *position, uint64_t *manifest)
{
    page *at = store->shared;
    return at && get(&at->position, position) && get(&at->manifest, manifest);
}
