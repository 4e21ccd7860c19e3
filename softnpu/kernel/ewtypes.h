/* ewtypes.h - internal to the elementwise kernels: C types of the computing types, and complex arithmetic as
 * torch does it (no recovery of NaNs, division scaled by the larger part). */
#ifndef SOFTNPU_KERNEL_EWTYPES_H
#define SOFTNPU_KERNEL_EWTYPES_H

#include <complex.h>
#include <math.h>
#include <stdint.h>

typedef float F32_t;
typedef double F64_t;
typedef int8_t I8_t;
typedef int16_t I16_t;
typedef int32_t I32_t;
typedef int64_t I64_t;
typedef uint8_t U8_t;
typedef uint8_t BOOL_t;
typedef float _Complex C64_t;
typedef double _Complex C128_t;

/* Unsigned twin in which integer arithmetic wraps. */
typedef unsigned I8_u;
typedef unsigned I16_u;
typedef unsigned I32_u;
typedef uint64_t I64_u;
typedef unsigned U8_u;

#define COMPLEX_ARITHMETIC(T, real, re, im, hypotenuse, absolute)                                            \
    static inline T make_##T(real a, real b)                                                                 \
    {                                                                                                        \
        union {                                                                                              \
            real part[2];                                                                                    \
            T value;                                                                                         \
        } u = {{a, b}};                                                                                      \
        return u.value;                                                                                      \
    }                                                                                                        \
    static inline T mul_##T(T x, T y)                                                                        \
    {                                                                                                        \
        real a = re(x), b = im(x), c = re(y), d = im(y);                                                     \
        return make_##T(a * c - b * d, a * d + b * c);                                                       \
    }                                                                                                        \
    static inline T div_##T(T x, T y)                                                                        \
    {                                                                                                        \
        real a = re(x), b = im(x), c = re(y), d = im(y);                                                     \
        if (absolute(c) >= absolute(d)) {                                                                    \
            if (c == 0 && d == 0) return make_##T(a / absolute(c), b / absolute(d));                         \
            real ratio = d / c, scale = 1 / (c + d * ratio);                                                 \
            return make_##T((a + b * ratio) * scale, (b - a * ratio) * scale);                               \
        }                                                                                                    \
        real ratio = c / d, scale = 1 / (c * ratio + d);                                                     \
        return make_##T((a * ratio + b) * scale, (b * ratio - a) * scale);                                   \
    }                                                                                                        \
    static inline real abs_##T(T x)                                                                          \
    {                                                                                                        \
        return hypotenuse(re(x), im(x));                                                                     \
    }
COMPLEX_ARITHMETIC(C64_t, float, crealf, cimagf, hypotf, fabsf)
COMPLEX_ARITHMETIC(C128_t, double, creal, cimag, hypot, fabs)

#endif
