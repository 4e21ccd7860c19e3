/* graph_update.c - task groups whose tasks can be replaced, and conditions. */
#include "softnpu/runtime/graph.h"

#include <stdlib.h>

/* ---- groups ------------------------------------------------------------------------------------------ */

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    struct rt_group *p = calloc(1, sizeof *p);
    if (!p) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", __func__);
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_lane *l = rt_graph_lane(s);
    if (!l)
        code = rt_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: the stream is not captured", __func__);
    else if (l->open_group)
        code = rt_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "%s: a group is open already", __func__);
    else {
        *p = (struct rt_group){GROUP_MAGIC, l->graph, l->index, l->n, 0, l->graph->groups};
        l->graph->groups = l->open_group = p;
    }
    pthread_mutex_unlock(&rt_capture_lock);
    if (code) free(p);
    return code;
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle)
{
    RT_NEED(handle, ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_lane *l = rt_graph_lane(s);
    if (!l)
        code = rt_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: the stream is not captured", __func__);
    else if (!l->open_group)
        code = rt_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "%s: no group is open", __func__);
    else {
        *handle = l->open_group;
        l->open_group = NULL;
    }
    pthread_mutex_unlock(&rt_capture_lock);
    return code;
}

/* ---- updates: the new tasks, collected, and put in place by a task of the updating stream ------------ */

struct update {
    struct rt_sink sink;
    struct rt_task task;
    struct rt_group *group;
    uint32_t n;
    int error;
    struct rt_task *fresh[]; /* group->count */
};

static struct rt_node *node_of(const struct rt_group *p, uint32_t i)
{
    return &p->graph->lane[p->lane]->node[p->first + i];
}

static int put(struct rt_sink *sink, struct rt_task *t, bool small)
{
    (void)small;
    struct update *u = (struct update *)sink;
    pthread_mutex_lock(&u->group->graph->lock);
    bool fits = u->n < u->group->count && node_of(u->group, u->n)->task &&
                node_of(u->group, u->n)->task->kind == t->kind;
    if (fits) u->fresh[u->n++] = t;
    pthread_mutex_unlock(&u->group->graph->lock);
    if (fits) return 0;
    u->error =
        rt_fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, "%s: the group has another kind of task, or none, here",
                t->kind->label ? t->kind->label(t) : t->kind->name);
    t->kind->drop(t);
    return u->error;
}

static int run_update(struct rt_task *task)
{
    struct update *u = (struct update *)((char *)task - offsetof(struct update, task));
    struct rt_graph *g = u->group->graph;
    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; i < u->n; i++) {
        struct rt_node *node = node_of(u->group, i);
        while (node->busy) pthread_cond_wait(&g->idle, &g->lock);
        struct rt_task *old = node->task;
        node->task = u->fresh[i];
        u->fresh[i] = old;
    }
    pthread_mutex_unlock(&g->lock);
    return 0;
}

/* Frees the tasks that are not the graph's: the replaced ones, or the new ones if it was not run. */
static void drop_update(struct rt_task *task)
{
    struct update *u = (struct update *)((char *)task - offsetof(struct update, task));
    for (uint32_t i = 0; i < u->n; i++) u->fresh[i]->kind->drop(u->fresh[i]);
    rt_graph_unref(u->group->graph);
    free(u);
}

static const struct rt_task_kind update_kind = {
    .name = "graph update", .run = run_update, .drop = drop_update, .no_capture = true};

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle)
{
    struct rt_group *p = handle;
    RT_NEED(p && p->magic == GROUP_MAGIC, ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    struct update *u = calloc(1, sizeof *u + p->count * sizeof *u->fresh);
    if (!u) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", __func__);
    u->sink.put = put;
    u->task.kind = &update_kind;
    u->group = p;
    struct rt_sink *none = NULL;
    if (!atomic_compare_exchange_strong(rt_stream_sink(s), &none, &u->sink)) {
        free(u);
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURED, "%s: the stream is captured, or updates already",
                       __func__);
    }
    atomic_fetch_add(&p->graph->refs, 1);
    return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    struct rt_sink *sink = atomic_load(rt_stream_sink(s));
    if (!sink || sink->put != put)
        return rt_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "%s: the stream does not update", __func__);
    atomic_store(rt_stream_sink(s), NULL);
    struct update *u = (struct update *)sink;
    if (!u->error && u->n == u->group->count) return rt_stream_queue(s, &u->task, false);
    code = u->error ? u->error
                    : rt_fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, "%s: %u tasks for a group of %u", __func__,
                              u->n, u->group->count);
    drop_update(&u->task);
    return code;
}

/* ---- conditions -------------------------------------------------------------------------------------- */

uint64_t *rt_graph_cond_value(const struct rt_cond *c)
{
    return (uint64_t *)rt_kernel_ptr(rt_arena_base(c->graph->device) + c->offset);
}

void rt_graph_free_conds(struct rt_graph *g)
{
    for (struct rt_cond *c = g->conds, *next; c; c = next) {
        next = c->next;
        c->magic = 0;
        rt_memory_give(g->device, (uint64_t)c->offset);
        free(c);
    }
    g->conds = NULL;
}

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t initial, uint32_t flag,
                                  aclmdlRICondHandle *handle)
{
    struct rt_graph *g = rt_graph_of(modelRI);
    RT_NEED(g && handle, ACL_ERROR_INVALID_PARAM);
    RT_NEED(flag <= ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, ACL_ERROR_INVALID_PARAM);
    struct rt_cond *c = malloc(sizeof *c);
    int64_t at = c ? rt_memory_take(g->device, sizeof(uint64_t), 512) : -1;
    if (at < 0) {
        free(c);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no memory for a condition", __func__);
    }
    *c = (struct rt_cond){COND_MAGIC, g, at, initial, flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, NULL};
    *rt_graph_cond_value(c) = initial;
    pthread_mutex_lock(&rt_capture_lock);
    c->next = g->conds;
    g->conds = c;
    pthread_mutex_unlock(&rt_capture_lock);
    *handle = c;
    return ACL_SUCCESS;
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr)
{
    struct rt_cond *c = handle;
    RT_NEED(c && c->magic == COND_MAGIC && ptr, ACL_ERROR_INVALID_PARAM);
    *ptr = (uint64_t *)(void *)(rt_arena_base(c->graph->device) + c->offset);
    return ACL_SUCCESS;
}

struct branch_task {
    struct rt_task task;
    struct rt_cond *cond;
    aclmdlRICondTaskType type;
    uint32_t n;
    struct rt_graph *branch[]; /* the graph's children: it frees them */
};

static int run_branch(struct rt_task *task)
{
    struct branch_task *t = (struct branch_task *)task;
    uint64_t *value = rt_graph_cond_value(t->cond);
    int code = 0;
    switch (t->type) {
    case ACL_MODEL_RI_COND_TYPE_IF:
        if (*value) return rt_graph_run(t->branch[0]);
        return t->n > 1 ? rt_graph_run(t->branch[1]) : 0;
    case ACL_MODEL_RI_COND_TYPE_WHILE:
        while (!code && *(volatile uint64_t *)value && !rt_task_cancelled())
            code = rt_graph_run(t->branch[0]);
        return code;
    case ACL_MODEL_RI_COND_TYPE_SWITCH:
        return *value < t->n ? rt_graph_run(t->branch[*value]) : 0;
    }
    return 0;
}

static void drop_branch(struct rt_task *task)
{
    free(task);
}

static const struct rt_task_kind branch_kind = {.name = "condition", .run = run_branch, .drop = drop_branch};

static bool has_size(const aclmdlRICondTaskParams *p)
{
    static const uint32_t most[] = {2, 1, UINT32_MAX};
    return (unsigned)p->type <= ACL_MODEL_RI_COND_TYPE_SWITCH && p->size >= 1 && p->size <= most[p->type];
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags)
{
    struct rt_cond *c = params.handle;
    RT_NEED(c && c->magic == COND_MAGIC && params.modelRIArray, ACL_ERROR_INVALID_PARAM);
    RT_NEED(has_size(&params) && flags == 0, ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    if (!rt_stream_captures(s))
        return rt_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: the stream is not captured", __func__);
    struct branch_task *t = malloc(sizeof *t + params.size * sizeof *t->branch);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", __func__);
    *t = (struct branch_task){{.kind = &branch_kind}, c, params.type, params.size};
    for (uint32_t i = 0; i < params.size; i++) {
        struct rt_graph *g = rt_graph_new(c->graph->device);
        if (!g) {
            free(t); /* the branches made so far are the graph's already */
            return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", __func__);
        }
        pthread_mutex_lock(&rt_capture_lock);
        g->parent = c->graph;
        g->sibling = c->graph->child;
        c->graph->child = g;
        pthread_mutex_unlock(&rt_capture_lock);
        t->branch[i] = g;
        params.modelRIArray[i] = g;
    }
    return rt_stream_queue(s, &t->task, false);
}
