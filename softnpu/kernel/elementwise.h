/* elementwise.h - loops of the elementwise operators, one a computing type: what the block engine calls.
 *
 * A loop computes n elements: p[0] the output, p[1].. the inputs, all of the loop's type unless said
 * otherwise. The output may be one of the inputs (the same elements). ctx: see the lists. A NULL in a table:
 * the operation does not exist for the type. */
#ifndef SOFTNPU_KERNEL_ELEMENTWISE_H
#define SOFTNPU_KERNEL_ELEMENTWISE_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stdint.h>

#define EWT_LIST(X) X(F32) X(F64) X(I8) X(I16) X(I32) X(I64) X(U8) X(BOOL) X(C64) X(C128)
#define EWT_ENUM(t) EWT_##t,
enum ew_type { EWT_LIST(EWT_ENUM) EWT_COUNT };

typedef void (*ew_loop)(int64_t n, void *const *p, int64_t index, const void *ctx);

/* The lists keep their own lines. */
/* clang-format off */

/* ---- two inputs ------------------------------------------------------------------------------ */

/* Results of the inputs' type. ADDA, SUBA, RSUBA: ctx is alpha, of that type. */
#define EW_BINARY_SAME(X)                                                                                    \
    X(ADD)                                                                                                   \
    X(SUB)                                                                                                   \
    X(MUL)                                                                                                   \
    X(DIV)                                                                                                   \
    X(ADDA)                                                                                                  \
    X(SUBA)                                                                                                  \
    X(RSUBA)                                                                                                 \
    X(POW)                                                                                                   \
    X(FLOORDIV)                                                                                              \
    X(TRUNCDIV)                                                                                              \
    X(REM)                                                                                                   \
    X(FMOD)                                                                                                  \
    X(MAX) X(MIN) X(ATAN2) X(GCD) X(AND) X(OR) X(XOR) X(SHL) X(SHR) X(LOGADDEXP) X(LOGADDEXP2) X(XLOGY)
/* Results are BOOL. ISCLOSE: ctx is a struct ew_isclose. */
#define EW_BINARY_BOOL(X) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(LAND) X(LOR) X(LXOR) X(ISCLOSE)
#define EW_BINARY_ENUM(id) EWB_##id,
enum ew_binary { EW_BINARY_SAME(EW_BINARY_ENUM) EW_BINARY_BOOL(EW_BINARY_ENUM) EWB_COUNT };

struct ew_isclose {
    double rtol, atol;
    bool equal_nan;
};
struct binary_kernels {
    ew_loop loop[EWB_COUNT][EWT_COUNT];
};
KERNEL_PICK(binary_kernels)

/* ---- one input ------------------------------------------------------------------------------- */

/* Functions of vmath.h: the loop's name is the function's. */
#define EW_UNARY_VMATH(X)                                                                                    \
    X(EXP)                                                                                                   \
    X(EXP2)                                                                                                  \
    X(EXPM1)                                                                                                 \
    X(LOG)                                                                                                   \
    X(LOG2)                                                                                                  \
    X(LOG10)                                                                                                 \
    X(LOG1P)                                                                                                 \
    X(SIN)                                                                                                   \
    X(COS) X(TAN) X(ASIN) X(ACOS) X(ATAN) X(SINH) X(COSH) X(TANH) X(ASINH) X(ACOSH) X(ATANH) X(ERF) X(ERFC)
/* Results of the input's type, except that ABS and ANGLE of a complex number are its real type.
 * ROUNDD (round to decimals): ctx is the int64_t number of decimals. LOGIT: ctx is the double eps, negative
 * for none. NANNUM: ctx is double[3], what replaces NaN, +inf and -inf. */
#define EW_UNARY_SAME(X)                                                                                     \
    X(ABS)                                                                                                   \
    X(NEG)                                                                                                   \
    X(SIGN)                                                                                                  \
    X(CEIL)                                                                                                  \
    X(FLOOR)                                                                                                 \
    X(ROUND)                                                                                                 \
    X(TRUNC)                                                                                                 \
    X(RECIPROCAL)                                                                                            \
    X(SQRT)                                                                                                  \
    X(RSQRT)                                                                                                 \
    X(NOT) X(SQUARE) X(CUBE) X(INVSQUARE) X(SIGMOID) X(SINC) X(ANGLE) X(ROUNDD) X(LOGIT) X(NANNUM)
/* Results are BOOL. */
#define EW_UNARY_BOOL(X) X(LNOT) X(ISFINITE) X(SIGNBIT)
#define EW_UNARY_ENUM(id) EWU_##id,
enum ew_unary {
    EW_UNARY_VMATH(EW_UNARY_ENUM) EW_UNARY_SAME(EW_UNARY_ENUM) EW_UNARY_BOOL(EW_UNARY_ENUM)
#define FLOAT_OP(id, result, expression) EWU_##id,
#include "softnpu/kernel/float_ops.inc"
#undef FLOAT_OP
    EWU_COUNT
};
struct unary_kernels {
    ew_loop loop[EWU_COUNT][EWT_COUNT];
};
KERNEL_PICK(unary_kernels)

/* ---- three inputs ---------------------------------------------------------------------------- */

/* LERP: start, end, weight. ADDCMUL, ADDCDIV: self, tensor1, tensor2; ctx is the value, of the loop's type.
 * CLAMP: self, min, max. */
#define EW_TERNARY(X) X(LERP) X(ADDCMUL) X(ADDCDIV) X(CLAMP)
#define EW_TERNARY_ENUM(id) EWTN_##id,
enum ew_ternary { EW_TERNARY(EW_TERNARY_ENUM) EWTN_COUNT };
struct ternary_kernels {
    ew_loop loop[EWTN_COUNT][EWT_COUNT];
    /* out = condition (bool) ? a : b, by the logarithm of the element's size */
    ew_loop select[5];
};
KERNEL_PICK(ternary_kernels)

/* ---- activations ----------------------------------------------------------------------------- */

/* ctx: const double[], the call's parameters in the order of the operator's arguments.
 * One input. ELU: alpha, scale, input scale; CELU: alpha; SOFTPLUS: beta, threshold; THRESHOLD: threshold,
 * value. */
#define EW_ACTIVATION1(X)                                                                                    \
    X(RELU)                                                                                                  \
    X(GELU)                                                                                                  \
    X(GELUTANH)                                                                                              \
    X(FASTGELU)                                                                                              \
    X(SILU)                                                                                                  \
    X(ELU)                                                                                                   \
    X(CELU)                                                                                                  \
    X(LEAKYRELU)                                                                                             \
    X(SOFTPLUS)                                                                                              \
    X(HARDSWISH) X(HARDSIGMOID) X(HARDTANH) X(HARDSHRINK) X(SOFTSHRINK) X(THRESHOLD) X(MISH) X(LOGSIGMOID)
/* Gradient, then the forward's input (the output for SIGMOIDB, TANHB, and where the parameter is_result says
 * so). HARDSWISHB1 is the one whose ends -3 and 3 belong to the middle. */
#define EW_ACTIVATION2(X)                                                                                    \
    X(GELUB)                                                                                                 \
    X(GELUTANHB)                                                                                             \
    X(FASTGELUB)                                                                                             \
    X(SILUB)                                                                                                 \
    X(ELUB)                                                                                                  \
    X(LEAKYRELUB)                                                                                            \
    X(SOFTPLUSB)                                                                                             \
    X(HARDSWISHB)                                                                                            \
    X(HARDSWISHB1)                                                                                           \
    X(HARDSIGMOIDB)                                                                                          \
    X(HARDTANHB) X(SHRINKB) X(THRESHOLDB) X(MISHB) X(LOGSIGMOIDB) X(SIGMOIDB) X(TANHB) X(LOGITB) X(PRELU)    \
        X(ADDRELU) X(GLU) X(SWIGLU) X(GEGLU) X(GEGLUTANH)
#define EW_ACTIVATION_ENUM(id) EWA_##id,
enum ew_activation { EW_ACTIVATION1(EW_ACTIVATION_ENUM) EW_ACTIVATION2(EW_ACTIVATION_ENUM) EWA_COUNT };
struct activation_kernels {
    ew_loop loop[EWA_COUNT][EWT_COUNT];
};
KERNEL_PICK(activation_kernels)

/* clang-format on */

/* GCC and clang both distrust an output that may be an input; element by element it may. */
#if defined(__clang__)
#define EW_EACH _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < n; i++)
#else
#define EW_EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif

#endif
