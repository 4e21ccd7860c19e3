/* test.c - concord test: runs whole suites, isolated, resumable, compared with the CPU. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/env/env.h"
#include "concord/suite/filter.h"
#include "concord/suite/place.h"
#include "concord/suite/render.h"
#include "concord/suite/sched.h"
#include "concord/suite/shard.h"
#include "concord/suite/slurm.h"
#include "concord/suite/spec.h"
#include "concord/suite/tree.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *release, *python, *plugin, *device, *toolkit, *isolate, *journal, *name, *only, *shard,
        *rerun, *expect, *patches, *want_torch;
    const char *json, *jsonl, *junit, *annotations, *plan, *executor, *slurm;
    strings files, sites, env, args, devices;
    int64_t jobs, timeout, file_timeout, run_timeout, start_timeout, memory, output, processes, descriptors,
        retries, shards;
    bool cpu, resume, go_on, wait, fail_fast, collect_only, quiet, update, no_torch;
};

/* What a run stands on; lives until the end of the command. */
struct setting {
    struct options o;
    char *command, **argv; /* argv: a copy, before options are taken out */
    strings operands;
    struct place place;
    char *folder; /* of the environment, "" for none */
    struct buf lock;
    struct store store;
    struct suite_run run;
    struct expectations expect;
    struct selection selection;
};

static char *command_text(int argc, char **argv)
{
    struct buf b = BUF_INIT;
    buf_adds(&b, "concord");
    for (int i = 0; i < argc; i++) buf_addf(&b, " %s", argv[i]);
    return buf_take(&b);
}

static int option_among(const char *option, const char *text, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(text, names[i])) return i;
    struct buf b = BUF_INIT;
    for (int i = 0; i < n; i++) buf_addf(&b, "%s%s", i ? ", " : "", names[i]);
    die("test: --%s %s: expected one of %s", option, text, b.ptr);
}

/* ---- environment ------------------------------------------------------------------------------------------
 */

static bool needs_torch(const struct setting *x)
{
    for (size_t i = 0; i < x->operands.len; i++) {
        const struct suite_row *row;
        char *folder = NULL;
        struct err e;
        if (spec_find(x->operands.ptr[i], &row, &folder, &e)) exit(err_report(&e));
        free(folder);
        if (row->torch) return true;
    }
    return *x->place.plugin;
}

static void use_release(struct setting *x)
{
    struct env_spec spec;
    struct err e;
    if (env_spec_known(x->o.release, &spec, &e)) exit(err_report(&e));
    if (env_create(&spec, 1, &(struct env_options){0}, &e) || !(x->folder = env_folder(&spec, &e)) ||
        env_lock_text(&spec, &x->lock, &e))
        exit(err_report(&e));
    x->place.python = path_join(x->folder, "bin/python");
    x->place.want_torch = xstrdup(spec.torch);
    x->place.want_plugin = xstrdup(spec.torch_npu);
    x->place.plugin = xstrdup(x->o.plugin ? x->o.plugin : "torch_npu");
    env_spec_free(&spec);
}

static void use_python(struct setting *x)
{
    x->place.python = xstrdup(x->o.python ? x->o.python : "python3");
    x->place.want_torch = xstrdup(x->o.want_torch ? x->o.want_torch : "");
    x->place.want_plugin = xstrdup("");
    x->place.plugin = xstrdup(x->o.plugin ? x->o.plugin : "");
    x->folder = xstrdup("");
    buf_adds(&x->lock, "");
}

static void choose_place(struct setting *x)
{
    struct err e;
    if (x->o.release && x->o.python) die("test: --release and --python: give one of them");
    x->o.release ? use_release(x) : use_python(x);
    x->place.device = xstrdup(x->o.device ? x->o.device : "auto");
    x->place.toolkit = xstrdup(x->o.toolkit ? x->o.toolkit : "");
    for (size_t i = 0; i < x->o.env.len; i++) *vec_push(&x->place.env) = xstrdup(x->o.env.ptr[i]);
    for (size_t i = 0; i < x->o.devices.len; i++) *vec_push(&x->place.devices) = xstrdup(x->o.devices.ptr[i]);
    x->place.torch = (needs_torch(x) || x->o.want_torch) && !x->o.no_torch;
    if (place_open(&x->place, &e)) exit(err_report(&e));
}

/* ---- plan -------------------------------------------------------------------------------------------------
 */

/* What decides results: a resumed run must have been begun with the same. */
static char *options_text(const struct setting *x)
{
    const struct options *o = &x->o;
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < x->operands.len; i++) buf_addf(&b, "%s ", x->operands.ptr[i]);
    buf_addf(&b,
             "| release %s python %s plugin %s isolate %s only %s shard %s rerun %s patches %s cpu %d "
             "retries %lld timeout %lld",
             o->release ? o->release : "", o->python ? o->python : "", o->plugin,
             o->isolate ? o->isolate : "case", o->only ? o->only : "", o->shard ? o->shard : "",
             o->rerun ? o->rerun : "", o->patches ? o->patches : "", o->cpu, (long long)o->retries,
             (long long)o->timeout);
    const strings *lists[] = {&o->files, &o->sites, &o->env, &o->args};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t k = 0; k < lists[i]->len; k++) buf_addf(&b, " %s", lists[i]->ptr[k]);
    return buf_take(&b);
}

static char *default_name(const struct setting *x)
{
    char *folder = NULL;
    const struct suite_row *row;
    struct err e;
    if (spec_find(x->operands.ptr[0], &row, &folder, &e)) exit(err_report(&e));
    const char *slash = strrchr(folder, '/');
    char *name = xformat("%s-%s", row->name, slash && slash[1] ? slash + 1 : "root");
    free(folder);
    return name;
}

static void add_units(struct setting *x, const char *operand, const char *salt)
{
    struct err e;
    const struct suite_row *row;
    char *folder;
    if (spec_find(operand, &row, &folder, &e)) exit(err_report(&e));
    strings sites = {0};
    for (size_t i = 0; i < x->o.sites.len; i++) *vec_push(&sites) = realpath(x->o.sites.ptr[i], NULL);
    for (size_t i = 0; i < sites.len; i++)
        if (!sites.ptr[i]) die("test: --site %s: no such folder", x->o.sites.ptr[i]);
    if (!sites.len) {
        char *site = spec_site(row, x->place.python, &e);
        if (!site) exit(err_report(&e));
        if (*site) *vec_push(&sites) = xstrdup(site);
        free(site);
    }
    struct tree_report patched = {0};
    if (x->o.patches && tree_patch(folder, x->o.patches, &x->o.files, x->store.sql.path, &patched, &e))
        exit(err_report(&e));
    struct spec_request q = {.operand = operand,
                             .files = &x->o.files,
                             .args = &x->o.args,
                             .sites = &sites,
                             .patched = patched.folder,
                             .salt = salt,
                             .cpu = x->o.cpu};
    if (spec_units(&q, &x->run, &e)) exit(err_report(&e));
    tree_mark(&patched, row->subfolder, &x->run);
    tree_report_free(&patched);
    strings_free(&sites);
    free(folder);
}

static json_t *host_facts(const struct setting *x)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return json_pack("{s:s, s:I, s:o}", "host", name, "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                     "place", place_json(&x->place));
}

static void new_run(struct setting *x, const char *name)
{
    struct err e;
    char *salt = xformat("%s %s %s", CONCORD_VERSION, x->o.release ? x->o.release : x->place.python,
                         buf_str(&x->lock));
    x->run = (struct suite_run){.name = xstrdup(name),
                                .command = xstrdup(x->command),
                                .options = options_text(x),
                                .version = xstrdup(CONCORD_VERSION),
                                .finished = xstrdup(""),
                                .shard = xstrdup(x->o.shard ? x->o.shard : ""),
                                .host = host_facts(x),
                                .release = xstrdup(x->o.release ? x->o.release : ""),
                                .env = xstrdup(x->folder),
                                .lock = xstrdup(buf_str(&x->lock))};
    for (size_t i = 0; i < x->operands.len; i++) add_units(x, x->operands.ptr[i], salt);
    free(salt);
    if (store_begin(&x->store, &x->run, &e) || store_commit(&x->store, &e)) exit(err_report(&e));
}

static void resume_run(struct setting *x)
{
    struct err e;
    int64_t last;
    char *options = options_text(x);
    if (store_last(&x->store, &last, &e)) exit(err_report(&e));
    if (!last) die("%s: no run to resume: leave out --resume", x->store.sql.path);
    if (store_load(&x->store, last, &x->run, &e)) exit(err_report(&e));
    if (strcmp(options, x->run.options) != 0)
        die("%s: the run to resume was `%s`: give the same suites and options", x->store.sql.path,
            x->run.command);
    if (selection_unchanged(&x->run, &e)) exit(err_report(&e));
    store_replan(&x->run);
    free(options);
}

static bool has_unfinished(struct setting *x)
{
    struct err e;
    int64_t last;
    struct suite_run r;
    if (store_last(&x->store, &last, &e) || (last && store_load(&x->store, last, &r, &e)))
        exit(err_report(&e));
    if (!last) return false;
    bool finished = *r.finished;
    suite_run_free(&r);
    if (finished) die("%s: the run is finished: nothing to go on with", x->store.sql.path);
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------
 */

static int jobs_of(const struct options *o)
{
    if (o->jobs > 0) return (int)o->jobs;
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static FILE *stream_of(const char *path)
{
    if (!path) return NULL;
    if (!strcmp(path, "-")) return stdout;
    FILE *f = fopen(path, "ae");
    if (!f) die("test: --jsonl %s: cannot be written", path);
    return f;
}

static int run_here(struct setting *x, struct err *e)
{
    const struct options *o = &x->o;
    struct monitor monitor;
    FILE *stream = stream_of(o->jsonl);
    struct sched_options so = {.jobs = jobs_of(o),
                               .isolation = (enum isolation)option_among(
                                   "isolate", o->isolate ? o->isolate : "case", isolation_names, ISOLATIONS),
                               .case_ms = o->timeout * 1000,
                               .file_ms = o->file_timeout * 1000,
                               .run_ms = o->run_timeout * 1000,
                               .start_ms = o->start_timeout * 1000,
                               .memory_mib = o->memory,
                               .output_mib = o->output,
                               .processes = o->processes,
                               .files = o->descriptors,
                               .retries = (int)o->retries,
                               .fail_fast = o->fail_fast,
                               .harness = x->place.harness,
                               .crash_library = x->place.crash_library};
    struct sched s = {.options = &so,
                      .store = &x->store,
                      .run = &x->run,
                      .expect = o->expect ? &x->expect : NULL,
                      .monitor = &monitor,
                      .wanted = selection_active(&x->selection) ? selection_wants : NULL,
                      .context = &x->selection,
                      .collect_only = o->collect_only};
    for (int side = 0; side < SIDES; side++) place_side(&x->place, (enum side)side, &s.sides[side]);
    monitor_begin(&monitor, &x->run, o->quiet, stream);
    int status = store_estimates(&x->store, &x->run, e);
    if (!status && o->shard) status = shard_plan(&s, &x->selection, o->shard, o->plan, e);
    if (!status) status = sched_run(&s, e);
    if (stream && stream != stdout) fclose(stream);
    return status;
}

static int report(struct setting *x, int status)
{
    struct err e;
    const struct options *o = &x->o;
    int64_t id = x->run.id;
    suite_run_free(&x->run);
    if (store_load(&x->store, id, &x->run, &e))
        return err_report(&e); /* what is reported is what is durable */
    struct render_request q = {.json = o->json, .junit = o->junit, .annotations = o->annotations};
    if (render_all(&x->run, &q, &e)) return err_report(&e);
    if (status == 1) {
        fprintf(stderr, "concord: stopped before the end: the same command with --resume goes on\n");
        return EXIT_FINDINGS;
    }
    if (o->update) {
        int added, removed;
        if (expect_update(&x->expect, &x->run, &added, &removed, &e)) return err_report(&e);
        fprintf(stderr, "%s: %d row(s) added, %d removed\n", o->expect, added, removed);
    }
    return o->collect_only ? EXIT_OK : suite_status(&x->run);
}

static void open_selection(struct setting *x)
{
    struct err e;
    const struct options *o = &x->o;
    if (o->expect && expect_load(o->expect, !o->update, &x->expect, &e)) exit(err_report(&e));
    if (o->update && !o->expect) die("test: --update-expectations needs --expect FILE");
    if (selection_open(&x->selection, o->only, o->rerun, &x->store, &e)) exit(err_report(&e));
}

/* ---- on a cluster
 * ------------------------------------------------------------------------------------------ */

/* Options of this process, not of the shards; each has a value unless it is a flag. */
static bool is_ours(const char *word, bool *value)
{
    static const char *const with_value[] = {"--executor", "--shards", "--slurm", "--journal",
                                             "--json",     "--jsonl",  "--junit", "--annotations"};
    static const char *const flags[] = {"--resume", "--continue", "--wait", "--quiet", "-q"};
    size_t n = strcspn(word, "=");
    for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++) {
        if (strlen(with_value[i]) != n || strncmp(word, with_value[i], n) != 0) continue;
        *value = word[n] != '=';
        return true;
    }
    *value = false;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(word, flags[i])) return true;
    return false;
}

static void shard_arguments(char *const *argv, strings *out, strings *behind)
{
    bool engine = false, value;
    for (int i = 1; argv[i]; i++) {
        engine |= !strcmp(argv[i], "--");
        if (engine)
            *vec_push(behind) = xstrdup(argv[i]);
        else if (is_ours(argv[i], &value))
            i += value;
        else
            *vec_push(out) = xstrdup(argv[i]);
    }
}

static int plan_shards(struct setting *x, const char *folder, int shards, struct err *e)
{
    char *plan = path_join(folder, "plan.json"), *journal = path_join(folder, "plan.db"),
         *first = xformat("1/%d", shards);
    int status = dir_make(folder, e);
    if (!status && !path_exists(plan)) {
        x->o.plan = plan;
        x->o.shard = first;
        x->o.collect_only = true;
        status = store_open(&x->store, journal, true, e);
        if (!status) {
            open_selection(x);
            new_run(x, "plan");
            status = run_here(x, e) < 0 ? -1 : 0;
            suite_run_free(&x->run);
            store_close(&x->store);
        }
        x->o.plan = x->o.shard = NULL;
        x->o.collect_only = false;
    }
    free(plan);
    free(journal);
    free(first);
    return status;
}

static int run_slurm(struct setting *x, const char *name, const char *path)
{
    struct err e;
    char *folder = xformat("%s.slurm", path);
    int shards = x->o.shards > 0 ? (int)x->o.shards : 4;
    strings arguments = {0}, engine = {0};
    shard_arguments(x->argv, &arguments, &engine);
    struct slurm_request q = {.folder = folder,
                              .journal = path,
                              .name = name,
                              .shards = shards,
                              .arguments = &arguments,
                              .engine = &engine,
                              .options = x->o.slurm,
                              .quiet = x->o.quiet};
    int status =
        path_exists(path)
            ? err_set(&e, "%s: is there already: name another journal for a run on the cluster", path)
            : plan_shards(x, folder, shards, &e);
    if (!status) status = slurm_run(&q, &e);
    if (!status) status = store_open_readonly(&x->store, path, &e);
    if (!status) x->run.id = 1;
    int code = status < 0 ? err_report(&e) : status ? EXIT_FINDINGS : report(x, 0);
    if (status == 1) fprintf(stderr, "concord: interrupted: the same command goes on\n");
    if (!status) store_close(&x->store);
    strings_free(&arguments);
    strings_free(&engine);
    free(folder);
    return code;
}

static int run_test(struct setting *x)
{
    struct err e;
    char *name = x->o.name ? xstrdup(x->o.name) : default_name(x);
    char *path = x->o.journal ? xstrdup(x->o.journal) : store_path(name);
    choose_place(x);
    static const char *const executors[] = {"local", "slurm"};
    if (x->o.executor && option_among("executor", x->o.executor, executors, 2)) {
        int code = run_slurm(x, name, path);
        free(name);
        free(path);
        return code;
    }
    if (store_open(&x->store, path, x->o.wait, &e)) return err_report(&e);
    open_selection(x);
    x->o.resume || (x->o.go_on && has_unfinished(x)) ? resume_run(x) : new_run(x, name);
    int status = run_here(x, &e);
    int code = status < 0 ? err_report(&e) : report(x, status);
    store_close(&x->store);
    free(name);
    free(path);
    return code;
}

/* What stands behind "--" is the engine's. */
static int split_args(int argc, char **argv, strings *args)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") != 0) continue;
        for (int k = i + 1; k < argc; k++) *vec_push(args) = xstrdup(argv[k]);
        argv[i] = NULL;
        return i;
    }
    return argc;
}

int cmd_test(int argc, char **argv)
{
    struct setting x = {.o = {.timeout = 300, .start_timeout = 600, .output = 64, .processes = 256}};
    struct options *o = &x.o;
    const struct opt opts[] = {
        {0, "release", OPT_STRING, &o->release, "V",
         "torch_npu release: its environment is made where needed"},
        {0, "python", OPT_STRING, &o->python, "FILE", "this interpreter instead, without a device"},
        {0, "expect-torch", OPT_STRING, &o->want_torch, "V", "with --python: refuse another torch"},
        {0, "plugin", OPT_STRING, &o->plugin, "MODULE",
         "module that provides the device (torch_npu with --release)"},
        {0, "no-torch", OPT_FLAG, &o->no_torch, NULL, "do not import torch before the tests"},
        {0, "device", OPT_STRING, &o->device, "KIND", "auto, hardware or software"},
        {0, "devices", OPT_LIST, &o->devices, "N,...", "boards to use, a group of workers each"},
        {0, "toolkit", OPT_STRING, &o->toolkit, "DIR", "CANN toolkit: the folder with set_env.sh"},
        {0, "cpu", OPT_FLAG, &o->cpu, NULL, "run the CPU twin of each test too, and compare"},
        {0, "patches", OPT_STRING, &o->patches, "DIR",
         "patches for the device side, applied to a private copy"},
        {0, "files", OPT_LIST, &o->files, "PATTERN,...", "only files whose name below the folder matches"},
        {0, "only", OPT_STRING, &o->only, "EXPR",
         "only tests that match, e.g. 'file=test_nn.py and not conv'"},
        {0, "rerun", OPT_STRING, &o->rerun, "EXPR",
         "only what matched in the last run; 'failed' for all that was bad"},
        {0, "shard", OPT_STRING, &o->shard, "I/N", "the I-th of N parts of about the same time"},
        {0, "plan", OPT_STRING, &o->plan, "FILE",
         "the parts, written by the first that needs them, read by the others"},
        {'j', "jobs", OPT_INT, &o->jobs, "N", "tests at a time (number of processors)"},
        {0, "isolate", OPT_STRING, &o->isolate, "WHAT",
         "case: a process a test; file: a file; fresh: an interpreter a test"},
        {0, "timeout", OPT_INT, &o->timeout, "SECONDS", "limit of one test (300)"},
        {0, "file-timeout", OPT_INT, &o->file_timeout, "SECONDS", "limit of one file (none)"},
        {0, "run-timeout", OPT_INT, &o->run_timeout, "SECONDS", "stop after this long; --resume goes on"},
        {0, "start-timeout", OPT_INT, &o->start_timeout, "SECONDS",
         "limit of importing and of collecting a file (600)"},
        {0, "memory", OPT_INT, &o->memory, "MIB", "memory of one test and its children (no limit)"},
        {0, "output", OPT_INT, &o->output, "MIB", "output of one test (64); 128 KiB of it are kept"},
        {0, "processes", OPT_INT, &o->processes, "N", "processes of one test at a time (256)"},
        {0, "descriptors", OPT_INT, &o->descriptors, "N", "open files of one test (as found)"},
        {0, "retries", OPT_INT, &o->retries, "N", "repeat what failed; what passes then is FLAKY (0)"},
        {0, "fail-fast", OPT_FLAG, &o->fail_fast, NULL, "stop at the first test that is bad"},
        {0, "site", OPT_LIST, &o->sites, "DIR,...",
         "put in front of sys.path instead of concord's own packages"},
        {0, "env", OPT_LIST, &o->env, "NAME=VALUE,...", "variables for the tests"},
        {0, "expect", OPT_STRING, &o->expect, "FILE", "what is known to fail, with reason and issue"},
        {0, "update-expectations", OPT_FLAG, &o->update, NULL, "rewrite that file for what this run saw"},
        {0, "collect-only", OPT_FLAG, &o->collect_only, NULL, "list the tests, run none"},
        {0, "resume", OPT_FLAG, &o->resume, NULL, "go on with the journal's last run"},
        {0, "continue", OPT_FLAG, &o->go_on, NULL,
         "go on with the last run if it is not finished, else begin one"},
        {0, "executor", OPT_STRING, &o->executor, "WHERE", "local, or slurm: a job array, one shard a task"},
        {0, "shards", OPT_INT, &o->shards, "N", "tasks of the job array (4)"},
        {0, "slurm", OPT_STRING, &o->slurm, "OPTIONS", "further options for sbatch, in one word"},
        {0, "journal", OPT_STRING, &o->journal, "FILE",
         "journal (default: $CONCORD_HOME/journal/tests/<name>.db)"},
        {0, "name", OPT_STRING, &o->name, "NAME", "the run's name"},
        {0, "wait", OPT_FLAG, &o->wait, NULL, "queue behind a run that has the journal"},
        {0, "json", OPT_STRING, &o->json, "FILE", "results as JSON; - is standard output"},
        {0, "jsonl", OPT_STRING, &o->jsonl, "FILE",
         "a JSON line for each test as it ends; - is standard output"},
        {0, "junit", OPT_STRING, &o->junit, "FILE", "results as JUnit XML"},
        {0, "annotations", OPT_STRING, &o->annotations, "FORGE",
         "github or gitcode: workflow commands on standard output"},
        {'q', "quiet", OPT_FLAG, &o->quiet, NULL, "no progress"},
        {0}};
    x.command = command_text(argc, argv);
    x.argv = xcalloc((size_t)argc + 1, sizeof *x.argv);
    memcpy(x.argv, argv, (size_t)argc * sizeof *argv);
    argc = split_args(argc, argv, &o->args);
    opt_parse(
        &argc, argv,
        &(struct usage){"test SUITE... [options] [-- ARGS for the engine]",
                        "Runs suites: a folder or file of pytest tests, unittest:DIR, upstream:DIR, "
                        "plugin:DIR, torchcts:DIR, "
                        "cases. Exit status 0 only if something ran, passed with proof, and nothing was bad.",
                        opts});
    if (argc < 2) die("test: give a suite, e.g. a folder of tests: `concord test --help` lists the kinds");
    for (int i = 1; i < argc; i++) *vec_push(&x.operands) = xstrdup(argv[i]);
    return run_test(&x);
}
