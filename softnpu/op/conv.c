/* conv.c - convolutions of one to three spatial dimensions, transposed or not, and their gradients. */
#include "softnpu/op/conv_problem.h"
#include "softnpu/op/conv_tile.h"
#include "softnpu/op/convolve.h"
#include "softnpu/op/gemm.h"

#include <string.h>

/* ---- reading the arguments
 * --------------------------------------------------------------------------------------- */

static int32_t spatial(const struct conv_problem *p)
{
    return p->weight.rank - 2;
}

/* n values, one per spatial dimension or one for all, right aligned in out; missing dimensions keep what out
 * has. */
static int read_array(const op_call *c, const struct conv_problem *p, const aclIntArray *a, const char *what,
                      int64_t least, int64_t *out)
{
    int32_t n = spatial(p);
    if (!a || ((int64_t)a->n != n && a->n != 1))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d values, expected %d", what, a ? (int)a->n : 0,
                       n);
    for (int32_t i = 0; i < n; i++) {
        int64_t x = a->v[a->n == 1 ? 0 : i];
        if (x < least)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s value %lld is less than %lld", what, (long long)x,
                           (long long)least);
        out[3 - n + i] = x;
    }
    return 0;
}

/* Padding may also come as begin and end per dimension. */
static int read_padding(const op_call *c, struct conv_problem *p, const aclIntArray *a)
{
    int32_t n = spatial(p);
    if (!a || (int64_t)a->n != 2 * n) {
        int rc = read_array(c, p, a, "padding", 0, p->pad);
        memcpy(p->pad_end, p->pad, sizeof p->pad);
        return rc;
    }
    for (int32_t i = 0; i < n; i++) {
        p->pad[3 - n + i] = a->v[2 * i], p->pad_end[3 - n + i] = a->v[2 * i + 1];
        if (a->v[2 * i] < 0 || a->v[2 * i + 1] < 0)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "padding is negative");
    }
    return 0;
}

struct conv_problem conv_blank(void)
{
    return (struct conv_problem){.stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
}

/* Arguments stride, padding, dilation at s, s+1, s+2; transposed, output padding, groups after them. */
static int read_problem(const op_call *c, struct conv_problem *p, int input, int weight, int output, int s,
                        int cube)
{
    *p = conv_blank();
    p->input = *c->arg[input].t, p->weight = *c->arg[weight].t, p->output = *c->arg[output].t;
    p->transposed = c->arg[s + 3].i, p->groups = c->arg[s + 5].i, p->cube_math = (int)c->arg[cube].i;
    if (p->weight.rank < 3 || p->weight.rank > 5)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "weight has %d dimensions, expected 3 to 5",
                       p->weight.rank);
    if (p->input.rank != p->weight.rank || p->output.rank != p->weight.rank)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "input, weight and output have %d, %d and %d dimensions",
                       p->input.rank, p->weight.rank, p->output.rank);
    int rc = read_array(c, p, c->arg[s].ia, "stride", 1, p->stride);
    if (!rc) rc = read_padding(c, p, c->arg[s + 1].ia);
    if (!rc) rc = read_array(c, p, c->arg[s + 2].ia, "dilation", 1, p->dilation);
    if (!rc && p->transposed) rc = read_array(c, p, c->arg[s + 4].ia, "outputPadding", 0, p->out_pad);
    return rc;
}

/* ---- checks
 * ------------------------------------------------------------------------------------------------------ */

static int64_t out_size(const struct conv_problem *p,
                        int32_t i) /* i: spatial dimension, right aligned in three */
{
    int32_t d = p->weight.rank - 3 + i;
    int64_t in = p->input.dim[d], reach = p->dilation[i] * (p->weight.dim[d] - 1) + 1;
    int64_t pads = p->pad[i] + p->pad_end[i];
    if (p->transposed) return (in - 1) * p->stride[i] - pads + reach + p->out_pad[i];
    return in + pads < reach ? -1 : (in + pads - reach) / p->stride[i] + 1;
}

static int check_channels(const op_call *c, const struct conv_problem *p)
{
    char is[256], ws[256];
    int64_t in = p->input.dim[1], w0 = p->weight.dim[0], w1 = p->weight.dim[1];
    bool fits = p->groups >= 1 && w0 % p->groups == 0 && (p->transposed ? in == w0 : in == w1 * p->groups);
    if (fits) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "input %s and weight %s do not fit with %lld groups%s",
                   sn_shape_str(&p->input, is), sn_shape_str(&p->weight, ws), (long long)p->groups,
                   p->transposed ? ", transposed" : "");
}

static int check_shapes(const op_call *c, const struct conv_problem *p)
{
    char is[256], ws[256], os[256];
    int rc = check_channels(c, p);
    if (rc) return rc;
    int32_t n = spatial(p);
    bool fits = p->output.dim[0] == p->input.dim[0] &&
                p->output.dim[1] == (p->transposed ? p->weight.dim[1] * p->groups : p->weight.dim[0]);
    for (int32_t i = 3 - n; i < 3; i++) {
        int64_t size = out_size(p, i);
        if (size < 0)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "weight %s is larger than the padded input %s",
                           sn_shape_str(&p->weight, ws), sn_shape_str(&p->input, is));
        fits = fits && p->output.dim[p->weight.rank - 3 + i] == size;
    }
    if (fits) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s does not follow from input %s and weight %s",
                   p->transposed ? "transposed output" : "output", sn_shape_str(&p->output, os),
                   sn_shape_str(&p->input, is), sn_shape_str(&p->weight, ws));
}

static int check_dtype(op_call *c, const struct conv_problem *p)
{
    aclDataType t = sn_promote(sn_promote(p->input.dtype, p->weight.dtype), p->output.dtype);
    aclDataType compute = sn_compute(t);
    if (compute != ACL_FLOAT && compute != ACL_DOUBLE && !sn_is_complex(compute))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "no convolution of %s and %s",
                       sn_dtype(p->input.dtype)->name, sn_dtype(p->weight.dtype)->name);
    c->plan[0] = compute;
    int64_t taps = sn_numel(&p->weight) / (p->weight.dim[p->transposed ? 1 : 0] + 1) + 1;
    c->work = c->work + sn_numel(p->transposed ? &p->input : &p->output) * taps / 16;
    return 0;
}

int conv_check_bias(const op_call *c, const struct conv_problem *p, const aclTensor *bias)
{
    char bs[256];
    int64_t channels = p->output.dim[1];
    if (!bias || (sn_numel(bias) == channels && bias->rank == 1)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "bias %s, expected [%lld]", sn_shape_str(bias, bs),
                   (long long)channels);
}

/* What a 910B's convolution takes, by number of spatial dimensions and direction (constraints of the document
 * of aclnnConvolution). Largest values along depth (first of three dimensions) are free. 0: no limit. */
static const struct limit {
    int64_t kernel, stride, pad, dilation;
} limits[3][2] = {
    {{0, 0, 255, 0}, {255, 0, 0, 255}},
    {{0, 0, 255, 0}, {255, 0, 0, 255}},
    {{511, 63, 255, 255}, {255, 63, 255, 255}},
};

static int check_limit(const op_call *c, const char *what, int64_t value, int64_t most)
{
    if (!most || value <= most) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s value %lld is more than %lld", what, (long long)value,
                   (long long)most);
}

static int check_limits(const op_call *c, const struct conv_problem *p)
{
    int32_t n = spatial(p);
    const struct limit *l = &limits[n - 1][p->transposed];
    int rc = 0;
    if (rt_settings()->accept_any) return 0;
    for (int32_t i = n == 3 ? 1 : 3 - n; i < 3 && !rc; i++) {
        rc = check_limit(c, "weight", p->weight.dim[p->weight.rank - 3 + i], l->kernel);
        if (!rc) rc = check_limit(c, "stride", p->stride[i], l->stride);
        if (!rc)
            rc = check_limit(c, "padding", p->pad[i] > p->pad_end[i] ? p->pad[i] : p->pad_end[i], l->pad);
        if (!rc) rc = check_limit(c, "dilation", p->dilation[i], l->dilation);
    }
    return rc;
}

int conv_check(op_call *c, const struct conv_problem *p)
{
    int rc = check_shapes(c, p);
    if (!rc) rc = check_limits(c, p);
    return rc ? rc : check_dtype(c, p);
}

/* ---- running
 * ----------------------------------------------------------------------------------------------------- */

static void *cube_in(op_call *c, const aclTensor *t, aclDataType type, int cube_math)
{
    void *p = op_in(c, t, type);
    if (t->dtype != ACL_FLOAT || type != ACL_FLOAT || !cube_rounds(cube_math)) return p;
    size_t bytes = (size_t)sn_numel(t) * sizeof(float);
    float *x = op_scratch(c, bytes + 1);
    memcpy(x, p, bytes);
    cube_round(x, sn_numel(t), cube_math);
    return x;
}

/* The convolution of p's shapes; the caller sets the three buffers. */
static struct conv make_conv(const op_call *c, const struct conv_problem *p)
{
    const aclTensor *big = p->transposed ? &p->output : &p->input,
                    *small = p->transposed ? &p->input : &p->output;
    struct conv v = {.type = (aclDataType)c->plan[0], .n = big->dim[0], .groups = p->groups};
    v.cb = p->weight.dim[1], v.cs = p->weight.dim[0] / p->groups;
    for (int32_t i = 0; i < 3; i++) {
        int32_t d = p->weight.rank - 3 + i;
        v.g.big[i] = d < 2 ? 1 : big->dim[d], v.g.small[i] = d < 2 ? 1 : small->dim[d];
        v.g.kernel[i] = d < 2 ? 1 : p->weight.dim[d];
        v.g.stride[i] = p->stride[i], v.g.pad[i] = p->pad[i], v.g.dilation[i] = p->dilation[i];
    }
    return v;
}

/* bfloat16 stays what it is where the machine multiplies it. */
static aclDataType forward_type(const struct conv_problem *p, struct conv v)
{
    bool narrow = p->input.dtype == ACL_BF16 && p->weight.dtype == ACL_BF16 && p->output.dtype == ACL_BF16;
    if (p->transposed || !narrow || conv_depthwise(&v)) return v.type;
    v.type = ACL_BF16;
    return conv_tile_suits(&v) ? ACL_BF16 : ACL_FLOAT;
}

void conv_forward(op_call *c, const struct conv_problem *p, const aclTensor *bias)
{
    struct conv v = make_conv(c, p);
    if (sn_numel(&p->output) == 0) return;
    aclDataType computed = v.type;
    v.type = forward_type(p, v);
    char *in = cube_in(c, &p->input, v.type, p->cube_math);
    char *out = op_out(c, &p->output, v.type);
    v.weight = cube_in(c, &p->weight, v.type, p->cube_math);
    v.bias = bias ? op_in(c, bias, computed) : NULL;
    v.big = p->transposed ? out : in, v.small = p->transposed ? in : out;
    (p->transposed ? conv_to_big : conv_to_small)(c, &v);
    op_out_done(c, &p->output, v.type, out);
}

static void grad_input(op_call *c, const struct conv_problem *p, char *grad, char *weight,
                       const aclTensor *out)
{
    struct conv v = make_conv(c, p);
    if (sn_numel(out) == 0) return;
    char *y = op_out(c, out, v.type);
    v.weight = weight;
    v.big = p->transposed ? grad : y, v.small = p->transposed ? y : grad;
    (p->transposed ? conv_to_small : conv_to_big)(c, &v);
    op_out_done(c, out, v.type, y);
}

static void grad_weight(op_call *c, const struct conv_problem *p, char *grad, char *input,
                        const aclTensor *out)
{
    struct conv v = make_conv(c, p);
    if (sn_numel(out) == 0) return;
    char *y = op_out(c, out, v.type);
    v.weight = y;
    v.big = p->transposed ? grad : input, v.small = p->transposed ? input : grad;
    conv_to_weight(&v);
    op_out_done(c, out, v.type, y);
}

struct bias_sum {
    aclDataType type;
    int64_t n, channels, positions;
    const char *grad;
    char *out;
};

/* Four running sums in double; of complex values the even ones are real, the odd ones imaginary. */
static void bias_piece(void *ctx, int64_t begin, int64_t end)
{
    const struct bias_sum *b = ctx;
    bool complex_type = sn_is_complex(b->type), wide = b->type == ACL_DOUBLE || b->type == ACL_COMPLEX128;
    int64_t parts = complex_type ? 2 : 1;
    for (int64_t ch = begin; ch < end; ch++) {
        double lane[4] = {0, 0, 0, 0};
        for (int64_t n = 0; n < b->n; n++) {
            int64_t at = (n * b->channels + ch) * b->positions * parts, count = b->positions * parts;
            const float *f = (const float *)(const void *)b->grad + at;
            const double *d = (const double *)(const void *)b->grad + at;
            for (int64_t i = 0; i < count; i++) lane[i & 3] += wide ? d[i] : (double)f[i];
        }
        double sum[2] = {lane[0] + lane[2], lane[1] + lane[3]};
        if (!complex_type) sum[0] += sum[1];
        sn_convert(b->out + ch * (int64_t)sn_size(b->type), b->type, sum,
                   complex_type ? ACL_COMPLEX128 : ACL_DOUBLE, 1);
    }
}

static void grad_bias(op_call *c, const struct conv_problem *p, const char *grad, const aclTensor *out)
{
    aclDataType type = (aclDataType)c->plan[0];
    int64_t spots = 1;
    if (sn_numel(out) == 0) return;
    for (int32_t d = 2; d < p->output.rank; d++) spots *= p->output.dim[d];
    struct bias_sum b = {type, p->output.dim[0], p->output.dim[1], spots, grad, op_out(c, out, type)};
    rt_pool_run(b.channels, 1 + (1 << 16) / (b.n * spots + 1), bias_piece, &b);
    op_out_done(c, out, type, b.out);
}

void conv_backward(op_call *c, const struct conv_problem *p, const aclTensor *gi, const aclTensor *gw,
                   const aclTensor *gb)
{
    aclDataType type = (aclDataType)c->plan[0];
    char *grad = op_in(c, &p->output, type), *rounded = grad;
    if (gi || gw) rounded = cube_in(c, &p->output, type, p->cube_math);
    if (gi) grad_input(c, p, rounded, cube_in(c, &p->weight, type, p->cube_math), gi);
    if (gw) grad_weight(c, p, rounded, cube_in(c, &p->input, type, p->cube_math), gw);
    if (gb) grad_bias(c, p, grad, gb);
}

/* ---- aclnnConvolution
 * -------------------------------------------------------------------------------------------- */

enum { CONV_BIAS = 2, CONV_STRIDE = 3, CONV_OUT = 9, CONV_CUBE = 10 };

static int check_conv(op_call *c)
{
    struct conv_problem p;
    int rc = read_problem(c, &p, 0, 1, CONV_OUT, CONV_STRIDE, CONV_CUBE);
    if (!rc) rc = conv_check(c, &p);
    return rc ? rc : conv_check_bias(c, &p, c->arg[CONV_BIAS].t);
}

static int run_conv(op_call *c)
{
    struct conv_problem p;
    read_problem(c, &p, 0, 1, CONV_OUT, CONV_STRIDE, CONV_CUBE);
    conv_forward(c, &p, c->arg[CONV_BIAS].t);
    return 0;
}

/* ---- aclnnConvolutionBackward
 * ------------------------------------------------------------------------------------ */

enum { BACK_STRIDE = 4, BACK_MASK = 10, BACK_CUBE = 11, BACK_OUT = 12 };

/* The gradient asked for as number i (0 input, 1 weight, 2 bias), or NULL. */
static const aclTensor *wanted(const op_call *c, int i)
{
    const aclBoolArray *mask = c->arg[BACK_MASK].ba;
    return (uint64_t)i < mask->n && mask->v[i] ? c->arg[BACK_OUT + i].t : NULL;
}

static int check_conv_backward(op_call *c)
{
    struct conv_problem p;
    int rc = read_problem(c, &p, 1, 2, 0, BACK_STRIDE, BACK_CUBE);
    if (!rc) rc = conv_check(c, &p);
    if (!rc && c->arg[BACK_MASK].ba->n != 3)
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "outputMask needs 3 values");
    for (int i = 0; !rc && i < 3; i++) {
        if (!c->arg[BACK_MASK].ba->v[i]) continue;
        const aclTensor *t = c->arg[BACK_OUT + i].t;
        if (!t)
            return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "%s is wanted but null",
                           c->row->param[BACK_OUT + i].name);
        const aclTensor *like = i == 0 ? &p.input : &p.weight;
        rc = i < 2 ? op_need_shape(c, BACK_OUT + i, like->dim, like->rank)
                   : op_need_shape(c, BACK_OUT + i, &p.output.dim[1], 1);
    }
    return rc;
}

static int run_conv_backward(op_call *c)
{
    struct conv_problem p;
    read_problem(c, &p, 1, 2, 0, BACK_STRIDE, BACK_CUBE);
    conv_backward(c, &p, wanted(c, 0), wanted(c, 1), wanted(c, 2));
    return 0;
}

/* ---- aclnnConvDepthwise2d
 * ---------------------------------------------------------------------------------------- */

static int read_depthwise(const op_call *c, struct conv_problem *p)
{
    *p = conv_blank();
    p->input = *c->arg[0].t, p->weight = *c->arg[1].t, p->output = *c->arg[7].t;
    p->groups = p->input.rank == 4 ? p->input.dim[1] : 0, p->cube_math = (int)c->arg[8].i;
    int rc = 0;
    const int at[] = {0, 1, 7};
    for (int i = 0; i < 3 && !rc; i++)
        if (c->arg[at[i]].t->rank != 4)
            rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected 4",
                         c->row->param[at[i]].name, c->arg[at[i]].t->rank);
    if (!rc) rc = read_array(c, p, c->arg[4].ia, "stride", 1, p->stride);
    if (!rc) rc = read_padding(c, p, c->arg[5].ia);
    return rc ? rc : read_array(c, p, c->arg[6].ia, "dilation", 1, p->dilation);
}

static int check_depthwise(op_call *c)
{
    struct conv_problem p;
    int rc = read_depthwise(c, &p);
    const aclIntArray *k = c->arg[2].ia;
    if (!rc && (k->n != 2 || k->v[0] != p.weight.dim[2] || k->v[1] != p.weight.dim[3]))
        rc = op_fail(c, ACLNN_ERR_PARAM_INVALID, "kernelSize does not match weight");
    if (!rc) rc = conv_check(c, &p);
    return rc ? rc : conv_check_bias(c, &p, c->arg[3].t);
}

static int run_depthwise(op_call *c)
{
    struct conv_problem p;
    read_depthwise(c, &p);
    conv_forward(c, &p, c->arg[3].t);
    return 0;
}

/* ---- aclnnConvTbc: time, batch, channel; weight is kernel, in, out
 * ------------------------------------------------ */

static aclTensor permuted(const aclTensor *t, int a, int b, int d)
{
    aclTensor v = *t;
    const int from[] = {a, b, d};
    for (int i = 0; i < 3; i++) v.dim[i] = t->dim[from[i]], v.stride[i] = t->stride[from[i]];
    return v;
}

static int read_tbc(const op_call *c, struct conv_problem *p, int output, int input, int weight, int pad,
                    int cube)
{
    *p = conv_blank();
    const int at[] = {input, weight, output};
    for (int i = 0; i < 3; i++)
        if (c->arg[at[i]].t->rank != 3)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, expected 3",
                           c->row->param[at[i]].name, c->arg[at[i]].t->rank);
    if (c->arg[pad].i < 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "pad is negative");
    p->input = permuted(c->arg[input].t, 1, 2, 0), p->output = permuted(c->arg[output].t, 1, 2, 0);
    p->weight = permuted(c->arg[weight].t, 2, 1, 0);
    p->pad[2] = p->pad_end[2] = c->arg[pad].i, p->cube_math = (int)c->arg[cube].i;
    return 0;
}

static int check_tbc(op_call *c)
{
    struct conv_problem p;
    int rc = read_tbc(c, &p, 4, 0, 1, 3, 5);
    if (!rc) rc = conv_check(c, &p);
    return rc ? rc : conv_check_bias(c, &p, c->arg[2].t);
}

static int run_tbc(op_call *c)
{
    struct conv_problem p;
    read_tbc(c, &p, 4, 0, 1, 3, 5);
    conv_forward(c, &p, c->arg[2].t);
    return 0;
}

static int check_tbc_backward(op_call *c)
{
    struct conv_problem p;
    int rc = read_tbc(c, &p, 0, 1, 2, 4, 5);
    if (!rc) rc = conv_check(c, &p);
    if (!rc) rc = op_need_same_shape(c, 1, 6);
    if (!rc) rc = op_need_same_shape(c, 2, 7);
    return rc ? rc : op_need_shape(c, 8, &p.output.dim[1], 1);
}

static int run_tbc_backward(op_call *c)
{
    struct conv_problem p;
    read_tbc(c, &p, 0, 1, 2, 4, 5);
    aclTensor gi = permuted(c->arg[6].t, 1, 2, 0), gw = permuted(c->arg[7].t, 2, 1, 0);
    conv_backward(c, &p, &gi, &gw, c->arg[8].t);
    return 0;
}

#define OP_FILE "softnpu/op/conv.inc"
#define OP_TABLE op_rows_conv
#include "softnpu/op/rows.h"
