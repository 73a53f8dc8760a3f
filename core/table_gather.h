/* table_gather.h: the rows of one group before they are written, taken apart into columns. Inside
** the table_*.c files that write only. */
#ifndef MW_TABLE_GATHER_H
#define MW_TABLE_GATHER_H

#include "page.h"

/* Values of one column. */
typedef struct mw_column {
    uint8_t *types;
    uint64_t *slots; /* as in mw_cells */
    mw_buf bytes;
} mw_column;

typedef struct mw_gathered {
    const mw_env *env;
    struct mw_gathered *next; /* the caller's, NULL at first */
    mw_column *columns;       /* the key, then the others */
    uint32_t column_total;
    uint32_t row_capacity;
    uint32_t rows;
    uint32_t tombstone_count;
    uint64_t weight;
    mw_buf tombstones; /* bitmap; holds something even when there are none */
    mw_buf first_key;
    mw_buf last_key;   /* set by whoever closes the group */
} mw_gathered;

mw_gathered *mw_gathered_create(const mw_env *env, uint32_t column_total); /* NULL: no memory */
void mw_gathered_destroy(mw_gathered *group);                              /* takes NULL */
void mw_gathered_clear(mw_gathered *group); /* one huge value shall not be paid for ever after */

/* Starts a row: room for it in every column; then mw_gathered_put for each column in order, then
** rows++ by the caller. limit: rows that there will never be more of. */
mw_rc mw_gathered_start_row(mw_gathered *group, bool tombstone, uint32_t limit,
                            mw_err *err) MW_MUST_USE;
mw_rc mw_gathered_put(mw_gathered *group, uint32_t column, const mw_value *value,
                      mw_err *err) MW_MUST_USE;

static inline bool mw_gathered_tombstone(const mw_gathered *group, uint32_t row)
{
    return group->tombstone_count && (group->tombstones.data[row / 8] >> row % 8 & 1);
}

/* Where a page of a column begins: its row, and its texts' place in the column's bytes. */
typedef struct mw_page_start {
    uint32_t row;
    size_t byte;
    size_t last_length; /* of the value before it */
} mw_page_start;

/* The cells from start on that make a page of about so many bytes; then moves start behind them.
** Requires start->row < group->rows. */
mw_cells mw_gathered_page(const mw_gathered *group, uint32_t column, mw_page_start *start,
                          uint32_t page_bytes);

#endif
