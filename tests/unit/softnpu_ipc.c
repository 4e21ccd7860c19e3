/* softnpu_ipc.c - memory, physical memory and events shared between processes. */
#include "softnpu/runtime/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { SIZE = 3000, PHYSICAL = 2 << 20 };

/* What the exporting parent tells its child. */
struct message {
    char open_key[65], closed_key[65];
    uint64_t handle, closed_handle;
    aclrtIpcEventHandle event;
};

#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) _exit(__LINE__ % 250 + 1);                                                              \
    } while (0)

static void tell(int fd)
{
    CHECK(write(fd, "x", 1) == 1);
}

static void hear(int fd)
{
    char c;
    CHECK(read(fd, &c, 1) == 1);
}

static void check_bytes(const void *device, int value)
{
    unsigned char host[SIZE];
    CHECK(!aclrtMemcpy(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < SIZE; i++) CHECK(host[i] == value);
}

static void importer_memory(const struct message *m)
{
    void *p = NULL, *again = NULL;
    CHECK(aclrtIpcMemImportByKey(&p, m->closed_key, 0) == ACL_ERROR_RT_NO_PERMISSION);
    CHECK(!aclrtIpcMemImportByKey(&p, m->open_key, 0));
    CHECK(rt_is_device_ptr(p));
    check_bytes(p, 5);
    CHECK(!aclrtIpcMemImportByKey(&again, m->open_key, 0) && again == p);
    CHECK(!aclrtMemset(p, SIZE, 6, SIZE));
    CHECK(!aclrtIpcMemClose(m->open_key));
    check_bytes(p, 6); /* one user is left */
    CHECK(!aclrtIpcMemClose(m->open_key));
    CHECK(aclrtIpcMemClose(m->open_key) == ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtIpcMemImportByKey(&p, "nonsense", 0) == ACL_ERROR_INVALID_PARAM);
}

static void importer_physical(const struct message *m)
{
    aclrtDrvMemHandle handle;
    void *at;
    CHECK(aclrtMemImportFromShareableHandle(m->closed_handle, 0, &handle) == ACL_ERROR_RT_NO_PERMISSION);
    CHECK(!aclrtMemImportFromShareableHandle(m->handle, 0, &handle));
    CHECK(!aclrtReserveMemAddress(&at, PHYSICAL, 0, NULL, 0));
    CHECK(!aclrtMapMem(at, PHYSICAL, 0, handle, 0));
    check_bytes(at, 7);
    CHECK(!aclrtMemset(at, SIZE, 8, SIZE));
    CHECK(!aclrtUnmapMem(at) && !aclrtReleaseMemAddress(at) && !aclrtFreePhysical(handle));
}

static void importer_event(const struct message *m, int fd)
{
    aclrtEvent e;
    aclrtEventRecordedStatus status;
    aclrtStream s;
    CHECK(!aclrtIpcOpenEventHandle(m->event, &e) && !aclrtCreateStream(&s));
    CHECK(!aclrtQueryEventStatus(e, &status) && status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    tell(fd); /* the parent records */
    hear(fd);
    CHECK(!aclrtStreamWaitEvent(s, e) && !aclrtSynchronizeStreamWithTimeout(s, 60000));
    CHECK(!aclrtSynchronizeEventWithTimeout(e, 60000));
    CHECK(!aclrtRecordEvent(e, s) && !aclrtSynchronizeStream(s)); /* and back */
    tell(fd);
    CHECK(!aclrtDestroyEvent(e));
}

static void importer(int fd)
{
    struct message m;
    CHECK(read(fd, &m, sizeof m) == sizeof m);
    CHECK(!aclrtSetDevice(0));
    importer_memory(&m);
    importer_physical(&m);
    importer_event(&m, fd);
    _exit(0);
}

static void *allocate(int value)
{
    void *p = NULL;
    assert_int_equal(aclrtMalloc(&p, SIZE, 0), 0);
    assert_int_equal(aclrtMemset(p, SIZE, value, SIZE), 0);
    return p;
}

static aclrtDrvMemHandle export_physical(struct message *m, void **at, int32_t *child)
{
    aclrtPhysicalMemProp prop = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    assert_int_equal(aclrtMallocPhysical(&handle, PHYSICAL, &prop, 0), 0);
    assert_int_equal(aclrtReserveMemAddress(at, PHYSICAL, 0, NULL, 0), 0);
    assert_int_equal(aclrtMapMem(*at, PHYSICAL, 0, handle, 0), 0);
    assert_int_equal(aclrtMemset(*at, SIZE, 7, SIZE), 0);
    assert_int_equal(aclrtMemExportToShareableHandle(handle, 0, 0, &m->closed_handle), 0);
    assert_int_equal(aclrtMemExportToShareableHandle(handle, 0, 0, &m->handle), 0);
    assert_int_equal(aclrtMemSetPidToShareableHandle(m->handle, child, 1), 0);
    return handle;
}

static char first_byte(const void *p)
{
    char c = 0;
    assert_int_equal(aclrtMemcpy(&c, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    return c;
}

static void two_processes_share(void **state)
{
    (void)state;
    int fd[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    pid_t child = fork(); /* before the device is opened */
    if (!child) importer(fd[1]);
    int32_t pid = child;
    struct message m = {0};
    assert_int_equal(aclrtSetDevice(0), 0);
    char *other = allocate(1), *p = allocate(5), *mapped;
    assert_int_equal(aclrtIpcMemGetExportKey(other, SIZE, m.closed_key, 65, 0), 0);
    assert_int_equal(aclrtIpcMemGetExportKey(p, SIZE, m.open_key, 65, 0), 0);
    assert_int_equal(aclrtIpcMemSetImportPid(m.open_key, &pid, 1), 0);
    aclrtDrvMemHandle handle = export_physical(&m, (void **)&mapped, &pid);
    aclrtEvent e;
    aclrtStream s;
    assert_int_equal(aclrtCreateStream(&s), 0);
    assert_int_equal(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC), 0);
    assert_int_equal(aclrtIpcGetEventHandle(e, &m.event), 0);
    assert_int_equal(write(fd[0], &m, sizeof m), sizeof m);
    char c;
    assert_int_equal(read(fd[0], &c, 1), 1);
    assert_int_equal(aclrtRecordEvent(e, s), 0);
    assert_int_equal(write(fd[0], "x", 1), 1);
    assert_int_equal(read(fd[0], &c, 1), 1);
    assert_int_equal(aclrtSynchronizeEventWithTimeout(e, 60000), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0); /* otherwise: the line of the check, modulo 250 */
    assert_int_equal(first_byte(p), 6);
    assert_int_equal(first_byte(mapped), 8);
    assert_int_equal(aclrtUnmapMem(mapped), 0);
    assert_int_equal(aclrtReleaseMemAddress(mapped), 0);
    assert_int_equal(aclrtFreePhysical(handle), 0);
    assert_int_equal(aclrtIpcMemClose(m.open_key), 0);
    assert_int_equal(aclrtDestroyEvent(e), 0);
    assert_int_equal(aclrtResetDevice(0), 0);
}

static void bad_arguments(void **state)
{
    (void)state;
    char key[65];
    uint64_t handle;
    aclrtEvent e;
    aclrtIpcEventHandle event;
    assert_int_equal(aclrtSetDevice(0), 0);
    char *p = allocate(1);
    assert_int_equal(aclrtIpcMemGetExportKey(p, SIZE, key, 64, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtIpcMemGetExportKey(p, 1 << 20, key, 65, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtIpcMemGetExportKey(key, 10, key, 65, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemExportToShareableHandle(NULL, 0, 0, &handle), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtCreateEvent(&e), 0);
    assert_int_equal(aclrtIpcGetEventHandle(e, &event), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtDestroyEvent(e), 0);
    memset(&event, 0, sizeof event);
    assert_int_equal(aclrtIpcOpenEventHandle(event, &e), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtResetDevice(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_processes_share),
                                       cmocka_unit_test(bad_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
