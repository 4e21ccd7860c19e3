/* strided.c - moving elements between strided and contiguous memory, by element size. */
#include "softnpu/kernel/strided.h"

#include <stdbool.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef struct {
    uint64_t part[2];
} u128;

#define SIZES(X) X(0, uint8_t) X(1, uint16_t) X(2, uint32_t) X(3, uint64_t) X(4, u128)

#define LOOPS(i, type)                                                                                       \
    static void gather_##i(void *restrict dst, const void *restrict src, int64_t stride, int64_t n)          \
    {                                                                                                        \
        type *restrict d = dst;                                                                              \
        const type *restrict s = src;                                                                        \
        if (stride == 1)                                                                                     \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) d[k] = s[k * stride];                                            \
    }                                                                                                        \
    static void scatter_##i(void *restrict dst, int64_t stride, const void *restrict src, int64_t n)         \
    {                                                                                                        \
        type *restrict d = dst;                                                                              \
        const type *restrict s = src;                                                                        \
        if (stride == 1)                                                                                     \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) d[k * stride] = s[k];                                            \
    }                                                                                                        \
    static void fill_##i(void *restrict dst, const void *restrict value, int64_t n)                          \
    {                                                                                                        \
        type *restrict d = dst, v;                                                                           \
        memcpy(&v, value, sizeof v);                                                                         \
        for (int64_t k = 0; k < n; k++) d[k] = v;                                                            \
    }
SIZES(LOOPS)

/* Tiles small enough that rows a power of two apart do not push each other out of the first cache. */
enum { TILE_ROWS = 16, TILE_COLUMNS = 8 };
static inline int64_t at_most(int64_t n, int64_t limit)
{
    return n < limit ? n : limit;
}

/* What the registers transpose at once: 8 by 8 elements of 4 and of 2 bytes. */
#if defined(__AVX2__)
static inline void block_2(char *d, int64_t dst_step, const char *s, int64_t src_step)
{
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps((const float *)(const void *)(s + i * src_step));
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], _MM_SHUFFLE(1, 0, 1, 0));
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], _MM_SHUFFLE(3, 2, 3, 2));
        }
    for (int i = 0; i < 4; i++) {
        __m256 low = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20),
               high = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
        _mm256_storeu_ps((float *)(void *)(d + i * dst_step), low);
        _mm256_storeu_ps((float *)(void *)(d + (i + 4) * dst_step), high);
    }
}
static inline void block_1(char *d, int64_t dst_step, const char *s, int64_t src_step)
{
    __m128i r[8], t[8];
    for (int i = 0; i < 8; i++) r[i] = _mm_loadu_si128((const __m128i *)(const void *)(s + i * src_step));
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm_unpacklo_epi16(r[i], r[i + 1]);
        t[i + 1] = _mm_unpackhi_epi16(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm_unpacklo_epi32(t[i + j], t[i + 2 + j]);
            r[i + 2 * j + 1] = _mm_unpackhi_epi32(t[i + j], t[i + 2 + j]);
        }
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(void *)(d + 2 * i * dst_step), _mm_unpacklo_epi64(r[i], r[i + 4]));
        _mm_storeu_si128((__m128i *)(void *)(d + (2 * i + 1) * dst_step), _mm_unpackhi_epi64(r[i], r[i + 4]));
    }
}
#endif

/* A whole tile by registers; false where there is no such way. Steps in bytes. */
#define NO_WHOLE_TILE(k)                                                                                     \
    static inline bool whole_tile_##k(char *d, int64_t dst_step, const char *s, int64_t src_step)            \
    {                                                                                                        \
        (void)d, (void)dst_step, (void)s, (void)src_step;                                                    \
        return false;                                                                                        \
    }
#define WHOLE_TILE(k, type)                                                                                  \
    static inline bool whole_tile_##k(char *d, int64_t dst_step, const char *s, int64_t src_step)            \
    {                                                                                                        \
        for (int64_t r = 0; r < TILE_ROWS; r += 8)                                                           \
            block_##k(d + r * dst_step, dst_step, s + r * (int64_t)sizeof(type), src_step);                  \
        return true;                                                                                         \
    }
NO_WHOLE_TILE(0)
NO_WHOLE_TILE(3)
NO_WHOLE_TILE(4)
#if defined(__AVX2__)
WHOLE_TILE(1, uint16_t)
WHOLE_TILE(2, uint32_t)
#else
NO_WHOLE_TILE(1)
NO_WHOLE_TILE(2)
#endif

#define TRANSPOSE(k, type)                                                                                   \
    static void transpose_##k(void *restrict dst, int64_t dst_step, const void *restrict src,                \
                              int64_t src_step, int64_t rows, int64_t columns)                               \
    {                                                                                                        \
        type tile[TILE_COLUMNS][TILE_ROWS];                                                                  \
        for (int64_t r = 0; r < rows; r += TILE_ROWS)                                                        \
            for (int64_t c = 0; c < columns; c += TILE_COLUMNS) {                                            \
                int64_t nr = at_most(rows - r, TILE_ROWS), nc = at_most(columns - c, TILE_COLUMNS);          \
                const type *s = (const type *)src + r + c * src_step;                                        \
                type *d = (type *)dst + r * dst_step + c;                                                    \
                if (nr == TILE_ROWS && nc == TILE_COLUMNS &&                                                 \
                    whole_tile_##k((char *)d, dst_step * (int64_t)sizeof *d, (const char *)s,                \
                                   src_step * (int64_t)sizeof *s))                                           \
                    continue;                                                                                \
                for (int64_t j = 0; j < nc; j++) memcpy(tile[j], s + j * src_step, (size_t)nr * sizeof *s);  \
                for (int64_t i = 0; i < nr; i++)                                                             \
                    for (int64_t j = 0; j < nc; j++) d[i * dst_step + j] = tile[j][i];                       \
            }                                                                                                \
    }
SIZES(TRANSPOSE)

#define GATHER(i, type) gather_##i,
#define SCATTER(i, type) scatter_##i,
#define FILL(i, type) fill_##i,
#define TRANSPOSED(i, type) transpose_##i,

const struct strided_kernels KV(strided_kernels) = {
    .gather = {SIZES(GATHER)},
    .scatter = {SIZES(SCATTER)},
    .fill = {SIZES(FILL)},
    .transpose = {SIZES(TRANSPOSED)},
};
