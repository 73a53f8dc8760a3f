/* options.c: one row per option: its name, how it is read, what is allowed.
**
** group_rows and page_bytes exist for tests that want deep files from few rows; they stand in
** tests/README.md and are not named in messages. */
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
    (void)args; /* the only kind there is */
    return sqlite3_stricmp(value, "statement") == 0 ? TAKEN : BAD_VALUE;
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

static const struct {
    const char *name;
    outcome (*set)(mx_args *args, const char *value);
    const char *allowed;
} options[] = {
    {"path", set_path, "the folder of the store"},
    {"durability", set_durability, "'full' or 'normal'"},
    {"memtable", set_memtable, "a size from '1KB' to '16GB'"},
    {"cache", set_cache, "a size from 0 to '1024GB'"},
    {"merge_generations", set_merge_generations, "a number from 1 to 1000"},
    {"compression", set_compression, "a zstd level from 1 to 19, or 0 for none"},
    {"background", set_background, "'on' or 'off'"},
    {"snapshot", set_snapshot, "'statement' ('transaction' is not built yet)"},
    {"group_rows", set_group_rows, "a number from 1 to 4096"},
    {"page_bytes", set_page_bytes, "a number from 1 to 32768"},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

int mx_options_set(mx_args *args, const char *key, const char *value, unsigned *seen, char **error)
{
    int i = 0;
    while (i < OPTION_COUNT && sqlite3_stricmp(key, options[i].name) != 0) i++;
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
    switch (options[i].set(args, value)) {
    case TAKEN: break;
    case NO_MEMORY: return SQLITE_NOMEM;
    case BAD_VALUE:
        return mx_err_put(error, SQLITE_ERROR, "option %s = '%s': expected %s", options[i].name,
                          value, options[i].allowed);
    }
    return SQLITE_OK;
}
