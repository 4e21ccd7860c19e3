/* audited.c - the audit over patches that adapt wrote. */
#include "concord/adapt/audited.h"
#include "concord/audit/audit.h"

int adapt_audit(const strings *paths, const char *upstream, FILE *to, size_t *errors, struct err *e)
{
    struct findings f = {0};
    struct source *source = source_open(upstream, e);
    if (!source) return -1;
    const struct audit_options o = {.upstream = source, .least = SEVERITY_WARNING};
    int rc = audit_patches(paths, &o, &f, e);
    *errors = 0;
    for (size_t i = 0; !rc && i < f.list.len; i++) *errors += f.list.ptr[i].rule->severity == SEVERITY_ERROR;
    if (!rc && f.list.len) audit_report_text(&f, to);
    audit_findings_free(&f);
    source_close(source);
    return rc;
}
