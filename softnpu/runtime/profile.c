/* profile.c - the parts of the profiler's interface that are called although nothing is being profiled. */
#include "softnpu/runtime/internal.h"

ACL_EXPORT uint64_t MsprofSysCycleTime(void);
ACL_EXPORT uint64_t MsprofGetHashId(const char *text, size_t length);
ACL_EXPORT int32_t MsprofRegisterCallback(uint32_t module,
                                          int32_t (*callback)(uint32_t type, void *data, uint32_t length));

/* Nanoseconds stand for cycles: the software device's counter runs at 1 GHz. */
uint64_t MsprofSysCycleTime(void)
{
    return rt_now_ns();
}

uint64_t MsprofGetHashId(const char *text, size_t length)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; text && i < length; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    return h;
}

/* The callback tells a module that profiling starts or stops. Here it never starts, so there is nothing to
 * tell. */
int32_t MsprofRegisterCallback(uint32_t module,
                               int32_t (*callback)(uint32_t type, void *data, uint32_t length))
{
    (void)module;
    return callback ? 0 : rt_fail(ACL_ERROR_INVALID_PARAM, "MsprofRegisterCallback: no callback");
}
