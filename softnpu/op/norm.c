/* norm.c - layer norm, RMS norm and relatives: statistics of each row, then scale and shift. */
#include "softnpu/op/norm.h"
#include "softnpu/op/rowwise.h"

#include <string.h>

/* Places of arguments; 0: the operator has none. Tensors that may be absent are NULL in the call. */
struct norm_spec {
    int8_t shape; /* list of the normalised dimensions; otherwise gamma's shape says it */
    int8_t x2, bias, gamma, beta, eps, alpha;
    int8_t y, y_cast, sum, sum_flag, mean, rstd;
    bool in_place; /* y and sum are the inputs themselves (arguments 0 and 1) */
    bool rms;      /* no mean is subtracted */
    bool plus_one; /* gamma counts as gamma + 1 */
};

static const aclTensor *tensor(const op_call *c, int arg)
{
    return arg ? c->arg[arg].t : NULL;
}

/* How many of x's last dimensions are normalised, into plan[0], and the elements in a row, into plan[1]. */
static int find_row(op_call *c, const aclTensor *x, int shape, int gamma)
{
    const aclTensor *g = tensor(c, gamma);
    int64_t count = shape ? (int64_t)c->arg[shape].ia->n : g->rank;
    const int64_t *dim = shape ? c->arg[shape].ia->v : g->dim;
    char text[256];
    if (count > x->rank)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%lld dimensions are normalised, x %s has fewer",
                       (long long)count, sn_shape_str(x, text));
    int64_t n = 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t have = x->dim[x->rank - count + i];
        if (dim[i] != have)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "normalised dimension %lld is %lld, but x %s has %lld there", (long long)i,
                           (long long)dim[i], sn_shape_str(x, text), (long long)have);
        n *= have;
    }
    c->plan[0] = count;
    c->plan[1] = n;
    return 0;
}

static int need_counts(const op_call *c, const int8_t *arg, int n, int64_t count)
{
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        if (arg[i]) rc = norm_need_count(c, arg[i], count);
    return rc;
}

static int check_norm(op_call *c)
{
    const struct norm_spec *s = c->row->aux;
    const aclTensor *x = c->arg[0].t, *bias = tensor(c, s->bias);
    int rc = find_row(c, x, s->shape, s->gamma);
    if (rc) return rc;
    const int8_t same[] = {s->x2, s->y, s->y_cast}, row[] = {s->gamma, s->beta}, one[] = {s->mean, s->rstd};
    for (size_t i = 0; i < sizeof same && !rc; i++)
        if (same[i]) rc = op_need_same_shape(c, 0, same[i]);
    if (!rc) rc = need_counts(c, row, 2, c->plan[1]);
    if (!rc) rc = need_counts(c, one, 2, row_count(x, x->rank - (int32_t)c->plan[0], (int32_t)c->plan[0]));
    if (!rc && bias && !s->shape && s->bias != s->beta && !sn_same_shape(bias, x))
        rc = norm_need_count(c, s->bias, c->plan[1]);
    return rc;
}

/* ---- forward: one row -------------------------------------------------------------------------------- */

struct norm_run {
    int type;
    aclDataType as;
    const void *gamma, *beta, *bias_row; /* one row for all, or NULL */
    double *mean, *rstd;
    double eps, alpha;
    bool rms;
};
enum { P_Y, P_CAST, P_SUM, P_X1, P_X2, P_BIAS };

static void norm_row(const struct row_call *r)
{
    const struct norm_run *n = r->ctx;
    const struct row_kernels *k = row_kernels();
    const void *x = r->p[P_X1];
    int64_t count = r->n[P_X1];
    if (r->p[P_X2]) {
        k->add[n->type](r->scratch, r->p[P_X2], x, n->alpha, count);
        const void *bias = r->p[P_BIAS] ? r->p[P_BIAS] : n->bias_row;
        if (bias) k->add[n->type](r->scratch, r->scratch, bias, 1, count);
        x = r->scratch;
    }
    struct row_stats s = n->rms ? k->rms[n->type](x, count, n->eps) : k->stats[n->type](x, count, n->eps);
    n->mean[r->row] = s.mean;
    n->rstd[r->row] = s.rstd;
    k->normalise[n->type](r->p[P_Y], x, count, s, n->gamma, n->beta);
    size_t bytes = sn_size(n->as) * (size_t)count;
    if (r->p[P_CAST]) memcpy(r->p[P_CAST], r->p[P_Y], bytes);
    if (r->p[P_SUM]) memcpy(r->p[P_SUM], x, bytes);
}

static void *gamma_plus_one(op_call *c, const void *gamma, aclDataType as, int64_t n)
{
    char *g = op_scratch(c, sn_size(as) * (size_t)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) {
        if (as == ACL_DOUBLE)
            ((double *)g)[i] = ((const double *)gamma)[i] + 1;
        else
            ((float *)g)[i] = ((const float *)gamma)[i] + 1;
    }
    return g;
}

static int run_norm(op_call *c)
{
    const struct norm_spec *s = c->row->aux;
    const aclTensor *x = c->arg[0].t, *bias = tensor(c, s->bias), *sum = tensor(c, s->sum);
    aclDataType as = norm_type(x);
    int32_t count = (int32_t)c->plan[0];
    int64_t rows = row_count(x, x->rank - count, count);
    struct norm_run n = {
        .type = norm_index(as), .as = as, .rms = s->rms, .eps = c->arg[s->eps].d, .alpha = 1};
    if (s->alpha) n.alpha = c->arg[s->alpha].d;
    if (s->sum_flag && !c->arg[s->sum_flag].i) sum = NULL;
    bool bias_is_row = bias && !sn_same_shape(bias, x);
    n.gamma = norm_in(c, tensor(c, s->gamma), as);
    if (s->plus_one) n.gamma = gamma_plus_one(c, n.gamma, as, c->plan[1]);
    n.beta = norm_in(c, tensor(c, s->beta), as);
    n.bias_row = bias_is_row ? op_in(c, bias, as) : NULL;
    n.mean = norm_out(c, tensor(c, s->mean), ACL_DOUBLE, rows);
    n.rstd = norm_out(c, tensor(c, s->rstd), ACL_DOUBLE, rows);
    struct row_operand operand[] = {
        [P_Y] = {s->in_place ? x : c->arg[s->y].t, as},
        [P_CAST] = {tensor(c, s->y_cast), as},
        [P_SUM] = {s->in_place ? c->arg[1].t : sum, as},
        [P_X1] = {x, as},
        [P_X2] = {tensor(c, s->x2), as},
        [P_BIAS] = {bias_is_row ? NULL : bias, as},
    };
    struct row_space space = {x->rank - count, count, false, s->x2 ? sn_size(as) * (size_t)c->plan[1] : 0};
    int rc = row_run(c, &space, operand, 3, 3, norm_row, &n);
    norm_out_done(c, tensor(c, s->mean), ACL_DOUBLE, n.mean);
    norm_out_done(c, tensor(c, s->rstd), ACL_DOUBLE, n.rstd);
    return rc;
}

/* ---- backward ---------------------------------------------------------------------------------------- */

struct norm_grad_spec {
    int8_t x, x2, shape, mean, rstd, gamma, dsum, mask, alpha;
    int8_t dx, dx2, dgamma, dbeta; /* dx2: what x2 gets; dx gets alpha times that */
    bool rms;
};

static const aclTensor *wanted(const op_call *c, int mask, int bit, int arg)
{
    if (mask && (c->arg[mask].ba->n <= (uint64_t)bit || !c->arg[mask].ba->v[bit])) return NULL;
    return tensor(c, arg);
}

static int check_norm_grad(op_call *c)
{
    const struct norm_grad_spec *s = c->row->aux;
    const aclTensor *x = c->arg[s->x].t;
    int rc = find_row(c, x, s->shape, s->gamma);
    if (rc) return rc;
    if (s->mask && c->arg[s->mask].ba->n != 3)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "outputMask has %d elements, not 3",
                       (int)c->arg[s->mask].ba->n);
    const int8_t same[] = {s->x2, s->dsum, s->dx2}, row[] = {s->gamma, s->dgamma, s->dbeta},
                 one[] = {s->mean, s->rstd};
    rc = op_need_same_shape(c, 0, s->x);
    for (size_t i = 0; i < sizeof same && !rc; i++)
        if (tensor(c, same[i])) rc = op_need_same_shape(c, s->x, same[i]);
    if (!rc && wanted(c, s->mask, 0, s->dx)) rc = op_need_same_shape(c, s->x, s->dx);
    if (!rc) rc = need_counts(c, row, 1, c->plan[1]);
    for (int i = 1; i < 3 && !rc; i++)
        if (wanted(c, s->mask, i, row[i])) rc = norm_need_count(c, row[i], c->plan[1]);
    if (!rc) rc = need_counts(c, one, 2, row_count(x, x->rank - (int32_t)c->plan[0], (int32_t)c->plan[0]));
    return rc;
}

/* x1 * alpha + x2 as one contiguous tensor. */
static const void *grad_point(op_call *c, const struct norm_grad_spec *s, aclDataType as, double alpha)
{
    const aclTensor *x = c->arg[s->x].t, *x2 = tensor(c, s->x2);
    const void *x1 = op_in(c, x, as);
    if (!x2) return x1;
    int64_t n = sn_numel(x);
    void *sum = op_scratch(c, sn_size(as) * (size_t)(n ? n : 1));
    row_kernels()->add[norm_index(as)](sum, op_in(c, x2, as), x1, alpha, n);
    return sum;
}

static int run_norm_grad(op_call *c)
{
    const struct norm_grad_spec *s = c->row->aux;
    const aclTensor *x = c->arg[s->x].t, *dx2 = tensor(c, s->dx2);
    const aclTensor *out[3] = {wanted(c, s->mask, 0, s->dx), wanted(c, s->mask, 1, s->dgamma),
                               wanted(c, s->mask, 2, s->dbeta)};
    aclDataType as = norm_type(x);
    double alpha = s->alpha ? c->arg[s->alpha].d : 1;
    int32_t count = (int32_t)c->plan[0];
    struct norm_grad g = {.as = as, .n = c->plan[1], .centred = !s->rms};
    g.rows = row_count(x, x->rank - count, count);
    g.x = grad_point(c, s, as, alpha);
    g.dy = op_in(c, c->arg[0].t, as);
    g.gamma = norm_in(c, tensor(c, s->gamma), as);
    g.dx_add = norm_in(c, tensor(c, s->dsum), as);
    g.mean = norm_in(c, tensor(c, s->mean), ACL_DOUBLE);
    g.rstd = op_in(c, c->arg[s->rstd].t, ACL_DOUBLE);
    g.dx = norm_out_beside(c, out[0], as, x, c->arg[0].t);
    if (out[1]) g.dgamma = op_out_scratch(c, out[1], ACL_DOUBLE);
    if (out[2]) g.dbeta = op_out_scratch(c, out[2], ACL_DOUBLE);
    norm_grad_run(c, &g);
    if (dx2) {
        op_out_done(c, dx2, as, g.dx);
        row_kernels()->add[norm_index(as)](g.dx, g.dx, g.dx, alpha - 1, g.rows * g.n);
    }
    norm_out_done(c, out[0], as, g.dx);
    norm_out_done(c, out[1], ACL_DOUBLE, g.dgamma);
    norm_out_done(c, out[2], ACL_DOUBLE, g.dbeta);
    return 0;
}

/* ---- the rows ---------------------------------------------------------------------------------------- */

static const struct norm_spec
    layer_norm = {.shape = 1, .gamma = 2, .beta = 3, .eps = 4, .y = 5, .mean = 6, .rstd = 7},
    add_layer_norm = {.x2 = 1,
                      .gamma = 2,
                      .beta = 3,
                      .bias = 4,
                      .eps = 5,
                      .sum_flag = 6,
                      .y = 7,
                      .mean = 8,
                      .rstd = 9,
                      .sum = 10},
    deep_norm = {.x2 = 1, .beta = 2, .gamma = 3, .alpha = 4, .eps = 5, .mean = 6, .rstd = 7, .y = 8},
    rms_norm = {.gamma = 1, .eps = 2, .y = 3, .rstd = 4, .rms = true},
    gemma_rms_norm = {.gamma = 1, .eps = 2, .y = 3, .rstd = 4, .rms = true, .plus_one = true},
    add_rms_norm = {.x2 = 1, .gamma = 2, .eps = 3, .y = 4, .rstd = 5, .sum = 6, .rms = true},
    add_rms_norm_cast =
        {.x2 = 1, .gamma = 2, .eps = 3, .y = 4, .y_cast = 5, .rstd = 6, .sum = 7, .rms = true},
    inplace_add_rms_norm = {.x2 = 1, .gamma = 2, .eps = 3, .rstd = 4, .rms = true, .in_place = true};
static const struct norm_grad_spec
    layer_norm_grad =
        {.x = 1, .shape = 2, .mean = 3, .rstd = 4, .gamma = 5, .mask = 7, .dx = 8, .dgamma = 9, .dbeta = 10},
    add_layer_norm_grad =
        {.x = 1, .x2 = 2, .rstd = 3, .mean = 4, .gamma = 5, .dsum = 6, .dx = 7, .dgamma = 8, .dbeta = 9},
    deep_norm_grad = {.x = 1,
                      .x2 = 2,
                      .gamma = 3,
                      .mean = 4,
                      .rstd = 5,
                      .alpha = 6,
                      .dx = 7,
                      .dx2 = 8,
                      .dbeta = 9,
                      .dgamma = 10},
    rms_norm_grad = {.x = 1, .rstd = 2, .gamma = 3, .dx = 4, .dgamma = 5, .rms = true};

#define OP_FILE "softnpu/op/norm.inc"
#define OP_TABLE op_rows_norm
#include "softnpu/op/rows.h"
