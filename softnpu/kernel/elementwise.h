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

/* ---- two inputs
 * ------------------------------------------------------------------------------------------------- */

/* Results of the inputs' type. ADDA, SUBA, RSUBA: ctx is alpha, of that type. */
#define EW_BINARY_SAME(X)                                                                                    \
    X(ADD)                                                                                                   \
    X(SUB) X(MUL) X(DIV) X(ADDA) X(SUBA) X(RSUBA) X(POW) X(FLOORDIV) X(TRUNCDIV) X(REM) X(FMOD) X(MAX)       \
        X(MIN) X(ATAN2) X(GCD) X(AND) X(OR) X(XOR) X(SHL) X(SHR) X(LOGADDEXP) X(LOGADDEXP2) X(XLOGY)
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

/* GCC and clang both distrust an output that may be an input; element by element it may. */
#if defined(__clang__)
#define EW_EACH _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < n; i++)
#else
#define EW_EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif

#endif
