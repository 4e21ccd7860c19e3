/* report.c - findings as text, JSON and SARIF 2.1.0; rules as text and Markdown. */
#include "concord/audit/audit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void audit_report_text(const struct findings *f, FILE *to)
{
    for (size_t i = 0; i < f->list.len; i++) {
        const struct finding *k = &f->list.ptr[i];
        if (k->accepted) continue;
        if (k->line)
            fprintf(to, "%s:%u: %s: %s [%s]\n", k->file, k->line, severity_names[k->rule->severity],
                    k->message, k->rule->name);
        else
            fprintf(to, "%s: %s: %s [%s]\n", k->file, severity_names[k->rule->severity], k->message,
                    k->rule->name);
    }
}

/* JSON is UTF-8; a patch need not be. Bytes that are not become U+FFFD. */
static json_t *text_json(const char *s)
{
    json_t *j = json_string(s);
    if (j) return j;
    struct buf out = BUF_INIT;
    for (; *s; s++) {
        if ((unsigned char)*s < 0x80)
            buf_addc(&out, *s);
        else
            buf_adds(&out, "\xef\xbf\xbd");
    }
    j = json_string(buf_str(&out));
    buf_free(&out);
    return j;
}

static char *dump(json_t *j)
{
    char *text = json_dumps(j, JSON_INDENT(1));
    json_decref(j);
    if (!text) die("out of memory while writing JSON");
    return text;
}

char *audit_report_json(const struct findings *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->list.len; i++) {
        const struct finding *k = &f->list.ptr[i];
        if (k->accepted) continue;
        json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:i,s:o,s:s}", "rule", k->rule->name, "severity",
                                              severity_names[k->rule->severity], "file", text_json(k->file),
                                              "line", (int)k->line, "message", text_json(k->message),
                                              "fingerprint", k->print));
    }
    return dump(list);
}

/* ---- SARIF ------------------------------------------------------------------------------------------- */

static json_t *sarif_rule(const struct rule *r)
{
    return json_pack("{s:s,s:{s:s},s:{s:s},s:{s:s},s:{s:s}}", "id", r->name, "shortDescription", "text",
                     r->en, "fullDescription", "text", r->zh, "help", "text", r->mend_en,
                     "defaultConfiguration", "level", severity_names[r->severity]);
}

static json_t *sarif_result(const struct finding *k)
{
    json_t *region = k->line ? json_pack("{s:i}", "startLine", (int)k->line) : NULL;
    json_t *physical = json_pack("{s:{s:o}}", "artifactLocation", "uri", text_json(k->file));
    if (region) json_object_set_new(physical, "region", region);
    json_t *j = json_pack("{s:s,s:i,s:s,s:{s:o},s:[{s:o}],s:{s:s}}", "ruleId", k->rule->name, "ruleIndex",
                          (int)(k->rule - rules), "level", severity_names[k->rule->severity], "message",
                          "text", text_json(k->message), "locations", "physicalLocation", physical,
                          "partialFingerprints", "concord/v1", k->print);
    if (k->accepted)
        json_object_set_new(
            j, "suppressions",
            json_pack("[{s:s,s:o}]", "kind", "external", "justification", text_json(k->accepted)));
    return j;
}

char *audit_report_sarif(const struct findings *f)
{
    json_t *table = json_array(), *results = json_array();
    for (int i = 0; i < RULE_COUNT; i++) json_array_append_new(table, sarif_rule(&rules[i]));
    for (size_t i = 0; i < f->list.len; i++) json_array_append_new(results, sarif_result(&f->list.ptr[i]));
    json_t *driver =
        json_pack("{s:s,s:s,s:o}", "name", "concord audit", "version", CONCORD_VERSION, "rules", table);
    return dump(json_pack("{s:s,s:s,s:[{s:{s:o},s:s,s:o}]}", "$schema",
                          "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs", "tool",
                          "driver", driver, "columnKind", "utf16CodeUnits", "results", results));
}

/* ---- rules ------------------------------------------------------------------------------------------- */

void audit_report_rule(const struct rule *r, FILE *to)
{
    fprintf(to, "%s (%s, %s)\n\n%s\nMend: %s\n\n%s\n处理：%s\n", r->name, severity_names[r->severity],
            rule_class_names[r->class], r->en, r->mend_en, r->zh, r->mend_zh);
}

void audit_report_rules_markdown(struct buf *out)
{
    buf_adds(out, "# Audit rules\n\nMade by `concord audit --rules`; a test keeps it equal to the table in "
                  "concord/audit/rules.inc.\n\n"
                  "`concord audit PATH...` reports where (file, line), what, and with `--explain RULE` why "
                  "it matters and how to mend\n"
                  "it. Known findings can be accepted in a baseline file: lines of five tab-separated fields "
                  "(rule, file,\n"
                  "fingerprint or `*`, expiry date, reason), which `--write-baseline` makes. An accepted "
                  "finding whose date has\n"
                  "passed counts again.\n");
    for (int c = 0; c < RULE_CLASSES; c++) {
        buf_addf(out, "\n## %c%s\n", rule_class_names[c][0] - 'a' + 'A', rule_class_names[c] + 1);
        for (int i = 0; i < RULE_COUNT; i++) {
            const struct rule *r = &rules[i];
            if ((int)r->class != c) continue;
            buf_addf(out, "\n### %s (%s)\n\n%s\nMend: %s\n\n%s\n处理：%s\n", r->name,
                     severity_names[r->severity], r->en, r->mend_en, r->zh, r->mend_zh);
        }
    }
}
