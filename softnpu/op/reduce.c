/* reduce.c - reductions: sums, extremes, statistics, norms, any and all. */
#include "softnpu/op/reduce.h"

#include <math.h>

/* What distinguishes the rows. Places of arguments; 0 where the operator has none (0 is always self). */
struct reduce_spec {
    enum red_op op;
    int8_t dims; /* list of dimensions */
    int8_t dim;  /* one dimension */
    int8_t keep, dtype, correction;
    int8_t out[2]; /* the second: mean, indices or maximum */
    bool elements; /* refuses an empty reduction */
    bool floats;   /* integers are reduced as floats */
    bool indices;  /* out is the place of the extreme, not its value */
    void (*finish)(const op_call *c, const struct reduced *r);
};

/* What check leaves for run. */
enum { PLAN_DIMS, PLAN_KEEP };

static const struct reduce_spec *spec_of(const op_call *c)
{
    return c->row->aux;
}

static int find_dims(op_call *c, uint32_t *bits)
{
    const struct reduce_spec *s = spec_of(c);
    const aclTensor *self = c->arg[0].t;
    if (!s->dim) return reduce_dims(c, self, s->dims ? c->arg[s->dims].ia : NULL, bits);
    int32_t d;
    int rc = op_need_dim(c, c->arg[s->dim].i, self->rank, &d);
    *bits = self->rank && !rc ? 1u << d : 0;
    return rc;
}

static int check_reduce(op_call *c)
{
    const struct reduce_spec *s = spec_of(c);
    const aclTensor *self = c->arg[0].t;
    uint32_t bits;
    int rc = find_dims(c, &bits);
    c->plan[PLAN_DIMS] = bits;
    c->plan[PLAN_KEEP] = s->keep ? c->arg[s->keep].i : 0;
    if (!rc && s->elements) rc = reduce_need_elements(c, self, bits);
    for (int i = 0; i < 2 && !rc && s->out[i]; i++)
        rc = reduce_need_out(c, self, bits, c->plan[PLAN_KEEP], s->out[i]);
    return rc;
}

/* The type whose rules the elements follow before they are folded. */
static aclDataType element_type(const op_call *c)
{
    const struct reduce_spec *s = spec_of(c);
    aclDataType t = c->arg[0].t->dtype;
    if (s->op == RED_ANY || s->op == RED_ALL) return ACL_BOOL;
    if (s->dtype) {
        t = (aclDataType)c->arg[s->dtype].i;
        if (!sn_size(t)) t = c->arg[s->out[0]].t->dtype;
    }
    return s->floats && sn_is_integral(t) ? ACL_FLOAT : t;
}

/* Result i of the fold is element i of argument `arg`. */
static void store(op_call *c, int arg, const struct reduced *r, int plane, aclDataType dtype)
{
    aclTensor from;
    const aclTensor *to = c->arg[arg].t;
    sn_wrap(&from, dtype, to->rank, to->dim, (char *)r->acc + sn_size(dtype) * (size_t)(plane * r->kept));
    op_copy(c, to, &from);
}

static int run_reduce(op_call *c)
{
    const struct reduce_spec *s = spec_of(c);
    struct reduction what = {.self = c->arg[0].t, .dims = (uint32_t)c->plan[PLAN_DIMS], .op = s->op};
    struct reduced r;
    what.as = element_type(c);
    if (what.as == ACL_BOOL && s->op == RED_SUM) what.op = RED_ANY;
    if (what.as == ACL_BOOL && s->op == RED_PROD) what.op = RED_ALL;
    int rc = reduce_run(c, &what, &r);
    if (rc) return rc;
    if (s->finish) s->finish(c, &r);
    bool indexed = s->op == RED_ARGMAX || s->op == RED_ARGMIN;
    if (!s->indices) store(c, s->out[0], &r, 0, r.dtype);
    int second = s->indices ? s->out[0] : s->out[1];
    if (second) store(c, second, &r, 1, indexed ? ACL_INT64 : r.dtype);
    return 0;
}

static int run_aminmax(op_call *c)
{
    const struct reduce_spec *s = spec_of(c);
    struct reduction what = {
        .self = c->arg[0].t, .dims = (uint32_t)c->plan[PLAN_DIMS], .as = element_type(c)};
    for (int i = 0; i < 2; i++) {
        struct reduced r;
        what.op = i ? RED_MAX : RED_MIN;
        int rc = reduce_run(c, &what, &r);
        if (rc) return rc;
        store(c, s->out[i], &r, 0, r.dtype);
    }
    return 0;
}

/* ---- finishing: from accumulators to results, in place ---------------------------------------------------
 */

static void finish_mean(const op_call *c, const struct reduced *r)
{
    (void)c;
    double *a = r->acc;
    int64_t n = r->dtype == ACL_COMPLEX128 ? 2 * r->kept : r->kept;
    for (int64_t i = 0; i < n; i++) a[i] /= (double)r->each;
}

/* Planes count, mean, squares become variance, mean. */
static void finish_var(const op_call *c, const struct reduced *r)
{
    double *var = r->acc, *mean = var + r->kept;
    const double *square = mean + r->kept;
    double free = (double)r->each - (double)c->arg[spec_of(c)->correction].i;
    for (int64_t i = 0; i < r->kept; i++) {
        var[i] = square[i] / (free > 0 ? free : 0.0);
        if (!r->each) mean[i] = NAN;
    }
}

static void finish_std(const op_call *c, const struct reduced *r)
{
    finish_var(c, r);
    double *a = r->acc;
    for (int64_t i = 0; i < r->kept; i++) a[i] = sqrt(a[i]);
}

static void finish_logsumexp(const op_call *c, const struct reduced *r)
{
    (void)c;
    double *top = r->acc;
    const double *sum = top + r->kept;
    for (int64_t i = 0; i < r->kept; i++) top[i] += log(sum[i]);
}

/* ---- norms -----------------------------------------------------------------------------------------------
 */

static double norm_order(const op_call *c)
{
    return sn_scalar_f64(c->arg[1].s);
}

static enum red_op norm_fold(double p)
{
    if (p == 0) return RED_NONZERO;
    if (p == 1) return RED_ABS;
    if (p == 2) return RED_SQUARE;
    if (isinf(p)) return p > 0 ? RED_ABSMAX : RED_ABSMIN;
    return RED_POW;
}

static int check_norm(op_call *c)
{
    int rc = check_reduce(c);
    double p = norm_order(c);
    if (!rc && (p < 0 || isinf(p))) rc = reduce_need_elements(c, c->arg[0].t, (uint32_t)c->plan[PLAN_DIMS]);
    return rc;
}

/* p-norms of `what`, whose fold and exponent are set here; one double a result. */
static int norms(op_call *c, struct reduction *what, double p, struct reduced *r)
{
    what->op = norm_fold(p);
    what->p = p;
    int rc = reduce_run(c, what, r);
    if (rc) return rc;
    double *a = r->acc;
    for (int64_t i = 0; i < r->kept && what->op == RED_SQUARE; i++) a[i] = sqrt(a[i]);
    for (int64_t i = 0; i < r->kept && what->op == RED_POW; i++) a[i] = pow(a[i], 1 / p);
    return 0;
}

static int run_norm(op_call *c)
{
    struct reduction what = {
        .self = c->arg[0].t, .dims = (uint32_t)c->plan[PLAN_DIMS], .as = element_type(c)};
    struct reduced r;
    int rc = norms(c, &what, norm_order(c), &r);
    if (rc) return rc;
    store(c, spec_of(c)->out[0], &r, 0, r.dtype);
    return 0;
}

/* Slices along a dimension whose norm exceeds a bound are scaled down to it. aux: place of out. */
static const int renorm_out = 4, renorm_in_place = 0;

static int check_renorm(op_call *c)
{
    const aclTensor *self = c->arg[0].t;
    int32_t dim;
    int rc = op_need_dim(c, c->arg[2].i, self->rank, &dim);
    if (rc) return rc;
    c->plan[PLAN_DIMS] = ((1u << self->rank) - 1) & ~(1u << dim);
    double p = norm_order(c), most = sn_scalar_f64(c->arg[3].s);
    if (self->rank < 2)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self has %d dimensions, slices need 2", self->rank);
    if (p <= 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "p is %g, it must be positive", p);
    if (most < 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "maxNorm is %g, it must not be negative", most);
    return op_need_same_shape(c, 0, *(const int *)c->row->aux);
}

static void scale_f32(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    const float *x = p[1], *factor = p[2];
    for (int64_t i = 0; i < n; i++) ((float *)p[0])[i] = x[i] * factor[i];
}

static int run_renorm(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *out = c->arg[*(const int *)c->row->aux].t;
    struct reduction what = {.self = self, .dims = (uint32_t)c->plan[PLAN_DIMS], .as = self->dtype};
    struct reduced r;
    int rc = norms(c, &what, norm_order(c), &r);
    if (rc) return rc;
    double *factor = r.acc, most = sn_scalar_f64(c->arg[3].s);
    for (int64_t i = 0; i < r.kept; i++) factor[i] = factor[i] > most ? most / (factor[i] + 1e-7) : 1;
    int64_t dim[SN_MAX_DIMS];
    for (int32_t d = 0; d < self->rank; d++) dim[d] = what.dims >> d & 1 ? 1 : self->dim[d];
    aclTensor factors;
    sn_wrap(&factors, ACL_DOUBLE, self->rank, dim, factor);
    struct ew_operand operand[] = {
        {out, ACL_FLOAT, NULL}, {self, ACL_FLOAT, NULL}, {&factors, ACL_FLOAT, NULL}};
    return ew_run(c, operand, 1, 2, scale_f32, NULL);
}

/* ---- equal -----------------------------------------------------------------------------------------------
 */

static int check_equal(op_call *c)
{
    if (sn_numel(c->arg[2].t) != 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "out needs exactly one element");
    return 0;
}

static void same_f64(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    const double *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) ((uint8_t *)p[0])[i] = a[i] == b[i];
}

static void same_i64(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    const int64_t *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) ((uint8_t *)p[0])[i] = a[i] == b[i];
}

static void same_c128(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index, (void)ctx;
    const double _Complex *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) ((uint8_t *)p[0])[i] = a[i] == b[i];
}

static int run_equal(op_call *c)
{
    const aclTensor *self = c->arg[0].t, *other = c->arg[1].t, *out = c->arg[2].t;
    uint8_t *same = op_scratch(c, (size_t)sn_numel(self) + 1);
    aclTensor flags, result;
    sn_wrap(&flags, ACL_BOOL, self->rank, self->dim, same);
    int64_t all = 0;
    struct reduced r = {.acc = &all};
    if (sn_same_shape(self, other)) {
        aclDataType t = sn_promote(self->dtype, other->dtype);
        t = sn_is_complex(t) ? ACL_COMPLEX128 : sn_is_float(t) ? ACL_DOUBLE : ACL_INT64;
        struct ew_operand operand[] = {
            {.t = &flags, .as = ACL_BOOL}, {.t = self, .as = t}, {.t = other, .as = t}};
        int rc = ew_run(c, operand, 1, 2,
                        t == ACL_DOUBLE  ? same_f64
                        : t == ACL_INT64 ? same_i64
                                         : same_c128,
                        NULL);
        struct reduction what = {
            .self = &flags, .dims = (1u << flags.rank) - 1, .as = ACL_BOOL, .op = RED_ALL};
        if (!rc) rc = reduce_run(c, &what, &r);
        if (rc) return rc;
    }
    sn_wrap(&result, ACL_INT64, out->rank, out->dim, r.acc);
    op_copy(c, out, &result);
    return 0;
}

/* ---- the rows --------------------------------------------------------------------------------------------
 */

#define LIST_KEEP .dims = 1, .keep = 2
#define DIM_KEEP .dim = 1, .keep = 2
static const struct reduce_spec
    reduce_sum = {RED_SUM, LIST_KEEP, .dtype = 3, .out = {4}},
    reduce_sum_older = {RED_SUM, .dims = 1, .keep = 3, .out = {2}},
    reduce_mean = {RED_SUM, LIST_KEEP, .dtype = 3, .out = {4}, .floats = true, .finish = finish_mean},
    reduce_nansum = {RED_NANSUM, LIST_KEEP, .dtype = 3, .out = {4}},
    reduce_prod = {RED_PROD, .dtype = 1, .out = {2}},
    reduce_prod_dim = {RED_PROD, DIM_KEEP, .dtype = 3, .out = {4}},
    reduce_max = {RED_MAX, .out = {1}, .elements = true},
    reduce_min = {RED_MIN, .out = {1}, .elements = true},
    reduce_amax = {RED_MAX, LIST_KEEP, .out = {3}, .elements = true},
    reduce_amin = {RED_MIN, LIST_KEEP, .out = {3}, .elements = true},
    reduce_all = {RED_ALL, LIST_KEEP, .out = {3}}, reduce_any = {RED_ANY, LIST_KEEP, .out = {3}},
    reduce_logsumexp = {RED_LOGSUM, LIST_KEEP, .out = {3}, .floats = true, .finish = finish_logsumexp},
    reduce_var = {RED_MOMENTS, .dims = 1, .correction = 2, .keep = 3, .out = {4}, .finish = finish_var},
    reduce_std = {RED_MOMENTS, .dims = 1, .correction = 2, .keep = 3, .out = {4}, .finish = finish_std},
    reduce_var_mean = {RED_MOMENTS, .dims = 1,     .correction = 2,
                       .keep = 3,   .out = {4, 5}, .finish = finish_var},
    reduce_std_mean = {RED_MOMENTS, .dims = 1,     .correction = 2,
                       .keep = 3,   .out = {4, 5}, .finish = finish_std},
    reduce_max_dim = {RED_ARGMAX, DIM_KEEP, .out = {3, 4}, .elements = true},
    reduce_min_dim = {RED_ARGMIN, DIM_KEEP, .out = {3, 4}, .elements = true},
    reduce_argmax = {RED_ARGMAX, DIM_KEEP, .out = {3}, .elements = true, .indices = true},
    reduce_argmin = {RED_ARGMIN, DIM_KEEP, .out = {3}, .elements = true, .indices = true},
    reduce_aminmax = {RED_MAX, LIST_KEEP, .out = {3, 4}, .elements = true},
    reduce_aminmax_all = {RED_MAX, .out = {1, 2}, .elements = true},
    reduce_aminmax_dim = {RED_MAX, DIM_KEEP, .out = {3, 4}, .elements = true},
    reduce_norm = {RED_POW, .dims = 2, .keep = 3, .out = {4}, .floats = true},
    reduce_vector_norm = {RED_POW, .dims = 2, .keep = 3, .dtype = 4, .out = {5}, .floats = true};

#define OP_FILE "softnpu/op/reduce.inc"
#define OP_TABLE op_rows_reduce
#include "softnpu/op/rows.h"
#undef OP_FILE
#undef OP_TABLE

#define OP_INTERNAL
#define OP_FILE "softnpu/op/reduce_older.inc"
#define OP_TABLE op_rows_reduce_older
#include "softnpu/op/rows.h"
