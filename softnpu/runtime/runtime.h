/* runtime.h - what the operators and the exported functions need of the runtime.
 *
 * Device memory. Each device is one shared memory object that is mapped twice. The device window is what the
 * host gets: addresses in it are never readable or writable by the host. The kernel window shows the same
 * bytes to kernels, at a constant distance (rt_kernel_delta) that is the same for all devices and all
 * mappings.
 */
#ifndef SOFTNPU_RUNTIME_H
#define SOFTNPU_RUNTIME_H

#include "softnpu/include/acl/acl_base.h"
#include "softnpu/runtime/soc.h"
#include <stdbool.h>
#include <stdint.h>

/* ---- errors: per thread, recent message ---------------------------------------------------------------- */

/* Records the message (printf) as this thread's recent error message and returns code. The text that
 * aclGetRecentErrMsg hands out starts with a vendor-style code ("EZ9999: ..."). */
int rt_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ACL_ERROR_RT_FEATURE_NOT_SUPPORT with a message that names the function. */
int rt_unsupported(const char *function);
#define RT_UNSUPPORTED() rt_unsupported(__func__)

/* ---- memory ------------------------------------------------------------------------------------------ */

extern intptr_t rt_kernel_delta;
/* True if p lies in the device window (of any device). */
bool rt_is_device_ptr(const void *p);
/* The kernel's address of a device address, NULL for NULL or an address outside every device window. */
static inline void *rt_kernel_ptr(const void *p)
{
    return p && rt_is_device_ptr(p) ? (char *)(uintptr_t)p + rt_kernel_delta : NULL;
}

/* ---- streams ----------------------------------------------------------------------------------------- */

struct rt_task;
/* A kind of work. */
struct rt_task_kind {
    const char *name;
    /* Does the work in stream order and leaves the task as it was: a graph runs it again and again. A
     * non-zero result becomes the stream's sticky error. */
    int (*run)(struct rt_task *task);
    /* Frees the task, after its run or instead of it (aborted or failed stream). */
    void (*drop)(struct rt_task *task);
    /* True if run would not wait for somebody else's work. NULL: it never does. */
    bool (*ready)(struct rt_task *task);
    /* What graphs and traces call the task. NULL: the kind's name. */
    const char *(*label)(const struct rt_task *task);
    bool always;     /* runs although the stream has failed or was aborted (recording an event) */
    bool no_capture; /* cannot be part of a graph */
    bool no_record;  /* not shown by the profiler */
};
/* Work on a stream: the first member of a struct that holds the rest. */
struct rt_task {
    struct rt_task *next;
    const struct rt_task_kind *kind;
    uint64_t launched; /* profiling: when the host asked for it (rt_profile_now), 0 otherwise */
};
/* Queues the task; stream NULL is the current context's default stream. small: a task so short that it may
 * run at once on the calling thread when the stream is idle (same order, no hand-over). Returns 0 or an
 * aclError; on an error the task has been dropped. With SOFTNPU_BLOCKING=1 everything runs on the calling
 * thread. */
int rt_stream_push(aclrtStream stream, struct rt_task *task, bool small);
/* Waits until all work queued so far is done; returns the stream's error. */
int rt_stream_drain(aclrtStream stream);
/* Small integer that names the stream in traces. */
uint32_t rt_stream_id(aclrtStream stream);

/* ---- the pool ("AI cores"): one for the process ------------------------------------------------------ */

/* Calls fn(ctx, begin, end) over [0, n) in pieces of at least grain, in parallel, and returns when all are
 * done. Pieces depend only on n and grain, never on the thread count (deterministic reductions rely on it):
 * piece i is [i*grain, min(n, (i+1)*grain)). Runs inline when n <= grain, when nested, or with one thread
 * (SOFTNPU_THREADS). */
void rt_pool_run(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t begin, int64_t end), void *ctx);
int rt_pool_threads(void);

/* ---- settings (environment, read once) --------------------------------------------------------------- */

struct rt_settings {
    bool blocking;    /* SOFTNPU_BLOCKING=1 */
    bool accept_any;  /* SOFTNPU_ACCEPT=any: dtype and rank acceptance relaxed */
    bool hf32;        /* SOFTNPU_HF32=1 */
    int devices;      /* SOFTNPU_DEVICES, default 1, as far as ASCEND_RT_VISIBLE_DEVICES lets see them */
    int physical[16]; /* number of each among all of SOFTNPU_DEVICES */
    int address_gib;  /* SOFTNPU_ADDRESS_GIB: at most this much address space is reserved, default 8192 */
    const struct soc *soc; /* SOFTNPU_SOC, default Ascend910B4 */
    const char *trace;     /* SOFTNPU_TRACE=FILE or NULL */
    const char *counts; /* SOFTNPU_COUNTS=FILE: per-operator launch counts written there at exit, or NULL */
};
const struct rt_settings *rt_settings(void);

#endif
