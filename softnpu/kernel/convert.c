/* convert.c - conversion loops between contiguous arrays of numbers. */
#include "softnpu/kernel/convert.h"
#include "softnpu/kernel/half.h"

#include <limits.h>
#if defined(__F16C__) && defined(__AVX2__)
#include <immintrin.h>
#endif

typedef uint8_t BOOL_t;
typedef uint8_t U8_t;
typedef int8_t I8_t;
typedef int16_t I16_t;
typedef int32_t I32_t;
typedef int64_t I64_t;
typedef uint16_t U16_t;
typedef uint32_t U32_t;
typedef uint64_t U64_t;
typedef float F32_t;
typedef double F64_t;

/* Floating to integer, as torch does on x86: truncate; a value outside int32 or int64 gives the smallest one;
 * narrower types wrap from there. Written out because the C conversion of such a value is undefined. */
static inline int32_t to_i32(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}
static inline int64_t to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
static inline uint64_t to_u64(double x)
{
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)to_i64(x);
}

#define INT_BOOL(x) ((x) != 0)
#define INT_U8(x) ((uint8_t)(x))
#define INT_I8(x) ((int8_t)(x))
#define INT_I16(x) ((int16_t)(x))
#define INT_I32(x) ((int32_t)(x))
#define INT_I64(x) ((int64_t)(x))
#define INT_U16(x) ((uint16_t)(x))
#define INT_U32(x) ((uint32_t)(x))
#define INT_U64(x) ((uint64_t)(x))
#define INT_F32(x) ((float)(x))
#define INT_F64(x) ((double)(x))

#define FLT_BOOL(x) ((x) != 0)
#define FLT_U8(x) ((uint8_t)to_i64(x))
#define FLT_I8(x) ((int8_t)to_i32(x))
#define FLT_I16(x) ((int16_t)to_i32(x))
#define FLT_I32(x) to_i32(x)
#define FLT_I64(x) to_i64(x)
#define FLT_U16(x) ((uint16_t)to_i64(x))
#define FLT_U32(x) ((uint32_t)to_i64(x))
#define FLT_U64(x) to_u64(x)
#define FLT_F32(x) ((float)(x))
#define FLT_F64(x) ((double)(x))

#define FROM_BOOL(to, x) INT_##to((x) != 0)
#define FROM_U8(to, x) INT_##to(x)
#define FROM_I8(to, x) INT_##to(x)
#define FROM_I16(to, x) INT_##to(x)
#define FROM_I32(to, x) INT_##to(x)
#define FROM_I64(to, x) INT_##to(x)
#define FROM_U16(to, x) INT_##to(x)
#define FROM_U32(to, x) INT_##to(x)
#define FROM_U64(to, x) INT_##to(x)
#define FROM_F32(to, x) FLT_##to(x)
#define FROM_F64(to, x) FLT_##to(x)

#define CONV_PAIR(to, from)                                                                                  \
    static void from##_to_##to(void *restrict dst, const void *restrict src, int64_t n)                      \
    {                                                                                                        \
        to##_t *restrict d = dst;                                                                            \
        const from##_t *restrict s = src;                                                                    \
        for (int64_t i = 0; i < n; i++) d[i] = FROM_##from(to, s[i]);                                        \
    }
#define CONV_ALL_TO(from)                                                                                    \
    CONV_PAIR(BOOL, from)                                                                                    \
    CONV_PAIR(U8, from)                                                                                      \
    CONV_PAIR(I8, from)                                                                                      \
    CONV_PAIR(I16, from)                                                                                     \
    CONV_PAIR(I32, from)                                                                                     \
    CONV_PAIR(I64, from)                                                                                     \
    CONV_PAIR(U16, from) CONV_PAIR(U32, from) CONV_PAIR(U64, from) CONV_PAIR(F32, from) CONV_PAIR(F64, from)
CONV_TYPES(CONV_ALL_TO)

#define LOOP(name, to, from, expression)                                                                     \
    static void name(void *restrict dst, const void *restrict src, int64_t n)                                \
    {                                                                                                        \
        to *restrict d = dst;                                                                                \
        const from *restrict s = src;                                                                        \
        for (int64_t i = 0; i < n; i++) expression;                                                          \
    }
LOOP(bf16_widen, float, uint16_t, d[i] = bf16_to_f32(s[i]))
LOOP(bf16_round, uint16_t, float, d[i] = f32_to_bf16(s[i]))
LOOP(c64_make, float, float, (d[2 * i] = s[i], d[2 * i + 1] = 0))
LOOP(c64_real, float, float, d[i] = s[2 * i])
LOOP(c128_make, double, double, (d[2 * i] = s[i], d[2 * i + 1] = 0))
LOOP(c128_real, double, double, d[i] = s[2 * i])
LOOP(c64_bool, uint8_t, float, d[i] = s[2 * i] != 0 || s[2 * i + 1] != 0)
LOOP(c128_bool, uint8_t, double, d[i] = s[2 * i] != 0 || s[2 * i + 1] != 0)

static void f16_widen(void *restrict dst, const void *restrict src, int64_t n)
{
    float *restrict d = dst;
    const uint16_t *restrict s = src;
    int64_t i = 0;
#if defined(__F16C__) && defined(__AVX2__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(s + i))));
#endif
    for (; i < n; i++) d[i] = f16_to_f32(s[i]);
}

static void f16_round(void *restrict dst, const void *restrict src, int64_t n)
{
    uint16_t *restrict d = dst;
    const float *restrict s = src;
    int64_t i = 0;
#if defined(__F16C__) && defined(__AVX2__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(
            (__m128i *)(void *)(d + i),
            _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    for (; i < n; i++) d[i] = f32_to_f16(s[i]);
}

#define CONV_CELL(to, from) [CONV_##to][CONV_##from] = from##_to_##to,
#define CONV_COLUMN(from)                                                                                    \
    CONV_CELL(BOOL, from)                                                                                    \
    CONV_CELL(U8, from)                                                                                      \
    CONV_CELL(I8, from)                                                                                      \
    CONV_CELL(I16, from)                                                                                     \
    CONV_CELL(I32, from)                                                                                     \
    CONV_CELL(I64, from)                                                                                     \
    CONV_CELL(U16, from) CONV_CELL(U32, from) CONV_CELL(U64, from) CONV_CELL(F32, from) CONV_CELL(F64, from)

const struct convert_kernels KV(convert_kernels) = {
    .real = {CONV_TYPES(CONV_COLUMN)},
    .f16_to_f32 = f16_widen,
    .f32_to_f16 = f16_round,
    .bf16_to_f32 = bf16_widen,
    .f32_to_bf16 = bf16_round,
    .f32_to_c64 = c64_make,
    .c64_to_f32 = c64_real,
    .f64_to_c128 = c128_make,
    .c128_to_f64 = c128_real,
    .c64_to_bool = c64_bool,
    .c128_to_bool = c128_bool,
};
