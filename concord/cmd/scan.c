/* scan.c - concord scan: which upstream tests cover an API, with the evidence. */
#include "concord/apidocs/apidocs.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/patch/load.h"
#include "concord/scan/index.h"
#include "concord/scan/print.h"
#include "concord/scan/scan.h"

#include <stdlib.h>
#include <string.h>

struct request {
    const char *upstream, *json, *table, *index, *list, *plugin, *ref, *release;
    bool all, no_index, evidence, helpers, deep;
    int64_t threads;
    strings patches;
    VEC(struct scan_api) apis;
    struct map seen;
};

static int add_api(struct request *q, const char *name, struct err *e)
{
    struct scan_api a;
    if (scan_api_parse(name, &a, e)) return -1;
    void **slot = map_put(&q->seen, name);
    if (*slot)
        scan_api_free(&a); /* asked for twice is answered once */
    else
        *vec_push(&q->apis) = a;
    *slot = q;
    return 0;
}

/* One name a line; blanks around it, empty lines and what follows # do not count. */
static int add_list(struct request *q, const char *path, struct err *e)
{
    struct buf text = BUF_INIT;
    if (file_read(path, &text, e)) return -1;
    unsigned row = 0;
    int rc = 0;
    char *rest = text.ptr;
    for (char *line; !rc && (line = strsep(&rest, "\n"));) {
        row++;
        line[strcspn(line, "#\r")] = 0;
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = 0;
        if (*line && add_api(q, line, e)) rc = err_wrap(e, "%s:%u", path, row);
    }
    buf_free(&text);
    return rc;
}

/* Documented names that are no API names (headings, wildcards) are passed over: docs reports on documents. */
static int add_documented(struct request *q, struct err *e)
{
    struct doc_set set;
    if (doc_load(&set, q->plugin, q->ref, q->release, e)) return -1;
    for (size_t i = 0; i < set.entries.len; i++) {
        struct err ignored;
        add_api(q, set.entries.ptr[i].api, &ignored);
    }
    doc_free(&set);
    if (!q->apis.len) return err_set(e, "%s: no documented API of %s found there", q->plugin, q->release);
    return 0;
}

static int find_apis(struct request *q, int argc, char **argv, struct err *e)
{
    int rc = 0;
    for (int i = 1; !rc && i < argc; i++) rc = add_api(q, argv[i], e);
    if (!rc && q->list) rc = add_list(q, q->list, e);
    if (!rc && q->plugin) rc = add_documented(q, e);
    return rc;
}

static int write_out(const char *path, struct buf *b, struct err *e)
{
    int rc = file_write(path, buf_str(b), b->len, 0, e);
    buf_free(b);
    return rc;
}

static int print_result(const struct request *q, const struct scan_result *r, struct err *e)
{
    struct buf b = BUF_INIT;
    int rc = 0;
    if (q->json) {
        scan_print_json(&b, r, q->apis.ptr, q->apis.len, !q->all || q->evidence);
        rc = write_out(q->json, &b, e);
    }
    if (!rc && q->table) {
        scan_print_table(&b, r, q->apis.ptr, q->apis.len);
        rc = write_out(q->table, &b, e);
    }
    if (q->json || q->table) return rc;
    if (q->all && !q->evidence)
        scan_print_summary(stdout, r, q->apis.ptr, q->apis.len);
    else
        scan_print_text(stdout, r, q->apis.ptr, q->apis.len, q->patches.len > 0);
    return 0;
}

static int scan(const struct request *q, struct err *e)
{
    char *tests = path_join(q->upstream, "test");
    bool below = path_is_dir(tests);
    char *index = q->no_index ? NULL : q->index ? xstrdup(q->index) : index_default_path();
    struct scan_spec spec = {.tests = below ? tests : q->upstream,
                             .source = below ? q->upstream : NULL,
                             .index = index,
                             .threads = (int)q->threads,
                             .whole = q->all,
                             .deep = q->deep,
                             .helpers = q->helpers};
    struct scan_result r;
    strings patches = {0};
    int rc = scan_run(&spec, q->apis.ptr, q->apis.len, &r, e);
    if (!rc) {
        if (q->patches.len) rc = patch_find((int)q->patches.len, q->patches.ptr, &patches, e);
        if (!rc && patches.len) rc = scan_patches(&r, spec.tests, below ? "test/" : "", &patches, e);
        if (!rc) rc = print_result(q, &r, e);
        scan_result_free(&r);
    }
    strings_free(&patches);
    free(index);
    free(tests);
    return rc;
}

int cmd_scan(int argc, char **argv)
{
    struct request q = {0};
    const struct opt opts[] = {
        {'u', "upstream", OPT_STRING, &q.upstream, "DIR",
         "root of an upstream source tree (tests in DIR/test, aliases from DIR/torch)"},
        {'a', "all-apis", OPT_FLAG, &q.all, NULL, "an inventory in one pass: of --apis or --plugin"},
        {0, "apis", OPT_STRING, &q.list, "FILE", "more APIs, one a line"},
        {'p', "plugin", OPT_STRING, &q.plugin, "DIR",
         "more APIs: those that the plugin's documents list for --release"},
        {0, "ref", OPT_STRING, &q.ref, "REF", "read the documents of this branch or commit"},
        {'r', "release", OPT_STRING, &q.release, "VERSION", "torch release of the documents, e.g. 2.12.0"},
        {0, "patches", OPT_LIST, &q.patches, "DIR,...", "existing patches: say which change a covering test"},
        {0, "json", OPT_STRING, &q.json, "FILE", "write the result as JSON"},
        {0, "table", OPT_STRING, &q.table, "FILE", "write the table of completeness as Markdown"},
        {0, "evidence", OPT_FLAG, &q.evidence, NULL, "with --all-apis: every test, not totals"},
        {0, "deep", OPT_FLAG, &q.deep, NULL,
         "ways through torch's own modules near an API count as indirect"},
        {0, "helper-tests", OPT_FLAG, &q.helpers, NULL, "list tests in torch/testing/_internal too"},
        {0, "index", OPT_STRING, &q.index, "FILE", "where facts of files are kept (in the cache folder)"},
        {0, "no-index", OPT_FLAG, &q.no_index, NULL, "keep nothing"},
        {'j', "threads", OPT_INT, &q.threads, "N", "files read at a time (default: one a core)"},
        {0},
    };
    opt_parse(&argc, argv,
              &(struct usage){"scan API... --upstream DIR [options]",
                              "Find the upstream tests that cover an API, with the evidence.", opts});
    struct err e;
    if (q.all && !q.list && !q.plugin)
        die("scan: --all-apis wants an inventory: --apis FILE, or --plugin DIR --release VERSION");
    if (q.plugin && !q.release) die("scan: --plugin wants --release, e.g. --release 2.12.0");
    if (argc < 2 && !q.list && !q.plugin)
        die("scan: name at least one API, e.g. torch.utils.checkpoint.checkpoint");
    if (!q.upstream) die("scan: no source tree: give --upstream DIR");
    if (q.threads < 0 || q.threads > 64) die("scan: --threads wants 1 to 64");
    int rc = find_apis(&q, argc, argv, &e);
    if (!rc) rc = scan(&q, &e);
    for (size_t i = 0; i < q.apis.len; i++) scan_api_free(&q.apis.ptr[i]);
    vec_free(&q.apis);
    map_free(&q.seen, NULL);
    strings_free(&q.patches);
    return rc ? err_report(&e) : EXIT_OK;
}
