/* checks.c - the steps that look at what was made: audit of the patches, documentation of the APIs. */
#include "concord/apidocs/apidocs.h"
#include "concord/audit/audit.h"
#include "concord/audit/private.h"
#include "concord/forge/branch.h"
#include "concord/steps/steps.h"

#include <stdlib.h>
#include <string.h>

/* ---- audit ------------------------------------------------------------------------------------------- */

static const json_t *files_of(const struct steps *s, const struct campaign_release *release)
{
    return json_object_get(dossier_get(&s->dossier, "adapt", release->torch_npu), "files");
}

/* The patch files as they lie there now: a person may have edited them. */
json_t *inputs_audit(const struct steps *s, const struct campaign_release *release)
{
    json_t *shas = json_array(), *file;
    size_t i;
    json_array_foreach(files_of(s, release), i, file)
    {
        char sha[65] = "",
             *path = dossier_path(&s->dossier, "patches/%s/%s", release->torch_npu, fact_text(file, "patch"));
        sha256_file(path, sha, NULL);
        fact_append(shas, json_string(sha));
        free(path);
    }
    return json_pack("{s:o, s:o}", "adapt", steps_fact_digest(s, "adapt", release), "patches", shas);
}

static bool found_before(const struct findings *base, const struct finding *f)
{
    for (size_t i = 0; i < base->list.len; i++)
        if (base->list.ptr[i].rule == f->rule && !strcmp(base->list.ptr[i].print, f->print)) return true;
    return false;
}

static json_t *findings_json(const struct findings *now, const struct findings *base, size_t *errors)
{
    json_t *all = json_array();
    for (size_t i = 0; i < now->list.len; i++) {
        const struct finding *f = &now->list.ptr[i];
        bool inherited = found_before(base, f);
        *errors += !inherited && f->rule->severity == SEVERITY_ERROR;
        fact_append(all, json_pack("{s:s, s:s, s:i, s:s, s:s, s:b, s:{s:s, s:s}}", "rule", f->rule->name,
                                   "severity", severity_names[f->rule->severity], "line", (int)f->line,
                                   "message", f->message, "fingerprint", f->print, "inherited", inherited,
                                   "mend", "en", f->rule->mend_en, "zh", f->rule->mend_zh));
    }
    return all;
}

static int audit_text(const char *name, const struct buf *text, const struct audit_options *o,
                      struct findings *out, struct err *e)
{
    struct patch p;
    if (patch_parse(&p, slice_of(text), e)) return -1;
    int status = audit_one(name, &p, o, out, e);
    patch_free(&p);
    audit_findings_sort(out);
    return status;
}

/* Audits the file's text now, and the base's, to tell what this campaign brought. */
static int audit_file(struct steps *s, const struct campaign_release *release, const char *patch,
                      const struct audit_options *o, json_t *patches, size_t *errors, struct err *e)
{
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    char sha[65], *path = dossier_path(&s->dossier, "patches/%s/%s", release->torch_npu, patch);
    struct buf now = BUF_INIT, before = BUF_INIT;
    struct findings found = {0}, old = {0};
    int status = file_read(path, &now, e) || audit_text(patch, &now, o, &found, e) ? -1 : 0;
    int there = status ? -1 : branch_read(s->clone, fact_text(base, "commit"), patch, &before, e);
    if (there > 0) there = audit_text(patch, &before, o, &old, e);
    if (there < 0) status = -1;
    if (!status) {
        sha256_hex(buf_str(&now), now.len, sha);
        fact_append(patches, json_pack("{s:s, s:s, s:o}", "patch", patch, "sha256", sha, "findings",
                                       findings_json(&found, &old, errors)));
    }
    audit_findings_free(&found);
    audit_findings_free(&old);
    buf_free(&now);
    buf_free(&before);
    free(path);
    return status;
}

int step_audit(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    json_t *patches = json_array(), *file;
    size_t i, errors = 0;
    char *spec = steps_upstream(s, release, e);
    struct source *src = spec ? source_open(spec, e) : NULL;
    const struct audit_options o = {.upstream = src, .least = SEVERITY_WARNING};
    int status = src ? 0 : -1;
    json_array_foreach(files_of(s, release), i, file) if (!status) status =
        audit_file(s, release, fact_text(file, "patch"), &o, patches, &errors, e);
    if (!status) {
        steps_say("audit", release, "%zu patch files, %zu errors", json_array_size(patches), errors);
        *body = json_pack("{s:O, s:i}", "patches", patches, "errors", (int)errors);
        status = errors ? STEP_FINDINGS : STEP_OK;
    }
    json_decref(patches);
    if (src) source_close(src);
    free(spec);
    return status;
}

/* ---- docs -------------------------------------------------------------------------------------------- */

static const char *family_of(const struct campaign *c)
{
    return c->family ? c->family : "Atlas A2";
}

json_t *inputs_docs(const struct steps *s, const struct campaign_release *release)
{
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    return json_pack("{s:s, s:o, s:s}", "commit", fact_text(base, "commit"), "apis",
                     steps_texts(&s->campaign->apis), "family", family_of(s->campaign));
}

static json_t *doc_json(const struct doc_set *set, const char *api, const char *family, bool *good)
{
    static const char *const answers[] = {"unsaid", "yes", "no"};
    const struct doc_entry *d;
    enum doc_verdict v = doc_check(set, api, family, &d);
    *good = v == DOC_SUPPORTED;
    if (!d) return json_pack("{s:s, s:s}", "api", api, "verdict", doc_verdict_names[v]);
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "api", api, "verdict", doc_verdict_names[v],
                     "file", d->file, "line", (int)d->line, "layout", doc_layout_names[d->layout],
                     "supported", answers[doc_answer(d, family)], "restrictions", d->note, "npu_name",
                     d->npu_name);
}

/* Missing documentation is a fact of the report; it stops nothing. */
int step_docs(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    struct doc_set set;
    struct err why;
    size_t good = 0;
    json_t *rows = json_array();
    bool there = !doc_load(&set, s->clone, fact_text(base, "commit"), release->torch, &why);
    for (size_t a = 0; there && a < s->campaign->apis.len; a++) {
        bool yes;
        fact_append(rows, doc_json(&set, s->campaign->apis.ptr[a], family_of(s->campaign), &yes));
        good += yes;
    }
    steps_say("docs", release, "%zu of %zu APIs documented as supported%s%s", good, s->campaign->apis.len,
              there ? "" : ": ", there ? "" : why.text);
    *body = json_pack("{s:s, s:s, s:s, s:o}", "commit", fact_text(base, "commit"), "family",
                      family_of(s->campaign), "error", there ? "" : why.text, "rows", rows);
    if (there) doc_free(&set);
    (void)e;
    return STEP_OK;
}
