/* reduce_kernels.h - folds of contiguous elements into accumulators, one set per (operation, compute type).
 *
 * An accumulator is 1 to 3 planes of 8-byte values (16 bytes for RED_C128): double for the float types,
 * int64_t for the integer ones. Float sums are kept in double, in a fixed number of lanes, so a result does
 * not depend on the variant.
 */
#ifndef SOFTNPU_REDUCE_KERNELS_H
#define SOFTNPU_REDUCE_KERNELS_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

enum red_op {
    RED_SUM,
    RED_PROD,
    RED_MAX, /* NaN wins */
    RED_MIN,
    RED_ARGMAX, /* planes: value, int64 index of the first maximum (of the first NaN) */
    RED_ARGMIN,
    RED_NANSUM,  /* NaN counts as 0 */
    RED_NONZERO, /* how many are not 0 */
    RED_ABS,     /* sum of |x| */
    RED_SQUARE,  /* sum of x*x */
    RED_ABSMAX,
    RED_ABSMIN,
    RED_POW,     /* sum of |x|^p */
    RED_MOMENTS, /* planes: count, mean, sum of squared distances from the mean */
    RED_LOGSUM,  /* planes: maximum, sum of exp(x - maximum) */
    RED_ANY,     /* RED_BOOL only */
    RED_ALL,
    RED_NOPS
};
enum red_type { RED_F32, RED_F64, RED_I64, RED_C128, RED_BOOL, RED_NTYPES };

struct red_fn {
    int planes; /* 0: there is no such fold */
    /* Sets n accumulators (ld apart from plane to plane) to what an empty fold gives. */
    void (*init)(void *acc, int64_t ld, int64_t n);
    /* Folds n elements into one accumulator; the first has position `index` in the reduction. */
    void (*row)(void *acc, int64_t ld, const void *x, int64_t n, int64_t index, double p);
    /* Folds element i into accumulator i; all n have position `index`. NULL: rows only. */
    void (*col)(void *acc, int64_t ld, const void *x, int64_t n, int64_t index, double p);
    /* Folds accumulator i of `from`, which comes later in the reduction, into accumulator i. */
    void (*merge)(void *acc, int64_t ld, const void *from, int64_t from_ld, int64_t n);
};
struct reduce_kernels {
    struct red_fn fn[RED_NOPS][RED_NTYPES];
};
KERNEL_PICK(reduce_kernels)

#endif
