/* row_kernels.h - what softmax and the normalisations do to one contiguous row. Index 0: float, 1: double.
 *
 * Outputs may be the same row as an input; rows that overlap in another way are not allowed. Sums are kept in
 * a fixed number of lanes: results do not depend on the variant.
 */
#ifndef SOFTNPU_ROW_KERNELS_H
#define SOFTNPU_ROW_KERNELS_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

struct row_stats {
    double mean, rstd; /* rstd: 1 / sqrt(variance + eps) */
};
/* Sums over a row that a normalisation's gradient needs: of g and of g * xhat, g = dy * gamma. */
struct row_sums {
    double g, gx;
};

struct row_kernels {
    /* y = a + b * scale */
    void (*add[2])(void *y, const void *a, const void *b, double scale, int64_t n);
    void (*softmax[2])(void *y, const void *x, int64_t n);
    void (*log_softmax[2])(void *y, const void *x, int64_t n);
    void (*softmax_grad[2])(void *dx, const void *dy, const void *y, int64_t n);
    void (*log_softmax_grad[2])(void *dx, const void *dy, const void *y, int64_t n);
    /* Mean and variance in two passes. */
    struct row_stats (*stats[2])(const void *x, int64_t n, double eps);
    /* mean is 0, rstd from the mean of the squares. */
    struct row_stats (*rms[2])(const void *x, int64_t n, double eps);
    /* y = (x - mean) * rstd * gamma + beta; gamma and beta may be NULL, one element each. */
    void (*normalise[2])(void *y, const void *x, int64_t n, struct row_stats s, const void *gamma,
                         const void *beta);
    /* The same with one gamma and beta for the whole row. */
    void (*affine[2])(void *y, const void *x, int64_t n, struct row_stats s, double gamma, double beta);
    struct row_sums (*grad_sums[2])(const void *dy, const void *x, int64_t n, struct row_stats s,
                                    const void *gamma);
    /* dx = rstd * (dy * gamma - a - xhat * b); with gamma NULL, `scale` is the gamma of the whole row. */
    void (*grad_input[2])(void *dx, const void *dy, const void *x, int64_t n, struct row_stats s,
                          const void *gamma, double scale, double a, double b);
    /* dgamma[i] += dy[i] * xhat[i], dbeta[i] += dy[i]; either may be NULL. */
    void (*grad_affine[2])(double *dgamma, double *dbeta, const void *dy, const void *x, int64_t n,
                           struct row_stats s);
};
KERNEL_PICK(row_kernels)

#endif
