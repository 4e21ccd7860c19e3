/* copy.c - copies, casts and fills. */
#include "softnpu/op/op.h"

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

#define OP_FILE "softnpu/op/copy.inc"
#define OP_TABLE op_rows_copy
#include "softnpu/op/rows.h"
