/* check.h - SOFTNPU_CHECK=memory,race: looks at what tasks touch.
 *
 * memory: every tensor argument must lie in live device memory; freed memory is filled with CHECK_POISON.
 * race:   two streams that touch the same bytes, one of them writing, must be ordered by an event or by the
 * host. */
#ifndef SOFTNPU_CHECK_H
#define SOFTNPU_CHECK_H

#include "softnpu/runtime/runtime.h"

enum { CHECK_POISON = 0xFB };

bool rt_check_memory(void);
bool rt_check_race(void);
/* True if either is on. */
bool rt_check_any(void);
/* 0, or 507015 with a message that names task and argument: [at, at+size) is not live device memory. */
int rt_check_live(const char *task, const char *argument, const void *at, uint64_t size);
/* The running task reads or writes [at, at+size): reports a race with another stream's task on standard
 * error. */
void rt_check_access(const char *task, const char *argument, const void *at, uint64_t size, bool writes);

/* The memory is free: who touches it next has nothing to do with who touched it before. */
void rt_check_forget(const void *at, uint64_t size);

/* ---- what orders streams: a clock per stream, and copies of the clocks ------------------------------- */

enum { CHECK_STREAMS = 64 };
struct rt_clock {
    uint32_t at[CHECK_STREAMS];
};
/* Numbers of streams wrap at CHECK_STREAMS: with more at once, some races go unseen. All calls are cheap
 * no-ops unless races are looked for. */
void rt_clock_launch(uint32_t stream);                             /* the host has launched onto it */
void rt_clock_start(uint32_t stream);                              /* a task of the stream begins */
void rt_clock_record(uint32_t stream, struct rt_clock *event);     /* an event is recorded */
void rt_clock_wait(uint32_t stream, const struct rt_clock *event); /* a stream has waited for it */
void rt_clock_host_event(const struct rt_clock *event);            /* the host has waited for it */
void rt_clock_host_stream(uint32_t stream);                        /* the host has waited for the stream */

#endif
