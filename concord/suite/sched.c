/* sched.c - the loop: warm processes, units, slots, and which case goes where. */
#include "concord/suite/private.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_RESTARTS = 3,        /* of a warm process with nothing done in between */
    CONNECT_MS = 20000,      /* for a slot between its order and its connection */
    ANSWER_GRACE_MS = 20000, /* the slot enforces a case's limit; this is for a slot that does not */
    TICK_MS = 200,
    MAX_QUEUE = 16,
};

const char *const isolation_names[ISOLATIONS] = {"case", "file", "fresh"};

/* ---- small things ----------------------------------------------------------------------------------------
 */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool has_planned(const struct suite_unit *u)
{
    for (size_t i = 0; i < u->cases.len; i++)
        if (u->cases.ptr[i]->state == TEST_PLANNED) return true;
    return false;
}

static struct opening *opening_numbered(struct hub *h, int64_t number)
{
    for (size_t i = 0; i < h->openings.len; i++)
        if (h->openings.ptr[i]->number == number) return h->openings.ptr[i];
    return NULL;
}

static struct slot *slot_numbered(struct hub *h, int64_t number)
{
    for (size_t i = 0; i < h->slots.len; i++)
        if (h->slots.ptr[i]->number == number) return h->slots.ptr[i];
    return NULL;
}

static int outstanding(const struct slot *s)
{
    int n = 0;
    for (size_t i = 0; i < s->orders.len; i++) n += (int)(s->orders.ptr[i].cases.len - s->orders.ptr[i].next);
    return n;
}

/* ---- warm processes --------------------------------------------------------------------------------------
 */

static int start_zygote(struct hub *h, struct zygote *z)
{
    const struct sched_side *side = &h->s->sides[z->side];
    VEC(const char *) args = {0};
    if (*side->plugin) {
        *vec_push(&args) = "--plugin";
        *vec_push(&args) = side->plugin;
    }
    if (side->torch) *vec_push(&args) = "--torch";
    *vec_push(&args) = NULL;
    const char *device = z->index < (int)side->devices.len ? side->devices.ptr[z->index] : NULL;
    if (device) setenv("ASCEND_RT_VISIBLE_DEVICES", device, 1);
    setenv("CONCORD_CRASH_LIBRARY", h->s->options->crash_library, 1);
    if (z->side == SIDE_CPU) setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", 1);
    int status = worker_start_script(&z->worker, side->setup, side->python, h->s->options->harness,
                                     "suite.py", args.ptr, h->e);
    if (z->side == SIDE_CPU) unsetenv("TORCH_DEVICE_BACKEND_AUTOLOAD");
    if (device) unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    vec_free(&args);
    z->active = !status;
    z->greeted = false;
    z->deadline = now_ms() + h->s->options->start_ms;
    return status;
}

static bool same_version(const char *found, const char *wanted)
{
    size_t n = strlen(wanted);
    return !n || (!strncmp(found, wanted, n) && (!found[n] || found[n] == '+'));
}

/* Refuses a process that is not what the run says it is: results would be filed under the wrong release. */
static int on_hello(struct hub *h, struct zygote *z, const json_t *hello)
{
    const struct sched_side *side = &h->s->sides[z->side];
    const char *torch = text_of(hello, "torch"), *plugin = text_of(hello, "plugin_version");
    if (side->torch && !same_version(torch, side->want_torch))
        return err_set(h->e,
                       "%s: has torch %s, not %s: remove the environment (concord env remove) and run again",
                       side->python, torch, side->want_torch);
    if (*side->plugin && !same_version(plugin, side->want_plugin))
        return err_set(h->e,
                       "%s: has %s %s, not %s: remove the environment (concord env remove) and run again",
                       side->python, side->plugin, plugin, side->want_plugin);
    enum device_kind kind = *side->plugin ? probe_label(hello) : KIND_NONE;
    if (*side->plugin && kind == KIND_NONE)
        return err_set(
            h->e,
            "no device: the plugin loaded %s, which is not softnpu, and there is no /dev/davinci*: use "
            "--device software",
            *text_of(hello, "ascendcl") ? text_of(hello, "ascendcl") : "no libascendcl");
    struct suite_run *run = h->s->run;
    if (z->side == SIDE_DEVICE) run->kind = kind;
    json_decref(run->hello[z->side]);
    run->hello[z->side] = json_deep_copy(hello);
    z->greeted = true;
    return store_run(h->s->store, run, h->e);
}

/* ---- slots -----------------------------------------------------------------------------------------------
 */

static void add_slot(struct hub *h, struct opening *o)
{
    struct slot *s = xcalloc(1, sizeof *s);
    *s = (struct slot){.opening = o, .number = ++h->next_number, .fd = -1, .deadline = now_ms() + CONNECT_MS};
    *vec_push(&h->slots) = s;
    o->slots++;
    link_send(h, &o->fd, json_pack("{s:I}", "slot", (json_int_t)s->number));
}

/* How many orders a slot holds at once, so that short tests do not wait for the disk. */
static size_t queue_length(const struct opening *o)
{
    if (!o->done) return 1;
    double mean = o->done_ms / o->done;
    if (mean < 20) return MAX_QUEUE;
    return mean < 100 ? 4 : mean < 1000 ? 2 : 1;
}

static struct suite_case *next_planned(struct opening *o)
{
    struct suite_unit *u = o->unit;
    while (o->cursor < u->cases.len && u->cases.ptr[o->cursor]->state != TEST_PLANNED) o->cursor++;
    return o->cursor < u->cases.len ? u->cases.ptr[o->cursor] : NULL;
}

static int take_case(struct hub *h, struct order *order, struct suite_case *c)
{
    c->state = TEST_RUNNING;
    *vec_push(&order->cases) = c;
    return store_case(h->s->store, c, h->e);
}

/* In file isolation all that have not failed before go together; a case that failed in a group goes alone. */
static int fill_order(struct hub *h, struct opening *o, struct order *order)
{
    struct suite_case *first = next_planned(o);
    if (take_case(h, order, first)) return -1;
    if (h->s->options->isolation != ISOLATE_FILE || first->history || first->lost) return 0;
    int status = 0;
    order->group = true;
    for (size_t i = o->cursor; i < o->unit->cases.len && !status; i++) {
        struct suite_case *c = o->unit->cases.ptr[i];
        if (c->state == TEST_PLANNED && !c->history && !c->lost) status = take_case(h, order, c);
    }
    return status;
}

static json_t *order_json(const struct hub *h, const struct order *order)
{
    const struct sched_options *o = h->s->options;
    json_t *run = json_array();
    for (size_t i = 0; i < order->cases.len; i++)
        json_array_append_new(
            run, json_pack("[I, s]", (json_int_t)order->cases.ptr[i]->id, order->cases.ptr[i]->node));
    json_t *value =
        json_pack("{s:o, s:f, s:I, s:I, s:I, s:I}", "run", run, "timeout", (double)o->case_ms / 1000.0,
                  "memory", (json_int_t)o->memory_mib, "output", (json_int_t)o->output_mib << 20, "processes",
                  (json_int_t)o->processes, "files", (json_int_t)o->files);
    if (o->isolation == ISOLATE_FILE) json_object_set_new(value, "check", json_true());
    if (o->isolation == ISOLATE_FRESH) json_object_set_new(value, "fresh", json_true());
    return value;
}

static void set_deadline(const struct hub *h, struct slot *s)
{
    const struct sched_options *o = h->s->options;
    int64_t collect = s->opening->late ? o->start_ms : 0;
    s->deadline = now_ms() + o->case_ms + collect + ANSWER_GRACE_MS;
}

static int feed_slot(struct hub *h, struct slot *s)
{
    if (s->fd < 0) return 0;
    while (s->orders.len < queue_length(s->opening) && next_planned(s->opening)) {
        struct order order = {0};
        if (fill_order(h, s->opening, &order)) return -1;
        if (!s->orders.len) set_deadline(h, s);
        *vec_push(&s->orders) = order;
        link_send(h, &s->fd, order_json(h, &order));
    }
    if (!s->orders.len) slot_drop(h, s);
    return 0;
}

static void end_order(struct slot *s)
{
    vec_free(&s->orders.ptr[0].cases);
    memmove(s->orders.ptr, s->orders.ptr + 1, --s->orders.len * sizeof *s->orders.ptr);
}

static int on_slot_line(struct hub *h, struct slot *s, const json_t *message)
{
    const char *fault = text_of(message, "fault");
    if (*fault) monitor_note(h->s->monitor, "a fault of the harness, please report it: %s", fault);
    if (!s->orders.len) return 0;
    struct order *order = &s->orders.ptr[0];
    const json_t *done = json_object_get(message, "done");
    set_deadline(h, s);
    if (done && order->next < order->cases.len) {
        struct suite_case *c = order->cases.ptr[order->next];
        if (json_integer_value(done) != c->id) return 0;
        size_t position = order->next++;
        if (result_answer(h, s, c, position, message)) return -1;
    }
    if (!json_is_true(json_object_get(message, "end"))) return 0;
    int status = 0;
    for (; order->next < order->cases.len && !status; order->next++)
        status = result_replan(h, order->cases.ptr[order->next]);
    end_order(s);
    return status ? status : feed_slot(h, s);
}

static int on_slot_gone(struct hub *h, struct slot *s)
{
    int status = slot_lose(h, s, "the process that watches the test");
    slot_drop(h, s);
    return status;
}

/* ---- what came -------------------------------------------------------------------------------------------
 */

static void settle_visitor(struct hub *h, struct visitor *v, const json_t *message)
{
    struct slot *s = slot_numbered(h, json_integer_value(json_object_get(message, "slot")));
    if (s) {
        s->fd = v->fd;
        s->in = v->in;
        s->pid = (pid_t)json_integer_value(json_object_get(message, "pid"));
        set_deadline(h, s);
        return;
    }
    close(v->fd);
    buf_free(&v->in);
}

/* A unit's first line says what it found; a slot's who it is. */
static int take_visitors(struct hub *h)
{
    int status = 0;
    for (size_t i = 0; i < h->visitors.len && !status;) {
        struct visitor *v = &h->visitors.ptr[i];
        json_t *message = link_line(&v->in);
        if (!message && v->fd >= 0) {
            i++;
            continue;
        }
        struct visitor known = *v;
        *v = h->visitors.ptr[--h->visitors.len];
        struct opening *o = opening_numbered(h, json_integer_value(json_object_get(message, "unit")));
        if (o) {
            o->fd = known.fd;
            o->in = known.in;
            status = unit_line(h, o, message);
        } else if (message) {
            settle_visitor(h, &known, message);
        } else {
            buf_free(&known.in);
        }
        json_decref(message);
    }
    return status;
}

static int take_slots(struct hub *h)
{
    /* Numbers, because handling one may remove any. */
    VEC(int64_t) numbers = {0};
    for (size_t i = 0; i < h->slots.len; i++) *vec_push(&numbers) = h->slots.ptr[i]->number;
    int status = 0;
    for (size_t i = 0; i < numbers.len && !status; i++) {
        struct slot *s;
        json_t *message;
        while (!status && (s = slot_numbered(h, numbers.ptr[i])) && (message = link_line(&s->in))) {
            status = on_slot_line(h, s, message);
            json_decref(message);
        }
        s = slot_numbered(h, numbers.ptr[i]);
        if (status || !s) continue;
        bool late = now_ms() > s->deadline;
        if (late && s->pid > 0 && s->fd >= 0) kill(s->pid, SIGKILL);
        if (s->pid > 0 ? s->fd < 0 : late) status = on_slot_gone(h, s);
    }
    vec_free(&numbers);
    return status;
}

/* A limit of the file: what it has left is over. */
static int end_file(struct hub *h, struct opening *o)
{
    struct suite_unit *u = o->unit;
    int status = 0;
    unit_kill(h, o);
    if (u->state == UNIT_NEW)
        return unit_not_collected(h, o, VERDICT_TIMEOUT,
                                  "the file's limit was over before its tests were known");
    for (size_t i = 0; i < u->cases.len && !status; i++)
        if (u->cases.ptr[i]->state != TEST_DONE)
            status = result_conclude(
                h, u->cases.ptr[i], VERDICT_TIMEOUT,
                xformat("the file's limit of %lld s was over", (long long)h->s->options->file_ms / 1000));
    return status ? status : unit_finish(h, o);
}

static int take_openings(struct hub *h)
{
    int status = 0;
    for (size_t i = h->openings.len; i-- > 0 && !status;) {
        if (i >= h->openings.len) continue;
        struct opening *o = h->openings.ptr[i];
        int64_t now = now_ms();
        if (o->phase == READY && o->fd < 0) {
            status = unit_gone(h, o, -1);
        } else if (o->phase == OPENING && now > o->deadline) {
            unit_kill(h, o);
            link_flush(h);
            usleep(400000); /* for the stack to reach its log */
            status = o->unit->state == UNIT_NEW
                         ? unit_not_collected(h, o, VERDICT_TIMEOUT, "collection did not end in time")
                         : unit_gone(h, o, -1);
        } else if (h->s->options->file_ms && now > o->opened + h->s->options->file_ms) {
            status = end_file(h, o);
        } else if (o->phase == READY && !o->slots && unit_all_done(o->unit)) {
            link_send(h, &o->fd, json_pack("{s:i}", "close", 1));
            link_flush(h);
            status = unit_finish(h, o);
        }
    }
    return status;
}

static int on_zygote_line(struct hub *h, struct zygote *z, const json_t *message)
{
    const json_t *hello = json_object_get(message, "hello"), *gone = json_object_get(message, "gone");
    if (hello) return on_hello(h, z, hello);
    struct opening *o = gone ? opening_numbered(h, json_integer_value(gone)) : NULL;
    if (!o) return 0;
    return unit_gone(h, o, (int)json_integer_value(json_object_get(message, "status")));
}

static int on_zygote_gone(struct hub *h, struct zygote *z)
{
    char *words = worker_last_words(&z->worker);
    const bool greeted = z->greeted;
    int wait_status = worker_stop(&z->worker), status = 0;
    z->active = false;
    for (size_t i = h->openings.len; i-- > 0 && !status;)
        if (i < h->openings.len && h->openings.ptr[i]->zygote == z)
            status = unit_gone(h, h->openings.ptr[i], -1);
    const bool killed = WIFSIGNALED(wait_status), again = (greeted || killed) && z->restarts++ < MAX_RESTARTS;
    if (!status && !again)
        status = err_set(h->e, "the warm process of the %s side ended %s (%s %d): %s", side_name(z->side),
                         greeted ? "again and again" : "while it started", killed ? "signal" : "status",
                         killed ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status), words);
    free(words);
    return status ? status : start_zygote(h, z);
}

static int take_zygotes(struct hub *h)
{
    int status = 0;
    for (size_t i = 0; i < h->zygotes.len && !status; i++) {
        struct zygote *z = h->zygotes.ptr[i];
        if (!z->active) continue;
        bool open = worker_read(&z->worker);
        json_t *message;
        while (!status && (message = worker_line(&z->worker))) {
            status = on_zygote_line(h, z, message);
            json_decref(message);
        }
        if (!status && !open) status = on_zygote_gone(h, z);
        if (!status && z->active && !z->greeted && now_ms() > z->deadline)
            status = err_set(h->e, "the warm process of the %s side did not start in %lld s",
                             side_name(z->side), (long long)h->s->options->start_ms / 1000);
    }
    return status;
}

/* ---- what comes next -------------------------------------------------------------------------------------
 */

static int used(const struct hub *h)
{
    int n = (int)h->slots.len;
    for (size_t i = 0; i < h->openings.len; i++) n += h->openings.ptr[i]->phase == OPENING;
    return n;
}

static size_t planned_left(const struct opening *o)
{
    size_t n = 0;
    for (size_t i = o->cursor; i < o->unit->cases.len; i++) n += o->unit->cases.ptr[i]->state == TEST_PLANNED;
    return n;
}

/* The open unit that could use another slot most: one without any first, then the one with most left. */
static struct opening *wants_slot(struct hub *h, bool without_any)
{
    struct opening *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < h->openings.len; i++) {
        struct opening *o = h->openings.ptr[i];
        if (o->phase != READY || (without_any ? o->slots > 0 : !o->slots)) continue;
        if (o->slots && (o->solo || h->s->options->isolation == ISOLATE_FILE)) continue;
        size_t left = planned_left(o);
        if (left > (size_t)o->slots && left > most) {
            best = o;
            most = left;
        }
    }
    return best;
}

static struct suite_unit *next_waiting(struct hub *h, struct zygote **z)
{
    for (size_t i = h->waiting.len; i-- > 0;) {
        struct suite_unit *u = h->waiting.ptr[i];
        *z = zygote_free(h, u->side);
        if (!*z) continue;
        memmove(h->waiting.ptr + i, h->waiting.ptr + i + 1, (--h->waiting.len - i) * sizeof *h->waiting.ptr);
        return u;
    }
    return NULL;
}

static void assign(struct hub *h)
{
    while (used(h) < h->s->options->jobs) {
        struct opening *o = wants_slot(h, true);
        struct zygote *z;
        struct suite_unit *u = o ? NULL : next_waiting(h, &z);
        if (!o && !u) o = wants_slot(h, false);
        if (o)
            add_slot(h, o);
        else if (u)
            unit_open(h, u, z);
        else
            return;
    }
}

static int feed_all(struct hub *h)
{
    int status = 0;
    for (size_t i = h->slots.len; i-- > 0 && !status;)
        if (i < h->slots.len && h->slots.ptr[i]->fd >= 0 && !outstanding(h->slots.ptr[i]))
            status = feed_slot(h, h->slots.ptr[i]);
    return status;
}

/* Everything up to here becomes durable; then it counts. */
static int settle(struct hub *h)
{
    if (store_commit(h->s->store, h->e)) return -1;
    for (size_t i = 0; i < h->concluded.len; i++) monitor_case(h->s->monitor, h->concluded.ptr[i]);
    h->concluded.len = 0;
    link_flush(h);
    monitor_tick(h->s->monitor, (int)h->slots.len);
    return 0;
}

static int turn(struct hub *h)
{
    link_poll(h, h->outbox.len ? 0 : TICK_MS);
    if (take_zygotes(h) || take_visitors(h) || take_slots(h) || take_openings(h)) return -1;
    const struct sched_options *o = h->s->options;
    if (o->fail_fast && h->any_bad) h->stop = true;
    if (o->run_ms && now_ms() > h->started + o->run_ms) h->stop = true;
    if (!h->stop) {
        assign(h);
        if (feed_all(h)) return -1;
    }
    return settle(h);
}

/* ---- the run ---------------------------------------------------------------------------------------------
 */

static int begin(struct hub *h)
{
    bool needed[SIDES] = {false};
    struct suite_run *run = h->s->run;
    for (size_t i = 0; i < run->units.len; i++) {
        struct suite_unit *u = run->units.ptr[i];
        for (size_t k = 0; k < u->cases.len; k++) result_restore(u->cases.ptr[k]);
        bool work = u->state == UNIT_NEW || (!h->s->collect_only && has_planned(u));
        if (!work) continue;
        unit_wait(h, u);
        needed[u->side] = true;
    }
    h->cgroup = cgroup_make();
    int status = h->waiting.len ? link_open(h) : 0;
    for (int side = 0; side < SIDES && !status; side++) {
        size_t n = h->s->sides[side].devices.len ? h->s->sides[side].devices.len : 1;
        for (size_t i = 0; needed[side] && i < n && !status; i++) {
            struct zygote *z = xcalloc(1, sizeof *z);
            *z = (struct zygote){.side = (enum side)side, .index = (int)i};
            *vec_push(&h->zygotes) = z;
            status = start_zygote(h, z);
        }
    }
    return status;
}

static void end(struct hub *h)
{
    while (h->openings.len) unit_drop(h, h->openings.ptr[0]);
    for (size_t i = 0; i < h->zygotes.len; i++) {
        if (h->zygotes.ptr[i]->active) worker_stop(&h->zygotes.ptr[i]->worker);
        free(h->zygotes.ptr[i]);
    }
    link_close(h);
    cgroup_remove(h->cgroup);
    free(h->cgroup);
    map_free(&h->lost_units, NULL);
    vec_free(&h->zygotes);
    vec_free(&h->openings);
    vec_free(&h->slots);
    vec_free(&h->concluded);
    vec_free(&h->waiting);
}

static int finish_run(struct hub *h)
{
    char now[32];
    now_iso(now);
    free(h->s->run->finished);
    h->s->run->finished = xstrdup(now);
    if (store_run(h->s->store, h->s->run, h->e)) return -1;
    return store_commit(h->s->store, h->e);
}

int sched_run(struct sched *s, struct err *e)
{
    struct hub h = {.s = s, .e = e, .started = now_ms(), .listener = -1, .cgroup = NULL};
    proc_catch_signals();
    worker_adopt_orphans();
    int status = begin(&h);
    while (!status && !h.stop && !proc_interrupted && (h.waiting.len || h.openings.len)) status = turn(&h);
    bool finished = !status && !h.stop && !h.waiting.len && !h.openings.len;
    if (!status) status = store_commit(s->store, e);
    if (!status && finished && !s->collect_only) status = finish_run(&h);
    monitor_end(s->monitor);
    end(&h);
    return status ? -1 : finished ? 0 : 1;
}
