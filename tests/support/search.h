/* search.h: breadth-first search through every state of a small model. */
#ifndef SEARCH_H
#define SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct search search;

typedef enum search_kind {
    SEARCH_DUTY,   /* somebody will take it, if nothing goes wrong            */
    SEARCH_CHOICE, /* what an application may do, or not                      */
    SEARCH_FAULT,  /* a crash, an error; or a wait that is given up, much too early or late */
} search_kind;

typedef struct search_rule {
    int number; /* Rn in core/PROTOCOL.md */
    const char *text;
    const char *without; /* what goes wrong */
} search_rule;

/* States are plain bytes without holes; the first one is all zero but for what `start` sets. */
typedef struct search_model {
    const char *name;
    size_t state_bytes; /* a multiple of 8 */
    const search_rule *rules;
    int rule_count;
    void (*start)(void *state);
    /* Calls search_step for each step that is possible in `state`. */
    void (*steps)(search *self, const void *state);
    /* The promise that is broken in this state, or NULL. */
    const char *(*broken)(const search *self, const void *state);
    /* Does somebody wait for an answer? Then there must be a step that is a duty. */
    bool (*waiting)(const void *state);
} search_model;

typedef struct search_result {
    uint64_t states;
    uint64_t steps;
    const char *broken; /* NULL: nothing was found            */
    int length;         /* steps of the shortest way to there */
} search_result;

enum { SEARCH_ALL_RULES = -1 };

/* Searches with the rule `off` taken out. With `tell` the shortest way to a broken promise is
** printed, one step a line. Aborts when memory runs out. */
search_result search_run(const search_model *model, int off, bool tell);

/* For the models: is the rule kept in this search? */
bool search_keeps(const search *self, int rule);

/* `who` and `what` are borrowed for the time of the search. */
void search_step(search *self, const void *next, search_kind kind, const char *who,
                 const char *what);

#endif
