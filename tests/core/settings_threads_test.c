/* settings_threads_test.c: options change while others write, read, flush, merge and look: clean
** under the thread sanitizer, nothing is lost, everybody ends. */
#include "engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITERS = 3, SETTERS = 2, COMMITS = 4000, ALL = WRITERS + SETTERS + 2 };

typedef struct worker {
    mw_db *db;
    atomic_bool *stop;
    int number;
    int64_t done;
    mw_rc rc;
    mw_err err;
    pthread_t thread;
} worker;

static void *write_rows(void *arg)
{
    worker *self = arg;
    for (; self->rc == MW_OK && self->done < COMMITS; self->done++) {
        int64_t id = self->done * WRITERS + self->number;
        mw_txn_kind kind = self->done % 7 == 0 ? MW_TXN_FULL : MW_TXN_LIGHT;
        self->rc = engine_try(self->db, id, "some words", kind, &self->err);
    }
    return NULL;
}

/* Each setter changes options of its own; those of the other are in his pictures, too. */
static void change(int setter, int64_t round, mw_options *to)
{
    if (setter == 0 && round % 3 == 0) {
        to->durability = round % 2 ? MW_DURABILITY_FULL : MW_DURABILITY_NORMAL;
    }
    if (setter == 0 && round % 3 == 1) to->background = round % 2 == 0;
    if (setter == 0 && round % 3 == 2) to->merge_generations = 1 + (uint32_t)(round % 5);
    if (setter == 1 && round % 3 == 0) to->memtable_bytes = 1000 + (uint64_t)(round % 4) * 1000;
    if (setter == 1 && round % 3 == 1) to->cache_bytes = (uint64_t)(round % 4) * 10000;
    if (setter == 1 && round % 3 == 2) to->compression = (int)(round % 2);
}

static void *set_options(void *arg)
{
    worker *self = arg;
    while (self->rc == MW_OK && !atomic_load(self->stop)) {
        mw_options from = mw_db_options(self->db);
        mw_options to = from;
        change(self->number, self->done++, &to);
        self->rc = mw_db_set_options(self->db, &from, &to, ENGINE_WAIT_MS, &self->err);
        usleep(200);
    }
    return NULL;
}

static void ignore_figure(void *arg, const char *name, const mw_value *value)
{
    (void)arg;
    (void)name;
    (void)value;
}

static void ignore_file(void *arg, const mw_file_info *file)
{
    (void)arg;
    (void)file;
}

/* The log as one moment saw it: positions without a gap, and never undecided below published. */
static mw_rc read_log(mw_db *db, mw_err *err)
{
    mw_log_view *view;
    mw_log_line line = {0};
    mw_rc rc = mw_log_view_open(db, &view, err);
    if (rc != MW_OK) return rc;
    uint64_t last = 0;
    bool undecided = false;
    for (bool any = true; rc == MW_OK && any;) {
        rc = mw_log_view_next(view, &line, &any, err);
        if (rc != MW_OK || !any) break;
        bool follows = last == 0 || line.position == last + 1;
        bool decided = strcmp(line.state, "undecided") != 0;
        if (!follows || (undecided && decided)) rc = mw_fail(err, MW_MISUSE, "a wrong line");
        undecided = undecided || !decided;
        last = line.position;
    }
    mw_log_view_close(view);
    return rc;
}

static void *look(void *arg)
{
    worker *self = arg;
    while (self->rc == MW_OK && !atomic_load(self->stop)) {
        uint64_t what = (uint64_t)self->done++ % 3;
        if (what == 0) self->rc = read_log(self->db, &self->err);
        if (what == 1) self->rc = mw_db_stats(self->db, ignore_figure, NULL, &self->err);
        if (what == 2) self->rc = mw_db_files(self->db, ignore_file, NULL, &self->err);
    }
    return NULL;
}

static void *keep_house(void *arg)
{
    worker *self = arg;
    while (self->rc == MW_OK && !atomic_load(self->stop)) {
        uint64_t generation;
        uint64_t removed;
        uint64_t what = (uint64_t)self->done++ % 2;
        if (what == 0) self->rc = mw_db_flush(self->db, ENGINE_WAIT_MS, &generation, &self->err);
        if (what == 1) self->rc = mw_db_compact(self->db, NULL, NULL, &removed, &self->err);
        usleep(3000);
    }
    return NULL;
}

static void start(worker *self, mw_db *db, atomic_bool *stop, int number, void *(*run)(void *))
{
    *self = (worker){.db = db, .stop = stop, .number = number};
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

/* I1, I3, I7, I14. */
static void options_change_under_everybody(void **state)
{
    (void)state;
    sim *world = engine_world();
    mw_db *db = engine_open(world, NULL);
    atomic_bool stop = false;
    worker all[ALL];
    for (int i = 0; i < WRITERS; i++) start(&all[i], db, &stop, i, write_rows);
    for (int i = 0; i < SETTERS; i++) start(&all[WRITERS + i], db, &stop, i, set_options);
    start(&all[ALL - 2], db, &stop, 0, look);
    start(&all[ALL - 1], db, &stop, 0, keep_house);
    for (int i = 0; i < ALL; i++) {
        if (i == WRITERS) atomic_store(&stop, true);
        pthread_join(all[i].thread, NULL);
        if (all[i].rc != MW_OK) fail_msg("worker %d: %s", i, all[i].err.text);
        assert_true(all[i].done > 0);
    }
    assert_int_equal(engine_count(db), WRITERS * COMMITS);
    assert_string_equal(engine_check(db), "ok");
    engine_close(db);
    db = engine_open(world, NULL);
    assert_int_equal(engine_count(db), WRITERS * COMMITS);
    engine_close(db);
    engine_end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_change_under_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
