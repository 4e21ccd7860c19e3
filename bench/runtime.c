/* runtime.c - what the runtime costs: launch, events, hand-over between streams, copies, allocation, graph
 * replay.
 *
 * Prints one line a measure: ours, the peer on the same machine in the same run, and their ratio. Each number
 * is the least of several rounds. usage: bench_runtime */
#include "softnpu/include/acl/acl_rt.h"
#include "softnpu/include/aclnn/acl_meta.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha,
                                     aclTensor *out, uint64_t *workspace_size, aclOpExecutor **executor);
aclnnStatus aclnnAdd(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, aclrtStream stream);

enum { ROUNDS = 7, GRAPH_OPS = 20 };
static aclrtStream stream, other;
static char *device;
static aclmdlRI graph;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds a call, the least of the rounds. */
static double least(void (*fn)(size_t size), size_t size, int calls)
{
    double best = 1e18;
    fn(size);
    for (int r = 0; r < ROUNDS; r++) {
        double start = now();
        for (int i = 0; i < calls; i++) fn(size);
        double each = (now() - start) / calls;
        if (each < best) best = each;
    }
    return best;
}

static void line(const char *what, double ours, const char *peer, double theirs)
{
    printf("%-34s %12.0f ns   %-28s %12.0f ns   ratio %.2f\n", what, ours, peer, theirs, theirs / ours);
}

/* ---- operators --------------------------------------------------------------------------------------- */

static aclTensor *vector8(void *data)
{
    static const int64_t dim = 8, stride = 1;
    return aclCreateTensor(&dim, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &dim, 1, data);
}

static void add(size_t size)
{
    double one = 1;
    uint64_t workspace;
    aclOpExecutor *executor;
    (void)size;
    aclTensor *a = vector8(device), *b = vector8(device + 512), *c = vector8(device + 1024);
    aclScalar *alpha = aclCreateScalar(&one, ACL_DOUBLE);
    if (!aclnnAddGetWorkspaceSize(a, b, alpha, c, &workspace, &executor)) aclnnAdd(NULL, 0, executor, stream);
    aclDestroyTensor(a);
    aclDestroyTensor(b);
    aclDestroyTensor(c);
    aclDestroyScalar(alpha);
}

static void add_many(size_t n)
{
    for (size_t i = 0; i < n; i++) add(0);
    aclrtSynchronizeStream(stream);
}

static void replay(size_t size)
{
    (void)size;
    aclmdlRIExecuteAsync(graph, stream);
    aclrtSynchronizeStream(stream);
}

/* ---- events and hand-over ---------------------------------------------------------------------------- */

static aclrtEvent event;

static void record_wait(size_t size)
{
    (void)size;
    aclrtRecordEvent(event, stream);
    aclrtStreamWaitEvent(other, event);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void lock_signal(size_t size)
{
    (void)size;
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* A host function never runs on the launching thread: launch and wait is two hand-overs. */
static void hand_over(size_t size)
{
    (void)size;
    aclrtLaunchHostFunc(stream, nothing, NULL);
    aclrtSynchronizeStream(stream);
}

static sem_t ping, pong;

static void *answer(void *arg)
{
    for (;;) {
        sem_wait(&ping);
        sem_post(&pong);
    }
    return arg;
}

static void semaphores(size_t size)
{
    (void)size;
    sem_post(&ping);
    sem_wait(&pong);
}

/* ---- copies and allocation --------------------------------------------------------------------------- */

static char *source, *target; /* host */

static void copy_in(size_t size)
{
    aclrtMemcpy(device, size, source, size, ACL_MEMCPY_HOST_TO_DEVICE);
}

static void copy_within(size_t size)
{
    aclrtMemcpyAsync(device + ((size_t)1 << 30), size, device, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
    aclrtSynchronizeStream(stream);
}

static void plain(size_t size)
{
    memcpy(target, source, size);
}

static void allocate(size_t size)
{
    void *p = NULL;
    if (!aclrtMalloc(&p, size, 0)) aclrtFree(p);
}

static void map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) munmap(p, size);
}

static void copies(void)
{
    static const size_t sizes[] = {64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        int calls = n < (1 << 20) ? 2000 : n < (64 << 20) ? 20 : 1;
        char name[64];
        double peer = least(plain, n, calls);
        snprintf(name, sizeof name, "host to device, %zu bytes", n);
        line(name, least(copy_in, n, calls), "memcpy", peer);
        snprintf(name, sizeof name, "device to device, %zu bytes", n);
        line(name, least(copy_within, n, calls), "memcpy", peer);
    }
}

static int set_up(void)
{
    size_t most = (size_t)1 << 30;
    source = malloc(most);
    target = malloc(most);
    if (!source || !target) return -1;
    memset(source, 1, most);
    memset(target, 1, most);
    if (aclrtSetDevice(0) || aclrtMalloc((void **)&device, 2 * most, 0) || aclrtCreateStream(&stream) ||
        aclrtCreateStream(&other) || aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC) ||
        aclrtMemset(device, 2 * most, 0, 2 * most))
        return -1;
    if (aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)) return -1;
    for (int i = 0; i < GRAPH_OPS; i++) add(0);
    pthread_t t;
    return aclmdlRICaptureEnd(stream, &graph) || sem_init(&ping, 0, 0) || sem_init(&pong, 0, 0) ||
           pthread_create(&t, NULL, answer, NULL);
}

int main(void)
{
    if (set_up()) {
        const char *why = aclGetRecentErrMsg();
        fprintf(stderr, "bench_runtime: cannot start: %s\n", why ? why : "no memory");
        return 2;
    }
    double one = least(add, 0, 20000), many = least(add_many, GRAPH_OPS, 500);
    line("launch of an operator, 8 floats", one, "none", one);
    line("graph replay, 20 operators", least(replay, 0, 500), "the same, launched", many);
    line("event record and wait", least(record_wait, 0, 20000), "lock, signal, unlock",
         least(lock_signal, 0, 20000));
    line("stream hand-over, there and back", least(hand_over, 0, 2000), "two semaphores",
         least(semaphores, 0, 2000));
    line("allocate and free 2 MiB", least(allocate, 2 << 20, 2000), "mmap and munmap",
         least(map, 2 << 20, 2000));
    copies();
    return 0;
}
