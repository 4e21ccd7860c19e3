/* pad.c - constant, reflection and replication padding, and their gradients. */
#include "softnpu/op/map_ops.h"

#include <string.h>

/* Source index of place i along a dimension of n elements that was padded by `before`; -1: there is none. */
typedef int64_t (*pad_fn)(int64_t i, int64_t before, int64_t n);

static int64_t pad_constant(int64_t i, int64_t before, int64_t n)
{
    int64_t at = i - before;
    return at < 0 || at >= n ? -1 : at;
}
static int64_t pad_replication(int64_t i, int64_t before, int64_t n)
{
    int64_t at = i - before;
    return at < 0 ? 0 : at >= n ? n - 1 : at;
}
static int64_t pad_reflection(int64_t i, int64_t before, int64_t n)
{
    int64_t at = i - before;
    if (at < 0) at = -at;
    return at >= n ? 2 * (n - 1) - at : at;
}

struct pad {
    pad_fn source;
    int8_t spatial;  /* padded dimensions */
    bool reflection; /* padding must be smaller than the dimension */
};
static const struct pad reflection_1d = {pad_reflection, 1, true}, reflection_2d = {pad_reflection, 2, true},
                        reflection_3d = {pad_reflection, 3, true},
                        replication_1d = {pad_replication, 1, false},
                        replication_2d = {pad_replication, 2, false},
                        replication_3d = {pad_replication, 3, false};

/* The pad array holds pairs (before, after), the last dimension's first. */
static int64_t pad_before(const aclIntArray *pad, int32_t rank, int d)
{
    int64_t pair = rank - 1 - d;
    return 2 * pair < (int64_t)pad->n ? pad->v[2 * pair] : 0;
}
static int64_t pad_after(const aclIntArray *pad, int32_t rank, int d)
{
    int64_t pair = rank - 1 - d;
    return 2 * pair < (int64_t)pad->n ? pad->v[2 * pair + 1] : 0;
}

/* Shape of self padded, into want; 161002 if pad does not fit. */
static int padded_shape(const op_call *c, const aclTensor *self, const aclIntArray *pad, int64_t *want)
{
    if (pad->n % 2 || (int64_t)pad->n > 2 * self->rank)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "padding of %llu numbers for self with %d dimensions",
                       (unsigned long long)pad->n, (int)self->rank);
    for (int d = 0; d < self->rank; d++) {
        if (__builtin_add_overflow(self->dim[d], pad_before(pad, self->rank, d), &want[d]) ||
            __builtin_add_overflow(want[d], pad_after(pad, self->rank, d), &want[d]) || want[d] < 0)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "dimension %d of size %lld is padded to a negative size, or one too large", d,
                           (long long)self->dim[d]);
    }
    return 0;
}

static int check_constant(op_call *c)
{
    int64_t want[SN_MAX_DIMS];
    int r = padded_shape(c, c->arg[0].t, c->arg[1].ia, want);
    if (r || (r = op_need_same_dtype(c, 0, 3))) return r;
    return op_need_shape(c, 3, want, c->arg[0].t->rank);
}

static int check_edges(op_call *c, const aclTensor *self, const aclIntArray *pad, int out)
{
    const struct pad *p = c->row->aux;
    int64_t want[SN_MAX_DIMS];
    if ((int64_t)pad->n != 2 * p->spatial)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "padding must hold %d numbers, not %llu", 2 * p->spatial,
                       (unsigned long long)pad->n);
    int r = padded_shape(c, self, pad, want);
    if (r) return r;
    for (int d = self->rank - p->spatial; d < self->rank; d++) {
        int64_t a = pad_before(pad, self->rank, d), b = pad_after(pad, self->rank, d);
        if (p->reflection && (a >= self->dim[d] || b >= self->dim[d]))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "padding (%lld, %lld) must be smaller than dimension %d of size %lld",
                           (long long)a, (long long)b, d, (long long)self->dim[d]);
        if (want[d] > 0 && self->dim[d] == 0)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dimension %d is empty and cannot be padded", d);
    }
    return op_need_shape(c, out, want, self->rank);
}

static int check_pad(op_call *c)
{
    int r = op_need_same_dtype(c, 0, 2);
    return r ? r : check_edges(c, c->arg[0].t, c->arg[1].ia, 2);
}

static int check_pad_backward(op_call *c)
{
    int r = op_need_same_dtype(c, 0, 3);
    if (r || (r = op_need_same_shape(c, 1, 3))) return r;
    return check_edges(c, c->arg[1].t, c->arg[2].ia, 0);
}

/* Maps of all padded dimensions: from places of the padded tensor to elements of t. */
static void pad_maps(op_call *c, struct map_job *job, const aclTensor *t, const aclIntArray *pad,
                     pad_fn source)
{
    for (int d = 0; d < t->rank; d++) {
        int64_t before = pad_before(pad, t->rank, d);
        if (before == 0 && pad_after(pad, t->rank, d) == 0) continue;
        int64_t *map = op_scratch(c, (size_t)(job->dim[d] + 1) * sizeof *map);
        for (int64_t i = 0; i < job->dim[d]; i++) {
            int64_t at = source(i, before, t->dim[d]);
            map[i] = at < 0 ? MAP_NONE : at * t->stride[d];
        }
        job->map[d] = map;
    }
    map_follow(c, job, t);
}

static int pad_gather(op_call *c, const aclTensor *self, const aclTensor *out, pad_fn source,
                      const aclScalar *value)
{
    struct map_job job;
    aclTensor hold;
    if (sn_numel(out) == 0) return 0;
    self = map_apart(c, self, out, &hold);
    map_dense(&job, out);
    pad_maps(c, &job, self, c->arg[1].ia, source);
    if (value) map_fill_value(&job, value, out->dtype);
    map_gather(c, &job);
    return 0;
}

static int run_constant(op_call *c)
{
    return pad_gather(c, c->arg[0].t, c->arg[3].t, pad_constant, c->arg[2].s);
}

static int run_pad(op_call *c)
{
    const struct pad *p = c->row->aux;
    return pad_gather(c, c->arg[0].t, c->arg[2].t, p->source, NULL);
}

static int run_pad_backward(op_call *c)
{
    const struct pad *p = c->row->aux;
    const aclTensor *out = c->arg[3].t;
    aclDataType as = sn_compute(out->dtype);
    aclTensor hold, flat;
    struct map_job job;
    if (sn_numel(out) == 0) return 0;
    const aclTensor *grad = map_as(c, c->arg[0].t, as, &hold);
    void *sum = op_out_scratch(c, out, as);
    memset(sum, 0, (size_t)sn_numel(out) * sn_size(as));
    sn_wrap(&flat, as, out->rank, out->dim, sum);
    map_dense(&job, grad);
    pad_maps(c, &job, &flat, c->arg[2].ia, p->source);
    if (sn_numel(grad)) map_scatter(c, &job, MAP_ADD, as, out->rank > p->spatial ? 0 : -1);
    op_out_done(c, out, as, sum);
    return 0;
}

#define OP_FILE "softnpu/op/pad.inc"
#define OP_TABLE op_rows_pad
#include "softnpu/op/rows.h"
