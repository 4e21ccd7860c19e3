/* sources.c - the first steps: the target branch, and the upstream tests that cover the APIs. */
#include "concord/forge/branch.h"
#include "concord/patch/source.h"
#include "concord/scan/index.h"
#include "concord/scan/scan.h"
#include "concord/steps/private.h"

#include <stdlib.h>
#include <string.h>

/* ---- base -------------------------------------------------------------------------------------------- */

/* Always looked at: a branch moves without telling anybody. */
json_t *inputs_base(const struct steps *s, const struct campaign_release *release)
{
    (void)s;
    (void)release;
    return NULL;
}

int step_base(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    char commit[BRANCH_ID_MAX];
    char *ref = branch_base_ref(s->clone, release->branch, e);
    if (!ref) return -1;
    int status = branch_resolve(s->clone, ref, commit, e);
    if (!status) {
        *body = json_pack("{s:s, s:s, s:s, s:s}", "repository", s->clone, "branch", release->branch, "ref",
                          ref, "commit", commit);
        steps_say("base", release, "%s at %.12s", ref, commit);
    }
    free(ref);
    return status;
}

/* ---- scan -------------------------------------------------------------------------------------------- */

json_t *inputs_scan(const struct steps *s, const struct campaign_release *release)
{
    char *spec = steps_upstream(s, release, NULL);
    json_t *inputs =
        json_pack("{s:s, s:o}", "upstream", spec ? spec : "", "apis", steps_texts(&s->campaign->apis));
    free(spec);
    return inputs;
}

static json_t *test_json(const char *prefix, const struct scan_test *t, const struct scan_api *apis)
{
    json_t *sites = json_array();
    char *file = xformat("%s%s", prefix, t->file);
    for (size_t i = 0; i < t->rows.len; i++) fact_append(sites, json_integer(t->rows.ptr[i]));
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:s, s:s, s:s, s:b, s:i, s:s, s:s, s:s, s:b}", "api",
                  apis[t->api].name, "file", file, "test", t->id, "row", (int)t->row, "end_row",
                  (int)t->end_row, "sites", sites, "coverage", scan_coverage_names[scan_coverage_of(t)],
                  "path", t->path ? t->path : "", "match", scan_match_names[t->match], "tensors", t->tensors,
                  "backward_row", (int)t->backward_row, "asserts", t->asserts, "keeps_off", t->keeps_off,
                  "params", t->params, "device_generic", t->device_generic);
    free(file);
    return j;
}

struct apis {
    struct scan_api *list;
    size_t n;
};

static int parse_apis(const struct campaign *c, struct apis *a, struct err *e)
{
    *a = (struct apis){xcalloc(c->apis.len, sizeof *a->list), 0};
    for (; a->n < c->apis.len; a->n++)
        if (scan_api_parse(c->apis.ptr[a->n], &a->list[a->n], e)) return -1;
    return 0;
}

static void free_apis(struct apis *a)
{
    for (size_t i = 0; i < a->n; i++) scan_api_free(&a->list[i]);
    free(a->list);
}

/* The leaf of some API is in the text: without it there is nothing to parse for. */
static bool mentions(const struct buf *text, const struct apis *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const char *word = a->list[i].operator_ ? a->list[i].operator_ : a->list[i].leaf;
        if (memmem(buf_str(text), text->len, word, strlen(word)) ||
            memmem(buf_str(text), text->len, a->list[i].leaf, strlen(a->list[i].leaf)))
            return true;
    }
    return false;
}

struct sums {
    size_t files, parsed;
    json_t *tests;
};

static void add_tests(const char *prefix, const struct scan_file *f, const struct apis *a, struct sums *sums)
{
    for (size_t t = 0; t < f->tests.len; t++)
        fact_append(sums->tests, test_json(prefix, &f->tests.ptr[t], a->list));
}

static int scan_one(struct source *src, const char *path, const struct apis *a, struct sums *sums,
                    struct err *e)
{
    struct buf text = BUF_INIT;
    struct scan_file f = {0};
    int found = source_read(src, path, &text, NULL, e);
    sums->files++;
    if (found > 0 && mentions(&text, a)) {
        sums->parsed++;
        scan_source(path, buf_str(&text), text.len, a->list, a->n, &f);
        add_tests("", &f, a, sums);
        scan_file_free(&f);
    }
    buf_free(&text);
    return found < 0 ? -1 : 0;
}

/* Objects of a clone, an archive, a URL: file by file. */
static int scan_objects(struct source *src, const struct apis *a, struct sums *sums, struct err *e)
{
    strings paths = {0};
    int status = source_list(src, "test", &paths, e);
    for (size_t i = 0; !status && i < paths.len; i++)
        if (str_ends(paths.ptr[i], ".py")) status = scan_one(src, paths.ptr[i], a, sums, e);
    strings_free(&paths);
    return status;
}

/* A tree on disk: with its own torch/ for aliases and helpers, and the index. */
static int scan_folder(const char *root, const struct apis *a, struct sums *sums, struct err *e)
{
    char *tests = path_join(root, "test"), *index = index_default_path();
    const struct scan_spec spec = {.tests = tests, .source = root, .index = index};
    struct scan_result r;
    int status = scan_run(&spec, a->list, a->n, &r, e);
    for (size_t i = 0; !status && i < r.files.len; i++) add_tests("test/", &r.files.ptr[i], a, sums);
    if (!status) {
        sums->files = r.nfiles;
        sums->parsed = r.nparsed;
        scan_result_free(&r);
    }
    free(index);
    free(tests);
    return status;
}

static int scan_any(const char *spec, struct source *src, const struct apis *a, struct sums *sums,
                    struct err *e)
{
    int status = path_is_dir(spec) ? scan_folder(spec, a, sums, e) : scan_objects(src, a, sums, e);
    return !status && !sums->files ? err_set(e, "%s: no test files below test/", spec) : status;
}

int step_scan(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct apis a;
    struct sums sums = {.tests = json_array()};
    char *spec = steps_upstream(s, release, e);
    struct source *src = spec ? source_open(spec, e) : NULL;
    int status = src ? parse_apis(s->campaign, &a, e) : -1;
    if (src && !status) status = scan_any(spec, src, &a, &sums, e);
    if (src) free_apis(&a);
    if (!status) {
        steps_say("scan", release, "%zu tests cover the APIs (%zu files, %zu parsed)",
                  json_array_size(sums.tests), sums.files, sums.parsed);
        *body = json_pack("{s:s, s:O, s:i, s:i, s:o}", "upstream", spec, "tests", sums.tests, "files",
                          (int)sums.files, "parsed", (int)sums.parsed, "functions",
                          steps_functions(s->campaign, src));
    }
    json_decref(sums.tests);
    if (src) source_close(src);
    free(spec);
    return status;
}
