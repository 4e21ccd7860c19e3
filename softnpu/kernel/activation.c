/* activation.c - elementwise loops of activation functions and their gradients. */
#include "softnpu/kernel/elementwise.h"
#include "softnpu/kernel/ewtypes.h"
#include "softnpu/kernel/vexp.h"
#include "softnpu/kernel/vmath.h"
#include <assert.h>

/* Elements of a block at most; the engine's EW_BLOCK. */
enum { BLOCK = 1024 };

/* Common head of a loop: out; a, b the inputs' arrays (b only with two); q the parameters; t, u blocks for
 * functions of the vector library. */
#define HEAD(T)                                                                                              \
    (void)index;                                                                                             \
    T##_t *out = p[0];                                                                                       \
    const T##_t *a = p[1];                                                                                   \
    const double *q = ctx;                                                                                   \
    (void)q;                                                                                                 \
    if (n <= 0) return;
/* The nearest whole number towards zero within a type's bounds; 0 for a NaN. */
static inline int64_t as_whole(double x, int64_t low, int64_t high)
{
    return x >= (double)high ? high : x <= (double)low ? low : x == x ? (int64_t)x : 0;
}
/* clang-format off */
#define PARAMETER(T, x)                                                                                      \
    (T##_t)(_Generic((T##_t)0,                                                                               \
        uint8_t: as_whole(x, 0, UINT8_MAX), int8_t: as_whole(x, INT8_MIN, INT8_MAX),                         \
        int16_t: as_whole(x, INT16_MIN, INT16_MAX), int32_t: as_whole(x, INT32_MIN, INT32_MAX),              \
        int64_t: as_whole(x, INT64_MIN, INT64_MAX), default: (x)))
/* clang-format on */
/* The call's parameters as the loop's type; a loop uses the ones it has. */
#define PARAMETERS(T)                                                                                        \
    const T##_t q0 = q ? PARAMETER(T, q[0]) : 0, q1 = q ? PARAMETER(T, q[1]) : 0,                            \
                q2 = q ? PARAMETER(T, q[2]) : 0;                                                             \
    (void)q0, (void)q1, (void)q2;
#define LOOP1(id, T, expression)                                                                             \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        HEAD(T)                                                                                              \
        PARAMETERS(T)                                                                                        \
        EW_EACH                                                                                              \
        {                                                                                                    \
            const T##_t x = a[i];                                                                            \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }
/* g: the gradient or first input, x: the second. */
#define LOOP2(id, T, expression)                                                                             \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        HEAD(T)                                                                                              \
        const T##_t *b = p[2];                                                                               \
        PARAMETERS(T)                                                                                        \
        EW_EACH                                                                                              \
        {                                                                                                    \
            const T##_t g = a[i], x = b[i];                                                                  \
            (void)x;                                                                                         \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }
/* Loops over a function of the vector library: prepare fills t from x, call maps t, then the result from g,
 * x, t. */
#define LOOP1_V(id, T, prepare, call, expression)                                                            \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        HEAD(T)                                                                                              \
        PARAMETERS(T)                                                                                        \
        T##_t t[BLOCK];                                                                                      \
        EW_EACH                                                                                              \
        {                                                                                                    \
            const T##_t x = a[i];                                                                            \
            t[i] = (T##_t)(prepare);                                                                         \
        }                                                                                                    \
        call;                                                                                                \
        EW_EACH                                                                                              \
        {                                                                                                    \
            const T##_t x = a[i];                                                                            \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }
#define LOOP2_V(id, T, prepare, prepare_u, call, expression)                                                 \
    static void id##_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        HEAD(T)                                                                                              \
        const T##_t *b = p[2];                                                                               \
        PARAMETERS(T)                                                                                        \
        T##_t t[BLOCK], u[BLOCK];                                                                            \
        EW_EACH                                                                                              \
        {                                                                                                    \
            const T##_t x = b[i];                                                                            \
            t[i] = (T##_t)(prepare);                                                                         \
            u[i] = (T##_t)(prepare_u);                                                                       \
        }                                                                                                    \
        call;                                                                                                \
        (void)u;                                                                                             \
        EW_EACH                                                                                              \
        {                                                                                                    \
            const T##_t g = a[i], x = b[i];                                                                  \
            (void)x;                                                                                         \
            out[i] = (T##_t)(expression);                                                                    \
        }                                                                                                    \
    }
#define CALL(T, id, block) VMATH_TABLE->VM_OF_##T(VM_##id, n, block, block)
#define VM_OF_F32 f32
#define VM_OF_F64 f64
#define SIGMOID(T, block) VMATH_TABLE->SIGMOID_OF_##T(n, block, block)
#define SIGMOID_OF_F32 sigmoid_f32
#define SIGMOID_OF_F64 sigmoid_f64

/* exp and erf of a block in place. For floats by our own vectors, past n up to a whole one: the block has
 * room. */
#define BLOCK_F32(name, function)                                                                            \
    static void name##_block_F32(int64_t n, float *t)                                                        \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i += VF_N) {                                                              \
            vf v = VF_LOAD(t + i);                                                                           \
            function(&v);                                                                                    \
            VF_STORE(t + i, v);                                                                              \
        }                                                                                                    \
    }
BLOCK_F32(EXP, vf_exp)
BLOCK_F32(ERF, vf_erf)
static_assert(BLOCK % VF_N == 0, "a block holds whole vectors");
#define BLOCK_F64(name)                                                                                      \
    static void name##_block_F64(int64_t n, double *t)                                                       \
    {                                                                                                        \
        CALL(F64, name, t);                                                                                  \
    }
BLOCK_F64(EXP)
BLOCK_F64(ERF)
#define EXP(T, block) EXP_block_##T(n, block)
#define ERF(T, block) ERF_block_##T(n, block)

#define SQRT_2_PI 0.79788456080286535588
#define SQRT_1_2PI 0.39894228040143267794
/* sqrt(2/pi) (x + 0.044715 x^3) and its derivative */
#define GELU_INNER(T, x) ((T##_t)SQRT_2_PI * (x + (T##_t)0.044715 * x * x * x))
#define GELU_INNER_SLOPE(T, x) ((T##_t)SQRT_2_PI * (1 + (T##_t)0.134145 * x * x))
#define NAN_SAFE_MIN(v, limit) ((v) > (limit) ? (limit) : (v))
#define NAN_SAFE_MAX(v, limit) ((v) < (limit) ? (limit) : (v))
#define HARD6(x) NAN_SAFE_MIN(NAN_SAFE_MAX((x) + 3, 0), 6)

/* ---- without the vector library -------------------------------------------------------------- */

#define PIECEWISE(T)                                                                                         \
    LOOP1(HARDSWISH, T, x *HARD6(x) / 6)                                                                     \
    LOOP1(HARDSIGMOID, T, HARD6(x) / 6)                                                                      \
    LOOP1(HARDTANH, T, NAN_SAFE_MIN(NAN_SAFE_MAX(x, q0), q1))                                                \
    LOOP1(HARDSHRINK, T, x >= -q0 && x <= q0 ? 0 : x)                                                        \
    LOOP1(SOFTSHRINK, T, x > q0 ? x - q0 : x < -q0 ? x + q0 : x * 0)                                         \
    LOOP1(LEAKYRELU, T, x > 0 ? x : x * q0)                                                                  \
    LOOP2(LEAKYRELUB, T, x > 0 ? g : g * q0)                                                                 \
    LOOP2(HARDSWISHB, T, x <= -3 ? 0 : x < 3 ? g * (x / 3 + (T##_t)0.5) : g)                                 \
    LOOP2(HARDSWISHB1, T, x < -3 ? 0 : x <= 3 ? g * (x / 3 + (T##_t)0.5) : g)                                \
    LOOP2(HARDSIGMOIDB, T, x > -3 && x < 3 ? g / 6 : 0)                                                      \
    LOOP2(HARDTANHB, T, x <= q0 || x >= q1 ? 0 : g)                                                          \
    LOOP2(SHRINKB, T, x >= -q0 && x <= q0 ? 0 : g)                                                           \
    LOOP2(SIGMOIDB, T, g *(1 - x) * x)                                                                       \
    LOOP2(TANHB, T, g *(1 - x * x))                                                                          \
    LOOP2(PRELU, T, g > 0 ? g : g * x)                                                                       \
    /* x is the forward's input here and g the gradient, though the operator takes them the other way round  \
     */                                                                                                      \
    LOOP2(LOGITB, T,                                                                                         \
          q0 < 0                 ? (x < 0 || x > 1 ? (T##_t)NAN : g / (x * (1 - x)))                         \
          : x < q0 || x > 1 - q0 ? 0                                                                         \
                                 : g / (x * (1 - x)))
PIECEWISE(F32)
PIECEWISE(F64)

#define THRESHOLDS(T)                                                                                        \
    LOOP1(RELU, T, x < 0 ? 0 : x)                                                                            \
    LOOP1(THRESHOLD, T, x <= q0 ? q1 : x)                                                                    \
    LOOP2(THRESHOLDB, T, x <= q0 ? 0 : g)
THRESHOLDS(F32)
THRESHOLDS(F64)
THRESHOLDS(I8)
THRESHOLDS(I16)
THRESHOLDS(I32)
THRESHOLDS(I64)
LOOP1(RELU, U8, x)
LOOP1(THRESHOLD, U8, x <= q0 ? q1 : x)
LOOP2(THRESHOLDB, U8, x <= q0 ? 0 : g)
LOOP1(HARDTANH, I8, x<q0 ? q0 : x> q1 ? q1 : x)
LOOP1(HARDTANH, I16, x<q0 ? q0 : x> q1 ? q1 : x)
LOOP1(HARDTANH, I32, x<q0 ? q0 : x> q1 ? q1 : x)
LOOP1(HARDTANH, I64, x<q0 ? q0 : x> q1 ? q1 : x)
LOOP1(HARDTANH, U8, x<q0 ? q0 : x> q1 ? q1 : x)

LOOP2(ADDRELU, F32, g + q0 * x < 0 ? 0 : g + q0 * x)
LOOP2(ADDRELU, F64, g + q0 * x < 0 ? 0 : g + q0 * x)
#define ADDRELU_INT(T)                                                                                       \
    LOOP2(ADDRELU, T, (T##_t)((T##_u)g + (T##_u)q0 * (T##_u)x) > 0 ? (T##_u)g + (T##_u)q0 * (T##_u)x : 0)
ADDRELU_INT(I8)
ADDRELU_INT(I16)
ADDRELU_INT(I32)
ADDRELU_INT(I64)
ADDRELU_INT(U8)

/* ---- with the vector library ----------------------------------------------------------------- */

/* ELU's backward from the result y: exp(x) alpha is y + alpha scale. parameters: alpha, scale, input scale,
 * is_result */
#define ELU_BACKWARD(T)                                                                                      \
    static void ELUB_##T(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        HEAD(T)                                                                                              \
        const T##_t *b = p[2], negative = (T##_t)(q[0] * q[1]), positive = (T##_t)q[1], slope = (T##_t)q[2]; \
        T##_t t[BLOCK];                                                                                      \
        if (q[3] != 0) {                                                                                     \
            EW_EACH t[i] = b[i] + negative;                                                                  \
        } else {                                                                                             \
            EW_EACH t[i] = b[i] > 0 ? 0 : b[i] * slope;                                                      \
            CALL(T, EXP, t);                                                                                 \
            EW_EACH t[i] *= negative;                                                                        \
        }                                                                                                    \
        EW_EACH out[i] = b[i] <= 0 ? a[i] * slope * t[i] : a[i] * positive;                                  \
    }

#define VECTOR(T)                                                                                            \
    LOOP1_V(GELU, T, x *(T##_t)M_SQRT1_2, ERF(T, t), (T##_t)0.5 * x * (1 + t[i]))                            \
    LOOP1_V(GELUTANH, T, GELU_INNER(T, x), CALL(T, TANH, t), (T##_t)0.5 * x * (1 + t[i]))                    \
    LOOP1_V(FASTGELU, T, (T##_t)1.702 * x, SIGMOID(T, t), x * t[i])                                          \
    LOOP1_V(SILU, T, -x, EXP(T, t), x / (1 + t[i]))                                                          \
    LOOP1_V(ELU, T, x > 0 ? 0 : x * q2, CALL(T, EXPM1, t), x > 0 ? x * q1 : t[i] * q0 * q1)                  \
    LOOP1_V(CELU, T, x > 0 ? 0 : x / q0, CALL(T, EXPM1, t), x > 0 ? x : t[i] * q0)                           \
    LOOP1_V(SOFTPLUS, T, x *q0 > q1 ? 0 : x * q0, (CALL(T, EXP, t), CALL(T, LOG1P, t)),                      \
            x * q0 > q1 ? x : t[i] / q0)                                                                     \
    /* tanh(log(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2), which loses nothing; from 20 up it is one */          \
    LOOP1_V(MISH, T, x > 20 ? 20 : x, CALL(T, EXP, t),                                                       \
            x > 20 ? x : x * (t[i] * (t[i] + 2)) / (t[i] * (t[i] + 2) + 2))                                  \
    LOOP1_V(LOGSIGMOID, T, x > 0 ? -x : x, (CALL(T, EXP, t), CALL(T, LOG1P, t)), (x < 0 ? x : 0) - t[i])     \
    LOOP2_V(GELUB, T, x *(T##_t)M_SQRT1_2, -x *x / 2, (ERF(T, t), EXP(T, u)),                                \
            g * ((T##_t)0.5 * (1 + t[i]) + x * u[i] * (T##_t)SQRT_1_2PI))                                    \
    LOOP2_V(GELUTANHB, T, GELU_INNER(T, x), GELU_INNER_SLOPE(T, x), CALL(T, TANH, t),                        \
            g *((T##_t)0.5 * (1 + t[i]) + (T##_t)0.5 * x * (1 - t[i] * t[i]) * u[i]))                        \
    LOOP2_V(FASTGELUB, T, (T##_t)1.702 * x, 0, SIGMOID(T, t),                                                \
            g * t[i] * (1 + (T##_t)1.702 * x * (1 - t[i])))                                                  \
    LOOP2_V(SILUB, T, x, 0, SIGMOID(T, t), g *t[i] * (1 + x * (1 - t[i])))                                   \
    LOOP2_V(SOFTPLUSB, T, x *q0 > q1 ? 0 : x * q0, 0, CALL(T, EXP, t),                                       \
            x * q0 > q1 ? g : g * (t[i] / (t[i] + 1)))                                                       \
    LOOP2_V(MISHB, T, x > 20 ? 20 : x, x, (CALL(T, EXP, t), SIGMOID(T, u)),                                  \
            g * mish_slope_##T(x, u[i], t[i] * (t[i] + 2)))                                                  \
    LOOP2_V(LOGSIGMOIDB, T, x > 0 ? -x : x, 0, CALL(T, EXP, t),                                              \
            x < 0 ? g * (1 - t[i] / (1 + t[i])) : g * (t[i] / (1 + t[i])))                                   \
    /* gated units: the first input passes or is gated, as the documents have it: GLU a sigmoid(b), the      \
     * others f(a) b */                                                                                      \
    LOOP2_V(GLU, T, x, 0, SIGMOID(T, t), g *t[i])                                                            \
    LOOP2_V(GEGLU, T, x *(T##_t)M_SQRT1_2, 0, ERF(T, t), g *((T##_t)0.5 * x * (1 + t[i])))                   \
    LOOP2_V(GEGLUTANH, T, GELU_INNER(T, x), 0, CALL(T, TANH, t), g *((T##_t)0.5 * x * (1 + t[i])))           \
    LOOP2_V(SWIGLU, T, x, 0, SIGMOID(T, t), g *(x * t[i]))

#define MISH_SLOPE(T)                                                                                        \
    static inline T##_t mish_slope_##T(T##_t x, T##_t sigmoid, T##_t w)                                      \
    {                                                                                                        \
        T##_t tanh_softplus = x > 20 ? 1 : w / (w + 2);                                                      \
        return tanh_softplus + x * sigmoid * (1 - tanh_softplus * tanh_softplus);                            \
    }
MISH_SLOPE(F32)
MISH_SLOPE(F64)
VECTOR(F32)
VECTOR(F64)
ELU_BACKWARD(F32)
ELU_BACKWARD(F64)

/* ---- complex: the two gradients that the device knows ---------------------------------------- */

#define COMPLEX_GRADIENTS(T, conjugate)                                                                      \
    LOOP2(SIGMOIDB, T, mul_##T##_t(g, conjugate(mul_##T##_t(1 - x, x))))                                     \
    LOOP2(TANHB, T, mul_##T##_t(g, conjugate(1 - mul_##T##_t(x, x))))
COMPLEX_GRADIENTS(C64, conjf)
COMPLEX_GRADIENTS(C128, conj)

/* ---- the table ------------------------------------------------------------------------------- */

#define FLOATS(id) [EWT_F32] = id##_F32, [EWT_F64] = id##_F64
#define INTS(id)                                                                                             \
    [EWT_I8] = id##_I8, [EWT_I16] = id##_I16, [EWT_I32] = id##_I32, [EWT_I64] = id##_I64, [EWT_U8] = id##_U8
#define COMPLEXES(id) [EWT_C64] = id##_C64, [EWT_C128] = id##_C128
#define REAL(id) [EWA_##id] = {FLOATS(id)}
#define ANY_REAL(id) [EWA_##id] = {FLOATS(id), INTS(id)}

const struct activation_kernels KV(activation_kernels) = {
    .loop =
        {
            ANY_REAL(RELU),
            ANY_REAL(THRESHOLD),
            ANY_REAL(THRESHOLDB),
            ANY_REAL(HARDTANH),
            ANY_REAL(ADDRELU),
            REAL(GELU),
            REAL(GELUTANH),
            REAL(FASTGELU),
            REAL(SILU),
            REAL(ELU),
            REAL(CELU),
            REAL(LEAKYRELU),
            REAL(SOFTPLUS),
            REAL(HARDSWISH),
            REAL(HARDSIGMOID),
            REAL(HARDSHRINK),
            REAL(SOFTSHRINK),
            REAL(MISH),
            REAL(LOGSIGMOID),
            REAL(GELUB),
            REAL(GELUTANHB),
            REAL(FASTGELUB),
            REAL(SILUB),
            REAL(ELUB),
            REAL(LEAKYRELUB),
            REAL(SOFTPLUSB),
            REAL(HARDSWISHB),
            REAL(HARDSWISHB1),
            REAL(HARDSIGMOIDB),
            REAL(HARDTANHB),
            REAL(SHRINKB),
            REAL(MISHB),
            REAL(LOGSIGMOIDB),
            REAL(LOGITB),
            REAL(PRELU),
            REAL(GLU),
            REAL(SWIGLU),
            REAL(GEGLU),
            REAL(GEGLUTANH),
            [EWA_SIGMOIDB] = {FLOATS(SIGMOIDB), COMPLEXES(SIGMOIDB)},
            [EWA_TANHB] = {FLOATS(TANHB), COMPLEXES(TANHB)},
        },
};
