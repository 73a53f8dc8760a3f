/* cut_test.c: power cuts of the program as it is shipped: C10.
**
** A worker runs SQL under strace. Its file calls are replayed into a model of a disk, in which
** content is durable after a sync of the file, and a name after a sync of its folder. After
** every call that changes anything the power is cut: what a disk may hold then is laid out as a
** folder, in four ways, and opened:
**
**     names      content
**     durable    durable       everything that was not synced is lost
**     all        durable       names and sizes came first; what was not synced reads as zeros
**     durable    all           content came first, names are lost
**     all        all           a kill: the machine goes on
**
** Each time the database must show what it had after the last statement that had returned, or
** after the one under way; the check of the store must find nothing, and writing must go on.
**
** Nothing of this knows the engine's code: a call that goes round its environment would be seen
** here. */
#include "client.h"

#include <fcntl.h>

enum {
    NODES_MAX = 600,
    ENTRIES_MAX = 64,
    FILES_MAX = 256,
    NAME_BYTES = 80,
    PATH_BYTES = PATH_MAX + 512,
    NOWHERE = -1, /* outside of the folder */
};

/* ---- the story --------------------------------------------------------------------------- */

/* memtable = 1KB: the wide rows make the writer freeze and flush by itself. The columns are the
** same in an ordinary table, which tells what is right. */
static const char columns[] = "id TEXT PRIMARY KEY, v INTEGER, body TEXT";
static const char options[] = "memtable = '1KB', background = off, merge_generations = 2";
static const char *const story[] = {
    "CREATE",
    "INSERT INTO t VALUES('a', 1, 'first')",
    "INSERT INTO t VALUES('b', 2, 'second')",
    "SELECT memwal_flush('t')",
    "BEGIN; INSERT INTO t VALUES('c', 3, ''), ('d', 4, ''); DELETE FROM t WHERE id = 'a'; COMMIT",
    "SELECT memwal_flush('t')",
    "REPLACE INTO t VALUES('b', 20, 'again')",
    "SELECT memwal_merge('t')",
    "INSERT INTO t VALUES('wide 1', 5, printf('%.900c', 'x'))",
    "INSERT INTO t VALUES('wide 2', 6, printf('%.900c', 'y'))",
    "INSERT INTO t VALUES('wide 3', 7, printf('%.900c', 'z'))",
    "DELETE FROM t WHERE id = 'wide 2'",
    "SELECT memwal_flush('t')",
    "SELECT memwal_merge('t')",
    "INSERT INTO t VALUES('e', 8, 'last')",
    "REOPEN",
    "INSERT INTO t VALUES('f', 9, 'behind a clean end')",
    "BEGIN; ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t; COMMIT",
};
enum { STATEMENTS = sizeof story / sizeof *story };

static sqlite3 *open_host(const char *folder)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/test.db", folder);
    sqlite3 *db = client_open(path);
    /* SQLite syncs the folder after a commit only with EXTRA; without it the host's own commit
    ** may go. */
    client_run(db, "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA");
    return db;
}

/* --worker FOLDER; "returned 3" goes to a marker file when statement 3 has. */
static int work(char **arguments)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s-marker", arguments[0]);
    int marker = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    sqlite3 *db = open_host(arguments[0]);
    for (int i = 0; i < STATEMENTS; i++) {
        char text[32];
        if (strcmp(story[i], "CREATE") == 0) {
            client_run(db, "CREATE VIRTUAL TABLE t USING memwal(%s, %s)", columns, options);
        } else if (strcmp(story[i], "REOPEN") == 0) {
            client_close(db);
            db = open_host(arguments[0]);
        } else {
            client_run(db, "%s", story[i]);
        }
        int size = snprintf(text, sizeof text, "returned %d\n", i);
        if (!client_write_all(marker, text, (size_t)size)) {
            client_fail("marker: %s", strerror(errno));
        }
    }
    client_close(db);
    return 0;
}

static void show_rows(sqlite3 *db, char to[CLIENT_TEXT_BYTES])
{
    client_ask_text(db, to,
                    "SELECT group_concat(id || '=' || v || length(body) || substr(body, 1, 1), ' ')"
                    " FROM (SELECT * FROM t ORDER BY id)");
}

static char rights[STATEMENTS + 1][CLIENT_TEXT_BYTES]; /* after so many statements */

static void tell_what_is_right(void)
{
    sqlite3 *db = client_open(":memory:");
    client_run(db, "CREATE TABLE t(%s)", columns);
    for (int i = 0; i < STATEMENTS; i++) {
        bool engine = strstr(story[i], "memwal_") || strcmp(story[i], "CREATE") == 0 ||
                      strcmp(story[i], "REOPEN") == 0;
        if (!engine) client_run(db, "%s", story[i]);
        show_rows(db, rights[i + 1]);
    }
    client_close(db);
}

/* ---- the disk ---------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

typedef struct entry {
    char name[NAME_BYTES];
    int node;
} entry;

typedef struct names {
    entry list[ENTRIES_MAX];
    int count;
} names;

typedef struct node {
    bool folder;
    int parent;
    bytes all;
    bytes durable;
    names names_all;
    names names_durable;
} node;

typedef struct open_file {
    bool used;
    int node;
    uint64_t offset;
} open_file;

typedef struct disk {
    char root[PATH_MAX];
    node *nodes;
    int count;
    open_file files[FILES_MAX];
    int returned; /* statements */
    bool changed; /* by the last call */
} disk;

static int new_node(disk *d, bool folder, int parent)
{
    if (d->count == NODES_MAX) client_fail("more than %d files", NODES_MAX);
    d->nodes[d->count] = (node){.folder = folder, .parent = parent};
    return d->count++;
}

static entry *find_name(names *in, const char *name)
{
    for (int i = 0; i < in->count; i++) {
        if (strcmp(in->list[i].name, name) == 0) return &in->list[i];
    }
    return NULL;
}

static void put_name(disk *d, int folder, const char *name, int at)
{
    names *to = &d->nodes[folder].names_all;
    entry *found = find_name(to, name);
    if (!found) {
        if (to->count == ENTRIES_MAX) client_fail("more than %d names in a folder", ENTRIES_MAX);
        found = &to->list[to->count++];
        snprintf(found->name, sizeof found->name, "%s", name);
    }
    found->node = at;
    d->changed = true;
}

static void drop_name(disk *d, int folder, const char *name)
{
    names *from = &d->nodes[folder].names_all;
    entry *found = find_name(from, name);
    if (!found) client_fail("removal of %s, which is not there", name);
    *found = from->list[--from->count];
    d->changed = true;
}

static void resize(bytes *to, size_t size)
{
    uint8_t *grown = realloc(to->data, size + 1);
    if (!grown) client_fail("no memory");
    if (size > to->size) memset(grown + to->size, 0, size - to->size);
    *to = (bytes){grown, size};
}

static void write_at(disk *d, int at, uint64_t offset, const bytes *from)
{
    bytes *to = &d->nodes[at].all;
    if (offset + from->size > to->size) resize(to, (size_t)offset + from->size);
    if (from->size) memcpy(to->data + offset, from->data, from->size);
    d->changed = true;
}

static void sync_node(disk *d, int at)
{
    node *of = &d->nodes[at];
    of->names_durable = of->names_all;
    resize(&of->durable, of->all.size);
    if (of->all.size) memcpy(of->durable.data, of->all.data, of->all.size);
    d->changed = true;
}

/* Where a path leads: the folder it is in and its last name. False: outside. A name that is not
** there has node NOWHERE. */
typedef struct place {
    int folder;
    char name[NAME_BYTES];
    int node;
} place;

/* One component of a path. */
static void step_into(disk *d, place *at, const char *name)
{
    if (at->node == NOWHERE) return;
    if (strcmp(name, ".") == 0 || !name[0]) return;
    if (strcmp(name, "..") == 0) {
        at->node = d->nodes[at->node].parent;
        at->folder = NOWHERE;
        return;
    }
    entry *found = find_name(&d->nodes[at->node].names_all, name);
    at->folder = at->node;
    at->node = found ? found->node : NOWHERE;
    snprintf(at->name, sizeof at->name, "%s", name);
}

static bool resolve(disk *d, int from, const char *path, place *at)
{
    size_t root = strlen(d->root);
    *at = (place){.folder = NOWHERE, .node = from};
    if (path[0] == '/') {
        if (strncmp(path, d->root, root) != 0 || (path[root] != '/' && path[root])) return false;
        at->node = 0;
        path += root;
    }
    while (*path && at->node != NOWHERE) {
        char name[NAME_BYTES];
        size_t size = strcspn(path, "/");
        snprintf(name, sizeof name, "%.*s", (int)size, path);
        path += size + (path[size] == '/');
        step_into(d, at, name);
    }
    return at->node != NOWHERE || (at->folder != NOWHERE && !*path);
}

/* ---- the trace --------------------------------------------------------------------------- */

enum { ARGUMENTS_MAX = 6, TEXT_BYTES_MAX = 1 << 20 };

/* One call: numbers, texts and flags as they stand in the line. */
typedef struct call {
    char name[32];
    const char *words[ARGUMENTS_MAX]; /* each argument as written, up to the next */
    bytes texts[ARGUMENTS_MAX];       /* decoded where it is a text               */
    int64_t result;
} call;

static void decode_text(const char *from, size_t size, bytes *to)
{
    resize(to, size / 4);
    for (size_t i = 0; i < size / 4; i++) {
        unsigned value;
        if (sscanf(from + 4 * i, "\\x%2x", &value) != 1) {
            client_fail("a text that is not hexadecimal");
        }
        to->data[i] = (uint8_t)value;
    }
    to->data[size / 4] = 0;
}

/* "123 pwrite64(5, "\x41", 1, 0) = 1"; false: no call. */
static bool parse_call(char *line, call *to)
{
    int used = 0;
    memset(to->words, 0, sizeof to->words);
    if (sscanf(line, "%*d %31[a-z0-9_](%n", to->name, &used) != 1 || used == 0) return false;
    if (strstr(line, "unfinished") || strstr(line, "resumed")) {
        client_fail("two threads: %.200s", line);
    }
    char *at = line + used;
    for (int i = 0; i < ARGUMENTS_MAX && *at; i++) {
        to->words[i] = at;
        if (*at == '"') {
            size_t size = strcspn(at + 1, "\"");
            decode_text(at + 1, size, &to->texts[i]);
            at += size + 2;
            if (strncmp(at, "...", 3) == 0) client_fail("a text was cut by strace");
        }
        at += strcspn(at, ",)");
        if (*at != ',') break;
        at += 2;
    }
    char *result = strrchr(line, '=');
    to->result = result ? strtoll(result + 1, NULL, 10) : -1;
    return result != NULL;
}

static int64_t number_in(const call *c, int i) { return strtoll(c->words[i], NULL, 0); }

static const char *text_in(const call *c, int i) { return (const char *)c->texts[i].data; }

static open_file *file_in(disk *d, const call *c, int i)
{
    int64_t fd = number_in(c, i);
    bool known = fd >= 0 && fd < FILES_MAX && d->files[fd].used && d->files[fd].node != NOWHERE;
    return known ? &d->files[fd] : NULL;
}

/* The folder that a path in argument i + 1 starts from. */
static int folder_in(disk *d, const call *c, int i)
{
    if (strncmp(c->words[i], "AT_FDCWD", 8) == 0) return NOWHERE;
    open_file *file = file_in(d, c, i);
    return file ? file->node : NOWHERE;
}

static bool has_flag(const call *c, int i, const char *flag)
{
    const char *at = strstr(c->words[i], flag);
    return at && at < c->words[i] + strcspn(c->words[i], ",)");
}

static void do_open(disk *d, const call *c)
{
    place at;
    bool inside = resolve(d, folder_in(d, c, 0), text_in(c, 1), &at);
    if (c->result >= FILES_MAX) client_fail("more than %d open files", FILES_MAX);
    if (inside && at.node == NOWHERE && has_flag(c, 2, "O_CREAT")) {
        at.node = new_node(d, false, NOWHERE);
        put_name(d, at.folder, at.name, at.node);
    }
    if (inside && has_flag(c, 2, "O_TRUNC")) resize(&d->nodes[at.node].all, 0);
    d->files[c->result] = (open_file){.used = true, .node = inside ? at.node : NOWHERE};
}

static void do_mkdir(disk *d, int from, const char *path)
{
    place at;
    if (!resolve(d, from, path, &at)) return;
    put_name(d, at.folder, at.name, new_node(d, true, at.folder));
}

static void do_unlink(disk *d, int from, const char *path)
{
    place at;
    if (resolve(d, from, path, &at)) drop_name(d, at.folder, at.name);
}

static void do_link(disk *d, const place *from, const place *to, bool move)
{
    put_name(d, to->folder, to->name, from->node);
    if (move) drop_name(d, from->folder, from->name);
}

static bool is(const call *c, const char *name) { return strcmp(c->name, name) == 0; }

/* Calls by a descriptor. */
static void do_file_call(disk *d, const call *c)
{
    open_file *file = file_in(d, c, 0);
    if (!file) return;
    bytes put = c->words[1] && c->words[1][0] == '"' ? c->texts[1] : (bytes){NULL, 0};
    if (is(c, "pwrite64") || is(c, "write")) {
        put.size = (size_t)c->result;
        write_at(d, file->node, is(c, "write") ? file->offset : (uint64_t)number_in(c, 3), &put);
        if (is(c, "write")) file->offset += put.size;
    } else if (is(c, "lseek")) {
        file->offset = (uint64_t)c->result;
    } else if (is(c, "ftruncate")) {
        resize(&d->nodes[file->node].all, (size_t)number_in(c, 1));
        d->changed = true;
    } else if (is(c, "fallocate")) {
        size_t end = (size_t)(number_in(c, 2) + number_in(c, 3));
        if (end > d->nodes[file->node].all.size) resize(&d->nodes[file->node].all, end);
        d->changed = true;
    } else if (is(c, "fsync") || is(c, "fdatasync")) {
        sync_node(d, file->node);
    } else if (is(c, "close")) {
        file->used = false;
    } else {
        client_fail("%s: a call that the disk does not know", c->name);
    }
}

static void do_call(disk *d, const call *c)
{
    place from;
    place to;
    d->changed = false;
    if (c->result < 0) return;
    if (is(c, "openat")) {
        do_open(d, c);
    } else if (is(c, "mkdir")) {
        do_mkdir(d, NOWHERE, text_in(c, 0));
    } else if (is(c, "unlink")) {
        do_unlink(d, NOWHERE, text_in(c, 0));
    } else if (is(c, "unlinkat")) {
        do_unlink(d, folder_in(d, c, 0), text_in(c, 1));
    } else if (is(c, "linkat") || is(c, "renameat")) {
        bool inside = resolve(d, folder_in(d, c, 0), text_in(c, 1), &from);
        inside = resolve(d, folder_in(d, c, 2), text_in(c, 3), &to) && inside;
        if (inside) do_link(d, &from, &to, is(c, "renameat"));
    } else {
        do_file_call(d, c);
    }
}

/* ---- cuts -------------------------------------------------------------------------------- */

typedef struct cut {
    const char *name;
    bool all_names;
    bool all_content;
} cut;

static const cut cuts[] = {
    {"everything unsynced is lost", false, false},
    {"content is lost", true, false},
    {"names are lost", false, true},
    {"kill", true, true},
};

/* What the file holds: unsynced content reads as zeros where its size has survived. */
static bytes content_of(const node *of, const cut *how)
{
    bytes made = {NULL, 0};
    const bytes *from = how->all_content ? &of->all : &of->durable;
    resize(&made, how->all_names ? of->all.size : from->size);
    size_t kept = from->size < made.size ? from->size : made.size;
    if (kept) memcpy(made.data, from->data, kept);
    return made;
}

static void lay_out_file(const node *of, const cut *how, const char *path)
{
    bytes content = content_of(of, how);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(content.data, 1, content.size, file) != content.size || fclose(file)) {
        client_fail("%s: %s", path, strerror(errno));
    }
    free(content.data);
}

static void lay_out(const disk *d, int at, const cut *how, const char *path)
{
    const node *folder = &d->nodes[at];
    const names *in = how->all_names ? &folder->names_all : &folder->names_durable;
    if (mkdir(path, 0777)) client_fail("%s: %s", path, strerror(errno));
    for (int i = 0; i < in->count; i++) {
        char name[PATH_BYTES];
        const node *of = &d->nodes[in->list[i].node];
        /* A power cut begins another life of the machine, so the state file says nothing. */
        bool kill = how->all_names && how->all_content;
        if (strcmp(in->list[i].name, "state") == 0 && !kill) continue;
        snprintf(name, sizeof name, "%.4000s/%s", path, in->list[i].name);
        if (of->folder) {
            lay_out(d, in->list[i].node, how, name);
        } else {
            lay_out_file(of, how, name);
        }
    }
}

/* The rows are those after `returned` statements, or after one more. */
static void check_rows(const disk *d, sqlite3 *db, const char *where)
{
    char words[CLIENT_TEXT_BYTES];
    show_rows(db, words);
    bool now = strcmp(words, rights[d->returned]) == 0;
    bool next = d->returned < STATEMENTS && strcmp(words, rights[d->returned + 1]) == 0;
    if (!now && !next) {
        client_fail("%s: expected '%s', found '%s'", where, rights[d->returned], words);
    }
    if (client_ask(db, "SELECT memwal_count('t') = count(*) FROM t") != 1) {
        client_fail("%s: count", where);
    }
    client_ask_text(db, words, "SELECT memwal_check('t')");
    if (strcmp(words, "ok") != 0) client_fail("%s: %s", where, words);
}

static void check_cut(const disk *d, const cut *how, int event)
{
    char where[256];
    snprintf(where, sizeof where, "call %d, %d statements had returned, %s", event, d->returned,
             how->name);
    client_folder_remove(d->root);
    lay_out(d, 0, how, d->root);
    sqlite3 *db = open_host(d->root);
    bool there = client_ask(db, "SELECT count(*) FROM sqlite_master WHERE name = 't'") == 1;
    if (!there && d->returned > 0) client_fail("%s: the table is gone", where);
    if (there) {
        check_rows(d, db, where);
        client_run(db, "INSERT INTO t VALUES('new', 0, '')");
        client_close(db);
        db = open_host(d->root);
        if (client_ask(db, "SELECT v FROM t WHERE id = 'new'") != 0) {
            client_fail("%s: new row", where);
        }
        client_run(db, "DELETE FROM t WHERE id = 'new'");
        check_rows(d, db, where);
    }
    client_close(db);
}

static bool take_marker(disk *d, const call *c)
{
    int number;
    if (!is(c, "write") || !c->texts[1].data) return false;
    if (sscanf(text_in(c, 1), "returned %d", &number) != 1) return false;
    d->returned = number + 1;
    return true;
}

static int replay(disk *d, const char *path)
{
    static call c;
    char *line = NULL;
    size_t room = 0;
    int events = 0;
    FILE *trace = fopen(path, "r");
    if (!trace) client_fail("%s: %s", path, strerror(errno));
    d->nodes = calloc(NODES_MAX, sizeof *d->nodes);
    if (!d->nodes) client_fail("no memory");
    new_node(d, true, NOWHERE);
    while (getline(&line, &room, trace) > 0) {
        if (!parse_call(line, &c) || take_marker(d, &c)) continue;
        do_call(d, &c);
        if (!d->changed) continue;
        events++;
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) check_cut(d, &cuts[i], events);
    }
    free(line);
    fclose(trace);
    return events;
}

static void free_disk(disk *d)
{
    for (int i = 0; i < d->count; i++) {
        free(d->nodes[i].all.data);
        free(d->nodes[i].durable.data);
    }
    free(d->nodes);
}

/* The worker's folder; it must be the same one later, for a database remembers where it is. */
static void trace_story(const disk *d, const char *path)
{
    static const char calls[] =
        "trace=openat,open,creat,mkdir,mkdirat,unlink,unlinkat,link,linkat,rename,"
        "renameat,renameat2,write,writev,pwrite64,pwritev,lseek,truncate,ftruncate,"
        "fallocate,fsync,fdatasync,close";
    const char *const arguments[] = {"strace",   "-f",    "-xx", "-s", "1048576",
                                     "-e",       calls,   "-o",  path, client_own_program(),
                                     "--worker", d->root, NULL};
    client_worker worker = client_worker_start(arguments);
    client_worker_finish(&worker);
}

/* C10, I1, I2, I4, I5, I15. */
static void a_power_cut_behind_any_call_leaves_every_statement_that_returned(void **state)
{
    (void)state;
    static disk d;
    char base[PATH_MAX];
    char path[PATH_BYTES];
    client_use_memory();
    client_folder_make(base);
    snprintf(d.root, sizeof d.root, "%.4000s/world", base);
    snprintf(path, sizeof path, "%s/trace", base);
    if (mkdir(d.root, 0777)) client_fail("%s: %s", d.root, strerror(errno));
    tell_what_is_right();
    trace_story(&d, path);
    int events = replay(&d, path);
    print_message("%d calls, %d cuts\n", events, events * (int)(sizeof cuts / sizeof *cuts));
    assert_int_equal(d.returned, STATEMENTS);
    assert_true(events > 100);
    free_disk(&d);
    client_folder_remove(base);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "--worker") == 0) {
        client_is_worker = true;
        return work(argv + 2);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_behind_any_call_leaves_every_statement_that_returned),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
