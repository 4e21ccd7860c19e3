/* report.h - what people and programs read of a run: one model, several renderings. */
#ifndef CONCORD_REPORT_H
#define CONCORD_REPORT_H

#include "concord/dossier/dossier.h"
#include "concord/run/plan.h"
#include "concord/run/record.h"

enum language { LANG_EN, LANG_ZH, LANG_COUNT };

/* Where a rendering shows the facts behind a box: an anchor in the task text, a tab of the page. */
#define REPORT_PLACES(X) X(environment) X(results) X(cases) X(scope) X(plan) X(docs) X(audit) X(branches)
enum report_place {
#define X(id) PLACE_##id,
    REPORT_PLACES(X)
#undef X
        PLACE_COUNT
};
extern const char *const report_place_names[PLACE_COUNT];

/* A box that only a recorded fact can tick. */
struct check {
    const char *id, *en, *zh; /* the claim */
    enum report_place place;
    bool ticked;
    char *fact; /* what the journal or the dossier says, in numbers */
};

/* What the boxes need of a case's facts, read once. */
struct case_marks {
    bool facts; /* there are some, and they are JSON */
    bool compared, memory, no_fallback, own;
    double cpu_ms, device_ms; /* -1 when not measured */
};

/* The model: the run as the journal has it, the steps' facts, the catalogue for what each case covers, and
 * what follows from them. */
struct report {
    const struct run_record *record;
    const struct dossier *dossier; /* NULL: only the journal */
    struct plan_catalogue catalogue;
    VEC(struct cell) cells;       /* of releases times APIs, in the record's order */
    VEC(struct case_marks) marks; /* as record->cases */
    VEC(struct check) checks;
};

/* X(name, file, language, function): one row a rendering. --lang chooses by language; "" is for programs and
 * for the page, which has both. */
#define REPORT_FORMATS(X)                                                                                    \
    X(task_zh, "report.zh.md", "zh", report_task_zh)                                                         \
    X(task_en, "report.en.md", "en", report_task_en)                                                         \
    X(page, "report.html", "", report_page)                                                                  \
    X(json, "report.json", "", report_json)                                                                  \
    X(junit, "junit.xml", "", report_junit)                                                                  \
    X(sarif, "report.sarif", "", report_sarif)

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

/* dossier may be NULL; record and dossier must outlive the model. */
int report_make(const struct run_record *record, const struct dossier *dossier, struct report *out,
                struct err *e);
void report_free(struct report *r);
/* Ticks what the record proves. */
void report_check(struct report *r);
const struct check *report_find_check(const struct report *r, const char *id); /* NULL: no such box */
const struct cell *report_cell(const struct report *r, size_t release, size_t api);
/* Cells whose verdict is PASSED. */
int report_passed(const struct report *r);
/* What the case covers, in the language; its name when the catalogue does not have it. */
const char *report_title(const struct report *r, const struct case_record *c, enum language lang);
/* The plain sentence about the device that every rendering carries. */
const char *report_device_sentence(const struct report *r, enum language lang);
/* One digest over everything the run's rows say: a removed or edited row changes it. */
void report_run_digest(const struct run_record *record, char out[65]);

/* The JSON rendering (docs/report-schema.md) to a file, or standard output for "-". */
int report_write_json(const struct run_record *record, const char *path, struct err *e);
/* Every rendering of the languages (all when empty) and those for programs into the folder; without a folder
 * only the languages' ones, to standard output. */
int report_write(const struct run_record *record, const struct dossier *dossier, const strings *languages,
                 const char *dir, struct err *e);
/* One format by its name ("page") to a file, or standard output for "-". */
int report_write_one(const struct run_record *record, const struct dossier *dossier, const char *format,
                     const char *path, struct err *e);

#endif
