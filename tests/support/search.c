/* search.c: breadth-first search through every state of a small model.
**
**     states   [s0][s1][s2]...      each once, in the order in which they were found
**     parents  [ -][ 0][ 0]...      the state from which it was found first
**     table    hash -> number       open addressing; the hash stands there, too: few states are
**                                   looked at in vain
**
** States are found in the order of their distance, so the first broken promise is one of those with
** the shortest way. Ways are not stored in words: whoever wants one takes the steps again and keeps
** those that lead to the next state of the way. */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 12 };

static const uint32_t nothing = UINT32_MAX;

typedef struct slot {
    uint32_t number;
    uint32_t hash;
} slot;

struct search {
    const search_model *model;
    int off;
    uint8_t *states;
    uint32_t *parents;
    uint32_t count;
    uint32_t capacity;
    slot *table;
    uint32_t slots; /* a power of two */
    uint32_t at;    /* whose steps are taken */
    uint64_t steps;
    bool moved;           /* a duty that leads elsewhere was found */
    const void *wanted;   /* only this state is looked for ...     */
    const char *label[2]; /* ... and found by that step            */
};

static void *must_resize(void *old, size_t bytes)
{
    void *grown = realloc(old, bytes);
    if (!grown) {
        fprintf(stderr, "search: no memory for %zu bytes\n", bytes);
        abort();
    }
    return grown;
}

static const uint8_t *state_at(const search *self, uint32_t number)
{
    return self->states + (size_t)number * self->model->state_bytes;
}

static uint32_t hash(const search *self, const void *state)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < self->model->state_bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)state + i, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (uint32_t)(h ^ h >> 29);
}

static bool is_at(const search *self, const slot *at, const void *state, uint32_t key)
{
    if (at->hash != key) return false;
    return memcmp(state_at(self, at->number), state, self->model->state_bytes) == 0;
}

/* Where the state is, or is to go. */
static slot *find_slot(const search *self, const void *state, uint32_t key)
{
    uint32_t i = key & (self->slots - 1);
    while (self->table[i].number != nothing && !is_at(self, &self->table[i], state, key)) {
        i = (i + 1) & (self->slots - 1);
    }
    return &self->table[i];
}

static void resize_table(search *self, uint32_t slots)
{
    slot *old = self->table;
    uint32_t old_slots = self->slots;
    self->slots = slots;
    self->table = must_resize(NULL, slots * sizeof *self->table);
    memset(self->table, 0xff, slots * sizeof *self->table);
    for (uint32_t i = 0; i < old_slots; i++) {
        if (old[i].number == nothing) continue;
        uint32_t to = old[i].hash & (slots - 1);
        while (self->table[to].number != nothing) to = (to + 1) & (slots - 1);
        self->table[to] = old[i];
    }
    free(old);
}

static void add(search *self, const void *state, uint32_t parent)
{
    uint32_t key = hash(self, state);
    slot *at = find_slot(self, state, key);
    if (at->number != nothing) return;
    if (self->count == self->capacity) {
        self->capacity = self->capacity ? self->capacity * 2 : FIRST_SLOTS;
        size_t bytes = self->capacity * self->model->state_bytes;
        self->states = must_resize(self->states, bytes);
        self->parents = must_resize(self->parents, self->capacity * sizeof *self->parents);
    }
    memcpy(self->states + self->count * self->model->state_bytes, state, self->model->state_bytes);
    self->parents[self->count] = parent;
    *at = (slot){self->count++, key};
    if (self->count * 2u > self->slots) resize_table(self, self->slots * 2);
}

bool search_keeps(const search *self, int rule) { return self->off != rule; }

void search_step(search *self, const void *next, search_kind kind, const char *who,
                 const char *what)
{
    size_t bytes = self->model->state_bytes;
    if (self->wanted) {
        if (!self->label[0] && memcmp(next, self->wanted, bytes) == 0) {
            self->label[0] = who;
            self->label[1] = what;
        }
        return;
    }
    self->steps++;
    if (kind == SEARCH_DUTY && memcmp(next, state_at(self, self->at), bytes) != 0) {
        self->moved = true;
    }
    add(self, next, self->at);
}

static int length_of(const search *self, uint32_t number)
{
    int length = 0;
    for (; self->parents[number] != nothing; number = self->parents[number]) length++;
    return length;
}

static void print_way(search *self, uint32_t number)
{
    int length = length_of(self, number);
    uint32_t *way = must_resize(NULL, ((size_t)length + 1) * sizeof *way);
    for (int i = length; i >= 0; i--) {
        way[i] = number;
        number = self->parents[number];
    }
    for (int i = 1; i <= length; i++) {
        self->wanted = state_at(self, way[i]);
        self->label[0] = self->label[1] = NULL;
        self->model->steps(self, state_at(self, way[i - 1]));
        printf("    %2d  %-9s %s\n", i, self->label[0], self->label[1]);
    }
    self->wanted = NULL;
    free(way);
}

/* The promise that the state breaks, now or because nothing leads on. `from` is a copy of it: the
** states move when there are more of them. */
static const char *look_at(search *self, uint32_t number, uint8_t *from)
{
    memcpy(from, state_at(self, number), self->model->state_bytes);
    const char *broken = self->model->broken(self, from);
    if (broken) return broken;
    self->at = number;
    self->moved = false;
    self->model->steps(self, from);
    bool stuck = !self->moved && self->model->waiting(from);
    return stuck ? "I14: somebody waits for ever" : NULL;
}

search_result search_run(const search_model *model, int off, bool tell)
{
    search self = {.model = model, .off = off};
    search_result result = {0};
    uint8_t *from = must_resize(NULL, model->state_bytes);
    memset(from, 0, model->state_bytes);
    model->start(from);
    resize_table(&self, FIRST_SLOTS);
    add(&self, from, nothing);
    for (uint32_t i = 0; i < self.count && !result.broken; i++) {
        result.broken = look_at(&self, i, from);
        if (result.broken) result.length = length_of(&self, i);
        if (result.broken && tell) print_way(&self, i);
    }
    result.states = self.count;
    result.steps = self.steps;
    free(from);
    free(self.states);
    free(self.parents);
    free(self.table);
    return result;
}
