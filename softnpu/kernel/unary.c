/* unary.c - elementwise loops with one input. */
#include "softnpu/kernel/elementwise.h"
#include "softnpu/kernel/ewtypes.h"
#include "softnpu/kernel/vmath.h"

#define UNUSED(x) (void)(x)
/* A loop over `expression` of a. TO: the result's C type. */
#define LOOP(id, T, TO, expression)                                                                          \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        UNUSED(ctx);                                                                                         \
        TO *out = p[0];                                                                                      \
        const T##_t *x = p[1];                                                                               \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t a = x[i];                                                                                  \
            out[i] = (TO)(expression);                                                                       \
        }                                                                                                    \
    }

/* ---- functions of the vector library --------------------------------------------------------- */

#define VECTOR(id)                                                                                           \
    static void id##_F32(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        UNUSED(ctx);                                                                                         \
        vmath_f32(VM_##id, n, p[1], p[0]);                                                                   \
    }                                                                                                        \
    static void id##_F64(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        UNUSED(ctx);                                                                                         \
        vmath_f64(VM_##id, n, p[1], p[0]);                                                                   \
    }
EW_UNARY_VMATH(VECTOR)

static void SIGMOID_F32(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    UNUSED(index);
    UNUSED(ctx);
    vmath_sigmoid_f32(n, p[1], p[0]);
}
static void SIGMOID_F64(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    UNUSED(index);
    UNUSED(ctx);
    vmath_sigmoid_f64(n, p[1], p[0]);
}

/* ---- floating point -------------------------------------------------------------------------- */

#define FLOAT_LOOPS(T, real, f)                                                                              \
    LOOP(ABS, T, real, __builtin_fabs##f(a))                                                                 \
    LOOP(NEG, T, real, -a)                                                                                   \
    LOOP(SIGN, T, real, (a > 0) - (a < 0))                                                                   \
    LOOP(CEIL, T, real, __builtin_ceil##f(a))                                                                \
    LOOP(FLOOR, T, real, __builtin_floor##f(a))                                                              \
    LOOP(ROUND, T, real, __builtin_rint##f(a))                                                               \
    LOOP(TRUNC, T, real, __builtin_trunc##f(a))                                                              \
    LOOP(RECIPROCAL, T, real, 1 / a)                                                                         \
    LOOP(SQUARE, T, real, a *a)                                                                              \
    LOOP(CUBE, T, real, a *a *a)                                                                             \
    LOOP(INVSQUARE, T, real, 1 / (a * a))                                                                    \
    LOOP(SQRT, T, real, __builtin_sqrt##f(a))                                                                \
    LOOP(RSQRT, T, real, 1 / __builtin_sqrt##f(a))                                                           \
    LOOP(ANGLE, T, real, a != a ? a : a < 0 ? (real)M_PI : 0)                                                \
    LOOP(LNOT, T, uint8_t, a == 0)                                                                           \
    LOOP(ISFINITE, T, uint8_t, a - a == 0)                                                                   \
    LOOP(SIGNBIT, T, uint8_t, __builtin_copysign##f(1, a) < 0)                                               \
    LOOP(SINC, T, real, a == 0 ? 1 : sin##f((real)M_PI * a) / ((real)M_PI * a))                              \
    static void LOGIT_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                         \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        const real eps = (real) * (const double *)ctx, *x = p[1];                                            \
        real *out = p[0];                                                                                    \
        EW_EACH                                                                                              \
        {                                                                                                    \
            real a = eps < 0 ? x[i] : x[i] < eps ? eps : x[i] > 1 - eps ? 1 - eps : x[i];                    \
            out[i] = a / (1 - a);                                                                            \
        }                                                                                                    \
        VMATH_TABLE->T##_LOWER(VM_LOG, n, out, out);                                                         \
    }                                                                                                        \
    static void NANNUM_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                        \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        const double *to = ctx;                                                                              \
        const real nan = (real)to[0], high = (real)to[1], low = (real)to[2], *x = p[1];                      \
        real *out = p[0];                                                                                    \
        EW_EACH                                                                                              \
        {                                                                                                    \
            real a = x[i];                                                                                   \
            out[i] = a != a ? nan : a == (real)INFINITY ? high : a == -(real)INFINITY ? low : a;             \
        }                                                                                                    \
    }                                                                                                        \
    static void ROUNDD_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                        \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        const int64_t decimals = *(const int64_t *)ctx;                                                      \
        const real ten = (real)pow(10, fabs((double)decimals)), *x = p[1];                                   \
        real *out = p[0];                                                                                    \
        if (decimals < 0)                                                                                    \
            EW_EACH out[i] = __builtin_rint##f(x[i] / ten) * ten;                                            \
        else                                                                                                 \
            EW_EACH out[i] = __builtin_rint##f(x[i] * ten) / ten;                                            \
    }

/* Inverse error function: a rational start (Winitzki) and Newton steps on erfc, whose tail keeps its
 * precision. */
static double erf_inverse(double y)
{
    double a = fabs(y);
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    if (a < 1e-8) return y * 0.88622692545275801365;
    double w = log1p(-a * a), h = 4.33074675078 + w / 2;
    double x = sqrt(sqrt(h * h - w / 0.147) - h);
    for (int i = 0; i < 4; i++) x += (erfc(x) - (1 - a)) * 0.88622692545275801365 * exp(x * x);
    return copysign(x, y);
}

#define F32_LOWER f32
#define F64_LOWER f64
FLOAT_LOOPS(F32, float, f)
FLOAT_LOOPS(F64, double, )

#define RESULT_SAME REAL
#define RESULT_TRUTH uint8_t
#define FLOAT_OP(id, result, expression) LOOP(id, F32, RESULT_##result, expression)
#define REAL float
#define MATH(fn) __builtin_##fn##f
#include "softnpu/kernel/float_ops.inc"
#undef FLOAT_OP
#undef REAL
#undef MATH
#define FLOAT_OP(id, result, expression) LOOP(id, F64, RESULT_##result, expression)
#define REAL double
#define MATH(fn) __builtin_##fn
#include "softnpu/kernel/float_ops.inc"
#undef FLOAT_OP

/* ---- integers and bool ----------------------------------------------------------------------- */

#define SIGNED_LOOPS(T)                                                                                      \
    LOOP(ABS, T, T##_t, a < 0 ? 0 - (T##_u)a : (T##_u)a)                                                     \
    LOOP(NEG, T, T##_t, 0 - (T##_u)a)                                                                        \
    LOOP(SIGN, T, T##_t, (a > 0) - (a < 0))                                                                  \
    LOOP(SIGNBIT, T, uint8_t, a < 0)
SIGNED_LOOPS(I8)
SIGNED_LOOPS(I16)
SIGNED_LOOPS(I32)
SIGNED_LOOPS(I64)
LOOP(ABS, U8, uint8_t, a)
LOOP(NEG, U8, uint8_t, 0u - a)
LOOP(SIGN, U8, uint8_t, a != 0)
LOOP(SIGNBIT, U8, uint8_t, a & 0)
LOOP(ABS, BOOL, uint8_t, a)
LOOP(SIGN, BOOL, uint8_t, a)
LOOP(SIGNBIT, BOOL, uint8_t, a & 0)
LOOP(NOT, BOOL, uint8_t, !a)
LOOP(LNOT, BOOL, uint8_t, !a)

/* x to a multiple of ten, within int64; multiples beyond it leave 0. */
static inline int64_t rounded_to(double x, double ten)
{
    const double y = ten < 0x1p63 ? rint(x / ten) * ten : 0;
    return y >= 0x1p63 ? INT64_MAX : y < -0x1p63 ? INT64_MIN : (int64_t)y;
}

/* COPY: what rounds or cleans nothing of an integer. */
#define INTEGER_LOOPS(T)                                                                                     \
    LOOP(SQUARE, T, T##_t, (T##_u)a *(T##_u)a)                                                               \
    LOOP(CUBE, T, T##_t, (T##_u)a *(T##_u)a *(T##_u)a)                                                       \
    LOOP(NOT, T, T##_t, ~a)                                                                                  \
    LOOP(LNOT, T, uint8_t, a == 0)                                                                           \
    LOOP(COPY, T, T##_t, a)                                                                                  \
    static void ROUNDD_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                        \
    {                                                                                                        \
        UNUSED(index);                                                                                       \
        const int64_t decimals = *(const int64_t *)ctx;                                                      \
        const double ten = decimals < 0 ? pow(10, -(double)decimals) : 1;                                    \
        T##_t *out = p[0];                                                                                   \
        const T##_t *x = p[1];                                                                               \
        for (int64_t i = 0; i < n; i++) out[i] = decimals < 0 ? (T##_t)rounded_to((double)x[i], ten) : x[i]; \
    }
INTEGER_LOOPS(I8)
INTEGER_LOOPS(I16)
INTEGER_LOOPS(I32)
INTEGER_LOOPS(I64)
INTEGER_LOOPS(U8)
LOOP(COPY, BOOL, uint8_t, a)

/* ---- complex --------------------------------------------------------------------------------- */

#define COMPLEX_LOOPS(T, real, f)                                                                            \
    LOOP(ABS, T, real, abs_##T##_t(a))                                                                       \
    LOOP(ANGLE, T, real, carg##f(a))                                                                         \
    LOOP(NEG, T, T##_t, make_##T##_t(-creal##f(a), -cimag##f(a)))                                            \
    LOOP(LNOT, T, uint8_t, a == 0)                                                                           \
    LOOP(ISFINITE, T, uint8_t, creal##f(a) - creal##f(a) == 0 && cimag##f(a) - cimag##f(a) == 0)             \
    LOOP(RECIPROCAL, T, T##_t, div_##T##_t(1, a))                                                            \
    LOOP(SQUARE, T, T##_t, mul_##T##_t(a, a))                                                                \
    LOOP(CUBE, T, T##_t, mul_##T##_t(mul_##T##_t(a, a), a))                                                  \
    LOOP(INVSQUARE, T, T##_t, div_##T##_t(1, mul_##T##_t(a, a)))                                             \
    LOOP(SQRT, T, T##_t, csqrt##f(a))                                                                        \
    LOOP(RSQRT, T, T##_t, div_##T##_t(1, csqrt##f(a)))                                                       \
    LOOP(EXP, T, T##_t, cexp##f(a))                                                                          \
    LOOP(EXP2, T, T##_t, cexp##f(mul_##T##_t(a, (T##_t)M_LN2)))                                              \
    LOOP(EXPM1, T, T##_t, expm1_##T(a))                                                                      \
    LOOP(LOG, T, T##_t, clog##f(a))                                                                          \
    LOOP(LOG2, T, T##_t, mul_##T##_t(clog##f(a), (T##_t)M_LOG2E))                                            \
    LOOP(LOG10, T, T##_t, mul_##T##_t(clog##f(a), (T##_t)M_LOG10E))                                          \
    LOOP(LOG1P, T, T##_t, clog##f(1 + a))                                                                    \
    LOOP(SIN, T, T##_t, csin##f(a))                                                                          \
    LOOP(COS, T, T##_t, ccos##f(a))                                                                          \
    LOOP(TAN, T, T##_t, ctan##f(a))                                                                          \
    LOOP(ASIN, T, T##_t, casin##f(a))                                                                        \
    LOOP(ACOS, T, T##_t, cacos##f(a))                                                                        \
    LOOP(ATAN, T, T##_t, catan##f(a))                                                                        \
    LOOP(SINH, T, T##_t, csinh##f(a))                                                                        \
    LOOP(COSH, T, T##_t, ccosh##f(a))                                                                        \
    LOOP(TANH, T, T##_t, ctanh##f(a))                                                                        \
    LOOP(ASINH, T, T##_t, casinh##f(a))                                                                      \
    LOOP(ACOSH, T, T##_t, cacosh##f(a))                                                                      \
    LOOP(ATANH, T, T##_t, catanh##f(a))                                                                      \
    LOOP(SIGMOID, T, T##_t, div_##T##_t(1, 1 + cexp##f(-a)))                                                 \
    LOOP(SINC, T, T##_t,                                                                                     \
         a == 0 ? 1 : div_##T##_t(csin##f(mul_##T##_t(a, (T##_t)M_PI)), mul_##T##_t(a, (T##_t)M_PI)))

/* exp(x + iy) - 1 without cancellation: expm1(x) cos y - 2 sin^2(y/2) + i exp(x) sin y. */
#define EXPM1_COMPLEX(T, real, f)                                                                            \
    static inline T##_t expm1_##T(T##_t a)                                                                   \
    {                                                                                                        \
        real x = creal##f(a), y = cimag##f(a), s = sin##f(y / 2);                                            \
        return make_##T##_t(expm1##f(x) * cos##f(y) - 2 * s * s, exp##f(x) * sin##f(y));                     \
    }
EXPM1_COMPLEX(C64, float, f)
EXPM1_COMPLEX(C128, double, )
COMPLEX_LOOPS(C64, float, f)
COMPLEX_LOOPS(C128, double, )

/* ---- the table ------------------------------------------------------------------------------- */

#define FLOATS(id) [EWT_F32] = id##_F32, [EWT_F64] = id##_F64
#define INTS(id)                                                                                             \
    [EWT_I8] = id##_I8, [EWT_I16] = id##_I16, [EWT_I32] = id##_I32, [EWT_I64] = id##_I64, [EWT_U8] = id##_U8
#define TRUTH(id) [EWT_BOOL] = id##_BOOL
#define COMPLEXES(id) [EWT_C64] = id##_C64, [EWT_C128] = id##_C128
#define BOTH(id) [EWU_##id] = {FLOATS(id), COMPLEXES(id)}
#define WHOLE(id) [EWU_##id] = {FLOATS(id), INTS(COPY)}

const struct unary_kernels
    KV(unary_kernels) =
        {
            .loop =
                {
                    BOTH(EXP),
                    BOTH(EXP2),
                    BOTH(EXPM1),
                    BOTH(LOG),
                    BOTH(LOG2),
                    BOTH(LOG10),
                    BOTH(LOG1P),
                    BOTH(SIN),
                    BOTH(COS),
                    BOTH(TAN),
                    BOTH(ASIN),
                    BOTH(ACOS),
                    BOTH(ATAN),
                    BOTH(SINH),
                    BOTH(COSH),
                    BOTH(TANH),
                    BOTH(ASINH),
                    BOTH(ACOSH),
                    BOTH(ATANH),
                    BOTH(SQRT),
                    BOTH(RSQRT),
                    BOTH(RECIPROCAL),
                    BOTH(INVSQUARE),
                    [EWU_SQUARE] = {FLOATS(SQUARE), INTS(SQUARE), COMPLEXES(SQUARE)},
                    [EWU_CUBE] = {FLOATS(CUBE), INTS(CUBE), COMPLEXES(CUBE)},
                    BOTH(SIGMOID),
                    BOTH(SINC),
                    BOTH(ANGLE),
                    WHOLE(CEIL),
                    WHOLE(FLOOR),
                    WHOLE(ROUND),
                    WHOLE(TRUNC),
                    [EWU_ERF] = {FLOATS(ERF)},
                    [EWU_ERFC] = {FLOATS(ERFC)},
                    [EWU_LOGIT] = {FLOATS(LOGIT)},
                    [EWU_NANNUM] = {FLOATS(NANNUM), INTS(COPY), TRUTH(COPY)},
                    [EWU_ROUNDD] = {FLOATS(ROUNDD), INTS(ROUNDD)},
                    [EWU_ABS] = {FLOATS(ABS), INTS(ABS), TRUTH(ABS), COMPLEXES(ABS)},
                    [EWU_NEG] = {FLOATS(NEG), INTS(NEG), COMPLEXES(NEG)},
                    [EWU_SIGN] = {FLOATS(SIGN), INTS(SIGN), TRUTH(SIGN)},
                    [EWU_NOT] = {INTS(NOT), TRUTH(NOT)},
                    [EWU_LNOT] = {FLOATS(LNOT), INTS(LNOT), TRUTH(LNOT), COMPLEXES(LNOT)},
                    [EWU_ISFINITE] = {FLOATS(ISFINITE), COMPLEXES(ISFINITE)},
#define FLOAT_OP(id, result, expression) [EWU_##id] = {FLOATS(id)},
#include "softnpu/kernel/float_ops.inc"
                    [EWU_SIGNBIT] = {FLOATS(SIGNBIT), INTS(SIGNBIT), TRUTH(SIGNBIT)},
                },
};
