/* cover.c: picks what occurs most often in a sample.
**
** Count how often each string of 6 bytes occurs. Cut the sample into as many parts as pieces are
** wanted, and take from each part the window of 200 bytes whose different strings occur most often
** together; what a piece covers counts for nothing from then on. Parts keep the pieces spread over
** the whole sample, so that one that repeats itself does not fill the dictionary. (After K. Liao,
** M. Petri, A. Moffat, A. Wirth, "Effective Construction of Relative Lempel-Ziv Dictionaries", 2016.)
**
** Counts are kept under a hash, so different strings may share one: a rare piece is taken for a
** better one than it is, and nothing worse happens.
**
** zstd has a trainer of its own. Debian's libzstd.a cannot give it to a shared library (it is not
** position-independent), and what it puts in front, tables of symbol frequencies, was worth 0.5 %. */
#include "cover.h"

#include <string.h>

enum {
    STRING_BYTES = 6,
    READ_BYTES = 8,     /* a string is read with what follows it */
    PIECE_BYTES = 200,
    TABLE_BITS = 18,
    IDLE_PARTS = 16,    /* parts without anything left, one behind the other: it is over */
};

typedef struct counts {
    uint32_t often[1 << TABLE_BITS];  /* how often a string occurs that no piece covers */
    uint16_t inside[1 << TABLE_BITS]; /* how often in the window at hand                */
} counts;

typedef struct piece {
    size_t begin;
    uint64_t score; /* 0: there is none */
} piece;

static uint32_t hash_at(const uint8_t *p)
{
    uint64_t string = 0;
    for (int i = 0; i < STRING_BYTES; i++) string |= (uint64_t)p[i] << (16 + 8 * i);
    return (uint32_t)((string * 0x9e3779b97f4a7c15u) >> (64 - TABLE_BITS));
}

/* The best window of a part. `inside` is all zeros before and after. */
static piece best_piece(counts *c, mw_slice part)
{
    const size_t strings = PIECE_BYTES - STRING_BYTES + 1;
    size_t first = 0, i;
    uint64_t score = 0;
    piece best = {0, 0};
    for (i = 0; i + READ_BYTES <= part.size; i++) {
        uint32_t in = hash_at(part.data + i);
        if (c->inside[in]++ == 0) score += c->often[in];
        if (i - first == strings) {
            uint32_t out = hash_at(part.data + first++);
            if (--c->inside[out] == 0) score -= c->often[out];
        }
        if (score > best.score) best = (piece){first, score};
    }
    for (; first < i; first++) c->inside[hash_at(part.data + first)] = 0;
    return best;
}

/* Takes the piece into the room that ends at `end`; returns where it begins. */
static uint8_t *take_piece(counts *c, mw_slice part, size_t begin, uint8_t *start, uint8_t *end)
{
    size_t size = PIECE_BYTES;
    if (size > part.size - begin) size = part.size - begin;
    for (size_t i = begin; i + STRING_BYTES <= begin + size && i + READ_BYTES <= part.size; i++) {
        c->often[hash_at(part.data + i)] = 0;
    }
    if (size > (size_t)(end - start)) size = (size_t)(end - start);
    memcpy(end - size, part.data + begin, size);
    return end - size;
}

static size_t select_pieces(counts *c, mw_slice sample, uint8_t *to, size_t room)
{
    size_t parts = room / PIECE_BYTES + 1, part_bytes = sample.size / parts;
    uint8_t *begin = to + room;
    for (size_t i = 0; i + READ_BYTES <= sample.size; i++) c->often[hash_at(sample.data + i)]++;
    for (size_t i = 0; i + READ_BYTES <= sample.size; i++) {
        uint32_t *often = &c->often[hash_at(sample.data + i)];
        if (*often == 1) *often = 0; /* it never comes again */
    }
    for (size_t part = 0, idle = 0; begin > to && idle < IDLE_PARTS; part = (part + 1) % parts) {
        mw_slice of = mw_slice_of(sample.data + part * part_bytes, part_bytes);
        piece best = best_piece(c, of);
        idle = best.score ? 0 : idle + 1;
        if (best.score) begin = take_piece(c, of, best.begin, to, begin);
    }
    size_t size = (size_t)(to + room - begin);
    memmove(to, begin, size);
    return size;
}

size_t mw_cover_select(const mw_env *env, mw_slice sample, uint8_t *to, size_t room)
{
    assert(sample.size < UINT32_MAX);
    if (room == 0 || sample.size / 2 < room || sample.size / 2 < PIECE_BYTES) return 0;
    counts *c = mw_alloc_zero(env, sizeof *c);
    if (!c) return 0;
    size_t size = select_pieces(c, sample, to, room);
    mw_free(env, c);
    return size;
}
