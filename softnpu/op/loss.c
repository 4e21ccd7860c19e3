/* loss.c - losses that compare two tensors element by element, reduced or not, and their gradients. */
#include "softnpu/kernel/loss_kernels.h"
#include "softnpu/op/reduce.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* Places of arguments; 0: the operator has none. Argument 0 is self, or the incoming gradient. */
struct loss_spec {
    enum loss loss, if_log; /* if_log: the one to take when the log flag is set */
    int8_t self, target, weight, pos_weight, reduction, beta, log, out;
    bool grad;
};

static int check_loss(op_call *c)
{
    const struct loss_spec *s = c->row->aux;
    const aclTensor *self = c->arg[s->self].t, *target = c->arg[s->target].t, *out = c->arg[s->out].t;
    int64_t reduction = c->arg[s->reduction].i, dim[SN_MAX_DIMS];
    int32_t rank;
    char a[256], b[256];
    if (reduction < REDUCE_NONE || reduction > REDUCE_SUM)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduction is %lld, not 0 (none), 1 (mean) or 2 (sum)",
                       (long long)reduction);
    if (!sn_broadcast_shape(self, target, dim, &rank))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self %s and target %s do not broadcast",
                       sn_shape_str(self, a), sn_shape_str(target, b));
    const int8_t others[] = {s->weight, s->pos_weight, s->grad ? 0 : -1};
    for (int i = 0; i < 3; i++) {
        if (others[i] < 0 || (i < 2 && (!others[i] || !c->arg[others[i]].t))) continue;
        aclTensor wide;
        if (!sn_expand(c->arg[others[i]].t, dim, rank, &wide))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s does not broadcast to the loss",
                           c->row->param[others[i]].name, sn_shape_str(c->arg[others[i]].t, a));
    }
    if (s->beta && c->arg[s->beta].d < 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "beta is %g, it must not be negative", c->arg[s->beta].d);
    if (s->grad || reduction == REDUCE_NONE) return op_need_shape(c, s->out, dim, rank);
    if (sn_numel(out) == 1 && out->rank < 2) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out has shape %s, a reduced loss has none",
                   sn_shape_str(out, a));
}

/* The loss of each element into `to`. */
static int each(op_call *c, const struct loss_spec *s, const aclTensor *to, aclDataType as,
                const struct loss_params *params)
{
    static const struct aclScalar one = {ACL_DOUBLE, {.d = 1}};
    struct ew_operand operand[EW_MAX] = {{to, as, NULL}};
    const int8_t from[] = {0, s->self, s->target, s->weight, s->pos_weight};
    int n = 1;
    for (int i = s->grad ? 0 : 1; i < 5; i++) {
        const aclTensor *t = i > 2 && !from[i] ? NULL : c->arg[from[i]].t;
        operand[n++] = (struct ew_operand){t, as, t ? NULL : &one};
    }
    enum loss which = s->log && c->arg[s->log].i ? s->if_log : s->loss;
    const struct loss_kernels *k = loss_kernels();
    return ew_run(c, operand, 1, n - 1, (s->grad ? k->grad : k->loss)[which][as == ACL_DOUBLE], params);
}

static int run_loss(op_call *c)
{
    const struct loss_spec *s = c->row->aux;
    const aclTensor *self = c->arg[s->self].t, *target = c->arg[s->target].t, *out = c->arg[s->out].t;
    aclDataType wide = sn_promote(self->dtype, target->dtype);
    aclDataType as = wide == ACL_DOUBLE || sn_is_integral(wide) ? ACL_DOUBLE : ACL_FLOAT;
    int64_t reduction = c->arg[s->reduction].i, dim[SN_MAX_DIMS];
    struct loss_params params = {.beta = s->beta ? c->arg[s->beta].d : 0, .scale = 1};
    if (s->grad && reduction == REDUCE_MEAN) params.scale = 1 / (double)sn_numel(out);
    if (s->grad || reduction == REDUCE_NONE) return each(c, s, out, as, &params);
    aclTensor losses = {.dtype = as}, total;
    sn_broadcast_shape(self, target, dim, &losses.rank);
    int64_t n = 1;
    for (int32_t d = 0; d < losses.rank; d++) n *= dim[d];
    sn_wrap(&losses, as, losses.rank, dim, op_scratch(c, sn_size(as) * (size_t)(n ? n : 1)));
    int rc = each(c, s, &losses, as, &params);
    struct reduction what = {.self = &losses, .dims = (1u << losses.rank) - 1, .as = as, .op = RED_SUM};
    struct reduced r;
    if (!rc) rc = reduce_run(c, &what, &r);
    if (rc) return rc;
    if (reduction == REDUCE_MEAN) *(double *)r.acc /= (double)n;
    sn_wrap(&total, ACL_DOUBLE, out->rank, out->dim, r.acc);
    op_copy(c, out, &total);
    return 0;
}

static const struct loss_spec
    mse_loss = {.loss = LOSS_MSE, .target = 1, .reduction = 2, .out = 3},
    l1_loss = {.loss = LOSS_L1, .target = 1, .reduction = 2, .out = 3},
    smooth_l1_loss = {.loss = LOSS_SMOOTH_L1, .target = 1, .reduction = 2, .beta = 3, .out = 4},
    soft_margin_loss = {.loss = LOSS_SOFT_MARGIN, .target = 1, .reduction = 2, .out = 3},
    kl_div = {.loss = LOSS_KL, .if_log = LOSS_KL_LOG, .target = 1, .reduction = 2, .log = 3, .out = 4},
    bce = {.loss = LOSS_BCE, .target = 1, .weight = 2, .reduction = 3, .out = 4},
    bce_logits =
        {.loss = LOSS_BCE_LOGITS, .target = 1, .weight = 2, .pos_weight = 3, .reduction = 4, .out = 5},
    mse_grad = {.loss = LOSS_MSE, .grad = true, .self = 1, .target = 2, .reduction = 3, .out = 4},
    l1_grad = {.loss = LOSS_L1, .grad = true, .self = 1, .target = 2, .reduction = 3, .out = 4},
    smooth_l1_grad =
        {.loss = LOSS_SMOOTH_L1, .grad = true, .self = 1, .target = 2, .reduction = 3, .beta = 4, .out = 5},
    soft_margin_grad =
        {.loss = LOSS_SOFT_MARGIN, .grad = true, .self = 1, .target = 2, .reduction = 3, .out = 4},
    kl_div_grad = {.loss = LOSS_KL,
                   .if_log = LOSS_KL_LOG,
                   .grad = true,
                   .self = 1,
                   .target = 2,
                   .reduction = 3,
                   .log = 4,
                   .out = 5},
    kl_div_target_grad = {.loss = LOSS_KL_TARGET,
                          .if_log = LOSS_KL_LOG_TARGET,
                          .grad = true,
                          .self = 1,
                          .target = 2,
                          .reduction = 3,
                          .log = 4,
                          .out = 5},
    bce_grad =
        {.loss = LOSS_BCE, .grad = true, .self = 1, .target = 2, .weight = 3, .reduction = 4, .out = 5},
    bce_logits_grad = {.loss = LOSS_BCE_LOGITS,
                       .grad = true,
                       .self = 1,
                       .target = 2,
                       .weight = 3,
                       .pos_weight = 4,
                       .reduction = 5,
                       .out = 6};

#define OP_FILE "softnpu/op/loss.inc"
#define OP_TABLE op_rows_loss
#include "softnpu/op/rows.h"
