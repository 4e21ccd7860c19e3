/* junit.c - the run as JUnit XML: one testsuite a release, as CI services read it. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

/* Characters that XML 1.0 allows; what it does not is shown as U+FFFD. */
static void put(struct buf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '<')
            buf_adds(out, "&lt;");
        else if (*p == '>')
            buf_adds(out, "&gt;");
        else if (*p == '&')
            buf_adds(out, "&amp;");
        else if (*p == '"')
            buf_adds(out, "&quot;");
        else if (*p < 0x20 && *p != '\n' && *p != '\t')
            buf_adds(out, "\xef\xbf\xbd");
        else
            buf_addc(out, *p);
    }
}

enum outcome { OUT_PASSED, OUT_FAILURE, OUT_ERROR, OUT_SKIPPED };

/* What the four words of JUnit can say of our verdicts. */
static enum outcome outcome_of(enum verdict v)
{
    static const enum outcome outcomes[VERDICT_COUNT] = {
        [VERDICT_PASSED] = OUT_PASSED,    [VERDICT_XFAIL] = OUT_SKIPPED,  [VERDICT_SKIPPED] = OUT_SKIPPED,
        [VERDICT_NOT_RUN] = OUT_SKIPPED,  [VERDICT_XPASS] = OUT_FAILURE,  [VERDICT_FLAKY] = OUT_FAILURE,
        [VERDICT_NO_PROOF] = OUT_FAILURE, [VERDICT_FAILED] = OUT_FAILURE, [VERDICT_ERROR] = OUT_ERROR,
        [VERDICT_TIMEOUT] = OUT_ERROR,    [VERDICT_CRASHED] = OUT_ERROR,
    };
    return outcomes[v];
}

static void put_outcome(struct buf *out, const struct case_record *c)
{
    static const char *const elements[] = {
        [OUT_FAILURE] = "failure", [OUT_ERROR] = "error", [OUT_SKIPPED] = "skipped"};
    enum outcome o = outcome_of(c->verdict);
    if (o == OUT_PASSED) return;
    buf_addf(out, "   <%s message=\"%s: ", elements[o], verdict_name(c->verdict));
    put(out, *c->reason ? c->reason : verdict_meaning(c->verdict));
    buf_adds(out, "\"");
    if (o != OUT_SKIPPED) buf_addf(out, " type=\"%s\"", verdict_name(c->verdict));
    buf_adds(out, ">");
    put(out, c->stack);
    buf_addf(out, "</%s>\n", elements[o]);
}

static void put_case(struct buf *out, const struct case_record *c)
{
    buf_adds(out, "  <testcase classname=\"");
    put(out, c->api);
    buf_adds(out, "\" name=\"");
    put(out, c->name);
    buf_addf(out, "\" time=\"%.4f\">\n", c->ms / 1000);
    put_outcome(out, c);
    if (*c->output) {
        buf_adds(out, "   <system-out>");
        put(out, c->output);
        buf_adds(out, "</system-out>\n");
    }
    buf_adds(out, "  </testcase>\n");
}

static void put_property(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, "   <property name=\"%s\" value=\"", name);
    put(out, value);
    buf_adds(out, "\"/>\n");
}

static void put_suite(const struct report *r, const struct release_record *rel, struct buf *out)
{
    size_t counts[4] = {0}, n = 0;
    double ms = 0;
    for (size_t i = 0; i < r->record->cases.len; i++) {
        const struct case_record *c = &r->record->cases.ptr[i];
        if (strcmp(c->release, rel->name) != 0) continue;
        counts[outcome_of(c->verdict)]++;
        n++;
        ms += c->ms;
    }
    buf_adds(out, " <testsuite name=\"torch_npu ");
    put(out, rel->name);
    buf_addf(
        out,
        "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\">\n  <properties>\n",
        n, counts[OUT_FAILURE], counts[OUT_ERROR], counts[OUT_SKIPPED], ms / 1000);
    put_property(out, "torch", rel->torch);
    put_property(out, "branch", rel->branch);
    put_property(out, "device", rel->device);
    put_property(out, "device_kind", device_kind_name(rel->kind));
    buf_adds(out, "  </properties>\n");
    for (size_t i = 0; i < r->record->cases.len; i++)
        if (!strcmp(r->record->cases.ptr[i].release, rel->name)) put_case(out, &r->record->cases.ptr[i]);
    buf_adds(out, " </testsuite>\n");
}

void report_junit(const struct report *r, struct buf *out)
{
    buf_adds(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"");
    put(out, r->record->campaign);
    buf_adds(out, "\">\n");
    for (size_t i = 0; i < r->record->releases.len; i++) put_suite(r, &r->record->releases.ptr[i], out);
    buf_adds(out, "</testsuites>\n");
}
