/* executor.h - internal to the operator mechanism: the executor, its memory, and the memory of a running
 * call. */
#ifndef SOFTNPU_EXECUTOR_H
#define SOFTNPU_EXECUTOR_H

#include "softnpu/op/op.h"

enum { EXEC_ARENA = 4096 };

/* One call between its two phases. It is made on the caller's thread, launched on another and freed on a
 * third; the memory goes back to the thread that made it, so that a steady stream of calls allocates nothing.
 */
struct aclOpExecutor {
    struct rt_task task;
    op_call call;
    aclrtStream stream;
    aclTensor **caller; /* OPF_SYNC_SHAPE: the caller's own objects, by argument */
    struct exec_owner *owner;
    struct aclOpExecutor *next; /* in a free list */
    struct exec_chunk *chunks;  /* argument copies that did not fit the arena */
    size_t used;
    _Alignas(16) char arena[EXEC_ARENA];
};

/* NULL when out of memory. */
struct aclOpExecutor *exec_new(void);
/* 16-byte aligned memory for argument copies; NULL when out of memory. */
void *exec_alloc(struct aclOpExecutor *ex, size_t bytes);
void exec_free(struct aclOpExecutor *ex);

/* The running thread's memory. scratch_reset frees all that op_scratch gave since the last reset. */
void scratch_reset(void);
/* At least bytes of 64-byte aligned memory for the block engine, valid until the thread's next call. */
char *scratch_block(size_t bytes);

/* Runs a row of the older path: its tensors may come in private formats. */
int op_run_private(op_call *c);

/* Counting and tracing, after a call ran. */
void trace_call(const op_call *c, aclrtStream stream, int64_t start_ns, int64_t end_ns);
bool trace_enabled(void);
int64_t trace_clock_ns(void);

#endif
