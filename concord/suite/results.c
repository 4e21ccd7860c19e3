/* results.c - from answers to verdicts that stand: repetition, flakiness, expectations, storage. */
#include "concord/suite/private.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LOST = 1 }; /* executions that may get lost before the case is blamed for it */

static void set_text(char **field, char *owned)
{
    free(*field);
    *field = owned;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- stored attempts ------------------------------------------------------------------------------------
 */

static void set_facts(struct suite_case *c, json_t *facts)
{
    if (c->history && !facts) facts = json_object();
    if (c->history) json_object_set(facts, "repeated", c->history);
    if (c->history && c->group) json_object_set_new(facts, "group", json_integer(c->group));
    json_decref(c->facts);
    c->facts = facts;
}

void result_restore(struct suite_case *c)
{
    json_t *repeated = json_object_get(c->facts, "repeated");
    if (!repeated || c->history) return;
    c->history = json_deep_copy(repeated);
    c->group = (int)json_integer_value(json_object_get(c->facts, "group"));
}

static void remember(struct suite_case *c, enum verdict v, const char *reason, int group)
{
    if (!c->history) {
        c->history = json_array();
        c->group = group;
    }
    json_array_append_new(
        c->history, json_pack("{s:s, s:s, s:f}", "verdict", verdict_name(v), "reason", reason, "ms", c->ms));
}

/* ---- ends -----------------------------------------------------------------------------------------------
 */

int result_replan(struct hub *h, struct suite_case *c)
{
    c->state = TEST_PLANNED;
    for (size_t i = 0; i < h->openings.len; i++)
        if (h->openings.ptr[i]->unit == c->unit) h->openings.ptr[i]->cursor = 0;
    return store_case(h->s->store, c, h->e);
}

int result_conclude(struct hub *h, struct suite_case *c, enum verdict v, char *owned_reason)
{
    c->state = TEST_DONE;
    c->verdict = v;
    set_text(&c->reason, owned_reason);
    if (h->s->expect) expect_apply(h->s->expect, h->s->run, c);
    h->any_bad |= verdict_is_bad(c->verdict) && c->unit->side == SIDE_DEVICE;
    *vec_push(&h->concluded) = c;
    return store_case(h->s->store, c, h->e);
}

int result_pseudo(struct hub *h, struct suite_unit *u, const char *node, enum verdict v, char *owned_reason,
                  const char *trace)
{
    struct suite_case *c = suite_case_find(u, node);
    if (!c) {
        c = suite_case_new(u, node);
        if (store_new_case(h->s->store, c, h->e)) {
            free(owned_reason);
            return -1;
        }
        monitor_added(h->s->monitor, 1);
    }
    c->attempts = v == VERDICT_SKIPPED ? 0 : 1;
    set_text(&c->trace, xstrdup(trace));
    if (store_output(h->s->store, c, h->e)) {
        free(owned_reason);
        return -1;
    }
    return result_conclude(h, c, v, owned_reason);
}

int result_lost(struct hub *h, struct suite_case *c, const char *what)
{
    if (c->lost++ < MAX_LOST) return result_replan(h, c);
    c->attempts++;
    return result_conclude(h, c, VERDICT_CRASHED, xformat("each time it ran, %s was ended", what));
}

/* ---- an answer ------------------------------------------------------------------------------------------
 */

static bool repeatable(enum verdict v)
{
    return v == VERDICT_FAILED || v == VERDICT_ERROR || v == VERDICT_CRASHED;
}

/* What was seen before and what was seen now, when a repetition did not fail. */
static char *flaky_reason(const struct suite_case *c)
{
    const json_t *first = json_array_get(c->history, 0);
    const char *reason = text_of(first, "reason"), *verdict = text_of(first, "verdict");
    if (c->group)
        return xformat(
            "order-dependent: %s after %d other test(s) in its process, not alone (concord bisect): %s",
            verdict, c->group, reason);
    return xformat("%s %zu time(s), then passed: %s", verdict, json_array_size(c->history), reason);
}

static void take_output(struct suite_case *c, const json_t *answer)
{
    set_text(&c->output, xstrdup(text_of(answer, "output")));
    set_text(&c->stack, xstrdup(text_of(answer, "stack")));
    set_text(&c->trace, xstrdup(text_of(json_object_get(answer, "result"), "trace")));
    c->ms = json_number_value(json_object_get(answer, "ms"));
    c->launches = judge_launches(answer);
}

static void drop_output(struct suite_case *c)
{
    set_text(&c->output, NULL);
    set_text(&c->stack, NULL);
    set_text(&c->trace, NULL);
}

static bool must_repeat(const struct hub *h, const struct suite_case *c, enum verdict v, size_t position)
{
    if (!repeatable(v)) return false;
    size_t before = json_array_size(c->history), free_ones = c->group || (!before && position) ? 1 : 0;
    return before < (size_t)h->s->options->retries + free_ones;
}

static int judged(struct hub *h, struct suite_case *c, size_t position, const json_t *answer,
                  struct test_judgement *j)
{
    c->attempts++;
    take_output(c, answer);
    int status = store_output(h->s->store, c, h->e);
    drop_output(c);
    bool repeat = must_repeat(h, c, j->verdict, position);
    if (repeat) remember(c, j->verdict, j->reason, (int)position);
    set_facts(c, judge_facts(answer, j->verdict));
    if (status) return -1;
    if (repeat) return result_replan(h, c);
    if (c->history && (j->verdict == VERDICT_PASSED || j->verdict == VERDICT_NO_PROOF))
        return result_conclude(h, c, VERDICT_FLAKY, flaky_reason(c));
    char *reason = j->reason;
    j->reason = NULL;
    int64_t left = json_integer_value(json_object_get(answer, "leftovers"));
    if (left && !*reason) {
        free(reason);
        reason = xformat("left %lld process(es) behind, which were ended", (long long)left);
    }
    return result_conclude(h, c, j->verdict, reason);
}

int result_answer(struct hub *h, struct slot *slot, struct suite_case *c, size_t position,
                  const json_t *answer)
{
    const struct sched_options *o = h->s->options;
    struct judge_context x = {.proof = *h->s->sides[c->unit->side].plugin,
                              .kind = h->s->run->kind,
                              .memory_mib = o->memory_mib,
                              .output_mib = o->output_mib,
                              .processes = o->processes};
    struct test_judgement j = judge_test(&x, answer);
    slot->opening->done++;
    slot->opening->done_ms += json_number_value(json_object_get(answer, "ms"));
    int status =
        j.lost && c->lost < MAX_LOST ? (c->lost++, result_replan(h, c)) : judged(h, c, position, answer, &j);
    free(j.reason);
    return status;
}
