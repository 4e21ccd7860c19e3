/* verify.c - the step that runs the cases: `concord verify`, resumed where it was interrupted. */
#include "concord/report/report.h"
#include "concord/run/journal.h"
#include "concord/steps/private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *journal_of(const struct steps *s)
{
    return s->journal ? xstrdup(s->journal) : journal_path(s->campaign->name);
}

json_t *inputs_verify(const struct steps *s, const struct campaign_release *release)
{
    char digest[65] = "";
    (void)release;
    json_t *names = json_array();
    for (size_t i = 0; i < s->campaign->releases.len; i++)
        fact_append(names, json_string(s->campaign->releases.ptr[i].torch_npu));
    sha256_file(s->campaign->path, digest, NULL);
    return json_pack("{s:s, s:o, s:o, s:s}", "campaign", digest, "releases", names, "apis",
                     steps_texts(&s->campaign->apis), "device", s->device ? s->device : "");
}

/* ---- the run that a fact names ----------------------------------------------------------------------- */

int steps_load_run(const struct steps *s, struct run_record *record, struct err *e)
{
    const json_t *fact = dossier_get(&s->dossier, "verify", NULL);
    struct journal *j;
    if (!fact) return err_set(e, "%s: no run yet: run the step verify first", s->campaign->path);
    if (journal_open_readonly(fact_text(fact, "journal"), &j, e)) return -1;
    int status = journal_load(j, json_integer_value(json_object_get(fact, "run")), record, e);
    journal_close(j);
    return status;
}

static int load_last(const char *journal, const char *campaign, struct run_record *record, struct err *e)
{
    struct journal *j;
    int64_t run;
    if (journal_open_readonly(journal, &j, e)) return -1;
    int status = journal_last_run(j, campaign, &run, e);
    if (!status && !run) status = err_set(e, "%s: no run of %s in it", journal, campaign);
    if (!status) status = journal_load(j, run, record, e);
    journal_close(j);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------- */

static bool same_names(const struct run_record *r, const struct campaign *c)
{
    bool same = r->releases.len == c->releases.len;
    for (size_t i = 0; same && i < r->releases.len; i++)
        same = !strcmp(r->releases.ptr[i].name, c->releases.ptr[i].torch_npu);
    return same;
}

/* The last run was interrupted, and it was this one. */
static bool interrupted(const struct steps *s, const char *journal)
{
    char digest[65];
    struct run_record r;
    if (!path_exists(journal) || load_last(journal, s->campaign->name, &r, NULL)) return false;
    bool yes = !record_complete(&r) && !sha256_file(s->campaign->path, digest, NULL) &&
               !strcmp(digest, r.digest) && same_names(&r, s->campaign) &&
               !strcmp(r.choice, s->device ? s->device : device_choice_names[s->campaign->device]);
    run_record_free(&r);
    return yes;
}

static void add_list(strings *argv, const char *option, struct buf *list)
{
    if (list->len) {
        *vec_push(argv) = xstrdup(option);
        *vec_push(argv) = xstrdup(buf_str(list));
    }
    buf_free(list);
}

static void add_option(strings *argv, const char *option, const char *value)
{
    if (!value) return;
    *vec_push(argv) = xstrdup(option);
    *vec_push(argv) = xstrdup(value);
}

char *steps_self(void)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    return n > 0 ? xstrndup(self, (size_t)n) : xstrdup("concord");
}

/* The command, as the report shows it for repeating the run. */
static void make_command(const struct steps *s, const char *journal, strings *argv)
{
    struct buf releases = BUF_INIT, apis = BUF_INIT;
    *vec_push(argv) = steps_self();
    *vec_push(argv) = xstrdup("verify");
    *vec_push(argv) = xstrdup(s->campaign->path);
    for (size_t i = 0; i < s->campaign->releases.len; i++)
        buf_addf(&releases, "%s%s", i ? "," : "", s->campaign->releases.ptr[i].torch_npu);
    for (size_t i = 0; i < s->campaign->apis.len; i++)
        buf_addf(&apis, "%s%s", i ? "," : "", s->campaign->apis.ptr[i]);
    add_list(argv, "--versions", &releases);
    add_list(argv, "--api", &apis);
    add_option(argv, "--device", s->device);
    add_option(argv, "--toolkit", s->toolkit);
    add_option(argv, "--journal", s->journal);
    if (interrupted(s, journal)) *vec_push(argv) = xstrdup("--resume");
}

static int run_verify(const struct steps *s, const char *journal, struct err *e)
{
    strings argv = {0};
    struct proc_result r;
    make_command(s, journal, &argv);
    *vec_push(&argv) = NULL;
    const struct proc_spec spec = {.argv = (const char *const *)argv.ptr, .inherit = true};
    int status = proc_run(&spec, &r, e);
    if (!status && (r.status < 0 || r.status == EXIT_USAGE))
        status = err_set(e, "the step verify could not run: see the line above");
    if (!status) proc_result_free(&r);
    argv.len--;
    strings_free(&argv);
    return status;
}

static json_t *run_fact(const char *journal, const struct run_record *record)
{
    int total, passed = record_passed(record, &total);
    char digest[65], *full = realpath(journal, NULL);
    report_run_digest(record, digest);
    json_t *body = json_pack("{s:s, s:I, s:s, s:i, s:i, s:i, s:s}", "journal", full ? full : journal, "run",
                             (json_int_t)record->id, "digest", digest, "cells", total, "passed", passed,
                             "cases", (int)record->cases.len, "command", record->command);
    free(full);
    return body;
}

int step_verify(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct run_record record;
    char *journal = journal_of(s);
    (void)release;
    int status = run_verify(s, journal, e);
    if (!status) status = load_last(journal, s->campaign->name, &record, e);
    if (!status) {
        bool complete = record_complete(&record);
        *body = complete ? run_fact(journal, &record) : NULL;
        bool all = *body && json_integer_value(json_object_get(*body, "passed")) ==
                                json_integer_value(json_object_get(*body, "cells"));
        if (!complete)
            status = err_set(e, "the run was interrupted: run the campaign again to go on");
        else
            status = all ? STEP_OK : STEP_FINDINGS;
        run_record_free(&record);
    }
    free(journal);
    return status;
}
