/* internal.h - what the runtime's own files share: devices, heaps, contexts, streams, the process-wide wait
 * point. */
#ifndef SOFTNPU_RUNTIME_INTERNAL_H
#define SOFTNPU_RUNTIME_INTERNAL_H

#include "softnpu/runtime/runtime.h"
#include "softnpu/include/acl/acl_rt.h"

#include <pthread.h>
#include <stdatomic.h>

#define RT_CAPACITY (rt_settings()->soc->memory)

/* ---- the windows (arena.c) --------------------------------------------------------------------------- */

/* Reserves the two windows and opens the device's memory object; 0 or an aclError. Safe to call again. */
int rt_arena_open(int device);
bool rt_arena_is_open(int device);
int rt_arena_fd(int device);
/* First device address of the device's heap; address = base + offset in the memory object. */
char *rt_arena_base(int device);
/* Bytes of the memory object that have addresses (at least the capacity). */
uint64_t rt_arena_span(int device);
/* Device whose heap holds p, -1 if none does (host memory, or the range of reserved addresses). */
int rt_arena_device(const void *p);
/* Range of device addresses that aclrtReserveMemAddress hands out. */
char *rt_arena_reserve_base(void);
uint64_t rt_arena_reserve_size(void);
/* Gives the pages of [offset, offset+size) back to the system. */
void rt_arena_discard(int device, uint64_t offset, uint64_t size);

/* ---- heaps (heap.c): offsets in a range, 512-byte units. Not locked: callers hold a lock. ------------ */

struct rt_heap;
struct rt_heap *rt_heap_new(uint64_t span, uint64_t unit);
void rt_heap_delete(struct rt_heap *h);
/* Offset of a piece of size bytes aligned to align (a power of two), or -1. */
int64_t rt_heap_take(struct rt_heap *h, uint64_t size, uint64_t align);
/* Takes exactly [offset, offset+size) if it is free. */
bool rt_heap_take_at(struct rt_heap *h, uint64_t offset, uint64_t size);
/* Returns a piece; its size in bytes, 0 if offset is not the start of a live piece. */
uint64_t rt_heap_give(struct rt_heap *h, uint64_t offset);
/* Size of the live piece that starts at offset, 0 if there is none. */
uint64_t rt_heap_size(const struct rt_heap *h, uint64_t offset);
/* Start of the live piece that contains offset, or -1. */
int64_t rt_heap_find(const struct rt_heap *h, uint64_t offset);
/* Start of the first live piece, or -1. */
int64_t rt_heap_first(const struct rt_heap *h);

/* ---- device memory (memory.c) ------------------------------------------------------------------------ */

struct rt_memory_state {
    uint64_t total, used, peak;
};
void rt_memory_state(int device, struct rt_memory_state *out);
/* A piece of the device's memory object, counted against the capacity. Offset or -1. */
int64_t rt_memory_take(int device, uint64_t size, uint64_t align);
bool rt_memory_give(int device, uint64_t offset);
/* Address of the lowest live piece, NULL if there is none. */
void *rt_memory_first(int device);
/* True if [offset, offset+size) lies in one live piece. */
bool rt_memory_holds(int device, uint64_t offset, uint64_t size);
/* Counts resets: a piece taken before a reset is gone. */
uint32_t rt_memory_generation(int device);
/* Frees everything the process holds on the device. */
void rt_memory_reset(int device);
void rt_vmm_reset(int device);
/* Where physical memory of this process lies in its device's memory object; false for anything else. */
bool rt_vmm_place(aclrtDrvMemHandle handle, int *device, uint64_t *offset, uint64_t *size);
/* Another process's piece of memory as a handle like that of aclrtMallocPhysical. fd is taken over, also when
 * the call fails. offset and size: multiples of the page. */
int rt_vmm_import(int device, int fd, uint64_t offset, uint64_t size, aclrtDrvMemHandle *handle);
/* The same, shown at an address of its own. */
int rt_vmm_map_object(int device, int fd, uint64_t offset, uint64_t size, char **address);
int rt_vmm_unmap_object(char *address);
/* Opens the memory object of this name among a process's open files (ipc.c); -1 if it is not there. */
int rt_open_object(int pid, const char *name);
/* Device of the memory that is mapped at a reserved address, -1 if there is none. */
int rt_vmm_device(const void *address);
/* True if host memory is mapped at a reserved address. */
bool rt_vmm_is_host(const void *address);
/* True if all of [address, address+size) is mapped. */
bool rt_vmm_holds(const void *address, uint64_t size);

/* A line in the log, if it is wanted (log.c). */
void rt_log_error(const char *text);
/* This thread's recent message (without taking it), "" if none. */
const char *rt_recent_message(void);

/* ---- contexts (context.c) ---------------------------------------------------------------------------- */

struct rt_stream;
struct rt_context {
    uint32_t magic;
    int device;
    bool primary;
    int64_t sys_param[8];
    int64_t sat_mode;
    struct rt_stream *default_stream;
    atomic_int
        failure; /* refuses all work: a stream with ACL_STOP_ON_FAILURE failed, or the device is lost */
    char failure_text[512]; /* its message; written before failure is set */
    struct rt_context *next;
};
/* The calling thread's context, NULL if none. */
struct rt_context *rt_context_current(void);
/* The same, recording 107002 with a message when there is none. */
#define RT_NEED_CONTEXT(ctx)                                                                                 \
    struct rt_context *ctx = rt_context_current();                                                           \
    if (!ctx) return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "%s: no context; call aclrtSetDevice first", __func__)
/* Any code: an invalid argument. */
#define RT_NEED(cond, code)                                                                                  \
    do {                                                                                                     \
        if (!(cond)) return rt_fail(code, "%s: invalid argument, expected %s", __func__, #cond);             \
    } while (0)
int rt_device_count(void);
/* True once aclFinalize was called or the process is exiting: late calls of destructors must not meet an
 * error. */
bool rt_closing(void);

/* ---- streams (stream.c) ------------------------------------------------------------------------------ */

/* Work for the calling thread without a task: enter succeeds when the stream is idle, healthy and not traced
 * by a fault; then do the work and leave with its result. */
bool rt_stream_enter(struct rt_stream *s);
int rt_stream_leave(struct rt_stream *s, int code);
int rt_stream_queue(struct rt_stream *s, struct rt_task *task, bool small);
/* Where the stream's tasks go instead of its queue while they are captured or update a graph (graph.h); NULL
 * otherwise. */
struct rt_sink {
    /* Takes the task over; 0 or an aclError, after which the task has been dropped. small: as for
     * rt_stream_push. */
    int (*put)(struct rt_sink *sink, struct rt_task *task, bool small);
};
_Atomic(struct rt_sink *) *rt_stream_sink(struct rt_stream *s);
/* True while the stream's tasks become part of a graph. */
bool rt_stream_captures(struct rt_stream *s);
/* Runs a task of a graph on the stream that executes the graph. */
int rt_task_perform(struct rt_task *task);
struct rt_context *rt_stream_context(const struct rt_stream *s);
struct rt_stream *rt_stream_new(struct rt_context *ctx, uint32_t priority, uint32_t flags);
/* force: queued work is dropped and the running task is told to stop. */
void rt_stream_delete(struct rt_stream *s, bool force);
/* The live stream behind a handle (NULL: the context's default stream); NULL with a message recorded
 * otherwise. */
struct rt_stream *rt_stream_of(aclrtStream handle, const char *function, int *code);
int rt_stream_device(const struct rt_stream *s);
uint32_t rt_stream_number(const struct rt_stream *s);
atomic_uint *rt_stream_limit(struct rt_stream *s);          /* cube, vector cores; 0: the device's */
_Atomic(uint64_t) *rt_stream_reporter(struct rt_stream *s); /* thread subscribed to its callbacks, 0: none */
void rt_stream_abort(struct rt_stream *s);
/* Waits for the work queued so far, at most timeout_ms (-1: for ever); 0, 507046 or the stream's error. */
int rt_stream_wait(struct rt_stream *s, int32_t timeout_ms);
/* Calls fn for every live stream of the device (-1: of every device), without holding a lock while fn runs.
 */
int rt_stream_each(int device, const struct rt_context *ctx, int (*fn)(struct rt_stream *s, void *arg),
                   void *arg);
/* In a running task: the stream was aborted, stop as soon as possible. */
bool rt_task_cancelled(void);
/* Seconds an operator may take, 0: no limit (aclrtSetOpExecuteTimeOut). */
uint64_t rt_op_timeout_us(void);
int rt_op_wait_timeout_s(void);

/* ---- the wait point (wait.c): one lock and one condition for events, value waits and reports --------- */

/* Wakes waiters after something they may wait for has changed. Cheap when nobody waits. */
void rt_wait_notify(void);
/* Waits until done(arg) is true; false when cancelled (if cancellable) or when the deadline (ns, 0: none) has
 * passed. */
bool rt_wait_until(bool (*done)(void *arg), void *arg, uint64_t deadline_ns, bool cancellable);
uint64_t rt_now_ns(void);
/* Deadline for timeout_ms from now; 0 (none) for a negative timeout. */
uint64_t rt_deadline(int64_t timeout_ms);
void rt_deadline_spec(uint64_t deadline_ns, struct timespec *out);

/* Starts a thread that no asynchronous signal is delivered to (thread.c). name: at most 15 bytes. */
bool rt_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *arg), void *arg);

/* ---- copies (copy.c) --------------------------------------------------------------------------------- */

/* Address a copy may use: host memory as it is, device memory through the kernel window. */
static inline void *rt_any_ptr(const void *p)
{
    return p && rt_is_device_ptr(p) ? rt_kernel_ptr(p) : (void *)(uintptr_t)p;
}

/* ---- the device's last fault (device_error.c) -------------------------------------------------------- */

/* at, length: the memory that a memory fault concerns, otherwise NULL and 0. code 0: none any more. */
void rt_device_error_note(int device, int code, void *at, size_t length);

/* ---- what other processes see (usage.c) -------------------------------------------------------------- */

void rt_usage_update(int device, uint64_t used);

#endif
