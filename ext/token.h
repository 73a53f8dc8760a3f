/* token.h: SQL text cut into tokens as SQLite's own tokenizer, which has no public face, does. */
#ifndef MX_TOKEN_H
#define MX_TOKEN_H

#include <sqlite3ext.h>
#include <stdbool.h>

SQLITE_EXTENSION_INIT3

typedef enum mx_token_kind {
    MX_TOKEN_END,
    MX_TOKEN_WORD,   /* a bare identifier or keyword                        */
    MX_TOKEN_QUOTED, /* an identifier as "a", [a] or `a`                    */
    MX_TOKEN_STRING, /* 'a'                                                 */
    MX_TOKEN_BLOB,   /* x'00'                                               */
    MX_TOKEN_NUMBER, /* begins like a number; only SQLite knows if it is one */
    MX_TOKEN_MARK,   /* any other single character                          */
    MX_TOKEN_BAD,    /* a quote that is never closed                        */
} mx_token_kind;

typedef struct mx_token {
    mx_token_kind kind;
    const char *text; /* borrowed from the source, quotes included */
    int size;
} mx_token;

/* The token at *at, which moves behind it. White space and comments are passed over. */
mx_token mx_token_next(const char **at);

/* Is it this bare word (any case) or this mark? */
bool mx_token_is(const mx_token *token, const char *word);

/* The name or text that the token stands for, quotes taken off; the caller's, sqlite3_free. NULL:
** no memory. */
char *mx_token_text(const mx_token *token);

#endif
