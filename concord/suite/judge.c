/* judge.c - rules in order, as verdict.c has them for the built-in cases. */
#include "concord/suite/judge.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct facts {
    const struct judge_context *x;
    const json_t *answer, *result;
};
typedef bool rule(const struct facts *f, struct test_judgement *j);

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int64_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool say(struct test_judgement *j, enum verdict v, char *owned_reason)
{
    *j = (struct test_judgement){.verdict = v, .reason = owned_reason};
    return true;
}

/* ---- where it was ---------------------------------------------------------------------------------------
 */

/* The innermost Python frame, "" when the stack has none. Owned. */
static char *python_frame(const char *stack)
{
    const char *current = strstr(stack, "Current thread");
    const char *p = strstr(current ? current : stack, "File \"");
    return p ? xformat(" at %.*s", (int)strcspn(p, "\n"), p) : xstrdup("");
}

static bool is_raising(const char *symbol)
{
    static const char *const names[] = {"gsignal",        "abort",        "raise", "pthread_kill",
                                        "__pthread_kill", "__restore_rt", "+0x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_starts(symbol, names[i])) return true;
    return false;
}

/* glibc's "LIBRARY(SYMBOL+0xOFFSET) [0xADDRESS]": the first symbol that is not the raising of the signal
 * itself. */
static char *c_frame(const char *stack)
{
    const char *p = strstr(stack, "C stack (innermost first):\n"), *end = strstr(stack, "end of C stack");
    while (p && end && (p = strchr(p, '\n')) && ++p < end) {
        const char *open = strchr(p, '('), *line_end = strchr(p, '\n');
        if (!open || open > line_end || is_raising(open + 1)) continue;
        size_t n = strcspn(open + 1, "+)");
        const char *slash = open;
        while (slash > p && slash[-1] != '/') slash--;
        if (n) return xformat(" in %.*s (%.*s)", (int)n, open + 1, (int)(open - slash), slash);
    }
    return xstrdup("");
}

static char *place(const struct facts *f, bool with_c)
{
    const char *stack = text_of(f->answer, "stack"), *phase = text_of(f->answer, "phase");
    char *c = with_c ? c_frame(stack) : xstrdup(""), *python = python_frame(stack);
    char *text = xformat("%s%s%s%s%s", c, python, *phase && strcmp(phase, "test") ? " in phase '" : "",
                         strcmp(phase, "test") ? phase : "", *phase && strcmp(phase, "test") ? "'" : "");
    free(c);
    free(python);
    return text;
}

/* ---- the rules ------------------------------------------------------------------------------------------
 */

static bool over_limit(const struct facts *f, struct test_judgement *j)
{
    const char *why = text_of(f->answer, "limit");
    if (!*why) return false;
    if (!strcmp(why, "timeout")) {
        char *where = place(f, false);
        say(j, VERDICT_TIMEOUT,
            xformat("no end after %.1f s%s", json_number_value(json_object_get(f->answer, "ms")) / 1000.0,
                    where));
        free(where);
        return true;
    }
    if (!strcmp(why, "memory"))
        return say(j, VERDICT_ERROR,
                   xformat("used more than %lld MiB of memory", (long long)f->x->memory_mib));
    if (!strcmp(why, "output"))
        return say(j, VERDICT_ERROR,
                   xformat("wrote more than %lld MiB of output", (long long)f->x->output_mib));
    return say(j, VERDICT_ERROR,
               xformat("had more than %lld processes at a time", (long long)f->x->processes));
}

static bool by_signal(const struct facts *f, struct test_judgement *j)
{
    int sig = (int)number_of(f->answer, "signal");
    if (!sig) return false;
    char *where = place(f, true);
    const char *name = sigabbrev_np(sig), *behind = f->result ? " after the test" : "";
    say(j, VERDICT_CRASHED,
        name ? xformat("SIG%s%s%s", name, behind, where) : xformat("signal %d%s%s", sig, behind, where));
    j->lost = sig == SIGKILL;
    free(where);
    return true;
}

static bool no_result(const struct facts *f, struct test_judgement *j)
{
    const json_t *status = json_object_get(f->answer, "exit");
    if (f->result && (!status || !json_integer_value(status))) return false;
    const char *out = text_of(f->answer, "output");
    size_t n = strlen(out);
    while (n && out[n - 1] == '\n') n--;
    size_t line = n;
    while (line && out[line - 1] != '\n') line--;
    return say(j, VERDICT_ERROR,
               xformat("the test ended its process with status %lld%s%.*s",
                       (long long)json_integer_value(status), n > line ? ": " : "",
                       (int)(n - line > 300 ? 300 : n - line), out + line));
}

static bool left_broken(const struct facts *f, struct test_judgement *j)
{
    if (!json_is_false(json_object_get(f->result, "healthy"))) return false;
    const char *reason = text_of(f->result, "reason");
    return say(j, VERDICT_ERROR,
               xformat("left the device broken (%s)%s%s", text_of(f->result, "outcome"), *reason ? ": " : "",
                       reason));
}

static const struct {
    const char *outcome;
    enum verdict verdict;
    const char *reason; /* when the result has none */
} outcomes[] = {
    {"failed", VERDICT_FAILED, "failed without a message"},
    {"error", VERDICT_ERROR, "ended without a message"},
    {"skipped", VERDICT_SKIPPED, "no reason given"},
    {"xfail", VERDICT_XFAIL, "no reason given"},
    {"xpass", VERDICT_XPASS, ""},
    {"missing", VERDICT_ERROR,
     "was not collected again: the list of tests depends on something outside the files"},
};

/* A built-in case compares with the CPU by itself; verdict.c has the rules for that. */
static bool own_case(const struct facts *f, struct test_judgement *j)
{
    json_t *result = json_object_get(f->result, "case");
    if (!result) return false;
    json_t *done = json_pack("{s:O, s:O}", "result", result, "exit", json_object_get(f->answer, "exit"));
    struct judgement inner = verdict_judge(done, f->x->kind);
    json_decref(done);
    return say(j, inner.verdict, inner.reason);
}

static bool not_passed(const struct facts *f, struct test_judgement *j)
{
    const char *outcome = text_of(f->result, "outcome"), *reason = text_of(f->result, "reason");
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
        if (!strcmp(outcome, outcomes[i].outcome))
            return say(j, outcomes[i].verdict, xstrdup(*reason ? reason : outcomes[i].reason));
    return strcmp(outcome, "passed")
               ? say(j, VERDICT_ERROR, xformat("unknown outcome '%s' from the harness", outcome))
               : false;
}

static bool fell_back(const struct facts *f, struct test_judgement *j)
{
    const json_t *names = json_object_get(f->result, "fallbacks");
    if (!f->x->proof || !json_array_size(names)) return false;
    return say(j, VERDICT_NO_PROOF,
               xformat("fell back to the CPU: %s%s", json_string_value(json_array_get(names, 0)),
                       json_array_size(names) > 1 ? " and others" : ""));
}

/* A board counts no launches for us: there, memory that was in use on the device is the proof. */
static bool no_proof(const struct facts *f, struct test_judgement *j)
{
    if (!f->x->proof) return false;
    const json_t *proof = json_object_get(f->result, "proof");
    if (f->x->kind == KIND_HARDWARE)
        return number_of(proof, "memory_peak") > 0
                   ? false
                   : say(j, VERDICT_NO_PROOF, xstrdup("passed, no device memory was in use"));
    if (number_of(proof, "launches") > 0) return false;
    return say(j, VERDICT_NO_PROOF, xstrdup("passed, nothing was executed on the device"));
}

static rule *const rules[] = {over_limit, by_signal,  no_result, left_broken,
                              own_case,   not_passed, fell_back, no_proof};

struct test_judgement judge_test(const struct judge_context *x, const json_t *answer)
{
    struct facts f = {x, answer, json_object_get(answer, "result")};
    struct test_judgement j;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i](&f, &j)) return j;
    return (struct test_judgement){.verdict = VERDICT_PASSED, .reason = xstrdup("")};
}

int64_t judge_launches(const json_t *answer)
{
    return number_of(json_object_get(json_object_get(answer, "result"), "proof"), "launches");
}

json_t *judge_facts(const json_t *answer, enum verdict v)
{
    static const char *const kept[] = {"signal", "exit", "limit", "leftovers", "phase"};
    json_t *facts = json_object();
    const json_t *result = json_object_get(answer, "result"), *proof = json_object_get(result, "proof");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *value = json_object_get(answer, kept[i]);
        bool usual = !value || (!strcmp(kept[i], "exit") && !json_integer_value(value)) ||
                     !strcmp(text_of(answer, kept[i]), "exit");
        if (!usual) json_object_set(facts, kept[i], value);
    }
    if (json_object_size(json_object_get(proof, "operators")))
        json_object_set(facts, "operators", json_object_get(proof, "operators"));
    if (json_array_size(json_object_get(result, "fallbacks")))
        json_object_set(facts, "fallbacks", json_object_get(result, "fallbacks"));
    if (v != VERDICT_PASSED && json_object_get(answer, "rss"))
        json_object_set(facts, "rss_kib", json_object_get(answer, "rss"));
    if (json_object_size(facts)) return facts;
    json_decref(facts);
    return NULL;
}
