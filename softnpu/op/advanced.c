/* advanced.c - the layout of tensor indexing with a list of index tensors. */
#include "softnpu/op/advanced.h"

#include <string.h>

static bool is_index_type(aclDataType t)
{
    return t == ACL_INT64 || t == ACL_INT32;
}

/* Where self's own type is an index type, an index without elements has a placeholder's looks. One that came
 * of a mask has storage, a placeholder has none. */
static bool is_placeholder(const aclTensor *t, const aclTensor *self)
{
    return !t || (t->rank == 1 && t->dim[0] == 0 && t->dtype == self->dtype &&
                  (!is_index_type(self->dtype) || !t->data));
}

/* A list of placeholders alone would index nothing: the indices among them are empty ones. */
static bool all_placeholders(const aclTensor *self, const aclTensorList *list)
{
    for (uint64_t i = 0; i < list->n; i++)
        if (!is_placeholder(list->v[i], self)) return false;
    return list->n > 0 && is_index_type(self->dtype);
}

/* Broadcasts the index shapes; false if they do not. */
static bool broadcast_indices(const aclTensorList *list, struct advanced *a)
{
    aclTensor shape = {.dtype = ACL_INT64};
    for (uint64_t i = 0; i < list->n; i++) {
        if (!a->indexed[i]) continue;
        int64_t dim[SN_MAX_DIMS];
        int32_t rank;
        if (!sn_broadcast_shape(&shape, list->v[i], dim, &rank)) return false;
        memcpy(shape.dim, dim, sizeof dim);
        shape.rank = rank;
    }
    a->index_rank = shape.rank;
    memcpy(a->index_dim, shape.dim, sizeof a->index_dim);
    return true;
}

static void result_shape(const aclTensor *self, struct advanced *a)
{
    int first = -1, last = -1, indices = 0;
    for (int i = 0; i < self->rank; i++) {
        if (!a->indexed[i]) continue;
        if (first < 0) first = i;
        last = i;
        indices++;
    }
    bool adjacent = indices && last - first + 1 == indices;
    a->at = adjacent ? first : 0;
    int32_t rank = 0;
    for (int i = 0; i < a->at; i++) a->dim[rank++] = self->dim[i];
    for (int i = 0; i < a->index_rank && rank < SN_MAX_DIMS; i++) a->dim[rank++] = a->index_dim[i];
    for (int i = a->at; i < self->rank && rank < SN_MAX_DIMS; i++)
        if (!a->indexed[i]) a->dim[rank++] = self->dim[i];
    a->rank = rank;
    for (int i = 0; i < rank; i++) a->empty |= a->dim[i] == 0;
    a->injective = a->at > 0 ? 0 : -1;
}

int advanced_layout(const op_call *c, const aclTensor *self, const aclTensorList *list, struct advanced *a)
{
    memset(a, 0, sizeof *a);
    a->list = list;
    a->self_rank = self->rank;
    if ((int64_t)list->n > self->rank)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%llu indices for self with %d dimensions",
                       (unsigned long long)list->n, (int)self->rank);
    int rest = 0;
    bool none = all_placeholders(self, list);
    for (uint64_t i = 0; i < list->n; i++) {
        a->indexed[i] = !is_placeholder(list->v[i], self) || (none && list->v[i]);
        if (a->indexed[i] && list->v[i]->dtype != ACL_INT64 && list->v[i]->dtype != ACL_INT32)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                           "indices[%llu] not implemented for DT_%s, accepted are "
                           "[DT_INT32,DT_INT64] (masks must be expanded with nonzero)",
                           (unsigned long long)i, sn_dtype(list->v[i]->dtype)->name);
        a->ambiguous |= !a->indexed[i] && is_index_type(self->dtype);
    }
    if (!broadcast_indices(list, a))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the shapes of the index tensors do not broadcast");
    for (int i = 0; i < self->rank; i++) rest += !a->indexed[i];
    if (a->index_rank + rest > SN_MAX_DIMS)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the result would have %d dimensions",
                       (int)(a->index_rank + rest));
    result_shape(self, a);
    return 0;
}

bool advanced_mergeable(const struct advanced *a, const aclTensor *view)
{
    for (int i = 0; i + 1 < a->index_rank; i++) {
        int d = a->at + i;
        if (view->stride[d] != view->stride[d + 1] * view->dim[d + 1]) return false;
    }
    return true;
}

/* Sum over the index tensors of index * stride, one entry a place of the broadcast shape. */
static int index_offsets(op_call *c, const struct advanced *a, const aclTensor *self, int64_t n,
                         const int64_t **map)
{
    int64_t *sum = op_scratch(c, (size_t)(n ? n : 1) * sizeof *sum);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int d = 0; d < a->self_rank; d++) {
        if (!a->indexed[d]) continue;
        aclTensor view;
        int64_t *v;
        if (!sn_expand(a->list->v[d], a->index_dim, a->index_rank, &view))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the shapes of the index tensors do not broadcast");
        int r = map_values(c, &view, self->dim[d], &v);
        if (r) return r;
        for (int64_t i = 0; i < n; i++) sum[i] += v[i] * self->stride[d];
    }
    *map = sum;
    return 0;
}

int advanced_job(op_call *c, const struct advanced *a, const aclTensor *self, const aclTensor *dense,
                 struct map_job *job)
{
    map_dense(job, dense);
    job->rank = 0;
    int64_t n = 1;
    for (int i = 0; i < a->index_rank; i++) n *= a->index_dim[i];
    for (int i = 0, d = 0; i < a->at; i++, d++) {
        job->dim[job->rank] = dense->dim[i];
        job->stride[job->rank] = dense->stride[i];
        job->map[job->rank++] = map_range(c, self->dim[d], 0, self->stride[d]);
    }
    job->dim[job->rank] = n;
    job->stride[job->rank] = a->index_rank ? dense->stride[a->at + a->index_rank - 1] : 0;
    int r = index_offsets(c, a, self, n, &job->map[job->rank]);
    if (r) return r;
    job->rank++;
    for (int d = a->at, i = a->at + a->index_rank; d < self->rank; d++) {
        if (a->indexed[d]) continue;
        job->dim[job->rank] = dense->dim[i];
        job->stride[job->rank] = dense->stride[i++];
        job->map[job->rank++] = map_range(c, self->dim[d], 0, self->stride[d]);
    }
    job->mapped = sn_data(self);
    return 0;
}
