/* stream.c - streams: an ordered queue and, once it is needed, a thread each.
 *
 * `state` holds the number of queued tasks (the running one included) and, in the top bit, whether a thread
 * that is not the stream's own is working inline. A stream is idle when it is zero: the step from zero to
 * INLINE takes possession of it without a lock, and that is the whole cost of a small operator. The stream's
 * own thread starts its next task only while INLINE is clear. Stream objects are recycled, never freed: a
 * stale handle is recognised by its magic.
 */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/fault.h"
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/graph.h"
#include "softnpu/runtime/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INLINE 0x80000000u
#define LIVE 0x57AE4Au
#define DEAD 0xDEADu

struct rt_stream {
    atomic_uint magic;
    uint32_t id, priority, flags;
    struct rt_context *ctx;
    atomic_uint state;
    atomic_int error; /* sticky */
    _Atomic(struct rt_sink *) sink;
    atomic_bool stop_on_failure;
    atomic_bool cancel;
    atomic_int waiters;
    atomic_uint overflow;
    _Atomic(uint64_t) reporter;
    atomic_uint limit[2];
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct rt_task *head, **tail; /* under the lock, as all that follows */
    uint64_t pushed, finished;
    bool has_thread, quit;
    pthread_t thread;
    char message[512];
    struct rt_stream *next; /* all streams ever made, under `registry` */
};

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct rt_stream *streams;
static uint32_t next_id;
static atomic_ullong op_timeout_us;
static atomic_int op_wait_timeout_s;
static _Thread_local struct rt_stream *current;

bool rt_task_cancelled(void)
{
    return current && atomic_load(&current->cancel);
}
uint64_t rt_op_timeout_us(void)
{
    return atomic_load(&op_timeout_us);
}
int rt_op_wait_timeout_s(void)
{
    return atomic_load(&op_wait_timeout_s);
}
int rt_stream_device(const struct rt_stream *s)
{
    return s->ctx->device;
}
uint32_t rt_stream_number(const struct rt_stream *s)
{
    return s->id;
}
atomic_uint *rt_stream_limit(struct rt_stream *s)
{
    return s->limit;
}
_Atomic(uint64_t) *rt_stream_reporter(struct rt_stream *s)
{
    return &s->reporter;
}
_Atomic(struct rt_sink *) *rt_stream_sink(struct rt_stream *s)
{
    return &s->sink;
}
bool rt_stream_captures(struct rt_stream *s)
{
    return rt_graph_is_lane(atomic_load_explicit(&s->sink, memory_order_relaxed));
}
struct rt_context *rt_stream_context(const struct rt_stream *s)
{
    return s->ctx;
}

/* ---- running a task ---------------------------------------------------------------------------------- */

static void set_error(struct rt_stream *s, int code)
{
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->error)) {
        snprintf(s->message, sizeof s->message, "%s", rt_recent_message());
        atomic_store(&s->error, code);
    }
    pthread_mutex_unlock(&s->lock);
}

/* The first failure stays the context's. */
static void stop_context(struct rt_stream *s, int code)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    const char *text = strstr(rt_recent_message(), ": ");
    pthread_mutex_lock(&one);
    if (!atomic_load(&s->ctx->failure)) {
        snprintf(s->ctx->failure_text, sizeof s->ctx->failure_text, "%s", text ? text + 2 : "a task failed");
        atomic_store(&s->ctx->failure, code);
    }
    pthread_mutex_unlock(&one);
}

static int note_result(struct rt_stream *s, int code)
{
    if (__builtin_expect(!code || atomic_load(&s->cancel), 1)) return code;
    set_error(s, code);
    bool memory = code == ACL_ERROR_RT_DEVICE_MEM_ERROR || code == ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR;
    int device = s->ctx->device;
    rt_device_error_note(device, code, memory ? rt_memory_first(device) : NULL, memory ? 2u << 20 : 0);
    if (atomic_load(&s->stop_on_failure) || code == ACL_ERROR_RT_LOST_HEARTBEAT) stop_context(s, code);
    return code;
}

static bool failed_for_good(const struct rt_stream *s)
{
    return atomic_load_explicit(&s->ctx->failure, memory_order_relaxed) != 0;
}

/* Events are not work, and the tasks of a graph are recorded one by one. */
static bool is_recorded(const struct rt_task *t)
{
    return !t->kind->always && !t->kind->ready && !t->kind->no_record;
}

static int perform(struct rt_stream *s, struct rt_task *t)
{
    if (__builtin_expect(!atomic_load_explicit(&rt_profile_on, memory_order_relaxed), 1) || !is_recorded(t))
        return t->kind->run(t);
    uint64_t start = rt_profile_now();
    int code = t->kind->run(t);
    rt_profile_task(s, t, t->launched, start, rt_profile_now());
    return code;
}

int rt_task_perform(struct rt_task *t)
{
    return current ? perform(current, t) : t->kind->run(t);
}

static int run_task(struct rt_stream *s, struct rt_task *t)
{
    struct rt_stream *outer = current;
    bool always = t->kind->always;
    current = s;
    int code = 0;
    if (__builtin_expect(rt_check_race(), 0)) rt_clock_start(s->id);
    if (always || !(failed_for_good(s) || atomic_load(&s->cancel))) code = perform(s, t);
    if (!always && rt_fault_any() && rt_fault_task()) code = rt_fault_task_code();
    note_result(s, code);
    t->kind->drop(t);
    current = outer;
    return code;
}

/* ---- inline work ------------------------------------------------------------------------------------- */

static bool take_inline(struct rt_stream *s)
{
    unsigned idle = 0;
    return atomic_compare_exchange_strong(&s->state, &idle, INLINE);
}

static void release_inline(struct rt_stream *s)
{
    unsigned before = atomic_fetch_and(&s->state, ~INLINE);
    if (before == INLINE && !atomic_load(&s->waiters)) return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_signal(&s->work);
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
}

/* SOFTNPU_BLOCKING: waits for possession instead of queueing. */
static void take_inline_blocking(struct rt_stream *s)
{
    if (take_inline(s)) return;
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add(&s->waiters, 1);
    while (!take_inline(s)) pthread_cond_wait(&s->done, &s->lock);
    atomic_fetch_sub(&s->waiters, 1);
    pthread_mutex_unlock(&s->lock);
}

bool rt_stream_enter(struct rt_stream *s)
{
    if (rt_fault_any() || failed_for_good(s) || atomic_load_explicit(&s->sink, memory_order_relaxed) ||
        atomic_load_explicit(&rt_profile_on, memory_order_relaxed) || rt_check_any())
        return false;
    if (!take_inline(s)) {
        if (!rt_settings()->blocking || current == s) return false;
        take_inline_blocking(s);
    }
    return true;
}

int rt_stream_leave(struct rt_stream *s, int code)
{
    note_result(s, code);
    release_inline(s);
    return code;
}

/* ---- the stream's own thread ------------------------------------------------------------------------- */

static struct rt_task *pop(struct rt_stream *s)
{
    struct rt_task *t = s->head;
    s->head = t->next;
    if (!s->head) s->tail = &s->head;
    return t;
}

static void count_finished(struct rt_stream *s, unsigned n)
{
    s->finished += n;
    atomic_fetch_sub(&s->state, n);
    if (atomic_load(&s->waiters)) pthread_cond_broadcast(&s->done);
}

static void *serve(void *arg)
{
    struct rt_stream *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!(s->head && !(atomic_load(&s->state) & INLINE)) && !s->quit)
            pthread_cond_wait(&s->work, &s->lock);
        if (s->quit) break;
        struct rt_task *t = pop(s);
        pthread_mutex_unlock(&s->lock);
        run_task(s, t);
        pthread_mutex_lock(&s->lock);
        count_finished(s, 1);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static bool need_thread(struct rt_stream *s)
{
    if (s->has_thread) return true;
    char name[16];
    snprintf(name, sizeof name, "npu-stream%u", s->id % 10000);
    s->quit = false;
    s->has_thread = rt_thread_start(&s->thread, name, serve, s);
    return s->has_thread;
}

static int append(struct rt_stream *s, struct rt_task *t)
{
    pthread_mutex_lock(&s->lock);
    if (!need_thread(s)) {
        pthread_mutex_unlock(&s->lock);
        t->kind->drop(t);
        return rt_fail(ACL_ERROR_RT_INTERNAL_ERROR,
                       "no thread for stream %u: the process has reached its limit", s->id);
    }
    t->next = NULL;
    *s->tail = t;
    s->tail = &t->next;
    s->pushed++;
    atomic_fetch_add(&s->state, 1);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* The stream's error, with the message of the task that failed. It is told once, unless the context stopped
 * with it; in a context that stopped, streams without an error of their own tell the context's. */
static int report_error(struct rt_stream *s, bool forget)
{
    int code = atomic_load(&s->error), stopped = atomic_load(&s->ctx->failure);
    if (!code && stopped)
        return rt_fail(stopped, "stream %u: the context has stopped: %s", s->id, s->ctx->failure_text);
    if (!code) return 0;
    if (forget && !stopped) atomic_compare_exchange_strong(&s->error, &code, 0);
    pthread_mutex_lock(&s->lock);
    char why[sizeof s->message];
    memcpy(why, s->message, sizeof why);
    pthread_mutex_unlock(&s->lock);
    const char *text = strstr(why, ": ");
    return rt_fail(code, "stream %u: %s", s->id, text ? text + 2 : "a task failed");
}

int rt_stream_queue(struct rt_stream *s, struct rt_task *task, bool small)
{
    struct rt_sink *sink = atomic_load_explicit(&s->sink, memory_order_acquire);
    if (__builtin_expect(sink != NULL, 0)) return sink->put(sink, task, small);
    if (__builtin_expect(atomic_load_explicit(&rt_profile_on, memory_order_relaxed), 0))
        task->launched = rt_profile_now();
    if (__builtin_expect(rt_check_race(), 0)) rt_clock_launch(s->id);
    if (!task->kind->always && failed_for_good(s)) {
        task->kind->drop(task);
        return report_error(s, false);
    }
    if (current == s && rt_settings()->blocking) return run_task(s, task), 0;
    if (rt_settings()->blocking)
        take_inline_blocking(s);
    else if (!small || !take_inline(s))
        return append(s, task);
    run_task(s, task);
    release_inline(s);
    return 0;
}

int rt_stream_push(aclrtStream stream, struct rt_task *task, bool small)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, "stream", &code);
    if (s) return rt_stream_queue(s, task, small);
    task->kind->drop(task);
    return code;
}

/* ---- waiting ----------------------------------------------------------------------------------------- */

struct goal {
    uint64_t finished;
    bool inline_too;
};

static bool reached(const struct rt_stream *s, const struct goal *g)
{
    return s->finished >= g->finished && !(g->inline_too && (atomic_load(&s->state) & INLINE));
}

/* With the lock held; false when the time is over. */
static bool wait_goal(struct rt_stream *s, const struct goal *g, uint64_t deadline)
{
    while (!reached(s, g)) {
        if (!deadline) {
            pthread_cond_wait(&s->done, &s->lock);
            continue;
        }
        if (rt_now_ns() >= deadline) return false;
        struct timespec until;
        rt_deadline_spec(deadline, &until);
        pthread_cond_timedwait(&s->done, &s->lock, &until);
    }
    return true;
}

int rt_stream_wait(struct rt_stream *s, int32_t timeout_ms)
{
    if (current == s)
        return rt_fail(ACL_ERROR_RT_STREAM_CONTEXT, "stream %u: one of its tasks waits for it", s->id);
    if (rt_stream_captures(s)) return rt_graph_refuse(s, "waiting for it");
    if (atomic_load(&s->state)) {
        uint64_t deadline = rt_deadline(timeout_ms);
        pthread_mutex_lock(&s->lock);
        atomic_fetch_add(&s->waiters, 1);
        struct goal g = {s->pushed, (atomic_load(&s->state) & INLINE) != 0};
        bool in_time = wait_goal(s, &g, deadline);
        atomic_fetch_sub(&s->waiters, 1);
        pthread_mutex_unlock(&s->lock);
        if (!in_time)
            return rt_fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %u: work is not done after %d ms", s->id,
                           timeout_ms);
    }
    rt_clock_host_stream(s->id);
    return report_error(s, true);
}

int rt_stream_drain(aclrtStream stream)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, "stream", &code);
    return s ? rt_stream_wait(s, -1) : code;
}

void rt_stream_abort(struct rt_stream *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->cancel, true);
    struct rt_task *dropped = s->head;
    s->head = NULL;
    s->tail = &s->head;
    pthread_mutex_unlock(&s->lock);
    rt_wait_notify();
    unsigned n = 0;
    for (struct rt_task *t = dropped, *next; t; t = next, n++) {
        next = t->next;
        if (t->kind->always) t->kind->run(t);
        t->kind->drop(t);
    }
    pthread_mutex_lock(&s->lock);
    count_finished(s, n);
    atomic_fetch_add(&s->waiters, 1);
    struct goal g = {s->pushed, true};
    if (current != s) wait_goal(s, &g, 0);
    atomic_fetch_sub(&s->waiters, 1);
    atomic_store(&s->cancel, false);
    atomic_store(&s->error, 0);
    pthread_mutex_unlock(&s->lock);
}

/* ---- making and ending streams ----------------------------------------------------------------------- */

static void init_sync(struct rt_stream *s)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, &a);
    pthread_cond_init(&s->done, &a);
    pthread_condattr_destroy(&a);
}

static void forget_work(struct rt_stream *s)
{
    s->head = NULL;
    s->tail = &s->head;
    s->finished = s->pushed;
    s->has_thread = false;
    atomic_store(&s->state, 0);
    atomic_store(&s->waiters, 0);
    atomic_store(&s->cancel, false);
}

/* A forked child has no stream threads; what the parent had queued is the parent's. */
static void after_fork(void)
{
    pthread_mutex_init(&registry, NULL);
    for (struct rt_stream *s = streams; s; s = s->next) {
        init_sync(s);
        forget_work(s);
    }
}

static void init_once(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

/* A recycled or new object, listed but not yet live. */
static struct rt_stream *obtain(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
    pthread_mutex_lock(&registry);
    struct rt_stream *s = streams;
    while (s && atomic_load(&s->magic) != DEAD) s = s->next;
    if (!s && (s = calloc(1, sizeof *s))) {
        init_sync(s);
        s->next = streams;
        streams = s;
    }
    if (s) {
        atomic_store(&s->magic, 0);
        s->id = next_id++;
    }
    pthread_mutex_unlock(&registry);
    return s;
}

struct rt_stream *rt_stream_new(struct rt_context *ctx, uint32_t priority, uint32_t flags)
{
    struct rt_stream *s = obtain();
    if (!s) return NULL;
    forget_work(s);
    s->ctx = ctx;
    s->priority = priority;
    s->flags = flags;
    s->message[0] = 0;
    atomic_store(&s->error, 0);
    atomic_store(&s->sink, NULL);
    atomic_store(&s->stop_on_failure, false);
    atomic_store(&s->overflow, 0);
    atomic_store(&s->reporter, 0);
    atomic_store(&s->limit[0], 0);
    atomic_store(&s->limit[1], 0);
    atomic_store(&s->magic, LIVE);
    return s;
}

void rt_stream_delete(struct rt_stream *s, bool force)
{
    if (force)
        rt_stream_abort(s);
    else
        rt_stream_wait(s, -1);
    pthread_mutex_lock(&s->lock);
    bool join = s->has_thread && current != s;
    s->quit = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (join) pthread_join(s->thread, NULL);
    s->has_thread = false;
    atomic_store(&s->magic, DEAD);
}

static bool is_live(const struct rt_stream *s)
{
    return atomic_load_explicit(&((struct rt_stream *)(uintptr_t)s)->magic, memory_order_relaxed) == LIVE;
}

struct rt_stream *rt_stream_of(aclrtStream handle, const char *function, int *code)
{
    struct rt_stream *s = handle;
    *code = 0;
    if (!s) {
        struct rt_context *ctx = rt_context_current();
        if (ctx) return ctx->default_stream;
        *code = rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "%s: no context; call aclrtSetDevice first", function);
        return NULL;
    }
    if (is_live(s)) return s;
    *code = rt_closing()
                ? 0
                : rt_fail(ACL_ERROR_RT_STREAM_CONTEXT, "%s: the stream does not exist (any more)", function);
    return NULL;
}

uint32_t rt_stream_id(aclrtStream stream)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, "stream", &code);
    return s ? s->id : 0;
}

int rt_stream_each(int device, const struct rt_context *ctx, int (*fn)(struct rt_stream *s, void *arg),
                   void *arg)
{
    int first = 0;
    pthread_mutex_lock(&registry);
    struct rt_stream *s = streams;
    pthread_mutex_unlock(&registry);
    for (; s; s = s->next) { /* objects are never freed and only added in front */
        if (!is_live(s) || (device >= 0 && s->ctx->device != device) || (ctx && s->ctx != ctx)) continue;
        int code = fn(s, arg);
        if (code && !first) first = code;
    }
    return first;
}

/* ---- the interface ----------------------------------------------------------------------------------- */

#define STREAM(s, handle)                                                                                    \
    int no_stream;                                                                                           \
    struct rt_stream *s = rt_stream_of(handle, __func__, &no_stream);                                        \
    if (!s) return no_stream

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flags)
{
    RT_NEED(stream, ACL_ERROR_INVALID_PARAM);
    RT_NEED_CONTEXT(ctx);
    struct rt_stream *s = rt_stream_new(ctx, priority, flags);
    if (!s) return rt_fail(ACL_ERROR_BAD_ALLOC, "no memory for a stream");
    *stream = s;
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    return aclrtCreateStreamWithConfig(stream, 0, 0);
}

static int destroy(aclrtStream stream, bool force, const char *function)
{
    if (!stream)
        return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: the default stream cannot be destroyed", function);
    int code;
    struct rt_stream *s = rt_stream_of(stream, function, &code);
    if (!s) return code;
    if (rt_stream_captures(s)) return rt_graph_refuse(s, "destroying it");
    rt_stream_delete(s, force);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    return destroy(stream, false, __func__);
}
aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    return destroy(stream, true, __func__);
}

aclError aclrtStreamAbort(aclrtStream stream)
{
    STREAM(s, stream);
    rt_stream_abort(s);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    RT_NEED(timeout >= -1, ACL_ERROR_RT_PARAM_INVALID);
    STREAM(s, stream);
    return rt_stream_wait(s, timeout);
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    STREAM(s, stream);
    return rt_stream_wait(s, -1);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    RT_NEED(status, ACL_ERROR_INVALID_PARAM);
    STREAM(s, stream);
    if (rt_stream_captures(s)) return rt_graph_refuse(s, "querying it");
    *status = atomic_load(&s->state) ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
    return report_error(s, false);
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *id)
{
    RT_NEED(id, ACL_ERROR_INVALID_PARAM);
    STREAM(s, stream);
    *id = (int32_t)s->id;
    return ACL_SUCCESS;
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    RT_NEED(priority, ACL_ERROR_INVALID_PARAM);
    STREAM(s, stream);
    *priority = s->priority;
    return ACL_SUCCESS;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    RT_NEED(flags, ACL_ERROR_INVALID_PARAM);
    STREAM(s, stream);
    *flags = s->flags;
    return ACL_SUCCESS;
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    RT_NEED(mode <= ACL_STOP_ON_FAILURE, ACL_ERROR_RT_PARAM_INVALID);
    STREAM(s, stream);
    atomic_store(&s->stop_on_failure, mode == ACL_STOP_ON_FAILURE);
    return ACL_SUCCESS;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
    STREAM(s, stream);
    atomic_store(&s->overflow, flag);
    return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag)
{
    RT_NEED(flag, ACL_ERROR_INVALID_PARAM);
    STREAM(s, stream);
    *flag = atomic_load(&s->overflow);
    return ACL_SUCCESS;
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr attr, aclrtStreamAttrValue *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    switch (attr) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
        return aclrtSetStreamFailureMode(stream, value->failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        return aclrtSetStreamOverflowSwitch(stream, value->overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        return ACL_SUCCESS; /* for the vendor's profiler and graph capture only */
    }
    return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: unknown attribute %d", __func__, (int)attr);
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t microseconds, uint64_t *actual)
{
    atomic_store(&op_timeout_us, microseconds);
    if (actual) *actual = microseconds;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t seconds)
{
    return aclrtSetOpExecuteTimeOutV2(seconds * 1000000ull, NULL);
}
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t ms)
{
    return aclrtSetOpExecuteTimeOutV2(ms * 1000ull, NULL);
}

aclError aclrtSetOpWaitTimeout(uint32_t seconds)
{
    atomic_store(&op_wait_timeout_s, seconds > 0x7FFFFFFF ? 0x7FFFFFFF : (int)seconds);
    return ACL_SUCCESS;
}

static int wait_one(struct rt_stream *s, void *deadline)
{
    uint64_t until = *(uint64_t *)deadline, now = until ? rt_now_ns() : 0;
    int32_t left = -1;
    if (until) left = now < until ? (int32_t)((until - now) / 1000000) + 1 : 0;
    return rt_stream_wait(s, left);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    RT_NEED(timeout >= -1, ACL_ERROR_RT_PARAM_INVALID);
    if (rt_closing() && !rt_context_current()) return ACL_SUCCESS;
    RT_NEED_CONTEXT(ctx);
    uint64_t deadline = rt_deadline(timeout);
    return rt_stream_each(ctx->device, NULL, wait_one, &deadline);
}

aclError aclrtSynchronizeDevice(void)
{
    return aclrtSynchronizeDeviceWithTimeout(-1);
}

static int abort_one(struct rt_stream *s, void *arg)
{
    (void)arg;
    rt_stream_abort(s);
    atomic_store(&s->ctx->failure, 0);
    return 0;
}

aclError aclrtDeviceTaskAbort(int32_t device, uint32_t timeout)
{
    (void)timeout; /* dropping queued work does not take long */
    RT_NEED(device >= 0 && device < rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID);
    return rt_stream_each(device, NULL, abort_one, NULL);
}
