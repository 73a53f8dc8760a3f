/* table_layout_test.c: the blocks of a table file come back as they were put; sizes that do not fit
** are refused, right checksums or not; a bound that was cut stays a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "filter.h"
#include "hash.h"
#include "table_layout.h"
#include "table_rows.h"

static const uint32_t column_ids[] = {10, 300, 70000};
static const mw_schema schema = {.key = MW_KEY_TEXT, .column_count = 3, .column_ids = column_ids};
static const mw_table_options identity = {
    .store = {{1, 2, 3}}, .epoch = 3, .number = 9, .schema = &schema};

static uint64_t seed_of(const mw_table_options *options)
{
    return mw_hash_seed(&options->store, options->epoch, options->number);
}

static mw_slice text(const char *words) { return mw_slice_of(words, strlen(words)); }

/* ---- header -------------------------------------------------------------------------------- */

static mw_rc check_header(const mw_table_options *options, const uint8_t *header)
{
    mw_err err = {.rc = MW_OK};
    mw_table_frame frame = {.name = "table", .seed = seed_of(options)};
    mw_rc rc = mw_table_header_check(options, &frame, header, &err);
    if (rc) assert_non_null(strstr(err.text, "table"));
    assert_int_equal(err.rc, rc);
    return rc;
}

/* C32: a whole header of another file is told from a damaged one. */
static void a_header_is_that_of_one_file(void **state)
{
    (void)state;
    uint8_t header[MW_TABLE_HEADER_BYTES];
    mw_table_header_put(&identity, seed_of(&identity), header);
    assert_int_equal(check_header(&identity, header), MW_OK);
    for (int change = 0; change < 3; change++) {
        mw_table_options other = identity;
        if (change == 0) other.number++;
        if (change == 1) other.epoch++;
        if (change == 2) other.store.bytes[15]++;
        assert_int_equal(check_header(&other, header), MW_MISMATCH);
    }
    for (size_t bit = 0; bit < sizeof header * 8; bit++) {
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(check_header(&identity, header), MW_CORRUPT);
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* Puts a number in and makes the checksum right again. */
static mw_rc check_header_with(uint32_t at, uint32_t number)
{
    uint8_t header[MW_TABLE_HEADER_BYTES];
    mw_table_header_put(&identity, seed_of(&identity), header);
    mw_put_u32(header + at, number);
    mw_put_u64(header + MW_TABLE_HEADER_CHECKSUM,
               mw_hash(header, MW_TABLE_HEADER_CHECKSUM, seed_of(&identity)));
    return check_header(&identity, header);
}

static void a_newer_format_is_unsupported(void **state)
{
    (void)state;
    assert_int_equal(check_header_with(MW_TABLE_HEADER_VERSION, MW_TABLE_FORMAT_VERSION), MW_OK);
    assert_int_equal(check_header_with(MW_TABLE_HEADER_VERSION, MW_TABLE_FORMAT_VERSION + 1),
                     MW_UNSUPPORTED);
    assert_int_equal(check_header_with(MW_TABLE_HEADER_ZERO, 1), MW_CORRUPT);
}

/* ---- footer -------------------------------------------------------------------------------- */

/* A file of 100 ids in two groups: bytes [56, 1000) are groups. */
static mw_table_frame make_frame(void)
{
    mw_table_frame frame = {.name = "table", .seed = seed_of(&identity), .group_count = 2};
    frame.props =
        (mw_table_props){.rows = 90, .tombstones = 10, .sequence_min = 5, .sequence_max = 1005};
    frame.groups_end = 1000;
    frame.dictionary_count = 2;
    frame.dictionaries[0] = (mw_table_dictionary){1, 5000, {1000, 300, 21}};
    frame.dictionaries[1] = (mw_table_dictionary){3, 700, {1300, 700, 22}};
    frame.filter = (mw_block){2000, mw_filter_bytes(100), 77};
    frame.index = (mw_block){2000 + frame.filter.bytes, 60, 88};
    frame.properties = (mw_block){frame.index.offset + 60, 95, 99};
    frame.props.bytes = frame.properties.offset + 95 + MW_TABLE_FOOTER_BYTES;
    return frame;
}

static mw_rc get_footer(mw_table_frame *found, const uint8_t *footer, uint64_t file_bytes)
{
    mw_err err = {.rc = MW_OK};
    *found = (mw_table_frame){.name = "table", .seed = seed_of(&identity)};
    mw_rc rc = mw_table_footer_get(found, footer, file_bytes, &err);
    assert_int_equal(err.rc, rc);
    return rc;
}

static void a_footer_comes_back(void **state)
{
    (void)state;
    uint8_t footer[MW_TABLE_FOOTER_BYTES];
    mw_table_frame frame = make_frame(), found;
    mw_table_footer_put(&frame, footer);
    assert_int_equal(get_footer(&found, footer, frame.props.bytes), MW_OK);
    assert_true(found.props.bytes == frame.props.bytes);
    assert_true(found.props.checksum == frame.props.checksum && frame.props.checksum != 0);
    assert_memory_equal(&found.properties, &frame.properties, sizeof found.properties);
    assert_int_equal(get_footer(&found, footer, frame.props.bytes - 1), MW_CORRUPT);
    assert_int_equal(get_footer(&found, footer, frame.props.bytes + 1), MW_CORRUPT);
    for (size_t bit = 0; bit < sizeof footer * 8; bit++) {
        footer[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(get_footer(&found, footer, frame.props.bytes), MW_CORRUPT);
        footer[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void a_footer_points_to_properties_that_end_at_it(void **state)
{
    (void)state;
    /* Added to what is right; the first is made below: they begin inside the header. */
    const mw_block wrong[] = {
        {0, 0, 0},          {1, 0, 0},   {UINT64_MAX, 0, 0},        {0, 1, 0},
        {0, UINT64_MAX, 0}, {500, 0, 0}, {(uint64_t)1 << 63, 0, 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t footer[MW_TABLE_FOOTER_BYTES];
        mw_table_frame frame = make_frame(), found;
        frame.properties.offset += wrong[i].offset;
        frame.properties.bytes += wrong[i].bytes;
        if (i == 0) {
            frame.properties = (mw_block){MW_TABLE_HEADER_BYTES - 1, 95, 99};
            frame.props.bytes = MW_TABLE_HEADER_BYTES - 1 + 95 + MW_TABLE_FOOTER_BYTES;
        }
        mw_table_footer_put(&frame, footer);
        assert_int_equal(get_footer(&found, footer, frame.props.bytes), MW_CORRUPT);
    }
}

static void properties_larger_than_any_schema_needs_are_refused(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        uint8_t footer[MW_TABLE_FOOTER_BYTES];
        mw_table_frame frame = make_frame(), found;
        uint32_t bytes = MW_TABLE_PROPERTIES_BYTES_MAX + more;
        frame.properties.bytes = MW_TABLE_PROPERTIES_BYTES_MAX;
        frame.props.bytes = frame.properties.offset + bytes + MW_TABLE_FOOTER_BYTES;
        mw_table_footer_put(&frame, footer);
        mw_put_u32(footer + MW_TABLE_FOOTER_PROPERTIES_BYTES, bytes);
        mw_put_u64(footer + MW_TABLE_FOOTER_CHECKSUM,
                   mw_hash(footer, MW_TABLE_FOOTER_CHECKSUM, frame.seed));
        assert_int_equal(get_footer(&found, footer, frame.props.bytes), more ? MW_CORRUPT : MW_OK);
    }
}

/* ---- properties ---------------------------------------------------------------------------- */

static mw_rc get_properties(mw_table_frame *found, mw_slice from, const mw_schema *expected)
{
    mw_err err = {.rc = MW_OK};
    mw_table_frame frame = make_frame();
    *found = (mw_table_frame){.name = "table", .seed = frame.seed};
    found->properties = frame.properties; /* of the footer, as the next two */
    found->props.bytes = frame.props.bytes;
    found->props.checksum = frame.props.checksum;
    mw_rc rc = mw_table_properties_get(found, from, expected, &err);
    assert_int_equal(err.rc, rc);
    return rc;
}

static void properties_come_back(void **state)
{
    (void)state;
    mw_buf buf;
    mw_table_frame frame = make_frame(), found;
    mw_buf_init(&buf, mw_env_posix());
    mw_table_properties_put(&frame, &schema, &buf);
    mw_slice whole = mw_buf_slice(&buf);
    assert_int_equal(get_properties(&found, whole, &schema), MW_OK);
    assert_memory_equal(&found, &frame, sizeof found);
    for (size_t size = 0; size < whole.size; size++) {
        /* Its own memory: the sanitizer sees who reads past the cut. */
        uint8_t *cut = malloc(size + !size);
        memcpy(cut, whole.data, size);
        assert_int_equal(get_properties(&found, mw_slice_of(cut, size), &schema), MW_CORRUPT);
        free(cut);
    }
    mw_buf_u8(&buf, 0);
    assert_int_equal(get_properties(&found, mw_buf_slice(&buf), &schema), MW_CORRUPT);
    mw_buf_free(&buf);
}

static void properties_of_another_schema_are_a_mismatch(void **state)
{
    (void)state;
    mw_buf buf;
    mw_table_frame frame = make_frame(), found;
    const uint32_t other_ids[] = {10, 301, 70000};
    mw_buf_init(&buf, mw_env_posix());
    mw_table_properties_put(&frame, &schema, &buf);
    for (int change = 0; change < 3; change++) {
        mw_schema other = schema;
        if (change == 0) other.key = MW_KEY_INTEGER;
        if (change == 1) other.column_count--;
        if (change == 2) other.column_ids = other_ids;
        assert_int_equal(get_properties(&found, mw_buf_slice(&buf), &other), MW_MISMATCH);
    }
    mw_buf_free(&buf);
}

/* C30. What is wrong is put with a right checksum. */
static void dictionaries_whose_numbers_do_not_fit_are_refused(void **state)
{
    (void)state;
    for (int change = 0; change < 12; change++) {
        mw_buf buf;
        mw_table_frame frame = make_frame(), found;
        mw_table_dictionary *first = &frame.dictionaries[0], *second = &frame.dictionaries[1];
        switch (change) {
        case 0: first->block.bytes = 1000 - MW_TABLE_HEADER_BYTES + 300; break; /* just fits */
        case 1: first->block.bytes = 1000 - MW_TABLE_HEADER_BYTES + 301; break;
        case 2: second->block.bytes = 701; break; /* more than before compression */
        case 3: second->block.bytes = 0; break;
        case 4: first->raw_bytes = MW_DICTIONARY_BYTES_MAX + 1; break;
        case 5: second->column = 1; break;
        case 6: first->column = 0; break; /* the key never has one */
        case 7: second->column = 4; break;
        case 8: first->raw_bytes = UINT32_MAX; break;
        case 9: first->block.bytes = UINT64_MAX - 700 + 2; break;
        case 10: first->raw_bytes = 0; break;
        default: frame.dictionary_count = 1; break; /* the other's bytes are nobody's */
        }
        mw_buf_init(&buf, mw_env_posix());
        mw_table_properties_put(&frame, &schema, &buf);
        mw_rc rc = get_properties(&found, mw_buf_slice(&buf), &schema);
        mw_rc expected = change == 0 || change == 11 ? MW_OK : MW_CORRUPT;
        if (rc != expected) fail_msg("change %d: %s", change, mw_rc_text(rc));
        if (change == 11) assert_int_equal(found.groups_end, 1700);
        mw_buf_free(&buf);
    }
}

static void nine_dictionaries_are_refused(void **state)
{
    (void)state;
    mw_buf buf;
    mw_table_frame frame = make_frame(), found;
    frame.dictionary_count = 0;
    mw_buf_init(&buf, mw_env_posix());
    mw_table_properties_put(&frame, &schema, &buf);
    assert_int_equal(get_properties(&found, mw_buf_slice(&buf), &schema), MW_OK);
    assert_int_equal(found.groups_end, frame.filter.offset);
    buf.data[buf.size - 1] = MW_TABLE_DICTIONARIES_MAX + 1;
    for (int i = 0; i <= MW_TABLE_DICTIONARIES_MAX; i++) {
        const uint8_t dictionary[3 + 8] = {1, 1, 1};
        mw_buf_put(&buf, dictionary, sizeof dictionary);
    }
    assert_int_equal(get_properties(&found, mw_buf_slice(&buf), &schema), MW_CORRUPT);
    mw_buf_free(&buf);
}

static void properties_whose_numbers_do_not_fit_are_refused(void **state)
{
    (void)state;
    for (int change = 0; change < 13; change++) {
        mw_buf buf;
        mw_table_frame frame = make_frame(), found;
        const uint64_t most_groups = frame.index.bytes / MW_GROUP_ENTRY_BYTES_MIN;
        switch (change) {
        case 0: frame.group_count = most_groups; break; /* still fits */
        case 1: frame.group_count = most_groups + 1; break;
        case 2: frame.group_count = UINT64_MAX; break;
        case 3: frame.props.rows = (uint64_t)1 << 47; break;
        case 4: frame.props.tombstones = UINT64_MAX - 89; break; /* the sum is that of 0 ids */
        case 5: frame.props.sequence_min = frame.props.sequence_max + 1; break;
        case 6: frame.props.rows += 64; break; /* needs a larger filter */
        case 7: frame.filter.offset = MW_TABLE_HEADER_BYTES - 1; break;
        case 8: frame.filter.bytes--; break;
        case 9: frame.filter.offset++; break;
        case 10: frame.index.offset += MW_FILTER_BLOCK_BYTES; break;
        case 11: frame.index.bytes++; break;
        default: frame.index.bytes = UINT64_MAX; break;
        }
        mw_buf_init(&buf, mw_env_posix());
        mw_table_properties_put(&frame, &schema, &buf);
        mw_rc rc = get_properties(&found, mw_buf_slice(&buf), &schema);
        if (rc != (change ? MW_CORRUPT : MW_OK)) fail_msg("change %d: %s", change, mw_rc_text(rc));
        mw_buf_free(&buf);
    }
}

/* ---- index --------------------------------------------------------------------------------- */

/* The two groups of make_frame. */
static void make_groups(mw_group groups[2])
{
    groups[0] = (mw_group){
        .rows = 60, .tombstones = 10, .offset = MW_TABLE_HEADER_BYTES, .directory = {400, 100, 11}};
    groups[0].first = text("a");
    groups[0].last = text("b");
    groups[1] = (mw_group){.rows = 40, .offset = 500, .directory = {900, 100, 12}};
    groups[1].first = text("ba");
    groups[1].last = text("z");
}

static mw_rc get_groups(mw_slice from, mw_key_kind key, mw_group **found)
{
    mw_err err = {.rc = MW_OK};
    mw_table_frame frame = make_frame();
    mw_rc rc = mw_groups_get(mw_env_posix(), &frame, from, key, found, &err);
    assert_int_equal(err.rc, rc);
    assert_true((*found != NULL) == (rc == MW_OK));
    return rc;
}

static void put_groups(const mw_group groups[2], mw_buf *buf)
{
    mw_buf_init(buf, mw_env_posix());
    for (int i = 0; i < 2; i++) mw_group_put(&groups[i], buf);
}

static void an_index_comes_back(void **state)
{
    (void)state;
    mw_buf buf;
    mw_group groups[2], *found;
    make_groups(groups);
    put_groups(groups, &buf);
    mw_slice whole = mw_buf_slice(&buf);
    assert_int_equal(get_groups(whole, MW_KEY_TEXT, &found), MW_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(found[i].rows, groups[i].rows);
        assert_int_equal(found[i].tombstones, groups[i].tombstones);
        assert_int_equal(found[i].offset, groups[i].offset);
        assert_memory_equal(&found[i].directory, &groups[i].directory, sizeof(mw_block));
        assert_true(mw_slice_equal(found[i].first, groups[i].first));
        assert_true(mw_slice_equal(found[i].last, groups[i].last));
        assert_true(found[i].first_prefix == mw_prefix(groups[i].first));
    }
    mw_free(mw_env_posix(), found);
    for (size_t size = 0; size < whole.size; size++) {
        uint8_t *cut = malloc(size + !size);
        memcpy(cut, whole.data, size);
        assert_int_equal(get_groups(mw_slice_of(cut, size), MW_KEY_TEXT, &found), MW_CORRUPT);
        free(cut);
    }
    mw_buf_u8(&buf, 0);
    assert_int_equal(get_groups(mw_buf_slice(&buf), MW_KEY_TEXT, &found), MW_CORRUPT);
    mw_buf_free(&buf);
}

/* One wrong thing at a time. Where a group begins is not stored: pages_bytes are what counts. */
static bool spoil_groups(int change, mw_group *first, mw_group *second)
{
    switch (change) {
    case 0: first->rows = 0; break;
    case 1: first->rows = MW_GROUP_ROWS_MAX + 1; break;
    case 2: first->tombstones = first->rows + 1; break;
    case 3: first->directory.offset = 56 + 945; break; /* pages pass the filter           */
    case 4: first->directory.offset = 55; break;       /* pages of 2^64 - 1 bytes         */
    case 5: first->directory.bytes = 601; break;       /* the directory passes the filter */
    case 6: first->directory.bytes = UINT64_MAX; break;
    case 7: second->directory.bytes--; break; /* a gap before the filter */
    case 8: second->directory.bytes++; break;
    case 9: second->rows++; break; /* more than the properties say */
    case 10: second->tombstones++; break;
    case 11: first->last = first->first; break;
    case 12: first->first = text("bb"); break;
    case 13: second->first = first->last; break;
    case 14: second->first = text("a"); break;
    case 15: second->rows = 1; break; /* of two keys */
    case 16:                          /* all sums are right, but pages go round past 2^64 */
        first->directory.offset = MW_TABLE_HEADER_BYTES - 10;
        second->offset = first->directory.offset + first->directory.bytes;
        break;
    case 17: /* all sums are right, but more tombstones than rows */
        first->rows = 5;
        second->rows = 95;
        break;
    default: return false;
    }
    return true;
}

static void an_index_whose_numbers_do_not_fit_is_refused(void **state)
{
    (void)state;
    for (int change = 0;; change++) {
        mw_buf buf;
        mw_group groups[2], *found;
        make_groups(groups);
        if (!spoil_groups(change, &groups[0], &groups[1])) break;
        put_groups(groups, &buf);
        mw_rc rc = get_groups(mw_buf_slice(&buf), MW_KEY_TEXT, &found);
        if (rc != MW_CORRUPT) fail_msg("change %d: %s", change, mw_rc_text(rc));
        mw_buf_free(&buf);
    }
}

static void integer_keys_of_an_index_have_eight_bytes(void **state)
{
    (void)state;
    for (int change = 0; change < 3; change++) {
        mw_buf buf;
        mw_group groups[2], *found;
        make_groups(groups);
        groups[0].first = text("aaaaaaaa");
        groups[0].last = text(change == 1 ? "bbbbbbb" : "bbbbbbbb");
        groups[1].first = text(change == 2 ? "ccccccccc" : "cccccccc");
        groups[1].last = text("dddddddd");
        put_groups(groups, &buf);
        mw_rc rc = get_groups(mw_buf_slice(&buf), MW_KEY_INTEGER, &found);
        assert_int_equal(rc, change ? MW_CORRUPT : MW_OK);
        mw_free(mw_env_posix(), found);
        mw_buf_free(&buf);
    }
}

/* ---- directory ----------------------------------------------------------------------------- */

/* A directory of a group of 10 rows with 2 columns: two pages of keys, one, three. */
typedef struct plan {
    mw_group group;
    uint8_t flags;
    uint64_t page_total;
    mw_page_ref pages[6];
} plan;

static plan make_plan(void)
{
    plan p = {.flags = MW_GROUP_HAS_TOMBSTONES, .page_total = 6};
    const uint32_t row_counts[] = {6, 4, 10, 3, 3, 4};
    p.group = (mw_group){.rows = 10, .tombstones = 2, .offset = 100};
    p.group.directory.offset = 100;
    for (uint32_t i = 0; i < 6; i++) {
        p.pages[i] =
            (mw_page_ref){.rows = row_counts[i], .raw_bytes = 50 + i, .stored_bytes = 40 + i};
        p.pages[i].checksum = 1000 + i;
        p.group.directory.offset += p.pages[i].stored_bytes;
    }
    return p;
}

/* Appends all but the statistics. */
static void put_plan(const plan *p, mw_buf *buf)
{
    mw_buf_init(buf, mw_env_posix());
    mw_buf_u8(buf, p->flags);
    if (p->flags) mw_buf_u16(buf, 1u << 3 | 1u << 9);
    mw_buf_varint(buf, p->page_total);
    for (uint32_t i = 0; i < 6; i++) {
        mw_page_ref_put(&p->pages[i], buf);
        if (i == 1) mw_buf_bytes(buf, text("middle"));
    }
}

static mw_rc decode(const mw_group *group, mw_slice raw, mw_directory **found)
{
    mw_err err = {.rc = MW_OK};
    mw_directory_source source = {"table", group, 2, raw};
    mw_rc rc = mw_directory_decode(mw_env_posix(), &source, found, &err);
    assert_int_equal(err.rc, rc);
    assert_true((*found != NULL) == (rc == MW_OK));
    return rc;
}

static void a_directory_comes_back(void **state)
{
    (void)state;
    mw_buf buf;
    mw_directory *found;
    plan p = make_plan();
    const uint32_t starts[] = {0, 2, 3, 6}, first_rows[] = {0, 6, 0, 0, 3, 6};
    uint64_t offset = 100;
    put_plan(&p, &buf);
    mw_buf_put_slice(&buf, text("statistics"));
    assert_int_equal(decode(&p.group, mw_buf_slice(&buf), &found), MW_OK);
    mw_buf_free(&buf); /* the directory has a copy of its own */
    assert_int_equal(found->rows, 10);
    assert_memory_equal(found->page_starts, starts, sizeof starts);
    for (uint32_t i = 0; i < 6; i++) {
        const mw_page_ref *page = &found->pages[i];
        assert_int_equal(page->offset, offset);
        assert_int_equal(page->first_row, first_rows[i]);
        assert_int_equal(page->rows, p.pages[i].rows);
        assert_int_equal(page->raw_bytes, p.pages[i].raw_bytes);
        assert_int_equal(page->stored_bytes, p.pages[i].stored_bytes);
        assert_int_equal(page->checksum, p.pages[i].checksum);
        offset += page->stored_bytes;
    }
    assert_int_equal(found->separators[0].size, 0);
    assert_true(mw_slice_equal(found->separators[1], text("middle")));
    assert_true(mw_slice_equal(found->statistics, text("statistics")));
    for (uint32_t row = 0; row < 10; row++) {
        assert_true(mw_directory_tombstone(found, row) == (row == 3 || row == 9));
    }
    mw_free(mw_env_posix(), found);
}

static void a_directory_cut_before_its_statistics_is_refused(void **state)
{
    (void)state;
    mw_buf buf;
    mw_directory *found;
    plan p = make_plan();
    put_plan(&p, &buf);
    for (size_t size = 0; size <= buf.size; size++) {
        uint8_t *cut = malloc(size + !size);
        memcpy(cut, buf.data, size);
        mw_rc rc = decode(&p.group, mw_slice_of(cut, size), &found);
        assert_int_equal(rc, size < buf.size ? MW_CORRUPT : MW_OK);
        mw_free(mw_env_posix(), found);
        free(cut);
    }
    mw_buf_free(&buf);
}

static bool spoil_plan(int change, plan *p)
{
    switch (change) {
    case 0: p->flags = 2; break; /* a bit that does not exist */
    case 1: p->flags = 0; break; /* the index knows tombstones */
    case 2: p->group.tombstones = 0; break;
    case 3: p->page_total = 5; break;
    case 4: p->page_total = 7; break;
    case 5: p->page_total = (uint64_t)1 << 60; break; /* nobody allocates that */
    case 6: p->page_total = UINT64_MAX; break;
    case 7: p->pages[0].rows = 0; break;
    case 8: p->pages[1].rows = 5; break; /* past the group's last row */
    case 9: p->pages[5].rows = 3; break;
    case 10: p->pages[2].rows = 11; break;
    case 11: p->pages[0].raw_bytes = 0; break;
    case 12: p->pages[0].raw_bytes = MW_PAGE_BYTES_MAX + 1; break;
    case 13: p->pages[3].stored_bytes = 0; break;
    case 14: p->pages[3].stored_bytes = p->pages[3].raw_bytes + 1; break;
    case 15: p->group.directory.offset--; break; /* the last page passes it */
    case 16: p->group.directory.offset++; break; /* a gap before it */
    default: return false;
    }
    return true;
}

static void a_directory_whose_numbers_do_not_fit_is_refused(void **state)
{
    (void)state;
    for (int change = 0;; change++) {
        mw_buf buf;
        mw_directory *found;
        plan p = make_plan();
        if (!spoil_plan(change, &p)) break;
        put_plan(&p, &buf);
        mw_rc rc = decode(&p.group, mw_buf_slice(&buf), &found);
        if (rc != MW_CORRUPT) fail_msg("change %d: %s", change, mw_rc_text(rc));
        mw_buf_free(&buf);
    }
}

/* Only a page of one row may be as large as the largest value. */
static void a_page_of_one_row_may_be_large(void **state)
{
    (void)state;
    const uint32_t most = (uint32_t)MW_PAGE_VALUE_BYTES_MAX + MW_PAGE_ROW_OVERHEAD;
    for (uint32_t more = 0; more < 2; more++) {
        mw_buf buf;
        mw_directory *found;
        plan p = make_plan();
        p.pages[3].rows = 1;
        p.pages[4].rows = 5;
        p.pages[3].raw_bytes = most + more;
        put_plan(&p, &buf);
        mw_rc rc = decode(&p.group, mw_buf_slice(&buf), &found);
        assert_int_equal(rc, more ? MW_CORRUPT : MW_OK);
        mw_free(mw_env_posix(), found);
        mw_buf_free(&buf);
    }
}

/* ---- bounds -------------------------------------------------------------------------------- */

/* What a group says of a value. The bound borrows from buf. */
static mw_bound bound_of(const mw_value *value, mw_buf *buf)
{
    mw_bound bound;
    mw_buf_clear(buf);
    mw_bound_put(value, buf);
    mw_scan scan = mw_scan_of(mw_buf_slice(buf));
    assert_true(mw_bound_get(&scan, &bound));
    assert_int_equal(mw_scan_left(&scan), 0);
    return bound;
}

enum { VALUES = 400 };

/* Values of all types; texts and blobs share long beginnings and end around the cut. */
static void make_values(mw_value *values, uint8_t *bytes)
{
    uint64_t random = 12;
    for (size_t i = 0; i < VALUES; i++, bytes += 40) {
        uint64_t dice = rows_random(&random);
        size_t size = dice % 4 ? 29 + (dice >> 8) % 8 : (dice >> 8) % 3;
        memset(bytes, 255, 40);
        if (dice % 3 == 0) bytes[(dice >> 16) % 40] = 254;
        if (dice % 3 == 1) bytes[32 + (dice >> 16) % 8] = 0;
        values[i] = (mw_value){.type = (mw_type)(1 + (dice >> 24) % 4)};
        if (values[i].type == MW_INTEGER) values[i].integer = (int64_t)rows_random(&random);
        if (values[i].type == MW_REAL) values[i].real = (double)(int64_t)rows_random(&random) / 3;
        if (values[i].type >= MW_TEXT) values[i].bytes = mw_slice_of(bytes, size);
    }
}

static void a_bound_comes_back_cut_to_32_bytes(void **state)
{
    (void)state;
    static uint8_t bytes[VALUES * 40];
    static mw_value values[VALUES + 1]; /* the last is NULL: no value at all */
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    make_values(values, bytes);
    for (size_t i = 0; i <= VALUES; i++) {
        mw_value expected = values[i];
        mw_bound bound = bound_of(&values[i], &buf);
        assert_true(bound.cut == (values[i].bytes.size > MW_GROUP_BOUND_BYTES));
        if (bound.cut) expected.bytes.size = MW_GROUP_BOUND_BYTES;
        assert_true(mw_value_equal(&bound.value, &expected));
        for (size_t size = 0; size < buf.size; size++) {
            mw_scan scan = mw_scan_of(mw_slice_of(buf.data, size));
            assert_false(mw_bound_get(&scan, &bound));
        }
    }
    mw_buf_free(&buf);
}

/* The order of a value and a bound is that of the value and what the bound was made from, or 0
** when the bound does not tell. */
static void a_cut_bound_stays_a_bound(void **state)
{
    (void)state;
    static uint8_t bytes[VALUES * 40];
    static mw_value values[VALUES];
    int untold = 0, greater = 0;
    mw_buf buf;
    mw_buf_init(&buf, mw_env_posix());
    make_values(values, bytes);
    for (size_t b = 0; b < VALUES; b++) {
        mw_bound bound = bound_of(&values[b], &buf);
        for (size_t i = 0; i < VALUES; i++) {
            int right = mw_value_compare(&values[i], &values[b]);
            int order = mw_bound_order(&values[i], &bound);
            if (right <= 0) assert_true(order <= 0); /* still an upper bound */
            if (right >= 0) assert_true(order >= 0); /* still a lower bound  */
            if (order == 0 && right != 0) {
                assert_true(bound.cut && values[i].bytes.size > MW_GROUP_BOUND_BYTES);
                assert_memory_equal(values[i].bytes.data, bound.value.bytes.data,
                                    MW_GROUP_BOUND_BYTES);
                untold++;
            }
            greater += bound.cut && order > 0;
        }
    }
    assert_true(untold > 100 && greater > 100);
    mw_buf_free(&buf);
}

/* Tag and content, by hand. */
static bool bound_is_read(uint8_t tag, size_t size)
{
    uint8_t raw[64] = {tag, (uint8_t)size};
    mw_bound bound;
    mw_scan scan = mw_scan_of(mw_slice_of(raw, sizeof raw));
    return mw_bound_get(&scan, &bound);
}

static void bounds_that_nobody_puts_are_refused(void **state)
{
    (void)state;
    for (int tag = 0; tag < 256; tag++) {
        mw_type type = (mw_type)(tag % MW_GROUP_BOUND_CUT);
        bool bytes = type == MW_TEXT || type == MW_BLOB;
        for (size_t size = 0; size < 60; size++) {
            bool right = tag <= MW_BLOB && (!bytes || size <= MW_GROUP_BOUND_BYTES);
            if (tag / MW_GROUP_BOUND_CUT == 1) right = bytes && size == MW_GROUP_BOUND_BYTES;
            assert_true(bound_is_read((uint8_t)tag, size) == right);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_that_of_one_file),
        cmocka_unit_test(a_newer_format_is_unsupported),
        cmocka_unit_test(a_footer_comes_back),
        cmocka_unit_test(a_footer_points_to_properties_that_end_at_it),
        cmocka_unit_test(properties_larger_than_any_schema_needs_are_refused),
        cmocka_unit_test(properties_come_back),
        cmocka_unit_test(properties_of_another_schema_are_a_mismatch),
        cmocka_unit_test(properties_whose_numbers_do_not_fit_are_refused),
        cmocka_unit_test(dictionaries_whose_numbers_do_not_fit_are_refused),
        cmocka_unit_test(nine_dictionaries_are_refused),
        cmocka_unit_test(an_index_comes_back),
        cmocka_unit_test(an_index_whose_numbers_do_not_fit_is_refused),
        cmocka_unit_test(integer_keys_of_an_index_have_eight_bytes),
        cmocka_unit_test(a_directory_comes_back),
        cmocka_unit_test(a_directory_cut_before_its_statistics_is_refused),
        cmocka_unit_test(a_directory_whose_numbers_do_not_fit_is_refused),
        cmocka_unit_test(a_page_of_one_row_may_be_large),
        cmocka_unit_test(a_bound_comes_back_cut_to_32_bytes),
        cmocka_unit_test(a_cut_bound_stays_a_bound),
        cmocka_unit_test(bounds_that_nobody_puts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
