/* conv.h - the inner loops of convolution: unfolding, folding, and depthwise taps.
 *
 * A convolution relates a "big" side (its input; a transposed convolution's output) and a "small" side (its
 * output; a transposed convolution's input). Spatial dimensions are always three (depth, height, width;
 * missing ones have size 1). Position p of the small side counts (depth, height, width) row major; tap t
 * counts the kernel the same way. */
#ifndef SOFTNPU_CONV_H
#define SOFTNPU_CONV_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

struct conv_geom {
    int64_t big[3], small[3], kernel[3], stride[3], pad[3], dilation[3];
};
static inline int64_t conv_taps(const struct conv_geom *g)
{
    return g->kernel[0] * g->kernel[1] * g->kernel[2];
}
static inline int64_t conv_small(const struct conv_geom *g)
{
    return g->small[0] * g->small[1] * g->small[2];
}
static inline int64_t conv_big(const struct conv_geom *g)
{
    return g->big[0] * g->big[1] * g->big[2];
}

struct conv_kernels {
    /* col[(r - r0)*ld + p - p0] = big[channel r / taps][under tap r % taps at p], 0 outside; rows r0..r1,
     * positions p0..p1. Indexed by log2 of the element size (0: 1 byte .. 4: 16 bytes). */
    void (*unfold[5])(const struct conv_geom *g, const void *big, int64_t r0, int64_t r1, int64_t p0,
                      int64_t p1, void *col, int64_t ld);
    /* The transpose: adds col into big. For float, double, float complex, double complex. */
    void (*fold[4])(const struct conv_geom *g, void *big, int64_t r0, int64_t r1, const void *col,
                    int64_t ld);
    /* One channel of a depthwise convolution. */
    void (*depth_small)(const struct conv_geom *g, const float *big, const float *w,
                        float *small); /* small += */
    void (*depth_big)(const struct conv_geom *g, float *big, const float *w, const float *small); /* big += */
    void (*depth_weight)(const struct conv_geom *g, const float *big, float *w,
                         const float *small); /* w += */
};
KERNEL_PICK(conv_kernels)

#endif
