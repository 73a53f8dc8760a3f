/* buf.c: a growing byte buffer with a sticky failure.
**
** Capacity doubles, so that appending n bytes costs O(n). A failed growth changes nothing but
** `failed`, and every later put is passed over: what is in the buffer is always a prefix of what
** was put. */
#include "buf.h"

#include "coding.h"

#include <string.h>

enum { CAPACITY_MIN = 64 };

void mw_buf_init(mw_buf *buf, const mw_env *env)
{
    *buf = (mw_buf){.env = env};
}

void mw_buf_free(mw_buf *buf)
{
    if (buf->data) mw_free(buf->env, buf->data);
    *buf = (mw_buf){.env = buf->env};
}

void mw_buf_clear(mw_buf *buf)
{
    buf->size = 0;
    buf->failed = false;
}

static bool grow(mw_buf *buf, size_t more_bytes)
{
    if (more_bytes > SIZE_MAX - buf->size) return false;
    size_t needed = buf->size + more_bytes;
    size_t capacity = buf->capacity > SIZE_MAX / 2 ? SIZE_MAX : buf->capacity * 2;
    if (capacity < CAPACITY_MIN) capacity = CAPACITY_MIN;
    if (capacity < needed) capacity = needed;
    uint8_t *data = mw_resize(buf->env, buf->data, capacity);
    if (!data) return false;
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

bool mw_buf_reserve(mw_buf *buf, size_t more_bytes)
{
    if (buf->failed) return false;
    if (more_bytes <= buf->capacity - buf->size) return true;
    buf->failed = !grow(buf, more_bytes);
    return !buf->failed;
}

void mw_buf_put(mw_buf *buf, const void *data, size_t bytes)
{
    if (bytes == 0 || !mw_buf_reserve(buf, bytes)) return;
    memcpy(buf->data + buf->size, data, bytes);
    buf->size += bytes;
}

void mw_buf_put_slice(mw_buf *buf, mw_slice slice)
{
    mw_buf_put(buf, slice.data, slice.size);
}

void mw_buf_u8(mw_buf *buf, uint8_t value)
{
    mw_buf_put(buf, &value, 1);
}

void mw_buf_u16(mw_buf *buf, uint16_t value)
{
    uint8_t bytes[2];
    mw_put_u16(bytes, value);
    mw_buf_put(buf, bytes, sizeof bytes);
}

void mw_buf_u32(mw_buf *buf, uint32_t value)
{
    uint8_t bytes[4];
    mw_put_u32(bytes, value);
    mw_buf_put(buf, bytes, sizeof bytes);
}

void mw_buf_u64(mw_buf *buf, uint64_t value)
{
    uint8_t bytes[8];
    mw_put_u64(bytes, value);
    mw_buf_put(buf, bytes, sizeof bytes);
}

void mw_buf_varint(mw_buf *buf, uint64_t value)
{
    uint8_t bytes[MW_VARINT_BYTES];
    mw_buf_put(buf, bytes, mw_put_varint(bytes, value));
}

void mw_buf_bytes(mw_buf *buf, mw_slice slice)
{
    mw_buf_varint(buf, slice.size);
    mw_buf_put_slice(buf, slice);
}

mw_slice mw_buf_slice(const mw_buf *buf)
{
    return mw_slice_of(buf->data, buf->size);
}

mw_rc mw_buf_check(const mw_buf *buf, mw_err *err)
{
    if (!buf->failed) return MW_OK;
    return mw_fail(err, MW_NOMEM, "out of memory: a buffer of %zu bytes cannot grow", buf->size);
}
