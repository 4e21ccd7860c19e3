/* scan.c - concord scan: which upstream tests cover an API, with the evidence. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/scan/scan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *test_json(const struct scan_test *t, const struct scan_api *apis)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->rows.len; i++) json_array_append_new(rows, json_integer(t->rows.ptr[i]));
    return json_pack("{s:s,s:s,s:s,s:i,s:o,s:s,s:s,s:s,s:b,s:i,s:i,s:s,s:s,s:b}", "api", apis[t->api].name,
                     "file", t->file, "test", t->id, "row", (int)t->row, "sites", rows, "coverage",
                     t->indirect                 ? "indirect"
                     : t->match >= SCAN_RECEIVER ? "weak"
                                                 : "direct",
                     "path", t->path ? t->path : "", "match", scan_match_names[t->match], "tensors", t->tensors,
                     "tensor_row", (int)t->tensor_row, "backward_row", (int)t->backward_row, "asserts",
                     t->asserts, "keeps_off", t->keeps_off, "device_generic", t->device_generic);
}

static json_t *result_json(const struct scan_result *r, const struct scan_api *apis, size_t napis)
{
    json_t *names = json_array(), *sites = json_array(), *tests = json_array(), *notes = json_array();
    for (size_t i = 0; i < napis; i++) json_array_append_new(names, json_string(apis[i].name));
    for (size_t i = 0; i < r->files.len; i++) {
        const struct scan_file *f = &r->files.ptr[i];
        if (f->note) json_array_append_new(notes, json_pack("{s:s,s:s}", "file", f->path, "note", f->note));
        for (size_t s = 0; s < f->sites.len; s++)
            json_array_append_new(
                sites, json_pack("{s:s,s:s,s:i,s:s,s:b}", "api", apis[f->sites.ptr[s].api].name, "file",
                                 f->path, "row", (int)f->sites.ptr[s].row, "match",
                                 scan_match_names[f->sites.ptr[s].match], "call", f->sites.ptr[s].call));
        for (size_t t = 0; t < f->tests.len; t++)
            json_array_append_new(tests, test_json(&f->tests.ptr[t], apis));
    }
    return json_pack("{s:i,s:o,s:i,s:i,s:o,s:o,s:o}", "schema", 1, "apis", names, "files", (int)r->nfiles,
                     "parsed", (int)r->nparsed, "sites", sites, "tests", tests, "notes", notes);
}

static void print_test(const struct scan_test *t)
{
    printf("  %s:%u %s\n      %s, %s", t->file, t->row, t->id, t->indirect ? "indirect" : "direct",
           scan_match_names[t->match]);
    if (t->indirect) printf(" (%s)", t->path);
    printf("; sites at");
    for (size_t i = 0; i < t->rows.len; i++) printf(" %u", t->rows.ptr[i]);
    if (t->tensors)
        printf("; tensors made at %u", t->tensor_row);
    else
        printf("; no tensor seen to reach it");
    if (t->backward_row) printf("; backward at %u", t->backward_row);
    if (*t->asserts) printf("; %s", t->asserts);
    if (*t->keeps_off) printf("; kept off by %s", t->keeps_off);
    if (t->device_generic) printf("; device-generic: needs no edit");
    printf("\n");
}

static void print_text(const struct scan_result *r, const struct scan_api *apis, size_t napis)
{
    for (uint32_t a = 0; a < napis; a++) {
        size_t sites = 0, calls = 0, tests = 0;
        for (size_t i = 0; i < r->files.len; i++) {
            for (size_t s = 0; s < r->files.ptr[i].sites.len; s++) {
                sites += r->files.ptr[i].sites.ptr[s].api == a;
                calls += r->files.ptr[i].sites.ptr[s].api == a && r->files.ptr[i].sites.ptr[s].call;
            }
            for (size_t t = 0; t < r->files.ptr[i].tests.len; t++)
                tests += r->files.ptr[i].tests.ptr[t].api == a;
        }
        printf("%s: %zu calls and %zu other uses, %zu covering tests\n", apis[a].name, calls, sites - calls,
               tests);
        for (size_t i = 0; i < r->files.len; i++)
            for (size_t t = 0; t < r->files.ptr[i].tests.len; t++)
                if (r->files.ptr[i].tests.ptr[t].api == a) print_test(&r->files.ptr[i].tests.ptr[t]);
    }
    for (size_t i = 0; i < r->files.len; i++)
        if (r->files.ptr[i].note) printf("note: %s: %s\n", r->files.ptr[i].path, r->files.ptr[i].note);
    printf("%u files, %u parsed, %.1f MB\n", r->nfiles, r->nparsed, (double)r->bytes / 1e6);
}

int cmd_scan(int argc, char **argv)
{
    const char *upstream = NULL, *json = NULL;
    int64_t threads = 0;
    const struct opt opts[] = {
        {'u', "upstream", OPT_STRING, &upstream, "DIR",
         "root of an upstream source tree (its tests are in DIR/test)"},
        {0, "json", OPT_STRING, &json, "FILE", "write the result as JSON"},
        {'j', "threads", OPT_INT, &threads, "N", "files read at a time (default: one a core)"},
        {0},
    };
    opt_parse(&argc, argv,
              &(struct usage){"scan API... --upstream DIR [options]",
                              "Find the upstream tests that cover an API, with the evidence.", opts});
    struct err e;
    if (argc < 2) die("scan: name at least one API, e.g. torch.utils.checkpoint.checkpoint");
    if (!upstream) die("scan: no source tree: give --upstream DIR");
    size_t napis = (size_t)argc - 1;
    struct scan_api *apis = xcalloc(napis, sizeof *apis);
    for (size_t i = 0; i < napis; i++)
        if (scan_api_parse(argv[i + 1], &apis[i], &e)) return err_report(&e);
    char *tests = path_join(upstream, "test");
    struct scan_result r;
    if (scan_tree(path_is_dir(tests) ? tests : upstream, apis, napis, (int)threads, &r, &e))
        return err_report(&e);
    int status = EXIT_OK;
    if (json) {
        json_t *root = result_json(&r, apis, napis);
        char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
        if (file_write(json, text, strlen(text), 0, &e)) status = err_report(&e);
        free(text);
        json_decref(root);
    } else {
        print_text(&r, apis, napis);
    }
    scan_result_free(&r);
    for (size_t i = 0; i < napis; i++) scan_api_free(&apis[i]);
    free(apis);
    free(tests);
    return status;
}
