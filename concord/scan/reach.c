/* reach.c - which tests of a file reach its call sites, and what can be said of each: tensors, backward,
 * asserts, skips.
 *
 * Functions are looked at by their outermost definition ("top"): a test with its nested functions and classes
 * is one node. An edge goes from a top to every function, method or class of the file that it names. */
#include "concord/scan/match.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1, UNKNOWN_DISTANCE = 1 << 20 };

struct reach {
    struct py_file *f;
    int *top; /* scope -> its outermost function, NONE outside functions */
    VEC(struct scan_edge) edges;
    int *distance, *via; /* of tops, towards the nearest with a site */
};

static int outermost_function(const struct py_file *f, uint32_t scope)
{
    int top = NONE;
    for (uint32_t s = scope; s; s = f->scopes.ptr[s].parent)
        if (f->scopes.ptr[s].kind == PY_FUNCTION) top = (int)s;
    return top;
}

/* The method of a class or of its bases in this file; NONE if there is none. */
static int find_method(struct py_file *f, uint32_t class, const char *name, int depth)
{
    for (uint32_t i = 0; i < f->scopes.len; i++)
        if (f->scopes.ptr[i].parent == class && f->scopes.ptr[i].kind == PY_FUNCTION &&
            !strcmp(f->scopes.ptr[i].name, name))
            return (int)i;
    for (size_t b = 0; depth < 8 && b < f->scopes.ptr[class].bases.len; b++) {
        const char *base = f->scopes.ptr[class].bases.ptr[b];
        const char *resolved = *base ? py_resolve(f, f->scopes.ptr[class].parent, base) : NULL;
        if (!resolved || resolved[0] != '.') continue;
        uint32_t scope = py_scope_named(f, resolved + 1);
        if (scope == UINT32_MAX || scope == class) continue;
        int found = find_method(f, scope, name, depth + 1);
        if (found != NONE) return found;
    }
    return NONE;
}

static void add_edge(struct reach *r, int from, int to)
{
    if (from == NONE || to == NONE || from == to) return;
    *vec_push(&r->edges) = (struct scan_edge){from, to};
}

/* Naming a class of the file reaches every method of it. */
static void add_class_edges(struct reach *r, int from, uint32_t class)
{
    for (uint32_t i = 0; i < r->f->scopes.len; i++)
        if (r->f->scopes.ptr[i].parent == class && r->f->scopes.ptr[i].kind == PY_FUNCTION)
            add_edge(r, from, r->top[i]);
}

static void add_ref_edges(struct reach *r, const struct py_ref *ref)
{
    struct py_file *f = r->f;
    int from = r->top[ref->scope];
    if (from == NONE) return;
    if (str_starts(ref->chain, "self.") || str_starts(ref->chain, "cls.")) {
        const char *name = strchr(ref->chain, '.') + 1;
        uint32_t class = f->scopes.ptr[from].parent;
        if (strchr(name, '.') || f->scopes.ptr[class].kind != PY_CLASS) return;
        add_edge(r, from, find_method(f, class, name, 0));
        return;
    }
    const char *resolved = py_resolve(f, ref->scope, ref->chain);
    if (!resolved || resolved[0] != '.') return;
    uint32_t scope = py_scope_named(f, resolved + 1);
    if (scope == UINT32_MAX) return;
    if (f->scopes.ptr[scope].kind == PY_CLASS)
        add_class_edges(r, from, scope);
    else
        add_edge(r, from, r->top[scope]);
}

static void build_graph(struct reach *r, struct py_file *f)
{
    r->f = f;
    size_t n = f->scopes.len;
    r->top = xcalloc(n, sizeof *r->top);
    r->distance = xcalloc(n, sizeof *r->distance);
    r->via = xcalloc(n, sizeof *r->via);
    for (uint32_t i = 0; i < n; i++) r->top[i] = outermost_function(f, i);
    for (size_t i = 0; i < f->refs.len; i++) add_ref_edges(r, &f->refs.ptr[i]);
}

/* Distances of all tops to the nearest one that holds a site of the API. */
static void measure(struct reach *r, const struct scan_file *file, uint32_t api)
{
    for (size_t i = 0; i < r->f->scopes.len; i++) {
        r->distance[i] = UNKNOWN_DISTANCE;
        r->via[i] = NONE;
    }
    for (size_t i = 0; i < file->sites.len; i++) {
        int top = file->sites.ptr[i].api == api ? r->top[file->sites.ptr[i].scope] : NONE;
        if (top != NONE) r->distance[top] = 0;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < r->edges.len; i++) {
            struct scan_edge g = r->edges.ptr[i];
            if (r->distance[g.to] + 1 >= r->distance[g.from]) continue;
            r->distance[g.from] = r->distance[g.to] + 1;
            r->via[g.from] = g.to;
            changed = true;
        }
    }
}

/* ---- evidence ---------------------------------------------------------------------------------------- */

static const char *leaf_of(const char *chain)
{
    const char *dot = strrchr(chain, '.');
    return dot ? dot + 1 : chain;
}

/* Calls whose value is a tensor or a module that holds some. */
static bool makes_tensor(struct py_file *f, const struct py_ref *r)
{
    static const char *const factories[] = {
        "torch.tensor",
        "torch.randn",
        "torch.rand",
        "torch.randint",
        "torch.randperm",
        "torch.ones",
        "torch.zeros",
        "torch.empty",
        "torch.full",
        "torch.arange",
        "torch.linspace",
        "torch.logspace",
        "torch.eye",
        "torch.as_tensor",
        "torch.from_numpy",
        "torch.normal",
        "torch.empty_strided",
        "torch.complex",
        "torch.sparse_coo_tensor",
        "torch.Tensor",
        "torch.FloatTensor",
        "torch.ones_like",
        "torch.zeros_like",
        "torch.rand_like",
        "torch.randn_like",
        "torch.empty_like",
        "torch.full_like",
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
        "torch.testing.make_tensor",
        "torch.autograd.Variable",
    };
    if (!r->call) return false;
    if (!strcmp(leaf_of(r->chain), "make_tensor")) return true;
    const char *resolved = py_resolve(f, r->scope, r->chain);
    if (!resolved) return false;
    for (size_t i = 0; i < sizeof factories / sizeof *factories; i++)
        if (!strcmp(resolved, factories[i])) return true;
    return str_starts(resolved, "torch.nn.") && leaf_of(resolved)[0] >= 'A' && leaf_of(resolved)[0] <= 'Z';
}

static bool inside(struct py_span outer, struct py_span at)
{
    return at.start >= outer.start && at.end <= outer.end;
}

/* First row in `where` at which a tensor is made or a name in `names` is used; 0 if none. */
static uint32_t tensor_in(struct py_file *f, struct py_span where, const struct map *names)
{
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!inside(where, r->at)) continue;
        if (makes_tensor(f, r)) return r->at.row;
        char *root = xstrndup(r->chain, strcspn(r->chain, "."));
        uint32_t row = (uint32_t)(uintptr_t)map_get(names, root);
        free(root);
        if (row) return row;
    }
    return 0;
}

/* Names of the top's scopes that hold tensors, mapped to the row where the first was made. */
static void tensor_names(struct py_file *f, uint32_t top, struct map *names)
{
    struct py_span body = f->scopes.ptr[top].at;
    for (int pass = 0; pass < 3; pass++) {
        size_t before = names->entries.len;
        for (size_t i = 0; i < f->bindings.len; i++) {
            const struct py_binding *b = &f->bindings.ptr[i];
            bool value = b->kind == PYB_ALIAS || b->kind == PYB_INSTANCE || b->kind == PYB_OTHER;
            if (!value || !inside(body, b->at) || map_has(names, b->name)) continue;
            uint32_t row = tensor_in(f, b->at, names);
            if (row) *map_put(names, b->name) = (void *)(uintptr_t)row;
        }
        if (names->entries.len == before) return;
    }
}

static uint32_t backward_in(struct py_file *f, struct py_span where, uint32_t from_row)
{
    static const char *const names[] = {"backward", "gradcheck", "gradgradcheck", "grad"};
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || r->at.row < from_row || !inside(where, r->at)) continue;
        const char *leaf = leaf_of(r->chain);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(leaf, names[k])) continue;
            const char *resolved = strcmp(leaf, "grad") ? "" : py_resolve(f, r->scope, r->chain);
            if (resolved && (!*resolved || str_starts(resolved, "torch."))) return r->at.row;
        }
    }
    return 0;
}

static void add_word(struct buf *b, const char *word)
{
    for (const char *at = buf_str(b); (at = strstr(at, word)); at++) {
        size_t n = strlen(word);
        if ((at == b->ptr || at[-1] == ' ') && (!at[n] || at[n] == ',')) return;
    }
    buf_addf(b, "%s%s", b->len ? ", " : "", word);
}

static char *asserts_in(struct py_file *f, struct py_span where)
{
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (r->call && inside(where, r->at) && str_starts(leaf_of(r->chain), "assert"))
            add_word(&b, leaf_of(r->chain));
    }
    return buf_take(&b);
}

static void add_skips(struct py_file *f, uint32_t scope, struct buf *b)
{
    static const char *const prefixes[] = {"skip", "only", "requires", "expectedFailure", "require_"};
    for (size_t i = 0; i < f->scopes.ptr[scope].decorators.len; i++) {
        const char *name = f->scopes.ptr[scope].decorators.ptr[i].name;
        for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
            if (str_starts(leaf_of(name), prefixes[k])) add_word(b, name);
    }
}

static bool instantiated_per_device(struct py_file *f, uint32_t class)
{
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || strcmp(leaf_of(r->chain), "instantiate_device_type_tests")) continue;
        const char *name = f->scopes.ptr[class].name;
        const char *at = f->text + r->args.start + 1;
        if (!strncmp(at, name, strlen(name)) && (at[strlen(name)] == ',' || at[strlen(name)] == ')'))
            return true;
    }
    return false;
}

static char *path_of(const struct reach *r, int top)
{
    struct buf b = BUF_INIT;
    for (int t = top; t != NONE; t = r->via[t])
        buf_addf(&b, "%s%s", b.len ? " -> " : "", r->f->scopes.ptr[t].name);
    return buf_take(&b);
}

static void describe(const struct reach *r, struct scan_file *file, uint32_t api, int top)
{
    struct py_file *f = r->f;
    int end = top;
    while (r->via[end] != NONE) end = r->via[end];
    const struct py_scope *s = &f->scopes.ptr[top];
    struct scan_test t = {
        .api = api, .file = f->path, .id = s->qualname, .row = s->at.row, .match = SCAN_NMATCH};
    t.indirect = end != top;
    t.path = t.indirect ? path_of(r, top) : xstrdup("");
    struct map names = {0};
    tensor_names(f, (uint32_t)top, &names);
    if (t.indirect) tensor_names(f, (uint32_t)end, &names);
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < file->sites.len; i++) {
        const struct scan_site *site = &file->sites.ptr[i];
        if (site->api != api || r->top[site->scope] != end) continue;
        *vec_push(&t.rows) = site->row;
        if (site->row < first) first = site->row;
        if (site->match < t.match) t.match = site->match;
        struct py_span where =
            site->args.end ? site->args : (struct py_span){site->start, site->end, site->row};
        if (!t.tensor_row) t.tensor_row = tensor_in(f, where, &names);
        if (!t.tensor_row && site->match >= SCAN_METHOD)
            t.tensor_row = tensor_in(f, (struct py_span){site->start, site->end, site->row}, &names);
    }
    if (!t.tensor_row && t.indirect) t.tensor_row = tensor_in(f, s->at, &names); /* handed to the helper */
    t.tensors = t.tensor_row != 0;
    t.backward_row = backward_in(f, s->at, t.indirect ? 0 : first);
    if (!t.backward_row && t.indirect) t.backward_row = backward_in(f, f->scopes.ptr[end].at, first);
    t.asserts = asserts_in(f, s->at);
    struct buf off = BUF_INIT;
    add_skips(f, (uint32_t)top, &off);
    if (f->scopes.ptr[s->parent].kind == PY_CLASS) {
        add_skips(f, s->parent, &off);
        t.device_generic = instantiated_per_device(f, s->parent);
    }
    t.keeps_off = buf_take(&off);
    map_free(&names, NULL);
    *vec_push(&file->tests) = t;
}

void reach_tests(struct py_file *f, size_t napis, struct scan_file *out)
{
    struct reach r = {0};
    build_graph(&r, f);
    for (uint32_t api = 0; api < napis; api++) {
        bool any = false;
        for (size_t i = 0; i < out->sites.len && !any; i++) any = out->sites.ptr[i].api == api;
        if (!any) continue;
        measure(&r, out, api);
        for (uint32_t s = 1; s < f->scopes.len; s++)
            if (py_is_test(f, s) && r.top[s] == (int)s && r.distance[s] < UNKNOWN_DISTANCE)
                describe(&r, out, api, (int)s);
    }
    vec_free(&r.edges);
    free(r.top);
    free(r.distance);
    free(r.via);
}

void scan_graph_make(struct py_file *f, struct scan_graph *g)
{
    struct reach r = {0};
    build_graph(&r, f);
    *g = (struct scan_graph){r.top, r.edges.ptr, r.edges.len};
    free(r.distance);
    free(r.via);
}

void scan_graph_free(struct scan_graph *g)
{
    free(g->top);
    free(g->edges);
    *g = (struct scan_graph){0};
}
