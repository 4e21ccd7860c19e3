/* listmath.c - the functions of the foreach operators. */
#include "softnpu/kernel/listmath.h"
#include "softnpu/kernel/vmath.h"

#include <math.h>

/* The smaller or larger of two; NaN if either is. */
#define LISTMATH_PICK(a, relation, b) ((a)relation(b) ? (a) : (b)relation(a) || (a) == (b) ? (b) : (a) + (b))

/* One block function: the inputs that the expression does not name are the operator's own business, so p[2]
 * and p[3] may repeat p[1]. */
#define BLOCK(suffix, type, wide, scalar, id, expression)                                                    \
    static void id##_##suffix(int64_t n, void *const *p, int64_t index, const void *ctx)                     \
    {                                                                                                        \
        type *out = p[0];                                                                                    \
        const type *pa = p[1], *pb = p[2], *pc = p[3];                                                       \
        const wide s = (wide)((const struct listmath *)ctx)->scalar;                                         \
        (void)index, (void)s, (void)pb, (void)pc;                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            wide a = (wide)pa[i], b = (wide)pb[i], c = (wide)pc[i];                                          \
            (void)b, (void)c;                                                                                \
            out[i] = (type)(expression);                                                                     \
        }                                                                                                    \
    }
#define BLOCK_F32(id, expression) BLOCK(f32, float, float, s, id, expression)
#define BLOCK_F64(id, expression) BLOCK(f64, double, double, s, id, expression)
/* In 128 bits, where products of three integers of 32 bits do not overflow. */
#define BLOCK_I64(id, expression) BLOCK(i64, int64_t, __int128, is, id, expression)

#define LISTMATH_TYPE float
#define LISTMATH_HALF 0.5f
LISTMATH_COMMON(BLOCK_F32)
LISTMATH_SIGNED(BLOCK_F32)
LISTMATH_FLOAT(BLOCK_F32)
#undef LISTMATH_TYPE
#undef LISTMATH_HALF
#define LISTMATH_TYPE double
#define LISTMATH_HALF 0.5
LISTMATH_COMMON(BLOCK_F64)
LISTMATH_SIGNED(BLOCK_F64)
LISTMATH_FLOAT(BLOCK_F64)
#undef LISTMATH_TYPE
#define LISTMATH_TYPE int64_t
LISTMATH_COMMON(BLOCK_I64)
LISTMATH_SIGNED(BLOCK_I64)

/* The odd one of the two nearest integers when x lies half way, else the nearest. */
static double round_odd(double x)
{
    double near = rint(x);
    if (fabs(x - trunc(x)) != 0.5) return near;
    return near > x ? near - 1 : near + 1;
}
static double fraction(double x)
{
    return x - trunc(x);
}
#define BLOCK_ROUND(id, fn)                                                                                  \
    BLOCK(f32, float, float, s, id, fn((double)a)) BLOCK(f64, double, double, s, id, fn(a))
LISTMATH_ROUND(BLOCK_ROUND)

#define BLOCK_VECTOR(id)                                                                                     \
    static void id##_f32(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index, (void)ctx;                                                                              \
        vmath_f32(VM_##id, n, p[1], p[0]);                                                                   \
    }                                                                                                        \
    static void id##_f64(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index, (void)ctx;                                                                              \
        vmath_f64(VM_##id, n, p[1], p[0]);                                                                   \
    }
LISTMATH_VECTOR(BLOCK_VECTOR)

BLOCK(f32, float, float, s, SQRT, sqrtf(a))
BLOCK(f64, double, double, s, SQRT, sqrt(a))

static void SIGMOID_f32(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    vmath_sigmoid_f32(n, p[1], p[0]);
}
static void SIGMOID_f64(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    vmath_sigmoid_f64(n, p[1], p[0]);
}

static void POW_LIST_f32(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    vmath2_f32(VM_POW, n, p[1], p[2], p[0]);
}
static void POW_LIST_f64(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    vmath2_f64(VM_POW, n, p[1], p[2], p[0]);
}

/* Integer powers wrap around; a negative exponent gives the whole part of the fraction. */
static int64_t whole_power(int64_t a, int64_t b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, square = (uint64_t)a;
    for (; b; b >>= 1, square *= square)
        if (b & 1) result *= square;
    return (int64_t)result;
}
BLOCK(i64, int64_t, int64_t, is, POW_LIST, whole_power(a, b))
BLOCK(i64, int64_t, int64_t, is, POW_SCALAR, whole_power(a, s))
BLOCK(i64, int64_t, int64_t, is, SCALAR_POW, whole_power(s, a))

/* Squares and cubes are exact where a general power would round twice. */
#define POW_SCALAR_BLOCK(suffix, type, power)                                                                \
    static void POW_SCALAR_##suffix(int64_t n, void *const *p, int64_t index, const void *ctx)               \
    {                                                                                                        \
        type *out = p[0];                                                                                    \
        const type *a = p[1], s = (type)((const struct listmath *)ctx)->s;                                   \
        (void)index;                                                                                         \
        if (s == 2)                                                                                          \
            for (int64_t i = 0; i < n; i++) out[i] = a[i] * a[i];                                            \
        else if (s == 3)                                                                                     \
            for (int64_t i = 0; i < n; i++) out[i] = a[i] * a[i] * a[i];                                     \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++) out[i] = power(a[i], s);                                         \
    }                                                                                                        \
    static void SCALAR_POW_##suffix(int64_t n, void *const *p, int64_t index, const void *ctx)               \
    {                                                                                                        \
        type *out = p[0];                                                                                    \
        const type *a = p[1], s = (type)((const struct listmath *)ctx)->s;                                   \
        (void)index;                                                                                         \
        for (int64_t i = 0; i < n; i++) out[i] = power(s, a[i]);                                             \
    }
POW_SCALAR_BLOCK(f32, float, powf)
POW_SCALAR_BLOCK(f64, double, pow)

#define ENTRY_F32(id, ...) [LM_##id] = id##_f32,
#define ENTRY_F64(id, ...) [LM_##id] = id##_f64,
#define ENTRY_I64(id, ...) [LM_##id] = id##_i64,
#define ALL_FLOAT(X)                                                                                         \
    LISTMATH_COMMON(X)                                                                                       \
    LISTMATH_SIGNED(X)                                                                                       \
    LISTMATH_FLOAT(X)                                                                                        \
    LISTMATH_ROUND(X) LISTMATH_VECTOR(X) X(SQRT) X(SIGMOID) X(POW_LIST) X(POW_SCALAR) X(SCALAR_POW)

const struct listmath_kernels KV(listmath_kernels) = {
    .f32 = {ALL_FLOAT(ENTRY_F32)},
    .f64 = {ALL_FLOAT(ENTRY_F64)},
    .i64 = {LISTMATH_COMMON(ENTRY_I64) LISTMATH_SIGNED(ENTRY_I64) ENTRY_I64(POW_LIST) ENTRY_I64(POW_SCALAR)
                ENTRY_I64(SCALAR_POW)},
};
