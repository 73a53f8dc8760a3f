/* env.c: what the engine calls of the world: short transfers finished, failures put into words.
**
** mw_env_publish: content goes into a file "tmp-<name>-<random>", is synced, and only then gets its
** name by link(2), which refuses a name that is taken. So whoever sees the name sees the whole
** content, and of two who want the same name one wins. One directory sync, after the temporary name
** is gone again, makes both changes durable.
**
** A crash before the link leaves at most a "tmp-" file; between link and sync the name is there or
** not, but never with other content. A failed directory sync leaves the outcome open in the same
** way: the caller gets the error, and must look again before relying on either. rename(2) would
** replace what another process has just made; open(O_EXCL) under the final name would show half a
** file. */
#include "env.h"

#include "coding.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    TMP_TRIES = 4,       /* taken names in a row that 64 random bits do not explain */
};

void *mw_alloc(const mw_env *env, size_t bytes)
{
    return env->alloc(env->ctx, bytes ? bytes : 1);
}

void *mw_alloc_zero(const mw_env *env, size_t bytes)
{
    void *memory = mw_alloc(env, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

void *mw_resize(const mw_env *env, void *old, size_t bytes)
{
    return env->resize(env->ctx, old, bytes ? bytes : 1);
}

void mw_free(const mw_env *env, void *old)
{
    env->release(env->ctx, old);
}

mw_rc mw_env_read_some(const mw_env *env, int file, const char *name, void *to, size_t bytes,
                       uint64_t offset, size_t *got, mw_err *err)
{
    *got = 0;
    while (*got < bytes) {
        size_t part = 0;
        int sys = env->file_read(env->ctx, file, (uint8_t *)to + *got, bytes - *got,
                                 offset + *got, &part);
        if (sys == EINTR) continue;
        if (sys) return mw_fail_sys(err, sys, "read", name);
        if (part == 0) break;
        *got += part;
    }
    return MW_OK;
}

mw_rc mw_env_read(const mw_env *env, int file, const char *name, void *to, size_t bytes,
                  uint64_t offset, mw_err *err)
{
    size_t got = 0;
    mw_rc rc = mw_env_read_some(env, file, name, to, bytes, offset, &got, err);
    if (rc != MW_OK) return rc;
    MW_CHECK_DISK(got == bytes, err, name, offset, "expected %zu bytes, the file ends after %zu",
                  bytes, got);
    return MW_OK;
}

mw_rc mw_env_write(const mw_env *env, int file, const char *name, const void *from, size_t bytes,
                   uint64_t offset, mw_err *err)
{
    size_t done = 0;
    while (done < bytes) {
        size_t part = 0;
        int sys = env->file_write(env->ctx, file, (const uint8_t *)from + done, bytes - done,
                                  offset + done, &part);
        if (sys == EINTR) continue;
        if (sys == 0 && part == 0) sys = EIO; /* no progress and no reason: would loop for ever */
        if (sys) return mw_fail_sys(err, sys, "write", name);
        done += part;
    }
    return MW_OK;
}

static int open_patiently(const mw_env *env, int dir, const char *name, mw_open how, int *file)
{
    int sys;
    do sys = env->file_open(env->ctx, dir, name, how, file);
    while (sys == EINTR);
    return sys;
}

/* After a call that has answered sys: is it worth being made once more? */
static bool spared(const mw_env *env, int sys)
{
    if ((sys != EMFILE && sys != ENFILE) || !env->spare_files) return false;
    env->spare_files(env->spare_arg);
    return true;
}

int mw_env_open(const mw_env *env, int dir, const char *name, mw_open how, int *file)
{
    int sys = open_patiently(env, dir, name, how, file);
    return spared(env, sys) ? open_patiently(env, dir, name, how, file) : sys;
}

int mw_env_list(const mw_env *env, int dir, int (*each)(void *arg, const char *name), void *arg)
{
    int sys = env->dir_list(env->ctx, dir, each, arg); /* out of descriptors: no name was given */
    return spared(env, sys) ? env->dir_list(env->ctx, dir, each, arg) : sys;
}

int mw_env_boot_id(const mw_env *env, uint8_t id[16])
{
    int sys = env->boot_id(env->ctx, id); /* which is read from a file */
    return spared(env, sys) ? env->boot_id(env->ctx, id) : sys;
}

int mw_env_allocate(const mw_env *env, int file, uint64_t offset, uint64_t bytes)
{
    int sys;
    do sys = env->file_allocate(env->ctx, file, offset, bytes);
    while (sys == EINTR);
    return sys;
}

/* Creates a file under a fresh temporary name. MW_EXISTS never comes out of here: a caller would
** take it for the answer about the final name. */
static mw_rc create_tmp(const mw_env *env, int dir, const char *target,
                        char name[MW_ENV_NAME_BYTES], int *file, mw_err *err)
{
    for (int i = 0; i < TMP_TRIES; i++) {
        uint64_t number = 0;
        int sys = env->random(env->ctx, &number, sizeof number);
        if (sys) return mw_fail_sys(err, sys, "random", "temporary name");
        snprintf(name, MW_ENV_NAME_BYTES, "tmp-%s-%016llx", target, (unsigned long long)number);
        sys = mw_env_open(env, dir, name, MW_OPEN_CREATE, file);
        if (sys == 0) return MW_OK;
        if (sys != EEXIST) return mw_fail_sys(err, sys, "create", name);
    }
    return mw_fail(err, MW_IO, "create of %s failed: random names are taken", name);
}

/* Fills, syncs and closes the temporary file; closes it in any case. */
static mw_rc fill_tmp(const mw_env *env, int file, const char *name, mw_slice content, mw_err *err)
{
    mw_rc rc = mw_env_write(env, file, name, content.data, content.size, 0, err);
    if (rc == MW_OK) {
        /* Never a second try, not even for EINTR: a later success says nothing of the earlier
        ** writes. */
        int sys = env->file_sync(env->ctx, file);
        if (sys) rc = mw_fail_sys(err, sys, "sync", name);
    }
    int sys = env->file_close(env->ctx, file);
    /* An interrupted close has closed; the content was synced before. */
    if (sys && sys != EINTR && rc == MW_OK) rc = mw_fail_sys(err, sys, "close", name);
    return rc;
}

mw_rc mw_env_publish(const mw_env *env, int dir, const char *name, mw_slice content, mw_err *err)
{
    char tmp[MW_ENV_NAME_BYTES];
    int file = -1;
    assert(strlen(name) + sizeof "tmp--" + MW_HEX_DIGITS <= sizeof tmp);
    mw_rc rc = create_tmp(env, dir, name, tmp, &file, err);
    if (rc != MW_OK) return rc;
    rc = fill_tmp(env, file, tmp, content, err);
    if (rc == MW_OK) {
        int sys;
        do sys = env->link(env->ctx, dir, tmp, name);
        while (sys == EINTR);
        if (sys == EEXIST) rc = MW_EXISTS;
        else if (sys) rc = mw_fail_sys(err, sys, "link", name);
    }
    /* A temporary file that stays is a leftover like that of a crash: removed by the next owner. */
    int left;
    do left = env->unlink(env->ctx, dir, tmp);
    while (left == EINTR);
    if (rc != MW_OK) return rc;
    int sys = env->dir_sync(env->ctx, dir);
    return sys ? mw_fail_sys(err, sys, "directory sync", name) : MW_OK;
}

bool mw_env_parse_tmp(const char *name, char target[MW_ENV_NAME_BYTES])
{
    size_t size = strlen(name);
    size_t around = sizeof "tmp--" - 1 + MW_HEX_DIGITS;
    uint64_t number;
    if (size <= around || size >= MW_ENV_NAME_BYTES || memcmp(name, "tmp-", 4) != 0) return false;
    const char *digits = name + size - MW_HEX_DIGITS;
    if (digits[-1] != '-' || !mw_get_hex(digits, &number)) return false;
    memcpy(target, name + 4, size - around);
    target[size - around] = 0;
    return true;
}

mw_rc mw_env_read_file(const mw_env *env, int dir, const char *name, uint64_t limit_bytes,
                       uint8_t **content, size_t *bytes, mw_err *err)
{
    mw_rc rc = MW_OK;
    uint8_t *memory = NULL;
    uint64_t size = 0;
    int file = -1;
    *content = NULL;
    *bytes = 0;
    int sys = mw_env_open(env, dir, name, MW_OPEN_READ, &file);
    if (sys) return mw_fail_sys(err, sys, "open", name);

    sys = env->file_size(env->ctx, file, &size);
    if (sys) {
        rc = mw_fail_sys(err, sys, "size", name);
        goto done;
    }
    if (size > limit_bytes || size > SIZE_MAX) {
        rc = mw_fail_disk(err, name, 0, "expected at most %llu bytes, found %llu",
                          (unsigned long long)limit_bytes, (unsigned long long)size);
        goto done;
    }
    memory = mw_alloc(env, (size_t)size);
    if (!memory) {
        rc = mw_fail_sys(err, ENOMEM, "read", name);
        goto done;
    }
    rc = mw_env_read(env, file, name, memory, (size_t)size, 0, err);
    if (rc != MW_OK) goto done;
    *content = memory;
    *bytes = (size_t)size;
    memory = NULL;
done:
    mw_free(env, memory);
    env->file_close(env->ctx, file); /* nothing was written: there is nothing that it could lose */
    return rc;
}
