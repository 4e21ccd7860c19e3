/* norm.h - what the normalisations share: rows in one compute type, parameters, statistics. */
#ifndef SOFTNPU_OP_NORM_H
#define SOFTNPU_OP_NORM_H

#include "softnpu/kernel/row_kernels.h"
#include "softnpu/op/op.h"

/* The type that rows are computed in: FLOAT, or DOUBLE for a DOUBLE tensor; 0 or 1 as index into row_kernels.
 */
static inline aclDataType norm_type(const aclTensor *t)
{
    return t->dtype == ACL_DOUBLE ? ACL_DOUBLE : ACL_FLOAT;
}
static inline int norm_index(aclDataType as)
{
    return as == ACL_DOUBLE;
}
/* op_in for an argument that may be absent: NULL then. */
static inline void *norm_in(op_call *c, const aclTensor *t, aclDataType as)
{
    return t ? op_in(c, t, as) : NULL;
}
/* A buffer for an output; scratch for one that is absent, so that kernels need not ask. n: elements. */
void *norm_out(op_call *c, const aclTensor *t, aclDataType as, int64_t n);
/* A buffer for an output that is written while inputs a and b (either may be NULL) are still read; NULL
 * without t. */
void *norm_out_beside(op_call *c, const aclTensor *t, aclDataType as, const aclTensor *a, const aclTensor *b);
void norm_out_done(op_call *c, const aclTensor *t, aclDataType as, const void *buffer);
/* 161002 unless argument arg, when it is there, has n elements. */
int norm_need_count(const op_call *c, int arg, int64_t n);
/* Element offset arithmetic for a buffer of compute type `as`. */
static inline char *norm_at(const void *base, aclDataType as, int64_t i)
{
    return base ? (char *)(uintptr_t)base + i * (int64_t)sn_size(as) : NULL;
}

/* Gradients of rows: x and dy are `rows` by `n`, of one type; mean, rstd one value a row (mean NULL: 0);
 * gamma n values or NULL. dx (NULL: not wanted) has the same layout; dgamma, dbeta are n sums or NULL.
 * centred: the mean was subtracted (layer norm), otherwise it was not (RMS norm). dx_add is added to dx if
 * not NULL. */
struct norm_grad {
    aclDataType as;
    int64_t rows, n;
    const void *dy, *x, *gamma, *dx_add;
    const double *mean, *rstd;
    bool centred;
    void *dx;
    double *dgamma, *dbeta;
};
void norm_grad_run(op_call *c, const struct norm_grad *g);

#endif
