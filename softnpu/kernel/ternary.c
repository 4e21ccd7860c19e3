/* ternary.c - elementwise loops with three inputs. */
#include "softnpu/kernel/elementwise.h"
#include "softnpu/kernel/ewtypes.h"

#define LOOP(id, T, expression)                                                                              \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        T##_t *out = p[0];                                                                                   \
        const T##_t *x = p[1], *y = p[2], *z = p[3];                                                         \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t a = x[i], b = y[i], c = z[i];                                                              \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }
#define LOOP_VALUE(id, T, expression)                                                                        \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        (void)index;                                                                                         \
        T##_t *out = p[0];                                                                                   \
        const T##_t *x = p[1], *y = p[2], *z = p[3];                                                         \
        const T##_t value = *(const T##_t *)ctx;                                                             \
        EW_EACH                                                                                              \
        {                                                                                                    \
            T##_t a = x[i], b = y[i], c = z[i];                                                              \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }

/* lerp from the nearer end, so that weights 0 and 1 give start and end exactly. A NaN bound of clamp wins. */
#define FLOAT_LOOPS(T)                                                                                       \
    LOOP(LERP, T, c<(T##_t)0.5 && c>(T##_t) - 0.5 ? a + c * (b - a) : b - (b - a) * (1 - c))                 \
    LOOP(CLAMP, T, a != a ? a : b != b ? b : c != c ? c : (a < b ? b : a) > c ? c : a < b ? b : a)           \
    LOOP_VALUE(ADDCMUL, T, a + value * b * c)                                                                \
    LOOP_VALUE(ADDCDIV, T, a + value * b / c)
FLOAT_LOOPS(F32)
FLOAT_LOOPS(F64)

#define INTEGER_LOOPS(T)                                                                                     \
    LOOP(CLAMP, T, (a < b ? b : a) > c ? c : a < b ? b : a)                                                  \
    LOOP_VALUE(ADDCMUL, T, (T##_u)a + (T##_u)value * (T##_u)b * (T##_u)c)
INTEGER_LOOPS(I8)
INTEGER_LOOPS(I16)
INTEGER_LOOPS(I32)
INTEGER_LOOPS(I64)
INTEGER_LOOPS(U8)

#define COMPLEX_LOOPS(T)                                                                                     \
    LOOP(LERP, T, lerp_##T(a, b, c))                                                                         \
    LOOP_VALUE(ADDCMUL, T, a + mul_##T##_t(mul_##T##_t(value, b), c))                                        \
    LOOP_VALUE(ADDCDIV, T, a + div_##T##_t(mul_##T##_t(value, b), c))
#define COMPLEX_LERP(T)                                                                                      \
    static inline T##_t lerp_##T(T##_t a, T##_t b, T##_t w)                                                  \
    {                                                                                                        \
        if (abs_##T##_t(w) < (float)0.5) return a + mul_##T##_t(w, b - a);                                   \
        return b - mul_##T##_t(b - a, 1 - w);                                                                \
    }
COMPLEX_LERP(C64)
COMPLEX_LERP(C128)
COMPLEX_LOOPS(C64)
COMPLEX_LOOPS(C128)

typedef struct {
    uint64_t part[2];
} u128;
#define SELECT_LOOP(k, type)                                                                                 \
    static void select_##k(int64_t n, void *const *p, int64_t index, const void *ctx)                        \
    {                                                                                                        \
        (void)index;                                                                                         \
        (void)ctx;                                                                                           \
        type *out = p[0];                                                                                    \
        const uint8_t *condition = p[1];                                                                     \
        const type *a = p[2], *b = p[3];                                                                     \
        EW_EACH out[i] = condition[i] ? a[i] : b[i];                                                         \
    }
SELECT_LOOP(0, uint8_t)
SELECT_LOOP(1, uint16_t)
SELECT_LOOP(2, uint32_t)
SELECT_LOOP(3, uint64_t)
SELECT_LOOP(4, u128)

#define FLOATS(id) [EWT_F32] = id##_F32, [EWT_F64] = id##_F64
#define INTS(id)                                                                                             \
    [EWT_I8] = id##_I8, [EWT_I16] = id##_I16, [EWT_I32] = id##_I32, [EWT_I64] = id##_I64, [EWT_U8] = id##_U8
#define COMPLEXES(id) [EWT_C64] = id##_C64, [EWT_C128] = id##_C128

const struct ternary_kernels KV(ternary_kernels) = {
    .loop =
        {
            [EWTN_LERP] = {FLOATS(LERP), COMPLEXES(LERP)},
            [EWTN_ADDCMUL] = {FLOATS(ADDCMUL), INTS(ADDCMUL), COMPLEXES(ADDCMUL)},
            [EWTN_ADDCDIV] = {FLOATS(ADDCDIV), COMPLEXES(ADDCDIV)},
            [EWTN_CLAMP] = {FLOATS(CLAMP), INTS(CLAMP)},
        },
    .select = {select_0, select_1, select_2, select_3, select_4},
};
