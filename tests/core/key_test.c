/* key_test.c: lists of values as keys, in SQLite's order. */
#include "key.h"

#include "sim.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 512, LISTS = 2048, LIST_MAX = 3 };

/* A list of values and the key it has. */
typedef struct list {
    mw_value values[LIST_MAX];
    mw_buf key;
} list;

static mw_value pool[VALUES];
static uint32_t pool_size;
static uint8_t letters[4 * 4 * 4 * 4][4];

static mw_value integer_of(int64_t i) { return (mw_value){.type = MW_INTEGER, .integer = i}; }
static mw_value real_of(double r) { return (mw_value){.type = MW_REAL, .real = r}; }
static mw_value bytes_of(mw_type type, const void *data, size_t size)
{
    return (mw_value){.type = type, .bytes = mw_slice_of(data, size)};
}

static void add(mw_value value)
{
    assert_true(pool_size < VALUES);
    pool[pool_size++] = value;
}

/* The double that many steps above a positive one. */
static double step_real(double real, int64_t steps)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    bits += (uint64_t)steps;
    memcpy(&real, &bits, sizeof bits);
    return real;
}

/* Both signs of 2^power and of its neighbours, as integers and as reals. */
static void add_around(int power)
{
    double real = (double)((uint64_t)1 << power);
    for (int sign = -1; sign <= 1; sign += 2) {
        add(real_of(sign * real));
        add(real_of(sign * step_real(real, -1)));
        add(real_of(sign * step_real(real, 1)));
        for (int64_t step = -3; step <= 3; step++) {
            uint64_t bits = ((uint64_t)1 << power) + (uint64_t)step;
            add(integer_of((int64_t)(sign < 0 ? 0 - bits : bits)));
        }
    }
}

static void add_numbers(void)
{
    static const int powers[] = {0, 1, 31, 52, 53, 54, 62, 63};
    static const double reals[] = {0.0, -0.0, 0.5, -0.5, 1.5, -1.5, DBL_MIN, -DBL_MIN, DBL_TRUE_MIN,
                                   -DBL_TRUE_MIN, DBL_MAX, -DBL_MAX, INFINITY, -INFINITY, 1e19,
                                   -1e19, 4503599627370496.5, 1e300};
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) add_around(powers[i]);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) add(real_of(reals[i]));
    add(integer_of(INT64_MAX - 1023)); /* the last integer that a double of its own stands at */
    add(integer_of(INT64_MAX - 1024));
}

/* All texts and blobs of up to size bytes over what escapes are made of. */
static void add_letters(size_t size)
{
    static const uint8_t alphabet[] = {0, 1, 'a', 0xff};
    for (size_t length = 0; length <= size; length++) {
        size_t count = (size_t)1 << (2 * length);
        for (size_t i = 0; i < count; i++) {
            uint8_t *to = letters[((size_t)1 << (2 * length)) + i];
            for (size_t k = 0; k < length; k++) to[k] = alphabet[i >> (2 * k) & 3];
            add(bytes_of(MW_TEXT, to, length));
            add(bytes_of(MW_BLOB, to, length));
        }
    }
}

static void fill_pool(size_t letters_max)
{
    pool_size = 0;
    add_numbers();
    add_letters(letters_max);
}

/* Few values that differ in every kind of place. */
static void fill_small_pool(void)
{
    pool_size = 0;
    add(real_of(-INFINITY));
    add(integer_of(-1));
    add(real_of(-0.0));
    add(integer_of(9007199254740992));
    add(integer_of(9007199254740993));
    add_letters(1);
    add(bytes_of(MW_TEXT, "\0\0", 2));
    add(bytes_of(MW_TEXT, "a\0", 2));
    add(bytes_of(MW_TEXT, "a\0\xff", 3));
    add(bytes_of(MW_BLOB, "\0\xff", 2));
    add(bytes_of(MW_BLOB, "\0\x01", 2));
}

static int sign_of(int order) { return (order > 0) - (order < 0); }

static int compare_lists(const mw_value *a, const mw_value *b, uint32_t count)
{
    int order = 0;
    for (uint32_t i = 0; i < count && order == 0; i++) order = mw_value_compare(&a[i], &b[i]);
    return sign_of(order);
}

static void encode(list *to, uint32_t columns)
{
    mw_buf_init(&to->key, mw_env_posix());
    mw_key_encode(&to->key, to->values, columns, columns);
    assert_int_equal(mw_buf_check(&to->key, NULL), MW_OK);
}

/* What comes back: equal to what went in, and of the one type that is canonical. */
static void assert_comes_back(const list *from, uint32_t columns)
{
    mw_value back[LIST_MAX];
    mw_buf texts;
    mw_buf_init(&texts, mw_env_posix());
    assert_int_equal(mw_key_decode(mw_buf_slice(&from->key), columns, back, &texts, NULL), MW_OK);
    assert_int_equal(compare_lists(from->values, back, columns), 0);
    for (uint32_t i = 0; i < columns; i++) {
        if (back[i].type != MW_REAL) continue;
        double real = back[i].real;
        bool wide = real < -0x1p63 || real >= 0x1p63;
        assert_true(wide || (double)(int64_t)real != real);
    }
    mw_buf_free(&texts);
}

static void assert_ordered(list *lists, size_t count, uint32_t columns)
{
    for (size_t i = 0; i < count; i++) {
        encode(&lists[i], columns);
        assert_comes_back(&lists[i], columns);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            int order = mw_slice_compare(mw_buf_slice(&lists[i].key), mw_buf_slice(&lists[j].key));
            int expected = compare_lists(lists[i].values, lists[j].values, columns);
            if (sign_of(order) != expected) {
                fail_msg("lists %zu and %zu of %u: bytes compare as %d, values as %d", i, j,
                         columns, order, expected);
            }
        }
    }
    for (size_t i = 0; i < count; i++) mw_buf_free(&lists[i].key);
}

static list lists[LISTS];

static void order_of_single_values_is_that_of_sqlite(void **state)
{
    (void)state;
    fill_pool(3);
    for (uint32_t i = 0; i < pool_size; i++) lists[i].values[0] = pool[i];
    assert_ordered(lists, pool_size, 1);
}

/* The value that is not the last one is encoded in another way: all of them in front of one. */
static void order_of_first_values_is_that_of_sqlite(void **state)
{
    (void)state;
    fill_pool(3);
    for (uint32_t i = 0; i < pool_size; i++) {
        lists[i].values[0] = pool[i];
        lists[i].values[1] = integer_of(i % 2);
    }
    assert_ordered(lists, pool_size, 2);
}

static void order_of_lists_is_that_of_sqlite(void **state)
{
    (void)state;
    fill_small_pool();
    size_t count = 0;
    for (uint32_t i = 0; i < pool_size; i++) {
        for (uint32_t j = 0; j < pool_size; j++) {
            lists[count].values[0] = pool[i];
            lists[count++].values[1] = pool[j];
        }
    }
    assert_ordered(lists, count, 2);
    count = 0;
    for (uint32_t i = 0; i < pool_size; i += 2) {
        for (uint32_t j = 0; j < pool_size; j += 2) {
            for (uint32_t k = 0; k < pool_size; k += 3) {
                lists[count].values[0] = pool[i];
                lists[count].values[1] = pool[j];
                lists[count++].values[2] = pool[k];
            }
        }
    }
    assert_ordered(lists, count, 3);
}

static void assert_key(const mw_value *values, uint32_t columns, const void *bytes, size_t size)
{
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    mw_key_encode(&buf, values, columns, columns);
    assert_int_equal(buf.size, size);
    assert_memory_equal(buf.data, bytes, size);
    mw_buf_free(&buf);
}

/* The bytes that the format's description gives. */
static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    const mw_value one = integer_of(1);
    const mw_value real_one = real_of(1.0);
    const mw_value half = real_of(-0.5);
    const mw_value wide = integer_of(9007199254740993);
    const mw_value three[] = {bytes_of(MW_TEXT, "a\0b", 3), wide, bytes_of(MW_BLOB, "\0x", 2)};
    assert_key(&one, 1, "\x01\xbf\xf0\0\0\0\0\0\0", 9);
    assert_key(&real_one, 1, "\x01\xbf\xf0\0\0\0\0\0\0", 9);
    assert_key(&half, 1, "\x01\x40\x1f\xff\xff\xff\xff\xff\xff", 9);
    assert_key(&wide, 1, "\x01\xc3\x40\0\0\0\0\0\0\0\x01", 11);
    assert_key(three, 3,
               "\x02"
               "a\0\xff"
               "b\0\0"
               "\x01\xc3\x40\0\0\0\0\0\0\0\x01"
               "\x03\0x",
               7 + 11 + 3);
}

/* What begins with the same values lies between the ends made for them, all else outside. */
static void ends_of_ranges_hold_what_begins_alike(void **state)
{
    (void)state;
    fill_small_pool();
    mw_buf low;
    mw_buf high;
    mw_buf_init(&low, mw_env_posix());
    mw_buf_init(&high, mw_env_posix());
    for (uint32_t i = 0; i < pool_size; i++) {
        mw_buf_clear(&low);
        mw_buf_clear(&high);
        mw_key_encode(&low, &pool[i], 1, 2);
        mw_key_encode(&high, &pool[i], 1, 2);
        mw_key_put_above(&high);
        for (uint32_t j = 0; j < pool_size; j++) {
            for (uint32_t k = 0; k < pool_size; k++) {
                list row = {.values = {pool[j], pool[k]}};
                encode(&row, 2);
                mw_slice key = mw_buf_slice(&row.key);
                bool inside = mw_slice_compare(key, mw_buf_slice(&low)) >= 0 &&
                              mw_slice_compare(key, mw_buf_slice(&high)) < 0;
                assert_int_equal(inside, mw_value_compare(&pool[i], &pool[j]) == 0);
                mw_buf_free(&row.key);
            }
        }
    }
    mw_buf_free(&low);
    mw_buf_free(&high);
}

static void types_lie_apart(void **state)
{
    (void)state;
    fill_pool(1);
    mw_buf ends[3];
    static const mw_type types[] = {MW_INTEGER, MW_TEXT, MW_BLOB};
    for (int t = 0; t < 3; t++) {
        mw_buf_init(&ends[t], mw_env_posix());
        mw_key_put_least(&ends[t], types[t]);
    }
    for (uint32_t i = 0; i < pool_size; i++) {
        list row = {.values = {pool[i]}};
        encode(&row, 1);
        int rank = pool[i].type <= MW_REAL ? 0 : pool[i].type == MW_TEXT ? 1 : 2;
        for (int t = 0; t < 3; t++) {
            int order = mw_slice_compare(mw_buf_slice(&row.key), mw_buf_slice(&ends[t]));
            assert_int_equal(order >= 0, rank >= t);
        }
        mw_buf_free(&row.key);
    }
    for (int t = 0; t < 3; t++) mw_buf_free(&ends[t]);
}

/* Bytes of any origin: an error, or values of which encoding makes these very bytes. Exactly as
** large as the key, so that a read behind its end is seen by the sanitizer. */
static void assert_error_or_canonical(const uint8_t *bytes, size_t size, uint32_t columns)
{
    const mw_env *env = mw_env_posix();
    uint8_t *data = mw_resize(env, NULL, size + 1);
    assert_non_null(data);
    uint8_t *key = data + 1;
    if (size) memcpy(key, bytes, size);
    mw_value values[LIST_MAX];
    mw_buf texts;
    mw_buf again;
    mw_err err = {0};
    mw_buf_init(&texts, env);
    mw_buf_init(&again, env);
    mw_rc rc = mw_key_decode(mw_slice_of(key, size), columns, values, &texts, &err);
    if (rc == MW_OK) {
        mw_key_encode(&again, values, columns, columns);
        assert_true(mw_slice_equal(mw_buf_slice(&again), mw_slice_of(key, size)));
    } else {
        assert_int_equal(rc, MW_CORRUPT);
        assert_true(err.text[0] != 0);
    }
    mw_buf_free(&texts);
    mw_buf_free(&again);
    mw_free(env, data);
}

/* I9: every cut and every changed byte of keys of every kind. */
static void damaged_keys_are_corrupt_or_others(void **state)
{
    (void)state;
    const mw_value rows[][LIST_MAX] = {
        {integer_of(7), bytes_of(MW_TEXT, "a\0b", 3), bytes_of(MW_BLOB, "xy", 2)},
        {integer_of(INT64_MAX), real_of(0.5), bytes_of(MW_TEXT, "", 0)},
        {bytes_of(MW_BLOB, "\0\0", 2), integer_of(INT64_MIN + 1), integer_of(9007199254740993)},
        {real_of(-INFINITY), real_of(0.0), real_of(1e300)},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (uint32_t columns = 1; columns <= LIST_MAX; columns++) {
            list row;
            memcpy(row.values, rows[r], sizeof row.values);
            encode(&row, columns);
            for (size_t cut = 0; cut <= row.key.size; cut++) {
                assert_error_or_canonical(row.key.data, cut, columns);
            }
            for (size_t at = 0; at < row.key.size; at++) {
                uint8_t kept = row.key.data[at];
                for (unsigned byte = 0; byte < 256; byte++) {
                    row.key.data[at] = (uint8_t)byte;
                    assert_error_or_canonical(row.key.data, row.key.size, columns);
                }
                row.key.data[at] = kept;
            }
            for (uint32_t other = 1; other <= LIST_MAX; other++) {
                assert_error_or_canonical(row.key.data, row.key.size, other);
            }
            mw_buf_free(&row.key);
        }
    }
}

static void no_encoding_is_corrupt(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } wrong[] = {
        {"", 0},
        {"\0", 1},
        {"\x04x", 2},
        {"\xff", 1},
        {"\x01\x7f\xff\xff\xff\xff\xff\xff\xff", 9},         /* -0.0 */
        {"\x01\xff\xf8\0\0\0\0\0\0", 9},                     /* NaN */
        {"\x01\0\x07\xff\xff\xff\xff\xff\xff", 9},           /* a negative NaN */
        {"\x01\xc3\x40\0\0\0\0\0\0", 9},                     /* 2^53 without a rest */
        {"\x01\xc3\x40\0\0\0\0\0\0\0\x02", 11},              /* its rest leads to the next double */
        {"\x01\xc3\xdf\xff\xff\xff\xff\xff\xff\x04\0", 11},  /* beyond int64 */
        {"\x01\xbf\xf0\0\0\0\0\0\0\0", 10},                  /* something behind 1 */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mw_value value;
        mw_buf texts;
        mw_buf_init(&texts, mw_env_posix());
        assert_int_equal(mw_key_decode(mw_slice_of(wrong[i].bytes, wrong[i].size), 1, &value,
                                       &texts, NULL),
                         MW_CORRUPT);
        mw_buf_free(&texts);
    }
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    sim *world = sim_create();
    mw_value values[] = {bytes_of(MW_TEXT, "a\0b", 3), integer_of(1)};
    mw_value back[2];
    list row = {.values = {values[0], values[1]}};
    mw_buf buf;
    mw_buf_init(&buf, sim_env(world));
    sim_fail(world, SIM_ALLOC, 1, ENOMEM, false);
    mw_key_encode(&buf, values, 2, 2);
    assert_int_equal(mw_buf_check(&buf, NULL), MW_NOMEM);
    mw_buf_free(&buf);
    encode(&row, 2);
    sim_fail(world, SIM_ALLOC, 1, ENOMEM, false);
    assert_int_equal(mw_key_decode(mw_buf_slice(&row.key), 2, back, &buf, NULL), MW_NOMEM);
    assert_int_equal(mw_key_decode(mw_buf_slice(&row.key), 2, back, &buf, NULL), MW_OK);
    mw_buf_free(&buf);
    mw_buf_free(&row.key);
    sim_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_single_values_is_that_of_sqlite),
        cmocka_unit_test(order_of_first_values_is_that_of_sqlite),
        cmocka_unit_test(order_of_lists_is_that_of_sqlite),
        cmocka_unit_test(bytes_are_those_of_the_format),
        cmocka_unit_test(ends_of_ranges_hold_what_begins_alike),
        cmocka_unit_test(types_lie_apart),
        cmocka_unit_test(damaged_keys_are_corrupt_or_others),
        cmocka_unit_test(no_encoding_is_corrupt),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
