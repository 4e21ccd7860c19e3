/* types.c - what values of a file are: inference over the source model's expressions. */
#include "concord/scan/types.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPE_DEPTH = 24 };

static const char tensor[] = "torch.Tensor";

/* ---- what is known of names outside the file ----------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
#define IN_LIST(list, name)                                                                                  \
    (bsearch(&(name), list, sizeof list / sizeof *(list), sizeof *(list), by_name) != NULL)

/* Functions directly in torch that return no tensor (torch reference, "torch"). Sorted. */
static const char *const not_tensor_functions[] = {
    "are_deterministic_algorithms_enabled",
    "autocast",
    "can_cast",
    "compile",
    "compiled_with_cxx11_abi",
    "cond",
    "device",
    "dtype",
    "enable_grad",
    "finfo",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_file_path",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_complex",
    "is_conj",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_distributed",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "is_warn_always_enabled",
    "layout",
    "load",
    "manual_seed",
    "memory_format",
    "no_grad",
    "numel",
    "parse_ir",
    "parse_schema",
    "promote_types",
    "result_type",
    "save",
    "seed",
    "set_anomaly_enabled",
    "set_autocast_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "set_vital",
    "set_warn_always",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "typename",
    "use_deterministic_algorithms",
    "vmap",
};
/* Functions and methods that return several tensors. Sorted. */
static const char *const tuple_functions[] = {
    "aminmax",
    "broadcast_tensors",
    "chunk",
    "cummax",
    "cummin",
    "dsplit",
    "frexp",
    "geqrf",
    "hsplit",
    "kthvalue",
    "lu",
    "lu_unpack",
    "meshgrid",
    "mode",
    "qr",
    "slogdet",
    "sort",
    "split",
    "split_with_sizes",
    "svd",
    "tensor_split",
    "topk",
    "triangular_solve",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "vsplit",
};
/* Tensor methods that return no tensor (torch reference, "torch.Tensor"). Sorted. */
static const char *const not_tensor_methods[] = {
    "backward",
    "data_ptr",
    "dense_dim",
    "dim",
    "dim_order",
    "element_size",
    "get_device",
    "has_names",
    "is_complex",
    "is_conj",
    "is_contiguous",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_pinned",
    "is_set_to",
    "is_shared",
    "is_signed",
    "item",
    "ndimension",
    "nelement",
    "numel",
    "numpy",
    "q_per_channel_axis",
    "q_scale",
    "q_zero_point",
    "qscheme",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "size",
    "sparse_dim",
    "storage",
    "storage_offset",
    "storage_type",
    "stride",
    "tolist",
    "type",
    "untyped_storage",
};
/* What is asked of tensors and of nothing else that these files hold. Sorted. */
static const char *const only_tensors_have[] = {
    "abs_",        "acos",         "add",        "add_",      "addmm",     "backward",    "bool",
    "clamp",       "clamp_",       "contiguous", "cos",       "cos_",      "detach",      "detach_",
    "div",         "div_",         "exp",        "expand",    "expand_as", "grad",        "grad_fn",
    "index_add_",  "index_select", "is_cuda",    "is_leaf",   "log",       "log_softmax", "masked_fill",
    "matmul",      "mm",           "mul",        "mul_",      "narrow",    "new_ones",    "new_tensor",
    "new_zeros",   "numel",        "permute",    "pow",       "relu",      "relu_",       "requires_grad_",
    "retain_grad", "rsqrt",        "scatter_",   "sigmoid",   "sin",       "sin_",        "softmax",
    "sqrt",        "squeeze",      "sub",        "sub_",      "tan",       "tanh",        "transpose",
    "tril",        "triu",         "unbind",     "unsqueeze", "view",      "view_as",     "zero_",
};
static const char *const tensor_attributes[] = {"H", "T", "data", "grad", "imag", "mH", "mT", "real"};
/* Methods of modules that return the module. Sorted. */
static const char *const module_methods[] = {
    "apply", "bfloat16",       "cpu", "cuda",     "double", "eval", "float", "half",
    "npu",   "requires_grad_", "to",  "to_empty", "train",  "type", "xpu",
};
static const char *const tensor_packages[] = {
    "torch.nn.functional.", "torch.linalg.", "torch.fft.",      "torch.special.",
    "torch.nn.init.",       "torch._refs.",  "torch.ops.aten.",
};
static const struct {
    const char *name, *type;
} builtin_calls[] = {
    {"len", "int"},     {"int", "int"},         {"float", "int"},       {"str", "str"},
    {"repr", "str"},    {"bool", "bool"},       {"isinstance", "bool"}, {"hasattr", "bool"},
    {"all", "bool"},    {"list", "list"},       {"sorted", "list"},     {"dict", "dict"},
    {"set", "set"},     {"frozenset", "set"},   {"tuple", "tuple"},     {"range", "range"},
    {"id", "int"},      {"ord", "int"},         {"chr", "str"},         {"open", "file"},
    {"bytes", "bytes"}, {"bytearray", "bytes"}, {"dir", "list"},        {"round", "int"},
    {"type", "type"},   {"object", "object"},
};

static const char *leaf_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static bool is_class_name(const char *leaf)
{
    while (*leaf == '_') leaf++;
    return isupper((unsigned char)*leaf);
}

static const char *torch_call_type(const char *name)
{
    const char *leaf = leaf_of(name), *rest = name + strlen("torch.");
    if (!strcmp(leaf, "make_tensor") || !strcmp(name, "torch.autograd.Variable")) return tensor;
    if (is_class_name(leaf)) return str_ends(leaf, "Tensor") && !strchr(rest, '.') ? tensor : name;
    if (!strchr(rest, '.')) {
        if (IN_LIST(tuple_functions, leaf)) return "tuple";
        return IN_LIST(not_tensor_functions, leaf) || str_starts(leaf, "_") ? NULL : tensor;
    }
    for (size_t i = 0; i < sizeof tensor_packages / sizeof *tensor_packages; i++)
        if (str_starts(name, tensor_packages[i])) return IN_LIST(tuple_functions, leaf) ? "tuple" : tensor;
    return NULL;
}

/* ---- the file's own functions and classes -------------------------------------------------------------- */

uint32_t type_scope_named(const struct types *t, const char *qualname)
{
    uint32_t h = 2166136261u;
    for (const char *c = qualname; *c; c++) h = (h ^ (unsigned char)*c) * 16777619u;
    for (uint32_t i = h & (t->nhash - 1);; i = (i + 1) & (t->nhash - 1)) {
        uint32_t s = t->scope_hash[i];
        if (s == UINT32_MAX || !strcmp(t->f->scopes.ptr[s].qualname, qualname)) return s;
    }
}

static void index_scopes(struct types *t)
{
    struct py_file *f = t->f;
    t->nhash = 64;
    while (t->nhash < 2 * f->scopes.len) t->nhash *= 2;
    t->scope_hash = xmalloc(t->nhash * sizeof *t->scope_hash);
    memset(t->scope_hash, 0xff, t->nhash * sizeof *t->scope_hash);
    for (uint32_t s = 1; s < f->scopes.len; s++) {
        if (!*f->scopes.ptr[s].name || type_scope_named(t, f->scopes.ptr[s].qualname) != UINT32_MAX) continue;
        uint32_t h = 2166136261u;
        for (const char *c = f->scopes.ptr[s].qualname; *c; c++) h = (h ^ (unsigned char)*c) * 16777619u;
        uint32_t i = h & (t->nhash - 1);
        while (t->scope_hash[i] != UINT32_MAX) i = (i + 1) & (t->nhash - 1);
        t->scope_hash[i] = s;
    }
}

/* Resolved name of base b of a class: ".X" when it is a class of the file. */
static const char *base_name(struct types *t, uint32_t class, size_t b)
{
    const struct py_scope *s = &t->f->scopes.ptr[class];
    return *s->bases.ptr[b] ? py_resolve(t->f, s->parent, s->bases.ptr[b]) : NULL;
}

static uint32_t method_in(struct types *t, uint32_t class, const char *name)
{
    char *qualname = xformat("%s.%s", t->f->scopes.ptr[class].qualname, name);
    uint32_t s = type_scope_named(t, qualname);
    free(qualname);
    return s != UINT32_MAX && t->f->scopes.ptr[s].kind == PY_FUNCTION ? s : UINT32_MAX;
}

static uint32_t method_within(struct types *t, uint32_t class, const char *name, int depth)
{
    uint32_t own = method_in(t, class, name);
    for (size_t b = 0; own == UINT32_MAX && depth < 8 && b < t->f->scopes.ptr[class].bases.len; b++) {
        const char *base = base_name(t, class, b);
        uint32_t s = base && base[0] == '.' ? type_scope_named(t, base + 1) : UINT32_MAX;
        if (s != UINT32_MAX && s != class) own = method_within(t, s, name, depth + 1);
    }
    return own;
}
uint32_t type_method(struct types *t, uint32_t class, const char *name)
{
    return method_within(t, class, name, 0);
}

static const char *outer_base_within(struct types *t, uint32_t class, int depth)
{
    for (size_t b = 0; depth < 8 && b < t->f->scopes.ptr[class].bases.len; b++) {
        const char *base = base_name(t, class, b);
        if (!base || !strcmp(base, "builtins.object")) continue;
        if (base[0] != '.') return base;
        uint32_t s = type_scope_named(t, base + 1);
        const char *found = s != UINT32_MAX && s != class ? outer_base_within(t, s, depth + 1) : NULL;
        if (found) return found;
    }
    return NULL;
}
const char *type_outer_base(struct types *t, const char *type)
{
    uint32_t s = type && type[0] == '.' ? type_scope_named(t, type + 1) : UINT32_MAX;
    return s != UINT32_MAX && t->f->scopes.ptr[s].kind == PY_CLASS ? outer_base_within(t, s, 0) : NULL;
}

bool type_is_tensor(struct types *t, const char *type)
{
    if (type && type[0] == '.') type = type_outer_base(t, type);
    if (!type) return false;
    return type == tensor || !strcmp(type, tensor) || !strcmp(type, "torch.nn.Parameter") ||
           !strcmp(type, "torch.nn.parameter.Parameter") || !strcmp(type, "torch.nn.Buffer") ||
           !strcmp(type, "torch._tensor.Tensor");
}

bool type_is_module(struct types *t, const char *type)
{
    if (type && type[0] == '.') type = type_outer_base(t, type);
    if (!type || type_is_tensor(t, type)) return false;
    return (str_starts(type, "torch.nn.") || str_starts(type, "torch.ao.nn.")) &&
           is_class_name(leaf_of(type));
}

/* ---- joins --------------------------------------------------------------------------------------------- */

struct join {
    const char *type;
    bool any, clash;
};

static void join_type(struct types *t, struct join *j, const char *type)
{
    if (!type || !strcmp(type, "None")) return; /* "or None", and what could not be told, decide nothing */
    if (j->any && strcmp(j->type, type)) {
        if (type_is_tensor(t, type) && type_is_tensor(t, j->type))
            type = tensor;
        else
            j->clash = true;
    }
    j->type = type;
    j->any = true;
}
static const char *joined(const struct join *j)
{
    return j->clash ? NULL : j->type;
}

/* ---- names --------------------------------------------------------------------------------------------- */

static bool is_method(const struct py_file *f, uint32_t scope)
{
    const struct py_scope *s = &f->scopes.ptr[scope];
    if (s->kind != PY_FUNCTION || f->scopes.ptr[s->parent].kind != PY_CLASS) return false;
    for (size_t i = 0; i < s->decorators.len; i++)
        if (!strcmp(s->decorators.ptr[i].name, "staticmethod")) return false;
    return true;
}

static const char *class_type(struct types *t, uint32_t class)
{
    if (!t->own[class]) t->own[class] = xformat(".%s", t->f->scopes.ptr[class].qualname);
    return t->own[class];
}

size_t types_first_at(const struct types *t, uint32_t byte)
{
    size_t low = 0, high = t->f->refs.len;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (t->f->refs.ptr[t->by_place[mid]].at.start < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool names(const struct py_ref *r, const char *name, size_t n)
{
    return !strncmp(r->chain, name, n) && (!r->chain[n] || r->chain[n] == '.');
}

/* True for functions of torch whose first argument is a tensor: those that compute, not those that make. */
static bool takes_tensor(const char *name)
{
    static const char *const makers[] = {"arange",
                                         "as_tensor",
                                         "asarray",
                                         "bartlett_window",
                                         "blackman_window",
                                         "empty",
                                         "empty_strided",
                                         "eye",
                                         "from_numpy",
                                         "frombuffer",
                                         "full",
                                         "hamming_window",
                                         "hann_window",
                                         "kaiser_window",
                                         "linspace",
                                         "logspace",
                                         "normal",
                                         "ones",
                                         "rand",
                                         "randint",
                                         "randn",
                                         "randperm",
                                         "range",
                                         "scalar_tensor",
                                         "sparse_coo_tensor",
                                         "tensor",
                                         "tril_indices",
                                         "triu_indices",
                                         "vander",
                                         "zeros"};
    const char *leaf = leaf_of(name);
    return islower((unsigned char)*leaf) && torch_call_type(name) == tensor && !IN_LIST(makers, leaf);
}

/* True when what is done with a parameter inside its function is done with tensors only. */
static bool used_as_tensor(struct types *t, uint32_t scope, const char *name)
{
    struct py_file *f = t->f;
    size_t n = strlen(name);
    struct py_span body = f->scopes.ptr[scope].at;
    for (size_t i = types_first_at(t, body.start); i < f->refs.len; i++) {
        uint32_t index = t->by_place[i];
        const struct py_ref *r = &f->refs.ptr[index];
        if (r->at.start >= body.end) break;
        if (names(r, name, n) && r->chain[n] == '.') {
            char *attribute = xstrndup(r->chain + n + 1, strcspn(r->chain + n + 1, "."));
            bool only = IN_LIST(only_tensors_have, attribute);
            free(attribute);
            if (only) return true;
        }
        if (!r->call || !r->nargs || r->chain[0] == '?') continue;
        const struct py_argument *a = &f->arguments.ptr[r->arg];
        const struct py_expr *e = &f->exprs.ptr[a->value];
        if (*a->keyword || e->kind != PYE_REF || strcmp(f->refs.ptr[e->a].chain, name)) continue;
        const char *callee = t->resolved[index];
        if (callee && str_starts(callee, "torch.") && takes_tensor(callee)) return true;
    }
    return false;
}

static size_t first_call_of(const struct types *t, uint32_t callee)
{
    size_t low = 0, high = t->calls.len;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (t->calls.ptr[mid].callee < callee)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The expression that a call hands to parameter `name`, number `position` not counting self; 0 if none. */
static uint32_t handed(const struct py_file *f, const struct py_ref *call, const char *name,
                       uint32_t position)
{
    for (uint32_t i = 0; i < call->nargs; i++) {
        const struct py_argument *a = &f->arguments.ptr[call->arg + i];
        if (a->keyword[0] == '*') return 0;
        if (*a->keyword ? !strcmp(a->keyword, name) : i == position) return a->value;
    }
    return 0;
}

static uint32_t position_of(const struct py_file *f, uint32_t scope, const char *name)
{
    const struct py_scope *s = &f->scopes.ptr[scope];
    uint32_t self = is_method(f, scope);
    for (uint32_t i = 0; i < s->params.len; i++)
        if (!strcmp(s->params.ptr[i], name)) return i < self ? UINT32_MAX : i - self;
    return UINT32_MAX;
}

static const char *annotated_type(struct types *t, const struct py_binding *b)
{
    const char *name = b->target ? py_resolve(t->f, t->f->scopes.ptr[b->scope].parent, b->target) : NULL;
    if (!name) return NULL;
    if (str_starts(name, "builtins.")) {
        const char *plain = name + strlen("builtins.");
        return !strcmp(plain, "Tensor") || !strcmp(plain, "object") ? NULL
               : !strcmp(plain, "float")                            ? "int"
                                                                    : plain;
    }
    return str_ends(name, ".Tensor") && str_starts(name, "torch") ? tensor
           : is_class_name(leaf_of(name))                         ? name
                                                                  : NULL;
}

static const char *param_type(struct types *t, const struct py_binding *b)
{
    struct py_file *f = t->f;
    const struct py_scope *s = &f->scopes.ptr[b->scope];
    if (s->kind == PY_FUNCTION && is_method(f, b->scope) && s->params.len &&
        !strcmp(s->params.ptr[0], b->name))
        return class_type(t, s->parent);
    const char *type = annotated_type(t, b);
    if (type) return type;
    if (s->kind != PY_FUNCTION && s->kind != PY_LAMBDA) return NULL;
    struct join j = {0};
    uint32_t position = position_of(f, b->scope, b->name);
    for (size_t i = first_call_of(t, b->scope); i < t->calls.len && t->calls.ptr[i].callee == b->scope; i++)
        join_type(t, &j, type_of_expr(t, handed(f, &f->refs.ptr[t->calls.ptr[i].ref], b->name, position)));
    if (j.any) return joined(&j);
    return used_as_tensor(t, b->scope, b->name) ? tensor : NULL;
}

static const char *binding_type(struct types *t, const struct py_binding *b)
{
    switch (b->kind) {
    case PYB_PARAM:
        return param_type(t, b);
    case PYB_ALIAS:
    case PYB_INSTANCE:
    case PYB_OTHER:
        return type_of_expr(t, b->value);
    case PYB_FUNCTION:
        return "function";
    default:
        return NULL;
    }
}

/* The binding that a use at `place` in the same scope sees: the nearest before it. */
static const struct py_binding *nearest(const struct py_file *f, uint32_t scope, const char *name, size_t n,
                                        uint32_t place)
{
    uint32_t at = 0;
    const struct py_binding *b, *best = NULL;
    while ((b = py_next_binding(f, scope, name, n, &at)))
        if (b->kind != PYB_OUTER && b->at.end <= place) best = b;
    return best;
}

/* Scope that binds the name as seen from `from`; UINT32_MAX if none does. */
static uint32_t binding_scope(const struct py_file *f, uint32_t from, const char *name, size_t n)
{
    bool own = true;
    for (uint32_t s = from;; s = f->scopes.ptr[s].parent) {
        uint32_t at = 0;
        if ((own || f->scopes.ptr[s].kind != PY_CLASS) && py_next_binding(f, s, name, n, &at)) return s;
        if (f->scopes.ptr[s].kind != PY_COMPREHENSION) own = false;
        if (s == 0) return UINT32_MAX;
    }
}

static const char *name_type(struct types *t, uint32_t scope, const char *name, size_t n, uint32_t place)
{
    uint32_t s = binding_scope(t->f, scope, name, n);
    if (s == UINT32_MAX) return NULL;
    const struct py_binding *b = s == scope ? nearest(t->f, s, name, n, place) : NULL;
    if (b) {
        const char *type = binding_type(t, b);
        if (type || !b->conditional) return type;
    }
    struct join j = {0};
    uint32_t at = 0;
    while ((b = py_next_binding(t->f, s, name, n, &at)))
        if (b->kind != PYB_OUTER) join_type(t, &j, binding_type(t, b));
    return joined(&j);
}

/* ---- attributes, calls --------------------------------------------------------------------------------- */

static const char *stored_attribute(struct types *t, const char *class, const char *name, size_t n, int depth)
{
    char *key = xformat("%s.%.*s", class, (int)n, name);
    uintptr_t first = (uintptr_t)map_get(&t->attributes, key);
    struct join j = {0};
    for (size_t i = first; first && i <= t->f->attributes.len; i++) {
        const struct py_attribute *a = &t->f->attributes.ptr[i - 1];
        const char *dot = strchr(a->chain, '.');
        if (strncmp(dot + 1, name, n) || dot[1 + n]) continue;
        uint32_t method = py_enclosing(t->f, a->scope, PY_CLASS);
        if (method == UINT32_MAX || strcmp(t->f->scopes.ptr[method].qualname, class + 1)) continue;
        join_type(t, &j, type_of_expr(t, a->value));
    }
    free(key);
    if (j.any || depth > 6) return joined(&j);
    uint32_t s = type_scope_named(t, class + 1);
    for (size_t b = 0; s != UINT32_MAX && b < t->f->scopes.ptr[s].bases.len; b++) {
        const char *base = base_name(t, s, b);
        const char *type = base && base[0] == '.' ? stored_attribute(t, base, name, n, depth + 1) : NULL;
        if (type) return type;
    }
    return NULL;
}

static const char *attribute_type(struct types *t, const char *of, const char *name, size_t n)
{
    if (!of) return NULL;
    char attribute[64];
    if (n >= sizeof attribute) return NULL;
    memcpy(attribute, name, n);
    attribute[n] = 0;
    const char *key = attribute;
    const char *stored = of[0] == '.' ? stored_attribute(t, of, name, n, 0) : NULL;
    if (stored) return stored;
    if (type_is_tensor(t, of)) {
        if (IN_LIST(tensor_attributes, key)) return tensor;
        return !strcmp(key, "shape") ? "torch.Size" : !strcmp(key, "dtype") ? "torch.dtype" : NULL;
    }
    if (type_is_module(t, of) && (!strcmp(key, "weight") || !strcmp(key, "bias"))) return tensor;
    return NULL;
}

/* Of the first `n` bytes of a chain of plain names. */
static const char *prefix_type(struct types *t, const struct py_ref *r, size_t n)
{
    size_t at = strcspn(r->chain, ".");
    const char *type = name_type(t, r->scope, r->chain, at, r->at.start);
    while (at < n && type) {
        const char *name = r->chain + at + 1;
        size_t len = strcspn(name, ".");
        type = attribute_type(t, type, name, len);
        at += 1 + len;
    }
    return type;
}

const char *type_of_receiver(struct types *t, const struct py_ref *r)
{
    const char *dot = strrchr(r->chain, '.');
    if (!dot) return NULL;
    return r->chain[0] == '?' ? type_of_expr(t, r->base) : prefix_type(t, r, (size_t)(dot - r->chain));
}

const char *type_of_ref(struct types *t, const struct py_ref *r)
{
    if (r->chain[0] != '?') return prefix_type(t, r, strlen(r->chain));
    const char *name = leaf_of(r->chain);
    return attribute_type(t, type_of_expr(t, r->base), name, strlen(name));
}

static const char *function_type(struct types *t, uint32_t scope)
{
    struct join j = {0};
    for (size_t i = 0; i < t->f->returns.len; i++) {
        const struct py_return *r = &t->f->returns.ptr[i];
        if (py_enclosing(t->f, r->scope, PY_FUNCTION) == scope) join_type(t, &j, type_of_expr(t, r->value));
    }
    return joined(&j);
}

static const char *method_type(struct types *t, const char *of, const char *name)
{
    if (of && of[0] == '.') {
        uint32_t s = type_scope_named(t, of + 1), m = s == UINT32_MAX ? s : type_method(t, s, name);
        if (m != UINT32_MAX) return function_type(t, m);
    }
    if (type_is_tensor(t, of)) {
        if (IN_LIST(not_tensor_methods, name))
            return !strcmp(name, "size") ? "torch.Size" : !strcmp(name, "tolist") ? "list" : "int";
        return IN_LIST(tuple_functions, name) ? "tuple" : tensor;
    }
    if (type_is_module(t, of)) return IN_LIST(module_methods, name) ? of : NULL;
    if (of && !strcmp(of, "str")) return !strcmp(name, "split") ? "list" : "str";
    if (!of && (!strcmp(name, "requires_grad_") || !strcmp(name, "detach"))) return tensor;
    return NULL;
}

static const char *builtin_type(struct types *t, const char *name, const struct py_ref *r)
{
    for (size_t i = 0; i < sizeof builtin_calls / sizeof *builtin_calls; i++)
        if (!strcmp(builtin_calls[i].name, name)) return builtin_calls[i].type;
    bool same = !strcmp(name, "sum") || !strcmp(name, "abs") || !strcmp(name, "max") || !strcmp(name, "min");
    const char *type = same && r->nargs ? type_of_expr(t, t->f->arguments.ptr[r->arg].value) : NULL;
    return type_is_tensor(t, type) ? tensor : NULL;
}

static const char *outside_call_type(struct types *t, const char *name, const struct py_ref *r)
{
    if (str_starts(name, "torch.")) return torch_call_type(name);
    if (str_starts(name, "builtins.")) return builtin_type(t, name + strlen("builtins."), r);
    if (str_starts(name, "numpy.")) return "numpy.ndarray";
    if (str_starts(name, "copy.") && r->nargs) return type_of_expr(t, t->f->arguments.ptr[r->arg].value);
    if (!strcmp(leaf_of(name), "make_tensor")) return tensor;
    return is_class_name(leaf_of(name)) ? name : NULL;
}

static const char *call_type(struct types *t, const struct py_expr *e)
{
    if (e->a == UINT32_MAX) return type_is_module(t, type_of_expr(t, e->b)) ? tensor : NULL;
    const struct py_ref *r = &t->f->refs.ptr[e->a];
    uint32_t own = t->callee[e->a];
    if (own != UINT32_MAX) {
        if (t->f->scopes.ptr[own].kind == PY_CLASS) return class_type(t, own);
        return function_type(t, own);
    }
    const char *name = t->resolved[e->a];
    if (name && name[0] != '.') return outside_call_type(t, name, r);
    if (!strcmp(leaf_of(r->chain), "make_tensor")) return tensor;
    if (!strchr(r->chain, '.')) return type_is_module(t, type_of_ref(t, r)) ? tensor : NULL;
    const char *of = type_of_receiver(t, r);
    const char *type = method_type(t, of, leaf_of(r->chain));
    if (type) return type;
    return type_is_module(t, type_of_ref(t, r)) ? tensor : NULL; /* self.net(x) */
}

/* ---- expressions --------------------------------------------------------------------------------------- */

/* The expression that a bare name stands for; the expression itself otherwise. */
static uint32_t behind(struct types *t, uint32_t expr)
{
    const struct py_expr *e = &t->f->exprs.ptr[expr];
    if (e->kind != PYE_REF) return expr;
    const struct py_ref *r = &t->f->refs.ptr[e->a];
    size_t n = strlen(r->chain);
    if (strchr(r->chain, '.')) return expr;
    uint32_t s = binding_scope(t->f, r->scope, r->chain, n);
    const struct py_binding *b = s == UINT32_MAX ? NULL : nearest(t->f, s, r->chain, n, r->at.start);
    return b && b->value ? b->value : expr;
}

/* Type of some element of a sequence. */
static const char *element_type(struct types *t, uint32_t sequence)
{
    uint32_t real = behind(t, sequence);
    const struct py_expr *e = &t->f->exprs.ptr[real];
    if (e->kind == PYE_LIST || e->kind == PYE_TUPLE) {
        struct join j = {0};
        for (uint32_t i = 0; i < e->b; i++) join_type(t, &j, type_of_expr(t, t->f->items.ptr[e->a + i]));
        return joined(&j);
    }
    const char *type = type_of_expr(t, sequence);
    if (type_is_tensor(t, type)) return tensor;
    if (!type) return NULL;
    if (!strcmp(type, "range")) return "int";
    if (!strcmp(type, "str")) return type;
    if (e->kind == PYE_CALL && e->a != UINT32_MAX && !strcmp(type, "tuple"))
        return tensor; /* split and its kin */
    return NULL;
}

static const char *operator_type(struct types *t, const struct py_expr *e)
{
    const char *a = type_of_expr(t, e->a), *b = type_of_expr(t, e->b);
    if (type_is_tensor(t, a) || type_is_tensor(t, b)) return tensor;
    if (a && b && !strcmp(a, b)) return a;
    return a && !strcmp(a, "str") ? a : a && !strcmp(a, "numpy.ndarray") ? a : NULL;
}

static const char *either_type(struct types *t, const struct py_expr *e)
{
    struct join j = {0};
    join_type(t, &j, type_of_expr(t, e->a));
    join_type(t, &j, type_of_expr(t, e->b));
    return joined(&j);
}

static const char *compute(struct types *t, uint32_t expr)
{
    static const char *const plain[] = {
        [PYE_STR] = "str",   [PYE_NUMBER] = "int",  [PYE_BOOL] = "bool",
        [PYE_NONE] = "None", [PYE_LIST] = "list",   [PYE_DICT] = "dict",
        [PYE_SET] = "set",   [PYE_TUPLE] = "tuple", [PYE_LAMBDA] = "function",
    };
    const struct py_expr *e = &t->f->exprs.ptr[expr];
    switch (e->kind) {
    case PYE_REF:
        return type_of_ref(t, &t->f->refs.ptr[e->a]);
    case PYE_CALL:
        return call_type(t, e);
    case PYE_OPERATOR:
        return operator_type(t, e);
    case PYE_UNARY:
        return type_of_expr(t, e->a);
    case PYE_EITHER:
        return either_type(t, e);
    case PYE_SUBSCRIPT:
        return element_type(t, e->a);
    default:
        return e->kind < sizeof plain / sizeof *plain ? plain[e->kind] : NULL;
    }
}

const char *type_of_expr(struct types *t, uint32_t expr)
{
    if (!expr || t->state[expr] == 1 || t->depth > MAX_TYPE_DEPTH) return NULL;
    if (t->state[expr] == 2) return t->memo[expr];
    t->state[expr] = 1;
    t->depth++;
    t->memo[expr] = compute(t, expr);
    t->depth--;
    t->state[expr] = 2;
    return t->memo[expr];
}

/* ---- where tensors come from --------------------------------------------------------------------------- */

static struct origin origin_within(struct types *t, uint32_t expr, int depth);

static struct origin origin_of_items(struct types *t, uint32_t first, uint32_t n, int depth)
{
    struct origin o = {0};
    for (uint32_t i = 0; i < n && !o.found; i++) o = origin_within(t, t->f->items.ptr[first + i], depth);
    return o;
}

static struct origin origin_of_arguments(struct types *t, const struct py_ref *r, int depth)
{
    struct origin o = {0};
    for (uint32_t i = 0; i < r->nargs && !o.found; i++)
        o = origin_within(t, t->f->arguments.ptr[r->arg + i].value, depth);
    return o;
}

static bool holds_tensors(struct types *t, const char *type)
{
    return type_is_tensor(t, type) || type_is_module(t, type);
}

static struct origin origin_of_param(struct types *t, const struct py_binding *b, int depth)
{
    struct py_file *f = t->f;
    uint32_t position = position_of(f, b->scope, b->name);
    for (size_t i = first_call_of(t, b->scope); i < t->calls.len && t->calls.ptr[i].callee == b->scope; i++) {
        const struct py_ref *call = &f->refs.ptr[t->calls.ptr[i].ref];
        struct origin o = origin_within(t, handed(f, call, b->name, position), depth);
        if (o.found) return o;
    }
    return (struct origin){holds_tensors(t, param_type(t, b)), 0};
}

static struct origin origin_of_name(struct types *t, const struct py_ref *r, int depth)
{
    size_t n = strcspn(r->chain, ".");
    uint32_t s = binding_scope(t->f, r->scope, r->chain, n);
    if (s == UINT32_MAX) return (struct origin){0};
    const struct py_binding *b = nearest(t->f, s, r->chain, n, r->at.start);
    uint32_t at = 0;
    if (!b) b = py_next_binding(t->f, s, r->chain, n, &at);
    if (!b) return (struct origin){0};
    if (b->kind == PYB_PARAM) return origin_of_param(t, b, depth);
    return origin_within(t, b->value, depth);
}

static struct origin origin_of_call(struct types *t, uint32_t expr, int depth)
{
    const struct py_expr *e = &t->f->exprs.ptr[expr];
    if (e->a == UINT32_MAX) return origin_within(t, e->b, depth);
    const struct py_ref *r = &t->f->refs.ptr[e->a];
    struct origin o = {0};
    if (strchr(r->chain, '.'))
        o = r->chain[0] == '?' ? origin_within(t, r->base, depth) : origin_of_name(t, r, depth);
    if (!o.found) o = origin_of_arguments(t, r, depth);
    if (o.found) return o;
    return holds_tensors(t, type_of_expr(t, expr)) ? (struct origin){true, r->at.row} : o;
}

static struct origin origin_within(struct types *t, uint32_t expr, int depth)
{
    if (!expr || depth > 12) return (struct origin){0};
    const struct py_expr *e = &t->f->exprs.ptr[expr];
    struct origin o = {0};
    switch (e->kind) {
    case PYE_REF:
        o = t->f->refs.ptr[e->a].chain[0] == '?' ? origin_within(t, t->f->refs.ptr[e->a].base, depth + 1)
                                                 : origin_of_name(t, &t->f->refs.ptr[e->a], depth + 1);
        if (!o.found) o.found = holds_tensors(t, type_of_expr(t, expr));
        return o;
    case PYE_CALL:
        return origin_of_call(t, expr, depth + 1);
    case PYE_LIST:
    case PYE_TUPLE:
        return origin_of_items(t, e->a, e->b, depth + 1);
    case PYE_OPERATOR:
    case PYE_EITHER:
        o = origin_within(t, e->a, depth + 1);
        return o.found ? o : origin_within(t, e->b, depth + 1);
    case PYE_UNARY:
    case PYE_SUBSCRIPT:
        return origin_within(t, e->a, depth + 1);
    default:
        return o;
    }
}

struct origin type_origin(struct types *t, uint32_t expr)
{
    return origin_within(t, expr, 0);
}

struct origin type_origin_of_ref(struct types *t, const struct py_ref *r)
{
    struct origin o = {0};
    if (strchr(r->chain, '.'))
        o = r->chain[0] == '?' ? origin_within(t, r->base, 0) : origin_of_name(t, r, 0);
    if (!o.found && r->call) o = origin_of_arguments(t, r, 0);
    return o;
}

/* ---- building ------------------------------------------------------------------------------------------ */

/* Scope of the file's function or class that the reference names; UINT32_MAX. */
static uint32_t callee_of(struct types *t, uint32_t index)
{
    struct py_file *f = t->f;
    const struct py_ref *r = &f->refs.ptr[index];
    if (r->chain[0] == '?') return UINT32_MAX;
    if (str_starts(r->chain, "self.") || str_starts(r->chain, "cls.")) {
        const char *name = strchr(r->chain, '.') + 1;
        uint32_t class = py_enclosing(f, r->scope, PY_CLASS);
        return strchr(name, '.') || class == UINT32_MAX ? UINT32_MAX : type_method(t, class, name);
    }
    const char *resolved = t->resolved[index] = py_resolve(f, r->scope, r->chain);
    return resolved && resolved[0] == '.' ? type_scope_named(t, resolved + 1) : UINT32_MAX;
}

static int by_callee(const void *a, const void *b)
{
    const struct type_call *x = a, *y = b;
    if (x->callee != y->callee) return x->callee < y->callee ? -1 : 1;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static void find_callees(struct types *t)
{
    struct py_file *f = t->f;
    t->callee = xmalloc((f->refs.len + 1) * sizeof *t->callee);
    t->resolved = xcalloc(f->refs.len + 1, sizeof *t->resolved);
    for (uint32_t i = 0; i < f->refs.len; i++) {
        uint32_t s = t->callee[i] = callee_of(t, i);
        if (s == UINT32_MAX || !f->refs.ptr[i].call) continue;
        if (f->scopes.ptr[s].kind == PY_CLASS) s = type_method(t, s, "__init__");
        if (s != UINT32_MAX) *vec_push(&t->calls) = (struct type_call){s, i};
    }
    if (t->calls.len) qsort(t->calls.ptr, t->calls.len, sizeof *t->calls.ptr, by_callee);
}

static void index_attributes(struct types *t)
{
    struct py_file *f = t->f;
    for (uint32_t i = 0; i < f->attributes.len; i++) {
        const struct py_attribute *a = &f->attributes.ptr[i];
        uint32_t class = py_enclosing(f, a->scope, PY_CLASS);
        if (class == UINT32_MAX || !str_starts(a->chain, "self.") || strchr(a->chain + 5, '.')) continue;
        char *key = xformat(".%s.%s", f->scopes.ptr[class].qualname, a->chain + 5);
        void **slot = map_put(&t->attributes, key);
        if (!*slot) *slot = (void *)(uintptr_t)(i + 1);
        free(key);
    }
}

struct place {
    uint32_t start, ref;
};
static int by_start(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static void order_references(struct types *t)
{
    struct py_file *f = t->f;
    struct place *p = xmalloc((f->refs.len + 1) * sizeof *p);
    bool sorted = true;
    for (uint32_t i = 0; i < f->refs.len; i++) {
        p[i] = (struct place){f->refs.ptr[i].at.start, i};
        sorted &= !i || p[i - 1].start <= p[i].start;
    }
    if (!sorted) qsort(p, f->refs.len, sizeof *p, by_start);
    t->by_place = xmalloc((f->refs.len + 1) * sizeof *t->by_place);
    for (size_t i = 0; i < f->refs.len; i++) t->by_place[i] = p[i].ref;
    free(p);
}

void types_make(struct types *t, struct py_file *f)
{
    *t = (struct types){.f = f};
    t->memo = xcalloc(f->exprs.len + 1, sizeof *t->memo);
    t->state = xcalloc(f->exprs.len + 1, 1);
    t->own = xcalloc(f->scopes.len, sizeof *t->own);
    index_scopes(t);
    order_references(t);
    find_callees(t);
    index_attributes(t);
}

void types_free(struct types *t)
{
    for (size_t i = 0; i < t->f->scopes.len; i++) free(t->own[i]);
    free(t->own);
    free(t->resolved);
    free(t->memo);
    free(t->state);
    free(t->by_place);
    free(t->scope_hash);
    free(t->callee);
    vec_free(&t->calls);
    map_free(&t->attributes, NULL);
}
