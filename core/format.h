/* format.h: every on-disk number of table files. FORMAT.md, "Table files", explains them. */
#ifndef MW_FORMAT_H
#define MW_FORMAT_H

#include "base.h"

enum {
    MW_FORMAT_VERSION = 3,       /* of a store: that of its newest kind of file */
    MW_TABLE_FORMAT_VERSION = 2, /* of a table file */
};

/* 8 bytes each, no terminator on disk. */
#define MW_TABLE_MAGIC "MWTABLE\n"
#define MW_TABLE_MAGIC_END "\nMWTEND\n"

enum { /* header: the first bytes of a table file */
    MW_TABLE_HEADER_MAGIC = 0,     /* 8 bytes                                    */
    MW_TABLE_HEADER_VERSION = 8,   /* u32                                        */
    MW_TABLE_HEADER_ZERO = 12,     /* u32  zero                                  */
    MW_TABLE_HEADER_STORE = 16,    /* 16 bytes                                   */
    MW_TABLE_HEADER_EPOCH = 32,    /* u64                                        */
    MW_TABLE_HEADER_NUMBER = 40,   /* u64                                        */
    MW_TABLE_HEADER_CHECKSUM = 48, /* u64  of the bytes before it                */
    MW_TABLE_HEADER_BYTES = 56,
};
static_assert(MW_TABLE_HEADER_CHECKSUM + 8 == MW_TABLE_HEADER_BYTES, "the checksum is last");

enum { /* footer: the last bytes of a table file */
    MW_TABLE_FOOTER_FILE_BYTES = 0,        /* u64  of the whole file, footer included    */
    MW_TABLE_FOOTER_PROPERTIES = 8,        /* u64  offset of the properties              */
    MW_TABLE_FOOTER_PROPERTIES_BYTES = 16, /* u32                                        */
    MW_TABLE_FOOTER_VERSION = 20,          /* u32  format version                        */
    MW_TABLE_FOOTER_PROPERTIES_SUM = 24,   /* u64  checksum of the properties            */
    MW_TABLE_FOOTER_CHECKSUM = 32,         /* u64  of the bytes before it                */
    MW_TABLE_FOOTER_MAGIC = 40,            /* last, so `tail -c 8` recognises a file     */
    MW_TABLE_FOOTER_BYTES = 48,
};
static_assert(MW_TABLE_FOOTER_MAGIC + 8 == MW_TABLE_FOOTER_BYTES, "the magic closes the footer");

enum { /* fixed part of the properties; key kind, columns and dictionaries follow */
    MW_TABLE_PROPERTIES_FIXED_BYTES = 11 * 8,
    MW_TABLE_DICTIONARIES_MAX = 8,      /* of one file                              */
    MW_DICTIONARY_BYTES_MAX = 65536,    /* before compression                       */
    MW_TABLE_PROPERTIES_BYTES_MAX = MW_TABLE_PROPERTIES_FIXED_BYTES + 1 + 5 + 2000 * 5 + 1 +
                                    MW_TABLE_DICTIONARIES_MAX * (3 * 5 + 8),
};

enum { /* groups */
    MW_GROUP_ROWS = 4096,        /* default most rows of a group                        */
    MW_GROUP_ROWS_MAX = 65536,   /* what the format allows                              */
    MW_GROUP_BYTES = 1 << 20,    /* a group is closed when its values have passed this  */
    MW_GROUP_ENTRY_BYTES_MIN = 4 + 8 + 2, /* least size of a group's entry in the index */
    MW_GROUP_HAS_TOMBSTONES = 1, /* bit of the directory's flags                        */
    MW_GROUP_BOUND_BYTES = 32,   /* texts and blobs in min and max are cut to this      */
    MW_GROUP_BOUND_CUT = 16,     /* added to the type of a bound that was cut           */
    MW_GROUP_PAGE_ENTRY_BYTES_MIN = 3 + 8,
};

enum { /* pages */
    MW_PAGE_BYTES = 16384,         /* default target before compression                   */
    MW_PAGE_TARGET_MAX = 28672,    /* highest target: keeps the encoded page under the next */
    MW_PAGE_BYTES_MAX = 32768,     /* before compression, for pages of more than one row  */
    MW_PAGE_VALUE_BYTES_MAX = 1 << 30, /* one text or blob                                */
    MW_PAGE_ROW_OVERHEAD = 64,     /* a page of one row is at most the value and this     */
};

enum { /* first byte of a page before compression */
    MW_PAGE_CONSTANT = 1, /* one value for all rows                                      */
    MW_PAGE_INTEGERS = 2, /* distances from the least                                    */
    MW_PAGE_DELTAS = 3,   /* integers as differences                                     */
    MW_PAGE_REALS = 4,    /* their bits, as integers                                     */
    MW_PAGE_TEXTS = 5,    /* lengths, then bytes                                         */
    MW_PAGE_BLOBS = 6,
    MW_PAGE_MIXED = 7,    /* a type for each row, then integers, reals, lengths, bytes   */
    MW_PAGE_DECIMALS = 8, /* reals as integers divided by a power of ten                 */
    MW_PAGE_FEW = 9,      /* an index for each row, then a page of the different values  */
    MW_PAGE_SHARED = 10,  /* texts or blobs that begin like the one before               */

    MW_PAGE_FEW_MAX = 256,       /* different values of a page of few                    */
    MW_PAGE_DECIMAL_DIGITS = 15, /* highest power of ten                                 */
};

enum { /* filter */
    MW_FILTER_BLOCK_BYTES = 64,
    MW_FILTER_BITS_PER_ID = 10,
};

#endif
