/* index.c - operators whose index tensor selects whole rows: index, index_select, take, embedding,
 * index_add/copy/fill/put. */
#include "softnpu/op/advanced.h"
#include "softnpu/op/map_ops.h"

#include <string.h>

/* ---- advanced indexing ------------------------------------------------------------------------------- */

static int check_index(op_call *c)
{
    struct advanced a;
    int r = advanced_layout(c, c->arg[0].t, c->arg[1].tl, &a);
    if (r) return r;
    const aclTensor *out = c->arg[2].t;
    if (a.ambiguous && sn_numel(out) == 0) return 0;
    return op_need_shape(c, 2, a.dim, a.rank);
}

static int run_index(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    if (sn_numel(out) == 0) return 0;
    struct advanced a;
    struct map_job job;
    aclTensor hold, dense;
    int r = advanced_layout(c, self, c->arg[1].tl, &a);
    if (r) return r;
    self = map_apart(c, self, out, &hold);
    void *buffer = op_out(c, out, self->dtype);
    sn_wrap(&dense, self->dtype, out->rank, out->dim, buffer);
    if ((r = advanced_job(c, &a, self, &dense, &job))) return r;
    map_gather(c, &job);
    op_out_done(c, out, self->dtype, buffer);
    return 0;
}

static int check_index_put(op_call *c)
{
    struct advanced a;
    const aclTensor *self = c->arg[0].t, *values = c->arg[2].t;
    int r = op_need_same_dtype(c, 0, 2);
    if (r || (r = advanced_layout(c, self, c->arg[1].tl, &a))) return r;
    aclTensor view;
    char text[256];
    if (!sn_expand(values, a.dim, a.rank, &view) && !a.ambiguous)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "values %s cannot be broadcast to the indexed shape",
                       sn_shape_str(values, text));
    return 0;
}

/* The job with `values` as the dense side of an index_put into `into`. */
static int put_job(op_call *c, const struct advanced *a, const aclTensor *into, const aclTensor *values,
                   struct map_job *job)
{
    aclTensor view, flat;
    if (!sn_expand(values, a->dim, a->rank, &view))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "values cannot be broadcast to the indexed shape");
    if (!advanced_mergeable(a, &view)) {
        sn_wrap(&flat, view.dtype, view.rank, view.dim, op_in(c, &view, view.dtype));
        view = flat;
    }
    return advanced_job(c, a, into, &view, job);
}

static int run_index_put(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *values = c->arg[2].t;
    bool accumulate = c->arg[3].i;
    struct advanced a;
    struct map_job job;
    aclTensor hold_self, hold_values, hold_compute;
    int r = advanced_layout(c, self, c->arg[1].tl, &a);
    if (r || a.empty) return r;
    aclDataType as = accumulate ? sn_compute(self->dtype) : self->dtype;
    const aclTensor *into = map_as(c, self, as, &hold_self);
    values = map_apart(c, map_as(c, values, as, &hold_compute), self, &hold_values);
    if ((r = put_job(c, &a, into, values, &job))) return r;
    map_scatter(c, &job, accumulate ? MAP_ADD : MAP_SET, as, a.injective);
    map_store(c, self, into);
    return 0;
}

/* ---- one index along one dimension ------------------------------------------------------------------- */

static int need_vector(op_call *c, int arg)
{
    if (c->arg[arg].t->rank > 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s must have at most 1 dimension, not %d",
                       c->row->param[arg].name, (int)c->arg[arg].t->rank);
    return 0;
}

/* shape of arg `other` is that of arg 0 but for dimension d, where it is n. A single element may have no
 * dimension. */
static int need_row_shape(op_call *c, int other, int32_t d, int64_t n)
{
    aclTensor self = map_at_least_1d(c->arg[0].t), t = map_at_least_1d(c->arg[other].t);
    bool same = self.rank == t.rank;
    for (int i = 0; same && i < t.rank; i++) same = t.dim[i] == (i == d ? n : self.dim[i]);
    char a[256], b[256];
    if (!same)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "%s %s does not fit self %s with %lld rows along dimension %d",
                       c->row->param[other].name, sn_shape_str(c->arg[other].t, a),
                       sn_shape_str(c->arg[0].t, b), (long long)n, (int)d);
    return 0;
}

static int check_rows(op_call *c, int index, int other)
{
    int32_t d;
    int r = op_need_dim(c, c->arg[1].i, c->arg[0].t->rank, &d);
    if (r || (r = need_vector(c, index)) || (r = op_need_same_dtype(c, 0, other))) return r;
    c->plan[0] = d;
    return need_row_shape(c, other, d, sn_numel(c->arg[index].t));
}

static int check_index_select(op_call *c)
{
    return check_rows(c, 2, 3);
}

/* Job of `dense` against rows of `self` along dimension d. */
static int row_job(op_call *c, const aclTensor *self, const aclTensor *dense, const aclTensor *index, int d,
                   struct map_job *job)
{
    aclTensor view = map_at_least_1d(self);
    map_dense(job, dense);
    int r = map_index(c, index, view.dim[d], view.stride[d], &job->map[d]);
    if (r) return r;
    map_follow(c, job, self);
    return 0;
}

static int run_index_select(op_call *c)
{
    const aclTensor *out = c->arg[3].t;
    aclTensor hold;
    struct map_job job;
    if (sn_numel(out) == 0) return 0;
    const aclTensor *self = map_apart(c, c->arg[0].t, out, &hold);
    int r = row_job(c, self, out, c->arg[2].t, (int)c->plan[0], &job);
    if (!r) map_gather(c, &job);
    return r;
}

/* out = self[batch, ..., index[batch, ...], ...]: the index's own dimensions stand where dim stood. */
static int check_gather_v3(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *index = c->arg[2].t;
    int64_t batch = c->arg[3].i, want[SN_MAX_DIMS];
    int32_t d, rank = 0;
    int r = op_need_dim(c, c->arg[1].i, self->rank, &d);
    if (r || (r = op_need_same_dtype(c, 0, 5))) return r;
    if (batch < 0) batch += index->rank;
    if (batch < 0 || batch > d || batch > index->rank || self->rank + index->rank - batch - 1 > 8)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "batchDims %lld does not fit dim %d and index of rank %d",
                       (long long)c->arg[3].i, (int)d, (int)index->rank);
    for (int i = 0; i < batch; i++)
        if (self->dim[i] != index->dim[i])
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self and index differ in batch dimension %d", i);
    for (int i = 0; i < d; i++) want[rank++] = self->dim[i];
    for (int i = (int)batch; i < index->rank; i++) want[rank++] = index->dim[i];
    for (int i = d + 1; i < self->rank; i++) want[rank++] = self->dim[i];
    c->plan[0] = d;
    c->plan[1] = batch;
    return op_need_shape(c, 5, want, rank);
}

/* One gather of the batch at row b: self_b[pre, dim, post] by n indices. */
static int run_gather_v3(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *index = c->arg[2].t, *out = c->arg[5].t;
    int d = (int)c->plan[0], batch = (int)c->plan[1];
    if (sn_numel(out) == 0) return 0;
    int64_t batches = 1, pre = 1, post = 1, rows = self->dim[d], *values;
    for (int i = 0; i < batch; i++) batches *= self->dim[i];
    for (int i = batch; i < d; i++) pre *= self->dim[i];
    for (int i = d + 1; i < self->rank; i++) post *= self->dim[i];
    int64_t n = sn_numel(index) / (batches ? batches : 1);
    int r = map_values(c, index, rows, &values);
    if (r) return r;
    char *from = op_in(c, self, self->dtype), *to = op_out_scratch(c, out, self->dtype);
    int64_t size = (int64_t)sn_size(self->dtype);
    for (int64_t i = 0; i < sn_numel(index); i++) values[i] *= post;
    for (int64_t b = 0; b < batches; b++) {
        struct map_job job = {
            .rank = 2, .dim = {pre, n}, .stride = {n * post, post}, .run = post, .size = size};
        job.map[0] = map_range(c, pre, 0, rows * post);
        job.map[1] = values + b * n;
        job.mapped = from + b * pre * rows * post * size;
        job.dense = to + b * pre * n * post * size;
        map_gather(c, &job);
    }
    op_out_done(c, out, self->dtype, to);
    return 0;
}

static int check_take(op_call *c)
{
    int r = op_need_same_dtype(c, 0, 2);
    return r ? r : op_need_same_shape(c, 1, 2);
}

static int run_take(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    int64_t n = sn_numel(out);
    if (n == 0) return 0;
    struct map_job job = {
        .rank = 1, .dim = {n}, .stride = {1}, .run = 1, .size = (int64_t)sn_size(self->dtype)};
    int r = map_index(c, c->arg[1].t, sn_numel(self), 1, &job.map[0]);
    if (r) return r;
    job.mapped = op_in(c, self, self->dtype);
    job.dense = sn_overlap(self, out) ? op_out_scratch(c, out, self->dtype) : op_out(c, out, self->dtype);
    void *buffer = job.dense;
    map_gather(c, &job);
    op_out_done(c, out, self->dtype, buffer);
    return 0;
}

static int check_embedding(op_call *c)
{
    const aclTensor *weight = c->arg[0].t, *indices = c->arg[1].t;
    int64_t want[SN_MAX_DIMS + 1];
    int r = op_need_same_dtype(c, 0, 2);
    if (r) return r;
    if (indices->rank + 1 > SN_MAX_DIMS)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "indices have %d dimensions", (int)indices->rank);
    memcpy(want, indices->dim, (size_t)indices->rank * sizeof *want);
    want[indices->rank] = weight->dim[weight->rank - 1];
    return op_need_shape(c, 2, want, indices->rank + 1);
}

static int run_embedding(op_call *c)
{
    const aclTensor *weight = c->arg[0].t, *out = c->arg[2].t;
    if (sn_numel(out) == 0) return 0;
    int64_t n = sn_numel(c->arg[1].t), width = weight->dim[1];
    aclTensor hold, dense;
    struct map_job job;
    weight = map_apart(c, weight, out, &hold);
    void *buffer = op_out(c, out, weight->dtype);
    sn_wrap(&dense, weight->dtype, 2, (int64_t[]){n, width}, buffer);
    int r = row_job(c, weight, &dense, c->arg[1].t, 0, &job);
    if (r) return r;
    map_gather(c, &job);
    op_out_done(c, out, weight->dtype, buffer);
    return 0;
}

/* ---- scatters of rows -------------------------------------------------------------------------------- */

/* Where the operands of a row scatter stand; out -1: in place. */
struct row_scatter {
    int8_t index, source, alpha, out;
};
static const struct row_scatter index_add = {2, 3, 4, 5}, index_add_v2 = {2, 3, 4, 6},
                                index_copy = {2, 3, -1, 4}, index_copy_inplace = {2, 3, -1, -1},
                                index_fill = {2, -1, 3, 4}, index_fill_inplace = {2, -1, 3, -1};

/* The tensor that is written: out after it became a copy of self, or self itself. */
static const aclTensor *scatter_target(op_call *c)
{
    const struct row_scatter *row = c->row->aux;
    const aclTensor *self = c->arg[0].t, *out = row->out < 0 ? self : c->arg[row->out].t;
    if (out != self && !sn_same_view(self, out)) op_copy(c, out, self);
    return out;
}

static int check_target(op_call *c)
{
    const struct row_scatter *row = c->row->aux;
    if (row->out < 0) return 0;
    int r = op_need_same_shape(c, 0, row->out);
    return r ? r : op_need_same_dtype(c, 0, row->out);
}

static int check_index_copy(op_call *c)
{
    const struct row_scatter *row = c->row->aux;
    int r = check_rows(c, row->index, row->source);
    return r ? r : check_target(c);
}

static int check_index_add(op_call *c)
{
    const struct row_scatter *row = c->row->aux;
    const aclScalar *alpha = c->arg[row->alpha].s;
    bool integral =
        sn_is_integral(c->arg[0].t->dtype) && sn_is_integral(alpha->dtype); /* BOOL takes any integer */
    if (!integral && !sn_can_cast(sn_promote_scalar(c->arg[0].t->dtype, alpha), c->arg[0].t->dtype))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "alpha of type %s cannot be used with self of type %s",
                       sn_dtype(alpha->dtype)->name, sn_dtype(c->arg[0].t->dtype)->name);
    return check_index_copy(c);
}

/* Scatters the rows `dense` (already of target's dtype) into target. */
static int scatter_rows(op_call *c, const aclTensor *target, const aclTensor *dense, const aclTensor *index,
                        enum map_op op)
{
    struct map_job job;
    int d = (int)c->plan[0];
    int r = row_job(c, target, dense, index, d, &job);
    if (r) return r;
    int split = -1; /* the longest dimension before the indexed one: the others hold whole blocks */
    for (int i = 0; i < d; i++)
        if (split < 0 || job.dim[i] > job.dim[split]) split = i;
    map_scatter(c, &job, op, target->dtype, split);
    return 0;
}

static int run_index_copy(op_call *c)
{
    const struct row_scatter *row = c->row->aux;
    const aclTensor *source = c->arg[row->source].t, *self = c->arg[0].t;
    aclTensor hold;
    source = map_apart(c, source, row->out < 0 ? self : c->arg[row->out].t, &hold);
    const aclTensor *target = scatter_target(c);
    return sn_numel(source) ? scatter_rows(c, target, source, c->arg[row->index].t, MAP_SET) : 0;
}

static void multiply_block(int64_t n, void *const *p, int64_t index, const void *ctx);

/* source * alpha in type `as`, as a new contiguous tensor. */
static const aclTensor *scaled(op_call *c, const aclTensor *source, const aclScalar *alpha, aclDataType as,
                               aclTensor *hold)
{
    sn_wrap(hold, as, source->rank, source->dim, op_scratch(c, (size_t)sn_numel(source) * sn_size(as)));
    aclTensor factor;
    void *value = op_scratch(c, 16);
    sn_scalar_store(alpha, as, value);
    sn_wrap(&factor, as, 0, NULL, value);
    op_copy(c, hold, source);
    if (sn_scalar_c128(alpha) != 1.0) {
        struct ew_operand operand[] = {{hold, as, NULL}, {hold, as, NULL}, {&factor, as, NULL}};
        int type = map_type(as);
        ew_run(c, operand, 1, 2, multiply_block, &type);
    }
    return hold;
}

static void multiply_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    switch (*(const int *)ctx) {
#define MULTIPLY(name, type, wide)                                                                           \
    case MAP_TYPE_##name: {                                                                                  \
        type *out = p[0];                                                                                    \
        const type *a = p[1], *b = p[2];                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            wide x = (wide)a[i], y = (wide)b[i], product = x * y;                                            \
            out[i] = (type)product;                                                                          \
        }                                                                                                    \
        return;                                                                                              \
    }
        MAP_TYPES(MULTIPLY)
    }
}

static int run_index_add(op_call *c)
{
    const struct row_scatter *row = c->row->aux;
    const aclTensor *source = c->arg[row->source].t, *target = scatter_target(c);
    if (sn_numel(source) == 0) return 0;
    aclDataType as = sn_compute(target->dtype);
    aclTensor hold_source, hold_target;
    source = scaled(c, source, c->arg[row->alpha].s, as, &hold_source);
    const aclTensor *into = map_as(c, target, as, &hold_target);
    int r = scatter_rows(c, into, source, c->arg[row->index].t, MAP_ADD);
    if (!r) map_store(c, target, into);
    return r;
}

static int check_index_fill(op_call *c)
{
    int32_t d;
    int r = op_need_dim(c, c->arg[1].i, c->arg[0].t->rank, &d);
    if (r) return r;
    c->plan[0] = d;
    if (c->row->param[2].kind == OPK_T && (r = need_vector(c, 2))) return r;
    return check_target(c);
}

/* Rows named by index become value: a scatter whose dense side is one element with strides 0. */
static int fill_rows(op_call *c, const aclTensor *index)
{
    const struct row_scatter *row = c->row->aux;
    const aclTensor *target = scatter_target(c);
    aclTensor dense = map_at_least_1d(target);
    dense.dim[c->plan[0]] = sn_numel(index);
    if (sn_numel(&dense) == 0) return 0;
    void *value = op_scratch(c, 16);
    sn_scalar_store(c->arg[row->alpha].s, target->dtype, value);
    for (int i = 0; i < dense.rank; i++) dense.stride[i] = 0;
    dense.offset = 0;
    aclTensor one;
    sn_wrap(&one, target->dtype, 0, NULL, value);
    memcpy(one.dim, dense.dim, sizeof one.dim);
    memset(one.stride, 0, sizeof one.stride);
    one.rank = dense.rank;
    return scatter_rows(c, target, &one, index, MAP_SET);
}

static int run_index_fill(op_call *c)
{
    return fill_rows(c, c->arg[2].t);
}

static int run_index_fill_array(op_call *c)
{
    const aclIntArray *a = c->arg[2].ia;
    int64_t n = (int64_t)a->n;
    aclTensor index;
    sn_wrap(&index, ACL_INT64, 1, &n, op_scratch(c, (size_t)(n ? n : 1) * sizeof(int64_t)));
    memcpy(sn_data(&index), a->v, (size_t)n * sizeof(int64_t));
    return fill_rows(c, &index);
}

/* ---- flat puts --------------------------------------------------------------------------------------- */

static int check_put(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *index = c->arg[1].t, *source = c->arg[2].t;
    if (sn_numel(index) != sn_numel(source))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "index has %lld elements, source %lld",
                       (long long)sn_numel(index), (long long)sn_numel(source));
    if (sn_numel(self) == 0 && sn_numel(index) != 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self is empty but index is not");
    return op_need_same_dtype(c, 0, 2);
}

static int run_put(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *source = c->arg[2].t;
    bool accumulate = c->arg[3].i;
    int64_t n = sn_numel(source);
    if (n == 0) return 0;
    aclDataType as = accumulate ? sn_compute(self->dtype) : self->dtype;
    struct map_job job = {.rank = 1, .dim = {n}, .stride = {1}, .run = 1, .size = (int64_t)sn_size(as)};
    int r = map_index(c, c->arg[1].t, sn_numel(self), 1, &job.map[0]);
    if (r) return r;
    aclTensor hold;
    source = map_apart(c, source, self, &hold);
    job.dense = op_in(c, source, as);
    job.mapped = op_in(c, self, as);
    void *buffer = job.mapped;
    map_scatter(c, &job, accumulate ? MAP_ADD : MAP_SET, as, -1);
    op_out_done(c, self, as, buffer);
    return 0;
}

#define OP_FILE "softnpu/op/index.inc"
#define OP_TABLE op_rows_index
#include "softnpu/op/rows.h"
