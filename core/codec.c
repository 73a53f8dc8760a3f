/* codec.c: zstd frames of known size, in memory of the environment.
**
** Linked statically: hosts such as Node export a zstd of their own. Custom memory needs zstd's
** "static only" interface, which is safe exactly because of that.
**
** A compression that runs out of memory is a page that does not compress: it is stored as it is.
**
** A frame says nothing of its dictionary: whoever holds the page knows which column it is of, and
** the checksums bind both to one file. */
#include "codec.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

enum { PAGE_BYTES_ABOUT = 8192 }; /* of what has a dictionary: for zstd's parameters */

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

/* A size, or 0 when it is an error or saves less than an eighth. */
static size_t worth(size_t size, mw_slice from)
{
    return ZSTD_isError(size) || size > from.size - from.size / 8 ? 0 : size;
}

size_t mw_codec_compress(mw_codec *codec, mw_slice from, uint8_t *to, size_t room, int level)
{
    ZSTD_CCtx *compressor = codec->compressor;
    return worth(ZSTD_compressCCtx(compressor, to, room, from.data, from.size, level), from);
}

/* Both sizes first: a second frame behind the first, or a frame that does not tell its size, is
** none of ours. */
static bool is_one_frame(mw_slice from, size_t bytes)
{
    return ZSTD_getFrameContentSize(from.data, from.size) == bytes &&
           ZSTD_findFrameCompressedSize(from.data, from.size) == from.size;
}

bool mw_codec_decompress(mw_codec *codec, mw_slice from, uint8_t *to, size_t bytes)
{
    if (!is_one_frame(from, bytes)) return false;
    size_t size = ZSTD_decompressDCtx(codec->decompressor, to, bytes, from.data, from.size);
    return !ZSTD_isError(size) && size == bytes;
}

/* ---- dictionaries -------------------------------------------------------------------------- */

struct mw_codec_dictionary {
    const mw_env *env;
    void *memory; /* of compressing */
    size_t memory_bytes;
    const ZSTD_CDict *compressing;
    ZSTD_DDict *decompressing;
};

/* In memory that is asked for here: zstd 1.5.4 does not look whether its own allocation failed. */
static void make_compressing(mw_codec_dictionary *made, mw_slice raw, int level)
{
    ZSTD_compressionParameters how = ZSTD_getCParams(level, PAGE_BYTES_ABOUT, raw.size);
    made->memory_bytes = ZSTD_estimateCDictSize_advanced(raw.size, how, ZSTD_dlm_byRef);
    made->memory = mw_alloc(made->env, made->memory_bytes);
    if (!made->memory) return;
    made->compressing = ZSTD_initStaticCDict(made->memory, made->memory_bytes, raw.data, raw.size,
                                             ZSTD_dlm_byRef, ZSTD_dct_rawContent, how);
}

mw_codec_dictionary *mw_codec_dictionary_create(const mw_env *env, mw_slice raw, int level)
{
    ZSTD_customMem memory = {zstd_alloc, zstd_free, (void *)(uintptr_t)env};
    mw_codec_dictionary *made = mw_alloc_zero(env, sizeof *made);
    if (!made) return NULL;
    made->env = env;
    if (level > 0) {
        make_compressing(made, raw, level);
    } else {
        made->decompressing = ZSTD_createDDict_advanced(raw.data, raw.size, ZSTD_dlm_byRef,
                                                        ZSTD_dct_rawContent, memory);
    }
    if (made->compressing || made->decompressing) return made;
    mw_codec_dictionary_destroy(made);
    return NULL;
}

void mw_codec_dictionary_destroy(mw_codec_dictionary *dictionary)
{
    if (!dictionary) return;
    ZSTD_freeDDict(dictionary->decompressing);
    mw_free(dictionary->env, dictionary->memory);
    mw_free(dictionary->env, dictionary);
}

size_t mw_codec_dictionary_bytes(const mw_codec_dictionary *dictionary)
{
    return sizeof *dictionary + dictionary->memory_bytes +
           ZSTD_sizeof_DDict(dictionary->decompressing);
}

size_t mw_codec_compress_with(mw_codec *codec, const mw_codec_dictionary *dictionary,
                              mw_slice from, uint8_t *to, size_t room)
{
    ZSTD_CCtx *compressor = codec->compressor;
    if (ZSTD_isError(ZSTD_CCtx_refCDict(compressor, dictionary->compressing))) return 0;
    size_t size = ZSTD_compress2(compressor, to, room, from.data, from.size);
    /* What did not fit is not to be gone on with, and the dictionary may be gone before the codec. */
    (void)ZSTD_CCtx_reset(compressor, ZSTD_reset_session_and_parameters);
    return worth(size, from);
}

bool mw_codec_decompress_with(mw_codec *codec, const mw_codec_dictionary *dictionary,
                              mw_slice from, uint8_t *to, size_t bytes)
{
    if (!is_one_frame(from, bytes)) return false;
    size_t size = ZSTD_decompress_usingDDict(codec->decompressor, to, bytes, from.data, from.size,
                                             dictionary->decompressing);
    return !ZSTD_isError(size) && size == bytes;
}

const char *mw_codec_version(void)
{
    return ZSTD_versionString();
}
