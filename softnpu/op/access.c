/* access.c - shape checks and whole-tensor access that many families use. */
#include "softnpu/op/executor.h"

#include <string.h>

int op_need_shape(const op_call *c, int arg, const int64_t *dim, int32_t rank)
{
    const aclTensor *t = c->arg[arg].t;
    if (t->rank == rank && !memcmp(t->dim, dim, (size_t)rank * sizeof *dim)) return 0;
    aclTensor want = {.rank = rank};
    memcpy(want.dim, dim, (size_t)rank * sizeof *dim);
    char has[256], needs[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has shape %s, expected %s", c->row->param[arg].name,
                   sn_shape_str(t, has), sn_shape_str(&want, needs));
}

int op_need_same_shape(const op_call *c, int a, int b)
{
    if (sn_same_shape(c->arg[a].t, c->arg[b].t)) return 0;
    char sa[256], sb[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has shape %s and %s has %s, expected the same",
                   c->row->param[a].name, sn_shape_str(c->arg[a].t, sa), c->row->param[b].name,
                   sn_shape_str(c->arg[b].t, sb));
}

int op_need_same_dtype(const op_call *c, int a, int b)
{
    aclDataType ta = c->arg[a].t->dtype, tb = c->arg[b].t->dtype;
    if (ta == tb) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s is DT_%s and %s is DT_%s, expected the same",
                   c->row->param[a].name, sn_dtype(ta)->name, c->row->param[b].name, sn_dtype(tb)->name);
}

int op_need_cast(const op_call *c, aclDataType from, int out_arg)
{
    aclDataType to = c->arg[out_arg].t->dtype;
    if (sn_can_cast(from, to)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "result type DT_%s can't be cast to the desired output type DT_%s of %s",
                   sn_dtype(from)->name, sn_dtype(to)->name, c->row->param[out_arg].name);
}

int op_need_numel(const op_call *c, int arg, const aclIntArray *size, int64_t *n)
{
    bool fits = true, empty = false;
    *n = 1;
    for (uint64_t i = 0; i < size->n && fits; i++) {
        empty |= size->v[i] == 0;
        fits = size->v[i] >= 0 && !__builtin_mul_overflow(*n, size->v[i] ? size->v[i] : 1, n);
    }
    if (!fits || *n > INT64_MAX / 16) /* the largest element has 16 bytes */
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has a negative size or too many elements",
                       c->row->param[arg].name);
    if (empty) *n = 0;
    return 0;
}

int op_need_dim(const op_call *c, int64_t dim, int32_t rank, int32_t *out)
{
    int32_t n = rank ? rank : 1;
    if (dim < -n || dim >= n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dim %lld is outside [%d, %d]", (long long)dim, -n, n - 1);
    *out = (int32_t)(dim < 0 ? dim + n : dim);
    return 0;
}

static bool is_plain(const aclTensor *t, aclDataType as)
{
    return t->dtype == as && sn_is_contiguous(t);
}

void *op_in(op_call *c, const aclTensor *t, aclDataType as)
{
    if (is_plain(t, as)) return sn_data(t);
    aclTensor copy;
    sn_wrap(&copy, as, t->rank, t->dim, op_scratch(c, (size_t)sn_numel(t) * sn_size(as)));
    op_copy(c, &copy, t);
    return copy.data;
}

void *op_out(op_call *c, const aclTensor *t, aclDataType as)
{
    return is_plain(t, as) ? sn_data(t) : op_out_scratch(c, t, as);
}

void *op_out_scratch(op_call *c, const aclTensor *t, aclDataType as)
{
    return op_scratch(c, (size_t)sn_numel(t) * sn_size(as));
}

void op_out_done(op_call *c, const aclTensor *t, aclDataType as, const void *buffer)
{
    if (is_plain(t, as) && buffer == sn_data(t)) return;
    aclTensor from;
    sn_wrap(&from, as, t->rank, t->dim, (void *)(uintptr_t)buffer);
    op_copy(c, t, &from);
}

void op_out_shape(op_call *c, int arg, int32_t rank, const int64_t *dim)
{
    aclTensor *const both[] = {c->ex->caller[arg], (aclTensor *)(uintptr_t)c->arg[arg].t};
    for (int i = 0; i < 2; i++) {
        aclTensor shaped;
        sn_wrap(&shaped, both[i]->dtype, rank, dim, NULL);
        both[i]->rank = rank;
        memcpy(both[i]->dim, shaped.dim, sizeof shaped.dim);
        memcpy(both[i]->stride, shaped.stride, sizeof shaped.stride);
    }
}
