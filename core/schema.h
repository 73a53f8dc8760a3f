/* schema.h: what the engine has to know of a table's columns.
**
** The engine stores keys as bytes and the other columns as typed values; the words of the
** declaration are carried for the layer above and never read here. */
#ifndef MW_SCHEMA_H
#define MW_SCHEMA_H

#include "base.h"

typedef enum mw_key_kind {
    MW_KEY_INTEGER = 1, /* 8 bytes, coding.h                          */
    MW_KEY_TEXT = 2,    /* the text's bytes in UTF-8, no terminator    */
    MW_KEY_ENCODED = 3, /* one or more values of any type, as bytes whose order is theirs */
} mw_key_kind;

enum { MW_COLUMNS_MAX = 2000, MW_KEY_BYTES_MAX = 65535 };

typedef struct mw_schema {
    mw_key_kind key;
    uint32_t column_count;      /* columns outside the key, 0 to MW_COLUMNS_MAX            */
    const uint32_t *column_ids; /* column_count of them: never used again when one is dropped */
    mw_slice declaration;       /* opaque words of the layer above, at most 1 MB           */
} mw_schema;

#endif
