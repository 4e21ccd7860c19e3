/* facts.c - from the model of a file to the facts that answer for any API. */
#include "concord/scan/facts.h"
#include "concord/scan/graph.h"
#include "concord/scan/types.h"

#include <stdlib.h>
#include <string.h>

/* Strings are pooled while facts are made: offsets first, pointers when the pool has stopped growing. */
struct maker {
    struct types t;
    struct py_file *f;
    struct facts *out;
    struct buf pool;
    struct map known;
    int *func;            /* scope -> index of its outermost function in out->funcs, -1 */
    bool *device_generic; /* by scope: classes */
};

static const char *offset(size_t at)
{
    return (const char *)(uintptr_t)at;
}

static const char *pooled(struct maker *m, const char *s)
{
    if (!s || !*s) return offset(0);
    void **slot = map_put(&m->known, s);
    if (!*slot) {
        *slot = (void *)(uintptr_t)m->pool.len;
        buf_add(&m->pool, s, strlen(s) + 1);
    }
    return *slot;
}

static const char *leaf_of(const char *chain)
{
    const char *dot = strrchr(chain, '.');
    return dot ? dot + 1 : chain;
}

/* ---- functions ----------------------------------------------------------------------------------------- */

static void add_word(struct buf *b, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = buf_str(b); (at = strstr(at, word)); at++)
        if ((at == b->ptr || at[-1] == ' ') && (!at[n] || at[n] == ',')) return;
    buf_addf(b, "%s%s", b->len ? ", " : "", word);
}

static void add_skips(const struct py_file *f, uint32_t scope, struct buf *b)
{
    static const char *const prefixes[] = {"skip",     "only",         "requires", "expectedFailure",
                                           "require_", "with_comms_if"};
    for (size_t i = 0; i < f->scopes.ptr[scope].decorators.len; i++) {
        const char *name = f->scopes.ptr[scope].decorators.ptr[i].name;
        for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
            if (str_starts(leaf_of(name), prefixes[k])) add_word(b, name);
    }
}

/* Decorators that run a test several times, as written, on one line. */
static void add_params(const struct py_file *f, uint32_t scope, struct buf *b)
{
    static const char *const prefixes[] = {"parametrize", "dtypes",  "ops",    "modules",
                                           "optims",      "subtest", "expand", "given"};
    enum { KEEP = 160 };
    for (size_t i = 0; i < f->scopes.ptr[scope].decorators.len; i++) {
        const struct py_decorator *d = &f->scopes.ptr[scope].decorators.ptr[i];
        bool listed = false;
        for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
            listed |= str_starts(leaf_of(d->name), prefixes[k]);
        if (!listed) continue;
        if (b->len) buf_adds(b, "; ");
        buf_adds(b, leaf_of(d->name));
        size_t start = b->len;
        for (uint32_t at = d->args.start; at < d->args.end && b->len - start < KEEP; at++) {
            char c = f->text[at];
            bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
            if (!blank || (b->len && b->ptr[b->len - 1] != ' ' && b->ptr[b->len - 1] != '('))
                buf_addc(b, blank ? ' ' : c);
        }
        if (b->len - start >= KEEP) buf_adds(b, "...");
    }
}

static void find_device_generic(struct maker *m)
{
    struct py_file *f = m->f;
    m->device_generic = xcalloc(f->scopes.len, sizeof *m->device_generic);
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || !r->nargs || strcmp(leaf_of(r->chain), "instantiate_device_type_tests")) continue;
        const struct py_expr *e = &f->exprs.ptr[f->arguments.ptr[r->arg].value];
        uint32_t class = e->kind == PYE_REF ? m->t.callee[e->a] : UINT32_MAX;
        if (class != UINT32_MAX) m->device_generic[class] = true;
    }
}

static void add_func(struct maker *m, uint32_t scope)
{
    struct py_file *f = m->f;
    const struct py_scope *s = &f->scopes.ptr[scope];
    struct buf off = BUF_INIT, params = BUF_INIT;
    add_skips(f, scope, &off);
    add_params(f, scope, &params);
    struct fact_func fn = {.id = pooled(m, s->qualname), .row = s->at.row, .test = py_is_test(f, scope)};
    fn.end_row = s->at.row;
    for (uint32_t at = s->at.start; at < s->at.end && at < f->len; at++) fn.end_row += f->text[at] == '\n';
    if (f->scopes.ptr[s->parent].kind == PY_CLASS) {
        fn.class = pooled(m, f->scopes.ptr[s->parent].qualname);
        add_skips(f, s->parent, &off);
        add_params(f, s->parent, &params);
        fn.device_generic = m->device_generic[s->parent];
    }
    fn.keeps_off = pooled(m, buf_str(&off));
    fn.params = pooled(m, buf_str(&params));
    m->func[scope] = (int)m->out->funcs.len;
    *vec_push(&m->out->funcs) = fn;
    buf_free(&off);
    buf_free(&params);
}

/* Scopes come parents first, so an inner scope takes its outermost function from its parent. */
static void add_funcs(struct maker *m)
{
    struct py_file *f = m->f;
    m->func = xcalloc(f->scopes.len, sizeof *m->func);
    m->func[0] = -1;
    for (uint32_t i = 1; i < f->scopes.len; i++) {
        m->func[i] = m->func[f->scopes.ptr[i].parent];
        if (m->func[i] < 0 && f->scopes.ptr[i].kind == PY_FUNCTION) add_func(m, i);
    }
}

static bool is_backward(struct maker *m, uint32_t ref)
{
    static const char *const names[] = {"backward", "gradcheck", "gradgradcheck"};
    const struct py_ref *r = &m->f->refs.ptr[ref];
    const char *leaf = leaf_of(r->chain), *resolved = m->t.resolved[ref];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(leaf, names[k])) return true;
    return !strcmp(leaf, "grad") && resolved && str_starts(resolved, "torch.");
}

/* References in source order, so that rows and words of a function come in order too. */
static void describe_funcs(struct maker *m)
{
    struct py_file *f = m->f;
    struct buf *asserts = xcalloc(m->out->funcs.len + 1, sizeof *asserts);
    VEC(struct fact_edge) backward = {0}; /* function, row */
    for (size_t i = 0; i < f->refs.len; i++) {
        uint32_t ref = m->t.by_place[i];
        const struct py_ref *r = &f->refs.ptr[ref];
        int func = m->func[r->scope];
        if (func < 0 || !r->call) continue;
        if (str_starts(leaf_of(r->chain), "assert")) add_word(&asserts[func], leaf_of(r->chain));
        if (is_backward(m, ref)) *vec_push(&backward) = (struct fact_edge){(uint32_t)func, r->at.row};
    }
    for (uint32_t k = 0; k < m->out->funcs.len; k++) {
        struct fact_func *fn = &m->out->funcs.ptr[k];
        fn->asserts = pooled(m, buf_str(&asserts[k]));
        buf_free(&asserts[k]);
    }
    for (size_t i = 0; i < backward.len; i++) m->out->funcs.ptr[backward.ptr[i].from].nbackward++;
    uint32_t at = 0;
    for (size_t k = 0; k < m->out->funcs.len; k++) {
        m->out->funcs.ptr[k].backward = at;
        at += m->out->funcs.ptr[k].nbackward;
        m->out->funcs.ptr[k].nbackward = 0;
    }
    for (uint32_t i = 0; i < at; i++) *vec_push(&m->out->rows) = 0;
    for (size_t i = 0; i < backward.len; i++) {
        struct fact_func *fn = &m->out->funcs.ptr[backward.ptr[i].from];
        m->out->rows.ptr[fn->backward + fn->nbackward++] = backward.ptr[i].to;
    }
    vec_free(&backward);
    free(asserts);
}

static void add_edge(struct maker *m, int from, int to)
{
    if (from < 0 || to < 0 || from == to) return;
    if (m->out->edges.len) {
        const struct fact_edge *last = &m->out->edges.ptr[m->out->edges.len - 1];
        if (last->from == (uint32_t)from && last->to == (uint32_t)to) return;
    }
    *vec_push(&m->out->edges) = (struct fact_edge){(uint32_t)from, (uint32_t)to};
}

/* ---- sites --------------------------------------------------------------------------------------------- */

static void add_site(struct maker *m, uint32_t ref, enum fact_kind kind, const char *name, const char *type,
                     struct origin o)
{
    const struct py_ref *r = &m->f->refs.ptr[ref];
    *vec_push(&m->out->sites) = (struct fact_site){.name = pooled(m, name),
                                                   .type = pooled(m, type),
                                                   .row = r->at.row,
                                                   .func = m->func[r->scope],
                                                   .kind = (uint8_t)kind,
                                                   .call = r->call,
                                                   .tensors = o.found,
                                                   .tensor_row = o.row};
}

/* Type of a receiver as facts say it: classes of the file stand for their first base outside of it. */
static const char *outer_type(struct maker *m, const char *type)
{
    if (!type) return "";
    if (type[0] != '.') return type;
    const char *base = type_outer_base(&m->t, type);
    return base ? base : type;
}

/* The method that the class of the file that the type names, or a base of it there, defines; UINT32_MAX. */
static uint32_t method_here(struct maker *m, const char *type, const char *name)
{
    uint32_t s = type && type[0] == '.' ? type_scope_named(&m->t, type + 1) : UINT32_MAX;
    return s == UINT32_MAX ? s : type_method(&m->t, s, name);
}

static void add_method_site(struct maker *m, uint32_t ref, const char *type, const char *name, bool last)
{
    uint32_t own = method_here(m, type, name);
    if (own != UINT32_MAX) {
        add_edge(m, m->func[m->f->refs.ptr[ref].scope], m->func[own]);
        return;
    }
    struct origin o = last ? type_origin_of_ref(&m->t, &m->f->refs.ptr[ref]) : (struct origin){0};
    if (!o.found) o.found = type_is_tensor(&m->t, type) || type_is_module(&m->t, type);
    add_site(m, ref, FACT_METHOD, name, outer_type(m, type), o);
    if (!last) m->out->sites.ptr[m->out->sites.len - 1].call = false;
}

/* x.a.b: both attributes are uses, of what x and x.a are. */
static void add_chain_sites(struct maker *m, uint32_t ref)
{
    const struct py_ref *r = &m->f->refs.ptr[ref];
    const char *dot = strchr(r->chain, '.');
    struct py_ref part = *r;
    while (dot) {
        const char *next = strchr(dot + 1, '.');
        size_t upto = next ? (size_t)(next - r->chain) : strlen(r->chain);
        char *chain = xstrndup(r->chain, upto);
        part.chain = chain;
        add_method_site(m, ref, type_of_receiver(&m->t, &part), strrchr(chain, '.') + 1, !next);
        free(chain);
        dot = next;
    }
}

static bool bound_anywhere(const struct py_file *f, uint32_t scope, const char *name)
{
    for (uint32_t s = scope;; s = f->scopes.ptr[s].parent) {
        uint32_t at = 0;
        if (py_next_binding(f, s, name, strlen(name), &at)) return true;
        if (s == 0) return false;
    }
}

/* ".X.y" is of the file when the file defines X; else it came by a relative import. */
static bool is_own(struct maker *m, const char *resolved)
{
    if (resolved[1] == '.') return false;
    char *first = xstrndup(resolved + 1, strcspn(resolved + 1, "."));
    bool own = type_scope_named(&m->t, first) != UINT32_MAX;
    free(first);
    return own;
}

static void add_ref_site(struct maker *m, uint32_t ref)
{
    const struct py_ref *r = &m->f->refs.ptr[ref];
    const char *resolved = m->t.resolved[ref];
    if (resolved && resolved[0] == '.' && is_own(m, resolved)) return;
    if (resolved && str_starts(resolved, "builtins.")) return;
    if (resolved) {
        add_site(m, ref, FACT_NAME, resolved, "", type_origin_of_ref(&m->t, r));
        return;
    }
    if (strchr(r->chain, '.')) {
        if (m->t.callee[ref] == UINT32_MAX) add_chain_sites(m, ref);
    } else if (py_has_star(m->f) && !bound_anywhere(m->f, r->scope, r->chain)) {
        add_site(m, ref, FACT_STAR, r->chain, "", type_origin_of_ref(&m->t, r));
    }
}

static void add_operator_site(struct maker *m, const struct py_operator *o)
{
    const char *left = type_of_expr(&m->t, o->left), *right = type_of_expr(&m->t, o->right);
    if (!type_is_tensor(&m->t, left) && !type_is_tensor(&m->t, right)) return;
    struct origin from = type_origin(&m->t, o->left);
    if (!from.found) from = type_origin(&m->t, o->right);
    *vec_push(&m->out->sites) = (struct fact_site){.name = pooled(m, o->op),
                                                   .type = pooled(m, "torch.Tensor"),
                                                   .row = o->at.row,
                                                   .func = m->func[o->scope],
                                                   .kind = FACT_OPERATOR,
                                                   .call = true,
                                                   .tensors = true,
                                                   .tensor_row = from.row};
}

/* A method that a class of the file puts in place of one it has from outside: whoever makes the class has the
 * API called through it (a faulty StorageWriter covers StorageWriter.reset). */
static void add_overrides(struct maker *m)
{
    struct py_file *f = m->f;
    for (uint32_t i = 1; i < f->scopes.len; i++) {
        const struct py_scope *s = &f->scopes.ptr[i];
        if (s->kind != PY_FUNCTION || f->scopes.ptr[s->parent].kind != PY_CLASS ||
            str_starts(s->name, "__") || str_starts(s->name, "test"))
            continue;
        char *own = xformat(".%s", f->scopes.ptr[s->parent].qualname);
        const char *base = type_outer_base(&m->t, own);
        free(own);
        if (!base || !str_starts(base, "torch.")) continue;
        *vec_push(&m->out->sites) = (struct fact_site){.name = pooled(m, s->name),
                                                       .type = pooled(m, base),
                                                       .row = s->at.row,
                                                       .func = m->func[i],
                                                       .kind = FACT_METHOD};
    }
}

/* `class Net(nn.Module)` and `@decorator` name what they name in the scope around: refs hold those too. */
static void add_sites(struct maker *m)
{
    for (size_t i = 0; i < m->f->refs.len; i++) add_ref_site(m, m->t.by_place[i]);
    for (size_t i = 0; i < m->f->operators.len; i++) add_operator_site(m, &m->f->operators.ptr[i]);
    add_overrides(m);
    for (size_t i = 0; i < m->out->sites.len; i++) {
        const struct fact_site *s = &m->out->sites.ptr[i];
        if (s->func < 0 || !s->tensor_row || !s->call) continue;
        struct fact_func *fn = &m->out->funcs.ptr[s->func];
        if (!fn->tensor_row && s->tensor_row >= fn->row && s->tensor_row <= fn->end_row)
            fn->tensor_row = s->tensor_row;
    }
}

/* ---- edges, exports ------------------------------------------------------------------------------------ */

static void add_edges(struct maker *m)
{
    struct scan_graph g;
    graph_from_types(&m->t, &g);
    for (size_t i = 0; i < g.nedges; i++) add_edge(m, m->func[g.edges[i].from], m->func[g.edges[i].to]);
    scan_graph_free(&g);
}

static void add_class_bases(struct maker *m, uint32_t scope, struct buf *b)
{
    const struct py_scope *s = &m->f->scopes.ptr[scope];
    for (size_t i = 0; i < s->bases.len; i++) {
        const char *base = *s->bases.ptr[i] ? py_resolve(m->f, s->parent, s->bases.ptr[i]) : NULL;
        if (base && !str_starts(base, "builtins.")) buf_addf(b, "%s%s", b->len ? "," : "", base);
    }
}

static int by_export_name(const void *a, const void *b)
{
    const struct fact_export *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    if (c) return c;
    if (!*x->target != !*y->target)
        return *x->target ? 1 : -1; /* an import outlives its `except: x = None` */
    return (*x->bases != 0) - (*y->bases != 0);
}

static void add_export(struct maker *m, const struct py_binding *b)
{
    struct fact_export x = {.name = pooled(m, b->name)};
    if (b->kind == PYB_OUTER) return;
    if (b->kind == PYB_STAR) {
        const char *module = pooled(m, b->target);
        *vec_push(&m->out->stars) = module;
        return;
    }
    if (b->kind == PYB_IMPORT || b->kind == PYB_FROM) x.target = pooled(m, b->target);
    if (b->kind == PYB_ALIAS) {
        const char *target = py_resolve(m->f, 0, b->target);
        if (target && !str_starts(target, "builtins.") && strcmp(target, b->name))
            x.target = pooled(m, target);
    }
    if (b->kind == PYB_CLASS) {
        struct buf bases = BUF_INIT;
        add_class_bases(m, b->inner, &bases);
        x.bases = pooled(m, buf_str(&bases));
        buf_free(&bases);
    }
    *vec_push(&m->out->exports) = x;
}

/* A class inside a class is exported as "Outer.Inner": methods of it have an owner too. */
static void add_exports(struct maker *m)
{
    for (size_t i = 0; i < m->f->bindings.len; i++)
        if (m->f->bindings.ptr[i].scope == 0) add_export(m, &m->f->bindings.ptr[i]);
}

/* ---- entry points -------------------------------------------------------------------------------------- */

static void fix(const char **s, const char *pool)
{
    *s = pool + (uintptr_t)*s;
}

static void finish(struct maker *m)
{
    struct facts *o = m->out;
    o->note = pooled(m, m->f->note);
    o->nstrings = m->pool.len;
    o->strings = buf_take(&m->pool);
    fix(&o->note, o->strings);
    for (size_t i = 0; i < o->sites.len; i++)
        fix(&o->sites.ptr[i].name, o->strings), fix(&o->sites.ptr[i].type, o->strings);
    for (size_t i = 0; i < o->funcs.len; i++) {
        struct fact_func *fn = &o->funcs.ptr[i];
        const char **all[] = {&fn->id, &fn->class, &fn->asserts, &fn->keeps_off, &fn->params};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) fix(all[k], o->strings);
    }
    for (size_t i = 0; i < o->exports.len; i++) {
        struct fact_export *x = &o->exports.ptr[i];
        fix(&x->name, o->strings), fix(&x->target, o->strings), fix(&x->bases, o->strings);
    }
    for (size_t i = 0; i < o->stars.len; i++) fix(&o->stars.ptr[i], o->strings);
    if (o->exports.len) qsort(o->exports.ptr, o->exports.len, sizeof *o->exports.ptr, by_export_name);
    map_free(&m->known, NULL);
    free(m->func);
    free(m->device_generic);
}

static void start(struct maker *m, struct facts *out, struct py_file *f)
{
    *out = (struct facts){0};
    *m = (struct maker){.f = f, .out = out};
    buf_addc(&m->pool, 0); /* offset 0 is the empty string */
}

void facts_extract_exports(struct facts *out, struct py_file *f)
{
    struct maker m;
    start(&m, out, f);
    add_exports(&m);
    finish(&m);
}

void facts_extract(struct facts *out, struct py_file *f)
{
    struct maker m;
    start(&m, out, f);
    types_make(&m.t, f);
    find_device_generic(&m);
    add_funcs(&m);
    describe_funcs(&m);
    add_sites(&m);
    add_edges(&m);
    add_exports(&m);
    types_free(&m.t);
    finish(&m);
}

void facts_free(struct facts *f)
{
    vec_free(&f->sites);
    vec_free(&f->funcs);
    vec_free(&f->edges);
    vec_free(&f->exports);
    vec_free(&f->stars);
    vec_free(&f->rows);
    free(f->strings);
    *f = (struct facts){0};
}

const struct fact_export *facts_export(const struct facts *f, const char *name, size_t n)
{
    size_t low = 0, high = f->exports.len;
    while (low < high) { /* the last of several bindings of a name */
        size_t mid = (low + high) / 2;
        int c = strncmp(f->exports.ptr[mid].name, name, n);
        if (!c && f->exports.ptr[mid].name[n]) c = 1;
        if (c <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low) return NULL;
    const struct fact_export *x = &f->exports.ptr[low - 1];
    return !strncmp(x->name, name, n) && !x->name[n] ? x : NULL;
}
