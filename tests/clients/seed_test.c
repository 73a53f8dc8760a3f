/* seed_test.c: the promise that memwal began with, at small scale and in every step: each row
** once, an exact count at any moment, and files that hold nothing twice.
**
**   step = one row changed, flushed, after every tenth merged, the database closed and opened again
**
** What the files hold is counted by tests/support/read_table.py, a reader that was written from
** FORMAT.md and shares no code with the engine; where the log begins is read from the segments
** themselves.
**
**   seed_test                  all tests
**   seed_test --seed SEED      with the random moments of one run again
**   seed_test --worker ...     is started by the tests, to be killed */
#include "client.h"

#include <dirent.h>

enum { IDS = 30, MERGE_EVERY = 10, PATH_BYTES = PATH_MAX + 128, NAMES_MAX = 256 };

static uint64_t seed;

typedef struct place {
    char folder[PATH_MAX];
    char database[PATH_BYTES];
    char store[PATH_BYTES];
    sqlite3 *db;
} place;

typedef struct file_name {
    char text[NAME_MAX + 1];
} file_name;

/* Bytes of a file; the caller frees. */
typedef struct content {
    uint8_t *data;
    size_t size;
} content;

static void place_name(place *here, const char *folder)
{
    snprintf(here->folder, sizeof here->folder, "%s", folder);
    snprintf(here->database, sizeof here->database, "%s/test.db", folder);
    snprintf(here->store, sizeof here->store, "%s/store", folder);
}

static void place_make(place *here)
{
    char folder[PATH_MAX];
    client_folder_make(folder);
    place_name(here, folder);
    here->db = client_open(here->database);
}

static void place_reopen(place *here)
{
    client_close(here->db);
    here->db = client_open(here->database);
}

static void place_remove(place *here)
{
    client_close(here->db);
    client_folder_remove(here->folder);
}

/* ---- files as they lie there ------------------------------------------------------------- */

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[PATH_BYTES + NAME_MAX];
    snprintf(path, sizeof path, "%s/%.255s", folder, name);
    FILE *file = fopen(path, mode);
    if (!file) client_fail("%s: %s", path, strerror(errno));
    return file;
}

static content read_file(const char *folder, const char *name)
{
    FILE *file = open_in(folder, name, "rb");
    struct stat info;
    if (fstat(fileno(file), &info)) client_fail("%s: %s", name, strerror(errno));
    content all = {malloc((size_t)info.st_size + 1), (size_t)info.st_size};
    if (!all.data || fread(all.data, 1, all.size, file) != all.size) {
        client_fail("reading %s", name);
    }
    fclose(file);
    return all;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const file_name *)a)->text, ((const file_name *)b)->text);
}

/* Names with a prefix, in ascending order; how many. */
static int list_names(const char *folder, const char *prefix, file_name names[NAMES_MAX])
{
    DIR *stream = opendir(folder);
    if (!stream) client_fail("%s: %s", folder, strerror(errno));
    int count = 0;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        if (count == NAMES_MAX) client_fail("%s has more than %d files", folder, NAMES_MAX);
        snprintf(names[count].text, sizeof names[count].text, "%s", entry->d_name);
        count++;
    }
    closedir(stream);
    qsort(names, (size_t)count, sizeof *names, by_name);
    return count;
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | from[i];
    return value;
}

/* The cursor in the newest manifest: FORMAT.md, "Manifests". */
static uint64_t cursor_on_disk(const char *store)
{
    enum { CURSOR = 48 };
    static file_name names[NAMES_MAX];
    int count = list_names(store, "manifest-", names);
    assert_true(count > 0);
    content manifest = read_file(store, names[count - 1].text);
    assert_true(manifest.size > CURSOR + 8);
    uint64_t cursor = get_u64(manifest.data + CURSOR);
    free(manifest.data);
    return cursor;
}

static uint64_t first_position(const char *store, const file_name *segment)
{
    enum { FIRST_POSITION = 56, HEADER_BYTES = 96 };
    content bytes = read_file(store, segment->text);
    assert_true(bytes.size >= HEADER_BYTES);
    uint64_t first = get_u64(bytes.data + FIRST_POSITION);
    free(bytes.data);
    return first;
}

/* No segment lies at or below the cursor: one ends where the next begins, and only the last is
** open. */
static void check_log_is_trimmed(const place *here)
{
    static file_name names[NAMES_MAX];
    uint64_t cursor = cursor_on_disk(here->store);
    int count = list_names(here->store, "wal-", names);
    assert_true(count > 0);
    uint64_t first = first_position(here->store, &names[0]);
    for (int i = 1; i < count; i++) {
        uint64_t next = first_position(here->store, &names[i]);
        if (first <= cursor && next - 1 <= cursor) {
            client_fail("%s ends at position %" PRIu64 ", the cursor is %" PRIu64,
                        names[i - 1].text, next - 1, cursor);
        }
        first = next;
    }
    assert_int_equal(client_figure(here->db, "wal_cursor"), cursor);
}

/* What one line of read_table.py counts: "<path>: rows 3, tombstones 1, distinct ids 4". */
static int64_t versions_in_line(const char *line)
{
    long long rows;
    long long tombstones;
    long long ids;
    const char *figures = strstr(line, ": rows ");
    if (!figures || sscanf(figures, ": rows %lld, tombstones %lld, distinct ids %lld", &rows,
                           &tombstones, &ids) != 3) {
        client_fail("read_table.py said %s", line);
    }
    assert_int_equal(rows + tombstones, ids); /* I6 */
    return rows + tombstones;
}

/* Row versions and tombstones in all table files of the folder, counted without the engine. */
static int64_t versions_in_files(const place *here)
{
    enum { FILES_MAX = 8 };
    static file_name names[NAMES_MAX];
    const char *arguments[FILES_MAX + 3] = {"/usr/bin/python3", "tests/support/read_table.py"};
    char paths[FILES_MAX][PATH_BYTES + NAME_MAX + 2];
    char line[2 * PATH_BYTES];
    int count = list_names(here->store, "table-", names);
    assert_in_range(count, 0, FILES_MAX);
    for (int i = 0; i < count; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%.255s", here->store, names[i].text);
        arguments[i + 2] = paths[i];
    }
    if (count == 0) return 0;
    client_worker reader = client_worker_start(arguments);
    FILE *lines = fdopen(reader.from, "r");
    assert_non_null(lines);
    int64_t versions = 0;
    for (; fgets(line, sizeof line, lines); count--) versions += versions_in_line(line);
    assert_int_equal(count, 0);
    client_worker_finish(&reader);
    fclose(lines);
    return versions;
}

/* ---- 30 rows, one by one ----------------------------------------------------------------- */

typedef struct seeds {
    place at;
    bool text;
    int64_t value[IDS]; /* 0: the id does not live */
} seeds;

/* The literal of an id. */
static const char *id_of(const seeds *s, int i, char to[32])
{
    snprintf(to, 32, s->text ? "'id-%02d'" : "%d", i + 1);
    return to;
}

static void seeds_make(seeds *s, bool text)
{
    memset(s, 0, sizeof *s);
    s->text = text;
    place_make(&s->at);
    client_run(s->at.db,
               "CREATE VIRTUAL TABLE t USING memwal(id %s PRIMARY KEY, number INTEGER, body TEXT,"
               " path = 'store', background = off)",
               text ? "TEXT" : "INTEGER");
}

static int64_t lives(const seeds *s)
{
    int64_t count = 0;
    for (int i = 0; i < IDS; i++) count += s->value[i] != 0;
    return count;
}

/* A scan meets every living id once, in order, with its newest values. */
static int64_t scan(const seeds *s)
{
    sqlite3_stmt *rows = client_prepare(s->at.db, "SELECT id, number, body FROM t ORDER BY id");
    int64_t count = 0;
    int next = 0;
    char body[64];
    char id[32];
    char quoted[32];
    for (; client_step(rows); count++, next++) {
        while (next < IDS && s->value[next] == 0) next++;
        assert_true(next < IDS);
        snprintf(quoted, sizeof quoted, s->text ? "'%s'" : "%s",
                 (const char *)sqlite3_column_text(rows, 0));
        assert_string_equal(quoted, id_of(s, next, id));
        assert_int_equal(sqlite3_column_int64(rows, 1), s->value[next]);
        snprintf(body, sizeof body, "body %" PRId64 " of %d", s->value[next], next);
        assert_string_equal((const char *)sqlite3_column_text(rows, 2), body);
    }
    client_finalize(rows);
    return count;
}

/* I7: five ways to count, one answer. */
static void check_counts(const seeds *s)
{
    sqlite3 *db = s->at.db;
    int64_t right = lives(s);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), right);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), right);
    assert_int_equal(client_ask(db, "SELECT count(DISTINCT id) FROM t"), right);
    assert_int_equal(scan(s), right);
    assert_int_equal(client_figure(db, "rows"), right);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t') = count(*) FROM t"), 1);
}

/* Flushes the one row of this step; after every tenth one merges. */
static void flush_and_merge(const seeds *s, int step)
{
    sqlite3 *db = s->at.db;
    assert_int_equal(client_ask(db, "SELECT memwal_flush('t')"), step + 1);
    check_counts(s);
    check_log_is_trimmed(&s->at);
    if ((step + 1) % MERGE_EVERY != 0) {
        assert_int_equal(client_figure(db, "generations"), (step + 1) % MERGE_EVERY);
        return;
    }
    assert_int_equal(client_ask(db, "SELECT memwal_merge('t')"), MERGE_EVERY);
    check_counts(s);
    check_log_is_trimmed(&s->at);
    assert_int_equal(client_figure(db, "generations"), 0);
    assert_int_equal(client_figure(db, "physical_rows"), lives(s));
    assert_int_equal(versions_in_files(&s->at), lives(s));
}

typedef enum change { INSERT, REPLACE, DELETE } change;

static void change_one(seeds *s, change how, int i, int step)
{
    char id[32];
    id_of(s, i, id);
    if (how == DELETE) {
        s->value[i] = 0;
        client_run(s->at.db, "DELETE FROM t WHERE id = %s", id);
        return;
    }
    s->value[i] = 1000 + step;
    client_run(s->at.db, "%s INTO t VALUES(%s, %" PRId64 ", 'body %" PRId64 " of %d')",
               how == INSERT ? "INSERT" : "REPLACE", id, s->value[i], s->value[i], i);
    assert_int_equal(sqlite3_changes(s->at.db), 1);
}

static void run_seeds(bool text)
{
    static const change rounds[] = {INSERT, REPLACE, DELETE, INSERT};
    seeds s;
    seeds_make(&s, text);
    for (int step = 0; step < IDS * 4; step++) {
        change_one(&s, rounds[step / IDS], step % IDS, step);
        check_counts(&s);
        flush_and_merge(&s, step);
        place_reopen(&s.at);
        check_counts(&s);
        check_log_is_trimmed(&s.at);
    }
    client_check_store(s.at.db);
    assert_int_equal(client_figure(s.at.db, "epoch"), 1); /* every end was a clean one */
    place_remove(&s.at);
}

/* I4, I5, I6, I7. */
static void thirty_text_ids_stay_exact_through_flush_merge_and_reopen(void **state)
{
    (void)state;
    run_seeds(true);
}

static void thirty_integer_ids_stay_exact_through_flush_merge_and_reopen(void **state)
{
    (void)state;
    run_seeds(false);
}

/* ---- killed in the middle of a flush and of a merge -------------------------------------- */

enum {
    CRASH_IDS = 20000,
    BATCHES = 2,
    BATCH_CHANGES = 5000,
    TRANSACTION_CHANGES = 500,
    CRASH_ROUNDS = 12
};

/* What the parent believes; the worker computes the same changes. */
typedef struct belief {
    int64_t value[CRASH_IDS]; /* 0: does not live */
} belief;

typedef struct one_change {
    int id;
    int64_t value; /* 0: delete */
} one_change;

static one_change change_of(uint64_t of_seed, int round, int batch, int i)
{
    uint64_t random = of_seed ^ (uint64_t)round << 40 ^ (uint64_t)batch << 32 ^ (uint64_t)i;
    uint64_t drawn = client_random(&random);
    one_change made = {.id = (int)(drawn % CRASH_IDS),
                       .value = 1 + (int64_t)(drawn >> 20) % 1000000007};
    if (drawn >> 60 < 3) made.value = 0;
    return made;
}

static void believe(belief *all, int round, int batch)
{
    for (int i = 0; i < BATCH_CHANGES; i++) {
        one_change made = change_of(seed, round, batch, i);
        all->value[made.id] = made.value;
    }
}

static void write_batch(sqlite3 *db, int round, int batch)
{
    sqlite3_stmt *put =
        client_prepare(db, "REPLACE INTO t VALUES(printf('id-%08d', ?1), ?2, 'body ' || ?2)");
    sqlite3_stmt *drop = client_prepare(db, "DELETE FROM t WHERE id = printf('id-%08d', ?1)");
    for (int i = 0; i < BATCH_CHANGES; i++) {
        if (i % TRANSACTION_CHANGES == 0) client_run(db, "BEGIN");
        one_change made = change_of(seed, round, batch, i);
        sqlite3_stmt *statement = made.value ? put : drop;
        sqlite3_bind_int(statement, 1, made.id);
        if (made.value) sqlite3_bind_int64(statement, 2, made.value);
        client_step(statement);
        sqlite3_reset(statement);
        if (i % TRANSACTION_CHANGES == TRANSACTION_CHANGES - 1) client_run(db, "COMMIT");
    }
    client_finalize(put);
    client_finalize(drop);
}

/* --worker crash FOLDER SEED ROUND WHAT: batch 0, a flush unless WHAT is one, batch 1 as the
** unmerged tail, 'r'; WHAT, 'd'; then waits for its end. */
static int crash_worker(char **arguments)
{
    place here;
    char ignored;
    place_name(&here, arguments[0]);
    seed = strtoull(arguments[1], NULL, 10);
    int round = atoi(arguments[2]);
    bool merge = strcmp(arguments[3], "merge") == 0;
    sqlite3 *db = client_open(here.database);
    write_batch(db, round, 0);
    if (merge) client_run(db, "SELECT memwal_flush('t')");
    write_batch(db, round, 1);
    client_write_all(STDOUT_FILENO, "r", 1);
    client_run(db, merge ? "SELECT memwal_merge('t')" : "SELECT memwal_flush('t')");
    client_write_all(STDOUT_FILENO, "d", 1);
    (void)client_read_all(STDIN_FILENO, &ignored, 1);
    return 0;
}

typedef struct crash {
    place at;
    belief now;
    const char *what;
    uint64_t random;
    uint64_t range_us; /* kills come within it: follows the time that `what` takes */
    int middles;       /* kills that came before its end                           */
} crash;

static client_worker start_crash_worker(const crash *c, int round)
{
    char seed_text[32];
    char round_text[32];
    snprintf(seed_text, sizeof seed_text, "%" PRIu64, seed);
    snprintf(round_text, sizeof round_text, "%d", round);
    const char *const arguments[] = {
        client_own_program(), "--worker", "crash", c->at.folder, seed_text,
        round_text,           c->what,    NULL};
    return client_worker_start(arguments);
}

/* One round: the worker is killed at a random moment of its flush or merge. In round 0 it is only
** watched. */
static void crash_once(crash *c, int round)
{
    char letter;
    client_worker worker = start_crash_worker(c, round);
    if (!client_read_all(worker.from, &letter, 1)) {
        client_fail("the worker ended before %s", c->what);
    }
    assert_int_equal(letter, 'r');
    uint64_t began = client_now_us();
    if (round == 0) {
        assert_true(client_read_all(worker.from, &letter, 1));
        c->range_us = client_now_us() - began;
        client_worker_finish(&worker);
        return;
    }
    client_sleep_us(client_pick(&c->random, c->range_us + 1));
    kill(worker.pid, SIGKILL);
    bool middle = !client_read_all(worker.from, &letter, 1);
    c->middles += middle;
    c->range_us = middle ? c->range_us * 5 / 4 : c->range_us * 3 / 4;
    assert_true(client_worker_kill(&worker));
}

static void check_belief(const crash *c)
{
    sqlite3 *db = c->at.db;
    sqlite3_stmt *rows =
        client_prepare(db, "SELECT CAST(substr(id, 4) AS INTEGER), number, body FROM t");
    int64_t right = 0;
    int next = 0;
    char body[64];
    for (int i = 0; i < CRASH_IDS; i++) right += c->now.value[i] != 0;
    for (; client_step(rows); next++) {
        while (next < CRASH_IDS && c->now.value[next] == 0) next++;
        assert_true(next < CRASH_IDS);
        assert_int_equal(sqlite3_column_int(rows, 0), next);
        assert_int_equal(sqlite3_column_int64(rows, 1), c->now.value[next]);
        snprintf(body, sizeof body, "body %" PRId64, c->now.value[next]);
        assert_string_equal((const char *)sqlite3_column_text(rows, 2), body);
    }
    client_finalize(rows);
    while (next < CRASH_IDS && c->now.value[next] == 0) next++;
    assert_int_equal(next, CRASH_IDS);
    assert_int_equal(client_ask(db, "SELECT memwal_count('t')"), right);
    assert_int_equal(client_ask(db, "SELECT count(*) FROM t"), right);
    assert_int_equal(client_ask(db, "SELECT count(DISTINCT id) FROM t"), right);
    assert_int_equal(client_figure(db, "rows"), right);
    client_check_store(db);
}

/* What the kill left behind does not stay: nothing but what is listed, and nothing twice. */
static void check_files_after_crash(const crash *c)
{
    static file_name names[NAMES_MAX];
    sqlite3 *db = c->at.db;
    client_run(db, "SELECT memwal_flush('t'); SELECT memwal_merge('t')");
    check_belief(c);
    check_log_is_trimmed(&c->at);
    int64_t right = client_ask(db, "SELECT count(*) FROM t");
    assert_int_equal(client_figure(db, "physical_rows"), right);
    assert_int_equal(versions_in_files(&c->at), right);
    assert_int_equal(list_names(c->at.store, "table-", names), 1);
    assert_int_equal(list_names(c->at.store, "tmp-", names), 0);
}

static void crash_in(const char *what)
{
    static crash c;
    memset(&c, 0, sizeof c);
    c.what = what;
    c.random = seed;
    place_make(&c.at);
    client_run(c.at.db,
               "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, number INTEGER, body TEXT,"
               " path = 'store', background = off)");
    for (int round = 0; round < CRASH_ROUNDS; round++) {
        client_close(c.at.db);
        crash_once(&c, round);
        for (int batch = 0; batch < BATCHES; batch++) believe(&c.now, round, batch);
        c.at.db = client_open(c.at.database);
        /* A merge leaves the tail in the log, finished or not; so it is memory that has it now. */
        if (strcmp(what, "merge") == 0) {
            assert_true(client_figure(c.at.db, "memtable_rows") > BATCH_CHANGES / 2);
        }
        check_belief(&c);
        if (round % 3 == 2) check_files_after_crash(&c);
    }
    print_message("%d of %d kills came before the end of the %s\n", c.middles, CRASH_ROUNDS - 1,
                  what);
    assert_true(c.middles > 0);
    place_remove(&c.at);
}

/* I4, I5, I7. */
static void a_kill_in_mid_flush_loses_nothing_and_doubles_nothing(void **state)
{
    (void)state;
    crash_in("flush");
}

/* I5, I6, I7, C73. */
static void a_kill_in_mid_merge_brings_the_tail_back_and_doubles_nothing(void **state)
{
    (void)state;
    crash_in("merge");
}

/* ---- rubbish in the data pages ----------------------------------------------------------- */

/* Where pages were overwritten. */
typedef struct damage {
    file_name name;
    uint64_t from;
    uint64_t to;
} damage;

enum { DAMAGES_MAX = 64 };

static uint64_t get_varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

/* Overwrites the pages of every group: FORMAT.md, "Table files". How many groups. */
static int overwrite_groups(content *file, const file_name *name, damage *list)
{
    enum {
        FOOTER_BYTES = 48,
        FOOTER_PROPERTIES = 8,
        GROUP_COUNT = 32,
        INDEX_OFFSET = 64,
        HEADER_BYTES = 56
    };
    uint64_t random = seed;
    const uint8_t *properties =
        file->data + get_u64(file->data + file->size - FOOTER_BYTES + FOOTER_PROPERTIES);
    int groups = (int)get_u64(properties + GROUP_COUNT);
    const uint8_t *entry = file->data + get_u64(properties + INDEX_OFFSET);
    uint64_t offset = HEADER_BYTES;
    for (int i = 0; i < groups; i++) {
        (void)get_varint(&entry); /* rows       */
        (void)get_varint(&entry); /* tombstones */
        uint64_t pages = get_varint(&entry);
        uint64_t directory = get_varint(&entry);
        entry += 8; /* its checksum */
        for (int key = 0; key < 2; key++) {
            uint64_t bytes = get_varint(&entry);
            entry += bytes;
        }
        list[i].name = *name;
        list[i].from = offset;
        list[i].to = offset + pages;
        for (uint64_t at = offset; at < offset + pages; at++) {
            file->data[at] = (uint8_t)client_random(&random);
        }
        offset += pages + directory;
    }
    return groups;
}

/* Overwrites all data pages of all table files; how many groups. */
static int overwrite_pages(const char *store, damage list[DAMAGES_MAX])
{
    static file_name names[NAMES_MAX];
    int count = list_names(store, "table-", names);
    int groups = 0;
    for (int i = 0; i < count; i++) {
        content file = read_file(store, names[i].text);
        groups += overwrite_groups(&file, &names[i], list + groups);
        assert_true(groups < DAMAGES_MAX / 2);
        FILE *to = open_in(store, names[i].text, "r+b");
        assert_int_equal(fwrite(file.data, 1, file.size, to), file.size);
        assert_int_equal(fclose(to), 0);
        free(file.data);
    }
    return groups;
}

/* The words name a file that was damaged and an offset inside one of its overwritten pages. */
static void check_words_name_the_place(const char *words, const damage *list, int groups)
{
    const char *name = strstr(words, "table-");
    const char *offset = strstr(words, "offset ");
    if (!name || !offset || strncmp(words, "memwal: ", 8) != 0) {
        client_fail("expected file and offset: %s", words);
    }
    uint64_t at = strtoull(offset + strlen("offset "), NULL, 10);
    for (int i = 0; i < groups; i++) {
        bool same = strncmp(name, list[i].name.text, strlen(list[i].name.text)) == 0;
        if (same && at >= list[i].from && at < list[i].to) return;
    }
    client_fail("no page was overwritten there: %s", words);
}

static void make_three_files_and_a_tail(const place *here)
{
    client_run(
        here->db,
        "CREATE VIRTUAL TABLE t USING memwal(id TEXT PRIMARY KEY, number INTEGER, reward REAL,"
        " body TEXT, path = 'store', background = off)");
    for (int i = 0; i < 4; i++) {
        client_run(
            here->db,
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d)"
            "REPLACE INTO t SELECT 'id-' || (n * 7 + %d), n * %d, n / 3.0, 'body ' || n FROM c",
            i == 3 ? 100 : 6000, i, i + 2);
        if (i < 3) client_run(here->db, "SELECT memwal_flush('t')");
        if (i == 0) client_run(here->db, "SELECT memwal_merge('t')");
    }
}

/* I7, I9: the count comes from the manifest and the log; what has to be read says what is
** broken. */
static void the_count_stands_on_ruined_pages_and_sums_name_the_place(void **state)
{
    (void)state;
    static const char *const columns[] = {"number", "reward", "length(body)", "length(id)"};
    static damage list[DAMAGES_MAX];
    place here;
    char words[CLIENT_TEXT_BYTES];
    place_make(&here);
    make_three_files_and_a_tail(&here);
    int64_t right = client_ask(here.db, "SELECT count(DISTINCT id) FROM t");
    client_close(here.db);
    int groups = overwrite_pages(here.store, list);
    assert_true(groups >= 6);
    here.db = client_open(here.database);
    assert_int_equal(client_ask(here.db, "SELECT memwal_count('t')"), right);
    assert_int_equal(client_ask(here.db, "SELECT count(*) FROM t"), right);
    assert_int_equal(client_figure(here.db, "rows"), right);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        int code = client_try(here.db, words, "SELECT sum(%s) FROM t", columns[i]);
        assert_int_equal(code & 0xff, SQLITE_CORRUPT);
        check_words_name_the_place(words, list, groups);
    }
    client_ask_text(here.db, words, "SELECT memwal_check('t')");
    assert_string_not_equal(words, "ok");
    /* Not even a count by rows is wrong in silence. */
    assert_int_equal(client_try(here.db, words, "SELECT count(id) FROM t") & 0xff, SQLITE_CORRUPT);
    place_remove(&here);
}

/* ------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 7 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return crash_worker(argv + 3);
    }
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/seed_test --seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thirty_text_ids_stay_exact_through_flush_merge_and_reopen),
        cmocka_unit_test(thirty_integer_ids_stay_exact_through_flush_merge_and_reopen),
        cmocka_unit_test(a_kill_in_mid_flush_loses_nothing_and_doubles_nothing),
        cmocka_unit_test(a_kill_in_mid_merge_brings_the_tail_back_and_doubles_nothing),
        cmocka_unit_test(the_count_stands_on_ruined_pages_and_sums_name_the_place),
    };
    return cmocka_run_group_tests_name("seed", tests, NULL, NULL);
}
