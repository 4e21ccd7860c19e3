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
    X(default_parameter) X(typed_parameter) X(typed_default_parameter)
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
    X(module_name) X(alias) X(operator) X(definition)
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
static bool chain_text(struct py_file *f, TSNode n, struct buf *out)
{
    if (absent(n)) return false;
    enum kind k = kind_of(n);
    if (k == K_identifier || k == K_dotted_name) {
        const char *s = f->text + ts_node_start_byte(n), *end = f->text + ts_node_end_byte(n);
        for (; s < end; s++)
            if (!strchr(" \t\\\r\n", *s)) buf_addc(out, *s);
        return true;
    }
    if (k != K_attribute || !chain_text(f, field(n, F_object), out)) return false;
    buf_addc(out, '.');
    return chain_text(f, field(n, F_attribute), out);
}

/* ---- the walk ---------------------------------------------------------------------------------------- */

struct walk {
    struct py_file *f;
    struct buf scratch;
    uint32_t scope;
    struct py_span statement;
    int conditional;
};

static void visit(struct walk *w, TSNode n);

/* Visits the named children but the one that is `except` (a null node for none). */
static void visit_children_but(struct walk *w, TSNode n, TSNode except)
{
    if (!ts_node_named_child_count(n)) return;
    TSTreeCursor cursor = ts_tree_cursor_new(n);
    if (ts_tree_cursor_goto_first_child(&cursor)) {
        do {
            TSNode child = ts_tree_cursor_current_node(&cursor);
            if (ts_node_is_named(child) && (absent(except) || !ts_node_eq(child, except))) visit(w, child);
        } while (ts_tree_cursor_goto_next_sibling(&cursor));
    }
    ts_tree_cursor_delete(&cursor);
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

static struct py_binding *bind_name(struct walk *w, enum py_binding_kind kind, const char *name,
                                    const char *target, struct py_span at)
{
    struct py_binding *b = vec_push(&w->f->bindings);
    *b = (struct py_binding){name, target, kind, w->scope, 0, at, w->conditional > 0};
    return b;
}

/* Binds every plain name of an assignment target or a loop variable. */
static void bind_pattern(struct walk *w, TSNode n)
{
    if (absent(n)) return;
    switch (kind_of(n)) {
    case K_identifier:
        bind_name(w, PYB_OTHER, text_of(w->f, n), NULL, span(n));
        return;
    case K_pattern_list:
    case K_tuple_pattern:
    case K_list_pattern:
    case K_list_splat_pattern:
    case K_as_pattern_target:
        for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++)
            bind_pattern(w, ts_node_named_child(n, i));
        return;
    default:
        visit(w, n); /* x.attr = ..., x[i] = ...: uses, not bindings */
    }
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

static void read_params(struct walk *w, uint32_t scope, TSNode list)
{
    for (uint32_t i = 0, c = absent(list) ? 0 : ts_node_named_child_count(list); i < c; i++) {
        TSNode p = ts_node_named_child(list, i), name = param_name(p);
        if (absent(name) || kind_of(name) != K_identifier) continue;
        const char *text = text_of(w->f, name);
        *vec_push(&w->f->scopes.ptr[scope].params) = text;
        bind_name(w, PYB_PARAM, text, NULL, span(p));
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
        *vec_push(&w->f->scopes.ptr[scope].decorators) =
            (struct py_decorator){span(d), name ? name : "", called};
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

static void visit_lambda(struct walk *w, TSNode n)
{
    TSNode params = field(n, F_parameters), body = field(n, F_body);
    visit_param_values(w, params);
    uint32_t scope = open_scope(w, PY_LAMBDA, n, "");
    in_scope(w, scope, params, body);
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

static void visit_assignment(struct walk *w, TSNode n)
{
    TSNode left = field(n, F_left), right = field(n, F_right);
    visit(w, right);
    if (absent(left) || kind_of(left) != K_identifier) {
        bind_pattern(w, left);
        return;
    }
    if (absent(right)) return; /* a bare annotation binds nothing */
    enum py_binding_kind kind = PYB_ALIAS;
    const char *target = chain(w, right);
    if (!target) {
        bool call = kind_of(right) == K_call;
        target = call ? chain(w, field(right, F_function)) : NULL;
        kind = target ? PYB_INSTANCE : PYB_OTHER;
    }
    bind_name(w, kind, text_of(w->f, left), target, span(n));
}

static void add_ref(struct walk *w, TSNode n, TSNode call)
{
    const char *text = chain(w, n);
    if (!text) {
        buf_clear(&w->scratch);
        buf_adds(&w->scratch, "?.");
        if (!chain_text(w->f, field(n, F_attribute), &w->scratch)) return;
        text = py_intern(w->f, buf_str(&w->scratch), w->scratch.len);
    }
    struct py_ref *r = vec_push(&w->f->refs);
    r->chain = text;
    r->scope = w->scope;
    r->at = span(n);
    r->statement = w->statement;
    r->call = !absent(call);
    if (r->call) r->args = span(field(call, F_arguments));
}

static void visit_attribute(struct walk *w, TSNode n, TSNode call)
{
    add_ref(w, n, call);
    TSNode root = n;
    while (!absent(root) && kind_of(root) == K_attribute) root = field(root, F_object);
    if (!absent(root) && kind_of(root) != K_identifier) {
        /* ?.a.b: the chain stopped at an expression, which may hold references of its own */
        visit(w, root);
    }
}

static void visit_call(struct walk *w, TSNode n)
{
    TSNode function = field(n, F_function);
    enum kind k = absent(function) ? K_other : kind_of(function);
    if (k == K_attribute)
        visit_attribute(w, function, n);
    else if (k == K_identifier)
        add_ref(w, function, n);
    else
        visit(w, function);
    visit(w, field(n, F_arguments));
}

static void add_operator(struct walk *w, TSNode n, const char *prefix)
{
    TSNode op = field(n, F_operator);
    for (uint32_t i = 0, c = ts_node_child_count(n); i < c && absent(op); i++) {
        TSNode child = ts_node_child(n, i);
        if (!ts_node_is_named(child)) op = child;
    }
    if (absent(op)) return;
    buf_clear(&w->scratch);
    buf_adds(&w->scratch, prefix);
    buf_add(&w->scratch, w->f->text + ts_node_start_byte(op), ts_node_end_byte(op) - ts_node_start_byte(op));
    const char *text = py_intern(w->f, buf_str(&w->scratch), w->scratch.len);
    *vec_push(&w->f->operators) = (struct py_operator){text, w->scope, span(n)};
}

static void visit_conditional(struct walk *w, TSNode n, TSNode target)
{
    w->conditional++;
    bind_pattern(w, target);
    visit_children_but(w, n, target);
    w->conditional--;
}

static void visit_outer_declaration(struct walk *w, TSNode n)
{
    for (uint32_t i = 0, c = ts_node_named_child_count(n); i < c; i++)
        bind_name(w, PYB_OUTER, text_of(w->f, ts_node_named_child(n, i)), NULL, span(n));
}

static void visit_kind(struct walk *w, TSNode n)
{
    switch (kind_of(n)) {
    case K_class_definition:
        visit_class(w, n, (TSNode){0});
        break;
    case K_function_definition:
        visit_function(w, n, (TSNode){0});
        break;
    case K_decorated_definition:
        visit_decorated(w, n);
        break;
    case K_lambda:
        visit_lambda(w, n);
        break;
    case K_list_comprehension:
    case K_set_comprehension:
    case K_dictionary_comprehension:
    case K_generator_expression:
        visit_comprehension(w, n);
        break;
    case K_import_statement:
        visit_import(w, n);
        break;
    case K_import_from_statement:
        visit_from(w, n);
        break;
    case K_future_import_statement:
        break;
    case K_assignment:
        visit_assignment(w, n);
        break;
    case K_augmented_assignment:
        add_operator(w, n, "");
        bind_pattern(w, field(n, F_left));
        visit(w, field(n, F_right));
        break;
    case K_named_expression:
        bind_pattern(w, field(n, F_name));
        visit_children_but(w, n, field(n, F_name));
        break;
    case K_for_statement:
        visit_conditional(w, n, field(n, F_left));
        break;
    case K_for_in_clause:
        bind_pattern(w, field(n, F_left));
        visit_children_but(w, n, field(n, F_left));
        break;
    case K_as_pattern_target:
        bind_pattern(w, n);
        break;
    case K_global_statement:
    case K_nonlocal_statement:
        visit_outer_declaration(w, n);
        break;
    case K_if_statement:
    case K_try_statement:
    case K_while_statement:
    case K_match_statement:
        visit_conditional(w, n, (TSNode){0});
        break;
    case K_call:
        visit_call(w, n);
        break;
    case K_attribute:
        visit_attribute(w, n, (TSNode){0});
        break;
    case K_identifier:
        add_ref(w, n, (TSNode){0});
        break;
    case K_keyword_argument:
        visit_children_but(w, n, field(n, F_name));
        break;
    case K_binary_operator:
    case K_comparison_operator:
        add_operator(w, n, "");
        visit_children(w, n);
        break;
    case K_unary_operator:
        add_operator(w, n, "u");
        visit_children(w, n);
        break;
    default:
        visit_children(w, n);
    }
}

static bool is_simple_statement(enum kind k)
{
    return k == K_expression_statement || k == K_return_statement || k == K_assert_statement ||
           k == K_raise_statement || k == K_delete_statement || k == K_import_statement ||
           k == K_import_from_statement;
}

static void visit(struct walk *w, TSNode n)
{
    if (absent(n)) return;
    struct py_span outer = w->statement;
    if (is_simple_statement(kind_of(n))) w->statement = span(n);
    visit_kind(w, n);
    w->statement = outer;
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

static TSTree *parse_text(const char *text, uint32_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_symbols);
    TSParser *parser = ts_parser_new();
    if (!ts_parser_set_language(parser, tree_sitter_python()))
        die("the Python grammar does not fit tree-sitter");
    TSTree *tree = ts_parser_parse_string(parser, NULL, text, len);
    ts_parser_delete(parser);
    return tree;
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

struct py_file *py_parse(const char *path, const char *text, size_t len)
{
    struct py_file *f = xcalloc(1, sizeof *f);
    f->priv = xcalloc(1, sizeof *f->priv);
    f->path = py_intern(f, path, strlen(path));
    f->text = py_intern(f, text, len);
    f->len = (uint32_t)len;
    TSTree *tree = parse_text(f->text, f->len);
    TSNode root = ts_tree_root_node(tree);
    note_oddities(f, root);
    struct walk w = {.f = f};
    open_scope(&w, PY_MODULE, root, "");
    f->scopes.ptr[0].at = f->scopes.ptr[0].body = (struct py_span){0, f->len, 1};
    visit_children(&w, root);
    buf_free(&w.scratch);
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
    free(f);
}
