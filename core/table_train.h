/* table_train.h: decides which columns of a table file get a compression dictionary, and makes it.
** Inside the table_*.c files that write only. */
#ifndef MW_TABLE_TRAIN_H
#define MW_TABLE_TRAIN_H

#include "codec.h"
#include "table_gather.h"

/* A dictionary for one column of a file. */
typedef struct mw_trained {
    mw_buf raw;                      /* its bytes */
    mw_buf stored;                   /* compressed, as they go to the file; or else empty */
    mw_codec_dictionary *dictionary; /* NULL: it does not pay */
} mw_trained;

typedef struct mw_train_options {
    mw_codec *codec;
    mw_page_encoder *encoder;
    uint32_t page_bytes; /* of pages without a dictionary */
    int level;           /* of pages without a dictionary */
} mw_train_options;

/* Level and page size with a dictionary. */
int mw_train_level(int level);
uint32_t mw_train_page_bytes(uint32_t page_bytes);

/* Tries it for a column of these groups, a list by `next`. *trained is empty when it does not pay;
** otherwise the caller's, freed with mw_trained_free. */
mw_rc mw_train(const mw_gathered *groups, uint32_t column, const mw_train_options *options,
               mw_trained *trained, mw_err *err) MW_MUST_USE;
void mw_trained_free(mw_trained *trained); /* also an empty or zeroed one */

#endif
