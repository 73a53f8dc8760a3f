/* filter.c: the blocked Bloom filter of table files.
**
** block = high half of the hash, scaled to the number of blocks; in word i of the block's eight the
** bit (low half * salt i) >> 26. Words are little-endian on disk and in memory alike. */
#include "filter.h"

const uint32_t mw_filter_salts[8] = {
    0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
    0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u,
};

uint64_t mw_filter_bytes(uint64_t ids)
{
    const uint64_t block_bits = MW_FILTER_BLOCK_BYTES * 8;
    assert(ids < (uint64_t)1 << 48);
    return (ids * MW_FILTER_BITS_PER_ID + block_bits - 1) / block_bits * MW_FILTER_BLOCK_BYTES;
}

void mw_filter_add(uint8_t *filter, uint64_t bytes, uint64_t hash)
{
    uint64_t blocks = bytes / MW_FILTER_BLOCK_BYTES;
    assert(blocks > 0);
    uint8_t *block = filter + ((hash >> 32) * blocks >> 32) * MW_FILTER_BLOCK_BYTES;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t bit = ((uint32_t)hash * mw_filter_salts[i]) >> 26;
        block[i * 8 + bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}
