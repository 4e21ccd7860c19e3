/* concord_journal.c - the run's journal: what is written is what is read, also after an interruption; tables
 * and reports. */
#include "concord/run/journal.h"
#include "concord/report/report.h"
#include "concord/run/runner.h"
#include "concord/run/table.h"

#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/concord_journal.XXXXXX";
static struct plan_case catalogue[] = {{"torch.a", "one", "forward", "the first", "第一"},
                                       {"torch.a", "two", "backward", "the second", "第二"},
                                       {"torch.b", "one", "backward", "the third", "第三"}};
static struct campaign campaign = {.path = "c.yaml", .name = "c"};
static struct plan plan;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(root)) return -1;
    *vec_push(&campaign.releases) =
        (struct campaign_release){.torch_npu = "2.7.1.post1", .torch = "2.7.1", .branch = "v2.7.1"};
    *vec_push(&campaign.releases) =
        (struct campaign_release){.torch_npu = "2.12.0", .torch = "2.12.0", .branch = "v2.12.0"};
    plan = (struct plan){.campaign = &campaign, .digest = xstrdup("d1"), .device = "software"};
    *vec_push(&plan.apis) = xstrdup("torch.a");
    *vec_push(&plan.apis) = xstrdup("torch.b");
    for (int i = 0; i < 3; i++) *vec_push(&plan.cases) = &catalogue[i];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plan_free(&plan);
    vec_free(&campaign.releases);
    return tree_remove(root, NULL);
}

static char *fresh(void)
{
    static int n;
    return xformat("%s/%d/j.db", root, n++);
}

static struct journal *must_open(const char *path)
{
    struct journal *j;
    struct err e = {{0}};
    if (journal_open(path, &j, &e)) fail_msg("%s", e.text);
    return j;
}

static struct run_record must_load(struct journal *j, int64_t run)
{
    struct run_record r;
    struct err e;
    if (journal_load(j, run, &r, &e)) fail_msg("%s", e.text);
    return r;
}

static int64_t must_begin(struct journal *j)
{
    struct err e;
    int64_t run;
    if (journal_begin(j, &plan, "concord verify c.yaml", &run, &e)) fail_msg("%s", e.text);
    return run;
}

static void set(char **field, const char *text)
{
    free(*field);
    *field = xstrdup(text);
}

static void conclude(struct journal *j, struct case_record *c, enum verdict v, const char *reason)
{
    struct err e;
    c->state = CASE_DONE;
    c->verdict = v;
    c->kind = KIND_SOFTWARE;
    c->attempts = 1;
    c->launches = 7;
    c->ms = 1.5;
    set(&c->reason, reason);
    set(&c->started, "2026-12-01T00:00:00Z");
    free(c->facts);
    c->facts = xformat("{\"done\":%lld,\"result\":{\"compared\":3,\"proof\":{\"memory_peak\":512,"
                       "\"fallbacks\":[]}}}",
                       (long long)c->id);
    assert_int_equal(journal_case(j, c, &e), 0);
}

static void conclude_all(struct journal *j, struct run_record *r)
{
    struct err e;
    for (size_t i = 0; i < r->releases.len; i++) {
        struct release_record *rel = &r->releases.ptr[i];
        rel->kind = KIND_SOFTWARE;
        set(&rel->device, "Ascend910B4");
        set(&rel->lock, "torch==x");
        rel->hello = json_pack("{s:s+, s:s, s:s, s:s}", "torch", rel->torch, "+cpu", "plugin_version",
                               rel->name, "softnpu", "/lib/libsoftnpu.so", "python", "3.11.7");
        assert_int_equal(journal_release(j, r->id, rel, &e), 0);
    }
    for (size_t i = 0; i < r->cases.len; i++) conclude(j, &r->cases.ptr[i], VERDICT_PASSED, "");
    assert_int_equal(journal_finish(j, r->id, &e), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    char *path = fresh();
    struct journal *j = must_open(path);
    int64_t run = must_begin(j);
    struct run_record r = must_load(j, run);
    assert_string_equal(r.campaign, "c");
    assert_string_equal(r.digest, "d1");
    assert_int_equal(r.apis.len, 2);
    assert_int_equal(r.releases.len, 2);
    assert_int_equal(r.cases.len, 6);
    assert_string_equal(r.releases.ptr[0].name, "2.7.1.post1");
    assert_string_equal(r.releases.ptr[0].torch, "2.7.1");
    assert_string_equal(r.cases.ptr[4].release, "2.12.0");
    assert_string_equal(r.cases.ptr[4].name, "two");
    assert_int_equal(r.cases.ptr[4].verdict, VERDICT_NOT_RUN);
    assert_false(record_complete(&r));
    json_t *tolerances = json_loads(r.tolerances, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(tolerances, "float16")), 2);
    json_decref(tolerances);

    conclude(j, &r.cases.ptr[4], VERDICT_FAILED, "out differs");
    run_record_free(&r);
    journal_close(j);

    j = must_open(path);
    r = must_load(j, run);
    assert_int_equal(r.cases.ptr[4].state, CASE_DONE);
    assert_int_equal(r.cases.ptr[4].verdict, VERDICT_FAILED);
    assert_string_equal(r.cases.ptr[4].reason, "out differs");
    assert_int_equal(r.cases.ptr[4].launches, 7);
    assert_int_equal(r.cases.ptr[4].kind, KIND_SOFTWARE);
    json_t *facts = case_facts(&r.cases.ptr[4]);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(facts, "result"), "compared")), 3);
    json_decref(facts);
    run_record_free(&r);
    journal_close(j);
    free(path);
}

/* A process that is killed in the middle of a transaction leaves what was committed before, no more and no
 * less. */
static void test_killed_writer(void **state)
{
    (void)state;
    char *path = fresh();
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct err e;
        struct journal *j;
        if (journal_open(path, &j, &e)) _exit(1);
        int64_t run;
        journal_begin(j, &plan, "x", &run, &e);
        struct run_record r;
        journal_load(j, run, &r, &e);
        for (int i = 0; i < 2; i++) {
            r.cases.ptr[i].state = CASE_DONE;
            r.cases.ptr[i].verdict = VERDICT_PASSED;
            journal_case(j, &r.cases.ptr[i], &e);
        }
        r.cases.ptr[2].state = CASE_RUNNING;
        journal_case(j, &r.cases.ptr[2], &e);
        journal_group(j, &e);
        r.cases.ptr[3].state = CASE_DONE;
        journal_case(j, &r.cases.ptr[3], &e);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct journal *j;
    struct err e;
    assert_int_equal(journal_open(path, &j, &e), -1); /* it is writing */
    assert_non_null(strstr(e.text, "another run of this campaign"));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);

    j = must_open(path);
    int64_t run;
    assert_int_equal(journal_last_run(j, "c", &run, &e), 0);
    assert_int_equal(run, 1);
    struct run_record r = must_load(j, run);
    static const enum case_state before[] = {CASE_DONE,    CASE_DONE,    CASE_RUNNING,
                                             CASE_PLANNED, CASE_PLANNED, CASE_PLANNED};
    for (int i = 0; i < 6; i++) assert_int_equal(r.cases.ptr[i].state, before[i]);
    run_record_free(&r);
    assert_int_equal(journal_resume(j, run, &e), 0);
    r = must_load(j, run);
    assert_int_equal(r.cases.ptr[1].state, CASE_DONE);
    assert_int_equal(r.cases.ptr[2].state, CASE_PLANNED);
    run_record_free(&r);
    journal_close(j);
    free(path);
}

static void test_versions_and_absence(void **state)
{
    (void)state;
    struct journal *j;
    struct err e;
    int64_t run;
    char *path = fresh();
    assert_int_equal(journal_open_readonly(path, &j, &e), -1);
    assert_non_null(strstr(e.text, "no journal there"));
    j = must_open(path);
    assert_int_equal(journal_last_run(j, "", &run, &e), 0);
    assert_int_equal(run, 0);
    struct run_record r;
    assert_int_equal(journal_load(j, 5, &r, &e), -1);
    assert_non_null(strstr(e.text, "no run 5"));
    journal_close(j);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(journal_open(path, &j, &e), -1);
    assert_non_null(strstr(e.text, "journal of version 99"));
    assert_int_equal(
        file_write(path, "this is no database at all, but long enough to look like one", 60, 0, &e), 0);
    assert_int_equal(journal_open(path, &j, &e), -1);
    free(path);
}

static void test_table(void **state)
{
    (void)state;
    char *path = fresh();
    struct journal *j = must_open(path);
    struct run_record r = must_load(j, must_begin(j));
    conclude_all(j, &r);
    conclude(j, &r.cases.ptr[1], VERDICT_CRASHED, "SIGSEGV in phase 'device'");
    struct buf out = BUF_INIT;
    table_render(&r, &out);
    assert_string_equal(buf_str(&out),
                        "release      API      verdict  cases  launches  device\n"
                        "2.7.1.post1  torch.a  CRASHED    1/2        14  software\n"
                        "2.7.1.post1  torch.b  PASSED     1/1         7  software\n"
                        "2.12.0       torch.a  PASSED     2/2        14  software\n"
                        "2.12.0       torch.b  PASSED     1/1         7  software\n"
                        "\n"
                        "CRASHED 2.7.1.post1 torch.a::two: SIGSEGV in phase 'device'\n"
                        "\n"
                        "3 of 4 cells PASSED: software device (Ascend910B4), which is not hardware\n");
    buf_free(&out);
    run_record_free(&r);
    journal_close(j);
    free(path);
}

static const struct check *find_check(const struct report *r, const char *id)
{
    for (size_t i = 0; i < r->checks.len; i++)
        if (!strcmp(r->checks.ptr[i].id, id)) return &r->checks.ptr[i];
    fail_msg("no check %s", id);
    return NULL;
}

static bool ticked(const struct run_record *record, const char *id)
{
    struct report r;
    struct err e;
    assert_int_equal(report_make(record, NULL, &r, &e), 0);
    bool yes = find_check(&r, id)->ticked;
    report_free(&r);
    return yes;
}

/* Each box is ticked by its fact and unticked when the fact is gone. */
static void test_checklist(void **state)
{
    (void)state;
    char *path = fresh();
    struct journal *j = must_open(path);
    struct run_record r = must_load(j, must_begin(j));
    static const char *const facts[] = {"executed", "same_count", "own_runs", "versions", "locks", "compared",
                                        "backward", "proved",     "fallback", "skipped",  "cells"};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) assert_false(ticked(&r, facts[i]));
    conclude_all(j, &r);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) assert_true(ticked(&r, facts[i]));
    assert_false(ticked(&r, "hardware"));

    r.cases.ptr[0].launches = 0;
    assert_false(ticked(&r, "proved"));
    conclude(j, &r.cases.ptr[0], VERDICT_SKIPPED, "why");
    assert_false(ticked(&r, "skipped"));
    assert_false(ticked(&r, "executed"));
    conclude(j, &r.cases.ptr[0], VERDICT_PASSED, "");
    conclude(j, &r.cases.ptr[1], VERDICT_FAILED, "why");
    assert_false(ticked(&r, "backward"));
    assert_false(ticked(&r, "cells"));
    json_object_set_new(r.releases.ptr[1].hello, "torch", json_string("2.12.1"));
    assert_false(ticked(&r, "versions"));
    set(&r.cases.ptr[2].facts, "{\"done\": 1}"); /* another case's result */
    assert_false(ticked(&r, "own_runs"));
    set(&r.releases.ptr[0].lock, "");
    assert_false(ticked(&r, "locks"));
    r.cases.ptr[5].state = CASE_PLANNED;
    assert_false(ticked(&r, "same_count"));
    for (size_t i = 0; i < r.releases.len; i++) r.releases.ptr[i].kind = KIND_HARDWARE;
    assert_false(ticked(&r, "hardware")); /* its cases are not */
    for (size_t i = 0; i < r.cases.len; i++) r.cases.ptr[i].kind = KIND_HARDWARE;
    assert_true(ticked(&r, "hardware"));
    run_record_free(&r);
    journal_close(j);
    free(path);
}

static void render(const struct run_record *record, report_renderer *function, struct buf *out)
{
    struct report r;
    struct err e;
    assert_int_equal(report_make(record, NULL, &r, &e), 0);
    function(&r, out);
    report_free(&r);
}

static void assert_has(const struct buf *b, const char *text)
{
    if (!strstr(buf_str(b), text)) fail_msg("'%s' is not in:\n%s", text, buf_str(b));
}

static void test_reports(void **state)
{
    (void)state;
    char *path = fresh();
    struct journal *j = must_open(path);
    struct run_record r = must_load(j, must_begin(j));
    conclude_all(j, &r);
    conclude(j, &r.cases.ptr[1], VERDICT_FAILED, "a|b <i>\nnext");
    struct buf zh = BUF_INIT, en = BUF_INIT, json = BUF_INIT;
    render(&r, report_task_zh, &zh);
    render(&r, report_task_en, &en);
    render(&r, report_json, &json);
    assert_has(&en, "They are not results from hardware.");
    assert_has(&zh, "不是真实硬件上的结果");
    assert_has(&en, "| two | two | forward and backward | FAILED | PASSED |");
    assert_has(&en, "- **FAILED** 2.7.1.post1 `torch.a::two`: a\\|b &lt;i> next\n");
    assert_has(&en, "3 of 4 cells");
    assert_has(&en, "- [ ] Every API PASSED on every release ([fact](#results): 3/4)");
    assert_has(&en, "- [x] Every environment is locked (versions and hashes) ([fact](#environment): 2/2)");
    assert_has(&zh, "- [ ] 在真实硬件上执行");
    json_t *parsed = json_loads(buf_str(&json), 0, NULL);
    assert_non_null(parsed);
    assert_string_equal(json_string_value(json_object_get(parsed, "schema")), "concord-report/1");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(parsed, "summary"), "passed")), 3);
    assert_int_equal(json_array_size(json_object_get(parsed, "cells")), 4);
    assert_int_equal(json_array_size(json_object_get(parsed, "cases")), 6);
    json_decref(parsed);
    buf_free(&zh);
    buf_free(&en);
    buf_free(&json);
    run_record_free(&r);
    journal_close(j);
    free(path);
}

static void test_workers(void **state)
{
    (void)state;
    const int64_t gib = 1LL << 30;
    assert_int_equal(runner_workers(0, 5, 2, 20 * gib), 2); /* processors */
    assert_int_equal(runner_workers(0, 5, 8, 4 * gib), 2);  /* memory */
    assert_int_equal(runner_workers(0, 3, 8, 64 * gib), 3); /* releases */
    assert_int_equal(runner_workers(4, 5, 2, 1 * gib), 4);  /* as asked */
    assert_int_equal(runner_workers(0, 1, 1, 0), 1);
}

int main(void)
{
    setenv("CONCORD_SHARE", SOURCE_DIR, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_killed_writer),
                                       cmocka_unit_test(test_versions_and_absence),
                                       cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_checklist),
                                       cmocka_unit_test(test_reports),
                                       cmocka_unit_test(test_workers)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
