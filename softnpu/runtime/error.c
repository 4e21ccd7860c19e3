/* error.c - the calling thread's recent error message and last error code. */
#include "softnpu/runtime/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 2048 };

/* Two buffers: the one being written, and the one handed out, which stays valid until the next
 * aclGetRecentErrMsg. */
static _Thread_local char recent[MESSAGE_MAX];
static _Thread_local char handed_out[MESSAGE_MAX];
static _Thread_local int last_error;

/* Prefixes of the public error code reference: EE runtime, EI collective communication, EZ operators. */
static const char *prefix(int code)
{
    if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) return "EL0004";
    if (code >= 107000 && code < 600000 && code / 100 != 1610 && code / 100 != 3610 && code / 1000 != 561)
        return "EE9999";
    return "EZ9999";
}

int rt_fail(int code, const char *fmt, ...)
{
    last_error = code;
    int n = snprintf(recent, sizeof recent, "%s: ", prefix(code));
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(recent + n, sizeof recent - (size_t)n, fmt, ap);
    va_end(ap);
    rt_log_error(recent);
    return code;
}

int rt_unsupported(const char *function)
{
    return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not supported by the software device (softnpu)",
                   function);
}

const char *rt_recent_message(void)
{
    return recent;
}

/* The documented contract: the message of the calling thread's most recent failure, once; then NULL. */
const char *aclGetRecentErrMsg(void)
{
    if (!recent[0]) return NULL;
    memcpy(handed_out, recent, sizeof handed_out);
    recent[0] = 0;
    return handed_out;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    RT_NEED(level == ACL_RT_THREAD_LEVEL, ACL_ERROR_RT_PARAM_INVALID);
    return last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    RT_NEED(level == ACL_RT_THREAD_LEVEL, ACL_ERROR_RT_PARAM_INVALID);
    int code = last_error;
    last_error = 0;
    return code;
}
