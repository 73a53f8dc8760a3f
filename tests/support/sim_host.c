/* sim_host.c: opening, transactions, and the check after a crash.
**
** What must hold is told for each transaction by itself, for a store may know more of them than its
** host, and by the totals, which none can have changed in part:
**
**     begun, not acknowledged    in either table or in none of them
**     acknowledged               there; but see host_loss, for what the host has a part in
**     neither                    not there
**
** In accounts no transaction is there when one before it is not. And where there is a table spare,
** it has its row. */
#include "sim_host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int sqlite3_memwal_init(sqlite3 *db, char **error, const void *api);

enum { GROW_BYTES = 4096, NOTE_BYTES = 300, NEVER = 1000 };

static const char folder[] = "/db";
static const char database[] = "/db/main.db";

const host_mode host_modes[] = {
    {"delete extra", "DELETE", "EXTRA", HOST_KEEPS, false},
    {"delete full", "DELETE", "FULL", HOST_LOSES_NEWEST, false},
    {"delete normal", "DELETE", "NORMAL", HOST_LOSES_NEWEST, true},
    {"truncate full", "TRUNCATE", "FULL", HOST_KEEPS, false},
    {"truncate normal", "TRUNCATE", "NORMAL", HOST_LOSES_NEWEST, true},
    {"persist full", "PERSIST", "FULL", HOST_KEEPS, false},
    {"persist normal", "PERSIST", "NORMAL", HOST_KEEPS, true},
    {"wal full", "WAL", "FULL", HOST_KEEPS, false},
    {"wal normal", "WAL", "NORMAL", HOST_LOSES_WAL, false},
};
const int host_mode_count = sizeof host_modes / sizeof host_modes[0];

static bool wrong(host *h, const char *format, ...) MW_PRINTF(2, 3);
static bool wrong(host *h, const char *format, ...)
{
    if (h->words[0]) return false; /* the first one counts */
    va_list args;
    va_start(args, format);
    vsnprintf(h->words, sizeof h->words, format, args);
    va_end(args);
    return false;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static int look(void *world, const char *path, mx_world_entry *entry)
{
    entry->mode = 0600;
    return sim_identify(world, path, &entry->device, &entry->inode);
}

static int make_folder(void *world, const char *path, uint32_t mode)
{
    (void)mode;
    return sim_mkdir(world, path);
}

static int set_mode(void *world, const char *path, uint32_t mode)
{
    (void)world, (void)path, (void)mode;
    return 0;
}

static int working_folder(void *world, char *path, size_t bytes)
{
    (void)world, (void)path, (void)bytes;
    return ENOENT;
}

static bool is_folder(void *world, const char *path)
{
    uint64_t device, inode;
    return sim_identify(world, path, &device, &inode) == 0;
}

/* Of a log segment: the rest would be zeros that each opening reads. */
static int grow_little(void *world, int file, uint64_t offset, uint64_t bytes)
{
    return sim_env(world)->file_allocate(world, file, offset, mw_min(bytes, GROW_BYTES));
}

void host_start(host *h, const host_mode *mode, bool extended, sim *world)
{
    memset(h, 0, sizeof *h);
    h->mode = mode;
    h->extended = extended;
    h->world = world;
    h->env = *sim_env(world);
    h->env.file_allocate = grow_little;
    h->functions = (mx_world){&h->env, look, make_folder, set_mode, working_folder, is_folder};
    if (mode->in_order) sim_set_in_order(world);
    sim_make_dir(world, folder);
    h->vfs = sim_vfs_create(world, folder);
    mx_world_set(&h->functions);
}

static int sync_nothing(void *world, int file)
{
    (void)world, (void)file;
    return 0;
}

void host_lie(host *h)
{
    if (!h->extended) sim_vfs_lie(h->vfs);
    else h->env.file_sync = h->env.dir_sync = sync_nothing;
}

static bool close_database(host *h)
{
    int rc = sqlite3_close(h->db);
    h->db = NULL;
    return rc == SQLITE_OK || wrong(h, "the database cannot be closed: %s", sqlite3_errstr(rc));
}

bool host_stop(host *h)
{
    bool closed = close_database(h);
    sim_vfs_destroy(h->vfs);
    h->vfs = NULL;
    mx_world_set(NULL);
    if (!closed) return false;
    uint64_t bytes = sim_memory_in_use(h->world);
    uint32_t open = sim_open_count(h->world);
    uint32_t objects = sim_object_count(h->world);
    if (!bytes && !open && !objects) return true;
    return wrong(h, "left after the end: %llu bytes of memory, %u open files, %u locks or threads",
                 (unsigned long long)bytes, open, objects);
}

/* ---- statements ------------------------------------------------------------------------------ */

/* Takes sql. */
static bool run(host *h, char *sql)
{
    char *error = NULL;
    if (!sql) abort();
    int rc = sqlite3_exec(h->db, sql, NULL, NULL, &error);
    if (rc != SQLITE_OK) wrong(h, "%.60s answered %d: %s", sql, rc, error ? error : "");
    sqlite3_free(error);
    sqlite3_free(sql);
    return rc == SQLITE_OK;
}

/* The first value of the first row, as text; "" when there is none. */
static bool ask(host *h, const char *sql, char *answer, size_t bytes)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(h->db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : "";
    snprintf(answer, bytes, "%s", text ? text : "NULL");
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        sqlite3_finalize(statement);
        return true;
    }
    wrong(h, "%.60s answered %d: %s", sql, rc, sqlite3_errmsg(h->db));
    sqlite3_finalize(statement);
    return false;
}

static bool expect(host *h, const char *sql, const char *expected)
{
    char answer[400];
    if (!ask(h, sql, answer, sizeof answer)) return false;
    if (strcmp(answer, expected) == 0) return true;
    return wrong(h, "%s: expected %s, found %s", sql, expected, answer);
}

bool host_open(host *h)
{
    char *error = NULL; /* of an extension that cannot be loaded: it says so by its code, too */
    int rc = sqlite3_open_v2(database, &h->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                             sim_vfs_name(h->vfs));
    if (rc == SQLITE_OK && h->extended) rc = sqlite3_memwal_init(h->db, &error, NULL);
    sqlite3_free(error);
    if (rc != SQLITE_OK) return wrong(h, "the database cannot be opened: %d", rc);
    /* Pages of two sectors can be torn. Few of them in memory: some are written before the end. */
    return run(h, sqlite3_mprintf("PRAGMA page_size = 1024; PRAGMA cache_size = 10;"
                                  "PRAGMA temp_store = MEMORY; PRAGMA journal_mode = %s;"
                                  "PRAGMA synchronous = %s",
                                  h->mode->journal, h->mode->synchronous));
}

/* ---- transactions ---------------------------------------------------------------------------- */

static bool change(host *h, const char *table, int number)
{
    return run(h, sqlite3_mprintf("UPDATE %s SET amount = amount + %d WHERE id = 0;"
                                  "INSERT INTO %s VALUES(%d, %d, printf('%%0*d', %d, %d))",
                                  table, number, table, number, number, NOTE_BYTES, number));
}

static bool change_sides(host *h, const host_txn *txn, int number)
{
    return (!txn->host || change(h, "accounts", number)) &&
           (!txn->store || change(h, "rollouts", number));
}

static bool make_table(host *h, const char *table)
{
    bool store = strcmp(table, "rollouts") == 0;
    const char *columns = "(id INTEGER PRIMARY KEY, amount INTEGER, note TEXT";
    if (!store) {
        return run(h, sqlite3_mprintf("CREATE TABLE accounts%s);"
                                      "INSERT INTO accounts VALUES(0, 0, '')", columns));
    }
    return run(h, sqlite3_mprintf("CREATE VIRTUAL TABLE rollouts USING memwal%s,"
                                  "background = 'off', group_rows = 4, cache = '64KB',"
                                  "memtable = '256KB');"
                                  "INSERT INTO rollouts VALUES(0, 0, '')", columns));
}

/* What a word changes. */
static host_txn sides_of(const host *h, const char *word)
{
    if (!h->extended) return (host_txn){true, false};
    return (host_txn){.host = strcmp(word, "store") != 0, .store = strcmp(word, "host") != 0};
}

static bool run_txn(host *h, const char *word)
{
    int number = ++h->past.begun;
    host_txn *txn = &h->past.txns[number];
    if (number > HOST_TXNS_MAX) abort();
    *txn = sides_of(h, word);
    bool right = run(h, sqlite3_mprintf("BEGIN"));
    if (strcmp(word, "accounts") == 0 || strcmp(word, "rollouts") == 0) {
        txn->store = false; /* row 0 is not told apart from the table */
        right = right && make_table(h, word);
    } else if (strcmp(word, "undo") == 0) {
        right = right && run(h, sqlite3_mprintf("SAVEPOINT a")) && change_sides(h, txn, NEVER) &&
                run(h, sqlite3_mprintf("ROLLBACK TO a")) && change_sides(h, txn, number);
    } else {
        right = right && change_sides(h, txn, number);
    }
    right = right && run(h, sqlite3_mprintf("COMMIT"));
    if (right) h->past.acked = number;
    return right;
}

static bool make_spare(host *h)
{
    return run(h, sqlite3_mprintf("BEGIN; CREATE VIRTUAL TABLE spare USING memwal(a, "
                                  "background = 'off', cache = '64KB', memtable = '256KB');"
                                  "INSERT INTO spare VALUES('here'); COMMIT"));
}

static bool checkpoint(host *h)
{
    if (!run(h, sqlite3_mprintf("PRAGMA wal_checkpoint"))) return false;
    h->past.checkpoint = h->past.acked;
    return true;
}

static bool run_word(host *h, const char *word)
{
    host_txn both = {true, h->extended};
    bool works = strcmp(word, "flush") == 0 || strcmp(word, "merge") == 0;
    bool spare = strcmp(word, "spare") == 0 || strcmp(word, "drop") == 0;
    if (!h->extended && (works || spare || strcmp(word, "rollouts") == 0)) return true;
    if (strcmp(word, "spare") == 0) return make_spare(h);
    if (spare) return run(h, sqlite3_mprintf("DROP TABLE spare"));
    if (works) return run(h, sqlite3_mprintf("SELECT memwal_%s('rollouts')", word));
    if (strcmp(word, "checkpoint") == 0) return checkpoint(h);
    if (strcmp(word, "never") != 0) return run_txn(h, word);
    return run(h, sqlite3_mprintf("BEGIN")) && change_sides(h, &both, NEVER) &&
           run(h, sqlite3_mprintf("ROLLBACK"));
}

bool host_run(host *h, const char *script)
{
    char word[16];
    int length = 0;
    for (; sscanf(script, " %15s%n", word, &length) == 1; script += length) {
        if (!run_word(h, word)) return false;
    }
    return true;
}

/* ---- what is there --------------------------------------------------------------------------- */

static bool note_row(host *h, const char *table, sqlite3_stmt *row, host_found *to)
{
    int number = sqlite3_column_int(row, 0);
    sqlite3_int64 amount = sqlite3_column_int64(row, 1);
    if (number == 0) {
        to->total = amount;
        return true;
    }
    if (number < 0 || number > h->past.begun) {
        return wrong(h, "%s: a row of transaction %d, which was not begun", table, number);
    }
    to->txn[number] = true;
    bool whole = amount == number && sqlite3_column_bytes(row, 2) == NOTE_BYTES &&
                 atoi((const char *)sqlite3_column_text(row, 2)) == number;
    return whole || wrong(h, "%s: row %d is not as it was written", table, number);
}

static bool find_table(host *h, const char *table, bool *there)
{
    char text[100];
    char answer[20];
    snprintf(text, sizeof text, "SELECT count(*) FROM sqlite_schema WHERE name = '%s'", table);
    if (!ask(h, text, answer, sizeof answer)) return false;
    *there = strcmp(answer, "1") == 0;
    return true;
}

static bool read_spare(host *h)
{
    bool there = false;
    if (!find_table(h, "spare", &there) || !there) return !h->words[0];
    return expect(h, "SELECT group_concat(a) FROM spare", "here") &&
           expect(h, "SELECT memwal_check('spare')", "ok");
}

static bool read_table(host *h, const char *table, host_found *to)
{
    char text[100];
    if (!find_table(h, table, &to->table)) return false;
    if (!to->table) return true;
    sqlite3_stmt *row = NULL;
    snprintf(text, sizeof text, "SELECT id, amount, note FROM %s ORDER BY id", table);
    int rc = sqlite3_prepare_v2(h->db, text, -1, &row, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(row);
    while (rc == SQLITE_ROW && note_row(h, table, row, to)) rc = sqlite3_step(row);
    if (rc != SQLITE_DONE) wrong(h, "%s answered %d: %s", text, rc, sqlite3_errmsg(h->db));
    sqlite3_finalize(row);
    return !h->words[0];
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Where commits over both sides are atomic, each of them makes the host durable before it is
** acknowledged, whatever the mode says, and so all before it. */
static bool is_hardened(const host *h, int number)
{
    for (int i = number; i <= h->past.acked && h->atomic == HOST_ALWAYS; i++) {
        if (h->past.txns[i].host && h->past.txns[i].store) return true;
    }
    return false;
}

static bool may_host_lose(const host *h, int number, bool killed)
{
    if (killed || h->mode->loss == HOST_KEEPS || is_hardened(h, number)) return false;
    if (h->mode->loss == HOST_LOSES_WAL) return number > h->past.checkpoint;
    for (int i = number + 1; i <= h->past.acked; i++) {
        if (h->past.txns[i].host) return false;
    }
    return true;
}

/* The total that the newest transaction of a table has written. Where one may be missing before it,
** it has still seen that one. */
static sqlite3_int64 total_of(const host *h, const host_found *table, bool store)
{
    sqlite3_int64 total = store ? h->past.rollouts_total : h->past.accounts_total;
    sqlite3_int64 newest = total;
    int tables = h->extended ? 2 : 1;
    for (int i = h->past.settled ? h->past.settled + 1 : tables + 1; i <= h->past.begun; i++) {
        if (store ? h->past.txns[i].store : h->past.txns[i].host) total += i;
        if (table->txn[i]) newest = total;
    }
    return newest;
}

static bool check_total(host *h, const char *name, const host_found *table, bool store)
{
    sqlite3_int64 expected = total_of(h, table, store);
    if (!table->table || table->total == expected) return true;
    return wrong(h, "%s: expected a total of %lld, found %lld", name, (long long)expected,
                 (long long)table->total);
}

/* Nothing is there when something before it is not. */
static bool check_prefix(host *h, const char *name, const host_found *table, bool store)
{
    int missing = 0;
    for (int i = 1; i <= h->past.begun; i++) {
        bool mine = store ? h->past.txns[i].store : h->past.txns[i].host;
        if (mine && !table->txn[i] && !missing) missing = i;
        if (table->txn[i] && !mine) return wrong(h, "%s: %d was not to change it", name, i);
        if (table->txn[i] && missing) {
            return wrong(h, "%s: transaction %d is there, %d before it is not", name, i, missing);
        }
    }
    return true;
}

static bool check_txn(host *h, int i, bool killed)
{
    const host_txn *txn = &h->past.txns[i];
    bool in_accounts = h->accounts.txn[i];
    bool in_rollouts = h->rollouts.txn[i];
    bool kept = i <= h->past.acked;
    bool lost = txn->host && !in_accounts && may_host_lose(h, i, killed);
    if (kept && txn->host && !in_accounts && !lost) {
        return wrong(h, "accounts: the acknowledged transaction %d is not there", i);
    }
    bool goes_along = h->atomic != HOST_COUNTS && lost;
    if (kept && txn->store && !in_rollouts && !goes_along) {
        return wrong(h, "rollouts: the acknowledged transaction %d is not there", i);
    }
    if (!txn->host || !txn->store || in_accounts == in_rollouts) return true;
    if (in_accounts) h->accounts_only = true;
    else h->rollouts_only = true;
    bool taken_back = kept && lost;
    if (taken_back) h->taken_back = true;
    if (h->atomic == HOST_COUNTS || (h->atomic == HOST_KEPT && taken_back)) return true;
    return wrong(h, "transaction %d is in %s only", i, in_accounts ? "accounts" : "rollouts");
}

static bool read_all(host *h)
{
    h->accounts = h->rollouts = (host_found){0};
    bool right = expect(h, "PRAGMA integrity_check", "ok") &&
                 read_table(h, "accounts", &h->accounts) &&
                 (!h->extended || read_table(h, "rollouts", &h->rollouts));
    if (right && h->rollouts.table) right = expect(h, "SELECT memwal_check('rollouts')", "ok");
    right = right && (!h->extended || read_spare(h));
    /* Tables are made by transactions that have no row. */
    h->accounts.txn[1] = h->accounts.table;
    if (h->extended) h->accounts.txn[2] = h->rollouts.table;
    return right;
}

bool host_check(host *h, bool killed)
{
    h->accounts_only = h->rollouts_only = h->taken_back = false;
    bool right = read_all(h);
    for (int i = 1; right && i <= h->past.begun; i++) right = check_txn(h, i, killed);
    /* What the host takes back takes the store's part along, and not what came after it. */
    bool holes = h->atomic != HOST_COUNTS && h->mode->loss != HOST_KEEPS;
    return right && check_prefix(h, "accounts", &h->accounts, false) &&
           (holes || check_prefix(h, "rollouts", &h->rollouts, true)) &&
           check_total(h, "accounts", &h->accounts, false) &&
           check_total(h, "rollouts", &h->rollouts, true);
}

/* What the last check has found is the past from now on. */
static void settle(host *h)
{
    host_past *past = &h->past;
    for (int i = 1; i <= past->begun; i++) {
        past->txns[i] = (host_txn){h->accounts.txn[i], h->rollouts.txn[i]};
    }
    past->acked = past->settled = past->begun;
    past->accounts_total = h->accounts.total;
    past->rollouts_total = h->rollouts.total;
}

bool host_go_on(host *h)
{
    if (!h->accounts.table || (h->extended && !h->rollouts.table)) return true;
    bool seen[] = {h->accounts_only, h->rollouts_only, h->taken_back};
    settle(h);
    bool right = host_run(h, "both") && close_database(h) && host_open(h) && host_check(h, true);
    h->accounts_only = seen[0];
    h->rollouts_only = seen[1];
    h->taken_back = seen[2];
    return right;
}
