/* rows.h: the rows of the figures. Each follows from its number alone, so every side and every run
** gets the same ones, in any order. Knows neither SQLite nor the engine; holds no state.
**
**   small  116 bytes, about half of them random: a text id of 16 hexadecimal digits, an integer, a
**          real, a text of 24 and one of 60 bytes
**   json   about 1 KB: the same columns, the last one a step of an agent's trace in JSON (a thought,
**          a tool call, what it brought). zstd level 1 on 64 KiB of them gives about 3 : 1 */
#ifndef ROWS_H
#define ROWS_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    ROW_KEY_BYTES = 16,
    ROW_SHORT_BYTES = 24,
    ROW_LONG_BYTES = 60,
    ROW_SMALL_BYTES = ROW_KEY_BYTES + 8 + 8 + ROW_SHORT_BYTES + ROW_LONG_BYTES, /* 116 */
    ROW_JSON_BYTES_MAX = 4096, /* of its last column; most have 700 to 1400 */
};

typedef enum row_shape { ROW_SMALL, ROW_JSON } row_shape;

typedef struct row {
    char key[ROW_KEY_BYTES];
    int64_t a;
    double b;
    size_t c_bytes;
    size_t d_bytes;
    char c[ROW_SHORT_BYTES];
    char d[ROW_JSON_BYTES_MAX];
} row;

/* splitmix64 (S. Vigna, public domain). Different numbers give different results. */
static inline uint64_t row_mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void row_put_key(char to[ROW_KEY_BYTES], uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = ROW_KEY_BYTES - 1; i >= 0; i--, number >>= 4) to[i] = digits[number & 15];
}

static inline size_t row_bytes(const row *r)
{
    return sizeof r->key + sizeof r->a + sizeof r->b + r->c_bytes + r->d_bytes;
}

/* ---- small rows -------------------------------------------------------------------------- */

/* Half of the text is random, half is the same in many rows. */
static inline void row_put_text(char *to, size_t bytes, uint64_t random)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    static const char same[] =
        "the agent looks at the maze, turns left and goes on until the wall ends";
    size_t half = bytes / 2;
    uint64_t bits = random;
    for (size_t i = 0; i < half; i++, bits >>= 6) {
        if (i % 10 == 0) bits = row_mix(random + i);
        to[i] = digits[bits & 63];
    }
    memcpy(to + half, same + (random >> 20) % 8, bytes - half);
}

static inline void row_fill_small(row *r, uint64_t random)
{
    r->c_bytes = ROW_SHORT_BYTES;
    r->d_bytes = ROW_LONG_BYTES;
    row_put_text(r->c, ROW_SHORT_BYTES, random);
    row_put_text(r->d, ROW_LONG_BYTES, random >> 16);
}

/* ---- json rows --------------------------------------------------------------------------- */

/* A stream of random numbers, and the text that grows out of it. */
typedef struct row_writer {
    uint64_t random;
    char *to;
    size_t used;
} row_writer;

static inline uint64_t row_draw(row_writer *w, uint64_t below)
{
    w->random = row_mix(w->random);
    return (w->random >> 16) % below;
}

static inline void row_add(row_writer *w, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(w->to + w->used, text, bytes);
    w->used += bytes;
}

__attribute__((format(printf, 2, 3))) static inline void row_addf(row_writer *w, const char *format,
                                                                  ...)
{
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(w->to + w->used, ROW_JSON_BYTES_MAX - w->used, format, args);
    va_end(args);
    w->used += (size_t)bytes;
}

/* A word; the first ones of the list more often than the last ones, as in speech. */
static inline const char *row_word(row_writer *w)
{
    static const char *const words[] = {
        "the",      "to",       "of",       "a",           "is",          "in",       "and",
        "that",     "it",       "for",      "with",        "not",         "this",     "file",
        "test",     "should",   "be",       "on",          "error",       "function", "line",
        "first",    "then",     "returns",  "value",       "from",        "now",      "check",
        "before",   "after",    "because",  "we",          "need",        "look",     "at",
        "when",     "fails",    "called",   "result",      "list",        "index",    "next",
        "output",   "input",    "there",    "no",          "only",        "but",      "seems",
        "expected", "found",    "read",     "write",       "run",         "again",    "fix",
        "change",   "add",      "remove",   "one",         "two",         "all",      "each",
        "last",     "call",     "argument", "type",        "string",      "number",   "empty",
        "null",     "missing",  "module",   "class",       "method",      "import",   "package",
        "version",  "command",  "exit",     "status",      "process",     "thread",   "lock",
        "wait",     "timeout",  "request",  "response",    "server",      "client",   "socket",
        "database", "table",    "row",      "column",      "query",       "key",      "cache",
        "page",     "offset",   "length",   "buffer",      "memory",      "pointer",  "free",
        "size",     "limit",    "bound",    "range",       "loop",        "branch",   "condition",
        "case",     "default",  "option",   "config",      "path",        "folder",   "directory",
        "name",     "user",     "token",    "session",     "header",      "body",     "parse",
        "format",   "encode",   "decode",   "convert",     "compare",     "match",    "search",
        "pattern",  "replace",  "split",    "join",        "sort",        "filter",   "map",
        "reduce",   "count",    "sum",      "average",     "maximum",     "minimum",  "score",
        "reward",   "agent",    "step",     "action",      "observation", "goal",     "plan",
        "think",    "reason",   "decide",   "try",         "another",     "approach", "instead",
        "probably", "maybe",    "actually", "however",     "therefore",   "since",    "while",
        "until",    "during",   "between",  "inside",      "outside",     "above",    "below",
        "left",     "right",    "up",       "down",        "start",       "stop",     "begin",
        "end",      "open",     "close",    "create",      "delete",      "update",   "insert",
        "select",   "commit",   "rollback", "transaction", "snapshot",    "merge",    "flush",
        "sync",     "disk",     "network",  "packet",      "connection",  "port",     "address",
        "host",     "local",    "remote",   "global",      "static",      "dynamic",  "public",
        "private",  "internal", "external", "compiler",    "warning",     "assert",   "debug",
        "release",  "build",    "target",   "source",      "object",      "library",  "symbol",
        "linker",   "signal",   "handler",  "event",       "queue",       "stack",    "heap",
        "tree",     "node",     "leaf",     "root",        "parent",      "child",    "certainly",
    };
    uint64_t two = row_draw(w, UINT64_C(1) << 48);
    uint64_t a = (two & 0xffffff) % (sizeof words / sizeof *words);
    uint64_t b = (two >> 24) % (sizeof words / sizeof *words);
    return words[a < b ? a : b];
}

static inline void row_add_words(row_writer *w, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0) row_add(w, row_draw(w, 9) == 0 ? ", " : " ");
        row_add(w, row_word(w));
    }
}

static inline void row_add_path(row_writer *w)
{
    static const char *const folders[] = {"src", "lib", "tests", "tools", "docs", "src/net"};
    static const char *const ends[] = {".py", ".c", ".ts", ".md", ".json"};
    row_add(w, folders[row_draw(w, sizeof folders / sizeof *folders)]);
    row_add(w, "/");
    row_add(w, row_word(w));
    row_add(w, "_");
    row_add(w, row_word(w));
    row_add(w, ends[row_draw(w, sizeof ends / sizeof *ends)]);
}

static const char *const row_tools[] = {"read_file", "search", "run_tests", "edit_file"};
enum { ROW_TOOLS = sizeof row_tools / sizeof *row_tools };

static inline void row_add_call(row_writer *w, uint64_t tool)
{
    row_addf(w, "{\"name\":\"%s\",\"call_id\":\"call_%012" PRIx64 "\",\"arguments\":{\"path\":\"",
             row_tools[tool], row_draw(w, UINT64_C(1) << 48));
    row_add_path(w);
    switch (tool) {
    case 0: row_addf(w, "\",\"offset\":%" PRIu64 ",\"limit\":200", row_draw(w, 2000)); break;
    case 1:
        row_add(w, "\",\"query\":\"");
        row_add_words(w, 3);
        row_add(w, "\",\"max_results\":20");
        break;
    case 2:
        row_addf(w, "\",\"timeout_s\":%" PRIu64 ",\"verbose\":false", 30 * (1 + row_draw(w, 4)));
        break;
    default:
        row_add(w, "\",\"old\":\"");
        row_add_words(w, 6);
        row_add(w, "\",\"new\":\"");
        row_add_words(w, 7);
        row_add(w, "\"");
    }
    row_add(w, "}}");
}

static inline void row_add_observation(row_writer *w)
{
    uint64_t lines = 3 + row_draw(w, 6);
    uint64_t first = row_draw(w, 900);
    bool ok = row_draw(w, 8) > 0;
    row_addf(w, "{\"status\":\"%s\",\"exit_code\":%d,\"duration_ms\":%" PRIu64 ",\"text\":\"",
             ok ? "ok" : "error", !ok, row_draw(w, 9000));
    for (uint64_t i = 0; i < lines; i++) {
        row_addf(w, "%5" PRIu64 ": ", first + i);
        row_add_words(w, 4 + row_draw(w, 9));
        row_add(w, "\\n");
    }
    row_add(w, "\"}");
}

/* One draw for the whole time of day: the order of several in one call would be the compiler's. */
static inline void row_add_time(row_writer *w)
{
    unsigned ms = (unsigned)row_draw(w, 28u * 24 * 3600 * 1000);
    row_addf(w, "\"2026-03-%02uT%02u:%02u:%02u.%03uZ\"", 1 + ms / 86400000, ms / 3600000 % 24,
             ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

static inline size_t row_put_json(char to[ROW_JSON_BYTES_MAX], uint64_t random, uint64_t tool)
{
    row_writer w = {.random = random, .to = to};
    uint64_t step = row_draw(&w, 80);
    uint64_t prompt = 1000 + row_draw(&w, 30000);
    row_addf(&w, "{\"run_id\":\"run-%08" PRIx64 "\",\"step\":%" PRIu64 ",\"timestamp\":",
             row_draw(&w, UINT64_C(1) << 32), step);
    row_add_time(&w);
    row_addf(&w, ",\"agent\":\"worker-%" PRIu64 "\",\"role\":\"assistant\",\"thought\":\"",
             row_draw(&w, 16));
    row_add_words(&w, 20 + row_draw(&w, 40));
    row_add(&w, ".\",\"tool_call\":");
    row_add_call(&w, tool);
    row_add(&w, ",\"observation\":");
    row_add_observation(&w);
    row_addf(&w, ",\"reward\":%.2f,\"tokens\":{\"prompt\":%" PRIu64, (double)(step % 5) / 4,
             prompt);
    row_addf(&w, ",\"completion\":%" PRIu64 "}}", 20 + row_draw(&w, 900));
    return w.used;
}

static inline void row_fill_json(row *r, uint64_t random)
{
    uint64_t tool = random % ROW_TOOLS;
    r->c_bytes = strlen(row_tools[tool]);
    memcpy(r->c, row_tools[tool], r->c_bytes);
    r->d_bytes = row_put_json(r->d, random, tool);
}

/* The row of that number; version makes another content of it. */
static inline void row_fill(row *r, row_shape shape, uint64_t number, uint64_t version)
{
    uint64_t random = row_mix(number + version * 0x10001);
    row_put_key(r->key, number);
    r->a = (int64_t)(random >> 34);
    r->b = (double)(random >> 40) / 7;
    if (shape == ROW_JSON) {
        row_fill_json(r, random);
    } else {
        row_fill_small(r, random);
    }
}

#endif
