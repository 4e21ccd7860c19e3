/* half.h - scalar conversions of the 16-bit floating types, free of branches so that loops over them
 * vectorise. */
#ifndef SOFTNPU_KERNEL_HALF_H
#define SOFTNPU_KERNEL_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint32_t half_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float bf16_to_f32(uint16_t h)
{
    return half_bits_f32((uint32_t)h << 16);
}

/* Nearest, ties to even; every NaN becomes 0x7fc0. */
static inline uint16_t f32_to_bf16(float f)
{
    uint32_t u = half_f32_bits(f);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

/* The exponent is rebased by an exact multiplication, which also normalises half denormals. */
static inline float f16_to_f32(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t u = half_f32_bits(half_bits_f32(magnitude) * 0x1p112f);
    u = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : u;
    return half_bits_f32(u | (uint32_t)(h & 0x8000u) << 16);
}

/* Nearest, ties to even. Denormal results are rounded by adding 0.5, whose unit in the last place is the
 * smallest half. */
static inline uint16_t f32_to_f16(float f)
{
    uint32_t u = half_f32_bits(f), a = u & 0x7fffffffu;
    uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
    uint32_t tiny = half_f32_bits(half_bits_f32(a) + 0.5f) - half_f32_bits(0.5f);
    uint32_t special = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t r = a < 0x38800000u ? tiny : normal;
    r = a >= 0x47800000u ? special : r;
    return (uint16_t)(r | (u >> 16 & 0x8000u));
}

#endif
