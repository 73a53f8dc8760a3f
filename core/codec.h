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

/* What pages of one column have in common. Does not change once it
** is made: any number of threads may use it, each with a codec of its own. */
typedef struct mw_codec_dictionary mw_codec_dictionary;

/* raw: any bytes, borrowed until mw_codec_dictionary_destroy; what is in its end costs least. level:
** for compressing with it, or 0: for decompressing. NULL: no memory. */
mw_codec_dictionary *mw_codec_dictionary_create(const mw_env *env, mw_slice raw,
                                                int level) MW_MUST_USE;
void mw_codec_dictionary_destroy(mw_codec_dictionary *dictionary); /* takes NULL */
size_t mw_codec_dictionary_bytes(const mw_codec_dictionary *dictionary); /* memory, without raw */

/* As the two above, with a dictionary that was made for it. */
size_t mw_codec_compress_with(mw_codec *codec, const mw_codec_dictionary *dictionary,
                              mw_slice from, uint8_t *to, size_t room);
bool mw_codec_decompress_with(mw_codec *codec, const mw_codec_dictionary *dictionary,
                              mw_slice from, uint8_t *to, size_t bytes);

const char *mw_codec_version(void); /* "1.5.4" */

#endif
