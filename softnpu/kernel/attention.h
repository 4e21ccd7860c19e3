/* attention.h - one row of attention scores: mask, softmax, dropout, and their gradients. */
#ifndef SOFTNPU_ATTENTION_H
#define SOFTNPU_ATTENTION_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stdint.h>

struct score_row {
    int64_t n; /* keys */
    float scale;
    const float *bias;      /* added to each score, or NULL */
    bool scale_bias;        /* before scaling */
    const uint8_t *mask;    /* not 0: hidden; or NULL */
    int64_t prefix, lo, hi; /* a key is visible below prefix and in [lo, hi) */
    const uint8_t *keep;    /* dropout bits, first at keep_bit; NULL: no dropout */
    int64_t keep_bit;
    float keep_scale; /* 1 / probability */
};
struct attention_kernels {
    /* score[n] becomes the probabilities after dropout. *max and *sum describe the softmax; without a visible
     * key the row is zero, *max -infinity, *sum 0. */
    void (*forward)(const struct score_row *r, float *score, float *max, float *sum);
    /* score: raw scores in, probabilities after dropout out. grad: gradient of those in; out, the gradient of
     * what the softmax took, times scale. */
    void (*backward)(const struct score_row *r, float *score, float *grad, float max, float sum);
    /* y = softmax(scale*x, hidden ones -10000), and its gradient times scale, 0 where hidden; mask may be
     * NULL. */
    void (*masked)(int64_t n, const float *x, const uint8_t *mask, float scale, float *y);
    void (*masked_back)(int64_t n, const float *grad, const float *y, const uint8_t *mask, float scale,
                        float *out);
};
KERNEL_PICK(attention_kernels)

#endif
