/* pysrc.c - from a tree-sitter tree to the source model, in one walk. */
#include "concord/pysrc/private.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tree_sitter/api.h>

const TSLanguage *tree_sitter_python(void);

/* ---- node kinds and fields: looked up once, by name -------------------------------------------------- */

/* clang-format off */
#define KINDS(X)                                                                                                   \
    X(class_definition) X(function_definition) X(decorated_definition) X(decorator) X(lambda)                      \
    X(list_comprehension) X(set_comprehension) X(dictionary_comprehension) X(generator_expression)                 \
    X(import_statement) X(import_from_statement) X(future_import_statement) X(aliased_import)                      \
    X(wildcard_import) X(dotted_name) X(relative_import) X(assignment) X(augmented_assignment)                     \
    X(named_expression) X(for_statement) X(for_in_clause) X(as_pattern_target) X(global_statement)                 \
    X(nonlocal_statement) X(call) X(attribute) X(identifier) X(if_statement) X(try_statement) X(while_statement)   \
    X(match_statement) X(keyword_argument) X(binary_operator) X(unary_operator) X(comparison_operator)             \
    X(expression_statement) X(return_statement) X(assert_statement) X(raise_statement) X(delete_statement)         \
    X(pattern_list) X(tuple_pattern) X(list_pattern) X(list_splat_pattern) X(dictionary_splat_pattern)             \
    X(default_parameter) X(typed_parameter) X(typed_default_parameter) X(string) X(concatenated_string)           \
    X(integer) X(float) X(true) X(false) X(none) X(list) X(dictionary) X(set) X(tuple) X(boolean_operator)        \
    X(not_operator) X(conditional_expression) X(subscript) X(parenthesized_expression) X(expression_list)         \
    X(await) X(yield) X(as_pattern) X(list_splat) X(dictionary_splat) X(argument_list)
/* clang-format on */
enum kind {
    K_other,
#define X(name) K_##name,
    KINDS(X)
#undef X
};
/* clang-format off */
#define FIELDS(X)                                                                                                  \
    X(name) X(body) X(superclasses) X(parameters) X(left) X(right) X(function) X(arguments) X(object) X(attribute) \
    X(module_name) X(alias) X(operator) X(definition) X(value) X(type)
/* clang-format on */
enum field {
#define X(name) F_##name,
    FIELDS(X)
#undef X
        F_count
};

static uint8_t kind_of_symbol[1024];
static TSFieldId field_id[F_count];

static void find_symbols(void)
{
    static const char *const kinds[] = {"",
#define X(name) #name,
                                        KINDS(X)
#undef X
    };
    static const char *const fields[] = {
#define X(name) #name,
        FIELDS(X)
#undef X
    };
    const TSLanguage *language = tree_sitter_python();
    uint32_t n = ts_language_symbol_count(language);
    for (uint32_t s = 0; s < n && s < sizeof kind_of_symbol; s++) {
        if (ts_language_symbol_type(language, (TSSymbol)s) != TSSymbolTypeRegular) continue;
        const char *name = ts_language_symbol_name(language, (TSSymbol)s);
        for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++)
            if (!strcmp(name, kinds[i])) kind_of_symbol[s] = (uint8_t)i;
    }
    for (int i = 0; i < F_count; i++)
        field_id[i] = ts_language_field_id_for_name(language, fields[i], (uint32_t)strlen(fields[i]));
}

static enum kind kind_of(TSNode n)
{
    TSSymbol s = ts_node_symbol(n);
    return s < sizeof kind_of_symbol ? (enum kind)kind_of_symbol[s] : K_other;
}
static TSNode field(TSNode n, enum field f)
{
    return ts_node_child_by_field_id(n, field_id[f]);
}
static bool absent(TSNode n)
{
    return ts_node_is_null(n);
}

static struct py_span span(TSNode n)
{
    return (struct py_span){ts_node_start_byte(n), ts_node_end_byte(n), ts_node_start_point(n).row + 1};
}

/* ---- strings of the file ----------------------------------------------------------------------------- */

const char *py_intern(struct py_file *f, const char *s, size_t n)
{
    struct py_private *p = f->priv;
    if (p->room < n + 1) {
        size_t size = n + 1 > PY_CHUNK ? n + 1 : PY_CHUNK;
        p->free = *vec_push(&p->chunks) = xmalloc(size);
        p->room = size;
    }
    char *at = p->free;
    memcpy(at, s, n);
    at[n] = 0;
    p->free += n + 1;
    p->room -= n + 1;
    return at;
}

static const char *text_of(struct py_file *f, TSNode n)
{
    uint32_t a = ts_node_start_byte(n), b = ts_node_end_byte(n);
    return py_intern(f, f->text + a, b - a);
}

/* Dotted text of a chain of names, white space between its parts left out; false if n is no plain chain. */
static bool chain_text_within(struct py_file *f, TSNode n, struct buf *out, int depth)
{
    if (absent(n) || depth > PY_MAX_DEPTH) return false;
    enum kind k = kind_of(n);
    if (k == K_identifier || k == K_dotted_name) {
        const char *s = f->text + ts_node_start_byte(n), *end = f->text + ts_node_end_byte(n);
        for (; s < end; s++)
            if (!strchr(" \t\\\r\n", *s)) buf_addc(out, *s);
        return true;
    }
    if (k != K_attribute || !chain_text_within(f, field(n, F_object), out, depth + 1)) return false;
    buf_addc(out, '.');
    return chain_text_within(f, field(n, F_attribute), out, depth + 1);
}
static bool chain_text(struct py_file *f, TSNode n, struct buf *out)
{
    return chain_text_within(f, n, out, 0);
}

/* ---- the walk ---------------------------------------------------------------------------------------- */

struct global_name {
    uint32_t scope;
    const char *name;
};
struct walk {
    struct py_file *f;
    struct buf scratch;
    uint32_t scope;
    struct py_span statement;
    int conditional;
    int depth;
    bool too_deep;
    VEC(struct py_argument) pending; /* of the calls that are being read */
    VEC(struct global_name) globals;
    VEC(uint32_t) elements;    /* of the lists and tuples that are being read */
    VEC(TSTreeCursor) cursors; /* one a depth, kept */
    size_t cursors_used;
};

/* Returns the expression that n is, 0 when nothing is known of it. */
static uint32_t visit(struct walk *w, TSNode n);

static uint32_t add_expr(struct walk *w, enum py_expr_kind kind, uint32_t a, uint32_t b)
{
    uint32_t index = (uint32_t)w->f->exprs.len;
    *vec_push(&w->f->exprs) = (struct py_expr){kind, a, b};
    return index;
}

/* A cursor on n; given back by counting cursors_used down. Making one a node would cost an allocation each.
 */
static size_t cursor_at(struct walk *w, TSNode n)
{
    if (w->cursors_used == w->cursors.len)
        *vec_push(&w->cursors) = ts_tree_cursor_new(n);
    else
        ts_tree_cursor_reset(&w->cursors.ptr[w->cursors_used], n);
    return w->cursors_used++;
}

/* Visits the named children but the one that is `except` (a null node for none). */
static void visit_children_but(struct walk *w, TSNode n, TSNode except)
{
    if (!ts_node_named_child_count(n)) return;
    size_t mine = cursor_at(w, n);
    if (ts_tree_cursor_goto_first_child(&w->cursors.ptr[mine])) {
        do {
            TSNode child = ts_tree_cursor_current_node(&w->cursors.ptr[mine]);
            if (ts_node_is_named(child) && (absent(except) || !ts_node_eq(child, except))) visit(w, child);
        } while (ts_tree_cursor_goto_next_sibling(&w->cursors.ptr[mine]));
    }
    w->cursors_used--;
}
static void visit_children(struct walk *w, TSNode n)
{
    visit_children_but(w, n, (TSNode){0});
}

static const char *chain(struct walk *w, TSNode n)
{
    buf_clear(&w->scratch);
    if (!chain_text(w->f, n, &w->scratch)) return NULL;
    return py_intern(w->f, buf_str(&w->scratch), w->scratch.len);
}

/* Whether the scope at hand declares the name global: what it binds is the module's. */
static bool is_global(const struct walk *w, const char *name)
{
    for (size_t i = 0; i < w->globals.len; i++)
        if (w->globals.ptr[i].scope == w->scope && !strcmp(w->globals.ptr[i].name, name)) return true;
    return false;
}

static struct py_binding *bind_name(struct walk *w, enum py_binding_kind kind, const char *name,
                                    const char *target, struct py_span at)
{
    struct py_binding *b = vec_push(&w->f->bindings);
    uint32_t owner = kind != PYB_OUTER && is_global(w, name) ? 0 : w->scope;
    *b = (struct py_binding){name, target, kind, owner, 0, at, w->conditional > 0, 0};
    return b;
}

static void add_attribute(struct walk *w, TSNode n, uint32_t value)
{
    const char *text = chain(w, n);
    if (text) *vec_push(&w->f->attributes) = (struct py_attribute){text, w->scope, value, span(n)};
}

/* Expression i of what a tuple is unpacked into; 0 when value is no tuple of n. */
static uint32_t item_of(const struct py_file *f, uint32_t value, uint32_t i, uint32_t n)
{
    const struct py_expr *e = &f->exprs.ptr[value];
    return e->kind == PYE_TUPLE && e->b == n ? f->items.ptr[e->a + i] : 0;
}

/* Binds every plain name of an assignment target or a loop variable. */
static void bind_pattern(struct walk *w, TSNode n, uint32_t value)
{
    if (absent(n)) return;
    if (++w->depth > PY_MAX_DEPTH) {
        w->too_deep = true;
        w->depth--;
        return;
    }
    switch (kind_of(n)) {
    case K_identifier:
        bind_name(w, PYB_OTHER, text_of(w->f, n), NULL, span(n))->value = value;
        break;
    case K_pattern_list:
    case K_tuple_pattern:
    case K_list_pattern:
    case K_list_splat_pattern:
    case K_as_pattern_target:
        for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++)
            bind_pattern(w, ts_node_named_child(n, i),
                         kind_of(n) == K_as_pattern_target ? value : item_of(w->f, value, i, c));
        break;
    case K_attribute:
        add_attribute(w, n, value);
        visit(w, n);
        break;
    default:
        visit(w, n); /* x[i] = ...: a use, not a binding */
    }
    w->depth--;
}

static uint32_t open_scope(struct walk *w, enum py_scope_kind kind, TSNode n, const char *name)
{
    struct py_file *f = w->f;
    uint32_t index = (uint32_t)f->scopes.len;
    const char *qualname = index ? f->scopes.ptr[w->scope].qualname : "";
    if (*name && *qualname) {
        buf_clear(&w->scratch);
        buf_addf(&w->scratch, "%s.%s", qualname, name);
        qualname = py_intern(f, buf_str(&w->scratch), w->scratch.len);
    } else if (*name) {
        qualname = name;
    }
    struct py_scope *s = vec_push(&f->scopes);
    s->kind = kind;
    s->parent = w->scope;
    s->at = s->body = span(n);
    s->name = name;
    s->qualname = qualname;
    return index;
}

static TSNode param_name(TSNode p)
{
    switch (kind_of(p)) {
    case K_default_parameter:
    case K_typed_default_parameter:
        return field(p, F_name);
    case K_typed_parameter:
    case K_list_splat_pattern:
    case K_dictionary_splat_pattern: {
        TSNode inner = ts_node_named_child(p, 0);
        if (!absent(inner) && kind_of(inner) != K_identifier) inner = ts_node_named_child(inner, 0);
        return inner;
    }
    default:
        return p;
    }
}

/* The chain of a parameter's annotation; NULL when it has none or it is no plain chain. */
static const char *annotation(struct walk *w, TSNode p)
{
    TSNode type = field(p, F_type);
    return absent(type) || !ts_node_named_child_count(type) ? NULL : chain(w, ts_node_named_child(type, 0));
}

static void read_params(struct walk *w, uint32_t scope, TSNode list)
{
    for (uint32_t i = 0, c = absent(list) ? 0 : ts_node_named_child_count(list); i < c; i++) {
        TSNode p = ts_node_named_child(list, i), name = param_name(p);
        if (absent(name) || kind_of(name) != K_identifier) continue;
        const char *text = text_of(w->f, name);
        *vec_push(&w->f->scopes.ptr[scope].params) = text;
        bind_name(w, PYB_PARAM, text, annotation(w, p), span(p));
    }
}

/* Defaults and annotations belong to the scope around the function. */
static void visit_param_values(struct walk *w, TSNode list)
{
    for (uint32_t i = 0, c = absent(list) ? 0 : ts_node_named_child_count(list); i < c; i++) {
        TSNode p = ts_node_named_child(list, i);
        if (ts_node_named_child_count(p) > 1) visit_children_but(w, p, ts_node_named_child(p, 0));
    }
}

/* A scope's contents are walked with the state saved around it. */
static void in_scope(struct walk *w, uint32_t scope, TSNode params, TSNode body)
{
    uint32_t outer = w->scope;
    int conditional = w->conditional;
    struct py_span statement = w->statement;
    w->scope = scope;
    w->conditional = 0;
    read_params(w, scope, params);
    visit(w, body);
    w->scope = outer;
    w->conditional = conditional;
    w->statement = statement;
}

static void add_decorators(struct walk *w, uint32_t scope, TSNode decorated)
{
    for (uint32_t i = 0, c = absent(decorated) ? 0 : ts_node_named_child_count(decorated); i < c; i++) {
        TSNode d = ts_node_named_child(decorated, i);
        if (kind_of(d) != K_decorator) continue;
        TSNode e = ts_node_named_child(d, 0);
        bool called = !absent(e) && kind_of(e) == K_call;
        const char *name = chain(w, called ? field(e, F_function) : e);
        *vec_push(&w->f->scopes.ptr[scope].decorators) = (struct py_decorator){
            span(d), name ? name : "", called, called ? span(field(e, F_arguments)) : (struct py_span){0}};
    }
}

static void visit_function(struct walk *w, TSNode n, TSNode decorated)
{
    TSNode name = field(n, F_name), params = field(n, F_parameters), body = field(n, F_body);
    if (absent(name) || absent(body)) {
        visit_children(w, n);
        return;
    }
    const char *text = text_of(w->f, name);
    visit_param_values(w, params);
    uint32_t scope = open_scope(w, PY_FUNCTION, absent(decorated) ? n : decorated, text);
    w->f->scopes.ptr[scope].body = span(body);
    w->f->scopes.ptr[scope].is_async = !strncmp(w->f->text + ts_node_start_byte(n), "async", 5);
    add_decorators(w, scope, decorated);
    bind_name(w, PYB_FUNCTION, text, NULL, span(n))->inner = scope;
    in_scope(w, scope, params, body);
}

static void visit_class(struct walk *w, TSNode n, TSNode decorated)
{
    TSNode name = field(n, F_name), bases = field(n, F_superclasses), body = field(n, F_body);
    if (absent(name) || absent(body)) {
        visit_children(w, n);
        return;
    }
    const char *text = text_of(w->f, name);
    if (!absent(bases)) visit_children(w, bases);
    uint32_t scope = open_scope(w, PY_CLASS, absent(decorated) ? n : decorated, text);
    w->f->scopes.ptr[scope].body = span(body);
    for (uint32_t i = 0, c = absent(bases) ? 0 : ts_node_named_child_count(bases); i < c; i++) {
        TSNode base = ts_node_named_child(bases, i);
        if (kind_of(base) == K_keyword_argument) continue;
        const char *dotted = chain(w, base);
        *vec_push(&w->f->scopes.ptr[scope].bases) = dotted ? dotted : "";
    }
    add_decorators(w, scope, decorated);
    bind_name(w, PYB_CLASS, text, NULL, span(n))->inner = scope;
    in_scope(w, scope, (TSNode){0}, body);
}

static void visit_decorated(struct walk *w, TSNode n)
{
    TSNode definition = field(n, F_definition);
    visit_children_but(w, n, definition);
    if (absent(definition)) return;
    if (kind_of(definition) == K_class_definition)
        visit_class(w, definition, n);
    else
        visit_function(w, definition, n);
}

static uint32_t visit_lambda(struct walk *w, TSNode n)
{
    TSNode params = field(n, F_parameters), body = field(n, F_body);
    visit_param_values(w, params);
    uint32_t scope = open_scope(w, PY_LAMBDA, n, "");
    in_scope(w, scope, params, body);
    return add_expr(w, PYE_LAMBDA, scope, 0);
}

static void visit_comprehension(struct walk *w, TSNode n)
{
    uint32_t scope = open_scope(w, PY_COMPREHENSION, n, "");
    uint32_t outer = w->scope;
    w->scope = scope;
    visit_children(w, n);
    w->scope = outer;
}

static void add_import(struct walk *w, TSNode n, const char *module)
{
    *vec_push(&w->f->imports) = (struct py_import){span(n), module, w->scope};
}

static void visit_import(struct walk *w, TSNode n)
{
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++) {
        TSNode item = ts_node_named_child(n, i), alias = field(item, F_alias);
        const char *module = chain(w, absent(alias) ? item : field(item, F_name));
        if (!module) continue;
        add_import(w, n, module);
        const char *top = py_intern(w->f, module, strcspn(module, "."));
        if (absent(alias))
            bind_name(w, PYB_IMPORT, top, top, span(n));
        else
            bind_name(w, PYB_IMPORT, text_of(w->f, alias), module, span(n));
    }
}

static void visit_from(struct walk *w, TSNode n)
{
    TSNode from = field(n, F_module_name);
    if (absent(from)) return;
    const char *module = kind_of(from) == K_relative_import ? text_of(w->f, from) : chain(w, from);
    if (!module) return;
    add_import(w, n, module);
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++) {
        TSNode item = ts_node_named_child(n, i), alias = field(item, F_alias);
        if (ts_node_eq(item, from)) continue;
        if (kind_of(item) == K_wildcard_import) {
            bind_name(w, PYB_STAR, "*", module, span(n));
            continue;
        }
        const char *name = chain(w, absent(alias) ? item : field(item, F_name));
        if (!name) continue;
        buf_clear(&w->scratch);
        buf_addf(&w->scratch, "%s.%s", module, name);
        const char *target = py_intern(w->f, buf_str(&w->scratch), w->scratch.len);
        bind_name(w, PYB_FROM, absent(alias) ? name : text_of(w->f, alias), target, span(n));
    }
}

static uint32_t visit_assignment(struct walk *w, TSNode n)
{
    TSNode left = field(n, F_left), right = field(n, F_right);
    visit(w, field(n, F_type));
    uint32_t value = visit(w, right);
    if (absent(left) || kind_of(left) != K_identifier) {
        bind_pattern(w, left, value);
        return value;
    }
    if (absent(right)) return 0; /* a bare annotation binds nothing */
    enum py_binding_kind kind = PYB_ALIAS;
    const char *target = chain(w, right);
    if (!target) {
        bool call = kind_of(right) == K_call;
        target = call ? chain(w, field(right, F_function)) : NULL;
        kind = target ? PYB_INSTANCE : PYB_OTHER;
    }
    bind_name(w, kind, text_of(w->f, left), target, span(n))->value = value;
    return value;
}

/* Index of the new reference, UINT32_MAX when n names nothing. */
static uint32_t add_ref(struct walk *w, TSNode n, TSNode call)
{
    const char *text = chain(w, n);
    if (!text) {
        buf_clear(&w->scratch);
        buf_adds(&w->scratch, "?.");
        if (!chain_text(w->f, field(n, F_attribute), &w->scratch)) return UINT32_MAX;
        text = py_intern(w->f, buf_str(&w->scratch), w->scratch.len);
    }
    uint32_t index = (uint32_t)w->f->refs.len;
    struct py_ref *r = vec_push(&w->f->refs);
    r->chain = text;
    r->scope = w->scope;
    r->at = span(n);
    r->statement = w->statement;
    r->call = !absent(call);
    if (r->call) r->args = span(field(call, F_arguments));
    return index;
}

/* The innermost object of a chain of attributes, and the attribute taken of it. */
static TSNode chain_root(TSNode n, TSNode *first)
{
    *first = n;
    while (!absent(n) && kind_of(n) == K_attribute) {
        *first = n;
        n = field(n, F_object);
    }
    return n;
}

/* of(...).a.b: a's own reference when it is not the whole, so that every attribute is seen once. */
static uint32_t visit_attribute(struct walk *w, TSNode n, TSNode call)
{
    uint32_t index = add_ref(w, n, call);
    TSNode first, root = chain_root(n, &first);
    if (absent(root)) return index;
    if (kind_of(root) == K_identifier) {
        w->too_deep |= index != UINT32_MAX && w->f->refs.ptr[index].chain[0] == '?';
        return index;
    }
    /* ?.b: the chain stopped at an expression, which may hold references of its own */
    TSNode object = field(n, F_object);
    uint32_t base = 0;
    if (ts_node_eq(object, root)) {
        base = visit(w, root);
    } else if (++w->depth < PY_MAX_DEPTH) {
        uint32_t inner = visit_attribute(w, object, (TSNode){0});
        base = inner == UINT32_MAX ? 0 : add_expr(w, PYE_REF, inner, 0);
    } else {
        w->too_deep = true;
    }
    if (!ts_node_eq(object, root)) w->depth--;
    if (index != UINT32_MAX) w->f->refs.ptr[index].base = base;
    return index;
}

static void visit_argument(struct walk *w, TSNode a)
{
    enum kind k = kind_of(a);
    struct py_argument arg = {"", 0};
    if (k == K_keyword_argument) {
        TSNode name = field(a, F_name);
        if (!absent(name)) arg.keyword = text_of(w->f, name);
        arg.value = visit(w, field(a, F_value));
    } else if (k == K_list_splat || k == K_dictionary_splat) {
        arg.keyword = "*";
        visit(w, a);
    } else {
        arg.value = visit(w, a);
    }
    *vec_push(&w->pending) = arg;
}

/* Arguments of one call stand together: nested calls put theirs first. */
static void visit_arguments(struct walk *w, TSNode list, uint32_t ref)
{
    if (absent(list)) return;
    if (kind_of(list) != K_argument_list) {
        visit(w, list); /* f(x for x in y) */
        return;
    }
    size_t mark = w->pending.len, mine = cursor_at(w, list);
    if (ts_tree_cursor_goto_first_child(&w->cursors.ptr[mine])) {
        do {
            TSNode child = ts_tree_cursor_current_node(&w->cursors.ptr[mine]);
            if (ts_node_is_named(child)) visit_argument(w, child);
        } while (ts_tree_cursor_goto_next_sibling(&w->cursors.ptr[mine]));
    }
    w->cursors_used--;
    uint32_t first = (uint32_t)w->f->arguments.len;
    for (size_t i = mark; i < w->pending.len; i++) *vec_push(&w->f->arguments) = w->pending.ptr[i];
    if (ref != UINT32_MAX) {
        w->f->refs.ptr[ref].arg = first;
        w->f->refs.ptr[ref].nargs = (uint32_t)(w->pending.len - mark);
    }
    w->pending.len = mark;
}

static uint32_t visit_call(struct walk *w, TSNode n)
{
    TSNode function = field(n, F_function);
    enum kind k = absent(function) ? K_other : kind_of(function);
    uint32_t ref = UINT32_MAX, callee = 0;
    if (k == K_attribute)
        ref = visit_attribute(w, function, n);
    else if (k == K_identifier)
        ref = add_ref(w, function, n);
    else
        callee = visit(w, function);
    visit_arguments(w, field(n, F_arguments), ref);
    return add_expr(w, PYE_CALL, ref, callee);
}

/* The operator's text, "u" before unary ones: "" when there is none. */
static const char *operator_text(struct walk *w, TSNode n, const char *prefix)
{
    TSNode op = field(n, F_operator);
    for (uint32_t i = 0, c = ts_node_child_count(n); i < c && absent(op); i++) {
        TSNode child = ts_node_child(n, i);
        if (!ts_node_is_named(child)) op = child;
    }
    if (absent(op)) return "";
    buf_clear(&w->scratch);
    buf_adds(&w->scratch, prefix);
    buf_add(&w->scratch, w->f->text + ts_node_start_byte(op), ts_node_end_byte(op) - ts_node_start_byte(op));
    return py_intern(w->f, buf_str(&w->scratch), w->scratch.len);
}

/* Operators stand in source order, so one is entered before its operands are read. UINT32_MAX: no text. */
static uint32_t add_operator(struct walk *w, TSNode n, const char *text)
{
    if (!*text) return UINT32_MAX;
    *vec_push(&w->f->operators) = (struct py_operator){text, w->scope, span(n), 0, 0};
    return (uint32_t)w->f->operators.len - 1;
}

static void set_operands(struct walk *w, uint32_t operator_, uint32_t left, uint32_t right)
{
    if (operator_ == UINT32_MAX) return;
    w->f->operators.ptr[operator_].left = left;
    w->f->operators.ptr[operator_].right = right;
}

/* a < b < c has three operands and two operators; the first pair stands for all. */
static uint32_t visit_binary(struct walk *w, TSNode n)
{
    const char *text = operator_text(w, n, "");
    uint32_t operand[2] = {0, 0}, index = add_operator(w, n, text);
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++) {
        uint32_t value = visit(w, ts_node_named_child(n, i));
        if (i < 2) operand[i] = value;
    }
    set_operands(w, index, operand[0], operand[1]);
    bool truth = text[0] == 'i' || text[0] == 'n'; /* in, is, not in */
    return truth ? add_expr(w, PYE_BOOL, 0, 0) : add_expr(w, PYE_OPERATOR, operand[0], operand[1]);
}

static uint32_t visit_unary(struct walk *w, TSNode n)
{
    uint32_t index = add_operator(w, n, operator_text(w, n, "u"));
    uint32_t operand = ts_node_named_child_count(n) ? visit(w, ts_node_named_child(n, 0)) : 0;
    set_operands(w, index, operand, 0);
    return add_expr(w, PYE_UNARY, operand, 0);
}

static uint32_t visit_augmented(struct walk *w, TSNode n)
{
    TSNode left = field(n, F_left);
    bool name = !absent(left) && kind_of(left) == K_identifier;
    uint32_t index = add_operator(w, n, operator_text(w, n, ""));
    uint32_t ref = name ? add_ref(w, left, (TSNode){0}) : UINT32_MAX;
    uint32_t a = name ? add_expr(w, PYE_REF, ref, 0) : visit(w, left);
    uint32_t b = visit(w, field(n, F_right));
    set_operands(w, index, a, b);
    uint32_t value = add_expr(w, PYE_OPERATOR, a, b);
    if (name) bind_pattern(w, left, value);
    return value;
}

/* Lists and tuples keep their elements' expressions. */
static uint32_t visit_elements(struct walk *w, TSNode n, enum py_expr_kind kind)
{
    size_t mark = w->elements.len, mine = cursor_at(w, n);
    if (ts_tree_cursor_goto_first_child(&w->cursors.ptr[mine])) {
        do {
            TSNode child = ts_tree_cursor_current_node(&w->cursors.ptr[mine]);
            if (!ts_node_is_named(child)) continue;
            uint32_t value = visit(w, child);
            *vec_push(&w->elements) = value;
        } while (ts_tree_cursor_goto_next_sibling(&w->cursors.ptr[mine]));
    }
    w->cursors_used--;
    uint32_t first = (uint32_t)w->f->items.len, count = (uint32_t)(w->elements.len - mark);
    for (size_t i = mark; i < w->elements.len; i++) *vec_push(&w->f->items) = w->elements.ptr[i];
    w->elements.len = mark;
    return add_expr(w, kind, first, count);
}

static uint32_t visit_literal(struct walk *w, TSNode n, enum py_expr_kind kind)
{
    visit_children(w, n);
    return add_expr(w, kind, 0, 0);
}

/* The named children's expressions; those at `a` and `b` may be the value. */
static uint32_t visit_either(struct walk *w, TSNode n, uint32_t a, uint32_t b)
{
    uint32_t operand[2] = {0, 0};
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++) {
        uint32_t value = visit(w, ts_node_named_child(n, i));
        if (i == a) operand[0] = value;
        if (i == b) operand[1] = value;
    }
    return add_expr(w, PYE_EITHER, operand[0], operand[1]);
}

static uint32_t visit_subscript(struct walk *w, TSNode n)
{
    TSNode object = field(n, F_value);
    uint32_t value = visit(w, object);
    visit_children_but(w, n, object);
    return add_expr(w, PYE_SUBSCRIPT, value, 0);
}

/* The last child's expression: for what wraps exactly one. */
static uint32_t visit_wrapped(struct walk *w, TSNode n)
{
    uint32_t value = 0;
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++)
        value = visit(w, ts_node_named_child(n, i));
    return value;
}

static uint32_t visit_return(struct walk *w, TSNode n)
{
    uint32_t value = visit_wrapped(w, n);
    *vec_push(&w->f->returns) = (struct py_return){w->scope, value};
    return 0;
}

static uint32_t visit_as(struct walk *w, TSNode n)
{
    TSNode target = field(n, F_alias);
    uint32_t value = ts_node_named_child_count(n) ? visit(w, ts_node_named_child(n, 0)) : 0;
    bind_pattern(w, target, value);
    return value;
}

/* for target in right: the target is some element of right. */
static void visit_loop(struct walk *w, TSNode n)
{
    TSNode left = field(n, F_left), right = field(n, F_right);
    bool statement = kind_of(n) == K_for_statement;
    w->conditional += statement;
    uint32_t value = visit(w, right);
    bind_pattern(w, left, value ? add_expr(w, PYE_SUBSCRIPT, value, 0) : 0);
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++) {
        TSNode child = ts_node_named_child(n, i);
        if (!ts_node_eq(child, left) && !ts_node_eq(child, right)) visit(w, child);
    }
    w->conditional -= statement;
}

static void visit_conditional(struct walk *w, TSNode n)
{
    w->conditional++;
    visit_children(w, n);
    w->conditional--;
}

static void visit_outer_declaration(struct walk *w, TSNode n)
{
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++) {
        const char *name = text_of(w->f, ts_node_named_child(n, i));
        bind_name(w, PYB_OUTER, name, NULL, span(n));
        if (kind_of(n) == K_global_statement) *vec_push(&w->globals) = (struct global_name){w->scope, name};
    }
}

static uint32_t visit_named(struct walk *w, TSNode n)
{
    uint32_t value = visit(w, field(n, F_value));
    bind_pattern(w, field(n, F_name), value);
    return value;
}

static uint32_t ref_expr(struct walk *w, uint32_t ref)
{
    return ref == UINT32_MAX ? 0 : add_expr(w, PYE_REF, ref, 0);
}

static uint32_t visit_statement(struct walk *w, TSNode n)
{
    switch (kind_of(n)) {
    case K_class_definition:
        visit_class(w, n, (TSNode){0});
        return 0;
    case K_function_definition:
        visit_function(w, n, (TSNode){0});
        return 0;
    case K_decorated_definition:
        visit_decorated(w, n);
        return 0;
    case K_import_statement:
        visit_import(w, n);
        return 0;
    case K_import_from_statement:
        visit_from(w, n);
        return 0;
    case K_future_import_statement:
        return 0;
    case K_assignment:
        return visit_assignment(w, n);
    case K_augmented_assignment:
        return visit_augmented(w, n);
    case K_return_statement:
    case K_yield:
        return visit_return(w, n);
    case K_for_statement:
    case K_for_in_clause:
        visit_loop(w, n);
        return 0;
    case K_global_statement:
    case K_nonlocal_statement:
        visit_outer_declaration(w, n);
        return 0;
    case K_if_statement:
    case K_try_statement:
    case K_while_statement:
    case K_match_statement:
        visit_conditional(w, n);
        return 0;
    default:
        visit_children(w, n);
        return 0;
    }
}

static uint32_t visit_kind(struct walk *w, TSNode n)
{
    switch (kind_of(n)) {
    case K_lambda:
        return visit_lambda(w, n);
    case K_list_comprehension:
        visit_comprehension(w, n);
        return add_expr(w, PYE_LIST, 0, 0);
    case K_set_comprehension:
        visit_comprehension(w, n);
        return add_expr(w, PYE_SET, 0, 0);
    case K_dictionary_comprehension:
        visit_comprehension(w, n);
        return add_expr(w, PYE_DICT, 0, 0);
    case K_generator_expression:
        visit_comprehension(w, n);
        return 0;
    case K_named_expression:
        return visit_named(w, n);
    case K_as_pattern:
        return visit_as(w, n);
    case K_as_pattern_target:
        bind_pattern(w, n, 0);
        return 0;
    case K_call:
        return visit_call(w, n);
    case K_attribute:
        return ref_expr(w, visit_attribute(w, n, (TSNode){0}));
    case K_identifier:
        return ref_expr(w, add_ref(w, n, (TSNode){0}));
    case K_keyword_argument:
        return visit(w, field(n, F_value));
    case K_binary_operator:
    case K_comparison_operator:
        return visit_binary(w, n);
    case K_unary_operator:
        return visit_unary(w, n);
    case K_not_operator:
        return visit_literal(w, n, PYE_BOOL);
    case K_boolean_operator:
        return visit_either(w, n, 0, 1);
    case K_conditional_expression:
        return visit_either(w, n, 0, 2);
    case K_subscript:
        return visit_subscript(w, n);
    case K_string:
    case K_concatenated_string:
        return visit_literal(w, n, PYE_STR);
    case K_integer:
    case K_float:
        return add_expr(w, PYE_NUMBER, 0, 0);
    case K_true:
    case K_false:
        return add_expr(w, PYE_BOOL, 0, 0);
    case K_none:
        return add_expr(w, PYE_NONE, 0, 0);
    case K_list:
        return visit_elements(w, n, PYE_LIST);
    case K_tuple:
    case K_expression_list:
        return visit_elements(w, n, PYE_TUPLE);
    case K_dictionary:
        return visit_literal(w, n, PYE_DICT);
    case K_set:
        return visit_literal(w, n, PYE_SET);
    case K_parenthesized_expression:
    case K_await:
        return visit_wrapped(w, n);
    default:
        return visit_statement(w, n);
    }
}

static bool is_simple_statement(enum kind k)
{
    return k == K_expression_statement || k == K_return_statement || k == K_assert_statement ||
           k == K_raise_statement || k == K_delete_statement || k == K_import_statement ||
           k == K_import_from_statement;
}

static uint32_t visit(struct walk *w, TSNode n)
{
    if (absent(n)) return 0;
    if (w->depth >= PY_MAX_DEPTH) {
        w->too_deep = true;
        return 0;
    }
    w->depth++;
    struct py_span outer = w->statement;
    if (is_simple_statement(kind_of(n))) w->statement = span(n);
    uint32_t value = visit_kind(w, n);
    w->statement = outer;
    w->depth--;
    return value;
}

/* ---- entry points ------------------------------------------------------------------------------------ */

static bool valid_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i++];
        int more = c < 0x80                ? 0
                   : c >= 0xC2 && c < 0xE0 ? 1
                   : c >= 0xE0 && c < 0xF0 ? 2
                   : c >= 0xF0 && c < 0xF5 ? 3
                                           : -1;
        if (more < 0) return false;
        for (; more > 0; more--, i++)
            if (i == n || ((unsigned char)s[i] & 0xC0) != 0x80) return false;
    }
    return true;
}

static uint32_t first_error_row(TSNode n)
{
    while (!ts_node_is_error(n) && !ts_node_is_missing(n)) {
        uint32_t i = 0, c = ts_node_child_count(n);
        while (i < c && !ts_node_has_error(ts_node_child(n, i)) && !ts_node_is_missing(ts_node_child(n, i)))
            i++;
        if (i == c) break;
        n = ts_node_child(n, i);
    }
    return ts_node_start_point(n).row + 1;
}

static pthread_key_t parser_key;

static void delete_parser(void *parser)
{
    ts_parser_delete(parser);
}

static void set_up(void)
{
    find_symbols();
    if (pthread_key_create(&parser_key, delete_parser)) die("no thread-local storage left");
}

/* One parser a thread: its stacks and pools serve file after file. */
static TSParser *thread_parser(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    TSParser *parser = pthread_getspecific(parser_key);
    if (parser) return parser;
    parser = ts_parser_new();
    if (!ts_parser_set_language(parser, tree_sitter_python()))
        die("the Python grammar does not fit tree-sitter");
    pthread_setspecific(parser_key, parser);
    return parser;
}

static TSTree *parse_text(const char *text, uint32_t len)
{
    return ts_parser_parse_string(thread_parser(), NULL, text, len);
}

uint32_t py_syntax_error_row(const char *text, size_t len)
{
    TSTree *tree = parse_text(text, (uint32_t)len);
    TSNode root = ts_tree_root_node(tree);
    uint32_t row = ts_node_has_error(root) ? first_error_row(root) : 0;
    ts_tree_delete(tree);
    return row;
}

static void note_oddities(struct py_file *f, TSNode root)
{
    if (ts_node_has_error(root)) {
        f->error_row = first_error_row(root);
        char *note = xformat("syntax error in row %u: read as far as possible", f->error_row);
        f->note = py_intern(f, note, strlen(note));
        free(note);
    }
    if (!valid_utf8(f->text, f->len)) f->note = "not UTF-8: names outside ASCII may be misread";
}

static uint32_t newlines(const char *text, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (const char *p = text + from; (p = memchr(p, '\n', (size_t)(text + to - p))); p++) n++;
    return n;
}

static uint32_t column(const char *text, uint32_t at)
{
    const char *line = memrchr(text, '\n', at);
    return line ? (uint32_t)(text + at - line - 1) : at;
}

/* The parser takes ranges that it does look at, with their rows and columns. */
static void include_between(TSParser *parser, const char *text, uint32_t len, const struct py_span *skips,
                            size_t n)
{
    TSRange *ranges = xcalloc(n + 1, sizeof *ranges);
    uint32_t row = 0, at = 0;
    for (size_t i = 0; i <= n; i++) {
        uint32_t end = i < n ? skips[i].start : len;
        TSRange *r = &ranges[i];
        r->start_byte = at;
        r->start_point = (TSPoint){row, column(text, at)};
        row += newlines(text, at, end);
        r->end_byte = end;
        r->end_point = (TSPoint){row, column(text, end)};
        if (i < n) row += newlines(text, end, skips[i].end);
        at = i < n ? skips[i].end : end;
    }
    ts_parser_set_included_ranges(parser, ranges, (uint32_t)n + 1);
    free(ranges);
}

struct py_file *py_parse(const char *path, const char *text, size_t len)
{
    return py_parse_without(path, text, len, NULL, 0);
}

struct py_file *py_parse_without(const char *path, const char *text, size_t len, const struct py_span *skips,
                                 size_t nskips)
{
    struct py_file *f = xcalloc(1, sizeof *f);
    f->priv = xcalloc(1, sizeof *f->priv);
    f->path = py_intern(f, path, strlen(path));
    f->text = py_intern(f, text, len);
    f->len = (uint32_t)len;
    if (nskips) include_between(thread_parser(), f->text, f->len, skips, nskips);
    TSTree *tree = parse_text(f->text, f->len);
    if (nskips) ts_parser_set_included_ranges(thread_parser(), NULL, 0);
    TSNode root = ts_tree_root_node(tree);
    note_oddities(f, root);
    struct walk w = {.f = f};
    add_expr(&w, PYE_UNKNOWN, 0, 0);
    open_scope(&w, PY_MODULE, root, "");
    f->scopes.ptr[0].at = f->scopes.ptr[0].body = (struct py_span){0, f->len, 1};
    visit_children(&w, root);
    if (w.too_deep) f->note = "nested too deeply in places: those were not read";
    buf_free(&w.scratch);
    vec_free(&w.pending);
    vec_free(&w.elements);
    vec_free(&w.globals);
    for (size_t i = 0; i < w.cursors.len; i++) ts_tree_cursor_delete(&w.cursors.ptr[i]);
    vec_free(&w.cursors);
    ts_tree_delete(tree);
    py_index_bindings(f);
    return f;
}

int py_parse_file(const char *path, struct py_file **out, struct err *e)
{
    struct buf b = BUF_INIT;
    if (file_read(path, &b, e)) return -1;
    *out = py_parse(path, buf_str(&b), b.len);
    buf_free(&b);
    return 0;
}

void py_free(struct py_file *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->scopes.len; i++) {
        vec_free(&f->scopes.ptr[i].decorators);
        vec_free(&f->scopes.ptr[i].bases);
        vec_free(&f->scopes.ptr[i].params);
    }
    for (size_t i = 0; i < f->priv->chunks.len; i++) free(f->priv->chunks.ptr[i]);
    vec_free(&f->priv->chunks);
    free(f->priv->first);
    free(f->priv->next);
    free(f->priv);
    vec_free(&f->scopes);
    vec_free(&f->bindings);
    vec_free(&f->refs);
    vec_free(&f->operators);
    vec_free(&f->imports);
    vec_free(&f->exprs);
    vec_free(&f->arguments);
    vec_free(&f->returns);
    vec_free(&f->attributes);
    vec_free(&f->items);
    free(f);
}
