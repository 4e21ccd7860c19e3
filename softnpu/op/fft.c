/* fft.c - short-time Fourier transforms: the frames' products with a windowed basis, as the device computes
 * them. */
#include "softnpu/op/gemm.h"

#include <math.h>

/* aclStft: (self [batch,] len; window of win_length or null; output [batch,] bins, frames, complex or pairs).
 * The window stands in the middle of n_fft places. Public source: op-plugin's StftKernelNpuOpApi.cpp,
 * torch.stft. */
struct stft {
    int64_t batch, length, n, hop, window, frames, bins;
    bool normalized;
};

static void stft_of(const op_call *c, struct stft *f)
{
    const aclTensor *self = c->arg[0].t;
    bool batched = self->rank == 2;
    *f = (struct stft){.batch = batched ? self->dim[0] : 1, .length = self->dim[self->rank - 1]};
    f->n = c->arg[3].i;
    f->hop = c->arg[4].i;
    f->window = c->arg[5].i;
    f->normalized = c->arg[6].i;
    f->bins = c->arg[7].i ? f->n / 2 + 1 : f->n;
    f->frames = f->hop > 0 && f->n > 0 ? (f->length - f->n) / f->hop + 1 : 0;
}

static int check_stft(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *window = c->arg[1].t, *out = c->arg[2].t;
    if (self->rank != 1 && self->rank != 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self has %d dimensions, expected 1 or 2", self->rank);
    if (self->dtype != ACL_FLOAT && self->dtype != ACL_DOUBLE)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self not implemented for DT_%s",
                       sn_dtype(self->dtype)->name);
    struct stft f;
    stft_of(c, &f);
    if (f.n < 1 || f.n > f.length || f.hop < 1 || f.window < 1 || f.window > f.n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "%lld elements do not have frames of %lld every %lld with a window of %lld",
                       (long long)f.length, (long long)f.n, (long long)f.hop, (long long)f.window);
    if (window && (window->rank != 1 || window->dim[0] != f.window || window->dtype != self->dtype))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the window is not of %lld elements of self's type",
                       (long long)f.window);
    aclDataType paired = self->dtype == ACL_FLOAT ? ACL_COMPLEX64 : ACL_COMPLEX128;
    if (out->dtype != (c->arg[8].i ? paired : self->dtype))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "output not implemented for DT_%s",
                       sn_dtype(out->dtype)->name);
    int64_t dim[4] = {f.batch, f.bins, f.frames, 2};
    int skip = self->rank == 1;
    return op_need_shape(c, 2, dim + skip, (c->arg[8].i ? 3 : 4) - skip);
}

/* Rows of cosines, then of negative sines, times the window: [2 * bins, n]. */
static void fill_basis(const struct stft *f, const double *window, double *basis)
{
    const int64_t left = (f->n - f->window) / 2;
    const double scale = f->normalized ? 1 / sqrt((double)f->n) : 1;
    for (int64_t k = 0; k < f->bins; k++)
        for (int64_t j = 0; j < f->n; j++) {
            bool inside = j >= left && j < left + f->window;
            double w = inside ? scale * (window ? window[j - left] : 1) : 0;
            double angle = 2 * M_PI * (double)(k * j % f->n) / (double)f->n;
            basis[k * f->n + j] = w * cos(angle);
            basis[(f->bins + k) * f->n + j] = -w * sin(angle);
        }
}

static int run_stft(op_call *c)
{
    const aclTensor *window = c->arg[1].t, *out = c->arg[2].t;
    struct stft f;
    stft_of(c, &f);
    if (!sn_numel(out)) return 0;
    const size_t plane = (size_t)(f.bins * f.frames);
    const double *x = op_in(c, c->arg[0].t, ACL_DOUBLE);
    double *basis = op_scratch(c, sizeof *basis * (size_t)(2 * f.bins * f.n));
    double *frames = op_scratch(c, sizeof *frames * (size_t)(f.frames * f.n));
    double *parts = op_scratch(c, sizeof *parts * 2 * plane);
    double *to = op_scratch(c, sizeof *to * 2 * plane * (size_t)f.batch);
    fill_basis(&f, window ? op_in(c, window, ACL_DOUBLE) : NULL, basis);
    struct gemm g;
    gemm_init(&g, ACL_DOUBLE, 2 * f.bins, f.frames, f.n);
    g.a = (struct mat){.p = basis, .rs = f.n, .cs = 1};
    g.b = (struct mat){.p = frames, .rs = 1, .cs = f.n};
    g.c = (struct mat){.p = parts, .rs = f.frames, .cs = 1};
    for (int64_t b = 0; b < f.batch; b++) {
        for (int64_t i = 0; i < f.frames * f.n; i++) frames[i] = x[b * f.length + i / f.n * f.hop + i % f.n];
        gemm_run(c, &g);
        double *pair = to + 2 * plane * (size_t)b;
        for (size_t i = 0; i < plane; i++) {
            pair[2 * i] = parts[i];
            pair[2 * i + 1] = parts[plane + i];
        }
    }
    op_out_done(c, out, sn_is_complex(out->dtype) ? ACL_COMPLEX128 : ACL_DOUBLE, to);
    return 0;
}

#define OP_FILE "softnpu/op/fft.inc"
#define OP_TABLE op_rows_fft
#include "softnpu/op/rows.h"
