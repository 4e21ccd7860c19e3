/* elementwise.c - what the elementwise families share: the type a call computes in, and its operands. */
#include "softnpu/op/elementwise.h"

#include <string.h>

int ew_type(aclDataType t)
{
    static const int8_t of_type[SN_NDTYPES] = {
        [ACL_FLOAT] = EWT_F32 + 1,       [ACL_DOUBLE] = EWT_F64 + 1, [ACL_INT8] = EWT_I8 + 1,
        [ACL_INT16] = EWT_I16 + 1,       [ACL_INT32] = EWT_I32 + 1,  [ACL_INT64] = EWT_I64 + 1,
        [ACL_UINT8] = EWT_U8 + 1,        [ACL_BOOL] = EWT_BOOL + 1,  [ACL_COMPLEX64] = EWT_C64 + 1,
        [ACL_COMPLEX128] = EWT_C128 + 1,
    };
    return (unsigned)t < SN_NDTYPES ? of_type[t] - 1 : -1;
}

bool ew_is_tensor(const op_call *c, int i)
{
    return c->row->param[i].kind <= OPK_IO;
}

static int category(aclDataType t)
{
    static const int8_t of_kind[] = {
        [SN_NONE] = 0, [SN_BOOL] = 1, [SN_UINT] = 2, [SN_INT] = 2, [SN_FLOAT] = 3, [SN_COMPLEX] = 4};
    return of_kind[sn_dtype(t)->kind];
}

aclDataType ew_promote_tensors(const aclTensor *a, const aclTensor *b)
{
    if (!a->rank == !b->rank) return sn_promote(a->dtype, b->dtype);
    const aclTensor *shaped = a->rank ? a : b, *single = a->rank ? b : a;
    bool higher = category(single->dtype) > category(shaped->dtype);
    return higher ? sn_promote(a->dtype, b->dtype) : shaped->dtype;
}

aclDataType ew_promote_args(const op_call *c, int a, int b)
{
    if (!ew_is_tensor(c, a)) return sn_promote_scalar(c->arg[b].t->dtype, c->arg[a].s);
    if (!ew_is_tensor(c, b)) return sn_promote_scalar(c->arg[a].t->dtype, c->arg[b].s);
    return ew_promote_tensors(c->arg[a].t, c->arg[b].t);
}

aclDataType ew_computed(aclDataType t, enum ew_policy policy, const aclTensor *out)
{
    if (t == ACL_DT_UNDEFINED) return t;
    if (policy == EWP_FLOAT && sn_is_integral(t))
        return out && out->dtype == ACL_DOUBLE ? ACL_DOUBLE : ACL_FLOAT;
    if (policy == EWP_DOUBLE && sn_is_integral(t)) return ACL_DOUBLE;
    return sn_compute(t);
}

int ew_output(const op_call *c)
{
    for (int i = c->row->nparam; i-- > 0;)
        if (c->row->param[i].kind == OPK_O) return i;
    return 0;
}

struct ew_operand ew_of(const op_call *c, int i, aclDataType t)
{
    if (ew_is_tensor(c, i)) return (struct ew_operand){c->arg[i].t, t, NULL};
    return (struct ew_operand){NULL, t, c->arg[i].s};
}

/* True if every tensor has the output's shape: nothing to broadcast, the usual case. */
static bool all_alike(const op_call *c, const int *args, int n, const aclTensor *out)
{
    for (int i = 0; i < n; i++)
        if (ew_is_tensor(c, args[i]) && !sn_same_shape(c->arg[args[i]].t, out)) return false;
    return true;
}

int ew_need_broadcast(const op_call *c, const int *args, int n, int out)
{
    if (all_alike(c, args, n, c->arg[out].t) && ew_is_tensor(c, args[0])) return 0;
    aclTensor shape;
    shape.rank = 0;
    for (int i = 0; i < n; i++) {
        if (!ew_is_tensor(c, args[i])) continue;
        const aclTensor *t = c->arg[args[i]].t;
        char a[256], b[256];
        int64_t dim[SN_MAX_DIMS]; /* not shape's own: its dimensions move when t has more */
        int32_t rank;
        if (!sn_broadcast_shape(&shape, t, dim, &rank))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s with shape %s does not broadcast with %s",
                           c->row->param[args[i]].name, sn_shape_str(t, a), sn_shape_str(&shape, b));
        memcpy(shape.dim, dim, sizeof *dim * (size_t)rank);
        shape.rank = rank;
    }
    return op_need_shape(c, out, shape.dim, shape.rank);
}

int ew_no_loop(const op_call *c, aclDataType t)
{
    if (t == ACL_DT_UNDEFINED)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "the inputs' data types have no common type");
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "not implemented for DT_%s", sn_dtype(t)->name);
}

/* A scalar that the type does not hold exactly counts in full. */
static bool holds(aclDataType t, const aclScalar *s)
{
    char exact[16], rounded[16];
    double all, kept;
    sn_scalar_store(s, ACL_DOUBLE, exact);
    sn_scalar_store(s, t, rounded);
    memcpy(&all, exact, sizeof all);
    sn_convert(&kept, ACL_DOUBLE, rounded, t, 1);
    return kept == all;
}

ew_loop ew_half(struct ew_operand *o, int n, const ew_loop *half, ew_loop whole)
{
    aclDataType t = o[0].t->dtype;
    if (t != ACL_FLOAT16 && t != ACL_BF16) return whole;
    ew_loop loop = half[t == ACL_FLOAT16 ? HALF_F16 : HALF_BF16];
    if (!loop) return whole;
    for (int i = 0; i < n; i++) {
        if (o[i].as != ACL_FLOAT) return whole;
        if (o[i].t ? o[i].t->dtype != t : !holds(t, o[i].scalar)) return whole;
    }
    for (int i = 0; i < n; i++) o[i].as = t;
    return loop;
}
