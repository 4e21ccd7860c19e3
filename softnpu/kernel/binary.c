/* binary.c - elementwise loops with two inputs. */
#include "softnpu/kernel/elementwise.h"
#include "softnpu/kernel/ewtypes.h"
#include "softnpu/kernel/vmath.h"

#include <string.h>

/* Elements of a block at most; the engine's EW_BLOCK. */
enum { BLOCK = 1024 };

/* A loop over `expression` of a and b (and alpha where it is used). TO: the result's type. */
#define LOOP(id, T, TO, expression)                                                                          \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        TO *out = p[0];                                                                                      \
        const T##_t *x = p[1], *y = p[2];                                                                    \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t a = x[i], b = y[i];                                                                        \
            out[i] = (TO)(expression);                                                                       \
        }                                                                                                    \
    }
#define LOOP_ALPHA(id, T, expression)                                                                        \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index;                                                                                         \
        T##_t *out = p[0];                                                                                   \
        const T##_t *x = p[1], *y = p[2];                                                                    \
        const T##_t alpha = *(const T##_t *)ctx;                                                             \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t a = x[i], b = y[i];                                                                        \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }

/* ---- arithmetic ------------------------------------------------------------------------------ */

#define ARITHMETIC_FLOAT(T)                                                                                  \
    LOOP(ADD, T, T##_t, a + b)                                                                               \
    LOOP(SUB, T, T##_t, a - b)                                                                               \
    LOOP(MUL, T, T##_t, a *b)                                                                                \
    LOOP(DIV, T, T##_t, a / b)                                                                               \
    LOOP(MAX, T, T##_t, a != a ? a : b != b ? b : a > b ? a : b)                                             \
    LOOP(MIN, T, T##_t, a != a ? a : b != b ? b : a < b ? a : b)                                             \
    LOOP_ALPHA(ADDA, T, a + alpha * b)                                                                       \
    LOOP_ALPHA(SUBA, T, a - alpha * b)                                                                       \
    LOOP_ALPHA(RSUBA, T, b - alpha * a)
ARITHMETIC_FLOAT(F32)
ARITHMETIC_FLOAT(F64)

#define ARITHMETIC_INT(T)                                                                                    \
    LOOP(ADD, T, T##_t, (T##_u)a + (T##_u)b)                                                                 \
    LOOP(SUB, T, T##_t, (T##_u)a - (T##_u)b)                                                                 \
    LOOP(MUL, T, T##_t, (T##_u)a *(T##_u)b)                                                                  \
    LOOP(MAX, T, T##_t, a > b ? a : b)                                                                       \
    LOOP(MIN, T, T##_t, a < b ? a : b)                                                                       \
    LOOP(AND, T, T##_t, a &b)                                                                                \
    LOOP(OR, T, T##_t, a | b)                                                                                \
    LOOP(XOR, T, T##_t, a ^ b)                                                                               \
    LOOP_ALPHA(ADDA, T, (T##_u)a + (T##_u)alpha * (T##_u)b)                                                  \
    LOOP_ALPHA(SUBA, T, (T##_u)a - (T##_u)alpha * (T##_u)b)                                                  \
    LOOP_ALPHA(RSUBA, T, (T##_u)b - (T##_u)alpha * (T##_u)a)
ARITHMETIC_INT(I8)
ARITHMETIC_INT(I16)
ARITHMETIC_INT(I32)
ARITHMETIC_INT(I64)
ARITHMETIC_INT(U8)

/* Addition of truth values is "or", multiplication "and". */
LOOP(ADD, BOOL, uint8_t, a | b)
LOOP(SUB, BOOL, uint8_t, a ^ b)
LOOP(MUL, BOOL, uint8_t, a &b)
LOOP(MAX, BOOL, uint8_t, a | b)
LOOP(MIN, BOOL, uint8_t, a &b)
LOOP(AND, BOOL, uint8_t, a &b)
LOOP(OR, BOOL, uint8_t, a | b)
LOOP(XOR, BOOL, uint8_t, a ^ b)
LOOP(POW, BOOL, uint8_t, a | !b)
LOOP_ALPHA(ADDA, BOOL, a | (alpha & b))
LOOP_ALPHA(SUBA, BOOL, a ^ (alpha & b))
LOOP_ALPHA(RSUBA, BOOL, b ^ (alpha & a))

#define ARITHMETIC_COMPLEX(T, power)                                                                         \
    LOOP(ADD, T, T##_t, a + b)                                                                               \
    LOOP(SUB, T, T##_t, a - b)                                                                               \
    LOOP(MUL, T, T##_t, mul_##T##_t(a, b))                                                                   \
    LOOP(DIV, T, T##_t, div_##T##_t(a, b))                                                                   \
    LOOP(POW, T, T##_t, power(a, b))                                                                         \
    LOOP_ALPHA(ADDA, T, a + mul_##T##_t(alpha, b))                                                           \
    LOOP_ALPHA(SUBA, T, a - mul_##T##_t(alpha, b))                                                           \
    LOOP_ALPHA(RSUBA, T, b - mul_##T##_t(alpha, a))

static inline C64_t power_c64(C64_t a, C64_t b)
{
    return b == 0 ? 1 : cpowf(a, b);
}
static inline C128_t power_c128(C128_t a, C128_t b)
{
    return b == 0 ? 1 : cpow(a, b);
}
ARITHMETIC_COMPLEX(C64, power_c64)
ARITHMETIC_COMPLEX(C128, power_c128)

/* ---- division with a remainder --------------------------------------------------------------- */

/* The remainder of a by b by way of double arithmetic, exact while the quotient is below 2^28 (the product of
 * a 24-bit and a 28-bit number fits a double). *limit receives the largest quotient seen, so that a block may
 * be redone the slow way. */
static inline float modulo_by_quotient(float a, float b, double *limit)
{
    double q = trunc((double)a / (double)b), size = fabs(q);
    *limit = size <= *limit ? *limit : size;                   /* NaN comes through */
    double m = q == 0 ? (double)a : (double)a - q * (double)b; /* an infinite b leaves a as it is */
    return copysignf((float)m, a);
}

#define DIVISION_FLOAT(T, modulo, floor_, trunc_, copysign_)                                                 \
    static inline T##_t rem_##T(T##_t m, T##_t b)                                                            \
    {                                                                                                        \
        return m != 0 && (b < 0) != (m < 0) ? m + b : m;                                                     \
    }                                                                                                        \
    static inline T##_t floordiv_##T(T##_t a, T##_t b, T##_t m)                                              \
    {                                                                                                        \
        T##_t d = (a - m) / b;                                                                               \
        d = m != 0 && (b < 0) != (m < 0) ? d - 1 : d;                                                        \
        T##_t whole = floor_(d);                                                                             \
        whole = d - whole > (T##_t)0.5 ? whole + 1 : whole;                                                  \
        return b == 0 ? a / b : d == 0 ? copysign_(0, a / b) : whole;                                        \
    }                                                                                                        \
    LOOP(TRUNCDIV, T, T##_t, trunc_(a / b))
DIVISION_FLOAT(F32, fmodf, floorf, truncf, copysignf)
DIVISION_FLOAT(F64, fmod, floor, trunc, copysign)

/* f64: the C library's remainder, which is exact. */
LOOP(REM, F64, double, rem_F64(fmod(a, b), b))
LOOP(FMOD, F64, double, fmod(a, b))
LOOP(FLOORDIV, F64, double, floordiv_F64(a, b, fmod(a, b)))

/* f32: a block by quotients, and again by the C library if a quotient was too large or not a number. */
#define REMAINDER_F32(id, expression)                                                                        \
    static void id##_F32(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        float *out = p[0], result[BLOCK];                                                                    \
        const float *x = p[1], *y = p[2];                                                                    \
        double limit = 0;                                                                                    \
        EW_EACH                                                                                              \
        {                                                                                                    \
            float a = x[i], b = y[i], m = modulo_by_quotient(a, b, &limit);                                  \
            (void)a;                                                                                         \
            result[i] = expression;                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; !(limit < 0x1p28) && i < n; i++) {                                               \
            float a = x[i], b = y[i], m = fmodf(a, b);                                                       \
            (void)a;                                                                                         \
            result[i] = expression;                                                                          \
        }                                                                                                    \
        memcpy(out, result, (size_t)n * sizeof *out);                                                        \
    }
REMAINDER_F32(REM, rem_F32(m, b))
REMAINDER_F32(FMOD, ((void)b, m))
REMAINDER_F32(FLOORDIV, floordiv_F32(a, b, m))

/* Asked of unsigned types too, where compilers warn of the plain comparison; all these types fit int64. */
static inline bool neg(int64_t x)
{
    return x < 0;
}
enum { SIGNED_I8 = 1, SIGNED_I16 = 1, SIGNED_I32 = 1, SIGNED_I64 = 1, SIGNED_U8 = 0 };

/* Division by zero gives all ones and the remainder is the dividend (CPU torch raises); the smallest value by
 * -1 wraps. */
#define DIVISION_INT(T)                                                                                      \
    static inline T##_t quotient_##T(T##_t a, T##_t b)                                                       \
    {                                                                                                        \
        if (b == 0) return (T##_t) - 1;                                                                      \
        return (T##_t)(b == (T##_t) - 1 && SIGNED_##T ? 0 - (T##_u)a : (T##_u)(a / b));                      \
    }                                                                                                        \
    static inline T##_t modulo_##T(T##_t a, T##_t b)                                                         \
    {                                                                                                        \
        if (b == 0) return a;                                                                                \
        return (T##_t)(b == (T##_t) - 1 && SIGNED_##T ? 0 : a % b);                                          \
    }                                                                                                        \
    static inline T##_t rem_##T(T##_t a, T##_t b)                                                            \
    {                                                                                                        \
        T##_t m = modulo_##T(a, b);                                                                          \
        return b != 0 && m != 0 && neg(m) != neg(b) ? (T##_t)(m + b) : m;                                    \
    }                                                                                                        \
    static inline T##_t floordiv_##T(T##_t a, T##_t b)                                                       \
    {                                                                                                        \
        T##_t q = quotient_##T(a, b);                                                                        \
        return b != 0 && neg(a) != neg(b) && modulo_##T(a, b) != 0 ? (T##_t)(q - 1) : q;                     \
    }                                                                                                        \
    LOOP(REM, T, T##_t, rem_##T(a, b))                                                                       \
    LOOP(FMOD, T, T##_t, modulo_##T(a, b))                                                                   \
    LOOP(FLOORDIV, T, T##_t, floordiv_##T(a, b))                                                             \
    LOOP(TRUNCDIV, T, T##_t, quotient_##T(a, b))
DIVISION_INT(I8)
DIVISION_INT(I16)
DIVISION_INT(I32)
DIVISION_INT(I64)
DIVISION_INT(U8)

/* ---- powers, common divisors, shifts --------------------------------------------------------- */

/* A negative exponent leaves something of 1 and -1 only, as in torch. */
#define INTEGER_FUNCTIONS(T, bits, top)                                                                      \
    static inline T##_t power_##T(T##_t a, T##_t b)                                                          \
    {                                                                                                        \
        if (neg(b)) return a == 1 ? 1 : a == (T##_t) - 1 ? (T##_t)(b & 1 ? -1 : 1) : 0;                      \
        T##_u r = 1, square = (T##_u)a;                                                                      \
        for (uint64_t e = (uint64_t)b; e; e >>= 1, square *= square)                                         \
            if (e & 1) r *= square;                                                                          \
        return (T##_t)r;                                                                                     \
    }                                                                                                        \
    static inline T##_t gcd_##T(T##_t a, T##_t b)                                                            \
    {                                                                                                        \
        T##_u x = neg(a) ? 0 - (T##_u)a : (T##_u)a, y = neg(b) ? 0 - (T##_u)b : (T##_u)b;                    \
        while (y) {                                                                                          \
            T##_u r = x % y;                                                                                 \
            x = y;                                                                                           \
            y = r;                                                                                           \
        }                                                                                                    \
        return (T##_t)x;                                                                                     \
    }                                                                                                        \
    LOOP(POW, T, T##_t, power_##T(a, b))                                                                     \
    LOOP(GCD, T, T##_t, gcd_##T(a, b))                                                                       \
    LOOP(SHL, T, T##_t, neg(b) || b >= bits ? 0 : (T##_u)a << b)                                             \
    LOOP(SHR, T, T##_t, neg(b) || b >= top ? a >> top : a >> b)
INTEGER_FUNCTIONS(I8, 8, 7)
INTEGER_FUNCTIONS(I16, 16, 15)
INTEGER_FUNCTIONS(I32, 32, 31)
INTEGER_FUNCTIONS(I64, 64, 63)
INTEGER_FUNCTIONS(U8, 8, 8)

/* Functions of the vector library: whole blocks at a time. */
#define VECTOR_FUNCTIONS(T, f, infinite)                                                                     \
    static void POW_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                           \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        vmath2_##f(VM_POW, n, p[1], p[2], p[0]);                                                             \
    }                                                                                                        \
    static void ATAN2_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                         \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        vmath2_##f(VM_ATAN2, n, p[1], p[2], p[0]);                                                           \
    }                                                                                                        \
    static void XLOGY_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                         \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        T##_t logs[BLOCK], *out = p[0];                                                                      \
        const T##_t *x = p[1], *y = p[2];                                                                    \
        vmath_##f(VM_LOG, n, y, logs);                                                                       \
        EW_EACH out[i] = y[i] != y[i] ? y[i] : x[i] == 0 ? 0 : x[i] * logs[i];                               \
    }                                                                                                        \
    /* log(base^a + base^b), from the larger one up; equal infinities stay what they are */                  \
    static void log_sum_##T(int64_t n, void *const *p, enum vmath1 power, T##_t scale)                       \
    {                                                                                                        \
        T##_t more[BLOCK], *out = p[0];                                                                      \
        const T##_t *x = p[1], *y = p[2];                                                                    \
        if (n <= 0) return;                                                                                  \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t d = x[i] - y[i];                                                                           \
            more[i] = d > 0 ? -d : d;                                                                        \
        }                                                                                                    \
        vmath_##f(power, n, more, more);                                                                     \
        vmath_##f(VM_LOG1P, n, more, more);                                                                  \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t a = x[i], b = y[i], top = a > b ? a : b;                                                   \
            out[i] = infinite(a) && a == b ? a : top != top ? top : top + more[i] * scale;                   \
        }                                                                                                    \
    }                                                                                                        \
    static void LOGADDEXP_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                     \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        log_sum_##T(n, p, VM_EXP, 1);                                                                        \
    }                                                                                                        \
    static void LOGADDEXP2_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                    \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        log_sum_##T(n, p, VM_EXP2, (T##_t)1.44269504088896340736);                                           \
    }
VECTOR_FUNCTIONS(F32, f32, __builtin_isinf)
VECTOR_FUNCTIONS(F64, f64, __builtin_isinf)

/* ---- comparison and logic -------------------------------------------------------------------- */

#define EQUALITY(T)                                                                                          \
    LOOP(EQ, T, uint8_t, a == b)                                                                             \
    LOOP(NE, T, uint8_t, a != b)                                                                             \
    LOOP(LAND, T, uint8_t, (a != 0) & (b != 0))                                                              \
    LOOP(LOR, T, uint8_t, (a != 0) | (b != 0))                                                               \
    LOOP(LXOR, T, uint8_t, (a != 0) ^ (b != 0))
EWT_LIST(EQUALITY)

#define ORDER(T)                                                                                             \
    LOOP(LT, T, uint8_t, a < b)                                                                              \
    LOOP(LE, T, uint8_t, a <= b)                                                                             \
    LOOP(GT, T, uint8_t, a > b)                                                                              \
    LOOP(GE, T, uint8_t, a >= b)
ORDER(F32)
ORDER(F64)
ORDER(I8)
ORDER(I16)
ORDER(I32)
ORDER(I64)
ORDER(U8)
ORDER(BOOL)

#define CLOSENESS(T, absolute)                                                                               \
    static void ISCLOSE_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                       \
    {                                                                                                        \
        (void)index;                                                                                         \
        const struct ew_isclose *how = ctx;                                                                  \
        const T##_t rtol = (T##_t)how->rtol, atol = (T##_t)how->atol;                                        \
        uint8_t *out = p[0];                                                                                 \
        const T##_t *x = p[1], *y = p[2];                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T##_t a = x[i], b = y[i], difference = absolute(a - b);                                          \
            bool near = difference <= atol + absolute(rtol * b) && difference < (T##_t)INFINITY;             \
            out[i] = a == b || near || (how->equal_nan && a != a && b != b);                                 \
        }                                                                                                    \
    }
CLOSENESS(F32, fabsf)
CLOSENESS(F64, fabs)

/* ---- the table ------------------------------------------------------------------------------- */

#define FLOATS(id) [EWT_F32] = id##_F32, [EWT_F64] = id##_F64
#define INTS(id)                                                                                             \
    [EWT_I8] = id##_I8, [EWT_I16] = id##_I16, [EWT_I32] = id##_I32, [EWT_I64] = id##_I64, [EWT_U8] = id##_U8
#define TRUTH(id) [EWT_BOOL] = id##_BOOL
#define COMPLEXES(id) [EWT_C64] = id##_C64, [EWT_C128] = id##_C128

const struct binary_kernels
    KV(binary_kernels) =
        {
            .loop =
                {
                    [EWB_ADD] = {FLOATS(ADD), INTS(ADD), TRUTH(ADD), COMPLEXES(ADD)},
                    [EWB_SUB] = {FLOATS(SUB), INTS(SUB), TRUTH(SUB), COMPLEXES(SUB)},
                    [EWB_MUL] = {FLOATS(MUL), INTS(MUL), TRUTH(MUL), COMPLEXES(MUL)},
                    [EWB_DIV] = {FLOATS(DIV), COMPLEXES(DIV)},
                    [EWB_ADDA] = {FLOATS(ADDA), INTS(ADDA), TRUTH(ADDA), COMPLEXES(ADDA)},
                    [EWB_SUBA] = {FLOATS(SUBA), INTS(SUBA), TRUTH(SUBA), COMPLEXES(SUBA)},
                    [EWB_RSUBA] = {FLOATS(RSUBA), INTS(RSUBA), TRUTH(RSUBA), COMPLEXES(RSUBA)},
                    [EWB_POW] = {FLOATS(POW), INTS(POW), TRUTH(POW), COMPLEXES(POW)},
                    [EWB_FLOORDIV] = {FLOATS(FLOORDIV), INTS(FLOORDIV)},
                    [EWB_TRUNCDIV] = {FLOATS(TRUNCDIV), INTS(TRUNCDIV)},
                    [EWB_REM] = {FLOATS(REM), INTS(REM)},
                    [EWB_FMOD] = {FLOATS(FMOD), INTS(FMOD)},
                    [EWB_MAX] = {FLOATS(MAX), INTS(MAX), TRUTH(MAX)},
                    [EWB_MIN] = {FLOATS(MIN), INTS(MIN), TRUTH(MIN)},
                    [EWB_ATAN2] = {FLOATS(ATAN2)},
                    [EWB_GCD] = {INTS(GCD)},
                    [EWB_AND] = {INTS(AND), TRUTH(AND)},
                    [EWB_OR] = {INTS(OR), TRUTH(OR)},
                    [EWB_XOR] = {INTS(XOR), TRUTH(XOR)},
                    [EWB_SHL] = {INTS(SHL)},
                    [EWB_SHR] = {INTS(SHR)},
                    [EWB_LOGADDEXP] = {FLOATS(LOGADDEXP)},
                    [EWB_LOGADDEXP2] = {FLOATS(LOGADDEXP2)},
                    [EWB_XLOGY] = {FLOATS(XLOGY)},
                    [EWB_EQ] = {FLOATS(EQ), INTS(EQ), TRUTH(EQ), COMPLEXES(EQ)},
                    [EWB_NE] = {FLOATS(NE), INTS(NE), TRUTH(NE), COMPLEXES(NE)},
                    [EWB_LT] = {FLOATS(LT), INTS(LT), TRUTH(LT)},
                    [EWB_LE] = {FLOATS(LE), INTS(LE), TRUTH(LE)},
                    [EWB_GT] = {FLOATS(GT), INTS(GT), TRUTH(GT)},
                    [EWB_GE] = {FLOATS(GE), INTS(GE), TRUTH(GE)},
                    [EWB_LAND] = {FLOATS(LAND), INTS(LAND), TRUTH(LAND), COMPLEXES(LAND)},
                    [EWB_LOR] = {FLOATS(LOR), INTS(LOR), TRUTH(LOR), COMPLEXES(LOR)},
                    [EWB_LXOR] = {FLOATS(LXOR), INTS(LXOR), TRUTH(LXOR), COMPLEXES(LXOR)},
                    [EWB_ISCLOSE] = {FLOATS(ISCLOSE)},
                },
};
