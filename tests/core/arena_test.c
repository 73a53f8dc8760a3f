/* arena_test.c: pieces do not overlap, survive growth, and are all given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arena.h"
#include "memory.h"

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 9, 0, 100, 1000, 1025, 4096, 5000, 300000, 24};
    enum { PIECES = 600, SIZES = sizeof sizes / sizeof *sizes };
    memory m;
    memory_init(&m);
    mw_arena arena;
    mw_arena_init(&arena, &m.env);
    uint8_t *pieces[PIECES];
    size_t expected = 0;
    for (size_t i = 0; i < PIECES; i++) {
        size_t bytes = sizes[i % SIZES];
        pieces[i] = mw_arena_alloc(&arena, bytes);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 8, 0);
        memset(pieces[i], (int)(i & 0xff), bytes);
        expected += (bytes + 7) / 8 * 8;
        assert_int_equal(mw_arena_bytes(&arena), expected);
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t j = 0; j < sizes[i % SIZES]; j++) assert_int_equal(pieces[i][j], i & 0xff);
    }
    mw_arena_free(&arena);
    assert_int_equal(m.alive, 0);
    assert_int_equal(mw_arena_bytes(&arena), 0);
    mw_arena_free(&arena);
}

static void chunks_grow_so_that_they_stay_few(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_arena arena;
    mw_arena_init(&arena, &m.env);
    assert_non_null(mw_arena_alloc(&arena, 16));
    assert_int_equal(m.asked, 1);
    for (int i = 0; i < 16 * 1024 * 1024 / 128; i++) assert_non_null(mw_arena_alloc(&arena, 128));
    assert_in_range(m.asked, 16, 16 + 10);
    mw_arena_free(&arena);
    assert_int_equal(m.alive, 0);
}

static void a_big_piece_leaves_the_chunk_in_use(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_arena arena;
    mw_arena_init(&arena, &m.env);
    uint8_t *small = mw_arena_alloc(&arena, 16);
    assert_non_null(small);
    assert_non_null(mw_arena_alloc(&arena, 1 << 20));
    assert_ptr_equal(mw_arena_alloc(&arena, 16), small + 16);
    assert_int_equal(m.asked, 2);
    mw_arena_free(&arena);
    assert_int_equal(m.alive, 0);
}

static void a_refused_chunk_changes_nothing(void **state)
{
    (void)state;
    memory m;
    memory_init(&m);
    mw_arena arena;
    mw_arena_init(&arena, &m.env);
    memory_refuse(&m, 1);
    assert_null(mw_arena_alloc(&arena, 16));
    assert_int_equal(mw_arena_bytes(&arena), 0);
    assert_non_null(mw_arena_alloc(&arena, 16));
    memory_refuse(&m, 1);
    assert_null(mw_arena_alloc(&arena, 100000));
    assert_int_equal(mw_arena_bytes(&arena), 16);
    assert_null(mw_arena_alloc(&arena, SIZE_MAX));
    assert_null(mw_arena_alloc(&arena, SIZE_MAX - 16));
    assert_int_equal(mw_arena_bytes(&arena), 16);
    mw_arena_free(&arena);
    assert_int_equal(m.alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(chunks_grow_so_that_they_stay_few),
        cmocka_unit_test(a_big_piece_leaves_the_chunk_in_use),
        cmocka_unit_test(a_refused_chunk_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
