/* report.c - makes the model and writes its renderings. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

const struct report_format report_formats[] = {
#define X(name, file, language, function) {#name, file, language, function},
    REPORT_FORMATS(X)
#undef X
};
const int report_format_count = sizeof report_formats / sizeof *report_formats;

int report_make(const struct run_record *record, struct report *out, struct err *e)
{
    *out = (struct report){.record = record};
    char *path = concord_share("harness/cases.tsv");
    int status = plan_catalogue_load(path, &out->catalogue, e);
    free(path);
    if (!status) report_check(out);
    return status;
}

void report_free(struct report *r)
{
    plan_catalogue_free(&r->catalogue);
    for (size_t i = 0; i < r->checks.len; i++) free(r->checks.ptr[i].fact);
    vec_free(&r->checks);
}

const char *report_title(const struct report *r, const struct case_record *c, enum language lang)
{
    const struct plan_case *row = plan_find(&r->catalogue, c->api, c->name);
    if (!row) return c->name;
    return lang == LANG_ZH ? row->zh : row->en;
}

const char *report_device_sentence(const struct report *r, enum language lang)
{
    static const char *const sentences[][LANG_COUNT] = {
        [KIND_NONE] = {"No device executed anything in this run.", "本次运行没有任何设备执行过算子。"},
        [KIND_SOFTWARE] =
            {"These results come from softnpu, an Ascend 910B4 in software. They are not results from "
             "hardware.",
             "以下结果来自软件实现的昇腾 910B4（softnpu），不是真实硬件上的结果。"},
        [KIND_HARDWARE] = {"These results come from hardware.", "以下结果来自真实硬件。"},
    };
    static const char *const mixed_sentence[LANG_COUNT] = {
        "This run mixes software and hardware: the device column says which result is which.",
        "本次运行混用了软件设备与真实硬件：以设备列为准。"};
    bool mixed;
    enum device_kind kind = record_kind(r->record, &mixed);
    return mixed ? mixed_sentence[lang] : sentences[kind][lang];
}

static int write_to(const char *path, const struct buf *text, struct err *e)
{
    if (strcmp(path, "-") != 0) return file_write(path, buf_str(text), text->len, 0, e);
    bool ok = fwrite(buf_str(text), 1, text->len, stdout) == text->len && !fflush(stdout);
    return ok ? 0 : err_set(e, "standard output cannot be written");
}

int report_write_json(const struct run_record *record, const char *path, struct err *e)
{
    struct report r;
    struct buf text = BUF_INIT;
    int status = report_make(record, &r, e);
    if (!status) {
        report_json(&r, &text);
        status = write_to(path, &text, e);
    }
    report_free(&r);
    buf_free(&text);
    return status;
}

static bool wanted(const struct report_format *f, const strings *languages, bool to_folder)
{
    if (!*f->language) return to_folder;
    for (size_t i = 0; i < languages->len; i++)
        if (!strcmp(languages->ptr[i], f->language)) return true;
    return languages->len == 0;
}

static int write_format(const struct report *r, const struct report_format *f, const char *dir, struct err *e)
{
    struct buf text = BUF_INIT;
    f->render(r, &text);
    char *path = dir ? path_join(dir, f->file) : xstrdup("-");
    int status = write_to(path, &text, e);
    if (dir && !status) printf("%s\n", path);
    free(path);
    buf_free(&text);
    return status;
}

int report_write(const struct run_record *record, const strings *languages, const char *dir, struct err *e)
{
    struct report r;
    int status = report_make(record, &r, e);
    if (!status && dir) status = dir_make(dir, e);
    for (int i = 0; !status && i < report_format_count; i++)
        if (wanted(&report_formats[i], languages, dir != NULL))
            status = write_format(&r, &report_formats[i], dir, e);
    report_free(&r);
    return status;
}
