/* levels_test.c: the files of a manifest by level; which of them a key or a range belongs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "levels.h"

/* Files of one-letter keys: level, lowest, highest. */
static const char *const listed[] = {"3cf", "3hh", "3mt", "1ab", "1xz", "0az", "0cd", "0cd"};
enum { FILES = sizeof listed / sizeof *listed };

static void list_files(mw_manifest *manifest, mw_manifest_file files[FILES])
{
    memset(manifest, 0, sizeof *manifest);
    memset(files, 0, FILES * sizeof *files);
    manifest->files = files;
    manifest->file_count = FILES;
    for (uint32_t i = 0; i < FILES; i++) {
        files[i].level = (uint32_t)(listed[i][0] - '0');
        files[i].props.bytes = 100 + i;
        files[i].props.rows = 10;
        files[i].props.tombstones = i;
        files[i].keys.min = mw_slice_of(&listed[i][1], 1);
        files[i].keys.max = mw_slice_of(&listed[i][2], 1);
    }
}

static void files_are_counted_by_level(void **state)
{
    (void)state;
    mw_manifest manifest;
    mw_manifest_file files[FILES];
    mw_levels levels;
    list_files(&manifest, files);
    mw_levels_of(&manifest, &levels);
    assert_int_equal(levels.files[0].first, 5);
    assert_int_equal(levels.files[0].count, 3);
    assert_int_equal(levels.files[1].first, 3);
    assert_int_equal(levels.files[1].count, 2);
    assert_int_equal(levels.files[2].count, 0);
    assert_int_equal(levels.files[3].first, 0);
    assert_int_equal(levels.files[3].count, 3);
    assert_int_equal(levels.bytes[3], 100 + 101 + 102);
    assert_int_equal(levels.bytes[1], 103 + 104);
    assert_int_equal(levels.top, 1);
    assert_int_equal(levels.deepest, 3);
    assert_int_equal(levels.versions, 10 * FILES + 28);
    manifest.file_count = 0;
    mw_levels_of(&manifest, &levels);
    assert_int_equal(levels.top, 0);
    assert_int_equal(levels.deepest, 0);
}

/* I6: at most one file of a level has room for a key: checked against a look at all of them. */
static void a_key_belongs_to_one_file_at_most(void **state)
{
    (void)state;
    mw_manifest manifest;
    mw_manifest_file files[FILES];
    mw_file_run run = {0, 3};
    list_files(&manifest, files);
    for (char letter = 'a'; letter <= 'z'; letter++) {
        mw_slice key = mw_slice_of(&letter, 1);
        uint32_t found = mw_levels_seek(&manifest, run, key);
        uint32_t expected = 0;
        while (expected < 3 && letter > listed[expected][2]) expected++;
        assert_int_equal(found, expected);
        if (found == 3) continue;
        bool inside = letter >= listed[found][1];
        assert_int_equal(mw_levels_in_range(&manifest, found, key), inside);
    }
    assert_int_equal(mw_levels_seek(&manifest, (mw_file_run){3, 0}, mw_slice_of("a", 1)), 3);
}

static void what_overlaps_is_found_for_every_range(void **state)
{
    (void)state;
    mw_manifest manifest;
    mw_manifest_file files[FILES];
    mw_file_run run = {0, 3};
    list_files(&manifest, files);
    for (char low = 'a'; low <= 'z'; low++) {
        for (char high = low; high <= 'z'; high++) {
            mw_key_range range = {mw_slice_of(&low, 1), mw_slice_of(&high, 1)};
            mw_file_run found = mw_levels_overlap(&manifest, run, &range);
            for (uint32_t i = 0; i < 3; i++) {
                bool inside = i >= found.first && i < found.first + found.count;
                assert_int_equal(inside, listed[i][1] <= high && low <= listed[i][2]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_counted_by_level),
        cmocka_unit_test(a_key_belongs_to_one_file_at_most),
        cmocka_unit_test(what_overlaps_is_found_for_every_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
