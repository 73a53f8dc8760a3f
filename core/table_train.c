/* table_train.c: compression dictionaries for the columns of one file.
**
** A page of 16 KB holds 16 rows of 1 KB: too few for zstd to learn what all rows of the column have
** in common. A dictionary trained from a sample tells it beforehand. Measured with 1 KB of agent
** traces a row (the benchmark's json), share of the data (MB/s in, out):
**
**   pages of           4 KB               8 KB               16 KB              64 KB
**   level 1            0.441 (227, 613)   0.376 (257, 797)   0.337 (288, 949)   0.311 (318, 1341)
**   level 3            0.438 (159, 559)   0.375 (185, 710)   0.335 (210, 837)   0.298 (199,  978)
**   3, 16 KB of it     0.316 (158, 480)   0.301 (170, 561)   0.292 (181, 657)   0.284 (157,  848)
**   1, 64 KB of it     0.330 (188, 482)   0.316 (199, 563)   0.306 (226, 704)   0.299 (262,  964)
**   3, 64 KB of it     0.309 (150, 477)   0.295 (168, 579)   0.287 (163, 617)   0.279 (127,  613)
**   6, 64 KB of it     0.294 ( 49, 420)   0.283 ( 54, 527)   0.276 ( 55, 608)   0.271 ( 64,  805)
**   3, 112 KB of it    0.308 (151, 480)   0.294 (176, 626)   0.285 (179, 658)   0.279 (173,  798)
**
** So pages of 8 KB with a dictionary are smaller than pages of 64 KB without, and a lookup has a sixth
** less to do than with pages of 16 KB without. Level 3 pays with a dictionary (6 %), not
** without; level 6 would give 4 % more at a third of the speed.
**
** Whether it pays is tried on pages that it was not trained from. What they save, times what is
** known of the column, must be twice what the dictionary takes in the file; so a small file never
** grows, and a column of numbers or of few texts, whose pages are small already, never gets one. */
#include "table_train.h"

#include <string.h>

#include "cover.h"
#include "format.h"

enum {
    COLUMN_BYTES_MIN = 1 << 20, /* less than that is not worth a dictionary */
    DICTIONARY_BYTES_MIN = 1024,
    TRAIN_BYTES_MAX = 4 << 20,
    PIECE_BYTES = 1024,
    SHARE = 64,                /* of what is known of the column may become the dictionary */
    STORED_LEVEL = 6,
    LEVEL_MAX = 19,
    MARGIN = 2,
    GAIN = 20, /* less than one byte saved in so many is not worth slower reading */
};

int mw_train_level(int level)
{
    return level + 2 < LEVEL_MAX ? level + 2 : LEVEL_MAX;
}

uint32_t mw_train_page_bytes(uint32_t page_bytes)
{
    return page_bytes / 2;
}

void mw_trained_free(mw_trained *trained)
{
    mw_codec_dictionary_destroy(trained->dictionary);
    mw_buf_free(&trained->raw);
    mw_buf_free(&trained->stored);
    trained->dictionary = NULL;
}

typedef struct training {
    const mw_gathered *groups;
    uint32_t column;
    const mw_train_options *options;
    mw_trained *trained;
    uint64_t column_bytes;
    mw_buf pieces;
    mw_buf page;
    mw_buf packed;
    bool no_memory; /* a page could not be tried */
    mw_err *err;
} training;

/* ---- sample -------------------------------------------------------------------------------- */

/* What belongs to a group's first page is left out: it is there to try the dictionary on. */
static size_t tried_bytes(const training *t, const mw_gathered *group)
{
    mw_page_start start = {0, 0, 0};
    (void)mw_gathered_page(group, t->column, &start, t->options->page_bytes);
    return start.byte;
}

static mw_rc gather_pieces(training *t)
{
    uint64_t stride = t->column_bytes / TRAIN_BYTES_MAX + 1, number = 0;
    for (const mw_gathered *group = t->groups; group; group = group->next) {
        const mw_buf *bytes = &group->columns[t->column].bytes;
        size_t at = tried_bytes(t, group);
        for (; bytes->size - at >= PIECE_BYTES; at += PIECE_BYTES) {
            if (number++ % stride == 0) mw_buf_put(&t->pieces, bytes->data + at, PIECE_BYTES);
        }
    }
    return mw_buf_check(&t->pieces, t->err);
}

/* ---- trying -------------------------------------------------------------------------------- */

/* Size of a page of these cells in the file; failure is sticky. */
static uint64_t page_size(training *t, const mw_cells *cells, bool with)
{
    mw_buf_clear(&t->page);
    mw_buf_clear(&t->packed);
    mw_page_encode(t->options->encoder, &t->page, cells, false, MW_FORM_TIGHT);
    mw_slice raw = mw_buf_slice(&t->page);
    if (t->page.failed || !mw_buf_reserve(&t->packed, raw.size)) {
        t->no_memory = true;
        return 0;
    }
    mw_codec *codec = t->options->codec;
    size_t size = with ? mw_codec_compress_with(codec, t->trained->dictionary, raw,
                                                t->packed.data, raw.size)
                       : mw_codec_compress(codec, raw, t->packed.data, raw.size,
                                           t->options->level);
    return (size ? size : raw.size) + MW_GROUP_PAGE_ENTRY_BYTES_MIN;
}

/* Bytes that the first page of a group takes without and with the dictionary, and how many of the
** column are in it. */
static mw_rc try_group(training *t, const mw_gathered *group, uint64_t sizes[2], uint64_t *bytes)
{
    mw_page_start whole = {0, 0, 0}, part = {0, 0, 0};
    uint32_t page_bytes = t->options->page_bytes;
    mw_cells cells = mw_gathered_page(group, t->column, &whole, page_bytes);
    sizes[0] += page_size(t, &cells, false);
    *bytes += whole.byte;
    while (part.row < whole.row) {
        uint32_t first = part.row;
        cells = mw_gathered_page(group, t->column, &part, mw_train_page_bytes(page_bytes));
        cells.count = (uint32_t)mw_min(cells.count, whole.row - first);
        sizes[1] += page_size(t, &cells, true);
    }
    return t->no_memory ? mw_fail(t->err, MW_NOMEM, "out of memory for a dictionary") : MW_OK;
}

static mw_rc pays(training *t, bool *yes)
{
    uint64_t sizes[2] = {0, 0}, bytes = 0;
    for (const mw_gathered *group = t->groups; group; group = group->next) {
        mw_rc rc = try_group(t, group, sizes, &bytes);
        if (rc) return rc;
    }
    size_t stored = t->trained->stored.size ? t->trained->stored.size : t->trained->raw.size;
    *yes = bytes && sizes[1] < sizes[0] - sizes[0] / GAIN &&
           (double)(sizes[0] - sizes[1]) / (double)bytes * (double)t->column_bytes >
               (double)stored * MARGIN;
    return MW_OK;
}

/* ---- making -------------------------------------------------------------------------------- */

/* Compressed as it goes to the file; left empty when that does not help. */
static mw_rc store(training *t, mw_slice raw)
{
    mw_buf *stored = &t->trained->stored;
    if (!mw_buf_reserve(stored, raw.size)) return mw_buf_check(stored, t->err);
    stored->size = mw_codec_compress(t->options->codec, raw, stored->data, raw.size, STORED_LEVEL);
    return MW_OK;
}

static mw_rc train(training *t, bool *made)
{
    const mw_env *env = t->groups->env;
    mw_trained *trained = t->trained;
    size_t room = (size_t)mw_min(t->column_bytes / SHARE, MW_DICTIONARY_BYTES_MAX);
    *made = false;
    if (!mw_buf_reserve(&trained->raw, room)) return mw_buf_check(&trained->raw, t->err);
    trained->raw.size = mw_cover_select(env, mw_buf_slice(&t->pieces), trained->raw.data, room);
    mw_slice raw = mw_buf_slice(&trained->raw);
    if (raw.size < DICTIONARY_BYTES_MIN) return MW_OK;
    int level = mw_train_level(t->options->level);
    trained->dictionary = mw_codec_dictionary_create(env, raw, level);
    if (!trained->dictionary) return mw_fail(t->err, MW_NOMEM, "out of memory for a dictionary");
    *made = true;
    return store(t, raw);
}

static mw_rc train_and_try(training *t)
{
    bool made = false;
    mw_rc rc = gather_pieces(t);
    if (rc == MW_OK) rc = train(t, &made);
    if (rc == MW_OK && made) rc = pays(t, &made);
    if (rc || !made) mw_trained_free(t->trained);
    return rc;
}

mw_rc mw_train(const mw_gathered *groups, uint32_t column, const mw_train_options *options,
               mw_trained *trained, mw_err *err)
{
    training t = {.groups = groups, .column = column, .options = options, .trained = trained,
                  .err = err};
    memset(trained, 0, sizeof *trained);
    for (const mw_gathered *group = groups; group; group = group->next) {
        t.column_bytes += group->columns[column].bytes.size;
    }
    if (t.column_bytes < COLUMN_BYTES_MIN) return MW_OK;
    mw_buf *bufs[] = {&trained->raw, &trained->stored, &t.pieces, &t.page, &t.packed};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) mw_buf_init(bufs[i], groups->env);
    mw_rc rc = train_and_try(&t);
    mw_buf_free(&t.pieces);
    mw_buf_free(&t.page);
    mw_buf_free(&t.packed);
    return rc;
}
