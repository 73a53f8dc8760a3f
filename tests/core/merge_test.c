/* merge_test.c: a merge shows of each id the newest version among its sources, for any number of
** sources, in both directions, with and without tombstones; and it passes failures on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"
#include "memtable.h"
#include "merge.h"

enum { KEYS = 120, SOURCES_MAX = 12, KEY_BYTES_MAX = 12 };

static uint64_t roll(uint64_t *dice)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return *dice;
}

/* Key number n; keys are ordered as their numbers. Half of them share their first 8 bytes. */
static mw_slice key_of(size_t n, char key[KEY_BYTES_MAX])
{
    int bytes = n < KEYS / 2 ? snprintf(key, KEY_BYTES_MAX, "%05zu", n)
                             : snprintf(key, KEY_BYTES_MAX, "prefixed%03zu", n);
    return mw_slice_of(key, (size_t)bytes);
}

/* ---- the model: the newest version of each key, if any ------------------------------------- */

typedef struct newest {
    bool known;
    bool tombstone;
    uint64_t sequence;
} newest;

typedef struct stack {
    memory memory;
    mw_memtable *memtables[SOURCES_MAX]; /* newest first */
    uint32_t count;
    newest keys[KEYS];
} stack;

static void add(stack *s, uint32_t source, size_t n, uint64_t sequence, bool tombstone)
{
    char key[KEY_BYTES_MAX];
    mw_slice row = mw_slice_of("r", tombstone ? 0 : 1);
    assert_int_equal(mw_memtable_add(s->memtables[source], key_of(n, key), sequence, tombstone,
                                     row, NULL, NULL), MW_OK);
}

/* Sources of very different sizes, among them empty ones; sequences fall with the order. */
static void fill(stack *s, uint32_t count, uint64_t *dice)
{
    memory_init(&s->memory);
    memset(s->keys, 0, sizeof s->keys);
    s->count = count;
    uint64_t sequence = (uint64_t)count * KEYS;
    for (uint32_t i = 0; i < count; i++) {
        s->memtables[i] = mw_memtable_create(&s->memory.env);
        uint64_t share = roll(dice) % 4; /* in thirds: none, some, many, all keys */
        for (size_t n = 0; n < KEYS; n++) {
            if (roll(dice) % 3 >= share) continue;
            bool tombstone = roll(dice) % 3 == 0;
            add(s, i, n, sequence, tombstone);
            if (!s->keys[n].known) s->keys[n] = (newest){true, tombstone, sequence};
            sequence--;
        }
    }
}

static void empty(stack *s)
{
    for (uint32_t i = 0; i < s->count; i++) mw_memtable_unref(s->memtables[i]);
    assert_int_equal(s->memory.alive, 0);
}

static mw_rc open_merge(stack *s, mw_tombstones tombstones, mw_iter **iter, mw_err *err)
{
    mw_iter *sources[SOURCES_MAX];
    for (uint32_t i = 0; i < s->count; i++) {
        assert_int_equal(mw_memtable_iter(s->memtables[i], UINT64_MAX, 1, &sources[i], NULL),
                         MW_OK);
    }
    return mw_merge_create(&s->memory.env, sources, s->count, tombstones, iter, err);
}

/* First key from n on, in steps of +1 or -1, that the merge may show; KEYS: none. */
static size_t shown_from(const stack *s, mw_tombstones tombstones, size_t n, bool back)
{
    for (; n < KEYS; n = back ? n - 1 : n + 1) {
        const newest *k = &s->keys[n];
        if (k->known && !(k->tombstone && tombstones == MW_DROP_TOMBSTONES)) return n;
    }
    return KEYS;
}

static void assert_walks_from(const stack *s, mw_tombstones tombstones, mw_iter *iter, size_t n,
                              bool back)
{
    for (n = shown_from(s, tombstones, n, back); n < KEYS;) {
        char key[KEY_BYTES_MAX];
        assert_true(iter->valid);
        assert_true(mw_slice_equal(iter->key, key_of(n, key)));
        assert_int_equal(iter->sequence, s->keys[n].sequence);
        assert_int_equal(iter->tombstone, s->keys[n].tombstone);
        mw_rc rc = back ? iter->ops->prev(iter, NULL) : iter->ops->next(iter, NULL);
        assert_int_equal(rc, MW_OK);
        n = shown_from(s, tombstones, back ? n - 1 : n + 1, back);
    }
    assert_false(iter->valid);
}

static void assert_like_model(stack *s, mw_tombstones tombstones)
{
    mw_iter *iter = NULL;
    assert_int_equal(open_merge(s, tombstones, &iter, NULL), MW_OK);
    assert_false(iter->valid);
    assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
    assert_walks_from(s, tombstones, iter, 0, false);
    assert_int_equal(iter->ops->last(iter, NULL), MW_OK);
    assert_walks_from(s, tombstones, iter, KEYS - 1, true);
    for (size_t n = 0; n < KEYS; n += 7) {
        char key[KEY_BYTES_MAX];
        assert_int_equal(iter->ops->seek(iter, key_of(n, key), NULL), MW_OK);
        assert_walks_from(s, tombstones, iter, n, false);
        assert_int_equal(iter->ops->seek_back(iter, key_of(n, key), NULL), MW_OK);
        assert_walks_from(s, tombstones, iter, n, true);
    }
    mw_iter_close(iter);
}

/* I6, as seen from above: an id comes once, whatever lies below. */
static void newest_version_wins(void **state)
{
    (void)state;
    static stack s;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t dice = seed * UINT64_C(0x9e3779b97f4a7c15);
        print_message("seed %llu\n", (unsigned long long)seed);
        for (uint32_t count = 1; count <= SOURCES_MAX; count++) {
            fill(&s, count, &dice);
            assert_like_model(&s, MW_KEEP_TOMBSTONES);
            assert_like_model(&s, MW_DROP_TOMBSTONES);
            empty(&s);
        }
    }
}

static void no_sources_are_an_empty_view(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_iter *iter = NULL;
    assert_int_equal(mw_merge_create(&m.env, NULL, 0, MW_KEEP_TOMBSTONES, &iter, NULL), MW_OK);
    assert_int_equal(iter->ops->first(iter, NULL), MW_OK);
    assert_false(iter->valid);
    assert_int_equal(iter->ops->last(iter, NULL), MW_OK);
    assert_false(iter->valid);
    mw_iter_close(iter);
    assert_int_equal(m.alive, 0);
}

static void single_source_is_its_own_view(void **state)
{
    (void)state;
    static stack s;
    uint64_t dice = 5;
    fill(&s, 1, &dice);
    mw_iter *source = NULL;
    mw_iter *iter = NULL;
    assert_int_equal(mw_memtable_iter(s.memtables[0], 1, 1, &source, NULL), MW_OK);
    assert_int_equal(mw_merge_create(&s.memory.env, &source, 1, MW_KEEP_TOMBSTONES, &iter, NULL),
                     MW_OK);
    assert_ptr_equal(iter, source);
    mw_iter_close(iter);
    empty(&s);
}

static void refused_memory_closes_the_sources(void **state)
{
    (void)state;
    static stack s;
    uint64_t dice = 9;
    fill(&s, 4, &dice);
    mw_iter *iter = NULL;
    mw_err err = {0};
    memory_refuse(&s.memory, 4 + 1); /* behind the four iterators */
    assert_int_equal(open_merge(&s, MW_KEEP_TOMBSTONES, &iter, &err), MW_NOMEM);
    assert_int_equal(err.rc, MW_NOMEM);
    assert_null(iter);
    empty(&s);
}

/* An older source with a higher (or the same) sequence of an id: files in a wrong order. */
static void wrong_order_of_sources_is_damage(void **state)
{
    (void)state;
    for (uint64_t older = 9; older <= 11; older++) {
        static stack s;
        uint64_t dice = 1;
        fill(&s, 3, &dice);
        for (uint32_t i = 0; i < 3; i++) {
            mw_memtable_unref(s.memtables[i]);
            s.memtables[i] = mw_memtable_create(&s.memory.env);
        }
        add(&s, 0, 3, 20, false);
        add(&s, 1, 3, 10, false);
        add(&s, 2, 3, older, true);
        mw_iter *iter = NULL;
        mw_err err = {0};
        mw_rc expected = older < 10 ? MW_OK : MW_CORRUPT;
        assert_int_equal(open_merge(&s, MW_DROP_TOMBSTONES, &iter, NULL), MW_OK);
        assert_int_equal(iter->ops->first(iter, &err), expected);
        assert_int_equal(iter->valid, expected == MW_OK);
        assert_int_equal(err.rc, expected);
        assert_int_equal(iter->ops->last(iter, NULL), expected);
        mw_iter_close(iter);
        empty(&s);
    }
}

/* ---- a source that fails -------------------------------------------------------------------- */

/* Yields three keys, "a0" "b0" "c0", and fails at its n-th move. */
typedef struct broken {
    mw_iter base;
    int moves_left;
    int at;
    char key[3];
    bool *closed;
} broken;

static mw_rc stand(broken *b, int at, mw_err *err)
{
    b->base.valid = false;
    if (b->moves_left-- == 0) return mw_fail(err, MW_IO, "a planted failure");
    b->at = at;
    b->key[0] = (char)('a' + at);
    b->key[1] = '0';
    b->base.valid = at >= 0 && at < 3;
    b->base.key = mw_slice_of(b->key, 2);
    b->base.sequence = 1;
    return MW_OK;
}

static mw_rc broken_first(mw_iter *iter, mw_err *err) { return stand((broken *)iter, 0, err); }
static mw_rc broken_last(mw_iter *iter, mw_err *err) { return stand((broken *)iter, 2, err); }
static mw_rc broken_seek(mw_iter *iter, mw_slice key, mw_err *err)
{
    return stand((broken *)iter, key.data[0] - 'a', err);
}
static mw_rc broken_next(mw_iter *iter, mw_err *err)
{
    return stand((broken *)iter, ((broken *)iter)->at + 1, err);
}
static mw_rc broken_prev(mw_iter *iter, mw_err *err)
{
    return stand((broken *)iter, ((broken *)iter)->at - 1, err);
}
static mw_rc broken_column(mw_iter *iter, uint32_t index, mw_value *value, mw_err *err)
{
    (void)iter;
    *value = (mw_value){.type = MW_INTEGER, .integer = index};
    return index == 7 ? mw_fail(err, MW_IO, "a planted failure") : MW_OK;
}
static void broken_close(mw_iter *iter)
{
    *((broken *)iter)->closed = true;
}

static const mw_iter_ops broken_ops = {broken_first, broken_last, broken_seek,   broken_seek,
                                       broken_next,  broken_prev, broken_column, broken_close};

/* I9: a source that cannot read never makes rows go missing in silence. */
static void failure_of_a_source_is_passed_on(void **state)
{
    (void)state;
    for (int moves = 0; moves <= 1; moves++) {
        bool closed[2] = {false, false};
        broken newer = {.base = {.ops = &broken_ops}, .moves_left = 100, .closed = &closed[0]};
        broken older = {.base = {.ops = &broken_ops}, .moves_left = moves, .closed = &closed[1]};
        memory m;
        memory_init(&m);
        mw_iter *sources[] = {&newer.base, &older.base};
        mw_iter *iter = NULL;
        mw_err err = {0};
        mw_rc rc = mw_merge_create(&m.env, sources, 2, MW_KEEP_TOMBSTONES, &iter, NULL);
        assert_int_equal(rc, MW_OK);
        rc = iter->ops->seek_back(iter, mw_slice_of("b", 1), &err);
        /* Both stand on b0 with sequence 1: the order is wrong, unless the read failed first. */
        assert_int_equal(rc, moves == 0 ? MW_IO : MW_CORRUPT);
        assert_int_equal(err.rc, rc);
        assert_false(iter->valid);
        mw_iter_close(iter);
        assert_true(closed[0] && closed[1]);
        assert_int_equal(m.alive, 0);
    }
}

/* Whichever move fails, what was shown before is right, and the failure is told. */
static void failure_comes_at_the_move_that_needs_it(void **state)
{
    (void)state;
    static const char *const keys[] = {"a0", "b0", "c0"};
    for (int moves = 0; moves <= 4; moves++) {
        bool closed = false;
        broken source = {.base = {.ops = &broken_ops}, .moves_left = moves, .closed = &closed};
        memory m;
        memory_init(&m);
        mw_iter *sources[] = {&source.base};
        mw_iter *iter = NULL;
        mw_rc rc = mw_merge_create(&m.env, sources, 1, MW_DROP_TOMBSTONES, &iter, NULL);
        assert_int_equal(rc, MW_OK);
        rc = iter->ops->first(iter, NULL);
        int seen = 0;
        for (; rc == MW_OK && iter->valid; seen++) {
            assert_true(mw_slice_equal(iter->key, mw_slice_of(keys[seen], 2)));
            mw_value value;
            assert_int_equal(iter->ops->column(iter, 4, &value, NULL), MW_OK);
            assert_int_equal(value.integer, 4);
            assert_int_equal(iter->ops->column(iter, 7, &value, NULL), MW_IO);
            rc = iter->ops->next(iter, NULL);
        }
        assert_int_equal(seen, moves < 3 ? moves : 3);
        assert_int_equal(rc, moves < 4 ? MW_IO : MW_OK);
        assert_false(iter->valid);
        mw_iter_close(iter);
        assert_true(closed);
        assert_int_equal(m.alive, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_version_wins),
        cmocka_unit_test(no_sources_are_an_empty_view),
        cmocka_unit_test(single_source_is_its_own_view),
        cmocka_unit_test(refused_memory_closes_the_sources),
        cmocka_unit_test(wrong_order_of_sources_is_damage),
        cmocka_unit_test(failure_of_a_source_is_passed_on),
        cmocka_unit_test(failure_comes_at_the_move_that_needs_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
