/* trace.h - which APIs tests really call, by running them, merged with what a scan says.
 *
 * Each test file is one process of the release's environment (harness/trace.py), each test a process forked
 * from it; everything runs on the CPU. What is merged keeps both sides: a test is confirmed, known from the
 * source only, or seen to call the API though the source does not tell.
 */
#ifndef CONCORD_SCAN_TRACE_H
#define CONCORD_SCAN_TRACE_H

#include "concord/scan/scan.h"

enum trace_merge { TRACE_CONFIRMED, TRACE_STATIC_ONLY, TRACE_DYNAMIC_ONLY, TRACE_NOT_RUN, TRACE_NMERGE };
extern const char *const trace_merge_names[TRACE_NMERGE];

struct trace_test {        /* one per test that was asked for */
    const char *file, *id; /* of the scan */
    char *outcome;         /* passed, failed, error, skipped, timeout, crashed, absent; "not loaded" */
    char *reason, *watched;
    uint32_t backward; /* backward passes */
    double seconds;
};
struct trace_row { /* a test and an API */
    uint32_t test, api;
    const struct scan_test *known; /* NULL: the source does not tell */
    enum trace_merge merge;
    uint32_t calls, inside; /* made by the test or its helpers; made inside torch */
    bool tensors, grad;     /* a tensor was among the arguments; a gradient flowed back */
};
struct trace_result {
    VEC(struct trace_test) tests;
    VEC(struct trace_row) rows; /* by test, then API */
    struct map unobservable;    /* API -> reason (char *) */
    char *torch;                /* version that ran, NULL if nothing did */
};

struct trace_spec {
    const char *python, *harness; /* interpreter, folder of the harness */
    const char *sites;            /* folders that PYTHONPATH gets besides, colons between; "" for none */
    const char *tests;            /* folder of the scan's files */
    int64_t timeout_s;            /* for one test */
    int64_t variants;             /* at most so many of the tests that one of the source became */
    int jobs;
};
/* Runs every test of the scan once and asks for all APIs. */
int trace_run(const struct trace_spec *spec, const struct scan_result *scan, const struct scan_api *apis,
              size_t napis, struct trace_result *out, struct err *e);
void trace_free(struct trace_result *r);

void trace_print_text(FILE *to, const struct trace_result *r, const struct scan_api *apis, size_t napis);
void trace_print_json(struct buf *out, const struct trace_result *r, const struct scan_api *apis,
                      size_t napis);

/* One line of the harness about a test of the file, merged into out. */
int trace_merge_line(struct trace_result *out, const struct scan_file *file, const char *line,
                     const struct scan_api *apis, size_t napis, struct err *e);

#endif
