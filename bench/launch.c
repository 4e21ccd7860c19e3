/* launch.c - what a small operator costs on the device's side: objects, two phases and execution of an add of
 * 8 floats.
 *
 * Prints nanoseconds a call, as torch_npu makes it: three tensors and a scalar created, both phases, all
 * destroyed. bench/device.py sets it against CPU torch's whole add. usage: bench_launch [calls] */
#include "softnpu/include/acl/acl_rt.h"
#include "softnpu/include/aclnn/acl_meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha,
                                     aclTensor *out, uint64_t *workspace_size, aclOpExecutor **executor);
aclnnStatus aclnnAdd(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static aclTensor *vector8(void *data)
{
    static const int64_t dim = 8, stride = 1;
    return aclCreateTensor(&dim, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &dim, 1, data);
}

static int add_once(void *memory, aclrtStream stream)
{
    double one = 1;
    uint64_t size;
    aclOpExecutor *executor;
    aclTensor *a = vector8(memory), *b = vector8((char *)memory + 512), *c = vector8((char *)memory + 1024);
    aclScalar *alpha = aclCreateScalar(&one, ACL_DOUBLE);
    int rc = aclnnAddGetWorkspaceSize(a, b, alpha, c, &size, &executor);
    if (!rc) rc = aclnnAdd(NULL, 0, executor, stream);
    aclDestroyTensor(a);
    aclDestroyTensor(b);
    aclDestroyTensor(c);
    aclDestroyScalar(alpha);
    return rc;
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
    void *memory;
    aclrtStream stream;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&memory, 4096, 0) || aclrtCreateStream(&stream) ||
        aclrtMemset(memory, 4096, 0, 4096)) {
        fprintf(stderr, "bench_launch: the device does not start: %s\n", aclGetRecentErrMsg());
        return 2;
    }
    double best = 1e18;
    for (int round = 0; round < 5; round++) {
        double start = now();
        for (long i = 0; i < calls; i++) {
            if (add_once(memory, stream)) {
                fprintf(stderr, "bench_launch: add failed: %s\n", aclGetRecentErrMsg());
                return 2;
            }
        }
        aclrtSynchronizeStream(stream);
        double each = (now() - start) / (double)calls;
        if (each < best) best = each;
    }
    printf("%.1f\n", best);
    aclrtDestroyStream(stream);
    aclrtFree(memory);
    aclrtResetDevice(0);
    return aclFinalize();
}
