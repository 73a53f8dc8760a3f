/* table_copy.c: copies groups from file to file.
**
** Stored pages depend on nothing outside of them but the seed of their checksum, which is the
** file's, and a dictionary, if the file has one: groups of such a file are not copied. So of a group
** that a merge would leave as it is, the pages' bytes are read, their checksums proven, and new ones
** made; directory and index entry are written anew, with places in the new file. Only the key pages
** are decoded: for the filter, and to see that keys ascend. What is saved is what a merge costs most
** for: taking rows apart, encoding and compressing them.
**
** The same level of compression may not be what an option says by now; that is made up for when the
** rows are merged with others. */
#include "table_copy.h"

#include "table_file.h"

mw_rc mw_table_copy_look(const mw_iter *iter, mw_buf *last, mw_table_group *group, bool *possible,
                         mw_err *err)
{
    mw_table *table;
    uint32_t row;
    uint64_t number;
    const mw_directory *directory = mw_table_iter_place(iter, &table, &row, &number);
    *possible = directory && row == 0;
    if (!*possible) return MW_OK;
    mw_rc rc = mw_table_pin(table, MW_PART_INDEX, err);
    if (rc != MW_OK) return rc;
    const mw_group *found = &table->groups[number];
    *possible = table->frame.dictionary_count == 0;
    mw_buf_clear(last);
    mw_buf_put_slice(last, found->last);
    *group = (mw_table_group){
        .rows = found->rows,
        .tombstones = found->tombstones,
        .bytes = found->directory.offset - found->offset,
        .last = mw_buf_slice(last),
    };
    mw_table_unpin(table, MW_PART_INDEX);
    return mw_buf_check(last, err);
}

typedef struct copying {
    mw_table *table;
    const mw_directory *directory;
    mw_table_writer *writer;
    mw_buf stored; /* the page at hand */
} copying;

/* Page i of the directory; number: in its column. */
static mw_rc copy_page(copying *c, uint32_t i, uint32_t number, bool key, mw_err *err)
{
    const mw_page_ref *ref = &c->directory->pages[i];
    mw_block block = {ref->offset, ref->stored_bytes, ref->checksum};
    mw_buf_clear(&c->stored);
    if (!mw_buf_reserve(&c->stored, ref->stored_bytes)) return mw_buf_check(&c->stored, err);
    mw_rc rc = mw_table_read_block(c->table, &block, c->stored.data, err);
    if (rc) return rc;
    mw_stored_page page = {
        .bytes = mw_slice_of(c->stored.data, ref->stored_bytes),
        .raw_bytes = ref->raw_bytes,
        .rows = ref->rows,
        .divides = key && number > 0,
    };
    if (page.divides) page.separator = c->directory->separators[number];
    return mw_table_writer_copy_page(c->writer, &page, err);
}

static mw_rc copy_pages(copying *c, mw_err *err)
{
    const uint32_t *starts = c->directory->page_starts;
    for (uint32_t column = 0; column <= c->table->column_count; column++) {
        for (uint32_t i = starts[column]; i < starts[column + 1]; i++) {
            mw_rc rc = copy_page(c, i, i - starts[column], column == 0, err);
            if (rc) return rc;
        }
    }
    return MW_OK;
}

static mw_rc copy_keys(const copying *c, mw_iter *iter, mw_err *err)
{
    uint32_t rows = c->directory->rows;
    mw_rc rc = MW_OK;
    for (uint32_t row = 0; rc == MW_OK && row < rows; row++) {
        rc = mw_table_writer_copy_key(c->writer, iter->key, err);
        if (rc == MW_OK && row + 1 < rows) rc = iter->ops->next(iter, err);
    }
    return rc;
}

mw_rc mw_table_copy_group(mw_iter *iter, mw_table_writer *writer, mw_err *err)
{
    copying c = {.writer = writer};
    uint32_t row;
    uint64_t group;
    c.directory = mw_table_iter_place(iter, &c.table, &row, &group);
    assert(c.directory && row == 0 && !c.directory->tombstones);
    mw_buf_init(&c.stored, c.table->env);
    mw_rc rc = copy_pages(&c, err);
    if (rc == MW_OK) rc = copy_keys(&c, iter, err);
    if (rc == MW_OK) rc = mw_table_writer_copy_end(writer, c.directory->statistics, err);
    mw_buf_free(&c.stored);
    return rc;
}
