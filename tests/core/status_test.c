/* status_test.c: codes and the words of failures. */
#include "status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_code_has_its_number_and_text(void **state)
{
    (void)state;
#define CHECK(name, number, words)                  \
    assert_int_equal(name, number);                 \
    assert_string_equal(mw_rc_text(name), words);
    MW_RC_LIST(CHECK)
#undef CHECK
    assert_string_equal(mw_rc_text((mw_rc)9999), "unknown code");
}

static void first_cause_wins(void **state)
{
    (void)state;
    mw_err err = {0};
    assert_int_equal(mw_fail(&err, MW_FENCED, "epoch %d", 7), MW_FENCED);
    assert_int_equal(mw_fail(&err, MW_BUSY, "later"), MW_BUSY);
    assert_int_equal(mw_fail_sys(&err, EIO, "write", "wal-1"), MW_IO);
    assert_int_equal(mw_fail_disk(&err, "table-1", 5, "x"), MW_CORRUPT);
    assert_int_equal(err.rc, MW_FENCED);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.text, "epoch 7");
}

static void a_failure_needs_no_err(void **state)
{
    (void)state;
    assert_int_equal(mw_fail(NULL, MW_BUSY, "x"), MW_BUSY);
    assert_int_equal(mw_fail_sys(NULL, ENOMEM, "alloc", "x"), MW_NOMEM);
    assert_int_equal(mw_fail_disk(NULL, "x", 0, "x"), MW_CORRUPT);
}

static void errno_chooses_the_code(void **state)
{
    static const struct {
        int sys;
        mw_rc rc;
    } cases[] = {{ENOMEM, MW_NOMEM}, {ENOSPC, MW_FULL},   {EDQUOT, MW_FULL}, {ENOENT, MW_MISSING},
                 {EEXIST, MW_EXISTS}, {EIO, MW_IO},        {EACCES, MW_IO},   {EMFILE, MW_IO}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mw_err err = {0};
        assert_int_equal(mw_fail_sys(&err, cases[i].sys, "open", "f"), cases[i].rc);
        assert_int_equal(err.rc, cases[i].rc);
        assert_int_equal(err.sys, cases[i].sys);
    }
}

static void words_of_a_call_name_call_file_and_reason(void **state)
{
    (void)state;
    mw_err err = {0};
    assert_int_equal(mw_fail_sys(&err, ENOSPC, "write", "wal-2"), MW_FULL);
    assert_string_equal(err.text, "write of wal-2 failed: No space left on device");
    err = (mw_err){0};
    assert_int_equal(mw_fail_sys(&err, EMFILE, "open", "wal-2"), MW_IO);
    assert_string_equal(err.text, "open of wal-2 failed: Too many open files in this process: "
                                  "close some, or raise its limit (ulimit -n)");
    err = (mw_err){0};
    assert_int_equal(mw_fail_sys(&err, ENOTDIR, "opening", "/a/b"), MW_IO);
    assert_string_equal(err.text, "opening of /a/b failed: Not a directory: it or a part of its path "
                                  "is a file, expected a folder");
}

static mw_rc check_even(int number, mw_err *err)
{
    MW_CHECK_DISK(number % 2 == 0, err, "table-3", 4096, "expected even, found %d", number);
    return MW_OK;
}

/* I9: damage names the place. */
static void disk_facts_name_file_and_offset(void **state)
{
    (void)state;
    mw_err err = {0};
    assert_int_equal(check_even(4, &err), MW_OK);
    assert_int_equal(err.rc, MW_OK);
    assert_int_equal(check_even(5, &err), MW_CORRUPT);
    assert_string_equal(err.text, "table-3, offset 4096: expected even, found 5");
}

static void words_too_long_are_cut(void **state)
{
    char name[2 * MW_ERR_TEXT_BYTES];
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    mw_err err = {0};
    assert_int_equal(mw_fail_disk(&err, name, 0, "expected %d", 1), MW_CORRUPT);
    assert_int_equal(strlen(err.text), MW_ERR_TEXT_BYTES - 1);
    mw_err other = {0};
    assert_int_equal(mw_fail(&other, MW_BUSY, "%s", name), MW_BUSY);
    assert_int_equal(strlen(other.text), MW_ERR_TEXT_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_number_and_text),
        cmocka_unit_test(first_cause_wins),
        cmocka_unit_test(a_failure_needs_no_err),
        cmocka_unit_test(errno_chooses_the_code),
        cmocka_unit_test(words_of_a_call_name_call_file_and_reason),
        cmocka_unit_test(disk_facts_name_file_and_offset),
        cmocka_unit_test(words_too_long_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
