/* coding.h: numbers and keys as bytes.
**
** Fixed widths are little-endian. A varint holds 7 bits a byte, lowest first, high bit = "more", at
** most 10 bytes (LEB128). Keys are order-preserving: memcmp order is the order of the values. */
#ifndef MW_CODING_H
#define MW_CODING_H

#include "base.h"

static inline uint16_t mw_get_u16(const uint8_t *p) { return (uint16_t)(p[0] | (p[1] << 8)); }
static inline uint32_t mw_get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);
}
static inline uint64_t mw_get_u64(const uint8_t *p)
{
    return (uint64_t)mw_get_u32(p) | ((uint64_t)mw_get_u32(p + 4) << 32);
}
void mw_put_u16(uint8_t *p, uint16_t value);
void mw_put_u32(uint8_t *p, uint32_t value);
void mw_put_u64(uint8_t *p, uint64_t value);

enum { MW_VARINT_BYTES = 10 };
/* Writes at most MW_VARINT_BYTES; returns how many. */
size_t mw_put_varint(uint8_t *p, uint64_t value);

/* A reader over untrusted bytes with a sticky failure: a read past the end, or a varint that is too
** long, fails it and yields 0 from then on. Read all fields, ask once. */
typedef struct mw_scan {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
} mw_scan;

mw_scan mw_scan_of(mw_slice slice);
size_t mw_scan_left(const mw_scan *scan);
uint8_t mw_scan_u8(mw_scan *scan);
uint16_t mw_scan_u16(mw_scan *scan);
uint32_t mw_scan_u32(mw_scan *scan);
uint64_t mw_scan_u64(mw_scan *scan);
uint64_t mw_scan_varint(mw_scan *scan);
mw_slice mw_scan_take(mw_scan *scan, uint64_t bytes); /* borrowed from the scanned bytes */
mw_slice mw_scan_bytes(mw_scan *scan);                /* varint length, then that many */

/* Numbers in file names: exactly 16 lower-case hexadecimal digits at the start of text. False for
** anything else; nothing is read behind the first wrong character. */
enum { MW_HEX_DIGITS = 16 };
bool mw_get_hex(const char *text, uint64_t *value);

/* Integer keys: 8 bytes, big-endian, sign bit flipped. */
enum { MW_INTEGER_KEY_BYTES = 8 };
void mw_key_put_integer(uint8_t to[MW_INTEGER_KEY_BYTES], int64_t value);
int64_t mw_key_get_integer(const uint8_t from[MW_INTEGER_KEY_BYTES]);

#endif
