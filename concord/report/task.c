/* task.c - the text of the task issue, in Chinese and in English. */
#include "concord/report/text.h"

#include <stdlib.h>
#include <string.h>

enum { COVERAGE_ROWS = 40, UNPASSED_ROWS = 100, CASE_TABLE_ROWS = 400 };

static void put_background(const struct page *p)
{
    const struct run_record *r = p->r->record;
    static const char *const sentence[LANG_COUNT] = {
        "This task checks that the APIs below behave on the device as they do upstream, on every release "
        "that "
        "is listed: forward, and backward where it applies, each case compared with the CPU in the same "
        "environment. A result counts only with proof that the device executed it.",
        "本任务验证下列 API 在各目标版本的设备上与上游行为一致：前向（及适用时的反向）逐用例与同一环境的 CPU "
        "结果对比，且只有具备设备执行证据的结果才计为通过。"};
    put_heading(p, W_BACKGROUND);
    buf_addf(p->out, "%s\n\n", sentence[p->lang]);
    for (size_t i = 0; i < r->releases.len; i++)
        buf_addf(p->out, "- torch\\_npu %s (torch %s, %s)\n", r->releases.ptr[i].name,
                 r->releases.ptr[i].torch, r->releases.ptr[i].branch);
}

static void put_environment_section(const struct page *p)
{
    put_anchor(p, PLACE_environment);
    put_heading(p, W_ENVIRONMENT);
    put_environment(p, NULL);
}

static const struct release_record *first_release(const struct page *p)
{
    return p->r->record->releases.len ? &p->r->record->releases.ptr[0] : NULL;
}

static void release_heading(const struct page *p, const struct release_record *rel)
{
    bool first = rel == first_release(p);
    buf_addf(p->out, "%s### torch\\_npu %s (torch %s, %s)\n\n", first ? "" : "\n", rel->name, rel->torch,
             rel->branch);
}

static void put_scope(const struct page *p)
{
    put_anchor(p, PLACE_scope);
    put_heading(p, W_SCOPE);
    for (size_t i = 0; i < p->r->record->apis.len; i++)
        buf_addf(p->out, "- `%s`\n", p->r->record->apis.ptr[i]);
    buf_addc(p->out, '\n');
    for (size_t i = 0; i < p->r->record->releases.len; i++) {
        release_heading(p, &p->r->record->releases.ptr[i]);
        put_coverage(p, p->r->record->releases.ptr[i].name, COVERAGE_ROWS, false);
    }
}

static void put_plan(const struct page *p)
{
    static const char *const sentence[LANG_COUNT] = {
        "The product's source is not changed. The upstream tests of each release are put on the device by "
        "patch files, one commit on one branch per release; what a patch already there does is kept.",
        "不修改产品源码。各版本的上游测试通过补丁文件适配到设备，每个版本一个分支、一个提交；已有补丁的内容保"
        "持不变。"};
    put_anchor(p, PLACE_plan);
    put_heading(p, W_PLAN);
    buf_addf(p->out, "%s\n\n", sentence[p->lang]);
    buf_addf(p->out, "| %s | %s | %s |\n| --- | --- | --- |\n", say(p, W_RELEASE), say(p, W_BRANCH),
             say(p, W_FILE));
    for (size_t i = 0; i < p->r->record->releases.len; i++) {
        const struct release_record *rel = &p->r->record->releases.ptr[i];
        const json_t *files = json_object_get(dossier_get(p->r->dossier, "adapt", rel->name), "files");
        size_t k;
        json_t *file;
        json_array_foreach(files, k, file)
            put_row(p, (const char *const[]){rel->name, rel->branch, fact_text(file, "patch")}, 3);
        if (!json_array_size(files)) put_row(p, (const char *const[]){rel->name, rel->branch, "–"}, 3);
    }
}

static void put_results(const struct page *p)
{
    put_anchor(p, PLACE_results);
    put_heading(p, W_RESULTS);
    for (size_t i = 0; i < p->r->record->releases.len; i++) {
        const struct release_record *rel = &p->r->record->releases.ptr[i];
        release_heading(p, rel);
        if (*rel->error) {
            put_text(p, rel->error);
            buf_adds(p->out, "\n\n");
        }
        put_cells(p, i);
        buf_addf(p->out, "\n%s: ", say(p, W_SUITE));
        put_suite(p, rel->name, UNPASSED_ROWS);
    }
}

/* ---- cases ------------------------------------------------------------------------------------------- */

/* Verdicts by API, case and release, so that a table needs no search. */
static char *case_key(const char *release, const char *api, const char *name)
{
    return xformat("%s\n%s\n%s", release, api, name);
}

static void put_case_row(const struct page *p, const struct map *all, const struct case_record *c)
{
    const struct run_record *r = p->r->record;
    VEC(const char *) cells = {0};
    *vec_push(&cells) = c->name;
    *vec_push(&cells) = report_title(p->r, c, p->lang);
    *vec_push(&cells) = say(p, strcmp(c->passes, "backward") ? W_FORWARD : W_BACKWARD);
    for (size_t i = 0; i < r->releases.len; i++) {
        char *key = case_key(r->releases.ptr[i].name, c->api, c->name);
        const struct case_record *there = map_get(all, key);
        *vec_push(&cells) = verdict_name(there ? there->verdict : VERDICT_NOT_RUN);
        free(key);
    }
    put_row(p, cells.ptr, (int)cells.len);
    vec_free(&cells);
}

static void put_api(const struct page *p, const struct map *all, const char *api)
{
    const struct run_record *r = p->r->record;
    buf_addf(p->out, "### `%s`\n\n| %s | %s | %s ", api, say(p, W_CASE), say(p, W_COVERS), say(p, W_PASSES));
    for (size_t i = 0; i < r->releases.len; i++) buf_addf(p->out, "| %s ", r->releases.ptr[i].name);
    buf_adds(p->out, "|\n| --- | --- | --- ");
    for (size_t i = 0; i < r->releases.len; i++) buf_adds(p->out, "| --- ");
    buf_adds(p->out, "|\n");
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (!strcmp(c->api, api) && !strcmp(c->release, r->releases.ptr[0].name)) put_case_row(p, all, c);
    }
    buf_addc(p->out, '\n');
}

/* Case by case only while people can read it; the page has them all. */
static void put_per_api(const struct page *p)
{
    const struct run_record *r = p->r->record;
    struct map all = {0};
    put_anchor(p, PLACE_cases);
    put_heading(p, W_PER_API);
    if (!r->releases.len || r->cases.len / r->releases.len > CASE_TABLE_ROWS) {
        buf_addf(p->out, "%zu %s\n", r->cases.len, say(p, W_MORE));
        return;
    }
    for (size_t i = 0; i < r->cases.len; i++) {
        char *key = case_key(r->cases.ptr[i].release, r->cases.ptr[i].api, r->cases.ptr[i].name);
        *map_put(&all, key) = &r->cases.ptr[i];
        free(key);
    }
    for (size_t a = 0; a < r->apis.len; a++) put_api(p, &all, r->apis.ptr[a]);
    map_free(&all, NULL);
}

static void put_details(const struct page *p)
{
    put_heading(p, W_DETAILS);
    put_unpassed(p, NULL, UNPASSED_ROWS);
}

/* ---- one block a release ----------------------------------------------------------------------------- */

static void per_release(const struct page *p, void (*block)(const struct page *p, const char *release))
{
    for (size_t i = 0; i < p->r->record->releases.len; i++) {
        release_heading(p, &p->r->record->releases.ptr[i]);
        block(p, p->r->record->releases.ptr[i].name);
    }
}

static void put_tests(const struct page *p)
{
    put_heading(p, W_TESTS);
    per_release(p, put_adaption);
}

static void put_docs_section(const struct page *p)
{
    put_anchor(p, PLACE_docs);
    put_heading(p, W_DOCS);
    per_release(p, put_docs);
}

static void put_audit_section(const struct page *p)
{
    put_anchor(p, PLACE_audit);
    put_heading(p, W_AUDIT);
    per_release(p, put_audit);
}

static void put_method(const struct page *p)
{
    static const char *const steps[][LANG_COUNT] = {
        {"The upstream tests that cover the APIs are found in each release's own source, with call sites and "
         "paths.",
         "在各版本上游源码中定位覆盖这些 API 的测试，记录调用位置与路径。"},
        {"They are adapted by named rules; a patch that is there already is applied first and kept.",
         "按具名规则适配；已有补丁先行应用并保留。"},
        {"The patches are audited against the release's source, and against what the base already had.",
         "对照该版本源码及基线静态审计补丁。"},
        {"Each release runs in its own locked environment; every case runs on the CPU and on the device in "
         "the "
         "same process and is compared in values, gradients, dtypes and raised errors.",
         "每个版本在各自锁定的环境中运行；每个用例在同一进程内分别在 CPU "
         "与设备上执行，并对比数值、梯度、dtype 与报错。"},
        {"A result is PASSED only if the device proves that it executed: launched operators, device memory, "
         "no "
         "fallback to the CPU.",
         "只有设备证明其执行（下发的算子、设备内存、无 CPU 回退）的结果才计为 PASSED。"},
    };
    put_heading(p, W_METHOD);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        buf_addf(p->out, "%zu. %s\n", i + 1, steps[i][p->lang]);
}

static void put_repeat(const struct page *p)
{
    put_heading(p, W_REPEAT);
    buf_addf(p->out, "```sh\n%s\n```\n", p->r->record->command);
}

static void put_review_row(const struct page *p, const struct release_record *rel)
{
    const json_t *branch = dossier_get(p->r->dossier, "branch", rel->name),
                 *review = dossier_get(p->r->dossier, "submit", rel->name);
    const char *url = fact_text(review, "url");
    put_row(p,
            (const char *const[]){rel->branch, fact_text(branch, "name"), fact_text(branch, "commit"),
                                  *url ? url : say(p, W_NOT_OPENED)},
            4);
}

static void put_reviews(const struct page *p)
{
    put_anchor(p, PLACE_branches);
    put_heading(p, W_REVIEWS);
    buf_addf(p->out, "| %s | %s | %s | %s |\n| --- | --- | --- | --- |\n", say(p, W_BASE), say(p, W_BRANCH),
             say(p, W_COMMIT), say(p, W_REVIEW));
    for (size_t i = 0; i < p->r->record->releases.len; i++) put_review_row(p, &p->r->record->releases.ptr[i]);
}

static void put_conclusion(const struct page *p)
{
    int passed = report_passed(p->r);
    put_heading(p, W_CONCLUSION);
    if (!record_complete(p->r->record)) buf_addf(p->out, "%s\n\n", say(p, W_INCOMPLETE));
    if (p->lang == LANG_ZH)
        buf_addf(p->out, "共 %zu 项（API × 版本），通过 %d 项。", p->r->cells.len, passed);
    else
        buf_addf(p->out, "%d of %zu cells (API and release) PASSED. ", passed, p->r->cells.len);
    buf_addf(p->out, "%s\n", report_device_sentence(p->r, p->lang));
}

static void put_checklist(const struct page *p)
{
    put_heading(p, W_CHECKLIST);
    for (size_t i = 0; i < p->r->checks.len; i++) {
        const struct check *c = &p->r->checks.ptr[i];
        buf_addf(p->out, "- [%c] %s ([%s](#%s): ", c->ticked ? 'x' : ' ', p->lang == LANG_ZH ? c->zh : c->en,
                 say(p, W_FACT), report_place_names[c->place]);
        put_text(p, c->fact);
        buf_adds(p->out, ")\n");
    }
}

static void (*const sections[])(const struct page *) = {put_background,    put_environment_section,
                                                        put_scope,         put_plan,
                                                        put_results,       put_per_api,
                                                        put_details,       put_tests,
                                                        put_docs_section,  put_method,
                                                        put_repeat,        put_reviews,
                                                        put_audit_section, put_conclusion,
                                                        put_checklist};

static void render(const struct report *r, enum language lang, struct buf *out)
{
    struct page p = {r, lang, out};
    buf_addf(out, "# %s: %s\n\n> %s\n", say(&p, W_TITLE), r->record->campaign,
             report_device_sentence(r, lang));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) sections[i](&p);
}

void report_task_zh(const struct report *r, struct buf *out)
{
    render(r, LANG_ZH, out);
}

void report_task_en(const struct report *r, struct buf *out)
{
    render(r, LANG_EN, out);
}
