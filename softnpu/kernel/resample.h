/* resample.h - resampling of one plane along depth, height and width: every output is a weighted sum of
 * inputs, and the weights of a dimension do not depend on the others. */
#ifndef SOFTNPU_RESAMPLE_H
#define SOFTNPU_RESAMPLE_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stdint.h>

/* Output o of a dimension is the sum of weight[i] * input[at[i]] for i in [begin[o], begin[o + 1]). Weights
 * are floats or doubles, as the plane. */
struct taps {
    const int32_t *begin, *at;
    const void *weight;
};
struct resample {
    int64_t in[3], out[3];
    struct taps taps[3];
    bool plain; /* one tap of weight 1 everywhere (nearest) */
};
struct resample_kernels {
    /* row: in[2] elements of scratch. [0] float, [1] double. */
    void (*forward[2])(const struct resample *r, const void *in, void *out, void *row);
    /* grad_in is zeroed by the caller. */
    void (*backward[2])(const struct resample *r, const void *grad_out, void *grad_in, void *row);
};
KERNEL_PICK(resample_kernels)

#endif
