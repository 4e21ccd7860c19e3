/* render.c - the table of a run, and the formats that programs read. */
#include "concord/suite/render.h"
#include "concord/suite/monitor.h"
#include "concord/suite/twin.h"

#include <stdlib.h>
#include <string.h>

/* ---- table ----------------------------------------------------------------------------------------------
 */

static void counts_line(const struct suite_counts *n, struct buf *out)
{
    bool any = false;
    for (int v = 0; v < VERDICT_COUNT; v++) {
        if (!n->by[v]) continue;
        buf_addf(out, "%s%d %s", any ? ", " : "", n->by[v], verdict_name((enum verdict)v));
        any = true;
    }
    if (!any) buf_adds(out, "nothing");
}

static void unit_lines(const struct suite_run *r, struct buf *out)
{
    bool twins = r->hello[SIDE_CPU] != NULL;
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        if (u->side != SIDE_DEVICE) continue;
        struct suite_counts n;
        suite_count(r, u, u->side, &n);
        buf_addf(out, "%s: ", u->name);
        counts_line(&n, out);
        buf_addf(out, " (%d tests, %lld launches, %.1f s)\n", n.all, (long long)n.launches, n.ms / 1000);
        if (u->patch) buf_addf(out, "    patch: %s\n", json_string_value(json_object_get(u->patch, "state")));
        if (*u->error) buf_addf(out, "    %s\n", u->error);
        if (twins) twin_lines(r, u, out);
    }
}

/* Why tests were skipped, and how many tests each reason hides. */
static void skip_lines(const struct suite_run *r, struct buf *out)
{
    enum { SHOWN = 12 };
    struct map reasons = {0};
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; u->side == SIDE_DEVICE && k < u->cases.len; k++) {
            if (u->cases.ptr[k]->verdict != VERDICT_SKIPPED) continue;
            void **slot = map_put(&reasons, u->cases.ptr[k]->reason);
            *slot = (char *)*slot + 1;
        }
    }
    if (reasons.entries.len) buf_adds(out, "skipped because:\n");
    for (int shown = 0; shown < SHOWN; shown++) {
        struct map_entry *best = NULL;
        for (size_t i = 0; i < reasons.entries.len; i++) {
            struct map_entry *m = &reasons.entries.ptr[i];
            if (m->value && (!best || (char *)m->value > (char *)best->value)) best = m;
        }
        if (!best) break;
        buf_addf(out, "%6zu  %s\n", (size_t)(uintptr_t)best->value, best->key);
        best->value = NULL;
    }
    map_free(&reasons, NULL);
}

static void bad_lines(const struct suite_run *r, struct buf *out)
{
    enum { SHOWN = 60 };
    int shown = 0, more = 0;
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; u->side == SIDE_DEVICE && k < u->cases.len; k++) {
            const struct suite_case *c = u->cases.ptr[k];
            if (!verdict_is_bad(c->verdict) || c->state != TEST_DONE) continue;
            if (shown++ >= SHOWN) {
                more++;
                continue;
            }
            char *name = suite_case_name(c);
            buf_addf(out, "%-8s %s: %s\n", verdict_name(c->verdict), name, c->reason);
            free(name);
        }
    }
    if (more) buf_addf(out, "and %d more: concord show\n", more);
}

void render_table(const struct suite_run *r, struct buf *out)
{
    struct suite_counts n;
    suite_count(r, NULL, SIDE_DEVICE, &n);
    bad_lines(r, out);
    skip_lines(r, out);
    unit_lines(r, out);
    counts_line(&n, out);
    buf_addf(out, " of %d tests; %d executed", n.all, n.executed);
    if (r->kind != KIND_NONE)
        buf_addf(out, " on the %s device%s", device_kind_name(r->kind),
                 r->kind == KIND_SOFTWARE ? ", which is not hardware" : "");
    buf_addf(out, "%s%s%s\n", *r->release ? ", torch_npu " : "", r->release,
             *r->finished ? "" : "; not finished");
    if (!n.executed) buf_adds(out, "nothing was executed: this is no success\n");
}

/* ---- JSON -----------------------------------------------------------------------------------------------
 */

static json_t *unit_json(const struct suite_run *r, const struct suite_unit *u)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "file", u->name, "side", side_name(u->side),
                          "suite", u->suite, "digest", u->digest, "error", u->error, "forkable", u->forkable);
    if (u->patch) json_object_set(o, "patch", u->patch);
    struct suite_counts n;
    suite_count(r, u, u->side, &n);
    json_object_set_new(o, "tests", json_integer(n.all));
    json_object_set_new(o, "executed", json_integer(n.executed));
    return o;
}

json_t *render_json(const struct suite_run *r)
{
    json_t *units = json_array(), *cases = json_array(), *counts = json_object();
    struct suite_counts n;
    suite_count(r, NULL, SIDE_DEVICE, &n);
    for (int v = 0; v < VERDICT_COUNT; v++)
        if (n.by[v]) json_object_set_new(counts, verdict_name((enum verdict)v), json_integer(n.by[v]));
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        json_array_append_new(units, unit_json(r, u));
        for (size_t k = 0; k < u->cases.len; k++) json_array_append_new(cases, monitor_json(u->cases.ptr[k]));
    }
    json_t *o = json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:o}", "name",
                          r->name, "run", (json_int_t)r->id, "command", r->command, "started", r->started,
                          "finished", r->finished, "release", r->release, "device", device_kind_name(r->kind),
                          "shard", r->shard, "tests", n.all, "executed", n.executed, "status",
                          suite_status(r), "counts", counts, "files", units, "cases", cases);
    for (int s = 0; s < SIDES; s++)
        if (r->hello[s])
            json_object_set(o, s == SIDE_DEVICE ? "environment" : "cpu_environment", r->hello[s]);
    if (r->hello[SIDE_CPU]) json_object_set_new(o, "comparison", twin_json(r));
    json_object_set_new(o, "apis", twin_operators_json(r));
    return o;
}

/* ---- JUnit ----------------------------------------------------------------------------------------------
 */

static void xml(struct buf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        static const struct {
            char c;
            const char *as;
        } names[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
        size_t i = 0;
        while (i < 4 && names[i].c != (char)*p) i++;
        if (i < 4)
            buf_adds(out, names[i].as);
        else if (*p >= 32 || *p == '\n' || *p == '\t')
            buf_addc(out, *p);
        else
            buf_addc(out, '?');
    }
}

static const char *junit_element(enum verdict v)
{
    if (v == VERDICT_SKIPPED || v == VERDICT_XFAIL || v == VERDICT_NOT_RUN) return "skipped";
    return v == VERDICT_FAILED || v == VERDICT_XPASS || v == VERDICT_FLAKY || v == VERDICT_NO_PROOF
               ? "failure"
               : "error";
}

static void junit_case(const struct suite_case *c, struct buf *out)
{
    buf_adds(out, "    <testcase classname=\"");
    xml(out, c->unit->name);
    buf_adds(out, "\" name=\"");
    xml(out, c->node);
    buf_addf(out, "\" time=\"%.3f\"", c->ms / 1000);
    if (c->verdict == VERDICT_PASSED) {
        buf_adds(out, "/>\n");
        return;
    }
    buf_addf(out, ">\n      <%s message=\"%s: ", junit_element(c->verdict), verdict_name(c->verdict));
    xml(out, c->reason);
    buf_adds(out, "\"/>\n    </testcase>\n");
}

static void junit_unit(const struct suite_unit *u, struct buf *out)
{
    int failures = 0, errors = 0, skipped = 0;
    double ms = 0;
    for (size_t i = 0; i < u->cases.len; i++) {
        const struct suite_case *c = u->cases.ptr[i];
        const char *element = c->verdict == VERDICT_PASSED ? "" : junit_element(c->verdict);
        failures += !strcmp(element, "failure");
        errors += !strcmp(element, "error");
        skipped += !strcmp(element, "skipped");
        ms += c->ms;
    }
    buf_adds(out, "  <testsuite name=\"");
    xml(out, u->name);
    buf_addf(out,
             "\" hostname=\"%s\" tests=\"%zu\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%.3f\">\n",
             side_name(u->side), u->cases.len, failures, errors, skipped, ms / 1000);
    for (size_t i = 0; i < u->cases.len; i++) junit_case(u->cases.ptr[i], out);
    buf_adds(out, "  </testsuite>\n");
}

void render_junit(const struct suite_run *r, struct buf *out)
{
    buf_adds(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"");
    xml(out, r->name);
    buf_adds(out, "\">\n");
    for (size_t i = 0; i < r->units.len; i++) junit_unit(r->units.ptr[i], out);
    buf_adds(out, "</testsuites>\n");
}

/* ---- annotations ----------------------------------------------------------------------------------------
 */

/* Workflow commands escape % and line ends, and in properties : and , too. */
static void command_text(struct buf *out, const char *text, bool property)
{
    for (; *text; text++) {
        if (*text == '%' || *text == '\r' || *text == '\n' || (property && strchr(":,", *text)))
            buf_addf(out, "%%%02X", (unsigned char)*text);
        else
            buf_addc(out, *text);
    }
}

void render_annotations(const struct suite_run *r, struct buf *out)
{
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; u->side == SIDE_DEVICE && k < u->cases.len; k++) {
            const struct suite_case *c = u->cases.ptr[k];
            if (!verdict_is_bad(c->verdict)) continue;
            buf_addf(out, "::%s file=",
                     c->verdict == VERDICT_NO_PROOF || c->verdict == VERDICT_XPASS ? "warning" : "error");
            command_text(out, u->name, true);
            buf_addf(out, ",title=%s ", verdict_name(c->verdict));
            command_text(out, c->node, true);
            buf_adds(out, "::");
            command_text(out, c->reason, false);
            buf_addc(out, '\n');
        }
    }
}

int render_all(const struct suite_run *r, const struct render_request *q, struct err *e)
{
    struct buf text = BUF_INIT;
    bool json_out = q->json && !strcmp(q->json, "-");
    int status = 0;
    render_table(r, &text);
    fwrite(buf_str(&text), 1, text.len, json_out ? stderr : stdout);
    if (q->json) {
        json_t *o = render_json(r);
        char *json = json_dumps(o, JSON_INDENT(1));
        if (json_out)
            puts(json);
        else
            status = file_write(q->json, json, strlen(json), 0, e);
        free(json);
        json_decref(o);
    }
    if (!status && q->junit) {
        buf_clear(&text);
        render_junit(r, &text);
        status = file_write(q->junit, buf_str(&text), text.len, 0, e);
    }
    if (!status && q->annotations) {
        buf_clear(&text);
        render_annotations(r, &text);
        fwrite(buf_str(&text), 1, text.len, stdout);
    }
    buf_free(&text);
    return status;
}
