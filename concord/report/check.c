/* check.c - the checklist: each box has a function that looks for the fact in the journal's record. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

/* True when the record proves the claim; the fact is written either way. */
typedef bool checker(const struct run_record *r, struct buf *fact);

/* Counts cases that satisfy the test, of those that are concerned. */
typedef bool case_test(const struct case_record *c);

static bool count_cases(const struct run_record *r, case_test *concerned, case_test *holds, struct buf *fact)
{
    int n = 0, good = 0;
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (!concerned(c)) continue;
        n++;
        good += holds(c);
    }
    buf_addf(fact, "%d/%d", good, n);
    return n > 0 && good == n;
}

static const json_t *part(const struct case_record *c, const char *key)
{
    return json_object_get(json_object_get(c->facts, "result"), key);
}

static bool any(const struct case_record *c)
{
    return c != NULL;
}

static bool was_executed(const struct case_record *c)
{
    return c->state == CASE_DONE && c->attempts > 0 && c->verdict != VERDICT_SKIPPED;
}

static bool passed(const struct case_record *c)
{
    return c->verdict == VERDICT_PASSED;
}

static bool has_backward(const struct case_record *c)
{
    return !strcmp(c->passes, "backward");
}

static bool compared(const struct case_record *c)
{
    return json_integer_value(part(c, "compared")) > 0;
}

static bool proved(const struct case_record *c)
{
    const json_t *proof = part(c, "proof");
    bool memory = json_integer_value(json_object_get(proof, "memory_peak")) > 0;
    return memory && (c->kind == KIND_HARDWARE || (c->kind == KIND_SOFTWARE && c->launches > 0));
}

static bool no_fallback(const struct case_record *c)
{
    const json_t *fallbacks = json_object_get(part(c, "proof"), "fallbacks");
    return json_is_array(fallbacks) && !json_array_size(fallbacks);
}

static bool not_skipped(const struct case_record *c)
{
    return c->state == CASE_DONE && c->verdict != VERDICT_SKIPPED;
}

static bool check_executed(const struct run_record *r, struct buf *fact)
{
    return count_cases(r, any, was_executed, fact);
}

static bool check_compared(const struct run_record *r, struct buf *fact)
{
    return count_cases(r, any, compared, fact);
}

static bool check_backward(const struct run_record *r, struct buf *fact)
{
    return count_cases(r, has_backward, passed, fact);
}

static bool check_proved(const struct run_record *r, struct buf *fact)
{
    return count_cases(r, passed, proved, fact);
}

static bool check_fallback(const struct run_record *r, struct buf *fact)
{
    return count_cases(r, any, no_fallback, fact);
}

static bool check_skipped(const struct run_record *r, struct buf *fact)
{
    return count_cases(r, any, not_skipped, fact);
}

static bool check_cells(const struct run_record *r, struct buf *fact)
{
    int total, good = record_passed(r, &total);
    buf_addf(fact, "%d/%d", good, total);
    return total > 0 && good == total;
}

/* Counts releases that satisfy the test. */
typedef bool release_test(const struct release_record *rel);

static bool count_releases(const struct run_record *r, release_test *holds, struct buf *fact)
{
    int good = 0;
    for (size_t i = 0; i < r->releases.len; i++) good += holds(&r->releases.ptr[i]);
    buf_addf(fact, "%d/%zu", good, r->releases.len);
    return r->releases.len > 0 && (size_t)good == r->releases.len;
}

static bool starts_with_version(const json_t *hello, const char *key, const char *version)
{
    const char *found = json_string_value(json_object_get(hello, key));
    size_t n = strlen(version);
    return found && !strncmp(found, version, n) && (!found[n] || found[n] == '+');
}

static bool versions_match(const struct release_record *rel)
{
    return starts_with_version(rel->hello, "torch", rel->torch) &&
           starts_with_version(rel->hello, "plugin_version", rel->name);
}

static bool locked(const struct release_record *rel)
{
    return *rel->lock != '\0';
}

static bool on_hardware(const struct release_record *rel)
{
    return rel->kind == KIND_HARDWARE;
}

static bool check_versions(const struct run_record *r, struct buf *fact)
{
    return count_releases(r, versions_match, fact);
}

static bool check_locks(const struct run_record *r, struct buf *fact)
{
    return count_releases(r, locked, fact);
}

static bool check_hardware(const struct run_record *r, struct buf *fact)
{
    return count_releases(r, on_hardware, fact);
}

/* One log pasted for several releases would have one set of times. */
static bool check_own_runs(const struct run_record *r, struct buf *fact)
{
    int good = 0, n = 0;
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        const struct release_record *rel = record_release(r, c->release);
        n++;
        good += *c->started && rel && json_integer_value(json_object_get(c->facts, "done")) == c->id;
    }
    buf_addf(fact, "%d/%d", good, n);
    return n > 0 && good == n;
}

static bool check_same_count(const struct run_record *r, struct buf *fact)
{
    bool same = r->releases.len > 0;
    int first = -1;
    for (size_t i = 0; i < r->releases.len; i++) {
        int n = 0;
        for (size_t k = 0; k < r->cases.len; k++)
            n += !strcmp(r->cases.ptr[k].release, r->releases.ptr[i].name) &&
                 r->cases.ptr[k].state == CASE_DONE;
        buf_addf(fact, "%s%d", i ? ", " : "", n);
        if (first < 0) first = n;
        same = same && n == first && n > 0;
    }
    return same;
}

#define CHECKS(X)                                                                                            \
    X(executed, "Every planned case was executed", "所有计划用例均已执行")                                   \
    X(same_count, "The same number of cases ran on every release", "各版本执行的用例数相同")                 \
    X(own_runs, "Every result comes from its own run on its own release",                                    \
      "每条结果均来自对应版本的独立运行")                                                                    \
    X(versions, "Installed torch and torch_npu are the planned ones",                                        \
      "已安装的 torch 与 torch_npu 与计划版本一致")                                                          \
    X(locks, "Every environment is locked (versions and hashes)", "各环境均已锁定（版本与哈希）")            \
    X(compared, "Every case was compared with the CPU", "所有用例均与 CPU 结果对比")                         \
    X(backward, "Every case with a backward pass PASSED", "所有含反向的用例均通过")                          \
    X(proved, "Every PASSED case has proof of execution on the device", "所有通过的用例均有设备执行证据")    \
    X(fallback, "No operator fell back to the CPU", "没有算子回退到 CPU")                                    \
    X(skipped, "No case was skipped", "没有跳过的用例")                                                      \
    X(cells, "Every API PASSED on every release", "所有 API 在所有版本上均通过")                             \
    X(hardware, "Executed on hardware", "在真实硬件上执行")

static const struct {
    const char *id, *en, *zh;
    checker *holds;
} rows[] = {
#define X(id, en, zh) {#id, en, zh, check_##id},
    CHECKS(X)
#undef X
};

void report_check(struct report *r)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf fact = BUF_INIT;
        bool ticked = rows[i].holds(r->record, &fact);
        *vec_push(&r->checks) = (struct check){rows[i].id, rows[i].en, rows[i].zh, ticked, buf_take(&fact)};
    }
}
