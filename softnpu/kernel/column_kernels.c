/* column_kernels.c - softmax and cumulative sums of rows that lie across memory. */
#include "softnpu/kernel/column_kernels.h"
#include "softnpu/kernel/vexp.h"

#include <math.h>

/* The exponentials of e[0..m), m rounded up to a vector; LOW: for numbers up to 0. */
#define EXP_BLOCK(name, exponential)                                                                         \
    V_INLINE void name(float *e, int64_t m)                                                                  \
    {                                                                                                        \
        for (int64_t j = 0; j < m; j += VF_N) {                                                              \
            vf v = VF_LOAD(e + j);                                                                           \
            exponential(&v);                                                                                 \
            VF_STORE(e + j, v);                                                                              \
        }                                                                                                    \
    }
EXP_BLOCK(exp_low, vf_exp_low)
EXP_BLOCK(exp_any, vf_exp)

struct block {
    float top[COLUMN_BLOCK];
    double sum[COLUMN_BLOCK];
};

/* The largest numbers of m rows (NaNs are left out: they spoil the sum) and the sums of exp(x - top); the
 * exponentials themselves go to y unless it is NULL. */
V_INLINE void exp_sums(struct block *b, float *y, const float *x, int64_t n, int64_t step, int64_t m)
{
    float e[COLUMN_BLOCK] = {0};
    for (int64_t j = 0; j < m; j++) b->top[j] = -INFINITY, b->sum[j] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) b->top[j] = x[i * step + j] > b->top[j] ? x[i * step + j] : b->top[j];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) e[j] = x[i * step + j] - b->top[j];
        exp_low(e, m);
        for (int64_t j = 0; j < m; j++) b->sum[j] += (double)e[j];
        for (int64_t j = 0; y && j < m; j++) y[i * step + j] = e[j];
    }
}

V_INLINE void softmax_block(float *y, const float *x, int64_t n, int64_t step, int64_t m)
{
    struct block b;
    float scale[COLUMN_BLOCK];
    exp_sums(&b, y, x, n, step, m);
    for (int64_t j = 0; j < m; j++) scale[j] = (float)(1 / b.sum[j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) y[i * step + j] *= scale[j];
}

V_INLINE void log_softmax_block(float *y, const float *x, int64_t n, int64_t step, int64_t m)
{
    struct block b;
    float rest[COLUMN_BLOCK];
    exp_sums(&b, NULL, x, n, step, m);
    for (int64_t j = 0; j < m; j++) rest[j] = (float)log(b.sum[j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) y[i * step + j] = (x[i * step + j] - b.top[j]) - rest[j];
}

V_INLINE void softmax_grad_block(float *dx, const float *dy, const float *y, int64_t n, int64_t step,
                                 int64_t m)
{
    double sum[COLUMN_BLOCK] = {0};
    float s[COLUMN_BLOCK];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) sum[j] += (double)(dy[i * step + j] * y[i * step + j]);
    for (int64_t j = 0; j < m; j++) s[j] = (float)sum[j];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) dx[i * step + j] = (dy[i * step + j] - s[j]) * y[i * step + j];
}

V_INLINE void log_softmax_grad_block(float *dx, const float *dy, const float *y, int64_t n, int64_t step,
                                     int64_t m)
{
    double sum[COLUMN_BLOCK] = {0};
    float s[COLUMN_BLOCK], e[COLUMN_BLOCK] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) sum[j] += (double)dy[i * step + j];
    for (int64_t j = 0; j < m; j++) s[j] = (float)sum[j];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) e[j] = y[i * step + j];
        exp_any(e, m);
        for (int64_t j = 0; j < m; j++) dx[i * step + j] = dy[i * step + j] - e[j] * s[j];
    }
}

#define CUMULATE(name, first, op)                                                                            \
    V_INLINE void name##_block(float *y, const float *x, int64_t n, int64_t step, int64_t m)                 \
    {                                                                                                        \
        double so_far[COLUMN_BLOCK];                                                                         \
        for (int64_t j = 0; j < m; j++) so_far[j] = first;                                                   \
        for (int64_t i = 0; i < n; i++)                                                                      \
            for (int64_t j = 0; j < m; j++) {                                                                \
                so_far[j] = so_far[j] op(double) x[i * step + j];                                            \
                y[i * step + j] = (float)so_far[j];                                                          \
            }                                                                                                \
    }
CUMULATE(cumsum, 0, +)
CUMULATE(cumprod, 1, *)

/* A whole block has loops of constant length. */
#define WHOLE_OR_PART(name, parameters, ...)                                                                 \
    static void name parameters                                                                              \
    {                                                                                                        \
        if (m == COLUMN_BLOCK)                                                                               \
            name##_block(__VA_ARGS__, n, step, COLUMN_BLOCK);                                                \
        else                                                                                                 \
            name##_block(__VA_ARGS__, n, step, m);                                                           \
    }
#define ONE_INPUT (float *y, const float *x, int64_t n, int64_t step, int64_t m)
#define TWO_INPUTS (float *dx, const float *dy, const float *y, int64_t n, int64_t step, int64_t m)
WHOLE_OR_PART(softmax, ONE_INPUT, y, x)
WHOLE_OR_PART(log_softmax, ONE_INPUT, y, x)
WHOLE_OR_PART(softmax_grad, TWO_INPUTS, dx, dy, y)
WHOLE_OR_PART(log_softmax_grad, TWO_INPUTS, dx, dy, y)
WHOLE_OR_PART(cumsum, ONE_INPUT, y, x)
WHOLE_OR_PART(cumprod, ONE_INPUT, y, x)

const struct column_kernels KV(column_kernels) = {
    .softmax = softmax,
    .log_softmax = log_softmax,
    .softmax_grad = softmax_grad,
    .log_softmax_grad = log_softmax_grad,
    .cumsum = cumsum,
    .cumprod = cumprod,
};
