/* report.c - a run of many cases and its reports: seconds and memory. usage: bench_report [CASES [DIR]] */
#include "concord/report/report.h"
#include "concord/run/journal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { NAPIS = 500, NRELEASES = 5 };
static const char *const releases[NRELEASES] = {"2.7.1", "2.9.0", "2.10.0", "2.11.0", "2.12.0"};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of this process: what a machine that does nothing else would take. */
static double processor(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void must(int status, const struct err *e)
{
    if (status) die("%s", e->text);
}

/* APIs times cases times releases, as the journal plans them. */
static void make_plan(struct campaign *c, struct plan *p, struct plan_case *rows, int per_api)
{
    for (int i = 0; i < NRELEASES; i++) {
        struct campaign_release *r = vec_push(&c->releases);
        r->torch = r->torch_npu = (char *)releases[i];
        r->branch = xformat("v%s", releases[i]);
    }
    *p = (struct plan){.campaign = c, .digest = "0", .device = "software"};
    for (int a = 0; a < NAPIS; a++) {
        char *api = xformat("torch.nn.functional.operation_%03d", a);
        *vec_push(&p->apis) = api;
        for (int k = 0; k < per_api; k++, rows++) {
            *rows =
                (struct plan_case){api, xformat("test_case_%03d_float32_contiguous", k), "backward", "", ""};
            *vec_push(&p->cases) = rows;
        }
    }
}

/* Facts of the size that real ones have; one case in 25 fails, the first prints markup. */
static void conclude(struct case_record *c, size_t i)
{
    bool bad = i % 25 == 0;
    c->state = CASE_DONE;
    c->verdict = bad ? VERDICT_FAILED : VERDICT_PASSED;
    c->kind = KIND_SOFTWARE;
    c->attempts = 1;
    c->launches = 41;
    c->ms = (double)(i % 977);
    c->started = xstrdup("2026-12-01T00:00:00Z");
    c->reason = bad ? xformat("out differs from the CPU: %zu of 128 elements", i % 128 + 1) : xstrdup("");
    c->output = i == 0 ? xstrdup("</script><script>document.title='broken'</script><b id=broken>bold</b>\n")
                : i % 7 == 0 ? xstrdup("a line of output\nanother line of output\n")
                             : xstrdup("");
    c->stack = xstrdup("");
    c->facts = xformat(
        "{\"done\":%lld,\"exit\":0,\"signal\":0,\"timed_out\":false,\"ms\":257.1,\"leftovers\":0,\"phase\":"
        "\"exit\","
        "\"result\":{\"cpu\":{\"claims\":[],\"ms\":%zu.7},\"device\":{\"ms\":17.8,\"claims\":[]},\"proof\":{"
        "\"memory_peak\":35328,\"device_name\":\"Ascend910B4\",\"counted\":true,\"launches\":41,"
        "\"operators\":{"
        "\"aclnnAddmm\":6,\"aclnnInplaceCopy\":1,\"aclnnInplaceFillScalar\":2,\"aclnnMm\":8,\"aclnnMul\":2,"
        "\"aclnnMuls\":2,\"aclnnPowTensorScalar\":4,\"aclnnReduceSum\":6,\"aclnnRelu\":3,\"aclnnTanh\":3},"
        "\"made\":2,\"fallbacks\":[],\"on_device\":6,\"elsewhere\":[]},\"compared\":8,\"differences\":[],"
        "\"warnings\":[]}}",
        (long long)c->id, i % 400);
}

static void fill_journal(const char *path, int cases)
{
    struct err e;
    struct campaign c = {.name = "bench", .path = "bench.yaml"};
    struct plan p;
    struct journal *j;
    struct run_record r;
    int64_t run;
    int per_api = cases / (NAPIS * NRELEASES);
    struct plan_case *rows = xcalloc((size_t)NAPIS * (size_t)per_api, sizeof *rows);
    make_plan(&c, &p, rows, per_api);
    must(journal_open(path, &j, &e), &e);
    must(journal_begin(j, &p, "concord verify bench.yaml", &run, &e), &e);
    must(journal_load(j, run, &r, &e), &e);
    must(journal_group(j, &e), &e);
    for (size_t i = 0; i < r.cases.len; i++) {
        struct case_record one = {.id = r.cases.ptr[i].id};
        conclude(&one, i);
        must(journal_case(j, &one, &e), &e);
        char *owned[] = {one.started, one.reason, one.output, one.stack, one.facts};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free(owned[k]);
    }
    must(journal_finish(j, run, &e), &e);
    must(journal_commit(j, &e), &e);
    run_record_free(&r);
    journal_close(j);
}

/* From the journal to the file, as `concord report` does it. */
static double report_once(const char *journal, const char *dir, const char *format, const char *file)
{
    struct err e;
    struct journal *j;
    struct run_record r;
    char *path = path_join(dir, file);
    double from = seconds();
    must(journal_open_readonly(journal, &j, &e), &e);
    must(journal_load(j, 1, &r, &e), &e);
    must(report_write_one(&r, NULL, format, path, &e), &e);
    double took = seconds() - from;
    run_record_free(&r);
    journal_close(j);
    free(path);
    return took;
}

int main(int argc, char **argv)
{
    int cases = argc > 1 ? atoi(argv[1]) : 50000;
    char folder[] = "/tmp/concord-bench-XXXXXX";
    const char *dir = argc > 2 ? argv[2] : mkdtemp(folder);
    struct err e;
    if (cases < NAPIS * NRELEASES || !dir)
        die("usage: bench_report [CASES, at least %d [DIR]]", NAPIS * NRELEASES);
    must(dir_make(dir, &e), &e);
    char *journal = path_join(dir, "journal.db");
    tree_remove(journal, NULL);
    fill_journal(journal, cases);
    for (int i = 0; i < report_format_count; i++) {
        double best = 1e9, busy = 1e9;
        for (int k = 0; k < 3; k++) {
            double from = processor();
            double took = report_once(journal, dir, report_formats[i].name, report_formats[i].file);
            double used = processor() - from;
            if (took < best) best = took;
            if (used < busy) busy = used;
        }
        printf("report %-8s of %d cases: %.2f s, %.2f s of processor\n", report_formats[i].name, cases, best,
               busy);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("report peak memory: %.0f MB\n", (double)use.ru_maxrss / 1024);
    if (argc <= 2) tree_remove(dir, NULL);
    free(journal);
    return 0;
}
