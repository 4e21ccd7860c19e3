/* rearrange.c - the same elements in other places: flip, roll, repeat, repeat_interleave, permutations,
 * unfold's gradient. */
#include "softnpu/op/map_ops.h"
#include "softnpu/op/view.h"

#include <math.h>
#include <string.h>

/* ---- flip, roll, repeat ------------------------------------------------------------------------------ */

/* Bit d set for every dimension named; 161002 if one is named twice or does not exist. */
static int need_dims(const op_call *c, const aclIntArray *dims, int32_t rank, int64_t *set)
{
    *set = 0;
    for (uint64_t i = 0; i < dims->n; i++) {
        int32_t d;
        int r = op_need_dim(c, dims->v[i], rank, &d);
        if (r) return r;
        if (*set >> d & 1) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dimension %d is named twice", (int)d);
        *set |= 1LL << d;
    }
    return 0;
}

static int check_flip(op_call *c)
{
    int r = need_dims(c, c->arg[1].ia, c->arg[0].t->rank, &c->plan[0]);
    if (r || (r = op_need_same_dtype(c, 0, 2))) return r;
    return op_need_same_shape(c, 0, 2);
}

static int run_flip(op_call *c)
{
    const aclTensor *out = c->arg[2].t;
    aclTensor hold;
    struct map_job job;
    if (sn_numel(out) == 0) return 0;
    const aclTensor *self = map_apart(c, c->arg[0].t, out, &hold);
    map_dense(&job, out);
    for (int d = 0; d < self->rank; d++)
        if (c->plan[0] >> d & 1)
            job.map[d] = map_range(c, self->dim[d], (self->dim[d] - 1) * self->stride[d], -self->stride[d]);
    map_follow(c, &job, self);
    map_gather(c, &job);
    return 0;
}

static int check_roll(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    const aclIntArray *shifts = c->arg[1].ia, *dims = c->arg[2].ia;
    int r = op_need_same_dtype(c, 0, 3);
    if (r || (r = op_need_same_shape(c, 0, 3))) return r;
    if (dims->n == 0 ? shifts->n != 1 : shifts->n != dims->n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%llu shifts for %llu dims", (unsigned long long)shifts->n,
                       (unsigned long long)dims->n);
    for (uint64_t i = 0; i < dims->n; i++) {
        int32_t d;
        if ((r = op_need_dim(c, dims->v[i], self->rank, &d))) return r;
    }
    return 0;
}

static const int64_t *roll_map(op_call *c, int64_t n, int64_t shift, int64_t stride)
{
    int64_t *map = op_scratch(c, (size_t)n * sizeof *map);
    for (int64_t i = 0; i < n; i++) map[i] = (i + shift) % n * stride;
    return map;
}

static int run_roll(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[3].t;
    const aclIntArray *shifts = c->arg[1].ia, *dims = c->arg[2].ia;
    int64_t n = sn_numel(out), total[SN_MAX_DIMS] = {0};
    aclTensor hold, flat_self, flat_out;
    struct map_job job;
    if (n == 0) return 0;
    void *buffer = op_out(c, out, self->dtype);
    self = map_apart(c, self, out, &hold);
    sn_wrap(&flat_out, self->dtype, out->rank, out->dim, buffer);
    flat_self = map_at_least_1d(self);
    flat_out = map_at_least_1d(&flat_out);
    if (dims->n == 0) {
        sn_wrap(&flat_self, self->dtype, 1, &n, op_in(c, self, self->dtype));
        sn_wrap(&flat_out, self->dtype, 1, &n, buffer);
        total[0] = shifts->v[0];
    }
    for (uint64_t i = 0; i < dims->n; i++)
        total[dims->v[i] < 0 ? dims->v[i] + flat_self.rank : dims->v[i]] += shifts->v[i];
    map_dense(&job, &flat_out);
    for (int d = 0; d < flat_self.rank; d++) {
        int64_t size = flat_self.dim[d], back = (size - total[d] % size) % size;
        if (back) job.map[d] = roll_map(c, size, back, flat_self.stride[d]);
    }
    map_follow(c, &job, &flat_self);
    map_gather(c, &job);
    op_out_done(c, out, self->dtype, buffer);
    return 0;
}

static int check_repeat(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    const aclIntArray *repeats = c->arg[1].ia;
    int64_t want[SN_MAX_DIMS];
    int lead = (int)repeats->n - self->rank;
    if (lead < 0 || repeats->n > SN_MAX_DIMS)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "repeats must name at least self's %d dimensions",
                       (int)self->rank);
    for (uint64_t i = 0; i < repeats->n; i++) {
        int64_t one = (int)i < lead ? 1 : self->dim[(int)i - lead];
        if (repeats->v[i] < 0 || __builtin_mul_overflow(repeats->v[i], one, &want[i]))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "repeats[%llu] is negative or too large",
                           (unsigned long long)i);
    }
    int r = op_need_same_dtype(c, 0, 2);
    return r ? r : op_need_shape(c, 2, want, (int32_t)repeats->n);
}

static int run_repeat(op_call *c)
{
    const aclTensor *out = c->arg[2].t;
    aclTensor hold;
    struct map_job job;
    if (sn_numel(out) == 0) return 0;
    const aclTensor *self = map_apart(c, c->arg[0].t, out, &hold);
    int lead = out->rank - self->rank;
    map_dense(&job, out);
    for (int d = 0; d < out->rank; d++) {
        if (d < lead) {
            job.map[d] = map_range(c, out->dim[d], 0, 0);
            continue;
        }
        int64_t n = self->dim[d - lead], stride = self->stride[d - lead];
        int64_t *map = op_scratch(c, (size_t)out->dim[d] * sizeof *map);
        for (int64_t i = 0; i < out->dim[d]; i++) map[i] = i % n * stride;
        job.map[d] = map;
    }
    map_follow(c, &job, self);
    map_gather(c, &job);
    return 0;
}

/* ---- repeat_interleave ------------------------------------------------------------------------------- */

/* dim, out: argument numbers; dim -1: over all elements. The repeats are argument 1, a tensor or an integer.
 */
struct interleave {
    int8_t dim, out;
};
static const struct interleave interleave_flat = {-1, 3}, interleave_flat_int = {-1, 3},
                               interleave_dim = {2, 4}, interleave_dim_int = {2, 4};

static int check_interleave(op_call *c)
{
    const struct interleave *v = c->row->aux;
    const aclTensor *self = c->arg[0].t;
    bool tensor = c->row->param[1].kind == OPK_T;
    int64_t want[SN_MAX_DIMS], rows, repeated, total = c->arg[v->out - 1].i;
    int32_t d = 0;
    int r = op_need_same_dtype(c, 0, v->out);
    if (r || (v->dim >= 0 && (r = op_need_dim(c, c->arg[v->dim].i, self->rank, &d)))) return r;
    rows = v->dim < 0 ? sn_numel(self) : self->rank ? self->dim[d] : 1;
    if (tensor && sn_numel(c->arg[1].t) != 1 && sn_numel(c->arg[1].t) != rows)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "repeats must have 1 or %lld elements", (long long)rows);
    if (!tensor &&
        (c->arg[1].i < 0 || __builtin_mul_overflow(c->arg[1].i, rows, &repeated) || repeated != total))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "outputSize %lld is not %lld times %lld", (long long)total,
                       (long long)c->arg[1].i, (long long)rows);
    c->plan[0] = d;
    if (v->dim < 0) return op_need_shape(c, v->out, &total, 1);
    aclTensor view = map_at_least_1d(self);
    memcpy(want, view.dim, sizeof want);
    want[d] = total;
    return op_need_shape(c, v->out, want, view.rank);
}

/* Map of total places: row i, repeats[i] times, times step. */
static int interleave_map(op_call *c, const int64_t *repeats, bool same, int64_t rows, int64_t total,
                          int64_t step, const int64_t **out)
{
    int64_t *map = op_scratch(c, (size_t)(total + 1) * sizeof *map), at = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t k = repeats[same ? 0 : i];
        if (k < 0 || k > total - at)
            return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION,
                           "repeats are negative or do not add up to outputSize %lld", (long long)total);
        for (int64_t j = 0; j < k; j++) map[at++] = i * step;
    }
    if (at != total)
        return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION, "repeats add up to %lld, outputSize is %lld",
                       (long long)at, (long long)total);
    *out = map;
    return 0;
}

static int run_interleave(op_call *c)
{
    const struct interleave *v = c->row->aux;
    const aclTensor *out = c->arg[v->out].t;
    bool tensor = c->row->param[1].kind == OPK_T;
    aclTensor hold, self = map_at_least_1d(map_apart(c, c->arg[0].t, out, &hold));
    int d = (int)c->plan[0];
    struct map_job job;
    if (v->dim < 0) {
        int64_t n = sn_numel(&self);
        sn_wrap(&self, self.dtype, 1, &n, n ? op_in(c, &self, self.dtype) : NULL);
    }
    if (sn_numel(out) == 0) return 0;
    const int64_t *repeats = tensor ? op_in(c, c->arg[1].t, ACL_INT64) : &c->arg[1].i;
    map_dense(&job, out);
    int r = interleave_map(c, repeats, !tensor || sn_numel(c->arg[1].t) == 1, self.dim[d], out->dim[d],
                           self.stride[d], &job.map[d]);
    if (r) return r;
    map_follow(c, &job, &self);
    map_gather(c, &job);
    return 0;
}

static int check_interleave_tensor(op_call *c)
{
    return op_need_shape(c, 2, &c->arg[1].i, 1);
}

/* out = the row that each place repeats. */
static int run_interleave_tensor(op_call *c)
{
    const aclTensor *repeats = c->arg[0].t, *out = c->arg[2].t;
    const int64_t *map;
    int64_t total = c->arg[1].i, rows = sn_numel(repeats);
    int r = interleave_map(c, rows ? op_in(c, repeats, ACL_INT64) : NULL, false, rows, total, 1, &map);
    if (!r && total) op_out_done(c, out, ACL_INT64, map);
    return r;
}

static int check_interleave_grad(op_call *c)
{
    const aclTensor *grad = c->arg[0].t, *out = c->arg[3].t;
    int32_t d;
    int r = op_need_dim(c, c->arg[2].i, grad->rank, &d);
    if (r || (r = op_need_same_dtype(c, 0, 3))) return r;
    bool fits = grad->rank == out->rank && grad->rank > 0;
    for (int i = 0; fits && i < grad->rank; i++) fits = i == d || grad->dim[i] == out->dim[i];
    if (!fits)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "yGrad does not fit out but along dimension %d", (int)d);
    if (sn_numel(c->arg[1].t) != 1 && sn_numel(c->arg[1].t) != out->dim[d])
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "repeats must have 1 or %lld elements",
                       (long long)out->dim[d]);
    c->plan[0] = d;
    return 0;
}

/* out (zeroed) += grad at the places of the job; in f32 for 16-bit floats. */
static int sum_into(op_call *c, const aclTensor *out, const aclTensor *grad, struct map_job *job, int split)
{
    aclDataType as = sn_compute(out->dtype);
    void *sum = op_out_scratch(c, out, as);
    memset(sum, 0, (size_t)sn_numel(out) * sn_size(as));
    job->mapped = sum;
    if (sn_numel(grad)) map_scatter(c, job, MAP_ADD, as, split);
    op_out_done(c, out, as, sum);
    return 0;
}

static int run_interleave_grad(op_call *c)
{
    const aclTensor *out = c->arg[3].t, *repeats = c->arg[1].t;
    int d = (int)c->plan[0];
    aclTensor hold, flat;
    struct map_job job;
    if (sn_numel(out) == 0) return 0;
    const aclTensor *grad = map_as(c, c->arg[0].t, sn_compute(out->dtype), &hold);
    sn_wrap(&flat, out->dtype, out->rank, out->dim, NULL);
    map_dense(&job, grad);
    int r = interleave_map(c, op_in(c, repeats, ACL_INT64), sn_numel(repeats) == 1, out->dim[d], grad->dim[d],
                           flat.stride[d], &job.map[d]);
    if (r) return r;
    map_follow(c, &job, &flat);
    return sum_into(c, out, grad, &job, d > 0 ? 0 : -1);
}

/* ---- permutations ------------------------------------------------------------------------------------ */

static int check_permute(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t order[SN_MAX_DIMS];
    int r = view_need_permutation(c, c->arg[1].ia, self->rank, order);
    if (r || (r = op_need_same_dtype(c, 0, 2))) return r;
    return op_need_shape(c, 2, view_permute(self, order).dim, self->rank);
}

static int run_permute(op_call *c)
{
    int64_t order[SN_MAX_DIMS];
    view_need_permutation(c, c->arg[1].ia, c->arg[0].t->rank, order);
    aclTensor view = view_permute(c->arg[0].t, order);
    op_copy(c, c->arg[2].t, &view);
    return 0;
}

/* x, or a contiguous copy, with the elements in the dimensions of `shape`. */
static aclTensor reshaped(op_call *c, const aclTensor *x, int32_t rank, const int64_t *shape)
{
    aclTensor view;
    sn_wrap(&view, x->dtype, rank, shape, sn_numel(x) ? op_in(c, x, x->dtype) : NULL);
    return view;
}

static int check_reverse(op_call *c)
{
    return c->arg[1].ia ? check_flip(c) : op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "axis is missing");
}

static int check_confusion(op_call *c)
{
    const aclTensor *x = c->arg[0].t;
    const aclIntArray *shape = c->arg[2].ia;
    int64_t n, order[SN_MAX_DIMS];
    if (shape->n > SN_MAX_DIMS) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "shape has too many dimensions");
    int r = op_need_numel(c, 2, shape, &n);
    if (r) return r;
    if (n != sn_numel(x))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "shape holds %lld elements, x %lld", (long long)n,
                       (long long)sn_numel(x));
    bool first = c->arg[3].i;
    int32_t rank = first ? x->rank : (int32_t)shape->n;
    r = view_need_permutation(c, c->arg[1].ia, rank, order);
    if (r || (r = op_need_same_dtype(c, 0, 4))) return r;
    if (first) return op_need_shape(c, 4, shape->v, (int32_t)shape->n);
    aclTensor view = {.rank = rank};
    memcpy(view.dim, shape->v, shape->n * sizeof *shape->v);
    return op_need_shape(c, 4, view_permute(&view, order).dim, rank);
}

static int run_confusion(op_call *c)
{
    const aclTensor *x = c->arg[0].t, *out = c->arg[4].t;
    const aclIntArray *shape = c->arg[2].ia;
    bool first = c->arg[3].i;
    int64_t order[SN_MAX_DIMS];
    aclTensor view;
    if (sn_numel(out) == 0) return 0;
    view_need_permutation(c, c->arg[1].ia, first ? x->rank : (int32_t)shape->n, order);
    if (first) {
        view = view_permute(x, order);
        view = reshaped(c, &view, (int32_t)shape->n, shape->v);
    } else {
        view = reshaped(c, x, (int32_t)shape->n, shape->v);
        view = view_permute(&view, order);
    }
    op_copy(c, out, &view);
    return 0;
}

static int check_shuffle(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int64_t groups = c->arg[1].i;
    int r = op_need_same_dtype(c, 0, 2);
    if (r || (r = op_need_same_shape(c, 0, 2))) return r;
    if (self->rank < 3 || groups < 1 || self->dim[1] % groups)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%lld groups do not divide the channels",
                       (long long)groups);
    return 0;
}

static int run_shuffle(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[2].t;
    int64_t groups = c->arg[1].i, order[SN_MAX_DIMS];
    if (sn_numel(out) == 0) return 0;
    aclTensor from = view_split(self, 1, groups, self->dim[1] / groups);
    aclTensor to = view_split(out, 1, self->dim[1] / groups, groups);
    for (int i = 0; i < from.rank; i++) order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    from = view_permute(&from, order);
    op_copy(c, &to, &from);
    return 0;
}

/* ---- gradient of unfold: windows of `size` at every step-th place along dim, summed back ------------- */

static int check_unfold_grad(op_call *c)
{
    const aclTensor *grad = c->arg[0].t;
    const aclIntArray *sizes = c->arg[1].ia;
    int64_t size = c->arg[3].i, step = c->arg[4].i;
    int32_t d;
    int r = op_need_dim(c, c->arg[2].i, (int32_t)sizes->n, &d);
    if (r || (r = op_need_same_dtype(c, 0, 5)) || (r = op_need_shape(c, 5, sizes->v, (int32_t)sizes->n)))
        return r;
    int64_t length = sizes->n ? sizes->v[d] : 1;
    if (size < 0 || size > length || step < 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "size %lld or step %lld does not fit a dimension of %lld",
                       (long long)size, (long long)step, (long long)length);
    bool fits = grad->rank == (int32_t)sizes->n + 1 && grad->dim[grad->rank - 1] == size;
    for (int i = 0; fits && i < (int)sizes->n; i++)
        fits = grad->dim[i] == (i == d ? (length - size) / step + 1 : sizes->v[i]);
    c->plan[0] = d;
    return fits ? 0 : op_fail(c, ACLNN_ERR_PARAM_INVALID, "gradOut does not have the shape of the windows");
}

static int run_unfold_grad(op_call *c)
{
    const aclTensor *out = c->arg[5].t;
    int d = (int)c->plan[0];
    aclTensor hold, flat;
    struct map_job job;
    if (sn_numel(out) == 0) return 0;
    const aclTensor *grad = map_as(c, c->arg[0].t, sn_compute(out->dtype), &hold);
    sn_wrap(&flat, out->dtype, out->rank, out->dim, NULL);
    flat = map_at_least_1d(&flat);
    map_dense(&job, grad);
    if (grad->rank > 1) job.map[d] = map_range(c, grad->dim[d], 0, c->arg[4].i * flat.stride[d]);
    job.map[grad->rank - 1] = map_range(c, grad->dim[grad->rank - 1], 0, flat.stride[d]);
    map_follow(c, &job, &flat);
    return sum_into(c, out, grad, &job, d > 0 ? 0 : -1);
}

/* ---- transform_bias_rescale_qkv: [B, T, 3*H*W] + bias to three [B, H, T, W], the first over sqrt(W) ---- */

static int check_qkv(op_call *c)
{
    const aclTensor *qkv = c->arg[0].t;
    int64_t heads = c->arg[2].i, width = heads > 0 ? qkv->dim[2] / 3 / heads : 0;
    if (heads <= 0 || width * heads * 3 != qkv->dim[2])
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "qkv of width %lld does not split into 3 times %lld heads",
                       (long long)qkv->dim[2], (long long)heads);
    int r = op_need_shape(c, 1, &qkv->dim[2], 1);
    for (int i = 3; !r && i < 6; i++)
        r = op_need_shape(c, i, (int64_t[]){qkv->dim[0], heads, qkv->dim[1], width}, 4);
    return r;
}

static void add_rescale(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    float *out = p[0], scale = *(const float *)ctx;
    const float *x = p[1], *bias = p[2];
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] + bias[i]) * scale;
}

static int run_qkv(op_call *c)
{
    const aclTensor *qkv = c->arg[0].t, *bias = c->arg[1].t;
    int64_t heads = c->arg[2].i, width = qkv->dim[2] / 3 / heads;
    for (int i = 0; i < 3; i++) {
        aclTensor x = view_narrow(qkv, 2, i * heads * width, heads * width);
        aclTensor b = view_narrow(bias, 0, i * heads * width, heads * width);
        x = view_split(&x, 2, heads, width);
        x = view_permute(&x, (int64_t[]){0, 2, 1, 3});
        b = view_split(&b, 0, heads, width);
        b = view_split(&b, 1, 1, width);
        float scale = i == 0 ? 1.0f / sqrtf((float)width) : 1.0f;
        struct ew_operand operand[] = {
            {c->arg[3 + i].t, ACL_FLOAT, NULL}, {&x, ACL_FLOAT, NULL}, {&b, ACL_FLOAT, NULL}};
        int r = ew_run(c, operand, 1, 2, add_rescale, &scale);
        if (r) return r;
    }
    return 0;
}

#define OP_FILE "softnpu/op/rearrange.inc"
#define OP_TABLE op_rows_rearrange
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/rearrange_older.inc"
#define OP_TABLE op_rows_rearrange_older
#include "softnpu/op/rows.h"
