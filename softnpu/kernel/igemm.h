/* igemm.h - integer matrix products: exact modulo the type's width. */
#ifndef SOFTNPU_IGEMM_H
#define SOFTNPU_IGEMM_H

#include "softnpu/include/acl/acl_base.h"
#include "softnpu/kernel/variant.h"
#include <stdint.h>

/* c[i*crs + j] = alpha sum_p a[i*ars + p*acs] b[p*brs + j*bcs] + beta c; beta 0 never reads c. Strides in
 * elements. */
struct igemm_args {
    int64_t m, n, k;
    const void *a;
    int64_t ars, acs;
    const void *b;
    int64_t brs, bcs;
    void *c;
    int64_t crs;
    int64_t alpha, beta;
};
enum { IGEMM_TYPES = ACL_BOOL + 1 };
struct igemm_kernels {
    void (*run[IGEMM_TYPES])(
        const struct igemm_args *g); /* by aclDataType; NULL for types that are not integers */
};
KERNEL_PICK(igemm_kernels)

#endif
