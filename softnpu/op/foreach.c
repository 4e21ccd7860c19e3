/* foreach.c - operators over lists of tensors: one function, one driver. */
#include "softnpu/kernel/listmath.h"
#include "softnpu/op/op.h"

#include <math.h>
#include <string.h>

/* What distinguishes the rows. Input lists stand in the order of the arguments, the scalar between or behind
 * them. */
struct foreach {
    uint8_t fn;    /* enum listmath_op */
    int8_t inputs; /* input lists */
    int8_t scalar; /* argument: a scalar, a scalar list, or a tensor of one element or one a list element; -1:
                      none */
    int8_t out;    /* argument: output list */
};

#define LISTS(fn, inputs, scalar, out) (&(const struct foreach){LM_##fn, inputs, scalar, out})

static const struct foreach *row_of(const op_call *c)
{
    return c->row->aux;
}

/* Argument number of input list k. */
static int input_arg(const op_call *c, int k)
{
    const struct foreach *f = row_of(c);
    return f->scalar >= 0 && k >= f->scalar ? k + 1 : k;
}

/* ---- checks ------------------------------------------------------------------------------------------ */

static int need_list(const op_call *c, int arg, const aclTensorList *like, bool same_dtype)
{
    const aclTensorList *l = c->arg[arg].tl;
    const char *name = c->row->param[arg].name;
    if (l->n != like->n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %llu tensors, expected %llu", name,
                       (unsigned long long)l->n, (unsigned long long)like->n);
    for (uint64_t i = 0; i < l->n; i++) {
        char a[256], b[256];
        if (!sn_same_shape(l->v[i], like->v[i]))
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s[%llu] has shape %s, expected %s", name,
                           (unsigned long long)i, sn_shape_str(l->v[i], a), sn_shape_str(like->v[i], b));
        if (same_dtype && l->v[i]->dtype != like->v[i]->dtype)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s[%llu] is DT_%s, expected DT_%s", name,
                           (unsigned long long)i, sn_dtype(l->v[i]->dtype)->name,
                           sn_dtype(like->v[i]->dtype)->name);
    }
    return 0;
}

/* A scalar list or tensor has one element a list element; a tensor may also have just one. */
static int need_scalars(const op_call *c, int arg, uint64_t n)
{
    int kind = c->row->param[arg].kind;
    uint64_t have = kind == OPK_SL  ? c->arg[arg].sl->n
                    : kind == OPK_T ? (uint64_t)sn_numel(c->arg[arg].t)
                                    : 1;
    if (have == n || (kind != OPK_SL && have == 1)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %llu elements for %llu tensors",
                   c->row->param[arg].name, (unsigned long long)have, (unsigned long long)n);
}

static int check_list(op_call *c)
{
    const struct foreach *f = row_of(c);
    const aclTensorList *first = c->arg[input_arg(c, 0)].tl;
    int r = 0;
    for (int k = 0; !r && k < f->inputs; k++) r = need_list(c, input_arg(c, k), first, true);
    if (!r) r = need_list(c, f->out, first, true);
    if (!r && f->scalar >= 0) r = need_scalars(c, f->scalar, first->n);
    return r;
}

/* ---- the driver -------------------------------------------------------------------------------------- */

/* The scalars of a call, read once. */
struct scalars {
    const op_call *call;
    int arg;
    const double *f; /* a tensor's elements */
    const int64_t *i;
    bool each; /* one a list element */
};

static struct scalars scalars_of(op_call *c, int arg)
{
    struct scalars s = {.call = c, .arg = arg};
    if (arg >= 0 && c->row->param[arg].kind == OPK_T) {
        s.f = op_in(c, c->arg[arg].t, ACL_DOUBLE);
        s.i = op_in(c, c->arg[arg].t, ACL_INT64);
        s.each = sn_numel(c->arg[arg].t) > 1;
    }
    return s;
}

static struct listmath scalar_at(const struct scalars *s, uint64_t k)
{
    if (s->arg < 0) return (struct listmath){1, 1};
    if (s->f) return (struct listmath){s->f[s->each ? k : 0], s->i[s->each ? k : 0]};
    const op_arg *a = &s->call->arg[s->arg];
    const aclScalar *v = s->call->row->param[s->arg].kind == OPK_SL ? a->sl->v[k] : a->s;
    return (struct listmath){sn_scalar_f64(v), sn_scalar_i64(v)};
}

/* The function for tensors of a type, and the type it computes in. An integer list whose function, or whose
 * scalar, is not of integers is computed in f32. */
static listmath_fn function_for(uint8_t fn, aclDataType t, const struct listmath *s, aclDataType *as)
{
    const struct listmath_kernels *k = listmath_kernels();
    bool whole = s->s == (double)s->is;
    *as = t == ACL_DOUBLE ? ACL_DOUBLE : sn_is_integral(t) && k->i64[fn] && whole ? ACL_INT64 : ACL_FLOAT;
    return *as == ACL_DOUBLE ? k->f64[fn] : *as == ACL_INT64 ? k->i64[fn] : k->f32[fn];
}

static int run_one(op_call *c, uint8_t fn, const struct listmath *s, uint64_t k)
{
    const struct foreach *f = row_of(c);
    struct ew_operand operand[4];
    aclDataType as;
    const aclTensor *out = c->arg[f->out].tl->v[k];
    listmath_fn block = function_for(fn, out->dtype, s, &as);
    operand[0] = (struct ew_operand){out, as, NULL};
    for (int i = 0; i < 3; i++) {
        int from = i < f->inputs ? i : 0; /* functions read three inputs, used or not */
        operand[1 + i] = (struct ew_operand){c->arg[input_arg(c, from)].tl->v[k], as, NULL};
    }
    return sn_numel(out) ? ew_run(c, operand, 1, 3, block, s) : 0;
}

static int run_all(op_call *c, uint8_t fn)
{
    const struct foreach *f = row_of(c);
    struct scalars scalars = scalars_of(c, f->scalar);
    for (uint64_t k = 0; k < c->arg[f->out].tl->n; k++) {
        struct listmath s = scalar_at(&scalars, k);
        int r = run_one(c, fn, &s, k);
        if (r) return r;
    }
    return 0;
}

static int run_list(op_call *c)
{
    return run_all(c, row_of(c)->fn);
}

static int run_round(op_call *c)
{
    struct scalars scalars = scalars_of(c, row_of(c)->scalar);
    int64_t mode = scalar_at(&scalars, 0).is;
    if (mode < 1 || mode > 1 + LM_ROUND_FRACTION - LM_ROUND_EVEN)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "roundMode %lld is not one of 1 to %d", (long long)mode,
                       1 + LM_ROUND_FRACTION - LM_ROUND_EVEN);
    return run_all(c, (uint8_t)(LM_ROUND_EVEN + mode - 1));
}

/* ---- copies, zeros ----------------------------------------------------------------------------------- */

static int check_copy_list(op_call *c)
{
    return need_list(c, 1, c->arg[0].tl, false);
}

static int run_copy_list(op_call *c)
{
    const aclTensorList *from = c->arg[0].tl, *to = c->arg[1].tl;
    for (uint64_t i = 0; i < to->n; i++)
        if (sn_numel(to->v[i])) op_copy(c, to->v[i], from->v[i]);
    return 0;
}

static int run_zero_list(op_call *c)
{
    const aclTensorList *l = c->arg[0].tl;
    void *zero = op_scratch(c, 16);
    memset(zero, 0, 16);
    for (uint64_t i = 0; i < l->n; i++) {
        aclTensor one;
        sn_wrap(&one, l->v[i]->dtype, 0, NULL, zero);
        if (sn_numel(l->v[i])) op_copy(c, l->v[i], &one);
    }
    return 0;
}

/* ---- norms ------------------------------------------------------------------------------------------- */

static int check_norm(op_call *c)
{
    const aclTensorList *x = c->arg[0].tl, *out = c->arg[2].tl;
    if (x->n != out->n)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out has %llu tensors, expected %llu",
                       (unsigned long long)out->n, (unsigned long long)x->n);
    for (uint64_t i = 0; i < out->n; i++)
        if (sn_numel(out->v[i]) != 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out[%llu] must have one element",
                           (unsigned long long)i);
    return 0;
}

enum { NORM_CHUNK = 16384 };
struct norm_ctx {
    const float *x;
    double p, *part; /* one partial result a chunk, so that the sum's order is fixed */
};

static void norm_chunk(void *ctx, int64_t begin, int64_t end)
{
    const struct norm_ctx *n = ctx;
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
        double x = fabs((double)n->x[i]);
        if (isinf(n->p))
            sum = x > sum || isnan(x) ? x : sum;
        else
            sum += n->p == 2 ? x * x : n->p == 1 ? x : n->p == 0 ? x != 0 : pow(x, n->p);
    }
    n->part[begin / NORM_CHUNK] = sum;
}

static double norm_of(op_call *c, const aclTensor *t, double p)
{
    int64_t n = sn_numel(t), chunks = (n + NORM_CHUNK - 1) / NORM_CHUNK;
    struct norm_ctx ctx = {NULL, p, op_scratch(c, (size_t)(chunks + 1) * sizeof(double))};
    double sum = 0;
    if (n == 0) return 0;
    ctx.x = op_in(c, t, ACL_FLOAT);
    rt_pool_run(n, NORM_CHUNK, norm_chunk, &ctx);
    for (int64_t i = 0; i < chunks; i++) {
        double part = ctx.part[i];
        sum = !isinf(p) ? sum + part : part > sum || isnan(part) ? part : sum;
    }
    return p == 2 ? sqrt(sum) : isinf(p) || p == 0 || p == 1 ? sum : pow(sum, 1 / p);
}

static int run_norm(op_call *c)
{
    const aclTensorList *x = c->arg[0].tl, *out = c->arg[2].tl;
    double p = sn_scalar_f64(c->arg[1].s);
    for (uint64_t i = 0; i < x->n; i++) {
        double norm = norm_of(c, x->v[i], p);
        op_out_done(c, out->v[i], ACL_DOUBLE, &norm);
    }
    return 0;
}

/* ---- gradient scaling -------------------------------------------------------------------------------- */

static int check_unscale(op_call *c)
{
    for (int i = 1; i < 3; i++)
        if (sn_numel(c->arg[i].t) != 1)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s must have one element", c->row->param[i].name);
    return 0;
}

struct unscale_ctx {
    float scale;
    int found;
};

static void unscale_block(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    struct unscale_ctx *u = (struct unscale_ctx *)(uintptr_t)ctx;
    float *out = p[0];
    const float *x = p[1];
    int bad = 0;
    (void)index;
    for (int64_t i = 0; i < n; i++) {
        bad |= !isfinite(x[i]);
        out[i] = x[i] * u->scale;
    }
    if (bad) __atomic_store_n(&u->found, 1, __ATOMIC_RELAXED);
}

/* Every gradient times invScale; foundInf becomes 1 if any was infinite or NaN, and stays as it was if none.
 */
static int run_unscale(op_call *c)
{
    const aclTensorList *grads = c->arg[0].tl;
    struct unscale_ctx u = {*(const float *)op_in(c, c->arg[2].t, ACL_FLOAT), 0};
    for (uint64_t i = 0; i < grads->n; i++) {
        struct ew_operand operand[] = {{grads->v[i], ACL_FLOAT, NULL}, {grads->v[i], ACL_FLOAT, NULL}};
        int r = sn_numel(grads->v[i]) ? ew_run(c, operand, 1, 1, unscale_block, &u) : 0;
        if (r) return r;
    }
    float one = 1;
    if (u.found) op_out_done(c, c->arg[1].t, ACL_FLOAT, &one);
    return 0;
}

#define OP_FILE "softnpu/op/foreach.inc"
#define OP_TABLE op_rows_foreach
#include "softnpu/op/rows.h"
