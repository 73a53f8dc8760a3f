/* reader.h: what the tests with a second reader share: tests/support/read_store.py as a process that
** answers, rows as lines in its form, tables with every kind of key, and rows of every kind of value. */
#ifndef READER_H
#define READER_H

#include "client.h"

#include <dirent.h>

enum { READER_PATH_BYTES = 2 * PATH_MAX };

/* A path of formatted parts. */
__attribute__((format(printf, 2, 3))) static inline void path_make(char path[READER_PATH_BYTES],
                                                                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (vsnprintf(path, READER_PATH_BYTES, format, args) >= READER_PATH_BYTES) {
        client_fail("a path is too long: %s", path);
    }
    va_end(args);
}

/* ---- lines ------------------------------------------------------------------------------- */

typedef struct lines {
    char **line;
    size_t count;
    char *verdict; /* "ok" or why not */
} lines;

static inline void *reader_need(void *memory)
{
    if (!memory) client_fail("no memory");
    return memory;
}

static inline void lines_add(lines *all, char *taken)
{
    all->line = reader_need(realloc(all->line, (all->count + 1) * sizeof *all->line));
    all->line[all->count++] = taken;
}

static inline void lines_free(lines *all)
{
    for (size_t i = 0; i < all->count; i++) free(all->line[i]);
    free(all->line);
    free(all->verdict);
    *all = (lines){0};
}

static inline bool lines_ok(const lines *all) { return strcmp(all->verdict, "ok") == 0; }

static inline bool lines_have(const lines *all, const char *line)
{
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->line[i], line) == 0) return true;
    }
    return false;
}

/* The first difference in words; false: there is none. */
static inline bool lines_differ(const lines *a, const lines *b, char words[CLIENT_TEXT_BYTES])
{
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        const char *left = i < a->count ? a->line[i] : "(no row)";
        const char *right = i < b->count ? b->line[i] : "(no row)";
        if (strcmp(left, right) == 0) continue;
        snprintf(words, CLIENT_TEXT_BYTES, "row %zu of %zu and %zu: %.300s | %.300s", i, a->count,
                 b->count, left, right);
        return true;
    }
    return false;
}

/* ---- the second reader ------------------------------------------------------------------- */

typedef struct reader {
    client_worker process;
    FILE *from;
} reader;

static inline reader reader_start(void)
{
    static const char *const arguments[] = {"/usr/bin/python3", "tests/support/read_store.py",
                                            "--serve", NULL};
    reader made = {.process = client_worker_start(arguments)};
    made.from = fdopen(dup(made.process.from), "r");
    if (!made.from) client_fail("fdopen: %s", strerror(errno));
    return made;
}

static inline void reader_stop(reader *r)
{
    fclose(r->from);
    client_worker_finish(&r->process);
}

/* The rows that live in the store in this folder. */
static inline lines reader_ask(reader *r, const char *path)
{
    lines all = {0};
    size_t room = 0;
    char *line = NULL;
    char *rest = NULL;
    if (!client_write_all(r->process.to, path, strlen(path)) ||
        !client_write_all(r->process.to, "\n", 1)) {
        client_fail("the second reader has ended");
    }
    for (ssize_t n; (n = getline(&line, &room, r->from)) > 0;) {
        line[n - 1] = 0;
        if (rest) lines_add(&all, rest);
        rest = reader_need(strdup(line));
        if (strcmp(rest, "ok") == 0 || strncmp(rest, "damaged: ", 9) == 0) break;
    }
    free(line);
    if (!rest) client_fail("the second reader gave no answer for %s", path);
    all.verdict = rest;
    return all;
}

/* Notes in `met` what the store in this folder consists of. */
static inline void note_facts(const char *path, reader *r, lines *met)
{
    char ask[READER_PATH_BYTES];
    path_make(ask, "? %s", path);
    lines facts = reader_ask(r, ask);
    for (size_t i = 0; i < facts.count; i++) {
        if (!lines_have(met, facts.line[i])) lines_add(met, reader_need(strdup(facts.line[i])));
    }
    lines_free(&facts);
}

static inline void must_have_met(const lines *met, const char *const *wanted)
{
    for (; *wanted; wanted++) {
        if (!lines_have(met, *wanted)) client_fail("no store had this: %s", *wanted);
    }
}

/* ---- the engine's rows, in the same form ------------------------------------------------- */

static inline void put_hex(FILE *to, const uint8_t *bytes, int count)
{
    for (int i = 0; i < count; i++) fprintf(to, "%02x", bytes[i]);
}

static inline void put_value(FILE *to, sqlite3_stmt *rows, int i)
{
    int kind = sqlite3_column_type(rows, i);
    if (kind == SQLITE_NULL) fputc('n', to);
    if (kind == SQLITE_INTEGER) fprintf(to, "i:%" PRId64, (int64_t)sqlite3_column_int64(rows, i));
    if (kind == SQLITE_FLOAT) {
        double real = sqlite3_column_double(rows, i);
        uint64_t bits;
        memcpy(&bits, &real, sizeof bits);
        fprintf(to, "r:%016" PRIx64, bits);
    }
    if (kind == SQLITE_TEXT || kind == SQLITE_BLOB) {
        const uint8_t *bytes = sqlite3_column_blob(rows, i);
        fprintf(to, kind == SQLITE_TEXT ? "t:" : "b:");
        put_hex(to, bytes, sqlite3_column_bytes(rows, i));
    }
}

/* The verdict is that of the statement. */
static inline lines select_lines(sqlite3 *db, const char *sql)
{
    lines all = {0};
    sqlite3_stmt *rows = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &rows, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
        char *line = NULL;
        size_t bytes;
        FILE *to = reader_need(open_memstream(&line, &bytes));
        for (int i = 0; i < sqlite3_column_count(rows); i++) {
            if (i) fputc('\t', to);
            put_value(to, rows, i);
        }
        fclose(to);
        lines_add(&all, line);
        rc = SQLITE_OK;
    }
    all.verdict = reader_need(strdup(rc == SQLITE_DONE ? "ok" : sqlite3_errmsg(db)));
    sqlite3_finalize(rows);
    return all;
}

/* ---- keys and values of every kind ------------------------------------------------------- */

typedef struct key_kind {
    const char *name;
    const char *declared;   /* in front of the other columns                                  */
    const char *constraint; /* behind them                                                    */
    const char *columns;    /* of the key, in its order                                       */
    const char *types;      /* i integer, t text, b blob, r real, n numeric, a any; one each  */
} key_kind;

static const key_kind key_kinds[] = {
    {"integer", "id INTEGER PRIMARY KEY, ", "", "id", "i"},
    {"text", "id TEXT PRIMARY KEY, ", "", "id", "t"},
    {"untyped", "id PRIMARY KEY, ", "", "id", "a"},
    {"composite", "session TEXT, seq INTEGER, kind, ", ", PRIMARY KEY(session, seq, kind)",
     "session, seq, kind", "tna"},
    {"turned", "b BLOB, \"re al\" REAL DEFAULT 1.5, ", ", PRIMARY KEY(\"re al\", b)", "\"re al\", b", "rb"},
    {"rowid", "", "", "rowid", "i"},
    {"blob", "id BLOB PRIMARY KEY, ", "", "id", "b"},
    {"real", "id REAL PRIMARY KEY, ", "", "id", "r"},
    {"numeric", "id DECIMAL(10, 5) PRIMARY KEY, ", "", "id", "n"},
    {"int", "id INT PRIMARY KEY, ", "", "id", "n"},
};

enum { KEY_KINDS = sizeof key_kinds / sizeof *key_kinds, VALUE_COLUMNS = 5, SQL_BYTES = 512 };
static const char value_columns[] = "any, txt TEXT, num NUMERIC, re REAL, bin BLOB";

/* The rows, in order of the key, its values first. */
static inline void select_of(const key_kind *kind, char sql[SQL_BYTES])
{
    snprintf(sql, SQL_BYTES, "SELECT %s, any, txt, num, re, bin FROM t ORDER BY %s", kind->columns,
             kind->columns);
}

static inline void bind_key_integer(sqlite3_stmt *to, int i, uint64_t n)
{
    uint64_t far = n % 5 == 4 ? UINT64_C(0x8000000000000000) : n % 5 == 3 ? n << 40 : 0;
    sqlite3_bind_int64(to, i, (int64_t)(n % 7 == 6 ? far - n : far + n));
}

static inline void bind_key_bytes(sqlite3_stmt *to, int i, uint64_t n, bool blob)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%s%" PRIu64, n % 3 ? "key-" : "", n);
    if (n % 11 == 5) {
        length = snprintf(text, sizeof text, "a long key, longer than any bound of 32 bytes, that is "
                                             "number %" PRIu64, n);
    }
    if (n % 13 == 7) text[length / 2] = 0;
    if (n == 0) length = 0;
    if (blob) {
        sqlite3_bind_blob(to, i, text, length, SQLITE_TRANSIENT);
    } else {
        sqlite3_bind_text(to, i, text, length, SQLITE_TRANSIENT);
    }
}

/* Reals with and without a fraction, with and without an integer between them and the next one. */
static inline void bind_key_real(sqlite3_stmt *to, int i, uint64_t n)
{
    static const double factors[] = {0.25, -1.0, 1e300, 4503599627370496.0, -1125899906842624.5};
    bool zero = n % 7 == 2; /* the same key with either sign, and both are kept */
    sqlite3_bind_double(to, i, zero ? n % 2 ? -0.0 : 0.0 : (double)n * factors[n % 5]);
}

/* What a column of numeric affinity takes: also texts that are numbers, or are not. */
static inline void bind_key_numeric(sqlite3_stmt *to, int i, uint64_t n)
{
    static const char *const texts[] = {"12.50", "007", "-9223372036854775808", "9e18", "7x", ""};
    enum { TEXTS = sizeof texts / sizeof *texts };
    if (n % 4 == 0) {
        bind_key_integer(to, i, n);
    } else if (n % 4 == 1) {
        bind_key_real(to, i, n);
    } else if (n % 4 == 2) {
        sqlite3_bind_text(to, i, texts[n / 4 % TEXTS], -1, SQLITE_STATIC);
    } else {
        sqlite3_bind_double(to, i, n % 8 == 3 ? -9223372036854775808.0 : 9007199254740992.0 + (double)n);
    }
}

static inline void bind_key_any(sqlite3_stmt *to, int i, uint64_t n)
{
    switch (n % 5) {
    case 0: bind_key_integer(to, i, n); break;
    case 1: bind_key_real(to, i, n); break;
    case 2: sqlite3_bind_double(to, i, (double)(n - 2)); break; /* the key of the integer n - 2 */
    default: bind_key_bytes(to, i, n, n % 5 == 4);
    }
}

static inline void bind_key_part(sqlite3_stmt *to, int i, char type, uint64_t n)
{
    switch (type) {
    case 'i': bind_key_integer(to, i, n); break;
    case 'r': bind_key_real(to, i, n); break;
    case 'n': bind_key_numeric(to, i, n); break;
    case 'a': bind_key_any(to, i, n); break;
    default: bind_key_bytes(to, i, n, type == 'b');
    }
}

/* Key number n of a table: short and long, the ends of the range, near and far from each other. Some
** numbers are the same key in another form. Returns the number of values. */
static inline int bind_key(sqlite3_stmt *to, int i, const key_kind *kind, uint64_t n)
{
    enum { VALUES = 6 }; /* of each column of a key but the last */
    int parts = (int)strlen(kind->types);
    for (int part = 0; part < parts; part++) {
        bool last = part + 1 == parts;
        bind_key_part(to, i + part, kind->types[part], last ? n : n % VALUES * 7);
        n = last ? n : n / VALUES;
    }
    return parts;
}

/* As many as the key has values, with commas between them. */
static inline const char *key_places(const key_kind *kind)
{
    static const char places[] = "?,?,?,?";
    return places + sizeof places - 2 * strlen(kind->types);
}

static inline void bind_bytes(sqlite3_stmt *to, int i, uint64_t *random, uint64_t bytes_max)
{
    static const uint64_t lengths[] = {0, 1, 31, 32, 33, 300};
    uint64_t length = client_pick(random, 8);
    length = length < 6 ? lengths[length] : client_pick(random, bytes_max);
    char *bytes = reader_need(malloc((size_t)length + 1));
    uint64_t drawn = client_random(random);
    bool same = drawn % 2;
    for (uint64_t k = 0; k < length; k++) {
        bytes[k] = (char)(same ? 'a' + drawn % 3 : 'a' + client_pick(random, 26));
    }
    if (length && drawn % 5 == 0) bytes[length - 1] = 0;
    if (drawn >> 8 & 1) {
        sqlite3_bind_text64(to, i, bytes, length, free, SQLITE_UTF8);
    } else {
        sqlite3_bind_blob64(to, i, bytes, length, free);
    }
}

static inline void bind_value(sqlite3_stmt *to, int i, uint64_t *random, uint64_t bytes_max)
{
    static const double reals[] = {0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, 9007199254740993.0, 3.0};
    uint64_t drawn = client_random(random);
    switch (drawn % 6) {
    case 0:
        sqlite3_bind_null(to, i);
        break;
    case 1:
        sqlite3_bind_int64(to, i, (int64_t)(drawn >> 8) >> (drawn >> 3) % 56);
        break;
    case 2:
        sqlite3_bind_int64(to, i, (int64_t)((drawn >> 8) % 3 + INT64_MAX - 2));
        break;
    case 3:
        sqlite3_bind_double(to, i, reals[(drawn >> 8) % (sizeof reals / sizeof *reals)]);
        break;
    default:
        bind_bytes(to, i, random, bytes_max);
    }
}

/* REPLACE of the row of key number n, with random values. */
static inline void put_row(sqlite3 *db, const key_kind *kind, uint64_t n, uint64_t *random,
                           uint64_t bytes_max)
{
    char sql[SQL_BYTES];
    snprintf(sql, sizeof sql, "REPLACE INTO t(%s, any, txt, num, re, bin) VALUES(%s,?,?,?,?,?)",
             kind->columns, key_places(kind));
    sqlite3_stmt *put = client_prepare(db, sql);
    int parts = bind_key(put, 1, kind, n);
    for (int i = 0; i < VALUE_COLUMNS; i++) bind_value(put, parts + 1 + i, random, bytes_max);
    client_step(put);
    client_finalize(put);
}

/* ---- files ------------------------------------------------------------------------------- */

/* A file's bytes; the caller frees. */
static inline uint8_t *file_bytes(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info)) client_fail("%s: %s", path, strerror(errno));
    *size = (size_t)info.st_size;
    uint8_t *bytes = reader_need(malloc(*size + 1));
    if (fread(bytes, 1, *size, file) != *size) client_fail("reading %s", path);
    fclose(file);
    return bytes;
}

static inline void file_write(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) {
        client_fail("writing %s: %s", path, strerror(errno));
    }
}

/* Names of the files of a folder as lines, in order. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline lines folder_names(const char *folder)
{
    lines names = {0};
    DIR *stream = opendir(folder);
    if (!stream) client_fail("%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (entry->d_name[0] != '.') lines_add(&names, reader_need(strdup(entry->d_name)));
    }
    closedir(stream);
    if (names.count) qsort(names.line, names.count, sizeof *names.line, by_text);
    return names;
}

/* Copies the files of a folder into a new one. */
static inline void folder_copy(const char *from, const char *to)
{
    char path[READER_PATH_BYTES];
    lines names = folder_names(from);
    if (mkdir(to, 0700)) client_fail("%s: %s", to, strerror(errno));
    for (size_t i = 0; i < names.count; i++) {
        size_t size;
        if (strcmp(names.line[i], "shared") == 0) continue; /* of processes that run */
        path_make(path, "%s/%s", from, names.line[i]);
        uint8_t *bytes = file_bytes(path, &size);
        path_make(path, "%s/%s", to, names.line[i]);
        file_write(path, bytes, size);
        free(bytes);
    }
    lines_free(&names);
}

enum { ROOM_KEPT = 128 };

/* The size of a log without most of its room for more; records may end with zeros, too. */
static inline size_t size_without_room(const char *name, const uint8_t *bytes, size_t size)
{
    size_t filled = size;
    while (strncmp(name, "wal-", 4) == 0 && filled && bytes[filled - 1] == 0) filled--;
    return filled + ROOM_KEPT < size ? filled + ROOM_KEPT : size;
}

/* Cuts the room that the logs in a folder have for more. */
static inline void cut_room(const char *folder)
{
    char path[READER_PATH_BYTES];
    lines names = folder_names(folder);
    for (size_t i = 0; i < names.count; i++) {
        size_t size;
        path_make(path, "%s/%s", folder, names.line[i]);
        uint8_t *bytes = file_bytes(path, &size);
        file_write(path, bytes, size_without_room(names.line[i], bytes, size));
        free(bytes);
    }
    lines_free(&names);
}

/* ---- a table in a folder of its own ------------------------------------------------------- */

enum { KEYS = 150 };

typedef struct place {
    char folder[PATH_MAX];
    char database[READER_PATH_BYTES];
    char store[READER_PATH_BYTES];
    const key_kind *kind;
    sqlite3 *db;
    uint64_t random;
} place;

static inline void place_open(place *here) { here->db = client_open(here->database); }

static inline void place_name(place *here, const char *folder, const key_kind *kind, uint64_t random)
{
    here->kind = kind;
    here->random = random;
    snprintf(here->folder, sizeof here->folder, "%s", folder);
    path_make(here->database, "%s/test.db", folder);
    path_make(here->store, "%s/store", folder);
}

/* A folder with an empty database. */
static inline void place_begin(place *here, const key_kind *kind, uint64_t random)
{
    char folder[PATH_MAX];
    client_folder_make(folder);
    place_name(here, folder, kind, random);
    place_open(here);
}

static inline void place_make(place *here, const key_kind *kind, uint64_t random,
                              const char *options)
{
    place_begin(here, kind, random ^ (uint64_t)(kind - key_kinds));
    client_run(here->db, "CREATE VIRTUAL TABLE t USING memwal(%s%s%s, path = 'store', %s)",
               kind->declared, value_columns, kind->constraint, options);
}

static inline void place_remove(place *here)
{
    client_close(here->db);
    client_folder_remove(here->folder);
}

static inline uint64_t draw(place *here, uint64_t n) { return client_pick(&here->random, n); }

static inline void put(place *here, uint64_t bytes_max)
{
    uint64_t n = draw(here, KEYS);
    put_row(here->db, here->kind, n, &here->random, bytes_max);
}

static inline void drop(place *here, const char *compare)
{
    char sql[SQL_BYTES];
    snprintf(sql, sizeof sql, "DELETE FROM t WHERE (%s) %s (%s)", here->kind->columns, compare,
             key_places(here->kind));
    sqlite3_stmt *statement = client_prepare(here->db, sql);
    bind_key(statement, 1, here->kind, draw(here, KEYS));
    client_step(statement);
    client_finalize(statement);
}

static inline int veto(void *unused)
{
    (void)unused;
    return 1;
}

/* So many that a small memtable does not hold them: the transaction is spilled to files. */
static inline void put_many(place *here)
{
    for (int i = 0; i < 30; i++) put(here, 1200);
}

/* The entry is in the log when SQLite takes the commit back: an abort follows it. */
static inline void commit_and_take_back(place *here, bool many)
{
    client_run(here->db, "BEGIN");
    put(here, 50);
    if (many) put_many(here);
    drop(here, "=");
    sqlite3_commit_hook(here->db, veto, NULL);
    assert_int_equal(client_try(here->db, NULL, "COMMIT"), SQLITE_CONSTRAINT_COMMITHOOK);
    sqlite3_commit_hook(here->db, NULL, NULL);
    if (!sqlite3_get_autocommit(here->db)) client_run(here->db, "ROLLBACK");
}

#endif
