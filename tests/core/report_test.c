/* report_test.c: the figures are those of what was done, agree with each other and with the
** folder. */
#include "report.h"

#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- figures --------------------------------------------------------------------------------- */

typedef struct names {
    char text[2048];
    double ratio;
    const char *wanted;
    mw_type type;
} names;

static void note(void *arg, const char *name, const mw_value *value)
{
    names *all = arg;
    size_t used = strlen(all->text);
    snprintf(all->text + used, sizeof all->text - used, " %s ", name);
    if (!all->wanted || strcmp(name, all->wanted) != 0) return;
    all->ratio = value->real;
    all->type = value->type;
}

static double ratio_of(mw_db *db, const char *name)
{
    names all = {.wanted = name};
    assert_int_equal(mw_db_stats(db, note, &all, NULL), MW_OK);
    assert_int_equal(all.type, MW_REAL);
    return all.ratio;
}

static mw_type type_of(mw_db *db, const char *name)
{
    names all = {.wanted = name, .type = MW_BLOB};
    assert_int_equal(mw_db_stats(db, note, &all, NULL), MW_OK);
    return all.type;
}

/* Everything that the design promises, once each. */
static void every_promised_figure_is_there_once(void **state)
{
    (void)state;
    static const char *const promised[] = {
        "rows",
        "physical_rows",
        "memtable_rows",
        "memtable_bytes",
        "generations",
        "generation_rows",
        "base_rows",
        "base_levels",
        "files",
        "file_bytes",
        "wal_bytes",
        "wal_cursor",
        "wal_position",
        "epoch",
        "path",
        "manifest",
        "commits",
        "wal_writes",
        "wal_syncs",
        "flushes",
        "merges",
        "bytes_written",
        "bytes_logical",
        "write_amplification",
        "space_amplification",
        "cache_hits",
        "cache_misses",
        "snapshots",
        "oldest_snapshot_s",
        "stall_s",
        "last_error",
    };
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    names all = {.wanted = NULL};
    assert_int_equal(mw_db_stats(db, note, &all, NULL), MW_OK);
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
        char name[64];
        snprintf(name, sizeof name, " %s ", promised[i]);
        const char *found = strstr(all.text, name);
        if (!found) fail_msg("%s is missing", promised[i]);
        if (strstr(found + 1, name)) fail_msg("%s is there twice", promised[i]);
    }
    engine_close(db);
    engine_end(world);
}

/* Asserts one figure by name, and says which. */
static void expect(mw_db *db, const char *name, int64_t wanted)
{
    int64_t found = engine_figure(db, name);
    if (found != wanted)
        fail_msg("%s: expected %lld, found %lld", name, (long long)wanted, (long long)found);
}

static void figures_follow_what_was_done(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    expect(db, "rows", 0);
    expect(db, "memtables", 1);
    expect(db, "epoch", 0);
    expect(db, "files", 0);
    engine_fill(db, 1, 10, "x"); /* one commit */
    engine_delete(db, 10);
    expect(db, "rows", 9);
    expect(db, "memtable_rows", 11);
    expect(db, "commits", 2);
    expect(db, "wal_writes", 2);
    expect(db, "wal_syncs", 2);
    expect(db, "wal_position", 2);
    expect(db, "wal_cursor", 0);
    expect(db, "epoch", 1);
    assert_true(engine_figure(db, "memtable_bytes") > 0);
    int64_t logical = engine_figure(db, "bytes_logical");
    assert_in_range(logical, 11 * 9, 11 * 60);
    engine_flush(db);
    expect(db, "rows", 9);
    expect(db, "memtable_rows", 0);
    expect(db, "wal_cursor", 2);
    expect(db, "flushes", 1);
    expect(db, "generations", 1);
    expect(db, "generation_rows", 10); /* nine rows and a tombstone */
    expect(db, "physical_rows", 10);
    expect(db, "base_rows", 0);
    engine_put(db, 1, "X");
    engine_flush(db);
    expect(db, "generations", 2);
    expect(db, "generation_rows", 11);
    engine_merge(db, 0);
    expect(db, "merges", 1);
    expect(db, "generations", 0);
    expect(db, "base_rows", 9);
    expect(db, "base_levels", 1);
    expect(db, "physical_rows", 9);
    expect(db, "rows", 9);
    assert_true(engine_figure(db, "bytes_logical") > logical);
    assert_string_equal(engine_words(db, "path"), "store");
    engine_close(db);
    engine_end(world);
}

/* Bytes that went to disk, found out from what lies there. */
typedef struct written {
    sim *world;
    char seen[64][ENGINE_PATH_BYTES]; /* table files that were counted */
    uint32_t seen_count;
    int64_t bytes;
} written;

/* Table files that are new since the last look. */
static void count_tables(written *sum)
{
    char path[ENGINE_PATH_BYTES];
    for (uint32_t i = 0; engine_file(sum->world, "table-", i, path); i++) {
        bool known = false;
        for (uint32_t j = 0; j < sum->seen_count; j++) known |= strcmp(sum->seen[j], path) == 0;
        if (known) continue;
        assert_true(sum->seen_count < 64);
        memcpy(sum->seen[sum->seen_count++], path, sizeof path);
        sum->bytes += sim_file_size(sum->world, path);
    }
}

/* What the log holds now; to be called once before each flush. */
static void count_log(written *sum, mw_db *db)
{
    mw_log_view *view;
    mw_log_line line;
    bool any = true;
    assert_int_equal(mw_log_view_open(db, &view, NULL), MW_OK);
    while (any) {
        assert_int_equal(mw_log_view_next(view, &line, &any, NULL), MW_OK);
        if (any) sum->bytes += (int64_t)line.bytes;
    }
    mw_log_view_close(view);
}

/* What was written and what was asked for are counted since the store was opened, both. */
static void bytes_written_are_those_of_log_and_tables(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    written sum = {.world = world};
    for (int64_t round = 0; round < 8; round++) {
        engine_fill(db, round * 5, 10, "some words");
        engine_delete(db, round);
        count_log(&sum, db);
        engine_flush(db);
        count_tables(&sum);
        if (round % 3 == 2) engine_merge(db, 2);
        count_tables(&sum);
    }
    assert_int_equal(engine_figure(db, "bytes_written"), sum.bytes);
    double logical = (double)engine_figure(db, "bytes_logical");
    assert_true(ratio_of(db, "write_amplification") == (double)sum.bytes / logical);
    engine_close(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_figure(db, "bytes_written"), 0);
    assert_int_equal(engine_figure(db, "bytes_logical"), 0);
    assert_int_equal(type_of(db, "write_amplification"), MW_NULL);
    engine_close(db);
    engine_end(world);
}

/* C27: an aborted transaction is no commit, and neither is its abort. */
static void commits_are_those_that_count(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "light");
    mw_txn *txn = engine_begin(db);
    engine_txn_put(txn, 2, "full");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    assert_int_equal(engine_figure(db, "commits"), 1); /* not decided yet */
    assert_int_equal(mw_txn_commit(txn, NULL), MW_OK);
    assert_int_equal(engine_figure(db, "commits"), 2);
    txn = engine_begin(db);
    engine_txn_put(txn, 3, "taken back");
    assert_int_equal(mw_txn_prepare(txn, MW_TXN_FULL, NULL), MW_OK);
    engine_rollback(txn);
    assert_int_equal(engine_figure(db, "commits"), 2);
    assert_int_equal(engine_figure(db, "wal_position"), 4);
    engine_close(db);
    engine_end(world);
}

/* I7, 2.4: rows = the count of a snapshot; physical rows = generation rows + base rows; sizes are
** those of the files; amplifications are what their words say. */
static void figures_agree_with_each_other_and_with_the_files(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    assert_int_equal(type_of(db, "write_amplification"), MW_NULL); /* nothing to divide by */
    assert_int_equal(type_of(db, "space_amplification"), MW_NULL);
    for (int64_t round = 0; round < 6; round++) {
        engine_fill(db, round * 5, 10, "x");
        engine_delete(db, round);
        engine_flush(db);
        if (round == 3) engine_merge(db, 2);
    }
    engine_put(db, 1000, "memory");
    expect(db, "rows", engine_count(db));
    int64_t physical = engine_figure(db, "physical_rows");
    assert_int_equal(physical,
                     engine_figure(db, "generation_rows") + engine_figure(db, "base_rows"));
    char path[ENGINE_PATH_BYTES];
    int64_t bytes = 0;
    for (uint32_t i = 0; engine_file(world, "table-", i, path); i++)
        bytes += sim_file_size(world, path);
    expect(db, "file_bytes", bytes);
    expect(db, "files", engine_file_count(world, "table-"));
    bytes = 0;
    for (uint32_t i = 0; engine_file(world, "wal-", i, path); i++)
        bytes += sim_file_size(world, path);
    expect(db, "wal_bytes", bytes);
    assert_true(engine_file(world, "manifest-", 0, path));
    snprintf(path, sizeof path, "store/manifest-%016llx",
             (unsigned long long)engine_figure(db, "manifest"));
    assert_true(sim_file_exists(world, path));
    double rows = (double)engine_store(db)->version->manifest->count;
    assert_true(ratio_of(db, "space_amplification") == (double)physical / rows);
    engine_close(db);
    engine_end(world);
}

/* C34: how many readers keep files, and for how long. */
static void snapshots_show_their_number_and_age(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    assert_int_equal(type_of(db, "oldest_snapshot_s"), MW_NULL);
    mw_snapshot *all[3];
    for (int i = 0; i < 3; i++) {
        all[i] = engine_snapshot(db);
        sim_clock_advance(world, 10 * UINT64_C(1000000000));
    }
    expect(db, "snapshots", 3);
    assert_true(ratio_of(db, "oldest_snapshot_s") >= 30 && ratio_of(db, "oldest_snapshot_s") < 35);
    mw_snapshot_release(all[1]); /* from the middle */
    assert_true(ratio_of(db, "oldest_snapshot_s") >= 30);
    mw_snapshot_release(all[0]);
    assert_true(ratio_of(db, "oldest_snapshot_s") >= 10 && ratio_of(db, "oldest_snapshot_s") < 15);
    mw_snapshot_release(all[2]);
    expect(db, "snapshots", 0);
    assert_int_equal(type_of(db, "oldest_snapshot_s"), MW_NULL);
    engine_close(db);
    engine_end(world);
}

/* Reading the same page twice is a miss and then hits. */
static void the_cache_counts_hits_and_misses(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 100, "x");
    engine_flush(db);
    assert_string_equal(engine_find(db, 50), "x50");
    int64_t misses = engine_figure(db, "cache_misses");
    int64_t hits = engine_figure(db, "cache_hits");
    assert_true(misses > 0);
    assert_true(engine_figure(db, "cache_bytes") > 0);
    assert_string_equal(engine_find(db, 50), "x50");
    assert_int_equal(engine_figure(db, "cache_misses"), misses);
    assert_true(engine_figure(db, "cache_hits") > hits);
    engine_close(db);
    engine_end(world);
}

/* Open table files, and the bytes of their indexes and filters. */
static void open_files_are_counted(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    for (int64_t id = 0; id < 3; id++) {
        engine_put(db, id, "x");
        engine_flush(db);
    }
    engine_close(db);
    db = engine_open(world, NULL);
    /* Others may write: the files are kept open, with what is read of them later. */
    assert_int_equal(engine_figure(db, "open_files"), 3);
    assert_int_equal(engine_figure(db, "index_bytes"), 0);
    assert_string_equal(engine_find(db, 1), "x");
    int64_t one = engine_figure(db, "index_bytes");
    assert_true(one > 0);
    assert_int_equal(engine_count(db), 3);
    assert_int_equal(engine_figure(db, "open_files"), 3);
    assert_true(engine_figure(db, "index_bytes") > one);
    engine_close(db);
    engine_end(world);
}

/* The reason why writing has stopped. */
static void the_last_error_is_shown(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    assert_null(engine_words(db, "last_error"));
    sim_fail_named(world, SIM_FILE_SYNC, "wal-", 2, EIO,
                   false); /* the first is the new segment's */
    mw_err err = {0};
    assert_int_equal(engine_try(db, 1, "a", MW_TXN_LIGHT, &err), MW_PERSISTENCE);
    assert_string_equal(engine_words(db, "last_error"), err.text);
    assert_int_equal(mw_db_close(db, NULL), MW_PERSISTENCE);
    engine_end(world);
}

/* C65: a disk that is full is told while it lasts, and no longer. */
static void a_full_disk_is_the_last_error_until_it_has_room(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_options options = engine_options();
    options.background = true;
    options.memtable_bytes = 1000;
    mw_db *db = engine_open(world, &options);
    sim_fail_named(world, SIM_WRITE, "table-", 1, ENOSPC, true);
    int64_t id = 0;
    while (engine_figure(db, "memtables") < 3) engine_put(db, id++, "x");
    const char *words = NULL;
    for (int i = 0; i < ENGINE_WAIT_MS && !words; i++) {
        usleep(1000);
        words = engine_words(db, "last_error");
    }
    assert_non_null(words);
    assert_non_null(strstr(words, "table-"));
    assert_non_null(strstr(words, "No space left"));
    sim_fail_clear(world);
    engine_wait_figure(db, "flushes", 2);
    for (int i = 0; i < ENGINE_WAIT_MS && words; i++) {
        usleep(1000);
        words = engine_words(db, "last_error");
    }
    assert_null(words);
    assert_int_equal(engine_count(db), id);
    engine_close(db);
    engine_end(world);
}

static void figures_that_cannot_be_had_are_an_error(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_put(db, 1, "a");
    names all = {.wanted = NULL};
    sim_fail_named(world, SIM_SIZE, "wal-", 1, EIO, false);
    assert_int_equal(mw_db_stats(db, note, &all, NULL), MW_IO);
    assert_string_equal(all.text, "");
    assert_int_equal(mw_db_stats(db, note, &all, NULL), MW_OK);
    engine_close(db);
    engine_end(world);
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct listed {
    sim *world;
    char text[1024]; /* "kind level generation rows tombstones, ..." */
    int64_t bytes;
    uint32_t count;
} listed;

static void note_file(void *arg, const mw_file_info *file)
{
    listed *all = arg;
    char path[ENGINE_PATH_BYTES];
    snprintf(path, sizeof path, "store/%s", file->name);
    int64_t size = sim_file_size(all->world, path);
    if (size < 0) fail_msg("%s is listed, but not there", path);
    assert_int_equal(file->bytes, size);
    size_t used = strlen(all->text);
    snprintf(all->text + used, sizeof all->text - used, "%s %d %lld %lld %lld, ", file->kind,
             file->level, (long long)file->generation, (long long)file->rows,
             (long long)file->tombstones);
    if (strcmp(file->kind, "table") == 0) {
        all->count++;
        assert_int_equal(file->key_min.size, 8);
        assert_true(mw_key_get_integer(file->key_min.data) <=
                    mw_key_get_integer(file->key_max.data));
    } else {
        assert_null(file->key_min.data);
        assert_null(file->key_max.data);
    }
}

static void files_are_listed_as_they_are(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    engine_fill(db, 1, 10, "x");
    engine_flush(db);
    engine_merge(db, 0);
    engine_put(db, 20, "y");
    engine_delete(db, 3);
    engine_flush(db);
    engine_put(db, 30, "z");
    listed all = {.world = world};
    assert_int_equal(mw_db_files(db, note_file, &all, NULL), MW_OK);
    assert_string_equal(all.text,
                        "manifest -1 -1 -1 -1, state -1 -1 -1 -1, table 1 1 10 0, "
                        "table 0 2 1 1, log -1 3 -1 -1, ");
    assert_int_equal(all.count, 2);
    char path[ENGINE_PATH_BYTES];
    assert_int_equal(engine_file_count(world, ""), 5 + 2); /* and the lock, and the page */
    assert_true(engine_file(world, "lock", 0, path));
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promised_figure_is_there_once),
        cmocka_unit_test(figures_follow_what_was_done),
        cmocka_unit_test(bytes_written_are_those_of_log_and_tables),
        cmocka_unit_test(commits_are_those_that_count),
        cmocka_unit_test(figures_agree_with_each_other_and_with_the_files),
        cmocka_unit_test(snapshots_show_their_number_and_age),
        cmocka_unit_test(the_cache_counts_hits_and_misses),
        cmocka_unit_test(open_files_are_counted),
        cmocka_unit_test(the_last_error_is_shown),
        cmocka_unit_test(a_full_disk_is_the_last_error_until_it_has_room),
        cmocka_unit_test(figures_that_cannot_be_had_are_an_error),
        cmocka_unit_test(files_are_listed_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
