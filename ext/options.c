/* options.c: one row per option: its name, how it is read, what is allowed.
**
** group_rows, page_bytes and file_bytes exist for tests that want deep files and many of them from
** few rows; they stand in tests/README.md and are not named in messages. */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"

typedef enum outcome { TAKEN, BAD_VALUE, NO_MEMORY } outcome;

/* A whole number in [low, high]. */
static bool read_number(const char *value, uint64_t low, uint64_t high, uint64_t *number)
{
    if (*value < '0' || *value > '9') return false;
    char *end = NULL;
    errno = 0;
    unsigned long long parsed = strtoull(value, &end, 10);
    *number = parsed;
    return errno == 0 && *end == '\0' && parsed >= low && parsed <= high;
}

/* A number of bytes, or one with KB, MB or GB behind it (powers of 1024). */
static bool read_bytes(const char *value, uint64_t low, uint64_t high, uint64_t *bytes)
{
    static const struct { const char *name; unsigned shift; } units[] = {
        {"", 0}, {"B", 0}, {"KB", 10}, {"MB", 20}, {"GB", 30},
    };
    if (*value < '0' || *value > '9') return false;
    char *unit = NULL;
    errno = 0;
    unsigned long long parsed = strtoull(value, &unit, 10);
    if (errno != 0) return false;
    unit += strspn(unit, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (sqlite3_stricmp(unit, units[i].name) != 0) continue;
        if (parsed > high >> units[i].shift) return false;
        *bytes = (uint64_t)parsed << units[i].shift;
        return *bytes >= low;
    }
    return false;
}

static outcome set_path(mx_args *args, const char *value)
{
    if (!*value) return BAD_VALUE;
    args->path = sqlite3_mprintf("%s", value);
    return args->path ? TAKEN : NO_MEMORY;
}

static outcome set_durability(mx_args *args, const char *value)
{
    if (sqlite3_stricmp(value, "full") == 0) {
        args->options.durability = MW_DURABILITY_FULL;
    } else if (sqlite3_stricmp(value, "normal") == 0) {
        args->options.durability = MW_DURABILITY_NORMAL;
    } else {
        return BAD_VALUE;
    }
    return TAKEN;
}

static outcome set_memtable(mx_args *args, const char *value)
{
    bool good = read_bytes(value, 1024, 16ull << 30, &args->options.memtable_bytes);
    return good ? TAKEN : BAD_VALUE;
}

static outcome set_cache(mx_args *args, const char *value)
{
    bool good = read_bytes(value, 0, 1ull << 40, &args->options.cache_bytes);
    return good ? TAKEN : BAD_VALUE;
}

static outcome set_merge_generations(mx_args *args, const char *value)
{
    uint64_t number = 0;
    if (!read_number(value, 1, 1000, &number)) return BAD_VALUE;
    args->options.merge_generations = (uint32_t)number;
    return TAKEN;
}

static outcome set_compression(mx_args *args, const char *value)
{
    uint64_t number = 0;
    if (!read_number(value, 0, 19, &number)) return BAD_VALUE;
    args->options.compression = (int)number;
    return TAKEN;
}

static outcome set_background(mx_args *args, const char *value)
{
    args->options.background = sqlite3_stricmp(value, "on") == 0;
    bool good = args->options.background || sqlite3_stricmp(value, "off") == 0;
    return good ? TAKEN : BAD_VALUE;
}

static outcome set_snapshot(mx_args *args, const char *value)
{
    args->options.statement_moments = sqlite3_stricmp(value, "statement") == 0;
    bool good = args->options.statement_moments || sqlite3_stricmp(value, "transaction") == 0;
    return good ? TAKEN : BAD_VALUE;
}

static outcome set_group_rows(mx_args *args, const char *value)
{
    uint64_t number = 0;
    if (!read_number(value, 1, 4096, &number)) return BAD_VALUE;
    args->options.group_rows = (uint32_t)number;
    return TAKEN;
}

static outcome set_page_bytes(mx_args *args, const char *value)
{
    uint64_t number = 0;
    if (!read_number(value, 1, 32768, &number)) return BAD_VALUE;
    args->options.page_bytes = (uint32_t)number;
    return TAKEN;
}

static outcome set_file_bytes(mx_args *args, const char *value)
{
    bool good = read_bytes(value, 1, 1ull << 40, &args->options.file_bytes);
    return good ? TAKEN : BAD_VALUE;
}

/* ---- showing a value, as it could be written ------------------------------------------------- */

static void show_word(sqlite3_context *context, const char *word)
{
    sqlite3_result_text(context, word, -1, SQLITE_STATIC);
}

/* A size in its largest unit that leaves no rest; a number where it has none. */
static void show_bytes(sqlite3_context *context, uint64_t bytes)
{
    static const struct { const char *name; unsigned shift; } units[] = {
        {"GB", 30}, {"MB", 20}, {"KB", 10},
    };
    for (size_t i = 0; bytes > 0 && i < sizeof units / sizeof units[0]; i++) {
        if (bytes & ((1ull << units[i].shift) - 1)) continue;
        char *text = sqlite3_mprintf("%llu%s", (unsigned long long)(bytes >> units[i].shift),
                                     units[i].name);
        if (text) {
            sqlite3_result_text(context, text, -1, sqlite3_free);
        } else {
            sqlite3_result_error_nomem(context);
        }
        return;
    }
    sqlite3_result_int64(context, (sqlite3_int64)bytes);
}

static void show_durability(sqlite3_context *context, const mw_options *from)
{
    show_word(context, from->durability == MW_DURABILITY_FULL ? "full" : "normal");
}

static void show_memtable(sqlite3_context *context, const mw_options *from)
{
    show_bytes(context, from->memtable_bytes);
}

static void show_cache(sqlite3_context *context, const mw_options *from)
{
    show_bytes(context, from->cache_bytes);
}

static void show_merge_generations(sqlite3_context *context, const mw_options *from)
{
    sqlite3_result_int64(context, from->merge_generations);
}

static void show_compression(sqlite3_context *context, const mw_options *from)
{
    sqlite3_result_int(context, from->compression);
}

static void show_background(sqlite3_context *context, const mw_options *from)
{
    show_word(context, from->background ? "on" : "off");
}

static void show_snapshot(sqlite3_context *context, const mw_options *from)
{
    show_word(context, from->statement_moments ? "statement" : "transaction");
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct option {
    const char *name;
    outcome (*set)(mx_args *args, const char *value);
    void (*show)(sqlite3_context *context, const mw_options *from); /* NULL: fixed at CREATE */
    const char *allowed;
} option;

static const option options[] = {
    {"path", set_path, NULL, "the folder of the store"},
    {"durability", set_durability, show_durability, "'full' or 'normal'"},
    {"memtable", set_memtable, show_memtable, "a size from '1KB' to '16GB'"},
    {"cache", set_cache, show_cache, "a size from 0 to '1024GB'"},
    {"merge_generations", set_merge_generations, show_merge_generations,
     "a number from 1 to 1000"},
    {"compression", set_compression, show_compression, "a zstd level from 1 to 19, or 0 for none"},
    {"background", set_background, show_background, "'on' or 'off'"},
    {"snapshot", set_snapshot, show_snapshot, "'transaction' or 'statement'"},
    {"group_rows", set_group_rows, NULL, "a number from 1 to 4096"},
    {"page_bytes", set_page_bytes, NULL, "a number from 1 to 32768"},
    {"file_bytes", set_file_bytes, NULL, "a size from 1 to '1024GB'"},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

/* The option's number, OPTION_COUNT: there is none of that name. */
static unsigned find_option(const char *key)
{
    unsigned i = 0;
    while (i < OPTION_COUNT && sqlite3_stricmp(key, options[i].name) != 0) i++;
    return i;
}

static int take_value(const option *of, mx_args *args, const char *value, char **error)
{
    switch (of->set(args, value)) {
    case TAKEN: break;
    case NO_MEMORY: return SQLITE_NOMEM;
    case BAD_VALUE:
        return mx_err_put(error, SQLITE_ERROR, "option %s = '%s': expected %s", of->name, value,
                          of->allowed);
    }
    return SQLITE_OK;
}

int mx_options_set(mx_args *args, const char *key, const char *value, unsigned *seen, char **error)
{
    unsigned i = find_option(key);
    if (i == OPTION_COUNT) {
        return mx_err_put(error, SQLITE_ERROR,
                          "unknown option %s: expected path, durability, memtable, cache, "
                          "merge_generations, compression, background or snapshot",
                          key);
    }
    if (*seen & 1u << i) {
        return mx_err_put(error, SQLITE_ERROR, "option %s is given twice", options[i].name);
    }
    *seen |= 1u << i;
    return take_value(&options[i], args, value, error);
}

int mx_options_change(mw_options *in, const char *key, const char *value, const char **name,
                      char **error)
{
    unsigned i = find_option(key);
    if (i == OPTION_COUNT) {
        return mx_err_put(error, SQLITE_ERROR,
                          "unknown option %s: expected durability, memtable, cache, "
                          "merge_generations, compression, background or snapshot",
                          key);
    }
    if (!options[i].show) {
        return mx_err_put(error, SQLITE_ERROR,
                          "option %s is fixed at CREATE: expected durability, memtable, cache, "
                          "merge_generations, compression, background or snapshot",
                          options[i].name);
    }
    mx_args args = {.options = *in};
    int rc = take_value(&options[i], &args, value, error);
    if (rc != SQLITE_OK) return rc;
    *in = args.options;
    *name = options[i].name;
    return SQLITE_OK;
}

void mx_options_show(sqlite3_context *context, const char *name, const mw_options *from)
{
    options[find_option(name)].show(context, from);
}
