/* pool.h - pooling over one plane (depth, height, width). Every pooling operator is a table of windows per
 * dimension. */
#ifndef SOFTNPU_POOL_H
#define SOFTNPU_POOL_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

/* What output index o of a dimension covers: lo, lo + step, ... below hi. span: what the dimension
 * contributes to an average's divisor (padding counted or not). */
struct pool_window {
    int64_t lo, hi, step, span;
};
struct pool_geom {
    int64_t in[3], out[3];
    const struct pool_window *window[3]; /* out[d] of them */
    double divisor;                      /* 0: the product of the spans */
};

/* Types that pooling computes in. */
enum { POOL_F32, POOL_F64, POOL_I64, POOL_TYPES };
struct pool_kernels {
    /* The largest value of each window and its index in the plane. The first of equals; a NaN wins, the last
     * of several (as torch). */
    void (*max[POOL_TYPES])(const struct pool_geom *g, const void *in, void *out, int32_t *index);
    void (*average[POOL_I64])(const struct pool_geom *g, const void *in, void *out);
    /* grad_in is zeroed by the caller. */
    void (*average_back[POOL_I64])(const struct pool_geom *g, const void *grad_out, void *grad_in);
};
KERNEL_PICK(pool_kernels)

#endif
