/* pysrc.h - the source model of one Python file: scopes, bindings, references, and what a name at a place
 * refers to.
 *
 * Built in one walk over a tree-sitter tree. All strings and arrays belong to the file and live until
 * py_free. Places are byte offsets into text; rows count from 1. Resolution never guesses: a name resolves to
 * one dotted name that every binding it may have agrees on, or to nothing.
 */
#ifndef CONCORD_PYSRC_H
#define CONCORD_PYSRC_H

#include "concord/base/base.h"

enum { PY_MAX_DEPTH = 800 }; /* expressions nested deeper are not read; the file's note says so */

enum py_scope_kind { PY_MODULE, PY_CLASS, PY_FUNCTION, PY_LAMBDA, PY_COMPREHENSION };

struct py_span {
    uint32_t start, end; /* bytes, end exclusive */
    uint32_t row;        /* of start */
};

struct py_decorator {
    struct py_span at; /* from the @ */
    const char *name;  /* dotted text without arguments: "unittest.skipIf"; "" if it is not a plain chain */
    bool called;
    struct py_span args; /* the argument list with its parentheses when called */
};

/* A scope; index 0 is the module. A decorated definition's span begins at its first decorator. */
struct py_scope {
    enum py_scope_kind kind;
    uint32_t parent; /* index; the module is its own parent */
    struct py_span at;
    struct py_span body;
    const char *name;     /* "" for lambdas and comprehensions */
    const char *qualname; /* "TestX.test_y"; "" for the module */
    bool is_async;
    VEC(struct py_decorator) decorators;
    VEC(const char *) bases;  /* classes: dotted text of plain bases, "" for others */
    VEC(const char *) params; /* functions, in order, without stars */
};

enum py_binding_kind {
    PYB_IMPORT,   /* import a.b as c: name c, target "a.b"; import a.b: name a, target "a" */
    PYB_FROM,     /* from m import x as y: name y, target "m.x" (relative dots kept) */
    PYB_STAR,     /* from m import *: name "*", target "m" */
    PYB_ALIAS,    /* y = a.b.c: target "a.b.c", to be resolved where it stands */
    PYB_FUNCTION, /* def */
    PYB_CLASS,    /* class */
    PYB_PARAM,
    PYB_INSTANCE, /* y = a.b.C(...): target "a.b.C", the callee's chain */
    PYB_OTHER,    /* any other assignment, loop variable, with, except, walrus */
    PYB_OUTER,    /* global or nonlocal declaration */
};
struct py_binding {
    const char *name,
        *target; /* target NULL where the kind has none; of a parameter its annotation's chain */
    enum py_binding_kind kind;
    uint32_t scope;    /* the scope that owns the name */
    uint32_t inner;    /* PYB_FUNCTION, PYB_CLASS: the scope it opens */
    struct py_span at; /* of the whole statement */
    bool conditional;  /* inside if, try, loop */
    uint32_t value;    /* expression it is given, 0 if unknown */
};

/* What an expression is made of, as far as the type of its value may be told. Index 0 is the unknown one. */
enum py_expr_kind {
    PYE_UNKNOWN,
    PYE_REF,  /* a: index of the reference */
    PYE_CALL, /* a: index of the callee's reference; UINT32_MAX when the callee is an expression, then b */
    PYE_STR,
    PYE_NUMBER,
    PYE_BOOL,
    PYE_NONE,
    PYE_LIST,
    PYE_DICT,
    PYE_SET,
    PYE_TUPLE, /* a: first in items, b: how many */
    PYE_LAMBDA,
    PYE_OPERATOR,  /* a, b: operands; also comparisons */
    PYE_UNARY,     /* a */
    PYE_EITHER,    /* a, b: x if c else y, x or y */
    PYE_SUBSCRIPT, /* a: what is indexed */
};
struct py_expr {
    enum py_expr_kind kind;
    uint32_t a, b;
};
struct py_argument {
    const char *keyword; /* "" if positional, "*" if unpacked */
    uint32_t value;      /* expression */
};
struct py_return { /* return and yield */
    uint32_t scope, value;
};
struct py_attribute { /* self.x = value */
    const char *chain;
    uint32_t scope, value;
    struct py_span at;
};

/* A maximal chain of names and attributes, or an attribute of any other expression. */
struct py_ref {
    const char *chain; /* "torch.utils.checkpoint.checkpoint", "x.add"; of an expression: "?.add" */
    uint32_t scope;
    struct py_span at;
    bool call;                /* it is called here */
    struct py_span args;      /* the argument list with its parentheses when called */
    struct py_span statement; /* the enclosing simple statement */
    uint32_t base;            /* "?.x": the expression that the attribute is taken of */
    uint32_t arg, nargs;      /* its arguments: arguments[arg .. arg + nargs) */
};

/* An operator applied to operands: a + b, a @ b, -a, a == b, a += b. */
struct py_operator {
    const char *op; /* "+", "u-", "+=" */
    uint32_t scope;
    struct py_span at;
    uint32_t left, right; /* expressions; right 0 for unary ones */
};

struct py_import { /* an import statement, for those that edit imports */
    struct py_span at;
    const char *module; /* "torch.testing._internal.common_utils" */
    uint32_t scope;
};

struct py_file {
    const char *path;
    const char *text; /* NUL-terminated copy; a UTF-8 byte order mark is kept and counted */
    uint32_t len;
    uint32_t error_row; /* 0, or the row of the first syntax error: the model holds what could be read */
    const char *note;   /* NULL, or why the file is odd: "not UTF-8", "syntax error in row 12" */
    VEC(struct py_scope) scopes;
    VEC(struct py_binding) bindings;
    VEC(struct py_ref) refs;
    VEC(struct py_operator) operators;
    VEC(struct py_import) imports;
    VEC(struct py_expr) exprs;
    VEC(struct py_argument) arguments;
    VEC(struct py_return) returns;
    VEC(struct py_attribute) attributes;
    VEC(uint32_t) items; /* of tuples: expressions */
    struct py_private *priv;
};

/* Reads the model of text (copied). Never fails on bad Python: see error_row and note. */
struct py_file *py_parse(const char *path, const char *text, size_t len);
/* As py_parse, but the bytes of the spans (in order, rows not needed) are not looked at: what is left must
 * make sense without them. Places are those of the whole text. */
struct py_file *py_parse_without(const char *path, const char *text, size_t len, const struct py_span *skips,
                                 size_t nskips);
/* From disk; -1 only if the file cannot be read. */
int py_parse_file(const char *path, struct py_file **out, struct err *e);
void py_free(struct py_file *f);

/* Full dotted name of a chain as seen from scope: "ckpt" -> "torch.utils.checkpoint.checkpoint" when that is
 * what every visible binding says. NULL when unknown (a parameter, a local value, bindings that disagree, a
 * star import). A name that no scope binds is taken for a builtin: "builtins.len". A name defined in this
 * file gives "." and its qualified name:
 * ".TestX.helper". The result lives as long as the file. */
const char *py_resolve(struct py_file *f, uint32_t scope, const char *chain);
/* The class whose instance a name holds, when all its bindings are instances of that class; NULL if unknown.
 */
const char *py_resolve_instance(struct py_file *f, uint32_t scope, const char *name);
/* The bindings of name (of n bytes) in exactly this scope, in source order: *at starts as 0; NULL at the end.
 */
const struct py_binding *py_next_binding(const struct py_file *f, uint32_t scope, const char *name, size_t n,
                                         uint32_t *at);
/* True if the file has a star import: a name that does not resolve may come from it. */
bool py_has_star(const struct py_file *f);
/* The innermost scope of kind at or above scope; UINT32_MAX if none. */
uint32_t py_enclosing(const struct py_file *f, uint32_t scope, enum py_scope_kind kind);
/* Index of the first scope with this qualified name; UINT32_MAX if none. */
uint32_t py_scope_named(const struct py_file *f, const char *qualname);
/* True for a function that a test runner would collect: test* in a class, or test_* at module level. */
bool py_is_test(const struct py_file *f, uint32_t scope);

/* ---- edits: byte ranges; every byte that is not edited stays as it was ------------------------------- */

struct py_edit {
    uint32_t start, end; /* replaced range of the original text; start == end inserts */
    const char *with;    /* not owned */
};
/* Applies edits (any order, must not overlap; insertions at one place keep their order) and parses the
 * result: a result with a syntax error that the original had not is refused. */
int py_apply(const struct py_file *f, const struct py_edit *edits, size_t n, struct buf *out, struct err *e);

#endif
