/* binary.c - elementwise operators with two inputs, each a tensor or a scalar. */
#include "softnpu/op/elementwise.h"

#include <string.h>

struct binary {
    uint8_t loop;  /* enum ew_binary */
    uint8_t alpha; /* the loop to take when there is an alpha that is not one; 0: the call has no alpha */
    uint8_t policy;
};
#define PLAIN(id, policy)                                                                                    \
    {                                                                                                        \
        EWB_##id, 0, policy                                                                                  \
    }

static const struct binary b_add = {EWB_ADD, EWB_ADDA, EWP_SAME}, b_sub = {EWB_SUB, EWB_SUBA, EWP_SAME},
                           b_rsub = {EWB_RSUBA, EWB_RSUBA, EWP_SAME}, b_mul = PLAIN(MUL, EWP_SAME),
                           b_div = PLAIN(DIV, EWP_FLOAT), b_pow = PLAIN(POW, EWP_SAME),
                           b_floordiv = PLAIN(FLOORDIV, EWP_SAME), b_rem = PLAIN(REM, EWP_SAME),
                           b_fmod = PLAIN(FMOD, EWP_SAME), b_max = PLAIN(MAX, EWP_SAME),
                           b_min = PLAIN(MIN, EWP_SAME), b_atan2 = PLAIN(ATAN2, EWP_FLOAT),
                           b_gcd = PLAIN(GCD, EWP_SAME), b_and = PLAIN(AND, EWP_SAME),
                           b_or = PLAIN(OR, EWP_SAME), b_xor = PLAIN(XOR, EWP_SAME),
                           b_shl = PLAIN(SHL, EWP_SAME), b_shr = PLAIN(SHR, EWP_SAME),
                           b_logaddexp = PLAIN(LOGADDEXP, EWP_FLOAT),
                           b_logaddexp2 = PLAIN(LOGADDEXP2, EWP_FLOAT), b_xlogy = PLAIN(XLOGY, EWP_FLOAT),
                           b_eq = PLAIN(EQ, EWP_TRUTH), b_ne = PLAIN(NE, EWP_TRUTH),
                           b_lt = PLAIN(LT, EWP_TRUTH), b_le = PLAIN(LE, EWP_TRUTH),
                           b_gt = PLAIN(GT, EWP_TRUTH), b_ge = PLAIN(GE, EWP_TRUTH),
                           b_land = PLAIN(LAND, EWP_TRUTH), b_lor = PLAIN(LOR, EWP_TRUTH),
                           b_lxor = PLAIN(LXOR, EWP_TRUTH), b_isclose = PLAIN(ISCLOSE, EWP_DOUBLE);

/* ---- shared by all: plan[0] the computing type, plan[1] the loop, plan[2] the promoted type ---- */

static int check_as(op_call *c, int loop, enum ew_policy policy)
{
    int out = ew_output(c);
    aclDataType promoted = ew_promote_args(c, 0, 1), t = ew_computed(promoted, policy, c->arg[out].t);
    int row = ew_type(t);
    if (row < 0 || !binary_kernels()->loop[loop][row])
        return ew_no_loop(c, t == ACL_DT_UNDEFINED ? t : promoted);
    c->plan[0] = t;
    c->plan[1] = loop;
    c->plan[2] = promoted;
    int e = ew_need_broadcast(c, (const int[]){0, 1}, 2, out);
    return e || policy == EWP_TRUTH || policy == EWP_DOUBLE ? e : op_need_cast(c, t, out);
}

static int check_binary(op_call *c)
{
    const struct binary *b = c->row->aux;
    return check_as(c, b->loop, b->policy);
}

/* A single value next to a 16-bit tensor: comparisons and remainders see it rounded to that type, as in torch
 * (x == 0.1 holds where x is 0.1 rounded); arithmetic sees all of it. */
static bool rounds_singles(int loop)
{
    return (loop >= EWB_EQ && loop <= EWB_GE) || loop == EWB_REM || loop == EWB_FMOD;
}

static void round_single(op_call *c, struct ew_operand *o, aclScalar *store)
{
    aclDataType to = (aclDataType)c->plan[2];
    if (o->t && (o->t->dtype == to || o->t->rank)) return;
    char value[16], rounded[16];
    if (o->t)
        sn_convert(rounded, to, sn_data(o->t), o->t->dtype, 1);
    else
        sn_scalar_store(o->scalar, to, rounded);
    sn_convert(value, ACL_DOUBLE, rounded, to, 1);
    *store = (aclScalar){.dtype = ACL_DOUBLE};
    memcpy(&store->v.d, value, sizeof store->v.d);
    *o = (struct ew_operand){NULL, o->as, store};
}

static int run_as(op_call *c, aclDataType result, const void *ctx)
{
    aclDataType t = (aclDataType)c->plan[0];
    struct ew_operand o[] = {ew_of(c, ew_output(c), result), ew_of(c, 0, t), ew_of(c, 1, t)};
    aclScalar rounded[2];
    if (c->plan[2] != t && sn_is_float((aclDataType)c->plan[2]) && rounds_singles((int)c->plan[1]))
        for (int i = 0; i < 2; i++) round_single(c, &o[1 + i], &rounded[i]);
    ew_loop loop = binary_kernels()->loop[c->plan[1]][ew_type(t)];
    return ew_run(c, o, 1, 2, ew_half(o, 3, half_kernels()->binary[c->plan[1]], loop), ctx);
}

static int run_binary(op_call *c)
{
    const struct binary *b = c->row->aux;
    return run_as(c, b->policy == EWP_TRUTH ? ACL_BOOL : (aclDataType)c->plan[0], NULL);
}

/* ---- with alpha (argument 2) ----------------------------------------------------------------- */

static bool is_one(const aclScalar *s)
{
    return s->dtype == ACL_INT64 ? s->v.i == 1 : sn_scalar_c128(s) == 1;
}

/* torch refuses a float alpha for integers; a complex one for reals. */
static int check_alpha(op_call *c)
{
    const struct binary *b = c->row->aux;
    const aclScalar *alpha = c->arg[2].s;
    int e = check_as(c, is_one(alpha) ? b->loop : b->alpha, (enum ew_policy)b->policy);
    if (e || sn_can_cast(alpha->dtype, (aclDataType)c->plan[0]) || alpha->dtype == ACL_INT64) return e;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "alpha of DT_%s does not fit a result of DT_%s",
                   sn_dtype(alpha->dtype)->name, sn_dtype((aclDataType)c->plan[0])->name);
}

static int run_alpha(op_call *c)
{
    aclDataType t = (aclDataType)c->plan[0];
    _Alignas(16) char alpha[16];
    sn_scalar_store(c->arg[2].s, t, alpha);
    return run_as(c, t, alpha);
}

/* ---- division with a rounding mode (argument 2): 0 none, 1 towards zero, 2 down -------------- */

static int check_divmod(op_call *c)
{
    static const struct binary modes[] = {PLAIN(DIV, EWP_FLOAT), PLAIN(TRUNCDIV, EWP_SAME),
                                          PLAIN(FLOORDIV, EWP_SAME)};
    int64_t mode = c->arg[2].i;
    if (mode < 0 || mode > 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "mode %lld, expected 0, 1 or 2", (long long)mode);
    return check_as(c, modes[mode].loop, (enum ew_policy)modes[mode].policy);
}

static int run_divmod(op_call *c)
{
    return run_as(c, (aclDataType)c->plan[0], NULL);
}

/* ---- the others ------------------------------------------------------------------------------ */

static int run_isclose(op_call *c)
{
    struct ew_isclose how = {c->arg[2].d, c->arg[3].d, c->arg[4].i != 0};
    return run_as(c, ACL_BOOL, &how);
}

/* Integers to a negative scalar power have no integer result: torch refuses them. */
static int check_pow_scalar(op_call *c)
{
    int e = check_as(c, EWB_POW, EWP_SAME);
    if (e || !sn_is_integral((aclDataType)c->plan[0]) || sn_scalar_i64(c->arg[1].s) >= 0) return e;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "integers to negative integer powers are not allowed");
}

/* Exponents that have a shorter way, with the results that torch's short ways have: a square root's for -0.0
 * and -inf. */
static const struct {
    double exponent;
    uint8_t loop; /* enum ew_unary */
} powers[] = {
    {2, EWU_SQUARE},      {3, EWU_CUBE},   {-2, EWU_INVSQUARE},
    {-1, EWU_RECIPROCAL}, {0.5, EWU_SQRT}, {-0.5, EWU_RSQRT},
};

static ew_loop short_power(const aclScalar *exponent, aclDataType t)
{
    if (exponent->dtype == ACL_COMPLEX128 || exponent->dtype == ACL_BOOL) return NULL;
    double e = sn_scalar_f64(exponent);
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        if (powers[i].exponent == e) return unary_kernels()->loop[powers[i].loop][ew_type(t)];
    return NULL;
}

static int run_pow_scalar(op_call *c)
{
    aclDataType t = (aclDataType)c->plan[0];
    ew_loop loop = short_power(c->arg[1].s, t);
    if (!loop) return run_as(c, t, NULL);
    struct ew_operand o[] = {ew_of(c, ew_output(c), t), ew_of(c, 0, t)};
    return ew_run(c, o, 1, 1, loop, NULL);
}

/* ---- membership: (element, testElements, assumeUnique, invert, out), one of the first two a scalar ---- */

/* out is the test's result for every element: its shape is the tensor's here. */
static int check_is_in_scalar(op_call *c)
{
    aclDataType promoted = ew_promote_args(c, 0, 1), t = ew_computed(promoted, EWP_SAME, NULL);
    if (ew_type(t) < 0) return ew_no_loop(c, promoted);
    c->plan[0] = t;
    c->plan[1] = c->arg[3].i ? EWB_NE : EWB_EQ;
    c->plan[2] = promoted;
    return ew_need_broadcast(c, (const int[]){0, 1}, 2, 4);
}

static int run_is_in_scalar(op_call *c)
{
    return run_as(c, ACL_BOOL, NULL);
}

/* out has no dimensions: does any test element equal the scalar? */
static int check_is_in_tensor(op_call *c)
{
    aclDataType promoted = ew_promote_args(c, 0, 1), t = ew_computed(promoted, EWP_SAME, NULL);
    if (ew_type(t) < 0) return ew_no_loop(c, promoted);
    c->plan[0] = t;
    return op_need_shape(c, 4, (const int64_t[]){0}, 0);
}

static int run_is_in_tensor(op_call *c)
{
    const aclTensor *tests = c->arg[1].t;
    aclDataType t = (aclDataType)c->plan[0];
    int64_t n = sn_numel(tests);
    bool found = false;
    aclTensor equal;
    sn_wrap(&equal, ACL_BOOL, tests->rank, tests->dim, op_scratch(c, (size_t)n));
    struct ew_operand o[] = {{&equal, ACL_BOOL, NULL}, ew_of(c, 0, t), ew_of(c, 1, t)};
    int e = ew_run(c, o, 1, 2, binary_kernels()->loop[EWB_EQ][ew_type(t)], NULL);
    for (int64_t i = 0; i < n && !found; i++) found = ((const uint8_t *)equal.data)[i] != 0;
    aclScalar result = {ACL_BOOL, {.b = found != (c->arg[3].i != 0)}};
    struct ew_operand store[] = {{c->arg[4].t, ACL_BOOL, NULL}, {NULL, ACL_BOOL, &result}};
    return e ? e : ew_run(c, store, 1, 1, NULL, NULL);
}

#define OP_FILE "softnpu/op/binary.inc"
#define OP_TABLE op_rows_binary
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/binary_older.inc"
#define OP_TABLE op_rows_binary_older
#include "softnpu/op/rows.h"
