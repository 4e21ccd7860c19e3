/* graph_run.c - executing graphs, and what can be asked about them. */
#include "softnpu/runtime/graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- execution --------------------------------------------------------------------------------------- */

struct cursor {
    struct rt_graph *graph;
    uint32_t *at; /* per lane: nodes done */
};

static struct rt_task *claim(struct rt_graph *g, struct rt_node *node)
{
    pthread_mutex_lock(&g->lock);
    node->busy = true;
    struct rt_task *t = node->task;
    pthread_mutex_unlock(&g->lock);
    return t;
}

static void release(struct rt_graph *g, struct rt_node *node)
{
    pthread_mutex_lock(&g->lock);
    node->busy = false;
    pthread_cond_broadcast(&g->idle);
    pthread_mutex_unlock(&g->lock);
}

static int run_node(struct rt_graph *g, struct rt_node *node)
{
    if (!node->task) return 0;
    struct rt_task *t = node->group ? claim(g, node) : node->task;
    int code = rt_task_perform(t);
    if (node->group) release(g, node);
    return code;
}

static bool is_ready(const struct cursor *c, const struct rt_node *node)
{
    if (!node->task) return c->at[node->lane] >= node->count;
    return !node->task->kind->ready || node->task->kind->ready(node->task);
}

/* Runs a lane as far as it goes without waiting. */
static int advance(struct cursor *c, struct rt_lane *l, bool *moved)
{
    while (c->at[l->index] < l->n) {
        struct rt_node *node = &l->node[c->at[l->index]];
        if (rt_task_cancelled() || !is_ready(c, node)) return 0;
        int code = run_node(c->graph, node);
        if (code) return code;
        c->at[l->index]++;
        *moved = true;
    }
    return 0;
}

static bool any_ready(void *arg)
{
    const struct cursor *c = arg;
    for (uint32_t i = 0; i < c->graph->nlanes; i++) {
        const struct rt_lane *l = c->graph->lane[i];
        if (c->at[i] < l->n && is_ready(c, &l->node[c->at[i]])) return true;
    }
    return false;
}

static int run_lanes(struct cursor *c)
{
    struct rt_graph *g = c->graph;
    for (;;) {
        bool moved = false, left = false;
        for (uint32_t i = 0; i < g->nlanes; i++) {
            int code = advance(c, g->lane[i], &moved);
            if (code) return code;
        }
        for (uint32_t i = 0; i < g->nlanes; i++) left |= c->at[i] < g->lane[i]->n;
        if (!left || rt_task_cancelled()) return 0;
        /* Values in memory change without a word: look again every millisecond. */
        if (!moved) rt_wait_until(any_ready, c, rt_deadline(1), true);
    }
}

int rt_graph_run(struct rt_graph *g)
{
    uint32_t few[8] = {0}, *at = g->nlanes <= 8 ? few : calloc(g->nlanes, sizeof *at);
    if (!at) return rt_fail(ACL_ERROR_BAD_ALLOC, "graph %u: no memory to run it", g->id);
    pthread_mutex_lock(&g->running);
    for (struct rt_cond *c = g->conds; c; c = c->next)
        if (c->reset) *rt_graph_cond_value(c) = c->initial;
    struct cursor c = {g, at};
    int code = run_lanes(&c);
    pthread_mutex_unlock(&g->running);
    if (at != few) free(at);
    return code;
}

struct execute_task {
    struct rt_task task;
    struct rt_graph *graph;
};

static int run_execute(struct rt_task *task)
{
    return rt_graph_run(((struct execute_task *)task)->graph);
}

static void drop_execute(struct rt_task *task)
{
    rt_graph_unref(((struct execute_task *)task)->graph);
    free(task);
}

static const struct rt_task_kind execute_kind = {
    .name = "graph", .run = run_execute, .drop = drop_execute, .no_capture = true, .no_record = true};

#define GRAPH(g, handle)                                                                                     \
    struct rt_graph *g = rt_graph_of(handle);                                                                \
    if (!g) return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: no such graph", __func__);                          \
    if (g->capture) return rt_fail(ACL_ERROR_RT_MODEL_CAPTURED, "%s: the graph is still captured", __func__)

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream)
{
    GRAPH(g, modelRI);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    struct execute_task *t = malloc(sizeof *t);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclmdlRIExecuteAsync: no memory");
    atomic_fetch_add(&g->refs, 1);
    *t = (struct execute_task){{.kind = &execute_kind}, g};
    return rt_stream_queue(s, &t->task, !g->heavy);
}

aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    GRAPH(g, modelRI);
    if (g->parent)
        return rt_fail(ACL_ERROR_INVALID_PARAM,
                       "aclmdlRIDestroy: a branch ends with the graph it belongs to");
    rt_graph_unref(g); /* an execution that is queued keeps it alive */
    return ACL_SUCCESS;
}

/* ---- asking ------------------------------------------------------------------------------------------ */

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *id)
{
    struct rt_graph *g = rt_graph_of(modelRI);
    RT_NEED(g && id, ACL_ERROR_INVALID_PARAM);
    *id = g->id;
    return ACL_SUCCESS;
}

static const char *label(const struct rt_node *node)
{
    if (!node->task) return "edge";
    const struct rt_task_kind *k = node->task->kind;
    return k->label ? k->label(node->task) : k->name;
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI)
{
    GRAPH(g, modelRI);
    for (uint32_t i = 0; i < g->nlanes; i++)
        for (uint32_t k = 0; k < g->lane[i]->n; k++) {
            const struct rt_node *node = &g->lane[i]->node[k];
            fprintf(stderr, "graph %u device %d stream %u task %u: %s", g->id, g->device,
                    g->lane[i]->stream_id, k, label(node));
            if (!node->task)
                fprintf(stderr, " after task %u of stream %u", node->count, g->lane[node->lane]->stream_id);
            fputc('\n', stderr);
        }
    return ACL_SUCCESS;
}

/* One event of the trace format that chrome://tracing reads; the place in the lane stands for the time. */
static void print_node(FILE *f, const struct rt_graph *g, const struct rt_lane *l, uint32_t k, bool first)
{
    fprintf(f,
            "%s\n  {\"name\": \"%s\", \"pid\": \"graph %u\", \"tid\": \"stream %u\", \"ts\": %u, \"dur\": 1, "
            "\"ph\": \"X\", \"args\": {\"model id\": %u, \"stream id\": %u, \"task id\": %u, \"task type\": "
            "\"%s\"}}",
            first ? "" : ",", label(&l->node[k]), g->id, l->stream_id, k, g->id, l->stream_id, k,
            l->node[k].task ? l->node[k].task->kind->name : "edge");
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags)
{
    RT_NEED(path && flags <= 1, ACL_ERROR_INVALID_PARAM);
    GRAPH(g, modelRI);
    FILE *f = fopen(path, "we");
    if (!f)
        return rt_fail(ACL_ERROR_INVALID_FILE, "%s: cannot write %s: %s", __func__, path, strerror(errno));
    fputc('[', f);
    bool first = true;
    for (uint32_t i = 0; i < g->nlanes; i++)
        for (uint32_t k = 0; k < g->lane[i]->n; k++, first = false) print_node(f, g, g->lane[i], k, first);
    fputs("\n]\n", f);
    bool bad = ferror(f) != 0;
    if (fclose(f) || bad)
        return rt_fail(ACL_ERROR_INVALID_FILE, "%s: cannot write %s: %s", __func__, path, strerror(errno));
    return ACL_SUCCESS;
}
