/* softnpu_runtime_stream.c - order, errors, time limits, events, callbacks, values, faults. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static int set_up(void **state)
{
    (void)state;
    return aclrtSetDevice(0);
}

static int tear_down(void **state)
{
    (void)state;
    rt_fault_set(NULL);
    aclrtSetOpExecuteTimeOut(0);
    return aclrtResetDevice(0);
}

static aclrtStream new_stream(void)
{
    aclrtStream s = NULL;
    assert_int_equal(aclrtCreateStream(&s), 0);
    return s;
}

static aclrtEvent new_event(void)
{
    aclrtEvent e = NULL;
    assert_int_equal(aclrtCreateEventExWithFlag(&e, ACL_EVENT_TIME_LINE), 0);
    return e;
}

/* ---- tasks for tests: write their number down; or wait at a gate ------------------------------------- */

enum { NLOG = 4096 };
static atomic_int log_length;
static int log_entry[NLOG];
static atomic_int dropped;
static pthread_t last_thread;

struct noting {
    struct rt_task task;
    int number, result;
    bool ran;
};

static int note(struct rt_task *t)
{
    struct noting *n = (struct noting *)t;
    log_entry[atomic_fetch_add(&log_length, 1) % NLOG] = n->number;
    last_thread = pthread_self();
    n->ran = true;
    return n->result ? rt_fail(n->result, "task %d failed", log_entry[0]) : 0;
}

/* Counts the tasks that did not run. */
static void drop_noting(struct rt_task *t)
{
    if (!((struct noting *)t)->ran) atomic_fetch_add(&dropped, 1);
    free(t);
}

static void drop(struct rt_task *t)
{
    free(t);
}

static const struct rt_task_kind noting_kind = {.name = "noting", .run = note, .drop = drop_noting};

static int push(aclrtStream s, int number, int result, bool small)
{
    struct noting *n = malloc(sizeof *n);
    *n = (struct noting){{.kind = &noting_kind}, number, result, false};
    return rt_stream_push(s, &n->task, small);
}

static atomic_bool gate_open;
static atomic_int at_gate;

static bool is_open(void *arg)
{
    (void)arg;
    return atomic_load(&gate_open);
}

static void wait_at_gate(void *arg)
{
    (void)arg;
    atomic_fetch_add(&at_gate, 1);
    rt_wait_notify();
    rt_wait_until(is_open, NULL, 0, true);
}

static bool arrived(void *arg)
{
    (void)arg;
    return atomic_load(&at_gate) > 0;
}

/* The stream is busy until open_gate. */
static void close_gate(aclrtStream s)
{
    atomic_store(&gate_open, false);
    atomic_store(&at_gate, 0);
    assert_int_equal(aclrtLaunchHostFunc(s, wait_at_gate, NULL), 0);
    assert_true(rt_wait_until(arrived, NULL, rt_deadline(60000), false));
}

static void open_gate(void)
{
    atomic_store(&gate_open, true);
    rt_wait_notify();
}

static void start_log(void)
{
    atomic_store(&log_length, 0);
    atomic_store(&dropped, 0);
}

/* ---- order ------------------------------------------------------------------------------------------- */

static void small_tasks_run_at_once(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    start_log();
    assert_int_equal(push(s, 1, 0, true), 0);
    assert_int_equal(log_length, 1); /* already done */
    assert_true(pthread_equal(last_thread, pthread_self()));
    assert_int_equal(push(s, 2, 0, false), 0);
    assert_int_equal(rt_stream_drain(s), 0);
    if (!rt_settings()->blocking) assert_false(pthread_equal(last_thread, pthread_self()));
}

static void order_is_kept(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    start_log();
    for (int i = 0; i < 2000; i++) assert_int_equal(push(s, i, 0, i % 3 != 0), 0);
    assert_int_equal(rt_stream_drain(s), 0);
    assert_int_equal(log_length, 2000);
    for (int i = 0; i < 2000; i++) assert_int_equal(log_entry[i], i);
}

static atomic_int inside;

static int exclusive(struct rt_task *t)
{
    assert_int_equal(atomic_fetch_add(&inside, 1), 0);
    for (volatile int i = 0; i < 200; i = i + 1) {
    }
    atomic_fetch_sub(&inside, 1);
    (void)t;
    return 0;
}

static const struct rt_task_kind exclusive_kind = {.name = "exclusive", .run = exclusive, .drop = drop};

static void *push_many(void *s)
{
    for (int i = 0; i < 2000; i++) {
        struct rt_task *t = malloc(sizeof *t);
        *t = (struct rt_task){.kind = &exclusive_kind};
        rt_stream_push(s, t, i % 2);
        if (i % 100 == 0) rt_stream_drain(s);
    }
    return NULL;
}

static void one_task_at_a_time(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, push_many, s);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    assert_int_equal(rt_stream_drain(s), 0);
    assert_int_equal(inside, 0);
}

static void default_stream_is_the_contexts(void **state)
{
    (void)state;
    start_log();
    assert_int_equal(push(NULL, 5, 0, true), 0);
    assert_int_equal(log_length, 1);
    aclrtContext ctx;
    assert_int_equal(aclrtCreateContext(&ctx, 0), 0);
    uint32_t id = rt_stream_id(NULL);
    assert_int_equal(aclrtSetDevice(0), 0);
    assert_true(rt_stream_id(NULL) != id);
    assert_int_equal(aclrtDestroyContext(ctx), 0);
    assert_int_equal(aclrtSetCurrentContext(ctx), ACL_ERROR_RT_CONTEXT_NULL);
}

static void *no_context(void *arg)
{
    (void)arg;
    start_log();
    assert_int_equal(push(NULL, 1, 0, true), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(dropped, 1);
    aclrtStream s;
    assert_int_equal(aclrtCreateStream(&s), ACL_ERROR_RT_CONTEXT_NULL);
    assert_non_null(strstr(aclGetRecentErrMsg(), "aclrtCreateStreamWithConfig"));
    return NULL;
}

static void threads_need_a_context(void **state)
{
    (void)state;
    pthread_t t;
    pthread_create(&t, NULL, no_context, NULL);
    pthread_join(t, NULL);
}

/* ---- errors and limits ------------------------------------------------------------------------------- */

/* By default an error is told once; a stream that stops on failure stops its whole context. */
static void errors_are_told(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    start_log();
    assert_int_equal(push(s, 1, ACL_ERROR_RT_AICORE_EXCEPTION, false), 0);
    assert_int_equal(rt_stream_drain(s), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_non_null(strstr(aclGetRecentErrMsg(), "task 1 failed"));
    assert_int_equal(push(s, 2, 0, false), 0); /* continue on failure is the default */
    assert_int_equal(rt_stream_drain(s), 0);
    assert_int_equal(log_length, 2);
    assert_int_equal(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE), 0);
    assert_int_equal(push(s, 1, ACL_ERROR_RT_AICORE_EXCEPTION, false), 0);
    assert_int_equal(rt_stream_drain(s), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_int_equal(push(s, 3, 0, false), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_int_equal(log_length, 3);
    assert_int_equal(dropped, 1);
    aclrtEvent e = new_event(); /* events of a failed stream still complete: waiters must not hang */
    assert_int_equal(aclrtRecordEvent(e, s), 0);
    assert_int_equal(aclrtSynchronizeEvent(e), 0);
    assert_int_equal(aclrtDestroyEvent(e), 0);
    aclrtStream other = new_stream();
    assert_int_equal(rt_stream_drain(other), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_int_equal(push(other, 4, 0, false), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_int_equal(aclrtDeviceTaskAbort(0, 0), 0);
    assert_int_equal(push(other, 4, 0, false), 0);
    assert_int_equal(rt_stream_drain(other), 0);
    assert_int_equal(rt_stream_drain(s), 0);
    assert_int_equal(aclrtDestroyStream(s), 0);
    assert_int_equal(rt_stream_drain(s), ACL_ERROR_RT_STREAM_CONTEXT);
}

static void waiting_ends_in_time(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    aclrtEvent e = new_event();
    close_gate(s);
    assert_int_equal(aclrtRecordEvent(e, s), 0);
    assert_int_equal(aclrtSynchronizeStreamWithTimeout(s, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_int_equal(aclrtSynchronizeEventWithTimeout(e, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_int_equal(aclrtSynchronizeDeviceWithTimeout(20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_int_equal(aclrtSynchronizeStreamWithTimeout(s, -2), ACL_ERROR_RT_PARAM_INVALID);
    aclrtStreamStatus status;
    assert_int_equal(aclrtStreamQuery(s, &status), 0);
    assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
    open_gate();
    assert_int_equal(aclrtSynchronizeStreamWithTimeout(s, 60000), 0);
    assert_int_equal(aclrtStreamQuery(s, &status), 0);
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    aclrtDestroyEvent(e);
}

static void abort_drops_queued_work(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    start_log();
    close_gate(s);
    for (int i = 0; i < 10; i++) push(s, i, 0, false);
    assert_int_equal(aclrtStreamAbort(s), 0); /* the gate sees the abort */
    assert_int_equal(log_length, 0);
    assert_int_equal(dropped, 10);
    assert_int_equal(push(s, 1, 0, false), 0);
    assert_int_equal(rt_stream_drain(s), 0); /* the stream works on */
    assert_int_equal(log_length, 1);
    close_gate(s);
    push(s, 2, 0, false);
    assert_int_equal(aclrtDestroyStreamForce(s), 0);
    assert_int_equal(log_length, 1);
}

static void destroy_waits(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    start_log();
    for (int i = 0; i < 500; i++) push(s, i, 0, false);
    assert_int_equal(aclrtDestroyStream(s), 0);
    assert_int_equal(log_length, 500);
}

/* ---- events ------------------------------------------------------------------------------------------ */

static aclrtEventRecordedStatus status_of(aclrtEvent e)
{
    aclrtEventRecordedStatus status;
    assert_int_equal(aclrtQueryEventStatus(e, &status), 0);
    return status;
}

static void events_complete_at_once_when_idle(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    aclrtEvent a = new_event(), b = new_event();
    float ms;
    uint64_t us;
    assert_int_equal(status_of(a), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    assert_int_equal(aclrtSynchronizeEvent(a), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtEventElapsedTime(&ms, a, b), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    assert_int_equal(aclrtRecordEvent(a, s), 0);
    assert_int_equal(status_of(a), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    usleep(3000);
    assert_int_equal(aclrtRecordEvent(b, s), 0);
    assert_int_equal(aclrtEventElapsedTime(&ms, a, b), 0);
    assert_true(ms >= 3.0f);
    assert_int_equal(aclrtEventGetTimestamp(b, &us), 0);
    assert_true(us > 0);
    aclrtDestroyEvent(a);
    aclrtDestroyEvent(b);
    assert_int_equal(aclrtRecordEvent(NULL, s), ACL_ERROR_INVALID_PARAM);
}

static void events_order_streams(void **state)
{
    (void)state;
    aclrtStream first = new_stream(), second = new_stream();
    aclrtEvent e = new_event();
    start_log();
    close_gate(first);
    push(first, 1, 0, true);
    assert_int_equal(aclrtRecordEvent(e, first), 0);
    assert_int_equal(aclrtStreamWaitEvent(second, e), 0);
    push(second, 2, 0, true);
    aclrtEventWaitStatus waiting;
    assert_int_equal(aclrtQueryEventWaitStatus(e, &waiting), 0);
    assert_int_equal(waiting, ACL_EVENT_WAIT_STATUS_NOT_READY);
    assert_int_equal(aclrtDestroyEvent(e), 0); /* queued work keeps it alive */
    assert_int_equal(log_length, 0);
    open_gate();
    assert_int_equal(rt_stream_drain(second), 0);
    assert_int_equal(log_length, 2);
    assert_int_equal(log_entry[0], 1);
    assert_int_equal(log_entry[1], 2);
}

/* A wait is for the recording that was current when it was asked for. */
static void waits_are_for_their_generation(void **state)
{
    (void)state;
    aclrtStream first = new_stream(), second = new_stream();
    aclrtEvent e = new_event();
    assert_int_equal(aclrtRecordEvent(e, first), 0);
    close_gate(first);
    assert_int_equal(aclrtStreamWaitEvent(second, e), 0); /* complete: nothing to wait for */
    assert_int_equal(aclrtRecordEvent(e, first), 0);
    assert_int_equal(status_of(e), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    assert_int_equal(aclrtSynchronizeStreamWithTimeout(second, 60000), 0);
    open_gate();
    assert_int_equal(aclrtSynchronizeEvent(e), 0);
    assert_int_equal(aclrtResetEvent(e, first), 0);
    assert_int_equal(rt_stream_drain(first), 0);
    assert_int_equal(status_of(e), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    aclrtDestroyEvent(e);
}

static void event_waits_time_out(void **state)
{
    (void)state;
    aclrtStream first = new_stream(), second = new_stream();
    aclrtEvent e = new_event();
    close_gate(first);
    aclrtRecordEvent(e, first);
    assert_int_equal(aclrtStreamWaitEventWithTimeout(second, e, 10), 0);
    assert_int_equal(rt_stream_drain(second), ACL_ERROR_RT_REPORT_TIMEOUT);
    open_gate();
    aclrtDestroyEvent(e);
}

/* ---- values, copies, callbacks ----------------------------------------------------------------------- */

static void values_order_streams(void **state)
{
    (void)state;
    aclrtStream first = new_stream(), second = new_stream();
    void *p;
    assert_int_equal(aclrtMalloc(&p, 64, 0), 0);
    assert_int_equal(aclrtMemset(p, 64, 0, 64), 0);
    start_log();
    assert_int_equal(aclrtValueWait(p, 7, ACL_STREAM_WAIT_VALUE_EQ, second), 0);
    push(second, 2, 0, true);
    assert_int_equal(aclrtSynchronizeStreamWithTimeout(second, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    push(first, 1, 0, true);
    assert_int_equal(aclrtValueWrite(p, 7, 0, first), 0);
    assert_int_equal(rt_stream_drain(second), 0);
    assert_int_equal(log_entry[0], 1);
    assert_int_equal(log_entry[1], 2);
    uint64_t eight = 8; /* a copy is seen too */
    assert_int_equal(aclrtValueWait(p, 8, ACL_STREAM_WAIT_VALUE_GEQ, second), 0);
    assert_int_equal(aclrtMemcpyAsync(p, 8, &eight, 8, ACL_MEMCPY_HOST_TO_DEVICE, first), 0);
    assert_int_equal(rt_stream_drain(second), 0);
    assert_int_equal(aclrtValueWrite((char *)p + 4, 1, 0, first), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtValueWrite(&eight, 1, 0, first), ACL_ERROR_RT_PARAM_INVALID);
}

static void copies_follow_the_stream(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    enum { BIG = 9 << 20 };
    void *p;
    unsigned char *host = malloc(BIG), *back = calloc(1, BIG);
    for (int i = 0; i < BIG; i++) host[i] = (unsigned char)(i * 7);
    assert_int_equal(aclrtMalloc(&p, BIG, 0), 0);
    assert_int_equal(aclrtMemsetAsync(p, BIG, 1, BIG, s), 0);
    assert_int_equal(aclrtMemcpyAsync(p, BIG, host, BIG, ACL_MEMCPY_HOST_TO_DEVICE, s), 0);
    assert_int_equal(aclrtMemsetAsync(p, BIG, 9, 3, s), 0);
    assert_int_equal(aclrtMemcpyAsync(back, BIG, p, BIG, ACL_MEMCPY_DEVICE_TO_HOST, s), 0);
    assert_int_equal(rt_stream_drain(s), 0);
    memset(host, 9, 3);
    assert_memory_equal(host, back, BIG);
    free(host);
    free(back);
}

static atomic_bool stop_reports;
static atomic_int callbacks;
static pthread_t callback_thread;

static void *process_reports(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_reports)) {
        int code = aclrtProcessReport(10);
        assert_true(!code || code == ACL_ERROR_WAIT_CALLBACK_TIMEOUT ||
                    code == ACL_ERROR_THREAD_NOT_SUBSCRIBE);
    }
    return NULL;
}

static void count_callback(void *arg)
{
    (void)arg;
    callback_thread = pthread_self();
    atomic_fetch_add(&callbacks, 1);
}

static void callbacks_reach_their_thread(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    pthread_t t;
    atomic_store(&stop_reports, false);
    atomic_store(&callbacks, 0);
    assert_int_equal(aclrtLaunchCallback(count_callback, NULL, ACL_CALLBACK_BLOCK, s),
                     ACL_ERROR_STREAM_NOT_SUBSCRIBE);
    assert_int_equal(aclrtProcessReport(0), ACL_ERROR_THREAD_NOT_SUBSCRIBE);
    pthread_create(&t, NULL, process_reports, NULL);
    assert_int_equal(aclrtSubscribeReport((uint64_t)t, s), 0);
    assert_int_equal(aclrtSubscribeReport((uint64_t)t, s), ACL_ERROR_REPEAT_SUBSCRIBE);
    for (int i = 0; i < 50; i++)
        assert_int_equal(aclrtLaunchCallback(count_callback, NULL, ACL_CALLBACK_BLOCK, s), 0);
    assert_int_equal(rt_stream_drain(s), 0);
    assert_int_equal(callbacks, 50); /* blocking: all are over when the stream is */
    assert_true(pthread_equal(callback_thread, t));
    assert_int_equal(aclrtUnSubscribeReport((uint64_t)t, s), 0);
    atomic_store(&stop_reports, true);
    pthread_join(t, NULL);
}

/* ---- faults ------------------------------------------------------------------------------------------ */

static void faults_come_when_asked_for(void **state)
{
    (void)state;
    void *p;
    assert_true(rt_fault_set("alloc:2,stream:3"));
    assert_int_equal(aclrtMalloc(&p, 64, 0), 0);
    assert_int_equal(aclrtMalloc(&p, 64, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(aclrtMalloc(&p, 64, 0), 0);
    aclrtStream s = new_stream();
    push(s, 1, 0, true);
    push(s, 2, 0, false);
    assert_int_equal(rt_stream_drain(s), 0);
    push(s, 3, 0, true);
    assert_int_equal(rt_stream_drain(s), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_true(rt_fault_set("fail:aclnnAdd:2,hang:aclnnMul"));
    assert_null(rt_fault_match(RT_FAULT_FAIL, "aclnnAdd"));
    assert_null(rt_fault_match(RT_FAULT_FAIL, "aclnnSub"));
    assert_non_null(rt_fault_match(RT_FAULT_FAIL, "aclnnAdd"));
    assert_null(rt_fault_match(RT_FAULT_FAIL, "aclnnAdd"));
    assert_non_null(rt_fault_match(RT_FAULT_HANG, "aclnnMul"));
    assert_non_null(rt_fault_match(RT_FAULT_HANG, "aclnnMul"));
    static const char *const bad[] = {"alloc",     "alloc:", "alloc:0",  "alloc:x",
                                      "stream:-1", "fail:",  "fail:a:0", "melt:a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(rt_fault_set(bad[i]));
    assert_false(rt_fault_any());
}

static void faults_are_told_and_repaired(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int code, type;
        bool repair;
    } rows[] = {
        {"stream:1", ACL_ERROR_RT_AICORE_EXCEPTION, ACL_RT_ERROR_AICORE, false},
        {"memory:1", ACL_ERROR_RT_DEVICE_MEM_ERROR, ACL_RT_ERROR_MEMORY, true},
        {"ecc:1", ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, ACL_RT_ERROR_MEMORY, false},
        {"link:1", ACL_ERROR_RT_LINK_ERROR, ACL_RT_ERROR_LINK, false},
        {"lost:1", ACL_ERROR_RT_LOST_HEARTBEAT, ACL_RT_ERROR_OTHERS, false},
    };
    void *memory;
    aclrtErrorInfo info;
    aclrtMemUceInfo pages[4];
    assert_int_equal(aclrtMalloc(&memory, 4096, 0), 0);
    assert_int_equal(aclrtGetErrorVerbose(0, &info), 0);
    assert_int_equal(info.errorType, ACL_RT_NO_ERROR);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        aclrtStream s = new_stream();
        size_t n = 9;
        assert_true(rt_fault_set(rows[i].spec));
        assert_int_equal(push(s, 1, 0, false), 0);
        assert_int_equal(rt_stream_drain(s), rows[i].code);
        assert_non_null(strstr(aclGetRecentErrMsg(), rows[i].spec));
        rt_fault_set(NULL);
        if (rows[i].code == ACL_ERROR_RT_LOST_HEARTBEAT) assert_int_equal(push(s, 1, 0, false), rows[i].code);
        assert_int_equal(aclrtGetErrorVerbose(0, &info), 0);
        assert_int_equal(info.errorType, rows[i].type);
        assert_int_equal(info.tryRepair, rows[i].repair);
        assert_int_equal(aclrtGetMemUceInfo(0, pages, 4, &n), 0);
        assert_int_equal(n, rows[i].type == ACL_RT_ERROR_MEMORY);
        if (n) assert_ptr_equal(pages[0].addr, memory);
        assert_int_equal(aclrtDeviceTaskAbort(0, 0), 0);
        if (i == 1) {
            assert_int_equal(aclrtMemUceRepair(0, pages, 1), 0);
            assert_int_equal(aclrtMemUceRepair(0, pages, 1), ACL_ERROR_RT_PARAM_INVALID);
        } else
            assert_int_equal(aclrtRepairError(0, &info), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert_int_equal(push(s, 2, 0, false), 0); /* and work goes on */
        assert_int_equal(rt_stream_drain(s), 0);
        assert_int_equal(aclrtDestroyStream(s), 0);
    }
    assert_int_equal(aclrtFree(memory), 0);
}

static int hang(struct rt_task *t)
{
    (void)t;
    return rt_fault_hang();
}

static const struct rt_task_kind hang_kind = {.name = "hang", .run = hang, .drop = drop};

static void hung_kernels_meet_the_time_limit(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    assert_int_equal(aclrtSetOpExecuteTimeOutWithMs(30), 0);
    struct rt_task *t = malloc(sizeof *t);
    *t = (struct rt_task){.kind = &hang_kind};
    assert_int_equal(rt_stream_push(s, t, false), 0);
    assert_int_equal(rt_stream_drain(s), ACL_ERROR_RT_AICORE_TIMEOUT);
}

/* A worker forks after it has loaded the device and before it has opened it: the child opens its own. */
static void fork_before_the_device_is_open(void)
{
    uint32_t n;
    aclrtGetDeviceCount(&n);
    pid_t child = fork();
    if (!child) {
        void *p;
        char c = 0;
        aclrtStream s;
        int bad = aclrtSetDevice(0) || aclrtMalloc(&p, 1 << 20, 0) || aclrtCreateStream(&s) ||
                  aclrtMemsetAsync(p, 1 << 20, 5, 1 << 20, s) || aclrtSynchronizeStream(s) ||
                  aclrtMemcpy(&c, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST) || aclrtResetDevice(0);
        _exit(bad || c != 5);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) {
        fprintf(stderr, "the forked child failed: status %x\n", status);
        exit(1);
    }
}

static void late_calls_meet_no_error(void **state)
{
    (void)state;
    aclrtStream s = new_stream();
    aclrtEvent e = new_event();
    void *p;
    assert_int_equal(aclInit(NULL), 0);
    assert_int_equal(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    assert_int_equal(aclrtMalloc(&p, 64, 0), 0);
    assert_int_equal(aclrtResetDevice(0), 0);
    assert_int_equal(aclrtFree(p), 0);
    assert_int_equal(aclFinalize(), 0);
    assert_int_equal(aclrtSynchronizeStream(s), 0);
    assert_int_equal(aclrtDestroyStream(s), 0);
    assert_int_equal(aclrtDestroyEvent(e), 0);
    assert_int_equal(aclrtSynchronizeDevice(), 0);
    assert_int_equal(aclFinalize(), ACL_ERROR_UNINITIALIZE);
    assert_int_equal(aclInit(NULL), 0);
    assert_int_equal(aclFinalize(), 0);
    assert_int_equal(aclInit("/no/such/file"), ACL_ERROR_INVALID_FILE);
}

int main(void)
{
    fork_before_the_device_is_open();
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(small_tasks_run_at_once),
        T(order_is_kept),
        T(one_task_at_a_time),
        T(default_stream_is_the_contexts),
        T(threads_need_a_context),
        T(errors_are_told),
        T(waiting_ends_in_time),
        T(abort_drops_queued_work),
        T(destroy_waits),
        T(events_complete_at_once_when_idle),
        T(events_order_streams),
        T(waits_are_for_their_generation),
        T(event_waits_time_out),
        T(values_order_streams),
        T(copies_follow_the_stream),
        T(callbacks_reach_their_thread),
        T(faults_come_when_asked_for),
        T(hung_kernels_meet_the_time_limit),
        T(faults_are_told_and_repaired),
        T(late_calls_meet_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
