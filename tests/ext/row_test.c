/* row_test.c: the forms of numbers in keys. */
#include "row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static mw_value integer_of(int64_t i) { return (mw_value){.type = MW_INTEGER, .integer = i}; }
static mw_value real_of(double r) { return (mw_value){.type = MW_REAL, .real = r}; }
static mw_value text_of(const char *s)
{
    return (mw_value){.type = MW_TEXT, .bytes = mw_slice_of(s, strlen(s))};
}

static mx_args *args_of(sqlite3 *db, const char *declaration)
{
    mx_args *args = NULL;
    char *error = NULL;
    assert_int_equal(mx_args_parse_declaration(db, declaration, &args, &error), SQLITE_OK);
    return args;
}

/* What a reader of the key and of its forms gets. */
static mw_value come_back(const mx_args *args, int part, const mw_value *values)
{
    mw_buf key;
    mw_buf bytes;
    mw_buf texts;
    mw_value back[3];
    mw_value forms;
    uint32_t count = (uint32_t)args->key_count;
    mw_buf_init(&key, mw_env_posix());
    mw_buf_init(&bytes, mw_env_posix());
    mw_buf_init(&texts, mw_env_posix());
    mw_key_encode(&key, values, count, count);
    assert_int_equal(mx_key_forms(args, values, &bytes, &forms), SQLITE_OK);
    assert_int_equal(mw_key_decode(mw_buf_slice(&key), count, back, &texts, NULL), MW_OK);
    if (!mx_key_is_open(&args->columns[args->key[part]], &back[part])) {
        forms = (mw_value){.type = MW_NULL};
    }
    assert_int_equal(mx_key_value(args, part, &forms, &back[part], NULL), MW_OK);
    mw_buf_free(&key);
    mw_buf_free(&bytes);
    mw_buf_free(&texts);
    return back[part];
}

static void assert_comes_back(const mx_args *args, mw_value value)
{
    const mw_value values[] = {value, integer_of(1), text_of("x")};
    mw_value back = come_back(args, 0, values);
    assert_true(mw_value_equal(&back, &value));
}

/* C53, C54: the type and sign of a number are those that were stored. */
static void numbers_keep_their_form(void **state)
{
    static const double reals[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e300, -9223372036854775808.0,
                                   9007199254740992.0, 9223372036854775808.0};
    static const int64_t integers[] = {0, 1, -1, INT64_MIN, INT64_MAX, 9007199254740993};
    mx_args *args = args_of(*state, "a, b INT, c TEXT, PRIMARY KEY(a, b, c)");
    assert_true(mx_key_has_forms(args));
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        assert_comes_back(args, real_of(reals[i]));
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_comes_back(args, integer_of(integers[i]));
    }
    mx_args_free(args);
    /* Numeric columns keep one real that looks like an integer, REAL ones all. */
    args = args_of(*state, "a NUMERIC PRIMARY KEY");
    assert_true(mx_key_has_forms(args));
    assert_comes_back(args, real_of(-9223372036854775808.0));
    assert_comes_back(args, integer_of(INT64_MIN));
    assert_comes_back(args, integer_of(1));
    mx_args_free(args);
    args = args_of(*state, "a REAL, c TEXT, PRIMARY KEY(a, c)");
    assert_false(mx_key_has_forms(args));
    assert_comes_back(args, real_of(1.0));
    assert_comes_back(args, real_of(0.5));
    mx_args_free(args);
}

static void canonical_keys_have_no_forms(void **state)
{
    mx_args *args = args_of(*state, "a, b INT, c TEXT, PRIMARY KEY(a, b, c)");
    const mw_value values[] = {real_of(0.5), integer_of(7), text_of("c")};
    mw_buf bytes;
    mw_value forms;
    mw_buf_init(&bytes, mw_env_posix());
    assert_int_equal(mx_key_forms(args, values, &bytes, &forms), SQLITE_OK);
    assert_int_equal(forms.type, MW_NULL);
    mw_buf_free(&bytes);
    mx_args_free(args);
}

/* I9: forms that cannot belong to the key are damage. */
static void forms_that_do_not_fit_are_corrupt(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        mw_type type;
        int64_t integer;
    } wrong[] = {
        {"\1", 1, MW_BLOB, 5},       /* of another key                 */
        {"\1\0\0", 3, MW_BLOB, 5},   /* the same                       */
        {"\3\0", 2, MW_BLOB, 5},     /* unknown                        */
        {"\2\0", 2, MW_BLOB, 5},     /* -0.0 of what is not zero       */
        {"\1\0", 2, MW_TEXT, 5},     /* of another type                */
    };
    mx_args *args = args_of(*state, "a, b, PRIMARY KEY(a, b)");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mw_value forms = {.type = wrong[i].type,
                          .bytes = mw_slice_of(wrong[i].bytes, wrong[i].size)};
        mw_value value = integer_of(wrong[i].integer);
        mw_err err = {0};
        assert_int_equal(mx_key_value(args, 0, &forms, &value, &err), MW_CORRUPT);
        assert_true(err.text[0] != 0);
    }
    mw_value forms = {.type = MW_BLOB, .bytes = mw_slice_of("\1\0", 2)};
    mx_args *reals = args_of(*state, "a REAL, b, PRIMARY KEY(a, b)");
    mw_value real = integer_of(5); /* as the key has it: no other form stands beside it */
    assert_int_equal(mx_key_value(reals, 0, &forms, &real, NULL), MW_CORRUPT);
    mx_args_free(reals);
    mw_value text = text_of("x");
    assert_int_equal(mx_key_value(args, 0, &forms, &text, NULL), MW_CORRUPT);
    mx_args_free(args);
}

static int open_db(void **state)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) return -1;
    *state = db;
    return 0;
}

static int close_db(void **state) { return sqlite3_close(*state); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_keep_their_form),
        cmocka_unit_test(canonical_keys_have_no_forms),
        cmocka_unit_test(forms_that_do_not_fit_are_corrupt),
    };
    return cmocka_run_group_tests(tests, open_db, close_db);
}
