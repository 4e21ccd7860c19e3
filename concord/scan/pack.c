/* pack.c - facts as compact bytes: variable-length numbers, one pool of strings, a checksum in front. */
#include "concord/scan/facts.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------- */

static void put(struct buf *b, uint64_t v)
{
    while (v >= 0x80) {
        buf_addc(b, (int)(v & 0x7f) | 0x80);
        v >>= 7;
    }
    buf_addc(b, (int)v);
}
static void put_signed(struct buf *b, int64_t v)
{
    put(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static uint32_t checksum(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; n; n--, p++) h = (h ^ *p) * 0x100000001b3u;
    return (uint32_t)(h ^ (h >> 32));
}

enum { SITE_CALL = 8, SITE_TENSORS = 16, FUNC_TEST = 1, FUNC_GENERIC = 2 };

struct packer {
    const struct facts *f;
    struct buf *b;
};
static void put_string(struct packer *p, const char *s)
{
    put(p->b, s ? (uint64_t)(s - p->f->strings) : 0);
}

static void pack_sites(struct packer *p)
{
    uint32_t row = 0;
    put(p->b, p->f->sites.len);
    for (size_t i = 0; i < p->f->sites.len; i++) {
        const struct fact_site *s = &p->f->sites.ptr[i];
        buf_addc(p->b, s->kind | (s->call ? SITE_CALL : 0) | (s->tensors ? SITE_TENSORS : 0));
        put_string(p, s->name);
        put_string(p, s->type);
        put_signed(p->b, (int64_t)s->row - row);
        put(p->b, (uint64_t)(s->func + 1));
        put(p->b, s->tensor_row);
        row = s->row;
    }
}

static void pack_funcs(struct packer *p)
{
    put(p->b, p->f->funcs.len);
    for (size_t i = 0; i < p->f->funcs.len; i++) {
        const struct fact_func *fn = &p->f->funcs.ptr[i];
        put_string(p, fn->id);
        put_string(p, fn->class);
        put_string(p, fn->asserts);
        put_string(p, fn->keeps_off);
        put_string(p, fn->params);
        put(p->b, fn->row);
        put(p->b, fn->end_row);
        put(p->b, fn->tensor_row);
        put(p->b, fn->backward);
        put(p->b, fn->nbackward);
        put(p->b, (fn->test ? FUNC_TEST : 0) | (fn->device_generic ? FUNC_GENERIC : 0));
    }
}

static void pack_exports(struct packer *p)
{
    put(p->b, p->f->exports.len);
    for (size_t i = 0; i < p->f->exports.len; i++) {
        put_string(p, p->f->exports.ptr[i].name);
        put_string(p, p->f->exports.ptr[i].target);
        put_string(p, p->f->exports.ptr[i].bases);
    }
    put(p->b, p->f->stars.len);
    for (size_t i = 0; i < p->f->stars.len; i++) put_string(p, p->f->stars.ptr[i]);
}

void facts_pack(const struct facts *f, struct buf *out)
{
    struct packer p = {f, out};
    size_t start = out->len;
    uint32_t sum = 0;
    buf_add(out, &sum, sizeof sum);
    put(out, FACTS_VERSION);
    put(out, f->nstrings);
    buf_add(out, f->strings, f->nstrings);
    put_string(&p, f->note);
    pack_sites(&p);
    pack_funcs(&p);
    put(out, f->edges.len);
    for (size_t i = 0; i < f->edges.len; i++) {
        put(out, f->edges.ptr[i].from);
        put(out, f->edges.ptr[i].to);
    }
    pack_exports(&p);
    put(out, f->rows.len);
    for (size_t i = 0; i < f->rows.len; i++) put(out, f->rows.ptr[i]);
    sum = checksum(out->ptr + start + sizeof sum, out->len - start - sizeof sum);
    memcpy(out->ptr + start, &sum, sizeof sum);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

struct reader {
    const unsigned char *at, *end;
    struct facts *f;
    size_t pool;
    bool bad;
};

static uint64_t get(struct reader *r)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end) break;
        unsigned char c = *r->at++;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) return v;
    }
    r->bad = true;
    return 0;
}
static uint32_t get32(struct reader *r)
{
    uint64_t v = get(r);
    if (v > UINT32_MAX) r->bad = true;
    return (uint32_t)v;
}
static const char *get_string(struct reader *r)
{
    uint64_t at = get(r);
    if (at >= r->pool) {
        r->bad = true;
        at = 0;
    }
    return r->f->strings + at;
}
/* A count: every element takes at least a byte, which bounds what is allocated. */
static size_t get_count(struct reader *r)
{
    uint64_t n = get(r);
    if (n > (uint64_t)(r->end - r->at)) r->bad = true;
    return r->bad ? 0 : (size_t)n;
}

static void *reserve(size_t n, size_t size, size_t *len, size_t *cap)
{
    *len = *cap = n;
    return n ? xcalloc(n, size) : NULL;
}
#define RESERVE(v, n) ((v)->ptr = reserve(n, sizeof *(v)->ptr, &(v)->len, &(v)->cap))

static void unpack_sites(struct reader *r)
{
    RESERVE(&r->f->sites, get_count(r));
    int64_t row = 0;
    for (size_t i = 0; i < r->f->sites.len && !r->bad; i++) {
        struct fact_site *s = &r->f->sites.ptr[i];
        uint64_t head = get(r);
        s->kind = head & 7;
        s->call = head & SITE_CALL;
        s->tensors = head & SITE_TENSORS;
        s->name = get_string(r);
        s->type = get_string(r);
        uint64_t step = get(r);
        row += (int64_t)(step >> 1) ^ -(int64_t)(step & 1);
        s->row = (uint32_t)row;
        s->func = (int32_t)get32(r) - 1;
        s->tensor_row = get32(r);
        if (s->kind >= FACT_KINDS) r->bad = true;
    }
}

static void unpack_funcs(struct reader *r)
{
    RESERVE(&r->f->funcs, get_count(r));
    for (size_t i = 0; i < r->f->funcs.len && !r->bad; i++) {
        struct fact_func *fn = &r->f->funcs.ptr[i];
        fn->id = get_string(r);
        fn->class = get_string(r);
        fn->asserts = get_string(r);
        fn->keeps_off = get_string(r);
        fn->params = get_string(r);
        fn->row = get32(r);
        fn->end_row = get32(r);
        fn->tensor_row = get32(r);
        fn->backward = get32(r);
        fn->nbackward = get32(r);
        uint64_t flags = get(r);
        fn->test = flags & FUNC_TEST;
        fn->device_generic = flags & FUNC_GENERIC;
    }
}

static void unpack_rest(struct reader *r)
{
    struct facts *f = r->f;
    RESERVE(&f->edges, get_count(r));
    for (size_t i = 0; i < f->edges.len && !r->bad; i++) {
        f->edges.ptr[i].from = get32(r);
        f->edges.ptr[i].to = get32(r);
    }
    RESERVE(&f->exports, get_count(r));
    for (size_t i = 0; i < f->exports.len && !r->bad; i++) {
        f->exports.ptr[i].name = get_string(r);
        f->exports.ptr[i].target = get_string(r);
        f->exports.ptr[i].bases = get_string(r);
    }
    RESERVE(&f->stars, get_count(r));
    for (size_t i = 0; i < f->stars.len && !r->bad; i++) f->stars.ptr[i] = get_string(r);
    RESERVE(&f->rows, get_count(r));
    for (size_t i = 0; i < f->rows.len && !r->bad; i++) f->rows.ptr[i] = get32(r);
}

/* What refers to another part must lie inside it. */
static bool consistent(const struct facts *f)
{
    for (size_t i = 0; i < f->sites.len; i++)
        if (f->sites.ptr[i].func < -1 || f->sites.ptr[i].func >= (int64_t)f->funcs.len) return false;
    for (size_t i = 0; i < f->edges.len; i++)
        if (f->edges.ptr[i].from >= f->funcs.len || f->edges.ptr[i].to >= f->funcs.len) return false;
    for (size_t i = 0; i < f->funcs.len; i++)
        if ((uint64_t)f->funcs.ptr[i].backward + f->funcs.ptr[i].nbackward > f->rows.len) return false;
    return true;
}

int facts_unpack(struct facts *out, const void *data, size_t n)
{
    *out = (struct facts){0};
    uint32_t sum;
    if (n < sizeof sum) return -1;
    memcpy(&sum, data, sizeof sum);
    const unsigned char *body = (const unsigned char *)data + sizeof sum;
    if (checksum(body, n - sizeof sum) != sum) return -1;
    struct reader r = {body, (const unsigned char *)data + n, out, 0, false};
    if (get(&r) != FACTS_VERSION) return -1;
    r.pool = get_count(&r);
    if (r.bad || !r.pool || r.at[r.pool - 1]) return -1;
    out->nstrings = r.pool;
    out->strings = xmalloc(r.pool);
    memcpy(out->strings, r.at, r.pool);
    r.at += r.pool;
    out->note = get_string(&r);
    unpack_sites(&r);
    unpack_funcs(&r);
    unpack_rest(&r);
    if (!r.bad && r.at == r.end && consistent(out)) return 0;
    facts_free(out);
    return -1;
}
