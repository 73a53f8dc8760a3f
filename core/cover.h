/* cover.h: picks from a sample what occurs most often: the content of a compression dictionary. */
#ifndef MW_COVER_H
#define MW_COVER_H

#include "env.h"

/* Fills to[0..room) with pieces of the sample that between them cover its most frequent strings, the
** best ones last, where a match costs least. Returns how many bytes it filled; they are moved to the
** start of `to`. 0: nothing repeats, the sample has less than twice `room` bytes, or there is no
** memory. The same sample gives the same bytes. Requires a sample of less than 4 GB. */
size_t mw_cover_select(const mw_env *env, mw_slice sample, uint8_t *to, size_t room);

#endif
