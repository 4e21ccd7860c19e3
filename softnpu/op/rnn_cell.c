/* rnn_cell.c - one time step of LSTM and GRU, forward and backward. */
#include "softnpu/op/rnn_cell.h"

#include "softnpu/kernel/vmath.h"

void lstm_cell(int64_t rows, int64_t hidden, float *gates, const float *c_before, float *c, float *tanhc,
               float *h)
{
    for (int64_t r = 0; r < rows; r++) {
        float *i = gates + r * 4 * hidden, *f = i + hidden, *g = f + hidden, *o = g + hidden;
        const float *before = c_before + r * hidden;
        vmath_sigmoid_f32(2 * hidden, i, i);
        vmath_f32(VM_TANH, hidden, g, g);
        vmath_sigmoid_f32(hidden, o, o);
        for (int64_t k = 0; k < hidden; k++) c[r * hidden + k] = f[k] * before[k] + i[k] * g[k];
        vmath_f32(VM_TANH, hidden, c + r * hidden, tanhc + r * hidden);
        for (int64_t k = 0; k < hidden; k++) h[r * hidden + k] = o[k] * tanhc[r * hidden + k];
    }
}

void lstm_cell_backward(int64_t rows, int64_t hidden, const float *gates, const float *c_before,
                        const float *tanhc, const float *dh, float *dc, float *dgates)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *i = gates + r * 4 * hidden, *f = i + hidden, *g = f + hidden, *o = g + hidden;
        float *di = dgates + r * 4 * hidden, *df = di + hidden, *dg = df + hidden, *d_o = dg + hidden;
        for (int64_t k = 0; k < hidden; k++) {
            int64_t at = r * hidden + k;
            float t = tanhc[at], total = dc[at] + dh[at] * o[k] * (1 - t * t);
            di[k] = total * g[k] * i[k] * (1 - i[k]);
            df[k] = total * c_before[at] * f[k] * (1 - f[k]);
            dg[k] = total * i[k] * (1 - g[k] * g[k]);
            d_o[k] = dh[at] * t * o[k] * (1 - o[k]);
            dc[at] = total * f[k];
        }
    }
}

void gru_cell(int64_t rows, int64_t hidden, float *x, const float *hgates, const float *h_before, float *h)
{
    for (int64_t row = 0; row < rows; row++) {
        float *r = x + row * 3 * hidden, *z = r + hidden, *n = z + hidden;
        const float *hr = hgates + row * 3 * hidden, *hn = hr + 2 * hidden, *before = h_before + row * hidden;
        for (int64_t k = 0; k < 2 * hidden; k++) r[k] += hr[k];
        vmath_sigmoid_f32(2 * hidden, r, r);
        for (int64_t k = 0; k < hidden; k++) n[k] += r[k] * hn[k];
        vmath_f32(VM_TANH, hidden, n, n);
        for (int64_t k = 0; k < hidden; k++) h[row * hidden + k] = n[k] + z[k] * (before[k] - n[k]);
    }
}

void gru_cell_backward(int64_t rows, int64_t hidden, const float *gates, const float *hn,
                       const float *h_before, float *dh, float *dx, float *dhg)
{
    for (int64_t row = 0; row < rows; row++) {
        const float *r = gates + row * 3 * hidden, *z = r + hidden, *n = z + hidden;
        float *xr = dx + row * 3 * hidden, *gr = dhg + row * 3 * hidden;
        for (int64_t k = 0; k < hidden; k++) {
            int64_t at = row * hidden + k;
            float d = dh[at], pre_n = d * (1 - z[k]) * (1 - n[k] * n[k]);
            xr[k] = gr[k] = pre_n * hn[at] * r[k] * (1 - r[k]);
            xr[hidden + k] = gr[hidden + k] = d * (h_before[at] - n[k]) * z[k] * (1 - z[k]);
            xr[2 * hidden + k] = pre_n;
            gr[2 * hidden + k] = pre_n * r[k];
            dh[at] = d * z[k];
        }
    }
}
