/* audit.h - named rules over patches: one row a rule, one function a row.
 *
 * A rule sees one file section of one patch through a view: the hunks' lines with their Python tokens told
 * apart from strings and comments and, when an upstream source is at hand, both whole files.
 */
#ifndef CONCORD_AUDIT_AUDIT_H
#define CONCORD_AUDIT_AUDIT_H

#include "concord/patch/load.h"
#include "concord/patch/patch.h"
#include "concord/patch/source.h"
#include "concord/pysrc/pysrc.h"

enum rule_class { CLASS_FORMAT, CLASS_UPSTREAM, CLASS_SCOPE, CLASS_MEANING, RULE_CLASSES };
enum severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR, SEVERITIES };
extern const char *const rule_class_names[RULE_CLASSES];
extern const char *const severity_names[SEVERITIES];

struct view;
struct side;
struct findings;
struct rule;
typedef void rule_fn(const struct rule *rule, const struct view *v, struct findings *out);

enum rule_id {
#define FAULT(id, name, severity, en, mend, zh, mend_zh) RULE_##id,
#define RULE(id, name, class, severity, fn, en, mend, zh, mend_zh) RULE_##id,
#include "concord/audit/rules.inc"
#undef FAULT
#undef RULE
    RULE_COUNT
};

struct rule {
    const char *name;
    enum rule_class class;
    enum severity severity;
    rule_fn *check;
    int fault; /* the parser's fault that the rule reports, or -1 */
    const char *en, *mend_en, *zh, *mend_zh;
};
extern const struct rule rules[RULE_COUNT];
const struct rule *rule_named(const char *name); /* NULL when unknown */
const char *rule_nearest(const char *name);      /* or NULL */

struct finding {
    const struct rule *rule;
    char *file;    /* the patch */
    uint32_t line; /* from 1; 0: the file as a whole */
    char *message;
    char print[17];       /* fingerprint: rule, target and text, but no line number */
    const char *accepted; /* the baseline's reason, NULL when not accepted */
};
struct findings {
    VEC(struct finding) list;
};
/* text: what the fingerprint stands on, besides rule and file. */
void audit_finding_add(struct findings *out, const struct rule *rule, const char *file, uint32_t line,
                       struct slice text, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void audit_findings_free(struct findings *f);
/* By file, line, rule. */
void audit_findings_sort(struct findings *f);

/* ---- what rules see
 * ------------------------------------------------------------------------------------------ */

struct vline {
    uint32_t line; /* patch line, from 0 */
    uint32_t hunk;
    uint8_t kind; /* LINE_CONTEXT, LINE_ADD, LINE_DEL (bare context is context) */
    bool comment; /* nothing but a comment */
    bool blank;
    bool in_string; /* starts inside a triple-quoted string */
    uint32_t indent;
    struct slice text; /* without sign */
    struct slice code; /* as long as text: string contents are 's', comments blanks, the quotes stay */
};
/* A maximal run of removed and added lines. */
struct block {
    uint32_t first, end; /* indices into view.lines */
    uint32_t dels, adds;
    bool adds_device; /* an added line speaks of a device */
};
struct view {
    const char *file; /* the patch's path as reported */
    const struct patch *p;
    const struct patch_file *f; /* NULL for the patch as a whole */
    bool python;
    VEC(struct vline) lines;
    VEC(struct block) blocks;
    struct map removed; /* trimmed text of every removed line of code, to its vline */
    char *arena;
    struct source *source;              /* NULL: no upstream */
    const struct apply_result *applied; /* with a source */
    struct py_file *pre, *post;         /* with a source, Python, and when it applies */
    uint32_t *partner;  /* by line: of a removed line the added one that replaces it, or UINT32_MAX */
    struct side *after; /* the patched side as a source model, made when first asked for */
};
void view_make(struct view *v, const char *file, const struct patch *p, const struct patch_file *f);
void view_free(struct view *v);
bool vline_added(const struct vline *l);
bool vline_removed(const struct vline *l);
/* Neither blank nor a comment nor inside a string. */
bool vline_code(const struct vline *l);
/* Calls fn for each removed line of code and the added line that replaces it: the one most like it in its
 * block. */
typedef void pair_fn(const struct rule *rule, const struct view *v, const struct vline *old,
                     const struct vline *new, struct findings *out);
void each_pair(const struct rule *rule, const struct view *v, struct findings *out, pair_fn *fn);
/* The patched side; belongs to the view. */
const struct side *view_after(const struct view *v);
/* Position of word (with no name character around it) in code at or after from; SIZE_MAX when absent. */
size_t find_word(struct slice code, const char *word, size_t from);
bool has_word(struct slice code, const char *word);
/* The text of the string literal whose quote is at position at of the line; empty when there is none. */
struct slice literal_at(const struct vline *l, size_t at);
/* True when the line holds a string literal that is exactly word, or word:N when index is allowed. */
bool has_literal(const struct vline *l, const char *word, bool index);
void rule_report(const struct rule *rule, const struct view *v, struct findings *out, const struct vline *l,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define FAULT(id, name, severity, en, mend, zh, mend_zh)
#define RULE(id, name, class, severity, fn, en, mend, zh, mend_zh) rule_fn fn;
#include "concord/audit/rules.inc"
#undef FAULT
#undef RULE
rule_fn rule_fault;

/* ---- runs
 * ------------------------------------------------------------------------------------------------------ */

struct audit_options {
    struct source *upstream; /* or NULL */
    enum severity least;
    const bool *only; /* RULE_COUNT entries, or NULL for all */
};
/* Audits patch files; findings come sorted. */
int audit_patches(const strings *paths, const struct audit_options *o, struct findings *out, struct err *e);
/* Audits what branch changes against base in the repository: scope, and every patch it adds or edits. */
int audit_branch(const char *repo, const char *branch, const char *base, const struct audit_options *o,
                 struct findings *out, size_t *patches, struct err *e);

/* ---- baseline
 * --------------------------------------------------------------------------------------------------- */

/* Lines of five tab-separated fields: rule, file, fingerprint (or *), expiry (YYYY-MM-DD), reason. # starts a
 * comment. */
struct baseline;
struct baseline *baseline_read(const char *path, struct err *e);
/* Marks accepted findings; today is YYYY-MM-DD. Entries past their expiry accept nothing and are named on
 * *notes, as are entries that match nothing. */
void baseline_apply(struct baseline *b, struct findings *f, const char *today, strings *notes);
void baseline_free(struct baseline *b);
int baseline_write(const char *path, const struct findings *f, const char *reason, const char *expires,
                   struct err *e);
bool date_valid(const char *text);

/* ---- report
 * ------------------------------------------------------------------------------------------------------ */

void audit_report_text(const struct findings *f, FILE *to);
char *audit_report_json(const struct findings *f);  /* owned */
char *audit_report_sarif(const struct findings *f); /* owned */
void audit_report_rule(const struct rule *r, FILE *to);
void audit_report_rules_markdown(struct buf *out); /* docs/audit.md */

#endif
