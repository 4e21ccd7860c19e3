/* branch.c - the step that makes one commit a release, when the evidence allows it. */
#include "concord/forge/branch.h"
#include "concord/steps/private.h"

#include <stdlib.h>
#include <string.h>

json_t *inputs_branch(const struct steps *s, const struct campaign_release *release)
{
    char *name = steps_branch_name(s->campaign, release), *title = steps_title(s->campaign),
         tip[BRANCH_ID_MAX];
    char *ref = xformat("refs/heads/%s", name);
    bool there = !branch_resolve(s->clone, ref, tip, NULL);
    json_t *inputs = json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:s, s:s}", "base", steps_fact_digest(s, "base", release), "adapt",
        steps_fact_digest(s, "adapt", release), "audit", steps_fact_digest(s, "audit", release), "verify",
        steps_fact_digest(s, "verify", NULL), "name", name, "title", title, "tip", there ? tip : "");
    free(ref);
    free(title);
    free(name);
    return inputs;
}

/* ---- names ------------------------------------------------------------------------------------------- */

char *steps_branch_name(const struct campaign *c, const struct campaign_release *release)
{
    const char *topic = c->review.topic ? c->review.topic : c->name;
    return xformat("%s-%s", topic, release->branch);
}

/* The second name of most APIs: utils of torch.utils.checkpoint.checkpoint. Owned. */
static char *scope_of(const struct campaign *c)
{
    struct map counts = {0};
    const char *best = "npu";
    uintptr_t most = 0;
    for (size_t i = 0; i < c->apis.len; i++) {
        const char *dot = strchr(c->apis.ptr[i], '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
        if (!end) continue;
        char *word = xstrndup(dot + 1, (size_t)(end - dot - 1));
        void **n = map_put(&counts, word);
        *n = (void *)((uintptr_t)*n + 1);
        free(word);
    }
    for (size_t i = 0; i < counts.entries.len; i++) {
        if ((uintptr_t)counts.entries.ptr[i].value <= most) continue;
        most = (uintptr_t)counts.entries.ptr[i].value;
        best = counts.entries.ptr[i].key;
    }
    char *scope = xstrdup(best);
    map_free(&counts, NULL);
    return scope;
}

enum { TITLE_APIS = 3 };

char *steps_title(const struct campaign *c)
{
    struct buf b = BUF_INIT;
    if (c->review.title) return xstrdup(c->review.title);
    char *scope = c->review.scope ? xstrdup(c->review.scope) : scope_of(c);
    size_t shown = c->apis.len > TITLE_APIS ? TITLE_APIS - 1 : c->apis.len;
    buf_addf(&b, "test(%s): adapt ", scope);
    for (size_t i = 0; i < shown; i++) {
        bool last = i + 1 == shown && shown == c->apis.len;
        buf_addf(&b, "%s%s", !i ? "" : last ? " and " : ", ", c->apis.ptr[i]);
    }
    if (shown < c->apis.len) buf_addf(&b, " and %zu more APIs", c->apis.len - shown);
    buf_adds(&b, " on NPU");
    free(scope);
    return buf_take(&b);
}

/* ---- may it be made? --------------------------------------------------------------------------------- */

/* Boxes without which there is no branch. */
static const char *const needed[] = {"journal", "one_kind", "patches", "audit", "left", "base"};

static int refuse(const struct campaign_release *release, struct err *e, const char *why)
{
    return err_set(e, "no branch for %s: %s", release->branch, why);
}

static int check_boxes(const struct report *r, const struct campaign_release *release, struct err *e)
{
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const struct check *c = report_find_check(r, needed[i]);
        if (c->ticked) continue;
        char *why = xformat("not so: %s (%s)", c->en, c->fact);
        refuse(release, e, why);
        free(why);
        return -1;
    }
    return 0;
}

static int check_cells(const struct report *r, const struct campaign_release *release, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < r->cells.len; i++) {
        const struct cell *c = &r->cells.ptr[i];
        if (strcmp(c->release, release->torch_npu) != 0) continue;
        n++;
        if (c->verdict == VERDICT_PASSED) continue;
        char *why = xformat("%s is %s there", c->api, verdict_name(c->verdict));
        refuse(release, e, why);
        free(why);
        return -1;
    }
    return n ? 0 : refuse(release, e, "the run has no cell of it");
}

/* ---- message ----------------------------------------------------------------------------------------- */

static void put_cells(const struct report *r, const struct campaign_release *release, struct buf *b)
{
    for (size_t i = 0; i < r->cells.len; i++) {
        const struct cell *c = &r->cells.ptr[i];
        if (!strcmp(c->release, release->torch_npu))
            buf_addf(b, "- %s: %s (%d of %d cases)\n", c->api, verdict_name(c->verdict),
                     c->counts[VERDICT_PASSED], c->total);
    }
}

static void put_files(const json_t *files, struct buf *b)
{
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f) buf_addf(b, "- %s (%zu edits)\n", fact_text(f, "patch"),
                                             json_array_size(json_object_get(f, "edits")));
}

static char *message_of(const struct steps *s, const struct report *r, const struct campaign_release *release)
{
    struct buf b = BUF_INIT;
    const struct release_record *rel = record_release(r->record, release->torch_npu);
    char *title = steps_title(s->campaign);
    buf_addf(&b, "%s\n\nPut the upstream tests that cover these APIs on the device, for torch %s:\n\n", title,
             release->torch);
    put_cells(r, release, &b);
    buf_adds(&b, "\nPatch files:\n\n");
    put_files(json_object_get(dossier_get(&s->dossier, "adapt", release->torch_npu), "files"), &b);
    buf_addf(&b,
             "\nVerified with torch %s and torch_npu %s on %s (device kind: %s).\nStatic audit: no error.\n",
             fact_text(rel->hello, "torch"), fact_text(rel->hello, "plugin_version"), rel->device,
             device_kind_name(rel->kind));
    free(title);
    return buf_take(&b);
}

/* ---- the step ---------------------------------------------------------------------------------------- */

static int read_files(const struct steps *s, const struct campaign_release *release, const json_t *files,
                      struct branch_file *out, struct buf *texts, struct err *e)
{
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f)
    {
        const char *patch = fact_text(f, "patch");
        char *path = dossier_path(&s->dossier, "patches/%s/%s", release->torch_npu, patch);
        int status = file_read(path, &texts[i], e);
        free(path);
        if (status) return -1;
        out[i] = (struct branch_file){patch, buf_str(&texts[i]), texts[i].len};
    }
    return 0;
}

static json_t *branch_fact(const struct branch_request *q, const char *commit)
{
    json_t *paths = json_array();
    for (size_t i = 0; i < q->nfiles; i++) fact_append(paths, json_string(q->files[i].path));
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", q->name, "base", q->base, "commit", commit,
                     "message", q->message, "files", paths);
}

static int make_branch(struct steps *s, const struct report *r, const struct campaign_release *release,
                       json_t **body, struct err *e)
{
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    const json_t *files = json_object_get(dossier_get(&s->dossier, "adapt", release->torch_npu), "files");
    size_t n = json_array_size(files);
    char commit[BRANCH_ID_MAX], *name = steps_branch_name(s->campaign, release);
    char *message = message_of(s, r, release);
    struct branch_file *list = xcalloc(n + 1, sizeof *list);
    struct buf *texts = xcalloc(n + 1, sizeof *texts);
    const struct branch_request q = {
        s->clone, name, fact_text(base, "commit"), fact_text(base, "ref"), message, list, n, s->replace};
    int status = read_files(s, release, files, list, texts, e);
    if (!status) status = branch_make(&q, commit, e);
    if (!status) {
        *body = branch_fact(&q, commit);
        steps_say("branch", release, "%s at %.12s", name, commit);
    }
    for (size_t i = 0; i < n; i++) buf_free(&texts[i]);
    free(texts);
    free(list);
    free(message);
    free(name);
    return status;
}

bool steps_nothing(const struct steps *s, const struct campaign_release *release)
{
    const json_t *adapt = dossier_get(&s->dossier, "adapt", release->torch_npu);
    return adapt && !json_array_size(json_object_get(adapt, "files"));
}

int step_branch(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct steps_model m;
    if (steps_nothing(s, release)) {
        steps_say("branch", release, "nothing to review: no patch file changes");
        return STEP_OK;
    }
    if (steps_model_open(s, &m, e)) return -1;
    int status = check_cells(&m.report, release, e);
    if (!status) status = check_boxes(&m.report, release, e);
    if (!status) status = make_branch(s, &m.report, release, body, e);
    steps_model_close(&m);
    return status;
}
