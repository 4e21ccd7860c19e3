/* grid.c - sampling an image at given positions: every point becomes up to 16 taps per image, with weights
 * and the weights' slopes along each coordinate. Positions, padding and reflection are torch's. */
#include "softnpu/kernel/grid.h"
#include <math.h>

enum { MOST = 16 };

#define GRID(T, name, FLOOR, FABS, RINT)                                                                     \
    struct point_##name {                                                                                    \
        int n;                                                                                               \
        int64_t at[MOST];               /* in the plane; -1: outside, counts as 0 */                         \
        T weight[MOST], slope[3][MOST]; /* d weight / d coordinate of the grid, width first */               \
    };                                                                                                       \
    /* Grid coordinate in [-1, 1] to pixels; *slope is the derivative. */                                    \
    static T pixels_##name(const struct grid *g, T x, int64_t size, T *slope)                                \
    {                                                                                                        \
        *slope = g->align ? (T)(size - 1) / 2 : (T)size / 2;                                                 \
        return g->align ? (x + 1) / 2 * (T)(size - 1) : ((x + 1) * (T)size - 1) / 2;                         \
    }                                                                                                        \
    static T clip_##name(T x, int64_t size, T *slope)                                                        \
    {                                                                                                        \
        T top = (T)(size - 1);                                                                               \
        if (x > 0 && x < top) return x;                                                                      \
        *slope = 0;                                                                                          \
        return x >= top ? top : 0; /* NaN too */                                                             \
    }                                                                                                        \
    static T reflect_##name(T x, int64_t low2, int64_t high2, T *slope)                                      \
    {                                                                                                        \
        if (low2 == high2) {                                                                                 \
            *slope = 0;                                                                                      \
            return 0;                                                                                        \
        }                                                                                                    \
        T low = (T)low2 / 2, span = (T)(high2 - low2) / 2, y = x - low;                                      \
        if (y < 0) y = -y, *slope = -*slope;                                                                 \
        T turns = FLOOR(y / span), rest = y - turns * span;                                                  \
        if (turns == 2 * FLOOR(turns / 2)) return rest + low;                                                \
        *slope = -*slope;                                                                                    \
        return span - rest + low;                                                                            \
    }                                                                                                        \
    static T padded_##name(const struct grid *g, T x, int64_t size, T *slope)                                \
    {                                                                                                        \
        if (g->padding == GRID_BORDER) x = clip_##name(x, size, slope);                                      \
        if (g->padding == GRID_REFLECTION) {                                                                 \
            x = g->align ? reflect_##name(x, 0, 2 * (size - 1), slope)                                       \
                         : reflect_##name(x, -1, 2 * size - 1, slope);                                       \
            x = clip_##name(x, size, slope);                                                                 \
        }                                                                                                    \
        return x;                                                                                            \
    }                                                                                                        \
    /* What is far outside, or not a number, has no index. */                                                \
    static int64_t index_##name(T x, int64_t size)                                                           \
    {                                                                                                        \
        return x >= 0 && x < (T)size ? (int64_t)x : -1;                                                      \
    }                                                                                                        \
    static void linear_##name(const struct grid *g, const T *x, const T *slope, struct point_##name *p)      \
    {                                                                                                        \
        p->n = 1 << g->dims;                                                                                 \
        for (int t = 0; t < p->n; t++) {                                                                     \
            int64_t at = 0;                                                                                  \
            T w[3] = {1, 1, 1}, s[3] = {0, 0, 0};                                                            \
            for (int d = g->dims - 1; d >= 0; d--) {                                                         \
                int high = t >> d & 1;                                                                       \
                T low = FLOOR(x[d]), part = x[d] - low;                                                      \
                int64_t i = index_##name(low + (T)high, g->in[2 - d]);                                       \
                at = at < 0 || i < 0 ? -1 : at * g->in[2 - d] + i;                                           \
                w[d] = high ? part : 1 - part;                                                               \
                s[d] = high ? slope[d] : -slope[d];                                                          \
            }                                                                                                \
            p->at[t] = at;                                                                                   \
            p->weight[t] = w[0] * w[1] * w[2];                                                               \
            p->slope[0][t] = s[0] * w[1] * w[2];                                                             \
            p->slope[1][t] = w[0] * s[1] * w[2];                                                             \
            p->slope[2][t] = w[0] * w[1] * s[2];                                                             \
        }                                                                                                    \
    }                                                                                                        \
    static void nearest_##name(const struct grid *g, const T *x, struct point_##name *p)                     \
    {                                                                                                        \
        p->n = 1;                                                                                            \
        p->at[0] = 0, p->weight[0] = 1;                                                                      \
        for (int d = g->dims - 1; d >= 0; d--) {                                                             \
            int64_t i = index_##name(RINT(x[d]), g->in[2 - d]);                                              \
            p->at[0] = p->at[0] < 0 || i < 0 ? -1 : p->at[0] * g->in[2 - d] + i;                             \
            p->slope[d][0] = 0;                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    /* Cubic weights (parameter -3/4) of the four neighbours of a point t past the second, and their slopes. \
     */                                                                                                      \
    static void cubic_##name(T t, T *w, T *s)                                                                \
    {                                                                                                        \
        const T k = (T)-0.75;                                                                                \
        for (int i = 0; i < 4; i++) {                                                                        \
            T x = t + 1 - (T)i, side = x < 0 ? -1 : 1;                                                       \
            x = FABS(x);                                                                                     \
            if (i == 1 || i == 2) {                                                                          \
                w[i] = ((k + 2) * x - (k + 3)) * x * x + 1;                                                  \
                s[i] = side * (3 * (k + 2) * x - 2 * (k + 3)) * x;                                           \
            } else {                                                                                         \
                w[i] = ((x - 5) * x + 8) * k * x - 4 * k;                                                    \
                s[i] = side * k * ((3 * x - 10) * x + 8);                                                    \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    /* Bicubic: the neighbours are padded one by one, so padding does not bend the slope. */                 \
    static void bicubic_##name(const struct grid *g, const T *x, const T *slope, struct point_##name *p)     \
    {                                                                                                        \
        T wx[4], sx[4], wy[4], sy[4], low[2] = {FLOOR(x[0]), FLOOR(x[1])}, ignore;                           \
        cubic_##name(x[0] - low[0], wx, sx);                                                                 \
        cubic_##name(x[1] - low[1], wy, sy);                                                                 \
        p->n = 16;                                                                                           \
        for (int t = 0; t < 16; t++) {                                                                       \
            int i = t % 4, j = t / 4;                                                                        \
            int64_t col = index_##name(padded_##name(g, low[0] - 1 + (T)i, g->in[2], &ignore), g->in[2]);    \
            int64_t row = index_##name(padded_##name(g, low[1] - 1 + (T)j, g->in[1], &ignore), g->in[1]);    \
            p->at[t] = col < 0 || row < 0 ? -1 : row * g->in[2] + col;                                       \
            p->weight[t] = wx[i] * wy[j];                                                                    \
            p->slope[0][t] = sx[i] * wy[j] * slope[0];                                                       \
            p->slope[1][t] = wx[i] * sy[j] * slope[1];                                                       \
        }                                                                                                    \
    }                                                                                                        \
    static void point_##name(const struct grid *g, const T *at, struct point_##name *p)                      \
    {                                                                                                        \
        T x[3], slope[3];                                                                                    \
        for (int d = 0; d < g->dims; d++) {                                                                  \
            x[d] = pixels_##name(g, at[d], g->in[2 - d], &slope[d]);                                         \
            if (g->mode != GRID_CUBIC) x[d] = padded_##name(g, x[d], g->in[2 - d], &slope[d]);               \
        }                                                                                                    \
        if (g->mode == GRID_CUBIC)                                                                           \
            bicubic_##name(g, x, slope, p);                                                                  \
        else if (g->mode == GRID_NEAREST)                                                                    \
            nearest_##name(g, x, p);                                                                         \
        else                                                                                                 \
            linear_##name(g, x, slope, p);                                                                   \
    }                                                                                                        \
    static void forward_##name(const struct grid *g, const void *src, const void *grid, int64_t p0,          \
                               int64_t p1, void *dst)                                                        \
    {                                                                                                        \
        const T *in = src, *at = grid;                                                                       \
        int64_t plane = g->in[0] * g->in[1] * g->in[2];                                                      \
        for (int64_t i = p0; i < p1; i++) {                                                                  \
            struct point_##name p;                                                                           \
            point_##name(g, at + i * g->dims, &p);                                                           \
            for (int64_t c = 0; c < g->channels; c++) {                                                      \
                T sum = 0;                                                                                   \
                for (int t = 0; t < p.n; t++)                                                                \
                    if (p.at[t] >= 0) sum += p.weight[t] * in[c * plane + p.at[t]];                          \
                ((T *)dst)[c * g->points + i] = sum;                                                         \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void backward_##name(const struct grid *g, const void *src, const void *grid,                     \
                                const void *grad_out, void *grad_in, void *grad_at)                          \
    {                                                                                                        \
        const T *in = src, *at = grid, *out = grad_out;                                                      \
        T *gin = grad_in, *gat = grad_at;                                                                    \
        int64_t plane = g->in[0] * g->in[1] * g->in[2];                                                      \
        for (int64_t i = 0; i < g->points; i++) {                                                            \
            struct point_##name p;                                                                           \
            T sum[3] = {0, 0, 0};                                                                            \
            point_##name(g, at + i * g->dims, &p);                                                           \
            for (int64_t c = 0; c < g->channels; c++)                                                        \
                for (int t = 0; t < p.n; t++) {                                                              \
                    if (p.at[t] < 0) continue;                                                               \
                    T y = out[c * g->points + i];                                                            \
                    if (gin) gin[c * plane + p.at[t]] += p.weight[t] * y;                                    \
                    for (int d = 0; gat && d < g->dims; d++)                                                 \
                        sum[d] += p.slope[d][t] * in[c * plane + p.at[t]] * y;                               \
                }                                                                                            \
            for (int d = 0; gat && d < g->dims; d++) gat[i * g->dims + d] = sum[d];                          \
        }                                                                                                    \
    }
GRID(float, f32, floorf, fabsf, rintf)
GRID(double, f64, floor, fabs, rint)

const struct grid_kernels KV(grid_kernels) = {.forward = {forward_f32, forward_f64},
                                              .backward = {backward_f32, backward_f64}};
