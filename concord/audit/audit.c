/* audit.c - runs the rules over patches, on all cores. */
#include "concord/audit/audit.h"
#include "concord/audit/private.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- findings ---------------------------------------------------------------------------------------- */

void audit_finding_add(struct findings *out, const struct rule *rule, const char *file, uint32_t line,
                       struct slice text, const char *fmt, ...)
{
    struct finding *f = vec_push(&out->list);
    struct buf message = BUF_INIT, print = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&message, fmt, ap);
    va_end(ap);
    /* The patch's place among patches, so that the fingerprint does not depend on where one stands. */
    char *place = patch_named_target(file);
    buf_addf(&print, "%s\n%s\n", rule->name, place ? place : file);
    free(place);
    text = slice_trim(text);
    buf_add(&print, text.ptr, text.len);
    char hex[65];
    sha256_hex(print.ptr, print.len, hex);
    *f = (struct finding){.rule = rule, .file = xstrdup(file), .line = line, .message = buf_take(&message)};
    memcpy(f->print, hex, 16);
    buf_free(&print);
}

void audit_findings_free(struct findings *f)
{
    for (size_t i = 0; i < f->list.len; i++) {
        free(f->list.ptr[i].file);
        free(f->list.ptr[i].message);
    }
    vec_free(&f->list);
}

static int by_place(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    int c = strcmp(x->file, y->file);
    if (c) return c;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->rule != y->rule) return x->rule < y->rule ? -1 : 1;
    return strcmp(x->message, y->message);
}

void audit_findings_sort(struct findings *f)
{
    if (f->list.len) qsort(f->list.ptr, f->list.len, sizeof *f->list.ptr, by_place);
}

/* ---- one patch --------------------------------------------------------------------------------------- */

bool audit_wanted(const struct audit_options *o, int rule)
{
    return rules[rule].severity >= o->least && (!o->only || o->only[rule]);
}

static void run_rules(const struct audit_options *o, const struct view *v, struct findings *out)
{
    for (int i = 0; i < RULE_COUNT; i++)
        if (audit_wanted(o, i)) rules[i].check(&rules[i], v, out);
}

struct upstream_file {
    struct buf pre, post;
    struct apply_result applied;
};

/* Both whole files, where the source has the target and the patch applies to it. */
static void add_upstream(struct view *v, const struct audit_options *o, struct upstream_file *u,
                         struct err *e)
{
    if (!o->upstream || !v->f->path) return;
    int found = source_read_shared(o->upstream, v->f->path, &u->pre, NULL, e);
    if (found < 0) return;
    bool exists;
    struct slice pre = found ? slice_of(&u->pre) : (struct slice){0};
    patch_apply(v->p, v->f, pre, 0, &u->post, &exists, &u->applied);
    v->applied = &u->applied;
    v->source = o->upstream;
    if (u->applied.outcome == APPLY_wrong_base || u->applied.outcome == APPLY_wrong_result) {
        struct apply_result again;
        patch_apply(v->p, v->f, pre, APPLY_IGNORE_IDS, &u->post, &exists, &again);
    }
    if (!v->python || !u->post.len || !u->pre.len) return;
    v->pre = py_parse(v->f->path, buf_str(&u->pre), u->pre.len);
    v->post = py_parse(v->f->path, buf_str(&u->post), u->post.len);
}

static int audit_section(const char *file, const struct patch *p, const struct patch_file *f,
                         const struct audit_options *o, struct findings *out, struct err *e)
{
    struct view v;
    struct upstream_file u = {0};
    *e->text = '\0';
    view_make(&v, file, p, f);
    add_upstream(&v, o, &u, e);
    run_rules(o, &v, out);
    view_free(&v);
    buf_free(&u.pre);
    buf_free(&u.post);
    return *e->text ? -1 : 0;
}

int audit_one(const char *file, const struct patch *p, const struct audit_options *o, struct findings *out,
              struct err *e)
{
    struct view whole;
    view_make(&whole, file, p, NULL);
    run_rules(o, &whole, out);
    view_free(&whole);
    for (size_t i = 0; i < p->files.len; i++)
        if (audit_section(file, p, &p->files.ptr[i], o, out, e)) return -1;
    return 0;
}

/* ---- many patches ------------------------------------------------------------------------------------ */

struct pool {
    const strings *paths;
    const struct audit_options *o;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t out_lock;
    struct findings *out;
    struct together together;
    struct err *e;
};

static void take_all(struct pool *pool, struct findings *mine, struct together *sections)
{
    pthread_mutex_lock(&pool->out_lock);
    for (size_t i = 0; i < mine->list.len; i++) *vec_push(&pool->out->list) = mine->list.ptr[i];
    for (size_t i = 0; i < sections->list.len; i++) *vec_push(&pool->together.list) = sections->list.ptr[i];
    pthread_mutex_unlock(&pool->out_lock);
    vec_free(&mine->list);
    vec_free(&sections->list);
}

static void *work(void *arg)
{
    struct pool *pool = arg;
    struct findings mine = {0};
    struct together sections = {0};
    for (size_t i; !pool->failed && (i = atomic_fetch_add(&pool->next, 1)) < pool->paths->len;) {
        struct patch p;
        struct err e;
        const char *path = pool->paths->ptr[i];
        int rc = patch_load(path, &p, &e);
        if (!rc) {
            rc = audit_one(path, &p, pool->o, &mine, &e);
            together_add(&sections, path, &p);
            patch_free(&p);
        }
        if (rc) {
            pthread_mutex_lock(&pool->out_lock);
            *pool->e = e;
            pool->failed = true;
            pthread_mutex_unlock(&pool->out_lock);
        }
    }
    take_all(pool, &mine, &sections);
    return NULL;
}

int audit_patches(const strings *paths, const struct audit_options *o, struct findings *out, struct err *e)
{
    struct pool pool = {.paths = paths, .o = o, .out_lock = PTHREAD_MUTEX_INITIALIZER, .out = out, .e = e};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t extra = cores > 1 && paths->len > 16 ? (size_t)(cores > 8 ? 8 : cores) - 1 : 0, started = 0;
    pthread_t threads[8];
    while (started < extra && !pthread_create(&threads[started], NULL, work, &pool)) started++;
    work(&pool);
    while (started) pthread_join(threads[--started], NULL);
    if (!pool.failed && together_check(&pool.together, o, out, e)) pool.failed = true;
    together_free(&pool.together);
    audit_findings_sort(out);
    return pool.failed ? -1 : 0;
}
