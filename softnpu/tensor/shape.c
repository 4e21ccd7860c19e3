/* shape.c - shapes, views and overlap. */
#include "softnpu/runtime/runtime.h"
#include "softnpu/tensor/tensor.h"

#include <stdio.h>
#include <string.h>

int64_t sn_numel(const aclTensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

bool sn_is_contiguous(const aclTensor *t)
{
    int64_t expect = 1;
    for (int32_t i = t->rank; i-- > 0;) {
        if (t->dim[i] == 0) return true;
        if (t->dim[i] == 1) continue;
        if (t->stride[i] != expect) return sn_numel(t) == 0;
        expect *= t->dim[i];
    }
    return true;
}

bool sn_same_shape(const aclTensor *a, const aclTensor *b)
{
    if (a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

bool sn_broadcast_shape(const aclTensor *a, const aclTensor *b, int64_t *dim, int32_t *rank)
{
    int32_t n = a->rank > b->rank ? a->rank : b->rank;
    for (int32_t i = 0; i < n; i++) {
        int32_t ia = a->rank - n + i, ib = b->rank - n + i;
        int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da != db && da != 1 && db != 1) return false;
        dim[i] = da == 1 ? db : da;
    }
    *rank = n;
    return true;
}

bool sn_expand(const aclTensor *t, const int64_t *dim, int32_t rank, aclTensor *out)
{
    if (t->rank > rank || rank > SN_MAX_DIMS) return false;
    aclTensor v = *t;
    v.rank = rank;
    for (int32_t i = 0; i < rank; i++) {
        int32_t from = t->rank - rank + i;
        v.dim[i] = dim[i];
        v.stride[i] = 0;
        if (from < 0) continue;
        if (t->dim[from] == dim[i])
            v.stride[i] = t->stride[from];
        else if (t->dim[from] != 1)
            return false;
    }
    *out = v;
    return true;
}

char *sn_shape_str(const aclTensor *t, char out[256])
{
    size_t at = 0;
    out[at++] = '[';
    for (int32_t i = 0; i < t->rank && i < SN_MAX_DIMS && at < 220; i++)
        at += (size_t)snprintf(out + at, 256 - at, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    snprintf(out + at, 256 - at, t->rank > SN_MAX_DIMS ? ", ...]" : "]");
    return out;
}

void *sn_data(const aclTensor *t)
{
    if (!t->data) return NULL;
    char *base = t->kernel ? t->data : (char *)t->data + rt_kernel_delta;
    return base + t->offset * (int64_t)sn_size(t->dtype);
}

void sn_wrap(aclTensor *out, aclDataType t, int32_t rank, const int64_t *dim, void *p)
{
    *out = (aclTensor){.dtype = t, .format = ACL_FORMAT_ND, .rank = rank, .kernel = true, .data = p};
    int64_t packed = 1;
    for (int32_t i = rank; i-- > 0;) {
        out->dim[i] = dim[i];
        out->stride[i] = packed;
        packed *= dim[i] > 1 ? dim[i] : 1;
    }
    out->storage = packed;
}

/* First byte and one past the last byte that the view touches. */
static void byte_range(const aclTensor *t, const char **first, const char **end)
{
    int64_t lo = 0, hi = 0, size = (int64_t)sn_size(t->dtype);
    for (int32_t i = 0; i < t->rank; i++) {
        int64_t reach = (t->dim[i] - 1) * t->stride[i];
        if (reach < 0)
            lo += reach;
        else
            hi += reach;
    }
    const char *at = sn_data(t);
    *first = at + lo * size;
    *end = at + (hi + 1) * size;
}

bool sn_overlap(const aclTensor *a, const aclTensor *b)
{
    if (!a->data || !b->data || sn_numel(a) == 0 || sn_numel(b) == 0) return false;
    const char *a0, *a1, *b0, *b1;
    byte_range(a, &a0, &a1);
    byte_range(b, &b0, &b1);
    return a0 < b1 && b0 < a1;
}

bool sn_same_view(const aclTensor *a, const aclTensor *b)
{
    if (sn_data(a) != sn_data(b) || sn_size(a->dtype) != sn_size(b->dtype) || !sn_same_shape(a, b))
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] > 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}
