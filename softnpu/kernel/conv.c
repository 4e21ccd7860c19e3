/* conv.c - the inner loops of convolution. */
#include "softnpu/kernel/conv.h"
#include <complex.h>
#include <stdbool.h>
#include <string.h>

/* One tap: where it reads, relative to the small side. */
struct tap {
    int64_t at[3]; /* k*dilation - pad, per dimension */
};
static struct tap tap_of(const struct conv_geom *g, int64_t t)
{
    int64_t kw = t % g->kernel[2], kh = t / g->kernel[2] % g->kernel[1], kd = t / g->kernel[2] / g->kernel[1];
    return (struct tap){
        {kd * g->dilation[0] - g->pad[0], kh * g->dilation[1] - g->pad[1], kw * g->dilation[2] - g->pad[2]}};
}

/* The part of the width [w0, w1) whose big index lies inside; *lo == *hi when none does. */
static void inside(const struct conv_geom *g, const struct tap *t, int64_t w0, int64_t w1, int64_t *lo,
                   int64_t *hi)
{
    int64_t s = g->stride[2], first = t->at[2] >= 0 ? 0 : (-t->at[2] + s - 1) / s;
    int64_t room = g->big[2] - t->at[2], last = room <= 0 ? 0 : (room + s - 1) / s;
    *lo = first < w0 ? w0 : first > w1 ? w1 : first;
    *hi = last < *lo ? *lo : last > w1 ? w1 : last;
}

/* Start of the big row under the tap for row (d, h) of the small side, or -1 if it is outside. */
static int64_t big_row(const struct conv_geom *g, const struct tap *t, int64_t d, int64_t h)
{
    int64_t bd = d * g->stride[0] + t->at[0], bh = h * g->stride[1] + t->at[1];
    if (bd < 0 || bd >= g->big[0] || bh < 0 || bh >= g->big[1]) return -1;
    return (bd * g->big[1] + bh) * g->big[2];
}

typedef struct {
    uint64_t v[2];
} wide16;

#define UNFOLD(name, T)                                                                                      \
    static void name(const struct conv_geom *g, const void *big, int64_t r0, int64_t r1, int64_t p0,         \
                     int64_t p1, void *col, int64_t ld)                                                      \
    {                                                                                                        \
        int64_t taps = conv_taps(g), size = conv_big(g), W = g->small[2], H = g->small[1], s = g->stride[2]; \
        for (int64_t r = r0; r < r1; r++) {                                                                  \
            struct tap t = tap_of(g, r % taps);                                                              \
            const T *chan = (const T *)big + r / taps * size;                                                \
            T *out = (T *)col + (r - r0) * ld;                                                               \
            int64_t w0 = p0 % W, h = p0 / W % H, d = p0 / W / H;                                             \
            for (int64_t p = p0; p < p1; w0 = 0) {                                                           \
                int64_t w1 = W - w0 < p1 - p ? W : w0 + (p1 - p), lo, hi, row = big_row(g, &t, d, h);        \
                inside(g, &t, w0, w1, &lo, &hi);                                                             \
                if (row < 0) lo = hi = w1;                                                                   \
                memset(out, 0, (size_t)(lo - w0) * sizeof *out);                                             \
                const T *src = chan + row + t.at[2];                                                         \
                if (s == 1 && hi > lo)                                                                       \
                    memcpy(out + (lo - w0), src + lo, (size_t)(hi - lo) * sizeof *out);                      \
                else                                                                                         \
                    for (int64_t w = lo; w < hi; w++) out[w - w0] = src[w * s];                              \
                memset(out + (hi - w0), 0, (size_t)(w1 - hi) * sizeof *out);                                 \
                out += w1 - w0, p += w1 - w0;                                                                \
                if (++h == H) h = 0, d++;                                                                    \
            }                                                                                                \
        }                                                                                                    \
    }
UNFOLD(unfold_1, uint8_t)
UNFOLD(unfold_2, uint16_t)
UNFOLD(unfold_4, uint32_t)
UNFOLD(unfold_8, uint64_t)
UNFOLD(unfold_16, wide16)

#define FOLD(name, T)                                                                                        \
    static void name(const struct conv_geom *g, void *big, int64_t r0, int64_t r1, const void *col,          \
                     int64_t ld)                                                                             \
    {                                                                                                        \
        int64_t taps = conv_taps(g), size = conv_big(g), W = g->small[2], s = g->stride[2];                  \
        for (int64_t r = r0; r < r1; r++) {                                                                  \
            struct tap t = tap_of(g, r % taps);                                                              \
            T *chan = (T *)big + r / taps * size;                                                            \
            const T *in = (const T *)col + (r - r0) * ld;                                                    \
            int64_t lo, hi;                                                                                  \
            inside(g, &t, 0, W, &lo, &hi);                                                                   \
            for (int64_t d = 0; d < g->small[0]; d++)                                                        \
                for (int64_t h = 0; h < g->small[1]; h++, in += W) {                                         \
                    int64_t row = big_row(g, &t, d, h);                                                      \
                    if (row < 0) continue;                                                                   \
                    T *dst = chan + row + t.at[2];                                                           \
                    if (s == 1)                                                                              \
                        for (int64_t w = lo; w < hi; w++) dst[w] += in[w];                                   \
                    else                                                                                     \
                        for (int64_t w = lo; w < hi; w++) dst[w * s] += in[w];                               \
                }                                                                                            \
        }                                                                                                    \
    }
FOLD(fold_f32, float)
FOLD(fold_f64, double)
FOLD(fold_c64, float _Complex)
FOLD(fold_c128, double _Complex)

/* Visits every row of the small side under every tap: n elements from big + bo (big stride s) and small + so.
 * BODY may use x, the tap's weight, and sum; AFTER ends the tap. */
#define DEPTHWISE(BODY, AFTER)                                                                               \
    int64_t s = g->stride[2], W = g->small[2];                                                               \
    for (int64_t k = 0; k < conv_taps(g); k++) {                                                             \
        struct tap t = tap_of(g, k);                                                                         \
        int64_t lo, hi;                                                                                      \
        inside(g, &t, 0, W, &lo, &hi);                                                                       \
        for (int64_t d = 0; d < g->small[0]; d++)                                                            \
            for (int64_t h = 0; h < g->small[1]; h++) {                                                      \
                int64_t row = big_row(g, &t, d, h), n = hi - lo;                                             \
                if (row < 0 || n <= 0) continue;                                                             \
                int64_t bo = row + t.at[2] + lo * s, so = (d * g->small[1] + h) * W + lo;                    \
                BODY                                                                                         \
            }                                                                                                \
        AFTER                                                                                                \
    }

static void depth_small(const struct conv_geom *g, const float *big, const float *w, float *restrict small)
{
    DEPTHWISE(if (s == 1) for (int64_t i = 0; i < n; i++) small[so + i] += w[k] * big[bo + i];
              else for (int64_t i = 0; i < n; i++) small[so + i] += w[k] * big[bo + i * s];, )
}

static void depth_big(const struct conv_geom *g, float *restrict big, const float *w, const float *small)
{
    DEPTHWISE(if (s == 1) for (int64_t i = 0; i < n; i++) big[bo + i] += w[k] * small[so + i];
              else for (int64_t i = 0; i < n; i++) big[bo + i * s] += w[k] * small[so + i];, )
}

/* Sixteen running sums: they vectorise, and lose less than one. */
static float dot(const float *a, int64_t sa, const float *b, int64_t n)
{
    float lane[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) lane[j] += a[(i + j) * sa] * b[i + j];
    for (; i < n; i++) sum += a[i * sa] * b[i];
    for (int j = 0; j < 16; j++) sum += lane[j];
    return sum;
}

static void depth_weight(const struct conv_geom *g, const float *big, float *w, const float *small)
{
    DEPTHWISE(w[k] += s == 1 ? dot(big + bo, 1, small + so, n) : dot(big + bo, s, small + so, n);, )
}

const struct conv_kernels KV(conv_kernels) = {
    .unfold = {unfold_1, unfold_2, unfold_4, unfold_8, unfold_16},
    .fold = {fold_f32, fold_f64, fold_c64, fold_c128},
    .depth_small = depth_small,
    .depth_big = depth_big,
    .depth_weight = depth_weight,
};
