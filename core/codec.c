/* codec.c: zstd frames of known size, in memory of the environment.
**
** Linked statically: hosts such as Node export a zstd of their own. Custom memory needs zstd's
** "static only" interface, which is safe exactly because of that.
**
** A compression that runs out of memory is a page that does not compress: it is stored as it is. */
#include "codec.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

struct mw_codec {
    const mw_env *env;
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
};

static void *zstd_alloc(void *opaque, size_t bytes)
{
    return mw_alloc(opaque, bytes);
}

static void zstd_free(void *opaque, void *memory)
{
    mw_free(opaque, memory);
}

mw_codec *mw_codec_create(const mw_env *env)
{
    ZSTD_customMem memory = {zstd_alloc, zstd_free, (void *)(uintptr_t)env};
    mw_codec *codec = mw_alloc_zero(env, sizeof *codec);
    if (!codec) return NULL;
    codec->env = env;
    codec->compressor = ZSTD_createCCtx_advanced(memory);
    codec->decompressor = ZSTD_createDCtx_advanced(memory);
    if (codec->compressor && codec->decompressor) return codec;
    mw_codec_destroy(codec);
    return NULL;
}

void mw_codec_destroy(mw_codec *codec)
{
    if (!codec) return;
    ZSTD_freeCCtx(codec->compressor);
    ZSTD_freeDCtx(codec->decompressor);
    mw_free(codec->env, codec);
}

size_t mw_codec_bound(size_t bytes)
{
    return ZSTD_compressBound(bytes);
}

size_t mw_codec_compress(mw_codec *codec, mw_slice from, uint8_t *to, size_t room, int level)
{
    size_t size = ZSTD_compressCCtx(codec->compressor, to, room, from.data, from.size, level);
    if (ZSTD_isError(size) || size > from.size - from.size / 8) return 0;
    return size;
}

bool mw_codec_decompress(mw_codec *codec, mw_slice from, uint8_t *to, size_t bytes)
{
    /* Both sizes first: a second frame behind the first, or a frame that does not tell its size, is
    ** none of ours. */
    if (ZSTD_getFrameContentSize(from.data, from.size) != bytes) return false;
    if (ZSTD_findFrameCompressedSize(from.data, from.size) != from.size) return false;
    size_t size = ZSTD_decompressDCtx(codec->decompressor, to, bytes, from.data, from.size);
    return !ZSTD_isError(size) && size == bytes;
}

const char *mw_codec_version(void)
{
    return ZSTD_versionString();
}
