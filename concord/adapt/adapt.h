/* adapt.h - the smallest edits that put a file's tests on the device, each with the rule that made it.
 *
 * The rules are rows of rules.inc. They run over the calls and names of the tests asked for and of the
 * helpers that only those tests use. What no rule may touch is listed with the reason. Adapting adapted text
 * changes nothing.
 */
#ifndef CONCORD_ADAPT_H
#define CONCORD_ADAPT_H

#include "concord/base/base.h"
#include "concord/pysrc/pysrc.h"

enum adapt_pattern {
    ADAPT_CALL,     /* a call in an adapted function */
    ADAPT_NAME,     /* any name in an adapted function */
    ADAPT_OPERATOR, /* an operation in an adapted function */
    ADAPT_STRING,   /* a string in an adapted function */
    ADAPT_FILE,     /* the file, once, when something else was edited */
    ADAPT_TEST,     /* a test as a whole: says that it needs no edit */
    ADAPT_PATTERNS
};
extern const char *const adapt_pattern_names[ADAPT_PATTERNS];

enum adapt_rule_id {
#define RULE(id, name, pattern, before, after, reason, reason_zh) RULE_##id,
#include "concord/adapt/rules.inc"
#undef RULE
    RULE_COUNT
};

struct adapt_site;
struct adapt_rule {
    const char *name;
    enum adapt_pattern pattern;
    const char *before, *after; /* an example: a line inside a test, or a whole file */
    const char *reason, *reason_zh;
    bool (*run)(struct adapt_site *s); /* true: this rule has answered, no other is asked */
};
extern const struct adapt_rule adapt_rules[RULE_COUNT];

/* How a tensor without requires_grad is put on the device. */
enum adapt_style {
    ADAPT_METHOD,  /* torch.ones(3).npu() */
    ADAPT_KEYWORD, /* torch.ones(3, device="npu") */
    ADAPT_TO,      /* torch.ones(3).to("npu") */
    ADAPT_HELPER,  /* torch.ones(3).to(device_type), which is set behind the import */
    ADAPT_STYLES
};
/* Where the backend's import goes. Branches differ, and do so consistently. */
enum adapt_place {
    ADAPT_BEHIND_TESTING, /* behind torch.testing's imports, or in front of common_cuda's */
    ADAPT_BEHIND_TORCH,   /* behind `import torch` */
    ADAPT_TOP,            /* the file's first statement */
    ADAPT_PLACES
};
extern const char *const adapt_place_names[ADAPT_PLACES];

struct adapt_edit;
struct adapt_options {
    enum adapt_style style;
    const char *device; /* "npu": the device's name and the method that moves to it */
    const char *import; /* "torch_npu" */
    bool shim;          /* torch_npu.contrib's transfer_to_npu is imported, where the text does not show it */
    enum adapt_place place;
    const char *variable; /* a device variable of the module where the text does not show it; NULL: none */
    const char *guard;    /* the decorator that takes onlyCUDA's place */
    const strings *functions; /* names of torch.cuda that the device's module has too, NULL: the NPU's */
    bool configs;             /* the release has set_test_configs */
    const char *import_lines; /* all lines to import, NULL: "import torch_npu\n" */
    /* Asked before an edit is made, in the file's order; NULL: every edit is made. */
    bool (*accept)(const struct py_file *f, const struct adapt_edit *d, void *context);
    void *context;
};
extern const struct adapt_options adapt_defaults;

extern const char *const adapt_style_names[ADAPT_STYLES];
/* The style that adapted text uses most for tensors without requires_grad; ADAPT_METHOD where it has none. */
enum adapt_style adapt_style_of(struct py_file *f, const struct adapt_options *o);

struct adapt_edit {
    enum adapt_rule_id rule;
    uint32_t start, end, row; /* the replaced range of the file as read */
    char *with;               /* owned */
    const char *scope;        /* qualified name of the outermost function; "" for the module */
};
struct adapt_left {
    uint32_t row;
    const char *scope;
    char *reason; /* owned */
};
struct adapt_result {
    VEC(struct adapt_edit) edits;
    VEC(struct adapt_left) left;  /* for a person */
    VEC(struct adapt_left) notes; /* needs no edit, and why */
    struct buf text;              /* the adapted file; equal to the original when there are no edits */
};

/* tests: qualified names ("TestA.test_x"). Strings in the result belong to f unless said. Fails if the edited
 * text would not parse. */
int adapt_source(struct py_file *f, const char *const *tests, size_t ntests, const struct adapt_options *o,
                 struct adapt_result *r, struct err *e);
/* Pieces of a file, syntax errors and all: every line of each span is adapted; text stays empty. imports: the
 * backend's import belongs into this file. */
void adapt_fragment(struct py_file *f, const struct py_span *spans, size_t nspans,
                    const struct adapt_options *o, bool imports, struct adapt_result *r);
void adapt_result_free(struct adapt_result *r);

#endif
