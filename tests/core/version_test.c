/* version_test.c: versions share what they have in common, keep what a reader needs, and find the
** newest version of an id. */
#include "version.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- generations ----------------------------------------------------------------------------- */

static void a_generation_closes_its_segment_with_its_last_reference(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    int dir;
    mw_generation *generation = NULL;
    mw_log_header header = {
        .epoch = 1, .number = 1, .generation = 7, .first_position = 5, .generation_start = 5};
    assert_int_equal(env->dir_open(env->ctx, "d", true, &dir), 0);
    assert_int_equal(mw_generation_create(env, 7, 5, &generation, NULL), MW_OK);
    assert_int_equal(generation->number, 7);
    assert_int_equal(generation->first_position, 5);
    for (uint64_t number = 1; number < 4; number++) {
        assert_int_equal(mw_generation_add_log(generation, (mw_log_id){1, number}, NULL), MW_OK);
    }
    assert_int_equal(generation->log_count, 3);
    assert_int_equal(generation->logs[2].number, 3);
    assert_int_equal(mw_log_segment_create(env, dir, &header, &generation->segment, NULL), MW_OK);
    assert_ptr_equal(mw_generation_ref(generation), generation);
    mw_generation_unref(generation);
    assert_int_equal(sim_open_count(world), 2);
    mw_generation_unref(generation);
    assert_int_equal(sim_open_count(world), 1);
    mw_generation_unref(NULL);
    env->dir_close(env->ctx, dir);
    engine_end(world);
}

static void a_generation_without_memory_is_none(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    mw_rc rc = MW_NOMEM;
    uint64_t n = 1;
    for (; rc == MW_NOMEM; n++) {
        mw_generation *generation = NULL;
        sim_fail(world, SIM_ALLOC, n, ENOMEM, false);
        rc = mw_generation_create(env, 1, 1, &generation, NULL);
        if (rc == MW_OK) rc = mw_generation_add_log(generation, (mw_log_id){1, 1}, NULL);
        sim_fail_clear(world);
        if (generation && rc == MW_NOMEM) assert_int_equal(generation->log_count, 0);
        mw_generation_unref(generation);
        assert_int_equal(sim_memory_in_use(world), 0);
    }
    assert_true(n > 3);
    engine_end(world);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A store with a base and two generations; the files of its manifest opened once more. */
typedef struct place {
    sim *world;
    mw_db *db;
    mw_store *store;
    mw_files_source source;
} place;

static place open_place(void)
{
    place at = {.world = engine_world()};
    at.db = engine_open(at.world, NULL);
    engine_put(at.db, 1, "base");
    engine_put(at.db, 2, "base");
    engine_put(at.db, 3, "base");
    engine_flush(at.db);
    engine_merge(at.db, 0);
    engine_put(at.db, 2, "generation");
    engine_delete(at.db, 3);
    engine_flush(at.db);
    engine_put(at.db, 4, "generation");
    engine_flush(at.db);
    at.store = engine_store(at.db);
    at.source = mw_store_files_source(at.store, NULL);
    return at;
}

static void close_place(place *at)
{
    engine_close(at->db);
    engine_end(at->world);
}

/* Tables that a version has already are shared, and nothing is opened for those of a store that is
** being opened. Newest first. */
static void tables_are_shared_and_opened_late(void **state)
{
    (void)state;
    place at = open_place();
    mw_files *alone = NULL;
    mw_files *sharing = NULL;
    mw_manifest *manifest = at.store->version->manifest;
    uint64_t opens = sim_calls(at.world, SIM_OPEN);
    uint64_t lists = sim_calls(at.world, SIM_LIST);
    assert_int_equal(mw_files_open(&at.source, manifest, &alone, NULL), MW_OK);
    assert_int_equal(sim_calls(at.world, SIM_OPEN), opens);
    assert_int_equal(sim_calls(at.world, SIM_LIST), lists + 1);
    assert_int_equal(alone->table_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(mw_table_number(alone->tables[i]), manifest->files[2 - i].number);
    }
    at.source.from = at.store->version->files;
    assert_int_equal(mw_files_open(&at.source, manifest, &sharing, NULL), MW_OK);
    assert_int_equal(sim_calls(at.world, SIM_OPEN), opens);
    assert_int_equal(sim_calls(at.world, SIM_LIST), lists + 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(sharing->tables[i], at.source.from->tables[i]);
    assert_ptr_equal(mw_files_ref(alone), alone);
    mw_files_unref(alone);
    mw_files_unref(alone);
    mw_files_unref(sharing);
    mw_files_unref(NULL);
    assert_string_equal(engine_rows(at.db), "1=base 2=generation 4=generation");
    close_place(&at);
}

static void expect_nothing_stays_open(place *at, const sim_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mw_rc rc = MW_IO;
        uint64_t n = 1;
        for (; rc != MW_OK; n++) {
            mw_files *files = NULL;
            uint32_t open = sim_open_count(at->world);
            uint64_t memory = sim_memory_in_use(at->world);
            sim_fail(at->world, ops[i], n, EIO, false);
            rc = mw_files_open(&at->source, at->store->version->manifest, &files, NULL);
            sim_fail_clear(at->world);
            mw_files_unref(files);
            assert_int_equal(sim_open_count(at->world), open);
            assert_int_equal(sim_memory_in_use(at->world), memory);
        }
        assert_true(n > 2);
    }
}

/* Each call and each allocation in turn fails: an error, and nothing stays open. */
static void files_that_cannot_be_opened_leave_nothing_open(void **state)
{
    (void)state;
    static const sim_op opening[] = {SIM_LIST, SIM_ALLOC};
    static const sim_op adding[] = {SIM_OPEN, SIM_SIZE, SIM_READ, SIM_ALLOC};
    mw_files none = {0};
    place at = open_place();
    expect_nothing_stays_open(&at, opening, 2);
    at.source.from = &none;
    /* Working memory for reading is kept by the pool, so it must be there before. */
    mw_files *files = NULL;
    assert_int_equal(mw_files_open(&at.source, at.store->version->manifest, &files, NULL), MW_OK);
    mw_files_unref(files);
    expect_nothing_stays_open(&at, adding, 4);
    close_place(&at);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    place at = open_place();
    char path[ENGINE_PATH_BYTES];
    mw_files *files = NULL;
    mw_err err = {0};
    assert_true(engine_file(at.world, "table-", 1, path));
    sim_file_delete(at.world, path);
    assert_int_equal(mw_files_open(&at.source, at.store->version->manifest, &files, &err),
                     MW_MISSING);
    assert_non_null(strstr(err.text, path + 6));
    close_place(&at);
}

/* ---- what lives ------------------------------------------------------------------------------ */

static bool lives(const mw_version *version, int64_t id, uint64_t limit)
{
    uint8_t key[8];
    bool yes = false;
    assert_int_equal(mw_version_lives(version, engine_key(id, key), limit, &yes, NULL), MW_OK);
    return yes;
}

/* The first part that has the id decides, memtables by sequence; a tombstone is an answer, too. */
static void the_newest_part_that_has_an_id_decides(void **state)
{
    (void)state;
    place at = open_place();
    engine_delete(at.db, 1);
    engine_put(at.db, 3, "memory");
    const mw_version *version = at.store->version;
    uint64_t sequence = at.store->visible.sequence;
    assert_int_equal(sequence, 8);
    static const bool newest[] = {false, false, true, true, true, false};
    static const bool before_memory[] = {false, true, true, false, true, false};
    for (int64_t id = 0; id < 6; id++) {
        assert_int_equal(lives(version, id, sequence), newest[id]);
        assert_int_equal(lives(version, id, UINT64_MAX), newest[id]);
        assert_int_equal(lives(version, id, sequence - 2), before_memory[id]);
    }
    assert_false(lives(version, 3, sequence - 1)); /* the delete of 1 is in, the put of 3 is not */
    assert_false(lives(version, 1, sequence - 1));
    close_place(&at);
}

static void an_answer_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    place at = open_place();
    mw_db_abandon(at.db);
    at.db = engine_open(at.world, NULL); /* with a fresh cache */
    at.store = engine_store(at.db);
    uint8_t key[8];
    bool yes;
    sim_fail_named(at.world, SIM_READ, "table-", 1, EIO, false);
    assert_int_equal(
        mw_version_lives(at.store->version, engine_key(1, key), UINT64_MAX, &yes, NULL), MW_IO);
    assert_true(lives(at.store->version, 1, UINT64_MAX));
    close_place(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generation_closes_its_segment_with_its_last_reference),
        cmocka_unit_test(a_generation_without_memory_is_none),
        cmocka_unit_test(tables_are_shared_and_opened_late),
        cmocka_unit_test(files_that_cannot_be_opened_leave_nothing_open),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(the_newest_part_that_has_an_id_decides),
        cmocka_unit_test(an_answer_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
