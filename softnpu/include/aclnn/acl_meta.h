/* acl_meta.h - the objects that aclnn calls take: tensors, scalars, arrays, lists, executors.
 *
 * All Create functions copy the arrays and values they are given; none copies tensor data. Destroying a list
 * destroys its elements. Facts: public aclnn reference ("aclCreateTensor" and following); text our own.
 */
#ifndef SOFTNPU_ACL_META_H
#define SOFTNPU_ACL_META_H

#include "../acl/acl_base.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int aclnnStatus;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;

/* view_dims, strides, offset in elements; data is the base of the storage (a device address), may be NULL
 * when the tensor has no elements. storage_dims is recorded only. NULL on a bad argument. */
ACL_EXPORT aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t view_dims_num, aclDataType dtype,
                                      const int64_t *strides, int64_t offset, aclFormat format,
                                      const int64_t *storage_dims, uint64_t storage_dims_num, void *data);
ACL_EXPORT aclScalar *aclCreateScalar(void *value, aclDataType dtype);
ACL_EXPORT aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t n);
ACL_EXPORT aclFloatArray *aclCreateFloatArray(const float *value, uint64_t n);
ACL_EXPORT aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t n);
ACL_EXPORT aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t n);
ACL_EXPORT aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t n);
ACL_EXPORT aclnnStatus aclDestroyTensor(const aclTensor *t);
ACL_EXPORT aclnnStatus aclDestroyScalar(const aclScalar *s);
ACL_EXPORT aclnnStatus aclDestroyIntArray(const aclIntArray *a);
ACL_EXPORT aclnnStatus aclDestroyFloatArray(const aclFloatArray *a);
ACL_EXPORT aclnnStatus aclDestroyBoolArray(const aclBoolArray *a);
ACL_EXPORT aclnnStatus aclDestroyTensorList(const aclTensorList *l);
ACL_EXPORT aclnnStatus aclDestroyScalarList(const aclScalarList *l);
/* *dims is allocated for the caller, who frees it (torch_npu uses C++ delete[], which is free with
 * libstdc++). */
ACL_EXPORT aclnnStatus aclGetViewShape(const aclTensor *t, int64_t **dims, uint64_t *n);
ACL_EXPORT aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);

#ifdef __cplusplus
}
#endif
#endif
