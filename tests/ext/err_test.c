/* err_test.c: every code of the engine has its code and its words in SQLite. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "internal.h"

static const struct {
    mw_rc rc;
    int code;
} expected[] = {
    {MW_OK, SQLITE_OK},
    {MW_NOMEM, SQLITE_NOMEM},
    {MW_IO, SQLITE_IOERR},
    {MW_CORRUPT, SQLITE_CORRUPT},
    {MW_FULL, SQLITE_FULL},
    {MW_BUSY, SQLITE_BUSY},
    {MW_FENCED, SQLITE_ABORT_ROLLBACK},
    {MW_PERSISTENCE, SQLITE_IOERR_FSYNC},
    {MW_TOOBIG, SQLITE_TOOBIG},
    {MW_CLOSED, SQLITE_ABORT},
    {MW_EXISTS, SQLITE_ERROR},
    {MW_MISSING, SQLITE_CANTOPEN},
    {MW_MISMATCH, SQLITE_CANTOPEN},
    {MW_UNSUPPORTED, SQLITE_ERROR},
    {MW_INTERRUPTED, SQLITE_INTERRUPT},
    {MW_MISUSE, SQLITE_MISUSE},
    {MW_UNDECIDED, SQLITE_BUSY_RECOVERY},
};

static void every_code_maps(void **state)
{
    (void)state;
    size_t listed = 0;
#define COUNT(name, number, text) listed++;
    MW_RC_LIST(COUNT)
#undef COUNT
    assert_int_equal(listed, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < listed; i++) {
        mw_err err = {.rc = expected[i].rc};
        assert_int_equal(mx_err_code(&err), expected[i].code);
        assert_int_equal(mx_err_code_of(expected[i].rc), expected[i].code);
    }
}

/* C66. */
static void no_descriptor_is_cantopen(void **state)
{
    (void)state;
    mw_err err = {.rc = MW_OK};
    assert_int_equal(mw_fail_sys(&err, EMFILE, "open", "table-1"), MW_IO);
    assert_int_equal(mx_err_code(&err), SQLITE_CANTOPEN);
    err.rc = MW_PERSISTENCE; /* a writer that has stopped for it is another matter */
    assert_int_equal(mx_err_code(&err), SQLITE_IOERR_FSYNC);
}

/* C61. */
static void no_folder_is_cantopen(void **state)
{
    (void)state;
    mw_err err = {.rc = MW_OK};
    assert_int_equal(mw_fail_sys(&err, ENOTDIR, "opening", "/etc/passwd"), MW_IO);
    assert_int_equal(mx_err_code(&err), SQLITE_CANTOPEN);
}

/* Only the code that says "another writer" may leave SQLite's transaction open at COMMIT. */
static void only_busy_is_plain_busy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        bool busy = expected[i].code == SQLITE_BUSY;
        assert_int_equal(busy, expected[i].rc == MW_BUSY);
    }
}

static void every_message_has_the_prefix(void **state)
{
    (void)state;
    mw_err err = {0};
    (void)mw_fail(&err, MW_FENCED, "writer fenced: a peer claimed epoch %d, ours was %d", 7, 6);
    mx_vtab table = {0};
    sqlite3_vtab *vtab = &table.base;
    assert_int_equal(mx_err_vtab(vtab, &err), SQLITE_ABORT_ROLLBACK);
    assert_string_equal(vtab->zErrMsg,
                        "memwal: writer fenced: a peer claimed epoch 7, ours was 6; this commit "
                        "was definitely not applied: close all connections to the table and open "
                        "it again");
    assert_int_equal(mx_err_set(vtab, SQLITE_ERROR, "expected %s, found %d", "a", 2),
                     SQLITE_ERROR);
    assert_string_equal(vtab->zErrMsg, "memwal: expected a, found 2");
    sqlite3_free(vtab->zErrMsg);
}

static void expect_text(const mw_err *err, const char *folder, const char *wanted)
{
    char *text = mx_err_text(err, folder);
    assert_string_equal(text, wanted);
    sqlite3_free(text);
}

/* Once, where it is known and a file may be named. */
static void the_folder_of_a_named_file_is_told(void **state)
{
    (void)state;
    mw_err err = {0};
    (void)mw_fail_disk(&err, "table-1", 7, "expected a, found b");
    expect_text(&err, "/x/store", "memwal: table-1, offset 7: expected a, found b (in /x/store)");
    expect_text(&err, NULL, "memwal: table-1, offset 7: expected a, found b");
    err.rc = MW_OK;
    (void)mw_fail(&err, MW_MISSING, "/x/store holds no store");
    expect_text(&err, "/x/store", "memwal: /x/store holds no store");
    err.rc = MW_OK;
    (void)mw_fail(&err, MW_TOOBIG, "a key of 70000 bytes");
    expect_text(&err, "/x/store", "memwal: a key of 70000 bytes");
    err.rc = MW_OK;
    (void)mw_fail(&err, MW_PERSISTENCE, "sync of wal-1 failed");
    mx_vtab table = {.path = sqlite3_mprintf("/x/store")};
    assert_int_equal(mx_err_vtab(&table.base, &err), SQLITE_IOERR_FSYNC);
    assert_non_null(strstr(table.base.zErrMsg, "sync of wal-1 failed (in /x/store); the outcome"));
    sqlite3_free(table.path);
    sqlite3_free(table.base.zErrMsg);
}

static void a_failure_without_words_has_the_words_of_its_code(void **state)
{
    (void)state;
    mw_err err = {.rc = MW_NOMEM};
    char *error = sqlite3_mprintf("older words");
    assert_int_equal(mx_err_give(&error, &err), SQLITE_NOMEM);
    assert_string_equal(error, "memwal: out of memory");
    assert_int_equal(mx_err_put(&error, SQLITE_BUSY, "%s", "x"), SQLITE_BUSY);
    assert_string_equal(error, "memwal: x");
    sqlite3_free(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_maps),
        cmocka_unit_test(no_descriptor_is_cantopen),
        cmocka_unit_test(no_folder_is_cantopen),
        cmocka_unit_test(only_busy_is_plain_busy),
        cmocka_unit_test(every_message_has_the_prefix),
        cmocka_unit_test(the_folder_of_a_named_file_is_told),
        cmocka_unit_test(a_failure_without_words_has_the_words_of_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
