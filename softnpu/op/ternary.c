/* ternary.c - elementwise operators with three inputs: lerp, addcmul, addcdiv, clamp. */
#include "softnpu/op/elementwise.h"

struct ternary {
    uint8_t loop; /* enum ew_ternary */
    uint8_t policy;
    uint8_t value; /* argument with the scalar that the loop takes as context; 0: none */
};
static const struct ternary t_lerp = {EWTN_LERP, EWP_SAME, 0}, t_addcmul = {EWTN_ADDCMUL, EWP_SAME, 3},
                            t_addcdiv = {EWTN_ADDCDIV, EWP_FLOAT, 3};

static aclDataType promote3(const op_call *c)
{
    aclDataType t = ew_promote_args(c, 0, 1);
    if (!ew_is_tensor(c, 2)) return t == ACL_DT_UNDEFINED ? t : sn_promote_scalar(t, c->arg[2].s);
    aclTensor first = {.dtype = t, .rank = c->arg[0].t->rank | c->arg[1].t->rank};
    return t == ACL_DT_UNDEFINED ? t : ew_promote_tensors(&first, c->arg[2].t);
}

static int check_ternary(op_call *c)
{
    const struct ternary *f = c->row->aux;
    int out = ew_output(c);
    aclDataType promoted = promote3(c), t = ew_computed(promoted, (enum ew_policy)f->policy, c->arg[out].t);
    int row = ew_type(t);
    if (row < 0 || !ternary_kernels()->loop[f->loop][row]) return ew_no_loop(c, promoted);
    c->plan[0] = t;
    int e = ew_need_broadcast(c, (const int[]){0, 1, 2}, 3, out);
    return e ? e : op_need_cast(c, t, out);
}

static int run_ternary(op_call *c)
{
    const struct ternary *f = c->row->aux;
    aclDataType t = (aclDataType)c->plan[0];
    _Alignas(16) char value[16];
    if (f->value) sn_scalar_store(c->arg[f->value].s, t, value);
    struct ew_operand o[] = {ew_of(c, ew_output(c), t), ew_of(c, 0, t), ew_of(c, 1, t), ew_of(c, 2, t)};
    return ew_run(c, o, 1, 3, ternary_kernels()->loop[f->loop][ew_type(t)], value);
}

/* ---- clamp: either bound may be missing ------------------------------------------------------ */

enum { SELF, LOW, HIGH };

static aclDataType clamp_type(const op_call *c)
{
    aclTensor t = *c->arg[SELF].t;
    for (int i = LOW; i <= HIGH && t.dtype != ACL_DT_UNDEFINED; i++) {
        if (!c->arg[i].t) continue;
        t.dtype = ew_is_tensor(c, i) ? ew_promote_tensors(&t, c->arg[i].t)
                                     : sn_promote_scalar(t.dtype, c->arg[i].s);
    }
    return t.dtype;
}

static int check_clamp(op_call *c)
{
    int out = ew_output(c), args[3] = {SELF}, n = 1;
    aclDataType promoted = clamp_type(c), t = ew_computed(promoted, EWP_SAME, NULL);
    int row = ew_type(t);
    if (row < 0 || !ternary_kernels()->loop[EWTN_CLAMP][row]) return ew_no_loop(c, promoted);
    if (!c->arg[LOW].t && !c->arg[HIGH].t)
        return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "%s and %s are both null", c->row->param[LOW].name,
                       c->row->param[HIGH].name);
    for (int i = LOW; i <= HIGH; i++)
        if (c->arg[i].t) args[n++] = i;
    c->plan[0] = t;
    int e = ew_need_broadcast(c, args, n, out);
    return e ? e : op_need_cast(c, t, out);
}

static int run_clamp(op_call *c)
{
    aclDataType t = (aclDataType)c->plan[0];
    struct ew_operand self = ew_of(c, SELF, t), out = ew_of(c, ew_output(c), t);
    int row = ew_type(t);
    if (c->arg[LOW].t && c->arg[HIGH].t) {
        struct ew_operand o[] = {out, self, ew_of(c, LOW, t), ew_of(c, HIGH, t)};
        return ew_run(c, o, 1, 3, ternary_kernels()->loop[EWTN_CLAMP][row], NULL);
    }
    bool low = c->arg[LOW].t;
    struct ew_operand o[] = {out, self, ew_of(c, low ? LOW : HIGH, t)};
    return ew_run(c, o, 1, 2, binary_kernels()->loop[low ? EWB_MAX : EWB_MIN][row], NULL);
}

#define OP_FILE "softnpu/op/ternary.inc"
#define OP_TABLE op_rows_ternary
#include "softnpu/op/rows.h"
