/* golden_test.c: stores of each format version, kept as files in tests/golden/v<version>/, still read as
** they were written: by SELECT, by memwal_check and by tests/support/read_store.py.
**
**   golden_test                 all tests
**   golden_test --make FOLDER   writes FOLDER/v<version> anew, in the version that is written now
**                               (make golden does it with tests/golden)
**
**   v<version>/<key>-open       as a kill leaves it: two base levels, a generation, a log with
**                               commits, an abort, a large transaction (taken back in every second)
**   v<version>/<key>-closed     the same, opened by the next epoch, changed, closed
**   v<version>/pages-closed     pages of every encoding
**   v<version>/<..>-*.rows      the rows of each
**   v<version>/large-closed     a file with a dictionary; its rows follow from their ids */
#include "reader.h"

enum { GOLDEN_SEED = 20, GOLDEN_KINDS = 5, GOLDEN_KEYS = 60, GOLDEN_BYTES = 12, LARGE_ROWS = 400 };

/* What the stores of a version must have between them. */
static const char *const all_facts[] = {
    "abort", "adopt", "adopt taken back", "closed", "commit", "commit taken back", "copy",
    "dictionary", "encoding 1", "encoding 2", "encoding 3", "encoding 4", "encoding 5",
    "encoding 6", "encoding 7", "encoding 8", "encoding 9", "encoding 10", "level 0", "level 1",
    "level 2", "open", NULL,
};

static const char *const facts_from_version_3[] = {"prepare", "decision", NULL};

/* A text of 3 KB that no compressor shortens much, but for what rows have in common. */
#define LARGE_TEXT                                                                              \
    "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"            \
    " SELECT group_concat(printf('%x', i * i * 2654435761 % 4294967291), '') FROM n)"
#define SERIES "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d) "

/* ---- making -------------------------------------------------------------------------------- */

static void golden_path(char path[READER_PATH_BYTES], const char *folder, const char *name,
                        const char *end)
{
    path_make(path, "%s/%s-%s", folder, name, end);
}

/* A copy of the store as it lies there, without what the files do not need. */
static void keep_store(const place *here, const char *folder, const char *end)
{
    char path[READER_PATH_BYTES];
    char name[READER_PATH_BYTES];
    golden_path(path, folder, here->kind->name, end);
    folder_copy(here->store, path);
    cut_room(path);
    path_make(name, "%s/lock", path);
    if (remove(name)) client_fail("%s: %s", name, strerror(errno));
}

static void keep(const place *here, const lines *rows, const char *folder, const char *end)
{
    char path[READER_PATH_BYTES];
    char name[READER_PATH_BYTES];
    keep_store(here, folder, end);
    path_make(name, "%s.rows", end);
    golden_path(path, folder, here->kind->name, name);
    FILE *file = fopen(path, "w");
    if (!file) client_fail("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < rows->count; i++) fprintf(file, "%s\n", rows->line[i]);
    if (fclose(file)) client_fail("writing %s", path);
}

static lines rows_of(const place *here)
{
    char sql[SQL_BYTES];
    select_of(here->kind, sql);
    lines rows = select_lines(here->db, sql);
    if (!lines_ok(&rows)) client_fail("%s: %s", here->kind->name, rows.verdict);
    return rows;
}

static void put_some(place *here, int count)
{
    for (int i = 0; i < count; i++) {
        put_row(here->db, here->kind, draw(here, GOLDEN_KEYS), &here->random, GOLDEN_BYTES);
    }
}

/* Generations of one row make a base of some rows a deep one. */
static void make_levels(place *here)
{
    for (uint64_t n = 0; n < GOLDEN_KEYS; n++) {
        put_row(here->db, here->kind, n, &here->random, GOLDEN_BYTES);
        client_run(here->db, "SELECT memwal_flush('t')");
    }
    client_run(here->db, "SELECT memwal_merge('t')");
    for (int i = 0; i < 2; i++) {
        put_some(here, 3);
        drop(here, "=");
        client_run(here->db, "SELECT memwal_flush('t'), memwal_merge('t')");
    }
}

/* A transaction that the log does not hold itself: the last of the log, or all of it would be flushed. */
static void make_large(place *here, bool taken_back)
{
    client_run(here->db, "BEGIN");
    put_some(here, 30);
    drop(here, "=");
    if (taken_back) sqlite3_commit_hook(here->db, veto, NULL);
    int rc = client_try(here->db, NULL, "COMMIT");
    assert_int_equal(rc, taken_back ? SQLITE_CONSTRAINT_COMMITHOOK : SQLITE_OK);
    sqlite3_commit_hook(here->db, NULL, NULL);
}

/* A column for each encoding; the names of key_kind are those of the stores here. */
static const key_kind pages_kind = {"pages", "", "", "id", "i"};
static const key_kind large_kind = {"large", "", "", "id", "i"};
static const char pages_select[] = "SELECT * FROM t ORDER BY id";

static void make_pages(const char *folder)
{
    place here;
    place_begin(&here, &pages_kind, GOLDEN_SEED);
    client_run(here.db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, constant, "
                        "integers, deltas, reals, texts, blobs, mixed, decimals, few, shared, "
                        "path = 'store', background = off, group_rows = 40)");
    client_run(here.db,
               "INSERT INTO t " SERIES "SELECT n * n, 'same', n * 7919 %% 1009, n * 1000 + n %% 3, "
               "1e9 / (n * n + 7), printf('%%x', n * n * n * 7919), "
               "CAST(printf('%%x', n * n * 104729) AS BLOB), "
               "CASE n %% 4 WHEN 0 THEN NULL WHEN 1 THEN n WHEN 2 THEN n / 7.0 ELSE 'n' || n END, "
               "n / 4.0 + n %% 5, "
               "CASE n * n %% 7 WHEN 1 THEN 'user message' WHEN 2 THEN 'tool call' ELSE 'answer' END, "
               "printf('https://example.org/sessions/2026/%%04d/steps', n) FROM s", 60);
    client_run(here.db, "SELECT memwal_flush('t')");
    lines rows = select_lines(here.db, pages_select);
    client_close(here.db);
    keep(&here, &rows, folder, "closed");
    lines_free(&rows);
    client_folder_remove(here.folder);
}

static void make_with_dictionary(const char *folder)
{
    place here;
    place_begin(&here, &large_kind, GOLDEN_SEED);
    client_run(here.db, "CREATE VIRTUAL TABLE t USING memwal(id INTEGER PRIMARY KEY, v, "
                        "path = 'store', background = off)");
    /* Two files that overlap: a single one would be moved as it is. */
    for (int odd = 0; odd < 2; odd++) {
        client_run(here.db, "INSERT INTO t " SERIES "SELECT n, n || v || (n * 7919) FROM s, "
                            "(SELECT %s AS v) WHERE n %% 2 = %d", LARGE_ROWS, LARGE_TEXT, odd);
        client_run(here.db, "SELECT memwal_flush('t')");
    }
    client_run(here.db, "SELECT memwal_compact('t')"); /* trains; merges do not */
    client_close(here.db);
    keep_store(&here, folder, "closed");
    client_folder_remove(here.folder);
}

static void make_kind(const char *folder, const key_kind *kind)
{
    place here;
    place_make(&here, kind, GOLDEN_SEED,
               "background = off, memtable = '4KB', group_rows = 16, page_bytes = 400, "
               "file_bytes = '3KB', merge_generations = 1");
    make_levels(&here);
    client_run(here.db, "SELECT memwal_set('t', 'merge_generations', '1000')");
    put_some(&here, 6);
    drop(&here, "<=");
    client_run(here.db, "SELECT memwal_flush('t')");
    put_some(&here, 2);
    commit_and_take_back(&here, false);
    put_some(&here, 1);
    make_large(&here, (kind - key_kinds) % 2);
    lines rows = rows_of(&here);
    keep(&here, &rows, folder, "open");
    lines_free(&rows);
    client_close(here.db);
    /* The next opener finds neither a clean end nor this machine's: it takes over. */
    char state[READER_PATH_BYTES];
    path_make(state, "%s/store/state", here.folder);
    if (remove(state)) client_fail("%s: %s", state, strerror(errno));
    place_open(&here);
    put_some(&here, 3);
    rows = rows_of(&here);
    client_close(here.db);
    keep(&here, &rows, folder, "closed");
    lines_free(&rows);
    client_folder_remove(here.folder);
}

/* The format version that manifests tell. */
static unsigned version_of(const char *store)
{
    enum { VERSION = 8 };
    char path[READER_PATH_BYTES];
    lines names = folder_names(store);
    unsigned version = 0;
    for (size_t i = 0; i < names.count; i++) {
        size_t size;
        if (strncmp(names.line[i], "manifest-", 9) != 0) continue;
        path_make(path, "%s/%s", store, names.line[i]);
        uint8_t *bytes = file_bytes(path, &size);
        if (size > VERSION) version = bytes[VERSION];
        free(bytes);
    }
    lines_free(&names);
    return version;
}

/* Writes FOLDER/v<version>, whose path goes to `made`; what was there goes. */
static void make_all(const char *folder, char made[READER_PATH_BYTES])
{
    char fresh[READER_PATH_BYTES];
    char store[READER_PATH_BYTES];
    path_make(fresh, "%s/new", folder);
    client_folder_remove(fresh);
    if (mkdir(fresh, 0755)) client_fail("%s: %s", fresh, strerror(errno));
    for (int k = 0; k < GOLDEN_KINDS; k++) make_kind(fresh, &key_kinds[k]);
    make_pages(fresh);
    make_with_dictionary(fresh);
    golden_path(store, fresh, key_kinds[0].name, "closed");
    path_make(made, "%s/v%u", folder, version_of(store));
    client_folder_remove(made);
    if (rename(fresh, made)) client_fail("%s: %s", made, strerror(errno));
}

/* ---- reading ------------------------------------------------------------------------------- */

static lines kept_rows(const char *path)
{
    lines rows = {.verdict = reader_need(strdup("ok"))};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file) client_fail("%s: %s", path, strerror(errno));
    for (ssize_t n; (n = getline(&line, &room, file)) > 0;) {
        line[n - 1] = 0;
        lines_add(&rows, reader_need(strdup(line)));
    }
    free(line);
    fclose(file);
    return rows;
}

static void check_rows(const char *store, const char *who, lines found, const lines *right)
{
    char words[CLIENT_TEXT_BYTES];
    if (!lines_ok(&found)) client_fail("%s: %s: %s", store, who, found.verdict);
    if (lines_differ(&found, right, words)) client_fail("%s: %s: %s", store, who, words);
    lines_free(&found);
}

/* A store of some version, copied, and who reads it. */
typedef struct kept {
    char path[READER_PATH_BYTES];
    char folder[PATH_MAX];
    char copy[READER_PATH_BYTES];
    const char *select;
    reader reader;
    sqlite3 *db;
} kept;

static kept kept_open(const char *golden, const char *name, const char *end, const char *select)
{
    kept store = {.select = select, .reader = reader_start()};
    golden_path(store.path, golden, name, end);
    client_folder_make(store.folder);
    path_make(store.copy, "%s/store", store.folder);
    folder_copy(store.path, store.copy);
    return store;
}

static void kept_attach(kept *store)
{
    store->db = client_open(":memory:");
    client_run(store->db, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s')", store->copy);
}

static void kept_close(kept *store)
{
    reader_stop(&store->reader);
    client_folder_remove(store->folder);
}

/* Both read these rows, before and after the engine has written everything anew. */
static void check_kept(kept *store, const lines *right)
{
    check_rows(store->path, "the reader", reader_ask(&store->reader, store->copy), right);
    kept_attach(store);
    check_rows(store->path, "SELECT", select_lines(store->db, store->select), right);
    assert_int_equal(client_ask(store->db, "SELECT memwal_count('temp.t')"), right->count);
    client_check_store(store->db);
    client_run(store->db, "SELECT memwal_flush('t'), memwal_merge('t'), memwal_compact('t')");
    check_rows(store->path, "SELECT, merged", select_lines(store->db, store->select), right);
    client_close(store->db);
    check_rows(store->path, "the reader, merged", reader_ask(&store->reader, store->copy), right);
}

static void check_store(const char *golden, const char *name, const char *end, const char *select,
                        lines *met)
{
    char path[READER_PATH_BYTES];
    char rows[64];
    snprintf(rows, sizeof rows, "%s.rows", end);
    golden_path(path, golden, name, rows);
    lines right = kept_rows(path);
    kept store = kept_open(golden, name, end, select);
    note_facts(store.copy, &store.reader, met);
    check_kept(&store, &right);
    kept_close(&store);
    lines_free(&right);
}

static void check_dictionary(const char *golden, lines *met)
{
    kept store = kept_open(golden, large_kind.name, "closed", "SELECT id, v FROM t ORDER BY id");
    char sql[SQL_BYTES];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM t WHERE v = id || %s || (id * 7919)", LARGE_TEXT);
    note_facts(store.copy, &store.reader, met);
    kept_attach(&store);
    lines right = select_lines(store.db, store.select);
    assert_int_equal(client_ask(store.db, sql), LARGE_ROWS);
    assert_int_equal(right.count, LARGE_ROWS);
    client_close(store.db);
    check_kept(&store, &right);
    kept_close(&store);
    lines_free(&right);
}

static void check_all(const char *golden)
{
    char sql[SQL_BYTES];
    lines met = {0};
    for (int k = 0; k < GOLDEN_KINDS; k++) {
        select_of(&key_kinds[k], sql);
        check_store(golden, key_kinds[k].name, "open", sql, &met);
        check_store(golden, key_kinds[k].name, "closed", sql, &met);
    }
    check_store(golden, pages_kind.name, "closed", pages_select, &met);
    check_dictionary(golden, &met);
    must_have_met(&met, all_facts);
    if (!strstr(golden, "/v2")) must_have_met(&met, facts_from_version_3);
    lines_free(&met);
}

/* What is kept when this version is released; also proves that making works. */
static void golden_stores_made_now_read_back(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    char made[READER_PATH_BYTES];
    client_folder_make(folder);
    make_all(folder, made);
    check_all(made);
    client_folder_remove(folder);
}

/* The files of every format version that was ever kept. */
static void golden_stores_of_each_kept_version_read_back(void **state)
{
    (void)state;
    char path[READER_PATH_BYTES];
    lines versions = folder_names("tests/golden");
    for (size_t i = 0; i < versions.count; i++) {
        path_make(path, "tests/golden/%s", versions.line[i]);
        check_all(path);
        print_message("%s\n", path);
    }
    lines_free(&versions);
}

int main(int argc, char **argv)
{
    char made[READER_PATH_BYTES];
    signal(SIGPIPE, SIG_IGN);
    client_use_memory();
    if (argc == 3 && strcmp(argv[1], "--make") == 0) {
        client_is_worker = true;
        make_all(argv[2], made);
        printf("%s\n", made);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_stores_made_now_read_back),
        cmocka_unit_test(golden_stores_of_each_kept_version_read_back),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
