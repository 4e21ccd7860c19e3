/* print.c - a scan's result as text, JSON and Markdown. */
#include "concord/scan/print.h"

#include <stdlib.h>
#include <string.h>

struct scan_total *scan_totals(const struct scan_result *r, size_t napis)
{
    struct scan_total *total = xcalloc(napis + 1, sizeof *total);
    for (size_t i = 0; i < r->files.len; i++) {
        const struct scan_file *f = &r->files.ptr[i];
        for (size_t s = 0; s < f->sites.len; s++) {
            struct scan_total *t = &total[f->sites.ptr[s].api];
            if (f->sites.ptr[s].match >= SCAN_RECEIVER) continue;
            t->calls += f->sites.ptr[s].call;
            t->uses += !f->sites.ptr[s].call;
        }
        for (size_t k = 0; k < f->tests.len; k++) {
            const struct scan_test *test = &f->tests.ptr[k];
            struct scan_total *t = &total[test->api];
            t->tests[scan_coverage_of(test)]++;
            t->tensors += test->tensors;
            t->unpatched += !test->patch;
        }
    }
    return total;
}

/* Tests by API, so that printing walks each once. first[api] + k indexes list. */
struct by_api {
    const struct scan_test **list;
    size_t *first;
};

static struct by_api group(const struct scan_result *r, size_t napis)
{
    struct by_api g = {NULL, xcalloc(napis + 2, sizeof *g.first)};
    for (size_t i = 0; i < r->files.len; i++)
        for (size_t k = 0; k < r->files.ptr[i].tests.len; k++)
            g.first[r->files.ptr[i].tests.ptr[k].api + 1]++;
    for (size_t a = 0; a < napis; a++) g.first[a + 1] += g.first[a];
    size_t *at = xcalloc(napis + 1, sizeof *at);
    memcpy(at, g.first, napis * sizeof *at);
    g.list = xcalloc(g.first[napis] + 1, sizeof *g.list);
    for (size_t i = 0; i < r->files.len; i++)
        for (size_t k = 0; k < r->files.ptr[i].tests.len; k++) {
            const struct scan_test *t = &r->files.ptr[i].tests.ptr[k];
            g.list[at[t->api]++] = t;
        }
    free(at);
    return g;
}

static void group_free(struct by_api *g)
{
    free(g->list);
    free(g->first);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void print_test(FILE *to, const struct scan_test *t, bool patches)
{
    fprintf(to, "  %s:%u %s\n      %s, %s", t->file, t->row, t->id, scan_coverage_names[scan_coverage_of(t)],
            scan_match_names[t->match]);
    if (t->indirect) fprintf(to, " (%s)", t->path);
    fprintf(to, "; sites at");
    for (size_t i = 0; i < t->rows.len; i++) fprintf(to, " %u", t->rows.ptr[i]);
    if (!t->tensors)
        fprintf(to, "; no tensor seen to reach it");
    else if (t->tensor_row)
        fprintf(to, "; tensors made at %u", t->tensor_row);
    else
        fprintf(to, "; tensors reach it");
    if (t->backward_row) fprintf(to, "; backward at %u", t->backward_row);
    if (*t->asserts) fprintf(to, "; %s", t->asserts);
    if (*t->params) fprintf(to, "; run for %s", t->params);
    if (*t->keeps_off) fprintf(to, "; kept off by %s", t->keeps_off);
    if (t->device_generic) fprintf(to, "; device-generic: needs no edit");
    if (t->patch)
        fprintf(to, "; changed by %s", t->patch);
    else if (patches)
        fprintf(to, t->file_patched ? "; no patch changes it, though one changes the file"
                                    : "; no patch changes it");
    fprintf(to, "\n");
}

static void print_end(FILE *to, const struct scan_result *r)
{
    for (size_t i = 0; i < r->files.len; i++)
        if (r->files.ptr[i].note) fprintf(to, "note: %s: %s\n", r->files.ptr[i].path, r->files.ptr[i].note);
    if (r->warning) fprintf(to, "note: %s\n", r->warning);
    fprintf(to, "%u files, %u read (%.1f MB), %u looked into\n", r->nfiles, r->nread, (double)r->bytes / 1e6,
            r->nparsed);
}

void scan_print_text(FILE *to, const struct scan_result *r, const struct scan_api *apis, size_t napis,
                     bool patches)
{
    struct scan_total *total = scan_totals(r, napis);
    struct by_api g = group(r, napis);
    for (size_t a = 0; a < napis; a++) {
        fprintf(to, "%s: %u calls and %u other uses, %u covering tests (%u direct, %u indirect, %u weak)\n",
                apis[a].name, total[a].calls, total[a].uses, (unsigned)(g.first[a + 1] - g.first[a]),
                total[a].tests[SCAN_DIRECT], total[a].tests[SCAN_INDIRECT], total[a].tests[SCAN_WEAK]);
        for (size_t k = g.first[a]; k < g.first[a + 1]; k++) print_test(to, g.list[k], patches);
        if (g.first[a] == g.first[a + 1]) fprintf(to, "  none: no upstream test was found to cover it\n");
    }
    group_free(&g);
    free(total);
    print_end(to, r);
}

void scan_print_summary(FILE *to, const struct scan_result *r, const struct scan_api *apis, size_t napis)
{
    struct scan_total *total = scan_totals(r, napis);
    unsigned kind[SCAN_NCOVERAGE + 1] = {0};
    fprintf(to, "%-64s %7s %8s %8s %8s %8s\n", "API", "calls", "direct", "indirect", "weak", "tensors");
    for (size_t a = 0; a < napis; a++) {
        const struct scan_total *t = &total[a];
        fprintf(to, "%-64s %7u %8u %8u %8u %8u\n", apis[a].name, t->calls, t->tests[SCAN_DIRECT],
                t->tests[SCAN_INDIRECT], t->tests[SCAN_WEAK], t->tensors);
        kind[t->tests[SCAN_DIRECT]     ? SCAN_DIRECT
             : t->tests[SCAN_INDIRECT] ? SCAN_INDIRECT
             : t->tests[SCAN_WEAK]     ? SCAN_WEAK
                                       : SCAN_NCOVERAGE]++;
    }
    fprintf(to, "%zu APIs: %u covered directly, %u indirectly only, %u weakly only, %u not at all\n", napis,
            kind[SCAN_DIRECT], kind[SCAN_INDIRECT], kind[SCAN_WEAK], kind[SCAN_NCOVERAGE]);
    free(total);
    print_end(to, r);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

/* Written by hand: a whole inventory has a quarter of a million tests. */
static void add_json_string(struct buf *b, const char *s)
{
    buf_addc(b, '"');
    for (const char *run = s;; s++) {
        unsigned char c = (unsigned char)*s;
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        buf_add(b, run, (size_t)(s - run));
        if (!c) break;
        buf_addf(b, c == '"' || c == '\\' ? "\\%c" : "\\u%04x", c);
        run = s + 1;
    }
    buf_addc(b, '"');
}

static void add_text_field(struct buf *b, const char *name, const char *value)
{
    buf_addf(b, ",\"%s\":", name);
    add_json_string(b, value ? value : "");
}

static void add_test(struct buf *b, const struct scan_test *t, const struct scan_api *apis)
{
    buf_adds(b, "{\"api\":");
    add_json_string(b, apis[t->api].name);
    add_text_field(b, "file", t->file);
    add_text_field(b, "test", t->id);
    add_text_field(b, "class", t->class);
    buf_addf(b, ",\"row\":%u,\"end_row\":%u,\"sites\":[", t->row, t->end_row);
    for (size_t i = 0; i < t->rows.len; i++) buf_addf(b, "%s%u", i ? "," : "", t->rows.ptr[i]);
    buf_adds(b, "]");
    add_text_field(b, "coverage", scan_coverage_names[scan_coverage_of(t)]);
    add_text_field(b, "path", t->path);
    add_text_field(b, "match", scan_match_names[t->match]);
    buf_addf(b, ",\"tensors\":%s,\"tensor_row\":%u,\"backward_row\":%u", t->tensors ? "true" : "false",
             t->tensor_row, t->backward_row);
    add_text_field(b, "asserts", t->asserts);
    add_text_field(b, "params", t->params);
    add_text_field(b, "keeps_off", t->keeps_off);
    buf_addf(b, ",\"device_generic\":%s", t->device_generic ? "true" : "false");
    add_text_field(b, "patch", t->patch);
    buf_addf(b, ",\"file_patched\":%s}", t->file_patched ? "true" : "false");
}

static void add_sites(struct buf *b, const struct scan_result *r, const struct scan_api *apis)
{
    bool first = true;
    for (size_t i = 0; i < r->files.len; i++)
        for (size_t s = 0; s < r->files.ptr[i].sites.len; s++) {
            const struct scan_site *site = &r->files.ptr[i].sites.ptr[s];
            buf_adds(b, first ? "\n{\"api\":" : ",\n{\"api\":");
            add_json_string(b, apis[site->api].name);
            add_text_field(b, "file", r->files.ptr[i].path);
            buf_addf(b, ",\"row\":%u,\"call\":%s", site->row, site->call ? "true" : "false");
            add_text_field(b, "match", scan_match_names[site->match]);
            buf_adds(b, "}");
            first = false;
        }
}

static void add_tests(struct buf *b, const struct scan_result *r, const struct scan_api *apis)
{
    bool first = true;
    for (size_t i = 0; i < r->files.len; i++)
        for (size_t k = 0; k < r->files.ptr[i].tests.len; k++) {
            buf_adds(b, first ? "\n" : ",\n");
            add_test(b, &r->files.ptr[i].tests.ptr[k], apis);
            first = false;
        }
}

void scan_print_json(struct buf *out, const struct scan_result *r, const struct scan_api *apis, size_t napis,
                     bool tests)
{
    struct scan_total *total = scan_totals(r, napis);
    buf_addf(out, "{\"schema\":2,\"files\":%u,\"read\":%u,\"looked_into\":%u,\"apis\":[", r->nfiles, r->nread,
             r->nparsed);
    for (size_t a = 0; a < napis; a++) {
        const struct scan_total *t = &total[a];
        buf_adds(out, a ? ",\n{\"name\":" : "\n{\"name\":");
        add_json_string(out, apis[a].name);
        buf_addf(out,
                 ",\"calls\":%u,\"uses\":%u,\"direct\":%u,\"indirect\":%u,\"weak\":%u,\"tensors\":%u,"
                 "\"unpatched\":%u}",
                 t->calls, t->uses, t->tests[SCAN_DIRECT], t->tests[SCAN_INDIRECT], t->tests[SCAN_WEAK],
                 t->tensors, t->unpatched);
    }
    buf_adds(out, "]");
    if (tests) {
        buf_adds(out, ",\"sites\":[");
        add_sites(out, r, apis);
        buf_adds(out, "],\"tests\":[");
        add_tests(out, r, apis);
        buf_adds(out, "]");
    }
    buf_adds(out, ",\"notes\":[");
    bool first = true;
    for (size_t i = 0; i < r->files.len; i++) {
        if (!r->files.ptr[i].note) continue;
        buf_adds(out, first ? "\n{\"file\":" : ",\n{\"file\":");
        add_json_string(out, r->files.ptr[i].path);
        add_text_field(out, "note", r->files.ptr[i].note);
        buf_adds(out, "}");
        first = false;
    }
    buf_adds(out, "]}\n");
    free(total);
}

/* ---- table --------------------------------------------------------------------------------------------- */

static void add_cell(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '_' || *text == '*') buf_addc(b, '\\');
        buf_addc(b, *text);
    }
}

static void add_row(struct buf *b, const struct scan_test *t, const char *api)
{
    buf_adds(b, "| ");
    add_cell(b, api);
    buf_adds(b, " | ");
    add_cell(b, t->file);
    buf_adds(b, " | ");
    add_cell(b, t->id);
    buf_addf(b, " | %u-%u", t->row, t->end_row);
    if (t->rows.len && !t->indirect) {
        buf_adds(b, " (");
        for (size_t i = 0; i < t->rows.len; i++) buf_addf(b, "%s%u", i ? ", " : "", t->rows.ptr[i]);
        buf_adds(b, ")");
    }
    buf_addf(b, " | %s", scan_coverage_names[scan_coverage_of(t)]);
    if (t->indirect) {
        buf_adds(b, ": ");
        add_cell(b, t->path);
    }
    buf_adds(b, " |\n");
}

void scan_print_table(struct buf *out, const struct scan_result *r, const struct scan_api *apis, size_t napis)
{
    struct by_api g = group(r, napis);
    buf_adds(out, "| API | file | test | lines (calls) | coverage |\n|---|---|---|---|---|\n");
    for (size_t a = 0; a < napis; a++) {
        for (size_t k = g.first[a]; k < g.first[a + 1]; k++) add_row(out, g.list[k], apis[a].name);
        if (g.first[a] != g.first[a + 1]) continue;
        buf_adds(out, "| ");
        add_cell(out, apis[a].name);
        buf_adds(out, " | | | | none |\n");
    }
    group_free(&g);
}
