/* strided.h - moving elements between strided and contiguous memory, by element size. */
#ifndef SOFTNPU_KERNEL_STRIDED_H
#define SOFTNPU_KERNEL_STRIDED_H

#include "softnpu/kernel/variant.h"
#include <stddef.h>
#include <stdint.h>

enum { STRIDED_SIZES = 5 }; /* 1, 2, 4, 8, 16 bytes: the index is the logarithm */

struct strided_kernels {
    /* stride in elements; dst and src do not overlap */
    void (*gather[STRIDED_SIZES])(void *dst, const void *src, int64_t stride, int64_t n);
    void (*scatter[STRIDED_SIZES])(void *dst, int64_t stride, const void *src, int64_t n);
    void (*fill[STRIDED_SIZES])(void *dst, const void *value, int64_t n);
    /* dst[i * dst_step + j] = src[i + j * src_step], i < rows, j < columns; steps in elements */
    void (*transpose[STRIDED_SIZES])(void *dst, int64_t dst_step, const void *src, int64_t src_step,
                                     int64_t rows, int64_t columns);
};
KERNEL_PICK(strided_kernels)

static inline int strided_index(size_t size)
{
    return __builtin_ctzll(size);
}

#endif
