/* json.c - the JSON rendering; its keys are documented in docs/report-schema.md. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

#define REPORT_SCHEMA "concord-report/1"

static json_t *run_json(const struct run_record *r)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "id", (json_int_t)r->id, "campaign",
                     r->campaign, "path", r->path, "digest", r->digest, "command", r->command,
                     "device_choice", r->choice, "started", r->started, "finished", r->finished, "complete",
                     record_complete(r));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_t *release_json(const struct release_record *rel)
{
    char digest[65];
    sha256_hex(rel->lock, strlen(rel->lock), digest);
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", rel->name, "torch",
                          rel->torch, "torch_npu", rel->name, "branch", rel->branch, "environment", rel->env,
                          "lock", rel->lock, "lock_sha256", *rel->lock ? digest : "", "python",
                          text_of(rel->hello, "python"), "error", rel->error);
    json_object_set_new(j, "device",
                        json_pack("{s:s, s:s, s:s, s:s}", "kind", device_kind_name(rel->kind), "name",
                                  rel->device, "ascendcl", text_of(rel->hello, "ascendcl"), "softnpu",
                                  text_of(rel->hello, "softnpu")));
    json_object_set_new(j, "found",
                        json_pack("{s:s, s:s}", "torch", text_of(rel->hello, "torch"), "torch_npu",
                                  text_of(rel->hello, "plugin_version")));
    return j;
}

static json_t *counts_json(const int counts[VERDICT_COUNT])
{
    json_t *j = json_object();
    for (int v = 0; v < VERDICT_COUNT; v++)
        if (counts[v]) json_object_set_new(j, verdict_name((enum verdict)v), json_integer(counts[v]));
    return j;
}

static json_t *cell_json(const struct cell *c)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:o, s:I, s:f, s:s, s:s}", "release", c->release, "api", c->api,
                     "verdict", verdict_name(c->verdict), "cases", c->total, "counts", counts_json(c->counts),
                     "launches", (json_int_t)c->launches, "ms", c->ms, "device", device_kind_name(c->kind),
                     "reason", c->worst ? c->worst->reason : "");
}

static json_t *case_json(const struct report *r, const struct case_record *c)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:f, s:I, s:s, s:s, s:s}", "release",
                          c->release, "api", c->api, "case", c->name, "passes", c->passes, "verdict",
                          verdict_name(c->verdict), "reason", c->reason, "attempts", c->attempts, "started",
                          c->started, "ms", c->ms, "launches", (json_int_t)c->launches, "device",
                          device_kind_name(c->kind), "output", c->output, "stack", c->stack);
    json_object_set_new(
        j, "covers",
        json_pack("{s:s, s:s}", "en", report_title(r, c, LANG_EN), "zh", report_title(r, c, LANG_ZH)));
    json_object_set_new(j, "facts", c->facts ? json_incref(c->facts) : json_null());
    return j;
}

static json_t *checks_json(const struct report *r)
{
    json_t *all = json_array();
    for (size_t i = 0; i < r->checks.len; i++) {
        const struct check *c = &r->checks.ptr[i];
        json_array_append_new(all, json_pack("{s:s, s:{s:s, s:s}, s:b, s:s}", "id", c->id, "text", "en",
                                             c->en, "zh", c->zh, "ticked", c->ticked, "fact", c->fact));
    }
    return all;
}

static json_t *device_json(const struct report *r)
{
    bool mixed;
    enum device_kind kind = record_kind(r->record, &mixed);
    return json_pack("{s:s, s:{s:s, s:s}}", "kind", mixed ? "mixed" : device_kind_name(kind), "sentence",
                     "en", report_device_sentence(r, LANG_EN), "zh", report_device_sentence(r, LANG_ZH));
}

static json_t *summary_json(const struct run_record *r)
{
    int total, passed = record_passed(r, &total);
    return json_pack("{s:i, s:i, s:b}", "cells", total, "passed", passed, "ok", total > 0 && passed == total);
}

void report_json(const struct report *r, struct buf *out)
{
    const struct run_record *rec = r->record;
    json_t *releases = json_array(), *cells = json_array(), *cases = json_array(), *apis = json_array();
    for (size_t a = 0; a < rec->apis.len; a++) json_array_append_new(apis, json_string(rec->apis.ptr[a]));
    for (size_t i = 0; i < rec->releases.len; i++) {
        json_array_append_new(releases, release_json(&rec->releases.ptr[i]));
        for (size_t a = 0; a < rec->apis.len; a++) {
            struct cell c = record_cell(rec, rec->releases.ptr[i].name, rec->apis.ptr[a]);
            json_array_append_new(cells, cell_json(&c));
        }
    }
    for (size_t i = 0; i < rec->cases.len; i++)
        json_array_append_new(cases, case_json(r, &rec->cases.ptr[i]));
    json_t *tolerances = json_loads(rec->tolerances, 0, NULL);
    json_t *j = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:O, s:o, s:o, s:o, s:o, s:o}", "schema",
                          REPORT_SCHEMA, "concord", rec->version, "run", run_json(rec), "summary",
                          summary_json(rec), "device", device_json(r), "checklist", checks_json(r), "host",
                          rec->host, "tolerances", tolerances ? tolerances : json_object(), "apis", apis,
                          "releases", releases, "cells", cells, "cases", cases);
    char *text = json_dumps(j, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    buf_adds(out, text ? text : "");
    buf_addc(out, '\n');
    free(text);
    json_decref(j);
}
