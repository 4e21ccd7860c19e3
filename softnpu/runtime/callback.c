/* callback.c - host functions in stream order: on the stream's thread, or reported to a subscribed thread. */
#include "softnpu/runtime/internal.h"

#include <stdlib.h>

/* ---- aclrtLaunchHostFunc ----------------------------------------------------------------------------- */

struct host_task {
    struct rt_task task;
    aclrtHostFunc fn;
    void *args;
};

static int run_host(struct rt_task *task)
{
    struct host_task *t = (struct host_task *)task;
    t->fn(t->args);
    return 0;
}

static void drop_host(struct rt_task *task)
{
    free(task);
}

static const struct rt_task_kind host_kind = {.name = "host function", .run = run_host, .drop = drop_host};

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
    RT_NEED(fn, ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    struct host_task *t = malloc(sizeof *t);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtLaunchHostFunc: no memory");
    *t = (struct host_task){{.kind = &host_kind}, fn, args};
    return rt_stream_queue(s, &t->task,
                           false); /* never inline: the function may take the launching thread's locks */
}

/* ---- reports ----------------------------------------------------------------------------------------- */

struct report_task {
    struct rt_task task;
    aclrtCallback fn;
    void *data;
    bool block;
    uint64_t thread;
};
/* What a run of the task hands to the subscribed thread. */
struct report {
    aclrtCallback fn;
    void *data;
    bool block;
    atomic_int over; /* block: the callback has returned */
    struct report *next;
};
struct subscriber {
    uint64_t thread;
    int streams;
    struct report *head, **tail;
    struct subscriber *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct subscriber *subscribers;

/* With the lock held. */
static struct subscriber *find(uint64_t thread)
{
    struct subscriber *s = subscribers;
    while (s && s->thread != thread) s = s->next;
    return s;
}

static struct subscriber *find_or_add(uint64_t thread)
{
    struct subscriber *s = find(thread);
    if (s || !(s = calloc(1, sizeof *s))) return s;
    s->thread = thread;
    s->tail = &s->head;
    s->next = subscribers;
    subscribers = s;
    return s;
}

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    uint64_t nobody = 0;
    if (!atomic_compare_exchange_strong(rt_stream_reporter(s), &nobody, thread))
        return rt_fail(ACL_ERROR_REPEAT_SUBSCRIBE, "aclrtSubscribeReport: the stream is subscribed already");
    pthread_mutex_lock(&lock);
    struct subscriber *sub = find_or_add(thread);
    if (sub) sub->streams++;
    pthread_mutex_unlock(&lock);
    return sub ? ACL_SUCCESS : rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtSubscribeReport: no memory");
}

aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    uint64_t expected = thread;
    if (!atomic_compare_exchange_strong(rt_stream_reporter(s), &expected, 0))
        return rt_fail(ACL_ERROR_STREAM_NOT_SUBSCRIBE,
                       "aclrtUnSubscribeReport: this thread is not subscribed to the stream");
    pthread_mutex_lock(&lock);
    struct subscriber *sub = find(thread);
    if (sub && sub->streams > 0) sub->streams--;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

static bool is_over(void *arg)
{
    return atomic_load(&((struct report *)arg)->over) != 0;
}

static void drop_report(struct rt_task *task)
{
    free(task);
}

/* Hands a report over. If it blocks the stream, it stays ours; otherwise the reporting thread frees it. */
static int run_report(struct rt_task *task)
{
    const struct report_task *t = (const struct report_task *)task;
    bool block = t->block;
    struct report *r = calloc(1, sizeof *r);
    if (!r) return rt_fail(ACL_ERROR_BAD_ALLOC, "callback: no memory for its report");
    r->fn = t->fn;
    r->data = t->data;
    r->block = block;
    pthread_mutex_lock(&lock);
    struct subscriber *s = find(t->thread);
    if (s) {
        *s->tail = r;
        s->tail = &r->next;
    }
    pthread_mutex_unlock(&lock);
    if (!s) {
        free(r);
        return rt_fail(ACL_ERROR_THREAD_NOT_SUBSCRIBE, "callback for a thread that is not subscribed");
    }
    rt_wait_notify();
    if (!block) return 0;
    while (!rt_wait_until(is_over, r, 0, false)) {
    }
    free(r);
    return 0;
}

static const struct rt_task_kind report_kind = {.name = "callback", .run = run_report, .drop = drop_report};

aclError aclrtLaunchCallback(aclrtCallback fn, void *data, aclrtCallbackBlockType block, aclrtStream stream)
{
    RT_NEED(fn, ACL_ERROR_INVALID_PARAM);
    RT_NEED(block == ACL_CALLBACK_NO_BLOCK || block == ACL_CALLBACK_BLOCK, ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    uint64_t thread = atomic_load(rt_stream_reporter(s));
    if (!thread)
        return rt_fail(ACL_ERROR_STREAM_NOT_SUBSCRIBE,
                       "aclrtLaunchCallback: call aclrtSubscribeReport for the stream first");
    struct report_task *t = malloc(sizeof *t);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtLaunchCallback: no memory");
    *t = (struct report_task){{.kind = &report_kind}, fn, data, block == ACL_CALLBACK_BLOCK, thread};
    return rt_stream_queue(s, &t->task, false);
}

static bool has_report(void *arg)
{
    pthread_mutex_lock(&lock);
    struct subscriber *s = find(*(uint64_t *)arg);
    bool any = s && s->head;
    pthread_mutex_unlock(&lock);
    return any;
}

static struct report *take_reports(uint64_t thread)
{
    pthread_mutex_lock(&lock);
    struct subscriber *s = find(thread);
    struct report *r = s ? s->head : NULL;
    if (r) {
        s->head = NULL;
        s->tail = &s->head;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

aclError aclrtProcessReport(int32_t timeout)
{
    RT_NEED(timeout >= -1, ACL_ERROR_RT_PARAM_INVALID);
    uint64_t self = (uint64_t)pthread_self();
    pthread_mutex_lock(&lock);
    bool subscribed = find(self) != NULL;
    pthread_mutex_unlock(&lock);
    if (!subscribed)
        return rt_fail(ACL_ERROR_THREAD_NOT_SUBSCRIBE,
                       "aclrtProcessReport: this thread is not subscribed to any stream");
    if (!rt_wait_until(has_report, &self, rt_deadline(timeout), false))
        return rt_fail(ACL_ERROR_WAIT_CALLBACK_TIMEOUT, "aclrtProcessReport: nothing within %d ms", timeout);
    for (struct report *r = take_reports(self), *next; r; r = next) {
        next = r->next;
        bool block = r->block;
        r->fn(r->data);
        if (block) {
            atomic_store(&r->over, 1); /* r is the stream's again */
            rt_wait_notify();
        } else {
            free(r);
        }
    }
    return ACL_SUCCESS;
}
