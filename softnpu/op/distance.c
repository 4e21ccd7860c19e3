/* distance.c - pairwise distances: cdist, its gradient, pdist. */
#include "softnpu/kernel/distance.h"
#include "softnpu/op/op.h"

#include <math.h>
#include <string.h>

/* torch_npu writes infinity as -1. */
static double order(double p)
{
    return p < 0 ? (double)INFINITY : p;
}

/* ---- cdist: x1 [batch, P, M], x2 [batch, R, M], out [batch, P, R] ---------------------------- */

struct pairs {
    const float *x1, *x2, *grad, *distance;
    float *out;
    int64_t p_rows, r_rows, m;
    double p;
};

static int batch_shape(const op_call *c, const aclTensor *a, const aclTensor *b, aclTensor *batch)
{
    aclTensor ba = *a, bb = *b;
    ba.rank -= 2;
    bb.rank -= 2;
    if (a->dim[a->rank - 1] != b->dim[b->rank - 1])
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "x1 has %lld columns and x2 has %lld",
                       (long long)a->dim[a->rank - 1], (long long)b->dim[b->rank - 1]);
    if (sn_broadcast_shape(&ba, &bb, batch->dim, &batch->rank)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the batch dimensions of x1 and x2 do not broadcast");
}

/* t's rows as contiguous f32, its batch dimensions expanded to batch. */
static const float *rows_of(op_call *c, const aclTensor *t, const aclTensor *batch)
{
    int64_t dim[SN_MAX_DIMS];
    aclTensor view;
    memcpy(dim, batch->dim, sizeof dim);
    dim[batch->rank] = t->dim[t->rank - 2];
    dim[batch->rank + 1] = t->dim[t->rank - 1];
    sn_expand(t, dim, batch->rank + 2, &view);
    return op_in(c, &view, ACL_FLOAT);
}

static int check_cdist(op_call *c)
{
    const aclTensor *a = c->arg[0].t, *b = c->arg[1].t;
    aclTensor batch;
    if (a->rank < 2 || b->rank < 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "x1 and x2 need two dimensions or more");
    int e = batch_shape(c, a, b, &batch);
    if (e) return e;
    batch.dim[batch.rank++] = a->dim[a->rank - 2];
    batch.dim[batch.rank++] = b->dim[b->rank - 2];
    return op_need_shape(c, 4, batch.dim, batch.rank);
}

/* Elements [begin, end) of the output. */
static void distances(void *ctx, int64_t begin, int64_t end)
{
    const struct pairs *f = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t r = i % f->r_rows, row = i / f->r_rows, batch = row / f->p_rows;
        const float *b = f->x2 + (batch * f->r_rows + r) * f->m;
        f->out[i] = (float)distance_kernels()->norm(f->x1 + row * f->m, b, f->m, f->p);
    }
}

static int64_t grain_for(int64_t work)
{
    return work > 65536 ? 1 : 65536 / (work + 1) + 1;
}

static int run_cdist(op_call *c)
{
    const aclTensor *a = c->arg[0].t, *b = c->arg[1].t, *out = c->arg[4].t;
    if (!sn_numel(out)) return 0;
    aclTensor batch;
    int e = batch_shape(c, a, b, &batch);
    if (e) return e;
    struct pairs f = {
        .x1 = rows_of(c, a, &batch), .x2 = rows_of(c, b, &batch), .out = op_out_scratch(c, out, ACL_FLOAT)};
    f.p_rows = a->dim[a->rank - 2];
    f.r_rows = b->dim[b->rank - 2];
    f.m = a->dim[a->rank - 1];
    f.p = order(c->arg[2].d);
    rt_pool_run(sn_numel(out), grain_for(f.m), distances, &f);
    op_out_done(c, out, ACL_FLOAT, f.out);
    return 0;
}

/* ---- the gradient by x1: (grad, x1, x2, cdist, p, out), batches already expanded ------------- */

static int check_cdist_backward(op_call *c)
{
    const aclTensor *a = c->arg[1].t, *b = c->arg[2].t;
    aclTensor batch;
    if (a->rank < 2 || b->rank < 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "x1 and x2 need two dimensions or more");
    int e = batch_shape(c, a, b, &batch);
    if (e) return e;
    int32_t n = batch.rank;
    batch.dim[n] = a->dim[a->rank - 2];
    batch.dim[n + 1] = b->dim[b->rank - 2];
    if (!e) e = op_need_shape(c, 0, batch.dim, n + 2);
    if (!e) e = op_need_shape(c, 3, batch.dim, n + 2);
    batch.dim[n + 1] = a->dim[a->rank - 1];
    return e ? e : op_need_shape(c, 5, batch.dim, n + 2);
}

/* Rows [begin, end) of the gradient; sums in double, row by row of x2. */
static void gradients(void *ctx, int64_t begin, int64_t end)
{
    const struct pairs *f = ctx;
    enum { TILE = 512 };
    double sum[TILE];
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0; at < f->m; at += TILE) {
            int64_t n = f->m - at < TILE ? f->m - at : TILE;
            const float *b = f->x2 + row / f->p_rows * f->r_rows * f->m + at;
            memset(sum, 0, sizeof sum);
            for (int64_t r = 0; r < f->r_rows; r++)
                distance_kernels()->gradient(sum, f->x1 + row * f->m + at, b + r * f->m, n, f->p,
                                             (double)f->distance[row * f->r_rows + r],
                                             (double)f->grad[row * f->r_rows + r]);
            for (int64_t i = 0; i < n; i++) f->out[row * f->m + at + i] = (float)sum[i];
        }
}

static int run_cdist_backward(op_call *c)
{
    const aclTensor *a = c->arg[1].t, *b = c->arg[2].t, *out = c->arg[5].t;
    if (!sn_numel(out)) return 0;
    aclTensor batch;
    int e = batch_shape(c, a, b, &batch);
    if (e) return e;
    struct pairs f = {
        .x1 = rows_of(c, a, &batch), .x2 = rows_of(c, b, &batch), .out = op_out_scratch(c, out, ACL_FLOAT)};
    f.grad = op_in(c, c->arg[0].t, ACL_FLOAT);
    f.distance = op_in(c, c->arg[3].t, ACL_FLOAT);
    f.p_rows = a->dim[a->rank - 2];
    f.r_rows = b->dim[b->rank - 2];
    f.m = a->dim[a->rank - 1];
    f.p = order(c->arg[4].d);
    rt_pool_run(sn_numel(out) / f.m, grain_for(f.m * f.r_rows), gradients, &f);
    op_out_done(c, out, ACL_FLOAT, f.out);
    return 0;
}

/* ---- the same of the older path: all inputs expanded to [batch, P, R, M], y [batch, P, M] ----- */

/* The gradient's full shape; y may lack batch dimensions that x2 has more of: then it is the sum over them.
 */
static void expanded_shape(const aclTensor *x1, aclTensor *full)
{
    full->rank = x1->rank - 1;
    memcpy(full->dim, x1->dim, sizeof full->dim);
    full->dim[full->rank - 1] = x1->dim[full->rank];
}

static int check_cdist_grad(op_call *c)
{
    const aclTensor *x1 = c->arg[1].t, *y = c->arg[4].t;
    if (x1->rank < 3)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "x1 has %d dimensions, expected 3 or more", x1->rank);
    int e = 0;
    for (int i = 0; i < 4 && !e; i++) e = op_need_same_shape(c, i, 1);
    aclTensor full, view;
    expanded_shape(x1, &full);
    return e || sn_expand(y, full.dim, full.rank, &view) ? e : op_need_shape(c, 4, full.dim, full.rank);
}

static void expanded_gradients(void *ctx, int64_t begin, int64_t end)
{
    const struct pairs *f = ctx;
    double sum[512];
    enum { TILE = sizeof sum / sizeof *sum };
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0; at < f->m; at += TILE) {
            int64_t n = f->m - at < TILE ? f->m - at : TILE;
            memset(sum, 0, sizeof sum);
            for (int64_t r = row * f->r_rows; r < (row + 1) * f->r_rows; r++)
                distance_kernels()->gradient(sum, f->x1 + r * f->m + at, f->x2 + r * f->m + at, n, f->p,
                                             (double)f->distance[r * f->m], (double)f->grad[r * f->m]);
            for (int64_t i = 0; i < n; i++) f->out[row * f->m + at + i] = (float)sum[i];
        }
}

/* to = from summed over the dimensions in which to, of y's shape, is repeated. */
static void sum_repeated(const aclTensor *y, const aclTensor *full, const float *from, double *to)
{
    aclTensor dense, view;
    sn_wrap(&dense, ACL_DOUBLE, y->rank, y->dim, to);
    sn_expand(&dense, full->dim, full->rank, &view);
    int64_t at[SN_MAX_DIMS] = {0}, place = 0, n = sn_numel(&view);
    for (int64_t i = 0; i < n; i++) {
        to[place] += (double)from[i];
        for (int32_t d = view.rank; d-- > 0;) {
            place += view.stride[d];
            if (++at[d] < view.dim[d]) break;
            place -= view.stride[d] * view.dim[d];
            at[d] = 0;
        }
    }
}

static int run_cdist_grad(op_call *c)
{
    const aclTensor *x1 = c->arg[1].t, *y = c->arg[4].t;
    int64_t out = sn_numel(y);
    if (!out) return 0;
    aclTensor full;
    expanded_shape(x1, &full);
    const int64_t n = sn_numel(&full);
    struct pairs f = {.out = op_scratch(c, sizeof *f.out * (size_t)n),
                      .r_rows = x1->dim[x1->rank - 2],
                      .m = x1->dim[x1->rank - 1],
                      .p = order(c->arg[5].d)};
    const float **in[] = {&f.grad, &f.x1, &f.x2, &f.distance};
    for (int i = 0; i < 4; i++) *in[i] = op_in(c, c->arg[i].t, ACL_FLOAT);
    if (n) rt_pool_run(n / f.m, grain_for(f.m * f.r_rows), expanded_gradients, &f);
    double *sum = op_scratch(c, sizeof *sum * (size_t)out);
    memset(sum, 0, sizeof *sum * (size_t)out);
    sum_repeated(y, &full, f.out, sum);
    op_out_done(c, y, ACL_DOUBLE, sum);
    return 0;
}

/* ---- pdist: the pairs i < j of self's rows, in that order ------------------------------------ */

static int check_pdist(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    if (self->rank != 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self has %d dimensions, expected 2", self->rank);
    int64_t pairs = self->dim[0] * (self->dim[0] - 1) / 2;
    return op_need_shape(c, 2, &pairs, 1);
}

static int run_pdist(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    int64_t n = self->dim[0], m = self->dim[1];
    const float *x = op_in(c, self, ACL_FLOAT);
    float *to = op_out_scratch(c, out, ACL_FLOAT), *at = to;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            *at++ = (float)distance_kernels()->norm(x + i * m, x + j * m, m, order(c->arg[1].d));
    op_out_done(c, out, ACL_FLOAT, to);
    return 0;
}

#define OP_FILE "softnpu/op/distance.inc"
#define OP_TABLE op_rows_distance
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/distance_older.inc"
#define OP_TABLE op_rows_distance_older
#include "softnpu/op/rows.h"
