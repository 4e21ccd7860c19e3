/* reduce.h - one driver for every reduction: any dtype, layout and set of dimensions, deterministic for any
 * thread count. */
#ifndef SOFTNPU_OP_REDUCE_H
#define SOFTNPU_OP_REDUCE_H

#include "softnpu/kernel/reduce_kernels.h"
#include "softnpu/op/op.h"

struct reduction {
    const aclTensor *self;
    uint32_t dims;  /* bit d: dimension d is reduced */
    aclDataType as; /* elements are converted to this type's compute type first */
    enum red_op op;
    double p; /* RED_POW's exponent */
};
struct reduced {
    void *acc;         /* in scratch: planes of `kept` values, plane p at acc + p * kept values */
    int64_t kept;      /* results: product of the dimensions that stay */
    int64_t each;      /* elements behind one result */
    aclDataType dtype; /* of plane 0: DOUBLE, INT64 or COMPLEX128 */
};

/* 0, or ACLNN_ERR_PARAM_INVALID if there is no such fold for the type. */
int reduce_run(op_call *c, const struct reduction *r, struct reduced *out);
enum red_type reduce_type(aclDataType as);

/* ---- checks shared by the operators ------------------------------------------------------------------ */

/* Bits of the dimensions in `dims` (NULL or empty: all of them); 161002 if one is outside or named twice. */
int reduce_dims(const op_call *c, const aclTensor *self, const aclIntArray *dims, uint32_t *bits);
/* Argument `out` has self's shape with the dims removed (or 1 with keepdim). A full reduction may also give
 * [1]. */
int reduce_need_out(const op_call *c, const aclTensor *self, uint32_t dims, bool keepdim, int out);
/* 161002 when there are results but nothing to reduce, for folds without an identity. */
int reduce_need_elements(const op_call *c, const aclTensor *self, uint32_t dims);

#endif
