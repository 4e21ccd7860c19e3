/* acl_rt.h - the runtime interface: devices, contexts, memory, streams, events, callbacks.
 *
 * Source of the facts (names, types, values): the public AscendCL reference ("Runtime" chapters) and the call
 * sites in torch_npu. The text is our own. Every function returns ACL_SUCCESS or an aclError and records a
 * message for aclGetRecentErrMsg. Sizes are bytes, timeouts milliseconds (-1: for ever) unless said
 * otherwise. A stream argument of NULL is the default stream of the calling thread's context.
 */
#ifndef SOFTNPU_ACL_RT_H
#define SOFTNPU_ACL_RT_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values ----------------------------------------------------------------------------------------------
 */

enum {
    ACL_EVENT_SYNC = 0x1,
    ACL_EVENT_CAPTURE_STREAM_PROGRESS = 0x2,
    ACL_EVENT_TIME_LINE = 0x8,
    ACL_EVENT_EXTERNAL = 0x20,
    ACL_EVENT_IPC = 0x40,
};
enum {
    ACL_STREAM_FAST_LAUNCH = 0x1,
    ACL_STREAM_FAST_SYNC = 0x2,
    ACL_STREAM_PERSISTENT = 0x4,
    ACL_STREAM_HUGE = 0x8
};
enum {
    ACL_STREAM_WAIT_VALUE_GEQ,
    ACL_STREAM_WAIT_VALUE_EQ,
    ACL_STREAM_WAIT_VALUE_AND,
    ACL_STREAM_WAIT_VALUE_NOR
};
enum { ACL_CONTINUE_ON_FAILURE = 0, ACL_STOP_ON_FAILURE = 1 };
enum {
    ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION = 1,
    ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS = 1,
    ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION = 1
};

typedef enum aclrtRunMode { ACL_DEVICE, ACL_HOST } aclrtRunMode;
typedef enum aclrtTsId { ACL_TS_ID_AICORE, ACL_TS_ID_AIVECTOR, ACL_TS_ID_RESERVED } aclrtTsId;
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE,
    ACL_EVENT_STATUS_NOT_READY,
    ACL_EVENT_STATUS_RESERVED
} aclrtEventStatus;
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY,
    ACL_EVENT_RECORDED_STATUS_COMPLETE
} aclrtEventRecordedStatus;
typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE,
    ACL_EVENT_WAIT_STATUS_NOT_READY
} aclrtEventWaitStatus;
typedef enum aclrtStreamStatus { ACL_STREAM_STATUS_COMPLETE, ACL_STREAM_STATUS_NOT_READY } aclrtStreamStatus;
typedef enum aclrtCallbackBlockType { ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK } aclrtCallbackBlockType;
typedef int aclrtMemMallocPolicy; /* huge pages first, only, none, and bits: all accepted, none changes
                                     anything here */
typedef enum aclrtMemAttr {
    ACL_DDR_MEM,
    ACL_HBM_MEM,
    ACL_DDR_MEM_HUGE,
    ACL_DDR_MEM_NORMAL,
    ACL_HBM_MEM_HUGE,
    ACL_HBM_MEM_NORMAL,
    ACL_DDR_MEM_P2P_HUGE,
    ACL_DDR_MEM_P2P_NORMAL,
    ACL_HBM_MEM_P2P_HUGE,
    ACL_HBM_MEM_P2P_NORMAL,
    ACL_HBM_MEM_HUGE1G,
    ACL_HBM_MEM_P2P_HUGE1G
} aclrtMemAttr;
typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION,
    ACL_RT_OVERFLOW_MODE_INFNAN,
    ACL_RT_OVERFLOW_MODE_UNDEF
} aclrtFloatOverflowMode;
typedef enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL } aclrtLastErrLevel;
typedef enum aclSysParamOpt {
    ACL_OPT_DETERMINISTIC,
    ACL_OPT_ENABLE_DEBUG_KERNEL,
    ACL_OPT_STRONG_CONSISTENCY
} aclSysParamOpt;
typedef enum aclCannAttr {
    ACL_CANN_ATTR_UNDEFINED = -1,
    ACL_CANN_ATTR_INF_NAN,
    ACL_CANN_ATTR_BF16,
    ACL_CANN_ATTR_JIT_COMPILE
} aclCannAttr;
typedef enum aclDeviceInfo {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM,
    ACL_DEVICE_INFO_L2_SIZE
} aclDeviceInfo;
typedef enum aclrtDevAttr {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_WARP_SIZE = 202,
    ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
    ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
    ACL_DEV_ATTR_IS_VIRTUAL = 501
} aclrtDevAttr;
typedef enum aclrtDevResLimitType {
    ACL_RT_DEV_RES_CUBE_CORE,
    ACL_RT_DEV_RES_VECTOR_CORE
} aclrtDevResLimitType;
typedef enum aclrtStreamAttr {
    ACL_STREAM_ATTR_FAILURE_MODE = 1,
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
    ACL_STREAM_ATTR_CACHE_OP_INFO = 4
} aclrtStreamAttr;
typedef union aclrtStreamAttrValue {
    uint64_t failureMode;
    uint32_t overflowSwitch;
    uint32_t userCustomTag;
    uint32_t cacheOpInfoSwitch;
    uint32_t reserve[4];
} aclrtStreamAttrValue;
typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST,
    ACL_MEM_LOCATION_TYPE_DEVICE,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;
typedef struct aclrtMemLocation {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;
typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;
typedef struct aclrtPhysicalMemProp {
    int handleType;     /* 0: none */
    int allocationType; /* 0: pinned */
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;
typedef struct aclrtMemUsageInfo {
    char name[32];
    uint64_t curMemSize;
    uint64_t memPeakSize;
    size_t reserved[8];
} aclrtMemUsageInfo;
typedef struct aclrtMemUceInfo {
    void *addr;
    size_t len;
    size_t reserved[14];
} aclrtMemUceInfo;
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization; /* per cent, -1: not known */
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    void *utilizationExtend;
} aclrtUtilizationInfo;
typedef struct aclrtMemcpyBatchAttr {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16];
} aclrtMemcpyBatchAttr;
typedef struct aclrtIpcEventHandle {
    char reserved[64];
} aclrtIpcEventHandle;
typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;
enum {
    ACL_RT_NO_ERROR,
    ACL_RT_ERROR_MEMORY,
    ACL_RT_ERROR_L2,
    ACL_RT_ERROR_AICORE,
    ACL_RT_ERROR_LINK,
    ACL_RT_ERROR_OTHERS = 0xFFFF
};
enum { ACL_RT_AICORE_ERROR_UNKNOWN, ACL_RT_AICORE_ERROR_SW, ACL_RT_AICORE_ERROR_HW_LOCAL };
typedef struct aclrtErrorInfo {
    uint8_t tryRepair;
    uint8_t hasDetail;
    uint8_t reserved[2];
    int errorType; /* ACL_RT_ERROR_* */
    union {
        struct {
            size_t arraySize;
            aclrtMemUceInfo memUceInfoArray[20];
        } uceInfo;
        int aicoreErrType;
    } detail;
} aclrtErrorInfo;
typedef struct aclrtMallocConfig aclrtMallocConfig; /* module and device hints: accepted, not used */
typedef struct aclCANNPackageVersion {
    char version[128];
    char majorVersion[64];
    char minorVersion[64];
    char releaseVersion[64];
    char patchVersion[64];
    char reserved[128];
} aclCANNPackageVersion;
typedef enum aclmdlRICaptureMode {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED
} aclmdlRICaptureMode;
typedef enum aclmdlRICaptureStatus {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
} aclmdlRICaptureStatus;
enum { ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1 };
typedef enum aclmdlRICondTaskType {
    ACL_MODEL_RI_COND_TYPE_IF,
    ACL_MODEL_RI_COND_TYPE_WHILE,
    ACL_MODEL_RI_COND_TYPE_SWITCH
} aclmdlRICondTaskType;
typedef struct aclmdlRICondTaskParams {
    aclmdlRICondHandle handle;
    aclmdlRICondTaskType type;
    uint32_t size;          /* branches: 1 or 2 for if, 1 for while, any number for switch */
    aclmdlRI *modelRIArray; /* out: the branches, to be captured */
} aclmdlRICondTaskParams;
typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);

/* ---- process
 * ----------------------------------------------------------------------------------------------- */

/* configPath: NULL or a readable JSON file; its dump and profiling settings have no effect here. */
ACL_EXPORT aclError aclInit(const char *configPath);
ACL_EXPORT aclError aclFinalize(void);
ACL_EXPORT aclError aclFinalizeReference(uint64_t *refCount);
ACL_EXPORT aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);
ACL_EXPORT aclError aclsysGetCANNVersion(int name, aclCANNPackageVersion *version);
/* version has room for 128 bytes. */
ACL_EXPORT aclError aclsysGetVersionStr(char *package, char *version);
/* The calling thread's most recent failure, once; NULL if there is none. Valid until the thread's next call.
 */
ACL_EXPORT const char *aclGetRecentErrMsg(void);
ACL_EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
ACL_EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level);
ACL_EXPORT void aclAppLog(int level, const char *func, const char *file, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- devices and contexts
 * ------------------------------------------------------------------------------------ */

ACL_EXPORT aclError aclrtGetDeviceCount(uint32_t *count);
ACL_EXPORT aclError aclrtSetDevice(int32_t device);
ACL_EXPORT aclError aclrtGetDevice(int32_t *device);
ACL_EXPORT aclError aclrtResetDevice(int32_t device);
ACL_EXPORT aclError aclrtResetDeviceForce(int32_t device);
ACL_EXPORT aclError aclrtCreateContext(aclrtContext *context, int32_t device);
ACL_EXPORT aclError aclrtDestroyContext(aclrtContext context);
ACL_EXPORT aclError aclrtSetCurrentContext(aclrtContext context);
ACL_EXPORT aclError aclrtGetCurrentContext(aclrtContext *context);
/* active: 1 if the device's primary context exists. */
ACL_EXPORT aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active);
ACL_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
ACL_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
ACL_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
ACL_EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);
ACL_EXPORT aclError aclrtGetRunMode(aclrtRunMode *mode);
ACL_EXPORT aclError aclrtSetTsDevice(aclrtTsId ts);
ACL_EXPORT aclError aclrtSynchronizeDevice(void);
ACL_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);
ACL_EXPORT aclError aclrtDeviceTaskAbort(int32_t device, uint32_t timeout);
ACL_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer);
ACL_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
ACL_EXPORT aclError aclrtDeviceDisablePeerAccess(int32_t peer);
ACL_EXPORT const char *aclrtGetSocName(void);
ACL_EXPORT aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo info, int64_t *value);
ACL_EXPORT aclError aclGetCannAttributeList(const aclCannAttr **list, size_t *n);
ACL_EXPORT aclError aclGetCannAttribute(aclCannAttr attr, int32_t *value);
ACL_EXPORT aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t *value);
ACL_EXPORT aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid);
ACL_EXPORT aclError aclrtDeviceGetBareTgid(int32_t *pid);
ACL_EXPORT aclError aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t *logic);
ACL_EXPORT aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *info);
ACL_EXPORT aclError aclrtGetErrorVerbose(int32_t device, aclrtErrorInfo *info);
/* For a fault that aclrtGetErrorVerbose reports with tryRepair, after aclrtDeviceTaskAbort. */
ACL_EXPORT aclError aclrtRepairError(int32_t device, const aclrtErrorInfo *info);
ACL_EXPORT aclError aclrtGetMemUceInfo(int32_t device, aclrtMemUceInfo *info, size_t n, size_t *count);
ACL_EXPORT aclError aclrtMemUceRepair(int32_t device, aclrtMemUceInfo *info, size_t n);
ACL_EXPORT aclError aclrtGetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t *value);
ACL_EXPORT aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value);
ACL_EXPORT aclError aclrtResetDeviceResLimit(int32_t device);
ACL_EXPORT aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);
ACL_EXPORT aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);
ACL_EXPORT aclError aclrtResetStreamResLimit(aclrtStream stream);
ACL_EXPORT aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);
ACL_EXPORT aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);
ACL_EXPORT aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/* ---- memory
 * ---------------------------------------------------------------------------------------------------- */

/* 512-byte aligned device memory. 207001 when the device's 32 GiB are used up. size 0 is an error. */
ACL_EXPORT aclError aclrtMalloc(void **dev, size_t size, aclrtMemMallocPolicy policy);
ACL_EXPORT aclError aclrtMallocAlign32(void **dev, size_t size, aclrtMemMallocPolicy policy);
ACL_EXPORT aclError aclrtMallocCached(void **dev, size_t size, aclrtMemMallocPolicy policy);
ACL_EXPORT aclError aclrtMallocWithCfg(void **dev, size_t size, aclrtMemMallocPolicy policy,
                                       aclrtMallocConfig *cfg);
/* Does not wait: work that uses the memory must be done. */
ACL_EXPORT aclError aclrtFree(void *dev);
ACL_EXPORT aclError aclrtMallocHost(void **host, size_t size);
ACL_EXPORT aclError aclrtMallocHostWithCfg(void **host, uint64_t size, aclrtMallocConfig *cfg);
ACL_EXPORT aclError aclrtFreeHost(void *host);
ACL_EXPORT aclError aclrtMemFlush(void *dev, size_t size);
ACL_EXPORT aclError aclrtMemInvalidate(void *dev, size_t size);
ACL_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);
ACL_EXPORT aclError aclrtGetMemUsageInfo(uint32_t device, aclrtMemUsageInfo *info, size_t n, size_t *count);
ACL_EXPORT aclError aclrtPointerGetAttributes(const void *p, aclrtPtrAttributes *attributes);
ACL_EXPORT aclError aclrtHostRegister(void *host, uint64_t size, int type, void **dev);
ACL_EXPORT aclError aclrtHostRegisterV2(void *host, uint64_t size, uint32_t flag);
ACL_EXPORT aclError aclrtHostUnregister(void *host);
/* Addresses without memory; memory without addresses; and bringing them together, in steps of 2 MiB. */
ACL_EXPORT aclError aclrtReserveMemAddress(void **dev, size_t size, size_t alignment, void *expect,
                                           uint64_t flags);
ACL_EXPORT aclError aclrtReleaseMemAddress(void *dev);
ACL_EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                        const aclrtPhysicalMemProp *prop, uint64_t flags);
ACL_EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
ACL_EXPORT aclError aclrtMapMem(void *dev, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                uint64_t flags);
ACL_EXPORT aclError aclrtUnmapMem(void *dev);
/* Sharing with other processes of the user. A key (65 bytes) or handle can be opened while the process that
 * made it lives, by the processes that were named, or by any with flag 1. Importers close before the
 * exporter. */
ACL_EXPORT aclError aclrtIpcMemGetExportKey(void *dev, size_t size, char *key, size_t len, uint64_t flags);
ACL_EXPORT aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);
ACL_EXPORT aclError aclrtIpcMemImportByKey(void **dev, const char *key, uint64_t flags);
ACL_EXPORT aclError aclrtIpcMemClose(const char *key);
ACL_EXPORT aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, int handleType, uint64_t flags,
                                                    uint64_t *shareableHandle);
ACL_EXPORT aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t num);
ACL_EXPORT aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t device,
                                                      aclrtDrvMemHandle *handle);
ACL_EXPORT aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, int option,
                                                     size_t *granularity);

/* ---- copies
 * ---------------------------------------------------------------------------------------------------- */

/* destMax: bytes at dst; count more than that is an error. A host address may be any host memory. */
ACL_EXPORT aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                                aclrtMemcpyKind kind);
ACL_EXPORT aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                                     aclrtMemcpyKind kind, aclrtStream stream);
ACL_EXPORT aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                                  aclrtMemcpyKind kind, aclrtStream stream);
/* height rows of width bytes, dpitch and spitch bytes apart. */
ACL_EXPORT aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                  size_t height, aclrtMemcpyKind kind);
ACL_EXPORT aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                       size_t height, aclrtMemcpyKind kind, aclrtStream stream);
ACL_EXPORT aclError aclrtMemcpyBatch(void **dsts, size_t *destMax, void **srcs, size_t *sizes, size_t n,
                                     aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t nattrs,
                                     size_t *failed);
ACL_EXPORT aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMax, void **srcs, size_t *sizes, size_t n,
                                          aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t nattrs,
                                          size_t *failed, aclrtStream stream);
ACL_EXPORT aclError aclrtMemset(void *dst, size_t destMax, int32_t value, size_t count);
ACL_EXPORT aclError aclrtMemsetAsync(void *dst, size_t destMax, int32_t value, size_t count,
                                     aclrtStream stream);
/* Cache maintenance: there is no cache to maintain, the call orders with the stream. */
ACL_EXPORT aclError aclrtCmoAsync(void *src, size_t size, int type, aclrtStream stream);

/* ---- streams
 * --------------------------------------------------------------------------------------------------- */

ACL_EXPORT aclError aclrtCreateStream(aclrtStream *stream);
ACL_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flags);
/* Waits for the stream's work. */
ACL_EXPORT aclError aclrtDestroyStream(aclrtStream stream);
/* Drops queued work and stops what runs. */
ACL_EXPORT aclError aclrtDestroyStreamForce(aclrtStream stream);
ACL_EXPORT aclError aclrtStreamAbort(aclrtStream stream);
/* The stream's error if one of its tasks failed: once, or with ACL_STOP_ON_FAILURE until the device is reset.
 */
ACL_EXPORT aclError aclrtSynchronizeStream(aclrtStream stream);
/* 507046 when the time is over. */
ACL_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
ACL_EXPORT aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);
ACL_EXPORT aclError aclrtStreamGetId(aclrtStream stream, int32_t *id);
ACL_EXPORT aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);
ACL_EXPORT aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);
/* ACL_STOP_ON_FAILURE: after a task has failed, later work of all streams of the context is refused, until
 * aclrtDeviceTaskAbort or a reset of the device. */
ACL_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
ACL_EXPORT aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr attr,
                                            aclrtStreamAttrValue *value);
ACL_EXPORT aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
ACL_EXPORT aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);
/* Seconds; an operator that runs longer ends with 507014. */
ACL_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t seconds);
ACL_EXPORT aclError aclrtSetOpExecuteTimeOutV2(uint64_t microseconds, uint64_t *actual);
ACL_EXPORT aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t milliseconds);
/* Seconds a stream waits for an event, 0: for ever. */
ACL_EXPORT aclError aclrtSetOpWaitTimeout(uint32_t seconds);
/* 8-byte aligned device memory; conditions ACL_STREAM_WAIT_VALUE_*. */
ACL_EXPORT aclError aclrtValueWrite(void *dev, uint64_t value, uint32_t flag, aclrtStream stream);
ACL_EXPORT aclError aclrtValueWait(void *dev, uint64_t value, uint32_t flag, aclrtStream stream);

/* ---- events
 * ---------------------------------------------------------------------------------------------------- */

ACL_EXPORT aclError aclrtCreateEvent(aclrtEvent *event);
ACL_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flags);
ACL_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flags);
ACL_EXPORT aclError aclrtDestroyEvent(aclrtEvent event);
ACL_EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
ACL_EXPORT aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
ACL_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
ACL_EXPORT aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);
ACL_EXPORT aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
ACL_EXPORT aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
ACL_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);
ACL_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event);
/* 507047 when the time is over. */
ACL_EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);
ACL_EXPORT aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end);
/* Microseconds. */
ACL_EXPORT aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);
ACL_EXPORT aclError aclrtGetEventId(aclrtEvent event, uint32_t *id);
/* An event made with ACL_EVENT_IPC, for another process. */
ACL_EXPORT aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);
ACL_EXPORT aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* ---- callbacks
 * -------------------------------------------------------------------------------------------------- */

/* thread: pthread_self() of the thread that will call aclrtProcessReport. */
ACL_EXPORT aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream);
ACL_EXPORT aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream);
ACL_EXPORT aclError aclrtLaunchCallback(aclrtCallback fn, void *data, aclrtCallbackBlockType block,
                                        aclrtStream stream);
/* 100036 when the time is over and nothing came. */
ACL_EXPORT aclError aclrtProcessReport(int32_t timeout);
ACL_EXPORT aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* ---- graphs: captured work that is executed as often as wanted
 * -------------------------------------------------------------------------------------------------- */

/* Tasks of the stream are collected instead of run. mode: which threads may meanwhile call aclrtMemcpy,
 * aclrtMemset and the like (107030 where they may not). */
ACL_EXPORT aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
/* 507903 if the capture has become invalid, 107025 if work of a stream that joined is not waited for. */
ACL_EXPORT aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);
ACL_EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                           aclmdlRI *modelRI);
/* Sets the calling thread's mode and returns the one before. */
ACL_EXPORT aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);
/* Tasks between begin and end can be replaced later by the same number of tasks of the same kinds. */
ACL_EXPORT aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
ACL_EXPORT aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);
ACL_EXPORT aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
/* The new tasks take their places in the order of the stream. 107040 if they do not fit. */
ACL_EXPORT aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);
ACL_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);
ACL_EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI);
ACL_EXPORT aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *id);
/* On standard error; as a trace for chrome://tracing. flags: 0 or 1. */
ACL_EXPORT aclError aclmdlRIDebugPrint(aclmdlRI modelRI);
ACL_EXPORT aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);
/* A condition has a value of 8 bytes in device memory. With flag 1 it is set to `initial` at the start of
 * every execution. */
ACL_EXPORT aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t initial, uint32_t flag,
                                             aclmdlRICondHandle *handle);
ACL_EXPORT aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr);
ACL_EXPORT aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);
ACL_EXPORT aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                                  aclmdlRICaptureMode mode);

#ifdef __cplusplus
}
#endif
#endif
