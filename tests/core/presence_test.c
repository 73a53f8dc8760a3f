/* Promises of presence.h: no id that was added is ever denied, and few others pass. */
#include "memory.h"
#include "presence.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 50000 };

static mw_slice id_of(uint32_t number, char text[16])
{
    int size = snprintf(text, 16, "id-%08u", number);
    return mw_slice_of(text, (size_t)size);
}

/* As a memtable does it: grown when due, all ids added again. */
static void add(mw_presence *presence, mw_arena *arena, uint32_t number)
{
    char text[16];
    if (mw_presence_due(presence)) {
        mw_presence_words *words = mw_presence_grow(presence, arena);
        for (uint32_t i = 0; words && i < number; i++) mw_presence_words_add(words, id_of(i, text));
        if (words) mw_presence_publish(presence, words);
    }
    mw_presence_add(presence, id_of(number, text));
}

static void an_id_that_was_added_is_never_denied(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_arena arena;
    mw_presence presence;
    char text[16];
    mw_arena_init(&arena, &m.env);
    mw_presence_init(&presence);
    for (uint32_t i = 0; i < IDS; i++) {
        add(&presence, &arena, i);
        assert_true(mw_presence_may_hold(&presence, id_of(i / 2, text)));
    }
    for (uint32_t i = 0; i < IDS; i++) {
        assert_true(mw_presence_may_hold(&presence, id_of(i, text)));
    }
    uint32_t passed = 0;
    for (uint32_t i = IDS; i < 2 * IDS; i++) {
        passed += mw_presence_may_hold(&presence, id_of(i, text));
    }
    assert_true(passed > 0); /* a filter that denies everything else would be an index */
    assert_true(passed < IDS / 50);
    mw_arena_free(&arena);
}

static void without_words_everything_may_be_there(void **state)
{
    (void)state;
    mw_presence presence;
    char text[16];
    mw_presence_init(&presence);
    assert_true(mw_presence_may_hold(&presence, id_of(7, text)));
    assert_false(mw_presence_due(&presence));
}

/* Readers ask for ids that they know to be in while one thread adds more and the words change. */
typedef struct shared {
    mw_presence presence;
    _Atomic uint32_t added;
    _Atomic uint32_t denied;
} shared;

static void *read_ids(void *arg)
{
    shared *at = arg;
    char text[16];
    for (uint32_t known = 0; known < IDS;) {
        known = atomic_load_explicit(&at->added, memory_order_acquire);
        for (uint32_t i = known > 64 ? known - 64 : 0; i < known; i++) {
            if (!mw_presence_may_hold(&at->presence, id_of(i, text))) atomic_fetch_add(&at->denied, 1);
        }
    }
    return NULL;
}

static void readers_need_no_lock(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_arena arena;
    static shared at;
    pthread_t reader;
    mw_arena_init(&arena, &m.env);
    mw_presence_init(&at.presence);
    assert_int_equal(pthread_create(&reader, NULL, read_ids, &at), 0);
    for (uint32_t i = 0; i < IDS; i++) {
        add(&at.presence, &arena, i);
        atomic_store_explicit(&at.added, i + 1, memory_order_release);
    }
    pthread_join(reader, NULL);
    assert_int_equal(at.denied, 0);
    mw_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_that_was_added_is_never_denied),
        cmocka_unit_test(without_words_everything_may_be_there),
        cmocka_unit_test(readers_need_no_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
