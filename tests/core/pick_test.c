/* pick_test.c: what is merged next, as a table: little stores in words, and the job that is picked.
**
** A store is a list of files in the manifest's order, "level:min-max", keys being one letter.
** Behind it "*n": of n bytes instead of 100; "!": with a tombstone; "=": of the same generation as
** the file before. A job is "kind above>below generations": "merge 0:b-k,0:a-c>1:a-c,1:d-z 2". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pick.h"

enum { FILES_MAX = 80, WORDS_BYTES = 2000 };

typedef struct little {
    mw_manifest manifest;
    mw_manifest_file files[FILES_MAX];
    uint8_t keys[FILES_MAX][2];
} little;

/* Reads one file of a store; returns what is behind it. */
static const char *read_file(little *s, const char *at)
{
    mw_manifest *m = &s->manifest;
    mw_manifest_file *file = &s->files[m->file_count];
    uint8_t *keys = s->keys[m->file_count];
    assert_true(m->file_count < FILES_MAX);
    assert_true(at[1] == ':' && at[3] == '-');
    keys[0] = (uint8_t)at[2];
    keys[1] = (uint8_t)at[4];
    *file = (mw_manifest_file){.epoch = 1, .number = ++m->table_number};
    file->level = (uint32_t)(at[0] - '0');
    file->keys.min = mw_slice_of(&keys[0], 1);
    file->keys.max = mw_slice_of(&keys[1], 1);
    file->props.rows = 10;
    file->props.bytes = 100;
    for (at += 5; *at && *at != ' '; at++) {
        if (*at == '!') file->props.tombstones = 1;
        if (*at == '*') file->props.bytes = strtoul(at + 1, NULL, 10);
    }
    if (file->level == 0) file->generation = at[-1] == '=' ? m->generation : ++m->generation;
    m->bytes_flushed = 100 * m->generation;
    m->count += 10;
    m->file_count++;
    return at;
}

static void read_store(little *s, const char *words)
{
    memset(s, 0, sizeof *s);
    s->manifest.files = s->files;
    while (*words) {
        words = *words == ' ' ? words + 1 : read_file(s, words);
    }
}

static mw_pick_limits usual_limits(void)
{
    /* A batch is 4 generations of 100 bytes; files below 25 bytes are small. */
    return (mw_pick_limits){
        .merge_generations = 4, .memtable_bytes = 800, .file_bytes = 100, .below = UINT64_MAX};
}

static void print_run(const little *s, mw_file_run run, char *to)
{
    for (uint32_t i = run.first; i < run.first + run.count; i++) {
        const mw_manifest_file *file = &s->files[i];
        size_t length = strlen(to);
        snprintf(to + length, WORDS_BYTES - length, "%s%u:%c-%c", i > run.first ? "," : "",
                 file->level, file->keys.min.data[0], file->keys.max.data[0]);
    }
}

static const char *words_of(const little *s, const mw_pick *pick)
{
    static const char *const kinds[] = {"-", "merge ", "move ", "deepen "};
    static char words[WORDS_BYTES];
    snprintf(words, sizeof words, "%s", kinds[pick->kind]);
    if (pick->kind == MW_PICK_NOTHING) return words;
    print_run(s, pick->above, words);
    size_t length = strlen(words);
    snprintf(words + length, sizeof words - length, ">%u", pick->output);
    if (pick->below.count > 0) strcat(words, " ");
    print_run(s, pick->below, words);
    length = strlen(words);
    if (pick->generations > 0) {
        snprintf(words + length, sizeof words - length, " %u generations", pick->generations);
    }
    return words;
}

typedef struct pick_case {
    const char *store;
    const char *job;
} pick_case;

static void expect(size_t i, const little *s, const mw_pick *pick, const char *job)
{
    const char *found = words_of(s, pick);
    if (strcmp(found, job) != 0) fail_msg("case %zu: expected '%s', found '%s'", i, job, found);
}

/* ---- what is due ----------------------------------------------------------------------------- */

static const pick_case due_cases[] = {
    {"", "-"},
    {"1:a-z", "-"},
    {"0:a-z 0:a-z 0:a-z", "-"}, /* fewer than 4 wait */
    {"0:a-z*9 0:a-z 0:a-z 0:a-z", "merge 0:a-z,0:a-z,0:a-z,0:a-z>1 4 generations"},
    {"1:a-k 1:l-z 0:a-z 0:a-z 0:a-z 0:a-z",
     "merge 0:a-z,0:a-z,0:a-z,0:a-z>1 1:a-k,1:l-z 4 generations"},
    /* of the base only what overlaps */
    {"1:a-c 1:d-f 1:g-i 1:j-l 0:e-e 0:h-h 0:e-h 0:e-f",
     "merge 0:e-e,0:h-h,0:e-h,0:e-f>1 1:d-f,1:g-i 4 generations"},
    {"1:a-c 1:j-l 0:e-g 0:f-h 0:e-h 0:e-f", "move 0:e-g>1 1 generations"},
    {"1:a-c 1:j-l 0:e-g! 0:f-h 0:e-h 0:e-f", "merge 0:e-g,0:f-h,0:e-h,0:e-f>1 4 generations"},
    /* small neighbours come along */
    {"1:a-c*20 1:d-f 1:g-i*24 1:j-l*25 0:e-e 0:d-e 0:e-f 0:e-f",
     "merge 0:e-e,0:d-e,0:e-f,0:e-f>1 1:a-c,1:d-f,1:g-i 4 generations"},
    {"1:a-c*20 1:x-z*20 0:e-e*20 0:d-e*20 0:e-f*20 0:e-f*20",
     "merge 0:e-e,0:d-e,0:e-f,0:e-f>1 1:a-c,1:x-z 4 generations"},
    /* what nothing overlaps is moved */
    {"1:a-c 0:d-e 0:f-g 0:h-i 0:j-k", "move 0:d-e,0:f-g,0:h-i,0:j-k>1 4 generations"},
    {"0:j-k 0:h-i 0:f-g 0:d-e", "move 0:j-k,0:h-i,0:f-g,0:d-e>1 4 generations"},
    {"1:a-c 0:d-e 0:f-g 0:f-i 0:j-k", "move 0:d-e,0:f-g>1 2 generations"},
    {"1:a-c 0:d-e 0:c-g 0:h-i 0:j-k", "move 0:d-e>1 1 generations"},
    {"1:a-c 0:c-e 0:f-g 0:h-i 0:j-k", "merge 0:c-e,0:f-g,0:h-i,0:j-k>1 1:a-c 4 generations"},
    /* but for small ones, and tombstones have no place in the deepest level */
    {"0:d-e*24 0:f-g 0:h-i 0:j-k", "merge 0:d-e,0:f-g,0:h-i,0:j-k>1 4 generations"},
    {"0:d-e*25 0:f-g 0:h-i 0:j-k*20", "move 0:d-e,0:f-g,0:h-i>1 3 generations"},
    {"0:d-e! 0:f-g 0:h-i 0:j-k", "merge 0:d-e,0:f-g,0:h-i,0:j-k>1 4 generations"},
    {"0:d-e 0:f-g! 0:h-i 0:j-k", "move 0:d-e>1 1 generations"},
    {"2:a-b*3300 2:x-z*3300 0:d-e! 0:f-g 0:h-i 0:j-k",
     "move 0:d-e,0:f-g,0:h-i,0:j-k>1 4 generations"},
    /* files of one generation */
    {"0:a-b! 0:a-c= 0:b-d= 0:a-a=", "merge 0:a-b,0:a-c,0:b-d,0:a-a>1 1 generations"},
    {"0:a-b 0:c-d= 0:b-d= 0:a-a=", "move 0:a-b,0:c-d>1"}, /* its last file is not among them */
    /* a base of more than 8 batches gets a second level, first by name only */
    {"1:a-k*1600 1:l-z*1600 0:a-z 0:a-z 0:a-z 0:a-z",
     "merge 0:a-z,0:a-z,0:a-z,0:a-z>1 1:a-k,1:l-z 4 generations"},
    {"1:a-k*1600 1:l-z*2000 0:a-z 0:a-z 0:a-z 0:a-z", "deepen 1:a-k,1:l-z>2"},
    {"1:a-k*1600 1:l-z*2000 0:a-z 0:a-z 0:a-z", "-"},
    {"2:a-k*1600 2:l-z*2000 0:a-z 0:a-z 0:a-z 0:a-z", "move 0:a-z>1 1 generations"},
    {"2:a-z*27000 1:b-c*100 0:a-z 0:a-z 0:a-z 0:a-z", "deepen 2:a-z,1:b-c>2"},
    /* ... and one that has shrunk is used as a single one again */
    {"3:a-z*300 0:a-z 0:a-z 0:a-z 0:a-z", "merge 0:a-z,0:a-z,0:a-z,0:a-z>3 3:a-z 4 generations"},
    {"3:a-z*300 2:a-c 0:a-z 0:a-z 0:a-z 0:a-z",
     "merge 0:a-z,0:a-z,0:a-z,0:a-z>2 2:a-c 4 generations"},
    /* a level above its share, here 4 batches of 400, sends the file down that overlaps least */
    {"2:a-k*1800 2:l-z*1800 1:a-m*500 1:n-p*500 1:q-z*600", "-"},
    {"2:a-k*1800 2:l-z*1800 1:a-m*500 1:n-p*500 1:q-z*601", "merge 1:n-p,1:q-z>2 2:l-z"},
    {"2:a-c*200 2:d-k*1800 2:l-z*1800 1:a-b*600 1:n-p*600 1:q-z*500", "merge 1:a-b>2 2:a-c"},
    {"2:a-c*1800 2:h-z*1800 1:a-b*600 1:d-f*600 1:q-z*500", "move 1:d-f>2"},
    {"2:a-c*1800 2:h-z*1800 1:a-b*600 1:d-f*600! 1:q-z*500", "merge 1:d-f>2"},
    {"2:h-k*1800 2:l-z*1800 1:a-b*600! 1:h-i*600 1:q-z*500", "merge 1:a-b>2"},
    /* neighbours that overlap nothing more go along */
    {"2:a-k*1800 2:l-z*1800 1:a-b*500 1:c-d*600 1:e-f*501 1:g-n*1",
     "merge 1:a-b,1:c-d,1:e-f>2 2:a-k"},
    /* generations first, unless a level is in a worse state */
    {"2:a-k*1800 2:l-z*1800 1:a-m*601 1:n-p*500 1:q-z*500 0:a-z 0:a-z 0:a-z 0:a-z",
     "merge 0:a-z,0:a-z,0:a-z,0:a-z>1 1:a-m,1:n-p,1:q-z 4 generations"},
    {"2:a-k*1800 2:l-z*1800 1:a-m*1400 1:n-p*400 1:q-z*400 0:a-z 0:a-z 0:a-z 0:a-z",
     "merge 1:a-m,1:n-p,1:q-z>2 2:a-k,2:l-z"},
};

static void what_is_due_is_picked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof due_cases / sizeof *due_cases; i++) {
        little s;
        mw_levels levels;
        mw_pick_limits limits = usual_limits();
        read_store(&s, due_cases[i].store);
        mw_pick pick = mw_pick_due(&s.manifest, &limits);
        expect(i, &s, &pick, due_cases[i].job);
        mw_levels_of(&s.manifest, &levels);
        bool due = mw_pick_is_due(&s.manifest, &levels, &limits);
        if (due != (pick.kind != MW_PICK_NOTHING)) fail_msg("case %zu: due: %d", i, due);
    }
}

/* Ids that are written again make a merge due early; not one by one, and not where the obsolete
** versions are elsewhere. */
static void waste_makes_a_merge_due(void **state)
{
    (void)state;
    static const struct {
        const char *store;
        int64_t live;
        bool due;
    } cases[] = {
        {"1:a-z 0:a-z 0:a-z", 21, false}, {"1:a-z 0:a-z 0:a-z", 20, false},
        {"1:a-z 0:a-z 0:a-z", 19, true},  {"0:a-z 0:a-z", 1, true},
        {"0:a-z 0:a-z", 0, true},         {"2:a-z 1:a-z 0:a-z 0:a-z", 20, false},
        {"1:a-z 0:a-z", 10, true},        {"1:a-z", 1, false},
        {"2:a-z 1:a-b", 10, false},       {"2:a-z 1:a-b", 9, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        little s;
        mw_pick_limits limits = usual_limits();
        read_store(&s, cases[i].store);
        s.manifest.count = cases[i].live;
        bool due = mw_pick_due(&s.manifest, &limits).kind != MW_PICK_NOTHING;
        if (due != cases[i].due) fail_msg("case %zu: due: %d", i, due);
    }
    little s;
    mw_pick_limits limits = usual_limits();
    limits.merge_generations = 12; /* a quarter of them at least */
    read_store(&s, "1:a-z 0:a-z 0:a-z");
    s.manifest.count = 10;
    assert_int_equal(mw_pick_due(&s.manifest, &limits).kind, MW_PICK_NOTHING);
    limits = usual_limits(); /* and not for next to nothing */
    read_store(&s, "1:a-z*90 0:a-z*25 0:a-z*25");
    s.manifest.count = 10;
    assert_int_equal(mw_pick_due(&s.manifest, &limits).kind, MW_PICK_MERGE);
    s.files[2].props.bytes = 24;
    assert_int_equal(mw_pick_due(&s.manifest, &limits).kind, MW_PICK_NOTHING);
}

/* ---- generations that are asked for ---------------------------------------------------------- */

static void generations_are_picked_oldest_first(void **state)
{
    (void)state;
    static const struct {
        const char *store;
        uint32_t most;
        uint64_t below;
        const char *job;
    } cases[] = {
        {"", 0, UINT64_MAX, "-"},
        {"1:a-z", 0, UINT64_MAX, "-"},
        {"1:a-k*1600 1:l-z*2000", 0, UINT64_MAX, "-"}, /* no deeper for nothing */
        {"1:a-k*1600 1:l-z*2000 0:a-z", 0, UINT64_MAX, "deepen 1:a-k,1:l-z>2"},
        {"0:a-z", 0, UINT64_MAX, "move 0:a-z>1 1 generations"},
        {"0:a-z!", 0, UINT64_MAX, "merge 0:a-z>1 1 generations"},
        {"0:a-z*3", 0, UINT64_MAX, "move 0:a-z>1 1 generations"},
        {"1:a-c*20 0:d-z*4", 0, UINT64_MAX, "move 0:d-z>1 1 generations"}, /* too much for it */
        {"1:a-c*16 1:d-f*15 0:k-z*3", 0, UINT64_MAX, "move 0:k-z>1 1 generations"},
        {"1:a-c*16 1:d-f*12 0:k-z*3", 0, UINT64_MAX, "merge 0:k-z>1 1:a-c,1:d-f 1 generations"},
        {"1:a-c*3 0:d-z*3", 0, UINT64_MAX, "merge 0:d-z>1 1:a-c 1 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 0, UINT64_MAX,
         "merge 0:a-b,0:b-c,0:a-d>1 1:a-z 3 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 1, UINT64_MAX, "merge 0:a-b>1 1:a-z 1 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 2, UINT64_MAX, "merge 0:a-b,0:b-c>1 1:a-z 2 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 9, UINT64_MAX,
         "merge 0:a-b,0:b-c,0:a-d>1 1:a-z 3 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 0, 3, "merge 0:a-b,0:b-c>1 1:a-z 2 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 1, 3, "merge 0:a-b>1 1:a-z 1 generations"},
        {"1:a-z 0:a-b 0:b-c 0:a-d", 0, 1, "-"},
        {"1:a-z 0:a-b 0:b-c= 0:a-d", 1, UINT64_MAX, "merge 0:a-b,0:b-c>1 1:a-z 1 generations"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        little s;
        mw_pick_limits limits = usual_limits();
        limits.below = cases[i].below;
        read_store(&s, cases[i].store);
        mw_pick pick = mw_pick_generations(&s.manifest, &limits, cases[i].most);
        expect(i, &s, &pick, cases[i].job);
    }
}

/* L35: a backlog is folded in passes: no more sources at once than a merge has room for. */
static void a_backlog_is_folded_in_passes(void **state)
{
    (void)state;
    little s;
    char words[WORDS_BYTES] = "";
    for (int i = 0; i < 70; i++) strcat(words, "0:a-z! ");
    mw_pick_limits limits = usual_limits();
    read_store(&s, words);
    mw_pick pick = mw_pick_generations(&s.manifest, &limits, 0);
    assert_int_equal(pick.kind, MW_PICK_MERGE);
    assert_int_equal(pick.above.count, 32);
    assert_int_equal(pick.generations, 32);
    pick = mw_pick_due(&s.manifest, &limits);
    assert_int_equal(pick.above.count, 32);
}

/* ---- a compaction ---------------------------------------------------------------------------- */

static const pick_case compact_cases[] = {
    {"", "-"},
    {"1:a-z", "-"},
    {"3:a-k 3:l-z", "-"},
    {"1:a-c 1:d-z!", "merge 1:d-z>1"}, /* a level's last tombstones */
    {"1:a-z 0:a-b", "merge 0:a-b>1 1:a-z 1 generations"},
    {"2:a-z*5000 1:a-b 0:a-b", "merge 0:a-b>1 1:a-b 1 generations"}, /* no deeper for that */
    {"2:a-z 1:a-b", "merge 1:a-b>2 2:a-z"},
    {"3:a-z 1:a-b", "merge 1:a-b>3 3:a-z"},
    {"3:a-k 3:l-z 2:c-d 1:a-b*500 1:c-d*500", "merge 1:a-b,1:c-d>2 2:c-d"},
    {"3:a-k 1:l-m 1:n-o", "merge 1:l-m,1:n-o>3"},
    {"3:a-k 1:l-m", "move 1:l-m>3"},
    {"3:a-k 1:l-m!", "merge 1:l-m>3"},
    {"2:a-z 1:a-b*790 1:c-d*10 1:e-f", "merge 1:a-b,1:c-d>2 2:a-z"}, /* in bounded pieces */
};

static void a_compaction_ends_in_one_level_without_tombstones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof compact_cases / sizeof *compact_cases; i++) {
        little s;
        mw_pick_limits limits = usual_limits();
        read_store(&s, compact_cases[i].store);
        mw_pick pick = mw_pick_compact(&s.manifest, &limits);
        expect(i, &s, &pick, compact_cases[i].job);
    }
}

/* However large the store is, numbers do not wrap. */
static void the_largest_numbers_are_no_trouble(void **state)
{
    (void)state;
    little s;
    mw_pick_limits limits = {UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    read_store(&s, "1:a-c 0:d-e 0:f-g");
    s.files[0].props.bytes = UINT64_MAX;
    assert_int_equal(mw_pick_due(&s.manifest, &limits).kind, MW_PICK_NOTHING);
    limits = (mw_pick_limits){.below = UINT64_MAX};
    mw_pick pick = mw_pick_due(&s.manifest, &limits);
    assert_int_equal(pick.kind, MW_PICK_DEEPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_due_is_picked),
        cmocka_unit_test(waste_makes_a_merge_due),
        cmocka_unit_test(generations_are_picked_oldest_first),
        cmocka_unit_test(a_backlog_is_folded_in_passes),
        cmocka_unit_test(a_compaction_ends_in_one_level_without_tombstones),
        cmocka_unit_test(the_largest_numbers_are_no_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
