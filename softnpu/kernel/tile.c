/* tile.c - products of a few rows with a packed panel, sums in registers. Compiled with contraction: the
 * library that it stands beside multiplies and adds in one step too. */
#include "softnpu/kernel/tile.h"
#include "softnpu/kernel/half.h"
#include "softnpu/kernel/strided.h"
#include "softnpu/kernel/vexp.h"

#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

/* Rows times vectors of columns that the registers hold besides a row of the panel and one factor. */
enum { ROWS = 6, VECTORS = V_BYTES == 64 ? 4 : 2, COLUMNS = VECTORS * VF_N };
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
typedef float row_t[COLUMNS];

/* ---- storing ----------------------------------------------------------------------------------------- */

#define PUT(name, T, LOAD, KEEP)                                                                             \
    static void name(const struct tile *t, int64_t i, const float *restrict sum)                             \
    {                                                                                                        \
        T *restrict c = (T *)t->c + i * t->crs;                                                              \
        const int64_t n = t->n, s = t->ccs;                                                                  \
        const float alpha = t->alpha, beta = t->beta;                                                        \
        if (s == 1 && alpha == 1 && beta == 0)                                                               \
            for (int64_t j = 0; j < n; j++) c[j] = KEEP(sum[j]);                                             \
        else if (beta == 0)                                                                                  \
            for (int64_t j = 0; j < n; j++) c[j * s] = KEEP(alpha * sum[j]);                                 \
        else                                                                                                 \
            for (int64_t j = 0; j < n; j++) c[j * s] = KEEP(alpha * sum[j] + beta * LOAD(c[j * s]));         \
    }
PUT(put_f32, float, , )
#if defined(__AVX512F__)
PUT(put_bf16, uint16_t, bf16_to_f32, f32_to_bf16)
#endif

/* ---- products ---------------------------------------------------------------------------------------- */

/* mr rows of a and the first nv vectors of the panel's columns; both are constants where this is inlined. */
V_INLINE void sum_f32_at(const struct tile *t, int64_t i0, row_t *sum, int mr, int nv)
{
    const float *a = (const float *)t->a + i0 * t->ars, *panel = t->panel;
    const int64_t ars = t->ars, k = t->k, *at = t->at;
    vf acc[ROWS][VECTORS];
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < nv; v++) acc[i][v] = (vf){0};
    for (int64_t p = 0; p < k; p++) {
        const float *row = panel + at[p];
        vf b[VECTORS];
        UNROLL for (int v = 0; v < nv; v++) b[v] = VF_LOAD(row + v * VF_N);
        UNROLL for (int i = 0; i < mr; i++)
        {
            vf x = (vf){0} + a[i * ars + p];
            UNROLL for (int v = 0; v < nv; v++) acc[i][v] += x * b[v];
        }
    }
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < nv; v++)
        VF_STORE(&sum[i][v * VF_N], acc[i][v]);
}

#if defined(__AVX512F__)
#define TARGET_BF16 __attribute__((target("avx512bf16")))
/* One pair of rows of the panel. odd: the row of a ends after the first of the two. */
TARGET_BF16 V_INLINE void add_pair(__m512 acc[ROWS][VECTORS], const uint16_t *a, int64_t ars,
                                   const uint32_t *panel, int mr, int nv, bool odd)
{
    __m512bh b[VECTORS];
    UNROLL for (int v = 0; v < nv; v++) b[v] = (__m512bh)_mm512_loadu_si512(panel + v * VF_N);
    UNROLL for (int i = 0; i < mr; i++)
    {
        uint32_t pair = 0;
        memcpy(&pair, a + i * ars, odd ? 2 : 4);
        __m512bh x = (__m512bh)_mm512_set1_epi32((int)pair);
        UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_dpbf16_ps(acc[i][v], x, b[v]);
    }
}

TARGET_BF16 V_INLINE void sum_bf16(const struct tile *t, int64_t i0, row_t *sum, int mr, int nv)
{
    const uint16_t *a = (const uint16_t *)t->a + i0 * t->ars;
    const uint32_t *panel = t->panel;
    const int64_t ars = t->ars, k = t->k;
    __m512 acc[ROWS][VECTORS];
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_ps();
    for (int64_t p = 0; p + 1 < k; p += 2, panel += COLUMNS) add_pair(acc, a + p, ars, panel, mr, nv, false);
    if (k % 2) add_pair(acc, a + k - 1, ars, panel, mr, nv, true);
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < nv; v++)
        _mm512_storeu_ps(&sum[i][v * VF_N], acc[i][v]);
}

TARGET_BF16 V_INLINE void sum_bf16_at(const struct tile *t, int64_t i0, row_t *sum, int mr, int nv)
{
    const uint16_t *a = (const uint16_t *)t->a + i0 * t->ars;
    const uint32_t *panel = t->panel;
    const int64_t ars = t->ars, k = t->k, *at = t->at;
    __m512 acc[ROWS][VECTORS];
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < nv; v++) acc[i][v] = _mm512_setzero_ps();
    for (int64_t p = 0; p < k; p++) add_pair(acc, a + 2 * p, ars, panel + at[p], mr, nv, false);
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < nv; v++)
        _mm512_storeu_ps(&sum[i][v * VF_N], acc[i][v]);
}
#endif

/* One function a number of vectors; the rows past the last full six go by fewer at a time. */
#define RUN(name, put, nv, TARGET)                                                                           \
    TARGET static void run_##name##_##nv(const struct tile *t)                                               \
    {                                                                                                        \
        _Alignas(64) row_t sum[ROWS];                                                                        \
        int64_t i = 0;                                                                                       \
        for (int64_t some; i < t->m; i += some) {                                                            \
            some = t->m - i >= ROWS ? ROWS : t->m - i >= 3 ? 3 : 1;                                          \
            if (some == ROWS)                                                                                \
                sum_##name(t, i, sum, ROWS, nv);                                                             \
            else if (some == 3)                                                                              \
                sum_##name(t, i, sum, 3, nv);                                                                \
            else                                                                                             \
                sum_##name(t, i, sum, 1, nv);                                                                \
            for (int64_t r = 0; r < some; r++) put(t, i + r, sum[r]);                                        \
        }                                                                                                    \
    }
typedef void (*run_fn)(const struct tile *t);
#define ENTRY(name, nv) [nv - 1] = run_##name##_##nv,
#if V_BYTES == 64
#define EACH(X, ...) X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4)
#else
#define EACH(X, ...) X(__VA_ARGS__, 1) X(__VA_ARGS__, 2)
#endif
#define RUN_FOR(name, put, TARGET, nv) RUN(name, put, nv, TARGET)
#define RUNS(name, put, TARGET)                                                                              \
    EACH(RUN_FOR, name, put, TARGET)                                                                         \
    static void run_##name(const struct tile *t)                                                             \
    {                                                                                                        \
        static const run_fn by_vectors[VECTORS] = {EACH(ENTRY, name)};                                       \
        by_vectors[(t->n - 1) / VF_N](t);                                                                    \
    }
RUNS(f32_at, put_f32, )
#if defined(__AVX512F__)
RUNS(bf16, put_bf16, TARGET_BF16)
RUNS(bf16_at, put_f32, TARGET_BF16)

/* ---- panels ------------------------------------------------------------------------------------------ */

extern const struct strided_kernels KV(strided_kernels);

static void pair_rows(const uint16_t *restrict first, const uint16_t *restrict second, int64_t n,
                      uint32_t *restrict to)
{
    for (int64_t j = 0; j < n; j++) to[j] = first[j] | (uint32_t)second[j] << 16;
}

/* Columns that lie along k: pairs are 32-bit elements of theirs, when every column starts at an even place.
 */
static void pack_along(const uint16_t *b, int64_t cs, int64_t k, int64_t n, uint32_t *to)
{
    if (cs % 2 == 0) KV(strided_kernels).transpose[2](to, COLUMNS, b, cs / 2, k / 2, n);
    for (int64_t p = 0; p < k; p += 2)
        for (int64_t j = 0; j < n && (cs % 2 || p + 1 == k); j++)
            to[p / 2 * COLUMNS + j] = b[p + j * cs] | (p + 1 < k ? (uint32_t)b[p + 1 + j * cs] << 16 : 0);
}

static void pack_bf16(const void *b, int64_t rs, int64_t cs, int64_t k, int64_t n, void *panel)
{
    static const uint16_t zeros[COLUMNS];
    const uint16_t *from = b;
    uint32_t *to = panel;
    if (rs == 1 && cs != 1) pack_along(from, cs, k, n, to);
    for (int64_t p = 0; p < k; p += 2, to += COLUMNS) {
        const uint16_t *first = from + p * rs, *second = p + 1 < k ? first + rs : zeros;
        if (cs == 1)
            pair_rows(first, second, n, to);
        else if (rs != 1)
            for (int64_t j = 0; j < n; j++)
                to[j] = first[j * cs] | (p + 1 < k ? (uint32_t)second[j * cs] << 16 : 0);
        memset(to + n, 0, (size_t)(COLUMNS - n) * sizeof *to);
    }
}

#endif

const struct tile_kernels KV(tile_kernels) = {
    .columns = COLUMNS,
    .run_at = {[TILE_F32] = run_f32_at},
#if defined(__AVX512F__)
    .bf16 = true,
    .pack = pack_bf16,
    .run = run_bf16,
    .run_at[TILE_BF16] = run_bf16_at,
#endif
};
