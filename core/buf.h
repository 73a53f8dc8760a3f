/* buf.h: a growing byte buffer with a sticky failure: encode twenty fields, ask once. */
#ifndef MW_BUF_H
#define MW_BUF_H

#include "env.h"

typedef struct mw_buf {
    const mw_env *env;
    uint8_t *data;
    size_t size;
    size_t capacity;
    bool failed; /* an allocation failed; data up to size is still what was put in before */
} mw_buf;

void mw_buf_init(mw_buf *buf, const mw_env *env);
void mw_buf_free(mw_buf *buf);  /* also fine on a zeroed or freed one */
void mw_buf_clear(mw_buf *buf); /* keeps the memory, forgets content and failure */
bool mw_buf_reserve(mw_buf *buf, size_t more_bytes);
void mw_buf_put(mw_buf *buf, const void *data, size_t bytes);
void mw_buf_put_slice(mw_buf *buf, mw_slice slice);
void mw_buf_u8(mw_buf *buf, uint8_t value);
void mw_buf_u16(mw_buf *buf, uint16_t value); /* fixed widths: little-endian */
void mw_buf_u32(mw_buf *buf, uint32_t value);
void mw_buf_u64(mw_buf *buf, uint64_t value);
void mw_buf_varint(mw_buf *buf, uint64_t value); /* coding.h */
void mw_buf_bytes(mw_buf *buf, mw_slice slice);  /* varint length, then the bytes */
mw_slice mw_buf_slice(const mw_buf *buf);        /* borrowed until the next put */
/* Says nomem when a put failed. */
mw_rc mw_buf_check(const mw_buf *buf, mw_err *err) MW_MUST_USE;

#endif
