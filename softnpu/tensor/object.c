/* object.c - creation and destruction of tensors, arrays and lists, as a caller of the aclnn interface sees
 * them. */
#include "softnpu/tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t view_dims_num, aclDataType dtype,
                           const int64_t *strides, int64_t offset, aclFormat format,
                           const int64_t *storage_dims, uint64_t storage_dims_num, void *data)
{
    if ((view_dims_num && !view_dims) || view_dims_num > INT32_MAX || (storage_dims_num && !storage_dims))
        return NULL;
    aclTensor *t = malloc(sizeof *t);
    if (!t) return NULL;
    t->dtype = dtype;
    t->format = format;
    t->rank = (int32_t)view_dims_num;
    t->kernel = false;
    t->offset = offset;
    t->data = data;
    t->storage = storage_dims_num ? 1 : 0;
    for (uint64_t i = 0; i < storage_dims_num; i++)
        if (__builtin_mul_overflow(t->storage, storage_dims[i], &t->storage)) t->storage = INT64_MAX;
    uint64_t kept = view_dims_num < SN_MAX_DIMS ? view_dims_num : SN_MAX_DIMS;
    int64_t packed = 1;
    for (uint64_t i = kept; i-- > 0;) {
        t->dim[i] = view_dims[i];
        t->stride[i] = strides ? strides[i] : packed;
        if (__builtin_mul_overflow(packed, view_dims[i] > 1 ? view_dims[i] : 1, &packed)) packed = INT64_MAX;
    }
    return t;
}

aclnnStatus aclDestroyTensor(const aclTensor *t)
{
    free((void *)(uintptr_t)t);
    return ACLNN_SUCCESS;
}

aclnnStatus aclGetViewShape(const aclTensor *t, int64_t **dims, uint64_t *n)
{
    if (!t || !dims || !n) return ACLNN_ERR_PARAM_NULLPTR;
    uint64_t rank = (uint64_t)(t->rank < SN_MAX_DIMS ? t->rank : SN_MAX_DIMS);
    *dims = malloc((rank ? rank : 1) * sizeof **dims);
    if (!*dims) return ACLNN_ERR_INNER_NULLPTR;
    memcpy(*dims, t->dim, rank * sizeof **dims);
    *n = rank;
    return ACLNN_SUCCESS;
}

/* The array kinds differ in their element only: one list makes their two functions each. */
#define ARRAYS(X)                                                                                            \
    X(aclIntArray, IntArray, int64_t)                                                                        \
    X(aclFloatArray, FloatArray, float)                                                                      \
    X(aclBoolArray, BoolArray, bool)

#define ARRAY_FUNCTIONS(type, name, element)                                                                 \
    type *aclCreate##name(const element *value, uint64_t n)                                                  \
    {                                                                                                        \
        if (n && !value) return NULL;                                                                        \
        type *a = malloc(sizeof *a + n * sizeof a->v[0]);                                                    \
        if (!a) return NULL;                                                                                 \
        a->n = n;                                                                                            \
        if (n) memcpy(a->v, value, n * sizeof a->v[0]);                                                      \
        return a;                                                                                            \
    }                                                                                                        \
    aclnnStatus aclDestroy##name(const type *a)                                                              \
    {                                                                                                        \
        free((void *)(uintptr_t)a);                                                                          \
        return ACLNN_SUCCESS;                                                                                \
    }
ARRAYS(ARRAY_FUNCTIONS)

/* Lists own their elements, which may be NULL. */
#define LISTS(X)                                                                                             \
    X(aclTensorList, TensorList, aclTensor, aclDestroyTensor)                                                \
    X(aclScalarList, ScalarList, aclScalar, aclDestroyScalar)

#define LIST_FUNCTIONS(type, name, element, destroy)                                                         \
    type *aclCreate##name(const element *const *value, uint64_t n)                                           \
    {                                                                                                        \
        if (n && !value) return NULL;                                                                        \
        type *l = malloc(sizeof *l + n * sizeof l->v[0]);                                                    \
        if (!l) return NULL;                                                                                 \
        l->n = n;                                                                                            \
        if (n) memcpy(l->v, value, n * sizeof l->v[0]);                                                      \
        return l;                                                                                            \
    }                                                                                                        \
    aclnnStatus aclDestroy##name(const type *l)                                                              \
    {                                                                                                        \
        for (uint64_t i = 0; l && i < l->n; i++) destroy(l->v[i]);                                           \
        free((void *)(uintptr_t)l);                                                                          \
        return ACLNN_SUCCESS;                                                                                \
    }
LISTS(LIST_FUNCTIONS)
