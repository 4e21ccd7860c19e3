/* view.c - views of a tensor: the same storage with other dimensions. */
#include "softnpu/op/view.h"

#include <string.h>

aclTensor view_narrow(const aclTensor *t, int d, int64_t start, int64_t n)
{
    aclTensor view = *t;
    view.dim[d] = n;
    view.offset += start * t->stride[d];
    return view;
}

aclTensor view_select(const aclTensor *t, int d, int64_t i)
{
    aclTensor view = *t;
    size_t after = (size_t)(t->rank - d - 1) * sizeof(int64_t);
    view.offset += i * t->stride[d];
    memmove(view.dim + d, view.dim + d + 1, after);
    memmove(view.stride + d, view.stride + d + 1, after);
    view.rank--;
    return view;
}

aclTensor view_permute(const aclTensor *t, const int64_t *order)
{
    aclTensor view = *t;
    for (int i = 0; i < t->rank; i++) {
        view.dim[i] = t->dim[order[i]];
        view.stride[i] = t->stride[order[i]];
    }
    return view;
}

aclTensor view_split(const aclTensor *t, int d, int64_t a, int64_t b)
{
    aclTensor view = *t;
    size_t after = (size_t)(t->rank - d) * sizeof(int64_t);
    memmove(view.dim + d + 1, view.dim + d, after);
    memmove(view.stride + d + 1, view.stride + d, after);
    view.rank++;
    view.dim[d] = a;
    view.dim[d + 1] = b;
    view.stride[d] = t->stride[d] * b;
    return view;
}

int view_need_permutation(const op_call *c, const aclIntArray *order, int32_t n, int64_t *out)
{
    unsigned seen = 0;
    if ((int64_t)order->n != n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the permutation names %llu dimensions of %d",
                       (unsigned long long)order->n, (int)n);
    for (int i = 0; i < n; i++) {
        int64_t d = order->v[i] < 0 ? order->v[i] + n : order->v[i];
        if (d < 0 || d >= n || seen >> d & 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dimension %lld is repeated or outside [0, %d)",
                           (long long)order->v[i], (int)n);
        seen |= 1u << d;
        out[i] = d;
    }
    return 0;
}
