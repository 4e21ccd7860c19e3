/* column_kernels.h - rows that lie across memory: element i of row j at p[i * step + j].
 *
 * Up to COLUMN_BLOCK neighbouring rows are worked on side by side, so that every line of memory is used
 * whole. n elements a row, m rows; inputs and outputs have the same step and may be the same memory. Sums are
 * kept in double. */
#ifndef SOFTNPU_COLUMN_KERNELS_H
#define SOFTNPU_COLUMN_KERNELS_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

enum { COLUMN_BLOCK = 64 };

struct column_kernels {
    void (*softmax)(float *y, const float *x, int64_t n, int64_t step, int64_t m);
    void (*log_softmax)(float *y, const float *x, int64_t n, int64_t step, int64_t m);
    void (*softmax_grad)(float *dx, const float *dy, const float *y, int64_t n, int64_t step, int64_t m);
    void (*log_softmax_grad)(float *dx, const float *dy, const float *y, int64_t n, int64_t step, int64_t m);
    void (*cumsum)(float *y, const float *x, int64_t n, int64_t step, int64_t m);
    void (*cumprod)(float *y, const float *x, int64_t n, int64_t step, int64_t m);
};
KERNEL_PICK(column_kernels)

#endif
