/* random.c - Philox streams and the distributions made from them. */
#include "softnpu/kernel/random.h"

#include <math.h>
#include <string.h>

/* ---- the cipher, LANES blocks at a time -------------------------------------------------------------- */

enum { LANES = 16, WORDS = 4 * LANES };

/* Words of blocks first .. first + LANES, in stream order. */
static void philox(uint32_t *restrict out, uint64_t first, struct random_stream s)
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)s.seed, k1 = (uint32_t)(s.seed >> 32);
    for (int i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)s.offset;
        c3[i] = (uint32_t)(s.offset >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t a = (uint64_t)0xD2511F53u * c0[i], b = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)b;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < LANES; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

static void words(uint32_t *out, int64_t begin, int64_t n, struct random_stream s)
{
    uint32_t block[WORDS];
    while (n > 0) {
        int64_t skip = begin % 4, take = WORDS - skip < n ? WORDS - skip : n;
        philox(block, (uint64_t)begin / 4, s);
        memcpy(out, block + skip, (size_t)take * sizeof *out);
        out += take;
        begin += take;
        n -= take;
    }
}

/* ---- from words to distributions --------------------------------------------------------------------- */

enum { CHUNK = WORDS }; /* words drawn at a time */

static void uniform_f32(float *out, int64_t begin, int64_t n, struct random_stream s, int bits)
{
    uint32_t w[CHUNK];
    float unit = 1.0f / (float)(1u << bits);
    for (int64_t k; n > 0; n -= k, begin += k, out += k) {
        k = n < CHUNK ? n : CHUNK;
        words(w, begin, k, s);
        for (int64_t i = 0; i < k; i++) out[i] = (float)(w[i] >> (32 - bits)) * unit;
    }
}

static uint64_t join(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static void uniform_f64(double *out, int64_t begin, int64_t n, struct random_stream s)
{
    uint32_t w[CHUNK];
    for (int64_t k; n > 0; n -= k, begin += k, out += k) {
        k = n < CHUNK / 2 ? n : CHUNK / 2;
        words(w, 2 * begin, 2 * k, s);
        for (int64_t i = 0; i < k; i++) out[i] = (double)(join(w[2 * i], w[2 * i + 1]) >> 11) * 0x1p-53;
    }
}

/* ln x for x in [2^-33, 1]: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m-1)/(m+1)) by its
 * series. Plain arithmetic only, so every CPU gives the same bits. */
static inline float log_unit(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    int32_t e = (int32_t)((u - 0x3f3504f3u) & 0xff800000u);
    u -= (uint32_t)e;
    float m;
    memcpy(&m, &u, sizeof m);
    float t = (m - 1.0f) / (m + 1.0f), q = t * t;
    float series = 1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9))));
    return (float)(e >> 23) * 0.693147181f + 2.0f * t * series;
}

/* cos and sin of a turn's fraction: the nearest quarter turn, and the rest by Taylor's series. */
static inline void turn(uint32_t w, float *cosine, float *sine)
{
    uint32_t quarter = (w + 0x20000000u) >> 30;
    float x = (float)(int32_t)(w - (quarter << 30)) * (1.57079633f / 1073741824.0f), q = x * x;
    float s = x * (1.0f - q * (1.0f / 6 - q * (1.0f / 120 - q * (1.0f / 5040 - q * (1.0f / 362880)))));
    float c =
        1.0f - q * (0.5f - q * (1.0f / 24 - q * (1.0f / 720 - q * (1.0f / 40320 - q * (1.0f / 3628800)))));
    float a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
    *cosine = (quarter + 1) & 2 ? -a : a;
    *sine = quarter & 2 ? -b : b;
}

static inline float unit_above_0(uint32_t w)
{
    return (float)w * 0x1p-32f + 0x1p-33f;
}

/* Box and Muller: a pair of words gives a pair of numbers. */
static void normal_pairs(float *restrict out, const uint32_t *restrict w, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        float r = sqrtf(-2.0f * log_unit(unit_above_0(w[2 * i]))), c, s;
        turn(w[2 * i + 1], &c, &s);
        out[2 * i] = r * c;
        out[2 * i + 1] = r * s;
    }
}

static void normal_f32(float *out, int64_t begin, int64_t n, struct random_stream s)
{
    uint32_t w[CHUNK];
    float z[CHUNK];
    for (int64_t k; n > 0; n -= k, begin += k, out += k) {
        int64_t skip = begin % 2;
        k = n < CHUNK - skip ? n : CHUNK - skip;
        int pairs = (int)(skip + k + 1) / 2;
        words(w, begin - skip, 2 * pairs, s);
        normal_pairs(z, w, pairs);
        memcpy(out, z + skip, (size_t)k * sizeof *out);
    }
}

static void normal_f64(double *out, int64_t begin, int64_t n, struct random_stream s)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];
        int64_t at = begin + i;
        words(w, at / 2 * 4, 4, s);
        double u = ((double)(join(w[0], w[1]) >> 11) + 0.5) * 0x1p-53,
               v = (double)(join(w[2], w[3]) >> 11) * 0x1p-53;
        double r = sqrt(-2 * log(u)), angle = 6.283185307179586477 * v;
        out[i] = r * (at % 2 ? sin(angle) : cos(angle));
    }
}

static void exponential_f32(float *out, int64_t begin, int64_t n, struct random_stream s)
{
    uint32_t w[CHUNK];
    for (int64_t k; n > 0; n -= k, begin += k, out += k) {
        k = n < CHUNK ? n : CHUNK;
        words(w, begin, k, s);
        /* 2^-25 is the middle of the last interval below 1, where the rounded logarithm would be 0. */
        for (int64_t i = 0; i < k; i++) {
            float x = -log_unit(unit_above_0(w[i]));
            out[i] = x > 0x1p-25f ? x : 0x1p-25f;
        }
    }
}

static void exponential_f64(double *out, int64_t begin, int64_t n, struct random_stream s)
{
    uniform_f64(out, begin, n, s);
    for (int64_t i = 0; i < n; i++) out[i] = out[i] > 0 ? -log1p(-out[i]) : 0x1p-54;
}

/* The high half of a 64-bit random number times the range: each integer's share differs by less than range /
 * 2^64. */
static void bounded(uint64_t *out, int64_t begin, int64_t n, struct random_stream s, uint64_t range)
{
    uint32_t w[CHUNK];
    for (int64_t k; n > 0; n -= k, begin += k, out += k) {
        k = n < CHUNK / 2 ? n : CHUNK / 2;
        words(w, 2 * begin, 2 * k, s);
        for (int64_t i = 0; i < k; i++) {
            uint64_t u = join(w[2 * i], w[2 * i + 1]);
            out[i] = range ? (uint64_t)((unsigned __int128)u * range >> 64) : u;
        }
    }
}

static void bits(uint8_t *out, int64_t begin, int64_t n, struct random_stream s, uint64_t keep)
{
    uint32_t w[CHUNK];
    for (int64_t k; n > 0; n -= k, begin += 8 * k, out += k) {
        k = n < CHUNK / 8 ? n : CHUNK / 8;
        words(w, begin, 8 * k, s);
        for (int64_t i = 0; i < k; i++) {
            unsigned byte = 0;
            for (int j = 0; j < 8; j++) byte |= (unsigned)(w[8 * i + j] < keep) << j;
            out[i] = (uint8_t)byte;
        }
    }
}

const struct random_kernels KV(random_kernels) = {
    .words = words,
    .uniform_f32 = uniform_f32,
    .uniform_f64 = uniform_f64,
    .normal_f32 = normal_f32,
    .normal_f64 = normal_f64,
    .exponential_f32 = exponential_f32,
    .exponential_f64 = exponential_f64,
    .bounded = bounded,
    .bits = bits,
};
