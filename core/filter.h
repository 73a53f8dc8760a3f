/* filter.h: tells for sure that an id is not in a table file, for about 10 bits an id.
**
** A blocked Bloom filter: all bits of an id lie in one block of 64 bytes, so a question costs one
** cache line. F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and Space-Efficient Bloom Filters",
** WEA 2007; one bit in each of the block's 8 words, chosen by multiplication with odd constants,
** as in the split block filter of Apache Parquet. About 1 % of absent ids pass. */
#ifndef MW_FILTER_H
#define MW_FILTER_H

#include "coding.h"
#include "format.h"

extern const uint32_t mw_filter_salts[8];

/* Size of the filter for so many ids: whole blocks; 0 for none. Requires ids < 2^48. */
uint64_t mw_filter_bytes(uint64_t ids);

/* Sets an id's bits. hash: of the id's bytes. bytes: of the filter, not 0. */
void mw_filter_add(uint8_t *filter, uint64_t bytes, uint64_t hash);

/* False: the id was never added. */
static inline bool mw_filter_may_hold(const uint8_t *filter, uint64_t bytes, uint64_t hash)
{
    uint64_t blocks = bytes / MW_FILTER_BLOCK_BYTES;
    if (blocks == 0) return false;
    const uint8_t *block = filter + ((hash >> 32) * blocks >> 32) * MW_FILTER_BLOCK_BYTES;
    uint64_t missing = 0;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t bit = ((uint32_t)hash * mw_filter_salts[i]) >> 26;
        missing |= ~(mw_get_u64(block + (size_t)i * 8) >> bit) & 1;
    }
    return missing == 0;
}

#endif
