/* base.h: the few words that every file of the engine uses. */
#ifndef MW_BASE_H
#define MW_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MW_MUST_USE            __attribute__((warn_unused_result))
#define MW_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Bytes that somebody else owns. Empty slices may have data == NULL. */
typedef struct mw_slice {
    const uint8_t *data;
    size_t size;
} mw_slice;

/* Names a store for ever: random, made at its creation, part of every checksum's seed. */
typedef struct mw_store_id {
    uint8_t bytes[16];
} mw_store_id;

mw_slice mw_slice_of(const void *data, size_t size);
bool mw_slice_equal(mw_slice a, mw_slice b);

/* Order of keys everywhere in the engine: unsigned bytes, a prefix before its extensions.
** Returns < 0, 0, > 0. */
int mw_slice_compare(mw_slice a, mw_slice b);

static inline uint64_t mw_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t mw_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
