/* cum.c - cumulative operators: sums and products in double (as CPU torch accumulates), extremes with their
 * places. */
#include "softnpu/op/rowwise.h"
#include "softnpu/kernel/column_kernels.h"

#include <complex.h>

struct cum_spec {
    int8_t out;  /* indices, if there are any, follow */
    bool scalar; /* dim is an aclScalar */
    bool indexed;
    row_fn f32, f64, i64, c128;
    column_fn columns; /* of f32, may be NULL */
};

static int check_cum(op_call *c)
{
    const struct cum_spec *s = c->row->aux;
    int32_t dim;
    int64_t asked = s->scalar ? sn_scalar_i64(c->arg[1].s) : c->arg[1].i;
    int rc = op_need_dim(c, asked, c->arg[0].t->rank, &dim);
    c->plan[0] = dim;
    for (int i = 0; i <= s->indexed && !rc; i++) rc = op_need_same_shape(c, 0, s->out + i);
    return rc;
}

static int run_cum(op_call *c)
{
    const struct cum_spec *s = c->row->aux;
    const aclTensor *self = c->arg[0].t;
    aclDataType t = self->dtype;
    if (!s->indexed && sn_size((aclDataType)c->arg[2].i)) t = (aclDataType)c->arg[2].i;
    aclDataType as = sn_is_complex(t) ? ACL_COMPLEX128 : !sn_is_float(t) ? ACL_INT64 : sn_compute(t);
    row_fn fn = as == ACL_COMPLEX128 ? s->c128
                : as == ACL_FLOAT    ? s->f32
                : as == ACL_DOUBLE   ? s->f64
                                     : s->i64;
    if (!fn) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "is not defined for %s", sn_dtype(t)->name);
    const aclTensor *const all[] = {c->arg[s->out].t, self};
    if (as == ACL_FLOAT && s->columns && column_suits(self, (int32_t)c->plan[0]) &&
        column_run(c, (int32_t)c->plan[0], all, 1, s->columns, NULL))
        return 0;
    struct row_operand operand[3] = {{c->arg[s->out].t, as}};
    int nout = 1;
    if (s->indexed) operand[nout++] = (struct row_operand){c->arg[s->out + 1].t, ACL_INT64};
    operand[nout] = (struct row_operand){self, as};
    struct row_space space = {.first = (int32_t)c->plan[0], .count = 1};
    return row_run(c, &space, operand, nout, 1, fn, NULL);
}

#define CUM_ROW(name, T, A, first, step)                                                                     \
    static void name(const struct row_call *r)                                                               \
    {                                                                                                        \
        const T *x = r->p[1];                                                                                \
        T *y = r->p[0];                                                                                      \
        A a = first;                                                                                         \
        for (int64_t i = 0; i < r->n[1]; i++) {                                                              \
            a = a step(A) x[i];                                                                              \
            y[i] = (T)a;                                                                                     \
        }                                                                                                    \
    }
CUM_ROW(sum_f32, float, double, 0, +)
CUM_ROW(sum_f64, double, double, 0, +)
CUM_ROW(sum_i64, uint64_t, uint64_t, 0, +)
CUM_ROW(sum_c128, double _Complex, double _Complex, 0, +)
CUM_ROW(prod_f32, float, double, 1, *)
CUM_ROW(prod_f64, double, double, 1, *)
CUM_ROW(prod_i64, uint64_t, uint64_t, 1, *)
CUM_ROW(prod_c128, double _Complex, double _Complex, 1, *)

/* The last of equal extremes counts; once there is a NaN it stays, and later NaNs move its place. */
#define EXTREME_ROW(name, T, better)                                                                         \
    static void name(const struct row_call *r)                                                               \
    {                                                                                                        \
        const T *x = r->p[2];                                                                                \
        T *y = r->p[0];                                                                                      \
        int64_t *where = r->p[1], at = 0;                                                                    \
        for (int64_t i = 0; i < r->n[2]; i++) {                                                              \
            T v = x[i], best = i ? y[i - 1] : v;                                                             \
            bool take = v != v || (best == best && v better best);                                           \
            if (take) at = i;                                                                                \
            y[i] = take ? v : best;                                                                          \
            where[i] = at;                                                                                   \
        }                                                                                                    \
    }
EXTREME_ROW(max_f32, float, >=)
EXTREME_ROW(max_f64, double, >=)
EXTREME_ROW(max_i64, int64_t, >=)
EXTREME_ROW(min_f32, float, <=)
EXTREME_ROW(min_f64, double, <=)
EXTREME_ROW(min_i64, int64_t, <=)

static void sum_columns(const struct column_call *r, const void *ctx)
{
    (void)ctx;
    column_kernels()->cumsum(r->p[0], r->p[1], r->n, r->step, r->m);
}
static void prod_columns(const struct column_call *r, const void *ctx)
{
    (void)ctx;
    column_kernels()->cumprod(r->p[0], r->p[1], r->n, r->step, r->m);
}

static const struct cum_spec
    cum_sum =
        {.out = 3, .columns = sum_columns, .f32 = sum_f32, .f64 = sum_f64, .i64 = sum_i64, .c128 = sum_c128},
    cum_prod = {.out = 3,
                .scalar = true,
                .columns = prod_columns,
                .f32 = prod_f32,
                .f64 = prod_f64,
                .i64 = prod_i64,
                .c128 = prod_c128},
    cum_max = {.out = 2, .indexed = true, .f32 = max_f32, .f64 = max_f64, .i64 = max_i64},
    cum_min = {.out = 2, .indexed = true, .f32 = min_f32, .f64 = min_f64, .i64 = min_i64};

#define OP_FILE "softnpu/op/cum.inc"
#define OP_TABLE op_rows_cum
#include "softnpu/op/rows.h"
