/* level_iter.c: walks the files of one base level as if they were one.
**
**     [a..f] [g..k] [m..t]
**             ^ an iterator of the file at hand; it is closed when the next one is entered
**
** A file that has no row on the side that is walked to is passed over; that can be only where a
** file is damaged or empty, as ranges are exact. */
#include "level_iter.h"

typedef struct level_iter {
    mw_iter base;
    mw_level_source source;
    uint32_t file;  /* at hand, when inner is not NULL */
    mw_iter *inner;
} level_iter;

static uint32_t end_of(mw_file_run run) { return run.first + run.count; }

static void leave(level_iter *iter)
{
    mw_iter_close(iter->inner);
    iter->inner = NULL;
}

static mw_rc enter(level_iter *iter, uint32_t file, mw_err *err)
{
    if (iter->inner && iter->file == file) return MW_OK;
    leave(iter);
    iter->file = file;
    uint32_t table = mw_level_table(iter->source.manifest, file);
    mw_rc rc = mw_table_iter(iter->source.tables[table], &iter->inner, err);
    if (rc != MW_OK) iter->inner = NULL;
    return rc;
}

/* Shows what the inner iterator stands on. */
static mw_rc show(level_iter *iter)
{
    const mw_iter *inner = iter->inner;
    iter->base.valid = inner && inner->valid;
    if (!iter->base.valid) return MW_OK;
    iter->base.key = inner->key;
    iter->base.tombstone = inner->tombstone;
    return MW_OK;
}

/* To the first row of a file, or of one behind it. */
static mw_rc show_from(level_iter *iter, uint32_t file, mw_err *err)
{
    iter->base.valid = false;
    for (; file < end_of(iter->source.run); file++) {
        mw_rc rc = enter(iter, file, err);
        if (rc == MW_OK) rc = iter->inner->ops->first(iter->inner, err);
        if (rc != MW_OK) return rc;
        if (iter->inner->valid) return show(iter);
    }
    leave(iter);
    return MW_OK;
}

/* To the last row of the files before `end`. */
static mw_rc show_before(level_iter *iter, uint32_t end, mw_err *err)
{
    iter->base.valid = false;
    while (end > iter->source.run.first) {
        mw_rc rc = enter(iter, --end, err);
        if (rc == MW_OK) rc = iter->inner->ops->last(iter->inner, err);
        if (rc != MW_OK) return rc;
        if (iter->inner->valid) return show(iter);
    }
    leave(iter);
    return MW_OK;
}

static mw_rc first(mw_iter *base, mw_err *err)
{
    level_iter *iter = (level_iter *)base;
    return show_from(iter, iter->source.run.first, err);
}

static mw_rc last(mw_iter *base, mw_err *err)
{
    level_iter *iter = (level_iter *)base;
    return show_before(iter, end_of(iter->source.run), err);
}

static mw_rc seek(mw_iter *base, mw_slice key, mw_err *err)
{
    level_iter *iter = (level_iter *)base;
    uint32_t file = mw_levels_seek(iter->source.manifest, iter->source.run, key);
    base->valid = false;
    if (file == end_of(iter->source.run)) return MW_OK;
    mw_rc rc = enter(iter, file, err);
    if (rc == MW_OK) rc = iter->inner->ops->seek(iter->inner, key, err);
    if (rc != MW_OK) return rc;
    return iter->inner->valid ? show(iter) : show_from(iter, file + 1, err);
}

static mw_rc seek_back(mw_iter *base, mw_slice key, mw_err *err)
{
    level_iter *iter = (level_iter *)base;
    uint32_t file = mw_levels_seek(iter->source.manifest, iter->source.run, key);
    base->valid = false;
    if (file == end_of(iter->source.run) ||
        !mw_levels_in_range(iter->source.manifest, file, key)) {
        return show_before(iter, file, err);
    }
    mw_rc rc = enter(iter, file, err);
    if (rc == MW_OK) rc = iter->inner->ops->seek_back(iter->inner, key, err);
    if (rc != MW_OK) return rc;
    return iter->inner->valid ? show(iter) : show_before(iter, file, err);
}

static mw_rc next(mw_iter *base, mw_err *err)
{
    level_iter *iter = (level_iter *)base;
    assert(base->valid);
    base->valid = false;
    mw_rc rc = iter->inner->ops->next(iter->inner, err);
    if (rc != MW_OK) return rc;
    return iter->inner->valid ? show(iter) : show_from(iter, iter->file + 1, err);
}

static mw_rc prev(mw_iter *base, mw_err *err)
{
    level_iter *iter = (level_iter *)base;
    assert(base->valid);
    base->valid = false;
    mw_rc rc = iter->inner->ops->prev(iter->inner, err);
    if (rc != MW_OK) return rc;
    return iter->inner->valid ? show(iter) : show_before(iter, iter->file, err);
}

static mw_rc column(mw_iter *base, uint32_t index, mw_value *value, mw_err *err)
{
    mw_iter *inner = ((level_iter *)base)->inner;
    assert(base->valid);
    return inner->ops->column(inner, index, value, err);
}

static void close_level(mw_iter *base)
{
    level_iter *iter = (level_iter *)base;
    leave(iter);
    mw_free(iter->source.env, iter);
}

static const mw_iter_ops level_ops = {
    first, last, seek, seek_back, next, prev, column, close_level,
};

mw_rc mw_level_iter(const mw_level_source *source, mw_iter **out, mw_err *err)
{
    level_iter *iter = mw_alloc_zero(source->env, sizeof *iter);
    *out = NULL;
    if (!iter) return mw_fail(err, MW_NOMEM, "no memory for reading a level");
    iter->base.ops = &level_ops;
    iter->source = *source;
    *out = &iter->base;
    return MW_OK;
}

mw_iter *mw_level_iter_file(mw_iter *base)
{
    if (base->ops != &level_ops || !base->valid) return NULL;
    return ((level_iter *)base)->inner;
}
