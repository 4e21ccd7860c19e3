/* blocks.c - the parts of the Markdown texts that the task and the reviews share, each from one step's fact.
 */
#include "concord/adapt/adapt.h"
#include "concord/report/text.h"

#include <stdlib.h>
#include <string.h>

static void missing(const struct page *p)
{
    buf_addf(p->out, "%s\n", say(p, W_NO_STEP));
}

/* ---- environment ------------------------------------------------------------------------------------- */

static const char *device_library(const struct release_record *rel)
{
    const char *softnpu = fact_text(rel->hello, "softnpu");
    return *softnpu ? softnpu : fact_text(rel->hello, "ascendcl");
}

static void put_host(const struct page *p)
{
    const struct run_record *r = p->r->record;
    char *when = xformat("%s – %s", r->started, *r->finished ? r->finished : "…");
    char *campaign = xformat("%s (%s, SHA-256 %.16s)", r->campaign, r->path, r->digest);
    const char *const rows[][2] = {
        {say(p, W_CAMPAIGN), campaign},
        {say(p, W_RUN_AT), when},
        {say(p, W_OS), fact_text(r->host, "os")},
        {say(p, W_MACHINE), fact_text(r->host, "machine")},
        {say(p, W_KERNEL), fact_text(r->host, "kernel")},
    };
    put_head(p, (const enum word[]){W_ITEM, W_VALUE}, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) put_row(p, rows[i], 2);
    free(when);
    free(campaign);
}

/* The vendor's toolkit as the library's folder names it; the software device has none. */
static const char *toolkit_of(const struct page *p, const struct release_record *rel)
{
    if (rel->kind == KIND_SOFTWARE) return p->lang == LANG_ZH ? "无（softnpu）" : "none (softnpu)";
    const char *version = fact_text(rel->hello, "cann");
    return *version ? version : fact_text(rel->hello, "ascendcl");
}

static void put_release_row(const struct page *p, const struct release_record *rel)
{
    char digest[65] = "";
    if (*rel->lock) sha256_hex(rel->lock, strlen(rel->lock), digest);
    const char *const cells[] = {rel->name,
                                 rel->branch,
                                 fact_text(rel->hello, "torch"),
                                 fact_text(rel->hello, "plugin_version"),
                                 fact_text(rel->hello, "python"),
                                 rel->device,
                                 kind_word(p, rel->kind),
                                 toolkit_of(p, rel),
                                 device_library(rel),
                                 digest};
    put_row(p, cells, sizeof cells / sizeof *cells);
}

static void put_environment_list(const struct page *p, const struct release_record *rel)
{
    const json_t *host = p->r->record->host;
    char digest[65] = "";
    if (*rel->lock) sha256_hex(rel->lock, strlen(rel->lock), digest);
    const char *const rows[][2] = {{say(p, W_OS), fact_text(host, "os")},
                                   {say(p, W_MACHINE), fact_text(host, "machine")},
                                   {say(p, W_DEVICE), rel->device},
                                   {say(p, W_KIND), kind_word(p, rel->kind)},
                                   {say(p, W_TOOLKIT), toolkit_of(p, rel)},
                                   {"torch", fact_text(rel->hello, "torch")},
                                   {"torch_npu", fact_text(rel->hello, "plugin_version")},
                                   {"Python", fact_text(rel->hello, "python")},
                                   {say(p, W_LIBRARY), device_library(rel)},
                                   {say(p, W_LOCK), digest}};
    put_head(p, (const enum word[]){W_ITEM, W_VALUE}, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) put_row(p, rows[i], 2);
}

void put_environment(const struct page *p, const struct release_record *only)
{
    if (only) {
        put_environment_list(p, only);
        return;
    }
    put_host(p);
    buf_addf(p->out, "\n| %s | %s | torch | torch\\_npu | Python | %s | %s | %s | %s | %s |\n",
             say(p, W_RELEASE), say(p, W_BRANCH), say(p, W_DEVICE), say(p, W_KIND), say(p, W_TOOLKIT),
             say(p, W_LIBRARY), say(p, W_LOCK));
    for (int i = 0; i < 10; i++) buf_adds(p->out, "| --- ");
    buf_adds(p->out, "|\n");
    for (size_t i = 0; i < p->r->record->releases.len; i++)
        put_release_row(p, &p->r->record->releases.ptr[i]);
}

/* ---- scope and adaption ------------------------------------------------------------------------------ */

static const char *coverage_word(const struct page *p, const char *coverage)
{
    return say(p, !strcmp(coverage, "direct") ? W_DIRECT : !strcmp(coverage, "weak") ? W_WEAK : W_INDIRECT);
}

static void put_coverage_row(const struct page *p, const json_t *t)
{
    struct buf lines = BUF_INIT;
    size_t i;
    json_t *site;
    json_array_foreach(json_object_get(t, "sites"), i, site)
        buf_addf(&lines, "%s%lld", i ? ", " : "", (long long)json_integer_value(site));
    buf_adds(p->out, "| ");
    put_code(p, fact_text(t, "api"));
    buf_adds(p->out, " | ");
    put_code(p, fact_text(t, "file"));
    buf_addf(p->out, " | %s | ", buf_str(&lines));
    put_code(p, fact_text(t, "test"));
    buf_addf(p->out, " | %s | ", coverage_word(p, fact_text(t, "coverage")));
    put_text(p, fact_text(t, "path"));
    buf_adds(p->out, " |\n");
    buf_free(&lines);
}

static bool is_adapted(const struct page *p, const char *release, const char *file)
{
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(dossier_get(p->r->dossier, "adapt", release), "files"), i,
                       f) if (!strcmp(fact_text(f, "file"), file)) return true;
    return false;
}

/* Rows that an API may still take; each has its share, so that none is crowded out by another. */
static bool take_row(const struct page *p, size_t *taken, const char *api, size_t limit)
{
    const strings *apis = &p->r->record->apis;
    size_t share = apis->len ? (limit + apis->len - 1) / apis->len : limit;
    for (size_t a = 0; a < apis->len; a++)
        if (!strcmp(apis->ptr[a], api)) return taken[a]++ < share;
    return false;
}

void put_coverage(const struct page *p, const char *release, size_t limit, bool adapted)
{
    const json_t *scan = dossier_get(p->r->dossier, "scan", release), *tests = json_object_get(scan, "tests");
    size_t i, shown = 0, *taken = xcalloc(p->r->record->apis.len + 1, sizeof *taken);
    json_t *t;
    if (!scan) missing(p);
    if (scan)
        buf_addf(p->out, "| API | %s | %s | %s | %s | %s |\n| --- | --- | --- | --- | --- | --- |\n",
                 say(p, W_FILE), say(p, W_LINES), say(p, W_TEST), say(p, W_COVERAGE), say(p, W_PATH));
    json_array_foreach(tests, i, t)
    {
        if (adapted && !is_adapted(p, release, fact_text(t, "file"))) continue;
        if (!take_row(p, taken, fact_text(t, "api"), limit)) continue;
        put_coverage_row(p, t);
        shown++;
    }
    if (json_array_size(tests) > shown)
        buf_addf(p->out, "\n%zu %s\n", json_array_size(tests) - shown, say(p, W_MORE));
    free(taken);
}

static const struct adapt_rule *rule_called(const char *name)
{
    for (int i = 0; i < RULE_COUNT; i++)
        if (!strcmp(adapt_rules[i].name, name)) return &adapt_rules[i];
    return NULL;
}

static void count_rules(const json_t *edits, struct map *counts)
{
    size_t i;
    json_t *edit;
    json_array_foreach(edits, i, edit)
    {
        void **slot = map_put(counts, fact_text(edit, "rule"));
        *slot = (void *)((uintptr_t)*slot + 1);
    }
}

static void put_rules(const struct page *p, const json_t *file)
{
    struct map counts = {0};
    count_rules(json_object_get(file, "edits"), &counts);
    if (counts.entries.len) {
        put_head(p, (const enum word[]){W_RULE, W_EDITS, W_WHY}, 3);
        for (size_t i = 0; i < counts.entries.len; i++) {
            const struct adapt_rule *rule = rule_called(counts.entries.ptr[i].key);
            char *n = xformat("%zu", (size_t)counts.entries.ptr[i].value);
            const char *why = !rule ? "" : p->lang == LANG_ZH ? rule->reason_zh : rule->reason;
            put_row(p, (const char *const[]){counts.entries.ptr[i].key, n, why}, 3);
            free(n);
        }
        buf_addc(p->out, '\n');
    }
    map_free(&counts, NULL);
}

static void put_left(const struct page *p, const json_t *file, const char *release)
{
    const json_t *left = json_object_get(file, "left"), *accepted;
    size_t i;
    json_t *place;
    if (!json_array_size(left)) return;
    accepted = dossier_get(p->r->dossier, "accept", release);
    buf_addf(p->out, "%s:\n\n", say(p, W_LEFT));
    json_array_foreach(left, i, place)
    {
        buf_addf(p->out, "- %lld ", (long long)json_integer_value(json_object_get(place, "line")));
        put_code(p, fact_text(place, "scope"));
        buf_adds(p->out, ": ");
        put_text(p, fact_text(place, "reason"));
        buf_addc(p->out, '\n');
    }
    if (accepted) {
        buf_addf(p->out, "\n%s: ", say(p, W_ACCEPTED));
        put_text(p, fact_text(accepted, "reason"));
        buf_addc(p->out, '\n');
    }
    buf_addc(p->out, '\n');
}

static void put_file(const struct page *p, const json_t *file, const char *release)
{
    buf_adds(p->out, "- ");
    put_code(p, fact_text(file, "patch"));
    if (json_is_true(json_object_get(file, "existing")))
        buf_addf(p->out, ": %lld %s, %lld %s\n\n",
                 (long long)json_integer_value(json_object_get(file, "kept")), say(p, W_KEPT_HUNKS),
                 (long long)json_integer_value(json_object_get(file, "redone")), say(p, W_REDONE_HUNKS));
    else
        buf_addf(p->out, ": %s\n\n", say(p, W_NEW_PATCH));
    put_rules(p, file);
    put_left(p, file, release);
}

void put_adaption(const struct page *p, const char *release)
{
    const json_t *adapt = dossier_get(p->r->dossier, "adapt", release),
                 *files = json_object_get(adapt, "files");
    size_t i;
    json_t *file;
    if (!adapt) {
        missing(p);
        return;
    }
    if (!json_array_size(files)) buf_addf(p->out, "%s\n", say(p, W_NO_PATCH));
    json_array_foreach(files, i, file) put_file(p, file, release);
}

/* ---- documentation, audit ---------------------------------------------------------------------------- */

void put_docs(const struct page *p, const char *release)
{
    const json_t *docs = dossier_get(p->r->dossier, "docs", release);
    size_t i;
    json_t *d;
    if (!docs) {
        missing(p);
        return;
    }
    buf_addf(p->out, "| API | %s | %s | %s |\n| --- | --- | --- | --- |\n", say(p, W_VERDICT), say(p, W_FILE),
             say(p, W_RESTRICTIONS));
    json_array_foreach(json_object_get(docs, "rows"), i, d)
    {
        char *where = *fact_text(d, "file")
                          ? xformat("%s:%lld", fact_text(d, "file"),
                                    (long long)json_integer_value(json_object_get(d, "line")))
                          : xstrdup("");
        put_row(p,
                (const char *const[]){fact_text(d, "api"), fact_text(d, "verdict"), where,
                                      fact_text(d, "restrictions")},
                4);
        free(where);
    }
}

static void put_finding(const struct page *p, const json_t *f, const char *patch)
{
    char *where = xformat("%s:%lld", patch, (long long)json_integer_value(json_object_get(f, "line")));
    const char *origin = say(p, json_is_true(json_object_get(f, "inherited")) ? W_INHERITED : W_FRESH);
    put_row(p,
            (const char *const[]){fact_text(f, "severity"), fact_text(f, "rule"), where,
                                  fact_text(f, "message"), origin},
            5);
    free(where);
}

void put_audit(const struct page *p, const char *release)
{
    const json_t *audit = dossier_get(p->r->dossier, "audit", release), *patches;
    size_t i, k, n = 0;
    json_t *patch, *f;
    if (!audit) {
        missing(p);
        return;
    }
    patches = json_object_get(audit, "patches");
    json_array_foreach(patches, i, patch) n += json_array_size(json_object_get(patch, "findings"));
    if (!n) {
        buf_addf(p->out, "%s\n", say(p, W_NO_FINDING));
        return;
    }
    put_head(p, (const enum word[]){W_SEVERITY, W_RULE, W_FILE, W_MESSAGE, W_ORIGIN}, 5);
    json_array_foreach(patches, i, patch) json_array_foreach(json_object_get(patch, "findings"), k, f)
        put_finding(p, f, fact_text(patch, "patch"));
}

/* ---- adapted tests ------------------------------------------------------------------------------------- */

static bool passed_on_both(const json_t *row)
{
    return !strcmp(fact_text(row, "device"), "PASSED") && !strcmp(fact_text(row, "cpu"), "PASSED");
}

static void put_suite_rows(const struct page *p, const json_t *rows, size_t limit)
{
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (passed_on_both(row) || n++ >= limit) continue;
        if (n == 1) {
            buf_addc(p->out, '\n');
            put_head(p, (const enum word[]){W_TEST, W_ORIGINAL, W_ADAPTED, W_REASON}, 4);
        }
        put_row(p,
                (const char *const[]){fact_text(row, "test"), fact_text(row, "cpu"), fact_text(row, "device"),
                                      fact_text(row, "reason")},
                4);
    }
    if (n > limit) buf_addf(p->out, "\n%zu %s\n", n - limit, say(p, W_MORE));
}

void put_suite(const struct page *p, const char *release, size_t limit)
{
    const json_t *suite = dossier_get(p->r->dossier, "suite", release);
    if (!suite) {
        missing(p);
        return;
    }
    buf_addf(p->out, "%lld %s %lld / %lld / %lld\n\n```sh\n%s\n```\n",
             (long long)json_integer_value(json_object_get(suite, "tests")), say(p, W_SUITE_COUNTS),
             (long long)json_integer_value(json_object_get(suite, "executed")),
             (long long)json_integer_value(json_object_get(suite, "passed")),
             (long long)json_integer_value(json_object_get(suite, "differ")), fact_text(suite, "command"));
    put_suite_rows(p, json_object_get(suite, "rows"), limit);
}

/* ---- results ----------------------------------------------------------------------------------------- */

static void put_cell(const struct page *p, const struct cell *c)
{
    char *cases = xformat("%d/%d", c->counts[VERDICT_PASSED], c->total);
    char *launches = xformat("%lld", (long long)c->launches);
    put_row(p,
            (const char *const[]){c->api, verdict_name(c->verdict), cases, launches, kind_word(p, c->kind)},
            5);
    free(cases);
    free(launches);
}

void put_cells(const struct page *p, size_t release)
{
    static const enum word columns[] = {W_VERDICT, W_CASES, W_LAUNCHES, W_KIND};
    buf_adds(p->out, "| API ");
    for (int k = 0; k < 4; k++) buf_addf(p->out, "| %s ", say(p, columns[k]));
    buf_adds(p->out, "|\n| --- | --- | --- | --- | --- |\n");
    for (size_t a = 0; a < p->r->record->apis.len; a++) put_cell(p, report_cell(p->r, release, a));
}

void put_unpassed(const struct page *p, const char *release, size_t limit)
{
    const struct run_record *r = p->r->record;
    size_t n = 0;
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (c->verdict == VERDICT_PASSED || (release && strcmp(c->release, release) != 0) || n++ >= limit)
            continue;
        buf_addf(p->out, "- **%s** %s `%s::%s`: ", verdict_name(c->verdict), c->release, c->api, c->name);
        put_text(p, *c->reason ? c->reason : verdict_meaning(c->verdict));
        buf_addc(p->out, '\n');
    }
    if (!n) buf_addf(p->out, "%s\n", say(p, W_NOTHING_FAILED));
    if (n > limit) buf_addf(p->out, "\n%zu %s\n", n - limit, say(p, W_MORE));
}
