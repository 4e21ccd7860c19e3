/* convolve.h - the three products of a convolution, on contiguous kernel memory.
 *
 * A convolution maps its big side to its small side; a transposed one maps small to big (see kernel/conv.h).
 * With the weight as a matrix of cs rows (small channels of a group) by cb*taps columns: conv_to_small small
 * = weight unfold(big)          forward; gradient of a transposed one's input conv_to_big     big    =
 * fold(weight^T small)        transposed forward; gradient of the input conv_to_weight  weight = sum small
 * unfold(big)^T     gradient of the weight, either way
 */
#ifndef SOFTNPU_CONVOLVE_H
#define SOFTNPU_CONVOLVE_H

#include "softnpu/kernel/conv.h"
#include "softnpu/op/op.h"

struct conv {
    struct conv_geom g;
    aclDataType type;          /* FLOAT, DOUBLE, COMPLEX64 or COMPLEX128; BF16: see conv_tile.h */
    int64_t n, groups, cb, cs; /* images, groups, channels of the big and the small side per group */
    char *big;                 /* n, groups*cb, big[] */
    char *weight;              /* groups*cs, cb, kernel[] */
    char *small;               /* n, groups*cs, small[] */
    const char *bias;          /* one per channel of the side that is written, or NULL */
};
bool conv_depthwise(const struct conv *v); /* one big channel a group: has its own loops */
void conv_to_small(op_call *c, const struct conv *v);
void conv_to_big(op_call *c, const struct conv *v);
void conv_to_weight(const struct conv *v);

#endif
