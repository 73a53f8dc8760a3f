/* base.c: slices. */
#include "base.h"

#include <string.h>

mw_slice mw_slice_of(const void *data, size_t size)
{
    mw_slice slice = {data, size};
    return slice;
}

bool mw_slice_equal(mw_slice a, mw_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int mw_slice_compare(mw_slice a, mw_slice b)
{
    size_t shared = a.size < b.size ? a.size : b.size;
    int order = shared ? memcmp(a.data, b.data, shared) : 0;
    if (order) return order;
    return a.size < b.size ? -1 : a.size > b.size;
}
