/* view.h - views of a tensor: the same storage with other dimensions. */
#ifndef SOFTNPU_OP_VIEW_H
#define SOFTNPU_OP_VIEW_H

#include "softnpu/op/op.h"

/* [start, start + n) of dimension d. */
aclTensor view_narrow(const aclTensor *t, int d, int64_t start, int64_t n);
/* Dimension d removed, at index i. */
aclTensor view_select(const aclTensor *t, int d, int64_t i);
/* Dimension i of the view is dimension order[i] of t. */
aclTensor view_permute(const aclTensor *t, const int64_t *order);
/* Dimension d of size a*b as two dimensions a, b. */
aclTensor view_split(const aclTensor *t, int d, int64_t a, int64_t b);
/* 161002 unless order holds each of 0..n-1 once (negative numbers count from the end); normalised into out.
 */
int view_need_permutation(const op_call *c, const aclIntArray *order, int32_t n, int64_t *out);

#endif
