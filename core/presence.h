/* presence.h: tells for sure that an id is not in a memtable, without searching it.
**
** A Bloom filter that grows with what it holds: one word of 64 bits an id at first, one for every
** four before it is made anew. All bits of an id lie in one word (a blocked Bloom filter as in
** filter.h, with blocks of a word), so a question costs one cache line; less than 1 % of absent ids
** pass.
**
** One thread at a time may add; any number may ask at the same moment without a lock. An id that
** was added before its row was made visible to a reader is never denied to that reader. */
#ifndef MW_PRESENCE_H
#define MW_PRESENCE_H

#include "arena.h"

typedef struct mw_presence_words mw_presence_words;

typedef struct mw_presence {
    _Atomic(mw_presence_words *) words; /* NULL: everything may be there */
    uint64_t added;
} mw_presence;

void mw_presence_init(mw_presence *presence);

/* Is it time to make the words anew for what is there already? The owner then calls
** mw_presence_grow and adds all ids again, the newest one included; until mw_presence_publish
** readers ask the old words. */
bool mw_presence_due(const mw_presence *presence);
/* NULL: no memory; the old words go on serving. Memory is the arena's, the old words stay
** readable. */
mw_presence_words *mw_presence_grow(const mw_presence *presence, mw_arena *arena) MW_MUST_USE;
void mw_presence_publish(mw_presence *presence, mw_presence_words *words);

void mw_presence_words_add(mw_presence_words *words, mw_slice key);
void mw_presence_add(mw_presence *presence, mw_slice key);
bool mw_presence_may_hold(const mw_presence *presence, mw_slice key);

#endif
