/* softmax.c - softmax and log softmax along one dimension, forward and backward. */
#include "softnpu/kernel/column_kernels.h"
#include "softnpu/kernel/row_kernels.h"
#include "softnpu/op/rowwise.h"

/* Inputs come first, then the dimension, then out. */
struct softmax_spec {
    int nin;
    row_fn fn;
    column_fn columns;
};

static int check_softmax(op_call *c)
{
    const struct softmax_spec *s = c->row->aux;
    int32_t dim;
    int rc = op_need_dim(c, c->arg[s->nin].i, c->arg[0].t->rank, &dim);
    c->plan[0] = dim;
    for (int i = 1; i < s->nin + 2 && !rc; i++)
        if (i != s->nin) rc = op_need_same_shape(c, 0, i);
    return rc;
}

/* Rows are of one type for all operands: float, or double if one of them is. */
static int run_softmax(op_call *c)
{
    const struct softmax_spec *s = c->row->aux;
    const aclTensor *out = c->arg[s->nin + 1].t;
    aclDataType as = sn_compute(out->dtype);
    for (int i = 0; i < s->nin; i++)
        if (c->arg[i].t->dtype == ACL_DOUBLE) as = ACL_DOUBLE;
    if (as != ACL_FLOAT && as != ACL_DOUBLE)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out cannot be %s", sn_dtype(out->dtype)->name);
    const aclTensor *const all[3] = {out, c->arg[0].t, s->nin > 1 ? c->arg[1].t : NULL};
    if (as == ACL_FLOAT && column_suits(out, (int32_t)c->plan[0]) &&
        column_run(c, (int32_t)c->plan[0], all, s->nin, s->columns, NULL))
        return 0;
    struct row_operand operand[3] = {{.t = out, .as = as}};
    for (int i = 0; i < s->nin; i++) operand[1 + i] = (struct row_operand){.t = c->arg[i].t, .as = as};
    struct row_space space = {.first = (int32_t)c->plan[0], .count = 1};
    return row_run(c, &space, operand, 1, s->nin, s->fn, &operand[0].as);
}

static int is_double(const struct row_call *r)
{
    return *(const aclDataType *)r->ctx == ACL_DOUBLE;
}

static void softmax_row(const struct row_call *r)
{
    row_kernels()->softmax[is_double(r)](r->p[0], r->p[1], r->n[0]);
}

static void log_softmax_row(const struct row_call *r)
{
    row_kernels()->log_softmax[is_double(r)](r->p[0], r->p[1], r->n[0]);
}

static void softmax_grad_row(const struct row_call *r)
{
    row_kernels()->softmax_grad[is_double(r)](r->p[0], r->p[1], r->p[2], r->n[0]);
}

static void log_softmax_grad_row(const struct row_call *r)
{
    row_kernels()->log_softmax_grad[is_double(r)](r->p[0], r->p[1], r->p[2], r->n[0]);
}

#define COLUMNS(name, ...)                                                                                   \
    static void name##_columns(const struct column_call *r, const void *ctx)                                 \
    {                                                                                                        \
        (void)ctx;                                                                                           \
        column_kernels()->name(__VA_ARGS__, r->n, r->step, r->m);                                            \
    }
COLUMNS(softmax, r->p[0], r->p[1])
COLUMNS(log_softmax, r->p[0], r->p[1])
COLUMNS(softmax_grad, r->p[0], r->p[1], r->p[2])
COLUMNS(log_softmax_grad, r->p[0], r->p[1], r->p[2])

static const struct softmax_spec softmax_plain = {1, softmax_row, softmax_columns},
                                 softmax_log = {1, log_softmax_row, log_softmax_columns},
                                 softmax_plain_grad = {2, softmax_grad_row, softmax_grad_columns},
                                 softmax_log_grad = {2, log_softmax_grad_row, log_softmax_grad_columns};

#define OP_FILE "softnpu/op/softmax.inc"
#define OP_TABLE op_rows_softmax
#include "softnpu/op/rows.h"
