/* device_error.c - what is on record about a device's last fault, and repairing it. */
#include "softnpu/runtime/internal.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int code; /* 0: none */
    void *at; /* memory faults: where, and how much */
    size_t length;
} last[RT_MAX_DEVICES];

#define RT_NEED_DEVICE(d) RT_NEED((d) >= 0 && (d) < rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID)

static const struct {
    int code;
    int type;
    bool repair;
} kinds[] = {
    {ACL_ERROR_RT_DEVICE_MEM_ERROR, ACL_RT_ERROR_MEMORY, true},
    {ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, ACL_RT_ERROR_MEMORY, false},
    {ACL_ERROR_RT_AICORE_EXCEPTION, ACL_RT_ERROR_AICORE, false},
    {ACL_ERROR_RT_AICORE_TIMEOUT, ACL_RT_ERROR_AICORE, false},
    {ACL_ERROR_RT_LINK_ERROR, ACL_RT_ERROR_LINK, false},
    {ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, ACL_RT_ERROR_LINK, false},
};

void rt_device_error_note(int device, int code, void *at, size_t length)
{
    pthread_mutex_lock(&lock);
    last[device].code = code;
    last[device].at = at;
    last[device].length = length;
    pthread_mutex_unlock(&lock);
}

static bool is_memory(int code)
{
    return code == ACL_ERROR_RT_DEVICE_MEM_ERROR || code == ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR;
}

static void describe(int device, aclrtErrorInfo *info)
{
    int code = last[device].code;
    info->errorType = code ? ACL_RT_ERROR_OTHERS : ACL_RT_NO_ERROR;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].code != code) continue;
        info->errorType = kinds[i].type;
        info->tryRepair = kinds[i].repair;
    }
    if (is_memory(code)) {
        info->hasDetail = 1;
        info->detail.uceInfo.arraySize = 1;
        info->detail.uceInfo.memUceInfoArray[0] =
            (aclrtMemUceInfo){.addr = last[device].at, .len = last[device].length};
    } else if (info->errorType == ACL_RT_ERROR_AICORE) {
        info->hasDetail = 1;
        info->detail.aicoreErrType = ACL_RT_AICORE_ERROR_SW;
    }
}

aclError aclrtGetErrorVerbose(int32_t device, aclrtErrorInfo *info)
{
    RT_NEED(info, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    memset(info, 0, sizeof *info);
    pthread_mutex_lock(&lock);
    describe(device, info);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtRepairError(int32_t device, const aclrtErrorInfo *info)
{
    RT_NEED(info, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    aclrtErrorInfo now;
    aclrtGetErrorVerbose(device, &now);
    if (info->errorType != now.errorType || !now.tryRepair)
        return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                       "aclrtRepairError: device %d has no fault that can be repaired", device);
    rt_device_error_note(device, 0, NULL, 0);
    return ACL_SUCCESS;
}

aclError aclrtGetMemUceInfo(int32_t device, aclrtMemUceInfo *info, size_t n, size_t *count)
{
    RT_NEED(info && n && count, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    pthread_mutex_lock(&lock);
    *count = is_memory(last[device].code);
    if (*count) info[0] = (aclrtMemUceInfo){.addr = last[device].at, .len = last[device].length};
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

/* The pages that were reported become good again; others cannot be repaired. */
aclError aclrtMemUceRepair(int32_t device, aclrtMemUceInfo *info, size_t n)
{
    RT_NEED_DEVICE(device);
    RT_NEED(info || !n, ACL_ERROR_INVALID_PARAM);
    bool known = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n; i++) known &= is_memory(last[device].code) && info[i].addr == last[device].at;
    if (known && n) last[device].code = 0;
    pthread_mutex_unlock(&lock);
    return known ? ACL_SUCCESS
                 : rt_fail(ACL_ERROR_RT_PARAM_INVALID,
                           "aclrtMemUceRepair: no fault was reported at that address");
}
