/* unary.c - elementwise operators with one input. */
#include "softnpu/op/elementwise.h"

struct unary {
    uint8_t loop; /* enum ew_unary */
    uint8_t policy;
};
/* A row's aux: the loop and how the computing type follows from the input's. */
#define UNARY(id, policy) (&(const struct unary){EWU_##id, policy})

/* plan[0]: the computing type, plan[1]: the result's. */
static int check_unary(op_call *c)
{
    const struct unary *u = c->row->aux;
    int out = ew_output(c);
    aclDataType t = ew_computed(c->arg[0].t->dtype, (enum ew_policy)u->policy, c->arg[out].t), result = t;
    int row = ew_type(t);
    if (row < 0 || !unary_kernels()->loop[u->loop][row]) return ew_no_loop(c, c->arg[0].t->dtype);
    if (u->policy == EWP_TRUTH) result = ACL_BOOL;
    if (sn_is_complex(t) && (u->loop == EWU_ABS || u->loop == EWU_ANGLE))
        result = t == ACL_COMPLEX64 ? ACL_FLOAT : ACL_DOUBLE;
    c->plan[0] = t;
    c->plan[1] = result;
    int e = op_need_same_shape(c, 0, out);
    return e || u->policy == EWP_TRUTH ? e : op_need_cast(c, result, out);
}

static int run_with(op_call *c, const void *ctx)
{
    const struct unary *u = c->row->aux;
    aclDataType t = (aclDataType)c->plan[0];
    struct ew_operand o[] = {ew_of(c, ew_output(c), (aclDataType)c->plan[1]), ew_of(c, 0, t)};
    ew_loop loop = unary_kernels()->loop[u->loop][ew_type(t)];
    return ew_run(c, o, 1, 1, ew_half(o, 2, half_kernels()->unary[u->loop], loop), ctx);
}

static int run_unary(op_call *c)
{
    return run_with(c, NULL);
}

/* RoundDecimals, Logit: argument 1 by value. */
static int run_round_decimals(op_call *c)
{
    return run_with(c, &c->arg[1].i);
}

static int run_logit(op_call *c)
{
    return run_with(c, &c->arg[1].d);
}

/* The replacements come as floats; torch_npu fills in the largest values of self's type where the user gave
 * none. */
static int run_nan_to_num(op_call *c)
{
    const double to[] = {c->arg[1].d, c->arg[2].d, c->arg[3].d};
    return run_with(c, to);
}

#define OP_FILE "softnpu/op/unary.inc"
#define OP_TABLE op_rows_unary
#include "softnpu/op/rows.h"
