/* units.c - units: their processes, what they collect, and what is to be done when one ends. */
#include "concord/suite/private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

bool unit_all_done(const struct suite_unit *u)
{
    for (size_t i = 0; i < u->cases.len; i++)
        if (u->cases.ptr[i]->state != TEST_DONE) return false;
    return true;
}

/* ---- units -----------------------------------------------------------------------------------------------
 */

void unit_wait(struct hub *h, struct suite_unit *u)
{
    *vec_push(&h->waiting) = u;
    for (size_t i = h->waiting.len - 1;
         i > 0 && h->waiting.ptr[i - 1]->estimate_ms > h->waiting.ptr[i]->estimate_ms; i--) {
        struct suite_unit *other = h->waiting.ptr[i - 1];
        h->waiting.ptr[i - 1] = h->waiting.ptr[i];
        h->waiting.ptr[i] = other;
    }
}

static int zygote_load(const struct hub *h, const struct zygote *z)
{
    int n = 0;
    for (size_t i = 0; i < h->openings.len; i++)
        if (h->openings.ptr[i]->zygote == z) n += 1 + h->openings.ptr[i]->slots;
    return n;
}

struct zygote *zygote_free(struct hub *h, enum side side)
{
    struct zygote *best = NULL;
    for (size_t i = 0; i < h->zygotes.len; i++) {
        struct zygote *z = h->zygotes.ptr[i];
        if (z->side != side || !z->active || !z->greeted) continue;
        if (!best || zygote_load(h, z) < zygote_load(h, best)) best = z;
    }
    return best;
}

static json_t *strings_json(const strings *v)
{
    json_t *object = json_object();
    for (size_t i = 0; i < v->len; i++) {
        const char *equals = strchr(v->ptr[i], '=');
        if (!equals) continue;
        char *name = xstrndup(v->ptr[i], (size_t)(equals - v->ptr[i]));
        json_object_set_new(object, name, json_string(equals + 1));
        free(name);
    }
    return object;
}

static char *log_of(const struct hub *h, int64_t number)
{
    return xformat("%s/unit-%lld.log", h->scratch, (long long)number);
}

void unit_open(struct hub *h, struct suite_unit *u, struct zygote *z)
{
    struct opening *o = xcalloc(1, sizeof *o);
    bool fresh = h->s->options->isolation == ISOLATE_FRESH && u->state == UNIT_COLLECTED;
    *o = (struct opening){.unit = u, .zygote = z, .number = ++h->next_number, .fd = -1, .opened = now_ms()};
    o->late = (!u->forkable || fresh) && u->state == UNIT_COLLECTED;
    o->solo = map_has(&h->lost_units, u->name);
    o->deadline = o->opened + h->s->options->start_ms;
    *vec_push(&h->openings) = o;
    char *log = log_of(h, o->number);
    json_t *order = json_deep_copy(u->spec);
    json_object_set_new(order, "open", json_integer(o->number));
    json_object_set_new(order, "name", json_string(u->name));
    json_object_set_new(order, "socket", json_string(h->socket));
    json_object_set_new(order, "log", json_string(log));
    json_object_set_new(order, "late", json_boolean(o->late));
    json_object_set_new(order, "allow", json_boolean(!u->forkable));
    json_object_set_new(order, "env", strings_json(&h->s->sides[u->side].env));
    json_object_set_new(order, "cgroup", json_string(h->cgroup));
    json_object_set_new(order, "cgroup_processes", json_integer(4 * h->s->options->processes + 64));
    free(log);
    link_send_zygote(h, z, order);
}

void unit_kill(struct hub *h, struct opening *o)
{
    if (o->zygote->active) link_send_zygote(h, o->zygote, json_pack("{s:I}", "end", (json_int_t)o->number));
}

void slot_drop(struct hub *h, struct slot *s)
{
    for (size_t i = 0; i < s->orders.len; i++) vec_free(&s->orders.ptr[i].cases);
    vec_free(&s->orders);
    buf_free(&s->in);
    link_forget(h, &s->fd);
    if (s->fd >= 0) close(s->fd);
    s->opening->slots--;
    for (size_t i = 0; i < h->slots.len; i++)
        if (h->slots.ptr[i] == s) h->slots.ptr[i] = h->slots.ptr[--h->slots.len];
    free(s);
}

void unit_drop(struct hub *h, struct opening *o)
{
    for (size_t i = h->slots.len; i-- > 0;)
        if (h->slots.ptr[i]->opening == o) slot_drop(h, h->slots.ptr[i]);
    link_forget(h, &o->fd);
    if (o->fd >= 0) close(o->fd);
    buf_free(&o->in);
    char *log = log_of(h, o->number);
    unlink(log);
    free(log);
    for (size_t i = 0; i < h->openings.len; i++)
        if (h->openings.ptr[i] == o) h->openings.ptr[i] = h->openings.ptr[--h->openings.len];
    free(o);
}

int unit_finish(struct hub *h, struct opening *o)
{
    struct suite_unit *u = o->unit;
    u->state = UNIT_DONE;
    o->zygote->restarts = 0;
    unit_drop(h, o);
    return store_unit(h->s->store, h->s->run, u, h->e);
}

/* Cases of a slot whose process is gone: the first was running, the others had not begun. */
int slot_lose(struct hub *h, struct slot *s, const char *what)
{
    bool first = true;
    int status = 0;
    for (size_t i = 0; i < s->orders.len; i++) {
        struct order *order = &s->orders.ptr[i];
        for (; order->next < order->cases.len && !status; order->next++) {
            struct suite_case *c = order->cases.ptr[order->next];
            status = first ? result_lost(h, c, what) : result_replan(h, c);
            first = false;
        }
    }
    return status;
}

/* The last lines of what a unit printed, for an error of collection. Owned. */
static char *log_text(const struct hub *h, const struct opening *o)
{
    char *log = log_of(h, o->number);
    struct buf b = BUF_INIT;
    enum { KEPT = 8000 };
    file_read(log, &b, NULL);
    free(log);
    if (b.len > KEPT) {
        memmove(b.ptr, b.ptr + b.len - KEPT, KEPT);
        b.len = KEPT;
        b.ptr[KEPT] = '\0';
    }
    return xstrdup(buf_str(&b)); /* the buffer's own memory may be NULL */
}

static const char *last_line(const char *text, size_t *n)
{
    *n = strlen(text);
    while (*n && text[*n - 1] == '\n') --*n;
    size_t start = *n;
    while (start && text[start - 1] != '\n') start--;
    *n -= start;
    if (*n > 300) *n = 300;
    return text + start;
}

/* Collection ended without a list. */
int unit_not_collected(struct hub *h, struct opening *o, enum verdict v, const char *why)
{
    struct suite_unit *u = o->unit;
    char *log = log_text(h, o);
    size_t n;
    const char *line = last_line(log, &n);
    free(u->error);
    u->error = xformat("%s%s%.*s", why, n ? ": " : "", (int)n, line);
    int status = result_pseudo(h, u, "[collection]", v, xstrdup(u->error), log);
    free(log);
    return status ? status : unit_finish(h, o);
}

/* The process of a unit is gone (wait status, or -1 when nobody said). */
int unit_gone(struct hub *h, struct opening *o, int wait_status)
{
    struct suite_unit *u = o->unit;
    int status = 0;
    for (size_t i = 0; i < h->slots.len && !status; i++)
        if (h->slots.ptr[i]->opening == o)
            status = slot_lose(h, h->slots.ptr[i], "the process that collected the file");
    if (status) return status;
    bool known = u->state != UNIT_NEW;
    void **deaths = map_put(&h->lost_units, u->name);
    *deaths = (char *)*deaths + 1;
    if (!known && (uintptr_t)*deaths > 1) {
        char why[80] = "the process that collects the file was ended twice";
        if (wait_status > 0 && WIFSIGNALED(wait_status))
            snprintf(why, sizeof why, "the process that collects the file was ended by SIG%s",
                     sigabbrev_np(WTERMSIG(wait_status)) ? sigabbrev_np(WTERMSIG(wait_status)) : "?");
        return unit_not_collected(h, o, VERDICT_CRASHED, why);
    }
    if (!known && wait_status > 0 && WIFEXITED(wait_status))
        return unit_not_collected(h, o, VERDICT_ERROR, "collection failed");
    unit_drop(h, o);
    if (!unit_all_done(u) || !known) unit_wait(h, u);
    return 0;
}

/* ---- collection ------------------------------------------------------------------------------------------
 */

static int add_case(struct hub *h, struct suite_unit *u, const char *node)
{
    struct suite_case *c = suite_case_new(u, node);
    if (h->s->wanted && !h->s->wanted(h->s->context, c)) {
        u->cases.len--;
        free(c->node);
        free(c->reason);
        free(c);
        return 0;
    }
    monitor_added(h->s->monitor, 1);
    return store_new_case(h->s->store, c, h->e);
}

static int note_parts(struct hub *h, struct suite_unit *u, const json_t *parts, const char *label,
                      enum verdict v)
{
    size_t i;
    json_t *part;
    int status = 0;
    json_array_foreach(parts, i, part)
    {
        const char *text = text_of(part, "text");
        size_t n;
        const char *line = v == VERDICT_SKIPPED ? text : last_line(text, &n);
        if (v == VERDICT_SKIPPED) n = strlen(text);
        char *node = xformat("[%s] %s", label, text_of(part, "where"));
        status = result_pseudo(h, u, node, v, xstrndup(line, n), v == VERDICT_SKIPPED ? "" : text);
        free(node);
        if (status) break;
    }
    return status;
}

static int store_collection(struct hub *h, struct opening *o, const json_t *message)
{
    struct suite_unit *u = o->unit;
    const json_t *errors = json_object_get(message, "errors"), *skips = json_object_get(message, "skips");
    size_t i, found = json_array_size(json_object_get(message, "cases"));
    json_t *node;
    int status = 0;
    json_array_foreach(json_object_get(message, "cases"), i, node)
    {
        status = add_case(h, u, json_string_value(node));
        if (status) return status;
    }
    u->state = UNIT_COLLECTED;
    u->forkable = json_is_true(json_object_get(message, "forkable"));
    if (json_array_size(errors)) {
        free(u->error);
        u->error = xformat("%zu part(s) could not be collected", json_array_size(errors));
    }
    if (!status) status = note_parts(h, u, errors, "collection", VERDICT_ERROR);
    if (!status) status = note_parts(h, u, skips, "skipped", VERDICT_SKIPPED);
    if (!status && !found && !json_array_size(errors) && !json_array_size(skips))
        status = result_pseudo(h, u, "[collection]", VERDICT_ERROR, xstrdup("no test was found in it"), "");
    if (!status && *u->digest && !h->s->wanted) status = store_cache_put(h->s->store, u->digest, u, h->e);
    return status ? status : store_unit(h->s->store, h->s->run, u, h->e);
}

int unit_line(struct hub *h, struct opening *o, const json_t *message)
{
    struct suite_unit *u = o->unit;
    bool late = json_is_true(json_object_get(message, "late"));
    if (json_is_true(json_object_get(message, "again"))) {
        monitor_note(h->s->monitor, "%s: cannot be collected without the device (%s)", u->name,
                     text_of(message, "why"));
        u->forkable = false;
        unit_drop(h, o);
        unit_wait(h, u);
        return 0;
    }
    if (u->state == UNIT_NEW && store_collection(h, o, message)) return -1;
    if (!late) {
        bool forkable = json_is_true(json_object_get(message, "forkable"));
        if (forkable != u->forkable) {
            u->forkable = forkable;
            if (store_unit(h->s->store, h->s->run, u, h->e)) return -1;
        }
    }
    if (unit_all_done(u)) return unit_finish(h, o);
    if (h->s->collect_only) {
        unit_drop(h, o);
        return 0;
    }
    if ((!u->forkable || h->s->options->isolation == ISOLATE_FRESH) && !o->late) {
        if (!u->forkable)
            monitor_note(h->s->monitor, "%s: %s: each test collects in its own process", u->name,
                         text_of(message, "why"));
        unit_drop(h, o);
        unit_wait(h, u);
        return 0;
    }
    o->phase = READY;
    return 0;
}
