/* presence.c: a growing filter of the ids in a memtable.
**
**     hash of the id:  [ which word | bit | bit | bit ]
**
** Bits are set before the row is linked into the memtable and published, and words are filled
** before they are published (release); a reader that may see the row has synchronized with its
** publication, so it sees the bits. What is removed again keeps its bits: a reader then searches
** for nothing. */
#include "presence.h"

#include "hash.h"

#include <string.h>

enum {
    FIRST_IDS = 1024, /* small memtables are searched as quickly as this is asked */
    IDS_PER_WORD = 4,
};

struct mw_presence_words {
    uint64_t count;
    _Atomic uint64_t word[];
};

static _Atomic uint64_t *word_of(mw_presence_words *words, uint64_t hash)
{
    return &words->word[(hash >> 32) * words->count >> 32];
}

static uint64_t bits_of(uint64_t hash)
{
    return 1ULL << (hash & 63) | 1ULL << (hash >> 6 & 63) | 1ULL << (hash >> 12 & 63);
}

void mw_presence_init(mw_presence *presence)
{
    atomic_init(&presence->words, NULL);
    presence->added = 0;
}

bool mw_presence_due(const mw_presence *presence)
{
    const mw_presence_words *words = atomic_load_explicit(&presence->words, memory_order_relaxed);
    return presence->added >= (words ? words->count * IDS_PER_WORD : FIRST_IDS);
}

mw_presence_words *mw_presence_grow(const mw_presence *presence, mw_arena *arena)
{
    uint64_t count = presence->added;
    size_t bytes = sizeof(mw_presence_words) + count * sizeof(uint64_t);
    mw_presence_words *words = mw_arena_alloc(arena, bytes);
    if (!words) return NULL;
    memset(words, 0, bytes);
    words->count = count;
    return words;
}

void mw_presence_publish(mw_presence *presence, mw_presence_words *words)
{
    atomic_store_explicit(&presence->words, words, memory_order_release);
}

void mw_presence_words_add(mw_presence_words *words, mw_slice key)
{
    uint64_t hash = mw_hash(key.data, key.size, 0);
    _Atomic uint64_t *word = word_of(words, hash);
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, old | bits_of(hash), memory_order_relaxed);
}

void mw_presence_add(mw_presence *presence, mw_slice key)
{
    mw_presence_words *words = atomic_load_explicit(&presence->words, memory_order_relaxed);
    if (words) mw_presence_words_add(words, key);
    presence->added++;
}

bool mw_presence_may_hold(const mw_presence *presence, mw_slice key)
{
    mw_presence_words *words = atomic_load_explicit(&presence->words, memory_order_acquire);
    if (!words) return true;
    uint64_t hash = mw_hash(key.data, key.size, 0);
    uint64_t bits = bits_of(hash);
    return (atomic_load_explicit(word_of(words, hash), memory_order_relaxed) & bits) == bits;
}
