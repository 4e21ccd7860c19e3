/* rules.c - the table of rules. */
#include "concord/audit/audit.h"

#include <assert.h>
#include <string.h>

const char *const rule_class_names[RULE_CLASSES] = {"format", "upstream", "scope", "meaning"};
const char *const severity_names[SEVERITIES] = {"note", "warning", "error"};

const struct rule rules[] = {
#define FAULT(id, name, severity, en, mend, zh, mend_zh)                                                     \
    {name, CLASS_FORMAT, SEVERITY_##severity, rule_fault, FAULT_##id, en, mend, zh, mend_zh},
#define RULE(id, name, class, severity, fn, en, mend, zh, mend_zh)                                           \
    {name, CLASS_##class, SEVERITY_##severity, fn, -1, en, mend, zh, mend_zh},
#include "concord/audit/rules.inc"
#undef FAULT
#undef RULE
};
static_assert(sizeof rules / sizeof *rules == RULE_COUNT, "one row a rule");
/* Every fault of the parser has its rule. */
#define X(id, name, blocks) static_assert((int)RULE_##id >= 0, #id);
PATCH_FAULTS(X)
#undef X

const struct rule *rule_named(const char *name)
{
    for (int i = 0; i < RULE_COUNT; i++)
        if (!strcmp(rules[i].name, name)) return &rules[i];
    return NULL;
}

const char *rule_nearest(const char *name)
{
    const char *names[RULE_COUNT];
    for (int i = 0; i < RULE_COUNT; i++) names[i] = rules[i].name;
    return str_nearest(name, names, RULE_COUNT);
}

/* Rules that need more than one section are checked where that is known (audit.c, branch.c). */
void rule_none(const struct rule *rule, const struct view *v, struct findings *out)
{
    (void)rule, (void)v, (void)out;
}

void rule_fault(const struct rule *rule, const struct view *v, struct findings *out)
{
    for (size_t i = 0; i < v->p->faults.len && !v->f; i++) {
        const struct patch_fault *f = &v->p->faults.ptr[i];
        if ((int)f->kind != rule->fault) continue;
        bool in = f->line < v->p->lines.len;
        struct slice text = in ? patch_line_text(v->p, f->line) : (struct slice){"", 0};
        if (f->count > 1)
            audit_finding_add(out, rule, v->file, f->line + 1, text, "%s (%u lines)", f->text, f->count);
        else
            audit_finding_add(out, rule, v->file, f->line + 1, text, "%s", f->text);
    }
}
