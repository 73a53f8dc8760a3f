/* reader_test.c: what lies in a store is what FORMAT.md says: tests/support/read_store.py, written from
** that page alone, gives the same rows as SELECT, at any moment and after a kill; and engine and
** reader judge each damaged byte alike.
**
**   reader_test                 all tests
**   reader_test --seed SEED     the stores of one run again (a kill has its own moment, though)
**   READER_STEPS=n              changes of each store, default 300
**   READER_KILLS=n              kills of each kind of key, default 4
**   READER_STRIDE=n             each n-th byte is damaged, default 7
**   reader_test --worker ...    is started by the tests, to be killed */
#include "reader.h"

enum { STEPS = 300, COMPARE_EVERY = 20, REOPEN_EVERY = 90, CHAIN_BYTES = 600000 };

static uint64_t seed;

static long knob(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

/* ---- changes ------------------------------------------------------------------------------- */

static void change_in_a_transaction(place *here)
{
    client_run(here->db, "BEGIN");
    for (uint64_t i = draw(here, 12); i > 0; i--) put(here, 400);
    if (draw(here, 4) == 0) put_many(here);
    client_run(here->db, "SAVEPOINT one");
    put(here, 50);
    if (draw(here, 6) == 0) put_many(here);
    drop(here, "=");
    if (draw(here, 2)) client_run(here->db, "ROLLBACK TO one");
    drop(here, "=");
    client_run(here->db, draw(here, 4) ? "COMMIT" : "ROLLBACK");
}

/* True after a transaction: a large one stays in the log only until the next change. */
static bool change(place *here)
{
    uint64_t drawn = draw(here, 100);
    if (drawn < 55) {
        put(here, 400);
    } else if (drawn < 70) {
        drop(here, "=");
    } else if (drawn < 72) {
        drop(here, ">");
    } else if (drawn < 84) {
        change_in_a_transaction(here);
    } else if (drawn < 90) {
        commit_and_take_back(here, draw(here, 2));
    } else if (drawn < 96) {
        client_run(here->db, "SELECT memwal_flush('t')");
    } else if (drawn < 98) {
        client_run(here->db, "SELECT memwal_merge('t', %d)", (int)draw(here, 3) + 1);
    } else if (drawn == 98) {
        client_run(here->db, draw(here, 4) ? "SELECT memwal_set('t', 'memtable', '%s')"
                                           : "SELECT memwal_compact('t')",
                   draw(here, 2) ? "8KB" : "1MB");
    } else {
        client_run(here->db, "UPDATE t SET any = any || 'x', num = 7");
        put(here, CHAIN_BYTES);
    }
    return drawn >= 72 && drawn < 90;
}

/* ---- the same rows ------------------------------------------------------------------------- */

static void compare(place *here, const lines *read)
{
    char words[CLIENT_TEXT_BYTES];
    char sql[SQL_BYTES];
    select_of(here->kind, sql);
    lines right = select_lines(here->db, sql);
    if (!lines_ok(&right)) client_fail("%s: SELECT: %s", here->store, right.verdict);
    if (!lines_ok(read)) client_fail("%s: the reader: %s", here->store, read->verdict);
    if (lines_differ(read, &right, words)) client_fail("%s: %s", here->store, words);
    lines_free(&right);
}

static void show_met(lines *met)
{
    for (size_t i = 0; i < met->count; i++) print_message("met: %s\n", met->line[i]);
    lines_free(met);
}

static void read_and_compare(place *here, reader *r, lines *met)
{
    lines read = reader_ask(r, here->store);
    compare(here, &read);
    lines_free(&read);
    note_facts(here->store, r, met);
}

/* I4, I6, I7, I9: while the store is open, at any moment between two statements, and closed. The reader
** also proves each count, each bound and each rule of the page. */
static void the_reader_gives_the_rows_of_select_for_every_kind_of_key(void **state)
{
    (void)state;
    static const char *const wanted[] = {"commit", "commit taken back", "adopt", "adopt taken back",
                                         "abort", "level 0", "level 1", NULL};
    long steps = knob("READER_STEPS", STEPS);
    lines met = {0};
    reader r = reader_start();
    for (int k = 0; k < KEY_KINDS; k++) {
        place here;
        place_make(&here, &key_kinds[k], seed, "background = off, memtable = '8KB', group_rows = 24, "
                                         "page_bytes = 300, file_bytes = '16KB', merge_generations = 2");
        for (long i = 1; i <= steps; i++) {
            bool look = change(&here) && i % 2 == 0;
            if (look || i % COMPARE_EVERY == 0) read_and_compare(&here, &r, &met);
            if (i % REOPEN_EVERY != 0) continue;
            client_close(here.db);
            lines closed = reader_ask(&r, here.store);
            place_open(&here);
            compare(&here, &closed);
            lines_free(&closed);
        }
        client_check_store(here.db);
        place_remove(&here);
    }
    reader_stop(&r);
    if (steps >= STEPS) must_have_met(&met, wanted);
    show_met(&met);
}

/* Two generations of texts whose parts come again, but hardly in the same page. */
static void fill_with_texts(place *here)
{
    client_run(here->db, "CREATE TEMP TABLE part AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                         "SELECT i + 1 FROM n WHERE i < 500) SELECT i, hex(randomblob(16)) AS word "
                         "FROM n");
    for (int first = 0; first < 2; first++) {
        client_run(here->db,
                   "INSERT INTO t(id, txt, num) WITH RECURSIVE n(i) AS (SELECT %d UNION ALL "
                   "SELECT i + 2 FROM n WHERE i < 6000) SELECT printf('key-%%06d', i), "
                   "(SELECT group_concat(word, ' ') FROM part WHERE part.i %% 41 = n.i * 7 %% 41), i "
                   "FROM n", first);
        client_run(here->db, "SELECT memwal_flush('t')");
    }
}

/* I9: a compaction trains dictionaries: the same rows, in less, for engine and reader. */
static void the_reader_gives_the_rows_of_a_compacted_store(void **state)
{
    (void)state;
    static const char *const size = "SELECT sum(bytes) FROM memwal_files('t') WHERE kind = 'table'";
    place here;
    lines met = {0};
    reader r = reader_start();
    place_make(&here, &key_kinds[1], seed, "background = off, memtable = '64MB'");
    fill_with_texts(&here);
    int64_t before = client_ask(here.db, size);
    client_run(here.db, "SELECT memwal_compact('t')");
    int64_t after = client_ask(here.db, size);
    print_message("bytes before and after: %lld, %lld\n", (long long)before, (long long)after);
    assert_true(after < before - before / 20);
    read_and_compare(&here, &r, &met);
    client_close(here.db);
    lines closed = reader_ask(&r, here.store);
    place_open(&here);
    compare(&here, &closed);
    lines_free(&closed);
    lines_free(&met);
    client_check_store(here.db);
    place_remove(&here);
    reader_stop(&r);
}

/* --worker FOLDER SEED KIND: changes the table until it is killed. */
static int worker(char **arguments)
{
    place here;
    place_name(&here, arguments[0], &key_kinds[atoi(arguments[2])],
               strtoull(arguments[1], NULL, 10));
    place_open(&here);
    client_run(here.db, "SELECT memwal_count('t')");
    client_write_all(STDOUT_FILENO, "r", 1);
    for (;;) (void)change(&here);
    return 0;
}

static void change_until_killed(place *here)
{
    char random[32];
    char kind[32];
    char byte;
    snprintf(random, sizeof random, "%" PRIu64, client_random(&here->random));
    snprintf(kind, sizeof kind, "%d", (int)(here->kind - key_kinds));
    const char *arguments[] = {client_own_program(), "--worker", here->folder, random, kind, NULL};
    client_worker killed = client_worker_start(arguments);
    assert_true(client_read_all(killed.from, &byte, 1));
    client_sleep_us(5000 + draw(here, 200000));
    assert_true(client_worker_kill(&killed));
}

/* I2, I4, I7: what a kill leaves, before anybody repairs it, and after the next opener did. */
static void the_reader_gives_the_rows_that_a_killed_store_opens_with(void **state)
{
    (void)state;
    long kills = knob("READER_KILLS", 4);
    lines met = {0};
    reader r = reader_start();
    for (int k = 0; k < KEY_KINDS; k++) {
        place here;
        place_make(&here, &key_kinds[k], seed,
                   "memtable = '16KB', group_rows = 24, page_bytes = 300, file_bytes = '16KB'");
        for (long i = 0; i < kills; i++) {
            client_close(here.db);
            change_until_killed(&here);
            lines left = reader_ask(&r, here.store);
            note_facts(here.store, &r, &met);
            place_open(&here);
            client_ask(here.db, "SELECT memwal_count('t')"); /* settles what a kill has left so */
            /* What only the database knows the reader does not. */
            if (!strstr(left.verdict, "undecided: ")) compare(&here, &left);
            lines_free(&left);
            /* Closed again: under the reader's eyes the thread would remove what it is reading. */
            client_close(here.db);
            lines repaired = reader_ask(&r, here.store);
            note_facts(here.store, &r, &met);
            place_open(&here);
            compare(&here, &repaired);
            lines_free(&repaired);
        }
        client_check_store(here.db);
        place_remove(&here);
    }
    reader_stop(&r);
    show_met(&met);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* Each run has stores of both kinds; over runs each kind of key is seen both ways. */
static bool is_closed(int k) { return ((uint64_t)k + seed) % 2 == 0; }

/* The log of one in three has a large transaction, and one that was taken back. */
enum { LARGE_KINDS = KEY_KINDS / 3 };

static void add_large(place *here)
{
    client_run(here->db, "SELECT memwal_set('t', 'memtable', '1KB')");
    for (int i = 0; i < 2; i++) {
        client_run(here->db, "BEGIN");
        for (uint64_t n = 0; n < 6; n++) put_row(here->db, here->kind, n, &here->random, 60);
        drop(here, "=");
        if (i == 0) sqlite3_commit_hook(here->db, veto, NULL);
        int rc = client_try(here->db, NULL, "COMMIT");
        assert_int_equal(rc, i == 0 ? SQLITE_CONSTRAINT_COMMITHOOK : SQLITE_OK);
        sqlite3_commit_hook(here->db, NULL, NULL);
    }
}

/* A small store of two generations, a base and a log; closed, or left as by a kill. */
static void make_small_store(place *here, const key_kind *kind, const char *copy, bool closed)
{
    place_make(here, kind, seed, "background = off, group_rows = 4, page_bytes = 100");
    for (int i = 0; i < 14; i++) {
        put_row(here->db, kind, (uint64_t)i % 6, &here->random, 30);
        if (i == 9) drop(here, "=");
        if (i % 4 == 3) client_run(here->db, "SELECT memwal_flush('t')");
        if (i == 7) client_run(here->db, "SELECT memwal_merge('t')");
    }
    commit_and_take_back(here, false);
    if (kind - key_kinds < LARGE_KINDS) add_large(here);
    put_row(here->db, kind, 100, &here->random, 30);
    if (closed) client_close(here->db);
    folder_copy(here->store, copy);
    if (!closed) client_close(here->db);
    client_folder_remove(here->folder);
}

typedef struct victim {
    char from[READER_PATH_BYTES]; /* stays as it is            */
    char to[READER_PATH_BYTES];   /* the copy that is changed  */
    const key_kind *kind;
    reader reader;
    int judged;
    int reported;
} victim;

/* What the engine says of the store in v->to: rows, and the first thing that it finds wrong. */
static lines engine_asked(const victim *v)
{
    char words[CLIENT_TEXT_BYTES];
    char sql[SQL_BYTES];
    sqlite3 *db = client_open(":memory:");
    lines rows = {0};
    select_of(v->kind, sql);
    if (client_try(db, words, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s')", v->to)) {
        rows.verdict = reader_need(strdup(words));
    } else {
        rows = select_lines(db, sql);
    }
    if (lines_ok(&rows)) {
        client_ask_text(db, words, "SELECT memwal_check('temp.t')");
        free(rows.verdict);
        rows.verdict = reader_need(strdup(words));
    }
    client_close(db);
    return rows;
}

/* Both find the store damaged, or both give the same rows. */
static void judge(victim *v, const char *what)
{
    char words[CLIENT_TEXT_BYTES];
    lines read = reader_ask(&v->reader, v->to);
    lines engine = engine_asked(v);
    v->judged++;
    v->reported += !lines_ok(&read);
    if (lines_ok(&read) != lines_ok(&engine)) {
        client_fail("%s: the reader says: %s; the engine says: %s", what, read.verdict,
                    engine.verdict);
    }
    if (lines_ok(&read) && lines_differ(&read, &engine, words)) client_fail("%s: %s", what, words);
    lines_free(&read);
    lines_free(&engine);
}

static void judge_unchanged(victim *v)
{
    folder_copy(v->from, v->to);
    judge(v, "nothing changed");
    assert_int_equal(v->reported, 0);
    client_folder_remove(v->to);
}

static void judge_changed(victim *v, const char *name, const uint8_t *bytes, size_t size,
                          const char *what)
{
    char path[READER_PATH_BYTES];
    folder_copy(v->from, v->to);
    path_make(path, "%s/%s", v->to, name);
    file_write(path, bytes, size);
    judge(v, what);
    client_folder_remove(v->to);
}

/* Each byte changed; each length; the file away. */
static void judge_file(victim *v, const char *name)
{
    char path[READER_PATH_BYTES];
    char what[CLIENT_TEXT_BYTES];
    size_t size;
    path_make(path, "%s/%s", v->from, name);
    uint8_t *bytes = file_bytes(path, &size);
    size_t stride = (size_t)knob("READER_STRIDE", 7);
    for (size_t i = seed % stride; i < size; i += stride) {
        snprintf(what, sizeof what, "%s of %s key: byte %zu changed", name, v->kind->name, i);
        bytes[i] ^= (uint8_t)(1u << i % 8);
        judge_changed(v, name, bytes, size, what);
        bytes[i] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t length = seed % stride; length < size; length += 2 * stride + 1) {
        snprintf(what, sizeof what, "%s of %s key: cut to %zu", name, v->kind->name, length);
        judge_changed(v, name, bytes, length, what);
    }
    free(bytes);
    snprintf(what, sizeof what, "%s of %s key: removed", name, v->kind->name);
    folder_copy(v->from, v->to);
    path_make(path, "%s/%s", v->to, name);
    assert_int_equal(remove(path), 0);
    judge(v, what);
    client_folder_remove(v->to);
}

/* I9, C13, C29, C30, C32, L19: the engine reports what the page calls damage, and goes on as the page says
** where it does not. */
static void engine_and_reader_judge_each_damage_alike(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    client_folder_make(folder);
    for (int k = 0; k < KEY_KINDS; k++) {
        place here;
        victim v = {.kind = &key_kinds[k], .reader = reader_start()};
        path_make(v.from, "%s/from%d", folder, k);
        path_make(v.to, "%s/to", folder);
        make_small_store(&here, v.kind, v.from, is_closed(k));
        cut_room(v.from);
        judge_unchanged(&v);
        lines names = folder_names(v.from);
        for (size_t i = 0; i < names.count; i++) judge_file(&v, names.line[i]);
        print_message("%s key, %s: judged %d, damaged %d\n", v.kind->name,
                      is_closed(k) ? "closed" : "killed", v.judged, v.reported);
        assert_true(v.reported > v.judged / 2);
        lines_free(&names);
        reader_stop(&v.reader);
    }
    client_folder_remove(folder);
}

/* What a worker says, for whoever reads the log of a failure. */
static void show_output(const client_worker *worker)
{
    char text[CLIENT_TEXT_BYTES];
    for (ssize_t n; (n = read(worker->from, text, sizeof text - 1)) > 0;) {
        text[n] = 0;
        print_message("%s", text);
    }
}

/* I9, C30: each byte of a store, at its own file and in the whole: the reader reports it, or the page says
** that nothing covers it. */
static void the_reader_finds_every_changed_byte(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    char path[READER_PATH_BYTES];
    client_folder_make(folder);
    for (int k = 0; k < KEY_KINDS; k++) {
        place here;
        path_make(path, "%s/store%d", folder, k);
        make_small_store(&here, &key_kinds[k], path, is_closed(k));
        const char *arguments[] = {"/usr/bin/python3", "tests/support/read_store.py", "--flip",
                                   path, NULL};
        client_worker flips = client_worker_start(arguments);
        show_output(&flips);
        client_worker_finish(&flips);
    }
    client_folder_remove(folder);
}

/* I9, C29: damage that no checksum tells, because all of them are right again: what the rules of the page
** alone forbid, both refuse; of everything else both make the same rows. */
static void engine_and_reader_judge_forged_stores_alike(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    char path[READER_PATH_BYTES];
    char random[32];
    char stride[32];
    client_folder_make(folder);
    snprintf(random, sizeof random, "%" PRIu64, seed);
    snprintf(stride, sizeof stride, "%ld", knob("READER_STRIDE", 7));
    for (int k = 0; k < KEY_KINDS; k++) {
        place here;
        path_make(path, "%s/store%d", folder, k);
        make_small_store(&here, &key_kinds[k], path, is_closed(k));
        cut_room(path);
        const char *arguments[] = {"/usr/bin/python3", "tests/support/forge_store.py", path, random,
                                   stride, NULL};
        client_worker forger = client_worker_start(arguments);
        show_output(&forger);
        client_worker_finish(&forger);
    }
    client_folder_remove(folder);
}

/* The same of manifests that list files of several levels, and of logs with large transactions. */
static void engine_and_reader_judge_forged_levels_alike(void **state)
{
    (void)state;
    static const char *const begins[] = {"manifest-", "wal-"};
    char path[READER_PATH_BYTES];
    char random[32];
    char stride[32];
    snprintf(random, sizeof random, "%" PRIu64, seed);
    snprintf(stride, sizeof stride, "%ld", knob("READER_STRIDE", 7));
    for (uint64_t i = 0; i < 2; i++) {
        path_make(path, "tests/golden/v2/%s-open", key_kinds[(seed + i) % 5].name);
        const char *arguments[] = {"/usr/bin/python3", "tests/support/forge_store.py", path, random,
                                   stride, begins[i], NULL};
        client_worker forger = client_worker_start(arguments);
        show_output(&forger);
        client_worker_finish(&forger);
    }
}

/* -------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 5 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return worker(argv + 2);
    }
    client_use_memory();
    seed = client_now_us();
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) seed = strtoull(argv[2], NULL, 10);
    printf("again: build/plain/tests/clients/reader_test --seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reader_gives_the_rows_of_select_for_every_kind_of_key),
        cmocka_unit_test(the_reader_gives_the_rows_of_a_compacted_store),
        cmocka_unit_test(the_reader_gives_the_rows_that_a_killed_store_opens_with),
        cmocka_unit_test(the_reader_finds_every_changed_byte),
        cmocka_unit_test(engine_and_reader_judge_each_damage_alike),
        cmocka_unit_test(engine_and_reader_judge_forged_stores_alike),
        cmocka_unit_test(engine_and_reader_judge_forged_levels_alike),
    };
    return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
