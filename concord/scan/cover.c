/* cover.c - which tests of a file reach an API's sites, and what can be said of each. */
#include "concord/scan/match.h"

#include <stdlib.h>
#include <string.h>

/* ---- reach --------------------------------------------------------------------------------------------- */

void reach_make(struct reach *r, const struct facts *f)
{
    size_t n = f->funcs.len + 1, e = f->edges.len + 1;
    *r = (struct reach){.f = f};
    r->first = xcalloc(n, sizeof *r->first);
    r->stamp = xcalloc(n, sizeof *r->stamp);
    r->distance = xcalloc(n, sizeof *r->distance);
    r->via = xcalloc(n, sizeof *r->via);
    r->queue = xcalloc(n, sizeof *r->queue);
    r->next = xcalloc(e, sizeof *r->next);
    for (uint32_t i = (uint32_t)f->edges.len; i-- > 0;) {
        r->next[i] = r->first[f->edges.ptr[i].to];
        r->first[f->edges.ptr[i].to] = i + 1;
    }
}

void reach_free(struct reach *r)
{
    free(r->first);
    free(r->stamp);
    free(r->distance);
    free(r->via);
    free(r->queue);
    free(r->next);
}

static void reach_add(struct reach *r, uint32_t func, uint32_t via)
{
    if (r->stamp[func] == r->now) return;
    r->stamp[func] = r->now;
    r->via[func] = via;
    r->queue[r->nqueue++] = func;
}

/* Breadth first against the edges, over what is reached only. */
void reach_from(struct reach *r, const struct hit *h, size_t n)
{
    r->now++;
    r->nqueue = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t func = r->f->sites.ptr[h[i].site].func;
        if (func >= 0) reach_add(r, (uint32_t)func, UINT32_MAX);
    }
    for (uint32_t at = 0; at < r->nqueue; at++)
        for (uint32_t e = r->first[r->queue[at]]; e; e = r->next[e - 1])
            reach_add(r, r->f->edges.ptr[e - 1].from, r->queue[at]);
}

/* ---- evidence ------------------------------------------------------------------------------------------ */

static const char *leaf_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

enum scan_coverage scan_coverage_of(const struct scan_test *t)
{
    return t->match >= SCAN_RECEIVER ? SCAN_WEAK : t->indirect ? SCAN_INDIRECT : SCAN_DIRECT;
}

static char *path_of(const struct reach *r, uint32_t from, const char *outside)
{
    struct buf b = BUF_INIT;
    for (uint32_t f = from; f != UINT32_MAX; f = r->via[f])
        buf_addf(&b, "%s%s", b.len ? " -> " : "", leaf_of(r->f->funcs.ptr[f].id));
    if (outside) buf_addf(&b, " -> %s", outside);
    return buf_take(&b);
}

static uint32_t backward_after(const struct facts *f, const struct fact_func *fn, uint32_t row)
{
    for (uint32_t i = 0; i < fn->nbackward; i++)
        if (f->rows.ptr[fn->backward + i] >= row) return f->rows.ptr[fn->backward + i];
    return 0;
}

/* What the hits at the end of the way say. A site of the API itself hides helpers in other files that reach
 * it. */
static void add_sites(struct scan_test *t, const struct facts *f, const struct hit *h, size_t n, uint32_t end,
                      const char **outside)
{
    bool own = false;
    for (size_t i = 0; i < n; i++) own |= !h[i].via && f->sites.ptr[h[i].site].func == (int32_t)end;
    for (size_t i = 0; i < n; i++) {
        const struct fact_site *s = &f->sites.ptr[h[i].site];
        if (s->func != (int32_t)end || (own && h[i].via)) continue;
        if (h[i].match < t->match) t->match = h[i].match;
        if (!t->rows.len || t->rows.ptr[t->rows.len - 1] != s->row) *vec_push(&t->rows) = s->row;
        if (s->tensors && (!t->tensors || (!t->tensor_row && s->tensor_row))) t->tensor_row = s->tensor_row;
        t->tensors |= s->tensors;
        if (h[i].via) *outside = h[i].via;
    }
}

static void describe(const struct reach *r, struct scan_file *file, const struct hit *h, size_t n,
                     uint32_t func)
{
    const struct facts *f = r->f;
    const struct fact_func *fn = &f->funcs.ptr[func];
    uint32_t end = func;
    while (r->via[end] != UINT32_MAX) end = r->via[end];
    struct scan_test t = {.api = h->api,
                          .file = file->path,
                          .id = fn->id,
                          .class = fn->class,
                          .row = fn->row,
                          .end_row = fn->end_row,
                          .match = SCAN_NMATCH,
                          .asserts = fn->asserts,
                          .keeps_off = fn->keeps_off,
                          .params = fn->params,
                          .device_generic = fn->device_generic};
    const char *outside = NULL;
    add_sites(&t, f, h, n, end, &outside);
    t.indirect = end != func || outside;
    if (t.indirect) t.path = path_of(r, func, outside);
    uint32_t first = t.rows.len ? t.rows.ptr[0] : 0;
    for (size_t i = 1; i < t.rows.len; i++) first = t.rows.ptr[i] < first ? t.rows.ptr[i] : first;
    t.backward_row = backward_after(f, fn, t.indirect ? 0 : first);
    if (!t.backward_row && end != func) t.backward_row = backward_after(f, &f->funcs.ptr[end], first);
    if (t.indirect && !t.tensors && fn->tensor_row) {
        t.tensors = true; /* handed to the helper */
        t.tensor_row = fn->tensor_row;
    }
    *vec_push(&file->tests) = t;
}

static int by_row(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Tests in the order of the file. */
static void describe_tests(struct reach *r, struct scan_file *file, const struct hit *h, size_t n)
{
    reach_from(r, h, n);
    uint32_t *tests = xmalloc((r->nqueue + 1) * sizeof *tests), ntests = 0;
    for (uint32_t i = 0; i < r->nqueue; i++)
        if (r->f->funcs.ptr[r->queue[i]].test) tests[ntests++] = r->queue[i];
    qsort(tests, ntests, sizeof *tests, by_row);
    for (uint32_t i = 0; i < ntests; i++) describe(r, file, h, n, tests[i]);
    free(tests);
}

void cover_file(struct scan_file *out, const hits *found, bool only_tests)
{
    struct reach r;
    reach_make(&r, &out->facts);
    for (size_t i = 0, end; i < found->len; i = end) {
        for (end = i; end < found->len && found->ptr[end].api == found->ptr[i].api; end++) {
            const struct hit *h = &found->ptr[end];
            const struct fact_site *s = &out->facts.sites.ptr[h->site];
            if (!h->via && !only_tests)
                *vec_push(&out->sites) = (struct scan_site){h->api, h->match, s->call, s->row, s->func};
        }
        describe_tests(&r, out, &found->ptr[i], end - i);
    }
    reach_free(&r);
}
