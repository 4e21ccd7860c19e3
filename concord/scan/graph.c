/* graph.c - which functions of a file name which: the graph that coverage is read from.
 *
 * Functions are looked at by their outermost definition ("top"): a test with its nested functions and classes
 * is one node. An edge goes from a top to every function, method or class of the file that it names. */
#include "concord/scan/graph.h"

#include <stdlib.h>

typedef VEC(struct scan_edge) edges;

static void add_edge(edges *e, int from, int to)
{
    if (from < 0 || to < 0 || from == to) return;
    *vec_push(e) = (struct scan_edge){from, to};
}

/* Scopes come parents first, so an inner scope takes its outermost function from its parent. */
static int *outermost_functions(const struct py_file *f)
{
    int *top = xcalloc(f->scopes.len, sizeof *top);
    top[0] = -1;
    for (uint32_t i = 1; i < f->scopes.len; i++) {
        top[i] = top[f->scopes.ptr[i].parent];
        if (top[i] < 0 && f->scopes.ptr[i].kind == PY_FUNCTION) top[i] = (int)i;
    }
    return top;
}

struct methods { /* of each class: next[first[class]] ... , 0 ends */
    uint32_t *first, *next;
};

static struct methods methods_of(const struct py_file *f)
{
    struct methods m = {xcalloc(f->scopes.len, sizeof *m.first), xcalloc(f->scopes.len, sizeof *m.next)};
    for (uint32_t i = (uint32_t)f->scopes.len; i-- > 1;) {
        uint32_t parent = f->scopes.ptr[i].parent;
        if (f->scopes.ptr[i].kind != PY_FUNCTION || f->scopes.ptr[parent].kind != PY_CLASS) continue;
        m.next[i] = m.first[parent];
        m.first[parent] = i;
    }
    return m;
}

void graph_from_types(struct types *t, struct scan_graph *g)
{
    struct py_file *f = t->f;
    edges e = {0};
    int *top = outermost_functions(f);
    struct methods m = methods_of(f);
    for (size_t i = 0; i < f->refs.len; i++) {
        uint32_t to = t->callee[i];
        int from = top[f->refs.ptr[i].scope];
        if (to == UINT32_MAX || from < 0) continue;
        if (f->scopes.ptr[to].kind != PY_CLASS)
            add_edge(&e, from, top[to]);
        else /* naming a class of the file reaches every method of it */
            for (uint32_t k = m.first[to]; k; k = m.next[k]) add_edge(&e, from, top[k]);
    }
    free(m.first);
    free(m.next);
    *g = (struct scan_graph){top, e.ptr, e.len};
}

void scan_graph_make(struct py_file *f, struct scan_graph *g)
{
    struct types t;
    types_make(&t, f);
    graph_from_types(&t, g);
    types_free(&t);
}

void scan_graph_free(struct scan_graph *g)
{
    free(g->top);
    free(g->edges);
    *g = (struct scan_graph){0};
}
