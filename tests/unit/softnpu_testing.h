/* softnpu_testing.h - what the device's unit tests share: tensors in device memory, values in and out, a call
 * in two phases. Memory goes through aclrtMalloc, so that kernels and host see what they see in real use. */
#ifndef SOFTNPU_TESTING_H
#define SOFTNPU_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "softnpu/include/acl/acl_rt.h"
#include "softnpu/op/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Device memory of at least one byte, zeroed. Freed with aclrtFree. */
static inline void *test_alloc(size_t bytes)
{
    static bool ready;
    if (!ready) {
        assert_int_equal(aclInit(NULL), 0);
        assert_int_equal(aclrtSetDevice(0), 0);
        ready = true;
    }
    void *p = NULL;
    assert_int_equal(aclrtMalloc(&p, bytes ? bytes : 1, 0), 0);
    memset(rt_kernel_ptr(p), 0, bytes ? bytes : 1);
    return p;
}

/* A view of a storage that the caller keeps; strides NULL: contiguous. */
static inline aclTensor *test_view(void *storage, aclDataType t, int32_t rank, const int64_t *dim,
                                   const int64_t *stride, int64_t offset)
{
    aclTensor *v = aclCreateTensor(dim, (uint64_t)rank, t, stride, offset, ACL_FORMAT_ND, NULL, 0, storage);
    assert_non_null(v);
    return v;
}

/* A contiguous tensor with its own storage. */
static inline aclTensor *test_tensor(aclDataType t, int32_t rank, const int64_t *dim)
{
    size_t n = sn_size(t);
    for (int32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    return test_view(test_alloc(n), t, rank, dim, NULL, 0);
}

static inline aclTensor *test_values(aclDataType t, int64_t n, const double *values)
{
    aclTensor *v = test_tensor(t, 1, &n);
    sn_convert(sn_data(v), t, values, ACL_DOUBLE, n);
    return v;
}

static inline void test_drop(aclTensor *t)
{
    aclrtFree(t->data);
    aclDestroyTensor(t);
}

/* Element i of contiguous storage, as double. */
static inline double test_at(const aclTensor *t, int64_t i)
{
    double out;
    sn_convert(&out, ACL_DOUBLE, (char *)sn_data(t) + i * (int64_t)sn_size(t->dtype), t->dtype, 1);
    return out;
}

/* Both phases; the result of the first that fails. TEST_CALL(aclnnAdd, a, b, alpha, out) */
#define TEST_CALL(op, ...)                                                                                   \
    __extension__({                                                                                          \
        uint64_t ws_ = 1;                                                                                    \
        aclOpExecutor *ex_ = NULL;                                                                           \
        int e_ = op##GetWorkspaceSize(__VA_ARGS__, &ws_, &ex_);                                              \
        if (!e_) e_ = op(NULL, 0, ex_, NULL);                                                                \
        if (!e_) e_ = aclrtSynchronizeDevice();                                                              \
        e_;                                                                                                  \
    })
/* Declares the two exported functions of an operator with the given parameters. */
#define TEST_OP(op, ...)                                                                                     \
    aclnnStatus op##GetWorkspaceSize(__VA_ARGS__, uint64_t *, aclOpExecutor **);                             \
    aclnnStatus op(void *, uint64_t, aclOpExecutor *, aclrtStream);

#endif
