/* table_iter.c: walks a table file.
**
**   group at hand ---- held directory
**   row in it    +---- a slot for the key and for each column: the held page that was used last
**
** A slot's page is replaced only when its column is asked for a row outside of it, so a scan asks
** the cache once a page, a column that nobody asks for is never read, and neighbouring lookups
** find their page at hand. What is held is at most one page a column.
**
** The table is pinned while a group is entered or searched, not between two calls: a merge of
** thousands of files opens them in turn. What an iterator keeps lies in the cache or in itself. It
** lets go of all pages when it has passed the last row, and the columns' slots are made when a
** column is asked for: of the sources of a merge many have ended or not begun. */
#include "table_file.h"

typedef struct slot {
    mw_cached *held;     /* NULL: nothing yet */
    const mw_page *page;
    uint64_t group;
    uint32_t first_row;
} slot;

typedef struct table_iter {
    mw_iter base;
    mw_table *table;
    uint64_t group;          /* at hand, when directory is not NULL */
    uint64_t group_count;    /* of the file, once a group was entered */
    mw_cached *held;         /* its directory */
    const mw_directory *directory;
    uint32_t row;            /* in the group */
    uint8_t number[MW_INTEGER_KEY_BYTES]; /* key at hand of an integer table */
    slot keys;
    slot *columns; /* one for each, NULL until one is asked for */
} table_iter;

/* ---- holding ------------------------------------------------------------------------------- */

static mw_rc no_memory(const mw_table *table, mw_err *err)
{
    return mw_fail(err, MW_NOMEM, "out of memory for reading %s", table->name);
}

/* Requires a pin. */
static mw_rc enter_group(table_iter *iter, uint64_t group, mw_err *err)
{
    mw_cached *held;
    if (iter->directory && iter->group == group) return MW_OK;
    mw_rc rc = mw_table_hold_directory(iter->table, &iter->table->groups[group], &held, err);
    if (rc) return rc;
    if (iter->held) mw_cache_release(iter->table->cache, iter->held);
    iter->held = held;
    iter->directory = mw_cached_content(held);
    iter->group = group;
    iter->group_count = iter->table->frame.group_count;
    return MW_OK;
}

static void clear_slot(const table_iter *iter, slot *s)
{
    if (s->held) mw_cache_release(iter->table->cache, s->held);
    *s = (slot){0};
}

static void let_go(table_iter *iter)
{
    clear_slot(iter, &iter->keys);
    for (uint32_t c = 0; iter->columns && c < iter->table->column_count; c++) {
        clear_slot(iter, &iter->columns[c]);
    }
    mw_free(iter->table->env, iter->columns);
    iter->columns = NULL;
    if (iter->held) mw_cache_release(iter->table->cache, iter->held);
    iter->held = NULL;
    iter->directory = NULL;
}

static bool slot_has(const table_iter *iter, const slot *s)
{
    return s->page && s->group == iter->group && iter->row - s->first_row < s->page->rows;
}

/* Makes the slot of column c, as in a directory, hold this page of the group at hand. */
static mw_rc fill_slot(table_iter *iter, uint32_t c, uint32_t page, mw_err *err)
{
    slot *s = c == 0 ? &iter->keys : &iter->columns[c - 1];
    const mw_page_ref *ref = &iter->directory->pages[page];
    mw_cached *held;
    if (s->page && s->group == iter->group && s->first_row == ref->first_row) return MW_OK;
    mw_rc rc = mw_table_hold_page(iter->table, ref, c, &held, err);
    if (rc) return rc;
    if (s->held) mw_cache_release(iter->table->cache, s->held);
    s->held = held;
    s->page = mw_cached_content(held);
    s->group = iter->group;
    s->first_row = ref->first_row;
    return MW_OK;
}

/* The page of column c that has the row at hand. */
static uint32_t page_of_row(const table_iter *iter, uint32_t c)
{
    const mw_directory *directory = iter->directory;
    uint32_t low = directory->page_starts[c] + 1, high = directory->page_starts[c + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (directory->pages[middle].first_row <= iter->row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

/* The key's slot for the row at hand. */
static mw_rc need_keys(table_iter *iter, mw_err *err)
{
    if (slot_has(iter, &iter->keys)) return MW_OK;
    return fill_slot(iter, 0, page_of_row(iter, 0), err);
}

/* The slot of a column, from 0, for the row at hand. */
static mw_rc need_column(table_iter *iter, uint32_t index, mw_err *err)
{
    const mw_table *table = iter->table;
    if (!iter->columns) {
        iter->columns = mw_alloc_zero(table->env, table->column_count * sizeof(slot));
        if (!iter->columns) return no_memory(table, err);
    }
    if (slot_has(iter, &iter->columns[index])) return MW_OK;
    return fill_slot(iter, index + 1, page_of_row(iter, index + 1), err);
}

/* ---- standing ------------------------------------------------------------------------------ */

static mw_rc stand_nowhere(table_iter *iter)
{
    iter->base.valid = false;
    iter->base.tombstone = false;
    return MW_OK;
}

/* Stands on a row of the group at hand. */
static mw_rc stand_on(table_iter *iter, uint32_t row, mw_err *err)
{
    iter->row = row;
    mw_rc rc = need_keys(iter, err);
    if (rc) {
        (void)stand_nowhere(iter);
        return rc;
    }
    const slot *keys = &iter->keys;
    uint32_t in_page = row - keys->first_row;
    if (iter->table->key == MW_KEY_INTEGER) {
        mw_key_put_integer(iter->number, mw_page_integer(keys->page, in_page));
        iter->base.key = mw_slice_of(iter->number, sizeof iter->number);
    } else {
        iter->base.key = mw_page_bytes(keys->page, in_page);
    }
    iter->base.tombstone = mw_directory_tombstone(iter->directory, row);
    iter->base.valid = true;
    return MW_OK;
}

/* Behind the last row, or before the first. */
static mw_rc stand_past_end(table_iter *iter)
{
    let_go(iter);
    return stand_nowhere(iter);
}

/* These two require a pin. */
static mw_rc stand_on_first(table_iter *iter, uint64_t group, mw_err *err)
{
    (void)stand_nowhere(iter);
    if (group >= iter->table->frame.group_count) return stand_past_end(iter);
    mw_rc rc = enter_group(iter, group, err);
    return rc ? rc : stand_on(iter, 0, err);
}

static mw_rc stand_on_last(table_iter *iter, uint64_t group, mw_err *err)
{
    (void)stand_nowhere(iter);
    mw_rc rc = enter_group(iter, group, err);
    return rc ? rc : stand_on(iter, iter->directory->rows - 1, err);
}

/* Row of the group that has the first key >= key; directory->rows when all of its keys lie below.
** Requires a pin. */
static mw_rc search_group(table_iter *iter, uint64_t group, mw_slice key, bool *equal, mw_err *err)
{
    (void)stand_nowhere(iter);
    *equal = false;
    mw_rc rc = enter_group(iter, group, err);
    if (rc) return rc;
    uint32_t page = mw_directory_key_page(iter->directory, key);
    rc = fill_slot(iter, 0, page, err);
    if (rc) return rc;
    const slot *keys = &iter->keys;
    iter->row = keys->first_row + mw_table_row_of(iter->table, keys->page, key, equal);
    return MW_OK;
}

/* The index promises a key on this side of the one that is sought, and the pages have none.
** Requires a pin. */
static mw_rc wrong_index(const table_iter *iter, mw_err *err)
{
    return mw_fail_disk(err, iter->table->name, iter->table->groups[iter->group].offset,
                        "the group's keys are not those that the index says");
}

/* ---- moves, of pinned tables --------------------------------------------------------------- */

typedef mw_rc move(table_iter *iter, mw_slice key, mw_err *err);

static mw_rc pin_and(move *make, mw_iter *base, mw_slice key, mw_err *err)
{
    table_iter *iter = (table_iter *)base;
    (void)stand_nowhere(iter);
    mw_rc rc = mw_table_pin(iter->table, MW_PART_INDEX, err);
    if (rc) return rc;
    rc = make(iter, key, err);
    mw_table_unpin(iter->table, MW_PART_INDEX);
    return rc;
}

static mw_rc to_first(table_iter *iter, mw_slice key, mw_err *err)
{
    (void)key;
    return stand_on_first(iter, 0, err);
}

static mw_rc to_last(table_iter *iter, mw_slice key, mw_err *err)
{
    (void)key;
    uint64_t count = iter->table->frame.group_count;
    return count ? stand_on_last(iter, count - 1, err) : stand_past_end(iter);
}

static mw_rc to_next_group(table_iter *iter, mw_slice key, mw_err *err)
{
    (void)key;
    return stand_on_first(iter, iter->group + 1, err);
}

static mw_rc to_group_before(table_iter *iter, mw_slice key, mw_err *err)
{
    (void)key;
    return stand_on_last(iter, iter->group - 1, err);
}

static mw_rc to_not_below(table_iter *iter, mw_slice key, mw_err *err)
{
    uint64_t group = mw_table_group_of(iter->table, key);
    bool equal;
    if (group == UINT64_MAX) return stand_on_first(iter, 0, err);
    if (mw_slice_compare(key, iter->table->groups[group].last) > 0) {
        return stand_on_first(iter, group + 1, err);
    }
    mw_rc rc = search_group(iter, group, key, &equal, err);
    if (rc) return rc;
    if (iter->row >= iter->directory->rows) return wrong_index(iter, err);
    return stand_on(iter, iter->row, err);
}

static mw_rc to_not_above(table_iter *iter, mw_slice key, mw_err *err)
{
    uint64_t group = mw_table_group_of(iter->table, key);
    bool equal;
    if (group == UINT64_MAX) return stand_past_end(iter);
    mw_rc rc = search_group(iter, group, key, &equal, err);
    if (rc) return rc;
    if (equal) return stand_on(iter, iter->row, err);
    if (iter->row == 0) return wrong_index(iter, err);
    return stand_on(iter, iter->row - 1, err);
}

/* To key itself, or nowhere; the key lies in the table's range. */
static mw_rc to_key(table_iter *iter, mw_slice key, mw_err *err)
{
    bool found;
    mw_rc rc = mw_table_filter_passes(iter->table, key, &found, err);
    if (rc || !found) return rc;
    rc = search_group(iter, mw_table_group_of(iter->table, key), key, &found, err);
    return rc == MW_OK && found ? stand_on(iter, iter->row, err) : rc;
}

/* ---- contract ------------------------------------------------------------------------------ */

static const mw_slice no_key = {NULL, 0};

static mw_rc iter_first(mw_iter *base, mw_err *err)
{
    return pin_and(to_first, base, no_key, err);
}

static mw_rc iter_last(mw_iter *base, mw_err *err)
{
    return pin_and(to_last, base, no_key, err);
}

static mw_rc iter_seek(mw_iter *base, mw_slice key, mw_err *err)
{
    return pin_and(to_not_below, base, key, err);
}

static mw_rc iter_seek_back(mw_iter *base, mw_slice key, mw_err *err)
{
    return pin_and(to_not_above, base, key, err);
}

static mw_rc iter_next(mw_iter *base, mw_err *err)
{
    table_iter *iter = (table_iter *)base;
    assert(base->valid);
    if (iter->row + 1 < iter->directory->rows) return stand_on(iter, iter->row + 1, err);
    if (iter->group + 1 == iter->group_count) return stand_past_end(iter); /* opens no file */
    return pin_and(to_next_group, base, no_key, err);
}

static mw_rc iter_prev(mw_iter *base, mw_err *err)
{
    table_iter *iter = (table_iter *)base;
    assert(base->valid);
    if (iter->row > 0) return stand_on(iter, iter->row - 1, err);
    if (iter->group == 0) return stand_past_end(iter);
    return pin_and(to_group_before, base, no_key, err);
}

static mw_rc iter_column(mw_iter *base, uint32_t index, mw_value *value, mw_err *err)
{
    table_iter *iter = (table_iter *)base;
    assert(base->valid && !base->tombstone && index < iter->table->column_count);
    mw_rc rc = need_column(iter, index, err);
    if (rc) return rc;
    const slot *s = &iter->columns[index];
    mw_page_value(s->page, iter->row - s->first_row, value);
    return MW_OK;
}

static void iter_close(mw_iter *base)
{
    table_iter *iter = (table_iter *)base;
    mw_table *table = iter->table;
    let_go(iter);
    mw_free(table->env, iter);
    mw_table_unref(table);
}

static const mw_iter_ops iter_ops = {
    iter_first, iter_last, iter_seek,   iter_seek_back,
    iter_next,  iter_prev, iter_column, iter_close,
};

mw_rc mw_table_iter(mw_table *table, mw_iter **iter, mw_err *err)
{
    table_iter *made = mw_alloc_zero(table->env, sizeof *made);
    *iter = NULL;
    if (!made) return no_memory(table, err);
    made->base.ops = &iter_ops;
    made->base.sequence = table->props.sequence_max;
    made->table = mw_table_ref(table);
    *iter = &made->base;
    return MW_OK;
}

mw_rc mw_table_iter_find(mw_iter *base, mw_slice key, bool *found, mw_err *err)
{
    table_iter *iter = (table_iter *)base;
    assert(base->ops == &iter_ops);
    (void)stand_nowhere(iter);
    mw_rc rc = MW_OK;
    if (mw_table_in_range(iter->table, key)) rc = pin_and(to_key, base, key, err);
    *found = base->valid;
    return rc;
}

const mw_directory *mw_table_iter_place(const mw_iter *base, mw_table **table, uint32_t *row,
                                        uint64_t *group)
{
    const table_iter *iter = (const table_iter *)base;
    if (base->ops != &iter_ops || !base->valid) return NULL;
    *table = iter->table;
    *row = iter->row;
    *group = iter->group;
    return iter->directory;
}
