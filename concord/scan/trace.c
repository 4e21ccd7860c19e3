/* trace.c - runs covering tests in a release's environment and merges what they call with what the scan says.
 */
#include "concord/scan/trace.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const trace_merge_names[TRACE_NMERGE] = {"confirmed", "static only", "dynamic only", "not run"};

/* ---- merging ------------------------------------------------------------------------------------------- */

static char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return xstrdup(s ? s : "");
}

static const struct scan_test *known_test(const struct scan_file *f, const char *id, uint32_t api)
{
    for (size_t i = 0; i < f->tests.len; i++)
        if (f->tests.ptr[i].api == api && !strcmp(f->tests.ptr[i].id, id)) return &f->tests.ptr[i];
    return NULL;
}

static bool did_run(const char *outcome)
{
    return !strcmp(outcome, "passed") || !strcmp(outcome, "failed") || !strcmp(outcome, "error");
}

/* A test that did not come to run says nothing about any API, nor does a run about what cannot be watched. */
static void merge_api(struct trace_result *out, uint32_t test, uint32_t api, const char *name,
                      const struct scan_test *known, const json_t *facts)
{
    bool watched = did_run(out->tests.ptr[test].outcome) && !map_has(&out->unobservable, name);
    struct trace_row row = {.test = test, .api = api, .known = known};
    row.calls = (uint32_t)json_integer_value(json_object_get(facts, "calls"));
    row.inside = (uint32_t)json_integer_value(json_object_get(facts, "inside"));
    row.tensors = json_integer_value(json_object_get(facts, "tensors")) > 0;
    row.grad = json_is_true(json_object_get(facts, "grad"));
    bool seen = row.calls + row.inside > 0;
    if (!seen && !known) return;
    row.merge = seen && known ? TRACE_CONFIRMED
                : seen        ? TRACE_DYNAMIC_ONLY
                : watched     ? TRACE_STATIC_ONLY
                              : TRACE_NOT_RUN;
    *vec_push(&out->rows) = row;
}

static void add_unobservable(struct trace_result *out, const json_t *o)
{
    const char *name;
    json_t *reason;
    json_object_foreach((json_t *)o, name, reason)
    {
        void **slot = map_put(&out->unobservable, name);
        if (!*slot) *slot = xstrdup(json_string_value(reason) ? json_string_value(reason) : "");
    }
}

int trace_merge_line(struct trace_result *out, const struct scan_file *file, const char *line,
                     const struct scan_api *apis, size_t napis, struct err *e)
{
    json_error_t at;
    json_t *o = json_loads(line, 0, &at);
    const char *id = json_string_value(json_object_get(o, "test"));
    const char *stored = NULL;
    for (size_t i = 0; id && i < file->tests.len && !stored; i++)
        if (!strcmp(file->tests.ptr[i].id, id)) stored = file->tests.ptr[i].id;
    if (!stored) {
        json_decref(o);
        return err_set(e, "%s: the harness wrote a line that is no test's: %.120s", file->path, line);
    }
    uint32_t test = (uint32_t)out->tests.len;
    *vec_push(&out->tests) =
        (struct trace_test){.file = file->path,
                            .id = stored,
                            .outcome = text_of(o, "outcome"),
                            .reason = text_of(o, "reason"),
                            .watched = text_of(o, "watched"),
                            .backward = (uint32_t)json_integer_value(json_object_get(o, "backward")),
                            .seconds = json_number_value(json_object_get(o, "seconds"))};
    add_unobservable(out, json_object_get(o, "unobservable"));
    const json_t *seen = json_object_get(o, "apis");
    for (uint32_t a = 0; a < napis; a++)
        merge_api(out, test, a, apis[a].name, known_test(file, id, a), json_object_get(seen, apis[a].name));
    json_decref(o);
    return 0;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* A file's distinct tests, in its order. */
static json_t *tests_of(const struct scan_file *f)
{
    json_t *list = json_array();
    struct map seen = {0};
    for (size_t i = 0; i < f->tests.len; i++) {
        void **slot = map_put(&seen, f->tests.ptr[i].id);
        if (!*slot) json_array_append_new(list, json_string(f->tests.ptr[i].id));
        *slot = list;
    }
    map_free(&seen, NULL);
    return list;
}

static int write_request(const struct trace_spec *spec, const struct scan_file *f, json_t *tests,
                         const struct scan_api *apis, size_t napis, const char *path, struct err *e)
{
    json_t *names = json_array();
    for (size_t a = 0; a < napis; a++) json_array_append_new(names, json_string(apis[a].name));
    char *full = path_join(spec->tests, f->path), *real = realpath(full, NULL);
    json_t *o = json_pack("{s:s,s:O,s:o,s:I,s:I}", "file", real ? real : full, "tests", tests, "apis", names,
                          "timeout", (json_int_t)spec->timeout_s, "variants", (json_int_t)spec->variants);
    char *text = json_dumps(o, 0);
    int rc = file_write(path, text, strlen(text), 0, e);
    free(text);
    free(real);
    free(full);
    json_decref(o);
    return rc;
}

static int run_harness(const struct trace_spec *spec, const char *request, const char *scratch, size_t ntests,
                       struct proc_result *r, struct err *e)
{
    char *script = path_join(spec->harness, "trace.py");
    char *path = xformat("PYTHONPATH=%s%s%s", spec->harness, *spec->sites ? ":" : "", spec->sites);
    const char *argv[] = {spec->python, script, request, NULL};
    const char *env[] = {path,
                         "PYTHONNOUSERSITE=1",
                         "PYTHONDONTWRITEBYTECODE=1",
                         "CUDA_VISIBLE_DEVICES=",
                         "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
                         "OMP_NUM_THREADS=1",
                         "PYTORCH_TESTING_DEVICE_ONLY_FOR=cpu",
                         NULL};
    enum {
        START_S = 300,
        WAYS = 3
    }; /* importing a test file on a loaded machine; each test is tried so often */
    struct proc_spec p = {.argv = argv,
                          .env = env,
                          .cwd = scratch,
                          .timeout_ms = (START_S + WAYS * spec->timeout_s * (int64_t)ntests) * 1000,
                          .max_output = 64 << 20};
    int rc = proc_run(&p, r, e);
    free(script);
    free(path);
    return rc;
}

static void file_failed(struct trace_result *out, const struct scan_file *f, const json_t *tests,
                        const char *reason, size_t napis)
{
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const char *id = json_string_value(json_array_get(tests, i));
        for (uint32_t a = 0, found = 0; a < napis; a++) {
            const struct scan_test *known = known_test(f, id, a);
            if (!known) continue;
            if (!found++)
                *vec_push(&out->tests) = (struct trace_test){.file = f->path,
                                                             .id = known->id,
                                                             .outcome = xstrdup("not loaded"),
                                                             .reason = xstrdup(reason),
                                                             .watched = xstrdup("")};
            merge_api(out, (uint32_t)out->tests.len - 1, a, "", known, NULL);
        }
    }
}

struct job {
    const struct trace_spec *spec;
    const struct scan_result *scan;
    const struct scan_api *apis;
    size_t napis, next;
    struct trace_result *out;
    char *scratch;
    pthread_mutex_t lock;
    int rc;
    struct err error;
};

/* Reads the harness's lines. What never got a line was lost with the process, and that is said of it. */
static int merge_output(struct job *j, const struct scan_file *f, const json_t *tests,
                        const struct proc_result *r, struct err *e)
{
    char *copy = xstrdup(buf_str(&r->out)), *rest = copy;
    json_t *left = json_copy((json_t *)tests);
    char *failed = NULL;
    int rc = 0;
    for (char *line; !rc && (line = strsep(&rest, "\n"));) {
        if (*line != '{') continue;
        json_t *o = json_loads(line, 0, NULL);
        const char *test = json_string_value(json_object_get(o, "test"));
        const char *torch = json_string_value(json_object_get(json_object_get(o, "hello"), "torch"));
        if (torch && !j->out->torch) j->out->torch = xstrdup(torch);
        if (json_object_get(o, "failed")) failed = text_of(o, "failed");
        if (test) {
            rc = trace_merge_line(j->out, f, line, j->apis, j->napis, e);
            for (size_t i = 0; i < json_array_size(left); i++)
                if (!strcmp(json_string_value(json_array_get(left, i)), test)) json_array_remove(left, i--);
        }
        json_decref(o);
    }
    if (!rc && json_array_size(left)) {
        const char *last = r->timed_out ? "the file took too long" : "the interpreter ended early";
        const char *err = strrchr(buf_str(&r->err), '\n') ? buf_str(&r->err) : "";
        char *reason = failed ? xstrdup(failed) : xformat("%s%s%.200s", last, *err ? ": " : "", err);
        file_failed(j->out, f, left, reason, j->napis);
        free(reason);
    }
    free(failed);
    json_decref(left);
    free(copy);
    return rc;
}

static void trace_file(struct job *j, size_t i)
{
    const struct scan_file *f = &j->scan->files.ptr[i];
    json_t *tests = tests_of(f);
    struct proc_result r = {0};
    struct err e;
    char *request = xformat("%s/%zu.json", j->scratch, i), *folder = xformat("%s/%zu", j->scratch, i);
    int rc = dir_make(folder, &e);
    if (!rc) rc = write_request(j->spec, f, tests, j->apis, j->napis, request, &e);
    if (!rc) rc = run_harness(j->spec, request, folder, json_array_size(tests), &r, &e);
    pthread_mutex_lock(&j->lock);
    if (!rc) rc = merge_output(j, f, tests, &r, &e);
    if (rc && !j->rc) {
        j->rc = rc;
        j->error = e;
    }
    pthread_mutex_unlock(&j->lock);
    proc_result_free(&r);
    json_decref(tests);
    free(request);
    free(folder);
}

static void *worker(void *arg)
{
    struct job *j = arg;
    for (;;) {
        pthread_mutex_lock(&j->lock);
        while (j->next < j->scan->files.len && !j->scan->files.ptr[j->next].tests.len) j->next++;
        size_t i = j->rc || proc_interrupted ? j->scan->files.len : j->next++;
        pthread_mutex_unlock(&j->lock);
        if (i >= j->scan->files.len) return NULL;
        trace_file(j, i);
    }
}

static int by_place(const void *a, const void *b, void *result)
{
    const struct trace_row *x = a, *y = b;
    const struct trace_result *r = result;
    int c = strcmp(r->tests.ptr[x->test].file, r->tests.ptr[y->test].file);
    if (!c) c = x->test < y->test ? -1 : x->test > y->test;
    return c ? c : (int)x->api - (int)y->api;
}

int trace_run(const struct trace_spec *spec, const struct scan_result *scan, const struct scan_api *apis,
              size_t napis, struct trace_result *out, struct err *e)
{
    *out = (struct trace_result){0};
    const char *tmp = getenv("TMPDIR");
    struct job j = {.spec = spec, .scan = scan, .apis = apis, .napis = napis, .out = out};
    j.scratch = xformat("%s/concord-trace-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(j.scratch)) {
        int rc = err_set(e, "%s: cannot make a working folder", j.scratch);
        free(j.scratch);
        return rc;
    }
    pthread_mutex_init(&j.lock, NULL);
    enum { MAX_JOBS = 32 };
    pthread_t thread[MAX_JOBS];
    int started = 0, jobs = spec->jobs > MAX_JOBS ? MAX_JOBS : spec->jobs;
    while (started < jobs - 1 && !pthread_create(&thread[started], NULL, worker, &j)) started++;
    worker(&j);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&j.lock);
    tree_remove(j.scratch, NULL);
    free(j.scratch);
    if (proc_interrupted && !j.rc) j.rc = err_set(&j.error, "interrupted");
    if (j.rc) {
        *e = j.error;
        trace_free(out);
        return -1;
    }
    if (out->rows.len) qsort_r(out->rows.ptr, out->rows.len, sizeof *out->rows.ptr, by_place, out);
    return 0;
}

void trace_free(struct trace_result *r)
{
    for (size_t i = 0; i < r->tests.len; i++) {
        free(r->tests.ptr[i].outcome);
        free(r->tests.ptr[i].reason);
        free(r->tests.ptr[i].watched);
    }
    vec_free(&r->tests);
    vec_free(&r->rows);
    map_free(&r->unobservable, free);
    free(r->torch);
    *r = (struct trace_result){0};
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_row(FILE *to, const struct trace_result *r, const struct trace_row *row)
{
    const struct trace_test *t = &r->tests.ptr[row->test];
    fprintf(to, "  %-12s %s %s: %s", trace_merge_names[row->merge], t->file, t->id, t->outcome);
    if (row->calls + row->inside)
        fprintf(to, ", %u calls of its own and %u inside torch", row->calls, row->inside);
    if (row->tensors) fprintf(to, ", with tensors");
    if (row->grad) fprintf(to, ", gradients flowed");
    if (row->known) fprintf(to, "; source: %s", scan_coverage_names[scan_coverage_of(row->known)]);
    if (*t->reason) fprintf(to, "; %s", t->reason);
    fprintf(to, "\n");
}

void trace_print_text(FILE *to, const struct trace_result *r, const struct scan_api *apis, size_t napis)
{
    for (uint32_t a = 0; a < napis; a++) {
        unsigned count[TRACE_NMERGE] = {0}, grad = 0;
        for (size_t i = 0; i < r->rows.len; i++) {
            count[r->rows.ptr[i].merge] += r->rows.ptr[i].api == a;
            grad += r->rows.ptr[i].api == a && r->rows.ptr[i].grad;
        }
        fprintf(to, "%s: %u confirmed, %u static only, %u dynamic only, %u not run; gradients flowed in %u\n",
                apis[a].name, count[TRACE_CONFIRMED], count[TRACE_STATIC_ONLY], count[TRACE_DYNAMIC_ONLY],
                count[TRACE_NOT_RUN], grad);
        const char *reason = map_get(&r->unobservable, apis[a].name);
        if (reason) fprintf(to, "  cannot be watched: %s\n", reason);
        for (size_t i = 0; i < r->rows.len; i++)
            if (r->rows.ptr[i].api == a) print_row(to, r, &r->rows.ptr[i]);
    }
    fprintf(to, "%zu tests, torch %s\n", r->tests.len, r->torch ? r->torch : "not loaded");
}

static json_t *row_json(const struct trace_result *r, const struct trace_row *row,
                        const struct scan_api *apis)
{
    const struct trace_test *t = &r->tests.ptr[row->test];
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:b,s:b,s:s}", "api", apis[row->api].name, "file", t->file,
                     "test", t->id, "merge", trace_merge_names[row->merge], "outcome", t->outcome, "calls",
                     (int)row->calls, "inside", (int)row->inside, "tensors", row->tensors, "grad", row->grad,
                     "coverage", row->known ? scan_coverage_names[scan_coverage_of(row->known)] : "");
}

void trace_print_json(struct buf *out, const struct trace_result *r, const struct scan_api *apis,
                      size_t napis)
{
    json_t *rows = json_array(), *tests = json_array(), *blind = json_object();
    for (size_t i = 0; i < r->rows.len; i++) json_array_append_new(rows, row_json(r, &r->rows.ptr[i], apis));
    for (size_t i = 0; i < r->tests.len; i++) {
        const struct trace_test *t = &r->tests.ptr[i];
        json_array_append_new(tests,
                              json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:f}", "file", t->file, "test", t->id,
                                        "outcome", t->outcome, "reason", t->reason, "watched", t->watched,
                                        "backward", (int)t->backward, "seconds", t->seconds));
    }
    for (size_t a = 0; a < napis; a++) {
        const char *reason = map_get(&r->unobservable, apis[a].name);
        if (reason) json_object_set_new(blind, apis[a].name, json_string(reason));
    }
    json_t *root = json_pack("{s:i,s:s,s:o,s:o,s:o}", "schema", 1, "torch", r->torch ? r->torch : "", "rows",
                             rows, "tests", tests, "unobservable", blind);
    char *text = json_dumps(root, JSON_INDENT(1));
    buf_adds(out, text);
    free(text);
    json_decref(root);
}
