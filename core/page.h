/* page.h: column pages: a run of rows of one column, as bytes and ready for use.
**
** Encoding (page_encode.c) takes cells as a writer gathers them. Decoding (page.c) checks every
** length against what is left and gives one block of memory with the value of any row in constant
** time. */
#ifndef MW_PAGE_H
#define MW_PAGE_H

#include <string.h>

#include "value.h"

/* A run of values of one column. Everything is borrowed. */
typedef struct mw_cells {
    const uint8_t *types;  /* mw_type of each                                             */
    const uint64_t *slots; /* integer; bits of the real; length of the text or blob; 0    */
    const uint8_t *bytes;  /* the texts and blobs, one behind the other                   */
    uint32_t count;
} mw_cells;

/* Size of a value for deciding where a page ends: never less than 8/9 of what it takes encoded. */
static inline uint64_t mw_page_weight(uint8_t type, uint64_t slot)
{
    if (type == MW_NULL) return 1;
    return type == MW_TEXT || type == MW_BLOB ? 4 + slot : 8;
}

/* Working memory for encoding; one per thread at a time. */
typedef struct mw_page_encoder {
    mw_buf gathered; /* u64 each: the integers or reals among values of several types */
    mw_buf deltas;   /* u64 each */
    mw_buf decimals; /* u64 each */
    mw_buf indexes;  /* u64 each: which of the few values a cell has */
    mw_buf bytes;    /* of the few values */
} mw_page_encoder;

void mw_page_encoder_init(mw_page_encoder *encoder, const mw_env *env);
void mw_page_encoder_free(mw_page_encoder *encoder);

typedef enum mw_page_form {
    MW_FORM_TIGHT,   /* numbers of any width: small as it stands, compressing gives little        */
    MW_FORM_ALIGNED, /* numbers of whole bytes: large as it stands, but repetitions stay visible  */
} mw_page_form;

/* Appends the page of these cells (at least one), not compressed; `to` fails when memory does. key:
** the cells are keys, all integers or all texts or all blobs, ascending; the page stays readable by
** mw_page_integer or mw_page_bytes. Returns whether the other form gives another page that may be
** smaller once both are compressed. */
bool mw_page_encode(mw_page_encoder *encoder, mw_buf *to, const mw_cells *cells, bool key,
                    mw_page_form form);

typedef enum mw_page_shape {
    MW_SHAPE_CONSTANT,
    MW_SHAPE_INTEGERS,
    MW_SHAPE_REALS,
    MW_SHAPE_BYTES,
    MW_SHAPE_MIXED,
} mw_page_shape;

/* A decoded page: one block of memory, freed with mw_free. */
typedef struct mw_page {
    mw_page_shape shape;
    uint32_t rows;
    size_t memory_bytes;   /* of the whole block                                          */
    mw_value constant;     /* CONSTANT                                                    */
    mw_type type;          /* BYTES: text or blob                                         */
    const uint64_t *slots; /* INTEGERS; REALS as bits; MIXED: the same, or begin | length << 32 */
    const uint32_t *ends;  /* BYTES: value i is bytes [ends[i], ends[i + 1])              */
    const uint8_t *types;  /* MIXED                                                       */
    const uint8_t *bytes;  /* BYTES, MIXED                                                */
    /* Text keys: what makes a search short. All keys of the page begin with the same `common`
    ** bytes, and starts[i] is mw_prefix of what follows them in key i. NULL for other pages. */
    const uint64_t *starts;
    uint32_t common;
} mw_page;

/* Where an encoded page comes from, for the words of an error. */
typedef struct mw_page_source {
    const char *file;
    uint64_t offset;
    mw_slice raw;  /* decompressed */
    uint32_t rows; /* at least one */
    bool key;      /* the page must hold keys: integers, texts or blobs alone */
} mw_page_source;

/* corrupt: the bytes are not a page of that many rows. */
mw_rc mw_page_decode(const mw_env *env, const mw_page_source *source, mw_page **page,
                     mw_err *err) MW_MUST_USE;

/* Value of a row < rows; bytes are borrowed from the page. */
static inline void mw_page_value(const mw_page *page, uint32_t row, mw_value *value);

/* For pages of that shape alone. */
static inline int64_t mw_page_integer(const mw_page *page, uint32_t row)
{
    assert(page->shape == MW_SHAPE_INTEGERS && row < page->rows);
    return (int64_t)page->slots[row];
}

static inline mw_slice mw_page_bytes(const mw_page *page, uint32_t row)
{
    assert(page->shape == MW_SHAPE_BYTES && row < page->rows);
    mw_slice slice = {page->bytes + page->ends[row], page->ends[row + 1] - page->ends[row]};
    return slice;
}

/* 10^0 to 10^MW_PAGE_DECIMAL_DIGITS: what decimals are divided by. */
extern const double mw_page_powers[];

static inline double mw_real_of_bits(uint64_t bits)
{
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

static inline uint64_t mw_bits_of_real(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

static inline void mw_page_mixed_value(const mw_page *page, uint32_t row, mw_value *value)
{
    uint64_t slot = page->slots[row];
    value->type = (mw_type)page->types[row];
    if (value->type == MW_INTEGER) {
        value->integer = (int64_t)slot;
    } else if (value->type == MW_REAL) {
        value->real = mw_real_of_bits(slot);
    } else if (value->type != MW_NULL) {
        value->bytes.data = page->bytes + (uint32_t)slot;
        value->bytes.size = (size_t)(slot >> 32);
    }
}

static inline void mw_page_value(const mw_page *page, uint32_t row, mw_value *value)
{
    assert(row < page->rows);
    switch (page->shape) {
    case MW_SHAPE_INTEGERS:
        value->type = MW_INTEGER;
        value->integer = (int64_t)page->slots[row];
        break;
    case MW_SHAPE_REALS:
        value->type = MW_REAL;
        value->real = mw_real_of_bits(page->slots[row]);
        break;
    case MW_SHAPE_BYTES:
        value->type = page->type;
        value->bytes = mw_page_bytes(page, row);
        break;
    case MW_SHAPE_MIXED: mw_page_mixed_value(page, row, value); break;
    case MW_SHAPE_CONSTANT: *value = page->constant; break;
    }
}

#endif
