/* distance.h - p-norm distances between rows of a matrix, and their gradient. */
#ifndef SOFTNPU_KERNEL_DISTANCE_H
#define SOFTNPU_KERNEL_DISTANCE_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

struct distance_kernels {
    /* The p-norm of a - b, n elements each. p is 0 (how many differ), positive, or INFINITY (the largest). */
    double (*norm)(const float *a, const float *b, int64_t n, double p);
    /* to[i] += grad times the derivative of the distance by a[i]. */
    void (*gradient)(double *to, const float *a, const float *b, int64_t n, double p, double distance,
                     double grad);
};
KERNEL_PICK(distance_kernels)

#endif
