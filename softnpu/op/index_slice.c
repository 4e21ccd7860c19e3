/* index_slice.c - writes of whole slices at places that index tensors name: scatter_nd_update,
 * scatter_update, scatter_list. */
#include "softnpu/op/map_ops.h"

#include <string.h>

static int check_scatter_nd(op_call *c)
{
    const aclTensor *var = c->arg[0].t, *indices = c->arg[1].t;
    int32_t lead = indices->rank - 1, rank = 0;
    int64_t depth = indices->rank ? indices->dim[lead] : 0, want[SN_MAX_DIMS];
    if (indices->rank < 1 || depth > var->rank)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "indices name %lld dimensions, varRef has %d",
                       (long long)depth, (int)var->rank);
    if (lead + var->rank - depth > SN_MAX_DIMS)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "updates would have %lld dimensions",
                       (long long)(lead + var->rank - depth));
    for (int i = 0; i < lead; i++) want[rank++] = indices->dim[i];
    for (int i = (int)depth; i < var->rank; i++) want[rank++] = var->dim[i];
    int r = op_need_same_dtype(c, 0, 2);
    return r ? r : op_need_shape(c, 2, want, rank);
}

/* Places that indices name: one a row, also where a row has no number and names the whole. */
static int64_t places_named(const aclTensor *indices)
{
    int64_t n = 1;
    for (int i = 0; i < indices->rank - 1; i++) n *= indices->dim[i];
    return n;
}

/* Map of the places that rows of `indices` (depth numbers each) name in var. */
static int nd_map(op_call *c, const aclTensor *indices, const aclTensor *var, int64_t **out)
{
    int64_t depth = indices->dim[indices->rank - 1], n = places_named(indices);
    const int64_t *v = op_in(c, indices, ACL_INT64);
    int64_t *map = op_scratch(c, (size_t)(n ? n : 1) * sizeof *map);
    for (int64_t i = 0; i < n; i++) {
        map[i] = 0;
        for (int64_t d = 0; d < depth; d++) {
            int64_t at = v[i * depth + d];
            if (at < -var->dim[d] || at >= var->dim[d])
                return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION,
                               "index %lld is out of bounds for dimension %lld with size %lld", (long long)at,
                               (long long)d, (long long)var->dim[d]);
            map[i] += (at < 0 ? at + var->dim[d] : at) * var->stride[d];
        }
    }
    *out = map;
    return 0;
}

static int run_scatter_nd(op_call *c)
{
    const aclTensor *var = c->arg[0].t, *indices = c->arg[1].t;
    aclTensor hold, rows;
    const aclTensor *updates = map_apart(c, c->arg[2].t, var, &hold);
    int64_t depth = indices->dim[indices->rank - 1], *map = NULL;
    if (sn_numel(updates) == 0) return 0;
    int r = nd_map(c, indices, var, &map);
    if (r) return r;
    int64_t dim[SN_MAX_DIMS] = {places_named(indices)};
    int32_t rank = 1;
    for (int i = (int)depth; i < var->rank; i++) dim[rank++] = var->dim[i];
    sn_wrap(&rows, var->dtype, rank, dim, op_in(c, updates, var->dtype));
    struct map_job job;
    map_dense(&job, &rows);
    job.map[0] = map;
    for (int i = (int)depth, j = 1; i < var->rank; i++, j++)
        job.map[j] = map_range(c, var->dim[i], 0, var->stride[i]);
    job.mapped = sn_data(var);
    map_scatter(c, &job, MAP_SET, var->dtype, -1);
    return 0;
}

/* data[b, ..., axis from indices[b] on, ...] = updates: indices [B], or [B, 2] with a second leading
 * coordinate. */
static int check_scatter_update(op_call *c)
{
    const aclTensor *data = c->arg[0].t, *indices = c->arg[1].t, *updates = c->arg[2].t;
    int32_t axis;
    int r = op_need_dim(c, c->arg[3].i, data->rank, &axis);
    if (r || (r = op_need_same_dtype(c, 0, 2))) return r;
    if (data->rank != updates->rank || axis == 0 || indices->rank < 1 || indices->rank > 2 ||
        (indices->rank == 2 && indices->dim[1] != 2) || indices->dim[0] != updates->dim[0])
        return op_fail(
            c, ACLNN_ERR_PARAM_INVALID,
            "indices must be [B] or [B, 2] for updates of B batches, axis not 0 and data of updates' rank");
    for (int i = 0; i < data->rank; i++)
        if (updates->dim[i] > data->dim[i])
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "updates are larger than data in dimension %d", i);
    c->plan[0] = axis;
    return 0;
}

static int run_scatter_update(op_call *c)
{
    const aclTensor *data = c->arg[0].t, *indices = c->arg[1].t, *updates = c->arg[2].t;
    int axis = (int)c->plan[0], wide = indices->rank == 2;
    const int64_t *at = op_in(c, indices, ACL_INT64);
    aclTensor into = *data, from = *updates;
    from.dim[0] = 1;
    memcpy(into.dim, from.dim, sizeof into.dim);
    for (int64_t b = 0; b < updates->dim[0]; b++) {
        int64_t batch = wide ? at[2 * b] : b, start = wide ? at[2 * b + 1] : at[b];
        if (batch < 0 || batch >= data->dim[0] || start < 0 || start + updates->dim[axis] > data->dim[axis])
            return op_fail(
                c, ACL_ERROR_RT_AICORE_EXCEPTION,
                "indices (%lld, %lld) with %lld rows lie outside data of %lld batches and %lld rows",
                (long long)batch, (long long)start, (long long)updates->dim[axis], (long long)data->dim[0],
                (long long)data->dim[axis]);
        into.offset = data->offset + batch * data->stride[0] + start * data->stride[axis];
        from.offset = updates->offset + b * updates->stride[0];
        op_copy(c, &into, &from);
    }
    return 0;
}

/* Each tensor of the list is one batch of data: var[i][.., indice[i] + j, ..] = updates[i][.., j, ..] along
 * axis. */
static int check_scatter_list(op_call *c)
{
    const aclTensorList *var = c->arg[0].tl;
    const aclTensor *updates = c->arg[2].t;
    if (c->arg[4].str && c->arg[4].str[0] && strcmp(c->arg[4].str, "update") != 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reduce \"%s\" is not supported, only \"update\"",
                       c->arg[4].str);
    if (updates->rank < 2 || (int64_t)var->n != updates->dim[0])
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "updates must hold one batch for each of the %llu tensors",
                       (unsigned long long)var->n);
    int32_t axis;
    int r = op_need_dim(c, c->arg[5].i, updates->rank, &axis);
    if (r) return r;
    if (axis == 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "axis must not be the batch dimension");
    for (uint64_t i = 0; i < var->n; i++)
        if (var->v[i]->rank != updates->rank - 1 || var->v[i]->dtype != updates->dtype)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "varRef[%llu] does not fit updates",
                           (unsigned long long)i);
    c->plan[0] = axis - 1;
    return 0;
}

static int run_scatter_list(op_call *c)
{
    const aclTensorList *var = c->arg[0].tl;
    const aclTensor *updates = c->arg[2].t, *mask = c->arg[3].t, *indice = c->arg[1].t;
    int axis = (int)c->plan[0], wide = indice->rank == 2;
    const int64_t *at = op_in(c, indice, ACL_INT64);
    const uint8_t *use = mask ? op_in(c, mask, ACL_UINT8) : NULL;
    for (uint64_t i = 0; i < var->n; i++) {
        if (use && !use[i]) continue;
        int64_t start = wide ? at[2 * i] : at[i];
        aclTensor into = *var->v[i], from = *updates;
        from.rank--;
        memmove(from.dim, from.dim + 1, sizeof from.dim - sizeof *from.dim);
        memmove(from.stride, from.stride + 1, sizeof from.stride - sizeof *from.stride);
        from.offset += (int64_t)i * updates->stride[0];
        if (wide) from.dim[axis] = at[2 * i + 1];
        if (start < 0 || start + from.dim[axis] > into.dim[axis])
            return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION,
                           "indice %lld with %lld rows lies outside varRef[%llu]", (long long)start,
                           (long long)from.dim[axis], (unsigned long long)i);
        into.offset += start * into.stride[axis];
        memcpy(into.dim, from.dim, sizeof into.dim);
        op_copy(c, &into, &from);
    }
    return 0;
}

#define OP_FILE "softnpu/op/index_slice.inc"
#define OP_TABLE op_rows_index_slice
#include "softnpu/op/rows.h"
