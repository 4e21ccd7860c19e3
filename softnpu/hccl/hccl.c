/* hccl.c - the process-wide settings of collective communication, and the names that are not supported. */
#include "softnpu/hccl/comm.h"

enum { HCCL_DETERMINISTIC = 0 };
union hccl_config {
    int32_t value;
};

#define HCCL(name)                                                                                           \
    ACL_EXPORT int name(void);                                                                               \
    int name(void)                                                                                           \
    {                                                                                                        \
        rt_unsupported(#name);                                                                               \
        return HCCL_E_NOT_SUPPORT;                                                                           \
    }
#include "softnpu/hccl/hccl.inc"

static atomic_int deterministic;

ACL_EXPORT int HcclSetConfig(int config, union hccl_config value);
ACL_EXPORT int HcclGetConfig(int config, union hccl_config *value);

int HcclSetConfig(int config, union hccl_config value)
{
    if (config != HCCL_DETERMINISTIC || value.value < 0 || value.value > 2) {
        rt_fail(ACL_ERROR_INVALID_PARAM, "HcclSetConfig: setting %d has no value %d", config, value.value);
        return HCCL_E_PARA;
    }
    atomic_store(&deterministic, value.value);
    return HCCL_SUCCESS;
}

int HcclGetConfig(int config, union hccl_config *value)
{
    if (config != HCCL_DETERMINISTIC || !value) {
        rt_fail(ACL_ERROR_INVALID_PARAM, "HcclGetConfig: no setting %d", config);
        return HCCL_E_PARA;
    }
    value->value = atomic_load(&deterministic);
    return HCCL_SUCCESS;
}
