/* rules.c - the rules: each looks at one site, and edits it, leaves it to a person, or has nothing to say. */
#include "concord/adapt/private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct adapt_rule adapt_rules[] = {
#define RULE(id, name, pattern, before, after, reason, reason_zh)                                            \
    {name, pattern, before, after, reason, reason_zh, rule_##id},
#include "concord/adapt/rules.inc"
#undef RULE
};
static_assert(sizeof adapt_rules / sizeof *adapt_rules == RULE_COUNT, "one row a rule");

const char *const adapt_pattern_names[ADAPT_PATTERNS] = {"call",   "name", "operation",
                                                         "string", "file", "test"};
const char *const adapt_style_names[ADAPT_STYLES] = {"inline", "keyword", "to", "helper"};
const char *const adapt_place_names[ADAPT_PLACES] = {"behind torch.testing", "behind torch", "top"};
const struct adapt_options adapt_defaults = {
    .device = "npu", .import = "torch_npu", .guard = "onlyPRIVATEUSE1"};

/* device="npu", or device=device where a variable is at hand. */
static char *device_keyword(const struct adapt_site *s)
{
    const char *variable = device_variable(s);
    return variable ? xformat("device=%s", variable) : xformat("device=\"%s\"", s->o->device);
}

static char *device_move(const struct adapt_site *s)
{
    const char *variable = device_variable(s);
    if (variable) return xformat(".to(%s)", variable);
    return s->o->style == ADAPT_TO ? xformat(".to(\"%s\")", s->o->device) : xformat(".%s()", s->o->device);
}

static void add_keyword(struct adapt_site *s, char *keyword)
{
    const struct call_arg *last = s->args.len ? &s->args.ptr[s->args.len - 1] : NULL;
    uint32_t at = last ? last->end : s->ref->args.start + 1;
    adapt_edit_add(s, at, at, xformat("%s%s", last ? ", " : "", keyword));
    free(keyword);
}

static const char *generic_reason(const struct adapt_site *s)
{
    return s->o->configs
               ? "the class is instantiated per device type: its tests run on the device as they are; what "
                 "must differ is told to PrivateUse1TestBase.set_test_configs, not patched"
               : adapt_rules[s->rule].reason;
}

bool rule_device_generic(struct adapt_site *s)
{
    const struct py_file *f = s->f;
    uint32_t class = f->scopes.ptr[s->top].parent;
    if (f->scopes.ptr[class].kind != PY_CLASS) return false;
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || strcmp(leaf_of(r->chain), "instantiate_device_type_tests")) continue;
        call_args a = {0};
        call_split(f, r->args, &a);
        bool found = a.len && text_is(f, a.ptr[0].start, a.ptr[0].end, f->scopes.ptr[class].name);
        vec_free(&a);
        if (found) adapt_note(s, f->scopes.ptr[s->top].at.row, generic_reason(s));
        if (found) return true;
    }
    return false;
}

static bool module_has(const struct adapt_options *o, const char *name)
{
    if (!o->functions) return npu_has(name);
    for (size_t i = 0; i < o->functions->len; i++)
        if (!strcmp(o->functions->ptr[i], name)) return true;
    return false;
}

bool rule_torch_cuda(struct adapt_site *s)
{
    const char *chain = s->ref->chain;
    if (s->shim || !str_starts(chain, "torch.cuda.")) return false;
    const char *name = chain + strlen("torch.cuda.");
    if (module_has(s->o, name)) {
        uint32_t at = s->ref->at.start + (uint32_t)strlen("torch.");
        if (!memcmp(s->f->text + at, "cuda", 4)) {
            adapt_edit_add(s, at, at + 4, xstrdup(s->o->device));
            return true;
        }
    }
    adapt_leave(s, s->ref->at.row, "%s has no counterpart that is known", chain);
    return true;
}

bool rule_cuda_method(struct adapt_site *s)
{
    const char *chain = s->ref->chain;
    if (!str_ends(chain, ".cuda") || !strcmp(chain, "torch.cuda")) return false;
    if (s->shim) return true;
    const char *variable = s->args.len ? NULL : device_variable(s);
    uint32_t start = s->ref->at.end - 4, end = variable ? s->ref->args.end : s->ref->at.end;
    adapt_edit_add(s, start, end, variable ? xformat("to(%s)", variable) : xstrdup(s->o->device));
    return true;
}

static bool is_quoted_cuda(const char *t)
{
    return (t[0] == '"' || t[0] == '\'') && t[5] == t[0] && !memcmp(t + 1, "cuda", 4);
}

/* `== "cuda"` where the other side is called after a device: x.device.type, device_type. */
bool rule_device_comparison(struct adapt_site *s)
{
    const struct py_operator *op = s->operation;
    const char *t = s->f->text;
    if (strcmp(op->op, "==") != 0 && strcmp(op->op, "!=") != 0) return false;
    char *text = xstrndup(t + op->at.start, op->at.end - op->at.start);
    bool device = strstr(text, "device") != NULL;
    free(text);
    uint32_t start = op->at.start, end = op->at.end;
    bool last = end - start > 6 && is_quoted_cuda(t + end - 6),
         first = end - start > 6 && is_quoted_cuda(t + start);
    if (!device || (!last && !first)) return false;
    uint32_t at = last ? end - 5 : start + 1;
    adapt_edit_add(s, at, at + 4, xstrdup(s->o->device));
    return true;
}

/* The rest of the innermost operation that has the call as an operand. */
static bool other_operand(const struct adapt_site *s, struct py_span *out)
{
    uint32_t start = s->ref->at.start, end = s->ref->args.end, best = UINT32_MAX;
    for (size_t i = 0; i < s->f->operators.len; i++) {
        const struct py_operator *op = &s->f->operators.ptr[i];
        if (op->op[0] == 'u' || op->at.end - op->at.start >= best) continue;
        if (op->at.start == start && op->at.end > end)
            *out = (struct py_span){end, op->at.end, 0};
        else if (op->at.end == end && op->at.start < start)
            *out = (struct py_span){op->at.start, start, 0};
        else
            continue;
        best = op->at.end - op->at.start;
    }
    return best != UINT32_MAX;
}

static bool is_parameter(const struct py_file *f, uint32_t scope, const char *name)
{
    for (uint32_t at = scope; at; at = f->scopes.ptr[at].parent)
        for (size_t i = 0; i < f->scopes.ptr[at].params.len; i++)
            if (!strcmp(f->scopes.ptr[at].params.ptr[i], name)) return true;
    return false;
}

/* A parameter in the span that is treated as a tensor: x of x.sin(). Owned, NULL if there is none. */
static char *tensor_parameter(const struct adapt_site *s, struct py_span where)
{
    for (size_t i = 0; i < s->f->refs.len; i++) {
        const struct py_ref *r = &s->f->refs.ptr[i];
        if (r->at.start < where.start || r->at.end > where.end || !r->call) continue;
        const char *dot = strchr(r->chain, '.');
        if (!dot || strchr(dot + 1, '.') || !is_tensor_method(dot + 1)) continue;
        char *name = xstrndup(r->chain, (size_t)(dot - r->chain));
        if (is_parameter(s->f, s->ref->scope, name)) return name;
        free(name);
    }
    return NULL;
}

/* Has the call's data a place already, or none that matters? */
static bool is_settled(struct adapt_site *s)
{
    return call_keyword(s->f, &s->args, "device") ||
           chained_after(s->f, s->ref->args.end, s->o->device) != CHAINED_NOTHING;
}

bool rule_meets_tensor(struct adapt_site *s)
{
    struct py_span other;
    if (!takes_device(s->resolved) || is_settled(s) || call_has_splat(s->f, &s->args)) return false;
    if (call_keyword(s->f, &s->args, "requires_grad") || !other_operand(s, &other)) return false;
    char *tensor = tensor_parameter(s, other);
    if (!tensor) return false;
    add_keyword(s, xformat("device=%s.device", tensor));
    free(tensor);
    return true;
}

static bool is_init_of_module(struct adapt_site *s)
{
    for (uint32_t at = s->ref->scope; at; at = s->f->scopes.ptr[at].parent)
        if (!strcmp(s->f->scopes.ptr[at].name, "__init__") &&
            is_module_class(s->f, s->f->scopes.ptr[at].parent))
            return true;
    return false;
}

static bool registers(const char *chain)
{
    static const char *const names[] = {"Parameter", "Buffer", "register_parameter", "register_buffer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(leaf_of(chain), names[i])) return true;
    return false;
}

/* Is the site an argument, at any depth, of a call that registers a parameter or a buffer? */
static bool inside_register(const struct adapt_site *s)
{
    for (size_t i = 0; i < s->f->refs.len; i++) {
        const struct py_ref *r = &s->f->refs.ptr[i];
        if (r->call && r->args.start < s->ref->at.start && r->args.end >= s->ref->args.end &&
            registers(r->chain))
            return true;
    }
    return false;
}

/* In a module's __init__ parameters and buffers move with the instance; a plain tensor attribute does not. */
static bool moves_with_module(struct adapt_site *s)
{
    return is_init_of_module(s) && inside_register(s);
}

/* The name that the statement of r assigns r's call to; its length, 0 if there is none. */
static uint32_t assigned_name(const struct py_file *f, const struct py_ref *r)
{
    uint32_t at = r->statement.start, n = 0;
    while (f->text[at + n] == '_' || (f->text[at + n] | 32) >= 'a' ||
           (f->text[at + n] >= '0' && f->text[at + n] <= '9'))
        n++;
    uint32_t i = at + n;
    while (f->text[i] == ' ') i++;
    if (!n || f->text[i] != '=' || i >= r->at.start) return 0;
    for (i++; f->text[i] == ' ';) i++;
    return i == r->at.start ? n : 0;
}

/* `x = CALL` with an x.cuda() or x.to("npu") elsewhere in the function. */
static bool moved_later(struct adapt_site *s)
{
    const struct py_file *f = s->f;
    uint32_t at = s->ref->statement.start, n = assigned_name(f, s->ref);
    if (!n) return false;
    struct py_span top = s->span;
    for (size_t k = 0; k < f->refs.len; k++) {
        const struct py_ref *r = &f->refs.ptr[k];
        if (!r->call || r->at.start < top.start || r->at.end > top.end) continue;
        if (strncmp(r->chain, f->text + at, n) || r->chain[n] != '.' || strchr(r->chain + n + 1, '.'))
            continue;
        const char *method = r->chain + n + 1;
        if (!strcmp(method, s->o->device) || !strcmp(method, "cuda")) return true;
        if (!strcmp(method, "to") && moves_to_device(f, r->args)) return true;
    }
    return false;
}

/* Only what a helper shares with tests that stay where they are cannot be moved for one of them. */
static bool leave_shared(struct adapt_site *s, const char *what)
{
    if (!s->shared) return false;
    adapt_leave(s, s->ref->at.row, "%s is made in a function that other tests use too, which are not adapted",
                what);
    return true;
}

/* A default device that may hold here: `with torch.device(d):` or torch.set_default_device before the site.
 */
static bool follows_default(struct adapt_site *s)
{
    const struct py_file *f = s->f;
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        bool before = r->at.start >= s->span.start && r->at.start < s->ref->at.start;
        if (!before || !r->call) continue;
        if (!strcmp(r->chain, "torch.set_default_device")) return true;
        if (!strcmp(r->chain, "torch.device") && r->at.start >= 5 &&
            !memcmp(f->text + r->at.start - 5, "with ", 5))
            return true;
    }
    return false;
}

/* lengths = CALL: torch.nn.utils.rnn.pack_padded_sequence takes lengths on the CPU only. */
static bool makes_lengths(const struct adapt_site *s)
{
    const char *t = s->f->text + s->ref->statement.start;
    return !strncmp(t, "lengths = ", 10) && s->ref->at.start == s->ref->statement.start + 10;
}

static bool leave_unclear(struct adapt_site *s)
{
    const char *what = s->ref->chain;
    if (makes_lengths(s))
        adapt_leave(s, s->ref->at.row, "%s: packed sequences want their lengths on the CPU", what);
    else if (call_has_splat(s->f, &s->args))
        adapt_leave(s, s->ref->at.row, "%s: ** arguments may hold a device", what);
    else if (call_keyword(s->f, &s->args, "out"))
        adapt_leave(s, s->ref->at.row, "%s: out= decides the device", what);
    else if (call_keyword(s->f, &s->args, "generator"))
        adapt_leave(s, s->ref->at.row, "%s: its generator= must be on the same device", what);
    else if (call_keyword(s->f, &s->args, "pin_memory"))
        adapt_leave(s, s->ref->at.row, "%s: pinned memory is the host's", what);
    else if (follows_default(s))
        adapt_leave(s, s->ref->at.row, "%s: a default device set before it may hold here", what);
    else
        return leave_shared(s, what);
    return true;
}

bool rule_leaf_device(struct adapt_site *s)
{
    if (!takes_device(s->resolved)) return false;
    const struct call_arg *grad = call_keyword(s->f, &s->args, "requires_grad");
    if (!grad || text_is(s->f, grad->value, grad->end, "False")) return false;
    if (is_settled(s) || moves_with_module(s) || moved_later(s)) return true;
    if (leave_unclear(s)) return true;
    char *keyword = device_keyword(s);
    adapt_edit_add(s, grad->start, grad->start, xformat("%s, ", keyword));
    free(keyword);
    return true;
}

static bool follows_with(const struct py_file *f, uint32_t at, const char *fmt, const char *device)
{
    char *text = xformat(fmt, device);
    bool found = f->len - at >= strlen(text) && !memcmp(f->text + at, text, strlen(text));
    free(text);
    return found;
}

enum adapt_style adapt_style_of(struct py_file *f, const struct adapt_options *o)
{
    size_t n[ADAPT_STYLES] = {0};
    call_args a = {0};
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || !takes_device(py_resolve(f, r->scope, r->chain))) continue;
        call_split(f, r->args, &a);
        const struct call_arg *device = call_keyword(f, &a, "device");
        if (device && !call_keyword(f, &a, "requires_grad")) {
            char *text = xformat("\"%s\"", o->device);
            n[ADAPT_KEYWORD] += text_is(f, device->value, device->end, text);
            free(text);
        }
        n[ADAPT_METHOD] += follows_with(f, r->args.end, ".%s()", o->device);
        n[ADAPT_TO] += follows_with(f, r->args.end, ".to(\"%s\")", o->device);
    }
    vec_free(&a);
    enum adapt_style best = ADAPT_METHOD;
    for (int i = 0; i < ADAPT_STYLES; i++)
        if (n[i] > n[best]) best = (enum adapt_style)i;
    return best;
}

bool rule_factory(struct adapt_site *s)
{
    if (!makes_data(s->resolved)) return false;
    if (is_settled(s) || moves_with_module(s) || moved_later(s)) return true;
    if (leave_unclear(s)) return true;
    if (s->o->style == ADAPT_KEYWORD && takes_device(s->resolved))
        add_keyword(s, device_keyword(s));
    else
        adapt_edit_add(s, s->ref->args.end, s->ref->args.end, device_move(s));
    return true;
}

static uint32_t class_called(struct py_file *f, const char *resolved)
{
    uint32_t scope = resolved && resolved[0] == '.' ? py_scope_named(f, resolved + 1) : UINT32_MAX;
    return scope != UINT32_MAX && is_module_class(f, scope) ? scope : UINT32_MAX;
}

/* A class that is not of this file and not torch.nn's own. */
static bool is_foreign_class(const struct py_ref *r, const char *resolved)
{
    const char *leaf = leaf_of(r->chain);
    bool camel = leaf[0] >= 'A' && leaf[0] <= 'Z', lower = false;
    for (const char *c = leaf; *c; c++) lower |= *c >= 'a' && *c <= 'z';
    if (!camel || (!lower && leaf[1]) ||
        (resolved && (resolved[0] == '.' || str_starts(resolved, "torch.nn."))))
        return false;
    return !resolved || str_starts(resolved, "builtins.") || str_starts(resolved, "torch.testing._internal.");
}

static bool is_first_argument(const struct py_file *f, const struct py_ref *of, uint32_t start)
{
    uint32_t i = of->args.start + 1;
    while (i < start && (f->text[i] == ' ' || f->text[i] == '\n')) i++;
    return i == start;
}

static bool named_as_module(const char *leaf)
{
    static const char *const ends[] = {"Module", "Model", "Net"};
    if (!strcmp(leaf, "GraphModule") || !strcmp(leaf, "ScriptModule")) return false; /* made of a module */
    size_t n = strlen(leaf);
    while (n && leaf[n - 1] >= '0' && leaf[n - 1] <= '9') n--;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t len = strlen(ends[i]);
        if (n >= len && !memcmp(leaf + n - len, ends[i], len)) return true;
    }
    return false;
}

/* Is an argument of the call a module that is made there? */
static bool wraps_module(struct py_file *f, const struct py_ref *r)
{
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *k = &f->refs.ptr[i];
        if (!k->call || k->at.start <= r->args.start || k->args.end >= r->args.end) continue;
        const char *resolved = py_resolve(f, k->scope, k->chain);
        if (is_torch_module(resolved) && is_first_argument(f, r, k->at.start)) return true;
    }
    return false;
}

static bool is_foreign_module(struct py_file *f, const struct py_ref *r)
{
    const char *resolved = r->call ? py_resolve(f, r->scope, r->chain) : "torch.nn.";
    return is_foreign_class(r, resolved) && (named_as_module(leaf_of(r->chain)) || wraps_module(f, r));
}

static bool makes_module(struct py_file *f, const struct py_ref *r)
{
    const char *resolved = r->call ? py_resolve(f, r->scope, r->chain) : NULL;
    return (resolved && (is_torch_module(resolved) || class_called(f, resolved) != UINT32_MAX)) ||
           is_foreign_module(f, r);
}

static bool has_state(struct py_file *f, const struct py_ref *r, int depth);

/* Does anything in the span make a parameter, a buffer or a module with some? */
static bool span_has_state(struct py_file *f, struct py_span where, int depth)
{
    for (size_t i = 0; i < f->refs.len; i++)
        if (f->refs.ptr[i].at.start >= where.start && f->refs.ptr[i].at.end <= where.end &&
            has_state(f, &f->refs.ptr[i], depth))
            return true;
    return false;
}

static bool class_has_state(struct py_file *f, uint32_t class, int depth)
{
    for (size_t i = 0; i < f->scopes.len; i++)
        if (f->scopes.ptr[i].parent == class && !strcmp(f->scopes.ptr[i].name, "__init__"))
            return span_has_state(f, f->scopes.ptr[i].body, depth + 1);
    for (size_t b = 0; depth < 8 && b < f->scopes.ptr[class].bases.len; b++) {
        const char *base = py_resolve(f, f->scopes.ptr[class].parent, f->scopes.ptr[class].bases.ptr[b]);
        if (has_parameters(base)) return true;
        uint32_t scope = class_called(f, base);
        if (scope != UINT32_MAX && scope != class && class_has_state(f, scope, depth + 1)) return true;
    }
    return false;
}

static bool has_state(struct py_file *f, const struct py_ref *r, int depth)
{
    if (!r->call || depth >= 8) return false;
    if (registers(r->chain) || is_foreign_module(f, r)) return true;
    const char *resolved = py_resolve(f, r->scope, r->chain);
    if (!resolved) return false;
    const char *leaf = leaf_of(resolved);
    bool container =
        !strcmp(leaf, "Sequential") || !strcmp(leaf, "ModuleList") || !strcmp(leaf, "ModuleDict");
    uint32_t class = class_called(f, resolved);
    /* What is handed over by name was made, and so moved, somewhere else. */
    if ((container && is_torch_module(resolved)) || class != UINT32_MAX)
        return span_has_state(f, r->args, depth + 1) ||
               (class != UINT32_MAX && class_has_state(f, class, depth + 1));
    return has_parameters(resolved);
}

bool is_stateless_class(struct py_file *f, const char *name, uint32_t before)
{
    uint32_t class = UINT32_MAX;
    for (uint32_t i = 1; i < f->scopes.len; i++)
        if (f->scopes.ptr[i].kind == PY_CLASS && f->scopes.ptr[i].at.start < before &&
            !strcmp(f->scopes.ptr[i].name, name))
            class = i;
    return class != UINT32_MAX && is_module_class(f, class) && !class_has_state(f, class, 0);
}

/* Is the call an argument, at any depth, of another that makes a module? */
static bool inside_module(struct adapt_site *s)
{
    for (size_t i = 0; i < s->f->refs.len; i++) {
        const struct py_ref *r = &s->f->refs.ptr[i];
        if (r != s->ref && r->call && r->args.start < s->ref->at.start && r->args.end >= s->ref->args.end &&
            makes_module(s->f, r))
            return true;
    }
    return false;
}

bool rule_module(struct adapt_site *s)
{
    if (!makes_module(s->f, s->ref)) return false;
    if (inside_module(s) || is_init_of_module(s) || is_settled(s) || moved_later(s)) return true;
    if (!has_state(s->f, s->ref, 0) || leave_unclear(s)) return true;
    adapt_edit_add(s, s->ref->args.end, s->ref->args.end, device_move(s));
    return true;
}
