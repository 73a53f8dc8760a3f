/* sim_test.c: the simulated machine keeps its word: it loses, keeps, tears and reorders what a real
** disk may, and nothing else. */
#include "sim.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct place {
    sim *world;
    const mw_env *env;
    int dir;
    int file;
} place;

/* A store with a durable file "f" of `durable` bytes 'o', open for writing. */
static place open_place(size_t durable)
{
    place at = {.world = sim_create()};
    uint8_t *old = malloc(durable + 1);
    assert_non_null(old);
    memset(old, 'o', durable + 1);
    at.env = sim_env(at.world);
    sim_make_dir(at.world, "store");
    sim_file_put(at.world, "store/f", old, durable);
    free(old);
    assert_int_equal(at.env->dir_open(at.env->ctx, "store", false, &at.dir), 0);
    assert_int_equal(at.env->file_open(at.env->ctx, at.dir, "f", MW_OPEN_WRITE, &at.file), 0);
    return at;
}

static void close_place(place *at)
{
    at->env->file_close(at->env->ctx, at->file);
    at->env->dir_close(at->env->ctx, at->dir);
    assert_int_equal(sim_open_count(at->world), 0);
    assert_int_equal(sim_memory_in_use(at->world), 0);
    sim_destroy(at->world);
}

static int write_fill(const place *at, char fill, size_t bytes, uint64_t offset)
{
    char data[8192];
    size_t put = 0;
    assert_true(bytes <= sizeof data);
    memset(data, fill, bytes);
    return at->env->file_write(at->env->ctx, at->file, data, bytes, offset, &put);
}

static int create_file(const place *at, const char *name)
{
    int file = -1;
    int sys = at->env->file_open(at->env->ctx, at->dir, name, MW_OPEN_CREATE, &file);
    if (sys == 0) at->env->file_close(at->env->ctx, file);
    return sys;
}

/* How many disk states show these bytes at this place of "f" (a byte each 512). */
static uint32_t count_showing(const place *at, const char *pattern)
{
    uint32_t found = 0;
    uint32_t count = sim_disk_count(at->world, SIM_CAP_DEFAULT);
    for (uint32_t i = 0; i < count; i++) {
        sim *after = sim_disk_state(at->world, i);
        size_t units = 0;
        for (; pattern[units]; units++) {
            char byte = 0;
            uint64_t offset = units * SIM_UNIT_BYTES;
            if (sim_file_read(after, "store/f", offset, &byte, 1) != 1) byte = '-';
            if (byte == 0) byte = '0';
            if (byte != pattern[units]) break;
        }
        if (!pattern[units]) found++;
        sim_destroy(after);
    }
    return found;
}

static void synced_data_is_the_only_state(void **state)
{
    (void)state;
    place at = open_place(512);
    assert_int_equal(write_fill(&at, 'n', 1024, 0), 0);
    assert_int_equal(at.env->file_sync(at.env->ctx, at.file), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    assert_int_equal(count_showing(&at, "nn-"), 1);
    close_place(&at);
}

static void unsynced_data_is_lost_kept_or_torn_by_units(void **state)
{
    (void)state;
    place at = open_place(1536);
    assert_int_equal(write_fill(&at, 'n', 1536, 0), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 8);
    static const char *const all[] = {"ooo", "noo", "ono", "nno", "oon", "non", "onn", "nnn"};
    for (int i = 0; i < 8; i++) assert_int_equal(count_showing(&at, all[i]), 1);
    close_place(&at);
}

static void units_are_cut_at_offsets_of_the_file(void **state)
{
    (void)state;
    place at = open_place(1024);
    assert_int_equal(write_fill(&at, 'n', 300, 400), 0); /* 112 bytes in a unit, 188 in the next */
    uint32_t count = sim_disk_count(at.world, SIM_CAP_DEFAULT);
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < count; i++) {
        sim *after = sim_disk_state(at.world, i);
        char back[1024];
        assert_int_equal(sim_file_read(after, "store/f", 0, back, sizeof back), 1024);
        for (size_t b = 401; b < 512; b++) assert_int_equal(back[b], back[400]);
        for (size_t b = 513; b < 700; b++) assert_int_equal(back[b], back[512]);
        assert_int_equal(back[399], 'o');
        assert_int_equal(back[700], 'o');
        sim_destroy(after);
    }
    close_place(&at);
}

/* A later write may be on disk, an earlier one lost; but over the same bytes the later wins. */
static void writes_are_reordered(void **state)
{
    (void)state;
    place at = open_place(1024);
    assert_int_equal(write_fill(&at, '1', 512, 0), 0);
    assert_int_equal(write_fill(&at, '2', 512, 512), 0);
    assert_int_equal(write_fill(&at, '3', 512, 0), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 6); /* o, 1, 3 times o, 2 */
    assert_int_equal(count_showing(&at, "o2"), 1);
    assert_int_equal(count_showing(&at, "1o"), 1);
    assert_int_equal(count_showing(&at, "3o"), 1);
    assert_int_equal(count_showing(&at, "32"), 1);
    close_place(&at);
}

static void sizes_lie_between_and_gaps_are_zeros(void **state)
{
    (void)state;
    place at = open_place(512);
    assert_int_equal(write_fill(&at, 'n', 1024, 512), 0);
    /* Nothing of it; one unit long: zeros or data; two: each of both. */
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1 + 2 + 4);
    assert_int_equal(count_showing(&at, "o--"), 1);
    assert_int_equal(count_showing(&at, "o0-"), 1);
    assert_int_equal(count_showing(&at, "on-"), 1);
    assert_int_equal(count_showing(&at, "o0n"), 1);
    assert_int_equal(count_showing(&at, "on0"), 1);
    close_place(&at);
}

static void allocated_room_reads_as_zeros_and_may_be_lost(void **state)
{
    (void)state;
    place at = open_place(512);
    assert_int_equal(at.env->file_allocate(at.env->ctx, at.file, 0, 1536), 0);
    assert_int_equal(at.env->file_allocate(at.env->ctx, at.file, 0, 100), 0);
    assert_int_equal(sim_file_size(at.world, "store/f"), 1536);
    assert_int_equal(count_showing(&at, "o--"), 1);
    assert_int_equal(count_showing(&at, "o00"), 1);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 3); /* and the middle */
    assert_int_equal(at.env->file_sync(at.env->ctx, at.file), 0);
    assert_int_equal(count_showing(&at, "o00"), 1);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    close_place(&at);
}

/* I15: syncing a file does not keep its name, syncing a folder does not keep content. */
static void a_cut_is_lost_or_kept_apart_from_what_follows(void **state)
{
    (void)state;
    place at = open_place(1024);
    assert_int_equal(sim_truncate(at.world, at.file, 512), 0);
    assert_int_equal(sim_file_size(at.world, "store/f"), 512);
    assert_int_equal(count_showing(&at, ""), 3);
    assert_int_equal(count_showing(&at, "oo"), 1);
    assert_int_equal(count_showing(&at, "o-"), 1);
    assert_int_equal(count_showing(&at, "o0"), 1);
    assert_int_equal(write_fill(&at, '1', 512, 512), 0);
    assert_int_equal(count_showing(&at, ""), 4);
    assert_int_equal(count_showing(&at, "o1"), 1);
    assert_int_equal(sim_truncate(at.world, at.file, 0), 0);
    assert_int_equal(at.env->file_sync(at.env->ctx, at.file), 0);
    assert_int_equal(count_showing(&at, "-"), 1);
    assert_int_equal(count_showing(&at, ""), 1);
    assert_int_equal(sim_truncate(at.world, at.file, 512), 0);
    assert_int_equal(count_showing(&at, "0-"), 1);
    assert_int_equal(sim_calls(at.world, SIM_TRUNCATE), 3);
    close_place(&at);
}

static void in_order_a_prefix_of_the_writes_is_kept(void **state)
{
    (void)state;
    place at = open_place(1024);
    sim_set_in_order(at.world);
    assert_int_equal(write_fill(&at, '1', 512, 512), 0);
    assert_int_equal(sim_truncate(at.world, at.file, 0), 0);
    assert_int_equal(write_fill(&at, '2', 1024, 0), 0);
    assert_int_equal(at.env->file_allocate(at.env->ctx, at.file, 1024, 512), 0);
    assert_int_equal(count_showing(&at, ""), 6);
    assert_int_equal(count_showing(&at, "oo-"), 1);
    assert_int_equal(count_showing(&at, "o1-"), 1);
    assert_int_equal(count_showing(&at, "-"), 1);
    assert_int_equal(count_showing(&at, "2-"), 1);
    assert_int_equal(count_showing(&at, "22-"), 1);
    assert_int_equal(count_showing(&at, "220-"), 1);
    close_place(&at);
}

/* The state that a sync leaves is the one that was there before it, if all was kept. */
static void a_disk_state_is_known_again_by_its_hash(void **state)
{
    (void)state;
    place at = open_place(0);
    assert_int_equal(write_fill(&at, '1', 512, 0), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 3);
    uint64_t hashes[3] = {sim_disk_hash(at.world, 0), sim_disk_hash(at.world, 1),
                          sim_disk_hash(at.world, 2)};
    assert_true(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
    assert_int_equal(at.env->file_sync(at.env->ctx, at.file), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    uint64_t synced = sim_disk_hash(at.world, 0);
    assert_true(synced == hashes[0] || synced == hashes[1] || synced == hashes[2]);
    close_place(&at);
}

static void a_folder_that_is_only_made_may_be_lost(void **state)
{
    (void)state;
    sim *world = sim_create();
    uint64_t device, first, second;
    assert_int_equal(sim_mkdir(world, "a/b"), ENOENT);
    assert_int_equal(sim_mkdir(world, "a"), 0);
    assert_int_equal(sim_mkdir(world, "a"), EEXIST);
    assert_int_equal(sim_mkdir(world, "a/b"), 0);
    assert_int_equal(sim_disk_count(world, SIM_CAP_DEFAULT), 3);
    assert_int_equal(sim_identify(world, "a", &device, &first), 0);
    assert_int_equal(sim_identify(world, "a/b", &device, &second), 0);
    assert_true(first != second);
    assert_int_equal(sim_identify(world, "a/c", &device, &second), ENOENT);
    sim_destroy(world);
}

typedef struct copies {
    uint32_t count;
    int64_t sizes[8];
} copies;

static void note_copy(void *arg, sim *copy)
{
    copies *seen = arg;
    assert_true(seen->count < 8);
    seen->sizes[seen->count++] = sim_file_size(copy, "store/f");
    sim_destroy(copy);
}

static void each_step_shows_the_machine_before_it(void **state)
{
    (void)state;
    copies seen = {0};
    place at = open_place(0);
    sim_each_step(at.world, note_copy, &seen);
    assert_int_equal(write_fill(&at, '1', 512, 0), 0);
    assert_int_equal(write_fill(&at, '2', 512, 512), 0);
    assert_int_equal(at.env->file_sync(at.env->ctx, at.file), 0);
    sim_each_step(at.world, NULL, NULL);
    assert_int_equal(write_fill(&at, '3', 512, 1024), 0);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.sizes[0], 0);
    assert_int_equal(seen.sizes[1], 512);
    assert_int_equal(seen.sizes[2], 1024);
    close_place(&at);
}

static void names_and_contents_are_synced_apart(void **state)
{
    (void)state;
    place at = open_place(0);
    int file = -1;
    size_t put = 0;
    assert_int_equal(at.env->file_open(at.env->ctx, at.dir, "g", MW_OPEN_CREATE, &file), 0);
    assert_int_equal(at.env->file_write(at.env->ctx, file, "x", 1, 0, &put), 0);
    assert_int_equal(at.env->file_sync(at.env->ctx, file), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 2);
    uint32_t with = 0;
    for (uint32_t i = 0; i < 2; i++) {
        sim *after = sim_disk_state(at.world, i);
        with += sim_file_exists(after, "store/g");
        if (sim_file_exists(after, "store/g")) assert_int_equal(sim_file_size(after, "store/g"), 1);
        sim_destroy(after);
    }
    assert_int_equal(with, 1);
    assert_int_equal(at.env->file_write(at.env->ctx, file, "y", 1, 1, &put), 0);
    assert_int_equal(at.env->dir_sync(at.env->ctx, at.dir), 0);
    uint32_t count = sim_disk_count(at.world, SIM_CAP_DEFAULT);
    assert_int_equal(count, 3); /* one byte, two with a zero, two */
    for (uint32_t i = 0; i < count; i++) {
        sim *after = sim_disk_state(at.world, i);
        assert_true(sim_file_exists(after, "store/g"));
        sim_destroy(after);
    }
    at.env->file_close(at.env->ctx, file);
    close_place(&at);
}

static void names_change_in_order_on_disk(void **state)
{
    (void)state;
    place at = open_place(0);
    assert_int_equal(create_file(&at, "a"), 0);
    assert_int_equal(at.env->link(at.env->ctx, at.dir, "a", "b"), 0);
    assert_int_equal(at.env->unlink(at.env->ctx, at.dir, "a"), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 4);
    uint32_t seen[4] = {0};
    for (uint32_t i = 0; i < 4; i++) {
        sim *after = sim_disk_state(at.world, i);
        seen[sim_file_exists(after, "store/a") + 2 * sim_file_exists(after, "store/b")]++;
        sim_destroy(after);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(seen[i], 1);
    close_place(&at);
}

static void removed_names_come_back_until_synced(void **state)
{
    (void)state;
    place at = open_place(512);
    assert_int_equal(at.env->unlink(at.env->ctx, at.dir, "f"), 0);
    assert_false(sim_file_exists(at.world, "store/f"));
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 2);
    assert_int_equal(at.env->dir_sync(at.env->ctx, at.dir), 0);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    char byte = 0; /* an open file lives on */
    size_t got = 0;
    assert_int_equal(at.env->file_read(at.env->ctx, at.file, &byte, 1, 0, &got), 0);
    assert_int_equal(byte, 'o');
    close_place(&at);
}

static void a_folder_that_was_not_synced_is_lost_whole(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    int dir = -1;
    sim_stop_after(world, 1); /* made, but its parent is not synced */
    assert_int_equal(env->dir_open(env->ctx, "store", true, &dir), EIO);
    assert_int_equal(sim_disk_count(world, SIM_CAP_DEFAULT), 2);
    sim *killed = sim_kill(world);
    env = sim_env(killed);
    assert_int_equal(env->dir_open(env->ctx, "store", false, &dir), 0);
    int file = -1;
    assert_int_equal(env->file_open(env->ctx, dir, "f", MW_OPEN_CREATE, &file), 0);
    assert_int_equal(env->file_sync(env->ctx, file), 0);
    assert_int_equal(env->dir_sync(env->ctx, dir), 0);
    assert_int_equal(sim_disk_count(killed, SIM_CAP_DEFAULT), 2); /* all of it, or nothing */
    sim_destroy(killed);
    sim_destroy(world);
}

static void a_failed_sync_may_stay_dirty_be_marked_clean_or_revert(void **state)
{
    static const struct {
        sim_sync_failure mode;
        char cached;      /* what is read after the failure              */
        const char *left; /* what the disk has after a second, good sync */
    } cases[] = {
        {SIM_STAY_DIRTY, 'n', "n"}, {SIM_MARKED_CLEAN, 'n', "o"}, {SIM_REVERTED, 'o', "o"}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        place at = open_place(512);
        sim_set_sync_failure(at.world, cases[i].mode);
        assert_int_equal(write_fill(&at, 'n', 512, 0), 0);
        sim_fail(at.world, SIM_FILE_SYNC, 1, EIO, false);
        assert_int_equal(at.env->file_sync(at.env->ctx, at.file), EIO);
        char byte = 0;
        sim_file_read(at.world, "store/f", 0, &byte, 1);
        assert_int_equal(byte, cases[i].cached);
        assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), i == 0 ? 2 : 1);
        assert_int_equal(at.env->file_sync(at.env->ctx, at.file), 0);
        assert_int_equal(count_showing(&at, cases[i].left), 1);
        close_place(&at);
    }
}

static void faults_count_their_own_calls(void **state)
{
    (void)state;
    place at = open_place(0);
    size_t put = 0;
    sim_fail(at.world, SIM_WRITE, 2, ENOSPC, false);
    sim_fail(at.world, SIM_WRITE, 4, EIO, true);
    static const int expected[] = {0, ENOSPC, 0, EIO, EIO};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(at.env->file_write(at.env->ctx, at.file, "x", 1, 0, &put), expected[i]);
        assert_int_equal(put, expected[i] == 0);
    }
    assert_int_equal(sim_fail_hits(at.world), 3);
    sim_fail_clear(at.world);
    assert_int_equal(at.env->file_write(at.env->ctx, at.file, "x", 1, 0, &put), 0);
    assert_int_equal(sim_calls(at.world, SIM_WRITE), 6);
    close_place(&at);
}

static void faults_choose_by_name(void **state)
{
    (void)state;
    place at = open_place(0);
    sim_fail_named(at.world, SIM_OPEN, "wal-", 1, EMFILE, true);
    sim_fail_named(at.world, SIM_LINK, "manifest-", 1, EIO, false);
    assert_int_equal(create_file(&at, "table-1"), 0);
    assert_int_equal(create_file(&at, "wal-1"), EMFILE);
    assert_int_equal(at.env->link(at.env->ctx, at.dir, "table-1", "other"), 0);
    assert_int_equal(at.env->link(at.env->ctx, at.dir, "table-1", "manifest-1"), EIO);
    assert_int_equal(at.env->link(at.env->ctx, at.dir, "table-1", "manifest-1"), 0);
    assert_int_equal(at.env->link(at.env->ctx, at.dir, "table-1", "manifest-1"), EEXIST);
    close_place(&at);
}

static void transfers_are_shortened_and_torn(void **state)
{
    (void)state;
    place at = open_place(0);
    size_t part = 0;
    sim_fail(at.world, SIM_WRITE, 1, SIM_SHORT, false);
    assert_int_equal(at.env->file_write(at.env->ctx, at.file, "01234567", 8, 0, &part), 0);
    assert_int_equal(part, 4);
    assert_int_equal(sim_file_size(at.world, "store/f"), 4);
    sim_fail(at.world, SIM_WRITE, 1, SIM_TORN, false);
    assert_int_equal(at.env->file_write(at.env->ctx, at.file, "01234567", 8, 4, &part), EIO);
    assert_int_equal(part, 0);
    assert_int_equal(sim_file_size(at.world, "store/f"), 8);
    sim_fail(at.world, SIM_READ, 1, SIM_SHORT, false);
    char back[8];
    assert_int_equal(at.env->file_read(at.env->ctx, at.file, back, 8, 0, &part), 0);
    assert_int_equal(part, 4);
    close_place(&at);
}

static void a_stopped_machine_changes_nothing_more(void **state)
{
    (void)state;
    place at = open_place(512);
    uint64_t before = sim_steps(at.world);
    sim_stop_after(at.world, 1);
    assert_int_equal(write_fill(&at, '1', 512, 0), 0);
    char byte = 0;
    size_t got = 0;
    assert_int_equal(at.env->file_read(at.env->ctx, at.file, &byte, 1, 0, &got), 0);
    assert_false(sim_stopped(at.world)); /* reading is no step: the machine is still there */
    assert_int_equal(write_fill(&at, '2', 512, 0), EIO);
    assert_true(sim_stopped(at.world));
    assert_int_equal(sim_steps(at.world) - before, 1);
    assert_int_equal(at.env->file_sync(at.env->ctx, at.file), EIO);
    assert_int_equal(at.env->file_read(at.env->ctx, at.file, &byte, 1, 0, &got), EIO);
    assert_int_equal(create_file(&at, "g"), EIO);
    assert_int_equal(count_showing(&at, "o"), 1);
    assert_int_equal(count_showing(&at, "1"), 1);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 2);
    close_place(&at);
}

static void a_killed_process_leaves_its_writes_to_the_machine(void **state)
{
    (void)state;
    place at = open_place(512);
    assert_int_equal(at.env->file_lock(at.env->ctx, at.file), 0);
    assert_int_equal(write_fill(&at, 'n', 512, 0), 0);
    sim *after = sim_kill(at.world);
    const mw_env *env = sim_env(after);
    uint8_t boot[2][16];
    assert_int_equal(at.env->boot_id(at.env->ctx, boot[0]), 0);
    assert_int_equal(env->boot_id(env->ctx, boot[1]), 0);
    assert_memory_equal(boot[0], boot[1], 16);
    assert_int_equal(sim_open_count(after), 0);
    char byte = 0;
    sim_file_read(after, "store/f", 0, &byte, 1);
    assert_int_equal(byte, 'n');
    assert_int_equal(sim_disk_count(after, SIM_CAP_DEFAULT), 2); /* still not synced */
    place next = {.world = after, .env = env};
    assert_int_equal(env->dir_open(env->ctx, "store", false, &next.dir), 0);
    assert_int_equal(env->file_open(env->ctx, next.dir, "f", MW_OPEN_WRITE, &next.file), 0);
    assert_int_equal(env->file_lock(env->ctx, next.file), 0);
    close_place(&next);
    close_place(&at);
}

static void a_power_cut_is_a_new_boot_with_nothing_open(void **state)
{
    (void)state;
    place at = open_place(512);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    sim *after = sim_disk_state(at.world, 0);
    const mw_env *env = sim_env(after);
    uint8_t boot[2][16];
    assert_int_equal(at.env->boot_id(at.env->ctx, boot[0]), 0);
    assert_int_equal(env->boot_id(env->ctx, boot[1]), 0);
    assert_memory_not_equal(boot[0], boot[1], 16);
    assert_int_equal(sim_open_count(after), 0);
    sim_file_flip(after, "store/f", 0); /* states do not share what they change */
    char byte = 0;
    sim_file_read(at.world, "store/f", 0, &byte, 1);
    assert_int_equal(byte, 'o');
    sim_destroy(after);
    close_place(&at);
}

/* Above the cap the states are a choice, still all different, with the extremes among them. */
static void many_states_are_sampled_without_repeats(void **state)
{
    (void)state;
    place at = open_place(8192);
    assert_int_equal(write_fill(&at, 'n', 8192, 0), 0);
    assert_int_equal(sim_disk_count(at.world, 100), 100);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), SIM_CAP_DEFAULT);
    assert_int_equal(count_showing(&at, "nnnnnnnnnnnnnnnn"), 1);
    assert_int_equal(count_showing(&at, "oooooooooooooooo"), 1);
    assert_int_equal(count_showing(&at, "nnnnnonnnnnnnnnn"), 1);
    assert_int_equal(count_showing(&at, "nnnnnonnnonnnnnn"), 1);
    assert_int_equal(count_showing(&at, "oooooooooonooooo"), 1);
    close_place(&at);
}

static void locks_exclude_other_open_files(void **state)
{
    (void)state;
    place at = open_place(0);
    int other = -1;
    assert_int_equal(at.env->file_lock(at.env->ctx, at.file), 0);
    assert_int_equal(at.env->file_lock(at.env->ctx, at.file), 0);
    assert_int_equal(at.env->file_open(at.env->ctx, at.dir, "f", MW_OPEN_ENSURE, &other), 0);
    assert_int_equal(at.env->file_lock(at.env->ctx, other), EAGAIN);
    assert_int_equal(at.env->file_close(at.env->ctx, at.file), 0);
    assert_int_equal(at.env->file_lock(at.env->ctx, other), 0);
    at.file = other;
    close_place(&at);
}

typedef struct writer {
    place *at;
    int sys;
} writer;

static void write_n(void *arg)
{
    writer *job = arg;
    job->sys = write_fill(job->at, 'n', 512, 0);
}

static void a_held_call_has_no_effect_until_released(void **state)
{
    (void)state;
    place at = open_place(512);
    writer job = {&at, -1};
    mw_thread *thread = NULL;
    int hold = sim_hold(at.world, SIM_WRITE, "f");
    assert_int_equal(at.env->thread_start(at.env->ctx, write_n, &job, &thread), 0);
    assert_true(sim_wait_held(at.world, hold));
    char byte = 0;
    sim_file_read(at.world, "store/f", 0, &byte, 1);
    assert_int_equal(byte, 'o');
    sim_release(at.world, hold);
    at.env->thread_join(at.env->ctx, thread);
    assert_int_equal(job.sys, 0);
    sim_file_read(at.world, "store/f", 0, &byte, 1);
    assert_int_equal(byte, 'n');
    hold = sim_hold(at.world, SIM_WRITE, "other"); /* nothing comes: just disarmed */
    assert_int_equal(write_fill(&at, 'm', 1, 0), 0);
    sim_release(at.world, hold);
    close_place(&at);
}

static void memory_is_counted_and_fails_on_demand(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    void *a = mw_alloc(env, 100);
    void *b = mw_alloc(env, 50);
    assert_int_equal(sim_memory_in_use(world), 150);
    a = mw_resize(env, a, 300);
    assert_int_equal(sim_memory_in_use(world), 350);
    sim_fail(world, SIM_ALLOC, 2, ENOMEM, false);
    b = mw_resize(env, b, 60);
    assert_null(mw_resize(env, a, 1000)); /* the old memory stays as it is */
    assert_int_equal(sim_memory_in_use(world), 360);
    mw_free(env, a);
    mw_free(env, b);
    assert_int_equal(sim_memory_in_use(world), 0);
    assert_int_equal(sim_memory_peak(world), 360);
    sim_destroy(world);
}

static void the_clock_jumps_and_wakes_waiters(void **state)
{
    (void)state;
    sim *world = sim_create();
    const mw_env *env = sim_env(world);
    uint64_t before = env->now_ns(env->ctx);
    sim_clock_advance(world, 3600000000000u);
    assert_true(env->now_ns(env->ctx) - before >= 3600000000000u);
    mw_mutex *mutex = NULL;
    mw_cond *cond = NULL;
    assert_int_equal(env->mutex_create(env->ctx, &mutex), 0);
    assert_int_equal(env->cond_create(env->ctx, &cond), 0);
    assert_int_equal(sim_object_count(world), 2);
    env->mutex_lock(env->ctx, mutex);
    uint64_t deadline = env->now_ns(env->ctx) + 10000000;
    while (env->cond_wait(env->ctx, cond, mutex, deadline)) {}
    assert_true(env->now_ns(env->ctx) >= deadline);
    env->mutex_unlock(env->ctx, mutex);
    env->cond_destroy(env->ctx, cond);
    env->mutex_destroy(env->ctx, mutex);
    sim_destroy(world);
}

static void damage_is_done_at_once_and_durably(void **state)
{
    (void)state;
    place at = open_place(4);
    sim_file_write(at.world, "store/f", 2, "XY", 2);
    sim_file_flip(at.world, "store/f", 8 + 5);
    char back[8] = {0};
    assert_int_equal(sim_file_read(at.world, "store/f", 0, back, 8), 4);
    assert_memory_equal(back, "oOXY", 4);
    sim_file_truncate(at.world, "store/f", 1);
    sim_file_truncate(at.world, "store/f", 3);
    assert_int_equal(sim_file_read(at.world, "store/f", 0, back, 8), 3);
    assert_memory_equal(back, "o\0\0", 3);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    sim_file_put(at.world, "store/b", "1", 1);
    sim_file_put(at.world, "store/a", "22", 2);
    char names[2][SIM_NAME_BYTES];
    assert_int_equal(sim_list(at.world, "store", names, 2), 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    sim_file_delete(at.world, "store/a");
    assert_false(sim_file_exists(at.world, "store/a"));
    assert_int_equal(sim_file_size(at.world, "store/a"), -1);
    assert_int_equal(sim_disk_count(at.world, SIM_CAP_DEFAULT), 1);
    close_place(&at);
}

static void folders_are_removed_when_empty(void **state)
{
    (void)state;
    place at = open_place(0);
    int dir = -1;
    assert_int_equal(at.env->dir_remove(at.env->ctx, "store"), ENOTEMPTY);
    assert_int_equal(at.env->dir_remove(at.env->ctx, "store/f"), ENOTDIR);
    assert_int_equal(at.env->dir_remove(at.env->ctx, "none"), ENOENT);
    assert_int_equal(at.env->dir_open(at.env->ctx, "store/f", true, &dir), ENOTDIR);
    assert_int_equal(at.env->dir_open(at.env->ctx, "none/store", true, &dir), ENOENT);
    assert_int_equal(at.env->dir_open(at.env->ctx, "/store/sub", true, &dir), 0);
    assert_int_equal(at.env->dir_close(at.env->ctx, dir), 0);
    assert_int_equal(at.env->dir_remove(at.env->ctx, "store/sub"), 0);
    assert_int_equal(at.env->dir_open(at.env->ctx, "store/sub", false, &dir), ENOENT);
    close_place(&at);
}

static void the_trace_tells_every_call(void **state)
{
    (void)state;
    place at = open_place(0);
    sim_trace(at.world, true);
    sim_fail(at.world, SIM_WRITE, 1, EIO, false);
    assert_int_equal(write_fill(&at, 'n', 16, 32), EIO);
    assert_int_equal(at.env->link(at.env->ctx, at.dir, "f", "g"), 0);
    char text[512] = "";
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    sim_trace_print(at.world, to);
    fclose(to);
    assert_string_equal(text, "      1 write      f 32+16 EIO\n"
                              "      2 link       f -> g 0+0 ok\n");
    close_place(&at);
}

static uint64_t number_of(const place *at, const char *name)
{
    mw_file_id id = {0};
    assert_int_equal(at->env->identify(at->env->ctx, at->dir, name, &id), 0);
    return id.number;
}

/* As a real file system may do: the number of a file that is gone goes to the next one, but not
** while the file is open, or may come back after a power cut. */
static void numbers_of_files_are_given_again(void **state)
{
    (void)state;
    place at = open_place(1);
    mw_file_id none;
    uint64_t open = number_of(&at, "f");
    assert_int_equal(at.env->identify(at.env->ctx, at.dir, "g", &none), ENOENT);
    assert_int_equal(create_file(&at, "g"), 0);
    uint64_t closed = number_of(&at, "g");
    assert_int_not_equal(open, closed);
    assert_int_equal(at.env->unlink(at.env->ctx, at.dir, "f"), 0);
    assert_int_equal(at.env->unlink(at.env->ctx, at.dir, "g"), 0);
    assert_int_equal(create_file(&at, "h"), 0);
    assert_int_not_equal(number_of(&at, "h"), closed);
    assert_int_equal(at.env->dir_sync(at.env->ctx, at.dir), 0);
    assert_int_equal(create_file(&at, "i"), 0);
    assert_int_equal(create_file(&at, "j"), 0);
    assert_int_equal(number_of(&at, "i"), closed);
    assert_int_not_equal(number_of(&at, "j"), open);
    close_place(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synced_data_is_the_only_state),
        cmocka_unit_test(unsynced_data_is_lost_kept_or_torn_by_units),
        cmocka_unit_test(units_are_cut_at_offsets_of_the_file),
        cmocka_unit_test(writes_are_reordered),
        cmocka_unit_test(sizes_lie_between_and_gaps_are_zeros),
        cmocka_unit_test(allocated_room_reads_as_zeros_and_may_be_lost),
        cmocka_unit_test(a_cut_is_lost_or_kept_apart_from_what_follows),
        cmocka_unit_test(in_order_a_prefix_of_the_writes_is_kept),
        cmocka_unit_test(a_disk_state_is_known_again_by_its_hash),
        cmocka_unit_test(a_folder_that_is_only_made_may_be_lost),
        cmocka_unit_test(each_step_shows_the_machine_before_it),
        cmocka_unit_test(names_and_contents_are_synced_apart),
        cmocka_unit_test(names_change_in_order_on_disk),
        cmocka_unit_test(removed_names_come_back_until_synced),
        cmocka_unit_test(a_folder_that_was_not_synced_is_lost_whole),
        cmocka_unit_test(a_failed_sync_may_stay_dirty_be_marked_clean_or_revert),
        cmocka_unit_test(faults_count_their_own_calls),
        cmocka_unit_test(faults_choose_by_name),
        cmocka_unit_test(transfers_are_shortened_and_torn),
        cmocka_unit_test(a_stopped_machine_changes_nothing_more),
        cmocka_unit_test(a_killed_process_leaves_its_writes_to_the_machine),
        cmocka_unit_test(a_power_cut_is_a_new_boot_with_nothing_open),
        cmocka_unit_test(many_states_are_sampled_without_repeats),
        cmocka_unit_test(locks_exclude_other_open_files),
        cmocka_unit_test(a_held_call_has_no_effect_until_released),
        cmocka_unit_test(memory_is_counted_and_fails_on_demand),
        cmocka_unit_test(the_clock_jumps_and_wakes_waiters),
        cmocka_unit_test(damage_is_done_at_once_and_durably),
        cmocka_unit_test(folders_are_removed_when_empty),
        cmocka_unit_test(the_trace_tells_every_call),
        cmocka_unit_test(numbers_of_files_are_given_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
