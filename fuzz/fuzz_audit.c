/* fuzz_audit.c - every rule over any patch, and the three renderings of what they find. */
#include "concord/audit/private.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct patch p;
    struct findings f = {0};
    struct err e;
    struct audit_options o = {.least = SEVERITY_NOTE};
    MUST(!patch_parse(&p, (struct slice){(const char *)data, size}, NULL));
    MUST(!audit_one("test/x.py.patch", &p, &o, &f, &e));
    struct together t = {0};
    together_add(&t, "test/x.py.patch", &p);
    together_add(&t, "test/y.py.patch", &p);
    MUST(!together_check(&t, &o, &f, &e));
    together_free(&t);
    audit_findings_sort(&f);
    free(audit_report_json(&f));
    free(audit_report_sarif(&f));
    audit_findings_free(&f);
    patch_free(&p);
    return 0;
}
