/* memtable_test.c: a memtable answers like a sorted array of versions, whatever was added and taken
** out, for every limit, in both directions, and while somebody adds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "coding.h"
#include "memory.h"
#include "memtable.h"

/* ---- the model: a sorted array ------------------------------------------------------------- */

enum { KEYS_MAX = 16, MODEL_MAX = 4096 };

typedef struct version {
    uint8_t key[KEYS_MAX];
    size_t key_bytes;
    uint64_t sequence;
    bool tombstone;
    mw_node *node;
} version;

typedef struct sorted {
    version versions[MODEL_MAX]; /* key ascending, sequence descending */
    size_t count;
} sorted;

static mw_slice key_of(const version *v)
{
    return mw_slice_of(v->key, v->key_bytes);
}

static size_t model_place(const sorted *model, mw_slice key, uint64_t sequence)
{
    size_t at = 0;
    for (; at < model->count; at++) {
        int order = mw_slice_compare(key_of(&model->versions[at]), key);
        if (order > 0 || (order == 0 && model->versions[at].sequence <= sequence)) break;
    }
    return at;
}

static void model_add(sorted *model, const version *v)
{
    size_t at = model_place(model, key_of(v), v->sequence);
    version *place = &model->versions[at];
    memmove(place + 1, place, (model->count - at) * sizeof *place);
    *place = *v;
    model->count++;
}

static void model_remove(sorted *model, size_t at)
{
    version *place = &model->versions[at];
    model->count--;
    memmove(place, place + 1, (model->count - at) * sizeof *place);
}

/* The ids that a reader with this limit may see, in order. */
static size_t model_view(const sorted *model, uint64_t limit, const version **view)
{
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const version *v = &model->versions[i];
        if (v->sequence > limit) continue;
        if (count > 0 && mw_slice_equal(key_of(view[count - 1]), key_of(v))) continue;
        view[count++] = v;
    }
    return count;
}

/* ---- random workloads ---------------------------------------------------------------------- */

static uint64_t roll(uint64_t *dice)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return *dice;
}

/* Few different keys, many of them prefixes of each other or with equal first 8 bytes. */
static size_t random_key(uint64_t *dice, uint8_t key[KEYS_MAX])
{
    uint64_t r = roll(dice);
    size_t bytes = r % (KEYS_MAX + 1);
    for (size_t i = 0; i < bytes; i++) key[i] = i < 7 ? 0 : (uint8_t)(roll(dice) % 2 ? 0 : 0xff);
    if (bytes && r % 3 == 0) key[0] = (uint8_t)(r >> 32);
    return bytes;
}

/* A row that is made from key and sequence. */
static size_t row_of(const version *v, uint8_t row[32])
{
    if (v->tombstone) return 0;
    mw_put_u64(row, v->sequence);
    memcpy(row + 8, v->key, v->key_bytes);
    return 8 + v->key_bytes;
}

static void add(mw_memtable *memtable, version *v)
{
    uint8_t row[32];
    mw_slice slice = mw_slice_of(row, row_of(v, row));
    assert_int_equal(mw_memtable_add(memtable, key_of(v), v->sequence, v->tombstone, slice,
                                     &v->node, NULL), MW_OK);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void assert_stands_on(const mw_iter *iter, const version *v)
{
    assert_true(iter->valid);
    assert_true(mw_slice_equal(iter->key, key_of(v)));
    assert_int_equal(iter->sequence, v->sequence);
    assert_int_equal(iter->tombstone, v->tombstone);
    uint8_t row[32];
    mw_slice expected = mw_slice_of(row, row_of(v, row));
    assert_true(mw_slice_equal(mw_memtable_iter_row(iter), expected));
}

static void assert_walks(mw_iter *iter, const version **view, size_t count)
{
    assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
    for (size_t i = 0; i < count; i++) {
        assert_stands_on(iter, view[i]);
        assert_int_equal(iter->ops->next(iter, NULL), MW_OK);
    }
    assert_false(iter->valid);
    assert_int_equal(iter->ops->last(iter, NULL), MW_OK);
    for (size_t i = count; i-- > 0;) {
        assert_stands_on(iter, view[i]);
        assert_int_equal(iter->ops->prev(iter, NULL), MW_OK);
    }
    assert_false(iter->valid);
}

static void assert_seeks(mw_iter *iter, const version **view, size_t count, mw_slice key)
{
    size_t from = 0;
    while (from < count && mw_slice_compare(key_of(view[from]), key) < 0) from++;
    assert_int_equal(iter->ops->seek(iter, key, NULL), MW_OK);
    if (from < count) assert_stands_on(iter, view[from]);
    else assert_false(iter->valid);

    size_t behind = from < count && mw_slice_equal(key_of(view[from]), key) ? from + 1 : from;
    assert_int_equal(iter->ops->seek_back(iter, key, NULL), MW_OK);
    if (behind > 0) assert_stands_on(iter, view[behind - 1]);
    else assert_false(iter->valid);
}

static void assert_finds(const mw_memtable *memtable, const sorted *model, mw_slice key,
                         uint64_t limit)
{
    size_t at = model_place(model, key, limit);
    const mw_node *node = mw_memtable_find(memtable, key, limit);
    if (at == model->count || !mw_slice_equal(key_of(&model->versions[at]), key)) {
        assert_null(node);
        return;
    }
    const version *v = &model->versions[at];
    assert_ptr_equal(node, v->node);
    assert_true(mw_slice_equal(mw_node_key(node), key));
    assert_int_equal(mw_node_sequence(node), v->sequence);
    assert_int_equal(mw_node_tombstone(node), v->tombstone);
}

static void assert_like_model(mw_memtable *memtable, const sorted *model, uint64_t limit,
                              uint64_t *dice)
{
    static const version *view[MODEL_MAX];
    size_t count = model_view(model, limit, view);
    mw_iter *iter;
    assert_int_equal(mw_memtable_iter(memtable, limit, 1, &iter, NULL), MW_OK);
    assert_false(iter->valid);
    assert_walks(iter, view, count);
    for (int i = 0; i < 40; i++) {
        uint8_t bytes[KEYS_MAX];
        mw_slice key = mw_slice_of(bytes, random_key(dice, bytes));
        assert_seeks(iter, view, count, key);
        assert_finds(memtable, model, key, limit);
    }
    mw_iter_close(iter);
}

/* Additions, removals and views at every limit agree with a sorted array. */
static void memtable_is_a_sorted_array(void **state)
{
    (void)state;
    static sorted model;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint64_t dice = seed * UINT64_C(0x9e3779b97f4a7c15);
        print_message("seed %llu\n", (unsigned long long)seed);
        memory m;
        memory_init(&m);
        mw_memtable *memtable = mw_memtable_create(&m.env);
        assert_non_null(memtable);
        model.count = 0;
        for (uint64_t sequence = 1; sequence <= 1500; sequence++) {
            version v = {.sequence = sequence, .tombstone = roll(&dice) % 4 == 0};
            v.key_bytes = random_key(&dice, v.key);
            add(memtable, &v);
            model_add(&model, &v);
            if (roll(&dice) % 3 == 0) {
                size_t at = roll(&dice) % model.count;
                mw_memtable_remove(memtable, model.versions[at].node);
                model_remove(&model, at);
            }
            assert_int_equal(mw_memtable_versions(memtable), model.count);
            if (sequence % 300 != 0) continue;
            assert_like_model(memtable, &model, 0, &dice);
            assert_like_model(memtable, &model, roll(&dice) % (sequence + 1), &dice);
            assert_like_model(memtable, &model, sequence, &dice);
            assert_like_model(memtable, &model, UINT64_MAX, &dice);
        }
        while (model.count > 0) {
            mw_memtable_remove(memtable, model.versions[--model.count].node);
        }
        assert_like_model(memtable, &model, UINT64_MAX, &dice);
        mw_memtable_unref(memtable);
        assert_int_equal(m.alive, 0);
    }
}

/* Sequences at both ends of their range, and versions that are not added in their order. */
static void versions_of_one_id_fall_by_sequence(void **state)
{
    (void)state;
    static const uint64_t sequences[] = {5, 0, UINT64_MAX, 7, 1, UINT64_MAX - 1};
    static sorted model;
    uint64_t dice = 3;
    memory m;
    memory_init(&m);
    mw_memtable *memtable = mw_memtable_create(&m.env);
    model.count = 0;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        for (int k = 0; k < 3; k++) {
            version v = {.key = {(uint8_t)k}, .key_bytes = 1, .sequence = sequences[i]};
            add(memtable, &v);
            model_add(&model, &v);
        }
    }
    static const uint64_t limits[] = {0, 1, 4, 5, 6, UINT64_MAX - 2, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_like_model(memtable, &model, limits[i], &dice);
    }
    mw_memtable_unref(memtable);
    assert_int_equal(m.alive, 0);
}

/* I13, a rollback under a cursor: a reader on a version goes on when that is taken out. */
static void removed_version_still_leads_on(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_memtable *memtable = mw_memtable_create(&m.env);
    version v[3];
    for (size_t i = 0; i < 3; i++) {
        v[i] = (version){.key = {(uint8_t)i}, .key_bytes = 1, .sequence = i + 1};
        add(memtable, &v[i]);
    }
    mw_iter *forth;
    mw_iter *back;
    assert_int_equal(mw_memtable_iter(memtable, UINT64_MAX, 1, &forth, NULL), MW_OK);
    assert_int_equal(mw_memtable_iter(memtable, UINT64_MAX, 1, &back, NULL), MW_OK);
    mw_slice middle = key_of(&v[1]);
    assert_int_equal(forth->ops->seek(forth, middle, NULL), MW_OK);
    assert_int_equal(back->ops->seek_back(back, middle, NULL), MW_OK);
    mw_memtable_remove(memtable, v[1].node);
    assert_stands_on(forth, &v[1]);
    assert_stands_on(back, &v[1]);
    assert_int_equal(forth->ops->next(forth, NULL), MW_OK);
    assert_stands_on(forth, &v[2]);
    assert_int_equal(back->ops->prev(back, NULL), MW_OK);
    assert_stands_on(back, &v[0]);
    assert_null(mw_memtable_find(memtable, middle, UINT64_MAX));

    /* The same version may come back, right where the writer has just been. */
    add(memtable, &v[1]);
    assert_ptr_equal(mw_memtable_find(memtable, middle, UINT64_MAX), v[1].node);
    mw_iter_close(forth);
    mw_iter_close(back);
    mw_memtable_unref(memtable);
    assert_int_equal(m.alive, 0);
}

/* Whichever allocation fails, the memtable is as before and goes on. */
static void refused_memory_changes_nothing(void **state)
{
    (void)state;
    static sorted model;
    uint64_t dice = 11;
    memory m;
    memory_init(&m);
    memory_refuse(&m, 1);
    assert_null(mw_memtable_create(&m.env));
    mw_memtable *memtable = mw_memtable_create(&m.env);
    assert_non_null(memtable);
    model.count = 0;
    size_t refused = 0;
    for (uint64_t sequence = 1; sequence <= 2000; sequence++) {
        version v = {.sequence = sequence};
        v.key_bytes = random_key(&dice, v.key);
        uint8_t row[32];
        mw_slice slice = mw_slice_of(row, row_of(&v, row));
        size_t bytes = mw_memtable_bytes(memtable);
        memory_refuse(&m, 1);
        mw_err err = {0};
        mw_rc rc = mw_memtable_add(memtable, key_of(&v), sequence, false, slice, &v.node, &err);
        if (rc != MW_OK) {
            refused++;
            assert_int_equal(rc, MW_NOMEM);
            assert_int_equal(err.rc, MW_NOMEM);
            assert_int_equal(mw_memtable_bytes(memtable), bytes);
            assert_int_equal(mw_memtable_versions(memtable), model.count);
            m.refuse_at = 0;
            assert_like_model(memtable, &model, UINT64_MAX, &dice);
            add(memtable, &v);
        }
        model_add(&model, &v);
    }
    assert_true(refused >= 5);
    mw_iter *iter = NULL;
    memory_refuse(&m, 1);
    assert_int_equal(mw_memtable_iter(memtable, 1, 1, &iter, NULL), MW_NOMEM);
    assert_null(iter);
    assert_like_model(memtable, &model, UINT64_MAX, &dice);
    mw_memtable_unref(memtable);
    assert_int_equal(m.alive, 0);
}

static void iterator_decodes_columns_and_keeps_the_memtable(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_memtable *memtable = mw_memtable_create(&m.env);
    mw_value values[2] = {{.type = MW_INTEGER, .integer = -7},
                          {.type = MW_TEXT, .bytes = {(const uint8_t *)"lion", 4}}};
    mw_buf row;
    mw_buf_init(&row, &m.env);
    mw_row_encode(&row, values, 2);
    mw_slice key = mw_slice_of("k", 1);
    mw_slice bytes = mw_buf_slice(&row);
    assert_int_equal(mw_memtable_add(memtable, key, 1, false, bytes, NULL, NULL), MW_OK);
    mw_buf_free(&row);
    mw_iter *iter;
    assert_int_equal(mw_memtable_iter(memtable, 1, 2, &iter, NULL), MW_OK);
    mw_memtable_unref(memtable);
    assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
    for (uint32_t i = 0; i < 2; i++) {
        mw_value value;
        assert_int_equal(iter->ops->column(iter, i, &value, NULL), MW_OK);
        assert_true(mw_value_equal(&value, &values[i]));
    }
    mw_iter_close(iter);
    assert_int_equal(m.alive, 0);
}

static void oversized_key_is_refused(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_memtable *memtable = mw_memtable_create(&m.env);
    mw_slice huge = mw_slice_of("", (size_t)1 << 31);
    mw_slice small = mw_slice_of("a", 1);
    mw_err err = {0};
    assert_int_equal(mw_memtable_add(memtable, huge, 1, false, small, NULL, &err), MW_TOOBIG);
    assert_int_equal(mw_memtable_add(memtable, small, 1, false, huge, NULL, NULL), MW_TOOBIG);
    assert_int_equal(mw_memtable_versions(memtable), 0);
    mw_memtable_unref(memtable);
    assert_int_equal(m.alive, 0);
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { SHARED_KEYS = 512, SHARED_ROUNDS = 12, READERS = 3 };

typedef struct shared {
    mw_memtable *memtable;
    _Atomic uint64_t visible; /* all versions up to here are added for good */
    _Atomic bool done;
    _Atomic int faults; /* cmocka's asserts belong to the main thread */
} shared;

static void shared_key(uint64_t sequence, uint8_t key[8])
{
    /* Every key comes once a round, far from the one before. */
    mw_key_put_integer(key, (int64_t)((sequence - 1) * 229 % SHARED_KEYS));
}

/* One walk at a limit must yield exactly the keys that the limit covers, each with its newest
** version. */
static void read_once(shared *s, bool back)
{
    uint64_t limit = atomic_load_explicit(&s->visible, memory_order_acquire);
    uint64_t expected = limit < SHARED_KEYS ? limit : SHARED_KEYS;
    mw_iter *iter;
    if (mw_memtable_iter(s->memtable, limit, 1, &iter, NULL) != MW_OK) {
        s->faults++;
        return;
    }
    (void)!(back ? iter->ops->last(iter, NULL) : iter->ops->first(iter, NULL));
    uint64_t seen = 0;
    for (; iter->valid; seen++) {
        uint8_t key[8];
        shared_key(iter->sequence, key);
        mw_slice row = mw_memtable_iter_row(iter);
        if (iter->sequence > limit || limit - iter->sequence >= SHARED_KEYS ||
            !mw_slice_equal(iter->key, mw_slice_of(key, 8)) || row.size != 8 ||
            mw_get_u64(row.data) != iter->sequence) {
            s->faults++;
        }
        (void)!(back ? iter->ops->prev(iter, NULL) : iter->ops->next(iter, NULL));
    }
    if (seen != expected) s->faults++;
    mw_iter_close(iter);
}

static void *read_always(void *arg)
{
    shared *s = arg;
    for (int i = 0; !s->done; i++) read_once(s, i % 2 == 1);
    return NULL;
}

static void add_shared(shared *s, uint64_t sequence, mw_node **node)
{
    uint8_t key[8];
    uint8_t row[8];
    shared_key(sequence, key);
    mw_put_u64(row, sequence);
    mw_rc rc = mw_memtable_add(s->memtable, mw_slice_of(key, 8), sequence, false,
                               mw_slice_of(row, 8), node, NULL);
    if (rc != MW_OK) s->faults++;
}

/* I13: what a reader may see is complete and unchanged while a writer adds and takes out. */
static void readers_see_one_moment_while_one_adds(void **state)
{
    (void)state;
    shared s = {.memtable = mw_memtable_create(mw_env_posix())};
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_always, &s), 0);
    }
    for (uint64_t sequence = 1; sequence <= SHARED_KEYS * SHARED_ROUNDS; sequence++) {
        mw_node *node = NULL;
        add_shared(&s, sequence, &node);
        if (sequence % 5 == 0 && node) {
            mw_memtable_remove(s.memtable, node);
            add_shared(&s, sequence, &node);
        }
        atomic_store_explicit(&s.visible, sequence, memory_order_release);
    }
    s.done = true;
    for (int i = 0; i < READERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    read_once(&s, false);
    read_once(&s, true);
    assert_int_equal(s.faults, 0);
    assert_int_equal(mw_memtable_versions(s.memtable), SHARED_KEYS * SHARED_ROUNDS);
    mw_memtable_unref(s.memtable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memtable_is_a_sorted_array),
        cmocka_unit_test(versions_of_one_id_fall_by_sequence),
        cmocka_unit_test(removed_version_still_leads_on),
        cmocka_unit_test(refused_memory_changes_nothing),
        cmocka_unit_test(iterator_decodes_columns_and_keeps_the_memtable),
        cmocka_unit_test(oversized_key_is_refused),
        cmocka_unit_test(readers_see_one_moment_while_one_adds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
