/* docs.c - concord docs: what a release's reference documentation says of an API. */
#include "concord/apidocs/apidocs.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *entry_json(const struct doc_entry *d, const char *family)
{
    static const char *const answers[] = {"unsaid", "yes", "no"};
    return json_pack("{s:s,s:s,s:i,s:s,s:s,s:s,s:s}", "api", d->api, "file", d->file, "line", (int)d->line,
                     "layout", doc_layout_names[d->layout], "supported", answers[doc_answer(d, family)],
                     "restrictions", d->note, "npu_name", d->npu_name);
}

static int check_apis(const struct doc_set *set, char **apis, int n, const char *family, const char *release,
                      json_t *rows)
{
    int findings = 0;
    for (int i = 0; i < n; i++) {
        const struct doc_entry *d;
        enum doc_verdict v = doc_check(set, apis[i], family, &d);
        findings += v != DOC_SUPPORTED;
        json_t *row = d ? entry_json(d, family) : json_pack("{s:s}", "api", apis[i]);
        json_object_set_new(row, "verdict", json_string(doc_verdict_names[v]));
        json_array_append_new(rows, row);
        printf("%-8s %-52s %-13s", release, apis[i], doc_verdict_names[v]);
        if (d) printf(" %s:%u%s%s", d->file, d->line, *d->note ? "  " : "", d->note);
        printf("\n");
    }
    return findings;
}

static int inventory(const struct doc_set *set, const char *family, json_t *rows, const char *release)
{
    unsigned yes = 0, no = 0, unsaid = 0, restricted = 0, findings = 0;
    struct map names = {0};
    for (size_t i = 0; i < set->entries.len; i++) {
        const struct doc_entry *d = &set->entries.ptr[i];
        enum doc_support s = doc_answer(d, family);
        json_array_append_new(rows, entry_json(d, family));
        yes += s == DOC_YES;
        no += s == DOC_NO;
        unsaid += s == DOC_UNSAID;
        restricted += *d->note != 0;
        if (*map_put(&names, d->api)) continue;
        *map_put(&names, d->api) = (void *)d;
        const struct doc_entry *first;
        if (doc_check(set, d->api, family, &first) == DOC_CONTRADICTORY) {
            printf("%-8s %s is listed with different answers, first at %s:%u\n", release, d->api, d->file,
                   d->line);
            findings++;
        }
    }
    printf("%-8s %zu APIs in %zu entries of %u documents: %u entries supported, %u not, %u unsaid, %u with "
           "restrictions\n",
           release, names.entries.len, set->entries.len, set->files, yes, no, unsaid, restricted);
    map_free(&names, NULL);
    return (int)findings;
}

int cmd_docs(int argc, char **argv)
{
    const char *root = NULL, *ref = NULL, *release = NULL, *family = "Atlas A2", *json = NULL;
    bool all = false;
    const struct opt opts[] = {
        {'p', "plugin", OPT_STRING, &root, "DIR",
         "clone of the plugin's repository, or a folder of documents"},
        {'b', "ref", OPT_STRING, &ref, "REF", "read this branch or commit without a checkout"},
        {'r', "release", OPT_STRING, &release, "VERSION", "torch release, e.g. 2.12.0"},
        {0, "family", OPT_STRING, &family, "NAME", "hardware family (default: Atlas A2, the 910B)"},
        {0, "inventory", OPT_FLAG, &all, NULL, "all documented APIs"},
        {0, "json", OPT_STRING, &json, "FILE", "write the result as JSON"},
        {0},
    };
    opt_parse(&argc, argv,
              &(struct usage){"docs [API...] --plugin DIR --release VERSION [options]",
                              "Check what the reference documentation says of APIs.", opts});
    if (!root) die("docs: give --plugin DIR, a clone of the plugin's repository");
    if (!release) die("docs: give --release, e.g. --release 2.12.0");
    if (!all && argc < 2) die("docs: name at least one API, or ask for --inventory");
    struct err e;
    struct doc_set set;
    if (doc_load(&set, root, ref, release, &e)) return err_report(&e);
    json_t *rows = json_array();
    int findings = all ? inventory(&set, family, rows, release) : 0;
    findings += check_apis(&set, argv + 1, argc - 1, family, release, rows);
    int status = findings ? EXIT_FINDINGS : EXIT_OK;
    if (json) {
        json_t *top = json_pack("{s:i,s:s,s:s,s:o}", "schema", 1, "release", release, "family", family,
                                "entries", rows);
        char *text = json_dumps(top, JSON_INDENT(1) | JSON_SORT_KEYS);
        if (file_write(json, text, strlen(text), 0, &e)) status = err_report(&e);
        free(text);
        json_decref(top);
    } else {
        json_decref(rows);
    }
    doc_free(&set);
    return status;
}
