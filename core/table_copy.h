/* table_copy.h: groups of one table file become groups of another without being taken apart. */
#ifndef MW_TABLE_COPY_H
#define MW_TABLE_COPY_H

#include "table_read.h"

typedef struct mw_table_group {
    uint32_t rows; /* tombstones included */
    uint32_t tombstones;
    uint64_t bytes; /* of its pages, as stored */
    mw_slice last;  /* highest key */
} mw_table_group;

/* The group at whose first row an iterator stands. *possible is false when it stands elsewhere, or
** is not one of a single table, or the table has dictionaries. last: room for the highest key. */
mw_rc mw_table_copy_look(const mw_iter *iter, mw_buf *last, mw_table_group *group, bool *possible,
                         mw_err *err) MW_MUST_USE;

/* Adds that group to writer as it is stored. Requires that it has no tombstones and that writer has
** no group at hand. Afterwards iter stands on the group's last row. */
mw_rc mw_table_copy_group(mw_iter *iter, mw_table_writer *writer, mw_err *err) MW_MUST_USE;

#endif
