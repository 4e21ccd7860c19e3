/* wait.c - one lock and one condition for everything that waits on something other than its own stream's
 * queue. */
#include "softnpu/runtime/internal.h"

#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static atomic_int waiters;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &a);
    pthread_condattr_destroy(&a);
}

uint64_t rt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t rt_deadline(int64_t timeout_ms)
{
    return timeout_ms < 0 ? 0 : rt_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

void rt_deadline_spec(uint64_t deadline_ns, struct timespec *out)
{
    out->tv_sec = (time_t)(deadline_ns / 1000000000u);
    out->tv_nsec = (long)(deadline_ns % 1000000000u);
}

void rt_wait_notify(void)
{
    /* Sequentially consistent on both sides: either the waiter sees the change or we see the waiter. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load(&waiters)) return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool rt_wait_until(bool (*done)(void *arg), void *arg, uint64_t deadline_ns, bool cancellable)
{
    if (done(arg)) return true;
    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&waiters, 1);
    bool ok;
    for (;;) {
        ok = done(arg);
        if (ok || (cancellable && rt_task_cancelled())) break;
        if (!deadline_ns) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (rt_now_ns() >= deadline_ns) break;
        struct timespec until;
        rt_deadline_spec(deadline_ns, &until);
        pthread_cond_timedwait(&changed, &lock, &until);
    }
    atomic_fetch_sub(&waiters, 1);
    pthread_mutex_unlock(&lock);
    return ok;
}
