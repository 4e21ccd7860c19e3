/* graph.h - graphs of captured work (aclmdlRI, "model runtime instances").
 *
 * While a stream is captured, its tasks go into a lane of a graph instead of into the stream's queue. A graph
 * has one lane for the stream that began the capture and one for every stream that joined by waiting for an
 * event recorded in the capture; such waits are the graph's edges ("lane L has done its first N nodes").
 * Executing a graph runs its lanes on the executing stream: each as far as its edges allow, in turn.
 *
 * Facts: public AscendCL reference, "model running instance management". */
#ifndef SOFTNPU_GRAPH_H
#define SOFTNPU_GRAPH_H

#include "softnpu/runtime/internal.h"

struct rt_graph;
struct rt_lane;

/* Where an event was recorded: after the first count nodes of a lane of capture number `capture` (0: not in a
 * capture). Only meaningful while that capture goes on; every function below checks. */
struct rt_mark {
    uint64_t capture;
    struct rt_lane *lane;
    uint32_t count;
};

bool rt_graph_is_lane(const struct rt_sink *sink);
/* The captured stream s records: fills mark. */
int rt_graph_mark(struct rt_stream *s, struct rt_mark *mark);
/* Stream s waits for what mark stands for; s joins the capture if it is not part of it. False if the mark's
 * capture is over: then the event is an ordinary one. *code: 0 or an aclError. */
bool rt_graph_wait(struct rt_stream *s, const struct rt_mark *mark, int *code);
/* Makes the mark's capture invalid; false if it is over. */
bool rt_graph_spoil(const struct rt_mark *mark);
/* Makes the capture of stream s invalid and returns 107027; what: "querying it". */
int rt_graph_refuse(struct rt_stream *s, const char *what);
/* For calls that do not go through a stream (aclrtMemcpy, aclrtMemset): 0, or the error that the captures
 * going on ask for in this thread's mode. */
int rt_graph_allow(const char *function);

/* ---- shared by graph.c (capture), graph_run.c (execution) and graph_update.c (groups, conditions) ---- */

enum { GRAPH_MAGIC = 0x64A9, GROUP_MAGIC = 0x6409, COND_MAGIC = 0xC04D };

struct rt_group { /* nodes of one lane that may be replaced */
    uint32_t magic;
    struct rt_graph *graph;
    uint32_t lane, first, count;
    struct rt_group *next;
};
struct rt_node {
    struct rt_task *task;   /* NULL: an edge */
    uint32_t lane, count;   /* edge: the lane that must have done count nodes */
    struct rt_group *group; /* it may be replaced: look at task under the graph's lock */
    bool busy;              /* running, with a group */
};
struct rt_lane {
    struct rt_sink sink;
    struct rt_graph *graph;
    struct rt_stream *stream; /* NULL after the capture */
    uint32_t index, stream_id;
    struct rt_node *node;
    uint32_t n, capacity;
    uint32_t work;   /* nodes up to the last task */
    uint32_t joined; /* the most nodes that an edge of another lane asks for */
    struct rt_group *open_group;
};
struct rt_cond { /* a condition's value in device memory */
    uint32_t magic;
    struct rt_graph *graph;
    int64_t offset;
    uint64_t initial;
    bool reset; /* to initial, at the start of every execution */
    struct rt_cond *next;
};
struct rt_graph {
    uint32_t magic, id;
    int device;
    atomic_int refs;
    pthread_mutex_t lock; /* tasks and busy of nodes in groups */
    pthread_cond_t idle;
    pthread_mutex_t running; /* one execution at a time */
    struct rt_lane **lane;
    uint32_t nlanes;
    bool heavy; /* not to be run on the launching thread */
    int status; /* ACL_MODEL_RI_CAPTURE_STATUS_* */
    int mode;
    uint64_t capture; /* number of the capture going on, 0: none */
    pthread_t thread; /* that began it */
    struct rt_group *groups;
    struct rt_cond *conds;
    struct rt_graph *parent, *child, *sibling; /* children: branches of conditions, owned */
    struct rt_graph *next_active;
};

struct rt_graph *rt_graph_new(int device);
void rt_graph_unref(struct rt_graph *g);
struct rt_graph *rt_graph_of(void *handle);
/* The lane that stream s is captured into, NULL if none. */
struct rt_lane *rt_graph_lane(struct rt_stream *s);
/* Runs all of the graph; 0, or the first error. On the executing stream's thread. */
int rt_graph_run(struct rt_graph *g);
uint64_t *rt_graph_cond_value(const struct rt_cond *c);
void rt_graph_free_conds(struct rt_graph *g);
/* The lock of everything about captures that go on. */
extern pthread_mutex_t rt_capture_lock;

#endif
