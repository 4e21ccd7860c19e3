/* softnpu_check.c - SOFTNPU_CHECK=memory,race: freed and foreign memory is named, and so are unordered
 * accesses. */
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/internal.h"
#include "softnpu/include/aclnn/acl_meta.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha,
                                     aclTensor *out, uint64_t *workspace_size, aclOpExecutor **executor);
aclnnStatus aclnnAdd(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream);

enum { BYTES = 4096 };
static aclrtStream first, second;
static int saved_stderr, captured;

static int set_up(void **state)
{
    (void)state;
    return aclrtSetDevice(0) || aclrtCreateStream(&first) || aclrtCreateStream(&second);
}

static int tear_down(void **state)
{
    (void)state;
    return aclrtResetDevice(0);
}

static char *memory(void)
{
    void *p = NULL;
    assert_int_equal(aclrtMalloc(&p, BYTES, 0), 0);
    return p;
}

static aclTensor *vector(void *data, int64_t n)
{
    int64_t stride = 1;
    return aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, data);
}

static void add(void *a, void *b, void *out, int64_t n, aclrtStream s)
{
    double one = 1;
    uint64_t size;
    aclOpExecutor *ex;
    aclTensor *x = vector(a, n), *y = vector(b, n), *z = vector(out, n);
    aclScalar *alpha = aclCreateScalar(&one, ACL_DOUBLE);
    assert_int_equal(aclnnAddGetWorkspaceSize(x, y, alpha, z, &size, &ex), 0);
    aclnnAdd(NULL, 0, ex, s);
    aclDestroyTensor(x);
    aclDestroyTensor(y);
    aclDestroyTensor(z);
    aclDestroyScalar(alpha);
}

static void start_capture(void)
{
    fflush(stderr);
    saved_stderr = dup(2);
    captured = memfd_create("captured", 0);
    dup2(captured, 2);
}

/* What was written to standard error; valid until the next call. */
static const char *end_capture(void)
{
    static char text[8192];
    fflush(stderr);
    dup2(saved_stderr, 2);
    close(saved_stderr);
    lseek(captured, 0, SEEK_SET);
    ssize_t n = read(captured, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(captured);
    return text;
}

static void expect_named(const char *operator, const char * argument)
{
    assert_int_equal(aclrtSynchronizeStream(first), ACL_ERROR_RT_AICORE_EXCEPTION);
    const char *why = aclGetRecentErrMsg();
    assert_non_null(why);
    assert_non_null(strstr(why, operator));
    assert_non_null(strstr(why, argument));
}

static void freed_and_foreign_memory_is_named(void **state)
{
    (void)state;
    char *a = memory(), *b = memory(), *c = memory();
    add(a, b, c, BYTES / 4, first);
    assert_int_equal(aclrtSynchronizeStream(first), 0);
    add(a, b, c, BYTES / 4 + 200, first); /* past the end, and past the rounding */
    expect_named("aclnnAdd", "self");
    assert_int_equal(aclrtFree(b), 0);
    add(a, b, c, BYTES / 4, first);
    expect_named("aclnnAdd", "other");
    assert_int_equal(aclrtMemsetAsync(b, 8, 0, 8, first), 0);
    expect_named("fill", "destination");
    assert_int_equal(aclrtMemcpyAsync(a, 8, b, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, first), 0);
    expect_named("copy", "source");
    assert_int_equal(aclrtFree(a), 0);
    assert_int_equal(aclrtFree(c), 0);
}

static void freed_memory_is_poisoned(void **state)
{
    (void)state;
    char *p = memory();
    assert_int_equal(aclrtMemset(p, BYTES, 1, BYTES), 0);
    assert_int_equal(aclrtFree(p), 0);
    assert_int_equal(*(unsigned char *)rt_kernel_ptr(p), CHECK_POISON);
}

static void mapped_memory_is_live(void **state)
{
    (void)state;
    aclrtPhysicalMemProp prop = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle h[2];
    size_t step = 2 << 20;
    void *at;
    assert_int_equal(aclrtReserveMemAddress(&at, 2 * step, 0, NULL, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(aclrtMallocPhysical(&h[i], step, &prop, 0), 0);
        assert_int_equal(aclrtMapMem((char *)at + (size_t)i * step, step, 0, h[i], 0), 0);
    }
    assert_int_equal(aclrtMemsetAsync((char *)at + step - 8, 16, 1, 16, first), 0); /* across the seam */
    assert_int_equal(aclrtSynchronizeStream(first), 0);
    assert_int_equal(aclrtUnmapMem((char *)at + step), 0);
    assert_int_equal(aclrtMemsetAsync((char *)at + step - 8, 16, 1, 16, first), 0);
    expect_named("fill", "destination");
    assert_int_equal(aclrtUnmapMem(at), 0);
    assert_int_equal(aclrtReleaseMemAddress(at), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(aclrtFreePhysical(h[i]), 0);
}

/* How the second stream learns that the first is done. */
enum order { NOTHING, EVENT, HOST_STREAM, HOST_EVENT };

static const char *two_streams(enum order order, bool second_writes)
{
    char *a = memory(), *b = memory(), *c = memory();
    aclrtEvent e;
    assert_int_equal(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC), 0);
    start_capture();
    add(a, a, c, 64, first);
    aclrtRecordEvent(e, first);
    if (order == EVENT) aclrtStreamWaitEvent(second, e);
    if (order == HOST_STREAM) aclrtSynchronizeStream(first);
    if (order == HOST_EVENT) aclrtSynchronizeEvent(e);
    if (order == NOTHING) usleep(20000); /* in time, but only by luck */
    if (second_writes)
        add(b, b, a, 64, second);
    else
        add(a, a, b, 64, second);
    aclrtSynchronizeStream(second);
    const char *text = end_capture();
    assert_int_equal(aclrtSynchronizeStream(first), 0);
    aclrtDestroyEvent(e);
    aclrtFree(a);
    aclrtFree(b);
    aclrtFree(c);
    return text;
}

static void unordered_streams_are_reported(void **state)
{
    (void)state;
    const char *text = two_streams(NOTHING, true);
    assert_non_null(strstr(text, "race: aclnnAdd (out)"));
    assert_non_null(strstr(text, "reads"));
    assert_string_equal(two_streams(NOTHING, false), ""); /* both only read */
    for (enum order o = EVENT; o <= HOST_EVENT; o++) assert_string_equal(two_streams(o, true), "");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    setenv("SOFTNPU_CHECK", "memory,race", 1);
    const struct CMUnitTest tests[] = {
        T(freed_and_foreign_memory_is_named),
        T(freed_memory_is_poisoned),
        T(mapped_memory_is_live),
        T(unordered_streams_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
