/* scan.h - which tests of an upstream tree cover an API, with the evidence for each claim.
 *
 * A file is read once: call sites of the APIs, then which test functions reach them, directly or through
 * helpers and methods of the same file. Nothing is guessed: how a site was recognised is part of the answer
 * (enum scan_match).
 */
#ifndef CONCORD_SCAN_H
#define CONCORD_SCAN_H

#include "concord/base/base.h"
#include "concord/pysrc/pysrc.h"

struct scan_api {
    const char *name;      /* full dotted name: torch.Tensor.add_ */
    const char *leaf;      /* add_ */
    const char *owner;     /* the class when it is a method: "Tensor"; NULL for functions and classes */
    const char *operator_; /* "+" when the method is spelt as an operator too, else NULL */
};
/* Takes the name apart; -1 if it is not a dotted Python name. Strings stay the caller's or the api's (freed
 * by it). */
int scan_api_parse(const char *name, struct scan_api *out, struct err *e);
void scan_api_free(struct scan_api *a);

enum scan_match {
    SCAN_EXACT,    /* the name resolves to the API */
    SCAN_ALIAS,    /* it resolves to a shorter public path of the same thing: torch.distributed.Store */
    SCAN_METHOD,   /* a method of this name on an instance known to be of the class */
    SCAN_RECEIVER, /* a method of this name on a value of unknown type */
    SCAN_OPERATOR, /* an operator that stands for the method */
    SCAN_STAR,     /* a bare name that a star import of a torch module may bring */
    SCAN_NMATCH
};
extern const char *const scan_match_names[SCAN_NMATCH];

struct scan_site {
    uint32_t api; /* index into the APIs */
    enum scan_match match;
    bool call; /* false: passed along or read, not called here */
    uint32_t row, start, end;
    uint32_t scope; /* where it stands */
    struct py_span args;
};

struct scan_test {
    uint32_t api;
    const char *file;      /* relative path */
    const char *id;        /* "TestAutograd.test_x" */
    uint32_t row;          /* of the test's definition */
    bool indirect;         /* reached through helpers only */
    const char *path;      /* indirect: "test_x -> helper -> inner"; "" if direct */
    enum scan_match match; /* the best of its sites */
    VEC(uint32_t) rows;    /* call sites */
    bool tensors;          /* a tensor made in the test or helper reaches a call's arguments */
    uint32_t tensor_row;   /* where the first such tensor is made, 0 if none */
    uint32_t backward_row; /* a backward after the first site, 0 if none */
    const char *asserts;   /* "assertEqual, assertRaises" in order of appearance, "" if none */
    const char *keeps_off; /* decorators and class facts that keep it off a device, "" if none */
    bool device_generic;   /* instantiated per device type: needs no edit */
};

struct scan_file {
    const char *path; /* relative */
    const char *note; /* NULL or why the file is odd */
    VEC(struct scan_site) sites;
    VEC(struct scan_test) tests;
    struct py_file *model; /* owns the strings above; NULL for files without a match */
};

struct scan_result {
    VEC(struct scan_file) files; /* sorted by path; only files with sites or notes */
    uint32_t nfiles, nparsed;
    uint64_t bytes;
};

/* Reads one file. text is copied. Results that concern no API leave out empty. */
void scan_source(const char *path, const char *text, size_t len, const struct scan_api *apis, size_t napis,
                 struct scan_file *out);
/* Every .py file below root (tests live in root/test), `threads` at a time; 0: one a core. */
int scan_tree(const char *root, const struct scan_api *apis, size_t napis, int threads,
              struct scan_result *out, struct err *e);
void scan_file_free(struct scan_file *f);

/* Which functions of a file name which: the graph that coverage is read from. */
struct scan_edge {
    int from, to; /* scopes of outermost functions */
};
struct scan_graph {
    int *top; /* scope -> its outermost function, -1 outside functions */
    struct scan_edge *edges;
    size_t nedges;
};
void scan_graph_make(struct py_file *f, struct scan_graph *g);
void scan_graph_free(struct scan_graph *g);
void scan_result_free(struct scan_result *r);

#endif
