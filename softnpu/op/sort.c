/* sort.c - sort, top k, k-th value, medians: all stable, so that equal values keep their order. */
#include "softnpu/op/order.h"
#include "softnpu/op/reduce.h"
#include "softnpu/op/rowwise.h"

#include <string.h>

/* ---- whole rows -------------------------------------------------------------------------------------- */

/* Places of arguments; 0: the operator has none. indices follow values. */
struct sort_spec {
    int8_t k, dim, descending, values;
};

static int check_sort(op_call *c)
{
    const struct sort_spec *s = c->row->aux;
    const aclTensor *self = c->arg[0].t;
    int32_t dim;
    int rc = op_need_dim(c, c->arg[s->dim].i, self->rank, &dim);
    if (rc) return rc;
    c->plan[0] = dim;
    int64_t n = self->rank ? self->dim[dim] : 1, k = s->k ? c->arg[s->k].i : n, shape[SN_MAX_DIMS];
    if (k < 0 || k > n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "k is %lld, dimension %d has %lld elements", (long long)k,
                       (int)dim, (long long)n);
    memcpy(shape, self->dim, sizeof shape);
    if (self->rank) shape[dim] = k;
    rc = op_need_shape(c, s->values, shape, self->rank);
    return rc ? rc : op_need_shape(c, s->values + 1, shape, self->rank);
}

struct sort_run {
    aclDataType as;
    bool descending;
};

static void copy_value(void *to, int64_t i, const void *from, int64_t j, aclDataType as)
{
    if (as == ACL_FLOAT)
        ((float *)to)[i] = ((const float *)from)[j];
    else
        ((int64_t *)to)[i] = ((const int64_t *)from)[j]; /* DOUBLE too: bits */
}

static void sort_row(const struct row_call *r)
{
    const struct sort_run *s = r->ctx;
    struct order_item *item = r->scratch;
    order_top(item, item + r->n[2], r->p[2], s->as, r->n[2], r->n[0], s->descending);
    for (int64_t i = 0; i < r->n[0]; i++) {
        copy_value(r->p[0], i, r->p[2], item[i].index, s->as);
        ((int64_t *)r->p[1])[i] = item[i].index;
    }
}

static int run_sort(op_call *c)
{
    const struct sort_spec *s = c->row->aux;
    const aclTensor *self = c->arg[0].t;
    struct sort_run run = {order_type(self->dtype), c->arg[s->descending].i};
    int32_t dim = (int32_t)c->plan[0];
    size_t n = self->rank ? (size_t)self->dim[dim] : 1;
    struct row_operand operand[] = {
        {c->arg[s->values].t, run.as}, {c->arg[s->values + 1].t, ACL_INT64}, {self, run.as}};
    struct row_space space = {dim, 1, true, 2 * n * sizeof(struct order_item)};
    return row_run(c, &space, operand, 2, 1, sort_row, &run);
}

static const struct sort_spec sort_all = {.dim = 2, .descending = 3, .values = 4},
                              sort_top = {.k = 1, .dim = 2, .descending = 3, .values = 5};

/* ---- one value of a row ------------------------------------------------------------------------------ */

struct pick_spec {
    int8_t k, dim, keep, values, indices;
    bool skip_nan; /* otherwise a NaN is the median */
};

static int check_pick(op_call *c)
{
    const struct pick_spec *s = c->row->aux;
    const aclTensor *self = c->arg[0].t;
    int32_t dim = 0;
    if (s->dim) {
        int rc = op_need_dim(c, c->arg[s->dim].i, self->rank, &dim);
        if (rc) return rc;
    }
    uint32_t bits = !self->rank ? 0 : s->dim ? 1u << dim : (1u << self->rank) - 1;
    bool keep = s->keep && c->arg[s->keep].i;
    int64_t n = !self->rank ? 1 : self->dim[dim];
    c->plan[0] = dim;
    if (s->k && (c->arg[s->k].i < 1 || c->arg[s->k].i > n))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "k is %lld, dimension %d has %lld elements",
                       (long long)c->arg[s->k].i, (int)dim, (long long)n);
    int rc = s->dim || !sn_is_float(self->dtype) ? reduce_need_elements(c, self, bits) : 0;
    if (!rc) rc = reduce_need_out(c, self, bits, keep, s->values);
    if (!rc && s->indices) rc = reduce_need_out(c, self, bits, keep, s->indices);
    return rc;
}

struct pick_run {
    aclDataType as;
    int64_t k; /* 0: the median */
    bool skip_nan;
    void *values; /* one a row, of type as */
    int64_t *indices;
};

static void pick_row(const struct row_call *r)
{
    const struct pick_run *p = r->ctx;
    struct order_item *item = r->scratch;
    int64_t n = r->n[0], numbers = order_keys(item, r->p[0], p->as, n, false), at;
    order_sort(item, item + n, n);
    if (p->k)
        at = p->k - 1;
    else if (p->skip_nan && numbers)
        at = (numbers - 1) / 2;
    else
        at = numbers < n ? numbers : (n - 1) / 2;
    copy_value(p->values, r->row, r->p[0], item[at].index, p->as);
    p->indices[r->row] = item[at].index;
}

static void store(op_call *c, int arg, aclDataType as, void *values)
{
    aclTensor from;
    const aclTensor *to = c->arg[arg].t;
    sn_wrap(&from, as, to->rank, to->dim, values);
    op_copy(c, to, &from);
}

static int run_pick(op_call *c)
{
    const struct pick_spec *s = c->row->aux;
    const aclTensor *self = c->arg[0].t;
    struct pick_run run = {
        .as = order_type(self->dtype), .k = s->k ? c->arg[s->k].i : 0, .skip_nan = s->skip_nan};
    struct row_space space = {.first = (int32_t)c->plan[0], .count = s->dim ? 1 : self->rank};
    int64_t rows = self->rank ? row_count(self, space.first, space.count) : 1;
    size_t n = rows ? (size_t)(sn_numel(self) / rows) : 0;
    space.scratch = 2 * n * sizeof(struct order_item);
    run.values = op_scratch(c, 8 * (size_t)(rows + 1));
    run.indices = op_scratch(c, 8 * (size_t)(rows + 1));
    struct row_operand operand[] = {{self, run.as}};
    if (n) {
        int rc = row_run(c, &space, operand, 0, 1, pick_row, &run);
        if (rc) return rc;
    } else if (rows) { /* check lets only floats come here */
        double nan = __builtin_nan("");
        sn_convert(run.values, run.as, &nan, ACL_DOUBLE, 1);
    }
    store(c, s->values, run.as, run.values);
    if (s->indices) store(c, s->indices, ACL_INT64, run.indices);
    return 0;
}

static const struct pick_spec pick_kth = {.k = 1, .dim = 2, .keep = 3, .values = 4, .indices = 5},
                              pick_median = {.values = 1},
                              pick_median_dim = {.dim = 1, .keep = 2, .values = 3, .indices = 4},
                              pick_nanmedian = {.values = 1, .skip_nan = true},
                              pick_nanmedian_dim = {
                                  .dim = 1, .keep = 2, .values = 3, .indices = 4, .skip_nan = true};

#define OP_FILE "softnpu/op/sort.inc"
#define OP_TABLE op_rows_sort
#include "softnpu/op/rows.h"
