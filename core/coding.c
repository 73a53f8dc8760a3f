/* coding.c: numbers and keys as bytes.
**
** The scanner never reads behind its end and never trusts a length: what does not fit fails it,
** sets it to the end, and yields zeros from then on, so loops over it end as well. */
#include "coding.h"

void mw_put_u16(uint8_t *p, uint16_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

void mw_put_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * i));
}

void mw_put_u64(uint8_t *p, uint64_t value)
{
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> (8 * i));
}

size_t mw_put_varint(uint8_t *p, uint64_t value)
{
    size_t n = 0;
    while (value >= 0x80) {
        p[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    p[n++] = (uint8_t)value;
    return n;
}

mw_scan mw_scan_of(mw_slice slice)
{
    static const uint8_t nothing;
    const uint8_t *start = slice.data ? slice.data : &nothing;
    return (mw_scan){.at = start, .end = start + slice.size};
}

size_t mw_scan_left(const mw_scan *scan)
{
    return (size_t)(scan->end - scan->at);
}

static void fail(mw_scan *scan)
{
    scan->failed = true;
    scan->at = scan->end;
}

/* The next bytes, or NULL when there are not as many. */
static const uint8_t *advance(mw_scan *scan, uint64_t bytes)
{
    if (bytes > mw_scan_left(scan)) {
        fail(scan);
        return NULL;
    }
    const uint8_t *at = scan->at;
    scan->at += bytes;
    return at;
}

uint8_t mw_scan_u8(mw_scan *scan)
{
    const uint8_t *p = advance(scan, 1);
    return p ? *p : 0;
}

uint16_t mw_scan_u16(mw_scan *scan)
{
    const uint8_t *p = advance(scan, 2);
    return p ? mw_get_u16(p) : 0;
}

uint32_t mw_scan_u32(mw_scan *scan)
{
    const uint8_t *p = advance(scan, 4);
    return p ? mw_get_u32(p) : 0;
}

uint64_t mw_scan_u64(mw_scan *scan)
{
    const uint8_t *p = advance(scan, 8);
    return p ? mw_get_u64(p) : 0;
}

uint64_t mw_scan_varint(mw_scan *scan)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * MW_VARINT_BYTES && scan->at < scan->end; shift += 7) {
        uint8_t byte = *scan->at++;
        if (shift == 63 && byte > 1) break; /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    fail(scan);
    return 0;
}

mw_slice mw_scan_take(mw_scan *scan, uint64_t bytes)
{
    const uint8_t *p = advance(scan, bytes);
    return mw_slice_of(p, p ? (size_t)bytes : 0);
}

mw_slice mw_scan_bytes(mw_scan *scan)
{
    uint64_t bytes = mw_scan_varint(scan);
    return mw_scan_take(scan, bytes);
}

void mw_key_put_integer(uint8_t to[MW_INTEGER_KEY_BYTES], int64_t value)
{
    uint64_t bits = (uint64_t)value ^ ((uint64_t)1 << 63);
    for (int i = 0; i < MW_INTEGER_KEY_BYTES; i++) to[i] = (uint8_t)(bits >> (56 - 8 * i));
}

int64_t mw_key_get_integer(const uint8_t from[MW_INTEGER_KEY_BYTES])
{
    uint64_t bits = 0;
    for (int i = 0; i < MW_INTEGER_KEY_BYTES; i++) bits = (bits << 8) | from[i];
    return (int64_t)(bits ^ ((uint64_t)1 << 63));
}

bool mw_get_hex(const char *text, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < MW_HEX_DIGITS; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') *value = *value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f') *value = *value << 4 | (uint64_t)(c - 'a' + 10);
        else return false;
    }
    return true;
}
