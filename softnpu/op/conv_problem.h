/* conv_problem.h - a convolution as an operator states it, its checks, and its forward and backward runs.
 * Used by the aclnn operators (conv.c) and by the types of the older path (conv_older.c). */
#ifndef SOFTNPU_CONV_PROBLEM_H
#define SOFTNPU_CONV_PROBLEM_H

#include "softnpu/op/op.h"

/* Channel-first views of 3 to 5 dimensions; parameters per spatial dimension, right aligned in three places.
 */
struct conv_problem {
    aclTensor input, weight, output; /* output: or its gradient */
    int64_t stride[3], pad[3], pad_end[3], dilation[3], out_pad[3];
    int64_t groups;
    bool transposed;
    int cube_math;
};

struct conv_problem conv_blank(void); /* stride, dilation and groups 1, the rest 0 */
/* Shapes, limits of the device and data types; leaves the type to compute in as plan[0]. 0 or an error code.
 */
int conv_check(op_call *c, const struct conv_problem *p);
int conv_check_bias(const op_call *c, const struct conv_problem *p, const aclTensor *bias);
/* After conv_check of the same call. Gradients that are not wanted are NULL. */
void conv_forward(op_call *c, const struct conv_problem *p, const aclTensor *bias);
void conv_backward(op_call *c, const struct conv_problem *p, const aclTensor *grad_input,
                   const aclTensor *grad_weight, const aclTensor *grad_bias);

#endif
