/* report.h - what people and programs read of a run: one model, several renderings. */
#ifndef CONCORD_REPORT_H
#define CONCORD_REPORT_H

#include "concord/run/plan.h"
#include "concord/run/record.h"

/* A box that only a recorded fact can tick. */
struct check {
    const char *id, *en, *zh; /* the claim */
    bool ticked;
    char *fact; /* what the journal says, in numbers */
};

/* The model: the run as the journal has it, the catalogue for what each case covers, and the checklist. */
struct report {
    const struct run_record *record;
    struct plan_catalogue catalogue;
    VEC(struct check) checks;
};

enum language { LANG_EN, LANG_ZH, LANG_COUNT };

/* X(name, file, language, function): one row a rendering. --lang chooses by language; "" is for programs. */
#define REPORT_FORMATS(X)                                                                                    \
    X(markdown_zh, "report.zh.md", "zh", report_markdown_zh)                                                 \
    X(markdown_en, "report.en.md", "en", report_markdown_en)                                                 \
    X(json, "report.json", "", report_json)

typedef void report_renderer(const struct report *r, struct buf *out);
struct report_format {
    const char *name, *file, *language;
    report_renderer *render;
};
extern const struct report_format report_formats[];
extern const int report_format_count;
#define X(name, file, language, function) report_renderer function;
REPORT_FORMATS(X)
#undef X

int report_make(const struct run_record *record, struct report *out, struct err *e);
void report_free(struct report *r);
/* Ticks what the record proves. */
void report_check(struct report *r);
/* What the case covers, in the language; its name when the catalogue does not have it. */
const char *report_title(const struct report *r, const struct case_record *c, enum language lang);
/* The plain sentence about the device that every rendering carries. */
const char *report_device_sentence(const struct report *r, enum language lang);

/* The JSON rendering (docs/report-schema.md) to a file, or standard output for "-". */
int report_write_json(const struct run_record *record, const char *path, struct err *e);
/* Every rendering of the languages (all when empty) and JSON into the folder; without a folder only the
 * languages' ones, to standard output. */
int report_write(const struct run_record *record, const strings *languages, const char *dir, struct err *e);

#endif
