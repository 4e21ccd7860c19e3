/* vector_add.c - the interface in one page: a device, memory, a stream, events, and an operator in its two
 * phases.
 *
 *     cc -I build/toolkit/include examples/vector_add.c -o vector_add -L build/toolkit/devlib -lascendcl
 * -lopapi build/bin/softnpu run -- ./vector_add
 *
 * Only the headers acl/ and aclnn/ are used; on a machine with a board the vendor's take their place. */
#include <acl/acl_rt.h>
#include <aclnn/acl_meta.h>

#include <stdio.h>
#include <stdlib.h>

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha,
                                     aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnAdd(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

enum { N = 1000 };

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int code = (call);                                                                                   \
        if (code) {                                                                                          \
            const char *why = aclGetRecentErrMsg();                                                          \
            fprintf(stderr, "%s: %d %s\n", #call, code, why ? why : "");                                     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static aclTensor *vector(void *data)
{
    int64_t size = N, stride = 1;
    return aclCreateTensor(&size, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &size, 1, data);
}

static void add(void *a, void *b, void *out, aclrtStream stream)
{
    float two = 2;
    uint64_t size;
    aclOpExecutor *executor;
    void *workspace = NULL;
    aclTensor *x = vector(a), *y = vector(b), *z = vector(out);
    aclScalar *alpha = aclCreateScalar(&two, ACL_FLOAT);
    CHECK(aclnnAddGetWorkspaceSize(x, y, alpha, z, &size, &executor)); /* checks, and says what it needs */
    if (size) CHECK(aclrtMalloc(&workspace, size, 0));
    CHECK(aclnnAdd(workspace, size, executor, stream)); /* queues the work */
    CHECK(aclrtSynchronizeStream(stream));
    if (workspace) CHECK(aclrtFree(workspace));
    aclDestroyTensor(x);
    aclDestroyTensor(y);
    aclDestroyTensor(z);
    aclDestroyScalar(alpha);
}

int main(void)
{
    static float a[N], b[N], out[N];
    void *da, *db, *dout;
    aclrtStream stream;
    aclrtEvent begin, end;
    float ms;
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = 1;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEventWithFlag(&begin, ACL_EVENT_TIME_LINE));
    CHECK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE));
    CHECK(aclrtMalloc(&da, sizeof a, 0));
    CHECK(aclrtMalloc(&db, sizeof b, 0));
    CHECK(aclrtMalloc(&dout, sizeof out, 0));
    CHECK(aclrtMemcpyAsync(da, sizeof a, a, sizeof a, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK(aclrtMemcpyAsync(db, sizeof b, b, sizeof b, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK(aclrtRecordEvent(begin, stream));
    add(da, db, dout, stream);
    CHECK(aclrtRecordEvent(end, stream));
    CHECK(aclrtMemcpyAsync(out, sizeof out, dout, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtEventElapsedTime(&ms, begin, end));
    for (int i = 0; i < N; i++)
        if (out[i] != a[i] + 2 * b[i]) return fprintf(stderr, "element %d is %f\n", i, (double)out[i]), 1;
    printf("%s: %d elements are right\n", aclrtGetSocName(), N);
    CHECK(aclrtFree(da));
    CHECK(aclrtFree(db));
    CHECK(aclrtFree(dout));
    CHECK(aclrtDestroyEvent(begin));
    CHECK(aclrtDestroyEvent(end));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
