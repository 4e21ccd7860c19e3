/* scan.h - which tests of an upstream tree cover an API, with the evidence for each claim.
 *
 * Files are read once, into facts that hold for any API (facts.h) and are kept by blob id (index.h). From
 * them: call sites of the APIs, then which test functions reach them, directly, through helpers and methods
 * of the same file, or through helpers in torch/testing/_internal. Nothing is guessed: how a site was
 * recognised is part of the answer (enum scan_match).
 */
#ifndef CONCORD_SCAN_H
#define CONCORD_SCAN_H

#include "concord/base/base.h"
#include "concord/pysrc/pysrc.h"
#include "concord/scan/facts.h"

struct scan_api {
    const char *name;      /* full dotted name: torch.Tensor.add_ */
    const char *leaf;      /* add_ */
    const char *owner;     /* the class when it is a method: "Tensor"; NULL for functions and classes */
    const char *operator_; /* "+" when the method is spelt as an operator too, else NULL */
};
/* Takes the name apart; -1 if it is not a dotted Python name. Strings are the api's (freed by it). */
int scan_api_parse(const char *name, struct scan_api *out, struct err *e);
void scan_api_free(struct scan_api *a);

enum scan_match {
    SCAN_EXACT,    /* the name resolves to the API */
    SCAN_ALIAS,    /* it resolves to another public path of the same thing: torch.distributed.Store */
    SCAN_METHOD,   /* a method of this name on an instance known to be of the class or one derived from it */
    SCAN_OPERATOR, /* an operator that stands for the method, on a tensor */
    SCAN_STAR,     /* a bare name that a star import of a torch module brings */
    SCAN_RECEIVER, /* a method of this name on a value of unknown type: weak */
    SCAN_NMATCH
};
extern const char *const scan_match_names[SCAN_NMATCH];

enum scan_coverage { SCAN_DIRECT, SCAN_INDIRECT, SCAN_WEAK, SCAN_NCOVERAGE };
extern const char *const scan_coverage_names[SCAN_NCOVERAGE];

struct scan_site {
    uint32_t api; /* index into the APIs */
    enum scan_match match;
    bool call; /* false: passed along or read, not called here */
    uint32_t row;
    int32_t func; /* outermost function it stands in, -1: outside functions */
};

struct scan_test {
    uint32_t api;
    const char *file;      /* relative path */
    const char *id;        /* "TestAutograd.test_x" */
    const char *class;     /* "" at module level */
    uint32_t row, end_row; /* of the test's definition */
    bool indirect;         /* reached through helpers only */
    char *path;            /* indirect: "test_x -> helper -> inner"; NULL if direct */
    enum scan_match match; /* the best of its sites */
    VEC(uint32_t) rows;    /* call sites: in the test, or in the helper at the end of path */
    bool tensors;          /* a tensor reaches a call's arguments or receiver */
    uint32_t tensor_row;   /* where the first such tensor is made, 0 if that is not to be seen */
    uint32_t backward_row; /* a backward after the first site, 0 if none */
    const char *asserts;   /* "assertEqual, assertRaises" in order of appearance, "" if none */
    const char *keeps_off; /* decorators and class facts that keep it off a device, "" if none */
    const char *params;    /* parametrisation as written, "" if none */
    bool device_generic;   /* instantiated per device type: needs no edit */
    const char *patch;     /* existing patch that changes it (scan_patches), NULL if none does */
    bool file_patched;     /* a patch changes the file, if not the test */
};
enum scan_coverage scan_coverage_of(const struct scan_test *t);

struct scan_file {
    const char *path; /* relative */
    const char *note; /* NULL or why the file is odd */
    VEC(struct scan_site) sites;
    VEC(struct scan_test) tests;
    struct facts facts; /* owns the strings above but path */
};

struct scan_result {
    VEC(struct scan_file) files; /* sorted by path; only files with sites, tests or notes */
    uint32_t nfiles, nread, nparsed;
    uint64_t bytes; /* read */
    char *warning;  /* of the index; NULL */
};

struct scan_spec {
    const char *tests;  /* folder whose .py files are looked at */
    const char *source; /* folder that holds torch/: aliases and helpers are read there; NULL: none */
    const char *index;  /* path of the index, NULL: nothing is kept */
    int threads;        /* 0: one a core */
    bool whole;         /* read every file whole: for many APIs; else only what may name them is parsed */
    bool deep;          /* ways through torch's own modules near the API count too */
    bool helpers;       /* tests of torch/testing/_internal are listed too, as ../torch/... */
};
int scan_run(const struct scan_spec *spec, const struct scan_api *apis, size_t napis, struct scan_result *out,
             struct err *e);
/* Every .py file below root; aliases and helpers from the torch/ beside it, nothing kept. */
int scan_tree(const char *root, const struct scan_api *apis, size_t napis, int threads,
              struct scan_result *out, struct err *e);
void scan_result_free(struct scan_result *r);

/* Reads one file. text is copied. Names outside it are taken as they are written. */
void scan_source(const char *path, const char *text, size_t len, const struct scan_api *apis, size_t napis,
                 struct scan_file *out);
void scan_file_free(struct scan_file *f);

/* Marks the tests that the patches change; root is the folder of the tests' files, prefix what a target has
 * before a test's file ("test/"). A patch made for another release is laid over the file as `concord port`
 * does. The names stay the caller's: patches must outlive the result. */
int scan_patches(struct scan_result *r, const char *root, const char *prefix, const strings *patches,
                 struct err *e);

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

#endif
