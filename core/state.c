/* state.c: the file `state`: was the store closed cleanly, and where did its log end?
**
** 48 bytes: magic, boot id, u64 1 = closed cleanly, u64 position, checksum. Written without a sync:
** after a crash of the machine the boot id differs, and a crash of the process leaves the page
** cache as it was. The position was durable before the file said so; no other record would tell
** that the last segment has lost its end, or is gone. */
#include "state.h"

#include "hash.h"

#include <string.h>

enum {
    STATE_BOOT = 8,
    STATE_CLEAN = 24,
    STATE_POSITION = 32,
    STATE_CHECKSUM = 40,
    STATE_BYTES = 48,
};
static const uint8_t state_magic[8] = {'m', 'w', 's', 't', 'a', 't', 'e', '\n'};
static const char state_name[] = "state";

static mw_rc open_state(mw_store *store, int *file, mw_err *err)
{
    int sys = mw_env_open(store->env, store->dir, state_name, MW_OPEN_ENSURE, file);
    return sys ? mw_fail_sys(err, sys, "opening", state_name) : MW_OK;
}

static mw_rc boot(mw_store *store, uint8_t id[16], mw_err *err)
{
    int sys = mw_env_boot_id(store->env, id);
    return sys ? mw_fail_sys(err, sys, "reading", "the machine's boot id") : MW_OK;
}

/* The first bytes of it: what lies behind them was not written by us, and is written over by
** nobody. 0 bytes: there is none. */
static mw_rc read_state(mw_store *store, uint8_t bytes[STATE_BYTES], size_t *size, mw_err *err)
{
    const mw_env *env = store->env;
    int file;
    bool there;
    *size = 0;
    int sys = env->exists(env->ctx, store->dir, state_name, &there);
    if (sys) return mw_fail_sys(err, sys, "looking for", state_name);
    if (!there) return MW_OK;
    sys = mw_env_open(env, store->dir, state_name, MW_OPEN_READ, &file);
    if (sys) return mw_fail_sys(err, sys, "opening", state_name);
    mw_rc rc = mw_env_read_some(env, file, state_name, bytes, STATE_BYTES, 0, size, err);
    env->file_close(env->ctx, file);
    return rc;
}

/* *says: it was read and checks. It is never synced, so a power cut may leave none, a short one or
** room without content (zeros): those say nothing. Anything else that fails is damage. */
static mw_rc load_state(mw_store *store, uint8_t bytes[STATE_BYTES], bool *says, mw_err *err)
{
    static const uint8_t zeros[STATE_BYTES];
    size_t size;
    *says = false;
    mw_rc rc = read_state(store, bytes, &size, err);
    if (rc != MW_OK || size < STATE_BYTES || memcmp(bytes, zeros, sizeof zeros) == 0) return rc;
    uint64_t right = mw_hash(bytes, STATE_CHECKSUM, mw_hash_seed(&store->id, 0, 0));
    MW_CHECK_DISK(memcmp(bytes, state_magic, sizeof state_magic) == 0 &&
                      mw_get_u64(bytes + STATE_CHECKSUM) == right &&
                      mw_get_u64(bytes + STATE_CLEAN) <= 1,
                  err, state_name, 0, "its magic, its checksum or what it says is wrong");
    *says = true;
    return MW_OK;
}

mw_rc mw_state_read(mw_store *store, bool *clean, mw_err *err)
{
    *clean = false;
    uint8_t bytes[STATE_BYTES];
    uint8_t id[16];
    bool says;
    mw_err cause = {0};
    mw_rc rc = load_state(store, bytes, &says, &cause);
    store->state_damaged = rc == MW_CORRUPT; /* an unclean end, which no row depends on */
    if (store->state_damaged || (rc == MW_OK && !says)) return MW_OK;
    if (rc != MW_OK) return mw_fail_as(err, &cause);
    rc = boot(store, id, err);
    if (rc != MW_OK) return rc;
    *clean = memcmp(bytes + STATE_BOOT, id, sizeof id) == 0 && mw_get_u64(bytes + STATE_CLEAN) == 1;
    store->closed_at = mw_get_u64(bytes + STATE_POSITION);
    return MW_OK;
}

mw_rc mw_state_check(mw_store *store, mw_err *err)
{
    uint8_t bytes[STATE_BYTES];
    bool says;
    MW_CHECK_DISK(!store->state_damaged, err, state_name, 0,
                  "it was damaged when the store was opened, which counted as an unclean end: no row "
                  "depends on it");
    return load_state(store, bytes, &says, err);
}

mw_rc mw_state_write(mw_store *store, bool clean, mw_err *err)
{
    uint8_t bytes[STATE_BYTES] = {0};
    int file = -1;
    memcpy(bytes, state_magic, sizeof state_magic);
    mw_rc rc = boot(store, bytes + STATE_BOOT, err);
    if (rc != MW_OK) return rc;
    mw_store_lock(store);
    mw_put_u64(bytes + STATE_POSITION, store->visible.position);
    mw_store_unlock(store);
    mw_put_u64(bytes + STATE_CLEAN, clean);
    mw_put_u64(bytes + STATE_CHECKSUM,
               mw_hash(bytes, STATE_CHECKSUM, mw_hash_seed(&store->id, 0, 0)));
    rc = open_state(store, &file, err);
    if (rc != MW_OK) return rc;
    rc = mw_env_write(store->env, file, state_name, bytes, sizeof bytes, 0, err);
    store->env->file_close(store->env->ctx, file);
    /* Half of one would be taken for damage; none says that the end was unclean. */
    if (rc != MW_OK) store->env->unlink(store->env->ctx, store->dir, state_name);
    return rc;
}
