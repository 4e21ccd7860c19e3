/* leave.c - functions that no rule may edit, each with the fact that forbids it. */
#include "concord/adapt/private.h"

#include <stdlib.h>
#include <string.h>

static bool stands_in(struct py_span outer, struct py_span at)
{
    return at.start >= outer.start && at.end <= outer.end;
}

/* "cpu" as the device of a call. */
static bool is_cpu_argument(const struct py_file *f, const struct call_arg *a, bool positional)
{
    uint32_t name_end = a->start + a->name_len;
    bool device = a->name_len ? text_is(f, a->start, name_end, "device") ||
                                    text_is(f, a->start, name_end, "device_type")
                              : positional;
    return device && (text_is(f, a->value, a->end, "\"cpu\"") || text_is(f, a->value, a->end, "'cpu'"));
}

static uint32_t names_cpu(struct py_file *f, struct py_span at)
{
    uint32_t row = 0;
    for (size_t i = 0; i < f->refs.len && !row; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!r->call || !stands_in(at, r->at)) continue;
        const char *leaf = leaf_of(r->chain);
        bool positional = !strcmp(leaf, "to") || !strcmp(leaf, "device");
        call_args a = {0};
        call_split(f, r->args, &a);
        for (size_t k = 0; k < a.len; k++)
            if (is_cpu_argument(f, &a.ptr[k], positional)) row = r->at.row;
        vec_free(&a);
    }
    return row;
}

static uint32_t uses_data_parallel(struct py_file *f, struct py_span at)
{
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!stands_in(at, r->at)) continue;
        const char *resolved = py_resolve(f, r->scope, r->chain);
        if (resolved && str_starts(resolved, "torch.nn.") && str_ends(resolved, ".DataParallel"))
            return r->at.row;
    }
    return 0;
}

/* Objects hung on autograd nodes (node.metadata[...]) and watched with weak references. */
static uint32_t watches_graph_die(struct py_file *f, struct py_span at)
{
    uint32_t weak = 0;
    bool nodes = false;
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        if (!stands_in(at, r->at)) continue;
        if (r->call && !strcmp(r->chain, "weakref.ref") && !weak) weak = r->at.row;
        nodes |= str_ends(r->chain, ".metadata") || str_ends(r->chain, ".grad_fn");
    }
    return nodes ? weak : 0;
}

/* A list of dispatched operators that expects the detach of a saved output. */
static uint32_t expects_detach(struct py_file *f, struct py_span at)
{
    bool mode = false;
    for (size_t i = 0; i < f->scopes.len && !mode; i++) {
        const struct py_scope *c = &f->scopes.ptr[i];
        for (size_t b = 0; c->kind == PY_CLASS && stands_in(at, c->at) && b < c->bases.len; b++)
            mode |= !strcmp(leaf_of(c->bases.ptr[b]), "TorchDispatchMode");
    }
    const char *text = f->text + at.start,
               *found = mode ? memmem(text, at.end - at.start, "\"detach.default\"", 16) : NULL;
    uint32_t row = at.row;
    for (const char *c = text; found && c < found; c++) row += *c == '\n';
    return found ? row : 0;
}

/* Facts, each true of a board as of the device in software (torch 2.6 to 2.13, Ascend/pytorch):
 *  - the autograd engine runs a device's part of a backward on a thread of its own, which drops its reference
 *    to the graph a moment after backward() returns (torch/csrc/autograd/engine.cpp, thread_main);
 *  - NPUTensorImpl::shallow_copy_and_detach copies without asking the dispatch mode, where TensorImpl's own
 *    asks it (c10/core/TensorImpl.cpp, shallow_copy_and_detach_core). */
static const struct {
    uint32_t (*row)(struct py_file *f, struct py_span at); /* 0: not so here */
    const char *why;
    bool data_only; /* names of devices may be changed all the same */
} facts[] = {
    {names_cpu, "the function names the CPU: moving what has no device of its own would mix devices", true},
    {uses_data_parallel, "DataParallel is for CUDA only: the function needs another way to run", false},
    {watches_graph_die,
     "weak references tell here when an autograd graph dies: on a device the engine's own thread "
     "holds it a moment longer, so the check would fail now and then; it stays on the CPU",
     false},
    {expects_detach,
     "the expected list names detach.default: the backend copies a saved output without asking the "
     "dispatch mode, so that entry would be missing; it stays on the CPU",
     false},
};

bool leave_whole(struct adapt_site *s)
{
    bool whole = false;
    s->names_only = false;
    for (size_t i = 0; i < sizeof facts / sizeof *facts && !whole; i++) {
        uint32_t row = facts[i].row(s->f, s->span);
        if (!row) continue;
        adapt_leave(s, row, "%s", facts[i].why);
        s->names_only |= facts[i].data_only;
        whole = !facts[i].data_only;
    }
    return whole;
}
