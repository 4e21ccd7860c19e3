/* optim.c - fused optimizer steps and the loss scale's update. All arithmetic is f32. */
#include "softnpu/op/op.h"

#include <math.h>
#include <time.h>

static int need_like(const op_call *c, int a, int b)
{
    int r = op_need_same_shape(c, a, b);
    return r ? r : op_need_same_dtype(c, a, b);
}

static float number(op_call *c, int arg)
{
    return *(const float *)op_in(c, c->arg[arg].t, ACL_FLOAT);
}

static int need_numbers(const op_call *c, int from, int to)
{
    for (int i = from; i <= to; i++)
        if (sn_numel(c->arg[i].t) != 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s must have one element", c->row->param[i].name);
    return 0;
}

/* ---- Adam -------------------------------------------------------------------------------------------- */

/* One step: gradient, first and second moments, then
 * var = var * keep - size * m' / (sqrt(v') * scale + eps), where m' and v' are what nesterov and amsgrad make
 * of m and v. */
struct adam {
    float beta1, beta2, keep, size, scale, eps;
    bool nesterov, amsgrad, maximize;
};

/* p: var, m, v, [most], var, m, v, grad, [most]. most: the largest second moment so far (amsgrad). */
static void adam_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct adam *a = ctx;
    int outs = a->amsgrad ? 4 : 3;
    float *var = p[0], *m = p[1], *v = p[2], *most = a->amsgrad ? p[3] : NULL;
    const float *old = p[outs], *old_m = p[outs + 1], *old_v = p[outs + 2], *grad = p[outs + 3];
    const float *old_most = a->amsgrad ? p[outs + 4] : NULL;
    (void)index;
    for (int64_t i = 0; i < n; i++) {
        float g = a->maximize ? -grad[i] : grad[i];
        float mean = a->beta1 * old_m[i] + (1 - a->beta1) * g,
              square = a->beta2 * old_v[i] + (1 - a->beta2) * g * g;
        float used = square;
        if (most) {
            used = old_most[i] > square ? old_most[i] : square;
            most[i] = used;
        }
        float step = a->nesterov ? a->beta1 * mean + (1 - a->beta1) * g : mean;
        var[i] = old[i] * a->keep - a->size * step / (sqrtf(used) * a->scale + a->eps);
        m[i] = mean;
        v[i] = square;
    }
}

static int adam_step(op_call *c, const struct adam *a, int grad, const aclTensor *most)
{
    struct ew_operand operand[9];
    const aclTensor *three[] = {c->arg[0].t, c->arg[1].t, c->arg[2].t};
    int n = 0;
    if (sn_numel(three[0]) == 0) return 0;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 3; i++) operand[n++] = (struct ew_operand){three[i], ACL_FLOAT, NULL};
        if (side) operand[n++] = (struct ew_operand){c->arg[grad].t, ACL_FLOAT, NULL};
        if (a->amsgrad) operand[n++] = (struct ew_operand){most, ACL_FLOAT, NULL};
    }
    int outs = a->amsgrad ? 4 : 3;
    return ew_run(c, operand, outs, n - outs, adam_block, a);
}

static int need_moments(const op_call *c, int grad)
{
    int r = need_like(c, 0, 1);
    if (r || (r = need_like(c, 0, 2))) return r;
    return op_need_same_shape(c, 0, grad);
}

static int need_most(const op_call *c, int most, bool amsgrad)
{
    if (!c->arg[most].t)
        return amsgrad ? op_fail(c, ACLNN_ERR_PARAM_INVALID, "amsgrad needs %s", c->row->param[most].name)
                       : 0;
    return amsgrad ? op_need_same_shape(c, 0, most) : 0;
}

static int check_adam(op_call *c)
{
    int r = need_moments(c, 9);
    return r ? r : need_numbers(c, 3, 8);
}

static int run_adam(op_call *c)
{
    float power1 = number(c, 3), power2 = number(c, 4);
    struct adam a = {
        .beta1 = number(c, 6), .beta2 = number(c, 7), .keep = 1, .scale = 1, .eps = number(c, 8)};
    a.size = number(c, 5) * sqrtf(1 - power2) / (1 - power1);
    a.nesterov = c->arg[11].i;
    return adam_step(c, &a, 9, NULL);
}

static int check_adamw(op_call *c)
{
    int r = need_moments(c, 10);
    if (r || (r = need_numbers(c, 3, 9))) return r;
    return need_most(c, 11, c->arg[12].i);
}

/* Step and scale from the powers beta^t. */
static void correct_bias(struct adam *a, float lr, double power1, double power2)
{
    a->size = (float)(lr / (1 - power1));
    a->scale = (float)(1 / sqrt(1 - power2));
}

/* The powers given are those of the step before. The largest second moments are read, not kept (the argument
 * is const). */
static int run_adamw(op_call *c)
{
    const aclTensor *var = c->arg[0].t, *most = NULL;
    struct adam a = {.beta1 = number(c, 7), .beta2 = number(c, 8), .eps = number(c, 9)};
    aclTensor copy;
    float lr = number(c, 5);
    a.keep = 1 - lr * number(c, 6);
    a.amsgrad = c->arg[12].i;
    a.maximize = c->arg[13].i;
    correct_bias(&a, lr, (double)number(c, 3) * a.beta1, (double)number(c, 4) * a.beta2);
    if (a.amsgrad && sn_numel(var)) {
        most = &copy;
        sn_wrap(&copy, ACL_FLOAT, var->rank, var->dim, op_scratch(c, (size_t)sn_numel(var) * sizeof(float)));
        op_copy(c, &copy, c->arg[11].t);
    }
    return adam_step(c, &a, 10, most);
}

static int check_adamw_v2(op_call *c)
{
    int r = need_moments(c, 4);
    if (r || (r = need_numbers(c, 5, 5))) return r;
    return need_most(c, 3, c->arg[11].i);
}

/* step counts the steps before this one. */
static int run_adamw_v2(op_call *c)
{
    float lr = (float)c->arg[6].d;
    struct adam a = {.beta1 = (float)c->arg[7].d, .beta2 = (float)c->arg[8].d, .eps = (float)c->arg[10].d};
    double step = (double)number(c, 5) + 1;
    a.keep = (float)(1 - (double)lr * c->arg[9].d);
    a.amsgrad = c->arg[11].i;
    a.maximize = c->arg[12].i;
    correct_bias(&a, lr, pow(c->arg[7].d, step), pow(c->arg[8].d, step));
    return adam_step(c, &a, 4, c->arg[3].t);
}

/* ---- SGD --------------------------------------------------------------------------------------------- */

struct sgd {
    float decay, momentum, lr, dampening, unscale;
    bool nesterov, maximize, first, buffered;
};

/* p: param, grad, [buffer], param, grad, [buffer]. */
static void sgd_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    const struct sgd *s = ctx;
    int outs = s->buffered ? 3 : 2;
    float *param = p[0], *grad = p[1], *buffer = s->buffered ? p[2] : NULL;
    const float *old = p[outs], *given = p[outs + 1], *velocity = s->buffered ? p[outs + 2] : NULL;
    (void)index;
    for (int64_t i = 0; i < n; i++) {
        float plain = given[i] / s->unscale;
        float g = (s->maximize ? -plain : plain) + s->decay * old[i], step = g;
        if (buffer) {
            float v = s->first ? g : s->momentum * velocity[i] + (1 - s->dampening) * g;
            step = s->nesterov ? g + s->momentum * v : v;
            buffer[i] = v;
        }
        param[i] = old[i] - s->lr * step;
        grad[i] = plain;
    }
}

static int check_sgd(op_call *c)
{
    const aclTensorList *params = c->arg[0].tl, *grads = c->arg[1].tl, *buffers = c->arg[2].tl;
    if (grads->n != params->n || (buffers->n && buffers->n != params->n))
        return op_fail(
            c, ACLNN_ERR_PARAM_INVALID, "%llu params, %llu grads and %llu momentum buffers do not match",
            (unsigned long long)params->n, (unsigned long long)grads->n, (unsigned long long)buffers->n);
    for (uint64_t i = 0; i < params->n; i++)
        if (!sn_same_shape(params->v[i], grads->v[i]) ||
            (buffers->n && !sn_same_shape(params->v[i], buffers->v[i])))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the tensors of parameter %llu differ in shape",
                           (unsigned long long)i);
    return c->arg[3].t && sn_numel(c->arg[3].t) ? need_numbers(c, 3, 3) : 0;
}

static int run_sgd(op_call *c)
{
    const aclTensorList *params = c->arg[0].tl, *grads = c->arg[1].tl, *buffers = c->arg[2].tl;
    struct sgd s = {.decay = (float)c->arg[4].d,
                    .momentum = (float)c->arg[5].d,
                    .lr = (float)c->arg[6].d,
                    .dampening = (float)c->arg[7].d,
                    .unscale = 1,
                    .nesterov = c->arg[8].i,
                    .maximize = c->arg[9].i,
                    .first = c->arg[10].i,
                    .buffered = buffers->n > 0};
    if (c->arg[3].t && sn_numel(c->arg[3].t)) s.unscale = number(c, 3);
    for (uint64_t i = 0; i < params->n; i++) {
        const aclTensor *set[] = {params->v[i], grads->v[i], s.buffered ? buffers->v[i] : NULL};
        int n = s.buffered ? 3 : 2;
        struct ew_operand operand[6];
        for (int k = 0; k < 2 * n; k++) operand[k] = (struct ew_operand){set[k % n], ACL_FLOAT, NULL};
        int r = sn_numel(params->v[i]) ? ew_run(c, operand, n, n, sgd_block, &s) : 0;
        if (r) return r;
    }
    return 0;
}

/* ---- loss scale -------------------------------------------------------------------------------------- */

static int check_update_scale(op_call *c)
{
    if (c->arg[5].i < 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "growthInterval %lld must be positive",
                       (long long)c->arg[5].i);
    int r = need_numbers(c, 0, 2);
    return r ? r : need_numbers(c, 6, 7);
}

/* Shrinks after an overflow, grows after growthInterval steps without one, unless that would not be finite.
 */
static int run_update_scale(op_call *c)
{
    float scale = number(c, 0);
    int64_t tracker = *(const int64_t *)op_in(c, c->arg[1].t, ACL_INT64);
    if (number(c, 2) != 0) {
        scale *= (float)c->arg[4].d;
        tracker = 0;
    } else if (++tracker == c->arg[5].i) {
        float grown = scale * (float)c->arg[3].d;
        if (isfinite(grown)) scale = grown;
        tracker = 0;
    }
    op_out_done(c, c->arg[6].t, ACL_FLOAT, &scale);
    op_out_done(c, c->arg[7].t, ACL_INT64, &tracker);
    return 0;
}

/* ---- sleep ------------------------------------------------------------------------------------------- */

static int check_sleep(op_call *c)
{
    const aclIntArray *cycles = c->arg[0].ia;
    if (cycles->n == 1 && cycles->v[0] >= 0 && cycles->v[0] < INT64_MAX / 20) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "cycles must hold one number, neither negative nor beyond a clock in nanoseconds");
}

/* Cycles of the device's system counter, 50 MHz. */
static int run_sleep(op_call *c)
{
    int64_t ns = c->arg[0].ia->v[0] * 20;
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left))
        ;
    return 0;
}

#define OP_FILE "softnpu/op/optim.inc"
#define OP_TABLE op_rows_optim
#include "softnpu/op/rows.h"
