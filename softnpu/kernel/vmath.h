/* vmath.h - vector mathematics on contiguous arrays, SLEEF's vector functions, within 1 ulp (erfc 1.5), where
 * the library is found, else the C library's, one element at a time and within its bounds. in and out may be
 * the same array. SOFTNPU_VMATH=libm takes the latter.
 *
 *     vmath_f32(VM_EXP, n, in, out);   vmath2_f64(VM_POW, n, base, exponent, out);
 */
#ifndef SOFTNPU_KERNEL_VMATH_H
#define SOFTNPU_KERNEL_VMATH_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

/* enumerator, C function, SLEEF's error class ("" where the name has none) */
#define VMATH1(X)                                                                                            \
    X(EXP, exp, u10)                                                                                         \
    X(EXP2, exp2, u10)                                                                                       \
    X(EXPM1, expm1, u10)                                                                                     \
    X(LOG, log, u10)                                                                                         \
    X(LOG2, log2, u10)                                                                                       \
    X(LOG10, log10, u10)                                                                                     \
    X(LOG1P, log1p, u10)                                                                                     \
    X(SIN, sin, u10)                                                                                         \
    X(COS, cos, u10)                                                                                         \
    X(TAN, tan, u10)                                                                                         \
    X(ASIN, asin, u10)                                                                                       \
    X(ACOS, acos, u10)                                                                                       \
    X(ATAN, atan, u10)                                                                                       \
    X(SINH, sinh, u10)                                                                                       \
    X(COSH, cosh, u10)                                                                                       \
    X(TANH, tanh, u10)                                                                                       \
    X(ASINH, asinh, u10)                                                                                     \
    X(ACOSH, acosh, u10)                                                                                     \
    X(ATANH, atanh, u10)                                                                                     \
    X(ERF, erf, u10)                                                                                         \
    X(ERFC, erfc, u15)                                                                                       \
    X(LGAMMA, lgamma, u10)
#define VMATH2(X)                                                                                            \
    X(POW, pow, u10)                                                                                         \
    X(ATAN2, atan2, u10)                                                                                     \
    X(HYPOT, hypot, u05)

#define VMATH_ENUM(id, fn, ulp) VM_##id,
enum vmath1 { VMATH1(VMATH_ENUM) VM_COUNT1 };
enum vmath2 { VMATH2(VMATH_ENUM) VM_COUNT2 };

struct vmath_kernels {
    void (*f32)(enum vmath1 f, int64_t n, const float *in, float *out);
    void (*f64)(enum vmath1 f, int64_t n, const double *in, double *out);
    void (*f32_2)(enum vmath2 f, int64_t n, const float *a, const float *b, float *out);
    void (*f64_2)(enum vmath2 f, int64_t n, const double *a, const double *b, double *out);
    /* 1 / (1 + exp(-x)) */
    void (*sigmoid_f32)(int64_t n, const float *in, float *out);
    void (*sigmoid_f64)(int64_t n, const double *in, double *out);
};
#ifdef KERNEL_VARIANT /* a kernel calls its own variant's functions */
extern const struct vmath_kernels KV(vmath_kernels);
#define VMATH_TABLE (&KV(vmath_kernels))
#else
KERNEL_PICK(vmath_kernels)
#define VMATH_TABLE vmath_kernels()
#endif

static inline void vmath_f32(enum vmath1 f, int64_t n, const float *in, float *out)
{
    VMATH_TABLE->f32(f, n, in, out);
}
static inline void vmath_f64(enum vmath1 f, int64_t n, const double *in, double *out)
{
    VMATH_TABLE->f64(f, n, in, out);
}
static inline void vmath2_f32(enum vmath2 f, int64_t n, const float *a, const float *b, float *out)
{
    VMATH_TABLE->f32_2(f, n, a, b, out);
}
static inline void vmath2_f64(enum vmath2 f, int64_t n, const double *a, const double *b, double *out)
{
    VMATH_TABLE->f64_2(f, n, a, b, out);
}
static inline void vmath_sigmoid_f32(int64_t n, const float *in, float *out)
{
    VMATH_TABLE->sigmoid_f32(n, in, out);
}
static inline void vmath_sigmoid_f64(int64_t n, const double *in, double *out)
{
    VMATH_TABLE->sigmoid_f64(n, in, out);
}

/* SLEEF's function by its full name, e.g. "Sleef_expf8_u10avx2"; NULL when the library or the name is not
 * there. */
void *vmath_symbol(const char *name);

#endif
