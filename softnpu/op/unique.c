/* unique.c - distinct values or slices, sorted or as they follow each other, with places and counts. */
#include "softnpu/op/order.h"

#include <stdlib.h>
#include <string.h>

/* Places of arguments; 0: the operator has none. */
struct unique_spec {
    int8_t want_inverse, want_counts, dim, value, inverse, counts;
    bool consecutive;
    bool always_counts; /* counts come without being asked for */
};
enum { NO_DIM = 1000 }; /* what torch_npu passes for "flatten" */

/* self as n slices of `width` elements in a type that compares: INT64, DOUBLE, FLOAT or COMPLEX128. */
struct slices {
    aclDataType as;
    int64_t n, width;
    const char *at;
    aclTensor turned; /* slices first */
};

static bool flattens(const op_call *c, const struct unique_spec *s)
{
    return !s->dim || (s->consecutive && c->arg[s->dim].i == NO_DIM);
}

static int check_unique(op_call *c)
{
    const struct unique_spec *s = c->row->aux;
    const aclTensor *self = c->arg[0].t, *inverse = c->arg[s->inverse].t;
    const aclTensor *counts = s->counts ? c->arg[s->counts].t : NULL;
    int32_t dim = 0;
    int64_t n = sn_numel(self);
    if (!flattens(c, s)) {
        int rc = op_need_dim(c, c->arg[s->dim].i, self->rank, &dim);
        if (rc) return rc;
        n = self->rank ? self->dim[dim] : 1;
    }
    c->plan[0] = dim;
    char shape[256];
    if (sn_numel(c->arg[s->value].t) < sn_numel(self))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "valueOut %s has no room for all of self",
                       sn_shape_str(c->arg[s->value].t, shape));
    if (c->arg[s->want_inverse].i && sn_numel(inverse) != n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "inverseOut has shape %s, not %lld elements",
                       sn_shape_str(inverse, shape), (long long)n);
    bool counted = s->always_counts || (s->want_counts && c->arg[s->want_counts].i);
    if (counted && sn_numel(counts) < n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "countsOut %s has no room for %lld counts",
                       sn_shape_str(counts, shape), (long long)n);
    return 0;
}

static struct slices slices_of(op_call *c, const struct unique_spec *s)
{
    const aclTensor *self = c->arg[0].t;
    struct slices k = {.n = sn_numel(self), .width = 1, .turned = *self};
    k.as = sn_is_complex(self->dtype) ? ACL_COMPLEX128 : order_type(self->dtype);
    int32_t dim = (int32_t)c->plan[0];
    if (!flattens(c, s) && self->rank) {
        k.n = self->dim[dim];
        k.width = k.n ? sn_numel(self) / k.n : 0;
        k.turned.dim[0] = self->dim[dim];
        k.turned.stride[0] = self->stride[dim];
        for (int32_t d = 0, to = 1; d < self->rank; d++) {
            if (d == dim) continue;
            k.turned.dim[to] = self->dim[d];
            k.turned.stride[to++] = self->stride[d];
        }
    }
    k.at = op_in(c, &k.turned, k.as);
    return k;
}

/* -1, 0, 1; NaN above all numbers. */
#define COMPARE(T)                                                                                           \
    for (int64_t i = 0; i < k->width; i++) {                                                                 \
        T x = ((const T *)k->at)[a * k->width + i], y = ((const T *)k->at)[b * k->width + i];                \
        if (x < y || (y != y && x == x)) return -1;                                                          \
        if (x > y || (x != x && y == y)) return 1;                                                           \
    }                                                                                                        \
    return 0

static int compare_f32(const struct slices *k, int64_t a, int64_t b)
{
    COMPARE(float);
}
static int compare_f64(const struct slices *k, int64_t a, int64_t b)
{
    COMPARE(double);
}
static int compare_i64(const struct slices *k, int64_t a, int64_t b)
{
    COMPARE(int64_t);
}

/* Element by element; a NaN equals nothing. */
static bool same_slice(const struct slices *k, int64_t a, int64_t b)
{
    int64_t per = k->as == ACL_COMPLEX128 ? 2 : 1, n = k->width * per;
    for (int64_t i = 0; i < n; i++) {
        bool same =
            k->as == ACL_INT64   ? ((const int64_t *)k->at)[a * n + i] == ((const int64_t *)k->at)[b * n + i]
            : k->as == ACL_FLOAT ? ((const float *)k->at)[a * n + i] == ((const float *)k->at)[b * n + i]
                                 : ((const double *)k->at)[a * n + i] == ((const double *)k->at)[b * n + i];
        if (!same) return false;
    }
    return true;
}

struct by_slice {
    const struct slices *k;
    int (*compare)(const struct slices *k, int64_t a, int64_t b);
};

static int compare_items(const void *a, const void *b, void *ctx)
{
    const struct by_slice *by = ctx;
    int64_t i = ((const struct order_item *)a)->index, j = ((const struct order_item *)b)->index;
    int sign = by->compare(by->k, i, j);
    return sign ? sign : i < j ? -1 : 1;
}

static void sort_slices(const struct slices *k, struct order_item *item, struct order_item *spare)
{
    if (k->width == 1) {
        order_keys(item, k->at, k->as, k->n, false);
        order_sort(item, spare, k->n);
        return;
    }
    for (int64_t i = 0; i < k->n; i++) item[i].index = i;
    struct by_slice by = {k, k->as == ACL_FLOAT    ? compare_f32
                             : k->as == ACL_DOUBLE ? compare_f64
                                                   : compare_i64};
    qsort_r(item, (size_t)k->n, sizeof *item, compare_items, &by);
}

/* self's slices first[0..n) into the value tensor, whose shape becomes theirs. */
static void store_values(op_call *c, const struct unique_spec *s, const struct slices *k,
                         const int64_t *first, int64_t n)
{
    const aclTensor *self = c->arg[0].t;
    int64_t dim[SN_MAX_DIMS];
    bool flat = flattens(c, s) || !self->rank;
    int32_t rank = flat ? 1 : self->rank, at = (int32_t)c->plan[0];
    memcpy(dim, self->dim, sizeof dim);
    dim[at] = n;
    if (flat) dim[0] = n;
    op_out_shape(c, s->value, rank, dim);
    size_t bytes = sn_size(k->as) * (size_t)k->width;
    char *chosen = op_scratch(c, bytes * (size_t)n + 1);
    for (int64_t i = 0; i < n; i++)
        memcpy(chosen + (size_t)i * bytes, k->at + (size_t)first[i] * bytes, bytes);
    aclTensor from, to = *c->arg[s->value].t;
    if (!flat) { /* the same order of dimensions on both sides: slices first */
        memcpy(dim, k->turned.dim, sizeof dim);
        dim[0] = n;
        int64_t stride = to.stride[at];
        memmove(to.stride + 1, to.stride, sizeof *to.stride * (size_t)at);
        to.stride[0] = stride;
        memcpy(to.dim, dim, sizeof to.dim);
    }
    sn_wrap(&from, k->as, rank, dim, chosen);
    op_copy(c, &to, &from);
}

static int run_unique(op_call *c)
{
    const struct unique_spec *s = c->row->aux;
    struct slices k = slices_of(c, s);
    if (k.as == ACL_COMPLEX128 && !s->consecutive)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "complex numbers have no order");
    size_t room = (size_t)k.n + 1;
    struct order_item *item = op_scratch(c, 2 * room * sizeof *item);
    int64_t *inverse = op_scratch(c, 8 * room), *first = op_scratch(c, 8 * room),
            *count = op_scratch(c, 8 * room);
    if (s->consecutive)
        for (int64_t i = 0; i < k.n; i++) item[i].index = i;
    else
        sort_slices(&k, item, item + room);
    int64_t n = 0;
    for (int64_t i = 0; i < k.n; i++) {
        if (!i || !same_slice(&k, item[i - 1].index, item[i].index)) {
            first[n] = item[i].index;
            count[n++] = 0;
        }
        count[n - 1]++;
        inverse[item[i].index] = n - 1;
    }
    store_values(c, s, &k, first, n);
    if (c->arg[s->want_inverse].i) op_out_done(c, c->arg[s->inverse].t, ACL_INT64, inverse);
    if (s->always_counts || (s->want_counts && c->arg[s->want_counts].i)) {
        op_out_shape(c, s->counts, 1, &n);
        op_out_done(c, c->arg[s->counts].t, ACL_INT64, count);
    }
    return 0;
}

static const struct unique_spec
    unique_plain = {.want_inverse = 2, .value = 3, .inverse = 4},
    unique_counts = {.want_inverse = 2, .want_counts = 3, .value = 4, .inverse = 5, .counts = 6},
    unique_consecutive = {.want_inverse = 1,
                          .want_counts = 2,
                          .dim = 3,
                          .value = 4,
                          .inverse = 5,
                          .counts = 6,
                          .consecutive = true},
    unique_dim = {.want_inverse = 2, .dim = 3, .value = 4, .inverse = 5, .counts = 6, .always_counts = true};

#define OP_FILE "softnpu/op/unique.inc"
#define OP_TABLE op_rows_unique
#include "softnpu/op/rows.h"
