/* upsample.c - resizing by nearest, linear, cubic and antialiased filters, and the gradients: one table of
 * taps per dimension, one plane a piece. The sampling positions are torch's. */
#include "softnpu/kernel/resample.h"
#include "softnpu/op/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum mode { NEAREST, EXACT, LINEAR, CUBIC, LINEAR_AA, CUBIC_AA };
struct upsample {
    enum mode mode;
    int8_t spatial;
    bool backward;
    int8_t align, scales; /* where these arguments stand, -1: none */
};
static const struct upsample nearest_1d_sized = {NEAREST, 1, false, -1, -1};
static const struct upsample nearest_1d = {NEAREST, 1, false, -1, 2};
static const struct upsample nearest_2d_sized = {NEAREST, 2, false, -1, -1};
static const struct upsample nearest_2d = {NEAREST, 2, false, -1, 2};
static const struct upsample nearest_3d = {NEAREST, 3, false, -1, 2};
static const struct upsample nearest_1d_back = {NEAREST, 1, true, -1, 3};
static const struct upsample nearest_2d_back = {NEAREST, 2, true, -1, 3};
static const struct upsample nearest_3d_back = {NEAREST, 3, true, -1, 3};
static const struct upsample exact_1d = {EXACT, 1, false, -1, 2};
static const struct upsample exact_2d = {EXACT, 2, false, -1, 2};
static const struct upsample exact_3d = {EXACT, 3, false, -1, 2};
static const struct upsample exact_1d_back = {EXACT, 1, true, -1, 3};
static const struct upsample exact_2d_back = {EXACT, 2, true, -1, 3};
static const struct upsample exact_3d_back = {EXACT, 3, true, -1, 3};
static const struct upsample linear_1d = {LINEAR, 1, false, 2, 3};
static const struct upsample linear_1d_back = {LINEAR, 1, true, 3, 4};
static const struct upsample linear_2d = {LINEAR, 2, false, 2, 3};
static const struct upsample linear_2d_back = {LINEAR, 2, true, 3, 4};
static const struct upsample linear_3d = {LINEAR, 3, false, 2, 3};
static const struct upsample linear_3d_back = {LINEAR, 3, true, 3, 4};
static const struct upsample cubic_2d = {CUBIC, 2, false, 2, 3};
static const struct upsample cubic_2d_back = {CUBIC, 2, true, 3, 4};
static const struct upsample linear_aa_2d = {LINEAR_AA, 2, false, 2, 3};
static const struct upsample linear_aa_2d_back = {LINEAR_AA, 2, true, 3, 4};
static const struct upsample cubic_aa_2d = {CUBIC_AA, 2, false, 2, 3};
static const struct upsample cubic_aa_2d_back = {CUBIC_AA, 2, true, 3, 4};

/* ---- checks ------------------------------------------------------------------------------------------ */

static const aclTensor *result(const op_call *c)
{
    return c->arg[c->row->nparam - 1].t;
}

/* How many times smaller a 910B makes an image at most (constraints of the documents). 0: no limit. */
static int64_t most_shrink(const struct upsample *u)
{
    if (u->mode == LINEAR_AA || u->mode == CUBIC_AA || (u->mode == LINEAR && u->spatial == 3)) return 50;
    return u->mode == LINEAR && u->spatial == 1 && u->backward ? 500 : 0;
}

static int check_limits(const op_call *c, const struct upsample *u, const aclTensor *before,
                        const aclTensor *after)
{
    int64_t most = most_shrink(u);
    char bs[256], as[256];
    if (rt_settings()->accept_any) return 0;
    if (sn_numel(before) == 0 || sn_numel(after) == 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "empty tensors are not resampled");
    for (int i = 0; most && i < u->spatial; i++)
        if (before->dim[2 + i] > most * after->dim[2 + i])
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s to %s is more than %lld times smaller",
                           sn_shape_str(before, bs), sn_shape_str(after, as), (long long)most);
    return 0;
}

static int check_upsample(op_call *c)
{
    const struct upsample *u = c->row->aux;
    const aclTensor *t = c->arg[0].t, *out = result(c);
    const aclIntArray *size = c->arg[1].ia, *in_size = u->backward ? c->arg[2].ia : NULL;
    int64_t dim[SN_MAX_DIMS];
    if (t->rank != u->spatial + 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected %d", c->row->param[0].name,
                       t->rank, u->spatial + 2);
    if ((int64_t)size->n != u->spatial || (in_size && (int64_t)in_size->n != t->rank))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "outputSize needs %d values, inputSize %d", u->spatial,
                       t->rank);
    const aclTensor *large = u->backward ? t : out, *small = u->backward ? out : t;
    memcpy(dim, small->dim, sizeof dim);
    for (int i = 0; i < u->spatial; i++) {
        dim[2 + i] = size->v[i];
        if (size->v[i] < 1 || (small->rank == t->rank && small->dim[2 + i] < 1))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "sizes of dimension %d must be positive", 2 + i);
    }
    int rc = op_need_shape(c, large == out ? c->row->nparam - 1 : 0, dim, t->rank);
    if (!rc && in_size) rc = op_need_shape(c, c->row->nparam - 1, in_size->v, t->rank);
    if (!rc) rc = check_limits(c, u, small, large);
    if (!rc) rc = op_need_same_dtype(c, 0, c->row->nparam - 1);
    if (rc) return rc;
    aclDataType type = sn_compute(t->dtype);
    bool copies = type == ACL_UINT8 && (u->mode == NEAREST || u->mode == EXACT) && !u->backward;
    if (type != ACL_FLOAT && type != ACL_DOUBLE && !copies)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is not resampled", sn_dtype(t->dtype)->name);
    c->plan[0] = type == ACL_FLOAT || type == ACL_UINT8 ? ACL_FLOAT : ACL_DOUBLE;
    return 0;
}

/* ---- taps -------------------------------------------------------------------------------------------- */

struct axis {
    int64_t in, out;
    double given;       /* scale factor from the caller, not positive: none */
    bool align, single; /* single: positions are computed in float, as torch does for all but double */
};

static double in_float(const struct axis *a, double x)
{
    return a->single ? (double)(float)x : x;
}

/* Input elements per output element. */
static double step_of(const struct axis *a, enum mode m)
{
    if (m != NEAREST && m != EXACT && a->align)
        return a->out > 1 ? in_float(a, (double)(a->in - 1) / (double)(a->out - 1)) : 0;
    if (a->given > 0) return in_float(a, 1 / a->given);
    return in_float(a, (double)a->in / (double)a->out);
}

static double position(const struct axis *a, double step, int64_t o)
{
    if (a->align) return in_float(a, step * (double)o);
    return in_float(a, in_float(a, step * ((double)o + 0.5)) - 0.5);
}

static int32_t clamp(int64_t x, int64_t n)
{
    return (int32_t)(x < 0 ? 0 : x >= n ? n - 1 : x);
}

/* Keys' cubic with parameter k, at distance x. */
static double cubic(double x, double k)
{
    x = fabs(x);
    if (x < 1) return ((k + 2) * x - (k + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * k * x - 4 * k : 0;
}

/* A place far outside reads the same border element as one a few steps outside, and has an integer. */
static double nearby(const struct axis *a, double x)
{
    return fmin(fmax(x, -8), (double)a->in + 8);
}

static int fill_taps(const struct axis *a, enum mode m, double step, int64_t o, int32_t *at, double *w)
{
    double x = nearby(a, position(a, step, o));
    if (m == NEAREST || m == EXACT) {
        double from = (double)o + (m == EXACT ? 0.5 : 0);
        at[0] = clamp((int64_t)floor(nearby(a, in_float(a, from * step))), a->in), w[0] = 1;
        return 1;
    }
    if (m == LINEAR && x < 0) x = 0;
    int64_t first = (int64_t)floor(x);
    double t = in_float(a, x - (double)first);
    if (m == LINEAR) {
        at[0] = clamp(first, a->in), at[1] = clamp(first + 1, a->in);
        w[0] = 1 - t, w[1] = t;
        return 2;
    }
    for (int i = 0; i < 4; i++) at[i] = clamp(first - 1 + i, a->in), w[i] = cubic(t + 1 - i, -0.75);
    return 4;
}

/* A place among n inputs: x towards zero, within them. */
static int64_t place_within(double x, int64_t n)
{
    return !(x > 0) ? 0 : x < (double)n ? (int64_t)x : n;
}

/* The antialiasing filter stretches with the step, so that it covers all inputs of a larger one. */
static int fill_smooth(const struct axis *a, enum mode m, double step, int64_t o, int32_t *at, double *w)
{
    double stretch = step > 1 ? step : 1, support = (m == CUBIC_AA ? 2 : 1) * stretch, sum = 0;
    double center = in_float(a, step * ((double)o + 0.5));
    int64_t lo = place_within(center - support + 0.5, a->in),
            hi = place_within(center + support + 0.5, a->in);
    int n = (int)(hi - lo);
    for (int i = 0; i < n; i++) {
        double x = ((double)(lo + i) - center + 0.5) / stretch;
        at[i] = (int32_t)(lo + i);
        w[i] = m == CUBIC_AA ? cubic(x, -0.5) : fabs(x) < 1 ? 1 - fabs(x) : 0;
        sum += w[i];
    }
    for (int i = 0; i < n && sum != 0; i++) w[i] /= sum;
    return n;
}

static struct taps make_taps(op_call *c, const struct axis *a, enum mode m)
{
    bool smooth = m == LINEAR_AA || m == CUBIC_AA;
    double step = step_of(a, m), reach = step > 1 ? step : 1;
    int64_t most = smooth ? place_within(ceil(2 * (m == CUBIC_AA ? 2 : 1) * reach) + 2, a->in) : 4;
    int32_t *begin = op_scratch(c, (size_t)(a->out + 1) * sizeof *begin);
    int32_t *at = op_scratch(c, (size_t)(a->out * most) * sizeof *at);
    double *w = op_scratch(c, (size_t)(a->out * most) * sizeof *w);
    begin[0] = 0;
    for (int64_t o = 0; o < a->out; o++)
        begin[o + 1] =
            begin[o] + (smooth ? fill_smooth : fill_taps)(a, m, step, o, at + begin[o], w + begin[o]);
    if (!a->single) return (struct taps){begin, at, w};
    float *single = op_scratch(c, (size_t)begin[a->out] * sizeof *single + 1);
    sn_convert(single, ACL_FLOAT, w, ACL_DOUBLE, begin[a->out]);
    return (struct taps){begin, at, single};
}

/* ---- running ----------------------------------------------------------------------------------------- */

struct job {
    struct resample r;
    bool backward;
    int kind; /* 0 float, 1 double */
    size_t size;
    int64_t in_plane, out_plane;
    char *in, *out;
};

static void piece(void *ctx, int64_t begin, int64_t end)
{
    const struct job *j = ctx;
    double fixed[512], *row = fixed;
    if ((size_t)j->r.in[2] * j->size > sizeof fixed) row = malloc((size_t)j->r.in[2] * j->size);
    if (!row) abort();
    for (int64_t i = begin; i < end; i++) {
        char *in = j->in + (size_t)(i * j->in_plane) * j->size,
             *out = j->out + (size_t)(i * j->out_plane) * j->size;
        if (j->backward) {
            memset(in, 0, (size_t)j->in_plane * j->size);
            resample_kernels()->backward[j->kind](&j->r, out, in, row);
        } else
            resample_kernels()->forward[j->kind](&j->r, in, out, row);
    }
    if (row != fixed) free(row);
}

static struct job make_job(op_call *c, const struct upsample *u, const aclTensor *in, const aclTensor *out)
{
    aclDataType type = (aclDataType)c->plan[0];
    struct job j = {.backward = u->backward,
                    .kind = type == ACL_DOUBLE,
                    .size = sn_size(type),
                    .in_plane = 1,
                    .out_plane = 1};
    j.r.plain = u->mode == NEAREST || u->mode == EXACT;
    for (int d = 0; d < 3; d++) {
        int i = d - (3 - u->spatial);
        struct axis a = {1, 1, 0, false, type != ACL_DOUBLE};
        if (i >= 0) a.in = in->dim[2 + i], a.out = out->dim[2 + i];
        if (i >= 0 && u->scales >= 0) a.given = c->arg[u->scales + i].d;
        a.align = i >= 0 && u->align >= 0 && c->arg[u->align].i;
        j.r.in[d] = a.in, j.r.out[d] = a.out;
        j.r.taps[d] = make_taps(c, &a, i < 0 ? NEAREST : u->mode);
        j.in_plane *= a.in, j.out_plane *= a.out;
    }
    return j;
}

static int run_upsample(op_call *c)
{
    const struct upsample *u = c->row->aux;
    aclDataType type = (aclDataType)c->plan[0];
    const aclTensor *in = u->backward ? result(c) : c->arg[0].t, *out = u->backward ? c->arg[0].t : result(c);
    if (sn_numel(in) == 0 || sn_numel(out) == 0) return 0;
    struct job j = make_job(c, u, in, out);
    j.in = u->backward ? op_out(c, in, type) : op_in(c, in, type);
    j.out = u->backward ? op_in(c, out, type) : op_out(c, out, type);
    rt_pool_run(in->dim[0] * in->dim[1], (1 << 14) / (j.in_plane + j.out_plane) + 1, piece, &j);
    op_out_done(c, result(c), type, u->backward ? j.in : j.out);
    return 0;
}

#define OP_FILE "softnpu/op/upsample.inc"
#define OP_TABLE op_rows_upsample
#include "softnpu/op/rows.h"
