/* info.c - what the device says it is: name, versions, capabilities, limits. */
#include "softnpu/runtime/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANN_VERSION "9.1.0"
#define DRIVER_VERSION "25.5.0"
#define RT_NEED_DEVICE(d)                                                                                    \
    RT_NEED((uint64_t)(int64_t)(d) < (uint64_t)rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID)

/* Of the whole family: public specifications and the values that the plugin's own tests expect. */
enum { AICPU_CORES = 7, L2_BYTES = 201326592, UB_BYTES = 196352 };
#define CUBE_CORES (rt_settings()->soc->cube_cores)
#define VECTOR_CORES (rt_settings()->soc->vector_cores)

/* ---- names and versions ------------------------------------------------------------------------------ */

const char *aclrtGetSocName(void)
{
    return rt_settings()->soc->name;
}

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
    RT_NEED(major && minor && patch, ACL_ERROR_INVALID_PARAM);
    *major = 1; /* of the interface, not of the toolkit */
    *minor = 15;
    *patch = 0;
    return ACL_SUCCESS;
}

/* The interface's package names, in its order. */
enum {
    PACKAGE_CANN,
    PACKAGE_RUNTIME,
    PACKAGE_COMPILER,
    PACKAGE_HCCL,
    PACKAGE_TOOLKIT,
    PACKAGE_OPP,
    PACKAGE_OPP_KERNEL,
    PACKAGE_DRIVER,
    NPACKAGES
};

aclError aclsysGetCANNVersion(int name, aclCANNPackageVersion *version)
{
    RT_NEED(version, ACL_ERROR_INVALID_PARAM);
    RT_NEED(name >= 0 && name < NPACKAGES, ACL_ERROR_INVALID_PARAM);
    memset(version, 0, sizeof *version);
    char text[] = CANN_VERSION, driver[] = DRIVER_VERSION, *save = NULL;
    char *from = name == PACKAGE_DRIVER ? driver : text;
    snprintf(version->version, sizeof version->version, "%s", from);
    snprintf(version->majorVersion, sizeof version->majorVersion, "%s", strtok_r(from, ".", &save));
    snprintf(version->minorVersion, sizeof version->minorVersion, "%s", strtok_r(NULL, ".", &save));
    snprintf(version->releaseVersion, sizeof version->releaseVersion, "%s", strtok_r(NULL, ".", &save));
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *package, char *version)
{
    RT_NEED(package && version, ACL_ERROR_INVALID_PARAM);
    const char *text = strcasecmp(package, "driver") ? CANN_VERSION : DRIVER_VERSION;
    memcpy(version, text, strlen(text) + 1); /* the interface does not say how much fits */
    return ACL_SUCCESS;
}

/* ---- capabilities ------------------------------------------------------------------------------------ */

aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo info, int64_t *value)
{
    const int64_t values[] = {CUBE_CORES, VECTOR_CORES, L2_BYTES};
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    RT_NEED((int)info >= 0 && (size_t)info < sizeof values / sizeof *values, ACL_ERROR_INVALID_PARAM);
    *value = values[info];
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t *value)
{
    const struct {
        int attr;
        int64_t value;
    } values[] = {
        {ACL_DEV_ATTR_AICPU_CORE_NUM, AICPU_CORES},
        {ACL_DEV_ATTR_AICORE_CORE_NUM, CUBE_CORES},
        {ACL_DEV_ATTR_CUBE_CORE_NUM, CUBE_CORES},
        {ACL_DEV_ATTR_VECTOR_CORE_NUM, VECTOR_CORES},
        {ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE, UB_BYTES},
        {ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, (int64_t)RT_CAPACITY},
        {ACL_DEV_ATTR_L2_CACHE_SIZE, L2_BYTES},
        {ACL_DEV_ATTR_IS_VIRTUAL, 1},
    };
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    if (attr == ACL_DEV_ATTR_PHY_CHIP_ID) {
        *value = rt_settings()->physical[device];
        return ACL_SUCCESS;
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i].attr != (int)attr) continue;
        *value = values[i].value;
        return ACL_SUCCESS;
    }
    return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "aclrtGetDeviceInfo: this family does not tell attribute %d", (int)attr);
}

static const aclCannAttr cann_attributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16,
                                              ACL_CANN_ATTR_JIT_COMPILE};

aclError aclGetCannAttributeList(const aclCannAttr **list, size_t *n)
{
    RT_NEED(list && n, ACL_ERROR_INVALID_PARAM);
    *list = cann_attributes;
    *n = sizeof cann_attributes / sizeof *cann_attributes;
    return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr attr, int32_t *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED((int)attr >= ACL_CANN_ATTR_INF_NAN && attr <= ACL_CANN_ATTR_JIT_COMPILE, ACL_ERROR_INVALID_PARAM);
    *value = attr != ACL_CANN_ATTR_JIT_COMPILE; /* operators come compiled on this family */
    return ACL_SUCCESS;
}

/* Stable per machine and device, as a board's is. */
aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid)
{
    RT_NEED(uuid, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    uint64_t h[2] = {0x736F66746E707500u + (uint64_t)rt_settings()->physical[device], 0xCBF29CE484222325u};
    FILE *f = fopen("/etc/machine-id", "r");
    for (int c; f && (c = fgetc(f)) != EOF;) h[1] = (h[1] ^ (uint64_t)c) * 0x100000001B3u;
    if (f) fclose(f);
    memcpy(uuid->bytes, h, sizeof h);
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t *pid)
{
    RT_NEED(pid, ACL_ERROR_INVALID_PARAM);
    *pid = (int32_t)getpid();
    return ACL_SUCCESS;
}

aclError aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t *logic)
{
    RT_NEED(logic, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(user);
    *logic = user;
    return ACL_SUCCESS;
}

/* ---- state ------------------------------------------------------------------------------------------- */

static int count_busy(struct rt_stream *s, void *n)
{
    aclrtStreamStatus status;
    if (!aclrtStreamQuery(s, &status) && status == ACL_STREAM_STATUS_NOT_READY) ++*(int *)n;
    return 0;
}

/* At this moment: either a stream works or none does. */
aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *info)
{
    RT_NEED(info, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    int busy = 0;
    rt_stream_each(device, NULL, count_busy, &busy);
    struct rt_memory_state m;
    rt_memory_state(device, &m);
    info->cubeUtilization = info->vectorUtilization = busy ? 100 : 0;
    info->aicpuUtilization = 0;
    info->memoryUtilization = (int32_t)(m.used * 100 / m.total);
    return ACL_SUCCESS;
}

/* ---- core limits: kept and told, the software device's cores are the machine's ----------------------- */

enum { NLIMITS = ACL_RT_DEV_RES_VECTOR_CORE + 1 };
static atomic_uint device_limit[RT_MAX_DEVICES][NLIMITS]; /* 0: all */
static uint32_t cores(aclrtDevResLimitType type)
{
    return (uint32_t)(type == ACL_RT_DEV_RES_CUBE_CORE ? CUBE_CORES : VECTOR_CORES);
}
#define RT_NEED_RES(type) RT_NEED((int)(type) >= 0 && (int)(type) < (int)NLIMITS, ACL_ERROR_RT_PARAM_INVALID)

aclError aclrtGetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    RT_NEED_RES(type);
    uint32_t limit = atomic_load(&device_limit[device][type]);
    *value = limit ? limit : cores(type);
    return ACL_SUCCESS;
}

aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value)
{
    RT_NEED_DEVICE(device);
    RT_NEED_RES(type);
    RT_NEED(value >= 1 && value <= cores(type), ACL_ERROR_RT_PARAM_INVALID);
    atomic_store(&device_limit[device][type], value);
    return ACL_SUCCESS;
}

aclError aclrtResetDeviceResLimit(int32_t device)
{
    RT_NEED_DEVICE(device);
    for (int i = 0; i < (int)NLIMITS; i++) atomic_store(&device_limit[device][i], 0);
    return ACL_SUCCESS;
}

static _Thread_local uint32_t thread_limit[NLIMITS];

/* A stream's own limit is in its device's; both answer the smaller one. */
aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value)
{
    int code = 0;
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_RES(type);
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    uint32_t own = atomic_load(&rt_stream_limit(s)[type]);
    code = aclrtGetDeviceResLimit(rt_stream_device(s), type, value);
    if (!code && own && own < *value) *value = own;
    return code;
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value)
{
    int code = 0;
    RT_NEED_RES(type);
    RT_NEED(value >= 1 && value <= cores(type), ACL_ERROR_RT_PARAM_INVALID);
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    atomic_store(&rt_stream_limit(s)[type], value);
    return ACL_SUCCESS;
}

aclError aclrtResetStreamResLimit(aclrtStream stream)
{
    int code = 0;
    struct rt_stream *s = rt_stream_of(stream, __func__, &code);
    if (!s) return code;
    for (int i = 0; i < (int)NLIMITS; i++) atomic_store(&rt_stream_limit(s)[i], 0);
    return ACL_SUCCESS;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream)
{
    for (int i = 0; i < (int)NLIMITS; i++) {
        int code = aclrtGetStreamResLimit(stream, (aclrtDevResLimitType)i, &thread_limit[i]);
        if (code) return code;
    }
    return ACL_SUCCESS;
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream)
{
    (void)stream;
    memset(thread_limit, 0, sizeof thread_limit);
    return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_RES(type);
    if (!thread_limit[type]) {
        RT_NEED_CONTEXT(ctx);
        return aclrtGetDeviceResLimit(ctx->device, type, value);
    }
    *value = thread_limit[type];
    return ACL_SUCCESS;
}
