/* event.c - events, and waiting for values in device memory.
 *
 * Recording gives an event a new generation; the stream completes that generation when it gets there. A wait
 * is for the generation that was current when it was asked for, so an event can be recorded again while
 * others still wait. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/graph.h"
#include "softnpu/runtime/ipc.h"

#include <stdlib.h>
#include <string.h>

#define EVENT_MAGIC 0xE7E47u

struct rt_event {
    uint32_t magic, id, flags;
    atomic_int refs;              /* the handle and every queued task */
    struct rt_event_state *state; /* `own`, or in a table that several processes see */
    struct rt_event_state own;
    char key[IPC_EVENT_HANDLE_SIZE];
    atomic_int waiting;    /* stream waits not yet over */
    struct rt_mark mark;   /* where it was recorded in a capture that is going on */
    struct rt_clock clock; /* race mode: what happened before it was recorded */
};

static atomic_uint next_id;

static struct rt_event *event_of(aclrtEvent handle)
{
    struct rt_event *e = handle;
    return e && e->magic == EVENT_MAGIC ? e : NULL;
}

#define EVENT(e, handle)                                                                                     \
    struct rt_event *e = event_of(handle);                                                                   \
    if (!e) return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: no such event", __func__)

static void unref(struct rt_event *e)
{
    if (atomic_fetch_sub(&e->refs, 1) == 1) {
        if (e->state != &e->own) rt_ipc_event_close(e->state);
        e->magic = 0;
        free(e);
    }
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flags)
{
    RT_NEED(event, ACL_ERROR_INVALID_PARAM);
    struct rt_event *e = calloc(1, sizeof *e);
    if (!e) return rt_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event");
    e->magic = EVENT_MAGIC;
    e->id = atomic_fetch_add(&next_id, 1);
    e->flags = flags;
    e->state = &e->own;
    atomic_store(&e->refs, 1);
    if (flags & ACL_EVENT_IPC && !(e->state = rt_ipc_event_share(&e->own, e->key))) {
        free(e);
        return ACL_ERROR_RT_INTERNAL_ERROR;
    }
    *event = e;
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flags)
{
    return aclrtCreateEventExWithFlag(event, flags);
}
aclError aclrtCreateEvent(aclrtEvent *event)
{
    return aclrtCreateEventExWithFlag(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    EVENT(e, event);
    unref(e);
    return ACL_SUCCESS;
}

aclError aclrtGetEventId(aclrtEvent event, uint32_t *id)
{
    RT_NEED(id, ACL_ERROR_INVALID_PARAM);
    EVENT(e, event);
    *id = e->id;
    return ACL_SUCCESS;
}

/* ---- tasks ------------------------------------------------------------------------------------------- */

/* generation 0: the task is part of a graph. There a record makes a new generation at every run, and a wait
 * is for the event to be recorded and complete, whichever generation that is. */
struct event_task {
    struct rt_task task;
    struct rt_event *e;
    unsigned long long generation;
    int32_t timeout_ms;
    uint32_t stream; /* number */
};

static bool complete_now(struct rt_event *e)
{
    unsigned long long generation = atomic_load(&e->state->recorded);
    return generation && atomic_load(&e->state->done) >= generation;
}

static bool is_done(void *arg)
{
    struct event_task *t = arg;
    return t->generation ? atomic_load(&t->e->state->done) >= t->generation : complete_now(t->e);
}

static void complete(struct rt_event *e, unsigned long long generation)
{
    atomic_store(&e->state->time_ns, rt_now_ns());
    unsigned long long before = atomic_load(&e->state->done);
    while (before < generation && !atomic_compare_exchange_weak(&e->state->done, &before, generation)) {
    }
    rt_wait_notify();
}

static int run_record(struct rt_task *task)
{
    struct event_task *t = (struct event_task *)task;
    rt_clock_record(t->stream, &t->e->clock);
    complete(t->e, t->generation ? t->generation : atomic_fetch_add(&t->e->state->recorded, 1) + 1);
    return 0;
}

static int run_reset(struct rt_task *task)
{
    struct event_task *t = (struct event_task *)task;
    unsigned long long same = t->generation ? t->generation : atomic_load(&t->e->state->recorded);
    if (atomic_compare_exchange_strong(&t->e->state->recorded, &same, 0)) atomic_store(&t->e->state->done, 0);
    return 0;
}

static void drop_event(struct rt_task *task)
{
    struct event_task *t = (struct event_task *)task;
    unref(t->e);
    free(t);
}

static void drop_wait(struct rt_task *task)
{
    struct event_task *t = (struct event_task *)task;
    if (t->generation) atomic_fetch_sub(&t->e->waiting, 1);
    drop_event(task);
}

static bool ready_wait(struct rt_task *task)
{
    return is_done(task);
}

/* Another process does not wake us: then look every millisecond. */
static bool wait_done(struct event_task *t, uint64_t deadline, bool cancellable)
{
    if (t->e->state == &t->e->own) return rt_wait_until(is_done, t, deadline, cancellable);
    for (;;) {
        uint64_t soon = rt_deadline(1);
        if (rt_wait_until(is_done, t, deadline && deadline < soon ? deadline : soon, cancellable))
            return true;
        if ((cancellable && rt_task_cancelled()) || (deadline && rt_now_ns() >= deadline)) return false;
    }
}

static int run_wait(struct rt_task *task)
{
    struct event_task *t = (struct event_task *)task;
    bool ok = wait_done(t, rt_deadline(t->timeout_ms), true);
    if (ok) rt_clock_wait(t->stream, &t->e->clock);
    int code = ok || rt_task_cancelled() ? 0 : ACL_ERROR_RT_REPORT_TIMEOUT;
    if (code) rt_fail(code, "event %u was not recorded within %d ms", t->e->id, t->timeout_ms);
    return code;
}

static const struct rt_task_kind record_kind = {
    .name = "event record", .run = run_record, .drop = drop_event, .always = true};
static const struct rt_task_kind reset_kind = {
    .name = "event reset", .run = run_reset, .drop = drop_event, .always = true};
static const struct rt_task_kind wait_kind = {
    .name = "event wait", .run = run_wait, .drop = drop_wait, .ready = ready_wait};

static int push(struct rt_stream *s, struct rt_event *e, const struct rt_task_kind *kind,
                unsigned long long generation, int32_t timeout_ms)
{
    struct event_task *t = malloc(sizeof *t);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", kind->name);
    *t = (struct event_task){{.kind = kind}, e, generation, timeout_ms, rt_stream_number(s)};
    atomic_fetch_add(&e->refs, 1);
    if (kind == &wait_kind && generation) atomic_fetch_add(&e->waiting, 1);
    return rt_stream_queue(s, &t->task, kind != &wait_kind);
}

/* Events that a program outside may set keep their meaning in a graph; others become its edges. */
static bool is_external(const struct rt_event *e)
{
    return e->flags & ACL_EVENT_EXTERNAL;
}

/* ---- recording and waiting --------------------------------------------------------------------------- */

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    EVENT(e, event);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    if (rt_stream_captures(s))
        return is_external(e) ? push(s, e, &record_kind, 0, -1) : rt_graph_mark(s, &e->mark);
    e->mark.capture = 0;
    unsigned long long generation = atomic_fetch_add(&e->state->recorded, 1) + 1;
    if (rt_stream_enter(s)) {
        complete(e, generation);
        return rt_stream_leave(s, 0);
    }
    return push(s, e, &record_kind, generation, -1);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    EVENT(e, event);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    bool captured = rt_stream_captures(s);
    if (captured && !is_external(e)) return ACL_SUCCESS; /* an edge of the graph stays one */
    unsigned long long generation = atomic_load(&e->state->recorded);
    if (!captured && !generation) return ACL_SUCCESS;
    return push(s, e, &reset_kind, captured ? 0 : generation, -1);
}

/* An event that was never recorded, or is complete, has nothing to wait for. */
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout)
{
    EVENT(e, event);
    int code;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    bool captured = rt_stream_captures(s);
    if (captured && is_external(e)) return push(s, e, &wait_kind, 0, timeout);
    if (e->mark.capture && rt_graph_wait(s, &e->mark, &code)) return code;
    unsigned long long generation = atomic_load(&e->state->recorded);
    if (atomic_load(&e->state->done) >= generation) {
        rt_clock_wait(rt_stream_number(s), &e->clock);
        return ACL_SUCCESS;
    }
    if (captured)
        return rt_fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                       "%s: event %u was recorded outside the capture and is not complete", __func__, e->id);
    return push(s, e, &wait_kind, generation, timeout);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    int limit = rt_op_wait_timeout_s();
    return aclrtStreamWaitEventWithTimeout(stream, event, !limit || limit > 2000000 ? -1 : limit * 1000);
}

/* ---- asking ------------------------------------------------------------------------------------------ */

/* Asking the host about an event that stands in a capture spoils the capture. */
#define NOT_CAPTURED(e)                                                                                      \
    do {                                                                                                     \
        if ((e)->mark.capture && rt_graph_spoil(&(e)->mark))                                                 \
            return rt_fail(ACL_ERROR_RT_EVENT_CAPTURED, "%s: event %u is part of a capture", __func__,       \
                           (e)->id);                                                                         \
    } while (0)

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    RT_NEED(status, ACL_ERROR_INVALID_PARAM);
    EVENT(e, event);
    NOT_CAPTURED(e);
    if (complete_now(e)) rt_clock_host_event(&e->clock);
    *status = complete_now(e) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    RT_NEED(status, ACL_ERROR_INVALID_PARAM);
    EVENT(e, event);
    *status = complete_now(e) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    RT_NEED(status, ACL_ERROR_INVALID_PARAM);
    EVENT(e, event);
    *status = atomic_load(&e->waiting) ? ACL_EVENT_WAIT_STATUS_NOT_READY : ACL_EVENT_WAIT_STATUS_COMPLETE;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    RT_NEED(timeout >= -1, ACL_ERROR_RT_PARAM_INVALID);
    EVENT(e, event);
    NOT_CAPTURED(e);
    struct event_task t = {.e = e, .generation = atomic_load(&e->state->recorded)};
    if (!t.generation)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSynchronizeEvent: event %u was never recorded",
                       e->id);
    atomic_fetch_add(&e->refs, 1);
    bool ok = wait_done(&t, rt_deadline(timeout), false);
    if (ok) rt_clock_host_event(&e->clock);
    unref(e);
    return ok ? ACL_SUCCESS
              : rt_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "aclrtSynchronizeEvent: not complete after %d ms",
                        timeout);
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    return aclrtSynchronizeEventWithTimeout(event, -1);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end)
{
    RT_NEED(ms, ACL_ERROR_INVALID_PARAM);
    EVENT(a, start);
    EVENT(b, end);
    if (!complete_now(a) || !complete_now(b))
        return rt_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                       "aclrtEventElapsedTime: both events must be recorded and complete");
    int64_t ns = (int64_t)(atomic_load(&b->state->time_ns) - atomic_load(&a->state->time_ns));
    *ms = (float)((double)ns / 1e6);
    return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    RT_NEED(timestamp, ACL_ERROR_INVALID_PARAM);
    EVENT(e, event);
    if (!complete_now(e))
        return rt_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                       "aclrtEventGetTimestamp: the event is not complete");
    *timestamp = atomic_load(&e->state->time_ns) / 1000;
    return ACL_SUCCESS;
}

/* ---- between processes ------------------------------------------------------------------------------- */

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle)
{
    RT_NEED(handle, ACL_ERROR_INVALID_PARAM);
    EVENT(e, event);
    if (!(e->flags & ACL_EVENT_IPC) || !e->key[0])
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: event %u was not made with ACL_EVENT_IPC here",
                       __func__, e->id);
    memcpy(handle->reserved, e->key, sizeof e->key);
    return ACL_SUCCESS;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event)
{
    RT_NEED(event, ACL_ERROR_INVALID_PARAM);
    int code;
    struct rt_event_state *state = rt_ipc_event_open(handle.reserved, &code);
    if (!state) return code;
    aclrtEvent made = NULL;
    code = aclrtCreateEventExWithFlag(&made, ACL_EVENT_SYNC);
    if (code) {
        rt_ipc_event_close(state);
        return code;
    }
    struct rt_event *e = made;
    e->state = state;
    e->flags |= ACL_EVENT_IPC;
    *event = made;
    return ACL_SUCCESS;
}

/* ---- values in device memory ------------------------------------------------------------------------- */

struct value_task {
    struct rt_task task;
    _Atomic(uint64_t) *at;
    uint64_t value;
    uint32_t condition;
    uint32_t stream; /* number */
};

static void drop_value(struct rt_task *task)
{
    free(task);
}

/* Race mode takes all values for one: what waits for any has waited for all that was written. */
static struct rt_clock written;

static int run_write(struct rt_task *task)
{
    struct value_task *t = (struct value_task *)task;
    rt_clock_record(t->stream, &written);
    atomic_store(t->at, t->value);
    rt_wait_notify();
    return 0;
}

static bool value_holds(void *arg)
{
    struct value_task *t = arg;
    uint64_t v = atomic_load(t->at);
    switch (t->condition) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(v - t->value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
        return v == t->value;
    case ACL_STREAM_WAIT_VALUE_AND:
        return (v & t->value) != 0;
    default:
        return ~(v | t->value) != 0;
    }
}

/* Kernels and copies write the value without telling: look again every millisecond. */
static int run_value_wait(struct rt_task *task)
{
    struct value_task *t = (struct value_task *)task;
    while (!rt_wait_until(value_holds, t, rt_deadline(1), true) && !rt_task_cancelled()) {
    }
    rt_clock_wait(t->stream, &written);
    return 0;
}

static bool ready_value(struct rt_task *task)
{
    return value_holds(task);
}

static const struct rt_task_kind write_kind = {.name = "value write", .run = run_write, .drop = drop_value};
static const struct rt_task_kind value_wait_kind = {
    .name = "value wait", .run = run_value_wait, .drop = drop_value, .ready = ready_value};

static int push_value(void *dev, uint64_t value, uint32_t condition, aclrtStream stream,
                      const struct rt_task_kind *kind, const char *function)
{
    if (!dev || !rt_is_device_ptr(dev) || (uintptr_t)dev % 8)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not an 8-byte aligned device address", function,
                       dev);
    int code;
    struct rt_stream *s = rt_stream_of(stream, function, &code);
    if (!s) return code;
    struct value_task *t = malloc(sizeof *t);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", function);
    *t = (struct value_task){{.kind = kind}, rt_kernel_ptr(dev), value, condition, rt_stream_number(s)};
    return rt_stream_queue(s, &t->task, kind == &write_kind);
}

aclError aclrtValueWrite(void *dev, uint64_t value, uint32_t flag, aclrtStream stream)
{
    RT_NEED(flag == 0, ACL_ERROR_RT_PARAM_INVALID);
    return push_value(dev, value, 0, stream, &write_kind, __func__);
}

aclError aclrtValueWait(void *dev, uint64_t value, uint32_t flag, aclrtStream stream)
{
    RT_NEED(flag <= ACL_STREAM_WAIT_VALUE_NOR, ACL_ERROR_RT_PARAM_INVALID);
    return push_value(dev, value, flag, stream, &value_wait_kind, __func__);
}
