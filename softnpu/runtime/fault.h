/* fault.h - faults on request: SOFTNPU_FAULT=KIND:ARGUMENT[,KIND:ARGUMENT...]
 *
 *     alloc:N      the Nth device allocation fails with 207001
 *     stream:N     the Nth task ends with 507015        memory:N  with 507053, which can be repaired
 *     ecc:N        with 507054                          link:N    with 507056
 *     lost:N       with 507010, and so does everything on the device from then on
 *     wrong:OP[:N] the Nth launch of OP computes a wrong result
 *     fail:OP[:N]  its launch fails with 561000         hang:OP[:N]  it never ends by itself
 *     crash:OP[:N] it kills the process (SIGSEGV)       slow:OP:MS   every launch takes MS milliseconds more
 *
 * Without :N every launch is meant. Docs: docs/device.md. */
#ifndef SOFTNPU_FAULT_H
#define SOFTNPU_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum rt_fault_kind {
    RT_FAULT_ALLOC,
    RT_FAULT_STREAM, /* the five that end a task; their codes stand in fault.c */
    RT_FAULT_MEMORY,
    RT_FAULT_ECC,
    RT_FAULT_LINK,
    RT_FAULT_LOST,
    RT_FAULT_WRONG,
    RT_FAULT_FAIL,
    RT_FAULT_HANG,
    RT_FAULT_CRASH,
    RT_FAULT_SLOW,
    RT_FAULT_KINDS
};
struct rt_fault {
    enum rt_fault_kind kind;
    char name[96]; /* operator; empty for alloc and stream */
    int64_t n;     /* 1 is the first; 0 means every one */
    atomic_llong hits;
};

/* True if any fault is set: the cheap test for the hot path. */
bool rt_fault_any(void);
/* Counts one hit of (kind, name) on every fault that matches, and returns one whose turn it is, or NULL. name
 * is NULL for alloc and stream. Thread safe. */
const struct rt_fault *rt_fault_match(enum rt_fault_kind kind, const char *name);
/* Counts one task on the faults that end tasks; true if one is due. Then its code, with a message recorded.
 */
bool rt_fault_task(void);
int rt_fault_task_code(void);
/* A kernel that hangs: returns 507014 when the operator time limit is over, 107022 when the stream is
 * aborted. */
int rt_fault_hang(void);
/* Replaces the faults (tests). spec NULL: none. False, with a line on stderr, if spec is malformed. */
bool rt_fault_set(const char *spec);

#endif
