/* verify.c - concord verify: runs a campaign's cases on its releases and says what passed, with proof. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/report/report.h"
#include "concord/run/runner.h"
#include "concord/run/table.h"

#include <stdlib.h>
#include <string.h>

struct options {
    strings versions, apis, cases;
    const char *device, *toolkit, *json, *journal;
    int64_t timeout, workers;
    bool resume, quiet;
};

/* The command as typed: what the report shows for repeating it. Owned. */
static char *command_text(int argc, char **argv)
{
    struct buf b = BUF_INIT;
    buf_adds(&b, "concord");
    for (int i = 0; i < argc; i++) buf_addf(&b, " %s", argv[i]);
    return buf_take(&b);
}

static enum device_choice parse_device(const char *text)
{
    for (int i = 0; i < NDEVICE_CHOICES; i++)
        if (!strcmp(device_choice_names[i], text)) return (enum device_choice)i;
    die("--device %s: expected auto, hardware or software", text);
}

static void load_campaign(const char *path, const struct options *o, struct campaign *c, struct plan *p,
                          struct plan_catalogue *catalogue)
{
    struct err e;
    char digest[65], *share = concord_share("harness/cases.tsv");
    if (campaign_load(path, c, &e) || campaign_select(c, &o->versions, &o->apis, &e)) exit(err_report(&e));
    if (o->device) c->device = parse_device(o->device);
    if (sha256_file(path, digest, &e) || plan_catalogue_load(share, catalogue, &e)) exit(err_report(&e));
    *p = (struct plan){.campaign = c, .digest = xstrdup(digest), .device = device_choice_names[c->device]};
    if (plan_choose_cases(p, catalogue, &o->cases, &e)) exit(err_report(&e));
    free(share);
}

static bool same_releases(const struct run_record *r, const struct campaign *c)
{
    bool same = r->releases.len == c->releases.len;
    for (size_t i = 0; same && i < r->releases.len; i++)
        same = !strcmp(r->releases.ptr[i].name, c->releases.ptr[i].torch_npu);
    return same;
}

static bool same_apis(const struct run_record *r, const struct plan *p)
{
    bool same = r->apis.len == p->apis.len;
    for (size_t i = 0; same && i < r->apis.len; i++) same = !strcmp(r->apis.ptr[i], p->apis.ptr[i]);
    return same;
}

/* What was asked for now, if anything, must be what the run was begun with. */
static bool same_selection(const struct run_record *r, const struct plan *p, const struct options *o)
{
    if (o->versions.len && !same_releases(r, p->campaign)) return false;
    if (o->apis.len && !same_apis(r, p)) return false;
    return !o->cases.len || r->cases.len == r->releases.len * p->cases.len;
}

/* The run to go on with; ends the program when there is none or when it is not the run that was asked for. */
static int64_t resumable(struct journal *j, const struct plan *p, const struct options *o)
{
    struct err e;
    int64_t run;
    struct run_record record;
    const struct campaign *c = p->campaign;
    if (journal_last_run(j, c->name, &run, &e)) exit(err_report(&e));
    if (!run) die("%s: no run to resume: leave out --resume", c->path);
    if (journal_load(j, run, &record, &e)) exit(err_report(&e));
    if (strcmp(record.digest, p->digest) != 0)
        die("%s: changed since the run that would be resumed (%s): start a new one without --resume", c->path,
            record.started);
    if (!same_selection(&record, p, o))
        die("%s: the run to resume was `%s`: give the same selection or none", c->path, record.command);
    if (strcmp(record.choice, p->device) != 0)
        die("%s: the run to resume has --device %s: give the same", c->path, record.choice);
    run_record_free(&record);
    if (journal_resume(j, run, &e)) exit(err_report(&e));
    return run;
}

static int finish(const struct run_record *record, const struct options *o, int status)
{
    struct err e;
    struct buf table = BUF_INIT;
    table_render(record, &table);
    fwrite(table.ptr, 1, table.len, o->json && !strcmp(o->json, "-") ? stderr : stdout);
    buf_free(&table);
    if (o->json && report_write_json(record, o->json, &e)) return err_report(&e);
    if (status) {
        fprintf(stderr, "concord: interrupted: `concord verify %s --resume` goes on\n", record->path);
        return EXIT_FINDINGS;
    }
    int total, passed = record_passed(record, &total);
    return passed == total ? EXIT_OK : EXIT_FINDINGS;
}

static int run_journal(struct runner *r, int64_t run, const struct options *o)
{
    struct err e;
    struct run_record record;
    if (journal_load(r->journal, run, &record, &e)) return err_report(&e);
    r->record = &record;
    int status = runner_run(r, &e);
    run_record_free(&record);
    if (status >= 0 && journal_load(r->journal, run, &record, &e))
        status = -1; /* what is reported is what is durable */
    int code = status < 0 ? err_report(&e) : finish(&record, o, status);
    run_record_free(&record);
    return code;
}

int cmd_verify(int argc, char **argv)
{
    struct options o = {0};
    const struct opt opts[] = {
        {0, "versions", OPT_LIST, &o.versions, "V,...", "only these releases"},
        {0, "api", OPT_LIST, &o.apis, "NAME,...", "only these APIs"},
        {0, "case", OPT_LIST, &o.cases, "PATTERN,...", "only cases whose name matches, e.g. 'dropout_*'"},
        {0, "device", OPT_STRING, &o.device, "KIND", "auto, hardware or software (the campaign's otherwise)"},
        {0, "toolkit", OPT_STRING, &o.toolkit, "DIR", "CANN toolkit: the folder with set_env.sh"},
        {0, "resume", OPT_FLAG, &o.resume, NULL, "go on with the campaign's last run"},
        {0, "timeout", OPT_INT, &o.timeout, "SECONDS", "limit of one case (the campaign's otherwise)"},
        {0, "workers", OPT_INT, &o.workers, "N", "releases side by side (the campaign's otherwise)"},
        {0, "json", OPT_STRING, &o.json, "FILE",
         "write the results as JSON (docs/report-schema.md); - is standard output"},
        {0, "journal", OPT_STRING, &o.journal, "FILE",
         "journal (default: $CONCORD_HOME/journal/<campaign>.db)"},
        {'q', "quiet", OPT_FLAG, &o.quiet, NULL, "no progress"},
        {0}};
    char *command = command_text(argc, argv);
    opt_parse(&argc, argv,
              &(struct usage){
                  "verify CAMPAIGN [options]",
                  "Runs every case of the campaign's APIs on the CPU and on the device of each release. Exit "
                  "status 0 only if every cell (API and release) PASSED with proof.",
                  opts});
    if (argc != 2) die("verify: give one campaign file, e.g. campaigns/utils-checkpoint.yaml");

    struct err e;
    struct campaign campaign;
    struct plan plan;
    struct plan_catalogue catalogue;
    struct device_setup setup;
    struct journal *journal;
    load_campaign(argv[1], &o, &campaign, &plan, &catalogue);
    if (probe_device((enum device_choice)campaign.device, o.toolkit, NULL, &setup, &e)) return err_report(&e);
    char *path = o.journal ? xstrdup(o.journal) : journal_path(campaign.name),
         *harness = concord_share("harness");
    if (journal_open(path, &journal, &e)) return err_report(&e);
    int64_t run = o.resume ? resumable(journal, &plan, &o) : 0;
    if (!run && journal_begin(journal, &plan, command, &run, &e)) return err_report(&e);
    struct runner runner = {.journal = journal,
                            .campaign = &campaign,
                            .setup = &setup,
                            .harness = harness,
                            .env = run_environments,
                            .case_timeout_ms =
                                o.timeout ? o.timeout * 1000 : campaign.executor.case_timeout_ms,
                            .start_timeout_ms = campaign.executor.start_timeout_ms,
                            .workers = (int)(o.workers ? o.workers : campaign.executor.workers),
                            .quiet = o.quiet};
    int code = run_journal(&runner, run, &o);
    journal_close(journal);
    device_setup_free(&setup);
    plan_free(&plan);
    plan_catalogue_free(&catalogue);
    campaign_free(&campaign);
    free(path);
    free(harness);
    free(command);
    return code;
}
