/* slurm.c - submits, watches, submits again, merges. */
#include "concord/suite/slurm.h"
#include "concord/suite/merge.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ROUNDS = 4 };

static char *shard_journal(const struct slurm_request *q, int shard)
{
    return xformat("%s/shard-%d.db", q->folder, shard);
}

/* For a shell: in single quotes. */
static void quote(struct buf *out, const char *text)
{
    buf_addc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_adds(out, "'\\''");
        else
            buf_addc(out, *text);
    }
    buf_addc(out, '\'');
}

/* A requeued or resubmitted task finds its journal and goes on. */
static int write_script(const struct slurm_request *q, const char *path, struct err *e)
{
    char exe[4096], here[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0 || !getcwd(here, sizeof here)) return err_set(e, "cannot tell where this program is");
    exe[n] = '\0';
    struct buf b = BUF_INIT;
    buf_addf(&b, "#!/bin/sh\n#SBATCH --requeue\n#SBATCH --open-mode=append\ncd ");
    quote(&b, here);
    buf_adds(&b, " || exit 2\nexec ");
    quote(&b, exe);
    buf_adds(&b, " test");
    for (size_t i = 0; i < q->arguments->len; i++) {
        buf_addc(&b, ' ');
        quote(&b, q->arguments->ptr[i]);
    }
    char *plan = path_join(q->folder, "plan.json"), *journal = path_join(q->folder, "shard-");
    buf_addf(&b, " --shard \"$SLURM_ARRAY_TASK_ID/%d\" --plan ", q->shards);
    quote(&b, plan);
    buf_adds(&b, " --journal ");
    quote(&b, journal);
    buf_adds(&b, "\"$SLURM_ARRAY_TASK_ID.db\" --continue --wait --quiet");
    for (size_t i = 0; i < q->engine->len; i++) {
        buf_addc(&b, ' ');
        quote(&b, q->engine->ptr[i]);
    }
    buf_addc(&b, '\n');
    int status = file_write(path, b.ptr, b.len, 0755, e);
    buf_free(&b);
    free(plan);
    free(journal);
    return status;
}

/* Finished, and how many of its cases are done. */
static bool shard_state(const struct slurm_request *q, int shard, int *done)
{
    struct store s;
    struct suite_run r;
    int64_t last;
    bool finished = false;
    char *path = shard_journal(q, shard);
    if (path_exists(path) && !store_open_readonly(&s, path, NULL)) {
        if (!store_last(&s, &last, NULL) && last && !store_load(&s, last, &r, NULL)) {
            struct suite_counts n[SIDES];
            for (int side = 0; side < SIDES; side++) suite_count(&r, NULL, (enum side)side, &n[side]);
            *done += n[SIDE_DEVICE].done + n[SIDE_CPU].done;
            finished = *r.finished;
            suite_run_free(&r);
        }
        store_close(&s);
    }
    free(path);
    return finished;
}

/* "2,5,7": the shards that are not finished; "" when all are. Owned. */
static char *unfinished(const struct slurm_request *q, int *done)
{
    struct buf b = BUF_INIT;
    *done = 0;
    for (int i = 1; i <= q->shards; i++)
        if (!shard_state(q, i, done)) buf_addf(&b, "%s%d", b.len ? "," : "", i);
    return buf_take(&b);
}

static int run_tool(const char *const *argv, struct buf *out, struct err *e)
{
    struct proc_result p;
    if (proc_run(&(struct proc_spec){.argv = argv, .timeout_ms = 60000}, &p, e))
        return err_wrap(e, "Slurm's %s", argv[0]);
    int status =
        p.status ? err_set(e, "%s: %.*s", argv[0], (int)strcspn(buf_str(&p.err), "\n"), buf_str(&p.err)) : 0;
    buf_clear(out);
    buf_add(out, buf_str(&p.out), p.out.len);
    proc_result_free(&p);
    return status;
}

static int submit(const struct slurm_request *q, const char *script, const char *shards, struct buf *job,
                  struct err *e)
{
    char *array = xformat("--array=%s", shards), *log = xformat("--output=%s/shard-%%a.log", q->folder);
    char *name = xformat("--job-name=concord-%s", q->name), *options = xstrdup(q->options ? q->options : ""),
         *rest = options, *word;
    VEC(const char *) argv = {0};
    const char *const fixed[] = {"sbatch", "--parsable", array, log, name};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) *vec_push(&argv) = fixed[i];
    while ((word = strsep(&rest, " ")))
        if (*word) *vec_push(&argv) = word;
    *vec_push(&argv) = script;
    *vec_push(&argv) = NULL;
    int status = run_tool(argv.ptr, job, e);
    if (!status && job->len) job->ptr[strcspn(job->ptr, ";\n")] = '\0';
    vec_free(&argv);
    char *owned[] = {array, log, name, options};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    return status;
}

/* Until no task of the array is in the queue. A controller that does not answer for a while is waited for. */
static int watch(const struct slurm_request *q, const char *job, struct err *e)
{
    enum { PATIENCE = 60 };
    struct buf out = BUF_INIT;
    const char *const argv[] = {"squeue", "-h", "-j", job, "-o", "%i %T", NULL};
    int64_t every = q->every_ms ? q->every_ms : 2000, said = 0;
    int failures = 0, done, status = 0;
    while (!proc_interrupted) {
        /* A job that left the controller's memory is an error of squeue, and over. */
        int failed = run_tool(argv, &out, e);
        if (failed && strstr(e->text, "Invalid job id")) break;
        if (failed && ++failures > PATIENCE) {
            status = -1;
            break;
        }
        if (!failed && !out.len) break;
        if (!failed) failures = 0;
        if (!q->quiet && now_ms() - said > 30000) {
            char *left = unfinished(q, &done);
            fprintf(stderr, "job %s: %d tests done, shards not finished: %s\n", job, done,
                    *left ? left : "none");
            free(left);
            said = now_ms();
        }
        usleep((useconds_t)every * 1000);
    }
    buf_free(&out);
    return status;
}

static int cancel(const char *job)
{
    struct buf out = BUF_INIT;
    const char *const argv[] = {"scancel", job, NULL};
    proc_interrupted = 0; /* or scancel would be ended at once */
    run_tool(argv, &out, NULL);
    buf_free(&out);
    return 1;
}

static int merge_all(const struct slurm_request *q, struct err *e)
{
    strings from = {0};
    for (int i = 1; i <= q->shards; i++) *vec_push(&from) = shard_journal(q, i);
    int status = merge_journals(q->journal, &from, e);
    strings_free(&from);
    return status;
}

int slurm_run(const struct slurm_request *q, struct err *e)
{
    char *script = path_join(q->folder, "shard.sh"), *left;
    struct buf job = BUF_INIT;
    int done, status = write_script(q, script, e);
    proc_catch_signals();
    for (int round = 0; !status && *(left = unfinished(q, &done)); round++) {
        if (round == MAX_ROUNDS)
            status = err_set(e, "shards %s did not finish in %d submissions: their logs are in %s", left,
                             MAX_ROUNDS, q->folder);
        if (!status) status = submit(q, script, left, &job, e);
        if (!status && !q->quiet)
            fprintf(stderr, "job %s: shards %s of %d\n", buf_str(&job), left, q->shards);
        free(left);
        left = NULL;
        if (!status) status = watch(q, buf_str(&job), e);
        if (!status && proc_interrupted) status = cancel(buf_str(&job));
    }
    if (!status) free(left);
    if (!status) status = merge_all(q, e);
    buf_free(&job);
    free(script);
    return status;
}
