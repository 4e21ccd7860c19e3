/* resolve.c - what a chain of names refers to, by Python's scoping rules. */
#include "concord/pysrc/private.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 12 }; /* aliases of aliases; a cycle ends here */

static uint32_t bucket(const struct py_private *p, uint32_t scope, const char *name, size_t n)
{
    uint32_t h = scope * 2654435761u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)name[i]) * 16777619u;
    return h & (p->nbuckets - 1);
}

/* Bindings are chained so that a scope's bindings of a name come in source order. */
void py_index_bindings(struct py_file *f)
{
    struct py_private *p = f->priv;
    p->nbuckets = PY_BUCKETS;
    while (p->nbuckets < f->bindings.len) p->nbuckets *= 2;
    p->first = xcalloc(p->nbuckets, sizeof *p->first);
    p->next = xcalloc(f->bindings.len + 1, sizeof *p->next);
    for (size_t i = f->bindings.len; i-- > 0;) {
        const struct py_binding *b = &f->bindings.ptr[i];
        uint32_t at = bucket(p, b->scope, b->name, strlen(b->name));
        p->next[i] = p->first[at];
        p->first[at] = (uint32_t)i + 1;
        if (b->kind == PYB_STAR) p->star = true;
    }
}

/* *at is 1 + the index of the next binding to look at, or UINT32_MAX past the end. */
const struct py_binding *py_next_binding(const struct py_file *f, uint32_t scope, const char *name, size_t n,
                                         uint32_t *at)
{
    if (!*at) *at = f->priv->first[bucket(f->priv, scope, name, n)];
    while (*at && *at != UINT32_MAX) {
        const struct py_binding *b = &f->bindings.ptr[*at - 1];
        uint32_t next = f->priv->next[*at - 1];
        *at = next ? next : UINT32_MAX;
        if (b->scope == scope && !strncmp(b->name, name, n) && !b->name[n]) return b;
    }
    *at = UINT32_MAX;
    return NULL;
}

static const char *resolve(struct py_file *f, uint32_t scope, const char *chain, int depth);

static const char *join(struct py_file *f, const char *prefix, const char *rest)
{
    struct buf b = BUF_INIT;
    buf_addf(&b, "%s%s", prefix, rest);
    const char *s = py_intern(f, buf_str(&b), b.len);
    buf_free(&b);
    return s;
}

static const char *binding_target(struct py_file *f, const struct py_binding *b, int depth)
{
    switch (b->kind) {
    case PYB_IMPORT:
    case PYB_FROM:
        return b->target;
    case PYB_ALIAS: {
        size_t n = strcspn(b->target, "."); /* x = x.y in one scope would chase itself */
        if (strlen(b->name) == n && !strncmp(b->name, b->target, n)) return NULL;
        return resolve(f, b->scope, b->target, depth + 1);
    }
    case PYB_FUNCTION:
    case PYB_CLASS:
        return join(f, ".", f->scopes.ptr[b->inner].qualname);
    default:
        return NULL;
    }
}

/* The one target that all bindings of name in scope agree on. *bound tells whether there are any. */
static const char *agreed(struct py_file *f, uint32_t scope, const char *name, size_t n, int depth,
                          bool *bound)
{
    uint32_t at = 0;
    const char *target = NULL;
    bool known = true;
    const struct py_binding *b;
    *bound = false;
    while ((b = py_next_binding(f, scope, name, n, &at))) {
        if (b->kind == PYB_OUTER) continue;
        *bound = true;
        const char *t = binding_target(f, b, depth);
        /* `try: import x` with `except ImportError: x = None` at module level leaves one import. */
        if (!t && b->conditional && b->kind == PYB_OTHER && scope == 0) continue;
        if (!t || (target && strcmp(target, t))) known = false;
        if (t) target = t;
    }
    return known ? target : NULL;
}

static bool declared_outer(const struct py_file *f, uint32_t scope, const char *name, size_t n)
{
    uint32_t at = 0;
    const struct py_binding *b;
    while ((b = py_next_binding(f, scope, name, n, &at)))
        if (b->kind == PYB_OUTER) return true;
    return false;
}

static const char *resolve(struct py_file *f, uint32_t scope, const char *chain, int depth)
{
    size_t n = strcspn(chain, ".");
    if (depth > MAX_DEPTH || chain[0] == '?') return NULL;
    bool own = true; /* methods do not see the names of the class around them */
    for (uint32_t s = scope;; s = f->scopes.ptr[s].parent) {
        if ((own || f->scopes.ptr[s].kind != PY_CLASS) && !declared_outer(f, s, chain, n)) {
            bool bound;
            const char *target = agreed(f, s, chain, n, depth, &bound);
            if (bound) return target && chain[n] ? join(f, target, chain + n) : target;
        }
        if (f->scopes.ptr[s].kind != PY_COMPREHENSION) own = false;
        if (s == 0) break;
    }
    return f->priv->star ? NULL : join(f, "builtins.", chain);
}

const char *py_resolve(struct py_file *f, uint32_t scope, const char *chain)
{
    return resolve(f, scope, chain, 0);
}

const char *py_resolve_instance(struct py_file *f, uint32_t scope, const char *name)
{
    size_t n = strlen(name);
    for (uint32_t s = scope;; s = f->scopes.ptr[s].parent) {
        uint32_t at = 0;
        const struct py_binding *b;
        const char *type = NULL;
        bool bound = false, known = true;
        while ((b = py_next_binding(f, s, name, n, &at))) {
            const char *t = b->kind == PYB_INSTANCE ? resolve(f, b->scope, b->target, 1) : NULL;
            if (!t || (type && strcmp(t, type))) known = false;
            type = t;
            bound = true;
        }
        if (bound) return known ? type : NULL;
        if (s == 0) return NULL;
    }
}

bool py_has_star(const struct py_file *f)
{
    return f->priv->star;
}

uint32_t py_enclosing(const struct py_file *f, uint32_t scope, enum py_scope_kind kind)
{
    for (uint32_t s = scope;; s = f->scopes.ptr[s].parent) {
        if (f->scopes.ptr[s].kind == kind) return s;
        if (s == 0) return UINT32_MAX;
    }
}

uint32_t py_scope_named(const struct py_file *f, const char *qualname)
{
    for (uint32_t i = 1; i < f->scopes.len; i++)
        if (*f->scopes.ptr[i].name && !strcmp(f->scopes.ptr[i].qualname, qualname)) return i;
    return UINT32_MAX;
}

bool py_is_test(const struct py_file *f, uint32_t scope)
{
    const struct py_scope *s = &f->scopes.ptr[scope];
    if (s->kind != PY_FUNCTION || !str_starts(s->name, "test")) return false;
    enum py_scope_kind around = f->scopes.ptr[s->parent].kind;
    return around == PY_CLASS || (around == PY_MODULE && str_starts(s->name, "test_"));
}
