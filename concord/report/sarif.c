/* sarif.c - findings as SARIF 2.1.0: cases that did not pass, and the audit's findings at their lines. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

static const char *level_of(enum verdict v)
{
    return v == VERDICT_XFAIL || v == VERDICT_SKIPPED || v == VERDICT_NOT_RUN ? "note"
           : v == VERDICT_XPASS || v == VERDICT_FLAKY                         ? "warning"
                                                                              : "error";
}

/* A verdict's rule id: "case/not-run". Owned. */
static char *verdict_rule(enum verdict v)
{
    char *id = xformat("case/%s", verdict_name(v));
    for (char *p = id + 5; *p; p++) *p = (char)(*p == ' ' ? '-' : *p | 0x20);
    return id;
}

static void add_rule(json_t *rules, struct map *seen, const char *id, const char *text)
{
    if (map_has(seen, id)) return;
    map_put(seen, id);
    json_array_append_new(rules, json_pack("{s:s, s:{s:s}}", "id", id, "shortDescription", "text", text));
}

static void add_case(json_t *results, json_t *rules, struct map *seen, const struct case_record *c)
{
    char *rule = verdict_rule(c->verdict);
    char *name = xformat("%s/%s::%s", c->release, c->api, c->name);
    char *text = xformat("%s: %s", name, *c->reason ? c->reason : verdict_meaning(c->verdict));
    add_rule(rules, seen, rule, verdict_meaning(c->verdict));
    json_array_append_new(results,
                          json_pack("{s:s, s:s, s:{s:s}, s:[{s:[{s:s, s:s}]}]}", "ruleId", rule, "level",
                                    level_of(c->verdict), "message", "text", text, "locations",
                                    "logicalLocations", "fullyQualifiedName", name, "kind", "function"));
    free(rule);
    free(name);
    free(text);
}

static json_t *place(const char *file, json_int_t line)
{
    json_t *physical = json_pack("{s:{s:s}}", "artifactLocation", "uri", file);
    if (line > 0) json_object_set_new(physical, "region", json_pack("{s:I}", "startLine", line));
    return json_pack("[{s:o}]", "physicalLocation", physical);
}

static void add_findings(json_t *results, json_t *rules, struct map *seen, const json_t *patch)
{
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(patch, "findings"), i, f)
    {
        add_rule(rules, seen, fact_text(f, "rule"), fact_text(json_object_get(f, "mend"), "en"));
        json_t *result =
            json_pack("{s:s, s:s, s:{s:s}, s:o}", "ruleId", fact_text(f, "rule"), "level",
                      fact_text(f, "severity"), "message", "text", fact_text(f, "message"), "locations",
                      place(fact_text(patch, "patch"), json_integer_value(json_object_get(f, "line"))));
        json_object_set_new(result, "baselineState",
                            json_string(json_is_true(json_object_get(f, "inherited")) ? "unchanged" : "new"));
        json_array_append_new(results, result);
    }
}

void report_sarif(const struct report *r, struct buf *out)
{
    json_t *results = json_array(), *rules = json_array(), *patch;
    struct map seen = {0};
    size_t k;
    for (size_t i = 0; i < r->record->cases.len; i++)
        if (r->record->cases.ptr[i].verdict != VERDICT_PASSED)
            add_case(results, rules, &seen, &r->record->cases.ptr[i]);
    for (size_t i = 0; i < r->record->releases.len; i++) {
        const json_t *audit = dossier_get(r->dossier, "audit", r->record->releases.ptr[i].name);
        json_array_foreach(json_object_get(audit, "patches"), k, patch)
            add_findings(results, rules, &seen, patch);
    }
    json_t *top = json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:s, s:o}}, s:o}]}", "$schema",
                            "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs",
                            "tool", "driver", "name", "concord", "version", r->record->version, "rules",
                            rules, "results", results);
    char *text = json_dumps(top, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    buf_adds(out, text ? text : "{}");
    buf_addc(out, '\n');
    free(text);
    json_decref(top);
    map_free(&seen, NULL);
}
