/* ctc.c - CTC loss: the forward and backward recursions over the extended target, in double and log space.
 *
 * The extended target of length 2 L + 1 has a blank before, between and after the L labels. alpha and beta
 * both include the probability of their own time step. The plugin pads the last dimension of log_alpha. */
#include "softnpu/op/op.h"

#include <math.h>
#include <string.h>

struct ctc {
    int64_t steps, batch, classes, blank, pad; /* pad: states in log_alpha's rows */
    const double *log_probs;                   /* [steps, batch, classes] */
    const int64_t *targets, *input_length, *target_length;
    double *alpha;      /* [batch, steps, pad] */
    double *loss;       /* [batch] */
    const double *grad; /* [batch] */
    double *out;        /* [steps, batch, classes] */
    double *scratch;    /* a task's own: [batch][2 * pad + classes] */
    const int64_t *target_start;
    bool zero_infinity;
};

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b)
{
    if (a < b) {
        double swap = a;
        a = b;
        b = swap;
    }
    return b == -INFINITY ? a : a + log1p(exp(b - a));
}

/* Label of state s of sample n's extended target. */
static int64_t label(const struct ctc *k, int64_t n, int64_t s)
{
    return s & 1 ? k->targets[k->target_start[n] + s / 2] : k->blank;
}

static double probability(const struct ctc *k, int64_t n, int64_t t, int64_t s)
{
    return k->log_probs[(t * k->batch + n) * k->classes + label(k, n, s)];
}

/* A state two places away can be reached when a label lies between that differs from both. */
static bool skips(const struct ctc *k, int64_t n, int64_t s)
{
    return s > 1 && (s & 1) && label(k, n, s) != label(k, n, s - 2);
}

static double *alpha_row(const struct ctc *k, int64_t n, int64_t t)
{
    return k->alpha + (n * k->steps + t) * k->pad;
}

static void forward(void *ctx, int64_t begin, int64_t end)
{
    const struct ctc *k = ctx;
    for (int64_t n = begin; n < end; n++) {
        int64_t steps = k->input_length[n], states = 2 * k->target_length[n] + 1;
        for (int64_t i = 0; i < k->steps * k->pad; i++) alpha_row(k, n, 0)[i] = -INFINITY;
        for (int64_t s = 0; s < 2 && s < states && steps; s++)
            alpha_row(k, n, 0)[s] = probability(k, n, 0, s);
        for (int64_t t = 1; t < steps; t++) {
            const double *before = alpha_row(k, n, t - 1);
            for (int64_t s = 0; s < states; s++) {
                double a = before[s];
                if (s) a = log_add(a, before[s - 1]);
                if (skips(k, n, s)) a = log_add(a, before[s - 2]);
                alpha_row(k, n, t)[s] = a + probability(k, n, t, s);
            }
        }
        double total = states == 1 ? 0 : -INFINITY; /* no steps: only an empty target is possible */
        if (steps) {
            const double *last = alpha_row(k, n, steps - 1);
            total = states > 1 ? log_add(last[states - 1], last[states - 2]) : last[0];
        }
        k->loss[n] = -total;
    }
}

/* beta of one step from the next step's, in place of it; NULL `next` for the last step. */
static void beta_step(const struct ctc *k, int64_t n, int64_t t, int64_t states, const double *next,
                      double *beta)
{
    for (int64_t s = 0; s < states; s++) {
        double b = next ? next[s] : s >= states - 2 ? 0 : -INFINITY;
        if (next && s + 1 < states) b = log_add(b, next[s + 1]);
        if (next && s + 2 < states && skips(k, n, s + 2)) b = log_add(b, next[s + 2]);
        beta[s] = b + probability(k, n, t, s);
    }
}

static void backward(void *ctx, int64_t begin, int64_t end)
{
    const struct ctc *k = ctx;
    for (int64_t n = begin; n < end; n++) {
        int64_t steps = k->input_length[n], states = 2 * k->target_length[n] + 1;
        if (k->zero_infinity && k->loss[n] == INFINITY) continue; /* out is zero already */
        double *beta = k->scratch + n * (2 * k->pad + k->classes), *next = beta + k->pad,
               *sum = next + k->pad;
        for (int64_t t = steps - 1; t >= 0; t--) {
            beta_step(k, n, t, states, t == steps - 1 ? NULL : next, beta);
            for (int64_t c = 0; c < k->classes; c++) sum[c] = -INFINITY;
            for (int64_t s = 0; s < states; s++) {
                double *here = &sum[label(k, n, s)];
                *here = log_add(*here, alpha_row(k, n, t)[s] + beta[s]);
            }
            for (int64_t c = 0; c < k->classes; c++) {
                int64_t at = (t * k->batch + n) * k->classes + c;
                double p = k->log_probs[at];
                k->out[at] = (exp(p) - exp(sum[c] + k->loss[n] - p)) * k->grad[n];
            }
            double *swap = beta;
            beta = next;
            next = swap;
        }
    }
}

/* ---- checks ----------------------------------------------------------------------------------------------
 */

/* log_probs, targets and the lengths follow each other from argument `first`. */
static int check_sizes(const op_call *c, int first, int blank, int alpha)
{
    const aclTensor *x = c->arg[first].t, *targets = c->arg[first + 1].t, *a = c->arg[alpha].t;
    const aclIntArray *in = c->arg[first + 2].ia, *want = c->arg[first + 3].ia;
    if (x->rank < 2 || x->rank > 3)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "logProbs has %d dimensions, not 2 or 3", x->rank);
    int64_t batch = x->rank == 3 ? x->dim[1] : 1, classes = x->dim[x->rank - 1], longest = 0, sum = 0;
    if (c->arg[blank].i < 0 || c->arg[blank].i >= classes)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "blank is %lld, no class of [0, %lld)",
                       (long long)c->arg[blank].i, (long long)classes);
    if (in->n != (uint64_t)batch || want->n != (uint64_t)batch)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%lld samples have %lld input and %lld target lengths",
                       (long long)batch, (long long)in->n, (long long)want->n);
    for (int64_t n = 0; n < batch; n++) {
        if (in->v[n] < 0 || in->v[n] > x->dim[0] || want->v[n] < 0)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "sample %lld has input length %lld of %lld, target length %lld", (long long)n,
                           (long long)in->v[n], (long long)x->dim[0], (long long)want->v[n]);
        if (want->v[n] > longest) longest = want->v[n];
        sum += want->v[n];
    }
    bool rows = targets->rank == 2;
    if (rows ? targets->dim[0] != batch || targets->dim[1] < longest : sn_numel(targets) != sum)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "targets do not hold what the target lengths say");
    if (a->rank != 3 || a->dim[0] != batch || a->dim[1] != x->dim[0] || a->dim[2] < 2 * longest + 1) {
        char shape[256];
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "logAlpha has shape %s, expected [%lld, %lld, at least %lld]", sn_shape_str(a, shape),
                       (long long)batch, (long long)x->dim[0], 2LL * longest + 1);
    }
    return 0;
}

static int check_ctc(op_call *c)
{
    return check_sizes(c, 0, 4, 7);
}

static int check_ctc_grad(op_call *c)
{
    int rc = check_sizes(c, 1, 7, 6);
    return rc ? rc : op_need_same_shape(c, 1, 9);
}

/* ---- runs ------------------------------------------------------------------------------------------------
 */

static int ctc_init(op_call *c, struct ctc *k, int first, int blank, int alpha)
{
    const aclTensor *x = c->arg[first].t, *targets = c->arg[first + 1].t;
    *k = (struct ctc){
        .steps = x->dim[0], .batch = x->rank == 3 ? x->dim[1] : 1, .classes = x->dim[x->rank - 1]};
    k->blank = c->arg[blank].i;
    k->zero_infinity = c->arg[blank + 1].i;
    k->pad = c->arg[alpha].t->dim[2];
    k->log_probs = op_in(c, x, ACL_DOUBLE);
    k->targets = op_in(c, targets, ACL_INT64);
    k->input_length = c->arg[first + 2].ia->v;
    k->target_length = c->arg[first + 3].ia->v;
    int64_t *start = op_scratch(c, sizeof *start * (size_t)(k->batch + 1));
    start[0] = 0;
    for (int64_t n = 0; n < k->batch; n++) {
        start[n + 1] = start[n] + (targets->rank == 2 ? targets->dim[1] : k->target_length[n]);
        for (int64_t i = 0; i < k->target_length[n]; i++) {
            int64_t t = k->targets[start[n] + i];
            if (t < 0 || t >= k->classes)
                return op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "target %lld is no class of [0, %lld)",
                               (long long)t, (long long)k->classes);
        }
    }
    k->target_start = start;
    return 0;
}

static int run_ctc(op_call *c)
{
    struct ctc k;
    int rc = ctc_init(c, &k, 0, 4, 7);
    if (rc) return rc;
    k.loss = op_out_scratch(c, c->arg[6].t, ACL_DOUBLE);
    k.alpha = op_out_scratch(c, c->arg[7].t, ACL_DOUBLE);
    rt_pool_run(k.batch, 1, forward, &k);
    op_out_done(c, c->arg[6].t, ACL_DOUBLE, k.loss);
    op_out_done(c, c->arg[7].t, ACL_DOUBLE, k.alpha);
    return 0;
}

static int run_ctc_grad(op_call *c)
{
    struct ctc k;
    int rc = ctc_init(c, &k, 1, 7, 6);
    if (rc) return rc;
    const aclTensor *out = c->arg[9].t;
    k.grad = op_in(c, c->arg[0].t, ACL_DOUBLE);
    k.loss = op_in(c, c->arg[5].t, ACL_DOUBLE);
    k.alpha = op_in(c, c->arg[6].t, ACL_DOUBLE);
    k.out = op_out_scratch(c, out, ACL_DOUBLE);
    memset(k.out, 0, sizeof *k.out * (size_t)sn_numel(out));
    k.scratch = op_scratch(c, sizeof *k.scratch * (size_t)(k.batch * (2 * k.pad + k.classes) + 1));
    rt_pool_run(k.batch, 1, backward, &k);
    op_out_done(c, out, ACL_DOUBLE, k.out);
    return 0;
}

#define OP_FILE "softnpu/op/ctc.inc"
#define OP_TABLE op_rows_ctc
#include "softnpu/op/rows.h"
