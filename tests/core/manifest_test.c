/* manifest_test.c: a manifest is read back as it was written, and nothing else is ever read as one:
** no cut file, no flipped bit, no file under another's name, none that breaks a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "coding.h"
#include "hash.h"
#include "manifest.h"
#include "memory.h"

static const mw_store_id store_a = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
static const mw_store_id store_b = {{2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

/* ---- a manifest with something in every field ---------------------------------------------- */

/* Keys of the sample's files: those of one base level lie apart. */
static mw_key_range keys_of(uint64_t number)
{
    static const char *const keys[14][2] = {[3] = {"a", "c"},  [4] = {"cc", "z"},
                                            [9] = {"bb", "d"}, [10] = {"e", "f"},
                                            [11] = {"a", "z"}, [12] = {"q", "q"},
                                            [13] = {"b", "b"}};
    assert_true(number < 14);
    const char *min = keys[number][0];
    const char *max = keys[number][1];
    return (mw_key_range){mw_slice_of(min, strlen(min)), mw_slice_of(max, strlen(max))};
}

static mw_manifest_file file_of(uint64_t number, uint32_t level, uint64_t generation,
                                uint64_t sequence_min, uint64_t sequence_max)
{
    mw_table_props props = {.rows = 3, .tombstones = 1, .bytes = 4096, .sequence_min = sequence_min,
                            .sequence_max = sequence_max, .checksum = 0x1111 * number};
    mw_manifest_file file = {2, number, level, generation, props, keys_of(number)};
    return file;
}

static mw_manifest *sample(const mw_env *env)
{
    static const uint32_t ids[] = {1, 2, 4};
    mw_schema schema = {MW_KEY_TEXT, 3, ids, {(const uint8_t *)"id TEXT, a, b, d", 16}};
    mw_manifest *m = NULL;
    assert_int_equal(mw_manifest_create(env, &store_a, &schema, &m, NULL), MW_OK);
    m->number = 7;
    m->boundary = 5;
    m->cursor = 40;
    m->sequence = 100;
    m->count = 9;
    m->generation = 6;
    m->table_number = 12;
    m->bytes_flushed = 70000;
    m->bytes_merged = 50000;
    assert_int_equal(mw_manifest_add_epoch(m, 1, NULL), MW_OK);
    m->epochs[0] = (mw_manifest_epoch){1, true, 1, 1};
    assert_int_equal(mw_manifest_add_epoch(m, 2, NULL), MW_OK);
    m->epochs[1] = (mw_manifest_epoch){2, true, 31, 29};
    assert_int_equal(mw_manifest_add_epoch(m, 4, NULL), MW_OK);
    /* Not in the order of the list: adding brings them there. */
    const mw_manifest_file files[] = {
        file_of(11, 0, 5, 61, 80), file_of(3, 1, 4, 31, 60),  file_of(9, 2, 2, 1, 30),
        file_of(12, 0, 6, 81, 99), file_of(10, 2, 2, 11, 20), file_of(4, 1, 4, 35, 44),
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(mw_manifest_add_file(m, &files[i], NULL), MW_OK);
    }
    return m;
}

static mw_buf encoded(const mw_manifest *m)
{
    mw_buf buf;
    mw_buf_init(&buf, m->env);
    mw_err err = {0};
    if (mw_manifest_encode(m, &buf, &err) != MW_OK) fail_msg("%s", err.text);
    return buf;
}

static void assert_same(const mw_manifest *a, const mw_manifest *b)
{
    mw_buf x = encoded(a);
    mw_buf y = encoded(b);
    assert_true(mw_slice_equal(mw_buf_slice(&x), mw_buf_slice(&y)));
    mw_buf_free(&x);
    mw_buf_free(&y);
}

/* ---- names --------------------------------------------------------------------------------- */

static void names_are_16_hex_digits(void **state)
{
    (void)state;
    char name[MW_MANIFEST_NAME_BYTES];
    uint64_t number = 99;
    mw_manifest_name(0x1f, name);
    assert_string_equal(name, "manifest-000000000000001f");
    assert_true(mw_manifest_parse_name(name, &number));
    assert_int_equal(number, 0x1f);
    mw_manifest_name(UINT64_MAX, name);
    assert_true(mw_manifest_parse_name(name, &number));
    assert_true(number == UINT64_MAX);
    static const char *const others[] = {
        "manifest-", "manifest-000000000000001", "manifest-000000000000001F",
        "manifest-00000000000000010", "manifest-000000000000000g", "manifest-0000000000000000",
        "Manifest-000000000000001f", "tmp-000000000000001f", "", "manifest-+00000000000001f",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(mw_manifest_parse_name(others[i], &number));
    }
}

/* ---- content ------------------------------------------------------------------------------- */

static void new_manifest_is_empty(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_schema schema = {.key = MW_KEY_INTEGER};
    mw_manifest *m = NULL;
    assert_int_equal(mw_manifest_create(&mem.env, &store_a, &schema, &m, NULL), MW_OK);
    assert_int_equal(m->number, 1);
    assert_int_equal(m->boundary, 1);
    assert_int_equal(m->cursor, 0);
    assert_int_equal(m->count, 0);
    assert_int_equal(mw_manifest_epoch_claimed(m), 0);
    assert_null(mw_manifest_sealed(m));
    assert_false(mw_manifest_remove_file(m, 1, 1));
    mw_buf buf = encoded(m);
    mw_manifest *back = NULL;
    assert_int_equal(mw_manifest_decode(&mem.env, mw_buf_slice(&buf), "m", &back, NULL), MW_OK);
    assert_same(m, back);
    mw_buf_free(&buf);
    mw_manifest_unref(back);
    assert_ptr_equal(mw_manifest_ref(m), m);
    mw_manifest_unref(m);
    mw_manifest_unref(m);
    mw_manifest_unref(NULL);
    assert_int_equal(mem.alive, 0);
}

static void decoding_gives_back_every_field(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_buf buf = encoded(m);
    mw_manifest *back = NULL;
    assert_int_equal(mw_manifest_decode(&mem.env, mw_buf_slice(&buf), "m", &back, NULL), MW_OK);
    mw_manifest_unref(m);
    mw_buf_free(&buf); /* back owns all that it points to */

    assert_memory_equal(back->store.bytes, store_a.bytes, 16);
    assert_int_equal(back->number, 7);
    assert_int_equal(back->boundary, 5);
    assert_int_equal(back->cursor, 40);
    assert_int_equal(back->sequence, 100);
    assert_int_equal(back->count, 9);
    assert_int_equal(back->generation, 6);
    assert_int_equal(back->table_number, 12);
    assert_int_equal(back->bytes_flushed, 70000);
    assert_int_equal(back->bytes_merged, 50000);
    assert_int_equal(back->schema.key, MW_KEY_TEXT);
    assert_int_equal(back->schema.column_count, 3);
    assert_int_equal(back->schema.column_ids[2], 4);
    assert_int_equal(back->schema.declaration.size, 16);
    assert_memory_equal(back->schema.declaration.data, "id TEXT, a, b, d", 16);
    assert_int_equal(back->epoch_count, 3);
    assert_int_equal(mw_manifest_epoch_claimed(back), 4);
    const mw_manifest_epoch *sealed = mw_manifest_sealed(back);
    assert_int_equal(sealed->epoch, 2);
    assert_int_equal(sealed->start, 31);
    assert_int_equal(sealed->copied_from, 29);
    static const uint64_t order[] = {9, 10, 3, 4, 11, 12};
    assert_int_equal(back->file_count, 6);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(back->files[i].number, order[i]);
    const mw_manifest_file *file = &back->files[5];
    assert_int_equal(file->epoch, 2);
    assert_int_equal(file->level, 0);
    assert_int_equal(file->generation, 6);
    assert_int_equal(file->props.rows, 3);
    assert_int_equal(file->props.tombstones, 1);
    assert_int_equal(file->props.bytes, 4096);
    assert_int_equal(file->props.sequence_min, 81);
    assert_int_equal(file->props.sequence_max, 99);
    assert_int_equal(file->props.checksum, 0x1111 * 12);
    assert_int_equal(back->files[3].keys.min.size, 2);
    assert_memory_equal(back->files[3].keys.min.data, "cc", 2);
    assert_int_equal(back->files[3].keys.max.size, 1);
    assert_memory_equal(back->files[3].keys.max.data, "z", 1);
    mw_manifest_unref(back);
    assert_int_equal(mem.alive, 0);
}

/* The example of FORMAT.md, byte by byte: what version 2 is may never change. */
static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    static const uint32_t ids[] = {1};
    mw_schema schema = {MW_KEY_INTEGER, 1, ids, {(const uint8_t *)"id, a", 5}};
    mw_manifest *m = NULL;
    assert_int_equal(mw_manifest_create(&mem.env, &store_a, &schema, &m, NULL), MW_OK);
    m->number = 3;
    m->boundary = 2;
    m->cursor = 4;
    m->sequence = 7;
    m->count = 5;
    m->generation = 1;
    m->table_number = 1;
    m->bytes_flushed = 900;
    m->pledged.position = 3;
    for (uint8_t i = 0; i < sizeof m->pledged.id; i++) m->pledged.id[i] = (uint8_t)(0xa0 + i);
    assert_int_equal(mw_manifest_add_epoch(m, 1, NULL), MW_OK);
    m->epochs[0] = (mw_manifest_epoch){1, true, 1, 1};
    mw_table_props props = {5, 1, 900, 1, 7, UINT64_C(0x1122334455667788)};
    static const uint8_t low[] = {0x80, 0, 0, 0, 0, 0, 0, 3};
    static const uint8_t high[] = {0x80, 0, 0, 0, 0, 0, 0, 9};
    mw_manifest_file file = {1, 1, 0, 1, props, {{low, sizeof low}, {high, sizeof high}}};
    assert_int_equal(mw_manifest_add_file(m, &file, NULL), MW_OK);
    static const uint8_t expected[] = {
        0x4d, 0x57, 0x4d, 0x41, 0x4e, 0x49, 0x46, 0x0a, 0x03, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
        0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x03, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x84, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
        0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0x01, 0x00, 0x00, 0x00,
        0x01, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
        0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x69, 0x64, 0x2c, 0x20,
        0x61, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x84, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x08, 0x00, 0x00,
        0x00, 0x08, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x03, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x35, 0x01, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x18, 0xcf, 0x31, 0x62, 0xb9, 0x58, 0xb1,
        0x8e, 0x0a, 0x4d, 0x57, 0x4d, 0x45, 0x4e, 0x44, 0x0a,
    };
    mw_buf buf = encoded(m);
    assert_int_equal(buf.size, sizeof expected);
    assert_memory_equal(buf.data, expected, sizeof expected);
    mw_buf_free(&buf);
    mw_manifest_unref(m);
    assert_int_equal(mem.alive, 0);
}

/* ---- damage -------------------------------------------------------------------------------- */

static const char *const sample_name = "manifest-0000000000000007";

static void assert_damaged(const mw_env *env, mw_slice content)
{
    mw_manifest *m = NULL;
    mw_err err = {0};
    assert_int_equal(mw_manifest_decode(env, content, sample_name, &m, &err), MW_CORRUPT);
    assert_int_equal(err.rc, MW_CORRUPT);
    assert_non_null(strstr(err.text, sample_name));
    assert_null(m);
}

/* C13: a cut file is a clear error that names it, for every length; never an empty table. */
static void every_prefix_is_damage(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_buf buf = encoded(m);
    for (size_t bytes = 0; bytes < buf.size; bytes++) {
        uint8_t *cut = malloc(bytes + 1); /* of its own, so that reading behind it shows */
        memcpy(cut, buf.data, bytes);
        assert_damaged(&mem.env, mw_slice_of(cut, bytes));
        free(cut);
    }
    mw_buf_u8(&buf, 0);
    assert_damaged(&mem.env, mw_buf_slice(&buf));
    mw_buf_free(&buf);
    mw_manifest_unref(m);
    assert_int_equal(mem.alive, 0);
}

/* I9: every bit is under the checksum (or is it). */
static void every_flipped_bit_is_damage(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_buf buf = encoded(m);
    for (size_t i = 0; i < buf.size * 8; i++) {
        uint8_t bit = (uint8_t)(1U << i % 8);
        buf.data[i / 8] ^= bit;
        assert_damaged(&mem.env, mw_buf_slice(&buf));
        buf.data[i / 8] ^= bit;
    }
    for (size_t i = 0; i < buf.size; i++) {
        uint8_t old = buf.data[i];
        buf.data[i] = (uint8_t)~old;
        assert_damaged(&mem.env, mw_buf_slice(&buf));
        buf.data[i] = old;
    }
    mw_buf_free(&buf);
    mw_manifest_unref(m);
    assert_int_equal(mem.alive, 0);
}

/* Writes the checksum anew, as a fault of a program would, not one of a disk. */
static void seal_again(mw_buf *buf)
{
    mw_store_id store;
    memcpy(store.bytes, buf->data + 16, sizeof store.bytes);
    uint64_t seed = mw_hash_seed(&store, 0, mw_get_u64(buf->data + 32));
    size_t at = buf->size - 16;
    mw_put_u64(buf->data + at, mw_hash(buf->data, at, seed));
}

/* Whatever a byte is set to under a right checksum: refused, or a manifest that keeps the rules,
** and never memory abuse. */
static void forged_bytes_are_refused_or_harmless(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_buf buf = encoded(m);
    for (size_t i = 0; i < buf.size - 24; i++) {
        static const uint8_t masks[] = {0x01, 0x80, 0xff};
        for (size_t j = 0; j < sizeof masks; j++) {
            buf.data[i] ^= masks[j];
            seal_again(&buf);
            mw_manifest *back = NULL;
            mw_rc rc = mw_manifest_decode(&mem.env, mw_buf_slice(&buf), sample_name, &back, NULL);
            buf.data[i] ^= masks[j];
            if (rc == MW_OK) {
                mw_buf again = encoded(back);
                assert_int_equal(again.size, buf.size);
                mw_buf_free(&again);
                mw_manifest_unref(back);
                continue;
            }
            /* Bytes 8 to 11 are the version; one below this one has other fields. */
            bool older = i == 8 && masks[j] == 0x01;
            assert_int_equal(rc, i >= 8 && i < 12 && !older ? MW_UNSUPPORTED : MW_CORRUPT);
        }
    }
    mw_buf_free(&buf);
    mw_manifest_unref(m);
    assert_int_equal(mem.alive, 0);
}

/* ---- rules --------------------------------------------------------------------------------- */

/* Each breaks one rule of the sample. */
static const char *break_rule(mw_manifest *m, int rule)
{
    switch (rule) {
    case 0: m->boundary = 0; return "boundary";
    case 1: m->boundary = 8; return "boundary";
    case 2: m->count = -1; return "count";
    case 3: m->count = 6 * 3 + 1; return "count";
    case 4: m->cursor = 0; return "cursor 0";
    case 5: m->sequence = 98; return "sequences";
    case 6: m->generation = 5; return "generations";
    case 7: m->table_number = 11; return "file numbers";
    case 8: m->epochs[0].epoch = 2; return "epoch above";
    case 9: m->epochs[1].sealed = false; return "unsealed below";
    case 10: m->epochs[2].start = 1; return "no start";
    case 11: m->epochs[1].copied_from = 32; return "copies";
    case 12: m->epochs[1].copied_from = 0; return "copies";
    case 13: m->epochs[0].start = 32; return "copies";
    case 14: m->epochs[0].epoch = 0; return "epoch above";
    case 15: m->files[0].epoch = 5; return "file of epoch";
    case 16: m->files[0].epoch = 0; return "file of epoch";
    case 17: m->files[0].number = 0; return "file numbers";
    case 18: m->files[1].number = 9; return "twice";
    case 19: m->files[3].number = 12; return "twice";
    case 20: m->files[0].level = 16; return "levels up to";
    case 21: m->files[0].level = 1; return "levels to fall";
    case 22: m->files[5].generation = 4; return "generation 5 or later";
    case 23: m->files[2].generation = 6; return "generation 6 or later";
    case 24: m->files[0].generation = 0; return "generations";
    case 25: m->files[5].props.sequence_min = 80; return "sequences above";
    case 26: m->files[4].props.sequence_min = 60; return "sequences above";
    case 27: m->files[0].props.sequence_min = 0; return "sequences of";
    case 28: m->files[0].props.sequence_min = 31; return "sequences of";
    case 29: m->files[0].props.rows = 30; return "sequences of";
    case 30: m->files[0].props.rows = UINT64_MAX; return "rows in one file";
    case 31: m->files[0].props.bytes = 0; return "0 bytes";
    case 32: m->schema.key = (mw_key_kind)4; return "key kind";
    case 33: m->schema.column_count = MW_COLUMNS_MAX + 1; return "columns";
    case 34: ((uint32_t *)(void *)m->schema_memory)[2] = 1; return "column id 1 twice";
    case 35: m->schema.declaration.size = (1 << 20) + 1; return "declaration";
    case 36: m->files[0].props.rows = m->files[0].props.tombstones = 0; return "sequences of";
    case 37: m->files[5].keys.min = mw_slice_of("r", 1); return "keys to rise";
    case 38: m->files[1].keys.min = mw_slice_of("d", 1); return "behind the end";
    case 39: m->files[0].keys.max.size = MW_KEY_BYTES_MAX + 1; return "keys of at most";
    case 40: m->schema.key = MW_KEY_INTEGER; return "integer keys";
    case 41:
        m->files[5].props = (mw_table_props){.bytes = 1};
        return "no keys";
    default: return NULL;
    }
}

static void manifest_that_breaks_a_rule_is_not_written(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    int rule = 0;
    for (const char *words = ""; words; rule++) {
        mw_manifest *m = sample(&mem.env);
        mw_buf buf;
        mw_buf_init(&buf, &mem.env);
        words = break_rule(m, rule);
        mw_err err = {0};
        mw_rc rc = mw_manifest_encode(m, &buf, &err);
        assert_int_equal(rc, words ? MW_MISUSE : MW_OK);
        if (words && !strstr(err.text, words)) fail_msg("rule %d: '%s'?", rule, err.text);
        mw_buf_free(&buf);
        mw_manifest_unref(m);
    }
    assert_int_equal(rule, 43);
    assert_int_equal(mem.alive, 0);
}

/* The same rules on the way in. Offsets: FORMAT.md. */
static void manifest_that_breaks_a_rule_is_not_read(void **state)
{
    (void)state;
    enum { COLUMNS = 148, EPOCHS = COLUMNS + 3 * 4 + 16, FILES = EPOCHS + 3 * 28,
           LAST = FILES + 5 * 84 + 12 };
    static const struct { size_t offset; uint8_t value; const char *words; } cases[] = {
        {12, 1, "expected 0"},
        {40, 9, "boundary"},
        {48, 0, "cursor 0"},
        {56, 98, "sequences"},
        {64, 19, "count"},
        {64 + 7, 0x80, "count"},
        {72, 5, "generations"},
        {80, 11, "file numbers"},
        {104 + 7, 0xff, "a pledge at or below"},
        {128, 4, "key kind"},
        {132 + 3, 0xff, "bytes of columns"},
        {136 + 3, 0xff, "bytes of columns"},
        {140 + 3, 0xff, "bytes of columns"},
        {144, 5, "files' keys to end"},
        {COLUMNS + 8, 2, "column id 2 twice"},
        {EPOCHS, 2, "epoch above"},
        {EPOCHS + 28 + 24, 0, "unsealed below"},
        {EPOCHS + 28 + 24, 2, "sealed to be 0 or 1"},
        {EPOCHS + 2 * 28 + 8, 1, "no start"},
        {FILES, 5, "file of epoch"},
        {FILES + 16, 1, "levels to fall"},
        {LAST + 20, 4, "generation 5 or later"},
        {LAST + 52, 80, "sequences above"},
        {LAST + 76, 2, "files' keys to end"},
        {LAST + 76 + 3, 0xff, "files' keys to end"},
        {LAST + 84, 'r', "keys to rise"},
    };
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_buf buf = encoded(m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t old = buf.data[cases[i].offset];
        buf.data[cases[i].offset] = cases[i].value;
        seal_again(&buf);
        mw_manifest *back = NULL;
        mw_err err = {0};
        mw_rc rc = mw_manifest_decode(&mem.env, mw_buf_slice(&buf), sample_name, &back, &err);
        assert_int_equal(rc, MW_CORRUPT);
        assert_non_null(strstr(err.text, sample_name));
        if (!strstr(err.text, cases[i].words)) fail_msg("case %zu: '%s'?", i, err.text);
        buf.data[cases[i].offset] = old;
    }
    mw_buf_free(&buf);
    mw_manifest_unref(m);
    assert_int_equal(mem.alive, 0);
}

/* ---- changes ------------------------------------------------------------------------------- */

static void copy_is_the_successor_and_independent(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_manifest *next = NULL;
    assert_int_equal(mw_manifest_copy(m, &next, NULL), MW_OK);
    assert_int_equal(next->number, 8);
    next->number = 7;
    assert_same(m, next);
    next->number = 8;
    assert_true(mw_manifest_remove_file(next, 2, 3));
    assert_false(mw_manifest_remove_file(next, 2, 3));
    assert_false(mw_manifest_remove_file(next, 1, 9));
    assert_int_equal(next->file_count, 5);
    assert_int_equal(m->file_count, 6);
    assert_int_equal(next->files[2].number, 4);
    mw_manifest_unref(m);
    mw_buf buf = encoded(next);
    mw_buf_free(&buf);
    mw_manifest_unref(next);
    assert_int_equal(mem.alive, 0);
}

static void claim_replaces_one_that_was_never_sealed(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    assert_int_equal(mw_manifest_add_epoch(m, 6, NULL), MW_OK);
    assert_int_equal(m->epoch_count, 3);
    assert_int_equal(mw_manifest_epoch_claimed(m), 6);
    assert_int_equal(mw_manifest_sealed(m)->epoch, 2);
    m->epochs[2] = (mw_manifest_epoch){6, true, 41, 41};
    assert_int_equal(mw_manifest_sealed(m)->epoch, 6);
    assert_int_equal(mw_manifest_add_epoch(m, 7, NULL), MW_OK);
    assert_int_equal(m->epoch_count, 4);
    mw_manifest_unref(m);
    assert_int_equal(mem.alive, 0);
}

static mw_rc make_and_copy(memory *mem, const mw_buf *content, mw_err *err)
{
    mw_manifest *m = NULL;
    mw_manifest *copy = NULL;
    mw_buf buf;
    mw_buf_init(&buf, &mem->env);
    mw_rc rc = mw_manifest_decode(&mem->env, mw_buf_slice(content), sample_name, &m, err);
    if (rc == MW_OK) rc = mw_manifest_copy(m, &copy, err);
    mw_manifest_file file = file_of(13, 0, 7, 101, 110);
    if (rc == MW_OK) rc = mw_manifest_add_file(copy, &file, err);
    if (rc == MW_OK) {
        copy->table_number = 13;
        copy->generation = 7;
        copy->sequence = 110;
        copy->epochs[2] = (mw_manifest_epoch){4, true, 41, 41};
        rc = mw_manifest_add_epoch(copy, 5, err);
    }
    if (rc == MW_OK) rc = mw_manifest_encode(copy, &buf, err);
    mw_buf_free(&buf);
    mw_manifest_unref(copy);
    mw_manifest_unref(m);
    return rc;
}

static void refused_memory_is_told_and_nothing_leaks(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mw_manifest *m = sample(&mem.env);
    mw_buf content = encoded(m);
    size_t alive = mem.alive;
    size_t n = 1;
    for (;; n++) {
        memory_refuse(&mem, n);
        mw_err err = {0};
        mw_rc rc = make_and_copy(&mem, &content, &err);
        assert_int_equal(mem.alive, alive);
        if (rc == MW_OK) break;
        assert_int_equal(rc, MW_NOMEM);
        assert_int_equal(err.rc, MW_NOMEM);
    }
    assert_in_range(n, 10, 40);
    mw_buf_free(&content);
    mw_manifest_unref(m);
    for (n = 1; n <= 2; n++) {
        mw_schema schema = {.key = MW_KEY_INTEGER};
        memory_refuse(&mem, n);
        m = NULL;
        assert_int_equal(mw_manifest_create(&mem.env, &store_a, &schema, &m, NULL), MW_NOMEM);
        assert_null(m);
    }
    assert_int_equal(mem.alive, 0);
}

/* ---- files --------------------------------------------------------------------------------- */

typedef struct folder {
    char path[64];
    const mw_env *env;
    int dir;
} folder;

static folder open_folder(void)
{
    folder f = {.path = "/tmp/mw_manifest_test_XXXXXX", .env = mw_env_posix()};
    assert_non_null(mkdtemp(f.path));
    assert_int_equal(f.env->dir_open(f.env->ctx, f.path, false, &f.dir), 0);
    return f;
}

static int forget(void *arg, const char *name)
{
    folder *f = arg;
    assert_int_equal(f->env->unlink(f->env->ctx, f->dir, name), 0);
    return 0;
}

static void remove_folder(folder *f)
{
    assert_int_equal(f->env->dir_list(f->env->ctx, f->dir, forget, f), 0);
    assert_int_equal(f->env->dir_close(f->env->ctx, f->dir), 0);
    assert_int_equal(f->env->dir_remove(f->env->ctx, f->path), 0);
}

/* I5: of two successors of one manifest one wins, and the loser is told. */
static void each_number_is_won_once(void **state)
{
    (void)state;
    folder f = open_folder();
    mw_manifest *m = sample(f.env);
    mw_err err = {0};
    assert_int_equal(mw_manifest_publish(m, f.dir, &err), MW_OK);
    mw_manifest *mine = NULL;
    mw_manifest *theirs = NULL;
    assert_int_equal(mw_manifest_copy(m, &mine, NULL), MW_OK);
    assert_int_equal(mw_manifest_copy(m, &theirs, NULL), MW_OK);
    theirs->count = 8;
    assert_int_equal(mw_manifest_publish(theirs, f.dir, &err), MW_OK);
    assert_int_equal(mw_manifest_publish(mine, f.dir, &err), MW_EXISTS);
    assert_int_equal(err.rc, MW_OK);

    mw_manifest *read = NULL;
    assert_int_equal(mw_manifest_load(f.env, f.dir, 8, &store_a, &read, NULL), MW_OK);
    assert_same(read, theirs);
    mw_manifest_unref(read);
    mw_manifest_unref(mine);
    mw_manifest_unref(theirs);
    mw_manifest_unref(m);
    remove_folder(&f);
}

/* A file of another number or store never passes for the one that was asked for. */
static void swapped_files_are_refused(void **state)
{
    (void)state;
    folder f = open_folder();
    mw_manifest *m = sample(f.env);
    mw_buf buf = encoded(m);
    mw_manifest *read = NULL;
    mw_err err = {0};
    assert_int_equal(mw_manifest_load(f.env, f.dir, 7, NULL, &read, NULL), MW_MISSING);
    assert_int_equal(mw_manifest_publish(m, f.dir, NULL), MW_OK);
    assert_int_equal(mw_manifest_load(f.env, f.dir, 7, &store_b, &read, &err), MW_MISMATCH);
    assert_non_null(strstr(err.text, sample_name));
    assert_int_equal(mw_manifest_load(f.env, f.dir, 7, NULL, &read, NULL), MW_OK);
    mw_manifest_unref(read);
    read = NULL;

    char name[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(8, name);
    assert_int_equal(mw_env_publish(f.env, f.dir, name, mw_buf_slice(&buf), NULL), MW_OK);
    err = (mw_err){0};
    assert_int_equal(mw_manifest_load(f.env, f.dir, 8, &store_a, &read, &err), MW_CORRUPT);
    assert_non_null(strstr(err.text, name));
    assert_null(read);
    mw_buf_free(&buf);
    mw_manifest_unref(m);
    remove_folder(&f);
}

static void newest_is_the_highest_number(void **state)
{
    (void)state;
    folder f = open_folder();
    uint64_t number = 99;
    assert_int_equal(mw_manifest_newest(f.env, f.dir, &number, NULL), MW_OK);
    assert_int_equal(number, 0);
    static const char *const names[] = {
        "manifest-0000000000000009", "manifest-000000000000001a", "manifest-0000000000000002",
        "manifest-00000000000000ff.bak", "tmp-00000000000000ff", "wal-1",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mw_slice content = mw_slice_of("x", 1);
        assert_int_equal(mw_env_publish(f.env, f.dir, names[i], content, NULL), MW_OK);
    }
    assert_int_equal(mw_manifest_newest(f.env, f.dir, &number, NULL), MW_OK);
    assert_int_equal(number, 0x1a);
    remove_folder(&f);
}

static int list_half(void *ctx, int dir, int (*each)(void *arg, const char *name), void *arg)
{
    (void)ctx;
    (void)dir;
    each(arg, "manifest-0000000000000003");
    return EIO;
}

/* L16: half a listing is an error, never an older manifest and never an empty folder. */
static void error_is_never_read_as_absence(void **state)
{
    (void)state;
    memory mem;
    memory_init(&mem);
    mem.env.dir_list = list_half;
    uint64_t number = 99;
    mw_err err = {0};
    assert_int_equal(mw_manifest_newest(&mem.env, 0, &number, &err), MW_IO);
    assert_int_equal(err.sys, EIO);
    assert_int_equal(number, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_16_hex_digits),
        cmocka_unit_test(new_manifest_is_empty),
        cmocka_unit_test(decoding_gives_back_every_field),
        cmocka_unit_test(bytes_are_those_of_the_format),
        cmocka_unit_test(every_prefix_is_damage),
        cmocka_unit_test(every_flipped_bit_is_damage),
        cmocka_unit_test(forged_bytes_are_refused_or_harmless),
        cmocka_unit_test(manifest_that_breaks_a_rule_is_not_written),
        cmocka_unit_test(manifest_that_breaks_a_rule_is_not_read),
        cmocka_unit_test(copy_is_the_successor_and_independent),
        cmocka_unit_test(claim_replaces_one_that_was_never_sealed),
        cmocka_unit_test(refused_memory_is_told_and_nothing_leaks),
        cmocka_unit_test(each_number_is_won_once),
        cmocka_unit_test(swapped_files_are_refused),
        cmocka_unit_test(newest_is_the_highest_number),
        cmocka_unit_test(error_is_never_read_as_absence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
