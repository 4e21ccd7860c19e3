/* rnn_util.c - matrices of floats in kernel memory. */
#include "softnpu/op/rnn_util.h"

#include "softnpu/op/gemm.h"

#include <string.h>

void rnn_product(op_call *call, int64_t m, int64_t n, int64_t k, const float *a, bool ta, const float *b,
                 bool tb, float beta, float *c)
{
    struct gemm g;
    if (m == 0 || n == 0) return;
    gemm_init(&g, ACL_FLOAT, m, n, k);
    g.a = (struct mat){.p = (void *)(uintptr_t)a, .rs = ta ? 1 : k, .cs = ta ? m : 1};
    g.b = (struct mat){.p = (void *)(uintptr_t)b, .rs = tb ? 1 : n, .cs = tb ? k : 1};
    g.c = (struct mat){.p = c, .rs = n, .cs = 1};
    g.alpha = 1;
    g.beta = beta;
    gemm_run(call, &g);
}

float *rnn_floats(op_call *c, int64_t n)
{
    float *p = op_scratch(c, (size_t)(n + 1) * sizeof *p);
    memset(p, 0, (size_t)n * sizeof *p);
    return p;
}

void rnn_add_bias(float *x, int64_t rows, int64_t columns, const float *bias)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns; k++) x[r * columns + k] += bias[k];
}

void rnn_add_rows(float *sum, const float *x, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns; k++) sum[k] += x[r * columns + k];
}
