/* hash.h: XXH3-64. hash.c is the only file that sees xxhash. */
#ifndef MW_HASH_H
#define MW_HASH_H

#include "base.h"

/* 64-bit checksum of the bytes under a seed. */
uint64_t mw_hash(const void *data, size_t bytes, uint64_t seed);
/* Seed for everything that lies in one file: binds its bytes to store, epoch and number. */
uint64_t mw_hash_seed(const mw_store_id *store, uint64_t epoch, uint64_t number);
unsigned mw_hash_version(void); /* XXH_versionNumber() */

#endif
