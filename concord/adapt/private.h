/* private.h - what adapt's own files share: call arguments as text, and the site that a rule looks at. */
#ifndef CONCORD_ADAPT_PRIVATE_H
#define CONCORD_ADAPT_PRIVATE_H

#include "concord/adapt/adapt.h"
#include "concord/patch/patch.h"

struct call_arg {
    uint32_t start, end; /* the whole argument, white space at its ends left out */
    uint32_t value;      /* where its value begins; start when positional */
    uint32_t name_len;   /* of its keyword, 0 when positional */
};
typedef VEC(struct call_arg) call_args;
void call_split(const struct py_file *f, struct py_span args, call_args *out);
const struct call_arg *call_keyword(const struct py_file *f, const call_args *a, const char *name);
/* An argument **x may hold any keyword. */
bool call_has_splat(const struct py_file *f, const call_args *a);
bool text_is(const struct py_file *f, uint32_t start, uint32_t end, const char *s);

/* The next string in [*at, end): what stands between its quotes; *at moves behind it. False if there is none.
 */
bool next_string(const struct py_file *f, uint32_t *at, uint32_t end, struct py_span *out);

/* What the methods chained to an expression that ends at `end` do with it; device: the method that moves to
 * it. */
enum chained { CHAINED_NOTHING, CHAINED_MOVE /* .npu(), .to(device) */, CHAINED_VALUE /* .item(), .shape */ };
enum chained chained_after(const struct py_file *f, uint32_t end, const char *device);
/* Are these a .to()'s arguments for a device, and not only for a dtype? */
bool moves_to_device(const struct py_file *f, struct py_span args);

/* The last part of a chain. */
const char *leaf_of(const char *chain);

/* Tables of names. */
bool makes_data(const char *resolved);      /* a torch function that makes a tensor from no tensor */
bool takes_device(const char *resolved);    /* of those: has a device= keyword */
bool is_torch_module(const char *resolved); /* a class of torch.nn that is a module */
bool has_parameters(const char *resolved);  /* a torch.nn module with state to move */
bool npu_has(const char *name);             /* torch.cuda.NAME has its twin below torch.npu */
bool is_tensor_method(const char *name);    /* of the arithmetic kind: x.sin() says that x is a tensor */

struct adapt_site {
    struct py_file *f;
    const struct adapt_options *o;
    struct adapt_result *r;
    enum adapt_rule_id rule;
    const struct py_ref *ref;            /* NULL for the whole file or a test */
    const struct py_operator *operation; /* ADAPT_OPERATOR: it; NULL otherwise */
    struct py_span string;               /* ADAPT_STRING: what stands between its quotes */
    const char *resolved;                /* of ref, NULL when unknown */
    uint32_t top;                        /* the outermost function */
    struct py_span span;                 /* what of it is adapted */
    bool shared;                         /* the function serves tests that are not adapted */
    bool names_only;                     /* data that has no device stays where it is */
    bool shim;                           /* torch.cuda's functions and .cuda() are redirected at run time */
    call_args args;                      /* of a call */
};
void adapt_edit_add(struct adapt_site *s, uint32_t start, uint32_t end, char *with);
void adapt_leave(struct adapt_site *s, uint32_t row, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void adapt_note(struct adapt_site *s, uint32_t row, const char *text);
bool imports_backend(const struct py_file *f, const char *backend);
/* Is the outermost function left to a person as a whole? Says why, and sets names_only. */
bool leave_whole(struct adapt_site *s);
/* The name of a device variable that holds at the site, NULL if there is none. */
const char *device_variable(const struct adapt_site *s);
/* The decorator of an adapted function in which the place stands, NULL if there is none. */
const struct py_decorator *decorator_around(const struct adapt_site *s, uint32_t at);
/* Is a class of that name, the last before the place, a module without parameters, buffers and layers? */
bool is_stateless_class(struct py_file *f, const char *name, uint32_t before);
/* May a value assigned to a device variable be the device under test? */
bool is_device_value(struct slice text);
/* A class of this file that is a torch.nn.Module; scope UINT32_MAX: no. */
bool is_module_class(struct py_file *f, uint32_t scope);

#define RULE(id, ...) bool rule_##id(struct adapt_site *s);
#include "concord/adapt/rules.inc"
#undef RULE

#endif
