/* pool.c - pooling over one plane. */
#include "softnpu/kernel/pool.h"
#include <stdbool.h>

/* Runs its argument for every output, with its three windows as d, h, w and its position o. */
#define FOR_OUTPUTS(...)                                                                                     \
    int64_t o = 0;                                                                                           \
    for (int64_t od = 0; od < g->out[0]; od++)                                                               \
        for (int64_t oh = 0; oh < g->out[1]; oh++)                                                           \
            for (int64_t ow = 0; ow < g->out[2]; ow++, o++) {                                                \
                const struct pool_window *d = g->window[0] + od, *h = g->window[1] + oh,                     \
                                         *w = g->window[2] + ow;                                             \
                __VA_ARGS__                                                                                  \
            }
/* Runs its argument for every row of the windows, with its start in the plane as row. */
#define FOR_ROWS(...)                                                                                        \
    for (int64_t z = d->lo; z < d->hi; z += d->step)                                                         \
        for (int64_t y = h->lo; y < h->hi; y += h->step) {                                                   \
            int64_t row = (z * g->in[1] + y) * g->in[2];                                                     \
            __VA_ARGS__                                                                                      \
        }

#define MAX(T, name)                                                                                         \
    static void max_##name(const struct pool_geom *g, const void *src, void *dst, int32_t *index)            \
    {                                                                                                        \
        const T *in = src;                                                                                   \
        T *out = dst;                                                                                        \
        FOR_OUTPUTS({                                                                                        \
            int64_t best = (d->lo * g->in[1] + h->lo) * g->in[2] + w->lo;                                    \
            T most = in[best];                                                                               \
            FOR_ROWS({                                                                                       \
                for (int64_t x = row + w->lo; x < row + w->hi; x += w->step)                                 \
                    if (in[x] > most || in[x] != in[x]) most = in[x], best = x;                              \
            })                                                                                               \
            out[o] = most;                                                                                   \
            index[o] = (int32_t)best;                                                                        \
        })                                                                                                   \
    }
MAX(float, f32)
MAX(double, f64)
MAX(int64_t, i64)

/* Widest row that is summed over a window's height first, so that the long loop is the vectorised one. */
enum { WIDE = 2048 };

#define AVERAGE(T, name)                                                                                     \
    static T sum_##name(const T *p, int64_t n)                                                               \
    {                                                                                                        \
        T lane[8] = {0}, sum = 0;                                                                            \
        int64_t i = 0;                                                                                       \
        for (; i + 8 <= n; i += 8)                                                                           \
            for (int j = 0; j < 8; j++) lane[j] += p[i + j];                                                 \
        for (; i < n; i++) sum += p[i];                                                                      \
        return sum +                                                                                         \
               (((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7])));  \
    }                                                                                                        \
    static T divisor_##name(const struct pool_geom *g, const struct pool_window *d,                          \
                            const struct pool_window *h, const struct pool_window *w)                        \
    {                                                                                                        \
        return g->divisor != 0 ? (T)g->divisor : (T)(d->span * h->span * w->span);                           \
    }                                                                                                        \
    /* buffer: the rows that d and h cover, added up. */                                                     \
    static void add_rows_##name(const struct pool_geom *g, const T *in, const struct pool_window *d,         \
                                const struct pool_window *h, T *restrict buffer)                             \
    {                                                                                                        \
        int64_t W = g->in[2];                                                                                \
        for (int64_t x = 0; x < W; x++) buffer[x] = 0;                                                       \
        FOR_ROWS({                                                                                           \
            for (int64_t x = 0; x < W; x++) buffer[x] += in[row + x];                                        \
        })                                                                                                   \
    }                                                                                                        \
    static void average_rows_##name(const struct pool_geom *g, const T *in, T *out)                          \
    {                                                                                                        \
        T buffer[WIDE];                                                                                      \
        FOR_OUTPUTS({                                                                                        \
            T sum = 0;                                                                                       \
            int64_t n = w->hi - w->lo;                                                                       \
            if (!ow) add_rows_##name(g, in, d, h, buffer);                                                   \
            if (n < 8)                                                                                       \
                for (int64_t x = w->lo; x < w->hi; x++) sum += buffer[x];                                    \
            else                                                                                             \
                sum = sum_##name(buffer + w->lo, n);                                                         \
            bool any = d->hi > d->lo && h->hi > h->lo && n > 0;                                              \
            out[o] = any ? sum / divisor_##name(g, d, h, w) : 0;                                             \
        })                                                                                                   \
    }                                                                                                        \
    static void average_##name(const struct pool_geom *g, const void *src, void *dst)                        \
    {                                                                                                        \
        const T *in = src;                                                                                   \
        T *out = dst;                                                                                        \
        if (g->in[2] <= WIDE) {                                                                              \
            average_rows_##name(g, in, out);                                                                 \
            return;                                                                                          \
        }                                                                                                    \
        FOR_OUTPUTS({                                                                                        \
            T sum = 0;                                                                                       \
            int64_t n = w->hi - w->lo;                                                                       \
            FOR_ROWS({ sum += sum_##name(in + row + w->lo, n); })                                            \
            out[o] = d->hi > d->lo && h->hi > h->lo && n > 0 ? sum / divisor_##name(g, d, h, w) : 0;         \
        })                                                                                                   \
    }                                                                                                        \
    static void average_back_##name(const struct pool_geom *g, const void *grad_out, void *grad_in)          \
    {                                                                                                        \
        const T *out = grad_out;                                                                             \
        T *in = grad_in;                                                                                     \
        FOR_OUTPUTS({                                                                                        \
            T share = out[o] / divisor_##name(g, d, h, w);                                                   \
            FOR_ROWS({                                                                                       \
                for (int64_t x = row + w->lo; x < row + w->hi; x++) in[x] += share;                          \
            })                                                                                               \
        })                                                                                                   \
    }
AVERAGE(float, f32)
AVERAGE(double, f64)

const struct pool_kernels KV(pool_kernels) = {
    .max = {max_f32, max_f64, max_i64},
    .average = {average_f32, average_f64},
    .average_back = {average_back_f32, average_back_f64},
};
