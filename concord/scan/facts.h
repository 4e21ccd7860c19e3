/* facts.h - what one file says, for any API: names used, functions, who calls whom, what the module exports.
 *
 * Facts depend on the file's bytes only, so they are kept by blob id and shared between releases. An API is
 * answered from facts alone. Strings and arrays live in one block each, owned by the facts.
 */
#ifndef CONCORD_SCAN_FACTS_H
#define CONCORD_SCAN_FACTS_H

#include "concord/pysrc/pysrc.h"

/* Raise when what is extracted changes: an index of another version is not used. */
enum { FACTS_VERSION = 4 };

enum fact_kind {
    FACT_NAME,     /* name: full dotted name; with dots in front it came by a relative import */
    FACT_METHOD,   /* name: attribute; type: of the receiver, "" if unknown */
    FACT_OPERATOR, /* name: "+"; at least one operand is a tensor */
    FACT_STAR,     /* name: a bare name that nothing in the file binds, and there is a star import */
    FACT_KINDS
};

struct fact_site {
    const char *name, *type;
    uint32_t row;
    int32_t func; /* outermost function; -1 outside functions */
    uint8_t kind; /* enum fact_kind */
    bool call, tensors;
    uint32_t tensor_row; /* where the tensor that reaches it is made; 0 if unknown */
};
struct fact_func {  /* an outermost function: a test with its nested functions is one */
    const char *id; /* qualified name */
    const char *class;
    const char *asserts;   /* "assertEqual, assertRaises": in order of appearance */
    const char *keeps_off; /* decorators of it and its class that keep it off a device */
    const char *params;    /* parametrisation, as written */
    uint32_t row, end_row;
    uint32_t tensor_row;          /* where it makes its first tensor, 0 if it makes none */
    uint32_t backward, nbackward; /* rows of backward passes: rows[backward ..] */
    bool test, device_generic;
};
struct fact_edge { /* from calls, names or instantiates to */
    uint32_t from, to;
};
struct fact_export { /* a name that the module binds */
    const char *name;
    const char *target; /* full dotted name it stands for; "" if it is defined here */
    const char *bases;  /* classes: resolved bases, commas between */
};

struct facts {
    const char *note; /* "" or why the file is odd */
    VEC(struct fact_site) sites;
    VEC(struct fact_func) funcs;
    VEC(struct fact_edge) edges;
    VEC(struct fact_export) exports; /* sorted by name */
    VEC(const char *) stars;         /* modules of star imports */
    VEC(uint32_t) rows;
    char *strings;   /* pool: every string once, each ended by a NUL */
    size_t nstrings; /* its bytes */
};

/* From a model. */
void facts_extract(struct facts *out, struct py_file *f);
/* What the module exports only; for text made by outline_module. */
void facts_extract_exports(struct facts *out, struct py_file *f);
void facts_free(struct facts *f);

/* Compact bytes, and back. A damaged block is refused: -1. */
void facts_pack(const struct facts *f, struct buf *out);
int facts_unpack(struct facts *out, const void *data, size_t n);

const struct fact_export *facts_export(const struct facts *f, const char *name, size_t n);

#endif
