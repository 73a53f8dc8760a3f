/* db_test.c: creating, opening, locking, describing, removing a store; and that an open that
** changes nothing changes nothing. */
#include "db.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static mw_rc create(sim *world, const char *path, mw_store_id *id, mw_err *err)
{
    return mw_db_create(sim_env(world), path, &engine_schema, id, err);
}

/* A number for all names and bytes of the store's folder, but for the lock's. */
static uint64_t fingerprint(sim *world)
{
    char path[ENGINE_PATH_BYTES];
    uint64_t sum = 0;
    for (uint32_t i = 0; engine_file(world, "", i, path); i++) {
        if (strcmp(path, "store/lock") == 0) continue;
        size_t bytes = (size_t)sim_file_size(world, path);
        uint8_t *content = malloc(bytes + 1);
        assert_int_equal(sim_file_read(world, path, 0, content, bytes), bytes);
        for (const char *c = path; *c; c++) sum = sum * 31 + (uint8_t)*c;
        for (size_t j = 0; j < bytes; j++) sum = sum * 31 + content[j];
        free(content);
    }
    return sum;
}

/* ---- creating -------------------------------------------------------------------------------- */

static void a_new_store_is_empty_and_has_an_identity(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_store_id ids[2];
    mw_err err = {0};
    assert_int_equal(create(world, "store", &ids[0], NULL), MW_OK);
    assert_int_equal(create(world, "other", &ids[1], NULL), MW_OK);
    assert_memory_not_equal(ids[0].bytes, ids[1].bytes, 16);
    assert_int_equal(create(world, "store", &ids[1], &err), MW_EXISTS);
    assert_string_equal(err.text, "store holds a store already");
    mw_db *db = engine_open(world, NULL);
    assert_memory_equal(mw_db_store(db)->bytes, ids[0].bytes, 16);
    assert_string_equal(mw_db_path(db), "store");
    assert_int_equal(mw_db_schema(db)->key, MW_KEY_INTEGER);
    assert_int_equal(mw_db_schema(db)->column_count, 1);
    assert_true(mw_slice_equal(mw_db_schema(db)->declaration, engine_schema.declaration));
    assert_int_equal(mw_db_options(db).cache_bytes, engine_options().cache_bytes);
    assert_string_equal(engine_rows(db), "");
    engine_close(db);
    engine_end(world);
}

static void defaults_are_those_of_the_documentation(void **state)
{
    (void)state;
    mw_options options = mw_options_default();
    assert_int_equal(options.memtable_bytes, 64 << 20);
    assert_int_equal(options.cache_bytes, 64 << 20);
    assert_int_equal(options.merge_generations, 8);
    assert_int_equal(options.compression, 1);
    assert_true(options.background);
    assert_int_equal(options.durability, MW_DURABILITY_FULL);
    assert_false(options.shared);
    assert_int_equal(mw_db_format_version(), 3);
    assert_true(mw_db_xxhash_version() >= 800);
    assert_true(strchr(mw_db_zstd_version(), '.') != NULL);
}

/* C11: a folder that cannot be synced holds no store: which, and the call. A store that gets onto
** such a file system is refused its first flush, and keeps what it has. */
static void a_folder_that_cannot_be_synced_is_refused(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_store_id id;
    mw_err err = {0};
    sim_fail(world, SIM_DIR_SYNC, 1, EINVAL, true);
    assert_int_equal(create(world, ENGINE_STORE, &id, &err), MW_IO);
    assert_int_equal(err.sys, EINVAL);
    assert_non_null(strstr(err.text, "a new store in store: directory sync of manifest-"));
    assert_non_null(strstr(err.text, "Invalid argument: this file system cannot make names"));
    sim_destroy(world);
    world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    sim_fail(world, SIM_DIR_SYNC, 1, EINVAL, true);
    uint64_t generation;
    err = (mw_err){0};
    assert_int_equal(mw_db_flush(db, 1000, &generation, &err), MW_IO);
    assert_non_null(strstr(err.text, "sync of the folder of wal-"));
    assert_string_equal(engine_rows(db), "1=a");
    sim_fail_clear(world);
    engine_put(db, 2, "b");
    engine_close(db);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a 2=b");
    engine_close(db);
    engine_end(world);
}

/* C61: parent missing, path a file: each error has path and reason. */
static void a_creation_that_cannot_be_says_why(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_store_id id;
    mw_err missing = {0};
    mw_err file = {0};
    assert_int_equal(create(world, "no/store", &id, &missing), MW_MISSING);
    assert_non_null(strstr(missing.text, "no/store"));
    sim_file_put(world, "taken", "x", 1);
    assert_int_equal(create(world, "taken", &id, &file), MW_IO);
    assert_non_null(strstr(file.text, "taken"));
    assert_non_null(strstr(file.text, "Not a directory"));
    engine_end(world);
}

/* C10, I15: a creation that was answered survives any power cut; one that was not is there whole or
** not at all, and can be repeated. */
static void a_creation_is_whole_or_not_at_all(void **state)
{
    (void)state;
    bool done = false;
    uint64_t n = 0;
    for (; !done; n++) {
        sim *world = sim_create();
        mw_store_id id;
        sim_stop_after(world, n);
        mw_rc created = create(world, "store", &id, NULL);
        done = !sim_stopped(world);
        uint32_t states = sim_disk_count(world, 100);
        for (uint32_t i = 0; i < states; i++) {
            sim *after = sim_disk_state(world, i);
            mw_rc again = create(after, "store", &id, NULL);
            assert_true(again == MW_EXISTS || (again == MW_OK && created != MW_OK));
            mw_db *db = engine_open(after, NULL);
            engine_put(db, 1, "a");
            engine_close(db);
            engine_end(after);
        }
        sim_destroy(world);
    }
    assert_true(n > 4);
}

static void a_creation_that_fails_can_be_repeated(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_ANY_CALL, SIM_ALLOC, SIM_RANDOM};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        mw_rc rc = MW_IO;
        for (uint64_t n = 1; rc != MW_OK; n++) {
            sim *world = sim_create();
            mw_store_id id;
            sim_fail(world, ops[i], n, EIO, false);
            rc = create(world, "store", &id, NULL);
            bool met = sim_fail_hits(world) > 0;
            sim_fail_clear(world);
            if (rc != MW_OK) assert_true(met);
            mw_rc again = create(world, "store", &id, NULL);
            assert_true(again == MW_OK || again == MW_EXISTS);
            mw_db *db = engine_open(world, NULL);
            engine_put(db, 1, "a");
            engine_close(db);
            engine_end(world);
        }
    }
}

static mw_rc run_create(engine_call *call)
{
    mw_store_id id;
    return create(call->world, "store", &id, &call->err);
}

/* C18, L18: two create at once: one makes it, the other is told that it is there. */
static void two_that_create_at_once_make_one_store(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        sim *world = sim_create();
        engine_call calls[2];
        int made = 0;
        for (int i = 0; i < 2; i++) {
            calls[i] = (engine_call){.run = run_create, .world = world};
            engine_start(&calls[i]);
        }
        for (int i = 0; i < 2; i++) {
            mw_rc rc = engine_wait(&calls[i]);
            assert_true(rc == MW_OK || rc == MW_EXISTS);
            made += rc == MW_OK;
        }
        assert_int_equal(made, 1);
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        engine_close(db);
        engine_end(world);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A folder that is no store gets no file from us. */
static void what_is_no_store_is_left_alone(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_db *db = NULL;
    mw_err err = {0};
    assert_int_equal(engine_try_open(world, NULL, &db, &err), MW_MISSING);
    assert_non_null(strstr(err.text, "store"));
    sim_make_dir(world, "store");
    sim_file_put(world, "store/notes.txt", "x", 1);
    mw_err second = {0};
    assert_int_equal(engine_try_open(world, NULL, &db, &second), MW_MISSING);
    assert_non_null(strstr(second.text, "store holds no store"));
    assert_int_equal(engine_file_count(world, ""), 1);
    engine_end(world);
}

/* One of them writes; the other one reads beside it, and writes when the first is gone. */
static void a_second_opener_reads_and_writes_in_his_turn(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *first = engine_open(world, NULL);
    mw_db *second = engine_open(world, NULL);
    mw_txn *txn;
    engine_put(first, 1, "a");
    assert_string_equal(engine_rows(second), "1=a");
    for (int i = 0; i < 3; i++) { /* and a refused one does not give the lock away */
        mw_err err = {0};
        assert_int_equal(mw_txn_begin(second, 0, &txn, &err), MW_BUSY);
        assert_string_equal(err.text, "another process is writing to store");
    }
    engine_close(first);
    engine_put(second, 2, "b");
    assert_string_equal(engine_rows(second), "1=a 2=b");
    assert_int_equal(engine_figure(second, "epoch"), 1);
    engine_close(second);
    engine_end(world);
}

static void another_store_than_expected_is_a_mismatch(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    mw_store_id id = *mw_db_store(db);
    engine_close(db);
    mw_options options = engine_options();
    const mw_env *env = sim_env(world);
    assert_int_equal(mw_db_open(env, "store", &options, &id, &db, NULL), MW_OK);
    engine_close(db);
    id.bytes[15] ^= 1;
    mw_err err = {0};
    assert_int_equal(mw_db_open(env, "store", &options, &id, &db, &err), MW_MISMATCH);
    assert_non_null(strstr(err.text, "belongs to another store"));
    engine_end(world);
}

/* C14, C75: opening, reading and closing without a write leave every byte as it was. */
static void an_open_without_a_write_changes_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    uint64_t before = fingerprint(world);
    for (int i = 0; i < 50; i++) {
        mw_db *db = engine_open(world, NULL);
        assert_int_equal(engine_count(db), 0);
        engine_close(db);
        assert_true(fingerprint(world) == before);
    }
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 20, "x");
    engine_flush(db);
    engine_put(db, 30, "y");
    engine_close(db);
    before = fingerprint(world);
    for (int i = 0; i < 50; i++) {
        db = engine_open(world, NULL);
        assert_int_equal(engine_count(db), 21);
        engine_close(db);
        assert_true(fingerprint(world) == before);
    }
    engine_end(world);
}

/* A number for the folder, its lock included: read-only opens make not even that. */
static uint64_t whole_fingerprint(sim *world)
{
    return 2 * fingerprint(world) + engine_file_count(world, "lock");
}

static void expect_no_writing(mw_db *db)
{
    mw_err err = {0};
    uint64_t number;
    uint32_t folded;
    assert_int_equal(engine_try(db, 7, "w", MW_TXN_LIGHT, &err), MW_MISUSE);
    assert_string_equal(err.text, "store was opened read-only");
    assert_int_equal(mw_db_flush(db, ENGINE_WAIT_MS, &number, NULL), MW_MISUSE);
    assert_int_equal(mw_db_merge(db, 0, NULL, NULL, &folded, NULL), MW_MISUSE);
    assert_int_equal(mw_db_compact(db, NULL, NULL, &number, NULL), MW_MISUSE);
}

/* C64, C75: of a store that a kill has left, too, and with options that would start a thread. */
static void a_read_only_open_writes_nothing(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.read_only = true;
    options.background = true;
    options.durability = MW_DURABILITY_NORMAL;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 3, "x");
    engine_flush(db);
    engine_put(db, 4, "y");
    sim *killed = sim_kill(world);
    engine_close(db);
    sim *worlds[] = {world, killed};
    for (int i = 0; i < 2; i++) {
        uint64_t before = whole_fingerprint(worlds[i]);
        db = engine_open(worlds[i], &options);
        assert_string_equal(engine_rows(db), "1=x1 2=x2 3=x3 4=y");
        assert_string_equal(engine_check(db), "ok");
        expect_no_writing(db);
        assert_int_equal(mw_db_refresh(db, NULL), MW_OK);
        assert_string_equal(engine_rows(db), "1=x1 2=x2 3=x3 4=y");
        engine_close(db);
        assert_true(whole_fingerprint(worlds[i]) == before);
        engine_end(worlds[i]);
    }
}

/* C74: each refresh shows what the writer has done, whatever that was; a snapshot keeps its
** moment, although its files are gone from the folder. */
static void a_read_only_open_follows_the_writer(void **state)
{
    (void)state;
    mw_options options = engine_options();
    options.read_only = true;
    sim *world = engine_world();
    mw_db *reader = engine_open(world, &options);
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    assert_string_equal(engine_rows(reader), "");
    assert_int_equal(mw_db_refresh(reader, NULL), MW_OK);
    assert_string_equal(engine_rows(reader), "1=a");
    mw_snapshot *old = engine_snapshot(reader);
    for (int i = 2; i < 30; i++) {
        if (i % 5 == 0) engine_flush(db);
        if (i % 7 == 0) engine_merge(db, 0);
        if (i % 11 == 0) {
            engine_close(db);
            db = engine_open(world, NULL);
        }
        if (i % 3) engine_put(db, i, "b");
        assert_int_equal(mw_db_refresh(reader, NULL), MW_OK);
        assert_string_equal(engine_rows(reader), engine_rows(db));
    }
    assert_string_equal(engine_read(old), "1=a");
    mw_snapshot_release(old);
    uint64_t opens = sim_calls(world, SIM_READ);
    assert_int_equal(mw_db_refresh(reader, NULL), MW_OK);
    assert_true(sim_calls(world, SIM_READ) - opens <= 2); /* nothing new: no replay */
    engine_close(db);
    engine_close(reader);
    engine_end(world);
}

/* Scans and writes of a store with a wrong table file are refused; the answer to the last one. */
static mw_rc expect_no_way_in(mw_db *db, mw_err *err)
{
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor;
    assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
    mw_rc rc = mw_cursor_first(cursor, NULL);
    assert_true(rc == MW_CORRUPT || rc == MW_MISMATCH);
    assert_int_equal(mw_cursor_last(cursor, err), rc);
    assert_false(mw_cursor_valid(cursor));
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
    assert_string_not_equal(engine_check(db), "ok");
    assert_int_equal(engine_try(db, 100, "z", MW_TXN_LIGHT, NULL), MW_OK); /* no file may have it */
    engine_close(db);
    return rc;
}

/* A table file that the manifest lists is gone: the store does not open. It is cut, longer, or
** another one of this store: whoever comes to it is told, and gets no row (C32, C87). */
static void a_wrong_table_file_is_refused_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        char paths[2][ENGINE_PATH_BYTES];
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_fill(db, 1, 20, "x");
        engine_flush(db);
        engine_fill(db, 1, 20, "y");
        engine_flush(db);
        engine_close(db);
        for (uint32_t j = 0; j < 2; j++) assert_true(engine_file(world, "table-", j, paths[j]));
        int64_t bytes = sim_file_size(world, paths[0]);
        assert_int_equal(sim_file_size(world, paths[1]), bytes);
        if (i == 0) sim_file_delete(world, paths[0]);
        if (i == 1) sim_file_truncate(world, paths[0], 0);
        if (i == 2) sim_file_truncate(world, paths[0], (uint64_t)bytes - 1);
        if (i == 3) sim_file_truncate(world, paths[0], (uint64_t)bytes + 1);
        if (i == 4) {
            uint8_t content[8192];
            assert_int_equal(sim_file_read(world, paths[1], 0, content, sizeof content), bytes);
            sim_file_put(world, paths[0], content, (size_t)bytes);
        }
        mw_err err = {0};
        mw_rc rc = engine_try_open(world, NULL, &db, &err);
        assert_int_equal(rc, i == 0 ? MW_MISSING : MW_OK);
        if (rc == MW_OK) rc = expect_no_way_in(db, &err);
        assert_int_equal(rc, i == 0 ? MW_MISSING : i == 4 ? MW_MISMATCH : MW_CORRUPT);
        assert_non_null(strstr(err.text, paths[0] + 6));
        engine_end(world);
    }
}

static void every_allocation_of_an_open_may_fail(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_ALLOC, SIM_MUTEX, SIM_LOCK, SIM_BOOT_ID};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_put(db, 1, "a");
        engine_flush(db);
        engine_close(db);
        mw_rc rc = MW_IO;
        for (uint64_t n = 1; rc != MW_OK; n++) {
            uint64_t hits = sim_fail_hits(world);
            sim_fail(world, ops[i], n, EIO, false);
            rc = engine_try_open(world, NULL, &db, NULL);
            if (rc != MW_OK) assert_true(sim_fail_hits(world) > hits);
            sim_fail_clear(world);
        }
        assert_string_equal(engine_rows(db), "1=a");
        engine_close(db);
        engine_end(world);
    }
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Abandoning writes nothing: what a kill would leave. */
static void abandoning_writes_nothing(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    uint64_t steps = sim_steps(world);
    mw_db_abandon(db);
    assert_int_equal(sim_steps(world), steps);
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(engine_figure(db, "epoch"), 2); /* an unclean end */
    engine_close(db);
    engine_end(world);
}

/* The word "clean" cannot be written: close says so, and the end is an unclean one. */
static void a_close_that_cannot_be_clean_says_so(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    sim_fail_named(world, SIM_WRITE, "state", 1, EIO, false);
    mw_err err = {0};
    assert_int_equal(mw_db_close(db, &err), MW_IO);
    assert_non_null(strstr(err.text, "state"));
    db = engine_open(world, NULL);
    assert_string_equal(engine_rows(db), "1=a");
    assert_int_equal(engine_figure(db, "epoch"), 2);
    engine_close(db);
    engine_end(world);
}

/* ---- describing and removing ----------------------------------------------------------------- */

static void a_store_is_described_without_opening_it(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    static const uint32_t ids[] = {3, 1, 7};
    mw_schema schema = {MW_KEY_TEXT, 3, ids, {(const uint8_t *)"id TEXT, a, b, c", 16}};
    mw_store_id made;
    assert_int_equal(mw_db_create(env, "store", &schema, &made, NULL), MW_OK);
    mw_options options = engine_options();
    for (int open = 0; open < 2; open++) {
        mw_db *db = NULL;
        mw_store_id id;
        mw_key_kind key;
        uint32_t columns;
        char *declaration;
        if (open) assert_int_equal(mw_db_open(env, "store", &options, NULL, &db, NULL), MW_OK);
        uint64_t before = fingerprint(world);
        mw_rc rc = mw_db_describe(env, "store", &id, &key, &columns, &declaration, NULL);
        assert_int_equal(rc, MW_OK);
        assert_true(fingerprint(world) == before);
        assert_memory_equal(id.bytes, made.bytes, 16);
        assert_int_equal(key, MW_KEY_TEXT);
        assert_int_equal(columns, 3);
        assert_string_equal(declaration, "id TEXT, a, b, c");
        mw_free(env, declaration);
        if (open) engine_close(db);
    }
    mw_store_id id;
    mw_key_kind key;
    uint32_t columns;
    char *declaration;
    mw_err err = {0};
    assert_int_equal(mw_db_describe(env, "none", &id, &key, &columns, &declaration, &err),
                     MW_MISSING);
    assert_non_null(strstr(err.text, "none"));
    engine_end(world);
}

/* Everything of the store goes, and its folder; what is somebody else's stays, and the folder with
** it. */
static void removing_takes_only_what_is_ours(void **state)
{
    (void)state;
    for (int foreign = 0; foreign < 2; foreign++) {
        sim *world = engine_world();
        mw_db *db = engine_open(world, NULL);
        engine_fill(db, 1, 5, "x");
        engine_flush(db);
        engine_put(db, 9, "y");
        engine_close(db);
        if (foreign) sim_file_put(world, "store/notes.txt", "x", 1);
        mw_err err = {0};
        mw_rc rc = mw_db_remove(sim_env(world), "store", &err);
        assert_int_equal(rc, foreign ? MW_IO : MW_OK);
        assert_int_equal(sim_file_exists(world, "store"), foreign);
        if (foreign) {
            assert_non_null(strstr(err.text, "Directory not empty"));
            assert_int_equal(engine_file_count(world, ""), 1);
        }
        engine_end(world);
    }
}

/* A schema without columns, text keys: also the empty one. */
static void text_keys_and_no_columns_work(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    mw_schema schema = {MW_KEY_TEXT, 0, NULL, {NULL, 0}};
    mw_store_id id;
    mw_options options = engine_options();
    mw_db *db = NULL;
    static const char *const keys[] = {"", "a", "a\x01", "b", "\xc3\xa9"};
    assert_int_equal(mw_db_create(env, "store", &schema, &id, NULL), MW_OK);
    assert_int_equal(mw_db_open(env, "store", &options, NULL, &db, NULL), MW_OK);
    mw_txn *txn = engine_begin(db);
    for (int i = 4; i >= 0; i--) {
        bool replaced;
        mw_slice key = mw_slice_of(keys[i], strlen(keys[i]));
        assert_int_equal(mw_txn_put(txn, key, mw_slice_of(NULL, 0), &replaced, NULL), MW_OK);
    }
    engine_commit(txn, MW_TXN_LIGHT);
    for (int place = 0; place < 3; place++) {
        if (place == 1) engine_flush(db);
        if (place == 2) engine_merge(db, 0);
        mw_snapshot *snapshot = engine_snapshot(db);
        mw_cursor *cursor;
        assert_int_equal(mw_cursor_open(snapshot, &cursor, NULL), MW_OK);
        assert_int_equal(mw_cursor_first(cursor, NULL), MW_OK);
        for (int i = 0; i < 5; i++) {
            assert_true(mw_cursor_valid(cursor));
            assert_true(
                mw_slice_equal(mw_cursor_key(cursor), mw_slice_of(keys[i], strlen(keys[i]))));
            assert_int_equal(mw_cursor_next(cursor, NULL), MW_OK);
        }
        assert_false(mw_cursor_valid(cursor));
        mw_cursor_close(cursor);
        mw_snapshot_release(snapshot);
    }
    engine_close(db);
    engine_end(world);
}

static bool always(void *arg)
{
    ++*(int *)arg;
    return true;
}

/* L29: afterwards the files hold the live rows and nothing else, and the number says what went.
** Given up, it has lost nothing; with nothing to do, it does nothing. */
static void compacting_leaves_the_live_rows_alone(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    uint64_t removed = 1;
    assert_int_equal(mw_db_compact(db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(removed, 0);
    engine_fill(db, 1, 10, "a");
    engine_flush(db);
    engine_merge(db, 0);
    engine_fill(db, 5, 10, "b");
    engine_flush(db);
    for (int64_t id = 3; id <= 14; id++) engine_delete(db, id);
    int asked = 0;
    assert_int_equal(mw_db_compact(db, always, &asked, &removed, NULL), MW_INTERRUPTED);
    assert_true(asked > 0);
    assert_int_equal(removed, 0);
    assert_string_equal(engine_rows(db), "1=a1 2=a2");
    assert_int_equal(mw_db_compact(db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(removed, 10 + 10 + 12 - 2);
    assert_int_equal(engine_figure(db, "physical_rows"), 2);
    assert_int_equal(engine_figure(db, "generations"), 0);
    assert_int_equal(engine_figure(db, "memtable_rows"), 0);
    int64_t written = engine_figure(db, "bytes_written");
    assert_int_equal(mw_db_compact(db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(engine_figure(db, "bytes_written"), written);
    assert_string_equal(engine_rows(db), "1=a1 2=a2");
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_store_is_empty_and_has_an_identity),
        cmocka_unit_test(defaults_are_those_of_the_documentation),
        cmocka_unit_test(a_folder_that_cannot_be_synced_is_refused),
        cmocka_unit_test(a_creation_that_cannot_be_says_why),
        cmocka_unit_test(a_creation_is_whole_or_not_at_all),
        cmocka_unit_test(a_creation_that_fails_can_be_repeated),
        cmocka_unit_test(two_that_create_at_once_make_one_store),
        cmocka_unit_test(what_is_no_store_is_left_alone),
        cmocka_unit_test(a_second_opener_reads_and_writes_in_his_turn),
        cmocka_unit_test(another_store_than_expected_is_a_mismatch),
        cmocka_unit_test(an_open_without_a_write_changes_nothing),
        cmocka_unit_test(a_read_only_open_writes_nothing),
        cmocka_unit_test(a_read_only_open_follows_the_writer),
        cmocka_unit_test(a_wrong_table_file_is_refused_by_name),
        cmocka_unit_test(every_allocation_of_an_open_may_fail),
        cmocka_unit_test(abandoning_writes_nothing),
        cmocka_unit_test(a_close_that_cannot_be_clean_says_so),
        cmocka_unit_test(a_store_is_described_without_opening_it),
        cmocka_unit_test(removing_takes_only_what_is_ours),
        cmocka_unit_test(text_keys_and_no_columns_work),
        cmocka_unit_test(compacting_leaves_the_live_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
