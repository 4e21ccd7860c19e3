/* json.c - the JSON rendering; its keys are documented in docs/report-schema.md. */
#include "concord/report/json.h"

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

static json_t *checks_json(const struct report *r)
{
    json_t *all = json_array();
    for (size_t i = 0; i < r->checks.len; i++) {
        const struct check *c = &r->checks.ptr[i];
        json_array_append_new(all, json_pack("{s:s, s:{s:s, s:s}, s:b, s:s, s:s}", "id", c->id, "text", "en",
                                             c->en, "zh", c->zh, "ticked", c->ticked, "fact", c->fact,
                                             "place", report_place_names[c->place]));
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

static json_t *summary_json(const struct report *r)
{
    int total = (int)r->cells.len, passed = report_passed(r);
    return json_pack("{s:i, s:i, s:b}", "cells", total, "passed", passed, "ok", total > 0 && passed == total);
}

/* Facts by step and release ("" for the whole campaign). */
static json_t *steps_json(const struct dossier *d)
{
    json_t *steps = json_object();
    for (size_t i = 0; d && i < d->facts.len; i++) {
        const struct dossier_fact *f = &d->facts.ptr[i];
        json_t *step = json_object_get(steps, f->step);
        if (!step) json_object_set_new(steps, f->step, step = json_object());
        json_object_set(step, f->release, f->body);
    }
    return steps;
}

json_t *report_summary(const struct report *r)
{
    const struct run_record *rec = r->record;
    json_t *releases = json_array(), *cells = json_array(), *apis = json_array();
    for (size_t a = 0; a < rec->apis.len; a++) json_array_append_new(apis, json_string(rec->apis.ptr[a]));
    for (size_t i = 0; i < rec->releases.len; i++)
        json_array_append_new(releases, release_json(&rec->releases.ptr[i]));
    for (size_t i = 0; i < r->cells.len; i++) json_array_append_new(cells, cell_json(&r->cells.ptr[i]));
    json_t *tolerances = json_loads(rec->tolerances, 0, NULL);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:O, s:o, s:o, s:o, s:o, s:o}", "schema", REPORT_SCHEMA,
                     "concord", rec->version, "run", run_json(rec), "summary", summary_json(r), "device",
                     device_json(r), "checklist", checks_json(r), "host", rec->host, "tolerances",
                     tolerances ? tolerances : json_object(), "apis", apis, "releases", releases, "cells",
                     cells, "steps", steps_json(r->dossier));
}

/* Length of the UTF-8 character at p, 0 when it is none. */
static size_t utf8_length(const unsigned char *p)
{
    size_t n = *p < 0x80                 ? 1
               : *p >= 0xc2 && *p < 0xe0 ? 2
               : *p >= 0xe0 && *p < 0xf0 ? 3
               : *p >= 0xf0 && *p < 0xf5 ? 4
                                         : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    bool overlong = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90);
    bool beyond = (*p == 0xed && p[1] > 0x9f) || (*p == 0xf4 && p[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

void put_json_string(struct buf *out, const char *text)
{
    buf_addc(out, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const unsigned char *from = p;
        while (*p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') p++;
        buf_add(out, from, (size_t)(p - from));
        if (!*p) break;
        size_t n = *p < 0x80 ? 0 : utf8_length(p);
        if (n)
            buf_add(out, p, n);
        else if (*p >= 0x80)
            buf_adds(out, "\xef\xbf\xbd");
        else if (*p == '\n')
            buf_adds(out, "\\n");
        else
            buf_addf(out, *p < 0x20 ? "\\u%04x" : "\\%c", *p);
        p += n ? n : 1;
    }
    buf_addc(out, '"');
}

void put_json_member(struct buf *out, const char *key, const char *text)
{
    buf_addf(out, ",\"%s\":", key);
    put_json_string(out, text);
}

const char *report_facts_text(const struct report *r, size_t i)
{
    return r->marks.ptr[i].facts ? r->record->cases.ptr[i].facts : "null";
}

static void put_case(const struct report *r, size_t i, struct buf *out)
{
    const struct case_record *c = &r->record->cases.ptr[i];
    const char *const texts[][2] = {{"api", c->api},
                                    {"case", c->name},
                                    {"passes", c->passes},
                                    {"verdict", verdict_name(c->verdict)},
                                    {"reason", c->reason},
                                    {"started", c->started},
                                    {"device", device_kind_name(c->kind)},
                                    {"output", c->output},
                                    {"stack", c->stack}};
    buf_adds(out, "{\"release\":");
    put_json_string(out, c->release);
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) put_json_member(out, texts[k][0], texts[k][1]);
    buf_adds(out, ",\"covers\":{\"en\":");
    put_json_string(out, report_title(r, c, LANG_EN));
    put_json_member(out, "zh", report_title(r, c, LANG_ZH));
    buf_addf(out, "},\"attempts\":%d,\"ms\":%.3f,\"launches\":%lld,\"facts\":", c->attempts, c->ms,
             (long long)c->launches);
    buf_adds(out, report_facts_text(r, i));
    buf_addc(out, '}');
}

/* Case by case: 50,000 of them as one tree would take half a gigabyte. */
void report_json(const struct report *r, struct buf *out)
{
    json_t *summary = report_summary(r);
    char *text = json_dumps(summary, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    size_t n = text ? strlen(text) : 0;
    json_decref(summary);
    buf_add(out, text ? text : "{", n > 2 ? n - 2 : 1); /* without the closing brace */
    buf_adds(out, ",\n \"cases\": [");
    free(text);
    for (size_t i = 0; i < r->record->cases.len; i++) {
        buf_adds(out, i ? ",\n  " : "\n  ");
        put_case(r, i, out);
    }
    buf_adds(out, "\n ]\n}\n");
}
