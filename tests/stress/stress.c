/* stress.c - many threads, streams, devices and processes at once, with sums that must be right and no leak.
 *
 * Every thread keeps an accumulator in device memory and, in rounds, fills a fresh buffer on one stream, adds
 * it on another that waits for the first by an event, and now and then checks the sum, replays a graph of
 * such steps, runs a host function or makes and ends a stream. The processes meanwhile add up their round
 * numbers with each other (HCCL). At the end all sums are compared, all device memory must be free, and
 * neither the process's memory nor its open files may have grown since the first tenth.
 *
 * usage: stress [SECONDS [PROCESSES [THREADS [STREAMS [DEVICES]]]]]     (60 4 8 16 2) */
#include "softnpu/include/acl/acl_rt.h"
#include "softnpu/include/aclnn/acl_meta.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other,
                                            const aclScalar *alpha, uint64_t *workspace_size,
                                            aclOpExecutor **executor);
aclnnStatus aclnnInplaceAdd(void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                            aclrtStream stream);
int HcclGetRootInfo(void *info);
int HcclCommInitRootInfo(uint32_t n, const void *info, uint32_t rank, void **comm);
int HcclAllReduce(void *send, void *recv, uint64_t count, int dtype, int op, void *comm, aclrtStream stream);
int HcclCommDestroy(void *comm);

enum { MAX_STREAMS = 64, MAX_DEVICES = 16, SMALL = 1000, LARGE = 100000, HCCL_INT64 = 5 };

static int seconds = 60, processes = 4, threads = 8, nstreams = 16, devices = 2;
static aclrtStream streams[MAX_DEVICES][MAX_STREAMS];
static atomic_bool stop;
static atomic_llong rounds, checks;

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        int must_code = (call);                                                                              \
        if (must_code) fail(#call, must_code);                                                               \
    } while (0)

static void fail(const char *what, int code)
{
    const char *why = aclGetRecentErrMsg();
    fprintf(stderr, "stress: process %d: %s: %d %s\n", (int)getpid(), what, code, why ? why : "");
    _exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- one thread -------------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    int device;
    unsigned seed;
    int64_t n; /* elements */
    int32_t *sum, *host;
    uint32_t expected;
    aclrtEvent done; /* of the latest work on sum */
};

static aclrtStream any_stream(struct worker *w)
{
    return streams[w->device][(unsigned)rand_r(&w->seed) % (unsigned)nstreams];
}

static aclTensor *vector(struct worker *w, void *data)
{
    int64_t stride = 1;
    return aclCreateTensor(&w->n, 1, ACL_INT32, &stride, 0, ACL_FORMAT_ND, &w->n, 1, data);
}

static void add(struct worker *w, void *other, aclrtStream s)
{
    int64_t one = 1;
    uint64_t size;
    aclOpExecutor *ex;
    aclTensor *a = vector(w, w->sum), *b = vector(w, other);
    aclScalar *alpha = aclCreateScalar(&one, ACL_INT64);
    MUST(aclnnInplaceAddGetWorkspaceSize(a, b, alpha, &size, &ex));
    MUST(aclnnInplaceAdd(NULL, 0, ex, s));
    aclDestroyTensor(a);
    aclDestroyTensor(b);
    aclDestroyScalar(alpha);
}

/* Fills on one stream, adds on another; the value goes into all four bytes of an element. */
static void step(struct worker *w, void *fresh)
{
    size_t bytes = (size_t)w->n * sizeof *w->sum;
    int value = rand_r(&w->seed) % 100;
    aclrtStream a = any_stream(w), b = any_stream(w);
    aclrtEvent filled;
    MUST(aclrtCreateEventExWithFlag(&filled, ACL_EVENT_SYNC));
    MUST(aclrtStreamWaitEvent(a, w->done));
    MUST(aclrtMemsetAsync(fresh, bytes, value, bytes, a));
    MUST(aclrtRecordEvent(filled, a));
    MUST(aclrtStreamWaitEvent(b, filled));
    add(w, fresh, b);
    MUST(aclrtRecordEvent(w->done, b));
    MUST(aclrtDestroyEvent(filled));
    w->expected += (uint32_t)value * 0x01010101u;
}

static void check(struct worker *w)
{
    size_t bytes = (size_t)w->n * sizeof *w->sum;
    MUST(aclrtSynchronizeEvent(w->done));
    MUST(aclrtMemcpy(w->host, bytes, w->sum, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int64_t i = 0; i < w->n; i++)
        if ((uint32_t)w->host[i] != w->expected) fail("a sum is wrong", (int)i);
    atomic_fetch_add(&checks, 1);
}

/* A graph of four additions, replayed three times. */
static void graph(struct worker *w, void *fresh)
{
    aclrtStream s;
    aclmdlRI g;
    size_t bytes = (size_t)w->n * sizeof *w->sum;
    MUST(aclrtCreateStream(&s));
    MUST(aclrtStreamWaitEvent(s, w->done));
    MUST(aclrtSynchronizeStream(s));
    MUST(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    MUST(aclrtMemsetAsync(fresh, bytes, 1, bytes, s));
    for (int i = 0; i < 4; i++) add(w, fresh, s);
    MUST(aclmdlRICaptureEnd(s, &g));
    for (int i = 0; i < 3; i++) MUST(aclmdlRIExecuteAsync(g, s));
    MUST(aclrtRecordEvent(w->done, s));
    MUST(aclmdlRIDestroy(g));
    MUST(aclrtDestroyStream(s)); /* waits */
    w->expected += 12 * 0x01010101u;
}

static void count(void *arg)
{
    atomic_fetch_add((atomic_llong *)arg, 1);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    size_t bytes = (size_t)w->n * sizeof *w->sum;
    atomic_llong calls = 0;
    long long asked = 0;
    MUST(aclrtSetDevice(w->device));
    MUST(aclrtMalloc((void **)&w->sum, bytes, 0));
    MUST(aclrtMemset(w->sum, bytes, 0, bytes));
    MUST(aclrtMallocHost((void **)&w->host, bytes));
    MUST(aclrtCreateEventExWithFlag(&w->done, ACL_EVENT_SYNC));
    MUST(aclrtRecordEvent(w->done, any_stream(w)));
    while (!atomic_load(&stop)) {
        void *fresh;
        MUST(aclrtMalloc(&fresh, bytes, 0));
        for (int i = rand_r(&w->seed) % 20; i >= 0; i--) step(w, fresh);
        int what = rand_r(&w->seed) % 16;
        if (what == 0) graph(w, fresh);
        if (what == 1) {
            MUST(aclrtLaunchHostFunc(any_stream(w), count, &calls));
            asked++;
        }
        MUST(aclrtSynchronizeEvent(w->done));
        MUST(aclrtFree(fresh));
        if (what < 4) check(w);
        atomic_fetch_add(&rounds, 1);
    }
    check(w);
    for (int i = 0; i < nstreams; i++) MUST(aclrtSynchronizeStream(streams[w->device][i]));
    if (atomic_load(&calls) != asked) fail("a host function did not run", (int)atomic_load(&calls));
    MUST(aclrtDestroyEvent(w->done));
    MUST(aclrtFree(w->sum));
    MUST(aclrtFreeHost(w->host));
    return NULL;
}

/* ---- one process ------------------------------------------------------------------------------------- */

struct footprint {
    long kilobytes;
    int files;
};

static struct footprint measure(void)
{
    struct footprint f = {0, 0};
    long pages, resident = 0, shared = 0;
    malloc_trim(0);
    FILE *m = fopen("/proc/self/statm", "re");
    if (m && fscanf(m, "%ld %ld %ld", &pages, &resident, &shared) == 3)
        f.kilobytes = (resident - shared) * (sysconf(_SC_PAGESIZE) / 1024);
    if (m) fclose(m);
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) f.files++;
    if (d) closedir(d);
    return f;
}

/* The round numbers of all processes, summed by every one of them. */
static void talk(void *comm, aclrtStream s, int64_t *device, int64_t round)
{
    int64_t sum = 0, mine = round;
    MUST(aclrtMemcpy(device, 8, &mine, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(HcclAllReduce(device, device, 1, HCCL_INT64, 0, comm, s));
    MUST(aclrtSynchronizeStream(s));
    MUST(aclrtMemcpy(&sum, 8, device, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    if (sum != round * processes) fail("a sum over the processes is wrong", (int)sum);
}

/* All processes talk the same number of times: the last word is rank 0's, carried in the sum itself. */
static int64_t talk_until(void *comm, aclrtStream s, int64_t *device, double end, int rank,
                          struct footprint *early)
{
    double begin = now();
    int64_t round = 0;
    for (int64_t go = 1; go; round++) {
        talk(comm, s, device, round);
        go = rank ? 0 : now() < end;
        MUST(aclrtMemcpy(device, 8, &go, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        MUST(HcclAllReduce(device, device, 1, HCCL_INT64, 0, comm, s));
        MUST(aclrtSynchronizeStream(s));
        MUST(aclrtMemcpy(&go, 8, device, 8, ACL_MEMCPY_DEVICE_TO_HOST));
        if (!early->files && now() - begin > (end - begin) / 10) *early = measure();
        usleep(20000);
    }
    return round;
}

static void each_stream(int (*fn)(aclrtStream *s))
{
    for (int d = 0; d < devices; d++) {
        MUST(aclrtSetDevice(d));
        for (int i = 0; i < nstreams; i++) MUST(fn(&streams[d][i]));
    }
}

static int make_stream(aclrtStream *s)
{
    return aclrtCreateStream(s);
}
static int end_stream(aclrtStream *s)
{
    return aclrtDestroyStream(*s);
}

static void start(struct worker *w, int rank)
{
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){
            .device = i % devices, .seed = (unsigned)(rank * 1000 + i), .n = i % 2 ? SMALL : LARGE};
        MUST(pthread_create(&w[i].thread, NULL, work, &w[i]));
    }
}

static void nothing_is_left(const struct footprint *early)
{
    for (int d = 0; d < devices; d++) {
        size_t free_bytes, total;
        MUST(aclrtSetDevice(d));
        MUST(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
        if (free_bytes != total) fail("device memory is not free", (int)((total - free_bytes) / 1024));
    }
    struct footprint f = measure();
    printf("process %d: %lld rounds, %lld checks, %ld KiB at a tenth, %ld KiB at the end, %d open files, "
           "then %d\n",
           (int)getpid(), (long long)atomic_load(&rounds), (long long)atomic_load(&checks), early->kilobytes,
           f.kilobytes, early->files, f.files);
    if (early->files && f.files > early->files) fail("open files have leaked", f.files - early->files);
    if (early->files && f.kilobytes > early->kilobytes + 32 * 1024)
        fail("memory has leaked (KiB)", (int)f.kilobytes);
}

static void process(int rank, void *info, atomic_bool *ready)
{
    struct worker w[64];
    struct footprint early = {0, 0};
    void *comm;
    int64_t *device;
    aclrtStream s;
    MUST(aclrtSetDevice(0));
    if (!rank) {
        MUST(HcclGetRootInfo(info));
        atomic_store(ready, true);
    }
    while (!atomic_load(ready)) usleep(1000);
    MUST(HcclCommInitRootInfo((uint32_t)processes, info, (uint32_t)rank, &comm));
    each_stream(make_stream);
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&s));
    MUST(aclrtMalloc((void **)&device, 8, 0));
    start(w, rank);
    talk_until(comm, s, device, now() + seconds, rank, &early);
    atomic_store(&stop, true);
    for (int i = 0; i < threads; i++) pthread_join(w[i].thread, NULL);
    MUST(aclrtSetDevice(0));
    MUST(aclrtFree(device));
    MUST(aclrtDestroyStream(s));
    MUST(HcclCommDestroy(comm));
    each_stream(end_stream);
    nothing_is_left(&early);
    for (int d = 0; d < devices; d++) MUST(aclrtResetDevice(d));
}

static int argument(int argc, char **argv, int i, int otherwise, int most)
{
    int v = argc > i ? atoi(argv[i]) : otherwise;
    if (v >= 1 && v <= most) return v;
    fprintf(stderr, "stress: argument %d must be 1 to %d\n", i, most);
    exit(2);
}

int main(int argc, char **argv)
{
    seconds = argument(argc, argv, 1, seconds, 86400);
    processes = argument(argc, argv, 2, processes, 64);
    threads = argument(argc, argv, 3, threads, 64);
    nstreams = argument(argc, argv, 4, nstreams, MAX_STREAMS);
    devices = argument(argc, argv, 5, devices, MAX_DEVICES);
    char text[16];
    snprintf(text, sizeof text, "%d", devices);
    setenv("SOFTNPU_DEVICES", text, 1);
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int r = 0; r < processes; r++) {
        if (fork()) continue;
        process(r, shared, (atomic_bool *)(shared + 8000));
        exit(0);
    }
    int bad = 0, status;
    while (wait(&status) > 0) bad += status != 0;
    printf(
        "stress: %d s, %d processes of %d threads, %d streams on each of %d devices: %d processes failed\n",
        seconds, processes, threads, nstreams, devices, bad);
    return bad != 0;
}
