/* convert.h - conversion loops between contiguous arrays of numbers. sn_convert composes them for every pair
 * of types. */
#ifndef SOFTNPU_KERNEL_CONVERT_H
#define SOFTNPU_KERNEL_CONVERT_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

/* The real types that convert directly: enumerator suffix, C type, how a value is read. */
#define CONV_TYPES(X) X(BOOL) X(U8) X(I8) X(I16) X(I32) X(I64) X(U16) X(U32) X(U64) X(F32) X(F64)
#define CONV_ENUM(t) CONV_##t,
enum conv_type { CONV_TYPES(CONV_ENUM) CONV_COUNT };

/* n elements; src and dst do not overlap. */
typedef void (*conv_fn)(void *dst, const void *src, int64_t n);

struct convert_kernels {
    conv_fn real[CONV_COUNT][CONV_COUNT]; /* [to][from] */
    conv_fn f16_to_f32, f32_to_f16;       /* to half precision: nearest, ties to even; a NaN stays a NaN */
    conv_fn bf16_to_f32, f32_to_bf16;
    conv_fn f32_to_c64, c64_to_f32; /* imaginary part 0; real part */
    conv_fn f64_to_c128, c128_to_f64;
    conv_fn c64_to_bool, c128_to_bool; /* true when either part is not zero */
};
KERNEL_PICK(convert_kernels)

#endif
