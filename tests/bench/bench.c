/* bench.c: memwal beside ordinary SQLite tables: the same rows, the same statements, one run.
**
** Every repeat measures each work on both sides, taking turns in who is first; the ratio of a
** work is the median over the repeats of the ratios inside them. README.md says what the works
** are and where the targets come from.
**
**   bench LIBRARY FOLDER [--rows N] [--json-rows N] [--repeats N] [--only W1,W3]
**
** The folder is emptied; it must lie on the disk that is to be measured. */
#include "counters.h"
#include "results.h"
#include "works.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void measure_all(bool memwal_first)
{
    if (is_wanted(W1_ONE)) measure_one_thread(memwal_first);
    if (is_wanted(W1_SIXTEEN)) measure_many_threads(memwal_first);
    if (is_wanted(W2_SEQUENTIAL)) measure_ascending_loads(memwal_first);
    if (!wanted.only || strpbrk(wanted.only, "23457")) measure_small_rows(memwal_first);
    if (is_wanted(W4_SUM_JSON) || is_wanted(W6_LOAD)) measure_json_rows(memwal_first);
    if (is_wanted(W8_OPEN)) measure_open_after_kill(memwal_first);
    if (is_wanted(W8_SHORT)) measure_short_process(memwal_first);
}

static void read_option(const char *name, const char *value)
{
    if (strcmp(name, "--rows") == 0) {
        wanted.rows = atoll(value);
    } else if (strcmp(name, "--json-rows") == 0) {
        wanted.json_rows = atoll(value);
    } else if (strcmp(name, "--repeats") == 0) {
        wanted.repeats = atoi(value);
    } else if (strcmp(name, "--only") == 0) {
        wanted.only = value;
    } else {
        give_up("unknown option %s: expected --rows, --json-rows, --repeats or --only", name);
    }
}

static void read_options(int argc, char **argv)
{
    if (argc < 3) {
        give_up("bench LIBRARY FOLDER [--rows N] [--json-rows N] [--repeats N] [--only W1,W3]");
    }
    for (int i = 3; i + 1 < argc; i += 2) read_option(argv[i], argv[i + 1]);
    if (argc % 2 == 0) give_up("%s: expected a value", argv[argc - 1]);
    if (wanted.rows < 10000) give_up("--rows: expected 10000 or more");
    if (wanted.json_rows < 1000) give_up("--json-rows: expected 1000 or more");
    if (wanted.repeats < 1 || wanted.repeats > REPEATS_MAX) {
        give_up("--repeats: expected 1 to %d", REPEATS_MAX);
    }
    if (!realpath(argv[1], wanted.extension)) give_up("%s: %s", argv[1], strerror(errno));
    empty_folder(argv[2]);
    if (!realpath(argv[2], wanted.folder)) give_up("%s: %s", argv[2], strerror(errno));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--child") == 0) return open_as_child(argc, argv);
    read_options(argc, argv);
    for (int i = 0; i < wanted.repeats; i++) {
        fprintf(stderr, "repeat %d of %d\n", i + 1, wanted.repeats);
        measure_all(i % 2 == 0);
    }
    print_table();
    empty_folder(wanted.folder);
    return 0;
}
