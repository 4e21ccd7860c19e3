/* half_loops.h - elementwise loops on 16-bit floating types themselves: each does what a float loop does
 * between widening its inputs and rounding its result, in registers. */
#ifndef SOFTNPU_KERNEL_HALF_LOOPS_H
#define SOFTNPU_KERNEL_HALF_LOOPS_H

#include "softnpu/kernel/elementwise.h"

enum half_type { HALF_F16, HALF_BF16, HALF_TYPES };

/* clang-format off */
#define HALF_BINARY(X) X(ADD) X(SUB) X(MUL) X(DIV) X(ADDA) X(SUBA) X(RSUBA) X(MAX) X(MIN)
#define HALF_UNARY(X) X(ABS) X(NEG) X(SQRT) X(RSQRT) X(RECIPROCAL) X(SQUARE) X(SIGMOID)
#define HALF_ACTIVATION(X) X(RELU) X(SILU) X(GELU)

/* clang-format on */

/* NULL where the variant has no such loop. ctx as the float loop's. */
struct half_kernels {
    ew_loop binary[EWB_COUNT][HALF_TYPES];
    ew_loop unary[EWU_COUNT][HALF_TYPES];
    ew_loop activation[EWA_COUNT][HALF_TYPES];
};
KERNEL_PICK(half_kernels)

#endif
