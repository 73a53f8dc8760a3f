/* token.c: a tokenizer for CREATE arguments.
**
** SQLite has already accepted the text as tokens, so what can be wrong here is little: it is enough
** to find where each token ends. A doubled quote inside quotes stands for one. */
#include "token.h"

#include <string.h>

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$'; }

static const char *skip_blank(const char *at)
{
    for (;;) {
        if (is_space(*at)) {
            at++;
        } else if (at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *close = strstr(at + 2, "*/");
            at = close ? close + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* Behind the closing quote of the text that opens at `at`; NULL when it never closes. */
static const char *quoted_end(const char *at)
{
    char close = *at == '[' ? ']' : *at;
    for (at++; *at; at++) {
        if (*at != close) continue;
        if (close == ']' || at[1] != close) return at + 1;
        at++;
    }
    return NULL;
}

static const char *number_end(const char *at)
{
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    while (is_word(*at) || *at == '.') {
        bool exponent = !hex && (*at == 'e' || *at == 'E');
        at++;
        if (exponent && (*at == '+' || *at == '-')) at++;
    }
    return at;
}

static mx_token_kind kind_of(const char *at)
{
    switch (*at) {
    case '\0': return MX_TOKEN_END;
    case '\'': return MX_TOKEN_STRING;
    case '"':
    case '[':
    case '`': return MX_TOKEN_QUOTED;
    case 'x':
    case 'X': return at[1] == '\'' ? MX_TOKEN_BLOB : MX_TOKEN_WORD;
    case '.': return is_digit(at[1]) ? MX_TOKEN_NUMBER : MX_TOKEN_MARK;
    default: break;
    }
    if (is_digit(*at)) return MX_TOKEN_NUMBER;
    return is_letter(*at) ? MX_TOKEN_WORD : MX_TOKEN_MARK;
}

mx_token mx_token_next(const char **at)
{
    const char *start = skip_blank(*at);
    const char *end = start;
    mx_token_kind kind = kind_of(start);
    switch (kind) {
    case MX_TOKEN_END: break;
    case MX_TOKEN_STRING:
    case MX_TOKEN_QUOTED: end = quoted_end(start); break;
    case MX_TOKEN_BLOB: end = quoted_end(start + 1); break;
    case MX_TOKEN_NUMBER: end = number_end(start); break;
    case MX_TOKEN_WORD:
        while (is_word(*end)) end++;
        break;
    case MX_TOKEN_MARK:
    case MX_TOKEN_BAD: end = start + 1; break;
    }
    if (!end) {
        kind = MX_TOKEN_BAD;
        end = start + strlen(start);
    }
    *at = end;
    return (mx_token){kind, start, (int)(end - start)};
}

bool mx_token_is(const mx_token *token, const char *word)
{
    if (token->kind != MX_TOKEN_WORD && token->kind != MX_TOKEN_MARK) return false;
    return (size_t)token->size == strlen(word) &&
           sqlite3_strnicmp(token->text, word, token->size) == 0;
}

char *mx_token_text(const mx_token *token)
{
    bool quoted = token->kind == MX_TOKEN_QUOTED || token->kind == MX_TOKEN_STRING;
    if (!quoted) return sqlite3_mprintf("%.*s", token->size, token->text);
    char *text = sqlite3_malloc(token->size);
    if (!text) return NULL;
    char close = token->text[token->size - 1];
    int size = 0;
    for (int i = 1; i < token->size - 1; i++) {
        text[size++] = token->text[i];
        if (token->text[i] == close) i++;
    }
    text[size] = '\0';
    return text;
}
