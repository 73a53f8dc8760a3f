/* engine.c: stores, rows as words and calls in threads for the tests of the engine. */
#include "engine.h"

#include "commit.h"
#include "flush.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_BYTES = 1 << 16, TEXTS = 4, WORDS_MAX = 1 << 12, FILES_MAX = 256 };

static const uint32_t column_ids[] = {1};
const mw_schema engine_schema = {MW_KEY_INTEGER, 1, column_ids, {(const uint8_t *)"v TEXT", 6}};

/* Ends the test with the engine's words. */
#define need(call)                                                \
    do {                                                          \
        mw_err err = {0};                                         \
        if ((call) != MW_OK) fail_msg("%s: %s", #call, err.text); \
    } while (0)

mw_options engine_options(void)
{
    mw_options options = mw_options_default();
    options.background = false;
    options.compression = 0;
    options.cache_bytes = 1 << 20;
    options.merge_generations = 1000; /* no merge that nobody asked for */
    return options;
}

/* ---- stores ---------------------------------------------------------------------------------- */

sim *engine_world(void)
{
    sim *world = sim_create();
    mw_store_id id;
    need(mw_db_create(sim_env(world), ENGINE_STORE, &engine_schema, &id, &err));
    return world;
}

mw_rc engine_try_open(sim *world, const mw_options *options, mw_db **db, mw_err *err)
{
    mw_options usual = engine_options();
    return mw_db_open(sim_env(world), ENGINE_STORE, options ? options : &usual, NULL, db, err);
}

mw_db *engine_open(sim *world, const mw_options *options)
{
    mw_db *db = NULL;
    need(engine_try_open(world, options, &db, &err));
    return db;
}

void engine_close(mw_db *db) { need(mw_db_close(db, &err)); }

void engine_end(sim *world)
{
    assert_int_equal(sim_open_count(world), 0);
    assert_int_equal(sim_object_count(world), 0);
    assert_int_equal(sim_memory_in_use(world), 0);
    sim_destroy(world);
}

bool engine_file(sim *world, const char *prefix, uint32_t i, char path[ENGINE_PATH_BYTES])
{
    static char names[FILES_MAX][SIM_NAME_BYTES];
    uint32_t count = sim_list(world, ENGINE_STORE, names, FILES_MAX);
    assert_true(count <= FILES_MAX);
    for (uint32_t at = 0; at < count; at++) {
        if (strncmp(names[at], prefix, strlen(prefix)) != 0 || i-- > 0) continue;
        snprintf(path, ENGINE_PATH_BYTES, "%s/%s", ENGINE_STORE, names[at]);
        return true;
    }
    return false;
}

uint32_t engine_file_count(sim *world, const char *prefix)
{
    char path[ENGINE_PATH_BYTES];
    uint32_t count = 0;
    while (engine_file(world, prefix, count, path)) count++;
    return count;
}

/* ---- writing --------------------------------------------------------------------------------- */

mw_slice engine_key(int64_t id, uint8_t to[8])
{
    mw_key_put_integer(to, id);
    return mw_slice_of(to, MW_INTEGER_KEY_BYTES);
}

mw_rc engine_txn_try(mw_txn *txn, int64_t id, const char *words, mw_err *err)
{
    uint8_t key[8];
    bool there;
    if (!words) return mw_txn_delete(txn, engine_key(id, key), &there, err);
    mw_value value = {.type = MW_TEXT, .bytes = mw_slice_of(words, strlen(words))};
    mw_buf row;
    mw_buf_init(&row, mw_env_posix()); /* not counted in the world, and never fails there */
    mw_row_encode(&row, &value, 1);
    mw_rc rc = mw_txn_put(txn, engine_key(id, key), mw_buf_slice(&row), &there, err);
    mw_buf_free(&row);
    return rc;
}

mw_rc engine_try(mw_db *db, int64_t id, const char *words, mw_txn_kind kind, mw_err *err)
{
    mw_txn *txn;
    mw_rc rc = mw_txn_begin(db, ENGINE_WAIT_MS, &txn, err);
    if (rc != MW_OK) return rc;
    rc = engine_txn_try(txn, id, words, err);
    if (rc == MW_OK) rc = mw_txn_prepare(txn, kind, err);
    if (rc == MW_OK) return mw_txn_commit(txn, err);
    mw_err second = {0};
    mw_rc undone = mw_txn_rollback(txn, &second);
    return undone == MW_OK ? rc : undone;
}

mw_txn *engine_begin(mw_db *db)
{
    mw_txn *txn = NULL;
    need(mw_txn_begin(db, ENGINE_WAIT_MS, &txn, &err));
    return txn;
}

void engine_txn_put(mw_txn *txn, int64_t id, const char *words)
{
    need(engine_txn_try(txn, id, words, &err));
}

void engine_txn_delete(mw_txn *txn, int64_t id) { need(engine_txn_try(txn, id, NULL, &err)); }

uint64_t engine_mark(mw_txn *txn)
{
    uint64_t mark = 0;
    mw_err err = {0};
    if (mw_txn_mark(txn, &mark, &err) != MW_OK) fail_msg("%s", err.text);
    return mark;
}

void engine_commit(mw_txn *txn, mw_txn_kind kind)
{
    need(mw_txn_prepare(txn, kind, &err));
    need(mw_txn_commit(txn, &err));
}

void engine_rollback(mw_txn *txn) { need(mw_txn_rollback(txn, &err)); }

void engine_put(mw_db *db, int64_t id, const char *words)
{
    need(engine_try(db, id, words, MW_TXN_LIGHT, &err));
}

void engine_delete(mw_db *db, int64_t id) { need(engine_try(db, id, NULL, MW_TXN_LIGHT, &err)); }

void engine_fill(mw_db *db, int64_t first, int64_t count, const char *prefix)
{
    mw_txn *txn = engine_begin(db);
    for (int64_t id = first; id < first + count; id++) {
        char words[64];
        snprintf(words, sizeof words, "%s%lld", prefix, (long long)id);
        engine_txn_put(txn, id, words);
    }
    engine_commit(txn, MW_TXN_LIGHT);
}

uint64_t engine_flush(mw_db *db)
{
    uint64_t generation = 0;
    need(mw_db_flush(db, ENGINE_WAIT_MS, &generation, &err));
    return generation;
}

uint32_t engine_merge(mw_db *db, uint32_t max_generations)
{
    uint32_t folded = 0;
    need(mw_db_merge(db, max_generations, NULL, NULL, &folded, &err));
    return folded;
}

uint64_t engine_freeze(mw_db *db)
{
    mw_store *store = engine_store(db);
    uint64_t generation = 0;
    need(mw_turn_take(store, mw_store_deadline(store, ENGINE_WAIT_MS), &err));
    need(mw_flush_freeze(store, &generation, &err));
    mw_turn_give(store);
    return generation;
}

/* ---- reading --------------------------------------------------------------------------------- */

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_BYTES];
    static unsigned at;
    char *text = texts[at++ % TEXTS];
    text[0] = '\0';
    return text;
}

/* "1=a" of the row that the cursor stands on. */
static void describe(mw_cursor *cursor, char words[WORDS_MAX])
{
    mw_value value;
    mw_slice key = mw_cursor_key(cursor);
    assert_int_equal(key.size, MW_INTEGER_KEY_BYTES);
    need(mw_cursor_column(cursor, 0, &value, &err));
    assert_int_equal(value.type, MW_TEXT);
    snprintf(words, WORDS_MAX, "%lld=%.*s", (long long)mw_key_get_integer(key.data),
             (int)value.bytes.size, (const char *)value.bytes.data);
}

static void check_found(mw_snapshot *snapshot, mw_slice key, const char *words)
{
    char found[WORDS_MAX];
    mw_cursor *cursor;
    need(mw_cursor_open(snapshot, &cursor, &err));
    need(mw_cursor_find(cursor, key, &err));
    assert_true(mw_cursor_valid(cursor));
    describe(cursor, found);
    assert_string_equal(found, words);
    mw_cursor_close(cursor);
}

/* Goes backwards over what was read forwards. */
static void check_backwards(mw_snapshot *snapshot, const char *text)
{
    char words[WORDS_MAX];
    size_t left = strlen(text);
    mw_cursor *cursor;
    need(mw_cursor_open(snapshot, &cursor, &err));
    for (mw_rc rc = mw_cursor_last(cursor, NULL);; rc = mw_cursor_prev(cursor, NULL)) {
        assert_int_equal(rc, MW_OK);
        if (!mw_cursor_valid(cursor)) break;
        describe(cursor, words);
        size_t bytes = strlen(words);
        assert_true(left >= bytes);
        left -= bytes;
        assert_memory_equal(text + left, words, bytes);
        if (left > 0) left--; /* the blank */
    }
    assert_int_equal(left, 0);
    mw_cursor_close(cursor);
}

const char *engine_read(mw_snapshot *snapshot)
{
    char words[WORDS_MAX];
    char *text = next_text();
    size_t used = 0;
    int64_t count = 0;
    mw_cursor *cursor;
    need(mw_cursor_open(snapshot, &cursor, &err));
    for (mw_rc rc = mw_cursor_first(cursor, NULL);; rc = mw_cursor_next(cursor, NULL)) {
        assert_int_equal(rc, MW_OK);
        if (!mw_cursor_valid(cursor)) break;
        describe(cursor, words);
        check_found(snapshot, mw_cursor_key(cursor), words);
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", used ? " " : "", words);
        assert_true(used < TEXT_BYTES);
        count++;
    }
    mw_cursor_close(cursor);
    assert_int_equal(mw_snapshot_count(snapshot), count); /* I7 */
    check_backwards(snapshot, text);
    return text;
}

mw_snapshot *engine_snapshot(mw_db *db)
{
    mw_snapshot *snapshot = NULL;
    need(mw_snapshot_take(db, NULL, &snapshot, &err));
    return snapshot;
}

const char *engine_rows(mw_db *db)
{
    mw_snapshot *snapshot = engine_snapshot(db);
    const char *text = engine_read(snapshot);
    mw_snapshot_release(snapshot);
    return text;
}

const char *engine_txn_rows(mw_db *db, mw_txn *txn)
{
    mw_snapshot *snapshot = NULL;
    need(mw_snapshot_take(db, txn, &snapshot, &err));
    const char *text = engine_read(snapshot);
    mw_snapshot_release(snapshot);
    return text;
}

int64_t engine_count(mw_db *db)
{
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor;
    int64_t forwards = 0;
    int64_t backwards = 0;
    need(mw_cursor_open(snapshot, &cursor, &err));
    need(mw_cursor_first(cursor, &err));
    for (; mw_cursor_valid(cursor); forwards++) need(mw_cursor_next(cursor, &err));
    need(mw_cursor_last(cursor, &err));
    for (; mw_cursor_valid(cursor); backwards++) need(mw_cursor_prev(cursor, &err));
    mw_cursor_close(cursor);
    int64_t count = mw_snapshot_count(snapshot);
    mw_snapshot_release(snapshot);
    assert_int_equal(forwards, count);
    assert_int_equal(backwards, count);
    return count;
}

const char *engine_find(mw_db *db, int64_t id)
{
    uint8_t key[8];
    char words[WORDS_MAX];
    char *text = NULL;
    mw_snapshot *snapshot = engine_snapshot(db);
    mw_cursor *cursor;
    need(mw_cursor_open(snapshot, &cursor, &err));
    need(mw_cursor_find(cursor, engine_key(id, key), &err));
    if (mw_cursor_valid(cursor)) {
        describe(cursor, words);
        text = next_text();
        snprintf(text, TEXT_BYTES, "%s", strchr(words, '=') + 1);
    }
    mw_cursor_close(cursor);
    mw_snapshot_release(snapshot);
    return text;
}

typedef struct wanted {
    const char *name;
    mw_type type;
    int64_t figure;
    char *words;
} wanted;

static void note_figure(void *arg, const char *name, const mw_value *value)
{
    wanted *figure = arg;
    if (strcmp(name, figure->name) != 0) return;
    figure->type = value->type;
    if (value->type == MW_INTEGER) figure->figure = value->integer;
    if (value->type != MW_TEXT) return;
    figure->words = next_text();
    snprintf(figure->words, TEXT_BYTES, "%.*s", (int)value->bytes.size,
             (const char *)value->bytes.data);
}

int64_t engine_figure(mw_db *db, const char *name)
{
    wanted figure = {.name = name};
    need(mw_db_stats(db, note_figure, &figure, &err));
    if (figure.type != MW_INTEGER) fail_msg("no figure is named %s", name);
    return figure.figure;
}

const char *engine_words(mw_db *db, const char *name)
{
    wanted figure = {.name = name};
    need(mw_db_stats(db, note_figure, &figure, &err));
    return figure.words;
}

void engine_wait_figure(mw_db *db, const char *name, int64_t least)
{
    for (int waited = 0; waited < ENGINE_WAIT_MS && engine_figure(db, name) < least; waited++)
        usleep(1000);
    assert_in_range(engine_figure(db, name), least, INT64_MAX);
}

static void note_fault(void *arg, const char *line)
{
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, TEXT_BYTES - used, "%s%s", used ? "\n" : "", line);
}

const char *engine_check(mw_db *db)
{
    char *text = next_text();
    uint32_t faults = 0;
    need(mw_db_check(db, note_fault, text, &faults, &err));
    assert_int_equal(faults > 0, text[0] != '\0');
    return faults ? text : "ok";
}

/* ---- calls in threads ------------------------------------------------------------------------ */

mw_rc engine_run_put(engine_call *call)
{
    return engine_try(call->db, call->id, call->words, call->kind, &call->err);
}

mw_rc engine_run_flush(engine_call *call)
{
    return mw_db_flush(call->db, ENGINE_WAIT_MS, &call->number, &call->err);
}

mw_rc engine_run_merge(engine_call *call)
{
    uint32_t folded = 0;
    mw_rc rc = mw_db_merge(call->db, 0, NULL, NULL, &folded, &call->err);
    call->number = folded;
    return rc;
}

mw_rc engine_run_open(engine_call *call)
{
    return engine_try_open(call->world, &call->options, &call->db, &call->err);
}

mw_rc engine_run_close(engine_call *call) { return mw_db_close(call->db, &call->err); }

static void *run_call(void *arg)
{
    engine_call *call = arg;
    call->rc = call->run(call);
    atomic_store(&call->done, true);
    return NULL;
}

void engine_start(engine_call *call)
{
    atomic_init(&call->done, false);
    assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
}

bool engine_ends(engine_call *call, uint64_t ms)
{
    for (uint64_t waited = 0; waited < ms && !atomic_load(&call->done); waited++) usleep(1000);
    return atomic_load(&call->done);
}

mw_rc engine_wait(engine_call *call)
{
    if (!engine_ends(call, ENGINE_WAIT_MS)) fail_msg("a call has not ended: it hangs");
    assert_int_equal(pthread_join(call->thread, NULL), 0);
    return call->rc;
}

static uint32_t queued(mw_store *store)
{
    uint32_t count = 0;
    mw_store_lock(store);
    for (const mw_request *at = store->queue_first; at; at = at->next) count++;
    mw_store_unlock(store);
    return count;
}

void engine_wait_queued(mw_db *db, uint32_t count)
{
    mw_store *store = engine_store(db);
    for (uint64_t waited = 0; waited < ENGINE_WAIT_MS && queued(store) != count; waited++)
        usleep(1000);
    assert_int_equal(queued(store), count);
}
