/* vexp.h - GNU C vectors as wide as the variant's registers and the exponential on them, for kernels.
 *
 * Kernels that sum keep a fixed number of lanes (V_LANES), however many registers that takes, and nothing is
 * contracted: their results do not depend on the variant.
 */
#ifndef SOFTNPU_VEXP_H
#define SOFTNPU_VEXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define V_BYTES 64
#elif defined(__AVX2__)
#define V_BYTES 32
#else
#define V_BYTES 16
#endif
typedef float vf __attribute__((vector_size(V_BYTES)));
typedef uint32_t vu __attribute__((vector_size(V_BYTES)));
typedef int32_t vi __attribute__((vector_size(V_BYTES)));
typedef double vd __attribute__((vector_size(V_BYTES)));
typedef int64_t vl __attribute__((vector_size(V_BYTES)));
typedef uint64_t vul __attribute__((vector_size(V_BYTES)));
typedef float vfh __attribute__((vector_size(V_BYTES / 2))); /* as many floats as vd has doubles */
enum { VF_N = V_BYTES / 4, VD_N = V_BYTES / 8, V_LANES = 32, V_CHAINS = V_LANES / VD_N };
/* The same, where they may lie at any element's address. */
typedef vf vf_at __attribute__((aligned(4), may_alias));
typedef vfh vfh_at __attribute__((aligned(4), may_alias));
typedef vd vd_at __attribute__((aligned(8), may_alias));
typedef vul vul_at __attribute__((aligned(8), may_alias));

#define VF_LOAD(p) (*(const vf_at *)(p))
#define VF_STORE(p, v) (*(vf_at *)(p) = (v))
#define VD_LOAD(p) (*(const vd_at *)(p))
#define VD_FROM_F32(p) __builtin_convertvector(*(const vfh_at *)(p), vd)
/* mask ? a : b, lane by lane; mask lanes are 0 or -1. */
#define VF_SELECT(mask, a, b) ((vf)(((vi)(a) & (mask)) | ((vi)(b) & ~(mask))))
#define VD_SELECT(mask, a, b) ((vd)(((vl)(a) & (mask)) | ((vl)(b) & ~(mask))))
#define V_INLINE static inline __attribute__((always_inline))

/* 2^k r: k from the low bits of a float near 1.5 * 2^23; r by a polynomial fitted to 3e-9 relative on |r| <=
 * ln(2)/2. */
#define EXP_ROUND 12582912.0f /* adding it leaves the nearest integer in the low bits */
#define EXP_LOG2E 1.44269504f
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO (-2.12194440e-4f)
#define EXP_MAX 89.0f
#define EXP_MIN (-150.0f)
#define EXP_LEAST (-87.0f)
#define EXP_C2 0.49999994f
#define EXP_C3 0.16666521f
#define EXP_C4 0.04166839f
#define EXP_C5 0.008368745f
#define EXP_C6 0.001381454f

/* exp of a vector of floats in place, within 1.5 ulp; -inf gives 0, NaN stays. */
V_INLINE void vf_exp(vf *v)
{
    vf x = *v, top = (vf){0} + EXP_MAX, bottom = (vf){0} + EXP_MIN;
    x = VF_SELECT(x > top, top, x);
    x = VF_SELECT(x < bottom, bottom, x);
    vf t = x * EXP_LOG2E + EXP_ROUND;
    vf k = t - EXP_ROUND;
    vf r = (x - k * EXP_LN2_HI) - k * EXP_LN2_LO;
    vf q = (((EXP_C6 * r + EXP_C5) * r + EXP_C4) * r + EXP_C3) * r + EXP_C2;
    vf y = (q * r) * r + r + 1.0f;
    /* two factors, because 2^k alone may be below the normal range */
    vi e = (vi)t - 0x4B400000;
    vi half = e >> 1;
    y = y * (vf)((half + 127) << 23);
    *v = y * (vf)((e - half + 127) << 23);
}

/* The same for x <= 0, as softmax needs it: cheaper, and 0 below the normal range. */
V_INLINE void vf_exp_low(vf *v)
{
    vf x = *v;
    vi gone = x < (vf){0} + EXP_LEAST;
    vf t = x * EXP_LOG2E + EXP_ROUND;
    vf k = t - EXP_ROUND;
    vf r = (x - k * EXP_LN2_HI) - k * EXP_LN2_LO;
    vf q = (((EXP_C6 * r + EXP_C5) * r + EXP_C4) * r + EXP_C3) * r + EXP_C2;
    vf y = (q * r) * r + r + 1.0f;
    *v = (vf)(((vi)((vu)y + ((vu)t << 23))) & ~gone); /* k goes straight into the exponent */
}

/* The error function within 2e-7 of its value's scale, which is 1 (Abramowitz and Stegun, 7.1.26): for
 * activations, where it is added to 1. */
#define ERF_P 0.3275911f
#define ERF_A1 0.254829592f
#define ERF_A2 (-0.284496736f)
#define ERF_A3 1.421413741f
#define ERF_A4 (-1.453152027f)
#define ERF_A5 1.061405429f
V_INLINE void vf_erf(vf *v)
{
    vi sign = (vi)*v & INT32_MIN;
    vf a = (vf)((vi)*v ^ sign), e = -(a * a), t = 1.0f / (1.0f + ERF_P * a);
    vf q = ((((ERF_A5 * t + ERF_A4) * t + ERF_A3) * t + ERF_A2) * t + ERF_A1) * t;
    vf_exp_low(&e);
    *v = (vf)((vi)(1.0f - q * e) | sign);
}

#endif
