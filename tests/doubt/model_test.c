/* model_test.c: the rules of core/PROTOCOL.md, each searched with and without.
**
**     with all rules      every state that a model can get into keeps every promise
**     without one rule    there is a state that breaks one: otherwise it is no rule, or the model
**                         cannot tell
**
** The models are tests/support/model_*.c, small machines of their own: they share no code with the
** engine. What they prove is that the rules suffice and that none is idle; that the engine keeps
** them is for crash_test.c and the like. The search is breadth-first, so a counterexample is one of
** the shortest.
**
** MODEL_RULE=R7   only this rule is left out, and the steps to the broken promise are printed */
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const search_model *const models[] = {&model_epoch, &model_chain, &model_file, &model_turn,
                                             &model_host};

enum { MODELS = sizeof models / sizeof models[0], ROW_BYTES = 256 };

static int wanted; /* number of a rule; 0: all of them */

static bool passed_over(const search_rule *rule) { return wanted && rule->number != wanted; }

/* ---- the page -------------------------------------------------------------------------------- */

static char *page; /* core/PROTOCOL.md; NULL where the program was started elsewhere */

static char *read_page(void)
{
    FILE *file = fopen("core/PROTOCOL.md", "rb");
    if (!file) return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

static void require_on_page(const char *row)
{
    if (!page || strstr(page, row)) return;
    fail_msg("core/PROTOCOL.md has no line\n%s", row);
}

/* ---- with all rules -------------------------------------------------------------------------- */

static void with_all_rules_every_promise_is_kept(void **state)
{
    (void)state;
    uint64_t total = 0;
    for (int i = 0; i < MODELS && !wanted; i++) {
        search_result result = search_run(models[i], SEARCH_ALL_RULES, true);
        total += result.states;
        printf("%-8s %8llu states, %9llu steps\n", models[i]->name,
               (unsigned long long)result.states, (unsigned long long)result.steps);
        if (result.broken) {
            fail_msg("%s: %s, after %d steps", models[i]->name, result.broken, result.length);
        }
    }
    printf("%llu states\n", (unsigned long long)total);
}

/* ---- without one ----------------------------------------------------------------------------- */

static void leave_out(const search_model *model, int i)
{
    const search_rule *rule = &model->rules[i];
    char row[ROW_BYTES];
    search_result result = search_run(model, i, wanted != 0);
    if (!result.broken) fail_msg("R%d can be left out: %s", rule->number, rule->text);
    int bytes = snprintf(row, sizeof row, "| R%d | %s | %s | %s | %d |\n", rule->number, rule->text,
                         rule->without, result.broken, result.length);
    assert_in_range(bytes, 1, sizeof row - 1);
    printf("%s", row);
    require_on_page(row);
}

static void no_rule_can_be_left_out(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        for (int j = 0; j < models[i]->rule_count; j++) {
            if (!passed_over(&models[i]->rules[j])) leave_out(models[i], j);
        }
    }
}

/* The page speaks of rules by number. */
static void rules_are_numbered_through(void **state)
{
    (void)state;
    int number = 0;
    for (int i = 0; i < MODELS; i++) {
        for (int j = 0; j < models[i]->rule_count; j++) {
            char heading[ROW_BYTES];
            assert_int_equal(models[i]->rules[j].number, ++number);
            snprintf(heading, sizeof heading, "**R%d. ", number);
            require_on_page(heading);
        }
    }
    assert_in_range(wanted, 0, number);
}

/* ---- main ------------------------------------------------------------------------------------ */

static int set_up(void **state)
{
    (void)state;
    const char *text = getenv("MODEL_RULE");
    if (text && (sscanf(text, "R%d", &wanted) != 1 || wanted < 1)) {
        fail_msg("MODEL_RULE: expected a rule like R7, found %s", text);
    }
    page = read_page();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(page);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_numbered_through),
        cmocka_unit_test(with_all_rules_every_promise_is_kept),
        cmocka_unit_test(no_rule_can_be_left_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
