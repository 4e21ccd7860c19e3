/* types.h - what values of a file are, as far as it can be told: tensors, modules, builtins, classes.
 *
 * A type is a class's full dotted name ("torch.Tensor"), "." and a qualified name for a class of the file, or
 * a builtin's plain name ("list"). NULL is unknown: nothing is guessed from a name alone. Two kinds of
 * evidence count: how a value was made (a factory, a class, an operator on tensors, an argument of a caller
 * in the same file), and, for a parameter, that it is handed to a torch function or asked for what only
 * tensors have.
 */
#ifndef CONCORD_SCAN_TYPES_H
#define CONCORD_SCAN_TYPES_H

#include "concord/pysrc/pysrc.h"

struct type_call {   /* a call of one of the file's own functions */
    uint32_t callee; /* scope */
    uint32_t ref;
};
struct types {
    struct py_file *f;
    const char **memo;    /* by expression */
    uint8_t *state;       /* by expression: 0 not asked, 1 being asked, 2 known */
    uint32_t *by_place;   /* references in source order */
    uint32_t *scope_hash; /* qualified name -> first scope, open addressing, UINT32_MAX empty */
    uint32_t nhash;
    const char **resolved; /* by reference: its full dotted name, NULL if unknown */
    uint32_t *callee; /* by reference: the scope of the file that it names (function or class); UINT32_MAX */
    char **own;       /* by scope: "." and its qualified name, made when asked for */
    VEC(struct type_call) calls; /* sorted by callee */
    struct map attributes;       /* ".Class.x" -> 1 + index of the first assignment to self.x there */
    int depth;
};

void types_make(struct types *t, struct py_file *f);
void types_free(struct types *t);

const char *type_of_expr(struct types *t, uint32_t expr);
const char *type_of_ref(struct types *t, const struct py_ref *r);
/* Of what the last attribute of the reference is taken; NULL for a bare name. */
const char *type_of_receiver(struct types *t, const struct py_ref *r);
bool type_is_tensor(struct types *t, const char *type);
bool type_is_module(struct types *t, const char *type);
/* The class of a local class's name ".X": first base outside the file ("torch.nn.Module"), NULL if it has
 * none. */
const char *type_outer_base(struct types *t, const char *type);
/* Scope of a method that a class of the file or its bases in the file define; UINT32_MAX if none. */
uint32_t type_method(struct types *t, uint32_t class, const char *name);
/* First scope of that qualified name; UINT32_MAX if none. */
uint32_t type_scope_named(const struct types *t, const char *qualname);

struct origin {
    bool found;
    uint32_t row; /* where the tensor (or the module that holds some) is made; 0 if that is not to be seen */
};
/* Whether a tensor reaches the expression's value, and where it was made. */
struct origin type_origin(struct types *t, uint32_t expr);
struct origin type_origin_of_ref(struct types *t, const struct py_ref *r);
/* First reference (position in by_place) that starts at or after the byte. */
size_t types_first_at(const struct types *t, uint32_t byte);

#endif
