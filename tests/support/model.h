/* model.h: the protocol of core/PROTOCOL.md as small models, one for each doubt. */
#ifndef MODEL_H
#define MODEL_H

#include "search.h"

extern const search_model model_epoch; /* claim, seal, fence, copies, flush: nobody trusts a lock */
extern const search_model model_chain; /* numbers of manifests, and who removes them              */
extern const search_model model_file;  /* jobs that make files, and who removes those             */
extern const search_model model_turn;  /* the turn between processes: locks and the state file    */
extern const search_model model_host;  /* two phases with the host database, settling             */

/* Rules are numbered through all models. A model lists its own as RULES(X), X(NAME, rule, what goes
** wrong without it); MODEL_RULES makes constants and a table of them. */
enum {
    MODEL_EPOCH_FIRST = 1,
    MODEL_CHAIN_FIRST = 22,
    MODEL_FILE_FIRST = 33,
    MODEL_TURN_FIRST = 41,
    MODEL_HOST_FIRST = 49,
};

#define MODEL_NAME(name, text, without) name,
#define MODEL_ROW(name, text, without)  {FIRST_RULE + name, text, without},
#define MODEL_RULES(first)                                     \
    enum { RULES(MODEL_NAME) RULE_COUNT, FIRST_RULE = first }; \
    static const search_rule rules[] = {RULES(MODEL_ROW)};

#endif
