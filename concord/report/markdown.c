/* markdown.c - the Markdown rendering, in Chinese and in English. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

#define WORDS(X)                                                                                             \
    X(TITLE, "API consistency report", "API 一致性验证报告")                                                 \
    X(SCOPE, "Scope", "验证范围")                                                                            \
    X(ENVIRONMENT, "Environment", "环境信息")                                                                \
    X(RESULTS, "Results per release", "各版本验证结果")                                                      \
    X(PER_API, "Cases per API", "各 API 用例")                                                               \
    X(DETAILS, "What did not pass", "未通过项")                                                              \
    X(REPEAT, "How to repeat", "复现方式")                                                                   \
    X(CONCLUSION, "Conclusion", "验证结论")                                                                  \
    X(CHECKLIST, "Checklist", "检查清单")                                                                    \
    X(ITEM, "Item", "项目")                                                                                  \
    X(VALUE, "Value", "内容")                                                                                \
    X(OS, "Operating system", "操作系统")                                                                    \
    X(MACHINE, "Architecture", "架构")                                                                       \
    X(KERNEL, "Kernel", "内核")                                                                              \
    X(DEVICE, "Device", "设备")                                                                              \
    X(KIND, "Device kind", "设备类型")                                                                       \
    X(RUN_AT, "Run (UTC)", "运行时间（UTC）")                                                                \
    X(CAMPAIGN, "Campaign", "验证任务")                                                                      \
    X(RELEASE, "Release", "版本")                                                                            \
    X(BRANCH, "Branch", "分支")                                                                              \
    X(LOCK, "Environment lock (SHA-256)", "环境锁（SHA-256）")                                               \
    X(LIBRARY, "Device library", "设备库")                                                                   \
    X(VERDICT, "Verdict", "结论")                                                                            \
    X(CASES, "Cases passed", "通过用例")                                                                     \
    X(LAUNCHES, "Operators launched", "算子下发次数")                                                        \
    X(CASE, "Case", "用例")                                                                                  \
    X(COVERS, "Covers", "覆盖内容")                                                                          \
    X(PASSES, "Direction", "方向")                                                                           \
    X(FORWARD, "forward", "前向")                                                                            \
    X(BACKWARD, "forward and backward", "前向与反向")                                                        \
    X(NOTHING_FAILED, "Every case passed.", "全部用例通过。")                                                \
    X(INCOMPLETE, "The run is not complete.", "本次运行尚未完成。")                                          \
    X(FACT, "fact", "依据")

enum word {
#define X(id, en, zh) W_##id,
    WORDS(X)
#undef X
        W_COUNT
};
static const char *const words[W_COUNT][LANG_COUNT] = {
#define X(id, en, zh) [W_##id] = {en, zh},
    WORDS(X)
#undef X
};

struct page {
    const struct report *r;
    enum language lang;
    struct buf *out;
};

static const char *say(const struct page *p, enum word w)
{
    return words[w][p->lang];
}

/* Text of a table's cell or a line: no line ends, nothing that Markdown or HTML would take for its own. */
static void put(const struct page *p, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n' || *text == '\r')
            buf_addc(p->out, ' ');
        else if (*text == '<')
            buf_adds(p->out, "&lt;");
        else if (strchr("|\\`*_[]", *text))
            buf_addf(p->out, "\\%c", *text);
        else
            buf_addc(p->out, *text);
    }
}

static void heading(const struct page *p, enum word w)
{
    buf_addf(p->out, "\n## %s\n\n", say(p, w));
}

/* A table's head: the words, then the rule below. */
static void head(const struct page *p, const enum word *columns, int n)
{
    for (int i = 0; i < n; i++) buf_addf(p->out, "| %s ", say(p, columns[i]));
    buf_adds(p->out, "|\n");
    for (int i = 0; i < n; i++) buf_adds(p->out, "| --- ");
    buf_adds(p->out, "|\n");
}

static void row(const struct page *p, const char *const *cells, int n)
{
    for (int i = 0; i < n; i++) {
        buf_adds(p->out, "| ");
        put(p, cells[i]);
        buf_addc(p->out, ' ');
    }
    buf_adds(p->out, "|\n");
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *kind_word(const struct page *p, enum device_kind kind)
{
    static const char *const zh[] = {[KIND_NONE] = "无", [KIND_SOFTWARE] = "软件", [KIND_HARDWARE] = "硬件"};
    return p->lang == LANG_ZH ? zh[kind] : device_kind_name(kind);
}

/* ---- sections, in the order of sections[] ------------------------------------------------------------ */

static void put_scope(const struct page *p)
{
    heading(p, W_SCOPE);
    for (size_t i = 0; i < p->r->record->apis.len; i++)
        buf_addf(p->out, "- `%s`\n", p->r->record->apis.ptr[i]);
}

static void put_host(const struct page *p)
{
    const struct run_record *r = p->r->record;
    char *when = xformat("%s – %s", r->started, *r->finished ? r->finished : "…");
    char *campaign = xformat("%s (%s, SHA-256 %.16s)", r->campaign, r->path, r->digest);
    const char *const rows[][2] = {
        {say(p, W_CAMPAIGN), campaign},
        {say(p, W_RUN_AT), when},
        {say(p, W_OS), text_of(r->host, "os")},
        {say(p, W_MACHINE), text_of(r->host, "machine")},
        {say(p, W_KERNEL), text_of(r->host, "kernel")},
    };
    head(p, (const enum word[]){W_ITEM, W_VALUE}, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) row(p, rows[i], 2);
    free(when);
    free(campaign);
}

static void put_release_row(const struct page *p, const struct release_record *rel)
{
    char digest[65] = "";
    if (*rel->lock) sha256_hex(rel->lock, strlen(rel->lock), digest);
    const char *softnpu = text_of(rel->hello, "softnpu"),
               *library = *softnpu ? softnpu : text_of(rel->hello, "ascendcl");
    const char *const cells[] = {rel->name,
                                 rel->branch,
                                 text_of(rel->hello, "torch"),
                                 text_of(rel->hello, "plugin_version"),
                                 text_of(rel->hello, "python"),
                                 rel->device,
                                 kind_word(p, rel->kind),
                                 library,
                                 digest};
    row(p, cells, sizeof cells / sizeof *cells);
}

static void put_environment(const struct page *p)
{
    heading(p, W_ENVIRONMENT);
    put_host(p);
    buf_addf(p->out, "\n| %s | %s | torch | torch\\_npu | Python | %s | %s | %s | %s |\n", say(p, W_RELEASE),
             say(p, W_BRANCH), say(p, W_DEVICE), say(p, W_KIND), say(p, W_LIBRARY), say(p, W_LOCK));
    for (int i = 0; i < 9; i++) buf_adds(p->out, "| --- ");
    buf_adds(p->out, "|\n");
    for (size_t i = 0; i < p->r->record->releases.len; i++)
        put_release_row(p, &p->r->record->releases.ptr[i]);
}

static void put_cell(const struct page *p, const struct cell *c)
{
    char *cases = xformat("%d/%d", c->counts[VERDICT_PASSED], c->total);
    char *launches = xformat("%lld", (long long)c->launches);
    row(p, (const char *const[]){c->api, verdict_name(c->verdict), cases, launches, kind_word(p, c->kind)},
        5);
    free(cases);
    free(launches);
}

static void put_results(const struct page *p)
{
    const struct run_record *r = p->r->record;
    static const enum word columns[] = {W_VERDICT, W_CASES, W_LAUNCHES, W_KIND};
    heading(p, W_RESULTS);
    for (size_t i = 0; i < r->releases.len; i++) {
        const struct release_record *rel = &r->releases.ptr[i];
        buf_addf(p->out, "%s### torch\\_npu %s (torch %s, %s)\n\n", i ? "\n" : "", rel->name, rel->torch,
                 rel->branch);
        if (*rel->error) {
            put(p, rel->error);
            buf_adds(p->out, "\n\n");
        }
        buf_adds(p->out, "| API ");
        for (int k = 0; k < 4; k++) buf_addf(p->out, "| %s ", say(p, columns[k]));
        buf_adds(p->out, "|\n| --- | --- | --- | --- | --- |\n");
        for (size_t a = 0; a < r->apis.len; a++) {
            struct cell c = record_cell(r, rel->name, r->apis.ptr[a]);
            put_cell(p, &c);
        }
    }
}

static const struct case_record *find_case(const struct run_record *r, const char *release,
                                           const struct case_record *like)
{
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (!strcmp(c->release, release) && !strcmp(c->api, like->api) && !strcmp(c->name, like->name))
            return c;
    }
    return NULL;
}

static void put_case_row(const struct page *p, const struct case_record *c)
{
    const struct run_record *r = p->r->record;
    const char *passes = say(p, strcmp(c->passes, "backward") ? W_FORWARD : W_BACKWARD);
    VEC(const char *) cells = {0};
    *vec_push(&cells) = c->name;
    *vec_push(&cells) = report_title(p->r, c, p->lang);
    *vec_push(&cells) = passes;
    for (size_t i = 0; i < r->releases.len; i++) {
        const struct case_record *there = find_case(r, r->releases.ptr[i].name, c);
        *vec_push(&cells) = there ? verdict_name(there->verdict) : verdict_name(VERDICT_NOT_RUN);
    }
    row(p, cells.ptr, (int)cells.len);
    vec_free(&cells);
}

static void put_api(const struct page *p, const char *api)
{
    const struct run_record *r = p->r->record;
    buf_addf(p->out, "### `%s`\n\n| %s | %s | %s ", api, say(p, W_CASE), say(p, W_COVERS), say(p, W_PASSES));
    for (size_t i = 0; i < r->releases.len; i++) buf_addf(p->out, "| %s ", r->releases.ptr[i].name);
    buf_adds(p->out, "|\n| --- | --- | --- ");
    for (size_t i = 0; i < r->releases.len; i++) buf_adds(p->out, "| --- ");
    buf_adds(p->out, "|\n");
    for (size_t i = 0; r->releases.len && i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (!strcmp(c->api, api) && !strcmp(c->release, r->releases.ptr[0].name)) put_case_row(p, c);
    }
    buf_addc(p->out, '\n');
}

static void put_per_api(const struct page *p)
{
    heading(p, W_PER_API);
    for (size_t a = 0; a < p->r->record->apis.len; a++) put_api(p, p->r->record->apis.ptr[a]);
}

static void put_details(const struct page *p)
{
    const struct run_record *r = p->r->record;
    int n = 0;
    heading(p, W_DETAILS);
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (c->verdict == VERDICT_PASSED) continue;
        n++;
        buf_addf(p->out, "- **%s** %s `%s::%s`: ", verdict_name(c->verdict), c->release, c->api, c->name);
        put(p, *c->reason ? c->reason : verdict_meaning(c->verdict));
        buf_addc(p->out, '\n');
    }
    if (!n) buf_addf(p->out, "%s\n", say(p, W_NOTHING_FAILED));
}

static void put_repeat(const struct page *p)
{
    heading(p, W_REPEAT);
    buf_addf(p->out, "```sh\n%s\n```\n", p->r->record->command);
}

static void put_conclusion(const struct page *p)
{
    int total, passed = record_passed(p->r->record, &total);
    heading(p, W_CONCLUSION);
    if (!record_complete(p->r->record)) buf_addf(p->out, "%s\n\n", say(p, W_INCOMPLETE));
    if (p->lang == LANG_ZH)
        buf_addf(p->out, "共 %d 项（API × 版本），通过 %d 项。", total, passed);
    else
        buf_addf(p->out, "%d of %d cells (API and release) PASSED. ", passed, total);
    buf_addf(p->out, "%s\n", report_device_sentence(p->r, p->lang));
}

static void put_checklist(const struct page *p)
{
    heading(p, W_CHECKLIST);
    for (size_t i = 0; i < p->r->checks.len; i++) {
        const struct check *c = &p->r->checks.ptr[i];
        buf_addf(p->out, "- [%c] %s (%s: %s)\n", c->ticked ? 'x' : ' ', p->lang == LANG_ZH ? c->zh : c->en,
                 say(p, W_FACT), c->fact);
    }
}

static void (*const sections[])(const struct page *) = {put_scope,      put_environment, put_results,
                                                        put_per_api,    put_details,     put_repeat,
                                                        put_conclusion, put_checklist};

static void render(const struct report *r, enum language lang, struct buf *out)
{
    struct page p = {r, lang, out};
    buf_addf(out, "# %s: %s\n\n> %s\n", say(&p, W_TITLE), r->record->campaign,
             report_device_sentence(r, lang));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) sections[i](&p);
}

void report_markdown_zh(const struct report *r, struct buf *out)
{
    render(r, LANG_ZH, out);
}

void report_markdown_en(const struct report *r, struct buf *out)
{
    render(r, LANG_EN, out);
}
