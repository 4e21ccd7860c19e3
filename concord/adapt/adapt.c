/* adapt.c - which functions of a file are adapted, the rules run over them, and the edited text. */
#include "concord/adapt/private.h"
#include "concord/scan/scan.h"

#include <stdlib.h>
#include <string.h>

/* ---- what rules say ---------------------------------------------------------------------------------- */

static const char *scope_name(const struct adapt_site *s)
{
    return s->f->scopes.ptr[s->top].qualname;
}

static uint32_t row_of(const struct py_file *f, uint32_t at)
{
    uint32_t row = 1;
    for (uint32_t i = 0; i < at; i++) row += f->text[i] == '\n';
    return row;
}

void adapt_edit_add(struct adapt_site *s, uint32_t start, uint32_t end, char *with)
{
    *vec_push(&s->r->edits) =
        (struct adapt_edit){s->rule, start, end, row_of(s->f, start), with, scope_name(s)};
}

void adapt_leave(struct adapt_site *s, uint32_t row, const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    *vec_push(&s->r->left) = (struct adapt_left){row, scope_name(s), buf_take(&b)};
}

void adapt_note(struct adapt_site *s, uint32_t row, const char *text)
{
    *vec_push(&s->r->notes) = (struct adapt_left){row, scope_name(s), xstrdup(text)};
}

/* ---- facts of the model ------------------------------------------------------------------------------ */

bool is_module_class(struct py_file *f, uint32_t scope)
{
    for (int depth = 0; depth < 8 && scope != UINT32_MAX && f->scopes.ptr[scope].kind == PY_CLASS; depth++) {
        uint32_t next = UINT32_MAX;
        for (size_t b = 0; b < f->scopes.ptr[scope].bases.len; b++) {
            const char *base = py_resolve(f, f->scopes.ptr[scope].parent, f->scopes.ptr[scope].bases.ptr[b]);
            if (!base) continue;
            if (!strcmp(base, "torch.nn.Module") || !strcmp(base, "torch.nn.modules.module.Module"))
                return true;
            if (is_torch_module(base)) return true;
            if (base[0] == '.' && next == UINT32_MAX) next = py_scope_named(f, base + 1);
        }
        if (next == scope) return false;
        scope = next;
    }
    return false;
}

bool is_device_value(struct slice text)
{
    bool cpu = slice_has(text, "\"cpu\"") || slice_has(text, "'cpu'");
    return !cpu || slice_has(text, "current_accelerator()");
}

/* Assigned before the site and not to the CPU; parameters always. */
static bool holds_device(const struct adapt_site *s, const struct py_binding *b)
{
    if (b->kind == PYB_PARAM) return true;
    if (b->kind != PYB_ALIAS && b->kind != PYB_INSTANCE && b->kind != PYB_OTHER) return false;
    if (b->at.start >= s->ref->at.start) return false;
    return is_device_value((struct slice){s->f->text + b->at.start, b->at.end - b->at.start});
}

const char *device_variable(const struct adapt_site *s)
{
    static const char *const names[] = {"device", "device_type"};
    for (uint32_t at = s->ref->scope;; at = s->f->scopes.ptr[at].parent) {
        bool seen = s->f->scopes.ptr[at].kind != PY_CLASS; /* methods do not see names of the class */
        for (size_t n = 0; seen && n < sizeof names / sizeof *names; n++)
            for (size_t i = 0; i < s->f->bindings.len; i++) {
                const struct py_binding *b = &s->f->bindings.ptr[i];
                if (b->scope == at && !strcmp(b->name, names[n]) && holds_device(s, b)) return names[n];
            }
        if (!at) return s->o->variable;
    }
}

/* ---- which functions --------------------------------------------------------------------------------- */

enum { OUT, WANTED, SHARED };

/* Marks each outermost function: wanted when only tests asked for reach it, shared when others do too. */
static void mark_functions(struct py_file *f, const char *const *tests, size_t ntests, uint8_t *mark)
{
    struct scan_graph g;
    scan_graph_make(f, &g);
    uint8_t *other = xcalloc(f->scopes.len, 1);
    for (uint32_t i = 1; i < f->scopes.len; i++) {
        if (g.top[i] != (int)i) continue;
        for (size_t t = 0; t < ntests; t++)
            if (!strcmp(f->scopes.ptr[i].qualname, tests[t])) mark[i] = WANTED;
        other[i] = py_is_test(f, i) && mark[i] == OUT;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < g.nedges; i++) {
            struct scan_edge d = g.edges[i];
            if (mark[d.from] && !mark[d.to] && !py_is_test(f, (uint32_t)d.to))
                mark[d.to] = WANTED, changed = true;
            if (other[d.from] && !other[d.to] && !py_is_test(f, (uint32_t)d.to))
                other[d.to] = 1, changed = true;
        }
    }
    for (size_t i = 0; i < f->scopes.len; i++)
        if (mark[i] && other[i]) mark[i] = SHARED;
    scan_graph_free(&g);
    free(other);
}

/* A decorator that keeps a test on the CPU. */
static bool is_cpu_only(const struct py_file *f, uint32_t scope)
{
    for (size_t i = 0; i < f->scopes.ptr[scope].decorators.len; i++)
        if (str_ends(f->scopes.ptr[scope].decorators.ptr[i].name, "onlyCPU")) return true;
    return false;
}

const struct py_decorator *decorator_around(const struct adapt_site *s, uint32_t at)
{
    for (size_t i = 0; i < s->f->scopes.len; i++)
        for (size_t d = 0; d < s->f->scopes.ptr[i].decorators.len; d++) {
            const struct py_decorator *k = &s->f->scopes.ptr[i].decorators.ptr[d];
            if (k->at.start <= at && at < k->at.end && k->at.start >= s->span.start) return k;
        }
    return NULL;
}

static bool is_edited(const struct adapt_result *r, struct py_span at)
{
    for (size_t i = 0; i < r->edits.len; i++)
        if (r->edits.ptr[i].start >= at.start && r->edits.ptr[i].end <= at.end) return true;
    return false;
}

/* Guards for CUDA that no rule has changed. */
static void say_guards(struct adapt_site *s)
{
    const struct py_scope *scope = &s->f->scopes.ptr[s->top];
    for (size_t i = 0; i < scope->decorators.len; i++) {
        struct py_span at = scope->decorators.ptr[i].at;
        char *text = xstrndup(s->f->text + at.start, at.end - at.start);
        if ((strstr(text, "CUDA") || strstr(text, "cuda") || strstr(text, "gpu") || strstr(text, "GPU")) &&
            !is_edited(s->r, at))
            adapt_leave(s, at.row, "%s keeps the test for CUDA: no rule changes this guard",
                        scope->decorators.ptr[i].name);
        free(text);
    }
}

/* The body needs no edit; a guard may still keep the test off the device. */
static bool keep_decorators(struct adapt_site *s)
{
    const struct py_scope *scope = &s->f->scopes.ptr[s->top];
    size_t n = scope->decorators.len;
    if (!n || s->o->configs) return false;
    s->span = (struct py_span){scope->at.start, scope->decorators.ptr[n - 1].at.end, scope->at.row};
    s->names_only = true;
    return true;
}

/* Rules for whole tests come first; false: nothing of the function is to be edited. */
static bool enter_function(struct adapt_site *s)
{
    uint32_t row = s->f->scopes.ptr[s->top].at.row;
    for (int i = 0; i < RULE_COUNT; i++) {
        s->rule = (enum adapt_rule_id)i;
        if (adapt_rules[i].pattern == ADAPT_TEST && adapt_rules[i].run(s)) return keep_decorators(s);
    }
    if (is_cpu_only(s->f, s->top)) {
        adapt_note(s, row, "the test is for the CPU only");
        return false;
    }
    return !leave_whole(s);
}

/* Rules that move data, not names of devices. */
static bool moves_data(enum adapt_rule_id rule)
{
    return rule == RULE_meets_tensor || rule == RULE_leaf_device || rule == RULE_factory ||
           rule == RULE_module;
}

static void run_site(struct adapt_site *s)
{
    for (int i = 0; i < RULE_COUNT; i++) {
        enum adapt_pattern p = adapt_rules[i].pattern;
        s->rule = (enum adapt_rule_id)i;
        bool fits = s->operation ? p == ADAPT_OPERATOR
                    : s->ref     ? p == ADAPT_NAME || (p == ADAPT_CALL && s->ref->call)
                                 : p == ADAPT_STRING;
        if (!fits || (s->names_only && moves_data(s->rule))) continue;
        if (adapt_rules[i].run(s)) return;
    }
}

static bool inside(struct py_span outer, struct py_span at)
{
    return at.start >= outer.start && at.end <= outer.end;
}

static void run_function(struct adapt_site *s)
{
    struct py_file *f = s->f;
    struct py_span body = s->span;
    for (size_t i = 0; i < f->refs.len; i++) {
        s->ref = &f->refs.ptr[i];
        if (!inside(body, s->ref->at)) continue;
        s->resolved = py_resolve(f, s->ref->scope, s->ref->chain);
        s->args.len = 0;
        if (s->ref->call) call_split(f, s->ref->args, &s->args);
        run_site(s);
    }
    s->ref = NULL;
    for (size_t i = 0; i < f->operators.len; i++) {
        s->operation = &f->operators.ptr[i];
        if (inside(body, s->operation->at)) run_site(s);
    }
    s->operation = NULL;
    for (uint32_t at = body.start; next_string(f, &at, body.end, &s->string);) run_site(s);
    if (s->top) say_guards(s);
}

static void run_functions(struct adapt_site *s, const uint8_t *mark)
{
    for (uint32_t top = 1; top < s->f->scopes.len; top++) {
        if (!mark[top]) continue;
        s->top = top;
        s->span = s->f->scopes.ptr[top].at;
        s->shared = mark[top] == SHARED;
        if (enter_function(s)) run_function(s);
    }
}

static void run_file(struct adapt_site *s)
{
    s->ref = NULL;
    s->top = 0;
    for (int i = 0; i < RULE_COUNT; i++) {
        s->rule = (enum adapt_rule_id)i;
        if (adapt_rules[i].pattern == ADAPT_FILE) adapt_rules[i].run(s);
    }
}

static bool imports_shim(const struct py_file *f)
{
    for (size_t i = 0; i < f->bindings.len; i++)
        if (f->bindings.ptr[i].kind == PYB_FROM && f->bindings.ptr[i].scope == 0 &&
            str_ends(f->bindings.ptr[i].target, ".transfer_to_npu"))
            return true;
    return false;
}

static int by_place(const void *a, const void *b)
{
    const struct adapt_edit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Leaves out the edits that are not accepted. */
static void ask(struct adapt_site *s)
{
    struct adapt_result *r = s->r;
    size_t n = 0;
    if (r->edits.len) qsort(r->edits.ptr, r->edits.len, sizeof *r->edits.ptr, by_place);
    for (size_t i = 0; i < r->edits.len; i++) {
        struct adapt_edit d = r->edits.ptr[i];
        if (s->o->accept(s->f, &d, s->o->context)) {
            r->edits.ptr[n++] = d;
            continue;
        }
        *vec_push(&r->left) =
            (struct adapt_left){d.row, d.scope, xformat("%s: not wanted", adapt_rules[d.rule].name)};
        free(d.with);
    }
    r->edits.len = n;
}

static bool uses_variable(const struct adapt_result *r)
{
    for (size_t i = 0; i < r->edits.len; i++)
        if (strstr(r->edits.ptr[i].with, "device_type")) return true;
    return false;
}

/* The helper style's variable is set behind the import, unless the file has it. */
static char *helper_lines(const struct adapt_site *s)
{
    for (size_t i = 0; i < s->f->bindings.len; i++)
        if (!s->f->bindings.ptr[i].scope && !strcmp(s->f->bindings.ptr[i].name, "device_type")) return NULL;
    const char *lines = s->o->import_lines;
    char *import = lines ? xstrdup(lines) : xformat("import %s\n", s->o->import);
    char *all = xformat("%sdevice_type = \"%s\"\n", import, s->o->device);
    free(import);
    return all;
}

static void run_rules(struct adapt_site *s, const uint8_t *mark)
{
    struct adapt_options o = *s->o;
    char *lines = NULL;
    if (o.style == ADAPT_HELPER) {
        lines = helper_lines(s);
        bool set = !lines || !imports_backend(s->f, o.import); /* it is set where the import is added */
        if (set) o.variable = "device_type";
    }
    s->o = &o;
    run_functions(s, mark);
    if (o.accept) ask(s);
    if (lines && uses_variable(s->r)) o.import_lines = lines;
    if (s->r->edits.len) run_file(s);
    s->o = NULL;
    free(lines);
}

int adapt_source(struct py_file *f, const char *const *tests, size_t ntests, const struct adapt_options *o,
                 struct adapt_result *r, struct err *e)
{
    *r = (struct adapt_result){0};
    struct adapt_site s = {.f = f, .o = o, .r = r, .shim = o->shim || imports_shim(f)};
    uint8_t *mark = xcalloc(f->scopes.len, 1);
    mark_functions(f, tests, ntests, mark);
    if (f->error_row)
        adapt_leave(&s, f->error_row, "%s", f->note);
    else
        run_rules(&s, mark);
    free(mark);
    vec_free(&s.args);
    struct py_edit *edits = xcalloc(r->edits.len + 1, sizeof *edits);
    for (size_t i = 0; i < r->edits.len; i++)
        edits[i] = (struct py_edit){r->edits.ptr[i].start, r->edits.ptr[i].end, r->edits.ptr[i].with};
    int rc = py_apply(f, edits, r->edits.len, &r->text, e);
    free(edits);
    return rc;
}

void adapt_fragment(struct py_file *f, const struct py_span *spans, size_t nspans,
                    const struct adapt_options *o, bool imports, struct adapt_result *r)
{
    *r = (struct adapt_result){0};
    struct adapt_site s = {.f = f, .o = o, .r = r, .shim = imports_shim(f)};
    for (size_t i = 0; i < nspans; i++) {
        s.span = spans[i];
        if (enter_function(&s)) run_function(&s);
    }
    if (imports) run_file(&s);
    vec_free(&s.args);
}

static void free_reasons(struct adapt_left *v, size_t n)
{
    for (size_t i = 0; i < n; i++) free(v[i].reason);
}

void adapt_result_free(struct adapt_result *r)
{
    for (size_t i = 0; i < r->edits.len; i++) free(r->edits.ptr[i].with);
    free_reasons(r->left.ptr, r->left.len);
    free_reasons(r->notes.ptr, r->notes.len);
    vec_free(&r->edits);
    vec_free(&r->left);
    vec_free(&r->notes);
    buf_free(&r->text);
}
