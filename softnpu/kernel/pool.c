/* pool.c - pooling over one plane. */
#include "softnpu/kernel/pool.h"

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
    static void average_##name(const struct pool_geom *g, const void *src, void *dst)                        \
    {                                                                                                        \
        const T *in = src;                                                                                   \
        T *out = dst;                                                                                        \
        FOR_OUTPUTS({                                                                                        \
            T sum = 0;                                                                                       \
            int64_t n = w->hi - w->lo;                                                                       \
            FOR_ROWS(                                                                                        \
                { sum += n < 8 ? sum_short_##name(in + row + w->lo, n) : sum_##name(in + row + w->lo, n); }) \
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
#define SUM_SHORT(T, name)                                                                                   \
    static inline T sum_short_##name(const T *p, int64_t n)                                                  \
    {                                                                                                        \
        T sum = 0;                                                                                           \
        for (int64_t i = 0; i < n; i++) sum += p[i];                                                         \
        return sum;                                                                                          \
    }
SUM_SHORT(float, f32)
SUM_SHORT(double, f64)
AVERAGE(float, f32)
AVERAGE(double, f64)

const struct pool_kernels KV(pool_kernels) = {
    .max = {max_f32, max_f64, max_i64},
    .average = {average_f32, average_f64},
    .average_back = {average_back_f32, average_back_f64},
};
