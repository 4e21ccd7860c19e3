/* graph.c - capturing a stream's tasks into a graph. */
#include "softnpu/runtime/graph.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t rt_capture_lock = PTHREAD_MUTEX_INITIALIZER;
/* More tasks than this are worth the hand-over to the stream's thread. */
enum { MAX_INLINE = 64 };

static struct rt_graph *active; /* captures that go on, under the lock */
static uint64_t captures;
static uint32_t next_id = 1;
static atomic_int nglobal;                                                       /* captures in global mode */
static _Thread_local int thread_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;         /* set by the exchange */
static _Thread_local int thread_captures[ACL_MODEL_RI_CAPTURE_MODE_RELAXED + 1]; /* begun here, by mode */

/* ---- graphs ------------------------------------------------------------------------------------------ */

struct rt_graph *rt_graph_new(int device)
{
    struct rt_graph *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->magic = GRAPH_MAGIC;
    g->device = device;
    atomic_store(&g->refs, 1);
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->running, NULL);
    pthread_cond_init(&g->idle, NULL);
    g->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    return g;
}

static void free_lane(struct rt_lane *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->node[i].task) l->node[i].task->kind->drop(l->node[i].task);
    free(l->node);
    free(l);
}

static void free_graph(struct rt_graph *g)
{
    g->magic = 0;
    for (uint32_t i = 0; i < g->nlanes; i++) free_lane(g->lane[i]);
    free(g->lane);
    for (struct rt_group *p = g->groups, *next; p; p = next) {
        next = p->next;
        p->magic = 0;
        free(p);
    }
    rt_graph_free_conds(g);
    for (struct rt_graph *c = g->child, *next; c; c = next) {
        next = c->sibling;
        free_graph(c);
    }
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->running);
    pthread_cond_destroy(&g->idle);
    free(g);
}

void rt_graph_unref(struct rt_graph *g)
{
    if (atomic_fetch_sub(&g->refs, 1) == 1) free_graph(g);
}

struct rt_graph *rt_graph_of(void *handle)
{
    struct rt_graph *g = handle;
    return g && g->magic == GRAPH_MAGIC ? g : NULL;
}

/* ---- lanes: all with the capture lock held ----------------------------------------------------------- */

static struct rt_node *add_node(struct rt_lane *l)
{
    if (l->n == l->capacity) {
        uint32_t more = l->capacity ? 2 * l->capacity : 64;
        struct rt_node *p = realloc(l->node, more * sizeof *p);
        if (!p) return NULL;
        l->node = p;
        l->capacity = more;
    }
    struct rt_node *node = &l->node[l->n++];
    *node = (struct rt_node){0};
    return node;
}

static int add_task(struct rt_lane *l, struct rt_task *t, bool small)
{
    struct rt_graph *g = l->graph;
    const char *name = t->kind->label ? t->kind->label(t) : t->kind->name;
    if (!l->stream || g->status != ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE)
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "%s: the capture has become invalid", name);
    if (t->kind->no_capture) {
        g->status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
        return rt_fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "%s cannot be captured", name);
    }
    struct rt_node *node = add_node(l);
    if (!node) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory to capture it", name);
    node->task = t;
    node->group = l->open_group;
    if (l->open_group) l->open_group->count++;
    l->work = l->n;
    g->heavy |= !small || t->kind->ready || l->n > MAX_INLINE;
    return 0;
}

static int lane_put(struct rt_sink *sink, struct rt_task *task, bool small)
{
    struct rt_lane *l = (struct rt_lane *)sink;
    pthread_mutex_lock(&rt_capture_lock);
    int code = add_task(l, task, small);
    pthread_mutex_unlock(&rt_capture_lock);
    if (code) task->kind->drop(task);
    return code;
}

bool rt_graph_is_lane(const struct rt_sink *sink)
{
    return sink && sink->put == lane_put;
}

struct rt_lane *rt_graph_lane(struct rt_stream *s)
{
    struct rt_sink *sink = atomic_load(rt_stream_sink(s));
    return rt_graph_is_lane(sink) ? (struct rt_lane *)sink : NULL;
}

static struct rt_lane *add_lane(struct rt_graph *g, struct rt_stream *s)
{
    struct rt_lane **lanes = realloc(g->lane, (g->nlanes + 1) * sizeof *lanes);
    if (!lanes) return NULL;
    g->lane = lanes;
    struct rt_lane *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->sink.put = lane_put;
    l->graph = g;
    l->stream = s;
    l->stream_id = rt_stream_id(s);
    l->index = g->nlanes;
    g->lane[g->nlanes++] = l;
    atomic_store(rt_stream_sink(s), &l->sink);
    return l;
}

static void release_lanes(struct rt_graph *g)
{
    for (uint32_t i = 0; i < g->nlanes; i++) {
        struct rt_lane *l = g->lane[i];
        if (l->stream) atomic_store(rt_stream_sink(l->stream), NULL);
        l->stream = NULL;
    }
}

static struct rt_graph *capture_of(const struct rt_mark *m)
{
    struct rt_graph *g = active;
    while (g && g->capture != m->capture) g = g->next_active;
    return g;
}

static bool is_default(struct rt_stream *s)
{
    return rt_stream_context(s)->default_stream == s;
}

/* ---- events ------------------------------------------------------------------------------------------ */

int rt_graph_mark(struct rt_stream *s, struct rt_mark *mark)
{
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_lane *l = rt_graph_lane(s);
    if (l) *mark = (struct rt_mark){l->graph->capture, l, l->n};
    pthread_mutex_unlock(&rt_capture_lock);
    return l ? 0 : rt_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "aclrtRecordEvent: the capture is over");
}

static int wait_in(struct rt_graph *g, struct rt_stream *s, const struct rt_mark *mark)
{
    struct rt_lane *l = rt_graph_lane(s);
    if (l && l->graph != g) {
        g->status = l->graph->status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
        return rt_fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT,
                       "aclrtStreamWaitEvent: the event and the stream belong to different captures");
    }
    if (!l && is_default(s)) {
        g->status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                       "aclrtStreamWaitEvent: the default stream cannot join a capture");
    }
    if (!l) l = add_lane(g, s);
    struct rt_node *node = l && mark->lane != l ? add_node(l) : NULL;
    if (!l || (!node && mark->lane != l))
        return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtStreamWaitEvent: no memory for the capture");
    if (!node) return 0;
    node->lane = mark->lane->index;
    node->count = mark->count;
    if (mark->lane->joined < mark->count) mark->lane->joined = mark->count;
    return 0;
}

bool rt_graph_wait(struct rt_stream *s, const struct rt_mark *mark, int *code)
{
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_graph *g = capture_of(mark);
    if (g) *code = wait_in(g, s, mark);
    pthread_mutex_unlock(&rt_capture_lock);
    return g != NULL;
}

bool rt_graph_spoil(const struct rt_mark *mark)
{
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_graph *g = capture_of(mark);
    if (g) g->status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    pthread_mutex_unlock(&rt_capture_lock);
    return g != NULL;
}

int rt_graph_refuse(struct rt_stream *s, const char *what)
{
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_lane *l = rt_graph_lane(s);
    if (l) l->graph->status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    pthread_mutex_unlock(&rt_capture_lock);
    return rt_fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %u is captured: %s is not possible", rt_stream_id(s),
                   what);
}

/* ---- modes ------------------------------------------------------------------------------------------- */

int rt_graph_allow(const char *function)
{
    if (thread_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return 0;
    bool mine = thread_captures[ACL_MODEL_RI_CAPTURE_MODE_GLOBAL] ||
                thread_captures[ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL];
    bool others = thread_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && atomic_load(&nglobal);
    if (!mine && !others) return 0;
    return rt_fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                   "%s: not permitted while a stream is captured in a mode that is not relaxed", function);
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    RT_NEED(mode, ACL_ERROR_INVALID_PARAM);
    int wanted = *mode;
    RT_NEED(wanted >= ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && wanted <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED,
            ACL_ERROR_INVALID_PARAM);
    *mode = (aclmdlRICaptureMode)thread_mode;
    thread_mode = wanted;
    return ACL_SUCCESS;
}

/* ---- begin and end ----------------------------------------------------------------------------------- */

/* With the lock held. g NULL: a new graph. */
static int begin(struct rt_stream *s, struct rt_graph *g, int mode)
{
    if (rt_stream_captures(s))
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %u is captured already", rt_stream_id(s));
    if (g && (g->capture || g->nlanes))
        return rt_fail(ACL_ERROR_RT_MODEL_CAPTURED, "graph %u has been captured already", g->id);
    struct rt_graph *own = g ? g : rt_graph_new(rt_stream_device(s));
    if (!own || !add_lane(own, s)) {
        if (own && !g) rt_graph_unref(own);
        return rt_fail(ACL_ERROR_BAD_ALLOC, "no memory for a graph");
    }
    own->status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    own->mode = mode;
    own->capture = ++captures;
    own->thread = pthread_self();
    own->next_active = active;
    active = own;
    thread_captures[mode]++;
    if (mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) atomic_fetch_add(&nglobal, 1);
    return 0;
}

static int begin_on(aclrtStream stream, struct rt_graph *g, int mode, const char *function)
{
    RT_NEED(mode >= ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED,
            ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_stream *s = rt_stream_of(stream, function, &code);
    if (!s) return code;
    if (is_default(s))
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "%s: the default stream cannot be captured",
                       function);
    pthread_mutex_lock(&rt_capture_lock);
    code = begin(s, g, mode);
    pthread_mutex_unlock(&rt_capture_lock);
    return code;
}

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
    return begin_on(stream, NULL, mode, __func__);
}

aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode)
{
    struct rt_graph *g = rt_graph_of(modelRI);
    RT_NEED(g, ACL_ERROR_INVALID_PARAM);
    return begin_on(stream, g, mode, __func__);
}

static void leave(struct rt_graph *g)
{
    struct rt_graph **link = &active;
    while (*link != g) link = &(*link)->next_active;
    *link = g->next_active;
    release_lanes(g);
    if (g->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) atomic_fetch_sub(&nglobal, 1);
    if (pthread_equal(g->thread, pthread_self()) && thread_captures[g->mode]) thread_captures[g->mode]--;
    g->capture = 0;
}

static bool child_captures(const struct rt_graph *g)
{
    for (const struct rt_graph *c = g->child; c; c = c->sibling)
        if (c->capture || child_captures(c)) return true;
    return false;
}

/* The capture's verdict, once it is over. */
static int verdict(const struct rt_graph *g, bool wrong_thread)
{
    if (wrong_thread)
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                       "aclmdlRICaptureEnd: another thread began the capture, which is not relaxed");
    if (g->status != ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE)
        return rt_fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                       "aclmdlRICaptureEnd: an operation during the capture has made it invalid");
    if (child_captures(g))
        return rt_fail(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING,
                       "aclmdlRICaptureEnd: a branch of the graph is still captured");
    for (uint32_t i = 1; i < g->nlanes; i++)
        if (g->lane[i]->joined < g->lane[i]->work)
            return rt_fail(ACL_ERROR_RT_STREAM_UNJOINED,
                           "aclmdlRICaptureEnd: nothing waits for the last work of stream %u",
                           g->lane[i]->stream_id);
    return 0;
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI)
{
    RT_NEED(modelRI, ACL_ERROR_INVALID_PARAM);
    *modelRI = NULL;
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    pthread_mutex_lock(&rt_capture_lock);
    struct rt_lane *l = rt_graph_lane(s);
    struct rt_graph *g = l ? l->graph : NULL;
    if (!g)
        code = rt_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: the stream is not captured", __func__);
    else if (l->index)
        code = rt_fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "%s: the capture began on another stream",
                       __func__);
    else {
        bool wrong =
            g->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && !pthread_equal(g->thread, pthread_self());
        code = verdict(g, wrong);
        leave(g);
        if (code && g->parent) g->parent->status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    }
    pthread_mutex_unlock(&rt_capture_lock);
    if (!g || (code && g->capture)) return code;
    if (!code) *modelRI = g;
    if (code && !g->parent) rt_graph_unref(g);
    return code;
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    struct rt_graph *g = NULL;
    int now = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(rt_stream_sink(s), memory_order_relaxed)) {
        pthread_mutex_lock(&rt_capture_lock);
        struct rt_lane *l = rt_graph_lane(s);
        if (l) g = l->graph, now = g->status;
        pthread_mutex_unlock(&rt_capture_lock);
    }
    if (status) *status = (aclmdlRICaptureStatus)now;
    if (modelRI) *modelRI = g;
    return ACL_SUCCESS;
}
