/* prefix.h: the first 8 bytes of a key as a number: decides most comparisons at once. */
#ifndef MW_PREFIX_H
#define MW_PREFIX_H

#include <string.h>

#include "base.h"

enum { MW_PREFIX_BYTES = 8 };

/* Big-endian, padded with zeros: a lower prefix means a lower key, equal ones decide nothing. */
static inline uint64_t mw_prefix(mw_slice key)
{
    const uint8_t *p = key.data;
    uint64_t prefix = 0;
    if (key.size >= MW_PREFIX_BYTES) {
        return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
               (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
               (uint64_t)p[6] << 8 | (uint64_t)p[7];
    }
    for (size_t i = 0; i < key.size; i++) prefix |= (uint64_t)p[i] << (56 - 8 * i);
    return prefix;
}

/* Order of two keys whose prefixes are equal. Returns < 0, 0, > 0. */
static inline int mw_prefix_tie(mw_slice a, mw_slice b)
{
    size_t shared = a.size < b.size ? a.size : b.size;
    if (shared > MW_PREFIX_BYTES) {
        int order = memcmp(a.data + MW_PREFIX_BYTES, b.data + MW_PREFIX_BYTES,
                           shared - MW_PREFIX_BYTES);
        if (order) return order;
    }
    return a.size < b.size ? -1 : a.size > b.size;
}

#endif
