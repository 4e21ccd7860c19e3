/* run.c - concord run, concord status, concord branch: a campaign's steps in order, one of them, or none. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/steps/steps.h"

#include <stdlib.h>
#include <string.h>

struct options {
    strings versions, apis;
    const char *plugin, *upstream, *work, *from, *to, *device, *toolkit, *journal, *accept, *key;
    bool replace, again;
};

#define PLACE_OPTIONS(o)                                                                                      \
    {0, "versions", OPT_LIST, &(o).versions, "V,...", "only these releases"},                                 \
        {0, "api", OPT_LIST, &(o).apis, "NAME,...", "only these APIs"},                                       \
        {'p',         "plugin", OPT_STRING,                                                                   \
         &(o).plugin, "DIR",    "clone of the plugin's repository (the campaign's, where that is a folder)"}, \
        {'u',           "upstream", OPT_STRING,                                                               \
         &(o).upstream, "PLACE",    "upstream sources: folder, archive, clone or URL; {torch} is replaced"},  \
    {                                                                                                         \
        'w', "work", OPT_STRING, &(o).work, "DIR", "folder of facts and results ($CONCORD_HOME/work/NAME)"    \
    }

static enum step_id must_step(const char *option, const char *name, enum step_id otherwise)
{
    const char *names[STEP_COUNT];
    if (!name) return otherwise;
    int i = steps_find(name);
    if (i >= 0) return (enum step_id)i;
    for (int k = 0; k < STEP_COUNT; k++) names[k] = steps_table[k].name;
    const char *nearest = str_nearest(name, names, STEP_COUNT);
    die("%s %s: no such step%s%s%s: `concord status CAMPAIGN` lists them", option, name,
        nearest ? ": did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static void open_steps(const char *file, const struct options *o, struct campaign *c, struct steps *s)
{
    struct err e;
    if (campaign_load(file, c, &e) || campaign_select(c, &o->versions, &o->apis, &e)) exit(err_report(&e));
    if (steps_open(s, c, o->plugin, o->work, &e)) exit(err_report(&e));
    s->upstream = o->upstream;
    s->device = o->device;
    s->toolkit = o->toolkit;
    s->journal = o->journal;
    s->accept = o->accept;
    s->sign_key = o->key;
    s->replace = o->replace;
    s->again = o->again;
}

static int go(const char *file, const struct options *o, enum step_id from, enum step_id to)
{
    struct campaign c;
    struct steps s;
    struct err e;
    open_steps(file, o, &c, &s);
    proc_catch_signals();
    int outcome = steps_run(&s, from, to, &e);
    char *dir = xstrdup(s.dossier.dir);
    steps_close(&s);
    campaign_free(&c);
    if (outcome < 0) return err_report(&e);
    if (outcome == STEP_WAITS) printf("waiting for a person: run the campaign again when it is decided\n");
    if (outcome == STEP_FINDINGS) printf("stopped: what was found is in %s/report\n", dir);
    if (outcome == STEP_OK && to == STEP_pack)
        printf("ready: %s/report; `concord submit %s` shows what would be sent\n", dir, file);
    free(dir);
    return outcome == STEP_OK ? EXIT_OK : EXIT_FINDINGS;
}

int cmd_run(int argc, char **argv)
{
    struct options o = {0};
    const struct opt opts[] = {
        PLACE_OPTIONS(o),
        {0, "from", OPT_STRING, &o.from, "STEP", "begin here; what came before must be there"},
        {0, "to", OPT_STRING, &o.to, "STEP", "end after this step"},
        {0, "device", OPT_STRING, &o.device, "KIND", "auto, hardware or software (the campaign's otherwise)"},
        {0, "toolkit", OPT_STRING, &o.toolkit, "DIR", "CANN toolkit: the folder with set_env.sh"},
        {0, "journal", OPT_STRING, &o.journal, "FILE",
         "journal (default: $CONCORD_HOME/journal/<campaign>.db)"},
        {0, "accept", OPT_STRING, &o.accept, "REASON", "a person's word on what the adaption left"},
        {0, "sign", OPT_STRING, &o.key, "KEY", "ssh key that signs the evidence"},
        {0, "replace", OPT_FLAG, &o.replace, NULL, "replace branches that are there with another commit"},
        {0, "again", OPT_FLAG, &o.again, NULL, "run steps although nothing they stand on changed"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"run CAMPAIGN [options]",
                        "Does a campaign's steps in order: base, scan, adapt, audit, docs, verify, suite, "
                        "branch, report, review, pack. Steps whose inputs are unchanged are kept; where a "
                        "person must decide, it stops and says so.",
                        opts});
    if (argc != 2) die("run: give one campaign file, e.g. campaigns/utils-checkpoint.yaml");
    enum step_id from = must_step("--from", o.from, STEP_base), to = must_step("--to", o.to, STEP_pack);
    if (from > to) die("run: --from %s comes after --to %s", o.from, o.to);
    return go(argv[1], &o, from, to);
}

int cmd_branch(int argc, char **argv)
{
    struct options o = {0};
    const struct opt opts[] = {
        PLACE_OPTIONS(o),
        {0, "replace", OPT_FLAG, &o.replace, NULL, "replace branches that are there with another commit"},
        {0, "again", OPT_FLAG, &o.again, NULL, "make them although nothing changed"},
        {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"branch CAMPAIGN [options]",
                        "Makes one branch with one commit per release in the clone, from the evidence of "
                        "`concord run`; refuses where the evidence does not allow it. The work tree is not "
                        "touched.",
                        opts});
    if (argc != 2) die("branch: give one campaign file, e.g. campaigns/utils-checkpoint.yaml");
    return go(argv[1], &o, STEP_branch, STEP_branch);
}

/* ---- status ------------------------------------------------------------------------------------------ */

static const char *state_of(const struct steps *s, enum step_id id, const struct campaign_release *release)
{
    const json_t *fact = dossier_get(&s->dossier, steps_table[id].name, release ? release->torch_npu : NULL);
    json_t *inputs = steps_table[id].inputs(s, release);
    bool always = !inputs;
    json_decref(inputs);
    static const char *const ends[] = {
        [STEP_FINDINGS] = "done, with findings", [STEP_WAITS] = "waits for a person"};
    if (!fact) return "to do";
    json_int_t outcome = json_integer_value(json_object_get(fact, "outcome"));
    if (outcome == STEP_FINDINGS || outcome == STEP_WAITS) return ends[outcome];
    return always || steps_fresh(s, id, release) ? "done" : "outdated";
}

static void print_step(const struct steps *s, enum step_id id)
{
    const struct step *step = &steps_table[id];
    if (!step->each) {
        printf("%-7s %-10s %-20s %s\n", step->name, "", state_of(s, id, NULL), step->what);
        return;
    }
    for (size_t i = 0; i < s->campaign->releases.len; i++) {
        const struct campaign_release *release = &s->campaign->releases.ptr[i];
        printf("%-7s %-10s %-20s %s\n", i ? "" : step->name, release->torch_npu, state_of(s, id, release),
               i ? "" : step->what);
    }
}

int cmd_status(int argc, char **argv)
{
    struct options o = {0};
    struct campaign c;
    struct steps s;
    const struct opt opts[] = {PLACE_OPTIONS(o), {0}};
    opt_parse(
        &argc, argv,
        &(struct usage){"status CAMPAIGN [options]", "Says which of a campaign's steps are done.", opts});
    if (argc != 2) die("status: give one campaign file, e.g. campaigns/utils-checkpoint.yaml");
    open_steps(argv[1], &o, &c, &s);
    printf("%s: facts in %s\n", c.name, s.dossier.dir);
    for (int id = 0; id < STEP_COUNT; id++) print_step(&s, (enum step_id)id);
    steps_close(&s);
    campaign_free(&c);
    return EXIT_OK;
}
