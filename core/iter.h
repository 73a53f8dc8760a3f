/* iter.h: the iterator contract, the same for memtables, table files and merges of them.
**
** An iterator walks the ids of one source in key order. It yields each id at most once: the newest
** version that it is allowed to see, which may be a tombstone. The direction is set by the first
** call: after first or seek only next is legal, after last or seek_back only prev. Repositioning is
** legal at any time. */
#ifndef MW_ITER_H
#define MW_ITER_H

#include "value.h"

typedef struct mw_iter mw_iter;

typedef struct mw_iter_ops {
    mw_rc (*first)(mw_iter *, mw_err *);
    mw_rc (*last)(mw_iter *, mw_err *);
    mw_rc (*seek)(mw_iter *, mw_slice key, mw_err *);      /* to the first id >= key */
    mw_rc (*seek_back)(mw_iter *, mw_slice key, mw_err *); /* to the last id <= key  */
    mw_rc (*next)(mw_iter *, mw_err *);                    /* requires valid */
    mw_rc (*prev)(mw_iter *, mw_err *);                    /* requires valid */
    /* Column index of the row at hand; requires valid and not tombstone. value->bytes is borrowed
    ** until the iterator moves or closes. Decodes nothing but that column. */
    mw_rc (*column)(mw_iter *, uint32_t index, mw_value *value, mw_err *);
    void (*close)(mw_iter *); /* frees the iterator itself */
} mw_iter_ops;

struct mw_iter {
    const mw_iter_ops *ops;
    bool valid;        /* stands on an id; false past either end and after a failure */
    bool tombstone;    /* the version at hand says "deleted"                         */
    mw_slice key;      /* borrowed until the iterator moves or closes                */
    /* Of the version: exact in memtables, the file's highest in generations. 0 in base levels: files
    ** there are made of parts of others, so their sequences say nothing about a single row. */
    uint64_t sequence;
};

static inline void mw_iter_close(mw_iter *iter)
{
    if (iter) iter->ops->close(iter);
}

#endif
