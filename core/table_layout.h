/* table_layout.h: the blocks of a table file that are not pages: header, footer, properties, index,
** directories. Shared by those who write, read and verify; nobody else includes it. */
#ifndef MW_TABLE_LAYOUT_H
#define MW_TABLE_LAYOUT_H

#include "coding.h"
#include "format.h"
#include "prefix.h"
#include "table_write.h"

/* A run of bytes in the file, under a checksum that whoever points to it holds. */
typedef struct mw_block {
    uint64_t offset;
    uint64_t bytes;
    uint64_t checksum;
} mw_block;

/* A compression dictionary. Stored in less than raw_bytes: compressed. */
typedef struct mw_table_dictionary {
    uint32_t column; /* as in a directory: from 1 on, 0 is the key */
    uint32_t raw_bytes;
    mw_block block;
} mw_table_dictionary;

/* What footer and properties say. name and seed are set before anything is encoded or decoded. */
typedef struct mw_table_frame {
    const char *name; /* borrowed, for the words of errors */
    uint64_t seed;    /* of every checksum in the file     */
    mw_table_props props;
    uint64_t group_count;
    uint64_t groups_end; /* offset of the first dictionary, without any of the filter */
    uint32_t dictionary_count;
    mw_table_dictionary dictionaries[MW_TABLE_DICTIONARIES_MAX]; /* columns ascend */
    mw_block filter;
    mw_block index;
    mw_block properties;
} mw_table_frame;

void mw_table_header_put(const mw_table_options *options, uint64_t seed,
                         uint8_t to[MW_TABLE_HEADER_BYTES]);
/* mismatch: a whole header, but of another file. unsupported: of a newer format. */
mw_rc mw_table_header_check(const mw_table_options *options, const mw_table_frame *frame,
                            const uint8_t from[MW_TABLE_HEADER_BYTES], mw_err *err) MW_MUST_USE;

/* Needs props.bytes and properties; sets props.checksum. */
void mw_table_footer_put(mw_table_frame *frame, uint8_t to[MW_TABLE_FOOTER_BYTES]);
/* Sets props.bytes, props.checksum and properties. file_bytes: the file's real size. */
mw_rc mw_table_footer_get(mw_table_frame *frame, const uint8_t from[MW_TABLE_FOOTER_BYTES],
                          uint64_t file_bytes, mw_err *err) MW_MUST_USE;

void mw_table_properties_put(const mw_table_frame *frame, const mw_schema *schema, mw_buf *to);
/* Fills the rest of frame. mismatch: the file is of another schema. */
mw_rc mw_table_properties_get(mw_table_frame *frame, mw_slice from, const mw_schema *schema,
                              mw_err *err) MW_MUST_USE;

/* One group, as the index has it. */
typedef struct mw_group {
    uint32_t rows; /* tombstones included */
    uint32_t tombstones;
    uint64_t offset;      /* of its pages, which end where its directory begins */
    mw_block directory;
    mw_slice first;       /* keys, borrowed from the index */
    mw_slice last;
    uint64_t first_prefix; /* mw_prefix of first, for quick comparing */
} mw_group;

void mw_group_put(const mw_group *group, mw_buf *to);
/* All entries of an index. *groups: frame->group_count of them, the caller's, mw_free; keys are
** borrowed from `from`. Checks that groups lie one behind the other up to groups_end and that keys
** ascend. */
mw_rc mw_groups_get(const mw_env *env, const mw_table_frame *frame, mw_slice from, mw_key_kind key,
                    mw_group **groups, mw_err *err) MW_MUST_USE;

/* Where a page lies. */
typedef struct mw_page_ref {
    uint64_t offset;
    uint64_t checksum;
    uint32_t raw_bytes;
    uint32_t stored_bytes; /* less than raw_bytes: compressed */
    uint32_t first_row;
    uint32_t rows;
} mw_page_ref;

/* A decoded directory: one block of memory, freed with mw_free. Column 0 is the key. */
typedef struct mw_directory {
    uint32_t rows;
    size_t memory_bytes;
    const uint32_t *page_starts; /* column c has pages [page_starts[c], page_starts[c + 1])  */
    const mw_page_ref *pages;
    const mw_slice *separators;  /* one for each key page; that of the first is empty        */
    const uint8_t *tombstones;   /* bit of row r: byte r / 8, bit r % 8; NULL: there are none */
    mw_slice statistics;
} mw_directory;

static inline bool mw_directory_tombstone(const mw_directory *directory, uint32_t row)
{
    return directory->tombstones && (directory->tombstones[row / 8] >> row % 8 & 1);
}

void mw_page_ref_put(const mw_page_ref *ref, mw_buf *to);

typedef struct mw_directory_source {
    const char *file;
    const mw_group *group;
    uint32_t column_count; /* without the key */
    mw_slice raw;
} mw_directory_source;

mw_rc mw_directory_decode(const mw_env *env, const mw_directory_source *source,
                          mw_directory **directory, mw_err *err) MW_MUST_USE;

/* Least or greatest value of a column in a group. cut: the value begins so and goes on. */
typedef struct mw_bound {
    mw_value value; /* NULL: there is no value */
    bool cut;
} mw_bound;

void mw_bound_put(const mw_value *value, mw_buf *to);
/* Also false when the scan fails. */
bool mw_bound_get(mw_scan *scan, mw_bound *bound);
/* Order of value and the value that bound stands for; 0: they may be equal. */
int mw_bound_order(const mw_value *value, const mw_bound *bound);

#endif
