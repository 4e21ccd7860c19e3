/* copy.c - copies, casts and fills. */
#include "softnpu/kernel/strided.h"
#include "softnpu/op/elementwise.h"

static int check_copy(op_call *c)
{
    aclTensor v;
    const aclTensor *dst = c->arg[0].t, *src = c->arg[1].t;
    if (sn_expand(src, dst->dim, dst->rank, &v)) return 0;
    char a[256], b[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s %s does not broadcast to %s %s", c->row->param[1].name,
                   sn_shape_str(src, a), c->row->param[0].name, sn_shape_str(dst, b));
}

static int run_copy(op_call *c)
{
    op_copy(c, c->arg[0].t, c->arg[1].t);
    return 0;
}

static int check_cast(op_call *c)
{
    if (c->arg[1].i != c->arg[2].t->dtype)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dtype is DT_%s and out is DT_%s, expected the same",
                       sn_dtype((aclDataType)c->arg[1].i)->name, sn_dtype(c->arg[2].t->dtype)->name);
    return op_need_same_shape(c, 0, 2);
}

static int run_cast(op_call *c)
{
    op_copy(c, c->arg[2].t, c->arg[0].t);
    return 0;
}

/* ---- fills ----------------------------------------------------------------------------------- */

static int fill(op_call *c, const aclScalar *value)
{
    aclDataType t = c->arg[0].t->dtype;
    struct ew_operand o[] = {{c->arg[0].t, t, NULL}, {NULL, t, value}};
    return ew_run(c, o, 1, 1, NULL, NULL);
}

static int run_fill_scalar(op_call *c)
{
    return fill(c, c->arg[1].s);
}

static int run_zero(op_call *c)
{
    return fill(c, &(aclScalar){ACL_INT64, {.i = 0}});
}

static int run_one(op_call *c)
{
    return fill(c, &(aclScalar){ACL_INT64, {.i = 1}});
}

static int check_fill_tensor(op_call *c)
{
    if (sn_numel(c->arg[1].t) == 1 && c->arg[1].t->rank <= 1) return 0;
    char shape[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has shape %s, expected a single element",
                   c->row->param[1].name, sn_shape_str(c->arg[1].t, shape));
}

/* A one-element tensor of shape [1] fills a tensor without dimensions too. */
static int run_fill_tensor(op_call *c)
{
    aclTensor single = *c->arg[1].t;
    single.rank = 0;
    op_copy(c, c->arg[0].t, &single);
    return 0;
}

/* ---- choice by a condition ------------------------------------------------------------------- */

static int select_run(op_call *c, const aclTensor *out, const aclTensor *condition, struct ew_operand a,
                      struct ew_operand b)
{
    struct ew_operand o[] = {{out, out->dtype, NULL}, {condition, ACL_BOOL, NULL}, a, b};
    return ew_run(c, o, 1, 3, ternary_kernels()->select[strided_index(sn_size(out->dtype))], NULL);
}

static int check_where(op_call *c)
{
    aclDataType t = ew_promote_tensors(c->arg[1].t, c->arg[2].t);
    if (t == ACL_DT_UNDEFINED) return ew_no_loop(c, t);
    int e = ew_need_broadcast(c, (const int[]){0, 1, 2}, 3, 3);
    return e ? e : op_need_cast(c, t, 3);
}

static int run_where(op_call *c)
{
    const aclTensor *out = c->arg[3].t;
    return select_run(c, out, c->arg[0].t, ew_of(c, 1, out->dtype), ew_of(c, 2, out->dtype));
}

static int check_masked_fill(op_call *c)
{
    bool tensor = ew_is_tensor(c, 2);
    if (tensor && sn_numel(c->arg[2].t) != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "value must have a single element");
    aclTensor v;
    if (sn_expand(c->arg[1].t, c->arg[0].t->dim, c->arg[0].t->rank, &v)) return 0;
    char a[256], b[256];
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "mask %s does not broadcast to selfRef %s",
                   sn_shape_str(c->arg[1].t, a), sn_shape_str(c->arg[0].t, b));
}

static int run_masked_fill(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    struct ew_operand value = ew_of(c, 2, self->dtype);
    aclTensor single;
    if (value.t) {
        single = *value.t;
        single.rank = 0;
        value.t = &single;
    }
    return select_run(c, self, c->arg[1].t, value, ew_of(c, 0, self->dtype));
}

/* The older path's copy between formats: the same elements in row-major order. */
static int check_identity(op_call *c)
{
    int r = op_need_same_dtype(c, 0, 1);
    if (r || sn_numel(c->arg[0].t) == sn_numel(c->arg[1].t)) return r;
    return op_need_same_shape(c, 0, 1);
}

static int run_identity(op_call *c)
{
    const aclTensor *x = c->arg[0].t, *y = c->arg[1].t;
    if (sn_numel(y)) op_out_done(c, y, y->dtype, op_in(c, x, x->dtype));
    return 0;
}

static int check_cast_older(op_call *c)
{
    aclDataType to = c->arg[1].t->dtype;
    if (c->arg[2].i == to) return op_need_same_shape(c, 0, 1);
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "dst_type is %lld, y is DT_%s", (long long)c->arg[2].i,
                   sn_dtype(to)->name);
}

static int run_cast_older(op_call *c)
{
    op_copy(c, c->arg[1].t, c->arg[0].t);
    return 0;
}

#define OP_FILE "softnpu/op/copy.inc"
#define OP_TABLE op_rows_copy
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/copy_older.inc"
#define OP_TABLE op_rows_copy_older
#include "softnpu/op/rows.h"
