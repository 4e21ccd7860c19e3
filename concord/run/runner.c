/* runner.c - the loop over workers: one warm worker a release, several releases side by side. */
#include "concord/run/runner.h"
#include "concord/run/progress.h"
#include "concord/run/worker.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 64,
    MAX_RESTARTS = 3,        /* of one release's worker without a case done in between */
    ANSWER_GRACE_MS = 15000, /* the server enforces a case's limit; this is for a server that does not */
    TICK_MS = 200,
};
/* A worker with torch and its forked case, resident. */
static const int64_t worker_memory = 1500LL << 20;

struct slot {
    struct worker worker;
    struct release_record *release;
    struct case_record *current; /* NULL between cases and before the hello */
    bool active, greeted;
    int64_t deadline; /* for the hello or the current case */
    int restarts;
};

struct loop {
    struct runner *r;
    struct progress progress;
    struct slot slots[MAX_WORKERS];
    int nslots;
    size_t next_release;
};

int runner_workers(int asked, int releases, int cpus, int64_t memory_bytes)
{
    int n = asked;
    if (n <= 0) {
        n = cpus;
        if (memory_bytes / worker_memory < n) n = (int)(memory_bytes / worker_memory);
    }
    if (n > releases) n = releases;
    if (n > MAX_WORKERS) n = MAX_WORKERS;
    return n < 1 ? 1 : n;
}

static int64_t memory_available(void)
{
    struct buf b = BUF_INIT;
    int64_t kib = 4LL << 20;
    if (!file_read("/proc/meminfo", &b, NULL)) {
        const char *line = strstr(buf_str(&b), "MemAvailable:");
        if (line) kib = strtoll(line + strlen("MemAvailable:"), NULL, 10);
    }
    buf_free(&b);
    return kib << 10;
}

/* ---- cases ------------------------------------------------------------------------------------------- */

static struct case_record *next_case(const struct run_record *record, const struct release_record *release)
{
    for (size_t i = 0; i < record->cases.len; i++) {
        struct case_record *c = &record->cases.ptr[i];
        if (c->state == CASE_PLANNED && !strcmp(c->release, release->name)) return c;
    }
    return NULL;
}

static void set_text(char **field, char *owned)
{
    free(*field);
    *field = owned;
}

/* Takes over reason. */
static int conclude(struct loop *l, struct case_record *c, enum verdict v, char *reason, struct err *e)
{
    c->state = CASE_DONE;
    c->verdict = v;
    set_text(&c->reason, reason);
    return journal_case(l->r->journal, c, e);
}

/* What is left of the release cannot run. */
static int give_up(struct loop *l, struct release_record *release, const char *why, struct err *e)
{
    struct case_record *c;
    set_text(&release->error, xstrdup(why));
    progress_note(&l->progress, "%s: %s", release->name, why);
    if (journal_group(l->r->journal, e) || journal_release(l->r->journal, l->r->record->id, release, e))
        return -1;
    int status = 0;
    for (; !status && (c = next_case(l->r->record, release)); l->progress.done++, l->progress.bad++)
        status = conclude(l, c, VERDICT_ERROR, xstrdup(why), e);
    return status ? status : journal_commit(l->r->journal, e);
}

/* ---- a slot ------------------------------------------------------------------------------------------ */

static int open_slot(struct loop *l, struct slot *s, struct release_record *release, struct err *e)
{
    char *python = path_join(release->env, "bin/python");
    struct err why;
    int status = worker_start(&s->worker, l->r->setup, python, l->r->harness, &why);
    free(python);
    s->release = release;
    s->current = NULL;
    s->greeted = false;
    s->active = !status;
    s->deadline = now_ms() + l->r->start_timeout_ms;
    return status ? give_up(l, release, why.text, e) : 0;
}

static void close_slot(struct slot *s)
{
    if (s->active) worker_stop(&s->worker);
    s->active = false;
}

/* Marks the next case of the slot as running in the journal; none left is no error. */
static int mark_next(struct loop *l, struct slot *s, struct err *e)
{
    struct case_record *c = next_case(l->r->record, s->release);
    s->current = c;
    if (!c) return 0;
    char now[32];
    now_iso(now);
    c->state = CASE_RUNNING;
    c->attempts++;
    set_text(&c->started, xstrdup(now));
    return journal_case(l->r->journal, c, e);
}

/* Once that is durable: orders the marked case, or ends the worker when there was none. */
static void order_marked(struct loop *l, struct slot *s)
{
    const struct case_record *c = s->current;
    if (!c) {
        close_slot(s);
        return;
    }
    progress_running(&l->progress, c);
    json_t *tolerances = json_loads(l->r->record->tolerances, 0, NULL);
    char *id = xformat("%s::%s", c->api, c->name);
    json_t *order = json_pack("{s:I, s:s, s:s, s:f, s:o}", "run", (json_int_t)c->id, "case", id, "device",
                              "npu:0", "timeout", (double)l->r->case_timeout_ms / 1000.0, "tolerances",
                              tolerances ? tolerances : json_object());
    worker_send(&s->worker, order, NULL); /* a worker that is gone is noticed by its closed output */
    s->deadline = now_ms() + l->r->case_timeout_ms + ANSWER_GRACE_MS;
    json_decref(order);
    free(id);
}

/* ---- what workers say -------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* "2.12.0+cpu" is 2.12.0. */
static bool same_version(const char *found, const char *planned)
{
    size_t n = strlen(planned);
    return !strncmp(found, planned, n) && (!found[n] || found[n] == '+');
}

/* Why this worker must not be believed, NULL if it may. Owned. */
static char *mistrust(const struct release_record *release, const json_t *hello)
{
    const char *torch = text_of(hello, "torch"), *plugin = text_of(hello, "plugin_version");
    if (!same_version(torch, release->torch))
        return xformat("the environment has torch %s, not %s: remove it (concord env remove) and run again",
                       torch, release->torch);
    if (!same_version(plugin, release->name))
        return xformat(
            "the environment has torch_npu %s, not %s: remove it (concord env remove) and run again", plugin,
            release->name);
    if (release->kind == KIND_NONE)
        return xformat(
            "no device: the plugin loaded %s, which is not softnpu, and there is no /dev/davinci*: use "
            "--device software",
            *text_of(hello, "ascendcl") ? text_of(hello, "ascendcl") : "no libascendcl");
    return NULL;
}

static int on_hello(struct loop *l, struct slot *s, const json_t *hello, struct err *e)
{
    struct release_record *release = s->release;
    json_decref(release->hello);
    release->hello = json_deep_copy(hello);
    json_object_del(release->hello, "cases");
    release->kind = probe_label(hello);
    s->greeted = true;
    char *why = mistrust(release, hello);
    int status;
    if (why) {
        close_slot(s);
        status = give_up(l, release, why, e);
    } else {
        set_text(&release->error, xstrdup(""));
        status = journal_release(l->r->journal, l->r->record->id, release, e);
        if (!status) status = mark_next(l, s, e);
        if (!status) order_marked(l, s);
    }
    free(why);
    return status;
}

static void store_facts(struct case_record *c, const struct release_record *release, json_t *done)
{
    const json_t *proof = json_object_get(json_object_get(done, "result"), "proof");
    set_text(&c->output, xstrdup(text_of(done, "output")));
    set_text(&c->stack, xstrdup(text_of(done, "stack")));
    c->ms = json_number_value(json_object_get(done, "ms"));
    c->launches = json_integer_value(json_object_get(proof, "launches"));
    c->kind = release->kind;
    json_t *facts = json_copy(done);
    json_object_del(facts, "output");
    json_object_del(facts, "stack");
    char *text = json_dumps(facts, JSON_COMPACT);
    set_text(&c->facts, text ? text : xstrdup(""));
    json_decref(facts);
}

static int note_device(struct loop *l, struct release_record *release, const json_t *done, struct err *e)
{
    const char *name = text_of(json_object_get(json_object_get(done, "result"), "proof"), "device_name");
    if (!*name || !strcmp(name, release->device)) return 0;
    set_text(&release->device, xstrdup(name));
    return journal_release(l->r->journal, l->r->record->id, release, e);
}

/* The verdict and the mark of the next case are one transaction: half the fsyncs. */
static int on_done(struct loop *l, struct slot *s, json_t *done, struct err *e)
{
    struct case_record *c = s->current;
    if (!c || json_integer_value(json_object_get(done, "done")) != c->id) return 0;
    struct judgement j = verdict_judge(done, s->release->kind);
    store_facts(c, s->release, done);
    s->restarts = 0;
    if (journal_group(l->r->journal, e)) return -1;
    int status = conclude(l, c, j.verdict, j.reason, e);
    if (!status) status = note_device(l, s->release, done, e);
    if (!status) status = mark_next(l, s, e);
    if (!status) status = journal_commit(l->r->journal, e);
    if (status) return status;
    progress_done(&l->progress, c);
    order_marked(l, s);
    return 0;
}

static int on_line(struct loop *l, struct slot *s, json_t *message, struct err *e)
{
    json_t *hello = json_object_get(message, "hello");
    if (hello) return on_hello(l, s, hello, e);
    if (json_object_get(message, "done")) return on_done(l, s, message, e);
    return 0;
}

/* ---- when a worker ends or hangs --------------------------------------------------------------------- */

static char *how_it_ended(const struct slot *s, int status, const char *words)
{
    const char *when = s->current ? "during the case" : s->greeted ? "between cases" : "while it started";
    struct buf b = BUF_INIT;
    if (WIFSIGNALED(status))
        buf_addf(&b, "the worker was ended by SIG%s %s", sigabbrev_np(WTERMSIG(status)), when);
    else
        buf_addf(&b, "the worker ended with status %d %s", WEXITSTATUS(status), when);
    if (*words) buf_addf(&b, ": %s", words);
    return buf_take(&b);
}

static int restart(struct loop *l, struct slot *s, const char *why, struct err *e)
{
    if (!next_case(l->r->record, s->release)) return 0;
    if (!s->greeted || s->restarts >= MAX_RESTARTS) return give_up(l, s->release, why, e);
    s->restarts++;
    return open_slot(l, s, s->release, e);
}

static int on_gone(struct loop *l, struct slot *s, struct err *e)
{
    char *words = worker_last_words(&s->worker);
    /* The streams can close a moment before the process is gone by itself. */
    siginfo_t info = {0};
    for (int i = 0; i < 50 && !waitid(P_PID, (id_t)s->worker.pid, &info, WEXITED | WNOHANG | WNOWAIT); i++) {
        if (info.si_pid) break;
        usleep(10000);
    }
    int status = worker_stop(&s->worker);
    s->active = false;
    char *why = how_it_ended(s, status, words);
    int failed = 0;
    if (s->current) {
        s->current->kind = s->release->kind;
        failed =
            conclude(l, s->current, WIFSIGNALED(status) ? VERDICT_CRASHED : VERDICT_ERROR, xstrdup(why), e);
        if (!failed) progress_done(&l->progress, s->current);
    }
    if (!failed) failed = restart(l, s, why, e);
    free(why);
    free(words);
    return failed;
}

static int on_late(struct loop *l, struct slot *s, struct err *e)
{
    bool running = s->current != NULL;
    worker_stop(&s->worker);
    s->active = false;
    if (!running) return give_up(l, s->release, "the worker did not start in time", e);
    s->current->kind = s->release->kind;
    if (conclude(l, s->current, VERDICT_TIMEOUT, xstrdup("the worker did not answer"), e)) return -1;
    progress_done(&l->progress, s->current);
    return restart(l, s, "the worker did not answer", e);
}

/* ---- the loop ---------------------------------------------------------------------------------------- */

/* Fills free slots with releases that have something to run. */
static int fill(struct loop *l, struct err *e)
{
    struct run_record *record = l->r->record;
    for (int i = 0; i < l->nslots; i++) {
        while (!l->slots[i].active && l->next_release < record->releases.len) {
            struct release_record *release = &record->releases.ptr[l->next_release++];
            l->slots[i].restarts = 0;
            if (next_case(record, release) && open_slot(l, &l->slots[i], release, e)) return -1;
        }
    }
    return 0;
}

static int poll_slots(const struct loop *l)
{
    struct pollfd fds[2 * MAX_WORKERS];
    nfds_t n = 0;
    for (int i = 0; i < l->nslots; i++) {
        if (!l->slots[i].active) continue;
        fds[n++] = (struct pollfd){l->slots[i].worker.out, POLLIN, 0};
        fds[n++] = (struct pollfd){l->slots[i].worker.err, POLLIN, 0};
    }
    if (n) poll(fds, n, TICK_MS);
    return (int)n;
}

static int serve_slot(struct loop *l, struct slot *s, struct err *e)
{
    bool open = worker_read(&s->worker);
    json_t *message;
    int status = 0;
    while (!status && s->active && (message = worker_line(&s->worker))) {
        status = on_line(l, s, message, e);
        json_decref(message);
    }
    if (status || !s->active) return status;
    if (!open) return on_gone(l, s, e);
    return now_ms() > s->deadline ? on_late(l, s, e) : 0;
}

static int turn(struct loop *l, bool *busy, struct err *e)
{
    if (fill(l, e)) return -1;
    *busy = poll_slots(l) > 0;
    for (int i = 0; i < l->nslots; i++)
        if (l->slots[i].active && serve_slot(l, &l->slots[i], e)) return -1;
    return 0;
}

static const struct campaign_release *campaign_release_of(const struct campaign *c, const char *name)
{
    for (size_t i = 0; i < c->releases.len; i++)
        if (!strcmp(c->releases.ptr[i].torch_npu, name)) return &c->releases.ptr[i];
    return NULL;
}

static int take_answer(struct loop *l, struct release_record *release, struct env_request *q, struct err *e)
{
    if (!q->folder) return give_up(l, release, q->why.text, e);
    set_text(&release->env, q->folder);
    set_text(&release->lock, q->lock);
    return journal_release(l->r->journal, l->r->record->id, release, e);
}

/* All environments first: a release without one does not disturb the others. */
static int make_environments(struct loop *l, struct err *e)
{
    VEC(struct env_request) requests = {0};
    struct run_record *record = l->r->record;
    int status = 0;
    for (size_t i = 0; i < record->releases.len && !status; i++) {
        struct release_record *release = &record->releases.ptr[i];
        const struct campaign_release *c = campaign_release_of(l->r->campaign, release->name);
        if (!next_case(record, release)) continue;
        if (c)
            *vec_push(&requests) = (struct env_request){.release = c};
        else
            status = give_up(l, release, "the campaign no longer has this release", e);
    }
    if (!status && requests.len) l->r->env(requests.ptr, requests.len);
    for (size_t i = 0; i < requests.len; i++) {
        struct env_request *q = &requests.ptr[i];
        if (status || proc_interrupted) {
            free(q->folder);
            free(q->lock);
        } else {
            status = take_answer(l, record_release(record, q->release->torch_npu), q, e);
        }
    }
    vec_free(&requests);
    return status;
}

int runner_run(struct runner *r, struct err *e)
{
    struct loop l = {.r = r};
    bool busy = true;
    proc_catch_signals();
    worker_adopt_orphans();
    progress_begin(&l.progress, r->record, r->quiet);
    l.nslots = runner_workers(r->workers, (int)r->record->releases.len, (int)sysconf(_SC_NPROCESSORS_ONLN),
                              memory_available());
    int status = make_environments(&l, e);
    while (!status && busy && !proc_interrupted) status = turn(&l, &busy, e);
    for (int i = 0; i < l.nslots; i++) close_slot(&l.slots[i]);
    progress_end(&l.progress);
    if (!status && record_complete(r->record)) return journal_finish(r->journal, r->record->id, e);
    return status ? status : 1;
}
