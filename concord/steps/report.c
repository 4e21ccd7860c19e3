/* report.c - the last steps: renderings, review texts, the archive. */
#include "concord/forge/branch.h"
#include "concord/forge/forge.h"
#include "concord/pack/pack.h"
#include "concord/report/review.h"
#include "concord/steps/private.h"

#include <stdlib.h>
#include <string.h>

int steps_model_open(const struct steps *s, struct steps_model *m, struct err *e)
{
    if (steps_load_run(s, &m->record, e)) return -1;
    if (!report_make(&m->record, &s->dossier, &m->report, e)) return 0;
    report_free(&m->report);
    run_record_free(&m->record);
    return -1;
}

void steps_model_close(struct steps_model *m)
{
    report_free(&m->report);
    run_record_free(&m->record);
}

/* ---- report ------------------------------------------------------------------------------------------ */

json_t *inputs_report(const struct steps *s, const struct campaign_release *release)
{
    (void)s;
    (void)release;
    return NULL;
}

int step_report(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct run_record record;
    (void)release;
    char *dir = dossier_path(&s->dossier, "report");
    int status = steps_load_run(s, &record, e);
    if (!status) {
        status = report_write(&record, &s->dossier, &s->campaign->languages, dir, e);
        run_record_free(&record);
        if (!status) *body = json_pack("{s:s}", "folder", dir);
    }
    free(dir);
    return status;
}

/* ---- review ------------------------------------------------------------------------------------------ */

json_t *inputs_review(const struct steps *s, const struct campaign_release *release)
{
    (void)s;
    (void)release;
    return NULL;
}

static int read_template(const struct steps *s, const struct campaign_release *release, struct buf *out,
                         struct err *e)
{
    const json_t *base = dossier_get(&s->dossier, "base", release->torch_npu);
    int found = branch_read(s->clone, fact_text(base, "commit"), ".gitcode/PULL_REQUEST_TEMPLATE.md", out, e);
    if (found) return found < 0 ? -1 : 0;
    return err_set(e,
                   "%s has no .gitcode/PULL_REQUEST_TEMPLATE.md: the review's text follows the branch's own",
                   release->branch);
}

int step_review(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct steps_model m;
    struct buf template = BUF_INIT, text = BUF_INIT;
    char *path = dossier_path(&s->dossier, "report/review-%s.md", release->torch_npu);
    if (steps_nothing(s, release) || steps_model_open(s, &m, e)) {
        free(path);
        return steps_nothing(s, release) ? STEP_OK : -1;
    }
    char *title = steps_title(s->campaign);
    int status = read_template(s, release, &template, e);
    if (!status) {
        const struct review_request q = {&m.report,
                                         release->torch_npu,
                                         buf_str(&template),
                                         s->campaign->review.issue,
                                         title,
                                         review_limit(&s->campaign->review)};
        review_text(&q, &text);
        status = file_write(path, buf_str(&text), text.len, 0, e);
    }
    if (!status) {
        steps_say("review", release, "%s (%zu characters)", path, review_length(buf_str(&text)));
        *body = json_pack("{s:s, s:s}", "title", title, "file", path);
    }
    steps_model_close(&m);
    buf_free(&template);
    buf_free(&text);
    free(title);
    free(path);
    return status;
}

/* ---- pack -------------------------------------------------------------------------------------------- */

json_t *inputs_pack(const struct steps *s, const struct campaign_release *release)
{
    (void)s;
    (void)release;
    return NULL;
}

int step_pack(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    char *path = dossier_path(&s->dossier, "%s.evidence.tar.gz", s->campaign->name), sha[65];
    struct run_record record;
    (void)release;
    int status = steps_load_run(s, &record, e);
    if (!status) {
        const struct pack_request q = {&s->dossier, &record, s->campaign->path, s->sign_key, path};
        status = pack_write(&q, e);
        run_record_free(&record);
    }
    if (!status && !sha256_file(path, sha, e)) {
        steps_say("pack", NULL, "%s (SHA-256 %.16s)", path, sha);
        *body = json_pack("{s:s, s:s}", "file", path, "sha256", sha);
    }
    free(path);
    return status;
}
