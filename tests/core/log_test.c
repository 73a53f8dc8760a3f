/* log_test.c: what was written comes back, what is torn, stale, moved or rubbish never does, and
** damage is told from a torn tail. The record layout is written down here a second time, from
** FORMAT.md. */
#include "log.h"

#include "hash.h"
#include "sim.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    RECORD = MW_LOG_RECORD_HEADER_BYTES,
    HEADER = MW_LOG_HEADER_BYTES,
    RECORD_MAX = MW_LOG_RECORD_BYTES_MAX
};

static const mw_store_id store_id = {{7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
static const mw_store_id other_id = {{8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
static const char path[] = "d/wal-0000000000000003-0000000000000001";

/* ---- a folder with one segment --------------------------------------------------------------- */

typedef struct place {
    sim *world;
    const mw_env *env;
    int dir;
    mw_log_segment *segment;
} place;

static const mw_log_header usual = {
    .epoch = 3, .number = 1, .generation = 4, .first_position = 1, .generation_start = 1};

static mw_log_header header_of(uint64_t number, uint64_t first_position)
{
    mw_log_header header = usual;
    header.store = store_id;
    header.number = number;
    header.first_position = first_position;
    return header;
}

static place open_folder(void)
{
    place at = {.world = sim_create()};
    at.env = sim_env(at.world);
    assert_int_equal(at.env->dir_open(at.env->ctx, "d", true, &at.dir), 0);
    return at;
}

static place open_place(void)
{
    place at = open_folder();
    mw_log_header header = header_of(1, 1);
    assert_int_equal(mw_log_segment_create(at.env, at.dir, &header, &at.segment, NULL), MW_OK);
    return at;
}

static void close_segment(place *at)
{
    mw_log_segment_close(at->segment);
    at->segment = NULL;
}

static void close_place(place *at)
{
    close_segment(at);
    at->env->dir_close(at->env->ctx, at->dir);
    assert_int_equal(sim_open_count(at->world), 0);
    assert_int_equal(sim_memory_in_use(at->world), 0);
    sim_destroy(at->world);
}

static mw_log_entry entry_of(uint64_t position, uint64_t durable_through, const char *words)
{
    mw_log_entry entry = {.position = position,
                          .epoch = 3,
                          .durable_through = durable_through,
                          .kind = MW_LOG_COMMIT,
                          .payload = mw_slice_of(words, strlen(words))};
    return entry;
}

/* Stages, writes and syncs one entry. */
static void put_entry(place *at, const mw_log_entry *entry)
{
    mw_log_segment *to = at->segment;
    assert_int_equal(mw_log_segment_reserve(to, mw_log_entry_bytes(entry->payload.size), NULL),
                     MW_OK);
    assert_int_equal(mw_log_segment_stage(to, entry, NULL), MW_OK);
    assert_int_equal(mw_log_segment_write(to, NULL), MW_OK);
    assert_int_equal(mw_log_segment_sync(to, NULL), MW_OK);
}

static void put(place *at, uint64_t position, uint64_t durable_through, const char *words)
{
    mw_log_entry entry = entry_of(position, durable_through, words);
    put_entry(at, &entry);
}

/* Three entries that are 56, 64 and 56 bytes long, then the file is cut behind them. */
enum { ONE = HEADER, TWO = ONE + 56, THREE = TWO + 64, END = THREE + 56 };

static place place_of_three(uint64_t durable_2, uint64_t durable_3)
{
    place at = open_place();
    put(&at, 1, 0, "first");
    put(&at, 2, durable_2, "the second");
    put(&at, 3, durable_3, "third");
    close_segment(&at);
    sim_file_truncate(at.world, path, END);
    return at;
}

/* ---- reading --------------------------------------------------------------------------------- */

static mw_log_reader *open_reader(place *at)
{
    mw_log_reader *reader = NULL;
    bool whole = false;
    mw_err err = {0};
    mw_rc rc = mw_log_reader_open(at->env, at->dir, &store_id, 3, 1, &reader, &whole, &err);
    if (rc != MW_OK) fail_msg("%s", err.text);
    assert_true(whole);
    return reader;
}

/* What a reader makes of the segment. */
typedef struct seen {
    char text[200];           /* payloads, joined by ' ' */
    uint64_t durable_through; /* of what lies behind     */
    uint64_t offset;          /* of the end              */
    bool clean;
} seen;

static seen look(place *at)
{
    seen found = {0};
    uint64_t chain;
    mw_log_reader *reader = open_reader(at);
    for (uint64_t position = 1;; position++) {
        mw_log_entry entry;
        mw_log_found what;
        assert_int_equal(mw_log_reader_next(reader, &entry, &what, NULL), MW_OK);
        if (what == MW_LOG_END) break;
        assert_int_equal(entry.position, position);
        size_t used = strlen(found.text);
        snprintf(found.text + used, sizeof found.text - used, "%s%.*s", used ? " " : "",
                 (int)entry.payload.size, (const char *)entry.payload.data);
    }
    mw_log_reader_end(reader, &found.offset, &chain);
    assert_int_equal(mw_log_reader_probe(reader, &found.durable_through, &found.clean, NULL),
                     MW_OK);
    mw_log_reader_close(reader);
    return found;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void names_are_epoch_and_number_in_hex(void **state)
{
    (void)state;
    char name[MW_LOG_NAME_BYTES];
    uint64_t epoch = 0;
    uint64_t number = 0;
    mw_log_name(0x1f, UINT64_MAX, name);
    assert_string_equal(name, "wal-000000000000001f-ffffffffffffffff");
    assert_true(mw_log_parse_name(name, &epoch, &number));
    assert_int_equal(epoch, 0x1f);
    assert_true(number == UINT64_MAX);
    static const char *const others[] = {
        "",
        "wal-",
        "wal-000000000000001f",
        "wal-000000000000001f-fffffffffffffff",
        "wal-000000000000001f-fffffffffffffffff",
        "wal-000000000000001F-ffffffffffffffff",
        "wal-000000000000001f_ffffffffffffffff",
        "wall000000000000001f-ffffffffffffffff",
        "wal-000000000000001g-ffffffffffffffff",
        "wal- 00000000000001f-ffffffffffffffff",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(mw_log_parse_name(others[i], &epoch, &number));
    }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* A record as FORMAT.md draws it. part: 1 first, 2 last. Returns its checksum, which is the next
** one's `previous`. */
typedef struct drawn {
    uint64_t previous;
    uint64_t position;
    uint64_t durable_through;
    uint32_t bytes;
    uint8_t kind;
    uint8_t part;
    const void *payload;
} drawn;

static size_t draw(const drawn *record, uint8_t *to, uint64_t *checksum)
{
    size_t body = (record->bytes + 7u) & ~(size_t)7;
    memset(to, 0, RECORD + body);
    mw_put_u64(to + 8, record->previous);
    mw_put_u64(to + 16, record->position);
    mw_put_u64(to + 24, 3);
    mw_put_u64(to + 32, record->durable_through);
    mw_put_u32(to + 40, record->bytes);
    to[44] = record->kind;
    to[45] = record->part;
    if (record->bytes) memcpy(to + RECORD, record->payload, record->bytes);
    *checksum = mw_hash(to + 8, RECORD - 8 + body, mw_hash_seed(&store_id, 3, 1));
    mw_put_u64(to, *checksum);
    return RECORD + body;
}

static uint64_t chain_of_header(place *at)
{
    uint8_t header[HEADER];
    assert_int_equal(sim_file_read(at->world, path, 0, header, HEADER), HEADER);
    return mw_get_u64(header + 88);
}

/* What version 2 is may never change. */
static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    uint8_t file[END];
    uint8_t wanted[END] = "mwallog\n";
    assert_int_equal(sim_file_read(at.world, path, 0, file, END), END);
    mw_put_u32(wanted + 8, 3);
    memcpy(wanted + 16, store_id.bytes, 16);
    mw_put_u64(wanted + 32, 3); /* epoch                       */
    mw_put_u64(wanted + 40, 1); /* number                      */
    mw_put_u64(wanted + 48, 4); /* generation                  */
    mw_put_u64(wanted + 56, 1); /* first position              */
    mw_put_u64(wanted + 64, 1); /* the generation's first one  */
    uint64_t chain = mw_hash(wanted, 88, mw_hash_seed(&store_id, 3, 1));
    mw_put_u64(wanted + 88, chain);
    drawn records[] = {{0, 1, 0, 5, 1, 3, "first"},
                       {0, 2, 1, 10, 1, 3, "the second"},
                       {0, 3, 2, 5, 1, 3, "third"}};
    size_t used = HEADER;
    for (int i = 0; i < 3; i++) {
        records[i].previous = chain;
        used += draw(&records[i], wanted + used, &chain);
    }
    assert_int_equal(used, END);
    assert_memory_equal(file, wanted, END);
    close_place(&at);
}

/* ---- what was written is read ---------------------------------------------------------------- */

static void entries_come_back_as_they_were_written(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 7, 8, 9, 4096, RECORD_MAX - 1, RECORD_MAX, RECORD_MAX + 1, 2 * RECORD_MAX, 600001};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    place at = open_place();
    uint8_t *bytes = malloc(700000);
    for (size_t i = 0; i < 700000; i++) bytes[i] = (uint8_t)(i * 31 + i / 251);
    for (uint64_t i = 0; i < COUNT; i++) {
        mw_log_entry entry = {.position = i + 1,
                              .epoch = i % 2 ? 3 : 2,
                              .durable_through = i / 2,
                              .kind = i % 3 ? MW_LOG_COMMIT : MW_LOG_ABORT,
                              .payload = mw_slice_of(bytes + i, sizes[i])};
        put_entry(&at, &entry);
    }
    mw_log_reader *reader = open_reader(&at);
    assert_string_equal(mw_log_reader_name(reader), path + 2);
    assert_int_equal(mw_log_reader_header(reader)->generation, 4);
    uint64_t before = HEADER;
    for (uint64_t i = 0; i < COUNT; i++) {
        mw_log_entry entry;
        mw_log_found found;
        uint64_t chain;
        uint64_t end;
        assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
        assert_int_equal(found, MW_LOG_ENTRY);
        assert_int_equal(entry.position, i + 1);
        assert_int_equal(entry.epoch, i % 2 ? 3 : 2);
        assert_int_equal(entry.durable_through, i / 2);
        assert_int_equal(entry.kind, i % 3 ? MW_LOG_COMMIT : MW_LOG_ABORT);
        assert_int_equal(entry.offset, before);
        assert_true(mw_slice_equal(entry.payload, mw_slice_of(bytes + i, sizes[i])));
        mw_log_reader_end(reader, &end, &chain);
        assert_int_equal(end - before, mw_log_entry_bytes(sizes[i]));
        before = end;
    }
    mw_log_reader_close(reader);
    free(bytes);
    close_place(&at);
}

/* An entry of several records counts with its last one: cut anywhere before that it never was. */
static void half_an_entry_never_counts(void **state)
{
    (void)state;
    place at = open_place();
    uint8_t *bytes = calloc(1, 600000);
    put(&at, 1, 0, "first");
    mw_log_entry entry = {
        .position = 2, .epoch = 3, .kind = MW_LOG_COMMIT, .payload = mw_slice_of(bytes, 600000)};
    put_entry(&at, &entry);
    close_segment(&at);
    uint64_t second = TWO + RECORD + RECORD_MAX;
    uint64_t third = second + RECORD + RECORD_MAX;
    uint64_t end = third + RECORD + 600000 - 2 * RECORD_MAX;
    const uint64_t cuts[] = {end - 1,    third + RECORD, third + 1, third,
                             second + 1, second,         TWO + 1,   TWO};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        sim_file_truncate(at.world, path, cuts[i]);
        seen found = look(&at);
        assert_string_equal(found.text, "first");
        assert_int_equal(found.offset, TWO);
        assert_int_equal(found.durable_through, 0);
    }
    free(bytes);
    close_place(&at);
}

static void a_reader_goes_on_when_more_was_written(void **state)
{
    (void)state;
    place at = open_place();
    mw_log_entry entry;
    mw_log_found found;
    mw_log_reader *reader = open_reader(&at);
    for (uint64_t position = 1; position < 5; position++) {
        assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
        assert_int_equal(found, MW_LOG_END);
        put(&at, position, position - 1, "words");
        assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
        assert_int_equal(found, MW_LOG_ENTRY);
        assert_int_equal(entry.position, position);
    }
    mw_log_reader_close(reader);
    close_place(&at);
}

static void a_resumed_segment_goes_on_behind_its_last_entry(void **state)
{
    (void)state;
    place at = open_place();
    put(&at, 1, 0, "first");
    close_segment(&at);
    mw_log_reader *reader = open_reader(&at);
    mw_log_header header = *mw_log_reader_header(reader);
    mw_log_entry entry;
    mw_log_found found;
    uint64_t offset;
    uint64_t chain;
    assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
    mw_log_reader_end(reader, &offset, &chain);
    mw_log_reader_close(reader);
    mw_log_segment **segment = &at.segment;
    assert_int_equal(mw_log_segment_resume(at.env, at.dir, &header, offset, chain, segment, NULL),
                     MW_OK);
    assert_string_equal(mw_log_segment_name(at.segment), path + 2);
    assert_int_equal(mw_log_segment_header(at.segment)->generation, 4);
    put(&at, 2, 1, "second");
    assert_string_equal(look(&at).text, "first second");
    close_place(&at);
}

/* ---- torn tails ------------------------------------------------------------------------------ */

/* L19: cut at every byte: all whole entries and nothing else, never an error, never a suspicion. */
static void a_tail_torn_at_any_byte_is_cut(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    for (uint64_t bytes = END; bytes >= HEADER; bytes--) {
        sim_file_truncate(at.world, path, bytes);
        seen found = look(&at);
        const char *wanted = bytes >= END     ? "first the second third"
                             : bytes >= THREE ? "first the second"
                             : bytes >= TWO   ? "first"
                                              : "";
        assert_string_equal(found.text, wanted);
        assert_int_equal(found.durable_through, 0);
        assert_int_equal(found.offset, bytes >= END     ? END
                                       : bytes >= THREE ? THREE
                                       : bytes >= TWO   ? TWO
                                                        : ONE);
    }
    close_place(&at);
}

/* C05: a tail of zeros is no tail at all. */
static void a_tail_of_zeros_is_clean(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    for (uint64_t more = 1; more <= 1 << 21; more *= 2) {
        sim_file_truncate(at.world, path, END + more);
        seen found = look(&at);
        assert_string_equal(found.text, "first the second third");
        assert_true(found.clean);
    }
    uint8_t bit = 1;
    sim_file_write(at.world, path, END + (1 << 21) - 1, &bit, 1);
    assert_false(look(&at).clean);
    assert_string_equal(look(&at).text, "first the second third");
    close_place(&at);
}

/* C08: rubbish behind the end that looks like a header: with a huge length, with a length that the
** file does not have, with an unknown kind. Nothing is believed, and no memory is asked for. */
static void rubbish_behind_the_end_is_dropped(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {UINT32_MAX, 1u << 31, RECORD_MAX + 1, RECORD_MAX, 64, 0};
    place at = place_of_three(1, 2);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (uint8_t kind = 0; kind < 7; kind++) {
            uint8_t rubbish[RECORD];
            memset(rubbish, 0x5a, sizeof rubbish);
            mw_put_u32(rubbish + 40, lengths[i]);
            rubbish[44] = kind;
            rubbish[45] = 3;
            mw_put_u16(rubbish + 46, 0);
            sim_file_truncate(at.world, path, END);
            sim_file_write(at.world, path, END, rubbish, sizeof rubbish);
            seen found = look(&at);
            assert_string_equal(found.text, "first the second third");
            assert_int_equal(found.offset, END);
            assert_int_equal(found.durable_through, 0);
            assert_false(found.clean);
        }
    }
    assert_true(sim_memory_peak(at.world) < 4 << 20);
    close_place(&at);
}

/* C08: a record whose middle sector is zero. */
static void a_record_with_a_hole_is_dropped(void **state)
{
    (void)state;
    place at = open_place();
    char words[2000];
    uint8_t zeros[512] = {0};
    memset(words, 'w', sizeof words);
    words[sizeof words - 1] = 0;
    put(&at, 1, 0, "first");
    put(&at, 2, 1, words);
    close_segment(&at);
    sim_file_write(at.world, path, 1024, zeros, sizeof zeros);
    seen found = look(&at);
    assert_string_equal(found.text, "first");
    assert_int_equal(found.durable_through, 0);
    assert_false(found.clean);
    close_place(&at);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* L19: each bit of a record in the middle. What follows says that it was durable: that is
** damage. */
static void a_damaged_record_below_a_durable_through_is_told(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    for (uint64_t bit = TWO * 8; bit < THREE * 8; bit++) {
        sim_file_flip(at.world, path, bit);
        seen found = look(&at);
        assert_string_equal(found.text, "first");
        assert_int_equal(found.offset, TWO);
        assert_int_equal(found.durable_through, 2);
        sim_file_flip(at.world, path, bit);
    }
    assert_string_equal(look(&at).text, "first the second third");
    close_place(&at);
}

/* The same where nobody could know that it was durable: the tail of a torn group, to be cut. */
static void a_damaged_record_above_all_durable_throughs_is_a_tail(void **state)
{
    (void)state;
    place at = place_of_three(1, 1);
    for (uint64_t bit = TWO * 8; bit < THREE * 8; bit++) {
        sim_file_flip(at.world, path, bit);
        seen found = look(&at);
        assert_string_equal(found.text, "first");
        assert_int_equal(found.durable_through, 1);
        sim_file_flip(at.world, path, bit);
    }
    close_place(&at);
}

/* A record that is whole behind a bad one is found wherever it starts, and says what it knows. */
static void the_probe_passes_over_any_rubbish(void **state)
{
    (void)state;
    place at = open_place();
    char words[4000];
    memset(words, 0xff, sizeof words);
    words[sizeof words - 1] = 0;
    put(&at, 1, 0, words);
    put(&at, 2, 1, "second");
    close_segment(&at);
    sim_file_flip(at.world, path, 8 * (HEADER + 2000));
    seen found = look(&at);
    assert_string_equal(found.text, "");
    assert_int_equal(found.durable_through, 1);
    close_place(&at);
}

/* ---- stale and moved records ----------------------------------------------------------------- */

/* C04: R1 is lost, R2 behind it survived; R3 of R1's length is written over R1. R2 stays dead. */
static void a_record_behind_a_lost_one_stays_dead(void **state)
{
    (void)state;
    place at = place_of_three(0, 0);
    uint64_t chain = chain_of_header(&at);
    mw_log_header header = header_of(1, 1);
    mw_log_segment **segment = &at.segment;
    assert_int_equal(mw_log_segment_resume(at.env, at.dir, &header, ONE, chain, segment, NULL),
                     MW_OK);
    put(&at, 1, 0, "FIRST");
    seen found = look(&at);
    assert_string_equal(found.text, "FIRST");
    assert_int_equal(found.durable_through, 0); /* and it accuses nobody */
    close_place(&at);
}

/* The same bytes under another number, epoch or store, or at another place of the same segment. */
static void a_moved_record_never_counts(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    uint8_t second[64];
    assert_int_equal(sim_file_read(at.world, path, TWO, second, sizeof second), sizeof second);
    sim_file_write(at.world, path, END, second, sizeof second);
    assert_string_equal(look(&at).text, "first the second third");

    mw_log_header header = header_of(2, 1);
    assert_int_equal(mw_log_segment_create(at.env, at.dir, &header, &at.segment, NULL), MW_OK);
    close_segment(&at);
    uint8_t first[56];
    assert_int_equal(sim_file_read(at.world, path, ONE, first, sizeof first), sizeof first);
    static const char second_path[] = "d/wal-0000000000000003-0000000000000002";
    sim_file_write(at.world, second_path, HEADER, first, sizeof first);
    mw_log_reader *reader;
    bool whole;
    mw_log_entry entry;
    mw_log_found what;
    uint64_t durable_through;
    assert_int_equal(mw_log_reader_open(at.env, at.dir, &store_id, 3, 2, &reader, &whole, NULL),
                     MW_OK);
    assert_int_equal(mw_log_reader_next(reader, &entry, &what, NULL), MW_OK);
    assert_int_equal(what, MW_LOG_END);
    assert_int_equal(mw_log_reader_probe(reader, &durable_through, &whole, NULL), MW_OK);
    assert_int_equal(durable_through, 0);
    mw_log_reader_close(reader);
    close_place(&at);
}

/* ---- records with a right checksum and a wrong meaning --------------------------------------- */

/* What stands behind the first entry, drawn record by record; the reader must end before it. */
static void expect_dropped(const drawn *records, size_t count)
{
    place at = place_of_three(1, 2);
    uint8_t bytes[1024];
    uint64_t chain;
    size_t used = 0;
    assert_int_equal(sim_file_read(at.world, path, ONE, bytes, 8), 8);
    chain = mw_get_u64(bytes);
    for (size_t i = 0; i < count; i++) {
        drawn next = records[i];
        next.previous = next.previous ? next.previous : chain;
        used += draw(&next, bytes + used, &chain);
    }
    sim_file_truncate(at.world, path, TWO);
    sim_file_write(at.world, path, TWO, bytes, used);
    assert_string_equal(look(&at).text, "first");
    close_place(&at);
}

static void chains_that_break_a_rule_never_count(void **state)
{
    (void)state;
    static const drawn no_last[] = {{0, 2, 0, 3, 1, 1, "abc"}};
    static const drawn no_first[] = {{0, 2, 0, 3, 1, 2, "abc"}};
    static const drawn first_twice[] = {{0, 2, 0, 3, 1, 1, "abc"}, {0, 2, 0, 3, 1, 3, "abc"}};
    static const drawn kind_changes[] = {{0, 2, 0, 3, 1, 1, "abc"}, {0, 2, 0, 3, 2, 2, "abc"}};
    static const drawn position_moves[] = {{0, 2, 0, 3, 1, 1, "abc"}, {0, 3, 0, 3, 1, 2, "abc"}};
    static const drawn gap[] = {{0, 3, 0, 3, 1, 3, "abc"}};
    static const drawn again[] = {{0, 1, 0, 3, 1, 3, "abc"}};
    static const drawn unchained[] = {{99, 2, 0, 3, 1, 3, "abc"}};
    static const drawn unknown_kind[] = {{0, 2, 0, 3, 6, 3, "abc"}};
    static const drawn unknown_part[] = {{0, 2, 0, 3, 1, 7, "abc"}};
    expect_dropped(no_last, 1);
    expect_dropped(no_first, 1);
    expect_dropped(first_twice, 2);
    expect_dropped(kind_changes, 2);
    expect_dropped(position_moves, 2);
    expect_dropped(gap, 1);
    expect_dropped(again, 1);
    expect_dropped(unchained, 1);
    expect_dropped(unknown_kind, 1);
    expect_dropped(unknown_part, 1);
}

/* ---- headers --------------------------------------------------------------------------------- */

static mw_rc try_open(place *at, const mw_store_id *store, uint64_t epoch, uint64_t number,
                      bool *whole, mw_err *err)
{
    mw_log_reader *reader = NULL;
    mw_rc rc = mw_log_reader_open(at->env, at->dir, store, epoch, number, &reader, whole, err);
    assert_true((reader != NULL) == (rc == MW_OK && *whole));
    mw_log_reader_close(reader);
    return rc;
}

/* A crash while a segment is made leaves at most a header of which anything is missing or wrong. */
static void half_a_header_says_that_there_is_no_record(void **state)
{
    (void)state;
    bool whole = true;
    for (uint64_t bytes = 0; bytes < HEADER; bytes++) {
        place at = open_place();
        close_segment(&at);
        sim_file_truncate(at.world, path, bytes);
        assert_int_equal(try_open(&at, &store_id, 3, 1, &whole, NULL), MW_OK);
        assert_false(whole);
        close_place(&at);
    }
    place at = open_place();
    close_segment(&at);
    for (uint64_t bit = 0; bit < HEADER * 8; bit++) {
        sim_file_flip(at.world, path, bit);
        assert_int_equal(try_open(&at, &store_id, 3, 1, &whole, NULL), MW_OK);
        assert_false(whole);
        sim_file_flip(at.world, path, bit);
    }
    close_place(&at);
}

/* I9: the header is durable before anything is written behind it. So a bad one with something
** behind it is damage, never an empty segment. */
static void a_damaged_header_above_records_is_corrupt(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    bool whole;
    for (uint64_t bit = 0; bit < HEADER * 8; bit++) {
        mw_err err = {0};
        sim_file_flip(at.world, path, bit);
        assert_int_equal(try_open(&at, &store_id, 3, 1, &whole, &err), MW_CORRUPT);
        assert_non_null(strstr(err.text, path + 2));
        sim_file_flip(at.world, path, bit);
    }
    close_place(&at);
}

/* C32: a segment of another store, or one of this store under another's name. */
static void a_swapped_segment_is_corrupt(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    uint8_t file[END];
    bool whole;
    mw_err err = {0};
    assert_int_equal(sim_file_read(at.world, path, 0, file, END), END);
    sim_file_put(at.world, "d/wal-0000000000000003-0000000000000002", file, END);
    sim_file_put(at.world, "d/wal-0000000000000004-0000000000000001", file, END);
    assert_int_equal(try_open(&at, &store_id, 3, 2, &whole, &err), MW_CORRUPT);
    assert_non_null(strstr(err.text, "wal-0000000000000003-0000000000000002"));
    assert_int_equal(try_open(&at, &store_id, 4, 1, &whole, NULL), MW_CORRUPT);
    assert_int_equal(try_open(&at, &other_id, 3, 1, &whole, NULL), MW_CORRUPT);
    assert_int_equal(try_open(&at, &store_id, 3, 1, &whole, NULL), MW_OK);
    assert_true(whole);
    close_place(&at);
}

/* A header with a right checksum and the field at offset set to value. */
static mw_rc open_with_field(size_t offset, uint64_t value, mw_err *err)
{
    place at = open_place();
    uint8_t header[HEADER];
    bool whole;
    close_segment(&at);
    assert_int_equal(sim_file_read(at.world, path, 0, header, HEADER), HEADER);
    if (offset == 8) {
        mw_put_u32(header + 8, (uint32_t)value);
    } else {
        mw_put_u64(header + offset, value);
    }
    mw_put_u64(header + 88, mw_hash(header, 88, mw_hash_seed(&store_id, 3, 1)));
    sim_file_put(at.world, path, header, HEADER);
    mw_rc rc = try_open(&at, &store_id, 3, 1, &whole, err);
    close_place(&at);
    return rc;
}

static void a_header_that_breaks_a_rule_is_refused(void **state)
{
    (void)state;
    mw_err err = {0};
    assert_int_equal(open_with_field(8, 2, NULL), MW_OK);
    assert_int_equal(open_with_field(8, 3, NULL), MW_OK);
    assert_int_equal(open_with_field(8, 1, NULL), MW_UNSUPPORTED);
    assert_int_equal(open_with_field(8, 4, &err), MW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "log format 4, this release reads 2 to 3"));
    assert_int_equal(open_with_field(48, 0, NULL), MW_CORRUPT); /* generation      */
    assert_int_equal(open_with_field(56, 0, NULL), MW_CORRUPT); /* first position  */
    assert_int_equal(open_with_field(64, 0, NULL), MW_CORRUPT); /* generation start */
    assert_int_equal(open_with_field(64, 2, NULL), MW_CORRUPT); /* above the first position */
}

static void a_missing_segment_is_missing(void **state)
{
    (void)state;
    place at = open_folder();
    bool whole;
    mw_err err = {0};
    assert_int_equal(try_open(&at, &store_id, 3, 1, &whole, &err), MW_MISSING);
    assert_non_null(strstr(err.text, path + 2));
    close_place(&at);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void creation_is_exclusive_and_durable(void **state)
{
    (void)state;
    place at = place_of_three(1, 2);
    mw_log_header header = header_of(1, 1);
    mw_log_segment *second = NULL;
    assert_int_equal(mw_log_segment_create(at.env, at.dir, &header, &second, NULL), MW_EXISTS);
    assert_string_equal(look(&at).text,
                        "first the second third"); /* the other's file is untouched */
    close_place(&at);

    at = open_place();
    assert_int_equal(sim_disk_count(at.world, 100), 1); /* I15: header and name cannot be lost */
    close_place(&at);
}

static void a_creation_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const sim_op ops[] = {SIM_OPEN, SIM_WRITE, SIM_FILE_SYNC, SIM_DIR_SYNC};
    static const int errors[] = {EIO, ENOSPC};
    mw_log_header header = header_of(1, 1);
    for (size_t i = 0; i < 2 * sizeof ops / sizeof *ops; i++) {
        place at = open_folder();
        mw_log_segment *segment = NULL;
        int sys = errors[i % 2];
        sim_fail(at.world, ops[i / 2], 1, sys, false);
        mw_rc rc = mw_log_segment_create(at.env, at.dir, &header, &segment, NULL);
        assert_int_equal(rc, sys == EIO ? MW_IO : MW_FULL);
        assert_null(segment);
        assert_false(sim_file_exists(at.world, path));
        assert_int_equal(mw_log_segment_create(at.env, at.dir, &header, &at.segment, NULL), MW_OK);
        close_place(&at);
    }
}

/* A full disk shows when room is asked for, and nothing has changed then. */
static void a_full_disk_shows_before_anything_is_written(void **state)
{
    (void)state;
    place at = open_place();
    put(&at, 1, 0, "first");
    int64_t bytes = sim_file_size(at.world, path);
    sim_fail_named(at.world, SIM_ALLOCATE, "wal-", 1, ENOSPC, false);
    assert_int_equal(mw_log_segment_reserve(at.segment, 5 << 20, NULL), MW_FULL);
    assert_int_equal(sim_file_size(at.world, path), bytes);
    put(&at, 2, 1, "second");
    assert_int_equal(mw_log_segment_reserve(at.segment, 5 << 20, NULL), MW_OK);
    assert_true(sim_file_size(at.world, path) >= bytes + (4 << 20));
    assert_string_equal(look(&at).text, "first second");
    close_place(&at);
}

/* Room is asked for in large steps: most entries cost no call for it. */
static void room_grows_in_large_steps(void **state)
{
    (void)state;
    place at = open_place();
    uint64_t before = sim_calls(at.world, SIM_ALLOCATE);
    for (uint64_t position = 1; position <= 1000; position++)
        put(&at, position, position - 1, "words");
    assert_int_equal(sim_calls(at.world, SIM_ALLOCATE) - before, 1);
    close_place(&at);
}

static void a_group_is_one_write(void **state)
{
    (void)state;
    place at = open_place();
    uint64_t writes = sim_calls(at.world, SIM_WRITE);
    for (uint64_t position = 1; position <= 8; position++) {
        mw_log_entry entry = entry_of(position, 0, "x");
        assert_int_equal(mw_log_segment_stage(at.segment, &entry, NULL), MW_OK);
    }
    assert_string_equal(look(&at).text, ""); /* staged is not written */
    assert_int_equal(mw_log_segment_write(at.segment, NULL), MW_OK);
    assert_int_equal(sim_calls(at.world, SIM_WRITE) - writes, 1);
    assert_string_equal(look(&at).text, "x x x x x x x x");
    close_place(&at);
}

/* C12: half of it, then an interrupt, then the rest. */
static void short_and_interrupted_writes_are_finished(void **state)
{
    (void)state;
    place at = open_place();
    sim_fail(at.world, SIM_WRITE, 1, SIM_SHORT, false);
    sim_fail(at.world, SIM_WRITE, 2, EINTR, false);
    put(&at, 1, 0, "first");
    assert_string_equal(look(&at).text, "first");
    close_place(&at);
}

static void a_failed_write_or_sync_says_which_file(void **state)
{
    (void)state;
    place at = open_place();
    mw_err err = {0};
    mw_log_entry entry = entry_of(1, 0, "first");
    assert_int_equal(mw_log_segment_stage(at.segment, &entry, NULL), MW_OK);
    sim_fail(at.world, SIM_WRITE, 1, EIO, false);
    assert_int_equal(mw_log_segment_write(at.segment, &err), MW_IO);
    assert_non_null(strstr(err.text, path + 2));
    mw_err second = {0};
    sim_fail(at.world, SIM_FILE_SYNC, 1, EIO, false);
    assert_int_equal(mw_log_segment_sync(at.segment, &second), MW_IO);
    assert_non_null(strstr(second.text, path + 2));
    close_place(&at);
}

/* ---- trouble while reading ------------------------------------------------------------------- */

/* An error is an error, never the end of the log. */
static void a_failed_read_is_not_the_end(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 4; n++) {
        place at = place_of_three(1, 2);
        mw_log_entry entry;
        mw_log_found found = MW_LOG_ENTRY;
        mw_log_reader *reader = NULL;
        bool whole;
        bool clean;
        uint64_t durable_through;
        sim_fail_named(at.world, SIM_ANY_CALL, "wal-", n, EIO, false);
        mw_rc rc = mw_log_reader_open(at.env, at.dir, &store_id, 3, 1, &reader, &whole, NULL);
        while (rc == MW_OK && found == MW_LOG_ENTRY)
            rc = mw_log_reader_next(reader, &entry, &found, NULL);
        if (rc == MW_OK) rc = mw_log_reader_probe(reader, &durable_through, &clean, NULL);
        assert_int_equal(rc, MW_IO);
        mw_log_reader_close(reader);
        close_place(&at);
    }
}

static void reading_without_memory_fails_and_can_be_repeated(void **state)
{
    (void)state;
    place at = open_place();
    uint8_t *bytes = calloc(1, 600000);
    mw_log_entry big = {
        .position = 1, .epoch = 3, .kind = MW_LOG_COMMIT, .payload = mw_slice_of(bytes, 600000)};
    put_entry(&at, &big);
    mw_rc rc = MW_NOMEM;
    uint64_t n = 1;
    for (; rc == MW_NOMEM; n++) {
        mw_log_reader *reader = NULL;
        mw_log_entry entry;
        mw_log_found found;
        bool whole;
        sim_fail(at.world, SIM_ALLOC, n, ENOMEM, false);
        rc = mw_log_reader_open(at.env, at.dir, &store_id, 3, 1, &reader, &whole, NULL);
        if (rc == MW_OK) rc = mw_log_reader_next(reader, &entry, &found, NULL);
        sim_fail_clear(at.world);
        if (reader && rc == MW_NOMEM) {
            assert_int_equal(mw_log_reader_next(reader, &entry, &found, NULL), MW_OK);
            assert_int_equal(entry.payload.size, 600000);
        }
        mw_log_reader_close(reader);
    }
    assert_int_equal(rc, MW_OK);
    assert_true(n > 4);
    free(bytes);
    close_place(&at);
}

/* I10: what has a position needs no memory any more: all of it was there with the segment. */
static void only_opening_a_segment_needs_memory(void **state)
{
    (void)state;
    static uint8_t large[1 << 20];
    place at = open_place();
    mw_log_header header = header_of(2, 1);
    mw_log_segment *second = NULL;
    mw_log_entry entry = entry_of(1, 0, "first");
    sim_fail(at.world, SIM_ALLOC, 1, ENOMEM, false);
    assert_int_equal(mw_log_segment_create(at.env, at.dir, &header, &second, NULL), MW_NOMEM);
    sim_fail(at.world, SIM_ALLOC, 1, ENOMEM, false);
    assert_int_equal(mw_log_segment_resume(at.env, at.dir, &header, ONE, 0, &second, NULL),
                     MW_NOMEM);
    for (uint64_t n = 2; second == NULL; n++) {
        sim_fail_clear(at.world);
        sim_fail(at.world, SIM_ALLOC, n, ENOMEM, false);
        mw_rc rc = mw_log_segment_create(at.env, at.dir, &header, &second, NULL);
        assert_true(rc == MW_NOMEM || rc == MW_OK);
    }
    mw_log_segment_close(second);
    sim_fail_clear(at.world);
    sim_fail(at.world, SIM_ALLOC, 1, ENOMEM, true);
    entry.payload = mw_slice_of(large, sizeof large);
    assert_int_equal(mw_log_segment_reserve(at.segment, mw_log_entry_bytes(sizeof large), NULL),
                     MW_OK);
    assert_int_equal(mw_log_segment_stage(at.segment, &entry, NULL), MW_OK);
    assert_int_equal(mw_log_segment_write(at.segment, NULL), MW_OK);
    assert_int_equal(mw_log_segment_sync(at.segment, NULL), MW_OK);
    sim_fail_clear(at.world);
    close_place(&at);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static mw_buf rows_payload(const mw_env *env)
{
    static const mw_log_op ops[] = {{false, {NULL, 0}, {NULL, 0}},
                                    {false, {(const uint8_t *)"a", 1}, {(const uint8_t *)"row", 3}},
                                    {true, {(const uint8_t *)"bb", 2}, {NULL, 0}}};
    mw_buf buf;
    mw_buf_init(&buf, env);
    mw_log_rows_open(&buf);
    for (int i = 0; i < 3; i++) mw_log_rows_add(&buf, &ops[i]);
    mw_log_rows_close(&buf, 41, 3, -1);
    assert_false(buf.failed);
    return buf;
}

static mw_rc read_rows(mw_slice payload, mw_err *err)
{
    mw_log_entry entry = {.position = 5, .payload = payload, .offset = 96};
    mw_log_rows rows;
    mw_log_op op;
    mw_rc rc = mw_log_rows_read(&entry, "wal-x", &rows, err);
    while (rc == MW_OK && rows.op_count > 0)
        rc = mw_log_rows_next(&rows, &entry, "wal-x", &op, err);
    return rc;
}

static void rows_come_back_as_they_were_put_in(void **state)
{
    (void)state;
    mw_buf buf = rows_payload(mw_env_posix());
    mw_log_entry entry = {.position = 5, .payload = mw_buf_slice(&buf), .offset = 96};
    mw_log_rows rows;
    mw_log_op op;
    assert_int_equal(mw_log_rows_read(&entry, "wal-x", &rows, NULL), MW_OK);
    assert_int_equal(rows.sequence_first, 41);
    assert_int_equal(rows.op_count, 3);
    assert_int_equal(rows.count_delta, -1);
    assert_int_equal(mw_log_rows_next(&rows, &entry, "wal-x", &op, NULL), MW_OK);
    assert_int_equal(op.key.size + op.row.size, 0);
    assert_int_equal(mw_log_rows_next(&rows, &entry, "wal-x", &op, NULL), MW_OK);
    assert_false(op.tombstone);
    assert_true(mw_slice_equal(op.key, mw_slice_of("a", 1)));
    assert_true(mw_slice_equal(op.row, mw_slice_of("row", 3)));
    assert_int_equal(mw_log_rows_next(&rows, &entry, "wal-x", &op, NULL), MW_OK);
    assert_true(op.tombstone);
    assert_true(mw_slice_equal(op.key, mw_slice_of("bb", 2)));
    assert_int_equal(rows.op_count, 0);
    mw_buf_free(&buf);
}

/* A payload that is cut, too long or full of nonsense is damage that names file and offset. */
static void damaged_rows_are_corrupt(void **state)
{
    (void)state;
    mw_err err = {0};
    mw_buf buf = rows_payload(mw_env_posix());
    assert_int_equal(read_rows(mw_buf_slice(&buf), NULL), MW_OK);
    for (size_t bytes = 0; bytes < buf.size; bytes++) {
        assert_int_equal(read_rows(mw_slice_of(buf.data, bytes), NULL), MW_CORRUPT);
    }
    mw_buf_u8(&buf, 0);
    assert_int_equal(read_rows(mw_buf_slice(&buf), &err), MW_CORRUPT);
    assert_non_null(strstr(err.text, "wal-x"));
    buf.size--;
    /* {offset of the field, a value that cannot be} */
    static const uint64_t wrong[][2] = {{0, 0},  {0, 2},
                                        {0, 4},  {0, UINT64_MAX},
                                        {8, 0},  {8, UINT64_MAX - 2},
                                        {16, 4}, {16, (uint64_t)-4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t *field = buf.data + wrong[i][0];
        uint64_t right = mw_get_u64(field);
        mw_put_u64(field, wrong[i][1]);
        assert_int_equal(read_rows(mw_buf_slice(&buf), NULL), MW_CORRUPT);
        mw_put_u64(field, right);
    }
    uint8_t *key = memchr(buf.data, 'a', buf.size);
    *key = 'c'; /* above the next one */
    assert_int_equal(read_rows(mw_buf_slice(&buf), &err), MW_CORRUPT);
    *key = 'a';
    assert_int_equal(read_rows(mw_buf_slice(&buf), NULL), MW_OK);
    buf.data[MW_LOG_ROWS_HEADER_BYTES] = 3; /* neither put nor delete */
    assert_int_equal(read_rows(mw_buf_slice(&buf), NULL), MW_CORRUPT);
    buf.data[MW_LOG_ROWS_HEADER_BYTES] = 1;
    buf.data[MW_LOG_ROWS_HEADER_BYTES + 1] = 0x7f; /* C29: a key longer than all that is left */
    assert_int_equal(read_rows(mw_buf_slice(&buf), NULL), MW_CORRUPT);
    mw_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_epoch_and_number_in_hex),
        cmocka_unit_test(bytes_are_those_of_the_format),
        cmocka_unit_test(entries_come_back_as_they_were_written),
        cmocka_unit_test(half_an_entry_never_counts),
        cmocka_unit_test(a_reader_goes_on_when_more_was_written),
        cmocka_unit_test(a_resumed_segment_goes_on_behind_its_last_entry),
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut),
        cmocka_unit_test(a_tail_of_zeros_is_clean),
        cmocka_unit_test(rubbish_behind_the_end_is_dropped),
        cmocka_unit_test(a_record_with_a_hole_is_dropped),
        cmocka_unit_test(a_damaged_record_below_a_durable_through_is_told),
        cmocka_unit_test(a_damaged_record_above_all_durable_throughs_is_a_tail),
        cmocka_unit_test(the_probe_passes_over_any_rubbish),
        cmocka_unit_test(a_record_behind_a_lost_one_stays_dead),
        cmocka_unit_test(a_moved_record_never_counts),
        cmocka_unit_test(chains_that_break_a_rule_never_count),
        cmocka_unit_test(half_a_header_says_that_there_is_no_record),
        cmocka_unit_test(a_damaged_header_above_records_is_corrupt),
        cmocka_unit_test(a_swapped_segment_is_corrupt),
        cmocka_unit_test(a_header_that_breaks_a_rule_is_refused),
        cmocka_unit_test(a_missing_segment_is_missing),
        cmocka_unit_test(creation_is_exclusive_and_durable),
        cmocka_unit_test(a_creation_that_fails_leaves_nothing),
        cmocka_unit_test(a_full_disk_shows_before_anything_is_written),
        cmocka_unit_test(room_grows_in_large_steps),
        cmocka_unit_test(a_group_is_one_write),
        cmocka_unit_test(short_and_interrupted_writes_are_finished),
        cmocka_unit_test(a_failed_write_or_sync_says_which_file),
        cmocka_unit_test(a_failed_read_is_not_the_end),
        cmocka_unit_test(reading_without_memory_fails_and_can_be_repeated),
        cmocka_unit_test(only_opening_a_segment_needs_memory),
        cmocka_unit_test(rows_come_back_as_they_were_put_in),
        cmocka_unit_test(damaged_rows_are_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
