/* store_test.c: how a store moves from one version and one manifest to the next, and what it does
** when a number is taken, lost, or of unknown fate. */
#include "store.h"

#include "commit.h"
#include "engine.h"
#include "flush.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_store_without_memory_or_locks_is_none(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_ALLOC, SIM_MUTEX};
    mw_options options = engine_options();
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        mw_rc rc = MW_NOMEM;
        uint64_t n = 1;
        for (; rc != MW_OK; n++) {
            sim *world = sim_create();
            mw_store *store = NULL;
            sim_fail(world, ops[i], n, ENOMEM, false);
            rc = mw_store_create(sim_env(world), "a/path", &options, &store, NULL);
            assert_true(rc == MW_OK || rc == MW_NOMEM);
            if (rc == MW_OK) assert_string_equal(store->path, "a/path");
            mw_store_free(store);
            engine_end(world);
        }
        assert_true(n > 3);
    }
    mw_store_free(NULL);
}

/* ---- words ----------------------------------------------------------------------------------- */

static mw_err cause_of(mw_rc rc, const char *words)
{
    mw_err err = {0};
    mw_fail(&err, rc, "%s", words);
    return err;
}

static void the_first_cause_of_a_stop_stays(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    mw_err first = cause_of(MW_PERSISTENCE, "first");
    mw_err second = cause_of(MW_FENCED, "second");
    mw_err found = {0};
    mw_store_lock(store);
    assert_int_equal(mw_store_stopped(store, &found), MW_OK);
    mw_store_stop(store, &first);
    mw_store_stop(store, &second);
    assert_int_equal(mw_store_stopped(store, &found), MW_PERSISTENCE);
    mw_store_unlock(store);
    assert_string_equal(found.text, "first");
    mw_err refused = {0};
    assert_int_equal(engine_try(db, 1, "a", MW_TXN_LIGHT, &refused), MW_PERSISTENCE);
    assert_string_equal(refused.text, "first");
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

static void the_first_parked_failure_stays_until_it_is_made_up_for(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    mw_err first = cause_of(MW_FULL, "first");
    mw_err second = cause_of(MW_IO, "second");
    mw_store_park(store, &first);
    mw_store_park(store, &second);
    assert_string_equal(engine_words(db, "last_error"), "first");
    mw_store_unpark(store);
    assert_null(engine_words(db, "last_error"));
    mw_store_park(store, &second);
    mw_err err = {0};
    assert_int_equal(mw_db_close(db, &err), MW_IO);
    assert_string_equal(err.text, "second");
    engine_end(world);
}

static void a_deadline_beyond_all_time_is_none(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    uint64_t now = store->env->now_ns(store->env->ctx);
    assert_in_range(mw_store_deadline(store, 5) - now, 5000000, UINT64_C(60000000000));
    assert_true(mw_store_deadline(store, UINT64_MAX) == UINT64_MAX);
    assert_true(mw_store_deadline(store, UINT64_MAX / 1000000) == UINT64_MAX);
    engine_close(db);
    engine_end(world);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* I4, I11: a new version drops the memtables that its cursor covers and keeps the others; who holds
** an older one keeps them all. */
static void memtables_go_when_the_cursor_covers_them(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    engine_put(db, 1, "a");
    mw_txn *txn = engine_begin(db);
    uint64_t generation;
    engine_txn_put(txn, 2, "b");
    assert_int_equal(mw_flush_freeze(store, &generation, NULL), MW_OK);
    engine_commit(txn, MW_TXN_LIGHT);
    mw_version *held = mw_store_version(store);
    assert_int_equal(held->generation_count, 2);
    assert_int_equal(mw_flush_run(store, 1, UINT64_MAX, NULL), MW_OK);
    const mw_version *now = store->version;
    assert_int_equal(now->generation_count, 1);
    assert_ptr_equal(now->generations[0], held->generations[0]); /* the active one is the same */
    assert_int_equal(now->table_count, 1);
    assert_int_equal(held->generation_count, 2);
    assert_int_equal(held->table_count, 0);
    assert_int_equal(mw_memtable_versions(held->generations[1]->memtable), 1);
    mw_version_unref(held);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

typedef struct counter {
    mw_store *store;
    uint64_t numbers[200];
    pthread_t thread;
} counter;

static void *take_numbers(void *arg)
{
    counter *self = arg;
    for (int i = 0; i < 200; i++) self->numbers[i] = mw_store_table_number(self->store);
    return NULL;
}

/* Each number is given once, above all that the manifest knows. */
static void table_numbers_are_given_once(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store *store = engine_store(db);
    engine_put(db, 1, "a");
    engine_flush(db);
    engine_put(db, 2, "b");
    engine_flush(db);
    uint64_t known = store->version->manifest->table_number;
    assert_int_equal(known, 2);
    counter counters[3];
    bool given[1000] = {false};
    for (int i = 0; i < 3; i++) {
        counters[i].store = store;
        assert_int_equal(pthread_create(&counters[i].thread, NULL, take_numbers, &counters[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(counters[i].thread, NULL);
        for (int j = 0; j < 200; j++) {
            uint64_t number = counters[i].numbers[j];
            assert_in_range(number, known + 1, known + 600);
            assert_false(given[number]);
            given[number] = true;
        }
    }
    engine_close(db);
    engine_end(world);
}

/* ---- manifests ------------------------------------------------------------------------------- */

/* The successor of the current manifest, with the boundary that all have. */
static mw_manifest *successor(mw_store *store)
{
    mw_manifest *next = NULL;
    assert_int_equal(mw_manifest_copy(store->version->manifest, &next, NULL), MW_OK);
    next->boundary = next->number;
    return next;
}

static mw_rc publish(mw_store *store, mw_err *err)
{
    const mw_env *env = store->env;
    mw_manifest *next = successor(store);
    env->mutex_lock(env->ctx, store->manifest_mutex);
    mw_rc rc = mw_store_publish(store, next, err);
    env->mutex_unlock(env->ctx, store->manifest_mutex);
    mw_manifest_unref(next);
    return rc;
}

static mw_db *open_with_row(sim *world)
{
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    return db;
}

static void a_published_manifest_replaces_the_one_before(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_row(world);
    mw_store *store = engine_store(db);
    uint64_t number = store->version->manifest->number;
    assert_int_equal(publish(store, NULL), MW_OK);
    assert_int_equal(store->version->manifest->number, number + 1);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    assert_int_equal(publish(store, NULL), MW_OK);
    assert_int_equal(store->version->manifest->number, number + 2);
    assert_string_equal(engine_rows(db), "1=a");
    engine_close(db);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a");
    engine_close(db);
    engine_end(world);
}

static bool manifest_stands(sim *world, uint64_t number)
{
    char path[ENGINE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/manifest-%016llx", ENGINE_STORE, (unsigned long long)number);
    return sim_file_exists(world, path);
}

/* R26: one that cannot be removed keeps all above it, also in later publications, until it can be:
** a manifest that is there proves that none above it is gone. */
static void manifests_go_in_ascending_order_or_not_at_all(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_row(world);
    mw_store *store = engine_store(db);
    uint64_t number = store->version->manifest->number;
    char lowest[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(number, lowest);
    sim_fail_named(world, SIM_UNLINK, lowest, 1, EIO, true);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(publish(store, NULL), MW_OK);
        assert_int_equal(engine_file_count(world, "manifest-"), i + 1);
    }
    mw_store_remove_manifests(store, number, number + 3);
    assert_int_equal(engine_file_count(world, "manifest-"), 4);
    sim_fail_clear(world);
    mw_manifest_name(number + 2, lowest);
    sim_fail_named(world, SIM_UNLINK, lowest, 1, EIO, true);
    assert_int_equal(publish(store, NULL), MW_OK);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(manifest_stands(world, number + i), i >= 2);
    sim_fail_clear(world);
    assert_int_equal(publish(store, NULL), MW_OK);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    engine_close(db);
    engine_end(world);
}

/* A number that somebody has left far below the others costs no call for each number between. */
static void a_stray_far_below_is_removed_with_few_calls(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_row(world);
    mw_store *store = engine_store(db);
    for (int i = 0; i < 100; i++) assert_int_equal(publish(store, NULL), MW_OK);
    sim_file_put(world, "store/manifest-0000000000000001", "stray", 5);
    uint64_t before = sim_calls(world, SIM_UNLINK);
    assert_int_equal(publish(store, NULL), MW_OK);
    assert_in_range(sim_calls(world, SIM_UNLINK) - before, 1, 8);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    engine_close(db);
    engine_end(world);
}

/* Does one of the files that are made now get the identity of one that was there? */
static bool is_given_again(sim *world, const mw_store *store, mw_file_id id, const char *names)
{
    const mw_env *env = store->env;
    bool found = false;
    assert_int_equal(env->dir_sync(env->ctx, store->dir), 0); /* what is gone is free from now on */
    for (int i = 0; i < 40 && !found; i++) {
        char path[ENGINE_PATH_BYTES];
        mw_file_id made;
        snprintf(path, sizeof path, "%s/%s-%d", ENGINE_STORE, names, i);
        sim_file_put(world, path, "", 0);
        assert_int_equal(env->identify(env->ctx, store->dir, strrchr(path, '/') + 1, &made), 0);
        found = made.device == id.device && made.number == id.number;
    }
    return found;
}

/* R28: no other file can be taken for the manifest at hand, also when that is gone. */
static void the_own_manifest_keeps_its_identity(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = open_with_row(world);
    mw_store *store = engine_store(db);
    mw_file_id own = store->own.id;
    uint32_t open = sim_open_count(world);
    assert_int_equal(store->own.number, store->version->manifest->number);
    assert_true(engine_file(world, "manifest-", 0, path));
    sim_file_delete(world, path);
    assert_false(is_given_again(world, store, own, "first"));
    assert_int_equal(publish(store, NULL), MW_OK);
    assert_int_equal(store->own.number, store->version->manifest->number);
    assert_int_equal(sim_open_count(world), open);
    assert_true(is_given_again(world, store, own, "second"));
    engine_close(db);
    engine_end(world);
}

/* Without a descriptor for it nothing fails: commits list the folder. The next manifest is held
** again. */
static void no_descriptor_for_the_own_manifest_is_no_failure(void **state)
{
    (void)state;
    for (int listing = 0; listing < 2; listing++) {
        sim *world = engine_world();
        mw_db *db = open_with_row(world);
        mw_store *store = engine_store(db);
        uint32_t open = sim_open_count(world);
        for (uint64_t i = 1; i < 3; i++) { /* each is tried twice: table files are spared */
            if (listing)
                sim_fail(world, SIM_LIST, i, EMFILE, false);
            else
                sim_fail_named(world, SIM_OPEN, "manifest-", i, EMFILE, false);
        }
        assert_int_equal(publish(store, NULL), MW_OK);
        assert_int_equal(store->own.number, 0);
        assert_int_equal(sim_open_count(world), open - 1);
        uint64_t lists = sim_calls(world, SIM_LIST);
        engine_put(db, 2, "b");
        assert_int_equal(sim_calls(world, SIM_LIST) - lists, 1);
        assert_int_equal(publish(store, NULL), MW_OK);
        assert_int_equal(store->own.number, store->version->manifest->number);
        assert_int_equal(sim_open_count(world), open);
        engine_close(db);
        engine_end(world);
    }
}

/* No room, no memory, no random number: nothing has changed, and the next one works. */
static void a_manifest_that_was_not_made_changes_nothing(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_OPEN, SIM_WRITE, SIM_FILE_SYNC,
                                 SIM_LINK, SIM_ALLOC, SIM_RANDOM};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        sim *world = engine_world();
        mw_db *db = open_with_row(world);
        mw_store *store = engine_store(db);
        mw_manifest *next = successor(store);
        uint64_t number = store->version->manifest->number;
        sim_fail(world, ops[i], 1, ENOSPC, false);
        mw_rc rc = mw_store_publish(store, next, NULL);
        assert_int_equal(rc, ops[i] == SIM_ALLOC ? MW_NOMEM : MW_FULL);
        mw_manifest_unref(next);
        assert_int_equal(store->version->manifest->number, number);
        assert_int_equal(store->stopped.rc, MW_OK);
        assert_int_equal(engine_file_count(world, "tmp-"), 0);
        engine_put(db, 2, "b");
        assert_int_equal(publish(store, NULL), MW_OK);
        engine_close(db);
        engine_end(world);
    }
}

/* The name stands, but the sync of the folder failed, or the look for peers: whether it lasts, or
** counts, nobody knows. */
static void a_manifest_of_unknown_fate_stops_the_writer(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_DIR_SYNC, SIM_LIST};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        sim *world = engine_world();
        mw_db *db = open_with_row(world);
        mw_err err = {0};
        sim_fail(world, ops[i], 1, EIO, false);
        assert_int_equal(publish(engine_store(db), &err), MW_PERSISTENCE);
        mw_err second = {0};
        assert_int_equal(engine_try(db, 2, "b", MW_TXN_LIGHT, &second), MW_PERSISTENCE);
        assert_string_equal(second.text, err.text);
        assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
        db = engine_open(world, NULL);
        assert_string_equal(engine_rows(db), "1=a");
        engine_close(db);
        engine_end(world);
    }
}

/* Somebody else has the number: a peer with a higher epoch is named; the same epoch means that two
** work as one, which cannot be. */
static void a_taken_number_tells_by_whom(void **state)
{
    (void)state;
    for (int peer = 0; peer < 2; peer++) {
        sim *world = engine_world();
        mw_db *db = open_with_row(world);
        mw_store *store = engine_store(db);
        mw_manifest *theirs = successor(store);
        if (peer) assert_int_equal(mw_manifest_add_epoch(theirs, 5, NULL), MW_OK);
        assert_int_equal(mw_manifest_publish(theirs, store->dir, NULL), MW_OK);
        mw_manifest_unref(theirs);
        mw_err err = {0};
        assert_int_equal(publish(store, &err), peer ? MW_FENCED : MW_PERSISTENCE);
        assert_non_null(strstr(err.text, peer ? "a peer claimed epoch 5, ours was 1"
                                              : "made by somebody else"));
        assert_int_equal(mw_db_close(db, NULL), peer ? MW_FENCED : MW_PERSISTENCE);
        engine_end(world);
    }
}

/* The number is free because it has come and gone: a peer is two manifests ahead, and has removed
** what lies below. Ours is created, and belongs to no chain: it is not installed, and nothing is
** removed. */
static void a_number_that_came_and_went_is_noticed(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = open_with_row(world);
    mw_store *store = engine_store(db);
    mw_manifest *claim = successor(store);
    mw_manifest *seal = NULL;
    uint64_t number = store->version->manifest->number;
    assert_int_equal(mw_manifest_add_epoch(claim, 2, NULL), MW_OK);
    assert_int_equal(mw_manifest_publish(claim, store->dir, NULL), MW_OK);
    assert_int_equal(mw_manifest_copy(claim, &seal, NULL), MW_OK);
    seal->boundary = seal->number;
    assert_int_equal(mw_manifest_publish(seal, store->dir, NULL), MW_OK);
    mw_store_remove_manifests(store, number, seal->number);
    assert_int_equal(engine_file_count(world, "manifest-"), 1);
    mw_err err = {0};
    assert_int_equal(publish(store, &err), MW_FENCED);
    assert_non_null(strstr(err.text, "a peer claimed epoch 2, ours was 1"));
    assert_int_equal(store->version->manifest->number, number);
    assert_int_equal(engine_file_count(world, "manifest-"), 2);
    mw_manifest_unref(claim);
    mw_manifest_unref(seal);
    assert_int_equal(mw_db_close(db, NULL), MW_FENCED);
    engine_end(world);
}

/* The manifest at hand was deleted by somebody, but nobody is ahead: that is no peer. */
static void a_deleted_predecessor_is_no_peer(void **state)
{
    (void)state;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = open_with_row(world);
    assert_true(engine_file(world, "manifest-", 0, path));
    sim_file_delete(world, path);
    assert_int_equal(publish(engine_store(db), NULL), MW_OK);
    engine_put(db, 2, "b");
    engine_close(db);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_without_memory_or_locks_is_none),
        cmocka_unit_test(the_first_cause_of_a_stop_stays),
        cmocka_unit_test(the_first_parked_failure_stays_until_it_is_made_up_for),
        cmocka_unit_test(a_deadline_beyond_all_time_is_none),
        cmocka_unit_test(memtables_go_when_the_cursor_covers_them),
        cmocka_unit_test(table_numbers_are_given_once),
        cmocka_unit_test(a_published_manifest_replaces_the_one_before),
        cmocka_unit_test(manifests_go_in_ascending_order_or_not_at_all),
        cmocka_unit_test(a_stray_far_below_is_removed_with_few_calls),
        cmocka_unit_test(the_own_manifest_keeps_its_identity),
        cmocka_unit_test(no_descriptor_for_the_own_manifest_is_no_failure),
        cmocka_unit_test(a_manifest_that_was_not_made_changes_nothing),
        cmocka_unit_test(a_manifest_of_unknown_fate_stops_the_writer),
        cmocka_unit_test(a_taken_number_tells_by_whom),
        cmocka_unit_test(a_number_that_came_and_went_is_noticed),
        cmocka_unit_test(a_deleted_predecessor_is_no_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
