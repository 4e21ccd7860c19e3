/* softnpu_runtime.c - device memory, windows, copies, streams, events, callbacks, pool. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/fault.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static int set_up(void **state)
{
    (void)state;
    return aclrtSetDevice(0);
}

static int tear_down(void **state)
{
    (void)state;
    rt_fault_set(NULL);
    return aclrtResetDevice(0);
}

static void *device_malloc(size_t size)
{
    void *p = NULL;
    assert_int_equal(aclrtMalloc(&p, size, 0), 0);
    assert_true(rt_is_device_ptr(p));
    return p;
}

/* ---- memory ------------------------------------------------------------------------------------------ */

static void host_access_faults(void **state)
{
    (void)state;
    volatile char *p = device_malloc(4096);
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers catch it otherwise */
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        _exit(p[0] == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void kernels_see_host_copies(void **state)
{
    (void)state;
    char *p = device_malloc(100), text[100] = "over to the device", back[100] = "";
    assert_int_equal(aclrtMemcpy(p, 100, text, 100, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    assert_string_equal(rt_kernel_ptr(p), text);
    ((char *)rt_kernel_ptr(p))[0] = 'O';
    assert_int_equal(aclrtMemcpy(back, 100, p, 100, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    assert_string_equal(back, "Over to the device");
    assert_null(rt_kernel_ptr(NULL));
    assert_null(rt_kernel_ptr(text));
}

static void capacity_is_enforced(void **state)
{
    (void)state;
    void *p = NULL, *q = NULL;
    assert_int_equal(aclrtMalloc(&p, 33 * GIB, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_non_null(strstr(aclGetRecentErrMsg(), "EL0004"));
    assert_null(aclGetRecentErrMsg());
    assert_int_equal(aclrtMalloc(&p, 20 * GIB, 0), 0);
    assert_int_equal(aclrtMalloc(&q, 13 * GIB, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    size_t free_bytes, total;
    assert_int_equal(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total), 0);
    assert_int_equal(total, 32 * GIB);
    assert_int_equal(free_bytes, 12 * GIB);
    assert_int_equal(aclrtFree(p), 0);
    assert_int_equal(aclrtMalloc(&q, 32 * GIB, 0), 0);
    assert_int_equal(aclrtFree(q), 0);
    assert_int_equal(aclrtFree(q), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMalloc(&p, 0, 0), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtMalloc(NULL, 8, 0), ACL_ERROR_INVALID_PARAM);
}

/* Bytes of the device's memory object that exist, and of the process that are resident. */
static size_t committed(void)
{
    struct stat st;
    assert_int_equal(fstat(rt_arena_fd(0), &st), 0);
    return (size_t)st.st_blocks * 512;
}

static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    assert_int_equal(fscanf(f, "%*s %zu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void freeing_returns_pages(void **state)
{
    (void)state;
    size_t before = committed(), resident_before = resident();
    void *p = device_malloc(64 * MIB);
    assert_int_equal(committed(), before); /* lazily committed */
    assert_int_equal(aclrtMemset(p, 64 * MIB, 7, 64 * MIB), 0);
    assert_true(committed() >= before + 64 * MIB);
    assert_true(resident() > resident_before + 56 * MIB);
    assert_int_equal(aclrtFree(p), 0);
    assert_int_equal(committed(), before);
#ifndef __SANITIZE_THREAD__ /* whose own memory of the accesses stays */
    assert_true(resident() < resident_before + 8 * MIB);
#endif
}

/* Random takes and gives against a simple model: no overlap, alignment kept, everything joined again at the
 * end. */
static void heap_keeps_its_order(void **state)
{
    (void)state;
    enum { N = 300, SPAN = 1 << 20, UNIT = 512 };
    struct rt_heap *h = rt_heap_new(SPAN, UNIT);
    int64_t at[N];
    uint64_t size[N];
    for (int i = 0; i < N; i++) at[i] = -1;
    unsigned seed = 1;
    for (int step = 0; step < 20000; step++) {
        int i = rand_r(&seed) % N;
        if (at[i] >= 0) {
            assert_int_equal(rt_heap_size(h, (uint64_t)at[i]), (size[i] + UNIT - 1) / UNIT * UNIT);
            assert_true(rt_heap_give(h, (uint64_t)at[i]) >= size[i]);
            assert_int_equal(rt_heap_give(h, (uint64_t)at[i]), 0);
            at[i] = -1;
            continue;
        }
        uint64_t align = (uint64_t)512 << rand_r(&seed) % 4;
        size[i] = 1 + (uint64_t)rand_r(&seed) % 9000;
        at[i] = rt_heap_take(h, size[i], align);
        if (at[i] < 0) continue;
        assert_int_equal((uint64_t)at[i] % align, 0);
        assert_true((uint64_t)at[i] + size[i] <= SPAN);
        for (int j = 0; j < N; j++)
            if (j != i && at[j] >= 0)
                assert_true(at[i] >= at[j] + (int64_t)size[j] || at[j] >= at[i] + (int64_t)size[i]);
    }
    for (int i = 0; i < N; i++)
        if (at[i] >= 0) rt_heap_give(h, (uint64_t)at[i]);
    assert_int_equal(rt_heap_take(h, SPAN, UNIT), 0);
    rt_heap_delete(h);
}

static void virtual_memory_maps_physical(void **state)
{
    (void)state;
    aclrtPhysicalMemProp prop = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .memAttr = ACL_HBM_MEM_HUGE};
    aclrtDrvMemHandle a, b;
    char *va = NULL;
    size_t free_before, free_after, total;
    aclrtGetMemInfo(ACL_HBM_MEM, &free_before, &total);
    assert_int_equal(aclrtReserveMemAddress((void **)&va, 40 * GIB, 0, NULL, 1), 0);
    assert_int_equal(aclrtMallocPhysical(&a, 20 * MIB, &prop, 0), 0);
    assert_int_equal(aclrtMallocPhysical(&b, 2 * MIB, &prop, 0), 0);
    aclrtGetMemInfo(ACL_HBM_MEM, &free_after, &total);
    assert_int_equal(free_before - free_after, 22 * MIB);
    assert_int_equal(aclrtMapMem(va, 20 * MIB, 0, a, 0), 0);
    assert_int_equal(aclrtMapMem(va + 20 * MIB, 2 * MIB, 0, b, 0), 0);
    assert_int_equal(aclrtMapMem(va + 20 * MIB, 2 * MIB, 0, b, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemset(va, 22 * MIB, 3, 22 * MIB), 0);
    char got[2];
    assert_int_equal(aclrtMemcpy(got, 2, va + 20 * MIB - 1, 2, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    assert_int_equal(got[0] + got[1], 6);
    assert_int_equal(aclrtReleaseMemAddress(va), ACL_ERROR_RT_PARAM_INVALID); /* still mapped */
    assert_int_equal(aclrtFreePhysical(a), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtUnmapMem(va), 0);
    assert_int_equal(aclrtMapMem(va + 30 * MIB, 20 * MIB, 0, a, 0), 0); /* the memory keeps its bytes */
    assert_int_equal(aclrtMemcpy(got, 1, va + 30 * MIB, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    assert_int_equal(got[0], 3);
    assert_int_equal(aclrtUnmapMem(va + 30 * MIB), 0);
    assert_int_equal(aclrtUnmapMem(va + 20 * MIB), 0);
    assert_int_equal(aclrtFreePhysical(a), 0);
    assert_int_equal(aclrtFreePhysical(b), 0);
    assert_int_equal(aclrtReleaseMemAddress(va), 0);
    aclrtGetMemInfo(ACL_HBM_MEM, &free_after, &total);
    assert_int_equal(free_before, free_after);
}

static void copies_check_their_arguments(void **state)
{
    (void)state;
    char host[64] = "x", *p = device_malloc(64);
    assert_int_equal(aclrtMemcpy(p, 8, host, 9, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtMemcpy(p, 8, host, 8, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    assert_non_null(strstr(aclGetRecentErrMsg(), "EE9999"));
    assert_int_equal(aclrtMemcpy(p, 8, NULL, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtMemcpy(p, 8, host, 8, 77), ACL_ERROR_RT_PARAM_INVALID);
}

static void copies_2d(void **state)
{
    (void)state;
    char *p = device_malloc(100), src[12] = "abcdefghijk", dst[12] = "...........";
    assert_int_equal(aclrtMemcpy2d(p, 10, src, 4, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    assert_int_equal(aclrtMemcpy2dAsync(dst, 4, p, 10, 3, 3, ACL_MEMCPY_DEVICE_TO_HOST, NULL), 0);
    assert_int_equal(aclrtSynchronizeStream(NULL), 0);
    assert_string_equal(dst, "abc.efg.ijk");
}

static void host_memory_is_known(void **state)
{
    (void)state;
    void *p = NULL;
    aclrtPtrAttributes a;
    char plain = 0;
    assert_int_equal(aclrtMallocHost(&p, 5000), 0);
    memset(p, 1, 5000);
    assert_int_equal(aclrtPointerGetAttributes((char *)p + 4999, &a), 0);
    assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(aclrtPointerGetAttributes(&plain, &a), 0);
    assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_int_equal(aclrtPointerGetAttributes(device_malloc(8), &a), 0);
    assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(aclrtFreeHost(p), 0);
    assert_int_equal(aclrtFreeHost(p), ACL_ERROR_RT_PARAM_INVALID);
}

/* ---- pool -------------------------------------------------------------------------------------------- */

struct sum {
    atomic_llong total;
    atomic_int pieces;
    int64_t grain, n;
};

static void add_piece(void *ctx, int64_t begin, int64_t end)
{
    struct sum *s = ctx;
    assert_int_equal(begin % s->grain, 0);
    assert_true(end == s->n || end == begin + s->grain);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&s->total, i);
    atomic_fetch_add(&s->pieces, 1);
}

static void nested(void *ctx, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    rt_pool_run(((struct sum *)ctx)->n, ((struct sum *)ctx)->grain, add_piece, ctx);
}

static void pool_covers_everything_once(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 5000; n = n * 3 + 1) {
        struct sum s = {.grain = 7, .n = n};
        rt_pool_run(n, 7, add_piece, &s);
        assert_int_equal(s.total, n * (n - 1) / 2);
        assert_int_equal(s.pieces, (n + 6) / 7);
    }
    struct sum s = {.grain = 10, .n = 100};
    rt_pool_run(8, 1, nested, &s);
    assert_int_equal(s.pieces, 80);
}

static void *pool_user(void *arg)
{
    (void)arg;
    pool_covers_everything_once(NULL);
    return NULL;
}

static void pool_serves_several_callers(void **state)
{
    (void)state;
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, pool_user, NULL);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}

/* Host memory behind reserved addresses: the host uses it directly, copies take it for host memory. */
static void host_memory_can_be_mapped(void **state)
{
    (void)state;
    aclrtPhysicalMemProp prop = {.location = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    aclrtDrvMemHandle handle;
    aclrtPtrAttributes attributes;
    size_t step = 2 << 20;
    void *at, *device;
    char back = 0;
    assert_int_equal(aclrtSetDevice(0), 0);
    assert_int_equal(aclrtMalloc(&device, 64, 0), 0);
    assert_int_equal(aclrtReserveMemAddress(&at, 2 * step, 0, NULL, 1), 0);
    assert_int_equal(aclrtMallocPhysical(&handle, step, &prop, 0), 0);
    assert_int_equal(aclrtMapMem(at, step, 0, handle, 0), 0);
    memset(at, 9, step);
    assert_int_equal(aclrtMemcpy(device, 64, at, 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    assert_int_equal(aclrtMemcpy(at, 1, device, 1, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemcpy(&back, 1, (char *)device + 5, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    assert_int_equal(back, 9);
    assert_int_equal(aclrtPointerGetAttributes(at, &attributes), 0);
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(aclrtUnmapMem(at), 0);
    assert_int_equal(aclrtFreePhysical(handle), 0);
    assert_int_equal(aclrtReleaseMemAddress(at), 0);
    assert_int_equal(aclrtResetDevice(0), 0);
}

int main(void)
{
    setenv("SOFTNPU_THREADS", "4", 0);
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(host_memory_can_be_mapped),    T(host_access_faults),           T(kernels_see_host_copies),
        T(capacity_is_enforced),         T(freeing_returns_pages),        T(heap_keeps_its_order),
        T(virtual_memory_maps_physical), T(copies_check_their_arguments), T(copies_2d),
        T(host_memory_is_known),         T(pool_covers_everything_once),  T(pool_serves_several_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
