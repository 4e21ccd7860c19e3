/* context.c - devices, contexts, process start and end. */
#include "softnpu/runtime/internal.h"

#include <stdlib.h>
#include <unistd.h>

#define CTX_MAGIC 0xC047E87u
#define RT_NEED_DEVICE(d) RT_NEED((d) >= 0 && (d) < rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_context *contexts;                /* all ever made: handles stay checkable */
static struct rt_context *primary[RT_MAX_DEVICES]; /* live ones */
static int opened[RT_MAX_DEVICES];                 /* aclrtSetDevice minus aclrtResetDevice, per process */
static atomic_int init_count;
static atomic_bool closing;
static _Thread_local struct rt_context *current;

int rt_device_count(void)
{
    return rt_settings()->devices;
}
bool rt_closing(void)
{
    return atomic_load(&closing);
}

struct rt_context *rt_context_current(void)
{
    struct rt_context *c = current;
    return c && c->magic == CTX_MAGIC ? c : NULL;
}

/* ---- process ----------------------------------------------------------------------------------------- */

aclError aclInit(const char *configPath)
{
    if (configPath && access(configPath, R_OK))
        return rt_fail(ACL_ERROR_INVALID_FILE, "aclInit: cannot read %s", configPath);
    if (atomic_fetch_add(&init_count, 1))
        return rt_fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: already initialised in this process");
    atomic_store(&closing, false);
    return ACL_SUCCESS;
}

aclError aclFinalize(void)
{
    if (!atomic_load(&init_count))
        return rt_fail(ACL_ERROR_UNINITIALIZE, "aclFinalize: aclInit was not called");
    atomic_store(&init_count, 0);
    atomic_store(&closing, true);
    return ACL_SUCCESS;
}

aclError aclFinalizeReference(uint64_t *refCount)
{
    int left = atomic_load(&init_count);
    if (left <= 1) {
        if (refCount) *refCount = 0;
        return aclFinalize();
    }
    left = atomic_fetch_sub(&init_count, 1) - 1;
    if (refCount) *refCount = (uint64_t)left;
    return ACL_SUCCESS;
}

__attribute__((destructor)) static void process_ends(void)
{
    atomic_store(&closing, true);
}

/* ---- contexts ---------------------------------------------------------------------------------------- */

/* With the lock held. */
static struct rt_context *make(int device, bool is_primary)
{
    struct rt_context *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (struct rt_context){.magic = CTX_MAGIC, .device = device, .primary = is_primary, .next = contexts};
    c->sat_mode = ACL_RT_OVERFLOW_MODE_INFNAN;
    c->default_stream = rt_stream_new(c, 0, 0);
    if (!c->default_stream) {
        free(c);
        return NULL;
    }
    contexts = c;
    return c;
}

static int end_stream(struct rt_stream *s, void *force)
{
    rt_stream_delete(s, *(bool *)force);
    return 0;
}

/* The object stays: threads may still have it as their current context and find it dead. */
static void unmake(struct rt_context *c, bool force)
{
    rt_stream_each(-1, c, end_stream, &force);
    c->magic = 0;
}

static bool known(struct rt_context *c)
{
    pthread_mutex_lock(&lock);
    struct rt_context *x = contexts;
    while (x && x != c) x = x->next;
    pthread_mutex_unlock(&lock);
    return x && x->magic == CTX_MAGIC;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device)
{
    RT_NEED(context, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    int code = rt_arena_open(device);
    if (code) return code;
    pthread_mutex_lock(&lock);
    struct rt_context *c = make(device, false);
    pthread_mutex_unlock(&lock);
    if (!c) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtCreateContext: no memory");
    *context = current = c;
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context)
{
    struct rt_context *c = context;
    if (!c || !known(c)) return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtDestroyContext: no such context");
    if (c->primary)
        return rt_fail(ACL_ERROR_RT_CONTEXT_NULL,
                       "aclrtDestroyContext: a device's own context ends with aclrtResetDevice");
    unmake(c, false);
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    struct rt_context *c = context;
    if (!c || !known(c)) return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetCurrentContext: no such context");
    current = c;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    RT_NEED(context, ACL_ERROR_INVALID_PARAM);
    RT_NEED_CONTEXT(ctx);
    *context = ctx;
    return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active)
{
    RT_NEED(active, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    if (flags) *flags = 0;
    pthread_mutex_lock(&lock);
    *active = primary[device] != NULL;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

/* ---- devices ----------------------------------------------------------------------------------------- */

aclError aclrtGetDeviceCount(uint32_t *count)
{
    RT_NEED(count, ACL_ERROR_INVALID_PARAM);
    *count = (uint32_t)rt_device_count();
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device)
{
    RT_NEED_DEVICE(device);
    if (current && current == primary[device] && current->magic == CTX_MAGIC) return ACL_SUCCESS;
    int code = rt_arena_open(device);
    if (code) return code;
    pthread_mutex_lock(&lock);
    if (!primary[device]) primary[device] = make(device, true);
    struct rt_context *c = primary[device];
    if (c) opened[device]++;
    pthread_mutex_unlock(&lock);
    if (!c) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtSetDevice: no memory");
    current = c;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device)
{
    RT_NEED(device, ACL_ERROR_INVALID_PARAM);
    RT_NEED_CONTEXT(ctx);
    *device = ctx->device;
    return ACL_SUCCESS;
}

/* Ends the device's contexts, streams and memory. force: without waiting for work. */
static int reset(int32_t device, bool force)
{
    pthread_mutex_lock(&lock);
    struct rt_context *c = primary[device];
    primary[device] = NULL;
    opened[device] = 0;
    pthread_mutex_unlock(&lock);
    if (!c) return ACL_SUCCESS;
    rt_stream_each(device, NULL, end_stream, &force);
    c->magic = 0;
    rt_vmm_reset(device);
    rt_memory_reset(device);
    rt_device_error_note(device, 0, NULL, 0);
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device)
{
    RT_NEED_DEVICE(device);
    return reset(device, false);
}

aclError aclrtResetDeviceForce(int32_t device)
{
    RT_NEED_DEVICE(device);
    return reset(device, true);
}

/* One process, one address range: any device reaches any other's memory. */
aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer)
{
    RT_NEED(can, ACL_ERROR_INVALID_PARAM);
    RT_NEED_DEVICE(device);
    RT_NEED_DEVICE(peer);
    RT_NEED(device != peer, ACL_ERROR_RT_INVALID_DEVICEID);
    *can = 1;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags)
{
    RT_NEED_DEVICE(peer);
    RT_NEED(flags == 0, ACL_ERROR_RT_PARAM_INVALID);
    return rt_arena_open(peer);
}

aclError aclrtDeviceDisablePeerAccess(int32_t peer)
{
    RT_NEED_DEVICE(peer);
    return ACL_SUCCESS;
}

/* ---- parameters -------------------------------------------------------------------------------------- */

#define NPARAMS ((int)ACL_OPT_STRONG_CONSISTENCY + 1)
static atomic_llong process_param[NPARAMS];
#define RT_NEED_OPT(opt) RT_NEED((int)(opt) >= 0 && (int)(opt) < NPARAMS, ACL_ERROR_INVALID_PARAM)

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    RT_NEED_OPT(opt);
    atomic_store(&process_param[opt], value);
    return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_OPT(opt);
    *value = atomic_load(&process_param[opt]);
    return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    RT_NEED_OPT(opt);
    RT_NEED_CONTEXT(ctx);
    ctx->sys_param[opt] = value;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    RT_NEED_OPT(opt);
    RT_NEED_CONTEXT(ctx);
    *value = ctx->sys_param[opt];
    return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    RT_NEED(mode >= 0 && mode <= ACL_RT_OVERFLOW_MODE_INFNAN, ACL_ERROR_INVALID_PARAM);
    RT_NEED_CONTEXT(ctx);
    ctx->sat_mode = mode;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    RT_NEED(mode, ACL_ERROR_INVALID_PARAM);
    RT_NEED_CONTEXT(ctx);
    *mode = (aclrtFloatOverflowMode)ctx->sat_mode;
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *mode)
{
    RT_NEED(mode, ACL_ERROR_INVALID_PARAM);
    *mode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtSetTsDevice(aclrtTsId ts)
{
    RT_NEED(ts >= ACL_TS_ID_AICORE && ts < ACL_TS_ID_RESERVED, ACL_ERROR_INVALID_PARAM);
    return ACL_SUCCESS;
}
