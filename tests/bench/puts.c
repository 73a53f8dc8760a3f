/* puts.c: W1, single durable INSERTs from one thread and from many. */
#include "sides.h"
#include "works.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A disk that others use is slow for seconds at a time: both sides take turns in short slices. */
enum {
    SLICES = 20,
    SLICE_PUTS = 250,
    PUTS = SLICES * SLICE_PUTS,
    THREADS = 16,
    THREAD_SLICES = 2,
    THREAD_SLICE_PUTS = 400,
    THREAD_PUTS = THREADS * THREAD_SLICES * THREAD_SLICE_PUTS,
};

typedef struct putter {
    side side;
    sqlite3_stmt *insert;
    double seconds;
    double written;
    double each[PUTS];
} putter;

static void put_slice(putter *p, int slice)
{
    written before = look_at_settled_counters(wanted.folder);
    for (int i = slice * SLICE_PUTS; i < (slice + 1) * SLICE_PUTS; i++) {
        double began = now_s();
        put_row(&p->side, p->insert, id_number(RANDOM_ORDER, i), 0);
        p->each[i] = now_s() - began;
        p->seconds += p->each[i];
    }
    written after = look_at_settled_counters(wanted.folder);
    p->written += written_between(&before, &after).disk;
}

static double p99_us(putter *p)
{
    qsort(p->each, PUTS, sizeof *p->each, by_size);
    return p->each[PUTS * 99 / 100] * 1e6;
}

void measure_one_thread(bool memwal_first)
{
    static putter both[2];
    const double data = PUTS * (double)ROW_SMALL_BYTES;
    for (int i = 0; i < 2; i++) {
        both[i].side = side_make(i == 0 ? MEMWAL_TEXT : ROWID, ROW_SMALL);
        both[i].insert = prepare(both[i].side.db, insert_sql);
        both[i].seconds = 0;
        both[i].written = 0;
    }
    for (int i = 0; i < 2 * SLICES; i++) put_slice(&both[(i + memwal_first + 1) % 2], i / 2);
    note(W1_ONE, PUTS / both[0].seconds, PUTS / both[1].seconds);
    note(W1_P99, p99_us(&both[0]), p99_us(&both[1]));
    note(W1_ONE_WRITTEN, both[0].written / data, both[1].written / data);
    note(W1_ONE_DISK, bytes_on_disk(both[0].side.folder) / data,
         bytes_on_disk(both[1].side.folder) / data);
    for (int i = 0; i < 2; i++) {
        sqlite3_finalize(both[i].insert);
        side_end(&both[i].side);
    }
}

/* ---- many threads ------------------------------------------------------------------------ */

typedef struct writer {
    pthread_t thread;
    pthread_barrier_t *start;
    const side *side;
    int number; /* differs between all writers of a store */
} writer;

static void *write_rows(void *arg)
{
    const writer *self = arg;
    side own = *self->side;
    own.db = side_connect(self->side);
    if (is_memwal(&own)) {
        char sql[PATH_BYTES + 128];
        snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s/store')",
                 own.folder);
        run(own.db, sql);
    }
    sqlite3_stmt *insert = prepare(own.db, insert_sql);
    pthread_barrier_wait(self->start);
    for (int i = 0; i < THREAD_SLICE_PUTS; i++) {
        put_row(&own, insert, row_mix((uint64_t)(self->number * THREAD_SLICE_PUTS + i)), 0);
    }
    sqlite3_finalize(insert);
    sqlite3_close(own.db);
    return NULL;
}

/* Seconds of one slice, from the moment when all have connected. */
static double threads_put(const side *s, int slice)
{
    writer writers[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (writer){.start = &start, .side = s, .number = slice * THREADS + i};
        if (pthread_create(&writers[i].thread, NULL, write_rows, &writers[i])) give_up("no thread");
    }
    pthread_barrier_wait(&start);
    double began = now_s();
    for (int i = 0; i < THREADS; i++) pthread_join(writers[i].thread, NULL);
    double seconds = now_s() - began;
    pthread_barrier_destroy(&start);
    return seconds;
}

/* The store that the temp tables of the threads share. */
static void make_shared_store(const side *s)
{
    char sql[PATH_BYTES + 256];
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.t USING memwal(%s, path = '%s/store')",
             text_key_columns, s->folder);
    run(s->db, sql);
    (void)ask(s->db, "SELECT memwal_count('temp.t')"); /* keeps the engine and its figures open */
}

void measure_many_threads(bool memwal_first)
{
    double seconds[2] = {0, 0};
    double disk[2] = {0, 0};
    const double data = THREAD_PUTS * (double)ROW_SMALL_BYTES;
    side sides[2] = {side_make(MEMWAL_TEXT, ROW_SMALL), side_make(ROWID, ROW_SMALL)};
    make_shared_store(&sides[0]);
    for (int i = 0; i < 2 * THREAD_SLICES; i++) {
        int at = (i + memwal_first + 1) % 2;
        written before = look_at_settled_counters(wanted.folder);
        seconds[at] += threads_put(&sides[at], i / 2);
        written after = look_at_settled_counters(wanted.folder);
        disk[at] += written_between(&before, &after).disk;
    }
    note(W1_SIXTEEN, THREAD_PUTS / seconds[0], THREAD_PUTS / seconds[1]);
    double commits = memwal_figure(sides[0].db, "temp.t", "commits");
    note(W1_SYNCS, memwal_figure(sides[0].db, "temp.t", "wal_syncs") / commits, NAN);
    note(W1_SIXTEEN_WRITTEN, disk[0] / data, disk[1] / data);
    note(W1_SIXTEEN_DISK, bytes_on_disk(sides[0].folder) / data,
         bytes_on_disk(sides[1].folder) / data);
    for (int i = 0; i < 2; i++) side_end(&sides[i]);
}
