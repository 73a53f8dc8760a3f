/* compact_levels_test.c: merges over several levels of little files. Batches of a few rows, files
** of about five, so that a store of some hundred rows has what a large one has: several levels,
** files that move down without being written, tombstones above older versions. */
#include "compact.h"

#include "engine.h"
#include "table_copy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { IDS = 400, WORDS_BYTES = 32 };

/* A memtable takes about 3 rows, a base file about 5; two generations are merged. */
static mw_options little_options(void)
{
    mw_options options = engine_options();
    options.memtable_bytes = 400;
    options.merge_generations = 2;
    options.group_rows = 2;
    options.file_bytes = 500;
    return options;
}

static uint64_t roll(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static uint64_t first_seed(void)
{
    const char *given = getenv("MW_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003 + 1;
    print_message("replay: MW_SEED=%llu build/asan/tests/core/compact_levels_test\n",
                  (unsigned long long)seed);
    return seed;
}

/* ---- against a model ------------------------------------------------------------------------- */

typedef struct history {
    sim *world;
    mw_db *db;
    mw_options options;
    uint64_t seed;
    char model[IDS][WORDS_BYTES]; /* "": does not live */
    int64_t live;
    int64_t written;
} history;

static void change(history *h, mw_txn *txn, int64_t id, bool delete)
{
    char *words = h->model[id];
    h->live -= words[0] != 0;
    if (delete) {
        words[0] = 0;
    } else {
        snprintf(words, WORDS_BYTES, "v%lld", (long long)++h->written);
    }
    h->live += words[0] != 0;
    assert_int_equal(engine_txn_try(txn, id, delete ? NULL : words, NULL), MW_OK);
}

/* Ids of one transaction lie together, or all over the place. */
static void write_some(history *h)
{
    mw_txn *txn = engine_begin(h->db);
    int64_t from = (int64_t)(roll(&h->seed) % IDS);
    bool together = roll(&h->seed) % 2;
    for (uint64_t left = 1 + roll(&h->seed) % 6; left > 0; left--) {
        int64_t id = together ? (from + (int64_t)left) % IDS : (int64_t)(roll(&h->seed) % IDS);
        change(h, txn, id, roll(&h->seed) % 3 == 0);
    }
    engine_commit(txn, roll(&h->seed) % 2 ? MW_TXN_FULL : MW_TXN_LIGHT);
}

static void compare(history *h)
{
    assert_int_equal(engine_count(h->db), h->live);
    for (int64_t id = 0; id < IDS; id++) {
        const char *found = engine_find(h->db, id);
        const char *expected = h->model[id][0] ? h->model[id] : NULL;
        bool same = found && expected ? strcmp(found, expected) == 0 : found == expected;
        if (!same) {
            fail_msg("id %lld: expected %s, found %s", (long long)id, expected ? expected : "none",
                     found ? found : "none");
        }
    }
    assert_string_equal(engine_check(h->db), "ok");
}

/* Now and then something else than a write. */
static void shake(history *h)
{
    switch (roll(&h->seed) % 12) {
    case 0: engine_flush(h->db); break;
    case 1: engine_merge(h->db, (uint32_t)(roll(&h->seed) % 3)); break;
    case 2:
        engine_close(h->db);
        h->db = engine_open(h->world, &h->options);
        break;
    case 3: {
        sim *after = sim_kill(h->world);
        mw_db_abandon(h->db);
        engine_end(h->world);
        h->world = after;
        h->db = engine_open(after, &h->options);
        break;
    }
    default: break;
    }
}

static void expect_compact(mw_db *db)
{
    uint64_t removed = 0;
    int64_t before;
    engine_flush(db);
    before = engine_figure(db, "physical_rows");
    assert_int_equal(mw_db_compact(db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(removed, before - engine_figure(db, "physical_rows"));
    assert_int_equal(engine_figure(db, "physical_rows"), engine_figure(db, "rows"));
    assert_in_range(engine_figure(db, "base_levels"), 0, 1);
    assert_int_equal(engine_figure(db, "generations"), 0);
    int64_t merges = engine_figure(db, "merges");
    assert_int_equal(mw_db_compact(db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(engine_figure(db, "merges"), merges); /* there was nothing left to do */
}

/* I5, I6, I7, C21: histories of many levels against a model, with reopens and kills. */
static void levels_hold_what_was_written(void **state)
{
    (void)state;
    enum { ROUNDS = 6, TRANSACTIONS = 220 };
    uint64_t seed = first_seed();
    int64_t most_levels = 0;
    for (int round = 0; round < ROUNDS; round++) {
        history h = {.world = engine_world(), .options = little_options()};
        h.seed = (seed + (uint64_t)round * 7919) | 1;
        h.options.file_bytes = round % 3 == 2 ? 200 : 500;
        h.db = engine_open(h.world, &h.options);
        for (int i = 1; i <= TRANSACTIONS; i++) {
            write_some(&h);
            shake(&h);
            int64_t levels = engine_figure(h.db, "base_levels");
            if (levels > most_levels) most_levels = levels;
            if (i % 20 == 0) compare(&h);
        }
        if (round % 2) expect_compact(h.db);
        compare(&h);
        engine_close(h.db);
        h.db = engine_open(h.world, NULL);
        compare(&h);
        assert_int_equal(engine_file_count(h.world, "table-"), engine_figure(h.db, "files"));
        engine_close(h.db);
        engine_end(h.world);
    }
    assert_in_range(most_levels, 2, 15);
}

/* ---- levels by hand -------------------------------------------------------------------------- */

/* Options with which only what is asked for happens, but for the number of levels. */
static mw_options quiet_options(void)
{
    mw_options options = little_options();
    options.memtable_bytes = 1 << 20;
    options.merge_generations = 1000;
    return options;
}

static void fill_and_flush(mw_db *db, int64_t first, int64_t count, const char *prefix)
{
    engine_fill(db, first, count, prefix);
    engine_flush(db);
}

static uint32_t level_of(mw_db *db, uint32_t file)
{
    return engine_store(db)->version->manifest->files[file].level;
}

/* Gives all files of one level another, as moves do. */
static void move_level(mw_db *db, uint32_t from, uint32_t to)
{
    mw_store *store = engine_store(db);
    const mw_manifest *now = store->version->manifest;
    mw_manifest *next = NULL;
    assert_int_equal(mw_manifest_copy(now, &next, NULL), MW_OK);
    for (uint32_t i = 0; i < now->file_count; i++) {
        mw_manifest_file file = now->files[i];
        if (file.level != from) continue;
        file.level = to;
        assert_true(mw_manifest_remove_file(next, file.epoch, file.number));
        assert_int_equal(mw_manifest_add_file(next, &file, NULL), MW_OK);
    }
    next->boundary = next->number;
    store->env->mutex_lock(store->env->ctx, store->manifest_mutex);
    assert_int_equal(mw_store_publish(store, next, NULL), MW_OK);
    store->env->mutex_unlock(store->env->ctx, store->manifest_mutex);
    mw_manifest_unref(next);
}

/* C21: the tombstone of an id that an older level holds stays; where none has room for it, it
** goes. */
static void a_tombstone_stays_above_older_levels(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    fill_and_flush(db, 10, 4, "a"); /* 10 to 13 */
    engine_merge(db, 0);
    move_level(db, 1, 2);
    fill_and_flush(db, 1, 3, "b"); /* 1 to 3 */
    move_level(db, 0, 1);
    engine_delete(db, 2);  /* only level 1 has it                    */
    engine_delete(db, 11); /* level 2 has it                         */
    engine_delete(db, 12);
    engine_put(db, 3, "c");
    engine_put(db, 12, "d");
    engine_flush(db);
    assert_int_equal(engine_merge(db, 0), 1);
    assert_int_equal(engine_figure(db, "base_levels"), 2);
    assert_int_equal(engine_figure(db, "physical_rows"), 4 + 4); /* 1, 3, 11 gone, 12 */
    assert_string_equal(engine_rows(db), "1=b1 3=c 10=a10 12=d 13=a13");
    assert_string_equal(engine_check(db), "ok");
    expect_compact(db);
    assert_string_equal(engine_rows(db), "1=b1 3=c 10=a10 12=d 13=a13");
    engine_close(db);
    engine_end(world);
}

/* What is written in key order is never written again: files change their level by a manifest. */
static void what_nothing_overlaps_moves_without_being_written(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    options.file_bytes = 200; /* so that generations of 5 rows are no small files */
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t i = 0; i < 8; i++) fill_and_flush(db, 5 * i, 5, "x");
    int64_t written = engine_figure(db, "bytes_written");
    uint64_t number = engine_store(db)->version->manifest->number;
    assert_int_equal(engine_merge(db, 0), 8);
    assert_int_equal(engine_figure(db, "bytes_written"), written);
    assert_int_equal(engine_store(db)->version->manifest->number, number + 1); /* all at once */
    assert_int_equal(engine_file_count(world, "table-"), 8);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(level_of(db, i), 1);
    assert_int_equal(engine_count(db), 40);
    assert_string_equal(engine_check(db), "ok");
    engine_put(db, 7, "late"); /* only the file that it belongs to is merged */
    engine_flush(db);
    engine_merge(db, 0);
    assert_in_range(engine_figure(db, "bytes_written") - written, 1, written / 3);
    assert_string_equal(engine_find(db, 7), "late");
    engine_close(db);
    engine_end(world);
}

/* A generation that lies across an older one does not pass it. */
static void a_move_never_passes_an_older_version(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    options.file_bytes = 200;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    fill_and_flush(db, 0, 5, "a");
    fill_and_flush(db, 20, 5, "b");
    fill_and_flush(db, 3, 5, "c");
    fill_and_flush(db, 40, 5, "d");
    while (engine_merge(db, 1) > 0) {
        assert_string_equal(engine_find(db, 3), "c3");
        assert_string_equal(engine_find(db, 4), "c4");
        assert_string_equal(engine_find(db, 2), "a2");
        assert_int_equal(engine_count(db), 18);
    }
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

static void a_merge_writes_files_of_bounded_size(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    fill_and_flush(db, 0, 100, "x");
    fill_and_flush(db, 50, 100, "y");
    engine_merge(db, 0);
    const mw_manifest *manifest = engine_store(db)->version->manifest;
    assert_in_range(manifest->file_count, 10, 75);
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        /* the limit, a group that passed it, and what stands at the end of a file */
        assert_in_range(manifest->files[i].props.bytes, 1, 500 + 150 + 500);
        assert_int_equal(manifest->files[i].level, 1);
    }
    assert_int_equal(engine_count(db), 150);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* What lies before the first id of a job is no part of what its first output overlaps. */
static void a_job_in_the_middle_of_a_level_begins_with_a_whole_file(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    fill_and_flush(db, 0, 300, "x");
    fill_and_flush(db, 0, 300, "y");
    engine_merge(db, 0);
    move_level(db, 1, 2);
    fill_and_flush(db, 400, 4, "y");
    move_level(db, 0, 1);
    fill_and_flush(db, 211, 30, "z");
    fill_and_flush(db, 211, 30, "a");
    assert_int_equal(engine_merge(db, 0), 2);
    const mw_manifest *manifest = engine_store(db)->version->manifest;
    uint32_t first = 0;
    while (manifest->files[first].level != 1) first++;
    assert_in_range(first, 20, 200); /* files of level 2, most of them before id 200 */
    const mw_table_props *props = &manifest->files[first].props;
    assert_in_range(props->rows + props->tombstones, 4, 100);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* L28: an id overwritten, flushed once, merged: the last value stays. */
static void a_merge_never_brings_an_older_value_back(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_put(db, 1, "first");
    engine_put(db, 1, "");
    engine_flush(db);
    engine_merge(db, 0);
    assert_string_equal(engine_find(db, 1), "");
    move_level(db, 1, 2);
    engine_put(db, 1, "third");
    engine_flush(db);
    move_level(db, 0, 1);
    assert_string_equal(engine_find(db, 1), "third");
    expect_compact(db);
    assert_string_equal(engine_find(db, 1), "third");
    engine_close(db);
    engine_end(world);
}

/* L24: ten thousand rows that are hidden by tombstones of a newer level, then two that are not. */
static void hidden_rows_before_the_first_live_one_are_passed_over(void **state)
{
    (void)state;
    enum { HIDDEN = 10000 };
    mw_options options = quiet_options();
    options.group_rows = 0;
    options.file_bytes = 20000;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    engine_fill(db, 0, HIDDEN + 2, "x");
    engine_flush(db);
    engine_merge(db, 0);
    move_level(db, 1, 2);
    mw_txn *txn = engine_begin(db);
    for (int64_t id = 0; id < HIDDEN; id++) engine_txn_delete(txn, id);
    engine_commit(txn, MW_TXN_LIGHT);
    /* Tombstones in memory, in a generation, in level 1, gone. */
    for (int step = 0; step < 4; step++) {
        assert_int_equal(engine_count(db), 2);
        assert_string_equal(engine_rows(db), "10000=x10000 10001=x10001");
        if (step == 0) engine_flush(db);
        if (step == 1) move_level(db, 0, 1);
        if (step == 2) expect_compact(db);
    }
    assert_int_equal(engine_figure(db, "physical_rows"), 2);
    engine_close(db);
    engine_end(world);
}

/* ---- groups that are copied ------------------------------------------------------------------ */

/* In all table files. */
static uint32_t group_count(mw_db *db)
{
    const mw_version *version = engine_store(db)->version;
    uint32_t groups = 0;
    mw_buf last;
    mw_buf_init(&last, engine_store(db)->env);
    for (uint32_t i = 0; i < version->table_count; i++) {
        mw_iter *iter;
        mw_rc rc = mw_table_iter(version->tables[i], &iter, NULL);
        assert_int_equal(rc, MW_OK);
        mw_table_group group;
        for (assert_int_equal(iter->ops->first(iter, NULL), MW_OK); iter->valid;) {
            bool begins = false;
            rc = mw_table_copy_look(iter, &last, &group, &begins, NULL);
            assert_int_equal(rc, MW_OK);
            groups += begins;
            assert_int_equal(iter->ops->next(iter, NULL), MW_OK);
        }
        mw_iter_close(iter);
    }
    mw_buf_free(&last);
    return groups;
}

/* Rows in key order but for a few late ones: what is copied and what is merged gives one store, the
** same as rows that are merged one by one; groups stay at least half full. */
static void copied_groups_are_as_if_merged(void **state)
{
    (void)state;
    enum { ROWS = 1600, GROUP = 16 };
    uint64_t seed = first_seed() | 1;
    for (int round = 0; round < 12; round++) {
        mw_options options = quiet_options();
        options.group_rows = GROUP;
        options.page_bytes = round % 2 ? 60 : 0;
        options.compression = round % 3;
        options.file_bytes = round % 4 == 3 ? 3000 : 1 << 20;
        sim *world = engine_world();
        mw_db *db = engine_open(world, &options);
        static char model[ROWS][WORDS_BYTES];
        int64_t live = ROWS;
        fill_and_flush(db, 0, ROWS, "x");
        for (int i = 0; i < ROWS; i++) snprintf(model[i], WORDS_BYTES, "x%d", i);
        engine_merge(db, 0);
        for (int step = 0; step < 4; step++) {
            mw_txn *txn = engine_begin(db);
            for (uint64_t late = 1 + roll(&seed) % 8; late > 0; late--) {
                int64_t id = (int64_t)(roll(&seed) % ROWS);
                bool delete = roll(&seed) % 4 == 0;
                live -= model[id][0] != 0;
                snprintf(model[id], WORDS_BYTES, "%s", delete ? "" : "late");
                live += model[id][0] != 0;
                engine_txn_try(txn, id, delete ? NULL : "late", NULL);
            }
            engine_commit(txn, MW_TXN_LIGHT);
            engine_flush(db);
            engine_merge(db, 0);
            assert_string_equal(engine_check(db), "ok");
            assert_int_equal(engine_count(db), live);
            assert_int_equal(engine_figure(db, "physical_rows"), live);
        }
        for (int64_t id = 0; id < ROWS; id++) {
            const char *found = engine_find(db, id);
            assert_string_equal(found ? found : "", model[id]);
        }
        uint32_t most = 2 * ROWS / GROUP + 8 + (uint32_t)engine_figure(db, "files");
        assert_in_range(group_count(db), ROWS / GROUP - 8, most);
        engine_close(db);
        engine_end(world);
    }
}

/* A page of a group that would be copied is damaged: told, not copied on (I9). */
static void damage_is_not_copied(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    options.group_rows = 16;
    options.file_bytes = 1 << 20;
    char path[ENGINE_PATH_BYTES];
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    fill_and_flush(db, 0, 100, "x");
    assert_true(engine_file(world, "table-", 0, path));
    fill_and_flush(db, 99, 2, "y"); /* the groups before lie alone */
    engine_close(db);
    uint64_t bits = 8 * (uint64_t)sim_file_size(world, path);
    int told = 0;
    for (uint64_t bit = 8 * 64; bit < bits; bit += 8 * 97 + 1) {
        sim_file_flip(world, path, bit);
        mw_db *again = NULL;
        uint32_t folded;
        mw_rc rc = engine_try_open(world, &options, &again, NULL);
        if (rc == MW_OK) {
            rc = mw_db_merge(again, 0, NULL, NULL, &folded, NULL);
            if (rc == MW_OK) { /* the filter, which a merge does not read */
                assert_int_equal(engine_count(again), 101);
                assert_string_equal(engine_check(again), "ok");
            }
            bool done = rc == MW_OK;
            engine_close(again);
            if (done) break;
        }
        assert_int_equal(rc, MW_CORRUPT);
        told++;
        sim_file_flip(world, path, bit);
    }
    assert_true(told > 3);
    engine_end(world);
}

/* ---- interrupted, failing -------------------------------------------------------------------- */

static bool after_some(void *arg)
{
    int *left = arg;
    return (*left)-- == 0;
}

/* A compaction of many jobs, interrupted after each number of slices: what is finished stays. */
static void an_interrupted_compaction_keeps_what_is_finished(void **state)
{
    (void)state;
    mw_rc rc = MW_INTERRUPTED;
    int kept = 0;
    for (int slices = 0; rc == MW_INTERRUPTED; slices++) {
        mw_options options = quiet_options();
        sim *world = engine_world();
        mw_db *db = engine_open(world, &options);
        fill_and_flush(db, 0, 100, "a");
        engine_merge(db, 0);
        move_level(db, 1, 2);
        fill_and_flush(db, 50, 100, "b");
        move_level(db, 0, 1);
        fill_and_flush(db, 40, 80, "c");
        int left = slices;
        uint64_t removed = 0;
        int64_t before = engine_figure(db, "physical_rows");
        rc = mw_db_compact(db, after_some, &left, &removed, NULL);
        kept += rc == MW_INTERRUPTED && removed > 0;
        assert_int_equal(before - engine_figure(db, "physical_rows"), removed);
        assert_int_equal(engine_count(db), 150);
        assert_int_equal(engine_file_count(world, "table-"), engine_figure(db, "files"));
        assert_string_equal(engine_find(db, 100), "c100");
        expect_compact(db);
        assert_int_equal(engine_count(db), 150);
        engine_close(db);
        engine_end(world);
    }
    assert_int_equal(rc, MW_OK);
    assert_true(kept > 1);
}

typedef struct busy_writer {
    mw_db *db;
    int64_t id;
} busy_writer;

/* Writes a generation each time it is asked, and gives up after far too many. */
static bool write_meanwhile(void *arg)
{
    busy_writer *self = arg;
    fill_and_flush(self->db, self->id, 3, "m");
    self->id += 2;
    return self->id > 2000;
}

/* C65: what is flushed while a compaction or a merge runs is not its own: it comes to an end. */
static void a_compaction_ends_while_others_write(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t i = 0; i < 4; i++) fill_and_flush(db, 10 * i, 15, "x");
    busy_writer writer = {db, 100};
    uint64_t removed;
    uint32_t folded;
    assert_int_equal(mw_db_compact(db, write_meanwhile, &writer, &removed, NULL), MW_OK);
    int64_t pending = engine_figure(db, "generations");
    assert_in_range(pending, 1, 20);
    assert_int_equal(mw_db_merge(db, 0, write_meanwhile, &writer, &folded, NULL), MW_OK);
    assert_int_equal(folded, pending);
    assert_int_equal(engine_count(db), 45 + writer.id - 100 + 1);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

/* What was read of files that are gone takes no room in the cache. */
static void pages_of_merged_files_leave_the_cache(void **state)
{
    (void)state;
    mw_options options = quiet_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    fill_and_flush(db, 0, 100, "a");
    fill_and_flush(db, 0, 100, "b");
    assert_int_equal(engine_count(db), 100);
    assert_true(engine_figure(db, "cache_bytes") > 0);
    for (int64_t id = 0; id < 100; id++) engine_delete(db, id);
    engine_flush(db);
    uint64_t removed;
    assert_int_equal(mw_db_compact(db, NULL, NULL, &removed, NULL), MW_OK);
    assert_int_equal(engine_figure(db, "files"), 0);
    assert_int_equal(engine_figure(db, "cache_bytes"), 0);
    assert_int_equal(engine_figure(db, "index_bytes"), 0);
    engine_close(db);
    engine_end(world);
}

/* Rows that lived in the deepest of several levels, and are all deleted: the room comes back by
** the merges that are due, though tombstones are too small to fill a level. */
static void deleted_rows_give_their_room_back(void **state)
{
    (void)state;
    enum { ROWS = 2000 };
    mw_options options = little_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t i = 0; i < ROWS; i++) engine_put(db, i * 7919 % ROWS, "a row of some length");
    assert_true(engine_figure(db, "base_levels") > 1);
    for (int64_t i = 0; i < ROWS; i++) engine_delete(db, i * 1009 % ROWS);
    engine_flush(db);
    for (int64_t i = 0; i < 200; i++) engine_put(db, ROWS, "x"); /* writers merge */
    assert_int_equal(engine_figure(db, "rows"), 1);
    assert_in_range(engine_figure(db, "physical_rows"), 0, ROWS / 20);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    engine_end(world);
}

static mw_db *open_for_jobs(sim *world, const mw_options *options)
{
    mw_db *db = engine_open(world, options);
    fill_and_flush(db, 0, 12, "a");
    engine_merge(db, 0);
    move_level(db, 1, 2);
    fill_and_flush(db, 4, 12, "b");
    move_level(db, 0, 1);
    fill_and_flush(db, 2, 3, "c");
    engine_delete(db, 9);
    engine_flush(db);
    return db;
}

static const char after_jobs[] = "0=a0 1=a1 2=c2 3=c3 4=c4 5=b5 6=b6 7=b7 8=b8 10=b10 11=b11 "
                                 "12=b12 13=b13 14=b14 15=b15";

/* C65: each call of a merge over several levels and files finds the disk full, or fails. Reads and
** writes go on, nothing is lost or left over, and once there is room the work is done. */
static void expect_jobs_repeated(sim_op op, int sys)
{
    bool met = true;
    for (uint64_t n = 1; met; n++) {
        mw_options options = quiet_options();
        sim *world = engine_world();
        mw_db *db = open_for_jobs(world, &options);
        uint64_t removed;
        sim_fail(world, op, n, sys, false);
        mw_rc rc = mw_db_compact(db, NULL, NULL, &removed, NULL);
        met = sim_fail_hits(world) > 0;
        sim_fail_clear(world);
        assert_string_equal(engine_rows(db), after_jobs);
        if (rc == MW_PERSISTENCE) {
            assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
            db = engine_open(world, &options);
        }
        assert_string_equal(engine_rows(db), after_jobs);
        expect_compact(db);
        assert_string_equal(engine_rows(db), after_jobs);
        assert_string_equal(engine_check(db), "ok");
        assert_int_equal(engine_file_count(world, "table-"), engine_figure(db, "files"));
        engine_close(db);
        engine_end(world);
    }
}

static void a_job_that_fails_changes_nothing(void **state)
{
    (void)state;
    expect_jobs_repeated(SIM_WRITE, ENOSPC);
    expect_jobs_repeated(SIM_OPEN, ENOSPC);
    expect_jobs_repeated(SIM_READ, EIO);
    expect_jobs_repeated(SIM_FILE_SYNC, EIO);
    expect_jobs_repeated(SIM_LINK, EIO);
    expect_jobs_repeated(SIM_ALLOC, ENOMEM);
}

/* ---- many ------------------------------------------------------------------------------------ */

typedef struct writer {
    mw_db *db;
    int64_t first;
    uint64_t longest_ns;
    mw_rc rc;
    pthread_t thread;
} writer;

enum { WRITERS = 16, WRITES = 20 };

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *write_rows(void *arg)
{
    writer *self = arg;
    for (int64_t i = 0; self->rc == MW_OK && i < WRITES; i++) {
        uint64_t began = nanoseconds();
        self->rc = engine_try(self->db, self->first + i, "new", MW_TXN_LIGHT, NULL);
        uint64_t took = nanoseconds() - began;
        if (took > self->longest_ns) self->longest_ns = took;
    }
    return NULL;
}

/* L34: a backlog of a thousand generations is merged while sixteen writers insert: none is refused,
** none waits for the merge. */
static void writers_do_not_wait_for_a_merge_of_a_long_backlog(void **state)
{
    (void)state;
    enum { BACKLOG = 1000 };
    mw_options options = engine_options();
    options.merge_generations = 10 * BACKLOG;
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    for (int64_t id = 0; id < BACKLOG; id++) {
        engine_put(db, id / 2, "x");
        engine_flush(db);
    }
    assert_int_equal(engine_figure(db, "generations"), BACKLOG);
    engine_call merge = {.run = engine_run_merge, .db = db};
    engine_start(&merge);
    writer writers[WRITERS];
    uint64_t longest_ns = 0;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){.db = db, .first = 10000 + i * WRITES};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_rows, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        assert_int_equal(writers[i].rc, MW_OK);
        if (writers[i].longest_ns > longest_ns) longest_ns = writers[i].longest_ns;
    }
    assert_int_equal(engine_wait(&merge), MW_OK);
    print_message("longest write: %llu us\n", (unsigned long long)longest_ns / 1000);
    assert_in_range(longest_ns, 0, UINT64_C(5000000000)); /* a hang, not a slow machine */
    assert_int_equal(merge.number, BACKLOG);
    assert_int_equal(engine_count(db), BACKLOG / 2 + WRITERS * WRITES);
    engine_close(db);
    engine_end(world);
}

/* L35: two hundred generations of large rows: merged in passes, memory stays far below their
** size. */
static void a_merge_of_large_rows_stays_in_memory(void **state)
{
    (void)state;
    enum { GENERATIONS = 200, ROW = 200000 };
    static char words[ROW + 1];
    mw_options options = engine_options();
    sim *world = engine_world();
    mw_db *db = engine_open(world, &options);
    memset(words, 'w', ROW);
    for (int64_t id = 0; id < GENERATIONS; id++) {
        engine_put(db, 7 * id % GENERATIONS, words);
        engine_flush(db);
    }
    engine_close(db);
    db = engine_open(world, &options);
    uint64_t before = sim_memory_in_use(world);
    uint64_t peak = sim_memory_peak(world);
    assert_int_equal(engine_merge(db, 0), GENERATIONS);
    uint64_t more = sim_memory_peak(world) > peak ? sim_memory_peak(world) - before : 0;
    assert_in_range(more, 0, (uint64_t)GENERATIONS * ROW / 2);
    assert_int_equal(engine_count(db), GENERATIONS);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_hold_what_was_written),
        cmocka_unit_test(a_tombstone_stays_above_older_levels),
        cmocka_unit_test(what_nothing_overlaps_moves_without_being_written),
        cmocka_unit_test(a_move_never_passes_an_older_version),
        cmocka_unit_test(a_merge_writes_files_of_bounded_size),
        cmocka_unit_test(a_job_in_the_middle_of_a_level_begins_with_a_whole_file),
        cmocka_unit_test(a_merge_never_brings_an_older_value_back),
        cmocka_unit_test(hidden_rows_before_the_first_live_one_are_passed_over),
        cmocka_unit_test(copied_groups_are_as_if_merged),
        cmocka_unit_test(damage_is_not_copied),
        cmocka_unit_test(an_interrupted_compaction_keeps_what_is_finished),
        cmocka_unit_test(a_compaction_ends_while_others_write),
        cmocka_unit_test(deleted_rows_give_their_room_back),
        cmocka_unit_test(pages_of_merged_files_leave_the_cache),
        cmocka_unit_test(a_job_that_fails_changes_nothing),
        cmocka_unit_test(writers_do_not_wait_for_a_merge_of_a_long_backlog),
        cmocka_unit_test(a_merge_of_large_rows_stays_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
