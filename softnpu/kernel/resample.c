/* resample.c - resampling of one plane. */
#include "softnpu/kernel/resample.h"
#include <string.h>

#define RESAMPLE(T, name)                                                                                    \
    /* y += w x */                                                                                           \
    static void axpy_##name(int64_t n, T w, const T *restrict x, T *restrict y)                              \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) y[i] += w * x[i];                                                    \
    }                                                                                                        \
    /* The input rows that output row (d, h) mixes, as one row: a row of the input itself when only one      \
     * counts. */                                                                                            \
    static const T *mix_##name(const struct resample *r, const T *in, int64_t d, int64_t h, T *row)          \
    {                                                                                                        \
        const struct taps *td = &r->taps[0], *th = &r->taps[1];                                              \
        int64_t W = r->in[2];                                                                                \
        if (r->plain) return in + (td->at[d] * r->in[1] + th->at[h]) * W;                                    \
        memset(row, 0, (size_t)W * sizeof *row);                                                             \
        for (int32_t i = td->begin[d]; i < td->begin[d + 1]; i++)                                            \
            for (int32_t j = th->begin[h]; j < th->begin[h + 1]; j++)                                        \
                axpy_##name(W, ((const T *)td->weight)[i] * ((const T *)th->weight)[j],                      \
                            in + (td->at[i] * r->in[1] + th->at[j]) * W, row);                               \
        return row;                                                                                          \
    }                                                                                                        \
    static void forward_##name(const struct resample *r, const void *src, void *dst, void *row)              \
    {                                                                                                        \
        T *out = dst;                                                                                        \
        const struct taps *tw = &r->taps[2];                                                                 \
        const T *w = tw->weight;                                                                             \
        for (int64_t d = 0; d < r->out[0]; d++)                                                              \
            for (int64_t h = 0; h < r->out[1]; h++, out += r->out[2]) {                                      \
                const T *x = mix_##name(r, src, d, h, row);                                                  \
                if (r->plain) {                                                                              \
                    for (int64_t o = 0; o < r->out[2]; o++) out[o] = x[tw->at[o]];                           \
                    continue;                                                                                \
                }                                                                                            \
                for (int64_t o = 0; o < r->out[2]; o++) {                                                    \
                    T sum = 0;                                                                               \
                    for (int32_t i = tw->begin[o]; i < tw->begin[o + 1]; i++) sum += w[i] * x[tw->at[i]];    \
                    out[o] = sum;                                                                            \
                }                                                                                            \
            }                                                                                                \
    }                                                                                                        \
    static void backward_##name(const struct resample *r, const void *grad_out, void *grad_in, void *buffer) \
    {                                                                                                        \
        const T *out = grad_out;                                                                             \
        T *row = buffer, *in = grad_in;                                                                      \
        const struct taps *td = &r->taps[0], *th = &r->taps[1], *tw = &r->taps[2];                           \
        const T *w = tw->weight;                                                                             \
        int64_t W = r->in[2];                                                                                \
        for (int64_t d = 0; d < r->out[0]; d++)                                                              \
            for (int64_t h = 0; h < r->out[1]; h++, out += r->out[2]) {                                      \
                memset(row, 0, (size_t)W * sizeof *row);                                                     \
                for (int64_t o = 0; o < r->out[2]; o++)                                                      \
                    for (int32_t i = tw->begin[o]; i < tw->begin[o + 1]; i++)                                \
                        row[tw->at[i]] += w[i] * out[o];                                                     \
                for (int32_t i = td->begin[d]; i < td->begin[d + 1]; i++)                                    \
                    for (int32_t j = th->begin[h]; j < th->begin[h + 1]; j++)                                \
                        axpy_##name(W, ((const T *)td->weight)[i] * ((const T *)th->weight)[j], row,         \
                                    in + (td->at[i] * r->in[1] + th->at[j]) * W);                            \
            }                                                                                                \
    }
RESAMPLE(float, f32)
RESAMPLE(double, f64)

const struct resample_kernels KV(resample_kernels) = {.forward = {forward_f32, forward_f64},
                                                      .backward = {backward_f32, backward_f64}};
