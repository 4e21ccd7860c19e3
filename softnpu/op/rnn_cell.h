/* rnn_cell.h - one time step of LSTM and GRU, forward and backward, on rows of floats. Gates stand as torch
 * orders them: i, f, g, o for LSTM and r, z, n for GRU, each of `hidden` columns. All functions work on
 * `rows` rows. */
#ifndef SOFTNPU_OP_RNN_CELL_H
#define SOFTNPU_OP_RNN_CELL_H

#include <stdint.h>

/* gates: pre-activations in, activations out. c, tanhc, h: outputs. */
void lstm_cell(int64_t rows, int64_t hidden, float *gates, const float *c_before, float *c, float *tanhc,
               float *h);
/* Activations and states in; dgates: gradients of the pre-activations; dc: in, the gradient of c from later
 * steps, out, that of c_before. */
void lstm_cell_backward(int64_t rows, int64_t hidden, const float *gates, const float *c_before,
                        const float *tanhc, const float *dh, float *dc, float *dgates);
/* x: pre-activations from the input in, activations out; hn: the hidden part of n's pre-activation; hr, hz:
 * those of r, z. hgates holds [hr, hz, hn] a row. */
void gru_cell(int64_t rows, int64_t hidden, float *x, const float *hgates, const float *h_before, float *h);
/* dx: gradients of the input's pre-activations, dhg: of the hidden state's; dh: in, the gradient of h, out,
 * the part of h_before's gradient that does not go through the weights. */
void gru_cell_backward(int64_t rows, int64_t hidden, const float *gates, const float *hn,
                       const float *h_before, float *dh, float *dx, float *dhg);

#endif
