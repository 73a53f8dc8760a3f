/* table_gather.c: takes rows apart into columns.
**
** Values are gathered apart from the start: a page's encoding is chosen from all of its values, and
** rows would have to be taken apart again. */
#include "table_gather.h"

#include "format.h"

enum {
    SPARE_BYTES = 4 << 20, /* a buffer that has grown past this is freed */
    ROWS_AT_FIRST = 256,
};

mw_gathered *mw_gathered_create(const mw_env *env, uint32_t column_total)
{
    mw_gathered *made = mw_alloc_zero(env, sizeof *made);
    if (!made) return NULL;
    made->env = env;
    made->column_total = column_total;
    made->columns = mw_alloc_zero(env, sizeof *made->columns * column_total);
    if (!made->columns) {
        mw_free(env, made);
        return NULL;
    }
    for (uint32_t c = 0; c < column_total; c++) mw_buf_init(&made->columns[c].bytes, env);
    mw_buf_init(&made->tombstones, env);
    mw_buf_init(&made->first_key, env);
    mw_buf_init(&made->last_key, env);
    return made;
}

void mw_gathered_destroy(mw_gathered *group)
{
    if (!group) return;
    for (uint32_t c = 0; c < group->column_total; c++) {
        mw_free(group->env, group->columns[c].types);
        mw_free(group->env, group->columns[c].slots);
        mw_buf_free(&group->columns[c].bytes);
    }
    mw_buf_free(&group->tombstones);
    mw_buf_free(&group->first_key);
    mw_buf_free(&group->last_key);
    mw_free(group->env, group->columns);
    mw_free(group->env, group);
}

static void empty(mw_buf *buf)
{
    mw_buf_clear(buf);
    if (buf->capacity > SPARE_BYTES) mw_buf_free(buf);
}

void mw_gathered_clear(mw_gathered *group)
{
    for (uint32_t c = 0; c < group->column_total; c++) empty(&group->columns[c].bytes);
    empty(&group->tombstones);
    empty(&group->first_key);
    empty(&group->last_key);
    group->rows = 0;
    group->tombstone_count = 0;
    group->weight = 0;
}

/* Room for one more row in every column. */
static mw_rc make_room(mw_gathered *group, uint32_t limit, mw_err *err)
{
    if (group->rows < group->row_capacity) return MW_OK;
    uint32_t capacity = group->row_capacity ? group->row_capacity * 2 : ROWS_AT_FIRST;
    capacity = (uint32_t)mw_min(capacity, limit);
    for (uint32_t c = 0; c < group->column_total; c++) {
        mw_column *col = &group->columns[c];
        uint8_t *types = mw_resize(group->env, col->types, capacity);
        if (types) col->types = types;
        uint64_t *slots = mw_resize(group->env, col->slots, capacity * sizeof *slots);
        if (slots) col->slots = slots;
        if (!types || !slots) return mw_fail(err, MW_NOMEM, "out of memory for a table file");
    }
    group->row_capacity = capacity;
    return MW_OK;
}

mw_rc mw_gathered_start_row(mw_gathered *group, bool tombstone, uint32_t limit, mw_err *err)
{
    uint32_t row = group->rows;
    mw_rc rc = make_room(group, limit, err);
    if (rc) return rc;
    if (row % 8 == 0) mw_buf_u8(&group->tombstones, 0);
    rc = mw_buf_check(&group->tombstones, err);
    if (rc || !tombstone) return rc;
    group->tombstones.data[row / 8] |= (uint8_t)(1u << row % 8);
    group->tombstone_count++;
    return MW_OK;
}

mw_rc mw_gathered_put(mw_gathered *group, uint32_t column, const mw_value *value, mw_err *err)
{
    mw_column *col = &group->columns[column];
    uint64_t slot = 0;
    switch (value->type) {
    case MW_NULL: break;
    case MW_INTEGER: slot = (uint64_t)value->integer; break;
    case MW_REAL: slot = mw_bits_of_real(value->real); break;
    case MW_TEXT:
    case MW_BLOB:
        slot = value->bytes.size;
        if (slot > MW_PAGE_VALUE_BYTES_MAX) {
            return mw_fail(err, MW_TOOBIG, "a value of %llu bytes, expected at most %d",
                           (unsigned long long)slot, MW_PAGE_VALUE_BYTES_MAX);
        }
        mw_buf_put_slice(&col->bytes, value->bytes);
        break;
    }
    col->types[group->rows] = (uint8_t)value->type;
    col->slots[group->rows] = slot;
    group->weight += mw_page_weight((uint8_t)value->type, slot);
    return mw_buf_check(&col->bytes, err);
}

mw_cells mw_gathered_page(const mw_gathered *group, uint32_t column, mw_page_start *start,
                          uint32_t page_bytes)
{
    const mw_column *col = &group->columns[column];
    const uint8_t *bytes = col->bytes.data ? col->bytes.data + start->byte : NULL;
    mw_cells cells = {col->types + start->row, col->slots + start->row, bytes, 0};
    uint64_t weight = 0;
    while (start->row < group->rows) {
        uint8_t type = col->types[start->row];
        uint64_t slot = col->slots[start->row];
        weight += mw_page_weight(type, slot);
        if (cells.count && weight > page_bytes) break;
        cells.count++;
        start->row++;
        if (type < MW_TEXT) continue;
        start->last_length = (size_t)slot;
        start->byte += start->last_length;
    }
    return cells;
}
