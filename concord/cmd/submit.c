/* submit.c - concord submit: branches to the fork, one review each, linked with each other. Dry run by
 * default. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/forge/branch.h"
#include "concord/forge/forge.h"
#include "concord/report/review.h"
#include "concord/steps/private.h"

#include <stdlib.h>
#include <string.h>

struct options {
    strings versions;
    const char *plugin, *work, *fork, *repository, *push, *api, *issue;
    bool send, replace;
};

/* The whole work: a campaign, where it goes, and how far it came. */
struct job {
    const struct options *o;
    struct campaign c;
    struct steps steps;
    struct steps_model model;
    struct forge_session session;
    char *title;
    size_t failed;
};

static const char *first(const char *a, const char *b)
{
    return a ? a : b;
}

/* ---- one release ------------------------------------------------------------------------------------- */

/* Strings that a review points to. */
struct entry {
    const struct campaign_release *release;
    const json_t *branch;
    struct buf body;
    struct review review;
};

static int read_body(struct job *j, struct entry *en, struct err *e)
{
    const json_t *base = dossier_get(&j->steps.dossier, "base", en->release->torch_npu);
    struct buf template = BUF_INIT;
    int found = branch_read(j->steps.clone, fact_text(base, "commit"), ".gitcode/PULL_REQUEST_TEMPLATE.md",
                            &template, e);
    const struct review_request q = {&j->model.report,   en->release->torch_npu,
                                     buf_str(&template), first(j->o->issue, j->c.review.issue),
                                     j->title,           review_limit(&j->c.review)};
    if (found >= 0) review_text(&q, &en->body);
    buf_free(&template);
    return found < 0 ? -1 : 0;
}

static int prepare(struct job *j, const struct campaign_release *release, struct entry *en, struct err *e)
{
    const json_t *base = dossier_get(&j->steps.dossier, "base", release->torch_npu);
    *en =
        (struct entry){release, dossier_get(&j->steps.dossier, "branch", release->torch_npu), BUF_INIT, {0}};
    if (!en->branch || !base)
        return err_set(e, "no branch for %s yet: `concord run %s` makes it", release->branch, j->c.path);
    if (!branch_is(fact_text(base, "repository"), en->branch))
        return err_set(e, "branch %s is not the commit that the evidence is about: run `concord branch %s`",
                       fact_text(en->branch, "name"), j->c.path);
    if (read_body(j, en, e)) return -1;
    en->review = (struct review){first(j->o->repository, j->c.review.repository),
                                 first(j->o->fork, j->c.review.fork),
                                 fact_text(en->branch, "name"),
                                 release->branch,
                                 j->title,
                                 buf_str(&en->body)};
    return 0;
}

static const char *push_to(const struct job *j)
{
    const char *to = first(j->o->push, j->c.review.push);
    return to ? to : "fork";
}

/* ---- dry run ----------------------------------------------------------------------------------------- */

static void print_request(const struct job *j, const char *method, const char *path, const struct review *r,
                          json_t *body)
{
    char *url = forge_url(&j->session, path, r, 0),
         *text = json_dumps(body, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    printf("%s %s\n%s(token)\nContent-Type: application/json\n\n%s\n\n", method, url,
           j->session.forge->header, text ? text : "");
    free(text);
    free(url);
    json_decref(body);
}

static void show(const struct job *j, const struct entry *en)
{
    const struct forge *f = j->session.forge;
    printf("== %s: %s at %.12s\n", en->release->branch, en->review.branch, fact_text(en->branch, "commit"));
    printf("push %s refs/heads/%s\n\n", push_to(j), en->review.branch);
    print_request(j, "POST", f->make, &en->review, f->payload(&en->review, 0));
}

/* ---- sending ----------------------------------------------------------------------------------------- */

static int note(struct job *j, const struct entry *en, const struct review_found *found, struct err *e)
{
    char sha[65];
    sha256_hex(buf_str(&en->body), en->body.len, sha);
    json_t *body = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "forge", j->session.forge->name, "repository",
                             en->review.repository, "number", (json_int_t)found->number, "url", found->url,
                             "commit", fact_text(en->branch, "commit"), "body_sha256", sha);
    return dossier_put(&j->steps.dossier, "submit", en->release->torch_npu, body, e);
}

/* What is done is noted at once: a later failure loses nothing, a rerun finds it. */
static int send_one(struct job *j, const struct entry *en, bool push, struct err *e)
{
    struct review_found found = {0};
    const char *what = "";
    int status =
        push ? forge_push(&j->session, j->steps.clone, push_to(j), en->review.branch, j->o->replace, e) : 0;
    if (!status) status = forge_put(&j->session, &en->review, &found, &what, e);
    if (!status) status = note(j, en, &found, e);
    if (!status) steps_say("submit", en->release, "%s %s", what, found.url);
    review_found_free(&found);
    return status;
}

/* One pass over the releases; a release that fails does not keep the others from being sent. */
static void send_all(struct job *j, bool push, bool *done)
{
    for (size_t i = 0; i < j->c.releases.len; i++) {
        struct entry en;
        struct err e;
        if ((!push && !done[i]) || steps_nothing(&j->steps, &j->c.releases.ptr[i])) continue;
        done[i] = !prepare(j, &j->c.releases.ptr[i], &en, &e) && !send_one(j, &en, push, &e);
        if (!done[i]) {
            fprintf(stderr, "concord: %s: %s\n", j->c.releases.ptr[i].branch, e.text);
            j->failed++;
        }
        buf_free(&en.body);
        if (proc_interrupted) return;
    }
}

/* Twice: a review can name the others only when they are there. */
static int send(struct job *j)
{
    struct err e;
    bool *done = xcalloc(j->c.releases.len + 1, sizeof *done);
    if (forge_token(&j->session, &e)) die("%s", e.text);
    proc_catch_signals();
    send_all(j, true, done);
    if (!proc_interrupted && j->c.releases.len > 1) send_all(j, false, done);
    free(done);
    if (j->failed)
        fprintf(stderr, "concord: %zu requests failed: the same command goes on with what is left\n",
                j->failed);
    return j->failed || proc_interrupted ? EXIT_FINDINGS : EXIT_OK;
}

static int show_all(struct job *j)
{
    for (size_t i = 0; i < j->c.releases.len; i++) {
        struct entry en;
        struct err e;
        if (steps_nothing(&j->steps, &j->c.releases.ptr[i])) continue;
        if (prepare(j, &j->c.releases.ptr[i], &en, &e)) return err_report(&e);
        show(j, &en);
        buf_free(&en.body);
    }
    printf("dry run: nothing was sent; --send sends it, with the token of %s\n", j->session.forge->variable);
    return EXIT_OK;
}

/* ---- the command ------------------------------------------------------------------------------------- */

static void check_places(const struct job *j)
{
    if (!first(j->o->repository, j->c.review.repository))
        die("%s: no repository to open reviews in: set review.repository, or give --repository OWNER/NAME",
            j->c.path);
    if (!first(j->o->fork, j->c.review.fork))
        die("%s: no fork to push to: set review.fork, or give --fork OWNER/NAME", j->c.path);
}

static void open_job(struct job *j, const char *file)
{
    struct err e;
    if (campaign_load(file, &j->c, &e) || campaign_select(&j->c, &j->o->versions, NULL, &e) ||
        steps_open(&j->steps, &j->c, j->o->plugin, j->o->work, &e))
        die("%s", e.text);
    check_places(j);
    if (steps_model_open(&j->steps, &j->model, &e) ||
        forge_open(&j->session, (enum forge_id)j->c.review.forge, first(j->o->api, j->c.review.api), &e))
        die("%s", e.text);
    j->title = steps_title(&j->c);
}

static void close_job(struct job *j)
{
    forge_close(&j->session);
    steps_model_close(&j->model);
    steps_close(&j->steps);
    campaign_free(&j->c);
    free(j->title);
}

int cmd_submit(int argc, char **argv)
{
    struct options o = {0};
    struct job j = {.o = &o};
    const struct opt opts[] = {
        {0, "send", OPT_FLAG, &o.send, NULL, "push and open; without it, only show what would be sent"},
        {0, "versions", OPT_LIST, &o.versions, "V,...", "only these releases"},
        {'p', "plugin", OPT_STRING, &o.plugin, "DIR", "clone of the plugin's repository"},
        {'w', "work", OPT_STRING, &o.work, "DIR", "folder of facts and results ($CONCORD_HOME/work/NAME)"},
        {0, "repository", OPT_STRING, &o.repository, "OWNER/NAME", "where reviews are opened"},
        {0, "fork", OPT_STRING, &o.fork, "OWNER/NAME", "the fork that branches are pushed to"},
        {0, "push", OPT_STRING, &o.push, "REMOTE", "remote or URL of the fork (the remote named fork)"},
        {0, "issue", OPT_STRING, &o.issue, "URL", "the task issue"},
        {0, "api", OPT_STRING, &o.api, "URL", "base URL of the forge's API"},
        {0, "replace", OPT_FLAG, &o.replace, NULL, "replace the fork's branch when it has other commits"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"submit CAMPAIGN [--send] [options]",
                        "Pushes the branches to the fork and opens or updates one review each, linked with "
                        "each other and the issue. The token comes from the environment (GITCODE_TOKEN, "
                        "GITEE_TOKEN, GITHUB_TOKEN, GITLAB_TOKEN) or a git credential helper.",
                        opts});
    if (argc != 2) die("submit: give one campaign file, e.g. campaigns/utils-checkpoint.yaml");
    open_job(&j, argv[1]);
    int status = o.send ? send(&j) : show_all(&j);
    close_job(&j);
    return status;
}
