/* strided.c - moving elements between strided and contiguous memory, by element size. */
#include "softnpu/kernel/strided.h"

#include <string.h>

typedef struct {
    uint64_t part[2];
} u128;

#define SIZES(X) X(0, uint8_t) X(1, uint16_t) X(2, uint32_t) X(3, uint64_t) X(4, u128)

#define LOOPS(i, type)                                                                                       \
    static void gather_##i(void *restrict dst, const void *restrict src, int64_t stride, int64_t n)          \
    {                                                                                                        \
        type *restrict d = dst;                                                                              \
        const type *restrict s = src;                                                                        \
        if (stride == 1)                                                                                     \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) d[k] = s[k * stride];                                            \
    }                                                                                                        \
    static void scatter_##i(void *restrict dst, int64_t stride, const void *restrict src, int64_t n)         \
    {                                                                                                        \
        type *restrict d = dst;                                                                              \
        const type *restrict s = src;                                                                        \
        if (stride == 1)                                                                                     \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) d[k * stride] = s[k];                                            \
    }                                                                                                        \
    static void fill_##i(void *restrict dst, const void *restrict value, int64_t n)                          \
    {                                                                                                        \
        type *restrict d = dst, v;                                                                           \
        memcpy(&v, value, sizeof v);                                                                         \
        for (int64_t k = 0; k < n; k++) d[k] = v;                                                            \
    }
SIZES(LOOPS)

#define GATHER(i, type) gather_##i,
#define SCATTER(i, type) scatter_##i,
#define FILL(i, type) fill_##i,

const struct strided_kernels KV(strided_kernels) = {
    .gather = {SIZES(GATHER)},
    .scatter = {SIZES(SCATTER)},
    .fill = {SIZES(FILL)},
};
