/* profile.h - recording of tasks and marks while the profiler runs (aclprofStart to aclprofStop). */
#ifndef SOFTNPU_PROFILE_H
#define SOFTNPU_PROFILE_H

#include "softnpu/runtime/internal.h"

extern atomic_bool rt_profile_on;
/* Nanoseconds of the clock that the plugin's profiler uses. */
uint64_t rt_profile_now(void);
/* A task ran on stream s from start to end; launched: when the host asked for it. */
void rt_profile_task(const struct rt_stream *s, const struct rt_task *task, uint64_t launched, uint64_t start,
                     uint64_t end);

#endif
