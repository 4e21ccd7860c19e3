/* match.c - which APIs a fact names. */
#include "concord/scan/match.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct learned { /* a helper reaches an API */
    char *name;
    bool method; /* whoever calls it names its class */
    uint32_t api;
    enum scan_match match;
    uint32_t next; /* of the same name, + 1 */
};
struct matcher {
    const struct scan_api *apis;
    size_t napis;
    struct modules *modules;
    const char **canonical; /* by API; of its class for constructors */
    const char **owner;     /* by API: canonical name of its class, NULL */
    char **strings;         /* what canonical and owner were made of */
    struct map by_name;     /* canonical name -> API + 1, further ones by next_name */
    struct map by_leaf;     /* method name -> API + 1, further ones by next_leaf */
    struct map by_bare;     /* last part of any name -> API + 1 (first) */
    struct map by_operator; /* "+" -> API + 1, further ones by next_operator */
    uint32_t *next_name, *next_leaf, *next_operator;
    struct map leaves;  /* last parts of all names that are looked for */
    struct map helpers; /* canonical name of a helper -> learned + 1 */
    VEC(struct learned) learned;
};

static const char *leaf_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static bool is_constructor(const struct scan_api *a)
{
    return a->owner && (!strcmp(a->leaf, "__init__") || !strcmp(a->leaf, "__new__"));
}

static void chain_in(struct map *m, const char *key, uint32_t api, uint32_t *next)
{
    void **slot = map_put(m, key);
    next[api] = (uint32_t)(uintptr_t)*slot;
    *slot = (void *)(uintptr_t)(api + 1);
}
static uint32_t first_in(const struct map *m, const char *key)
{
    return (uint32_t)(uintptr_t)map_get(m, key);
}

struct matcher *matcher_new(const struct scan_api *apis, size_t napis, struct modules *modules)
{
    struct matcher *m = xcalloc(1, sizeof *m);
    *m = (struct matcher){.apis = apis, .napis = napis, .modules = modules};
    m->canonical = xcalloc(napis + 1, sizeof *m->canonical);
    m->owner = xcalloc(napis + 1, sizeof *m->owner);
    m->strings = xcalloc(napis + 1, sizeof *m->strings);
    m->next_name = xcalloc(napis + 1, sizeof *m->next_name);
    m->next_leaf = xcalloc(napis + 1, sizeof *m->next_leaf);
    m->next_operator = xcalloc(napis + 1, sizeof *m->next_operator);
    for (uint32_t i = (uint32_t)napis; i-- > 0;) {
        const struct scan_api *a = &apis[i];
        m->canonical[i] = modules_canonical(modules, a->name);
        if (a->owner) {
            m->strings[i] = xstrndup(a->name, (size_t)(a->leaf - 1 - a->name));
            m->owner[i] = modules_canonical(modules, m->strings[i]);
            if (is_constructor(a))
                m->canonical[i] = m->owner[i];
            else
                chain_in(&m->by_leaf, a->leaf, i, m->next_leaf);
        }
        if (a->operator_) chain_in(&m->by_operator, a->operator_, i, m->next_operator);
        chain_in(&m->by_name, m->canonical[i], i, m->next_name);
        *map_put(&m->by_bare, a->leaf) = (void *)(uintptr_t)(i + 1);
        *map_put(&m->leaves, leaf_of(a->name)) = m;
        *map_put(&m->leaves, leaf_of(m->canonical[i])) = m;
        if (a->owner) *map_put(&m->leaves, a->owner) = m;
    }
    return m;
}

void matcher_free(struct matcher *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->napis; i++) free(m->strings[i]);
    for (size_t i = 0; i < m->learned.len; i++) free(m->learned.ptr[i].name);
    free(m->strings);
    free(m->canonical);
    free(m->owner);
    free(m->next_name);
    free(m->next_leaf);
    free(m->next_operator);
    vec_free(&m->learned);
    map_free(&m->by_name, NULL);
    map_free(&m->by_leaf, NULL);
    map_free(&m->by_bare, NULL);
    map_free(&m->leaves, NULL);
    map_free(&m->by_operator, NULL);
    map_free(&m->helpers, NULL);
    free(m);
}

/* ---- one site ------------------------------------------------------------------------------------------ */

struct matching {
    struct matcher *m;
    const struct facts *f;
    struct file_module self;
    hits *out;
    struct map seen;  /* name in this file -> canonical name */
    struct map near;  /* package -> whether the file speaks of it: 1 yes, 2 no */
    struct map types; /* "type owner" -> 1 yes, 2 no: asked over and over in one file */
};

static const char *canonical(struct matching *g, const char *name)
{
    void **slot = map_put(&g->seen, name);
    if (*slot) return *slot;
    if (*name == '.' && g->self.name) {
        char *full = modules_absolute(g->self.name, g->self.package, name);
        *slot = (void *)modules_canonical(g->m->modules, full);
        if (*slot == full) *slot = (void *)name; /* without sources nothing is kept of it */
        free(full);
    } else {
        *slot = (void *)modules_canonical(g->m->modules, name);
    }
    return *slot;
}

static void add_hit(struct matching *g, uint32_t api, uint32_t site, enum scan_match match, const char *via)
{
    *vec_push(g->out) = (struct hit){api, site, match, via};
}

static void hit_named(struct matching *g, uint32_t site, const char *written, const char *name,
                      enum scan_match how)
{
    const struct fact_site *s = &g->f->sites.ptr[site];
    for (uint32_t a = first_in(&g->m->by_name, name); a; a = g->m->next_name[a - 1]) {
        const struct scan_api *api = &g->m->apis[a - 1];
        if (is_constructor(api) && !s->call) continue;
        bool same = !strcmp(written, api->name) || (is_constructor(api) && str_starts(api->name, written));
        add_hit(g, a - 1, site, how == SCAN_STAR ? how : same ? SCAN_EXACT : SCAN_ALIAS, NULL);
    }
}

static void hit_helpers(struct matching *g, uint32_t site, const char *name)
{
    for (uint32_t l = first_in(&g->m->helpers, name); l; l = g->m->learned.ptr[l - 1].next) {
        const struct learned *h = &g->m->learned.ptr[l - 1];
        add_hit(g, h->api, site, h->match, h->name);
    }
}

static bool derives(struct matching *g, const char *type, const char *owner)
{
    if (!modules_have_sources(g->m->modules)) return !strcmp(leaf_of(type), leaf_of(owner));
    const char *class = canonical(g, type);
    if (class == owner) return true;
    char key[512];
    if ((size_t)snprintf(key, sizeof key, "%s %s", class, owner) >= sizeof key) return false;
    void **slot = map_put(&g->types, key);
    if (!*slot) *slot = (void *)(uintptr_t)(modules_derives(g->m->modules, class, owner) ? 1 : 2);
    return (uintptr_t)*slot == 1;
}

/* A method of unknown receiver may be of a class only where the file speaks of the class's package. Tensors
 * are spoken of everywhere. */
static bool is_near(struct matching *g, const char *owner)
{
    if (!strcmp(leaf_of(owner), "Tensor")) return true;
    size_t n = strcspn(owner, ".");
    if (owner[n]) n += 1 + strcspn(owner + n + 1, ".");
    char *package = xstrndup(owner, n);
    void **slot = map_put(&g->near, package);
    if (!*slot) {
        bool found = false;
        for (const char *at = g->f->strings, *end = at + g->f->nstrings; at < end && !found;
             at += strlen(at) + 1)
            found = str_starts(at, package);
        *slot = (void *)(uintptr_t)(found ? 1 : 2);
    }
    free(package);
    return (uintptr_t)*slot == 1;
}

static void hit_method(struct matching *g, uint32_t site, const char *name, const char *type)
{
    for (uint32_t a = first_in(&g->m->by_leaf, name); a; a = g->m->next_leaf[a - 1]) {
        const char *owner = g->m->owner[a - 1];
        if (!*type) {
            if (is_near(g, owner)) add_hit(g, a - 1, site, SCAN_RECEIVER, NULL);
        } else if (strchr(type, '.') && type[0] != '.' && derives(g, type, owner)) {
            add_hit(g, a - 1, site, SCAN_METHOD, NULL);
        }
    }
    if (g->m->helpers.entries.len && (str_starts(type, "torch.") || (*type == '.' && g->self.name))) {
        char *full = xformat("%s.%s", canonical(g, type), name);
        hit_helpers(g, site, full);
        free(full);
    }
}

/* torch.nn.Linear.forward: a method asked of a class that has it from a base. */
static void hit_inherited(struct matching *g, uint32_t site, const char *name)
{
    const char *leaf = leaf_of(name);
    if (leaf == name || !first_in(&g->m->by_leaf, leaf) || first_in(&g->m->by_name, name)) return;
    char *class = xstrndup(name, (size_t)(leaf - 1 - name));
    for (uint32_t a = first_in(&g->m->by_leaf, leaf); a; a = g->m->next_leaf[a - 1])
        if (isupper((unsigned char)*leaf_of(class)) && derives(g, class, g->m->owner[a - 1]))
            add_hit(g, a - 1, site, SCAN_METHOD, NULL);
    free(class);
}

static void hit_star(struct matching *g, uint32_t site, const char *name)
{
    for (size_t i = 0; i < g->f->stars.len; i++) {
        const char *module = g->f->stars.ptr[i];
        if (!str_starts(module, "torch")) continue;
        bool sources = modules_have_sources(g->m->modules);
        if (sources && !modules_exports(g->m->modules, module, name)) continue;
        char *full = xformat("%s.%s", module, name);
        const char *what = canonical(g, full);
        uint32_t bare = first_in(&g->m->by_bare, name);
        if (!sources && bare) what = g->m->canonical[bare - 1];
        hit_named(g, site, full, what, SCAN_STAR);
        hit_helpers(g, site, what);
        free(full);
    }
}

static void hit_operator(struct matching *g, uint32_t site, const char *op)
{
    for (uint32_t a = 0; a < g->m->napis; a++)
        if (g->m->apis[a].operator_ && !strcmp(g->m->apis[a].operator_, op))
            add_hit(g, a, site, SCAN_OPERATOR, NULL);
}

static int by_api(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    if (x->api != y->api) return x->api < y->api ? -1 : 1;
    return x->site < y->site ? -1 : x->site > y->site;
}

/* Without sources a shorter public path of the same thing counts: both names begin alike and end alike, and
 * what the API's has in between are modules (torch.distributed.distributed_c10d.Store,
 * torch.distributed.Store). */
static bool is_shorter_path(const char *written, const char *name)
{
    size_t nw = strlen(written), nn = strlen(name), leaf = strlen(leaf_of(written));
    if (nw >= nn || strcmp(leaf_of(written), leaf_of(name)) || strncmp(written, name, nw - leaf))
        return false;
    for (const char *c = name + nw - leaf; c < name + nn - leaf; c++)
        if (isupper((unsigned char)*c)) return false;
    return str_starts(written, "torch.") && nw - leaf > strlen("torch.");
}

/* Of a class, `X.__call__` is a use of X. Bytes of the name without such an end. */
static size_t without_dunder(const char *name)
{
    const char *leaf = leaf_of(name);
    size_t n = strlen(leaf);
    bool dunder = leaf > name && n > 4 && !memcmp(leaf, "__", 2) && !memcmp(leaf + n - 2, "__", 2);
    return dunder ? (size_t)(leaf - 1 - name) : strlen(name);
}

static void hit_class_of_dunder(struct matching *g, uint32_t site, const char *name)
{
    size_t n = without_dunder(name);
    if (!name[n] || first_in(&g->m->by_name, name)) return;
    char *class = xstrndup(name, n);
    const char *what = modules_canonical(g->m->modules, class);
    for (uint32_t a = first_in(&g->m->by_name, what); a; a = g->m->next_name[a - 1])
        if (!is_constructor(&g->m->apis[a - 1])) add_hit(g, a - 1, site, SCAN_EXACT, NULL);
    free(class);
}

/* An alias is taken to keep the last part of the name: only such names are followed through the sources. */
static void hit_name(struct matching *g, uint32_t i, const char *written)
{
    const char *name = canonical(g, written);
    hit_named(g, i, written, name, SCAN_EXACT);
    hit_inherited(g, i, name);
    hit_class_of_dunder(g, i, name);
    hit_helpers(g, i, name);
    uint32_t bare = modules_have_sources(g->m->modules) ? 0 : first_in(&g->m->by_bare, leaf_of(written));
    if (bare && strcmp(written, g->m->apis[bare - 1].name) &&
        is_shorter_path(written, g->m->apis[bare - 1].name))
        add_hit(g, bare - 1, i, SCAN_ALIAS, NULL);
}

/* Most names of a file are no API's, and each stands in it many times: known after the first look. */
static bool is_foreign(struct matching *g, uint8_t *known, const struct fact_site *s)
{
    enum { NAME_ASKED = 1, NAME_FOREIGN = 2, METHOD_ASKED = 4, METHOD_FOREIGN = 8 };
    uint8_t *k = &known[s->name - g->f->strings];
    bool method = s->kind == FACT_METHOD;
    if (s->kind == FACT_OPERATOR) return false;
    if (!(*k & (method ? METHOD_ASKED : NAME_ASKED))) {
        bool foreign = method
                           ? !first_in(&g->m->by_leaf, s->name) && !map_has(&g->m->leaves, s->name)
                           : !map_has(&g->m->leaves, leaf_of(s->name)) && !s->name[without_dunder(s->name)];
        *k |= (uint8_t)(method ? METHOD_ASKED | (foreign ? METHOD_FOREIGN : 0)
                               : NAME_ASKED | (foreign ? NAME_FOREIGN : 0));
    }
    return *k & (method ? METHOD_FOREIGN : NAME_FOREIGN);
}

void matcher_hits(struct matcher *m, const struct facts *f, struct file_module self, hits *out)
{
    struct matching g = {.m = m, .f = f, .self = self, .out = out};
    uint8_t *known = xcalloc(f->nstrings + 1, 1);
    out->len = 0;
    for (uint32_t i = 0; i < f->sites.len; i++) {
        const struct fact_site *s = &f->sites.ptr[i];
        if (is_foreign(&g, known, s)) continue;
        switch (s->kind) {
        case FACT_NAME:
            hit_name(&g, i, s->name);
            break;
        case FACT_METHOD:
            hit_method(&g, i, s->name, s->type);
            break;
        case FACT_OPERATOR:
            hit_operator(&g, i, s->name);
            break;
        default:
            hit_star(&g, i, s->name);
        }
    }
    free(known);
    if (out->len) qsort(out->ptr, out->len, sizeof *out->ptr, by_api);
    map_free(&g.seen, NULL);
    map_free(&g.near, NULL);
    map_free(&g.types, NULL);
}

/* ---- helpers ------------------------------------------------------------------------------------------- */

static bool learn(struct matcher *m, const char *name, bool method, uint32_t api, enum scan_match match)
{
    uint32_t first = first_in(&m->helpers, name);
    for (uint32_t l = first; l; l = m->learned.ptr[l - 1].next)
        if (m->learned.ptr[l - 1].api == api) return false;
    *vec_push(&m->learned) = (struct learned){xstrdup(name), method, api, match, first};
    *map_put(&m->helpers, name) = (void *)(uintptr_t)m->learned.len;
    *map_put(&m->leaves, leaf_of(name)) = m;
    return true;
}

bool matcher_learn(struct matcher *m, const char *module, const struct facts *f, const hits *found)
{
    bool new = false;
    struct reach r;
    reach_make(&r, f);
    for (size_t i = 0, end; i < found->len; i = end) {
        enum scan_match best = SCAN_NMATCH;
        for (end = i; end < found->len && found->ptr[end].api == found->ptr[i].api; end++)
            if (found->ptr[end].match < best) best = found->ptr[end].match;
        if (best >= SCAN_RECEIVER) continue; /* weak twice over is nothing */
        reach_from(&r, &found->ptr[i], end - i);
        for (uint32_t k = 0; k < r.nqueue; k++) {
            const struct fact_func *fn = &f->funcs.ptr[r.queue[k]];
            const char *leaf = leaf_of(fn->id);
            if (fn->test || str_starts(leaf, "assert") || str_starts(leaf, "__") || !strcmp(leaf, "setUp"))
                continue;
            char *full = xformat("%s.%s", module, fn->id);
            new |= learn(m, full, *fn->class != 0, found->ptr[i].api, best);
            if (*fn->class) { /* making one reaches its methods, as in a file of its own */
                full[strlen(full) - strlen(leaf) - 1] = 0;
                new |= learn(m, full, false, found->ptr[i].api, best);
            }
            free(full);
        }
    }
    reach_free(&r);
    return new;
}

static void take_keys(struct map *words, strings *out)
{
    for (size_t i = 0; i < words->entries.len; i++) *vec_push(out) = xstrdup(words->entries.ptr[i].key);
    map_free(words, NULL);
}

void matcher_words(struct matcher *m, strings *out, strings *methods)
{
    struct map words = {0}, names = {0};
    for (size_t i = 0; i < m->napis; i++) {
        const struct scan_api *a = &m->apis[i];
        *map_put(&words, is_constructor(a) ? a->owner : a->leaf) = m;
        *map_put(&words, leaf_of(m->canonical[i])) = m;
    }
    for (size_t i = 0; i < m->learned.len; i++)
        *map_put(m->learned.ptr[i].method ? &names : &words, leaf_of(m->learned.ptr[i].name)) = m;
    take_keys(&words, out);
    take_keys(&names, methods);
}
