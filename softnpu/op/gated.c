/* gated.c - gated linear units: the input's two halves along a dimension, one of which gates the other. */
#include "softnpu/op/elementwise.h"

#include <math.h>
#include <string.h>

/* How an operator's halves meet: out = f(half[!left]) * g(half[left]) with the loop of elementwise.h, whose
 * first input passes and whose second goes through the function. */
struct gate {
    uint8_t loop;          /* enum ew_activation */
    uint8_t function_left; /* the half that goes through the function is the first */
};
static const struct gate gate_glu = {EWA_GLU, 0}, gate_swiglu = {EWA_SWIGLU, 1};

static aclTensor half(const aclTensor *t, int32_t dim, int second)
{
    aclTensor h = *t;
    h.dim[dim] = t->dim[dim] / 2;
    h.offset += second * h.dim[dim] * t->stride[dim];
    return h;
}

/* whole has twice the size of part along dim, otherwise their shapes agree. plan[0]: dim. */
static int check_halves(op_call *c, int whole, int part, int64_t dim)
{
    int32_t d;
    const aclTensor *t = c->arg[whole].t;
    int e = op_need_dim(c, dim, t->rank, &d);
    if (e) return e;
    if (t->rank == 0 || t->dim[d] % 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has no even size along dim %lld",
                       c->row->param[whole].name, (long long)dim);
    aclTensor h = half(t, d, 0);
    c->plan[0] = d;
    aclDataType compute = sn_compute(t->dtype);
    if (compute != ACL_FLOAT && compute != ACL_DOUBLE) return ew_no_loop(c, t->dtype);
    return op_need_shape(c, part, h.dim, h.rank);
}

static int run_gate(op_call *c, const aclTensor *out, const aclTensor *whole, int loop, bool function_left)
{
    aclDataType t = sn_compute(whole->dtype);
    aclTensor first = half(whole, (int32_t)c->plan[0], 0), second = half(whole, (int32_t)c->plan[0], 1);
    const aclTensor *through = function_left ? &first : &second, *past = function_left ? &second : &first;
    struct ew_operand o[] = {{out, t, NULL}, {past, t, NULL}, {through, t, NULL}};
    return ew_run(c, o, 1, 2, activation_kernels()->loop[loop][ew_type(t)], NULL);
}

/* ---- Glu, SwiGlu ----------------------------------------------------------------------------- */

static int check_glu(op_call *c)
{
    return check_halves(c, 0, 2, c->arg[1].i);
}

static int run_glu(op_call *c)
{
    const struct gate *g = c->row->aux;
    return run_gate(c, c->arg[2].t, c->arg[0].t, g->loop, g->function_left);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Outputs: the two halves of the input's gradient. Inputs: the gradient, what passed, what went through. */
enum { D_PAST, D_THROUGH, GRAD, PAST, THROUGH };

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void glu_backward(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    (void)ctx;
    double *past = p[D_PAST], *through = p[D_THROUGH];
    const double *g = p[GRAD], *a = p[PAST], *b = p[THROUGH];
    for (int64_t i = 0; i < n; i++) {
        double grad = g[i], s = sigmoid(b[i]), x = a[i];
        past[i] = grad * s;
        through[i] = grad * x * s * (1 - s);
    }
}

static void swiglu_backward(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    (void)ctx;
    double *past = p[D_PAST], *through = p[D_THROUGH];
    const double *g = p[GRAD], *a = p[PAST], *b = p[THROUGH];
    for (int64_t i = 0; i < n; i++) {
        double grad = g[i], x = b[i], s = sigmoid(x), y = a[i];
        past[i] = grad * x * s;
        through[i] = grad * y * s * (1 + x * (1 - s));
    }
}

static double gelu_slope(double x)
{
    return 0.5 * (1 + erf(x * M_SQRT1_2)) + x * exp(-x * x / 2) * 0.39894228040143267794;
}

static double gelu_tanh_slope(double x)
{
    double t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 0.134145 * x * x);
}

/* One input more: the forward's gelu, after what went through. */
static void geglu_backward(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    double *past = p[D_PAST], *through = p[D_THROUGH];
    const double *g = p[GRAD], *a = p[PAST], *b = p[THROUGH], *gelu = p[THROUGH + 1];
    bool tanh_form = *(const bool *)ctx;
    for (int64_t i = 0; i < n; i++) {
        double grad = g[i], y = a[i], x = b[i];
        past[i] = grad * gelu[i];
        through[i] = grad * y * (tanh_form ? gelu_tanh_slope(x) : gelu_slope(x));
    }
}

static int run_backward(op_call *c, const aclTensor *grad, const aclTensor *whole, const aclTensor *more,
                        const aclTensor *out, bool left, ew_fn fn, const void *ctx)
{
    int32_t d = (int32_t)c->plan[0];
    aclTensor in[2] = {half(whole, d, 0), half(whole, d, 1)}, to[2] = {half(out, d, 0), half(out, d, 1)};
    const aclDataType t = ACL_DOUBLE;
    struct ew_operand o[] = {{&to[left], t, NULL}, {&to[!left], t, NULL}, {grad, t, NULL},
                             {&in[left], t, NULL}, {&in[!left], t, NULL}, {more, t, NULL}};
    return ew_run(c, o, 2, more ? 4 : 3, fn, ctx);
}

/* GluBackward(gradOut, self, dim, out), SwiGluGrad(yGrad, x, dim, out) */
static int check_glu_backward(op_call *c)
{
    int e = check_halves(c, 1, 0, c->arg[2].i);
    return e ? e : op_need_same_shape(c, 1, 3);
}

static int run_glu_backward(op_call *c)
{
    const struct gate *g = c->row->aux;
    return run_backward(c, c->arg[0].t, c->arg[1].t, NULL, c->arg[3].t, g->function_left,
                        g->loop == EWA_GLU ? glu_backward : swiglu_backward, NULL);
}

/* ---- GeGlu: approximate 0 none, 1 tanh; the gelu half is kept for the gradient --------------- */

static int need_mode(const op_call *c, int arg)
{
    int64_t mode = c->arg[arg].i;
    if (mode == 0 || mode == 1) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "approximate is %lld, expected 0 or 1", (long long)mode);
}

/* (self, dim, approximate, activateLeft, out, outGelu) */
static int check_geglu(op_call *c)
{
    int e = need_mode(c, 2);
    if (!e) e = check_halves(c, 0, 4, c->arg[1].i);
    return e ? e : op_need_same_shape(c, 4, 5);
}

static int run_geglu(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    bool left = c->arg[3].i != 0;
    int mode = (int)c->arg[2].i;
    aclDataType t = sn_compute(self->dtype);
    aclTensor through = half(self, (int32_t)c->plan[0], !left);
    struct ew_operand o[] = {{c->arg[5].t, t, NULL}, {&through, t, NULL}};
    int e = ew_run(c, o, 1, 1, activation_kernels()->loop[mode ? EWA_GELUTANH : EWA_GELU][ew_type(t)], NULL);
    return e ? e : run_gate(c, c->arg[4].t, self, mode ? EWA_GEGLUTANH : EWA_GEGLU, left);
}

/* (gradOutput, self, gelu, dim, approximate, activateLeft, gradInput) */
static int check_geglu_backward(op_call *c)
{
    int e = need_mode(c, 4);
    if (!e) e = check_halves(c, 1, 0, c->arg[3].i);
    if (!e) e = op_need_same_shape(c, 0, 2);
    return e ? e : op_need_same_shape(c, 1, 6);
}

static int run_geglu_backward(op_call *c)
{
    bool tanh_form = c->arg[4].i == 1;
    return run_backward(c, c->arg[0].t, c->arg[1].t, c->arg[2].t, c->arg[6].t, c->arg[5].i != 0,
                        geglu_backward, &tanh_form);
}

/* GeluMul(input, approximate, out): the last dimension's first half through gelu, times the second. */
static int check_gelu_mul(op_call *c)
{
    const char *s = c->arg[1].str;
    if (s && strcmp(s, "none") && strcmp(s, "tanh"))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "approximate is \"%s\", expected \"none\" or \"tanh\"", s);
    return check_halves(c, 0, 2, -1);
}

static int run_gelu_mul(op_call *c)
{
    const char *s = c->arg[1].str;
    return run_gate(c, c->arg[2].t, c->arg[0].t, s && !strcmp(s, "tanh") ? EWA_GEGLUTANH : EWA_GEGLU, true);
}

/* ---- ClippedSwiglu(x, groupIndex, dim, alpha, limit, bias, interleaved, out) ----------------- */

enum { CL_X, CL_GROUPS, CL_DIM, CL_ALPHA, CL_LIMIT, CL_BIAS, CL_INTERLEAVED, CL_OUT };

struct clipped {
    double alpha, limit, bias;
};

/* Inputs: what goes through, clipped from above; what passes, clipped on both sides. */
static void clipped_swiglu(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    const struct clipped *f = ctx;
    float *out = p[0];
    const float *x = p[1], *y = p[2];
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i], b = (double)y[i];
        a = a > f->limit ? f->limit : a;
        b = b > f->limit ? f->limit : b < -f->limit ? -f->limit : b;
        out[i] = (float)(a * sigmoid(f->alpha * a) * (b + f->bias));
    }
}

static int check_clipped(op_call *c)
{
    return check_halves(c, CL_X, CL_OUT, c->arg[CL_DIM].i);
}

/* Every second element along dim, from the first or the second. */
static aclTensor comb(const aclTensor *t, int32_t dim, int second)
{
    aclTensor h = *t;
    h.dim[dim] = t->dim[dim] / 2;
    h.offset += second * t->stride[dim];
    h.stride[dim] *= 2;
    return h;
}

static int64_t group_sum(op_call *c, const aclTensor *groups)
{
    int64_t sum = 0, n = sn_numel(groups);
    const int64_t *v = op_in(c, groups, ACL_INT64);
    for (int64_t i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, v[i], &sum)) return v[i] < 0 ? 0 : INT64_MAX;
    return sum;
}

/* t without its rows from `rows` on, the dimensions before dim counting as one; t is contiguous up to dim. */
static aclTensor first_rows(const aclTensor *t, int32_t dim, int64_t rows)
{
    aclTensor v = *t;
    int32_t drop = dim ? dim - 1 : 0;
    v.rank = t->rank - drop;
    for (int32_t d = 0; d < v.rank; d++) {
        v.dim[d] = t->dim[d + drop];
        v.stride[d] = t->stride[d + drop];
    }
    if (dim) v.dim[0] = rows;
    return v;
}

/* With groups only the first sum(groups) rows are computed; the others become zero. */
static int run_clipped(op_call *c)
{
    const aclTensor *x = c->arg[CL_X].t, *out = c->arg[CL_OUT].t;
    int32_t dim = (int32_t)c->plan[0];
    const struct clipped f = {c->arg[CL_ALPHA].d, c->arg[CL_LIMIT].d, c->arg[CL_BIAS].d};
    aclTensor packed, result, a, b;
    sn_wrap(&packed, ACL_FLOAT, x->rank, x->dim, op_in(c, x, ACL_FLOAT));
    float *buffer = op_out_scratch(c, out, ACL_FLOAT);
    memset(buffer, 0, (size_t)sn_numel(out) * sizeof *buffer);
    sn_wrap(&result, ACL_FLOAT, out->rank, out->dim, buffer);
    a = c->arg[CL_INTERLEAVED].i ? comb(&packed, dim, 0) : half(&packed, dim, 0);
    b = c->arg[CL_INTERLEAVED].i ? comb(&packed, dim, 1) : half(&packed, dim, 1);
    int64_t rows = 1;
    for (int32_t d = 0; d < dim; d++) rows *= x->dim[d];
    if (c->arg[CL_GROUPS].t && dim) {
        int64_t wanted = group_sum(c, c->arg[CL_GROUPS].t);
        rows = wanted < 0 ? 0 : wanted < rows ? wanted : rows;
    }
    aclTensor ra = first_rows(&a, dim, rows), rb = first_rows(&b, dim, rows),
              ro = first_rows(&result, dim, rows);
    struct ew_operand o[] = {{&ro, ACL_FLOAT, NULL}, {&ra, ACL_FLOAT, NULL}, {&rb, ACL_FLOAT, NULL}};
    int e = ew_run(c, o, 1, 2, clipped_swiglu, &f);
    if (!e) op_out_done(c, out, ACL_FLOAT, buffer);
    return e;
}

#define OP_FILE "softnpu/op/gated.inc"
#define OP_TABLE op_rows_gated
#include "softnpu/op/rows.h"
