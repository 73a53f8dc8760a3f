/* hash.c: XXH3-64, inlined so that no symbol of a host's xxhash can take its place. */
#include "hash.h"

#include "coding.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mw_hash(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t mw_hash_seed(const mw_store_id *store, uint64_t epoch, uint64_t number)
{
    uint8_t bytes[sizeof store->bytes + 16];
    memcpy(bytes, store->bytes, sizeof store->bytes);
    mw_put_u64(bytes + sizeof store->bytes, epoch);
    mw_put_u64(bytes + sizeof store->bytes + 8, number);
    return mw_hash(bytes, sizeof bytes, 0);
}

unsigned mw_hash_version(void)
{
    return XXH_versionNumber();
}
