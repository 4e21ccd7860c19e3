/* pool.c - the worker threads that kernels share.
 *
 * A job lives on its caller's stack and is listed while it has pieces to hand out. Workers hold a job by
 * counting themselves in under the lock; the caller leaves when its own loop found no more pieces and no
 * worker holds the job. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/variable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
    void (*fn)(void *ctx, int64_t begin, int64_t end);
    void *ctx;
    int64_t n, grain, pieces;
    atomic_llong next;
    int holders; /* under the lock */
    struct job *link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static struct job *jobs;
static int started, idle;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int threads;
static _Thread_local bool in_pool;

/* A forked child has none of the threads: it starts its own when it first needs them. */
static void after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work, NULL);
    pthread_cond_init(&left, NULL);
    jobs = NULL;
    started = idle = 0;
}

static void count_threads(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    threads = variable_number("softnpu", "SOFTNPU_THREADS", 1, 1024, cores);
    if (threads < 1) threads = 1;
    pthread_atfork(NULL, NULL, after_fork);
}

int rt_pool_threads(void)
{
    pthread_once(&once, count_threads);
    return threads;
}

static void run_pieces(struct job *j)
{
    bool was = in_pool;
    in_pool = true;
    for (int64_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->pieces;) {
        int64_t begin = i * j->grain;
        j->fn(j->ctx, begin, j->n - begin < j->grain ? j->n : begin + j->grain);
    }
    in_pool = was;
}

static void unlist(struct job *j)
{
    struct job **p = &jobs;
    while (*p && *p != j) p = &(*p)->link;
    if (*p) *p = j->link;
}

static void *worker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct job *j = jobs;
        if (!j) {
            idle++;
            pthread_cond_wait(&work, &lock);
            idle--;
            continue;
        }
        j->holders++;
        pthread_mutex_unlock(&lock);
        run_pieces(j);
        pthread_mutex_lock(&lock);
        unlist(j);
        if (!--j->holders) pthread_cond_broadcast(&left);
    }
    return NULL;
}

/* Called with the lock held. A machine that gives fewer threads only makes us slower. */
static void start_workers(int wanted)
{
    for (pthread_t t; started < wanted && rt_thread_start(&t, "npu-core", worker, NULL); started++)
        pthread_detach(t);
}

static void run_shared(struct job *j)
{
    pthread_mutex_lock(&lock);
    if (started < threads - 1) start_workers(threads - 1);
    j->link = jobs;
    jobs = j;
    if (idle) {
        if (j->pieces > 2)
            pthread_cond_broadcast(&work);
        else
            pthread_cond_signal(&work);
    }
    pthread_mutex_unlock(&lock);
    run_pieces(j);
    pthread_mutex_lock(&lock);
    unlist(j);
    while (j->holders) pthread_cond_wait(&left, &lock);
    pthread_mutex_unlock(&lock);
}

void rt_pool_run(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t begin, int64_t end), void *ctx)
{
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    struct job j = {.fn = fn, .ctx = ctx, .n = n, .grain = grain, .pieces = (n - 1) / grain + 1};
    if (j.pieces == 1)
        fn(ctx, 0, n);
    else if (in_pool || rt_pool_threads() == 1)
        run_pieces(&j);
    else
        run_shared(&j);
}
