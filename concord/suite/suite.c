/* suite.c - the model of a run of suites: life time, names, counts. */
#include "concord/suite/suite.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *side_name(enum side s)
{
    static const char *const names[] = {[SIDE_DEVICE] = "device", [SIDE_CPU] = "cpu"};
    _Static_assert(sizeof names / sizeof *names == SIDES, "one name a side");
    return names[s];
}

static void case_free(struct suite_case *c)
{
    char *owned[] = {c->node, c->reason, c->output, c->stack, c->trace};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    json_decref(c->facts);
    json_decref(c->history);
    free(c);
}

static void unit_free(struct suite_unit *u)
{
    for (size_t i = 0; i < u->cases.len; i++) case_free(u->cases.ptr[i]);
    vec_free(&u->cases);
    char *owned[] = {u->name, u->suite, u->digest, u->error};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    json_decref(u->spec);
    json_decref(u->patch);
    free(u);
}

void suite_run_free(struct suite_run *r)
{
    for (size_t i = 0; i < r->units.len; i++) unit_free(r->units.ptr[i]);
    vec_free(&r->units);
    char *owned[] = {r->name,     r->command, r->options, r->version, r->started,
                     r->finished, r->shard,   r->release, r->env,     r->lock};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    json_decref(r->host);
    for (int s = 0; s < SIDES; s++) json_decref(r->hello[s]);
    *r = (struct suite_run){0};
}

struct suite_unit *suite_unit_new(struct suite_run *r)
{
    struct suite_unit *u = xcalloc(1, sizeof *u);
    u->forkable = true;
    *vec_push(&r->units) = u;
    return u;
}

struct suite_case *suite_case_new(struct suite_unit *u, const char *node)
{
    struct suite_case *c = xcalloc(1, sizeof *c);
    c->unit = u;
    c->node = xstrdup(node);
    c->reason = xstrdup("");
    c->verdict = VERDICT_NOT_RUN;
    *vec_push(&u->cases) = c;
    return c;
}

struct suite_case *suite_case_find(struct suite_unit *u, const char *node)
{
    for (size_t i = 0; i < u->cases.len; i++)
        if (!strcmp(u->cases.ptr[i]->node, node)) return u->cases.ptr[i];
    return NULL;
}

char *suite_case_name(const struct suite_case *c)
{
    /* Nodes of units that are no single file carry their file already. */
    bool whole = strstr(c->node, ".py::") || !strcmp(c->unit->name, c->node);
    const char *behind = c->unit->side == SIDE_CPU ? " (cpu)" : "";
    if (whole) return xformat("%s%s", c->node, behind);
    return xformat("%s::%s%s", c->unit->name, c->node, behind);
}

/* ---- twins ------------------------------------------------------------------------------------------- */

/* Names that instantiate_device_type_tests and device parametrisations put into class and test names. */
static const char *const device_words[] = {"privateuseone", "privateuse1", "npu", "cuda", "cpu"};

static size_t device_word(const char *p)
{
    for (size_t i = 0; i < sizeof device_words / sizeof *device_words; i++) {
        size_t n = strlen(device_words[i]);
        if (!strncasecmp(p, device_words[i], n)) return n;
    }
    return 0;
}

/* A word of its own: "_npu", "NPU" at the end of a class name, "[npu-". */
static bool stands_alone(const char *text, const char *p, size_t n)
{
    unsigned char before = p == text ? '_' : (unsigned char)p[-1], after = (unsigned char)p[n];
    bool class_end = isupper((unsigned char)*p) && isalnum(before) && (!after || after == ':');
    return class_end || (!isalnum(before) && !isalpha(after));
}

char *suite_twin_key(const char *node)
{
    struct buf b = BUF_INIT;
    for (const char *p = node; *p;) {
        size_t n = device_word(p);
        if (n && stands_alone(node, p, n)) {
            buf_adds(&b, "DEVICE");
            p += n + strspn(p + n, ":0123456789") * (p[n] == ':' && isdigit((unsigned char)p[n + 1]));
        } else {
            buf_addc(&b, *p++);
        }
    }
    return buf_take(&b);
}

/* ---- counts ------------------------------------------------------------------------------------------ */

bool verdict_is_bad(enum verdict v)
{
    return v != VERDICT_PASSED && v != VERDICT_XFAIL && v != VERDICT_SKIPPED;
}

static void count_unit(const struct suite_unit *u, struct suite_counts *n)
{
    for (size_t i = 0; i < u->cases.len; i++) {
        const struct suite_case *c = u->cases.ptr[i];
        n->all++;
        n->done += c->state == TEST_DONE;
        n->by[c->verdict]++;
        n->executed += c->attempts > 0 && c->verdict != VERDICT_SKIPPED;
        n->ms += c->ms;
        n->launches += c->launches;
    }
}

void suite_count(const struct suite_run *r, const struct suite_unit *unit, enum side side,
                 struct suite_counts *out)
{
    *out = (struct suite_counts){0};
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        if (u->side == side && (!unit || u == unit)) count_unit(u, out);
    }
}

static bool any_bad(const struct suite_counts *n)
{
    for (int v = 0; v < VERDICT_COUNT; v++)
        if (n->by[v] && verdict_is_bad((enum verdict)v)) return true;
    return false;
}

int suite_status(const struct suite_run *r)
{
    struct suite_counts n;
    suite_count(r, NULL, SIDE_DEVICE, &n);
    return !n.executed || !n.by[VERDICT_PASSED] || any_bad(&n) ? EXIT_FINDINGS : EXIT_OK;
}
