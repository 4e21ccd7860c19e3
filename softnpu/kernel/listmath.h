/* listmath.h - the functions of the foreach operators, one block at a time.
 *
 * p[0] is the output, then the inputs; ctx is a struct listmath. Types: f32 (16-bit floats are converted),
 * f64, and i64 for all integers. */
#ifndef SOFTNPU_KERNEL_LISTMATH_H
#define SOFTNPU_KERNEL_LISTMATH_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

struct listmath {
    double s;   /* the operator's scalar */
    int64_t is; /* the same for integers */
};

/* Enumerator, expression over the inputs a, b, c and the scalar s. */
/* clang-format off */
#define LISTMATH_COMMON(X)                                                                                   \
    X(ADD_SCALAR, a + s) X(SUB_SCALAR, a - s) X(MUL_SCALAR, a * s) X(MAX_SCALAR, LISTMATH_PICK(a, >, s))     \
    X(MIN_SCALAR, LISTMATH_PICK(a, <, s)) X(ADD_LIST, a + b * s) X(SUB_LIST, a - b * s) X(MUL_LIST, a * b)   \
    X(MAX_LIST, LISTMATH_PICK(a, >, b)) X(MIN_LIST, LISTMATH_PICK(a, <, b)) X(ADDCMUL, a + s * b * c)        \
    X(NEG, -a)
#define LISTMATH_SIGNED(X) /* not for the unsigned arithmetic that integers are computed in */               \
    X(SIGN, (LISTMATH_TYPE)((a > 0) - (a < 0))) X(ABS, a < 0 ? -a : a)
#define LISTMATH_FLOAT(X)                                                                                    \
    X(DIV_SCALAR, a / s) X(DIV_LIST, a / b) X(ADDCDIV, a + s * b / c)                                        \
    X(LERP_SCALAR, s < LISTMATH_HALF ? a + s * (b - a) : b - (b - a) * (1 - s))                              \
    X(LERP_LIST, c < LISTMATH_HALF ? a + c * (b - a) : b - (b - a) * (1 - c)) X(RECIPROCAL, 1 / a)
/* Rounding modes by the number that aclnnForeachRoundOffNumber gives them, from 1 on. */
#define LISTMATH_ROUND(X)                                                                                    \
    X(ROUND_EVEN, rint) X(ROUND_DOWN, floor) X(ROUND_UP, ceil) X(ROUND_AWAY, round) X(ROUND_ZERO, trunc)     \
    X(ROUND_ODD, round_odd) X(ROUND_FRACTION, fraction)
#define LISTMATH_VECTOR(X) /* functions of vmath.h */                                                        \
    X(EXP) X(EXPM1) X(LOG) X(LOG2) X(LOG10) X(LOG1P) X(SIN) X(COS) X(TAN) X(ASIN) X(ACOS) X(ATAN) X(SINH)    \
    X(COSH) X(TANH) X(ERF) X(ERFC)
/* clang-format on */

#define LISTMATH_ENUM(id, ...) LM_##id,
enum listmath_op {
    LISTMATH_COMMON(LISTMATH_ENUM) LISTMATH_SIGNED(LISTMATH_ENUM) LISTMATH_FLOAT(LISTMATH_ENUM)
        LISTMATH_ROUND(LISTMATH_ENUM) LISTMATH_VECTOR(LISTMATH_ENUM) LM_SQRT,
    LM_SIGMOID,
    LM_POW_LIST,
    LM_POW_SCALAR,
    LM_SCALAR_POW,
    LM_COUNT
};

typedef void (*listmath_fn)(int64_t n, void *const *p, int64_t index, const void *ctx);
struct listmath_kernels {
    listmath_fn f32[LM_COUNT], f64[LM_COUNT];
    listmath_fn i64[LM_COUNT]; /* NULL: integers have no such function of their own */
};
KERNEL_PICK(listmath_kernels)

#endif
