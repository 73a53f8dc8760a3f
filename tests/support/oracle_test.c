/* oracle_test.c: the oracle accepts what is right and names what is not. A check that says yes to
** everything would make every other test worthless, so each kind of fault is planted here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"

static void put(oracle *o, const char *key, const char *row)
{
    oracle_put(o, key, strlen(key), row, strlen(row));
}

static void commit_put(oracle *o, const char *key, const char *row, oracle_fate fate)
{
    size_t commit = oracle_commit(o);
    put(o, key, row);
    oracle_fate_is(o, commit, fate);
}

static void commit_delete(oracle *o, const char *key, oracle_fate fate)
{
    size_t commit = oracle_commit(o);
    oracle_delete(o, key, strlen(key));
    oracle_fate_is(o, commit, fate);
}

/* text: "key=row key=row". */
static size_t read_rows(char *text, oracle_row rows[16])
{
    size_t count = 0;
    for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        rows[count++] = (oracle_row){word, (size_t)(equals - word), equals + 1, strlen(equals + 1)};
    }
    return count;
}

static bool check(const oracle *o, const char *seen_text, int64_t count, size_t *cut,
                  char words[ORACLE_WORDS_BYTES])
{
    char text[200];
    assert_true(strlen(seen_text) < sizeof text);
    strcpy(text, seen_text);
    oracle_row rows[16];
    oracle_seen seen = {rows, read_rows(text, rows), count};
    return oracle_check(o, &seen, cut, words);
}

static void assert_cut(const oracle *o, const char *seen, int64_t count, size_t expected)
{
    char words[ORACLE_WORDS_BYTES];
    size_t cut = 999;
    if (!check(o, seen, count, &cut, words)) fail_msg("%s", words);
    assert_int_equal(cut, expected);
    assert_int_equal(oracle_count(o, cut), count);
}

static void assert_fault(const oracle *o, const char *seen, int64_t count, const char *expected)
{
    char words[ORACLE_WORDS_BYTES];
    size_t cut = 999;
    assert_false(check(o, seen, count, &cut, words));
    if (!strstr(words, expected)) fail_msg("expected '%s' in: %s", expected, words);
    assert_int_equal(cut, 999);
}

static void empty_table_is_right_before_any_commit(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    assert_cut(o, "", 0, 0);
    assert_fault(o, "a=1", 1, "key 'a' is foreign");
    assert_fault(o, "", 1, "says that it holds 1 rows, it holds 0");
    oracle_destroy(o);
    oracle_destroy(NULL);
}

/* I2: a prefix that has every acknowledged commit. */
static void unknown_commits_are_in_or_out_as_a_prefix(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    commit_put(o, "a", "1", ORACLE_ACKED);
    commit_put(o, "b", "2", ORACLE_UNKNOWN);
    commit_put(o, "c", "3", ORACLE_UNKNOWN);
    commit_put(o, "a", "4", ORACLE_UNKNOWN);
    assert_cut(o, "a=1", 1, 1);
    assert_cut(o, "b=2 a=1", 2, 2);
    assert_cut(o, "a=1 c=3 b=2", 3, 3);
    assert_cut(o, "a=4 b=2 c=3", 3, 4);
    assert_fault(o, "a=1 c=3", 2, "key 'b' is lost");
    assert_fault(o, "a=4", 1, "cut");
    assert_fault(o, "", 0, "key 'a' is lost: commit 1");
    oracle_destroy(o);
}

static void unknown_commit_below_an_acked_one_must_be_in(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    commit_put(o, "a", "1", ORACLE_UNKNOWN);
    commit_put(o, "b", "2", ORACLE_ACKED);
    assert_cut(o, "a=1 b=2", 2, 2);
    assert_fault(o, "b=2", 1, "key 'a' is lost: commit 1");
    oracle_destroy(o);
}

static void a_commit_counts_wholly_or_not_at_all(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    commit_put(o, "a", "1", ORACLE_ACKED);
    oracle_commit(o);
    put(o, "b", "2");
    put(o, "c", "3");
    oracle_delete(o, "a", 1);
    put(o, "b", "5");
    assert_cut(o, "a=1", 1, 1);
    assert_cut(o, "b=5 c=3", 2, 2);
    assert_fault(o, "b=5", 1, "key 'c' is lost");
    assert_fault(o, "a=1 b=5 c=3", 3, "key 'a' is resurrected");
    assert_fault(o, "b=2 c=3", 2, "key 'b' is wrong");
    oracle_destroy(o);
}

/* I8: refused for sure means never, not even later. */
static void failed_commit_never_shows(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    commit_put(o, "a", "1", ORACLE_ACKED);
    commit_put(o, "a", "2", ORACLE_FAILED);
    commit_put(o, "b", "3", ORACLE_FAILED);
    assert_cut(o, "a=1", 1, 1);
    commit_put(o, "c", "4", ORACLE_ACKED);
    assert_cut(o, "a=1 c=4", 2, 4);
    assert_fault(o, "a=2 c=4", 2, "it has the row of commit 2, which is failed");
    assert_fault(o, "a=1 b=3 c=4", 3, "key 'b' should not be there");
    oracle_destroy(o);
}

static void each_kind_of_fault_is_named(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    commit_put(o, "a", "1", ORACLE_ACKED);
    commit_put(o, "a", "2", ORACLE_ACKED);
    commit_put(o, "b", "3", ORACLE_ACKED);
    commit_delete(o, "b", ORACLE_ACKED);
    assert_cut(o, "a=2", 1, 4);
    assert_fault(o, "", 0, "key 'a' is lost: commit 2 put it");
    assert_fault(o, "a=2 a=2", 1, "key 'a' is doubled");
    assert_fault(o, "a=2", 2, "says that it holds 2 rows, it holds 1");
    assert_fault(o, "a=1", 1, "is wrong: expected commit 2's row, it has the row of commit 1");
    assert_fault(o, "a=x", 1, "it has a row that was never written");
    assert_fault(o, "a=2 b=3", 2, "key 'b' is resurrected, it has the row of commit 3");
    assert_fault(o, "a=2 q=3", 2, "key 'q' is foreign");
    assert_fault(o, "a=2 0=3", 2, "key '0' is foreign");
    oracle_destroy(o);
}

static void binary_keys_and_empty_rows_are_told_apart(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    size_t commit = oracle_commit(o);
    oracle_put(o, "a\0b", 3, NULL, 0);
    oracle_put(o, NULL, 0, "\0\1", 2);
    oracle_fate_is(o, commit, ORACLE_ACKED);
    oracle_row rows[] = {{"a\0b", 3, "", 0}, {"", 0, "\0\1", 2}};
    oracle_seen seen = {rows, 2, 2};
    char words[ORACLE_WORDS_BYTES];
    size_t cut;
    assert_true(oracle_check(o, &seen, &cut, words));
    rows[1].row = "\0\2";
    assert_false(oracle_check(o, &seen, &cut, words));
    rows[1].row = "\0\1";
    rows[0].key = "a\0c";
    assert_false(oracle_check(o, &seen, &cut, words));
    assert_non_null(strstr(words, "key x'610062' is lost"));
    oracle_destroy(o);
}

/* I10: what was unknown is either in for ever or out for ever once somebody has looked. */
static void adopted_cut_settles_what_was_unknown(void **state)
{
    (void)state;
    oracle *o = oracle_create();
    commit_put(o, "a", "1", ORACLE_ACKED);
    commit_put(o, "b", "2", ORACLE_UNKNOWN);
    commit_put(o, "c", "3", ORACLE_UNKNOWN);
    assert_cut(o, "a=1 b=2", 2, 2);
    oracle_adopt(o, 2);
    assert_int_equal(oracle_commits(o), 3);
    assert_fault(o, "a=1", 1, "key 'b' is lost");
    assert_fault(o, "a=1 b=2 c=3", 3, "key 'c' should not be there, it has the row of commit 3");
    commit_put(o, "d", "4", ORACLE_ACKED);
    assert_cut(o, "a=1 b=2 d=4", 3, 4);
    oracle_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_table_is_right_before_any_commit),
        cmocka_unit_test(unknown_commits_are_in_or_out_as_a_prefix),
        cmocka_unit_test(unknown_commit_below_an_acked_one_must_be_in),
        cmocka_unit_test(a_commit_counts_wholly_or_not_at_all),
        cmocka_unit_test(failed_commit_never_shows),
        cmocka_unit_test(each_kind_of_fault_is_named),
        cmocka_unit_test(binary_keys_and_empty_rows_are_told_apart),
        cmocka_unit_test(adopted_cut_settles_what_was_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
