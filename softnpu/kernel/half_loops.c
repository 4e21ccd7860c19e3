/* half_loops.c - elementwise loops on float16 and bfloat16, a vector of floats at a time. */
#include "softnpu/kernel/half_loops.h"
#include "softnpu/kernel/vexp.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>

typedef uint16_t vh __attribute__((vector_size(V_BYTES / 2), aligned(2), may_alias));

/* ---- widening and rounding --------------------------------------------------------------------------- */

V_INLINE void load_bf16(vf *v, const uint16_t *p)
{
    *v = (vf)(__builtin_convertvector(*(const vh *)p, vu) << 16);
}

/* Nearest, ties to even; every NaN becomes 0x7fc0 (half.h). */
V_INLINE void keep_bf16(uint16_t *p, const vf *v)
{
    vu u = (vu)*v, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    vi nan = *v != *v;
    *(vh *)p = __builtin_convertvector((rounded & ~(vu)nan) | (0x7fc0u & (vu)nan), vh);
}

V_INLINE void load_f16(vf *v, const uint16_t *p)
{
#if V_BYTES == 64
    *v = (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#else
    *v = (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#endif
}

V_INLINE void keep_f16(uint16_t *p, const vf *v)
{
#if V_BYTES == 64
    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_cvtps_ph((__m512)*v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm256_cvtps_ph((__m256)*v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
}

V_INLINE void vf_sqrt(vf *v)
{
#if V_BYTES == 64
    *v = (vf)_mm512_sqrt_ps((__m512)*v);
#else
    *v = (vf)_mm256_sqrt_ps((__m256)*v);
#endif
}

/* ---- loops ------------------------------------------------------------------------------------------- */

/* The last, incomplete vector goes through one that is padded with zeros. */
#define LOOP1(id, H, statement)                                                                              \
    static void id##_##H(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        uint16_t *out = p[0], part[VF_N] = {0};                                                              \
        const uint16_t *x = p[1];                                                                            \
        (void)index, (void)ctx;                                                                              \
        int64_t i = 0;                                                                                       \
        vf a;                                                                                                \
        for (; i + VF_N <= n; i += VF_N) {                                                                   \
            load_##H(&a, x + i);                                                                             \
            statement;                                                                                       \
            keep_##H(out + i, &a);                                                                           \
        }                                                                                                    \
        if (i == n) return;                                                                                  \
        memcpy(part, x + i, (size_t)(n - i) * sizeof *x);                                                    \
        load_##H(&a, part);                                                                                  \
        statement;                                                                                           \
        keep_##H(part, &a);                                                                                  \
        memcpy(out + i, part, (size_t)(n - i) * sizeof *x);                                                  \
    }
#define LOOP2(id, H, statement)                                                                              \
    static void id##_##H(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        uint16_t *out = p[0], part[2][VF_N] = {{0}};                                                         \
        const uint16_t *x = p[1], *y = p[2];                                                                 \
        const float alpha = ctx ? *(const float *)ctx : 1;                                                   \
        (void)index, (void)alpha;                                                                            \
        int64_t i = 0;                                                                                       \
        vf a, b;                                                                                             \
        for (; i + VF_N <= n; i += VF_N) {                                                                   \
            load_##H(&a, x + i);                                                                             \
            load_##H(&b, y + i);                                                                             \
            statement;                                                                                       \
            keep_##H(out + i, &a);                                                                           \
        }                                                                                                    \
        if (i == n) return;                                                                                  \
        memcpy(part[0], x + i, (size_t)(n - i) * sizeof *x);                                                 \
        memcpy(part[1], y + i, (size_t)(n - i) * sizeof *x);                                                 \
        load_##H(&a, part[0]);                                                                               \
        load_##H(&b, part[1]);                                                                               \
        statement;                                                                                           \
        keep_##H(part[0], &a);                                                                               \
        memcpy(out + i, part[0], (size_t)(n - i) * sizeof *x);                                               \
    }

/* What only touches the sign needs no float. */
#define BITS(id, H, operation)                                                                               \
    static void id##_##H(int64_t n, void *const *p, int64_t index, const void *ctx)                          \
    {                                                                                                        \
        uint16_t *out = p[0];                                                                                \
        const uint16_t *x = p[1];                                                                            \
        (void)index, (void)ctx;                                                                              \
        EW_EACH out[i] = (uint16_t)(x[i] operation);                                                         \
    }

V_INLINE void vf_sigmoid(vf *v)
{
    vf e = -*v;
    vf_exp(&e);
    *v = 1 / (1 + e);
}

V_INLINE void vf_silu(vf *v)
{
    vf e = -*v;
    vf_exp(&e);
    *v = *v / (1 + e);
}

V_INLINE void vf_gelu(vf *v)
{
    vf t = *v * (float)M_SQRT1_2;
    vf_erf(&t);
    *v = 0.5f * *v * (1 + t);
}

#define LOOPS(H)                                                                                             \
    LOOP2(ADD, H, a = a + b)                                                                                 \
    LOOP2(SUB, H, a = a - b)                                                                                 \
    LOOP2(MUL, H, a = a * b)                                                                                 \
    LOOP2(DIV, H, a = a / b)                                                                                 \
    LOOP2(ADDA, H, a = a + alpha * b)                                                                        \
    LOOP2(SUBA, H, a = a - alpha * b)                                                                        \
    LOOP2(RSUBA, H, a = b - alpha * a)                                                                       \
    LOOP2(MAX, H, a = VF_SELECT((a != a) | (a > b), a, b))                                                   \
    LOOP2(MIN, H, a = VF_SELECT((a != a) | (a < b), a, b))                                                   \
    BITS(ABS, H, &0x7fff)                                                                                    \
    BITS(NEG, H, ^0x8000)                                                                                    \
    LOOP1(SQUARE, H, a = a * a)                                                                              \
    LOOP1(RECIPROCAL, H, a = 1 / a)                                                                          \
    LOOP1(SQRT, H, vf_sqrt(&a))                                                                              \
    LOOP1(RSQRT, H, (vf_sqrt(&a), a = 1 / a))                                                                \
    LOOP1(SIGMOID, H, vf_sigmoid(&a))                                                                        \
    LOOP1(SILU, H, vf_silu(&a))                                                                              \
    LOOP1(GELU, H, vf_gelu(&a))                                                                              \
    LOOP1(RELU, H, a = VF_SELECT(a < (vf){0}, (vf){0}, a))
LOOPS(f16)
LOOPS(bf16)

#define BOTH(id)                                                                                             \
    {                                                                                                        \
        id##_f16, id##_bf16                                                                                  \
    }
#define BINARY(id) [EWB_##id] = BOTH(id),
#define UNARY(id) [EWU_##id] = BOTH(id),
#define ACTIVATION(id) [EWA_##id] = BOTH(id),
const struct half_kernels KV(half_kernels) = {
    .binary = {HALF_BINARY(BINARY)},
    .unary = {HALF_UNARY(UNARY)},
    .activation = {HALF_ACTIVATION(ACTIVATION)},
};
#else
const struct half_kernels KV(half_kernels) = {0};
#endif
