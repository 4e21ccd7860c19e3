/* trace.c - concord trace: runs covering tests on the CPU and records which APIs they really call. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/env/env.h"
#include "concord/scan/index.h"
#include "concord/scan/trace.h"
#include "concord/suite/spec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
    const char *upstream, *release, *python, *json;
    strings only, sites;
    bool weak;
    int64_t timeout, variants, jobs;
    struct scan_api *apis;
    size_t napis;
};

/* Candidates: weak ones when asked for, files that the filter names. What is left out is no part of the
 * result. */
static void keep_candidates(const struct request *q, struct scan_result *r)
{
    for (size_t i = 0; i < r->files.len; i++) {
        struct scan_file *f = &r->files.ptr[i];
        bool wanted = !q->only.len;
        for (size_t k = 0; k < q->only.len; k++) wanted |= strstr(f->path, q->only.ptr[k]) != NULL;
        size_t kept = 0;
        for (size_t k = 0; k < f->tests.len; k++) {
            struct scan_test *t = &f->tests.ptr[k];
            if (wanted && (q->weak || scan_coverage_of(t) != SCAN_WEAK)) {
                f->tests.ptr[kept++] = *t;
            } else {
                vec_free(&t->rows);
                free(t->path);
            }
        }
        f->tests.len = kept;
    }
}

static int find_python(const struct request *q, char **python, struct err *e)
{
    if (q->python) {
        *python = xstrdup(q->python);
        return 0;
    }
    struct env_spec spec;
    if (env_spec_known(q->release, &spec, e)) return -1;
    char *folder = env_folder(&spec, e);
    env_spec_free(&spec);
    if (!folder) return -1;
    *python = path_join(folder, "bin/python");
    free(folder);
    return 0;
}

static const struct suite_row *upstream_row(void)
{
    size_t n;
    const struct suite_row *rows = suite_rows(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].name, "upstream")) return &rows[i];
    die("trace: no suite is called upstream");
}

/* What upstream's test files import besides torch: given folders, else concord's own for that interpreter. */
static int find_sites(const struct request *q, const char *python, char **sites, struct err *e)
{
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < q->sites.len; i++) {
        char *real = realpath(q->sites.ptr[i], NULL);
        if (!real) {
            buf_free(&b);
            return err_set(e, "--site %s: no such folder", q->sites.ptr[i]);
        }
        buf_addf(&b, "%s%s", b.len ? ":" : "", real);
        free(real);
    }
    *sites = q->sites.len ? buf_take(&b) : spec_site(upstream_row(), python, e);
    return *sites ? 0 : -1;
}

static int write_result(const struct request *q, const struct trace_result *t, struct err *e)
{
    if (!q->json) {
        trace_print_text(stdout, t, q->apis, q->napis);
        return 0;
    }
    struct buf b = BUF_INIT;
    trace_print_json(&b, t, q->apis, q->napis);
    int rc = file_write(q->json, buf_str(&b), b.len, 0, e);
    buf_free(&b);
    return rc;
}

static int trace(const struct request *q, struct err *e)
{
    char *python = NULL, *sites = NULL, *tests = path_join(q->upstream, "test"),
         *index = index_default_path();
    char *harness = concord_share("harness");
    bool below = path_is_dir(tests);
    struct scan_spec scan = {
        .tests = below ? tests : q->upstream, .source = below ? q->upstream : NULL, .index = index};
    struct scan_result r = {0};
    int rc = find_python(q, &python, e);
    if (!rc) rc = find_sites(q, python, &sites, e);
    if (!rc) rc = scan_run(&scan, q->apis, q->napis, &r, e);
    if (!rc) {
        struct trace_result t;
        struct trace_spec spec = {.python = python,
                                  .harness = harness,
                                  .sites = sites,
                                  .tests = scan.tests,
                                  .timeout_s = q->timeout ? q->timeout : 60,
                                  .variants = q->variants ? q->variants : 4,
                                  .jobs = q->jobs ? (int)q->jobs : (int)sysconf(_SC_NPROCESSORS_ONLN)};
        keep_candidates(q, &r);
        rc = trace_run(&spec, &r, q->apis, q->napis, &t, e);
        if (!rc) {
            rc = write_result(q, &t, e);
            trace_free(&t);
        }
        scan_result_free(&r);
    }
    free(python);
    free(sites);
    free(tests);
    free(index);
    free(harness);
    return rc;
}

int cmd_trace(int argc, char **argv)
{
    struct request q = {0};
    const struct opt opts[] = {
        {'u', "upstream", OPT_STRING, &q.upstream, "DIR",
         "root of the release's source tree (tests in DIR/test)"},
        {'r', "release", OPT_STRING, &q.release, "VERSION",
         "run in this release's environment (concord env create)"},
        {0, "python", OPT_STRING, &q.python, "FILE", "run with this interpreter instead"},
        {0, "site", OPT_LIST, &q.sites, "DIR,...",
         "folders of packages that the tests import (default: concord's own)"},
        {'f', "file", OPT_LIST, &q.only, "PART,...", "only test files whose path contains one of these"},
        {0, "weak", OPT_FLAG, &q.weak, NULL, "tests too of which the source cannot tell"},
        {'t', "timeout", OPT_INT, &q.timeout, "S", "seconds for one test (60)"},
        {0, "variants", OPT_INT, &q.variants, "N", "at most so many instances of a parametrised test (4)"},
        {'j', "jobs", OPT_INT, &q.jobs, "N", "files run at a time (default: one a core)"},
        {0, "json", OPT_STRING, &q.json, "FILE", "write the result as JSON"},
        {0},
    };
    opt_parse(&argc, argv,
              &(struct usage){"trace API... --upstream DIR --release VERSION [options]",
                              "Run covering tests on the CPU and record which APIs they really call.", opts});
    struct err e;
    if (argc < 2) die("trace: name at least one API, e.g. torch.utils.checkpoint.checkpoint");
    if (!q.upstream) die("trace: no source tree: give --upstream DIR");
    if (!q.release == !q.python) die("trace: give --release VERSION or --python FILE, one of them");
    if (q.timeout < 0 || q.variants < 0 || q.jobs < 0)
        die("trace: --timeout, --variants and --jobs want positive numbers");
    q.napis = (size_t)argc - 1;
    q.apis = xcalloc(q.napis, sizeof *q.apis);
    proc_catch_signals();
    int rc = 0;
    for (size_t i = 0; !rc && i < q.napis; i++) rc = scan_api_parse(argv[i + 1], &q.apis[i], &e);
    if (!rc) rc = trace(&q, &e);
    for (size_t i = 0; i < q.napis; i++) scan_api_free(&q.apis[i]);
    free(q.apis);
    strings_free(&q.only);
    strings_free(&q.sites);
    return rc ? err_report(&e) : EXIT_OK;
}
