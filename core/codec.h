/* codec.h: compression. codec.c is the only file that sees zstd. */
#ifndef MW_CODEC_H
#define MW_CODEC_H

#include "env.h"

/* Working memory for compressing and decompressing; one per thread at a time. */
typedef struct mw_codec mw_codec;

mw_codec *mw_codec_create(const mw_env *env) MW_MUST_USE; /* NULL when there is no memory */
void mw_codec_destroy(mw_codec *codec);

/* Most bytes that compressing `bytes` can give. */
size_t mw_codec_bound(size_t bytes);

/* Compresses into to[0..room). Returns the compressed size, or 0 when it does not fit in room or
** does not save at least an eighth. level: a zstd level from 1 to 19. */
size_t mw_codec_compress(mw_codec *codec, mw_slice from, uint8_t *to, size_t room, int level);

/* Decompresses to exactly bytes. False when the data is not a frame of that very size. */
bool mw_codec_decompress(mw_codec *codec, mw_slice from, uint8_t *to, size_t bytes);

const char *mw_codec_version(void); /* "1.5.4" */

#endif
