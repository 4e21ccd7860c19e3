/* activation.c - activation functions, their gradients, and gated units. */
#include "softnpu/op/elementwise.h"
#include "softnpu/op/stream.h"

#include <math.h>
#include <string.h>

#define ACTIVATION(name, id) static const uint8_t a_##name = EWA_##id
ACTIVATION(relu, RELU);
ACTIVATION(gelu, GELU);
ACTIVATION(gelu_backward, GELUB);
ACTIVATION(fast_gelu, FASTGELU);
ACTIVATION(fast_gelu_backward, FASTGELUB);
ACTIVATION(silu, SILU);
ACTIVATION(silu_backward, SILUB);
ACTIVATION(elu, ELU);
ACTIVATION(elu_backward, ELUB);
ACTIVATION(celu, CELU);
ACTIVATION(leaky_relu, LEAKYRELU);
ACTIVATION(leaky_relu_backward, LEAKYRELUB);
ACTIVATION(softplus, SOFTPLUS);
ACTIVATION(softplus_backward, SOFTPLUSB);
ACTIVATION(hardswish, HARDSWISH);
ACTIVATION(hardswish_backward, HARDSWISHB1);
ACTIVATION(hardswish_backward_v2, HARDSWISHB);
ACTIVATION(hardsigmoid, HARDSIGMOID);
ACTIVATION(hardsigmoid_backward, HARDSIGMOIDB);
ACTIVATION(hardtanh, HARDTANH);
ACTIVATION(hardtanh_backward, HARDTANHB);
ACTIVATION(hardshrink, HARDSHRINK);
ACTIVATION(softshrink, SOFTSHRINK);
ACTIVATION(shrink_backward, SHRINKB);
ACTIVATION(threshold, THRESHOLD);
ACTIVATION(threshold_backward, THRESHOLDB);
ACTIVATION(mish, MISH);
ACTIVATION(mish_backward, MISHB);
ACTIVATION(log_sigmoid, LOGSIGMOID);
ACTIVATION(log_sigmoid_backward, LOGSIGMOIDB);
ACTIVATION(sigmoid_backward, SIGMOIDB);
ACTIVATION(tanh_backward, TANHB);
ACTIVATION(logit_backward, LOGITB);
ACTIVATION(add_relu, ADDRELU);

/* ---- any function of one or two tensors and parameters: plan[0] the computing type, plan[1] the loop ----
 */

enum { MOST_PARAMETERS = 8 };

static bool is_input(const op_call *c, int i)
{
    int kind = c->row->param[i].kind;
    return kind == OPK_T || kind == OPK_IO;
}

static int inputs(const op_call *c, int args[2])
{
    int n = 0;
    for (int i = 0; i < c->row->nparam && n < 2; i++)
        if (is_input(c, i)) args[n++] = i;
    return n;
}

static void parameters(const op_call *c, double q[MOST_PARAMETERS])
{
    int n = 0;
    memset(q, 0, MOST_PARAMETERS * sizeof *q);
    for (int i = 0; i < c->row->nparam && n < MOST_PARAMETERS; i++) {
        int kind = c->row->param[i].kind;
        if (kind == OPK_S) q[n++] = sn_scalar_f64(c->arg[i].s);
        if (kind == OPK_D || kind == OPK_F) q[n++] = c->arg[i].d;
        if (kind == OPK_B || kind == OPK_I64) q[n++] = (double)c->arg[i].i;
    }
}

static int check_loop(op_call *c, int loop)
{
    int args[2], n = inputs(c, args), out = ew_output(c);
    aclDataType promoted = n == 2 ? ew_promote_args(c, args[0], args[1]) : c->arg[args[0]].t->dtype;
    aclDataType t = ew_computed(promoted, EWP_SAME, NULL);
    int row = ew_type(t);
    if (row < 0 || !activation_kernels()->loop[loop][row]) return ew_no_loop(c, promoted);
    c->plan[0] = t;
    c->plan[1] = loop;
    int e = ew_need_broadcast(c, args, n, out);
    return e ? e : op_need_cast(c, t, out);
}

static int check_activation(op_call *c)
{
    return check_loop(c, *(const uint8_t *)c->row->aux);
}

static int run_activation(op_call *c)
{
    int args[2], n = inputs(c, args);
    aclDataType t = (aclDataType)c->plan[0];
    double q[MOST_PARAMETERS];
    parameters(c, q);
    struct ew_operand o[] = {ew_of(c, ew_output(c), t), ew_of(c, args[0], t), ew_of(c, args[n - 1], t)};
    ew_loop loop = activation_kernels()->loop[c->plan[1]][ew_type(t)];
    return ew_run(c, o, 1, n, ew_half(o, n + 1, half_kernels()->activation[c->plan[1]], loop), q);
}

/* LogitGrad takes the input before the gradient. */
static int run_logit_backward(op_call *c)
{
    aclDataType t = (aclDataType)c->plan[0];
    double q[MOST_PARAMETERS];
    parameters(c, q);
    struct ew_operand o[] = {ew_of(c, 3, t), ew_of(c, 1, t), ew_of(c, 0, t)};
    return ew_run(c, o, 1, 2, activation_kernels()->loop[c->plan[1]][ew_type(t)], q);
}

/* LogSigmoidForward(self, out, buffer). The buffer, exp(-|x|), serves the gradient on other devices; here the
 * gradient is computed from self, and torch_npu passes an empty one. One of self's size is filled. */
enum { LOG_SELF, LOG_OUT, LOG_BUFFER };

static int check_log_sigmoid(op_call *c)
{
    aclDataType t = sn_compute(c->arg[LOG_SELF].t->dtype);
    const aclTensor *buffer = c->arg[LOG_BUFFER].t;
    if (t != ACL_FLOAT && t != ACL_DOUBLE) return ew_no_loop(c, c->arg[LOG_SELF].t->dtype);
    c->plan[0] = t;
    int e = op_need_same_shape(c, LOG_SELF, LOG_OUT);
    return e || !buffer || !sn_numel(buffer) ? e : op_need_same_shape(c, LOG_SELF, LOG_BUFFER);
}

static void log_sigmoid_buffer(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    (void)ctx;
    double *out = p[0];
    const double *x = p[1];
    for (int64_t i = 0; i < n; i++) out[i] = exp(-fabs(x[i]));
}

static int run_log_sigmoid(op_call *c)
{
    aclDataType t = (aclDataType)c->plan[0];
    const aclTensor *buffer = c->arg[LOG_BUFFER].t;
    struct ew_operand kept[] = {{buffer, ACL_DOUBLE, NULL}, ew_of(c, LOG_SELF, ACL_DOUBLE)};
    int e = buffer && sn_numel(buffer) ? ew_run(c, kept, 1, 1, log_sigmoid_buffer, NULL) : 0;
    struct ew_operand o[] = {ew_of(c, LOG_OUT, t), ew_of(c, LOG_SELF, t)};
    return e ? e : ew_run(c, o, 1, 1, activation_kernels()->loop[EWA_LOGSIGMOID][ew_type(t)], NULL);
}

/* ---- GELU in its two forms ------------------------------------------------------------------- */

/* "none" or "tanh"; null counts as "none". */
static int approximation(const op_call *c, int arg, bool *tanh)
{
    const char *s = c->arg[arg].str;
    *tanh = s && !strcmp(s, "tanh");
    if (!s || *tanh || !strcmp(s, "none")) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is \"%s\", expected \"none\" or \"tanh\"",
                   c->row->param[arg].name, s);
}

static int check_gelu_v2(op_call *c)
{
    int64_t mode = c->arg[1].i;
    if (mode != 0 && mode != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "approximate is %lld, expected 0 or 1", (long long)mode);
    return check_loop(c, mode ? EWA_GELUTANH : EWA_GELU);
}

static int check_gelu_backward_v2(op_call *c)
{
    bool tanh;
    int e = approximation(c, 2, &tanh);
    return e ? e : check_loop(c, tanh ? EWA_GELUTANHB : EWA_GELUB);
}

/* ---- PReLU: one weight, or one a channel (dimension 1) --------------------------------------- */

enum { SELF_ARG = 0, WEIGHT_ARG = 1 };

static int64_t channels(const aclTensor *self)
{
    return self->rank > 1 ? self->dim[1] : 1;
}

/* The weight as a view that broadcasts against self. */
static int weight_view(const op_call *c, const aclTensor *self, const aclTensor *weight, aclTensor *view)
{
    int64_t n = sn_numel(weight);
    if (n != 1 && n != channels(self))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "weight has %lld elements, expected 1 or %lld, the channels of self", (long long)n,
                       (long long)channels(self));
    *view = *weight;
    int64_t step = 0;
    for (int32_t d = 0; d < weight->rank; d++)
        if (weight->dim[d] != 1) step = weight->stride[d];
    view->rank = n == 1 ? 0 : self->rank;
    for (int32_t d = 0; d < view->rank; d++) {
        view->dim[d] = d == 1 ? n : 1;
        view->stride[d] = d == 1 ? step : 0;
    }
    return 0;
}

static int check_prelu(op_call *c)
{
    aclTensor view;
    int e = weight_view(c, c->arg[0].t, c->arg[1].t, &view);
    if (!e) e = op_need_same_shape(c, 0, 2);
    return e ? e : op_need_same_dtype(c, 0, 1);
}

static int run_prelu(op_call *c)
{
    aclTensor view;
    int e = weight_view(c, c->arg[0].t, c->arg[1].t, &view);
    aclDataType t = sn_compute(c->arg[0].t->dtype);
    struct ew_operand o[] = {ew_of(c, 2, t), ew_of(c, 0, t), {&view, t, NULL}};
    return e ? e : ew_run(c, o, 1, 2, activation_kernels()->loop[EWA_PRELU][ew_type(t)], NULL);
}

enum { PRELU_GRAD, PRELU_SELF, PRELU_WEIGHT, PRELU_GRAD_INPUT, PRELU_GRAD_WEIGHT };

static int check_prelu_backward(op_call *c)
{
    aclTensor view;
    int e = weight_view(c, c->arg[PRELU_SELF].t, c->arg[PRELU_WEIGHT].t, &view);
    if (!e) e = op_need_same_shape(c, PRELU_SELF, PRELU_GRAD_INPUT);
    if (!e) e = op_need_same_shape(c, PRELU_SELF, PRELU_GRAD);
    if (!e && sn_numel(c->arg[PRELU_GRAD_WEIGHT].t) != sn_numel(c->arg[PRELU_WEIGHT].t))
        e = op_need_same_shape(c, PRELU_WEIGHT, PRELU_GRAD_WEIGHT);
    return e;
}

/* Inputs: gradient, self, weight. Outputs: the input's gradient, the weight's contribution. */
static void prelu_backward(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    (void)ctx;
    double *grad_input = p[0], *part = p[1];
    const double *g = p[2], *x = p[3], *w = p[4];
    for (int64_t i = 0; i < n; i++) {
        double grad = g[i], at = x[i];
        grad_input[i] = at > 0 ? grad : grad * w[i];
        part[i] = at > 0 ? 0 : grad * at;
    }
}

/* Adds the contributions up, channel by channel, in the order of the elements. */
static void sum_channels(const aclTensor *self, const double *part, int64_t n, double *sum)
{
    int64_t total = sn_numel(self), inner = 1;
    for (int32_t d = 2; d < self->rank; d++) inner *= self->dim[d];
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t i = 0; i < total; i++) sum[n == 1 ? 0 : i / inner % n] += part[i];
}

static int run_prelu_backward(op_call *c)
{
    const aclTensor *self = c->arg[PRELU_SELF].t, *weight = c->arg[PRELU_WEIGHT].t;
    int64_t n = sn_numel(weight);
    double *part = op_scratch(c, (size_t)sn_numel(self) * sizeof *part),
           *sum = op_scratch(c, (size_t)n * sizeof *sum);
    aclTensor view, parts, sums;
    int e = weight_view(c, self, weight, &view);
    sn_wrap(&parts, ACL_DOUBLE, self->rank, self->dim, part);
    sn_wrap(&sums, ACL_DOUBLE, c->arg[PRELU_GRAD_WEIGHT].t->rank, c->arg[PRELU_GRAD_WEIGHT].t->dim, sum);
    struct ew_operand o[] = {ew_of(c, PRELU_GRAD_INPUT, ACL_DOUBLE),
                             {&parts, ACL_DOUBLE, NULL},
                             ew_of(c, PRELU_GRAD, ACL_DOUBLE),
                             ew_of(c, PRELU_SELF, ACL_DOUBLE),
                             {&view, ACL_DOUBLE, NULL}};
    if (!e) e = ew_run(c, o, 2, 3, prelu_backward, NULL);
    if (e) return e;
    sum_channels(self, part, n, sum);
    op_copy(c, c->arg[PRELU_GRAD_WEIGHT].t, &sums);
    return 0;
}

/* ---- RReLU: (self, noise, lower, upper, training, seed, offset, out); in training noise receives the slopes
 * ---- */

enum { RR_SELF, RR_NOISE, RR_LOWER, RR_UPPER, RR_TRAINING, RR_SEED };

struct rrelu {
    double lower, upper;
    struct random_stream stream;
};

static int check_rrelu(op_call *c)
{
    int out = ew_output(c);
    aclDataType t = sn_compute(c->arg[RR_SELF].t->dtype);
    if (t != ACL_FLOAT) return ew_no_loop(c, c->arg[RR_SELF].t->dtype);
    if (sn_scalar_f64(c->arg[RR_LOWER].s) > sn_scalar_f64(c->arg[RR_UPPER].s))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "lower is greater than upper");
    int e = op_need_same_shape(c, RR_SELF, out);
    return e ? e : op_need_same_shape(c, RR_SELF, RR_NOISE);
}

static void rrelu_train(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct rrelu *r = ctx;
    float *out = p[0], *noise = p[1], u[EW_BLOCK];
    const float *x = p[2];
    random_kernels()->uniform_f32(u, index, n, r->stream, 24);
    for (int64_t i = 0; i < n; i++) {
        float slope = x[i] <= 0 ? (float)(r->lower + (r->upper - r->lower) * (double)u[i]) : 1;
        noise[i] = slope;
        out[i] = x[i] * slope;
    }
}

static int run_rrelu(op_call *c)
{
    struct rrelu r = {sn_scalar_f64(c->arg[RR_LOWER].s), sn_scalar_f64(c->arg[RR_UPPER].s),
                      stream_of(c, RR_SEED)};
    struct ew_operand out = ew_of(c, ew_output(c), ACL_FLOAT), self = ew_of(c, RR_SELF, ACL_FLOAT);
    struct ew_operand train[] = {out, ew_of(c, RR_NOISE, ACL_FLOAT), self}, rest[] = {out, self};
    const double middle[MOST_PARAMETERS] = {(r.lower + r.upper) / 2};
    if (c->arg[RR_TRAINING].i) return ew_run(c, train, 2, 1, rrelu_train, &r);
    return ew_run(c, rest, 1, 1, activation_kernels()->loop[EWA_LEAKYRELU][EWT_F32], middle);
}

#define OP_FILE "softnpu/op/activation.inc"
#define OP_TABLE op_rows_activation
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/activation_older.inc"
#define OP_TABLE op_rows_activation_older
#include "softnpu/op/rows.h"
