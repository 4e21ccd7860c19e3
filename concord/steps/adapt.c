/* adapt.c - the step that makes or extends the release's patch files. */
#include "concord/adapt/adapt.h"
#include "concord/forge/branch.h"
#include "concord/patch/patch.h"
#include "concord/patch/source.h"
#include "concord/steps/steps.h"

#include <stdlib.h>
#include <string.h>

json_t *inputs_adapt(const struct steps *s, const struct campaign_release *release)
{
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    return json_pack("{s:s, s:o, s:o, s:s}", "base", fact_text(base, "commit"), "scan",
                     steps_fact_digest(s, "scan", release), "tests", steps_texts(&s->campaign->tests),
                     "patches", s->campaign->plugin.patches ? s->campaign->plugin.patches : "");
}

/* One upstream file on one release. */
struct job {
    struct steps *s;
    const struct campaign_release *release;
    struct source *src;
    const char *file; /* "test/test_autograd.py" */
    char *patch;      /* "test_upstream/test/test_autograd.py.patch" */
    struct buf base, mine, text;
    struct patch old;
    bool existing;
    struct py_file *model;
    struct adapt_result r;
    struct merge_result merged;
    json_t *left, *notes;
};

static void job_free(struct job *j)
{
    adapt_result_free(&j->r);
    if (j->model) py_free(j->model);
    if (j->existing) patch_free(&j->old);
    buf_free(&j->base);
    buf_free(&j->mine);
    buf_free(&j->text);
    json_decref(j->left);
    json_decref(j->notes);
    free(j->patch);
}

static void add_place(json_t *list, uint32_t row, const char *scope, const char *reason)
{
    fact_append(list, json_pack("{s:i, s:s, s:s}", "line", (int)row, "scope", scope, "reason", reason));
}

static const struct patch_file *section_of(const struct patch *p, const char *path)
{
    for (size_t i = 0; i < p->files.len; i++)
        if (p->files.ptr[i].path && !strcmp(p->files.ptr[i].path, path)) return &p->files.ptr[i];
    return NULL;
}

/* The upstream file as the base's patch leaves it. 0, 1 when that patch does not fit, -1. */
static int read_both(struct job *j, struct err *e)
{
    const json_t *base = dossier_get(&j->s->dossier, "base", j->release->torch_npu);
    struct buf old = BUF_INIT;
    struct apply_result r;
    bool exists;
    if (source_read(j->src, j->file, &j->base, NULL, e) < 0) return -1;
    int found = branch_read(j->s->clone, fact_text(base, "commit"), j->patch, &old, e);
    if (found <= 0) {
        buf_add(&j->mine, buf_str(&j->base), j->base.len);
        buf_free(&old);
        return found;
    }
    int status = patch_parse(&j->old, slice_of(&old), e);
    buf_free(&old);
    if (status) return -1;
    j->existing = true;
    const struct patch_file *section = section_of(&j->old, j->file);
    if (section) patch_apply(&j->old, section, slice_of(&j->base), 0, &j->mine, &exists, &r);
    if (section && r.outcome == APPLY_clean && exists) return 0;
    char *why = xformat("the base's patch %s %s: repair or port it first", j->patch,
                        section ? apply_outcome_text(r.outcome) : "has no section for this file");
    add_place(j->left, 1, "", why);
    free(why);
    return 1;
}

static int make_patch(struct job *j, struct err *e)
{
    const struct make_options o = {0};
    const struct patch *p = &j->old;
    if (!j->existing)
        return patch_make(j->file, slice_of(&j->base), slice_of(&j->r.text), 0, &o, &j->text, e);
    const struct patch_file *f = section_of(p, j->file);
    size_t end = f->end < p->lines.len ? p->lines.ptr[f->end].off : p->text.len;
    buf_add(&j->text, buf_str(&p->text), p->lines.ptr[f->line].off);
    if (patch_merge(p, f, slice_of(&j->base), slice_of(&j->r.text), &o, &j->text, &j->merged, e)) return -1;
    buf_add(&j->text, buf_str(&p->text) + end, p->text.len - end);
    return 0;
}

static int adapt_file(struct job *j, const char *const *tests, size_t n, struct err *e)
{
    struct adapt_options o = adapt_defaults;
    int status = read_both(j, e);
    if (status) return status < 0 ? -1 : 0;
    j->model = py_parse(j->file, buf_str(&j->mine), j->mine.len);
    o.style = j->existing ? adapt_style_of(j->model, &adapt_defaults) : ADAPT_METHOD;
    if (adapt_source(j->model, tests, n, &o, &j->r, e)) return -1;
    for (size_t i = 0; i < j->r.left.len; i++)
        add_place(j->left, j->r.left.ptr[i].row, j->r.left.ptr[i].scope, j->r.left.ptr[i].reason);
    for (size_t i = 0; i < j->r.notes.len; i++)
        add_place(j->notes, j->r.notes.ptr[i].row, j->r.notes.ptr[i].scope, j->r.notes.ptr[i].reason);
    return j->r.edits.len ? make_patch(j, e) : 0;
}

static json_t *edits_json(const struct job *j)
{
    json_t *edits = json_array();
    for (size_t i = 0; i < j->r.edits.len; i++) {
        const struct adapt_edit *d = &j->r.edits.ptr[i];
        char *before = xstrndup(j->model->text + d->start, d->end - d->start);
        fact_append(edits, json_pack("{s:i, s:s, s:s, s:s, s:s}", "line", (int)d->row, "scope", d->scope,
                                     "rule", adapt_rules[d->rule].name, "before", before, "after", d->with));
        free(before);
    }
    return edits;
}

static int write_patch(const struct job *j, struct err *e)
{
    char *path = dossier_path(&j->s->dossier, "patches/%s/%s", j->release->torch_npu, j->patch);
    char *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    int status = dir_make(dir, e);
    if (!status) status = file_write(path, buf_str(&j->text), j->text.len, 0, e);
    free(dir);
    free(path);
    return status;
}

static json_t *file_json(const struct job *j)
{
    char sha[65];
    sha256_hex(buf_str(&j->text), j->text.len, sha);
    return json_pack("{s:s, s:s, s:b, s:i, s:i, s:s, s:o, s:O, s:O}", "file", j->file, "patch", j->patch,
                     "existing", j->existing, "kept", (int)j->merged.kept, "redone", (int)j->merged.rewritten,
                     "sha256", sha, "edits", edits_json(j), "left", j->left, "notes", j->notes);
}

/* What the step collects over the files. */
struct sums {
    json_t *files, *untouched;
    size_t edits, left;
};

static int adapt_one(struct steps *s, const struct campaign_release *release, struct source *src,
                     const char *file, const char *const *tests, size_t n, struct sums *sums, struct err *e)
{
    const char *folder = s->campaign->plugin.patches ? s->campaign->plugin.patches : "test_upstream";
    struct job j = {.s = s,
                    .release = release,
                    .src = src,
                    .file = file,
                    .left = json_array(),
                    .notes = json_array(),
                    .patch = xformat("%s/%s.patch", folder, file)};
    int status = adapt_file(&j, tests, n, e);
    sums->edits += j.r.edits.len;
    sums->left += json_array_size(j.left);
    if (!status && j.text.len) {
        status = write_patch(&j, e);
        fact_append(sums->files, file_json(&j));
    } else if (!status) {
        fact_append(sums->untouched,
                    json_pack("{s:s, s:O, s:O}", "file", file, "left", j.left, "notes", j.notes));
    }
    job_free(&j);
    return status;
}

static bool may_adapt(const struct campaign *c, const char *file)
{
    for (size_t i = 0; i < c->tests.len; i++)
        if (!strcmp(c->tests.ptr[i], file)) return true;
    return !c->tests.len;
}

/* Tests by file, in the scan's order: those whose site certainly is the API. */
static int adapt_files(struct steps *s, const struct campaign_release *release, struct source *src,
                       struct sums *sums, struct err *e)
{
    const json_t *tests = json_object_get(dossier_get(&s->dossier, "scan", release->torch_npu), "tests");
    size_t n = json_array_size(tests);
    int status = 0;
    for (size_t i = 0; !status && i < n;) {
        const char *file = fact_text(json_array_get(tests, i), "file");
        VEC(const char *) ids = {0};
        for (; i < n && !strcmp(fact_text(json_array_get(tests, i), "file"), file); i++)
            if (strcmp(fact_text(json_array_get(tests, i), "coverage"), "weak") != 0)
                *vec_push(&ids) = fact_text(json_array_get(tests, i), "test");
        if (ids.len && may_adapt(s->campaign, file))
            status = adapt_one(s, release, src, file, ids.ptr, ids.len, sums, e);
        vec_free(&ids);
    }
    return status;
}

/* What was left, as one text: a person's word holds for exactly this. */
static void left_digest(const struct sums *sums, char out[65])
{
    json_t *all = json_array(), *file;
    size_t i;
    json_array_foreach(sums->files, i, file) json_array_append(all, json_object_get(file, "left"));
    json_array_foreach(sums->untouched, i, file) json_array_append(all, json_object_get(file, "left"));
    fact_digest(all, out);
    json_decref(all);
}

static int settle(struct steps *s, const struct campaign_release *release, const char *digest, size_t left,
                  struct err *e)
{
    const json_t *accepted = dossier_get(&s->dossier, "accept", release->torch_npu);
    if (!left || (accepted && !strcmp(fact_text(accepted, "digest"), digest))) return STEP_OK;
    if (s->accept) {
        json_t *body = json_pack("{s:s, s:s}", "digest", digest, "reason", s->accept);
        return dossier_put(&s->dossier, "accept", release->torch_npu, body, e) ? -1 : STEP_OK;
    }
    char *fact = dossier_path(&s->dossier, "facts/adapt@%s.json", release->torch_npu);
    steps_say("adapt", release,
              "%zu places are left to a person: %s lists them; edit the patch files and go on "
              "with --from audit, or accept them with --accept REASON",
              left, fact);
    free(fact);
    return STEP_WAITS;
}

int step_adapt(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct sums sums = {.files = json_array(), .untouched = json_array()};
    char digest[65], *spec = steps_upstream(s, release, e);
    char *old = dossier_path(&s->dossier, "patches/%s", release->torch_npu);
    struct source *src = spec ? source_open(spec, e) : NULL;
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    int status = src && !tree_remove(old, e) ? adapt_files(s, release, src, &sums, e) : -1;
    if (!status) {
        left_digest(&sums, digest);
        steps_say("adapt", release, "%zu edits in %zu patch files", sums.edits, json_array_size(sums.files));
        *body = json_pack("{s:s, s:s, s:O, s:O, s:i, s:s}", "base", fact_text(base, "commit"), "upstream",
                          spec, "files", sums.files, "untouched", sums.untouched, "left", (int)sums.left,
                          "left_digest", digest);
        status = settle(s, release, digest, sums.left, e);
    }
    json_decref(sums.files);
    json_decref(sums.untouched);
    if (src) source_close(src);
    free(old);
    free(spec);
    return status;
}
