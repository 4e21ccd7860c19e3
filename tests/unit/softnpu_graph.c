/* softnpu_graph.c - graphs: capture, replay, joins, external events, modes, updates, conditions. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { BYTES = 4096 };
static char *device;
static aclrtStream first, second;

static int set_up(void **state)
{
    (void)state;
    if (aclrtSetDevice(0) || aclrtMalloc((void **)&device, BYTES, 0)) return -1;
    return aclrtMemset(device, BYTES, 0, BYTES) || aclrtCreateStream(&first) || aclrtCreateStream(&second);
}

static int tear_down(void **state)
{
    (void)state;
    rt_fault_set(NULL);
    return aclrtResetDevice(0);
}

static char byte_at(size_t i)
{
    char c = 0;
    assert_int_equal(aclrtMemcpy(&c, 1, device + i, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    return c;
}

static void fill(size_t at, int value, aclrtStream s)
{
    assert_int_equal(aclrtMemsetAsync(device + at, 1, value, 1, s), 0);
}

static void move_byte(size_t to, size_t from, aclrtStream s)
{
    assert_int_equal(aclrtMemcpyAsync(device + to, 1, device + from, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, s), 0);
}

static aclmdlRI end(aclrtStream s)
{
    aclmdlRI g = NULL;
    assert_int_equal(aclmdlRICaptureEnd(s, &g), 0);
    assert_non_null(g);
    return g;
}

static void begin(aclrtStream s)
{
    assert_int_equal(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
}

static void run(aclmdlRI g, aclrtStream s)
{
    assert_int_equal(aclmdlRIExecuteAsync(g, s), 0);
    assert_int_equal(aclrtSynchronizeStream(s), 0);
}

static aclrtEvent event(uint32_t flags)
{
    aclrtEvent e = NULL;
    assert_int_equal(aclrtCreateEventExWithFlag(&e, flags), 0);
    return e;
}

static void captured_work_runs_when_executed(void **state)
{
    (void)state;
    begin(first);
    fill(0, 7, first);
    move_byte(1, 0, first);
    aclmdlRICaptureStatus status;
    aclmdlRI now, g;
    assert_int_equal(aclmdlRICaptureGetInfo(first, &status, &now), 0);
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    g = end(first);
    assert_ptr_equal(g, now);
    assert_int_equal(byte_at(0), 0); /* captured, not run */
    run(g, first);
    assert_int_equal(byte_at(1), 7);
    assert_int_equal(aclrtMemset(device, BYTES, 0, BYTES), 0);
    run(g, second); /* again, on another stream */
    assert_int_equal(byte_at(1), 7);
    assert_int_equal(aclmdlRICaptureGetInfo(first, &status, &now), 0);
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    assert_int_equal(aclmdlRIDestroy(g), 0);
}

/* A queued execution keeps the graph alive. */
static void destroyed_while_queued(void **state)
{
    (void)state;
    begin(first);
    fill(0, 3, first);
    aclmdlRI g = end(first);
    assert_int_equal(aclmdlRIExecuteAsync(g, second), 0);
    assert_int_equal(aclmdlRIDestroy(g), 0);
    assert_int_equal(aclrtSynchronizeStream(second), 0);
    assert_int_equal(byte_at(0), 3);
}

static void other_streams_join_and_must_be_waited_for(void **state)
{
    (void)state;
    aclrtEvent fork = event(ACL_EVENT_SYNC), join = event(ACL_EVENT_SYNC);
    begin(first);
    fill(0, 1, first);
    assert_int_equal(aclrtRecordEvent(fork, first), 0);
    assert_int_equal(aclrtStreamWaitEvent(second, fork), 0);
    move_byte(1, 0, second);
    assert_int_equal(aclrtRecordEvent(join, second), 0);
    assert_int_equal(aclrtStreamWaitEvent(first, join), 0);
    move_byte(2, 1, first);
    aclmdlRI g = end(first);
    run(g, first);
    assert_int_equal(byte_at(2), 1);
    assert_int_equal(aclmdlRIDestroy(g), 0);

    begin(first);
    assert_int_equal(aclrtRecordEvent(fork, first), 0);
    assert_int_equal(aclrtStreamWaitEvent(second, fork), 0);
    move_byte(1, 0, second);
    assert_int_equal(aclmdlRICaptureEnd(first, &g), ACL_ERROR_RT_STREAM_UNJOINED);
    assert_null(g);
    fill(3, 9, second); /* both streams are ordinary again */
    assert_int_equal(aclrtSynchronizeStream(second), 0);
    assert_int_equal(aclrtDestroyEvent(fork), 0);
    assert_int_equal(aclrtDestroyEvent(join), 0);
    assert_int_equal(byte_at(3), 9);
}

static void external_events_are_waited_for_at_every_run(void **state)
{
    (void)state;
    aclrtEvent e = event(ACL_EVENT_EXTERNAL);
    begin(first);
    assert_int_equal(aclrtStreamWaitEvent(first, e), 0);
    assert_int_equal(aclrtResetEvent(e, first), 0);
    fill(0, 5, first);
    aclmdlRI g = end(first);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(aclrtMemset(device, 1, 0, 1), 0);
        assert_int_equal(aclmdlRIExecuteAsync(g, first), 0);
        assert_int_equal(aclrtSynchronizeStreamWithTimeout(first, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        assert_int_equal(aclrtRecordEvent(e, second), 0);
        assert_int_equal(aclrtSynchronizeStream(first), 0);
        assert_int_equal(byte_at(0), 5);
    }
    assert_int_equal(aclrtDestroyEvent(e), 0);
    assert_int_equal(aclmdlRIDestroy(g), 0);
}

static void invalid_uses_spoil_the_capture(void **state)
{
    (void)state;
    aclmdlRI g;
    aclrtStreamStatus status;
    assert_int_equal(aclmdlRICaptureBegin(NULL, ACL_MODEL_RI_CAPTURE_MODE_RELAXED),
                     ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(aclmdlRICaptureEnd(first, &g), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    begin(first);
    assert_int_equal(aclmdlRICaptureBegin(first, ACL_MODEL_RI_CAPTURE_MODE_RELAXED),
                     ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(aclrtSynchronizeStream(first), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(aclrtStreamQuery(first, &status), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(aclrtDestroyStream(first), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(aclmdlRICaptureEnd(first, &g), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    begin(first);
    aclrtEvent e = event(ACL_EVENT_SYNC);
    assert_int_equal(aclrtRecordEvent(e, first), 0);
    assert_int_equal(aclrtSynchronizeEvent(e), ACL_ERROR_RT_EVENT_CAPTURED);
    assert_int_equal(aclmdlRICaptureEnd(first, &g), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(aclrtDestroyEvent(e), 0);
    assert_int_equal(aclrtSynchronizeStream(first), 0);
}

static void *copy_elsewhere(void *code)
{
    char c = 1;
    *(int *)code = aclrtMemcpy(device, 1, &c, 1, ACL_MEMCPY_HOST_TO_DEVICE);
    return NULL;
}

static int copy_in_thread(void)
{
    pthread_t t;
    int code = -1;
    assert_int_equal(pthread_create(&t, NULL, copy_elsewhere, &code), 0);
    pthread_join(t, NULL);
    return code;
}

static void modes_say_who_may_copy(void **state)
{
    (void)state;
    static const struct {
        aclmdlRICaptureMode mode;
        int here, elsewhere;
    } rows[] = {
        {ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
         ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT},
        {ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, 0},
        {ACL_MODEL_RI_CAPTURE_MODE_RELAXED, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char c = 1;
        aclmdlRI g;
        assert_int_equal(aclmdlRICaptureBegin(first, rows[i].mode), 0);
        assert_int_equal(aclrtMemcpy(device, 1, &c, 1, ACL_MEMCPY_HOST_TO_DEVICE), rows[i].here);
        assert_int_equal(copy_in_thread(), rows[i].elsewhere);
        aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
        assert_int_equal(aclmdlRICaptureThreadExchangeMode(&mode), 0);
        assert_int_equal(aclrtMemset(device, 1, 1, 1), 0);
        assert_int_equal(aclmdlRICaptureThreadExchangeMode(&mode), 0);
        assert_int_equal(mode, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
        assert_int_equal(aclmdlRICaptureEnd(first, &g), 0);
        assert_int_equal(aclmdlRIDestroy(g), 0);
    }
    assert_int_equal(aclrtMemset(device, 1, 1, 1), 0);
}

static void groups_can_be_updated(void **state)
{
    (void)state;
    aclrtTaskGrp group;
    begin(first);
    fill(0, 1, first);
    assert_int_equal(aclmdlRICaptureTaskGrpBegin(first), 0);
    fill(1, 1, first);
    fill(2, 1, first);
    assert_int_equal(aclmdlRICaptureTaskGrpEnd(first, &group), 0);
    aclmdlRI g = end(first);
    assert_int_equal(aclmdlRICaptureTaskUpdateBegin(second, group), 0);
    fill(1, 4, second);
    fill(3, 5, second);
    assert_int_equal(aclmdlRICaptureTaskUpdateEnd(second), 0);
    assert_int_equal(aclrtSynchronizeStream(second), 0);
    assert_int_equal(byte_at(3), 0);
    run(g, first);
    assert_int_equal(byte_at(0), 1);
    assert_int_equal(byte_at(1), 4);
    assert_int_equal(byte_at(2), 0);
    assert_int_equal(byte_at(3), 5);

    assert_int_equal(aclmdlRICaptureTaskUpdateBegin(second, group), 0);
    fill(1, 6, second); /* one task too few */
    assert_int_equal(aclmdlRICaptureTaskUpdateEnd(second), ACL_ERROR_RT_MODEL_UPDATE_FAILED);
    assert_int_equal(aclmdlRICaptureTaskUpdateBegin(second, group), 0);
    assert_int_equal(aclrtMemcpyAsync(device, 1, device + 1, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, second),
                     ACL_ERROR_RT_MODEL_UPDATE_FAILED); /* another kind */
    assert_int_equal(aclmdlRICaptureTaskUpdateEnd(second), ACL_ERROR_RT_MODEL_UPDATE_FAILED);
    run(g, first);
    assert_int_equal(byte_at(1), 4);
    assert_int_equal(aclmdlRIDestroy(g), 0);
}

static void conditions_choose_branches(void **state)
{
    (void)state;
    aclmdlRI parent, branch[2] = {NULL, NULL};
    aclmdlRICondHandle handle;
    uint64_t *value, one = 1;
    begin(first);
    assert_int_equal(aclmdlRICaptureGetInfo(first, NULL, &parent), 0);
    assert_int_equal(aclmdlRICondHandleCreate(parent, 0, 0, &handle), 0);
    assert_int_equal(aclmdlRICondHandleGetCondPtr(handle, &value), 0);
    aclmdlRICondTaskParams p = {handle, ACL_MODEL_RI_COND_TYPE_IF, 2, branch};
    assert_int_equal(aclmdlRIAddCondTask(p, first, 0), 0);
    for (int i = 0; i < 2; i++) {
        aclmdlRI done;
        assert_int_equal(aclmdlRICaptureToModelRIBegin(second, branch[i], ACL_MODEL_RI_CAPTURE_MODE_RELAXED),
                         0);
        fill(0, 10 + i, second);
        assert_int_equal(aclmdlRICaptureEnd(second, &done), 0);
        assert_ptr_equal(done, branch[i]);
    }
    move_byte(1, 0, first);
    assert_int_equal(end(first) == parent, 1);
    run(parent, first);
    assert_int_equal(byte_at(1), 11);
    assert_int_equal(aclrtMemcpy(value, 8, &one, 8, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    run(parent, first);
    assert_int_equal(byte_at(1), 10);
    assert_int_not_equal(aclmdlRIDestroy(branch[0]), 0);
    assert_int_equal(aclmdlRIDestroy(parent), 0);
}

static void loops_end_when_the_value_says_so(void **state)
{
    (void)state;
    aclmdlRI parent, body;
    aclmdlRICondHandle handle;
    uint64_t *value;
    begin(first);
    assert_int_equal(aclmdlRICaptureGetInfo(first, NULL, &parent), 0);
    assert_int_equal(aclmdlRICondHandleCreate(parent, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle),
                     0);
    assert_int_equal(aclmdlRICondHandleGetCondPtr(handle, &value), 0);
    aclmdlRICondTaskParams p = {handle, ACL_MODEL_RI_COND_TYPE_WHILE, 1, &body};
    assert_int_equal(aclmdlRIAddCondTask(p, first, 0), 0);
    assert_int_equal(aclmdlRICaptureToModelRIBegin(second, body, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
    fill(0, 8, second);
    assert_int_equal(aclrtMemsetAsync(value, 8, 0, 8, second), 0);
    assert_ptr_equal(end(second), body);
    assert_ptr_equal(end(first), parent);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(aclrtMemset(device, 1, 0, 1), 0);
        run(parent, first);
        assert_int_equal(byte_at(0), 8);
    }
    assert_int_equal(aclmdlRIDestroy(parent), 0);
}

static void a_failing_task_fails_the_run(void **state)
{
    (void)state;
    if (rt_settings()->blocking) return;
    begin(first);
    fill(0, 1, first);
    aclmdlRI g = end(first);
    assert_true(rt_fault_set("stream:1"));
    assert_int_equal(aclmdlRIExecuteAsync(g, second), 0);
    assert_int_equal(aclrtSynchronizeStream(second), ACL_ERROR_RT_AICORE_EXCEPTION);
    assert_int_equal(aclmdlRIDestroy(g), 0);
}

static void graphs_can_be_looked_at(void **state)
{
    (void)state;
    begin(first);
    fill(0, 1, first);
    aclmdlRI g = end(first);
    uint32_t id = 0;
    assert_int_equal(aclmdlRIGetId(g, &id), 0);
    char path[] = "/tmp/softnpu_graph_XXXXXX", text[4096] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(aclmdlRIDebugJsonPrint(g, path, 1), 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    unlink(path);
    assert_non_null(strstr(text, "\"name\": \"fill\""));
    assert_int_equal(aclmdlRIDebugJsonPrint(g, "/no/such/folder/x", 0), ACL_ERROR_INVALID_FILE);
    assert_int_equal(aclmdlRIDestroy(g), 0);
    assert_int_equal(aclmdlRIExecuteAsync(NULL, first), ACL_ERROR_INVALID_PARAM);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(captured_work_runs_when_executed),
        T(destroyed_while_queued),
        T(other_streams_join_and_must_be_waited_for),
        T(external_events_are_waited_for_at_every_run),
        T(invalid_uses_spoil_the_capture),
        T(modes_say_who_may_copy),
        T(groups_can_be_updated),
        T(conditions_choose_branches),
        T(loops_end_when_the_value_says_so),
        T(a_failing_task_fails_the_run),
        T(graphs_can_be_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
