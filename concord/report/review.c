/* review.c - fills a branch's review template. */
#include "concord/report/review.h"
#include "concord/report/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* How much is told: the first that fits the forge's limit is taken. */
enum detail { DETAIL_FULL, DETAIL_LESS, DETAIL_SHORT, DETAIL_FEW, DETAIL_LEAST, DETAILS };
static const struct {
    size_t coverage, unpassed;
    bool adaption, docs;
} details[DETAILS] = {
    {40, 30, true, true}, {20, 20, true, true}, {10, 10, true, true},
    {6, 10, true, false}, {3, 5, false, false},
};

struct filling {
    const struct review_request *q;
    struct page page;
    const struct release_record *release;
    size_t position; /* of the release in the record */
    enum detail detail;
};

size_t review_length(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void line(const struct filling *f, const char *en, const char *zh)
{
    buf_addf(f->page.out, "%s\n", f->page.lang == LANG_ZH ? zh : en);
}

static void subheading(const struct filling *f, const char *en, const char *zh)
{
    buf_addc(f->page.out, '\n');
    buf_adds(f->page.out, "## ");
    line(f, en, zh);
    buf_addc(f->page.out, '\n');
}

static const struct check *box(const struct filling *f, const char *id)
{
    return report_find_check(f->page.r, id);
}

/* ---- sections ---------------------------------------------------------------------------------------- */

static void fill_source(const struct filling *f)
{
    if (f->q->issue)
        buf_addf(f->page.out, "%s%s\n", f->page.lang == LANG_ZH ? "关联 issue：" : "Issue: ", f->q->issue);
    else
        line(f, "No issue is named in the campaign (review.issue).",
             "任务文件未指定关联 issue（review.issue）。");
}

static void put_siblings(const struct filling *f)
{
    const struct run_record *r = f->page.r->record;
    for (size_t i = 0; i < r->releases.len; i++) {
        const json_t *review = dossier_get(f->page.r->dossier, "submit", r->releases.ptr[i].name);
        if (i != f->position && *fact_text(review, "url"))
            buf_addf(f->page.out, "- %s: %s\n", r->releases.ptr[i].branch, fact_text(review, "url"));
    }
}

static bool has_siblings(const struct filling *f)
{
    const struct run_record *r = f->page.r->record;
    for (size_t i = 0; i < r->releases.len; i++)
        if (i != f->position &&
            *fact_text(dossier_get(f->page.r->dossier, "submit", r->releases.ptr[i].name), "url"))
            return true;
    return false;
}

/* What an API does, in the first words of its own documentation string, where the scan found it. */
static void put_functions(const struct filling *f)
{
    const json_t *functions =
        json_object_get(dossier_get(f->page.r->dossier, "scan", f->release->name), "functions");
    for (size_t a = 0; a < f->page.r->record->apis.len; a++) {
        const char *api = f->page.r->record->apis.ptr[a], *text = fact_text(functions, api);
        buf_addf(f->page.out, "- `%s`%s", api, *text ? ": " : "");
        put_text(&f->page, text);
        buf_addc(f->page.out, '\n');
    }
    line(f, "\nThey are framework level and device neutral.", "\n以上均为框架层 API，与设备无关。");
}

static void fill_plan(const struct filling *f)
{
    subheading(f, "1. API function", "一、API 功能");
    put_functions(f);
    subheading(f, "2. Completeness of the tests", "二、测试用例完备性说明");
    put_coverage(&f->page, f->release->name, details[f->detail].coverage, true);
    subheading(f, "3. Adaption to the device", "三、NPU 适配");
    line(f, "3.1 APIs: no source change; only patch files to upstream tests change.",
         "3.1 API 适配：不涉及源码修改，仅修改上游测试的补丁文件。");
    line(f, "\n3.2 Tests:\n", "\n3.2 测试用例适配：\n");
    if (details[f->detail].adaption)
        put_adaption(&f->page, f->release->name);
    else
        line(f, "See the attached report.", "详见附件报告。");
    if (!has_siblings(f)) return;
    subheading(f, "4. Reviews of the other branches", "四、其他分支的评审");
    put_siblings(f);
}

static void fill_docs(const struct filling *f)
{
    line(f, "Not concerned: this change edits no documentation. What the release's documentation says:",
         "不涉及，本次修改不改动资料。该版本资料检查结果：");
    buf_addc(f->page.out, '\n');
    if (details[f->detail].docs)
        put_docs(&f->page, f->release->name);
    else
        buf_addf(f->page.out, "%s\n", box(f, "docs")->fact);
}

static void fill_interface(const struct filling *f)
{
    line(f, "Not concerned: only patch files to upstream tests change.",
         "不涉及，仅修改上游测试的补丁文件。");
}

static void fill_verification(const struct filling *f)
{
    buf_addf(f->page.out, "> %s\n", report_device_sentence(f->page.r, f->page.lang));
    subheading(f, "Environment", "环境信息");
    put_environment(&f->page, f->release);
    subheading(f, "Command", "执行命令");
    buf_addf(f->page.out, "```sh\n%s\n```\n", f->page.r->record->command);
    subheading(f, "Results: each case on the CPU and on the device, compared",
               "验证结果（逐用例对比 CPU 与设备）");
    put_cells(&f->page, f->position);
    buf_addc(f->page.out, '\n');
    put_unpassed(&f->page, f->release->name, details[f->detail].unpassed);
    subheading(f, "Adapted upstream tests: original on the CPU, adapted on the device",
               "适配后的上游测试：原测试（CPU）与适配后（设备）");
    put_suite(&f->page, f->release->name, details[f->detail].unpassed);
    subheading(f, "Static audit", "静态审计");
    put_audit(&f->page, f->release->name);
}

/* ---- boxes ------------------------------------------------------------------------------------------- */

static bool title_has_tag(const struct filling *f, struct buf *fact)
{
    static const char *const tags[] = {"feat", "fix", "refactor", "docs", "test"};
    const char *title = f->q->title ? f->q->title : "";
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        size_t n = strlen(tags[i]);
        if (strncmp(title, tags[i], n) != 0 || (title[n] != ':' && title[n] != '(')) continue;
        buf_adds(fact, tags[i]);
        return true;
    }
    return false;
}

static bool has_issue(const struct filling *f, struct buf *fact)
{
    (void)fact;
    return f->q->issue != NULL;
}

/* Comments, logs, return values: nothing of that is touched when only patch files change. */
static bool only_patches(const struct filling *f, struct buf *fact)
{
    const struct check *c = box(f, "branches");
    buf_addf(fact, "%s, %s",
             f->page.lang == LANG_ZH ? "不涉及，仅补丁文件" : "not concerned, patch files only", c->fact);
    return c->ticked;
}

/* A box is known by words that its line holds, in either language. The pipeline's is nobody's fact yet. */
static const struct {
    const char *words[3];
    bool (*holds)(const struct filling *f, struct buf *fact);
} boxes[] = {
    {{"issue/", "工单", "issue / "}, has_issue},
    {{"标签", "tag", "label"}, title_has_tag},
    {{"代码注释", "日志", "comment"}, only_patches},
    {{"返回值", "空指针", "return value"}, only_patches},
};

static bool tick(const struct filling *f, const char *text, size_t n, struct buf *fact)
{
    char *lineof = xstrndup(text, n);
    bool yes = false, known = false;
    for (size_t i = 0; !known && i < sizeof boxes / sizeof *boxes; i++)
        for (int w = 0; w < 3 && !known; w++)
            if (strstr(lineof, boxes[i].words[w])) {
                known = true;
                yes = boxes[i].holds(f, fact);
            }
    free(lineof);
    return yes;
}

/* The box's line with its mark set from a fact, and the fact behind it. False when the line has no box. */
static bool put_box(const struct filling *f, const char *text, size_t n)
{
    size_t i = 0;
    struct buf fact = BUF_INIT;
    while (i < n && (text[i] == ' ' || text[i] == '-' || text[i] == '*')) i++;
    if (!i || i + 3 > n || text[i] != '[' || text[i + 2] != ']') return false;
    bool yes = tick(f, text, n, &fact);
    buf_add(f->page.out, text, i);
    buf_addf(f->page.out, "[%c]", yes ? 'x' : ' ');
    buf_add(f->page.out, text + i + 3, n - i - 3);
    if (yes && fact.len) buf_addf(f->page.out, " (%s)", buf_str(&fact));
    buf_addc(f->page.out, '\n');
    buf_free(&fact);
    return true;
}

/* ---- the template ------------------------------------------------------------------------------------ */

static const struct {
    const char *words[3]; /* any of them in the heading */
    void (*fill)(const struct filling *f);
    const char *en, *zh; /* heading when the template has none */
} parts[] = {
    {{"合入来源", "Source", "关联"}, fill_source, "Source", "合入来源"},
    {{"修改方案", "Change plan", "Description"}, fill_plan, "Change plan", "修改方案"},
    {{"资料变更", "Documentation", "资料"}, fill_docs, "Documentation", "资料变更"},
    {{"接口变更", "Interface", "接口"}, fill_interface, "Interface change", "接口变更"},
    {{"功能验证", "Verification", "Test"}, fill_verification, "Verification", "功能验证"},
};
enum { NPARTS = sizeof parts / sizeof *parts };

static int part_of(const char *text, size_t n)
{
    char *heading = xstrndup(text, n);
    int found = -1;
    for (int i = 0; i < NPARTS && found < 0; i++)
        for (int w = 0; w < 3; w++)
            if (strstr(heading, parts[i].words[w])) found = i;
    free(heading);
    return found;
}

static void close_part(const struct filling *f, int *open, bool *done)
{
    if (*open >= 0 && !done[*open]) {
        buf_addc(f->page.out, '\n');
        parts[*open].fill(f);
        buf_addc(f->page.out, '\n');
        done[*open] = true;
    }
    *open = -1;
}

static void put_missing(const struct filling *f, const bool *done)
{
    for (int i = 0; i < NPARTS; i++) {
        if (done[i]) continue;
        buf_addf(f->page.out, "\n# %s\n\n", f->page.lang == LANG_ZH ? parts[i].zh : parts[i].en);
        parts[i].fill(f);
    }
}

static void fill(const struct filling *f)
{
    bool done[NPARTS] = {false};
    int open = -1;
    for (const char *p = f->q->template; *p;) {
        size_t n = strcspn(p, "\n"), bare = n && p[n - 1] == '\r' ? n - 1 : n;
        if (*p == '#') {
            close_part(f, &open, done);
            open = part_of(p, bare);
        }
        if (!put_box(f, p, bare)) {
            buf_add(f->page.out, p, bare);
            buf_addc(f->page.out, '\n');
        }
        p += n + (p[n] == '\n');
    }
    close_part(f, &open, done);
    put_missing(f, done);
}

static bool has_chinese(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0xe4 && (unsigned char)*text <= 0xe9) return true;
    return false;
}

/* Cuts at a line's end, and says so. */
static void cut(struct buf *out, size_t limit, enum language lang)
{
    const char *note = lang == LANG_ZH
                           ? "\n（超出平台长度限制，其余见附件报告。）\n"
                           : "\n(Over the forge's length limit: the rest is in the attached report.)\n";
    size_t room = limit > review_length(note) ? limit - review_length(note) : 0, n = 0, end = 0;
    for (size_t i = 0; i < out->len && n <= room; i++) {
        n += ((unsigned char)out->ptr[i] & 0xc0) != 0x80;
        if (out->ptr[i] == '\n') end = i + 1;
    }
    out->len = end;
    out->ptr[end] = '\0';
    buf_adds(out, note);
}

void review_text(const struct review_request *q, struct buf *out)
{
    const struct run_record *r = q->report->record;
    enum language lang = has_chinese(q->template) ? LANG_ZH : LANG_EN;
    struct filling f = {q, {q->report, lang, out}, record_release(r, q->release), 0, DETAIL_FULL};
    f.position = (size_t)(f.release - r->releases.ptr);
    for (f.detail = DETAIL_FULL; f.detail < DETAILS; f.detail++) {
        buf_clear(out);
        fill(&f);
        if (!q->limit || review_length(buf_str(out)) <= q->limit) return;
    }
    cut(out, q->limit, lang);
}
