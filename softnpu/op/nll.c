/* nll.c - negative log likelihood loss over class numbers, for rows and for images, and its gradient. */
#include "softnpu/op/op.h"

#include <string.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* self is [batch, classes, area]; batch 1 for a single row. Targets are batch by area. */
struct classes {
    int64_t batch, classes, area, targets;
};

static struct classes classes_of(const aclTensor *self)
{
    struct classes k = {.batch = 1, .classes = self->dim[self->rank > 1], .area = 1};
    if (self->rank > 1) k.batch = self->dim[0];
    for (int32_t d = 2; d < self->rank; d++) k.area *= self->dim[d];
    k.targets = k.batch * k.area;
    return k;
}

static int need_count(const op_call *c, int arg, int64_t n)
{
    char shape[256];
    if (sn_numel(c->arg[arg].t) == n) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has shape %s where %lld elements are needed",
                   c->row->param[arg].name, sn_shape_str(c->arg[arg].t, shape), (long long)n);
}

/* self, target, weight, reduction follow each other from argument `first`. */
static int check_classes(const op_call *c, int first)
{
    const aclTensor *self = c->arg[first].t;
    int64_t reduction = c->arg[first + 3].i;
    if (self->rank < 1 || self->rank > 4)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self has %d dimensions, not 1 to 4", self->rank);
    if (reduction < REDUCE_NONE || reduction > REDUCE_SUM)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduction is %lld, not 0 (none), 1 (mean) or 2 (sum)",
                       (long long)reduction);
    struct classes k = classes_of(self);
    int rc = need_count(c, first + 1, k.targets);
    return rc ? rc : need_count(c, first + 2, k.classes);
}

static int check_nll(op_call *c)
{
    int rc = check_classes(c, 0);
    if (!rc) rc = need_count(c, 5, c->arg[3].i == REDUCE_NONE ? classes_of(c->arg[0].t).targets : 1);
    return rc ? rc : need_count(c, 6, 1);
}

static int check_nll_grad(op_call *c)
{
    int rc = check_classes(c, 1);
    if (!rc) rc = need_count(c, 0, c->arg[4].i == REDUCE_NONE ? classes_of(c->arg[1].t).targets : 1);
    if (!rc) rc = need_count(c, 6, 1);
    return rc ? rc : op_need_same_shape(c, 1, 7);
}

/* Target i as a place in self; -1 if it is ignored, -2 (and a message) if there is no such class. */
static int64_t target_place(const op_call *c, const struct classes *k, const int64_t *target, int64_t i,
                            int64_t ignore)
{
    int64_t t = target[i];
    if (t == ignore) return -1;
    if (t < 0 || t >= k->classes) {
        op_fail(c, ACLNN_ERR_RUNTIME_ERROR, "target %lld is no class of [0, %lld)", (long long)t,
                (long long)k->classes);
        return -2;
    }
    return (i / k->area * k->classes + t) * k->area + i % k->area;
}

static int run_nll(op_call *c)
{
    struct classes k = classes_of(c->arg[0].t);
    const float *x = op_in(c, c->arg[0].t, ACL_FLOAT);
    const int64_t *target = op_in(c, c->arg[1].t, ACL_INT64);
    const double *weight = op_in(c, c->arg[2].t, ACL_DOUBLE);
    bool none = c->arg[3].i == REDUCE_NONE;
    double sum = 0, total = 0, *each = none ? op_out_scratch(c, c->arg[5].t, ACL_DOUBLE) : NULL;
    for (int64_t i = 0; i < k.targets; i++) {
        int64_t at = target_place(c, &k, target, i, c->arg[4].i);
        if (at == -2) return ACLNN_ERR_RUNTIME_ERROR;
        double w = at < 0 ? 0 : weight[target[i]], loss = at < 0 ? 0 : -w * (double)x[at];
        if (none) each[i] = loss;
        sum += loss;
        total += w;
    }
    if (c->arg[3].i == REDUCE_MEAN) sum /= total;
    op_out_done(c, c->arg[5].t, ACL_DOUBLE, none ? each : &sum);
    if (none) total = 0;
    op_out_done(c, c->arg[6].t, ACL_DOUBLE, &total);
    return 0;
}

static int run_nll_grad(op_call *c)
{
    struct classes k = classes_of(c->arg[1].t);
    const double *grad = op_in(c, c->arg[0].t, ACL_DOUBLE), *weight = op_in(c, c->arg[3].t, ACL_DOUBLE),
                 *total = op_in(c, c->arg[6].t, ACL_DOUBLE);
    const int64_t *target = op_in(c, c->arg[2].t, ACL_INT64);
    float *dx = op_out_scratch(c, c->arg[7].t, ACL_FLOAT);
    bool none = c->arg[4].i == REDUCE_NONE;
    double scale = c->arg[4].i == REDUCE_MEAN ? 1 / *total : 1;
    memset(dx, 0, sizeof *dx * (size_t)sn_numel(c->arg[7].t));
    for (int64_t i = 0; i < k.targets; i++) {
        int64_t at = target_place(c, &k, target, i, c->arg[5].i);
        if (at == -2) return ACLNN_ERR_RUNTIME_ERROR;
        if (at >= 0) dx[at] = (float)(-weight[target[i]] * grad[none ? i : 0] * scale);
    }
    op_out_done(c, c->arg[7].t, ACL_FLOAT, dx);
    return 0;
}

#define OP_FILE "softnpu/op/nll.inc"
#define OP_TABLE op_rows_nll
#include "softnpu/op/rows.h"
