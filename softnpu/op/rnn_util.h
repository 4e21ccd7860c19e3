/* rnn_util.h - matrices of floats in kernel memory, as the recurrent networks use them. */
#ifndef SOFTNPU_OP_RNN_UTIL_H
#define SOFTNPU_OP_RNN_UTIL_H

#include "softnpu/op/op.h"

/* c (m by n) = op(a) op(b) + beta c; a is m by k, or k by m when ta; b is k by n, or n by k when tb. */
void rnn_product(op_call *call, int64_t m, int64_t n, int64_t k, const float *a, bool ta, const float *b,
                 bool tb, float beta, float *c);
/* n floats of scratch, zeroed. */
float *rnn_floats(op_call *c, int64_t n);
/* rows of `columns` numbers += bias */
void rnn_add_bias(float *x, int64_t rows, int64_t columns, const float *bias);
/* sum += all rows */
void rnn_add_rows(float *sum, const float *x, int64_t rows, int64_t columns);

#endif
