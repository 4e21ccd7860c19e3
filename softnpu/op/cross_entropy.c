/* cross_entropy.c - cross entropy with label smoothing and z-loss, its gradient, and the multi-label margin
 * loss.
 *
 * z-loss: scale * lse^2, lse being the log of the sum of the exponentials of a row. */
#include "softnpu/op/norm.h"

#include <math.h>
#include <string.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM, REDUCE_UNKNOWN };

static int reduction_named(const char *name)
{
    static const char *const names[] = {"none", "mean", "sum"};
    int i = REDUCE_NONE;
    if (!name) return REDUCE_MEAN;
    while (i < REDUCE_UNKNOWN && strcmp(names[i], name) != 0) i++;
    return i;
}

/* x is [rows, classes], target has one class a row. */
static int check_rows(op_call *c, int x, int target, int weight, int reduction, double smoothing)
{
    const aclTensor *t = c->arg[x].t;
    if (t->rank != 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, not rows by classes",
                       c->row->param[x].name, t->rank);
    c->plan[0] = reduction_named(c->arg[reduction].str);
    if (c->plan[0] == REDUCE_UNKNOWN)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduction is %s, not none, mean or sum",
                       c->arg[reduction].str);
    if (!(smoothing >= 0 && smoothing <= 1))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "labelSmoothing is %g, not within [0, 1]", smoothing);
    int rc = norm_need_count(c, target, t->dim[0]);
    return rc ? rc : norm_need_count(c, weight, t->dim[1]);
}

static int check_cross_entropy(op_call *c)
{
    int rc = check_rows(c, 0, 1, 2, 3, c->arg[5].d);
    int64_t rows = rc ? 0 : c->arg[0].t->dim[0];
    if (!rc) rc = norm_need_count(c, 8, c->plan[0] == REDUCE_NONE ? rows : 1);
    return rc ? rc : op_need_same_shape(c, 0, 9);
}

/* The z-loss tensors count as absent when they are empty: so the plugin passes what the forward operator left
 * out. */
static const aclTensor *optional(const op_call *c, int arg)
{
    const aclTensor *t = c->arg[arg].t;
    return t && sn_numel(t) ? t : NULL;
}

static int check_cross_entropy_grad(op_call *c)
{
    int rc = check_rows(c, 1, 2, 3, 6, c->arg[8].d);
    int64_t rows = rc ? 0 : c->arg[1].t->dim[0];
    if (!rc) rc = norm_need_count(c, 0, c->plan[0] == REDUCE_NONE ? rows : 1);
    if (!rc && optional(c, 4)) rc = norm_need_count(c, 4, c->plan[0] == REDUCE_NONE ? rows : 1);
    if (!rc && optional(c, 5)) rc = norm_need_count(c, 5, rows);
    return rc ? rc : op_need_same_shape(c, 1, 10);
}

/* The weight of each row's target into w: 0 for an ignored one. Fails on a class that does not exist. */
static int target_weights(op_call *c, const int64_t *target, const double *weight, int64_t rows,
                          int64_t classes, int64_t ignore, double *w)
{
    for (int64_t i = 0; i < rows; i++) {
        w[i] = 0;
        if (target[i] == ignore) continue;
        if (target[i] < 0 || target[i] >= classes)
            return op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "target %lld is no class of [0, %lld)",
                           (long long)target[i], (long long)classes);
        w[i] = weight ? weight[target[i]] : 1;
    }
    return 0;
}

struct entropy {
    int64_t classes;
    const float *x;
    float *log_prob;
};

static void log_prob_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct entropy *e = ctx;
    for (int64_t i = begin; i < end; i++)
        row_kernels()->log_softmax[0](e->log_prob + i * e->classes, e->x + i * e->classes, e->classes);
}

/* Sum over the classes of -weight * log_prob, what smoothing mixes in. */
static double smooth_sum(const float *log_prob, const double *weight, int64_t classes)
{
    double sum = 0;
    for (int64_t i = 0; i < classes; i++) sum -= (weight ? weight[i] : 1) * (double)log_prob[i];
    return sum;
}

/* Stores values of rows as they are, or their sum divided by `total`. */
static void store_reduced(op_call *c, const aclTensor *t, const double *v, int64_t rows, int64_t reduction,
                          double total)
{
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += v[i];
    if (reduction == REDUCE_MEAN) sum /= total;
    op_out_done(c, t, ACL_DOUBLE, reduction == REDUCE_NONE ? v : &sum);
}

static int run_cross_entropy(op_call *c)
{
    const aclTensor *x = c->arg[0].t, *log_prob = c->arg[9].t, *zloss = c->arg[10].t, *lse_out = c->arg[11].t;
    int64_t rows = x->dim[0], classes = x->dim[1];
    size_t bytes = sizeof(double) * (size_t)(rows + 1);
    const int64_t *target = op_in(c, c->arg[1].t, ACL_INT64);
    const double *weight = norm_in(c, c->arg[2].t, ACL_DOUBLE);
    double *w = op_scratch(c, bytes), *loss = op_scratch(c, bytes), *lse = op_scratch(c, bytes);
    double *z = op_scratch(c, bytes), smoothing = c->arg[5].d, total = 0, kept = 0;
    int rc = target_weights(c, target, weight, rows, classes, c->arg[4].i, w);
    if (rc) return rc;
    struct entropy e = {classes, op_in(c, x, ACL_FLOAT), norm_out_beside(c, log_prob, ACL_FLOAT, x, NULL)};
    rt_pool_run(rows, (1 << 14) / (classes + 1) + 1, log_prob_rows, &e);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = e.log_prob + i * classes;
        bool ignored = target[i] == c->arg[4].i;
        loss[i] = ignored ? 0 : -w[i] * (double)row[target[i]] * (1 - smoothing);
        if (smoothing > 0 && !ignored)
            loss[i] += smooth_sum(row, weight, classes) * smoothing / (double)classes;
        lse[i] = classes ? (double)e.x[i * classes] - (double)row[0] : 0;
        z[i] = ignored ? 0 : c->arg[6].d * lse[i] * lse[i];
        total += w[i];
        kept += !ignored;
    }
    op_out_done(c, log_prob, ACL_FLOAT, e.log_prob);
    store_reduced(c, c->arg[8].t, loss, rows, c->plan[0], total);
    if (zloss && sn_numel(zloss) == (c->plan[0] == REDUCE_NONE ? rows : 1) && c->arg[7].i)
        store_reduced(c, zloss, z, rows, c->plan[0], kept);
    if (lse_out && sn_numel(lse_out) == rows) op_out_done(c, lse_out, ACL_DOUBLE, lse);
    return 0;
}

static int run_cross_entropy_grad(op_call *c)
{
    const aclTensor *log_prob = c->arg[1].t, *out = c->arg[10].t;
    int64_t rows = log_prob->dim[0], classes = log_prob->dim[1], ignore = c->arg[7].i;
    bool none = c->plan[0] == REDUCE_NONE, mean = c->plan[0] == REDUCE_MEAN;
    const float *p = op_in(c, log_prob, ACL_FLOAT);
    const int64_t *target = op_in(c, c->arg[2].t, ACL_INT64);
    const double *grad = op_in(c, c->arg[0].t, ACL_DOUBLE), *weight = norm_in(c, c->arg[3].t, ACL_DOUBLE),
                 *grad_z = norm_in(c, optional(c, 4), ACL_DOUBLE),
                 *lse = norm_in(c, optional(c, 5), ACL_DOUBLE);
    double *w = op_scratch(c, sizeof *w * (size_t)(rows + 1)), total = 0, kept = 0, all = 0;
    double smoothing = c->arg[8].d, z_scale = 2 * c->arg[9].d;
    int rc = target_weights(c, target, weight, rows, classes, ignore, w);
    if (rc) return rc;
    for (int64_t i = 0; i < rows; i++) total += w[i], kept += target[i] != ignore;
    for (int64_t j = 0; j < classes; j++) all += weight ? weight[j] : 1;
    float *dx = norm_out_beside(c, out, ACL_FLOAT, log_prob, NULL);
    for (int64_t i = 0; i < rows; i++) {
        bool ignored = target[i] == ignore;
        double g = ignored ? 0 : grad[none ? i : 0], share = mean && !ignored ? g / total : g;
        double hard = share * (1 - smoothing) * w[i], soft = share * smoothing / (double)classes, z = 0;
        if (lse && !ignored)
            z = z_scale * lse[i] * (g + (grad_z ? grad_z[none ? i : 0] : 0)) / (mean ? kept : 1);
        for (int64_t j = 0; j < classes; j++) {
            double d =
                exp((double)p[i * classes + j]) * (hard + soft * all + z) - soft * (weight ? weight[j] : 1);
            dx[i * classes + j] = (float)(j == target[i] && !ignored ? d - hard : d);
        }
    }
    op_out_done(c, out, ACL_FLOAT, dx);
    return 0;
}

/* ---- multi-label margin loss -----------------------------------------------------------------------------
 */

static int check_multilabel(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t reduction = c->arg[2].i, rows = self->rank == 2 ? self->dim[0] : 1;
    if (reduction < REDUCE_NONE || reduction > REDUCE_SUM)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduction is %lld, not 0 (none), 1 (mean) or 2 (sum)",
                       (long long)reduction);
    int rc = op_need_same_shape(c, 0, 1);
    if (!rc) rc = norm_need_count(c, 4, sn_numel(self));
    return rc ? rc : norm_need_count(c, 3, reduction == REDUCE_NONE ? rows : 1);
}

/* Labels count up to the first -1. */
static double multilabel_row(const double *x, const int64_t *target, double *is_target, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) is_target[i] = 0;
    for (int64_t i = 0; i < n && target[i] >= 0; i++) is_target[target[i]] = 1;
    for (int64_t k = 0; k < n && target[k] >= 0; k++)
        for (int64_t i = 0; i < n; i++) sum += is_target[i] != 0 ? 0 : fmax(0, 1 - x[target[k]] + x[i]);
    return sum / (double)n;
}

static int run_multilabel(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t n = self->rank ? self->dim[self->rank - 1] : 1, rows = n ? sn_numel(self) / n : 0;
    const double *x = op_in(c, self, ACL_DOUBLE);
    const int64_t *target = op_in(c, c->arg[1].t, ACL_INT64);
    double *is_target = op_out_scratch(c, c->arg[4].t, ACL_DOUBLE),
           *loss = op_scratch(c, 8 * (size_t)(rows + 1));
    for (int64_t i = 0; i < rows * n; i++)
        if (target[i] < -1 || target[i] >= n)
            return op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "target %lld is no class of [0, %lld)",
                           (long long)target[i], (long long)n);
    for (int64_t i = 0; i < rows; i++)
        loss[i] = multilabel_row(x + i * n, target + i * n, is_target + i * n, n);
    store_reduced(c, c->arg[3].t, loss, rows, c->arg[2].i, (double)rows);
    op_out_done(c, c->arg[4].t, ACL_DOUBLE, is_target);
    return 0;
}

#define OP_FILE "softnpu/op/cross_entropy.inc"
#define OP_TABLE op_rows_cross_entropy
#include "softnpu/op/rows.h"
